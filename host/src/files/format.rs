//! The formats that can be written, and what each holds.

use std::path::Path;

use crate::{Error, Result};
use faltung::PixelType;

use PixelType::{F32, U8, U16};

/// A file format for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Portable Network Graphics.
    Png,
    /// JPEG, with loss.
    Jpeg,
    /// TIFF, uncompressed.
    Tiff,
    /// Windows' bitmaps.
    Bmp,
    /// Netpbm's grey maps.
    Pgm,
    /// Netpbm's RGB maps.
    Ppm,
    /// Either of the two, by the number of channels.
    Pnm,
    /// Netpbm's maps of any channels.
    Pam,
    /// WebP, without loss.
    WebP,
    /// The Quite OK Image format.
    Qoi,
    /// OpenEXR.
    Exr,
    /// NumPy's arrays.
    Npy,
}

/// One line of the table: name, extensions, types, channels, the largest side.
struct Row(Format, &'static str, &'static [&'static str], &'static [PixelType], &'static [usize], usize);

/// The format has 16 bits for a side, but libjpeg, through which most programs read it, takes no more than this
/// (`JPEG_MAX_DIMENSION`).
const JPEG_SIDE: usize = 65_500;

/// The format has 14 bits for a side less one, but decoders take no more than this (`WEBP_MAX_DIMENSION` of libwebp).
const WEBP_SIDE: usize = 16_383;

/// The limit of the other formats: more than any picture of this program has.
const ANY_SIDE: usize = 1 << 30;

const TABLE: [Row; 12] = [
    Row(Format::Png, "PNG", &["png"], &[U8, U16], &[1, 2, 3, 4], ANY_SIDE),
    Row(Format::Jpeg, "JPEG", &["jpg", "jpeg"], &[U8], &[1, 3], JPEG_SIDE),
    Row(Format::Tiff, "TIFF", &["tif", "tiff"], &[U8, U16, F32], &[1, 2, 3, 4], ANY_SIDE),
    Row(Format::Bmp, "BMP", &["bmp"], &[U8], &[1, 3, 4], ANY_SIDE),
    Row(Format::Pgm, "PGM", &["pgm"], &[U8, U16], &[1], ANY_SIDE),
    Row(Format::Ppm, "PPM", &["ppm"], &[U8, U16], &[3], ANY_SIDE),
    Row(Format::Pnm, "PNM", &["pnm"], &[U8, U16], &[1, 3], ANY_SIDE),
    Row(Format::Pam, "PAM", &["pam"], &[U8, U16], &[1, 2, 3, 4], ANY_SIDE),
    Row(Format::WebP, "WebP", &["webp"], &[U8], &[1, 2, 3, 4], WEBP_SIDE),
    Row(Format::Qoi, "QOI", &["qoi"], &[U8], &[3, 4], ANY_SIDE),
    Row(Format::Exr, "OpenEXR", &["exr"], &[F32], &[3, 4], ANY_SIDE),
    Row(Format::Npy, "NumPy's .npy", &["npy"], &[U8, U16, F32], &[1, 2, 3, 4], ANY_SIDE),
];

/// The extension of the one format that is read and not written: its pixels have one bit.
pub(super) const READ_ONLY: &str = "pbm";

impl Format {
    /// The extensions of all formats that can be read, for messages and help.
    #[must_use]
    pub fn readable() -> String {
        let written = TABLE.iter().flat_map(|row| row.2).copied();
        let all: Vec<_> = written.chain([READ_ONLY]).map(|extension| format!(".{extension}")).collect();
        listed(&all, "or")
    }

    /// The extensions of all formats that can be written, for messages and help.
    #[must_use]
    pub fn extensions() -> String {
        let all: Vec<_> = TABLE.iter().flat_map(|row| row.2).map(|extension| format!(".{extension}")).collect();
        listed(&all, "or")
    }

    /// The format that a path's extension names, in capitals or not.
    ///
    /// ```
    /// use host::files::Format;
    ///
    /// assert_eq!(Format::of("a/b.TIF")?, Format::Tiff);
    /// assert!(Format::of("a/b.gif").is_err());
    /// # Ok::<(), host::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] with the extensions that there are.
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let row = TABLE.iter().find(|row| row.2.contains(&extension.as_str()));
        row.map(|row| row.0).ok_or_else(|| {
            let found = if extension.is_empty() { "has no extension".into() } else { format!("has .{extension}") };
            let reason = format!("{found}: an extension that names a format is needed: {}", Self::extensions());
            Error::File { path: path.into(), reason }
        })
    }

    /// Whether the format holds values of this type in this number of channels; `path` is for the message.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if not.
    pub fn check(self, path: &Path, pixel: PixelType, channels: usize) -> Result<()> {
        let Row(_, _, _, types, counts, _) = self.row();
        if types.contains(&pixel) && counts.contains(&channels) {
            return Ok(());
        }
        Err(self.unsupported(path, format!("{} in {channels}", pixel.name())))
    }

    /// Whether the format holds values of this type in any number of channels; otherwise as [`check`](Self::check).
    ///
    /// # Errors
    /// [`Error::Unsupported`] if not.
    pub fn check_type(self, path: &Path, pixel: PixelType) -> Result<()> {
        let Row(_, _, _, types, _, _) = self.row();
        if types.contains(&pixel) { Ok(()) } else { Err(self.unsupported(path, pixel.name().to_owned())) }
    }

    /// Whether the format holds pictures of this width and height; `path` is for the message.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if not.
    pub fn check_sides(self, path: &Path, width: usize, height: usize) -> Result<()> {
        let Row(_, format, _, _, _, most) = self.row();
        if width.max(height) <= *most {
            return Ok(());
        }
        let holds = format!("at most {most} columns and rows");
        Err(Error::Unsupported { path: path.into(), format, holds, found: format!("{width} x {height}") })
    }

    /// The name in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether the format holds so many channels, of some type.
    #[must_use]
    pub fn holds_channels(self, channels: usize) -> bool {
        self.row().4.contains(&channels)
    }

    /// Whether colours are never multiplied by alpha in this format. TIFF says which they are, those of OpenEXR always
    /// are, and `.npy` has no alpha.
    #[must_use]
    pub fn has_straight_alpha(self) -> bool {
        !matches!(self, Self::Tiff | Self::Exr | Self::Npy)
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.0 == self).expect("the table has all formats")
    }

    fn unsupported(self, path: &Path, found: String) -> Error {
        let Row(_, format, _, types, counts, _) = self.row();
        let types: Vec<_> = types.iter().map(|pixel| pixel.name()).collect();
        let counts: Vec<_> = counts.iter().map(ToString::to_string).collect();
        let plural = if counts.as_slice() == ["1"] { "" } else { "s" };
        let holds = format!("{} in {} channel{plural}", listed(&types, "or"), listed(&counts, "or"));
        Error::Unsupported { path: path.into(), format, holds, found }
    }
}

/// `a, b or c`.
fn listed<S: AsRef<str>>(words: &[S], last: &str) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, rest)) => format!("{} {last} {end}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said() {
        let error = Format::Png.check(Path::new("a.png"), F32, 1).unwrap_err();
        assert_eq!(error.to_string(), "a.png: PNG holds u8 or u16 in 1, 2, 3 or 4 channels, not f32 in 1");
        let error = Format::Pgm.check(Path::new("a.pgm"), U8, 3).unwrap_err();
        assert_eq!(error.to_string(), "a.pgm: PGM holds u8 or u16 in 1 channel, not u8 in 3");
        assert!(Format::Exr.check(Path::new("a.exr"), F32, 4).is_ok());
        let error = Format::Jpeg.check_type(Path::new("a.jpg"), U16).unwrap_err();
        assert_eq!(error.to_string(), "a.jpg: JPEG holds u8 in 1 or 3 channels, not u16");
    }

    #[test]
    fn sides_have_a_limit() {
        let path = Path::new("a.webp");
        assert!(Format::WebP.check_sides(path, 16_383, 16_383).is_ok());
        let error = Format::WebP.check_sides(path, 1, 16_384).unwrap_err();
        assert_eq!(error.to_string(), "a.webp: WebP holds at most 16383 columns and rows, not 1 x 16384");
        assert!(
            Format::Jpeg.check_sides(path, 65_500, 1).is_ok() && Format::Jpeg.check_sides(path, 65_501, 1).is_err()
        );
    }

    #[test]
    fn an_unknown_extension_lists_the_known_ones() {
        let message = Format::of("out.xyz").unwrap_err().to_string();
        assert!(message.starts_with("out.xyz: has .xyz") && message.contains(".png, .jpg"), "{message}");
        assert!(Format::of("png").unwrap_err().to_string().contains("has no extension"));
    }
}
