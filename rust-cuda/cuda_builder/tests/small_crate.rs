//! Builds a small crate of kernels: in a folder whose name needs quotes, twice at once, with a warning.
//!
//! Ignored by default, because it compiles `core`, for which it needs `cargo xtask setup`. `cargo xtask ci` runs it
//! when the PTX's stamp is stale: `cargo test -p cuda_builder --test small_crate -- --ignored`.

use std::path::Path;
use std::{fs, thread};

use cuda_builder::{Build, CudaBuilder, CudaBuilderError};

const MANIFEST: &str = "\
[package]
name = \"small-kernels\"
version = \"0.1.0\"
edition = \"2024\"

[workspace]
";

const SOURCE: &str = "\
#![no_std]
#![feature(abi_ptx)]

mod inner;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
";

const INNER: &str = "\
#[unsafe(no_mangle)]
pub unsafe extern \"ptx-kernel\" fn small(to: *mut u32) {
    let unused = 1;
    unsafe { *to = 7 };
}
";

/// Variables of an outer cargo, or of a user, that would change the PTX or end the build.
const HOSTILE: [(&str, &str); 11] = [
    ("RUSTFLAGS", "-Ctarget-cpu=sm_90"),
    ("CARGO_ENCODED_RUSTFLAGS", "-Ctarget-cpu=sm_90"),
    ("CARGO_TARGET_NVPTX64_NVIDIA_CUDA_RUSTFLAGS", "-Ctarget-cpu=sm_90"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0"),
    ("CARGO_UNSTABLE_PROFILE_RUSTFLAGS", "true"),
    ("CARGO_PROFILE_RELEASE_RUSTFLAGS", "-Cllvm-args=-no-such-option"),
    ("CARGO_BUILD_TARGET", "no-such-target"),
    ("CARGO", "no-such-program"),
    ("RUSTC", "no-such-program"),
    ("RUSTC_WRAPPER", "no-such-program"),
    ("RUSTC_BOOTSTRAP", "0"),
];

fn build(folder: &Path) -> Result<Build, CudaBuilderError> {
    CudaBuilder::new(folder).build()
}

#[test]
#[ignore = "compiles core; `cargo xtask ci` runs it when the toolchain has changed"]
fn odd_names_two_builds_at_once_warnings_and_sources() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("it's a \"folder\", äöü");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("Cargo.toml"), MANIFEST).unwrap();
    fs::write(folder.join("src/lib.rs"), SOURCE).unwrap();
    fs::write(folder.join("src/inner.rs"), INNER).unwrap();
    // These name another compiler. The file in the folder decides all the same.
    fs::create_dir(folder.join(".cargo")).unwrap();
    fs::write(folder.join(".cargo/config.toml"), "[build]\nrustc = \"no-such-rustc\"\n").unwrap();

    let builds = thread::scope(|scope| {
        let second = scope.spawn(|| build(&folder));
        [build(&folder), second.join().unwrap()]
    });
    let [first, second] = builds.map(Result::unwrap);
    assert_eq!(first.entries().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["small"]);
    assert_eq!(first.text, second.text);
    assert!(first.warnings.contains("unused variable: `unused`"), "{:?}", first.warnings);

    let sources: Vec<_> =
        first.sources.iter().map(|source| source.strip_prefix(&folder).expect("no file of core").to_owned()).collect();
    for name in ["Cargo.toml", "Cargo.lock", "src/lib.rs", "src/inner.rs", ".cargo/config.toml"] {
        assert!(sources.iter().any(|source| source == Path::new(name)), "{name} is not in {sources:?}");
    }

    // The environment of an outer cargo changes nothing.
    for (variable, value) in HOSTILE {
        // SAFETY: this thread is the only one: the test is the only one of its program, and the second build has ended.
        unsafe { std::env::set_var(variable, value) };
    }
    let hostile = build(&folder).unwrap();
    for (variable, _) in HOSTILE {
        // SAFETY: as above.
        unsafe { std::env::remove_var(variable) };
    }
    assert_eq!(hostile.text, first.text);

    // Launch bounds, as `#[kernel(launch_bounds(256, 2))]` writes them, become directives.
    assert!(!first.text.contains(".maxntid"), "{}", first.text);
    let bounds = "core::arch::global_asm!(\"// cuda_std launch_bounds small 256 2\");\n";
    fs::write(
        folder.join("src/lib.rs"),
        format!("{SOURCE}{bounds}").replace("(abi_ptx)", "(abi_ptx, asm_experimental_arch)"),
    )
    .unwrap();
    let bounded = build(&folder).unwrap();
    assert!(bounded.text.contains(")\n.maxntid 256, 1, 1\n.minnctapersm 2\n{"), "{}", bounded.text);
    assert!(!bounded.text.contains("launch_bounds"), "the comment is gone");

    // A kernel that can panic is refused, with the kernel and the reason, unless it is allowed.
    fs::write(folder.join("src/inner.rs"), INNER.replace("*to = 7", "*to = [1, 2, 3][*to as usize] / *to")).unwrap();
    let error = build(&folder).unwrap_err();
    assert!(matches!(&error, CudaBuilderError::Panics { kernels, .. } if kernels[0].reasons.len() == 2), "{error}");
    assert!(format!("{error:?}").contains("  small: a division whose divisor may be 0; an index that"), "{error:?}");
    CudaBuilder::new(&folder).deny_panics(false).build().unwrap();

    // Instructions of inline assembly raise the version. A file with one that the architecture lacks is refused.
    let with = |assembly| INNER.replace("*to = 7", &format!("core::arch::asm!(\"{assembly}\"); *to = 7"));
    fs::write(folder.join("src/inner.rs"), with("nanosleep.u32 7;")).unwrap();
    let file = root.path().join("small.ptx");
    CudaBuilder::new(&folder).copy_to(&file).build().unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("\n.version 6.3\n.target sm_70\n"));
    fs::write(folder.join("src/inner.rs"), with("cp.async.wait_all;")).unwrap();
    let error = CudaBuilder::new(&folder).copy_to(&file).build().unwrap_err();
    assert!(error.to_string().contains("that sm_70 lacks:\n  small: cp.async.wait_all needs sm_80\n"), "{error}");
    build(&folder).unwrap();

    // An error keeps the compiler's words.
    fs::write(folder.join("src/inner.rs"), "fn broken( {").unwrap();
    let error = build(&folder).unwrap_err().to_string();
    assert!(error.contains("inner.rs"), "{error}");

    // `core` has no mathematical functions.
    fs::write(folder.join("src/inner.rs"), INNER.replace("*to = 7", "*to = (*to as f32).exp() as u32")).unwrap();
    let error = build(&folder).unwrap_err().to_string();
    let has_hint =
        error.lines().last().is_some_and(|line| line.starts_with("help: ") && line.contains("`math::exp(x)`"));
    assert!(error.contains("no method named `exp` found") && has_hint, "{error}");
}
