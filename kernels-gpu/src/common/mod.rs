//! What several kernels need, written once.

pub(crate) mod async_rows;
pub(crate) mod border_table;
pub(crate) mod column_store;
pub(crate) mod contributing_rows;
pub(crate) mod mask_row;
pub mod partition;
pub(crate) mod row_reader;
pub mod vector;
pub(crate) mod warp_sum;
