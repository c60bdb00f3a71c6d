//! Lines of few elements, which are filtered side by side.

use super::*;

/// How an array lies in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    /// The last axis is the innermost one.
    C,
    /// The first axis is the innermost one.
    Fortran,
    /// The first two axes are swapped, and there are gaps, so that no axes are walked as one.
    Gaps,
}

const ORDERS: [Order; 3] = [Order::C, Order::Fortran, Order::Gaps];

/// An array of zeros.
fn zeros(element: Element, shape: [usize; 3], order: Order) -> Array {
    let (axes, gap) = match order {
        Order::C => ([2, 1, 0], 0),
        Order::Fortran => ([0, 1, 2], 0),
        Order::Gaps => ([2, 0, 1], element.size()),
    };
    let (mut strides, mut span) = (vec![0; 3], element.size());
    for axis in axes {
        strides[axis] = span as isize;
        span = span * shape[axis] + gap;
    }
    Array { bytes: vec![0; span], first: 0, layout: Layout { element, shape: shape.to_vec(), strides } }
}

/// Whole numbers, or floating-point numbers of which sums round.
fn fill(random: &mut fastrand::Rng, array: &mut Array, are_whole: bool) {
    let most = array.layout.element.largest().map_or(1000, |most| most.min(1000.0) as i64);
    for index in indices(&array.layout.shape.clone()) {
        array.set(&index, random.i64(0..=most));
        let (at, value) = (array.offset(&index), (random.f64() - 0.3) * 100.0);
        match array.layout.element {
            Element::F32 if !are_whole => array.bytes[at..][..4].copy_from_slice(&(value as f32).to_ne_bytes()),
            Element::F64 if !are_whole => array.bytes[at..][..8].copy_from_slice(&value.to_ne_bytes()),
            _ => {}
        }
    }
}

/// The means of a line, by SciPy's running sum over its `values`, border included.
fn running_means(values: &[f64], size: usize) -> Vec<f64> {
    let mut sum = values[..size].iter().sum::<f64>();
    let mut means = vec![sum / size as f64];
    for (old, new) in values.iter().zip(&values[size..]) {
        sum += new - old;
        means.push(sum / size as f64);
    }
    means
}

/// Filters along an axis of `length` positions, in one array or in two, and compares with SciPy's sums.
fn check(random: &mut fastrand::Rng, from: Element, to: Element, length: usize, is_same_array: bool) {
    let axis = random.usize(..3);
    let many = random.choice([1, 5, 70, 600]).unwrap();
    let few = if many == 600 { random.usize(1..3) } else { random.usize(1..6) };
    let mut shape = if random.bool() { [many, few, few] } else { [few, many, few] };
    shape.swap(axis, 2);
    shape[axis] = length;
    let orders = [0, 1].map(|_| random.choice(ORDERS).unwrap());
    let is_mean = random.bool();
    let size = random.usize(1..10);
    let mut weights: Vec<f64> = match random.u8(..3) {
        0 => (0..size).map(|_| random.i32(-3..4).into()).collect(),
        1 => (0..size).map(|_| random.f64() / size as f64).collect(),
        _ => vec![1.0 / size as f64; size],
    };
    if random.bool() && size % 2 == 1 {
        (0..size / 2).for_each(|i| weights[size - 1 - i] = weights[i]);
    }

    let mut input = zeros(from, shape, orders[0]);
    fill(random, &mut input, false);
    let output = if is_same_array {
        Array { bytes: input.bytes.clone(), first: 0, layout: input.layout.clone() }
    } else {
        zeros(to, shape, orders[1])
    };
    let border = BorderMode::ALL[random.usize(..5)];
    let value = random.choice([7.0, 7.25]).unwrap();
    let mut case = Case { random: random.fork(), input, output, border, value };
    let lines = Lines { axis, origin: case.origin(size), border, value };
    let to = case.output.output();
    // SAFETY: where both are the same array, the filters allow it. It is borrowed for as long.
    let same = unsafe { Input::from_raw(to.first, to.layout.clone()).unwrap() };
    let from = if is_same_array { same } else { case.input.input() };
    if is_mean {
        uniform1d(from, to, size, &lines).unwrap();
    } else {
        correlate1d(from, to, &weights, &lines, Sums::F64).unwrap();
    }

    let description = format!("{shape:?}, {orders:?}, mean: {is_mean}, {weights:?}, {lines:?}, {is_same_array}");
    let before = (size / 2) as isize + lines.origin;
    let mut starts = shape;
    starts[axis] = 1;
    for start in indices(&starts) {
        let place = |i: usize| case.at(&shifted(&start, along(axis, 3, i as isize - before)));
        let values: Vec<_> = (0..length + size - 1).map(place).collect();
        let means = if is_mean { running_means(&values, size) } else { vec![] };
        for i in 0..length {
            let sum = if is_mean { means[i] } else { scipys_sum(&weights, |j| values[i + j]) };
            let mut index = start.clone();
            index[axis] = i;
            let (found, element) = (case.output.get(&index), case.output.layout.element);
            let expected = converted(element, sum);
            assert!(found.to_bits() == expected.to_bits(), "{index:?}: {found}, not {expected}: {description}");
        }
    }
}

#[test]
fn short_lines_have_the_bits_of_scipys_sums() {
    let mut random = fastrand::Rng::with_seed(1);
    for (element, length) in Element::ALL.into_iter().flat_map(|element| (1..37).map(move |length| (element, length))) {
        let other = random.choice(Element::ALL).unwrap();
        check(&mut random, element, element, length, false);
        check(&mut random, element, other, length, false);
        check(&mut random, element, element, length, true);
    }
}

/// Filters of rows, columns and channels have the bytes of one filter after the other.
#[test]
fn three_axes_of_bytes() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let shape = [random.usize(1..60), random.usize(1..60), random.usize(1..5)];
        let mut input = zeros(Element::U8, shape, Order::C);
        random.fill(&mut input.bytes);
        let is_mean = random.bool();
        let filters = [0, 1, 2].map(|axis| AxisFilter {
            along: if is_mean { Along::Mean(3) } else { Along::Weights(&[0.25, 0.5, 0.25]) },
            lines: Lines { axis, origin: 0, border: BorderMode::ALL[random.usize(..5)], value: 9.0 },
        });
        let [mut found, mut expected] = [0; 2].map(|_| zeros(Element::U8, shape, Order::C));
        filter_axes(input.input(), found.output(), &filters, Sums::F64).unwrap();
        axes::one_after_another(&input, &mut expected, &filters);
        assert!(found.bytes == expected.bytes, "seed {seed}, {shape:?}: {filters:?}");
    }
}
