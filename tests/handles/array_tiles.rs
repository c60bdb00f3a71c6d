//! Filters on arrays at the edges of the kernels' tiles and passes. The results are bit-exact with those of the CPU.

use faltung::nd::{Element, Lines, Sums};
use faltung::{BorderMode, Device};

use super::arrays::{Array, Computation, Place, origin, same, weight};
use super::{Checked, Test, ensure};

pub(crate) const TESTS: &[Test] = &[("array_tile_edges", edges), ("array_passes", passes)];

/// The seed of the arrays and filters.
const SEED: u64 = 20_261_124;

/// Lengths of axes: a tile has 32 x 32 results, a thread 8 adjacent ones, and fewer than 8 rows are few.
const LENGTHS: [usize; 14] = [1, 2, 5, 7, 8, 9, 16, 31, 32, 33, 41, 63, 64, 65];

/// Sizes of filters along an axis: a thread takes 8 taps at a time, then 4, 2 and 1. The last one is larger than most
/// arrays.
const SIZES: [usize; 13] = [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 15, 16, 35];

/// Compares the results of filters with those of the CPU.
struct Comparison<'a> {
    place: Place<'a>,
    random: fastrand::Rng,
    compared: usize,
}

impl<'a> Comparison<'a> {
    fn new(device: &'a Device) -> Result<Self, String> {
        println!("the seed of the arrays is {SEED}");
        Ok(Self { place: Place::new(device)?, random: fastrand::Rng::with_seed(SEED), compared: 0 })
    }

    /// Types of the elements and of the sums: all in turn.
    fn types(&mut self) -> (Element, Element, Sums) {
        let (from, to) = (Element::ALL[self.compared % 11], Element::ALL[self.random.usize(..11)]);
        match self.compared % 6 {
            0 => (Element::F32, Element::F32, Sums::F32),
            1 => (Element::F64, to, Sums::F64),
            _ => (from, to, Sums::F64),
        }
    }

    fn border(&mut self) -> (BorderMode, f64) {
        let value = [0.0, 7.25, -1e9, f64::NAN][self.random.usize(..4)];
        (BorderMode::ALL[self.compared % 5], value)
    }

    /// Whether the device has the CPU's bits for an array of this shape with random strides.
    fn compare(&mut self, shape: &[usize], (from, to): (Element, Element), filter: &Computation) -> Checked {
        let is_wild = self.random.bool();
        let input = Array::new(from, shape, true, &mut self.random).fill(is_wild, &mut self.random);
        let mut right = Array::new(to, shape, false, &mut self.random);
        let mut found = right.clone();
        self.place.run(filter, &input, &mut found)?;
        filter.on_cpu(&input, &mut right)?;
        let what = || format!("{filter:?}, {:?} to {:?}", input.layout, found.layout);
        same(&found, &right, || what().chars().take(600).collect())?;
        self.compared += 1;
        Ok(())
    }

    /// A correlation with a mask of this shape. Some of its weights are left out, unless it is dense.
    fn correlate(&mut self, shape: &[usize], sizes: &[usize], is_dense: bool) -> Checked {
        let (from, to, sums) = self.types();
        let (border, value) = self.border();
        let random = &mut self.random;
        let weight = |random: &mut fastrand::Rng| if is_dense { random.f64() - 0.4 } else { weight(random) };
        let weights = (0..sizes.iter().product()).map(|_| weight(random)).collect();
        let origins = sizes.iter().map(|&size| origin(size, random)).collect();
        let filter = Computation::Correlate { weights, shape: sizes.to_vec(), origins, border, value, sums };
        self.compare(shape, (from, to), &filter)
    }

    /// A correlation along an axis: symmetric for a sign of 1, antisymmetric for -1.
    fn along(&mut self, shape: &[usize], axis: usize, size: usize, sign: f64) -> Checked {
        let (from, to, sums) = self.types();
        let (border, value) = self.border();
        let mut weights: Vec<_> = (0..size).map(|_| weight(&mut self.random)).collect();
        if size % 2 == 1 && sign != 0.0 {
            for d in 1..=size / 2 {
                weights[size / 2 + d] = sign * weights[size / 2 - d];
            }
        }
        let lines = Lines { axis, origin: origin(size, &mut self.random), border, value };
        self.compare(shape, (from, to), &Computation::Correlate1d { weights, lines, sums })
    }
}

/// Arrays and filters of all sizes around those of tiles and of parts of a run.
fn edges(device: &Device) -> Checked {
    let mut comparison = Comparison::new(device)?;
    let cases = comparison.place.cases(260, 3000);
    for case in 0..cases {
        let random = &mut comparison.random;
        let axes = [1, 2, 2, 2, 3][random.usize(..5)];
        let mut shape: Vec<_> = (0..axes).map(|_| LENGTHS[random.usize(..LENGTHS.len())]).collect();
        if axes == 3 {
            // Small or filtered: as a picture's channels, or as planes.
            shape[random.usize(..3)] = random.usize(1..4);
        }
        let mut size = |most: usize| SIZES[random.usize(..most)];
        let axis = case % axes;
        match case % 4 {
            0 | 1 => {
                let most = [SIZES.len(), SIZES.len(), 5][axes - 1];
                let mut sizes: Vec<_> = (0..axes).map(|_| size(most)).collect();
                if axes == 3 && case % 3 != 0 {
                    sizes[axis] = 1;
                }
                comparison.correlate(&shape, &sizes, case % 4 == 0)?;
            }
            kind => {
                let size = if kind == 2 { size(SIZES.len()) } else { 2 * size(SIZES.len()) + 1 };
                comparison.along(&shape, axis, size, [1.0, -1.0, 0.0][case % 3])?;
            }
        }
    }
    ensure(comparison.compared == cases, || "some arrays were not compared".to_owned())
}

/// Filters whose elements do not fit in shared memory at once, and long lines.
fn passes(device: &Device) -> Checked {
    let mut comparison = Comparison::new(device)?;
    for (shape, sizes) in [
        (&[33, 40][..], &[47, 47][..]),
        (&[40, 35], &[3, 190]),
        (&[9, 70], &[150, 2]),
        (&[20, 12], &[61, 60]),
        (&[5, 33, 9], &[3, 21, 31]),
        (&[3, 4, 9, 10], &[2, 3, 4, 5]),
        (&[2, 3, 40, 3], &[1, 3, 9, 1]),
        (&[1], &[7]),
        (&[2], &[301]),
    ] {
        for is_dense in [true, false, true] {
            comparison.correlate(shape, sizes, is_dense)?;
        }
    }
    // Taps at the corners of a large mask alone.
    for sums in [Sums::F64, Sums::F32] {
        let (shape, sizes) = ([40, 37], [101, 101]);
        let mut weights = vec![0.0; 101 * 101];
        for place in [0, 100, 101 * 50 + 3, 101 * 100, 101 * 101 - 1] {
            weights[place] = 0.5 + place as f64;
        }
        let (origins, border) = (vec![3, -4], BorderMode::Mirror);
        let filter = Computation::Correlate { weights, shape: sizes.to_vec(), origins, border, value: 0.0, sums };
        comparison.compare(&shape, (Element::F32, Element::F32), &filter)?;
    }
    // A line alone is cut into rows of a tile, as are lines with few others beside them.
    for length in [31, 32, 33, 255, 1023, 1024, 1025, 2500] {
        for size in [1, 4, 9, 65] {
            let sign = [1.0, -1.0, 0.0][comparison.compared % 3];
            comparison.along(&[length], 0, size, sign)?;
            comparison.along(&[length, 3], 0, size, sign)?;
        }
    }
    for shape in [&[40, 33][..], &[700], &[3, 5]] {
        for (size, sign) in [(129, 1.0), (131, -1.0), (401, 1.0), (401, -1.0), (401, 0.0), (400, 0.0), (1001, 1.0)] {
            for axis in 0..shape.len() {
                comparison.along(shape, axis, size, sign)?;
                comparison.along(shape, axis, size, sign)?;
            }
        }
    }
    Ok(())
}
