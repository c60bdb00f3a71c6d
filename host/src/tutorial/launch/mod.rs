//! Launches the tutorials' kernels on arrays of one's own, on a CUDA device or on the emulator.
//!
//! A [`Launcher`] makes [`Array`]s on its device. It launches calls: structs named after the kernels, whose fields are
//! the kernels' arguments. It checks lengths, limits and grid before a kernel runs, so a launch is safe.
//!
//! ```
//! use faltung::Device;
//! use host::tutorial::launch::{AddConstant, Launcher};
//!
//! let device = Device::emulator(1);
//! let mut launcher = Launcher::new(&device)?.expect("only the CPU has none");
//! let input = launcher.upload("input", &[1.0_f32, 2.0, 3.0])?;
//! let mut output = launcher.allocate::<f32>("output", 3)?;
//! launcher.launch(&AddConstant { input: &input, output: &mut output, constant: 10.0, size: 3, block: 256 })?;
//! assert_eq!(launcher.download(&output)?, [11.0, 12.0, 13.0]);
//! # Ok::<(), faltung::Error>(())
//! ```

mod cuda;
mod kernels;
mod shape;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cuda_emulator::{Buffer, Counts, Emulator, Memory, OutOfMemory, Role};
use cust::memory::{DeviceBuffer, DeviceCopy, bytemuck::Pod};
use kernels_gpu::abi::kernel::Kernel;
use kernels_gpu::cuda_std::Scalar;
use kernels_gpu::cuda_std::constant::ConstantMemory;

use self::cuda::{CudaArray, CudaQueue};
use faltung::{Device, Error, Result, memory};

pub use self::kernels::*;
pub use self::shape::LaunchShape;

/// What an array can hold: `u8`, `u32`, `f32`.
pub trait Element: Scalar + DeviceCopy + Pod {}
impl Element for u8 {}
impl Element for u32 {}
impl Element for f32 {}

/// An array in the memory of a [`Launcher`]'s device.
#[derive(Debug)]
pub struct Array<'device, T: Element> {
    /// The number of the launcher that made it.
    owner: u64,
    storage: ArrayStorage<T>,
    /// It lives as long as the device, not longer.
    device: PhantomData<&'device Device>,
}

/// Where the elements of an array are.
#[derive(Debug)]
enum ArrayStorage<T: Element> {
    Emulated(Buffer<T>),
    Cuda(CudaArray<T>),
}

impl<T: Element> Array<'_, T> {
    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.storage {
            ArrayStorage::Emulated(buffer) => buffer.len(),
            ArrayStorage::Cuda(array) => array.buffer.len(),
        }
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn emulated(&self) -> &Buffer<T> {
        match &self.storage {
            ArrayStorage::Emulated(buffer) => buffer,
            ArrayStorage::Cuda(_) => unreachable!("the launcher has checked that the array is its own"),
        }
    }

    fn on_cuda(&self) -> &DeviceBuffer<T> {
        match &self.storage {
            ArrayStorage::Cuda(array) => &array.buffer,
            ArrayStorage::Emulated(_) => unreachable!("the launcher has checked that the array is its own"),
        }
    }
}

/// A device for kernels on arrays.
#[derive(Debug)]
pub struct Launcher<'device> {
    number: u64,
    backend: Backend,
    /// Arrays live as long as the device, not longer.
    device: PhantomData<&'device Device>,
}

#[derive(Debug)]
enum Backend {
    Emulator { emulator: Emulator, memory: Memory },
    Cuda(CudaQueue),
}

impl<'device> Launcher<'device> {
    /// A launcher on this device; None on the CPU, which has no kernels.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(device: &'device Device) -> Result<Option<Self>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let backend = match (device.gpu(), device.emulator_seed()) {
            (Some(gpu), _) => Backend::Cuda(CudaQueue::new(gpu.number)?),
            (None, Some(seed)) => Backend::Emulator { emulator: Emulator::new().seed(seed), memory: Memory::new() },
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed), backend, device: PhantomData }))
    }

    /// Whether it is the emulator: then every access is checked, times mean nothing, and
    /// [`launch_counting`](Self::launch_counting) counts.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        matches!(self.backend, Backend::Emulator { .. })
    }

    /// An array that holds `values`. `name` is for reports.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Driver`].
    pub fn upload<T: Element>(&mut self, name: &str, values: &[T]) -> Result<Array<'device, T>> {
        let storage = match &mut self.backend {
            Backend::Emulator { memory, .. } => {
                ArrayStorage::Emulated(memory.try_upload(name, values).map_err(out_of_memory)?)
            }
            Backend::Cuda(queue) => {
                let mut array = queue.allocate(values.len())?;
                queue.write(&mut array, values)?;
                ArrayStorage::Cuda(array)
            }
        };
        Ok(Array { owner: self.number, storage, device: PhantomData })
    }

    /// An array for results. What nothing writes is all ones (NaN in `f32`), and an error on the emulator.
    ///
    /// # Errors
    /// As for [`upload`](Self::upload).
    pub fn allocate<T: Element>(&mut self, name: &str, length: usize) -> Result<Array<'device, T>> {
        let storage = match &mut self.backend {
            Backend::Emulator { memory, .. } => {
                ArrayStorage::Emulated(memory.try_allocate(name, length, Role::Output).map_err(out_of_memory)?)
            }
            Backend::Cuda(queue) => ArrayStorage::Cuda(queue.allocate(length)?),
        };
        Ok(Array { owner: self.number, storage, device: PhantomData })
    }

    /// Replaces the values of an array.
    ///
    /// # Errors
    /// [`Error::Length`] if there are more or fewer values, [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is another launcher's.
    pub fn write<T: Element>(&mut self, array: &mut Array<'device, T>, values: &[T]) -> Result<()> {
        self.owns(array);
        same_length("values", array.len(), values.len())?;
        match (&mut self.backend, &mut array.storage) {
            (Backend::Cuda(queue), ArrayStorage::Cuda(array)) => queue.write(array, values),
            (Backend::Emulator { memory, .. }, ArrayStorage::Emulated(buffer)) => {
                *buffer = memory.try_upload("values", values).map_err(out_of_memory)?;
                Ok(())
            }
            _ => unreachable!("an array of this launcher is on its device"),
        }
    }

    /// The values of an array.
    ///
    /// # Errors
    /// [`Error::Emulator`] if a kernel left an element unwritten, [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is another launcher's.
    pub fn download<T: Element>(&mut self, array: &Array<'_, T>) -> Result<Vec<T>> {
        let mut values = Vec::new();
        values.try_reserve_exact(array.len()).map_err(|_| {
            let bytes = array.len() as u64 * size_of::<T>() as u64;
            out_of_memory(OutOfMemory { bytes, what: "an array's copy" })
        })?;
        values.resize(array.len(), T::default());
        self.read(array, &mut values)?;
        Ok(values)
    }

    /// Copies the values of an array.
    ///
    /// # Errors
    /// As for [`download`](Self::download); [`Error::Length`] if `values` has another length.
    ///
    /// # Panics
    /// If the array is another launcher's.
    pub fn read<T: Element>(&mut self, array: &Array<'_, T>, values: &mut [T]) -> Result<()> {
        self.owns(array);
        same_length("values", array.len(), values.len())?;
        match (&mut self.backend, &array.storage) {
            (Backend::Cuda(queue), ArrayStorage::Cuda(array)) => queue.read(array, values),
            (Backend::Emulator { memory, .. }, ArrayStorage::Emulated(buffer)) => {
                if let Some((first, count)) = memory.unwritten(buffer) {
                    let report = format!("{count} elements were not written, the first is number {first}");
                    return Err(Error::Emulator { kernel: "the kernels before".to_owned(), report });
                }
                values.copy_from_slice(&memory.download(buffer));
                Ok(())
            }
            _ => unreachable!("an array of this launcher is on its device"),
        }
    }

    /// Sets a constant array of the module that `kernel` is in.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn set_constant<C, const N: usize>(&mut self, _array: C, kernel: &str, values: &[f32; N]) -> Result<()>
    where
        C: ConstantMemory<Element = f32>,
    {
        const { assert!(C::LENGTH == N, "as many values as the constant array holds") };
        match &mut self.backend {
            Backend::Emulator { memory, .. } => memory.set_constant(C::SYMBOL, values),
            Backend::Cuda(queue) => queue.set_constant(&find(kernel), C::SYMBOL, values)?,
        }
        Ok(())
    }

    /// Runs a kernel. On a CUDA device it may still run on return. Later calls of the launcher come after it.
    ///
    /// # Errors
    /// [`Error::Length`] if an array is too short, [`Error::TooLarge`] or [`Error::Number`] for sizes beyond what the
    /// kernel or the device can do, [`Error::Emulator`] if the emulator finds a defect, [`Error::Driver`].
    ///
    /// # Panics
    /// If an array is another launcher's.
    pub fn launch(&mut self, call: &dyn KernelCall) -> Result<()> {
        self.run(call, false).map(|_| ())
    }

    /// Runs a kernel as [`launch`](Self::launch) does; the emulator also counts what a profiler would.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch).
    ///
    /// # Panics
    /// As for [`launch`](Self::launch).
    pub fn launch_counting(&mut self, call: &dyn KernelCall) -> Result<Option<Counts>> {
        let counts = self.run(call, true)?;
        Ok(self.is_emulator().then_some(counts))
    }

    fn run(&mut self, call: &dyn KernelCall, counting: bool) -> Result<Counts> {
        call.owners(&|owner| assert_eq!(owner, self.number, "an array of another launcher"));
        call.check()?;
        let (shape, kernel) = (call.shape(), find(call.symbol()));
        if !shape.check()? {
            return Ok(Counts::default());
        }
        match &mut self.backend {
            Backend::Emulator { emulator, memory } => {
                let launch = cuda_emulator::Launch::flat(shape.grid_size(), shape.block, shape.shared_bytes as u32);
                let emulator = emulator.counting(counting);
                call.emulate(&mut |run| emulator.launch(kernel.symbol, &launch, memory, run))
                    .map_err(|error| emulator_error(kernel.symbol, error))
            }
            Backend::Cuda(queue) => {
                // SAFETY: the call, its arrays' owners and its shape were checked above.
                unsafe { queue.launch(&kernel, call, shape)? };
                Ok(Counts::default())
            }
        }
    }

    /// The time that `work` takes on the device, `times` times one after the other. (On the emulator that of the
    /// emulation, which says nothing about a GPU.)
    ///
    /// # Errors
    /// Those of `work`, [`Error::Driver`].
    pub fn timed(&mut self, times: usize, mut work: impl FnMut(&mut Self) -> Result<()>) -> Result<Duration> {
        let clock = match &self.backend {
            Backend::Cuda(queue) => Some(queue.record()?),
            Backend::Emulator { .. } => None,
        };
        let start = Instant::now();
        for _ in 0..times {
            work(self)?;
        }
        match (clock, &self.backend) {
            (Some(clock), Backend::Cuda(queue)) => queue.since(&clock),
            _ => Ok(start.elapsed()),
        }
    }

    fn owns<T: Element>(&self, array: &Array<'_, T>) {
        assert_eq!(array.owner, self.number, "an array of another launcher");
    }
}

/// Fails for a slice of another length.
fn same_length(what: &'static str, required: usize, found: usize) -> Result<()> {
    if required == found {
        return Ok(());
    }
    Err(Error::Length { what, width: required, height: 1, channels: 1, required, found })
}

/// The kernel with this symbol.
fn find(symbol: &str) -> Kernel {
    kernels_gpu::tutorials::kernels()
        .find(|kernel| kernel.symbol == symbol)
        .unwrap_or_else(|| panic!("{symbol} is not in the list of the tutorials' kernels"))
}

/// Memory of this machine that the emulator did not get.
fn out_of_memory(short: OutOfMemory) -> Error {
    let free = memory::free().unwrap_or(0).into();
    Error::HostMemory { what: format!("for {} on the emulator", short.what), needed: short.bytes.into(), free }
}

/// Why the emulator stopped a kernel.
fn emulator_error(kernel: &str, error: cuda_emulator::Error) -> Error {
    match error {
        cuda_emulator::Error::Memory { short, .. } => out_of_memory(short),
        other => Error::Emulator { kernel: kernel.to_owned(), report: other.to_string() },
    }
}
