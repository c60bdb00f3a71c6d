//! The row pass and the column pass of a warp.

use cuda_std::prelude::*;

use super::split::{Operand, add_bf16, add_bf16_columns, add_tf32, add_tf32_columns};
use super::{Filtered, SUBTILE, Sums};

/// Filters `8 * SUBTILES` rows, in the columns and the channels of a warp.
///
/// `from` is the lane's first pixel. `table` is the lane's first element of the row's `tf32` table; the `bf16`
/// table begins `elements` later.
///
/// # Safety
/// - All lanes of the warp call it.
/// - The rows have arrived and the tables are filled, and a barrier has passed since.
#[inline(always)]
pub(super) unsafe fn filter_rows<
    const C: u32,
    const BLOCKS: usize,
    const TOGETHER: usize,
    const TILES: usize,
    const SUBTILES: usize,
>(
    from: Shared<f32>,
    pitch: u32,
    table: Shared<F32x4>,
    elements: u32,
) -> [[Filtered; TILES]; SUBTILES] {
    let mut high = [[[0.0; 4]; TILES]; SUBTILES];
    let mut low = [[[0.0; 4]; TILES]; SUBTILES];
    // The pixels of a block for each subtile, and for each channel that the warp computes.
    let load = |block: usize| -> [[[Operand; 2]; TOGETHER]; SUBTILES] {
        core::array::from_fn(|subtile| {
            let from = from.offset(subtile as u32 * SUBTILE * pitch + SUBTILE * C * block as u32);
            // SAFETY: block <= BLOCKS + 2 * (neighbours - 1), so the pixels lie in the row. The vectors are aligned.
            unsafe { load_pixels::<C, TOGETHER>(from) }
        })
    };
    let neighbours = TILES / TOGETHER;
    // The columns of the second neighbour begin two blocks later.
    let ahead = 2 * (neighbours - 1);
    let mut pixels = [load(0), load(0), load(0)];
    for block in 0..ahead {
        pixels = [pixels[1], pixels[2], load(block)];
    }
    // A tile has 16 outputs, which need one block more than 8.
    for block in 0..BLOCKS + 1 {
        pixels = [pixels[1], pixels[2], load(block + ahead)];
        let of_tile = |subtile: usize, tile: usize| pixels[2 - ahead + 2 * (tile / TOGETHER)][subtile][tile % TOGETHER];
        let at = SUBTILE * block as u32;
        // SAFETY: block <= BLOCKS, so the elements lie in the tables of the row.
        let (F32x4(tf32), F32x4(bf16)) = unsafe { (table.load(at), table.load(elements + at)) };
        for (subtile, high) in high.iter_mut().enumerate() {
            for (tile, sums) in high.iter_mut().enumerate() {
                // SAFETY: all lanes are here: the loops and conditions are equal in all of them.
                *sums = unsafe { add_tf32(tf32, of_tile(subtile, tile), *sums) };
            }
        }
        for (subtile, low) in low.iter_mut().enumerate() {
            for (tile, sums) in low.iter_mut().enumerate() {
                // SAFETY: all lanes are here: the loops and conditions are equal in all of them.
                *sums = unsafe { add_bf16(bf16, of_tile(subtile, tile), *sums) };
            }
        }
    }
    core::array::from_fn(|subtile| {
        core::array::from_fn(|tile| {
            core::array::from_fn(|i| Operand::of(high[subtile][tile][i] + low[subtile][tile][i]))
        })
    })
}

/// The two pixels of a lane in a block, for each channel that the warp computes.
///
/// With one channel in the image they are neighbours. Else the second one is four pixels after the first.
///
/// # Safety
/// The pixels lie in shared memory, and `from` is aligned to `TOGETHER` values, or to two with one channel.
#[inline(always)]
unsafe fn load_pixels<const C: u32, const TOGETHER: usize>(from: Shared<f32>) -> [[Operand; 2]; TOGETHER] {
    // SAFETY: the pixels are there and aligned, as this function requires.
    let (first, second) = unsafe {
        match TOGETHER {
            4 => (from.cast::<F32x4>().load(0).0, from.cast::<F32x4>().load(4).0),
            2 => {
                let pair = |pixel: u32| from.offset(pixel * C).cast::<F32x2>().load(0).0;
                let ([a, b], [c, d]) = (pair(0), pair(4));
                ([a, b, a, a], [c, d, c, c])
            }
            _ if C == 1 => {
                let F32x2([first, second]) = from.cast().load(0);
                ([first; 4], [second; 4])
            }
            _ => ([from.load(0); 4], [from.load(4 * C); 4]),
        }
    };
    core::array::from_fn(|channel| [first[channel], second[channel]].map(Operand::of))
}

/// Adds filtered rows to the sums of all outputs that need them.
///
/// `pending` are the unfinished sums. `finish` receives the finished sums as soon as they are complete. `zero` is 0,
/// but the compiler must not know it.
///
/// # Safety
/// - All lanes of the warp call it.
/// - `table` is the lane's first element of the column's table. It is filled, and a barrier has passed since.
#[inline(always)]
pub(super) unsafe fn filter_columns<const PENDING: usize, const TILES: usize, const SUBTILES: usize>(
    filtered: &[[Filtered; TILES]; SUBTILES],
    mut table: Shared<F32x4>,
    zero: u32,
    pending: &mut [[Sums; TILES]; PENDING],
    mut finish: impl FnMut(&[[Sums; TILES]; SUBTILES]),
) {
    let mut finished = [[[0.0; 4]; TILES]; SUBTILES];
    // Group `j` of 8 outputs multiplies the rows of subtile `i` with coefficient block `PENDING - j + i`.
    // SAFETY: group <= PENDING, so the element lies in the table of the column.
    let load = |table: Shared<F32x4>, group: usize| unsafe { table.load(SUBTILE * (PENDING - group) as u32) }.0;
    let takes = |group: usize, subtile: usize| group >= subtile && group <= PENDING + subtile;
    let low = |group: usize, coefficients: &[[f32; 4]; SUBTILES]| -> [Sums; TILES] {
        let mut sums = [[0.0; 4]; TILES];
        for subtile in 0..SUBTILES {
            if takes(group, subtile) {
                let [.., a, b] = coefficients[subtile];
                for tile in 0..TILES {
                    // SAFETY: all lanes are here: the loops and conditions are equal in all of them.
                    sums[tile] = unsafe { add_bf16_columns(&filtered[subtile][tile], [a, b], sums[tile]) };
                }
            }
        }
        sums
    };
    let mut next = [[0.0; 4]; SUBTILES];
    next[0] = load(table, 0);
    let mut sums = low(0, &next);
    for group in 0..PENDING + SUBTILES {
        let (coefficients, mut new) = (next, sums);
        for subtile in (1..SUBTILES).rev() {
            next[subtile] = next[subtile - 1];
        }
        if group < PENDING {
            next[0] = load(table, group + 1);
        }
        if group + 1 < PENDING + SUBTILES {
            sums = low(group + 1, &next);
        }
        for subtile in 0..SUBTILES {
            if takes(group, subtile) {
                let [a, b, ..] = coefficients[subtile];
                for tile in 0..TILES {
                    // SAFETY: all lanes are here: the loops and conditions are equal in all of them.
                    new[tile] = unsafe { add_tf32_columns(&filtered[subtile][tile], [a, b], new[tile]) };
                }
            }
        }
        for tile in 0..TILES {
            if group < PENDING {
                new[tile] = core::array::from_fn(|i| black_box_f32(pending[group][tile][i] + new[tile][i]));
            }
        }
        if group >= SUBTILES && (PENDING > 8 || TILES * PENDING > 12) {
            // The offset is 0, which the assembler cannot know. It would load the coefficients of all groups first, and
            // run out of registers.
            table = table.offset(new[0][0].to_bits() & zero);
        }
        if group < SUBTILES {
            finished[group] = new;
            if group + 1 == SUBTILES {
                finish(&finished);
            }
        } else {
            pending[group - SUBTILES] = new;
        }
    }
}

/// The value, computed at this place. LLVM would postpone all sums until after all products and run out of registers.
#[inline(always)]
pub(super) fn black_box_f32(value: f32) -> f32 {
    f32::from_bits(thread::black_box(value.to_bits()))
}

/// Whether all sums of the warp are finite.
///
/// # Safety
/// All 32 lanes of the warp execute this call together.
#[inline(always)]
pub(super) unsafe fn are_finite<const TILES: usize, const SUBTILES: usize>(sums: &[[Sums; TILES]; SUBTILES]) -> bool {
    let mut zero = [0.0; 4];
    for sums in sums.as_flattened() {
        for (zero, &sum) in zero.iter_mut().zip(sums) {
            *zero = fma(sum, 0.0, *zero);
        }
    }
    let [a, b, c, d] = zero;
    // SAFETY: all lanes are here, as required.
    unsafe { warp::ballot(((a + b) + (c + d)).is_nan()) == 0 }
}
