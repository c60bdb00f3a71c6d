//! tmp
use crate::{Problem, Rates};

pub(crate) const VARIANT: &str = "direct";
pub(crate) fn describe() -> String {
    "CPU".into()
}
pub(crate) fn reason() -> String {
    "".into()
}
pub(crate) fn rates() -> Rates {
    unimplemented!()
}
/// Computes `problem` on the CPU.
pub(crate) fn convolve(problem: &Problem, source: &[f32], result: &mut [f32]) {
    let _ = (problem, source, result);
    unimplemented!()
}
