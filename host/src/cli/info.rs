//! `host info`: what this program is made of and what it finds on this machine.

use std::fmt::{self, Display};

use anyhow::Result;
use host::kernels_gpu::entries::{ENTRIES, Entry, MaskSize};
use host::kernels_gpu::ptx;
use host::{Device, GpuInfo};
use serde::Serialize;

use super::{Outcome, output};

/// Show the version, the driver, the devices and the kernels
#[derive(clap::Args)]
pub(super) struct Args {
    /// JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Everything that is shown.
#[derive(Serialize)]
struct Info {
    version: &'static str,
    cpu: String,
    driver: Driver,
    devices: Vec<CudaDevice>,
    auto: Auto,
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

/// What the PTX was made of, and with.
#[derive(Clone, Copy, Serialize)]
struct Ptx {
    /// The oldest architecture that it runs on.
    arch: &'static str,
    rustc: &'static str,
    source_hash: &'static str,
}

#[derive(Serialize)]
struct Kernel {
    symbol: &'static str,
    variant: &'static str,
    /// Width and height of the masks that it takes; null for any.
    mask: Option<[u32; 2]>,
    summary: &'static str,
}

/// Prints what there is.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let info = Info::gather();
    if args.json {
        output::result(format_args!("{}\n", serde_json::to_string_pretty(&info)?))?;
    } else {
        output::result(info)?;
    }
    Ok(Outcome::Done)
}

impl Info {
    fn gather() -> Self {
        let auto = Device::auto();
        let (devices, reason) = match host::devices() {
            Ok(devices) if devices.is_empty() => (devices, Some("the driver finds no device".to_owned())),
            Ok(devices) => (devices, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let loader = match cuda_driver::load() {
            Err(cuda_driver::LoadError::NotFound { reason, .. }) => Some(reason),
            _ => None,
        };
        Self {
            version: env!("CARGO_PKG_VERSION"),
            cpu: Device::cpu().describe(),
            driver: Driver { cuda: devices.first().map(|device| device.driver.clone()), reason, loader },
            devices: devices.iter().map(CudaDevice::from).collect(),
            auto: Auto { device: auto.describe(), reason: auto.reason().map(str::to_owned) },
            ptx: Ptx { arch: ptx::ARCH, rustc: ptx::RUSTC, source_hash: ptx::SOURCE_HASH },
            kernels: ENTRIES.iter().map(Kernel::from).collect(),
        }
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
            MaskSize::Any => None,
            MaskSize::Square(side) => Some([side, side]),
        };
        Self { symbol: entry.symbol, variant: entry.variant.name(), mask, summary: entry.variant.summary() }
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
        writeln!(f, "\nkernels")?;
        for Kernel { symbol, mask, summary, .. } in &self.kernels {
            let masks = mask.map_or_else(|| "any mask".into(), |[width, height]| format!("{width} x {height}"));
            writeln!(f, "  {symbol:24} {masks:10} {summary}")?;
        }
        Ok(())
    }
}
