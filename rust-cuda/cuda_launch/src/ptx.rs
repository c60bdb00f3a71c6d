//! PTX inside the program.

/// The PTX of a crate of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The name of the crate in Rust, with underscores: `my_kernels`.
    pub crate_name: &'static str,
    /// The text.
    pub text: &'static str,
}

/// The [`Ptx`](crate::Ptx) that the `build.rs` of this crate made from the crate of kernels with this name.
///
/// The name is that of the crate in Rust, with underscores. The file is `OUT_DIR/NAME.ptx`, which
/// `cuda_builder::CudaBuilder::new(…).build_for_cargo()` writes.
///
/// ```ignore
/// device.load(cuda_launch::ptx!("kernels"))?;
/// ```
#[macro_export]
macro_rules! ptx {
    ($name:literal) => {
        $crate::Ptx { crate_name: $name, text: include_str!(concat!(env!("OUT_DIR"), "/", $name, ".ptx")) }
    };
}
