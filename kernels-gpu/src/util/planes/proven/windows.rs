//! The pixels under the windows of a tile, in shared memory.

use cuda_std::prelude::*;

use super::layout::{GROUP, SharedParts, TILE};
use super::{BLOCK, Whole};
use crate::abi::border;
use crate::abi::params::Params;
use crate::util::planes::words::{load_words, words_of};

/// Loads the pixels under the windows of the pixels (x, y) to (x + 63, y + rows - 1), with the border's pixels around
/// the image. Each channel becomes a plane.
///
/// Groups begin at multiples of four pixels in the image. Returns the pixels before the first window in its group.
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
) -> u32 {
    const { assert!(TILE.0.is_multiple_of(GROUP)) };
    let left = x - params.origin_x;
    // The remainder of the floored division, also for negative numbers.
    let lead = left & (GROUP as i32 - 1);
    let (left, top) = (left - lead, y - params.origin_y);
    let rows = rows + params.mask_height as u32 - 1;
    let bytes = size_of::<T>() as u32;
    let (row_step, group_step) = (BLOCK.0 / parts.groups, BLOCK.0 % parts.groups);
    let (mut row, mut group) = (thread / parts.groups, thread % parts.groups);
    while row < rows {
        thread::no_unroll();
        let to = parts.windows.offset(row * parts.row_words + group * bytes);
        let x = left + (group * GROUP) as i32;
        let y = border::map(params.border, top + row as i32, params.height);
        if y >= 0 && x >= 0 && x + GROUP as i32 <= params.width {
            let from = source.offset(params.src_index(x * C as i32, y));
            // SAFETY: the four pixels lie in row y. x is a multiple of 4, so they begin at a multiple of their size, or
            // of 16 bytes.
            let words = unsafe { load_words(from.cast(), words_of::<T, C>()) };
            let planes = T::deinterleave::<C>(&words);
            for channel in 0..C {
                let to = to.offset(channel * parts.plane_words);
                let [first, second] = planes[channel as usize];
                // SAFETY: the group lies in the windows, and no other thread has it.
                unsafe {
                    if bytes == 1 {
                        to.store(0, first);
                    } else {
                        to.cast().store(0, F32x2([first, second].map(f32::from_bits)));
                    }
                }
            }
        } else {
            let mut pixel = 0;
            while pixel < GROUP {
                thread::no_unroll();
                let x = border::map(params.border, x + pixel as i32, params.width);
                for channel in 0..C {
                    let value = if x < 0 || y < 0 {
                        T::from_f32(params.border_value)
                    } else {
                        // SAFETY: the border maps to pixels of the image.
                        unsafe { source.load(params.src_index(x * C as i32 + channel as i32, y)) }
                    };
                    // SAFETY: the group lies in the windows, and no other thread has it.
                    unsafe { to.offset(channel * parts.plane_words).cast::<T>().store(pixel, value) };
                }
                pixel += 1;
            }
        }
        row += row_step;
        group += group_step;
        if group >= parts.groups {
            group -= parts.groups;
            row += 1;
        }
    }
    lead as u32
}
