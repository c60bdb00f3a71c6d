//! Runs the convolutions of `host filter` on a device, and estimates their times.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use faltung::{
    Accuracy, AnyImage, Border, Device, Error, Filter, Image, Pixel, PixelFormat, PixelType, Prepared, Problem,
    VariantChoice,
};

use super::trial::{LONG_ENOUGH, trial};

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

    /// A note on work that will take long. In `planes`, the filters get values of `f32` and have exact sums, as a
    /// computation of several steps needs them.
    pub(super) fn announcement(&mut self, work: &Work, output: PixelType, planes: bool) -> Option<String> {
        /// An expected time from which a note announces it.
        const LONG: Duration = Duration::from_secs(10);
        let expected = self.expected(work, output, planes).filter(|&expected| expected > LONG)?;
        let faster = self
            .faster(work, output, planes, expected)
            .map_or_else(String::new, |(class, time)| format!("; with --accuracy {class} about {}", describe(time)));
        Some(format!("this will take about {} to compute{faster}", describe(expected)))
    }

    /// About how long the work will take; None if it is clear without measuring that it is not long.
    ///
    /// The time for a value is that of the last picture that took long enough to tell, or else that of a [trial].
    fn expected(&mut self, work: &Work, output: PixelType, planes: bool) -> Option<Duration> {
        let values = work.values();
        if values * self.filters.iter().map(coefficients).sum::<f64>() < little(self.device) {
            return None;
        }
        let (format, exact) = work.format(output, planes);
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

    /// The strictest accuracy class in which the work takes much less time than `expected`, and that time.
    fn faster(&self, work: &Work, output: PixelType, planes: bool, expected: Duration) -> Option<(Accuracy, Duration)> {
        const MUCH: u32 = 4;
        let (format, exact) = work.format(output, planes);
        // The emulator's plan has the times of a GPU.
        if exact || self.variant.named().is_some() || self.device.backend() == "emulator" {
            return None;
        }
        let class = |filter: &Filter| Problem::new(1, 1, filter).map(|problem| problem.accuracy()).ok();
        let required = class(&self.filters[0])?;
        Accuracy::ALL.into_iter().filter(|&class| class > required).find_map(|class| {
            let seconds = |filter: &Filter| -> faltung::Result<f64> {
                let filter = filter.clone().accuracy(class);
                let problem = Problem::new(work.width, work.height, &filter)?.with_format(format)?;
                match self.device.plan(&problem, self.variant)? {
                    Some(plan) => Ok(plan.predicted_us() / 1e6 * work.images as f64),
                    None => Ok(trial(self.device, &filter, format, self.variant)? * work.values()),
                }
            };
            let seconds = self.filters.iter().map(seconds).sum::<faltung::Result<f64>>().ok()?;
            let time = Duration::try_from_secs_f64(seconds).ok()?;
            (time < expected / MUCH).then_some((class, time))
        })
    }
}

/// Images of one size, to be filtered one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) channels: usize,
    pub(super) input: PixelType,
    pub(super) images: usize,
}

impl From<&AnyImage> for Work {
    fn from(image: &AnyImage) -> Self {
        let [width, height, channels] = [image.width(), image.height(), image.channels()];
        Self { width, height, channels, input: image.pixel_type(), images: 1 }
    }
}

impl Work {
    /// The values of all images.
    fn values(&self) -> f64 {
        [self.width, self.height, self.channels, self.images].into_iter().map(|side| side as f64).product()
    }

    /// What the filters get and give, in planes of `f32` or from type to type, and whether their sums are exact whatever
    /// class was asked for.
    fn format(&self, output: PixelType, planes: bool) -> (PixelFormat, bool) {
        let Self { channels, input, .. } = *self;
        let exact = planes && (input, output) != (PixelType::F32, PixelType::F32);
        let (input, output) = if planes { (PixelType::F32, PixelType::F32) } else { (input, output) };
        (PixelFormat { channels, input, output }, exact)
    }
}

/// A time, rounded.
fn describe(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        ..1.5 => "1 second".to_owned(),
        ..90.0 => format!("{seconds:.0} seconds"),
        ..5400.0 => format!("{:.0} minutes", seconds / 60.0),
        ..172_800.0 => format!("{:.0} hours", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    }
}

/// Multiply-adds that take less than some seconds on any device of this kind.
fn little(device: &Device) -> f64 {
    match device.backend() {
        "emulator" => 1e6,
        "cpu" => 4e9,
        _ => 1e12,
    }
}

/// Multiply-adds for each value.
pub(super) fn coefficients(filter: &Filter) -> f64 {
    filter.mask().map_or(0.0, |mask| mask.coefficients().len() as f64)
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
            compute.faster(&Work::from(&image), output, planes, expected).map(|(class, _)| class)
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
