//! Who am I: the position of the current thread in its block, of the block in the grid, and the barrier.
//!
//! The functions are named as in rust-cuda; the table in each group says what CUDA C++ calls them.

#[cfg(target_arch = "nvptx64")]
use core::arch::nvptx;

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor::{self, Register};

/// One function per special register: the PTX read on the device, the executor's answer on the host.
macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $register:ident;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name() -> u32 {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: reading a special register has no precondition.
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
    /// Threads of a block in x: `blockDim.x`.
    block_dim_x, _block_dim_x, BlockDimX;
    /// Threads of a block in y: `blockDim.y`.
    block_dim_y, _block_dim_y, BlockDimY;
    /// Threads of a block in z: `blockDim.z`.
    block_dim_z, _block_dim_z, BlockDimZ;
    /// Blocks of the grid in x: `gridDim.x`.
    grid_dim_x, _grid_dim_x, GridDimX;
    /// Blocks of the grid in y: `gridDim.y`.
    grid_dim_y, _grid_dim_y, GridDimY;
    /// Blocks of the grid in z: `gridDim.z`.
    grid_dim_z, _grid_dim_z, GridDimZ;
}

/// This thread's position in a one-dimensional grid: `blockIdx.x * blockDim.x + threadIdx.x`, Numba's `cuda.grid(1)`.
#[inline(always)]
#[must_use]
pub fn index_1d() -> u32 {
    block_idx_x() * block_dim_x() + thread_idx_x()
}

/// This thread's `(x, y)` in a two-dimensional grid, x being the column.
///
/// Numba's `cuda.grid(2)` returns the same two numbers; its tutorials name the first one the row.
#[inline(always)]
#[must_use]
pub fn index_2d() -> (u32, u32) {
    (index_1d(), block_idx_y() * block_dim_y() + thread_idx_y())
}

/// This thread's number in its block, x running fastest: the order in which threads are put into warps.
#[inline(always)]
#[must_use]
pub fn thread_rank() -> u32 {
    (thread_idx_z() * block_dim_y() + thread_idx_y()) * block_dim_x() + thread_idx_x()
}

/// Waits until every thread of the block is here: `__syncthreads()`, PTX `bar.sync 0`.
///
/// What any thread of the block wrote to shared or global memory before the barrier, every thread of the block
/// sees after it.
///
/// Every thread of the block must reach the same barriers in the same order; a barrier that only some threads
/// reach hangs the device. That makes it a matter of correctness, not of memory safety, so the function is safe
/// (as in rust-cuda).
#[inline(always)]
#[track_caller]
pub fn sync_threads() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: bar.sync has no precondition on memory; see above for threads that never arrive.
        unsafe { nvptx::_syncthreads() }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        executor::current().barrier(core::panic::Location::caller());
    }
}

/// Asks the assembler to leave the loop in whose body this stands as it is: PTX `.pragma "nounroll"`, CUDA's
/// `#pragma unroll 1`. Loops whose bounds are compile-time constants are unrolled before, by LLVM, all the same.
#[inline(always)]
pub fn no_unroll() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a directive; it does nothing at run time.
        unsafe { core::arch::asm!(".pragma \"nounroll\";", options(nomem, nostack, preserves_flags)) };
    }
}

/// `value`, of which the compiler knows nothing: it can't conclude from it, nor move it out of a loop.
///
/// For conditions from which LLVM would make several copies of the code that they guard.
#[inline(always)]
#[must_use]
pub fn black_box(value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let same: u32;
        // SAFETY: a move between registers.
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
