//! Kernels that compute every product of the mask, in the order of the sum: the results are bit-exact.

pub mod register_tile;
pub mod shared_tile_async;
pub mod sliding_window;
pub mod sliding_window_planar;
