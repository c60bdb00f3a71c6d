//! The tensor cores' variant for separable masks on the emulator, against the oracle within its bound: all sizes, and
//! contents that two short parts might not hold.

use faltung::{Border, Device, Filter, Image, Mask, Operation, Problem, VariantChoice};
use host::compare::{Comparison, with_oracle};
use host::oracle::Oracle;
use kernels_gpu::registry::Variant;

use super::{is_in_sweep, noise};

/// The value of a pixel, by column and row.
type Content<'a> = &'a dyn Fn(usize, usize) -> f32;

/// A mask that is a column of `height` times a row of `width`.
fn product(column: impl Fn(usize) -> f32, height: usize, row: impl Fn(usize) -> f32, width: usize) -> Mask {
    let values = (0..height).flat_map(|k| (0..width).map(|l| column(k) * row(l)).collect::<Vec<_>>()).collect();
    Mask::new(width, height, values).expect("a mask")
}

/// A bell of `count` values, `spread` standard deviations to either end.
fn bell(count: usize, spread: f32) -> impl Fn(usize) -> f32 {
    move |i| {
        let x = (2.0 * i as f32 / (count as f32 - 1.0) - 1.0) * spread;
        (-0.5 * x * x).exp()
    }
}

/// What the variant makes of an image, and how it compares with the oracle.
fn compare(filter: &Filter, image: &Image) -> faltung::Result<(Image, Comparison)> {
    let problem = Problem::new(image.width(), image.height(), filter)?;
    let device = Device::emulator(1);
    let convolution = device.prepare(&problem, VariantChoice::Named(Variant::SeparableTensorCore))?;
    let found: Image = convolution.apply(image)?;
    let comparison = with_oracle(&Oracle::new(&problem, image.values()), &problem, found.values(), convolution.bound());
    Ok((found, comparison))
}

/// Sizes at which blocks begin and end, all borders, anchors, odd images.
#[test]
fn results_are_within_the_bound() -> faltung::Result<()> {
    const MASKS: [(usize, usize); 13] = [
        (1, 1),
        (2, 3),
        (33, 2),
        (34, 1),
        (3, 49),
        (62, 4),
        (65, 2),
        (3, 65),
        (5, 63),
        (66, 3),
        (2, 97),
        (126, 1),
        (2, 129),
    ];
    const IMAGES: [(usize, usize); 4] = [(1, 1), (37, 19), (400, 33), (193, 50)];
    const BORDERS: [Border; 6] =
        [Border::ZERO, Border::Constant(2.5), Border::Clamp, Border::Mirror, Border::Reflect, Border::Wrap];
    for (i, &(mask_width, mask_height)) in MASKS.iter().enumerate() {
        let (row, column) = (noise(mask_width, i as u64), noise(mask_height, 100 + i as u64));
        let mask = product(|k| column[k], mask_height, |l| row[l], mask_width);
        for (j, &(width, height)) in IMAGES.iter().enumerate().filter(|(j, _)| is_in_sweep(i + j, 2)) {
            let border = BORDERS[(i + j) % BORDERS.len()];
            let filter = Filter::new(mask.clone()).border(border);
            let filter = if j == 3 { filter.anchor(mask_height - 1, mask_width / 3) } else { filter };
            let filter = if j == 2 { filter.operation(Operation::Correlate).scale(-2.5).offset(0.25) } else { filter };
            let image = Image::new(width, height, 1, noise(width * height, 1000 + j as u64))?;
            let (_, comparison) = compare(&filter, &image)?;
            assert!(
                comparison.passes(),
                "{mask_width} x {mask_height} on {width} x {height}, {border}: {comparison:?}"
            );
        }
    }
    Ok(())
}

/// Contents of all magnitudes: huge and tiny numbers, near and far from each other, and what is no number.
#[test]
fn any_content_is_within_the_bound() -> faltung::Result<()> {
    const WIDTH: usize = 330;
    const HEIGHT: usize = 70;
    let gauss = product(bell(5, 2.0), 5, bell(31, 3.5), 31);
    let narrow = product(bell(31, 5.0), 31, bell(3, 5.0), 3);
    // Its row sums to nothing.
    let edge = product(bell(4, 1.0), 4, |l| bell(31, 3.0)(l) * (l as f32 - 15.0), 31);
    let random = noise(WIDTH * HEIGHT, 7);
    let scales = noise(WIDTH * HEIGHT, 8);
    let at = |x: usize, y: usize| random[y * WIDTH + x];
    let contents: [(&str, Content<'_>); 12] = [
        ("noise", &at),
        ("zeros", &|_, _| 0.0),
        ("an impulse", &|x, y| if (x, y) == (200, 35) { 1.0 } else { 0.0 }),
        ("huge", &|x, y| at(x, y) * 3e37),
        ("small", &|x, y| at(x, y) * 1e-30),
        ("denormal", &|x, y| at(x, y) * 1e-40),
        ("of all magnitudes", &|x, y| at(x, y) * 10.0_f32.powf(30.0 * scales[y * WIDTH + x])),
        ("rows of all magnitudes", &|x, y| at(x, y) * 10.0_f32.powf(20.0 * scales[y * WIDTH])),
        ("dark beside bright", &|x, y| at(x, y) * if x < 90 { 1e3 } else { 1e-9 }),
        ("stars", &|x, y| if x % 41 == 3 && y % 37 == 5 { 1e3 } else { at(x, y) * 1e-12 }),
        ("flat", &|x, y| {
            if x > 100 && x < 130 {
                0.0
            } else if y < 60 {
                1.0
            } else {
                1e-9
            }
        }),
        ("a ramp", &|x, y| x as f32 * 0.37 + y as f32),
    ];
    let masks = [("gauss", gauss), ("narrow", narrow), ("edge", edge)];
    for (i, (name, content)) in contents.into_iter().enumerate() {
        let image = Image::from_fn(WIDTH, HEIGHT, content)?;
        for (_, (mask_name, mask)) in masks.iter().enumerate().filter(|(j, _)| is_in_sweep(i + j, 2)) {
            let (_, comparison) = compare(&Filter::new(mask.clone()), &image)?;
            assert!(comparison.passes(), "{name}, {mask_name}: {comparison:?}");
        }
    }
    Ok(())
}

/// NaN and infinity touch the outputs whose window holds them, and no others; those are as good as without them.
#[test]
fn what_is_no_number_touches_its_own_outputs() -> faltung::Result<()> {
    let random = noise(400 * 60, 9);
    let image = Image::from_fn(400, 60, |x, y| match (x, y) {
        (50, 20) => f32::NAN,
        (210, 30) => f32::INFINITY,
        (380, 58) => f32::NEG_INFINITY,
        _ => random[y * 400 + x],
    })?;
    let mask = product(|_| 1.0, 5, |l| 1.0 + l as f32, 9);
    let (found, comparison) = compare(&Filter::new(mask), &image)?;
    assert!(comparison.passes(), "{comparison:?}");
    let touched = found.values().iter().filter(|value| !value.is_finite()).count();
    assert_eq!(touched, 45 + 45 + 4 * 9);
    Ok(())
}
