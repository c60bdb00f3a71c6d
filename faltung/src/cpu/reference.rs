//! The contract, spelled out: the bits of exact results.

use crate::Problem;

/// Computes `problem` one output and one coefficient at a time: `f32`, one fused multiply-add a coefficient, starting
/// from +0, the window's rows from top to bottom, each from left to right. The pixels outside take part as values.
///
/// `source` and `result` are `height` rows of `width` values without gaps. This is slow, and meant to be read and
/// compared with. The CPU device gives the same bits for [`Accuracy::Exact`](crate::Accuracy::Exact).
///
/// # Panics
/// If a slice has not `width * height` values.
pub fn reference(problem: &Problem, source: &[f32], result: &mut [f32]) {
    let (width, height) = (problem.width(), problem.height());
    assert_eq!((source.len(), result.len()), (width * height, width * height), "values of source and result");
    for (i, result) in result.iter_mut().enumerate() {
        *result = problem.result_of(i % width, i / width, |row, column| source[row * width + column]);
    }
}
