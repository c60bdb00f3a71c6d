//! Separable masks without negative coefficients in pairs of 16-bit numbers.

use super::*;
use crate::Axis;
use crate::cpu::pairs::Pairs;

/// Column and row of a mask whose coefficients sum to `sum`.
fn outer(column: &[f64], row: &[f64], sum: f64) -> Mask {
    let total = column.iter().sum::<f64>() * row.iter().sum::<f64>();
    let products = column.iter().flat_map(|c| row.iter().map(move |r| (c * r * sum / total) as f32));
    Mask::new(row.len(), column.len(), products.collect()).unwrap()
}

/// Gaussians, and masks of other shapes, sums and coefficients.
fn masks() -> Vec<Mask> {
    let gaussian = |size: usize, sigma: f64| -> Vec<f64> {
        let middle = (size - 1) as f64 / 2.0;
        (0..size).map(|i| (-(i as f64 - middle).powi(2) / (2.0 * sigma * sigma)).exp()).collect()
    };
    let mut masks: Vec<Mask> =
        [(2, 0.7), (3, 0.8), (3, 0.4), (4, 1.0), (5, 1.1), (7, 1.4), (9, 5.0), (13, 2.3), (21, 3.5)]
            .map(|(size, sigma)| outer(&gaussian(size, sigma), &gaussian(size, sigma), 1.0))
            .into();
    masks.extend([
        outer(&gaussian(3, 0.9), &gaussian(8, 1.3), 1.0),
        outer(&gaussian(11, 2.0), &[1.0], 0.7),
        outer(&[1.0], &gaussian(6, 1.0), 1.0),
        outer(&[3.0, 0.0, 1.0], &[0.2, 0.7, 0.0, 0.3, 0.4], 0.35),
        outer(&[1.0, 5.0, 2.0, 9.0], &[1.0, 3.0, 1.0], 1.0),
    ]);
    masks
}

fn bytes(mask: &Mask, (width, height): (usize, usize), channels: usize, case: usize) -> Problem {
    let borders = [Border::ZERO, Border::Constant(77.0), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    let filter = Filter::new(mask.clone())
        .border(borders[case % 6])
        .operation(OPERATIONS[case % 2])
        .anchor(case % mask.height(), case % mask.width());
    let problem = Problem::new(width, height, &filter).unwrap();
    problem.with_format(PixelFormat::of::<u8, u8>(channels)).unwrap()
}

/// Results have the bits of the ordered sum, at every level.
#[test]
fn bits_of_the_ordered_sum() {
    let (mut case, mut served) = (0, 0);
    for mask in masks() {
        for size in [(97, 31), (64, 64), (201, 13), (300, 2), (130, 131), (1500, 5)] {
            for channels in 1..=4 {
                case += 1;
                let problem = bytes(&mask, size, channels, case);
                let Some(pairs) = Pairs::of(&problem) else { continue };
                served += 1;
                let mut source = u8::samples(size.0 * size.1 * channels, case as u64);
                match case % 5 {
                    0 => source.iter_mut().for_each(|value| *value = if *value < 128 { 0 } else { 255 }),
                    1 => source.iter_mut().for_each(|value| *value = 255 - (*value & 3)),
                    _ => {}
                }
                let expected = expected::<u8, u8>(&problem, &source);
                let check = |level, pairs| {
                    check_method(&Convolution::with(level, Method::Pairs(pairs)), &problem, &source, &expected)
                };
                for level in Level::available() {
                    check(level, pairs.clone());
                    if level.vnni().is_some() {
                        // The code for CPUs with AVX-512 and without VNNI.
                        check(level, pairs.clone().without_vnni());
                    }
                }
            }
        }
    }
    assert!(2 * served > case, "{served} of {case} problems");
}

/// Uncertain results matter. Masks of another kind are left to the other methods.
#[test]
fn limits() {
    let of_gaussian = bytes(&Mask::gaussian(1.3, None).unwrap(), (300, 200), 1, 0);
    let source = u8::samples(of_gaussian.values(), 8);
    let expected = expected::<u8, u8>(&of_gaussian, &source);
    for level in Level::available() {
        let wrong = |method| {
            let mut result = vec![0; source.len()];
            Convolution::with(level, method).run(&of_gaussian, &source, &mut result).unwrap();
            expected.iter().zip(&result).filter(|(a, b)| a != b).count()
        };
        let mut mask = Pairs::of(&of_gaussian).unwrap();
        assert!(mask.uncertain_part() < 0.02);
        assert_eq!(wrong(Method::Pairs(Pairs::of(&of_gaussian).unwrap())), 0, "{level:?}");
        mask.trust_all();
        assert!(wrong(Method::Pairs(mask)) > 10, "{level:?}");
    }
    for mask in [Mask::sobel(Axis::X), outer(&[1.0, 2.0], &[1.0, 1.0], 1.1), Mask::disk(2.5).unwrap()] {
        assert!(Pairs::of(&bytes(&mask, (90, 90), 1, 0)).is_none());
    }
}
