//! Kernels for separable masks (rank 1), `W[k, l] = column[k] * row[l]`: a row pass, then a column pass.
//!
//! Their sums have another order than those of the direct kernels. The results are not bit-exact; [`error_bound`]
//! states how far they may be from the exact sum.

pub mod block_tile;
pub mod error_bound;
pub mod interleaved;
pub mod proven_bytes;
pub mod ring;
pub mod tensor_core;
