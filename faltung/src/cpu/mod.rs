//! The CPU: three methods, in the widest vectors that the CPU has, on all cores. It needs no GPU and no driver.
//!
//! | file | subject |
//! | --- | --- |
//! | `reference` | the contract, one output at a time |
//! | `method` | direct, separable or FFT: the choice, and which integers are certain |
//! | this one | blocks of the result over threads |
//! | `block` | direct, images of `f32`: columns read in place, columns copied with their border |
//! | `ring` | direct for other types, and separable: rows as `f32` in a ring that stays in the second-level cache |
//! | `narrow` | images of few columns: vectors down the columns |
//! | `line` | one row of the ring: conversion to `f32`, and the border |
//! | `row_pass`, `byte_rows` | the row of a separable mask: in `f32`, and in fixed point for bytes |
//! | `strips` | `pairs` and `whole`: blocks in strips of columns |
//! | `pairs` | bytes, and separable masks without negative coefficients: products of 16-bit numbers |
//! | `whole` | bytes, and masks of small whole numbers times one factor: sums of integers |
//! | `panel` | register tiles over rows and columns |
//! | `tile` | sums in registers |
//! | `finish` | what becomes of sums: `f32` as they are, integers rounded |
//! | `uncertain` | which integers are uncertain |
//! | `partial_sums`, `byte_lines` | most uncertain integers decided without the order of the contract |
//! | `recompute` | the others again, in the order of the contract |
//! | `fft` | large masks by the FFT, proven pixel by pixel |
//! | `simd` | the vector instructions, and the choice of an instruction set |
//! | `rates` | how fast this CPU multiplies and copies |
//!
//! Each output of the direct method is one chain of fused multiply-adds, whichever thread, tile or instruction set
//! computes it. So it has the bits of [`reference()`]. Integers have these bits by every method. No result depends on
//! the number of threads.
//!
//! `docs/cpu.md` explains the design. `cargo bench -p faltung` times the inner loops, and `host bench` whole images.
//! Records are in `docs/measurements`.

mod aligned;
mod block;
mod byte_lines;
mod byte_rows;
pub(crate) mod fft;
mod finish;
mod line;
mod method;
mod narrow;
mod pairs;
mod panel;
mod partial_sums;
mod rates;
mod recompute;
mod reference;
mod ring;
mod row_pass;
pub(crate) mod simd;
mod strips;
mod tile;
mod uncertain;
pub(crate) mod whole;

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use crate::parallel::{self, Cancel, threads};
use crate::{ErrorBound, PixelFormat, Problem, Result};
use block::Blocks;
use finish::Results;
use line::Values;
use method::Method;
use narrow::Narrow;
use ring::{Rings, Row};
use simd::Level;
use strips::{ByteBlocks, ByteMask};
use tile::{ROWS, Window};
use uncertain::Limits;

pub(crate) use rates::rates;
pub use reference::reference;

/// The calling thread computes problems with fewer multiply-adds than this. Each value of the result adds 16. Waking
/// other threads takes about 10 µs.
const FEW_STEPS: usize = 1 << 19;
/// With AVX-512, results of at least this many values (16 MiB) use non-temporal stores, and source rows are prefetched.
/// The caches could not hold them. With AVX2, such stores of half a cache line double the time of a 3 x 3 mask.
const MANY_VALUES: usize = 4 << 20;
/// The most rows of a block for a dense mask. Each block reads `height - 1` rows again, so tall windows get taller
/// blocks.
const MOST_ROWS: usize = 16 * ROWS;
/// A block for a separable mask costs about as much as so many of its rows, beside the rows above it that it filters
/// again. Measured with AVX2 and AVX-512, for 512 x 512 bytes on two threads.
const BLOCK_ROWS: usize = 40;
/// The least columns of a block of an image that is too flat to be cut into rows only.
const LEAST_COLUMNS: usize = 4096;

/// A problem made ready for this CPU.
pub(crate) struct Convolution {
    level: Level,
    method: Method,
}

impl Convolution {
    /// With the method that the problem's accuracy class allows and that is expected to be the fastest.
    ///
    /// # Errors
    /// [`Error::Parse`](crate::Error::Parse) if `FALTUNG_CPU` names no instruction set of this CPU.
    pub(crate) fn new(problem: &Problem) -> Result<Self> {
        let level = Level::chosen()?;
        Ok(Self::with(level, Method::choose(level, problem)))
    }

    fn with(level: Level, method: Method) -> Self {
        Self { level, method }
    }

    /// The name of the method.
    pub(crate) fn variant(&self) -> &'static str {
        self.method.name()
    }

    /// Why this method: one line for people.
    pub(crate) fn reason(&self) -> String {
        format!("{}, with {}", self.method.reason(), self.level.name())
    }

    /// The accuracy class of the results, and the bound of their errors.
    pub(crate) fn bound(&self, problem: &Problem) -> ErrorBound {
        self.method.bound(problem)
    }

    /// Computes the problem on all [`threads`], for interleaved values of its pixel format, as bytes. The results do
    /// not depend on the number of threads.
    ///
    /// No type parameter: the instances are compiled in this crate, and not in each crate that calls a generic function
    /// of the library.
    ///
    /// # Panics
    /// If a slice has not the bytes of the problem's values, or `source` does not begin where a value can. The FFT asks
    /// that of `result`, too.
    pub(crate) fn run(&self, problem: &Problem, source: &[u8], result: &mut [u8]) -> Result<()> {
        let streaming = self.level == Level::Avx512 && result.len() >= MANY_VALUES * size_of::<f32>();
        self.run_as(streaming, &Cancel::of_this_thread(), problem, source, result)
    }

    /// [`run`](Self::run), with non-temporal stores or without. With them, the direct method prefetches images of
    /// `f32`. `cancel` ends a block early, the flag of the calling thread the sequence of blocks.
    fn run_as(
        &self,
        streaming: bool,
        cancel: &Cancel,
        problem: &Problem,
        source: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        let PixelFormat { input, output, .. } = problem.format();
        let bytes = [input, output].map(|of| problem.values() * of.bytes());
        assert_eq!([source.len(), result.len()], bytes, "bytes of source and result");
        if let Method::Fft(fft) = &self.method {
            return fft.convolve(problem, source, result, cancel);
        }
        let source = Values::of(problem, source);
        if narrow::is_narrow(self.level, problem) {
            let (factors, limits) = match &self.method {
                Method::Separable { column, row: Row::Floats(row), limits, .. } => (Some((column, &row[..])), *limits),
                _ => (None, None),
            };
            let narrow =
                Narrow { problem, factors, limits: limits.unwrap_or(Limits::NONE), source, level: self.level, cancel };
            let rows = result.chunks_mut(narrow::ROWS * problem.row_values() * output.bytes()).enumerate();
            return parallel::for_each(rows, narrow::Scratch::default, |scratch, (i, results)| {
                narrow.compute(scratch, i * narrow::ROWS, results)
            });
        }
        let rings = |window, row, limits, partial_sums| Rings {
            problem,
            window,
            row,
            limits,
            partial_sums,
            source,
            level: self.level,
            streaming,
            cancel,
        };
        match (&self.method, source) {
            (Method::Direct(window), Values::F32(source)) => {
                let outside = vec![problem.border().value(); problem.row_values()];
                let (level, outside) = (self.level, &outside[..]);
                let blocks = Blocks { problem, window, source, outside, level, streaming, cancel };
                in_blocks(problem, Cut::dense(problem, threads()), result, |scratch, top, left, results| {
                    blocks.compute(scratch, top, left, results)
                })
            }
            (Method::Direct(window), _) => {
                let rings = rings(window, None, Limits::NONE, None);
                in_blocks(problem, Cut::dense(problem, threads()), result, |scratch, top, left, results| {
                    rings.compute(scratch, top, left, results)
                })
            }
            (Method::Whole(mask), Values::U8(image)) => self.in_strips(cancel, problem, mask, image, result),
            (Method::Pairs(mask), Values::U8(image)) => self.in_strips(cancel, problem, mask, image, result),
            (Method::Whole(_) | Method::Pairs(_), _) => unreachable!("only for images of bytes"),
            (Method::Fft(_), _) => unreachable!("`run_as` has returned"),
            (Method::Separable { column, row, limits, partial_sums, .. }, _) => {
                let limits = limits.unwrap_or(Limits::NONE);
                let rings = rings(column, Some(row), limits, partial_sums.as_deref());
                in_blocks(problem, Cut::separable(problem, threads()), result, |scratch, top, left, results| {
                    rings.compute(scratch, top, left, results)
                })
            }
        }
    }

    /// Computes an image of bytes in strips of columns.
    fn in_strips<M: ByteMask + Sync>(
        &self,
        cancel: &Cancel,
        problem: &Problem,
        mask: &M,
        image: &[u8],
        result: &mut [u8],
    ) -> Result<()> {
        let blocks = ByteBlocks { problem, mask, image, level: self.level, cancel };
        in_blocks(problem, Cut::separable(problem, threads()), result, |scratch, top, left, results| {
            blocks.compute(scratch, top, left, results)
        })
    }
}

/// The CPU's name as it gives it itself, or that of its architecture.
#[must_use]
pub fn name() -> String {
    // In a virtual machine each CPUID instruction takes some 20 us.
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| brand().unwrap_or_else(|| std::env::consts::ARCH.to_owned())).clone()
}

/// The instruction set that the CPU computes with: `"AVX-512"`, `"AVX2"`, `"NEON"` or `"portable"`. It is the fastest
/// that the CPU has, or the one that the environment variable `FALTUNG_CPU` names.
///
/// A wrong value of the variable is otherwise an error of the first call that computes on the CPU.
///
/// ```
/// match faltung::cpu_instruction_set() {
///     Ok(name) => println!("computing with {name}"),
///     Err(error) => eprintln!("{error}"),
/// }
/// ```
///
/// # Errors
/// [`Error::Parse`](crate::Error::Parse) if `FALTUNG_CPU` names no instruction set of this CPU.
pub fn instruction_set() -> Result<&'static str> {
    Level::chosen().map(Level::name)
}

/// The CPU in one line for people, such as "CPU: AMD EPYC, 2 threads, AVX-512".
#[must_use]
pub(crate) fn describe() -> String {
    let threads = threads();
    let s = if threads == 1 { "" } else { "s" };
    let level = instruction_set().map_or_else(|error| error.to_string(), str::to_owned);
    format!("CPU: {}, {threads} thread{s}, {level}", name())
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

/// [`try_in_blocks`] for blocks of values.
fn in_blocks<T: Default>(
    problem: &Problem,
    cut: Cut,
    result: &mut [u8],
    compute: impl Fn(&mut T, usize, usize, &mut Results<'_>) -> Result<()> + Sync,
) -> Result<()> {
    let (pixel, bytes) = (problem.format().output, problem.format().output.bytes());
    let cut = Cut { columns: cut.columns * bytes, ..cut };
    try_in_blocks(problem.row_values() * bytes, cut, result, |scratch, top, left, rows| {
        compute(scratch, top, left / bytes, &mut Results::new(rows, pixel))
    })
}

/// Cuts the result into blocks. `width` and the columns of `cut` are in bytes. The calling thread and those of the
/// rayon pool compute the blocks. `compute` gets scratch memory, the block's first row, its first byte in a row, and
/// its part of each row.
fn try_in_blocks<T: Default>(
    width: usize,
    cut: Cut,
    result: &mut [u8],
    compute: impl Fn(&mut T, usize, usize, Vec<&mut [u8]>) -> Result<()> + Sync,
) -> Result<()> {
    let bands = result.chunks_mut(cut.rows * width).enumerate();
    if cut.columns >= width {
        return parallel::for_each(bands, T::default, |scratch, (i, band)| {
            compute(scratch, i * cut.rows, 0, band.chunks_mut(width).collect())
        });
    }
    let mut blocks = Vec::new();
    for (i, band) in bands {
        let first = blocks.len();
        blocks.extend((0..width).step_by(cut.columns).map(|left| (i * cut.rows, left, Vec::<&mut [u8]>::new())));
        for row in band.chunks_mut(width) {
            for ((_, _, results), part) in blocks[first..].iter_mut().zip(row.chunks_mut(cut.columns)) {
                results.push(part);
            }
        }
    }
    parallel::for_each(blocks.into_iter(), T::default, |scratch, (top, left, rows)| compute(scratch, top, left, rows))
}

/// The size of the blocks, in rows and in values of a row, or in bytes for [`try_in_blocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cut {
    rows: usize,
    columns: usize,
}

impl Cut {
    /// Blocks for a dense mask and `threads` threads.
    fn dense(problem: &Problem, threads: usize) -> Self {
        let window = problem.window();
        // A tall window is mapped and its borders padded for each block: at least a quarter of its height.
        let most = MOST_ROWS.max(window.height() / 4);
        Self::new(problem, threads, window.width() * window.height(), most, 0)
    }

    /// Blocks for a separable mask and `threads` threads. All rows under the windows of a block are filtered again for
    /// it. So blocks are higher than three masks.
    fn separable(problem: &Problem, threads: usize) -> Self {
        let window = problem.window();
        Self::new(problem, threads, window.width() + window.height(), usize::MAX, 3 * window.height() + BLOCK_ROWS)
    }

    /// A block has at most `most` rows. It has at least `least` rows if every thread still gets a block. Its height is
    /// a multiple of [`ROWS`]. Several blocks for each thread balance the load. Where `least` allows only few, their
    /// number is a multiple of the threads, but for the rounding to [`ROWS`].
    fn new(problem: &Problem, threads: usize, steps: usize, most: usize, least: usize) -> Self {
        let (width, height) = (problem.row_values(), problem.height());
        let steps = steps.saturating_add(16).saturating_mul(width * height);
        if threads == 1 && height <= MOST_ROWS || steps < FEW_STEPS {
            return Self { rows: height, columns: width };
        }
        let blocks = (8 * threads).min(steps / (FEW_STEPS / 2));
        let few = least * blocks > height;
        let in_rows = if few { (height / least / threads * threads).max(1) } else { blocks };
        let rows = height.div_ceil(in_rows).min(most).min(height.div_ceil(threads)).next_multiple_of(ROWS);
        let bands = height.div_ceil(rows);
        let columns = if bands >= threads { width } else { width.div_ceil(blocks.div_ceil(bands)).max(LEAST_COLUMNS) };
        Self { rows, columns }
    }
}
