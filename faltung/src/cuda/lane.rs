//! What one run from host memory and back needs for itself: streams and page-locked memory.
//!
//! Several threads run on one device at once. Each takes a lane, and gives it back when its run has ended. So no lock
//! is held while anything runs, and a run that begins within another one, on the same thread, has another lane.

use cust::stream::Stream;

use super::mapped::Mapped;
use super::staging::Staging;
use super::status::DriverResultExt;
use super::{Gpu, driver};
use crate::Result;
use crate::spares::Spare;

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

impl Gpu {
    /// A lane that nobody else uses.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), [`Error::DeviceLost`](crate::Error::DeviceLost).
    pub(super) fn lane(&self) -> Result<Spare<'_, Lane>> {
        // Whoever lends memory to a stream waits for it (`lend`), on panics, too: nothing runs in a lane that is given
        // back.
        self.lanes.take(|| {
            let _entered = self.enter()?;
            let stream = || driver::stream().context("create a stream");
            let (staging, mapped) = (Staging::default(), None);
            Ok(Lane { main: stream()?, up: stream()?, down: stream()?, staging, mapped })
        })
    }
}
