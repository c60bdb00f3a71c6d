//! Which of the eligible entries is taken, and why.
//!
//! [`RULES`] lists the variants in the order of preference, each with the condition under which it is preferred. The
//! thresholds are measured: `docs/measurements` has the times and the commands that take them again. Unless a line says
//! otherwise they are times of an H100, whose 132 multiprocessors turn sizes into values for each multiprocessor.

use kernels_gpu::registry::{Entry, Ineligible, MaskForm, MaskSize, Variant};
use kernels_gpu::separable::tensor_core;

use super::{Considered, Limits, VariantChoice};
use crate::Problem;

/// Separable variants are preferred to `sliding_window` from this side of the mask on. For smaller masks memory limits
/// both, and a few per cent are not worth results that are not bit-exact.
const SEPARABLE_SIDE: u32 = 7;

/// `shared_tile` for any mask is preferred to `constant_mask` from this number of coefficients on.
const TILE_COEFFICIENTS: u64 = 200;

/// `register_tile` is preferred to `constant_mask` from this number of coefficients on.
const REGISTER_COEFFICIENTS: u64 = 9;

/// `shared_tile_async` is preferred to the other bit-exact variants up to so many pixels for each multiprocessor, by the
/// side of the mask. On an H100 that is from 940 x 940 to 2200 x 2200 pixels.
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

/// `shared_tile_async` is preferred to the separable variants up to so many pixels for each multiprocessor, by the largest
/// side of the mask. On an H100 that is from 344 x 344 to 1100 x 1100 pixels.
const SMALL_PIXELS_SEPARABLE: [(u32, u64); 9] =
    [(7, 9_200), (9, 6_700), (11, 5_000), (13, 3_400), (15, 3_050), (19, 2_960), (21, 2_100), (25, 1_400), (31, 900)];

/// A kernel for a square also takes smaller masks with zeros around them, and multiplies with the zeros.
/// `sliding_window` is preferred up to this many products for each coefficient of the mask.
const PADDED_PRODUCTS: u64 = 6;

/// The number of coefficients that `constant_mask` computes in the time that it takes for any mask.
const PADDED_PRICE: u64 = 8;

/// `tensor_core_u8` is preferred to `shared_tile` from this many bytes for each multiprocessor on, by the largest side of
/// the mask. This is for one channel.
const BYTES_FOR_TENSOR_CORE: [(u32, u64); 4] = [(3, 1_900), (5, 1_200), (7, 1_000), (u32::MAX, 650)];

/// The same for several channels. Measured for three, 128 x 128 to 512 x 512 pixels.
const BYTES_FOR_CHANNELS: [(u32, u64); 5] = [(3, 1_900), (5, 1_950), (7, 1_650), (9, 780), (u32::MAX, 1_480)];

/// `sliding_window` for images other than one `f32` a pixel is preferred to `shared_tile` from this many values for each
/// multiprocessor on: for masks of 3 x 3, and for larger ones.
const VALUES_FOR_WINDOW: (u64, u64) = (6_500, 3_000);

/// `shared_tile` for any mask is preferred to `constant_mask` up to this many values for each multiprocessor, by the
/// largest side of the mask.
const VALUES_FOR_TILE: [(u32, u64); 3] = [(3, 2_650), (5, 5_300), (u32::MAX, 12_000)];

/// Warps that a multiprocessor needs: one for each of its four schedulers. With fewer a kernel whose threads compute many
/// outputs takes as long as with four.
const WARPS_PER_MULTIPROCESSOR: u64 = 4;

/// `separable_tensor_core` is preferred from this many rows of the mask on, by the class of the entry. Its time depends on
/// the class alone; that of `separable_block_tile` grows with each row, and less with each column.
const TENSOR_ROWS: [(u32, u32); 5] = [(5, 17), (7, 12), (9, 20), (13, 36), (17, 50)];

/// `separable_tensor_core` is preferred to the `separable_block_tile` made for an odd square up to this many pixels for
/// each multiprocessor, by the side of the mask.
const TENSOR_PIXELS: [(u32, u64); 4] = [(19, 0), (23, 16_000), (27, 60_000), (31, u64::MAX / (1 << 32))];

/// `shared_tile` is as fast as `separable_tensor_core` for masks of up to 33 rows, up to this many pixels for each
/// multiprocessor: 257 x 257 on an H100.
const TOO_SMALL_FOR_TENSOR: u64 = 500;

/// From this side of the mask on [`WARPS_FOR_LARGE_MASKS`] are enough, because the other kernels are slow there.
const LARGE_MASK: u32 = 16;

/// Warps that a multiprocessor needs for large masks.
const WARPS_FOR_LARGE_MASKS: u64 = 1;

/// A variant, and the condition under which it has this place in the order of preference.
struct Rule {
    variant: Variant,
    holds: fn(&Situation<'_>, &Entry) -> bool,
}

/// The order of preference, best first. The naive kernel takes every problem.
const RULES: &[Rule] = &[
    Rule { variant: Variant::SharedTileAsync, holds: |now, entry| now.is_small_for_all(entry.side()) },
    Rule {
        variant: Variant::SlidingWindow,
        holds: |now, entry| entry.is_plane() && entry.side() < SEPARABLE_SIDE && now.suits(entry),
    },
    Rule { variant: Variant::SeparableTensorCore, holds: |now, entry| now.suits_separable_tensor_core(entry.class()) },
    Rule {
        variant: Variant::SeparableBlockTile,
        holds: |now, entry| entry.side() >= SEPARABLE_SIDE && now.is_centred() && now.fills(entry),
    },
    Rule {
        variant: Variant::SeparableBlockTile,
        holds: |now, entry| entry.class() > 0 && now.saves_half() && now.fills(entry),
    },
    Rule { variant: Variant::SeparableRing, holds: |now, entry| now.saves_half() && now.fills(entry) },
    Rule { variant: Variant::SharedTileAsync, holds: |now, entry| now.is_small(entry.side()) },
    Rule {
        variant: Variant::TensorCoreU8,
        holds: |now, entry| entry.side() > 0 && now.suits_tensor_core(entry, entry.side()),
    },
    Rule { variant: Variant::SlidingWindow, holds: |now, entry| now.suits(entry) },
    Rule { variant: Variant::TensorCoreU8, holds: |now, entry| entry.side() == 0 && now.fills(entry) },
    Rule {
        variant: Variant::RegisterTile,
        holds: |now, entry| now.coefficients() >= REGISTER_COEFFICIENTS && now.fills(entry),
    },
    Rule { variant: Variant::SharedTile, holds: |_, entry| entry.side() > 0 },
    Rule {
        variant: Variant::SharedTile,
        holds: |now, _| now.coefficients() >= TILE_COEFFICIENTS || now.is_for_tiles(),
    },
    Rule { variant: Variant::ConstantMask, holds: |_, _| true },
    Rule { variant: Variant::SharedTile, holds: |_, _| true },
    Rule { variant: Variant::Naive, holds: |_, _| true },
];

/// An amount of work, and the amount that an entry needs to be fast.
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
    /// The fraction of the results that the mask in fixed point does not decide.
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

    /// How much an entry has to do for this problem: the values of the image, as measured, or else the most warps that
    /// it can have.
    fn work(&self, entry: &Entry) -> Enough {
        let for_all = u64::from(self.limits.sm_count);
        let values = |wanted: u64| Enough { found: self.values(), wanted: wanted * for_all, unit: "values" };
        let side = self.mask().0.max(self.mask().1);
        if entry.variant == Variant::TensorCoreU8 {
            return values(up_to(if entry.channels > 1 { &BYTES_FOR_CHANNELS } else { &BYTES_FOR_TENSOR_CORE }, side));
        }
        if entry.variant == Variant::SlidingWindow && !entry.is_plane() {
            return values(if side <= 3 { VALUES_FOR_WINDOW.0 } else { VALUES_FOR_WINDOW.1 });
        }
        self.warps(entry)
    }

    /// The most warps that an entry can have for this problem, and those that it should have.
    fn warps(&self, entry: &Entry) -> Enough {
        let ((columns, rows), (threads_x, threads_y)) = (entry.outputs(), entry.block());
        let blocks_across = (self.problem.row_values() as u64).div_ceil(columns.into());
        let blocks_down = (self.problem.height() as u64).div_ceil(rows.into());
        let of_a_block = u64::from(threads_x * threads_y / 32);
        let is_large = entry.side() >= LARGE_MASK && entry.variant.partitions_rows();
        let wanted = if is_large { WARPS_FOR_LARGE_MASKS } else { WARPS_PER_MULTIPROCESSOR };
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

    /// Whether the image is so small that `shared_tile_async` is preferred to the other direct variants, for masks of
    /// this side.
    fn is_small(&self, side: u32) -> bool {
        self.is_centred() && SMALL_PIXELS.iter().any(|&(of, pixels)| of == side && self.has_at_most(pixels))
    }

    /// Whether it is preferred to the separable ones, too, where those are preferred to `sliding_window`.
    fn is_small_for_all(&self, side: u32) -> bool {
        self.is_small(side) && (side < SEPARABLE_SIDE || self.has_at_most(up_to(&SMALL_PIXELS_SEPARABLE, side)))
    }

    /// Whether a kernel of the tensor cores for separable masks of up to `blocks` blocks is worth it.
    fn suits_separable_tensor_core(&self, blocks: u32) -> bool {
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

    /// Whether the walk of a stream is worth it: it fills the device, reads aligned vectors, and multiplies with not
    /// too many zeros.
    fn suits(&self, entry: &Entry) -> bool {
        let reads_vectors = match entry.mask {
            MaskSize::Square(side) if self.mask() != (side, side) => {
                u64::from(side) * u64::from(side) <= PADDED_PRODUCTS * (self.coefficients() + PADDED_PRICE)
            }
            _ => self.is_centred(),
        };
        reads_vectors && self.fills(entry)
    }

    /// Whether a kernel of the tensor cores made for masks of `side` x `side` is worth it: that for any mask takes the
    /// time of a made one with a third more coefficients, but no less than that of 9 x 9.
    fn suits_tensor_core(&self, entry: &Entry, side: u32) -> bool {
        let is_large = side > 9 && 3 * u64::from(side) * u64::from(side) > 4 * self.coefficients();
        self.suits(entry) && !is_large
    }

    /// The order in which eligible entries are preferred, the smallest first: the place of the first rule that holds.
    /// Without a rule an entry is taken only where its variant is asked for by name, and then the one made for the
    /// mask.
    pub(super) fn preference(&self, entry: &Entry) -> usize {
        let place = RULES.iter().position(|rule| rule.variant == entry.variant && (rule.holds)(self, entry));
        place.unwrap_or(RULES.len() + usize::from(entry.side() == 0))
    }

    /// Why `entry` was taken: one line for people.
    pub(super) fn reason(&self, entry: &Entry, considered: &[Considered], choice: VariantChoice) -> String {
        let made_for = match entry.mask {
            MaskSize::Square(side) if self.mask() != (side, side) => {
                format!("made for masks of {side} x {side}, this one with zeros around it")
            }
            MaskSize::Square(_) => "made for masks of this size".to_owned(),
            MaskSize::Any => "for any mask".to_owned(),
            MaskSize::Class(_) => "for any mask of about this size".to_owned(),
        };
        if let VariantChoice::Named(variant) = choice {
            return format!("{} was asked for; {made_for}", variant.name());
        }
        let spec = entry.variant.spec();
        let why = match spec.mask_form {
            MaskForm::FixedPoint if self.uncertain > 0.0 => {
                format!("{}, about {:.2} % of the pixels recomputed in order", spec.reason, 100.0 * self.uncertain)
            }
            MaskForm::FixedPoint | MaskForm::Rows(_) | MaskForm::Factors(_) => spec.reason.to_owned(),
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
            refusals.find(|(_, refusal)| !matches!(refusal, Ineligible::MaskSize { .. } | Ineligible::NotSeparable));
        if let Some((variant, refusal)) = refusal {
            return Some(format!("not {}: {refusal}", variant.name()));
        }
        // With more to do it would be another one only if this is of those for little.
        if entry.variant.partitions_rows() {
            return None;
        }
        let can = |one: &&Considered| one.answer.is_ok() && one.entry.variant.is_exact();
        let unfilled = considered.iter().filter(can).rev().find(|one| self.preference(one.entry) >= RULES.len())?;
        let Enough { found, wanted, unit } = self.work(unfilled.entry);
        (found < wanted)
            .then(|| format!("too few pixels for {}: {found} of {wanted} {unit}", unfilled.entry.variant.name()))
    }
}

/// What stands in a list for the first side that is not below this one; the last one's, if there is none.
fn up_to(list: &[(u32, u64)], side: u32) -> u64 {
    list.iter().find(|&&(of, _)| side <= of).or(list.last()).map_or(0, |&(_, found)| found)
}
