//! Limits that the system sets for a process. A picture that exceeds one has an error of its own.
#![cfg(target_os = "linux")]

use super::*;

/// `host filter in -o out/` on the CPU, in a shell that first sets a limit.
fn limited(place: &Place, limit: &str, more: &str) -> Ended {
    let script = format!("{limit} && exec \"$0\" filter --device cpu in -o out/ {more}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program()).current_dir(place.path("")).stdin(Stdio::null());
    shell.output().unwrap().into()
}

/// The number of files in `out`, all under their final names.
fn made(place: &Place) -> usize {
    let names: Vec<_> = place.names().into_iter().filter(|name| name.starts_with("out/")).collect();
    assert!(!names.iter().any(|name| name.contains("unfinished")), "{names:?}");
    names.len()
}

/// The least limit of the address space, in steps of 500 kB, with which the program says its version.
fn least_address_space() -> usize {
    let starts = |kilobytes: &usize| {
        let script = format!("ulimit -v {kilobytes} && exec \"$0\" --version");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program()).stdin(Stdio::null());
        shell.output().unwrap().status.success()
    };
    (10_000..100_000).step_by(500).find(starts).expect("100 MB are enough to start")
}

/// With little address space a run is slower. With too little each picture fails with its name. The program does not
/// crash.
#[test]
fn address_space() {
    const PICTURES: usize = 6;
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/0.png", picture(1600, 1200, 3, |i| i as u8));
    for number in 1..PICTURES {
        fs::copy(place.path("in/0.png"), place.path(format!("in/{number}.png"))).unwrap();
    }
    // From what the program takes to start, which grows with its kernels, to what is enough.
    let least = least_address_space();
    for kilobytes in [least, least + 15_000, least + 30_000, 150_000, 400_000] {
        let ended = limited(&place, &format!("ulimit -v {kilobytes}"), "--box 3");
        let failed = ended.stderr.lines().filter(|line| line.starts_with("error: ")).count();
        println!("{kilobytes}: {failed} failed\n{}", ended.stderr);
        assert_eq!(made(&place), PICTURES - failed);
        assert!(failed == 0 || kilobytes < 400_000);
        ended.with(i32::from(failed > 0), &[]);
        let _ = fs::remove_dir_all(place.path("out"));
    }
}

/// A result above the limit of file sizes is an error of its own.
#[test]
fn file_size() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/large.npy", picture(1000, 200, 1, |i| i as u8));
    place.write("in/small.npy", picture(10, 20, 1, |i| i as u8));
    let ended = limited(&place, "ulimit -f 100", "--identity");
    ended.with(1, &["out/large.npy: ", "File too large", "1 of 2 pictures failed"]);
    assert_eq!(made(&place), 1);
}

/// A full disk is named, whatever the format.
#[test]
fn openexr_says_why_it_is_not_written() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/a.exr", picture(400, 300, 3, |i| i as f32));
    let ended = limited(&place, "ulimit -f 16", "--identity").with(1, &["error: out/a.exr: File too large"]);
    assert!(!ended.stderr.contains("decoding"), "{}", ended.stderr);
}

/// Help that can't be written is an error, as a result is.
#[test]
fn help_on_a_full_disk() {
    let place = Place::new();
    for args in [&["--help"][..], &["filter", "--help"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Ended::from(place.command(args).stdout(full).output().unwrap());
        ended.with(1, &["error: standard output: No space left on device"]);
    }
}

/// The program does not begin more threads than the system can start.
#[test]
fn many_threads() {
    let place = Place::new();
    place.write("a.png", picture(9, 7, 1, |i| i as u8));
    let mut command = place.command(&["filter", "--device", "cpu", "a.png", "-o", "b.png", "--box", "3"]);
    Ended::from(command.env("RAYON_NUM_THREADS", "100000").output().unwrap()).quietly();
}

/// The emulator, too, says what it needed; it neither panics nor waits for ever.
#[test]
fn address_space_of_the_emulator() {
    let place = Place::new();
    place.write("a.png", picture(700, 500, 3, |i| i as u8));
    let mut failed = 0;
    // Which allocation is the first to fail depends on the limit: small steps meet many of them.
    for kilobytes in (40_000..140_000).step_by(2_000).chain([200_000, 300_000]) {
        let limit = format!("ulimit -v {kilobytes}");
        let script =
            format!("{limit} && exec timeout 100 \"$0\" filter --device emulator a.png -o b.png --box 9 --overwrite");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(program()).current_dir(place.path("")).stdin(Stdio::null());
        let ended = Ended::from(shell.output().unwrap());
        println!("{kilobytes}: {} {}", ended.status, ended.stderr);
        if ended.status == 0 {
            continue;
        }
        failed += 1;
        ended.with(1, &["a.png", "memory"]);
    }
    assert!(failed > 0);
}
