//! The median of 3 x 3 pixels. Pixels outside of the image have the value of the nearest one inside.

use cuda_std::prelude::*;

/// The pairs that are sorted one after the other. Then the median is in the middle (Smith 1996).
const NETWORK: [(usize, usize); 19] = [
    (1, 2),
    (4, 5),
    (7, 8),
    (0, 1),
    (3, 4),
    (6, 7),
    (1, 2),
    (4, 5),
    (7, 8),
    (0, 3), //
    (5, 8),
    (4, 7),
    (3, 6),
    (1, 4),
    (2, 5),
    (4, 7),
    (4, 2),
    (6, 4),
    (4, 2),
];

/// The median of nine values, without a branch.
#[inline(always)]
fn median_of_9(mut values: [u8; 9]) -> u8 {
    let mut step = 0;
    // A loop over indices is unrolled, so the array stays in registers.
    while step < NETWORK.len() {
        let (a, b) = NETWORK[step];
        (values[a], values[b]) = (values[a].min(values[b]), values[a].max(values[b]));
        step += 1;
    }
    values[4]
}

/// The 3 x 3 median of an image: one thread for each pixel.
///
/// # Safety
/// - `image` and `result` hold `width * height` pixels each, and neither size is 0.
#[kernel(lengths(image = width * height, result = width * height), launch_bounds(256))]
pub unsafe fn median_3x3(image: Global<u8>, result: GlobalMut<u8>, width: u32, height: u32) {
    let (x, y) = thread::index_2d();
    if x >= width || y >= height {
        return;
    }
    let columns = [x.saturating_sub(1), x, (x + 1).min(width - 1)];
    let rows = [y.saturating_sub(1), y, (y + 1).min(height - 1)];
    let mut window = [0; 9];
    for i in 0..9 {
        // SAFETY: the column is below the width and the row below the height.
        window[i] = unsafe { image.load((rows[i / 3] * width + columns[i % 3]) as isize) };
    }
    // SAFETY: the pixel lies in the image, and no other thread has it.
    unsafe { result.store((y * width + x) as isize, median_of_9(window)) };
}
