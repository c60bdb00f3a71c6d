//! `host filter` in a control group with little memory, as in a container. The program is not killed. Each picture has
//! a result, or an error names it.
//!
//! These tests have their own harness, because not every machine lets them make a group. Without that right they are
//! reported as ignored, with the reason. HOST_TEST_CGROUP=require makes that a failure. The program is the one that
//! cargo built, or `HOST_BIN`.

mod places;

use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use faltung::Image;
use host::files::{OverwritePolicy, Picture};
use libtest_mimic::{Arguments, Failed, Trial};

/// The memory of the group.
const LIMIT: u64 = 300_000_000;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // A trial before the tests are listed tells whether they can run.
    let missing = Group::new("trial").err();
    let required = std::env::var("HOST_TEST_CGROUP").is_ok_and(|value| value == "require");
    if let Some(reason) = &missing {
        println!("the tests in a control group {}: {reason}", if required { "will fail" } else { "are ignored" });
    }
    type Test = (&'static str, fn(&Group) -> Result<(), Failed>);
    const ALL: [Test; 4] = [
        ("a_batch_completes", a_batch_completes),
        ("a_batch_of_one_channel_completes", a_batch_of_one_channel_completes),
        ("one_picture_that_is_too_large_is_named", one_picture_that_is_too_large_is_named),
        ("a_pipe_that_gives_too_much_is_an_error", a_pipe_that_gives_too_much_is_an_error),
    ];
    let ignored = missing.is_some() && !required;
    let trial = |(name, test): Test| Trial::test(name, move || test(&Group::new(name)?)).with_ignored_flag(ignored);
    libtest_mimic::run(&Arguments { test_threads: Some(1), ..arguments }, ALL.map(trial).into()).exit_code()
}

/// A control group with [`LIMIT`] bytes of memory and no swap, and a folder for pictures. Both are removed in the end.
struct Group {
    group: PathBuf,
    place: tempfile::TempDir,
}

impl Group {
    /// Makes a group below the root of the mounted ones, of version 1 or 2.
    fn new(name: &str) -> Result<Self, String> {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut reasons = Vec::new();
        for (root, limit, swap) in [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", LIMIT)),
            ("/sys/fs/cgroup", "memory.max", ("memory.swap.max", 0)),
        ] {
            let group = Path::new(root).join(format!("host-test-{}-{name}", std::process::id()));
            let limited = make(Path::new(root), &group, limit).and_then(|()| {
                fs::write(group.join(limit), LIMIT.to_string())?;
                // This fails if the kernel does not count swap.
                let _ = fs::write(group.join(swap.0), swap.1.to_string());
                Ok(())
            });
            match limited {
                Ok(()) => return Ok(Self { group, place }),
                Err(error) => {
                    let _ = fs::remove_dir(&group);
                    reasons.push(format!("{root}: {error}"));
                }
            }
        }
        Err(reasons.join("; "))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Runs `host filter` on the CPU in the group.
    fn filter(&self, input: Stdio, args: &[&str]) -> Result<Output, Failed> {
        let script = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script])
            .arg(&self.group)
            .arg(places::program())
            .args(["filter", "--device", "cpu"])
            .args(args);
        Ok(shell.current_dir(self.place.path()).stdin(input).output()?)
    }

    /// The names in a folder.
    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(folder)) else { return Vec::new() };
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }
}

/// Makes a group that can be limited.
fn make(root: &Path, group: &Path, limit: &str) -> io::Result<()> {
    if !root.join("cgroup.procs").exists() {
        return Err(io::Error::other("no control groups are mounted here"));
    }
    fs::create_dir(group)?;
    if !group.join(limit).exists() {
        // Version 2 gives a group the controllers that the one above it lists.
        fs::write(root.join("cgroup.subtree_control"), "+memory")?;
    }
    if group.join(limit).exists() { Ok(()) } else { Err(io::Error::other(format!("there is no {limit}"))) }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The last process may need a moment to leave.
        for _ in 0..100 {
            if fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A picture in which neighbours differ, and which hardly compresses.
fn picture(width: usize, height: usize, channels: usize) -> Image<u8> {
    let values = (0..width * height * channels).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    Image::new(width, height, channels, values).expect("the sizes are right")
}

/// Checks that the program ended by itself, with this status.
fn ended(output: &Output, status: i32) -> Result<String, Failed> {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    println!("{stderr}");
    match (output.status.code(), output.status.signal()) {
        (Some(code), _) if code == status && !stderr.contains("panicked") => Ok(stderr),
        (code, signal) => Err(format!("exit status {code:?}, signal {signal:?}: {stderr}").into()),
    }
}

/// Many pictures, of which all but one or two at a time would take more than there is.
fn batch(group: &Group, width: usize, height: usize, channels: usize) -> Result<(), Failed> {
    const PICTURES: usize = 16;
    fs::create_dir(group.path("in"))?;
    let first = picture(width, height, channels);
    Picture::from(first).write(group.path("in/00.pam"), OverwritePolicy::Keep)?;
    Picture::read(group.path("in/00.pam"))?.write(group.path("in/01.png"), OverwritePolicy::Keep)?;
    for number in 2..PICTURES {
        let (from, extension) = if number % 4 == 1 { ("01.png", "png") } else { ("00.pam", "pam") };
        fs::hard_link(group.path("in").join(from), group.path("in").join(format!("{number:02}.{extension}")))?;
    }
    let output = group.filter(Stdio::null(), &["in", "-o", "out/", "--box", "3", "--border", "mirror"])?;
    ended(&output, 0)?;
    let made = group.names("out");
    if made.len() != PICTURES || made.iter().any(|name| name.starts_with('.')) {
        return Err(format!("{PICTURES} results were expected, not {made:?}").into());
    }
    // The results are the same in both formats, and differ from the input.
    let (pam, png) = (Picture::read(group.path("out/14.pam"))?, Picture::read(group.path("out/13.png"))?);
    if pam.pixels != png.pixels || pam == Picture::read(group.path("in/00.pam"))? {
        return Err("the results are not what they should be".into());
    }
    Ok(())
}

fn a_batch_completes(group: &Group) -> Result<(), Failed> {
    batch(group, 3600, 2400, 3)
}

/// Pictures of one channel take the most memory to compute: 8 bytes for each value.
fn a_batch_of_one_channel_completes(group: &Group) -> Result<(), Failed> {
    batch(group, 4800, 3600, 1)
}

fn one_picture_that_is_too_large_is_named(group: &Group) -> Result<(), Failed> {
    fs::create_dir(group.path("in"))?;
    Picture::from(picture(16_000, 9000, 2)).write(group.path("in/large.pam"), OverwritePolicy::Keep)?;
    Picture::from(picture(30, 20, 3)).write(group.path("in/small.pam"), OverwritePolicy::Keep)?;
    let output = group.filter(Stdio::null(), &["in", "-o", "out/", "--box", "3"])?;
    let stderr = ended(&output, 1)?;
    if !stderr.contains("large.pam") || !stderr.contains("memory") {
        return Err(format!("the picture and what it lacks are not in: {stderr}").into());
    }
    if group.names("out") != ["small.pam"] {
        return Err(format!("small.pam alone was expected, not {:?}", group.names("out")).into());
    }
    Ok(())
}

fn a_pipe_that_gives_too_much_is_an_error(group: &Group) -> Result<(), Failed> {
    let output = group.filter(fs::File::open("/dev/zero")?.into(), &["-", "-o", "out.png", "--box", "3"])?;
    let stderr = ended(&output, 1)?;
    if stderr.contains("memory") { Ok(()) } else { Err(format!("memory is not in: {stderr}").into()) }
}
