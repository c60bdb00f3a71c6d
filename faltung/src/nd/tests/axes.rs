//! Two filters in one pass over memory against one filter after the other.

use super::*;
use crate::nd::bands::Bands;
use crate::nd::byte_axes::ByteAxes;
use crate::nd::float_means::FloatMeans;

/// An array without gaps, of zeros.
fn dense(element: Element, shape: &[usize]) -> Array {
    let layout = Layout::dense(element, shape);
    Array { bytes: vec![0; layout.elements() * element.size()], first: 0, layout }
}

fn bytes(random: &mut fastrand::Rng, element: Element, shape: &[usize]) -> Array {
    let mut array = dense(element, shape);
    let most = if element == Element::Bool { 2 } else { 256 };
    array.bytes.iter_mut().for_each(|byte| *byte = random.u16(..most) as u8);
    array
}

fn origin(random: &mut fastrand::Rng, size: usize) -> isize {
    random.isize(-((size / 2) as isize)..=((size - 1) / 2) as isize)
}

fn lines(random: &mut fastrand::Rng, axis: usize, size: usize, value: f64) -> Lines {
    Lines { axis, origin: origin(random, size), border: BorderMode::ALL[random.usize(..5)], value }
}

/// The filters by [`uniform1d`] and [`correlate1d`].
pub(super) fn one_after_another(input: &Array, output: &mut Array, filters: &[AxisFilter<'_>]) {
    let mut between = Array { bytes: input.bytes.clone(), first: input.first, layout: input.layout.clone() };
    for filter in filters {
        match filter.along {
            Along::Mean(size) => uniform1d(between.input(), output.output(), size, &filter.lines).unwrap(),
            Along::Weights(weights) => {
                correlate1d(between.input(), output.output(), weights, &filter.lines, Sums::F64).unwrap();
            }
        }
        between = Array { bytes: output.bytes.clone(), first: output.first, layout: output.layout.clone() };
    }
}

/// Filters of bytes have the bytes of one filter after the other, at every level.
#[test]
fn filters_of_bytes() {
    let mut served = 0;
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shape = vec![random.usize(1..90), random.usize(1..150)];
        if random.bool() {
            shape.push(random.usize(1..5));
        }
        let from = random.choice([Element::U8, Element::I8, Element::Bool]).unwrap();
        let to = random.choice([Element::U8, Element::U8, Element::I8]).unwrap();
        let input = bytes(&mut random, from, &shape);
        let value = random.choice([0.0, 7.0, 200.0]).unwrap();
        let weights: [Vec<f64>; 2] = std::array::from_fn(|_| {
            let count = random.usize(1..6);
            let largest = random.choice([1, 2, 9, 300]).unwrap();
            (0..count).map(|_| random.i32(-largest..=largest).into()).collect()
        });
        let axes = if random.bool() { [0, 1] } else { [1, 0] };
        let filters: Vec<_> = weights
            .iter()
            .zip(axes)
            .map(|(weights, axis)| {
                let largest = random.choice([10, 40, 129]).unwrap();
                let size = random.usize(2..largest);
                let along = if random.bool() { Along::Mean(size) } else { Along::Weights(weights) };
                AxisFilter { along, lines: lines(&mut random, axis, along.size(), value) }
            })
            .collect();
        let mut expected = dense(to, &shape);
        one_after_another(&input, &mut expected, &filters);
        for level in Level::available() {
            let mut found = bytes(&mut random, to, &shape);
            let output = found.output();
            if let Some(axes) = ByteAxes::new(&input.input(), &output, &filters) {
                axes.run(level, &input.input(), &output).unwrap();
                let at = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
                assert_eq!(at, None, "seed {seed}, {level:?}, {shape:?}, {from:?} to {to:?}: {filters:?}");
                served += 1;
            }
        }
        // What is not of this kind is computed by the other functions.
        let mut found = bytes(&mut random, to, &shape);
        filter_axes(input.input(), found.output(), &filters, Sums::F64).unwrap();
        assert!(found.bytes == expected.bytes, "seed {seed}");
    }
    assert!(served > 100, "{served}");
}

/// A border that is much longer than its row is left to the other functions: it would fill the caches.
#[test]
fn gaussians_of_long_rows_of_few_pixels() {
    let mut random = fastrand::Rng::with_seed(1);
    for (shape, is_taken) in [([2, 2, 10_000], false), ([2, 600, 40], true), ([3, 9, 64], true)] {
        let (input, mut output) = (dense(Element::U8, &shape), dense(Element::U8, &shape));
        let weights = gaussian(&mut random, 9);
        let filters = [0, 1].map(|axis| AxisFilter {
            along: Along::Weights(&weights),
            lines: Lines { axis, origin: 0, border: BorderMode::Reflect, value: 0.0 },
        });
        assert_eq!(ByteAxes::new(&input.input(), &output.output(), &filters).is_some(), is_taken, "{shape:?}");
    }
}

/// A symmetric filter of this size whose weights are not negative and add up to about 1.
fn gaussian(random: &mut fastrand::Rng, size: usize) -> Vec<f64> {
    let sigma = size as f64 / random.choice([3.0, 6.0, 8.0]).unwrap();
    let weights: Vec<_> = (0..size).map(|i| (i as f64 - (size / 2) as f64) / sigma).map(|x| (-x * x).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Pixels with areas of one value, with rows or columns alike, and with noise.
fn areas(random: &mut fastrand::Rng, shape: &[usize]) -> Array {
    let mut array = dense(Element::U8, shape);
    let row = shape[1..].iter().product();
    for (y, bytes) in array.bytes.chunks_mut(row).enumerate() {
        for (x, byte) in bytes.iter_mut().enumerate() {
            *byte = match (y / 40 + x / 150) % 4 {
                0 => [0, 255, 100][y / 80 % 3],
                1 => (x % 7) as u8,
                2 => (y * 5) as u8,
                _ => random.u8(..),
            };
        }
    }
    array
}

/// Gaussians of bytes have the bytes of one filter after the other, at every level. Without the second look at
/// uncertain sums they have not.
#[test]
fn gaussians_of_bytes() {
    let (mut served, mut wrong) = (0, 0);
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut shape = vec![random.usize(1..130), random.usize(22..200)];
        if random.bool() {
            shape.push(random.choice([1, 3, 4, 70]).unwrap());
        }
        let input = if random.bool() { bytes(&mut random, Element::U8, &shape) } else { areas(&mut random, &shape) };
        let value = random.choice([0.0, 200.0, 255.0]).unwrap();
        let scale = random.choice([1.0, 1.0, 0.6]).unwrap();
        let weights: [_; 2] = std::array::from_fn(|_| {
            let most = random.choice([5, 20, 100]).unwrap();
            let size = 2 * random.usize(..most) + 1;
            gaussian(&mut random, size).iter().map(|weight| weight * scale).collect::<Vec<_>>()
        });
        let filters: [_; 2] = std::array::from_fn(|axis| AxisFilter {
            along: Along::Weights(&weights[axis]),
            lines: lines(&mut random, axis, weights[axis].len(), value),
        });
        let mut expected = dense(Element::U8, &shape);
        one_after_another(&input, &mut expected, &filters);
        for (level, trust) in Level::available().map(|level| (level, false)).chain([(Level::Portable, true)]) {
            let mut found = bytes(&mut random, Element::U8, &shape);
            let output = found.output();
            let Some(mut axes) = ByteAxes::new(&input.input(), &output, &filters) else { continue };
            if trust {
                axes.trust_all();
            }
            axes.run(level, &input.input(), &output).unwrap();
            let at = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            if trust {
                wrong += usize::from(at.is_some());
                continue;
            }
            assert_eq!(at, None, "seed {seed}, {level:?}, {shape:?}: {filters:?}");
            served += 1;
        }
    }
    println!("{served} served, {wrong} wrong without a second look");
    assert!(served > 100 && wrong > 5, "{served}, {wrong}");
}

fn numbers(random: &mut fastrand::Rng, element: Element, shape: &[usize]) -> Array {
    let mut array = dense(element, shape);
    for i in 0..array.layout.elements() {
        // Sums of these round.
        let value = random.f64() * 2.0_f64.powi(random.i32(-20..20));
        if element == Element::F64 {
            array.bytes[8 * i..][..8].copy_from_slice(&value.to_ne_bytes());
        } else {
            array.bytes[4 * i..][..4].copy_from_slice(&(value as f32).to_ne_bytes());
        }
    }
    array
}

fn means(random: &mut fastrand::Rng, value: f64) -> [AxisFilter<'static>; 2] {
    [0, 1].map(|axis| {
        let most = random.choice([10, 80]).unwrap();
        let size = random.usize(1..most);
        AxisFilter { along: Along::Mean(size), lines: lines(random, axis, size, value) }
    })
}

/// Means with sums of `f64` have the bits of one running sum after the other, at every level, in several threads.
#[test]
fn running_means() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let is_large = seed % 10 == 0;
        let shape =
            if is_large { [300, 600 + random.usize(..100)] } else { [random.usize(1..60), random.usize(1..60)] };
        let element = random.choice([Element::F32, Element::F64]).unwrap();
        let input = numbers(&mut random, element, &shape);
        let filters = means(&mut random, 2.5);
        let mut expected = dense(element, &shape);
        one_after_another(&input, &mut expected, &filters);
        for level in Level::available() {
            let mut found = dense(element, &shape);
            let (from, to) = (input.input(), found.output());
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            let means = FloatMeans::new(&from, &to, &filters, Sums::F64).unwrap();
            pool.install(|| means.run(level)).unwrap();
            let at = found.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b);
            assert_eq!(at, None, "seed {seed}, {level:?}, {shape:?}, {element:?}: {filters:?}");
        }
    }
}

/// Means with sums of `f32` are within a bound of sums of `f64`, and have the same bits at every level.
#[test]
fn means_of_windows() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = if seed % 10 == 0 { [300, 1500] } else { [random.usize(1..60), random.usize(1..60)] };
        let input = numbers(&mut random, Element::F32, &shape);
        let filters = means(&mut random, 0.0);
        let mut expected = dense(Element::F32, &shape);
        // Sums of windows, not running ones: their errors are those of the largest value before.
        let weights = filters.map(|filter| vec![1.0 / filter.along.size() as f64; filter.along.size()]);
        let weighted =
            std::array::from_fn::<_, 2, _>(|i| AxisFilter { along: Along::Weights(&weights[i]), ..filters[i] });
        one_after_another(&input, &mut expected, &weighted);
        let sizes = filters.map(|filter| filter.along.size() as f64);
        let bound = (sizes[0] + sizes[1] + 8.0) * f64::from(f32::EPSILON);
        let mut first: Option<Vec<u8>> = None;
        for level in Level::available() {
            let mut found = dense(Element::F32, &shape);
            let (from, to) = (input.input(), found.output());
            FloatMeans::new(&from, &to, &filters, Sums::F32).unwrap().run(level).unwrap();
            for index in indices(&shape) {
                let (found, expected) = (found.get(&index), expected.get(&index));
                let error = (found - expected).abs();
                assert!(error <= bound * expected.abs(), "seed {seed}, {level:?}, {index:?}: {found}, not {expected}");
            }
            assert!(first.get_or_insert_with(|| found.bytes.clone()) == &found.bytes, "seed {seed}, {level:?}");
        }
    }
}

/// Filters with weights in bands have the bits of one filter after the other: arrays of all types, strides and borders.
#[test]
fn bands_of_rows() {
    let mut served = [0, 0];
    for seed in 0..600 {
        let mut case = Case::new(seed, 1);
        let random = &mut case.random;
        let shape = [random.usize(1..90), random.usize(1..50)];
        let [from, to] = std::array::from_fn(|_| Element::ALL[random.usize(..Element::ALL.len())]);
        let mut input = Array::new(random, from, &shape);
        for index in indices(&shape) {
            // A negative number would be a large one of these types.
            let least = if matches!(from, Element::U32 | Element::U64) { 0 } else { -100 };
            input.set(&index, random.i64(least..1000));
        }
        let mut found = Array::new(random, to, &shape);
        let first_axis = random.usize(..2);
        let counts: [usize; 2] = std::array::from_fn(|_| random.usize(1..8));
        let weights = counts.map(|count| case.weights(count));
        let filters: [AxisFilter<'_>; 2] = std::array::from_fn(|i| {
            let lines = lines(&mut case.random, first_axis ^ i, counts[i], 7.5);
            AxisFilter { along: Along::Weights(&weights[i]), lines }
        });
        let mut expected = Array { bytes: found.bytes.clone(), first: found.first, layout: found.layout.clone() };
        one_after_another(&input, &mut expected, &filters);
        let rows = case.random.usize(1..40);
        let (source, result) = (input.input(), found.output());
        let Some(bands) = Bands::with_rows(&source, &result, &filters, Sums::F64, rows) else { continue };
        bands.run().unwrap();
        assert!(found.bytes == expected.bytes, "seed {seed}, {shape:?}, {rows} rows, {from:?} to {to:?}: {filters:?}");
        served[first_axis] += 1;
    }
    println!("{served:?} of 600");
    assert!(served.iter().all(|&count| count > 50), "{served:?}");
}

/// Large arrays are filtered in bands, by several threads, with sums of `f32`, too. A flag ends that.
#[test]
fn bands_of_large_arrays() {
    let mut random = fastrand::Rng::with_seed(3);
    let (shape, weights) = ([700, 900], [0.25, 0.5, 0.125]);
    let input = numbers(&mut random, Element::F32, &shape);
    for axes in [[0, 1], [1, 0]] {
        let filters = axes.map(|axis| {
            let lines = Lines { border: BorderMode::Mirror, ..lines(&mut random, axis, 3, 1.5) };
            AxisFilter { along: Along::Weights(&weights), lines }
        });
        let (mut between, mut expected) = (dense(Element::F32, &shape), dense(Element::F32, &shape));
        let correlate = |from: Input<'_>, to: Output<'_>, filter: &AxisFilter<'_>| {
            correlate1d(from, to, &weights, &filter.lines, Sums::F32).unwrap();
        };
        correlate(input.input(), between.output(), &filters[0]);
        correlate(between.input(), expected.output(), &filters[1]);
        let mut found = dense(Element::F32, &shape);
        assert!(Bands::new(&input.input(), &found.output(), &filters, Sums::F32).is_some());
        filter_axes(input.input(), found.output(), &filters, Sums::F32).unwrap();
        assert!(found.bytes == expected.bytes, "{axes:?}");
    }
}
