//! Images that are filtered in chunks: Zarr arrays and `.npy`, shares of several processes, bounded memory.

use std::fs;
use std::path::Path;

use faltung::{Image, Pixel};

use super::Place;

/// A picture without repetition.
fn noise<T: Pixel>(width: usize, height: usize, channels: usize) -> Image<T> {
    let value = |i: usize| T::from_f32((i.wrapping_mul(2_654_435_761) >> 16 & 0xff) as f32);
    Image::new(width, height, channels, (0..width * height * channels).map(value).collect()).unwrap()
}

/// All files of a folder with their bytes.
pub(super) fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    fn walk(folder: &Path, under: &Path, found: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, under, found);
            } else {
                found.push((path.strip_prefix(under).unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found.sort();
    found
}

/// Fails if two folders have other files or other bytes, and names the first file that differs.
#[track_caller]
pub(super) fn assert_same(one: &Path, other: &Path) {
    let (one, other) = (contents(one), contents(other));
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    let differs = one.iter().zip(&other).find(|(one, other)| one.1 != other.1).map(|(one, _)| &one.0);
    assert_eq!(differs, None);
}

impl Place {
    /// Writes an image as a Zarr array.
    fn write_zarr<T: Pixel>(&self, name: &str, image: Image<T>, chunk: &str) {
        let array = format!("{name}.npy");
        self.write(&array, image);
        self.filter(&[&array, "-o", name, "--identity", "--chunk", chunk]).with(0, &["chunks"]);
        fs::remove_file(self.path(array)).unwrap();
    }

    /// Reads a Zarr array as `.npy`.
    fn zarr_to_npy(&self, name: &str) -> faltung::AnyImage {
        let array = format!("{name}-read.npy");
        self.filter(&[name, "-o", &array, "--identity", "--overwrite"]).with(0, &[]);
        self.read(&array)
    }
}

/// Through Zarr and through `.npy`, in chunks of any size, for all borders, the result is that of the whole picture.
#[test]
fn chunks_are_the_picture() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (case, border) in ["zero", "constant:7", "clamp", "reflect", "mirror", "wrap"].into_iter().enumerate() {
        let place = Place::new();
        let channels = [1, 3][case % 2];
        let (width, height) = (random.usize(20..200), random.usize(20..200));
        match case % 3 {
            0 => place.write("a.npy", noise::<u8>(width, height, channels)),
            1 => place.write("a.npy", noise::<u16>(width, height, channels)),
            _ => place.write("a.npy", noise::<f32>(width, height, channels)),
        }
        let mask = format!("{}x{}", random.usize(1..30), random.usize(1..300));
        let common = ["--box", mask.as_str(), "--border", border, "--exact"];
        let run = |arguments: &[&str]| place.filter(&[arguments, &common].concat());
        run(&["a.npy", "-o", "whole.npy"]).quietly();
        let whole = place.read("whole.npy");
        for _ in 0..3 {
            // Each chunk reads all chunks under its mask. With smaller ones that takes minutes.
            let [rows, columns, more] = [0; 3].map(|_| random.usize(12..120));
            let chunk = format!("{rows}x{columns}");
            run(&["a.npy", "-o", "chunks.npy", "--chunk", &chunk, "--overwrite"]).with(0, &[]);
            assert!(place.read("chunks.npy") == whole, "{chunk}, {border}");
            place.filter(&["a.npy", "-o", "a.zarr", "--identity", "--chunk", &more.to_string()]).with(0, &[]);
            run(&["a.zarr", "-o", "b.zarr"]).with(0, &["computed at", "pixels/s"]);
            assert!(place.zarr_to_npy("b.zarr") == whole, "{more}, {border}");
            run(&["a.zarr", "-o", "b.zarr", "--chunk", &chunk, "--overwrite"]).with(0, &[]);
            assert!(place.zarr_to_npy("b.zarr") == whole, "{chunk} from {more}, {border}");
            fs::remove_dir_all(place.path("a.zarr")).unwrap();
            fs::remove_dir_all(place.path("b.zarr")).unwrap();
        }
    }
}

#[test]
fn chunks_of_one_pixel_are_the_picture() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u8>(9, 7, 3), "1");
    place.filter(&["a.zarr", "-o", "whole.npy", "--box", "5x4"]).with(0, &[]);
    place.filter(&["a.zarr", "-o", "b.zarr", "--box", "5x4"]).with(0, &["63 of 63 chunks"]);
    assert!(place.zarr_to_npy("b.zarr") == place.read("whole.npy"));
}

#[test]
fn results_have_the_type_that_is_asked_for() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u8>(90, 50, 1), "32");
    place.filter(&["a.zarr", "-o", "b.zarr", "--sobel", "x", "--output-type", "f32"]).with(0, &[]);
    assert_eq!(place.zarr_to_npy("b.zarr").pixel_type().name(), "f32");
    assert!(fs::read_to_string(place.path("b.zarr/zarr.json")).unwrap().contains("\"float32\""));
}

/// Several processes share an array. Each writes its own files, and together all.
#[test]
fn parts_are_the_whole() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u16>(300, 200, 1), "40x64");
    let filter = ["--gaussian", "3"];
    place.filter(&[&["a.zarr", "-o", "whole.zarr"], &filter[..]].concat()).with(0, &["25 of 25 chunks"]);
    let part = |number: usize| {
        let part = format!("{number}/4");
        let mut command = place.command(&["filter", "--device", "cpu", "a.zarr", "-o", "b.zarr", "--part", &part]);
        command.args(filter).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    for child in [1, 2, 3, 4].map(part) {
        super::Ended::from(child.wait_with_output().unwrap()).with(0, &["chunks"]);
    }
    assert_same(&place.path("b.zarr"), &place.path("whole.zarr"));
    for wrong in ["0/4", "5/4", "1", "a/b", "1/0"] {
        let run = place.filter(&["a.zarr", "-o", "c.zarr", "--box", "3", "--part", wrong]);
        run.with(2, &["a share and the number of shares"]);
    }
    let run = place.filter(&["a.zarr", "-o", "c.npy", "--box", "3", "--part", "1/2"]);
    run.with(2, &["can't share one file"]);
    // One chunk for two processes.
    let run = place.filter(&["a.zarr", "-o", "d.zarr", "--box", "3", "--chunk", "512", "--part", "1/2"]);
    run.with(0, &["--part 1/2 has no chunk: the result has 1\n"]);
}

/// A run completes what is missing and computes nothing else. The results of another filter are not taken for its own.
#[test]
fn what_exists_is_kept_if_it_is_of_this_task() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u16>(120, 120, 1), "40");
    let run = |more: &[&str]| place.filter(&[&["a.zarr", "-o", "b.zarr"], more].concat());
    run(&["--box", "5"]).with(0, &["9 of 9 chunks"]);
    let right = contents(&place.path("b.zarr"));
    run(&["--box", "5"]).with(1, &["b.zarr exists", "--skip-existing", "--overwrite"]);
    fs::remove_file(place.path("b.zarr/c/1/1")).unwrap();
    fs::remove_file(place.path("b.zarr/c/0/2")).unwrap();
    // A run that writes an existing chunk changes this text.
    fs::write(place.path("b.zarr/c/2/2"), "kept").unwrap();
    run(&["--box", "5", "--skip-existing"]).with(0, &["2 of 2 chunks (7 existed and are kept)"]);
    assert_eq!(fs::read(place.path("b.zarr/c/2/2")).unwrap(), b"kept");
    run(&["--box", "5", "--skip-existing"]).with(0, &["all 9 chunks existed"]);
    run(&["--box", "5", "--overwrite"]).with(0, &["9 of 9 chunks"]);
    assert!(contents(&place.path("b.zarr")) == right);
    for (more, word) in [
        (&["--box", "3"][..], "mask"),
        (&["--box", "5", "--border", "wrap"], "border"),
        (&["--box", "5", "--scale", "2"], "scale"),
        (&["--box", "5", "--exact"], "accuracy"),
        (&["--box", "5", "--output-type", "u8"], "type"),
        (&["--box", "5", "--chunk", "20"], "chunks or codecs"),
    ] {
        run(&[more, &["--skip-existing"]].concat()).with(1, &["b.zarr", word]);
    }
    // Another image of the same name and size.
    fs::remove_dir_all(place.path("a.zarr")).unwrap();
    place.write_zarr("a.zarr", noise::<u16>(120, 120, 1), "40");
    run(&["--box", "5", "--skip-existing"]).with(1, &["another task: source"]);
    assert!(contents(&place.path("b.zarr")) == right);
    // Nothing that this program did not write is removed.
    place.write("c.npy", noise::<u8>(9, 9, 1));
    let attributes = fs::read_to_string(place.path("a.zarr/zarr.json")).unwrap().replace("\"host\"", "\"other\"");
    fs::write(place.path("a.zarr/zarr.json"), attributes).unwrap();
    place.filter(&["c.npy", "-o", "a.zarr", "--box", "3", "--overwrite"]).with(1, &["is kept: it is no array that"]);
    fs::create_dir(place.path("folder.zarr")).unwrap();
    fs::write(place.path("folder.zarr/notes"), "mine").unwrap();
    place.filter(&["c.npy", "-o", "folder.zarr", "--box", "3"]).with(1, &["not empty, and no Zarr array"]);
}

/// The bytes of inner chunk `number` in a shard of `count` inner chunks, as the index at the shard's end says.
fn inner_chunk(shard: &[u8], count: usize, number: usize) -> std::ops::Range<usize> {
    // An offset and a length of 8 bytes each, and the checksum of the index.
    let entry = &shard[shard.len() - 16 * (count - number) - 4..][..16];
    let value = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap()) as usize;
    let (offset, length) = (value(&entry[..8]), value(&entry[8..]));
    offset..offset + length
}

/// The `--memory` that an error names.
fn enough_memory(ended: &super::Ended) -> &str {
    let (_, after) = ended.stderr.split_once("(--memory ").unwrap();
    after.split_once(" or more helps").unwrap().0
}

/// A chunk that can't be read fails the chunks that need it. They are listed, and a second run completes them. That is
/// so for each inner chunk of a shard, whether all of it is read or only a halo.
#[test]
fn a_wrong_checksum_is_found_and_named() {
    let place = Place::new();
    // Shards of 2 x 2 inner chunks of 257 x 257 pixels. Those at the right and lower edges reach out of the image.
    place.write_zarr("a.zarr", noise::<u16>(1100, 1100, 1), "514");
    let run = |output: &str, more: &[&str]| place.filter(&[&["a.zarr", "-o", output, "--box", "3"], more].concat());
    run("whole.zarr", &[]).with(0, &[]);
    let too_little = run("b.zarr", &["--memory", "2M"]).with(1, &["memory: "]);
    let modified = fs::metadata(place.path("a.zarr/zarr.json")).unwrap().modified().unwrap();
    // A shard, one of its inner chunks, the number of chunks that need this, and their names.
    for (shard, inner, missing, names) in [
        ("c/0/0", 0, 1, "c/0/0; "),
        ("c/0/0", 1, 2, "c/0/0, c/0/1; "),
        ("c/0/0", 2, 2, "c/0/0, c/1/0; "),
        ("c/0/0", 3, 4, "c/0/0, c/0/1, c/1/0, c/1/1; "),
        ("c/1/1", 1, 4, "c/0/1, c/0/2, c/1/1, c/1/2; "),
        ("c/2/2", 0, 4, "c/1/1, c/1/2, c/2/1, c/2/2; "),
    ] {
        let path = place.path(format!("a.zarr/{shard}"));
        let right = fs::read(&path).unwrap();
        let bytes = inner_chunk(&right, 4, inner);
        assert!(bytes.len() > 1000, "{shard}, {inner}");
        // The header of Zstandard, values, and the checksum itself. Little memory keeps no decoded parts.
        for (wrong, more) in [
            (bytes.start, &[][..]),
            (bytes.start + bytes.len() / 2, &[]),
            (bytes.start + bytes.len() / 2, &["--memory", enough_memory(&too_little)]),
            (bytes.end - 1, &[]),
        ] {
            let mut shard_bytes = right.clone();
            shard_bytes[wrong] ^= 1;
            fs::write(&path, shard_bytes).unwrap();
            let done = format!("{} of 9 chunks", 9 - missing);
            let ended = run("b.zarr", &[more, &["--overwrite"]].concat());
            let file = format!(": file {shard}: ");
            let ended = ended.with(1, &["reading: a.zarr", &file, "hecksum", &done]);
            let listed = format!("missing: {missing} of 9 chunks: {names}");
            assert!(ended.stderr.contains(&listed), "{shard}, {inner}, byte {wrong}: {}", ended.stderr);
        }
        fs::write(&path, right).unwrap();
        assert_eq!(fs::metadata(place.path("a.zarr/zarr.json")).unwrap().modified().unwrap(), modified);
        let done = format!("{missing} of {missing} chunks ({} existed", 9 - missing);
        run("b.zarr", &["--skip-existing"]).with(0, &[&done]);
        assert_same(&place.path("b.zarr"), &place.path("whole.zarr"));
    }
    // One file is whole or not there.
    fs::write(place.path("a.zarr/c/0/0"), "short").unwrap();
    run("b.npy", &[]).with(1, &["missing: ", "b.npy: is not written, because parts of it are missing"]);
    assert!(!place.names().iter().any(|name| name.starts_with(".host") || name == "b.npy"));
}

/// The error names a `--memory` that is enough.
#[test]
fn too_little_memory_names_what_is_enough() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u16>(1100, 1100, 1), "514");
    place.write("a.npy", noise::<u16>(1100, 1100, 1));
    for (input, output) in [("a.zarr", "b.zarr"), ("a.npy", "b.npy")] {
        let run =
            |memory: &str| place.filter(&[input, "-o", output, "--box", "3", "--chunk", "514", "--memory", memory]);
        let needed = "are needed for one chunk of 514 x 514 pixels, 0 bytes are free: the program itself takes";
        let ended = run("2M").with(1, &["memory: ", needed]);
        run(enough_memory(&ended)).with(0, &["chunks"]);
    }
}

#[test]
fn what_cannot_be_read_or_written_is_said() {
    let place = Place::new();
    place.write_zarr("a.zarr", noise::<u16>(64, 64, 1), "32");
    let metadata = fs::read_to_string(place.path("a.zarr/zarr.json")).unwrap();
    let check = |from: &str, to: &str, words: &str| {
        assert!(metadata.contains(from), "{from}");
        fs::create_dir_all(place.path("wrong.zarr")).unwrap();
        fs::write(place.path("wrong.zarr/zarr.json"), metadata.replacen(from, to, 1)).unwrap();
        place.filter(&["wrong.zarr", "-o", "b.zarr", "--box", "3"]).with(1, &["wrong.zarr: ", words]);
        assert!(!place.path("b.zarr").exists());
    };
    check("\"array\"", "\"group\"", "is a group");
    check("\"uint16\"", "\"int64\"", "uint8, uint16 or float32");
    check("\"zstd\"", "\"blosc\"", "the codecs are");
    check("\"zarr_format\"", "zarr", "zarr.json");
    check("\"regular\"", "\"irregular\"", "not regular");
    fs::create_dir(place.path("old.zarr")).unwrap();
    fs::write(place.path("old.zarr/.zarray"), "{}").unwrap();
    place.filter(&["old.zarr", "-o", "b.zarr", "--box", "3"]).with(1, &["Zarr of version 2"]);
    place.filter(&["none.zarr", "-o", "b.zarr", "--box", "3"]).with(1, &["none.zarr: No such file or directory"]);
    place.write("a.png", noise::<u8>(9, 9, 1));
    place.filter(&["a.png", "-o", "b.zarr", "--box", "3"]).with(1, &["a.png: can't be read in chunks"]);
    place.filter(&["a.zarr", "-o", "b.png", "--box", "3"]).with(2, &[".zarr, .npy and .tif are written"]);
    place.filter(&["a.zarr", "-o", "a.zarr", "--box", "3"]).with(2, &["input and output are the same"]);
    // What lies in the output would be removed with it.
    place.filter(&["a.zarr", "-o", "whole.zarr", "--box", "3"]).with(0, &[]);
    fs::rename(place.path("whole.zarr"), place.path("outer.zarr")).unwrap();
    fs::copy(place.path("a.png"), place.path("outer.zarr/c/a.tif")).unwrap();
    place
        .filter(&["outer.zarr/c/a.tif", "-o", "outer.zarr", "--box", "3", "--overwrite"])
        .with(2, &["outer.zarr/c/a.tif: lies in the output"]);
    place.filter(&["a.zarr", "a.png", "-o", "b.zarr", "--box", "3"]).with(2, &["filtered one by one"]);
    for more in [&["--unsharp", "2"][..], &["--sobel", "magnitude"], &["--box", "3", "--linear"]] {
        place.filter(&[&["a.zarr", "-o", "b.zarr"], more].concat()).with(2, &["takes one mask"]);
    }
    place.filter(&["a.zarr", "-o", "b.zarr", "--box", "3", "--memory", "1M"]).with(1, &["memory", "or more helps"]);
    place.host(&["filter", "a.png", "-o", "b.png", "--box", "3", "--device", "cuda:0,cpu"]).with(2, &["was expected"]);
    place.host(&["filter", "a.png", "-o", "b.png", "--box", "3", "--device", "cuda:x"]).with(2, &["cuda:all"]);
}

/// TIFF in chunks has the values of the whole picture.
#[test]
fn tiff_in_chunks_is_the_picture() {
    let place = Place::new();
    place.write("a.tif", noise::<u8>(1300, 700, 3));
    place.write("b.tif", noise::<u16>(600, 1100, 1));
    place.write("c.tif", noise::<f32>(513, 511, 1));
    place.write("d.tif", noise::<u8>(60, 50, 4));
    for name in ["a.tif", "b.tif", "c.tif", "d.tif"] {
        let filter = ["--gaussian", "4", "--exact", "--alpha", "plain"];
        place.filter(&[&[name, "-o", "whole.tif", "--overwrite"], &filter[..]].concat()).quietly();
        let ended = place
            .filter(&[&[name, "-o", "chunks.tif", "--overwrite", "--chunk", "500"], &filter[..]].concat())
            .with(0, &[]);
        // The only chunk of the last one ends with the image.
        let note = "note: --chunk: chunks have 512 rows and 512 columns, because TIFF has tiles of 512 x 512 pixels";
        assert_eq!(ended.stderr.contains(note), name != "d.tif", "{name}: {}", ended.stderr);
        assert!(place.read("chunks.tif") == place.read("whole.tif"), "{name}");
        // Tiles, and another format.
        let again = ["chunks.tif", "-o", "array.npy", "--overwrite", "--chunk", "100x300", "--identity"];
        place.filter(&[&again[..], &["--alpha", "plain"]].concat()).with(0, &[]);
        assert!(place.read("array.npy") == place.read("whole.tif"), "{name}");
    }
    place
        .filter(&["d.tif", "-o", "e.tif", "--box", "3", "--chunk", "50"])
        .with(2, &["d.tif: has alpha", "--alpha plain"]);
    fs::write(place.path("f.tif"), &fs::read(place.path("a.tif")).unwrap()[..9000]).unwrap();
    place.filter(&["f.tif", "-o", "g.tif", "--box", "3", "--chunk", "50"]).with(1, &["f.tif"]);
    assert!(!place.path("g.tif").exists());
}

/// The model names the bound, and says what is wrong with its arguments.
#[test]
fn the_plan_names_the_bound() {
    let place = Place::new();
    let plan = |more: &[&str]| place.host(&[&["plan-scale", "--pixels", "1e12"], more].concat());
    let ended = plan(&["--gpus", "64", "--gpus-per-machine", "4", "--disk", "1GB/s"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    assert!(ended.stdout.contains("limited by storage") && ended.stdout.contains("files: 59605"), "{}", ended.stdout);
    let ended = plan(&["--disk", "1TB/s", "--kernel", "1M"]);
    assert!(ended.stdout.contains("limited by kernels"), "{}", ended.stdout);
    plan(&["--disk", "fast"]).with(2, &["a number was expected"]);
    plan(&["--disk", "1e25"]).with(2, &["--disk", "a number above 0 and up to 1e24 was expected, not 1e25"]);
    let radius = ["--disk", "1GB/s", "--radius", "1e300"];
    plan(&radius).with(2, &["--radius", "a number from 0 to 1e9 was expected, not 1e300"]);
    let pixels = ["plan-scale", "--pixels", "1e300", "--disk", "1GB/s"];
    place.host(&pixels).with(2, &["--pixels", "a number above 0 and up to 1e18 was expected, not 1e300"]);
    plan(&["--disk", "1GB/s", "--part", "9000"]).with(2, &["--part 9000 is larger than --chunk"]);
}
