//! Walking down a strip of the image with the rows in shared memory: every thread fetches its share of a row one row ahead
//! of use, and finds its window there, in whatever way the image begins and ends.
//!
//! # Thread mapping
//! A thread owns `C` neighbouring columns (a multiple of 4), a block of [`BLOCK`] threads, one warp, `C * BLOCK` of them. The
//! grid's rows share out the image's, as with [`strip`](crate::strip).
//!
//! # Tiling
//! ```text
//!     LEFT     C columns of each thread      the rest     a row of one of two slots: MORE columns more than the threads'
//!   ├──────┼──────┼──────┼──── … ────┼──────┼──────┤
//!   ├─ 4 QUADS columns ──┤  the first thread's window, its first pixel being number LEAD
//! ```
//! In the turn of row `r` a thread takes its window of it from one slot, puts its share of row `r + 1`, which it has held in
//! `C + 1` registers for a whole turn, into the other one, and asks for its share of row `r + 2`. So one barrier a row is
//! enough, the latency of the memory lies behind the sums of a whole row, and what a thread holds for it is less than its window.
//!
//! # The edge
//! Only the fetching knows of it. A block asks once whether all columns that it reads lie in the image, and are aligned; any other
//! block (and any row outside of the image) fetches pixel by pixel, through a table of which column stands for which, made
//! once. That is `C + 1` loads a row, so a block at the edge takes about as long as any other: were it slower, the whole device
//! would wait for it in the end.

use cuda_std::prelude::*;

use crate::border;
use crate::params::Params;
use crate::strip::{Needed, Sums};

pub use crate::strip::BLOCK;

/// The most quads of a thread's window.
const MOST_QUADS: usize = 10;

/// The pixels of one row that a thread needs, in its registers: every index is a constant after unrolling.
#[derive(Clone, Copy)]
pub(crate) struct Window<const K: usize, const C: usize>([[f32; 4]; MOST_QUADS]);

impl<const K: usize, const C: usize> Window<K, C> {
    /// The column of the middle of the mask.
    const ORIGIN: usize = (K - 1) / 2;
    /// Columns before the window, so that what stands in it below the thread's own begins at a multiple of 4.
    const LEAD: usize = Self::ORIGIN.next_multiple_of(4) - Self::ORIGIN;
    /// Columns that a row of a slot has before the first thread's own.
    const LEFT: usize = Self::LEAD + Self::ORIGIN;
    /// Quads that cover the window.
    const QUADS: usize = (Self::LEAD + C + K - 1).div_ceil(4);
    /// Columns that a row of a slot has beside the threads' own. One thread fetches one of them.
    const MORE: usize = {
        assert!(C.is_multiple_of(4) && Self::QUADS <= MOST_QUADS && 4 * Self::QUADS - C <= BLOCK.0 as usize);
        4 * Self::QUADS - C
    };
    /// Columns of a slot.
    const SLOT: u32 = BLOCK.0 * C as u32 + Self::MORE as u32;

    /// Pixel `i` of the window.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> f32 {
        let i = Self::LEAD + i;
        self.0[i / 4][i % 4]
    }
}

/// The dynamic shared memory that a launch needs, in bytes: two slots and the table of columns, for `columns` a thread.
#[must_use]
pub const fn shared_bytes(columns: u32, mask_width: u32) -> u64 {
    let origin = (mask_width - 1) / 2;
    let lead = origin.next_multiple_of(4) - origin;
    let slot = BLOCK.0 * columns + (lead + columns + mask_width - 1).next_multiple_of(4) - columns;
    3 * slot as u64 * size_of::<f32>() as u64
}

/// The most quads of a thread's own columns.
const MOST_OWN: usize = 2;

/// A thread's share of a row: its own columns, and one of those beside all of them.
#[derive(Clone, Copy)]
struct Share {
    own: [[f32; 4]; MOST_OWN],
    beside: f32,
    /// A bit for each that lies outside, the one beside being number [`BESIDE`]: the border's value stands there.
    outside: u32,
}

/// See [`Share::outside`].
const BESIDE: usize = 4 * MOST_OWN;

/// Fetches one row after the other, from top to bottom.
struct Fetcher<const K: usize, const C: usize> {
    image: Global<f32>,
    params: Params,
    /// Whether the columns go beyond the image, or are not aligned; the same in the whole block.
    edge: bool,
    /// The next row, where it is inside.
    row: Global<f32>,
    /// The column that a slot begins with, where the anchor is the mask's middle.
    left: i32,
    /// The next row; it may lie outside.
    y: i32,
    /// The last row to be fetched.
    last: i32,
    /// The thread's place in a slot.
    place: Place,
    /// For each column of a slot the one of the image that stands for it, and which of the thread's there are none for.
    columns: Shared<i32>,
    outside: u32,
}

/// A thread's place in a slot.
#[derive(Clone, Copy)]
struct Place {
    /// Its number in the block.
    thread: u32,
}

impl Place {
    /// The same, of which the compiler does not know that: it would keep in registers what follows from it in two instructions.
    #[inline(always)]
    fn anew(self) -> Self {
        Self { thread: thread::opaque(self.thread) }
    }

    /// The first of its own columns.
    #[inline(always)]
    fn own<const K: usize, const C: usize>(self) -> u32 {
        Window::<K, C>::LEFT as u32 + self.thread * C as u32
    }

    /// The one beside.
    #[inline(always)]
    fn beside<const K: usize, const C: usize>(self) -> u32 {
        if self.thread < Window::<K, C>::LEFT as u32 { self.thread } else { BLOCK.0 * C as u32 + self.thread }
    }

    /// Whether it has one beside.
    #[inline(always)]
    fn has_beside<const K: usize, const C: usize>(self) -> bool {
        self.thread < Window::<K, C>::MORE as u32
    }
}

impl<const K: usize, const C: usize> Fetcher<K, C> {
    /// The thread's share of the next row; below the last one nothing is fetched.
    ///
    /// # Safety
    /// The image is as `params` say; where `edge` is false, the columns of the block lie in its rows and are aligned; where
    /// it is true or a row lies outside, the table is filled.
    #[inline(always)]
    unsafe fn next(&mut self, share: &mut Share) {
        let params = &self.params;
        if self.y > self.last {
            return;
        }
        let place = self.place.anew();
        if !self.edge && (self.y as u32) < params.height as u32 {
            let own = (self.left + place.own::<K, C>() as i32) as u32;
            for i in 0..C / 4 {
                // SAFETY: row and columns are inside and aligned, as was asked.
                share.own[i] = unsafe { self.row.offset(own as isize).cast::<F32x4>().load(i as isize) }.0;
            }
            if place.has_beside::<K, C>() {
                // SAFETY: as above.
                share.beside = unsafe { self.row.load((self.left + place.beside::<K, C>() as i32) as u32 as isize) };
            }
            share.outside = 0;
        } else {
            let y = border::map(params.border, self.y, params.height);
            share.outside = u32::MAX;
            if y >= 0 {
                share.outside = self.outside;
                let row = self.image.offset(params.src_index(0, y));
                let places = self.columns.offset(place.own::<K, C>()).cast::<F32x4>();
                for i in 0..C / 4 {
                    // SAFETY: the table has all columns of a slot, the thread's own ones at a multiple of 4.
                    let columns = unsafe { places.load(i as u32) }.0;
                    // SAFETY: its columns are the image's. What stands for none is loaded from the first one, so that nothing
                    // is waited for here.
                    share.own[i] = columns.map(|column| unsafe { row.load(column.to_bits() as i32 as isize) });
                }
                if place.has_beside::<K, C>() {
                    // SAFETY: as above.
                    share.beside = unsafe { row.load(self.columns.load(place.beside::<K, C>()) as isize) };
                }
            }
        }
        self.row = self.row.offset(params.src_pitch as isize);
        self.y += 1;
    }

    /// Puts a share into a slot.
    ///
    /// # Safety
    /// No thread reads the slot before the next barrier.
    #[inline(always)]
    unsafe fn put(&self, slot: Shared<f32>, share: &mut Share) {
        if share.outside != 0 {
            let border_value = self.params.border_value;
            for c in 0..C {
                if share.outside >> c & 1 != 0 {
                    share.own[c / 4][c % 4] = border_value;
                }
            }
            if share.outside >> BESIDE & 1 != 0 {
                share.beside = border_value;
            }
        }
        let place = self.place.anew();
        let own = slot.offset(place.own::<K, C>()).cast::<F32x4>();
        for i in 0..C / 4 {
            // SAFETY: the slot has the thread's columns, aligned to quads, and no other thread stores them.
            unsafe { own.store(i as u32, F32x4(share.own[i])) };
        }
        if place.has_beside::<K, C>() {
            // SAFETY: it has this one, too.
            unsafe { slot.store(place.beside::<K, C>(), share.beside) };
        }
    }

    /// The thread's window in a slot.
    ///
    /// # Safety
    /// Every share of the slot was put there before the last barrier.
    #[inline(always)]
    unsafe fn take(&self, slot: Shared<f32>) -> Window<K, C> {
        let mut window = Window([[0.0; 4]; MOST_QUADS]);
        let quads = slot.offset(self.place.anew().thread * C as u32).cast::<F32x4>();
        for i in 0..Window::<K, C>::QUADS {
            // SAFETY: the window lies in the slot, and begins at a multiple of 4 columns.
            window.0[i] = unsafe { quads.load(i as u32) }.0;
        }
        window
    }
}

/// Writes one row after the other.
struct Writer<const C: usize> {
    row: GlobalMut<f32>,
    pitch: i32,
    scale: f32,
    offset: f32,
    /// Whether the thread's columns all lie in the result, and are aligned.
    whole: bool,
    /// Columns of the image from the thread's first one on.
    columns: i32,
}

impl<const C: usize> Writer<C> {
    /// The next row: `scale * sum + offset`.
    ///
    /// # Safety
    /// The row lies in the result, and no other thread has the thread's columns; `whole` and `columns` are as they say.
    #[inline(always)]
    unsafe fn next(&mut self, sums: &[f32; C]) {
        let finished = |c: usize| fma(sums[c], self.scale, self.offset);
        if self.whole {
            for quad in 0..C / 4 {
                let values = core::array::from_fn(|i| finished(4 * quad + i));
                // SAFETY: the quad lies in the result and is aligned.
                unsafe { self.row.cast::<F32x4>().store(quad as isize, F32x4(values)) };
            }
        } else {
            for c in 0..C {
                if (c as i32) < self.columns {
                    // SAFETY: the column is inside.
                    unsafe { self.row.store(c as isize, finished(c)) };
                }
            }
        }
        self.row = self.row.offset(self.pitch as isize);
    }
}

/// What a kernel adds up. A trait and no closure, because only a method can be told to be inlined whatever its size.
pub(crate) trait AddWindow<const K: usize, const C: usize> {
    /// Adds a row of pixels to the sums, and moves each one up by one: `sums[a]` is made from `sums[a + 1]`.
    ///
    /// # Safety
    /// The constants that the kernel reads are set.
    unsafe fn add(sums: &mut Sums<K, C>, window: &Window<K, C>, needed: Needed);
}

/// Walks down the block's strip: `R` adds one row of pixels after the other to the sums, and after each `sums[0]` is
/// written.
///
/// The first and last `K - 1` rows of pixels touch outputs of the neighbouring strips, too. What they would add to those
/// is left out by [`Needed`], a few rows of the mask at a time: a question for each would cost more than it saves, and so
/// would a loop of its own, because two loops of this size don't fit the instruction cache together.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`] for `C` columns a thread, the mask `K` x `K`
///   with `K` at most 31.
/// - What [`AddWindow::add`] of `R` asks for.
#[inline(always)]
pub(crate) unsafe fn walk<R: AddWindow<K, C>, const K: usize, const C: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    let thread = thread::thread_idx_x();
    let block_x = (thread::block_idx_x() * BLOCK.0 * C as u32) as i32;
    let x = block_x + (thread * C as u32) as i32;

    let strips = thread::grid_dim_y().max(1) as i32;
    let rows = (params.height - params.first_row + strips - 1) / strips;
    let first = params.first_row + thread::block_idx_y() as i32 * rows;
    let rows = rows.min(params.height - first);
    if rows <= 0 {
        return;
    }
    // Of the parameters and not of `K`, or LLVM would unroll the loop over them.
    let more = params.mask_height - 1;
    let top = first - params.origin_y;

    let left = block_x - params.origin_x - Window::<K, C>::LEAD as i32;
    let edge = params.origin_x != Window::<K, C>::ORIGIN as i32
        || (params.src_pitch | params.dst_pitch) & 3 != 0
        || left < 0
        || left + Window::<K, C>::SLOT as i32 > params.width;
    let place = Place { thread };
    let slots = Shared::<f32>::dynamic();
    let columns = slots.offset(2 * Window::<K, C>::SLOT).cast::<i32>();
    let mut outside = 0;
    if edge || top < 0 || top + rows + more > params.height {
        // Each thread fills in what it will read. The compiler does not know how much, or it would unroll the loop.
        let (mut i, own) = (0, thread::opaque(C as u32));
        while i <= own {
            thread::no_unroll();
            let beside = i == own;
            let at = if beside { place.beside::<K, C>() } else { place.own::<K, C>() + i };
            let x = border::map(params.border, left + at as i32, params.width);
            if x < 0 {
                outside |= 1 << if beside { BESIDE as u32 } else { i };
            }
            if !beside || place.has_beside::<K, C>() {
                // SAFETY: the table has an element for each column of a slot.
                unsafe { columns.store(at, x.max(0)) };
            }
            i += 1;
        }
    }

    let mut fetcher = Fetcher::<K, C> {
        image,
        params,
        edge,
        row: image.offset(params.src_index(0, top)),
        left,
        y: top,
        last: top + rows + more - 1,
        place,
        columns,
        outside,
    };
    let plain = params.scale == 1.0 && params.offset == 0.0;
    let mut writer = Writer::<C> {
        row: result.offset(params.dst_index(x, first)),
        pitch: params.dst_pitch,
        scale: params.scale,
        // `1 * sum + -0.0` is the sum down to the sign of a zero, `1 * sum + 0.0` is not.
        offset: if plain { -0.0 } else { params.offset },
        whole: params.dst_pitch & 3 == 0 && x + C as i32 <= params.width,
        columns: params.width - x,
    };

    let mut sums: Sums<K, C> = [[0.0; C]; K];
    let mut share = Share { own: [[0.0; 4]; MOST_OWN], beside: 0.0, outside: 0 };
    // SAFETY: here and below, the edge was asked for and the table filled; a slot is put together before the barrier after which
    // it is taken, and put together again after another one. Rows `first` to `first + rows` of these columns are this
    // thread's alone.
    unsafe {
        fetcher.next(&mut share);
        fetcher.put(slots, &mut share);
        fetcher.next(&mut share);
    }
    thread::sync_threads();
    let (mut r, mut slot) = (0, 0);
    while r < rows + more {
        thread::no_unroll();
        // SAFETY: see above, and the caller's promise.
        unsafe {
            let window = fetcher.take(slots.offset(slot));
            // The other slot. (Two addresses that change places were taken for one another by the driver's compiler.)
            slot = Window::<K, C>::SLOT - slot;
            fetcher.put(slots.offset(slot), &mut share);
            fetcher.next(&mut share);
            thread::sync_threads();
            R::add(&mut sums, &window, Needed::at(r, rows));
            if r >= more {
                writer.next(&sums[0]);
            }
        }
        r += 1;
    }
}
