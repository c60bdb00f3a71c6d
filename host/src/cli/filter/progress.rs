//! The progress of a run on the terminal.

use std::fmt::{Arguments, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host::batch::BatchSummary;
use host::units::plural;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::output;

/// A bar on the standard error, where that is a terminal and there are several pictures. Clones are one and the same.
#[derive(Clone)]
pub(super) struct Progress {
    bar: ProgressBar,
    /// Pixels of all pictures that were written.
    pixels: Arc<AtomicU64>,
    quiet: bool,
}

impl Progress {
    pub(super) fn new(count: usize, quiet: bool) -> Self {
        let pixels = Arc::new(AtomicU64::new(0));
        if quiet || count < 2 {
            let bar = ProgressBar::with_draw_target(Some(count as u64), ProgressDrawTarget::hidden());
            return Self { bar, pixels, quiet };
        }
        let written = Arc::clone(&pixels);
        let rates = move |state: &ProgressState, text: &mut dyn Write| {
            let seconds = state.elapsed().as_secs_f64().max(1e-9);
            let pixels = written.load(Ordering::Relaxed) as f64;
            // A failure to write can't be reported, either.
            let _ = write!(text, "{}", Rates { pictures: state.pos() as f64 / seconds, pixels: pixels / seconds });
        };
        let left = |state: &ProgressState, text: &mut dyn Write| {
            // The rate is unknown before the first picture.
            let _ = match state.pos() {
                0 => write!(text, "?"),
                _ => write!(text, "{:#}", HumanDuration(state.eta())),
            };
        };
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}  {rates}  {left} left")
            .expect("a valid template")
            .with_key("rates", rates)
            .with_key("left", left);
        let bar = ProgressBar::new(count as u64).with_style(style);
        // Its thread is not needed where nothing is drawn, and might be refused.
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        Self { bar, pixels, quiet }
    }

    /// Whether there are several pictures.
    pub(super) fn is_of_several(&self) -> bool {
        self.bar.length().is_some_and(|count| count > 1)
    }

    /// Prints a line without disturbing the bar.
    pub(super) fn say(&self, text: Arguments<'_>) {
        self.bar.suspend(|| output::message(text));
    }

    pub(super) fn written(&self, pixels: usize) {
        self.pixels.fetch_add(pixels as u64, Ordering::Relaxed);
    }

    pub(super) fn finished_one(&self) {
        self.bar.inc(1);
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Removes the bar, so that the shell's prompt gets a line of its own.
    pub(super) fn interrupted(&self) {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        self.bar.finish_and_clear();
        if !self.quiet {
            output::message(format_args!("interrupted after {done} of {all} pictures"));
        }
    }

    /// A line about the whole run.
    pub(super) fn summary(&self, summary: &BatchSummary) -> String {
        let seconds = summary.elapsed.as_secs_f64().max(1e-9);
        let pixels = self.pixels.load(Ordering::Relaxed) as f64;
        let rates = Rates { pictures: summary.done as f64 / seconds, pixels: pixels / seconds };
        let busy = 100.0 * summary.computing.as_secs_f64() / seconds;
        let done = plural(summary.done, "picture");
        if seconds < MEASURABLE {
            return format!("{done} in {seconds:.2} s");
        }
        format!("{done} in {seconds:.2} s: {rates}; the device was busy for {busy:.0} % of the time")
    }
}

/// Seconds from which on a rate says more about the pictures than about the beginning.
const MEASURABLE: f64 = 0.1;

/// How fast: in a second.
struct Rates {
    pictures: f64,
    pixels: f64,
}

impl std::fmt::Display for Rates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} pictures/s, {:.1} Mpix/s", self.pictures, self.pixels / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_time() {
        let progress = Progress::new(1, false);
        let line = |millis| {
            let (elapsed, computing) = (Duration::from_millis(millis), Duration::ZERO);
            progress.summary(&BatchSummary { done: 2, failed: 0, abandoned: 0, elapsed, computing })
        };
        assert_eq!(line(20), "2 pictures in 0.02 s");
        assert!(line(500).starts_with("2 pictures in 0.50 s: 4.0 pictures/s, "), "{}", line(500));
    }
}
