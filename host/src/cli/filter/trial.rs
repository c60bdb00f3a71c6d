//! The rate of a filter on a device, measured with a small image.

use std::time::{Duration, Instant};

use faltung::{
    Accuracy, Device, Filter, Image, Mask, Pixel, PixelFormat, PixelType, Prepared, Problem, VariantChoice,
    for_pixel_type,
};

use super::compute::coefficients;

/// Seconds for each value, measured with a small image in a fraction of a second.
///
/// Where all products of the mask are computed, the time grows with the number of coefficients. So the image is
/// filtered with a part of the mask. The other methods of the CPU have no such rule. They are timed with the whole
/// mask, and with an image of twice its size or more.
pub(super) fn trial(
    device: &Device,
    filter: &Filter,
    format: PixelFormat,
    variant: VariantChoice,
) -> faltung::Result<f64> {
    const LARGEST_MASK: usize = 31;
    const LEAST_IMAGE: usize = 256;
    const LARGEST_IMAGE: usize = 2048;
    let small = |filter: &Filter, side: usize, format: PixelFormat| {
        device.prepare(&Problem::new(side, side, filter)?.with_format(format)?, variant)
    };
    let whole = filter.mask()?;
    let is_cpu = device.backend() == "cpu";
    if is_cpu {
        let side = 2 * whole.width().max(whole.height());
        let convolution = small(filter, side.clamp(LEAST_IMAGE, LARGEST_IMAGE), format)?;
        if convolution.variant() != "direct" {
            return pace(&convolution);
        }
    }
    // The CPU might take another method for a part of the mask. In this class and format it has the direct sum alone.
    let exact = PixelFormat { input: PixelType::F32, output: PixelType::F32, ..format };
    let (format, accuracy) =
        if is_cpu { (exact, Accuracy::Exact) } else { (format, Problem::new(1, 1, filter)?.accuracy()) };
    // A part of a separable mask is separable, so the GPU takes the same variant for both.
    let (width, height) = (whole.width().min(LARGEST_MASK), whole.height().min(LARGEST_MASK));
    let part = (0..height).flat_map(|k| (0..width).map(move |l| whole.at(k, l))).collect();
    let part = Filter::new(Mask::new(width, height, part)?).accuracy(accuracy);
    let enough = if is_cpu { LONG_ENOUGH / 10 } else { LONG_ENOUGH };
    // The image has several blocks for each thread, so that all threads have work.
    let mut side = if width * height < 100 { 128 } else { 64 };
    loop {
        let convolution = small(&part, side, format)?;
        let pace = pace(&convolution)?;
        if pace * convolution.problem().values() as f64 > enough.as_secs_f64() || side >= LARGEST_IMAGE {
            return Ok(pace * coefficients(filter) / (width * height) as f64);
        }
        side *= 2;
    }
}

/// Measures the seconds for each value of a gradient with noise.
fn pace(convolution: &Prepared) -> faltung::Result<f64> {
    for_pixel_type!(convolution.problem().format().input, T => pace_of::<T>(convolution))
}

fn pace_of<T: Pixel>(convolution: &Prepared) -> faltung::Result<f64> {
    let problem = convolution.problem();
    let PixelFormat { channels, output, .. } = problem.format();
    // The CPU recomputes results that are close to half of a whole number. In a picture, these are few. In a uniform
    // image they would be none or all.
    let count = problem.values();
    let noise = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 28) as usize;
    let values = (0..count).map(|i| T::from_f32((i * 240 / count + noise(i)) as f32)).collect();
    let image = Image::new(problem.width(), problem.height(), channels, values)?;
    let run = || -> faltung::Result<Duration> {
        let start = Instant::now();
        convolve(convolution, &image, output)?;
        Ok(start.elapsed())
    };
    // The first run warms up: it starts threads and accesses memory for the first time.
    let begin = Instant::now();
    let mut fastest = run()?.min(run()?);
    // Short runs are repeated, because other programs disturb them more.
    for _ in 0..4 {
        if begin.elapsed() < LONG_ENOUGH {
            fastest = fastest.min(run()?);
        }
    }
    Ok(fastest.as_secs_f64().max(1e-9) / problem.values() as f64)
}

/// A run of this length measures a rate well.
pub(super) const LONG_ENOUGH: Duration = Duration::from_millis(20);

/// Filters values of one type to values of any type.
fn convolve<T: Pixel>(convolution: &Prepared, image: &Image<T>, output: PixelType) -> faltung::Result<()> {
    for_pixel_type!(output, U => convolution.apply::<T, U>(image).map(drop))
}
