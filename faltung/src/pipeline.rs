//! Several filters, one after the other, with the images between them on the device.

use std::fmt;
use std::sync::Arc;

use crate::device_image::DeviceImage;
use crate::prepared::Prepared;
use crate::recent::Recent;
use crate::stream::Stream;
use crate::{Device, Error, Filter, Image, Pixel, PixelFormat, PixelType, Problem, Result, VariantChoice};

/// Filters that are applied one after the other. Made by [`Device::pipeline`].
///
/// The images between two filters stay on the device, in `f32`: they are neither rounded nor saturated. The result is
/// that of [`Device::apply`] from `T` to `f32`, from `f32` to `f32` for each filter between, and from `f32` to `U`. On
/// a CUDA device the memory of these images is reused.
///
/// It takes images of any size. What a size needs is made ready when the first image of it comes, and kept for the last
/// few sizes. Clones are cheap and share everything, and several threads run it at once.
///
/// ```
/// use faltung::{Device, Filter, Image, Mask};
///
/// let device = Device::auto();
/// let edges = device.pipeline(&[Filter::new(Mask::gaussian(1.5, None)?), Filter::new(Mask::laplacian())])?;
/// let image = Image::from_fn(320, 200, |x, y| (x ^ y) as u8)?;
/// let found: Image<f32> = edges.apply(&image)?;
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone)]
pub struct Pipeline {
    shared: Arc<Shared>,
}

struct Shared {
    device: Device,
    filters: Vec<Filter>,
    ready: Recent<(Key, Arc<[Prepared]>), KEPT>,
}

/// What the filters were made ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    width: usize,
    height: usize,
    format: PixelFormat,
}

/// For how many sizes and types what they need is kept.
const KEPT: usize = 8;

impl Pipeline {
    pub(crate) fn new(device: Device, filters: &[Filter]) -> Result<Self> {
        if filters.is_empty() {
            let what = "the number of filters of a pipeline";
            return Err(Error::Number { what, required: "at least 1", found: "0".to_owned() });
        }
        Ok(Self { shared: Arc::new(Shared { device, filters: filters.to_vec(), ready: Recent::default() }) })
    }

    /// The filters.
    #[must_use]
    pub fn filters(&self) -> &[Filter] {
        &self.shared.filters
    }

    /// Prepares the filters for images of this size, type and number of channels. Then the first image
    /// compiles nothing.
    ///
    /// # Errors
    /// Those of [`Problem::new`], [`Problem::with_format`] and [`Device::prepare_for_device_images`].
    pub fn prepare<T: Pixel, U: Pixel>(&self, width: usize, height: usize, channels: usize) -> Result<()> {
        self.ready(Key { width, height, format: PixelFormat::of::<T, U>(channels) }).map(drop)
    }

    /// Filters an image that is on the device to a new one there. The work is given to the stream, and this returns at
    /// once, but for the first image of a size and type.
    ///
    /// # Errors
    /// As for [`prepare`](Self::prepare) and [`Prepared::run`].
    pub fn run<T: Pixel, U: Pixel>(&self, image: &DeviceImage<T>, stream: &Stream) -> Result<DeviceImage<U>> {
        let format = PixelFormat::of::<T, U>(image.channels());
        let ready = self.ready(Key { width: image.width(), height: image.height(), format })?;
        match &*ready {
            [only] => only.run(image, stream),
            [first, between @ .., last] => {
                let mut current: DeviceImage<f32> = first.run(image, stream)?;
                for filter in between {
                    current = filter.run(&current, stream)?;
                }
                last.run(&current, stream)
            }
            [] => unreachable!("a pipeline without filters is never ready"),
        }
    }

    /// Filters an image in host memory, and waits for the result.
    ///
    /// # Errors
    /// As for [`run`](Self::run); [`Error::HostMemory`].
    pub fn apply<T: Pixel, U: Pixel>(&self, image: &Image<T>) -> Result<Image<U>> {
        let stream = self.shared.device.stream()?;
        let source = self.shared.device.upload(image, &stream)?;
        self.run::<T, U>(&source, &stream)?.download(&stream)
    }

    /// The filters, made ready for a size and a pixel format.
    fn ready(&self, key: Key) -> Result<Arc<[Prepared]>> {
        let Shared { device, filters, ready } = &*self.shared;
        let last = filters.len() - 1;
        let make = |(number, filter): (usize, &Filter)| {
            let input = if number == 0 { key.format.input } else { PixelType::F32 };
            let output = if number == last { key.format.output } else { PixelType::F32 };
            let problem = Problem::new(key.width, key.height, filter)?;
            let problem = problem.with_format(PixelFormat { input, output, ..key.format })?;
            // Only images of the device are filtered. So no workspace is allocated, and no strips are needed.
            device.prepare_for_device_images(&problem, VariantChoice::Auto)
        };
        let make_all = || Ok((key, filters.iter().enumerate().map(make).collect::<Result<_>>()?));
        ready.get(|(known, _)| *known == key, make_all).map(|(_, ready)| ready)
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("filters", &self.shared.filters).finish_non_exhaustive()
    }
}
