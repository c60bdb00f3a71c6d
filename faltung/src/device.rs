//! A device: what it is, and what it makes ready.

use std::sync::Arc;

use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda::{Gpu, GpuConvolution, OwnStream};
use crate::device_choice::{DeviceChoice, Rates};
use crate::device_image::DeviceImage;
use crate::emulated::{self, EmulatorConvolution};
use crate::gpu_info::GpuInfo;
use crate::page_locked::PageLocked;
use crate::pipeline::Pipeline;
use crate::plan::{Plan, VariantChoice};
use crate::prepared::{Engine, Prepared};
use crate::recent::Recent;
use crate::stream::Stream;
use crate::{Error, Filter, Image, Pixel, PixelFormat, Problem, Result, View};

/// A device, ready to compute: the CPU, a CUDA device, or the emulator of one.
///
/// It belongs to no thread: clones are cheap and are the same device, and all of its calls may come from several
/// threads at once. What is computed on the CPU runs on the thread that calls and in its rayon pool. A CUDA device is
/// closed when the last handle of it is dropped: clones, and what was made by it. The current CUDA context of the
/// calling thread is the same after each call as before.
///
/// All work on a CUDA device may fail with [`Error::DeviceLost`], and then fails with it until the process ends. Other
/// errors leave the device as it was.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) kind: Kind,
    /// Why `auto` took this device; None if it was asked for by name.
    reason: Option<Arc<str>>,
    /// The most bytes of device memory that a problem's images may take.
    memory_limit: Option<usize>,
    /// What [`apply`](Self::apply) made ready.
    recent: Arc<Recent<Prepared, KEPT>>,
}

/// For how many problems [`Device::apply`] keeps plans, kernels and memory.
const KEPT: usize = 4;

/// What a device is.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Cpu,
    Emulator {
        /// Of the order in which a block's threads run.
        seed: u64,
    },
    #[cfg(feature = "cuda")]
    Cuda(Arc<Gpu>),
}

impl Device {
    /// The device that was chosen.
    ///
    /// # Errors
    /// If a CUDA device was asked for: those of [`cuda`](Self::cuda).
    pub fn select(choice: DeviceChoice) -> Result<Self> {
        match choice {
            DeviceChoice::Auto => Ok(Self::auto()),
            DeviceChoice::Cpu => Ok(Self::cpu()),
            DeviceChoice::Emulator => Ok(Self::emulator(1)),
            DeviceChoice::Cuda(number) => Self::cuda(number),
        }
    }

    /// The first CUDA device if there is one that can be used, else the CPU. [`reason`](Self::reason) says why.
    #[must_use]
    pub fn auto() -> Self {
        match Self::cuda(0) {
            Ok(device) => Self { reason: Some("the first CUDA device".into()), ..device },
            Err(error) => Self { reason: Some(error.to_string().into()), ..Self::cpu() },
        }
    }

    /// The CPU, with the fastest instruction set that it has.
    ///
    /// The environment variable `FALTUNG_CPU` forces one: `avx512`, `avx2`, `neon` or `portable`. It is read once.
    /// Exact results and results of integers have the same bits with each. Other results may differ within their error
    /// bound.
    #[must_use]
    pub fn cpu() -> Self {
        Self::of(Kind::Cpu)
    }

    /// The emulator: the GPU's kernels on the CPU, every access checked, the threads of a block in an order made from
    /// `seed`.
    #[must_use]
    pub fn emulator(seed: u64) -> Self {
        Self::of(Kind::Emulator { seed })
    }

    /// The CUDA device with this number.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no driver, or no such device that can run the kernels; [`Error::DriverTooOld`];
    /// [`Error::Driver`] if the device can't be opened. The driver's own words say why.
    pub fn cuda(number: usize) -> Result<Self> {
        #[cfg(feature = "cuda")]
        return Ok(Self::of(Kind::Cuda(Gpu::open(number)?)));
        #[cfg(not(feature = "cuda"))]
        Err(Error::NoDevice {
            reason: format!(
                "cuda:{number} needs the feature \"cuda\" of faltung, which this program was built without"
            ),
            source: None,
        })
    }

    /// All CUDA devices of this machine, in the order of their numbers; at least one.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none; those of [`cuda`](Self::cuda), [`Error::DriverTooOld`] among them, for the
    /// first that can't be opened.
    pub fn all_cuda() -> Result<Vec<Self>> {
        let found = crate::devices()?;
        if found.is_empty() {
            return Err(Error::NoDevice { reason: "the driver has no device".to_owned(), source: None });
        }
        found.iter().map(|info| Self::cuda(info.number)).collect()
    }

    fn of(kind: Kind) -> Self {
        Self { kind, reason: None, memory_limit: None, recent: Arc::default() }
    }

    /// The device with at most `bytes` of its memory for the images of a problem, where others use it, too. Larger
    /// problems are computed in strips. The CPU, which has no memory of its own, ignores it. So do
    /// [`prepare_for_device_images`](Self::prepare_for_device_images) and [pipelines](Self::pipeline) on a CUDA device.
    #[must_use]
    pub fn with_memory_limit(self, bytes: usize) -> Self {
        // What was made ready without the limit is not within it.
        Self { memory_limit: Some(bytes), recent: Arc::default(), ..self }
    }

    /// Why [`auto`](Self::auto) took this device: one line for people. None if it was asked for by name.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// What [`with_memory_limit`](Self::with_memory_limit) set.
    #[must_use]
    pub fn memory_limit(&self) -> Option<usize> {
        self.memory_limit
    }

    /// What the CUDA device is; None for the others.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuInfo> {
        match &self.kind {
            Kind::Cpu | Kind::Emulator { .. } => None,
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => Some(gpu.info()),
        }
    }

    /// The seed of the order in which the emulator runs a block's threads; None for the other devices.
    #[must_use]
    pub fn emulator_seed(&self) -> Option<u64> {
        match &self.kind {
            Kind::Emulator { seed } => Some(*seed),
            _ => None,
        }
    }

    /// `"cuda"`, `"cpu"` or `"emulator"`, as reports name the backend.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match &self.kind {
            Kind::Cpu => "cpu",
            Kind::Emulator { .. } => "emulator",
            #[cfg(feature = "cuda")]
            Kind::Cuda(_) => "cuda",
        }
    }

    /// What this device is: one line for people, such as "NVIDIA H100 80GB HBM3 (cuda:0)".
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Cpu => cpu::describe(),
            Kind::Emulator { seed } => format!("the emulator of a GPU, with an H100's limits and thread order {seed}"),
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => gpu.describe(),
        }
    }

    /// A problem made ready to run: kernel chosen and compiled, mask in its place. It may run any number of times, from
    /// any thread.
    ///
    /// Where the device's memory does not hold the images they are computed in strips; [`Prepared::note`] says so.
    ///
    /// # Errors
    /// [`Error::Refused`] if the variant can't compute the problem, [`Error::Accuracy`] if it is less accurate than the
    /// problem demands, [`Error::NeedsGpu`] if a GPU's variant is asked of
    /// the CPU, [`Error::Parse`] on the CPU if `FALTUNG_CPU` names no instruction set that it has,
    /// [`Error::DeviceMemory`] if not even a strip fits, [`Error::KernelRefused`], [`Error::DriverTooOld`],
    /// [`Error::Driver`].
    pub fn prepare(&self, problem: &Problem, variant: VariantChoice) -> Result<Prepared> {
        let limit = self.memory_limit;
        let (engine, strips) = match &self.kind {
            Kind::Cpu => {
                if let Some(variant) = variant.named() {
                    return Err(Error::NeedsGpu { variant: variant.name() });
                }
                (Engine::on_cpu(problem)?, 1)
            }
            Kind::Emulator { seed } => {
                let ready = EmulatorConvolution::new(*seed, problem, variant, limit)?;
                let strips = ready.strips().len();
                (Engine::Emulator(Box::new(ready)), strips)
            }
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => {
                let ready = GpuConvolution::new(gpu, problem, variant, limit)?;
                let strips = ready.strips().len();
                (Engine::Cuda(Box::new(ready)), strips)
            }
        };
        let note =
            (strips > 1).then(|| format!("in {strips} strips: the device's memory does not hold the images whole"));
        Ok(Prepared::new(problem, engine, note))
    }

    /// As [`prepare`](Self::prepare), for images that are on the device already: [`Prepared::run`] and
    /// [`Prepared::run_into`]. A CUDA device allocates no memory for images. So many problems may be ready at the same
    /// time. The first run from host memory allocates it.
    ///
    /// On a CUDA device the limit of [`with_memory_limit`](Self::with_memory_limit) does not apply. Images of the
    /// device are filtered whole.
    ///
    /// ```
    /// use faltung::{Device, DeviceImage, Filter, Image, Problem, VariantChoice};
    ///
    /// let device = Device::auto();
    /// let problem = Problem::new(64, 48, &Filter::gaussian(1.0))?;
    /// let blur = device.prepare_for_device_images(&problem, VariantChoice::Auto)?;
    /// let stream = device.stream()?;
    /// let image = device.upload(&Image::from_fn(64, 48, |x, y| (x * y) as f32)?, &stream)?;
    /// let blurred: DeviceImage<f32> = blur.run(&image, &stream)?;
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare).
    pub fn prepare_for_device_images(&self, problem: &Problem, variant: VariantChoice) -> Result<Prepared> {
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(gpu) = &self.kind {
            let ready = GpuConvolution::of_device_images(gpu, problem, variant)?;
            return Ok(Prepared::new(problem, Engine::Cuda(Box::new(ready)), None));
        }
        self.prepare(problem, variant)
    }

    /// How the device would compute `problem`: which kernel, why, and how long that is predicted to take. Nothing is
    /// compiled or allocated. None on the CPU, which has no kernels: [`Prepared::variant`] and [`Prepared::reason`]
    /// name its method.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Accuracy`], [`Error::NeedsGpu`].
    pub fn plan(&self, problem: &Problem, variant: VariantChoice) -> Result<Option<Plan>> {
        let limits = match &self.kind {
            Kind::Cpu => {
                return match variant.named() {
                    None => Ok(None),
                    Some(variant) => Err(Error::NeedsGpu { variant: variant.name() }),
                };
            }
            Kind::Emulator { .. } => emulated::LIMITS,
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => gpu.info().limits(),
        };
        Plan::new(problem, limits, variant).map(Some)
    }

    /// The same as [`prepare`](Self::prepare), but on the CPU if the device's memory does not hold even a strip of the
    /// images, and no variant of the GPU was asked for by name. [`Prepared::note`] says so.
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare).
    pub fn prepare_or_cpu(&self, problem: &Problem, variant: VariantChoice) -> Result<Prepared> {
        match self.prepare(problem, variant) {
            Err(error @ Error::DeviceMemory { .. }) if variant.named().is_none() => {
                Ok(Prepared::new(problem, Engine::on_cpu(problem)?, Some(format!("on the CPU: {error}"))))
            }
            other => other,
        }
    }

    /// Filters an image: each channel alone, computed in `f32`, then converted to the output's type. What the device's
    /// memory can't hold is computed in strips, or on the CPU. Waits for the result.
    ///
    /// Results of integer types are rounded half to even and saturated; NaN becomes 0. Values are not rescaled: `u8` as
    /// `f32` is 0 to 255.
    ///
    /// The variant is [`VariantChoice::Auto`]'s. The filter's [`accuracy`](Filter::accuracy) limits which one that may
    /// be.
    ///
    /// What the last few filters and sizes need stays ready, so that a loop over frames plans and compiles once.
    ///
    /// # How long it takes
    /// A large mask takes long where no method but the direct sum keeps the accuracy class, as for integers and masks of
    /// hundreds of rows. [`plan`](Self::plan) predicts the time on a GPU before anything is computed. On the CPU
    /// [`prepare`](Self::prepare) chooses the method. If [`Prepared::variant`] is `"direct"`, the time grows with the
    /// number of coefficients. Then [`Accuracy::Normwise`](crate::Accuracy::Normwise) is often much faster:
    ///
    /// ```
    /// use faltung::{Accuracy, Device, Filter, PixelFormat, Problem, VariantChoice};
    ///
    /// let method = |accuracy| {
    ///     let filter = Filter::average(1001, 1001).accuracy(accuracy);
    ///     let problem = Problem::new(3000, 2000, &filter)?.with_format(PixelFormat::of::<u8, u8>(3))?;
    ///     Ok::<_, faltung::Error>(Device::cpu().prepare(&problem, VariantChoice::Auto)?.variant())
    /// };
    /// assert_eq!(method(Accuracy::Bounded)?, "direct");
    /// assert_ne!(method(Accuracy::Normwise)?, "direct");
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Problem::new`], [`Problem::with_format`], [`prepare`](Self::prepare) and [`Prepared::apply`].
    pub fn apply<T: Pixel, U: Pixel>(&self, filter: &Filter, image: &Image<T>) -> Result<Image<U>> {
        let format = PixelFormat::of::<T, U>(image.channels());
        let problem = Problem::new(image.width(), image.height(), filter)?.with_format(format)?;
        let ready = self
            .recent
            .get(|ready| ready.problem().is_same(&problem), || self.prepare_or_cpu(&problem, VariantChoice::Auto))?;
        match ready.apply(image) {
            // Other threads have taken the memory since.
            Err(Error::DeviceMemory { .. }) => Prepared::new(&problem, Engine::on_cpu(&problem)?, None).apply(image),
            other => other,
        }
    }

    /// Several filters, one after the other, with the images between them on the device.
    ///
    /// # Errors
    /// [`Error::Number`] if there is no filter.
    pub fn pipeline(&self, filters: &[Filter]) -> Result<Pipeline> {
        Pipeline::new(self.clone(), filters)
    }

    /// A new stream: a queue of work on this device.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream> {
        match &self.kind {
            Kind::Cpu | Kind::Emulator { .. } => Ok(Stream::host()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => Ok(Stream::cuda(OwnStream::new(gpu)?)),
        }
    }

    /// Copies an image to the device, where `stream` uses it first. Waits until the image was copied, and not for what
    /// the stream was given before. From [page-locked memory](Self::page_locked) no thread of the host copies.
    ///
    /// # Errors
    /// [`Error::DeviceMemory`], [`Error::HostMemory`], [`Error::Driver`], [`Error::DeviceLost`];
    /// [`Error::OtherDevice`] if the stream is another device's.
    pub fn upload<T: Pixel>(&self, image: &Image<T>, stream: &Stream) -> Result<DeviceImage<T>> {
        self.upload_view(image.view(), stream)
    }

    /// As [`upload`](Self::upload), of an image in somebody else's memory, with gaps between rows or without.
    ///
    /// # Errors
    /// As for [`upload`](Self::upload).
    pub fn upload_view<T: Pixel>(&self, image: View<'_, T>, stream: &Stream) -> Result<DeviceImage<T>> {
        let (width, height, channels) = (image.width(), image.height(), image.channels());
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(gpu) = &self.kind {
            let own = stream.own(gpu)?;
            return DeviceImage::on_cuda((width, height), channels, |pitch| {
                own.upload(crate::rows::HostRows::of(&image), pitch)
            });
        }
        stream.check_on_host()?;
        let mut copy = Image::zeros(width, height, channels)?;
        copy.view_mut().set_rows(&image);
        Ok(DeviceImage::on_host(copy))
    }

    /// An image of this size on the device, all 0. Such an image is the first result of [`Prepared::run_into`], without
    /// the copy of an upload.
    ///
    /// The zeros are written in the order of `stream`, and this returns at once. Other streams that use the image wait
    /// for them on the device.
    ///
    /// ```
    /// use faltung::{Device, Filter, Image, Problem, VariantChoice};
    ///
    /// let device = Device::auto();
    /// let stream = device.stream()?;
    /// let blur = device.prepare(&Problem::new(64, 48, &Filter::gaussian(1.0))?, VariantChoice::Auto)?;
    /// let mut result = device.zeros::<f32>(64, 48, 1, &stream)?;
    /// for number in 0..3 {
    ///     let image = device.upload(&Image::from_fn(64, 48, |x, y| (number * x + y) as f32)?, &stream)?;
    ///     blur.run_into(&image, &mut result, &stream)?; // no memory is allocated for results
    ///     let blurred = result.download(&stream)?;
    /// }
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::EmptyImage`], [`Error::TooLarge`]; [`Error::DeviceMemory`], [`Error::HostMemory`], [`Error::Driver`],
    /// [`Error::DeviceLost`]; [`Error::OtherDevice`] if the stream is another device's.
    pub fn zeros<T: Pixel>(
        &self,
        width: usize,
        height: usize,
        channels: usize,
        stream: &Stream,
    ) -> Result<DeviceImage<T>> {
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(gpu) = &self.kind {
            Image::<T>::checked_len(width, height, channels)?;
            let own = stream.own(gpu)?;
            return DeviceImage::on_cuda((width, height), channels, |pitch| own.zeros(height * pitch));
        }
        stream.check_on_host()?;
        Ok(DeviceImage::on_host(Image::zeros(width, height, channels)?))
    }

    /// Frees the device memory of dropped images, and what [`apply`](Self::apply) keeps ready.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`].
    pub fn free_unused_memory(&self) -> Result<()> {
        self.recent.clear();
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(gpu) = &self.kind {
            return gpu.free_idle();
        }
        Ok(())
    }

    /// Room for `length` values, zeros at first, where the device reads and writes them by itself; the CPU and the
    /// emulator, which work in the host's memory, get ordinary memory. See [`PageLocked`].
    ///
    /// # Errors
    /// [`Error::HostMemory`]; [`Error::TooLarge`] if the number of bytes overflows; [`Error::PageLockedMemory`] if the
    /// system does not give away so much.
    pub fn page_locked<T: Pixel>(&self, length: usize) -> Result<PageLocked<T>> {
        let bytes = length.checked_mul(size_of::<T>()).ok_or_else(|| Error::TooLarge {
            what: "the number of values".into(),
            most: usize::MAX / size_of::<T>(),
            found: length.to_string(),
        })?;
        #[cfg(feature = "cuda")]
        if let Kind::Cuda(gpu) = &self.kind
            // The driver locks no empty memory.
            && bytes > 0
        {
            return Ok(PageLocked::locked(gpu.page_locked(bytes)?));
        }
        #[cfg(not(feature = "cuda"))]
        let _ = bytes;
        Ok(PageLocked::ordinary(crate::memory::zeros(length, "for values")?))
    }

    /// Measures the rates that bound a convolution on this device; takes part of a second.
    ///
    /// # Errors
    /// [`Error::Driver`], [`Error::DeviceMemory`]; [`Error::NoTime`] for the emulator; [`Error::Parse`] on the CPU if
    /// `FALTUNG_CPU` names no instruction set that it has.
    pub fn rates(&self) -> Result<Rates> {
        match &self.kind {
            Kind::Cpu => cpu::rates(),
            Kind::Emulator { .. } => Err(Error::NoTime),
            #[cfg(feature = "cuda")]
            Kind::Cuda(gpu) => gpu.rates(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Border;

    #[test]
    fn page_locked_memory_of_any_device_is_countable() {
        for device in [Device::cpu(), Device::emulator(1)] {
            let error = device.page_locked::<f32>(usize::MAX).unwrap_err();
            assert!(matches!(error, Error::TooLarge { most, .. } if most == usize::MAX / 4), "{error}");
            assert!(device.page_locked::<f32>(0).unwrap().is_empty());
        }
    }

    /// NaN is found again, and a zero of another sign is another problem.
    #[test]
    fn what_is_ready_is_found_by_its_bits() {
        let image = Image::<f32>::zeros(5, 4, 1).unwrap();
        let bits = |device: &Device, filter: &Filter| {
            let result: Image<f32> = device.apply(filter, &image).unwrap();
            result.into_values().into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let (device, average) = (Device::cpu(), Filter::average(3, 3));
        for _ in 0..3 {
            bits(&device, &average.clone().border(Border::Constant(f32::NAN)));
        }
        let kept = Cell::new(0);
        device.recent.find(|_| {
            kept.set(kept.get() + 1);
            false
        });
        assert_eq!(kept.get(), 1);

        let zeros = [0.0, -0.0].map(|offset| bits(&device, &average.clone().scale(-1.0).offset(offset)));
        assert_eq!(zeros, [0.0_f32, -0.0].map(|zero| vec![zero.to_bits(); 20]));
    }
}
