//! A kernel as its PTX declares it. Launches and the checks of the PTX use these declarations.

/// A kernel parameter, as the PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The size in bytes.
    pub bytes: usize,
    /// The alignment in bytes.
    pub align: usize,
    /// Whether the parameter is a device address.
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

/// The compute capability, major and minor, of kernels that need no newer instruction.
pub const OLDEST: (u32, u32) = (7, 0);

/// The convergent instructions of a kernel: all threads of a block, or all lanes of a warp, execute them together.
///
/// The compiler must not copy a convergent instruction into another branch. Threads in different branches would wait
/// for each other forever. So each variant states how many its source has, and the PTX must have as many.
///
/// A call counts once for each iteration of the loops around it that have constant bounds, because the compiler unrolls
/// them. A call in any other loop counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convergent {
    /// `bar.sync`: [`sync_threads`](cuda_std::thread::sync_threads).
    pub barriers: u32,
    /// `bar.warp.sync`: [`sync_warp`](cuda_std::warp::sync_warp).
    pub warp_barriers: u32,
    /// `mma.sync`: [`mma`](cuda_std::mma).
    pub matrix_products: u32,
    /// `shfl.sync`: [`shuffle`](cuda_std::warp::shuffle) and its siblings.
    pub shuffles: u32,
    /// `vote.sync`: [`ballot`](cuda_std::warp::ballot).
    pub votes: u32,
}

impl Convergent {
    /// No convergent instruction: no thread waits for another.
    pub const NONE: Self = Self { barriers: 0, warp_barriers: 0, matrix_products: 0, shuffles: 0, votes: 0 };

    /// This many block barriers, and no other convergent instruction.
    #[must_use]
    pub const fn barriers(barriers: u32) -> Self {
        Self { barriers, ..Self::NONE }
    }

    /// The instructions of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            barriers: self.barriers + other.barriers,
            warp_barriers: self.warp_barriers + other.warp_barriers,
            matrix_products: self.matrix_products + other.matrix_products,
            shuffles: self.shuffles + other.shuffles,
            votes: self.votes + other.votes,
        }
    }
}

/// A kernel of any kind, as the PTX must declare it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The symbol.
    pub symbol: &'static str,
    /// The PTX module that holds the symbol.
    pub module: &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
    /// The oldest compute capability, major and minor, that runs the kernel.
    pub compute_capability: (u32, u32),
    /// The launch bounds: threads of a block, and the blocks that a multiprocessor should hold at a time.
    ///
    /// `None` leaves the number of registers to the assembler.
    pub launch_bounds: Option<(u32, u32)>,
    /// The convergent instructions of the source.
    pub convergent: Convergent,
}
