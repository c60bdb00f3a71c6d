//! The launches of a kernel in three passes, and the memory between them.

use std::ops::Range;

use kernels_gpu::abi::kernel::Kernel;
use kernels_gpu::abi::params::Params;
use kernels_gpu::fft::passes::{self, layout, pairs_across, valid};
use kernels_gpu::registry::MaskForm;

use super::{Considered, Place, Plan, Step, VariantChoice};

/// The most scratch memory, unless one row of tiles takes more.
///
/// The last blocks of each launch leave the device half empty, so few large launches are faster than many small ones.
const SCRATCH: usize = 256 << 20;

/// One launch of each of the three passes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Passes {
    /// Pairs of tiles, of all channels.
    pub(crate) pairs: u32,
    /// Interleaved channels of image and result.
    pub(crate) channels: u32,
    /// The parameters of all three.
    pub(crate) params: Params,
}

/// The kernels of the second and the third pass, for images of so many channels.
pub(crate) fn later_passes(channels: u32) -> [Kernel; 2] {
    [passes::COLUMNS, passes::BACK[channels as usize - 1]]
}

/// Rows of tiles of a plan.
struct Tiles {
    /// Pairs of tiles of a row, of all channels.
    across: usize,
    /// Rows of results of a tile.
    rows: usize,
    /// The most rows of tiles of one launch.
    at_once: usize,
}

impl Plan {
    /// None for kernels without passes.
    fn tiles(&self) -> Option<Tiles> {
        let MaskForm::SpectrumOfPasses = self.entry.variant.spec().mask_form else { return None };
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        let across = (pairs_across(self.params.width as u32, mask) * self.entry.channels) as usize;
        let rows = valid(mask).1 as usize;
        let most = (SCRATCH / (across * size_of::<f32>() * layout::PAIR)).max(1);
        Some(Tiles { across, rows, at_once: most.min((self.params.height as usize).div_ceil(rows)) })
    }

    /// Bytes of scratch memory, whatever the rows of an image.
    pub(crate) fn scratch_bytes(&self) -> usize {
        self.tiles().map_or(0, |tiles| tiles.across * tiles.at_once * layout::PAIR * size_of::<f32>())
    }

    /// The choice if device memory does not hold the scratch memory: of the kernels that take none, the one with the
    /// shortest predicted time. None if there is no such kernel, or `choice` names one.
    pub(crate) fn without_scratch(&self, choice: VariantChoice) -> Option<VariantChoice> {
        if self.scratch_bytes() == 0 || choice.named().is_some() {
            return None;
        }
        let keeps = |one: &&Considered| {
            one.answer.is_ok()
                && !matches!(one.entry.variant.spec().mask_form, MaskForm::SpectrumOfPasses)
                && (self.proof.is_none() || one.uncertain.is_some() || one.entry.variant.is_exact())
        };
        let best = self.considered.iter().find(keeps)?;
        Some(VariantChoice::Kernel { entry: best.entry, in_planes: best.in_planes })
    }

    /// The launches of the kernel for the rows `outputs` of one image, or of one plane.
    pub(super) fn convolutions(&self, height: usize, outputs: &Range<usize>, (from, to): (Place, Place)) -> Vec<Step> {
        let Some(Tiles { across, rows, at_once }) = self.tiles() else {
            let launches = self.launches(height, outputs.clone()).into_iter();
            return launches.map(|launch| Step::Convolve { launch, from, to }).collect();
        };
        let step = |first: usize| {
            let tiles = (outputs.end - first).div_ceil(rows).min(at_once);
            let params = Params { height: height as i32, first_row: first as i32, ..self.params };
            let passes = Passes { pairs: (tiles * across) as u32, channels: self.entry.channels, params };
            Step::Transform { passes, from, to, scratch: Place::Planes(0) }
        };
        outputs.clone().step_by(rows * at_once).map(step).collect()
    }
}
