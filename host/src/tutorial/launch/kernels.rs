//! Every kernel of the tutorials as the host launches it: the lengths of its arrays, and its grid.

use std::ops::Deref;

use cuda_launch::{Counts, Kernel, Launch};
use kernels_gpu::tutorials::{box_blur, box_running, box_separable, hpp, mean_1d, numba, pointwise, reduce};

use super::Launcher;
use faltung::{Error, Result};

/// Whole numbers that a kernel gets are below this: 2^29. Sums and products of a few of them then stay in range.
const MOST: u32 = 1 << 29;

/// The most coefficients of a box: a sum of so many 8-bit pixels is below 2^32.
const MOST_OF_BOX: usize = 16_843_009;

/// A kernel with its arguments, or [`InBlocks`] with such a kernel.
pub trait KernelCall {
    /// Checks lengths and limits, and launches the kernel. Counts accesses if asked and on the emulator.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn launch_on(&self, launcher: &Launcher, counting: bool) -> Result<Option<Counts>>;
}

/// A kernel in blocks of this size: the number of threads, or that in x and y.
#[derive(Clone, Copy, Debug)]
pub struct InBlocks<B, K>(pub B, pub K);

impl<B, K> Deref for InBlocks<B, K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.1
    }
}

/// The type that the caller launches.
macro_rules! call_type {
    ($file:ident::$kernel:ident) => { $file::$kernel<'_> };
    ($file:ident::$kernel:ident in $block:ty) => { InBlocks<$block, $file::$kernel<'_>> };
}

/// Makes the [`KernelCall`] of each kernel:
///
/// - `in (block: type)` if the caller chooses the size of a block, by [`InBlocks`].
/// - `values`: the kernel's whole numbers. In what follows they are `usize`.
/// - `lengths`: the least length of each array.
/// - `requires`: other conditions on the values, each with its words.
/// - `launch`: grid, block and dynamic shared memory.
macro_rules! tutorial_kernels {
    ($($file:ident::$kernel:ident $(in ($block:ident: $type:ty))? $(as $call:ident)? {
        values: $($value:ident),*;
        lengths: $($array:ident >= $length:expr),*;
        $(requires: [$($condition:expr, $words:literal);*];)?
        launch: $launch:expr;
    })*) => {$(
        #[allow(unused_variables)] // not every value takes part in every length
        impl KernelCall for call_type!($file::$kernel $(in $type)?) {
            fn launch_on(&self, launcher: &Launcher, counting: bool) -> Result<Option<Counts>> {
                let kernel: &$file::$kernel<'_> = self;
                $(let $call = kernel;)?
                $(let $block = self.0;)?
                let values = [$((stringify!($value), kernel.$value)),*];
                // The values first, because they bound the lengths, which then can't overflow.
                in_range(&values)?;
                $(let $value = kernel.$value as usize;)*
                $($(if !($condition) {
                    return Err(refused($file::$kernel::SYMBOL, $words, &values));
                })*)?
                $(long_enough(stringify!($array), $length, kernel.$array.len())?;)*
                // SAFETY: the lengths and values are those that the kernel requires, checked above. The launch is the
                // one for them. The borrows of the arrays keep an output from being an input.
                unsafe { launcher.run(&$launch, kernel, counting) }
            }
        }
    )*};
}

tutorial_kernels! {
    numba::NumbaConvolve {
        values: rows, columns, mask_rows, mask_columns;
        lengths: result >= rows * columns, mask >= mask_rows * mask_columns, image >= rows * columns;
        launch: Launch::cover_2d((rows, columns), numba::BLOCK);
    }

    numba::NumbaConvolveByColumns {
        values: rows, columns, mask_rows, mask_columns;
        lengths: result >= rows * columns, mask >= mask_rows * mask_columns, image >= rows * columns;
        launch: Launch::cover_2d((columns, rows), numba::BLOCK);
    }

    hpp::HppConstant {
        values: width, height, pitch;
        lengths: image >= height * pitch, result >= height * pitch;
        requires: [pitch >= 3 * width, "a pitch of 3 * width or more"];
        launch: Launch::cover_2d((width, height), hpp::BUSY_BLOCK);
    }

    hpp::HppTile {
        values: width, height, pitch;
        lengths: image >= height * pitch, result >= height * pitch;
        requires: [pitch >= 3 * width, "a pitch of 3 * width or more"];
        launch: Launch::cover_2d((width, height), (hpp::O_TILE_WIDTH, hpp::O_TILE_WIDTH))
            .with_block((hpp::BLOCK_WIDTH, hpp::BLOCK_WIDTH))
            .with_shared::<u8>(hpp::TILE_BYTES as usize);
    }

    hpp::HppTileBusy {
        values: width, height, pitch;
        lengths: image >= height * pitch, result >= height * pitch;
        requires: [pitch >= 3 * width, "a pitch of 3 * width or more"];
        launch: Launch::cover_2d((width, height), hpp::BUSY_BLOCK).with_shared::<u8>(hpp::BUSY_TILE_BYTES as usize);
    }

    pointwise::AddConstant in (block: u32) {
        values: size;
        lengths: input >= size, output >= size;
        launch: Launch::cover(size, block);
    }

    pointwise::NormaliseAndClip in (block: u32) {
        values: size;
        lengths: input >= size, output >= size;
        launch: Launch::cover(size, block);
    }

    pointwise::AdjustBrightness2d in (block: (u32, u32)) {
        values: width, height;
        lengths: image >= width * height, output >= width * height;
        launch: Launch::cover_2d((width, height), block);
    }

    mean_1d::MeanFilter1dNaive in (block: u32) {
        values: size, radius;
        lengths: input >= size, output >= size;
        launch: Launch::cover(size, block);
    }

    mean_1d::MeanFilter1dShared in (block: u32) {
        values: size, radius, piece;
        lengths: input >= size, output >= size;
        requires: [piece >= 1, "a piece of 1 or more"];
        launch: Launch::cover(size, block).with_shared::<u8>(mean_1d::shared_bytes(block, piece as u32) as usize);
    }

    mean_1d::MeanFilter1dVectors in (block: u32) {
        values: size, radius;
        lengths: input >= size, output >= size;
        launch: Launch::cover(size.div_ceil(mean_1d::EACH as usize), block)
            .with_shared::<u8>(mean_1d::vector_bytes(block, radius as u32) as usize);
    }

    reduce::SumReduction in (block: u32) {
        values: size;
        lengths: input >= size, output >= size.div_ceil(block as usize).max(1);
        requires: [block >= 1, "a block of 1 thread or more"];
        launch: Launch::cover(size.max(1), block).with_shared::<f32>(block as usize);
    }

    reduce::FinalSum {
        values: count;
        lengths: partial_sums >= count, total >= 1;
        launch: Launch::cover(1, 1);
    }

    // A block for each element of the output.
    reduce::SumShuffle as call {
        values: size;
        lengths: input >= size;
        launch: Launch::cover_2d((call.output.len(), 1), (1, 1)).with_block((reduce::BLOCK, 1)).with_shared::<f32>(32);
    }

    box_blur::BoxBlur {
        values: width, height, mask_width, mask_height;
        lengths: image >= width * height, result >= width * height, mask >= mask_width * mask_height;
        launch: Launch::cover_2d((width, height), box_blur::BLOCK);
    }

    box_separable::BoxSumRows {
        values: width, height, mask_width, border;
        lengths: image >= width * height, sums >= width * height;
        launch: Launch::cover_2d((width, height), box_separable::BLOCK);
    }

    box_separable::BoxSumColumns {
        values: width, height, mask_height, area, border;
        lengths: sums >= width * height, result >= width * height;
        requires: [(1..=MOST_OF_BOX).contains(&area), "a mask of 1 to 16,843,009 coefficients"];
        launch: Launch::cover_2d((width, height), box_separable::BLOCK);
    }

    // A block for each row.
    box_running::RowPrefixSums {
        values: width, height;
        lengths: image >= width * height, prefix >= width * height;
        requires: [width <= MOST_OF_BOX, "a row of at most 16,843,009 pixels"];
        launch: Launch::cover_2d((height, 1), (1, 1))
            .with_block((box_running::PREFIX_BLOCK, 1))
            .with_shared::<u8>(box_running::PREFIX_BYTES as usize);
    }

    box_running::BoxFromPrefixSums {
        values: width, height, mask_width, mask_height, strip;
        lengths: prefix >= width * height, result >= width * height;
        requires: [
            (1..=MOST_OF_BOX).contains(&(mask_width * mask_height)), "a mask of 1 to 16,843,009 coefficients";
            strip >= 1, "a strip of 1 row or more"
        ];
        launch: Launch::cover_2d((width, height), (box_running::COLUMNS_BLOCK, strip as u32))
            .with_block((box_running::COLUMNS_BLOCK, 1));
    }
}

/// Checks whole numbers, each with its name.
fn in_range(values: &[(&str, u32)]) -> Result<()> {
    match values.iter().find(|&&(_, value)| value >= MOST) {
        None => Ok(()),
        Some((name, value)) => {
            Err(Error::TooLarge { what: (*name).to_owned(), most: MOST as usize - 1, found: value.to_string() })
        }
    }
}

/// The error of a condition on the values.
fn refused(kernel: &'static str, required: &'static str, values: &[(&str, u32)]) -> Error {
    let values: Vec<_> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    Error::Number { what: kernel, required, found: values.join(" ") }
}

/// Checks the length of an array.
fn long_enough(what: &'static str, required: usize, found: usize) -> Result<()> {
    if found >= required { Ok(()) } else { Err(super::length(what, required, found)) }
}
