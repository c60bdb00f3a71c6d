//! Kernels for NVIDIA GPUs, and the functions that launch them.
//!
//! The crate is compiled twice: to PTX for the GPU, and as a library for the host.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(abi_ptx, asm_experimental_arch))]

pub mod bf16;
pub mod debugging;
pub mod generic;
pub mod histogram;
#[cfg(not(target_arch = "nvptx64"))]
pub mod host;
pub mod matrix;
pub mod median;
pub mod reduce;
pub mod reverse;
pub mod saxpy;
pub mod scan;
