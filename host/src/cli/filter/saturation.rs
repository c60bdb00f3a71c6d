//! Counts the values of a result that saturate, and reports them.

use std::sync::{Mutex, PoisonError};

use faltung::{Image, Pixel, PixelType, Problem, white};
use rayon::prelude::*;

/// A larger part of the values than this is reported.
const WORTH_SAYING: f64 = 0.01;

/// The parts of a result's values that saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saturation {
    below: f64,
    above: f64,
}

impl Saturation {
    fn all(self) -> f64 {
        self.below + self.above
    }
}

/// A count of values.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    below: usize,
    above: usize,
}

impl Count {
    /// Counts a value that is converted to the type, rounded half to even.
    pub(super) fn add(&mut self, value: f32, pixel: PixelType) {
        if pixel != PixelType::F32 {
            self.below += usize::from(value < -0.5);
            self.above += usize::from(value >= white(pixel) + 0.5);
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self { below: self.below + other.below, above: self.above + other.above }
    }

    /// The parts of so many values.
    pub(super) fn of(self, values: usize) -> Saturation {
        let part = |count: usize| count as f64 / values.max(1) as f64;
        Saturation { below: part(self.below), above: part(self.above) }
    }
}

/// Whether a result can exceed the output's type.
fn is_possible(problem: &Problem) -> bool {
    let format = problem.format();
    if format.output == PixelType::F32 || format.input == PixelType::F32 {
        return format.output != PixelType::F32;
    }
    let (mut least, mut greatest) = (0.0, 0.0);
    let border = f64::from(problem.border().value());
    let (low, high) = (border.min(0.0), border.max(f64::from(white(format.input))));
    for &coefficient in problem.window().coefficients() {
        let ends = [f64::from(coefficient) * low, f64::from(coefficient) * high];
        least += ends[0].min(ends[1]);
        greatest += ends[0].max(ends[1]);
    }
    let (scale, offset) = problem.scale_and_offset();
    let ends = [least, greatest].map(|end| end * f64::from(scale) + f64::from(offset));
    // NaN and infinity are possible, too.
    let fits = |end: &f64| (-0.49..f64::from(white(format.output)) + 0.49).contains(end);
    !ends.iter().all(fits)
}

/// Estimates the saturated values in the first `coloured` channels of a result. The device does not count them.
///
/// The function takes a sample of up to 4096 pixels, the same in each run. It recomputes those of their values that lie
/// at an end of the range.
pub(super) fn estimate<T: Pixel, U: Pixel>(
    problem: &Problem,
    source: &Image<T>,
    result: &Image<U>,
    coloured: usize,
) -> Saturation {
    /// With this sample the standard error of a part of 1 % is 0.16 %.
    const PIXELS: usize = 4096;
    /// Multiply-adds that take a few hundredths of a second.
    const MOST_WORK: usize = 1 << 26;
    if !is_possible(problem) {
        return Saturation::default();
    }
    let (width, channels) = (result.width(), result.channels());
    let all = width * result.height();
    let window = problem.window();
    let work = window.coefficients().len().saturating_mul(channels);
    let wanted = (MOST_WORK / work.max(1)).clamp(PIXELS / 16, PIXELS);
    let places: Vec<usize> = if all <= wanted {
        (0..all).collect()
    } else {
        let mut random = fastrand::Rng::with_seed(1);
        (0..wanted).map(|_| random.usize(..all)).collect()
    };
    let count = |&place: &usize| {
        let mut count = Count::default();
        for channel in 0..coloured {
            let found = result.values()[place * channels + channel].to_f32();
            if found == 0.0 || found == white(U::TYPE) {
                count.add(problem.result_at(source.values(), place % width, place / width, channel), U::TYPE);
            }
        }
        count
    };
    places.par_iter().map(count).reduce(Count::default, Count::and).of(places.len() * coloured)
}

/// The pictures of a run whose values saturate.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Found>);

#[derive(Clone, Debug, Default)]
struct Found {
    pictures: usize,
    most: Saturation,
    name: String,
}

impl Tally {
    pub(super) fn add(&self, name: impl ToString, saturation: Saturation) {
        if saturation.all() <= WORTH_SAYING {
            return;
        }
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.pictures += 1;
        if saturation.all() > found.most.all() {
            (found.most, found.name) = (saturation, name.to_string());
        }
    }

    /// A note on a run of so many pictures, if any saturate.
    pub(super) fn note(&self, pictures: usize) -> Option<String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The sum is that of the rounded parts, so that the numbers of the note add up.
        let [below, above] = [found.most.below, found.most.above].map(|part| (100.0 * part).round());
        let all = below + above;
        let ends: Vec<_> = [(below, "below 0"), (above, "above the type's greatest value")]
            .into_iter()
            .filter(|(percent, _)| *percent > 0.0)
            .map(|(percent, end)| format!("{percent} % {end}"))
            .collect();
        let (what, ends) = (&found.name, ends.join(", "));
        let which = match (found.pictures, pictures) {
            (0, _) => return None,
            (_, 1) => format!("{what}: {all} % of the result's values saturate ({ends})"),
            (some, _) => format!(
                "more than 1 % of the values saturate in {some} of {pictures} results (most in that of {what}: {ends})"
            ),
        };
        Some(format!(
            "note: {which}: --scale and --offset bring values into the range, --output-type f32 into .tif or .npy \
             keeps them"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faltung::{Filter, Mask, PixelFormat};

    fn problem(mask: Mask, scale: f32, offset: f32) -> Problem {
        let filter = Filter::new(mask).scale(scale).offset(offset);
        Problem::new(100, 80, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap()
    }

    #[test]
    fn a_blur_can_not_saturate() {
        for (mask, scale, offset, expected) in [
            (Mask::gaussian(2.0, None).unwrap(), 1.0, 0.0, false),
            (Mask::gaussian(2.0, None).unwrap(), 1.01, 0.0, true),
            (Mask::average(4, 4).unwrap(), 0.5, 127.0, false),
            (Mask::average(4, 4).unwrap(), 0.5, 128.5, true),
            (Mask::sharpen(0.1).unwrap(), 1.0, 0.0, true),
            (Mask::sobel(faltung::Axis::X), 0.125, 127.5, false),
            (Mask::new(1, 1, vec![f32::NAN]).unwrap(), 1.0, 0.0, true),
        ] {
            assert_eq!(is_possible(&problem(mask.clone(), scale, offset)), expected, "{mask:?} {scale} {offset}");
        }
    }

    #[test]
    fn ends_are_counted_as_they_are_rounded() {
        let count = |value: f32| {
            let mut count = Count::default();
            count.add(value, PixelType::U8);
            let Saturation { below, above } = count.of(1);
            (below, above)
        };
        for value in [-0.5, 0.0, 255.0, 255.49, f32::NAN] {
            assert_eq!(count(value), (0.0, 0.0), "{value}");
        }
        assert_eq!((count(-0.6), count(255.5)), ((1.0, 0.0), (0.0, 1.0)));
    }

    /// Of a large picture a part of the pixels is looked at, of a small one all.
    #[test]
    fn an_estimate_is_near() {
        let problem = problem(Mask::identity(), 2.0, -100.0);
        let source = Image::from_fn(100, 80, |x, y| ((x * 7 + y * 31) % 256) as u8).unwrap();
        let exact = source.values().iter().fold(Count::default(), |mut count, &value| {
            count.add(f32::from(value) * 2.0 - 100.0, PixelType::U8);
            count
        });
        let result = source.map(|value| u8::from_f32(f32::from(value) * 2.0 - 100.0));
        let (found, exact) = (estimate(&problem, &source, &result, 1), exact.of(8000));
        assert!((found.below - exact.below).abs() < 0.03 && exact.below > 0.1, "{found:?} {exact:?}");
        assert!((found.above - exact.above).abs() < 0.03 && exact.above > 0.1, "{found:?} {exact:?}");
    }

    #[test]
    fn one_line_for_a_run() {
        let tally = Tally::default();
        tally.add("a.png", Saturation { below: 0.009, above: 0.0 });
        assert_eq!(tally.note(3), None);
        tally.add("b.png", Saturation { below: 0.4, above: 0.001 });
        tally.add("c.png", Saturation { below: 0.02, above: 0.03 });
        let note = tally.note(3).unwrap();
        assert!(note.contains("in 2 of 3 results (most in that of b.png: 40 % below 0)"), "{note}");
        assert!(tally.note(1).unwrap().contains("b.png: 40 % of the result's values saturate"));
    }
}
