//! Files that lie about their sizes, are cut off, or are damaged: a clear error or a picture, never a panic, never
//! memory without end, nothing half written.

use super::errors::refuses;
use super::*;

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
    refuses("x.png", &png_header(0x7fff_ffff, 0x7fff_ffff), &["larger than the 8 GiB that are decoded at most"]);
    refuses("x.png", &png_header(100_000, 100_000), &["100000 x 100000 pixels, 30000000000 bytes; at most 8589934592"]);
    refuses("x.png", &png_header(50_000, 50_000), &[]);
    refuses("x.png", &png_header(0, 1), &[]);
    refuses("x.pgm", b"P5 999999 999999 255\n", &["at most 8589934592"]);
    refuses("x.pgm", b"P5 99999999999999999999 1 255\n", &[]);
    refuses("x.qoi", b"qoif\xff\xff\xff\xff\xff\xff\xff\xff\x04\x00", &[]);
    let bmp_header = [40_i32, 0x7fff_ffff, 0x7fff_ffff, 1 | 24 << 16, 0, 0, 0, 0, 0, 0].map(i32::to_le_bytes).concat();
    refuses("x.bmp", &[&b"BM\0\0\0\0\0\0\0\0\x36\0\0\0"[..], &bmp_header].concat(), &[]);
}

/// One file of every format that can be read, and several kinds of TIFF, PNG and OpenEXR.
fn every_format() -> Vec<(&'static str, Vec<u8>)> {
    use tiff::encoder::colortype::RGB8;
    use tiff::encoder::{Compression, TiffEncoder};
    let place = Place::new();
    let mut files = Vec::new();
    let mut add = |name: &'static str| files.push((name, fs::read(place.path(name)).unwrap()));
    for name in ["rgb.png", "rgb.jpg", "rgb.tif", "rgb.bmp", "rgb.ppm", "rgb.pam", "rgb.webp", "rgb.qoi", "rgb.npy"] {
        place.write(name, picture(31, 17, 3, |i| i as u8));
        add(name);
    }
    place.write("wide.png", picture(31, 17, 4, |i| (i * 257) as u16));
    add("wide.png");
    for name in ["float.exr", "float.tif"] {
        place.write(name, picture(31, 17, 3, |i| i as f32 / 9.0));
        add(name);
    }
    place.write("grey.tif", picture(31, 17, 1, |i| i as f32 / 9.0));
    add("grey.tif");
    let pixels: Vec<u8> = picture(31, 17, 3, |i| i as u8).values().to_vec();
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut bytes).unwrap().with_compression(Compression::Lzw);
    encoder.write_image::<RGB8>(31, 17, &pixels).unwrap();
    files.push(("lzw.tif", bytes.into_inner()));
    files.push(("bits.pbm", b"P1 4 2\n1 0 1 0 0 1 0 1\n".to_vec()));
    files
}

/// Cut at every place that may be special, each file is an error: what is missing is never made up.
#[test]
fn cut_files_are_errors() {
    let place = Place::new();
    for (name, whole) in every_format() {
        let path = place.path(name);
        // A text may be cut where it still makes sense.
        let enough = if name == "bits.pbm" { 12 } else { whole.len() };
        let special = (0..64).chain((0..whole.len()).step_by(97)).chain([whole.len() / 2, whole.len() * 9 / 10]);
        for length in special.filter(|&length| length < enough) {
            fs::write(&path, &whole[..length]).unwrap();
            if let Ok(found) = Picture::read(&path) {
                // What follows the last value may be missing.
                fs::write(&path, &whole).unwrap();
                assert_eq!(found, Picture::read(&path).unwrap(), "{name} cut to {length} of {} bytes", whole.len());
            }
        }
    }
}

/// A JPEG whose coded data end early is cut off, though it has an end. A whole one never is.
#[test]
fn coded_data_that_end_early_are_errors() {
    use jpeg_encoder::{ColorType, Encoder, SamplingFactor::*};
    let place = Place::new();
    let path = place.path("a.jpg");
    let mut random = fastrand::Rng::with_seed(3);
    for (width, height) in [(1, 1), (8, 8), (9, 17), (64, 48), (131, 70)] {
        let values: Vec<u8> = (0..width * height * 3).map(|_| random.u8(..)).collect();
        for (sampling, interval, optimized) in [F_1_1, F_2_1, F_2_2, F_4_1]
            .into_iter()
            .flat_map(|sampling| [0, 1, 4, 17].map(|interval| (sampling, interval)))
            .flat_map(|(sampling, interval)| [false, true].map(|optimized| (sampling, interval, optimized)))
        {
            let case = format!("{width} x {height}, {sampling:?}, {interval}, {optimized}");
            let mut jpeg = Vec::new();
            let mut encoder = Encoder::new(&mut jpeg, 90);
            encoder.set_sampling_factor(sampling);
            encoder.set_restart_interval(interval);
            encoder.set_optimized_huffman_tables(optimized);
            encoder.encode(&values, width as u16, height as u16, ColorType::Rgb).unwrap();
            fs::write(&path, &jpeg).unwrap();
            if let Err(error) = Picture::read(&path) {
                panic!("{case}: {error}");
            }
            // With factors of 4 or optimized tables, each component has a scan, and the decoder takes what there is.
            if width < 131 || sampling == F_4_1 || optimized {
                continue;
            }
            let scan = jpeg.windows(2).position(|marker| marker == [0xFF, 0xDA]).unwrap() + 14;
            for tenths in [0, 3, 6, 8] {
                let mut end = scan + (jpeg.len() - 2 - scan) * tenths / 10;
                end -= usize::from(jpeg[end - 1] == 0xFF);
                fs::write(&path, [&jpeg[..end], &[0xFF, 0xD9]].concat()).unwrap();
                let Err(error) = Picture::read(&path) else { panic!("{case}, {tenths} tenths") };
                let error = error.to_string();
                assert!(error.contains("is cut off"), "{case}, {tenths} tenths: {error}");
            }
        }
    }
}

/// A TIFF whose JPEG is cut off is an error, whole or in chunks.
#[test]
fn cut_jpegs_in_tiffs_are_errors() {
    let place = Place::new();
    let mut jpeg = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&[200; 64], 8, 8, jpeg_encoder::ColorType::Luma).unwrap();
    // A strip that reaches beyond the file, and one without an end.
    fs::write(place.path("file.tif"), super::bombs::tiff(&jpeg, (8, 8), &[(259, 3, 1, 7), (279, 4, 1, 9999)])).unwrap();
    fs::write(place.path("strip.tif"), super::bombs::tiff(&jpeg[..jpeg.len() - 2], (8, 8), &[(259, 3, 1, 7)])).unwrap();
    for (name, more) in [("file.tif", &[][..]), ("file.tif", &["--chunk", "64"]), ("strip.tif", &[])] {
        let error = format!("error: {name}: is cut off");
        place.filter(&[&[name, "-o", "out.tif", "--identity"], more].concat()).with(1, &[&error]);
    }
}

/// Sides that the file can't have are an error at once.
#[test]
fn impossible_sides_are_errors() {
    let place = Place::new();
    let files: std::collections::HashMap<_, _> = every_format().into_iter().collect();
    let refused = |name: &str, bytes: &[u8]| {
        let path = place.path(name);
        fs::write(&path, bytes).unwrap();
        Picture::read(&path).unwrap_err().to_string()
    };
    let at = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|found| found == what).unwrap();

    let (name, jpeg) = files.iter().find(|(name, _)| name.ends_with(".jpg")).unwrap();
    let mut jpeg = jpeg.clone();
    let sides = at(&jpeg, &[0xff, 0xc0]) + 5;
    jpeg[sides..sides + 4].fill(0xff);
    assert!(refused(name, &jpeg).contains("bytes can't hold 65535 x 65535 pixels"));

    let (name, exr) = files.iter().find(|(name, _)| name.ends_with(".exr")).unwrap();
    for window in ["displayWindow", "dataWindow"] {
        let mut exr = exr.clone();
        // After the name: the type "box2i", the length and the first column.
        let first = at(&exr, format!("{window}\0box2i\0").as_bytes()) + window.len() + 1 + 6 + 4;
        exr[first..first + 4].copy_from_slice(&i32::MAX.to_le_bytes());
        assert!(refused(name, &exr).contains("a window without columns or rows"), "{window}");
    }
}

/// A JPEG of a kind that is not read is not called damaged.
#[test]
fn other_kinds_of_jpeg_are_named() {
    let files = every_format();
    let (name, jpeg) = files.iter().find(|(name, _)| name.ends_with(".jpg")).unwrap();
    let frame = jpeg.windows(2).position(|marker| marker == [0xFF, 0xC0]).unwrap();
    for (place, value, words) in [
        (1, 0xC3, "is a JPEG coded without loss, which is not read"),
        (1, 0xC5, "is a JPEG coded in a hierarchy, which is not read"),
        (1, 0xC9, "is a JPEG coded arithmetically, which is not read"),
        (4, 12, "is a JPEG with values of 12 bits; those of 8 bits are read"),
    ] {
        let mut jpeg = jpeg.clone();
        jpeg[frame + place] = value;
        refuses(name, &jpeg, &[words]);
    }
}

/// Damaged at random places, each file is an error or a picture.
#[test]
fn damaged_files_are_errors_or_pictures() {
    let seed = crate::seed::from_environment().unwrap_or_else(|| fastrand::u64(..));
    println!("HOST_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let rounds = std::env::var("HOST_TEST_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    let place = Place::new();
    for (name, whole) in every_format() {
        let path = place.path(name);
        let mut pictures = 0;
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..8) {
                // Headers more often than values.
                let end = if random.bool() { bytes.len().min(128) } else { bytes.len() };
                let place = random.usize(0..end);
                bytes[place] = match random.u8(0..4) {
                    0 => 0,
                    1 => 0xff,
                    2 => bytes[place] ^ (1 << random.u8(0..8)),
                    _ => random.u8(..),
                };
            }
            fs::write(&path, &bytes).unwrap();
            match Picture::read(&path) {
                Ok(picture) => {
                    pictures += 1;
                    assert!(picture.pixels.width() > 0 && picture.pixels.height() > 0);
                }
                Err(error) => assert!(error.to_string().contains(name), "{error}"),
            }
        }
        println!("{name}: {pictures} of {rounds} could still be read");
    }
}
