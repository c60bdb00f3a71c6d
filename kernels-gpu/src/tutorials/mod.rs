//! The kernels of four well-known tutorials, and a faster kernel for each slow one.
//!
//! | file | tutorial | kernels |
//! | --- | --- | --- |
//! | [`numba`] | Numba, "CUDA in Python, part 3" | a convolution with rows along x, and with columns along x |
//! | [`hpp`] | "Programming Massively Parallel Processors" | RGB: direct, in tiles, in tiles without idle threads |
//! | [`pointwise`] | a CuPy notebook on raw kernels | add a constant; a device function; an image |
//! | [`mean_1d`] | the same | a moving mean: direct, through shared memory, four elements a thread |
//! | [`reduce`] | the same | a sum by a tree, and by warp shuffles |
//! | [`box_blur`] | ROCm's tutorial on stencils | a box blur of 8-bit pixels, all products |
//! | [`box_separable`] | the same | rows, then columns |
//! | [`box_running`] | the same | running sums: no cost for a larger box |
//!
//! Their parameters are those of the originals, so that both can be compared. `docs/tutorials` explains them line by
//! line. `host tutorial` runs them.

pub mod box_blur;
pub mod box_running;
pub mod box_separable;
pub mod hpp;
pub mod mean_1d;
pub mod numba;
pub mod pointwise;
pub mod reduce;

use crate::abi::kernel::Kernel;

/// All kernels of the tutorials. The kernels of a file are one PTX module: they are small and used together.
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

/// Declares the kernels of a file: symbol, number of pointers, types of the values, and convergent instructions if any.
macro_rules! listed {
    (@convergent) => {
        $crate::abi::kernel::Convergent::NONE
    };
    (@convergent $convergent:expr) => {
        $convergent
    };
    ($module:literal; $($symbol:ident: $pointers:literal pointers, $($value:ty)* $(=> $convergent:expr)?;)*) => {
        /// The kernels of this file, as the PTX must declare them.
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
