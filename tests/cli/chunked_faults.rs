//! Images that are filtered in chunks, and what can go wrong: the process is killed, the disk is full, memory is short.
//! Nothing is half written, and another run completes the result.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use faltung::Image;

use super::chunked::{assert_same, contents};
use super::{Ended, Place};

/// An image of noise as a Zarr array `a.zarr`, and its undisturbed result `whole.zarr`.
fn prepared(width: usize, height: usize, chunk: &str, filter: &[&str]) -> Place {
    let place = Place::new();
    let value = |i: usize| (i.wrapping_mul(2_654_435_761) >> 13) as u16;
    let image = Image::new(width, height, 1, (0..width * height).map(value).collect()).unwrap();
    place.write("a.npy", image);
    place.filter(&["a.npy", "-o", "a.zarr", "--identity", "--chunk", chunk]).with(0, &[]);
    place.filter(&[&["a.zarr", "-o", "whole.zarr"], filter].concat()).with(0, &[]);
    place
}

/// Chunk files that exist, without unfinished ones.
fn chunks(folder: &Path) -> usize {
    if !folder.exists() {
        return 0;
    }
    contents(folder).iter().filter(|(name, _)| name.starts_with("c/") && !name.contains(".host-unfinished-")).count()
}

/// Starts the program on `a.zarr`.
fn start(place: &Place, filter: &[&str]) -> Child {
    let common = ["filter", "--device", "cpu", "a.zarr", "-o", "b.zarr", "--skip-existing"];
    let mut command = place.interruptible(&[&common, filter].concat());
    command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// After a kill at any moment the array has whole chunks only. The last run completes it. Then its bytes are those of a
/// run without a kill.
#[test]
fn a_killed_run_is_completed() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let filter = ["--gaussian", "6", "--exact"];
    let place = prepared(1500, 1300, "100", &filter);
    let (whole, found) = (place.path("whole.zarr"), place.path("b.zarr"));
    let all = chunks(&whole);
    assert_eq!(all, 195);
    // Not all moments of a run are alike: before the metadata, between chunks, within one.
    let mut done = Vec::new();
    for _ in 0..8 {
        let mut child = start(&place, &filter);
        std::thread::sleep(Duration::from_millis(random.u64(5..150)));
        child.kill().unwrap();
        child.wait().unwrap();
        done.push(chunks(&found));
        if found.exists() {
            let right = contents(&whole);
            for (name, bytes) in contents(&found).iter().filter(|(name, _)| !name.contains(".host-unfinished-")) {
                let expected = right.iter().find(|(known, _)| known == name);
                assert!(expected.is_some_and(|(_, expected)| expected == bytes), "{name} is not the right one");
            }
        }
    }
    println!("chunks after each kill: {done:?} of {all}");
    assert!(done.is_sorted(), "a run lost chunks: {done:?}");
    Ended::from(start(&place, &filter).wait_with_output().unwrap()).with(0, &[]);
    assert_same(&found, &whole);
}

#[test]
fn an_interrupted_run_says_how_it_goes_on() {
    let filter = ["--gaussian", "6", "--exact"];
    let place = prepared(1500, 1300, "100", &filter);
    let child = start(&place, &filter);
    while chunks(&place.path("b.zarr")) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    Ended::from(child.wait_with_output().unwrap()).with(130, &["interrupted; the same command with --skip-existing "]);
    Ended::from(start(&place, &filter).wait_with_output().unwrap()).with(0, &[]);
    assert_same(&place.path("b.zarr"), &place.path("whole.zarr"));
}

/// A file that can't be written ends the run. What is written is whole, the rest is listed, and a second run completes
/// it.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let filter = ["--gaussian", "2"];
    let place = prepared(400, 400, "100", &filter);
    // One chunk is larger than the largest file that is allowed; noise does not compress.
    let script = "ulimit -f 16; exec \"$0\" \"$@\"";
    let host = super::program();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script]).arg(host).args(["filter", "--device", "cpu", "a.zarr", "-o", "b.zarr"]).args(filter);
    let ended = Ended::from(command.current_dir(place.path("")).stdin(Stdio::null()).output().unwrap());
    let ended = ended.with(1, &["error: chunk c/", "writing: ", "File too large", "missing: 16 of 16 chunks: c/0/0, "]);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    assert_eq!(contents(&place.path("b.zarr")).len(), 1, "only the metadata");
    place.filter(&[&["a.zarr", "-o", "b.zarr", "--skip-existing"], &filter[..]].concat()).with(0, &["16 of 16"]);
    assert_same(&place.path("b.zarr"), &place.path("whole.zarr"));
    // A file in the place of a folder.
    fs::remove_dir_all(place.path("b.zarr/c/2")).unwrap();
    fs::write(place.path("b.zarr/c/2"), "").unwrap();
    let again = place.filter(&[&["a.zarr", "-o", "b.zarr", "--skip-existing"], &filter[..]].concat());
    again.with(1, &["writing: ", "missing: 4 of 16 chunks: c/2/0, c/2/1, c/2/2, c/2/3"]);
}

/// Waits for a child, and returns its status and the peak of its memory in bytes. The kernel keeps the peak as long as
/// the process runs. (`wait4` would count the memory of this process, too, because the child began as its copy.)
#[cfg(target_os = "linux")]
fn peak_of(child: &mut Child) -> std::io::Result<(Option<i32>, u64)> {
    let mut peak = 0;
    loop {
        let listing = fs::read_to_string(format!("/proc/{}/status", child.id()))?;
        let line = listing.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        // Before it is this program, the child is a copy of the test.
        if listing.starts_with("Name:\thost\n") {
            peak = kibibytes.map_or(peak, |found| peak.max(found * 1024));
        }
        if let Some(status) = child.try_wait()? {
            return Ok((status.code(), peak));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The whole process keeps within `--memory`, which holds neither the image nor as many chunks as there are threads.
#[cfg(target_os = "linux")]
#[test]
fn the_process_keeps_within_its_memory() {
    use std::io::Write;

    let place = Place::new();
    const SIDE: usize = 8192;
    let mut header = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({SIDE}, {SIDE}), }}");
    header.push_str(&" ".repeat(117 - header.len()));
    header.push('\n');
    let mut file = std::io::BufWriter::new(fs::File::create(place.path("a.npy")).unwrap());
    file.write_all(&[b"\x93NUMPY\x01\x00\x76\x00", header.as_bytes()].concat()).unwrap();
    // Noise, so that coded chunks take as much as their values.
    let mut random = fastrand::Rng::with_seed(9);
    let mut row = vec![0_u8; 2 * SIDE];
    for _ in 0..SIDE {
        random.fill(&mut row);
        file.write_all(&row).unwrap();
    }
    file.into_inner().unwrap();
    for (input, output, memory) in
        [("a.npy", "a.zarr", 100_u64), ("a.zarr", "b.zarr", 100), ("a.zarr", "b.npy", 70), ("a.npy", "b.tif", 60)]
    {
        let limit = format!("{memory}M");
        let arguments = ["filter", "--device", "cpu", input, "-o", output, "--box", "3", "--memory", &limit];
        let chunk: &[&str] = if output == "a.zarr" { &["--chunk", "2048"] } else { &[] };
        let mut command = place.command(&[&arguments[..], chunk].concat());
        // What takes memory is the number of threads, too.
        command.env("RAYON_NUM_THREADS", "2");
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap();
        let (status, peak) = peak_of(&mut child).unwrap();
        println!("{input} to {output}: {} of {memory} MiB", peak >> 20);
        assert_eq!(status, Some(0));
        assert!(peak > 10 << 20, "{peak} bytes are not those of the program");
        assert!(peak <= memory << 20, "{peak} bytes for --memory {limit}");
    }
}
