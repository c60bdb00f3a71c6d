//! Packs the generated PTX, which every program that launches kernels holds. It is text. With registers as distances
//! and deflated it has a tenth of its size.

#[cfg(feature = "ptx")]
#[path = "src/ptx/registers.rs"]
mod registers;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "ptx")]
    {
        println!("cargo::rerun-if-changed=ptx");
        println!("cargo::rerun-if-changed=src/ptx/registers.rs");
        let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
        if let Err(error) = pack("ptx".as_ref(), &out) {
            panic!("could not pack the PTX in kernels-gpu/ptx: {error}");
        }
    }
}

/// Writes each `name.ptx` of a folder as `name.ptx.z` into another.
#[cfg(feature = "ptx")]
fn pack(from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
    use flate2::{Compression, write::ZlibEncoder};
    for item in std::fs::read_dir(from)? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let name = path.file_name().expect("a file of a folder has a name").to_string_lossy();
            let text = std::fs::read_to_string(&path)?;
            let short = registers::shorten(&text);
            assert!(
                registers::restore(&short).is_some_and(|again| again == text),
                "{name}: registers are not restored"
            );
            let file = std::fs::File::create(to.join(format!("{name}.z")))?;
            let mut encoder = ZlibEncoder::new(file, Compression::new(6));
            std::io::Write::write_all(&mut encoder, short.as_bytes())?;
            encoder.finish()?;
        }
    }
    Ok(())
}
