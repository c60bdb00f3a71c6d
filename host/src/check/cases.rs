//! The problems that every backend is tried on.
//!
//! Chosen to hurt: no width equals a height, sizes stand on either side of every tile boundary, masks are asymmetric,
//! even, rectangular, larger than the image, and each pair of an image and a mask gets the next border, operation and
//! anchor in turn, so that every one of these meets every other.

use std::collections::BTreeSet;
use std::fmt;

use kernels_gpu::registry::{Entry, Grid, MaskForm, MaskSize, entries};

use super::cover::cover;
use faltung::{AnyImage, Border, Filter, Mask, Operation, PixelFormat, PixelType, Problem, Result, VariantChoice};

/// The seed of the data when none is given.
pub const SEED: u64 = 20_260;

/// What the values of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Uniform in -1 to 1.
    Random,
    /// Random with NaN, infinities, zeros of both signs and denormal numbers strewn in.
    Special,
}

/// One problem with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Columns and rows of the image.
    pub image: (usize, usize),
    /// Columns and rows of the mask.
    pub mask: (usize, usize),
    /// What lies outside.
    pub border: Border,
    /// Which way the mask is walked.
    pub operation: Operation,
    /// Row and column of the anchor; None is the middle.
    pub anchor: Option<(usize, usize)>,
    /// Factor and addend of the sums.
    pub scale: (f32, f32),
    /// Types and channels.
    pub format: PixelFormat,
    /// Whether the mask is a column times a row.
    pub separable: bool,
    /// What the pixels are; integers are always random.
    pub content: Content,
    /// What image and mask are made from.
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Convolve => "convolve",
            Operation::Correlate => "correlate",
        };
        write!(
            f,
            "{}x{} with {}x{} {operation} {}",
            self.image.0, self.image.1, self.mask.0, self.mask.1, self.border
        )?;
        if let Some((row, column)) = self.anchor {
            write!(f, " anchor {row},{column}")?;
        }
        if self.scale != (1.0, 0.0) {
            write!(f, " scale {} offset {}", self.scale.0, self.scale.1)?;
        }
        if self.separable {
            f.write_str(" separable")?;
        }
        if self.content == Content::Special {
            f.write_str(" special values")?;
        }
        if self.format != PixelFormat::PLANE {
            write!(f, " {}", self.format)?;
        }
        write!(f, " seed {}", self.seed)
    }
}

impl Case {
    /// Whether the case says something about what was asked for: images of more than a few tiles side by side are there
    /// for variants with wide ones.
    #[must_use]
    pub fn concerns(&self, choice: VariantChoice) -> bool {
        let Some(variant) = choice.named() else { return true };
        let columns = variant.entries().map(|entry| entry.outputs().0).max();
        self.image.0 <= 5 * columns.unwrap_or(0) as usize
    }

    /// The problem and its image.
    ///
    /// # Errors
    /// Those of [`Problem::new`]; the cases of this file have none.
    pub fn make(&self) -> Result<(Problem, AnyImage)> {
        Ok((self.problem()?, self.pixels()?))
    }

    /// The problem.
    pub(super) fn problem(&self) -> Result<Problem> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let mut uniform = move || random.f32().mul_add(2.0, -1.0);
        let (width, height) = self.mask;
        let coefficients = if self.separable {
            let (row, column): (Vec<f32>, Vec<f32>) =
                ((0..width).map(|_| uniform()).collect(), (0..height).map(|_| uniform()).collect());
            column.iter().flat_map(|of_column| row.iter().map(move |of_row| of_column * of_row)).collect()
        } else {
            (0..width * height).map(|_| uniform()).collect()
        };
        let mut filter = Filter::new(Mask::new(self.mask.0, self.mask.1, coefficients)?)
            .operation(self.operation)
            .border(self.border)
            .scale(self.scale.0)
            .offset(self.scale.1);
        if let Some((row, column)) = self.anchor {
            filter = filter.anchor(row, column);
        }
        Problem::new(self.image.0, self.image.1, &filter)?.with_format(self.format)
    }

    /// The image.
    fn pixels(&self) -> Result<AnyImage> {
        let mut random = fastrand::Rng::with_seed(!self.seed);
        let mut pixels = AnyImage::zeros(self.image.0, self.image.1, self.format.channels, self.format.input)?;
        let mut float = || {
            let value = random.f32().mul_add(2.0, -1.0);
            if self.content == Content::Random || random.u8(..) > 20 {
                return value;
            }
            let special =
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 8.0, -f32::from_bits(1)];
            special[random.usize(..special.len())]
        };
        match &mut pixels {
            AnyImage::F32(image) => image.values_mut().fill_with(&mut float),
            AnyImage::U8(image) => random.fill(image.values_mut()),
            AnyImage::U16(image) => image.values_mut().fill_with(|| random.u16(..)),
        }
        Ok(pixels)
    }
}

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

/// The cases, in a fixed order. `quick` leaves out those that try nothing which a cheaper case does not try.
#[must_use]
pub fn cases(quick: bool, seed: u64) -> Vec<Case> {
    if quick { cover(all(seed)) } else { all(seed) }
}

/// All cases.
fn all(seed: u64) -> Vec<Case> {
    let mut shapes = Vec::new();
    let mut tiles: Vec<_> = entries().map(Entry::outputs).filter(|(columns, _)| *columns <= WIDEST_TILE).collect();
    tiles.sort_unstable();
    tiles.dedup();
    for (columns, rows) in tiles {
        let (widths, heights) = (around(columns as usize), around(rows as usize));
        for (i, &width) in widths.iter().enumerate() {
            // Not the whole product: each width with three of the heights, another three for the next.
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
            // Stirred, because what goes by a rhythm of i and j meets the rhythm of `quick` and comes out the same each
            // time.
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
                    // Most of the sums in the range of the type, some saturated.
                    _ if format.input == PixelType::F32 && format.output != PixelType::F32 => (60.0, 128.0),
                    PixelType::U8 => (0.4, 128.0),
                    PixelType::U16 => (0.4, 30_000.0),
                    PixelType::F32 if turn % 7 == 3 => (-2.5, 0.25),
                    PixelType::F32 => (1.0, 0.0),
                },
                format,
                separable: (mixed / 64).is_multiple_of(3),
                // Not by `turn`: a multiple of 4 masks would give each mask one content.
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
    cases.extend(tensor_planes(seed));
    cases
}

/// Tiles of up to this width get images of all sizes around theirs; for wider ones there is [`wide`].
const WIDEST_TILE: u32 = 64;

/// Images on either side of the tile boundaries of the variants with wide tiles, and some so wide that there are blocks
/// without an edge; with all masks that those are made for, and others. Each mask is separable once and once not.
fn wide(seed: u64) -> Vec<Case> {
    const IMAGES: [(usize, usize); 10] =
        [(128, 8), (251, 33), (129, 23), (257, 31), (127, 9), (252, 7), (255, 32), (516, 40), (253, 1), (256, 16)];
    let odd = (3..=21).step_by(2).map(|side| (side, side));
    let masks = odd.chain([(8, 6), (31, 31), (7, 12), (2, 33), (40, 1)]);
    let four_times = masks.flat_map(|mask| [(mask, false), (mask, true), (mask, false), (mask, true)]).enumerate();
    let case = |(turn, (mask, separable)): (usize, ((usize, usize), bool))| Case {
        // The second two of a mask are those without an edge on every side.
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

/// The same for the squares from 16 x 16 on that a stream has kernels for: strips with rows that have all of their
/// sums, the last block of a row in its place, moved to the left, and with columns that are not aligned.
fn large_squares(seed: u64) -> Vec<Case> {
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
    // Low images in strips of 7 and 8 rows, of which the first rows of a mask lie above the image, or the last ones
    // below, whole passes of them.
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

/// Masks of the sizes that kernels of one `f32` a pixel are made for and that no other case has, on images a little
/// larger than a tile of the kernel.
fn other_sizes(seed: u64) -> Vec<Case> {
    /// Width and height of a mask, and whether it is separable.
    type Kind = ((u32, u32), bool);
    let masks = entries().filter(|entry| entry.is_plane()).filter_map(|entry| {
        let spec = entry.variant.spec();
        let separable = matches!(spec.mask_form, MaskForm::Factors(_));
        let tile = (entry.outputs().0 as usize).max(128);
        match entry.mask {
            // The odd sides up to 21 are those of other cases; with a separable mask, too.
            MaskSize::Square(side @ (8 | 10 | 12 | 14 | 17..)) => Some((((side, side), separable), tile)),
            MaskSize::Class(class) => Some((((spec.mask_class?.example)(class), separable), tile)),
            MaskSize::Any | MaskSize::Square(_) => None,
        }
    });
    let masks: BTreeSet<_> = masks.collect();
    let case = |(number, (((width, height), separable), tile)): (usize, (Kind, usize))| Case {
        // The largest masks take every variant long.
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

/// The same for images of other values than one `f32`, whose kernels have tiles of 128 and 256 of them: of each type,
/// side of a mask and number of channels two that have blocks without an edge, in strips that have rows with all of
/// their sums, and three small ones.
fn wide_values(seed: u64) -> Vec<Case> {
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
            // A step of 5 cases from kind to kind, and of 1 within: 7 borders meet all.
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

/// The same for the tensor cores, which compute 64 rows of 128 values at a time: the masks that they have kernels for,
/// and others; scaled so that the results are spread over the range of bytes, and few of them uncertain.
fn tensor_bytes(seed: u64) -> Vec<Case> {
    /// Columns and rows of a mask, and channels.
    type Kind = ((usize, usize), usize);
    const OTHERS: [(usize, usize); 8] = [(2, 2), (1, 1), (5, 3), (4, 9), (17, 3), (33, 2), (6, 15), (25, 1)];
    const BORDERS: [Border; 6] =
        [Border::ZERO, Border::Mirror, Border::Constant(7.0), Border::Wrap, Border::Clamp, Border::Reflect];
    let in_fixed_point = entries().filter(|entry| matches!(entry.variant.spec().mask_form, MaskForm::FixedPoint));
    let kinds = in_fixed_point.flat_map(|entry| {
        let masks = match entry.mask {
            MaskSize::Square(side) => vec![(side as usize, side as usize)],
            MaskSize::Any | MaskSize::Class(_) => OTHERS.to_vec(),
        };
        masks.into_iter().map(|mask| (mask, entry.channels as usize))
    });
    let turns = kinds.flat_map(|kind| (0..3).map(move |turn| (kind, turn))).enumerate();
    let case = |(number, ((mask, channels), turn)): (usize, (Kind, usize))| Case {
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
            1 => Some((mask.1 - 1, number % mask.0)),
            2 => Some((0, mask.0 / 2)),
            _ => None,
        },
        // Fixed point leaves too much undecided of larger sums of 31 x 31 products.
        scale: (if mask.0 * mask.1 > 900 { 0.2 } else { 0.5 } / ((mask.0 * mask.1) as f32).sqrt(), 128.0),
        format: PixelFormat { channels, input: PixelType::U8, output: PixelType::U8 },
        separable: false,
        content: Content::Random,
        seed: seed.wrapping_add(300_000 + number as u64),
    };
    turns.map(case).collect()
}

/// The same for one `f32` and masks that are a column times a row, of which the tensor cores compute 16 or 32 rows of
/// 192 to 384 columns at a time: long ones, so that all variants can be held against each other.
fn tensor_planes(seed: u64) -> Vec<Case> {
    const MASKS: [(usize, usize); 8] = [(5, 63), (62, 3), (3, 127), (126, 2), (65, 4), (2, 66), (33, 6), (3, 49)];
    const IMAGES: [(usize, usize); 5] = [(520, 40), (193, 17), (400, 65), (127, 33), (9, 80)];
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
    turns.map(case).collect()
}

/// What the sweep does not reach: a mask too large for constant memory, one too long for a tile, and an image of more
/// rows than one grid has.
fn extremes(seed: u64) -> [Case; 4] {
    let plain = |image, mask, border| Case {
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
        plain((37, 21), (129, 128), Border::Reflect),
        plain((37, 21), (12_000, 1), Border::Wrap),
        plain((21, 37), (101, 99), Border::Mirror),
        // 65,535 rows of blocks of 16 rows are 1,048,560 rows.
        plain((3, 1_048_600), (3, 3), Border::Clamp),
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
