//! A run: every variant on every cell, one after the other.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cuda_emulator::Counts;
use kernels_gpu::registry::Variant;

use super::measure::{Cause, OnDevice, Timing, measure, verify};
use super::report::{Cell, DeviceRates, Failure, NotEligible, Report, Timed, Verified, VsCpu};
use super::roofline::Work;
use super::system::{Build, Machine};
use super::verify::Expected;
use super::{Event, Settings, Wanted};
use crate::files::each_type;
use crate::workload::{self, ImageSize, MaskSize, Picture};
use faltung::memory::{self, Reservation};
use faltung::plan::{Limits, Plan};
use faltung::{
    Accuracy, AnyImage, Device, DeviceChoice, Error, Filter, Image, PixelFormat, Problem, Result, VariantChoice,
};

/// The shortest batch on a GPU: long against a launch and the half microsecond of its events.
const GPU_BATCH: Duration = Duration::from_millis(5);
/// How long a GPU computes before its times count: it has idled while the exact answer was computed.
const GPU_WARM_UP: Duration = Duration::from_millis(40);
/// The shortest batch on the CPU: long against its clock's steps, short enough that most runs stand alone.
const CPU_BATCH: Duration = Duration::from_micros(200);

/// Measures; `show` is told what happens while it happens.
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
        build: Build::this(),
    };
    show(Event::Machine(&machine));

    let (gpu, cpu) = (gpu.as_ref(), &cpu_device);
    let mut bench = Bench { settings, gpu, cpu, machine, loaded: HashSet::new(), show };
    let mut cells = Vec::new();
    for subject in &settings.subjects {
        let image = subject.picture.image(settings.seed, settings.pixel, settings.channels)?;
        for &mask in &subject.masks {
            let cell = bench.cell(&subject.picture, &image, mask)?;
            (bench.show)(Event::Cell(&cell));
            cells.push(cell);
            bench.raise_ceilings();
        }
    }
    let machine = bench.machine;
    let Settings { border, page_locked, min_time, seed, .. } = *settings;
    let mut report = Report { machine, first_rates, border, page_locked, min_time, seed, cells, took: start.elapsed() };
    report.settle_rooflines();
    Ok(report)
}

/// The rates of the devices, as they are now.
fn measure_rates(gpu: Option<&Device>, cpu: &Device) -> Result<DeviceRates> {
    Ok(DeviceRates { gpu: gpu.map(Device::rates).transpose()?, cpu: cpu.rates()? })
}

/// Opens the GPU that is to be measured, or its emulator, if any; or else says why there is none, if one was looked
/// for.
fn open_gpu(settings: &Settings) -> Result<(Option<Device>, Option<String>)> {
    // Without a GPU a variant by name can't be had, and leaving it out in silence would look like success.
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

/// Reserves memory for the buffers of the largest picture, before any is made.
fn reserve_memory(settings: &Settings) -> Result<Reservation> {
    // Image, answer, the CPU's answer, the CPU's resident copies of the first two: 4 bytes a value each. The oracle:
    // 16. While it is verified, answers and a plane as f32, and the CPU's planes where the image is not a plane of f32
    // itself.
    const BYTES_PER_VALUE: u128 = 8 * 4 + 16;
    let mut largest = (0, ImageSize { width: 0, height: 0 });
    for size in settings.subjects.iter().map(|subject| subject.picture.size()) {
        let values = Image::<f32>::checked_len(size.width, size.height, settings.channels)? as u128;
        if values > largest.0 {
            largest = (values, size);
        }
    }
    let (needed, size) = (largest.0 * BYTES_PER_VALUE, largest.1);
    u64::try_from(needed).ok().and_then(memory::reserve).ok_or_else(|| {
        let free = memory::free().unwrap_or(0).into();
        Error::HostMemory { what: format!("to measure on {size} pixels"), needed, free }
    })
}

/// What a profiler would count for one run; None on a device that can't tell.
fn count<'a>(open: impl Fn() -> Result<OnDevice<'a>>, image: &AnyImage) -> Result<Option<Counts>> {
    let executor = open()?;
    each_type!(image, image => executor.prepared().counts(image.view()))
}

/// A run under way.
struct Bench<'a> {
    settings: &'a Settings,
    /// None where there is none, or it is lost.
    gpu: Option<&'a Device>,
    cpu: &'a Device,
    machine: Machine,
    /// The modules whose kernels have run before.
    loaded: HashSet<&'static str>,
    show: &'a mut dyn FnMut(Event<'_>),
}

/// What all variants of a cell compute, and what they are held against.
struct Task<'a> {
    problem: &'a Problem,
    image: &'a AnyImage,
    expected: Expected<'a>,
    answer: AnyImage,
}

/// A variant of the GPU that can compute a cell.
struct Candidate {
    choice: VariantChoice,
    accuracy: Accuracy,
    plan: Plan,
    preferred: bool,
    reason: String,
}

impl Bench<'_> {
    /// Measures the ceilings again and keeps the best: one measurement may fall into a moment when the machine is busy
    /// or its clocks are low, and a ceiling is what the machine can do.
    fn raise_ceilings(&mut self) {
        (self.show)(Event::Step(format_args!("measuring the rates of this machine")));
        let timed = self.machine.gpu.is_some();
        // What is wrong with the device stops the next cell. What was measured until now is not lost for it.
        let Ok(now) = measure_rates(self.gpu.filter(|_| timed), self.cpu) else { return };
        if let (Some((_, best)), Some(now)) = (&mut self.machine.gpu, now.gpu) {
            *best = best.max(now);
        }
        self.machine.cpu_rates = self.machine.cpu_rates.max(now.cpu);
    }

    /// Measures all variants on one problem.
    fn cell(&mut self, picture: &Picture, image: &AnyImage, mask_size: MaskSize) -> Result<Cell> {
        let size = picture.size();
        let mask = workload::mask(mask_size, self.settings.seed, self.settings.separable)?;
        let Settings { border, pixel, output, channels, .. } = *self.settings;
        let problem = Problem::new(size.width, size.height, &Filter::new(mask).border(border))?;
        let problem = &problem.with_format(PixelFormat { channels, input: pixel, output })?;
        let mut cell = Cell {
            picture: picture.name().to_owned(),
            image: size,
            mask: mask_size,
            format: problem.format(),
            border,
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

        // The CPU first, because the GPU's answers are held against its; its row stands last.
        let cpu_row = self.cpu_row(&mut cell, &mut task);
        if cpu_row.is_some() {
            // Only a right one: a wrong one would blame the GPU for the CPU's fault.
            task.expected.set_cpu(&task.answer);
        }
        if let Some(gpu) = self.gpu {
            let cpu = cpu_row.as_ref().and_then(|row| Some((row.variant, row.timed?.times.kernel.us.median)));
            for candidate in self.candidates(gpu, problem, &mut cell) {
                if self.gpu.is_none() {
                    break;
                }
                let row = self.gpu_row(gpu, candidate, cpu, &mut cell, &mut task);
                cell.rows.extend(row);
            }
        }
        cell.rows.extend(cpu_row);
        Ok(cell)
    }

    /// The GPU's variants that are asked for and can, each once; what can't is noted in the cell.
    fn candidates(&self, gpu: &Device, problem: &Problem, cell: &mut Cell) -> Vec<Candidate> {
        // The emulator has an H100's.
        let limits = gpu.gpu().map_or(Limits::H100, faltung::GpuInfo::limits);
        let accuracy = self.settings.accuracy;
        let mut choices = Vec::new();
        for wanted in &self.settings.variants {
            match *wanted {
                // What computes in planes has no name.
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
                    let is_same =
                        |auto: &Plan| auto.entry == plan.entry && auto.planes.is_some() == plan.planes.is_some();
                    let preferred = auto.as_ref().is_some_and(is_same);
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

    /// The CPU's row; None if it failed, which is noted in the cell.
    fn cpu_row(&mut self, cell: &mut Cell, task: &mut Task<'_>) -> Option<Verified> {
        let (backend, image) = (self.cpu.backend(), task.image);
        let open = || OnDevice::new(self.cpu, task.problem, VariantChoice::Auto);
        // Has no buffers before it is used.
        let (variant, reason) = match open() {
            Ok(executor) => (executor.prepared().variant(), executor.prepared().reason()),
            Err(error) => return self.noted(Err(error.into()), backend, "auto", cell),
        };
        self.step(backend, variant, cell);
        let timing = Timing { warm_up: Duration::ZERO, batch: CPU_BATCH, min_time: self.settings.min_time };
        let measured = measure(open, image, &mut task.answer, &task.expected, timing);
        let (verdict, times) = self.noted(measured, backend, variant, cell)?;
        let work = Work::new(task.problem, (task.problem.window().width() * task.problem.window().height()) as u64);
        let roofline = work.roofline(self.machine.cpu_rates);
        let timed = Some(Timed { times, loaded_before: None, work, roofline, vs_cpu: None });
        // The CPU has one way only: nothing is preferred.
        Some(Verified { backend, variant, reason, preferred: false, verdict, timed, counts: None })
    }

    /// A row of the GPU or the emulator; None if it failed, which is noted in the cell.
    fn gpu_row(
        &mut self,
        gpu: &Device,
        candidate: Candidate,
        cpu: Option<(&'static str, f64)>,
        cell: &mut Cell,
        task: &mut Task<'_>,
    ) -> Option<Verified> {
        let Candidate { choice, accuracy, plan, preferred, reason } = candidate;
        let (backend, variant, image) = (gpu.backend(), plan.entry.variant.name(), task.image);
        self.step(backend, variant, cell);
        let problem = task.problem.clone().with_accuracy(accuracy);
        let open = || OnDevice::new(gpu, &problem, choice);
        let Some(rates) = self.machine.gpu.as_ref().map(|(_, rates)| *rates) else {
            let verdict = verify(open, image, &mut task.answer, &task.expected);
            let verdict = self.noted(verdict, backend, variant, cell)?;
            let counts = count(open, image).map_err(Cause::from);
            let counts = self.noted(counts, backend, variant, cell)?;
            return Some(Verified { backend, variant, reason, preferred, verdict, timed: None, counts });
        };
        let loaded_before = Some(!self.loaded.insert(plan.entry.module()));
        let timing = Timing { warm_up: GPU_WARM_UP, batch: GPU_BATCH, min_time: self.settings.min_time };
        let measured = if self.settings.page_locked {
            let open = || open().map(OnDevice::page_locked);
            measure(open, image, &mut task.answer, &task.expected, timing)
        } else {
            measure(open, image, &mut task.answer, &task.expected, timing)
        };
        let (verdict, times) = self.noted(measured, backend, variant, cell)?;
        let window = task.problem.window();
        // The products of tensor cores are not executed by the FP32 units: memory bounds them.
        let mask = (window.width() as u32, window.height() as u32);
        let products = if plan.entry.variant.spec().uses_fp32_units { plan.entry.coefficients(mask) } else { 0 };
        let work = Work::new(task.problem, products);
        let vs_cpu = cpu.map(|(method, us)| VsCpu { speedup: us / times.kernel.us.median, method });
        let timed = Some(Timed { times, loaded_before, work, roofline: work.roofline(rates), vs_cpu });
        Some(Verified { backend, variant, reason, preferred, verdict, timed, counts: None })
    }

    /// Shows what comes next.
    fn step(&mut self, backend: &str, variant: &str, cell: &Cell) {
        (self.show)(Event::Step(format_args!("{}, mask {}: {backend} {variant}", cell.image, cell.mask)));
    }

    /// What was found, if it is right. Else it is shown and noted in the cell.
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
                    // Nothing else can be measured on it: said once.
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
