//! Eight threads at once on one device.

use std::sync::Barrier;

use faltung::{Device, DeviceImage, Filter, Image, Pipeline, Pixel, Prepared, Variant, VariantChoice};

use super::{Checked, Test, ensure, equal, filter, image, on_cpu, prepared, problem, words};

pub(crate) const TESTS: &[Test] =
    &[("eight_threads", eight_threads), ("eight_threads_with_masks_in_constant_memory", constant_memory)];

const THREADS: usize = 8;
/// How often each thread does all the work.
const ROUNDS: usize = 2;

/// Runs `work` on as many threads, which begin together.
fn on_threads(work: impl Fn(usize) -> Checked + Sync) -> Checked {
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let run = |number: usize| {
            let (start, work) = (&start, &work);
            move || {
                start.wait();
                work(number).map_err(|error| format!("thread {number}: {error}"))
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(run(number))).collect();
        // All are joined, and the first error is told.
        let ended: Vec<Checked> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| Err(super::message(panic))))
            .collect();
        ended.into_iter().collect()
    })
}

/// One image with all that the threads share.
struct Work<T: Pixel, U: Pixel> {
    filter: Filter,
    image: Image<T>,
    right: Image<U>,
    /// The device with so little memory that it takes strips.
    limited: Device,
    prepared: Prepared,
    pipeline: Pipeline,
    /// The pipeline's result.
    piped: Image<U>,
}

/// [`Work`] of any types.
trait Run: Sync {
    /// Filters the image by each call that can, and checks the results.
    fn run(&self, device: &Device) -> Checked;
}

impl<T: Pixel, U: Pixel> Work<T, U> {
    fn boxed(
        device: &Device,
        pipeline: &Pipeline,
        (width, height, channels): (usize, usize, usize),
        side: usize,
        seed: u64,
    ) -> Result<Box<dyn Run>, String> {
        let (filter, image) = (filter(side, seed), image::<T>(width, height, channels, seed));
        let piped = Device::cpu().pipeline(pipeline.filters()).and_then(|pipeline| pipeline.apply(&image));
        let prepared = prepared::<T, U>(device, &filter, &image)?;
        // All rows but one.
        let rows = prepared.plan().map_or(0, |plan| {
            plan.params.src_pitch as usize * T::TYPE.bytes() + plan.params.dst_pitch as usize * U::TYPE.bytes()
        });
        let limited = device.clone().with_memory_limit(rows * (height - 1));
        let note = super::prepared::<T, U>(&limited, &filter, &image)?.note().unwrap_or_default();
        ensure(device.backend() == "cpu" || note.contains(" strips"), || format!("no strips, but \"{note}\""))?;
        Ok(Box::new(Self {
            right: on_cpu(&filter, &image)?,
            limited,
            prepared,
            pipeline: pipeline.clone(),
            piped: piped.map_err(words)?,
            filter,
            image,
        }))
    }
}

impl<T: Pixel, U: Pixel> Run for Work<T, U> {
    fn run(&self, device: &Device) -> Checked {
        let Self { filter, image, right, .. } = self;
        equal("apply", &device.apply::<T, U>(filter, image).map_err(words)?, right)?;
        equal("apply in strips", &self.limited.apply::<T, U>(filter, image).map_err(words)?, right)?;
        equal("a shared Prepared", &self.prepared.apply::<T, U>(image).map_err(words)?, right)?;
        let stream = device.stream().map_err(words)?;
        let source = device.upload(image, &stream).map_err(words)?;
        let result: DeviceImage<U> = self.prepared.run(&source, &stream).map_err(words)?;
        let piped: DeviceImage<U> = self.pipeline.run(&source, &stream).map_err(words)?;
        drop(source);
        equal("a shared Prepared on an own stream", &result.download(&stream).map_err(words)?, right)?;
        equal("a shared Pipeline on an own stream", &piped.download(&stream).map_err(words)?, &self.piped)?;
        equal("a shared Pipeline", &self.pipeline.apply::<T, U>(image).map_err(words)?, &self.piped)
    }
}

/// Each thread has the same work in another order.
fn eight_threads(device: &Device) -> Checked {
    // One for all sizes and types.
    let pipeline = device.pipeline(&[filter(2, 100), filter(3, 101)]).map_err(words)?;
    let work = [
        Work::<u8, u8>::boxed(device, &pipeline, (33, 21, 1), 3, 1)?,
        Work::<f32, f32>::boxed(device, &pipeline, (40, 37, 1), 5, 2)?,
        Work::<u16, f32>::boxed(device, &pipeline, (64, 20, 1), 4, 3)?,
        Work::<u8, u8>::boxed(device, &pipeline, (29, 23, 3), 7, 4)?,
        Work::<f32, u8>::boxed(device, &pipeline, (17, 50, 2), 3, 5)?,
        // More than the driver stages by itself: the threads of the pool copy it.
        Work::<f32, f32>::boxed(device, &pipeline, (130, 130, 1), 2, 6)?,
    ];
    on_threads(|number| {
        for step in 0..ROUNDS * work.len() {
            work[(step + number) % work.len()].run(device)?;
        }
        Ok(())
    })
}

/// Each thread and round has a mask of its own. All have one size, so a kernel that reads another mask has other
/// results.
///
/// A filter is dropped before its work has begun. Then the next one gets the memory of its mask.
fn constant_memory(device: &Device) -> Checked {
    let choice = match device.backend() {
        "cpu" => VariantChoice::Auto,
        _ => VariantChoice::Named(Variant::ConstantMask),
    };
    let image = image::<f32>(37, 19, 1, 7);
    let shared_filter = filter(5, 1000);
    let shared_right: Image<f32> = on_cpu(&shared_filter, &image)?;
    let shared = device.prepare(&problem::<f32, f32>(&shared_filter, &image)?, choice).map_err(words)?;
    on_threads(|number| {
        let stream = device.stream().map_err(words)?;
        let source = device.upload(&image, &stream).map_err(words)?;
        let mut pending = Vec::new();
        for round in 0..4 {
            // The borders are the same, the coefficients are not.
            let filter = filter(5, (number * 100 + round) as u64 * 4);
            let prepared = device.prepare(&problem::<f32, f32>(&filter, &image)?, choice).map_err(words)?;
            let right: Image<f32> = on_cpu(&filter, &image)?;
            equal("apply", &prepared.apply::<f32, f32>(&image).map_err(words)?, &right)?;
            let result: DeviceImage<f32> = prepared.run(&source, &stream).map_err(words)?;
            drop(prepared);
            pending.push((result, right));
            equal("the shared one", &shared.apply::<f32, f32>(&image).map_err(words)?, &shared_right)?;
        }
        for (result, right) in pending {
            equal("run", &result.download(&stream).map_err(words)?, &right)?;
        }
        Ok(())
    })
}
