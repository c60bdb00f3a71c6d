//! Runs the convolutions of `host filter` on a device, and estimates their times.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use faltung::{
    Accuracy, AnyImage, Border, Device, Error, Filter, Image, Mask, Pixel, PixelFormat, PixelType, Prepared, Problem,
    VariantChoice, for_pixel_type,
};

/// One convolution of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Task {
    /// The index of the filter.
    pub(super) filter: usize,
    /// The border. It replaces that of the filter.
    pub(super) border: Border,
    /// Whether the sums are exact, whatever accuracy the filter asks for.
    pub(super) exact: bool,
    /// Whether the result is the sums, without the filter's scale and offset.
    pub(super) sums: bool,
}

/// What a convolution is prepared for.
#[derive(Clone, Copy, Debug)]
struct Key {
    task: Task,
    width: usize,
    height: usize,
    format: PixelFormat,
}

impl Key {
    /// Whether one convolution serves both keys. A border of NaN equals itself.
    fn is_same(&self, other: &Self) -> bool {
        let Self { task: Task { filter, border, exact, sums }, width, height, format } = *self;
        border.is_same(other.task.border)
            && (filter, exact, sums) == (other.task.filter, other.task.exact, other.task.sums)
            && (width, height, format) == (other.width, other.height, other.format)
    }
}

/// Prepared convolutions are kept for this many sizes of pictures. Most batches have one or two: landscape and
/// portrait.
const MOST_SIZES: usize = 4;

/// The filters on a device.
pub(super) struct Compute<'device> {
    device: &'device Device,
    filters: &'device [Filter],
    variant: VariantChoice,
    /// The prepared convolutions. The one that ran last comes last.
    ready: Vec<(Key, Prepared)>,
    /// For each filter the seconds that a value takes. None until they are measured.
    paces: Vec<Option<f64>>,
    /// A note for the user about the convolution that was prepared last.
    note: Option<String>,
    /// The devices that replace this one if it is lost, in this order.
    replacements: VecDeque<&'device Device>,
    /// The error that ended the device before this one.
    lost: Option<Error>,
}

impl<'device> Compute<'device> {
    /// Fails if the device can't run the variant on any picture.
    pub(super) fn new(
        device: &'device Device,
        filters: &'device [Filter],
        variant: VariantChoice,
    ) -> faltung::Result<Self> {
        // Other errors depend on the values and the channels of a picture.
        for filter in filters {
            if let Err(error @ Error::NeedsGpu { .. }) = device.plan(&Problem::new(1, 1, filter)?, variant) {
                return Err(error);
            }
        }
        let paces = vec![None; filters.len()];
        let (ready, replacements) = Default::default();
        Ok(Self { device, filters, variant, ready, paces, note: None, replacements, lost: None })
    }

    /// Sets the devices that replace this one if it is lost, one after the other. With a variant that was asked for by
    /// name there is no replacement.
    pub(super) fn replaced_by(self, devices: impl IntoIterator<Item = &'device Device>) -> Self {
        if self.variant.named().is_some() {
            return self;
        }
        Self { replacements: devices.into_iter().collect(), ..self }
    }

    /// The error of a device that was lost, and the device that replaces it. Each loss is returned once.
    pub(super) fn take_loss(&mut self) -> Option<(Error, &'device Device)> {
        self.lost.take().map(|error| (error, self.device))
    }

    /// Filters an image on the device. If that is lost, filters it on the next replacement.
    pub(super) fn run<T: Pixel, U: Pixel>(&mut self, task: Task, image: &Image<T>) -> faltung::Result<Image<U>> {
        loop {
            let error = match self.run_on_device(task, image) {
                Err(error @ Error::DeviceLost { .. }) => error,
                result => return result,
            };
            let Some(replacement) = self.replacements.pop_front() else { return Err(error) };
            self.ready.clear();
            self.paces.fill(None);
            (self.device, self.lost) = (replacement, Some(error));
        }
    }

    fn run_on_device<T: Pixel, U: Pixel>(&mut self, task: Task, image: &Image<T>) -> faltung::Result<Image<U>> {
        let format = PixelFormat::of::<T, U>(image.channels());
        let convolution = self.ready(Key { task, width: image.width(), height: image.height(), format })?.clone();
        let known = convolution.note();
        let start = Instant::now();
        let result = convolution.apply(image)?;
        let elapsed = start.elapsed();
        let found = convolution.note();
        if found != known {
            self.note = found;
        }
        if elapsed > LONG_ENOUGH {
            self.paces[task.filter] = Some(elapsed.as_secs_f64() / image.values().len() as f64);
        }
        Ok(result)
    }

    /// The problem of the convolution that ran last.
    ///
    /// # Panics
    /// If none has run.
    pub(super) fn problem(&self) -> &Problem {
        self.ready.last().expect("something ran").1.problem()
    }

    /// The convolution for pictures of this kind. It is prepared if it is not there yet.
    fn ready(&mut self, key: Key) -> faltung::Result<&Prepared> {
        let found = self.ready.iter().position(|(ready, _)| ready.is_same(&key));
        let last = match found {
            Some(place) => self.ready.remove(place),
            None => {
                let most = MOST_SIZES * self.filters.len();
                self.ready.drain(..(self.ready.len() + 1).saturating_sub(most));
                (key, self.prepare(key)?)
            }
        };
        self.ready.push(last);
        Ok(&self.ready.last().expect("it was just put there").1)
    }

    fn prepare(&mut self, key: Key) -> faltung::Result<Prepared> {
        let Key { task, width, height, format } = key;
        let mut filter = self.filters[task.filter].clone().border(task.border);
        if task.sums {
            filter = filter.scale(1.0).offset(0.0);
        }
        // A variant that was asked for by name computes all steps, exact or not.
        if task.exact && self.variant.named().is_none() {
            filter = filter.accuracy(Accuracy::Exact);
        }
        let problem = Problem::new(width, height, &filter)?.with_format(format)?;
        let mut convolution = self.device.prepare_or_cpu(&problem, self.variant);
        let short = match &convolution {
            Ok(convolution) => convolution.note().is_some(),
            Err(error) => matches!(error, Error::DeviceMemory { .. }),
        };
        if short && !self.ready.is_empty() {
            // The convolutions for other sizes may hold the memory that is missing.
            drop(convolution);
            self.ready.clear();
            convolution = self.device.prepare_or_cpu(&problem, self.variant);
        }
        let convolution = convolution?;
        // A note about another convolution of the picture stays.
        self.note = convolution.note().or(self.note.take());
        Ok(convolution)
    }

    /// A note on how the last picture was computed, once for pictures of one kind.
    pub(super) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// About how long a picture will take. None if it is little work, which needs no measurement.
    ///
    /// The time for a value is that of the last picture that took long enough to measure, or else that of a [trial]. If
    /// `planes`, the filters get values of `f32` and have exact sums, as a computation of several steps needs them.
    pub(super) fn expected(&mut self, pixels: &AnyImage, output: PixelType, planes: bool) -> Option<Duration> {
        let values = count(pixels);
        if values * self.filters.iter().map(coefficients).sum::<f64>() < little(self.device) {
            return None;
        }
        let (format, exact) = format_of(pixels, output, planes);
        let mut seconds = 0.0;
        for (filter, known) in self.filters.iter().zip(&mut self.paces) {
            let pace = match *known {
                Some(pace) => pace,
                None => {
                    let filter = if exact { filter.clone().accuracy(Accuracy::Exact) } else { filter.clone() };
                    trial(self.device, &filter, format, self.variant).ok()?
                }
            };
            *known = Some(pace);
            seconds += values * pace;
        }
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The strictest accuracy class in which a picture takes much less time than `expected`, and that time. `planes` is
    /// that of [`expected`](Self::expected).
    pub(super) fn faster(
        &self,
        pixels: &AnyImage,
        output: PixelType,
        planes: bool,
        expected: Duration,
    ) -> Option<(Accuracy, Duration)> {
        const MUCH: u32 = 4;
        let (format, exact) = format_of(pixels, output, planes);
        // The emulator's plan has the times of a GPU.
        if exact || self.variant.named().is_some() || self.device.backend() == "emulator" {
            return None;
        }
        let class = |filter: &Filter| Problem::new(1, 1, filter).map(|problem| problem.accuracy()).ok();
        let required = class(&self.filters[0])?;
        Accuracy::ALL.into_iter().filter(|&class| class > required).find_map(|class| {
            let seconds = |filter: &Filter| -> faltung::Result<f64> {
                let filter = filter.clone().accuracy(class);
                let problem = Problem::new(pixels.width(), pixels.height(), &filter)?.with_format(format)?;
                match self.device.plan(&problem, self.variant)? {
                    Some(plan) => Ok(plan.predicted_us() / 1e6),
                    None => Ok(trial(self.device, &filter, format, self.variant)? * count(pixels)),
                }
            };
            let seconds = self.filters.iter().map(seconds).sum::<faltung::Result<f64>>().ok()?;
            let time = Duration::try_from_secs_f64(seconds).ok()?;
            (time < expected / MUCH).then_some((class, time))
        })
    }
}

/// The values of a picture.
fn count(pixels: &AnyImage) -> f64 {
    [pixels.width(), pixels.height(), pixels.channels()].into_iter().map(|side| side as f64).product()
}

/// The format of the filters' images and results, and whether their sums are exact in every class. If `planes`, images
/// and results are planes of `f32`.
fn format_of(pixels: &AnyImage, output: PixelType, planes: bool) -> (PixelFormat, bool) {
    let (channels, input) = (pixels.channels(), pixels.pixel_type());
    let exact = planes && (input, output) != (PixelType::F32, PixelType::F32);
    let (input, output) = if planes { (PixelType::F32, PixelType::F32) } else { (input, output) };
    (PixelFormat { channels, input, output }, exact)
}

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
const LONG_ENOUGH: Duration = Duration::from_millis(20);

/// Multiply-adds that take less than some seconds on any device of this kind.
fn little(device: &Device) -> f64 {
    match device.backend() {
        "emulator" => 1e6,
        "cpu" => 4e9,
        _ => 1e12,
    }
}

/// Multiply-adds for each value.
fn coefficients(filter: &Filter) -> f64 {
    filter.mask().map_or(0.0, |mask| mask.coefficients().len() as f64)
}

/// Filters values of one type to values of any type.
fn convolve<T: Pixel>(convolution: &Prepared, image: &Image<T>, output: PixelType) -> faltung::Result<()> {
    for_pixel_type!(output, U => convolution.apply::<T, U>(image).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A looser class is named where it helps: not for planes of integers, whose sums are exact in each class.
    #[test]
    fn a_faster_class_is_found() {
        let (device, ages) = (Device::cpu(), Duration::from_secs(1 << 30));
        let faster = |class, output, planes, expected| {
            let filters = [Filter::average(9, 9).accuracy(class)];
            let compute = Compute::new(&device, &filters, VariantChoice::Auto).unwrap();
            let image: AnyImage = Image::<u8>::zeros(50, 40, 3).unwrap().into();
            compute.faster(&image, output, planes, expected).map(|(class, _)| class)
        };
        use Accuracy::{Bounded, Exact, Normwise};
        let u8 = PixelType::U8;
        assert_eq!(faster(Bounded, u8, false, ages), Some(Normwise));
        assert_eq!(faster(Exact, PixelType::F32, false, ages), Some(Bounded));
        assert_eq!(faster(Normwise, u8, false, ages), None);
        assert_eq!(faster(Bounded, u8, true, ages), None);
        assert_eq!(faster(Bounded, u8, false, Duration::ZERO), None);
    }

    /// A border of NaN finds its convolution again. One of -0.0 is not that of 0.0.
    #[test]
    fn what_is_ready_is_found_by_its_bits() {
        let (device, filters) = (Device::cpu(), [Filter::average(3, 3)]);
        let mut compute = Compute::new(&device, &filters, VariantChoice::Auto).unwrap();
        let image = Image::<f32>::zeros(5, 4, 1).unwrap();
        for (kept, value) in [(1, f32::NAN), (1, f32::NAN), (2, 0.0), (3, -0.0), (3, f32::NAN)] {
            let task = Task { filter: 0, border: Border::Constant(value), exact: false, sums: false };
            compute.run::<f32, f32>(task, &image).unwrap();
            assert_eq!(compute.ready.len(), kept, "{value}");
        }
    }
}
