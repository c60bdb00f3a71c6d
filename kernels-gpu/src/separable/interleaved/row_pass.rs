//! The row pass of a thread: 16 neighbouring values, whatever their channels.

use cuda_std::prelude::*;

use super::source::{Quads, Source};
use crate::common::async_rows::STEP_ROWS;
use crate::teaching::constant_mask::MASK;

/// Neighbouring outputs of a thread, and coefficients of a step.
const RUN: usize = STEP_ROWS;

/// The pixels of a run of outputs, and as many after them. Value `n` after the first one is at `n % 32`.
type Window = [f32; 2 * RUN];

/// Groups of four values that a step reads with four channels.
const MOST_QUADS: usize = quads(RUN, 4);

/// Groups of four values after the first 16 that coefficients 0 to `l` of a step need.
const fn quads(l: usize, channels: u32) -> usize {
    (l * channels as usize).div_ceil(4)
}

/// Filters 16 neighbouring values of a row. Their first window begins `skip` bytes after `pixels`.
///
/// # Safety
/// - `pixels` is aligned to 16 bytes.
/// - The pixels under the 16 windows, padded to 16 coefficients, and two vectors more are initialised, and a barrier
///   has passed since.
/// - Constant memory holds the row of coefficients from offset `first` on.
#[inline(always)]
pub(super) unsafe fn filter<T: Source, const C: u32>(
    pixels: Shared<u8>,
    skip: u32,
    first: usize,
    mask_width: u32,
) -> [f32; RUN] {
    // SAFETY: the first vector lies under the windows.
    let mut source = unsafe { Quads::<T>::begin(pixels, skip) };
    let mut window = [0.0; 2 * RUN];
    for quad in 0..RUN / 4 {
        // SAFETY: the first 16 pixels lie under the windows.
        let values = unsafe { source.next(quad) };
        window[4 * quad..4 * quad + 4].copy_from_slice(&values);
    }
    let mut sums = [0.0; RUN];
    let (mut at, mut left) = (first, mask_width);
    while left >= RUN as u32 {
        thread::no_unroll();
        // SAFETY: the step adds RUN of the coefficients that are left.
        unsafe { add_run::<T, C, true>(&mut sums, &mut window, &mut source, at, RUN as u32) };
        if !C.is_multiple_of(2) {
            for i in 0..RUN {
                window[i] = window[RUN + i];
            }
        }
        left -= RUN as u32;
        at += RUN;
    }
    if left > 0 {
        // SAFETY: the step adds the coefficients that are left.
        unsafe { add_run::<T, C, false>(&mut sums, &mut window, &mut source, at, left) };
    }
    sums
}

/// Adds the first `count` coefficients of a step, all 16 if it is `FULL`, and reads the pixels that they need.
///
/// # Safety
/// - `source` is the pixels after the first 16 of the window. They are initialised as far as the coefficients need
///   them, but for two vectors more.
/// - Constant memory holds `count` coefficients from offset `at` on.
#[inline(always)]
unsafe fn add_run<T: Source, const C: u32, const FULL: bool>(
    sums: &mut [f32; RUN],
    window: &mut Window,
    source: &mut Quads<T>,
    at: usize,
    count: u32,
) {
    for l in 0..RUN {
        if FULL || (l as u32) < count {
            // SAFETY: coefficient l needs these pixels.
            unsafe { read(window, source, quads(l.saturating_sub(1), C)..quads(l, C)) };
            // SAFETY: l < count.
            let coefficient = unsafe { MASK.load(at + l) };
            for (o, sum) in sums.iter_mut().enumerate() {
                *sum = fma(window[(l * C as usize + o) % (2 * RUN)], coefficient, *sum);
            }
        }
    }
    if FULL {
        // SAFETY: the next step's first window ends with these pixels.
        unsafe { read(window, source, quads(RUN - 1, C)..quads(RUN, C)) };
    }
}

/// Reads groups of four values of the step into the window.
///
/// # Safety
/// The conditions of [`Quads::next`].
#[inline(always)]
unsafe fn read<T: Source>(window: &mut Window, source: &mut Quads<T>, quads: core::ops::Range<usize>) {
    // LLVM unrolls the loop before it knows the range.
    for quad in 0..MOST_QUADS {
        if quads.contains(&quad) {
            // SAFETY: as this function requires.
            let values = unsafe { source.next(quad) };
            for (i, &value) in values.iter().enumerate() {
                window[(RUN + 4 * quad + i) % (2 * RUN)] = value;
            }
        }
    }
}
