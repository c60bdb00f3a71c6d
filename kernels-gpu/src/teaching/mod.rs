//! Three kernels in reading order. Each adds one idea to the one before.

pub mod constant_mask;
pub mod naive;
pub mod shared_tile;
