//! Images in chunks on several devices. Each chunk goes to a free device. A device that fails is named, and others do
//! its work.

use std::fs;
use std::path::{Path, PathBuf};

use faltung::Image;
use host::files::{OverwritePolicy, Picture};
use libtest_mimic::Failed;
use tempfile::TempDir;

use crate::Test;
use crate::run::{Ended, FILTER, host};

pub(crate) const TESTS: &[Test] = &[
    ("chunks_on_two_devices", two_devices_do_the_work_of_one),
    ("chunks_of_a_failing_device", a_device_that_fails_is_named_and_replaced),
    ("chunks_without_devices", without_devices_the_rest_is_listed),
    ("chunks_of_auto", auto_goes_on_on_the_cpu),
];

const CHUNKS: usize = 20;

/// Filters `a.zarr` under these settings of the driver.
fn filter(place: &Path, settings: &str, output: &str, more: &[&str]) -> Ended {
    let arguments = [&["filter", "a.zarr", "-o", output], &FILTER[..], more].concat();
    let ended = host(place, &format!("delay_us=1000;{settings}"), &arguments);
    println!("{}", ended.stderr);
    ended
}

/// An array `a.zarr`, and its result on the CPU, `right.zarr`.
fn prepared() -> Result<TempDir, Failed> {
    let place = tempfile::tempdir()?;
    let image = Image::from_fn(100, 80, |x, y| ((x * x * 7 + y * 31) % 251) as u8)?;
    Picture::from(image).write(place.path().join("a.npy"), OverwritePolicy::Keep)?;
    let arguments = ["filter", "a.npy", "-o", "a.zarr", "--identity", "--chunk", "20", "--device", "cpu"];
    host(place.path(), "", &arguments).well_on_cpu()?;
    filter(place.path(), "", "right.zarr", &["--device", "cpu"]).well_on_cpu()?;
    Ok(place)
}

/// The chunks of an array with their bytes.
fn chunks(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = files(folder.join("c")).flat_map(files).collect();
    found.sort();
    let name = |path: &PathBuf| path.strip_prefix(folder).expect("it is in the folder").to_owned();
    found.iter().map(|path| (name(path), fs::read(path).expect("a file"))).collect()
}

#[track_caller]
fn assert_right(place: &Path, output: &str) {
    let (right, found) = (chunks(&place.join("right.zarr")), chunks(&place.join(output)));
    assert_eq!((right.len(), found.len()), (CHUNKS, CHUNKS));
    assert!(right == found, "{output} has other bytes");
}

fn two_devices_do_the_work_of_one() -> Result<(), Failed> {
    let place = prepared()?;
    for devices in 1..4 {
        let output = format!("{devices}.zarr");
        let run = filter(place.path(), &format!("devices={devices}"), &output, &["--device", "cuda:all"]);
        assert_eq!(run.status, Some(0));
        assert!(!run.stderr.contains("warning"), "{}", run.stderr);
        assert_right(place.path(), &output);
    }
    // Two of three, in another order. Nobody opens the one between them.
    let run = filter(place.path(), "devices=3", "some.zarr", &["--device", "cuda:2,cuda:0"]);
    assert_eq!(run.status, Some(0));
    assert_right(place.path(), "some.zarr");
    let run = filter(place.path(), "devices=2", "none.zarr", &["--device", "cuda:1,cuda:2"]);
    assert_eq!(run.status, Some(3));
    assert!(run.stderr.contains("device 2 was asked for"), "{}", run.stderr);
    Ok(())
}

fn a_device_that_fails_is_named_and_replaced() -> Result<(), Failed> {
    let place = prepared()?;
    for call in [1, 2, 7] {
        let output = format!("{call}.zarr");
        let settings = format!("devices=2;fail=cuGraphLaunch:{call}:719:once");
        let run = filter(place.path(), &settings, &output, &["--device", "cuda:all"]);
        assert_eq!(run.status, Some(0));
        let line = run.line("warning: ")?;
        assert!(
            line.starts_with("warning: ") && (line.contains("(cuda:0): ") || line.contains("(cuda:1): ")),
            "{line}"
        );
        assert!(line.contains("the CUDA device is lost: ") && line.contains("other devices do its work"), "{line}");
        assert_right(place.path(), &output);
    }
    Ok(())
}

fn without_devices_the_rest_is_listed() -> Result<(), Failed> {
    let place = prepared()?;
    let run = filter(place.path(), "devices=2;fail=cuGraphLaunch:6:719:lost", "b.zarr", &["--device", "cuda:all"]);
    assert_eq!(run.status, Some(1));
    let written = chunks(&place.path().join("b.zarr"));
    assert!((1..CHUNKS).contains(&written.len()), "{} chunks", written.len());
    assert_eq!(run.stderr.matches("warning: ").count(), 2, "each device is named");
    let missing = format!("missing: {} of {CHUNKS} chunks: ", CHUNKS - written.len());
    assert!(run.stderr.contains(&missing), "{missing}");
    let again = filter(place.path(), "", "b.zarr", &["--device", "cpu", "--skip-existing"]);
    again.well_on_cpu()?;
    assert_right(place.path(), "b.zarr");
    Ok(())
}

fn auto_goes_on_on_the_cpu() -> Result<(), Failed> {
    let place = prepared()?;
    let run = filter(place.path(), "fail=cuGraphLaunch:4:719:lost", "b.zarr", &[]);
    assert_eq!(run.status, Some(0));
    assert!(run.stderr.contains("warning: ") && run.stderr.contains("the CPU does its work"), "{}", run.stderr);
    assert_right(place.path(), "b.zarr");
    Ok(())
}
