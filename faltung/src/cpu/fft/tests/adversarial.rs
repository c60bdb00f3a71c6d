//! Images and masks that are meant to break the bounds, or to make them useless.

use super::*;

const WIDTH: usize = 90;
const HEIGHT: usize = 70;

fn problem(mask: Mask, format: PixelFormat) -> Problem {
    let filter = Filter::new(mask).border(Border::Mirror);
    Problem::new(WIDTH, HEIGHT, &filter).unwrap().with_format(format).unwrap()
}

fn from_fn(f: impl Fn(usize, usize) -> f32) -> Vec<f32> {
    (0..WIDTH * HEIGHT).map(|i| f(i % WIDTH, i / WIDTH)).collect()
}

/// Images by name.
fn images(random: &mut fastrand::Rng) -> Vec<(&'static str, Vec<f32>)> {
    let noise: Vec<f32> = (0..WIDTH * HEIGHT).map(|_| random.f32()).collect();
    let with = |at: usize, value: f32| {
        let mut image = noise.clone();
        image[at] = value;
        image
    };
    let times = |factor: f32| noise.iter().map(|value| value * factor).collect::<Vec<_>>();
    vec![
        ("noise", noise.clone()),
        ("bytes", times(255.0).iter().map(|value| value.round()).collect()),
        ("a bright pixel", with(35 * WIDTH + 44, 1e7)),
        ("a very bright pixel", with(20 * WIDTH + 31, 1e25)),
        ("a pixel near f32::MAX", with(0, f32::MAX)),
        ("subnormal", times(1e-39)),
        ("tiny", times(1e-30)),
        ("near f32::MAX", times(3e38)),
        ("constant", vec![100.0; WIDTH * HEIGHT]),
        ("zeros", vec![0.0; WIDTH * HEIGHT]),
        ("zeros of both signs", from_fn(|x, y| if (x + y) % 2 == 0 { -0.0 } else { 0.0 })),
        ("checkerboard", from_fn(|x, y| if (x + y) % 2 == 0 { 200.0 } else { -200.0 })),
        ("an edge", from_fn(|x, _| if x < 41 { 0.0 } else { 7.5 })),
        ("black but for a few", from_fn(|x, y| if (x * 7 + y * 13) % 911 == 0 { 90.0 } else { 0.0 })),
        ("infinity", with(33 * WIDTH + 40, f32::INFINITY)),
        ("NaN", with(WIDTH * HEIGHT - 1, f32::NAN)),
        ("half NaN", from_fn(|x, y| if x < 40 { f32::NAN } else { (x * y) as f32 })),
        (
            "NaN and infinities",
            from_fn(|x, y| match (x, y) {
                (20 | 64, 3) => f32::NAN,
                (19 | 63, 30) => f32::INFINITY,
                (21 | 65, 31) => f32::NEG_INFINITY,
                _ => 1.0 + x as f32,
            }),
        ),
    ]
}

#[test]
fn images_that_are_hard() {
    let seed = 21;
    let mut random = fastrand::Rng::with_seed(seed);
    let images = images(&mut random);
    let log = Mask::laplacian_of_gaussian(1.5).unwrap();
    let masks = [mask(12, 9, true, &mut random), mask(9, 12, false, &mut random), log];
    for (name, image) in &images {
        for mask in &masks {
            for output in PixelType::ALL {
                let problem = problem(mask.clone(), PixelFormat { channels: 1, input: PixelType::F32, output });
                check(&small_tiles(&problem, &mut random), &problem, image, &format!("seed {seed}, {name}"));
            }
        }
    }
}

/// NaN and infinity on both sides of every boundary between tiles.
#[test]
fn nonfinite_at_tile_boundaries() {
    let mut random = fastrand::Rng::with_seed(22);
    let problem = problem(mask(8, 5, true, &mut random), PixelFormat::PLANE);
    let fft = sized(&problem, 32, 24);
    let clean = from_fn(|x, y| (x * y % 17) as f32);
    for value in [f32::NAN, f32::INFINITY] {
        for (x, y) in [(24, 19), (25, 20), (49, 39), (50, 40), (0, 0), (WIDTH - 1, HEIGHT - 1)] {
            let mut image = clean.clone();
            image[y * WIDTH + x] = value;
            check(&fft, &problem, &image, &format!("{value} in {x}, {y}"));
        }
    }
}

/// Backgrounds of zeros and flat areas under a mask that cancels are accepted without being computed again.
#[test]
fn common_images_cost_little() {
    let mut random = fastrand::Rng::with_seed(23);
    let (width, height) = (400, 300);
    let results = (width * height) as f64;
    let noise: Vec<f32> = (0..width * height).map(|_| random.f32()).collect();
    let black = noise.iter().enumerate().map(|(i, value)| if i % width < 200 { 0.0 } else { *value }).collect();
    let mut one_bright = noise.clone();
    one_bright[5000] = 1e7;
    let log = Mask::laplacian_of_gaussian(3.0).unwrap();
    let positive = mask(31, 31, true, &mut random);
    for (name, mask, image, most) in [
        ("noise", positive.clone(), noise.clone(), 0.0),
        ("half black", positive.clone(), black, 1e-3),
        ("a bright pixel", positive, one_bright, 1e-3),
        ("flat under a Laplacian", log, vec![0.7; width * height], 1e-3),
    ] {
        let problem = Problem::new(width, height, &Filter::new(mask).border(Border::Clamp)).unwrap();
        let fft = Fft::new(Level::chosen().unwrap(), &problem).unwrap();
        run(&fft, &problem, &image);
        let [again, direct] = tally(&fft).map(|count| count as f64 / results);
        assert!(again <= most && direct == 0.0, "{name}: {again} again, {direct} directly");
    }
}

/// Where all products are multiples of one power of two, the bits are those of the ordered sum, in any class.
#[test]
fn whole_coefficients_are_exact() {
    let mut random = fastrand::Rng::with_seed(24);
    let coefficients = (0..13 * 11).map(|_| (random.f32() * 16.0).floor() / 4.0 - 1.0);
    let mask = Mask::new(13, 11, coefficients.collect()).unwrap();
    for (scale, offset) in [(1.0, 0.0), (0.5, 0.0), (1.0 / 143.0, 3.5), (-0.25, 100.0)] {
        for output in PixelType::ALL {
            let filter = Filter::new(mask.clone()).scale(scale).offset(offset).accuracy(Accuracy::Exact);
            let format = PixelFormat { channels: 1, input: PixelType::U8, output };
            let problem = Problem::new(WIDTH, HEIGHT, &filter).unwrap().with_format(format).unwrap();
            let fft = Fft::new(Level::chosen().unwrap(), &problem).unwrap();
            assert_eq!(fft.bound(&problem).class(), Accuracy::Exact);
            let image = from_fn(|_, y| if y < 20 { 0.0 } else { random_byte(y) });
            let [found, expected] = [run(&fft, &problem, &image), ordered(&problem, &image)];
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert!(bits(&found) == bits(&expected), "{output:?}, scale {scale}");
            assert_eq!(tally(&fft), [0, 0]);
        }
    }
}

fn random_byte(seed: usize) -> f32 {
    (seed.wrapping_mul(2_654_435_761) >> 7 & 0xff) as f32
}

/// Integers have the bits of the ordered sum, which they would not have without the bounds.
#[test]
fn without_the_bounds_integers_are_wrong() {
    let seed = 25;
    let mut random = fastrand::Rng::with_seed(seed);
    let filter = Filter::new(mask(31, 31, true, &mut random)).border(Border::Reflect);
    let problem = Problem::new(500, 300, &filter).unwrap().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
    let image: Vec<f32> = (0..problem.values()).map(|_| random.u8(..).into()).collect();
    let expected = ordered(&problem, &image);
    let wrong = |fft: &Fft| {
        let found = run(fft, &problem, &image);
        found.iter().zip(&expected).filter(|(found, expected)| found != expected).count()
    };
    let mut fft = Fft::new(Level::chosen().unwrap(), &problem).unwrap();
    assert_eq!(wrong(&fft), 0, "seed {seed}");
    let [again, direct] = tally(&fft);
    assert!(again > 0 && again < problem.values() / 50 && direct == 0, "{again} again, {direct} directly");
    fft.bounds = fft.bounds.without_errors();
    assert!(wrong(&fft) > 0, "seed {seed}: the bounds are not needed");
}

/// The same for results of `f32`: a pixel that is far brighter than the others hides them.
#[test]
fn without_the_bounds_a_bright_pixel_hides_others() {
    let mut random = fastrand::Rng::with_seed(27);
    let problem = problem(mask(9, 9, true, &mut random), PixelFormat::PLANE);
    let mut image = from_fn(|x, y| 1.0 + (x * y % 7) as f32);
    image[30 * WIDTH + 40] = 1e18;
    let mut fft = sized(&problem, 60, 60);
    check(&fft, &problem, &image, "with the bounds");
    fft.bounds = fft.bounds.without_errors();
    let found = run(&fft, &problem, &image);
    let outside = (0..WIDTH).filter(|&x| !is_within_bound(&fft, &problem, &image, (x, 10, 0), found[10 * WIDTH + x]));
    assert!(outside.count() > 0, "the bounds are not needed");
}

/// Chains at all distances, against single ones.
#[test]
fn ordered_sums_of_any_places() {
    let mut random = fastrand::Rng::with_seed(28);
    for (mask_width, mask_height) in [(1, 4), (7, 3), (8, 2), (9, 5), (31, 2)] {
        let problem = problem(mask(mask_width, mask_height, false, &mut random), PixelFormat::PLANE);
        let image: Vec<f32> = (0..problem.values()).map(|_| random.f32()).collect();
        let place = Place { left: 0, top: 0, columns: WIDTH, rows: HEIGHT, channel: 0 };
        let (columns, rows) = (WIDTH + mask_width - 1, HEIGHT + mask_height - 1);
        let mut input = load::Input::with_room(columns, rows, columns).unwrap();
        input.load(Level::chosen().unwrap(), &problem, bytes_of(&image), place);
        let expected = ordered(&problem, &image);
        for count in [1, 7, 16, 17, 40] {
            let places: Vec<_> = (0..count)
                .map(|i| if i == 0 { (WIDTH - 1, HEIGHT - 1) } else { (random.usize(..WIDTH), random.usize(..HEIGHT)) })
                .collect();
            for level in Level::available() {
                let mut seen = 0;
                let give = |i: usize, sum: f32| {
                    let (x, y) = places[i];
                    assert_eq!(sum.to_bits(), expected[y * WIDTH + x].to_bits(), "{level:?}, {x}, {y}");
                    seen += 1;
                };
                let cancel = Cancel::default();
                recompute::ordered_sums(level, problem.window(), &input, &places, &cancel, give).unwrap();
                assert_eq!(seen, count);
            }
        }
    }
}

/// The error of the transforms is far below its bound. The exact sums are whole numbers that an `f64` holds.
#[test]
fn the_transforms_are_better_than_their_bound() {
    let mut random = fastrand::Rng::with_seed(26);
    for (width, height) in [(128, 128), (256, 256), (250, 108), (486, 20), (36, 1000)] {
        let coefficients = (0..15 * 13).map(|_| random.i32(-1000..=1000) as f32).collect();
        let mask = Mask::new(15, 13, coefficients).unwrap();
        let transform = Transform::new(width, height);
        let spectrum = transform.spectrum(mask.width(), &super::coefficients(&mask, |of| of)).unwrap();
        let pixels: Vec<f64> = (0..width * height).map(|_| f64::from(random.u16(..))).collect();
        let mut buffers = transform.buffers().unwrap();
        for (y, row) in pixels.chunks_exact(width).enumerate() {
            buffers.row.copy_from_slice(row);
            transform.row_forward(&mut buffers, y);
        }
        let rows = height - 12;
        transform.multiply(&mut buffers, height, &spectrum, rows);
        let bounds = Bounds::new(&Problem::new(9, 9, &Filter::new(mask.clone())).unwrap(), width, height);
        let bound = bounds.transforms(pixels.iter().map(|pixel| pixel * pixel).sum());
        let mut worst: f64 = 0.0;
        for y in 0..rows {
            transform.row_inverse(&mut buffers, y);
            for x in (0..width - 14).step_by(7) {
                let terms = (0..13 * 15).map(|i| {
                    let (k, l) = (i / 15, i % 15);
                    f64::from(mask.at(k, l)) * pixels[(y + k) * width + x + l]
                });
                worst = worst.max((buffers.row[x] - terms.sum::<f64>()).abs());
            }
        }
        assert!(worst > 0.0 && worst < 0.02 * bound, "{width} x {height}: {worst:e} of {bound:e}");
    }
}
