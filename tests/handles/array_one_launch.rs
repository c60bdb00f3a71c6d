//! Filters along two axes in one launch. The results are bit-exact with those of the CPU, which runs one filter after
//! the other.

use faltung::nd::{Element, Lines, Sums};
use faltung::{BorderMode, Device};

use super::arrays::{Array, Computation, Place, TWO_LAUNCHES, origin, same, weight};
use super::{Checked, Test, ensure};

pub(crate) const TESTS: &[Test] = &[("array_one_launch", results), ("array_two_launches", refused)];

/// The seed of the arrays and filters.
const SEED: u64 = 20_261_127;

/// Lengths of the axes that are filtered first and second: around half a tile, and around one and two tiles.
const FIRST: [usize; 11] = [16, 17, 23, 24, 25, 31, 32, 33, 47, 64, 65];
const SECOND: [usize; 11] = [32, 33, 39, 41, 63, 64, 65, 71, 72, 128, 129];

/// A filter with so many pairs: symmetric for a sign of 1, antisymmetric for -1.
fn weights(pairs: usize, sign: f64, random: &mut fastrand::Rng) -> Vec<f64> {
    let mut weights: Vec<_> = (0..2 * pairs + 1).map(|_| weight(random)).collect();
    for d in 1..=pairs {
        weights[pairs + d] = sign * weights[pairs - d];
    }
    if sign < 0.0 {
        weights[pairs] = 0.0;
    }
    weights
}

/// A filter along the first of these axes and then along the second.
fn filter(axes: [usize; 2], border: BorderMode, random: &mut fastrand::Rng) -> Computation {
    let value = [0.0, -0.0, 7.25, -1e9, f64::NAN, f64::INFINITY][random.usize(..6)];
    let filters = axes.map(|axis| {
        let pairs = random.usize(1..7);
        let sign = [1.0, -1.0][random.usize(..2)];
        let lines = Lines { axis, origin: origin(2 * pairs + 1, random), border, value };
        (weights(pairs, sign, random), lines)
    });
    Computation::OneLaunch { filters, sums: Sums::F64 }
}

/// A shape with these lengths along two axes and up to two more axes. Returns the places of the two axes, too.
fn shape([first, second]: [usize; 2], random: &mut fastrand::Rng) -> (Vec<usize>, [usize; 2]) {
    let mut shape = vec![first, second];
    let mut axes = [0, 1];
    if random.bool() {
        (shape, axes) = (vec![second, first], [1, 0]);
    }
    for _ in 0..[0, 0, 1, 1, 2][random.usize(..5)] {
        let place = random.usize(..=shape.len());
        shape.insert(place, random.usize(1..4));
        axes = axes.map(|axis| axis + usize::from(axis >= place));
    }
    (shape, axes)
}

/// Every length with every other one, in random strides, and on each device in one launch.
fn results(device: &Device) -> Checked {
    println!("the seed of the arrays is {SEED}");
    let place = Place::new(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut elements = 0;
    for round in 0..place.cases(1, 8) {
        for (number, first) in FIRST.into_iter().enumerate() {
            for (other, second) in SECOND.into_iter().enumerate() {
                let (shape, axes) = shape([first, second], &mut random);
                let filter = filter(axes, BorderMode::ALL[(number + other + round) % 5], &mut random);
                let is_wild = random.u8(..4) == 0;
                let input = Array::new(Element::F64, &shape, true, &mut random).fill(is_wild, &mut random);
                let mut right = Array::new(Element::F64, &shape, false, &mut random);
                let mut found = right.clone();
                let what = || format!("{filter:?}, {:?} to {:?}", input.layout, right.layout);
                place.run(&filter, &input, &mut found).map_err(|error| format!("{}: {error}", what()))?;
                filter.on_cpu(&input, &mut right)?;
                same(&found, &right, || format!("{filter:?}, {:?} to {:?}", input.layout, found.layout))?;
                elements += right.layout.shape.iter().product::<usize>();
            }
        }
    }
    ensure(elements > 100_000, || format!("only {elements} elements were compared"))
}

/// Filters that take two launches are refused, and nothing is written.
fn refused(device: &Device) -> Checked {
    if device.backend() == "cpu" {
        return Ok(()); // it filters along any axes in one call
    }
    let place = Place::new(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let lines = |axis, border, value| Lines { axis, origin: 0, border, value };
    let (wrap, constant) = (BorderMode::Wrap, BorderMode::Constant);
    let [short, longest, long] = [1, 6, 7].map(|pairs| weights(pairs, 1.0, &mut random));
    let (single, without) = (vec![2.0], vec![1.0, 2.0, 4.0]);
    let of = |weights: &Vec<f64>, axis| (weights.clone(), lines(axis, wrap, 0.0));
    let (first, second) = (of(&short, 0), of(&short, 1));
    let (f32, f64) = (Element::F32, Element::F64);
    let taken = [
        ([first.clone(), second.clone()], [f64; 2], [16, 32]),
        ([of(&longest, 0), of(&longest, 1)], [f64; 2], [70, 70]),
        ([(short.clone(), lines(0, wrap, 1.0)), second.clone()], [f64; 2], [40, 40]),
    ];
    let refused = [
        ([of(&long, 0), second.clone()], [f64; 2], [70, 70]),
        ([of(&without, 0), second.clone()], [f64; 2], [70, 70]),
        ([of(&single, 0), second.clone()], [f64; 2], [70, 70]),
        ([second.clone(), second.clone()], [f64; 2], [70, 70]),
        ([first.clone(), (short.clone(), lines(1, BorderMode::Mirror, 0.0))], [f64; 2], [70, 70]),
        ([(short.clone(), lines(0, constant, 0.0)), (short, lines(1, constant, 1.0))], [f64; 2], [70, 70]),
        ([first.clone(), second.clone()], [f32, f64], [70, 70]),
        ([first.clone(), second.clone()], [f64, f32], [70, 70]),
        ([first.clone(), second.clone()], [f64; 2], [15, 70]),
        ([first, second], [f64; 2], [70, 31]),
    ];
    let cases = taken.into_iter().map(|case| (case, true)).chain(refused.into_iter().map(|case| (case, false)));
    for ((filters, [from, to], shape), is_taken) in cases {
        let filter = Computation::OneLaunch { filters, sums: Sums::F64 };
        let input = Array::new(from, &shape, true, &mut random).fill(false, &mut random);
        let before = Array::new(to, &shape, false, &mut random);
        let mut found = before.clone();
        let ran = place.run(&filter, &input, &mut found);
        let what = || format!("{filter:?}, {from:?} to {to:?}, {shape:?}");
        if is_taken {
            ensure(ran.is_ok(), || format!("{}: {ran:?}", what()))?;
            continue;
        }
        ensure(ran == Err(TWO_LAUNCHES.to_owned()), || format!("{}: {ran:?}", what()))?;
        same(&found, &before, what)?;
    }
    Ok(())
}
