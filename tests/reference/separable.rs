//! The separable variants on the emulator, but for that of the tensor cores, against two passes of the CPU: the same
//! bits, because each pass has the same order. That is sharper than their error bound, which the sweep over the devices
//! holds them against.

use faltung::{Border, Device, Filter, Image, Mask, Operation, Prepared, Problem, VariantChoice};
use kernels_gpu::registry::{FactorPlaces, FactorPowers, MaskSize, Variant};

use super::{compare, is_in_sweep, noise, product};

/// What two passes of the CPU make of an image.
fn two_passes(image: &Image, row: &[f32], column: &[f32], border: Border) -> faltung::Result<Image> {
    let pass = |image: &Image, width, height, coefficients: &[f32]| {
        let mask = Mask::new(width, height, coefficients.to_vec())?;
        Device::cpu().apply(&Filter::new(mask).operation(Operation::Correlate).border(border), image)
    };
    pass(&pass(image, row.len(), 1, row)?, 1, column.len(), column)
}

/// Tries a variant with masks of these widths and heights on images of several sizes.
fn compare_with_two_passes(variant: Variant, masks: &[(usize, usize)]) -> faltung::Result<()> {
    const IMAGES: [(usize, usize); 5] = [(1, 1), (31, 7), (260, 40), (516, 37), (1030, 9)];
    // Under a border of another constant the second pass would need the first one's value of that.
    const BORDERS: [Border; 5] = [Border::ZERO, Border::Clamp, Border::Mirror, Border::Reflect, Border::Wrap];
    let device = Device::emulator(1);
    for (i, &(mask_width, mask_height)) in masks.iter().enumerate() {
        let (row, column) = (noise(mask_width, i as u64), noise(mask_height, 100 + i as u64));
        let filter = Filter::new(product(&column, &row)?).operation(Operation::Correlate);
        // Two or three images for each mask, each image with every second mask.
        for (j, &(width, height)) in IMAGES.iter().enumerate().filter(|(j, _)| is_in_sweep(i + j, 2)) {
            let border = BORDERS[(i + j) % BORDERS.len()];
            let problem = Problem::new(width, height, &filter.clone().border(border))?;
            let convolution = device.prepare(&problem, VariantChoice::Named(variant))?;
            let factors =
                convolution.plan().and_then(|plan| plan.factors.clone()).expect("a plan for a separable mask");
            let coefficients =
                factors.placed(FactorPlaces { row: 0, column: mask_width as u32, powers: FactorPowers::NONE });
            let (row, column) = coefficients.split_at(mask_width);
            let image = Image::new(width, height, 1, noise(width * height, 1000 + j as u64))?;
            let found: Image = convolution.apply(&image)?;
            let expected = two_passes(&image, row, column, border)?;
            let same = host::compare::bit_exact(expected.values(), found.values());
            assert_eq!(same, Ok(()), "{mask_width} x {mask_height} on {width} x {height}, {border}");
        }
    }
    Ok(())
}

/// Fails if the block tile of a filter has other bits than the ring. Returns the block tile.
fn tile_as_ring(filter: &Filter, image: &Image) -> faltung::Result<Prepared> {
    let problem = Problem::new(image.width(), image.height(), filter)?;
    let prepare = |variant| Device::emulator(1).prepare(&problem, VariantChoice::Named(variant));
    let (tile, ring) = (prepare(Variant::SeparableBlockTile)?, prepare(Variant::SeparableRing)?);
    let (found, expected): (Image, Image) = (tile.apply(image)?, ring.apply(image)?);
    assert_eq!(host::compare::bit_exact(expected.values(), found.values()), Ok(()), "{filter:?}");
    Ok(tile)
}

#[test]
fn any_size_through_the_ring_has_the_bits_of_two_passes() -> faltung::Result<()> {
    let sizes =
        [(1, 1), (2, 3), (3, 2), (8, 8), (9, 9), (7, 16), (17, 10), (31, 4), (1, 33), (40, 1), (63, 63), (127, 127)];
    compare_with_two_passes(Variant::SeparableRing, &sizes)
}

/// Each entry: the squares of fixed size, and of each class of heights the lowest, the highest and one between, narrow
/// and wide. The images have blocks of which none, one and both sides are beyond the edge.
#[test]
fn each_tile_has_the_bits_of_two_passes() -> faltung::Result<()> {
    let mut masks = Vec::new();
    for entry in Variant::SeparableBlockTile.entries().filter(|entry| entry.is_plane()) {
        match entry.mask {
            MaskSize::Square(side) => masks.push((side as usize, side as usize)),
            // Masks of up to so many rows and one.
            MaskSize::Class(reach) => {
                let (reach, i) = (reach as usize, masks.len());
                masks.extend([(1 + i % 7, reach - 14), (reach, reach), (33 - i % 4, reach + 1), (2, reach - i % 13)]);
            }
            MaskSize::Any => unreachable!("no block tile is for any mask"),
        }
    }
    compare_with_two_passes(Variant::SeparableBlockTile, &masks)
}

/// A kernel of one size with an anchor that it was not made for, which a small image leaves it.
#[test]
fn a_tile_of_one_size_takes_any_anchor() -> faltung::Result<()> {
    for (side, anchor) in [(7, (0, 0)), (31, (30, 29)), (63, (1, 62))] {
        let (row, column) = (noise(side, 4), noise(side, 5));
        let filter = Filter::new(product(&column, &row)?).anchor(anchor.0, anchor.1);
        let tile = tile_as_ring(&filter, &Image::new(530, 20, 1, noise(530 * 20, 6))?)?;
        assert!(matches!(tile.plan().expect("a plan").entry.mask, MaskSize::Square(_)));
    }
    Ok(())
}

/// An image whose blocks in the middle need no edge, in both directions, with every border.
#[test]
fn tiles_inside_of_an_image_have_the_bits_of_two_passes() -> faltung::Result<()> {
    for (mask_width, mask_height, width, height) in [(21, 21, 1600, 90), (6, 9, 1540, 60), (9, 66, 900, 200)] {
        let (row, column) = (noise(mask_width, 1), noise(mask_height, 2));
        let filter = Filter::new(product(&column, &row)?).operation(Operation::Correlate);
        let image = Image::new(width, height, 1, noise(width * height, 3))?;
        for border in [Border::ZERO, Border::Wrap] {
            for anchor in [None, Some((1, 2))] {
                let filter = filter.clone().border(border);
                let filter = anchor.map_or(filter.clone(), |(row, column)| filter.anchor(row, column));
                tile_as_ring(&filter, &image)?;
            }
        }
    }
    Ok(())
}

/// Pixels near the end of the range, under coefficients that are 0 or small: what is finite and within the bound as a
/// direct sum must be so in two passes, although the row alone would overflow there.
#[test]
fn a_row_does_not_overflow_where_the_sum_does_not() -> faltung::Result<()> {
    let mask = Mask::new(3, 3, vec![1e-3, 1e-3, 1e-3, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0])?;
    let image = Image::from_fn(300, 12, |_, y| if y == 5 { 3e38 } else { 1.0 })?;
    for operation in [Operation::Correlate, Operation::Convolve] {
        let filter = Filter::new(mask.clone()).operation(operation);
        for variant in [Variant::SeparableRing, Variant::SeparableBlockTile, Variant::SeparableTensorCore] {
            let (found, comparison) = compare(variant, &filter, &image)?;
            assert!(comparison.passes(), "{variant:?}: {comparison:?}");
            // Only where the three large coefficients are over the large pixels.
            assert_eq!(found.values().iter().filter(|value| !value.is_finite()).count(), 300);
        }
    }
    Ok(())
}
