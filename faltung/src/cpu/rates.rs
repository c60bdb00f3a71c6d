//! The two rates that bound a convolution on this CPU, measured: multiply-adds in registers, and copying in memory.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use super::panel::LINE;
use super::simd::{Level, Simd, Work};
use super::tile::ROWS;
use crate::{Rates, Result};

/// Runs of each measurement; the fastest counts, because a ceiling is what the CPU can do.
const RUNS: usize = 7;
/// Steps of a run: some milliseconds.
const STEPS: usize = 1 << 20;
/// Values of each of the two buffers that are copied, 128 MiB: far more than a cache.
const VALUES: usize = 32 << 20;
/// Values that a thread copies at a time.
const PART: usize = 1 << 16;

/// Measures both on all threads of the current rayon pool; takes a tenth of a second or two.
///
/// # Errors
/// [`Error::Parse`](crate::Error::Parse) if `FALTUNG_CPU` names no instruction set of this CPU.
pub(crate) fn rates() -> Result<Rates> {
    let level = Level::chosen()?;
    Ok(Rates { copy_bytes_per_s: copy_rate(level), flop_per_s: multiply_add_rate(level) })
}

/// Operations per second, two for each multiply-add.
fn multiply_add_rate(level: Level) -> f64 {
    let chains = level.lanes() * level.vectors() * ROWS;
    let threads = rayon::current_num_threads();
    let seconds = fastest(|| {
        rayon::broadcast(|_| black_box(level.run(MultiplyAdds { steps: black_box(STEPS) })));
    });
    2.0 * (chains * STEPS * threads) as f64 / seconds
}

/// Bytes read plus bytes written per second.
fn copy_rate(level: Level) -> f64 {
    let from: Vec<f32> = (0..VALUES + LINE).into_par_iter().map(|i| i as f32).collect();
    let mut to = vec![1.0_f32; VALUES + LINE];
    let start = to.as_ptr().align_offset(LINE);
    let (from, to) = (&from[start..][..VALUES], &mut to[start..][..VALUES]);
    let seconds = fastest(|| {
        to.par_chunks_mut(PART).zip(from.par_chunks(PART)).for_each(|(to, from)| level.run(Copy { from, to }));
    });
    2.0 * size_of_val(from) as f64 / seconds
}

/// The seconds of the fastest of some runs.
fn fastest(mut work: impl FnMut()) -> f64 {
    let mut run = || {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

/// As many chains of multiply-adds as a tile has sums, so that none waits for another.
struct MultiplyAdds {
    steps: usize,
}

impl Work for MultiplyAdds {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) -> f32 {
        // The sums stay near 1: no overflow, no subnormal numbers.
        let (factor, addend) = (simd.splat(0.75), simd.splat(0.25));
        let mut sums = [[simd.splat(0.5); V]; ROWS];
        for _ in 0..self.steps {
            // Two loops and no `flatten`, with which the sums would lie in memory.
            for row in &mut sums {
                for sum in row {
                    *sum = simd.fma(*sum, factor, addend);
                }
            }
        }
        let mut total = simd.splat(0.0);
        for row in sums {
            for sum in row {
                total = simd.fma(sum, factor, total);
            }
        }
        let mut lanes = [0.0; Level::Avx512.lanes()];
        // SAFETY: no vector has more lanes.
        unsafe { simd.store(lanes.as_mut_ptr(), total) };
        lanes[0]
    }
}

/// A copy with non-temporal stores.
struct Copy<'a> {
    from: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Copy<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        assert!(self.to.as_ptr().addr().is_multiple_of(LINE) && self.from.len() == self.to.len());
        for (to, from) in self.to.chunks_exact_mut(S::LANES).zip(self.from.chunks_exact(S::LANES)) {
            // SAFETY: both are a vector long; `to` is aligned, because its slice is and vectors divide a line.
            unsafe { simd.stream(to.as_mut_ptr(), simd.load(from.as_ptr())) };
        }
        simd.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Not how fast, which is the machine's affair: that it measures, and that a copy copies.
    #[test]
    fn rates_are_numbers() {
        for level in Level::available().filter(|&level| level != Level::Portable) {
            assert!(multiply_add_rate(level) > 1e8, "{level:?}");
        }
        let from: Vec<f32> = (0..1024).map(|i| i as f32).collect();
        for level in Level::available() {
            let mut to = vec![0.0; 1024 + 16];
            let start = to.as_ptr().align_offset(LINE);
            level.run(Copy { from: &from, to: &mut to[start..][..1024] });
            assert_eq!(to[start..][..1024], from);
        }
    }
}
