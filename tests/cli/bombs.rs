//! Small files that would take much memory: compressed metadata, tables and canvases without a relation to the picture.
//! Reading takes the stated memory at most, whether it succeeds or fails.
#![cfg(target_os = "linux")]

use host::files::{MEMORY_CONSTANT, MEMORY_MULTIPLE};

use super::*;

/// What of a PNG stands between its header and its values, or after them.
pub(super) fn png_with(picture: &[u8], chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    /// The signature, and the chunk of the header.
    const HEADER: usize = 8 + 8 + 13 + 4;
    let mut bytes = picture[..HEADER].to_vec();
    for (name, data) in chunks {
        bytes.extend((data.len() as u32).to_be_bytes());
        let start = bytes.len();
        bytes.extend_from_slice(*name);
        bytes.extend_from_slice(data);
        let mut crc = flate2::Crc::new();
        crc.update(&bytes[start..]);
        bytes.extend(crc.sum().to_be_bytes());
    }
    bytes.extend_from_slice(&picture[HEADER..]);
    bytes
}

/// So many MB of one byte, compressed to a thousandth.
fn zeros(megabytes: usize) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..megabytes {
        encoder.write_all(&[0; 1_000_000]).unwrap();
    }
    encoder.finish().unwrap()
}

/// A file of this name with a picture in it.
fn file<T: Pixel>(name: &str, image: Image<T>) -> Vec<u8> {
    let place = Place::new();
    place.write(name, image);
    fs::read(place.path(name)).unwrap()
}

fn icc_bomb(picture: &[u8]) -> Vec<u8> {
    png_with(picture, &[(b"iCCP", &[b"name\0\0", zeros(300).as_slice()].concat())])
}

/// The memory that a process took at most, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

const FILE: &str = "HOST_TEST_READS";

/// In a process of its own, which [`read_apart`] starts: reads a picture, and prints its sizes and the memory that
/// reading took.
#[test]
fn reads_what_another_test_asks_for() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let before = peak();
    let words = match Picture::read(path) {
        Ok(Picture { pixels, .. }) => {
            let values = pixels.width() * pixels.height() * pixels.channels();
            (values * pixels.pixel_type().bytes()).to_string()
        }
        Err(error) => format!("error {error}"),
    };
    println!("\nmemory {} {words}", peak() - before);
}

/// The memory that it takes to read a file, and the bytes of its values or why it can't be read.
fn read_apart(path: &Path) -> (u64, Result<u64, String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "bombs::reads_what_another_test_asks_for", "--nocapture"]).env(FILE, path);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("memory ")).unwrap_or_else(|| panic!("{path:?}: {text}"));
    let (memory, words) = line.split_once(' ').unwrap();
    let result = words.parse().map_err(|_| words.to_owned());
    (memory.parse().unwrap(), result)
}

/// Reads a file in a process of its own, which takes no more memory than is stated. `words` are of the error; without
/// any it is a picture.
#[track_caller]
fn takes_little(name: &str, bytes: &[u8], words: &[&str]) {
    let place = Place::new();
    let path = place.path(name);
    fs::write(&path, bytes).unwrap();
    let (memory, result) = read_apart(&path);
    println!("{name}: {memory} bytes, {result:?}");
    let values = result.as_ref().copied().unwrap_or(0);
    let most = MEMORY_MULTIPLE * values + MEMORY_CONSTANT;
    assert!(memory <= most, "{name} with {values} bytes of values took {memory} bytes, at most {most} are stated");
    match result {
        Ok(_) => {
            assert!(words.is_empty(), "{name} is a picture");
            // The batch knows this before it reads, except for the memory of the process itself.
            let known = host::files::decoded_bytes(&path);
            assert!(memory <= known + (8 << 20), "{name} took {memory} bytes, {known} were expected");
        }
        Err(error) => {
            assert!(!words.is_empty(), "{error}");
            for word in words.iter().chain(&[name]) {
                assert!(error.contains(word), "{word:?} is not in: {error}");
            }
        }
    }
}

#[test]
fn png() {
    let small = file("a.png", picture(9, 7, 3, |i| i as u8));
    takes_little("icc.png", &icc_bomb(&small), &["a colour profile of more than 16 MiB"]);
    let texts = zeros(200);
    let text = |start: &[u8]| [start, texts.as_slice()].concat();
    let (compressed, international) = (text(b"a\0\0"), text(b"XML:com.adobe.xmp\0\x01\0\0\0"));
    takes_little("texts.png", &png_with(&small, &[(b"zTXt", &compressed), (b"iTXt", &international)]), &[]);
    let long = vec![b'a'; 50_000_000];
    takes_little("long.png", &png_with(&small, &[(b"tEXt", &long), (b"tEXt", &long), (b"sPLT", &long)]), &[]);
    takes_little("exif.png", &png_with(&small, &[(b"eXIf", &long)]), &["EXIF of more than 16 MiB"]);
    takes_little("palette.png", &png_with(&small, &[(b"PLTE", &long)]), &["PLTE has 50000000 bytes"]);
    takes_little("wide.png", &file("a.png", Image::new(20_000_000, 1, 1, vec![3_u8; 20_000_000]).unwrap()), &[]);
    takes_little("high.png", &file("a.png", Image::new(1, 5_000_000, 4, vec![3_u16; 20_000_000]).unwrap()), &[]);
}

#[test]
fn jpeg() {
    let small = file("a.jpg", picture(9, 7, 3, |i| i as u8));
    let with = |segments: &[u8], after: &[u8]| [&small[..2], segments, &small[2..], after].concat();
    let segment = |marker: u8, start: &[u8]| {
        [&[0xFF, marker, 0xFF, 0xFF], start, vec![1; 65_533 - start.len()].as_slice()].concat()
    };
    takes_little("notes.jpg", &with(&segment(0xFE, b"").repeat(1500), &[]), &[]);
    takes_little("other.jpg", &with(&segment(0xE5, b"").repeat(1500), &vec![7; 100_000_000]), &[]);
    takes_little("profile.jpg", &with(&segment(0xE2, b"ICC_PROFILE\0\x01\xFF").repeat(1500), &[]), &[]);
    takes_little("tables.jpg", &with(&segment(0xDB, b"").repeat(1500), &[]), &["bytes of coded data"]);
    let large = picture(3001, 2003, 3, |i| i as u8);
    for sampling in [jpeg_encoder::SamplingFactor::F_1_1, jpeg_encoder::SamplingFactor::F_2_2] {
        for (width, height) in [(3001, 2003), (65_500, 1), (1, 65_500)] {
            let mut bytes = Vec::new();
            let mut encoder = jpeg_encoder::Encoder::new(&mut bytes, 90);
            encoder.set_progressive(true);
            encoder.set_sampling_factor(sampling);
            let values = &large.values()[..width * height * 3];
            encoder.encode(values, width as u16, height as u16, jpeg_encoder::ColorType::Rgb).unwrap();
            takes_little("progressive.jpg", &bytes, &[]);
        }
    }
}

/// A chunk of a RIFF, which has an even length.
fn riff(name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let padding = &[0][..data.len() % 2];
    [name, (data.len() as u32).to_le_bytes().as_slice(), data, padding].concat()
}

#[test]
fn webp() {
    const SIDES: (usize, usize) = (3001, 2003);
    let still = file("a.webp", picture(SIDES.0, SIDES.1, 4, |i| i as u8));
    takes_little("a.webp", &still, &[]);
    let three = |number: usize| (number as u32).to_le_bytes()[..3].to_vec();
    let canvas = [three(SIDES.0 - 1), three(SIDES.1 - 1)].concat();
    let extended = |flags: u8, chunks: &[Vec<u8>]| {
        let header = riff(b"VP8X", &[&[flags, 0, 0, 0], canvas.as_slice()].concat());
        riff(b"RIFF", &[b"WEBP", header.as_slice(), &chunks.concat()].concat())
    };
    // The chunk VP8L, after the header of the file.
    let values = &still[12..];
    assert!(values.starts_with(b"VP8L"));
    let frame = riff(b"ANMF", &[&[0; 6], canvas.as_slice(), &[0; 4], values].concat());
    let animation = [riff(b"ANIM", &[0; 6]), frame.clone(), frame];
    // 2: animated; 16: with alpha.
    takes_little("opaque.webp", &extended(2, &animation), &[]);
    takes_little("alpha.webp", &extended(2 | 16, &animation), &[]);
    let much = vec![1; 50_000_000];
    takes_little("exif.webp", &extended(8, &[values.to_vec(), riff(b"EXIF", &much)]), &["EXIF of more than 16 MiB"]);
    takes_little(
        "icc.webp",
        &extended(32, &[riff(b"ICCP", &much), values.to_vec()]),
        &["a colour profile of more than"],
    );
    takes_little("xmp.webp", &extended(4, &[values.to_vec(), riff(b"XMP ", &much)]), &[]);
}

/// Bits, the lowest of each byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, count: usize, value: usize) {
        for bit in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }
}

/// A pixel, of which the file says that it has 16,640 groups of Huffman codes; each code takes 17 bytes there, and more
/// than 4096 in memory.
#[test]
fn webp_with_many_codes() {
    let mut bits = Bits::default();
    bits.put(8, 0x2F);
    // The sides less 1, alpha, version; no transform, no colour cache, groups of codes for blocks of 4 x 4 pixels.
    for (count, value) in [(14, 0), (14, 0), (1, 1), (3, 0), (1, 0), (1, 0), (1, 1), (3, 0)] {
        bits.put(count, value);
    }
    // The image of their numbers: no colour cache, codes of one symbol. Green 255 and red 64 are the number 0x40FF.
    bits.put(1, 0);
    for symbol in [255, 0x40, 0, 0] {
        bits.put(3, 0b101);
        bits.put(8, symbol);
    }
    bits.put(4, 1);
    for _ in 0..=0x40FF {
        for _ in 0..4 {
            // A code of codes in which each length from 0 to 15 has 4 bits, and 16 lengths: 1 to 15, and 15 again.
            bits.put(1, 0);
            bits.put(4, 15);
            for place in 0..19 {
                bits.put(3, if [0, 1, 8].contains(&place) { 0 } else { 4 });
            }
            bits.put(1 + 3, 0b0011);
            bits.put(4, 14);
            for length in (1..16).chain([15_usize]) {
                bits.put(4, (length as u8).reverse_bits() as usize >> 4);
            }
        }
        bits.put(4, 1);
    }
    // The pixel: the shortest code of each.
    bits.put(4, 0);
    bits.bytes.push(0);
    let file = riff(b"RIFF", &[b"WEBP", riff(b"VP8L", &bits.bytes).as_slice()].concat());
    takes_little("codes.webp", &file, &["has Huffman codes whose tables take more than"]);
}

/// A little-endian TIFF of one grey strip whose values are the bytes at offset 8; fields are tag, type, count and
/// value.
pub(super) fn tiff(values: &[u8], sides: (u32, u32), more: &[(u16, u16, u32, u32)]) -> Vec<u8> {
    let mut fields = vec![
        (256, 4, 1, sides.0),
        (257, 4, 1, sides.1),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, 8),
        (277, 3, 1, 1),
        (278, 4, 1, sides.1),
        (279, 4, 1, values.len() as u32),
    ];
    fields.retain(|field: &(u16, u16, u32, u32)| more.iter().all(|other| other.0 != field.0));
    // A count of 0 takes a field away.
    fields.extend(more.iter().filter(|field| field.2 > 0));
    fields.sort();
    let padding = values.len() % 2;
    let mut file = [b"II*\0", (8 + (values.len() + padding) as u32).to_le_bytes().as_slice(), values].concat();
    file.resize(file.len() + padding, 0);
    file.extend((fields.len() as u16).to_le_bytes());
    for (tag, kind, count, value) in fields {
        file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
        file.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
    }
    file.extend([0; 4]);
    file
}

#[test]
fn tiffs() {
    takes_little("a.tif", &tiff(&[5; 6], (3, 2), &[]), &[]);
    let much = vec![1; 50_000_000];
    let profile = tiff(&much, (3, 2), &[(34_675, 7, much.len() as u32, 8)]);
    takes_little("icc.tif", &profile, &["a colour profile of more than 16 MiB"]);
    takes_little(
        "icc-lies.tif",
        &tiff(&[5; 6], (3, 2), &[(34_675, 7, 3 << 30, 8)]),
        &["a colour profile of more than"],
    );
    // Tables of 50 MB: of strips, of bits, of samples.
    let strips = [(273, 4, 12_000_000, 8), (279, 4, 12_000_000, 8), (278, 4, 1, 1), (257, 4, 1, 12_000_000)];
    takes_little("strips.tif", &tiff(&much, (1, 1), &strips), &["tables that are larger"]);
    takes_little("bits.tif", &tiff(&much, (3, 2), &[(258, 3, 25_000_000, 8)]), &["tables that are larger"]);
    takes_little("many.tif", &tiff(&much, (3, 2), &[(339, 3, 25_000_000, 8)]), &["tables that are larger"]);
    // A tile of 2^30 columns, whose rows the decoder would hold.
    let no_strip = [(273, 4, 0, 0), (278, 4, 0, 0), (279, 4, 0, 0)];
    let tile = [(322, 4, 1, 1 << 30), (323, 4, 1, 2), (324, 4, 1, 8), (325, 4, 1, 6)];
    let samples = [(277, 3, 1, 4), (262, 3, 1, 2), (338, 3, 1, 0)];
    let wide = tiff(&[5; 24], (3, 2), &[&no_strip[..], &tile, &samples].concat());
    takes_little("tile.tif", &wide, &["tiles of 1073741824 columns"]);
    // A strip of 3 x 2 pixels that is a JPEG of 9000 x 7000.
    let mut jpeg = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 10);
    encoder.encode(&vec![9; 63_000_000], 9000, 7000, jpeg_encoder::ColorType::Luma).unwrap();
    takes_little("jpeg.tif", &tiff(&jpeg, (3, 2), &[(259, 3, 1, 7)]), &["a strip or tile in JPEG is larger"]);
    takes_little("large.tif", &file("a.tif", picture(4001, 1003, 1, |i| i as f32)), &[]);
    takes_little("turned.tif", &tiff(&vec![5; 6_000_000], (3000, 2000), &[(274, 3, 1, 6)]), &[]);
}

/// An OpenEXR's header: attributes of a name, a type and a value.
fn exr(attributes: &[(&str, &str, &[u8])]) -> Vec<u8> {
    let mut file = 20_000_630_u32.to_le_bytes().to_vec();
    file.extend([2, 0, 0, 0]);
    for (name, kind, value) in attributes {
        file.extend([name.as_bytes(), b"\0", kind.as_bytes(), b"\0"].concat());
        file.extend((value.len() as u32).to_le_bytes());
        file.extend_from_slice(value);
    }
    file.push(0);
    file
}

#[test]
fn openexr() {
    takes_little("large.exr", &file("a.exr", picture(2001, 1003, 3, |i| i as f32)), &[]);
    takes_little("wide.exr", &file("a.exr", picture(1_000_000, 1, 4, |i| i as f32)), &[]);
    let channel = |name: &str| [name.as_bytes(), &[0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]].concat();
    let channels = [channel("B"), channel("G"), channel("R"), vec![0]].concat();
    let window = |right: i32, bottom: i32| [0, 0, right, bottom].map(i32::to_le_bytes).concat();
    let (small, wide, high) = (window(1, 1), window(1 << 29, 1), window(1, 1 << 29));
    let file = |data: &[u8], more: &[(&str, &str, &[u8])]| {
        let one = 1_f32.to_le_bytes();
        let plain: &[(&str, &str, &[u8])] = &[
            ("channels", "chlist", &channels),
            ("compression", "compression", &[3]),
            ("dataWindow", "box2i", data),
            ("displayWindow", "box2i", &small),
            ("lineOrder", "lineOrder", &[0]),
            ("pixelAspectRatio", "float", &one),
            ("screenWindowCenter", "v2f", &[0; 8]),
            ("screenWindowWidth", "float", &one),
        ];
        [&exr(&[plain, more].concat())[..], &[0; 100]].concat()
    };
    takes_little("wide-data.exr", &file(&wide, &[]), &["2 x 2 pixels in blocks that take"]);
    takes_little("high-data.exr", &file(&high, &[]), &["2 x 2 pixels in blocks that take"]);
    let long = vec![1; 50_000_000];
    takes_little("long.exr", &file(&small, &[("comment", "string", &long)]), &["attributes of more than 16 MiB"]);
    let tiles = [&(1_u32 << 20).to_le_bytes()[..], &(1_u32 << 12).to_le_bytes(), &[0]].concat();
    takes_little("tiles.exr", &file(&small, &[("tiles", "tiledesc", &tiles)]), &["2 x 2 pixels in blocks that take"]);
}

#[test]
fn netpbm_and_others() {
    for name in ["a.bmp", "a.qoi", "a.ppm", "a.npy"] {
        takes_little(name, &file(name, picture(4001, 1003, 3, |i| i as u8)), &[]);
    }
    let long = vec![b'7'; 100_000_000];
    takes_little("a.pam", &[b"P7\nTUPLTYPE ", long.as_slice()].concat(), &["a header of more than"]);
    takes_little("a.pgm", &[b"P5 ", long.as_slice()].concat(), &["a header of more than"]);
}

/// A batch names the picture that takes too much memory, and writes the others.
#[test]
fn a_bomb_in_a_batch() {
    let place = Place::new();
    fs::create_dir(place.path("in")).unwrap();
    for number in 0..10 {
        place.write(&format!("in/{number}.png"), picture(31, 17, 3, |i| (i + number) as u8));
    }
    let bomb = icc_bomb(&fs::read(place.path("in/0.png")).unwrap());
    fs::write(place.path("in/5-bomb.png"), bomb).unwrap();
    let ended = place.filter(&["in", "-o", "out/", "--identity"]);
    ended.with(1, &["in/5-bomb.png: has a colour profile of more than 16 MiB", "1 of 11 pictures failed"]);
    for number in 0..10 {
        assert_eq!(place.read(&format!("out/{number}.png")), place.read(&format!("in/{number}.png")));
    }
    assert!(!place.path("out/5-bomb.png").exists());
}
