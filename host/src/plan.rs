//! Which kernel computes a problem on a GPU, why, and with which launches.
//!
//! First *eligible*: every entry of the list is asked whether it can compute the problem on this device; one that can't
//! says why. Then *preferred*: of those that can, the first in the order of `preference`, which rests on measurements. A variant that
//! is asked for by name skips the preference, never the eligibility.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use kernels_gpu::entries::{ENTRIES, Entry, MaskSize, Refusal, Variant};
use kernels_gpu::params::Params;

use crate::{Error, Problem, Result};

/// The most rows of blocks in one grid, by CUDA's rules.
const MAX_GRID_Y: u32 = 65_535;

/// On a device rows begin at multiples of this many bytes: a sector, the least that DRAM and caches move; kernels may load
/// and store vectors of up to 16 bytes.
const ROW_ALIGNMENT: usize = 32;

/// Which variant is to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum VariantChoice {
    /// The preferred one of those that can.
    #[default]
    Auto,
    /// This one, or an error that says why not.
    Exactly(Variant),
}

impl fmt::Display for VariantChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Exactly(variant) => variant.name(),
        })
    }
}

impl FromStr for VariantChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        Variant::ALL.into_iter().find(|variant| variant.name() == text).map(Self::Exactly).ok_or_else(|| {
            let names: Vec<_> = Variant::ALL.into_iter().map(Variant::name).collect();
            Error::Parse { what: "variant", required: format!("auto, {}", names.join(", ")), found: text.into() }
        })
    }
}

/// What a plan needs to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most dynamic shared memory of a block, in bytes, after opting in.
    pub shared_bytes: u64,
}

/// One entry that was asked, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The entry.
    pub entry: &'static Entry,
    /// Whether it can, and if not, why.
    pub answer: Result<(), Refusal>,
}

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Blocks in x and y.
    pub grid: (u32, u32),
    /// Threads of a block in x and y.
    pub block: (u32, u32),
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// The parameters.
    pub params: Params,
}

/// A problem planned for a GPU.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kernel.
    pub entry: &'static Entry,
    /// Why this one: one line for people.
    pub reason: String,
    /// Every entry for the problem's values that was asked.
    pub considered: Vec<Considered>,
    /// What every launch passes, for the whole image, with the device's pitches.
    pub params: Params,
}

impl Plan {
    /// Plans `problem` for a device with `limits`.
    ///
    /// # Errors
    /// [`Error::Refused`] if the variant that was asked for can't compute the problem.
    pub fn new(problem: &Problem, limits: Limits, choice: VariantChoice) -> Result<Self> {
        let mask = (problem.window().width() as u32, problem.window().height() as u32);
        let layout = problem.layout();
        let considered: Vec<_> = ENTRIES
            .iter()
            .filter(|entry| entry.pixel == layout.input && entry.channels as usize == layout.channels)
            .map(|entry| Considered { entry, answer: entry.accepts(mask.0, mask.1, limits.shared_bytes) })
            .collect();
        let wanted = |entry: &Entry| match choice {
            VariantChoice::Auto => true,
            VariantChoice::Exactly(variant) => entry.variant == variant,
        };
        let best = considered
            .iter()
            .filter(|one| one.answer.is_ok() && wanted(one.entry))
            .map(|one| one.entry)
            .min_by_key(|entry| preference(entry, mask));
        let Some(entry) = best else { return Err(refused(&considered, choice)) };
        let reason = reason(entry, &considered, choice, mask);
        let pitch = |bytes: usize| (problem.row_values() * bytes).next_multiple_of(ROW_ALIGNMENT) / bytes;
        let params = Params {
            src_pitch: pitch(layout.input.bytes()) as i32,
            dst_pitch: pitch(layout.output.bytes()) as i32,
            ..problem.params()
        };
        Ok(Self { entry, reason, considered, params })
    }

    /// The launches that compute the rows `outputs` of an image of `height` rows, otherwise as planned; more than one
    /// only for more than 65,535 rows of blocks. The last blocks may compute rows after them, too.
    #[must_use]
    pub fn launches(&self, height: usize, outputs: Range<usize>) -> Vec<Launch> {
        let (columns, rows) = self.entry.variant.outputs();
        let params = Params { height: height as i32, ..self.params };
        let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
        let values = params.width as u32 * self.entry.channels;
        let blocks_down = (outputs.len() as u32).div_ceil(rows);
        (0..blocks_down)
            .step_by(MAX_GRID_Y as usize)
            .map(|first| Launch {
                grid: (values.div_ceil(columns), (blocks_down - first).min(MAX_GRID_Y)),
                block: self.entry.variant.block(),
                // An eligible entry's tile fits the device, far below 2^32.
                shared_bytes: self.entry.shared_bytes(mask_width, mask_height) as u32,
                params: Params { first_row: (outputs.start as u32 + first * rows) as i32, ..params },
            })
            .collect()
    }
}

/// From this number of coefficients on, `shared_tile` for any mask is preferred to `constant_mask`.
///
/// Of one run on an H100 (8192 x 8192, f32, times in µs), the tile for any mask being limited by its constant loads:
///
/// | mask | 3 x 3 | 5 x 5 | 7 x 7 | 9 x 9 | 11 x 11 | 13 x 13 | 15 x 15 |
/// | --- | --- | --- | --- | --- | --- | --- | --- |
/// | `constant_mask` | 401 | 757 | 1016 | 1742 | 2219 | 3368 | 4494 |
/// | `shared_tile`, any mask | 749 | 1156 | 1379 | 1997 | 2283 | 3474 | 3990 |
/// | `shared_tile`, this mask | 376 | 485 | 658 | 911 | 1250 | 1638 | 2120 |
const TILE_COEFFICIENTS: u64 = 200;

/// The order in which eligible entries are preferred for a mask, the smallest first. The table at
/// [`TILE_COEFFICIENTS`] is the reason.
fn preference(entry: &Entry, mask: (u32, u32)) -> u32 {
    let coefficients = u64::from(mask.0) * u64::from(mask.1);
    match (entry.variant, entry.mask) {
        (Variant::SharedTile, MaskSize::Square(_)) => 0,
        (Variant::SharedTile, MaskSize::Any) if coefficients >= TILE_COEFFICIENTS => 1,
        (Variant::ConstantMask, _) => 2,
        (Variant::SharedTile, MaskSize::Any) => 3,
        (Variant::Naive, _) => 4,
    }
}

/// Why `entry` was taken.
fn reason(entry: &Entry, considered: &[Considered], choice: VariantChoice, mask: (u32, u32)) -> String {
    let made_for = match entry.mask {
        MaskSize::Square(size) => format!("made for {size} x {size}"),
        MaskSize::Any => "for any mask".to_owned(),
    };
    if let VariantChoice::Exactly(variant) = choice {
        return format!("{} was asked for; {made_for}", variant.name());
    }
    // What stood before it in the order and could not, if anything did, leaving out those made for other sizes.
    let refusal = considered
        .iter()
        .filter(|one| preference(one.entry, mask) < preference(entry, mask))
        .filter_map(|one| one.answer.err().map(|refusal| (one.entry.variant, refusal)))
        .find(|(_, refusal)| !matches!(refusal, Refusal::OtherMaskSize { .. }));
    match (refusal, entry.variant) {
        (Some((variant, refusal)), _) => format!("{made_for}; not {}: {refusal}", variant.name()),
        (None, Variant::SharedTile) => format!("fewest loads per product; {made_for}"),
        (None, _) => {
            format!("{made_for}; faster than a tile for any mask below {TILE_COEFFICIENTS} coefficients, as measured")
        }
    }
}

/// The error for a variant that can't: its entry for any mask knows best why.
fn refused(considered: &[Considered], choice: VariantChoice) -> Error {
    let of_choice = considered.iter().filter(|one| match choice {
        VariantChoice::Auto => true,
        VariantChoice::Exactly(variant) => one.entry.variant == variant,
    });
    let (variant, reason) = of_choice
        .filter_map(|one| one.answer.err().map(|refusal| (one.entry, refusal)))
        .min_by_key(|(entry, _)| entry.mask != MaskSize::Any)
        .map(|(entry, refusal)| (entry.variant.name(), refusal))
        .expect("the list has an entry of each variant, and this one refused");
    Error::Refused { variant, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Filter, Layout, Mask, PixelType};

    const H100: Limits = Limits { shared_bytes: 227 * 1024 };

    fn problem(width: usize, height: usize, mask_width: usize, mask_height: usize) -> Problem {
        let mask = Mask::new(mask_width, mask_height, vec![1.0; mask_width * mask_height]).unwrap();
        Problem::new(width, height, &Filter::new(mask)).unwrap()
    }

    fn planned(mask_width: usize, mask_height: usize) -> &'static str {
        Plan::new(&problem(100, 50, mask_width, mask_height), H100, VariantChoice::Auto).unwrap().entry.symbol
    }

    #[test]
    fn auto_takes_the_most_specific_that_can() {
        assert_eq!(planned(7, 7), "shared_tile_f32_c1_7x7");
        assert_eq!(planned(7, 9), "constant_mask_f32_c1");
        assert_eq!(planned(14, 16), "shared_tile_f32_c1");
        assert_eq!(planned(128, 128), "shared_tile_f32_c1");
        // A long row of coefficients: constant memory holds it, the tile of a block no longer fits.
        assert_eq!(planned(16_384, 1), "constant_mask_f32_c1");
        assert_eq!(planned(129, 128), "naive_f32_c1");
    }

    #[test]
    fn a_variant_by_name_is_still_checked() {
        let choice = VariantChoice::Exactly(Variant::ConstantMask);
        let error = Plan::new(&problem(9, 9, 200, 200), H100, choice).unwrap_err();
        assert!(
            matches!(
                error,
                Error::Refused { variant: "constant_mask", reason: Refusal::TooManyCoefficients { found: 40_000, .. } }
            ),
            "{error}"
        );
        let choice = VariantChoice::Exactly(Variant::SharedTile);
        let error = Plan::new(&problem(9, 9, 16_384, 1), H100, choice).unwrap_err();
        assert!(matches!(error, Error::Refused { reason: Refusal::TooMuchSharedMemory { .. }, .. }), "{error}");
    }

    #[test]
    fn every_layout_has_its_entry_and_rows_begin_at_sectors() {
        for (input, output) in PixelType::ALL.into_iter().flat_map(|a| PixelType::ALL.map(|b| (a, b))) {
            for channels in 1..=4 {
                let problem = problem(33, 7, 5, 3).with_layout(Layout { channels, input, output }).unwrap();
                let plan = Plan::new(&problem, H100, VariantChoice::Auto).unwrap();
                assert_eq!((plan.entry.pixel, plan.entry.channels as usize), (input, channels));
                assert_eq!(plan.params.result_kind, output.code());
                for (pitch, bytes) in [(plan.params.src_pitch, input.bytes()), (plan.params.dst_pitch, output.bytes())]
                {
                    assert!(pitch as usize >= 33 * channels && (pitch as usize * bytes).is_multiple_of(32));
                }
                let [launch] = plan.launches(7, 2..5).try_into().unwrap();
                assert_eq!((launch.params.first_row, launch.params.height), (2, 7));
                assert_eq!(launch.grid, ((33 * channels as u32).div_ceil(32), 1));
            }
        }
    }

    #[test]
    fn launches_cover_every_row_once() {
        for height in [1, 15, 16, 17, 65_535 * 8, 65_535 * 16, 65_535 * 16 + 1, 3_000_000] {
            for variant in Variant::ALL {
                let plan = Plan::new(&problem(33, height, 3, 3), H100, VariantChoice::Exactly(variant)).unwrap();
                let rows = variant.outputs().1 as usize;
                let mut next = 0;
                for launch in plan.launches(height, 0..height) {
                    assert_eq!(launch.params.first_row as usize, next);
                    assert!((1..=MAX_GRID_Y).contains(&launch.grid.1) && launch.grid.0 == 2);
                    next += launch.grid.1 as usize * rows;
                }
                assert!((height..height + rows).contains(&next), "{height} rows, {variant:?}");
            }
        }
    }
}
