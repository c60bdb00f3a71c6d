//! Streams and events: the order of work on a device.

use std::ffi::c_void;
use std::time::{Duration, Instant};

#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg(feature = "cuda")]
use crate::cuda::{Gpu, Mark, OwnStream};
use crate::{Device, Error, Result};

/// A queue of work on a device, which does one thing after the other. Made by
/// [`Device::stream`](crate::Device::stream).
///
/// Work is enqueued without waiting for it. Work in two streams may overlap. The library orders their conflicting
/// accesses to one image. Clones are the same queue. A stream may be dropped before its work is done.
///
/// On the CPU and the emulator work is done when it is given.
#[derive(Clone, Debug)]
pub struct Stream {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Host,
    #[cfg(feature = "cuda")]
    Cuda(Arc<OwnStream>),
}

impl Stream {
    pub(crate) fn host() -> Self {
        Self { kind: Kind::Host }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda(stream: Arc<OwnStream>) -> Self {
        Self { kind: Kind::Cuda(stream) }
    }

    /// A stream of a CUDA device that somebody else made, by the driver's handle (`CUstream`, `cudaStream_t`): for work
    /// between that of another library. It is never destroyed here.
    ///
    /// 0 and 1 are the legacy default stream. 2 is the default stream of the thread that calls.
    ///
    /// ```no_run
    /// use faltung::{Device, Stream};
    ///
    /// let device = Device::cuda(0)?;
    /// // SAFETY: the default stream is always open.
    /// let stream = unsafe { Stream::from_raw(&device, std::ptr::null_mut())? };
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the device is not a CUDA device.
    ///
    /// # Safety
    /// - `handle` is 0, 1, 2, or a stream of the device's primary context. CUDA's runtime and the libraries on it use
    ///   that context.
    /// - The stream stays open until this, its clones, and all images that it was used with are dropped. Images
    ///   [without an owner](crate::DeviceImage::borrow_raw), filters made ready and pipelines may live longer.
    /// - With the handle 2 all calls come from one thread.
    pub unsafe fn from_raw(device: &Device, handle: *mut c_void) -> Result<Self> {
        #[cfg(feature = "cuda")]
        if let crate::device::Kind::Cuda(gpu) = &device.kind {
            // SAFETY: as above. The memory that notes its users is that of images, which the caller drops before.
            return Ok(Self::cuda(unsafe { OwnStream::foreign(gpu, handle.cast()) }));
        }
        let required = format!("a CUDA device for the handle {handle:?}");
        Err(Error::OtherDevice { what: "the stream", required, found: device.describe() })
    }

    /// The driver's handle (`CUstream`, `cudaStream_t`), for work of other libraries in this stream. It is valid as
    /// long as the stream. None for a stream of the host.
    ///
    /// Streams of the library have the flag `CU_STREAM_NON_BLOCKING`: they are not ordered with the legacy default
    /// stream.
    #[must_use]
    pub fn as_raw(&self) -> Option<*mut c_void> {
        match &self.kind {
            Kind::Host => None,
            #[cfg(feature = "cuda")]
            Kind::Cuda(stream) => Some(stream.handle().cast()),
        }
    }

    /// Waits until all that the stream was given is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`]: what went wrong in kernels and copies shows here.
    pub fn synchronize(&self) -> Result<()> {
        match &self.kind {
            Kind::Host => Ok(()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(stream) => stream.synchronize(),
        }
    }

    /// An event behind all that the stream was given until now.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`].
    pub fn record(&self) -> Result<Event> {
        let kind = match &self.kind {
            Kind::Host => EventKind::Host(Instant::now()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(stream) => EventKind::Cuda(Arc::new(stream.record()?)),
        };
        Ok(Event { kind })
    }

    /// Makes all later work of the stream wait on the device until `event` completes. A stream of the CPU or the
    /// emulator blocks the calling thread instead.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`].
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        match (&self.kind, &event.kind) {
            // What was given is done.
            (_, EventKind::Host(_)) => Ok(()),
            #[cfg(feature = "cuda")]
            (Kind::Host, EventKind::Cuda(event)) => event.synchronize(),
            #[cfg(feature = "cuda")]
            (Kind::Cuda(stream), EventKind::Cuda(event)) => stream.wait_for(event),
        }
    }

    /// Fails if this is a stream of a CUDA device.
    pub(crate) fn check_on_host(&self) -> Result<()> {
        match &self.kind {
            Kind::Host => Ok(()),
            #[cfg(feature = "cuda")]
            Kind::Cuda(stream) => Err(other_device(HOST, stream.device())),
        }
    }

    /// The stream of a CUDA device, to be used by `gpu`.
    #[cfg(feature = "cuda")]
    pub(crate) fn own(&self, gpu: &Arc<Gpu>) -> Result<&Arc<OwnStream>> {
        match &self.kind {
            Kind::Cuda(stream) if Arc::ptr_eq(stream.device(), gpu) => Ok(stream),
            Kind::Cuda(stream) => Err(other_device(&gpu.describe(), stream.device())),
            Kind::Host => Err(Error::OtherDevice { what: "the stream", required: gpu.describe(), found: HOST.into() }),
        }
    }

    /// The stream of a CUDA device, if it is one.
    #[cfg(feature = "cuda")]
    pub(crate) fn on_cuda(&self) -> Option<&Arc<OwnStream>> {
        match &self.kind {
            Kind::Host => None,
            Kind::Cuda(stream) => Some(stream),
        }
    }
}

/// What a device without memory of its own is called.
#[cfg(feature = "cuda")]
pub(crate) const HOST: &str = "a device that works in host memory";

#[cfg(feature = "cuda")]
fn other_device(required: &str, found: &Gpu) -> Error {
    Error::OtherDevice { what: "the stream", required: required.to_owned(), found: found.describe() }
}

/// An event in a stream's work. It completes when all work before it is done. Made by [`Stream::record`].
#[derive(Clone, Debug)]
pub struct Event {
    kind: EventKind,
}

#[derive(Clone, Debug)]
enum EventKind {
    Host(Instant),
    #[cfg(feature = "cuda")]
    Cuda(Arc<Mark>),
}

impl Event {
    /// Waits until it completes.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Driver`]: what went wrong in the work before it.
    pub fn synchronize(&self) -> Result<()> {
        match &self.kind {
            EventKind::Host(_) => Ok(()),
            #[cfg(feature = "cuda")]
            EventKind::Cuda(mark) => mark.synchronize(),
        }
    }

    /// Whether it is complete.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    pub fn is_complete(&self) -> Result<bool> {
        match &self.kind {
            EventKind::Host(_) => Ok(true),
            #[cfg(feature = "cuda")]
            EventKind::Cuda(mark) => mark.is_complete(),
        }
    }

    /// The time from `start` to this, by the device's clock; zero if this completed first. Both must be complete.
    ///
    /// ```
    /// let stream = faltung::Device::auto().stream()?;
    /// let start = stream.record()?;
    /// let end = stream.record()?;
    /// end.synchronize()?;
    /// println!("{:?}", end.since(&start)?);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if only one of the events is from a CUDA device. [`Error::Driver`] also if one has not
    /// completed.
    pub fn since(&self, start: &Self) -> Result<Duration> {
        match (&self.kind, &start.kind) {
            (EventKind::Host(end), EventKind::Host(start)) => Ok(end.saturating_duration_since(*start)),
            #[cfg(feature = "cuda")]
            (EventKind::Cuda(end), EventKind::Cuda(start)) => end.since(start),
            #[cfg(feature = "cuda")]
            (EventKind::Host(_), EventKind::Cuda(_)) | (EventKind::Cuda(_), EventKind::Host(_)) => {
                let required = "that of the other event".into();
                Err(Error::OtherDevice { what: "the event", required, found: HOST.into() })
            }
        }
    }
}
