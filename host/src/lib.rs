//! The program `host`: it filters pictures with the library [`faltung`], checks the library against oracles, measures
//! it and runs the kernels of tutorials.
//!
//! [`files`] reads and writes pictures, [`batch`] many at once, [`chunked`] images larger than the memory. [`check`]
//! holds each kernel against [`oracle`], [`mod@bench`] measures, [`mod@tutorial`] shows the kernels of courses and
//! books.

pub mod batch;
pub mod bench;
pub mod calibrate;
pub mod check;
pub mod chunked;
pub mod compare;
mod error;
pub mod files;
pub mod oracle;
pub mod resident;
mod samples;
pub mod scale;
pub mod text_table;
mod threads;
pub mod tutorial;
pub mod units;
pub mod wanted;

pub use error::{Error, Result};
pub use threads::{fit_threads, return_freed_memory};
