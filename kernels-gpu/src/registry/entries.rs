//! The list of entries. PTX symbols, the host's tables, the names on the command line and the tests come from it.
//!
//! The table below has the variants, each with the architecture that it is compiled for and the call that is its body.
//! The
//! body is generic in the type of the image's values, in `C`, their interleaved channels, in `K`, the side of the mask
//! where
//! that is fixed, and in `REACH`, where the height is limited. Below each stand its symbols with type, channels and
//! side or reach. To add a kernel, add a symbol.

use cuda_std::prelude::*;

use crate::abi::kernel::{Convergent, Kernel, Parameter};
use crate::abi::params::{MAX_SIDE, OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::direct::sliding_window::{self, Schedule, cp_async_ring, double_buffered, global_rows};
use crate::direct::{register_tile, shared_tile_async as small_tile};
use crate::separable::{block_tile as separable_tile, ring as separable_ring, tensor_core as separable_tensor};
use crate::teaching::constant_mask::MASK;
use crate::teaching::shared_tile;
use crate::tensor_core_u8 as tensor;

use crate::registry::request::{Ineligible, Request};
use crate::registry::variant::Variant;

/// The masks that an entry takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskSize {
    /// Any width and height.
    Any,
    /// One square size, for which the loops are unrolled.
    Square(u32),
    /// Any width, and the heights of which [`separable_tile::reach`] is this.
    Reach(u32),
    /// Those whose [`separable_tensor::blocks`] are at most this many.
    Blocks(u32),
}

impl MaskSize {
    /// The side of the squares, 0 for other masks.
    #[must_use]
    pub const fn side(self) -> u32 {
        match self {
            Self::Any | Self::Reach(_) | Self::Blocks(_) => 0,
            Self::Square(side) => side,
        }
    }

    /// The blocks of a window, 0 where they are not what counts.
    #[must_use]
    pub const fn blocks(self) -> u32 {
        match self {
            Self::Blocks(blocks) => blocks,
            Self::Any | Self::Square(_) | Self::Reach(_) => 0,
        }
    }

    /// Squares of this side, or else masks of this reach, or else of so many blocks, or any mask if all are 0.
    const fn of(side: u32, reach: u32, blocks: u32) -> Self {
        match (side, reach, blocks) {
            (0, 0, 0) => Self::Any,
            (0, 0, blocks) => Self::Blocks(blocks),
            (0, reach, _) => Self::Reach(reach),
            (side, ..) => Self::Square(side),
        }
    }

    /// Whether a mask of this width and height, whose windows begin `origin_x` columns before an output's pixel, is one of them.
    #[must_use]
    pub const fn has(self, (width, height): (u32, u32), origin_x: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Square(side) => width == side && height == side,
            Self::Reach(reach) => separable_tile::reach(height) == reach,
            Self::Blocks(blocks) => separable_tensor::blocks(width, height, origin_x) <= blocks,
        }
    }
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The symbol in the PTX.
    pub symbol: &'static str,
    /// The way it computes.
    pub variant: Variant,
    /// The type of the image's values. The result's: [`Variant::results`].
    pub pixel: PixelType,
    /// Interleaved channels of a pixel.
    pub channels: u32,
    /// The masks that it takes.
    pub mask: MaskSize,
}

impl Entry {
    /// The PTX module that holds the entry. Modules are compiled when first used, so what is used alone stands alone.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// How the entry walks down the image, if it does.
    #[must_use]
    pub const fn schedule(&self) -> Option<Schedule> {
        match (self.variant, self.mask) {
            (Variant::Stream | Variant::StreamRing, MaskSize::Square(side)) => {
                Some(sliding_window::schedule(self.pixel, self.channels, side))
            }
            _ => None,
        }
    }

    /// See [`Kernel::residency`].
    #[must_use]
    pub const fn residency(&self) -> Option<(u32, u32)> {
        match self.variant {
            // So many threads would get fewer registers than they need; one block is enough.
            Variant::SeparableTile | Variant::SeparableTensor => Some((self.block().0, 1)),
            Variant::Stream | Variant::StreamRing => {
                sliding_window::launch_bounds(self.pixel, self.channels, self.mask.side())
            }
            Variant::Tensor => match tensor::resident(self.channels, self.mask.side()) {
                Some(blocks) => Some((self.block().0, blocks)),
                None => None,
            },
            _ => None,
        }
    }

    /// See [`Kernel::convergent`].
    #[must_use]
    pub const fn convergent(&self) -> Convergent {
        match self.variant {
            Variant::Naive | Variant::ConstantMask => Convergent::NONE,
            Variant::SharedTile => shared_tile::CONVERGENT,
            Variant::SmallTile => small_tile::CONVERGENT,
            Variant::RegisterTile => register_tile::CONVERGENT,
            Variant::Stream | Variant::StreamRing => sliding_window::convergent(self.pixel, self.channels),
            Variant::Tensor => tensor::convergent(self.channels, self.mask.side()),
            Variant::SeparableRing => separable_ring::CONVERGENT,
            Variant::SeparableTile => separable_tile::CONVERGENT,
            Variant::SeparableTensor => separable_tensor::convergent(self.mask.blocks()),
        }
    }

    /// Threads of a block in x and y.
    #[must_use]
    pub const fn block(&self) -> (u32, u32) {
        match (self.variant, self.mask) {
            (Variant::SeparableTile, MaskSize::Square(side)) => (separable_tile::threads(side, 0), 1),
            (Variant::SeparableTile, MaskSize::Reach(reach)) => (separable_tile::threads(0, reach), 1),
            (Variant::SeparableTensor, MaskSize::Blocks(blocks)) => (32 * separable_tensor::warps(blocks), 1),
            _ => self.variant.block(),
        }
    }

    /// Output values of a block in x and y; several channels are as many values. Where the rows of a grid share out the
    /// image's ([`Variant::shares_out_rows`]), the rows are the fewest that a block should have.
    #[must_use]
    pub const fn outputs(&self) -> (u32, u32) {
        match self.schedule() {
            Some(_) => sliding_window::outputs(self.pixel, self.channels, self.mask.side()),
            None => match self.variant {
                Variant::SmallTile => small_tile::OUTPUTS,
                Variant::RegisterTile => register_tile::OUTPUTS,
                Variant::Tensor => (tensor::outputs(self.channels, self.mask.side()), tensor::ROWS),
                Variant::SeparableRing => (separable_ring::OUTPUT_COLUMNS, separable_ring::BLOCK.1),
                Variant::SeparableTile => (self.block().0, separable_tile::OUTPUT_ROWS),
                Variant::SeparableTensor => {
                    (separable_tensor::columns(self.mask.blocks()), separable_tensor::rows(self.mask.blocks()))
                }
                _ => self.variant.block(),
            },
        }
    }

    /// The fewest rows that a strip should have where the rows of a grid share out the image's.
    #[must_use]
    pub const fn least_rows(&self, mask_height: u32) -> u32 {
        let (_, rows) = self.outputs();
        match self.variant {
            // Of the rows that a strip reads no more shall be its neighbour's than its own.
            Variant::SeparableRing if mask_height > rows => mask_height,
            Variant::SeparableTile | Variant::SeparableTensor => rows + separable_tile::reach(mask_height),
            _ => rows,
        }
    }

    /// Of how many rows the first row of a launch should be a multiple: then its results have the bits that a launch for the whole image
    /// gives them.
    #[must_use]
    pub const fn row_step(&self) -> u32 {
        match self.variant {
            Variant::SeparableTensor => separable_tensor::STRIP_STEP,
            _ => 1,
        }
    }

    /// The number of blocks that fill a device of `sm_count` multiprocessors best, each with `shared_per_sm` bytes of
    /// shared memory: for entries whose grid may have any number of rows.
    #[must_use]
    pub const fn blocks_to_fill(&self, mask: (u32, u32), sm_count: u32, shared_per_sm: u64) -> u64 {
        /// What a block takes of shared memory for the system.
        const OF_THE_SYSTEM: u64 = 1024;
        let (resident, waves) = match (self.schedule(), self.variant) {
            (Some(Schedule { blocks_per_sm, waves, .. }), _) => (blocks_per_sm, waves),
            (None, Variant::Tensor) => tensor::schedule(self.channels, self.mask.side()),
            (None, Variant::SeparableTile | Variant::SeparableTensor) => {
                (separable_tile::RESIDENT, separable_tile::WAVES)
            }
            (None, _) => (separable_ring::RESIDENT, separable_ring::WAVES),
        };
        let fitting = shared_per_sm / (self.shared_bytes(mask.0, mask.1) + OF_THE_SYSTEM);
        let resident = if fitting < resident as u64 { fitting } else { resident as u64 };
        waves as u64 * sm_count as u64 * if resident > 0 { resident } else { 1 }
    }

    /// The dynamic shared memory of a block, in bytes.
    #[must_use]
    pub const fn shared_bytes(&self, mask_width: u32, mask_height: u32) -> u64 {
        match self.schedule() {
            Some(_) => sliding_window::shared_bytes(self.pixel, self.channels, self.mask.side()),
            None => match self.variant {
                Variant::SharedTile => shared_tile::shared_bytes(mask_width, mask_height, self.channels),
                Variant::SmallTile => small_tile::shared_bytes(mask_width),
                Variant::RegisterTile => register_tile::shared_bytes(mask_width, mask_height),
                Variant::Tensor => tensor::shared_bytes(self.channels, mask_width, mask_height, self.mask.side()),
                Variant::SeparableRing => separable_ring::shared_bytes(mask_width, mask_height),
                Variant::SeparableTile => separable_tile::shared_bytes(self.block().0, mask_width),
                Variant::SeparableTensor => separable_tensor::shared_bytes(self.mask.blocks()),
                _ => 0,
            },
        }
    }

    /// Whether the entry can compute what is asked for, on images of its type and channels.
    ///
    /// # Errors
    /// The first reason why not.
    pub const fn eligibility(&self, request: &Request) -> Result<(), Ineligible> {
        let (width, height) = request.mask;
        let made_for = self.variant.results(self.pixel);
        let mut i = 0;
        while i < made_for.len() && made_for[i].code() != request.result.code() {
            i += 1;
        }
        if i == made_for.len() {
            return Err(Ineligible::OtherResult { made_for, found: request.result });
        }
        let (width, height) = match self.mask {
            MaskSize::Square(side) if request.fits(side) => (side, side),
            of if of.has(request.mask, request.origin_x) => (width, height),
            _ => {
                let values = (self.pixel, self.channels);
                return Err(Ineligible::OtherMaskSize { variant: self.variant, values, found: request.mask });
            }
        };
        let (required, found) = (self.variant.compute_capability(), request.compute_capability);
        if is_older(found, required) {
            return Err(Ineligible::OlderDevice { required, found });
        }
        if self.variant.border_is_pixel()
            && let Some(found) = request.border_value
            && !self.pixel.holds(found)
        {
            return Err(Ineligible::BorderValue { required: self.pixel, found });
        }
        if !self.variant.is_direct() && !request.separable {
            return Err(Ineligible::NotSeparable);
        }
        if matches!(self.variant, Variant::SeparableTensor) && !separable_tensor::holds(request.exponents) {
            return Err(Ineligible::Exponents { found: request.exponents });
        }
        if matches!(self.variant, Variant::Tensor) && request.uncertain > tensor::MOST_UNCERTAIN_PART {
            return Err(Ineligible::Uncertain { found: request.uncertain });
        }
        let found = self.variant.coefficients(width, height);
        if self.variant.mask_is_constant() && found > MASK::LENGTH as u64 {
            return Err(Ineligible::TooManyCoefficients { most: MASK::LENGTH as u64, found });
        }
        let (most, needed) = (request.shared_limit, self.shared_bytes(width, height));
        if needed > most {
            return Err(Ineligible::TooMuchSharedMemory { most, needed });
        }
        Ok(())
    }
}

/// Whether version `found`, major and minor, comes before `required`.
const fn is_older(found: (u32, u32), required: (u32, u32)) -> bool {
    found.0 < required.0 || found.0 == required.0 && found.1 < required.1
}

/// The parameters of every convolution kernel: source, result, mask, [`Params`].
pub const PARAMETERS: [Parameter; 4] =
    [Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::value::<Params>()];

/// Every kernel of this crate: the entries, and those that do something else than convolve.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    ENTRIES
        .iter()
        .map(|entry| Kernel {
            symbol: entry.symbol,
            module: entry.module(),
            parameters: &PARAMETERS,
            compute_capability: entry.variant.compute_capability(),
            residency: entry.residency(),
            convergent: entry.convergent(),
        })
        .chain([crate::util::fma_peak::FMA_RATE, crate::util::memcpy::COPY_QUADS])
        .chain(crate::tutorials::kernels())
}

/// An entry compiled for the host, by the type of its image's values.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // source, result, mask, parameters
pub enum Function {
    U8(unsafe fn(Global<u8>, OutputPtr, Global<f32>, Params)),
    U16(unsafe fn(Global<u16>, OutputPtr, Global<f32>, Params)),
    F32(unsafe fn(Global<f32>, OutputPtr, Global<f32>, Params)),
}

/// A kernel that only the build for one architecture has: the oldest that has its instructions. The host has all
/// kernels.
macro_rules! compiled_for {
    (sm_70 $kernel:item) => {
        #[cfg(any(not(target_arch = "nvptx64"), not(target_feature = "sm_80")))]
        $kernel
    };
    (sm_80 $kernel:item) => {
        #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_80"))]
        $kernel
    };
}

/// From a table of entries: the kernels, and [`ENTRIES`].
macro_rules! entries {
    ($(
        $variant:ident $arch:ident {
            |$image:ident, $result:ident, $coefficients:ident, $params:ident| $body:expr;
            $($type:ident $pixel:ident: $($symbol:ident $channels:literal $($size:literal)? $(reach $reach:literal)? $(blocks $blocks:literal)?),+;)+
        }
    )*) => {
        /// The kernels: one function per symbol of the list, with the same four parameters each: source, result, mask,
        /// [`Params`]. Those that read the mask from constant memory leave the third alone.
        pub mod kernels {
            use super::*;
            $($($(compiled_for! { $arch
                /// See the list of entries.
                ///
                /// # Safety
                /// As for the variant's function of the same name.
                #[kernel]
                pub unsafe fn $symbol(
                    $image: Global<$pixel>,
                    $result: OutputPtr,
                    $coefficients: Global<f32>,
                    $params: Params,
                ) {
                    /// The interleaved channels.
                    #[allow(dead_code)]
                    const C: u32 = $channels;
                    /// The side of the mask, 0 for any.
                    #[allow(dead_code)]
                    const K: u32 = 0 $(+ $size)?;
                    /// The type of the image's values.
                    #[allow(dead_code)]
                    const P: PixelType = PixelType::$type;
                    /// The masks' [`separable_tile::reach`], 0 where it is not limited.
                    #[allow(dead_code)]
                    const REACH: u32 = 0 $(+ $reach)?;
                    /// The masks' [`separable_tensor::blocks`], at most, 0 where they are not limited.
                    #[allow(dead_code)]
                    const BLOCKS: u32 = 0 $(+ $blocks)?;
                    // SAFETY: the caller's promise.
                    unsafe { $body }
                }
            })+)+)*
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
            mask: MaskSize::of(0 $(+ $size)?, 0 $(+ $reach)?, 0 $(+ $blocks)?),
        },)+)+)*];
    };
}

entries! {
    Naive sm_70 {
        |image, result, mask, params| crate::teaching::naive::naive::<_, C>(image, result, mask, params);
        U8 u8: naive_u8_c1 1, naive_u8_c2 2, naive_u8_c3 3, naive_u8_c4 4;
        U16 u16: naive_u16_c1 1, naive_u16_c2 2, naive_u16_c3 3, naive_u16_c4 4;
        F32 f32: naive_f32_c1 1, naive_f32_c2 2, naive_f32_c3 3, naive_f32_c4 4;
    }
    ConstantMask sm_70 {
        |image, result, _mask, params| crate::teaching::constant_mask::constant_mask::<_, C>(image, result, params);
        U8 u8: constant_mask_u8_c1 1, constant_mask_u8_c2 2, constant_mask_u8_c3 3, constant_mask_u8_c4 4;
        U16 u16: constant_mask_u16_c1 1, constant_mask_u16_c2 2, constant_mask_u16_c3 3, constant_mask_u16_c4 4;
        F32 f32: constant_mask_f32_c1 1, constant_mask_f32_c2 2, constant_mask_f32_c3 3, constant_mask_f32_c4 4;
    }
    SharedTile sm_70 {
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
    SmallTile sm_80 {
        |image, result, mask, params| small_tile::small_tile::<{ K as usize }>(image, result.cast(), mask, params);
        F32 f32: small_tile_f32_c1_3x3 1 3;
        F32 f32: small_tile_f32_c1_5x5 1 5;
        F32 f32: small_tile_f32_c1_7x7 1 7;
        F32 f32: small_tile_f32_c1_9x9 1 9;
        F32 f32: small_tile_f32_c1_11x11 1 11;
        F32 f32: small_tile_f32_c1_13x13 1 13;
        F32 f32: small_tile_f32_c1_15x15 1 15;
        F32 f32: small_tile_f32_c1_17x17 1 17;
        F32 f32: small_tile_f32_c1_19x19 1 19;
        F32 f32: small_tile_f32_c1_21x21 1 21;
        F32 f32: small_tile_f32_c1_23x23 1 23;
        F32 f32: small_tile_f32_c1_25x25 1 25;
        F32 f32: small_tile_f32_c1_27x27 1 27;
        F32 f32: small_tile_f32_c1_29x29 1 29;
        F32 f32: small_tile_f32_c1_31x31 1 31;
    }
    RegisterTile sm_70 {
        |image, result, mask, params| register_tile::register_tile(image, result.cast(), mask, params);
        F32 f32: register_tile_f32_c1 1;
    }
    Stream sm_70 {
        |image, result, _mask, params| {
            double_buffered::sliding_window::<
                { K as usize },
                { sliding_window::rows_per_pass(K) as usize },
                { sliding_window::schedule(P, C, K).columns_per_thread as usize },
            >(image, result.cast(), params)
        };
        F32 f32: stream_f32_c1_3x3 1 3;
        F32 f32: stream_f32_c1_4x4 1 4;
        F32 f32: stream_f32_c1_5x5 1 5;
        F32 f32: stream_f32_c1_6x6 1 6;
        F32 f32: stream_f32_c1_7x7 1 7;
        F32 f32: stream_f32_c1_8x8 1 8;
        F32 f32: stream_f32_c1_9x9 1 9;
        F32 f32: stream_f32_c1_10x10 1 10;
        F32 f32: stream_f32_c1_11x11 1 11;
        F32 f32: stream_f32_c1_12x12 1 12;
        F32 f32: stream_f32_c1_13x13 1 13;
        F32 f32: stream_f32_c1_14x14 1 14;
        F32 f32: stream_f32_c1_15x15 1 15;
        F32 f32: stream_f32_c1_16x16 1 16;
        F32 f32: stream_f32_c1_17x17 1 17;
        F32 f32: stream_f32_c1_18x18 1 18;
        F32 f32: stream_f32_c1_19x19 1 19;
        F32 f32: stream_f32_c1_20x20 1 20;
        F32 f32: stream_f32_c1_21x21 1 21;
        F32 f32: stream_f32_c1_23x23 1 23;
        F32 f32: stream_f32_c1_25x25 1 25;
        F32 f32: stream_f32_c1_27x27 1 27;
        F32 f32: stream_f32_c1_29x29 1 29;
        F32 f32: stream_f32_c1_31x31 1 31;
    }
    Stream sm_70 {
        |image, result, _mask, params| {
            const WALK: Schedule = sliding_window::schedule(P, C, K);
            global_rows::sliding_window::<
                _,
                { K as usize },
                { WALK.columns_per_thread as usize },
                C,
                { WALK.prefetch_distance },
            >(image, result, params)
        };
        F32 f32: stream_f32_c3_3x3 3 3, stream_f32_c4_3x3 4 3;
        F32 f32: stream_f32_c3_5x5 3 5, stream_f32_c4_5x5 4 5;
        F32 f32: stream_f32_c3_7x7 3 7, stream_f32_c4_7x7 4 7;
        F32 f32: stream_f32_c3_9x9 3 9, stream_f32_c4_9x9 4 9;
        F32 f32: stream_f32_c3_11x11 3 11, stream_f32_c4_11x11 4 11;
        U16 u16: stream_u16_c1_3x3 1 3, stream_u16_c3_3x3 3 3, stream_u16_c4_3x3 4 3;
        U16 u16: stream_u16_c1_5x5 1 5, stream_u16_c3_5x5 3 5, stream_u16_c4_5x5 4 5;
        U16 u16: stream_u16_c1_7x7 1 7, stream_u16_c3_7x7 3 7, stream_u16_c4_7x7 4 7;
        U16 u16: stream_u16_c1_9x9 1 9, stream_u16_c3_9x9 3 9, stream_u16_c4_9x9 4 9;
        U16 u16: stream_u16_c1_11x11 1 11, stream_u16_c3_11x11 3 11;
    }
    StreamRing sm_80 {
        |image, result, _mask, params| cp_async_ring::sliding_window::<C>(image, result, params);
        U8 u8: stream_ring_u8_c1_3x3 1 3, stream_ring_u8_c3_3x3 3 3, stream_ring_u8_c4_3x3 4 3;
    }
    Tensor sm_80 {
        |image, result, mask, params| tensor::tensor::<C, K>(image, result, mask, params);
        U8 u8: tensor_u8_c1 1, tensor_u8_c3 3, tensor_u8_c4 4;
        U8 u8: tensor_u8_c1_3x3 1 3, tensor_u8_c3_3x3 3 3, tensor_u8_c4_3x3 4 3;
        U8 u8: tensor_u8_c1_5x5 1 5, tensor_u8_c3_5x5 3 5, tensor_u8_c4_5x5 4 5;
        U8 u8: tensor_u8_c1_7x7 1 7, tensor_u8_c3_7x7 3 7, tensor_u8_c4_7x7 4 7;
        U8 u8: tensor_u8_c1_9x9 1 9, tensor_u8_c3_9x9 3 9, tensor_u8_c4_9x9 4 9;
        U8 u8: tensor_u8_c1_11x11 1 11, tensor_u8_c3_11x11 3 11, tensor_u8_c4_11x11 4 11;
        U8 u8: tensor_u8_c1_13x13 1 13;
        U8 u8: tensor_u8_c1_15x15 1 15;
        U8 u8: tensor_u8_c1_21x21 1 21;
        U8 u8: tensor_u8_c1_31x31 1 31;
    }
    SeparableRing sm_70 {
        |image, result, _mask, params| separable_ring::separable_ring(image, result.cast(), params);
        F32 f32: separable_ring_f32_c1 1;
    }
    SeparableTile sm_80 {
        |image, result, _mask, params| {
            separable_tile::separable_tile::<
                K,
                { separable_tile::groups(K, REACH) },
                { separable_tile::group(K, REACH) },
                { separable_tile::threads(K, REACH) },
            >(image, result.cast(), params)
        };
        F32 f32: separable_tile_f32_c1_5x5 1 5;
        F32 f32: separable_tile_f32_c1_7x7 1 7;
        F32 f32: separable_tile_f32_c1_9x9 1 9;
        F32 f32: separable_tile_f32_c1_11x11 1 11;
        F32 f32: separable_tile_f32_c1_13x13 1 13;
        F32 f32: separable_tile_f32_c1_15x15 1 15;
        F32 f32: separable_tile_f32_c1_17x17 1 17;
        F32 f32: separable_tile_f32_c1_19x19 1 19;
        F32 f32: separable_tile_f32_c1_21x21 1 21;
        F32 f32: separable_tile_f32_c1_23x23 1 23;
        F32 f32: separable_tile_f32_c1_25x25 1 25;
        F32 f32: separable_tile_f32_c1_27x27 1 27;
        F32 f32: separable_tile_f32_c1_29x29 1 29;
        F32 f32: separable_tile_f32_c1_31x31 1 31;
        F32 f32: separable_tile_f32_c1_63x63 1 63;
        F32 f32: separable_tile_f32_c1_127x127 1 127;
        F32 f32: separable_tile_f32_c1_reach_16 1 reach 16;
        F32 f32: separable_tile_f32_c1_reach_32 1 reach 32;
        F32 f32: separable_tile_f32_c1_reach_48 1 reach 48;
        F32 f32: separable_tile_f32_c1_reach_64 1 reach 64;
        F32 f32: separable_tile_f32_c1_reach_80 1 reach 80;
        F32 f32: separable_tile_f32_c1_reach_96 1 reach 96;
        F32 f32: separable_tile_f32_c1_reach_112 1 reach 112;
        F32 f32: separable_tile_f32_c1_reach_128 1 reach 128;
    }
    SeparableTensor sm_80 {
        |image, result, mask, params| {
            separable_tensor::separable_tensor::<
                { BLOCKS as usize },
                { BLOCKS as usize - 1 },
                { separable_tensor::tiles(BLOCKS) as usize },
                { separable_tensor::subtiles(BLOCKS) as usize },
                { 16 * separable_tensor::tiles(BLOCKS) },
                { separable_tensor::rows(BLOCKS) },
                { 32 * separable_tensor::warps(BLOCKS) },
            >(image, result.cast(), mask, params)
        };
        F32 f32: separable_tensor_f32_c1_blocks_5 1 blocks 5;
        F32 f32: separable_tensor_f32_c1_blocks_7 1 blocks 7;
        F32 f32: separable_tensor_f32_c1_blocks_9 1 blocks 9;
        F32 f32: separable_tensor_f32_c1_blocks_13 1 blocks 13;
        F32 f32: separable_tensor_f32_c1_blocks_17 1 blocks 17;
    }
}

// A mask of the largest size must not overflow the sizes above.
const _: () = assert!(MAX_SIDE * MAX_SIDE < u64::MAX as usize / 8);
