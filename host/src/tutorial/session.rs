//! What the tutorials have in common: a device, a report that grows, checks before figures, times.

use std::time::Duration;

use super::judge::Verdict;
use super::report::{Check, Part, Report, Table};
use super::{Settings, Timing, Tutorial};
use crate::files::Picture;
use crate::units::digits;
use faltung::lab::Lab;
use faltung::{Device, Result};

/// A tutorial that runs.
pub(super) struct Session<'a> {
    device: &'a Device,
    pub(super) settings: Settings,
    show: &'a mut dyn FnMut(&Part),
    parts: Vec<Part>,
    pictures: Vec<(&'static str, Picture)>,
    /// Bytes per second, once measured.
    copy_rate: Option<f64>,
}

impl<'a> Session<'a> {
    pub(super) fn new(device: &'a Device, settings: Settings, show: &'a mut dyn FnMut(&Part)) -> Self {
        Self { device, settings, show, parts: Vec::new(), pictures: Vec::new(), copy_rate: None }
    }

    pub(super) fn device(&self) -> &'a Device {
        self.device
    }

    /// A lab, unless the device is the CPU.
    pub(super) fn lab(&self) -> Option<Lab<'a>> {
        self.device.lab()
    }

    pub(super) fn is_emulator(&self) -> bool {
        self.device.backend() == "emulator"
    }

    /// What to add to the blocks of a kernel where it does not run.
    pub(super) fn of_the_kernel(&self) -> &'static str {
        if self.device.backend() == "cpu" { " (the GPU kernel's; the CPU has none)" } else { "" }
    }

    fn part(&mut self, part: Part) {
        (self.show)(&part);
        self.parts.push(part);
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.part(Part::Note(text.into()));
    }

    /// Adds a table, unless nothing was right that could stand in it.
    pub(super) fn table(&mut self, title: impl Into<String>, columns: &[&'static str], rows: Vec<Vec<String>>) {
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()));
        if !rows.is_empty() {
            self.part(Part::Table(Table { title: title.into(), columns: columns.to_vec(), rows }));
        }
    }

    /// Notes whether an answer is right, and says so: only what is right has figures.
    pub(super) fn check(&mut self, what: impl Into<String>, verdict: Verdict) -> bool {
        let right = verdict.is_ok();
        self.part(Part::Check(Check { what: what.into(), verdict }));
        right
    }

    pub(super) fn picture(&mut self, name: &'static str, picture: impl Into<Picture>) {
        self.pictures.push((name, picture.into()));
    }

    /// The least time of each of seven runs.
    pub(super) fn least(&self) -> Duration {
        Duration::from_millis(if self.settings.quick { 2 } else { 20 })
    }

    /// The time of `work` on a CUDA device; None on the emulator, where it would mean nothing.
    pub(super) fn time(
        &self,
        lab: &mut Lab<'a>,
        mut work: impl FnMut(&mut Lab<'a>) -> Result<()>,
    ) -> Result<Option<Timing>> {
        if lab.is_emulator() {
            return Ok(None);
        }
        Timing::of(self.least(), |loops| lab.timed(loops, &mut work)).map(Some)
    }

    /// The time of `work` on the CPU.
    pub(super) fn time_cpu(&self, mut work: impl FnMut()) -> Result<Timing> {
        Timing::of(self.least(), |loops| {
            let start = std::time::Instant::now();
            for _ in 0..loops {
                work();
            }
            Ok(start.elapsed())
        })
    }

    /// The part of the device's copy rate that `bytes` in this time are, such as "54.3 %".
    pub(super) fn of_copy_rate(&mut self, bytes: f64, timing: &Timing) -> Result<String> {
        let rate = match self.copy_rate {
            Some(rate) => rate,
            None => *self.copy_rate.insert(self.device.rates()?.copy_bytes_per_s),
        };
        Ok(format!("{} %", digits(100.0 * bytes / (timing.mean / 1e6) / rate)))
    }

    /// The report. A wrong answer leaves pictures out that show it.
    pub(super) fn finish(self, tutorial: Tutorial) -> Report {
        Report { tutorial, parts: self.parts, pictures: self.pictures }
    }
}

/// How many times as fast, such as "12.3x".
pub(super) fn times_as_fast(slow: &Timing, fast: &Timing) -> String {
    format!("{}x", digits(slow.mean / fast.mean))
}
