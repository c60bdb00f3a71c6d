//! Images that are computed in strips, because the device's memory is too small.

use super::*;

/// With too little memory for the whole image, strips give the same answer. With too little for a strip, the CPU does.
pub(super) fn strips(device: DeviceChoice) -> Result<(), Failed> {
    let borders = [Border::ZERO, Border::Constant(7.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    let mut random = fastrand::Rng::with_seed(SEED);
    for (number, &border) in borders.iter().enumerate() {
        let (width, height) = (70 + 13 * number, 90 + 7 * number);
        let mask = (0..35).map(|_| random.f32() - 0.4).collect();
        let filter = Filter::new(Mask::new(5, 7, mask)?).border(border).anchor(number % 7, 1);
        let image = Image::new(width, height, 3, (0..width * height * 3).map(|_| random.u8(..)).collect())?;
        let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<u8, u16>(3))?;
        let right: Image<u16> = Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply(&image)?;
        // About a third of what the images take, and a strip of a row or two, which pads its rows.
        for limit in [width * height * 3, 9 * (width * 9 + 64)] {
            let limited = Device::select(device)?.with_memory_limit(limit);
            let convolution = limited.prepare_or_cpu(&problem, VariantChoice::Auto)?;
            let note = convolution.note().unwrap_or_default();
            if !note.contains(" strips") || convolution.variant() == "direct" {
                return Err(format!("{limit} bytes: no strips, but \"{note}\"").into());
            }
            if convolution.apply::<u8, u16>(&image)? != right {
                return Err(format!("{limit} bytes, {border}: other values from strips").into());
            }
            // Images that stay on a device are whole.
            let stream = limited.stream()?;
            let on_device = convolution.run::<u8, u16>(&limited.upload(&image, &stream)?, &stream);
            if limited.backend() == "cuda" && !matches!(on_device, Err(Error::DeviceMemory { .. })) {
                return Err("an image that does not fit was said to stay on the device".into());
            }
        }
        let none = Device::select(device)?.with_memory_limit(100);
        let refused = none.prepare(&problem, VariantChoice::Auto);
        if !matches!(refused, Err(Error::DeviceMemory { needed, free: ..=100, .. }) if needed > 100) {
            return Err(format!("100 bytes were enough: {refused:?}").into());
        }
        let named = none.prepare_or_cpu(&problem, VariantChoice::Named(Variant::Naive));
        if !matches!(named, Err(Error::DeviceMemory { .. })) {
            return Err(format!("another variant than the one asked for: {named:?}").into());
        }
        let convolution = none.prepare_or_cpu(&problem, VariantChoice::Auto)?;
        if !convolution.note().unwrap_or_default().starts_with("on the CPU: device memory")
            || convolution.apply::<u8, u16>(&image)? != right
        {
            return Err("the CPU did not stand in".into());
        }
    }
    Ok(())
}

/// Each variant has the same bits from strips as from the whole image, direct or not; that of the tensor cores for
/// `f32`, too, whose bits depend on where an output lies in 32 rows, and that of tiles of 128 rows.
pub(super) fn strips_of_each(device: DeviceChoice) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(SEED);
    for border in [Border::Constant(7.5), Border::Mirror, Border::Wrap] {
        // A tile of `fft_passes` has more rows than the image, so it has no strips.
        let cut = Variant::ALL.into_iter().filter(|&variant| variant != Variant::FftPasses);
        let planes = |variant: Variant| variant.entries().find(|entry| entry.is_plane());
        for entry in cut.filter_map(planes) {
            // A strip of at most half of the image holds a whole tile of `fft_tile`.
            let (width, height) = (70, if entry.variant == Variant::FftTile { 270 } else { 131 });
            let image = Image::new(width, height, 1, (0..width * height).map(|_| random.f32()).collect())?;
            let variant = VariantChoice::Named(entry.variant);
            let filter = Filter::new(Mask::gaussian(1.0, Some(3))?).border(border);
            let mut problem = Problem::new(width, height, &filter)?;
            if Device::select(device)?.plan(&problem, variant).is_err() {
                let (columns, rows) = entry.example_mask();
                let filter = Filter::new(Mask::average(columns as usize, rows as usize)?).border(border);
                problem = Problem::new(width, height, &filter)?;
            }
            let right: Image = Device::select(device)?.prepare(&problem, variant)?.apply(&image)?;
            // Rows of 70 values take the memory of 128, so this is less than half of what the images take.
            let limited = Device::select(device)?.with_memory_limit(width * height * 7);
            let convolution = limited.prepare(&problem, variant)?;
            let result: Image = convolution.apply(&image)?;
            // A tile has 122 rows of results. The last one has fewer, and its transform sees what lies below the image.
            let same = width * if entry.variant == Variant::FftTile { 244 } else { height };
            let mut last = result.values()[same..].iter().zip(&right.values()[same..]);
            if !convolution.note().unwrap_or_default().contains(" strips")
                || result.values()[..same] != right.values()[..same]
                || !last.all(|(result, right)| (result - right).abs() <= 1e-5)
            {
                return Err(format!("{variant}, {border}: other values from strips, or none").into());
            }
        }
    }
    Ok(())
}

/// Images of other values than one `f32` through the streams, in strips of the host's: each has rows of its own above
/// the first output and none below the last.
pub(super) fn strips_of_values(device: DeviceChoice) -> Result<(), Failed> {
    strips_of::<u8>(device, Variant::SlidingWindow, &[1, 3, 4], (3, 3), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::SlidingWindow, &[3, 4, 1], (2, 3), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::TensorCoreU8, &[1, 3, 4], (7, 7), |random| random.u8(..))?;
    strips_of::<u8>(device, Variant::TensorCoreU8, &[3, 4, 1], (4, 6), |random| random.u8(..))?;
    strips_of::<u16>(device, Variant::SlidingWindow, &[1, 3, 4], (7, 7), |random| random.u16(..))?;
    strips_of::<u16>(device, Variant::SlidingWindow, &[3, 4, 1], (6, 5), |random| random.u16(..))?;
    strips_of::<u16>(device, Variant::SlidingWindowPlanar, &[1, 2, 3, 4], (9, 9), |random| random.u16(..))?;
    strips_of::<u16>(device, Variant::SlidingWindowPlanar, &[3, 4, 2, 1], (14, 13), |random| random.u16(..))?;
    strips_of::<f32>(device, Variant::SlidingWindowPlanar, &[3, 4, 2], (21, 21), |random| random.f32() - 0.5)?;
    strips_of::<f32>(device, Variant::SlidingWindow, &[3, 4], (5, 5), |random| random.f32() - 0.5)
}

/// Compares strips of images of one type and mask.
fn strips_of<T: faltung::Pixel>(
    device: DeviceChoice,
    variant: Variant,
    channels: &[usize],
    mask: (usize, usize),
    value: fn(&mut fastrand::Rng) -> T,
) -> Result<(), Failed> {
    let borders = [Border::ZERO, Border::Constant(7.0), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
    let mut random = fastrand::Rng::with_seed(SEED);
    for (number, &border) in borders.iter().enumerate() {
        let (channels, width, height) = (channels[number % channels.len()], 300 + 37 * number, 80 + 7 * number);
        let coefficients = (0..mask.0 * mask.1).map(|_| random.f32() / 20.0).collect();
        let filter =
            Filter::new(Mask::new(mask.0, mask.1, coefficients)?).border(border).anchor(number % mask.1, mask.0 / 2);
        let values = (0..width * height * channels).map(|_| value(&mut random)).collect();
        let image = Image::new(width, height, channels, values)?;
        // The CPU transforms for large masks of `f32`, unless the results must be exact.
        let problem = Problem::new(width, height, &filter)?.with_format(PixelFormat::of::<T, T>(channels))?;
        let problem = problem.with_accuracy(faltung::Accuracy::Exact);
        let right: Image<T> = Device::cpu().prepare(&problem, VariantChoice::Auto)?.apply(&image)?;
        // A strip of a large mask has at least the rows of a window.
        let few_rows = 40.max(3 * mask.1);
        for limit in [height, few_rows].map(|rows| width * rows * channels * size_of::<T>()) {
            let limited = Device::select(device)?.with_memory_limit(limit);
            let convolution = limited.prepare(&problem, VariantChoice::Named(variant))?;
            if !convolution.note().unwrap_or_default().contains(" strips") {
                return Err(format!("{limit} bytes: no strips").into());
            }
            if convolution.apply::<T, T>(&image)? != right {
                return Err(format!("{limit} bytes, {border}: other values from strips").into());
            }
        }
    }
    Ok(())
}
