//! The box blur in plain Rust: the exact sums, the separable method and running sums.

use rayon::prelude::*;

use faltung::{Border, Image};
use kernels_gpu::abi::border;

/// A box of equal coefficients, `width * height` of them, each 1 over that number.
#[derive(Clone, Copy)]
pub(super) struct Box {
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Box {
    pub(super) fn area(self) -> usize {
        self.width * self.height
    }
}

/// The mean for a sum, rounded half to even.
pub(super) fn rounded(sum: u64, area: u64) -> u8 {
    let (quotient, rest) = (sum / area, sum % area);
    let up = 2 * rest > area || (2 * rest == area && quotient % 2 == 1);
    // The mean of pixels is a pixel.
    (quotient + u64::from(up)) as u8
}

/// The exact sums, from a table of the sums of all rectangles that begin at the corner of the image with its border
/// around it.
pub(super) fn sums(image: &Image<u8>, mask: Box, border: Border) -> Vec<u64> {
    let (width, height) = (image.width() + mask.width - 1, image.height() + mask.height - 1);
    let code = border.mode().code();
    let inside = |at: usize, before: usize, length: usize| {
        let position = border::map(code, at as i32 - before as i32, length as i32);
        usize::try_from(position).ok()
    };
    // One row and one column of zeros before the first.
    let mut table = vec![0_u64; (width + 1) * (height + 1)];
    for y in 0..height {
        let row = inside(y, mask.height / 2, image.height()).map(|y| image.row(y));
        let mut along = 0;
        for x in 0..width {
            let column = inside(x, mask.width / 2, image.width());
            along += column.zip(row).map_or(0, |(x, row)| u64::from(row[x]));
            table[(y + 1) * (width + 1) + x + 1] = table[y * (width + 1) + x + 1] + along;
        }
    }
    let at = |x: usize, y: usize| table[y * (width + 1) + x];
    let positions = (0..image.height()).flat_map(|y| (0..image.width()).map(move |x| (x, y)));
    positions
        .map(|(x, y)| {
            let (right, bottom) = (x + mask.width, y + mask.height);
            at(right, bottom) + at(x, y) - at(right, y) - at(x, bottom)
        })
        .collect()
}

/// Rows first, then columns, each sum from scratch; positions outside are skipped.
pub(super) fn separable(image: &Image<u8>, mask: Box) -> Vec<u8> {
    let (width, height) = (image.width(), image.height());
    let mut rows = vec![0_u32; width * height];
    rows.par_chunks_mut(width).enumerate().for_each(|(y, sums)| {
        for (x, sum) in sums.iter_mut().enumerate() {
            let part = clipped(x, mask.width, width);
            *sum = image.row(y)[part].iter().map(|&pixel| u32::from(pixel)).sum();
        }
    });
    let mut result = vec![0; width * height];
    result.par_chunks_mut(width).enumerate().for_each_init(
        || vec![0_u32; width],
        |sums, (y, result)| {
            sums.fill(0);
            for row in clipped(y, mask.height, height) {
                for (sum, &of_row) in sums.iter_mut().zip(&rows[row * width..][..width]) {
                    *sum += of_row;
                }
            }
            divide(sums, mask, result);
        },
    );
    result
}

/// By running sums: down the columns, then along each row. Threads compute bands of rows.
pub(super) fn running(image: &Image<u8>, mask: Box) -> Vec<u8> {
    let (width, height) = (image.width(), image.height());
    // A band's first row costs as much as the box is high.
    let band = height.div_ceil(rayon::current_num_threads());
    let mut result = vec![0; width * height];
    result.par_chunks_mut(band * width).enumerate().for_each(|(number, result)| {
        let first = number * band;
        let mut columns = vec![0_u32; width];
        let change = |columns: &mut [u32], row: usize, step: fn(u32, u32) -> u32| {
            for (sum, &pixel) in columns.iter_mut().zip(image.row(row)) {
                *sum = step(*sum, u32::from(pixel));
            }
        };
        for row in clipped(first, mask.height, height) {
            change(&mut columns, row, |sum, pixel| sum + pixel);
        }
        let mut sums = vec![0_u32; width];
        for (y, result) in (first..).zip(result.chunks_exact_mut(width)) {
            along(&columns, mask.width, &mut sums);
            divide(&sums, mask, result);
            let (old, new) = (clipped(y, mask.height, height), clipped(y + 1, mask.height, height));
            for row in old.end..new.end {
                change(&mut columns, row, |sum, pixel| sum + pixel);
            }
            for row in old.start..new.start.min(old.end) {
                change(&mut columns, row, |sum, pixel| sum - pixel);
            }
        }
    });
    result
}

/// The running sums of a row of `columns`, over `window` of them.
fn along(columns: &[u32], window: usize, sums: &mut [u32]) {
    let mut sum: u32 = columns[clipped(0, window, columns.len())].iter().sum();
    for (x, result) in sums.iter_mut().enumerate() {
        *result = sum;
        let (enters, leaves) = (x + window - window / 2, x.checked_sub(window / 2));
        sum += columns.get(enters).copied().unwrap_or(0);
        sum -= leaves.map_or(0, |at| columns[at]);
    }
}

/// Quotients of finished sums.
fn divide(sums: &[u32], mask: Box, result: &mut [u8]) {
    let area = mask.area() as u64;
    for (result, &sum) in result.iter_mut().zip(sums) {
        *result = rounded(sum.into(), area);
    }
}

/// The part of the window at `at` that lies in `0..length`.
fn clipped(at: usize, window: usize, length: usize) -> std::ops::Range<usize> {
    let start = at.saturating_sub(window / 2);
    let end = (at + window - window / 2).min(length);
    start.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes around those of the image, smaller and larger, even and odd.
    #[test]
    fn all_methods_agree_with_sums_pixel_by_pixel() {
        let image = Image::from_fn(13, 9, |x, y| ((x * 31 + y * 57) % 256) as u8).unwrap();
        for (width, height) in [(1, 1), (2, 3), (4, 4), (5, 2), (13, 9), (14, 17), (30, 40), (1, 20), (20, 1)] {
            let mask = Box { width, height };
            for border in [Border::ZERO, Border::Clamp, Border::Wrap, Border::Mirror] {
                let found = sums(&image, mask, border);
                let pixel = |x: usize, y: usize, k: usize, l: usize| {
                    let map = |at: usize, offset: usize, half: usize, length: usize| {
                        let at = at as i32 + offset as i32 - half as i32;
                        border::map(border.mode().code(), at, length as i32)
                    };
                    let (row, column) = (map(y, k, height / 2, 9), map(x, l, width / 2, 13));
                    if row < 0 || column < 0 { 0 } else { u64::from(image.row(row as usize)[column as usize]) }
                };
                for (i, &sum) in found.iter().enumerate() {
                    let all = (0..height).flat_map(|k| (0..width).map(move |l| (k, l)));
                    let expected: u64 = all.map(|(k, l)| pixel(i % 13, i / 13, k, l)).sum();
                    assert_eq!(sum, expected, "{width} x {height}, {border}, value {i}");
                }
            }
            let expected: Vec<u8> =
                sums(&image, mask, Border::ZERO).iter().map(|&sum| rounded(sum, mask.area() as u64)).collect();
            assert_eq!(separable(&image, mask), expected, "separable, {width} x {height}");
            assert_eq!(running(&image, mask), expected, "running, {width} x {height}");
        }
    }

    #[test]
    fn halves_go_to_even() {
        let means = [(1, 2), (3, 2), (5, 2), (4, 3), (5, 3), (0, 7)].map(|(sum, area)| rounded(sum, area));
        assert_eq!(means, [0, 2, 2, 1, 2, 0]);
    }
}
