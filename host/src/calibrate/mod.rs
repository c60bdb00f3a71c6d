//! Measures the kernels on a GPU for the cost model of [`faltung::plan::cost`].
//!
//! [`calibrate`] times each kernel on some images and masks, and fits the coefficients of the model to the times.
//! [`Matrix`] holds the times of all kernels on common images and masks. It compares each choice with the fastest
//! kernel.

mod matrix;
mod timer;

use std::collections::HashMap;
use std::io::Write;

use faltung::plan::Plan;
use faltung::plan::cost::{CONVERSION, Costs, PROOF, Terms, fit};
use faltung::{
    Accuracy, Device, Error, Filter, GpuInfo, Mask, PixelFormat, PixelType, Problem, Result, VariantChoice, calibration,
};
use kernels_gpu::registry::{Entry, MaskSize, entries};
use serde::{Deserialize, Serialize};

pub use self::matrix::{Matrix, Quality};
use self::timer::Timer;

/// The seed of masks and images.
const SEED: u64 = 20_260;

/// Sides of the images that the coefficients are measured with. Two are not divisible by four: rows that end inside a
/// vector take longer.
const SIDES: [usize; 11] = [160, 192, 320, 362, 576, 768, 1152, 1920, 2999, 3840, 7680];

/// Width and height of the masks for kernels that take any size, or a class of sizes.
const MASKS: [(usize, usize); 18] = [
    (3, 3),
    (5, 5),
    (9, 9),
    (15, 15),
    (21, 21),
    (31, 31),
    (47, 47),
    (63, 63),
    (79, 79),
    (95, 95),
    (111, 111),
    (127, 127),
    (191, 191),
    (255, 255),
    (3, 13),
    (13, 3),
    (1, 25),
    (25, 1),
];

/// The side of the image for windows that are not centred.
const OFF_CENTRE_SIDE: usize = 1152;

/// A measurement that is expected to take longer than this many microseconds is left out.
const LONGEST_US: f64 = 60_000.0;

/// An image and a mask to measure with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Case {
    format: Format,
    /// Width and height of the image.
    image: (usize, usize),
    /// Width and height of the mask.
    mask: (usize, usize),
    is_separable: bool,
    /// Whether the window reaches as far to the left as to the right.
    is_centred: bool,
}

/// Values of one type, in image and result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Format {
    pixel: &'static str,
    channels: usize,
}

impl Format {
    /// All formats that there are kernels for.
    fn all() -> impl Iterator<Item = Self> {
        PixelType::ALL.into_iter().flat_map(|pixel| (1..=4).map(move |channels| Self { pixel: pixel.name(), channels }))
    }

    fn pixel_type(self) -> PixelType {
        PixelType::ALL.into_iter().find(|pixel| pixel.name() == self.pixel).expect("it is the name of a type")
    }

    fn is_plane(self) -> bool {
        self.of_library() == PixelFormat::PLANE
    }

    fn of_library(self) -> PixelFormat {
        PixelFormat { channels: self.channels, input: self.pixel_type(), output: self.pixel_type() }
    }

    /// The kernels for images of this format.
    fn entries(self) -> impl Iterator<Item = &'static Entry> {
        entries().filter(move |entry| (entry.pixel, entry.channels as usize) == (self.pixel_type(), self.channels))
    }
}

impl Case {
    /// The class Normwise lets transforms accept all results of `f32`, so that their times do not depend on the image.
    /// Integers are those of the ordered sums.
    fn problem(&self) -> Result<Problem> {
        let (width, height) = self.mask;
        let is_float = self.format.pixel_type() == PixelType::F32;
        let accuracy = if is_float { Accuracy::Normwise } else { Accuracy::Bounded };
        let filter = Filter::new(mask(width, height, self.is_separable)?).accuracy(accuracy);
        let filter = if self.is_centred { filter } else { filter.anchor(height / 2, 0) };
        Problem::new(self.image.0, self.image.1, &filter)?.with_format(self.format.of_library())
    }
}

/// A mask of random coefficients with the sum 1; a separable one of random factors.
fn mask(width: usize, height: usize, is_separable: bool) -> Result<Mask> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let coefficients = if is_separable {
        let mut factor = |length: usize| -> Vec<f32> { (0..length).map(|_| 0.25 + 0.75 * random.f32()).collect() };
        let (column, row) = (factor(height), factor(width));
        column.iter().flat_map(|a| row.iter().map(move |b| a * b)).collect()
    } else {
        // `1 - random` is never 0, so that the sum of a 1 x 1 mask is not 0.
        (0..width * height).map(|_| 1.0 - random.f32()).collect()
    };
    Mask::new(width, height, coefficients)?.normalized()
}

/// A time, as a line of a file.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Row {
    pixel: String,
    channels: usize,
    width: usize,
    height: usize,
    mask_width: usize,
    mask_height: usize,
    separable: bool,
    centred: bool,
    kernel: String,
    planes: bool,
    us: f64,
}

impl Row {
    fn new(case: &Case, entry: &Entry, planes: bool, us: f64) -> Self {
        Self {
            pixel: case.format.pixel.to_owned(),
            channels: case.format.channels,
            width: case.image.0,
            height: case.image.1,
            mask_width: case.mask.0,
            mask_height: case.mask.1,
            separable: case.is_separable,
            centred: case.is_centred,
            kernel: entry.symbol.to_owned(),
            planes,
            // A nanosecond is less than the spread.
            us: (us * 1e3).round() / 1e3,
        }
    }

    /// The case, if there are kernels for its format.
    fn case(&self) -> Option<Case> {
        let is_own = |format: &Format| (format.pixel, format.channels) == (self.pixel.as_str(), self.channels);
        Some(Case {
            format: Format::all().find(is_own)?,
            image: (self.width, self.height),
            mask: (self.mask_width, self.mask_height),
            is_separable: self.separable,
            is_centred: self.centred,
        })
    }
}

/// Writes times as comma-separated values.
fn write_rows(to: impl Write, rows: impl Iterator<Item = Row>) -> Result<(), csv::Error> {
    let mut writer = csv::Writer::from_writer(to);
    for row in rows {
        writer.serialize(row)?;
    }
    Ok(writer.flush()?)
}

/// What a calibration found.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The coefficients.
    pub costs: Costs,
    times: Vec<Row>,
    /// The median relative error of the predicted times.
    pub median_error: f64,
}

impl Calibration {
    /// The number of measured times.
    #[must_use]
    pub fn times(&self) -> usize {
        self.times.len()
    }

    /// Writes the times as comma-separated values, one for each line.
    ///
    /// # Errors
    /// Those of `to`.
    pub fn write_times(&self, to: impl Write) -> Result<(), csv::Error> {
        write_rows(to, self.times.iter().cloned())
    }
}

/// Measures all kernels on `device`, and fits the coefficients of the cost model. This takes about three minutes, with
/// the driver's compilation of the kernels.
///
/// # Errors
/// Those of the device. [`Error::NoTime`] for a device that is not a GPU.
pub fn calibrate(device: &Device, date: &str, progress: &mut dyn FnMut(&str)) -> Result<Calibration> {
    let gpu = device.gpu().ok_or(Error::NoTime)?;
    let mut measured: HashMap<&'static str, Vec<(Terms, f64)>> = HashMap::new();
    let mut timer = Timer::new(device)?;
    let (mut rows, mut planes) = (Vec::new(), PlaneTimes::new());
    for format in Format::all() {
        progress(&format!("{} x {}", format.pixel, format.channels));
        for entry in format.entries() {
            let mut last = None;
            for case in cases(format, entry) {
                let image = (case.image.0 * case.image.1) as f64;
                let steps = image * (case.mask.0 * case.mask.1) as f64;
                if last.is_some_and(|(others, us): (f64, f64)| us * steps / others > LONGEST_US) {
                    continue;
                }
                let Some((plan, us)) = timer.time(&case, entry, false)? else { continue };
                last = Some((steps, us));
                rows.push(Row::new(&case, entry, false, us));
                if is_for_conversions(entry) || is_for_proofs(entry) {
                    planes.insert((entry.symbol, case.image, case.mask, case.is_centred), us);
                }
                measured.entry(entry.symbol).or_default().push((plan.terms, us));
            }
        }
        timer.forget_images();
    }
    progress("conversions to and from planes");
    let conversions = conversions(&mut timer, &planes, &mut rows)?;
    progress("conversions from planes with a proof");
    let proofs = proofs(&mut timer, &planes, &fit(&conversions), &mut rows)?;
    // Without times the conversion with a proof gets no coefficients. Then no plan takes it.
    if !proofs.is_empty() {
        measured.insert(PROOF, proofs);
    }
    measured.insert(CONVERSION, conversions);
    let costs = costs(gpu, date, &measured);
    let mut errors: Vec<f64> = measured
        .iter()
        .flat_map(|(kernel, times)| {
            let coefficients = &costs.kernel[*kernel];
            times.iter().map(|(terms, us)| (dot(coefficients, terms) / us - 1.0).abs())
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    Ok(Calibration { costs, times: rows, median_error: errors[errors.len() / 2] })
}

fn dot(a: &Terms, b: &Terms) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The coefficients for measured times on `gpu`.
fn costs(gpu: &GpuInfo, date: &str, measured: &HashMap<&'static str, Vec<(Terms, f64)>>) -> Costs {
    Costs {
        device: gpu.name.clone(),
        date: date.to_owned(),
        kernels: calibration::KERNELS.to_owned(),
        clock_mhz: gpu.clock_mhz,
        memory_gb_s: gpu.memory_gb_s,
        kernel: measured.iter().map(|(&kernel, times)| (kernel.to_owned(), fit(times))).collect(),
    }
}

/// What a kernel is measured with.
fn cases(format: Format, entry: &Entry) -> Vec<Case> {
    let masks = match entry.mask {
        MaskSize::Square(side) => vec![(side as usize, side as usize)],
        MaskSize::Any | MaskSize::Class(_) => MASKS.to_vec(),
    };
    let case = |mask: (usize, usize), side, is_centred| {
        // Separable masks suit all kernels.
        Case { format, image: (side, side), mask, is_separable: true, is_centred }
    };
    let sides = |&mask: &(usize, usize)| SIDES.map(|side| case(mask, side, true));
    let off_centre = masks.iter().filter(|mask| mask.0 > 2).map(|&mask| case(mask, OFF_CENTRE_SIDE, false));
    masks.iter().flat_map(sides).chain(off_centre).collect()
}

/// The times of single planes, by the kernel, the image, the mask, and whether the window is centred.
type PlaneTimes = HashMap<(&'static str, (usize, usize), (usize, usize), bool), f64>;

/// Whether the conversions to and from planes are measured with this kernel: it takes little time itself.
fn is_for_conversions(entry: &Entry) -> bool {
    entry.is_plane() && entry.variant == faltung::Variant::SharedTileAsync && entry.side() <= 5
}

/// Whether the conversions with a proof are measured with this kernel: its results are not bit-exact, and it takes
/// masks of any size.
fn is_for_proofs(entry: &Entry) -> bool {
    entry.is_plane() && entry.variant == faltung::Variant::SeparableRing
}

/// Whether the conversions with a proof are measured in this case: fewer than those of kernels, because their time has
/// few terms.
fn has_proof_time(case: &Case) -> bool {
    let (width, height) = case.mask;
    width.min(height) >= 5 && [362, 1152, 2999].contains(&case.image.0) && case.is_centred
}

/// The time of a conversion with a proof is the time in planes, less `channels` times the time of one plane, less the
/// predicted time of the conversion to planes.
fn proofs(
    timer: &mut Timer<'_>,
    planes: &PlaneTimes,
    conversion: &Terms,
    rows: &mut Vec<Row>,
) -> Result<Vec<(Terms, f64)>> {
    let mut found = Vec::new();
    for format in Format::all().filter(|format| format.pixel_type() != PixelType::F32) {
        for entry in entries().filter(|entry| is_for_proofs(entry)) {
            for case in cases(format, entry).into_iter().filter(has_proof_time) {
                let key = (entry.symbol, case.image, case.mask, case.is_centred);
                let Some(plane) = planes.get(&key) else { continue };
                if format.channels as f64 * plane > LONGEST_US / 10.0 {
                    continue;
                }
                let Some((plan, us)) = timer.time(&case, entry, true)? else { continue };
                rows.push(Row::new(&case, entry, true, us));
                let to_planes = plan.conversion_terms.map_or(0.0, |terms| dot(conversion, &terms));
                let rest = us - format.channels as f64 * plane - to_planes;
                if let Some(terms) = plan.proof_terms
                    && rest > 0.0
                {
                    found.push((terms, rest));
                }
            }
        }
        timer.forget_images();
    }
    Ok(found)
}

/// The time of a conversion is the time in planes, less `channels` times the time of one plane.
fn conversions(timer: &mut Timer<'_>, planes: &PlaneTimes, rows: &mut Vec<Row>) -> Result<Vec<(Terms, f64)>> {
    let mut found = Vec::new();
    for format in Format::all().filter(|format| !format.is_plane()) {
        for entry in entries().filter(|entry| is_for_conversions(entry)) {
            for case in cases(format, entry) {
                let Some(plane) = planes.get(&(entry.symbol, case.image, case.mask, case.is_centred)) else { continue };
                let Some((plan, us)) = timer.time(&case, entry, true)? else { continue };
                rows.push(Row::new(&case, entry, true, us));
                let rest = us - format.channels as f64 * plane;
                if let Some(terms) = plan.conversion_terms
                    && rest > 0.0
                {
                    found.push((terms, rest));
                }
            }
        }
        timer.forget_images();
    }
    Ok(found)
}
