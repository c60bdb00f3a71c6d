//! What other processes, signals and a loss of power do to a run.
#![cfg(target_os = "linux")]

use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::{Duration, Instant};

use super::*;

const PICTURES: usize = 40;

/// Pictures that take some time to write.
fn prepared(side: usize) -> Place {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/00.png", picture(side, side, 3, |i| ((i * i) >> 5) as u8));
    for number in 1..PICTURES {
        fs::hard_link(place.path("in/00.png"), place.path(format!("in/{number:02}.png"))).unwrap();
    }
    place
}

/// `host filter in -o FOLDER`, in a shell that does something first.
fn after(place: &Place, first: &str, folder: &str) -> Child {
    let script = format!("{first}; exec \"$0\" filter --device cpu in -o {folder} --kernel '3x1: 1,-1,1' --overwrite");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).arg(program()).current_dir(place.path(""));
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until something is there.
fn until<T>(child: &mut Child, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return Some(found);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nothing happens");
    }
}

/// The temporary files in a folder.
fn unfinished(place: &Place, folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.path(folder)) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(".host-unfinished-")).collect()
}

/// Whether all threads of a process stand still.
fn is_stopped(process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // The state comes after the name, which is in parentheses and may hold any character.
    let state = |stat: String| stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('T'));
    tasks.flatten().all(|task| fs::read_to_string(task.path().join("stat")).ok().and_then(state) == Some(true))
}

/// `nohup host filter …`, and what a shell starts in the background: a signal that was ignored stays ignored.
#[test]
fn ignored_signals_stay_ignored() {
    let place = prepared(300);
    let mut child = after(&place, "trap '' HUP INT", "out/");
    until(&mut child, || place.path("out/01.png").exists().then_some(())).expect("a result before the end");
    send("-HUP", &child);
    send("-INT", &child);
    let ended = Ended::from(child.wait_with_output().unwrap());
    ended.with(0, &[&format!("{PICTURES} pictures in ")]);
    // TERM was not.
    let mut child = after(&place, "trap '' HUP INT", "again/");
    until(&mut child, || place.path("again/01.png").exists().then_some(())).expect("a result before the end");
    send("-TERM", &child);
    Ended::from(child.wait_with_output().unwrap()).with(143, &["interrupted after "]);
}

/// A run removes the unfinished files of a killed run, but not those of a running one.
#[test]
fn left_over_files_are_removed() {
    let place = prepared(500);
    // Killed while it writes, not between two files.
    let left = (0..50).find_map(|_| {
        let mut child = after(&place, ":", "out/");
        let _ = until(&mut child, || unfinished(&place, "out").pop());
        child.kill().unwrap();
        assert!(matches!(child.wait().unwrap().signal(), Some(9) | None));
        Some(unfinished(&place, "out")).filter(|left| !left.is_empty())
    });
    let left = left.expect("a temporary file of a killed run");
    // A run that stands still in the middle of a file.
    let mut alive = after(&place, ":", "out/");
    let begun = until(&mut alive, || unfinished(&place, "out").into_iter().find(|name| !left.contains(name)));
    send("-STOP", &alive);
    begun.expect("a temporary file of a living run");
    // Until then a thread may finish its file.
    let process = alive.id();
    until(&mut alive, || is_stopped(process).then_some(())).expect("a process that stands still");
    let of_the_living: Vec<_> = unfinished(&place, "out").into_iter().filter(|name| !left.contains(name)).collect();
    place.filter(&["in/00.png", "-o", "out/another.png", "--identity", "-q"]).quietly();
    let after_it = unfinished(&place, "out");
    assert!(!after_it.iter().any(|name| left.contains(name)), "{after_it:?} of {left:?}");
    for name in &of_the_living {
        assert!(after_it.contains(name), "{name} is not among {after_it:?}");
    }
    send("-CONT", &alive);
    Ended::from(alive.wait_with_output().unwrap()).with(0, &[&format!("{PICTURES} pictures in ")]);
    assert_eq!(unfinished(&place, "out"), [""; 0]);
}

/// A library that stands between the program and the C library. It writes into the file HOST_TEST_LOG what is synced,
/// and when exit handlers run.
const BETWEEN: &str = r#"
use std::ffi::c_int;
use std::io::Write;
unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
    fn fdatasync(file: c_int) -> c_int;
}
fn log(line: &str) {
    let Some(path) = std::env::var_os("HOST_TEST_LOG") else { return };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}
extern "C" fn at_exit() {
    log("exit handlers");
}
extern "C" fn begin() {
    unsafe { atexit(at_exit) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;
#[unsafe(no_mangle)]
extern "C" fn fsync(file: c_int) -> c_int {
    let path = std::fs::read_link(format!("/proc/self/fd/{file}")).unwrap();
    let mut names: Vec<_> = match path.read_dir() {
        Ok(entries) => entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect(),
        Err(_) => Vec::new(),
    };
    names.sort();
    log(&format!("{} {}", path.file_name().unwrap().to_str().unwrap(), names.join(" ")));
    unsafe { fdatasync(file) }
}
"#;

/// Compiles that library; None where there is no compiler, as on a machine to which the test was moved.
fn between(place: &Place) -> Option<PathBuf> {
    fs::write(place.path("between.rs"), BETWEEN).unwrap();
    let library = place.path("between.so");
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition", "2024", "--crate-type", "cdylib", "-o"]).arg(&library).arg(place.path("between.rs"));
    match rustc.output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            eprintln!("rustc can't be run, so nothing is tested: {error}");
            return None;
        }
    }
    Some(library)
}

/// The lines that a run left in the log.
fn logged(place: &Place, library: &Path, run: impl FnOnce(&mut Command)) -> Vec<String> {
    let _ = fs::remove_file(place.path("log"));
    let args = ["filter", "--device", "cpu", "in", "-o", "out/", "--identity", "--overwrite"];
    let mut command = place.interruptible(&args);
    command.env("LD_PRELOAD", library).env("HOST_TEST_LOG", place.path("log")).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    run(&mut command);
    fs::read_to_string(place.path("log")).unwrap_or_default().lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Each file is synced before it has its name, and the folder once, when all have theirs.
#[test]
fn results_outlive_a_loss_of_power() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for name in ["in/a.png", "in/b.png"] {
        place.write(name, picture(20, 10, 3, |i| i as u8));
    }
    let Some(library) = between(&place) else { return };
    let lines = logged(&place, &library, |command| assert!(command.status().unwrap().success()));
    let [first, second, folder, handlers] = lines.as_slice() else { panic!("{lines:?}") };
    for file in [first, second] {
        assert!(file.starts_with(".host-unfinished-"), "{lines:?}");
    }
    assert_eq!((folder.as_str(), handlers.as_str()), ("out a.png b.png", "exit handlers"));
}

/// A signal ends the program without exit handlers, such as those of the CUDA driver. Without a signal they run.
#[test]
fn a_signal_runs_no_exit_handlers() {
    let place = prepared(300);
    let Some(library) = between(&place) else { return };
    let lines = logged(&place, &library, |command| assert!(command.status().unwrap().success()));
    assert_eq!(lines.last().map(String::as_str), Some("exit handlers"));
    for (signal, status) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        fs::remove_dir_all(place.path("out")).unwrap();
        let lines = logged(&place, &library, |command| {
            let mut child = command.spawn().unwrap();
            until(&mut child, || place.path("out/01.png").exists().then_some(())).expect("a result before the end");
            send(signal, &child);
            assert_eq!(child.wait().unwrap().code(), Some(status), "{signal}");
        });
        assert!(!lines.iter().any(|line| line == "exit handlers"), "{signal}: {lines:?}");
        assert_eq!(unfinished(&place, "out"), [""; 0]);
    }
}
