//! The metadata of a picture.

use std::collections::BTreeSet;

use image::metadata::Orientation;

use super::Format;

/// Bytes of a colour profile or of EXIF data that are read: 16 MiB. A file with more is refused.
pub const MOST_METADATA: u64 = 16 << 20;

/// Pixels per inch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resolution {
    /// Along a row.
    pub x: f64,
    /// Along a column.
    pub y: f64,
}

impl Resolution {
    /// None if a number can't be a resolution.
    pub(super) fn new(x: f64, y: f64) -> Option<Self> {
        let valid = |number: f64| number.is_finite() && (1e-3..1e7).contains(&number);
        (valid(x) && valid(y)).then_some(Self { x, y })
    }
}

/// The metadata of a picture. It is written with the picture where the [format](Format) can hold it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// The colour profile, as the ICC defines its bytes.
    pub icc_profile: Option<Vec<u8>>,
    /// EXIF data, beginning with the header of a TIFF. Its orientation is that of the values as they are, and it has no
    /// thumbnail.
    pub exif: Option<Vec<u8>>,
    /// Pixels per inch.
    pub resolution: Option<Resolution>,
    /// PNG's chunks gAMA, cHRM, sRGB, cICP, mDCV and cLLI: how the values are to be shown.
    pub png_colour: Vec<([u8; 4], Vec<u8>)>,
    /// How often JPEG's brightness is sampled for each sample of its colours: columns and rows.
    pub jpeg_sampling: Option<(u8, u8)>,
    /// TIFF and OpenEXR: colours are already multiplied by alpha. Formats with [straight
    /// alpha](Format::has_straight_alpha) get them divided by it.
    pub premultiplied: bool,
    /// The metadata that reading dropped, such as "XMP".
    pub dropped: BTreeSet<&'static str>,
}

impl Metadata {
    /// Keeps the EXIF data of a file, and returns their orientation. Removes what is wrong after reading.
    pub(super) fn set_exif(&mut self, mut exif: Vec<u8>) -> Orientation {
        let orientation = Orientation::remove_from_exif_chunk(&mut exif).unwrap_or(Orientation::NoTransforms);
        remove_thumbnail(&mut exif);
        self.exif = Some(exif);
        orientation
    }

    /// Updates what changes with the orientation.
    pub(super) fn turn(&mut self, orientation: Orientation) {
        if swaps_sides(orientation) {
            self.jpeg_sampling = self.jpeg_sampling.map(|(columns, rows)| (rows, columns));
            self.resolution = self.resolution.map(|Resolution { x, y }| Resolution { x: y, y: x });
            if let Some(exif) = &mut self.exif {
                swap_sides(exif);
            }
        }
    }

    /// Drops a profile for other channels: a decoded CMYK picture is RGB. Bytes 16 to 19 of a profile name its colour
    /// space.
    pub(super) fn keep_profile_for(&mut self, channels: usize) {
        let space: &[u8] = if channels < 3 { b"GRAY" } else { b"RGB " };
        if self.icc_profile.as_ref().is_some_and(|profile| profile.get(16..20) != Some(space)) {
            self.icc_profile = None;
            self.dropped.insert("a colour profile for other channels");
        }
    }

    /// The metadata that is lost when the picture is written in this format: what reading dropped, and what the format
    /// can't hold.
    #[must_use]
    pub fn lost_in(&self, format: Format) -> BTreeSet<&'static str> {
        use Format::{Exr, Jpeg, Png, Tiff, WebP};
        let mut lost = self.dropped.clone();
        let mut note = |has: bool, holds: &[Format], what| {
            if has && !holds.contains(&format) {
                lost.insert(what);
            }
        };
        note(self.icc_profile.is_some(), &[Png, Jpeg, Tiff, WebP], "the colour profile");
        let jpeg_fits = self.exif.as_ref().is_none_or(|exif| exif.len() <= super::jpeg::MOST_EXIF);
        let exif: &[Format] = if jpeg_fits { &[Png, Jpeg, WebP] } else { &[Png, WebP] };
        note(self.exif.is_some(), exif, "EXIF");
        note(self.resolution.is_some(), &[Png, Jpeg, Tiff], "the resolution");
        let is_lost = self.premultiplied && !format.has_straight_alpha();
        note(is_lost, &[Tiff, Exr], "that the colours are multiplied by alpha");
        // A profile replaces it, and a file without either is taken for sRGB.
        let says_more = self.icc_profile.is_none() && self.png_colour.iter().any(|chunk| !is_srgb(chunk));
        note(says_more, &[Png], "PNG's gamma and primaries");
        lost
    }
}

/// Whether a chunk says no more than sRGB.
fn is_srgb((name, data): &([u8; 4], Vec<u8>)) -> bool {
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).eq(data.iter().copied());
    match name {
        b"sRGB" => true,
        b"gAMA" => numbers(&[45_455]),
        b"cHRM" => numbers(&[31_270, 32_900, 64_000, 33_000, 30_000, 60_000, 15_000, 6_000]),
        b"cICP" => *data == [1, 13, 0, 1],
        _ => false,
    }
}

/// Whether width and height change places.
pub(super) fn swaps_sides(orientation: Orientation) -> bool {
    use Orientation::{Rotate90, Rotate90FlipH, Rotate270, Rotate270FlipH};
    matches!(orientation, Rotate90 | Rotate90FlipH | Rotate270 | Rotate270FlipH)
}

/// Removes the thumbnail from EXIF data, because it shows the picture before it was filtered.
fn remove_thumbnail(exif: &mut [u8]) {
    // Without a thumbnail, or without the structure of a TIFF, there is nothing to remove.
    let _ = try_remove_thumbnail(exif);
}

/// A number of 16 bits in EXIF data.
fn short(exif: &[u8], at: usize) -> Option<usize> {
    let bytes = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
    Some(usize::from(if exif.starts_with(b"MM") { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }))
}

/// A number of 32 bits in EXIF data.
fn long(exif: &[u8], at: usize) -> Option<usize> {
    let bytes = exif.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(if exif.starts_with(b"MM") { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) } as usize)
}

/// Exchanges what EXIF data say of the columns and of the rows.
fn swap_sides(exif: &mut [u8]) {
    let Some(main) = long(exif, 4) else { return };
    // ImageWidth and ImageLength; XResolution and YResolution.
    swap_values(exif, main, 0x0100, 0x0101);
    swap_values(exif, main, 0x011A, 0x011B);
    if let Some(camera) = entry(exif, main, 0x8769).and_then(|at| long(exif, at + 8)) {
        // PixelXDimension and PixelYDimension.
        swap_values(exif, camera, 0xA002, 0xA003);
    }
}

/// Exchanges the values of two tags of a directory, with their types. Without both of them nothing changes.
fn swap_values(exif: &mut [u8], directory: usize, one: usize, other: usize) {
    let (Some(one), Some(other)) = (entry(exif, directory, one), entry(exif, directory, other)) else { return };
    for byte in 2..12 {
        exif.swap(one + byte, other + byte);
    }
}

/// Where a directory has the 12 bytes of a tag: the tag, the type, the number of values, and the value or its place.
fn entry(exif: &[u8], directory: usize, tag: usize) -> Option<usize> {
    let first = directory.checked_add(2)?;
    let mut entries = (0..short(exif, directory)?).map(|number| first + 12 * number);
    let at = entries.find(|&at| short(exif, at) == Some(tag))?;
    exif.get(at..at + 12).map(|_| at)
}

fn try_remove_thumbnail(exif: &mut [u8]) -> Option<()> {
    let directory = long(exif, 4)?;
    let link = directory + 2 + 12 * short(exif, directory)?;
    let thumbnail = long(exif, link)?;
    exif.get_mut(link..link + 4)?.fill(0);
    if thumbnail == 0 {
        return None;
    }
    let (mut start, mut length) = (None, None);
    for entry in 0..short(exif, thumbnail)? {
        let entry = thumbnail + 2 + 12 * entry;
        match short(exif, entry)? {
            // JPEGInterchangeFormat, JPEGInterchangeFormatLength; strips, where there is one.
            0x0201 | 0x0111 => start = long(exif, entry + 8),
            0x0202 | 0x0117 => length = long(exif, entry + 8),
            _ => {}
        }
    }
    let start = start?;
    exif.get_mut(start..start.checked_add(length?)?)?.fill(0);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exif_is_kept_upright_and_without_its_thumbnail() {
        // A header; a directory with an orientation of 6, and a link to one with a thumbnail of 3 bytes.
        let exif = |big: bool| {
            let short = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
            let long = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
            let entry = |tag, kind, value| [&short(tag)[..], &short(kind), &long(1), value].concat();
            [
                if big { b"MM" } else { b"II" },
                &short(42)[..],
                &long(8),
                &short(1),
                &entry(0x0112, 3, &[&short(6)[..], &[0, 0]].concat()),
                &long(26),
                &short(2),
                &entry(0x0201, 4, &long(56)),
                &entry(0x0202, 4, &long(3)),
                &long(0),
                b"abcdef",
            ]
            .concat()
        };
        for big in [false, true] {
            let mut metadata = Metadata::default();
            assert_eq!(metadata.set_exif(exif(big)), Orientation::Rotate90);
            let kept = metadata.exif.unwrap();
            assert_eq!(Orientation::from_exif_chunk(&kept), Some(Orientation::NoTransforms));
            assert_eq!(kept[22..26], [0; 4], "the link");
            assert_eq!(kept[56..], *b"\0\0\0def");
            // Cut off anywhere, it is no reason to panic.
            for length in 0..exif(big).len() {
                metadata = Metadata::default();
                metadata.set_exif(exif(big)[..length].to_vec());
            }
        }
    }

    #[test]
    fn exif_of_a_turned_picture_has_its_sides() {
        for big in [false, true] {
            let short = |number: u16| if big { number.to_be_bytes() } else { number.to_le_bytes() };
            let long = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
            let entry = |tag, kind: u16, value: u32| {
                // A number of 16 bits stands in the first two bytes.
                let value = if kind == 3 { [short(value as u16), [0; 2]].concat() } else { long(value).to_vec() };
                [&short(tag)[..], &short(kind), &long(1), &value].concat()
            };
            // The columns have 16 bits, the rows 32.
            let exif = |columns: &[u8], rows: &[u8], dimensions: [u32; 2], fractions: [u32; 2]| {
                [
                    if big { b"MM" } else { b"II" },
                    &short(42)[..],
                    &long(8),
                    &short(5),
                    columns,
                    rows,
                    &entry(0x011A, 5, fractions[0]),
                    &entry(0x011B, 5, fractions[1]),
                    &entry(0x8769, 4, 74),
                    &long(0),
                    &short(2),
                    &entry(0xA002, 4, dimensions[0]),
                    &entry(0xA003, 4, dimensions[1]),
                    &long(0),
                ]
                .concat()
            };
            let stored = exif(&entry(0x0100, 3, 400), &entry(0x0101, 4, 300), [400, 300], [120, 128]);
            let turned = exif(&entry(0x0100, 4, 300), &entry(0x0101, 3, 400), [300, 400], [128, 120]);
            let after = |orientation, exif: &[u8]| {
                let mut metadata = Metadata { exif: Some(exif.to_vec()), ..Metadata::default() };
                metadata.turn(orientation);
                metadata.exif.unwrap()
            };
            assert_eq!(after(Orientation::Rotate90, &stored), turned);
            assert_eq!(after(Orientation::Rotate180, &stored), stored);
            // Cut off anywhere, it is no reason to panic.
            for length in 0..stored.len() {
                assert_eq!(after(Orientation::Rotate270, &stored[..length]).len(), length);
            }
        }
    }

    #[test]
    fn what_a_format_has_no_place_for_is_lost() {
        let words = |metadata: &Metadata, format| Vec::from_iter(metadata.lost_in(format));
        let mut metadata =
            Metadata { exif: Some(vec![1]), resolution: Resolution::new(300.0, 300.0), ..Metadata::default() };
        assert!(words(&metadata, Format::Png).is_empty() && words(&metadata, Format::Jpeg).is_empty());
        assert_eq!(words(&metadata, Format::Tiff), ["EXIF"]);
        assert_eq!(words(&metadata, Format::WebP), ["the resolution"]);
        metadata.exif = Some(vec![1; 70_000]);
        assert_eq!(words(&metadata, Format::Jpeg), ["EXIF"]);
        metadata = Metadata::default();
        metadata.png_colour.push((*b"gAMA", 45_455_u32.to_be_bytes().to_vec()));
        assert!(words(&metadata, Format::Jpeg).is_empty());
        metadata.png_colour[0].1 = 100_000_u32.to_be_bytes().to_vec();
        assert_eq!(words(&metadata, Format::Jpeg), ["PNG's gamma and primaries"]);
        assert!(words(&metadata, Format::Png).is_empty());
    }
}
