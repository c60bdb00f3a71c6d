//! Files and arguments that are wrong on purpose, for images that are filtered in chunks. Each one is an error that
//! says what is wrong. What exists is kept, and nothing is left over.

use std::fs;
use std::path::Path;

use faltung::Image;
use serde_json::{Value, json};

use super::Place;
use super::chunked::contents;

/// Entries of metadata.
type Entries<'a> = &'a [(&'a str, Value)];

/// Columns and rows of the images here.
const SIDE: usize = 64;

/// Metadata of an array without compression.
fn metadata() -> Value {
    json!({
        "zarr_format": 3, "node_type": "array", "shape": [SIDE, SIDE], "data_type": "uint16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32, 32]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 7, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {},
    })
}

fn grid(chunk: Value) -> Value {
    json!({"name": "regular", "configuration": {"chunk_shape": chunk}})
}

fn shards(part: Value) -> Value {
    let bytes = json!([{"name": "bytes", "configuration": {"endian": "little"}}]);
    let configuration = json!({"chunk_shape": part, "codecs": bytes, "index_codecs": bytes});
    json!([{"name": "sharding_indexed", "configuration": configuration}])
}

impl Place {
    /// Makes an array without chunks, whose metadata has some other entries.
    fn empty_zarr(&self, name: &str, entries: Entries<'_>) {
        let mut metadata = metadata();
        for (key, value) in entries {
            metadata[key] = value.clone();
        }
        fs::create_dir_all(self.path(name)).unwrap();
        fs::write(self.path(name).join("zarr.json"), metadata.to_string()).unwrap();
    }
}

/// Hostile metadata: no overflow, no allocation of what it claims, and no trace of a result.
#[test]
fn metadata_that_cannot_be_is_said() {
    let place = Place::new();
    const MOST: usize = (1 << 30) - 1;
    let huge = || json!([MOST, MOST]);
    let cases: &[(Entries<'_>, &str, &[&str])] = &[
        (&[("shape", json!([0, 4]))], "b.zarr", &["at least 1 x 1 pixels", "4 x 0"]),
        (&[("shape", json!([u64::MAX, u64::MAX]))], "b.zarr", &["image width is 18446744073709551615", "1073741823"]),
        (&[("shape", json!([-1, 4]))], "b.zarr", &["without a shape"]),
        (&[("shape", huge())], "b.zarr", &["1125899906842624 chunks", "at most 16777216"]),
        (&[("shape", huge()), ("chunk_grid", grid(json!([1, 1])))], "b.zarr", &["1152921502459363329 chunks"]),
        (&[("shape", huge())], "b.npy", &["b.npy: File too large"]),
        (&[("shape", huge())], "b.tif", &["4398046511104 tiles", "at most 16777216"]),
        (&[("chunk_grid", grid(json!([0, 32])))], "b.zarr", &["not regular", "[0,32]"]),
        (&[("chunk_grid", grid(json!([1_u64 << 62, 1_u64 << 62])))], "b.zarr", &["memory: ", "for one chunk"]),
        (&[("chunk_grid", grid(json!([u64::MAX, u64::MAX])))], "b.npy", &["memory: ", "for one chunk"]),
        (&[("codecs", shards(json!([5, 5])))], "b.zarr", &["shards of [32, 32] in parts of [5, 5]"]),
        (&[("codecs", shards(json!([16])))], "b.npy", &["parts of [16]"]),
        (&[("codecs", shards(json!([64, 64])))], "b.zarr", &["parts of [64, 64]"]),
        (&[("codecs", json!([5]))], "b.zarr", &["can't be read"]),
        (&[("fill_value", json!(70_000))], "b.zarr", &["70000"]),
        (&[("unknown", json!({"must_understand": true}))], "b.zarr", &["unknown"]),
    ];
    for (entries, output, words) in cases {
        place.empty_zarr("a.zarr", entries);
        let ended = place.filter(&["a.zarr", "-o", output, "--box", "3", "--quiet"]).with(1, words);
        assert!(ended.stderr.contains("a.zarr") || ended.stderr.contains("b.") || ended.stderr.contains("memory"));
        assert_eq!(place.names(), ["a.zarr/zarr.json"], "{entries:?}");
    }
    for text in [&b"["[..], b"", b"\xff\xfe", &b"[".repeat(100_000)] {
        fs::write(place.path("a.zarr/zarr.json"), text).unwrap();
        place.filter(&["a.zarr", "-o", "b.zarr", "--box", "3"]).with(1, &["a.zarr: zarr.json: "]);
    }
    fs::write(place.path("c.zarr"), "a file").unwrap();
    place.filter(&["c.zarr", "-o", "b.tif", "--box", "3", "--chunk", "9"]).with(1, &["c.zarr: is a file"]);
}

/// The largest chunks that can be named are those of the whole image, or an error.
#[test]
fn chunks_of_any_size_are_arguments() {
    let place = Place::new();
    place.empty_zarr("a.zarr", &[]);
    let most = u64::MAX.to_string();
    for output in ["b.tif", "b.npy"] {
        place.filter(&["a.zarr", "-o", output, "--identity", "--chunk", &most]).with(0, &["1 of 1 chunks"]);
        let expected = Image::from_fn(SIDE, SIDE, |_, _| 7_u16).unwrap();
        assert!(place.read(output) == expected.into(), "{output}");
    }
    place.filter(&["a.zarr", "-o", "b.zarr", "--identity", "--chunk", &most]).with(1, &["memory: ", "for one chunk"]);
    assert!(!place.path("b.zarr").exists());
}

/// A chunk of four channels of an array that has three. Zarr allows it, and its result would have other places.
#[test]
fn chunks_with_more_channels_are_read_and_not_written() {
    let place = Place::new();
    let entries =
        [("shape", json!([SIDE, SIDE, 3])), ("chunk_grid", grid(json!([32, 32, 4]))), ("data_type", json!("uint8"))];
    place.empty_zarr("a.zarr", &entries);
    let chunk: Vec<u8> = (0..32 * 32 * 4).map(|i| (i * 7 % 251) as u8).collect();
    fs::create_dir_all(place.path("a.zarr/c/0/0")).unwrap();
    fs::write(place.path("a.zarr/c/0/0/0"), &chunk).unwrap();
    place.filter(&["a.zarr", "-o", "b.zarr", "--identity"]).with(1, &["chunks of 4 channels, and 3 are needed"]);
    assert!(!place.path("b.zarr").exists());
    place.filter(&["a.zarr", "-o", "b.zarr", "--identity", "--chunk", "64"]).with(0, &[]);
    place.filter(&["b.zarr", "-o", "b.npy", "--identity"]).with(0, &[]);
    let image = place.read_u8("b.npy");
    for (y, x) in [(0, 0), (3, 5), (31, 31)] {
        assert_eq!(image.row(y)[x * 3..][..3], chunk[(y * 32 + x) * 4..][..3], "{x}, {y}");
    }
    assert_eq!(image.row(40)[..3], [7, 7, 7]);
}

/// Whatever fails before the first chunk leaves the result that exists as it is, and makes none.
#[test]
fn an_early_error_keeps_what_exists() {
    let place = Place::new();
    place.empty_zarr("a.zarr", &[]);
    place.filter(&["a.zarr", "-o", "b.zarr", "--box", "3"]).with(0, &[]);
    let right = contents(&place.path("b.zarr"));
    let run = |more: &[&str]| place.filter(&[&["a.zarr", "-o", "b.zarr", "--box", "5", "--overwrite"], more].concat());
    run(&["--memory", "1M"]).with(1, &["memory: ", "or more helps"]);
    run(&["--chunk", "18446744073709551615"]).with(1, &["memory: "]);
    run(&["--part", "1/2"]).with(2, &["--overwrite and --part"]);
    place
        .filter(&["a.zarr", "-o", "new.zarr", "--box", "3", "--overwrite", "--part", "1/2"])
        .with(2, &["--overwrite and --part"]);
    place.filter(&["a.zarr", "-o", "new.zarr", "--box", "3", "--memory", "1M"]).with(1, &["memory: "]);
    assert!(contents(&place.path("b.zarr")) == right);
    assert!(!place.path("new.zarr").exists());
    fs::write(place.path("file.zarr"), "mine").unwrap();
    place.filter(&["a.zarr", "-o", "file.zarr", "--box", "3"]).with(2, &["file.zarr: is a file"]);
    assert_eq!(fs::read(place.path("file.zarr")).unwrap(), b"mine");
}

/// An empty file is no chunk. A folder in its place is named.
#[test]
fn an_empty_file_is_no_chunk() {
    let place = Place::new();
    place.empty_zarr("a.zarr", &[]);
    let run = |more: &[&str]| place.filter(&[&["a.zarr", "-o", "b.zarr", "--box", "3"], more].concat());
    run(&[]).with(0, &["4 of 4"]);
    let right = contents(&place.path("b.zarr"));
    fs::write(place.path("b.zarr/c/0/1"), "").unwrap();
    run(&["--skip-existing"]).with(0, &["1 of 1 chunks (3 existed"]);
    assert!(contents(&place.path("b.zarr")) == right);
    fs::remove_file(place.path("b.zarr/c/1/1")).unwrap();
    fs::create_dir(place.path("b.zarr/c/1/1")).unwrap();
    run(&["--skip-existing"]).with(1, &["chunk c/1/1: writing: ", "missing: 1 of 4 chunks: c/1/1"]);
    // Half of the metadata is no result of this task.
    let text = fs::read_to_string(place.path("b.zarr/zarr.json")).unwrap();
    fs::write(place.path("b.zarr/zarr.json"), &text[..text.len() / 2]).unwrap();
    for more in ["--skip-existing", "--overwrite"] {
        run(&[more]).with(1, &["b.zarr: zarr.json: EOF"]);
    }
}

/// Names with any characters, links, and results that are their own input.
#[cfg(unix)]
#[test]
fn names_and_links() {
    use std::os::unix::fs::symlink;

    let place = Place::new();
    place.write("a.npy", Image::from_fn(SIDE, SIDE, |x, y| (x * 7 + y) as u16).unwrap());
    let image = place.read("a.npy");
    for name in ["ä ö.zarr", "a\nb.zarr", "a%2f\u{1b}[31m.zarr", "A.ZARR", "folder/of/a.zarr", "slash.zarr/"] {
        place.filter(&["a.npy", "-o", name, "--identity", "--chunk", "32"]).with(0, &["4 of 4 chunks"]);
        place.filter(&[name, "-o", "b.npy", "--identity", "--overwrite"]).with(0, &[]);
        assert!(place.read("b.npy") == image, "{name:?}");
        let ended = place.filter(&["a.npy", "-o", name, "--identity", "--chunk", "32"]).with(1, &["exists"]);
        assert!(!ended.stderr.trim_end().contains(['\n', '\u{1b}']), "{:?}", ended.stderr);
    }
    // The link stays, and its folder has the result.
    symlink("A.ZARR", place.path("link.zarr")).unwrap();
    place.filter(&["a.npy", "-o", "link.zarr", "--box", "3", "--chunk", "32", "--overwrite"]).with(0, &[]);
    assert!(fs::symlink_metadata(place.path("link.zarr")).unwrap().is_symlink());
    assert!(Path::new(&place.path("A.ZARR/c/1/1")).is_file());
    symlink("a.npy", place.path("link.npy")).unwrap();
    for (input, output) in [("A.ZARR", "link.zarr"), ("link.zarr", "A.ZARR"), ("a.npy", "link.npy")] {
        let ended = place.filter(&[input, "-o", output, "--box", "3", "--chunk", "9", "--overwrite"]);
        ended.with(2, &["input and output are the same"]);
    }
    assert!(place.read("a.npy") == image);
    symlink("gone", place.path("nowhere.zarr")).unwrap();
    place
        .filter(&["a.npy", "-o", "nowhere.zarr", "--box", "3", "--chunk", "9"])
        .with(1, &["nowhere.zarr: can't be made"]);
}
