//! Kernels that do not convolve: a copy, and the measurement of the FMA peak.

pub mod fma_peak;
pub mod memcpy;
