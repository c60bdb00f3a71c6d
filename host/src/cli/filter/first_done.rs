//! The device for `--device auto`: the one that will be done first.

use std::time::{Duration, Instant};

use faltung::plan::{Limits, Plan};
use faltung::{Accuracy, Device, Filter, Image, Mask, Problem, Result, VariantChoice};

/// The time to open a GPU, from the first call of the driver to a loaded kernel. Measured on an H100 whose driver had the
/// compiled kernel in its cache, 2026-11-22.
const OPEN_GPU: Duration = Duration::from_millis(300);

/// The bytes that a GPU receives or sends in a second, from and to ordinary memory.
const TRANSFER: f64 = 10e9;

/// The sides of the image that the CPU is timed with, and the most columns and rows of a mask whose products it all
/// computes.
const TRIAL: (usize, usize) = (256, 31);

/// Why the CPU should filter a single picture: it will be done before a GPU. None if a GPU will be done first.
///
/// The picture has about `values` values. The CPU's rate is measured with a small image, which takes some milliseconds.
/// The GPU's time is that of the cost model for an H100, and the time to open it.
pub(super) fn reason_for_cpu(values: u64, filters: &[Filter]) -> Option<String> {
    // Without a driver there is nothing to choose, and another reason for the CPU.
    if values == 0 || cuda_driver::load().is_err() {
        return None;
    }
    let (cpu, gpu) = times(values, filters).ok()?;
    (cpu < gpu).then(|| {
        let (cpu, gpu) = (cpu.as_secs_f64().max(0.01), gpu.as_secs_f64());
        format!("done first: about {cpu:.2} s for this picture, and {gpu:.2} s on a GPU, which has to be opened")
    })
}

/// The times of the CPU and of the GPU.
fn times(values: u64, filters: &[Filter]) -> Result<(Duration, Duration)> {
    Ok((cpu_time(values, filters)?, gpu_time(values, filters)?))
}

/// The time of the GPU, from before it is open.
fn gpu_time(values: u64, filters: &[Filter]) -> Result<Duration> {
    let side = (values as f64).sqrt().ceil() as usize;
    let mut seconds = OPEN_GPU.as_secs_f64();
    for filter in filters {
        let plan = Plan::new(&Problem::new(side, side, filter)?, Limits::H100, VariantChoice::Auto)?;
        seconds += plan.predicted_us() / 1e6 + (values * 8) as f64 / TRANSFER;
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The time of the CPU, from that for a small image.
fn cpu_time(values: u64, filters: &[Filter]) -> Result<Duration> {
    let (side, most) = TRIAL;
    let mut seconds = 0.0;
    let prepare = |filter: &Filter| Device::cpu().prepare(&Problem::new(side, side, filter)?, VariantChoice::Auto);
    let image = Image::<f32>::zeros(side, side, 1)?;
    for filter in filters {
        let whole = filter.mask()?;
        let (width, height) = (whole.width().min(most), whole.height().min(most));
        let larger = (whole.width() * whole.height()) as f64 / (width * height) as f64;
        let (mut prepared, mut scale) = (prepare(filter)?, 1.0);
        // The time of this method alone is proportional to the number of coefficients.
        if prepared.variant() == "direct" && larger > 1.0 {
            let part = Filter::new(Mask::average(width, height)?).accuracy(Accuracy::Exact);
            (prepared, scale) = (prepare(&part)?, larger);
        }
        let run = || -> Result<f64> {
            let start = Instant::now();
            prepared.apply::<f32, f32>(&image)?;
            Ok(start.elapsed().as_secs_f64())
        };
        // The first runs start the threads.
        let fastest = (0..4).map(|_| run()).try_fold(f64::INFINITY, |least, time| time.map(|time| least.min(time)))?;
        seconds += fastest * scale * values as f64 / (side * side) as f64;
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_picture_is_the_cpu_s_and_a_large_one_the_gpu_s() {
        let cpu_is_first = |values, filter| {
            let (cpu, gpu) = times(values, &[filter]).unwrap();
            assert!(gpu >= OPEN_GPU);
            cpu < gpu
        };
        assert!(cpu_is_first(512 * 512 * 3, Filter::gaussian(1.0)));
        // 10^14 products: hours on any CPU.
        let exact = Filter::new(Mask::disk(50.0).unwrap()).accuracy(Accuracy::Exact);
        assert!(!cpu_is_first(10_000_000_000, exact));
    }

    #[test]
    fn nothing_is_known_of_a_picture_of_no_size() {
        assert_eq!(reason_for_cpu(0, &[Filter::gaussian(1.0)]), None);
    }
}
