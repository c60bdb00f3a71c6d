//! The list of entries. PTX symbols, the host's tables, the names on the command line and the tests come from it.
//!
//! The table below has the variants, each with the call that is its body, generic in the type of the image's values, in `C`,
//! their interleaved channels, and in `K`, the side of the mask where that is fixed. Below each stand its symbols with type, channels
//! and side. To add a kernel, add a symbol.

use cuda_std::prelude::*;

use crate::constant_mask::{self, MASK};
use crate::naive;
use crate::params::{MAX_SIDE, Params, Untyped};
use crate::pixel::PixelType;
use crate::shared_tile;

/// A way to compute a convolution; each has one file of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// [`naive`]: everything in global memory.
    Naive,
    /// [`constant_mask`]: the mask in constant memory.
    ConstantMask,
    /// [`shared_tile`]: the image in shared memory, too.
    SharedTile,
}

impl Variant {
    /// All variants, from the simplest on.
    pub const ALL: [Self; 3] = [Self::Naive, Self::ConstantMask, Self::SharedTile];

    /// The name on the command line, in reports and in PTX symbols.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::ConstantMask => "constant_mask",
            Self::SharedTile => "shared_tile",
        }
    }

    /// One line for people.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Naive => "one thread, one pixel; image and mask in global memory",
            Self::ConstantMask => "one thread, one pixel; the mask in constant memory",
            Self::SharedTile => "a block shares its pixels in shared memory; the mask in constant memory",
        }
    }

    /// Threads of a block in x and y.
    #[must_use]
    pub const fn block(self) -> (u32, u32) {
        match self {
            Self::Naive => naive::BLOCK,
            Self::ConstantMask => constant_mask::BLOCK,
            Self::SharedTile => shared_tile::BLOCK,
        }
    }

    /// Output values of a block in x and y; several channels are as many values.
    #[must_use]
    pub const fn outputs(self) -> (u32, u32) {
        // Every thread of these three computes one value.
        self.block()
    }

    /// Whether the mask is read from constant memory, and so has at most [`MASK`]'s number of coefficients.
    #[must_use]
    pub const fn mask_is_constant(self) -> bool {
        !matches!(self, Self::Naive)
    }
}

/// The masks that an entry takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskSize {
    /// Any width and height.
    Any,
    /// One square size, for which the loops are unrolled.
    Square(u32),
}

impl MaskSize {
    /// Squares of this side, any mask for 0.
    const fn of(side: u32) -> Self {
        if side == 0 { Self::Any } else { Self::Square(side) }
    }
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The symbol in the PTX.
    pub symbol: &'static str,
    /// The way it computes.
    pub variant: Variant,
    /// The type of the image's values. The result may have any type.
    pub pixel: PixelType,
    /// Interleaved channels of a pixel.
    pub channels: u32,
    /// The masks that it takes.
    pub mask: MaskSize,
}

/// Why an entry can't compute a problem. Required and actual are in the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The mask has another size than the one the entry is made for.
    OtherMaskSize {
        /// Width and height that the entry is made for.
        made_for: u32,
    },
    /// The mask does not fit constant memory.
    TooManyCoefficients {
        /// Coefficients that fit.
        most: u64,
        /// Coefficients of the mask.
        found: u64,
    },
    /// The block's tile does not fit shared memory.
    TooMuchSharedMemory {
        /// Bytes that a block of the device can have.
        most: u64,
        /// Bytes that the tile takes.
        needed: u64,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::OtherMaskSize { made_for } => write!(f, "made for masks of {made_for} x {made_for}"),
            Self::TooManyCoefficients { most, found } => {
                write!(f, "constant memory holds {most} coefficients, the mask has {found}")
            }
            Self::TooMuchSharedMemory { most, needed } => {
                write!(f, "a block of this device has at most {most} bytes of shared memory, the tile takes {needed}")
            }
        }
    }
}

impl Entry {
    /// The PTX module that holds the entry. Modules are compiled when first used, so what is used alone stands alone.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// The dynamic shared memory of a block, in bytes.
    #[must_use]
    pub const fn shared_bytes(&self, mask_width: u32, mask_height: u32) -> u64 {
        match self.variant {
            Variant::Naive | Variant::ConstantMask => 0,
            Variant::SharedTile => shared_tile::shared_bytes(mask_width, mask_height, self.channels),
        }
    }

    /// Whether the entry can compute with a mask of this size on a device whose blocks can have
    /// `shared_limit` bytes of shared memory.
    ///
    /// # Errors
    /// The first reason why not.
    pub const fn accepts(&self, mask_width: u32, mask_height: u32, shared_limit: u64) -> Result<(), Refusal> {
        if let MaskSize::Square(size) = self.mask
            && (mask_width != size || mask_height != size)
        {
            return Err(Refusal::OtherMaskSize { made_for: size });
        }
        let found = mask_width as u64 * mask_height as u64;
        if self.variant.mask_is_constant() && found > MASK::LENGTH as u64 {
            return Err(Refusal::TooManyCoefficients { most: MASK::LENGTH as u64, found });
        }
        let needed = self.shared_bytes(mask_width, mask_height);
        if needed > shared_limit {
            return Err(Refusal::TooMuchSharedMemory { most: shared_limit, needed });
        }
        Ok(())
    }
}

/// A parameter of a kernel, as its PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its size in bytes.
    pub bytes: usize,
    /// Its alignment in bytes.
    pub align: usize,
    /// Whether it is an address of the device.
    pub pointer: bool,
}

impl Parameter {
    /// An address in global memory.
    pub const POINTER: Self = Self { bytes: 8, align: 8, pointer: true };

    /// A value of type `T`.
    #[must_use]
    pub const fn value<T>() -> Self {
        Self { bytes: size_of::<T>(), align: align_of::<T>(), pointer: false }
    }
}

/// The parameters of every convolution kernel: source, result, mask, [`Params`].
pub const PARAMETERS: [Parameter; 4] =
    [Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::value::<Params>()];

/// A kernel of any kind, as the PTX must hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The symbol.
    pub symbol: &'static str,
    /// The module that it stands in.
    pub module: &'static str,
    /// The parameters, in order.
    pub parameters: &'static [Parameter],
}

/// Every kernel of this crate: the entries, and those that do something else than convolve.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    ENTRIES
        .iter()
        .map(|entry| Kernel { symbol: entry.symbol, module: entry.module(), parameters: &PARAMETERS })
        .chain([crate::rates::FMA_RATE])
        .chain(crate::tutorials::kernels())
}

/// An entry compiled for the host, by the type of its image's values.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // source, result, mask, parameters
pub enum Function {
    U8(unsafe fn(Global<u8>, Untyped, Global<f32>, Params)),
    U16(unsafe fn(Global<u16>, Untyped, Global<f32>, Params)),
    F32(unsafe fn(Global<f32>, Untyped, Global<f32>, Params)),
}

/// From a table of entries: the kernels, and [`ENTRIES`].
macro_rules! entries {
    ($(
        $variant:ident {
            |$image:ident, $result:ident, $coefficients:ident, $params:ident| $body:expr;
            $($type:ident $pixel:ident: $($symbol:ident $channels:literal $($size:literal)?),+;)+
        }
    )*) => {
        /// The kernels: one function per symbol of the list, with the same four parameters each: source, result, mask,
        /// [`Params`]. Those that read the mask from constant memory leave the third alone.
        pub mod kernels {
            use super::*;
            $($($(
                /// See the list of entries.
                ///
                /// # Safety
                /// As for the variant's function of the same name.
                #[kernel]
                pub unsafe fn $symbol(
                    $image: Global<$pixel>,
                    $result: Untyped,
                    $coefficients: Global<f32>,
                    $params: Params,
                ) {
                    /// The interleaved channels.
                    const C: u32 = $channels;
                    /// The side of the mask, 0 for any.
                    #[allow(dead_code)]
                    const K: u32 = 0 $(+ $size)?;
                    // SAFETY: the caller's promise.
                    unsafe { $body }
                }
            )+)+)*
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl Entry {
            /// The kernel as a function of the host, for an executor to run.
            #[must_use]
            pub fn function(&self) -> Function {
                match self.symbol {
                    $($($(stringify!($symbol) => Function::$type(kernels::$symbol),)+)+)*
                    symbol => unreachable!("{symbol} is not in the list, and only the list makes entries"),
                }
            }
        }

        /// Every kernel that can be launched.
        pub const ENTRIES: &[Entry] = &[$($($(Entry {
            symbol: stringify!($symbol),
            variant: Variant::$variant,
            pixel: PixelType::$type,
            channels: $channels,
            mask: MaskSize::of(0 $(+ $size)?),
        },)+)+)*];
    };
}

entries! {
    Naive {
        |image, result, mask, params| naive::naive::<_, C>(image, result, mask, params);
        U8 u8: naive_u8_c1 1, naive_u8_c2 2, naive_u8_c3 3, naive_u8_c4 4;
        U16 u16: naive_u16_c1 1, naive_u16_c2 2, naive_u16_c3 3, naive_u16_c4 4;
        F32 f32: naive_f32_c1 1, naive_f32_c2 2, naive_f32_c3 3, naive_f32_c4 4;
    }
    ConstantMask {
        |image, result, _mask, params| constant_mask::constant_mask::<_, C>(image, result, params);
        U8 u8: constant_mask_u8_c1 1, constant_mask_u8_c2 2, constant_mask_u8_c3 3, constant_mask_u8_c4 4;
        U16 u16: constant_mask_u16_c1 1, constant_mask_u16_c2 2, constant_mask_u16_c3 3, constant_mask_u16_c4 4;
        F32 f32: constant_mask_f32_c1 1, constant_mask_f32_c2 2, constant_mask_f32_c3 3, constant_mask_f32_c4 4;
    }
    SharedTile {
        |image, result, _mask, params| shared_tile::shared_tile::<_, C, K>(image, result, params);
        U8 u8: shared_tile_u8_c1 1, shared_tile_u8_c2 2, shared_tile_u8_c3 3, shared_tile_u8_c4 4;
        U16 u16: shared_tile_u16_c1 1, shared_tile_u16_c2 2, shared_tile_u16_c3 3, shared_tile_u16_c4 4;
        F32 f32: shared_tile_f32_c1 1, shared_tile_f32_c2 2, shared_tile_f32_c3 3, shared_tile_f32_c4 4;
        F32 f32: shared_tile_f32_c1_3x3 1 3;
        F32 f32: shared_tile_f32_c1_5x5 1 5;
        F32 f32: shared_tile_f32_c1_7x7 1 7;
        F32 f32: shared_tile_f32_c1_9x9 1 9;
        F32 f32: shared_tile_f32_c1_11x11 1 11;
        F32 f32: shared_tile_f32_c1_13x13 1 13;
        F32 f32: shared_tile_f32_c1_15x15 1 15;
    }
}

// A mask of the largest size must not overflow the sizes above.
const _: () = assert!(MAX_SIDE * MAX_SIDE < u64::MAX as usize / 8);
