//! The treatment of alpha.

use super::bombs::tiff;
use super::*;

/// A picture whose alpha takes many values, and whose hidden pixels have colours of their own.
fn transparent<T: Pixel>(width: usize, height: usize, channels: usize, most: f32) -> Image<T> {
    let value = |i: usize| {
        let (pixel, channel) = (i / channels, i % channels);
        if channel < channels - 1 {
            return T::from_f32((i * 7919 % 251) as f32 / 250.0 * most);
        }
        T::from_f32([0.0, 0.0, 0.25, 0.5, 1.0, 1.0, 1.0][pixel * 31 % 7] * most)
    };
    let values = (0..width * height * channels).map(value).collect();
    Image::new(width, height, channels, values).unwrap()
}

/// Where position `i` of a row of `length` is taken from by the border `mirror`.
fn mirror(i: i64, length: usize) -> usize {
    let period = 2 * length as i64 - 2;
    let i = i.rem_euclid(period);
    (if i < length as i64 { i } else { period - i }) as usize
}

/// The definition in f64, pixel by pixel: colours that are weighted by alpha, and the mean of alpha, for a square mask
/// of odd side, walked as a correlation.
fn weighted(image: &Image<f32>, mask: &[f64], most: f64) -> Vec<f64> {
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    let side = mask.len().isqrt();
    let mut result = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let mut sums = vec![0.0; channels];
        for (i, coefficient) in mask.iter().enumerate() {
            let along = |place: usize, i: usize, length| mirror((place + i) as i64 - side as i64 / 2, length);
            let pixel = &image.row(along(y, i / side, height))[along(x, i % side, width) * channels..][..channels];
            let alpha = f64::from(pixel[channels - 1]);
            for channel in 0..channels - 1 {
                sums[channel] += coefficient * alpha * f64::from(pixel[channel]);
            }
            sums[channels - 1] += coefficient * alpha;
        }
        let alpha = sums[channels - 1];
        let whole: f64 = mask.iter().sum();
        let colour = |sum: f64| if alpha / whole <= 0.0 { 0.0 } else { sum / alpha * whole };
        result.extend(sums[..channels - 1].iter().map(|&sum| colour(sum)));
        result.push((alpha / whole).clamp(0.0, most));
    }
    result
}

const BOX: [f64; 9] = [1.0 / 9.0; 9];
const SHARPEN: [f64; 9] = [0.0, -0.5, 0.0, -0.5, 3.0, -0.5, 0.0, -0.5, 0.0];
/// Sums to 4.
const BRIGHT: [f64; 9] = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0];

fn check<T: Pixel>(channels: usize, most: f32) {
    let place = Place::new();
    let image = transparent::<T>(11, 8, channels, most);
    let name = if most == 1.0 { "a.tif" } else { "a.png" };
    place.write(name, image.clone());
    let image = image.map(Pixel::to_f32);
    for (mask, reference) in
        [(["--box", "3"], BOX), (["--sharpen", "0.5"], SHARPEN), (["--kernel", "3x3: 0,1,0,1,0,1,0,1,0"], BRIGHT)]
    {
        let args = [name, "-o", "b.npy", "--overwrite", "--output-type", "f32"];
        place.filter(&[&args[..], &mask].concat()).quietly();
        let expected = weighted(&image, &reference, if most == 1.0 { f64::INFINITY } else { most.into() });
        for (i, (&found, expected)) in place.read_f32("b.npy").values().iter().zip(expected).enumerate() {
            let near = f64::from(most) * 1e-5 + expected.abs() * 1e-4;
            assert!((f64::from(found) - expected).abs() <= near, "{mask:?}, value {i}: {found}, not {expected}");
        }
    }
}

#[test]
fn colours_are_weighted() {
    check::<u8>(4, 255.0);
    check::<u8>(2, 255.0);
    check::<u16>(4, 65_535.0);
    check::<u16>(2, 65_535.0);
    check::<f32>(4, 1.0);
}

/// Transparent pixels do not change visible ones.
#[test]
fn hidden_colours_do_not_show() {
    let place = Place::new();
    let image = Image::new(
        40,
        1,
        4,
        (0..40).flat_map(|x| if x < 20 { [200_u8, 100, 0, 255] } else { [0, 0, 255, 0] }).collect(),
    );
    place.write("a.png", image.unwrap());
    place.filter(&["a.png", "-o", "b.png", "--gaussian", "2"]).quietly();
    let blurred = place.read_u8("b.png");
    for pixel in blurred.values().chunks_exact(4) {
        let expected = if pixel[3] == 0 && pixel[0] == 0 { [0, 0, 0] } else { [200, 100, 0] };
        assert_eq!(pixel[..3], expected);
    }
    assert!((100..156).contains(&blurred.channel(3).values()[20]));
    // With plain they do.
    place.filter(&["a.png", "-o", "c.png", "--gaussian", "2", "--alpha", "plain"]).quietly();
    assert!(place.read_u8("c.png").row(0)[4 * 20 + 2] > 100);
}

/// A derivative of an opaque picture keeps alpha: the derivative of its alpha would make it transparent.
#[test]
fn alpha_is_kept_where_the_mask_sums_to_0() {
    let place = Place::new();
    let image = transparent::<u8>(9, 7, 4, 255.0);
    place.write("a.png", image.clone());
    let planes: Vec<_> = (0..3).map(|channel| image.channel(channel)).collect();
    place.write("rgb.png", Image::from_channels(&planes).unwrap());
    for mask in [&["--sobel", "x"][..], &["--laplacian"], &["--log", "1"], &["--gabor", "6:30:2:1:90"], &["--identity"]]
    {
        place.filter(&[&["a.png", "-q", "--overwrite", "-o", "b.png"], mask].concat()).quietly();
        place.filter(&[&["rgb.png", "-q", "--overwrite", "-o", "c.png"], mask].concat()).quietly();
        let [found, colours] = ["b.png", "c.png"].map(|name| place.read_u8(name));
        assert_eq!(found.channel(3), image.channel(3), "{mask:?}");
        for channel in 0..3 {
            assert_eq!(found.channel(channel), colours.channel(channel), "{mask:?}");
        }
    }
}

/// The filters of the next test, with and without a result in f32.
const FILTERS: [&[&str]; 6] = [
    &["--gaussian", "1.5"],
    &["--sharpen", "1", "--scale", "0.9", "--offset", "3"],
    &["--box", "4", "--border", "constant:40"],
    &["--unsharp", "1:1:2"],
    &["--gaussian", "1", "--then", "--sobel", "magnitude"],
    &["--box", "5", "--linear"],
];

/// Opaque colours have the bits of the same picture without alpha, whether all of it is opaque or all that a mask sees.
fn opaque<T: Pixel>(channels: usize, most: f32) {
    let place = Place::new();
    let coloured: Image<T> = picture(41, 19, channels, |i| T::from_f32(i as f32 / 251.0 * most));
    let with = |alpha: fn(usize) -> f32| {
        let pixels = coloured.values().chunks_exact(channels).enumerate();
        let values =
            pixels.flat_map(|(i, pixel)| pixel.iter().copied().chain([T::from_f32(alpha(i) * most)])).collect();
        Image::new(41, 19, channels + 1, values).unwrap()
    };
    let [from, opaque, corner] = ["from.png", "opaque.png", "corner.png"];
    place.write(from, coloured.clone());
    place.write(opaque, with(|_| 1.0));
    place.write(corner, with(|i| if i == 0 { 0.0 } else { 1.0 }));
    for filter in FILTERS {
        // Results of f32 that are only bounded depend on the method, which depends on the type of the values.
        for to in [&["b.png"][..], &["b.npy", "--output-type", "f32", "--exact"]] {
            let run = |input| {
                place.filter(&[&[input, "-q", "--overwrite", "-o"], to, filter].concat()).quietly();
                place.read(to[0]).to_f32()
            };
            let (expected, opaque, corner) = (run(from), run(opaque), run(corner));
            // Far enough from the corner for each of the masks.
            let far = |image: &Image<f32>| image.crop(20, 0, 21, 19).unwrap();
            for channel in 0..channels {
                assert!(opaque.channel(channel) == expected.channel(channel), "{filter:?}, {to:?}");
                let [found, expected] = [&corner, &expected].map(|image| far(&image.channel(channel)));
                assert!(found == expected, "{filter:?}, {to:?}, with a hidden corner");
            }
            assert!(opaque.channel(channels).values().iter().all(|&alpha| alpha == most), "{filter:?}, {to:?}");
        }
    }
}

#[test]
fn opaque_colours_are_as_without_alpha() {
    opaque::<u8>(3, 255.0);
    opaque::<u8>(1, 255.0);
    opaque::<u16>(3, 65_535.0);
}

/// Alpha keeps its numbers in every type, and is neither scaled nor offset.
#[test]
fn alpha_is_not_rescaled() {
    let place = Place::new();
    let image = transparent::<u8>(9, 7, 4, 255.0);
    place.write("a.png", image.clone());
    let expected = image.channel(3).map(f32::from);
    for (alpha, to) in [("keep", "f32"), ("keep", "u16"), ("weighted", "f32"), ("weighted", "u16")] {
        let args = ["a.png", "-q", "--overwrite", "-o", "b.npy", "--alpha", alpha, "--output-type", to];
        place.filter(&[&args[..], &["--identity", "--scale", "2", "--offset", "-3"]].concat()).quietly();
        assert_eq!(place.read("b.npy").to_f32().channel(3), expected, "{alpha}, {to}");
    }
    let args = ["a.png", "--overwrite", "-o", "b.tif", "--identity", "--output-type", "u16", "--scale", "257"];
    let note = "note: a.png: alpha keeps its numbers, 0 to 255, but 65535 is opaque in u16: --alpha plain --scale 257 ";
    place.filter(&args).with(0, &[note]);
    let args = ["a.png", "-o", "b.exr", "--identity", "--output-type", "f32"];
    let note =
        "note: a.png: alpha keeps its numbers, 0 to 255, but 1 is opaque in f32: --alpha plain --scale 0.0039215";
    place.filter(&args).with(0, &[note]);
    let plain = ["--overwrite", "--alpha", "plain", "--scale", "0.003921569"];
    let stderr = place.filter(&[&args[..], &plain].concat()).with(0, &[]).stderr;
    assert!(!stderr.contains("keeps its numbers"), "{stderr}");
}

#[test]
fn alpha_by_name() {
    let place = Place::new();
    let image = transparent::<u8>(9, 7, 4, 255.0);
    place.write("a.png", image.clone());
    place.write("a.npy", image.clone());
    let run = |input, alpha: &[&str]| {
        place.filter(&[&[input, "-q", "--overwrite", "-o", "b.npy", "--box", "3"], alpha].concat()).quietly();
        place.read_u8("b.npy")
    };
    // Arrays have channels that are all alike, whatever is said.
    let plain = run("a.npy", &[]);
    assert_eq!(run("a.npy", &["--alpha", "keep"]), plain);
    assert_eq!(run("a.png", &["--alpha", "plain"]), plain);
    let kept = run("a.png", &["--alpha", "keep"]);
    assert_eq!(kept.channel(0), plain.channel(0));
    assert_eq!(kept.channel(3), image.channel(3));
    let weighted = run("a.png", &["--alpha", "weighted"]);
    assert_eq!(weighted, run("a.png", &[]));
    assert_eq!(weighted.channel(3), plain.channel(3));
    assert_ne!(weighted.channel(0), plain.channel(0));
    let args = ["a.npy", "--overwrite", "-o", "b.npy", "--box", "3", "--alpha", "keep"];
    place.filter(&args).with(0, &["note: a.npy: .npy has no alpha"]);

    for mask in [["--sobel", "x"], ["--scharr", "magnitude"]] {
        let args = ["a.png", "-o", "c.png", "--alpha", "weighted"];
        let words = ["--alpha weighted can't be used with", mask[0], "sum to 0"];
        place.filter(&[&args[..], &mask].concat()).with(2, &words);
    }
    place.filter(&["a.png", "-o", "c.png", "--box", "3", "--alpha", "none"]).with(2, &["weighted, keep, plain"]);
}

/// Formats without alpha get the colours of an opaque picture. Another picture is refused, with a way out.
#[test]
fn opaque_alpha_is_left_out_where_there_is_no_place_for_it() {
    let place = Place::new();
    let with = |channels: usize, last: u8| {
        let mut image = picture(9, 7, channels, |i| i as u8);
        image.values_mut().chunks_exact_mut(channels).for_each(|pixel| pixel[channels - 1] = 255);
        *image.values_mut().last_mut().unwrap() = last;
        image
    };
    for (name, channels, output) in [("rgba.png", 4, "a.ppm"), ("grey.png", 2, "a.pgm"), ("grey.png", 2, "a.bmp")] {
        if !place.path(name).exists() {
            place.write(name, with(channels, 255));
        }
        let note = format!("note: {name}: alpha is left out: it is opaque everywhere, and ");
        place.filter(&[name, "-o", output, "--box", "3"]).with(0, &[&note]);
        place.filter(&[name, "-o", "right.png", "--box", "3", "--overwrite"]).quietly();
        assert_eq!(place.read_u8(output).channel(0), place.read_u8("right.png").channel(0), "{output}");
    }
    place.filter(&["rgba.png", "-q", "-o", "a.jpg", "--box", "3"]).quietly();
    assert_eq!(place.read_u8("a.jpg").channels(), 3);
    place.write("hidden.png", with(4, 254));
    place.filter(&["hidden.png", "-o", "b.jpg", "--box", "3"]).with(
        1,
        &["b.jpg: JPEG holds u8 in 1 or 3 channels, not u8 in 4", "alpha is not opaque everywhere", "such as .png"],
    );
    // Arrays have no alpha.
    place.write("a.npy", with(4, 255));
    place.filter(&["a.npy", "-o", "b.jpg", "--box", "3"]).with(1, &["not u8 in 4 (another extension helps)"]);
}

/// Half visible, hidden and opaque.
const STRAIGHT: [f32; 12] = [1.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0];

/// OpenEXR gets colours that are multiplied by alpha: as a part of 1, or of the greatest number that it keeps.
#[test]
fn colours_are_multiplied_for_openexr() {
    let place = Place::new();
    let note = |name| format!("note: {name}: colours are multiplied by alpha, because OpenEXR holds them so\n");
    place.write("a.tif", Image::new(3, 1, 4, STRAIGHT.to_vec()).unwrap());
    place.filter(&["a.tif", "-o", "a.exr", "--identity"]).with(0, &[&note("a.tif")]);
    assert_eq!(place.read_f32("a.exr").values()[..4], [0.5, 0.25, 0.0, 0.5]);
    place.filter(&["a.exr", "-o", "b.exr", "--identity"]).quietly();
    assert_eq!(place.read("b.exr"), place.read("a.exr"));
    place.write("c.png", Image::new(2, 1, 4, vec![200_u8, 100, 0, 255, 200, 100, 0, 51]).unwrap());
    place.filter(&["c.png", "-o", "c.exr", "--identity", "--output-type", "f32"]).with(0, &[&note("c.png")]);
    assert_eq!(place.read_f32("c.exr").values(), [200.0, 100.0, 0.0, 255.0, 40.0, 20.0, 0.0, 51.0]);
    // Arrays have no alpha.
    place.write("d.npy", Image::new(3, 1, 4, STRAIGHT.to_vec()).unwrap());
    place.filter(&["d.npy", "-o", "d.exr", "--identity"]).quietly();
    assert_eq!(place.read_f32("d.exr").values(), STRAIGHT);
}

/// Alpha is linear as it is, and so is what stands outside of it.
#[test]
fn the_border_of_plain_alpha_is_not_decoded() {
    let place = Place::new();
    let even = Image::new(5, 4, 4, vec![128_u8; 80]).unwrap();
    place.write("a.png", even.clone());
    let args = ["a.png", "-o", "b.png", "--box", "3", "--linear", "--alpha", "plain", "--border", "constant:128"];
    place.filter(&args).quietly();
    assert_eq!(place.read_u8("b.png"), even);
}

/// OpenEXR's colours are multiplied by alpha already.
#[test]
fn colours_of_openexr_are_not_weighted_again() {
    let place = Place::new();
    // The first pixel becomes (0.5, 0.25, 0).
    place.write("a.exr", Image::new(3, 1, 4, STRAIGHT.to_vec()).unwrap());
    let run = |mask: &[&str]| {
        let run = place.filter(&[&["a.exr", "-o", "b.npy", "--overwrite"], mask].concat());
        run.with(0, &["a.exr: not kept: that the colours are multiplied by alpha"]);
        place.read_f32("b.npy").values()[4..8].to_vec()
    };
    assert_eq!(run(&["--kernel", "3x1: 0.25,0.5,0.25"]), [0.375, 0.1875, 0.0, 0.375]);
    // An offset is seen as far as alpha is.
    assert_eq!(run(&["--kernel", "3x1: 0.25,0.5,0.25", "--offset", "1"]), [0.75, 0.5625, 0.375, 0.375]);
}

/// TIFF says that colours of OpenEXR are multiplied by alpha (`ExtraSamples` 1). PNG gets them divided by it.
#[test]
fn colours_of_openexr_stay_multiplied_or_are_divided() {
    let place = Place::new();
    let values = [0.5_f32, 0.25, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 1.0, 0.5, 0.0, 1.0];
    place.write("a.exr", Image::new(3, 1, 4, STRAIGHT.to_vec()).unwrap());
    place.filter(&["a.exr", "-o", "b.tif", "--identity"]).quietly();
    let picture = Picture::read(place.path("b.tif")).unwrap();
    assert!(picture.metadata.premultiplied);
    assert_eq!(place.read_f32("b.tif").values(), values);
    let args = ["a.exr", "-o", "b.png", "--identity", "--scale", "255", "--alpha", "plain", "--output-type", "u8"];
    place.filter(&args).with(0, &["colours are divided by alpha, because PNG"]);
    assert_eq!(place.read_u8("b.png").values(), [255, 128, 0, 128, 0, 0, 0, 0, 255, 128, 0, 255]);
}

/// Colours are divided before they are rounded. So they stay where alpha is low.
#[test]
fn colours_of_low_alpha_are_divided_in_f32() {
    let place = Place::new();
    let parts = [1.0 / 255.0, 3.0 / 255.0, 0.5, 1.0, 0.0];
    let values = parts.iter().flat_map(|alpha| [0.7 * alpha, 0.4 * alpha, 0.2 * alpha, *alpha]).collect();
    let image = Image::<f32>::new(5, 1, 4, values).unwrap();
    let mut picture = Picture::from(image);
    picture.metadata.premultiplied = true;
    for input in ["a.exr", "a.tif"] {
        picture.write(place.path(input), OverwritePolicy::Keep).unwrap();
        for (mask, pixel, most) in [
            (&["--identity"][..], "u8", 255.0),
            (&["--identity"], "u16", 65_535.0),
            (&["--identity", "--then", "--identity"], "u8", 255.0),
        ] {
            let scale = most.to_string();
            let args = [input, "-q", "--overwrite", "-o", "b.png", "--output-type", pixel, "--scale", &scale];
            for alpha in [&["--alpha", "plain"][..], &[]] {
                place.filter(&[&args[..], mask, alpha].concat()).quietly();
                let found = place.read("b.png").to_f32();
                for (pixel, part) in found.values().chunks_exact(4).zip(parts) {
                    let expected = [0.7, 0.4, 0.2].map(|colour| if part == 0.0 { 0.0 } else { colour * most });
                    for (found, expected) in pixel.iter().zip(expected) {
                        assert!((found - expected).abs() <= 0.51, "{input}, {mask:?}, {alpha:?}: {pixel:?} at {part}");
                    }
                }
            }
        }
    }
}

/// A TIFF may say that its colours are multiplied by alpha. Then a white pixel is as bright as its alpha.
#[test]
fn premultiplied_colours_of_tiff_are_not_weighted_again() {
    let place = Place::new();
    let fields = [(258, 3, 1, 8), (262, 3, 1, 2), (277, 3, 1, 4), (338, 3, 1, 1)];
    let values: Vec<u8> = (0..8 * 16).flat_map(|i| [if i % 16 < 8 { 0 } else { 255 }; 4]).collect();
    fs::write(place.path("a.tif"), tiff(&values, (16, 8), &fields)).unwrap();
    let run = |more: &[&str]| {
        place.filter(&[&["a.tif", "-q", "-o", "b.tif", "--overwrite"], more].concat()).quietly();
        place.read_u8("b.tif")
    };
    let plain = run(&["--gaussian", "2", "--alpha", "plain"]);
    assert_eq!(run(&["--gaussian", "2"]), plain);
    for filter in [&["--gaussian", "2", "--linear"][..], &["--gaussian", "2", "--linear", "--alpha", "plain"]] {
        assert_eq!(run(filter), plain, "{filter:?}");
    }
    // White has no edge, whatever alpha is.
    assert_eq!(run(&["--unsharp", "2:1"]).values(), values);
    let grey: Vec<u8> = (0..8 * 16).flat_map(|i| [i as u8, i as u8 / 2, 0, i as u8]).collect();
    fs::write(place.path("a.tif"), tiff(&grey, (16, 8), &fields)).unwrap();
    assert_eq!(run(&["--gaussian", "2"]), run(&["--gaussian", "2", "--alpha", "plain"]));
    // Divided by alpha, every pixel is (255, 127, 0), apart from rounding: in linear light, too.
    for pixel in run(&["--gaussian", "2", "--linear"]).values().chunks_exact(4).filter(|pixel| pixel[3] > 20) {
        let alpha = i32::from(pixel[3]);
        assert!((i32::from(pixel[0]) - alpha).abs() <= 1 && (i32::from(pixel[1]) - alpha / 2).abs() <= 1, "{pixel:?}");
    }
}

/// The same bits on the CPU and by the GPU's kernels, whole and in strips.
#[test]
fn devices_agree() {
    let place = Place::new();
    place.write("a.png", transparent::<u8>(37, 29, 4, 255.0));
    for mask in [&["--gaussian", "1.2"][..], &["--unsharp", "1:2", "--then", "--sobel", "magnitude", "--scale", "0.3"]]
    {
        place.filter(&[&["a.png", "-q", "--overwrite", "-o", "right.png"], mask].concat()).quietly();
        for memory in ["1G", "16K", "1"] {
            let args =
                ["filter", "a.png", "--overwrite", "-o", "b.png", "--device", "emulator", "--device-memory", memory];
            let words: &[&str] = match memory {
                "16K" => &["a.png: computed in ", " strips"],
                "1" => &["a.png: computed on the CPU"],
                _ => &[],
            };
            place.host(&[&args[..], mask].concat()).with(0, words);
            assert_eq!(place.read_u8("b.png"), place.read_u8("right.png"), "{mask:?}, {memory}");
        }
    }
}
