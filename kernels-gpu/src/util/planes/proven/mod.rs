//! The conversion from planes of approximate values to an image of integers with the bits of the ordered sums.
//!
//! A plane holds results `v` of a kernel whose error has a bound. The host knows a radius `r` with
//! `|v - w| <= r < 1/2`, where `w` is the value that the contract names: the ordered sum in `f32`, scaled. Then
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
//! A block of 256 threads converts a tile of 64 x 32 pixels, all channels:
//! 1. Each thread converts two groups of four pixels. The results go to shared memory. A bit for each value tells
//!    whether it is uncertain.
//! 2. A prefix sum over the bits gives each uncertain value a place in a list, which has room for all values.
//! 3. If the list is not empty, the block loads the pixels under all windows of its tile into shared memory, as a plane
//!    for each channel. The border is resolved here, so the sums know no border.
//! 4. Each thread takes a value from the list and adds the products of its window, until the list is done.
//! 5. Each thread stores the two groups from shared memory to the result.
//!
//! # Sums
//! A window begins at any pixel, words do not. `prmt` takes four neighbouring bytes, or two neighbouring values of
//! `u16`, from two words. One more `prmt` and a subtraction make an `f32` of each. All lanes of a warp are at the same
//! coefficient, which comes from L1 as a vector for the whole warp.
//!
//! Rows of the mask are filled up with zeros to a multiple of four coefficients. A product with 0 leaves a sum as it
//! is, because pixels are finite; the sign of a zero does not show in an integer.

mod certain;
mod layout;
mod recompute;
mod whole;
mod windows;

use cuda_std::prelude::*;

use self::certain::Group;
use self::layout::{GROUP, GROUP_BITS, GROUPS_OF_ROW, GROUPS_OF_THREAD, ListEntry, SharedParts, WARPS};
use self::recompute::recompute;
use self::windows::load;
use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};
use crate::abi::params::Params;
use crate::abi::pixel::{Pixel, PixelType};

pub use self::layout::{TILE, padded_mask_width, shared_bytes};
pub use self::whole::Whole;

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (256, 1);

/// Classes of values with a limit of their own.
pub const CLASSES: usize = 4;

/// The most rows that one launch converts: the limit of `gridDim.y` times the rows of a tile.
pub const MOST_ROWS: u32 = 65_535 * TILE.1;

/// `gridDim.x` and `gridDim.y` for `rows` rows of `width` pixels, at most [`MOST_ROWS`].
#[must_use]
pub const fn grid(width: u32, rows: u32) -> (u32, u32) {
    (width.div_ceil(TILE.0), rows.div_ceil(TILE.1))
}

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
    /// mask have [`padded_mask_width`] coefficients. `first_row` is the first row to convert.
    pub convolution: Params,
    /// Rows to convert.
    pub rows: i32,
    /// The pitch of the planes in `f32` values.
    pub plane_pitch: i32,
    /// `f32` values from one plane to the next.
    pub plane_stride: i64,
    /// Which values are certain.
    pub certain: ValueLimits,
}

// The host and the PTX are built at different times. This fixes the layout for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<ProvenParams>() == 104 && align_of::<ProvenParams>() == 8);
    assert!(offset_of!(ProvenParams, rows) == 56 && offset_of!(ProvenParams, plane_pitch) == 60);
    assert!(offset_of!(ProvenParams, plane_stride) == 64 && offset_of!(ProvenParams, certain) == 72);
    assert!(offset_of!(ValueLimits, below) == 16);
};

/// The kernel for images of `C` interleaved channels of `T`.
///
/// # Safety
/// With `params.convolution` as `p`:
/// - `planes` holds `C` planes, `plane_stride` values apart. Rows `first_row` to `first_row + rows - 1` of each hold
///   `p.width` values, `plane_pitch` values apart.
/// - `source` and `result` hold `p.height` rows of `p.width` pixels, `p.src_pitch` and `p.dst_pitch` values apart. They
///   do not overlap.
/// - `mask` holds `p.mask_height` rows of [`padded_mask_width`] coefficients.
/// - Each row of a plane, of the source, of the result and of the mask begins at a multiple of 16 bytes.
/// - The rows to convert are rows of the image: `first_row + rows <= p.height`.
/// - `C * p.width`, `p.height` and the pitches are at most [`MAX_SIDE`](crate::abi::params::MAX_SIDE).
/// - The border's value is one of `T`.
/// - The grid is that of [`grid`], the blocks are [`BLOCK`] with [`shared_bytes`] of shared memory.
#[inline(always)]
pub unsafe fn proven<T: Whole, const C: u32>(
    planes: Global<f32>,
    source: Global<T>,
    result: GlobalMut<T>,
    mask: Global<f32>,
    params: ProvenParams,
) {
    let convolution = &params.convolution;
    let parts = SharedParts::new::<T, C>(convolution);
    let thread = thread::thread_idx_x();
    let (warp, lane) = (thread / 32, thread % 32);
    let x = (thread::block_idx_x() * TILE.0) as i32;
    let row = (thread::block_idx_y() * TILE.1) as i32;
    let rows = if params.rows - row < TILE.1 as i32 { (params.rows - row) as u32 } else { TILE.1 };
    let y = convolution.first_row + row;
    // A thread's groups.
    let group = |part: u32| {
        let group = thread + part * BLOCK.0;
        let (row, x) = (group / GROUPS_OF_ROW, x + (group % GROUPS_OF_ROW * GROUP) as i32);
        let left = convolution.width - x;
        let pixels = if row >= rows || left < 0 { 0 } else { (left as u32).min(GROUP) };
        Group { number: group, x, y: y + row as i32, pixels }
    };

    let mut uncertain = 0;
    for part in 0..GROUPS_OF_THREAD {
        // SAFETY: the group's pixels lie in the image, and in the rows to convert. No other thread has the group.
        let bits = unsafe { group(part).convert::<T, C>(planes, parts.results, &params) };
        uncertain |= bits << (part * GROUP_BITS);
    }

    // The uncertain values of this lane and of all lanes before it.
    let own = uncertain.count_ones();
    let mut sum = own;
    // SAFETY: all lanes are here.
    if unsafe { warp::ballot(own != 0) } != 0 {
        for i in 0..5 {
            let distance = 1 << i;
            // SAFETY: all lanes are here: the vote is equal in all of them.
            let before = unsafe { warp::shuffle(sum, lane.wrapping_sub(distance) % 32) };
            sum += if lane >= distance { before } else { 0 };
        }
    }
    if lane == 31 {
        // SAFETY: warp < WARPS.
        unsafe { parts.counts.store(warp, sum) };
    }
    // SAFETY: all threads are here.
    unsafe { thread::sync_threads() };
    let (mut place, mut total) = (sum - own, 0);
    for other in 0..WARPS {
        // SAFETY: each warp has stored its count before the barrier.
        let count = unsafe { parts.counts.load(other) };
        place += if other < warp { count } else { 0 };
        total += count;
    }

    if total > 0 {
        while uncertain != 0 {
            thread::no_unroll();
            let bit = uncertain.trailing_zeros();
            uncertain &= uncertain - 1;
            let entry = ListEntry { group: thread + bit / GROUP_BITS * BLOCK.0, value: bit % GROUP_BITS };
            // SAFETY: the list has room for all values, and the place is this value's alone.
            unsafe { parts.list.store(place, entry.pack()) };
            place += 1;
        }
        // SAFETY: all threads are here, as `total` is equal in all of them. The windows belong to the tile's rows.
        unsafe {
            let lead = load::<T, C>(source, &parts, convolution, (x, y), rows, thread);
            thread::sync_threads();
            recompute::<T, C>(mask, &parts, convolution, lead, total, thread);
            thread::sync_threads();
        }
    }

    for part in 0..GROUPS_OF_THREAD {
        // SAFETY: the group was converted, and a barrier has passed since another thread has changed its results.
        unsafe { group(part).store::<T, C>(parts.results, result, convolution) };
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

/// Three barriers; the prefix sum has a vote and five shuffles.
const CONVERGENT: Convergent = Convergent { shuffles: 5, votes: 1, ..Convergent::barriers(3) };

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

    /// The dynamic shared memory of a block in bytes, for a mask of this width and height.
    #[must_use]
    pub const fn shared_bytes(&self, mask: (u32, u32)) -> u64 {
        shared_bytes(self.pixel.bytes(), self.channels, mask)
    }

    /// The kernel as the PTX must hold it.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        Kernel {
            symbol: self.symbol,
            module: self.module(),
            parameters: &PARAMETERS,
            compute_capability: OLDEST,
            launch_bounds: Some((BLOCK.0 * BLOCK.1, 4)),
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
}
