//! Rows double-buffered through registers and shared memory: for one channel of `f32`.
//!
//! # Thread mapping
//! A block is one warp. A thread owns `C` neighbouring columns, a multiple of 4, and the block owns those of its
//! threads. The last block of a row is shifted left so that it ends at the edge of the image. It computes some columns
//! of its left neighbour again, and does not store them.
//!
//! # Tiling
//! Each thread loads one fragment (`fragments`) of each row. In the step of row `r` a thread
//! - loads its window of row `r` from one buffer,
//! - stores its fragment of row `r + 1`, which it has held in `C + 1` registers for a whole step, to the other buffer,
//! - issues the loads of its fragment of row `r + 2`.
//!
//! So one barrier a row is enough, and the products of a row hide the latency of global memory.
//!
//! # Border
//! The block's own columns lie in the image. Each thread loads one column of the halo through a border table. So a
//! block at the border is as fast as any other; a slower one would delay the whole launch. Three cases load all columns
//! through the table: rows that are not aligned, an anchor that is not the center, an image narrower than a block.
//!
//! # Passes
//! A large mask takes several passes. A later pass begins its sums with what the pass before has
//! stored.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::contributing_rows::MaskRowRange;
use crate::common::partition::block_rows;
use crate::direct::sliding_window::BLOCK;
use crate::direct::sliding_window::fragments::{Fragment, FragmentLoader, HALO_BIT};
use crate::direct::sliding_window::passes::{Pass, PassWriter, pass_pitch};
use crate::direct::sliding_window::walk::{RowSource, Strip, Window, walk};

/// A barrier before each pass, and one for each row: in the loop of boundary rows and in that of interior rows.
pub const CONVERGENT: Convergent = Convergent::barriers(1 + 2);

/// Rows between the load of a row and its use.
pub const PREFETCH_DISTANCE: u32 = 2;

/// The dynamic shared memory of a block in bytes: two buffers and the border table.
#[must_use]
pub const fn shared_bytes(columns_per_thread: u32) -> u64 {
    3 * BLOCK.0 as u64 * (columns_per_thread as u64 + 1) * size_of::<f32>() as u64
}

/// The kernel for a mask of `K` x `K`, `H` of its rows in a pass, `C` columns a thread.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches.
/// - Both begin at a multiple of 16 bytes and do not overlap.
/// - The block is [`BLOCK`], its dynamic shared memory at least [`shared_bytes`].
/// - The mask is `K` x `K` with `K` at most 31. [`MASK`](struct@crate::teaching::constant_mask::MASK) holds its
///   coefficients, each row where [`mask_row`](super::mask_row) says.
#[inline(always)]
pub unsafe fn sliding_window<const K: usize, const H: usize, const C: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    let lane = thread::thread_idx_x();
    let (first, rows) = block_rows::<1>(&params);
    if rows <= 0 {
        return;
    }

    const ALIGNED: i32 = 3;
    let columns = (BLOCK.0 * C as u32) as i32;
    let first_x = thread::block_idx_x() as i32 * columns;
    let moves = params.width & ALIGNED == 0 && params.width >= columns;
    let block_x = if moves { first_x.min(params.width - columns) } else { first_x };
    let x = block_x + (lane * C as u32) as i32;
    let buffers = Shared::<f32>::dynamic();
    let loader = FragmentLoader::<K, C> {
        image,
        params,
        scalar: params.origin_x != FragmentLoader::<K, C>::ORIGIN as i32
            || params.src_pitch & ALIGNED != 0
            || block_x + columns > params.width,
        pitch: params.src_pitch as u32 as isize,
        block_x,
        lane,
        table: buffers.offset(2 * FragmentLoader::<K, C>::BUFFER).cast::<i32>(),
    };
    loader.fill_table(block_x - params.origin_x - FragmentLoader::<K, C>::LEAD as i32);
    let has_interior = !loader.scalar && params.dst_pitch & ALIGNED == 0;

    // The compiler must not know the counts of passes and rows, or it would unroll the loops.
    let passes = if H < K { thread::black_box(K.div_ceil(H) as u32) as i32 } else { 1 };
    let halo = if H < K { thread::black_box(H as u32 - 1) as i32 } else { params.mask_height - 1 };
    let end = rows + halo;
    let (mut index, mut coefficients) = (0, 0);
    while index < passes {
        thread::no_unroll();
        let pass = if H < K { Pass::new::<K, H>(index, coefficients) } else { Pass::ALL_ROWS };
        let top = first - params.origin_y + pass.first_row;
        let mut writer = PassWriter::<C> {
            result,
            params,
            x,
            first_x,
            first,
            rows,
            halo,
            accumulates: H < K && index > 0,
            finish: if index == passes - 1 { params.exact_finish() } else { (1.0, -0.0) },
            next_row: result,
        };

        // In the step of an interior row, the rows that are loaded and stored lie in the image, or are not needed.
        let interior_begin = (-1 - top).max(0);
        let interior_end = if top + end <= params.height { end } else { params.height - top - 2 };
        // All rows of one pass may lie above the image. Then there is no row to load in place of the last one.
        let interior_end = if has_interior && (H == K || top + end > 0) { interior_end } else { 0 };
        let interior_begin = if interior_begin < interior_end { interior_begin } else { end };

        let mut fragment = Fragment::ZERO;
        let mut source = DoubleBuffered::<K, H, C> {
            loader,
            buffers,
            fragment: &mut fragment,
            current: 0,
            top,
            end,
            next_row: image,
            rows,
        };
        // SAFETY: the table is filled. The other threads read the buffer after the barrier.
        unsafe {
            loader.load(source.fragment, top);
            loader.store(buffers, source.fragment);
            loader.load(source.fragment, top + 1);
        }
        // SAFETY: all threads are here: the number of passes is the same in all of them.
        unsafe { thread::sync_threads() };
        let strip = Strip { rows, halo, interior_begin, interior_end };
        // SAFETY: rows `first` to `first + rows` of the columns from `first_x` on are this block's alone. The mask
        // holds the coefficients of all passes, as this function requires.
        unsafe { walk::<_, _, K, H, C, 1>(&mut source, &mut writer, strip, pass) };
        index += 1;
        if H < K {
            // An offset computed from `index` would not stay in a uniform register: ptxas must see that it is uniform.
            coefficients = thread::black_box(coefficients + pass_pitch(K as u32));
        }
    }
}

/// Loads rows two steps before their use, through registers and two buffers in shared memory.
struct DoubleBuffered<'a, const K: usize, const H: usize, const C: usize> {
    loader: FragmentLoader<K, C>,
    /// Two buffers of a row each.
    buffers: Shared<f32>,
    /// The thread's fragment of the row after the one in the current buffer. (Held by value, it makes ptxas spill.)
    fragment: &'a mut Fragment,
    /// The offset of the current buffer. (An offset, because ptxas miscompiles two addresses that are swapped.)
    current: u32,
    /// The first row of the strip's input, and its number of rows.
    top: i32,
    end: i32,
    /// The row that the next interior row loads.
    next_row: Global<f32>,
    /// Rows of the strip's output.
    rows: i32,
}

impl<const K: usize, const H: usize, const C: usize> DoubleBuffered<'_, K, H, C> {
    /// Whether row `r` is one of the strip's input. (By its distance from `rows`: `end` would take a register.)
    #[inline(always)]
    fn has_input(&self, r: i32) -> bool {
        r - self.rows < H as i32 - 1
    }
}

impl<const K: usize, const H: usize, const C: usize> RowSource for DoubleBuffered<'_, K, H, C> {
    type MaskRows = MaskRowRange<K, H>;

    #[inline(always)]
    unsafe fn load<const INTERIOR: bool>(&mut self, r: i32) -> Window {
        // SAFETY: the current buffer was filled before the last barrier, after which no thread reads the other one. An
        // interior row loads a row that is inside, and the columns of the table are the image's or negative.
        unsafe {
            let window;
            if INTERIOR {
                let halo_column = self.loader.halo_column();
                window = self.loader.window(self.buffers.offset(self.current));
                self.current = FragmentLoader::<K, C>::BUFFER - self.current;
                self.loader.store_interior(self.buffers.offset(self.current), self.fragment, halo_column);
                self.loader.load_own(self.fragment, self.next_row);
                self.fragment.halo = self.next_row.load(halo_column.max(0) as u32 as isize);
            } else {
                let other = FragmentLoader::<K, C>::BUFFER - self.current;
                self.loader.store(self.buffers.offset(other), self.fragment);
                if self.has_input(r + PREFETCH_DISTANCE as i32) {
                    self.loader.load(self.fragment, self.top + r + PREFETCH_DISTANCE as i32);
                }
                window = self.loader.window(self.buffers.offset(self.current));
                self.current = other;
            }
            // All threads of the block walk the same rows, so all are here.
            thread::sync_threads();
            window
        }
    }

    #[inline(always)]
    fn enter_interior(&mut self, r: i32) {
        self.next_row = self.loader.row(self.top + (r + PREFETCH_DISTANCE as i32).min(self.end - 1));
    }

    #[inline(always)]
    fn end_interior_row(&mut self, r: i32) {
        // After the last row that is needed, that row is loaded again.
        let is_needed = self.has_input(r + PREFETCH_DISTANCE as i32 + 1);
        self.next_row = self.next_row.offset(if is_needed { self.loader.pitch } else { 0 });
    }

    #[inline(always)]
    fn leave_interior(&mut self) {
        self.fragment.outside = (self.loader.halo_column() as u32 >> 31) << HALO_BIT;
    }
}
