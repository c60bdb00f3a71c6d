//! Matrices from shared memory into the fragments of [`mma`](crate::mma): PTX `ldmatrix`, from compute capability 7.5
//! on.
//!
//! A matrix has 8 x 8 elements of 16 bits. A row has 16 bytes in one piece, and the rows may lie anywhere. Lane
//! `8 m + r` passes the address of row `r` of matrix `m`. With `g = lane / 4` and `t = lane % 4`, word `m` of a lane
//! then holds two elements of matrix `m`:
//!
//! | functions | lower half | upper half |
//! | --- | --- | --- |
//! | [`ldmatrix_x1`], `x2`, `x4` | row `g`, column `2 t` | row `g`, column `2 t + 1` |
//! | [`ldmatrix_x1_trans`], `x2`, `x4` | row `2 t`, column `g` | row `2 t + 1`, column `g` |
//!
//! One `ldmatrix_x4` loads the fragment of `A` of an `m16n8k16` product: matrices 0 and 1 are the upper and the lower
//! half of the left 8 columns, 2 and 3 those of the right ones. With rows of `B`, `ldmatrix_x2_trans` loads its
//! fragment. A TF32 or `f32` element counts as two elements of 16 bits.
//!
//! Eight rows whose addresses are 128 bytes apart lie in the same banks. Rows of 16 bytes more than a multiple of 128
//! bytes avoid that.

#[cfg(not(target_arch = "nvptx64"))]
use crate::executor;
use crate::half::{Bf16, F16};
use crate::{Scalar, Shared};

/// A type of 16 bits, of which `ldmatrix` loads matrices: `u16`, [`F16`], [`Bf16`]. Sealed.
pub trait MatrixElement: Scalar + sealed::Sealed {}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for u16 {}
impl sealed::Sealed for F16 {}
impl sealed::Sealed for Bf16 {}
impl MatrixElement for u16 {}
impl MatrixElement for F16 {}
impl MatrixElement for Bf16 {}

/// LLVM's intrinsics, which are convergent; see [`mma`](crate::mma).
#[cfg(target_arch = "nvptx64")]
mod intrinsics {
    /// The struct that LLVM returns.
    #[repr(C)]
    pub(super) struct Two(pub(super) u32, pub(super) u32);
    /// The struct that LLVM returns.
    #[repr(C)]
    pub(super) struct Four(pub(super) u32, pub(super) u32, pub(super) u32, pub(super) u32);

    // Generic addresses: rustc has no pointers to shared memory.
    #[allow(improper_ctypes)]
    unsafe extern "unadjusted" {
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.b16.p0"]
        pub(super) fn x1(row: *const u16) -> u32;
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.b16.p0"]
        pub(super) fn x2(row: *const u16) -> Two;
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p0"]
        pub(super) fn x4(row: *const u16) -> Four;
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x1.trans.b16.p0"]
        pub(super) fn x1_trans(row: *const u16) -> u32;
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x2.trans.b16.p0"]
        pub(super) fn x2_trans(row: *const u16) -> Two;
        #[link_name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16.p0"]
        pub(super) fn x4_trans(row: *const u16) -> Four;
    }

    /// The generic address of an address of the shared window.
    #[inline(always)]
    pub(super) fn generic(address: u32) -> *const u16 {
        let pointer: *const u16;
        // SAFETY: the instructions compute with registers and access no memory.
        unsafe {
            core::arch::asm!(
                "{{ .reg .b64 at; cvt.u64.u32 at, {address}; cvta.shared.u64 {pointer}, at; }}",
                pointer = out(reg64) pointer, address = in(reg32) address,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        pointer
    }
}

/// The words of `matrices` matrices of this lane.
#[cfg(not(target_arch = "nvptx64"))]
#[track_caller]
fn load<const MATRICES: usize>(address: u32, transposed: bool) -> [u32; MATRICES] {
    let location = core::panic::Location::caller();
    let lane = crate::warp::lane_id() as usize;
    let mut row = [0; 16];
    // The other lanes pass no row.
    if lane < 8 * MATRICES {
        let access = executor::Access { space: executor::Space::Shared, address: address.into(), size: 16, location };
        executor::current().load(access, &mut row);
    }
    let mut words = [0; executor::GATHERED];
    for (word, bytes) in words.iter_mut().zip(row.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let all = executor::current().gather(words, location);
    let element =
        |matrix: usize, row: usize, column: usize| all[8 * matrix + row][column / 2] >> (column % 2 * 16) & 0xffff;
    let (g, t) = (lane / 4, lane % 4);
    std::array::from_fn(|matrix| match transposed {
        false => element(matrix, g, 2 * t) | element(matrix, g, 2 * t + 1) << 16,
        true => element(matrix, 2 * t, g) | element(matrix, 2 * t + 1, g) << 16,
    })
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident, $intrinsic:ident, $matrices:literal, $transposed:literal, $words:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// `row` is the row whose address this lane passes. The lanes beyond those of the matrices pass any.
        ///
        /// # Safety
        /// - The 8 elements of each row lie in the shared memory of the block. Their address is a multiple of 16 bytes.
        /// - They were written by this warp before a [`sync_warp`](crate::warp::sync_warp), or before the last barrier.
        /// - No asynchronous copy to them is pending.
        /// - All 32 lanes of the warp execute this call together. No lane has returned.
        /// - Every branch around the call depends on values that are equal in all lanes.
        /// - The number of threads of the block is a multiple of 32.
        #[inline(always)]
        #[track_caller]
        #[must_use]
        pub unsafe fn $name<T: MatrixElement>(row: Shared<T>) -> [u32; $matrices] {
            #[cfg(target_arch = "nvptx64")]
            {
                require_arch!(concat!("ldmatrix::", stringify!($name)), "sm_75", "Sm75");
                // SAFETY: all lanes are converged here, and the rows may be read, as the function requires.
                let loaded = unsafe { intrinsics::$intrinsic(intrinsics::generic(row.address())) };
                $words(loaded)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                load(row.address(), $transposed)
            }
        }
    )*};
}

functions! {
    /// One matrix: lanes 0 to 7 pass its rows.
    ldmatrix_x1, x1, 1, false, |word| [word];
    /// Two matrices: lanes 0 to 15 pass their rows.
    ldmatrix_x2, x2, 2, false, |two: intrinsics::Two| [two.0, two.1];
    /// Four matrices: all lanes pass their rows.
    ldmatrix_x4, x4, 4, false, |four: intrinsics::Four| [four.0, four.1, four.2, four.3];
    /// One matrix, transposed: lanes 0 to 7 pass its rows.
    ldmatrix_x1_trans, x1_trans, 1, true, |word| [word];
    /// Two matrices, each transposed: lanes 0 to 15 pass their rows.
    ldmatrix_x2_trans, x2_trans, 2, true, |two: intrinsics::Two| [two.0, two.1];
    /// Four matrices, each transposed: all lanes pass their rows.
    ldmatrix_x4_trans, x4_trans, 4, true, |four: intrinsics::Four| [four.0, four.1, four.2, four.3];
}
