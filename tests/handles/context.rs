//! The current context of a thread belongs to the caller: each call of the library leaves it as it was.

use std::fmt::Debug;

use cust::context::{Context, CurrentContext};
use cust::sys::{self, CUcontext, CUresult};
use faltung::{Device, DeviceImage, Image, Variant, VariantChoice, View, ViewMut};

use super::{Checked, Test, ensure, filter, image, prepared, problem, words};

pub(crate) const TESTS: &[Test] = &[("the_current_context_is_kept", kept)];

/// Turns the status of a driver function into a result.
pub(super) fn driver(what: &str, status: CUresult) -> Checked {
    ensure(status == CUresult::CUDA_SUCCESS, || format!("{what}: {status:?}"))
}

/// Enters the primary context of a CUDA device, in which the library works, too.
pub(super) fn enter_primary(device: &Device) -> Result<Context, String> {
    let number = device.gpu().ok_or("a CUDA device")?.number;
    let context = cust::device::Device::get_device(number as u32).and_then(|device| {
        let context = Context::new(device)?;
        CurrentContext::set_current(&context).map(|()| context)
    });
    context.map_err(|error| error.to_string())
}

/// The current context of this thread; null if there is none.
pub(crate) fn current() -> CUcontext {
    let mut context = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    let status = unsafe { sys::cuCtxGetCurrent(&raw mut context) };
    assert_eq!(status, CUresult::CUDA_SUCCESS);
    context
}

fn set_current(context: CUcontext) {
    // SAFETY: the handle is null, or that of an open context.
    let status = unsafe { sys::cuCtxSetCurrent(context) };
    assert_eq!(status, CUresult::CUDA_SUCCESS);
}

/// A guard. Its drop makes the context current that was current before.
pub(super) struct Restored(CUcontext);

impl Restored {
    pub(super) fn keep() -> Self {
        Self(current())
    }

    /// Makes a context current until the guard is dropped.
    pub(super) fn enter(context: CUcontext) -> Self {
        let before = Self::keep();
        set_current(context);
        before
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        set_current(self.0);
    }
}

/// A context of another library.
pub(crate) struct OtherContext(CUcontext);

impl OtherContext {
    pub(crate) fn new(number: usize) -> Self {
        cust::init(cust::CudaFlags::empty()).expect("the driver starts");
        let _restored = Restored::keep();
        let mut context = std::ptr::null_mut();
        // SAFETY: the driver writes one handle. The number is that of a device.
        let status = unsafe { sys::cuCtxCreate_v2(&raw mut context, 0, number as i32) };
        assert_eq!(status, CUresult::CUDA_SUCCESS);
        Self(context)
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle(self.0)
    }
}

impl Drop for OtherContext {
    fn drop(&mut self) {
        // SAFETY: the context is open, and no thread uses it any more.
        let status = unsafe { sys::cuCtxDestroy_v2(self.0) };
        assert_eq!(status, CUresult::CUDA_SUCCESS);
    }
}

/// A context's handle, or null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(CUcontext);

// SAFETY: a handle is a number to the driver, which any thread may make its current context.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    pub(crate) const NULL: Self = Self(std::ptr::null_mut());
}

/// Makes calls with this current context, and checks that it stays current.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) name: &'static str,
    pub(crate) context: Handle,
}

impl Watch {
    /// Makes a call that must succeed.
    pub(crate) fn call<R>(&self, what: &str, work: impl FnOnce() -> faltung::Result<R>) -> Result<R, String> {
        let _restored = Restored::enter(self.context.0);
        let done = work();
        self.check(what)?;
        done.map_err(|error| format!("{what}, {}: {}", self.name, words(error)))
    }

    /// Makes a call that must fail.
    fn refused<R: Debug>(&self, what: &str, work: impl FnOnce() -> faltung::Result<R>) -> Checked {
        let done = self.call(what, || Ok(work()))?;
        ensure(done.is_err(), || format!("{what} is no error, {}: {done:?}", self.name))
    }

    /// Drops a value on this thread.
    pub(crate) fn drop<T>(&self, what: &str, value: T) -> Checked {
        self.call(&format!("to drop {what}"), || {
            drop(value);
            Ok(())
        })
    }

    /// Drops a value on another thread.
    pub(crate) fn drop_elsewhere<T: Send>(&self, what: &str, value: T) -> Checked {
        let what = format!("{what} on another thread");
        std::thread::scope(|scope| scope.spawn(|| self.drop(&what, value)).join().map_err(super::message)?)
    }

    fn check(&self, what: &str) -> Checked {
        let found = current();
        ensure(found == self.context.0, || {
            format!("{what} left the context {found:?}, not {:?}: {}", self.context.0, self.name)
        })
    }
}

/// All calls, with no current context, with another library's, and with the one that the device itself uses.
fn kept(device: &Device) -> Checked {
    let number = device.gpu().map_or(0, |gpu| gpu.number);
    let other = OtherContext::new(number);
    let restored = Restored::keep();
    let own = enter_primary(device)?;
    drop(restored);
    for watch in [
        Watch { name: "without a context", context: Handle::NULL },
        Watch { name: "with another library's context", context: other.handle() },
        Watch { name: "with the device's context", context: Handle(own.as_raw()) },
    ] {
        calls(device, watch)?;
        // Another thread has a context of its own.
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| calls(device, watch)).join());
        elsewhere.map_err(super::message)??;
    }
    Ok(())
}

/// Makes every call of the handles of a CUDA device.
fn calls(device: &Device, watch: Watch) -> Checked {
    let number = device.gpu().map_or(0, |gpu| gpu.number);
    watch.call("devices", faltung::devices)?;
    let again = watch.call("Device::cuda", || Device::cuda(number))?;
    watch.call("clone", || Ok(again.clone()))?;
    watch.refused("Device::cuda of no device", || Device::cuda(usize::from(u16::MAX)))?;
    watch.call("describe", || Ok(again.describe()))?;
    watch.call("rates", || again.rates())?;
    convolutions(&again, watch)?;
    images(&again, watch)?;
    watch.call("free_unused_memory", || again.free_unused_memory())?;
    watch.drop_elsewhere("a Device", again)
}

/// Filters from host memory to host memory.
fn convolutions(device: &Device, watch: Watch) -> Checked {
    let filter = filter(3, 61);
    for (name, width, height) in [("small", 40, 30), ("middle", 330, 220), ("large", 1030, 1040)] {
        let source = image::<f32>(width, height, 1, 61);
        let what = |call: &str| format!("{call} of a {name} image");
        watch.call::<Image<f32>>(&what("apply"), || device.apply(&filter, &source))?;
        let ready = prepared::<f32, f32>(device, &filter, &source)?;
        let mut from = watch.call(&what("page_locked"), || device.page_locked::<f32>(width * height))?;
        let mut to = watch.call(&what("page_locked"), || device.page_locked::<f32>(width * height))?;
        from.copy_from_slice(source.values());
        for _ in 0..3 {
            watch.call::<Image<f32>>(&what("Prepared::apply"), || ready.apply(&source))?;
            watch.call(&what("apply_values"), || ready.apply_values(&from, &mut to))?;
        }
        let (view, result) =
            (View::new(width, height, 1, width, &from), ViewMut::new(width, height, 1, width, &mut to));
        let (view, result) = (view.map_err(words)?, result.map_err(words)?);
        watch.call(&what("run_batch"), || ready.run_batch::<f32, f32>(&[view], &mut [result]))?;
        watch.drop_elsewhere("a PageLocked", from)?;
        watch.drop("a PageLocked", to)?;
        watch.drop_elsewhere("a Prepared", ready)?;
        let limited = device.clone().with_memory_limit(width * height * 4);
        watch.call::<Image<f32>>(&what("apply in strips"), || limited.apply(&filter, &source))?;
        watch.drop("a Device with what it has made ready", limited)?;
    }
    let (one, wide) = (image::<f32>(40, 30, 1, 61), image::<f32>(41, 30, 1, 61));
    let asked = problem::<f32, f32>(&filter, &one)?;
    watch.call("choice", || device.plan(&asked, VariantChoice::Auto))?;
    for variant in Variant::ALL {
        let choice = VariantChoice::Named(variant);
        let ready = watch.call(variant.name(), || Ok(device.prepare(&asked, choice)))?;
        watch.drop("a Prepared", ready)?;
    }
    watch.refused("prepare without memory", || {
        device.clone().with_memory_limit(10).prepare(&asked, VariantChoice::Auto)
    })?;
    let on_cpu = watch
        .call("prepare_or_cpu", || device.clone().with_memory_limit(10).prepare_or_cpu(&asked, VariantChoice::Auto))?;
    watch.call::<Image<f32>>("apply on the CPU", || on_cpu.apply(&one))?;
    watch.refused::<Image<f32>>("apply of another size", || on_cpu.apply(&wide))?;
    let ready = watch.call("prepare", || device.prepare(&asked, VariantChoice::Auto))?;
    watch.refused::<Image<f32>>("apply of another size", || ready.apply(&wide))?;
    watch.refused("page_locked of too much", || device.page_locked::<f32>(usize::MAX / 8))
}

/// Filters images on the device.
fn images(device: &Device, watch: Watch) -> Checked {
    let (filter, source) = (filter(3, 62), image::<f32>(41, 30, 1, 62));
    let ready = prepared::<f32, f32>(device, &filter, &source)?;
    let stream = watch.call("stream", || device.stream())?;
    let second = watch.call("stream", || device.stream())?;
    let start = watch.call("record", || stream.record())?;
    let on_device = watch.call("upload", || device.upload(&source, &stream))?;
    let mut result: DeviceImage<f32> = watch.call("run", || ready.run(&on_device, &second))?;
    drop(watch.call("zeros", || device.zeros::<f32>(41, 30, 1, &stream))?);
    watch.call("run_into", || ready.run_into(&on_device, &mut result, &stream))?;
    watch.call("download", || result.download(&second))?;
    let mut room = image::<f32>(41, 30, 1, 63);
    watch.call("download_into", || result.download_into(room.view_mut(), &second))?;
    let pipeline = watch.call("pipeline", || device.pipeline(&[filter.clone(), filter.clone(), filter.clone()]))?;
    watch.call("Pipeline::prepare", || pipeline.prepare::<f32, f32>(41, 30, 1))?;
    let piped: DeviceImage<f32> = watch.call("Pipeline::run", || pipeline.run(&on_device, &stream))?;
    watch.call::<Image<f32>>("Pipeline::apply", || pipeline.apply(&source))?;
    let end = watch.call("record", || stream.record())?;
    watch.call("wait_for", || second.wait_for(&end))?;
    watch.call("is_complete", || end.is_complete())?;
    watch.call("Stream::synchronize", || stream.synchronize())?;
    watch.call("Event::synchronize", || end.synchronize())?;
    watch.call("since", || end.since(&start))?;
    let host = Device::cpu().stream().map_err(words)?;
    watch.refused("download on the host's stream", || result.download(&host))?;
    watch.call("wait_for of the host's stream", || host.wait_for(&end))?;

    // These values are dropped while work is under way.
    let pending: DeviceImage<f32> = watch.call("run", || ready.run(&on_device, &second))?;
    let foreign = same_memory(&on_device)?;
    let read: DeviceImage<f32> = watch.call("run of foreign memory", || ready.run(&foreign, &stream))?;
    watch.drop_elsewhere("an image of foreign memory", foreign)?;
    watch.drop_elsewhere("a DeviceImage", on_device)?;
    watch.drop("a DeviceImage", pending)?;
    watch.drop_elsewhere("a Prepared", ready)?;
    watch.drop_elsewhere("a Pipeline", pipeline)?;
    watch.drop_elsewhere("a Stream", stream)?;
    watch.drop("a Stream", second)?;
    watch.drop_elsewhere("an Event", start)?;
    watch.drop("an Event", end)?;
    watch.drop_elsewhere("DeviceImages", [read, result, piped])
}

/// An image in the memory of another one, which it does not own.
fn same_memory(of: &DeviceImage<f32>) -> Result<DeviceImage<f32>, String> {
    let pointer = of.as_ptr().cast_mut();
    // SAFETY: the other image lives longer, both are only read, and its upload is done.
    unsafe { DeviceImage::from_raw(pointer, of.width(), of.height(), of.channels(), of.pitch(), ()) }.map_err(words)
}

/// The first handle of a device and the last one: the context is opened and closed.
pub(crate) fn open_and_close(number: usize) -> Checked {
    let other = OtherContext::new(number);
    for watch in [
        Watch { name: "without a context", context: Handle::NULL },
        Watch { name: "with another library's context", context: other.handle() },
    ] {
        let device = watch.call("Device::cuda, first", || Device::cuda(number))?;
        watch.drop("the last Device", device)?;
        let device = watch.call("Device::auto", || Ok(Device::auto()))?;
        ensure(device.backend() == "cuda", || format!("{:?}", device.reason()))?;
        let stream = watch.call("stream", || device.stream())?;
        let image = watch.call("upload", || device.upload(&image::<u8>(20, 10, 1, 1), &stream))?;
        watch.drop("a Device", device)?;
        watch.drop("a Stream", stream)?;
        watch.drop_elsewhere("the last handle, an image", image)?;
    }
    Ok(())
}

/// The checks can fail.
pub(crate) fn planted(number: usize) -> Checked {
    let other = OtherContext::new(number);
    let watch = Watch { name: "planted", context: Handle::NULL };
    let changed = watch.call("a call that changes the context", || {
        set_current(other.0);
        Ok(())
    });
    ensure(changed.is_err_and(|error| error.contains("left the context")), || "it was not seen".to_owned())?;
    ensure(current().is_null(), || "the context was not restored".to_owned())
}
