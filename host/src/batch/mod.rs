//! Many files through one device, with reading, computing and writing at the same time.
//!
//! ```text
//! workers ── read ──> queue ──> compute, on the caller's thread ──> queue ──> write ── workers
//! ```
//!
//! The caller's thread, to which a device belongs, does nothing but compute. The workers both read and write: a worker
//! that has nothing to do takes a finished result if there is one, because that frees memory, and else reads ahead. So
//! whichever of the two is slower gets the threads, without being told.
//!
//! What is under way is bounded in number and in bytes ([`QueueLimits`]): a job begins when the sizes of all that have begun
//! and are not yet written leave room for it, or when it is the only one. The memory that it takes is reserved when it
//! begins, so that two batches of one process, too, share what there is. A job that fails is reported and the rest goes
//! on, unless [`Work::is_final`] says that there is no use in it. Results come in the order in which they are ready.
//!
//! ```
//! use std::sync::Mutex;
//! use host::batch::{self, QueueLimits, Work};
//! use faltung::{Device, Filter, Image, Mask};
//!
//! /// Gradients of these widths, whose means are collected.
//! struct Means(Mutex<Vec<u8>>);
//!
//! impl Work for Means {
//!     type Job = usize;
//!     type Input = Image<u8>;
//!     type Output = Image<u8>;
//!     type Error = faltung::Error;
//!     fn bytes(&self, &width: &usize) -> u64 {
//!         width as u64
//!     }
//!     fn read(&self, &width: &usize) -> faltung::Result<Image<u8>> {
//!         Image::from_fn(width, 1, |x, _| x as u8)
//!     }
//!     fn write(&self, &width: &usize, mean: Image<u8>) -> faltung::Result<()> {
//!         self.0.lock().unwrap().push(mean.values()[width / 2]);
//!         Ok(())
//!     }
//!     fn finished(&self, &width: &usize, result: faltung::Result<()>) {
//!         assert_eq!(result.is_err(), width == 0); // an image without pixels is an error, and the rest goes on
//!     }
//! }
//!
//! let (device, filter) = (Device::cpu(), Filter::new(Mask::average(3, 1)?));
//! let work = Means(Mutex::default());
//! let summary = batch::run(&work, &[8, 0, 6], QueueLimits::of_this_machine(), |_, image| device.apply(&filter, &image));
//! assert_eq!((summary.done, summary.failed), (2, 1));
//! let mut means = work.0.into_inner().unwrap();
//! means.sort();
//! assert_eq!(means, [3, 4]);
//! # Ok::<(), host::Error>(())
//! ```

mod queue;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::queue::{Queue, Task};

/// Bytes of memory that are reserved for each of a job's [bytes](Work::bytes): those of reading, and as many for the
/// result and what the encoder holds. Computing takes as much once more, for the one job that is computed: a copy as
/// f32, and the sums.
const MEMORY_PER_BYTE: u64 = 2;

/// What a batch does with its jobs. The workers call it from several threads at once.
pub trait Work: Sync {
    /// What is to be done, such as the names of two files.
    type Job: Sync;
    /// What is read.
    type Input: Send;
    /// What is computed, and written.
    type Output: Send;
    /// Why a job failed.
    type Error: Send;

    /// About as many bytes of memory as reading the job takes, so that not too many are under way. 0 if that can't be
    /// known.
    fn bytes(&self, job: &Self::Job) -> u64;

    /// Reads what is computed with.
    ///
    /// # Errors
    /// Whatever there is to report of this job.
    fn read(&self, job: &Self::Job) -> Result<Self::Input, Self::Error>;

    /// Writes what was computed.
    ///
    /// # Errors
    /// Whatever there is to report of this job.
    fn write(&self, job: &Self::Job, output: Self::Output) -> Result<(), Self::Error>;

    /// Told of each job once, when it is written or has failed; not of those that were [abandoned](Summary::abandoned).
    fn finished(&self, job: &Self::Job, result: Result<(), Self::Error>);

    /// Whether no other job can be computed after this failure to compute one. Then what is computed is written, and
    /// nothing else begins.
    fn is_final(&self, _error: &Self::Error) -> bool {
        false
    }
}

/// How much is under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Threads that read and write, at least one.
    pub workers: usize,
    /// Jobs that have begun and are not finished, at least one.
    pub jobs: usize,
    /// The sum of their [bytes](Work::bytes); a single job may be larger.
    pub bytes: u64,
}

impl QueueLimits {
    /// A worker for each thread of the processor, two jobs more than that, and a quarter of the memory that is free,
    /// within the control groups of the process. Where its address space is limited, there are fewer workers, and the
    /// quarter is of what they leave of it.
    #[must_use]
    pub fn of_this_machine() -> Self {
        /// Where the system does not say how much is free.
        const UNKNOWN: u64 = 4 << 30;
        let workers = crate::threads::threads_that_fit(std::thread::available_parallelism().map_or(1, usize::from));
        let free = crate::threads::free_beside(workers).unwrap_or(UNKNOWN);
        // With one job on the device and one waiting for it, all workers can be busy.
        Self { workers, jobs: workers + 2, bytes: free / MEMORY_PER_BYTE }
    }
}

/// How a batch went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Jobs that were written.
    pub done: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Jobs that were not begun, or not computed, because of a failure that is [final](Work::is_final).
    pub abandoned: usize,
    /// From the first job's begin to the last one's end.
    pub elapsed: Duration,
    /// The part of it that the calling thread spent computing.
    pub computing: Duration,
}

/// Does all jobs; `compute` is called on this thread.
///
/// # Panics
/// If `work` or `compute` does; the other threads then stop after what they are at.
pub fn run<W: Work>(
    work: &W,
    jobs: &[W::Job],
    limits: QueueLimits,
    mut compute: impl FnMut(&W::Job, W::Input) -> Result<W::Output, W::Error>,
) -> Summary {
    let start = Instant::now();
    let mut computing = Duration::ZERO;
    let mut compute = |job: &W::Job, input| {
        let begin = Instant::now();
        let result = compute(job, input);
        computing += begin.elapsed();
        result
    };
    let queue = Queue::new(jobs.len(), limits);
    let counts = std::thread::scope(|scope| {
        let begin = || std::thread::Builder::new().spawn_scoped(scope, || worker(&queue, work, jobs));
        // As many as the system gives.
        let workers = (0..limits.workers.clamp(1, jobs.len().max(1))).map_while(|_| begin().ok()).count();
        if workers == 0 {
            return Some(alone(work, jobs, compute));
        }
        let _stop = queue.stop_on_panic();
        while let Some((number, input, room)) = queue.next_input() {
            match room.during(|| compute(&jobs[number], input)) {
                Ok(output) => queue.computed(number, output, room),
                Err(error) => {
                    let is_final = work.is_final(&error);
                    work.finished(&jobs[number], Err(error));
                    queue.finished(number, false, room);
                    if is_final {
                        queue.abandon();
                    }
                }
            }
        }
        None
    });
    let (done, failed) = counts.unwrap_or_else(|| queue.into_counts());
    Summary { done, failed, abandoned: jobs.len() - done - failed, elapsed: start.elapsed(), computing }
}

/// All jobs one after the other, where there is no thread but this one. How many were done, and how many failed.
fn alone<W: Work>(
    work: &W,
    jobs: &[W::Job],
    mut compute: impl FnMut(&W::Job, W::Input) -> Result<W::Output, W::Error>,
) -> (usize, usize) {
    let (mut done, mut failed) = (0, 0);
    for job in jobs {
        let mut is_final = false;
        let output =
            work.read(job).and_then(|input| compute(job, input).inspect_err(|error| is_final = work.is_final(error)));
        let result = output.and_then(|output| work.write(job, output));
        *if result.is_ok() { &mut done } else { &mut failed } += 1;
        work.finished(job, result);
        if is_final {
            break;
        }
    }
    (done, failed)
}

/// Reads and writes until nothing is left.
fn worker<W: Work>(queue: &Queue<W::Input, W::Output>, work: &W, jobs: &[W::Job]) {
    let _stop = queue.stop_on_panic();
    while let Some(task) = queue.next_task() {
        match task {
            Task::Weigh(number) => queue.weighed(number, work.bytes(&jobs[number])),
            Task::Read(number, room) => match room.during(|| work.read(&jobs[number])) {
                Ok(input) => queue.read(number, input, room),
                Err(error) => {
                    work.finished(&jobs[number], Err(error));
                    queue.finished(number, false, room);
                }
            },
            Task::Write(number, output, room) => {
                let result = room.during(|| work.write(&jobs[number], output));
                let written = result.is_ok();
                work.finished(&jobs[number], result);
                queue.finished(number, written, room);
            }
        }
    }
}
