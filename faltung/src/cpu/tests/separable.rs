//! The separable method: integers with the bits of the ordered sum, `f32` within the bound, and where it serves.

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::*;
use crate::{Accuracy, Axis};

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

/// Images of bytes whose results are hard to decide, each with a name.
fn hard_images(values: usize, seed: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut image = |value: &mut dyn FnMut(&mut fastrand::Rng, usize) -> u8| {
        (0..values).map(|i| value(&mut random, i)).collect::<Vec<u8>>()
    };
    vec![
        ("random", image(&mut |random, _| random.u8(..))),
        // The results are near 127.5.
        ("127 or 128", image(&mut |random, _| 127 + random.u8(..2))),
        // Sums that are just below and above a power of two.
        ("63 to 66", image(&mut |random, _| random.u8(63..66))),
        ("dark above, bright below", image(&mut |random, i| if i < values / 2 { random.u8(..3) } else { 255 })),
        ("bright above, dark below", image(&mut |random, i| if i < values / 2 { 255 } else { random.u8(..3) })),
        ("one value", vec![131; values]),
        ("saturated", vec![255; values]),
    ]
}

/// Most uncertain results of large masks are decided by their partial sums. All have the bits of the ordered sum.
#[test]
fn partial_sums_decide() {
    let seed = 17;
    println!("seed {seed}");
    let ramp = |count: usize| (1..=count).map(|i| i as f32).collect::<Vec<_>>();
    let (row, column) = (ramp(45), ramp(61));
    let ramps = column.iter().flat_map(|c| row.iter().map(move |r| c * r / 1_957_185.0)).collect();
    let masks = [
        Mask::gaussian(5.0, Some(15)).unwrap(),
        Mask::gaussian(13.0, Some(40)).unwrap(),
        Mask::new(45, 61, ramps).unwrap(),
    ];
    let mut case = 0;
    for mask in masks {
        for (width, height, channels) in [(70, 40, 1), (150, 21, 3), (41, 90, 2)] {
            case += 1;
            let border = [Border::ZERO, Border::Clamp, Border::Mirror, Border::Constant(127.0)][case % 4];
            let filter = Filter::new(mask.clone()).border(border).anchor(case % mask.height(), case % mask.width());
            let problem = Problem::new(width, height, &filter).unwrap();
            let problem = problem.with_format(PixelFormat::of::<u8, u8>(channels)).unwrap();
            for (name, source) in hard_images(problem.values(), seed + case as u64) {
                println!("case {case}, {name}");
                assert!(check_separable::<u8>(&problem, &source), "the mask is separable");
            }
        }
    }
}

/// Without bounds some results that the partial sums decide are wrong.
#[test]
fn bounds_of_partial_sums_matter() {
    let filter = Filter::new(Mask::gaussian(13.0, Some(40)).unwrap()).border(Border::Mirror);
    let problem = Problem::new(90, 90, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
    let (_, source) = hard_images(problem.values(), 23).swap_remove(1);
    let expected = expected::<u8, u8>(&problem, &source);
    for level in Level::available() {
        let wrong = |trust: bool| {
            let (mut method, _) = Method::separable(level, &problem).unwrap();
            let Method::Separable { partial_sums: Some(partial_sums), .. } = &mut method else {
                panic!("{level:?} has no partial sums")
            };
            if trust {
                partial_sums.trust_all();
            }
            let mut result = vec![0; source.len()];
            Convolution::with(level, method).run(&problem, &source, &mut result).unwrap();
            expected.iter().zip(&result).filter(|(a, b)| a != b).count()
        };
        assert!(wrong(true) > 0, "{level:?}");
        assert_eq!(wrong(false), 0, "{level:?}");
    }
}

/// A large mask brings subnormal pixels back to the normal numbers. The rows before the columns must not lose digits.
#[test]
fn large_masks_keep_the_digits_of_small_pixels() {
    let problem = Problem::new(40, 30, &Filter::new(Mask::new(9, 9, vec![1e30; 81]).unwrap())).unwrap();
    let source: Vec<f32> = (0..40 * 30).map(|i| 2e-42 + 1e-42 * ((i * 37 % 101) as f32 / 101.0)).collect();
    let mut result = vec![0.0; source.len()];
    convolve(&problem, &source, &mut result);
    let gamma = ErrorBound::direct(&problem).gamma();
    for (i, &found) in result.iter().enumerate() {
        let (exact, magnitude) = in_f64(&problem, &source, (i % 40, i / 40, 0));
        let error = (f64::from(found) - exact).abs();
        assert!(error <= gamma * magnitude, "{i}: {error:e} of {magnitude:e}");
    }
    // Whole numbers are not small.
    let bytes = problem.with_format(PixelFormat::of::<u8, f32>(1)).unwrap();
    assert_eq!(Convolution::new(&bytes).unwrap().variant(), "separable");
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

/// Masks of whole numbers times one factor, with the factor and the offset of their results.
fn whole_masks() -> Vec<(Mask, f32, f32)> {
    let outer = |column: &[u16], row: &[u16], unit: f32| {
        let products = column.iter().flat_map(|&c| row.iter().map(move |&r| f32::from(c * r) * unit));
        Mask::new(row.len(), column.len(), products.collect()).unwrap()
    };
    vec![
        (outer(&[1, 2, 1], &[1, 2, 1], 1.0 / 16.0), 1.0, 0.0),
        (outer(&[1, 4, 6, 4, 1], &[1, 4, 6, 4, 1], 1.0 / 256.0), 1.0, 0.0),
        (outer(&[2, 7, 14, 18, 14, 7, 2], &[2, 7, 14, 18, 14, 7, 2], 1.0 / 4096.0), 1.0, 0.0),
        (outer(&[1, 0, 3], &[5, 1], 1.0 / 8.0), 1.0, 0.0),
        (outer(&[1, 2], &[0, 1, 0, 1], 1.0 / 4.0), 0.3, 17.5),
        (outer(&[1; 5], &[1; 5], 1.0), 1.0 / 25.0, 0.0),
        (outer(&[1; 51], &[1; 33], 1.0), 1.0 / 1683.0, 0.5),
        (outer(&[1; 2], &[1; 200], 1.0 / 256.0), 1.0, 0.0),
        (outer(&[1; 240], &[1], 1.0), 1.0 / 240.0, 0.0),
        (Mask::average(3, 2).unwrap(), 1.0, 0.0),
        (Mask::average(6, 6).unwrap(), 1.0, 0.0),
        (Mask::average(21, 22).unwrap(), 1.0, 0.0),
        (Mask::average(51, 40).unwrap(), 1.0, 0.0),
        (Mask::average(4, 2).unwrap(), 2.0, -3.0),
        // Quotients by a shift: the smallest and the largest, wide boxes, and neither 3 nor 5 weights.
        (outer(&[1], &[1; 2], 1.0 / 2.0), 1.0, 0.0),
        (outer(&[1; 192], &[1], 1.0 / 32768.0), 1.0, 0.0),
        (Mask::average(8, 8).unwrap(), 1.0, 0.0),
        (Mask::average(16, 16).unwrap(), 1.0, 0.0),
        (outer(&[1, 3, 3, 1], &[1, 3, 3, 1], 1.0 / 64.0), 1.0, 0.0),
        // Half of the divisor does not fit beside the largest sum.
        (outer(&[1; 257], &[1], 1.0 / 512.0), 1.0, 0.0),
    ]
}

/// Bytes through masks of whole numbers have the bits of the ordered sum, at every level.
#[test]
fn whole_numbers() {
    let (mut case, mut served, mut forms) = (0, 0, Vec::new());
    for (mask, scale, offset) in whole_masks() {
        for (width, height) in [(70, 40), (97, 31), (64, 64), (201, 13), (301, 2), (66, 300)] {
            case += 1;
            let border =
                [Border::ZERO, Border::Constant(77.0), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
            let filter = Filter::new(mask.clone())
                .border(border[case % 6])
                .operation(OPERATIONS[case % 2])
                .anchor(case % mask.height(), case % mask.width())
                .scale(scale)
                .offset(offset);
            let channels = 1 + case % 4;
            let problem = Problem::new(width, height, &filter).unwrap();
            let mut source = u8::samples(width * height * channels, case as u64);
            // Every fifth image is white: no sum may overflow.
            source.iter_mut().for_each(|value| *value = if case % 5 == 0 { 255 } else { *value >> (case % 3) });
            let bytes = problem.clone().with_format(PixelFormat::of::<u8, u8>(channels)).unwrap();
            let words = problem.with_format(PixelFormat::of::<u8, u16>(channels)).unwrap();
            let (of_bytes, of_words) = (expected::<u8, u8>(&bytes, &source), expected::<u8, u16>(&words, &source));
            for level in Level::available() {
                if let Some((method, _)) = Method::whole(level, &bytes) {
                    if let Method::Whole(mask) = &method {
                        forms.push(mask.form());
                    }
                    check_method(&Convolution::with(level, method), &bytes, &source, &of_bytes);
                    served += 1;
                }
                if let Some((method, _)) = Method::whole(level, &words) {
                    check_method(&Convolution::with(level, method), &words, &source, &of_words);
                    served += 1;
                }
            }
        }
    }
    assert!(served > case, "{served} of {case} problems");
    for form in [
        (true, Some(4), [3, 3]),
        (true, Some(8), [5, 5]),
        (true, Some(1), [1, 2]),
        (true, Some(15), [192, 1]),
        (true, Some(6), [8, 8]),
        (true, Some(8), [16, 16]),
        (true, Some(6), [4, 4]),
        (true, None, [257, 1]),
        (true, None, [5, 5]),
        (false, None, [7, 7]),
    ] {
        assert!(forms.contains(&form), "no case of {form:?}");
    }
}

/// Sums of 16 bits are taken wherever they serve, and sums of 24 bits where pairs take more time.
#[test]
fn sums_of_small_integers_are_chosen() {
    for level in [Level::Avx512, Level::Avx2].into_iter().filter(|level| level.is_available()) {
        let [small, large] = [0, 2].map(|number| {
            let mask = whole_masks().swap_remove(number).0;
            let problem = Problem::new(512, 512, &Filter::new(mask)).unwrap();
            Method::choose(level, &problem.with_format(PixelFormat::of::<u8, u8>(1)).unwrap())
        });
        assert!(matches!(small, Method::Whole(_)) && matches!(large, Method::Pairs(_)), "{level:?}");
    }
}

/// Uncertain results of whole numbers matter, too. Masks of another kind are left to the other methods.
#[test]
fn limits_of_whole_numbers() {
    let problem = |mask: Mask| {
        Problem::new(200, 50, &Filter::new(mask)).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap()
    };
    let of_box = problem(Mask::average(6, 6).unwrap());
    let source = u8::samples(of_box.values(), 8);
    let expected = expected::<u8, u8>(&of_box, &source);
    for level in Level::available() {
        let wrong = |method| {
            let mut result = vec![0; source.len()];
            Convolution::with(level, method).run(&of_box, &source, &mut result).unwrap();
            expected.iter().zip(&result).filter(|(a, b)| a != b).count()
        };
        let whole = || Method::whole(level, &of_box).unwrap().0;
        let mut method = whole();
        if let Method::Whole(mask) = &mut method {
            mask.trust_all();
        }
        assert!(wrong(method) > 10, "{level:?}");
        assert_eq!(wrong(whole()), 0, "{level:?}");
        for mask in [Mask::gaussian(2.0, None).unwrap(), Mask::sobel(Axis::X), Mask::average(300, 1).unwrap()] {
            assert!(Method::whole(level, &problem(mask)).is_none(), "{level:?}");
        }
    }
}
