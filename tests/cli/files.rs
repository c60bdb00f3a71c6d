//! Which files are read and written, and what the program prints.

use super::*;

/// A picture of 1 to 4 channels is the same after it was written and read. Formats without grey give RGB.
#[test]
fn identity_gives_the_pixels_back() {
    let formats: [(&str, &[&str], &[usize]); 10] = [
        ("png", &["u8", "u16"], &[1, 2, 3, 4]),
        ("tif", &["u8", "u16", "f32"], &[1, 2, 3, 4]),
        ("bmp", &["u8"], &[1, 3, 4]),
        ("pgm", &["u8", "u16"], &[1]),
        ("ppm", &["u8", "u16"], &[3]),
        ("pam", &["u8", "u16"], &[1, 2, 3, 4]),
        ("webp", &["u8"], &[1, 2, 3, 4]),
        ("qoi", &["u8"], &[3, 4]),
        ("exr", &["f32"], &[3, 4]),
        ("npy", &["u8", "u16", "f32"], &[1, 2, 3, 4]),
    ];
    for (format, types, counts) in formats {
        for (pixel, &channels) in types.iter().flat_map(|pixel| counts.iter().map(move |count| (pixel, count))) {
            let what = format!("{format} {pixel} {channels}");
            let place = Place::new();
            // f32 with what integers don't have, u16 with values above 255; 13 x 7 is a multiple of nothing.
            match *pixel {
                "u8" => place.write("a.npy", picture(13, 7, channels, |i| i as u8)),
                "u16" => place.write("a.npy", picture(13, 7, channels, |i| (i * 261) as u16)),
                _ => place.write("a.npy", picture(13, 7, channels, |i| (i as f32 - 100.0) * 1.7e3)),
            }
            let [middle, back] = [format!("b.{format}"), format!("c.{format}")];
            place.filter(&["a.npy", "-o", &middle, "--identity"]).quietly();
            place.filter(&[&middle, "-o", &back, "--identity"]).quietly();
            let [before, after] = ["a.npy", &back].map(|name| place.read(name));
            assert_eq!(before.pixel_type(), after.pixel_type(), "{what}");
            let (before, after) = (before.to_f32(), after.to_f32());
            if after.channels() == channels {
                assert_eq!(before, after, "{what}");
            } else {
                // Grey became RGB.
                assert!(matches!(format, "bmp" | "webp") && channels < 3, "{what} became {}", after.channels());
                for channel in 0..3 {
                    assert_eq!(after.channel(channel), before.channel(0), "{what}");
                }
                if channels == 2 {
                    assert_eq!(after.channel(3), before.channel(1), "{what}");
                }
            }
        }
    }
}

#[test]
fn jpeg_comes_close() {
    let place = Place::new();
    let image = Image::from_fn(32, 24, |x, y| (4 * x + 3 * y) as u8).unwrap();
    place.write("a.png", image.clone());
    place.filter(&["a.png", "-o", "b.jpg", "--identity"]).quietly();
    let back = place.read_u8("b.jpg");
    assert!(back.values().iter().zip(image.values()).all(|(a, b)| a.abs_diff(*b) <= 4));
}

#[test]
fn arrays_of_any_order() {
    // [[1, 2, 3], [4, 5, 6]] as NumPy writes it big-endian, and in Fortran order.
    let header = |descr: &str, fortran: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 3), }}\n");
        [b"\x93NUMPY\x01\x00", (text.len() as u16).to_le_bytes().as_slice(), text.as_bytes()].concat()
    };
    let place = Place::new();
    let big: Vec<u8> = [1_u16, 2, 3, 4, 5, 600].iter().flat_map(|value| value.to_be_bytes()).collect();
    fs::write(place.path("big.npy"), [header(">u2", "False"), big].concat()).unwrap();
    let columns: Vec<u8> = [1_f32, 4.0, 2.0, 5.0, 3.0, 600.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    fs::write(place.path("fortran.npy"), [header("<f4", "True"), columns].concat()).unwrap();
    for name in ["big.npy", "fortran.npy"] {
        let image = place.read(name).to_f32();
        assert_eq!((image.width(), image.height()), (3, 2));
        assert_eq!(image.values(), [1.0, 2.0, 3.0, 4.0, 5.0, 600.0], "{name}");
    }
}

/// A JPEG that says it is to be turned by 90 degrees, with a colour profile.
#[test]
fn orientation_is_applied_and_the_profile_kept() {
    use image::ImageEncoder;
    use image::codecs::jpeg::JpegEncoder;
    let place = Place::new();
    let mut profile = vec![0_u8; 128];
    profile[16..20].copy_from_slice(b"RGB ");
    // TIFF header, one entry: tag 0x0112, one short, the value 6.
    let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0".to_vec();
    let pixels: Vec<u8> = (0..16 * 8).flat_map(|i| if i % 16 < 8 { [250_u8, 250, 250] } else { [5, 5, 5] }).collect();
    let mut file = fs::File::create(place.path("a.jpg")).unwrap();
    let mut encoder = JpegEncoder::new_with_quality(&mut file, 100);
    encoder.set_icc_profile(profile.clone()).unwrap();
    encoder.set_exif_metadata(exif).unwrap();
    encoder.write_image(&pixels, 16, 8, image::ExtendedColorType::Rgb8).unwrap();
    drop(file);

    for name in ["b.png", "b.jpg", "b.tif", "b.webp"] {
        place.filter(&["a.jpg", "-o", name, "--identity", "-q"]).quietly();
        let picture = Picture::read(place.path(name)).unwrap();
        assert_eq!((picture.pixels.width(), picture.pixels.height()), (8, 16), "{name}");
        // The bright left half is now the upper half.
        let values = picture.pixels.to_f32();
        assert!(values.row(3)[0] > 200.0 && values.row(12)[0] < 50.0, "{name}");
        assert_eq!(picture.metadata.icc_profile.as_ref(), Some(&profile), "{name}");
    }
    // Grey has no use for a profile of RGB; .qoi and .npy have no place for any.
    place.filter(&["b.png", "-o", "c.qoi", "--identity"]).with(0, &["note: b.png: not kept: EXIF, the colour profile"]);
    place.filter(&["b.png", "-o", "d.qoi", "--identity", "-q"]).quietly();
    assert_eq!(Picture::read(place.path("c.qoi")).unwrap().metadata.icc_profile, None);
}

#[test]
fn overwriting() {
    let place = Place::new();
    place.write("a.npy", Image::new(2, 1, 1, vec![1.0_f32, 2.0]).unwrap());
    place.filter(&["a.npy", "-o", "a.npy", "--identity", "--scale", "3", "--overwrite", "-q"]).quietly();
    assert_eq!(place.read_f32("a.npy").values(), [3.0, 6.0]);
    assert_eq!(place.names(), ["a.npy"]);
}

#[test]
fn notes_go_to_standard_error() {
    let place = Place::new();
    place.write("a.npy", Image::new(2, 1, 1, vec![1.0_f32, 2.0]).unwrap());
    place.host(&["filter", "a.npy", "-o", "b.npy", "--identity"]).with(0, &["device: "]);
    place.host(&["filter", "a.npy", "-o", "c.npy", "--identity", "-q"]).quietly();
}

/// NaN and infinity in a mask or as a border are allowed, but a note says so, because they are seldom meant.
#[test]
fn values_that_are_not_finite_are_noted() {
    let place = Place::new();
    place.write("a.npy", Image::new(2, 1, 1, vec![1.0_f32, 2.0]).unwrap());
    fs::write(place.path("m.txt"), "1 nan 0\n-inf 2 1\n").unwrap();
    let run = |args: &[&str]| place.filter(&[&["a.npy", "-o", "b.npy", "--overwrite"], args].concat());
    run(&["--mask", "m.txt"]).with(0, &["note: 2 of 6 coefficients of the mask are NaN or infinite"]);
    run(&["--kernel", "2x1: 1,inf"]).with(0, &["note: 1 of 2 coefficients"]);
    assert_eq!(place.read_f32("b.npy").values(), [f32::INFINITY; 2]);
    run(&["--box", "3", "--border", "constant:nan"]).with(0, &["note: outside of the picture stands NaN"]);
    run(&["--box", "3", "--border", "constant:-inf"]).with(0, &["note: outside of the picture stands -inf"]);
    run(&["--mask", "m.txt", "--border", "constant:nan", "-q"]).quietly();
    run(&["--box", "3", "--border", "constant:1e38"]).quietly();
}

/// Pages and frames after the first are not read, which is said.
#[test]
fn further_pages_are_noted() {
    use tiff::encoder::{TiffEncoder, colortype::Gray8};
    let place = Place::new();
    let mut file = std::io::Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut file).unwrap();
    for page in 0..3 {
        encoder.write_image::<Gray8>(2, 1, &[page, 9]).unwrap();
    }
    fs::write(place.path("a.tif"), file.into_inner()).unwrap();
    let note = "note: a.tif: has 3 pages; the first is read\n";
    place.filter(&["a.tif", "-o", "b.png", "--identity"]).with(0, &[note]);
    assert_eq!(place.read_u8("b.png").values(), [0, 9]);
    place.filter(&["b.png", "-o", "c.tif", "--identity"]).quietly();
    place.filter(&["c.tif", "-o", "d.png", "--identity"]).quietly();
    place.filter(&["a.tif", "-o", "e.png", "--identity", "-q"]).quietly();
}

/// Channels of a TIFF that are neither colours nor alpha are not read, which is said.
#[test]
fn further_channels_are_noted() {
    let place = Place::new();
    // The values of a pixel, and the bits of each.
    let values = [10, 20, 30, 40, 8, 0, 8, 0, 8, 0, 8, 0];
    let fields = [(258, 3, 4, 12), (262, 3, 1, 2), (277, 3, 1, 4), (279, 4, 1, 4), (338, 3, 1, 0)];
    fs::write(place.path("a.tif"), crate::bombs::tiff(&values, (1, 1), &fields)).unwrap();
    let note = "note: a.tif: has 4 channels; the first 3 are read\n";
    place.filter(&["a.tif", "-o", "b.npy", "--identity"]).with(0, &[note]);
    assert_eq!(place.read_u8("b.npy").values(), [10, 20, 30]);
    place.filter(&["a.tif", "-o", "c.npy", "--identity", "--chunk", "16"]).with(0, &[note]);
}

/// A picture may come through a pipe.
#[cfg(unix)]
#[test]
fn pictures_from_a_pipe() {
    let place = Place::new();
    for (name, made) in [("a.png", "b.png"), ("a.jpg", "c.png"), ("a.npy", "d.png")] {
        place.write(name, picture(9, 7, 3, |i| i as u8));
        let bytes = fs::read(place.path(name)).unwrap();
        place.filter_with(&bytes, &["-", "-o", made, "--identity"]).quietly();
        assert_eq!(place.read(made), place.read(name), "{name}");
    }
    place.filter_with(b"", &["-", "-o", "e.png", "--identity"]).with(1, &["standard input: is empty"]);
}

/// The standard input may be a socket, which can't be opened by a path, or a file.
#[cfg(unix)]
#[test]
fn pictures_from_a_socket_and_a_file() {
    let place = Place::new();
    place.write("a.png", picture(9, 7, 3, |i| i as u8));
    let run = |name: &str, input: Stdio| {
        let mut command = place.command(&["filter", "--device", "cpu", "-", "-o", name, "--identity"]);
        Ended::from(command.stdin(input).output().unwrap()).quietly();
        assert_eq!(place.read(name), place.read("a.png"), "{name}");
    };
    let (mut here, there) = std::os::unix::net::UnixStream::pair().unwrap();
    here.write_all(&fs::read(place.path("a.png")).unwrap()).unwrap();
    drop(here);
    run("socket.png", std::os::fd::OwnedFd::from(there).into());
    run("file.png", fs::File::open(place.path("a.png")).unwrap().into());
}

/// Hours of work are announced before they begin.
#[test]
fn long_work_is_announced() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    place.write("large.npy", Image::new(2000, 1000, 1, vec![1_u8; 2_000_000]).unwrap());
    let args = ["filter", "large.npy", "-o", "b.npy", "--gaussian", "200", "--device", "emulator"];
    // Whole, and in chunks.
    for more in [&[][..], &["--memory", "2G"]] {
        let mut child = place.command(&[&args, more].concat()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("large.npy: this will take about "), "{line:?}");
    }
    // Short work is not announced.
    place.filter(&["large.npy", "-o", "c.npy", "--box", "3"]).quietly();
}

#[test]
fn help_and_information() {
    let place = Place::new();
    let bare = place.host(&[]);
    assert_eq!(bare.status, 2);
    assert!(bare.stderr.contains("Usage: host") && bare.stderr.contains("filter"), "{}", bare.stderr);
    let help = place.host(&["filter", "--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    for word in
        ["--gaussian", "reflect101", "Examples:", "[default: mirror]", ".npy", "EXIF", "Exit status: 0 all done"]
    {
        assert!(help.stdout.contains(word), "{word}");
    }
    assert!(!help.stdout.contains('\x1b'));

    let text = place.host(&["info"]);
    assert_eq!((text.status, text.stderr.as_str()), (0, ""));
    for word in ["host ", "CPU ", "driver ", "auto ", "auto's choice", "accuracy bounded", "u8 x 1, 2, 3, 4: any mask"]
        .into_iter()
        .chain(["methods of the CPU", "direct ", "separable ", "fft "])
    {
        assert!(text.stdout.contains(word), "{word}");
    }
    // The CPU's choice depends on type and mask.
    let on_cpu = place.host(&["info", "--device", "cpu", "--size", "500", "--json"]).stdout;
    let on_cpu: serde_json::Value = serde_json::from_str(&on_cpu).unwrap();
    let methods: Vec<_> = on_cpu["cpu_methods"].as_array().unwrap().iter().map(|method| &method["name"]).collect();
    let choices = on_cpu["choices"].as_array().unwrap();
    for method in &methods {
        assert!(choices.iter().any(|choice| choice["variant"] == **method), "{method} is never chosen");
    }
    assert!(choices.iter().all(|choice| methods.contains(&&choice["variant"]) && choice["reason"] != ""), "{on_cpu}");
    // The choice depends on the size.
    let on_emulator = |size: &str| place.host(&["info", "--device", "emulator", "--size", size]).stdout;
    let (small, large) = (on_emulator("200"), on_emulator("3840x2160"));
    assert!(
        small.contains("the emulator of a GPU")
            && small.contains("for 200 x 200 pixels")
            && small.contains("shared_tile_async "),
        "{small}"
    );
    assert!(large.contains("for 3840 x 2160 pixels") && large.contains("u16 x 3"), "{large}");
    assert_eq!(place.host(&["info", "--size", "0"]).status, 2);
    let json = place.host(&["info", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    let no_reason = json["driver"]["reason"].is_null();
    assert_eq!(no_reason, !json["devices"].as_array().unwrap().is_empty());
    assert_eq!(json["driver"]["remedy"].is_null(), no_reason);
    assert_eq!(text.stdout.contains("\nmissing   "), !no_reason, "{}", text.stdout);
    // Every field is in the documentation.
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/program.md")).unwrap();
    for (name, value) in json.as_object().unwrap() {
        let fields = match value {
            // Null without a GPU.
            serde_json::Value::Object(fields) if name != "costs" => {
                fields.keys().map(|field| format!("{name}.{field}")).collect()
            }
            _ => vec![name.clone()],
        };
        for field in fields {
            assert!(page.contains(&format!("| `{field}` |")), "{field} is not in docs/program.md");
        }
    }
    assert!(json["kernels"].as_array().unwrap().iter().any(|kernel| kernel["symbol"] == "naive_f32_c1"));
}

/// A reader of the results that goes away, such as `head`, is no error.
#[test]
fn nobody_reads_the_results() {
    let place = Place::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = place.command(&["info"]).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()), (Some(0), ""));
}

#[cfg(unix)]
#[test]
fn results_have_ordinary_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.write("a.npy", Image::new(2, 1, 1, vec![1.0_f32, 2.0]).unwrap());
    fs::write(place.path("plain"), "").unwrap();
    place.filter(&["a.npy", "-o", "b.npy", "--identity"]).quietly();
    let mode = |name: &str| fs::metadata(place.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("b.npy"), mode("plain"));
}

#[test]
fn big_tiff_is_read() {
    use tiff::encoder::{TiffEncoder, colortype::RGB8};
    let place = Place::new();
    let image = picture(7, 5, 3, |i| i as u8);
    let mut bytes = std::io::Cursor::new(Vec::new());
    TiffEncoder::new_big(&mut bytes).unwrap().write_image::<RGB8>(7, 5, image.values()).unwrap();
    fs::write(place.path("big.tif"), bytes.into_inner()).unwrap();
    place.filter(&["big.tif", "-o", "out.png", "--identity"]).quietly();
    assert_eq!(place.read_u8("out.png"), image);
}

/// A picture that is too large for its format is refused before the work, with the limit.
#[test]
fn sides_are_checked_before_the_work() {
    let place = Place::new();
    place.write("wide.png", picture(17_000, 1, 1, |i| i as u8));
    place.write("high.png", picture(1, 65_501, 1, |i| i as u8));
    for (input, output, words) in [
        ("wide.png", "a.webp", "a.webp: WebP holds at most 16383 columns and rows, not 17000 x 1 (another extension"),
        ("high.png", "a.jpg", "a.jpg: JPEG holds at most 65500 columns and rows, not 1 x 65501 (another extension"),
    ] {
        // A note on saturation would follow the work.
        let ended = place.filter(&[input, "-o", output, "--kernel", "1: 9"]).with(1, &[words]);
        assert!(!ended.stderr.contains("saturate"), "{}", ended.stderr);
    }
    place.write("widest.png", picture(16_383, 1, 3, |i| i as u8));
    place.filter(&["widest.png", "-o", "b.webp", "--identity"]).quietly();
    assert_eq!(place.read("b.webp"), place.read("widest.png"));
}
