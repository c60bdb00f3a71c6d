//! The course's convolution: 5 x 5, RGB, the mask in constant memory, tiles with and without idle threads.

use std::cell::Cell;

use cuda_emulator::Counts;
use kernels_gpu::tutorials::hpp::{BLOCK_WIDTH, BUSY_BLOCK, CHANNELS, HPP_MASK, MASK_WIDTH, O_TILE_WIDTH};

use super::judge::{self, CheckResult};
use super::photograph;
use super::session::{Session, times_as_fast};
use super::timing::MeanTime;
use crate::compare;
use crate::oracle::Oracle;
use crate::resident::Resident;
use crate::samples::{self, MaskSize};
use crate::tutorial::launch::{KernelCall, Launcher};
use crate::units::digits;
use cuda_launch::Buffer;
use faltung::{
    Accuracy, Device, ErrorBound, Filter, Image, Operation, Pixel, PixelFormat, Problem, Result, VariantChoice,
};
use kernels_gpu::tutorials::hpp::{HppConstant, HppTile, HppTileBusy};

/// The alignment of padded rows in bytes: a cache line.
const BURST: usize = 128;

/// The course's kernels, from the plain one on.
#[derive(Clone, Copy, PartialEq)]
enum Kernel {
    Constant,
    Tile,
    TileBusy,
}

impl Kernel {
    const ALL: [Self; 3] = [Self::Constant, Self::Tile, Self::TileBusy];

    fn name(self) -> &'static str {
        match self {
            Self::Constant => "hpp_constant",
            Self::Tile => "hpp_tile (course)",
            Self::TileBusy => "hpp_tile_busy",
        }
    }
}

/// A picture, and the result that every kernel must match bit-exactly.
struct Work {
    image: Image<f32>,
    filter: Filter,
    answer: Image<f32>,
}

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let mask = samples::mask(MaskSize::square(MASK_WIDTH as usize), session.options.seed, false)?;
    let coefficients = mask.coefficients().to_vec();
    // The course's kernels correlate.
    let filter = Filter::new(mask).operation(Operation::Correlate);
    let photograph = samples::coffee()?.map(|value| f32::from(value) / 255.0);
    introduce(session, &photograph);

    let Some((work, cpu)) = on_cpu(session, photograph, &filter)? else { return Ok(()) };
    if let Some(launcher) = session.launcher()? {
        launcher.set_constant::<HppTile<'_>>(HPP_MASK, &coefficients)?;
        on_device(session, &launcher, &work, Some(&cpu))?;
        if !launcher.is_emulator() && !session.options.quick {
            larger(session, &launcher, &work)?;
        }
    }
    let stretch = |value: f32| <u8 as Pixel>::from_f32(value * 255.0);
    session.picture("hpp-before.png", work.image.map(stretch));
    session.picture("hpp-after.png", work.answer.map(stretch));
    Ok(())
}

/// The sizes of the exercise, and the work of the threads.
fn introduce(session: &mut Session<'_>, photograph: &Image<f32>) {
    let (width, height) = (photograph.width(), photograph.height());
    session.note(format!(
        "Image: {width} x {height}, RGB, f32 from 0 to 1; mask {MASK_WIDTH} x {MASK_WIDTH} in constant memory"
    ));
    session
        .note(format!("O_TILE_WIDTH {O_TILE_WIDTH}, BLOCK_WIDTH {BLOCK_WIDTH} = {O_TILE_WIDTH} + {}", MASK_WIDTH - 1));
    let (threads, computing) = (BLOCK_WIDTH * BLOCK_WIDTH, O_TILE_WIDTH * O_TILE_WIDTH);
    session.note(format!(
        "A block of the course has {threads} threads; {computing} compute, {} load a pixel and wait: {} %",
        threads - computing,
        digits(100.0 * f64::from(threads - computing) / f64::from(threads))
    ));
    let tile = (BUSY_BLOCK.0 + MASK_WIDTH - 1) * (BUSY_BLOCK.1 + MASK_WIDTH - 1);
    let outputs = BUSY_BLOCK.0 * BUSY_BLOCK.1;
    session.note(format!(
        "Pixels loaded for an output: {} there, {} where {outputs} threads compute {outputs} outputs",
        digits(f64::from(threads) / f64::from(computing)),
        digits(f64::from(tile) / f64::from(outputs))
    ));
}

/// The CPU's result, checked against f64, and its time.
fn on_cpu(session: &mut Session<'_>, image: Image<f32>, filter: &Filter) -> Result<Option<(Work, MeanTime)>> {
    let problem = rgb_problem(&image, filter)?.with_accuracy(Accuracy::Exact);
    let device = Device::cpu();
    let convolution = device.prepare(&problem, VariantChoice::Auto)?;
    let answer: Image<f32> = convolution.apply(&image)?;
    if !session.check("the CPU (direct)", within(filter, &image, &answer)?) {
        return Ok(None);
    }
    let least = session.least();
    let timing = MeanTime::of(least, |loops| {
        let start = std::time::Instant::now();
        for _ in 0..loops {
            let _: Image<f32> = convolution.apply(&image)?;
        }
        Ok(start.elapsed())
    })?;
    if session.is_cpu() {
        let pixels = (image.width() * image.height()) as f64;
        let row = vec!["the CPU (direct)".to_owned(), timing.to_string(), digits(pixels / timing.mean)];
        session.table("Times, mean ± standard deviation of 7 runs", &["", "time", "Mpixel/s"], vec![row]);
    }
    Ok(Some((Work { image, filter: filter.clone(), answer }, timing)))
}

/// The filter on three interleaved channels.
fn rgb_problem(image: &Image<f32>, filter: &Filter) -> Result<Problem> {
    Problem::new(image.width(), image.height(), filter)?.with_format(PixelFormat::of::<f32, f32>(image.channels()))
}

/// Every channel against the oracle.
fn within(filter: &Filter, image: &Image<f32>, answer: &Image<f32>) -> Result<CheckResult> {
    let problem = &Problem::new(image.width(), image.height(), filter)?;
    let mut worst = 0.0_f64;
    for channel in 0..image.channels() {
        let oracle = Oracle::new(problem, image.channel(channel).values());
        let found =
            compare::with_oracle(&oracle, problem, answer.channel(channel).values(), ErrorBound::direct(problem));
        if !found.passes() {
            let (x, y) = found.worst;
            return Ok(Err(format!(
                "channel {channel}: {} outputs are beyond the bound, the worst in column {x}, row {y}, off by {:e}",
                found.failures, found.max_abs_error
            )));
        }
        worst = worst.max(found.error_over_bound);
    }
    Ok(Ok(format!("within {} of the bound against f64", judge::of_bound(worst))))
}

/// An image in device memory, its rows `pitch` elements apart.
struct Spacing {
    pitch: usize,
    padded: bool,
}

impl Spacing {
    /// Rows without gaps, or padded to whole bursts.
    fn of(image: &Image<f32>, padded: bool) -> Self {
        let row = image.width() * image.channels();
        let burst = BURST / size_of::<f32>();
        Self { pitch: if padded { row.next_multiple_of(burst) } else { row }, padded }
    }

    fn name(&self) -> String {
        format!("{}{}", self.pitch, if self.padded { " padded" } else { "" })
    }

    /// The image with padded rows. The padding is NaN, which must not change the result.
    fn spread(&self, image: &Image<f32>) -> Vec<f32> {
        let row = image.width() * image.channels();
        let mut values = vec![f32::NAN; self.pitch * image.height()];
        for (y, to) in values.chunks_exact_mut(self.pitch).enumerate() {
            to[..row].copy_from_slice(image.row(y));
        }
        values
    }

    /// The rows without padding.
    fn gathered(&self, values: &[f32], image: &Image<f32>) -> Vec<f32> {
        let row = image.width() * image.channels();
        values.chunks_exact(self.pitch).flat_map(|from| from[..row].iter().copied()).collect()
    }
}

/// Makes the call of a kernel.
fn call<'a>(
    kernel: Kernel,
    work: &Work,
    spacing: &Spacing,
    image: &'a Buffer<f32>,
    result: &'a mut Buffer<f32>,
) -> Box<dyn KernelCall + 'a> {
    let (width, height) = (work.image.width() as u32, work.image.height() as u32);
    let pitch = spacing.pitch as u32;
    match kernel {
        Kernel::Constant => Box::new(HppConstant { image, result, width, height, pitch }),
        Kernel::Tile => Box::new(HppTile { image, result, width, height, pitch }),
        Kernel::TileBusy => Box::new(HppTileBusy { image, result, width, height, pitch }),
    }
}

/// A kernel with a pitch whose result is right.
struct MeasuredKernel {
    kernel: Kernel,
    spacing: Spacing,
    timing: Option<MeanTime>,
    counts: Option<Counts>,
}

/// The course's kernels, without padding and with it: checked, then timed or counted.
fn on_device(session: &mut Session<'_>, launcher: &Launcher, work: &Work, cpu: Option<&MeanTime>) -> Result<()> {
    let mut measured = Vec::new();
    // On the emulator each access is checked; padding, which changes no count here, is left out when it should be
    // quick.
    let pitches = if launcher.is_emulator() && session.options.quick { &[false][..] } else { &[false, true] };
    for (kernel, &padded) in
        Kernel::ALL.into_iter().flat_map(|kernel| pitches.iter().map(move |padded| (kernel, padded)))
    {
        let spacing = Spacing::of(&work.image, padded);
        let image = launcher.upload("image", &spacing.spread(&work.image))?;
        // A kernel must not write to the padding of the result. It is filled here, and compared afterwards.
        let gaps = vec![f32::MAX; spacing.pitch * work.image.height()];
        let mut result = launcher.upload("result", &gaps)?;
        let counts = launcher.launch_counting(&*call(kernel, work, &spacing, &image, &mut result))?;
        let found = launcher.download(&result)?;
        let row = work.image.width() * work.image.channels();
        let untouched =
            found.chunks_exact(spacing.pitch).all(|values| values[row..].iter().all(|&gap| gap == f32::MAX));
        let verdict = if untouched {
            judge::bits(&spacing.gathered(&found, &work.image), work.answer.values())
        } else {
            Err("it wrote between the rows".to_owned())
        };
        if session.check(format!("{}, pitch {}", kernel.name(), spacing.name()), verdict) {
            let timing =
                session.time(launcher, || launcher.launch(&*call(kernel, work, &spacing, &image, &mut result)))?;
            measured.push(MeasuredKernel { kernel, spacing, timing, counts });
        }
    }
    let ours = of_this_project(session, work)?;
    times(session, work, &measured, ours.as_ref(), cpu);
    counts(session, work, &measured);
    Ok(())
}

/// The variant that `auto` takes for the problem, and its time. None if it is wrong, and on the emulator.
fn of_this_project(session: &mut Session<'_>, work: &Work) -> Result<Option<(String, MeanTime)>> {
    let device = session.device();
    let problem = rgb_problem(&work.image, &work.filter)?.with_accuracy(Accuracy::Exact);
    let convolution = device.prepare(&problem, VariantChoice::Auto)?;
    let found: Image<f32> = convolution.apply(&work.image)?;
    let name = format!("ours ({})", convolution.variant());
    if !session.check(name.clone(), judge::bits(found.values(), work.answer.values())) || session.is_emulator() {
        return Ok(None);
    }
    let mut resident = Resident::<_, f32>::new(device, &convolution, &work.image)?;
    Ok(Some((name, MeanTime::of(session.least(), |loops| resident.execute(loops))?)))
}

/// Times, if the device has any.
fn times(
    session: &mut Session<'_>,
    work: &Work,
    measured: &[MeasuredKernel],
    ours: Option<&(String, MeanTime)>,
    cpu: Option<&MeanTime>,
) {
    let course = Cell::new(None);
    let find = |one: &MeasuredKernel| {
        if one.kernel == Kernel::Tile && !one.spacing.padded {
            course.set(one.timing);
        }
    };
    measured.iter().for_each(find);
    let pixels = (work.image.width() * work.image.height()) as f64;
    let row = |name: String, pitch: String, timing: &MeanTime| {
        let against = course.get().map_or("-".to_owned(), |course| times_as_fast(&course, timing));
        vec![name, pitch, timing.to_string(), digits(pixels / timing.mean), against]
    };
    let mut rows: Vec<_> = measured
        .iter()
        .filter_map(|one| Some(row(one.kernel.name().to_owned(), one.spacing.name(), one.timing.as_ref()?)))
        .collect();
    if let Some((name, timing)) = ours {
        rows.push(row(name.clone(), "-".to_owned(), timing));
    }
    if let Some(cpu) = cpu.filter(|_| !rows.is_empty()) {
        rows.push(row("the CPU (direct)".to_owned(), "-".to_owned(), cpu));
    }
    let (width, height) = (work.image.width(), work.image.height());
    let title = format!("{width} x {height}, RGB: times on the device, mean ± standard deviation of 7 runs");
    session.table(title, &["kernel", "pitch", "time", "Mpixel/s", "vs tile"], rows);
}

/// What the emulator counted.
fn counts(session: &mut Session<'_>, work: &Work, measured: &[MeasuredKernel]) {
    let values = work.answer.values().len() as f64;
    let row = |one: &MeasuredKernel| {
        let counts = one.counts?;
        let of_lanes = |lanes: u64, warps: u64| digits(100.0 * lanes as f64 / (32 * warps) as f64);
        // Without shared memory the sums load from global memory.
        let sums = if counts.shared_loads.instructions > 0 { counts.shared_loads } else { counts.global_loads };
        Some(vec![
            one.kernel.name().to_owned(),
            one.spacing.name(),
            digits(counts.global_loads.transactions as f64 / values),
            digits(sums.instructions as f64 / values),
            format!("{} %", of_lanes(sums.threads, sums.instructions)),
            counts.bank_conflicts().to_string(),
            digits(counts.barriers as f64 / values),
        ])
    };
    let rows = measured.iter().filter_map(row).collect();
    let columns = ["kernel", "pitch", "sectors", "loads", "lanes", "conflicts", "barriers"];
    let title = format!(
        "Counted by the emulator from the addresses, for each value of the {CHANNELS} channels: sectors loaded,\n\
         loads of a warp to sum up, lanes at work in these, bank conflicts (of all), barriers of a warp"
    );
    session.table(title, &columns, rows);
}

/// The kernels on the repeated picture, which fills the device and hides the cost of a launch.
fn larger(session: &mut Session<'_>, launcher: &Launcher, work: &Work) -> Result<()> {
    const TIMES: usize = 8;
    let image = photograph::repeated(&work.image, TIMES)?;
    session.note(format!("The photograph repeated {TIMES} x {TIMES} times:"));
    let problem = rgb_problem(&image, &work.filter)?.with_accuracy(Accuracy::Exact);
    let device = Device::cpu();
    let answer: Image<f32> = device.prepare(&problem, VariantChoice::Auto)?.apply(&image)?;
    if !session.check("the CPU (direct)", within(&work.filter, &image, &answer)?) {
        return Ok(());
    }
    on_device(session, launcher, &Work { image, filter: work.filter.clone(), answer }, None)
}
