//! The methods of the CPU, and the choice of one.

use super::Window;
use super::byte_rows::ByteRow;
use super::fft::Fft;
use super::narrow::is_narrow;
use super::pairs::Pairs;
use super::partial_sums::PartialSums;
use super::recompute::has_lanes;
use super::ring::Row;
use super::simd::Level;
use super::uncertain::Limits;
use super::whole::Whole;
use crate::accuracy::UNIT_ROUNDOFF;
use crate::plan::Factors;
use crate::plan::direct_sum::{ABOVE, DirectSum, half_unit, power, saturated, unit_of};
use crate::{Accuracy, ErrorBound, PixelType, Problem};
use kernels_gpu::separable::error_bound::error_constant;

/// How a problem is computed.
pub(super) enum Method {
    /// All products of the mask, in the order of the contract.
    Direct(Window),
    /// Rows, then columns of a separable mask.
    Separable {
        /// The column of the mask.
        column: Window,
        /// Its row.
        row: Row,
        /// Which integer results are certain. The others are recomputed as ordered sums. None where none is recomputed:
        /// for results of `f32`, and in the class Normwise.
        limits: Option<Limits>,
        /// What decides most of the others, where there are many.
        partial_sums: Option<Box<PartialSums>>,
        /// The error bound of the results where none is recomputed.
        bound: ErrorBound,
    },
    /// Exact sums of whole products, rows and columns of a separable mask.
    Whole(Whole),
    /// Rows, then columns of a separable mask without negative coefficients, in fixed point.
    Pairs(Pairs),
    /// Products of spectra, tile by tile.
    Fft(Box<Fft>),
}

impl Method {
    /// The method that the problem's accuracy class allows and that is expected to be the fastest.
    pub(super) fn choose(level: Level, problem: &Problem) -> Self {
        let direct = (problem.window().width() * problem.window().height()) as f64;
        let cheaper = |(_, cost): &(Self, f64)| *cost < direct;
        let mut methods = vec![Self::whole(level, problem)];
        // No other separable method takes less time than sums of 16 bits.
        if !matches!(&methods[0], Some((Self::Whole(mask), _)) if mask.is_short()) {
            methods.extend([Self::pairs(level, problem), Self::separable(level, problem)]);
        }
        let of_all = methods.into_iter().flatten().filter(cheaper);
        let separable = of_all.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let cost = separable.as_ref().map_or(direct, |(_, cost)| *cost);
        // The mask's transform takes long: only where it is of use.
        let fft = || if Fft::cost(level, problem) < cost { Fft::new(level, problem) } else { None };
        match (separable, fft()) {
            (_, Some(fft)) => Self::Fft(Box::new(fft)),
            (Some((separable, _)), None) => separable,
            (None, None) => Self::direct(problem),
        }
    }

    /// The direct method, which computes every problem.
    pub(super) fn direct(problem: &Problem) -> Self {
        Self::Direct(Window::new(problem))
    }

    /// Sums of whole numbers where they can serve, and their cost in multiply-adds of the direct method for a result.
    pub(super) fn whole(level: Level, problem: &Problem) -> Option<(Self, f64)> {
        let (mask, uncertain_part) = Whole::of(problem).filter(|_| !is_narrow(level, problem))?;
        let recompute = if has_lanes(level) { RECOMPUTE_IN_LANES } else { RECOMPUTE };
        let area = (problem.window().width() * problem.window().height()) as f64;
        let cost = mask.cost(level) + uncertain_part * recompute * area;
        Some((Self::Whole(mask), cost))
    }

    /// Pairs of 16-bit numbers where they can serve, and their cost in multiply-adds of the direct method for a result.
    pub(super) fn pairs(level: Level, problem: &Problem) -> Option<(Self, f64)> {
        let side = problem.window().width().max(problem.window().height());
        // Measured on an Intel Xeon, with two threads.
        let are_slow = level.has_byte_instructions()
            && if problem.format().channels == 1 {
                side < 7 && problem.values() < MANY_VALUES
            } else {
                (4..19).contains(&side)
            };
        if are_slow || is_narrow(level, problem) {
            return None;
        }
        let mask = Pairs::of(problem)?;
        let recompute = if has_lanes(level) { RECOMPUTE_IN_LANES } else { RECOMPUTE };
        let area = (problem.window().width() * problem.window().height()) as f64;
        let cost = mask.cost(level) + mask.uncertain_part() * recompute * area;
        Some((Self::Pairs(mask), cost))
    }

    /// The separable method where it can serve, and its cost in multiply-adds of the direct one for a result.
    pub(super) fn separable(level: Level, problem: &Problem) -> Option<(Self, f64)> {
        let (width, height) = (problem.window().width(), problem.window().height());
        let output = problem.format().output;
        if output == PixelType::F32 && problem.accuracy() == Accuracy::Exact {
            return None;
        }
        let integers = problem.integer_pixels();
        let factors = Factors::of(problem.window())
            .filter(|factors| integers.is_some() || factors.keep_small_pixels().is_ok())?;
        // Fixed point loses digits of small coefficients. The bound of results of `f32` needs those.
        let is_of_bytes = integers == Some(PixelType::U8) && output != PixelType::F32;
        let bytes = (is_of_bytes && !is_narrow(level, problem)).then(|| ByteRow::of(level, factors.row())).flatten();
        let [of_result, of_row, of_column] = if bytes.is_some() { PASSES_OF_BYTES } else { PASSES };
        let unit = bytes.as_ref().map_or(1.0, ByteRow::unit);
        let column: Vec<f32> = factors.column().iter().map(|&value| (f64::from(value) * unit) as f32).collect();
        let row = bytes.map_or_else(|| Row::Floats(factors.row().to_vec()), Row::Bytes);
        let certainty = if problem.required_class() == Accuracy::Exact {
            Some(Certainty::of(level, problem, &column, &row)?)
        } else {
            None
        };
        let recompute = if has_lanes(level) { RECOMPUTE_IN_LANES } else { RECOMPUTE };
        let again = certainty.as_ref().map_or(0.0, |certainty| certainty.uncertain_part * recompute);
        let passes = of_result + of_row * width as f64 + of_column * height as f64;
        let cost = passes + again * (width * height) as f64;
        let constant = error_constant(width as u32, height as u32) as f64;
        let bound = match output {
            PixelType::F32 => ErrorBound::with_constant(constant),
            _ => ErrorBound::normwise(constant + residual(problem, &column, &row)),
        };
        let bound = bound.with_underflows(factors.underflows());
        let column = Window::column(problem, &column);
        let (limits, partial_sums) =
            certainty.map_or((None, None), |certainty| (Some(certainty.limits), certainty.partial_sums));
        Some((Self::Separable { column, row, limits, partial_sums, bound }, cost))
    }

    /// The name for people and reports.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Direct(_) => "direct",
            Self::Separable { .. } | Self::Whole(_) | Self::Pairs(_) => "separable",
            Self::Fft(_) => "fft",
        }
    }

    /// Why this method: a part of a sentence.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Fft(_) => "the mask is large: products of spectra",
            Self::Direct(_) => "all products in register tiles",
            Self::Whole(_) => "the mask is separable, of whole numbers times one factor: sums of integers",
            Self::Pairs(_) => {
                "the mask is separable: rows, then columns, in 16-bit numbers, and uncertain results again in order"
            }
            Self::Separable { limits: None, .. } => "the mask is separable: rows, then columns",
            Self::Separable { .. } => "the mask is separable: rows, then columns, and uncertain results again in order",
        }
    }

    /// The accuracy class of the results, and the bound of their errors.
    pub(super) fn bound(&self, problem: &Problem) -> ErrorBound {
        match self {
            Self::Separable { limits: None, bound, .. } => *bound,
            Self::Fft(fft) => fft.bound(problem),
            Self::Direct(_) | Self::Whole(_) | Self::Pairs(_) | Self::Separable { .. } => ErrorBound::direct(problem),
        }
    }
}

/// The cost of both passes for a result, and of each coefficient of the row and of the column. The unit is one
/// multiply-add of a direct tile. Loads of the row pass straddle cache lines.
const PASSES: [f64; 3] = [4.0, 1.7, 1.0];
/// The same with a row pass over bytes: three instructions multiply four pixels by the three digits of four
/// coefficients. Measured on an Intel Xeon, with one thread.
const PASSES_OF_BYTES: [f64; 3] = [4.5, 0.55, 0.6];
/// From so many values on, also small masks take less time in pairs.
const MANY_VALUES: usize = 1 << 20;
/// The cost of a multiply-add of a result that is computed again, one of eight chains without vectors.
const RECOMPUTE: f64 = 9.0;
/// The same in the lanes of vectors.
const RECOMPUTE_IN_LANES: f64 = 5.0;

/// Which integer results of a separable mask have the bits of the ordered sum.
///
/// `M` is the mask, `c` its column, `r` its row, both as they are used, and `p` the largest pixel. Before rounding, a
/// result differs from the contract's by at most the radius, which is the sum of
/// 1. `p * sum|M - c r|`: the factors are not exactly the mask;
/// 2. the rounding errors of both passes: for each step half a unit in the last place of the largest possible partial
///    sum. The errors of the row pass count `sum|c|` times;
/// 3. the rounding of scale and offset;
/// 4. the error of the ordered sum: [`DirectSum`].
///
/// Items 1 and 2 count `|scale|` times.
///
/// The boundary between two integers is half-way between them. A result further than the radius from each boundary
/// rounds as the ordered sum does.
struct Certainty {
    /// What decides most of the uncertain results, where there are many.
    partial_sums: Option<Box<PartialSums>>,
    /// `1/2` less the radius, which is smaller for small results.
    limits: Limits,
    /// The expected share of uncertain results, if all fractions are equally likely.
    uncertain_part: f64,
}

impl Certainty {
    /// None if the error is too large for anything to be certain, or not known.
    fn of(level: Level, problem: &Problem, column: &[f32], row: &Row) -> Option<Self> {
        let ordered = DirectSum::of(problem)?;
        // An ordered `f32` sum of 16-bit pixels has too few digits behind the point to prove much.
        if problem.integer_pixels() != Some(PixelType::U8) {
            return None;
        }
        let most = 255.0;
        let width = problem.window().width();
        let left: f64 = residuals(problem, column, row).map(f64::abs).sum();
        let filtered: f64 = most * (0..width).map(|l| row.factor(l).abs()).sum::<f64>();
        let row_error = match row {
            Row::Floats(row) => rounding(row, most),
            // The sum is exact, and then an f32.
            Row::Bytes(_) => half_unit(filtered * ABOVE),
        };
        let column_size: f64 = column.iter().map(|&value| f64::from(value).abs()).sum();
        let exact = matches!(row, Row::Floats(row) if sums_are_exact(row, column, most));
        let passes = if exact { 0.0 } else { column_size * row_error + rounding(column, filtered + row_error) };
        let (scale, offset) = problem.scale_and_offset();
        let mut error = f64::from(scale.abs()) * (most * left + passes);
        if !problem.is_plain() && ordered.error() + error > 0.0 {
            let size = f64::from(scale.abs()) * filtered * column_size + f64::from(offset.abs()) + error;
            error += half_unit((size * ABOVE).min(saturated(problem.format().output)));
        }
        if ordered.error() + error == 0.0 {
            return Some(Self { limits: Limits::NONE, partial_sums: None, uncertain_part: 0.0 });
        }
        // The sums of f64 are rounded, too; what underflows is smaller.
        let radius = |ordered: f64| (ordered + error) * 1.001 + 1e-12;
        let limit = |ordered: f64| ((0.5 - radius(ordered)) as f32).next_down();
        let mut limits = Limits::uniform(limit(ordered.error()));
        let mut uncertain_part = 2.0 * radius(ordered.error());
        // Without negative coefficients no partial sum is larger than the sum, which is the result.
        let is_positive = problem.window().coefficients().iter().all(|&coefficient| coefficient >= 0.0);
        let mut partial_sums = None;
        let largest = radius(ordered.error());
        if is_positive && problem.is_plain() && uncertain_part > GRADED {
            if uncertain_part * problem.window().coefficients().len() as f64 > decided(level) {
                partial_sums = Some(Box::new(PartialSums::new(problem, column, error * 1.001, largest)));
            }
            let below = |sum: f64| ordered.sum_error_below(most, sum);
            // The radius is below 1/4. So a result below 127.5 has an ordered sum below 127.75. 127.9 leaves a margin.
            limits = Limits { below_half: limit(below(127.9)), below_quarter: limit(below(63.9)), ..limits };
            // Half of the results are below half of the largest.
            uncertain_part = uncertain_part.midpoint(2.0 * radius(below(127.9)));
        }
        (largest < 0.25).then_some(Self { limits, partial_sums, uncertain_part })
    }
}

/// `M - c r`: by how much the product of the factors, as they are used, misses each coefficient.
fn residuals<'a>(problem: &'a Problem, column: &'a [f32], row: &'a Row) -> impl Iterator<Item = f64> + 'a {
    let rows = problem.window().coefficients().chunks_exact(problem.window().width());
    rows.zip(column).flat_map(move |(values, &of_column)| {
        (0..).zip(values).map(move |(l, &value)| f64::from(value) - f64::from(of_column) * row.factor(l))
    })
}

/// `||M - c r|| / (u ||M||)`, rounded up: what the residuals add to the constant of a bound of the class Normwise.
fn residual(problem: &Problem, column: &[f32], row: &Row) -> f64 {
    let left = residuals(problem, column, row).map(|value| value * value).sum::<f64>().sqrt();
    // The last one covers terms of second order, and the conversion of sums in fixed point.
    if left == 0.0 { 1.0 } else { (left / (UNIT_ROUNDOFF * problem.window().norm())).ceil() + 1.0 }
}

/// Where a larger part of the results is uncertain, the limits are graded: that takes longer for each result.
pub(super) const GRADED: f64 = 0.002;
/// Where recomputation takes more multiply-adds for each result, partial sums decide most uncertain results. A Gaussian
/// of 47 x 47 takes less than both numbers, one of 81 x 81 takes more.
fn decided(level: Level) -> f64 {
    if level.has_byte_instructions() { 300.0 } else { 100.0 }
}

/// How far a sum of fused multiply-adds of `coefficients` and values of at most `most` can be from the exact one.
fn rounding(coefficients: &[f32], most: f64) -> f64 {
    let (mut size, mut error) = (0.0, 0.0);
    for &coefficient in coefficients.iter().filter(|&&coefficient| coefficient != 0.0) {
        size += most * f64::from(coefficient.abs());
        error += half_unit(ABOVE * (size + error));
    }
    error
}

/// Whether both passes are exact for whole pixels of at most `largest`: every sum is `k * 2^e` with `|k| <= 2^24`.
fn sums_are_exact(row: &[f32], column: &[f32], largest: f64) -> bool {
    let size = |values: &[f32]| values.iter().map(|&value| f64::from(value).abs()).sum::<f64>();
    let unit =
        |values: &[f32]| values.iter().filter(|&&value| value != 0.0).map(|&value| unit_of(value)).min().unwrap_or(0);
    let (row_unit, result_unit) = (unit(row), unit(row) + unit(column));
    let filtered = ABOVE * largest * size(row);
    let result = ABOVE * filtered * size(column);
    row_unit.min(result_unit) >= -149 && filtered <= power(row_unit + 24) && result <= power(result_unit + 24)
}
