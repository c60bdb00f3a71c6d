//! The sum of an array: the notebook's tree and its serial second pass, and warp shuffles.

use kernels_gpu::tutorials::reduce::{self, shuffle_depth, tree_depth};
use rayon::prelude::*;

use super::{BLOCK, lengths, normal};
use crate::tutorial::judge::{self, gamma};
use crate::tutorial::launch::{InBlocks, Launcher};
use crate::tutorial::session::{Session, times_as_fast};
use crate::units::time;
use cuda_launch::Buffer;
use faltung::Result;
use kernels_gpu::tutorials::reduce::{FinalSum, SumReduction, SumShuffle};

/// Blocks of the first pass by shuffles on the emulator, which has no multiprocessors to count.
const EMULATED_BLOCKS: u32 = 8;
/// Blocks of 256 threads that a multiprocessor holds at a time: 2,048 threads.
const BLOCKS_OF_A_MULTIPROCESSOR: u32 = 8;

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(session.options.seed + 2);
    session.note("\nSum of an array");
    the_notebooks_example(session)?;
    let mut rows = Vec::new();
    for length in lengths(session) {
        let values = normal(&mut random, 100.0, 10.0, length);
        let row = match session.launcher()? {
            Some(launcher) => on_device(session, &launcher, &values)?,
            None => on_cpu(session, &values)?,
        };
        rows.extend(row);
    }
    let title = "Sum: times on the device, mean of 7 runs";
    if session.is_emulator() {
        let columns = ["elements", "barriers: tree", "shuffles", "accesses: tree", "shuffles"];
        let title = "Sum, first passes: barriers of warps, accesses of warps to shared memory, counted by the emulator";
        session.table(title, &columns, rows);
    } else if !session.is_cpu() {
        let columns = ["elements", "two passes", "by shuffles", "speed-up", "two passes", "by shuffles"];
        session.table(format!("{title}; then parts of the copy rate"), &columns, rows);
    } else {
        session.table(title, &["elements", "the CPU, f64", "share of copy rate"], rows);
    }
    Ok(())
}

/// The arrays of both ways.
struct Arrays {
    input: Buffer<f32>,
    size: u32,
    /// One for each block of the tree.
    of_tree: Buffer<f32>,
    /// One for each block of the shuffles.
    of_shuffles: Buffer<f32>,
    total: Buffer<f32>,
}

impl Arrays {
    fn new(launcher: &Launcher, values: &[f32], blocks: u32) -> Result<Self> {
        Ok(Self {
            input: launcher.upload("input", values)?,
            size: values.len() as u32,
            of_tree: launcher.allocate("partial sums", values.len().div_ceil(BLOCK as usize).max(1))?,
            of_shuffles: launcher.allocate("partial sums", blocks as usize)?,
            total: launcher.allocate("total", 1)?,
        })
    }

    fn tree(&mut self) -> InBlocks<u32, SumReduction<'_>> {
        InBlocks(BLOCK, SumReduction { input: &self.input, output: &mut self.of_tree, size: self.size })
    }

    fn tree_end(&mut self) -> FinalSum<'_> {
        let count = self.of_tree.len() as u32;
        FinalSum { partial_sums: &self.of_tree, total: &mut self.total, count }
    }

    fn shuffles(&mut self) -> SumShuffle<'_> {
        SumShuffle { input: &self.input, output: &mut self.of_shuffles, size: self.size }
    }

    fn shuffles_end(&mut self) -> SumShuffle<'_> {
        let size = self.of_shuffles.len() as u32;
        SumShuffle { input: &self.of_shuffles, output: &mut self.total, size }
    }
}

/// Blocks of the first pass by shuffles: as many as the device holds at a time, or as the array fills.
fn blocks(session: &Session<'_>, length: usize) -> u32 {
    let most = session.device().gpu().map_or(EMULATED_BLOCKS, |gpu| gpu.sm_count * BLOCKS_OF_A_MULTIPROCESSOR);
    (length.div_ceil(reduce::BLOCK as usize) as u32).clamp(1, most)
}

/// The notebook's example: 10^6 ones, whose sum f32 holds exactly. On the emulator with `--quick` there are fewer.
fn the_notebooks_example(session: &mut Session<'_>) -> Result<()> {
    let length = if session.is_emulator() && session.options.quick { 100_000 } else { 1_000_000 };
    let ones = vec![1.0_f32; length];
    let sums = match session.launcher()? {
        Some(launcher) => {
            let mut arrays = Arrays::new(&launcher, &ones, blocks(session, length))?;
            launcher.launch(&arrays.tree())?;
            launcher.launch(&arrays.tree_end())?;
            let tree = launcher.download(&arrays.total)?;
            launcher.launch(&arrays.shuffles())?;
            launcher.launch(&arrays.shuffles_end())?;
            vec![("sum_reduction, final_sum", tree), ("sum_shuffle, twice", launcher.download(&arrays.total)?)]
        }
        None => vec![("the CPU", vec![sum(&ones)])],
    };
    for (name, found) in sums {
        session.check(format!("{name}, {length} ones"), judge::exact(&found, &[length as f32]));
    }
    Ok(())
}

/// Both ways on one array; a row of the table if both are right.
fn on_device(session: &mut Session<'_>, launcher: &Launcher, values: &[f32]) -> Result<Option<Vec<String>>> {
    let (length, blocks) = (values.len() as u64, blocks(session, values.len()));
    let mut arrays = Arrays::new(launcher, values, blocks)?;
    let tree = launcher.launch_counting(&arrays.tree())?;
    launcher.launch(&arrays.tree_end())?;
    let total = launcher.download(&arrays.total)?;
    let mut all_right =
        right(session, &format!("sum_reduction, final_sum, {length}"), values, total[0], tree_depth(length, BLOCK));
    let shuffles = launcher.launch_counting(&arrays.shuffles())?;
    launcher.launch(&arrays.shuffles_end())?;
    let total = launcher.download(&arrays.total)?;
    let depth = shuffle_depth(length, blocks);
    all_right &= right(session, &format!("sum_shuffle, {blocks} blocks, then 1, {length}"), values, total[0], depth);
    if !all_right {
        return Ok(None);
    }
    if let (Some(tree), Some(shuffles)) = (tree, shuffles) {
        let shared = |counts: cuda_emulator::Counts| {
            (counts.shared_loads.instructions + counts.shared_stores.instructions).to_string()
        };
        let barriers = [tree, shuffles].map(|counts| counts.barriers.to_string());
        let [of_tree, of_shuffles] = barriers;
        return Ok(Some(vec![length.to_string(), of_tree, of_shuffles, shared(tree), shared(shuffles)]));
    }
    let tree = session.time(launcher, || {
        launcher.launch(&arrays.tree())?;
        launcher.launch(&arrays.tree_end())
    })?;
    let shuffles = session.time(launcher, || {
        launcher.launch(&arrays.shuffles())?;
        launcher.launch(&arrays.shuffles_end())
    })?;
    let (Some(tree), Some(shuffles)) = (tree, shuffles) else { return Ok(None) };
    let bytes = 4.0 * length as f64;
    let parts = [session.of_copy_rate(bytes, &tree)?, session.of_copy_rate(bytes, &shuffles)?];
    let times = [time(tree.mean), time(shuffles.mean), times_as_fast(&tree, &shuffles)];
    Ok(Some([vec![length.to_string()], times.to_vec(), parts.to_vec()].concat()))
}

/// The CPU's sum; a row of the table.
fn on_cpu(session: &mut Session<'_>, values: &[f32]) -> Result<Option<Vec<String>>> {
    // One rounding, at the end: f64 loses nothing that f32 would show.
    if !right(session, &format!("the CPU, {}", values.len()), values, sum(values), 1) {
        return Ok(None);
    }
    let mut kept = 0.0;
    let timing = session.time_cpu(|| kept = std::hint::black_box(sum(std::hint::black_box(values))))?;
    let of_copy_rate = session.of_copy_rate(4.0 * values.len() as f64, &timing)?;
    Ok(Some(vec![values.len().to_string(), time(timing.mean), of_copy_rate]))
}

/// The sum in f64, rounded once. It has eight partial sums, which the compiler puts into vectors.
fn sum(values: &[f32]) -> f32 {
    let of_part = |part: &[f32]| -> f64 {
        let mut sums = [0.0_f64; 8];
        let chunks = part.chunks_exact(8);
        let rest: f64 = chunks.remainder().iter().map(|&value| f64::from(value)).sum();
        for chunk in chunks {
            for (sum, &value) in sums.iter_mut().zip(chunk) {
                *sum += f64::from(value);
            }
        }
        sums.iter().sum::<f64>() + rest
    };
    values.par_chunks(1 << 16).map(of_part).sum::<f64>() as f32
}

/// Checks a sum whose elements pass through `depth` additions each.
fn right(session: &mut Session<'_>, what: &str, values: &[f32], found: f32, depth: u64) -> bool {
    let exact: f64 = values.iter().map(|&value| f64::from(value)).sum();
    let magnitude: f64 = values.iter().map(|&value| f64::from(value).abs()).sum();
    let verdict = judge::within(&[found], &[exact], |_| gamma(depth) * magnitude);
    session.check(
        what,
        verdict.map(|how| format!("{found:e}; relative {:.1e}; {how}", (f64::from(found) - exact).abs() / magnitude)),
    )
}
