//! A device: a GPU or the emulator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "cuda")]
use cuda_emulator::bytes_of_mut;
use cuda_emulator::{Counts, Emulator, Launch, Limits, OutOfMemory, Role, bytes_of};
use cuda_std::Scalar;
use cuda_std::constant::ConstantMemory;
use cuda_std::launch::Kernel;

use crate::arguments::Arguments;
use crate::buffer::Storage;
use crate::emulated::{EmulatedArray, EmulatedMemory};
use crate::{Buffer, Error, Ptx};

/// A GPU or the emulator. Threads may share it.
///
/// The emulator runs one launch at a time, on the threads of rayon's pool. A task of that pool must not share an
/// emulator with another task: it could wait for itself.
#[derive(Debug)]
pub struct Device {
    number: u64,
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Emulator(Emulator, Arc<EmulatedMemory>),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::CudaDevice),
}

/// A number that no other device of the process has.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Device {
    /// The emulator with the limits of an H100. The environment variable `CUDA_EMULATOR_SEED` sets the order of
    /// threads.
    #[must_use]
    pub fn emulator() -> Self {
        Self::with_emulator(Emulator::new())
    }

    /// The emulator with other limits or another seed, or with one block after the other.
    #[must_use]
    pub fn with_emulator(emulator: Emulator) -> Self {
        Self { number: next_number(), backend: Backend::Emulator(emulator, Arc::default()) }
    }

    /// The GPU with this number; the first one is 0.
    ///
    /// # Errors
    /// [`Error::NoDriver`] without a CUDA driver, [`Error::Driver`] if there is no such GPU.
    #[cfg(feature = "cuda")]
    pub fn cuda(number: u32) -> Result<Self, Error> {
        Ok(Self { number: next_number(), backend: Backend::Cuda(crate::cuda::CudaDevice::open(number)?) })
    }

    /// The first GPU if there is one, otherwise the emulator.
    #[must_use]
    pub fn cuda_or_emulator() -> Self {
        #[cfg(feature = "cuda")]
        if let Ok(device) = Self::cuda(0) {
            return device;
        }
        Self::emulator()
    }

    /// Whether the device is the emulator.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        matches!(self.backend, Backend::Emulator(..))
    }

    /// The limits of a launch.
    #[must_use]
    pub fn limits(&self) -> Limits {
        match &self.backend {
            Backend::Emulator(emulator, _) => emulator.device_limits(),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => device.limits,
        }
    }

    /// Loads the PTX of a crate of kernels, or of a module of it. It replaces PTX of the same module.
    ///
    /// A launch takes the PTX of the innermost module around the kernel. The emulator needs no PTX: the kernels are in
    /// the program.
    ///
    /// # Errors
    /// [`Error::Driver`] if the driver refuses the PTX.
    pub fn load(&self, ptx: Ptx) -> Result<(), Error> {
        match &self.backend {
            Backend::Emulator(..) => {
                let Ptx { .. } = ptx;
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => device.load(ptx),
        }
    }

    /// Whether the PTX of this module, or of one around it, is [loaded](Self::load). Always true on the emulator.
    ///
    /// The driver compiles PTX when it is loaded. A program can load a module just before its first launch.
    #[must_use]
    pub fn is_loaded(&self, module: &str) -> bool {
        match &self.backend {
            Backend::Emulator(..) => {
                let _ = module;
                true
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => device.is_loaded(module),
        }
    }

    /// Allocates an array with these values. Reports show `name`.
    ///
    /// # Errors
    /// [`Error::HostMemory`] on the emulator; [`Error::DeviceMemory`], [`Error::Driver`] on a GPU.
    pub fn upload<T: Scalar>(&self, name: &str, values: &[T]) -> Result<Buffer<T>, Error> {
        match &self.backend {
            Backend::Emulator(_, emulated) => {
                let buffer = emulated.lock().memory.try_upload(name, values).map_err(host_memory(name))?;
                Ok(self.emulated(name, buffer, emulated))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let memory = device.allocate(size_of_val(values), name)?;
                device.write(&memory, bytes_of(values), name)?;
                Ok(self.on_cuda(name, values.len(), memory))
            }
        }
    }

    /// Allocates an array of `length` zeros.
    ///
    /// # Errors
    /// [`Error::HostMemory`] on the emulator; [`Error::DeviceMemory`], [`Error::Driver`] on a GPU.
    pub fn zeros<T: Scalar>(&self, name: &str, length: usize) -> Result<Buffer<T>, Error> {
        match &self.backend {
            Backend::Emulator(_, emulated) => {
                let buffer = emulated.lock().memory.try_zeros(name, length).map_err(host_memory(name))?;
                Ok(self.emulated(name, buffer, emulated))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let memory = device.allocate(length.saturating_mul(size_of::<T>()), name)?;
                device.fill(&memory, 0, name)?;
                Ok(self.on_cuda(name, length, memory))
            }
        }
    }

    /// Allocates an array of `length` elements for results. All its bits are ones, which is NaN in `f32` and `f64`.
    ///
    /// The emulator reports a read of an element that nothing has written, and an element that two threads write.
    /// [`download`](Self::download) then fails if a kernel left an element unwritten. If a kernel may leave elements
    /// unwritten, use [`zeros`](Self::zeros).
    ///
    /// # Errors
    /// [`Error::HostMemory`] on the emulator; [`Error::DeviceMemory`], [`Error::Driver`] on a GPU.
    pub fn output<T: Scalar>(&self, name: &str, length: usize) -> Result<Buffer<T>, Error> {
        match &self.backend {
            Backend::Emulator(_, emulated) => {
                let memory = &mut emulated.lock().memory;
                let buffer = memory.try_allocate(name, length, Role::Output).map_err(host_memory(name))?;
                Ok(self.emulated(name, buffer, emulated))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let memory = device.allocate(length.saturating_mul(size_of::<T>()), name)?;
                device.fill(&memory, u8::MAX, name)?;
                Ok(self.on_cuda(name, length, memory))
            }
        }
    }

    /// Replaces the values of an array, after all kernels that were launched before.
    ///
    /// # Errors
    /// [`Error::Length`] for more or fewer values than elements, [`Error::ForeignArray`], [`Error::Driver`].
    pub fn write<T: Scalar>(&self, buffer: &mut Buffer<T>, values: &[T]) -> Result<(), Error> {
        self.owns(buffer, "write")?;
        same_length(buffer, values)?;
        match (&self.backend, &buffer.storage) {
            (Backend::Emulator(_, emulated), Storage::Emulated(array)) => {
                emulated.lock().memory.write(array.buffer(), values);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            (Backend::Cuda(device), Storage::Cuda(memory)) => device.write(memory, bytes_of(values), &buffer.name),
            #[cfg(feature = "cuda")]
            _ => unreachable!("an array of this device is in its memory"),
        }
    }

    /// The values of an array, after all kernels that were launched before.
    ///
    /// # Errors
    /// - [`Error::Unwritten`] on the emulator, if no kernel wrote an element of an [`output`](Self::output).
    /// - [`Error::HostMemory`] if the host has too little memory for the values.
    /// - [`Error::Driver`] if a kernel that was launched before has failed.
    /// - [`Error::ForeignArray`] if the array is on another device.
    pub fn download<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>, Error> {
        let mut values = Vec::new();
        if values.try_reserve_exact(buffer.length).is_err() {
            let error = OutOfMemory { bytes: size_of::<T>() as u64 * buffer.length as u64, what: "an array's copy" };
            return Err(Error::HostMemory { name: buffer.name.clone(), error });
        }
        values.resize(buffer.length, T::default());
        self.read(buffer, &mut values)?;
        Ok(values)
    }

    /// Copies the values of an array, after all kernels that were launched before.
    ///
    /// # Errors
    /// Those of [`download`](Self::download); [`Error::Length`] if `values` has another length than the array.
    pub fn read<T: Scalar>(&self, buffer: &Buffer<T>, values: &mut [T]) -> Result<(), Error> {
        self.owns(buffer, "read")?;
        same_length(buffer, values)?;
        match (&self.backend, &buffer.storage) {
            (Backend::Emulator(_, emulated), Storage::Emulated(array)) => {
                let memory = &emulated.lock().memory;
                if let Some((first, count)) = memory.unwritten(array.buffer()) {
                    return Err(Error::Unwritten { name: buffer.name.clone(), count, first });
                }
                memory.read(array.buffer(), values);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            (Backend::Cuda(device), Storage::Cuda(memory)) => device.read(memory, bytes_of_mut(values), &buffer.name),
            #[cfg(feature = "cuda")]
            _ => unreachable!("an array of this device is in its memory"),
        }
    }

    /// Sets a constant array of a crate of kernels, such as one that `constant!` declares.
    ///
    /// `module` is the [`module`](Ptx::module) of the PTX: the name of the crate, or the path of a module of it. On a
    /// GPU the PTX must be loaded before. The values fill the array from its start on. The elements behind them stay.
    ///
    /// # Errors
    /// [`Error::Length`] for more values than the array holds; [`Error::NotLoaded`], [`Error::NoConstant`],
    /// [`Error::Driver`] on a GPU.
    pub fn set_constant<C: ConstantMemory>(&self, module: &str, _array: C, values: &[C::Element]) -> Result<(), Error> {
        if values.len() > C::LENGTH {
            let name = C::SYMBOL.to_owned();
            return Err(Error::Length { name, required: C::LENGTH, found: values.len() });
        }
        match &self.backend {
            Backend::Emulator(_, emulated) => {
                emulated.lock().set_constant(module, C::SYMBOL, bytes_of(values));
                Ok(())
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                let bytes = C::LENGTH * size_of::<C::Element>();
                device.set_constant(module, C::SYMBOL, bytes, bytes_of(values))
            }
        }
    }

    /// Launches a kernel. On a GPU it may still run when the call returns.
    ///
    /// # Safety
    /// The conditions in the kernel's `# Safety` section hold for these arguments and this launch.
    ///
    /// # Errors
    /// - [`Error::Argument`] and [`Error::ForeignArray`] for an argument, [`Error::Launch`] and [`Error::Bounds`] for
    ///   the shape of the launch.
    /// - [`Error::Emulator`] if the emulator finds a defect.
    /// - [`Error::NotLoaded`], [`Error::NoEntry`] and [`Error::Driver`] on a GPU.
    pub unsafe fn launch<K: Kernel>(&self, launch: &Launch, kernel: &K) -> Result<(), Error> {
        // SAFETY: the kernel's conditions hold, as required above.
        unsafe { self.run(launch, kernel, false) }.map(|_| ())
    }

    /// Launches a kernel and, on the emulator, counts its accesses; see [`Counts`]. None on a GPU.
    ///
    /// # Safety
    /// The conditions of [`launch`](Self::launch).
    ///
    /// # Errors
    /// Those of [`launch`](Self::launch).
    pub unsafe fn launch_counting<K: Kernel>(&self, launch: &Launch, kernel: &K) -> Result<Option<Counts>, Error> {
        // SAFETY: the kernel's conditions hold, as required above.
        unsafe { self.run(launch, kernel, true) }
    }

    /// # Safety
    /// The conditions of [`launch`](Self::launch).
    unsafe fn run<K: Kernel>(&self, launch: &Launch, kernel: &K, counting: bool) -> Result<Option<Counts>, Error> {
        kernel.check().map_err(|error| Error::Argument { kernel: K::SYMBOL, error })?;
        launch.check(&self.limits()).map_err(|error| Error::Launch { kernel: K::SYMBOL, error })?;
        if let Some((most, _)) = K::LAUNCH_BOUNDS {
            let (found, most) = (launch.threads(), u64::from(most));
            if found > most {
                return Err(Error::Bounds { kernel: K::SYMBOL, found, most, reason: "its launch_bounds" });
            }
        }
        let arguments = Arguments::of(kernel, self.number)?;
        match &self.backend {
            Backend::Emulator(emulator, emulated) => {
                let mut emulated = emulated.lock();
                let memory = emulated.memory_for(K::MODULE);
                let arguments = &arguments;
                // SAFETY: the arguments are those of the kernel, in the emulator's memory. Its conditions hold.
                let thread = || unsafe { K::call(arguments.as_ptr()) };
                let ran = emulator.counting(counting).launch(K::SYMBOL, launch, memory, thread);
                ran.map(|counts| counting.then_some(counts)).map_err(Error::Emulator)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                // SAFETY: the arguments are those of the kernel, in this device's memory. Its conditions hold.
                unsafe { device.launch::<K>(launch, &arguments.pointers)? };
                Ok(None)
            }
        }
    }

    /// Waits until all kernels that were launched have run.
    ///
    /// # Errors
    /// [`Error::Driver`] if a kernel has failed.
    pub fn wait(&self) -> Result<(), Error> {
        match &self.backend {
            Backend::Emulator(..) => Ok(()),
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => device.wait(),
        }
    }

    /// The time in milliseconds that a GPU takes for the kernels that `work` launches. On the emulator it is the time
    /// of the host, which says nothing about a GPU.
    ///
    /// # Errors
    /// Those of `work`, [`Error::Driver`].
    pub fn time(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
        match &self.backend {
            Backend::Emulator(..) => {
                let start = std::time::Instant::now();
                work()?;
                Ok(start.elapsed().as_secs_f64() * 1e3)
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => device.time(work),
        }
    }

    /// The text that the kernels of `work` print with `gpu_println!`, on the emulator.
    ///
    /// None on a GPU: the driver writes the text to the standard output of the process, before this call returns.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Driver`] if a kernel has failed. The text is then lost.
    pub fn printed(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<Option<String>, Error> {
        match &self.backend {
            Backend::Emulator(_, emulated) => {
                emulated.lock().memory.collect_printed();
                let result = work();
                let text = emulated.lock().memory.take_printed();
                result.map(|()| Some(text))
            }
            #[cfg(feature = "cuda")]
            Backend::Cuda(device) => {
                work()?;
                device.wait()?;
                Ok(None)
            }
        }
    }

    fn owns<T: Scalar>(&self, buffer: &Buffer<T>, what: &'static str) -> Result<(), Error> {
        if buffer.device == self.number {
            return Ok(());
        }
        Err(Error::ForeignArray { what, name: buffer.name.clone() })
    }

    fn emulated<T: Scalar>(
        &self,
        name: &str,
        buffer: cuda_emulator::Buffer<T>,
        memory: &Arc<EmulatedMemory>,
    ) -> Buffer<T> {
        let handle = buffer.global();
        // SAFETY: a handle is a transparent wrapper of a pointer, which has the size of a `usize`.
        let address = unsafe { (&raw const handle).cast::<usize>().read() } as u64;
        Buffer {
            name: name.to_owned(),
            device: self.number,
            address,
            length: buffer.len(),
            storage: Storage::Emulated(EmulatedArray::new(buffer, Arc::clone(memory))),
        }
    }

    #[cfg(feature = "cuda")]
    fn on_cuda<T: Scalar>(&self, name: &str, length: usize, memory: crate::cuda::Memory) -> Buffer<T> {
        let address = memory.address();
        Buffer { name: name.to_owned(), device: self.number, address, length, storage: Storage::Cuda(memory) }
    }
}

/// Fails if the array has more or fewer elements than there are values.
fn same_length<T: Scalar>(buffer: &Buffer<T>, values: &[T]) -> Result<(), Error> {
    let (required, found) = (buffer.length, values.len());
    if required == found { Ok(()) } else { Err(Error::Length { name: buffer.name.clone(), required, found }) }
}

fn host_memory(name: &str) -> impl FnOnce(OutOfMemory) -> Error {
    let name = name.to_owned();
    move |error| Error::HostMemory { name, error }
}
