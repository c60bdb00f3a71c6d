//! What the metadata of a Zarr array says: its sizes, its type, and how it is cut into files.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use faltung::PixelType;
use serde_json::{Value, json};
use zarrs::filesystem::FilesystemStore;

use super::ImageInfo;

/// The file with an array's metadata.
pub(super) const METADATA: &str = "zarr.json";

/// The most bytes of metadata that are read.
const MOST_METADATA: u64 = 64 << 20;

/// Whether a path names a Zarr array or group, that is there or not: its extension is `zarr`, or it is a folder with
/// Zarr's metadata.
#[must_use]
pub fn is_zarr(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let is_named_so = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zarr"));
    is_named_so || path.join(METADATA).is_file() || path.join(".zarray").is_file()
}

/// The files of an array in a folder.
pub(super) fn store(folder: &Path) -> Result<Arc<FilesystemStore>, String> {
    if folder.to_str().is_none() {
        return Err("has a name that is not Unicode, which the folder of an array needs".into());
    }
    FilesystemStore::new(folder).map(Arc::new).map_err(|error| error.to_string())
}

/// An array of an image.
#[derive(Clone, Debug)]
pub(super) struct ZarrLayout {
    pub(super) info: ImageInfo,
    /// Rows, columns and, for three axes, channels of a chunk that is one file.
    pub(super) chunk: Vec<u64>,
    /// The same of the smallest part of a file that can be decoded alone.
    pub(super) unit: Vec<u64>,
    pub(super) metadata: Value,
}

impl ZarrLayout {
    /// Reads the metadata of the array in a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(METADATA);
        let found =
            match path.metadata() {
                Ok(found) => found,
                Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Err(format!("{METADATA}: {error}"));
                }
                Err(error) => return Err(match folder.join(".zarray").is_file() {
                    true => {
                        "is Zarr of version 2, and version 3 is needed (`zarr migrate v3` of zarr-python converts it)"
                            .to_owned()
                    }
                    false if folder.is_dir() => format!("is a folder without {METADATA}: no Zarr array of version 3"),
                    false if folder.exists() => "is a file, and a Zarr array is a folder".to_owned(),
                    false => error.to_string(),
                }),
            };
        if found.len() > MOST_METADATA {
            return Err(format!("has {} bytes of metadata, at most {MOST_METADATA} are read", found.len()));
        }
        let text = std::fs::read(path).map_err(|error| format!("{METADATA}: {error}"))?;
        Self::parse(serde_json::from_slice(&text).map_err(|error| format!("{METADATA}: {error}"))?)
    }

    pub(super) fn parse(metadata: Value) -> Result<Self, String> {
        match metadata["node_type"].as_str() {
            Some("array") => {}
            Some("group") => return Err("is a group: name an array in it, such as image.zarr/0".into()),
            _ => return Err(format!("has no Zarr array of version 3 in its {METADATA}")),
        }
        let shape = sides(&metadata["shape"]).ok_or("has metadata without a shape")?;
        let pixel = match metadata["data_type"].as_str() {
            Some("uint8") => PixelType::U8,
            Some("uint16") => PixelType::U16,
            Some("float32") => PixelType::F32,
            _ => return Err(format!("holds {}, and uint8, uint16 or float32 is needed", metadata["data_type"])),
        };
        let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
        let (height, width, channels) = match *shape.as_slice() {
            [height, width] => (side(height), side(width), 1),
            [height, width, channels] => (side(height), side(width), side(channels)),
            _ => {
                return Err(format!("has the shape {shape:?}: height x width, or height x width x channels is needed"));
            }
        };
        let info = ImageInfo::new(width, height, channels, pixel)?;
        let grid = &metadata["chunk_grid"];
        let chunk = sides(&grid["configuration"]["chunk_shape"])
            .filter(|chunk| grid["name"] == "regular" && is_cut(chunk, &shape))
            .ok_or_else(|| format!("has a chunk grid that is not regular: {grid}"))?;
        check_parts(&metadata["codecs"], &chunk)?;
        // A codec after the shards would have them decoded whole.
        let unit = match metadata["codecs"].as_array().map(Vec::as_slice) {
            Some([only]) => parts(only),
            _ => None,
        };
        let unit = unit.unwrap_or_else(|| chunk.clone());
        Ok(Self { info, chunk, unit, metadata })
    }

    /// Bytes of a chunk or a part of one, decoded.
    pub(super) fn bytes(&self, sides: &[u64]) -> u64 {
        sides.iter().fold(self.info.pixel.bytes() as u64, |bytes, &side| bytes.saturating_mul(side))
    }

    /// The metadata of a result in the same chunks and by the same codecs, with values of type `pixel`.
    pub(super) fn metadata_of_result(&self, pixel: PixelType) -> Value {
        let mut metadata = self.metadata.clone();
        metadata["data_type"] = name(pixel).into();
        metadata["fill_value"] = json!(0);
        metadata["attributes"] = json!({});
        metadata["chunk_key_encoding"] = chunk_key_encoding();
        set_byte_order(&mut metadata["codecs"]);
        metadata
    }
}

/// The names of chunks: `c/1/2`, so that a folder has the chunks of one row.
fn chunk_key_encoding() -> Value {
    json!({"name": "default", "configuration": {"separator": "/"}})
}

/// Zarr's name of a type.
pub(super) fn name(pixel: PixelType) -> &'static str {
    match pixel {
        PixelType::U8 => "uint8",
        PixelType::U16 => "uint16",
        PixelType::F32 => "float32",
    }
}

/// Whether parts of these sides cut an array of these sides.
fn is_cut(parts: &[u64], whole: &[u64]) -> bool {
    parts.len() == whole.len() && parts.iter().all(|&side| side > 0)
}

/// Rows, columns and channels of the parts that a codec cuts a chunk into, if it does.
fn parts(codec: &Value) -> Option<Vec<u64>> {
    (codec["name"] == "sharding_indexed").then(|| sides(&codec["configuration"]["chunk_shape"])).flatten()
}

/// Checks that parts divide the chunks that they are parts of, and their parts them.
fn check_parts(codecs: &Value, chunk: &[u64]) -> Result<(), String> {
    for codec in codecs.as_array().into_iter().flatten() {
        let Some(part) = parts(codec) else { continue };
        if !(is_cut(&part, chunk) && part.iter().zip(chunk).all(|(part, side)| side.is_multiple_of(*part))) {
            return Err(format!("has shards of {chunk:?} in parts of {part:?}, which do not divide them"));
        }
        check_parts(&codec["configuration"]["codecs"], &part)?;
    }
    Ok(())
}

fn sides(value: &Value) -> Option<Vec<u64>> {
    value.as_array()?.iter().map(Value::as_u64).collect()
}

/// Gives every codec `bytes` a byte order, which it needs for values of several bytes.
fn set_byte_order(codecs: &mut Value) {
    for codec in codecs.as_array_mut().into_iter().flatten() {
        if codec.as_str() == Some("bytes") {
            *codec = json!({"name": "bytes"});
        }
        if codec["name"] == "bytes" && codec["configuration"]["endian"].is_null() {
            codec["configuration"] = json!({"endian": "little"});
        }
        if codec["name"] == "sharding_indexed" {
            set_byte_order(&mut codec["configuration"]["codecs"]);
        }
    }
}

/// The metadata of a new array: shards of `shard` rows and columns, whose parts are compressed with Zstandard and
/// checked by CRC-32C.
pub(super) fn new_metadata(info: ImageInfo, shard: (usize, usize)) -> Value {
    let ImageInfo { width, height, channels, pixel } = info;
    let with_channels = |height: usize, width: usize| match channels {
        1 => json!([height, width]),
        _ => json!([height, width, channels]),
    };
    let unit = with_channels(part(shard.0), part(shard.1));
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": with_channels(height, width),
        "data_type": name(pixel),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": with_channels(shard.0, shard.1)}},
        "chunk_key_encoding": chunk_key_encoding(),
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": unit,
            "codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "zstd", "configuration": {"level": 1, "checksum": false}},
                {"name": "crc32c"},
            ],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": "end",
        }}],
        "attributes": {},
    })
}

/// The side of the parts of a shard: its largest suitable divisor, or the side itself. A reader of a halo decodes whole
/// parts, so parts are smaller than shards.
fn part(side: usize) -> usize {
    const SUITABLE: std::ops::RangeInclusive<usize> = 64..=512;
    SUITABLE.rev().find(|part| side.is_multiple_of(*part)).unwrap_or(side)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: ImageInfo = ImageInfo { width: 5000, height: 3000, channels: 1, pixel: PixelType::U16 };

    #[test]
    fn parts_divide_shards() {
        for (side, expected) in [(4096, 512), (1000, 500), (5000, 500), (4099, 4099), (60, 60), (1, 1)] {
            assert_eq!(part(side), expected, "{side}");
        }
    }

    #[test]
    fn layouts_are_read() {
        let layout = ZarrLayout::parse(new_metadata(INFO, (2048, 4096))).unwrap();
        assert_eq!((layout.info, &layout.chunk[..], &layout.unit[..]), (INFO, &[2048, 4096][..], &[512, 512][..]));
        assert_eq!(layout.bytes(&layout.unit), 512 << 10);
        // A compressed shard is one part.
        let mut metadata = new_metadata(INFO, (2048, 4096));
        metadata["codecs"].as_array_mut().unwrap().push(json!({"name": "gzip", "configuration": {"level": 1}}));
        assert_eq!(ZarrLayout::parse(metadata).unwrap().unit, [2048, 4096]);
    }

    #[test]
    fn what_is_no_image_is_said() {
        let check = |key: &str, value: Value, words: &str| {
            let mut metadata = new_metadata(INFO, (2048, 4096));
            metadata[key] = value;
            let error = ZarrLayout::parse(metadata).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        check("node_type", "group".into(), "is a group");
        check("shape", json!([3, 3000, 5000]), "5000 channels");
        check("shape", json!([5000]), "height x width");
        check("shape", json!([0, 5000]), "0");
        check("data_type", "int64".into(), "\"int64\"");
        check("chunk_grid", json!({"name": "rectilinear"}), "not regular");
        for part in [json!([512]), json!([0, 512]), json!([4096, 4096]), json!([500, 512]), json!([1_u64 << 63, 1])] {
            let codec = json!({"name": "sharding_indexed", "configuration": {"chunk_shape": part}});
            check("codecs", json!([codec]), "do not divide");
            // Parts of parts.
            let outer = json!({"chunk_shape": [1024, 1024], "codecs": [codec]});
            check("codecs", json!([{"name": "sharding_indexed", "configuration": outer}]), "do not divide");
        }
    }

    #[test]
    fn a_result_of_another_type_has_a_byte_order() {
        let mut metadata = new_metadata(ImageInfo { pixel: PixelType::U8, ..INFO }, (2048, 4096));
        let inner = &mut metadata["codecs"][0]["configuration"]["codecs"][0];
        *inner = json!({"name": "bytes"});
        let result = ZarrLayout::parse(metadata).unwrap().metadata_of_result(PixelType::F32);
        assert_eq!(result["data_type"], "float32");
        assert_eq!(result["codecs"][0]["configuration"]["codecs"][0]["configuration"]["endian"], "little");
    }
}
