//! Filters of more than one step: several masks, unsharp masks, the length of the gradient, linear light.

use super::*;

/// The array of which SciPy 1.17.1 was asked below.
fn array() -> Image<f32> {
    Image::from_fn(6, 5, |x, y| ((x * x * 37 + y * y * 91 + x * y * 13) % 256) as f32).unwrap()
}

/// `scipy.ndimage.gaussian_filter(a, 1.5, mode="mirror")`.
const GAUSSIAN: [f64; 30] = [
    92.554_296,
    94.201_988,
    99.864_276,
    108.673_045,
    116.136_744,
    118.812_547,
    94.720_947,
    95.781_565,
    100.049_565,
    107.371_216,
    113.805_474,
    116.132_769,
    98.236_626,
    98.723_821,
    101.461_325,
    106.625_212,
    110.987_275,
    112.444_772,
    99.550_395,
    100.649_726,
    104.473_437,
    109.584_883,
    112.534_066,
    113.105_632,
    99.514_965,
    101.212,
    106.255_872,
    111.983_14,
    114.561_468,
    114.768_578,
];

/// `numpy.hypot(scipy.ndimage.sobel(a, axis=1, mode="mirror"), scipy.ndimage.sobel(a, axis=0, mode="mirror"))`.
const MAGNITUDE: [f64; 30] = [
    0.0, 132.0, 212.0, 292.0, 140.0, 0.0, 484.0, 289.108_98, 128.249_76, 443.549_32, 196.773_98, 124.0, 108.0,
    230.893_92, 151.789_33, 218.357_51, 256.499_51, 204.0, 188.0, 181.372_54, 311.178_41, 585.368_26, 452.901_76,
    228.0, 0.0, 68.0, 524.0, 92.0, 340.0, 0.0,
];

/// A place with [`array`] in it, and the result of these options.
fn of_array(options: &[&str]) -> Vec<f32> {
    let place = Place::new();
    place.write("a.npy", array());
    place.filter(&[&["a.npy", "-o", "b.npy"], options].concat()).quietly();
    place.read_f32("b.npy").into_values()
}

#[track_caller]
fn near(found: &[f32], expected: impl IntoIterator<Item = f32>) {
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-3, "value {i}: {found}, not {expected}");
    }
}

#[test]
fn an_unsharp_mask_adds_the_difference_from_a_blur() {
    let sharp = |amount: f32, threshold: f32| {
        let both = array().into_values().into_iter().zip(GAUSSIAN);
        both.map(move |(value, blurred)| {
            let difference = value - blurred as f32;
            if difference.abs() > threshold { value + amount * difference } else { value }
        })
    };
    near(&of_array(&["--unsharp", "1.5"]), sharp(1.0, 0.0));
    near(&of_array(&["--unsharp", "1.5:0.4"]), sharp(0.4, 0.0));
    near(&of_array(&["--unsharp", "1.5:2:30"]), sharp(2.0, 30.0));
    // Without a threshold it is the library's filter.
    let filter = faltung::Filter::unsharp(1.5, 0.4).border(faltung::Border::Mirror);
    let of_library: Image<f32> = faltung::Device::cpu().apply(&filter, &array()).unwrap();
    near(&of_array(&["--unsharp", "1.5:0.4"]), of_library.into_values());
    assert_ne!(of_array(&["--unsharp", "1.5:2:30"]), of_array(&["--unsharp", "1.5:2"]));
    near(
        &of_array(&["--unsharp", "1.5:2:30", "--op", "correlate", "--offset", "5"]),
        sharp(2.0, 30.0).map(|v| v + 5.0),
    );
}

#[test]
fn the_length_of_the_gradient() {
    near(&of_array(&["--sobel", "magnitude"]), MAGNITUDE.map(|length| length as f32));
    near(
        &of_array(&["--sobel", "magnitude", "--op", "correlate", "--scale", "0.5"]),
        MAGNITUDE.map(|length| length as f32 / 2.0),
    );
    let length = |mask: &str| {
        let [x, y] = ["x", "y"].map(|axis| of_array(&[mask, axis]));
        x.into_iter().zip(y).map(|(x, y)| x.hypot(y)).collect::<Vec<_>>()
    };
    for mask in ["--scharr", "--prewitt"] {
        near(&of_array(&[mask, "magnitude"]), length(mask));
    }
}

/// Values between two masks are f32 and may exceed the range of the type. Two runs with f32 between them give the same.
#[test]
fn masks_one_after_the_other() {
    let place = Place::new();
    place.write("a.png", picture(31, 22, 3, |i| i as u8));
    fs::write(place.path("m.mat"), "3 1 4 1\n1 2 1\n").unwrap();
    let chains: [&[&[&str]]; 3] = [
        &[&["--sobel", "x"], &["--gaussian", "1.5", "--offset", "100"]],
        &[
            &["--scale", "-3", "--offset", "7", "--box", "3"],
            &["--emboss", "--anchor", "0,2"],
            &["--box", "2", "--scale", "0.2"],
        ],
        &[&["--mask", "m.mat"], &["--kernel", "1,2,1,0,0,0,-1,-2,-1"], &["--normalize", "--kernel", "2x2: 1,2,3,4"]],
    ];
    for chain in chains {
        let together = chain.join(&"--then");
        place.filter(&[&["a.png", "-q", "--overwrite", "-o", "found.png"], &together[..]].concat()).quietly();
        let mut from = "a.png".to_owned();
        for (i, step) in chain.iter().enumerate() {
            let last = i + 1 == chain.len();
            let to = format!("step-{i}.npy");
            let kind = if last { "u8" } else { "f32" };
            let args = [&from, "-q", "--overwrite", "-o", &to, "--output-type", kind];
            place.filter(&[&args[..], step].concat()).quietly();
            from = to;
        }
        assert_eq!(place.read_u8("found.png"), place.read_u8(&from), "{chain:?}");
    }
}

#[test]
fn what_makes_no_sense() {
    let place = Place::new();
    place.write("a.png", picture(5, 5, 3, |i| i as u8));
    let fails = |options: &[&str], words: &[&str]| {
        place.filter(&[&["a.png", "-o", "b.png"], options].concat()).with(2, words);
    };
    fails(&["--then", "--box", "3"], &["--then needs a mask before and after it"]);
    fails(&["--box", "3", "--then"], &["--then needs a mask before and after it"]);
    fails(&["--box", "3", "--then", "--then", "--emboss"], &["--then needs a mask before and after it"]);
    fails(&["--box", "3", "--emboss"], &["--box cannot be used with --emboss", "--then goes between"]);
    fails(&["--box", "3", "--then", "--sobel", "x", "--sobel", "y"], &["--sobel cannot be used with --sobel"]);
    fails(&["--box", "3", "--scale", "2", "--scale", "3"], &["--scale was given 2 times for one mask"]);
    fails(&["--box", "3", "--then", "--emboss", "--anchor", "3,3"], &["anchor (row 3, column 3)"]);
    fails(&["--mask", "-", "--then", "--mask", "-"], &["--mask - was given 2 times"]);
    fails(&["--unsharp", "2", "--normalize"], &["--normalize can't be used with --unsharp"]);
    fails(&["--unsharp", "2", "--anchor", "0,0"], &["--anchor can't be used with --unsharp"]);
    fails(&["--unsharp", "0"], &["the radius must be a number above 0, not 0"]);
    fails(&["--unsharp", "-2"], &["the radius must be a number above 0, not -2"]);
    fails(&["--unsharp", "2:nan"], &["the amount must be a finite number, not NaN"]);
    fails(&["--unsharp", "2:1:-1"], &["the threshold must be 0 or more, not -1"]);
    fails(&["--unsharp", "2:1:1:1"], &["RADIUS[:AMOUNT[:THRESHOLD]] was expected"]);
    fails(&["--unsharp", "much"], &["a number was expected, not \"much\""]);
    fails(&["--sobel", "magnitude", "--normalize"], &["--normalize", "finite and not 0"]);
    assert_eq!(place.names(), ["a.png"]);
}

/// Between black and white, half the light is 188 in sRGB, not 128.
#[test]
fn linear_light() {
    let place = Place::new();
    let halves = |most: u16| Image::from_fn(8, 8, move |x, y| (x + y) as u16 % 2 * most).unwrap();
    place.write("a.png", halves(255).map(|value| value as u8));
    place.write("deep.png", halves(65_535));
    place.write("float.npy", halves(1).map(f32::from));
    let run = |name: &str, options: &[&str]| {
        let to = format!("out-{name}");
        place
            .filter(&[&[name, "--overwrite", "-o", &to, "--box", "2", "--border", "wrap"], options].concat())
            .quietly();
        place.read(&to).to_f32().values()[0]
    };
    assert_eq!([run("a.png", &[]), run("a.png", &["--linear"])], [128.0, 188.0]);
    assert_eq!(run("deep.png", &["--linear"]), 48_192.0); // 0.735357 * 65535
    assert!((run("float.npy", &["--linear"]) - 0.735_357).abs() < 1e-5);
    // Alpha is no light.
    let values = halves(255).values().iter().flat_map(|&value| [100, value as u8]).collect();
    place.write("alpha.png", Image::new(8, 8, 2, values).unwrap());
    for alpha in ["weighted", "plain"] {
        run("alpha.png", &["--linear", "--alpha", alpha]);
        assert_eq!(place.read_u8("out-alpha.png").values()[..2], [100, 128], "{alpha}");
    }
    // Values that nothing changes come back, each of them.
    place.write("all.png", Image::from_fn(256, 1, |x, _| x as u8).unwrap());
    place.filter(&["all.png", "-o", "same.png", "--identity", "--linear"]).quietly();
    assert_eq!(place.read_u8("same.png"), place.read_u8("all.png"));
}

#[test]
fn what_is_not_srgb_is_noted() {
    let place = Place::new();
    let mut profile = vec![0_u8; 200];
    profile[16..20].copy_from_slice(b"RGB ");
    profile[36..40].copy_from_slice(b"acsp");
    profile[128..144].copy_from_slice(b"Adobe RGB (1998)");
    let mut picture = Picture::from(picture(4, 4, 3, |i| i as u8));
    picture.metadata.icc_profile = Some(profile);
    picture.write(place.path("a.png"), OverwritePolicy::Keep).unwrap();
    let args = ["a.png", "--overwrite", "-o", "b.png", "--box", "3"];
    place.filter(&args).quietly();
    let linear = [&args[..], &["--linear"]].concat();
    place.filter(&linear).with(0, &["note: a.png: its ICC profile is not sRGB's"]);
    place.write("a.exr", Image::new(2, 1, 3, vec![0.0_f32, 0.5, 1.0, 1.0, 0.5, 0.0]).unwrap());
    let args = ["a.exr", "-o", "b.exr", "--kernel", "1: 0.5", "--linear"];
    place.filter(&args).with(0, &["note: a.exr: OpenEXR is linear light as it is"]);
    assert_eq!(place.read_f32("b.exr").values(), [0.0, 0.25, 0.5, 0.5, 0.25, 0.0]);
}

#[test]
fn a_batch_of_several_steps() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for i in 0..6 {
        let channels = 1 + i % 4;
        place.write(&format!("in/{i}.png"), picture(20 + i % 2, 15, channels, |value| value as u8));
    }
    let options = ["-q", "--linear", "--unsharp", "1:0.5:1", "--then", "--box", "3"];
    place.filter(&[&["in", "-o", "out/"], &options[..]].concat()).quietly();
    for i in 0..6 {
        let name = format!("in/{i}.png");
        place.filter(&[&[name.as_str(), "--overwrite", "-o", "alone.png"], &options[..]].concat()).quietly();
        assert_eq!(place.read_u8("alone.png"), place.read_u8(&format!("out/{i}.png")), "{i}");
    }
}
