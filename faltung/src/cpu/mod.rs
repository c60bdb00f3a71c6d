//! The CPU: register tiles in the widest vectors there are, bands of rows over all cores. Needs no GPU and no driver.
//!
//! | file | subject |
//! | --- | --- |
//! | `reference` | the contract, one output at a time |
//! | `tile` | sums in registers; where the speed is |
//! | `simd` | the few vector instructions, and the choice of them |
//! | `panel` | tiles over rows and columns |
//! | `block` | borders: what is read in place, what is padded |
//! | `fft` | large masks by the FFT, judged pixel by pixel |
//! | `planes` | other types and several channels, plane by plane |
//! | `rates` | how fast this CPU multiplies and copies |
//! | this one | blocks over threads |
//!
//! Every output is one chain of fused multiply-adds, whichever thread, tile or level computes it: the bits are always
//! those of [`reference()`].
//!
//! # What is reached
//! AMD EPYC (Zen 5), 2 cores, 4096 x 4096, `f32`, k x k, mirrored border; the fastest of some rounds that took turns
//! with OpenCV 5.0's `filter2D`. "Of the peak": k² multiply-adds a pixel against 284 G/s, measured in registers in the
//! same rounds (AVX2: 143 G/s).
//!
//! | k | 3 | 5 | 7 | 9 | 11 | 13 | 31 |
//! | --- | --- | --- | --- | --- | --- | --- | --- |
//! | AVX-512, Gpix/s | 9.5 | 5.9 | 3.7 | 2.6 | 1.84 | 1.38 | 0.27 |
//! | of the peak | 30 % | 52 % | 65 % | 73 % | 78 % | 82 % | 90 % |
//! | AVX2, Gpix/s | 5.3 | 3.2 | 2.0 | 1.33 | 0.95 | 0.70 | 0.135 |
//! | of the peak | 33 % | 56 % | 70 % | 75 % | 80 % | 82 % | 91 % |
//! | OpenCV, Gpix/s | 3.1 | 1.6 | 1.1 | 0.83 | 0.55 | 0.14 | 0.12 |
//!
//! For small masks the memory is the limit: a pixel read and a pixel written, at k = 3 76 of the 110 GB/s that a copy
//! reaches. Images and results that do not stay in the caches are therefore written past them (a normal store first
//! reads the line that it overwrites; this needs rows of a multiple of 16 pixels), and the rows of the next band are
//! asked for while this one is computed.

mod block;
#[cfg_attr(not(test), allow(dead_code, reason = "the choice of a method calls it"))]
mod fft;
mod panel;
mod planes;
mod rates;
mod reference;
mod simd;
mod tile;

#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::Problem;
use block::{Blocks, Scratch};
use simd::Level;
use tile::{ROWS, Window};

pub(crate) use planes::{Planes, convolve_bytes};
pub(crate) use rates::rates;
pub use reference::reference;

/// Below this many multiply-adds (a pixel counts as 16 more) a problem is computed by the thread that asks: to wake
/// others takes as long, about 10 µs.
const FEW_STEPS: usize = 1 << 19;
/// From this many values on (16 MiB) a result is written past the caches: it would not stay there.
const MANY_VALUES: usize = 4 << 20;
/// The most rows of a block, but for tall windows: for each block the window's height of rows is read again.
const MOST_ROWS: usize = 16 * ROWS;
/// The least columns of a block of an image that is too flat to be cut into rows only.
const LEAST_COLUMNS: usize = 4096;

/// The name of what computes here.
pub(crate) const VARIANT: &str = "direct";

/// Computes `problem` on all threads of the current rayon pool.
///
/// `source` and `result` are `height` rows of `width` values without gaps. Every value of `result` is written; the bits
/// are those of [`reference()`], on any CPU and with any number of threads.
///
/// # Panics
/// If a slice has not `width * height` values.
pub(crate) fn convolve(problem: &Problem, source: &[f32], result: &mut [f32]) {
    convolve_with(Level::best(), result.len() >= MANY_VALUES, problem, source, result);
}

/// The number of threads [`convolve`] uses.
#[must_use]
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

/// The CPU's name as it gives it itself, or that of its architecture.
#[must_use]
pub fn name() -> String {
    brand().unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// The CPU in one line for people, such as "CPU: AMD EPYC, 2 threads, AVX-512".
#[must_use]
pub(crate) fn describe() -> String {
    let threads = threads();
    let s = if threads == 1 { "" } else { "s" };
    format!("CPU: {}, {threads} thread{s}, {}", name(), Level::best().name())
}

/// Why it is computed as it is: one line for people.
#[must_use]
pub(crate) fn reason() -> String {
    format!("the CPU's only one: register tiles with {}", Level::best().name())
}

/// The brand string of CPUID: 3 leaves of 16 bytes.
#[cfg(target_arch = "x86_64")]
fn brand() -> Option<String> {
    use std::arch::x86_64::__cpuid;

    const LEAVES: std::ops::RangeInclusive<u32> = 0x8000_0002..=0x8000_0004;
    if __cpuid(0x8000_0000).eax < *LEAVES.end() {
        return None;
    }
    let bytes: Vec<u8> = LEAVES
        .map(__cpuid)
        .flat_map(|leaf| [leaf.eax, leaf.ebx, leaf.ecx, leaf.edx])
        .flat_map(u32::to_le_bytes)
        .take_while(|&byte| byte != 0)
        .collect();
    let name = String::from_utf8_lossy(&bytes).split_whitespace().collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(name)
}

/// Other CPUs do not say.
#[cfg(not(target_arch = "x86_64"))]
fn brand() -> Option<String> {
    None
}

/// [`convolve`] with the instructions of `level`, and for images that are `large` or not.
fn convolve_with(level: Level, large: bool, problem: &Problem, source: &[f32], result: &mut [f32]) {
    let (width, height) = (problem.width(), problem.height());
    assert_eq!((source.len(), result.len()), (width * height, width * height), "values of source and result");
    let blocks = Blocks {
        problem,
        window: &Window::new(problem),
        source,
        outside: &vec![problem.border().value(); width],
        level,
        large,
    };
    let cut = Cut::new(problem, threads());
    let rows = result.par_chunks_mut(cut.rows * width).enumerate();
    if cut.columns >= width {
        rows.for_each_init(Scratch::default, |scratch, (i, chunk)| {
            let mut results: Vec<&mut [f32]> = chunk.chunks_mut(width).collect();
            blocks.compute(scratch, i * cut.rows, 0, &mut results);
        });
    } else {
        rows.for_each(|(i, chunk)| {
            let mut parts: Vec<Vec<&mut [f32]>> = (0..width.div_ceil(cut.columns)).map(|_| Vec::new()).collect();
            for row in chunk.chunks_mut(width) {
                for (part, results) in parts.iter_mut().zip(row.chunks_mut(cut.columns)) {
                    part.push(results);
                }
            }
            parts.par_iter_mut().enumerate().for_each_init(Scratch::default, |scratch, (j, results)| {
                blocks.compute(scratch, i * cut.rows, j * cut.columns, results);
            });
        });
    }
}

/// The size of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    rows: usize,
    columns: usize,
}

impl Cut {
    /// Blocks for `threads` threads: several for each, so that all end at about the same time; of whole bands.
    fn new(problem: &Problem, threads: usize) -> Self {
        let (width, height) = (problem.width(), problem.height());
        let window = problem.window();
        let steps = (window.width() * window.height()).saturating_add(16).saturating_mul(width * height);
        if threads == 1 && height <= MOST_ROWS || steps < FEW_STEPS {
            return Self { rows: height, columns: width };
        }
        let blocks = (8 * threads).min(steps / (FEW_STEPS / 2));
        // A tall window is mapped and its borders padded for each block: at least a quarter of its height.
        let most = MOST_ROWS.max(window.height() / 4).min(height.div_ceil(threads));
        let rows = height.div_ceil(blocks).min(most).next_multiple_of(ROWS);
        let bands = height.div_ceil(rows);
        let columns = if bands >= threads { width } else { width.div_ceil(blocks.div_ceil(bands)).max(LEAST_COLUMNS) };
        Self { rows, columns }
    }
}
