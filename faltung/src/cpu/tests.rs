//! The fast paths against the scalar reference, bit by bit, at every level that the machine has.

use std::ffi::OsStr;
use std::process::Command;

use kernels_gpu::abi::border::{OUTSIDE, map};
use proptest::prelude::*;

use super::simd::choose;
use super::*;
use crate::image::{bytes_of, bytes_of_mut};
use crate::{Accuracy, Axis, Border, Device, Error, Filter, Mask, Operation, POISON, Pixel, VariantChoice};

const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
const OPERATIONS: [Operation; 2] = [Operation::Convolve, Operation::Correlate];

/// The method that the CPU chooses, of `f32`.
fn convolve(problem: &Problem, source: &[f32], result: &mut [f32]) {
    Convolution::new(problem).unwrap().run(problem, bytes_of(source), bytes_of_mut(result)).unwrap();
}

/// Numbers without pattern, some of them -0.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if state.is_multiple_of(16) { -0.0 } else { state as f32 / 1e9 - 2.1 }
    };
    (0..count).map(|_| next()).collect()
}

/// A mask of these columns and rows without symmetry.
fn mask(width: usize, height: usize) -> Mask {
    Mask::new(width, height, numbers(width * height, (width * 64 + height) as u32)).unwrap()
}

/// Values without pattern of a type.
trait Sample: Pixel {
    fn samples(count: usize, seed: u64) -> Vec<Self>;
    /// A value that is not this one.
    fn other(self) -> Self;
    /// NaN is NaN.
    fn same(self, other: Self) -> bool;
}

impl Sample for f32 {
    fn samples(count: usize, seed: u64) -> Vec<f32> {
        numbers(count, seed as u32)
    }
    fn other(self) -> f32 {
        POISON
    }
    fn same(self, other: f32) -> bool {
        // But for the NaN of an unwritten value.
        other.to_bits() != POISON.to_bits() && (self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan())
    }
}

macro_rules! integer_sample {
    ($($of:ty),*) => {$(
        impl Sample for $of {
            fn samples(count: usize, seed: u64) -> Vec<$of> {
                let mut random = fastrand::Rng::with_seed(seed);
                (0..count).map(|_| random.u32(..) as $of).collect()
            }
            fn other(self) -> $of {
                !self
            }
            fn same(self, other: $of) -> bool {
                self == other
            }
        }
    )*};
}
integer_sample!(u8, u16);

/// What the contract demands, value by value.
fn expected<T: Sample, U: Sample>(problem: &Problem, source: &[T]) -> Vec<U> {
    let channels = problem.format().channels;
    let at = |i: usize| (i / channels % problem.width(), i / problem.row_values(), i % channels);
    let value = |i: usize| {
        let (x, y, channel) = at(i);
        U::from_f32(problem.result_at(source, x, y, channel))
    };
    (0..source.len()).map(value).collect()
}

/// Compares a method with what the contract demands, bit by bit, for large images and others. The result lies at
/// different places of a cache line.
fn check_method<T: Sample, U: Sample>(convolution: &Convolution, problem: &Problem, source: &[T], expected: &[U]) {
    for large in [false, true] {
        let shift = (problem.width() + 5 * problem.height()) % 16;
        let mut memory = vec![U::default(); source.len() + 31 + 64 / size_of::<U>()];
        let start = memory.as_ptr().align_offset(64) + shift;
        let result = &mut memory[start..][..source.len()];
        // Whatever is not written is wrong.
        for (to, &value) in result.iter_mut().zip(expected) {
            *to = value.other();
        }
        convolution.run_as(large, problem, bytes_of(source), bytes_of_mut(result)).unwrap();
        if let Some(at) = expected.iter().zip(&*result).position(|(a, b)| !a.same(*b)) {
            panic!(
                "{}, large {large}, shift {shift}: value {at} is {:?} and not {:?}; {:?} {} window {} x {}, origin {:?}, {}",
                convolution.reason(),
                result[at],
                expected[at],
                (problem.width(), problem.height()),
                problem.format(),
                problem.window().width(),
                problem.window().height(),
                problem.origin(),
                problem.border(),
            );
        }
        let around = memory[..start].iter().chain(&memory[start + source.len()..]);
        assert!(around.into_iter().all(|&value| value == U::default()), "written beside the result");
    }
}

/// Checks the direct method at every level.
fn check<T: Sample, U: Sample>(problem: &Problem, source: &[T]) {
    let expected = expected::<T, U>(problem, source);
    for level in Level::available() {
        check_method(&Convolution::with(level, Method::direct(problem)), problem, source, &expected);
    }
}

/// Checks the separable method of integer results at every level; false if it can't serve.
fn check_separable<U: Sample>(problem: &Problem, source: &[u8]) -> bool {
    let expected = expected::<u8, U>(problem, source);
    Level::available().all(|level| {
        Method::separable(level, problem).is_some_and(|(method, _)| {
            check_method(&Convolution::with(level, method), problem, source, &expected);
            true
        })
    })
}

/// Widths and heights across every boundary of tiles, vectors and bands; the rest changes from size to size.
#[test]
fn sizes() {
    let masks = [(3, 3), (4, 3), (1, 1), (5, 2), (2, 7), (1, 5), (6, 1), (7, 4)];
    let widest = Level::available().map(panel::tile_width).max().unwrap();
    let mut case = 0;
    for width in 1..=2 * widest + 2 {
        for height in 1..=2 * ROWS + 2 {
            case += 1;
            let (mw, mh) = masks[case % masks.len()];
            let filter =
                Filter::new(mask(mw, mh)).border(BORDERS[case % BORDERS.len()]).operation(OPERATIONS[case / 3 % 2]);
            let problem = Problem::new(width, height, &filter).unwrap();
            check::<f32, f32>(&problem, &numbers(width * height, case as u32));
        }
    }
}

/// Masks of all shapes, also larger than the image; all borders, operations and anchors in the corners.
#[test]
fn masks_borders_and_anchors() {
    for (width, height) in [(1, 1), (2, 9), (9, 2), (83, 13), (150, 7), (1, 530)] {
        let source = numbers(width * height, 7);
        for (mw, mh) in [(1, 1), (2, 2), (3, 5), (8, 1), (1, 8), (4, 6), (5, 12), (19, 3), (90, 2), (3, 40)] {
            for border in BORDERS {
                for operation in OPERATIONS {
                    let filter = Filter::new(mask(mw, mh)).border(border).operation(operation);
                    check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
                    if mw * mh < 50 {
                        for anchor in [(0, 0), (mh - 1, 0), (0, mw - 1), (mh - 1, mw - 1)] {
                            let filter = filter.clone().anchor(anchor.0, anchor.1);
                            check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_huge_mask_on_a_small_image() {
    for border in BORDERS {
        let filter = Filter::new(mask(301, 203)).border(border).anchor(10, 290);
        check::<f32, f32>(&Problem::new(10, 7, &filter).unwrap(), &numbers(70, 3));
    }
}

#[test]
fn scale_and_offset() {
    for (scale, offset) in [(0.25, 0.0), (1.0, 3.0), (-1.5, 0.1), (0.0, -0.0)] {
        let filter = Filter::new(mask(3, 4)).scale(scale).offset(offset);
        check::<f32, f32>(&Problem::new(75, 8, &filter).unwrap(), &numbers(75 * 8, 11));
    }
}

/// Images that are cut into rows, into rows and columns, and not at all; a result that is large without being told so.
#[test]
fn any_number_of_threads() {
    let shapes = [(300, 700, 3, 3), (20_000, 5, 5, 3), (9_001, 1, 31, 1), (3, 20_000, 3, 9), (2048, 2050, 2, 2)];
    for (width, height, mw, mh) in shapes {
        let filter = Filter::new(mask(mw, mh)).border(Border::Mirror);
        let problem = Problem::new(width, height, &filter).unwrap();
        let source = numbers(width * height, 5);
        let mut expected = vec![POISON; source.len()];
        reference(&problem, &source, &mut expected);
        let blurred = Filter::new(Mask::gaussian(2.0, None).unwrap()).border(Border::Mirror);
        let blurred = Problem::new(width, height, &blurred).unwrap();
        let bytes = blurred.clone().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
        let pixels = u8::samples(width * height, 6);
        let mut blurs = Vec::new();
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            blurs.push(pool.install(|| {
                let (mut floats, mut rounded) = (vec![POISON; source.len()], vec![0; source.len()]);
                convolve(&blurred, &source, &mut floats);
                Convolution::new(&bytes).unwrap().run(&bytes, &pixels, &mut rounded).unwrap();
                (floats.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), rounded)
            }));
            assert!(blurs[0] == blurs[blurs.len() - 1], "{width} x {height}, {threads} threads");
            let mut result = vec![POISON; source.len()];
            pool.install(|| convolve(&problem, &source, &mut result));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert!(bits(&expected) == bits(&result), "{width} x {height}, {threads} threads");
        }
    }
}

/// Blocks cover the image, are whole bands, and there are enough for all threads.
#[test]
fn cuts() {
    let cut = |width, height, side, threads| {
        Cut::dense(&Problem::new(width, height, &Filter::new(mask(side, side))).unwrap(), threads)
    };
    assert_eq!(cut(64, 64, 3, 2), Cut { rows: 64, columns: 64 }, "not worth waking a thread");
    assert_eq!(cut(100, 90, 31, 1), Cut { rows: 90, columns: 100 });
    assert_eq!(cut(4096, 4096, 3, 2), Cut { rows: MOST_ROWS, columns: 4096 });
    assert!(cut(1 << 20, 3, 3, 2).columns < 1 << 18, "a flat image is cut into columns");
    for (width, height, side, threads) in [(1000, 1000, 5, 7), (5000, 13, 9, 2), (3, 100_000, 3, 64)] {
        let Cut { rows, columns } = cut(width, height, side, threads);
        assert!(rows % ROWS == 0 && columns > 0, "{rows} rows, {columns} columns");
        let blocks = height.div_ceil(rows) * width.div_ceil(columns);
        assert!(blocks >= threads.min(height.div_ceil(ROWS)), "{blocks} blocks for {threads} threads");
    }
}

/// NaN and infinity in the image reach the outputs whose windows hold them, and no others.
#[test]
fn nan_and_infinity_stay_in_their_support() {
    let (width, height, mw, mh) = (140, 15, 5, 4);
    let filter = Filter::new(mask(mw, mh)).operation(Operation::Correlate);
    let problem = Problem::new(width, height, &filter).unwrap();
    let clean = numbers(width * height, 9);
    let mut expected = vec![POISON; clean.len()];
    reference(&problem, &clean, &mut expected);
    for (value, (x, y)) in
        [(f32::NAN, (70, 6)), (f32::INFINITY, (0, 0)), (f32::NEG_INFINITY, (139, 14)), (f32::NAN, (64, 14))]
    {
        let mut source = clean.clone();
        source[y * width + x] = value;
        check::<f32, f32>(&problem, &source);
        let mut result = vec![POISON; clean.len()];
        convolve(&problem, &source, &mut result);
        for (i, (&a, &b)) in expected.iter().zip(&result).enumerate() {
            let (column, row) = (i % width, i / width);
            let (ay, ax) = problem.origin();
            let covered = (y + ay).checked_sub(row).is_some_and(|k| k < mh)
                && (x + ax).checked_sub(column).is_some_and(|l| l < mw);
            assert_eq!(a.to_bits() == b.to_bits(), !covered, "{value} in {x}, {y}: output {column}, {row}");
            assert!(!covered || !b.is_finite());
        }
    }
}

/// Infinite coefficients meet the zeros outside: NaN, as by the reference.
#[test]
fn infinite_coefficients() {
    for border in BORDERS {
        let mut coefficients = numbers(9, 2);
        coefficients[0] = f32::INFINITY;
        let filter = Filter::new(Mask::new(3, 3, coefficients).unwrap()).border(border);
        check::<f32, f32>(&Problem::new(67, 7, &filter).unwrap(), &numbers(67 * 7, 4));
    }
}

/// Every pair of types, and 1 to 4 channels.
#[test]
fn formats() {
    fn pair<T: Sample, U: Sample>(case: &mut usize) {
        for channels in 1..=4 {
            for (width, height, mw, mh) in [(1, 1, 3, 3), (70, 9, 3, 3), (23, 20, 4, 5), (150, 7, 1, 6), (9, 3, 12, 2)]
            {
                *case += 1;
                let filter = Filter::new(mask(mw, mh))
                    .border(BORDERS[*case % BORDERS.len()])
                    .operation(OPERATIONS[*case % 2])
                    .anchor(*case % mh, *case % mw)
                    .scale(if case.is_multiple_of(3) { 0.4 } else { 1.0 });
                let problem = Problem::new(width, height, &filter).unwrap();
                let problem = problem.with_format(PixelFormat::of::<T, U>(channels)).unwrap();
                check::<T, U>(&problem, &T::samples(problem.values(), *case as u64));
            }
        }
    }
    let case = &mut 0;
    pair::<u8, u8>(case);
    pair::<u8, u16>(case);
    pair::<u8, f32>(case);
    pair::<u16, u8>(case);
    pair::<u16, u16>(case);
    pair::<u16, f32>(case);
    pair::<f32, u8>(case);
    pair::<f32, u16>(case);
    pair::<f32, f32>(case);
}

/// Separable masks of all kinds, with the factor and the offset of their results.
fn separable_masks() -> Vec<(Mask, f32, f32)> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut outer = |width: usize, height: usize, lowest: f32| {
        let mut values = |count| (0..count).map(|_| random.f32() * (1.0 - lowest) + lowest).collect::<Vec<_>>();
        let (row, column) = (values(width), values(height));
        let size =
            row.iter().map(|value| value.abs()).sum::<f32>() * column.iter().map(|value| value.abs()).sum::<f32>();
        let product = |i: usize| (f64::from(row[i % width]) * f64::from(column[i / width]) / f64::from(size)) as f32;
        Mask::new(width, height, (0..width * height).map(product).collect()).unwrap()
    };
    vec![
        (outer(3, 3, 0.0), 1.0, 0.0),
        (outer(5, 4, 0.0), 1.0, 0.0),
        (outer(2, 7, -1.0), 1.5, 100.0),
        (outer(13, 13, 0.0), 1.0, 0.0),
        (outer(31, 18, 0.0), 1.0, 0.5),
        (outer(1, 6, 0.0), 1.0, 0.0),
        (Mask::gaussian(0.8, None).unwrap(), 1.0, 0.0),
        (Mask::gaussian(2.0, None).unwrap(), 1.0, 0.0),
        // Sums that lie in the middle between two whole numbers, but for rounding errors.
        (Mask::average(3, 2).unwrap(), 1.0, 0.0),
        (Mask::average(6, 6).unwrap(), 1.0, 0.0),
        (Mask::average(21, 22).unwrap(), 1.0, 0.0),
        // Sums without rounding errors.
        (Mask::average(4, 2).unwrap(), 1.0, 0.0),
        (Mask::sobel(Axis::X), 0.25, 127.5),
        (Mask::scharr(Axis::Y), 1.0, 3.0),
    ]
}

/// Bytes through a separable mask have the bits of the ordered sum, at every level.
#[test]
fn separable_bytes() {
    let (mut case, mut served) = (0, 0);
    for (mask, scale, offset) in separable_masks() {
        for (width, height) in [(1, 1), (5, 40), (97, 31), (64, 64), (201, 13), (300, 1), (2, 1100)] {
            case += 1;
            let filter = Filter::new(mask.clone())
                .border(
                    [
                        Border::ZERO,
                        Border::Constant(77.0),
                        Border::Clamp,
                        Border::Reflect,
                        Border::Mirror,
                        Border::Wrap,
                    ][case % 6],
                )
                .operation(OPERATIONS[case % 2])
                .anchor(case % mask.height(), case % mask.width())
                .scale(scale)
                .offset(offset);
            let problem = Problem::new(width, height, &filter).unwrap();
            let channels = 1 + case % 4;
            let mut source = u8::samples(width * height * channels, case as u64);
            // Also dark ones, whose results have other limits.
            source.iter_mut().for_each(|value| *value >>= case % 3);
            let bytes = problem.clone().with_format(PixelFormat::of::<u8, u8>(channels)).unwrap();
            served += usize::from(check_separable::<u8>(&bytes, &source));
            let words = problem.with_format(PixelFormat::of::<u8, u16>(channels)).unwrap();
            served += usize::from(check_separable::<u16>(&words, &source));
        }
    }
    assert!(served > 100, "{served} of {} problems are separable", 2 * case);
}

/// Without the second computation of uncertain results some are wrong.
#[test]
fn uncertain_results_matter() {
    let filter = Filter::new(Mask::average(3, 2).unwrap());
    let problem = Problem::new(200, 50, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
    let source = u8::samples(problem.values(), 8);
    let expected = expected::<u8, u8>(&problem, &source);
    for level in Level::available() {
        let (mut method, _) = Method::separable(level, &problem).unwrap();
        let wrong = |method| {
            let mut result = vec![0; source.len()];
            Convolution::with(level, method).run(&problem, &source, &mut result).unwrap();
            expected.iter().zip(&result).filter(|(a, b)| a != b).count()
        };
        if let Method::Separable { limits, .. } = &mut method {
            *limits = None;
        }
        assert!(wrong(method) > 10, "{level:?}");
        assert_eq!(wrong(Method::separable(level, &problem).unwrap().0), 0, "{level:?}");
    }
}

/// Results of `f32` are within the bound of the separable method, and have the same bits at every level.
#[test]
fn separable_floats() {
    let mut case = 0;
    for (mask, scale, offset) in separable_masks() {
        for (width, height, channels) in
            [(1, 1, 1), (5, 40, 3), (97, 31, 1), (70, 64, 2), (201, 13, 4), (300, 2, 1), (3, 1100, 2)]
        {
            case += 1;
            let filter = Filter::new(mask.clone()).border(BORDERS[case % 6]).operation(OPERATIONS[case % 2]);
            let filter = filter.scale(scale).offset(offset);
            let problem = Problem::new(width, height, &filter).unwrap();
            let problem = problem.with_format(PixelFormat::of::<f32, f32>(channels)).unwrap();
            let source = f32::samples(problem.values(), case as u64);
            let mut first: Option<Vec<f32>> = None;
            for level in Level::available() {
                let (method, _) = Method::separable(level, &problem).expect("a separable mask");
                let convolution = Convolution::with(level, method);
                let mut result = vec![POISON; source.len()];
                convolution.run(&problem, bytes_of(&source), bytes_of_mut(&mut result)).unwrap();
                let gamma = convolution.bound(&problem).gamma();
                for (i, &found) in result.iter().enumerate() {
                    let (x, y, channel) = (i / channels % width, i / channels / width, i % channels);
                    let (exact, size) = in_f64(&problem, &source, (x, y, channel));
                    let scaled = exact * f64::from(scale) + f64::from(offset);
                    let bound = f64::from(scale.abs()) * gamma * size;
                    let bound = bound + (scaled.abs() + bound) / f64::from(1 << 24) + 1e-40;
                    let error = (f64::from(found) - scaled).abs();
                    assert!(error <= bound, "{level:?}, value {i}: {found} for {scaled}, {error:e} over {bound:e}");
                }
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert!(first.as_ref().is_none_or(|first| bits(first) == bits(&result)), "{level:?} has other bits");
                first = Some(result);
            }
        }
    }
}

/// The bound holds where only the smallest coefficients of a mask meet pixels that are not 0, also for bytes.
#[test]
fn small_coefficients_keep_their_digits() {
    let filter = Filter::new(Mask::gaussian(3.0, Some(12)).unwrap());
    let problem = Problem::new(40, 40, &filter).unwrap().with_format(PixelFormat::of::<u8, f32>(1)).unwrap();
    let mut source = vec![0_u8; problem.values()];
    source[20 * 40 + 20] = 255;
    let as_floats: Vec<f32> = source.iter().map(|&value| value.into()).collect();
    for level in Level::available() {
        let convolution = Convolution::with(level, Method::separable(level, &problem).unwrap().0);
        let mut result = vec![POISON; source.len()];
        convolution.run(&problem, &source, bytes_of_mut(&mut result)).unwrap();
        let gamma = convolution.bound(&problem).gamma();
        for (i, &found) in result.iter().enumerate() {
            let (exact, size) = in_f64(&problem, &as_floats, (i % 40, i / 40, 0));
            assert!((f64::from(found) - exact).abs() <= gamma * size, "{level:?}, value {i}: {found:e} for {exact:e}");
        }
    }
}

/// The sum of the products and of their magnitudes, in `f64`.
fn in_f64(problem: &Problem, source: &[f32], (x, y, channel): (usize, usize, usize)) -> (f64, f64) {
    let (window, channels, border) = (problem.window(), problem.format().channels, problem.border());
    let place =
        |at: usize, origin: usize, side: usize| map(border.mode().code(), at as i32 - origin as i32, side as i32);
    let (mut sum, mut size) = (0.0, 0.0);
    for k in 0..window.height() {
        let row = place(y + k, problem.origin().0, problem.height());
        for l in 0..window.width() {
            let column = place(x + l, problem.origin().1, problem.width());
            let outside = row == OUTSIDE || column == OUTSIDE;
            let index = (row.max(0) as usize * problem.width() + column.max(0) as usize) * channels + channel;
            let pixel = if outside { border.value() } else { source[index] };
            let product = f64::from(window.at(k, l)) * f64::from(pixel);
            (sum, size) = (sum + product, size + product.abs());
        }
    }
    (sum, size)
}

/// What can't keep the contract is not computed by the separable method.
#[test]
fn separable_where_it_serves() {
    let of = |mask: Mask, accuracy, format: PixelFormat| {
        let problem =
            Problem::new(200, 200, &Filter::new(mask).accuracy(accuracy)).unwrap().with_format(format).unwrap();
        Convolution::new(&problem).unwrap().variant()
    };
    let gaussian = || Mask::gaussian(3.0, None).unwrap();
    let (floats, bytes) = (PixelFormat::of::<f32, f32>(1), PixelFormat::of::<u8, u8>(3));
    assert_eq!(of(gaussian(), Accuracy::Bounded, floats), "separable");
    assert_eq!(of(gaussian(), Accuracy::Exact, floats), "direct");
    assert_eq!(of(gaussian(), Accuracy::Exact, bytes), "separable");
    assert_ne!(of(gaussian(), Accuracy::Bounded, PixelFormat::of::<u16, u16>(1)), "separable");
    assert_eq!(of(gaussian(), Accuracy::Bounded, PixelFormat::of::<u16, f32>(1)), "separable");
    assert_ne!(of(gaussian(), Accuracy::Bounded, PixelFormat::of::<f32, u8>(1)), "separable");
    assert_ne!(of(Mask::disk(5.0).unwrap(), Accuracy::Bounded, bytes), "separable");
    // A pixel outside that is no byte.
    let filter = Filter::new(gaussian()).border(Border::Constant(0.5));
    let problem = Problem::new(200, 200, &filter).unwrap().with_format(bytes).unwrap();
    assert_ne!(Convolution::new(&problem).unwrap().variant(), "separable");
}

#[test]
#[should_panic(expected = "bytes of source and result")]
fn a_short_result_is_refused() {
    let problem = Problem::new(4, 4, &Filter::new(mask(3, 3))).unwrap();
    convolve(&problem, &[0.0; 16], &mut [0.0; 15]);
}

#[test]
fn it_says_what_it_is() {
    assert!(!name().is_empty());
    assert!(describe().starts_with("CPU: ") && describe().ends_with(Level::chosen().unwrap().name()), "{}", describe());
}

/// The levels that every CPU of an architecture has are among those that all tests here run.
#[test]
fn levels_of_this_architecture() {
    let available: Vec<_> = Level::available().collect();
    if cfg!(target_arch = "aarch64") {
        assert_eq!(available, [Level::Neon, Level::Portable]);
    } else if cfg!(target_arch = "x86_64") {
        assert!(!available.contains(&Level::Neon) && available.ends_with(&[Level::Portable]), "{available:?}");
    } else {
        assert_eq!(available, [Level::Portable]);
    }
}

/// Every level has a word of its own, which chooses it where the CPU has it and is an error elsewhere.
#[test]
fn words_of_levels() {
    let all = Level::ALL;
    for (i, level) in all.into_iter().enumerate() {
        let word = Some(OsStr::new(level.word()));
        assert_eq!(choose(word, &all), Ok(level));
        assert_eq!(choose(word, &[level]), Ok(level));
        let others: Vec<_> = all.into_iter().filter(|&other| other != level).collect();
        let error = choose(word, &others).unwrap_err().to_string();
        for part in ["FALTUNG_CPU", "of this CPU (", others[0].word(), &format!("not \"{}\"", level.word())] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
        for unset in [None, Some(OsStr::new(""))] {
            assert_eq!(choose(unset, &all[i..]), Ok(level), "the first is the fastest");
        }
    }
    let error = choose(Some(OsStr::new("neon")), &[Level::Avx2, Level::Portable]).unwrap_err();
    let expected = "the environment variable FALTUNG_CPU: an instruction set of this CPU (avx2 or portable) was expected, \
                    not \"neon\"";
    assert_eq!(error.to_string(), expected);
    for wrong in ["sse", "AVX2", "avx2 ", "avx", "0"] {
        let Err(Error::Parse { required, found, .. }) = choose(Some(OsStr::new(wrong)), &all) else {
            panic!("{wrong} is a level")
        };
        assert_eq!((required.as_str(), found.as_str()), ("avx512, avx2, neon or portable", wrong));
    }
}

/// The variable is read once, so each value needs a process: this test starts itself.
#[test]
fn a_forced_level_takes_effect() {
    const CHILD: &str = "FALTUNG_TEST_CHILD";
    let device = Device::cpu();
    if std::env::var_os(CHILD).is_some() {
        let problem = Problem::new(40, 9, &Filter::new(mask(3, 2))).unwrap();
        match device.prepare(&problem, VariantChoice::Auto) {
            Ok(prepared) => println!("<{} | {}>", device.describe(), prepared.reason()),
            Err(error) => {
                assert_eq!(device.rates(), Err(error.clone()));
                println!("<{} | {error}>", device.describe());
            }
        }
        return;
    }
    let child = |word: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cpu::tests::a_forced_level_takes_effect", "--nocapture"]);
        let output = command.env(CHILD, "1").env("FALTUNG_CPU", word).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let (_, said) = text.split_once('<').unwrap_or_else(|| panic!("nothing is said: {text}"));
        let (describe, rest) = said.split_once(" | ").unwrap();
        (describe.to_owned(), rest.split_once('>').unwrap().0.to_owned())
    };
    for level in Level::ALL {
        let (describe, said) = child(level.word());
        if level.is_available() {
            assert!(describe.ends_with(level.name()), "{describe}");
            assert!(said.ends_with(level.name()), "{said}");
        } else {
            assert!(describe.ends_with(&said), "{describe}");
            assert!(said.ends_with(&format!("was expected, not \"{}\"", level.word())), "{said}");
        }
    }
    let (describe, said) = child("");
    let fastest = Level::available().next().unwrap().name();
    assert!(describe.ends_with(fastest) && said.ends_with(fastest), "{describe}, {said}");
    let (_, said) = child("fast");
    assert!(said.contains("avx512, avx2, neon or portable was expected, not \"fast\""), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bits at all: subnormal numbers, infinities, NaN.
    #[test]
    fn any_values(
        (width, height, values) in (1_usize..90, 1_usize..16)
            .prop_flat_map(|(w, h)| (Just(w), Just(h), prop::collection::vec(any::<u32>(), w * h))),
        (mw, mh, coefficients) in (1_usize..8, 1_usize..8)
            .prop_flat_map(|(w, h)| (Just(w), Just(h), prop::collection::vec(any::<f32>(), w * h))),
        border in 0..BORDERS.len(),
        convolve in any::<bool>(),
    ) {
        let source: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
        let filter = Filter::new(Mask::new(mw, mh, coefficients).unwrap())
            .border(BORDERS[border])
            .operation(OPERATIONS[usize::from(convolve)]);
        check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
    }
}
