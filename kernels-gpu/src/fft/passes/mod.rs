//! Overlap-save with tiles of 1024 x 1024 pixels, for masks of up to 512 x 512: three kernels, one after the other.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! # Tiling
//! The circular correlation of a tile with a mask of `w x h` is right at its first `1025 - w` columns and `1025 - h`
//! rows. So tiles begin that far apart. Two tiles side by side make one complex tile: the pixels of the first are the
//! real parts, those of the second the imaginary parts. The mask is real, so the same holds for the results.
//! Interleaved channels have pairs of their own. Those of one place follow each other, so the L2 cache still has the
//! pixels when the next channel reads them.
//!
//! # Passes
//! | kernel | reads | writes |
//! | --- | --- | --- |
//! | `rows` | rows of pixels | rows of frequencies, and facts about the pixels |
//! | `columns` | columns of these | the same columns: forward, times the spectrum of the mask, and back |
//! | `back` | rows of these | rows of results |
//!
//! What lies between two passes is in scratch memory; see [`layout`]. A launch has as many pairs of tiles as that has
//! room for. Rows and columns that no result of the image needs count as zeros. They are neither stored nor read.
//!
//! # Thread mapping
//! 1024 = 32 x 32 along both axes. A thread has 32 points of a row or a column, then exchanges them through shared
//! memory, and has 32 others. `n = t + 32 j` is the number of a point and `k = q + 32 p` that of a frequency:
//! ```text
//! thread t    32 points j  ->  32 results q, times exp(-2 pi i t q / 1024)
//! thread q    32 points t  ->  32 results p
//! ```
//! Back it goes in the opposite order.
//! - Rows: a warp has a row. It reads and writes neighbouring numbers. Only the lanes of a warp exchange numbers, so a
//!   barrier of the warp is enough.
//! - Columns: a block has 4 columns. Between the four transforms of 32 points are two exchanges.
//!
//! # Bank conflicts
//! Number `t` of row `q` of an exchange is in column `t ^ q` in the first and the third pass. In the second one the
//! 4 x 32 numbers of a row are 132 numbers apart from the next row's.
//!
//! # Accuracy
//! As for [`fft_tile`](super::tile) each result is proven to keep its bound, or it is computed again; see
//! [`error`](super::error). The number that is subtracted from the pixels of a tile is the mean of 256 of them. A few
//! results that fail are computed by warps, a window at a time. If many results of a block fail, it computes all in the
//! order of the direct kernels.

mod back;
mod columns;
pub mod layout;
mod ordered;
mod rows;
mod tiles;

use cuda_std::prelude::*;

use self::layout::{GROUP, LARGEST_MASK, POINTS, TWIDDLES};
pub use self::tiles::{pairs_across, valid};
use super::error::Transforms;
use super::warp_sum;
use crate::abi::kernel::{Kernel, OLDEST, Parameter};
use crate::abi::params::Params;
use crate::registry::{Accuracy, Arithmetic, Grid, Ineligible, MaskForm, MaskMemory, Request, Spec, f32_result};

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Warps of a block.
const WARPS: u32 = THREADS / 32;
/// Rows that a block of the first or the third pass transforms: one for each warp.
const ROWS: u32 = WARPS;

/// Complex numbers of the exchange of any pass.
const EXCHANGE: u32 = ROWS * POINTS;

/// The parts of a block's shared memory.
#[derive(Clone, Copy)]
struct SharedParts {
    exchange: Shared<F32x2>,
    /// The factors `exp(-2 pi i t q / 1024)`, number `32 q + t`.
    twiddles: Shared<F32x2>,
    /// For each warp: what it knows of the pixels.
    facts: Shared<F32x4>,
    /// For each warp: a sum.
    sums: Shared<F32x2>,
}

/// Shared memory of a block of the first and the third pass, in bytes.
pub const SHARED_BYTES: u32 = shared_bytes(EXCHANGE);
/// The same for the second pass.
const SHARED_BYTES_OF_COLUMNS: u32 = shared_bytes(columns::EXCHANGE);

const fn shared_bytes(exchange: u32) -> u32 {
    8 * (exchange + POINTS) + (16 + 8) * WARPS
}

impl SharedParts {
    #[inline(always)]
    fn new(exchange_length: u32) -> Self {
        let exchange = Shared::<F32x2>::dynamic();
        let twiddles = exchange.offset(exchange_length);
        let facts = twiddles.offset(POINTS).cast::<F32x4>();
        let sums = facts.offset(WARPS).cast::<F32x2>();
        Self { exchange, twiddles, facts, sums }
    }
}

/// Copies the factors to shared memory.
///
/// # Safety
/// - All threads of the block call this, and no thread reads the factors before the next barrier.
/// - `mask` is as [`layout`] describes.
#[inline(always)]
unsafe fn fill_twiddles<const THREADS: u32>(parts: &SharedParts, mask: Global<f32>, thread: u32) {
    let from = mask.offset(TWIDDLES as isize).cast::<F32x4>();
    let to = parts.twiddles.cast::<F32x4>();
    for i in 0..POINTS / 2 / THREADS {
        let index = thread + i * THREADS;
        // SAFETY: there are 512 vectors of two factors. Each thread copies its own.
        unsafe { to.store(index, from.load(index as isize)) };
    }
}

/// The sums of two numbers over all threads of a block.
///
/// # Safety
/// - All threads of the block call this, and no thread uses `sums` before or after without a barrier between.
#[inline(always)]
unsafe fn sum_of_block(parts: &SharedParts, values: [f32; 2], (warp, lane): (u32, u32)) -> [f32; 2] {
    // SAFETY: all threads are here; each warp has its own place.
    unsafe {
        let of_warp = [warp_sum(values[0]), warp_sum(values[1])];
        if lane == 0 {
            parts.sums.store(warp, F32x2(of_warp));
        }
        thread::sync_threads();
        let mut sums = [0.0; 2];
        for warp in 0..WARPS {
            let F32x2(of_warp) = parts.sums.load(warp);
            sums = [sums[0] + of_warp[0], sums[1] + of_warp[1]];
        }
        sums
    }
}

/// Grid, block and bytes of shared memory of a launch.
pub type Shape = ((u32, u32), (u32, u32), u32);

/// The shapes of the launches of the three passes for `pairs` pairs of tiles, of all channels together.
#[must_use]
pub const fn shapes(pairs: u32) -> [Shape; 3] {
    let rows = ((pairs, POINTS / ROWS), (THREADS, 1), SHARED_BYTES);
    let columns = ((POINTS / GROUP, pairs), (columns::THREADS, 1), SHARED_BYTES_OF_COLUMNS);
    [rows, columns, rows]
}

crate::registry::instances! {
    FftPasses;
    sm_70 "fft_passes_{T}_c{C}" for T in [f32], C in [1, 2, 3, 4];
        |image, scratch, mask, params| rows::rows::<C>(image, scratch.cast(), mask, params)
}

/// The second pass.
///
/// # Safety
/// The conditions of `columns::columns` hold.
#[kernel(no_launcher)]
pub unsafe fn fft_passes_columns(scratch: GlobalMut<f32>, mask: Global<f32>, params: Params, channels: u32) {
    // SAFETY: the conditions of this function are those of the body.
    unsafe { columns::columns(scratch, mask, params, channels) }
}

/// The second pass, as the PTX must hold it.
pub const COLUMNS: Kernel = Kernel {
    symbol: "fft_passes_columns",
    module: "fft_passes_columns",
    parameters: &[Parameter::POINTER, Parameter::POINTER, Parameter::value::<Params>(), Parameter::value::<u32>()],
    compute_capability: OLDEST,
    launch_bounds: Some((columns::THREADS, 4)),
    convergent: columns::CONVERGENT,
};

/// The third pass compiled for the host. Arguments: scratch, image, result, mask, params.
#[cfg(not(target_arch = "nvptx64"))]
pub type Back = unsafe fn(GlobalMut<f32>, Global<f32>, GlobalMut<f32>, Global<f32>, Params);

/// The third pass for each number of channels from 1 on.
macro_rules! third_passes {
    ($($symbol:ident $channels:literal),+) => {
        $(
            /// The third pass.
            ///
            /// # Safety
            /// The conditions of `back::back` hold.
            #[kernel(no_launcher)]
            pub unsafe fn $symbol(
                scratch: GlobalMut<f32>,
                image: Global<f32>,
                result: GlobalMut<f32>,
                mask: Global<f32>,
                params: Params,
            ) {
                // SAFETY: the conditions of this function are those of the body.
                unsafe { back::back::<$channels>(scratch, image, result, mask, params) }
            }
        )+

        /// The third pass, as the PTX must hold it.
        pub const BACK: [Kernel; 4] = [$(back_kernel(stringify!($symbol))),+];

        /// The third pass, for an executor to run.
        #[cfg(not(target_arch = "nvptx64"))]
        pub const BACK_FUNCTIONS: [Back; 4] = [$($symbol),+];
    };
}

third_passes! { fft_passes_back_c1 1, fft_passes_back_c2 2, fft_passes_back_c3 3, fft_passes_back_c4 4 }

const fn back_kernel(symbol: &'static str) -> Kernel {
    /// Scratch, image, result, mask, params.
    const PARAMETERS: [Parameter; 5] =
        [Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::value::<Params>()];
    Kernel {
        symbol,
        module: symbol,
        parameters: &PARAMETERS,
        compute_capability: OLDEST,
        launch_bounds: Some((THREADS, 2)),
        convergent: back::CONVERGENT,
    }
}

/// The masks that a tile has room for, and for which transforms of this length prove something.
fn requirement(request: &Request) -> Result<(), Ineligible> {
    let (least, most) = if request.mask.0 < request.mask.1 { request.mask } else { (request.mask.1, request.mask.0) };
    if most > LARGEST_MASK {
        let (property, required) = ("the sides of the mask", (1.0, LARGEST_MASK as f32));
        return Err(Ineligible::Range { property, required, found: (least as f32, most as f32) });
    }
    // Of fewer coefficients most results would be computed again.
    let (found, fewest) = ((least * most) as f32, 1024.0);
    if found < fewest {
        let (property, required) = ("the number of coefficients", (fewest, (LARGEST_MASK * LARGEST_MASK) as f32));
        return Err(Ineligible::Range { property, required, found: (found, found) });
    }
    Ok(())
}

/// See [`Spec`]. The entry is the first pass. `outputs` are those of a block of the third one.
pub const SPEC: Spec = Spec {
    name: "fft_passes",
    summary: "Fourier transforms of 1024 x 1024 tiles in three passes, with a proof for each result",
    reason: "Fourier transforms of 1024 x 1024 tiles in three passes",
    accuracy: Accuracy::Bounded {
        error_constant: |_, mask| Transforms::PASSES.error_constant(mask),
        arithmetic: Arithmetic::F32,
    },
    mask_memory: MaskMemory::Global,
    mask_form: MaskForm::SpectrumOfPasses,
    mask_class: None,
    results: f32_result,
    border_is_pixel: |_| false,
    requirement,
    uses_fp32_units: false,
    grid: Grid::Tiles,
    block: |_| (THREADS, 1),
    outputs: |_, mask| {
        let (columns, rows) = valid(mask);
        (2 * columns, rows * ROWS / POINTS)
    },
    pixels_together: 1,
    shared_bytes: |_, _| SHARED_BYTES as u64,
    launch_bounds: |_| Some((THREADS, 2)),
    convergent: |_| rows::CONVERGENT,
};
