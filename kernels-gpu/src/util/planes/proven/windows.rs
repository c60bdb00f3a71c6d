//! The pixels under the windows of a tile, in shared memory.

use cuda_std::prelude::*;

use super::Whole;
use super::layout::{GROUP, SharedParts, WARPS, tile};
use crate::abi::border;
use crate::abi::params::Params;
use crate::util::planes::words::{load_words, words_of};

/// Four pixels of a row, as words for each channel.
type Pixels = [[u32; 2]; 4];

/// Loads the pixels under the windows of `rows` rows of the tile at pixel (x, y), with the border's pixels around the
/// image. Each channel becomes a plane.
///
/// The first group begins with the first window, at any pixel of the image.
///
/// # Safety
/// - All threads of the block call this with the same arguments, and with their own `thread`.
/// - `source` is as [`proven`](super::proven) requires.
/// - No thread uses the windows before the next barrier.
#[inline(always)]
pub(super) unsafe fn load<T: Whole, const C: u32>(
    source: Global<T>,
    parts: &SharedParts,
    params: &Params,
    (x, y): (i32, i32),
    rows: u32,
    thread: u32,
) {
    const { assert!(tile(C).0.is_multiple_of(GROUP)) };
    let (left, top) = (x - params.origin_x, y - params.origin_y);
    let rows = rows + params.mask_height as u32 - 1;
    // A warp loads groups of a row.
    let mut row = thread / 32;
    while row < rows {
        thread::no_unroll();
        let y = border::map(params.border, top + row as i32, params.height);
        let mut group = thread % 32;
        while group < parts.row_groups {
            thread::no_unroll();
            // SAFETY: as this function requires; y is a row of the image, or negative.
            let pixels = unsafe { load_group::<T, C>(source, params, (left + (group * GROUP) as i32, y)) };
            for channel in 0..C {
                let to = row * parts.row_words + group * size_of::<T>() as u32 + channel * parts.plane_words;
                let to = parts.windows.offset(to);
                let words = pixels[channel as usize];
                // SAFETY: the group lies in the windows, and no other thread has it.
                unsafe {
                    if size_of::<T>() == 1 {
                        to.store(0, words[0]);
                    } else {
                        to.cast().store(0, F32x2(words.map(f32::from_bits)));
                    }
                }
            }
            group += 32;
        }
        row += WARPS;
    }
}

/// Loads the four pixels from column x on. x is any number; a negative y is a row outside.
///
/// # Safety
/// `source` is as [`proven`](super::proven) requires, and y is below the image's height.
#[inline(always)]
unsafe fn load_group<T: Whole, const C: u32>(source: Global<T>, params: &Params, (x, y): (i32, i32)) -> Pixels {
    // The remainder of the floored division, also for negative numbers.
    let skip = x & (GROUP as i32 - 1);
    let span = if skip == 0 { GROUP as i32 } else { 2 * GROUP as i32 };
    if y >= 0 && x >= skip && x - skip + span <= params.width {
        let from = source.offset(params.src_index((x - skip) * C as i32, y)).cast();
        let count = const { words_of::<T, C>() };
        // SAFETY: the `span` pixels lie in row y. x - skip is a multiple of 4, so each four begin at a multiple of
        // their size, or of 16 bytes.
        return unsafe {
            let first = T::deinterleave::<C>(&load_words(from, count));
            if skip == 0 {
                return first;
            }
            let second = T::deinterleave::<C>(&load_words(from.offset(count as isize), count));
            [0, 1, 2, 3].map(|channel| T::shift(first[channel], second[channel], skip as u32))
        };
    }
    let mut pixels = Pixels::default();
    for pixel in 0..GROUP {
        let x = border::map(params.border, x + pixel as i32, params.width);
        for channel in 0..C {
            let value = if x < 0 || y < 0 {
                T::from_f32(params.border_value)
            } else {
                // SAFETY: the border maps to pixels of the image.
                unsafe { source.load(params.src_index(x * C as i32 + channel as i32, y)) }
            };
            let word = &mut pixels[channel as usize][(pixel / T::OF_WORD) as usize];
            *word |= (value.to_f32() as u32) << (pixel % T::OF_WORD * (32 / T::OF_WORD));
        }
    }
    pixels
}
