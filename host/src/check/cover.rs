//! The quick sweep: the cheapest cases that together have every [`Feature`] of the full sweep.
//!
//! The full sweep alone has an image of more rows of blocks than one launch may have, and combinations of features.

use std::collections::HashSet;

use kernels_gpu::registry::Variant;

use super::{Case, Content};
use faltung::plan::{Limits, Plan};
use faltung::{Operation, PixelFormat, VariantChoice};

/// The cheapest cases of `all`, in order, that together have every [`Feature`].
pub(super) fn cover(all: Vec<Case>) -> Vec<Case> {
    let mut by_cost: Vec<_> = (0..all.len()).collect();
    by_cost.sort_by_key(|&number| all[number].cost());
    let mut seen = HashSet::new();
    let mut kept: Vec<_> = by_cost
        .into_iter()
        .filter(|&number| {
            let before = seen.len();
            seen.extend(all[number].features());
            seen.len() > before
        })
        .collect();
    kept.sort_unstable();
    kept.into_iter().map(|number| all[number].clone()).collect()
}

/// What a case tries of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Feature {
    /// A kernel, on an image of several tiles in both directions, or on a smaller one.
    Kernel { symbol: &'static str, has_tiles: bool },
    /// A border, and a convolution or a correlation, on an image larger than the mask in both directions, or on a
    /// smaller one.
    Border { variant: Variant, mode: u32, is_convolution: bool, is_larger: bool },
    /// A width of the image: how many tiles, up to 2, and how far beyond them.
    Width { variant: Variant, tile: usize, tiles: usize, beyond: Beyond },
    /// A height of the image.
    Height { variant: Variant, tile: usize, tiles: usize, beyond: Beyond },
    /// Types, channels and content.
    Values { variant: Variant, format: PixelFormat, content: Content },
    /// An anchor that is not in the middle, or one that is; a scale and an offset, or none.
    Filter { variant: Variant, has_anchor: bool, has_scale: bool },
    /// A kernel that makes integers through planes, with types and channels.
    Integers { symbol: &'static str, format: PixelFormat },
    /// A mask, by its width and height.
    Mask { width: usize, height: usize, is_separable: bool },
}

/// Where the image ends in its last tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Beyond {
    /// At the tile's end.
    None,
    /// After the first row or column.
    One,
    /// Before the last row or column.
    AllButOne,
    /// Elsewhere.
    Some,
}

/// How many tiles a side of an image has, and how far it goes beyond them.
fn tiles(side: usize, tile: usize) -> (usize, Beyond) {
    let beyond = match side % tile {
        0 => Beyond::None,
        1 => Beyond::One,
        rest if rest == tile - 1 => Beyond::AllButOne,
        _ => Beyond::Some,
    };
    ((side / tile).min(2), beyond)
}

impl Case {
    /// The work of the case, roughly: multiply-adds, and as much as 32 of them for each value.
    pub(super) fn cost(&self) -> usize {
        self.image.0 * self.image.1 * self.format.channels * (self.mask.0 * self.mask.1 + 32)
    }

    /// What the case tries.
    fn features(&self) -> Vec<Feature> {
        let (width, height) = self.mask;
        let mut features = vec![Feature::Mask { width, height, is_separable: self.separable }];
        let Ok(problem) = self.problem() else { return features };
        for variant in Variant::ALL {
            let choice = VariantChoice::Named(variant);
            if !self.concerns(choice) {
                continue;
            }
            let can = |choice| Plan::new(&problem, Limits::H100, choice).is_ok();
            if let Some(VariantChoice::Kernel { entry, .. }) = self.through_planes(choice, can) {
                features.push(Feature::Integers { symbol: entry.symbol, format: self.format });
            }
            let Ok(plan) = Plan::new(&problem, Limits::H100, choice) else { continue };
            let symbol = plan.entry.symbol;
            let (tile_width, tile_height) = plan.entry.outputs((width as u32, height as u32));
            // A tile of interleaved pixels has as many values as one of a plane.
            let (values, tile_width) = (self.image.0 * self.format.channels, tile_width as usize);
            let tile_height = tile_height as usize;
            let is_convolution = self.operation == Operation::Convolve;
            let is_larger = self.image.0 > width && self.image.1 > height;
            let has_tiles = values > tile_width && self.image.1 > tile_height;
            let (in_width, in_height) = (tiles(values, tile_width), tiles(self.image.1, tile_height));
            features.extend([
                Feature::Kernel { symbol, has_tiles },
                Feature::Border { variant, mode: self.border.mode().code(), is_convolution, is_larger },
                Feature::Width { variant, tile: tile_width, tiles: in_width.0, beyond: in_width.1 },
                Feature::Height { variant, tile: tile_height, tiles: in_height.0, beyond: in_height.1 },
                Feature::Values { variant, format: self.format, content: self.content },
                Feature::Filter { variant, has_anchor: self.anchor.is_some(), has_scale: self.scale != (1.0, 0.0) },
            ]);
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::registry::{Entry, entries};

    use faltung::PixelType;

    use super::*;
    use crate::check::cases::{BORDERS, SEED, cases};

    /// By name each variant takes the kernel that is made for a mask, so that the cases run every kernel there is.
    #[test]
    fn every_kernel_is_met() {
        for quick in [true, false] {
            let met: HashSet<_> = cases(quick, SEED).iter().flat_map(Case::features).collect();
            let met = |symbol, has_tiles| met.contains(&Feature::Kernel { symbol, has_tiles });
            // On an image of several tiles; those of the largest squares would take too long.
            let is_met = |entry: &Entry| met(entry.symbol, true) || entry.side() > 60 && met(entry.symbol, false);
            let missed: Vec<_> = entries().filter(|entry| !is_met(entry)).map(|entry| entry.symbol).collect();
            assert!(missed.is_empty(), "{} of {}: {missed:?}", missed.len(), entries().count());
        }
    }

    /// Each variant that is not bit-exact makes integers through planes: bytes in one to four channels. Those with
    /// the smallest errors make words, too.
    #[test]
    fn integers_come_through_planes() {
        let met: HashSet<_> = cases(true, SEED).iter().flat_map(Case::features).collect();
        let makes = |variant: Variant, format: PixelFormat| {
            let is_made = |entry: &Entry| met.contains(&Feature::Integers { symbol: entry.symbol, format });
            variant.entries().any(is_made)
        };
        for variant in Variant::ALL.into_iter().filter(|variant| !variant.is_exact()) {
            for channels in 1..=4 {
                let format = |kind| PixelFormat { channels, input: kind, output: kind };
                assert!(makes(variant, format(PixelType::U8)), "{} of {channels} bytes", variant.name());
                if matches!(variant, Variant::SeparableRing | Variant::SeparableBlockTile) {
                    assert!(makes(variant, format(PixelType::U16)), "{} of {channels} words", variant.name());
                }
            }
        }
    }

    /// The quick sweep leaves out cases, and nothing that they try.
    #[test]
    fn the_quick_sweep_has_every_feature() {
        let features = |quick| cases(quick, SEED).iter().flat_map(Case::features).collect::<HashSet<_>>();
        assert_eq!(features(true), features(false));
        // Each variant at each border of an image that has an interior.
        let found = features(true);
        for variant in Variant::ALL {
            for border in BORDERS {
                let is_met = |is_convolution| {
                    let mode = border.mode().code();
                    found.contains(&Feature::Border { variant, mode, is_convolution, is_larger: true })
                };
                assert!(is_met(false) && is_met(true), "{variant:?} {border}");
            }
        }
    }
}
