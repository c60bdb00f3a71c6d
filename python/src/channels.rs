//! Images of more channels than the library takes. They are cut into parts of up to 4 channels.

use faltung::memory::zeros;
use faltung::{Pixel, Result, View, ViewMut, parallel};

/// The most channels of an image for the library.
pub(crate) const MOST: usize = 4;

/// Bytes of a pixel whose channels are copied at a time: those of a cache line, which is then read once.
const TOGETHER: usize = 64;

/// Pixels of a row whose parts are copied one after the other: so few that they stay in the first-level cache.
const PIXELS: usize = 256;

/// Values below which a thread takes more time to start than to copy.
const FEW: usize = 1 << 14;

/// An image of many channels. A pitch is the number of values from one row to the next.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) channels: usize,
    pub(crate) source_pitch: usize,
    pub(crate) result_pitch: usize,
}

/// Adjacent channels of an image.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
}

/// Cuts an image into parts of up to [`MOST`] channels, calls `filter` for each, and joins the results.
///
/// # Errors
/// Those of `filter`; [`faltung::Error::Cancelled`]; [`faltung::Error::HostMemory`].
pub(crate) fn filter_parts<T: Pixel, U: Pixel>(
    source: &[T],
    result: &mut [U],
    shape: Shape,
    mut filter: impl FnMut(View<'_, T>, ViewMut<'_, U>) -> Result<()>,
) -> Result<()> {
    let Shape { width, height, channels, .. } = shape;
    let pixels = width * height;
    let size = pixels * MOST; // of the memory of a part
    let together = (TOGETHER / size_of::<T>().min(size_of::<U>())).min(channels);
    let mut sources = zeros::<T>(pixels * together, "for channels of the image")?;
    let mut results = zeros::<U>(pixels * together, "for channels of the result")?;
    let rows = height.div_ceil(4 * parallel::threads()).max(FEW.div_ceil(width * channels)).min(height);
    for first in (0..channels).step_by(together) {
        let end = channels.min(first + together);
        let parts: Vec<_> =
            (first..end).step_by(MOST).map(|first| Part { first, count: MOST.min(end - first) }).collect();

        cut_parts(source, &mut sources, shape, &parts, rows)?;
        for ((part, source), result) in parts.iter().zip(sources.chunks(size)).zip(results.chunks_mut(size)) {
            let (count, pitch) = (part.count, width * part.count);
            let source = View::new(width, height, count, pitch, &source[..pixels * count])?;
            filter(source, ViewMut::new(width, height, count, pitch, &mut result[..pixels * count])?)?;
        }
        join_parts(&results, result, shape, &parts, rows)?;
    }
    Ok(())
}

/// Copies the channels of each part of `source` to the memory of that part in `to`. A thread copies bands of `rows`
/// rows.
fn cut_parts<T: Pixel>(source: &[T], to: &mut [T], shape: Shape, parts: &[Part], rows: usize) -> Result<()> {
    let Shape { width, height, channels, source_pitch, .. } = shape;
    let pixels = width * height;
    // The rows of a band in each part.
    let mut bands: Vec<_> = (0..height.div_ceil(rows)).map(|_| Vec::with_capacity(parts.len())).collect();
    for (part, values) in parts.iter().zip(to.chunks_mut(pixels * MOST)) {
        let of_bands = values[..pixels * part.count].chunks_mut(rows * width * part.count);
        bands.iter_mut().zip(of_bands).for_each(|(band, values)| band.push(values));
    }
    let bands = bands.into_iter().zip(source.chunks(rows * source_pitch));
    parallel::for_each(
        bands,
        || (),
        |(), (mut band, source)| {
            for (y, row) in source.chunks(source_pitch).enumerate() {
                for (start, pixels) in row[..width * channels].chunks(PIXELS * channels).enumerate() {
                    let (place, count) = (y * width + start * PIXELS, pixels.len() / channels);
                    for (&part, values) in parts.iter().zip(&mut band) {
                        cut(pixels, channels, part, &mut values[place * part.count..][..count * part.count]);
                    }
                }
            }
            Ok(())
        },
    )
}

/// Copies the parts in `from` to their channels of `result`. A thread copies bands of `rows` rows.
fn join_parts<U: Pixel>(from: &[U], result: &mut [U], shape: Shape, parts: &[Part], rows: usize) -> Result<()> {
    let Shape { width, height, channels, result_pitch, .. } = shape;
    parallel::for_each(
        result.chunks_mut(rows * result_pitch).enumerate(),
        || (),
        |(), (band, result)| {
            for (y, row) in result.chunks_mut(result_pitch).enumerate() {
                let top = (band * rows + y) * width;
                for (start, pixels) in row[..width * channels].chunks_mut(PIXELS * channels).enumerate() {
                    let (place, count) = (top + start * PIXELS, pixels.len() / channels);
                    for (&part, values) in parts.iter().zip(from.chunks(width * height * MOST)) {
                        join(&values[place * part.count..][..count * part.count], pixels, channels, part);
                    }
                }
            }
            Ok(())
        },
    )
}

/// Does `$body` with the number of a part's channels as the constant `$count`.
macro_rules! for_count {
    ($part:expr, $count:ident => $body:expr) => {
        for_count!($part, $count => $body; 1 2 3 4)
    };
    ($part:expr, $count:ident => $body:expr; $($number:literal)+) => {
        match $part.count {
            $($number => {
                const $count: usize = $number;
                $body
            })+
            count => unreachable!("a part has up to {MOST} channels, not {count}"),
        }
    };
}

/// Copies some channels of pixels.
fn cut<T: Copy>(pixels: &[T], channels: usize, part: Part, to: &mut [T]) {
    for_count!(part, N => {
        for (to, pixel) in to.as_chunks_mut::<N>().0.iter_mut().zip(pixels.chunks_exact(channels)) {
            to.copy_from_slice(&pixel[part.first..][..N]);
        }
    });
}

/// Copies values to some channels of pixels.
fn join<T: Copy>(values: &[T], pixels: &mut [T], channels: usize, part: Part) {
    for_count!(part, N => {
        for (values, pixel) in values.as_chunks::<N>().0.iter().zip(pixels.chunks_exact_mut(channels)) {
            pixel[part.first..][..N].copy_from_slice(values);
        }
    });
}
