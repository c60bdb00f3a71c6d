//! Rows from global memory: each thread loads its own window. For `f32` in 3 and 4 channels, for `u16`, and for `u8`
//! with masks from 5 x 5 on.
//!
//! # Thread mapping
//! A thread owns `C` neighbouring *values* of a row, a block `C * BLOCK` of them. A pixel has `CHANNELS` values, and
//! the window takes every `CHANNELS`-th one. So all channels of a pixel share the loads of a window.
//!
//! # Tiling
//! ```text
//!      left                         the window: C + (K - 1) CHANNELS values from `left` on
//!    ┌─┴──┬───────────────────┬───┐
//!    │LEAD│ C+(K-1)CHANNELS   │   │ aligned vectors of up to 16 bytes, the first one LEAD values before `left`
//!    └────┴───────────────────┴───┘
//! ```
//! The windows of neighbouring threads overlap. All but the first thread find these vectors in L1.
//!
//! # Border
//! A block whose vectors all lie between the image's left and right edges loads vectors. Any other block, and any row
//! outside of the image, loads single values through the border table (`common::border_table`). All loads of a
//! window are issued before the first value is used: otherwise the whole device would wait for the blocks at the
//! border.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::common::border_table;
use crate::common::contributing_rows::MaskRowBits;
use crate::common::partition::block_rows;
use crate::common::vector::{LoadVector, MAX_VECTOR_VALUES};
use crate::direct::sliding_window::BLOCK;
use crate::direct::sliding_window::passes::Pass;
use crate::direct::sliding_window::walk::{MAX_WINDOW, RowSource, RowWriter, Strip, Window, walk};

/// A barrier after the border table.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// The dynamic shared memory of a block in bytes: the border table.
#[must_use]
pub const fn shared_bytes(columns_per_thread: u32, channels: u32, side: u32) -> u64 {
    (BLOCK.0 * columns_per_thread + (side - 1) * channels) as u64 * size_of::<i32>() as u64
}

/// The kernel for a mask of `K` x `K`, `C` values a thread and `CHANNELS` values a pixel.
///
/// Each row is brought into L2 `PREFETCH_DISTANCE` rows before its use, unless that is 0.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `CHANNELS` values at their pitches.
/// - Both begin at a multiple of 16 bytes and do not overlap.
/// - The result is of type `P`, or of `f32` where [`WRITES_F32`](crate::common::vector::StoreVector::WRITES_F32).
/// - The block is [`BLOCK`], its dynamic shared memory at least [`shared_bytes`].
/// - The mask is `K` x `K`, and [`MASK`](struct@crate::teaching::constant_mask::MASK) holds its coefficients row after
///   row.
#[inline(always)]
pub unsafe fn sliding_window<
    P: LoadVector,
    const K: usize,
    const C: usize,
    const CHANNELS: u32,
    const PREFETCH_DISTANCE: u32,
>(
    image: Global<P>,
    result: OutputPtr,
    params: Params,
) {
    // SAFETY: `run` has exactly the conditions of this function.
    unsafe { GlobalRows::<P, K, C, CHANNELS, PREFETCH_DISTANCE>::run(image, result, params) }
}

/// Loads rows from global memory.
struct GlobalRows<P, const K: usize, const C: usize, const CHANNELS: u32, const PREFETCH_DISTANCE: u32> {
    image: Global<P>,
    params: Params,
    /// Whether the block loads values one by one: a window goes beyond the image's left or right edge, or is not
    /// aligned.
    scalar: bool,
    /// The thread's first vector of row `y`, where that row is inside.
    vectors: Global<P>,
    /// The next row; it may lie outside.
    y: i32,
    /// The part of the border table for the thread's window.
    table: Shared<i32>,
}

impl<P: LoadVector, const K: usize, const C: usize, const CHANNELS: u32, const PREFETCH_DISTANCE: u32>
    GlobalRows<P, K, C, CHANNELS, PREFETCH_DISTANCE>
{
    /// The column of the mask's middle.
    const ORIGIN: usize = (K - 1) / 2;
    /// Values of the window.
    const VALUES: usize = C + (K - 1) * CHANNELS as usize;
    /// Values of a vector.
    const VECTOR_VALUES: usize = if C.is_multiple_of(P::VECTOR_VALUES) { P::VECTOR_VALUES } else { 4 };
    /// Values from the start of the first vector to the window, where the anchor is the mask's middle.
    const LEAD: usize =
        (Self::VECTOR_VALUES - Self::ORIGIN * CHANNELS as usize % Self::VECTOR_VALUES) % Self::VECTOR_VALUES;
    /// Vectors that cover the window.
    const VECTORS: usize = {
        assert!(C.is_multiple_of(4) && Self::VALUES <= MAX_WINDOW && P::VECTOR_VALUES <= MAX_VECTOR_VALUES);
        (Self::LEAD + Self::VALUES).div_ceil(Self::VECTOR_VALUES)
    };

    /// The body of the kernel.
    ///
    /// # Safety
    /// As for [`sliding_window`].
    #[inline(always)]
    unsafe fn run(image: Global<P>, result: OutputPtr, params: Params) {
        let thread = thread::thread_idx_x();
        let columns = thread::block_dim_x() * C as u32;
        let values = params.width * CHANNELS as i32;
        let block_v = (thread::block_idx_x() * columns) as i32;
        let v = block_v + (thread * C as u32) as i32;
        let left = block_v - params.origin_x * CHANNELS as i32;

        let (first, rows) = block_rows::<1>(&params);
        let halo = params.mask_height - 1;
        let top = first - params.origin_y;

        let first_vector = left - Self::LEAD as i32;
        let covered = columns as i32 + (Self::VECTOR_VALUES * Self::VECTORS) as i32 - C as i32;
        let scalar = params.origin_x != Self::ORIGIN as i32
            || (params.src_pitch | params.dst_pitch) & (Self::VECTOR_VALUES as i32 - 1) != 0
            || first_vector < 0
            || first_vector + covered > values;
        let table = Shared::<i32>::dynamic();
        if scalar || top < 0 || top + rows + halo > params.height {
            let length = columns + (K as u32 - 1) * CHANNELS;
            // SAFETY: the table has an element for each value of the block's windows. All threads are here: the
            // condition is the same in all of them.
            unsafe { border_table::fill::<CHANNELS>(table, &params, left, length, (thread, thread::block_dim_x())) };
            // SAFETY: all threads are here: the condition is the same in all of them.
            unsafe { thread::sync_threads() };
        }
        if v >= values || rows <= 0 {
            return;
        }

        let first_vector = first_vector + (thread * C as u32) as i32;
        let mut source = Self {
            image,
            params,
            scalar,
            vectors: image.offset(params.src_index(first_vector, top)),
            y: top,
            table: table.offset(thread * C as u32),
        };
        let mut writer = RowWriter::<P, C>::new(result, &params, (v, first), values, !scalar);
        let strip = Strip { rows, halo, interior_begin: halo, interior_end: rows };
        // SAFETY: rows `first` to `first + rows` of values `v` to `v + C` are this thread's alone. The mask is K x K.
        unsafe { walk::<_, _, K, K, C, CHANNELS>(&mut source, &mut writer, strip, Pass::ALL_ROWS) }
    }
}

impl<P: LoadVector, const K: usize, const C: usize, const CHANNELS: u32, const PREFETCH_DISTANCE: u32> RowSource
    for GlobalRows<P, K, C, CHANNELS, PREFETCH_DISTANCE>
{
    type MaskRows = MaskRowBits;

    /// An interior row takes the same tests: one comparison with the image's height.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn load<const INTERIOR: bool>(&mut self, _r: i32) -> Window {
        let mut window = Window::ZERO;
        let params = &self.params;
        if !self.scalar && (self.y as u32) < params.height as u32 {
            for i in 0..Self::VECTORS {
                // SAFETY: the row is inside, and so are its vectors, aligned: the block is not `scalar`.
                let vector =
                    unsafe { P::load_vector(self.vectors, (i * Self::VECTOR_VALUES) as isize, Self::VECTOR_VALUES) };
                for j in 0..Self::VECTOR_VALUES {
                    let at = (i * Self::VECTOR_VALUES + j).wrapping_sub(Self::LEAD);
                    if at < Self::VALUES {
                        window.0[at] = vector[j];
                    }
                }
            }
            if PREFETCH_DISTANCE > 0 && self.y + (PREFETCH_DISTANCE as i32) < params.height {
                let later = self.vectors.offset(PREFETCH_DISTANCE as isize * params.src_pitch as isize);
                // The thread's own values. Its neighbours prefetch the halo.
                for i in 0..C / Self::VECTOR_VALUES {
                    let vector = i + (Self::ORIGIN * CHANNELS as usize).div_ceil(Self::VECTOR_VALUES);
                    // SAFETY: that row is inside, too, and the vector is one of the window's.
                    unsafe { later.prefetch((Self::VECTOR_VALUES * vector) as isize) };
                }
            }
        } else {
            let y = border::map(params.border, self.y, params.height);
            // The address of a row outside is computed and not used.
            let row = self.image.offset(params.src_index(0, y));
            let mut raw = [P::raw_border(params.border_value); MAX_WINDOW];
            for i in 0..Self::VALUES {
                // SAFETY: the table is filled for blocks and rows that come here. It has an element for each value.
                let v = unsafe { self.table.load(i as u32) };
                if v >= 0 && y >= 0 {
                    // SAFETY: row `y` and its value `v` lie in the image.
                    raw[i] = unsafe { row.load(v as isize) }.to_raw();
                }
            }
            for i in 0..Self::VALUES {
                window.0[i] = P::from_raw(raw[i], params.border_value);
            }
        }
        self.vectors = self.vectors.offset(params.src_pitch as isize);
        self.y += 1;
        window
    }
}
