//! The state of a running tutorial: the device, the transcript so far, checks and times.

use std::time::Duration;

use super::judge::CheckResult;
use super::report::{Check, Part, Table, Transcript};
use super::{MeanTime, Tutorial, TutorialOptions};
use crate::files::Picture;
use crate::tutorial::launch::Launcher;
use crate::units::digits;
use faltung::{Device, Result};

/// A running tutorial.
pub(super) struct Session<'a> {
    device: &'a Device,
    pub(super) options: TutorialOptions,
    show: &'a mut dyn FnMut(&Part),
    parts: Vec<Part>,
    pictures: Vec<(&'static str, Picture)>,
    /// Bytes per second, once measured.
    copy_rate: Option<f64>,
}

impl<'a> Session<'a> {
    pub(super) fn new(device: &'a Device, options: TutorialOptions, show: &'a mut dyn FnMut(&Part)) -> Self {
        Self { device, options, show, parts: Vec::new(), pictures: Vec::new(), copy_rate: None }
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// A launcher, unless the device is the CPU.
    pub(super) fn launcher(&self) -> Result<Option<Launcher>> {
        Launcher::new(self.device)
    }

    pub(super) fn is_cpu(&self) -> bool {
        self.device.backend() == "cpu"
    }

    pub(super) fn is_emulator(&self) -> bool {
        self.device.backend() == "emulator"
    }

    /// A remark on the blocks of a kernel, for the CPU, where it does not run.
    pub(super) fn of_the_kernel(&self) -> &'static str {
        if self.is_cpu() { " (the GPU kernel's; the CPU has none)" } else { "" }
    }

    fn part(&mut self, part: Part) {
        (self.show)(&part);
        self.parts.push(part);
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.part(Part::Note(text.into()));
    }

    /// Adds a table, unless it has no rows.
    pub(super) fn table(&mut self, title: impl Into<String>, columns: &[&'static str], rows: Vec<Vec<String>>) {
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()));
        if !rows.is_empty() {
            self.part(Part::Table(Table { title: title.into(), columns: columns.to_vec(), rows }));
        }
    }

    /// Adds a check. True if the result is right: only then it gets figures.
    pub(super) fn check(&mut self, what: impl Into<String>, verdict: CheckResult) -> bool {
        let right = verdict.is_ok();
        self.part(Part::Check(Check { what: what.into(), verdict }));
        right
    }

    pub(super) fn picture(&mut self, name: &'static str, picture: impl Into<Picture>) {
        self.pictures.push((name, picture.into()));
    }

    /// The least time of each of seven runs.
    pub(super) fn least(&self) -> Duration {
        Duration::from_millis(if self.options.quick { 2 } else { 20 })
    }

    /// The time of `work` on a CUDA device; None on the emulator, whose times mean nothing.
    pub(super) fn time(&self, launcher: &Launcher, mut work: impl FnMut() -> Result<()>) -> Result<Option<MeanTime>> {
        if launcher.is_emulator() {
            return Ok(None);
        }
        MeanTime::of(self.least(), |loops| launcher.timed(loops, &mut work)).map(Some)
    }

    /// The time of `work` on the CPU.
    pub(super) fn time_cpu(&self, mut work: impl FnMut()) -> Result<MeanTime> {
        MeanTime::of(self.least(), |loops| {
            let start = std::time::Instant::now();
            for _ in 0..loops {
                work();
            }
            Ok(start.elapsed())
        })
    }

    /// The share of the device's copy rate for `bytes` in this time, such as "54.3 %".
    pub(super) fn of_copy_rate(&mut self, bytes: f64, timing: &MeanTime) -> Result<String> {
        let rate = match self.copy_rate {
            Some(rate) => rate,
            None => *self.copy_rate.insert(self.device.rates()?.copy_bytes_per_s),
        };
        Ok(format!("{} %", digits(100.0 * bytes / (timing.mean / 1e6) / rate)))
    }

    /// The transcript.
    pub(super) fn finish(self, tutorial: Tutorial) -> Transcript {
        Transcript { tutorial, parts: self.parts, pictures: self.pictures }
    }
}

/// How many times as fast, such as "12.3x".
pub(super) fn times_as_fast(slow: &MeanTime, fast: &MeanTime) -> String {
    format!("{}x", digits(slow.mean / fast.mean))
}
