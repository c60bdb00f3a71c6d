//! The moving mean: each thread its own loads, or the block's through shared memory.

use rayon::prelude::*;

use super::{BLOCK, lengths, normal};
use crate::Result;
use crate::bench::report::units::{digits, time};
use crate::lab::{Array, Lab, MeanNaive, MeanShared};
use crate::tutorial::judge::{self, U, gamma};
use crate::tutorial::session::{Session, times_as_fast};

/// The notebook's radius in its table.
const RADIUS: u32 = 8;

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(session.settings.seed + 1);
    session
        .note(format!("\n1-D mean, radius {RADIUS} (window {}), both ends mirrored in both kernels", 2 * RADIUS + 1));
    the_notebooks_ends(session);
    let mut rows = Vec::new();
    for length in lengths(session) {
        let input = normal(&mut random, 100.0, 10.0, length);
        let row = match session.lab() {
            Some(mut lab) => on_device(session, &mut lab, &input)?,
            None => on_cpu(session, &input)?,
        };
        rows.extend(row);
    }
    let title = "1-D mean: times on the device, mean of 7 runs";
    match (session.lab().is_some(), session.is_emulator()) {
        (_, true) => {
            let columns = ["elements", "match", "global sectors, naive", "shared", "bank conflicts"];
            session.table("1-D mean: counted by the emulator, sectors of 32 bytes an element", &columns, rows);
        }
        (true, false) => {
            let columns =
                ["elements", "naive", "shared", "speed-up", "match", "naive / copy rate", "shared / copy rate"];
            session.table(title, &columns, rows);
        }
        (false, false) => {
            session.table(title, &["elements", "the CPU, each window", "of the copy rate"], rows);
        }
    }
    Ok(())
}

/// Both kernels on one array; a row of the table if both are right.
fn on_device<'d>(session: &mut Session<'d>, lab: &mut Lab<'d>, values: &[f32]) -> Result<Option<Vec<String>>> {
    let size = values.len() as u32;
    let input = lab.upload("input", values)?;
    let mut output = [lab.allocate("naive", values.len())?, lab.allocate("shared", values.len())?];
    let [naive, shared] = &mut output;
    let counts =
        [lab.launch_counting(&plain(&input, naive, size))?, lab.launch_counting(&through(&input, shared, size))?];
    let found = [lab.download(&output[0])?, lab.download(&output[1])?];
    if !right(session, &format!("mean_filter_1d_naive, {size}"), values, &found[0]) {
        return Ok(None);
    }
    let matches = judge::bits(&found[1], &found[0]);
    let what = format!("mean_filter_1d_shared, {size}");
    if !session.check(what, matches.map(|_| "has the naive kernel's bits".to_owned())) {
        return Ok(None);
    }
    if let [Some(naive), Some(shared)] = counts {
        let each = |count: u64| digits(count as f64 / values.len() as f64);
        let sectors = [naive, shared].map(|counts| each(counts.global_loads.transactions));
        let [naive, of_shared] = sectors;
        return Ok(Some(vec![size.to_string(), "True".into(), naive, of_shared, shared.bank_conflicts().to_string()]));
    }
    let [naive, shared] = &mut output;
    let times = [
        session.time(lab, |lab| lab.launch(&plain(&input, naive, size)))?,
        session.time(lab, |lab| lab.launch(&through(&input, shared, size)))?,
    ];
    let [Some(naive), Some(shared)] = times else { return Ok(None) };
    let bytes = 8.0 * f64::from(size);
    let (of_naive, of_shared) = (session.of_copy_rate(bytes, &naive)?, session.of_copy_rate(bytes, &shared)?);
    let speed_up = times_as_fast(&naive, &shared);
    let milliseconds = |mean: f64| format!("{:.5} ms", mean / 1e3);
    let cells = [milliseconds(naive.mean), milliseconds(shared.mean), speed_up, "True".into(), of_naive, of_shared];
    Ok(Some([vec![size.to_string()], cells.to_vec()].concat()))
}

/// The call of the naive kernel.
fn plain<'a, 'd>(input: &'a Array<'d, f32>, output: &'a mut Array<'d, f32>, size: u32) -> MeanNaive<'a, 'd> {
    MeanNaive { input, output, size, radius: RADIUS, block: BLOCK }
}

/// The call of the kernel with shared memory, the whole window in one piece.
fn through<'a, 'd>(input: &'a Array<'d, f32>, output: &'a mut Array<'d, f32>, size: u32) -> MeanShared<'a, 'd> {
    MeanShared { input, output, size, radius: RADIUS, piece: 2 * RADIUS + 1, block: BLOCK }
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
    // To the rounding of the sums comes that of the quotient.
    let verdict = judge::within(found, &exact, |i| (gamma(window as u64) + U) * magnitude[i] * (1.0 + U));
    session.check(what, verdict)
}

/// The window of the last elements as the notebook's two kernels have it: its naive one puts zeros beyond the array, the one with shared
/// memory only where the last block has threads, and mirrors beyond the block.
fn the_notebooks_ends(session: &mut Session<'_>) {
    for length in [10_000, 10_240] {
        let differ = (0..length).filter(|&i| notebook_differs(i, length, RADIUS as usize, BLOCK as usize)).count();
        let verdict = if differ == 0 { "match" } else { "do not match" };
        session.note(format!(
            "  the notebook's own two kernels {verdict} at {length} elements: {differ} windows differ at the right end",
        ));
    }
    session.note(
        "  (at its four lengths 96 to 240 threads of the last block stand for no element, so that both add zeros there)",
    );
}

/// Whether the notebook's two kernels see different values in the window of element `i`.
fn notebook_differs(i: usize, length: usize, radius: usize, block: usize) -> bool {
    let end_of_blocks = length.div_ceil(block) * block;
    // Up to the end of the last block both have zeros.
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
