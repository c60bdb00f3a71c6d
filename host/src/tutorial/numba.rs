//! Numba's tutorial: a 13 x 13 convolution of a crop of the coffee picture.

use super::judge;
use super::session::{Session, times_as_fast};
use super::timing::MeanTime;
use crate::oracle::Oracle;
use crate::resident::Resident;
use crate::samples::{self, MaskSize};
use crate::tutorial::launch::{KernelCall, Launcher};
use crate::units::digits;
use cuda_launch::Buffer;
use faltung::{Accuracy, Device, Filter, Image, Mask, Prepared, Problem, Result, VariantChoice};
use kernels_gpu::tutorials::numba::BLOCK;
use kernels_gpu::tutorials::numba::{NumbaConvolve, NumbaConvolveByColumns};

/// The problem, and its exact answer.
struct Work {
    image: Image,
    mask: Mask,
    problem: Problem,
    oracle: Oracle,
}

/// The times of a right result.
struct Row {
    name: &'static str,
    with_transfers: Option<MeanTime>,
    on_the_device: Option<MeanTime>,
}

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let image = samples::grey_crop()?;
    let mask = samples::mask(MaskSize::square(13), session.options.seed, false)?;
    let problem = Problem::new(image.width(), image.height(), &Filter::new(mask.clone()).accuracy(Accuracy::Exact))?;
    let oracle = Oracle::new(&problem, image.values());
    let work = Work { image, mask, problem, oracle };
    introduce(session, &work);

    let mut rows = Vec::new();
    let mut answer = None;
    if let Some(launcher) = session.launcher()? {
        of_the_tutorial(session, &launcher, &work, &mut rows)?;
        let device = session.device();
        answer = of_this_project(session, device, "this project's choice", &work, &mut rows)?;
    }
    let on_cpu = of_this_project(session, &Device::cpu(), "the CPU", &work, &mut rows)?;
    table(session, &rows);
    pictures(session, &work, answer.or(on_cpu))
}

/// What the tutorial prints first.
fn introduce(session: &mut Session<'_>, work: &Work) {
    let (mask, image) = (&work.mask, &work.image);
    session.note(format!(
        "Image: {} x {}, f32, of rows 150 to 349 and columns 200 to 399",
        image.height(),
        image.width()
    ));
    session.note(format!("Mask shape: ({}, {}), its sum {:.6}", mask.height(), mask.width(), mask.sum()));
    session.note("Mask, first (3, 3) elements:");
    for k in 0..3 {
        session.note(format!("  {:.8}  {:.8}  {:.8}", mask.at(k, 0), mask.at(k, 1), mask.at(k, 2)));
    }
    let blocks = |side: usize, threads: u32| side.div_ceil(threads as usize);
    let of_the_kernel = session.of_the_kernel();
    session.note(format!("Block dimensions: ({}, {}){of_the_kernel}", BLOCK.0, BLOCK.1));
    session.note(format!(
        "Grid dimensions: ({}, {}){of_the_kernel}",
        blocks(image.height(), BLOCK.0),
        blocks(image.width(), BLOCK.1)
    ));
}

/// The tutorial's arrays on the device.
struct Arrays {
    image: Buffer<f32>,
    mask: Buffer<f32>,
    result: Buffer<f32>,
}

impl Arrays {
    fn new(launcher: &Launcher, work: &Work) -> Result<Self> {
        Ok(Self {
            image: launcher.upload("image", work.image.values())?,
            mask: launcher.upload("mask", work.mask.coefficients())?,
            result: launcher.allocate("result", work.image.values().len())?,
        })
    }

    /// The call of the tutorial's kernel, or of the one with rows and columns exchanged.
    fn call<'a>(&'a mut self, work: &Work, by_columns: bool) -> Box<dyn KernelCall + 'a> {
        let (rows, columns) = (work.image.height() as u32, work.image.width() as u32);
        let (mask_rows, mask_columns) = (work.mask.height() as u32, work.mask.width() as u32);
        let Self { image, mask, result } = self;
        if by_columns {
            Box::new(NumbaConvolveByColumns { result, mask, image, rows, columns, mask_rows, mask_columns })
        } else {
            Box::new(NumbaConvolve { result, mask, image, rows, columns, mask_rows, mask_columns })
        }
    }
}

/// The tutorial's kernel, and the one with rows and columns exchanged.
fn of_the_tutorial(session: &mut Session<'_>, launcher: &Launcher, work: &Work, rows: &mut Vec<Row>) -> Result<()> {
    let mut sectors = Vec::new();
    for (name, by_columns) in [("x is the row (tutorial)", false), ("x is the column", true)] {
        let mut arrays = Arrays::new(launcher, work)?;
        let counts = launcher.launch_counting(&*arrays.call(work, by_columns))?;
        let found = launcher.download(&arrays.result)?;
        if !right(session, name, work, &found) {
            continue;
        }
        if let Some(counts) = counts {
            let loads = counts.global_loads;
            let each = digits(loads.transactions as f64 / loads.instructions as f64);
            sectors.push(vec![name.into(), loads.instructions.to_string(), loads.transactions.to_string(), each]);
        }
        let on_the_device = session.time(launcher, || launcher.launch(&*arrays.call(work, by_columns)))?;
        let mut back = found;
        let with_transfers = session.time(launcher, || {
            launcher.write(&mut arrays.image, work.image.values())?;
            launcher.write(&mut arrays.mask, work.mask.coefficients())?;
            launcher.launch(&*arrays.call(work, by_columns))?;
            launcher.read(&arrays.result, &mut back)
        })?;
        rows.push(Row { name, with_transfers, on_the_device });
    }
    let columns = ["kernel", "loads of a warp", "32-byte sectors", "sectors a load"];
    session.table("Global loads, counted by the emulator from the addresses", &columns, sectors);
    Ok(())
}

/// The variant that `auto` takes for the problem on a device. Returns its result, if it is right.
fn of_this_project(
    session: &mut Session<'_>,
    device: &Device,
    name: &'static str,
    work: &Work,
    rows: &mut Vec<Row>,
) -> Result<Option<Vec<f32>>> {
    let convolution: Prepared = device.prepare(&work.problem, VariantChoice::Auto)?;
    let mut found = vec![0.0; work.image.values().len()];
    convolution.apply_values(work.image.values(), &mut found)?;
    let what = format!("{name} ({})", convolution.variant());
    if !right(session, &what, work, &found) {
        return Ok(None);
    }
    if device.backend() == "emulator" {
        return Ok(Some(found));
    }
    let mut resident = Resident::<_, f32>::new(device, &convolution, &work.image)?;
    let least = session.least();
    let on_the_device = MeanTime::of(least, |loops| resident.execute(loops))?;
    let mut back = vec![0.0; found.len()];
    let with_transfers = MeanTime::of(least, |loops| {
        let start = std::time::Instant::now();
        for _ in 0..loops {
            convolution.apply_values(work.image.values(), &mut back)?;
        }
        Ok(start.elapsed())
    })?;
    rows.push(Row { name, with_transfers: Some(with_transfers), on_the_device: Some(on_the_device) });
    Ok(Some(found))
}

/// Checks a result: within the bound of 169 fused multiply-adds in f32, in any order, of the sum in f64.
fn right(session: &mut Session<'_>, what: &str, work: &Work, found: &[f32]) -> bool {
    let (exact, magnitude) = (&work.oracle.exact, &work.oracle.magnitude);
    let gamma = judge::gamma(work.mask.coefficients().len() as u64);
    let verdict = judge::within(found, exact, |i| gamma * magnitude[i]);
    let relative = found.iter().zip(exact).map(|(&found, exact)| (f64::from(found) - exact).abs() / exact.abs());
    let largest = relative.fold(0.0, f64::max);
    session.check(what, verdict.map(|text| format!("maximum relative error {largest:.2e} against f64; {text}")))
}

/// The two timings that the tutorial compares.
fn table(session: &mut Session<'_>, rows: &[Row]) {
    let Some(cpu) = rows.iter().find(|row| row.name == "the CPU").and_then(|row| row.on_the_device) else { return };
    let cells = |row: &Row| {
        let text = |timing: &Option<MeanTime>| timing.map_or("-".to_owned(), |timing| timing.to_string());
        let speed_up = row.on_the_device.map_or("-".to_owned(), |timing| times_as_fast(&cpu, &timing));
        vec![row.name.to_owned(), text(&row.with_transfers), text(&row.on_the_device), speed_up]
    };
    let rows: Vec<_> =
        rows.iter().filter(|row| row.with_transfers.is_some() || row.on_the_device.is_some()).map(cells).collect();
    let columns = ["", "with transfers", "on the device", "vs CPU"];
    session.table("Times, mean ± standard deviation of 7 runs", &columns, rows);
    if session.is_emulator() {
        session.note("The emulator has no times: a GPU's must be measured there.");
    }
}

/// Before and after, stretched to 0 to 255: the tutorial's image reaches up to 1/255. And the mask, whose values nobody
/// else has.
fn pictures(session: &mut Session<'_>, work: &Work, answer: Option<Vec<f32>>) -> Result<()> {
    let stretch = |value: f32| <u8 as faltung::Pixel>::from_f32(value * 255.0 * 255.0);
    session.note("The pictures are scaled by 255 x 255 to be seen; numba-mask.npy has the mask as it is.");
    let mask = &work.mask;
    session.picture("numba-mask.npy", Image::new(mask.width(), mask.height(), 1, mask.coefficients().to_vec())?);
    session.picture("numba-before.png", work.image.map(stretch));
    if let Some(answer) = answer {
        let after = Image::new(work.image.width(), work.image.height(), 1, answer)?;
        session.picture("numba-after.png", after.map(stretch));
    }
    Ok(())
}
