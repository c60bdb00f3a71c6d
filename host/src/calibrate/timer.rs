//! Times single kernels on images that are on the device.

use std::any::Any;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use faltung::{Device, DeviceImage, Error, Image, Pixel, PixelType, Prepared, Result, Stream};
use kernels_gpu::registry::Entry;

use super::{Case, Plan, SEED, VariantChoice};

/// How long one batch of runs should take, in microseconds.
const BATCH_US: f64 = 300.0;

/// The most runs of a batch.
const MOST_RUNS: f64 = 50.0;

/// From this time on, in microseconds, two batches are enough: they hardly differ.
const LONG_US: f64 = 3000.0;

/// From this time on one run is enough.
const VERY_LONG_US: f64 = 20_000.0;

/// Times kernels on a device.
pub(super) struct Timer<'a> {
    device: &'a Device,
    stream: Stream,
    /// Image and result, by size.
    images: HashMap<(usize, usize), Box<dyn Any>>,
    /// The channels and the type of these images.
    format: Option<super::Format>,
}

impl<'a> Timer<'a> {
    pub(super) fn new(device: &'a Device) -> Result<Self> {
        Ok(Self { device, stream: device.stream()?, images: HashMap::new(), format: None })
    }

    /// Frees the images.
    pub(super) fn forget_images(&mut self) {
        self.images.clear();
    }

    /// How the kernel computes the case, and its time in microseconds. None if it can't.
    pub(super) fn time(&mut self, case: &Case, entry: &'static Entry, in_planes: bool) -> Result<Option<(Plan, f64)>> {
        let choice = VariantChoice::Kernel { entry, in_planes };
        let prepared = match self.device.prepare(&case.problem()?, choice) {
            Ok(prepared) => prepared,
            Err(Error::Refused { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(plan) = prepared.plan().cloned() else { return Err(Error::NoTime) };
        if self.format != Some(case.format) {
            self.images.clear();
            self.format = Some(case.format);
        }
        let us = match case.format.pixel_type() {
            PixelType::U8 => self.time_of(case, &prepared, |random| random.u8(..)),
            PixelType::U16 => self.time_of(case, &prepared, |random| random.u16(..)),
            PixelType::F32 => self.time_of(case, &prepared, fastrand::Rng::f32),
        }?;
        Ok(Some((plan, us)))
    }

    fn time_of<T: Pixel>(
        &mut self,
        case: &Case,
        prepared: &Prepared,
        value: fn(&mut fastrand::Rng) -> T,
    ) -> Result<f64> {
        let Self { device, stream, images, .. } = self;
        let pair = match images.entry(case.image) {
            Slot::Occupied(slot) => slot.into_mut(),
            Slot::Vacant(slot) => {
                let (width, height) = case.image;
                let mut random = fastrand::Rng::with_seed(SEED);
                let values = (0..width * height * case.format.channels).map(|_| value(&mut random)).collect();
                let source = device.upload(&Image::<T>::new(width, height, case.format.channels, values)?, stream)?;
                let result: DeviceImage<T> = device.zeros(width, height, case.format.channels, stream)?;
                slot.insert(Box::new((source, result)))
            }
        };
        let pair = pair.downcast_mut::<(DeviceImage<T>, DeviceImage<T>)>();
        let (source, result) = pair.expect("the images are those of the format");
        let mut batch = |runs: usize| -> Result<f64> {
            let start = stream.record()?;
            for _ in 0..runs {
                prepared.run_into(source, result, stream)?;
            }
            let end = stream.record()?;
            end.synchronize()?;
            Ok(end.since(&start)?.as_secs_f64() * 1e6 / runs as f64)
        };
        // The first run does not count: caches and clocks are in the state that earlier work left.
        if batch(1)? > VERY_LONG_US {
            return batch(1);
        }
        let us = batch(2)?;
        let runs = (BATCH_US / us).clamp(1.0, MOST_RUNS) as usize;
        let batches = if us > LONG_US { 2 } else { 5 };
        let mut times = (0..batches).map(|_| batch(runs)).collect::<Result<Vec<_>>>()?;
        times.sort_by(f64::total_cmp);
        Ok(times[(times.len() - 1) / 2])
    }
}
