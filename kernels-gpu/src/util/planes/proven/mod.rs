//! The conversion from planes of approximate values to an image of integers with the bits of the ordered sums.
//!
//! A plane holds results `v` of a kernel whose error has a bound. The host knows a radius `r` with
//! `|v - w| <= r < 1/2`, where `w` is the value that the contract demands: the ordered sum in `f32`, scaled. Then
//! ```text
//! T::from_f32(v) == T::from_f32(w)   if no k + 1/2 with 0 <= k < T::MAX is within r of v
//! ```
//! because the conversion is monotone and changes at these boundaries only. Such a value is *certain*. The block
//! computes each other value again, as an ordered sum of pixels of the source.
//!
//! The test is one comparison. Let `c` be `v`, clamped to `0..=T::MAX`, and `q` the nearest integer. `v` is certain if
//! `|c - q| <= 1/2 - r`. The difference is exact. NaN is not certain.
//!
//! The radius may be smaller for small values. So there are [`CLASSES`] classes of values, each with its limit
//! `1/2 - r`.
//!
//! | kernel | image, source and result |
//! | --- | --- |
//! | `proven_planes_{T}_c{C}` | `C` interleaved channels of `T` |
//!
//! # Thread mapping
//! A block of 256 threads converts a [`tile`], all channels: 128 x 64 pixels of one channel, 128 x 32 of two, 64 x 32
//! of three or four. A large tile has uncertain values for more threads. In a small image, or with a large mask, it has
//! fewer rows.
//! 1. Each thread converts eight, four or two groups of four pixels. The results go to shared memory. A bit for each
//!    value tells whether it is uncertain.
//! 2. Each uncertain value gets a place in a list, which has room for all values.
//! 3. If the list is not empty, the block loads the pixels under all windows of its tile into shared memory, as a plane
//!    for each channel. The border is resolved here, so the sums know no border.
//! 4. The lanes of a warp take two values each, and add the products of both windows with the same coefficients, until
//!    the list is done.
//! 5. Each thread stores its groups from shared memory to the result.
//!
//! # Banks of shared memory
//! Windows begin anywhere in the tile. If the lanes of a warp read 32 of them in any order, a word of each takes three
//! to four cycles. So all groups that a lane converts have their first pixels in one bank, and other lanes have other
//! banks. The list has the values of lane 0 first, then those of lane 1, and so on, and each lane computes a 32nd of
//! it. If all lanes have found about as many values, a lane then reads its own bank or that of a neighbour, which takes
//! two cycles. This holds for pixels of one byte. Pixels of two bytes have the banks of two lanes.
//!
//! # Sums
//! A window begins at any pixel, words do not. `prmt` takes four neighbouring bytes, or two neighbouring values of
//! `u16`, from two words. One more `prmt` makes a float of each, which is the pixel times a power of two: see
//! [`Whole::factor`]. The coefficients are multiplied by another power of two, and the sum times
//! [`ProvenParams::unit`] is the ordered sum. For masks whose coefficients differ too much in magnitude, a subtraction
//! makes the pixel itself.
//!
//! All lanes of a warp are at the same coefficients. To load four of them into the registers of 32 lanes takes four
//! cycles, as long as to load the pixels of two values. So two values share them. Four values would leave most warps
//! without work.
//!
//! Rows of the mask are filled up with zeros to a multiple of four coefficients. A product with 0 leaves a sum as it
//! is, because pixels are finite; the sign of a zero does not show in an integer.

mod certain;
mod layout;
mod list;
mod recompute;
mod whole;
mod windows;

use cuda_std::prelude::*;

use self::certain::Group;
use self::layout::{GROUP, GroupPlace, SharedParts, WARPS, group_bits, groups_of_thread};
use self::list::{List, ListEntry};
use self::recompute::recompute;
use self::windows::load;
use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};
use crate::abi::params::Params;
use crate::abi::pixel::{Pixel, PixelType};
use crate::util::planes::words::MAX_WORDS;

pub use self::layout::tile;
pub use self::whole::Whole;

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (256, 1);

/// Blocks that a multiprocessor holds.
pub const BLOCKS_PER_SM: u32 = 4;

/// The fewest rows of a tile, but for the last one of an image.
const LEAST_TILE_ROWS: u32 = 16;

/// Classes of values with a limit of their own.
pub const CLASSES: usize = 4;

/// Which values are certain.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct ValueLimits {
    /// `1/2` less the radius, for each class of values. If it is negative, no value of the class is certain.
    pub limits: [f32; CLASSES],
    /// A value belongs to the last class whose number here is larger than the value, and else to the first.
    pub below: [f32; CLASSES],
}

impl ValueLimits {
    /// One limit for all values.
    #[must_use]
    pub const fn uniform(limit: f32) -> Self {
        Self { limits: [limit; CLASSES], below: [f32::INFINITY; CLASSES] }
    }
}

/// The launch parameters of the conversions.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct ProvenParams {
    /// The convolution, with the sizes, pitches, border, scale and offset of the interleaved image. The rows of the
    /// mask have [`padded_mask_width`](crate::abi::params::padded_mask_width) coefficients. `first_row` is the first
    /// row to convert.
    pub convolution: Params,
    /// Rows to convert.
    pub rows: i32,
    /// The pitch of the planes in `f32` values.
    pub plane_pitch: i32,
    /// `f32` values from one plane to the next.
    pub plane_stride: i64,
    /// Which values are certain.
    pub certain: ValueLimits,
    /// The sum of the coefficients times [factors](Whole::factor), times this, is the ordered sum. 0 if the
    /// coefficients are for the pixels themselves.
    pub unit: f32,
    /// The rows that a block converts: [`Conversion::tile_rows`].
    pub tile_rows: u32,
}

// The host and the PTX are built at different times. This fixes the layout for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ProvenParams>() == 112 && align_of::<ProvenParams>() == 8);
    assert!(offset_of!(ProvenParams, rows) == 56 && offset_of!(ProvenParams, plane_pitch) == 60);
    assert!(offset_of!(ProvenParams, plane_stride) == 64 && offset_of!(ProvenParams, certain) == 72);
    assert!(offset_of!(ValueLimits, below) == 16 && offset_of!(ProvenParams, unit) == 104);
    assert!(offset_of!(ProvenParams, tile_rows) == 108);
};

/// The kernel for images of `C` interleaved channels of `T`.
///
/// # Safety
/// With `params.convolution` as `p`:
/// - `planes` holds `C` planes, `plane_stride` values apart. Rows `first_row` to `first_row + rows - 1` of each hold
///   `p.width` values, `plane_pitch` values apart.
/// - `source` and `result` hold `p.height` rows of `p.width` pixels, `p.src_pitch` and `p.dst_pitch` values apart. They
///   do not overlap.
/// - `mask` holds `p.mask_height` rows of [`padded_mask_width`](crate::abi::params::padded_mask_width) coefficients. If
///   `unit` is not 0, they are divided by `unit * 2^FACTOR_EXPONENT`.
/// - Each row of a plane, of the source, of the result and of the mask begins at a multiple of 16 bytes.
/// - The rows to convert are rows of the image: `first_row + rows <= p.height`.
/// - `C * p.width`, `p.height` and the pitches are at most [`MAX_SIDE`](crate::abi::params::MAX_SIDE).
/// - The border's value is one of `T`.
/// - `tile_rows` is a multiple of 16, and at most the rows of a [`tile`]. The grid is that of [`Conversion::grid`], the
///   blocks are [`BLOCK`] with [`Conversion::shared_bytes`] of shared memory.
#[inline(always)]
pub unsafe fn proven<T: Whole, const C: u32>(
    planes: Global<f32>,
    source: Global<T>,
    result: GlobalMut<T>,
    mask: Global<f32>,
    params: ProvenParams,
) {
    let convolution = &params.convolution;
    let parts = SharedParts::new::<T, C>(convolution, params.tile_rows);
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let x = (thread::block_idx_x() * const { tile(C).0 }) as i32;
    let row = thread::block_idx_y() * params.tile_rows;
    let rows = (params.rows as u32 - row).min(params.tile_rows);
    let row = row as i32;
    let y = convolution.first_row + row;
    // A thread's groups.
    let place = |part: u32| GroupPlace::of::<C>(thread, part, parts.pitch);
    let group = |part: u32| {
        let place = place(part);
        let (row, x) = (place.row, x + (place.column * GROUP) as i32);
        let left = convolution.width - x;
        let pixels = if row >= rows || left < 0 { 0 } else { (left as u32).min(GROUP) };
        Group { number: place.number::<C>(), x, y: y + row as i32, pixels }
    };

    let parts_of_thread = const { groups_of_thread(C) };
    let mut values = [[0.0; MAX_WORDS]; groups_of_thread(1) as usize];
    for part in 0..parts_of_thread {
        // SAFETY: the group's pixels lie in the image, and in the rows to convert.
        values[part as usize] = unsafe { group(part).load::<C>(planes, &params) };
    }
    let mut uncertain = 0;
    for part in 0..parts_of_thread {
        // SAFETY: no other thread has the group.
        let bits = unsafe { group(part).convert::<T, C>(&values[part as usize], parts.results, &params) };
        uncertain |= bits << (part * group_bits(C));
    }

    // SAFETY: each thread has a place among the counts.
    unsafe { parts.counts.store(thread, uncertain.count_ones()) };
    // SAFETY: all threads are here.
    unsafe { thread::sync_threads() };
    // The uncertain values of this lane in warps before this one, and in all warps.
    let (mut rank, mut of_lane) = (0, 0);
    for other in 0..WARPS {
        // SAFETY: each thread has stored its count before the barrier.
        let count = unsafe { parts.counts.load(other * 32 + lane) };
        rank += if other < warp { count } else { 0 };
        of_lane += count;
    }
    // SAFETY: all lanes are here. The counts of the lanes are equal in all warps.
    if unsafe { warp::ballot(of_lane != 0) } != 0 {
        // SAFETY: all lanes are here: the vote is equal in all of them.
        let list = unsafe { List::new(of_lane, lane) };
        while uncertain != 0 {
            thread::no_unroll();
            let bit = uncertain.trailing_zeros();
            uncertain &= uncertain - 1;
            let group = place(bit / group_bits(C)).number::<C>();
            let entry = ListEntry { group, value: bit % group_bits(C) };
            // SAFETY: the list has room for all values, and the index is this value's alone.
            unsafe { parts.list.store(list.index(rank), entry.pack::<C>()) };
            rank += 1;
        }
        // SAFETY: all threads are here, as the vote is equal in all warps. The windows belong to the tile's rows.
        unsafe {
            load::<T, C>(source, &parts, convolution, (x, y), rows, thread);
            thread::sync_threads();
            if params.unit != 0.0 {
                recompute::<T, C, true>(mask, &parts, &params, &list, warp);
            } else {
                recompute::<T, C, false>(mask, &parts, &params, &list, warp);
            }
            thread::sync_threads();
        }
    }

    // black_box keeps LLVM from using the places that were computed above: they would take registers from the sums.
    let mut part = thread::black_box(0);
    while part < parts_of_thread {
        thread::no_unroll();
        // SAFETY: the group was converted, and a barrier has passed since another thread has changed its results.
        unsafe { group(part).store::<T, C>(parts.results, result, convolution) };
        part += 1;
    }
}

/// The parameters of every conversion: planes, source, result, mask, [`ProvenParams`].
const PARAMETERS: [Parameter; 5] = [
    Parameter::POINTER,
    Parameter::POINTER,
    Parameter::POINTER,
    Parameter::POINTER,
    Parameter::value::<ProvenParams>(),
];

/// Three barriers; the list begins with a vote and takes a prefix sum of six shuffles.
const CONVERGENT: Convergent = Convergent { shuffles: 6, votes: 1, ..Convergent::barriers(3) };

/// A conversion as a function of the host, for an executor to run. Arguments: planes, source, result, mask, params.
///
/// The conversion says the type of the values of source and result.
#[cfg(not(target_arch = "nvptx64"))]
pub type Function = unsafe fn(Global<f32>, Global<u8>, GlobalMut<u8>, Global<f32>, ProvenParams);

/// A conversion that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The symbol in the PTX. The module of the PTX that holds the kernel has the same name.
    pub symbol: &'static str,
    /// The type of the values of source and result.
    pub pixel: PixelType,
    /// Interleaved channels of a pixel, and the number of planes.
    pub channels: u32,
    /// The kernel as a function of the host, for an executor to run.
    #[cfg(not(target_arch = "nvptx64"))]
    pub function: Function,
}

impl Conversion {
    /// The PTX module that holds the kernel.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// The dynamic shared memory of a block in bytes, for a mask of this width and height and tiles of so many rows.
    #[must_use]
    pub const fn shared_bytes(&self, mask: (u32, u32), tile_rows: u32) -> u64 {
        layout::shared_bytes(self.pixel.bytes(), self.channels, mask, tile_rows)
    }

    /// The shared memory of a block with the smallest tile, for a mask of this width and height.
    #[must_use]
    pub const fn least_shared_bytes(&self, mask: (u32, u32)) -> u64 {
        self.shared_bytes(mask, LEAST_TILE_ROWS)
    }

    /// The most rows that one launch converts, for a mask of this width and height, on a device with so much shared
    /// memory for a block: the limit of `gridDim.y` times the rows of a tile.
    #[must_use]
    pub const fn most_rows(&self, mask: (u32, u32), shared_limit: u64) -> u32 {
        65_535 * self.most_tile_rows(mask, shared_limit)
    }

    /// The most rows of a tile whose windows fit the shared memory of a block.
    const fn most_tile_rows(&self, mask: (u32, u32), shared_limit: u64) -> u32 {
        let mut tile_rows = tile(self.channels).1;
        while tile_rows > LEAST_TILE_ROWS && self.shared_bytes(mask, tile_rows) > shared_limit {
            tile_rows /= 2;
        }
        tile_rows
    }

    /// The rows that a block converts, of `rows` rows of `width` pixels, on a device with `sm_count` multiprocessors
    /// and so much shared memory for a block.
    ///
    /// They are those of a tile. They are fewer where there would be fewer blocks than multiprocessors, or where the
    /// windows of a large mask need the memory.
    #[must_use]
    pub const fn tile_rows(
        &self,
        (width, rows): (u32, u32),
        mask: (u32, u32),
        (sm_count, shared_limit): (u32, u64),
    ) -> u32 {
        let mut tile_rows = self.most_tile_rows(mask, shared_limit);
        let across = width.div_ceil(tile(self.channels).0) as u64;
        while tile_rows > LEAST_TILE_ROWS && across * (rows.div_ceil(tile_rows) as u64) < sm_count as u64 {
            tile_rows /= 2;
        }
        tile_rows
    }

    /// `gridDim.x` and `gridDim.y` for `rows` rows of `width` pixels, at most [`most_rows`](Self::most_rows).
    #[must_use]
    pub const fn grid(&self, (width, rows): (u32, u32), tile_rows: u32) -> (u32, u32) {
        (width.div_ceil(tile(self.channels).0), rows.div_ceil(tile_rows))
    }

    /// The exponent of the power of two by which [`Whole::factor`] multiplies pixels.
    #[must_use]
    pub const fn factor_exponent(&self) -> i32 {
        if matches!(self.pixel, PixelType::U8) { u8::FACTOR_EXPONENT } else { u16::FACTOR_EXPONENT }
    }

    /// The kernel as the PTX must hold it.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        Kernel {
            symbol: self.symbol,
            module: self.module(),
            parameters: &PARAMETERS,
            compute_capability: OLDEST,
            launch_bounds: Some((BLOCK.0 * BLOCK.1, BLOCKS_PER_SM)),
            convergent: CONVERGENT,
        }
    }
}

/// One `#[kernel]` function for each row of `instantiate!`.
macro_rules! kernel_functions {
    ({} $(($symbol:ident, T = $type:ident, C = $channels:literal))*) => {$(
        /// An instance of the conversion for one pixel type and number of channels.
        ///
        /// # Safety
        /// The conditions of [`proven`] hold.
        #[kernel(no_launcher)]
        pub unsafe fn $symbol(
            planes: Global<f32>,
            source: Global<u8>,
            result: GlobalMut<u8>,
            mask: Global<f32>,
            params: ProvenParams,
        ) {
            // SAFETY: the conditions of this function are those of the body.
            unsafe { proven::<$type, $channels>(planes, source.cast(), result.cast(), mask, params) }
        }
    )*};
}

/// One [`Conversion`] for each row of `instantiate!`.
macro_rules! conversion_list {
    ({} $(($symbol:ident, T = $type:ident, C = $channels:literal))*) => {
        &[$(Conversion {
            symbol: stringify!($symbol),
            pixel: <$type as Pixel>::TYPE,
            channels: $channels,
            #[cfg(not(target_arch = "nvptx64"))]
            function: $symbol,
        }),*]
    };
}

::cuda_std::instantiate! { kernel_functions! {} "proven_planes_{T}_c{C}" for T in [u8, u16], C in [1, 2, 3, 4] }

/// All conversions.
pub const CONVERSIONS: &[Conversion] =
    ::cuda_std::instantiate! { conversion_list! {} "proven_planes_{T}_c{C}" for T in [u8, u16], C in [1, 2, 3, 4] };

/// The conversion for images of this type and number of channels, both source and result.
#[must_use]
pub fn proven_planes(pixel: PixelType, channels: u32) -> Option<&'static Conversion> {
    CONVERSIONS.iter().find(|conversion| conversion.pixel == pixel && conversion.channels == channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a symbol says is what the conversion is, and each one is found.
    #[test]
    fn symbols_say_what_their_conversions_are() {
        extern crate std;
        for conversion in CONVERSIONS {
            let (pixel, channels) = (conversion.pixel, conversion.channels);
            assert_eq!(conversion.symbol, std::format!("proven_planes_{}_c{channels}", pixel.name()));
            assert_eq!(proven_planes(pixel, channels).map(|found| found.symbol), Some(conversion.symbol));
        }
        assert_eq!(CONVERSIONS.len(), 8);
        assert!(proven_planes(PixelType::F32, 2).is_none() && proven_planes(PixelType::U8, 5).is_none());
    }

    /// A tile fits the device whenever the least one does, and has fewer rows only if it must. A launch for the most
    /// rows fits a grid.
    #[test]
    fn tiles_fit_the_device() {
        for conversion in CONVERSIONS {
            let most = tile(conversion.channels).1;
            for (side, shared_limit) in
                (1..400).flat_map(|side| [64 << 10, 99 << 10, 227 << 10].map(|limit| (side, limit)))
            {
                if conversion.least_shared_bytes((side, side)) > shared_limit {
                    continue;
                }
                let rows = conversion.tile_rows((8192, 8192), (side, side), (132, shared_limit));
                let fits = |rows: u32| conversion.shared_bytes((side, side), rows) <= shared_limit;
                assert!(fits(rows) && (rows == most || !fits(2 * rows)), "{}, {side}: {rows}", conversion.symbol);
                let few = conversion.tile_rows((100, 64), (side, side), (132, shared_limit));
                assert_eq!(few, LEAST_TILE_ROWS, "{}, {side}", conversion.symbol);
                // One launch takes the most rows, and not one row more.
                let grid_of = |size: (u32, u32)| {
                    conversion.grid(size, conversion.tile_rows(size, (side, side), (132, shared_limit))).1
                };
                let rows = conversion.most_rows((side, side), shared_limit);
                let grids = [rows, rows + 1].map(|rows| grid_of((1, rows)));
                assert_eq!(grids, [65_535, 65_536], "{}, {side}", conversion.symbol);
            }
        }
    }
}
