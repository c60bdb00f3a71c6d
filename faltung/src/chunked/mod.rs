//! Images that are never whole in memory, filtered chunk by chunk.
//!
//! A [`ChunkedFilter`] reads the pixels under the windows of one output chunk from a [`WindowSource`], filters them on
//! a [`Device`], and writes the chunk to a [`ChunkSink`]. Chunks do not depend on each other: any part of them may be
//! computed by another process, or again. Several chunks are under way at the same time, so that reading, computing
//! and writing overlap. Together they keep within a number of bytes.
//!
//! The border stands at the edges of the image only. It may repeat pixels from far away ([`Border::Wrap`]), and the
//! mask may be larger than a chunk or the image. Results of integer types, and all results of [`Accuracy::Exact`], are
//! bit-exact with those of [`Device::apply`] for the whole image. Other results of `f32` keep the error bound, and may
//! depend on the size of the chunks and on the device.
//!
//! ```
//! use std::sync::Mutex;
//!
//! use faltung::chunked::{BoxError, ChunkGrid, ChunkSink, ChunkedFilter, Progress, Window, WindowSource};
//! use faltung::{Device, Filter, Image, View};
//!
//! /// An image that is computed as it is read.
//! struct Formula;
//!
//! impl WindowSource<u16> for Formula {
//!     fn read(&self, window: Window) -> Result<Image<u16>, BoxError> {
//!         let value = |x, y| ((window.x + x) * (window.y + y) % 1000) as u16;
//!         Ok(Image::from_fn(window.width, window.height, value)?)
//!     }
//! }
//!
//! /// The greatest value.
//! struct Maximum(Mutex<u16>);
//!
//! impl ChunkSink<u16> for Maximum {
//!     fn write(&self, _: usize, window: Window, values: View<'_, u16>) -> Result<(), BoxError> {
//!         let found = (0..window.height).flat_map(|y| values.row(y)).copied().max().unwrap_or(0);
//!         let mut maximum = self.0.lock().unwrap();
//!         *maximum = found.max(*maximum);
//!         Ok(())
//!     }
//! }
//!
//! let grid = ChunkGrid::new(5000, 3000, 1024, 1024)?;
//! let filter = ChunkedFilter::new(Filter::gaussian(2.0), grid, 1).memory(100 << 20);
//! let maximum = Maximum(Mutex::new(0));
//! let report = filter.run(&[Device::cpu()], 0..grid.count(), &Formula, &maximum, &Progress::default())?;
//! assert!(report.is_complete());
//! # Ok::<(), faltung::Error>(())
//! ```
//!
//! [`Border::Wrap`]: crate::Border::Wrap
//! [`Accuracy::Exact`]: crate::Accuracy::Exact

mod grid;
mod part;
mod pool;
mod progress;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::error::Error as StdError;
use std::fmt;
use std::panic::resume_unwind;
use std::time::Instant;

use crate::parallel::Names;
use crate::{Device, Error, Filter, Image, Pixel, PixelFormat, Problem, Result, View, memory};

pub use grid::{ChunkGrid, Window};
pub use pool::LostDevice;
pub use progress::{Counts, Progress};

use part::Part;
use pool::Pool;
use queue::{Begun, Queue};

/// An error of a source or a sink.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Something that rectangles of an image can be read from, by several threads at once.
pub trait WindowSource<T>: Sync {
    /// The pixels of a window, which lies in the image.
    ///
    /// # Errors
    /// The source's. The chunks that need these pixels fail; the others go on.
    fn read(&self, window: Window) -> Result<Image<T>, BoxError>;

    /// The most bytes that [`read`](Self::read) takes besides the pixels that it returns.
    fn extra_bytes(&self, window: Window) -> u64 {
        let _ = window;
        0
    }
}

/// Something that takes the chunks of a result, from several threads at once, in any order.
pub trait ChunkSink<U>: Sync {
    /// Writes one chunk whole. `window` are its pixels, `values` their values.
    ///
    /// # Errors
    /// The sink's. The chunk fails, and no other chunk begins.
    fn write(&self, chunk: usize, window: Window, values: View<'_, U>) -> Result<(), BoxError>;

    /// The most bytes that [`write`](Self::write) takes besides the values that it gets.
    fn extra_bytes(&self, window: Window) -> u64 {
        let _ = window;
        0
    }
}

/// What was done to a chunk when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its pixels were read.
    Read,
    /// It was computed.
    Compute,
    /// It was written.
    Write,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Compute => "computed",
            Self::Write => "written",
        })
    }
}

/// A chunk that failed. Its [`source`](StdError::source) says why.
#[derive(Debug, thiserror::Error)]
#[error("chunk {chunk} could not be {stage}")]
pub struct Failure {
    /// The chunk's number.
    pub chunk: usize,
    /// What failed.
    pub stage: Stage,
    /// Why.
    #[source]
    pub error: BoxError,
}

/// How a run ended.
#[derive(Debug, Default)]
pub struct Report {
    /// The number of chunks that were written.
    pub done: usize,
    /// The chunks that failed, in the order of their numbers.
    pub failed: Vec<Failure>,
    /// The chunks that were not begun, because no device was left, the sink had failed, or the run was
    /// [cancelled](crate::cancellable).
    pub not_begun: Vec<usize>,
    /// The devices that failed. Others did their work, as long as there were others.
    pub lost_devices: Vec<LostDevice>,
}

impl Report {
    /// Whether all chunks were written.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed.is_empty() && self.not_begun.is_empty()
    }
}

/// A filter of an image that is read and written in chunks.
#[derive(Clone, Debug)]
pub struct ChunkedFilter {
    filter: Filter,
    grid: ChunkGrid,
    channels: usize,
    memory: Option<u64>,
    workers: Option<usize>,
}

impl ChunkedFilter {
    /// `filter` on an image of `channels` interleaved channels, whose result has the chunks of `grid`.
    #[must_use]
    pub fn new(filter: Filter, grid: ChunkGrid, channels: usize) -> Self {
        Self { filter, grid, channels, memory: None, workers: None }
    }

    /// Sets the most bytes of host memory that the chunks under way may take; by default half of what is free.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Sets the most chunks that are under way at the same time; by default one for each core, and two for each device.
    /// Fewer are under way where the memory holds fewer.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: Some(workers.max(1)), ..self }
    }

    /// The grid of the result's chunks.
    #[must_use]
    pub fn grid(&self) -> ChunkGrid {
        self.grid
    }

    /// The problem of the whole image.
    fn problem(&self, format: PixelFormat) -> Result<Problem> {
        Problem::new(self.grid.width(), self.grid.height(), &self.filter)?.with_format(format)
    }

    /// The most bytes that one chunk takes while it is under way. [`run`](Self::run) needs so many.
    ///
    /// # Errors
    /// Those of [`Problem::new`] and [`Problem::with_format`].
    pub fn bytes_of_a_chunk<T: Pixel, U: Pixel>(
        &self,
        source: &dyn WindowSource<T>,
        sink: &dyn ChunkSink<U>,
    ) -> Result<u64> {
        let problem = self.problem(PixelFormat::of::<T, U>(self.channels))?;
        // The corners and one chunk between them: any other chunk takes as much as one of these.
        let (columns, rows) = (self.grid.columns(), self.grid.rows());
        let places = [0, rows / 2, rows - 1]
            .into_iter()
            .flat_map(|row| [0, columns / 2, columns - 1].into_iter().map(move |column| row * columns + column));
        let bytes = places.map(|chunk| Part::new(&problem, self.grid.window(chunk)).bytes::<T, U>(source, sink));
        Ok(bytes.max().unwrap_or(0))
    }

    /// Filters the chunks with these numbers, each on the first device that is free. A CUDA device takes two at once if
    /// its memory holds many. A number that is given several times counts once.
    ///
    /// A device that fails is not used again, and others do its work. A chunk that can't be read fails alone. After a
    /// chunk that can't be written no other chunk begins. If the run is [cancelled](crate::cancellable), no other chunk
    /// begins either. Those under way then fail with [`Error::Cancelled`], or are written.
    ///
    /// Work on the CPU runs in the pool of [`with_pool`](crate::with_pool), or else in rayon's global pool.
    ///
    /// # Errors
    /// [`Error::Number`] if there is no device, or no chunk with one of the numbers. [`Error::HostMemory`] if one chunk
    /// takes more than the memory that was set. Those of [`Problem::new`] and [`Problem::with_format`]. Nothing is read
    /// then.
    ///
    /// # Panics
    /// If the source or the sink panics, with its panic. No other chunk begins.
    pub fn run<T: Pixel, U: Pixel>(
        &self,
        devices: &[Device],
        chunks: impl IntoIterator<Item = usize>,
        source: &dyn WindowSource<T>,
        sink: &dyn ChunkSink<U>,
        progress: &Progress,
    ) -> Result<Report> {
        if devices.is_empty() {
            let what = "the number of devices";
            return Err(Error::Number { what, required: "at least 1", found: "0".to_owned() });
        }
        let problem = self.problem(PixelFormat::of::<T, U>(self.channels))?;
        let mut seen = HashSet::new();
        let chunks: Vec<usize> = chunks.into_iter().filter(|&chunk| seen.insert(chunk)).collect();
        if let Some(outside) = chunks.iter().find(|&&chunk| chunk >= self.grid.count()) {
            let (what, required) = ("a chunk's number", "less than the number of the grid's chunks");
            return Err(Error::Number { what, required, found: outside.to_string() });
        }
        let needed = self.bytes_of_a_chunk(source, sink)?;
        let budget = self.memory.unwrap_or_else(|| memory::free().map_or(u64::MAX, |free| free / 2).max(needed));
        if needed > budget {
            let what = format!("for one chunk of {} x {} pixels", self.grid.chunk_width(), self.grid.chunk_height());
            return Err(Error::HostMemory { what, needed: needed.into(), free: budget.into() });
        }
        let format = PixelFormat::of::<T, U>(self.channels);
        let chunk_bytes =
            self.grid.chunk_pixels() * (self.channels * (format.input.bytes() + format.output.bytes())) as u64;
        let pool = Pool::new(devices, |device| users_at_once(device, chunk_bytes));
        let queue = Queue::new(&chunks, budget);
        let names = Names::of_this_thread();
        let run = Run { filter: &self.filter, problem: &problem, source, sink, pool: &pool, names: &names, progress };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let fitting = usize::try_from(budget / needed.max(1)).unwrap_or(usize::MAX);
        let workers = self.workers.unwrap_or(cores + 2 * devices.len()).min(fitting).min(chunks.len());
        std::thread::scope(|scope| {
            let work = || names.during(|| run.work(&queue, self.grid));
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            for thread in threads {
                thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
        });
        let (done, mut failed, not_begun) = queue.into_results();
        failed.sort_by_key(|failure: &Failure| failure.chunk);
        Ok(Report { done, failed, not_begun, lost_devices: pool.into_lost() })
    }
}

/// How many chunks a device computes at once, each of which takes so many bytes, input and result.
///
/// A CUDA device takes two. So one chunk begins to be uploaded while the last rows of another are downloaded. On the
/// CPU, all cores compute one chunk.
fn users_at_once(device: &Device, chunk_bytes: u64) -> usize {
    /// The device memory that two chunks leave for the halos, for scratch memory, and for what is kept ready for chunks
    /// of other sizes: those at the edges.
    const OF_MEMORY: u64 = 64;
    let fits = |memory: usize| chunk_bytes.saturating_mul(OF_MEMORY) <= memory as u64;
    let is_for_two = device.memory_limit().is_none() && device.gpu().is_some_and(|gpu| fits(gpu.memory_bytes));
    if is_for_two { 2 } else { 1 }
}

/// What the threads of a run share.
struct Run<'a, T, U> {
    filter: &'a Filter,
    problem: &'a Problem,
    source: &'a dyn WindowSource<T>,
    sink: &'a dyn ChunkSink<U>,
    pool: &'a Pool<'a>,
    /// Those of the thread that called.
    names: &'a Names,
    progress: &'a Progress,
}

impl<T: Pixel, U: Pixel> Run<'_, T, U> {
    /// Filters chunks until none is left, or the run is cancelled.
    fn work(&self, queue: &Queue<'_>, grid: ChunkGrid) {
        let bytes = |chunk| Part::new(self.problem, grid.window(chunk)).bytes(self.source, self.sink);
        while !self.names.is_cancelled()
            && let Some(begun) = queue.begin(bytes)
        {
            let Begun { chunk, .. } = begun;
            let result = begun.under_its_memory(|| self.filter_chunk(chunk, grid.window(chunk)));
            if let Err((stage, _)) = &result
                && (*stage == Stage::Write || !self.pool.is_alive())
            {
                queue.stop();
            }
            queue.end(begun, result);
        }
    }

    fn filter_chunk(&self, chunk: usize, window: Window) -> Result<(), (Stage, BoxError)> {
        let part = Part::new(self.problem, window);
        let start = Instant::now();
        let read = part.read(self.source).map_err(|error| (Stage::Read, error))?;
        self.progress.read(part.bytes_read::<T>(), start.elapsed());

        let gathered = part.gather(read).map_err(|error| (Stage::Compute, error.into()))?;
        let compute = |device: &Device| {
            let start = Instant::now();
            let result: Image<U> = device.apply(self.filter, &gathered)?;
            self.progress.computed(window.pixels(), start.elapsed());
            Ok(result)
        };
        let result = self.pool.on_free_device(compute).map_err(|error| (Stage::Compute, error.into()))?;
        drop(gathered);

        let start = Instant::now();
        let values = part.outputs(&result).map_err(|error| (Stage::Write, error.into()))?;
        self.sink.write(chunk, window, values).map_err(|error| (Stage::Write, error))?;
        self.progress.written(part.bytes_written::<U>(), start.elapsed());
        Ok(())
    }
}
