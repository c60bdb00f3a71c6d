//! The tutorials' kernels on a CUDA device: arrays, launches, times.
//!
//! # Why a launch is sound
//! As in [`launch`](super::launch): a call is launched by [`Bench::launch`] alone, which gets it from
//! [`Lab`](crate::lab::Lab) after its check: every array is as long as the arguments claim, whole numbers are in range,
//! block and shared memory are those of the kernel's own shape. A call borrows its outputs exclusively, and an array
//! waits for the stream before it is freed.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cust::error::CudaError;
use cust::function::Function;
use cust::launch;
use cust::memory::{DeviceBuffer, bytemuck};
use cust::stream::Stream;
use kernels_gpu::abi::kernel::Kernel;

use super::Gpu;
use super::driver;
use super::kernel::function;
use super::launch::Area;
use super::lend::DeviceRows;
use super::status::DriverResultExt;
use super::stream::{Mark, OwnStream};
use crate::lab::list::tutorial_kernels;
use crate::lab::{self, Call, Element, Shape};
use crate::rows::{HostRows, HostRowsMut};
use crate::{Result, View, ViewMut};

/// An array on a device.
pub(crate) struct DeviceArray<T: Element> {
    stream: Arc<OwnStream>,
    /// None once it is freed.
    buffer: Option<DeviceBuffer<T>>,
}

impl<T: Element> DeviceArray<T> {
    fn buffer(&self) -> &DeviceBuffer<T> {
        self.buffer.as_ref().expect("it is freed last")
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer().len()
    }
}

impl<T: Element> std::fmt::Debug for DeviceArray<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceArray").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl<T: Element> Drop for DeviceArray<T> {
    fn drop(&mut self) {
        // A kernel may still be using it. What fails here was reported by the call that caused it, or the device is lost.
        let _entered = self.stream.gpu.enter();
        let _ = driver::finish(self.stream.stream(), "wait for the device");
        self.buffer = None;
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
        $self.$name.on_device().buffer().as_device_ptr()
    };
    ($self:ident, write, $name:ident) => {
        $self.$name.on_device().buffer().as_device_ptr()
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
pub(crate) struct Bench {
    /// Made when it is first needed.
    stream: OnceCell<Arc<OwnStream>>,
    /// Of modules that the device keeps.
    functions: RefCell<HashMap<&'static str, Function<'static>>>,
    gpu: Arc<Gpu>,
}

impl std::fmt::Debug for Bench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bench").field("gpu", &self.gpu).finish_non_exhaustive()
    }
}

impl Bench {
    pub(crate) fn new(gpu: &Arc<Gpu>) -> Self {
        Self { gpu: Arc::clone(gpu), stream: OnceCell::new(), functions: RefCell::default() }
    }

    fn stream(&self) -> Result<&Arc<OwnStream>> {
        if self.stream.get().is_none() {
            // A lab belongs to one thread: nobody else has filled the place meanwhile.
            let _ = self.stream.set(OwnStream::new(&self.gpu)?);
        }
        Ok(self.stream.get().expect("filled above"))
    }

    /// The most shared memory of a block, in bytes.
    pub(crate) fn shared_limit(&self) -> u64 {
        self.gpu.info.shared_bytes_per_block
    }

    /// Memory for `length` elements.
    pub(crate) fn allocate<T: Element>(&self, length: usize) -> Result<DeviceArray<T>> {
        let _entered = self.gpu.enter()?;
        // SAFETY: every bit pattern is a value of these types, and whoever makes the array fills it at once.
        let buffer = match unsafe { DeviceBuffer::uninitialized(length) } {
            Err(CudaError::OutOfMemory | CudaError::InvalidMemoryAllocation) => {
                return Err(self.gpu.out_of_memory(length.saturating_mul(size_of::<T>()), None));
            }
            result => result.context(format!("allocate {length} values"))?,
        };
        Ok(DeviceArray { stream: Arc::clone(self.stream()?), buffer: Some(buffer) })
    }

    /// Copies to the device, and waits.
    pub(crate) fn write<T: Element>(&self, array: &mut DeviceArray<T>, values: &[T]) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        self.upload(rows(array), bytemuck::cast_slice(values))
    }

    /// Fills an array with ones in all bits, which is NaN in `f32`.
    pub(crate) fn poison<T: Element>(&self, array: &mut DeviceArray<T>) -> Result<()> {
        if array.len() == 0 {
            return Ok(());
        }
        let DeviceRows { address, bytes, .. } = rows(array);
        self.gpu.lend(|lent| {
            lent.uses(self.stream()?.stream());
            // SAFETY: the array is borrowed exclusively, and the stream does one thing after the other.
            unsafe { driver::fill(Area { address, bytes }, u8::MAX, self.stream()?.stream()) }.context("fill an array")
        })
    }

    /// Copies from the device, after all that was begun before.
    pub(crate) fn read<T: Element>(&self, array: &DeviceArray<T>, values: &mut [T]) -> Result<()> {
        self.gpu.lend(|lent| {
            lent.uses(self.stream()?.stream());
            if values.is_empty() {
                return Ok(());
            }
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(values);
            let view = ViewMut::new(bytes.len(), 1, 1, bytes.len(), bytes)?;
            // SAFETY: the array lives longer than this call.
            unsafe { lent.download(HostRowsMut::of(view), rows(array), self.stream()?.stream()) }
                .context("copy values from the device")
        })
    }

    /// Sets a constant array of the kernel's module.
    pub(crate) fn set_constant(&self, kernel: &Kernel, symbol: &str, values: &[f32]) -> Result<()> {
        let _entered = self.gpu.enter()?;
        self.with(kernel, |function| {
            let action = || format!("find the constant array {symbol}");
            let (address, found) = driver::constant(function, symbol).context(action())?;
            let bytes = size_of_val(values);
            lab::same_length("constant memory", values.len(), (found / size_of::<f32>()).min(values.len()))?;
            self.upload(DeviceRows::one(address, bytes), bytemuck::cast_slice(values))
        })
    }

    /// Copies bytes to the device, behind what was begun before, and waits.
    fn upload(&self, to: DeviceRows, bytes: &[u8]) -> Result<()> {
        let view = View::new(bytes.len(), 1, 1, bytes.len(), bytes)?;
        self.gpu.lend(|lent| {
            // SAFETY: `to` is an array, or of a module that stays loaded, and is as long, as the callers have checked.
            unsafe { lent.upload(to, HostRows::of(&view), self.stream()?.stream()) }
                .context("copy values to the device")
        })
    }

    /// Launches a call that has been checked, without waiting for it.
    pub(crate) fn launch(&self, kernel: &Kernel, call: &dyn Call, grid: (u32, u32), shape: Shape) -> Result<()> {
        let _entered = self.gpu.enter()?;
        self.with(kernel, |function| {
            if shape.shared_bytes > 48 * 1024 {
                driver::allow_shared_memory(function, shape.shared_bytes as u32)
                    .context(format!("allow {} bytes of shared memory", shape.shared_bytes))?;
            }
            // SAFETY: `Lab::run` has checked the call, its shape against the device's limits, and whose its arrays are.
            unsafe { call.launch(function, grid, shape, self.stream()?.stream()) }
                .context(format!("launch {}", kernel.symbol))
        })
    }

    /// Does something with a kernel's function, which is looked up once.
    fn with<R>(&self, kernel: &Kernel, work: impl FnOnce(&Function<'static>) -> Result<R>) -> Result<R> {
        if !self.functions.borrow().contains_key(kernel.symbol) {
            let found = function(&self.gpu.module(kernel.module)?, kernel.symbol)?;
            self.functions.borrow_mut().insert(kernel.symbol, found);
        }
        work(&self.functions.borrow()[kernel.symbol])
    }

    /// Waits for the stream.
    pub(crate) fn wait(&self) -> Result<()> {
        self.stream()?.synchronize()
    }

    /// Starts a clock on the device.
    pub(crate) fn start(&self) -> Result<Mark> {
        self.stream()?.record()
    }

    /// The time that the device took since then.
    pub(crate) fn stop(&self, start: &Mark) -> Result<Duration> {
        let stop = self.stream()?.record()?;
        stop.synchronize()?;
        stop.since(start)
    }
}

/// All of an array, as one row.
fn rows<T: Element>(array: &DeviceArray<T>) -> DeviceRows {
    DeviceRows::one(array.buffer().as_device_ptr().as_raw(), array.len() * size_of::<T>())
}
