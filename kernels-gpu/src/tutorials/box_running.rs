//! ROCm's box blur by running sums: add what enters the box, subtract what leaves it.
//!
//! ```text
//! P[y, x] = I[y, 0] + … + I[y, x]                                   row_prefix_sums: along each row
//! S[y, x] = P[y, right] - P[y, left - 1]                            the sum along a row of the box: two loads
//! B[y, x] = B[y - 1, x] + S[bottom, x] - S[top - 1, x]              box_from_prefix_sums: down each column
//! ```
//! Positions outside are skipped, as in the tutorial: `left`, `right`, `top` and `bottom` bound the part of the box
//! that lies in the image. All values are integers, exact below 2^32. So the results equal those of
//! [`box_separable`](super::box_separable), whatever the order.
//!
//! # Thread mapping
//! - [`row_prefix_sums`]: one block has one row, and walks along it in steps of its threads. A warp finds its 32 prefix
//!   sums by five shuffles. Then each thread adds the totals of the warps before it, through shared memory, and the
//!   total of the steps before.
//! - [`box_from_prefix_sums`]: one thread has one column and `strip` rows. A warp has 32 neighbouring columns. The
//!   thread sums the box of its first row and slides it down. Shorter strips make more threads and more first rows.
//!
//! # Cost
//! The first pass reads one byte of a pixel and writes four. The second pass has four loads of four bytes, for the rows
//! that enter and leave, and writes one byte. The size of the box matters only in the first row of each strip:
//! `2 * mask_height / strip` loads a pixel.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;

use super::box_separable::divide;

super::listed! {
    "tutorial_box_running";
    // The distance of the shuffles doubles, from 1 up to half of the warp.
    row_prefix_sums: 2 pointers, u32 u32 => Convergent { shuffles: warp::WARP_SIZE.ilog2(), ..Convergent::barriers(2) };
    box_from_prefix_sums: 2 pointers, u32 u32 u32 u32 u32;
}

/// Threads of a block of [`row_prefix_sums`].
pub const PREFIX_BLOCK: u32 = 256;
/// Threads of a block of [`box_from_prefix_sums`], in x.
pub const COLUMNS_BLOCK: u32 = 128;
/// Dynamic shared memory of [`row_prefix_sums`], in bytes: one word for each warp.
pub const PREFIX_BYTES: u32 = PREFIX_BLOCK / warp::WARP_SIZE * 4;

/// The prefix sums of each row. Block b has row b.
///
/// # Safety
/// - `image` and `prefix` hold `height` rows of `width` elements, and do not overlap.
/// - 255 times `width` is below 2^32.
/// - The block is [`PREFIX_BLOCK`] threads, the dynamic shared memory [`PREFIX_BYTES`].
#[kernel]
pub unsafe fn row_prefix_sums(image: Global<u8>, prefix: GlobalMut<u32>, width: u32, height: u32) {
    let row = thread::block_idx_x();
    if row >= height {
        return;
    }
    let start = row as isize * width as isize;
    let (image, prefix) = (image.offset(start), prefix.offset(start));
    let tx = thread::thread_idx_x();
    let (of_warp, lane) = (tx / warp::WARP_SIZE, warp::lane_id());
    let totals = Shared::<u32>::dynamic();
    let mut carried = 0;
    let mut first = 0;
    while first < width {
        let x = first + tx;
        // SAFETY: x < width.
        let mut sum = if x < width { u32::from(unsafe { image.load(x as isize) }) } else { 0 };
        let mut step = 1;
        while step < warp::WARP_SIZE {
            // The lanes below `step` receive a value that they do not use.
            // SAFETY: all threads are here: `row`, `first`, the width and `step` are equal in all of them.
            let below = unsafe { warp::shuffle(sum, lane.wrapping_sub(step) % warp::WARP_SIZE) };
            if lane >= step {
                sum += below;
            }
            step *= 2;
        }
        if lane == warp::WARP_SIZE - 1 {
            // SAFETY: of_warp < PREFIX_BLOCK / 32; only this lane stores there.
            unsafe { totals.store(of_warp, sum) };
        }
        // SAFETY: all threads are here: `row`, `first` and the width are equal in all of them.
        unsafe { thread::sync_threads() };
        let mut before = carried;
        for other in 0..PREFIX_BLOCK / warp::WARP_SIZE {
            // SAFETY: other < PREFIX_BLOCK / 32; the total was stored before the barrier.
            let total = unsafe { totals.load(other) };
            if other < of_warp {
                before += total;
            }
            carried += total;
        }
        if x < width {
            // SAFETY: x < width, and no other thread has x.
            unsafe { prefix.store(x as isize, before + sum) };
        }
        // After the barrier no thread reads the totals any more.
        // SAFETY: all threads are here: `row`, `first` and the width are equal in all of them.
        unsafe { thread::sync_threads() };
        first += PREFIX_BLOCK;
    }
}

/// The columns of the prefix sums that bound a box.
#[derive(Clone, Copy)]
struct Columns {
    prefix: Global<u32>,
    width: isize,
    /// The column before the box, or -1.
    before: isize,
    last: isize,
}

impl Columns {
    /// The sum of the box's part of row `y`.
    ///
    /// # Safety
    /// - `prefix` has row `y`, and column `last` lies in it.
    #[inline(always)]
    #[track_caller]
    unsafe fn sum(self, y: i32) -> u32 {
        let row = self.prefix.offset(y as isize * self.width);
        // SAFETY: `last` lies in the row, and so does `before` < `last` unless it is negative.
        unsafe { row.load(self.last) - if self.before >= 0 { row.load(self.before) } else { 0 } }
    }
}

/// The blurred image from the prefix sums of its rows.
///
/// # Safety
/// - `prefix` and `result` hold `height` rows of `width` elements, and do not overlap. All sides are below 2^29.
/// - 255 times `mask_width * mask_height` is below 2^32.
/// - `strip` is at least 1. The grid is two-dimensional, with one row of blocks for each strip.
#[kernel]
pub unsafe fn box_from_prefix_sums(
    prefix: Global<u32>,
    result: GlobalMut<u8>,
    width: u32,
    height: u32,
    mask_width: u32,
    mask_height: u32,
    strip: u32,
) {
    let x = thread::index_1d() as i32;
    let first = (thread::block_idx_y() * strip) as i32;
    let (width, height) = (width as i32, height as i32);
    if x >= width || first >= height {
        return;
    }
    let left = x - mask_width as i32 / 2;
    let right = left + mask_width as i32 - 1;
    let last = if right < width { right } else { width - 1 };
    let columns = Columns {
        prefix,
        width: width as isize,
        before: if left > 0 { left as isize - 1 } else { -1 },
        last: last as isize,
    };
    let area = mask_width * mask_height;
    let end = if height - first < strip as i32 { height } else { first + strip as i32 };

    // The box of the first row.
    let top = first - mask_height as i32 / 2;
    let bottom = top + mask_height as i32;
    let mut y = if top > 0 { top } else { 0 };
    let mut sum = 0;
    let mut rows = warp::Steps::begin();
    while y < bottom && y < height {
        rows.next();
        // SAFETY: 0 <= y < height.
        sum += unsafe { columns.sum(y) };
        y += 1;
    }
    drop(rows);
    // The row that leaves when the box moves down, and the row that enters.
    let (mut leaves, mut enters) = (top, bottom);
    let (mut y, mut rows) = (first, warp::Steps::begin());
    while y < end {
        rows.next();
        // SAFETY: (x, y) lies in the result, and no other thread has it.
        unsafe { result.store(y as isize * width as isize + x as isize, divide(sum, area)) };
        if enters < height {
            // SAFETY: enters < height, and it is not negative: it lies below the middle of the box.
            sum += unsafe { columns.sum(enters) };
        }
        if leaves >= 0 {
            // SAFETY: leaves >= 0, and it is below height: it does not lie below the middle of the box.
            sum -= unsafe { columns.sum(leaves) };
        }
        (leaves, enters) = (leaves + 1, enters + 1);
        y += 1;
    }
}
