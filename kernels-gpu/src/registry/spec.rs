//! What is known about a variant.

use super::{Entry, Ineligible, Request};
use crate::abi::kernel::Convergent;
use crate::abi::pixel::PixelType;

/// All facts of a variant, stated in the variant's own file.
///
/// Plan, launches, checks and benchmarks read them from here. A mask is given as `(width, height)`, a block and a tile
/// as `(x, y)`.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name on the command line and in reports. It begins the symbol of each entry.
    pub name: &'static str,
    /// One line for people: how it computes.
    pub summary: &'static str,
    /// Why a plan takes it, as a part of a sentence.
    pub reason: &'static str,
    /// What it promises of its results.
    pub accuracy: Accuracy,
    /// Where it reads the mask.
    pub mask_memory: MaskMemory,
    /// In what form it reads the mask.
    pub mask_form: MaskForm,
    /// The masks of its entries with [`MaskSize::Class`](super::MaskSize::Class), if it has such entries.
    pub mask_class: Option<MaskClass>,
    /// The types of results that it makes of images of a type.
    pub results: fn(PixelType) -> &'static [PixelType],
    /// Whether a constant border's value must be a value of the image's type, for images of a type.
    pub border_is_pixel: fn(PixelType) -> bool,
    /// What else a problem must fulfil.
    pub requirement: fn(&Request) -> Result<(), Ineligible>,
    /// Whether its products are executed by the FP32 units, so that their rate limits it.
    pub uses_fp32_units: bool,
    /// How a grid covers the image.
    pub grid: Grid,
    /// Threads of a block.
    pub block: fn(&Entry) -> (u32, u32),
    /// Output values of a block in x and y, for a mask. Each channel of a pixel is one value.
    ///
    /// With [`Grid::Partition`] a block computes more rows. The host then uses y to estimate how many blocks have work.
    pub outputs: fn(&Entry, mask: (u32, u32)) -> (u32, u32),
    /// Neighbouring pixels of a row that no block shares with another. The host rounds the width up to a multiple of
    /// it before it divides by the columns of [`outputs`](Self::outputs).
    pub pixels_together: u32,
    /// Dynamic shared memory of a block for a mask, in bytes.
    pub shared_bytes: fn(&Entry, mask: (u32, u32)) -> u64,
    /// The largest number of threads of a block and the least number of blocks that a multiprocessor holds, where the
    /// PTX states them: `__launch_bounds__`. They limit the registers of a thread.
    pub launch_bounds: fn(&Entry) -> Option<(u32, u32)>,
    /// The convergent instructions of an entry.
    pub convergent: fn(&Entry) -> Convergent,
}

/// What a variant promises of its results.
#[derive(Clone, Copy, Debug)]
pub enum Accuracy {
    /// Bit-exact: each output is the ordered sum that the [crate's documentation](crate) defines.
    Exact,
    /// `|O - exact| <= gamma(c) * sum |M I|` for each output, with `gamma(n) = n u / (1 - n u)` and `u = 2^-24`.
    Bounded {
        /// The constant `c` for a mask.
        error_constant: fn(&Entry, mask: (u32, u32)) -> u64,
        /// How it computes, which decides what underflow may add to the bound.
        arithmetic: Arithmetic,
    },
}

/// How a variant with bounded accuracy computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Fused multiply-adds of `f32`.
    F32,
    /// Matrix products of numbers that are split into a `tf32` and a `bf16` part.
    SplitTf32,
}

/// The memory that a variant reads the mask from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskMemory {
    /// Constant memory: [`MASK`](struct@crate::teaching::constant_mask::MASK), so at most as many coefficients as it
    /// holds.
    Constant,
    /// Global memory.
    Global,
}

/// The form in which a variant reads the mask.
#[derive(Clone, Copy, Debug)]
pub enum MaskForm {
    /// All coefficients in window order, row by row. The function gives the index at which row `row` of a mask of
    /// `mask_width` columns begins; the row after the last one begins after all coefficients.
    Rows(fn(mask_width: u32, row: u32) -> u32),
    /// The row factor and the column factor of a separable mask. The function gives the index of the first coefficient
    /// of each, for a mask whose window begins `origin_x` columns left of the output.
    Factors(fn(&Entry, mask: (u32, u32), origin_x: i32) -> FactorPlaces),
    /// The same, with what proves integers, and the coefficients of the ordered sums.
    ProvenFactors(fn(&Entry, mask: (u32, u32), origin_x: i32) -> ProvenPlaces),
    /// The fixed-point matrices of [`tensor_core_u8`](crate::tensor_core_u8), after the coefficients in window order.
    FixedPoint,
    /// Those of its [`separable`](crate::tensor_core_u8::separable) kernels, after the coefficients in window order.
    SeparableFixedPoint,
    /// The spectrum of the mask, with what [`fft::layout`](crate::fft::layout) has around it.
    Spectrum,
    /// The spectrum of the mask for larger tiles, with what [`fft::passes::layout`](crate::fft::passes::layout) has
    /// around it.
    SpectrumOfPasses,
}

/// Where the factors of a separable mask begin among the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorPlaces {
    /// The index of the row factor's first coefficient.
    pub row: u32,
    /// The index of the column factor's first coefficient.
    pub column: u32,
    /// The powers of two by which they are multiplied.
    pub powers: FactorPowers,
}

/// Powers of two by which a kernel wants the factors of a separable mask multiplied, as exponents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FactorPowers {
    /// Of the row factor.
    pub row: i32,
    /// Of the column factor.
    pub column: i32,
}

impl FactorPowers {
    /// The factors as they are.
    pub const NONE: Self = Self { row: 0, column: 0 };
}

/// Where the parts of [`MaskForm::ProvenFactors`] begin among the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProvenPlaces {
    /// The factors.
    pub factors: FactorPlaces,
    /// The index of two numbers: 1/2 minus the fixed part of the radius, and minus the part that grows with the binade
    /// of the sum.
    pub certain: u32,
    /// The index of the first coefficient of the ordered sums, which are multiplied by the row factor's power of two.
    pub ordered: u32,
    /// Coefficients from one row of the ordered sums' mask to the next. Rows are filled up with zeros.
    pub ordered_pitch: u32,
}

impl ProvenPlaces {
    /// The number of all coefficients, for a mask of `mask_height` rows.
    #[must_use]
    pub const fn length(&self, mask_height: u32) -> u32 {
        self.ordered + self.ordered_pitch * mask_height
    }
}

impl FactorPlaces {
    /// The row factor first, the column factor directly after it.
    #[must_use]
    pub fn side_by_side(_: &Entry, (mask_width, _): (u32, u32), _: i32) -> Self {
        Self { row: 0, column: mask_width, powers: FactorPowers::NONE }
    }
}

/// The masks that entries for a class of masks take.
#[derive(Clone, Copy, Debug)]
pub struct MaskClass {
    /// Whether a mask, whose window begins `origin_x` columns left of the output, is one of class `class`.
    pub contains: fn(class: u32, mask: (u32, u32), origin_x: i32) -> bool,
    /// A mask of class `class`, for tests.
    pub example: fn(class: u32) -> (u32, u32),
    /// All masks of all classes, as a part of a sentence.
    pub masks: &'static str,
}

/// How a grid of blocks covers an image.
#[derive(Clone, Copy, Debug)]
pub enum Grid {
    /// A block for each tile of outputs.
    Tiles,
    /// A block for two tiles. Each has the outputs of one channel. The tiles of a row of tiles are counted channel by
    /// channel, then column by column. The columns of a block's outputs are twice those of a tile.
    ChannelTiles,
    /// The rows of the grid partition the rows of the image, however many there are. See
    /// [`block_rows`](crate::common::partition::block_rows).
    Partition(RowPartition),
}

/// A grid whose rows partition the image's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowPartition {
    /// The fewest rows that a block should have, for a mask of this height. Fewer rows cost more than idle
    /// multiprocessors, because a block reads `mask_height - 1` rows in addition to its own.
    pub least_rows: fn(&Entry, mask_height: u32) -> u32,
    /// Each block's first row is a multiple of this many rows below the first row of the launch.
    pub block_row_alignment: u32,
    /// The first row of a launch must be a multiple of this. Otherwise its last bits may differ from those of one
    /// launch over the whole image.
    pub launch_row_alignment: u32,
    /// How many blocks fill a device, for a mask.
    pub occupancy: fn(&Entry, mask: (u32, u32)) -> Occupancy,
}

/// How many blocks fill a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Resident blocks per multiprocessor that the host plans for. Shared memory may allow fewer.
    pub blocks_per_sm: u32,
    /// Blocks of a launch, divided by the resident blocks of the device. More waves shorten the idle time at the end.
    /// [`Entry::grid_dim_y`] may take more.
    pub waves: u32,
}

/// No further requirement.
///
/// # Errors
/// Never.
pub(crate) const fn no_requirement(_: &Request) -> Result<(), Ineligible> {
    Ok(())
}

/// No bounds: the assembler chooses the number of registers.
#[must_use]
pub(crate) const fn no_launch_bounds(_: &Entry) -> Option<(u32, u32)> {
    None
}

/// Results of every type.
#[must_use]
pub(crate) const fn any_result(_: PixelType) -> &'static [PixelType] {
    &PixelType::ALL
}

/// Results of `f32`.
#[must_use]
pub(crate) const fn f32_result(_: PixelType) -> &'static [PixelType] {
    &[PixelType::F32]
}

/// Rows that follow each other without a gap.
#[must_use]
pub(crate) const fn dense_rows(mask_width: u32, row: u32) -> u32 {
    row * mask_width
}
