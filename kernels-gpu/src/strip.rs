//! Walking down a strip of the image: how rows reach a thread's registers, and how its results leave them.
//!
//! The walk of [`separable`](crate::separable), and what [`staged`](crate::staged), that of [`stream`](crate::stream), has in common with it.
//!
//! # Thread mapping
//! A thread owns `C` neighbouring columns (a multiple of 4), a block of [`BLOCK`] threads `C * BLOCK` of them. The
//! grid's rows share out the image's: with `grid_dim_y` of them each block has a *strip* of `ceil(rows / grid_dim_y)`
//! rows, so the host can cut the image into just as many strips as fill the device once.
//!
//! # Tiling
//! ```text
//!      left            x            the window's columns of a thread: C + K - 1 pixels from `left` on, read in
//!    ┌─┬─┴─────────┬───┴───┬───┐    quads of 4, aligned to 4 pixels, the first one beginning  `LEAD` columns
//!    │ │LEAD│      C + K - 1   │    further left; each row of the image is read once for every K rows of sums
//!    └─┴───────────┴───────────┘
//! ```
//! Neighbouring threads read overlapping quads; all but the first reader find them in L1.
//!
//! # The edge
//! A block asks once whether all that its threads read lies between the image's left and right edges, and is aligned.
//! Then a row costs nothing beyond its loads and one comparison with the image's height. Any other block (and any row
//! outside of the image) reads pixel by pixel, through a table in shared memory of which column stands for which: 4
//! bytes per column of the window, made once by the whole block. So the maps of the borders are evaluated once per
//! column and once per row, never per pixel.

use cuda_std::prelude::*;

use crate::border;
use crate::params::Params;
use crate::pixel::Pixel;

/// Threads of a block: one row, and one warp, so that a multiprocessor takes as many as its registers allow.
pub const BLOCK: (u32, u32) = (32, 1);

/// How a kernel for one size of mask walks, and how its launches fill a device: what was fastest, as measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Columns of a thread, a multiple of 4.
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

/// The dynamic shared memory that a launch needs, in bytes: the table of columns.
#[must_use]
pub const fn shared_bytes(columns: u32, mask_width: u32) -> u64 {
    (BLOCK.0 as u64 * columns as u64 + mask_width as u64 - 1) * size_of::<i32>() as u64
}

/// A type of pixel of which four neighbours are read and written in one access, aligned to four of them.
pub trait Quad: Pixel {
    /// Quad `index` of a row.
    ///
    /// # Safety
    /// As for [`Global::load`], for four pixels that begin at a multiple of their size.
    unsafe fn load_quad(row: Global<Self>, index: isize) -> [f32; 4];

    /// Writes quad `index` of a row.
    ///
    /// # Safety
    /// As for [`GlobalMut::store`], for four pixels that begin at a multiple of their size.
    unsafe fn store_quad(row: GlobalMut<Self>, index: isize, values: [f32; 4]);
}

impl Quad for f32 {
    #[inline(always)]
    #[track_caller]
    unsafe fn load_quad(row: Global<Self>, index: isize) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { row.cast::<F32x4>().load(index) }.0
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store_quad(row: GlobalMut<Self>, index: isize, values: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { row.cast::<F32x4>().store(index, F32x4(values)) };
    }
}

/// The most quads that one thread reads of a row.
const MOST_QUADS: usize = 12;

/// The pixels of one row that a thread needs, in its registers: every index is a constant after unrolling.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<const K: usize, const C: usize>([[f32; 4]; MOST_QUADS]);

impl<const K: usize, const C: usize> Pixels<K, C> {
    /// The column of the window of the thread's first output, counted from the start of the first quad, when the anchor
    /// is the mask's middle.
    const LEAD: usize = (4 - Self::ORIGIN % 4) % 4;
    /// The column of the middle of the mask.
    const ORIGIN: usize = (K - 1) / 2;
    /// Quads that cover the window.
    const QUADS: usize = (Self::LEAD + C + K - 1).div_ceil(4);
    /// Pixels of the window.
    const WINDOW: usize = C + K - 1;

    /// None yet.
    const NONE: Self = {
        assert!(C.is_multiple_of(4) && Self::QUADS <= MOST_QUADS);
        Self([[0.0; 4]; MOST_QUADS])
    };

    /// Pixel `i` of the window.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> f32 {
        let i = Self::LEAD + i;
        self.0[i / 4][i % 4]
    }

    /// Sets pixel `i` of the window.
    #[inline(always)]
    fn set(&mut self, i: usize, value: f32) {
        let i = Self::LEAD + i;
        self.0[i / 4][i % 4] = value;
    }
}

/// Reads one row after the other, from top to bottom.
struct Reader<P, const K: usize, const C: usize, const AHEAD: usize> {
    image: Global<P>,
    params: Params,
    /// Whether the columns go beyond the image, or are not aligned; the same in the whole block.
    edge: bool,
    /// The first quad of the next row, where that row is inside.
    quads: Global<P>,
    /// The next row; it may lie outside.
    y: i32,
    /// The thread's part of the table: for each pixel of the window the column that stands for it, or `OUTSIDE`.
    columns: Shared<i32>,
}

impl<P: Quad, const K: usize, const C: usize, const AHEAD: usize> Reader<P, K, C, AHEAD> {
    /// The next row.
    ///
    /// # Safety
    /// The image is as `params` say; where `edge` is false, the quads of the thread lie in its rows and are aligned;
    /// where it is true or the row lies outside, the table of the columns is filled.
    #[inline(always)]
    unsafe fn next(&mut self) -> Pixels<K, C> {
        let mut pixels = Pixels::NONE;
        let params = &self.params;
        if !self.edge && (self.y as u32) < params.height as u32 {
            for i in 0..Pixels::<K, C>::QUADS {
                // SAFETY: the row is inside, and so are its quads, as the caller promised.
                pixels.0[i] = unsafe { P::load_quad(self.quads, i as isize) };
            }
            if AHEAD > 1 && self.y + (AHEAD as i32) < params.height {
                let later = self.quads.offset(AHEAD as isize * params.src_pitch as isize);
                // The thread's own columns: what lies beside them is its neighbours'.
                for i in 0..C / 4 {
                    let quad = i + Pixels::<K, C>::ORIGIN.div_ceil(4);
                    // SAFETY: that row is inside, too, and the quad one of those that were read of this row.
                    unsafe { later.prefetch(4 * quad as isize) };
                }
            }
        } else {
            let y = border::map(params.border, self.y, params.height);
            // Of a row that does not exist no pixel is read; its pointer is only made.
            let row = self.image.offset(params.src_index(0, y));
            for i in 0..Pixels::<K, C>::WINDOW {
                // SAFETY: the table has a column in the image or `OUTSIDE` for each pixel of the window.
                let x = unsafe { self.columns.load(i as u32) };
                let pixel = if x >= 0 && y >= 0 {
                    // SAFETY: row and column are those of a pixel.
                    unsafe { row.load(x as isize) }.to_f32()
                } else {
                    params.border_value
                };
                pixels.set(i, pixel);
            }
        }
        self.quads = self.quads.offset(params.src_pitch as isize);
        self.y += 1;
        pixels
    }
}

/// Writes one row after the other.
struct Writer<P, const C: usize> {
    row: GlobalMut<P>,
    pitch: i32,
    scale: f32,
    offset: f32,
    edge: bool,
    /// Columns of the image from the thread's first one on.
    columns: i32,
}

impl<P: Quad, const C: usize> Writer<P, C> {
    /// The next row: `scale * sum + offset`.
    ///
    /// # Safety
    /// The row lies in the result, and no other thread has the thread's columns. Where `edge` is false, all `C` columns
    /// lie in it, aligned to 16 bytes.
    #[inline(always)]
    unsafe fn next(&mut self, sums: &[f32; C]) {
        let finished = |c: usize| fma(sums[c], self.scale, self.offset);
        if self.edge {
            for c in 0..C {
                if (c as i32) < self.columns {
                    // SAFETY: the column is inside.
                    unsafe { self.row.store(c as isize, P::from_f32(finished(c))) };
                }
            }
        } else {
            for quad in 0..C / 4 {
                let c = 4 * quad;
                let values = [finished(c), finished(c + 1), finished(c + 2), finished(c + 3)];
                // SAFETY: the quad lies in the result and is aligned, as the caller promised.
                unsafe { P::store_quad(self.row, quad as isize, values) };
            }
        }
        self.row = self.row.offset(self.pitch as isize);
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
        Self(Some(thread::opaque(upto >> above << above)))
    }

    /// Whether any of rows `first` to `first + count` of the mask is.
    #[inline(always)]
    pub(crate) fn has_any(self, first: usize, count: usize) -> bool {
        self.0.is_none_or(|bits| bits >> first & (u32::MAX >> (32 - count)) != 0)
    }

    /// Whether row `k` of the mask is.
    #[inline(always)]
    pub(crate) fn has(self, k: usize) -> bool {
        self.0.is_none_or(|bits| bits >> k & 1 != 0)
    }
}

/// What a kernel adds up. A trait and no closure, because only a method can be told to be inlined whatever its size.
pub(crate) trait AddRow<const K: usize, const C: usize> {
    /// Adds a row of pixels to the sums, and moves each one up by one: `sums[a]` is made from `sums[a + 1]`.
    ///
    /// # Safety
    /// The constants that the kernel reads are set.
    unsafe fn add(sums: &mut Sums<K, C>, pixels: &Pixels<K, C>, needed: Needed);
}

/// Walks down the block's strip: `R` adds one row of pixels after the other to the sums, and after each `sums[0]` is
/// written.
///
/// The first and last `K - 1` rows of pixels touch outputs of the neighbouring strips, too. What they would add to those
/// is left out by [`Needed`], in a loop of its own: the questions cost the main loop nothing, and the work is
/// that of the strip, whatever its length. With an `AHEAD` of 1 the next row is under way while this one
/// is added; see [`Schedule::ahead`].
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 4 pixels' size
///   and do not overlap.
/// - The block is one row of threads, the dynamic shared memory at least [`shared_bytes`] for `C` columns a thread, the
///   mask `K` x `K` with `K` at most 31.
/// - What [`AddRow::add`] of `R` asks for.
#[inline(always)]
pub(crate) unsafe fn walk<P: Quad, R: AddRow<K, C>, const K: usize, const C: usize, const AHEAD: usize>(
    image: Global<P>,
    result: GlobalMut<P>,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let columns = thread::block_dim_x() * C as u32;
    let block_x = (thread::block_idx_x() * columns) as i32;
    let x = block_x + (thread * C as u32) as i32;
    let left = block_x - params.origin_x;

    let strips = thread::grid_dim_y().max(1) as i32;
    let rows = (params.height - params.first_row + strips - 1) / strips;
    let first = params.first_row + thread::block_idx_y() as i32 * rows;
    let rows = rows.min(params.height - first);
    // Of the parameters and not of `K`, or LLVM would unroll the loop over them.
    let more = params.mask_height - 1;
    let top = first - params.origin_y;

    let first_quad = left - Pixels::<K, C>::LEAD as i32;
    let quads = columns as i32 + (4 * Pixels::<K, C>::QUADS - C) as i32;
    let edge = params.origin_x != Pixels::<K, C>::ORIGIN as i32
        || (params.src_pitch | params.dst_pitch) & 3 != 0
        || first_quad < 0
        || first_quad + quads > params.width;
    let table = Shared::<i32>::dynamic();
    if edge || top < 0 || top + rows + more + (AHEAD == 1) as i32 > params.height {
        let mut i = thread;
        while i < columns + K as u32 - 1 {
            thread::no_unroll();
            // SAFETY: the table has an element for each column of the block's windows.
            unsafe { table.store(i, border::map(params.border, left + i as i32, params.width)) };
            i += thread::block_dim_x();
        }
        thread::sync_threads();
    }
    if x >= params.width || rows <= 0 {
        return;
    }

    let mut reader = Reader::<P, K, C, AHEAD> {
        image,
        params,
        edge,
        quads: image.offset(params.src_index(x - params.origin_x - Pixels::<K, C>::LEAD as i32, top)),
        y: top,
        columns: table.offset(thread * C as u32),
    };
    let plain = params.scale == 1.0 && params.offset == 0.0;
    let mut writer = Writer::<P, C> {
        row: result.offset(params.dst_index(x, first)),
        pitch: params.dst_pitch,
        scale: params.scale,
        // `1 * sum + -0.0` is the sum down to the sign of a zero, `1 * sum + 0.0` is not.
        offset: if plain { -0.0 } else { params.offset },
        edge,
        columns: params.width - x,
    };

    let mut sums: Sums<K, C> = [[0.0; C]; K];
    // Ahead of use, one row more than needed is read; it is a row as any other, because the borders' maps know each.
    let mut ahead = Pixels::NONE;
    if AHEAD == 1 {
        // SAFETY: here and below, the edge was asked for and the table filled; rows `first` to `first + rows` of these
        // columns are this thread's alone.
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
