//! Kernels that use each function of `cuda_std` once, and their known results.
//!
//! All kernels have the same parameters, words in and words out, so that one loop runs them all: in the emulator
//! (`tests/emulator.rs`), and on a GPU (`examples/gpu.rs`). `tests/ptx.rs` compiles them to PTX, looks for the
//! instructions that are expected, and assembles them.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

#[cfg(not(target_arch = "nvptx64"))]
extern crate std;

pub mod arrays;
pub mod atomics;
#[cfg(not(target_arch = "nvptx64"))]
mod case;
pub mod debugging;
pub mod halves;
pub mod math;
pub mod warps;

#[cfg(not(target_arch = "nvptx64"))]
pub use case::{Case, Expected, Kernel, cases};
