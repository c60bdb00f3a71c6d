//! Integers through planes of kernels that are not bit-exact: each way of an image to the device and back.

use faltung::{
    Border, Device, DeviceImage, Filter, Image, Mask, Pixel, PixelFormat, Prepared, Problem, Variant, VariantChoice,
};
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, LATE, PAGEABLE_LATE};
use crate::library::{cleanly, locked};

pub(crate) const TESTS: &[Test] = &[
    ("proven_steps_and_graphs", steps_and_graphs),
    ("proven_on_the_device", on_the_device),
    ("proven_strips", strips),
    ("proven_bands", bands),
];

/// Smooths by sums that round nothing: many results are half-way between integers.
fn filter() -> Filter {
    let (column, row) = ([0.125_f32, 0.375, 0.375, 0.125], [0.25_f32, 0.5, 0.25]);
    let coefficients = column.iter().flat_map(|a| row.map(|b| a * b)).collect();
    Filter::new(Mask::new(3, 4, coefficients).expect("twelve coefficients")).border(Border::Mirror)
}

/// An image in which no two rows, columns or channels are alike.
fn image<T: Pixel>(width: usize, height: usize, channels: usize) -> Result<Image<T>, Failed> {
    let value = |i: usize| T::from_f32((i * 7 % 251 + i / 1000) as f32);
    Ok(Image::new(width, height, channels, (0..width * height * channels).map(value).collect())?)
}

/// The problem of an image, made ready with a kernel that needs the proof.
fn prepare<T: Pixel>(device: &Device, image: &Image<T>) -> Result<Prepared, Failed> {
    let problem = Problem::new(image.width(), image.height(), &filter())?;
    let problem = problem.with_format(PixelFormat::of::<T, T>(image.channels()))?;
    let entry = Variant::SeparableRing.entries().next().ok_or("the variant has an entry")?;
    let prepared = device.prepare(&problem, VariantChoice::Kernel { entry, in_planes: true })?;
    assert!(prepared.plan().is_some_and(|plan| plan.proof.is_some()), "{}", prepared.reason());
    Ok(prepared)
}

fn on_cpu<T: Pixel>(image: &Image<T>) -> Result<Image<T>, Failed> {
    Ok(Device::cpu().apply(&filter(), image)?)
}

/// The first run goes in steps, later ones through a graph.
fn steps_and_graphs() -> Result<(), Failed> {
    fn check<T: Pixel>(fake: &Fake, image: &Image<T>) -> Result<(), Failed> {
        let convolution = prepare(&Device::cuda(0)?, image)?;
        for run in 0..3 {
            let mut result = vec![T::default(); image.values().len()];
            fake.apply(&convolution, image.values(), &mut result)?;
            let right = on_cpu(image)?;
            let wrong = result.iter().zip(right.values()).filter(|(found, right)| found != right).count();
            fake.forget();
            assert_eq!(wrong, 0, "values that are not the CPU's, run {run}, {} channels", image.channels());
        }
        Ok(())
    }
    cleanly(PAGEABLE_LATE, |fake| {
        for channels in 1..=4 {
            check(fake, &image::<u8>(67, 35, channels)?)?;
        }
        check(fake, &image::<u16>(40, 33, 3)?)
    })
}

fn on_the_device() -> Result<(), Failed> {
    cleanly(LATE, |_| {
        let device = Device::cuda(0)?;
        let (stream, image) = (device.stream()?, image::<u8>(70, 41, 3)?);
        let convolution = prepare(&device, &image)?;
        let source = device.upload(&image, &stream)?;
        let result: DeviceImage<u8> = convolution.run(&source, &stream)?;
        // The mask stays until the stream has used it.
        drop(convolution);
        assert!(result.download(&stream)? == on_cpu(&image)?, "the values are the CPU's");
        Ok(())
    })
}

fn strips() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        let image = image::<u8>(40, 120, 3)?;
        let convolution = prepare(&Device::cuda(0)?.with_memory_limit(60_000), &image)?;
        let note = convolution.note().unwrap_or_default();
        assert!(note.contains("strips"), "{note}");
        let mut result = vec![0_u8; image.values().len()];
        fake.apply(&convolution, image.values(), &mut result)?;
        assert!(result == on_cpu(&image)?.values(), "the values are the CPU's");
        Ok(())
    })
}

fn bands() -> Result<(), Failed> {
    cleanly(LATE, |fake| {
        let device = Device::cuda(0)?;
        let image = image::<u8>(1480, 1480, 2)?;
        let [source, mut result] = locked(&device, &image)?;
        let convolution = prepare(&device, &image)?;
        fake.apply(&convolution, &source, &mut result)?;
        assert!(result[..] == *on_cpu(&image)?.values(), "the bands' values are the CPU's");
        assert!(fake.report().by_function.contains_key("cuStreamWaitEvent"), "the image went in bands");
        drop(convolution);
        fake.forget();
        Ok(())
    })
}
