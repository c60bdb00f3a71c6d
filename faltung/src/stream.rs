//! Streams and events: the order of work on a device.

use std::time::{Duration, Instant};

#[cfg(feature = "cuda")]
use std::sync::Arc;

#[cfg_attr(not(feature = "cuda"), allow(unused_imports, reason = "the documentation names it"))]
use crate::Error;
use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda::{Gpu, Mark, OwnStream};

/// A queue of work on a device, which does one thing after the other. Made by [`Device::stream`](crate::Device::stream).
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
            Kind::Host => Err(Error::OtherDevice { required: gpu.describe(), found: HOST.into() }),
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
    Error::OtherDevice { required: required.to_owned(), found: found.describe() }
}

/// A mark in a stream's work: it comes when all work before it is done. Made by [`Stream::record`].
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
    /// Waits until it comes.
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

    /// Whether it has come.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    pub fn has_come(&self) -> Result<bool> {
        match &self.kind {
            EventKind::Host(_) => Ok(true),
            #[cfg(feature = "cuda")]
            EventKind::Cuda(mark) => mark.has_come(),
        }
    }

    /// The time from `start` to this, by the device's clock; zero if this came first. Both must have come.
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
                Err(Error::OtherDevice { required: "the device of the other event".into(), found: HOST.into() })
            }
        }
    }
}
