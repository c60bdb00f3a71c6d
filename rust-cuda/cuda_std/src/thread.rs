//! The position of the current thread in its block and in the grid, and the barrier of the block.
//!
//! The names are those of rust-cuda. Each function's documentation has the name in CUDA C++.

#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

use crate::atomic::{Ordering, Scope, fence};
#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Register};

/// One function per special register: the intrinsic on the device, the executor's answer on the host.
macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $register:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: a read of a special register has no precondition.
                unsafe { nvptx::$intrinsic() as u32 }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                executor::current().register(Register::$register)
            }
        }
    )*};
}

special_registers! {
    /// This thread's column in its block: `threadIdx.x`.
    thread_idx_x, _thread_idx_x, ThreadIdxX;
    /// This thread's row in its block: `threadIdx.y`.
    thread_idx_y, _thread_idx_y, ThreadIdxY;
    /// This thread's layer in its block: `threadIdx.z`.
    thread_idx_z, _thread_idx_z, ThreadIdxZ;
    /// This block's column in the grid: `blockIdx.x`.
    block_idx_x, _block_idx_x, BlockIdxX;
    /// This block's row in the grid: `blockIdx.y`, at most 65,534.
    block_idx_y, _block_idx_y, BlockIdxY;
    /// This block's layer in the grid: `blockIdx.z`, at most 65,534.
    block_idx_z, _block_idx_z, BlockIdxZ;
    /// The number of threads of a block in x: `blockDim.x`.
    block_dim_x, _block_dim_x, BlockDimX;
    /// The number of threads of a block in y: `blockDim.y`.
    block_dim_y, _block_dim_y, BlockDimY;
    /// The number of threads of a block in z: `blockDim.z`.
    block_dim_z, _block_dim_z, BlockDimZ;
    /// The number of blocks of the grid in x: `gridDim.x`.
    grid_dim_x, _grid_dim_x, GridDimX;
    /// The number of blocks of the grid in y: `gridDim.y`.
    grid_dim_y, _grid_dim_y, GridDimY;
    /// The number of blocks of the grid in z: `gridDim.z`.
    grid_dim_z, _grid_dim_z, GridDimZ;
}

/// This thread's position in a one-dimensional grid: `blockIdx.x * blockDim.x + threadIdx.x`, Numba's `cuda.grid(1)`.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// This thread's `(x, y)` in a two-dimensional grid; x is the column.
///
/// Numba's `cuda.grid(2)` returns the same two numbers. Its tutorials call the first one the row.
#[inline(always)]
#[must_use]
pub fn index_2d() -> (u32, u32) {
    (index_1d(), block_idx_y() * block_dim_y() + thread_idx_y())
}

/// This thread's number in its block; x varies fastest. 32 consecutive numbers make a warp.
#[inline(always)]
#[must_use]
pub fn thread_rank() -> u32 {
    (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x()
}

/// Waits for all threads of the block: `__syncthreads()`, PTX `bar.sync 0`.
///
/// After the barrier, each thread of the block sees what the others wrote to shared and global memory before it.
///
/// The function is unsafe, unlike rust-cuda's: `bar.sync` is aligned, and PTX leaves its behaviour undefined if the
/// lanes of a warp diverge around it.
///
/// # Safety
/// - All threads of the block execute this call together. No thread has returned.
/// - Every branch around the call depends on values that are equal in all threads of the block.
#[inline(always)]
#[track_caller]
pub unsafe fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: all threads of the block are here, in converged warps, as the function requires.
        unsafe { nvptx::_syncthreads() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        executor::current().barrier(core::panic::Location::caller());
    }
}

/// Orders this thread's memory accesses for the threads of its block: `__threadfence_block()`, PTX `fence.sc.cta`.
#[inline(always)]
pub fn threadfence_block() {
    fence(Ordering::SeqCst, Scope::Block);
}

/// Orders this thread's memory accesses for the threads of the device: `__threadfence()`, PTX `fence.sc.gpu`.
///
/// [`fence`] with `AcqRel` is cheaper, and enough to publish data with a flag.
#[inline(always)]
pub fn threadfence() {
    fence(Ordering::SeqCst, Scope::Device);
}

/// Orders this thread's memory accesses for all threads of the system, those of the host as well:
/// `__threadfence_system()`, PTX `fence.sc.sys`.
#[inline(always)]
pub fn threadfence_system() {
    fence(Ordering::SeqCst, Scope::System);
}

/// Tells the assembler not to unroll the loop around this call: PTX `.pragma "nounroll"`, CUDA's `#pragma unroll 1`.
///
/// LLVM still unrolls loops whose bounds are compile-time constants.
#[inline(always)]
pub fn no_unroll() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a directive does nothing at run time.
        unsafe { core::arch::asm!(".pragma \"nounroll\";", options(nomem, nostack, preserves_flags)) };
    }
}

/// Returns `value` such that the compiler knows nothing about it.
///
/// LLVM can neither fold a computation with the result nor copy the code that depends on it.
#[inline(always)]
#[must_use]
pub fn black_box(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let same: u32;
        // SAFETY: the instruction moves a register and accesses no memory.
        unsafe {
            core::arch::asm!(
                "mov.b32 {same}, {value};",
                same = out(reg32) same,
                value = in(reg32) value,
                options(nomem, nostack, preserves_flags),
            );
        }
        same
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        value
    }
}
