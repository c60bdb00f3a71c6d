//! Every job is done once, whatever the order, and what is under way stays within the limits.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};

use super::*;

/// Where a job fails or panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Nowhere,
    Read,
    Compute,
    Write,
    PanicInRead,
    PanicInCompute,
    PanicInWrite,
}

#[derive(Clone, Copy)]
struct Job {
    number: usize,
    bytes: u64,
    fails: At,
}

/// Counts what is under way.
#[derive(Default)]
struct Counting {
    jobs: AtomicUsize,
    bytes: AtomicU64,
    most_jobs: AtomicUsize,
    most_bytes: AtomicU64,
    /// Jobs as they finished, and where they failed.
    finished: Mutex<Vec<(usize, At)>>,
    /// Whether a failure to compute is the last one.
    is_final: bool,
}

impl Counting {
    fn yield_a_little(job: &Job) {
        for _ in 0..job.number * 7 % 5 {
            std::thread::yield_now();
        }
    }
}

impl Work for Counting {
    type Job = Job;
    type Input = usize;
    type Output = String;
    type Error = At;

    fn bytes(&self, job: &Job) -> u64 {
        job.bytes
    }

    fn read(&self, job: &Job) -> Result<usize, At> {
        self.most_jobs.fetch_max(1 + self.jobs.fetch_add(1, SeqCst), SeqCst);
        self.most_bytes.fetch_max(job.bytes + self.bytes.fetch_add(job.bytes, SeqCst), SeqCst);
        Self::yield_a_little(job);
        match job.fails {
            At::Read => Err(At::Read),
            At::PanicInRead => panic!("in read"),
            _ => Ok(job.number),
        }
    }

    fn write(&self, job: &Job, output: String) -> Result<(), At> {
        assert_eq!(output, (3 * job.number).to_string());
        Self::yield_a_little(job);
        match job.fails {
            At::Write => Err(At::Write),
            At::PanicInWrite => panic!("in write"),
            _ => Ok(()),
        }
    }

    fn finished(&self, job: &Job, result: Result<(), At>) {
        self.jobs.fetch_sub(1, SeqCst);
        self.bytes.fetch_sub(job.bytes, SeqCst);
        self.finished.lock().unwrap().push((job.number, result.err().unwrap_or(At::Nowhere)));
    }

    fn is_final(&self, error: &At) -> bool {
        self.is_final && *error == At::Compute
    }
}

fn compute(job: &Job, input: usize) -> Result<String, At> {
    match job.fails {
        At::Compute => Err(At::Compute),
        At::PanicInCompute => panic!("in compute"),
        _ => Ok((3 * input).to_string()),
    }
}

#[test]
fn every_job_is_done_once_within_the_limits() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let jobs: Vec<Job> = (0..random.usize(0..40))
            .map(|number| {
                let fails = random.choice([At::Nowhere, At::Nowhere, At::Read, At::Compute, At::Write]).unwrap();
                Job { number, bytes: random.u64(0..120), fails }
            })
            .collect();
        let limits = QueueLimits { workers: random.usize(1..6), jobs: random.usize(1..8), bytes: random.u64(0..300) };
        let work = Counting::default();
        let summary = run(&work, &jobs, limits, compute);

        let mut finished = work.finished.into_inner().unwrap();
        finished.sort_by_key(|&(number, _)| number);
        let expected: Vec<_> = jobs.iter().map(|job| (job.number, job.fails)).collect();
        assert_eq!(finished, expected, "seed {seed}");
        let failed = jobs.iter().filter(|job| job.fails != At::Nowhere).count();
        assert_eq!((summary.done, summary.failed), (jobs.len() - failed, failed), "seed {seed}");
        assert!(work.most_jobs.into_inner() <= limits.jobs, "seed {seed}");
        // One job alone may be larger than the limit.
        let largest = jobs.iter().map(|job| job.bytes).max().unwrap_or(0);
        assert!(work.most_bytes.into_inner() <= limits.bytes.max(largest), "seed {seed}");
    }
}

/// Several threads compute. Two of them meet in each of the first rounds, and each job is done once.
#[test]
fn several_threads_compute() {
    for seed in 0..30 {
        let mut random = fastrand::Rng::with_seed(seed);
        let threads = random.usize(2..5);
        let jobs: Vec<Job> =
            (0..40).map(|number| Job { number, bytes: random.u64(0..120), fails: At::Nowhere }).collect();
        let limits = QueueLimits { workers: random.usize(1..6), jobs: 1, bytes: u64::MAX };
        let (work, meeting) = (Counting::default(), std::sync::Barrier::new(threads));
        let of_thread = |_| {
            let meeting = &meeting;
            let mut is_first = true;
            move |job: &Job, input| {
                // All threads have a job at the same time.
                if std::mem::take(&mut is_first) {
                    meeting.wait();
                }
                compute(job, input)
            }
        };
        let summary = run_on_several(&work, &jobs, limits, (0..threads).map(of_thread).collect());
        assert_eq!((summary.done, summary.failed), (jobs.len(), 0), "seed {seed}");
        let mut finished = work.finished.into_inner().unwrap();
        finished.sort_by_key(|&(number, _)| number);
        assert!(finished.iter().map(|&(number, _)| number).eq(0..40), "seed {seed}");
        assert!(work.most_jobs.into_inner() <= limits.jobs + 2 * (threads - 1), "seed {seed}");
    }
}

/// What was computed is written, nothing is computed after the failure, and nobody waits for jobs that never come.
#[test]
fn a_final_failure_ends_the_batch() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (count, last) = (random.usize(1..40), random.usize(0..40));
        let fails = |number| match number {
            _ if number == last => At::Compute,
            _ if number % 7 == 3 => At::Read,
            _ => At::Nowhere,
        };
        let jobs: Vec<Job> =
            (0..count).map(|number| Job { number, bytes: random.u64(0..120), fails: fails(number) }).collect();
        let limits = QueueLimits { workers: random.usize(1..6), jobs: random.usize(1..8), bytes: random.u64(0..300) };
        let work = Counting { is_final: true, ..Counting::default() };
        let mut computed = Vec::new();
        let summary = run(&work, &jobs, limits, |job, input| {
            computed.push(job.number);
            compute(job, input)
        });

        let finished = work.finished.into_inner().unwrap();
        assert_eq!(finished.len(), summary.done + summary.failed, "seed {seed}");
        assert_eq!(summary.done + summary.failed + summary.abandoned, count, "seed {seed}");
        assert!(!computed.iter().rev().skip(1).any(|&number| number == last), "seed {seed}: computed after the last");
        for number in computed {
            let expected = (number, if number == last { At::Compute } else { At::Nowhere });
            assert!(finished.contains(&expected), "seed {seed}: {number} was computed, and not written");
        }
        assert!(last < count || summary.abandoned == 0, "seed {seed}");
    }
}

/// A place where three threads wait for each other.
#[derive(Default)]
struct Meeting {
    arrived: Mutex<usize>,
    changed: Condvar,
    written: AtomicUsize,
}

impl Meeting {
    fn meet(&self) {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.changed.notify_all();
        // Long, so that a failure is a failure and does not hang.
        let waited = self.changed.wait_timeout_while(arrived, Duration::from_secs(60), |arrived| *arrived < 3);
        assert!(!waited.unwrap().1.timed_out(), "reading, computing and writing do not run at the same time");
    }
}

impl Work for Meeting {
    type Job = usize;
    type Input = ();
    type Output = ();
    type Error = ();

    fn bytes(&self, _: &usize) -> u64 {
        0
    }

    fn read(&self, &job: &usize) -> Result<(), ()> {
        if job == 2 {
            self.meet();
        }
        Ok(())
    }

    fn write(&self, _: &usize, (): ()) -> Result<(), ()> {
        if self.written.fetch_add(1, SeqCst) == 0 {
            self.meet();
        }
        Ok(())
    }

    fn finished(&self, _: &usize, _: Result<(), ()>) {}
}

/// The third job is read while the second one is computed and the first one written.
#[test]
fn stages_run_at_the_same_time() {
    let work = Meeting::default();
    let mut computed = 0;
    let summary = run(&work, &[0, 1, 2], QueueLimits { workers: 2, jobs: 3, bytes: 0 }, |_, ()| {
        computed += 1;
        if computed == 2 {
            work.meet();
        }
        Ok(())
    });
    assert_eq!(summary.done, 3);
}

#[test]
fn a_panic_is_passed_on_and_nobody_waits() {
    for at in [At::PanicInRead, At::PanicInCompute, At::PanicInWrite] {
        let job = |number| Job { number, bytes: 1, fails: if number == 5 { at } else { At::Nowhere } };
        let jobs: Vec<Job> = (0..20).map(job).collect();
        let work = Counting::default();
        let limits = QueueLimits { workers: 3, jobs: 4, bytes: 100 };
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| run(&work, &jobs, limits, compute))).is_err();
        assert!(panicked, "{at:?}");
    }
}
