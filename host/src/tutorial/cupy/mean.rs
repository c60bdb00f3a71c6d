//! The moving mean: each thread its own loads, or the block's through shared memory.

use rayon::prelude::*;

use super::{BLOCK, lengths, normal};
use crate::tutorial::judge::{self, U, gamma};
use crate::tutorial::launch::{InBlocks, KernelCall, Launcher};
use crate::tutorial::session::{Session, times_as_fast};
use crate::units::{digits, time};
use cuda_launch::Buffer;
use faltung::Result;
use kernels_gpu::tutorials::mean_1d::{MeanFilter1dNaive, MeanFilter1dShared, MeanFilter1dVectors};

/// The notebook's radius in its table.
const RADIUS: u32 = 8;

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(session.options.seed + 1);
    session.note(format!("\n1-D mean, radius {RADIUS} (window {}), both ends mirrored in all kernels", 2 * RADIUS + 1));
    the_notebooks_ends(session);
    let mut rows = Vec::new();
    for length in lengths(session) {
        let input = normal(&mut random, 100.0, 10.0, length);
        let row = match session.launcher()? {
            Some(launcher) => on_device(session, &launcher, &input)?,
            None => on_cpu(session, &input)?,
        };
        rows.extend(row);
    }
    let title = "1-D mean: times on the device, mean of 7 runs";
    match (!session.is_cpu(), session.is_emulator()) {
        (_, true) => {
            let columns = ["elements", "match", "sectors: naive", "shared", "vectors", "words: shared", "vectors"];
            let title = "1-D mean, for each element: sectors loaded, words from shared memory, counted by the emulator";
            session.table(title, &columns, rows);
        }
        (true, false) => {
            let columns =
                ["elements", "naive", "shared", "vectors", "shared gains", "match", "naive", "shared", "vectors"];
            session.table(format!("{title}; then parts of the copy rate"), &columns, rows);
        }
        (false, false) => {
            session.table(title, &["elements", "the CPU, each window", "share of copy rate"], rows);
        }
    }
    Ok(())
}

/// A kernel of the three.
#[derive(Clone, Copy)]
enum Kernel {
    Naive,
    Shared,
    Vectors,
}

impl Kernel {
    const ALL: [Self; 3] = [Self::Naive, Self::Shared, Self::Vectors];

    fn name(self) -> &'static str {
        match self {
            Self::Naive => "mean_filter_1d_naive",
            Self::Shared => "mean_filter_1d_shared",
            Self::Vectors => "mean_filter_1d_vectors",
        }
    }

    /// The call with the notebook's radius and block; the whole window in one piece.
    fn call<'a>(self, input: &'a Buffer<f32>, output: &'a mut Buffer<f32>) -> Box<dyn KernelCall + 'a> {
        let (size, radius) = (input.len() as u32, RADIUS);
        match self {
            Self::Naive => Box::new(InBlocks(BLOCK, MeanFilter1dNaive { input, output, size, radius })),
            Self::Shared => {
                let piece = 2 * radius + 1;
                Box::new(InBlocks(BLOCK, MeanFilter1dShared { input, output, size, radius, piece }))
            }
            Self::Vectors => Box::new(InBlocks(BLOCK, MeanFilter1dVectors { input, output, size, radius })),
        }
    }
}

/// All kernels on one array; a row of the table if all are right.
fn on_device(session: &mut Session<'_>, launcher: &Launcher, values: &[f32]) -> Result<Option<Vec<String>>> {
    let size = values.len();
    let input = launcher.upload("input", values)?;
    let (mut counts, mut naive) = (Vec::new(), Vec::new());
    for kernel in Kernel::ALL {
        // Each kernel gets a new output. Else an element that it does not write could have the right value already.
        let mut output = launcher.allocate(kernel.name(), size)?;
        counts.extend(launcher.launch_counting(&*kernel.call(&input, &mut output))?);
        let found = launcher.download(&output)?;
        let what = format!("{}, {size}", kernel.name());
        let right = if naive.is_empty() {
            naive = found;
            right(session, &what, values, &naive)
        } else {
            let matches = judge::bits(&found, &naive);
            session.check(what, matches.map(|_| "is bit-exact with the naive kernel's".to_owned()))
        };
        if !right {
            return Ok(None);
        }
    }
    let mut row = vec![size.to_string()];
    if launcher.is_emulator() {
        row.push("yes".to_owned());
        let each = |count: u64| digits(count as f64 / size as f64);
        row.extend(counts.iter().map(|counts| each(counts.global_loads.transactions)));
        row.extend(counts[1..].iter().map(|counts| each(32 * counts.shared_loads.transactions)));
        return Ok(Some(row));
    }
    let mut output = launcher.allocate("output", size)?;
    let mut times = Vec::new();
    for kernel in Kernel::ALL {
        times.extend(session.time(launcher, || launcher.launch(&*kernel.call(&input, &mut output)))?);
    }
    row.extend(times.iter().map(|timing| time(timing.mean)));
    row.push(times_as_fast(&times[0], &times[1]));
    row.push("yes".to_owned());
    for timing in &times {
        row.push(session.of_copy_rate(8.0 * size as f64, timing)?);
    }
    Ok(Some(row))
}

/// The CPU's mean; a row of the table.
fn on_cpu(session: &mut Session<'_>, values: &[f32]) -> Result<Option<Vec<String>>> {
    let mut found = vec![0.0; values.len()];
    let radius = RADIUS as usize;
    mean(values, radius, &mut found);
    if !right(session, &format!("the CPU, {}", values.len()), values, &found) {
        return Ok(None);
    }
    let timing = session.time_cpu(|| mean(values, radius, &mut found))?;
    let of_copy_rate = session.of_copy_rate(8.0 * values.len() as f64, &timing)?;
    Ok(Some(vec![values.len().to_string(), time(timing.mean), of_copy_rate]))
}

/// The moving mean in plain Rust, each window from left to right, as the kernels have it.
fn mean(values: &[f32], radius: usize, result: &mut [f32]) {
    /// Elements of a task: enough that a task is worth while.
    const TASK: usize = 1 << 15;
    let window = 2 * radius + 1;
    result.par_chunks_mut(TASK).enumerate().for_each(|(task, result)| {
        for (i, result) in result.iter_mut().enumerate() {
            let i = task * TASK + i;
            let sum: f32 = if i >= radius && i + radius < values.len() {
                values[i - radius..][..window].iter().fold(0.0, |sum, value| sum + value)
            } else {
                let first = i as isize - radius as isize;
                (first..first + window as isize).fold(0.0, |sum, j| sum + values[mirrored(j, values.len())])
            };
            *result = sum / window as f32;
        }
    });
}

/// The position that `i` is mirrored to, by walking back and forth.
fn mirrored(mut i: isize, length: usize) -> usize {
    let last = length as isize - 1;
    if last == 0 {
        return 0;
    }
    while i < 0 || i > last {
        i = if i < 0 { -i } else { 2 * last - i };
    }
    i as usize
}

/// Checks the means: `window` additions of f32 and a division against f64.
fn right(session: &mut Session<'_>, what: &str, values: &[f32], found: &[f32]) -> bool {
    let radius = RADIUS as isize;
    let window = 2 * radius + 1;
    let mut magnitude = Vec::with_capacity(values.len());
    let exact: Vec<f64> = (0..values.len() as isize)
        .map(|i| {
            let all = (i - radius..=i + radius).map(|j| f64::from(values[mirrored(j, values.len())]));
            let (sum, absolute) = all.fold((0.0, 0.0), |(sum, absolute), v| (sum + v, absolute + v.abs()));
            magnitude.push(absolute / window as f64);
            sum / window as f64
        })
        .collect();
    // The quotient adds a rounding to those of the sum.
    let verdict = judge::within(found, &exact, |i| (gamma(window as u64) + U) * magnitude[i] * (1.0 + U));
    session.check(what, verdict)
}

/// Compares what the notebook's two kernels read beyond the array, for the windows of the last elements.
///
/// The naive kernel reads zeros there. The kernel with shared memory has zeros where the last block has threads, and
/// mirrors beyond the block.
fn the_notebooks_ends(session: &mut Session<'_>) {
    for length in [10_000, 10_240] {
        let differ = (0..length).filter(|&i| notebook_differs(i, length, RADIUS as usize, BLOCK as usize)).count();
        let verdict = if differ == 0 { "match" } else { "do not match" };
        session.note(format!(
            "  the notebook's own two kernels {verdict} at {length} elements: {differ} windows differ at the right end",
        ));
    }
    session.note(
        "  (at its four lengths 96 to 240 threads of the last block stand for no element, so that both add zeros \
         there)",
    );
}

/// Whether the notebook's two kernels see different values in the window of element `i`.
fn notebook_differs(i: usize, length: usize, radius: usize, block: usize) -> bool {
    let end_of_blocks = length.div_ceil(block) * block;
    // Both kernels have zeros up to the end of the last block.
    i + radius >= end_of_blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notebooks_kernels_match_unless_the_array_fills_its_blocks() {
        let differ = |length: usize| (0..length).filter(|&i| notebook_differs(i, length, 8, 256)).count();
        for (length, expected) in [(10_000, 0), (100_000, 0), (1_000_000, 0), (10_000_000, 0), (10_240, 8), (10_235, 3)]
        {
            assert_eq!(differ(length), expected, "{length}");
        }
    }

    #[test]
    fn mirrors_walk_back_and_forth() {
        let seen: Vec<_> = (-5..9).map(|i| mirrored(i, 4)).collect();
        assert_eq!(seen, [1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2]);
        assert_eq!(mirrored(-7, 1), 0);
    }
}
