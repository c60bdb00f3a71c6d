//! The program `host` as its users meet it: files, messages, exit status.

#[path = "cli/alpha.rs"]
mod alpha;
#[path = "cli/batch.rs"]
mod batch;
#[path = "cli/bench.rs"]
mod bench;
#[path = "cli/bombs.rs"]
mod bombs;
#[path = "cli/boxes.rs"]
mod boxes;
#[path = "cli/chunked.rs"]
mod chunked;
#[path = "cli/chunked_faults.rs"]
mod chunked_faults;
#[path = "cli/chunked_hostile.rs"]
mod chunked_hostile;
#[path = "cli/errors.rs"]
mod errors;
#[path = "cli/files.rs"]
mod files;
#[path = "cli/filters.rs"]
mod filters;
#[path = "cli/hostile.rs"]
mod hostile;
#[path = "cli/limits.rs"]
mod limits;
#[path = "cli/metadata.rs"]
mod metadata;
#[path = "cli/names.rs"]
mod names;
#[path = "cli/pictures.rs"]
mod pictures;
mod places;
#[path = "cli/processes.rs"]
mod processes;
#[path = "cli/reference.rs"]
mod reference;
#[path = "cli/saturation.rs"]
mod saturation;
mod seed;
#[path = "cli/steps.rs"]
mod steps;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use faltung::{AnyImage, Image, Pixel};
use host::files::{OverwritePolicy, Picture};
use tempfile::TempDir;

use places::{data, program};

/// How a run ended.
struct Ended {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        let status = output.status.code().unwrap_or_else(|| panic!("{}: {stderr}", output.status));
        Self { status, stdout, stderr }
    }
}

impl Ended {
    /// Checks the exit status, that the messages have `words`, that they have no panic, and that results are not among
    /// them.
    #[track_caller]
    fn with(self, status: i32, words: &[&str]) -> Self {
        assert_eq!(self.status, status, "stderr: {}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        assert_eq!(self.stdout, "");
        self
    }

    /// Checks that the run succeeded without a message.
    #[track_caller]
    fn quietly(self) {
        let ended = self.with(0, &[]);
        assert_eq!(ended.stderr, "");
    }
}

/// A folder to work in.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// All files, with folders, sorted.
    fn names(&self) -> Vec<String> {
        fn walk(folder: &Path, under: &Path, names: &mut Vec<String>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, under, names);
                } else {
                    names.push(path.strip_prefix(under).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut names = Vec::new();
        walk(self.folder.path(), self.folder.path(), &mut names);
        names.sort();
        names
    }

    fn write<T: Pixel>(&self, name: &str, image: Image<T>) {
        Picture::from(image).write(self.path(name), OverwritePolicy::Keep).unwrap();
    }

    fn read(&self, name: &str) -> AnyImage {
        Picture::read(self.path(name)).unwrap().pixels
    }

    fn read_u8(&self, name: &str) -> Image<u8> {
        match self.read(name) {
            AnyImage::U8(image) => image,
            other => panic!("{name} holds {:?}", other.pixel_type()),
        }
    }

    fn read_f32(&self, name: &str) -> Image<f32> {
        match self.read(name) {
            AnyImage::F32(image) => image,
            other => panic!("{name} holds {:?}", other.pixel_type()),
        }
    }

    /// Runs the program in the folder, with nothing on its standard input.
    fn host(&self, args: &[&str]) -> Ended {
        self.command(args).stdin(Stdio::null()).output().unwrap().into()
    }

    /// Runs `host filter` on the CPU.
    fn filter(&self, args: &[&str]) -> Ended {
        self.host(&[&["filter", "--device", "cpu"], args].concat())
    }

    /// The same with a text on the standard input.
    fn filter_with(&self, input: &[u8], args: &[&str]) -> Ended {
        let mut command = self.command(&[&["filter", "--device", "cpu"], args].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().into()
    }

    fn command(&self, args: &[&str]) -> Command {
        self.prepared(Command::new(program()), args)
    }

    /// The same, where SIGINT, SIGTERM and SIGHUP end the program even if the tests ignore them, as they do behind
    /// `nohup` or `&` in a script.
    fn interruptible(&self, args: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM,HUP").arg(program());
        self.prepared(command, args)
    }

    fn prepared(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1");
        command
    }
}

/// A picture in which every value differs from its neighbours, the channels too.
fn picture<T: Pixel>(width: usize, height: usize, channels: usize, value: impl Fn(usize) -> T) -> Image<T> {
    let count = width * height * channels;
    Image::new(width, height, channels, (0..count).map(|i| value(i * 7919 % 251)).collect()).unwrap()
}
