//! Images in memory that the library does not own. On a CUDA device another user of the driver has it. Elsewhere it is
//! a vector.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cust::context::{Context, CurrentContext};
use cust::error::CudaResult;
use cust::memory::{CopyDestination, DeviceBuffer};
use faltung::{Device, DeviceImage, Error, Event, Image, Stream};

use super::context::{Restored, enter_primary};
use super::{Checked, Test, ensure, equal, equal_values, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] =
    &[("foreign_sources", sources), ("foreign_results", results), ("foreign_memory_misused", misuse)];
pub(crate) const OF_CUDA: &[Test] = &[("other_devices_are_refused", other_devices)];

/// Values that the library does not own.
struct Foreign {
    pointer: *mut f32,
    length: usize,
    place: Place,
}

/// The kinds of memory.
enum Place {
    /// The vector is used through the pointer alone.
    Host { _values: Vec<f32> },
    /// None once it is freed.
    Cuda { buffer: Option<DeviceBuffer<f32>>, context: Context },
}

// SAFETY: the values are used by one thread at a time: by the library's image, or by `read` when that is done.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    fn new(device: &Device, mut values: Vec<f32>) -> Result<Arc<Self>, String> {
        let length = values.len();
        let (pointer, place) = match device.gpu() {
            None => (values.as_mut_ptr(), Place::Host { _values: values }),
            Some(_) => {
                let _restored = Restored::keep();
                let context = enter_primary(device)?;
                let buffer = on_cuda(&values).map_err(|error| error.to_string())?;
                let address = buffer.as_device_ptr().as_raw() as usize;
                (std::ptr::with_exposed_provenance_mut(address), Place::Cuda { buffer: Some(buffer), context })
            }
        };
        Ok(Arc::new(Self { pointer, length, place }))
    }

    /// Reads the values. Nothing may write them.
    fn read(&self) -> Result<Vec<f32>, String> {
        let mut values = vec![0.0; self.length];
        match &self.place {
            Place::Host { .. } => {
                // SAFETY: the vector has so many values, and nothing writes them.
                values.copy_from_slice(unsafe { std::slice::from_raw_parts(self.pointer, self.length) });
            }
            Place::Cuda { buffer, context } => {
                let _restored = Restored::enter(context.as_raw());
                let buffer = buffer.as_ref().expect("it is freed last");
                buffer.copy_to(&mut values).map_err(|error| error.to_string())?;
            }
        }
        Ok(values)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Place::Cuda { buffer, context } = &mut self.place {
            let _restored = Restored::enter(context.as_raw());
            drop(buffer.take());
        }
    }
}

/// Memory of the current context with these values.
fn on_cuda(values: &[f32]) -> CudaResult<DeviceBuffer<f32>> {
    let buffer = DeviceBuffer::from_slice(values)?;
    // The copy may be under way, and the library's streams do not wait for it.
    CurrentContext::synchronize()?;
    Ok(buffer)
}

/// A record of what happens to an owner.
#[derive(Default)]
struct Log {
    drops: AtomicUsize,
    /// Events after the work that uses the memory.
    behind: Mutex<Vec<Event>>,
    /// Events that had not come when the owner was dropped.
    early: AtomicUsize,
}

impl Log {
    /// Notes that the owner must live until the stream has done its present work.
    fn expect(&self, stream: &Stream) -> Checked {
        let event = stream.record().map_err(words)?;
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        Ok(())
    }

    fn drops(&self) -> usize {
        self.drops.load(Ordering::SeqCst)
    }

    /// Checks that the owner was dropped once, after the work was done.
    fn ended_well(&self) -> Checked {
        let early = self.early.load(Ordering::SeqCst);
        ensure(self.drops() == 1, || format!("the owner was dropped {} times", self.drops()))?;
        ensure(early == 0, || format!("{early} streams still used the memory when its owner was dropped"))
    }
}

/// The owner of the memory, which the library drops.
struct Owner {
    memory: Arc<Foreign>,
    log: Arc<Log>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        let behind = self.log.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let early = behind.iter().filter(|event| !event.is_complete().is_ok_and(|is_complete| is_complete)).count();
        self.log.early.fetch_add(early, Ordering::SeqCst);
        self.log.drops.fetch_add(1, Ordering::SeqCst);
        assert!(!self.memory.pointer.is_null());
    }
}

const HEIGHT: usize = 29;

/// Where an image lies in foreign memory.
#[derive(Clone, Copy, Debug)]
struct Layout {
    width: usize,
    /// Values between two rows.
    gap: usize,
    /// Values before the first row.
    before: usize,
}

impl Layout {
    /// Rows that the kernels read in place, and rows that are copied before.
    const ALL: [Self; 5] = [
        Self { width: 64, gap: 0, before: 0 },
        Self { width: 41, gap: 0, before: 0 },
        Self { width: 41, gap: 23, before: 0 },
        Self { width: 41, gap: 3, before: 0 },
        Self { width: 64, gap: 8, before: 1 },
    ];

    fn pitch(self) -> usize {
        self.width + self.gap
    }

    /// An image in memory that ends with its last row. All else has the value `beside`.
    fn place(self, image: &Image<f32>, beside: f32) -> Vec<f32> {
        let mut values = vec![beside; self.before + (HEIGHT - 1) * self.pitch() + self.width];
        for (y, to) in values[self.before..].chunks_mut(self.pitch()).enumerate() {
            to[..self.width].copy_from_slice(image.row(y));
        }
        values
    }

    fn image(self, memory: &Arc<Foreign>, log: &Arc<Log>) -> Result<DeviceImage<f32>, String> {
        let owner = Owner { memory: Arc::clone(memory), log: Arc::clone(log) };
        // SAFETY: `place` makes the memory as long. The owner keeps it, and the tests read it when the image is gone.
        let image = unsafe {
            DeviceImage::from_raw(memory.pointer.add(self.before), self.width, HEIGHT, 1, self.pitch(), owner)
        };
        image.map_err(words)
    }
}

fn sources(device: &Device) -> Checked {
    Layout::ALL
        .into_iter()
        .try_for_each(|layout| source(device, layout).map_err(|error| format!("{layout:?}: {error}")))
}

/// A source in foreign memory, used by two streams when its image is dropped. What lies beside the rows is no number.
fn source(device: &Device, layout: Layout) -> Checked {
    let (filter, image) = (filter(3, 51), image::<f32>(layout.width, HEIGHT, 1, 51));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let (first, second) = (device.stream().map_err(words)?, device.stream().map_err(words)?);
    let (memory, log) = (Foreign::new(device, layout.place(&image, f32::NAN))?, Arc::new(Log::default()));
    let foreign = layout.image(&memory, &log)?;
    ensure(
        foreign.as_ptr() == memory.pointer.wrapping_add(layout.before) && foreign.pitch() == layout.pitch(),
        || format!("{foreign:?} is elsewhere"),
    )?;
    equal("download", &foreign.download(&second).map_err(words)?, &image)?;

    let on_first: DeviceImage<f32> = ready.run(&foreign, &first).map_err(words)?;
    let on_second: DeviceImage<f32> = ready.run(&foreign, &second).map_err(words)?;
    log.expect(&first)?;
    log.expect(&second)?;
    ensure(log.drops() == 0, || "the owner went before its image".to_owned())?;
    drop(foreign);
    log.ended_well()?;
    equal("on the first stream", &on_first.download(&second).map_err(words)?, &right)?;
    equal("on the second stream", &on_second.download(&first).map_err(words)?, &right)
}

fn results(device: &Device) -> Checked {
    Layout::ALL
        .into_iter()
        .try_for_each(|layout| result(device, layout).map_err(|error| format!("{layout:?}: {error}")))
}

/// A result in foreign memory, written by one stream and read by another. What lies beside the rows stays.
fn result(device: &Device, layout: Layout) -> Checked {
    let (filter, image) = (filter(3, 52), image::<f32>(layout.width, HEIGHT, 1, 52));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let twice: Image<f32> = on_cpu(&filter, &right)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let (writes, reads) = (device.stream().map_err(words)?, device.stream().map_err(words)?);
    let nothing = Image::new(layout.width, HEIGHT, 1, vec![-5.0; layout.width * HEIGHT]).map_err(words)?;
    let (memory, log) = (Foreign::new(device, layout.place(&nothing, -1.0))?, Arc::new(Log::default()));
    let mut foreign = layout.image(&memory, &log)?;

    let source = device.upload(&image, &reads).map_err(words)?;
    ready.run_into(&source, &mut foreign, &writes).map_err(words)?;
    let read: DeviceImage<f32> = ready.run(&foreign, &reads).map_err(words)?;
    log.expect(&writes)?;
    log.expect(&reads)?;
    drop(foreign);
    log.ended_well()?;
    equal("what read it", &read.download(&writes).map_err(words)?, &twice)?;
    equal_values("the memory", &memory.read()?, &layout.place(&right, -1.0))
}

/// Misuse that the library can detect is an error, and the owner is dropped.
fn misuse(device: &Device) -> Checked {
    let filter = filter(3, 53);
    let memory = Foreign::new(device, vec![1.0; 200])?;
    let refused = |name: &str, (pointer, width, height, channels, pitch), is_right: fn(&Error) -> bool| {
        let log = Arc::new(Log::default());
        let owner = Owner { memory: Arc::clone(&memory), log: Arc::clone(&log) };
        // SAFETY: some arguments break the conditions. The call checks them before anything uses the memory, and fails.
        let error = unsafe { DeviceImage::<f32>::from_raw(pointer, width, height, channels, pitch, owner) }.err();
        ensure(error.as_ref().is_some_and(is_right), || format!("{name}: {error:?}"))?;
        log.ended_well().map_err(|error| format!("{name}: {error}"))
    };
    let start = memory.pointer;
    let (null, misaligned) = (std::ptr::null_mut(), start.wrapping_byte_add(2));
    let is_number = |error: &Error| matches!(error, Error::Number { .. });
    refused("rows that overlap", (start, 10, 10, 1, 9), |error| matches!(error, Error::Pitch { pitch: 9, row: 10 }))?;
    refused("channels that overlap", (start, 5, 10, 2, 9), |error| {
        matches!(error, Error::Pitch { pitch: 9, row: 10 })
    })?;
    refused("no columns", (start, 0, 10, 1, 10), |error| matches!(error, Error::EmptyImage { .. }))?;
    refused("too many rows", (start, 10, usize::MAX / 8, 1, 100), |error| {
        matches!(error, Error::Length { .. } | Error::TooLarge { .. })
    })?;
    refused("a null pointer", (null, 10, 10, 1, 10), is_number)?;
    refused("a misaligned pointer", (misaligned, 10, 10, 1, 10), is_number)?;

    // An image that a call refuses stays as it was.
    let layout = Layout { width: 6, gap: 0, before: 0 };
    let log = Arc::new(Log::default());
    let mut foreign = layout.image(&memory, &log)?;
    let stream = device.stream().map_err(words)?;
    let other = image::<f32>(7, HEIGHT, 1, 53);
    let ready = prepared::<f32, f32>(device, &filter, &other)?;
    let source = device.upload(&other, &stream).map_err(words)?;
    let size = ready.run::<f32, f32>(&foreign, &stream).err();
    ensure(matches!(size, Some(Error::OtherSize { .. })), || format!("{size:?}"))?;
    let into = ready.run_into::<f32, f32>(&source, &mut foreign, &stream).err();
    ensure(matches!(into, Some(Error::OtherSize { .. })), || format!("{into:?}"))?;
    ensure(log.drops() == 0, || "a refused image lost its owner".to_owned())?;
    drop(foreign);
    log.ended_well()?;
    equal_values("memory of refused calls", &memory.read()?, &[1.0; 200])
}

/// Images and streams of the CPU with those of a CUDA device.
fn other_devices(device: &Device) -> Checked {
    refuse_each_other(device, &Device::cpu())?;
    refuse_each_other(device, &Device::emulator(1))
}

/// Fails if one of two devices takes an image or a stream of the other.
pub(crate) fn refuse_each_other(first: &Device, second: &Device) -> Checked {
    for (own, other) in [(first, second), (second, first)] {
        let (filter, image) = (filter(3, 54), image::<f32>(16, 12, 1, 54));
        let ready = prepared::<f32, f32>(own, &filter, &image)?;
        let (stream, other_stream) = (own.stream().map_err(words)?, other.stream().map_err(words)?);
        let mut on_own = own.upload(&image, &stream).map_err(words)?;
        let mut on_other = other.upload(&image, &other_stream).map_err(words)?;
        let pipeline = own.pipeline(&[filter.clone(), filter.clone()]).map_err(words)?;
        for (name, found) in [
            ("upload by another's stream", own.upload(&image, &other_stream).err()),
            ("zeros by another's stream", own.zeros::<f32>(16, 12, 1, &other_stream).err()),
            ("run on another's stream", ready.run::<f32, f32>(&on_own, &other_stream).err()),
            ("run of another's image", ready.run::<f32, f32>(&on_other, &stream).err()),
            ("run of another's image on its stream", ready.run::<f32, f32>(&on_other, &other_stream).err()),
            ("run into another's image", ready.run_into(&on_own, &mut on_other, &stream).err()),
            ("run into an image by another's", ready.run_into(&on_other, &mut on_own, &stream).err()),
            ("pipeline on another's stream", pipeline.run::<f32, f32>(&on_own, &other_stream).err()),
            ("pipeline of another's image", pipeline.run::<f32, f32>(&on_other, &stream).err()),
            ("download by another's stream", on_own.download(&other_stream).err()),
        ] {
            ensure(matches!(found, Some(Error::OtherDevice { .. })), || {
                format!("{name}, of {} and {}: {found:?}", own.describe(), other.describe())
            })?;
        }
        // Refused calls leave the images and the streams as they were.
        let right: Image<f32> = on_cpu(&filter, &image)?;
        let result: DeviceImage<f32> = ready.run(&on_own, &stream).map_err(words)?;
        equal("a run after refused ones", &result.download(&stream).map_err(words)?, &right)?;
        equal("another's image", &on_other.download(&other_stream).map_err(words)?, &image)?;
    }
    Ok(())
}
