//! A thread walks down a strip of columns with its sums in registers.

pub mod staged;
pub mod stream;
pub mod stream_ring;
pub mod stream_values;
pub mod strip;
