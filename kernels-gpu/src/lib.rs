//! The kernels, written once and compiled twice: to PTX for the GPU, and as an ordinary library for the
//! host, which takes the list of entries, the launch parameters and the geometry from here, and can run the
//! same functions on a CPU (see [`cuda_std::executor`]).
//!
//! Read the files in this order; each adds one idea:
//!
//! | file | idea |
//! | --- | --- |
//! | [`naive`] | one thread computes one pixel; image and mask in global memory |
//! | [`constant_mask`] | the same with the mask in constant memory |
//! | [`shared_tile`] | a block loads its pixels and their neighbours once, into shared memory |
//! | [`small_tile`] | for small images: everything is asked for at once, a thread computes four pixels |
//! | [`register_tile`] | a thread computes many pixels, so that what it loads serves many products |
//! | [`stream`] | a thread walks down the image, and its sums move up by themselves |
//! | [`stream_values`] | the same for several channels, and for `u16` |
//! | [`stream_ring`] | the same for bytes, with the next rows on their way to shared memory |
//! | [`tensor`] | bytes in the tensor cores, and the bits of the ordered sum all the same |
//! | [`separable`], [`separable_ring`] | masks that are a column times a row: rows, then columns, in one pass |
//! | [`separable_tile`] | the same, a block at a time, with all of its parts under way at once |
//! | [`separable_tensor`] | the same in the tensor cores, for large masks: each number in two parts |
//!
//! [`staged`] is how [`stream`] walks, [`strip`] how [`stream_values`] and [`separable`] do. [`tutorials`] holds the kernels of four
//! well-known tutorials. [`rates`] measures a device, [`copy`] brings small images to it. [`params`] is what a launch passes, [`border`] what lies outside of the
//! image, [`pixel`] the types of pixels, and [`entries`] the list from which symbols, tables and names are made.
//!
//! # The operation
//!
//! All kernels compute `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`: a walk over the
//! *window* of the image that belongs to an output pixel, rows from top to bottom, each from left to right, one fused
//! multiply-add a step, starting from 0. `W` is the mask in window order: as given for a correlation, turned by 180°
//! for a convolution. The host turns it and sets the origin, so operation and anchor cost the kernels nothing. The
//! order of the sum is part of the contract: every direct kernel and the CPU give the same bits. The separable ones
//! have another order, and state an error bound: [`separable::error_constant`], [`separable_tensor::error_constant`].
//!
//! # Loops over arrays
//!
//! Where an array is to be in registers, loops over it count indices. `into_iter()` of an array, or `take` after
//! `enumerate`, would put
//! it into local memory: LLVM does not unroll those without a pass that may clone barriers, and so is switched off
//! (`cuda_builder`).
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub use cuda_std;

pub mod abi;
pub mod common;
pub mod direct;
#[cfg(all(feature = "ptx", not(target_arch = "nvptx64")))]
pub mod ptx;
pub mod registry;
pub mod separable;
pub mod teaching;
pub mod tensor_core_u8;
pub mod tutorials;
pub mod util;
