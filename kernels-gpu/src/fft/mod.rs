//! Kernels for large dense masks that multiply Fourier transforms of tiles.

mod complex;
mod direct;
pub mod error;
pub mod layout;
mod load;
pub mod tile;
mod transform;
