//! Formats, channels, borders, anchors and sizes.

use super::*;

/// Pixels for any input type: whole numbers for integers.
fn image(problem: &Problem, random: &mut fastrand::Rng) -> Vec<f32> {
    let most = match problem.format().input {
        PixelType::F32 => return (0..problem.values()).map(|_| random.f32() * 300.0 - 40.0).collect(),
        PixelType::U8 => 255,
        PixelType::U16 => 65_535,
    };
    (0..problem.values()).map(|_| random.u32(0..=most) as f32).collect()
}

#[test]
fn formats_borders_anchors_and_masks() {
    let seed = 11;
    let mut random = fastrand::Rng::with_seed(seed);
    let masks = [(4, 3), (3, 3), (1, 9), (9, 1), (8, 6), (5, 12), (19, 3), (40, 2), (3, 50)];
    for (width, height) in [(1, 1), (1, 30), (47, 1), (2, 9), (41, 23)] {
        for (case, &(mask_width, mask_height)) in masks.iter().enumerate() {
            for input in PixelType::ALL {
                for output in PixelType::ALL {
                    let mask = mask(mask_width, mask_height, case % 2 == 0, &mut random);
                    let operation = [Operation::Convolve, Operation::Correlate][random.usize(..2)];
                    let mut filter =
                        Filter::new(mask).border(BORDERS[random.usize(..BORDERS.len())]).operation(operation);
                    if random.bool() {
                        filter = filter.anchor(random.usize(..mask_height), random.usize(..mask_width));
                    }
                    if random.bool() {
                        filter = filter.scale(random.f32() * 2.0 - 1.0).offset(random.f32() * 100.0);
                    }
                    let format = PixelFormat { channels: random.usize(1..=4), input, output };
                    let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
                    let source = image(&problem, &mut random);
                    let what = format!("seed {seed}, {filter:?}");
                    check(&small_tiles(&problem, &mut random), &problem, &source, &what);
                }
            }
        }
    }
}

/// The size that is chosen, with masks as the FFT is for.
#[test]
fn large_masks() {
    let seed = 12;
    let mut random = fastrand::Rng::with_seed(seed);
    for (width, height, mask_width, mask_height) in
        [(300, 200, 31, 31), (150, 170, 64, 30), (10, 7, 301, 203), (1, 700, 1, 129), (513, 3, 40, 61)]
    {
        for (input, output) in [
            (PixelType::F32, PixelType::F32),
            (PixelType::U8, PixelType::U8),
            (PixelType::F32, PixelType::U8),
            (PixelType::U8, PixelType::U16),
            (PixelType::U16, PixelType::F32),
        ] {
            let mask = mask(mask_width, mask_height, random.bool(), &mut random);
            let filter = Filter::new(mask).border(BORDERS[random.usize(..6)]);
            let format = PixelFormat { channels: random.usize(1..=2), input, output };
            let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
            let Some(fft) = Fft::new(Level::chosen().unwrap(), &problem) else {
                assert_ne!(output, PixelType::F32, "{problem:?}");
                continue;
            };
            assert!(Fft::cost(Level::Portable, &problem).is_finite());
            check(&fft, &problem, &image(&problem, &mut random), &format!("seed {seed}"));
        }
    }
}

#[test]
fn any_number_of_threads() {
    let seed = 13;
    let mut random = fastrand::Rng::with_seed(seed);
    for format in [PixelFormat::PLANE, PixelFormat::of::<u8, u8>(3)] {
        let filter = Filter::new(mask(11, 9, true, &mut random)).border(Border::Mirror);
        let problem = Problem::new(201, 155, &filter).unwrap().with_format(format).unwrap();
        let source = image(&problem, &mut random);
        let mut expected: Option<Vec<u32>> = None;
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let fft = sized(&problem, 50, 40);
            let found: Vec<u32> =
                pool.install(|| run(&fft, &problem, &source)).iter().map(|value| value.to_bits()).collect();
            assert!(expected.get_or_insert_with(|| found.clone()) == &found, "seed {seed}, {threads} threads");
        }
    }
}

#[test]
fn what_can_not_be_served_is_refused() {
    let mut random = fastrand::Rng::with_seed(14);
    let problem = |mask: Mask, format: PixelFormat, accuracy: Accuracy| {
        let filter = Filter::new(mask).accuracy(accuracy);
        Problem::new(500, 400, &filter).unwrap().with_format(format).unwrap()
    };
    let (plane, bytes) = (PixelFormat::PLANE, PixelFormat::of::<u8, u8>(1));
    let exact = problem(mask(9, 9, true, &mut random), plane, Accuracy::Exact);
    assert!(Fft::new(Level::chosen().unwrap(), &exact).is_none());
    let words = problem(mask(63, 63, true, &mut random), PixelFormat::of::<u16, u16>(1), Accuracy::Bounded);
    assert!(Fft::new(Level::chosen().unwrap(), &words).is_none(), "half an ulp is too much");
    assert!(Fft::cost(Level::Portable, &words) > 3969.0);
    for value in [f32::NAN, f32::INFINITY] {
        let problem = problem(Mask::new(2, 2, vec![1.0, 1.0, value, 1.0]).unwrap(), plane, Accuracy::Bounded);
        assert!(
            Fft::new(Level::chosen().unwrap(), &problem).is_none()
                && Fft::cost(Level::Portable, &problem).is_infinite()
        );
    }
    let tiny = problem(Mask::average(1, 1).unwrap(), bytes, Accuracy::Bounded);
    assert!(Fft::new(Level::chosen().unwrap(), &tiny).is_none());
    let filter = Filter::new(mask(1 << 15, 1, true, &mut random));
    assert!(Fft::new(Level::chosen().unwrap(), &Problem::new(9, 9, &filter).unwrap()).is_none());
}

#[test]
fn bounds_are_stated() {
    let mut random = fastrand::Rng::with_seed(15);
    let filter = Filter::new(mask(9, 5, true, &mut random));
    let plane = Problem::new(50, 40, &filter).unwrap();
    let bound = Fft::new(Level::chosen().unwrap(), &plane).unwrap().bound(&plane);
    assert_eq!((bound.class(), bound.constant()), (Accuracy::Bounded, 45.0));
    let bytes = plane.with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
    assert_eq!(Fft::new(Level::chosen().unwrap(), &bytes).unwrap().bound(&bytes).class(), Accuracy::Exact);
}

/// Sizes grow with masks, and none is larger than what an image needs.
#[test]
fn sizes() {
    let size = |width, height, mask| TileSize::of([mask; 2], [width, height]).unwrap();
    for (width, height, mask) in [(1, 1, 3), (2048, 2048, 31), (4096, 100, 63), (7, 9, 301), (300, 5000, 128)] {
        let TileSize { width: across, height: down, columns, rows, nanoseconds } = size(width, height, mask);
        assert!(columns <= width && rows <= height && columns > 0 && rows > 0);
        assert!(across >= columns + mask - 1 && down >= rows + mask - 1, "{across} x {down}");
        assert!(across < 4 * (width + mask).max(8) && nanoseconds >= TileSize::LEAST_NANOSECONDS);
    }
    assert!(size(2048, 2048, 127).width > size(2048, 2048, 15).width);
}
