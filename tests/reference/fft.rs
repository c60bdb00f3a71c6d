//! The Fourier transforms of tiles on the emulator, against the oracle within their bound: all sizes, and contents that
//! leave a transform no digits. A pair of tiles of `fft_passes` takes a second, so it has fewer cases.

use cuda_emulator::{Emulator, Launch, Memory, Role};
use faltung::plan::{Limits, Plan};
use faltung::{Accuracy, Border, Filter, Image, Mask, Operation, Problem, VariantChoice};
use host::compare::with_oracle;
use host::oracle::Oracle;
use kernels_gpu::fft::tile::valid;
use kernels_gpu::registry::Function;
use kernels_gpu::registry::Variant::{FftPasses, FftTile};

use super::{BORDERS, compare, is_in_sweep, noise, ordered_sums};

/// Columns and rows.
type Size = (usize, usize);

/// The value of a pixel, by column and row.
type Content<'a> = &'a dyn Fn(usize, usize) -> f32;

/// A mask by row and column.
fn mask(width: usize, height: usize, coefficient: impl Fn(usize, usize) -> f32) -> faltung::Result<Mask> {
    Mask::new(width, height, (0..width * height).map(|i| coefficient(i / width, i % width)).collect())
}

/// Coefficients in 0 to 1.
pub(super) fn positive(width: usize, height: usize, seed: u64) -> faltung::Result<Mask> {
    Mask::new(width, height, noise(width * height, seed).iter().map(|value| value.abs()).collect())
}

/// Pixels in 0 to 1.
fn bright(width: usize, height: usize, seed: u64) -> faltung::Result<Image> {
    Image::new(width, height, 1, noise(width * height, seed).iter().map(|value| value.abs()).collect())
}

/// Sizes at which tiles and pairs of tiles begin and end, all borders, anchors, masks larger than the image.
#[test]
fn results_are_within_the_bound() -> faltung::Result<()> {
    const MASKS: [(usize, usize); 8] = [(1, 1), (2, 3), (13, 13), (31, 31), (64, 64), (64, 3), (3, 64), (20, 41)];
    let mut number = 0;
    for (mask_width, mask_height) in MASKS {
        let (columns, rows) = valid((mask_width as u32, mask_height as u32));
        let (columns, rows) = (columns as usize, rows as usize);
        let images = [
            (1, 1),
            (1, 2 * rows + 1),
            (2 * columns + 1, 1),
            (columns - 1, rows),
            (columns + 1, rows + 1),
            (2 * columns - 1, 2 * rows - 1),
            (2 * columns, 2 * rows),
            (127, 130),
            (128, 129),
            // The pair in the middle lies in the image.
            (4 * columns + 250, rows + 200),
        ];
        for (i, (width, height)) in images.into_iter().enumerate() {
            number += 1;
            if !is_in_sweep(number, 2) {
                continue;
            }
            let border = BORDERS[number % BORDERS.len()];
            let filter = Filter::new(positive(mask_width, mask_height, number as u64)?).border(border);
            let filter = if i % 3 == 1 { filter.anchor(mask_height - 1, 0) } else { filter };
            let filter =
                if i % 3 == 2 { filter.operation(Operation::Correlate).scale(-2.5).offset(0.25) } else { filter };
            let (_, comparison) = compare(FftTile, &filter, &bright(width, height, 1000 + number as u64)?)?;
            assert!(
                comparison.passes(),
                "mask of {mask_width} x {mask_height} on {width} x {height}, {border}: {comparison:?}"
            );
        }
    }
    Ok(())
}

/// Contents of all magnitudes, and masks whose products cancel.
#[test]
fn any_content_is_within_the_bound() -> faltung::Result<()> {
    const WIDTH: usize = 330;
    const HEIGHT: usize = 120;
    let random = noise(WIDTH * HEIGHT, 7);
    let at = |x: usize, y: usize| random[y * WIDTH + x];
    let light = |x: usize, y: usize| at(x, y).abs();
    let contents: [(&str, Content<'_>); 15] = [
        ("noise of both signs", &at),
        ("light", &light),
        ("zeros", &|_, _| 0.0),
        ("a constant", &|_, _| 0.7),
        ("an impulse", &|x, y| if (x, y) == (200, 35) { 1.0 } else { 0.0 }),
        ("one pixel 10^7 times brighter", &|x, y| if (x, y) == (150, 60) { 1e7 } else { light(x, y) }),
        ("black beside white", &|x, _| if x < 77 { 0.0 } else { 1.0 }),
        ("light and shadow", &|x, y| if x % 90 < 30 { 0.001 * light(x, y) } else { light(x, y) }),
        ("a checkerboard", &|x, y| if (x + y) % 2 == 0 { 1.0 } else { -1.0 }),
        ("almost a checkerboard", &|x, y| if (x + y) % 2 == 0 { 1.0 } else { -0.999 }),
        ("near overflow", &|x, y| light(x, y) * 1e36),
        ("of the largest numbers", &|x, y| if (x, y) == (99, 3) { f32::MAX } else { light(x, y) }),
        ("squares overflow", &|x, y| light(x, y) * 1e20),
        ("squares underflow", &|x, y| light(x, y) * 1e-24),
        ("denormal numbers", &|x, y| light(x, y) * 1e-40),
    ];
    let squared = |k: usize, l: usize| ((k as f32 - 8.0).powi(2) + (l as f32 - 8.0).powi(2)) / 8.0;
    let masks = [
        ("positive", positive(33, 20, 1)?),
        ("both signs", Mask::new(24, 31, noise(24 * 31, 2))?),
        // A Laplacian of a Gaussian: the sum of the coefficients is nearly 0.
        ("cancelling", mask(17, 17, |k, l| (1.0 - squared(k, l) / 2.0) * (-squared(k, l) / 2.0).exp())?),
        ("small", positive(5, 7, 3)?),
    ];
    let mut number = 0;
    for (name, content) in contents {
        let image = Image::from_fn(WIDTH, HEIGHT, content)?;
        for (mask_name, weights) in &masks {
            number += 1;
            if !is_in_sweep(number, 3) {
                continue;
            }
            let border = [Border::Mirror, Border::ZERO, Border::Clamp][number % 3];
            for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
                let (_, comparison) =
                    compare(FftTile, &Filter::new(weights.clone()).border(border).accuracy(accuracy), &image)?;
                assert!(comparison.passes(), "{name}, {mask_name}, {accuracy}: {comparison:?}");
            }
        }
    }
    Ok(())
}

/// NaN and infinity touch the outputs whose window holds them, and no others; those are as good as without them.
#[test]
fn what_is_no_number_touches_its_own_outputs() -> faltung::Result<()> {
    for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
        no_number_touches_other_outputs(accuracy)?;
    }
    Ok(())
}

fn no_number_touches_other_outputs(accuracy: Accuracy) -> faltung::Result<()> {
    let random = noise(400 * 130, 9);
    let image = Image::from_fn(400, 130, |x, y| match (x, y) {
        (0, 0) => f32::NAN,
        (210, 30) => f32::INFINITY,
        (399, 129) => f32::NEG_INFINITY,
        _ => random[y * 400 + x],
    })?;
    let weights = mask(9, 31, |k, l| 1.0 + (k * 9 + l) as f32)?;
    let (found, comparison) = compare(FftTile, &Filter::new(weights).accuracy(accuracy), &image)?;
    assert!(comparison.passes(), "{comparison:?}");
    let touched = found.values().iter().filter(|value| !value.is_finite()).count();
    assert_eq!(touched, 5 * 16 + 9 * 31 + 5 * 16);
    Ok(())
}

/// No result could be proven. Kernels for ordered sums take such masks.
#[test]
fn masks_with_nan_and_infinity_are_refused() -> faltung::Result<()> {
    for value in [f32::NAN, f32::INFINITY, 3e38] {
        let weights = mask(7, 6, |k, l| if (k, l) == (2, 3) { value } else { 1.0 })?;
        for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
            let compared = compare(FftTile, &Filter::new(weights.clone()).accuracy(accuracy), &bright(140, 40, 3)?);
            if value.is_finite() {
                let (_, comparison) = compared?;
                assert!(comparison.passes(), "{value}, {accuracy}: {comparison:?}");
            } else {
                let refused = compared.unwrap_err().to_string();
                assert!(refused.contains("must be finite as f32"), "{value}, {accuracy}: {refused}");
            }
        }
    }
    Ok(())
}

/// The three ways to a result: the transform, a window by a warp, and all of a pair of tiles in order.
#[test]
fn each_way_is_taken() -> faltung::Result<()> {
    let filter = Filter::new(positive(31, 31, 5)?).border(Border::Clamp);
    let part_of = |accuracy: Accuracy, image: &Image| -> faltung::Result<f64> {
        let (found, comparison) = compare(FftTile, &filter.clone().accuracy(accuracy), image)?;
        assert!(comparison.passes(), "{comparison:?}");
        let same = ordered_sums(&filter, image, &found)?;
        println!("{same} of {} results have the bits of the ordered sum; {comparison:?}", found.values().len());
        Ok(same as f64 / found.values().len() as f64)
    };
    let ordered_part = |image: &Image| part_of(Accuracy::Bounded, image);
    let (width, height) = (2 * valid((31, 31)).0 as usize, valid((31, 31)).1 as usize);
    let light = bright(width, height, 6)?;
    // A transform has other bits, but for a few results by chance.
    assert!(ordered_part(&light)? < 0.5);
    // Some windows are black, and their results exactly 0. So many can't be proven that all are computed in order.
    let corner = Image::from_fn(width, height, |x, y| if x < 37 && y < 37 { 0.0 } else { light.row(y)[x] })?;
    let (found, _) = compare(FftTile, &filter, &corner)?;
    assert_eq!((found.row(10)[10], ordered_part(&corner)?), (0.0, 1.0));
    // Few windows are black in most of their pixels.
    let dark = Image::from_fn(width, height, |x, y| if x < 20 && y < 20 { 0.0 } else { light.row(y)[x] })?;
    let dark_part = ordered_part(&dark)?;
    assert!(dark_part > 0.0 && dark_part < 0.5, "{dark_part}");
    // A pixel so bright that nothing else has a digit.
    let star = Image::from_fn(width, height, |x, y| if (x, y) == (50, 50) { 1e9 } else { light.row(y)[x] })?;
    assert_eq!(ordered_part(&star)?, 1.0);
    // Sums that cancel: nothing is proven, but the norms bound the error.
    let random = noise(width * height, 8);
    let both_signs = Image::from_fn(width, height, |x, y| random[y * width + x])?;
    assert_eq!(ordered_part(&both_signs)?, 1.0);
    assert!(part_of(Accuracy::Normwise, &both_signs)? < 0.5);
    Ok(())
}

/// The kernel with a header that accepts every sum: results are wrong, and these tests see it.
#[test]
fn without_a_proof_results_are_wrong() -> faltung::Result<()> {
    /// Where the header has the factor of the least magnitude.
    const LEAST: usize = 2;
    // Rows of 32 bytes, as on a device.
    let (width, height) = (200, 98);
    let light = bright(width, height, 6)?;
    let image = Image::from_fn(width, height, |x, y| if (x, y) == (50, 50) { 1e7 } else { light.row(y)[x] })?;
    let problem = Problem::new(width, height, &Filter::new(positive(31, 31, 5)?))?;
    let plan = Plan::new(&problem, Limits::H100, VariantChoice::Named(FftTile))?;
    let Function::F32(kernel) = plan.entry.function else { unreachable!("its pixels are f32") };
    let passes = |damage: &dyn Fn(&mut f32)| {
        let mut values = plan.coefficients(&problem);
        damage(&mut values[LEAST]);
        let mut memory = Memory::new();
        let (source, mask) = (memory.upload("source", image.values()), memory.upload("mask", &values));
        let result = memory.allocate::<f32>("result", width * height, Role::Scratch);
        let (from, to, mask) = (source.global(), result.global_mut().cast(), mask.global());
        for launch in plan.launches(height, 0..height) {
            let shape = Launch::flat(launch.grid, launch.block, launch.shared_bytes);
            // SAFETY: the emulator checks every access; none reaches memory of this program.
            let run = || unsafe { kernel(from, to, mask, launch.params) };
            Emulator::new().launch(plan.entry.symbol, &shape, &mut memory, run).expect("a correct kernel");
        }
        let oracle = Oracle::new(&problem, image.values());
        with_oracle(&oracle, &problem, &memory.download(&result), plan.bound(&problem)).passes()
    };
    assert!(passes(&|_| {}));
    assert!(!passes(&|least| *least = 0.0));
    Ok(())
}

/// `fft_passes`: images that end within the first tile, at its end, in the second and in the third one; all borders,
/// anchors, masks larger than the image.
#[test]
fn results_of_passes_are_within_the_bound() -> faltung::Result<()> {
    const CASES: [(Size, Size, Border); 8] = [
        ((65, 70), (300, 40), Border::Mirror),
        ((8, 130), (1017, 20), Border::ZERO),
        ((130, 8), (896, 30), Border::Wrap),
        ((512, 5), (520, 12), Border::Clamp),
        ((40, 512), (30, 515), Border::Constant(2.5)),
        ((90, 66), (2000, 961), Border::Reflect),
        ((32, 32), (1, 1025), Border::Mirror),
        ((200, 150), (60, 90), Border::Wrap),
    ];
    for (i, ((mask_width, mask_height), (width, height), border)) in CASES.into_iter().enumerate() {
        if !is_in_sweep(i, 2) {
            continue;
        }
        let filter = Filter::new(positive(mask_width, mask_height, i as u64)?).border(border);
        let filter = if i % 4 >= 2 { filter.anchor(mask_height - 1, mask_width / 3) } else { filter };
        let filter = if i % 3 == 2 { filter.operation(Operation::Correlate).scale(-2.5).offset(0.25) } else { filter };
        let image = bright(width, height, 1000 + i as u64)?;
        let (found, comparison) = compare(FftPasses, &filter, &image)?;
        let case = format!("mask of {mask_width} x {mask_height} on {width} x {height}, {border}");
        assert!(comparison.passes(), "{case}: {comparison:?}");
        // Masks of a few coefficients prove little.
        if mask_width * mask_height > 4000 {
            let same = ordered_sums(&filter, &image, &found)?;
            assert!(same < found.values().len() / 2, "{case}: {same} results are ordered sums");
        }
    }
    Ok(())
}

/// `fft_passes`: contents that leave a transform no digits, and numbers that are none.
#[test]
fn passes_keep_the_bound_of_any_content() -> faltung::Result<()> {
    const WIDTH: usize = 150;
    const HEIGHT: usize = 70;
    let random = noise(WIDTH * HEIGHT, 7);
    let at = |x: usize, y: usize| random[y * WIDTH + x];
    let light = |x: usize, y: usize| at(x, y).abs();
    let contents: [(&str, Content<'_>); 8] = [
        ("noise of both signs", &at),
        ("NaN", &|x, y| if (x, y) == (100, 20) { f32::NAN } else { light(x, y) }),
        ("infinity", &|x, y| if (x, y) == (149, 0) { f32::NEG_INFINITY } else { light(x, y) }),
        ("one pixel 10^7 times brighter", &|x, y| if (x, y) == (90, 60) { 1e7 } else { light(x, y) }),
        ("zeros", &|_, _| 0.0),
        ("almost a checkerboard", &|x, y| if (x + y) % 2 == 0 { 1.0 } else { -0.999 }),
        ("squares overflow", &|x, y| light(x, y) * 1e20),
        ("denormal numbers", &|x, y| light(x, y) * 1e-40),
    ];
    for (number, (name, content)) in contents.into_iter().enumerate() {
        if !is_in_sweep(number, 2) {
            continue;
        }
        let image = Image::from_fn(WIDTH, HEIGHT, content)?;
        let border = [Border::Mirror, Border::ZERO, Border::Clamp][number % 3];
        let filter = Filter::new(positive(66, 30, 1)?).border(border);
        for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
            let (_, comparison) = compare(FftPasses, &filter.clone().accuracy(accuracy), &image)?;
            assert!(comparison.passes(), "{name}, {accuracy}: {comparison:?}");
        }
    }
    Ok(())
}

/// `fft_passes`: a part of the results fails. Few are computed window by window, many all in order.
#[test]
fn passes_compute_again_what_fails() -> faltung::Result<()> {
    let filter = Filter::new(positive(70, 68, 5)?).border(Border::Clamp);
    let light = bright(250, 80, 6)?;
    let part = |dark: (usize, usize)| -> faltung::Result<usize> {
        let image = Image::from_fn(250, 80, |x, y| if x < dark.0 && y < dark.1 { 0.0 } else { light.row(y)[x] })?;
        let (found, comparison) = compare(FftPasses, &filter, &image)?;
        assert!(comparison.passes(), "{comparison:?}");
        ordered_sums(&filter, &image, &found)
    };
    // Windows of which all pixels are dark: the last rows and columns of the dark part are under other windows.
    let (few, many) = (part((60, 50))?, part((250, 45))?);
    println!("{few} and {many} of {} results have the bits of the ordered sum", 250 * 80);
    assert!(few < 10_000 && many > few, "{few}, {many}");
    Ok(())
}
