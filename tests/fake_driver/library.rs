//! What the library does under a driver that does what it shall: the CPU's bits, and nothing left.

use host::{Device, Filter, Image, Mask, Pixel, Problem, VariantChoice};
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::Fake;

pub(crate) const TESTS: &[Test] = &[("library_apply", apply)];

/// A mask that is no column times a row, so that each device gives the same bits.
pub(crate) fn filter() -> Filter {
    Filter::new(Mask::new(3, 3, vec![0.5, 1.0, -2.0, 3.0, 0.25, 1.5, -1.0, 2.0, 0.125]).expect("nine coefficients"))
}

/// An image in which no two rows or columns are alike.
pub(crate) fn image<T: Pixel>(width: usize, height: usize) -> Image<T> {
    let value = |x: usize, y: usize| T::from_f32(((x * 7 + y * 13 + x * y) % 251) as f32);
    Image::from_fn(width, height, value).expect("an image has pixels")
}

/// What the CPU makes of it.
pub(crate) fn on_cpu<T: Pixel, U: Pixel>(filter: &Filter, image: &Image<T>) -> Result<Image<U>, host::Error> {
    Device::cpu().apply(filter, image)
}

fn apply() -> Result<(), Failed> {
    let fake = Fake::get();
    fake.reset("");
    let source = image::<u8>(61, 47);
    let right: Image<u8> = on_cpu(&filter(), &source)?;
    let device = Device::cuda(0)?;
    let found: Image<u8> = device.apply(&filter(), &source)?;
    assert_eq!(found, right);
    let problem = Problem::new(61, 47, &filter())?;
    let floats = image::<f32>(61, 47);
    let right: Image<f32> = on_cpu(&filter(), &floats)?;
    let mut convolution = device.convolution(&problem, VariantChoice::Auto)?;
    for _ in 0..3 {
        assert_eq!(convolution.run::<f32, f32>(&floats)?, right);
    }
    drop(convolution);
    drop(device);
    let report = fake.report();
    println!("{report:?}");
    assert_eq!(report.trouble(), None);
    Ok(())
}
