//! Provides the library that `-lcuda` asks for, and checks the folder that the build script of `cust` asks for.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CUDA_LIBRARY_PATH");
    println!("cargo::rerun-if-env-changed=DOCS_RS");

    let out = env::var("OUT_DIR").expect("Cargo sets OUT_DIR");
    // An archive without members.
    fs::write(Path::new(&out).join("libcuda.a"), "!<arch>\n")?;
    println!("cargo::rustc-link-search=native={out}");

    // docs.rs links nothing, and the build script of `cust` does not look for CUDA there.
    if env::var_os("CARGO_FEATURE_CUST").is_some() && env::var_os("DOCS_RS").is_none() && !cust_finds_a_folder() {
        println!("cargo::error=the build script of `cust` needs a folder that contains `lib64`; it need not be CUDA.");
        println!("cargo::error=Add this to `.cargo/config.toml` of your project:");
        println!("cargo::error=");
        println!("cargo::error=    [env]");
        println!("cargo::error=    CUDA_LIBRARY_PATH = {:?}", folder_with_lib64());
    }
    Ok(())
}

/// The value for `CUDA_LIBRARY_PATH` on this machine.
fn folder_with_lib64() -> String {
    // The dynamic loader of x86-64 is in `/lib64`. A Debian for AArch64 may lack the folder; this package has one.
    if Path::new("/lib64").is_dir() {
        "/".to_owned()
    } else {
        env::var("CARGO_MANIFEST_DIR").expect("Cargo sets CARGO_MANIFEST_DIR")
    }
}

/// Whether the build script of `cust` succeeds. Its search is in `find_cuda_lib_dirs` of `find_cuda_helper` 0.2.0.
fn cust_finds_a_folder() -> bool {
    let variable = env::var("CUDA_LIBRARY_PATH").unwrap_or_default();
    let named = variable.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    let usual = ["/opt/cuda", "/usr/local/cuda"].map(PathBuf::from);
    let versions = fs::read_dir("/usr/local").into_iter().flatten().flatten().map(|entry| entry.path());
    let versions =
        versions.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cuda-")));
    named.chain(usual).chain(versions).any(|folder| {
        // A relative path starts in the folder of another package, so it is not checked.
        folder.is_relative()
            || folder.join("lib64").is_dir()
            || folder.join("targets/x86_64-linux/include/cuda.h").is_file()
    })
}
