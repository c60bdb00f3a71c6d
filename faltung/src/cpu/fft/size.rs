//! The size of the tiles, and what they cost.

/// The longest transform, unless the mask needs a longer one.
const MOST: usize = 1024;
/// The most values of a tile: 128 MiB for its spectrum.
const MOST_VALUES: usize = 1 << 24;
/// Masks with a side above this are refused.
const MOST_SIDE: usize = 1 << 14;

/// Tiles of one size. A tile reads `width x height` values of the image, zeros where that is more than it needs, and
/// gives up to `columns x rows` results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TileSize {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// Nanoseconds of one core for each value of the result.
    pub(crate) nanoseconds: f64,
}

impl TileSize {
    /// Nanoseconds of one core for each value, that no tile goes below: the shortest transforms are of 8 values.
    pub(crate) const LEAST_NANOSECONDS: f64 = PER_RESULT + PER_VALUE + PER_STAGE * 2.0 * 4.0;

    /// The cheapest for a mask and an image of these widths and heights, whatever the number of threads. None if the
    /// mask is too large.
    pub(crate) fn of(mask: [usize; 2], image: [usize; 2]) -> Option<Self> {
        if mask[0].max(mask[1]) > MOST_SIDE {
            return None;
        }
        let (widths, heights) = (lengths(mask[0], image[0], 2), lengths(mask[1], image[1], 1));
        let mut best: Option<Self> = None;
        for &width in &widths {
            for &height in heights.iter().filter(|&&height| width * height <= MOST_VALUES) {
                let columns = (width - mask[0] + 1).min(image[0]);
                let rows = (height - mask[1] + 1).min(image[1]);
                let tiles = image[0].div_ceil(columns) as f64 * image[1].div_ceil(rows) as f64;
                let values = (image[0] * image[1]) as f64;
                let nanoseconds = tiles * tile(width, height) / values + PER_RESULT;
                if best.is_none_or(|best| nanoseconds < best.nanoseconds) {
                    best = Some(Self { width, height, columns, rows, nanoseconds });
                }
            }
        }
        best
    }
}

/// Nanoseconds to load and to write a value.
const PER_RESULT: f64 = 0.5;
/// Nanoseconds to widen and to judge a value of a tile.
const PER_VALUE: f64 = 0.95;
/// Nanoseconds for each value and each halving of a transform, both ways.
const PER_STAGE: f64 = 0.228;
/// Lengths that are no power of two take so many times as long.
const ODD_LENGTH: f64 = 1.2;
/// Columns above this length leave the first-level cache while they are gathered. The transforms take so many times as
/// long.
const TALL: (usize, f64) = (320, 1.1);
/// The same for tiles above so many values, which leave the second-level cache.
const LARGE: (usize, f64) = (1 << 17, 1.2);
/// Nanoseconds to begin a tile.
const PER_TILE: f64 = 2_000.0;

/// Nanoseconds of a tile, forth and back.
fn tile(width: usize, height: usize) -> f64 {
    let of = |length: usize| {
        let stages = (length as f64).log2() + 1.0;
        if length.is_power_of_two() { stages } else { ODD_LENGTH * stages }
    };
    let tall = if height > TALL.0 { TALL.1 } else { 1.0 };
    let slower = if width * height > LARGE.0 { LARGE.1 * tall } else { tall };
    (width * height) as f64 * (PER_STAGE * (of(width) + of(height)) * slower + PER_VALUE) + PER_TILE
}

/// The lengths of transforms to choose from for one axis: multiples of `step` without prime factors above 5. The last
/// one covers the whole image, if that is not too long.
fn lengths(mask: usize, image: usize, step: usize) -> Vec<usize> {
    let (least, whole) = (mask.max(8), image.saturating_add(mask - 1).max(8));
    let most = (2 * least).max(MOST);
    let mut lengths: Vec<usize> =
        (least..=most.min(2 * whole)).filter(|length| length.is_multiple_of(step) && is_smooth(*length)).collect();
    let enough = lengths.partition_point(|&length| length < whole);
    lengths.truncate(enough + 1);
    lengths
}

/// No prime factor is above 5.
pub(super) fn is_smooth(mut length: usize) -> bool {
    for factor in [2, 3, 5] {
        while length.is_multiple_of(factor) {
            length /= factor;
        }
    }
    length == 1
}
