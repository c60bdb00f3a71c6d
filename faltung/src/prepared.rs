//! A problem made ready on a device, to run from any thread, any number of times.

use std::fmt;
use std::sync::Arc;

use cuda_emulator::Counts;

use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda::GpuConvolution;
use crate::device_image::DeviceImage;
use crate::emulated::EmulatorConvolution;
use crate::image::{bytes_of, bytes_of_mut};
use crate::plan::Plan;
use crate::rows::{HostRows, HostRowsMut};
use crate::stream::Stream;
use crate::{Error, ErrorBound, Image, Pixel, PixelFormat, Problem, Result, View, ViewMut};

/// A filter on images of one size and type, made ready on a device: the kernel is chosen and compiled, the mask is in
/// its place. Made by [`Device::prepare`](crate::Device::prepare).
///
/// It belongs to no thread: clones are cheap and share everything, and several threads run it at once.
/// [`apply`](Self::apply) goes from host memory to host memory and waits. [`run`](Self::run) works on images that stay
/// on the device and waits for nothing.
///
/// ```
/// use faltung::{Device, Filter, Image, Mask, Problem, VariantChoice};
///
/// let problem = Problem::new(64, 48, &Filter::new(Mask::gaussian(2.0, None)?))?;
/// let blur = Device::cpu().prepare(&problem, VariantChoice::Auto)?;
/// std::thread::scope(|threads| {
///     for number in 0..4 {
///         let blur = &blur;
///         threads.spawn(move || {
///             let frame = Image::from_fn(64, 48, |x, y| (number * x + y) as f32)?;
///             blur.apply::<f32, f32>(&frame)
///         });
///     }
/// });
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone)]
pub struct Prepared {
    shared: Arc<Shared>,
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut prepared = f.debug_struct("Prepared");
        prepared.field("problem", self.problem()).field("variant", &self.variant()).finish_non_exhaustive()
    }
}

struct Shared {
    problem: Problem,
    engine: Engine,
    /// What was not as it was asked for before it ran.
    note: Option<String>,
}

/// What a device has made ready.
pub(crate) enum Engine {
    Cpu(cpu::Convolution),
    Emulator(Box<EmulatorConvolution>),
    #[cfg(feature = "cuda")]
    Cuda(Box<GpuConvolution>),
}

impl Engine {
    /// # Errors
    /// [`Error::Parse`] if `FALTUNG_CPU` names no instruction set of this CPU.
    pub(crate) fn on_cpu(problem: &Problem) -> Result<Self> {
        Ok(Self::Cpu(cpu::Convolution::new(problem)?))
    }
}

impl Prepared {
    pub(crate) fn new(problem: &Problem, engine: Engine, note: Option<String>) -> Self {
        Self { shared: Arc::new(Shared { problem: problem.clone(), engine, note }) }
    }

    /// The problem.
    #[must_use]
    pub fn problem(&self) -> &Problem {
        &self.shared.problem
    }

    /// The name of the variant that computes.
    #[must_use]
    pub fn variant(&self) -> &'static str {
        match (&self.shared.engine, self.plan()) {
            (Engine::Cpu(convolution), _) => convolution.variant(),
            (_, plan) => plan.map_or("", |plan| plan.entry.variant.name()),
        }
    }

    /// Why this variant: one line for people.
    #[must_use]
    pub fn reason(&self) -> String {
        match (&self.shared.engine, self.plan()) {
            (Engine::Cpu(convolution), _) => convolution.reason(),
            (_, plan) => plan.map_or_else(String::new, |plan| plan.reason.clone()),
        }
    }

    /// The accuracy class that the variant keeps, and its error bound.
    #[must_use]
    pub fn bound(&self) -> ErrorBound {
        match (&self.shared.engine, self.plan()) {
            (_, Some(plan)) => plan.bound(self.problem()),
            (Engine::Cpu(convolution), None) => convolution.bound(self.problem()),
            (_, None) => ErrorBound::direct(self.problem()),
        }
    }

    /// How the run differs from the request: in strips, with another variant or on the CPU, and why. After a run also
    /// what the driver or the system refused, so that the results take longer. One line for people.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        #[cfg(feature = "cuda")]
        if let Engine::Cuda(engine) = &self.shared.engine {
            let notes: Vec<_> = self.shared.note.iter().cloned().chain(engine.notes()).collect();
            return (!notes.is_empty()).then(|| notes.join("; "));
        }
        self.shared.note.clone()
    }

    /// The plan for the GPU or its emulator; None on the CPU.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match &self.shared.engine {
            Engine::Cpu(_) => None,
            Engine::Emulator(engine) => Some(engine.plan()),
            #[cfg(feature = "cuda")]
            Engine::Cuda(engine) => Some(engine.plan()),
        }
    }

    /// Filters an image of the problem's size and pixel format, and waits for the result.
    ///
    /// # Errors
    /// [`Error::OtherSize`] if the image has another size, [`Error::OtherFormat`] if it has other channels or one of
    /// the types is another, [`Error::HostMemory`] if there is too little memory for the result,
    /// [`Error::DeviceMemory`] if several threads run at once and the device's memory is not enough for all,
    /// [`Error::Driver`], [`Error::DeviceLost`].
    pub fn apply<T: Pixel, U: Pixel>(&self, image: &Image<T>) -> Result<Image<U>> {
        self.check_size(image.width(), image.height())?;
        let mut result = Image::zeros(image.width(), image.height(), image.channels())?;
        self.apply_view(image.view(), result.view_mut())?;
        Ok(result)
    }

    /// Filters an image in somebody else's memory to another place there, with gaps between rows or without. A CUDA
    /// device reads and writes rows with gaps where they are; the CPU makes copies without gaps.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply).
    pub fn apply_view<T: Pixel, U: Pixel>(&self, image: View<'_, T>, mut result: ViewMut<'_, U>) -> Result<()> {
        self.check_views(&image, &result)?;
        let engine = match &self.shared.engine {
            Engine::Cpu(engine) => engine,
            Engine::Emulator(engine) => return engine.run(HostRows::of(&image), HostRowsMut::of(result)),
            #[cfg(feature = "cuda")]
            Engine::Cuda(engine) => return engine.run(HostRows::of(&image), HostRowsMut::of(result)),
        };
        let dense;
        let source = match image.as_dense() {
            Some(source) => source,
            None => {
                dense = dense_copy(image)?;
                &dense
            }
        };
        if let Some(result) = result.as_dense_mut() {
            return engine.run(self.problem(), bytes_of(source), bytes_of_mut(result));
        }
        let mut values = crate::memory::zeros(self.problem().values(), "for the result")?;
        engine.run(self.problem(), bytes_of(source), bytes_of_mut(&mut values))?;
        result.set(&values);
        Ok(())
    }

    /// Filters values without gaps, row by row, channels together: as many in as out. Waits for the result.
    ///
    /// # Errors
    /// [`Error::Length`] if a slice has another length; as for [`apply`](Self::apply).
    pub fn apply_values<T: Pixel, U: Pixel>(&self, source: &[T], result: &mut [U]) -> Result<()> {
        let channels = self.problem().format().channels;
        self.check_format(PixelFormat::of::<T, U>(channels))?;
        for (what, found) in [("source", source.len()), ("result", result.len())] {
            let required = self.problem().values();
            if found != required {
                let (width, height) = (self.problem().width(), self.problem().height());
                return Err(Error::Length { what, width, height, channels, required, found });
            }
        }
        let (width, height) = (self.problem().width(), self.problem().height());
        let source = View::new(width, height, channels, width * channels, source)?;
        self.apply_view(source, ViewMut::new(width, height, channels, width * channels, result)?)
    }

    /// Filters many images, each into the result of the same number, and waits for all. On a CUDA device
    /// large images can overlap if all images and results are in
    /// [page-locked memory](crate::Device::page_locked). One is uploaded while another is computed and a third is
    /// downloaded.
    ///
    /// # Errors
    /// - [`Error::Batch`] if there are more or fewer results than images. [`Error::OtherSize`] and
    ///   [`Error::OtherFormat`] as for [`apply`](Self::apply), if any image or result is not the problem's. All are
    ///   checked first: no result is written then.
    /// - The others of [`apply`](Self::apply), of the first image that failed. The results may be unwritten then.
    pub fn run_batch<T: Pixel, U: Pixel>(&self, images: &[View<'_, T>], results: &mut [ViewMut<'_, U>]) -> Result<()> {
        if images.len() != results.len() {
            return Err(Error::Batch { images: images.len(), results: results.len() });
        }
        for (image, result) in images.iter().zip(&*results) {
            self.check_views(image, result)?;
        }
        #[cfg(feature = "cuda")]
        if let Engine::Cuda(engine) = &self.shared.engine {
            let sources: Vec<_> = images.iter().map(HostRows::of).collect();
            let results = results.iter_mut().map(|result| HostRowsMut::of(result.reborrow())).collect();
            return engine.run_batch(&sources, results);
        }
        images.iter().zip(results).try_for_each(|(image, result)| self.apply_view(*image, result.reborrow()))
    }

    /// Filters an image that is on the device to a new one there. The work is given to the stream, and this returns at
    /// once: what goes wrong on the device shows when the stream is waited for. (The CPU and the emulator have done the
    /// work when it returns.)
    ///
    /// Several streams may use one image. A stream waits on the device for earlier conflicting accesses of the others.
    ///
    /// # Errors
    /// As for [`apply`](Self::apply); [`Error::DeviceMemory`] also if the image and its result do not fit the device's
    /// memory whole; [`Error::OtherDevice`] if image or stream belong to another device.
    pub fn run<T: Pixel, U: Pixel>(&self, image: &DeviceImage<T>, stream: &Stream) -> Result<DeviceImage<U>> {
        self.check_image::<T, U>(image.size(), image.channels())?;
        #[cfg(feature = "cuda")]
        if let Engine::Cuda(engine) = &self.shared.engine {
            let (source, own) = (image.stored(stream)?, stream.own(engine.gpu())?);
            return DeviceImage::on_cuda(image.size(), image.channels(), |_| engine.run_on(source, own));
        }
        let mut result = DeviceImage::on_host(Image::zeros(image.width(), image.height(), image.channels())?);
        self.run_on_host(image, &mut result, stream)?;
        Ok(result)
    }

    /// As [`run`](Self::run), to an image that is there already: its memory is used again. The first one can come from
    /// [`Device::zeros`](crate::Device::zeros).
    ///
    /// # Errors
    /// As for [`run`](Self::run).
    pub fn run_into<T: Pixel, U: Pixel>(
        &self,
        image: &DeviceImage<T>,
        result: &mut DeviceImage<U>,
        stream: &Stream,
    ) -> Result<()> {
        self.check_image::<T, U>(image.size(), image.channels())?;
        self.check_image::<T, U>(result.size(), result.channels())?;
        #[cfg(feature = "cuda")]
        if let Engine::Cuda(engine) = &self.shared.engine {
            return engine.run_into(image.stored(stream)?, result.stored(stream)?, stream.own(engine.gpu())?);
        }
        self.run_on_host(image, result, stream)
    }

    /// What a profiler would count for one run on these values, computed by the emulator from the addresses of all
    /// accesses; None on other devices.
    ///
    /// # Errors
    /// [`Error::OtherSize`] if the image has another size, [`Error::OtherFormat`] if it has other channels or another
    /// type. On the emulator also [`Error::Emulator`] if the kernel did something wrong, [`Error::DeviceMemory`] if the
    /// image would take strips, and [`Error::HostMemory`].
    pub fn counts<T: Pixel>(&self, image: View<'_, T>) -> Result<Option<Counts>> {
        self.check_size(image.width(), image.height())?;
        self.check_format(PixelFormat { input: T::TYPE, channels: image.channels(), ..self.problem().format() })?;
        match &self.shared.engine {
            Engine::Emulator(engine) => engine.counts(HostRows::of(&image)).map(Some),
            _ => Ok(None),
        }
    }

    /// [`run_into`](Self::run_into) on a device that works in the host's memory.
    fn run_on_host<T: Pixel, U: Pixel>(
        &self,
        image: &DeviceImage<T>,
        result: &mut DeviceImage<U>,
        stream: &Stream,
    ) -> Result<()> {
        stream.check_on_host()?;
        self.apply_view(image.host_view()?, result.host_view_mut()?)
    }

    fn check_size(&self, width: usize, height: usize) -> Result<()> {
        let (planned, found) = ((self.problem().width(), self.problem().height()), (width, height));
        if planned == found { Ok(()) } else { Err(Error::OtherSize { planned, found }) }
    }

    fn check_format(&self, found: PixelFormat) -> Result<()> {
        let planned = self.problem().format();
        if planned == found { Ok(()) } else { Err(Error::OtherFormat { planned, found }) }
    }

    fn check_views<T: Pixel, U: Pixel>(&self, image: &View<'_, T>, result: &ViewMut<'_, U>) -> Result<()> {
        self.check_size(image.width(), image.height())?;
        self.check_size(result.width(), result.height())?;
        self.check_format(PixelFormat::of::<T, U>(image.channels()))?;
        self.check_format(PixelFormat::of::<T, U>(result.channels()))
    }

    fn check_image<T: Pixel, U: Pixel>(&self, (width, height): (usize, usize), channels: usize) -> Result<()> {
        self.check_size(width, height)?;
        self.check_format(PixelFormat::of::<T, U>(channels))
    }
}

/// A copy without gaps.
fn dense_copy<T: Pixel>(image: View<'_, T>) -> Result<Vec<T>> {
    let row = image.width() * image.channels();
    let mut values = crate::memory::zeros(row * image.height(), "for a copy of the image without gaps")?;
    for (y, to) in values.chunks_exact_mut(row).enumerate() {
        to.copy_from_slice(image.row(y));
    }
    Ok(values)
}
