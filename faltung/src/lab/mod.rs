//! Any kernel of the tutorials on arrays of one's own: on a CUDA device, or on the emulator.
//!
//! A [`Lab`] makes [`Array`]s on its device, and launches *calls*: structs named after the kernels, whose fields are
//! the kernels' arguments. Lengths, limits and grid are checked before anything runs, so that a call is safe.
//!
//! ```
//! use faltung::Device;
//! use faltung::lab::AddConstant;
//!
//! let device = Device::emulator(1);
//! let mut lab = device.lab().expect("the CPU alone has none");
//! let input = lab.upload("input", &[1.0_f32, 2.0, 3.0])?;
//! let mut output = lab.allocate::<f32>("output", 3)?;
//! lab.launch(&AddConstant { input: &input, output: &mut output, constant: 10.0, size: 3, block: 256 })?;
//! assert_eq!(lab.download(&output)?, [11.0, 12.0, 13.0]);
//! # Ok::<(), faltung::Error>(())
//! ```

mod calls;
pub(super) mod list;
mod shape;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cuda_emulator::{Buffer, Counts, Emulator, Limits, Memory, OutOfMemory, Role};
use kernels_gpu::abi::kernel::Kernel;
use kernels_gpu::cuda_std::Scalar;
use kernels_gpu::cuda_std::constant::ConstantMemory;

use super::cuda::{Bench, DeviceArray};
use super::device::Kind;
use crate::{Device, emulated};
use crate::{Error, Result};

pub use self::calls::*;
pub use self::shape::Shape;

/// What an array can hold: `u8`, `u32`, `f32`.
pub trait Element: Scalar + cust::memory::DeviceCopy + cust::memory::bytemuck::Pod {}
impl Element for u8 {}
impl Element for u32 {}
impl Element for f32 {}

/// An array in the memory of a [`Lab`]'s device.
#[derive(Debug)]
pub struct Array<'device, T: Element> {
    /// The lab that it belongs to.
    lab: u64,
    home: Home<T>,
    /// It lives as long as the device, not longer.
    device: PhantomData<&'device Device>,
}

/// Where an array is.
#[derive(Debug)]
enum Home<T: Element> {
    Emulated(Buffer<T>),
    Cuda(DeviceArray<T>),
}

impl<T: Element> Array<'_, T> {
    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.home {
            Home::Emulated(buffer) => buffer.len(),
            Home::Cuda(array) => array.len(),
        }
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn emulated(&self) -> &Buffer<T> {
        match &self.home {
            Home::Emulated(buffer) => buffer,
            Home::Cuda(_) => unreachable!("the lab has asked whether the array is its own"),
        }
    }

    pub(crate) fn on_device(&self) -> &DeviceArray<T> {
        match &self.home {
            Home::Cuda(array) => array,
            Home::Emulated(_) => unreachable!("the lab has asked whether the array is its own"),
        }
    }
}

/// A device for kernels on arrays.
#[derive(Debug)]
pub struct Lab<'device> {
    number: u64,
    place: Place,
    /// Arrays live as long as the device, not longer.
    device: PhantomData<&'device Device>,
}

#[derive(Debug)]
enum Place {
    Emulator { emulator: Emulator, memory: Memory },
    Cuda(Bench),
}

impl Device {
    /// A lab on this device; None on the CPU, which has no kernels.
    #[doc(hidden)]
    #[must_use]
    pub fn lab(&self) -> Option<Lab<'_>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let place = match &self.kind {
            Kind::Cpu => return None,
            Kind::Emulator { seed } => Place::Emulator { emulator: Emulator::new().seed(*seed), memory: Memory::new() },
            Kind::Cuda(gpu) => Place::Cuda(Bench::new(gpu)),
        };
        Some(Lab { number: NUMBERS.fetch_add(1, Ordering::Relaxed), place, device: PhantomData })
    }
}

impl<'device> Lab<'device> {
    /// Whether it is the emulator: then every access is checked, times mean nothing, and
    /// [`launch_counting`](Self::launch_counting) counts.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        matches!(self.place, Place::Emulator { .. })
    }

    /// An array that holds `values`. `name` is for reports.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::Driver`].
    pub fn upload<T: Element>(&mut self, name: &str, values: &[T]) -> Result<Array<'device, T>> {
        let home = match &mut self.place {
            Place::Emulator { memory, .. } => Home::Emulated(memory.try_upload(name, values).map_err(emulated::short)?),
            Place::Cuda(bench) => {
                let mut array = bench.allocate(values.len())?;
                bench.write(&mut array, values)?;
                Home::Cuda(array)
            }
        };
        Ok(Array { lab: self.number, home, device: PhantomData })
    }

    /// An array for results. What nothing writes is all ones (NaN in `f32`), and an error on the emulator.
    ///
    /// # Errors
    /// As for [`upload`](Self::upload).
    pub fn allocate<T: Element>(&mut self, name: &str, length: usize) -> Result<Array<'device, T>> {
        let home = match &mut self.place {
            Place::Emulator { memory, .. } => {
                Home::Emulated(memory.try_allocate(name, length, Role::Output).map_err(emulated::short)?)
            }
            Place::Cuda(bench) => {
                let mut array = bench.allocate(length)?;
                bench.poison(&mut array)?;
                Home::Cuda(array)
            }
        };
        Ok(Array { lab: self.number, home, device: PhantomData })
    }

    /// Replaces the values of an array.
    ///
    /// # Errors
    /// [`Error::Length`] if there are more or fewer values, [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is another lab's.
    pub fn write<T: Element>(&mut self, array: &mut Array<'device, T>, values: &[T]) -> Result<()> {
        self.owns(array);
        same_length("values", array.len(), values.len())?;
        match (&mut self.place, &mut array.home) {
            (Place::Cuda(bench), Home::Cuda(array)) => bench.write(array, values),
            (Place::Emulator { memory, .. }, Home::Emulated(buffer)) => {
                *buffer = memory.try_upload("values", values).map_err(emulated::short)?;
                Ok(())
            }
            _ => unreachable!("asked above"),
        }
    }

    /// The values of an array.
    ///
    /// # Errors
    /// [`Error::Emulator`] if a kernel left an element unwritten, [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is another lab's.
    pub fn download<T: Element>(&mut self, array: &Array<'_, T>) -> Result<Vec<T>> {
        let mut values = Vec::new();
        values.try_reserve_exact(array.len()).map_err(|_| {
            let bytes = array.len() as u64 * size_of::<T>() as u64;
            emulated::short(OutOfMemory { bytes, what: "an array's copy" })
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
    /// If the array is another lab's.
    pub fn read<T: Element>(&mut self, array: &Array<'_, T>, values: &mut [T]) -> Result<()> {
        self.owns(array);
        same_length("values", array.len(), values.len())?;
        match &mut self.place {
            Place::Cuda(bench) => bench.read(array.on_device(), values),
            Place::Emulator { memory, .. } => {
                if let Some((first, count)) = memory.unwritten(array.emulated()) {
                    let report = format!("{count} elements were not written, the first is number {first}");
                    return Err(Error::Emulator { kernel: "the kernels before".to_owned(), report });
                }
                values.copy_from_slice(&memory.download(array.emulated()));
                Ok(())
            }
        }
    }

    /// Sets a constant array of the module that `kernel` is in.
    ///
    /// # Errors
    /// [`Error::Length`] if there are more values than it holds, [`Error::Driver`].
    pub fn set_constant<C>(&mut self, _array: C, kernel: &str, values: &[f32]) -> Result<()>
    where
        C: ConstantMemory<Element = f32>,
    {
        if values.len() > C::LENGTH {
            same_length("constant memory", C::LENGTH, values.len())?;
        }
        match &mut self.place {
            Place::Emulator { memory, .. } => {
                memory.set_constant(C::SYMBOL, values);
                Ok(())
            }
            Place::Cuda(bench) => bench.set_constant(&find(kernel), C::SYMBOL, values),
        }
    }

    /// Runs a kernel. On a CUDA device it may still be running on return; whatever is asked of the lab next comes after
    /// it.
    ///
    /// # Errors
    /// [`Error::Length`] if an array is too short, [`Error::TooLarge`] or [`Error::Number`] for sizes beyond what the
    /// kernel or the device can do, [`Error::Emulator`] if the emulator finds a defect, [`Error::Driver`].
    ///
    /// # Panics
    /// If an array is another lab's.
    pub fn launch(&mut self, call: &dyn Call) -> Result<()> {
        self.run(call, false).map(|_| ())
    }

    /// Runs a kernel as [`launch`](Self::launch) does; the emulator also counts what a profiler would.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch).
    ///
    /// # Panics
    /// As for [`launch`](Self::launch).
    pub fn launch_counting(&mut self, call: &dyn Call) -> Result<Option<Counts>> {
        let counts = self.run(call, true)?;
        Ok(self.is_emulator().then_some(counts))
    }

    fn run(&mut self, call: &dyn Call, counting: bool) -> Result<Counts> {
        call.arrays(&|lab| assert_eq!(lab, self.number, "an array of another lab"));
        call.check()?;
        let (shape, kernel) = (call.shape(), find(call.symbol()));
        let most = match &self.place {
            Place::Emulator { .. } => Limits::H100.shared_bytes.into(),
            Place::Cuda(bench) => bench.shared_limit(),
        };
        if !shape.check(most)? {
            return Ok(Counts::default());
        }
        let grid = (shape.grid.0 as u32, shape.grid.1 as u32);
        match &mut self.place {
            Place::Emulator { emulator, memory } => {
                // At most 227 KiB, as was checked.
                let launch = cuda_emulator::Launch::flat(grid, shape.block, shape.shared_bytes as u32);
                let emulator = emulator.counting(counting);
                call.emulate(&mut |run| emulator.launch(kernel.symbol, &launch, memory, run))
                    .map_err(|error| emulated::failed(kernel.symbol, error))
            }
            Place::Cuda(bench) => {
                bench.launch(&kernel, call, grid, shape)?;
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
        let clock = match &self.place {
            Place::Cuda(bench) => Some(bench.start()?),
            Place::Emulator { .. } => None,
        };
        let start = Instant::now();
        for _ in 0..times {
            work(self)?;
        }
        match (clock, &self.place) {
            (Some(clock), Place::Cuda(bench)) => bench.stop(&clock),
            _ => Ok(start.elapsed()),
        }
    }

    /// Waits until all that was begun is done.
    ///
    /// # Errors
    /// [`Error::Driver`]: what went wrong in a kernel shows here, or at the next copy.
    pub fn wait(&mut self) -> Result<()> {
        match &self.place {
            Place::Cuda(bench) => bench.wait(),
            Place::Emulator { .. } => Ok(()),
        }
    }

    fn owns<T: Element>(&self, array: &Array<'_, T>) {
        assert_eq!(array.lab, self.number, "an array of another lab");
    }
}

/// Fails for a slice of another length.
pub(super) fn same_length(what: &'static str, required: usize, found: usize) -> Result<()> {
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
