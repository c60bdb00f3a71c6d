//! The program under the fake driver.
//!
//! Each failure is a process of its own: exit status, messages, files, and the report that the driver writes at its
//! end.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use rayon::prelude::*;
use tempfile::TempDir;

use crate::run::{BENCH, Ended, FILTER, host};
use crate::{Test, seed};

pub(crate) const TESTS: &[Test] = &[
    ("program_filter", filter),
    ("program_batch", batch),
    ("program_check", check),
    ("program_bench", bench),
    ("program_bench_cold", bench_cold),
    ("sweep_program_filter", sweep_filter),
    ("sweep_program_batch", sweep_batch),
    ("sweep_program_batch_or_cpu", sweep_batch_or_cpu),
    ("sweep_program_bench", sweep_bench),
];

/// The pictures of [`pictures`].
const INPUTS: [&str; 3] = ["a.pgm", "b.pgm", "c.pgm"];

/// A folder with pictures of two sizes.
fn pictures() -> Result<TempDir, Failed> {
    let place = tempfile::tempdir()?;
    for (name, width, height) in [("a", 40, 30), ("b", 31, 44), ("c", 40, 30)] {
        let mut file = format!("P5 {width} {height} 255\n").into_bytes();
        file.extend((0..width * height).map(|i| (i * i * 7 % 251 + i % 5) as u8));
        fs::write(place.path().join(format!("{name}.pgm")), file)?;
    }
    Ok(place)
}

/// The arguments for pictures to a folder or a file.
fn filtering<'a>(inputs: &[&'a str], output: &'a str, device: &'a str) -> Vec<&'a str> {
    let mut arguments = vec!["filter"];
    arguments.extend(inputs);
    arguments.extend(["-o", output, "--device", device, "--quiet"]);
    arguments.extend(FILTER);
    arguments
}

/// The files of a folder with their contents, by name.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("a file of the folder").path())
        .map(|path| (path.file_name().expect("it has a name").into(), fs::read(&path).unwrap_or_default()))
        .collect();
    files.sort();
    files
}

fn filter() -> Result<(), Failed> {
    let place = pictures()?;
    host(place.path(), "", &filtering(&["a.pgm"], "right.png", "cpu")).well_on_cpu()?;
    host(place.path(), "", &filtering(&["a.pgm"], "found.png", "cuda:0")).well()?;
    assert_eq!(fs::read(place.path().join("found.png"))?, fs::read(place.path().join("right.png"))?);
    // The device's memory holds only strips.
    let mut arguments = filtering(&["a.pgm"], "strips.png", "cuda:0");
    arguments.extend(["--device-memory", "2K"]);
    host(place.path(), "", &arguments).well()?;
    assert_eq!(fs::read(place.path().join("strips.png"))?, fs::read(place.path().join("right.png"))?);
    Ok(())
}

/// The right results of the batch.
fn right_batch(place: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, Failed> {
    host(place, "", &filtering(&INPUTS, "right/{stem}.png", "cpu")).well_on_cpu()?;
    let right = files(&place.join("right"));
    assert_eq!(right.len(), 3);
    Ok(right)
}

fn batch() -> Result<(), Failed> {
    let place = pictures()?;
    let right = right_batch(place.path())?;
    host(place.path(), "", &filtering(&INPUTS, "found/{stem}.png", "cuda:0")).well()?;
    assert_eq!(files(&place.path().join("found")), right);
    Ok(())
}

fn check() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    // A variant that computes few of the cases, so the check is short.
    let arguments = ["check", "--device", "cuda:0", "--quick", "--variants", "separable_u8"];
    let ended = host(place.path(), "", &arguments).well()?;
    println!("{}", ended.stdout.lines().last().unwrap_or_default());
    Ok(())
}

/// The arguments of one tiny cell, whose figures go to a file.
fn bench_to(csv: &str) -> Vec<&str> {
    [&BENCH[..], &["--csv", csv]].concat()
}

fn bench() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    host(place.path(), "memory=4194304", &bench_to("cell.csv")).well()?;
    let csv = fs::read_to_string(place.path().join("cell.csv"))?;
    assert!(csv.lines().any(|line| line.contains("naive")), "{csv}");
    Ok(())
}

/// With cold caches each timed run comes behind a memset. Rates take one each time: 2 or 3 in all. End to end there are
/// 7 runs. So 15 need those of the kernel, of which there are at least 8.
fn bench_cold() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    // The memset is of twice the second-level cache, which has 50 MiB.
    let memory = "memory=125829120";
    let warm = bench_to("cell.csv");
    let cold = [&warm[..], &["--cold"]].concat();
    let memsets = |arguments: &[&str]| -> Result<u64, Failed> {
        let report = host(place.path(), memory, arguments).well()?.report.ok_or("a report")?;
        Ok(report.by_function["cuMemsetD8Async"])
    };
    let (with_warm, with_cold) = (memsets(&warm)?, memsets(&cold)?);
    assert!(with_warm <= 3 && with_cold >= 15, "{with_warm} memsets with warm caches, {with_cold} with cold ones");
    let csv = fs::read_to_string(place.path().join("cell.csv"))?;
    assert!(csv.lines().any(|line| line.contains("naive") && line.contains(",cold,")), "{csv}");

    let ended = host(place.path(), &format!("{memory};fail=cuMemsetD8Async:8:214:lost"), &cold);
    assert_eq!((ended.status, ended.trouble()), (Some(1), None), "{}", ended.stderr);
    assert!(ended.stderr.contains("fill memory on the device"), "{}", ended.stderr);
    Ok(())
}

/// A failure: code, effect, what the messages say.
type Fault = (u32, &'static str, &'static str);

const MEMORY: Fault = (2, "once", "memory");
const LOST: Fault = (214, "lost", "uncorrectable ECC error");
const LATE: Fault = (719, "late", "unspecified launch failure");

/// The messages, unless they name the cause.
fn says_why(ended: &Ended, (_, _, says): Fault) -> Option<String> {
    (!ended.stderr.contains(says)).then(|| format!("\"{says}\" is not in: {}", ended.stderr))
}

/// How many calls a run makes in which nothing fails.
fn calls(place: &Path, settings: &str, arguments: &[&str]) -> Result<u64, Failed> {
    Ok(host(place, settings, arguments).well()?.report.ok_or("a report")?.calls)
}

/// Runs `one` for each fault at each call of `calls`, two at a time, and reports what it complains of. Returns how many
/// ended with an error.
fn sweep(
    name: &str,
    calls: impl IntoIterator<Item = u64>,
    faults: &[Fault],
    one: impl Fn(usize, &str, Fault) -> (Ended, Option<String>) + Sync,
) -> Result<usize, Failed> {
    let calls: Vec<u64> = calls.into_iter().collect();
    let runs: Vec<(u64, Fault)> =
        faults.iter().flat_map(|&fault| calls.iter().map(move |&call| (call, fault))).collect();
    let threads = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    let ended: Vec<(bool, Option<String>)> = threads.install(|| {
        let run = |(number, &(call, fault)): (usize, &(u64, Fault))| {
            let (code, effect, _) = fault;
            let (ended, wrong) = one(number, &format!("fail=*:{call}:{code}:{effect}"), fault);
            let struck = ended.report.as_ref().and_then(|report| report.struck.first().cloned()).unwrap_or_default();
            let wrong = ended.trouble().or(wrong);
            (
                ended.status == Some(0),
                wrong.map(|text| format!("{struck}, call {call}, fails with {code} ({effect}): {text}")),
            )
        };
        runs.par_iter().enumerate().map(run).collect()
    });
    let good = ended.iter().filter(|(is_good, _)| *is_good).count();
    println!("{name}: {} calls, {} runs, {} errors, {good} right results", calls.len(), runs.len(), runs.len() - good);
    let wrong: Vec<String> = ended.into_iter().filter_map(|(_, wrong)| wrong).collect();
    if wrong.is_empty() {
        return Ok(runs.len() - good);
    }
    Err(format!("{} runs went wrong\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n")).into())
}

/// One picture: the whole result and status 0, or no file, an error and another status.
fn sweep_filter() -> Result<(), Failed> {
    let place = pictures()?;
    let place = place.path();
    host(place, "", &filtering(&["a.pgm"], "right.png", "cpu")).well_on_cpu()?;
    let right = fs::read(place.join("right.png"))?;
    let calls = calls(place, "", &filtering(&["a.pgm"], "first.png", "cuda:0"))?;
    let errors = sweep("filter", 1..=calls, &[MEMORY, LOST, LATE], |number, settings, fault| {
        let folder = format!("out-{number}");
        fs::create_dir(place.join(&folder)).expect("a folder for the result");
        let ended = host(place, settings, &filtering(&["a.pgm"], &format!("{folder}/a.png"), "cuda:0"));
        let found = files(&place.join(&folder));
        let wrong = match (ended.status, &found[..]) {
            (Some(0), [(_, bytes)]) if *bytes == right => None,
            (Some(status), []) if status != 0 => says_why(&ended, fault),
            (status, files) => Some(format!("status {status:?} with {} files: {}", files.len(), ended.stderr)),
        };
        (ended, wrong)
    })?;
    assert!(errors > 0, "a failing driver gives errors");
    Ok(())
}

/// A batch: each result is whole or missing.
fn sweep_batch() -> Result<(), Failed> {
    let place = pictures()?;
    let place = place.path();
    let right = right_batch(place)?;
    let calls = calls(place, "", &filtering(&INPUTS, "first/{stem}.png", "cuda:0"))?;
    // The pictures come in any order, and with it the calls: some may not be reached, a few more than once.
    let errors = sweep("batch", (1..=calls).step_by(2), &[MEMORY, LOST, LATE], |number, settings, fault| {
        let folder = format!("out-{number}");
        let pattern = format!("{folder}/{{stem}}.png");
        let ended = host(place, settings, &filtering(&INPUTS, &pattern, "cuda:0"));
        let found = files(&place.join(&folder));
        let is_right = found.iter().all(|file| right.contains(file));
        let wrong = match ended.status {
            _ if !is_right => {
                Some(format!("wrong or partial files: {:?}", found.iter().map(|f| &f.0).collect::<Vec<_>>()))
            }
            Some(0) if found.len() == 3 => None,
            // A device is lost once, whatever the number of pictures.
            Some(1) if fault != MEMORY && ended.stderr.matches(fault.2).count() > 1 => Some(ended.stderr.clone()),
            Some(status) if status != 0 && found.len() < 3 => says_why(&ended, fault),
            status => Some(format!("status {status:?} with {} files: {}", found.len(), ended.stderr)),
        };
        (ended, wrong)
    })?;
    assert!(errors > 0, "a failing driver gives errors");
    Ok(())
}

/// A batch with `--device auto`: if the device is lost, the CPU continues, and every result is there.
fn sweep_batch_or_cpu() -> Result<(), Failed> {
    let place = pictures()?;
    let place = place.path();
    let right = right_batch(place)?;
    let calls = calls(place, "", &filtering(&INPUTS, "first/{stem}.png", "auto"))?;
    let one = |number, settings: &str, _| {
        let folder = format!("out-{number}");
        let pattern = format!("{folder}/{{stem}}.png");
        let ended = host(place, settings, &filtering(&INPUTS, &pattern, "auto"));
        let is_right = ended.status == Some(0) && files(&place.join(&folder)) == right;
        let wrong = (!is_right).then(|| format!("status {:?}: {}", ended.status, ended.stderr));
        (ended, wrong)
    };
    let errors = sweep("batch, or the CPU", (1..=calls).step_by(3), &[LOST, LATE], one)?;
    assert_eq!(errors, 0);
    Ok(())
}

/// The bench fails at random calls, because the number of its calls depends on the machine's speed.
fn sweep_bench() -> Result<(), Failed> {
    let place = tempfile::tempdir()?;
    let place = place.path();
    let calls = calls(place, "memory=1048576", &bench_to("cell.csv"))?;
    let seed = seed::from_environment().unwrap_or_else(|| fastrand::u64(..));
    println!("seed {seed} (HOST_TEST_SEED sets it)");
    let mut random = fastrand::Rng::with_seed(seed);
    let at: Vec<u64> = (0..6).map(|_| random.u64(1..=calls)).collect();
    let errors = sweep("bench", at, &[MEMORY, LOST, LATE], |number, settings, fault| {
        let csv = format!("cell-{number}.csv");
        let ended = host(place, &format!("memory=1048576;{settings}"), &bench_to(&csv));
        let exists = place.join(&csv).exists();
        let wrong = match ended.status {
            Some(0) if exists => None,
            Some(0) => Some("no figures".into()),
            _ => says_why(&ended, fault).or_else(|| ended.stdout.contains(fault.2).then(String::new)),
        };
        (ended, wrong.filter(|text| !text.is_empty()))
    })?;
    assert!(errors > 0, "a failing driver gives errors");
    Ok(())
}
