//! ROCm's box blur by three methods, on all borders, and compared with SciPy.

use faltung::{AnyImage, Device, Filter, Image, Mask, Operation};
use host::files::Picture;
use host::tutorial::launch::Launcher;
use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::tutorials::box_blur::BoxBlur;
use kernels_gpu::tutorials::box_running::{BoxFromPrefixSums, RowPrefixSums};
use kernels_gpu::tutorials::box_separable::{BoxSumColumns, BoxSumRows};
use libtest_mimic::Failed;

use crate::data::{launcher, pixels, same};
use crate::places::data;

/// An image, and a box: (width, height) of both.
struct Case {
    image: Vec<u8>,
    size: (usize, usize),
    mask: (usize, usize),
}

/// Position `i` under a border, by walking; None outside.
fn position(border: BorderMode, mut i: i64, length: i64) -> Option<usize> {
    while !(0..length).contains(&i) {
        i = match border {
            BorderMode::Constant => return None,
            BorderMode::Clamp => i.clamp(0, length - 1),
            BorderMode::Reflect if i < 0 => -1 - i,
            BorderMode::Reflect => 2 * length - 1 - i,
            BorderMode::Mirror if length == 1 => 0,
            BorderMode::Mirror if i < 0 => -i,
            BorderMode::Mirror => 2 * (length - 1) - i,
            BorderMode::Wrap => i.rem_euclid(length),
        };
    }
    Some(i as usize)
}

impl Case {
    fn area(&self) -> u64 {
        (self.mask.0 * self.mask.1) as u64
    }

    /// The sums, pixel by pixel.
    fn sums(&self, border: BorderMode) -> Vec<u64> {
        let (width, height) = self.size;
        let along = |at: usize, mask: usize, length: usize| -> Vec<usize> {
            let first = at as i64 - (mask / 2) as i64;
            (first..first + mask as i64).filter_map(|i| position(border, i, length as i64)).collect()
        };
        let sum = |x: usize, y: usize| {
            let columns = along(x, self.mask.0, width);
            let rows = along(y, self.mask.1, height);
            rows.iter()
                .flat_map(|&row| columns.iter().map(move |&column| (row, column)))
                .map(|(row, column)| u64::from(self.image[row * width + column]))
                .sum()
        };
        (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| sum(x, y)).collect()
    }

    /// The exact pixels: the quotient in f64 is exact enough to be rounded half to even, because halves are exact in
    /// f64.
    fn exact(&self, border: BorderMode) -> Vec<u8> {
        self.sums(border).iter().map(|&sum| (sum as f64 / self.area() as f64).round_ties_even() as u8).collect()
    }

    fn direct(&self, launcher: &Launcher) -> Result<Vec<u8>, Failed> {
        let image = launcher.upload("image", &self.image)?;
        let mask = launcher.upload("mask", &vec![1.0 / self.area() as f32; self.area() as usize])?;
        let mut result = launcher.allocate("result", self.image.len())?;
        let (width, height) = (self.size.0 as u32, self.size.1 as u32);
        let (mask_width, mask_height) = (self.mask.0 as u32, self.mask.1 as u32);
        launcher.launch(&BoxBlur {
            image: &image,
            result: &mut result,
            mask: &mask,
            width,
            height,
            mask_width,
            mask_height,
        })?;
        Ok(launcher.download(&result)?)
    }

    fn separable(&self, launcher: &Launcher, border: BorderMode) -> Result<Vec<u8>, Failed> {
        let image = launcher.upload("image", &self.image)?;
        let mut sums = launcher.allocate("sums", self.image.len())?;
        let mut result = launcher.allocate("result", self.image.len())?;
        let (width, height) = (self.size.0 as u32, self.size.1 as u32);
        let (mask_width, mask_height, border) = (self.mask.0 as u32, self.mask.1 as u32, border.code());
        launcher.launch(&BoxSumRows { image: &image, sums: &mut sums, width, height, mask_width, border })?;
        let area = self.area() as u32;
        launcher.launch(&BoxSumColumns {
            sums: &sums,
            result: &mut result,
            width,
            height,
            mask_height,
            area,
            border,
        })?;
        Ok(launcher.download(&result)?)
    }

    fn running(&self, launcher: &Launcher, strip: u32) -> Result<Vec<u8>, Failed> {
        let image = launcher.upload("image", &self.image)?;
        let mut prefix = launcher.allocate("prefix sums", self.image.len())?;
        let mut result = launcher.allocate("result", self.image.len())?;
        let (width, height) = (self.size.0 as u32, self.size.1 as u32);
        let (mask_width, mask_height) = (self.mask.0 as u32, self.mask.1 as u32);
        launcher.launch(&RowPrefixSums { image: &image, prefix: &mut prefix, width, height })?;
        let (prefix, result_of) = (&prefix, &mut result);
        launcher.launch(&BoxFromPrefixSums {
            prefix,
            result: result_of,
            width,
            height,
            mask_width,
            mask_height,
            strip,
        })?;
        Ok(launcher.download(&result)?)
    }

    fn describe(&self) -> String {
        format!("{} x {}, mask {} x {}", self.size.0, self.size.1, self.mask.0, self.mask.1)
    }
}

/// Checks that pixels are at most one unit off.
fn within_a_unit(what: &str, found: &[u8], expected: &[f64]) -> Result<(), Failed> {
    if found.len() != expected.len() {
        return Err(format!("{what}: {} values instead of {}", found.len(), expected.len()).into());
    }
    for (i, (&value, exact)) in found.iter().zip(expected).enumerate() {
        let right = (f64::from(value) - exact).abs() <= 1.0;
        if !right {
            return Err(format!("{what}: pixel {i} is {value} instead of {exact}").into());
        }
    }
    Ok(())
}

fn check(device: &Device, case: &Case, strips: &[u32]) -> Result<(), Failed> {
    let what = case.describe();
    let launcher = launcher(device)?;
    let exact: Vec<f64> = case.sums(BorderMode::Constant).iter().map(|&sum| sum as f64 / case.area() as f64).collect();
    within_a_unit(&format!("all products, {what}"), &case.direct(&launcher)?, &exact)?;
    for border in BorderMode::ALL {
        same(&format!("separable, {what}, {border:?}"), &case.separable(&launcher, border)?, &case.exact(border))?;
    }
    let expected = case.exact(BorderMode::Constant);
    for &strip in strips {
        same(&format!("running, {what}, strip {strip}"), &case.running(&launcher, strip)?, &expected)?;
    }
    Ok(())
}

pub(crate) fn blurs(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for size in [(1, 1), (1, 19), (19, 1), (15, 17), (16, 16), (33, 9), (40, 23)] {
        for mask in [(1, 1), (2, 1), (1, 2), (3, 3), (4, 6), (7, 5), (20, 20), (41, 3), (60, 50)] {
            let case = Case { image: pixels(&mut random, size.0 * size.1), size, mask };
            check(device, &case, &[1, 3, 8, 1000])?;
        }
    }
    Ok(())
}

/// Rows of more than one step of the prefix sums, white and black pixels alone, sums near their largest.
pub(crate) fn large_boxes(device: &Device, seed: u64) -> Result<(), Failed> {
    let mut random = fastrand::Rng::with_seed(seed);
    for (size, mask) in [((255, 2), (13, 3)), ((256, 2), (500, 1)), ((257, 3), (31, 2)), ((700, 2), (700, 2))] {
        let image = (0..size.0 * size.1).map(|_| if random.bool() { 255 } else { 0 }).collect();
        check(device, &Case { image, size, mask }, &[2])?;
        check(device, &Case { image: vec![255; size.0 * size.1], size, mask }, &[1])?;
    }
    Ok(())
}

/// The photograph in grey with the tutorial's mask, and SciPy's answer, as the README beside it says.
fn tutorial() -> Result<(Case, Vec<f64>), Failed> {
    let AnyImage::U8(rgb) = Picture::read(data().join("seed_coffee/coffee.png"))?.pixels else {
        return Err("the photograph has 8 bits".into());
    };
    let grey = |pixel: &[u8]| {
        let [red, green, blue] = [0, 1, 2].map(|channel| f64::from(pixel[channel]));
        (0.2125 * red + 0.7154 * green + 0.0721 * blue).round_ties_even() as u8
    };
    let image: Vec<u8> = rgb.values().chunks_exact(3).map(grey).collect();
    let AnyImage::U16(expected) = Picture::read(data().join("rocm_box_blur/expected_x256.png"))?.pixels else {
        return Err("SciPy's answer has 16 bits".into());
    };
    let expected = expected.values().iter().map(|&value| f64::from(value) / 256.0).collect();
    Ok((Case { image, size: (600, 400), mask: (200, 200) }, expected))
}

/// The tutorial's method is within 1 unit of SciPy. The exact methods are within half a unit and the rounding of the
/// file.
pub(crate) fn scipy(device: &Device, _: u64) -> Result<(), Failed> {
    let (case, expected) = tutorial()?;
    let launcher = launcher(device)?;
    let exactly = |what: &str, found: &[u8]| -> Result<(), Failed> {
        let most = found.iter().zip(&expected).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
        let right = most <= 0.5 + 1.0 / 512.0 + 1e-9;
        if found.len() != expected.len() || !right {
            return Err(format!("{what}: {} values, off by {most}", found.len()).into());
        }
        Ok(())
    };
    exactly("running sums", &case.running(&launcher, 50)?)?;
    // 19 billion loads are too many for the emulator.
    if !launcher.is_emulator() {
        exactly("rows, then columns", &case.separable(&launcher, BorderMode::Constant)?)?;
        within_a_unit("all products", &case.direct(&launcher)?, &expected)?;
    }
    Ok(())
}

/// This project's convolution with the same mask.
pub(crate) fn scipy_on_the_cpu() -> Result<(), Failed> {
    let (case, expected) = tutorial()?;
    let mask = Mask::new(200, 200, vec![1.0 / 40_000.0; 40_000])?;
    let image = Image::new(600, 400, 1, case.image)?;
    let blurred: Image<u8> = Device::cpu().apply(&Filter::new(mask).operation(Operation::Correlate), &image)?;
    within_a_unit("the CPU", blurred.values(), &expected)
}
