//! A pair of tiles: from the image into shared memory.

use cuda_std::prelude::*;

use super::layout::SIDE;
use super::tile::{PITCH, ROWS_OF_WARP};
use crate::abi::border;
use crate::abi::params::Params;

/// Where the pixels of a pair of tiles lie.
#[derive(Clone, Copy)]
pub(super) struct Pair<const C: u32> {
    pub(super) image: Global<f32>,
    /// First column of each tile.
    pub(super) left: [i32; 2],
    /// First row of both.
    pub(super) top: i32,
    /// The channel of each tile.
    pub(super) channel: [u32; 2],
    /// The last column of each tile that a result of this pair needs, counted from the first, and the last such row of
    /// both. Columns and rows after them repeat their pixels, so no result depends on what lies there.
    pub(super) last: [i32; 2],
    pub(super) last_row: i32,
    /// Where the pixels of each column lie in a row of the image, for both tiles. It is filled if `edge`.
    pub(super) table: Shared<i32>,
    /// The rows of the image. They are filled if `edge`.
    pub(super) rows: Shared<i32>,
    /// Whether a pixel of the pair lies outside of the image.
    pub(super) edge: bool,
}

/// Pixels of a row that a lane loads.
pub(super) const PIXELS: usize = 2 * SIDE as usize / 32;

/// The tile and the column of pixel `i` of a lane. Whether it is the second tile.
///
/// With one channel the lanes have neighbouring columns of one tile. With several channels, pairs of lanes have both
/// tiles: for two and four channels, and mostly for three, these are two channels of a pixel.
#[inline(always)]
pub(super) const fn pixel_of_lane<const C: u32>(i: u32, lane: u32) -> (bool, u32) {
    if C == 1 { (!i.is_multiple_of(2), i / 2 * 32 + lane) } else { (!lane.is_multiple_of(2), i * 16 + lane / 2) }
}

/// What a thread knows of the pixels that it has loaded, for each tile.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    pub(super) sum: [f32; 2],
    /// The least magnitude.
    pub(super) least: [f32; 2],
    /// The sum of the squares. With one channel nobody needs it.
    pub(super) squares: [f32; 2],
}

impl Facts {
    pub(super) const NONE: Self = Self { sum: [0.0; 2], least: [f32::INFINITY; 2], squares: [0.0; 2] };

    /// Stores them as vector `index`, without the squares.
    ///
    /// # Safety
    /// - The place is in shared memory. No other thread uses it until the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store(&self, to: Shared<F32x4>, index: u32) {
        // SAFETY: as this function requires.
        unsafe { to.store(index, F32x4([self.sum[0], self.sum[1], self.least[0], self.least[1]])) };
    }

    /// Loads them.
    ///
    /// # Safety
    /// - They are in vector `index`, and a barrier has passed.
    #[inline(always)]
    pub(super) unsafe fn load(from: Shared<F32x4>, index: u32) -> Self {
        // SAFETY: as this function requires.
        let F32x4([first, second, least, other]) = unsafe { from.load(index) };
        Self { sum: [first, second], least: [least, other], squares: [0.0; 2] }
    }

    /// The mean of each tile's pixels.
    #[inline(always)]
    pub(super) fn mean(&self) -> [f32; 2] {
        self.sum.map(|sum| sum * (1.0 / (SIDE * SIDE) as f32))
    }

    /// A power of two for each tile. With these factors both tiles have contrasts of about the same magnitude; see
    /// [`error`](super::error).
    #[inline(always)]
    pub(super) fn scales(&self) -> [f32; 2] {
        /// Above this a number might overflow.
        const MOST: f32 = 1e30;
        /// The largest exponent of a scale.
        const MOST_EXPONENT: u32 = 60;
        let mean = self.mean();
        let mut exponents = [0_u32; 2];
        for tile in 0..2 {
            // A difference below `least` may be a rounding error.
            let least = self.squares[tile] * (1.0 / 65536.0);
            let contrast = fma(-self.sum[tile], mean[tile], self.squares[tile]).max(least);
            exponents[tile] = contrast.to_bits() >> 23;
        }
        let mut scales = [1.0; 2];
        for tile in 0..2 {
            // Half of the difference, because these are exponents of squares. 255 is that of infinity and of NaN.
            let (own, other) = (exponents[tile], exponents[1 - tile]);
            let exponent = other.saturating_sub(own) / 2;
            let scale = f32::from_bits((127 + exponent.min(MOST_EXPONENT)) << 23);
            if own != 0 && other < 255 && mean[tile].abs() * scale < MOST {
                scales[tile] = scale;
            }
        }
        scales
    }

    /// Adds a pixel of each tile.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    fn add(&mut self, pixels: [f32; 2]) {
        for tile in 0..2 {
            self.sum[tile] += pixels[tile];
            self.least[tile] = self.least[tile].min(pixels[tile].abs());
        }
    }

    /// Adds a pixel of the lane's tile to the facts of the first tile; [`of_lane`](Self::of_lane) exchanges them later.
    #[inline(always)]
    fn add_one(&mut self, pixel: f32) {
        self.sum[0] += pixel;
        self.least[0] = self.least[0].min(pixel.abs());
        self.squares[0] = fma(pixel, pixel, self.squares[0]);
    }

    /// With several channels: moves the facts from the first tile to the lane's tile.
    #[inline(always)]
    fn of_lane<const C: u32>(self, lane: u32) -> Self {
        if C == 1 || lane.is_multiple_of(2) {
            return self;
        }
        let [sum, least, squares] = [self.sum, self.least, self.squares].map(|[first, second]| [second, first]);
        Self { sum, least, squares }
    }
}

impl<const C: u32> Pair<C> {
    /// Fills the table of the columns and that of the rows.
    ///
    /// # Safety
    /// - Threads 0 to 383 of the block call this, and no thread reads the tables before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn fill_tables(&self, params: &Params, thread: u32) {
        let at = (thread % SIDE) as i32;
        if thread < 2 * SIDE {
            let (left, last, channel) = if thread < SIDE {
                (self.left[0], self.last[0], self.channel[0])
            } else {
                (self.left[1], self.last[1], self.channel[1])
            };
            let x = border::map(params.border, left + at.min(last), params.width);
            let value = if x < 0 { x } else { x * C as i32 + channel as i32 };
            // SAFETY: the table has room for 256 columns, and each thread has one.
            unsafe { self.table.store(thread, value) };
        } else if thread < 3 * SIDE {
            let y = border::map(params.border, self.top + at.min(self.last_row), params.height);
            // SAFETY: there is room for 128 rows, and each thread has one.
            unsafe { self.rows.store(thread % SIDE, y) };
        }
    }

    /// Loads the rows of the calling warp into `to`, rows of [`PITCH`] pairs of pixels.
    ///
    /// # Safety
    /// - The image is as `params` say. If `edge`, the tables are filled and a barrier has passed.
    /// - `to` has room for 128 rows. No other warp calls this with the same `warp`, below 16.
    /// - No thread reads `to` before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn load(&self, params: &Params, to: Shared<F32x2>, (warp, lane): (u32, u32)) -> Facts {
        // SAFETY: as this function requires.
        unsafe {
            if self.edge {
                self.load_edge(params, to, (warp, lane))
            } else {
                self.load_interior(params, to, (warp, lane))
            }
        }
    }

    /// The same where no pixel of the pair lies outside of the image.
    #[inline(always)]
    unsafe fn load_interior(&self, params: &Params, to: Shared<F32x2>, (warp, lane): (u32, u32)) -> Facts {
        let first = warp * ROWS_OF_WARP;
        let of_tile = |tile: usize| {
            let value = self.left[tile] * C as i32 + self.channel[tile] as i32;
            self.image.offset(params.src_index(value, self.top + first as i32))
        };
        let [(is_second, column), (other, _)] = [pixel_of_lane::<C>(0, lane), pixel_of_lane::<C>(1, lane)];
        let [of_even, of_odd] = [is_second, other].map(|is_second| {
            let tile = if is_second { of_tile(1) } else { of_tile(0) };
            tile.offset((column * C) as isize)
        });
        let mut facts = Facts::NONE;
        for q in 0..ROWS_OF_WARP {
            let row = q as isize * params.src_pitch as isize;
            let [even, odd] = [of_even.offset(row), of_odd.offset(row)];
            let pixels = core::array::from_fn(|i| {
                let (_, from) = pixel_of_lane::<C>(i as u32, 0);
                let pixels = if i % 2 == 0 { even } else { odd };
                // SAFETY: no pixel of the pair lies outside of the image.
                unsafe { pixels.load((from * C) as isize) }
            });
            // SAFETY: the row is the warp's.
            unsafe { keep::<C>(pixels, &mut facts, to.offset((first + q) * PITCH), lane) };
        }
        facts.of_lane::<C>(lane)
    }

    /// The same where a pixel may lie outside of the image.
    #[inline(always)]
    unsafe fn load_edge(&self, params: &Params, to: Shared<F32x2>, (warp, lane): (u32, u32)) -> Facts {
        let first = warp * ROWS_OF_WARP;
        // Otherwise the assembler keeps it in a register from one call of this function to the other, and spills.
        let border_value = f32::from_bits(thread::black_box(params.border_value.to_bits()));
        let mut outside = 0_u32;
        let places: [i32; PIXELS] = core::array::from_fn(|i| {
            let (is_second, column) = pixel_of_lane::<C>(i as u32, lane);
            // SAFETY: the table has an element for each column of both tiles.
            let place = unsafe { self.table.load(if is_second { SIDE + column } else { column }) };
            outside |= u32::from(place < 0) << i;
            place.max(0)
        });
        let mut facts = Facts::NONE;
        for q in 0..ROWS_OF_WARP {
            // SAFETY: the table has all rows.
            let y = unsafe { self.rows.load(first + q) };
            let outside = if y < 0 { u32::MAX } else { outside };
            let row = self.image.offset(params.src_index(0, y.max(0)));
            // All loads, then all comparisons: no load waits for another one.
            let pixels = core::array::from_fn(|i| {
                // SAFETY: the border map gave the position, or it is 0. So it lies in the image.
                let pixel = unsafe { row.load(places[i] as isize) };
                if outside >> i & 1 != 0 { border_value } else { pixel }
            });
            // SAFETY: the row is the warp's.
            unsafe { keep::<C>(pixels, &mut facts, to.offset((first + q) * PITCH), lane) };
        }
        facts.of_lane::<C>(lane)
    }
}

/// Stores the pixels of a lane in a row of shared memory, and counts them.
///
/// # Safety
/// - The row has 128 pairs of pixels, is the warp's alone, and nobody reads it before the next barrier.
#[inline(always)]
unsafe fn keep<const C: u32>(pixels: [f32; PIXELS], facts: &mut Facts, row: Shared<F32x2>, lane: u32) {
    if C == 1 {
        for group in 0..PIXELS / 2 {
            let pair = [pixels[2 * group], pixels[2 * group + 1]];
            facts.add(pair);
            // SAFETY: the column is the lane's, and below 128.
            unsafe { row.store(32 * group as u32 + lane, F32x2(pair)) };
        }
    } else {
        for (i, &pixel) in pixels.iter().enumerate() {
            facts.add_one(pixel);
            // SAFETY: a lane has number `lane` of each 32 numbers of the row.
            unsafe { row.cast::<f32>().store(32 * i as u32 + lane, pixel) };
        }
    }
}
