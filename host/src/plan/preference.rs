//! Which of the entries that can is taken, and why.
//!
//! # What it rests on
//! Times in µs for 8192 x 8192 pixels of one `f32`, zero border. `separable` and `separable_ring` on an H200, the others on an
//! H100, which has the same multiprocessors and slower memory (`docs/measurements` has both):
//!
//! | mask | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17 | 21 | 31 | 63 | 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `separable` | 146 | 151 | 166 | 180 | 196 | 219 | 245 | | 352 | 563 | | |
//! | `separable_ring` | 215 | | 224 | | | | 297 | | | 478 | 1065 | 3157 |
//! | `stream` | 203 | 204 | 208 | 224 | 301 | 413 | 541 | 715 | 1112 | 2374 | | |
//! | `register_tile` | 361 | | 461 | 523 | | 886 | | | 1808 | 3354 | 12,389 | |
//! | `shared_tile`, this mask | 376 | 485 | 658 | 911 | 1250 | 1638 | 2120 | | | | | |
//! | `shared_tile`, any mask | 749 | 1156 | 1379 | 1997 | 2283 | 3474 | 3990 | | | | | |
//! | `constant_mask` | 405 | 863 | 1166 | 2032 | | 3776 | 4456 | | | | | |
//!
//! `separable_tile` came later, and was measured beside the others on one H100
//! (`docs/measurements/2026-11-21-h100-separable.md`); masks of 8 x 8, 32 x 32 and 64 x 64 by class of height:
//!
//! | pixels | mask | 7 | 8 | 13 | 21 | 31 | 32 | 63 | 64 | 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 8192 x 8192 | `separable_tile` | 196 | 200 | 197 | 204 | 215 | 285 | 366 | 505 | 761 |
//! | | `separable` | 249 | | 271 | 376 | | | | | |
//! | | `separable_ring` | | 258 | | | | 492 | | 1074 | |
//! | 2048 x 2048 | `separable_tile` | 12 | 16 | 13 | 19 | 22 | | 51 | | |
//! | | `separable` | 23 | | 26 | 60 | | | | | |
//! | | `separable_ring` | | 34 | | | 80 | | 204 | | |
//! | 512 x 512 | `separable_tile` | 7.5 | 10.1 | 8.5 | 15 | 18 | | 50 | | |
//! | | `separable` | 10.6 | | 13.8 | 24.5 | | | | | |
//! | | `separable_ring` | | 9.5 | | | 33 | | 94 | | |
//!
//! `separable_tensor` on another H100, and `separable_tile` on a third one. The time of the former does not depend on the mask's size within an
//! entry, and is the same from 256 x 256 to 1024 x 1024:
//!
//! | mask | | 8192 | 4096 | 2048 | 512 |
//! | --- | --- | --- | --- | --- | --- |
//! | 24 x 24 | `separable_tensor` | 200 | 57 | 18 to 20 | 12 |
//! | | `separable_tile` | | 74 | 26 | 21 |
//! | 31 x 31 | `separable_tensor` | 200 | 57 | | |
//! | | `separable_tile` | 215 | 63 | 22 | 18 |
//! | 33 x 33 | `separable_tensor` | 200 | 56 | 18 | 11 |
//! | | `separable_tile` | 289 | 82 | 29 | 24 |
//! | 48 x 48 | `separable_tensor` | 239 | 65 | 25 | 19 |
//! | | `separable_tile` | 374 | 109 | 42 | 41 |
//! | 63 x 63 | `separable_tensor` | 263 | 74 | 26 | 22 |
//! | | `separable_tile` | 366 | 113 | 51 | 50 |
//! | 95 x 95 | `separable_tensor` | 382 | 111 | 40 | 31 |
//! | | `separable_tile` | 670 | 192 | 74 | 68 |
//! | 127 x 127 | `separable_tensor` | 464 | 139 | 54 | 42 |
//! | | `separable_tile` | 765 | 229 | 100 | 93 |
//!
//! With a mirrored border, 4096 x 4096, 33 x 33 and 63 x 63: 60 and 80, `separable_tile` 85 and 117. Rows by columns, 2048 x 2048:
//!
//! | mask | 17 x 33 | 20 x 49 | 5 x 63 | 15 x 63 | 31 x 63 | 63 x 5 | 15 x 95 | 95 x 15 | 15 x 127 | 31 x 127 | 127 x 15 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `separable_tensor` | 18 | 25 | 27 | 27 | 26 | 29 | 40 | 40 | 53 | 53 | 54 |
//! | `separable_tile` | 22 | 31 | 24 | 25 | 33 | 40 | 31 | 53 | 37 | 46 | 74 |
//!
//! For images and results of `u8`, on an H100; `tensor` with random masks whose sum is 1. Four channels and larger masks of
//! `stream_ring` are not measured:
//!
//! | mask | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 21 | 31 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `tensor` made for it, one channel | 59 | 65 | 74 | 85 | 143 | 157 | 206 | 309 | 950 |
//! | `tensor` for any mask, one channel | 127 | 159 | 172 | 215 | 231 | 278 | 301 | 465 | 1526 |
//! | `stream_ring`, one channel | 65 | 106 | 169 | 264 | | | | | |
//! | `tensor` made for it, three channels | 162 | 200 | 231 | 267 | 473 | | | | |
//! | `tensor` for any mask, three channels | | | | | | 1064 | | | |
//! | `stream_ring`, three channels | 192 | 284 | 489 | 733 | | | | | |
//! | `tensor` made for it, four channels | 230 | 285 | 341 | | | | | | |
//! | `constant_mask`, one channel | | | 1070 | | | | | | |
//!
//! For more than one `f32`, on an H100, 8192 x 8192 values in one channel and 1.5 times as many in three (four channels: as three, to
//! 8 %):
//!
//! | mask | 3 | 5 | 7 | 9 | 11 |
//! | --- | --- | --- | --- | --- | --- |
//! | `stream`, `f32`, three channels | 309 | 304 | 347 | 422 | 585 |
//! | `constant_mask` | 611 | 1121 | 1528 | 2608 | 3310 |
//! | `stream`, `u16`, one channel | 107 | 136 | 194 | 285 | 390 |
//! | `constant_mask` | 408 | 882 | 1190 | 2062 | 2547 |
//! | `stream`, `u16`, three channels | 159 | 209 | 310 | 479 | 704 |
//! | `constant_mask` | 617 | 1214 | 1633 | 2751 | 3458 |
//!
//! Of these some are by `bench`, others by a program of their own, on several H100s: `bench` has some per cent more here and there.
//!
//! All of these on images that fill the device. Smaller ones, on an H100: `small_tile`, and in brackets `stream`, medians of the runs in
//! `docs/measurements/2026-11-21-h100-all.md` and of others beside them:
//!
//! | mask | 512 | 1024 | 1536 | 2048 |
//! | --- | --- | --- | --- | --- |
//! | 3 | 3.1 (4.4) | 5.2 (4.9) | 9.0 (6.6) | 15.8 (9.7) |
//! | 5 | 3.3 (5.2) | 5.5 (5.9) | 9.6 (8.7) | 16.8 (12.7) |
//! | 7 | 3.6 (7.4) | 7.0 (7.7) | 12.6 (11.8) | 22.5 (15.7) |
//! | 9 | 4.0 (9.6) | 8.5 (10.0) | 15.7 (17.7) | 28.2 (23.6) |
//! | 13 | 5.6 (16.8) | 14.5 (18.8) | 29.1 (34.1) | 51.0 (41.5) |
//! | 15 | 6.4 (20.5) | 17.9 (24.8) | 36.3 (32.2) | 63.8 (48.9) |
//!
//! and with large masks, `small_tile`, `separable_tile` and in brackets `stream`, of `docs/measurements/2026-11-21-h100-all.md`:
//!
//! | mask | 200 | 512 | 640 | 1024 | 1536 | 2048 |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | 17 | 3.6, 10.3 (16.6) | 7.5, 10.6 (17.2) | 10.7, 10.4 (18.2) | | | |
//! | 21 | 4.4, 16.6 (23.3) | 10.5, 17.0 (28.3) | 15.4, 16.5 (30.8) | 31.3, 16.6 (38.2) | 64.1, 22.1 (80.0) | 113, 19.7 (115) |
//! | 25 | 4.9, 17.7 (62.4) | 14.4, 18.1 (49.9) | 21.1, 18.8 (74.3) | | | |
//! | 31 | 6.5, 20.1 (90.1) | 17.9, 20.3 (69.3) | 28.8, 19.9 (86.8) | 62.3, 20.0 (89.9) | 131, 31.6 (150) | 234, 24.2 (249) |
//!
//! For 21 x 21 and above `stream` has become faster since: 2048 x 2048 94 for 21, 207 for 31. Those, and small images of bytes, of `u16` and of several
//! channels, are in `docs/measurements/2026-11-21-h100-small.md`; there the command is, too, that makes them again.

use kernels_gpu::registry::{Entry, Ineligible, MaskSize, Variant};
use kernels_gpu::separable::tensor_core;

use super::{Considered, Limits, VariantChoice};
use crate::{PixelType, Problem};

/// From this side on, the separable variants are preferred to `stream`. Below, where both are bound by memory, they
/// save a few per cent; for that the direct sum's bits are not given up.
const SEPARABLE_SIDE: u32 = 7;

/// From this number of coefficients on, `shared_tile` for any mask is preferred to `constant_mask`.
const TILE_COEFFICIENTS: u64 = 200;

/// From this number of coefficients on, `register_tile` is preferred to `constant_mask`: it was never measured slower,
/// the smallest mask being 3 x 3, and has a price of its own whatever the mask.
const REGISTER_COEFFICIENTS: u64 = 9;

/// The rank of what is not taken by itself.
const NEVER: u32 = 15;

/// Up to how many pixels for each multiprocessor `small_tile` is preferred to the other direct ones, by side of the mask: where the lines
/// between the sizes that were measured meet those of `stream`, whose kernel for 15 x 15 is better than those beside it. On an H100's 132 that is from 940 x 940 to 2200 x 2200.
const SMALL_PIXELS: [(u32, u64); 15] = [
    (3, 6_700),
    (5, 10_700),
    (7, 12_400),
    (9, 22_000),
    (11, 22_000),
    (13, 22_000),
    (15, 14_000),
    (17, 24_000),
    (19, 26_000),
    (21, 21_000),
    (23, 21_500),
    (25, 37_000),
    (27, 32_000),
    (29, 21_500),
    (31, 22_900),
];

/// The same for the separable ones, by the largest side of a mask: from 1100 x 1100 for 7 x 7 and smaller ones down to 344 x 344, where 31 x 31 takes
/// 11 µs and `separable_tensor` as long.
const SMALL_PIXELS_SEPARABLE: [(u32, u64); 9] =
    [(7, 9_200), (9, 6_700), (11, 5_000), (13, 3_400), (15, 3_050), (19, 2_960), (21, 2_100), (25, 1_400), (31, 900)];

/// With zeros around a mask a stream has more products than coefficients: 9 x 1 takes the 284 µs of 9 x 9, where `constant_mask` takes
/// 381. A stream is preferred up to this many products for each coefficient, …
const PADDED_PRODUCTS: u64 = 6;

/// … and for as many coefficients more as `constant_mask` computes in the time that it takes whatever the mask.
const PADDED_PRICE: u64 = 8;

/// Bytes for each multiprocessor from which on `tensor` is preferred to `shared_tile`, by the largest side of a mask, …
const BYTES_FOR_TENSOR: [(u32, u64); 4] = [(3, 1_900), (5, 1_200), (7, 1_000), (u32::MAX, 650)];

/// … and in several channels, measured in three, 128 x 128 to 512 x 512, in `docs/measurements/2026-11-22-h100-channels.md`.
const BYTES_FOR_PARTED: [(u32, u64); 5] = [(3, 1_900), (5, 1_950), (7, 1_650), (9, 780), (u32::MAX, 1_480)];

/// Values for each multiprocessor from which on `stream_ring`, and `stream` for other images than those of one `f32`, are preferred to `shared_tile`, for masks of 3 x 3
/// and for larger ones.
const VALUES_FOR_STREAM: (u64, u64) = (6_500, 3_000);

/// Values for each multiprocessor up to which `shared_tile` for any mask is preferred to `constant_mask`, by the largest side of a mask.
const VALUES_FOR_TILE: [(u32, u64); 3] = [(3, 2_650), (5, 5_300), (u32::MAX, 12_000)];

/// Warps that a multiprocessor needs for each of its four schedulers to have one. A kernel whose threads compute many outputs
/// each takes as long for fewer of them.
const WARPS_PER_MULTIPROCESSOR: u64 = 4;

/// From how many rows of a mask on `separable_tensor` is preferred, for masks of up to so many blocks: its time is that of the blocks, whatever the
/// mask has of them, while `separable_tile` takes longer with each row, and less so with each column.
const TENSOR_ROWS: [(u32, u32); 5] = [(5, 17), (7, 12), (9, 20), (13, 36), (17, 50)];

/// Pixels for each multiprocessor up to which it is preferred for squares of odd sides up to 31, for which `separable_tile` has kernels of their own: up to
/// 19 x 19 never, up to 23 x 23 on images of up to 1450 x 1450, up to 27 x 27 on those of up to 2800 x 2800, then always.
const TENSOR_PIXELS: [(u32, u64); 4] = [(19, 0), (23, 16_000), (27, 60_000), (31, u64::MAX / (1 << 32))];

/// Pixels for each multiprocessor, 257 x 257 on an H100, up to which `shared_tile` is as fast as `separable_tensor` for masks of up to 33 rows.
const TOO_SMALL_FOR_TENSOR: u64 = 500;

/// `stream` and `separable_tile` with masks from this side on, where what is left is slower by itself, …
const LARGE_MASK: u32 = 16;

/// … are preferred with fewer: 20 x 20 at 512 x 512 takes 26 µs, `shared_tile` 37; 31 x 31 at 640 x 640 takes `separable_tile` 20, `small_tile` 29.
const WARPS_FOR_LARGE_MASKS: u64 = 1;

/// How much there is of something, and how much of it an entry should have.
#[derive(Clone, Copy, Debug)]
struct Enough {
    found: u64,
    wanted: u64,
    unit: &'static str,
}

/// What the preference depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    pub(super) problem: &'a Problem,
    pub(super) limits: Limits,
    /// What part of the results the mask in fixed point leaves uncertain.
    pub(super) uncertain: f32,
}

impl Situation<'_> {
    fn mask(&self) -> (u32, u32) {
        (self.problem.window().width() as u32, self.problem.window().height() as u32)
    }

    fn coefficients(&self) -> u64 {
        u64::from(self.mask().0) * u64::from(self.mask().1)
    }

    /// Whether the window of an output reaches as far to its left as to its right: the walks of the streams and
    /// `separable` read aligned vectors then, and pixel by pixel otherwise.
    fn is_centred(&self) -> bool {
        self.problem.origin().1 == (self.problem.window().width() - 1) / 2
    }

    /// How much an entry has to do for this problem: the values of the image, as measured, or else the most warps that it can have.
    fn work(&self, entry: &Entry) -> Enough {
        let for_all = u64::from(self.limits.sm_count);
        let values = |wanted: u64| Enough { found: self.values(), wanted: wanted * for_all, unit: "values" };
        let side = self.mask().0.max(self.mask().1);
        match entry.variant {
            Variant::Tensor if entry.channels > 1 => values(up_to(&BYTES_FOR_PARTED, side)),
            Variant::Tensor => values(up_to(&BYTES_FOR_TENSOR, side)),
            Variant::Stream | Variant::StreamRing if (entry.pixel, entry.channels) != (PixelType::F32, 1) => {
                values(if side <= 3 { VALUES_FOR_STREAM.0 } else { VALUES_FOR_STREAM.1 })
            }
            _ => self.warps(entry),
        }
    }

    /// The most warps that an entry can have for this problem, and those that it should have.
    fn warps(&self, entry: &Entry) -> Enough {
        let ((columns, rows), (threads_x, threads_y)) = (entry.outputs(), entry.block());
        let blocks_across = (self.problem.row_values() as u64).div_ceil(columns.into());
        let blocks_down = (self.problem.height() as u64).div_ceil(rows.into());
        let of_a_block = u64::from(threads_x * threads_y / 32);
        let wanted = match (entry.variant, entry.mask) {
            (Variant::Stream | Variant::SeparableTile, MaskSize::Square(LARGE_MASK..)) => WARPS_FOR_LARGE_MASKS,
            _ => WARPS_PER_MULTIPROCESSOR,
        };
        Enough {
            found: blocks_across * blocks_down * of_a_block,
            wanted: wanted * u64::from(self.limits.sm_count),
            unit: "warps",
        }
    }

    /// Whether there is enough.
    fn fills(&self, entry: &Entry) -> bool {
        let Enough { found, wanted, .. } = self.work(entry);
        found >= wanted
    }

    /// The values of the image.
    fn values(&self) -> u64 {
        self.problem.row_values() as u64 * self.problem.height() as u64
    }

    /// Whether the image is so small that a tile for any mask is better than none.
    fn is_for_tiles(&self) -> bool {
        let (width, height) = self.mask();
        self.values() <= up_to(&VALUES_FOR_TILE, width.max(height)) * u64::from(self.limits.sm_count)
    }

    /// Whether the image has at most this many pixels for each multiprocessor.
    fn has_at_most(&self, pixels: u64) -> bool {
        self.problem.width() as u64 * self.problem.height() as u64 <= pixels * u64::from(self.limits.sm_count)
    }

    /// Whether the image is so small that `small_tile` is preferred to the other direct variants, for masks of this side.
    fn is_small(&self, side: u32) -> bool {
        self.is_centred() && SMALL_PIXELS.iter().any(|&(of, pixels)| of == side && self.has_at_most(pixels))
    }

    /// Whether it is preferred to the separable ones, too, where those are preferred to `stream`.
    fn is_small_for_all(&self, side: u32) -> bool {
        self.is_small(side) && (side < SEPARABLE_SIDE || self.has_at_most(up_to(&SMALL_PIXELS_SEPARABLE, side)))
    }

    /// Whether a kernel of the tensor cores for separable masks of up to `blocks` blocks is worth it.
    fn suits_separable_tensor(&self, blocks: u32) -> bool {
        let (width, height) = self.mask();
        let own = tensor_core::blocks(width, height, self.problem.params().origin_x);
        // Larger entries take the mask, too.
        let smallest = TENSOR_ROWS.iter().find(|&&(of, _)| of >= own);
        let is_high = smallest.is_some_and(|&(of, rows)| of == blocks && height >= rows);
        let is_small = blocks == 5 && self.has_at_most(TOO_SMALL_FOR_TENSOR);
        let has_tile = width == height && width % 2 == 1 && width <= 31 && self.is_centred();
        is_high && !is_small && (!has_tile || self.has_at_most(up_to(&TENSOR_PIXELS, width)))
    }

    /// Whether two passes save at least half of the products.
    fn saves_half(&self) -> bool {
        self.coefficients() >= 2 * (u64::from(self.mask().0) + u64::from(self.mask().1))
    }

    /// Whether the walk of a stream is worth it: it fills the device, reads aligned vectors, and multiplies with not too many zeros.
    fn suits(&self, entry: &Entry) -> bool {
        let reads_vectors = match entry.mask {
            MaskSize::Square(side) if self.mask() != (side, side) => {
                u64::from(side) * u64::from(side) <= PADDED_PRODUCTS * (self.coefficients() + PADDED_PRICE)
            }
            _ => self.is_centred(),
        };
        reads_vectors && self.fills(entry)
    }

    /// Whether a kernel of the tensor cores made for masks of `side` x `side` is worth it: that for any mask takes the time of a made one with
    /// a third more coefficients, but no less than that of 9 x 9.
    fn suits_tensor(&self, entry: &Entry, side: u32) -> bool {
        let is_large = side > 9 && 3 * u64::from(side) * u64::from(side) > 4 * self.coefficients();
        self.suits(entry) && !is_large
    }

    /// The order in which eligible entries are preferred, the smallest first.
    pub(super) fn preference(&self, entry: &Entry) -> u32 {
        match (entry.variant, entry.mask) {
            (Variant::SmallTile, MaskSize::Square(side)) if self.is_small_for_all(side) => 0,
            (Variant::Stream, MaskSize::Square(0..SEPARABLE_SIDE)) if self.suits(entry) => 1,
            (Variant::SeparableTensor, MaskSize::Blocks(blocks)) if self.suits_separable_tensor(blocks) => 1,
            (Variant::SeparableTile, MaskSize::Square(SEPARABLE_SIDE..)) if self.is_centred() && self.fills(entry) => 2,
            (Variant::SeparableTile, MaskSize::Reach(_)) if self.saves_half() && self.fills(entry) => 3,

            (Variant::SeparableRing, _) if self.saves_half() && self.fills(entry) => 5,
            (Variant::SmallTile, MaskSize::Square(side)) if self.is_small(side) => 6,
            (Variant::Tensor, MaskSize::Square(side)) if self.suits_tensor(entry, side) => 6,
            (Variant::Stream | Variant::StreamRing, _) if self.suits(entry) => 7,
            (Variant::Tensor, MaskSize::Any) if self.fills(entry) => 8,
            (Variant::RegisterTile, _) if self.coefficients() >= REGISTER_COEFFICIENTS && self.fills(entry) => 9,
            (Variant::SharedTile, MaskSize::Square(_)) => 10,
            (Variant::SharedTile, _) if self.coefficients() >= TILE_COEFFICIENTS || self.is_for_tiles() => 11,
            (Variant::ConstantMask, _) => 12,
            (Variant::SharedTile, _) => 13,
            (Variant::Naive, _) => 14,
            // Never taken by themselves, because the naive kernel can everything. By name, the one that is made for the mask.
            (
                Variant::SmallTile
                | Variant::RegisterTile
                | Variant::Stream
                | Variant::StreamRing
                | Variant::Tensor
                | Variant::SeparableRing
                | Variant::SeparableTile
                | Variant::SeparableTensor,
                _,
            ) => NEVER + u32::from(entry.mask.side() == 0),
        }
    }

    /// Why `entry` was taken: one line for people.
    pub(super) fn reason(&self, entry: &Entry, considered: &[Considered], choice: VariantChoice) -> String {
        let made_for = match entry.mask {
            MaskSize::Square(side) if self.mask() != (side, side) => {
                format!("made for masks of {side} x {side}, this one with zeros around it")
            }
            MaskSize::Square(_) => "made for masks of this size".to_owned(),
            MaskSize::Any => "for any mask".to_owned(),
            MaskSize::Reach(_) => "for any mask of about this height".to_owned(),
            MaskSize::Blocks(_) => "for any mask of up to about this size".to_owned(),
        };
        if let VariantChoice::Exactly(variant) = choice {
            return format!("{} was asked for; {made_for}", variant.name());
        }
        let why = match entry.variant {
            Variant::SeparableRing | Variant::SeparableTile => {
                "rows, then columns, the mask being a column times a row; within a bound".to_owned()
            }
            Variant::SeparableTensor => {
                "rows, then columns, in the tensor cores, the mask being a column times a row; within a bound"
                    .to_owned()
            }
            Variant::Stream => "sums in registers, each pixel read about once".to_owned(),
            Variant::StreamRing => "sums in registers, the next rows on their way to shared memory".to_owned(),
            Variant::Tensor if self.uncertain == 0.0 => "in the tensor cores, which decide each byte".to_owned(),
            Variant::Tensor => {
                format!("in the tensor cores, about {:.2} % of the pixels again in order", 100.0 * self.uncertain)
            }
            Variant::RegisterTile => "8 x 8 sums of a thread in registers".to_owned(),
            Variant::SmallTile => "a small image: pixels and mask are waited for once".to_owned(),
            Variant::SharedTile => "fewest loads per product but for those with sums in registers".to_owned(),
            Variant::ConstantMask => {
                format!(
                    "faster than a tile below {TILE_COEFFICIENTS} coefficients, unless the image is small, as measured"
                )
            }
            Variant::Naive => "needs neither constant nor shared memory".to_owned(),
        };
        match self.instead_of(entry, considered) {
            Some(other) => format!("{why}; {made_for}; {other}"),
            None => format!("{why}; {made_for}"),
        }
    }

    /// What would have been better, and could not or had too little to do.
    fn instead_of(&self, entry: &Entry, considered: &[Considered]) -> Option<String> {
        let better = considered.iter().filter(|one| self.preference(one.entry) < self.preference(entry));
        let mut refusals = better.filter_map(|one| one.answer.err().map(|refusal| (one.entry.variant, refusal)));
        // That a mask has another size, or is not separable, surprises nobody.
        let refusal = refusals
            .find(|(_, refusal)| !matches!(refusal, Ineligible::OtherMaskSize { .. } | Ineligible::NotSeparable));
        if let Some((variant, refusal)) = refusal {
            return Some(format!("not {}: {refusal}", variant.name()));
        }
        // With more to do it would be another one only if this is of those for little.
        if !matches!(entry.variant, Variant::SmallTile | Variant::SharedTile | Variant::ConstantMask | Variant::Naive) {
            return None;
        }
        let can = |one: &&Considered| one.answer.is_ok() && one.entry.variant.is_direct();
        let unfilled = considered.iter().filter(can).rev().find(|one| self.preference(one.entry) >= NEVER)?;
        let Enough { found, wanted, unit } = self.work(unfilled.entry);
        (found < wanted)
            .then(|| format!("too few pixels for {}: {found} of {wanted} {unit}", unfilled.entry.variant.name()))
    }
}

/// What stands in a list for the first side that is not below this one; the last one's, if there is none.
fn up_to(list: &[(u32, u64)], side: u32) -> u64 {
    list.iter().find(|&&(of, _)| side <= of).or(list.last()).map_or(0, |&(_, found)| found)
}
