//! The kernels of four well-known tutorials, and for each that is slow, the one that shows what to do.
//!
//! | file | of | kernels |
//! | --- | --- | --- |
//! | [`numba`] | Numba, "CUDA in Python, part 3" | a convolution with rows along x, and with columns along x |
//! | [`hpp`] | "Programming Massively Parallel Processors" | RGB with constant memory: plain, in tiles, in tiles without idle threads |
//! | [`pointwise`] | a CuPy notebook on raw kernels | a constant added; a device function; an image |
//! | [`mean_1d`] | the same | a moving mean, plain, through shared memory, four elements a thread |
//! | [`reduce`] | the same | a sum by a tree, and by warp shuffles |
//! | [`box_blur`] | ROCm's tutorial on stencils | a box blur of 8-bit pixels, all products |
//! | [`box_separable`] | the same | rows, then columns |
//! | [`box_running`] | the same | running sums: no cost for a larger box |
//!
//! Their parameters are those of the originals, so that each can be read beside its own. They are explained line by line in
//! `docs/tutorials`; `host tutorial` runs them.

pub mod box_blur;
pub mod box_running;
pub mod box_separable;
pub mod hpp;
pub mod mean_1d;
pub mod numba;
pub mod pointwise;
pub mod reduce;

use crate::abi::kernel::Kernel;

/// All kernels of the tutorials. Those of a file are one module: they are small, and are used together.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    [
        numba::KERNELS,
        hpp::KERNELS,
        pointwise::KERNELS,
        mean_1d::KERNELS,
        reduce::KERNELS,
        box_blur::KERNELS,
        box_separable::KERNELS,
        box_running::KERNELS,
    ]
    .into_iter()
    .flatten()
    .copied()
}

/// The list of a file's kernels: symbol, pointers, the types of what is passed by value, and its convergent
/// instructions, if any.
macro_rules! listed {
    (@convergent) => {
        $crate::abi::kernel::Convergent::NONE
    };
    (@convergent $convergent:expr) => {
        $convergent
    };
    ($module:literal; $($symbol:ident: $pointers:literal pointers, $($value:ty)* $(=> $convergent:expr)?;)*) => {
        /// The kernels of this file, as the PTX must hold them.
        pub const KERNELS: &[$crate::abi::kernel::Kernel] = &[$(
            $crate::abi::kernel::Kernel {
                symbol: stringify!($symbol),
                module: $module,
                parameters: {
                    use $crate::abi::kernel::Parameter;
                    const VALUES: &[Parameter] = &[$(Parameter::value::<$value>()),*];
                    const ALL: [Parameter; $pointers + VALUES.len()] = {
                        let mut all = [Parameter::POINTER; $pointers + VALUES.len()];
                        let mut i = 0;
                        while i < VALUES.len() {
                            all[$pointers + i] = VALUES[i];
                            i += 1;
                        }
                        all
                    };
                    &ALL
                },
                compute_capability: $crate::abi::kernel::OLDEST,
                launch_bounds: None,
                convergent: $crate::tutorials::listed!(@convergent $($convergent)?),
            },
        )*];
    };
}
pub(crate) use listed;
