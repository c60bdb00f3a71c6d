//! Other types than `f32`, and several channels: each channel becomes a plane of `f32`, is convolved, and goes back.
//!
//! Two more passes over memory for each channel. From 5 x 5 on the sums take longer than that, and the tiles stay what
//! they are.

use rayon::prelude::*;

use super::convolve;
use crate::image::{values_of, values_of_mut};
use crate::{Pixel, PixelFormat, PixelType, Problem, Result};

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

/// Computes `problem` for interleaved values of its pixel format, as bytes. Each channel is convolved alone; otherwise as
/// [`convolve`].
///
/// No type parameter: the instances are compiled in this crate, and not in each crate that calls a generic function of
/// the library.
///
/// # Errors
/// [`Error::HostMemory`](crate::Error::HostMemory) if there is too little for the planes.
///
/// # Panics
/// If a slice has not the bytes of the problem's values, or does not begin where a value can.
pub(crate) fn convolve_bytes(problem: &Problem, source: &[u8], result: &mut [u8], planes: &mut Planes) -> Result<()> {
    let PixelFormat { channels, input, output } = problem.format();
    let bytes = [input, output].map(|of| problem.values() * of.bytes());
    assert_eq!([source.len(), result.len()], bytes, "bytes of source and result");
    if (channels, input, output) == (1, PixelType::F32, PixelType::F32) {
        convolve(problem, values_of(source), values_of_mut(result));
        return Ok(());
    }
    let Planes { pixels, sums } = planes;
    for plane in [&mut *pixels, &mut *sums] {
        crate::memory::resize(plane, problem.values() / channels, "for a channel as f32")?;
    }
    for channel in 0..channels {
        match input {
            PixelType::F32 => pick::<f32>(source, channels, channel, pixels),
            PixelType::U8 => pick::<u8>(source, channels, channel, pixels),
            PixelType::U16 => pick::<u16>(source, channels, channel, pixels),
        }
        convolve(problem, pixels, sums);
        match output {
            PixelType::F32 => put::<f32>(sums, channels, channel, result),
            PixelType::U8 => put::<u8>(sums, channels, channel, result),
            PixelType::U16 => put::<u16>(sums, channels, channel, result),
        }
    }
    Ok(())
}

/// Copies one channel of interleaved values of type `T` into a plane.
fn pick<T: Pixel>(source: &[u8], channels: usize, channel: usize, plane: &mut [f32]) {
    let source = values_of::<T>(source);
    match channels {
        1 => pick_of::<T, 1>(source, channel, plane),
        2 => pick_of::<T, 2>(source, channel, plane),
        3 => pick_of::<T, 3>(source, channel, plane),
        4 => pick_of::<T, 4>(source, channel, plane),
        _ => unreachable!("a format has 1 to 4 channels, not {channels}"),
    }
}

/// [`pick`] of `C` channels.
fn pick_of<T: Pixel, const C: usize>(source: &[T], channel: usize, plane: &mut [f32]) {
    let (source, _) = source.as_chunks::<C>();
    plane.par_chunks_mut(PART).zip(source.par_chunks(PART)).for_each(|(plane, pixels)| {
        // Picked out first and converted after, because the second is done with vectors, and both with one loop is not.
        let mut picked = [T::default(); AT_ONCE];
        for (plane, pixels) in plane.chunks_mut(AT_ONCE).zip(pixels.chunks(AT_ONCE)) {
            picked.iter_mut().zip(pixels).for_each(|(value, pixel)| *value = pixel[channel]);
            plane.iter_mut().zip(picked).for_each(|(to, value)| *to = value.to_f32());
        }
    });
}

/// Rounds the sums of one channel, and copies them into interleaved values of type `T`.
fn put<T: Pixel>(sums: &[f32], channels: usize, channel: usize, result: &mut [u8]) {
    let result = values_of_mut::<T>(result);
    match channels {
        1 => put_of::<T, 1>(sums, channel, result),
        2 => put_of::<T, 2>(sums, channel, result),
        3 => put_of::<T, 3>(sums, channel, result),
        4 => put_of::<T, 4>(sums, channel, result),
        _ => unreachable!("a format has 1 to 4 channels, not {channels}"),
    }
}

/// [`put`] of `C` channels.
fn put_of<T: Pixel, const C: usize>(sums: &[f32], channel: usize, result: &mut [T]) {
    let (result, _) = result.as_chunks_mut::<C>();
    sums.par_chunks(PART).zip(result.par_chunks_mut(PART)).for_each(|(sums, pixels)| {
        let mut rounded = [T::default(); AT_ONCE];
        for (sums, pixels) in sums.chunks(AT_ONCE).zip(pixels.chunks_mut(AT_ONCE)) {
            rounded.iter_mut().zip(sums).for_each(|(to, &sum)| *to = T::from_f32(sum));
            pixels.iter_mut().zip(rounded).for_each(|(pixel, value)| pixel[channel] = value);
        }
    });
}
