//! Walking down a strip of the image with the rows in shared memory: every thread fetches its share of a row one row ahead
//! of use, and finds its window there, in whatever way the image begins and ends.
//!
//! # Thread mapping
//! A thread owns `C` neighbouring columns (a multiple of 4), a block of [`BLOCK`] threads, one warp, `C * BLOCK` of them. The
//! grid's rows share out the image's, as with [`strip`](crate::direct::sliding_window::strip). Where the last block of a row would go beyond the image, it
//! moves to the left as far as that, and leaves what it computes for the second time to the block beside it.
//!
//! # Tiling
//! ```text
//!     LEFT     C columns of each thread      the rest     a row of one of two slots: MORE columns more than the threads'
//!   ├──────┼──────┼──────┼──── … ────┼──────┼──────┤
//!   ├─ 4 QUADS columns ──┤  the first thread's window, its first pixel being number LEAD
//! ```
//! A thread fetches every 32nd quad of the block's columns, which are not those that it owns: 32 threads together load and store 512 bytes that
//! lie side by side. Were they its own 8 columns, each load would touch twice as many sectors, and use half of each. (9 x 9: 224 to 220 µs, 31 x 31: 1 %.)
//!
//! In the turn of row `r` a thread takes its window of it from one slot, puts its share of row `r + 1`, which it has held in
//! `C + 1` registers for a whole turn, into the other one, and asks for its share of row `r + 2`. So one barrier a row is
//! enough, the latency of the memory lies behind the sums of a whole row, and what a thread holds for it is less than its window.
//!
//! # The edge
//! Only the fetching knows of it. The block's own columns lie in the image; of the `MORE` columns beside those of the block each thread
//! fetches one, whose place a table in shared memory has, made once: beyond the image it is another one, or none. So a block at
//! the edge does what all others do: were it slower, the whole device would wait for it in the end. (Where rows are not
//! aligned, or the anchor is beside the middle, all columns of a block are fetched one by one through that table; where the width is no multiple
//! of 4, or below a block's, those of the last block.)
//!
//! # Passes
//! Of a large mask the sums of all rows would not fit the registers, nor their products the instruction cache, nor their coefficients
//! the constant cache. Then the strip is walked down several times, each time with `H` rows of the mask at most: the second time, a sum begins with what the first
//! time has written in its place, so each output still gets its products in the order of the mask.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::kernel::Convergent;
use crate::abi::params::Params;
use crate::common::partition::block_rows;
use crate::direct::sliding_window::strip::Sums;

pub use crate::direct::sliding_window::strip::BLOCK;

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
    /// Columns beside the threads' own that windows reach. One thread fetches one of them.
    const MORE: usize = {
        assert!(C.is_multiple_of(4) && Self::QUADS <= MOST_QUADS && 4 * Self::QUADS - C <= BLOCK.0 as usize);
        4 * Self::QUADS - C
    };
    /// Columns of a slot: each thread has a place for one beside, whether windows reach it or not, so that none is asked.
    const SLOT: u32 = BLOCK.0 * (C as u32 + 1);

    /// Pixel `i` of the window.
    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> f32 {
        let i = Self::LEAD + i;
        self.0[i / 4][i % 4]
    }
}

/// The dynamic shared memory that a launch needs, in bytes: two slots and the table of columns, for `columns` a thread.
#[must_use]
pub const fn shared_bytes(columns: u32) -> u64 {
    3 * BLOCK.0 as u64 * (columns as u64 + 1) * size_of::<f32>() as u64
}

/// The most quads that a thread fetches of the block's own columns.
const MOST_OWN: usize = 2;

/// A thread's share of a row: as many of the block's own columns as it owns, and one of those beside all of them.
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
    /// Whether the block's own columns go beyond the image, or are not aligned, or the anchor is not in the middle; the same in the whole block.
    edge: bool,
    /// The block's first column of the result; where `edge` is false, of its own columns of the image, too.
    block_x: i32,
    /// The thread's place in a slot.
    place: Place,
    /// For each column of a slot beside the threads' own, and at the edge for each, the one of the image that stands for it.
    columns: Shared<i32>,
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
    fn rematerialize(self) -> Self {
        Self { thread: thread::black_box(self.thread) }
    }

    /// The place in a slot of quad `i` that it fetches: the quads of all threads lie side by side.
    #[inline(always)]
    fn quad<const K: usize, const C: usize>(self, i: usize) -> u32 {
        Window::<K, C>::LEFT as u32 + 4 * (BLOCK.0 * i as u32 + self.thread)
    }

    /// The one beside.
    #[inline(always)]
    fn beside<const K: usize, const C: usize>(self) -> u32 {
        if self.thread < Window::<K, C>::LEFT as u32 { self.thread } else { BLOCK.0 * C as u32 + self.thread }
    }
}

impl<const K: usize, const C: usize> Fetcher<K, C> {
    /// Makes the thread's part of the table, for slots that begin with column `left`: nobody else reads it.
    #[inline(always)]
    fn fill_table(&self, left: i32) {
        // The compiler does not know how much it is, or it would unroll the loop.
        let (mut i, own) = (if self.edge { 0 } else { C as u32 }, thread::black_box(C as u32));
        while i <= own {
            thread::no_unroll();
            let at =
                if i == own { self.place.beside::<K, C>() } else { self.place.quad::<K, C>((i / 4) as usize) + i % 4 };
            // Beside what windows reach, a column that is read anyway.
            let column = if i == own && self.place.thread >= Window::<K, C>::MORE as u32 {
                Window::<K, C>::LEFT as u32
            } else {
                at
            };
            let x = border::map(self.params.border, left + column as i32, self.params.width);
            // SAFETY: the table has an element for each place of a slot.
            unsafe { self.columns.store(at, x) };
            i += 1;
        }
    }

    /// Row `y`, which is inside. (Unsigned, or the upper half of the pitch would take a register.)
    #[inline(always)]
    fn row(&self, y: i32) -> Global<f32> {
        self.image.offset((y as u32 as u64 * self.params.src_pitch as u32 as u64) as isize)
    }

    /// The thread's share of row `y`, which may lie outside.
    ///
    /// # Safety
    /// The image is as `params` say; where `edge` is false, the block's own columns lie in its rows and are aligned; the
    /// table is filled.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn fetch(&self, share: &mut Share, mut y: i32) {
        let params = &self.params;
        if y as u32 >= params.height as u32 {
            // Opaque, or what the maps make of it would be computed before the loop, and kept in registers.
            y = border::map(params.border, y, thread::black_box(params.height as u32) as i32);
        }
        share.outside = u32::MAX;
        if y < 0 {
            return;
        }
        share.outside = 0;
        let place = self.place.rematerialize();
        let row = self.row(y);
        // What stands for no column is loaded from the first one, so that nothing is waited for here.
        if self.edge {
            for i in 0..C / 4 {
                // SAFETY: the table has all columns of a slot, and a quad begins at a multiple of 4.
                let columns = unsafe { self.columns.offset(place.quad::<K, C>(i)).cast::<F32x4>().load(0) }
                    .0
                    .map(|column| column.to_bits() as i32);
                for j in 0..4 {
                    let column = columns[j];
                    share.outside |= (column as u32 >> 31) << (4 * i + j);
                    // SAFETY: its columns are the image's.
                    share.own[i][j] = unsafe { row.load(column.max(0) as isize) };
                }
            }
        } else {
            // SAFETY: row and columns are inside and aligned, as was asked.
            unsafe { self.fetch_own(share, row) };
        }
        let column = self.beside();
        share.outside |= (column as u32 >> 31) << BESIDE;
        // SAFETY: the table's columns are the image's.
        share.beside = unsafe { row.load(column.max(0) as isize) };
    }

    /// The thread's quads of the block's own columns, of the row that begins with `row`.
    ///
    /// # Safety
    /// The row is inside, and the block not at the edge.
    #[inline(always)]
    unsafe fn fetch_own(&self, share: &mut Share, row: Global<f32>) {
        let own = row.offset((self.block_x as u32 + 4 * self.place.rematerialize().thread) as isize).cast::<F32x4>();
        for i in 0..C / 4 {
            // SAFETY: the row is inside, and so are the block's own columns, aligned to quads.
            share.own[i] = unsafe { own.load((BLOCK.0 * i as u32) as isize) }.0;
        }
    }

    /// Puts a share into a slot.
    ///
    /// # Safety
    /// No thread reads the slot before the next barrier.
    #[inline(always)]
    unsafe fn put(&self, slot: Shared<f32>, share: &mut Share) {
        let border_value = self.params.border_value;
        if share.outside & !(1 << BESIDE) != 0 {
            for c in 0..C {
                if share.outside >> c & 1 != 0 {
                    share.own[c / 4][c % 4] = border_value;
                }
            }
        }
        if share.outside >> BESIDE & 1 != 0 {
            share.beside = border_value;
        }
        // SAFETY: the caller's promise.
        unsafe { self.store(slot, share, share.beside) };
    }

    /// Puts a share of a row that is inside into a slot.
    ///
    /// # Safety
    /// As for [`put`](Self::put); the block is not at the edge.
    #[inline(always)]
    unsafe fn put_plain(&self, slot: Shared<f32>, share: &Share, beside: i32) {
        let value = if beside < 0 { self.params.border_value } else { share.beside };
        // SAFETY: the caller's promise.
        unsafe { self.store(slot, share, value) };
    }

    /// Stores the own columns of a share, and the one beside them.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    unsafe fn store(&self, slot: Shared<f32>, share: &Share, beside: f32) {
        let place = self.place.rematerialize();
        for i in 0..C / 4 {
            // SAFETY: the slot has the quad, aligned, and no other thread stores it.
            unsafe { slot.offset(place.quad::<K, C>(i)).cast::<F32x4>().store(0, F32x4(share.own[i])) };
        }
        // SAFETY: it has this one, too.
        unsafe { slot.store(place.beside::<K, C>(), beside) };
    }

    /// The column that stands for the thread's one beside, negative where none does.
    #[inline(always)]
    fn beside(&self) -> i32 {
        // SAFETY: the thread has filled in this place.
        unsafe { self.columns.load(self.place.rematerialize().beside::<K, C>()) }
    }

    /// The thread's share of the row that begins with `row` and is inside, where the block is not at the edge. Whether the one beside
    /// is outside is left to `beside`.
    ///
    /// # Safety
    /// It is so, and `beside` as [`beside`](Self::beside) says.
    #[inline(always)]
    unsafe fn fetch_plain(&self, share: &mut Share, row: Global<f32>, beside: i32) {
        // SAFETY: the row is inside and the block not at the edge; the table's columns are the image's.
        unsafe {
            self.fetch_own(share, row);
            share.beside = row.load(beside.max(0) as u32 as isize);
        }
    }

    /// The thread's window in a slot.
    ///
    /// # Safety
    /// Every share of the slot was put there before the last barrier.
    #[inline(always)]
    unsafe fn take(&self, slot: Shared<f32>) -> Window<K, C> {
        let mut window = Window([[0.0; 4]; MOST_QUADS]);
        let quads = slot.offset(self.place.rematerialize().thread * C as u32).cast::<F32x4>();
        for i in 0..Window::<K, C>::QUADS {
            // SAFETY: the window lies in the slot, and begins at a multiple of 4 columns.
            window.0[i] = unsafe { quads.load(i as u32) }.0;
        }
        window
    }
}

/// The thread's columns of the result.
struct Target<const C: usize> {
    result: GlobalMut<f32>,
    params: Params,
    /// The thread's first column.
    x: i32,
    /// The first column that is the block's to write.
    begin: i32,
}

impl<const C: usize> Target<C> {
    /// Whether column `c` of the thread is to be written.
    #[inline(always)]
    fn has(&self, c: usize) -> bool {
        let x = self.x + c as i32;
        x >= self.begin && x < self.params.width
    }

    /// The index of row `y`, which is inside. (Unsigned, as that of the image's rows.)
    #[inline(always)]
    fn index(&self, y: i32) -> isize {
        (y as u32 as u64 * self.params.dst_pitch as u32 as u64) as isize
    }

    /// The thread's columns in row `y`.
    #[inline(always)]
    fn row(&self, y: i32) -> GlobalMut<f32> {
        self.result.offset(self.index(y)).offset(self.x as u32 as isize)
    }

    /// Writes row `y`: `scale * sum + offset`.
    ///
    /// # Safety
    /// The row lies in the result, and no other thread has the thread's columns; `begin` is as it says.
    #[inline(always)]
    unsafe fn write(&self, y: i32, sums: &[f32; C], (scale, offset): (f32, f32)) {
        let row = self.row(y);
        for (c, &sum) in sums.iter().enumerate() {
            if self.has(c) {
                // SAFETY: the column is inside.
                unsafe { row.store(c as isize, fma(sum, scale, offset)) };
            }
        }
    }

    /// Reads what was written into row `y`, 0 where it is not this thread's.
    ///
    /// # Safety
    /// As for [`write`](Self::write), and that row was written.
    #[inline(always)]
    unsafe fn read(&self, y: i32) -> [f32; C] {
        let row = self.row(y);
        // SAFETY: the column is inside.
        core::array::from_fn(|c| if self.has(c) { unsafe { row.load(c as isize) } } else { 0.0 })
    }

    /// Whether quad `i` of the thread is to be written, where columns are aligned and the block lies in the result.
    #[inline(always)]
    fn has_quad(&self, i: usize) -> bool {
        self.x + 4 * i as i32 >= self.begin
    }

    /// Writes a row that begins with `row`, if that is `wanted`, where columns are aligned and the block lies in the result.
    ///
    /// # Safety
    /// As for [`write`](Self::write).
    #[inline(always)]
    unsafe fn write_plain(&self, row: GlobalMut<f32>, sums: &[f32; C], (scale, offset): (f32, f32), wanted: bool) {
        let row = row.offset(self.x as u32 as isize).cast::<F32x4>();
        for quad in 0..C / 4 {
            let values = core::array::from_fn(|i| fma(sums[4 * quad + i], scale, offset));
            // SAFETY: the quad lies in the result and is aligned.
            unsafe { row.store_if(quad as isize, wanted && self.has_quad(quad), F32x4(values)) };
        }
    }

    /// Reads what was written `rows` rows below the row that begins with `row`, if that is `wanted`, where columns are aligned and the
    /// block lies in the result; otherwise 0, and where it is not this thread's.
    ///
    /// # Safety
    /// As for [`read`](Self::read).
    #[inline(always)]
    unsafe fn read_plain(&self, row: GlobalMut<f32>, rows: i32, wanted: bool) -> [f32; C] {
        let row = row.offset(self.index(rows)).offset(self.x as u32 as isize).cast::<F32x4>();
        let mut values = [0.0; C];
        for quad in 0..C / 4 {
            // SAFETY: the quad lies in the result and is aligned.
            let of_quad = unsafe { row.load_if(quad as isize, wanted && self.has_quad(quad)) }.0;
            values[4 * quad..4 * quad + 4].copy_from_slice(&of_quad);
        }
        values
    }
}

/// The rows of the mask that a pass adds up: `H` of them from row `first` on.
#[derive(Clone, Copy)]
pub(crate) struct Pass {
    /// The first row. Where the number of rows is no multiple of `H`, the last passes have one less, …
    pub(crate) first: i32,
    /// … and this says so: their first row is the last one of the pass before, and is left out.
    pub(crate) short: bool,
    /// Where its coefficients begin. It is carried from pass to pass and not computed from the number: so the assembler sees that
    /// it is the same in all threads, and loads coefficients into uniform registers.
    pub(crate) place: u32,
}

impl Pass {
    /// How many of the passes over `rows` rows have `height` of them and not one less.
    const fn whole(height: usize, rows: usize) -> usize {
        rows - rows.div_ceil(height) * (height - 1)
    }

    /// Number `pass` of those over `rows` rows, whose coefficients begin at `place`.
    #[inline(always)]
    fn number<const H: usize>(pass: i32, rows: usize, place: u32) -> Self {
        let whole = Self::whole(H, rows) as i32;
        Self { first: pass * (H as i32 - 1) + pass.min(whole - 1), short: pass >= whole, place }
    }

    /// The pass of up to `height` rows that has row `row` of `rows`, and which one of its rows it is.
    pub(crate) const fn of_row(height: usize, rows: usize, row: usize) -> (usize, usize) {
        let whole = Self::whole(height, rows);
        if row < whole * height {
            (row / height, row % height)
        } else {
            let row = row - whole * height;
            (whole + row / (height - 1), 1 + row % (height - 1))
        }
    }
}

/// Which of `H` rows of the mask a row of pixels is multiplied with: each whose output lies in the strip. What [`Needed`](crate::direct::sliding_window::strip::Needed) keeps
/// as bits, one question for each row of the mask, are two comparisons here, for a few rows each: fewer instructions.
#[derive(Clone, Copy)]
pub(crate) struct Reach<const H: usize> {
    /// Which one it is of the rows that the strip reads. The output of the mask's row `k` is row `r - k` of the strip.
    r: i32,
    /// The same, counted from the row behind the strip's last one on.
    behind: i32,
}

impl<const H: usize> Reach<H> {
    /// Of row `r` of those that a strip of `rows` rows reads.
    #[inline(always)]
    fn new(r: i32, rows: i32) -> Self {
        Self { r, behind: r - rows }
    }

    /// Whether any of the mask's rows `first` to `first + count` is one of them.
    #[inline(always)]
    pub(crate) fn has_any(self, first: usize, count: usize) -> bool {
        // Opaque, or LLVM would see that one answer implies the next, and make a copy of the code for each first one.
        let r = thread::black_box(self.r as u32) as i32;
        let behind = thread::black_box(self.behind as u32) as i32;
        // The first row's output is not above the strip, and the last one's not below; of the mask's own first and last row that is known.
        (first == 0 || r >= first as i32) & (first + count == H || behind + 1 < (first + count) as i32)
    }

    /// Whether the result's row is whole: all rows of the mask have been added to the first sum.
    #[inline(always)]
    fn ends(self) -> bool {
        self.r >= H as i32 - 1
    }

    /// Whether the row `ahead` rows below is one of those that the strip reads.
    #[inline(always)]
    fn goes_on(self, ahead: i32) -> bool {
        self.behind + ahead < H as i32 - 1
    }
}

/// What a kernel adds up. A trait and no closure, because only a method can be told to be inlined whatever its size.
pub(crate) trait AddWindow<const K: usize, const H: usize, const C: usize> {
    /// From where the coefficients of one pass begin to where those of the next one do.
    const PASS: u32;

    /// Adds a row of pixels to the sums, and moves each one up by one: `sums[a]` is made from `sums[a + 1]`, the last one from
    /// `begin`.
    ///
    /// # Safety
    /// The constants that the kernel reads are set.
    unsafe fn add(sums: &mut Sums<H, C>, window: &Window<K, C>, begin: [f32; C], pass: Pass, reach: Reach<H>);
}

/// What the kernel has of each convergent instruction: a barrier before a pass, and one for each row, in the loop of
/// rows that
/// ask what lies outside and in the loop of those that need not.
pub const CONVERGENT: Convergent = Convergent::barriers(1 + 2);

/// Walks down the block's strip: `R` adds one row of pixels after the other to the sums, and after each `sums[0]` is
/// written.
///
/// The first and last `H - 1` rows of pixels touch outputs of the neighbouring strips, too. What they would add to those
/// is left out by [`Reach`], a few rows of the mask at a time: a question for each would cost more than it saves, and so
/// would a loop of its own, because two loops of this size don't fit the instruction cache together.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels at their pitches, begin at a multiple of 16 bytes and do not
///   overlap.
/// - The block is [`BLOCK`], the dynamic shared memory at least [`shared_bytes`] for `C` columns a thread, the mask `K` x `K`
///   with `K` at most 31.
/// - What [`AddWindow::add`] of `R` asks for.
#[inline(always)]
pub(crate) unsafe fn walk<R: AddWindow<K, H, C>, const K: usize, const H: usize, const C: usize>(
    image: Global<f32>,
    result: GlobalMut<f32>,
    params: Params,
) {
    let place = Place { thread: thread::thread_idx_x() };
    let (first, rows) = block_rows::<1>(&params);
    if rows <= 0 {
        return;
    }

    const ALIGNED: i32 = 3;
    let columns = (BLOCK.0 * C as u32) as i32;
    let begin = thread::block_idx_x() as i32 * columns;
    let moves = params.width & ALIGNED == 0 && params.width >= columns;
    let block_x = if moves { begin.min(params.width - columns) } else { begin };
    let x = block_x + (place.thread * C as u32) as i32;
    let slots = Shared::<f32>::dynamic();
    let fetcher = Fetcher::<K, C> {
        image,
        params,
        edge: params.origin_x != Window::<K, C>::ORIGIN as i32
            || params.src_pitch & ALIGNED != 0
            || block_x + columns > params.width,
        block_x,
        place,
        columns: slots.offset(2 * Window::<K, C>::SLOT).cast::<i32>(),
    };
    fetcher.fill_table(block_x - params.origin_x - Window::<K, C>::LEAD as i32);
    let target = Target::<C> { result, params, x, begin };

    let is_plain = !fetcher.edge && params.dst_pitch & ALIGNED == 0;

    // The compiler knows of no count, here and below, or it would unroll the loop.
    let passes = if H < K { thread::black_box(K.div_ceil(H) as u32) as i32 } else { 1 };
    let more = if H < K { thread::black_box(H as u32 - 1) as i32 } else { params.mask_height - 1 };
    let end = rows + more;
    let (mut pass, mut place_of_pass) = (0, 0);
    while pass < passes {
        thread::no_unroll();
        let part =
            if H < K { Pass::number::<H>(pass, K, place_of_pass) } else { Pass { first: 0, short: false, place: 0 } };
        let goes_on = H < K && pass > 0;
        let top = first - params.origin_y + part.first;
        let finish = if pass == passes - 1 { params.exact_finish() } else { (1.0, -0.0) };

        // Turns that need no question about what lies outside: the rows that they fetch and put are inside, or not needed.
        let plain_from = (-1 - top).max(0);
        let plain_upto = if top + end <= params.height { end } else { params.height - top - 2 };
        // Of several passes the rows of one may all lie above the image; then there is none to fetch in the place of the last one.
        let plain_upto = if is_plain && (H == K || top + end > 0) { plain_upto } else { 0 };

        let mut sums: Sums<H, C> = [[0.0; C]; H];
        let mut share = Share { own: [[0.0; 4]; MOST_OWN], beside: 0.0, outside: 0 };
        // SAFETY: here and below, the edge was asked for and the table filled; a slot is put together before the barrier after which
        // it is taken, and put together again after another one. Rows `first` to `first + rows` of these columns are this
        // thread's alone.
        unsafe {
            fetcher.fetch(&mut share, top);
            fetcher.put(slots, &mut share);
            fetcher.fetch(&mut share, top + 1);
        }
        // SAFETY: all threads are here: the loop over passes depends on the parameters alone.
        unsafe { thread::sync_threads() };
        let (mut r, mut slot) = (0, 0);
        let mut upto = if plain_from < plain_upto { plain_from } else { end };
        loop {
            // The rows up to the plain ones; the second time, those that are left.
            while r < upto {
                thread::no_unroll();
                // SAFETY: see above, and the caller's promise.
                unsafe {
                    let begin = if goes_on && r < rows { target.read(first + r) } else { [0.0; C] };
                    // The other slot. (Two addresses that change places were taken for one another by the driver's compiler.)
                    let other = Window::<K, C>::SLOT - slot;
                    fetcher.put(slots.offset(other), &mut share);
                    if r + 2 < end {
                        fetcher.fetch(&mut share, top + r + 2);
                    }
                    let window = fetcher.take(slots.offset(slot));
                    slot = other;
                    // SAFETY: all threads are here: `r` and its limits depend on the block alone.
                    thread::sync_threads();
                    R::add(&mut sums, &window, begin, part, Reach::new(r, rows));
                    if r >= more {
                        target.write(first + r - more, &sums[0], finish);
                    }
                }
                r += 1;
            }
            let mut source = fetcher.row(top + (r + 2).min(end - 1));
            let mut goal = result.offset(params.dst_index(0, first + r - more));
            while r < plain_upto {
                thread::no_unroll();
                let reach = Reach::<H>::new(r, rows);
                // SAFETY: see above; rows and columns are as asked for.
                unsafe {
                    let begin = target.read_plain(goal, more, goes_on && r < rows);
                    let beside = fetcher.beside();
                    let window = fetcher.take(slots.offset(slot));
                    slot = Window::<K, C>::SLOT - slot;
                    fetcher.put_plain(slots.offset(slot), &share, beside);
                    fetcher.fetch_plain(&mut share, source, beside);
                    // SAFETY: all threads are here: `r` and its limits depend on the block alone.
                    thread::sync_threads();
                    R::add(&mut sums, &window, begin, part, reach);
                    target.write_plain(goal, &sums[0], finish, reach.ends());
                }
                // Below the last row that is needed, that one again. (Unsigned, here and below, so that it takes one register.)
                source = source.offset(if reach.goes_on(3) { params.src_pitch as u32 as isize } else { 0 });
                goal = goal.offset(params.dst_pitch as u32 as isize);
                r += 1;
            }
            share.outside = (fetcher.beside() as u32 >> 31) << BESIDE;
            if r >= end {
                break;
            }
            upto = end;
        }
        pass += 1;
        if H < K {
            // Opaque, or LLVM would compute it from the number.
            place_of_pass = thread::black_box(place_of_pass + R::PASS);
        }
    }
}
