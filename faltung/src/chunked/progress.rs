//! How far a run is, for others to look at while it goes on.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Counters of a run. Other threads may read them at any time.
#[derive(Debug, Default)]
pub struct Progress {
    chunks: AtomicU64,
    bytes_read: AtomicU64,
    nanos_reading: AtomicU64,
    pixels: AtomicU64,
    nanos_computing: AtomicU64,
    bytes_written: AtomicU64,
    nanos_writing: AtomicU64,
}

/// What was done so far. The times are sums over threads: with several threads they exceed the time that passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Chunks that were written.
    pub chunks: u64,
    /// Bytes of the pixels that were read, those of neighbouring chunks included.
    pub bytes_read: u64,
    /// Time of reading.
    pub reading: Duration,
    /// Pixels of the chunks that were computed.
    pub pixels: u64,
    /// Time of computing.
    pub computing: Duration,
    /// Bytes of the chunks that were written, before compression.
    pub bytes_written: u64,
    /// Time of writing.
    pub writing: Duration,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Progress {
    /// The counters now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let time = |nanos: &AtomicU64| Duration::from_nanos(nanos.load(Relaxed));
        Counts {
            chunks: self.chunks.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            reading: time(&self.nanos_reading),
            pixels: self.pixels.load(Relaxed),
            computing: time(&self.nanos_computing),
            bytes_written: self.bytes_written.load(Relaxed),
            writing: time(&self.nanos_writing),
        }
    }

    pub(super) fn read(&self, bytes: u64, time: Duration) {
        self.bytes_read.fetch_add(bytes, Relaxed);
        self.nanos_reading.fetch_add(nanos(time), Relaxed);
    }

    pub(super) fn computed(&self, pixels: u64, time: Duration) {
        self.pixels.fetch_add(pixels, Relaxed);
        self.nanos_computing.fetch_add(nanos(time), Relaxed);
    }

    pub(super) fn written(&self, bytes: u64, time: Duration) {
        self.chunks.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes, Relaxed);
        self.nanos_writing.fetch_add(nanos(time), Relaxed);
    }
}
