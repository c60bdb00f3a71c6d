//! Calls on the stream and the memory of another library, which enqueues work before and after them.
//!
//! The calls do not wait. When a call has returned, the other library may reuse the memory in stream order.

use std::ffi::c_void;

use cust::context::Context;
use cust::memory::DeviceBuffer;
use cust::stream::{Stream as DriverStream, StreamFlags};
use cust::sys::{self, CUstream};
use faltung::{Device, DeviceImage, Error, Filter, Image, PageLocked, Prepared, Stream, VariantChoice};

use super::array_streams::Captured;
use super::context::{Restored, current, driver, enter_primary};
use super::{Checked, Test, ensure, equal, equal_values, filter, image, on_cpu, problem, words};

pub(crate) const OF_CUDA: &[Test] = &[
    ("foreign_streams", of_all_handles),
    ("foreign_streams_of_a_dropped_filter", of_a_dropped_filter),
    ("foreign_streams_beside_a_capture", beside_a_capture),
    ("foreign_streams_in_place", in_place),
    ("foreign_streams_of_no_device", of_no_device),
    ("the_context_is_the_primary_one", primary_context),
    ("device_memory", device_memory),
    ("for_device_images", for_device_images),
];

/// Another library of the process, which has a context and a stream.
struct Library<'a> {
    device: &'a Device,
    stream: CUstream,
    /// None if the stream is a default stream.
    _own: Option<DriverStream>,
    _context: Context,
}

impl<'a> Library<'a> {
    /// A library with a new stream, or with the default stream of this handle.
    fn new(device: &'a Device, default: Option<usize>) -> Result<Self, String> {
        let context = enter_primary(device)?;
        let (stream, own) = match default {
            Some(number) => (std::ptr::without_provenance_mut(number), None),
            None => {
                let own = DriverStream::new(StreamFlags::DEFAULT, None).map_err(|error| error.to_string())?;
                (own.as_inner(), Some(own))
            }
        };
        Ok(Self { device, stream, _own: own, _context: context })
    }

    /// Device memory that nothing has written.
    fn memory(&self, values: usize) -> Result<DeviceBuffer<f32>, String> {
        // SAFETY: the tests write all values before they read one.
        unsafe { DeviceBuffer::uninitialized(values) }.map_err(|error| error.to_string())
    }

    /// Enqueues a copy between addresses of the host or of the device.
    fn copy(&self, to: u64, from: u64, values: usize) -> Checked {
        // SAFETY: the tests keep both places until they have waited.
        driver("copy", unsafe { sys::cuMemcpyAsync(to, from, values * 4, self.stream) })
    }

    /// Enqueues a write of NaN, as the next user of the memory would write.
    fn overwrite(&self, memory: &DeviceBuffer<f32>) -> Checked {
        let (address, count) = (memory.as_device_ptr().as_raw(), memory.len());
        // SAFETY: as above.
        driver("set", unsafe { sys::cuMemsetD32Async(address, f32::NAN.to_bits(), count, self.stream) })
    }

    fn wait(&self) -> Checked {
        // SAFETY: the stream is open.
        driver("wait", unsafe { sys::cuStreamSynchronize(self.stream) })
    }

    /// Enqueues a copy of an image to new device memory. The host's memory must live until the copy is done.
    fn upload(&self, image: &Image<f32>) -> Result<(DeviceBuffer<f32>, PageLocked<f32>), String> {
        let values = image.values();
        let (memory, mut host) = (self.memory(values.len())?, self.device.page_locked(values.len()).map_err(words)?);
        host.copy_from_slice(values);
        self.copy(memory.as_device_ptr().as_raw(), host.as_ptr().expose_provenance() as u64, values.len())?;
        Ok((memory, host))
    }

    /// Waits for the stream, and reads values of the device.
    fn read(&self, address: u64, values: usize) -> Result<PageLocked<f32>, String> {
        let mut found = self.device.page_locked::<f32>(values).map_err(words)?;
        self.copy(found.as_mut_ptr().expose_provenance() as u64, address, values)?;
        self.wait()?;
        Ok(found)
    }

    /// The stream as a [`Stream`] of `faltung`.
    fn handle(&self) -> Result<Stream, String> {
        // SAFETY: it is a default stream, or `_own`, which lives longer than the tests' streams.
        unsafe { Stream::from_raw(self.device, self.stream.cast::<c_void>()) }.map_err(words)
    }

    /// Enqueues a filter on an image without gaps between rows. Returns the prepared filter and the memory of the
    /// result.
    fn filter(
        &self,
        filter: &Filter,
        image: &Image<f32>,
        source: &DeviceBuffer<f32>,
    ) -> Result<(Prepared, DeviceBuffer<f32>), String> {
        let (ready, result) = (ready_for(self.device, filter, image)?, self.memory(image.values().len())?);
        let shape = (image.width(), image.height(), image.width());
        let mut to = borrowed(&result, 0, shape)?;
        ready.run_into(&borrowed(source, 0, shape)?, &mut to, &self.handle()?).map_err(words)?;
        Ok((ready, result))
    }

    /// Waits for the stream, and compares the result of a filter with the CPU's.
    fn check(&self, filter: &Filter, image: &Image<f32>, result: &DeviceBuffer<f32>) -> Checked {
        let found = self.read(result.as_device_ptr().as_raw(), result.len())?;
        let right: Image<f32> = on_cpu(filter, image)?;
        equal_values("the result", &found, right.values())
    }
}

/// Prepares a filter for images of the device.
fn ready_for(device: &Device, filter: &Filter, image: &Image<f32>) -> Result<Prepared, String> {
    device.prepare_for_device_images(&problem::<f32, f32>(filter, image)?, VariantChoice::Auto).map_err(words)
}

/// An image in memory that it does not own. It begins after `before` values.
fn borrowed(
    memory: &DeviceBuffer<f32>,
    before: usize,
    (width, height, pitch): (usize, usize, usize),
) -> Result<DeviceImage<f32>, String> {
    let start: *mut f32 = std::ptr::with_exposed_provenance_mut(memory.as_device_ptr().as_raw() as usize);
    // SAFETY: the memory has these values. All work that uses it runs in the stream of `Library`.
    unsafe { DeviceImage::borrow_raw(start.add(before), width, height, 1, pitch) }.map_err(words)
}

const HEIGHT: usize = 29;

/// Width, values between two rows, values before the first row. Some rows have the alignment that the kernels want,
/// others do not.
pub(crate) const LAYOUTS: [(usize, usize, usize); 4] = [(64, 0, 0), (41, 0, 0), (41, 23, 0), (64, 8, 1)];

fn of_all_handles(device: &Device) -> Checked {
    for default in [None, Some(0), Some(1), Some(2)] {
        let mut calls = 0;
        for layout in LAYOUTS {
            filter_twice(device, default, layout, &mut |call| {
                calls += 1;
                call()
            })
            .map_err(|error| format!("the stream {default:?}, {layout:?}: {error}"))?;
        }
        ensure(calls == 2 * LAYOUTS.len(), || format!("{calls} calls"))?;
    }
    Ok(())
}

/// Filters an image of another library twice, by two calls between the library's own work.
///
/// `watched` runs each call. It may observe the driver before and after. The filter is prepared before.
pub(crate) fn filter_twice(
    device: &Device,
    default: Option<usize>,
    (width, gap, before): (usize, usize, usize),
    watched: &mut dyn FnMut(&mut dyn FnMut() -> Checked) -> Checked,
) -> Checked {
    let (filter, image) = (filter(3, 61), image::<f32>(width, HEIGHT, 1, 61));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let twice: Image<f32> = on_cpu(&filter, &right)?;
    let ready = ready_for(device, &filter, &image)?;
    let _restored = Restored::keep();
    let library = Library::new(device, default)?;
    let pitch = width + gap;
    let values = before + (HEIGHT - 1) * pitch + width;
    let [first, second, third, kept] = std::array::from_fn(|_| library.memory(values));
    let (first, second, third, kept) = (first?, second?, third?, kept?);
    let mut host = device.page_locked::<f32>(values).map_err(words)?;
    host.fill(-1.0);
    for (y, to) in host[before..].chunks_mut(pitch).enumerate() {
        to[..width].copy_from_slice(image.row(y));
    }

    // The copy may begin late. The memory is overwritten right after each call.
    library.copy(first.as_device_ptr().as_raw(), host.as_ptr().expose_provenance() as u64, values)?;
    for (from, to) in [(&first, &second), (&second, &third)] {
        library.overwrite(to)?;
        watched(&mut || {
            let stream = library.handle()?;
            let source = borrowed(from, before, (width, HEIGHT, pitch))?;
            let mut result = borrowed(to, before, (width, HEIGHT, pitch))?;
            ready.run_into(&source, &mut result, &stream).map_err(words)
        })?;
        library.overwrite(from)?;
    }
    library.copy(kept.as_device_ptr().as_raw(), third.as_device_ptr().as_raw(), values)?;
    library.overwrite(&third)?;
    library.wait()?;

    let found = library.read(kept.as_device_ptr().as_raw(), values)?;
    for (y, row) in found[before..].chunks(pitch).enumerate() {
        equal_values(&format!("row {y}"), &row[..width], twice.row(y))?;
        ensure(row[width..].iter().all(|value| value.is_nan()), || format!("row {y}: a value was written behind it"))?;
    }
    Ok(())
}

/// Each filter is dropped while its kernel still reads the mask. The next filter reuses the memory of the mask.
fn of_a_dropped_filter(device: &Device) -> Checked {
    let image = image::<f32>(40, HEIGHT, 1, 62);
    for side in [3, 5, 23] {
        let _restored = Restored::keep();
        let filters = [filter(side, 63), filter(side, 64), filter(side, 65)];
        let library = Library::new(device, None)?;
        let (source, _host) = library.upload(&image)?;
        let run = |filter| library.filter(filter, &image, &source).map(|(_, result)| result);
        let results: Result<Vec<_>, String> = filters.iter().map(run).collect();
        for (filter, result) in filters.iter().zip(results?) {
            library.check(filter, &image, &result).map_err(|error| format!("{side} x {side}: {error}"))?;
        }
    }
    Ok(())
}

/// A filter that was used in the default stream is dropped while a blocking stream is captured. The capture succeeds,
/// and the next filter does not overwrite the mask.
fn beside_a_capture(device: &Device) -> Checked {
    let image = image::<f32>(40, HEIGHT, 1, 69);
    // Masks in constant memory, and one in global memory.
    for side in [3, 5, 23] {
        let _restored = Restored::keep();
        let (library, captured) = (Library::new(device, Some(0))?, Library::new(device, None)?);
        let (source, _host) = library.upload(&image)?;
        let filters = [filter(side, 70), filter(side, 71)];
        let (dropped, first) = library.filter(&filters[0], &image, &source)?;
        Captured::new(captured.stream, || {
            drop(dropped);
            Ok(())
        })?;
        let (_ready, second) = library.filter(&filters[1], &image, &source)?;
        for (filter, result) in filters.iter().zip([first, second]) {
            library.check(filter, &image, &result).map_err(|error| format!("{side} x {side}: {error}"))?;
        }
    }
    Ok(())
}

/// A result in the memory of the source, and one that begins a row below it.
fn in_place(device: &Device) -> Checked {
    let (filter, image) = (filter(3, 66), image::<f32>(64, HEIGHT, 1, 66));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let ready = ready_for(device, &filter, &image)?;
    let _restored = Restored::keep();
    let library = Library::new(device, None)?;
    for below in [0, 64] {
        let memory = library.memory(64 * HEIGHT + below)?;
        let mut host = device.page_locked::<f32>(64 * HEIGHT).map_err(words)?;
        host.copy_from_slice(image.values());
        let address = memory.as_device_ptr().as_raw();
        library.copy(address, host.as_ptr().expose_provenance() as u64, 64 * HEIGHT)?;
        {
            let stream = library.handle()?;
            let source = borrowed(&memory, 0, (64, HEIGHT, 64))?;
            let mut result = borrowed(&memory, below, (64, HEIGHT, 64))?;
            ready.run_into(&source, &mut result, &stream).map_err(words)?;
        }
        let found = library.read(address + below as u64 * 4, 64 * HEIGHT)?;
        equal_values(&format!("{below} values below"), &found, right.values())?;
    }
    Ok(())
}

/// The CPU and the emulator refuse a stream of the driver, and allocate no device memory.
fn of_no_device(device: &Device) -> Checked {
    for other in [Device::cpu(), Device::emulator(1)] {
        // SAFETY: a default stream.
        let error = unsafe { Stream::from_raw(&other, std::ptr::null_mut()) }.err();
        ensure(matches!(error, Some(Error::OtherDevice { .. })), || format!("{error:?}"))?;
        let error = other.allocate(16).err();
        ensure(matches!(error, Some(Error::OtherDevice { .. })), || format!("{error:?}"))?;
    }
    // A foreign stream belongs to its device, so it refuses images of another device.
    // SAFETY: as above.
    let stream = unsafe { Stream::from_raw(device, std::ptr::null_mut()) }.map_err(words)?;
    let on_host = Device::cpu().upload(&image::<f32>(4, 4, 1, 1), &Device::cpu().stream().map_err(words)?);
    let error = on_host.map_err(words)?.download(&stream).err();
    ensure(matches!(error, Some(Error::OtherDevice { .. })), || format!("{error:?}"))
}

/// `faltung` works in the primary context, as CUDA's runtime does. If this context is current, it stays current.
fn primary_context(device: &Device) -> Checked {
    let number = device.gpu().ok_or("a CUDA device")?.number;
    let _restored = Restored::keep();
    let mut primary = std::ptr::null_mut();
    // SAFETY: the driver writes one handle. The device has this number.
    driver("retain", unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut primary, number as i32) })?;
    // SAFETY: the context is open.
    driver("enter", unsafe { sys::cuCtxSetCurrent(primary) })?;
    // The stream belongs to the current context, the primary one.
    let stream = device.stream().map_err(words)?;
    let image = device.upload(&image::<f32>(8, 8, 1, 67), &stream).map_err(words)?;
    stream.synchronize().map_err(words)?;
    let mut values = [0.0_f32; 64];
    // SAFETY: the image has 8 rows of 8 values without gaps. The current context is the primary one.
    let status = unsafe { sys::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), image.as_ptr().addr() as u64, 256) };
    driver("read the library's memory in the primary context", status)?;
    ensure(current() == primary, || "the current context changed".to_owned())?;
    drop((image, stream));
    // SAFETY: it was retained above, once.
    driver("release", unsafe { sys::cuDevicePrimaryCtxRelease_v2(number as i32) })
}

/// Device memory that `faltung` allocates for another library: what [`AddressInfo`](faltung::AddressInfo) says of it,
/// and copies and fills in stream order.
fn device_memory(device: &Device) -> Checked {
    static ORDINARY: u8 = 0;
    let number = device.gpu().ok_or("a CUDA device")?.number;
    let _restored = Restored::keep();
    let library = Library::new(device, None)?;
    let (first, mut second) = (device.allocate(4000).map_err(words)?, device.allocate(4000).map_err(words)?);
    ensure(first.bytes() == 4000 && first.as_ptr().addr().is_multiple_of(256), || format!("{first:?}"))?;
    let empty = device.allocate(0).map_err(words)?;
    ensure(!empty.as_ptr().is_null() && empty.bytes() == 0, || format!("{empty:?}"))?;

    let known = |address: usize| faltung::AddressInfo::of(address).map_err(words);
    let own = known(first.as_ptr().addr() + 8)?;
    let is_own = own.is_some_and(|info| info.kind == faltung::MemoryKind::Device && info.device == number);
    ensure(is_own, || format!("{own:?} is known of memory of cuda:{number}"))?;
    let mut host = device.page_locked::<f32>(1000).map_err(words)?;
    let locked = known(host.as_ptr().addr())?;
    ensure(locked.is_some_and(|info| info.kind == faltung::MemoryKind::Host), || format!("{locked:?}"))?;
    let ordinary = known((&raw const ORDINARY).addr())?;
    ensure(ordinary.is_none(), || format!("{ordinary:?} is known of ordinary memory"))?;

    host.iter_mut().enumerate().for_each(|(index, value)| *value = index as f32);
    library.copy(first.as_ptr().addr() as u64, host.as_ptr().expose_provenance() as u64, 1000)?;
    {
        let stream = library.handle()?;
        // SAFETY: both have the bytes, and live until the stream was waited for.
        unsafe { stream.copy(second.as_ptr(), first.as_ptr(), 4000) }.map_err(words)?;
    }
    let found = library.read(second.as_ptr().addr() as u64, 1000)?;
    equal_values("a copy", &found, &host)?;

    // A stream of another device is refused.
    let error = second.fill(0, &Device::cpu().stream().map_err(words)?).err();
    ensure(matches!(error, Some(Error::OtherDevice { .. })), || format!("{error:?}"))?;
    {
        let stream = library.handle()?;
        second.fill(0x3E, &stream).map_err(words)?;
    }
    let found = library.read(second.as_ptr().addr() as u64, 1000)?;
    equal_values("a fill", &found, &[f32::from_bits(0x3E3E_3E3E); 1000])
}

/// A filter that was prepared for images of the device allocates no memory for images, and still runs from host memory.
fn for_device_images(device: &Device) -> Checked {
    let (filter, image) = (filter(3, 68), image::<f32>(640, 480, 1, 68));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let _restored = Restored::keep();
    let _library = Library::new(device, None)?;
    let free = || cust::memory::mem_get_info().map(|(free, _)| free).map_err(|error| error.to_string());
    device.free_unused_memory().map_err(words)?;
    let before = free()?;
    let ready = [(); 4].map(|()| ready_for(device, &filter, &image));
    let taken = before - free()?;
    // The driver allocates in steps of 2 MB, and may allocate some for the module.
    ensure(taken < 4 * 640 * 480 * 4, || format!("{taken} bytes are taken"))?;
    for ready in ready {
        equal("from host memory", &ready?.apply::<f32, f32>(&image).map_err(words)?, &right)?;
    }
    Ok(())
}
