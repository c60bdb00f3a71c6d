//! The progress of an image that is filtered in chunks: bytes, pixels, and the rates of reading, computing and writing.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use faltung::chunked::{Counts, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The chunks of a run.
pub(super) struct Share<'a> {
    /// The chunks to be done.
    pub(super) chunks: Vec<usize>,
    /// The number of chunks that existed already.
    pub(super) kept: usize,
    /// The name of a chunk in messages.
    pub(super) name: &'a dyn Fn(usize) -> String,
}

impl Share<'_> {
    /// A line about the whole run.
    pub(super) fn summary(&self, done: usize, counts: &Counts, elapsed: Duration) -> String {
        let kept = if self.kept > 0 { format!(" ({} existed and are kept)", self.kept) } else { String::new() };
        let (all, seconds) = (self.chunks.len(), elapsed.as_secs_f64());
        let pixels = counts.pixels as f64;
        format!(
            "{done} of {all} chunks{kept}, {} in {seconds:.2} s: {}; {}",
            Amount(pixels, "pixels"),
            Amount(pixels / seconds.max(1e-9), "pixels/s"),
            Rates(counts)
        )
    }

    /// A line on the missing chunks. If `can_resume`, the others are kept, and the line lists the missing ones.
    pub(super) fn missing(&self, chunks: &[usize], can_resume: bool) -> String {
        /// Names in one message.
        const MOST: usize = 1000;
        let count = format!("missing: {} of {} chunks", chunks.len(), self.chunks.len() + self.kept);
        if !can_resume {
            return count;
        }
        let names: Vec<String> = chunks.iter().take(MOST).map(|&chunk| (self.name)(chunk)).collect();
        let more = if chunks.len() > MOST { format!(", and {} more", chunks.len() - MOST) } else { String::new() };
        format!("{count}: {}{more}; the same command with --skip-existing computes only these", names.join(", "))
    }
}

/// A bar on the standard error, where that is a terminal.
pub(super) struct ChunkProgress<'a> {
    counters: &'a Progress,
    bar: ProgressBar,
}

/// Between two looks at the counters.
const TICK: Duration = Duration::from_millis(250);

impl<'a> ChunkProgress<'a> {
    pub(super) fn new(counters: &'a Progress, chunks: usize, quiet: bool) -> Self {
        let bar = match quiet {
            true => ProgressBar::with_draw_target(Some(chunks as u64), ProgressDrawTarget::hidden()),
            false => ProgressBar::new(chunks as u64),
        };
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} chunks  {msg}  {eta} left");
        Self { counters, bar: bar.with_style(style.expect("a valid template")) }
    }

    /// The bar, to remove it at a signal.
    pub(super) fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }

    fn show(&self) {
        let counts = self.counters.counts();
        self.bar.set_position(counts.chunks);
        self.bar.set_message(format!("{}; {}", Amount(counts.pixels as f64, "pixels"), Rates(&counts)));
    }

    /// Calls `work`, and shows the counters meanwhile.
    pub(super) fn while_it_is_shown<R>(&self, work: impl FnOnce() -> R) -> R {
        let is_done = AtomicBool::new(self.bar.is_hidden());
        /// Ends the other thread, after a panic too.
        struct End<'a>(&'a AtomicBool, std::thread::Thread);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
                self.1.unpark();
            }
        }
        std::thread::scope(|scope| {
            let shown = scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    self.show();
                    std::thread::park_timeout(TICK);
                }
                self.bar.finish_and_clear();
            });
            let _end = End(&is_done, shown.thread().clone());
            work()
        })
    }
}

/// The amount of each stage, and its rate while a thread works at it. The slowest stage limits the run.
struct Rates<'a>(&'a Counts);

impl fmt::Display for Rates<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { bytes_read, reading, pixels, computing, bytes_written, writing, .. } = *self.0;
        let rate = |amount: u64, time: Duration| amount as f64 / time.as_secs_f64().max(1e-9);
        write!(
            f,
            "read {} at {}, computed at {}, wrote {} at {} (each by one thread)",
            Amount(bytes_read as f64, "B"),
            Amount(rate(bytes_read, reading), "B/s"),
            Amount(rate(pixels, computing), "pixels/s"),
            Amount(bytes_written as f64, "B"),
            Amount(rate(bytes_written, writing), "B/s"),
        )
    }
}

/// A number with three digits, a prefix and a unit.
struct Amount(f64, &'static str);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value, unit) = *self;
        let (scaled, prefix) = match value {
            1e12.. => (value / 1e12, "T"),
            1e9.. => (value / 1e9, "G"),
            1e6.. => (value / 1e6, "M"),
            1e3.. => (value / 1e3, "k"),
            _ => (value, ""),
        };
        let places = match scaled {
            100.0.. => 0,
            10.0.. => 1,
            _ if prefix.is_empty() => 0,
            _ => 2,
        };
        write!(f, "{scaled:.places$} {prefix}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        let text = |value| Amount(value, "B").to_string();
        assert_eq!([text(0.0), text(7.0), text(1234.0), text(56.78e9)], ["0 B", "7 B", "1.23 kB", "56.8 GB"]);
    }

    #[test]
    fn what_is_missing_is_listed() {
        let share = Share { chunks: vec![3, 4, 7], kept: 2, name: &|chunk| format!("c/{chunk}") };
        let line = share.missing(&[4, 7], true);
        assert!(line.starts_with("missing: 2 of 5 chunks: c/4, c/7; the same command"), "{line}");
        assert_eq!(share.missing(&[4, 7], false), "missing: 2 of 5 chunks");
        let counts = Counts { pixels: 4_000_000, bytes_read: 10_000_000, ..Counts::default() };
        let line = share.summary(3, &counts, Duration::from_secs(2));
        assert!(line.starts_with("3 of 3 chunks (2 existed and are kept), 4.00 Mpixels in 2.00 s: 2.00 M"), "{line}");
    }
}
