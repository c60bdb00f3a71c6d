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

/// One line of the table: name, extensions, types, channels.
struct Row(Format, &'static str, &'static [&'static str], &'static [PixelType], &'static [usize]);

const TABLE: [Row; 12] = [
    Row(Format::Png, "PNG", &["png"], &[U8, U16], &[1, 2, 3, 4]),
    Row(Format::Jpeg, "JPEG", &["jpg", "jpeg"], &[U8], &[1, 3]),
    Row(Format::Tiff, "TIFF", &["tif", "tiff"], &[U8, U16, F32], &[1, 2, 3, 4]),
    Row(Format::Bmp, "BMP", &["bmp"], &[U8], &[1, 3, 4]),
    Row(Format::Pgm, "PGM", &["pgm"], &[U8, U16], &[1]),
    Row(Format::Ppm, "PPM", &["ppm"], &[U8, U16], &[3]),
    Row(Format::Pnm, "PNM", &["pnm"], &[U8, U16], &[1, 3]),
    Row(Format::Pam, "PAM", &["pam"], &[U8, U16], &[1, 2, 3, 4]),
    Row(Format::WebP, "WebP", &["webp"], &[U8], &[1, 2, 3, 4]),
    Row(Format::Qoi, "QOI", &["qoi"], &[U8], &[3, 4]),
    Row(Format::Exr, "OpenEXR", &["exr"], &[F32], &[3, 4]),
    Row(Format::Npy, "NumPy's .npy", &["npy"], &[U8, U16, F32], &[1, 2, 3, 4]),
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
        let Row(_, _, _, types, counts) = self.row();
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
        let Row(_, _, _, types, _) = self.row();
        if types.contains(&pixel) { Ok(()) } else { Err(self.unsupported(path, pixel.name().to_owned())) }
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
        let Row(_, format, _, types, counts) = self.row();
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
    fn an_unknown_extension_lists_the_known_ones() {
        let message = Format::of("out.xyz").unwrap_err().to_string();
        assert!(message.starts_with("out.xyz: has .xyz") && message.contains(".png, .jpg"), "{message}");
        assert!(Format::of("png").unwrap_err().to_string().contains("has no extension"));
    }
}
