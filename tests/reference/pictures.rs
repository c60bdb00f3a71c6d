//! The pictures of docs/accuracy.md: where the results of each class differ from the exact sums, and by how much.
//!
//! `HOST_TEST_WRITE=1 cargo test -p host --test reference pictures` writes them. Without the variable the test compares
//! them with what the kernels compute now.

use std::fs::File;
use std::io::Cursor;
use std::path::Path;

use faltung::{Accuracy, Border, Device, Filter, Image, Mask, Problem, Variant, VariantChoice};
use host::compare::with_oracle;
use host::files::Picture;
use host::oracle::Oracle;

use super::places;

/// The part of the photograph: its first column and row, its width and height.
const PART: (usize, usize, usize, usize) = (200, 130, 240, 160);
/// The pixel that is far brighter than the others, as the sun is in a photograph of high dynamic range.
const BRIGHT: (usize, usize, f32) = (150, 60, 10_000.0);
/// The errors that separate two colours, in units of `u * sum|M * I|` at the pixel.
const LIMITS: [f64; 7] = [0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];
/// From small errors to large ones.
const COLOURS: [[u8; 3]; 8] = [
    [0x14, 0x12, 0x2b],
    [0x35, 0x1b, 0x63],
    [0x66, 0x26, 0x7d],
    [0x99, 0x33, 0x75],
    [0xc9, 0x45, 0x5f],
    [0xee, 0x6c, 0x4d],
    [0xfb, 0xa6, 0x55],
    [0xfc, 0xee, 0x9f],
];

/// A committed picture: its name, and its bytes.
type Committed = (&'static str, &'static [u8]);

macro_rules! committed {
    ($name:literal) => {
        ($name, include_bytes!(concat!("../../docs/images/", $name, ".png")))
    };
}

const PHOTOGRAPH: Committed = committed!("error-photograph");

/// What computes a picture: the class, the variant; None is the CPU's exact method.
const PICTURES: [(Committed, Accuracy, Option<Variant>); 4] = [
    (committed!("error-exact"), Accuracy::Exact, None),
    (committed!("error-separable"), Accuracy::Bounded, Some(Variant::SeparableBlockTile)),
    (committed!("error-fft-bounded"), Accuracy::Bounded, Some(Variant::FftTile)),
    (committed!("error-fft-normwise"), Accuracy::Normwise, Some(Variant::FftTile)),
];

const PAGE: &str = include_str!("../../docs/accuracy.md");

/// The part of the photograph in grey, from 0 to 1, with the bright pixel.
fn photograph() -> Image {
    let picture = Picture::read(places::data().join("seed_coffee/coffee.png")).expect("the photograph");
    let picture = picture.pixels.to_f32();
    let (left, top, width, height) = PART;
    let grey = |x: usize, y: usize| {
        if (x, y) == (BRIGHT.0, BRIGHT.1) {
            return BRIGHT.2;
        }
        let channel = |channel: usize| picture.row(top + y)[3 * (left + x) + channel];
        (0.2125 * channel(0) + 0.7154 * channel(1) + 0.0721 * channel(2)) / 255.0
    };
    Image::from_fn(width, height, grey).expect("an image has pixels")
}

/// The errors of a variant in units of `u * sum|M * I|`, and a line for the table of the page.
fn errors(image: &Image, class: Accuracy, variant: Option<Variant>) -> faltung::Result<(Vec<f64>, String)> {
    let mask = Mask::gaussian(5.0, Some(15))?;
    let filter = Filter::new(mask).border(Border::Mirror).accuracy(class);
    let problem = Problem::new(image.width(), image.height(), &filter)?;
    let (device, choice) = match variant {
        Some(variant) => (Device::emulator(1), VariantChoice::Named(variant)),
        None => (Device::cpu(), VariantChoice::Auto),
    };
    let convolution = device.prepare(&problem, choice)?;
    let found: Image = convolution.apply(image)?;
    let (oracle, bound) = (Oracle::new(&problem, image.values()), convolution.bound());
    assert_eq!(bound.class(), class);
    let comparison = with_oracle(&oracle, &problem, found.values(), bound);
    assert!(comparison.passes(), "{class}: {comparison:?}");
    let unit = |magnitude: f64| magnitude / f64::from(1 << 24);
    let pairs = found.values().iter().zip(oracle.exact.iter().zip(&oracle.magnitude));
    let errors: Vec<f64> =
        pairs.map(|(found, (exact, magnitude))| (f64::from(*found) - exact).abs() / unit(*magnitude)).collect();
    let largest = errors.iter().copied().fold(0.0, f64::max);
    let name = variant.map_or("direct", Variant::name);
    let line = format!(
        "| {class} | `{name}` | {:.0} | {} | {} |",
        bound.constant(),
        two_digits(largest),
        two_digits(comparison.error_over_bound)
    );
    Ok((errors, line))
}

/// A number with two digits that count.
fn two_digits(value: f64) -> String {
    let places = (1 - value.abs().log10().floor() as i32).max(0) as usize;
    let step = 10_f64.powi(value.abs().log10().floor() as i32 - 1);
    format!("{:.places$}", (value / step).round() * step)
}

/// The colour of an error, as its place among [`COLOURS`].
fn level(error: f64) -> u8 {
    LIMITS.iter().filter(|limit| error >= **limit).count() as u8
}

/// A committed picture, or, where pictures are to be written, `values` as a picture: places among [`COLOURS`], or grey.
fn picture((name, committed): Committed, size: (usize, usize), has_colours: bool, values: &[u8]) -> Vec<u8> {
    if std::env::var_os("HOST_TEST_WRITE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/images/{name}.png"));
        let mut encoder = png::Encoder::new(File::create(path).expect("a file"), size.0 as u32, size.1 as u32);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::High);
        encoder.set_color(if has_colours { png::ColorType::Indexed } else { png::ColorType::Grayscale });
        if has_colours {
            encoder.set_palette(COLOURS.concat());
        }
        encoder.write_header().and_then(|mut writer| writer.write_image_data(values)).expect("the picture is written");
        return values.to_owned();
    }
    let mut reader = png::Decoder::new(Cursor::new(committed)).read_info().expect("a PNG");
    let mut values = vec![0; reader.output_buffer_size().expect("a small picture")];
    reader.next_frame(&mut values).expect("a PNG");
    values
}

/// The share of pixels with another colour.
fn difference(found: &[u8], expected: &[u8]) -> f64 {
    assert_eq!(found.len(), expected.len(), "pixels");
    found.iter().zip(expected).filter(|(a, b)| a != b).count() as f64 / found.len() as f64
}

/// A transform of a mask on another CPU may differ in its last bits. One picture is not another one, though.
#[test]
fn pictures_of_errors_are_those_of_the_kernels() -> faltung::Result<()> {
    let image = photograph();
    let (width, height) = (image.width(), image.height());
    // Brighter than white is white. Three pixels wide, so that it is seen.
    let grey = |x: usize, y: usize| {
        let is_bright = x.abs_diff(BRIGHT.0) <= 1 && y.abs_diff(BRIGHT.1) <= 1;
        if is_bright { 255 } else { (image.row(y)[x] * 255.0).round() as u8 }
    };
    let shown: Vec<u8> = (0..height).flat_map(|y| (0..width).map(move |x| (x, y))).map(|(x, y)| grey(x, y)).collect();
    assert!(picture(PHOTOGRAPH, (width, height), false, &shown) == shown, "the photograph is another one");

    let is_written = std::env::var_os("HOST_TEST_WRITE").is_some();
    let mut all = Vec::new();
    for (committed, class, variant) in PICTURES {
        let (errors, line) = errors(&image, class, variant)?;
        println!("{line}");
        let levels: Vec<u8> = errors.into_iter().map(level).collect();
        let changed = difference(&picture(committed, (width, height), true, &levels), &levels);
        assert!(changed <= 0.01, "{}: {:.1} % of the picture is another one", committed.0, 100.0 * changed);
        assert!(is_written || PAGE.contains(&line), "docs/accuracy.md has not the line\n{line}");
        all.push(levels);
    }
    // What the page says, and what makes the test above mean something: each picture is another one.
    for (i, j) in [(0, 1), (0, 2), (1, 2), (2, 3)] {
        assert!(difference(&all[i], &all[j]) > 0.1, "pictures {i} and {j} are alike");
    }
    Ok(())
}
