//! The kernels, written once and compiled twice: to PTX for the GPU, and as an ordinary library for the host.
//!
//! The host takes from here the list of entries, the launch parameters and the geometry of each kernel. It can also run
//! the same functions on a CPU (see [`cuda_std::executor`]).
//!
//! # Folders
//! | folder | |
//! | --- | --- |
//! | [`abi`] | what crosses from the host to a kernel: parameters, pixel types, the border map, PTX declarations |
//! | [`registry`] | the list of entries; from it come symbols, tables and names |
//! | [`common`] | what several kernels share |
//! | [`teaching`], [`direct`], [`separable`], [`fft`], [`tensor_core_u8`] | the convolution kernels |
//! | [`ndimage`] | filters on arrays of up to four axes and any real type, with the sums of `scipy.ndimage` |
//! | [`tutorials`] | the kernels of four well-known tutorials |
//! | [`util`] | a copy for small images, conversions between images and planes, a measurement of the FP32 peak |
//!
//! # Reading order
//! Each file adds one idea:
//!
//! | file | idea |
//! | --- | --- |
//! | [`teaching::naive`] | one thread computes one pixel, with image and mask in global memory |
//! | [`teaching::constant_mask`] | the mask lies in constant memory |
//! | [`teaching::shared_tile`] | a block loads its pixels and their halo once, into shared memory |
//! | [`direct::shared_tile_async`] | for small images: one wait for all data, and four pixels a thread |
//! | [`direct::register_tile`] | a thread computes many pixels, so that each load serves many products |
//! | [`direct::sliding_window`] | a thread walks down the image, and its sums move up at no cost |
//! | [`direct::sliding_window_planar`] | the same for interleaved channels and 16 bits, planar rows in shared memory |
//! | [`fft::tile`] | large masks: Fourier transforms of tiles, with a proof for each result |
//! | [`fft::passes`] | larger masks: tiles of 1024×1024 pixels, transformed by three kernels in turn |
//! | [`tensor_core_u8`] | bytes in the tensor cores, with bit-exact results |
//! | [`tensor_core_u8::separable`] | the same for separable masks: products of rows feed those of columns |
//! | [`separable::ring`] | separable masks: a row pass and a column pass over a ring of filtered rows |
//! | [`separable::block_tile`] | the same with 16 rows at a time, pipelined: copies, row pass and column pass overlap |
//! | [`separable::interleaved`] | the same for bytes and interleaved channels |
//! | [`separable::proven_bytes`] | the same with results of bytes, bit-exact |
//! | [`separable::tensor_core`] | the same in the tensor cores, with each number split in two |
//!
//! # The operation
//! All convolution kernels compute
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`
//!
//! This is a walk over the *window* of an output pixel: rows from top to bottom, each row from left to right, one fused
//! multiply-add a step, from 0. `W` is the mask in window order: as given for a correlation, rotated by 180° for a
//! convolution. The host rotates the mask and sets the origin. So operation and anchor cost the kernels nothing.
//!
//! The order of the sum is part of the contract. Every direct kernel and [`tensor_core_u8`] are bit-exact with the CPU.
//! The separable kernels have another order and state an error bound: [`separable::error_bound::error_constant`] and
//! [`separable::tensor_core::error_constant`]. So have [`fft::tile`] and [`fft::passes`]: [`fft::error::Transforms`].
//!
//! # Loops over arrays
//! A loop over an array that should lie in registers counts indices. With `into_iter()` of an array, or `take` after
//! `enumerate`, LLVM does not unroll the loop and puts the array into local memory. rustc's pass `JumpThreading` would
//! make it unroll, but may copy barriers. So `cuda_builder` disables that pass.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub use cuda_std;

pub mod abi;
pub mod common;
pub mod direct;
pub mod fft;
pub mod ndimage;
#[cfg(all(feature = "ptx", not(target_arch = "nvptx64")))]
pub mod ptx;
pub mod registry;
pub mod separable;
pub mod teaching;
pub mod tensor_core_u8;
pub mod tutorials;
pub mod util;
