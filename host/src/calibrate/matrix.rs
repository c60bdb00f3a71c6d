//! The times of all kernels on the images and masks that people use, and how good a choice among them is.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Write};

use faltung::plan::{Considered, Limits, Plan};
use faltung::{Accuracy, Device, Error, Result, Variant, VariantChoice};
use kernels_gpu::registry::{Entry, entries};

use super::timer::Timer;
use super::{Case, Format, Row, write_rows};

/// Sides of the images.
const SIDES: [usize; 7] = [128, 256, 512, 1024, 2048, 4096, 8192];

/// Sides of the masks.
const MASKS: [usize; 11] = [3, 5, 7, 9, 11, 13, 15, 21, 31, 63, 127];

/// A kernel that takes more than this many times as long as the fastest one, and longer than [`SLOW_US`], is not
/// measured on larger images.
const SLOW_RATIO: f64 = 10.0;

/// See [`SLOW_RATIO`]. Microseconds.
const SLOW_US: f64 = 1000.0;

/// The times of a case that are kept: up to this many times that of the fastest kernel, and that of the choice.
const KEPT_RATIO: f64 = 3.0;

/// The measured times: for each case those of the kernels that were measured.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    cells: BTreeMap<Case, Vec<Time>>,
}

/// The time of a kernel.
#[derive(Clone, Copy, Debug)]
struct Time {
    entry: &'static Entry,
    in_planes: bool,
    us: f64,
}

/// How far the choices of a plan are from the fastest kernels.
#[derive(Clone, Debug)]
pub struct Quality {
    /// The number of cases.
    pub cells: usize,
    /// The number of cases in which the choice takes at most 5 % longer than the fastest.
    pub within_5_percent: usize,
    /// The number of cases in which it takes more than 1.25 times as long.
    pub above_1_25: usize,
    /// The number of further cases, in which the choice has no time.
    pub without_time: usize,
    /// The worst cases: how many times as long the choice takes, and which case and which kernels.
    pub worst: Vec<(f64, String)>,
}

impl Quality {
    /// The part of the cases within 5 %.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.within_5_percent as f64 / self.cells.max(1) as f64
    }
}

/// The case of a line.
fn case(format: Format, side: usize, mask: usize, is_separable: bool) -> Case {
    Case { format, image: (side, side), mask: (mask, mask), is_separable, is_centred: true }
}

/// What `auto` makes of a case on a device with `limits`, in the default class.
fn plan(case: &Case, limits: Limits) -> Result<Plan> {
    Plan::new(&case.problem()?.with_accuracy(Accuracy::default()), limits, VariantChoice::Auto)
}

/// Whether the kernel takes an image of any format as fast as its planes.
fn is_for_any_format(entry: &Entry) -> bool {
    matches!(entry.variant, Variant::Naive | Variant::ConstantMask)
}

impl Matrix {
    /// Measures all kernels on all cases. Takes some minutes.
    ///
    /// # Errors
    /// Those of the device and of [`Plan::new`]. [`Error::NoTime`] for a device that is not a GPU.
    pub fn measure(device: &Device, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let limits = device.gpu().ok_or(Error::NoTime)?.limits();
        let mut timer = Timer::new(device)?;
        let mut cells = BTreeMap::new();
        for format in Format::all().filter(|format| format.channels != 2) {
            progress(&format!("{} x {}", format.pixel, format.channels));
            let direct = format.entries().map(|entry| (entry, false));
            let planes = entries().filter(|entry| entry.is_plane() && !format.is_plane() && !is_for_any_format(entry));
            let planes = planes.map(|entry| (entry, true));
            let kernels: Vec<_> = direct.chain(planes).collect();
            for mask in MASKS {
                for is_separable in [false, true] {
                    // The kernels that are worth a measurement. The choice by the coefficients in use always is.
                    let mut candidates = kernels.clone();
                    for side in SIDES {
                        let case = case(format, side, mask, is_separable);
                        let mut times = Vec::new();
                        let plan = plan(&case, limits)?;
                        let choice = (plan.entry, plan.planes.is_some());
                        if !candidates.contains(&choice) {
                            candidates.push(choice);
                        }
                        for &(entry, in_planes) in &candidates {
                            let Some((_, us)) = timer.time(&case, entry, in_planes)? else { continue };
                            times.push(Time { entry, in_planes, us });
                        }
                        let fastest = times.iter().map(|time| time.us).fold(f64::INFINITY, f64::min);
                        let is_slow = |us: f64| us > SLOW_RATIO * fastest && us > SLOW_US;
                        let promising = times.iter().filter(|time| !is_slow(time.us));
                        candidates = promising.map(|time| (time.entry, time.in_planes)).collect();
                        let is_choice = |time: &Time| (time.entry, time.in_planes) == choice;
                        times.retain(|time| time.us <= KEPT_RATIO * fastest || is_choice(time));
                        cells.insert(case, times);
                    }
                }
            }
            timer.forget_images();
        }
        Ok(Self { cells })
    }

    /// How good the choices of plans for a device with `limits` are: the choices among the kernels that have a time for
    /// any case of the format. The times say nothing about a kernel that is newer.
    ///
    /// # Errors
    /// Those of [`Plan::new`].
    pub fn quality(&self, limits: Limits) -> Result<Quality> {
        let (mut ratios, mut without_time) = (Vec::new(), 0);
        let kernels = |(case, times): (&Case, &Vec<Time>)| {
            let pixel = case.format.pixel;
            times.iter().map(move |time| (pixel, time.entry.symbol, time.in_planes)).collect::<Vec<_>>()
        };
        let measured: HashSet<_> = self.cells.iter().flat_map(kernels).collect();
        for (case, times) in &self.cells {
            let plan = plan(case, limits)?;
            let Some(best) = times.iter().min_by(|a, b| a.us.total_cmp(&b.us)) else { continue };
            // They are sorted: the first one that can is the choice.
            let is_measured =
                |one: &&Considered| measured.contains(&(case.format.pixel, one.entry.symbol, one.in_planes));
            let mut able = plan.considered.iter().filter(|one| one.answer.is_ok());
            let Some(choice) = able.find(is_measured) else { continue };
            let is_chosen = |time: &&Time| time.entry == choice.entry && time.in_planes == choice.in_planes;
            let Some(chosen) = times.iter().find(is_chosen).map(|time| time.us) else {
                without_time += 1;
                continue;
            };
            let name =
                |entry: &Entry, in_planes| format!("{}{}", entry.symbol, if in_planes { " in planes" } else { "" });
            let text = format!(
                "{} x {}, {} x {}, mask {} x {}{}: {} {chosen:.1} us (predicted {:.1}), {} {:.1} us",
                case.format.pixel,
                case.format.channels,
                case.image.0,
                case.image.1,
                case.mask.0,
                case.mask.1,
                if case.is_separable { ", separable" } else { "" },
                name(choice.entry, choice.in_planes),
                choice.predicted_us,
                name(best.entry, best.in_planes),
                best.us,
            );
            ratios.push((chosen / best.us, text));
        }
        ratios.sort_by(|a, b| b.0.total_cmp(&a.0));
        Ok(Quality {
            cells: ratios.len(),
            within_5_percent: ratios.iter().filter(|(ratio, _)| *ratio <= 1.05).count(),
            above_1_25: ratios.iter().filter(|(ratio, _)| *ratio > 1.25).count(),
            without_time,
            worst: ratios.into_iter().take(20).collect(),
        })
    }

    /// Reads what [`write`](Self::write) wrote.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(text: impl Read) -> Result<Self, csv::Error> {
        let mut cells: BTreeMap<Case, Vec<Time>> = BTreeMap::new();
        for row in csv::Reader::from_reader(text).deserialize() {
            let row: Row = row?;
            // A line of an unknown kernel is skipped.
            if let (Some(case), Some(entry)) = (row.case(), entries().find(|entry| entry.symbol == row.kernel)) {
                cells.entry(case).or_default().push(Time { entry, in_planes: row.planes, us: row.us });
            }
        }
        Ok(Self { cells })
    }

    /// Writes all times as comma-separated values.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> Result<(), csv::Error> {
        let row = |case, time: &Time| Row::new(case, time.entry, time.in_planes, time.us);
        write_rows(to, self.cells.iter().flat_map(|(case, times)| times.iter().map(move |time| row(case, time))))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use faltung::plan::cost::Costs;

    use super::*;

    /// The times of the H200. Those of the H100 are of former kernels.
    fn recorded() -> Matrix {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/measurements/h200-matrix.csv");
        Matrix::read(File::open(path).unwrap()).unwrap()
    }

    /// An H200's limits, with these coefficients.
    fn limits(costs: &'static Costs) -> Limits {
        Limits { costs: Some(costs), memory_gb_s: costs.memory_gb_s, ..Limits::H100 }
    }

    /// The choices by the coefficients that ship, on the recorded times of all kernels.
    #[test]
    fn choices_are_near_the_fastest() {
        let quality = recorded().quality(limits(Costs::shipped_for("NVIDIA H200"))).unwrap();
        assert!(quality.cells > 1000 && quality.share() >= 0.95, "{quality:?}");
        // Times below some 30 us are noisy.
        assert!(quality.above_1_25 <= 2 && quality.without_time == 0, "{quality:?}");
    }

    /// Wrong coefficients are seen.
    #[test]
    fn choices_by_wrong_coefficients_are_not() {
        let mut costs = Costs::shipped_for("NVIDIA H200").clone();
        for coefficient in
            costs.kernel.iter_mut().filter(|(kernel, _)| kernel.contains("async")).flat_map(|(_, all)| all)
        {
            *coefficient *= 1.5;
        }
        let quality = recorded().quality(limits(Box::leak(Box::new(costs)))).unwrap();
        assert!(quality.above_1_25 > 4, "{quality:?}");
    }

    #[test]
    fn what_was_written_is_read() {
        let matrix = recorded();
        let mut text = Vec::new();
        matrix.write(&mut text).unwrap();
        let again = Matrix::read(&text[..]).unwrap();
        assert_eq!(format!("{again:?}"), format!("{matrix:?}"));
        assert!(Matrix::read("pixel,channels\nu8,one\n".as_bytes()).is_err());
    }
}
