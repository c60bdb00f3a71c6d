//! ROCm's box blur: the tutorial's kernel, two faster methods, and four borders.

mod cpu;
mod edges;
mod in_place;

use cuda_emulator::Counts;
use kernels_gpu::abi::border::BorderMode;

use self::cpu::Box;
use super::judge::{self, CheckResult};
use super::photograph;
use super::session::{Session, times_as_fast};
use super::timing::MeanTime;
use crate::tutorial::launch::{KernelCall, Launcher};
use crate::units::digits;
use cuda_launch::Buffer;
use faltung::{
    Border, Device, Filter, Image, Mask, Operation, Pixel, PixelFormat, Prepared, Problem, Result, VariantChoice,
};
use kernels_gpu::tutorials::box_blur::BoxBlur;
use kernels_gpu::tutorials::box_running::{BoxFromPrefixSums, RowPrefixSums};
use kernels_gpu::tutorials::box_separable::{BoxSumColumns, BoxSumRows};

/// The side of the tutorial's mask.
const SIDE: usize = 200;
/// The divisor of all sides on the emulator, and the name of a picture of that size.
fn reduced(session: &Session<'_>) -> (usize, &'static str) {
    if session.options.quick { (8, "rocm-edges-eighth.png") } else { (4, "rocm-edges-quarter.png") }
}
/// The rows of a strip, which a thread of the running sums slides over. Each strip begins with the sum of a whole box,
/// so long strips load less. In a small picture long strips would make too few threads.
fn strip(pixels: usize) -> u32 {
    if pixels < 1 << 22 { 50 } else { 200 }
}

/// A method to blur.
#[derive(Clone, Copy, PartialEq)]
enum BlurMethod {
    Direct,
    Separable,
    Running,
}

impl BlurMethod {
    const ALL: [Self; 3] = [Self::Direct, Self::Separable, Self::Running];

    fn name(self) -> &'static str {
        match self {
            Self::Direct => "all products, the tutorial's",
            Self::Separable => "rows, then columns",
            Self::Running => "running sums",
        }
    }
}

/// A picture, a box, and the exact sums.
struct Work {
    image: Image<u8>,
    mask: Box,
    sums: Vec<u64>,
}

impl Work {
    fn new(image: Image<u8>, mask: Box) -> Self {
        let sums = cpu::sums(&image, mask, Border::ZERO);
        Self { image, mask, sums }
    }

    /// Checks a result of this method. Sums of integers are exact, and so is their rounding. The tutorial's sums are in
    /// f32: within 1 unit of the exact value.
    fn judge(&self, method: BlurMethod, found: &[u8]) -> CheckResult {
        let area = self.mask.area() as u64;
        if method == BlurMethod::Direct {
            let exact: Vec<f64> = self.sums.iter().map(|&sum| sum as f64 / area as f64).collect();
            return judge::pixels(found, &exact, 1.0);
        }
        let expected: Vec<u8> = self.sums.iter().map(|&sum| cpu::rounded(sum, area)).collect();
        judge::exact(found, &expected)
    }

    fn describe(&self) -> String {
        format!("{} x {}, mask {} x {}", self.image.width(), self.image.height(), self.mask.width, self.mask.height)
    }
}

/// A method whose result is right.
struct Row {
    name: String,
    method: BlurMethod,
    timing: Option<MeanTime>,
    counts: Option<Counts>,
}

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let full = photograph::grey()?;
    session.note(format!(
        "Image: {} x {}, 8 bits, grey; mask {SIDE} x {SIDE} of 1/({SIDE}*{SIDE}); positions outside are skipped; \
         blocks 16 x 16{}",
        full.width(),
        full.height(),
        session.of_the_kernel()
    ));
    in_place::run(session)?;
    let whole = Work::new(full, Box { width: SIDE, height: SIDE });
    let blurred = match session.launcher()? {
        Some(launcher) => on_device(session, &launcher, &whole)?,
        None => on_cpu(session, &whole)?,
    };
    session.picture("rocm-before.png", whole.image.clone());
    if let Some(blurred) = blurred {
        session.picture("rocm-after.png", Image::new(whole.image.width(), whole.image.height(), 1, blurred)?);
    }
    if session.is_emulator() {
        let (factor, name) = reduced(session);
        return edges::run(session, &smaller(&whole, factor)?, name);
    }
    edges::run(session, &whole, "rocm-edges.png")
}

/// The same picture and box, their sides divided.
fn smaller(whole: &Work, factor: usize) -> Result<Work> {
    let image = photograph::smaller(&whole.image, factor)?;
    Ok(Work::new(image, Box { width: whole.mask.width / factor, height: whole.mask.height / factor }))
}

/// Runs all methods on a device. Returns the blurred picture, if it is right.
fn on_device(session: &mut Session<'_>, launcher: &Launcher, whole: &Work) -> Result<Option<Vec<u8>>> {
    if launcher.is_emulator() {
        let (factor, _) = reduced(session);
        session.note(format!(
            "On the emulator: sides divided by {factor}, because {} loads would be checked one by one; running sums \
             at full size, too.",
            2 * whole.mask.area() * whole.image.values().len()
        ));
        let small = smaller(whole, factor)?;
        let rows = measure(session, launcher, &small, &BlurMethod::ALL)?.0;
        table(session, &small, &rows);
        let (rows, blurred) = measure(session, launcher, whole, &[BlurMethod::Running])?;
        table(session, whole, &rows);
        return Ok(blurred);
    }
    let (rows, blurred) = measure(session, launcher, whole, &BlurMethod::ALL)?;
    table(session, whole, &rows);
    if !session.options.quick {
        const TIMES: usize = 8;
        let image = photograph::repeated(&whole.image.map(f32::from), TIMES)?.map(<u8 as Pixel>::from_f32);
        let large = Work::new(image, whole.mask);
        session.note(format!("The photograph repeated {TIMES} x {TIMES} times:"));
        let rows = measure(session, launcher, &large, &BlurMethod::ALL)?.0;
        table(session, &large, &rows);
    }
    Ok(blurred)
}

/// Checks some methods on one picture, then times them or counts their accesses. Returns their rows and the last right
/// result.
fn measure(
    session: &mut Session<'_>,
    launcher: &Launcher,
    work: &Work,
    methods: &[BlurMethod],
) -> Result<(Vec<Row>, Option<Vec<u8>>)> {
    let (mut rows, mut answer) = (Vec::new(), None);
    for &method in methods {
        let mut arrays = Arrays::new(launcher, work)?;
        let counts = arrays.blur(launcher, work, method, true)?;
        let found = launcher.download(&arrays.result)?;
        if session.check(format!("{}, {}", method.name(), work.describe()), work.judge(method, &found)) {
            let timing = session.time(launcher, || arrays.blur(launcher, work, method, false).map(|_| ()))?;
            rows.push(Row { name: method.name().to_owned(), method, timing, counts });
            answer = Some(found);
        }
    }
    Ok((rows, answer))
}

/// The arrays of the kernels.
struct Arrays {
    image: Buffer<u8>,
    mask: Buffer<f32>,
    between: Buffer<u32>,
    result: Buffer<u8>,
}

impl Arrays {
    fn new(launcher: &Launcher, work: &Work) -> Result<Self> {
        let (pixels, area) = (work.image.values().len(), work.mask.area());
        Ok(Self {
            image: launcher.upload("image", work.image.values())?,
            mask: launcher.upload("mask", &vec![1.0 / area as f32; area])?,
            between: launcher.allocate("sums", pixels)?,
            result: launcher.allocate("result", pixels)?,
        })
    }

    /// Launches one or two kernels; counts, if asked and on the emulator.
    fn blur(&mut self, launcher: &Launcher, work: &Work, method: BlurMethod, count: bool) -> Result<Option<Counts>> {
        let (width, height) = (work.image.width() as u32, work.image.height() as u32);
        let (mask_width, mask_height) = (work.mask.width as u32, work.mask.height as u32);
        let Self { image, mask, between, result } = self;
        let skip = BorderMode::Constant.code();
        let mut counts = Counts::default();
        let mut launch = |call: &dyn KernelCall| -> Result<()> {
            if !count {
                return launcher.launch(call);
            }
            counts += launcher.launch_counting(call)?.unwrap_or_default();
            Ok(())
        };
        match method {
            BlurMethod::Direct => launch(&BoxBlur { image, result, mask, width, height, mask_width, mask_height })?,
            BlurMethod::Separable => {
                let area = mask_width * mask_height;
                launch(&BoxSumRows { image, sums: between, width, height, mask_width, border: skip })?;
                launch(&BoxSumColumns { sums: between, result, width, height, mask_height, area, border: skip })?;
            }
            BlurMethod::Running => {
                let strip = strip(work.image.values().len());
                launch(&RowPrefixSums { image, prefix: between, width, height })?;
                launch(&BoxFromPrefixSums { prefix: between, result, width, height, mask_width, mask_height, strip })?;
            }
        }
        Ok(launcher.is_emulator().then_some(counts))
    }
}

/// Runs all methods on the CPU. Returns the blurred picture, if it is right.
fn on_cpu(session: &mut Session<'_>, work: &Work) -> Result<Option<Vec<u8>>> {
    let (mut rows, mut answer) = (Vec::new(), None);
    let device = Device::cpu();
    let mut direct = Direct::new(&device, work, Border::ZERO)?;
    for method in BlurMethod::ALL {
        let name = match method {
            BlurMethod::Direct => format!("this project's convolution ({})", direct.convolution.variant()),
            _ => method.name().to_owned(),
        };
        let mut blur = || -> Result<Vec<u8>> {
            Ok(match method {
                BlurMethod::Direct => direct.blur()?,
                BlurMethod::Separable => cpu::separable(&work.image, work.mask),
                BlurMethod::Running => cpu::running(&work.image, work.mask),
            })
        };
        let found = blur()?;
        if session.check(format!("the CPU: {name}, {}", work.describe()), work.judge(method, &found)) {
            let mut failed = None;
            let timing = session.time_cpu(|| failed = blur().err())?;
            if let Some(error) = failed {
                return Err(error);
            }
            rows.push(Row { name, method, timing: Some(timing), counts: None });
            answer = Some(found);
        }
    }
    table(session, work, &rows);
    Ok(answer)
}

/// This project's convolution with a mask of equal coefficients.
struct Direct {
    convolution: Prepared,
    image: Image<u8>,
}

impl Direct {
    fn new(device: &Device, work: &Work, border: Border) -> Result<Self> {
        let area = work.mask.area();
        let mask = Mask::new(work.mask.width, work.mask.height, vec![1.0 / area as f32; area])?;
        let filter = Filter::new(mask).operation(Operation::Correlate).border(border);
        let format = PixelFormat::of::<u8, u8>(1);
        let problem = Problem::new(work.image.width(), work.image.height(), &filter)?.with_format(format)?;
        Ok(Self { convolution: device.prepare(&problem, VariantChoice::Auto)?, image: work.image.clone() })
    }

    fn blur(&mut self) -> Result<Vec<u8>> {
        Ok(self.convolution.apply::<u8, u8>(&self.image)?.into_values())
    }
}

/// Times and speed-ups, or what the emulator counted.
fn table(session: &mut Session<'_>, work: &Work, rows: &[Row]) {
    let pixels = work.image.values().len() as f64;
    let first = rows.iter().find(|row| row.method == BlurMethod::Direct).and_then(|row| row.timing);
    let timed = |row: &Row| {
        let timing = row.timing?;
        let speed_up = first.map_or("-".to_owned(), |first| times_as_fast(&first, &timing));
        Some(vec![row.name.clone(), timing.to_string(), digits(pixels / timing.mean), speed_up])
    };
    let cells = rows.iter().filter_map(timed).collect();
    let title = format!("{}: times, mean ± standard deviation of 7 runs", work.describe());
    session.table(title, &["", "time", "Mpixel/s", "speed-up"], cells);

    let counted = |row: &Row| {
        let counts = row.counts?;
        let each = |count: u64| digits(count as f64 / pixels);
        let (loads, stores) = (counts.global_loads, counts.global_stores);
        Some(vec![row.name.clone(), each(loads.threads), each(loads.transactions), each(stores.transactions)])
    };
    let cells = rows.iter().filter_map(counted).collect();
    let title = format!("{}: counted by the emulator", work.describe());
    session.table(title, &["per pixel:", "loads", "32-byte sectors loaded", "stored"], cells);
}
