//! What the filters compute, small enough to check by hand.

use super::*;

#[test]
fn a_known_answer() {
    let place = Place::new();
    place.write("a.npy", Image::from_fn(3, 3, |x, y| (3 * y + x + 1) as f32).unwrap());
    fs::write(place.path("m.txt"), "1 0 0\n0 2 0\n0 0 -1\n").unwrap();
    // Convolution: O[y, x] = I[y+1, x+1] + 2 I[y, x] - I[y-1, x-1].
    place.filter(&["a.npy", "-o", "b.npy", "--mask", "m.txt", "--border", "zero"]).quietly();
    assert_eq!(place.read_f32("b.npy").values(), [7.0, 10.0, 6.0, 16.0, 18.0, 10.0, 14.0, 12.0, 13.0]);
    // Correlation: O[y, x] = I[y-1, x-1] + 2 I[y, x] - I[y+1, x+1].
    place.filter(&["a.npy", "-o", "c.npy", "--mask", "m.txt", "--op", "correlate", "--border", "zero"]).quietly();
    assert_eq!(place.read_f32("c.npy").values(), [-3.0, -2.0, 6.0, 0.0, 2.0, 14.0, 14.0, 20.0, 23.0]);
    // With the anchor in the upper left corner: O[y, x] = I[y, x] + 2 I[y+1, x+1] - I[y+2, x+2].
    let args = ["a.npy", "-o", "d.npy", "--mask", "m.txt", "--op", "correlate", "--anchor", "0,0", "--border", "clamp"];
    place.filter(&args).quietly();
    assert_eq!(place.read_f32("d.npy").values(), [2.0, 5.0, 6.0, 11.0, 14.0, 15.0, 14.0, 17.0, 18.0]);
}

#[test]
fn masks_from_everywhere_agree() {
    let place = Place::new();
    place.write("a.png", picture(9, 8, 3, |i| i as u8));
    place.write("m.npy", Image::new(3, 3, 1, vec![0.0_f32, -1.0, 0.0, -1.0, 5.0, -1.0, 0.0, -1.0, 0.0]).unwrap());
    fs::write(place.path("plain.txt"), "# sharpen\n0,-1,0\n-1,5,-1\n0,-1,0\n").unwrap();
    fs::write(place.path("vips.mat"), "3 3 1 0\n0 -1 0\n-1 5 -1\n0 -1 0\n").unwrap();
    let sources: [&[&str]; 6] = [
        &["--sharpen", "1"],
        &["--mask", "m.npy"],
        &["--mask", "plain.txt"],
        &["--mask", "vips.mat"],
        &["--kernel", "3x3: nan,-1,- -1,5,-1 0,-1,0"],
        &["--kernel", "0,-1,0,-1,5,-1,0,-1,0"],
    ];
    for (i, source) in sources.iter().enumerate() {
        place.filter(&[&["a.png", "-q", "-o", &format!("{i}.png")], *source].concat()).quietly();
        assert_eq!(place.read_u8(&format!("{i}.png")), place.read_u8("0.png"), "{source:?}");
    }
    place.filter_with(b"0 -1 0\n-1 5 -1\n0 -1 0", &["a.png", "-q", "-o", "s.png", "--mask", "-"]).quietly();
    assert_eq!(place.read_u8("s.png"), place.read_u8("0.png"));
    let array = fs::read(place.path("m.npy")).unwrap();
    place.filter_with(&array, &["a.png", "-q", "-o", "t.png", "--mask", "-"]).quietly();
    assert_eq!(place.read_u8("t.png"), place.read_u8("0.png"));
}

/// Variants that are made for some pictures only are asked with the picture, and give what the CPU gives.
#[test]
fn variants_by_name() {
    let place = Place::new();
    place.write("rgb.png", picture(40, 21, 3, |i| (i / 8) as u8));
    place.write("deep.png", picture(40, 21, 1, |i| (i * 257) as u16));
    for (from, mask, variant) in [
        ("rgb.png", ["--gaussian", "1"], "tensor_core_u8"),
        ("rgb.png", ["--box", "3"], "sliding_window"),
        ("deep.png", ["--box", "5x3"], "sliding_window"),
    ] {
        let common = [from, "--overwrite", mask[0], mask[1], "-o"];
        place.filter(&[&common[..], &["right.png"]].concat()).quietly();
        let on_emulator = ["filter", "--device", "emulator", "--variant", variant];
        place.host(&[&on_emulator[..], &common, &["found.png"]].concat()).with(0, &[]);
        assert_eq!(fs::read(place.path("found.png")).unwrap(), fs::read(place.path("right.png")).unwrap(), "{variant}");
    }
    // And refused with it.
    let args =
        ["filter", "--device", "emulator", "--variant", "tensor_core_u8", "deep.png", "-o", "none.png", "--box", "3"];
    place.host(&args).with(1, &["deep.png", "the variant tensor_core_u8 can't compute this", "this one is u16 x 1"]);
    assert!(!place.path("none.png").exists());
}

/// All spellings of an accuracy are taken. Exact results have the CPU's exact bits; a bounded variant's are near to
/// them.
#[test]
fn accuracies() {
    let place = Place::new();
    let image = picture(40, 21, 1, |i| (i * 7919 % 1009) as f32 / 100.0);
    place.write("a.npy", image);
    let common = ["a.npy", "--overwrite", "--gaussian", "1.5", "-o"];
    place.filter(&[&["--exact"][..], &common, &["right.npy"]].concat()).quietly();
    let right = fs::read(place.path("right.npy")).unwrap();
    let found = |more: &[&str]| {
        let on_emulator = ["filter", "--device", "emulator"];
        place.host(&[&on_emulator[..], more, &common, &["found.npy"]].concat()).with(0, &[]);
        fs::read(place.path("found.npy")).unwrap()
    };
    for options in [
        &["--exact"][..],
        &["--accuracy", "exact"],
        &["--variant", "exact"],
        &["--variant", "exact", "--exact"],
        &["--variant", "auto", "--accuracy", "exact"],
        &["--variant", "naive", "--exact"],
        // Too small for a separable kernel.
        &["--accuracy", "bounded"],
        &["--accuracy", "normwise"],
    ] {
        assert!(found(options) == right, "{options:?}");
    }
    for options in [&["--variant", "separable_ring"][..], &["--variant", "separable_ring", "--accuracy", "normwise"]] {
        let found = found(options);
        assert!(found != right, "{options:?}");
        let values = |file: &[u8]| -> Vec<f32> {
            let data = &file[file.len() - 40 * 21 * 4..];
            data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
        };
        for (found, right) in values(&found).into_iter().zip(values(&right)) {
            assert!((found - right).abs() < 1e-4, "{found} is not near {right}");
        }
    }
}

/// Every mask by formula leaves flat areas as they are, or takes them to 0.
#[test]
fn masks_by_formula_on_a_flat_picture() {
    let place = Place::new();
    place.write("flat.npy", Image::new(40, 30, 1, vec![100.0_f32; 1200]).unwrap());
    let masks: [(&[&str], f32); 17] = [
        (&["--identity"], 100.0),
        (&["--gaussian", "1.5"], 100.0),
        (&["--gaussian", "2:3"], 100.0),
        (&["--box", "5"], 100.0),
        (&["--box", "3x8"], 100.0),
        (&["--sharpen", "0.7"], 100.0),
        (&["--emboss"], 100.0),
        (&["--motion", "9:45"], 100.0),
        (&["--disk", "4.5"], 100.0),
        (&["--laplacian"], 0.0),
        (&["--log", "1.5"], 0.0),
        (&["--sobel", "x"], 0.0),
        (&["--sobel", "y"], 0.0),
        (&["--scharr", "x"], 0.0),
        (&["--prewitt", "y"], 0.0),
        (&["--gabor", "8:30:4:1:90"], 0.0),
        (&["--kernel", "2x1: 1,-1"], 0.0),
    ];
    for (mask, expected) in masks {
        let args = ["flat.npy", "-o", "out.npy", "--overwrite", "--border", "mirror"];
        place.filter(&[&args[..], mask].concat()).quietly();
        for &value in place.read_f32("out.npy").values() {
            assert!((value - expected).abs() < 1e-3, "{mask:?}: {value}");
        }
    }
}

#[test]
fn derivatives_have_the_sign_of_the_slope() {
    let place = Place::new();
    place.write("x.npy", Image::from_fn(5, 5, |x, _| x as f32).unwrap());
    place.write("y.npy", Image::from_fn(5, 5, |_, y| y as f32).unwrap());
    for (mask, slope) in [("--sobel", 8.0), ("--scharr", 32.0), ("--prewitt", 6.0)] {
        for (input, axis, expected) in [("x.npy", "x", slope), ("x.npy", "y", 0.0), ("y.npy", "y", slope)] {
            for operation in ["convolve", "correlate"] {
                place.filter(&[input, "-o", "out.npy", "--overwrite", mask, axis, "--op", operation]).quietly();
                let found = place.read_f32("out.npy").row(2)[2];
                assert_eq!(found, expected, "{mask} {axis} on {input}, {operation}");
            }
        }
    }
}

#[test]
fn scale_and_offset_round_half_to_even_and_saturate() {
    let place = Place::new();
    place.write("a.npy", Image::new(8, 1, 1, vec![0_u8, 1, 2, 3, 5, 7, 254, 255]).unwrap());
    let run = |more: &[&str]| {
        place.filter(&[&["a.npy", "-q", "-o", "b.npy", "--overwrite", "--identity"], more].concat()).quietly();
        place.read("b.npy").to_f32().values().to_vec()
    };
    assert_eq!(run(&["--scale", "0.5"]), [0.0, 0.0, 1.0, 2.0, 2.0, 4.0, 127.0, 128.0]);
    assert_eq!(run(&["--scale", "2", "--offset", "-3"]), [0.0, 0.0, 1.0, 3.0, 7.0, 11.0, 255.0, 255.0]);
    assert_eq!(run(&["--scale", "-0.5", "--output-type", "f32"]), [0.0, -0.5, -1.0, -1.5, -2.5, -3.5, -127.0, -127.5]);
    assert_eq!(run(&["--scale", "257", "--output-type", "u16"])[6..], [65_278.0, 65_535.0]);
    assert_eq!(run(&["--scale", "300", "--output-type", "u16"])[6..], [65_535.0, 65_535.0]);
}

#[test]
fn a_masks_file_may_say_scale_and_offset() {
    let place = Place::new();
    place.write("a.npy", Image::new(4, 1, 1, vec![4.0_f32, 8.0, 12.0, 16.0]).unwrap());
    fs::write(place.path("m.mat"), "1 1 4 10\n2\n").unwrap();
    let run = |more: &[&str]| {
        place.filter(&[&["a.npy", "-o", "b.npy", "--overwrite", "--mask", "m.mat"], more].concat()).quietly();
        place.read_f32("b.npy").values().to_vec()
    };
    assert_eq!(run(&[]), [12.0, 14.0, 16.0, 18.0]);
    assert_eq!(run(&["--scale", "1"]), [18.0, 26.0, 34.0, 42.0]);
    assert_eq!(run(&["--offset", "0"]), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(run(&["--normalize", "--offset", "0"]), [4.0, 8.0, 12.0, 16.0]);
}

#[test]
fn a_kernel_may_set_the_anchor() {
    let place = Place::new();
    place.write("a.npy", Image::new(4, 1, 1, vec![1.0_f32, 2.0, 3.0, 4.0]).unwrap());
    let run = |more: &[&str]| {
        let args = ["a.npy", "-o", "b.npy", "--overwrite", "--op", "correlate", "--border", "zero"];
        place.filter(&[&args[..], more].concat()).quietly();
        place.read_f32("b.npy").values().to_vec()
    };
    assert_eq!(run(&["--kernel", "3x1+0+0: 1,0,0"]), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(run(&["--kernel", "3x1: 1,0,0"]), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(run(&["--kernel", "3x1+0+0: 1,0,0", "--anchor", "0,2"]), [0.0, 0.0, 1.0, 2.0]);
}

#[test]
fn a_photograph_gets_softer() {
    let place = Place::new();
    let coffee = data().join("seed_coffee/coffee.png");
    place.filter(&[coffee.to_str().unwrap(), "-o", "soft.png", "--gaussian", "2", "--border", "mirror"]).quietly();
    let AnyImage::U8(before) = Picture::read(coffee).unwrap().pixels else { panic!() };
    let after = place.read_u8("soft.png");
    let mean = |image: &Image<u8>| {
        image.values().iter().map(|&value| f64::from(value)).sum::<f64>() / image.values().len() as f64
    };
    let roughness = |image: &Image<u8>| {
        let steps = image.values().windows(4).map(|w| f64::from(w[0].abs_diff(w[3])));
        steps.sum::<f64>() / image.values().len() as f64
    };
    assert!((mean(&before) - mean(&after)).abs() < 0.5, "{} {}", mean(&before), mean(&after));
    assert!(roughness(&after) < 0.5 * roughness(&before), "{} {}", roughness(&before), roughness(&after));
}

/// Device memory that is too small: strips, then the CPU, each said, and always the same picture.
#[test]
fn little_device_memory() {
    let place = Place::new();
    place.write("a.png", picture(61, 47, 3, |i| (i * i / 7) as u8));
    let mask = ["--gaussian", "1.2", "--border", "wrap"];
    place.filter(&[&["a.png", "-o", "right.png"], &mask[..]].concat()).quietly();
    let limited = |memory: &str, to: &str, words: &[&str]| {
        let args = ["filter", "--device", "emulator", "--device-memory", memory, "a.png", "-o", to];
        place.host(&[&args[..], &mask[..]].concat()).with(0, words);
        assert_eq!(place.read_u8(to), place.read_u8("right.png"), "{memory}");
    };
    limited(
        "8K",
        "strips.png",
        &["a.png: computed in ", " strips: the device's memory does not hold the images whole"],
    );
    limited("100", "cpu.png", &["a.png: computed on the CPU: device memory: ", "100 bytes of 100 bytes are free"]);
    limited("1", "less.png", &["a.png: computed on the CPU: device memory: "]);
    limited("1G", "whole.png", &[]);
    let args = [&["a.png", "-o", "note.png", "--device-memory", "1"], &mask[..]].concat();
    place.filter(&args).with(0, &["note: the CPU has no memory of its own"]);
    let args =
        ["filter", "--device", "emulator", "--device-memory", "100", "--variant", "naive", "a.png", "-o", "b.png"];
    let refused = ["a.png: device memory: ", "kB are needed, 100 bytes of 100 bytes are free"];
    place.host(&[&args[..], &mask[..]].concat()).with(1, &refused);
    for text in ["-1", "1.5G", "many", "", "99999999999G"] {
        let args = [&["a.png", "-o", "b.png", "--device-memory", text], &mask[..]].concat();
        place.filter(&args).with(2, &["--device-memory", "a number of bytes was expected"]);
    }
    assert!(!place.path("b.png").exists());
}
