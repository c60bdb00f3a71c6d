//! Conversions between an interleaved image of any pixel type and dense planes of `f32`, one plane for each channel.
//!
//! | kernel | formula |
//! | --- | --- |
//! | `to_planes_{T}_c{C}` | `plane[c][y, x] = image[y, x, c].to_f32()` |
//! | `from_planes_{T}_c{C}` | `image[y, x, c] = T::from_f32(plane[c][y, x])` |
//!
//! [`Pixel`] defines both functions. So an image of whole numbers that passes through planes keeps its values, and a
//! plane of results becomes the same bits as the results that a convolution kernel stores.
//!
//! There is no kernel for one channel of `f32`: such an image is a plane.
//!
//! # Thread mapping
//! Thread (i, y) of the grid converts the [`PIXELS`] pixels from column `4 * i` on, of all channels. It does so in row
//! y and, in steps of the grid's height, in the rows below. So any number of rows fits in one launch.
//!
//! # Accesses
//! The four pixels are 16 bytes of each plane: one vector. In the image they are C words (`u8`), 2 C words (`u16`) or
//! 4 C words (`f32`). They are accessed in the widest vectors whose size divides theirs:
//!
//! | type | C = 1 | C = 2 | C = 3 | C = 4 |
//! | --- | --- | --- | --- | --- |
//! | `u8` | 1 x 4 bytes | 1 x 8 | 3 x 4 | 1 x 16 |
//! | `u16` | 1 x 8 | 1 x 16 | 3 x 8 | 2 x 16 |
//! | `f32` | | 2 x 16 | 3 x 16 | 4 x 16 |
//!
//! A warp accesses contiguous memory and all bytes of its sectors. Where a thread has one vector, each instruction
//! accesses whole sectors. Where it has several, the vectors of a thread are neighbours, and an instruction accesses a
//! part of each sector. Then L1 serves the later loads, and L2 merges the stores.
//!
//! The last one to three pixels of a row are accessed value by value. Nothing after the end of a row is read or
//! written.
//!
//! # Cost
//! A pixel is `C * (4 + size_of::<T>())` bytes of traffic in global memory. The roofline is the time of that traffic.

pub mod proven;
pub mod words;

use cuda_std::prelude::*;

use self::words::{MAX_WORDS, Packed, load_words, store_words, words_of};
use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};
use crate::abi::pixel::{Pixel, PixelType};

/// Threads of a block in x and y.
pub const BLOCK: (u32, u32) = (32, 8);

/// Neighbouring pixels that a thread converts at a time.
pub const PIXELS: u32 = 4;

/// `gridDim.x` and `gridDim.y` for an image of `rows` rows of `width` pixels, both at least 1.
///
/// A grid of fewer rows of blocks converts the same pixels: each thread then converts more rows.
#[must_use]
pub const fn grid(width: u32, rows: u32) -> (u32, u32) {
    /// The limit of `gridDim.y`.
    const MOST: u32 = 65_535;
    let needed = rows.div_ceil(BLOCK.1);
    (width.div_ceil(PIXELS * BLOCK.0), if needed < MOST { needed } else { MOST })
}

/// The launch parameters of the conversions.
///
/// A pitch is the distance from one row to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct PlaneParams {
    /// Columns of the image and of each plane, in pixels.
    pub width: i32,
    /// Rows of the image and of each plane.
    pub rows: i32,
    /// The pitch of the image in values: at least `width` times the channels.
    pub interleaved_pitch: i32,
    /// The pitch of the planes in `f32` values: at least `width`.
    pub plane_pitch: i32,
    /// `f32` values from one plane to the next.
    ///
    /// A plane may have more than 2^31 values.
    pub plane_stride: i64,
}

// The host and the PTX are built at different times. This fixes the layout for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<PlaneParams>() == 24 && align_of::<PlaneParams>() == 8);
    assert!(offset_of!(PlaneParams, width) == 0 && offset_of!(PlaneParams, rows) == 4);
    assert!(offset_of!(PlaneParams, interleaved_pitch) == 8 && offset_of!(PlaneParams, plane_pitch) == 12);
    assert!(offset_of!(PlaneParams, plane_stride) == 16);
};

impl PlaneParams {
    /// The index of value `v` of the image's row `y`.
    #[inline(always)]
    #[must_use]
    pub const fn interleaved_index(&self, v: i32, y: i32) -> isize {
        (y as i64 * self.interleaved_pitch as i64 + v as i64) as isize
    }

    /// The index of pixel (x, y) of a channel's plane, counted from the start of the first plane.
    #[inline(always)]
    #[must_use]
    pub const fn plane_index(&self, channel: i32, x: i32, y: i32) -> isize {
        (channel as i64 * self.plane_stride + y as i64 * self.plane_pitch as i64 + x as i64) as isize
    }
}

/// The first row of this thread, and the distance to its next one.
#[inline(always)]
fn rows_of_thread() -> (i32, i32) {
    let (_, first) = thread::index_2d();
    (first as i32, (thread::grid_dim_y() * thread::block_dim_y()) as i32)
}

/// The kernel from an interleaved image of `C` channels to planes.
///
/// # Safety
/// - `image` holds `rows` rows of `width` pixels of `C` values, `interleaved_pitch` values apart.
/// - `planes` holds `C` planes, `plane_stride` values apart, each of `rows` rows of `width` values, `plane_pitch`
///   values apart. It does not overlap `image`.
/// - No two rows overlap.
/// - Each row of the image, and each row of each plane, begins at a multiple of 16 bytes.
/// - `C * width`, `rows` and both pitches are at most [`MAX_SIDE`](crate::abi::params::MAX_SIDE).
/// - The grid is that of [`grid`], or has fewer rows of blocks. The blocks are [`BLOCK`].
#[inline(always)]
pub unsafe fn deinterleave<T: Packed, const C: u32>(image: Global<T>, planes: GlobalMut<f32>, params: PlaneParams) {
    let x = (thread::index_1d() * PIXELS) as i32;
    if x >= params.width {
        return;
    }
    let (mut y, step) = rows_of_thread();
    while y < params.rows {
        let from = image.offset(params.interleaved_index(x * C as i32, y));
        if x + PIXELS as i32 <= params.width {
            // SAFETY: the four pixels lie in row y. They begin `C * x` values after a multiple of 16 bytes, and x is a
            // multiple of 4.
            let words = unsafe { load_words(from.cast(), words_of::<T, C>()) };
            for c in 0..C as usize {
                let value = |pixel: usize| T::unpack(&words, pixel * C as usize + c);
                let to = planes.offset(params.plane_index(c as i32, x, y));
                // SAFETY: the four values lie in row y of plane c. They begin x values after a multiple of 16 bytes,
                // and x is a multiple of 4. No other thread has the same x and y.
                unsafe { to.cast().store(0, F32x4([value(0), value(1), value(2), value(3)])) };
            }
        } else {
            let mut pixel = 0;
            while x + pixel < params.width {
                for c in 0..C as i32 {
                    // SAFETY: pixel (x + pixel, y) exists, and no other thread has it.
                    unsafe {
                        let value = from.load((pixel * C as i32 + c) as isize).to_f32();
                        planes.store(params.plane_index(c, x + pixel, y), value);
                    }
                }
                pixel += 1;
            }
        }
        y += step;
    }
}

/// The kernel from the planes of `C` channels to an interleaved image.
///
/// # Safety
/// - `planes` holds `C` planes, `plane_stride` values apart, each of `rows` rows of `width` values, `plane_pitch`
///   values apart.
/// - `image` holds `rows` rows of `width` pixels of `C` values, `interleaved_pitch` values apart. It does not overlap
///   `planes`.
/// - The conditions of [`deinterleave`] on rows, sizes and the grid hold.
#[inline(always)]
pub unsafe fn interleave<T: Packed, const C: u32>(planes: Global<f32>, image: GlobalMut<T>, params: PlaneParams) {
    let x = (thread::index_1d() * PIXELS) as i32;
    if x >= params.width {
        return;
    }
    let (mut y, step) = rows_of_thread();
    while y < params.rows {
        let to = image.offset(params.interleaved_index(x * C as i32, y));
        if x + PIXELS as i32 <= params.width {
            let mut values = [0.0; MAX_WORDS];
            for c in 0..C as usize {
                let from = planes.offset(params.plane_index(c as i32, x, y));
                // SAFETY: the four values lie in row y of plane c. They begin x values after a multiple of 16 bytes,
                // and x is a multiple of 4.
                let F32x4(pixels) = unsafe { from.cast().load(0) };
                for pixel in 0..PIXELS as usize {
                    values[pixel * C as usize + c] = pixels[pixel];
                }
            }
            // SAFETY: the four pixels lie in row y. They begin `C * x` values after a multiple of 16 bytes, and x is a
            // multiple of 4. No other thread has the same x and y.
            unsafe { store_words(to, &values, words_of::<T, C>()) };
        } else {
            let mut pixel = 0;
            while x + pixel < params.width {
                for c in 0..C as i32 {
                    // SAFETY: pixel (x + pixel, y) exists, and no other thread has it.
                    unsafe {
                        let value = planes.load(params.plane_index(c, x + pixel, y));
                        to.store((pixel * C as i32 + c) as isize, T::from_f32(value));
                    }
                }
                pixel += 1;
            }
        }
        y += step;
    }
}

/// The parameters of every conversion: source, destination, [`PlaneParams`].
const PARAMETERS: [Parameter; 3] = [Parameter::POINTER, Parameter::POINTER, Parameter::value::<PlaneParams>()];

/// A conversion as a function of the host, for an executor to run. Arguments: source, destination, params.
///
/// The conversion says the types of the values that both addresses have.
#[cfg(not(target_arch = "nvptx64"))]
pub type Function = unsafe fn(Global<u8>, GlobalMut<u8>, PlaneParams);

/// A conversion that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// The symbol in the PTX. The module of the PTX that holds the kernel has the same name.
    pub symbol: &'static str,
    /// The type of the image's values.
    pub pixel: PixelType,
    /// Interleaved channels of a pixel, and the number of planes.
    pub channels: u32,
    /// The kernel as a function of the host, for an executor to run.
    #[cfg(not(target_arch = "nvptx64"))]
    pub function: Function,
}

impl Conversion {
    /// Whether the image is the source, and the planes are the destination.
    #[must_use]
    pub fn is_to_planes(&self) -> bool {
        to_planes(self.pixel, self.channels).is_some_and(|conversion| conversion.symbol == self.symbol)
    }

    /// The PTX module that holds the kernel. The driver compiles a module when it is loaded, so each kernel has its
    /// own.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// The kernel as the PTX must hold it.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        Kernel {
            symbol: self.symbol,
            module: self.module(),
            parameters: &PARAMETERS,
            compute_capability: OLDEST,
            launch_bounds: None,
            convergent: Convergent::NONE,
        }
    }
}

/// The kernel functions and the list of conversions of one direction, from lists of types and channels.
macro_rules! conversions {
    ($(#[$doc:meta])* $list:ident, $body:ident: $($pattern:literal for T in $types:tt, C in $channels:tt;)+) => {
        $(::cuda_std::instantiate! { kernel_functions! { $body } $pattern for T in $types, C in $channels })+

        $(#[$doc])*
        pub const $list: &[&[Conversion]] =
            &[$(::cuda_std::instantiate! { conversion_list! {} $pattern for T in $types, C in $channels }),+];
    };
}

/// One `#[kernel]` function for each row of `instantiate!`.
macro_rules! kernel_functions {
    ({ $body:ident } $(($symbol:ident, T = $type:ident, C = $channels:literal))*) => {$(
        /// An instance of the conversion for one pixel type and number of channels.
        ///
        /// # Safety
        /// The conditions of [`deinterleave`] hold for a kernel to planes, and those of [`interleave`] for a kernel
        /// from planes.
        #[kernel(no_launcher)]
        pub unsafe fn $symbol(source: Global<u8>, destination: GlobalMut<u8>, params: PlaneParams) {
            // SAFETY: the conditions of this function are those of the body.
            unsafe { $body::<$type, $channels>(source.cast(), destination.cast(), params) }
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

conversions! {
    /// The conversions from an image to planes, in groups.
    TO_PLANES, deinterleave:
    "to_planes_{T}_c{C}" for T in [u8, u16], C in [1, 2, 3, 4];
    "to_planes_{T}_c{C}" for T in [f32], C in [2, 3, 4];
}

conversions! {
    /// The conversions from planes to an image, in groups.
    FROM_PLANES, interleave:
    "from_planes_{T}_c{C}" for T in [u8, u16], C in [1, 2, 3, 4];
    "from_planes_{T}_c{C}" for T in [f32], C in [2, 3, 4];
}

/// All conversions.
pub fn conversions() -> impl Iterator<Item = &'static Conversion> {
    TO_PLANES.iter().chain(FROM_PLANES).copied().flatten()
}

/// All kernels of this folder.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    conversions().map(Conversion::kernel).chain(proven::CONVERSIONS.iter().map(proven::Conversion::kernel))
}

/// The conversion of this list for a pixel type and a number of channels.
fn find(list: &[&'static [Conversion]], pixel: PixelType, channels: u32) -> Option<&'static Conversion> {
    list.iter().copied().flatten().find(|conversion| conversion.pixel == pixel && conversion.channels == channels)
}

/// The conversion to planes of an image of `channels` channels.
///
/// None for one channel of `f32`, which is a plane, and for channels other than 1 to 4.
#[must_use]
pub fn to_planes(pixel: PixelType, channels: u32) -> Option<&'static Conversion> {
    find(TO_PLANES, pixel, channels)
}

/// The conversion from planes to an image of `channels` channels.
///
/// None for one channel of `f32`, which is a plane, and for channels other than 1 to 4.
#[must_use]
pub fn from_planes(pixel: PixelType, channels: u32) -> Option<&'static Conversion> {
    find(FROM_PLANES, pixel, channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets beyond 2^31 values, in the image and in the planes.
    #[test]
    fn offsets_have_64_bits() {
        let pitch = (1 << 30) - 8;
        let plane = 40 * i64::from(pitch);
        let params =
            PlaneParams { width: 5, rows: 40, interleaved_pitch: pitch, plane_pitch: pitch, plane_stride: plane };
        assert_eq!(params.interleaved_index(7, 39), 39 * ((1_isize << 30) - 8) + 7);
        assert_eq!(params.plane_index(3, 7, 39), (3 * 40 + 39) * ((1_isize << 30) - 8) + 7);
    }

    #[test]
    fn a_grid_covers_every_pixel_within_the_limits() {
        assert_eq!(grid(1, 1), (1, 1));
        assert_eq!(grid(128, 8), (1, 1));
        assert_eq!(grid(129, 9), (2, 2));
        assert_eq!(grid(1, 8 * 65_535), (1, 65_535));
        assert_eq!(grid(1, (1 << 30) - 1), (1, 65_535));
    }

    /// What a symbol says is what the conversion is, and each one is found.
    #[test]
    fn symbols_say_what_their_conversions_are() {
        extern crate std;
        for (list, direction) in [(TO_PLANES, "to"), (FROM_PLANES, "from")] {
            for conversion in list.iter().copied().flatten() {
                let (pixel, channels) = (conversion.pixel, conversion.channels);
                assert_eq!(conversion.symbol, std::format!("{direction}_planes_{}_c{channels}", pixel.name()));
                let found = if direction == "to" { to_planes(pixel, channels) } else { from_planes(pixel, channels) };
                assert_eq!(found.map(|found| found.symbol), Some(conversion.symbol));
            }
        }
        assert_eq!(conversions().count(), 22);
        assert!(to_planes(PixelType::F32, 1).is_none() && from_planes(PixelType::U8, 5).is_none());
    }
}
