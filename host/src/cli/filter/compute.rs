//! The one place where `host filter` meets the device: values in, values out.

use std::time::{Duration, Instant};

use host::files::Pixels;
use host::{Convolution, Device, Error, Filter, Image, Layout, Mask, Pixel, PixelType, Problem, VariantChoice};

/// Fails for what is wrong with a filter whatever the picture.
pub(super) fn check(filter: &Filter) -> host::Result<()> {
    Problem::new(1, 1, filter).map(drop)
}

/// What a convolution is made ready for: width, height, channels, types of the input and of the output.
type Key = (usize, usize, usize, PixelType, PixelType);

/// Convolutions that are kept ready. Pictures of one batch mostly have one or two sizes: landscape and portrait.
const MOST_READY: usize = 4;

/// A filter on a device.
pub(super) struct Compute<'device> {
    device: &'device Device,
    filter: Filter,
    variant: VariantChoice,
    /// What ran last comes last.
    ready: Vec<(Key, Convolution<'device>)>,
    /// Multiply-adds a second, once measured.
    rate: Option<f64>,
    /// What is to be said of the convolution that was made ready last.
    note: Option<String>,
    /// Computes in the place of the device should that be lost.
    replacement: Option<&'device Device>,
    /// Why the device was given up.
    lost: Option<Error>,
}

impl<'device> Compute<'device> {
    /// Fails for what is wrong with the variant on this device whatever the picture.
    pub(super) fn new(device: &'device Device, filter: Filter, variant: VariantChoice) -> host::Result<Self> {
        // What a variant refuses else depends on the picture's values and channels.
        if let Err(error @ Error::NeedsGpu { .. }) = device.choice(&Problem::new(1, 1, &filter)?, variant) {
            return Err(error);
        }
        Ok(Self { device, filter, variant, ready: Vec::new(), rate: None, note: None, replacement: None, lost: None })
    }

    /// Has `cpu` compute all that is left should the device be lost. A variant that was asked for by name keeps the
    /// device.
    pub(super) fn replaced_by(self, cpu: &'device Device) -> Self {
        Self { replacement: self.variant.named().is_none().then_some(cpu), ..self }
    }

    /// Why the device was given up and another computes, once.
    pub(super) fn take_loss(&mut self) -> Option<Error> {
        self.lost.take()
    }

    /// As [`compute_on_device`](Self::compute_on_device); on the replacement of a device that is lost.
    pub(super) fn compute(&mut self, pixels: &Pixels, output: PixelType, keep_alpha: bool) -> host::Result<Pixels> {
        let result = self.compute_on_device(pixels, output, keep_alpha);
        match (result, self.replacement) {
            (Err(error @ Error::DeviceLost { .. }), Some(replacement)) => {
                self.replacement = None;
                self.ready.clear();
                (self.device, self.rate, self.lost) = (replacement, None, Some(error));
                self.compute_on_device(pixels, output, keep_alpha)
            }
            (result, _) => result,
        }
    }

    /// The picture, filtered, with values of the type `output`; with `keep_alpha` its alpha channel is only copied.
    fn compute_on_device(&mut self, pixels: &Pixels, output: PixelType, keep_alpha: bool) -> host::Result<Pixels> {
        let key = (pixels.width(), pixels.height(), pixels.channels(), pixels.pixel_type(), output);
        let convolution = self.convolution(key)?;
        let known = convolution.note().map(str::to_owned);
        let start = Instant::now();
        let result = match pixels {
            Pixels::U8(image) => convolve(convolution, image, output, keep_alpha),
            Pixels::U16(image) => convolve(convolution, image, output, keep_alpha),
            Pixels::F32(image) => convolve(convolution, image, output, keep_alpha),
        }?;
        let elapsed = start.elapsed();
        let found = convolution.note().map(str::to_owned);
        if found != known {
            self.note = found;
        }
        if elapsed > LONG_ENOUGH {
            self.rate = Some(self.multiply_adds(pixels) / elapsed.as_secs_f64());
        }
        Ok(result)
    }

    /// The convolution for pictures of this kind, from those that are ready, or made so.
    fn convolution(&mut self, key: Key) -> host::Result<&mut Convolution<'device>> {
        let found = self.ready.iter().position(|(ready, _)| *ready == key);
        let last = match found {
            Some(place) => self.ready.remove(place),
            None => {
                self.ready.drain(..(self.ready.len() + 1).saturating_sub(MOST_READY));
                (key, self.prepare(key)?)
            }
        };
        self.ready.push(last);
        Ok(&mut self.ready.last_mut().expect("it was just put there").1)
    }

    fn prepare(&mut self, key: Key) -> host::Result<Convolution<'device>> {
        let (width, height, channels, input, output) = key;
        let problem = Problem::new(width, height, &self.filter)?.with_layout(Layout { channels, input, output })?;
        let mut convolution = self.device.convolution_or_cpu(&problem, self.variant);
        let short = match &convolution {
            Ok(convolution) => convolution.note().is_some(),
            Err(error) => matches!(error, Error::DeviceMemory { .. }),
        };
        if short && !self.ready.is_empty() {
            // What is kept for other sizes may be what is in the way.
            drop(convolution);
            self.ready.clear();
            convolution = self.device.convolution_or_cpu(&problem, self.variant);
        }
        let convolution = convolution?;
        self.note = convolution.note().map(str::to_owned);
        Ok(convolution)
    }

    /// What is to be said of how the last picture was computed, once for pictures of one kind.
    pub(super) fn take_note(&mut self) -> Option<String> {
        self.note.take()
    }

    /// About how long a picture will take; None if it is clear without measuring that it is not long.
    ///
    /// The rate is that of the last picture that took long enough to tell, or else of a small one of its type and channels with
    /// a part of the mask, which takes a fraction of a second to measure.
    pub(super) fn expected(&mut self, pixels: &Pixels, output: PixelType) -> Option<Duration> {
        let work = self.multiply_adds(pixels);
        if work < little(self.device) {
            return None;
        }
        let rate = self.rate.or_else(|| self.trial(pixels, output).ok())?;
        self.rate = Some(rate);
        Duration::try_from_secs_f64(work / rate).ok()
    }

    fn multiply_adds(&self, pixels: &Pixels) -> f64 {
        let mask = self.filter.mask();
        [pixels.width(), pixels.height(), pixels.channels(), mask.width(), mask.height()]
            .into_iter()
            .fold(1.0, |product, side| product * side as f64)
    }

    /// Multiply-adds a second on pictures that get larger until one run takes long enough to measure.
    fn trial(&self, pixels: &Pixels, output: PixelType) -> host::Result<f64> {
        const LARGEST_MASK: usize = 31;
        const LARGEST_IMAGE: usize = 2048;
        // A part of a mask is a column times a row if the whole is, so that the same variant computes.
        let whole = self.filter.mask();
        let (width, height) = (whole.width().min(LARGEST_MASK), whole.height().min(LARGEST_MASK));
        let part = (0..height).flat_map(|k| (0..width).map(move |l| whole.at(k, l))).collect();
        let filter = Filter::new(Mask::new(width, height, part)?);
        let (channels, input) = (pixels.channels(), pixels.pixel_type());
        // Several blocks for each thread: with fewer, some would have nothing to do.
        let mut side = if width * height < 100 { 128 } else { 64 };
        loop {
            let image = Pixels::zeros(side, side, channels, input)?;
            let problem = Problem::new(side, side, &filter)?.with_layout(Layout { channels, input, output })?;
            let mut convolution = self.device.convolution(&problem, self.variant)?;
            let mut run = || -> host::Result<Duration> {
                let start = Instant::now();
                match &image {
                    Pixels::U8(image) => convolve(&mut convolution, image, output, false),
                    Pixels::U16(image) => convolve(&mut convolution, image, output, false),
                    Pixels::F32(image) => convolve(&mut convolution, image, output, false),
                }?;
                Ok(start.elapsed())
            };
            // The first one warms up: threads start, memory is touched for the first time.
            let (first, second) = (run()?, run()?);
            if second > LONG_ENOUGH || side >= LARGEST_IMAGE {
                let work = (side * side * channels * width * height) as f64;
                return Ok(work / first.min(second).as_secs_f64().max(1e-9));
            }
            side *= 2;
        }
    }
}

/// A time that says something about a rate.
const LONG_ENOUGH: Duration = Duration::from_millis(20);

/// Multiply-adds that are no matter of seconds on any such device.
fn little(device: &Device) -> f64 {
    match device.backend() {
        "emulator" => 1e6,
        "cpu" => 4e9,
        _ => 1e12,
    }
}

/// Filters values of one type to values of any type.
fn convolve<T: Pixel>(
    convolution: &mut Convolution<'_>,
    image: &Image<T>,
    output: PixelType,
    keep_alpha: bool,
) -> host::Result<Pixels> {
    Ok(match output {
        PixelType::U8 => channels::<T, u8>(convolution, image, keep_alpha)?.into(),
        PixelType::U16 => channels::<T, u16>(convolution, image, keep_alpha)?.into(),
        PixelType::F32 => channels::<T, f32>(convolution, image, keep_alpha)?.into(),
    })
}

/// Filters all channels, or all but alpha: the last of two or four.
fn channels<T: Pixel, U: Pixel>(
    convolution: &mut Convolution<'_>,
    image: &Image<T>,
    keep_alpha: bool,
) -> host::Result<Image<U>> {
    let mut result = convolution.run(image)?;
    let channels = image.channels();
    if keep_alpha && matches!(channels, 2 | 4) {
        // Opaque stays opaque: what is the most in one type becomes the most in the other.
        let (from, to) = (opaque(T::TYPE), opaque(U::TYPE));
        let copy = |value: T| U::from_f32(if from == to { value.to_f32() } else { value.to_f32() / from * to });
        let pixels = result.values_mut().chunks_exact_mut(channels);
        for (to, from) in pixels.zip(image.values().chunks_exact(channels)) {
            to[channels - 1] = copy(from[channels - 1]);
        }
    }
    Ok(result)
}

/// The alpha of a pixel that hides all behind it.
fn opaque(pixel: PixelType) -> f32 {
    match pixel {
        PixelType::U8 => 255.0,
        PixelType::U16 => 65_535.0,
        PixelType::F32 => 1.0,
    }
}
