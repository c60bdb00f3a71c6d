//! What one run from host memory and back needs for itself: streams and page-locked memory.
//!
//! Several threads run on one device at once. Each takes a lane, and gives it back when its run has ended. So no lock is
//! held while anything runs, and a run that begins within another one, on the same thread, has another lane.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use cust::stream::{Stream, StreamFlags};

use super::Gpu;
use super::mapped::Mapped;
use super::staging::Staging;
use super::status::DriverResultExt;
use crate::Result;

/// Streams and page-locked memory of one run.
pub(super) struct Lane {
    /// The stream that computes.
    pub(super) main: Stream,
    /// The one for images on their way to the device.
    pub(super) up: Stream,
    /// The one for results on their way back.
    pub(super) down: Stream,
    pub(super) staging: Staging,
    /// For small images; made when it is first needed.
    pub(super) mapped: Option<Mapped>,
}

/// The lanes of a device that nobody uses.
#[derive(Default)]
pub(super) struct Lanes(Mutex<Vec<Lane>>);

impl Lanes {
    /// Frees them. Nothing runs in them.
    pub(super) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A lane, lent until this is dropped.
pub(super) struct LaneGuard<'gpu> {
    gpu: &'gpu Gpu,
    /// None once it is given back.
    lane: Option<Lane>,
}

impl Gpu {
    /// A lane that nobody else uses.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub(super) fn lane(&self) -> Result<LaneGuard<'_>> {
        let idle = self.lanes.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let lane = match idle {
            Some(lane) => lane,
            None => {
                let _entered = self.enter()?;
                let stream = || Stream::new(StreamFlags::NON_BLOCKING, None).context("create a stream");
                Lane { main: stream()?, up: stream()?, down: stream()?, staging: Staging::default(), mapped: None }
            }
        };
        Ok(LaneGuard { gpu: self, lane: Some(lane) })
    }
}

impl Deref for LaneGuard<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        self.lane.as_ref().expect("it is given back last")
    }
}

impl DerefMut for LaneGuard<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        self.lane.as_mut().expect("it is given back last")
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        // Whoever lends memory to a stream waits for it (`lend`), on panics, too: nothing runs in the lane.
        self.gpu.lanes.0.lock().unwrap_or_else(PoisonError::into_inner).extend(self.lane.take());
    }
}
