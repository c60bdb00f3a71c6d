//! Short vectors that one thread loads or stores in one instruction.

/// Two `f32`, loaded and stored as one 8-byte access. CUDA's `float2`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(8))]
pub struct F32x2(pub [f32; 2]);

/// Four `f32`, loaded and stored as one 16-byte access. CUDA's `float4`.
///
/// The address must be a multiple of 16 bytes. Otherwise the device stops the grid with "misaligned address".
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(16))]
pub struct F32x4(pub [f32; 4]);

const _: () = {
    assert!(size_of::<F32x2>() == 8 && align_of::<F32x2>() == 8);
    assert!(size_of::<F32x4>() == 16 && align_of::<F32x4>() == 16);
};
