//! The device library for GPU kernels in Rust, on rustc's own `nvptx64-nvidia-cuda` target.
//!
//! It has thread and block indices, barriers, warp operations, atomic operations, matrix products, asynchronous copies,
//! typed handles of global, shared and constant memory, vector loads and stores, and fused multiply-add.
//!
//! The public names are those of rust-cuda where the meaning is the same: [`kernel`], [`thread::thread_idx_x`],
//! [`thread::sync_threads`], [`thread::index_2d`]. The code is our own, because the published `cuda_std` needs a
//! compiler from 2021 and LLVM 7.
//!
//! # Two executors
//!
//! Every function has two bodies. Compiled for `nvptx64`, it is one or two PTX instructions. Compiled for the host, it
//! calls the [`Executor`](executor::Executor) of the current host thread, which acts as the GPU. One kernel source runs
//! on both.
//!
//! Kernels access memory through handles with `load` and `store` instead of pointers, so that an executor sees every
//! access.
//!
//! | memory | handle | PTX |
//! | --- | --- | --- |
//! | global | [`Global<T>`], [`GlobalMut<T>`] as kernel parameters | `ld.global`, `st.global` |
//! | dynamic shared | [`Shared::dynamic`] | `ld.shared`, `st.shared` with 32-bit addresses |
//! | shared, of a fixed length | a [`shared_array!`] | the same |
//! | constant | a [`constant!`] declaration | `ld.const` |
//!
//! [`atomic`] has atomic operations on global and shared memory.
//!
//! # To look for a defect
//! [`gpu_println!`] prints from a kernel, and [`gpu_assert!`] stops the grid if a condition does not hold.
//!
//! rustc has no address spaces, so inline assembly accesses shared and constant memory. A generic address would need
//! the generic `LD`, which is slower than `LDS` and `LDC`.
//!
//! # Unsafe functions
//! A function is unsafe if PTX leaves its behaviour undefined under some condition. `# Safety` lists the conditions:
//! bounds, alignment and races of memory accesses, and convergence of barriers and warp operations.
//!
//! # Example
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// `y = a x + y` for `length` elements.
//! ///
//! /// # Safety
//! /// - `x` and `y` hold `length` elements each.
//! /// - Nothing else accesses `y` during the launch.
//! #[kernel]
//! pub unsafe fn saxpy(a: f32, x: Global<f32>, y: GlobalMut<f32>, length: u32) {
//!     let i = thread::index_1d();
//!     if i < length {
//!         let i = i as isize;
//!         // SAFETY: i < length, checked above, and no other thread has this i.
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

// `#[kernel]` names this crate, also in the crate's own tests.
#[cfg(not(target_arch = "nvptx64"))]
extern crate self as cuda_std;

/// A compile error of a device build for an architecture that lacks a feature, such as `"sm_80"`, which `$function`
/// needs. The function that checks is generic, so that only kernels that call `$function` are checked.
#[cfg(target_arch = "nvptx64")]
macro_rules! require_arch {
    ($function:expr, $feature:literal, $arch:literal) => {{
        #[inline(always)]
        fn require<T>() {
            const {
                assert!(
                    cfg!(target_feature = $feature),
                    concat!($function, " needs a build for ", $feature, " or newer: `.arch(Arch::", $arch, ")`")
                );
            }
        }
        require::<()>();
    }};
}

pub mod argument;
mod assertion;
pub mod atomic;
pub mod bf16;
pub mod bytes;
pub mod constant;
pub mod cp_async;
#[cfg(not(target_arch = "nvptx64"))]
pub mod executor;
mod float;
mod global;
pub mod half;
#[cfg(not(target_arch = "nvptx64"))]
pub mod launch;
pub mod ldmatrix;
pub mod math;
pub mod mma;
pub mod print;
mod scalar;
mod shared;
mod shared_array;
pub mod thread;
mod vector;
pub mod warp;

pub use argument::KernelArgument;
#[doc(hidden)]
pub use assertion::assertion_failed;
pub use cuda_std_macros::{KernelArgument, gpu_println, instantiate, kernel};
pub use float::{fma, round_to_u16, sqrt};
pub use global::{Global, GlobalMut};
pub use scalar::Scalar;
pub use shared::Shared;
pub use shared_array::SharedArray;
#[doc(hidden)]
pub use shared_array::place_number;
pub use vector::{F32x2, F32x4};

/// The names that most kernels use: `use cuda_std::prelude::*`.
pub mod prelude {
    pub use crate::constant::ConstantMemory;
    pub use crate::{
        F32x2, F32x4, Global, GlobalMut, KernelArgument, Scalar, Shared, constant, fma, gpu_assert, gpu_println,
        kernel, round_to_u16, shared_array, sqrt, thread, warp,
    };
}

/// A panic stops the grid as a failed [`gpu_assert!`] does: the driver writes the file and the line to standard error,
/// and the context is lost.
///
/// The device formats no message. Formatting would add thousands of instructions to every kernel that can panic.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    assertion::panicked(info)
}
