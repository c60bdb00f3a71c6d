//! Images that stay on a device.

use std::any::Any;
use std::fmt;

#[cfg(feature = "cuda")]
use crate::cuda::{ForeignMemory, ImageStorage, StoredImage};
#[cfg(feature = "cuda")]
use crate::stream::HOST;
use crate::stream::Stream;
use crate::{Error, Image, Pixel, Result, View, ViewMut};

/// An image in a device's memory. Made by [`Device::upload`](crate::Device::upload), by
/// [`Device::zeros`](crate::Device::zeros), by runs on images of the device, or
/// [from memory of somebody else](Self::from_raw).
///
/// Results stay on the device until they are [downloaded](Self::download): a chain of filters moves the image there and
/// back once. Dropping an image gives its memory back, for the next one, when all work that uses it is done. On the CPU
/// and the emulator the memory is the host's, and the same program runs.
///
/// ```
/// use faltung::{Device, DeviceImage, Filter, Image, Mask};
///
/// let device = Device::auto();
/// let stream = device.stream()?;
/// let pipeline = device.pipeline(&[Filter::new(Mask::gaussian(2.0, None)?), Filter::new(Mask::laplacian())])?;
///
/// let image = Image::from_fn(320, 200, |x, y| (x ^ y) as u8)?;
/// let source = device.upload(&image, &stream)?;
/// let edges: DeviceImage<u8> = pipeline.run(&source, &stream)?; // returns at once
/// let edges: Image<u8> = edges.download(&stream)?; // waits
/// # Ok::<(), faltung::Error>(())
/// ```
pub struct DeviceImage<T: Pixel> {
    width: usize,
    height: usize,
    channels: usize,
    /// Values from one row to the next.
    pitch: usize,
    storage: Storage<T>,
}

/// Where the values are.
enum Storage<T> {
    Host(Vec<T>),
    #[cfg(feature = "cuda")]
    Cuda(ImageStorage),
    Raw(RawMemory<T>),
}

/// Memory of somebody else. The device that uses it says whether the address is its own or the host's.
struct RawMemory<T> {
    pointer: *mut T,
    values: usize,
    /// The same for a CUDA device; it keeps the owner until no work uses the memory.
    #[cfg(feature = "cuda")]
    storage: ImageStorage,
    #[cfg(not(feature = "cuda"))]
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the pointer is used through its image alone, as `from_raw` demands, and values are plain numbers.
unsafe impl<T: Pixel> Send for RawMemory<T> {}
// SAFETY: a shared image only reads the memory, and values are plain numbers.
unsafe impl<T: Pixel> Sync for RawMemory<T> {}

impl<T: Pixel> DeviceImage<T> {
    /// An image in memory that somebody else owns, such as a tensor of another library: `height` rows of `width` pixels
    /// of `channels` interleaved values, `row_pitch` values from one row to the next. `owner` is dropped with the
    /// image, when no work uses the memory any more; the drop waits for that.
    ///
    /// On a CUDA device `pointer` is an address of the device, on the CPU and the emulator one of the host.
    ///
    /// ```
    /// use faltung::{Device, DeviceImage, Filter, Image, Mask};
    ///
    /// let device = Device::cpu();
    /// let stream = device.stream()?;
    /// let mut frame = vec![1.0_f32; 64 * 48];
    /// // SAFETY: the vector has 48 rows of 64 values, is aligned, and is the image's from now on.
    /// let image = unsafe { DeviceImage::<f32>::from_raw(frame.as_mut_ptr(), 64, 48, 1, 64, frame)? };
    /// let blurred: DeviceImage<f32> = device.pipeline(&[Filter::new(Mask::average(3, 3)?)])?.run(&image, &stream)?;
    /// let blurred: Image<f32> = blurred.download(&stream)?;
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`View::new`](crate::View::new), but for the length. [`Error::Number`] if `pointer` is null or not
    /// aligned to `T`. After an error the owner is dropped.
    ///
    /// # Safety
    /// - From `pointer` on lie `(height - 1) * row_pitch + width * channels` values.
    /// - They are initialised, and memory of the device whose streams the image is used with.
    /// - They stay until `owner` is dropped.
    /// - As long as the image lives, nobody else writes them. Where the image is a result
    ///   ([`Prepared::run_into`](crate::Prepared::run_into)), nobody else reads them, either.
    /// - What other libraries have enqueued on the memory is done, or ordered before the image's streams.
    pub unsafe fn from_raw(
        pointer: *mut T,
        width: usize,
        height: usize,
        channels: usize,
        row_pitch: usize,
        owner: impl Any + Send + Sync,
    ) -> Result<Self> {
        let values = Self::check_raw(pointer, width, height, channels, row_pitch)?;
        let owner: Box<dyn Any + Send + Sync> = Box::new(owner);
        let raw = RawMemory {
            pointer,
            values,
            #[cfg(feature = "cuda")]
            storage: ImageStorage::Foreign(ForeignMemory::new(
                pointer.expose_provenance() as u64,
                values * size_of::<T>(),
                owner,
            )),
            #[cfg(not(feature = "cuda"))]
            _owner: owner,
        };
        Ok(Self { width, height, channels, pitch: row_pitch, storage: Storage::Raw(raw) })
    }

    /// As [`from_raw`](Self::from_raw), but the image has no owner, and its drop does not wait: all that uses the
    /// memory is ordered by a stream of its owner's. For libraries that reuse memory in the order of a stream, as the
    /// allocators of CuPy and PyTorch do. The owner may give the memory back as soon as the calls that use the image
    /// have returned.
    ///
    /// ```
    /// use faltung::{Device, DeviceImage, Filter, Mask, Problem, VariantChoice};
    ///
    /// let device = Device::cpu();
    /// let ready = device.prepare(&Problem::new(64, 48, &Filter::new(Mask::average(3, 3)?))?, VariantChoice::Auto)?;
    /// let (mut frame, mut blurred) = (vec![1.0_f32; 64 * 48], vec![0.0_f32; 64 * 48]);
    /// // SAFETY: the vectors have 48 rows of 64 values, outlive the images, and are used through them alone.
    /// let (image, mut result) = unsafe {
    ///     let image = DeviceImage::<f32>::borrow_raw(frame.as_mut_ptr(), 64, 48, 1, 64)?;
    ///     (image, DeviceImage::<f32>::borrow_raw(blurred.as_mut_ptr(), 64, 48, 1, 64)?)
    /// };
    /// ready.run_into(&image, &mut result, &device.stream()?)?; // enqueued on a CUDA device
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`from_raw`](Self::from_raw).
    ///
    /// # Safety
    /// - From `pointer` on lie `(height - 1) * row_pitch + width * channels` values.
    /// - They are initialised, or nothing reads them before they are written. They are memory of the device whose
    ///   streams the image is used with.
    /// - On a CUDA device all calls that use the image take one stream, or the caller orders the streams by events.
    /// - What frees or writes the memory, or reads it where the image is a result, is ordered behind that stream's
    ///   work.
    /// - On the CPU and the emulator the memory stays until the image is dropped, and `from_raw`'s conditions on who
    ///   reads and writes it hold.
    pub unsafe fn borrow_raw(
        pointer: *mut T,
        width: usize,
        height: usize,
        channels: usize,
        row_pitch: usize,
    ) -> Result<Self> {
        let values = Self::check_raw(pointer, width, height, channels, row_pitch)?;
        let raw = RawMemory {
            pointer,
            values,
            #[cfg(feature = "cuda")]
            storage: ImageStorage::borrowed(pointer.expose_provenance() as u64, values * size_of::<T>()),
            #[cfg(not(feature = "cuda"))]
            _owner: Box::new(()),
        };
        Ok(Self { width, height, channels, pitch: row_pitch, storage: Storage::Raw(raw) })
    }

    /// The values from the first to the last of an image in memory of somebody else.
    fn check_raw(pointer: *mut T, width: usize, height: usize, channels: usize, row_pitch: usize) -> Result<usize> {
        let values = View::<T>::span(width, height, channels, row_pitch)?;
        if pointer.is_null() || !pointer.is_aligned() {
            let (what, required) = ("the address of an image", "not null, and aligned to the type of its values");
            return Err(Error::Number { what, required, found: format!("{pointer:?}") });
        }
        Ok(values)
    }

    /// Columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Values of a pixel.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Values from one row to the next.
    #[must_use]
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// The address of the first value: the device's own on a CUDA device, the host's on the others. For libraries that
    /// work on the same memory; what they enqueue must be ordered after this image's streams.
    #[must_use]
    pub fn as_ptr(&self) -> *const T {
        match &self.storage {
            Storage::Host(values) => values.as_ptr(),
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => std::ptr::with_exposed_provenance(storage.address() as usize),
            Storage::Raw(raw) => raw.pointer,
        }
    }

    /// Copies the image to host memory, behind all work that makes it and all that the stream was given. Waits for the
    /// copy.
    ///
    /// # Errors
    /// [`Error::HostMemory`]; [`Error::DeviceLost`] and [`Error::Driver`], also of work before; [`Error::OtherDevice`].
    pub fn download(&self, stream: &Stream) -> Result<Image<T>> {
        let mut image = Image::zeros(self.width, self.height, self.channels)?;
        self.download_into(image.view_mut(), stream)?;
        Ok(image)
    }

    /// As [`download`](Self::download), to memory that is there already, with gaps between rows or without.
    ///
    /// # Errors
    /// As for [`download`](Self::download); [`Error::OtherSize`], [`Error::ChannelCount`] if the view has another
    /// size.
    pub fn download_into(&self, mut to: ViewMut<'_, T>, stream: &Stream) -> Result<()> {
        if (to.width(), to.height()) != self.size() {
            return Err(Error::OtherSize { planned: self.size(), found: (to.width(), to.height()) });
        }
        if to.channels() != self.channels {
            return Err(Error::ChannelCount { required: self.channels.to_string(), found: to.channels() });
        }
        #[cfg(feature = "cuda")]
        if let Some(own) = stream.on_cuda() {
            return own.download(self.stored(stream)?, crate::rows::HostRowsMut::of(to));
        }
        stream.check_on_host()?;
        to.set_rows(&self.host_view()?);
        Ok(())
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// An image in host memory.
    pub(crate) fn on_host(image: Image<T>) -> Self {
        let (width, height, channels) = (image.width(), image.height(), image.channels());
        Self { width, height, channels, pitch: width * channels, storage: Storage::Host(image.into_values()) }
    }

    /// An image of this size in memory of a CUDA device. `make` gets the pitch in bytes and allocates the memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_cuda(
        (width, height): (usize, usize),
        channels: usize,
        make: impl FnOnce(usize) -> Result<ImageStorage>,
    ) -> Result<Self> {
        let pitch = crate::plan::device_pitch(width * channels, size_of::<T>());
        Ok(Self { width, height, channels, pitch, storage: Storage::Cuda(make(pitch * size_of::<T>())?) })
    }

    /// The image as a CUDA device takes it.
    #[cfg(feature = "cuda")]
    pub(crate) fn stored(&self, stream: &Stream) -> Result<StoredImage<'_>> {
        let storage = match &self.storage {
            Storage::Cuda(storage) => storage,
            Storage::Raw(raw) => &raw.storage,
            Storage::Host(_) => {
                let required = stream.on_cuda().map_or_else(|| HOST.into(), |stream| stream.device().describe());
                return Err(Error::OtherDevice { what: "the image", required, found: HOST.into() });
            }
        };
        Ok(StoredImage { storage, pitch: self.pitch * size_of::<T>() })
    }

    /// The image as devices take it that work in host memory.
    pub(crate) fn host_view(&self) -> Result<View<'_, T>> {
        let values = match &self.storage {
            Storage::Host(values) => values.as_slice(),
            // SAFETY: on such a device the memory is the host's, as `from_raw` demands, and nobody writes it.
            Storage::Raw(raw) => unsafe { std::slice::from_raw_parts(raw.pointer, raw.values) },
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => return Err(storage.not_on_host()),
        };
        View::new(self.width, self.height, self.channels, self.pitch, values)
    }

    /// As [`host_view`](Self::host_view), to be written.
    pub(crate) fn host_view_mut(&mut self) -> Result<ViewMut<'_, T>> {
        let values = match &mut self.storage {
            Storage::Host(values) => values.as_mut_slice(),
            // SAFETY: on such a device the memory is the host's, as `from_raw` demands, and nobody else uses it.
            Storage::Raw(raw) => unsafe { std::slice::from_raw_parts_mut(raw.pointer, raw.values) },
            #[cfg(feature = "cuda")]
            Storage::Cuda(storage) => return Err(storage.not_on_host()),
        };
        ViewMut::new(self.width, self.height, self.channels, self.pitch, values)
    }
}

impl<T: Pixel> fmt::Debug for DeviceImage<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { width, height, channels, pitch, .. } = self;
        f.debug_struct("DeviceImage")
            .field("width", width)
            .field("height", height)
            .field("channels", channels)
            .field("pitch", pitch)
            .finish_non_exhaustive()
    }
}
