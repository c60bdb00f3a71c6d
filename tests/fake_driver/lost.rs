//! The program's messages about a lost device, and about calls that the driver or the system refuses.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::Test;
use crate::run::{Ended, FILTER, host};

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
/// The message about it.
const IS_LOST: &str = "the CUDA device is lost: ";

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
/// Returns the number of results, too.
fn filter(place: &Path, settings: &str, device: &str, more: &[&str]) -> Result<(Ended, usize), Failed> {
    let run = |output: &str, device: &str| {
        let arguments = [&["filter", "in", "-o", output, "--device", device], &FILTER[..], more].concat();
        host(place, &format!("delay_us=1000;{settings}"), &arguments)
    };
    run("right/", "cpu").well_on_cpu()?;
    let ended = run("found/", device);
    println!("{}", ended.stderr);
    let mut written = 0;
    for number in 0..COUNT {
        let file = |folder: &str| fs::read(place.join(format!("{folder}/{number}.pgm")));
        if let Ok(found) = file("found") {
            assert!(found == file("right")?, "picture {number} is wrong");
            written += 1;
        }
    }
    Ok((ended, written))
}

fn auto_goes_on_on_the_cpu() -> Result<(), Failed> {
    for quiet in [&[][..], &["--quiet"]] {
        let (run, written) = filter(pictures()?.path(), BREAKS_OFF, "auto", quiet)?;
        assert_eq!((run.status, written), (Some(0), COUNT));
        let line = run.line(IS_LOST)?;
        assert!(line.contains("unspecified launch failure") && line.contains("on the CPU"), "{line}");
    }
    Ok(())
}

fn a_device_by_name_begins_nothing_else() -> Result<(), Failed> {
    let (run, written) = filter(pictures()?.path(), BREAKS_OFF, "cuda:0", &[])?;
    assert_eq!(run.status, Some(1));
    assert!((1..COUNT).contains(&written), "{written} results");
    let error = run.line("error: ")?;
    assert!(error.contains(IS_LOST) && error.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{error}");
    let (failed, others) = (COUNT - written, COUNT - written - 1);
    let summary = format!("{failed} of {COUNT} pictures failed, {others} of them not begun because the device is lost");
    assert_eq!(run.lines("pictures failed"), [summary]);
    Ok(())
}

/// A batch on several devices has the results of one. If one of them fails, another one does its work.
fn the_other_device_goes_on() -> Result<(), Failed> {
    for devices in 1..4 {
        let (run, written) = filter(pictures()?.path(), &format!("devices={devices}"), "cuda:all", &[])?;
        assert_eq!((run.status, written), (Some(0), COUNT));
        assert!(run.lines("warning").is_empty(), "{}", run.stderr);
    }
    for call in [1, 2, 5] {
        let settings = format!("devices=2;fail=cuGraphLaunch:{call}:719:once");
        let (run, written) = filter(pictures()?.path(), &settings, "cuda:0,cuda:1", &[])?;
        assert_eq!((run.status, written), (Some(0), COUNT));
        let line = run.line(IS_LOST)?;
        assert!(line.starts_with("warning: ") && (line.contains("(cuda:0)") || line.contains("(cuda:1)")), "{line}");
    }
    Ok(())
}

fn without_devices_nothing_else_begins() -> Result<(), Failed> {
    let (run, written) = filter(pictures()?.path(), "devices=2;fail=cuGraphLaunch:2:719:lost", "cuda:all", &[])?;
    assert_eq!(run.status, Some(1));
    assert!((1..COUNT).contains(&written), "{written} results");
    assert!(run.stderr.contains(&format!("{} of {COUNT} pictures failed", COUNT - written)), "{}", run.stderr);
    Ok(())
}

fn a_refused_graph_is_noted() -> Result<(), Failed> {
    let (run, written) = filter(pictures()?.path(), "fail=cuGraphCreate:1:801:always", "auto", &[])?;
    assert_eq!((run.status, written), (Some(0), COUNT));
    let line = run.line("computed in separate steps: ")?;
    assert!(line.contains("build a graph of launches: operation not supported"), "{line}");
    Ok(())
}

fn refused_page_locked_memory_is_noted() -> Result<(), Failed> {
    let (run, written) = filter(pictures()?.path(), "fail=cuMemAllocHost_v2:1:304:always", "cuda:0", &[])?;
    assert_eq!((run.status, written), (Some(0), COUNT));
    let line = run.line("computed in separate steps: ")?;
    assert!(line.contains("page-locked memory") && line.contains("OS call failed"), "{line}");
    Ok(())
}

fn a_refused_module_keeps_its_source() -> Result<(), Failed> {
    let (run, written) = filter(pictures()?.path(), "fail=cuModuleLoadDataEx:1:222:always", "cuda:0", &[])?;
    assert_eq!((run.status, written), (Some(1), 0));
    let words = "it supports CUDA 12.4: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)";
    assert_eq!(run.lines("the CUDA driver is too old: PTX ").len(), COUNT, "{}", run.stderr);
    assert_eq!(run.lines(words).len(), COUNT, "{}", run.stderr);
    Ok(())
}
