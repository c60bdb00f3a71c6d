//! The cases for kernels with tiles, masks or types that the sweep does not meet.

use std::collections::BTreeSet;

use kernels_gpu::registry::{Entry, Grid, MaskForm, MaskSize, entries};

use super::{BORDERS, Case, Content};
use faltung::{Border, Operation, PixelFormat, PixelType};

/// Cases for variants with wide tiles.
///
/// The images lie on either side of the tile boundaries. Some are so wide that there are blocks without an edge. The
/// masks are all that these variants are made for, and others. Each is separable twice, and twice not.
pub(super) fn wide(seed: u64) -> Vec<Case> {
    const IMAGES: [(usize, usize); 10] =
        [(128, 8), (251, 33), (129, 23), (257, 31), (127, 9), (252, 7), (255, 32), (516, 40), (253, 1), (256, 16)];
    let odd = (3..=21).step_by(2).map(|side| (side, side));
    let masks = odd.chain([(8, 6), (31, 31), (7, 12), (2, 33), (40, 1)]);
    let four_times = masks.flat_map(|mask| [(mask, false), (mask, true), (mask, false), (mask, true)]).enumerate();
    let case = |(turn, (mask, separable)): (usize, ((usize, usize), bool))| Case {
        // The last two images of a mask have blocks without an edge.
        image: if turn % 4 < 2 { IMAGES[turn % IMAGES.len()] } else { (1028 + turn % 3, 24 + turn % 17) },
        mask,
        border: BORDERS[turn % BORDERS.len()],
        operation: if turn / 4 % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: (turn % 7 == 6).then_some((mask.1 - 1, 0)),
        scale: if turn % 5 == 3 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable,
        content: if turn / 3 % 3 == 1 { Content::Special } else { Content::Random },
        seed: seed.wrapping_add(100_000 + turn as u64),
    };
    four_times.map(case).collect()
}

/// Cases for sliding windows with square masks from 16 x 16 on.
///
/// The strips have rows that get all of their sums. The last block of a row is in its place, moved to the left, or has
/// columns that are not aligned.
pub(super) fn large_squares(seed: u64) -> Vec<Case> {
    const WIDTHS: [usize; 3] = [516, 513, 512];
    let of_windows = |entry: &&Entry| entry.side() >= 16 && entry.is_plane() && entry.variant.is_exact();
    let partitions = |entry: &&Entry| matches!(entry.variant.spec().grid, Grid::Partition(_));
    let sides = entries().filter(of_windows).filter(partitions).map(|entry| entry.side() as usize);
    let case = |(number, side): (usize, usize)| Case {
        image: (WIDTHS[number % WIDTHS.len()], 3 * side + number),
        mask: (side, side),
        border: BORDERS[number % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: (number % 5 == 4).then_some((side - 1, (side - 1) / 2)),
        scale: if number % 3 == 1 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable: false,
        content: if number % 2 == 1 { Content::Special } else { Content::Random },
        seed: seed.wrapping_add(400_000 + number as u64),
    };
    let sides: Vec<_> = sides.collect();
    let mut cases: Vec<_> = sides.iter().copied().enumerate().map(case).collect();
    // Low images have strips of 7 and 8 rows. Whole passes over rows of the mask lie above or below the image.
    const HEIGHTS: [usize; 5] = [7, 13, 20, 28, 35];
    let low =
        sides.iter().filter(|&&side| side > 21).flat_map(|&side| HEIGHTS.map(|height| (side, height))).enumerate();
    cases.extend(low.map(|(number, (side, height))| Case {
        image: (256 + 4 * (number % 2), height),
        anchor: [None, Some((0, side / 2)), Some((side - 1, side / 2)), Some((side / 3, side / 2))][number / 2 % 4],
        content: Content::Random,
        seed: seed.wrapping_add(500_000 + number as u64),
        ..case((number, side))
    }));
    cases
}

/// Cases for kernels of one `f32` a pixel, with the sizes of masks that no other case has. The images are a little
/// larger than a tile of the kernel.
pub(super) fn other_sizes(seed: u64) -> Vec<Case> {
    /// Width and height of a mask, and whether it is separable.
    type Kind = ((u32, u32), bool);
    let masks = entries().filter(|entry| entry.is_plane()).filter_map(|entry| {
        let spec = entry.variant.spec();
        let separable = matches!(spec.mask_form, MaskForm::Factors(_));
        let tile = (entry.outputs(entry.example_mask()).0 as usize).max(128);
        match entry.mask {
            // Other cases have the odd sides up to 21, with separable masks, too.
            MaskSize::Square(side @ (8 | 10 | 12 | 14 | 17..)) => Some((((side, side), separable), tile)),
            MaskSize::Class(class) => Some((((spec.mask_class?.example)(class), separable), tile)),
            MaskSize::Any | MaskSize::Square(_) => None,
        }
    });
    let masks: BTreeSet<_> = masks.collect();
    let case = |(number, (((width, height), separable), tile)): (usize, (Kind, usize))| Case {
        // The largest masks have small images, because every variant takes long for them.
        image: if width < 60 { (tile + 1 + number % 5, 35 + number % 3) } else { (24, 20) },
        mask: (width as usize, height as usize),
        border: BORDERS[number % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: None,
        scale: if number % 3 == 1 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable,
        content: Content::Random,
        seed: seed.wrapping_add(600_000 + number as u64),
    };
    masks.into_iter().enumerate().map(case).collect()
}

/// Cases for images of other values than one `f32`, whose kernels have tiles of 128 and 256 values.
///
/// Each type, side of a mask and number of channels has five images. Two have blocks without an edge, and strips with
/// rows that get all of their sums. Three are small.
pub(super) fn wide_values(seed: u64) -> Vec<Case> {
    const WIDTHS: [usize; 7] = [251, 256, 257, 5, 515, 129, 258];
    const BORDERS: [Border; 7] = [
        Border::ZERO,
        Border::Clamp,
        Border::Constant(7.0),
        Border::Mirror,
        Border::Constant(-0.75),
        Border::Wrap,
        Border::Reflect,
    ];
    let of_rows = |entry: &&Entry| matches!(entry.variant.spec().mask_form, MaskForm::Rows(_));
    let kinds = entries().filter(|entry| entry.side() > 0 && !entry.is_plane()).filter(of_rows);
    let kinds = kinds.map(|entry| (entry, entry.side() as usize, entry.channels as usize));
    let turns = kinds.flat_map(|kind| (0..5).map(move |turn| (kind, turn))).enumerate();
    let case = |(number, ((entry, side, channels), turn)): (usize, ((&Entry, usize, usize), usize))| {
        let is_wide = turn < 2;
        let results = (entry.variant.spec().results)(entry.pixel);
        Case {
            image: if is_wide {
                ((800 + 5 * number % 31) / channels, 3 * side.max(8))
            } else {
                (WIDTHS[number % WIDTHS.len()].div_ceil(channels), 5 * number % 29 + 1)
            },
            mask: (side, side),
            // From kind to kind there are 5 cases. 5 and 7 have no common divisor, so each of the 7 borders meets each
            // kind.
            border: BORDERS[number % BORDERS.len()],
            operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
            anchor: match turn {
                3 => Some((side - 1, 0)),
                4 => Some((0, side / 2)),
                _ => None,
            },
            scale: if number % 3 == 0 { (1.0, 0.0) } else { (0.4, 128.0) },
            format: PixelFormat { channels, input: entry.pixel, output: results[number / 2 % results.len()] },
            separable: false,
            content: if number % 4 == 1 { Content::Special } else { Content::Random },
            seed: seed.wrapping_add(200_000 + number as u64),
        }
    };
    turns.map(case).collect()
}

/// Cases for bytes in the tensor cores, which compute 64 rows of 128 values at a time.
///
/// The masks are those that there are kernels for, and others. The scale spreads the results over the range of bytes
/// and leaves few of them uncertain. Separable masks have no negative coefficients. Their results stay in that range.
pub(super) fn tensor_bytes(seed: u64) -> Vec<Case> {
    /// Columns and rows of a mask, whether it is separable, and channels.
    type Kind = ((usize, usize), bool, usize);
    const OTHERS: [(usize, usize); 8] = [(2, 2), (1, 1), (5, 3), (4, 9), (17, 3), (33, 2), (6, 15), (25, 1)];
    const BORDERS: [Border; 6] =
        [Border::ZERO, Border::Mirror, Border::Constant(7.0), Border::Wrap, Border::Clamp, Border::Reflect];
    let kinds = entries().flat_map(|entry| {
        let masks = match (entry.variant.spec().mask_form, entry.mask) {
            (MaskForm::FixedPoint, MaskSize::Any) => OTHERS.to_vec(),
            (MaskForm::FixedPoint | MaskForm::SeparableFixedPoint, _) => {
                vec![(entry.side() as usize, entry.side() as usize)]
            }
            _ => vec![],
        };
        let separable = matches!(entry.variant.spec().mask_form, MaskForm::SeparableFixedPoint);
        masks.into_iter().map(move |mask| (mask, separable, entry.channels as usize))
    });
    let turns = kinds.flat_map(|kind| (0..3).map(move |turn| (kind, turn))).enumerate();
    let case = |(number, ((mask, separable, channels), turn)): (usize, (Kind, usize))| Case {
        // Of three blocks side by side the middle one has no edge, nor its second of three steps.
        image: match turn {
            0 => ((390 + 7 * number % 31) / channels, 130 + 5 * number % 17),
            1 => ((128 + number % 3 - 1).div_ceil(channels), 63 + number % 3),
            _ => (1 + 11 * number % 40, 1 + 5 * number % 23),
        },
        mask,
        // A step of 3 cases from kind to kind: the quotient brings the other borders.
        border: BORDERS[(number + number / 6) % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: match turn {
            1 => Some((mask.1 - 1, if separable { mask.0 / 2 } else { number % mask.0 })),
            2 => Some((0, mask.0 / 2)),
            _ => None,
        },
        scale: if separable {
            // A coefficient is 1/4 on average.
            (2.2 / (mask.0 * mask.1) as f32, 0.0)
        } else {
            // Fixed point leaves too much undecided of larger sums of 31 x 31 products.
            (if mask.0 * mask.1 > 900 { 0.2 } else { 0.5 } / ((mask.0 * mask.1) as f32).sqrt(), 128.0)
        },
        format: PixelFormat { channels, input: PixelType::U8, output: PixelType::U8 },
        separable,
        content: Content::Random,
        seed: seed.wrapping_add(300_000 + number as u64),
    };
    turns.map(case).collect()
}

/// Cases for separable masks of interleaved channels.
///
/// Each type, number of channels and class of masks has three images. The first has a block without an edge, and is
/// convolved and correlated. The second ends near a block. The third is small.
pub(super) fn interleaved(seed: u64) -> Vec<Case> {
    const COLUMNS: [usize; 7] = [3, 1, 16, 9, 2, 17, 5];
    const BORDERS: [Border; 6] =
        [Border::Mirror, Border::ZERO, Border::Wrap, Border::Constant(7.0), Border::Clamp, Border::Reflect];
    let is_separable =
        |entry: &&Entry| matches!(entry.variant.spec().mask_form, MaskForm::Factors(_) | MaskForm::ProvenFactors(_));
    let kinds = entries().filter(|entry| !entry.is_plane()).filter(is_separable);
    let turns = kinds.flat_map(|entry| (0..4).map(move |turn| (entry, turn))).enumerate();
    let case = |(number, (entry, turn)): (usize, (&Entry, usize))| {
        let channels = entry.channels as usize;
        // Values of a row that a block computes.
        let values = entry.outputs(entry.example_mask()).0 as usize;
        // A class is the rows of the halo. With tensor cores it is a number of blocks, and the example has the most
        // rows.
        let most_rows = entry.example_mask().1.max(entry.class() + 1) as usize;
        let (columns, rows) = (COLUMNS[number % COLUMNS.len()], most_rows - number % 15);
        // In the emulator the other variants take long for more products.
        let columns = if rows > 33 { columns.min(5) } else { columns };
        let output = (entry.variant.spec().results)(entry.pixel)[0];
        Case {
            image: match turn {
                0 | 3 => ((2 * values + 90) / channels + number % 5, (rows + 8).max(33) + number % 7),
                1 => (values / channels + number % 3 - 1, 17 + number % 4),
                _ => (1 + 11 * number % 40, 1 + 5 * number % 23),
            },
            mask: (columns, rows),
            // Turns 0 and 3 have the same border and the other operation, so that each border is met with both.
            border: BORDERS[(number / 4 + turn % 3) % BORDERS.len()],
            operation: if (number / 4 + turn) % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
            anchor: (turn == 1).then_some((rows - 1, number % columns)),
            scale: match output {
                PixelType::F32 if number % 5 == 3 => (-2.5, 0.25),
                PixelType::F32 => (1.0, 0.0),
                _ => (0.5 / ((columns * rows) as f32).sqrt(), 128.0),
            },
            format: PixelFormat { channels, input: entry.pixel, output },
            separable: true,
            content: if turn == 1 && entry.pixel == PixelType::F32 { Content::Special } else { Content::Random },
            seed: seed.wrapping_add(1_100_000 + number as u64),
        }
    };
    turns.map(case).collect()
}

/// Cases for `f32` and separable masks in the tensor cores, which compute 16 or 32 rows of 192 to 384 values at a time.
///
/// The masks are long in one direction, so that all variants can be compared.
pub(super) fn tensor_planes(seed: u64) -> Vec<Case> {
    const MASKS: [(usize, usize); 8] = [(5, 63), (62, 3), (3, 127), (126, 2), (65, 4), (2, 66), (33, 6), (3, 49)];
    const IMAGES: [(usize, usize); 5] = [(520, 40), (193, 17), (400, 65), (127, 33), (9, 80)];
    const OF_CHANNELS: [(usize, usize); 8] = [(31, 4), (62, 3), (95, 2), (126, 2), (4, 33), (3, 63), (2, 97), (3, 127)];
    let turns = MASKS.iter().flat_map(|&mask| (0..4).map(move |turn| (mask, turn))).enumerate();
    let case = |(number, (mask, turn)): (usize, ((usize, usize), usize))| Case {
        image: IMAGES[number % IMAGES.len()],
        mask,
        border: BORDERS[(number + number / 12) % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: [None, None, Some((mask.1 / 3, mask.0 / 4)), Some((mask.1 - 1, 0))][turn],
        scale: if number % 3 == 1 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable: true,
        content: if turn % 2 == 1 { Content::Special } else { Content::Random },
        seed: seed.wrapping_add(700_000 + number as u64),
    };
    // All masks with images of several blocks side by side, then all with images of one.
    let of_each = 3 * OF_CHANNELS.len();
    let of_channels = (0..2 * of_each).map(|number| {
        let (channels, mask) = (2 + number % 3, OF_CHANNELS[number / 3 % OF_CHANNELS.len()]);
        let format = PixelFormat { channels, ..PixelFormat::PLANE };
        let image = if number < of_each { (260 + number, 34) } else { (11 + number, 66 + number) };
        Case { image, format, ..case((100 + number, (mask, number % 4))) }
    });
    turns.map(case).chain(of_channels).collect()
}

/// Columns and rows.
type Sides = (usize, usize);

/// Cases for Fourier transforms of tiles, which compute two tiles side by side.
///
/// The transforms prove the results of half of the images, because these are light. Most results of the other images
/// are computed again. Masks of more than 64 columns or rows have several parts.
pub(super) fn transforms(seed: u64) -> Vec<Case> {
    const MASKS: [(usize, usize); 6] = [(13, 13), (31, 31), (64, 64), (64, 5), (7, 63), (70, 66)];
    const AROUND: [isize; 3] = [-1, 0, 1];
    let images = |mask: (usize, usize)| {
        let (columns, rows) = (129 - mask.0.min(64), 129 - mask.1.min(64));
        let beyond = |side: usize, by: isize| side.strict_add_signed(by);
        let edges = AROUND.iter().map(move |&by| (beyond(2 * columns, by), beyond(rows, -by)));
        edges.chain([(4 * columns + 250, 2 * rows + 1), (columns / 2, 2 * rows - 1)])
    };
    let all = MASKS.iter().flat_map(|&mask| images(mask).map(move |image| (mask, image))).enumerate();
    let case = |(number, (mask, image)): (usize, (Sides, Sides))| Case {
        image,
        mask,
        border: BORDERS[(number + number / 6) % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: (number % 3 == 2).then_some((mask.1 - 1, mask.0 / 4)),
        scale: if number % 4 == 1 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable: false,
        content: [Content::Light, Content::Random, Content::Light, Content::Special][number % 4],
        seed: seed.wrapping_add(800_000 + number as u64),
    };
    let planes = all.map(case);
    // Interleaved channels: a last tile with a partner and without one.
    let channels = (0..9).map(|number| {
        let (channels, mask) = (2 + number % 3, MASKS[[0, 1, 4][number / 3]]);
        let (columns, rows) = (129 - mask.0, 129 - mask.1);
        let image = match (number % 2, channels) {
            (0, _) => (columns + 3, rows.min(60) + 1),
            // Two channels of a place are a pair, so that one place has no second block.
            (_, 2) => (columns + 1, rows + 5),
            _ => (columns - 2, rows + 5),
        };
        let format = PixelFormat { channels, ..PixelFormat::PLANE };
        let content = if number % 4 == 3 { Content::Special } else { Content::Light };
        Case { format, content, ..case((number + 50, (mask, image))) }
    });
    // In the emulator the other variants take long for more products than these.
    let products = |case: &Case| case.image.0 * case.image.1 * case.format.channels * case.mask.0 * case.mask.1;
    planes.chain(channels).filter(|case| products(case) <= 41_000_000).collect()
}

/// Cases for transforms of larger tiles: the images end in the first tile, at its end and behind it.
///
/// There are few cases, because a pair of tiles takes a second in the emulator.
pub(super) fn long_transforms(seed: u64) -> Vec<Case> {
    const KINDS: [(Sides, Sides); 6] = [
        ((512, 2), (1030, 15)),
        ((2, 512), (5, 515)),
        ((512, 2), (513, 14)),
        ((40, 30), (70, 41)),
        ((512, 2), (1025, 7)),
        ((2, 512), (30, 1027)),
    ];
    let twice = KINDS.iter().flat_map(|kind| [(kind, true), (kind, false)]).enumerate();
    let case = |(number, (&(mask, image), is_convolution)): (usize, (&(Sides, Sides), bool))| Case {
        image,
        mask,
        border: BORDERS[number / 2 % BORDERS.len()],
        operation: if is_convolution { Operation::Convolve } else { Operation::Correlate },
        anchor: (number % 3 == 2).then_some((mask.1 - 1, mask.0 / 4)),
        scale: if number % 4 == 1 { (-2.5, 0.25) } else { (1.0, 0.0) },
        format: PixelFormat::PLANE,
        separable: false,
        content: [Content::Light, Content::Random, Content::Light, Content::Special][number % 4],
        seed: seed.wrapping_add(1_000_000 + number as u64),
    };
    let of_bytes = (1..=4).map(|channels| Case {
        image: (70, 41),
        mask: (40, 30),
        border: Border::Mirror,
        operation: Operation::Convolve,
        anchor: None,
        // What the transforms leave uncertain grows with the scale.
        scale: (0.001, 128.0),
        format: PixelFormat { channels, input: PixelType::U8, output: PixelType::U8 },
        separable: false,
        content: Content::Random,
        seed: seed.wrapping_add(1_100_000 + channels as u64),
    });
    // Interleaved channels: tiles of one pair, a second pair, and an image within a tile.
    const CHANNELS: [(usize, Sides, Sides); 4] =
        [(2, (512, 2), (515, 15)), (3, (512, 2), (1030, 9)), (4, (512, 2), (516, 9)), (3, (40, 30), (70, 41))];
    let interleaved = CHANNELS.into_iter().enumerate().map(|(number, (channels, mask, image))| Case {
        format: PixelFormat { channels, ..PixelFormat::PLANE },
        ..case((number + 12, (&(mask, image), number % 2 == 1)))
    });
    twice.map(case).chain(interleaved).chain(of_bytes).collect()
}

/// Cases for integers of planes, with a proof, on images of about 64 and 128 columns.
///
/// The results are spread over the range of the type. Words can be proven for small masks only.
pub(super) fn integers(seed: u64) -> Vec<Case> {
    type Turn = ((PixelType, Sides), usize, bool);
    const OF_BYTES: [(usize, usize); 6] = [(5, 5), (9, 14), (15, 15), (31, 31), (63, 63), (64, 3)];
    const OF_WORDS: [(usize, usize); 3] = [(3, 3), (5, 5), (2, 7)];
    const BORDERS: [Border; 6] =
        [Border::ZERO, Border::Mirror, Border::Constant(7.0), Border::Wrap, Border::Clamp, Border::Reflect];
    const IMAGES: [(usize, usize); 6] = [(64, 32), (129, 33), (63, 65), (130, 31), (5, 70), (193, 2)];
    let masks = |kind, masks: &'static [(usize, usize)]| masks.iter().map(move |&mask| (kind, mask));
    let kinds = masks(PixelType::U8, &OF_BYTES).chain(masks(PixelType::U16, &OF_WORDS));
    let turns = kinds
        .flat_map(|kind| (1..=4).flat_map(move |channels| [true, false].map(|separable| (kind, channels, separable))));
    let case = |(number, ((kind, mask), channels, separable)): (usize, Turn)| Case {
        image: IMAGES[(number + number / 6) % IMAGES.len()],
        mask,
        border: BORDERS[(number + number / 12) % BORDERS.len()],
        operation: if number % 2 == 0 { Operation::Convolve } else { Operation::Correlate },
        anchor: (number % 3 == 2).then_some((mask.1 - 1, mask.0 / 4)),
        scale: {
            let root = ((mask.0 * mask.1) as f32).sqrt();
            if kind == PixelType::U8 { (0.3 / root, 128.0) } else { (0.3 / root, 30_000.0) }
        },
        format: PixelFormat { channels, input: kind, output: kind },
        separable,
        content: Content::Random,
        seed: seed.wrapping_add(900_000 + number as u64),
    };
    // In the emulator the other variants take long for more products than these.
    let products = |case: &Case| case.image.0 * case.image.1 * case.mask.0 * case.mask.1 * case.format.channels;
    turns.enumerate().map(case).filter(|case| products(case) <= 20_000_000).collect()
}
