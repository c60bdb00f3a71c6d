use super::*;

use faltung::{Border, Filter, Mask, Operation, PixelFormat};

/// Right by a half and wrong by more, at the ends of the range, and for what is no number.
#[test]
fn integers_are_rounded_and_saturated() {
    let filter = Filter::new(Mask::new(1, 1, vec![1.0]).unwrap());
    let format = PixelFormat { channels: 1, input: PixelType::F32, output: PixelType::U8 };
    let problem = Problem::new(1, 1, &filter).unwrap().with_format(format).unwrap();
    let bound = ErrorBound::direct(&problem);
    let right = |exact: f64, result: f32| Judge::new(bound, &problem, 0.0).judge(exact, exact.abs(), result).1 <= 1.0;
    for (exact, result) in [(2.5, 2.0), (2.5, 3.0), (254.6, 255.0), (300.0, 255.0), (-7.0, 0.0), (f64::NAN, 0.0)] {
        assert!(right(exact, result), "{exact} as {result}");
    }
    for (exact, result) in
        [(2.4, 3.0), (2.6, 2.0), (300.0, 254.0), (-7.0, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 254.0)]
    {
        assert!(!right(exact, result), "{exact} as {result}");
    }
}

const WIDTH: usize = 37;
const HEIGHT: usize = 23;

/// An asymmetric filter on an image without symmetry, its oracle and its right result.
fn right(filter: impl Fn(Filter) -> Filter) -> (Problem, Oracle, Vec<f32>) {
    let mask = Mask::new(4, 3, (0..12).map(|i| ((i * 7 + 3) % 11) as f32 / 7.0 - 0.6).collect()).unwrap();
    let problem = Problem::new(WIDTH, HEIGHT, &filter(Filter::new(mask).border(Border::Mirror))).unwrap();
    let source: Vec<f32> = (0..WIDTH * HEIGHT).map(|i| ((i * 7919 + i * i) % 1009) as f32 / 100.0 - 3.0).collect();
    let mut result = vec![POISON; source.len()];
    faltung::reference(&problem, &source, &mut result);
    (problem.clone(), Oracle::new(&problem, &source), result)
}

fn compare(problem: &Problem, oracle: &Oracle, result: &[f32]) -> Comparison {
    with_oracle(oracle, problem, result, ErrorBound::direct(problem))
}

#[test]
fn the_right_result_passes() {
    for (scale, offset) in [(1.0, 0.0), (0.3, 0.0), (-7.0, 128.0), (0.0, 5.0), (1e-42, 0.0)] {
        let (problem, oracle, result) = right(|filter| filter.scale(scale).offset(offset));
        let found = compare(&problem, &oracle, &result);
        assert!(found.passes() && found.error_over_bound <= 1.0, "{scale} {offset} {found:?}");
        assert_eq!(bit_exact(&result, &result.clone()), Ok(()));
    }
    let (problem, oracle, result) = right(|filter| filter);
    let found = compare(&problem, &oracle, &result);
    assert!(found.error_over_bound > 0.01, "a bound that loose says nothing: {found:?}");
}

/// Every value in another place: rows and columns swapped, or all moved by one.
#[test]
fn moved_results_fail() {
    let (problem, oracle, result) = right(|filter| filter);
    let transposed: Vec<f32> = (0..result.len()).map(|i| result[i % HEIGHT * WIDTH + i / HEIGHT]).collect();
    let mut shifted = [result.clone(), result.clone(), result.clone()];
    shifted[0].rotate_right(1);
    shifted[1].rotate_left(1);
    shifted[2].rotate_right(WIDTH);
    for wrong in shifted.iter().chain([&transposed]) {
        let found = compare(&problem, &oracle, wrong);
        assert!(found.failures > result.len() / 2, "{found:?}");
        assert!(bit_exact(&result, wrong).is_err());
    }
}

/// One pixel, anywhere, by the least that is too much.
#[test]
fn one_pixel_beyond_the_bound_fails() {
    for (scale, offset) in [(1.0, 0.0), (0.3, 2.0)] {
        let (problem, oracle, result) = right(|filter| filter.scale(scale).offset(offset));
        let bound = ErrorBound::direct(&problem);
        for i in [0, 1, WIDTH - 1, WIDTH, result.len() / 2, result.len() - 1] {
            let exact = oracle.exact[i];
            let tolerance = Judge::new(bound, &problem, oracle.norm).tolerance(exact, oracle.magnitude[i]);
            for sign in [-1.0, 1.0] {
                // The last value within the bound and the first beyond it.
                let mut inside = (exact + sign * tolerance) as f32;
                while (f64::from(inside) - exact).abs() > tolerance {
                    inside = if sign > 0.0 { inside.next_down() } else { inside.next_up() };
                }
                let mut beyond = inside;
                while (f64::from(beyond) - exact).abs() <= tolerance {
                    beyond = if sign > 0.0 { beyond.next_up() } else { beyond.next_down() };
                }
                let mut changed = result.clone();
                changed[i] = inside;
                assert!(compare(&problem, &oracle, &changed).passes(), "{i} {inside}");
                changed[i] = beyond;
                let found = compare(&problem, &oracle, &changed);
                assert_eq!((found.failures, found.worst), (1, (i % WIDTH, i / WIDTH)), "{beyond}");
                assert!(found.error_over_bound > 1.0);
            }
        }
    }
}

/// Beside an exact 0 the values of `f32` lie so dense that the bound is felt to 7 digits.
#[test]
fn the_bound_is_sharp() {
    let (problem, mut oracle, mut result) = right(|filter| filter);
    let tolerance = Judge::new(ErrorBound::direct(&problem), &problem, 0.0).tolerance(0.0, 1.0);
    for (value, failures) in [(tolerance * 0.999_999_8, 0), (tolerance * 1.000_000_2, 1)] {
        (oracle.exact[7], oracle.magnitude[7], result[7]) = (0.0, 1.0, -value as f32);
        assert_eq!(compare(&problem, &oracle, &result).failures, failures);
    }
}

#[test]
fn one_bit_is_a_difference() {
    let (_, _, result) = right(|filter| filter);
    for i in [0, result.len() - 1] {
        for bit in [0, 31] {
            let mut changed = result.clone();
            changed[i] = f32::from_bits(changed[i].to_bits() ^ 1 << bit);
            let found = bit_exact(&result, &changed).unwrap_err();
            assert_eq!((found.index, found.count, found.b), (i, 1, changed[i]));
        }
    }
    let zeros = bit_exact(&[1.0, 0.0, 0.0], &[1.0, -0.0, -0.0]).unwrap_err();
    assert_eq!((zeros.index, zeros.count), (1, 2));
    assert!(zeros.to_string().starts_with("2 values differ; the first is value 1"), "{zeros}");
}

#[test]
fn nan_infinity_and_unwritten_outputs_fail() {
    let (problem, oracle, result) = right(|filter| filter);
    for value in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, POISON] {
        let mut wrong = result.clone();
        wrong[WIDTH + 5] = value;
        let found = compare(&problem, &oracle, &wrong);
        assert_eq!((found.failures, found.worst, found.error_over_bound), (1, (5, 1), f64::INFINITY));
        assert_eq!(bit_exact(&result, &wrong).unwrap_err().index, WIDTH + 5);
    }
    let found = compare(&problem, &oracle, &vec![POISON; result.len()]);
    assert_eq!((found.failures, found.worst), (result.len(), (0, 0)));
}

#[test]
fn nan_and_infinity_have_to_be_met() {
    let (problem, mut oracle, mut result) = right(|filter| filter);
    let mut judge = |exact: f64, value: f32| {
        (oracle.exact[7], oracle.magnitude[7], result[7]) = (exact, f64::INFINITY, value);
        compare(&problem, &oracle, &result).passes()
    };
    assert!(judge(f64::NAN, f32::NAN) && judge(f64::NAN, -f32::NAN));
    assert!(!judge(f64::NAN, 1.0) && !judge(f64::NAN, f32::INFINITY) && !judge(f64::NAN, POISON));
    assert!(judge(f64::INFINITY, f32::INFINITY) && judge(f64::NEG_INFINITY, f32::NEG_INFINITY));
    assert!(!judge(f64::INFINITY, f32::NEG_INFINITY) && !judge(f64::INFINITY, f32::MAX));
    assert!(!judge(f64::INFINITY, f32::NAN));
    assert_eq!(bit_exact(&[f32::NAN, POISON], &[-f32::NAN, POISON]).unwrap_err().index, 1);
}

/// Sums that pass `f32::MAX` on the way, and those that don't.
#[test]
fn overflow_is_allowed_where_it_can_happen() {
    let (problem, mut oracle, mut result) = right(|filter| filter);
    let max = f64::from(f32::MAX);
    let mut judge = |exact: f64, magnitude: f64, value: f32| {
        (oracle.exact[7], oracle.magnitude[7], result[7]) = (exact, magnitude, value);
        compare(&problem, &oracle, &result).passes()
    };
    assert!(judge(2.0 * max, 2.0 * max, f32::INFINITY) && judge(1.0, 2.0 * max, f32::NAN));
    assert!(!judge(2.0 * max, 2.0 * max, f32::MAX) && !judge(0.9 * max, 0.9 * max, f32::INFINITY));
    assert!(judge(0.9 * max, 0.9 * max, 0.9 * f32::MAX));
}

/// Numbers so small that they have no digits left to lose.
#[test]
fn subnormal_sums_pass() {
    let mask = Mask::new(3, 3, vec![0.1; 9]).unwrap();
    let problem = Problem::new(5, 5, &Filter::new(mask)).unwrap();
    let source: Vec<f32> = (0..25).map(|i| f32::from_bits(i * 37 % 29)).collect();
    let mut result = vec![POISON; 25];
    faltung::reference(&problem, &source, &mut result);
    let found = compare(&problem, &Oracle::new(&problem, &source), &result);
    assert!(found.passes(), "{found:?}");
    assert!(found.max_abs_error > 0.0);
}

#[test]
fn gamma_grows_and_ends() {
    assert_eq!(ErrorBound::with_constant(0.0).gamma(), 0.0);
    assert!(ErrorBound::with_constant(9.0).gamma() > 9.0 * U);
    assert_eq!(ErrorBound::with_constant(16_777_216.0).gamma(), f64::INFINITY);
    // No looser than it says: 12 coefficients, a sum of magnitudes of 3.
    let (problem, ..) = right(|filter| filter);
    let tolerance = Judge::new(ErrorBound::direct(&problem), &problem, 0.0).tolerance(1.0, 3.0) / U;
    assert!(tolerance > 36.0 && tolerance < 36.000_1, "{tolerance}");
    let (problem, ..) = right(|filter| filter.scale(-2.0).offset(1.0));
    let tolerance = Judge::new(ErrorBound::direct(&problem), &problem, 0.0).tolerance(1.0, 3.0) / U;
    assert!(tolerance > 73.0 && tolerance < 73.000_1, "{tolerance}");
}

/// The reference, with which all backends agree bit by bit, is within the bound of the independent oracle.
#[test]
fn the_reference_is_right() {
    let mut random = fastrand::Rng::with_seed(13);
    let borders = [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    for (width, height, mask_width, mask_height) in [(1, 1, 3, 3), (40, 23, 4, 3), (23, 40, 7, 7), (9, 5, 20, 31)] {
        for (border, operation) in
            borders.iter().flat_map(|border| [Operation::Convolve, Operation::Correlate].map(|one| (*border, one)))
        {
            let mut numbers = |count: usize| (0..count).map(|_| random.f32() - 0.4).collect::<Vec<_>>();
            let mask = Mask::new(mask_width, mask_height, numbers(mask_width * mask_height)).unwrap();
            let filter = Filter::new(mask).border(border).operation(operation).scale(0.7);
            let filter = filter.anchor(mask_height / 3, mask_width - 1);
            let problem = Problem::new(width, height, &filter).unwrap();
            let source = numbers(width * height);
            let mut result = vec![POISON; source.len()];
            faltung::reference(&problem, &source, &mut result);
            let found = compare(&problem, &Oracle::new(&problem, &source), &result);
            assert!(
                found.passes(),
                "{width} x {height}, {mask_width} x {mask_height}, {border}, {operation:?}: {found:?}"
            );
        }
    }
}

/// The class Normwise allows an error of the norms, where the products would allow less. Ordered sums are right, too.
#[test]
fn norms_bound_the_class_normwise() {
    let (problem, mut oracle, result) = right(|filter| filter);
    let norm_of_mask: f64 = problem.window().coefficients().iter().map(|&w| f64::from(w).powi(2)).sum();
    let allowed = 84.0 * U * norm_of_mask.sqrt() * oracle.norm;
    let judged = |oracle: &Oracle, result: &[f32]| with_oracle(oracle, &problem, result, ErrorBound::normwise(84.0));
    assert!(judged(&oracle, &result).passes());
    let mut changed = result;
    (oracle.exact[7], oracle.magnitude[7]) = (0.0, 0.0);
    for (part, failures) in [(0.999, 0), (1.001, 1)] {
        changed[7] = (part * allowed) as f32;
        assert_eq!(judged(&oracle, &changed).failures, failures, "{part}");
    }
    // A NaN somewhere in the image: the other sums are ordered.
    oracle.norm = f64::NAN;
    assert_eq!(judged(&oracle, &changed).failures, 1);
}
