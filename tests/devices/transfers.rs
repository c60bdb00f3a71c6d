//! Transfers of images to a device and back: small ones, large ones, rows with gaps, page-locked memory.

use super::*;

/// An image of more than 2^31 values, by every variant, held against the CPU at its first rows, its last rows, and
/// where the offsets outgrow 31 bits.
pub(super) fn huge() -> Result<(), Failed> {
    const BAND: usize = 20;
    let (width, height) = (65_537, 32_903);
    let mut values = vec![0_u8; width * height];
    fastrand::Rng::with_seed(SEED).fill(&mut values);
    let image = Image::new(width, height, 1, values)?;
    let filter = Filter::new(Mask::gaussian(0.8, None)?).border(Border::Mirror).anchor(0, 6);
    let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<u8, u8>(1))?;
    let device = Device::cuda(0)?;
    for variant in Variant::ALL {
        let result: Image<u8> = match device.prepare(&problem, VariantChoice::Named(variant)) {
            Ok(convolution) => convolution.apply(&image)?,
            Err(Error::Refused { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        for first in [0, (1 << 31) / width - BAND / 2, height - 2 * BAND] {
            let rows = if first == 0 || first + 2 * BAND == height { 2 * BAND } else { BAND + 16 };
            // A part of the image has other borders above and below. So only rows whose windows lie in it are
            // compared.
            let part = image.crop(0, first, width, rows)?;
            let part_problem = Problem::new(width, rows, &filter)?.with_format(PixelFormat::of::<u8, u8>(1))?;
            let right: Image<u8> = Device::cpu().prepare(&part_problem, VariantChoice::Auto)?.apply(&part)?;
            let top = if first == 0 { 0 } else { 8 };
            let bottom = if first + rows == height { rows } else { rows - 8 };
            if let Some(y) = (top..bottom).find(|&y| result.row(first + y) != right.row(y)) {
                return Err(format!("{}: row {} differs from the CPU's", variant.name(), first + y).into());
            }
        }
    }
    Ok(())
}

/// Images of several MiB through the same convolution, by every variant. From the second run on a GPU takes them in
/// bands, if image and result are in page-locked memory. Each run must be bit-exact to the first.
pub(super) fn repeated_in_bands() -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut ran = 0;
    for (height, anchor, border) in [
        (9, (4, 4), Border::ZERO),
        (9, (0, 8), Border::Mirror),
        (9, (8, 0), Border::Reflect),
        (9, (4, 4), Border::Clamp),
        (7, (3, 4), Border::Wrap),
        (31, (30, 2), Border::Mirror),
        (31, (15, 15), Border::Constant(3.0)),
    ] {
        let side = if anchor == (15, 15) { 31 } else { 9 };
        let column: Vec<f32> = (0..height).map(|_| random.f32() - 0.4).collect();
        let row: Vec<f32> = (0..side).map(|_| random.f32() - 0.4).collect();
        let mask = column.iter().flat_map(|a| row.iter().map(move |b| a * b)).collect();
        let filter = Filter::new(Mask::new(side, height, mask)?).border(border).anchor(anchor.0, anchor.1);
        ran += in_bands_of::<f32>(&filter, (1203, 1501, 1), |random| random.f32() - 0.5)?;
        ran += in_bands_of::<u16>(&filter, (1203, 701, 3), |random| random.u16(..))?;
        ran += in_bands_of::<u8>(&filter, (2500, 2003, 1), |random| random.u8(..))?;
        ran += in_bands_of::<u8>(&filter, (2048, 900, 3), |random| random.u8(..))?;
    }
    if ran > 100 { Ok(()) } else { Err(format!("only {ran} variants took part").into()) }
}

/// One problem with every variant that can, and the number of those.
fn in_bands_of<T: faltung::Pixel>(
    filter: &Filter,
    (width, height, channels): (usize, usize, usize),
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<usize, Failed> {
    let device = Device::cuda(0)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let problem = Problem::new(width, height, filter)?.with_format(PixelFormat::of::<T, T>(channels))?;
    let mut image = || -> Vec<T> { (0..problem.values()).map(|_| value(&mut random)).collect() };
    let (first, second) = (image(), image());
    let mut ran = 0;
    for variant in Variant::ALL {
        let variant = VariantChoice::Named(variant);
        let run_once = |values: &[T]| -> Result<Vec<T>, Error> {
            let mut result = vec![T::default(); values.len()];
            device.prepare(&problem, variant)?.apply_values(values, &mut result)?;
            Ok(result)
        };
        let right = match run_once(&first) {
            Ok(result) => [result, run_once(&second)?],
            Err(Error::Refused { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let convolution = device.prepare(&problem, variant)?;
        let mut locked = (device.page_locked::<T>(first.len())?, device.page_locked::<T>(first.len())?);
        for round in 0..6 {
            let (image, right) = if round % 2 == 0 { (&first, &right[0]) } else { (&second, &right[1]) };
            let mut found = image.clone();
            if round < 4 {
                convolution.apply_values(image, &mut found)?;
            } else {
                locked.0.copy_from_slice(image);
                locked.1.copy_from_slice(image);
                convolution.apply_values(&locked.0, &mut locked.1)?;
                found.copy_from_slice(&locked.1);
            }
            if found != *right {
                return Err(
                    format!("{variant}, run {round} of {width} x {height}, {}: other values", T::TYPE.name()).into()
                );
            }
        }
        ran += 1;
    }
    Ok(ran)
}

/// Small images through several convolutions in turn. From the second run on a GPU replays a graph. The convolutions
/// share device memory, and those of one kernel share the constant memory of the mask.
pub(super) fn repeated_small_images(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let cpu = Device::cpu();
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut problems = Vec::new();
    for (width, height, side, channels, input) in [
        (200, 37, 13, 1, PixelType::F32),
        (37, 21, 13, 1, PixelType::F32),
        (33, 50, 3, 1, PixelType::F32),
        (33, 50, 2, 1, PixelType::F32),
        (61, 20, 2, 1, PixelType::F32),
        (61, 20, 5, 3, PixelType::U8),
        (64, 20, 5, 3, PixelType::U8),
    ] {
        let mask = (0..side * side).map(|_| random.f32() - 0.4).collect();
        let filter = Filter::new(Mask::new(side, side, mask)?).border(Border::Mirror).accuracy(Accuracy::Exact);
        let format = PixelFormat { channels, input, output: PixelType::F32 };
        problems.push(Problem::new(width, height, &filter)?.with_format(format)?);
    }
    let mut convolutions = Vec::new();
    for problem in &problems {
        convolutions.push(device.prepare(problem, VariantChoice::Auto)?);
    }
    for round in 0..4 {
        for (problem, convolution) in problems.iter().zip(&convolutions) {
            let (width, height, channels) = (problem.width(), problem.height(), problem.format().channels);
            let bytes: Vec<u8> = (0..width * height * channels).map(|_| random.u8(..)).collect();
            let (found, right): (Image, Image) = if problem.format().input == PixelType::U8 {
                let image = Image::new(width, height, channels, bytes)?;
                (convolution.apply(&image)?, cpu.prepare(problem, VariantChoice::Auto)?.apply(&image)?)
            } else {
                let image = Image::new(width, height, channels, bytes.into_iter().map(f32::from).collect())?;
                (convolution.apply(&image)?, cpu.prepare(problem, VariantChoice::Auto)?.apply(&image)?)
            };
            if let Err(difference) = host::compare::bit_exact(right.values(), found.values()) {
                return Err(format!("run {round} of {width} x {height}: {difference:?}").into());
            }
        }
    }
    Ok(())
}

/// Images and results in page-locked memory, in parts of it, and beside it: the same values, and the rest of the memory
/// as it was.
pub(super) fn page_locked(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    // Rows as a GPU has them, rows that it fills up, and an image that is too large for the short way.
    page_locked_of::<f32>(&device, (200, 37, 1), 3, |random| random.f32() - 0.5)?;
    page_locked_of::<u16>(&device, (37, 21, 1), 5, |random| random.u16(..))?;
    page_locked_of::<u8>(&device, (64, 20, 3), 5, |random| random.u8(..))?;
    page_locked_of::<u8>(&device, (61, 20, 3), 2, |random| random.u8(..))?;
    page_locked_of::<f32>(&device, (1024, 1030, 1), 1, |random| random.f32())?;
    if !device.page_locked::<u16>(0)?.is_empty() {
        return Err("values in no memory".into());
    }
    let too_much = device.page_locked::<f32>(usize::MAX / 2).err();
    if !matches!(too_much, Some(Error::TooLarge { .. } | Error::HostMemory { .. })) {
        return Err(format!("more than any machine has: {too_much:?}").into());
    }
    Ok(())
}

/// One problem through more pairs of images and results than a convolution keeps in mind, then through memory that is
/// given back and asked for again.
fn page_locked_of<T: faltung::Pixel>(
    device: &Device,
    (width, height, channels): (usize, usize, usize),
    side: usize,
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mask = (0..side * side).map(|_| random.f32() - 0.4).collect();
    let filter = Filter::new(Mask::new(side, side, mask)?).border(Border::Mirror).accuracy(Accuracy::Exact);
    let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<T, T>(channels))?;
    let convolution = device.prepare(&problem, VariantChoice::Auto)?;
    let cpu = Device::cpu();
    let on_cpu = cpu.prepare(&problem, VariantChoice::Auto)?;
    let mut held = Vec::new();
    let (values, rounds) = (problem.values(), if problem.values() > 1 << 20 { 4 } else { 40 });
    for round in 0..rounds {
        // Aligned, and not; alone in its memory, and not.
        let (before, after) = [(0, 0), (1, 3), (64, 0), (32, 5)][round % 4];
        let mut source = device.page_locked::<T>(before + values + after)?;
        let mut result = device.page_locked::<T>(before + values + after)?;
        for _ in 0..if values > 1 << 20 { 1 } else { 2 } {
            source.fill_with(|| value(&mut random));
            result.fill_with(|| value(&mut random));
            let (ordinary, kept) = (source.to_vec(), result.to_vec());
            let (ordinary, inside) = (&ordinary[before..][..values], before..before + values);
            let mut right = vec![T::default(); values];
            on_cpu.apply_values(ordinary, &mut right)?;
            let mut found = right.clone();
            match round % 3 {
                0 => convolution.apply_values(&source[inside.clone()], &mut result[inside.clone()])?,
                1 => convolution.apply_values(ordinary, &mut result[inside.clone()])?,
                _ => {
                    found.fill_with(|| value(&mut random));
                    convolution.apply_values(&source[inside.clone()], &mut found)?;
                }
            }
            if round % 3 < 2 {
                found.copy_from_slice(&result[inside.clone()]);
                if result[..before] != kept[..before] || result[inside.end..] != kept[inside.end..] {
                    return Err(format!("run {round} of {width} x {height}: wrote beside its place").into());
                }
            }
            if right != found {
                return Err(format!("run {round} of {width} x {height}, {}: other values", T::TYPE.name()).into());
            }
        }
        if round < rounds / 2 {
            held.push((source, result));
        } else {
            held.clear();
        }
    }
    Ok(())
}

/// Rows with gaps in and out: the same values, and the gaps as they were.
pub(super) fn rows_with_gaps(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height, channels, pitch) = (37, 21, 3, 150);
    let values: Vec<u16> = (0..height * pitch).map(|i| (i * 7919 % 65_521) as u16).collect();
    let view = View::new(width, height, channels, pitch, &values)?;
    // Devices differ in results that need not be exact.
    let filter = Filter::new(Mask::gaussian(1.5, None)?).border(Border::Wrap).accuracy(Accuracy::Exact);
    let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<u16, f32>(channels))?;
    let dense = (0..height).flat_map(|y| view.row(y)).copied().collect();
    let dense = Image::new(width, height, channels, dense)?;
    let right: Image<f32> = Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply(&dense)?;
    let device = Device::select(device)?;
    let convolution = device.prepare(&problem, VariantChoice::Auto)?;
    let mut result = vec![-1.0_f32; height * 120];
    convolution.apply_view(view, ViewMut::new(width, height, channels, 120, &mut result)?)?;
    for (y, row) in result.chunks_exact(120).enumerate() {
        if row[..111] != *right.row(y) || row[111..].iter().any(|&value| value != -1.0) {
            return Err(format!("row {y} differs").into());
        }
    }
    let other = convolution.apply::<u16, u16>(&dense);
    if !matches!(other, Err(Error::OtherFormat { .. })) {
        return Err(format!("results of another type than planned: {other:?}").into());
    }
    Ok(())
}
