//! What the program says of a device that is lost, and of what the driver or the system refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::Test;
use crate::fake::folder;

pub(crate) const TESTS: &[Test] = &[
    ("lost_device_of_auto", auto_goes_on_on_the_cpu),
    ("lost_device_by_name", a_device_by_name_begins_nothing_else),
    ("lost_device_of_two", the_other_device_goes_on),
    ("lost_devices_of_two", without_devices_nothing_else_begins),
    ("refused_graph_is_noted", a_refused_graph_is_noted),
    ("refused_page_locked_memory_is_noted", refused_page_locked_memory_is_noted),
    ("refused_module_keeps_its_source", a_refused_module_keeps_its_source),
];

/// Pictures of a batch.
const COUNT: usize = 9;
/// A kernel that breaks off while it runs, in the first graph.
const BREAKS_OFF: &str = "fail=cuGraphLaunch:1:719:late";
/// What is said of it.
const IS_LOST: &str = "the CUDA device is lost: ";

/// A run of the program.
struct Run {
    status: Option<i32>,
    stderr: String,
    /// Results that were written.
    written: usize,
}

impl Run {
    /// Lines of the messages with these words.
    fn lines(&self, words: &str) -> Vec<&str> {
        self.stderr.lines().filter(|line| line.contains(words)).collect()
    }
}

/// A folder `in` with pictures of one size.
fn pictures() -> Result<TempDir, Failed> {
    let place = tempfile::tempdir()?;
    fs::create_dir(place.path().join("in"))?;
    for number in 0..COUNT {
        let mut file = b"P5 40 30 255\n".to_vec();
        file.extend((0..40 * 30).map(|i| ((i * i * 7 + number) % 251) as u8));
        fs::write(place.path().join(format!("in/{number}.pgm")), file)?;
    }
    Ok(place)
}

/// Filters the pictures under these settings of the driver, and holds what is written against the CPU's results.
fn filter(place: &Path, settings: &str, device: &str, more: &[&str]) -> Result<Run, Failed> {
    let run = |output: &str, device: &str| {
        Command::new(env!("CARGO_BIN_EXE_host"))
            .args(["filter", "in", "-o", output, "--kernel", "3x3: 0.5 1 -2 3 0.25 1.5 -1 2 0.125", "--exact"])
            .args(["--device", device])
            .args(more)
            .current_dir(place)
            .env("LD_LIBRARY_PATH", folder())
            .env("FAKE_CUDA", format!("delay_us=1000;{settings}"))
            .output()
    };
    assert!(run("right/", "cpu")?.status.success());
    let output = run("found/", device)?;
    let mut written = 0;
    for number in 0..COUNT {
        let file = |folder: &str| fs::read(place.join(format!("{folder}/{number}.pgm")));
        if let Ok(found) = file("found") {
            assert!(found == file("right")?, "picture {number} is wrong");
            written += 1;
        }
    }
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{stderr}");
    Ok(Run { status: output.status.code(), stderr, written })
}

fn auto_goes_on_on_the_cpu() -> Result<(), Failed> {
    for quiet in [&[][..], &["--quiet"]] {
        let run = filter(pictures()?.path(), BREAKS_OFF, "auto", quiet)?;
        assert_eq!((run.status, run.written), (Some(0), COUNT));
        let [line] = run.lines(IS_LOST)[..] else { return Err(format!("not said once: {}", run.stderr).into()) };
        assert!(line.contains("unspecified launch failure") && line.contains("on the CPU"), "{line}");
    }
    Ok(())
}

fn a_device_by_name_begins_nothing_else() -> Result<(), Failed> {
    let run = filter(pictures()?.path(), BREAKS_OFF, "cuda:0", &[])?;
    assert_eq!(run.status, Some(1));
    assert!((1..COUNT).contains(&run.written), "{} results", run.written);
    let [error] = run.lines("error: ")[..] else { return Err(format!("not one error: {}", run.stderr).into()) };
    assert!(error.contains(IS_LOST) && error.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
    let (failed, others) = (COUNT - run.written, COUNT - run.written - 1);
    let summary = format!("{failed} of {COUNT} pictures failed, {others} of them not begun because the device is lost");
    assert_eq!(run.lines("pictures failed"), [summary]);
    Ok(())
}

/// A batch on several devices has the results of one. If one of them fails, another one does its work.
fn the_other_device_goes_on() -> Result<(), Failed> {
    for devices in 1..4 {
        let run = filter(pictures()?.path(), &format!("devices={devices}"), "cuda:all", &[])?;
        assert_eq!((run.status, run.written), (Some(0), COUNT));
        assert!(run.lines("warning").is_empty(), "{}", run.stderr);
    }
    for call in [1, 2, 5] {
        let settings = format!("devices=2;fail=cuGraphLaunch:{call}:719:once");
        let run = filter(pictures()?.path(), &settings, "cuda:0,cuda:1", &[])?;
        assert_eq!((run.status, run.written), (Some(0), COUNT));
        let [line] = run.lines(IS_LOST)[..] else { return Err(format!("not said once: {}", run.stderr).into()) };
        assert!(line.starts_with("warning: ") && (line.contains("(cuda:0)") || line.contains("(cuda:1)")), "{line}");
    }
    Ok(())
}

fn without_devices_nothing_else_begins() -> Result<(), Failed> {
    let run = filter(pictures()?.path(), "devices=2;fail=cuGraphLaunch:2:719:lost", "cuda:all", &[])?;
    assert_eq!(run.status, Some(1));
    assert!((1..COUNT).contains(&run.written), "{} results", run.written);
    assert!(run.stderr.contains(&format!("{} of {COUNT} pictures failed", COUNT - run.written)), "{}", run.stderr);
    Ok(())
}

fn a_refused_graph_is_noted() -> Result<(), Failed> {
    let run = filter(pictures()?.path(), "fail=cuGraphCreate:1:801:always", "auto", &[])?;
    assert_eq!((run.status, run.written), (Some(0), COUNT));
    let [line] = run.lines("computed in separate steps: ")[..] else { return Err("not noted once".into()) };
    assert!(line.contains("build a graph of launches: operation not supported"), "{line}");
    Ok(())
}

fn refused_page_locked_memory_is_noted() -> Result<(), Failed> {
    let run = filter(pictures()?.path(), "fail=cuMemAllocHost_v2:1:304:always", "cuda:0", &[])?;
    assert_eq!((run.status, run.written), (Some(0), COUNT));
    let [line] = run.lines("computed in separate steps: ")[..] else { return Err("not noted once".into()) };
    assert!(line.contains("page-locked memory") && line.contains("OS call failed"), "{line}");
    Ok(())
}

fn a_refused_module_keeps_its_source() -> Result<(), Failed> {
    let run = filter(pictures()?.path(), "fail=cuModuleLoadDataEx:1:222:always", "cuda:0", &[])?;
    assert_eq!((run.status, run.written), (Some(1), 0));
    let words = "it supports CUDA 12.4: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)";
    assert_eq!(run.lines("the CUDA driver is too old: PTX ").len(), COUNT, "{}", run.stderr);
    assert_eq!(run.lines(words).len(), COUNT, "{}", run.stderr);
    Ok(())
}
