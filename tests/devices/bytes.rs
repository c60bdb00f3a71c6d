//! The rounding of sums to `u8` and `u16`.

use super::*;

/// Images of every width up to that of a tile and one more.
///
/// They are so high that each column has some sums that lie just between two bytes. These are so few that the tensor
/// cores still decide the others.
pub(super) fn at_the_right_edge(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    for (side, channels) in [(3, 1), (5, 1), (7, 1), (9, 1), (6, 1), (11, 1), (3, 3), (9, 3), (5, 4)] {
        for width in 1..=33 {
            same_bytes(&device, &uncertain(side, &mut random)?, (width, 250), channels, &mut random)?;
        }
    }
    Ok(())
}

/// Interleaved channels, which the tensor cores' variant deinterleaves. Images are narrower and wider than a block.
/// Masks are of all kinds of kernels, with anchors at the side and every border. One mask is so wide that a row of a
/// block has more pixels than a warp deinterleaves at a time.
pub(super) fn interleaved_channels(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    for channels in [3, 4] {
        for side in [5, 7, 9, 11, 4, 13] {
            for width in [1, 8, 63, 64, 65, 80, 81, 137, 200] {
                let borders = [Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap, Border::Constant(9.0)];
                let border = if random.bool() { Border::default() } else { borders[random.usize(..borders.len())] };
                let mut filter = uncertain(side, &mut random)?.border(border);
                if random.u8(..4) == 0 {
                    filter = filter.anchor(random.usize(..side), random.usize(..side));
                }
                // Some blocks of the widest lie inside of the image on all sides.
                let height = if width >= 137 { 230 } else { [1, 64, 140][random.usize(..3)] };
                same_bytes(&device, &filter, (width, height), channels, &mut random)?;
            }
        }
        for (columns, rows) in [(201, 1), (333, 3)] {
            let mask = (0..rows * columns).map(|_| f32::from(random.i8(-1..=1))).collect();
            let filter = Filter::new(Mask::new(columns, rows, mask)?).border(Border::Mirror);
            same_bytes(&device, &filter, (410, 70), channels, &mut random)?;
        }
    }
    Ok(())
}

/// Masks of the large kernels, and coefficients of very different magnitudes.
///
/// The ordered sums multiply bytes as subnormal numbers, with the coefficients in a unit that keeps every rounding.
/// Coefficients that differ by a factor of more than `2^120` have no such unit. Then the sums take another path.
pub(super) fn recomputed(device: DeviceChoice) -> Result<(), Failed> {
    let device = Device::select(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    for (side, channels) in [
        (3, 1),
        (3, 3),
        (9, 1),
        (9, 4),
        (13, 1),
        (15, 3),
        (17, 1),
        (21, 3),
        (31, 1),
        (31, 3),
        (26, 4),
        (33, 1),
        (33, 3),
    ] {
        for has_unit in [true, false] {
            let mut filter = uncertain(side, &mut random)?;
            if !has_unit {
                let mut mask = filter.mask()?.coefficients().to_vec();
                mask[0] = f32::MIN_POSITIVE;
                mask[side] = f32::from_bits(5);
                filter = Filter::new(Mask::new(side, side, mask)?);
            }
            same_bytes(&device, &filter.border(Border::Reflect), (150, 70), channels, &mut random)?;
        }
    }
    Ok(())
}

/// A filter that leaves some per cent of the sums uncertain: large coefficients leave few digits behind the point.
fn uncertain(side: usize, random: &mut fastrand::Rng) -> Result<Filter, Failed> {
    let largest = 8.0 / (side * side) as f32;
    let mask = (0..side * side).map(|_| (random.f32() - 0.4) * largest).collect();
    Ok(Filter::new(Mask::new(side, side, mask)?))
}

/// Checks that the tensor cores' variant has the CPU's bytes for a random image of so many columns and rows.
fn same_bytes(
    device: &Device,
    filter: &Filter,
    (width, height): (usize, usize),
    channels: usize,
    random: &mut fastrand::Rng,
) -> Result<(), Failed> {
    let problem = Problem::new(width, height, filter)?.with_format(PixelFormat::of::<u8, u8>(channels))?;
    let image: Vec<u8> = (0..problem.values()).map(|_| random.u8(..)).collect();
    let (mut right, mut found) = (vec![0_u8; image.len()], vec![0_u8; image.len()]);
    Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply_values(&image, &mut right)?;
    device.prepare(&problem, VariantChoice::Named(Variant::TensorCoreU8))?.apply_values(&image, &mut found)?;
    if let Some(at) = (0..right.len()).find(|&at| right[at] != found[at]) {
        let (y, v) = (at / (width * channels), at % (width * channels));
        let (columns, rows) = (problem.window().width(), problem.window().height());
        let what = format!("{rows} x {columns}, {channels} channels, width {width}, row {y}, value {v}");
        return Err(format!("{what}: {}, not {}; {filter:?}", found[at], right[at]).into());
    }
    Ok(())
}

/// An image all of whose sums are just between two bytes, so that the tensor cores decide none.
pub(super) fn halves(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height) = (200, 67);
    let values = (0..width * height).map(|i| [40, 48][i % width % 2] + (i / width) as u8).collect();
    let image = Image::new(width, height, 1, values)?;
    for mask in [
        Mask::new(2, 1, vec![1.0 / 16.0, 15.0 / 16.0])?,
        Mask::new(3, 3, [0.0, 0.0, 0.0, 1.0, 15.0, 0.0, 0.0, 0.0, 0.0].map(|value| value / 16.0).to_vec())?,
    ] {
        let problem = Problem::new(width, height, &Filter::new(mask).border(Border::Wrap))?;
        let problem = problem.with_format(PixelFormat::of::<u8, u8>(1))?;
        let right: Image<u8> = Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply(&image)?;
        let device = Device::select(device)?;
        let convolution = device.prepare(&problem, VariantChoice::Named(Variant::TensorCoreU8))?;
        if convolution.apply::<u8, u8>(&image)? != right {
            return Err(format!("{}: not rounded to the even one", convolution.reason()).into());
        }
    }
    Ok(())
}

/// Halves are rounded to the even number, and what lies outside of the type's range becomes its end, as on paper.
pub(super) fn rounding(device: DeviceChoice) -> Result<(), Failed> {
    let (width, height) = (520, 20);
    let image = Image::new(width, height, 1, (0..width * height).map(|i| (i * 7 % 65_536) as u16).collect())?;
    // 0.5 of each pixel, moved so that some results are below 0 and some above 65,535, and none.
    for offset in [0.0, 0.25, -9000.0, 50_000.0, f32::MAX] {
        let filter = Filter::new(Mask::new(3, 3, vec![0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0])?).offset(offset);
        let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<u16, u16>(1))?;
        let choice = VariantChoice::Named(Variant::SlidingWindow);
        let found: Image<u16> = Device::select(device)?.prepare(&problem, choice)?.apply(&image)?;
        for (&value, &result) in image.values().iter().zip(found.values()) {
            let expected = (f32::from(value) * 0.5 + offset).round_ties_even() as u16;
            if result != expected {
                return Err(format!("{value} * 0.5 + {offset} became {result}, not {expected}").into());
            }
        }
    }
    // Infinity minus infinity: NaN becomes 0.
    let filter = Filter::new(Mask::new(2, 1, vec![f32::INFINITY, f32::NEG_INFINITY])?);
    let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<u16, u16>(1))?;
    let found: Image<u16> =
        Device::select(device)?.prepare(&problem, VariantChoice::Named(Variant::SlidingWindow))?.apply(&image)?;
    let right: Image<u16> = Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply(&image)?;
    if found != right || !right.values()[1..width].contains(&0) {
        return Err("NaN did not become 0".into());
    }
    Ok(())
}
