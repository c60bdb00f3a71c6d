//! The memory limits of reading a picture.

use image::ImageFormat;

/// Reading a picture takes at most this many times the bytes of its decoded values, and [`MEMORY_CONSTANT`] more.
pub const MEMORY_MULTIPLE: u64 = 6;

/// Bytes of memory that reading a picture may take besides: for metadata, and for what a decoder needs for any picture.
pub const MEMORY_CONSTANT: u64 = 64 << 20;

/// Bytes that a decoder needs for any picture.
pub(super) const SMALL: u64 = 1 << 20;

/// The memory of decoding, as a multiple of the bytes of the values. It holds the coded data, the decoded values, and a
/// copy while the picture is turned upright.
pub(super) fn multiple(format: ImageFormat, holds_coefficients: bool) -> u64 {
    match format {
        // The values, twice as many bytes of coded data at most, and 16 bits for each coefficient of up to four
        // components.
        ImageFormat::Jpeg if holds_coefficients => MEMORY_MULTIPLE,
        ImageFormat::Jpeg => 4,
        // The values, a frame and the canvas of an animation in RGBA, its planes, and twice the coded data.
        ImageFormat::WebP => MEMORY_MULTIPLE,
        // The values as they are stored, which for CMYK are more, and those of each plane.
        ImageFormat::Tiff | ImageFormat::OpenExr | ImageFormat::Qoi => 3,
        _ => 2,
    }
}

/// Bytes of memory that reading takes.
pub(super) fn peak(multiple: u64, bytes: u64) -> u64 {
    bytes.saturating_mul(multiple).saturating_add(SMALL)
}
