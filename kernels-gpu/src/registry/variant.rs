//! The ways to compute: their names, what they take, what they promise.

use crate::abi::kernel::OLDEST;
use crate::abi::pixel::PixelType;
use crate::direct::{register_tile, shared_tile_async as small_tile, sliding_window};
use crate::separable::{block_tile as separable_tile, ring as separable_ring, tensor_core as separable_tensor};
use crate::teaching::{constant_mask, naive, shared_tile};
use crate::tensor_core_u8 as tensor;

/// A way to compute a convolution; each has one file of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// [`naive`]: everything in global memory.
    Naive,
    /// [`constant_mask`]: the mask in constant memory.
    ConstantMask,
    /// [`shared_tile`]: the image in shared memory, too.
    SharedTile,
    /// [`small_tile`]: the same for small images, in as few waits as possible.
    SmallTile,
    /// [`register_tile`]: a thread computes a tile from registers.
    RegisterTile,
    /// [`sliding_window`]: a thread walks down a strip, its sums in registers.
    Stream,
    /// [`cp_async_ring`](sliding_window::cp_async_ring): the same for bytes, which reach the thread through shared memory.
    StreamRing,
    /// [`tensor`]: bytes in the tensor cores.
    Tensor,
    /// [`separable_ring`]: the same for masks of any size, through shared memory.
    SeparableRing,
    /// [`separable_tile`]: the same, 16 rows of a block at a time, its sums in registers.
    SeparableTile,
    /// [`separable_tensor`]: the same in the tensor cores.
    SeparableTensor,
}

impl Variant {
    /// All variants, from the simplest on.
    pub const ALL: [Self; 11] = [
        Self::Naive,
        Self::ConstantMask,
        Self::SharedTile,
        Self::SmallTile,
        Self::RegisterTile,
        Self::Stream,
        Self::StreamRing,
        Self::Tensor,
        Self::SeparableRing,
        Self::SeparableTile,
        Self::SeparableTensor,
    ];

    /// The name on the command line, in reports and in PTX symbols.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::ConstantMask => "constant_mask",
            Self::SharedTile => "shared_tile",
            Self::SmallTile => "small_tile",
            Self::RegisterTile => "register_tile",
            Self::Stream => "stream",
            Self::StreamRing => "stream_ring",
            Self::Tensor => "tensor",
            Self::SeparableRing => "separable_ring",
            Self::SeparableTile => "separable_tile",
            Self::SeparableTensor => "separable_tensor",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Naive => "one thread, one pixel; image and mask in global memory",
            Self::ConstantMask => "one thread, one pixel; the mask in constant memory",
            Self::SharedTile => "a block shares its pixels in shared memory; the mask in constant memory",
            Self::SmallTile => "for small images: pixels and mask come to shared memory at once",
            Self::RegisterTile => "a thread computes 8 x 8 pixels from registers; the mask in shared memory",
            Self::Stream => "a thread walks down a strip of columns, its sums in registers",
            Self::StreamRing => "the same for bytes, the next rows on their way to shared memory",
            Self::Tensor => "bytes in the tensor cores, uncertain pixels again in order",
            Self::SeparableRing => "a column times a row of any size, through shared memory; other bits, bounded",
            Self::SeparableTile => "a column times a row, 16 rows of a block at a time; other bits, bounded",
            Self::SeparableTensor => {
                "a column times a row in the tensor cores, numbers in two parts; other bits, bounded"
            }
        }
    }

    /// Threads of a block in x and y, unless an [entry](crate::registry::Entry::block) has its own.
    #[must_use]
    pub const fn block(self) -> (u32, u32) {
        match self {
            Self::Naive => naive::BLOCK,
            Self::ConstantMask => constant_mask::BLOCK,
            Self::SharedTile => shared_tile::BLOCK,
            Self::SmallTile => small_tile::BLOCK,
            Self::RegisterTile => register_tile::BLOCK,
            Self::Stream | Self::StreamRing => sliding_window::BLOCK,
            Self::Tensor => tensor::BLOCK,
            Self::SeparableRing => separable_ring::BLOCK,
            Self::SeparableTile => separable_tile::BLOCK,
            Self::SeparableTensor => separable_tensor::BLOCK,
        }
    }

    /// The oldest compute capability, major and minor, that has the instructions.
    #[must_use]
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Self::SmallTile => small_tile::COMPUTE_CAPABILITY,
            Self::StreamRing => sliding_window::compute_capability(PixelType::U8),
            Self::Tensor => tensor::COMPUTE_CAPABILITY,
            Self::SeparableTile => separable_tile::COMPUTE_CAPABILITY,
            Self::SeparableTensor => separable_tensor::COMPUTE_CAPABILITY,
            _ => OLDEST,
        }
    }

    /// Whether a constant border's value is held as a pixel: then it must be one.
    #[must_use]
    pub const fn border_is_pixel(self) -> bool {
        matches!(self, Self::StreamRing | Self::Tensor)
    }

    /// Whether each output is the one sum that the accuracy contract names, in its order: then the bits are the CPU's.
    /// The others state an error bound in its place.
    #[must_use]
    pub const fn is_direct(self) -> bool {
        !matches!(self, Self::SeparableRing | Self::SeparableTile | Self::SeparableTensor)
    }

    /// Whether the rows of a grid share out all rows of the image, however many they are: one launch is enough, and
    /// how many rows of blocks it has is a matter of speed.
    #[must_use]
    pub const fn shares_out_rows(self) -> bool {
        matches!(
            self,
            Self::Stream
                | Self::StreamRing
                | Self::Tensor
                | Self::SeparableRing
                | Self::SeparableTile
                | Self::SeparableTensor
        )
    }

    /// Whether the mask is read from constant memory, and so has at most [`MASK`](struct@crate::teaching::constant_mask::MASK)'s
    /// number of coefficients.
    #[must_use]
    pub const fn mask_is_constant(self) -> bool {
        !matches!(self, Self::Naive | Self::SmallTile | Self::RegisterTile | Self::Tensor | Self::SeparableTensor)
    }

    /// The coefficients that the kernel reads for a mask: all, or those of a row and a column.
    #[must_use]
    pub const fn coefficients(self, mask_width: u32, mask_height: u32) -> u64 {
        let (width, height) = (mask_width as u64, mask_height as u64);
        if self.is_direct() { width * height } else { width + height }
    }

    /// Where row `row` of the mask begins among the coefficients, as the kernel wants it; the row after the last one, behind all of them.
    #[must_use]
    pub const fn mask_row(self, mask_width: u32, row: u32) -> u32 {
        match self {
            Self::SmallTile => row * small_tile::mask_pitch(mask_width),
            Self::Stream => sliding_window::mask_row(mask_width, row),
            _ => row * mask_width,
        }
    }

    /// The types of results that the kernel makes of images of `pixel`.
    #[must_use]
    pub const fn results(self, pixel: PixelType) -> &'static [PixelType] {
        match (self, pixel) {
            (Self::Naive | Self::ConstantMask | Self::SharedTile, _) => &PixelType::ALL,
            (Self::Stream, _) => sliding_window::results(pixel),
            (
                Self::SmallTile
                | Self::RegisterTile
                | Self::SeparableRing
                | Self::SeparableTile
                | Self::SeparableTensor,
                _,
            ) => &[PixelType::F32],
            (Self::StreamRing | Self::Tensor, _) => &[PixelType::U8],
        }
    }
}
