//! A run: measures every variant on every cell.

mod cpu_rows;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cuda_emulator::Counts;
use kernels_gpu::registry::Variant;

use super::clocks::Sensor;
use super::measure::{Cause, OnDevice, Sampling, measure, verify};
use super::report::{Cell, DeviceRates, Failure, NotEligible, Report, Timed, Verified};
use super::roofline::Work;
use super::system::{Build, Machine};
use super::verify::Expected;
use super::workload::BenchImage;
use super::{Event, Settings, Wanted, cache};
use crate::samples::{self, ImageSize, MaskSize};
use faltung::memory::{self, Reservation};
use faltung::plan::{Limits, Plan};
use faltung::{
    Accuracy, AnyImage, Device, DeviceChoice, Error, Filter, Image, PixelFormat, Problem, Result, VariantChoice,
    each_type,
};

/// The shortest batch on a GPU. A launch and the resolution of its events (0.5 µs) are short against it.
const GPU_BATCH: Duration = Duration::from_millis(5);
/// The shortest batch with cold caches, without the times of evictions. The events of each run have the resolution, so
/// a batch has some runs of a small image.
const GPU_COLD_BATCH: Duration = Duration::from_micros(50);
/// The warm-up of a GPU, which idles while the oracle computes.
const GPU_WARM_UP: Duration = Duration::from_millis(40);
/// How often the ceilings are measured after a cell, at most.
const CEILINGS_AFTER_CELL: usize = 2;

/// Measures, and reports the progress to `show`.
///
/// # Errors
/// [`Error::NoDevice`] and [`Error::Driver`] if the device that was asked for can't be opened, [`Error::NeedsGpu`] if
/// a GPU's variant was asked of the CPU, [`Error::HostMemory`] if a picture is too large for this machine, and those of
/// [`Problem::new`]. What goes wrong with single variants is in the report.
pub fn run(settings: &Settings, show: &mut dyn FnMut(Event<'_>)) -> Result<Report> {
    reserve_memory(settings)?.during(|| measured(settings, show))
}

/// [`run`] under its reservation of memory.
fn measured(settings: &Settings, show: &mut dyn FnMut(Event<'_>)) -> Result<Report> {
    let start = Instant::now();
    let (gpu, no_gpu) = open_gpu(settings)?;
    let cpu_device = Device::cpu();

    show(Event::Step(format_args!("measuring the rates of this machine")));
    let info = gpu.as_ref().and_then(Device::gpu).cloned();
    let first_rates = measure_rates(gpu.as_ref().filter(|_| info.is_some()), &cpu_device)?;
    let machine = Machine {
        emulator: gpu.as_ref().filter(|_| info.is_none()).map(Device::describe),
        gpu: info.zip(first_rates.gpu),
        no_gpu,
        cpu_name: faltung::cpu_name(),
        cpu: cpu_device.describe(),
        cpu_threads: rayon::current_num_threads(),
        cpu_rates: first_rates.cpu,
        cpu_cache_bytes: cache::last_level_bytes(rayon::current_num_threads()),
        build: Build::this(),
    };
    show(Event::Machine(&machine));

    let (gpu, cpu) = (gpu.as_ref(), &cpu_device);
    let sensor = machine.gpu.as_ref().and_then(|(info, _)| Sensor::open(info));
    let mut bench = Bench { settings, gpu, cpu, machine, sensor, loaded: HashSet::new(), show };
    let mut cells = Vec::new();
    for subject in &settings.subjects {
        let image = subject.picture.image(settings.seed, settings.pixel, settings.channels)?;
        for &mask in &subject.masks {
            let mut cell = bench.cell(&subject.picture, &image, mask)?;
            bench.settle_rooflines(&mut cell);
            (bench.show)(Event::Cell(&cell));
            cells.push(cell);
        }
    }
    let machine = bench.machine;
    let Settings { border, page_locked, separable, min_time, seed, .. } = *settings;
    let (command, took) = (None, start.elapsed());
    let mut report =
        Report { machine, first_rates, border, page_locked, separable, command, min_time, seed, cells, took };
    report.settle_rooflines();
    Ok(report)
}

/// The rates of the devices, as they are now.
fn measure_rates(gpu: Option<&Device>, cpu: &Device) -> Result<DeviceRates> {
    Ok(DeviceRates { gpu: gpu.map(Device::rates).transpose()?, cpu: cpu.rates()? })
}

/// Raises the machine's rates to those that `measure` finds after a cell, and computes the cell's rooflines from the
/// best. Measures once more if a row is above the ceilings and nothing explains it. That row says so if it still is.
fn settle_rooflines(cell: &mut Cell, machine: &mut Machine, mut measure: impl FnMut() -> Option<DeviceRates>) {
    for _ in 0..CEILINGS_AFTER_CELL {
        if let Some(now) = measure() {
            machine.raise_rates(now);
        }
        cell.settle_rooflines(machine);
        if !cell.is_above_ceilings() {
            break;
        }
    }
}

/// Opens the GPU or its emulator. Without a GPU, `auto` returns the reason.
fn open_gpu(settings: &Settings) -> Result<(Option<Device>, Option<String>)> {
    // A variant by name needs a GPU. To leave it out silently would look like success.
    let named = settings.variants.iter().find_map(|wanted| match wanted {
        Wanted::One(choice) => choice.named().map(Variant::name),
        Wanted::All | Wanted::Exact => None,
    });
    let device = match (settings.device, named) {
        (DeviceChoice::Cpu, Some(variant)) => return Err(Error::NeedsGpu { variant }),
        (DeviceChoice::Cpu, None) => return Ok((None, None)),
        (DeviceChoice::Emulator, _) => return Ok((Some(Device::select(settings.device)?), None)),
        (DeviceChoice::Auto, Some(_)) => Device::cuda(0)?,
        (choice, _) => Device::select(choice)?,
    };
    let reason = device.reason().map(str::to_owned);
    Ok(if device.gpu().is_some() { (Some(device), None) } else { (None, reason) })
}

/// Reserves memory for the buffers of the largest picture before any is allocated.
fn reserve_memory(settings: &Settings) -> Result<Reservation> {
    // Image, answer, the CPU's answer, the CPU's resident copies of the first two: 4 bytes a value each. The oracle:
    // 16. While it is verified, answers and a plane as f32. The last 4 are for the CPU's tiles and lines.
    const BYTES_PER_VALUE: u128 = 8 * 4 + 16;
    let mut largest = (0, ImageSize { width: 0, height: 0 });
    for size in settings.subjects.iter().map(|subject| subject.picture.size()) {
        let values = Image::<f32>::checked_len(size.width, size.height, settings.channels)? as u128;
        if values > largest.0 {
            largest = (values, size);
        }
    }
    let evictor = if settings.cold { cache::evicting_bytes() } else { 0 };
    let (needed, size) = (largest.0 * BYTES_PER_VALUE + u128::from(evictor), largest.1);
    u64::try_from(needed).ok().and_then(memory::reserve).ok_or_else(|| {
        let free = memory::free().unwrap_or(0).into();
        Error::HostMemory { what: format!("to measure on {size} pixels"), needed, free }
    })
}

/// What a profiler would count for one run; None except on the emulator.
fn count<'a>(open: impl Fn() -> Result<OnDevice<'a>>, image: &AnyImage) -> Result<Option<Counts>> {
    let executor = open()?;
    each_type!(image, image => executor.prepared().counts(image.view()))
}

/// A run under way.
struct Bench<'a> {
    settings: &'a Settings,
    /// None without a GPU, or after it is lost.
    gpu: Option<&'a Device>,
    cpu: &'a Device,
    machine: Machine,
    /// What reads the GPU's clocks; None without NVML.
    sensor: Option<Sensor>,
    /// The modules whose kernels have run before.
    loaded: HashSet<&'static str>,
    show: &'a mut dyn FnMut(Event<'_>),
}

/// What all variants of a cell compute, and the expected result.
struct Task<'a> {
    problem: &'a Problem,
    image: &'a AnyImage,
    expected: Expected<'a>,
    answer: AnyImage,
}

/// An eligible variant of the GPU.
struct Candidate {
    choice: VariantChoice,
    accuracy: Accuracy,
    plan: Plan,
    preferred: bool,
    reason: String,
}

impl Bench<'_> {
    /// Measures the ceilings after a cell, and computes its rooflines from the best.
    fn settle_rooflines(&mut self, cell: &mut Cell) {
        let timed = self.machine.gpu.is_some();
        let (gpu, cpu, show) = (self.gpu.filter(|_| timed), self.cpu, &mut self.show);
        settle_rooflines(cell, &mut self.machine, || {
            show(Event::Step(format_args!("measuring the rates of this machine")));
            // An error of the device ends the next cell. The cells before stay in the report.
            measure_rates(gpu, cpu).ok()
        });
    }

    /// Measures all variants on one problem.
    fn cell(&mut self, picture: &BenchImage, image: &AnyImage, mask_size: MaskSize) -> Result<Cell> {
        let size = picture.size();
        let mask = samples::mask(mask_size, self.settings.seed, self.settings.separable)?;
        let Settings { border, pixel, output, channels, accuracy, .. } = *self.settings;
        let problem = Problem::new(size.width, size.height, &Filter::new(mask).border(border).accuracy(accuracy))?;
        let problem = &problem.with_format(PixelFormat { channels, input: pixel, output })?;
        let mut cell = Cell {
            picture: picture.name().to_owned(),
            image: size,
            mask: mask_size,
            format: problem.format(),
            border,
            cold: self.settings.cold,
            rows: Vec::new(),
            not_eligible: Vec::new(),
            failures: Vec::new(),
        };
        (self.show)(Event::Step(format_args!("{size}, mask {mask_size}: computing the exact answer, in f64")));
        let expected = Expected::new(problem, image);
        let mut task = Task {
            problem,
            image,
            expected,
            answer: AnyImage::zeros(image.width(), image.height(), channels, output)?,
        };

        // The CPU is first, because the GPU's results are compared with its exact result. Its rows are the last ones.
        let cpu_rows = self.cpu_rows(&mut cell, &mut task);
        if let Some(gpu) = self.gpu {
            for candidate in self.candidates(gpu, problem, &mut cell) {
                if self.gpu.is_none() {
                    break;
                }
                let row = self.gpu_row(gpu, candidate, &cpu_rows, &mut cell, &mut task);
                cell.rows.extend(row);
            }
        }
        cell.rows.extend(cpu_rows);
        Ok(cell)
    }

    /// The eligible variants among those to measure, each once. The cell lists the others.
    fn candidates(&self, gpu: &Device, problem: &Problem, cell: &mut Cell) -> Vec<Candidate> {
        // The emulator has an H100's.
        let limits = gpu.gpu().map_or(Limits::H100, faltung::GpuInfo::limits);
        let accuracy = self.settings.accuracy;
        let mut choices = Vec::new();
        for wanted in &self.settings.variants {
            match *wanted {
                // `auto` may compute in planes, which has no name.
                Wanted::All => choices
                    .extend(VariantChoice::all().skip(1).chain([VariantChoice::Auto]).map(|choice| (choice, accuracy))),
                Wanted::Exact => choices.push((VariantChoice::Auto, Accuracy::Exact)),
                Wanted::One(choice) => choices.push((choice, accuracy)),
            }
        }
        choices.retain(|(choice, _)| choice.named().is_none_or(|variant| accuracy.allows(Accuracy::of(variant))));
        let planned = |choice, accuracy| Plan::new(&problem.clone().with_accuracy(accuracy), limits, choice);
        let auto = planned(VariantChoice::Auto, accuracy).ok();
        let by_itself = if accuracy == Accuracy::Exact { "exact" } else { "auto" };
        let mut seen = HashSet::new();
        let mut candidates = Vec::new();
        for (choice, accuracy) in choices {
            match planned(choice, accuracy) {
                Ok(plan) if seen.insert((plan.entry.variant.name(), plan.planes.is_some())) => {
                    // By its name a variant may have another entry than `auto` takes.
                    let is_same = |auto: &&Plan| {
                        auto.entry.variant == plan.entry.variant && auto.planes.is_some() == plan.planes.is_some()
                    };
                    let taken = auto.as_ref().filter(is_same).cloned();
                    let preferred = taken.is_some();
                    let (choice, plan) = taken.map_or((choice, plan), |taken| (VariantChoice::Auto, taken));
                    let reason = match &auto {
                        Some(auto) if preferred => auto.reason.clone(),
                        Some(auto) => format!("{by_itself} takes {}: {}", auto.entry.variant.name(), auto.reason),
                        None => plan.reason.clone(),
                    };
                    candidates.push(Candidate { choice, accuracy, plan, preferred, reason });
                }
                Ok(_) => {}
                Err(reason) => {
                    let variant = choice.name();
                    if seen.insert((variant, false)) {
                        cell.not_eligible.push(NotEligible { backend: gpu.backend(), variant, reason });
                    }
                }
            }
        }
        candidates
    }

    /// A row of the GPU or the emulator; None if it failed, and the cell has the failure.
    fn gpu_row(
        &mut self,
        gpu: &Device,
        candidate: Candidate,
        cpu: &[Verified],
        cell: &mut Cell,
        task: &mut Task<'_>,
    ) -> Option<Verified> {
        let Candidate { choice, accuracy, plan, preferred, reason } = candidate;
        let (backend, variant, image) = (gpu.backend(), plan.entry.variant.name(), task.image);
        self.step(backend, variant, cell);
        let problem = task.problem.clone().with_accuracy(accuracy);
        let open = || OnDevice::new(gpu, &problem, choice);
        if self.machine.gpu.is_none() {
            let deviation = verify(open, image, &mut task.answer, &task.expected);
            let deviation = self.noted(deviation, backend, variant, cell)?;
            let counts = count(open, image).map_err(Cause::from);
            let counts = self.noted(counts, backend, variant, cell)?;
            return Some(Verified { backend, variant, reason, preferred, deviation, timed: None, counts });
        }
        let loaded_before = Some(!self.loaded.insert(plan.entry.module()));
        let Settings { page_locked, cold, min_time, .. } = *self.settings;
        let batch = if cold { GPU_COLD_BATCH } else { GPU_BATCH };
        let sampling = Sampling { warm_up: GPU_WARM_UP, batch, min_time };
        let open = || open().map(|executor| executor.page_locked(page_locked).cold(cold));
        let measured = measure(open, image, &mut task.answer, &task.expected, sampling, self.sensor.as_ref());
        let (deviation, times) = self.noted(measured, backend, variant, cell)?;
        let window = task.problem.window();
        // Tensor cores do not use the FP32 units, so only memory bounds them.
        let mask = (window.width() as u32, window.height() as u32);
        let products = if plan.entry.variant.spec().uses_fp32_units { plan.entry.coefficients(mask) } else { 0 };
        let work = Work::new(task.problem, products);
        let vs_cpu = cpu_rows::compared(times.kernel.us.median, deviation.bound.class(), cpu);
        let timed = Some(Timed::new(times, loaded_before, work, self.machine.ceilings(backend), vs_cpu));
        Some(Verified { backend, variant, reason, preferred, deviation, timed, counts: None })
    }

    /// Shows the next step.
    fn step(&mut self, backend: &str, variant: &str, cell: &Cell) {
        (self.show)(Event::Step(format_args!("{}, mask {}: {backend} {variant}", cell.image, cell.mask)));
    }

    /// The value if it is right. Else the cell gets the failure, and `show` reports it.
    fn noted<T>(
        &mut self,
        found: Result<T, Cause>,
        backend: &'static str,
        variant: &'static str,
        cell: &mut Cell,
    ) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(Cause::Failed(reason @ Error::DeviceMemory { .. })) => {
                cell.not_eligible.push(NotEligible { backend, variant, reason });
                None
            }
            Err(cause) => {
                if matches!(cause, Cause::Failed(Error::DeviceLost { .. })) {
                    // Nothing else can be measured on the device. It is reported once.
                    self.gpu = None;
                }
                let failure = Failure { backend, variant, image: cell.image, mask: cell.mask, cause };
                (self.show)(Event::Failure(&failure));
                cell.failures.push(failure);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;
    use crate::bench::roofline::AboveRoofline;
    use faltung::Rates;

    /// Settles the report's cell, whose row is at 50 % of the FMA ceiling of the first measurement, with such multiples
    /// of that ceiling before the cell and in later measurements. Returns the row's state, and how often was measured.
    fn settled(before: f64, later: &[f64]) -> (Option<AboveRoofline>, usize) {
        let mut report = report();
        let known = report.machine.cpu_rates;
        let rates = |times: f64| Rates { flop_per_s: times * known.flop_per_s, ..known };
        report.machine.cpu_rates = rates(before);
        let (cell, mut count) = (&mut report.cells[0], 0);
        settle_rooflines(cell, &mut report.machine, || {
            count += 1;
            Some(DeviceRates { gpu: None, cpu: rates(later[count - 1]) })
        });
        (cell.rows[1].timed.as_ref().expect("the CPU's row has times").above_roofline, count)
    }

    #[test]
    fn ceilings_are_measured_again_while_a_row_is_above_them() {
        // 50 % of the ceiling is reached. A third of the ceiling makes that 150 %.
        assert_eq!(settled(1.0, &[0.3]), (None, 1), "the best counts, not the last");
        assert_eq!(settled(0.33, &[1.0]), (None, 1), "the first measurement after the cell helps");
        assert_eq!(settled(0.33, &[0.33, 1.0]), (None, 2), "the second one does");
        assert_eq!(settled(0.33, &[0.33, 0.33]), (Some(AboveRoofline::CeilingTooLow), 2), "none does");
    }

    /// An error of the device ends no run here.
    #[test]
    fn without_new_rates_the_known_ones_count() {
        let mut report = report();
        settle_rooflines(&mut report.cells[0], &mut report.machine, || None);
        let timed = report.cells[0].rows[1].timed.as_ref().expect("the CPU's row has times");
        assert_eq!((timed.roofline_share(), timed.above_roofline), (Some(0.5), None));
    }
}
