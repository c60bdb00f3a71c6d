//! Bad input gets a clear error, never a panic, never a wrong picture, and leaves nothing half written.

use std::time::{Duration, Instant};

use super::*;

/// A `.npy` file by hand.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    header += &" ".repeat((64 - (header.len() + 11) % 64) % 64);
    header.push('\n');
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), data].concat()
}

/// A place with `a.png` and `g.npy`, on which these arguments fail and write nothing.
#[track_caller]
fn fails(args: &[&str], status: i32, words: &[&str]) {
    let place = prepared();
    let before = place.names();
    place.filter(args).with(status, words);
    assert_eq!(place.names(), before);
}

fn prepared() -> Place {
    let place = Place::new();
    place.write("a.png", picture(7, 5, 3, |i| i as u8));
    place.write("g.npy", picture(4, 4, 1, |i| i as f32));
    place
}

/// Checks that an input with these bytes is refused.
#[track_caller]
pub(super) fn refuses(name: &str, bytes: &[u8], words: &[&str]) {
    let place = prepared();
    fs::write(place.path(name), bytes).unwrap();
    let before = place.names();
    place.filter(&[name, "-o", "out.npy", "--identity"]).with(1, &[&[name], words].concat());
    assert_eq!(place.names(), before);
}

/// Checks that the text of a mask is refused.
#[track_caller]
fn refuses_mask(text: &[u8], words: &[&str]) {
    let place = prepared();
    fs::write(place.path("mask.txt"), text).unwrap();
    let args = ["a.png", "-o", "b.png", "--mask"];
    place.filter(&[&args[..], &["mask.txt"]].concat()).with(2, &[&["--mask", "mask.txt"], words].concat());
    place.filter_with(text, &[&args[..], &["-"]].concat()).with(2, &[&["standard input"], words].concat());
    assert_eq!(place.names(), ["a.png", "g.npy", "mask.txt"]);
}

/// An instruction set that no CPU has is an error of every command, before anything is done.
#[test]
fn the_cpu_s_instruction_set_is_checked_first() {
    let place = prepared();
    for args in [&["filter", "a.png", "g.npy", "-o", "out/{stem}.npy", "--identity"][..], &["info"], &["check"]] {
        let ended: Ended = place.command(args).env("FALTUNG_CPU", "sse9").output().unwrap().into();
        ended.with(2, &["error: the environment variable FALTUNG_CPU: avx512", "was expected, not \"sse9\"\n"]);
    }
    assert_eq!(place.names(), ["a.png", "g.npy"]);
}

#[test]
fn arguments() {
    let b = ["a.png", "-o", "b.png"];
    let with = |more: &[&'static str]| [&b[..], more].concat();
    fails(&b, 2, &["required", "--mask", "--kernel", "--gaussian", "--identity"]);
    fails(&with(&["--emboss", "--box", "3"]), 2, &["cannot be used with"]);
    fails(&["a.png", "--emboss"], 2, &["--output"]);
    fails(
        &with(&["--emboss", "--border", "round"]),
        2,
        &["round", "zero, constant:VALUE, clamp, reflect, mirror or wrap"],
    );
    let range = "a number from -3.4e38 to 3.4e38";
    fails(&with(&["--emboss", "--border", "constant:1e40"]), 2, &["--border", range, "not \"1e40\""]);
    fails(&with(&["--kernel", "1x1: 1e40"]), 2, &["--kernel", range, "not \"1e40\""]);
    fails(&with(&["--emboss", "--scale", "1e40"]), 2, &["--scale", "1e40 is too large", range]);
    fails(&with(&["--emboss", "--op", "multiply"]), 2, &["convolve, correlate"]);
    fails(&with(&["--emboss", "--anchor", "3,0"]), 2, &["anchor (row 3, column 0)", "3 rows and 3 columns"]);
    fails(&with(&["--emboss", "--anchor", "middle"]), 2, &["row and a column"]);
    fails(&with(&["--emboss", "--scale", "nan"]), 2, &["scale must be a finite number"]);
    fails(&with(&["--emboss", "--variant", "fast"]), 2, &["fast", "naive"]);
    fails(&with(&["--emboss", "--variant", "naive"]), 2, &["variant naive runs on"]);
    for more in [["--accuracy", "bounded"], ["--accuracy", "exact"]] {
        fails(
            &[&with(&["--emboss", "--exact"])[..], &more].concat(),
            2,
            &["--exact", "cannot be used with", "--accuracy"],
        );
    }
    fails(&with(&["--emboss", "--accuracy", "high"]), 2, &["high", "exact, bounded, normwise"]);
    for class in ["bounded", "normwise"] {
        let conflict = format!("--variant exact cannot be used with --accuracy {class}");
        fails(&with(&["--emboss", "--variant", "exact", "--accuracy", class]), 2, &[&conflict]);
    }
    let conflict = "--variant separable_ring cannot be used with --accuracy exact: it is bounded";
    fails(&with(&["--emboss", "--variant", "separable_ring", "--exact"]), 2, &[conflict]);
    fails(&with(&["--emboss", "--variant", "separable_ring", "--accuracy", "exact"]), 2, &[conflict]);
    fails(&with(&["--emboss", "--output-type", "f64"]), 2, &["u8, u16, f32"]);
    fails(&with(&["--laplacian", "--normalize"]), 2, &["--normalize", "finite and not 0, not 0"]);
    fails(&with(&["--gaussian", "-1"]), 2, &["sigma must be a number above 0, not -1"]);
    fails(&with(&["--gaussian", "1e6"]), 2, &["at most 67108864 is possible"]);
    // Numbers below 0 are not taken for options.
    fails(&with(&["--box", "-3"]), 2, &["--box", "a whole number was expected, not \"-3\""]);
    fails(&with(&["--box", "3x-3"]), 2, &["a whole number was expected, not \"-3\""]);
    fails(&with(&["--emboss", "--anchor", "-1,0"]), 2, &["--anchor", "a row and a column of the mask were expected"]);
    fails(&with(&["--motion", "-5:20"]), 2, &["length of the motion must be at least 1 pixel, not -5"]);
    fails(&with(&["--gaussian", "-2:3"]), 2, &["sigma must be a number above 0, not -2"]);
    fails(&with(&["--disk", "-1"]), 2, &["radius of the disk must be a number above 0, not -1"]);
    fails(&with(&["--gabor", "-8:0"]), 2, &["wavelength must be a number above 0, not -8"]);
    for option in ["--border", "--quality", "--chunk", "--part", "--sobel", "--output-type", "--scale"] {
        fails(&with(&["--emboss", option, "-x"]), 2, &["'-x' for '", option]);
    }
    fails(&["a.png", "--emboss", "-o", "--linear"], 2, &["a value is required for '--output <OUTPUT>'"]);
    prepared().filter(&with(&["--identity", "--scale", "-.5", "--offset", "200"])).quietly();
    // NaN where a size is meant, and sizes that overflow.
    fails(&with(&["--gaussian", "nan"]), 2, &["sigma must be a number above 0, not NaN"]);
    fails(&with(&["--gaussian", "inf"]), 2, &["sigma must be finite, not inf"]);
    fails(&with(&["--gaussian", "1e30"]), 2, &["coefficients of a generated mask is 10^19 or more, at most 67108864"]);
    fails(&with(&["--log", "nan"]), 2, &["sigma must be a number above 0, not NaN"]);
    fails(&with(&["--sharpen", "nan"]), 2, &["amount of sharpening must be a finite number, not NaN"]);
    fails(&with(&["--motion", "nan:0"]), 2, &["at least 1 pixel, not NaN"]);
    fails(&with(&["--motion", "5:nan"]), 2, &["angle of the motion must be a finite number, not NaN"]);
    fails(&with(&["--disk", "nan"]), 2, &["radius of the disk must be a number above 0, not NaN"]);
    fails(&with(&["--gabor", "8:0:nan"]), 2, &["sigma must be a number above 0, not NaN"]);
    fails(&with(&["--box", "nan"]), 2, &["a whole number was expected, not \"nan\""]);
    fails(&with(&["--box", "4294967296x4294967296"]), 2, &["at most 67108864 is possible"]);
    for large in [["--box", "99999999999999999999"], ["--gaussian", "1:99999999999999999999"]] {
        fails(&with(&large), 2, &["99999999999999999999 is too large: at most 1073741823 is possible"]);
    }
    fails(&with(&["--gaussian", "1:18446744073709551615"]), 2, &["at most 67108864 is possible"]);
    fails(&with(&["--emboss", "--offset", "inf"]), 2, &["offset must be a finite number, not inf"]);
    fails(&with(&["--box", "0"]), 2, &["at least 1 x 1 coefficients"]);
    fails(&with(&["--box", "3x0"]), 2, &["this one has 3 rows and 0 columns"]);
    fails(&with(&["--motion", "5"]), 2, &["LEN:ANGLE"]);
    fails(&with(&["--gabor", "8"]), 2, &["two to five numbers"]);
    fails(&with(&["--sobel", "z"]), 2, &["x or y"]);
}

#[test]
fn devices() {
    let place = prepared();
    let run = |device: &str| place.host(&["filter", "a.png", "-o", "b.png", "--emboss", "--device", device]);
    run("gpu").with(2, &["--device", "cuda:NUMBER", "not \"gpu\""]);
    run("cuda:9999").with(3, &["cuda:9999"]);
    if faltung::devices().is_err() {
        run("cuda:0").with(3, &["cuda:0", "no CUDA device can be used"]);
    }
    let ended = place.host(&["filter", "a.png", "-o", "out/", "--emboss", "--device", "cuda:9999"]);
    ended.with(3, &[]);
    assert!(!place.path("out").exists());
    assert_eq!(place.names(), ["a.png", "g.npy"]);
}

/// A picture is read while the device is opened. An input without an end must not delay the error of a missing device.
/// Such inputs are the standard input and a pipe.
#[test]
fn a_missing_device_does_not_wait_for_a_picture() {
    waits_for_nothing("-");
    #[cfg(unix)]
    waits_for_nothing("pipe.png");
}

fn waits_for_nothing(input: &str) {
    let place = prepared();
    if input != "-" {
        let made = Command::new("mkfifo").arg(place.path(input)).status();
        if !made.is_ok_and(|status| status.success()) {
            eprintln!("there is no mkfifo: nothing to see");
            return;
        }
    }
    let mut command = place.command(&["filter", input, "-o", "b.png", "--emboss", "--device", "cuda:9999"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // Open until the end of the test.
    let _input = child.stdin.take().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it waits");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(3));
}

/// The name of a variant is checked before the device is opened.
#[test]
fn variants_of_check() {
    let place = Place::new();
    let run = |device: &str, names: &str| place.host(&["check", "--quick", "--device", device, "--variants", names]);
    for device in ["cpu", "emulator"] {
        run(device, "naive,foo").with(2, &["--variants", "all, auto, exact, naive, ", "was expected, not \"foo\""]);
    }
    run("cpu", "naive").with(2, &["--variants naive", "the CPU takes methods of its own"]);
}

/// Only a CUDA device has kernels to measure. Nothing is written without one.
#[test]
fn only_a_gpu_is_calibrated() {
    let place = Place::new();
    for device in ["cpu", "emulator"] {
        let ended = place.host(&["calibrate", "--device", device, "-o", "costs.csv"]);
        ended.with(2, &[&format!("--device {device}"), "CUDA"]);
    }
    if faltung::devices().is_err() {
        place.host(&["calibrate", "-o", "costs.csv"]).with(3, &["cuda:0"]);
    }
    assert!(!place.path("costs.csv").exists());
}

/// The first line that is printed of a reason is for people: short, and it repeats nothing.
#[test]
fn a_missing_driver_is_one_short_line() {
    if faltung::devices().is_ok() {
        return;
    }
    let place = prepared();
    let ended =
        place.host(&["filter", "a.png", "-o", "b.png", "--gaussian", "1"]).with(0, &["device: CPU", "no CUDA device"]);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let reason = &ended.stderr[ended.stderr.find('(').unwrap()..];
    assert!(ended.stderr.starts_with("device: CPU (no CUDA device can be used: "), "{}", ended.stderr);
    assert!(reason.len() < 100 && reason.matches("libcuda").count() <= 1, "{reason}");
}

#[test]
fn kernels() {
    for (kernel, words) in [
        ("3x3: 1,2,3", &["mask: 3 x 3", "takes 9 values, 3 were given"][..]),
        ("3x3 0 1 0", &["a number, nan or - was expected"]),
        ("0x1:", &["at least 1 x 1 coefficients, this one has 1 rows and 0 columns"]),
        ("9999999999999999x9999999999999999: 1", &["mask width is 9999999999999999, at most 1073741823 is possible"]),
        ("3xb: 1", &["--kernel: a size \"WxH\"", "3xb"]),
        ("Gaussian:0x1", &["reads numbers", "not the kernel named \"Gaussian\": --gaussian"]),
        ("Sobel", &["not the kernel named \"Sobel\""]),
        ("1x1: one", &["a number, nan or - was expected, not \"one\""]),
        ("2x1+2+0: 1,2", &["anchor (row 0, column 2)"]),
    ] {
        fails(&["a.png", "-o", "b.png", "--kernel", kernel], 2, &[&["--kernel"], words].concat());
    }
}

#[test]
fn masks() {
    refuses_mask(b"1,5 2\n", &["one kind of separator in row 1", "not \"1,5 2\""]);
    refuses_mask(b"1 2 3\n4 5\n", &["row 2 of the mask has 2 coefficients, row 1 has 3"]);
    refuses_mask(b"1 2\n3 four\n", &["a number in row 2, column 2 was expected, not \"four\""]);
    let place = prepared();
    place.filter(&["a.png", "-o", "b.png", "--mask", "a.png"]).with(2, &["--mask: a.png: is neither text nor .npy"]);
    refuses_mask(b"", &["at least 1 x 1 coefficients"]);
    refuses_mask(b"3 2 1 0\n1 2 3\n", &["2 rows of 3 after the header \"3 2\"", "not \"1 row of 3\""]);
    refuses_mask(b"\xff\xfe\x00", &["neither text nor .npy"]);
    refuses_mask(&npy("<f4", "(0, 3)", &[]), &["at least 1 x 1 coefficients"]);
    refuses_mask(&npy("<f4", "(4,)", &[0; 16]), &["rows x columns"]);
    refuses_mask(b"1 1e40\n", &["a number from -3.4e38 to 3.4e38 in row 1, column 2 was expected, not \"1e40\""]);
    refuses_mask(&npy("<f8", "(1, 1)", &1e300_f64.to_le_bytes()), &["holds 1e300, which is beyond f32"]);
    refuses_mask(&npy("<f2", "(1, 1)", &[0; 2]), &["holds f16, and f32, f64, integers or bool are needed"]);
    refuses_mask(&npy("<f4", "(2, 2)", &[0; 15]), &["cut off", "16 bytes, 15"]);
    fails(&["a.png", "-o", "b.png", "--mask", "nowhere.txt"], 2, &["--mask", "nowhere.txt", "No such file"]);
    fails(&["a.png", "-o", "b.png", "--mask", "."], 2, &["is a folder"]);
}

#[test]
fn inputs() {
    fails(&["nowhere.png", "-o", "b.png", "--identity"], 1, &["nowhere.png", "No such file"]);
    fails(&["*.gif", "-o", "{stem}.png", "--identity"], 1, &["no file matches the input \"*.gif\""]);
    if cfg!(unix) {
        fails(&["-", "-o", "out/", "--identity"], 2, &["-, the standard input, has no name", "name the file"]);
        fails(&["-", "-", "-o", "b.png", "--identity"], 2, &["- was given 2 times"]);
        fails(&["-", "-o", "b.png", "--mask", "-"], 2, &["the picture or the mask, not both"]);
        fails(&["-", "-o", "b.png", "--identity"], 1, &["error: standard input: is empty"]);
    }
    fails(&["[", "-o", "{stem}.png", "--identity"], 2, &["the input \"[\""]);
    fails(&[".", "-o", "b.png", "--identity"], 2, &["b.png is one file", "{stem}"]);
    fails(&["*.png", "-o", "b.png", "--identity"], 2, &["b.png is one file"]);
    refuses("x.png", b"", &["is empty"]);
    refuses("x.png", b"This is a text and no picture.", &["in no format that can be read", ".png"]);
    refuses("x.gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00;", &["in no format that can be read"]);
}

#[test]
fn arrays() {
    refuses("x.npy", &npy("|u1", "(0, 3)", &[]), &["at least 1 x 1 pixels and 1 channel, this one has 3 x 0"]);
    refuses("x.npy", &npy("|u1", "(2, 3, 0)", &[]), &["at least 1 x 1 pixels"]);
    refuses("x.npy", &npy("|u1", "(6,)", &[0; 6]), &["height x width"]);
    refuses("x.npy", &npy("|u1", "(2, 2, 5)", &[0; 20]), &["[2, 2, 5]"]);
    refuses("x.npy", &npy("<f8", "(1, 1)", &[0; 8]), &["holds f64", "u8, u16 or f32", "astype"]);
    refuses("x.npy", &npy("<c8", "(1, 1)", &[0; 8]), &["simple numbers"]);
    refuses("x.npy", &npy("<f4", "(2, 2)", &[0; 12]), &["cut off", "16 bytes, 12 are there"]);
    refuses("x.npy", &npy("<f4", "(1000000, 1000000)", &[0; 12]), &["cut off"]);
    refuses("x.npy", &npy("<f4", "(4294967296, 4294967296, 4294967296)", &[]), &["too large"]);
    refuses("x.npy", &npy("|u1", "(1, 1073741824)", &[]), &["cut off"]);
    refuses("x.npy", &npy("|u1", &"(".repeat(9000), &[]), &["too many parentheses"]);
    refuses("x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff", &["at most 10000"]);
    refuses("x.npy", b"\x93NUMPY\x01\x00\x05\x00hello", &["bad .npy header"]);
    refuses("x.npy", b"\x93NUMPY\x01", &["ends within"]);
}

#[test]
fn outputs() {
    let kept = prepared();
    let bytes = fs::read(kept.path("a.png")).unwrap();
    kept.filter(&["g.npy", "-o", "a.png", "--box", "3"]).with(1, &["a.png exists, and is kept", "--overwrite"]);
    kept.filter(&["a.png", "-o", "a.png", "--box", "3"]).with(1, &["a.png exists, and is kept"]);
    assert_eq!(fs::read(kept.path("a.png")).unwrap(), bytes);
    assert_eq!(kept.names(), ["a.png", "g.npy"]);

    fails(
        &["a.png", "-o", "nowhere/b.png", "--identity"],
        2,
        &["nowhere/b.png", "can't be written in nowhere: the folder does not exist"],
    );
    fails(&["a.png", "-o", "g.npy/b.png", "--identity"], 2, &["g.npy/b.png", "can't be written in g.npy"]);
    if cfg!(target_os = "linux") {
        fails(
            &["a.png", "-o", "/proc/b.png", "--identity"],
            2,
            &["/proc/b.png", "can't be written in /proc: No such file or directory (os error 2)\n"],
        );
        fails(&["a.png", "-o", "/proc/", "--identity"], 2, &["/proc/: can't be written in: No such file"]);
        fails(&["a.png", "-o", "/dev/null", "--identity"], 2, &["/dev/null: has no extension"]);
    }
    fails(&["a.png", "-o", "b.xyz", "--identity"], 2, &["b.xyz: has .xyz", ".png, .jpg"]);
    fails(&["a.png", "-o", "b", "--identity"], 2, &["b: has no extension", "\"b/\" would be a folder"]);
    fails(
        &["g.npy", "-o", "b.png", "--identity"],
        1,
        &["not f32 in 1 (--output-type u8 --scale 255 helps if the values are 0 to 1; or another extension)"],
    );
    fails(
        &["a.png", "-o", "b.pgm", "--identity"],
        1,
        &["b.pgm: PGM holds u8 or u16 in 1 channel, not u8 in 3 (another extension"],
    );
    let u16 = ["--identity", "--output-type", "u16"];
    fails(&[&["a.png", "-o", "b.jpg"], &u16[..]].concat(), 2, &["b.jpg: JPEG holds u8 in 1 or 3 channels, not u16"]);
    fails(&[&["a.png", "-o", "{stem}.jpg"], &u16[..]].concat(), 2, &["{stem}.jpg: JPEG holds u8"]);
    fails(&["a.png", "-o", "{stem}-{ext}", "--identity"], 2, &["has no extension"]);
}

/// The error of a picture that is too large for a format names the sizes. No file is left.
#[test]
fn jpeg_has_a_largest_size() {
    let place = Place::new();
    place.write("wide.png", picture(65_501, 1, 1, |i| i as u8));
    place.write("widest.png", picture(65_500, 1, 1, |i| i as u8));
    let message = "wide.jpg: JPEG holds at most 65500 columns and rows, not 65501 x 1";
    place.filter(&["wide.png", "-o", "wide.jpg", "--identity"]).with(1, &[message]);
    place.filter(&["widest.png", "-o", "widest.jpg", "--identity"]).quietly();
    assert_eq!(place.names(), ["wide.png", "widest.jpg", "widest.png"]);
}

#[test]
fn names_of_outputs() {
    fails(&["a.png", "g.npy", "-o", "b.npy", "--identity"], 2, &["b.npy is one file", "need a folder", "{stem}"]);
    fails(&["a.png", "-o", "-", "--identity"], 2, &["-: results go to files, not to the standard output"]);
    fails(&["missing", "-o", "out/", "--identity"], 1, &["missing: No such file"]);
    fails(&["a.png", "g.npy", "-o", "b", "--identity"], 2, &["b is one file", "need a folder (\"b/\""]);
    fails(&["a.png", "g.npy", "-o", "b{ext}.npy", "a.png", "--identity"], 2, &["have one output, bpng.npy"]);
    fails(&["a.png", "-o", "{name}.png", "--identity"], 2, &["{name}: {stem} and {ext}"]);
    fails(&["a.png", "-o", "{{stem}}.png", "--identity"], 2, &["a { within braces: {stem} has one pair"]);
    fails(&["a.png", "-o", "{stem.png", "--identity"], 2, &["without }"]);
    fails(&["a.png", "./a.png", "-o", "{stem}-b.png", "--identity"], 2, &["have one output"]);
    fails(&["a.png", "a.png", "-o", "out/", "--identity"], 2, &["have one output, out/a.png"]);
    fails(&["a.png", "-o", "g.npy/", "--identity"], 2, &["g.npy/: can't be made"]);
    let message = "g.npy/deeper: can't be made: g.npy is not a folder";
    fails(&["a.png", "-o", "g.npy/deeper/{stem}.png", "--identity"], 2, &[message]);
    // One result must not replace what is still to be read.
    let place = Place::new();
    place.write("1.npy", picture(4, 4, 1, |i| i as f32));
    place.write("11.npy", picture(4, 4, 1, |i| i as f32));
    place
        .filter(&["1.npy", "11.npy", "-o", "1{stem}.npy", "--identity", "--overwrite"])
        .with(2, &["is the input 11.npy"]);
}

/// Without a result no folder is made.
#[test]
fn a_folder_is_made_with_its_first_result() {
    let place = Place::new();
    fs::write(place.path("bad.png"), "bad").unwrap();
    for output in ["out/", "out/{stem}.png", "out/{ext}/{stem}.png", "out/deeper/{stem}.png"] {
        place.filter(&["bad.png", "-o", output, "--box", "3"]).with(1, &["bad.png: is in no format"]);
        assert!(!place.path("out").exists(), "{output}");
    }
    place.write("a.png", picture(3, 3, 1, |i| i as u8));
    place
        .filter(&["a.png", "bad.png", "-o", "out/deeper/{stem}.png", "--box", "3"])
        .with(1, &["1 of 2 pictures failed"]);
    assert_eq!(place.names(), ["a.png", "bad.png", "out/deeper/a.png"]);
}

#[test]
fn one_bad_file_does_not_stop_the_rest() {
    let place = prepared();
    place.write("c.png", picture(3, 3, 1, |i| i as u8));
    fs::write(place.path("bad.png"), "bad").unwrap();
    let ended = place.filter(&["a.png", "bad.png", "c.png", "-o", "out/", "--box", "3"]);
    ended.with(1, &["bad.png: is in no format", "1 of 3 pictures failed"]);
    assert_eq!(place.names(), ["a.png", "bad.png", "c.png", "g.npy", "out/a.png", "out/c.png"]);
}
