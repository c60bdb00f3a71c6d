//! Filters along one axis against sums that are written out.

use super::*;

/// Sums of 16 bits wrap around where the sums of SciPy are converted: sums of up to 2^31, of all small types.
#[test]
fn whole_weights_have_the_last_bits_of_the_sums() {
    let mut wrapped = 0;
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = [random.usize(1..60), random.usize(1..60)];
        let (from, to) = (SMALL[random.usize(..5)], SMALL[random.usize(..5)]);
        let input = integers(&mut random, from, &shape);
        let output = Array::new(&mut random, to, &shape);
        let (axis, size, most) = (random.usize(..2), random.usize(1..14), random.i32(1..2000));
        let weights: Vec<f64> = (0..size).map(|_| random.i32(-most..=most).into()).collect();
        let border = BorderMode::ALL[random.usize(..5)];
        let mut case = Case { random, input, output, border, value: -700.0 };
        let lines = Lines { axis, origin: case.origin(size), border, value: case.value };
        correlate1d(case.input.input(), case.output.output(), &weights, &lines, Sums::F64).unwrap();
        let sum = |index: &[usize]| {
            let first = -((size / 2) as isize) - lines.origin;
            let value = |j: usize| case.at(&shifted(index, along(axis, 2, first + j as isize)));
            (0..size).map(|j| weights[j] * value(j)).sum::<f64>()
        };
        case.compare(seed, sum);
        wrapped += indices(&shape).iter().filter(|index| sum(index).abs() > 65_535.0).count();
    }
    assert!(wrapped > 10_000, "{wrapped}");
}

/// All sums of up to 130 bytes, by a product in place of the division: the results at the ends of the quotients'
/// ranges.
#[test]
fn means_of_bytes_are_the_quotients() {
    for size in 2..=130_usize {
        // Places one more 1 in each window than in the one before: all sums, in order.
        let values: Vec<u8> = (0..=255).flat_map(|value| vec![value; size]).collect();
        let length = values.len();
        for (shape, axis) in [([1, length], 1), ([length, 1], 0), ([length, 3], 0)] {
            let mut random = fastrand::Rng::with_seed(size as u64);
            let mut input = Array::new(&mut random, Element::U8, &shape);
            for index in indices(&shape) {
                input.set(&index, values[index[axis]].into());
            }
            let mut output = Array::new(&mut random, Element::U8, &shape);
            let lines = Lines { axis, origin: -((size / 2) as isize), border: BorderMode::Clamp, value: 0.0 };
            uniform1d(input.input(), output.output(), size, &lines).unwrap();
            for index in indices(&shape) {
                let expected = index[axis].min(255 * size) / size;
                assert_eq!(output.get(&index), expected as f64, "size {size}, {index:?} of {shape:?}");
            }
        }
    }
}

#[test]
fn weights_differ_as_in_scipy() {
    use crate::nd::line_filter::is_odd;

    const NAN: f64 = f64::NAN;
    const INFINITE: f64 = f64::INFINITY;
    for (weights, expected) in [
        (&[1.0, 2.0, 1.0][..], Some(false)),
        (&[1.0, 2.0, -1.0], Some(true)),
        (&[1.0, 2.0, 3.0], None),
        (&[1.0, 2.0], None),
        (&[1e-17, 2.0, 0.0], Some(false)),
        (&[1.0, 2.0, NAN], Some(false)),
        (&[NAN, 2.0, 1.0], Some(false)),
        (&[3.0, NAN, 2.0, 1.0, -3.0], Some(true)),
        (&[3.0, NAN, 2.0, 1.0, 4.0], None),
        (&[INFINITE, 2.0, INFINITE], Some(false)),
        (&[INFINITE, 2.0, -INFINITE], Some(true)),
        (&[INFINITE, 2.0, 1.0], None),
        (&[NAN, NAN], None),
    ] {
        assert_eq!(is_odd(weights), expected, "{weights:?}");
    }
}

#[test]
fn lines_have_the_bits_of_the_sums_in_scipys_order() {
    for seed in 0..400 {
        let mut case = Case::new(seed, 3);
        let axes = case.input.layout.shape.len();
        let (axis, size) = (case.random.usize(..axes), case.random.usize(1..12));
        let mut weights = case.weights(size);
        let sign = case.random.choice([0.0, 1.0, -1.0]).unwrap();
        if sign != 0.0 && size % 2 == 1 {
            for i in 0..size / 2 {
                weights[size - 1 - i] = sign * weights[i];
            }
        }
        let lines = Lines { axis, origin: case.origin(size), border: case.border, value: case.value };
        correlate1d(case.input.input(), case.output.output(), &weights, &lines, Sums::F64).unwrap();
        case.compare(seed, |index| {
            let offset = |j: usize| j as isize - (size / 2) as isize - lines.origin;
            scipys_sum(&weights, |j| case.at(&shifted(index, along(axis, axes, offset(j)))))
        });
    }
}

/// All values are whole numbers, so that a running sum is the sum.
#[test]
fn means_are_the_sums_over_the_size() {
    for seed in 0..400 {
        let mut case = Case::new(seed, 3);
        case.value = 7.0;
        let axes = case.input.layout.shape.len();
        let (axis, size) = (case.random.usize(..axes), case.random.usize(1..50));
        let lines = Lines { axis, origin: case.origin(size), border: case.border, value: case.value };
        uniform1d(case.input.input(), case.output.output(), size, &lines).unwrap();
        case.compare(seed, |index| {
            let first = -((size / 2) as isize) - lines.origin;
            let offsets = (0..size as isize).map(|j| first + j);
            let sum: f64 = offsets.map(|offset| case.at(&shifted(index, along(axis, axes, offset)))).sum();
            sum / size as f64
        });
    }
}

/// Three elements under a window that takes terabytes.
#[test]
fn a_window_may_not_fit_memory() {
    let values = [1.0_f64, 2.0, 3.0];
    let lines = |axis| Lines { axis, origin: 0, border: BorderMode::Reflect, value: 0.0 };
    for size in [1 << 36, 1 << 40] {
        let mut results = [[0.0_f64; 3]; 3];
        let input = || Input::new(&values, &[3, 1]).unwrap();
        let [first, second, third] = results.each_mut().map(|result| Output::new(result, &[3, 1]).unwrap());
        let filter = |axis| AxisFilter { along: Along::Mean(size), lines: lines(axis) };
        for done in [
            uniform1d(input(), first, size, &lines(0)),
            filter_axes(input(), second, &[filter(0), filter(1)], Sums::F64),
            window_means(input(), third, [size, 3], &[lines(0), lines(1)]),
        ] {
            assert!(matches!(done, Err(Error::HostMemory { .. })), "{done:?}");
        }
    }
}
