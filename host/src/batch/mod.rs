//! Filters many files on one device, or on several. Reading, computing and writing overlap.
//!
//! ```text
//! workers ── read ──> queue ──> compute, on the caller's thread ──> queue ──> write ── workers
//! ```
//!
//! The caller's thread only computes, and so does a thread for each other device. The workers read and write. An idle
//! worker first writes a finished result, because that frees memory. Without one it reads ahead. So the slower of the
//! two gets more threads.
//!
//! [`QueueLimits`] bounds the number and the bytes of unfinished jobs. A job begins when there is room for it, or when
//! it is the only one. Its memory is reserved when it begins, so several batches of one process share the memory.
//!
//! A failed job is reported, and the others go on, unless [`Work::is_final`] ends the batch. Results come in the order
//! in which they are ready.
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
//! let limits = QueueLimits::of_this_machine();
//! let summary = batch::run(&work, &[8, 0, 6], limits, |_, image| device.apply(&filter, &image));
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

/// Reserved memory as a multiple of a job's [bytes](Work::bytes): once for reading, once for the result and the
/// encoder. Computing takes as much again for one job at a time: an f32 copy, and the sums.
const MEMORY_PER_BYTE: u64 = 2;

/// The work of a batch. The workers call it from several threads at once.
pub trait Work: Sync {
    /// A job, such as the names of two files.
    type Job: Sync;
    /// The input that is read.
    type Input: Send;
    /// The output that is computed and written.
    type Output: Send;
    /// Why a job failed.
    type Error: Send;

    /// An estimate of the memory that reading the job takes, in bytes. 0 if it is unknown.
    fn bytes(&self, job: &Self::Job) -> u64;

    /// Reads the input.
    ///
    /// # Errors
    /// The failure of this job.
    fn read(&self, job: &Self::Job) -> Result<Self::Input, Self::Error>;

    /// Writes the output.
    ///
    /// # Errors
    /// The failure of this job.
    fn write(&self, job: &Self::Job, output: Self::Output) -> Result<(), Self::Error>;

    /// Called once for each job that is written or has failed, not for [abandoned](BatchSummary::abandoned) jobs.
    fn finished(&self, job: &Self::Job, result: Result<(), Self::Error>);

    /// Whether this failure to compute ends the batch. Computed results are still written. No other job begins.
    fn is_final(&self, _error: &Self::Error) -> bool {
        false
    }
}

/// The limits of unfinished jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The threads that read and write, at least one.
    pub workers: usize,
    /// The jobs that have begun and are not finished, at least one.
    pub jobs: usize,
    /// The sum of their [bytes](Work::bytes); a single job may be larger.
    pub bytes: u64,
}

impl QueueLimits {
    /// A worker for each CPU thread, two jobs more than workers, and as the [bytes](Self::bytes) of the jobs half of
    /// the free memory within the process's control groups. Twice their bytes are reserved, so all of them fit. A
    /// limited address space has fewer workers. The half is then of what they leave.
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

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchSummary {
    /// Jobs that were written.
    pub done: usize,
    /// Jobs that failed.
    pub failed: usize,
    /// Jobs that were not begun, or not computed, because of a failure that is [final](Work::is_final).
    pub abandoned: usize,
    /// The time of the whole batch.
    pub elapsed: Duration,
    /// The time that a thread computed: of several, their mean.
    pub computing: Duration,
}

/// Runs all jobs. It calls `compute` on this thread.
///
/// # Panics
/// If `work` or `compute` does. The other threads then stop after their present task.
pub fn run<W: Work>(
    work: &W,
    jobs: &[W::Job],
    limits: QueueLimits,
    compute: impl FnMut(&W::Job, W::Input) -> Result<W::Output, W::Error> + Send,
) -> BatchSummary {
    run_on_several(work, jobs, limits, vec![compute])
}

/// As [`run`], with several functions that compute, each on a thread of its own. The first one is called on this
/// thread. `limits.jobs` is the number with one of them: each other one has two jobs more.
///
/// # Panics
/// As for [`run`]; if there is no function.
pub fn run_on_several<W, C>(work: &W, jobs: &[W::Job], limits: QueueLimits, computes: Vec<C>) -> BatchSummary
where
    W: Work,
    C: FnMut(&W::Job, W::Input) -> Result<W::Output, W::Error> + Send,
{
    let start = Instant::now();
    let threads = computes.len();
    let mut computes = computes.into_iter();
    let mut first = computes.next().expect("a batch needs a function that computes");
    let limits = QueueLimits { jobs: limits.jobs.saturating_add(2 * (threads - 1)), ..limits };
    let queue = Queue::new(jobs.len(), limits, threads);
    let mut computing = Duration::ZERO;
    let counts = std::thread::scope(|scope| {
        let begin = || std::thread::Builder::new().spawn_scoped(scope, || worker(&queue, work, jobs));
        // The system may refuse some of the threads.
        let workers = (0..limits.workers.clamp(1, jobs.len().max(1))).map_while(|_| begin().ok()).count();
        if workers == 0 {
            return Some(alone(work, jobs, timed(&mut first, &mut computing)));
        }
        let queue = &queue;
        let others: Vec<_> = computes
            .map_while(|compute| {
                std::thread::Builder::new().spawn_scoped(scope, move || compute_all(queue, work, jobs, compute)).ok()
            })
            .collect();
        computing += compute_all(queue, work, jobs, first);
        for other in others {
            computing += other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        None
    });
    let (done, failed) = counts.unwrap_or_else(|| queue.into_counts());
    let computing = computing / u32::try_from(threads).unwrap_or(u32::MAX);
    BatchSummary { done, failed, abandoned: jobs.len() - done - failed, elapsed: start.elapsed(), computing }
}

/// A function that adds its time to `sum`.
fn timed<J, I, R>(mut compute: impl FnMut(&J, I) -> R, sum: &mut Duration) -> impl FnMut(&J, I) -> R {
    move |job, input| {
        let begin = Instant::now();
        let result = compute(job, input);
        *sum += begin.elapsed();
        result
    }
}

/// Computes until no job is left. Returns the time that it computed.
fn compute_all<W: Work>(
    queue: &Queue<W::Input, W::Output>,
    work: &W,
    jobs: &[W::Job],
    compute: impl FnMut(&W::Job, W::Input) -> Result<W::Output, W::Error>,
) -> Duration {
    let _stop = queue.stop_on_panic();
    let mut computing = Duration::ZERO;
    let mut compute = timed(compute, &mut computing);
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
    drop(compute);
    computing
}

/// Runs all jobs in sequence on this thread, if the system gives no other. Returns the done and the failed ones.
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

/// Reads and writes until no job is left.
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
