//! One tile, from its pixels to its results.

use super::error::Rule;
use super::judge::{Rejected, ends, judge};
use super::load::{Input, Place};
use super::recompute::{Counts, ordered_sums, sums_of_bytes, times_direct};
use super::transform::{Buffers, Spectrum};
use super::{Fft, coefficients};
use crate::cpu::finish::Results;
use crate::cpu::panel::{self, Hints, Panel};
use crate::cpu::simd::{Simd, Work};
use crate::cpu::uncertain::Uncertain;
use crate::image::{bytes_of_mut, values_of_mut};
use crate::parallel::Cancel;
use crate::{Pixel, PixelType, Problem, Result};

/// If a larger share than this of a tile's results is rejected, the sums of magnitudes are transformed too, and the
/// rejected results are judged again by them.
const MANY: f64 = 0.03;
/// If a larger share than this is rejected, windows of zeros are looked for first. They are cheap to find.
const SOME: f64 = 0.002;

/// The memory of one tile at a time.
pub(super) struct Scratch {
    input: Input,
    buffers: Buffers,
    /// Sums, or results, as `f32`.
    results: Vec<f32>,
    rejected: Vec<Rejected>,
    counts: Counts,
    again: Vec<(usize, usize)>,
    /// The pixels as bytes, if they are.
    bytes: Vec<u8>,
    /// How many results were computed again, and how many directly.
    #[cfg(test)]
    pub(super) tally: [usize; 2],
}

impl Scratch {
    pub(super) fn new(fft: &Fft, problem: &Problem) -> Result<Self> {
        let (size, window) = (fft.size, problem.window());
        let stride = panel::source_width(fft.level, &fft.window, size.columns);
        Ok(Self {
            input: Input::with_room(size.columns + window.width() - 1, size.rows + window.height() - 1, stride)?,
            buffers: fft.transform.buffers()?,
            results: crate::memory::zeros(size.columns * size.rows, "for the results of a tile")?,
            rejected: Vec::new(),
            counts: Counts::default(),
            again: Vec::new(),
            bytes: Vec::new(),
            #[cfg(test)]
            tally: [0; 2],
        })
    }
}

/// What the values in [`Scratch::results`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Sums, without scale and offset.
    Sums,
    /// Results, but for the conversion to their type.
    Finished,
}

impl Fft {
    /// Computes one channel of one tile into `rows`, which are its interleaved results as bytes.
    pub(super) fn tile(
        &self,
        problem: &Problem,
        source: &[u8],
        place: Place,
        scratch: &mut Scratch,
        rows: &mut [&mut [u8]],
        cancel: &Cancel,
    ) -> Result<()> {
        let Scratch { input, buffers, .. } = scratch;
        input.load(self.level, problem, source, place);
        for y in 0..input.rows {
            cancel.check()?;
            input.widen(self.level, y, &mut buffers.row);
            self.transform.row_forward(buffers, y);
        }
        let stage = match self.sums(problem, place, scratch, cancel)? {
            Some(stage) => stage,
            None => self.direct(place, scratch, cancel)?,
        };
        let finish = if stage == Stage::Sums { problem.last_step() } else { None };
        let (channels, channel) = (problem.format().channels, place.channel);
        for (sums, row) in scratch.results.chunks_exact(place.columns).zip(rows) {
            match problem.format().output {
                PixelType::F32 => {
                    self.level.run(Write { sums, finish, to: values_of_mut::<f32>(row), channels, channel })
                }
                PixelType::U8 => {
                    self.level.run(Write { sums, finish, to: values_of_mut::<u8>(row), channels, channel })
                }
                PixelType::U16 => {
                    self.level.run(Write { sums, finish, to: values_of_mut::<u16>(row), channels, channel })
                }
            }
        }
        Ok(())
    }

    /// The sums of a tile whose rows are transformed. None if too few are certain.
    fn sums(&self, problem: &Problem, place: Place, scratch: &mut Scratch, cancel: &Cancel) -> Result<Option<Stage>> {
        let Scratch { input, buffers, results, rejected, .. } = scratch;
        let facts = input.facts;
        let Some(rule) = self.bounds.rule(f64::from(facts.most), facts.squares) else { return Ok(None) };
        self.multiply(buffers, input.rows, &self.mask, place.rows, cancel)?;
        rejected.clear();
        for (y, to) in results.chunks_exact_mut(place.columns).take(place.rows).enumerate() {
            cancel.check()?;
            self.transform.row_inverse(buffers, y);
            judge(self.level, rule, y, &buffers.row[..place.columns], to, rejected);
        }
        let stage = if matches!(rule, Rule::Rounded { .. }) { Stage::Finished } else { Stage::Sums };
        // What becomes of an ordered sum at this stage.
        let staged = |sum: f32| if stage == Stage::Finished { problem.finish(sum) } else { sum };

        let outputs = (place.columns * place.rows) as f64;
        scratch.again.clear();
        if facts.has_nonfinite {
            self.reject_nonfinite(problem, place, scratch, staged(f32::NAN));
        }
        if scratch.rejected.len() as f64 > SOME * outputs {
            settle_zeros(problem, place, scratch, staged(0.0));
        }
        match rule {
            // Without negative values the sum of magnitudes is the sum.
            Rule::Magnitude { .. }
                if scratch.rejected.len() as f64 > MANY * outputs
                    && (facts.has_negative || !self.bounds.is_positive) =>
            {
                self.judge_magnitudes(problem, place, scratch, cancel)?;
            }
            Rule::Rounded { scale, offset, most, .. } if self.bounds.is_positive && !facts.has_negative => {
                let Scratch { results, rejected, .. } = scratch;
                rejected.retain(|&Rejected { x, y, sum }| {
                    let radius = self.bounds.radius_at(f64::from(facts.most), facts.squares, sum);
                    let [low, high] = ends(sum * scale + offset, radius.unwrap_or(1.0), most);
                    if low == high {
                        results[y as usize * place.columns + x as usize] = low as f32;
                    }
                    low != high
                });
            }
            _ => {}
        }

        let Scratch { input, results, rejected, again, bytes, .. } = scratch;
        again.extend(rejected.iter().map(|rejected| (rejected.x as usize, rejected.y as usize)));
        if again.len() as f64 * times_direct(self.level, problem) > outputs {
            return Ok(None);
        }
        #[cfg(test)]
        {
            scratch.tally[0] += again.len();
        }
        let set = |i: usize, sum| {
            let (x, y) = again[i];
            results[y * place.columns + x] = staged(sum);
        };
        match &self.sums_of_bytes {
            Some(sums) => sums_of_bytes(sums, input, bytes, again, cancel, set)?,
            None => ordered_sums(self.level, problem.window(), input, again, cancel, set)?,
        }
        Ok(Some(stage))
    }

    /// Moves the outputs whose windows hold NaN or infinity out of what is judged. A NaN makes each sum a NaN. Sums
    /// with infinities are computed again.
    fn reject_nonfinite(&self, problem: &Problem, place: Place, scratch: &mut Scratch, nan: f32) {
        let Scratch { input, results, rejected, counts, again, .. } = scratch;
        let window = problem.window();
        counts.count(input, |value| !value.is_finite());
        rejected.retain(|rejected| counts.is_none(window, rejected.x as usize, rejected.y as usize));
        let outputs = (0..place.rows).flat_map(|y| (0..place.columns).map(move |x| (x, y)));
        again.extend(outputs.filter(|&(x, y)| !counts.is_none(window, x, y)));
        counts.count(input, f32::is_nan);
        again.retain(|&(x, y)| {
            let has_nan = !counts.is_none(window, x, y);
            if has_nan {
                results[y * place.columns + x] = nan;
            }
            !has_nan
        });
    }

    /// Accepts sums by the transformed sums of magnitudes.
    fn judge_magnitudes(&self, problem: &Problem, place: Place, scratch: &mut Scratch, cancel: &Cancel) -> Result<()> {
        let mask = self.magnitudes(problem)?;
        let Scratch { input, buffers, results, rejected, .. } = scratch;
        let error = self.bounds.transforms(input.facts.squares);
        for y in 0..input.rows {
            cancel.check()?;
            input.widen(self.level, y, &mut buffers.row);
            buffers.row.iter_mut().for_each(|value| *value = value.abs());
            self.transform.row_forward(buffers, y);
        }
        self.multiply(buffers, input.rows, mask, place.rows, cancel)?;
        let mut transformed = None;
        // They are in the order of their rows.
        rejected.retain(|&Rejected { x, y, .. }| {
            if transformed != Some(y) {
                self.transform.row_inverse(buffers, y as usize);
                transformed = Some(y);
            }
            let sum = results[y as usize * place.columns + x as usize];
            !self.bounds.is_accepted(sum, buffers.row[x as usize], error)
        });
        Ok(())
    }

    /// The spectrum of the mask's magnitudes.
    fn magnitudes(&self, problem: &Problem) -> Result<&Spectrum> {
        if let Some(spectrum) = self.magnitudes.get() {
            return Ok(spectrum);
        }
        let mask = problem.window();
        let spectrum = self.transform.spectrum(mask.width(), &coefficients(mask, f64::abs))?;
        Ok(self.magnitudes.get_or_init(|| spectrum))
    }

    /// [`Transform::multiply`](super::transform::Transform::multiply), unless it is cancelled.
    fn multiply(
        &self,
        buffers: &mut Buffers,
        rows: usize,
        mask: &Spectrum,
        wanted: usize,
        cancel: &Cancel,
    ) -> Result<()> {
        self.transform.few_columns().try_for_each(|first| {
            cancel.check()?;
            self.transform.multiply_columns(buffers, first, rows, mask, wanted);
            Ok(())
        })
    }

    /// Computes all sums of a tile in order.
    fn direct(&self, place: Place, scratch: &mut Scratch, cancel: &Cancel) -> Result<Stage> {
        let Scratch { input, results, .. } = scratch;
        let needed = panel::source_width(self.level, &self.window, place.columns);
        let rows: Vec<&[f32]> = input.values.chunks_exact(input.stride).map(|row| &row[..needed]).collect();
        let panel = Panel {
            window: &self.window,
            rows: &rows[..input.rows],
            columns: 0..place.columns,
            hints: Hints::default(),
            cancel,
        };
        let bytes_of_row = place.columns * size_of::<f32>();
        let rows = bytes_of_mut(results).chunks_exact_mut(bytes_of_row).take(place.rows).collect();
        panel.compute(self.level, &mut Results::new(rows, PixelType::F32), (0, 0), &mut Uncertain::none())?;
        #[cfg(test)]
        {
            scratch.tally[1] += place.columns * place.rows;
        }
        Ok(Stage::Finished)
    }
}

/// The ordered sum of a window of zeros is +0, whatever their signs and the coefficients, if these are finite.
fn settle_zeros(problem: &Problem, place: Place, scratch: &mut Scratch, zero: f32) {
    let Scratch { input, results, rejected, counts, .. } = scratch;
    counts.count(input, |value| value != 0.0);
    rejected.retain(|rejected| {
        let (x, y) = (rejected.x as usize, rejected.y as usize);
        let is_zero = counts.is_none(problem.window(), x, y);
        if is_zero {
            results[y * place.columns + x] = zero;
        }
        !is_zero
    });
}

/// Finishes and converts a row, into one channel of interleaved pixels.
struct Write<'a, T> {
    sums: &'a [f32],
    finish: Option<(f32, f32)>,
    to: &'a mut [T],
    channels: usize,
    channel: usize,
}

impl<T: Pixel> Work for Write<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { sums, finish, to, channels, channel } = self;
        match (finish, channels) {
            (None, 1) => to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = T::from_f32(sum)),
            (None, _) => to.chunks_exact_mut(channels).zip(sums).for_each(|(to, &sum)| to[channel] = T::from_f32(sum)),
            (Some((scale, offset)), _) => to
                .chunks_exact_mut(channels)
                .zip(sums)
                .for_each(|(to, &sum)| to[channel] = T::from_f32(sum.mul_add(scale, offset))),
        }
    }
}
