//! The device for `--device auto`: the one that will be done first.

use std::time::Duration;

use faltung::plan::{Limits, Plan};
use faltung::{Device, Filter, PixelFormat, PixelType, Problem, Result, VariantChoice};

use super::trial::trial;

/// The time to open a GPU, from the first call of the driver to a loaded kernel. Measured on an H100 whose driver had
/// the compiled kernel in its cache, 2026-11-22.
const OPEN_GPU: Duration = Duration::from_millis(300);

/// The bytes that a GPU receives or sends in a second, from and to ordinary memory.
const TRANSFER: f64 = 10e9;

/// The format of most pictures. Their values are counted as those of one channel.
const FORMAT: PixelFormat = PixelFormat { channels: 1, input: PixelType::U8, output: PixelType::U8 };

/// Why the CPU should filter a single picture: it will be done before a GPU. None if a GPU will be done first.
///
/// The picture has about `values` values. The CPU's rate is measured with a small image, which takes some milliseconds.
/// The GPU's time is that of the cost model for an H100, and the time to open it.
pub(super) fn reason_for_cpu(values: u64, filters: &[Filter]) -> Option<String> {
    // Without a driver the CPU is the only device, for another reason.
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

/// The time of the GPU, with that to open it.
fn gpu_time(values: u64, filters: &[Filter]) -> Result<Duration> {
    let side = (values as f64).sqrt().ceil() as usize;
    let mut seconds = OPEN_GPU.as_secs_f64();
    for filter in filters {
        let problem = Problem::new(side, side, filter)?.with_format(FORMAT)?;
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto)?;
        // A value is a byte. It is copied there and back.
        seconds += plan.predicted_us() / 1e6 + (values * 2) as f64 / TRANSFER;
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// The time of the CPU, from that for a small image.
fn cpu_time(values: u64, filters: &[Filter]) -> Result<Duration> {
    let cpu = Device::cpu();
    let pace = |filter| trial(&cpu, filter, FORMAT, VariantChoice::Auto);
    let seconds = filters.iter().map(pace).sum::<Result<f64>>()? * values as f64;
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use faltung::Mask;

    use super::*;

    #[test]
    fn a_small_picture_is_the_cpu_s_and_a_large_one_the_gpu_s() {
        let cpu_is_first = |values, filter| {
            let (cpu, gpu) = times(values, &[filter]).unwrap();
            assert!(gpu >= OPEN_GPU);
            cpu < gpu
        };
        assert!(cpu_is_first(512 * 512 * 3, Filter::gaussian(1.0)));
        // 10^13 products of a mask that is not separable: minutes on any CPU, by the FFT, too.
        let mask = Mask::new(31, 31, (0..31 * 31).map(|i| (i * i % 101) as f32 / 101.0).collect()).unwrap();
        assert!(!cpu_is_first(10_000_000_000, Filter::new(mask)));
    }

    #[test]
    fn nothing_is_known_of_a_picture_of_no_size() {
        assert_eq!(reason_for_cpu(0, &[Filter::gaussian(1.0)]), None);
    }
}
