//! The problems that every backend is tried on.
//!
//! They are chosen to find errors. No width equals a height. Sizes stand on either side of every tile boundary. Masks
//! are asymmetric, even, rectangular, or larger than the image. Each pair of an image and a mask gets another border,
//! operation and anchor, so that every one of these meets every other.

mod of_kernels;

use kernels_gpu::registry::entries;

use self::of_kernels::{
    integers, interleaved, large_squares, long_transforms, other_sizes, tensor_bytes, tensor_planes, transforms, wide,
    wide_values,
};
use super::case::{Case, Content};
use super::cover::cover;
use faltung::{Border, Operation, PixelFormat, PixelType};

/// The seed of the data when none is given.
pub const SEED: u64 = 20_260;

/// Sides of images on either side of a boundary: 1, and around each multiple up to two of `tile`.
fn around(tile: usize) -> Vec<usize> {
    let mut sides = vec![1, 2, 3];
    for boundary in [tile, 2 * tile] {
        sides.extend([boundary - 1, boundary, boundary + 1]);
    }
    sides
}

/// Columns and rows of the masks.
const MASKS: [(usize, usize); 26] = [
    (1, 1),
    (2, 2),
    (3, 3),
    (4, 4),
    (5, 5),
    (6, 6),
    (7, 7),
    (9, 9),
    (11, 11),
    (13, 13),
    (15, 15),
    (16, 16),
    (17, 17),
    (1, 2),
    (2, 1),
    (1, 9),
    (9, 1),
    (3, 5),
    (5, 3),
    (4, 7),
    (12, 5),
    (21, 2),
    (1, 33),
    (33, 1),
    (31, 31),
    (41, 37),
]; // (columns, rows)

/// Types and channels, in turn, of those cases that are not on a plane of `f32`.
const LAYOUTS: [PixelFormat; 20] = {
    const fn format(channels: usize, input: PixelType, output: PixelType) -> PixelFormat {
        PixelFormat { channels, input, output }
    }
    use PixelType::{F32, U8, U16};
    [
        format(1, U8, U8),
        format(2, U8, U8),
        format(3, U8, U8),
        format(4, U8, U8),
        format(1, U16, U16),
        format(2, U16, U16),
        format(3, U16, U16),
        format(4, U16, U16),
        format(2, F32, F32),
        format(3, F32, F32),
        format(4, F32, F32),
        format(3, U8, F32),
        format(1, U8, U16),
        format(4, U8, F32),
        format(1, U16, U8),
        format(2, U16, F32),
        format(3, U16, U8),
        format(1, F32, U8),
        format(3, F32, U16),
        format(4, F32, U8),
    ]
};

/// What lies outside, in turn.
pub(super) const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Clamp, Border::Mirror, Border::Constant(-0.75), Border::Reflect, Border::Wrap];

/// The cases, in a fixed order. `quick` leaves out a case if cheaper ones try everything that it tries.
#[must_use]
pub fn cases(quick: bool, seed: u64) -> Vec<Case> {
    if quick { cover(all(seed)) } else { all(seed) }
}

/// All cases.
fn all(seed: u64) -> Vec<Case> {
    let mut shapes = Vec::new();
    let mut tiles: Vec<_> = entries()
        .map(|entry| entry.outputs(entry.example_mask()))
        .filter(|(columns, _)| *columns <= WIDEST_TILE)
        .collect();
    tiles.sort_unstable();
    tiles.dedup();
    for (columns, rows) in tiles {
        let (widths, heights) = (around(columns as usize), around(rows as usize));
        for (i, &width) in widths.iter().enumerate() {
            // Each width gets three of the heights, the next width another three. All pairs would be too many.
            for step in 0..3 {
                shapes.push((width, heights[(2 * i + 5 * step + 1) % heights.len()]));
            }
        }
    }
    shapes.extend([(1, 1), (100, 3), (3, 100), (129, 71), (70, 131)]);
    shapes.sort_unstable();
    shapes.dedup();

    let mut cases = Vec::new();
    for (i, &image) in shapes.iter().enumerate() {
        for (j, &mask) in MASKS.iter().enumerate() {
            let turn = i * MASKS.len() + j;
            // A choice that is periodic in i and j could have the period of `quick`, which would then see one value
            // only. So the turn is mixed.
            let mixed = fastrand::Rng::with_seed(turn as u64).usize(..);
            let format = if mixed % 4 == 2 { LAYOUTS[mixed / 4 % LAYOUTS.len()] } else { PixelFormat::PLANE };
            cases.push(Case {
                image,
                mask,
                border: BORDERS[mixed % BORDERS.len()],
                operation: if (mixed / BORDERS.len()).is_multiple_of(2) {
                    Operation::Convolve
                } else {
                    Operation::Correlate
                },
                anchor: match turn % 5 {
                    0 => Some((0, 0)),
                    1 => Some((mask.1 - 1, mask.0 - 1)),
                    2 => Some((mask.1 / 3, mask.0 - 1)),
                    _ => None,
                },
                scale: match format.output {
                    // Most of the sums are in the range of the type, some saturate.
                    _ if format.input == PixelType::F32 && format.output != PixelType::F32 => (60.0, 128.0),
                    PixelType::U8 => (0.4, 128.0),
                    PixelType::U16 => (0.4, 30_000.0),
                    PixelType::F32 if turn % 7 == 3 => (-2.5, 0.25),
                    PixelType::F32 => (1.0, 0.0),
                },
                format,
                separable: (mixed / 64).is_multiple_of(3),
                // With `turn` and a number of masks that is divisible by 4, each mask would get one content only.
                content: if mixed / 24 % 4 == 1 { Content::Special } else { Content::Random },
                seed: seed.wrapping_add(turn as u64),
            });
        }
    }
    cases.extend(extremes(seed));
    cases.extend(wide(seed));
    cases.extend(large_squares(seed));
    cases.extend(other_sizes(seed));
    cases.extend(wide_values(seed));
    cases.extend(tensor_bytes(seed));
    cases.extend(interleaved(seed));
    cases.extend(tensor_planes(seed));
    cases.extend(transforms(seed));
    cases.extend(long_transforms(seed));
    cases.extend(integers(seed));
    cases
}

/// Tiles of up to this width get images of all sizes around theirs; for wider ones there is [`wide`].
const WIDEST_TILE: u32 = 64;

/// What the sweep does not include: a mask too large for constant memory, one too long for a tile, and an image of more
/// rows than one grid has.
fn extremes(seed: u64) -> [Case; 4] {
    let case = |image, mask, border| Case {
        image,
        mask,
        border,
        operation: Operation::Convolve,
        anchor: None,
        scale: (1.0, 0.0),
        format: PixelFormat::PLANE,
        separable: false,
        content: Content::Random,
        seed,
    };
    [
        case((37, 21), (129, 128), Border::Reflect),
        case((37, 21), (12_000, 1), Border::Wrap),
        case((21, 37), (101, 99), Border::Mirror),
        // 65,535 rows of blocks of 16 rows are 1,048,560 rows.
        case((3, 1_048_600), (3, 3), Border::Clamp),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_border_operation_and_mask_is_met() {
        for quick in [true, false] {
            let cases = cases(quick, SEED);
            let names = |f: fn(&Case) -> String| cases.iter().map(f).collect::<HashSet<_>>();
            assert!(names(|case| case.border.to_string()).len() >= BORDERS.len());
            assert!(names(|case| format!("{:?}", case.mask)).len() >= MASKS.len());
            assert!(names(|case| format!("{:?} {}", case.operation, case.border)).len() >= 2 * BORDERS.len());
            assert!(cases.iter().any(|case| case.content == Content::Special));
            assert!(cases.iter().any(|case| case.separable && case.mask.0 == case.mask.1 && case.image.0 > 500));
            assert!(cases.iter().any(|case| case.mask.0 > case.image.0 && case.mask.1 > case.image.1));
            println!("{} cases, cost {}", cases.len(), cases.iter().map(Case::cost).sum::<usize>());
        }
    }
}
