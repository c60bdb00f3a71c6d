//! Bad input gets a clear error, never a panic, never a wrong picture, and leaves nothing half written.

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

/// The same for an input with these bytes.
#[track_caller]
fn refuses(name: &str, bytes: &[u8], words: &[&str]) {
    let place = prepared();
    fs::write(place.path(name), bytes).unwrap();
    let before = place.names();
    place.filter(&[name, "-o", "out.npy", "--identity"]).with(1, &[&[name], words].concat());
    assert_eq!(place.names(), before);
}

/// The same for a mask's text.
#[track_caller]
fn refuses_mask(text: &[u8], words: &[&str]) {
    let place = prepared();
    fs::write(place.path("mask.txt"), text).unwrap();
    let args = ["a.png", "-o", "b.png", "--mask"];
    place.filter(&[&args[..], &["mask.txt"]].concat()).with(2, &[&["--mask", "mask.txt"], words].concat());
    place.filter_with(text, &[&args[..], &["-"]].concat()).with(2, &[&["standard input"], words].concat());
    assert_eq!(place.names(), ["a.png", "g.npy", "mask.txt"]);
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
    fails(&with(&["--emboss", "--op", "multiply"]), 2, &["convolve, correlate"]);
    fails(&with(&["--emboss", "--anchor", "3,0"]), 2, &["anchor (row 3, column 0)", "3 rows and 3 columns"]);
    fails(&with(&["--emboss", "--anchor", "middle"]), 2, &["row and a column"]);
    fails(&with(&["--emboss", "--scale", "nan"]), 2, &["scale must be a finite number"]);
    fails(&with(&["--emboss", "--variant", "fast"]), 2, &["fast", "naive"]);
    fails(&with(&["--emboss", "--variant", "naive"]), 2, &["variant naive runs on"]);
    fails(&with(&["--emboss", "--output-type", "f64"]), 2, &["u8, u16, f32"]);
    fails(&with(&["--laplacian", "--normalize"]), 2, &["--normalize", "finite and not 0, not 0"]);
    fails(&with(&["--gaussian", "-1"]), 2, &["sigma must be a number above 0, not -1"]);
    fails(&with(&["--gaussian", "1e6"]), 2, &["at most 67108864 is possible"]);
    fails(&with(&["--box", "0"]), 2, &["at least 1 x 1 coefficients"]);
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
    if host::devices().is_err() {
        run("cuda:0").with(3, &["cuda:0", "no CUDA device can be used"]);
    }
    let ended = place.host(&["filter", "a.png", "-o", "out/", "--emboss", "--device", "cuda:9999"]);
    ended.with(3, &[]);
    assert!(!place.path("out").exists());
    assert_eq!(place.names(), ["a.png", "g.npy"]);
}

#[test]
fn kernels() {
    for (kernel, words) in [
        ("3x3: 1,2,3", &["mask: 3 x 3", "takes 9 values, 3 were given"][..]),
        ("3x3 0 1 0", &["a number, nan or - was expected"]),
        ("axb: 1", &["\"WxH\"", "axb"]),
        ("1x1: one", &["a number, nan or - was expected, not \"one\""]),
        ("2x1+2+0: 1,2", &["anchor (row 0, column 2)"]),
    ] {
        fails(&["a.png", "-o", "b.png", "--kernel", kernel], 2, &[&["--kernel"], words].concat());
    }
}

#[test]
fn masks() {
    refuses_mask(b"1 2 3\n4 5\n", &["row 2 of the mask has 2 coefficients, row 1 has 3"]);
    refuses_mask(b"1 2\n3 four\n", &["a number in row 2, column 2 was expected, not \"four\""]);
    refuses_mask(b"", &["at least 1 x 1 coefficients"]);
    refuses_mask(b"3 2 1 0\n1 2 3\n", &["2 rows of 3 coefficients"]);
    refuses_mask(b"\xff\xfe\x00", &["neither text nor .npy"]);
    refuses_mask(&npy("<f4", "(0, 3)", &[]), &["at least 1 x 1 coefficients"]);
    refuses_mask(&npy("<f4", "(4,)", &[0; 16]), &["rows x columns"]);
    refuses_mask(&npy("<f4", "(2, 2)", &[0; 15]), &["cut off", "16 bytes, 15"]);
    fails(&["a.png", "-o", "b.png", "--mask", "nowhere.txt"], 2, &["--mask", "nowhere.txt", "No such file"]);
    fails(&["a.png", "-o", "b.png", "--mask", "."], 2, &["is a folder"]);
}

#[test]
fn inputs() {
    fails(&["nowhere.png", "-o", "b.png", "--identity"], 1, &["nowhere.png", "No such file"]);
    fails(&["*.gif", "-o", "{stem}.png", "--identity"], 1, &["no file matches the input \"*.gif\""]);
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

/// A PNG of `width` x `height` that has no data.
fn png_header(width: u32, height: u32) -> Vec<u8> {
    let crc = |bytes: &[u8]| {
        !bytes.iter().fold(!0_u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & 0_u32.wrapping_sub(crc & 1)))
        })
    };
    let chunk = |kind: &[u8], data: &[u8]| {
        let body = [kind, data].concat();
        [&(data.len() as u32).to_be_bytes(), body.as_slice(), &crc(&body).to_be_bytes()].concat()
    };
    let header = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    [&b"\x89PNG\r\n\x1a\n"[..], &chunk(b"IHDR", &header), &chunk(b"IDAT", &[0x78, 0x9c]), &chunk(b"IEND", &[])].concat()
}

#[test]
fn hostile_sizes() {
    refuses("x.png", &png_header(0x7fff_ffff, 0x7fff_ffff), &["larger than may be decoded"]);
    refuses("x.png", &png_header(100_000, 100_000), &["100000 x 100000 pixels, 30000000000 bytes; at most 8589934592"]);
    refuses("x.png", &png_header(50_000, 50_000), &[]);
    refuses("x.png", &png_header(0, 1), &[]);
    refuses("x.pgm", b"P5 999999 999999 255\n", &["at most 8589934592"]);
    refuses("x.pgm", b"P5 99999999999999999999 1 255\n", &[]);
    refuses("x.qoi", b"qoif\xff\xff\xff\xff\xff\xff\xff\xff\x04\x00", &[]);
    let bmp_header = [40_i32, 0x7fff_ffff, 0x7fff_ffff, 1 | 24 << 16, 0, 0, 0, 0, 0, 0].map(i32::to_le_bytes).concat();
    refuses("x.bmp", &[&b"BM\0\0\0\0\0\0\0\0\x36\0\0\0"[..], &bmp_header].concat(), &[]);
}

/// Every format that can be written, cut off in the middle.
#[test]
fn truncated_files() {
    let colour = || picture(61, 47, 3, |i| i as u8);
    for name in ["x.png", "x.jpg", "x.tif", "x.bmp", "x.ppm", "x.pam", "x.webp", "x.qoi", "x.exr", "x.npy"] {
        let place = Place::new();
        if name == "x.exr" {
            place.write(name, colour().map(f32::from));
        } else {
            place.write(name, colour());
        }
        let whole = fs::read(place.path(name)).unwrap();
        for length in [whole.len() / 2, whole.len() * 9 / 10, 20] {
            refuses(name, &whole[..length], &[]);
        }
    }
    let place = Place::new();
    place.write("x.tif", picture(61, 47, 1, |i| i as f32));
    let whole = fs::read(place.path("x.tif")).unwrap();
    refuses("x.tif", &whole[..whole.len() / 2], &[]);
}

#[test]
fn outputs() {
    let kept = prepared();
    let bytes = fs::read(kept.path("a.png")).unwrap();
    kept.filter(&["g.npy", "-o", "a.png", "--box", "3"]).with(1, &["a.png exists, and is kept", "--overwrite"]);
    kept.filter(&["a.png", "-o", "a.png", "--box", "3"]).with(1, &["a.png exists, and is kept"]);
    assert_eq!(fs::read(kept.path("a.png")).unwrap(), bytes);
    assert_eq!(kept.names(), ["a.png", "g.npy"]);

    fails(&["a.png", "-o", "nowhere/b.png", "--identity"], 2, &["nowhere/b.png", "can't be written in nowhere"]);
    fails(&["a.png", "-o", "g.npy/b.png", "--identity"], 2, &["g.npy/b.png", "can't be written in g.npy"]);
    if cfg!(target_os = "linux") {
        fails(&["a.png", "-o", "/proc/b.png", "--identity"], 2, &["/proc/b.png", "can't be written in /proc: No such"]);
        fails(&["a.png", "-o", "/proc/", "--identity"], 2, &["can't be written in /proc"]);
        fails(&["a.png", "-o", "/dev/null", "--identity"], 2, &["/dev/null: has no extension"]);
    }
    fails(&["a.png", "-o", "b.xyz", "--identity"], 2, &["b.xyz: has .xyz", ".png, .jpg"]);
    fails(&["a.png", "-o", "b", "--identity"], 2, &["b: has no extension"]);
    fails(&["g.npy", "-o", "b.png", "--identity"], 1, &["b.png: PNG holds u8 or u16", "not f32 in 1", "--output-type"]);
    fails(&["a.png", "-o", "b.pgm", "--identity"], 1, &["b.pgm: PGM holds u8 or u16 in 1 channel, not u8 in 3"]);
    let u16 = ["--identity", "--output-type", "u16"];
    fails(&[&["a.png", "-o", "b.jpg"], &u16[..]].concat(), 2, &["b.jpg: JPEG holds u8 in 1 or 3 channels, not u16"]);
    fails(&[&["a.png", "-o", "{stem}.jpg"], &u16[..]].concat(), 2, &["{stem}.jpg: JPEG holds u8"]);
    fails(&["a.png", "-o", "{stem}-{ext}", "--identity"], 2, &["has no extension"]);
}

#[test]
fn names_of_outputs() {
    fails(&["a.png", "g.npy", "-o", "b.npy", "--identity"], 2, &["b.npy is one file", "need a folder", "{stem}"]);
    fails(&["a.png", "g.npy", "-o", "b{ext}.npy", "a.png", "--identity"], 2, &["have one output, bpng.npy"]);
    fails(&["a.png", "-o", "{name}.png", "--identity"], 2, &["{name}: {stem} and {ext}"]);
    fails(&["a.png", "-o", "{stem.png", "--identity"], 2, &["without }"]);
    fails(&["a.png", "./a.png", "-o", "{stem}-b.png", "--identity"], 2, &["have one output"]);
    fails(&["a.png", "a.png", "-o", "out/", "--identity"], 2, &["have one output, out/a.png"]);
    fails(&["a.png", "-o", "g.npy/", "--identity"], 2, &["g.npy/: can't be made"]);
    // One result must not replace what is still to be read.
    let place = Place::new();
    place.write("1.npy", picture(4, 4, 1, |i| i as f32));
    place.write("11.npy", picture(4, 4, 1, |i| i as f32));
    place
        .filter(&["1.npy", "11.npy", "-o", "1{stem}.npy", "--identity", "--overwrite"])
        .with(2, &["is the input 11.npy"]);
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
