//! Masks of rank 1, `W[k, l] = column[k] * row[l]`: rows, then columns.

pub mod block_tile;
pub mod error_bound;
pub mod ring;
pub mod tensor_core;
