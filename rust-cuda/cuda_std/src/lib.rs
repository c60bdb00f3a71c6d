//! What a GPU kernel in Rust needs, on the plain `nvptx64-nvidia-cuda` target of rustc: thread and block
//! indices, barriers, typed global, shared and constant memory, vector loads and stores, fused multiply-add.
//!
//! The public names are those of rust-cuda where the meaning is the same ([`kernel`],
//! [`thread::thread_idx_x`], [`thread::sync_threads`], [`thread::index_2d`] …); the code is our own, because the
//! published `cuda_std` needs a compiler from 2021 and LLVM 7.
//!
//! # Two executors
//!
//! Every function here has two bodies. Compiled for `nvptx64` it is one or two PTX instructions.
//! Compiled for the host it asks the [`Executor`](executor::Executor) of the current thread: the object that plays
//! the part of the GPU. So one kernel source runs on both. That is also why memory is reached through
//! handles ([`Global`], [`GlobalMut`], [`Shared`], [`constant!`]) with `load` and `store` instead of plain
//! pointers: a handle can be watched.
//!
//! | memory | handle | PTX |
//! | --- | --- | --- |
//! | global | [`Global<T>`], [`GlobalMut<T>`] as kernel parameters | `ld.global`, `st.global` |
//! | dynamic shared | [`Shared::dynamic`] | `ld.shared`, `st.shared` with 32-bit addresses |
//! | constant | a [`constant!`] declaration | `ld.const` |
//!
//! rustc knows no address spaces, so shared and constant memory are reached by inline assembly: an address made
//! generic would cost the generic `LD`, which is slower than `LDS` and `LDC`.
//!
//! # Example
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// `y = a x + y` for `length` elements.
//! ///
//! /// # Safety
//! /// `x` and `y` hold `length` elements each; `y` is nobody else's.
//! #[kernel]
//! pub unsafe fn saxpy(a: f32, x: Global<f32>, y: GlobalMut<f32>, length: u32) {
//!     let i = thread::index_1d();
//!     if i < length {
//!         let i = i as isize;
//!         // SAFETY: i is below the length of both.
//!         unsafe { y.store(i, fma(a, x.load(i), y.load(i))) };
//!     }
//! }
//! ```
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, stdarch_nvptx, core_float_math, link_llvm_intrinsics, abi_unadjusted)
)]

pub mod bf16;
pub mod bytes;
pub mod constant;
pub mod cp_async;
#[cfg(not(target_arch = "nvptx64"))]
pub mod executor;
mod float;
mod global;
pub mod mma;
mod scalar;
mod shared;
pub mod thread;
mod vector;
pub mod warp;

pub use cuda_std_macros::{instantiate, kernel};
pub use float::{fma, round_to_u16};
pub use global::{Global, GlobalMut};
pub use scalar::Scalar;
pub use shared::Shared;
pub use vector::{F32x2, F32x4};

/// Everything a kernel file uses, for `use cuda_std::prelude::*`.
pub mod prelude {
    pub use crate::constant::ConstantMemory;
    pub use crate::{F32x2, F32x4, Global, GlobalMut, Scalar, Shared, fma, kernel, round_to_u16, thread, warp};
}

/// A panic in a kernel stops the grid: the launch fails with "illegal instruction" and the context is lost.
///
/// There is no formatting of messages on the device, on purpose: it would put thousands of instructions into every
/// kernel that can panic. Kernels here are written so that they can't.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // SAFETY: `trap` has no precondition; it ends the grid.
    unsafe { core::arch::nvptx::trap() }
}
