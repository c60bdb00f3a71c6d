//! Metadata of files: kept, applied, or named if it is lost. And how files are written.

use std::collections::BTreeMap;

use super::bombs::{png_with, tiff};
use super::*;

/// EXIF data, little-endian: an orientation, and a camera by the name of `Rust`.
fn exif(orientation: u8) -> Vec<u8> {
    let mut bytes = b"II*\0\x08\0\0\0\x02\0".to_vec();
    bytes.extend([0x0F, 0x01, 2, 0, 5, 0, 0, 0, 38, 0, 0, 0]);
    bytes.extend([0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0]);
    bytes.extend(b"\0\0\0\0Rust\0");
    bytes
}

fn profile(space: &[u8; 4]) -> Vec<u8> {
    let mut profile = vec![7; 300];
    profile[16..20].copy_from_slice(space);
    profile
}

/// The chunks of a PNG before its values.
fn chunks(png: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut chunks = BTreeMap::new();
    let mut rest = &png[8..];
    while let [l0, l1, l2, l3, name0, name1, name2, name3, more @ ..] = rest {
        let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]) as usize;
        let name = String::from_utf8(vec![*name0, *name1, *name2, *name3]).unwrap();
        assert!(chunks.insert(name.clone(), more[..length].to_vec()).is_none() || name == "IDAT", "two {name}");
        rest = &more[length + 4..];
    }
    chunks
}

/// The fields of the first directory of a little-endian TIFF: the bytes of those that are elsewhere, else the whole
/// value.
fn fields(tiff: &[u8]) -> BTreeMap<u16, Vec<u8>> {
    let short = |at: usize| u16::from_le_bytes(tiff[at..at + 2].try_into().unwrap());
    let long = |at: usize| u32::from_le_bytes(tiff[at..at + 4].try_into().unwrap()) as usize;
    assert!(tiff.starts_with(b"II*\0"));
    let directory = long(4);
    let field = |number: usize| {
        let at = directory + 2 + 12 * number;
        let size = [0, 1, 1, 2, 4, 8, 1, 1][usize::from(short(at + 2))] * long(at + 4);
        let from = if size > 4 { long(at + 8) } else { at + 8 };
        (short(at), tiff[from..from + size].to_vec())
    };
    (0..usize::from(short(directory))).map(field).collect()
}

#[test]
fn png_keeps_how_its_values_are_shown() {
    let place = Place::new();
    place.write("a.png", picture(9, 7, 3, |i| i as u8));
    let gamma = 100_000_u32.to_be_bytes();
    let primaries = [31_270_u32, 32_900, 64_000, 33_000, 21_000, 71_000, 15_000, 6_000].map(u32::to_be_bytes).concat();
    let resolution = [&11_811_u32.to_be_bytes()[..], &5_906_u32.to_be_bytes(), &[1]].concat();
    let exif = exif(1);
    let kept: [(&[u8; 4], &[u8]); 5] =
        [(b"gAMA", &gamma), (b"cHRM", &primaries), (b"cICP", &[9, 16, 0, 1]), (b"pHYs", &resolution), (b"eXIf", &exif)];
    let file = png_with(&fs::read(place.path("a.png")).unwrap(), &kept);
    fs::write(place.path("b.png"), &file).unwrap();
    place.filter(&["b.png", "-o", "c.png", "--identity"]).quietly();
    let found = chunks(&fs::read(place.path("c.png")).unwrap());
    for (name, data) in kept {
        let name = String::from_utf8(name.to_vec()).unwrap();
        assert_eq!(found.get(&name).map(Vec::as_slice), Some(data), "{name}");
    }
    // Elsewhere there is no place for it, which is said.
    place
        .filter(&["b.png", "-o", "d.jpg", "--identity"])
        .with(0, &["note: b.png: not kept: PNG's gamma and primaries\n"]);
    // What says no more than sRGB is no loss.
    let plain =
        png_with(&fs::read(place.path("a.png")).unwrap(), &[(b"sRGB", &[0]), (b"gAMA", &45_455_u32.to_be_bytes())]);
    fs::write(place.path("e.png"), plain).unwrap();
    place.filter(&["e.png", "-o", "f.jpg", "--identity"]).quietly();
}

/// EXIF goes from format to format, upright and without the thumbnail; the values are turned.
#[test]
fn exif_is_kept_with_orientation_reset() {
    let place = Place::new();
    place.write("a.jpg", picture(16, 8, 3, |i| i as u8));
    let plain = fs::read(place.path("a.jpg")).unwrap();
    let mut turned = exif(6);
    // The link to a second directory, with a thumbnail.
    turned[34] = turned.len() as u8;
    turned.extend(b"\x02\0\x01\x02\x04\0\x01\0\0\0\x49\0\0\0\x02\x02\x04\0\x01\0\0\0\x09\0\0\0\0\0\0\0THUMBNAIL");
    let segment =
        |marker: u8, data: &[u8]| [&[0xFF, marker][..], &(data.len() as u16 + 2).to_be_bytes(), data].concat();
    let file = [
        &plain[..2],
        &segment(0xE0, b"JFIF\0\x01\x02\x02\0\x64\0\x32\0\0"), // 100 and 50 for a centimetre
        &segment(0xE1, &[b"Exif\0\0", turned.as_slice()].concat()),
        &segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta/>"),
        &segment(0xED, b"Photoshop 3.0\08BIM"),
        &plain[2..],
    ];
    fs::write(place.path("b.jpg"), file.concat()).unwrap();
    let mut said = vec!["note: b.jpg: not kept: IPTC, XMP\n"];
    for name in ["c.jpg", "c.png", "c.webp"] {
        if name == "c.webp" {
            said = vec!["note: b.jpg: not kept: IPTC, XMP, the resolution\n"];
        }
        place.filter(&["b.jpg", "-o", name, "--identity"]).with(0, &said);
        let picture = Picture::read(place.path(name)).unwrap();
        assert_eq!((picture.pixels.width(), picture.pixels.height()), (8, 16), "{name}");
        let kept = picture.metadata.exif.unwrap();
        assert!(kept.windows(4).any(|word| word == b"Rust") && kept[30] == 1, "{name}: {kept:?}");
        let bytes = fs::read(place.path(name)).unwrap();
        assert!(!bytes.windows(9).any(|word| word == b"THUMBNAIL"), "{name}");
        if name != "c.webp" {
            // Turned, as the values are.
            let resolution = picture.metadata.resolution.unwrap();
            assert!((resolution.x - 127.0).abs() < 0.1 && (resolution.y - 254.0).abs() < 0.1, "{name}: {resolution:?}");
        }
    }
    place.filter(&["c.png", "-o", "d.png", "--identity"]).quietly();
    place.filter(&["b.jpg", "-o", "e.tif", "--identity"]).with(0, &["note: b.jpg: not kept: EXIF, IPTC, XMP\n"]);
    let fields = fields(&fs::read(place.path("e.tif")).unwrap());
    assert_eq!(fields[&282], [12_700_u32.to_le_bytes(), 100_u32.to_le_bytes()].concat());
    // Of many pictures, each loss is said once.
    fs::create_dir(place.path("in")).unwrap();
    for number in 0..5 {
        fs::copy(place.path("b.jpg"), place.path(format!("in/{number}.jpg"))).unwrap();
    }
    let ended = place.filter(&["in", "-o", "out/", "--identity"]).with(0, &["XMP (said of the first picture only)"]);
    assert_eq!(ended.stderr.matches("note: ").count(), 1, "{}", ended.stderr);
    place.filter(&["b.jpg", "-o", "f.npy", "--identity", "-q"]).quietly();
}

/// The fields that readers of TIFF need to distinguish alpha from a fourth ink, and no others.
#[test]
fn tiff_names_its_alpha() {
    let place = Place::new();
    for channels in 1..=4 {
        place.write("a8.npy", picture(13, 7, channels, |i| i as u8));
        place.write("a16.npy", picture(13, 7, channels, |i| (i * 261) as u16));
        place.write("a32.npy", picture(13, 7, channels, |i| i as f32));
        for bits in ["8", "16", "32"] {
            let (input, output) = (format!("a{bits}.npy"), format!("b{bits}.tif"));
            place.filter(&[&input, "-o", &output, "--identity"]).quietly();
            let fields = fields(&fs::read(place.path(&output)).unwrap());
            let alpha = fields.get(&338).map(Vec::as_slice);
            assert_eq!(alpha, [2, 4].contains(&channels).then_some(&[2, 0][..]), "{bits} {channels}");
            assert!(!fields.contains_key(&317), "a predictor, without compression");
            assert_eq!(place.read(&output).to_f32(), place.read(&input).to_f32(), "{bits} {channels}");
            fs::remove_file(place.path(&input)).unwrap();
            fs::remove_file(place.path(&output)).unwrap();
        }
    }
    // Colours that alpha has multiplied stay so, and are called so.
    let values = [10, 20, 30, 40, 50, 60, 70, 80];
    let fourth = [(258, 3, 1, 8), (262, 3, 1, 2), (277, 3, 1, 4), (338, 3, 1, 1)];
    fs::write(place.path("c.tif"), tiff(&values, (2, 1), &fourth)).unwrap();
    place.filter(&["c.tif", "-o", "d.tif", "--identity"]).quietly();
    assert_eq!(fields(&fs::read(place.path("d.tif")).unwrap())[&338], [1, 0]);
    assert_eq!(place.read_u8("d.tif").values(), values);
    // Where there is no place for that, they are divided.
    place
        .filter(&["c.tif", "-o", "e.png", "--identity"])
        .with(0, &["note: c.tif: colours are divided by alpha, because PNG does not hold them multiplied by it\n"]);
    assert_eq!(place.read_u8("e.png").values(), [64, 128, 191, 40, 159, 191, 223, 80]);
    place
        .filter(&["c.tif", "-o", "e.npy", "--identity"])
        .with(0, &["not kept: that the colours are multiplied by alpha"]);
}

/// A picture in chunks keeps what a whole one does, and says what is lost.
#[test]
fn tiff_in_chunks_keeps_its_metadata() {
    let place = Place::new();
    let profile = profile(b"RGB ");
    let values = [&[10, 20, 30, 40, 50, 60][..], &profile, &300_u32.to_le_bytes(), &2_u32.to_le_bytes()].concat();
    let (at, xmp) = (8 + 6 + profile.len() as u32, 8);
    let fields = [
        (262, 3, 1, 2),
        (277, 3, 1, 3),
        (279, 4, 1, 6),
        (282, 5, 1, at),
        (283, 5, 1, at),
        (296, 3, 1, 3),
        (700, 1, 6, xmp),
        (34_675, 7, profile.len() as u32, 8 + 6),
    ];
    fs::write(place.path("a.tif"), tiff(&values, (2, 1), &fields)).unwrap();
    let args = ["a.tif", "--identity", "-o"];
    place.filter(&[&args[..], &["whole.tif"]].concat()).with(0, &["note: a.tif: not kept: XMP\n"]);
    let chunked = |name| place.filter(&[&args[..], &[name, "--chunk", "512"]].concat());
    chunked("chunked.tif").with(0, &["note: a.tif: not kept: XMP\n"]);
    let [whole, chunked_one] = ["whole.tif", "chunked.tif"].map(|name| Picture::read(place.path(name)).unwrap());
    assert_eq!(whole, chunked_one);
    assert_eq!(chunked_one.metadata.icc_profile, Some(profile));
    assert!((chunked_one.metadata.resolution.unwrap().x - 381.0).abs() < 0.01);
    for name in ["b.npy", "b.zarr"] {
        chunked(name).with(0, &["note: a.tif: not kept: XMP, the colour profile, the resolution\n"]);
    }
    let quiet = place.filter(&["a.tif", "--identity", "-q", "-o", "c.tif", "--chunk", "512"]);
    quiet.quietly();
}

/// Texts of a TIFF are named where they are lost.
#[test]
fn texts_of_tiff_are_named() {
    let place = Place::new();
    let text = u32::from_le_bytes(*b"abc\0");
    let fields = [(270, 2, 4, text), (271, 2, 4, text), (305, 2, 4, text), (306, 2, 4, text), (33_432, 2, 4, text)];
    fs::write(place.path("a.tif"), tiff(&[5; 6], (3, 2), &fields)).unwrap();
    let note = "note: a.tif: not kept: author and copyright, comments, the camera, the date, the software\n";
    for more in [&[][..], &["--chunk", "512", "--overwrite"]] {
        place.filter(&[&["a.tif", "-o", "b.tif", "--identity"], more].concat()).with(0, &[note]);
    }
}

/// Grey f32 is turned, and keeps its profile, as all others are.
#[test]
fn grey_floating_point_has_metadata_too() {
    let place = Place::new();
    let mut values: Vec<u8> = (1..=6).flat_map(|value| (value as f32 / 4.0).to_le_bytes()).collect();
    let profile = profile(b"GRAY");
    values.extend(&profile);
    let fields =
        [(258, 3, 1, 32), (339, 3, 1, 3), (279, 4, 1, 24), (274, 3, 1, 6), (34_675, 7, profile.len() as u32, 8 + 24)];
    fs::write(place.path("a.tif"), tiff(&values, (3, 2), &fields)).unwrap();
    place.filter(&["a.tif", "-o", "b.tif", "--identity"]).quietly();
    let picture = Picture::read(place.path("b.tif")).unwrap();
    assert_eq!(picture.metadata.icc_profile, Some(profile));
    let AnyImage::F32(image) = picture.pixels else { panic!("f32") };
    assert_eq!((image.width(), image.height()), (2, 3));
    assert_eq!(image.values(), [1.0, 0.25, 1.25, 0.5, 1.5, 0.75]);
}

#[test]
fn tiffs_of_many_kinds() {
    let place = Place::new();
    let read = |name: &str, file: Vec<u8>| {
        fs::write(place.path(name), file).unwrap();
        let output = format!("{name}.npy");
        place.filter(&[name, "-o", &output, "--identity"]).quietly();
        place.read(&output).to_f32().values().to_vec()
    };
    // A palette of 256 colours: index i is (i, 255 - i, 7). 16 bits for each.
    let colours = |count: usize, scale: usize| -> Vec<u8> {
        let channel = |value: &dyn Fn(usize) -> usize| -> Vec<u8> {
            (0..count).flat_map(|i| ((value(i) * scale) as u16).to_le_bytes()).collect()
        };
        [channel(&|i| i), channel(&|i| 255 - i), channel(&|_| 7)].concat()
    };
    let map = |count: u32, strip: u32| [(262, 3, 1, 3), (320, 3, 3 * count, 8 + strip), (279, 4, 1, strip)];
    let eight = [&[3, 200, 0, 255, 17, 4][..], &colours(256, 257)].concat();
    let seen = [3, 200, 0, 255, 17, 4].map(|i: u8| [f32::from(i), f32::from(255 - i), 7.0]).concat();
    assert_eq!(read("palette.tif", tiff(&eight, (3, 2), &map(256, 6))), seen);
    assert_eq!(place.read_u8("palette.tif.npy").channels(), 3);
    let byte = [&[3, 200, 0, 255, 17, 4][..], &colours(256, 1)].concat();
    assert_eq!(read("bytes.tif", tiff(&byte, (3, 2), &map(256, 6))), seen);
    let four = [&[0x3A, 0xF0, 0x14, 0x50][..], &colours(16, 256)].concat();
    let bits = [&map(16, 4)[..], &[(258, 3, 1, 4)]].concat();
    assert_eq!(
        read("four.tif", tiff(&four, (3, 2), &bits)),
        [3_u8, 10, 15, 1, 4, 5].map(|i| [f32::from(i), f32::from(255 - i), 7.0]).concat()
    );
    let beyond = [&[0x3A][..], &colours(2, 256)].concat();
    fs::write(place.path("beyond.tif"), tiff(&beyond, (1, 1), &map(2, 1))).unwrap();
    place
        .filter(&["beyond.tif", "-o", "x.png", "--identity"])
        .with(1, &["beyond.tif", "an index is beyond the palette"]);
    // Grey of 4 bits.
    assert_eq!(read("grey.tif", tiff(&[0x3A, 0xF0], (3, 1), &[(258, 3, 1, 4)])), [51.0, 170.0, 255.0]);
    // 1, -2 and 65504 in 16 bits of floating point.
    let half = [0x00, 0x3C, 0x00, 0xC0, 0xFF, 0x7B];
    assert_eq!(read("half.tif", tiff(&half, (3, 1), &[(258, 3, 1, 16), (339, 3, 1, 3)])), [1.0, -2.0, 65_504.0]);
    // A JPEG, grey, and its colours as JPEG stores them.
    let mut jpeg = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 100);
    encoder.encode(&[200; 64], 8, 8, jpeg_encoder::ColorType::Luma).unwrap();
    let found = read("jpeg.tif", tiff(&jpeg, (8, 8), &[(259, 3, 1, 7)]));
    assert!(found.len() == 64 && found.iter().all(|value| (value - 200.0).abs() < 2.0), "{found:?}");
    let mut jpeg = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 100);
    encoder.encode(&[250, 100, 20].repeat(64), 8, 8, jpeg_encoder::ColorType::Rgb).unwrap();
    let found = read("ycbcr.tif", tiff(&jpeg, (8, 8), &[(259, 3, 1, 7), (262, 3, 1, 6), (277, 3, 1, 3)]));
    let close = |(found, wanted): (&f32, f32)| (found - wanted).abs() < 4.0;
    assert!(found.len() == 192 && found.iter().zip([250.0, 100.0, 20.0].into_iter().cycle()).all(close), "{found:?}");
    // Planes in tiles of 16 x 16: whole ones, and ones that reach beyond the picture.
    let planes: Vec<u8> = [1_u8, 2, 3].into_iter().flat_map(|value| [value; 256]).collect();
    let tables = [8_u32, 8 + 256, 8 + 512, 256, 256, 256].map(u32::to_le_bytes).concat();
    let file = |rows| {
        let (offsets, lengths) = (8 + 768, 8 + 768 + 12);
        let more = [
            (258, 3, 1, 8),
            (262, 3, 1, 2),
            (273, 4, 0, 0),
            (277, 3, 1, 3),
            (278, 4, 0, 0),
            (279, 4, 0, 0),
            (284, 3, 1, 2),
            (322, 4, 1, 16),
            (323, 4, 1, 16),
            (324, 4, 3, offsets),
            (325, 4, 3, lengths),
        ];
        tiff(&[planes.as_slice(), &tables].concat(), (16, rows), &more)
    };
    assert_eq!(read("planes.tif", file(16)), [1.0, 2.0, 3.0].repeat(256));
    fs::write(place.path("beyond.tif"), file(15)).unwrap();
    place.filter(&["beyond.tif", "-o", "x.png", "--identity"]).with(1, &["beyond.tif", "tiles that reach beyond"]);
    // Zstandard is for a library in C.
    let compressed = |number| tiff(&[1, 2], (2, 1), &[(259, 3, 1, number)]);
    for (name, method, file) in
        [("zstd.tif", "Zstandard (50000)", compressed(50_000)), ("lzma.tif", "LZMA (34925)", compressed(34_925))]
    {
        fs::write(place.path(name), file).unwrap();
        let error = format!("error: {name}: is a TIFF compressed with {method}, which is not read");
        for (output, more) in [("y.png", &[][..]), ("y.tif", &["--chunk", "64"])] {
            let ended = place.filter(&[&[name, "-o", output, "--identity"], more].concat()).with(1, &[&error]);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        }
    }
}

#[test]
fn compressed_tiffs() {
    use ::tiff::encoder::{Compression, DeflateLevel, Predictor, TiffEncoder, colortype};
    let place = Place::new();
    let bytes: Vec<u8> = picture(31, 17, 3, |i| i as u8).values().to_vec();
    let floats: Vec<f32> = picture(31, 17, 1, |i| i as f32 / 8.0).values().to_vec();
    for compression in [Compression::Lzw, Compression::Deflate(DeflateLevel::Fast), Compression::Packbits] {
        for predictor in [Predictor::None, Predictor::Horizontal] {
            let mut file = std::io::Cursor::new(Vec::new());
            let mut encoder = TiffEncoder::new(&mut file).unwrap().with_compression(compression);
            if compression != Compression::Packbits {
                encoder = encoder.with_predictor(predictor);
            }
            encoder.write_image::<colortype::RGB8>(31, 17, &bytes).unwrap();
            fs::write(place.path("a.tif"), file.into_inner()).unwrap();
            assert_eq!(place.read_u8("a.tif").values(), bytes, "{predictor:?}");
        }
        let mut file = std::io::Cursor::new(Vec::new());
        let mut encoder = TiffEncoder::new(&mut file).unwrap().with_compression(compression);
        encoder.write_image::<colortype::Gray32Float>(31, 17, &floats).unwrap();
        fs::write(place.path("b.tif"), file.into_inner()).unwrap();
        assert_eq!(place.read_f32("b.tif").values(), floats);
    }
}

/// What the frame of a JPEG says of its first component.
fn sampling(jpeg: &[u8]) -> u8 {
    let frame = jpeg.windows(4).position(|word| word == [0xFF, 0xC0, 0, 17]).unwrap();
    jpeg[frame + 4 + 7]
}

#[test]
fn quality_and_sampling_of_jpeg() {
    let place = Place::new();
    let image = picture(64, 48, 3, |i| i as u8);
    place.write("a.png", image.clone());
    let written = |args: &[&str], name: &str| {
        place.filter(&[args, &["-o", name, "--identity", "--overwrite"]].concat()).quietly();
        fs::read(place.path(name)).unwrap()
    };
    let sizes = ["10", "50", "95", "100"].map(|quality| written(&["a.png", "--quality", quality], "b.jpg").len());
    assert!(sizes.is_sorted() && sizes[0] * 3 < sizes[1] * 2, "{sizes:?}");
    assert_eq!(written(&["a.png"], "b.jpg").len(), sizes[2], "95 is the default");
    assert_eq!(sampling(&written(&["a.png"], "b.jpg")), 0x11);
    for (factor, found) in [
        (jpeg_encoder::SamplingFactor::F_1_1, 0x11_u8),
        (jpeg_encoder::SamplingFactor::F_2_1, 0x21),
        (jpeg_encoder::SamplingFactor::F_2_2, 0x22),
    ] {
        let mut bytes = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
        encoder.set_sampling_factor(factor);
        encoder.encode(image.values(), 64, 48, jpeg_encoder::ColorType::Rgb).unwrap();
        fs::write(place.path("c.jpg"), &bytes).unwrap();
        assert_eq!(sampling(&written(&["c.jpg"], "d.jpg")), found);
        // Turned with the picture.
        let data = [b"Exif\0\0", exif(8).as_slice()].concat();
        let segment = [&[0xFF, 0xE1][..], &(data.len() as u16 + 2).to_be_bytes(), &data].concat();
        fs::write(place.path("e.jpg"), [&bytes[..2], &segment, &bytes[2..]].concat()).unwrap();
        assert_eq!(sampling(&written(&["e.jpg"], "f.jpg")), found.rotate_left(4));
        assert_eq!(place.read("f.jpg").width(), 48);
    }
    // Where it means nothing, that is said before the work.
    let refused = |args: &[&str], words: &[&str]| place.filter(&[args, &["--identity"]].concat()).with(2, words);
    refused(&["a.png", "-o", "x.webp", "--quality", "80"], &["--quality: x.webp: WebP is written without loss"]);
    refused(&["a.png", "-o", "x.png", "--quality", "80"], &["--quality is for JPEG (.jpg), and no output is one"]);
    refused(&["a.png", "-o", "x.jpg", "--quality", "0"], &["--quality"]);
    refused(&["a.png", "-o", "x.jpg", "--quality", "101"], &["--quality"]);
    assert!(!place.names().iter().any(|name| name.starts_with('x')));
}
