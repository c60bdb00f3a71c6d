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

/// The instructions of a kernel that all threads of a block, or all lanes of a warp, must execute together.
///
/// The compiler must not put a copy of one into another branch: threads that take different branches would wait for
/// each other for ever.
/// So each family of kernels counts what its source has: a call counts once for each turn of the loops around it whose
/// bounds are
/// constants, because those are unrolled, and once in any other loop. The PTX must have as many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convergent {
    /// `bar.sync`, [`sync_threads`](cuda_std::thread::sync_threads).
    pub barriers: u32,
    /// `bar.warp.sync`, [`sync_warp`](cuda_std::warp::sync_warp).
    pub warp_barriers: u32,
    /// `mma.sync`, [`matrix`](cuda_std::mma).
    pub matrix_products: u32,
    /// `shfl.sync`, [`shuffle`](cuda_std::warp::shuffle) and its like.
    pub shuffles: u32,
    /// `vote.sync`, [`ballot`](cuda_std::warp::ballot).
    pub votes: u32,
}

impl Convergent {
    /// None at all: no thread waits for another.
    pub const NONE: Self = Self { barriers: 0, warp_barriers: 0, matrix_products: 0, shuffles: 0, votes: 0 };

    /// So many barriers of the block, and nothing else.
    #[must_use]
    pub const fn barriers(barriers: u32) -> Self {
        Self { barriers, ..Self::NONE }
    }
}

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
    pub launch_bounds: Option<(u32, u32)>,
    /// The convergent instructions of its source.
    pub convergent: Convergent,
}
