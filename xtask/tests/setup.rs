//! `setup` and `build-ptx` where the sources of core are missing, with programs of the test's own in the place of rustc
//! and rustup.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A workspace that pins Rust 1.95.0, and a folder of programs: a rustc of the version that the toolchain in use has,
/// and a rustup that
/// writes down what it was asked for, and adds the sources.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// `rustc` is what a shell prints as the compiler's version.
    fn new(rustc: &str) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap() };
        let path = |name: &str| machine.folder.path().join(name);
        for folder in ["root/xtask", "programs", "sysroot/lib/rustlib/src"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        fs::write(path("root/rust-toolchain.toml"), "[toolchain]\nchannel = \"1.95.0\"\n").unwrap();
        let here = machine.folder.path().display();
        let version = format!("case \"$1\" in --version) echo release: {rustc};; *) echo {here}/sysroot;; esac");
        machine.program("rustc", &version);
        let library = format!("{here}/sysroot/lib/rustlib/src/rust/library");
        let add = format!(
            "echo \"$@ $RUSTUP_TOOLCHAIN\" >> {here}/asked; mkdir -p {library}/core/src; \
             touch {library}/Cargo.lock {library}/core/src/lib.rs"
        );
        machine.program("rustup", &add);
        // As far as build-ptx gets here.
        machine.program("cargo", "echo no cargo >&2; exit 1");
        machine
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.folder.path().join("programs").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs a task below an outer `cargo +nightly`: whether it succeeded, and all that it said.
    fn run(&self, task: &str) -> (bool, String) {
        let programs = self.folder.path().join("programs");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg(task).env("PATH", path).env("CARGO_MANIFEST_DIR", self.folder.path().join("root/xtask"));
        let output = command.env("RUSTUP_TOOLCHAIN", "nightly").output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// What rustup was asked for.
    fn asked(&self) -> Option<String> {
        fs::read_to_string(self.folder.path().join("asked")).ok()
    }

    fn has_sources(&self) -> bool {
        Path::new(&self.folder.path().join("sysroot/lib/rustlib/src/rust")).exists()
    }
}

/// The release that rustc has with RUSTUP_TOOLCHAIN as given, else the pinned one: what rustup's proxy does.
const PROXY: &str = "$(if [ -n \"$RUSTUP_TOOLCHAIN\" ]; then echo 1.97.0-nightly; else echo 1.95.0; fi)";

#[test]
fn only_the_pinned_toolchain_gets_the_sources() {
    let machine = Machine::new(PROXY);
    let (succeeded, said) = machine.run("setup");
    assert!(succeeded, "{said}");
    // By name, and without the outer toolchain, which would be the one that rustup adds to.
    assert_eq!(machine.asked().unwrap().trim(), "component add --toolchain 1.95.0 rust-src");
    assert!(machine.has_sources());
    // A second time there is nothing to do.
    assert!(machine.run("setup").0);
    assert_eq!(machine.asked().unwrap().lines().count(), 1);
}

#[test]
fn nothing_is_changed_where_another_compiler_is_in_charge() {
    let machine = Machine::new("1.96.0");
    for task in ["setup", "build-ptx"] {
        let (succeeded, said) = machine.run(task);
        assert!(!succeeded && said.contains("pins Rust 1.95.0") && said.contains("is 1.96.0"), "{said}");
        assert!(machine.asked().is_none() && !machine.has_sources(), "{task} changed something");
    }
}

#[test]
fn build_ptx_gets_the_sources_by_itself() {
    let machine = Machine::new(PROXY);
    let (_, said) = machine.run("build-ptx");
    assert!(machine.has_sources(), "{said}");
    assert!(said.contains("the sources of core 1.95.0, from rustup, are at"), "{said}");
}
