//! The program `host tutorial`: what it prints and writes, and its exit status.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use faltung::Image;
use host::files;
use host::files::{OverwritePolicy, Picture};
use host::tutorial::Tutorial;
use libtest_mimic::Failed;

use crate::places::program;

/// How a run ended.
struct Ended {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs `host tutorial` in a folder.
fn tutorial(folder: &Path, arguments: &[&str]) -> Result<Ended, Failed> {
    let output =
        Command::new(program()).arg("tutorial").args(arguments).current_dir(folder).stdin(Stdio::null()).output()?;
    let text = |bytes| String::from_utf8(bytes).map_err(|error| Failed::from(error.to_string()));
    Ok(Ended { status: output.status.code(), stdout: text(output.stdout)?, stderr: text(output.stderr)? })
}

impl Ended {
    /// Fails unless the status is this and all words are there: in the results, or for a failure in the messages.
    fn with(self, status: i32, words: &[&str]) -> Result<Self, Failed> {
        let told = if status == 0 { &self.stdout } else { &self.stderr };
        let missing = words.iter().find(|word| !told.contains(**word));
        if self.status != Some(status) || missing.is_some() || self.stderr.contains("panicked") {
            let Self { status: found, stdout, stderr } = &self;
            return Err(format!(
                "status {found:?} instead of {status}, or without {missing:?}\nstdout: {stdout}\nstderr: {stderr}"
            )
            .into());
        }
        Ok(self)
    }
}

/// Each tutorial with `--quick`: right answers, tables, pictures in the default folder.
pub(crate) fn on_the_cpu() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for tutorial_of in Tutorial::ALL {
        let ended = tutorial(folder.path(), &[tutorial_of.name(), "--device", "cpu", "--quick"])?;
        let ended =
            ended.with(0, &[tutorial_of.source(), "right  ", "device: CPU", "to run the kernels themselves"])?;
        if ended.stdout.contains("WRONG") {
            return Err(ended.stdout.into());
        }
        for name in tutorial_of.pictures() {
            let picture = Picture::read(folder.path().join("tutorial-pictures").join(name))?;
            let values = picture.pixels.to_f32();
            let first = values.values()[0];
            if values.values().iter().all(|&value| value == first) {
                return Err(format!("{name} is of one colour").into());
            }
        }
    }
    Ok(())
}

/// The smallest one, with counts in the place of times. The sectors are those of warps whose lanes make each product
/// together, as a simulation in NumPy had them: 28.1 and 4.36 a load of the image, and 1 a load of the mask.
pub(crate) fn on_the_emulator() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let words = [
        "Mask shape: (13, 13)",
        "Block dimensions: (32, 32)",
        "Grid dimensions: (7, 7)",
        "sectors a load",
        "6776142",
        "1248304",
    ];
    tutorial(folder.path(), &["numba", "--device", "emulator", "--quick", "-o", "out"])?.with(0, &words)?;
    Ok(())
}

/// The same pictures are no reason to fail; another one is kept unless it may be replaced.
pub(crate) fn pictures_that_exist() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let arguments = ["numba", "--device", "cpu", "--quick", "-o", "out"];
    tutorial(folder.path(), &arguments)?.with(0, &["picture  out"])?;
    let after = folder.path().join("out/numba-after.png");
    let right = fs::read(&after)?;
    tutorial(folder.path(), &arguments)?.with(0, &[])?;

    let other = Picture::from(Image::from_fn(3, 3, |x, _| x as u8)?);
    other.write(&after, OverwritePolicy::Replace)?;
    let kept = fs::read(&after)?;
    tutorial(folder.path(), &arguments)?.with(1, &["numba-after.png exists, and is kept", "--overwrite"])?;
    if fs::read(&after)? != kept {
        return Err("the picture that existed was replaced".into());
    }
    tutorial(folder.path(), &[&arguments[..], &["--overwrite"]].concat())?.with(0, &[])?;
    if fs::read(&after)? != right {
        return Err("--overwrite did not replace the picture".into());
    }
    Ok(())
}

/// The emulator writes a smaller picture of the edges, under another name than the CPU's. The program takes several
/// tutorials.
pub(crate) fn devices_share_a_folder() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for (names, device, edges) in [
        (&["cupy", "rocm"][..], "cpu", "rocm-edges.png"),
        (&["rocm"], "emulator", "rocm-edges-eighth.png"),
        (&["rocm"], "cpu", "rocm-edges.png"),
    ] {
        let ended = tutorial(folder.path(), &[names, &["--quick", "-o", "out", "--device", device]].concat())?;
        let ended = ended.with(0, &[&format!("out/{edges}")])?;
        if names.len() > 1 {
            ended.with(0, &["=== cupy", "=== rocm"])?;
        }
    }
    Ok(())
}

pub(crate) fn errors() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    tutorial(folder.path(), &["fortran"])?.with(2, &["fortran", "numba", "rocm"])?;
    tutorial(folder.path(), &["numba", "--device", "cuda:99"])?.with(3, &["cuda:99"])?;
    files::write_text(folder.path().join("a-file"), "", OverwritePolicy::Keep)?;
    tutorial(folder.path(), &["numba", "--device", "cpu", "-o", "a-file"])?
        .with(2, &["a-file", "is a file, not a folder"])?;
    Ok(())
}
