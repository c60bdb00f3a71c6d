//! `host info`: what this program is made of and what it finds on this machine.

mod choices;

use std::fmt::{self, Display};

use anyhow::Result;
use faltung::plan::Limits;
use faltung::{Accuracy, Device, DeviceChoice, GpuInfo, calibration};
use host::bench::ImageSize;
use host::check::CPU_METHODS;
use kernels_gpu::ptx;
use kernels_gpu::registry::{Entry, MaskSize, entries};
use serde::Serialize;

use self::choices::Choice;
use super::remedy::{Remedy, remedy};
use super::{Outcome, output};

/// Show the version, the driver, the devices and the kernels
#[derive(clap::Args)]
pub(super) struct Args {
    /// JSON instead of text
    #[arg(long)]
    json: bool,

    /// The device whose choice of kernels is shown; the emulator's is that of an H100
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,

    /// The image's size that the choice is shown for
    #[arg(long, value_name = "N|WxH", default_value = "4096")]
    size: ImageSize,
}

/// Everything that is shown.
#[derive(Serialize)]
struct Info {
    version: &'static str,
    /// Its name, the number of threads, and the instruction set that it computes with.
    cpu: String,
    cpu_methods: Vec<Method>,
    driver: Driver,
    devices: Vec<CudaDevice>,
    auto: Auto,
    /// The device that the choices are for.
    choices_on: String,
    /// Columns and rows of the image that they are for.
    size: [usize; 2],
    /// None on the CPU.
    costs: Option<Costs>,
    choices: Vec<Choice>,
    ptx: Ptx,
    kernels: Vec<Kernel>,
}

#[derive(Serialize)]
struct Driver {
    /// The newest CUDA version that the driver supports, such as "13.0".
    cuda: Option<String>,
    /// Why no device can be used.
    reason: Option<String>,
    /// What the dynamic loader said, if it did not find the driver.
    loader: Option<String>,
    /// What this machine lacks for a device, and the command that gets it.
    remedy: Option<Remedy>,
}

#[derive(Serialize)]
struct CudaDevice {
    number: usize,
    name: String,
    compute_capability: String,
    sm_count: u32,
    memory_bytes: usize,
    shared_bytes_per_block: u64,
}

#[derive(Serialize)]
struct Auto {
    device: String,
    reason: Option<String>,
}

/// Where the coefficients of the cost model come from.
#[derive(Serialize)]
struct Costs {
    /// The device that they were measured on.
    device: String,
    /// The date of the measurement.
    date: String,
    /// Whether they were measured on this machine, by `host calibrate`.
    calibrated: bool,
    /// Whether they are of another model of GPU, and scaled to this one.
    scaled: bool,
    /// Why a file of `host calibrate` is not used, if there is one.
    error: Option<String>,
}

/// A method of the CPU.
#[derive(Serialize)]
struct Method {
    name: &'static str,
    /// The accuracy class of results of `f32`: "exact" or "bounded".
    accuracy: &'static str,
    summary: &'static str,
}

/// What the PTX was made of, and with.
#[derive(Clone, Copy, Serialize)]
struct Ptx {
    /// The oldest architecture that it runs on.
    arch: &'static str,
    rustc: &'static str,
    source_hash: &'static str,
}

#[derive(Clone, Serialize)]
struct Kernel {
    symbol: &'static str,
    variant: &'static str,
    /// The type of the image's values.
    pixel: &'static str,
    channels: u32,
    /// The accuracy class that it keeps: "exact" or "bounded".
    accuracy: &'static str,
    /// Width and height of the masks that it takes; null for any.
    mask: Option<[u32; 2]>,
    summary: &'static str,
}

impl Costs {
    /// Those that plans for the device use.
    fn of(device: &Device) -> Option<Self> {
        if device.backend() == "cpu" {
            return None;
        }
        let gpu = device.gpu();
        let error = gpu
            .and_then(|gpu| calibration::file(&gpu.name))
            .and_then(|path| calibration::read(&path).err())
            .map(|error| error.to_string());
        let costs = gpu.map_or(Limits::H100, GpuInfo::limits).costs();
        let (device, date) = (costs.device.clone(), costs.date.clone());
        let calibrated = gpu.is_some_and(|gpu| gpu.costs.is_some());
        let scaled = !calibrated && gpu.is_some_and(|gpu| !costs.is_of_model(&gpu.name));
        Some(Self { device, date, calibrated, scaled, error })
    }
}

/// Prints what there is.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let info = Info::gather(args.device, args.size)?;
    if args.json {
        output::result(format_args!("{}\n", serde_json::to_string_pretty(&info)?))?;
    } else {
        output::result(info)?;
    }
    Ok(Outcome::Done)
}

impl Info {
    fn gather(chooser: DeviceChoice, size: ImageSize) -> Result<Self> {
        let auto = Device::auto();
        let asked_for = if chooser == DeviceChoice::Auto { None } else { Some(super::select(chooser)?) };
        let chooser = asked_for.as_ref().unwrap_or(&auto);
        let found = faltung::devices();
        let remedy = remedy(found.as_ref().err(), found.as_ref().map_or(0, Vec::len));
        let (devices, reason) = match found {
            Ok(devices) if devices.is_empty() => (devices, Some("the driver finds no device".to_owned())),
            Ok(devices) => (devices, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let loader = match cuda_driver::load() {
            Err(cuda_driver::LoadError::NotFound { reason, .. }) => Some(reason),
            _ => None,
        };
        Ok(Self {
            version: env!("CARGO_PKG_VERSION"),
            cpu: Device::cpu().describe(),
            cpu_methods: CPU_METHODS
                .map(|method| Method { name: method.name, accuracy: method.accuracy.name(), summary: method.summary })
                .into(),
            driver: Driver { cuda: devices.first().map(|device| device.driver()), reason, loader, remedy },
            devices: devices.iter().map(CudaDevice::from).collect(),
            choices_on: chooser.describe(),
            size: [size.width, size.height],
            costs: Costs::of(chooser),
            choices: choices::of(chooser, size)?,
            auto: Auto { device: auto.describe(), reason: auto.reason().map(str::to_owned) },
            ptx: Ptx { arch: ptx::ARCH, rustc: ptx::RUSTC, source_hash: ptx::SOURCE_HASH },
            kernels: entries().map(Kernel::from).collect(),
        })
    }
}

impl From<&GpuInfo> for CudaDevice {
    fn from(gpu: &GpuInfo) -> Self {
        let (major, minor) = gpu.compute_capability;
        Self {
            number: gpu.number,
            name: gpu.name.clone(),
            compute_capability: format!("{major}.{minor}"),
            sm_count: gpu.sm_count,
            memory_bytes: gpu.memory_bytes,
            shared_bytes_per_block: gpu.shared_bytes_per_block,
        }
    }
}

impl From<&Entry> for Kernel {
    fn from(entry: &Entry) -> Self {
        let mask = match entry.mask {
            MaskSize::Any | MaskSize::Class(_) => None,
            MaskSize::Square(side) => Some([side, side]),
        };
        Self {
            symbol: entry.symbol,
            variant: entry.variant.name(),
            pixel: entry.pixel.name(),
            channels: entry.channels,
            accuracy: Accuracy::of(entry.variant).name(),
            mask,
            summary: entry.variant.spec().summary,
        }
    }
}

impl Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "host      {}", self.version)?;
        writeln!(f, "CPU       {}", self.cpu)?;
        if let Some(version) = &self.driver.cuda {
            writeln!(f, "driver    CUDA {version}")?;
        }
        if let Some(reason) = &self.driver.reason {
            writeln!(f, "driver    {reason}")?;
        }
        if let Some(loader) = &self.driver.loader {
            writeln!(f, "          the loader says: {loader}")?;
        }
        if let Some(remedy) = &self.driver.remedy {
            writeln!(f, "missing   {remedy}")?;
        }
        for CudaDevice { number, name, compute_capability, sm_count, memory_bytes, .. } in &self.devices {
            let label = format!("cuda:{number}");
            let memory = *memory_bytes as f64 / (1_u64 << 30) as f64;
            writeln!(
                f,
                "{label:10}{name}, compute capability {compute_capability}, {sm_count} multiprocessors, {memory:.1} GiB"
            )?;
        }
        match &self.auto.reason {
            Some(reason) => writeln!(f, "auto      {}: {reason}", self.auto.device)?,
            None => writeln!(f, "auto      {}", self.auto.device)?,
        }
        let Ptx { arch, rustc, source_hash } = self.ptx;
        writeln!(f, "PTX       for {arch} and later, by rustc {rustc}, of sources {source_hash:.12}")?;
        self.write_choices(f)?;
        writeln!(f, "\nmethods of the CPU")?;
        for Method { name, accuracy, summary } in &self.cpu_methods {
            writeln!(f, "  {name:21} {accuracy:7} {summary}")?;
        }
        writeln!(f, "\nkernels")?;
        for of_one in self.kernels.chunk_by(|a, b| a.variant == b.variant) {
            writeln!(f, "  {:21} {:7} {}", of_one[0].variant, of_one[0].accuracy, of_one[0].summary)?;
            for (masks, values) in by_masks(of_one) {
                writeln!(f, "  {:21} {:7}   {values}: {masks}", "", "")?;
            }
        }
        Ok(())
    }
}

impl Info {
    /// The table of what `auto` takes.
    fn write_choices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Costs { device, date, calibrated, scaled, error }) = &self.costs {
            if let Some(error) = error {
                writeln!(f, "costs     {error}")?;
            }
            let whose = match (calibrated, scaled) {
                (true, _) => "measured on this machine",
                (_, true) => "scaled to this GPU; `host calibrate` measures yours",
                _ => "as shipped",
            };
            writeln!(f, "costs     of {device}, {date}: {whose}")?;
        }
        let ([width, height], accuracy) = (self.size, Accuracy::default());
        writeln!(f, "\nauto's choice for {width} x {height} pixels and accuracy {accuracy}, on {}", self.choices_on)?;
        f.write_str(&choices::table(&self.choices))
    }
}

/// The kernels of a variant, those for the same masks together: the masks, then the types and channels.
fn by_masks(kernels: &[Kernel]) -> Vec<(String, String)> {
    let mut values: Vec<_> = kernels.iter().map(|kernel| (kernel.pixel, kernel.channels)).collect();
    values.sort_unstable();
    values.dedup();
    let mut groups: Vec<(String, Vec<(&str, u32)>)> = Vec::new();
    for value in values {
        let of_value = kernels.iter().filter(|kernel| (kernel.pixel, kernel.channels) == value);
        let masks = masks(&of_value.map(|kernel| kernel.mask.map(|[side, _]| side)).collect::<Vec<_>>());
        match groups.iter_mut().find(|(others, _)| *others == masks) {
            Some((_, members)) => members.push(value),
            None => groups.push((masks, vec![value])),
        }
    }
    let types = |members: &[(&str, u32)]| {
        let of_type = members.chunk_by(|a, b| a.0 == b.0).map(|members| {
            let channels: Vec<_> = members.iter().map(|(_, channels)| channels.to_string()).collect();
            format!("{} x {}", members[0].0, channels.join(", "))
        });
        of_type.collect::<Vec<_>>().join("; ")
    };
    groups.into_iter().map(|(masks, members)| (masks, types(&members))).collect()
}

/// Sides of square masks in words, `None` being any mask: "3 to 6, 9 square; any mask".
fn masks(sides: &[Option<u32>]) -> String {
    let mut squares: Vec<u32> = sides.iter().copied().flatten().collect();
    squares.sort_unstable();
    let runs = squares.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        [one, other] => format!("{one}, {other}"),
        [first, .., last] => format!("{first} to {last}"),
        [] => unreachable!("chunks are not empty"),
    });
    let runs = runs.collect::<Vec<_>>().join(", ");
    match (runs.is_empty(), sides.contains(&None)) {
        (true, _) => "any mask".to_owned(),
        (false, true) => format!("{runs} square; any mask"),
        (false, false) => format!("{runs} square"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_the_same_masks_are_one_line() {
        let kernel = |pixel, channels, side: Option<u32>| Kernel {
            symbol: "",
            variant: "sliding_window",
            pixel,
            channels,
            accuracy: "exact",
            mask: side.map(|side| [side, side]),
            summary: "",
        };
        let mut kernels: Vec<_> = [5, 3, 4, 9].map(|side| kernel("f32", 1, Some(side))).to_vec();
        for (pixel, channels) in [("u8", 1), ("u8", 3), ("u16", 3)] {
            kernels.extend([Some(7), None].map(|side| kernel(pixel, channels, side)));
        }
        let found = by_masks(&kernels);
        let expected = [("3 to 5, 9 square", "f32 x 1"), ("7 square; any mask", "u16 x 3; u8 x 1, 3")];
        assert_eq!(found, expected.map(|(masks, values)| (masks.to_owned(), values.to_owned())));
    }
}
