//! Kernels that do not convolve: a copy, and a measurement of the FP32 peak.

pub mod fma_peak;
pub mod memcpy;
