//! Walking down a strip of the image: how rows reach a thread's registers, and how its results leave them.
//!
//! The walk of [`separable`](crate::separable::error_bound), and what [`staged`](crate::direct::sliding_window::staged), that of [`stream`](crate::direct::sliding_window::stream), has in common with it.
//!
//! # Thread mapping
//! An image of several interleaved channels is here a row of *values*, whose windows take every `CHANNELS`-th one. A thread owns
//! `C` neighbouring values (a multiple of 4), a block of [`BLOCK`] threads `C * BLOCK` of them. The grid's rows share out
//! the image's: with `grid_dim_y` of them each block has a *strip* of `ceil(rows / grid_dim_y)` rows, so the host can cut the
//! image into just as many strips as fill the device once.
//!
//! # Tiling
//! ```text
//!      left            v            the window's values of a thread: C + (K - 1) CHANNELS from `left` on, read in
//!    ┌─┬─┴─────────┬───┴───┬───┐    vectors of up to 16 bytes, aligned to their size, the first one beginning `LEAD`
//!    │ │LEAD│ C+(K-1)CHANNELS  │    values further left; each row of the image is read once for every K rows of sums
//!    └─┴───────────┴───────────┘
//! ```
//! Neighbouring threads read overlapping vectors; all but the first reader find them in L1.
//!
//! # The edge
//! A block asks once whether all that its threads read lies between the image's left and right edges, and is aligned.
//! Then a row costs nothing beyond its loads and one comparison with the image's height. Any other block (and any row
//! outside of the image) reads value by value, through a table in shared memory of which value stands for which: 4
//! bytes per value of the window, made once by the whole block. So the maps of the borders are evaluated once per
//! value of a row and once per row, never per pixel. Nothing is done with a value before all are
//! asked for, so that they are under way at once: all other blocks would have to wait for those at the edge.

use core::marker::PhantomData;

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::partition::block_rows;
use crate::common::vector::{MOST_LANES, Vector};

/// Threads of a block: one row, and one warp, so that a multiprocessor takes as many as its registers allow.
pub const BLOCK: (u32, u32) = (32, 1);

/// How a kernel for one size of mask walks, and how its launches fill a device: what was fastest, as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Values of a row that a thread owns, a multiple of 4.
    pub columns: usize,
    /// When a row of pixels is read: 0 when it is used; 1 a row earlier, into registers; more when it is used, but that
    /// many rows earlier it is brought into the L2 cache.
    pub ahead: usize,
    /// Blocks that a multiprocessor holds at a time: what its 65,536 registers and 32 places allow on compute capability
    /// 9.0.
    pub resident: u32,
    /// How many times as many blocks as the device holds at a time. More give the device something to do while the last
    /// ones end; each reads `K - 1` rows more than it writes.
    pub waves: u32,
}

/// The schedule for `size` in a list of them.
///
/// # Panics
/// If it is not in the list.
#[must_use]
pub(crate) const fn schedule(list: &[(u32, Schedule)], size: u32) -> Schedule {
    let mut i = 0;
    while i < list.len() {
        if list[i].0 == size {
            return list[i].1;
        }
        i += 1;
    }
    panic!("no kernel for this size")
}

/// The dynamic shared memory that a launch needs, in bytes: the table of values.
#[must_use]
pub const fn shared_bytes(columns: u32, channels: u32, mask_width: u32) -> u64 {
    (BLOCK.0 as u64 * columns as u64 + (mask_width as u64 - 1) * channels as u64) * size_of::<i32>() as u64
}

/// The most values of a window.
const MOST_VALUES: usize = 48;

/// The values of one row that a thread needs, in its registers: every index is a constant after unrolling.
#[derive(Clone, Copy)]
pub(crate) struct Values([f32; MOST_VALUES]);

impl Values {
    /// None yet.
    const NONE: Self = Self([0.0; MOST_VALUES]);

    /// Value `i` of the window.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> f32 {
        self.0[i]
    }
}

/// Where a thread's window lies, for masks of `K` x `K`, `C` values a thread and `CHANNELS` of them a pixel.
struct Window<P, const K: usize, const C: usize, const CHANNELS: usize>(PhantomData<P>);

impl<P: Vector, const K: usize, const C: usize, const CHANNELS: usize> Window<P, K, C, CHANNELS> {
    /// The column of the middle of the mask.
    const ORIGIN: usize = (K - 1) / 2;
    /// Values of the window.
    const VALUES: usize = C + (K - 1) * CHANNELS;
    /// Values of one access.
    const LANES: usize = if C.is_multiple_of(P::LANES) { P::LANES } else { 4 };
    /// Values from the start of the first vector to the window's, when the anchor is the mask's middle.
    const LEAD: usize = (Self::LANES - Self::ORIGIN * CHANNELS % Self::LANES) % Self::LANES;
    /// Vectors that cover the window.
    const VECTORS: usize = {
        assert!(C.is_multiple_of(4) && Self::VALUES <= MOST_VALUES && P::LANES <= MOST_LANES);
        (Self::LEAD + Self::VALUES).div_ceil(Self::LANES)
    };
}

/// Reads one row after the other, from top to bottom.
struct Reader<P, const K: usize, const C: usize, const CHANNELS: usize, const AHEAD: usize> {
    image: Global<P>,
    params: Params,
    /// Whether a window of the block goes beyond the image, or is not aligned.
    edge: bool,
    /// The first vector of the next row, where that row is inside.
    vectors: Global<P>,
    /// The next row; it may lie outside.
    y: i32,
    /// The thread's part of the table: for each value of the window the one that stands for it, or `OUTSIDE`.
    table: Shared<i32>,
}

impl<P: Vector, const K: usize, const C: usize, const CHANNELS: usize, const AHEAD: usize>
    Reader<P, K, C, CHANNELS, AHEAD>
{
    /// The next row.
    ///
    /// # Safety
    /// The image is as `params` say; where `edge` is false, the vectors of the thread lie in its rows and are aligned;
    /// where it is true or the row lies outside, the table is filled.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn next(&mut self) -> Values {
        let mut found = Values::NONE;
        let params = &self.params;
        let lanes = Window::<P, K, C, CHANNELS>::LANES;
        if !self.edge && (self.y as u32) < params.height as u32 {
            for i in 0..Window::<P, K, C, CHANNELS>::VECTORS {
                // SAFETY: the row is inside, and so are its vectors, as the caller promised.
                let vector = unsafe { P::load_vector(self.vectors, (i * lanes) as isize, lanes) };
                for j in 0..lanes {
                    let at = (i * lanes + j).wrapping_sub(Window::<P, K, C, CHANNELS>::LEAD);
                    if at < Window::<P, K, C, CHANNELS>::VALUES {
                        found.0[at] = vector[j];
                    }
                }
            }
            if AHEAD > 1 && self.y + (AHEAD as i32) < params.height {
                let later = self.vectors.offset(AHEAD as isize * params.src_pitch as isize);
                // The thread's own values: what lies beside them is its neighbours'.
                for i in 0..C / lanes {
                    let vector = i + (Window::<P, K, C, CHANNELS>::ORIGIN * CHANNELS).div_ceil(lanes);
                    // SAFETY: that row is inside, too, and the vector one of those that were read of this row.
                    unsafe { later.prefetch((lanes * vector) as isize) };
                }
            }
        } else {
            let y = border::map(params.border, self.y, params.height);
            // Of a row that does not exist nothing is read; its pointer is only made.
            let row = self.image.offset(params.src_index(0, y));
            let mut raw = [P::outside(params.border_value); MOST_VALUES];
            for i in 0..Window::<P, K, C, CHANNELS>::VALUES {
                // SAFETY: the table has a value of the row or `OUTSIDE` for each of the window.
                let v = unsafe { self.table.load(i as u32) };
                if v >= 0 && y >= 0 {
                    // SAFETY: row and value are those of a pixel.
                    raw[i] = unsafe { row.load(v as isize) }.to_raw();
                }
            }
            for i in 0..Window::<P, K, C, CHANNELS>::VALUES {
                found.0[i] = P::of_raw(raw[i], params.border_value);
            }
        }
        self.vectors = self.vectors.offset(params.src_pitch as isize);
        self.y += 1;
        found
    }
}

/// Writes one row after the other.
struct Writer<P, const C: usize> {
    result: OutputPtr,
    /// The thread's first value in the next row.
    index: isize,
    pitch: i32,
    scale: f32,
    offset: f32,
    /// Whether all values of the block lie in the row, and are aligned.
    whole: bool,
    /// Values of the row from the thread's first one on.
    values: i32,
    /// Whether results are `f32` and the image is not.
    converts: bool,
    image: PhantomData<P>,
}

impl<P: Vector, const C: usize> Writer<P, C> {
    /// The next row: `scale * sum + offset`.
    ///
    /// # Safety
    /// The row lies in the result, and no other thread has the thread's values. Where `whole`, all `C` values
    /// lie in it, aligned to 16 bytes.
    #[inline(always)]
    unsafe fn next(&mut self, sums: &[f32; C]) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.converts {
                self.store::<f32>(sums);
            } else {
                self.store::<P>(sums);
            }
        }
        self.index += self.pitch as isize;
    }

    /// Writes the row in one of the two types.
    ///
    /// # Safety
    /// As for [`next`](Self::next), and the result is of type `R`.
    #[inline(always)]
    unsafe fn store<R: Vector>(&self, sums: &[f32; C]) {
        let row = self.result.cast::<R>().offset(self.index);
        let finished = |c: usize| fma(sums[c], self.scale, self.offset);
        if self.whole {
            let lanes = if C.is_multiple_of(R::LANES) { R::LANES } else { 4 };
            for i in 0..C / lanes {
                let values = core::array::from_fn(|j| if j < lanes { finished(i * lanes + j) } else { 0.0 });
                // SAFETY: the vector lies in the result and is aligned, as the caller promised.
                unsafe { R::store_vector(row, (i * lanes) as isize, values, lanes) };
            }
        } else {
            for c in 0..C {
                if (c as i32) < self.values {
                    // SAFETY: the value is inside.
                    unsafe { row.store(c as isize, R::from_f32(finished(c))) };
                }
            }
        }
    }
}

/// The partial sums of a thread: `sums[a]` belongs to the output that is `a` rows below the next one to be finished.
pub(crate) type Sums<const K: usize, const C: usize> = [[f32; C]; K];

/// Which rows of the mask a row of the image is multiplied with: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needed(Option<u32>);

impl Needed {
    /// All of them, known to the compiler: no question is left.
    pub(crate) const ALL: Self = Self(None);

    /// For row `r` of those that a strip of `rows` rows reads: each whose output lies in the strip.
    #[inline(always)]
    pub(crate) fn at(r: i32, rows: i32) -> Self {
        let above = (r - rows + 1).clamp(0, 31) as u32;
        let upto = u32::MAX >> (31 - r.min(31) as u32);
        // Opaque, or LLVM would see that one bit implies the next, and make a copy of the code for each first one.
        Self(Some(thread::black_box(upto >> above << above)))
    }

    /// Whether row `k` of the mask is.
    #[inline(always)]
    pub(crate) fn has(self, k: usize) -> bool {
        self.0.is_none_or(|bits| bits >> k & 1 != 0)
    }
}

/// What a kernel adds up. A trait and no closure, because only a method can be told to be inlined whatever its size.
pub(crate) trait AddRow<const K: usize, const C: usize> {
    /// Adds a row of values to the sums, and moves each one up by one: `sums[a]` is made from `sums[a + 1]`.
    ///
    /// # Safety
    /// The constants that the kernel reads are set.
    unsafe fn add(sums: &mut Sums<K, C>, values: &Values, needed: Needed);
}

/// What the kernel has of each convergent instruction: a barrier behind which the table of columns is whole.
pub const CONVERGENT: Convergent = Convergent::barriers(1);

/// Walks down the block's strip: `R` adds one row of pixels after the other to the sums, and after each `sums[0]` is
/// written.
///
/// The first and last `K - 1` rows of pixels touch outputs of the neighbouring strips, too. What they would add to those
/// is left out by [`Needed`], in a loop of its own: the questions cost the main loop nothing, and the work is
/// that of the strip, whatever its length. With an `AHEAD` of 1 the next row is under way while this one
/// is added; see [`Schedule::ahead`].
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `CHANNELS` values at their pitches, begin at a multiple of 16 bytes
///   and do not overlap. The result is of type `P`, or, where that [converts](Vector::CONVERTS), of `f32`.
/// - The block is one row of threads, the dynamic shared memory at least [`shared_bytes`] for `C` values a thread, the
///   mask `K` x `K` with `K` at most 31.
/// - What [`AddRow::add`] of `R` asks for.
#[inline(always)]
pub(crate) unsafe fn walk<
    P: Vector,
    R: AddRow<K, C>,
    const K: usize,
    const C: usize,
    const CHANNELS: usize,
    const AHEAD: usize,
>(
    image: Global<P>,
    result: OutputPtr,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let columns = thread::block_dim_x() * C as u32;
    let values = params.width * CHANNELS as i32;
    let block_v = (thread::block_idx_x() * columns) as i32;
    let v = block_v + (thread * C as u32) as i32;
    let left = block_v - params.origin_x * CHANNELS as i32;

    let (first, rows) = block_rows::<1>(&params);
    // Of the parameters and not of `K`, or LLVM would unroll the loop over them.
    let more = params.mask_height - 1;
    let top = first - params.origin_y;

    let lanes = Window::<P, K, C, CHANNELS>::LANES;
    let first_vector = left - Window::<P, K, C, CHANNELS>::LEAD as i32;
    let covered = columns as i32 + (lanes * Window::<P, K, C, CHANNELS>::VECTORS) as i32 - C as i32;
    let edge = params.origin_x != Window::<P, K, C, CHANNELS>::ORIGIN as i32
        || (params.src_pitch | params.dst_pitch) & (lanes as i32 - 1) != 0
        || first_vector < 0
        || first_vector + covered > values;
    let table = Shared::<i32>::dynamic();
    if edge || top < 0 || top + rows + more + (AHEAD == 1) as i32 > params.height {
        let mut i = thread;
        while i < columns + ((K - 1) * CHANNELS) as u32 {
            thread::no_unroll();
            // SAFETY: the table has an element for each value of the block's windows.
            unsafe { table.store(i, stands_for::<CHANNELS>(&params, left + i as i32)) };
            i += thread::block_dim_x();
        }
        // SAFETY: all threads are here: the condition depends on the block alone, and threads return only below.
        unsafe { thread::sync_threads() };
    }
    if v >= values || rows <= 0 {
        return;
    }

    let first_vector = first_vector + (thread * C as u32) as i32;
    let mut reader = Reader::<P, K, C, CHANNELS, AHEAD> {
        image,
        params,
        edge,
        vectors: image.offset(params.src_index(first_vector, top)),
        y: top,
        table: table.offset(thread * C as u32),
    };
    let (scale, offset) = params.exact_finish();
    let mut writer = Writer::<P, C> {
        result,
        index: params.dst_index(v, first),
        pitch: params.dst_pitch,
        scale,
        offset,
        whole: !edge,
        values: values - v,
        converts: P::CONVERTS && params.result_kind == PixelType::F32.code(),
        image: PhantomData,
    };

    let mut sums: Sums<K, C> = [[0.0; C]; K];
    // Ahead of use, one row more than needed is read; it is a row as any other, because the borders' maps know each.
    let mut ahead = Values::NONE;
    if AHEAD == 1 {
        // SAFETY: here and below, the edge was asked for and the table filled; rows `first` to `first + rows` of these
        // values are this thread's alone.
        ahead = unsafe { reader.next() };
    }
    let mut next = || {
        // SAFETY: see above.
        let read = unsafe { reader.next() };
        if AHEAD == 1 { core::mem::replace(&mut ahead, read) } else { read }
    };
    let mut r = 0;
    let mut upto = more;
    loop {
        // The rows above the strip and in it that reach up to `more`; the second time, those that are left.
        while r < upto {
            thread::no_unroll();
            // SAFETY: see above, and the caller's promise.
            unsafe { R::add(&mut sums, &next(), Needed::at(r, rows)) };
            if r >= more {
                // SAFETY: see above.
                unsafe { writer.next(&sums[0]) };
            }
            r += 1;
        }
        while r < rows {
            thread::no_unroll();
            // SAFETY: see above, and the caller's promise.
            unsafe {
                R::add(&mut sums, &next(), Needed::ALL);
                writer.next(&sums[0]);
            }
            r += 1;
        }
        if r >= rows + more {
            return;
        }
        upto = rows + more;
    }
}

/// The value of a row that stands for value `v`, which may lie outside of it.
#[inline(always)]
fn stands_for<const CHANNELS: usize>(params: &Params, v: i32) -> i32 {
    if CHANNELS == 1 {
        return border::map(params.border, v, params.width);
    }
    // A multiple of the channels is added, so that the quotient is rounded down.
    let v = (v + (CHANNELS << 16) as i32) as u32;
    let x = border::map(params.border, (v / CHANNELS as u32) as i32 - (1 << 16), params.width);
    if x >= 0 { x * CHANNELS as i32 + (v % CHANNELS as u32) as i32 } else { x }
}
