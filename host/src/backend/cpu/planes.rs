//! Other types than `f32`, and several channels: each channel becomes a plane of `f32`, is convolved, and goes back.
//!
//! Two more passes over memory for each channel. From 5 x 5 on the sums take longer than that, and the tiles stay what they are.

use rayon::prelude::*;

use super::convolve;
use crate::image::{same_type, same_type_mut};
use crate::{Pixel, Problem};

/// Values that one thread converts at a time.
const PART: usize = 1 << 14;

/// Computes `problem` for interleaved values of its layout's types, each channel alone; otherwise as [`convolve`].
///
/// # Panics
/// If a slice has not the problem's number of values, or is of another type than its layout says.
pub(crate) fn convolve_values<T: Pixel, U: Pixel>(problem: &Problem, source: &[T], result: &mut [U]) {
    let layout = problem.layout();
    assert_eq!((layout.input, layout.output), (T::TYPE, U::TYPE), "types of source and result");
    assert_eq!((source.len(), result.len()), (problem.values(), problem.values()), "values of source and result");
    if layout.channels == 1
        && let (Some(source), Some(result)) = (same_type(source), same_type_mut(result))
    {
        return convolve(problem, source, result);
    }
    let channels = layout.channels;
    let mut plane = vec![0.0_f32; problem.values() / channels];
    let mut sums = plane.clone();
    for channel in 0..channels {
        let pixels = source.par_chunks(PART * channels);
        plane.par_chunks_mut(PART).zip(pixels).for_each(|(plane, pixels)| {
            for (value, pixel) in plane.iter_mut().zip(pixels.chunks_exact(channels)) {
                *value = pixel[channel].to_f32();
            }
        });
        convolve(problem, &plane, &mut sums);
        let pixels = result.par_chunks_mut(PART * channels);
        sums.par_chunks(PART).zip(pixels).for_each(|(sums, pixels)| {
            for (&sum, pixel) in sums.iter().zip(pixels.chunks_exact_mut(channels)) {
                pixel[channel] = U::from_f32(sum);
            }
        });
    }
}
