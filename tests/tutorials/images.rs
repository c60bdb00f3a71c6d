//! Numba's convolution and that of the course, on images whose sizes are no multiples of a tile.

use faltung::Device;
use host::tutorial::launch::KernelCall;
use kernels_gpu::tutorials::hpp::HPP_MASK;
use kernels_gpu::tutorials::hpp::{HppConstant, HppTile, HppTileBusy};
use kernels_gpu::tutorials::numba::{NumbaConvolve, NumbaConvolveByColumns};
use libtest_mimic::Failed;

use crate::data::{close, gamma, launcher, values};

/// The tutorial's formula, in f64: the mask backwards, zeros outside. Each with what f32 may be off by.
fn numba_exact(
    image: &[f32],
    (rows, columns): (i64, i64),
    mask: &[f32],
    (mask_rows, mask_columns): (i64, i64),
) -> Vec<(f64, f64)> {
    let at = |i: i64, j: i64| {
        let inside = (0..rows).contains(&i) && (0..columns).contains(&j);
        if inside { f64::from(image[(i * columns + j) as usize]) } else { 0.0 }
    };
    let pixel = |i: i64, j: i64| {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for (k, l) in (0..mask_rows).flat_map(|k| (0..mask_columns).map(move |l| (k, l))) {
            let coefficient = f64::from(mask[(k * mask_columns + l) as usize]);
            let product = coefficient * at(i - k + mask_rows / 2, j - l + mask_columns / 2);
            (sum, magnitude) = (sum + product, magnitude + product.abs());
        }
        (sum, gamma(mask.len()) * magnitude)
    };
    (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).map(|(i, j)| pixel(i, j)).collect()
}

pub(crate) fn numba(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sizes = [(1, 1), (1, 40), (40, 1), (31, 33), (32, 32), (33, 31), (65, 37)];
    for ((rows, columns), mask_size) in
        sizes.into_iter().flat_map(|size| [(1, 1), (3, 3), (1, 5), (5, 3), (13, 13), (4, 2)].map(|mask| (size, mask)))
    {
        let image = values(&mut random, rows * columns);
        let mask = values(&mut random, mask_size.0 * mask_size.1);
        let expected =
            numba_exact(&image, (rows as i64, columns as i64), &mask, (mask_size.0 as i64, mask_size.1 as i64));
        for by_columns in [false, true] {
            let launcher = launcher(device)?;
            let (from, of_mask) = (launcher.upload("image", &image)?, launcher.upload("mask", &mask)?);
            let mut to = launcher.allocate("result", image.len())?;
            let (rows, columns) = (rows as u32, columns as u32);
            let (mask_rows, mask_columns) = (mask_size.0 as u32, mask_size.1 as u32);
            let (result, image, mask) = (&mut to, &from, &of_mask);
            if by_columns {
                launcher.launch(&NumbaConvolveByColumns {
                    result,
                    mask,
                    image,
                    rows,
                    columns,
                    mask_rows,
                    mask_columns,
                })?;
            } else {
                launcher.launch(&NumbaConvolve { result, mask, image, rows, columns, mask_rows, mask_columns })?;
            }
            let what = format!("{rows} x {columns}, mask {mask_rows} x {mask_columns}, by columns: {by_columns}");
            close(&what, &launcher.download(&to)?, &expected)?;
        }
    }
    Ok(())
}

/// The course's formula, in f64.
fn hpp_exact(image: &[f32], width: i64, height: i64, mask: &[f32]) -> Vec<(f64, f64)> {
    let value = |x: i64, y: i64, c: i64| {
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for (k, l) in (0..5).flat_map(|k| (0..5).map(move |l| (k, l))) {
            let (row, column) = (y - 2 + k, x - 2 + l);
            if (0..height).contains(&row) && (0..width).contains(&column) {
                let pixel = f64::from(image[((row * width + column) * 3 + c) as usize]);
                let product = f64::from(mask[(k * 5 + l) as usize]) * pixel;
                (sum, magnitude) = (sum + product, magnitude + product.abs());
            }
        }
        (sum, gamma(25) * magnitude)
    };
    let all = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| (x, y, c))));
    all.map(|(x, y, c)| value(x, y, c)).collect()
}

/// Sizes around the tiles of both kernels, with rows that are dense, padded, and apart by an odd number.
pub(crate) fn hpp(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let sizes = [(1, 1), (1, 30), (30, 1), (11, 13), (12, 12), (13, 24), (25, 16), (31, 7), (32, 8), (33, 9), (50, 37)];
    for (width, height) in sizes {
        let image = values(&mut random, 3 * width * height);
        let mask = values(&mut random, 25);
        let expected = hpp_exact(&image, width as i64, height as i64, &mask);
        for pitch in [3 * width, (3 * width).next_multiple_of(32), 3 * width + 7] {
            // NaN between the rows: it must not matter.
            let mut spread = vec![f32::NAN; pitch * height];
            for (to, from) in spread.chunks_exact_mut(pitch).zip(image.chunks_exact(3 * width)) {
                to[..3 * width].copy_from_slice(from);
            }
            for kernel in ["hpp_constant", "hpp_tile", "hpp_tile_busy"] {
                let launcher = launcher(device)?;
                launcher.set_constant::<HppTile<'_>>(HPP_MASK, &mask)?;
                let from = launcher.upload("image", &spread)?;
                let mut to = launcher.upload("result", &vec![-77.0; spread.len()])?;
                let (image, result) = (&from, &mut to);
                let (w, h, p) = (width as u32, height as u32, pitch as u32);
                let call: Box<dyn KernelCall + '_> = match kernel {
                    "hpp_constant" => Box::new(HppConstant { image, result, width: w, height: h, pitch: p }),
                    "hpp_tile" => Box::new(HppTile { image, result, width: w, height: h, pitch: p }),
                    _ => Box::new(HppTileBusy { image, result, width: w, height: h, pitch: p }),
                };
                launcher.launch(&*call)?;
                drop(call);
                let found = launcher.download(&to)?;
                let what = format!("{kernel}, {width} x {height}, pitch {pitch}");
                let rows: Vec<f32> = found.chunks_exact(pitch).flat_map(|row| row[..3 * width].to_vec()).collect();
                close(&what, &rows, &expected)?;
                if found.chunks_exact(pitch).any(|row| row[3 * width..].iter().any(|&gap| gap != -77.0)) {
                    return Err(format!("{what}: something was written between the rows").into());
                }
            }
        }
    }
    Ok(())
}
