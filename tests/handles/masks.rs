//! Several filters that have a kernel in common.

use faltung::{Device, Filter, Image, Mask, Variant, VariantChoice};

use super::{Checked, Test, equal, image, problem, words};

pub(crate) const OF_CUDA: &[Test] = &[("a_smaller_mask_of_the_same_kernel", smaller_mask)];

/// A large mask takes more shared memory than a small one that is prepared later. Both run.
fn smaller_mask(device: &Device) -> Checked {
    let image = image::<f32>(90, 70, 1, 5);
    let prepare = |side: usize| {
        let filter = Filter::new(Mask::new(side, side, vec![0.5; side * side]).map_err(words)?);
        let choice = VariantChoice::Named(Variant::FftTile);
        device.prepare(&problem::<f32, f32>(&filter, &image)?, choice).map_err(words)
    };
    let large = prepare(64)?;
    let first: Image<f32> = large.apply(&image).map_err(words)?;
    let small = prepare(3)?;
    let _: Image<f32> = small.apply(&image).map_err(words)?;
    equal("the large mask again", &large.apply::<f32, f32>(&image).map_err(words)?, &first)
}
