//! Kernels that do not convolve: a copy, conversions between images and planes, and a measurement of the FP32 peak.

pub mod fma_peak;
pub mod memcpy;
pub mod planes;
