//! How long a kernel takes: the cost model.
//!
//! The time of a launch is a sum: a coefficient times each of its [`Terms`]. The terms follow from the problem, the
//! kernel's [`Spec`](kernels_gpu::registry::Spec) and the device. The coefficients are measured and never negative.
//! `host calibrate` measures them; [`Costs`] holds them.
//!
//! A round (in CUDA's words a wave) is as many blocks as one multiprocessor holds at a time. In
//! [`Grid::Tiles`](kernels_gpu::registry::Grid) a block counts as one row. In `Grid::Partition` it counts the image
//! rows that it reads.
//!
//! | term | what it counts |
//! | --- | --- |
//! | `launch` | launches |
//! | `l2_mb` | megabytes of image and result, if the second-level cache holds them; else 0 |
//! | `dram_mb` | the same, if it does not hold them; else 0 |
//! | `round` | rounds, times the rows of a block |
//! | `block` | blocks of the grid, divided by the multiprocessors; 0 in `Grid::Tiles`, where it would equal `row` |
//! | `row` | that quotient, times the rows of a block |
//! | `…_coefficient`, `…_height`, `…_width` | the above, times the mask's coefficients, height or width |
//! | `spilled` | `block`, also in `Grid::Tiles`, times the coefficients that the constant cache does not hold |
//! | `uncertain` | megabytes, times the coefficients, times the fraction of pixels that `tensor_core_u8` recomputes |
//! | `uncertain_squared` | the same, times that fraction again: a block's list of such pixels may overflow |
//! | `unaligned` | `row` (any mask: `row_coefficient`), if the bytes of an image row are no multiple of 16; else 0 |
//! | `off_centre` | the same, if the window reaches further to one side than to the other; else 0 |
//!
//! The conversion of planes to integers with a proof ([`PROOF`]) has these terms:
//!
//! | term | what it counts |
//! | --- | --- |
//! | `launch`, `l2_mb`, `dram_mb` | as above |
//! | `round_coefficient` | rounds, times the mask's coefficients |
//! | `row`, `row_width` | as above. A block has the rows under the windows of its tile, for each channel |
//! | `uncertain` | as above, with millions of values in the place of megabytes |
//!
//! The terms with the mask in their name are 0 for kernels of one mask size. Those of `launch` count one launch.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use kernels_gpu::registry::{Grid, MaskSize};
use kernels_gpu::util::planes::proven;

use super::{Geometry, Limits, Proof};
use crate::{Error, PixelFormat, Result};

/// The names of the terms.
pub(super) const TERMS: [&str; 23] = [
    "launch",
    "launch_coefficient",
    "launch_height",
    "launch_width",
    "dram_mb",
    "l2_mb",
    "round",
    "round_coefficient",
    "round_height",
    "round_width",
    "block",
    "block_coefficient",
    "block_height",
    "block_width",
    "row",
    "row_coefficient",
    "row_height",
    "row_width",
    "spilled",
    "uncertain",
    "uncertain_squared",
    "unaligned",
    "off_centre",
];

/// What the time of one kernel depends on: an amount for each term.
pub type Terms = [f64; TERMS.len()];

/// The name under which [`Costs`] has the coefficients of the conversions to and from planes.
pub const CONVERSION: &str = "planes";

/// The name under which [`Costs`] has the coefficients of the conversions of planes to integers with a proof.
pub const PROOF: &str = "proven_planes";

/// The most threads that a multiprocessor of an A100, H100 or H200 holds. Other GPUs may hold fewer.
const THREADS_PER_SM: u32 = 2048;

/// The most blocks that such a multiprocessor holds.
const BLOCKS_PER_SM: u64 = 32;

/// Coefficients that the constant cache of a multiprocessor holds.
const CONSTANT_CACHE: f64 = 2048.0;

/// The part of the second-level cache that keeps an image from one kernel to the next.
const L2_PART: f64 = 0.75;

/// Indices into [`TERMS`].
const LAUNCH: usize = 0;
const DRAM: usize = 4;
const L2: usize = 5;
const ROUND: usize = 6;
const BLOCK: usize = 10;
const ROW: usize = 14;
const SPILLED: usize = 18;
const UNCERTAIN: usize = 19;
const UNCERTAIN_SQUARED: usize = 20;
const UNALIGNED: usize = 21;
const OFF_CENTRE: usize = 22;

/// What a kernel's time depends on, apart from its grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The image and the result that the kernel reads and writes.
    pub(super) format: PixelFormat,
    /// The fraction of pixels whose rounding the fixed-point sum leaves open. `tensor_core_u8` recomputes them.
    pub(super) uncertain: f32,
    /// Whether the window reaches as far to the left as to the right.
    pub(super) is_centred: bool,
}

/// The terms of `megabytes` of traffic.
fn traffic(terms: &mut Terms, megabytes: f64, limits: &Limits) {
    let is_cached = megabytes * 1e6 <= L2_PART * limits.l2_bytes as f64;
    terms[if is_cached { L2 } else { DRAM }] += megabytes;
}

/// The terms of a convolution of `height` rows.
pub(super) fn convolution(geometry: &Geometry, height: usize, work: Work) -> Terms {
    let Geometry { entry, params, limits } = geometry;
    let mask = (params.mask_width as u32, params.mask_height as u32);
    let launches = geometry.launches(height, 0..height);
    let rows_of_blocks: u64 = launches.iter().map(|launch| u64::from(launch.grid.1)).sum();
    let blocks = launches.first().map_or(0, |launch| u64::from(launch.grid.0)) * rows_of_blocks;
    let per_sm = blocks.div_ceil(limits.sm_count.into()) as f64;

    let (block_x, block_y) = entry.block();
    // Each block takes 1024 bytes of shared memory for the system.
    let by_shared_memory = (limits.shared_bytes + 1024) / (entry.shared_bytes(mask) + 1024);
    let by_threads = u64::from(THREADS_PER_SM / (block_x * block_y));
    let mut resident = by_shared_memory.min(by_threads).min(BLOCKS_PER_SM);
    let mut rows = 1.0;
    if let Grid::Partition(partition) = entry.variant.spec().grid {
        resident = resident.min((partition.occupancy)(entry, mask).blocks_per_sm.into());
        rows = (height as u64).div_ceil(rows_of_blocks.max(1)) as f64 + f64::from(mask.1 - 1);
    }
    let rounds = (per_sm / resident.max(1) as f64).ceil();

    let values = (params.width as u32 * entry.channels) as usize;
    let megabytes = (values * height * (work.format.input.bytes() + work.format.output.bytes())) as f64 / 1e6;
    let coefficients = f64::from(mask.0) * f64::from(mask.1);
    let is_any_size = !matches!(entry.mask, MaskSize::Square(_));

    let mut terms = Terms::default();
    traffic(&mut terms, megabytes, limits);
    for (place, amount) in [(LAUNCH, 1.0), (ROUND, rounds * rows), (BLOCK, per_sm), (ROW, per_sm * rows)] {
        // There it would equal `row`.
        if place == BLOCK && !entry.variant.partitions_rows() {
            continue;
        }
        terms[place] = amount;
        if is_any_size {
            terms[place + 1] = amount * coefficients;
            terms[place + 2] = amount * f64::from(mask.1);
            terms[place + 3] = amount * f64::from(mask.0);
        }
    }
    terms[LAUNCH] = launches.len() as f64;
    if entry.variant.reads_constant_memory() && is_any_size {
        terms[SPILLED] = per_sm * (entry.coefficients(mask) as f64 - CONSTANT_CACHE).max(0.0);
    }
    let uncertain = f64::from(work.uncertain);
    terms[UNCERTAIN] = megabytes * coefficients * uncertain;
    terms[UNCERTAIN_SQUARED] = megabytes * coefficients * uncertain * uncertain;
    let hindered = per_sm * rows * if is_any_size { coefficients } else { 1.0 };
    let row_bytes = values * work.format.input.bytes();
    terms[UNALIGNED] = if row_bytes.is_multiple_of(16) { 0.0 } else { hindered };
    terms[OFF_CENTRE] = if work.is_centred { 0.0 } else { hindered };
    terms
}

/// The terms of a conversion of `values` values of `bytes` bytes to planes of `f32`, or back.
pub(super) fn conversion(values: usize, bytes: usize, limits: &Limits) -> Terms {
    let mut terms = Terms::default();
    terms[LAUNCH] = 1.0;
    traffic(&mut terms, (values * (bytes + size_of::<f32>())) as f64 / 1e6, limits);
    terms
}

/// The terms of a conversion with a proof, for an image of this width and height.
pub(super) fn proof(proof: &Proof, (width, height): (usize, usize), mask: (u32, u32), limits: &Limits) -> Terms {
    let Proof { conversion, uncertain, .. } = *proof;
    let mut terms = Terms::default();
    let values = width * height * conversion.channels as usize;
    terms[LAUNCH] = height.div_ceil(conversion.most_rows(mask, limits.shared_bytes) as usize) as f64;
    traffic(&mut terms, (values * (2 * conversion.pixel.bytes() + size_of::<f32>())) as f64 / 1e6, limits);
    let size = (width as u32, height as u32);
    let tile_rows = conversion.tile_rows(size, mask, (limits.sm_count, limits.shared_bytes));
    let (across, down) = conversion.grid(size, tile_rows);
    let per_sm = (u64::from(across) * u64::from(down)).div_ceil(limits.sm_count.into());
    let coefficients = f64::from(mask.0) * f64::from(mask.1);
    terms[ROUND + 1] = per_sm.div_ceil(proven::BLOCKS_PER_SM.into()) as f64 * coefficients;
    let per_sm = per_sm as f64;
    let rows = f64::from((tile_rows + mask.1 - 1) * conversion.channels);
    terms[ROW] = per_sm * rows;
    terms[ROW + 3] = per_sm * rows * f64::from(mask.0);
    terms[UNCERTAIN] = values as f64 / 1e6 * coefficients * f64::from(uncertain);
    terms
}

/// Measured coefficients of the cost model, in microseconds for each unit of a term.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// The device that they were measured on.
    pub device: String,
    /// When: year, month and day.
    pub date: String,
    /// The sources of the kernels, as [`kernels_gpu::ptx::SOURCE_HASH`](../../kernels_gpu/ptx/index.html) has them.
    pub kernels: String,
    /// The clock of the multiprocessors, in MHz.
    pub clock_mhz: u32,
    /// The bandwidth of device memory by its clock and its bus, in GB/s.
    pub memory_gb_s: u32,
    /// The coefficients of each kernel, by its symbol, and those of [`CONVERSION`] and [`PROOF`].
    pub kernel: HashMap<String, Terms>,
}

/// The costs that ship, the H100's first.
static SHIPPED: LazyLock<[Costs; 2]> = LazyLock::new(|| {
    [include_str!("costs/h100.csv"), include_str!("costs/h200.csv")]
        .map(|text| text.parse().expect("the costs that ship are right; a test reads them"))
});

impl Costs {
    /// Those that ship, measured on an H100 and on an H200.
    #[must_use]
    pub fn shipped() -> &'static [Self] {
        &*SHIPPED
    }

    /// Those of the H100.
    #[must_use]
    pub fn h100() -> &'static Self {
        &SHIPPED[0]
    }

    /// Of those that ship, the ones that were measured on the model of this device. Those of the H100 if there are none.
    #[must_use]
    pub fn shipped_for(device: &str) -> &'static Self {
        SHIPPED.iter().find(|costs| costs.is_of_model(device)).unwrap_or_else(Self::h100)
    }

    /// Whether they were measured on the model of GPU that has this name. The name of another variant of a model begins
    /// with that of the model, such as "NVIDIA H200 NVL".
    #[must_use]
    pub fn is_of_model(&self, device: &str) -> bool {
        device.starts_with(&self.device)
    }

    /// The predicted time of `terms` for a kernel on a device with these limits, in microseconds. Infinite for a kernel
    /// that was not measured.
    ///
    /// On another device, memory traffic scales with the bandwidths. Launches do not scale. The rest scales with the
    /// clocks.
    pub(super) fn predict(&self, kernel: &str, terms: &Terms, limits: &Limits) -> f64 {
        let Some(coefficients) = self.kernel.get(kernel) else { return f64::INFINITY };
        let ratio = |own: u32, other: u32| if own == 0 || other == 0 { 1.0 } else { f64::from(own) / f64::from(other) };
        let clock = ratio(self.clock_mhz, limits.clock_mhz);
        let memory = ratio(self.memory_gb_s, limits.memory_gb_s);
        let parts = coefficients.iter().zip(terms).enumerate();
        parts
            .map(|(place, (coefficient, amount))| {
                let scale = match place {
                    LAUNCH => 1.0,
                    DRAM => memory,
                    _ => clock,
                };
                coefficient * amount * scale
            })
            .sum()
    }
}

/// The first columns of the lines that say what was measured.
const FACTS: [&str; 5] = ["device", "date", "kernels", "clock_mhz", "memory_gb_s"];

impl fmt::Display for Costs {
    /// Writes them as comma-separated values: facts of the device, then a line for each kernel. Zeros are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, date, kernels, clock_mhz, memory_gb_s, kernel } = self;
        // A comma would begin the next column.
        let device = device.replace(',', " ");
        let facts = [device, date.clone(), kernels.clone(), clock_mhz.to_string(), memory_gb_s.to_string()];
        for (name, fact) in FACTS.iter().zip(facts) {
            writeln!(f, "{name},{fact}")?;
        }
        writeln!(f, "kernel,{}", TERMS.join(","))?;
        let mut symbols: Vec<_> = kernel.keys().collect();
        symbols.sort_unstable();
        for symbol in symbols {
            f.write_str(symbol)?;
            for &coefficient in &kernel[symbol] {
                if coefficient > 0.0 { write!(f, ",{coefficient:.4e}")? } else { f.write_str(",")? }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl std::str::FromStr for Costs {
    type Err = Error;

    /// # Errors
    /// [`Error::Parse`] with the first line that is not as [`Display`](fmt::Display) writes it.
    fn from_str(text: &str) -> Result<Self> {
        let error = |required: &str, found: &str| Error::Parse {
            what: "coefficients of the cost model",
            required: required.into(),
            found: found.into(),
        };
        let mut lines = text.lines();
        let mut fact = |name: &str| {
            let line = lines.next().unwrap_or_default();
            let value = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(','));
            value.map(str::to_owned).ok_or_else(|| error(&format!("a line \"{name},…\""), line))
        };
        let [device, date, kernels] = [fact(FACTS[0])?, fact(FACTS[1])?, fact(FACTS[2])?];
        let number = |text: String| text.parse::<u32>().map_err(|_| error("a whole number", &text));
        let (clock_mhz, memory_gb_s) = (number(fact(FACTS[3])?)?, number(fact(FACTS[4])?)?);
        let names = format!("kernel,{}", TERMS.join(","));
        let header = lines.next().unwrap_or_default();
        if header != names {
            return Err(error(&names, header));
        }
        let mut kernel = HashMap::new();
        for line in lines {
            let mut columns = line.split(',');
            let symbol = columns.next().unwrap_or_default();
            let mut coefficients = Terms::default();
            for coefficient in &mut coefficients {
                let column = columns.next().ok_or_else(|| error("a column for each term", line))?;
                if !column.is_empty() {
                    let found = column.parse().ok().filter(|&found: &f64| found.is_finite() && found >= 0.0);
                    *coefficient = found.ok_or_else(|| error("a number that is not negative", column))?;
                }
            }
            if columns.next().is_some() {
                return Err(error("a column for each term", line));
            }
            kernel.insert(symbol.to_owned(), coefficients);
        }
        Ok(Self { device, date, kernels, clock_mhz, memory_gb_s, kernel })
    }
}

/// Fits the coefficients to measured times by non-negative least squares on the relative errors.
///
/// An error of more than 5 % counts less than its square, so that few odd measurements don't spoil the others.
#[must_use]
pub fn fit(measured: &[(Terms, f64)]) -> Terms {
    /// Relative errors above this one count less.
    const ROBUST: f64 = 0.05;
    let mut weights = vec![1.0; measured.len()];
    let mut coefficients = Terms::default();
    for _ in 0..4 {
        coefficients = non_negative_least_squares(measured, &weights);
        for (weight, (terms, us)) in weights.iter_mut().zip(measured) {
            let predicted: f64 = coefficients.iter().zip(terms).map(|(coefficient, amount)| coefficient * amount).sum();
            let error = (predicted / us).max(1e-3).ln() / ROBUST;
            // Without the first factor an estimate twice too long would weigh more than one twice too short.
            *weight = (us / predicted.max(*us)) / (1.0 + error * error).sqrt().sqrt();
        }
    }
    coefficients
}

/// Minimises the weighted sum of squared relative errors by coordinate descent on the normal equations. The problem is
/// convex: the descent ends at the minimum.
fn non_negative_least_squares(measured: &[(Terms, f64)], weights: &[f64]) -> Terms {
    const COUNT: usize = TERMS.len();
    // Each term is divided by its largest amount per microsecond, so that one tolerance fits all.
    let mut scale = [0.0_f64; COUNT];
    for (terms, us) in measured {
        for (scale, amount) in scale.iter_mut().zip(terms) {
            *scale = scale.max(amount / us);
        }
    }
    let (mut products, mut target) = ([[0.0; COUNT]; COUNT], [0.0; COUNT]);
    for ((terms, us), weight) in measured.iter().zip(weights) {
        let row: [f64; COUNT] =
            std::array::from_fn(|i| if scale[i] > 0.0 { weight * terms[i] / us / scale[i] } else { 0.0 });
        for i in 0..COUNT {
            target[i] += row[i] * weight;
            for j in 0..COUNT {
                products[i][j] += row[i] * row[j];
            }
        }
    }
    let mut found = [0.0; COUNT];
    for _ in 0..20_000 {
        let mut change = 0.0_f64;
        for i in 0..COUNT {
            if products[i][i] > 0.0 {
                let slope: f64 = (0..COUNT).map(|j| products[i][j] * found[j]).sum::<f64>() - target[i];
                let next = (found[i] - slope / products[i][i]).max(0.0);
                change = change.max((next - found[i]).abs());
                found[i] = next;
            }
        }
        if change < 1e-9 {
            break;
        }
    }
    std::array::from_fn(|i| if scale[i] > 0.0 { found[i] / scale[i] } else { 0.0 })
}
