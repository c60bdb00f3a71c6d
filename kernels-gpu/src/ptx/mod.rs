//! The kernels as PTX, ready to be loaded: what `cargo xtask build-ptx` made of this crate.
//!
//! The generated files are committed, so that a host program needs neither the sources of `core` nor a second
//! compilation. [`SOURCE_HASH`] tells whether they belong to the sources next to them; a test of xtask compares.
//!
//! There is one module per [`Entry::module`](crate::registry::Entry::module), because the driver compiles a module
//! when it is loaded: what a program does not use costs it nothing.

mod registers;

extern crate std;

use std::io::Read as _;
use std::string::String;

/// PTX that is loaded as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// The name, as [`Entry::module`](crate::registry::Entry::module) gives it.
    pub name: &'static str,
    /// The text with [`registers`] as distances, in the zlib format.
    packed: &'static [u8],
}

impl Module {
    /// The text; it holds no NUL.
    #[must_use]
    pub fn ptx(&self) -> String {
        let mut text = String::new();
        let mut decoder = flate2::read::ZlibDecoder::new(self.packed);
        decoder.read_to_string(&mut text).expect("the build script packed text");
        registers::restore(&text).expect("the build script shortened it")
    }
}

/// The packed text of a file.
macro_rules! packed {
    ($file:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".z"))
    };
}

include!("../../ptx/index.rs");

/// The module of this name.
///
/// ```
/// let entry = kernels_gpu::registry::entries().next().expect("there are entries");
/// let module = kernels_gpu::ptx::module(entry.module()).expect("each entry has a module");
/// assert!(module.ptx().contains(entry.symbol));
/// ```
#[must_use]
pub fn module(name: &str) -> Option<&'static Module> {
    // Sorted by name, as build-ptx writes them.
    MODULES.binary_search_by(|module| module.name.cmp(name)).ok().map(|index| &MODULES[index])
}
