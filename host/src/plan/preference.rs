//! Which of the entries that can is taken, and why.
//!
//! # What it rests on
//! Times in µs for 8192 x 8192 pixels of one `f32`, zero border. `stream`, `register_tile` and the separable ones on an
//! H200, the others on an H100, which has the same multiprocessors and slower memory (`docs/measurements` has both):
//!
//! | mask | 3 | 5 | 7 | 9 | 11 | 13 | 15 | 17 | 21 | 31 | 63 | 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | `separable` | 146 | 151 | 166 | 180 | 196 | 219 | 245 | | 352 | 563 | | |
//! | `separable_ring` | 215 | | 224 | | | | 297 | | | 478 | 1065 | 3157 |
//! | `stream` | 148 | 155 | 184 | 251 | 364 | 495 | 666 | 832 | 1414 | 5228 | | |
//! | `register_tile` | 322 | 362 | 399 | 613 | | 853 | 997 | 1417 | 1809 | 3487 | 13,448 | |
//! | `shared_tile`, this mask | 376 | 485 | 658 | 911 | 1250 | 1638 | 2120 | | | | | |
//! | `shared_tile`, any mask | 749 | 1156 | 1379 | 1997 | 2283 | 3474 | 3990 | | | | | |
//! | `constant_mask` | 401 | 757 | 1016 | 1742 | 2219 | 3368 | 4494 | | | | | |
//!
//! `separable_tile` came later, and was measured beside the others on one H100
//! (`docs/measurements/2026-11-21-h100-separable.md`); masks of 8 x 8, 32 x 32 and 64 x 64 by class of height:
//!
//! | pixels | mask | 7 | 8 | 13 | 21 | 31 | 32 | 63 | 64 | 127 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 8192 x 8192 | `separable_tile` | 204 | 212 | 210 | 218 | 239 | 305 | 402 | 550 | 833 |
//! | | `separable` | 249 | | 271 | 376 | | | | | |
//! | | `separable_ring` | | 258 | | | | 492 | | 1074 | |
//! | 2048 x 2048 | `separable_tile` | 13 | 17 | 15 | 21 | 24 | | 55 | | |
//! | | `separable` | 23 | | 26 | 60 | | | | | |
//! | | `separable_ring` | | 34 | | | 80 | | 204 | | |
//! | 512 x 512 | `separable_tile` | 8.3 | 11.5 | 9.8 | 17 | 20 | | 54 | | |
//! | | `separable` | 10.6 | | 13.8 | 24.5 | | | | | |
//! | | `separable_ring` | | 9.5 | | | 33 | | 94 | | |
//!
//! For images and results of `u8`, on an H100; four channels and larger masks of `stream_ring` are not measured:
//!
//! | mask | 3 | 5 | 7 | 9 |
//! | --- | --- | --- | --- | --- |
//! | `stream_ring`, one channel | 66 | 106 | 170 | 274 |
//! | `stream_ring`, three channels | 192 | 284 | 489 | 733 |
//! | `constant_mask`, one channel | | | 1070 | |
//!
//! All of them on images that fill the device. At 200 x 200 `stream` takes 15 µs for 13 x 13, `shared_tile` 5.4.

use kernels_gpu::entries::{Entry, MaskSize, Refusal, Variant};

use super::{Considered, Limits, VariantChoice};
use crate::Problem;

/// From this side on, the separable variants are preferred to `stream`. Below, where both are bound by memory, they
/// save a few per cent; for that the direct sum's bits are not given up.
const SEPARABLE_SIDE: u32 = 7;

/// From this number of coefficients on, `shared_tile` for any mask is preferred to `constant_mask`.
const TILE_COEFFICIENTS: u64 = 200;

/// From this number of coefficients on, `register_tile` is preferred to `constant_mask`: it was never measured slower,
/// the smallest mask being 3 x 3, and has a price of its own whatever the mask.
const REGISTER_COEFFICIENTS: u64 = 9;

/// The preference of an entry that has too little to do, or would read pixel by pixel.
const UNWANTED: u32 = 12;

/// Warps that a multiprocessor needs for each of its four schedulers to have one. A kernel whose threads compute many
/// outputs each takes as long for fewer of them.
const WARPS_PER_MULTIPROCESSOR: u64 = 4;

/// What the preference depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation<'a> {
    pub(super) problem: &'a Problem,
    pub(super) limits: Limits,
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

    /// The most warps that an entry can have for this problem, and those that it should have.
    fn warps(&self, entry: &Entry) -> (u64, u64) {
        let ((columns, rows), (threads_x, threads_y)) = (entry.outputs(), entry.block());
        let blocks_across = (self.problem.row_values() as u64).div_ceil(columns.into());
        let blocks_down = (self.problem.height() as u64).div_ceil(rows.into());
        let of_a_block = u64::from(threads_x * threads_y / 32);
        (blocks_across * blocks_down * of_a_block, WARPS_PER_MULTIPROCESSOR * u64::from(self.limits.sm_count))
    }

    /// Whether there are enough.
    fn fills(&self, entry: &Entry) -> bool {
        let (found, wanted) = self.warps(entry);
        found >= wanted
    }

    /// Whether two passes save at least half of the products.
    fn saves_half(&self) -> bool {
        self.coefficients() >= 2 * (u64::from(self.mask().0) + u64::from(self.mask().1))
    }

    /// The order in which eligible entries are preferred, the smallest first.
    pub(super) fn preference(&self, entry: &Entry) -> u32 {
        match (entry.variant, entry.mask) {
            (Variant::Stream, MaskSize::Square(0..SEPARABLE_SIDE)) if self.is_centred() && self.fills(entry) => 0,
            (Variant::SeparableTile, MaskSize::Square(SEPARABLE_SIDE..)) if self.is_centred() && self.fills(entry) => 1,
            (Variant::SeparableTile, MaskSize::Reach(_)) if self.saves_half() && self.fills(entry) => 2,
            (Variant::Separable, MaskSize::Square(SEPARABLE_SIDE..)) if self.is_centred() && self.fills(entry) => 3,
            (Variant::SeparableRing, _) if self.saves_half() && self.fills(entry) => 4,
            (Variant::Stream, _) if self.is_centred() && self.fills(entry) => 5,
            (Variant::StreamRing, _) if self.is_centred() && self.fills(entry) => 5,
            (Variant::RegisterTile, _) if self.coefficients() >= REGISTER_COEFFICIENTS && self.fills(entry) => 6,
            (Variant::SharedTile, MaskSize::Square(_)) => 7,
            (Variant::SharedTile, _) if self.coefficients() >= TILE_COEFFICIENTS => 8,
            (Variant::ConstantMask, _) => 9,
            (Variant::SharedTile, _) => 10,
            (Variant::Naive, _) => 11,
            // Never taken by themselves, because the naive kernel can everything.
            (
                Variant::RegisterTile
                | Variant::Stream
                | Variant::StreamRing
                | Variant::Separable
                | Variant::SeparableRing
                | Variant::SeparableTile,
                _,
            ) => UNWANTED,
        }
    }

    /// Why `entry` was taken: one line for people.
    pub(super) fn reason(&self, entry: &Entry, considered: &[Considered], choice: VariantChoice) -> String {
        let made_for = match entry.mask {
            MaskSize::Square(_) => "made for masks of this size",
            MaskSize::Any => "for any mask",
            MaskSize::Reach(_) => "for any mask of about this height",
        };
        if let VariantChoice::Exactly(variant) = choice {
            return format!("{} was asked for; {made_for}", variant.name());
        }
        let why = match entry.variant {
            Variant::Separable | Variant::SeparableRing | Variant::SeparableTile => {
                "rows, then columns, the mask being a column times a row; within a bound".to_owned()
            }
            Variant::Stream => "sums in registers, each pixel read about once".to_owned(),
            Variant::StreamRing => "sums in registers, the next rows on their way to shared memory".to_owned(),
            Variant::RegisterTile => "8 x 8 sums of a thread in registers".to_owned(),
            Variant::SharedTile => "fewest loads per product but for those with sums in registers".to_owned(),
            Variant::ConstantMask => format!("faster than a tile below {TILE_COEFFICIENTS} coefficients, as measured"),
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
        let refusal =
            refusals.find(|(_, refusal)| !matches!(refusal, Refusal::OtherMaskSize { .. } | Refusal::NotSeparable));
        if let Some((variant, refusal)) = refusal {
            return Some(format!("not {}: {refusal}", variant.name()));
        }
        let can = |one: &&Considered| one.answer.is_ok() && one.entry.variant.is_direct();
        let unfilled = considered.iter().filter(can).rev().find(|one| self.preference(one.entry) == UNWANTED)?;
        let (found, wanted) = self.warps(unfilled.entry);
        (found < wanted)
            .then(|| format!("too few pixels for {}: {found} of {wanted} warps", unfilled.entry.variant.name()))
    }
}
