//! A kernel as its PTX declares it: what a launch, and whoever checks the PTX, goes by.

/// A parameter of a kernel, as its PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size in bytes.
    pub bytes: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Whether it is an address of the device.
    pub pointer: bool,
}

impl Parameter {
    /// An address in global memory.
    pub const POINTER: Self = Self { bytes: 8, align: 8, pointer: true };

    /// A value of type `T`.
    #[must_use]
    pub const fn value<T>() -> Self {
        Self { bytes: size_of::<T>(), align: align_of::<T>(), pointer: false }
    }
}

/// The oldest compute capability, major and minor, for which kernels are built that need nothing newer.
pub const OLDEST: (u32, u32) = (7, 0);

/// A kernel of any kind, as the PTX must hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The symbol.
    pub symbol: &'static str,
    /// The module that it stands in.
    pub module: &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
    /// The oldest compute capability, major and minor, that it runs on.
    pub compute_capability: (u32, u32),
    /// The threads of its blocks, and how many blocks a multiprocessor shall hold at a time, where the PTX has to say so: the
    /// assembler then takes as many registers as these get, and no more.
    pub residency: Option<(u32, u32)>,
}
