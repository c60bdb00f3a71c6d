//! Launches the tutorials' kernels on arrays of one's own, on a CUDA device or on the emulator, with [`cuda_launch`].
//!
//! A [`Launcher`] makes arrays on its device. It launches the structs that `#[kernel]` makes, whose fields are the
//! kernels' arguments. It checks lengths, limits and grid before a kernel runs, so a launch is safe. [`InBlocks`] sets
//! the size of a block, for kernels that run with any.
//!
//! ```
//! use faltung::Device;
//! use host::tutorial::launch::{InBlocks, Launcher};
//! use kernels_gpu::tutorials::pointwise::AddConstant;
//!
//! let launcher = Launcher::new(&Device::emulator(1))?.expect("only the CPU has none");
//! let input = launcher.upload("input", &[1.0_f32, 2.0, 3.0])?;
//! let mut output = launcher.allocate::<f32>("output", 3)?;
//! launcher.launch(&InBlocks(256, AddConstant { input: &input, output: &mut output, constant: 10.0, size: 3 }))?;
//! assert_eq!(launcher.download(&output)?, [11.0, 12.0, 13.0]);
//! # Ok::<(), faltung::Error>(())
//! ```

mod kernels;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cuda_launch::{Buffer, Counts, Emulator, Kernel, Launch, Ptx};
use kernels_gpu::cuda_std::Scalar;
use kernels_gpu::cuda_std::constant::ConstantMemory;
use kernels_gpu::{ptx, tutorials};

use faltung::{Device, Error, Result, memory};

pub use self::kernels::{InBlocks, KernelCall};

/// A device for kernels on arrays.
#[derive(Debug)]
pub struct Launcher {
    device: Arc<cuda_launch::Device>,
}

impl Launcher {
    /// A launcher on this device; None on the CPU, which has no kernels.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn new(device: &Device) -> Result<Option<Self>> {
        let device = match (device.gpu(), device.emulator_seed()) {
            (Some(gpu), _) => open_gpu(gpu.number)?,
            (None, Some(seed)) => Arc::new(cuda_launch::Device::with_emulator(Emulator::new().seed(seed))),
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { device }))
    }

    /// Whether it is the emulator: then every access is checked, times mean nothing, and
    /// [`launch_counting`](Self::launch_counting) counts.
    #[must_use]
    pub fn is_emulator(&self) -> bool {
        self.device.is_emulator()
    }

    /// An array that holds `values`. `name` is for reports.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::HostMemory`], [`Error::Driver`].
    pub fn upload<T: Scalar>(&self, name: &str, values: &[T]) -> Result<Buffer<T>> {
        self.device.upload(name, values).map_err(library_error)
    }

    /// An array for results. What nothing writes is all ones (NaN in `f32`), and an error on the emulator.
    ///
    /// # Errors
    /// As for [`upload`](Self::upload).
    pub fn allocate<T: Scalar>(&self, name: &str, length: usize) -> Result<Buffer<T>> {
        self.device.output(name, length).map_err(library_error)
    }

    /// Replaces the values of an array.
    ///
    /// # Errors
    /// [`Error::Length`] if there are more or fewer values, [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is on another device.
    pub fn write<T: Scalar>(&self, array: &mut Buffer<T>, values: &[T]) -> Result<()> {
        self.device.write(array, values).map_err(library_error)
    }

    /// The values of an array.
    ///
    /// # Errors
    /// [`Error::Emulator`] if a kernel left an element unwritten, [`Error::HostMemory`], [`Error::Driver`].
    ///
    /// # Panics
    /// If the array is on another device.
    pub fn download<T: Scalar>(&self, array: &Buffer<T>) -> Result<Vec<T>> {
        self.device.download(array).map_err(library_error)
    }

    /// Copies the values of an array.
    ///
    /// # Errors
    /// As for [`download`](Self::download); [`Error::Length`] if `values` has another length.
    ///
    /// # Panics
    /// If the array is on another device.
    pub fn read<T: Scalar>(&self, array: &Buffer<T>, values: &mut [T]) -> Result<()> {
        self.device.read(array, values).map_err(library_error)
    }

    /// Sets a constant array of the file that the kernel `K` is in.
    ///
    /// # Errors
    /// [`Error::Length`] for more values than the array holds, [`Error::Driver`].
    pub fn set_constant<K: Kernel>(&self, array: impl ConstantMemory<Element = f32>, values: &[f32]) -> Result<()> {
        self.load::<K>()?;
        self.device.set_constant(K::MODULE, array, values).map_err(library_error)
    }

    /// Runs a kernel. On a CUDA device it may still run on return. Later calls of the launcher come after it.
    ///
    /// # Errors
    /// [`Error::Length`] if an array is too short, [`Error::TooLarge`] or [`Error::Number`] for sizes beyond what the
    /// kernel or the device can do, [`Error::Emulator`] if the emulator finds a defect, [`Error::Driver`].
    ///
    /// # Panics
    /// If an array is on another device.
    pub fn launch(&self, call: &dyn KernelCall) -> Result<()> {
        call.launch_on(self, false).map(|_| ())
    }

    /// Runs a kernel as [`launch`](Self::launch) does; the emulator also counts what a profiler would.
    ///
    /// # Errors
    /// As for [`launch`](Self::launch).
    ///
    /// # Panics
    /// As for [`launch`](Self::launch).
    pub fn launch_counting(&self, call: &dyn KernelCall) -> Result<Option<Counts>> {
        call.launch_on(self, true)
    }

    /// Runs a kernel, unless the grid has no blocks.
    ///
    /// # Safety
    /// - The conditions in the kernel's `# Safety` section hold for these arguments and this launch.
    unsafe fn run<K: Kernel>(&self, launch: &Launch, kernel: &K, counting: bool) -> Result<Option<Counts>> {
        if launch.blocks() == 0 && launch.threads() > 0 {
            return Ok((counting && self.is_emulator()).then(Counts::default));
        }
        self.load::<K>()?;
        // SAFETY: the conditions of the kernel hold, as required above.
        let ran = unsafe {
            if counting {
                self.device.launch_counting(launch, kernel)
            } else {
                self.device.launch(launch, kernel).map(|()| None)
            }
        };
        ran.map_err(|error| match error {
            cuda_launch::Error::Emulator(error) => emulator_error(K::SYMBOL, error),
            error => library_error(error),
        })
    }

    /// Loads the PTX of the file that the kernel `K` is in, if it is not loaded yet.
    fn load<K: Kernel>(&self) -> Result<()> {
        if self.device.is_loaded(K::MODULE) {
            return Ok(());
        }
        let kernel = tutorials::kernels().find(|kernel| kernel.symbol == K::SYMBOL);
        let module = kernel.and_then(|kernel| ptx::module(kernel.module));
        let text = module.expect("each kernel of the tutorials has a module in the program").ptx();
        self.device.load(Ptx { module: K::MODULE, text: text.into() }).map_err(library_error)
    }

    /// The time that the device takes for `work`, executed `times` times. On the emulator it is the time of the
    /// emulation, which says nothing about a GPU.
    ///
    /// # Errors
    /// Those of `work`, [`Error::Driver`].
    pub fn timed(&self, times: usize, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
        let mut outcome = Ok(());
        let milliseconds = self.device.time(|| {
            outcome = (0..times).try_for_each(|_| work());
            Ok(())
        });
        outcome?;
        Ok(Duration::from_secs_f64(milliseconds.map_err(library_error)? / 1e3))
    }
}

/// The GPU with this number. It stays open until the process ends, so the driver compiles each kernel once.
fn open_gpu(number: usize) -> Result<Arc<cuda_launch::Device>> {
    static OPEN: Mutex<BTreeMap<usize, Arc<cuda_launch::Device>>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&number) {
        return Ok(Arc::clone(device));
    }
    let device = Arc::new(cuda_launch::Device::cuda(number as u32).map_err(library_error)?);
    open.insert(number, Arc::clone(&device));
    Ok(device)
}

/// An array or a slice of the wrong length.
fn length(what: &'static str, required: usize, found: usize) -> Error {
    Error::Length { what, width: required, height: 1, channels: 1, required, found }
}

/// The library's error for one of `cuda_launch`.
fn library_error(error: cuda_launch::Error) -> Error {
    use cuda_launch::Error as Found;
    match error {
        Found::Driver { action, status, .. } => Error::from_driver_status(status, action),
        Found::DeviceMemory { needed, free, total, .. } => Error::DeviceMemory { needed, free, total },
        Found::HostMemory { error, .. } => out_of_memory(error),
        Found::Emulator(error) => emulator_error("a kernel", error),
        Found::Unwritten { .. } => {
            Error::Emulator { kernel: "the kernels before".to_owned(), report: error.to_string() }
        }
        Found::Length { required, found, .. } => length("values", required, found),
        Found::Launch { .. } | Found::Bounds { .. } => {
            let required = "within the limits of the device and the kernel";
            Error::Number { what: "the launch", required, found: error.to_string() }
        }
        // An array of another device, or PTX that lacks a kernel: a defect of this program.
        error => panic!("{error}"),
    }
}

/// Memory of this machine that the emulator did not get.
fn out_of_memory(short: cuda_emulator::OutOfMemory) -> Error {
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
