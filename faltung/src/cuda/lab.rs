//! The tutorials' kernels on a CUDA device: arrays, launches, times.
//!
//! # Why a launch is sound
//! As in [`launch`](super::launch): a call is launched by [`Bench::launch`] alone, which gets it from
//! [`Lab`](crate::lab::Lab) after its check: every array is as long as the arguments claim, whole numbers are in range,
//! block and shared memory are those of the kernel's own shape. A call borrows its outputs exclusively, and an array
//! waits for the stream before it is freed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::function::Function;
use cust::launch;
use cust::memory::{DeviceBuffer, bytemuck, mem_get_info};
use cust::stream::Stream;
use kernels_gpu::abi::kernel::Kernel;

use super::Gpu;
use super::driver;
use super::lend::DeviceRows;
use super::status::DriverResultExt;
use crate::lab::list::tutorial_kernels;
use crate::lab::{self, Call, Element, Shape};
use crate::{Error, Result};

/// An array on a device.
pub(crate) struct DeviceArray<'gpu, T: Element> {
    gpu: &'gpu Gpu,
    buffer: DeviceBuffer<T>,
}

impl<T: Element> DeviceArray<'_, T> {
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }
}

impl<T: Element> std::fmt::Debug for DeviceArray<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceArray").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Element> Drop for DeviceArray<'_, T> {
    fn drop(&mut self) {
        // A kernel may still be using it.
        self.gpu.settle();
    }
}

/// How a call is launched on a device. For the structs of [`lab`], made from the list below.
pub trait LaunchOnDevice {
    /// Launches the kernel.
    ///
    /// # Errors
    /// The driver's, if it refuses.
    ///
    /// # Safety
    /// `function` is the call's kernel; the call has been checked, `grid` and `shape` are of its own shape, and its
    /// arrays are on the stream's device.
    #[doc(hidden)]
    unsafe fn launch(
        &self,
        function: &Function<'_>,
        grid: (u32, u32),
        shape: Shape,
        stream: &Stream,
    ) -> cust::error::CudaResult<()>;
}

/// What the kernel gets for an argument.
macro_rules! argument {
    ($self:ident, read, $name:ident) => {
        $self.$name.on_device().buffer.as_device_ptr()
    };
    ($self:ident, write, $name:ident) => {
        $self.$name.on_device().buffer.as_device_ptr()
    };
    ($self:ident, value, $name:ident) => {
        $self.$name
    };
}

/// The launch with all arguments but those of the host, which are taken out one by one.
macro_rules! launch_with {
    ($self:ident, $f:ident, $grid:expr, $shape:expr, $stream:ident; [$($kind:ident $name:ident)*]) => {
        launch!($f<<<$grid, $shape.block, $shape.shared_bytes as u32, $stream>>>($(argument!($self, $kind, $name)),*))
    };
    ($self:ident, $f:ident, $grid:expr, $shape:expr, $stream:ident; [$($done:tt)*] host $name:ident $($rest:tt)*) => {
        launch_with!($self, $f, $grid, $shape, $stream; [$($done)*] $($rest)*)
    };
    ($self:ident, $f:ident, $grid:expr, $shape:expr, $stream:ident; [$($done:tt)*] $kind:ident $name:ident $($rest:tt)*) => {
        launch_with!($self, $f, $grid, $shape, $stream; [$($done)* $kind $name] $($rest)*)
    };
}

macro_rules! launches {
    ($($struct:ident = $file:ident::$kernel:ident(
        $($name:ident: $kind:ident $type:tt $([$length:expr])?,)*
    ) on $shape:expr, requires [$($condition:expr, $words:literal);*];)*) => {$(
        impl LaunchOnDevice for lab::$struct<'_, '_> {
            unsafe fn launch(
                &self,
                function: &Function<'_>,
                grid: (u32, u32),
                shape: Shape,
                stream: &Stream,
            ) -> cust::error::CudaResult<()> {
                // SAFETY: the caller's promise; names, order and types of the arguments are those of the list, from
                // which the emulator's call of the same kernel is made, so that the compiler has checked them.
                unsafe { launch_with!(self, function, grid, shape, stream; [] $($kind $name)*) }
            }
        }
    )*};
}

tutorial_kernels!(launches);

/// A device with the kernels that were used.
pub(crate) struct Bench<'gpu> {
    gpu: &'gpu Gpu,
    functions: RefCell<HashMap<&'static str, Function<'gpu>>>,
}

impl std::fmt::Debug for Bench<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("gpu", self.gpu).finish_non_exhaustive()
    }
}

/// A clock that runs.
pub(crate) struct Clock<'gpu> {
    gpu: &'gpu Gpu,
    start: Event,
}

impl Drop for Clock<'_> {
    fn drop(&mut self) {
        // Another device may have been used since.
        self.gpu.enter_to_free();
    }
}

impl<'gpu> Bench<'gpu> {
    pub(crate) fn new(gpu: &'gpu Gpu) -> Self {
        Self { gpu, functions: RefCell::default() }
    }

    /// The most shared memory of a block, in bytes.
    pub(crate) fn shared_limit(&self) -> u64 {
        self.gpu.info.shared_bytes_per_block
    }

    /// Memory for `length` elements.
    pub(crate) fn allocate<T: Element>(&self, length: usize) -> Result<DeviceArray<'gpu, T>> {
        self.gpu.enter()?;
        // SAFETY: every bit pattern is a value of these types, and whoever makes the array fills it at once.
        let buffer = match unsafe { DeviceBuffer::uninitialized(length) } {
            Err(CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation) => {
                let (free, total) = mem_get_info().unwrap_or((0, 0));
                return Err(Error::DeviceMemory { needed: length.saturating_mul(size_of::<T>()), free, total });
            }
            result => result.context(format!("allocate {length} values"))?,
        };
        Ok(DeviceArray { gpu: self.gpu, buffer })
    }

    /// Copies to the device, and waits.
    pub(crate) fn write<T: Element>(&self, array: &mut DeviceArray<'gpu, T>, values: &[T]) -> Result<()> {
        self.gpu.lend(|lent| {
            if values.is_empty() {
                return Ok(());
            }
            // SAFETY: the array lives longer than this call.
            unsafe { lent.upload(rows(array), bytemuck::cast_slice(values), &self.gpu.stream) }
                .context("copy values to the device")
        })
    }

    /// Fills an array with ones in all bits, which is NaN in `f32`.
    pub(crate) fn poison<T: Element>(&self, array: &mut DeviceArray<'gpu, T>) -> Result<()> {
        self.gpu.lend(|lent| {
            if array.len() == 0 {
                return Ok(());
            }
            lent.uses(&self.gpu.stream);
            // SAFETY: the array is borrowed exclusively, and the stream does one thing after the other.
            unsafe { array.buffer.set_8_async(u8::MAX, &self.gpu.stream) }.context("fill an array")
        })
    }

    /// Copies from the device, after all that was begun before.
    pub(crate) fn read<T: Element>(&self, array: &DeviceArray<'_, T>, values: &mut [T]) -> Result<()> {
        self.gpu.lend(|lent| {
            lent.uses(&self.gpu.stream);
            if values.is_empty() {
                return Ok(());
            }
            // SAFETY: the array lives longer than this call.
            unsafe { lent.download(bytemuck::cast_slice_mut(values), rows(array), &self.gpu.stream) }
                .context("copy values from the device")
        })
    }

    /// Sets a constant array of the kernel's module.
    pub(crate) fn set_constant(&self, kernel: &Kernel, symbol: &str, values: &[f32]) -> Result<()> {
        self.gpu.lend(|lent| {
            self.with(kernel, |function| {
                let action = || format!("find the constant array {symbol}");
                let (address, found) = driver::constant(function, symbol).context(action())?;
                let bytes = size_of_val(values);
                lab::same_length("constant memory", values.len(), (found / size_of::<f32>()).min(values.len()))?;
                let to = DeviceRows { address: address.cast(), rows: 1, bytes, pitch: bytes };
                // SAFETY: the array is of the module's, which stays loaded, and is as long, as was just checked.
                unsafe { lent.upload(to, bytemuck::cast_slice(values), &self.gpu.stream) }
                    .context(format!("copy values to the constant array {symbol}"))
            })
        })
    }

    /// Launches a call that has been checked, without waiting for it.
    pub(crate) fn launch(&self, kernel: &Kernel, call: &dyn Call, grid: (u32, u32), shape: Shape) -> Result<()> {
        self.gpu.enter()?;
        self.with(kernel, |function| {
            if shape.shared_bytes > 48 * 1024 {
                driver::allow_shared_memory(function, shape.shared_bytes as u32)
                    .context(format!("allow {} bytes of shared memory", shape.shared_bytes))?;
            }
            // SAFETY: `Lab::run` has checked the call, its shape against the device's limits, and whose its arrays are.
            unsafe { call.launch(function, grid, shape, &self.gpu.stream) }.context(format!("launch {}", kernel.symbol))
        })
    }

    /// Does something with a kernel's function, which is looked up once.
    fn with<R>(&self, kernel: &Kernel, work: impl FnOnce(&Function<'gpu>) -> Result<R>) -> Result<R> {
        if !self.functions.borrow().contains_key(kernel.symbol) {
            let (module, _) = self.gpu.module(kernel.module)?;
            let function = module.get_function(kernel.symbol).context(format!("find the kernel {}", kernel.symbol))?;
            self.functions.borrow_mut().insert(kernel.symbol, function);
        }
        work(&self.functions.borrow()[kernel.symbol])
    }

    /// Waits for the stream.
    pub(crate) fn wait(&self) -> Result<()> {
        self.gpu.enter()?;
        driver::finish(&self.gpu.stream, "run the kernels")
    }

    /// Starts a clock on the device.
    pub(crate) fn start(&self) -> Result<Clock<'gpu>> {
        self.gpu.enter()?;
        let start = Event::new(EventFlags::DEFAULT).context("create a timing event")?;
        start.record(&self.gpu.stream).context("record a timing event")?;
        Ok(Clock { gpu: self.gpu, start })
    }

    /// The time that the device took since then.
    pub(crate) fn stop(&self, clock: &Clock<'_>) -> Result<Duration> {
        self.gpu.enter()?;
        let stop = Event::new(EventFlags::DEFAULT).context("create a timing event")?;
        stop.record(&self.gpu.stream).context("record a timing event")?;
        stop.synchronize().context("run the kernels")?;
        let elapsed = stop.elapsed_time_f32(&clock.start).context("read the timing events")?;
        Ok(Duration::from_secs_f64(f64::from(elapsed.max(0.0)) / 1e3))
    }
}

/// All of an array, as one row.
fn rows<T: Element>(array: &DeviceArray<'_, T>) -> DeviceRows {
    let bytes = array.len() * size_of::<T>();
    DeviceRows { address: array.buffer.as_device_ptr().cast(), rows: 1, bytes, pitch: bytes }
}
