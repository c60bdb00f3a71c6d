//! The codec `crc32c`, which verifies the checksum of a chunk even if only a part of the chunk is read.
//!
//! The codec of crate `zarrs` verifies a checksum only where a whole chunk, or a whole shard, is decoded. It reads a
//! part of a chunk, and an inner chunk of a shard, without its checksum.

use std::any::Any;
use std::borrow::Cow;
use std::sync::{Arc, Once};

use zarrs::array::codec::Crc32cCodec;
use zarrs::array::codec::api::{
    CodecRuntimePluginV3, PartialDecoderCapability, PartialEncoderCapability, register_codec_v3,
};
use zarrs::array::{
    ArrayBytesRaw, BytesRepresentation, BytesToBytesCodecTraits, Codec, CodecError, CodecMetadataOptions, CodecOptions,
    CodecTraits, CodecTraitsV3, RecommendedConcurrency,
};
use zarrs::metadata::Configuration;
use zarrs::plugin::{ExtensionName, ZarrVersion};

/// Zarr's name of the codec.
const NAME: &str = "crc32c";

/// Lets arrays that are opened from now on have the codec of this module.
pub(super) fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // The handle would remove the codec on request. Without it the codec stays.
        drop(register_codec_v3(CodecRuntimePluginV3::new(
            |name| name == NAME,
            |metadata| {
                Ok(match Crc32cCodec::create(metadata)? {
                    Codec::BytesToBytes(codec) => Codec::BytesToBytes(Arc::new(VerifiedCrc32c(codec))),
                    other => other,
                })
            },
        )));
    });
}

/// The codec of crate `zarrs` without its partial decoder. The default of the trait decodes all bytes, of which it then
/// takes a part. So [`decode`](BytesToBytesCodecTraits::decode) verifies the checksum of all that is read.
#[derive(Debug)]
struct VerifiedCrc32c(Arc<dyn BytesToBytesCodecTraits>);

impl ExtensionName for VerifiedCrc32c {
    fn name(&self, version: ZarrVersion) -> Option<Cow<'static, str>> {
        self.0.name(version)
    }
}

impl CodecTraits for VerifiedCrc32c {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn configuration(&self, version: ZarrVersion, options: &CodecMetadataOptions) -> Option<Configuration> {
        self.0.configuration(version, options)
    }

    /// Neither reads nor decodes a part, so that a chain of codecs decodes a chunk once for all of its rows.
    fn partial_decoder_capability(&self) -> PartialDecoderCapability {
        PartialDecoderCapability { partial_read: false, partial_decode: false }
    }

    fn partial_encoder_capability(&self) -> PartialEncoderCapability {
        self.0.partial_encoder_capability()
    }
}

impl BytesToBytesCodecTraits for VerifiedCrc32c {
    fn into_dyn(self: Arc<Self>) -> Arc<dyn BytesToBytesCodecTraits> {
        self
    }

    fn recommended_concurrency(&self, decoded: &BytesRepresentation) -> Result<RecommendedConcurrency, CodecError> {
        self.0.recommended_concurrency(decoded)
    }

    fn encoded_representation(&self, decoded: &BytesRepresentation) -> BytesRepresentation {
        self.0.encoded_representation(decoded)
    }

    fn encode<'a>(&self, decoded: ArrayBytesRaw<'a>, options: &CodecOptions) -> Result<ArrayBytesRaw<'a>, CodecError> {
        self.0.encode(decoded, options)
    }

    fn decode<'a>(
        &self,
        encoded: ArrayBytesRaw<'a>,
        decoded: &BytesRepresentation,
        options: &CodecOptions,
    ) -> Result<ArrayBytesRaw<'a>, CodecError> {
        self.0.decode(encoded, decoded, options)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::{Value, json};
    use zarrs::array::{Array, ArraySubset};

    use super::super::zarr_layout::store;
    use super::*;

    /// An array of one chunk of 64 x 64 values of one byte.
    fn array(folder: &Path, codecs: &Value) -> Array<zarrs::filesystem::FilesystemStore> {
        register();
        let metadata = json!({
            "zarr_format": 3,
            "node_type": "array",
            "shape": [64, 64],
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [64, 64]}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0,
            "codecs": codecs,
        });
        let metadata = serde_json::from_value(metadata).unwrap();
        Array::new_with_metadata(store(folder).unwrap(), "/", metadata).unwrap()
    }

    /// Codecs that cut a chunk into inner chunks.
    fn sharded(side: u64, codecs: &Value) -> Value {
        json!([{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [side, side],
            "codecs": codecs,
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": NAME}],
            "index_location": "end",
        }}])
    }

    #[test]
    fn parts_of_chunks_are_verified() {
        let plain = json!([{"name": "bytes"}, {"name": NAME}]);
        let gzip = json!([{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}, {"name": NAME}]);
        let mut after_shards = sharded(16, &json!([{"name": "bytes"}]));
        after_shards.as_array_mut().unwrap().push(json!({"name": NAME}));
        let shards_of_shards = sharded(32, &sharded(16, &plain));
        for codecs in [&plain, &gzip, &after_shards, &sharded(16, &plain), &sharded(16, &gzip), &shards_of_shards] {
            let folder = tempfile::tempdir().unwrap();
            let array = array(folder.path(), codecs);
            let values: Vec<u8> = (0..64_u32 * 64).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            array.store_chunk(&[0, 0], values.as_slice()).unwrap();
            let read = |rows, columns| {
                let window = ArraySubset::new_with_ranges(&[rows, columns]);
                array.retrieve_array_subset_opt::<Vec<u8>>(&window, &CodecOptions::default())
            };
            // Three rows of the inner chunk at (0, 0), and of no other.
            let part = || read(1..4, 2..9);
            let expected: Vec<u8> = (1..4).flat_map(|y| values[64 * y + 2..64 * y + 9].to_vec()).collect();
            assert_eq!(part().unwrap(), expected, "{codecs}");
            let path = folder.path().join("c/0/0");
            let right = fs::read(&path).unwrap();
            // A flipped bit of that inner chunk is found by whoever reads a part of it. Other inner chunks have none.
            let mut found = 0;
            for place in 0..right.len() {
                let mut wrong = right.clone();
                wrong[place] ^= 1;
                fs::write(&path, wrong).unwrap();
                match part() {
                    Ok(values) => assert_eq!(values, expected, "byte {place}, {codecs}"),
                    Err(_) => found += 1,
                }
                assert!(read(0..64, 0..64).is_err(), "byte {place}, {codecs}");
            }
            assert!(found >= 16 * 16, "{found}, {codecs}");
        }
    }
}
