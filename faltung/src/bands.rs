//! An image in bands of rows, which are transferred while others are computed.

use std::ops::Range;

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::abi::params::Params;

/// The number of bands of an image, unless their bytes would be out of the range below.
const BANDS: usize = 8;
/// The fewest bytes of a band. A band takes three calls of the driver, some 10 µs. So many bytes take as long on the
/// bus.
const LEAST: usize = 1 << 19;
/// The most bytes of a band. So many take 80 µs on the bus. The first upload and the last download, which overlap with
/// nothing, take no longer than that.
const MOST: usize = 4 << 20;

/// Rows that are transferred together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// Those of the source.
    pub(super) rows: Range<usize>,
    /// The outputs that can be computed when these rows and all before them are there, and no band before had.
    pub(super) outputs: Range<usize>,
}

/// The bands of an image, a row of which takes `row_bytes`, of source or result, whichever has more; None where the
/// image is too small or its rows are too long for bands, or the first rows are computed from the last ones.
///
/// While a band is computed, the image is said to end where the rows end that are there. So each of the outputs has the
/// rows under its window that it has in the whole image: it lies far enough above that end, and the first band is
/// higher than the mask, whatever rows the border repeats above the image.
///
/// Bands of outputs begin a multiple of `step` rows apart
/// ([`Entry::launch_row_alignment`](kernels_gpu::registry::Entry::launch_row_alignment)).
pub(super) fn bands(params: &Params, row_bytes: usize, step: usize) -> Option<Vec<Band>> {
    let (height, mask) = (params.height as usize, params.mask_height as usize);
    // A band brings back what the rows of the one before were not enough for, too: under a mask, and up to a step.
    let most = (MOST / row_bytes).checked_sub(mask - 1 + step - 1)?;
    // Each has outputs.
    let least = (mask + 1).max(mask - 1 + step);
    let rows = ((height * row_bytes / BANDS).max(LEAST) / row_bytes).clamp(least, most.max(least));
    let fits = rows <= most && height >= 2 * rows && params.border != BorderMode::Wrap.code();
    fits.then(|| bands_of(params, rows, step))
}

/// The bands of `rows` rows, the last one with what is left.
pub(super) fn bands_of(params: &Params, rows: usize, step: usize) -> Vec<Band> {
    let (height, below) = (params.height as usize, (params.mask_height - 1 - params.origin_y) as usize);
    let mut computed = 0;
    let band = |start: usize| {
        let end = (start + rows).min(height);
        let outputs = computed..if end == height { height } else { (end - below) / step * step };
        computed = outputs.end;
        Band { rows: start..end, outputs }
    };
    (0..height).step_by(rows).map(band).collect()
}

#[cfg(test)]
mod tests {
    use kernels_gpu::abi::border::map;

    use super::*;
    use crate::plan::{Limits, Plan, VariantChoice};
    use crate::{Border, Filter, Mask, Problem};

    /// Every row travels once, every output is computed once, and each has under its window what it has in the whole
    /// image.
    #[test]
    fn bands_are_the_whole() {
        let seed = 78;
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut cut = 0;
        for round in 0..300 {
            let (width, height) = (random.usize(100..4000), random.usize(1..3000));
            let (mask_width, mask_height) = (random.usize(1..4), random.usize(1..60));
            let border =
                [Border::ZERO, Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap][random.usize(..5)];
            let filter = Filter::new(Mask::new(mask_width, mask_height, vec![1.0; mask_width * mask_height]).unwrap())
                .border(border)
                .anchor(random.usize(..mask_height), random.usize(..mask_width));
            let problem = Problem::new(width, height, &filter).unwrap();
            let params = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap().params;
            let step = [1, 1, random.usize(2..100)][round % 3];
            let Some(bands) = bands(&params, width * 4, step) else {
                assert!(
                    border == Border::Wrap
                        || height * width * 4 < 2 * LEAST
                        || height < 2 * (mask_height + step) + 2 * LEAST / width
                        || (2 * mask_height + 2 * step) * width * 4 > MOST
                );
                continue;
            };
            assert!(border != Border::Wrap);
            cut += 1;
            let (mut sent, mut computed) = (0, 0);
            for Band { rows, outputs } in bands {
                assert_eq!((rows.start, outputs.start), (sent, computed), "{problem:?}");
                assert!(!rows.is_empty() && rows.len() * width * 4 <= MOST && outputs.len() * width * 4 <= MOST);
                (sent, computed) = (rows.end, outputs.end);
                for y in outputs {
                    for k in 0..mask_height as i32 {
                        let row = y as i32 - params.origin_y + k;
                        let of_height = |height: usize| map(params.border, row, height as i32);
                        assert_eq!(of_height(sent), of_height(height), "row {row} of output {y}, {problem:?}");
                    }
                }
            }
            assert_eq!((sent, computed), (height, height));
        }
        assert!(cut > 100, "{cut}");
    }
}
