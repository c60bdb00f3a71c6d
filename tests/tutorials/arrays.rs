//! Kernels on one-dimensional arrays: the CuPy notebook's.

use faltung::Device;
use host::tutorial::launch::{InBlocks, Launcher};
use kernels_gpu::tutorials::mean_1d::{MeanFilter1dNaive, MeanFilter1dShared, MeanFilter1dVectors};
use kernels_gpu::tutorials::pointwise::{AddConstant, AdjustBrightness2d, NormaliseAndClip};
use kernels_gpu::tutorials::reduce::{FinalSum, SumReduction, SumShuffle};
use libtest_mimic::Failed;

use crate::data::{LENGTHS, U, close, gamma, launcher, same, values};

/// Blocks of a thread, of less than a warp, of no power of two, and the largest.
const BLOCKS: [u32; 6] = [1, 7, 32, 100, 256, 1024];

/// One rounding each: the f64 result, rounded.
pub(crate) fn pointwise(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for (length, block) in LENGTHS.into_iter().flat_map(|length| BLOCKS.map(|block| (length, block))) {
        let mut input = values(&mut random, length);
        for (place, special) in
            input.iter_mut().zip([f32::NAN, f32::INFINITY, -f32::INFINITY, -0.0, f32::MIN_POSITIVE / 4.0])
        {
            *place = special;
        }
        let launcher = launcher(device)?;
        let from = launcher.upload("input", &input)?;
        let size = length as u32;
        let mut sums = launcher.allocate("sums", length)?;
        launcher.launch(&InBlocks(block, AddConstant { input: &from, output: &mut sums, constant: 10.25, size }))?;
        let expected: Vec<f32> = input.iter().map(|&value| (f64::from(value) + 10.25) as f32).collect();
        same(&format!("add_constant, {length} by {block}"), &launcher.download(&sums)?, &expected)?;

        for scale in [3.0_f32, 0.0, -0.0, -7.5] {
            let (min, max) = (-1.0, 1.0);
            let mut clipped = launcher.allocate("clipped", length)?;
            let call = NormaliseAndClip { input: &from, output: &mut clipped, min, max, scale, size };
            launcher.launch(&InBlocks(block, call))?;
            let exact = |value: f32| if scale == 0.0 { 0.0 } else { f64::from(value) / f64::from(scale) };
            let expected: Vec<f32> = input.iter().map(|&value| (exact(value) as f32).clamp(min, max)).collect();
            same(
                &format!("normalise_and_clip, {length} by {block}, scale {scale}"),
                &launcher.download(&clipped)?,
                &expected,
            )?;
        }
    }
    Ok(())
}

pub(crate) fn brightness(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for (width, height) in [(0, 3), (1, 1), (15, 17), (16, 16), (17, 33), (64, 5)] {
        let image: Vec<f32> = (0..width * height).map(|_| 300.0 * random.f32() - 20.0).collect();
        for (block_x, block_y) in [(16, 16), (32, 1), (5, 3)] {
            for brightness in [50.0, -400.0, 0.0] {
                let launcher = launcher(device)?;
                let from = launcher.upload("image", &image)?;
                let mut to = launcher.allocate("output", image.len())?;
                let (width, height) = (width as u32, height as u32);
                let call = AdjustBrightness2d { image: &from, output: &mut to, brightness, width, height };
                launcher.launch(&InBlocks((block_x, block_y), call))?;
                let expected: Vec<f32> = image.iter().map(|&value| (value + brightness).clamp(0.0, 255.0)).collect();
                same(&format!("{width} x {height} by {block_x} x {block_y}"), &launcher.download(&to)?, &expected)?;
            }
        }
    }
    Ok(())
}

/// Position `i` on `0..length`, mirrored by walking.
fn mirrored(mut i: i64, length: i64) -> usize {
    while !(0..length).contains(&i) {
        if length == 1 {
            return 0;
        }
        i = if i < 0 { -i } else { 2 * (length - 1) - i };
    }
    i as usize
}

/// The mean in f64, and what f32 may be off by.
fn exact_mean(input: &[f32], i: usize, radius: i64) -> (f64, f64) {
    let window = (2 * radius + 1) as f64;
    let (mut sum, mut magnitude) = (0.0, 0.0);
    for j in i as i64 - radius..=i as i64 + radius {
        let value = f64::from(input[mirrored(j, input.len() as i64)]);
        (sum, magnitude) = (sum + value, magnitude + value.abs());
    }
    let mean = sum / window;
    (mean, gamma(window as usize) * magnitude / window * (1.0 + U) + U * mean.abs() + f64::from(f32::MIN_POSITIVE))
}

pub(crate) fn means(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for length in LENGTHS {
        let input = values(&mut random, length);
        for (radius, block) in
            [(0, 32), (1, 1), (2, 33), (3, 256), (5, 64), (8, 100), (8, 256), (40, 32), (300, 256), (1000, 64)]
        {
            let launcher = launcher(device)?;
            let from = launcher.upload("input", &input)?;
            let size = length as u32;
            let mut naive = launcher.allocate("naive", length)?;
            launcher.launch(&InBlocks(block, MeanFilter1dNaive { input: &from, output: &mut naive, size, radius }))?;
            let naive = launcher.download(&naive)?;
            let expected: Vec<_> = (0..length).map(|i| exact_mean(&input, i, radius.into())).collect();
            let what = format!("{length} elements, radius {radius}, block {block}");
            close(&what, &naive, &expected)?;
            let mut vectors = launcher.allocate("vectors", length)?;
            launcher
                .launch(&InBlocks(block, MeanFilter1dVectors { input: &from, output: &mut vectors, size, radius }))?;
            same(&format!("{what}, vectors"), &launcher.download(&vectors)?, &naive)?;
            let window = 2 * radius + 1;
            for piece in [1, 5, window, window + 10].into_iter().filter(|&piece| piece > 3 || radius < 20) {
                let mut shared = launcher.allocate("shared", length)?;
                let call = MeanFilter1dShared { input: &from, output: &mut shared, size, radius, piece };
                launcher.launch(&InBlocks(block, call))?;
                same(&format!("{what}, piece {piece}"), &launcher.download(&shared)?, &naive)?;
            }
        }
    }
    Ok(())
}

/// Both sums of an array: by the tree with this block and a serial pass, and by shuffles with this number of blocks.
fn both_sums(launcher: &Launcher, input: &[f32], block: u32, blocks: u32) -> Result<[f32; 2], Failed> {
    let from = launcher.upload("input", input)?;
    let size = input.len() as u32;
    let count = input.len().div_ceil(block as usize).max(1);
    let mut partial = launcher.allocate("partial sums", count)?;
    let mut total = launcher.allocate("total", 1)?;
    launcher.launch(&InBlocks(block, SumReduction { input: &from, output: &mut partial, size }))?;
    launcher.launch(&FinalSum { partial_sums: &partial, total: &mut total, count: count as u32 })?;
    let tree = launcher.download(&total)?[0];

    let mut partial = launcher.allocate("partial sums", blocks as usize)?;
    let mut total = launcher.allocate("total", 1)?;
    launcher.launch(&SumShuffle { input: &from, output: &mut partial, size })?;
    launcher.launch(&SumShuffle { input: &partial, output: &mut total, size: blocks })?;
    Ok([tree, launcher.download(&total)?[0]])
}

const BLOCKS_OF_TREES: [u32; 10] = [1, 2, 3, 31, 32, 33, 100, 256, 1000, 1024];

pub(crate) fn sums(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for length in LENGTHS {
        let input = values(&mut random, length);
        let exact: f64 = input.iter().map(|&value| f64::from(value)).sum();
        let magnitude: f64 = input.iter().map(|&value| f64::from(value).abs()).sum();
        for (block, blocks) in BLOCKS_OF_TREES.into_iter().zip([1, 2, 3, 7, 32, 33, 300, 1, 5, 9]) {
            let [tree, shuffles] = both_sums(&launcher(device)?, &input, block, blocks)?;
            // Levels of the tree and additions of the serial pass; a thread's chain, ten exchanges, and once more.
            let depth = block.ilog2() as usize + 1 + length.div_ceil(block as usize);
            close(&format!("tree, {length} by {block}"), &[tree], &[(exact, gamma(depth) * magnitude)])?;
            let depth = length.div_ceil(256 * blocks as usize) + 10 + (blocks as usize).div_ceil(256) + 10;
            close(&format!("shuffles, {length} by {blocks}"), &[shuffles], &[(exact, gamma(depth) * magnitude)])?;
        }
    }
    Ok(())
}

/// Small integers have exact sums in any order: one element that is lost or counted twice shows.
pub(crate) fn sums_of_integers(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for length in LENGTHS {
        let input: Vec<f32> = (0..length).map(|_| f32::from(random.u16(1..1000))).collect();
        let expected = input.iter().fold(0.0, |sum, &value| sum + f64::from(value)) as f32;
        for (block, blocks) in BLOCKS_OF_TREES.into_iter().zip([1, 2, 3, 7, 32, 33, 300, 1, 5, 9]) {
            let found = both_sums(&launcher(device)?, &input, block, blocks)?;
            same(&format!("{length} integers by {block}, {blocks}"), &found, &[expected; 2])?;
        }
    }
    Ok(())
}
