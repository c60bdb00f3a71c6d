//! tmp
use crate::Problem;

/// Computes `problem` on the CPU.
pub fn convolve(problem: &Problem, source: &[f32], result: &mut [f32]) {
    let _ = (problem, source, result);
    unimplemented!()
}
