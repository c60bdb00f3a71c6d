//! What several kernels need, written once.

pub(crate) mod async_rows;
pub(crate) mod mask_row;
pub mod vector;
