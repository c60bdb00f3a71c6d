//! Every kernel as PTX: the instructions that are expected, and no functions. Then `ptxas` assembles it.
//!
//! Ignored by default, because it compiles `core`: `cargo test -p cuda_std_check --test ptx -- --ignored`. `PTXAS`
//! names the assembler; otherwise the one in `PATH` is used. Without one the kernels are compiled and not assembled.
//! `CUDA_STD_CHECK_PTX` names a file to which the PTX is written, for the example `gpu`.

use std::path::Path;
use std::process::Command;

use cuda_builder::{Arch, Build, CudaBuilder};
use cuda_std_check::cases;

/// The PTX of all kernels for an architecture.
fn build(arch: Arch) -> Build {
    CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).arch(arch).build().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "compiles core; see the head of this file"]
fn every_kernel_compiles_and_has_its_instructions() {
    let build = build(Arch::Sm80);
    let entries: Vec<&str> = build.entries().map(|entry| entry.name.as_str()).collect();
    for case in cases() {
        assert!(entries.contains(&case.name), "{} is not in {entries:?}", case.name);
    }
    let missing: Vec<&str> =
        include_str!("instructions.txt").lines().filter(|line| !build.text.contains(*line)).collect();
    assert!(missing.is_empty(), "these instructions are missing:\n{}", missing.join("\n"));

    if let Some(path) = std::env::var_os("CUDA_STD_CHECK_PTX") {
        std::fs::write(&path, &build.text).unwrap();
    }
    let functions: Vec<&str> = build.ptx.functions().collect();
    eprintln!("functions beside the entries: {functions:?}");
    let folder = tempfile::tempdir().unwrap();
    assemble(&build.text, folder.path());
}

/// Assembles a PTX text for a device that has all its instructions.
fn assemble(text: &str, folder: &Path) {
    let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
    let (source, result) = (folder.join("check.ptx"), folder.join("check.cubin"));
    std::fs::write(&source, text).unwrap();
    match Command::new(&ptxas).args(["-arch=sm_80", "-o"]).arg(&result).arg(&source).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => eprintln!("not assembled: {}: {error}", ptxas.display()),
    }
}
