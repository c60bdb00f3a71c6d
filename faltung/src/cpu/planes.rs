//! Other types than `f32`, and several channels: each channel becomes a plane of `f32`, is convolved, and goes back.
//!
//! Two more passes over memory for each channel. From 5 x 5 on the sums take longer than that, and the tiles stay what
//! they are.

use rayon::prelude::*;

use super::convolve;
use crate::image::{same_type, same_type_mut};
use crate::{Pixel, Problem, Result};

/// Values that one thread converts at a time.
const PART: usize = 1 << 14;

/// Values on their way from one form to the other, in the first-level cache.
const AT_ONCE: usize = 1 << 10;

/// Memory that is used again for each channel and each image: to be given a page by the system takes longer than to
/// fill it.
#[derive(Debug, Default)]
pub(crate) struct Planes {
    pixels: Vec<f32>,
    sums: Vec<f32>,
}

/// Computes `problem` for interleaved values of its pixel format, each channel alone; otherwise as [`convolve`].
///
/// # Errors
/// [`Error::HostMemory`](crate::Error::HostMemory) if there is too little for the planes.
///
/// # Panics
/// If a slice has not the problem's number of values, or is of another type than its pixel format says.
pub(crate) fn convolve_values<T: Pixel, U: Pixel>(
    problem: &Problem,
    source: &[T],
    result: &mut [U],
    planes: &mut Planes,
) -> Result<()> {
    let format = problem.format();
    assert_eq!((format.input, format.output), (T::TYPE, U::TYPE), "types of source and result");
    assert_eq!((source.len(), result.len()), (problem.values(), problem.values()), "values of source and result");
    match format.channels {
        1 => by_planes::<T, U, 1>(problem, source, result, planes),
        2 => by_planes::<T, U, 2>(problem, source, result, planes),
        3 => by_planes::<T, U, 3>(problem, source, result, planes),
        4 => by_planes::<T, U, 4>(problem, source, result, planes),
        channels => unreachable!("a format has 1 to 4 channels, not {channels}"),
    }
}

/// [`convolve_values`] for `C` channels.
fn by_planes<T: Pixel, U: Pixel, const C: usize>(
    problem: &Problem,
    source: &[T],
    result: &mut [U],
    planes: &mut Planes,
) -> Result<()> {
    if C == 1
        && let (Some(source), Some(result)) = (same_type(source), same_type_mut(result))
    {
        convolve(problem, source, result);
        return Ok(());
    }
    let Planes { pixels, sums } = planes;
    for plane in [&mut *pixels, &mut *sums] {
        crate::memory::resize(plane, source.len() / C, "for a channel as f32")?;
    }
    let (source, _) = source.as_chunks::<C>();
    let (result, _) = result.as_chunks_mut::<C>();
    for channel in 0..C {
        pixels.par_chunks_mut(PART).zip(source.par_chunks(PART)).for_each(|(plane, pixels)| {
            // Picked out first and converted after, because the second is done with vectors, and both with one loop is
            // not.
            let mut picked = [T::default(); AT_ONCE];
            for (plane, pixels) in plane.chunks_mut(AT_ONCE).zip(pixels.chunks(AT_ONCE)) {
                picked.iter_mut().zip(pixels).for_each(|(value, pixel)| *value = pixel[channel]);
                plane.iter_mut().zip(picked).for_each(|(to, value)| *to = value.to_f32());
            }
        });
        convolve(problem, pixels, sums);
        sums.par_chunks(PART).zip(result.par_chunks_mut(PART)).for_each(|(sums, pixels)| {
            let mut rounded = [U::default(); AT_ONCE];
            for (sums, pixels) in sums.chunks(AT_ONCE).zip(pixels.chunks_mut(AT_ONCE)) {
                rounded.iter_mut().zip(sums).for_each(|(to, &sum)| *to = U::from_f32(sum));
                pixels.iter_mut().zip(rounded).for_each(|(pixel, value)| pixel[channel] = value);
            }
        });
    }
    Ok(())
}
