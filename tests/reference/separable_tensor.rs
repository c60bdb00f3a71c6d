//! The tensor cores' variant for separable masks on the emulator, against the oracle within its bound: all sizes, and
//! contents that two short parts might not hold.

use faltung::{Filter, Image, Operation};
use kernels_gpu::registry::Variant::SeparableTensorCore;

use super::{BORDERS, compare, is_in_sweep, noise, product};

/// The value of a pixel, by column and row.
type Content<'a> = &'a dyn Fn(usize, usize) -> f32;

/// A bell of `count` values, `spread` standard deviations to either end.
fn bell(count: usize, spread: f32) -> Vec<f32> {
    let value = |i: usize| {
        let x = (2.0 * i as f32 / (count as f32 - 1.0) - 1.0) * spread;
        (-0.5 * x * x).exp()
    };
    (0..count).map(value).collect()
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
    for (i, &(mask_width, mask_height)) in MASKS.iter().enumerate() {
        let (row, column) = (noise(mask_width, i as u64), noise(mask_height, 100 + i as u64));
        let mask = product(&column, &row)?;
        for (j, &(width, height)) in IMAGES.iter().enumerate().filter(|(j, _)| is_in_sweep(i + j, 2)) {
            let border = BORDERS[(i + j) % BORDERS.len()];
            let filter = Filter::new(mask.clone()).border(border);
            let filter = if j == 3 { filter.anchor(mask_height - 1, mask_width / 3) } else { filter };
            let filter = if j == 2 { filter.operation(Operation::Correlate).scale(-2.5).offset(0.25) } else { filter };
            let image = Image::new(width, height, 1, noise(width * height, 1000 + j as u64))?;
            let (_, comparison) = compare(SeparableTensorCore, &filter, &image)?;
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
    let gauss = product(&bell(5, 2.0), &bell(31, 3.5))?;
    let narrow = product(&bell(31, 5.0), &bell(3, 5.0))?;
    // Its row sums to nothing.
    let slope: Vec<f32> = bell(31, 3.0).iter().zip(-15..).map(|(value, x)| value * x as f32).collect();
    let edge = product(&bell(4, 1.0), &slope)?;
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
            let (_, comparison) = compare(SeparableTensorCore, &Filter::new(mask.clone()), &image)?;
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
    let mask = product(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])?;
    let (found, comparison) = compare(SeparableTensorCore, &Filter::new(mask), &image)?;
    assert!(comparison.passes(), "{comparison:?}");
    let touched = found.values().iter().filter(|value| !value.is_finite()).count();
    assert_eq!(touched, 45 + 45 + 4 * 9);
    Ok(())
}
