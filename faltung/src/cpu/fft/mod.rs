//! Large dense masks by the FFT: tiles that overlap, transformed in `f64`.
//!
//! A tile's pixels are transformed, multiplied by the mask's spectrum, and transformed back (overlap-save). The time
//! for a result hardly depends on the mask. A transformed sum is not the ordered sum. So each one is judged: either an
//! error bound proves that it keeps the contract, or it is rejected and computed again in order.
//!
//! | file | subject |
//! | --- | --- |
//! | `size` | the size of the tiles, the cost |
//! | `load` | a tile's pixels, with the border |
//! | `transform` | the transforms |
//! | `error` | the error bounds, and what follows from them |
//! | `judge` | which sums of a row are accepted |
//! | `tile` | one tile from its pixels to its results |
//! | `recompute` | ordered sums of rejected outputs; windows of zeros |
//!
//! Tiles depend on the problem alone, so the results do not depend on the number of threads.

pub(crate) mod error;
mod judge;
mod load;
mod recompute;
pub(crate) mod size;
#[cfg(test)]
mod tests;
mod tile;
pub(crate) mod transform;

use std::sync::OnceLock;

use super::recompute::OrderedSums;
use super::simd::Level;
use super::tile::Window;
use super::{Cut, try_in_blocks};
use crate::parallel::Cancel;
use crate::plan::direct_sum::DirectSum;
use crate::spares::Spares;
use crate::{Accuracy, ErrorBound, Mask, PixelFormat, PixelType, Problem, Result};
use error::Bounds;
use load::Place;
use recompute::times_direct;
use size::TileSize;
use tile::Scratch;
use transform::{Spectrum, Transform};

/// Masks with fewer coefficients have no use for an FFT, and their error bound leaves it no room.
const LEAST_COEFFICIENTS: usize = 4;

/// A mask's spectrum, for images of one size.
pub(super) struct Fft {
    size: TileSize,
    transform: Transform,
    mask: Spectrum,
    /// The spectrum of the mask's magnitudes, made when a tile first needs it.
    magnitudes: OnceLock<Spectrum>,
    /// The mask for tiles that are computed directly, one channel at a time.
    window: Window,
    /// What computes results again, for images of bytes.
    sums_of_bytes: Option<OrderedSums>,
    bounds: Bounds,
    level: Level,
    scratch: Spares<Scratch>,
}

impl Fft {
    /// None where an FFT can't keep the contract, or would have to compute too much again.
    pub(super) fn new(level: Level, problem: &Problem) -> Option<Self> {
        let fft = Self::with_size(level, problem, eligible_size(problem)?).ok()?;
        if fft.bounds.is_exact() {
            return Some(fft);
        }
        let is_served = match problem.format().output {
            PixelType::F32 => problem.accuracy() != Accuracy::Exact,
            _ => {
                // Where a larger part is computed again, all may as well be computed directly.
                uncertain_part(problem, fft.bounds.direct.as_ref()) * times_direct(level, problem) <= 1.0
            }
        };
        is_served.then_some(fft)
    }

    /// With tiles of this size.
    fn with_size(level: Level, problem: &Problem, size: TileSize) -> Result<Self> {
        let transform = Transform::new(size.width, size.height);
        let are_bytes = problem.integer_pixels() == Some(PixelType::U8);
        Ok(Self {
            size,
            mask: transform.spectrum(problem.window().width(), &coefficients(problem.window(), |of| of))?,
            transform,
            magnitudes: OnceLock::new(),
            window: Window::new(&problem.one_plane(problem.accuracy())),
            sums_of_bytes: are_bytes.then(|| OrderedSums::new(level, problem.window())),
            bounds: Bounds::new(problem, size.width, size.height),
            level,
            scratch: Spares::default(),
        })
    }

    /// Computes `problem`, the one of [`new`](Self::new), on all [`threads`](crate::parallel::threads). Source and
    /// result are bytes of the interleaved values of its pixel format.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory) if there is too little for a tile;
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    ///
    /// # Panics
    /// If a slice has not the bytes of the problem's values, or does not begin where a value can.
    pub(super) fn convolve(&self, problem: &Problem, source: &[u8], result: &mut [u8], cancel: &Cancel) -> Result<()> {
        let PixelFormat { channels, input, output } = problem.format();
        let bytes = [input, output].map(|of| problem.values() * of.bytes());
        assert_eq!([source.len(), result.len()], bytes, "bytes of source and result");
        let pixel_bytes = channels * output.bytes();
        let cut = Cut { rows: self.size.rows, columns: self.size.columns * pixel_bytes };
        try_in_blocks(problem.width() * pixel_bytes, cut, result, |_: &mut (), top, left, mut rows| {
            let mut scratch = self.scratch.take(|| Scratch::new(self, problem))?;
            let left = left / pixel_bytes;
            let columns = self.size.columns.min(problem.width() - left);
            for channel in 0..channels {
                let place = Place { left, top, columns, rows: rows.len(), channel };
                self.tile(problem, source, place, &mut scratch, &mut rows, cancel)?;
            }
            Ok(())
        })
    }

    /// The bound that the results keep. That of the ordered sum where they have its bits. Other results of `f32` keep
    /// the same constant in the class [`Accuracy::Bounded`], also where [`Accuracy::Normwise`] was asked for.
    pub(super) fn bound(&self, problem: &Problem) -> ErrorBound {
        let direct = ErrorBound::direct(problem);
        match problem.format().output {
            _ if problem.required_class() == Accuracy::Exact || self.bounds.is_exact() => direct,
            PixelType::F32 => ErrorBound::with_constant(direct.constant()),
            PixelType::U8 | PixelType::U16 => {
                ErrorBound::normwise(self.bounds.normwise_constant(problem.window().norm()))
            }
        }
    }

    /// The time of a value of the result, in multiply-adds of the direct method, which takes one for each coefficient.
    /// Infinite where [`new`](Self::new) gives None for the mask or the sizes.
    pub(super) fn cost(level: Level, problem: &Problem) -> f64 {
        let Some(size) = eligible_size(problem) else { return f64::INFINITY };
        let direct = DirectSum::of(problem);
        let is_exact = direct.as_ref().is_some_and(|direct| direct.exact_unit().is_some());
        let has_rounding = problem.format().output != PixelType::F32 && !is_exact;
        let uncertain = if has_rounding { uncertain_part(problem, direct.as_ref()) } else { 0.0 };
        let again = uncertain * problem.window().coefficients().len() as f64 * times_direct(level, problem);
        size.nanoseconds / MULTIPLY_ADD + again
    }
}

/// Nanoseconds of one core for a multiply-add of the direct method, on the CPU on which the FFT was timed.
const MULTIPLY_ADD: f64 = 1.0 / 58.5;

/// The part of the results that is uncertain if they are integers whose fractions are spread evenly.
fn uncertain_part(problem: &Problem, direct: Option<&DirectSum>) -> f64 {
    if problem.required_class() != Accuracy::Exact {
        return 0.0;
    }
    let most = match (problem.format().input, problem.format().output) {
        (PixelType::U8, _) | (PixelType::F32, PixelType::U8) => 255.0,
        (PixelType::U16, _) | (PixelType::F32, PixelType::U16) => 65_535.0,
        (PixelType::F32, PixelType::F32) => 1.0,
    };
    let scale = f64::from(problem.scale_and_offset().0.abs());
    direct.map_or(1.0, |direct| 2.0 * (direct.sum_error(most) * scale + direct.last_error())).min(1.0)
}

/// The size of the tiles, if the mask is one for an FFT.
fn eligible_size(problem: &Problem) -> Option<TileSize> {
    let coefficients = problem.window().coefficients();
    let is_finite = coefficients.iter().all(|coefficient| coefficient.is_finite());
    if coefficients.len() < LEAST_COEFFICIENTS || !is_finite {
        return None;
    }
    let window = problem.window();
    TileSize::of([window.width(), window.height()], [problem.width(), problem.height()])
}

/// The coefficients of a mask as `f64`, each by `f`.
fn coefficients(mask: &Mask, f: impl Fn(f64) -> f64) -> Vec<f64> {
    mask.coefficients().iter().map(|&coefficient| f(f64::from(coefficient))).collect()
}
