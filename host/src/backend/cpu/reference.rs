//! The contract, spelled out: what every direct variant has to compute, bit by bit.

use crate::Problem;
use kernels_gpu::border::{OUTSIDE, map};

/// Computes `problem` one output and one coefficient at a time: `f32`, one fused multiply-add a coefficient, starting
/// from +0, the window's rows from top to bottom, each from left to right. The pixels outside take part as values.
///
/// `source` and `result` are `height` rows of `width` values without gaps. This is slow, and meant to be read and compared
/// with: [`convolve`](super::convolve) gives the same bits.
///
/// # Panics
/// If a slice has not `width * height` values.
pub(crate) fn reference(problem: &Problem, source: &[f32], result: &mut [f32]) {
    let (width, height, window) = (problem.width(), problem.height(), problem.window());
    assert_eq!((source.len(), result.len()), (width * height, width * height), "values of source and result");
    let (border, (origin_y, origin_x)) = (problem.border(), problem.origin());
    let code = border.mode().code();
    for y in 0..height {
        for x in 0..width {
            let mut sum = 0.0;
            for k in 0..window.height() {
                let row = map(code, (y + k) as i32 - origin_y as i32, height as i32);
                for l in 0..window.width() {
                    let column = map(code, (x + l) as i32 - origin_x as i32, width as i32);
                    let pixel = if row == OUTSIDE || column == OUTSIDE {
                        border.value()
                    } else {
                        source[row as usize * width + column as usize]
                    };
                    sum = window.at(k, l).mul_add(pixel, sum);
                }
            }
            result[y * width + x] = problem.finish(sum);
        }
    }
}
