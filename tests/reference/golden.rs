//! The answers of SciPy and OpenCV in `tests/data`, met by every device of this machine.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use faltung::{AnyImage, Border, Device, Filter, Image, Mask, Operation};
use host::files::{Picture, read_mask};

use crate::places::data;

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    op: String,
    border: String,
    cval: f32,
    image_shape: Vec<usize>,
    mask_shape: Vec<usize>,
    tolerance_lsb: Option<u8>,
}

impl Case {
    fn operation(&self) -> Operation {
        match self.op.as_str() {
            "convolve" => Operation::Convolve,
            "correlate" => Operation::Correlate,
            other => panic!("{}: operation {other}", self.name),
        }
    }

    fn border(&self) -> Border {
        match self.border.as_str() {
            "constant" => Border::Constant(self.cval),
            name => name.parse().unwrap(),
        }
    }
}

/// Where on `0..length` position `i` is taken from, None for the constant border: by formula, apart from the
/// library's own map, which these tests check.
fn inside(border: Border, i: i64, length: i64) -> Option<usize> {
    let folded = |period: i64, back: i64| {
        let i = i.rem_euclid(period);
        if i < length { i } else { back - i }
    };
    let place = match border {
        Border::Constant(_) if !(0..length).contains(&i) => return None,
        Border::Constant(_) => i,
        Border::Clamp => i.clamp(0, length - 1),
        Border::Reflect => folded(2 * length, 2 * length - 1),
        Border::Mirror if length == 1 => 0,
        Border::Mirror => folded(2 * length - 2, 2 * length - 2),
        Border::Wrap => i.rem_euclid(length),
    };
    Some(place as usize)
}

/// For each pixel the answer in f64, and the sum of the absolute products.
fn exact(image: &Image<f32>, mask: &Mask, operation: Operation, border: Border) -> Vec<(f64, f64)> {
    let (width, height) = (image.width() as i64, image.height() as i64);
    let (anchor_y, anchor_x) = (mask.height() as i64 / 2, mask.width() as i64 / 2);
    let mut answers = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let (mut sum, mut absolute) = (0.0, 0.0);
        for (k, l) in (0..mask.height()).flat_map(|k| (0..mask.width()).map(move |l| (k, l))) {
            let (dy, dx) = (k as i64 - anchor_y, l as i64 - anchor_x);
            let (row, column) = match operation {
                Operation::Convolve => (y - dy, x - dx),
                Operation::Correlate => (y + dy, x + dx),
            };
            let value = match (inside(border, row, height), inside(border, column, width)) {
                (Some(row), Some(column)) => image.row(row)[column],
                _ => border.value(),
            };
            let product = f64::from(mask.at(k, l)) * f64::from(value);
            sum += product;
            absolute += product.abs();
        }
        answers.push((sum, absolute));
    }
    answers
}

/// Checks a result in f32 against an answer in f64: `n` fused steps in f32 are off by at most `n u / (1 - n u)` of the
/// sum of the absolute products, where u is 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
fn check(what: &str, result: &[f32], expected: &[f64], exact: &[(f64, f64)], terms: usize) {
    assert_eq!((result.len(), exact.len()), (expected.len(), expected.len()), "{what}");
    let n_u = terms as f64 * 2.0_f64.powi(-24);
    for (i, ((&result, &expected), &(sum, absolute))) in result.iter().zip(expected).zip(exact).enumerate() {
        // The answer and this file's own sum agree as f64 does, in whichever order they were summed.
        let slack = 4.0 * terms as f64 * f64::EPSILON * absolute;
        assert!((sum - expected).abs() <= slack, "{what}: value {i} was expected to be {expected}, is {sum} in f64");
        let error = (f64::from(result) - expected).abs();
        let bound = n_u / (1.0 - n_u) * absolute + slack;
        assert!(error <= bound, "{what}: value {i} is {result}, {expected} was expected: off by {error:e} > {bound:e}");
    }
}

fn read_f64(path: &Path) -> Vec<f64> {
    let file = BufReader::new(File::open(path).unwrap());
    npyz::NpyFile::new(file).unwrap().into_vec().unwrap()
}

/// The CPU, the emulator, and every CUDA device there is: with `HOST_TEST_GPU=require`, one must be there.
fn devices() -> Vec<Device> {
    let cuda = match std::env::var("HOST_TEST_GPU").as_deref() {
        Ok("require") => faltung::devices().expect("HOST_TEST_GPU=require: a CUDA device"),
        _ => faltung::devices().unwrap_or_default(),
    };
    let cuda = cuda.iter().map(|gpu| Device::cuda(gpu.number).unwrap());
    [Device::cpu(), Device::emulator(1)].into_iter().chain(cuda).collect()
}

fn cases() -> Vec<Case> {
    let file = BufReader::new(File::open(data().join("golden/cases.json")).unwrap());
    serde_json::from_reader(file).unwrap()
}

#[test]
fn scipy_in_f32() {
    let devices = devices();
    let mut count = 0;
    for case in cases().iter().filter(|case| case.tolerance_lsb.is_none()) {
        let folder = data().join("golden").join(&case.name);
        let AnyImage::F32(image) = Picture::read(folder.join("image.npy")).unwrap().pixels else {
            panic!("{}", case.name)
        };
        let mask = read_mask(folder.join("mask.npy")).unwrap().mask;
        assert_eq!([image.height(), image.width()], *case.image_shape, "{}", case.name);
        assert_eq!([mask.height(), mask.width()], *case.mask_shape, "{}", case.name);
        let expected = read_f64(&folder.join("expected.npy"));
        let exact = exact(&image, &mask, case.operation(), case.border());
        let terms = mask.coefficients().len();
        let filter = Filter::new(mask).operation(case.operation()).border(case.border());
        for device in &devices {
            let result: Image<f32> = device.apply(&filter, &image).unwrap();
            check(&format!("{} on {}", case.name, device.describe()), result.values(), &expected, &exact, terms);
        }
        count += 1;
    }
    assert_eq!(count, 45);
}

#[test]
fn opencv_in_u8() {
    let devices = devices();
    let mut count = 0;
    for case in cases() {
        let Some(tolerance) = case.tolerance_lsb else { continue };
        let folder = data().join("golden").join(&case.name);
        let [image, expected] = ["image.npy", "expected.npy"].map(|name| {
            let AnyImage::U8(image) = Picture::read(folder.join(name)).unwrap().pixels else { panic!("{}", case.name) };
            image
        });
        let mask = read_mask(folder.join("mask.npy")).unwrap().mask;
        let filter = Filter::new(mask).operation(case.operation()).border(case.border());
        for device in &devices {
            let result: Image<u8> = device.apply(&filter, &image).unwrap();
            assert_eq!(result.channels(), expected.channels(), "{}", case.name);
            assert_eq!(result.values().len(), expected.values().len(), "{}", case.name);
            for (i, (result, expected)) in result.values().iter().zip(expected.values()).enumerate() {
                let device = device.describe();
                assert!(
                    result.abs_diff(*expected) <= tolerance,
                    "{} on {device}: value {i} is {result}, {expected} was expected",
                    case.name
                );
            }
        }
        count += 1;
    }
    assert_eq!(count, 15);
}

/// The photograph that comes with this program, as `seed_coffee/README.md` says it was prepared.
#[test]
fn scipy_on_a_photograph() {
    let folder = data().join("seed_coffee");
    let AnyImage::U8(coffee) = Picture::read(folder.join("coffee.png")).unwrap().pixels else { panic!() };
    assert_eq!((coffee.width(), coffee.height(), coffee.channels()), (600, 400, 3));
    let grey = |x: usize, y: usize| {
        let pixel = &coffee.row(150 + y)[3 * (200 + x)..][..3];
        let [red, green, blue] = [pixel[0], pixel[1], pixel[2]].map(|value| f64::from(value) / 255.0);
        (0.2125 * red + 0.7154 * green + 0.0721 * blue) as f32 / 255.0
    };
    let image = Image::from_fn(200, 200, grey).unwrap();
    let mask = read_mask(folder.join("mask.npy")).unwrap().mask;
    let expected = read_f64(&folder.join("expected_f64.npy"));
    let exact = exact(&image, &mask, Operation::Convolve, Border::ZERO);
    let filter = Filter::new(mask);
    for device in devices() {
        let result: Image<f32> = device.apply(&filter, &image).unwrap();
        check(&format!("coffee on {}", device.describe()), result.values(), &expected, &exact, 13 * 13);
    }
}

/// What the checks above must not let through.
#[test]
fn wrong_answers_are_found() {
    let image = Image::from_fn(7, 5, |x, y| ((3 * x + 7 * y) % 11) as f32).unwrap();
    let mask = Mask::new(3, 2, vec![1.0, -2.0, 3.0, 0.5, 4.0, -1.0]).unwrap();
    let exact = exact(&image, &mask, Operation::Convolve, Border::Mirror);
    let expected: Vec<f64> = exact.iter().map(|answer| answer.0).collect();
    let right: Vec<f32> = expected.iter().map(|&value| value as f32).collect();
    check("right", &right, &expected, &exact, 6);
    let shifted = right[1..].iter().copied().chain([0.0]).collect::<Vec<_>>();
    let one_wrong = |value: f32| {
        let mut values = right.clone();
        values[17] = value;
        values
    };
    for (what, wrong) in [("shifted", shifted), ("NaN", one_wrong(f32::NAN)), ("one", one_wrong(right[17] + 1e-4))] {
        let found = std::panic::catch_unwind(|| check(what, &wrong, &expected, &exact, 6));
        assert!(found.is_err(), "{what} went through");
    }
}
