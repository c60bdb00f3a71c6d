//! Writing of JPEG through crate `jpeg_encoder`, in bands on all threads.

use std::io::Write;

use jpeg_encoder::{ColorType, Density, Encoder, JfifWrite, SamplingFactor};
use rayon::prelude::*;

use super::jpeg::{EXIF, MOST_EXIF};
use super::metadata::Resolution;
use super::{AnyImage, Metadata, Picture, WriteOptions};

/// The quality of what is written, of 100, where none is asked for.
pub const JPEG_QUALITY: u8 = 95;

/// Writes a picture. Its colours are sampled as those of the JPEG that it was read from, else each pixel has its own.
///
/// A large picture is encoded in bands of rows, on all threads. Each band but the last ends with a restart marker. The
/// bytes do not depend on the number of threads.
pub(super) fn write(mut writer: impl Write, picture: &Picture, options: WriteOptions) -> Result<(), String> {
    let AnyImage::U8(image) = &picture.pixels else {
        unreachable!("JPEG holds u8 alone, which Format::check says");
    };
    let (columns, rows, channels) = (image.width(), image.height(), image.channels());
    let (Ok(width), Ok(height)) = (u16::try_from(columns), u16::try_from(rows)) else {
        unreachable!("a side of a JPEG has 16 bits, which Format::check_sides says");
    };
    let metadata = &picture.metadata;
    let colour = if channels == 1 { ColorType::Luma } else { ColorType::Rgb };
    let (sampling, (h, v)) = metadata
        .jpeg_sampling
        .filter(|_| channels > 1)
        .and_then(|(h, v)| Some((SamplingFactor::from_factors(h, v)?, (h, v))))
        .unwrap_or((SamplingFactor::F_1_1, (1, 1)));
    // The encoder writes a scan for each component if a factor is above 2. A band has one scan.
    let bands = if h.max(v) > 2 { None } else { Bands::of(columns, rows, 8 * usize::from(h), 8 * usize::from(v)) };
    let quality = options.quality.unwrap_or(JPEG_QUALITY);
    let encode = |rows: &[u8], is_first: bool| -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, quality);
        encoder.set_sampling_factor(sampling);
        encoder.set_restart_interval(bands.map_or(0, |bands| bands.units));
        if is_first {
            describe(&mut encoder, metadata)?;
        }
        let height = rows.len() / (columns * channels);
        // No higher than the picture.
        encoder.encode(rows, width, height as u16, colour).map_err(|error| error.to_string())?;
        Ok(bytes)
    };
    let mut put = |bytes: &[u8]| writer.write_all(bytes).map_err(|error| error.to_string());
    let Some(Bands { rows, .. }) = bands else { return put(&encode(image.values(), true)?) };

    let bands: Vec<&[u8]> = image.values().chunks(rows * columns * channels).collect();
    // Few bands at a time, because their coded data are in memory.
    let few = 8 * rayon::current_num_threads();
    for (group, bands) in bands.chunks(few).enumerate() {
        let first = group * few;
        let coded = bands.par_iter().enumerate().map(|(number, rows)| encode(rows, first + number == 0));
        for (number, mut coded) in (first..).zip(coded.collect::<Result<Vec<_>, _>>()?) {
            let Places { height: at, data, end } = Places::of(&coded);
            if number == 0 {
                coded[at..at + 2].copy_from_slice(&height.to_be_bytes());
                put(&coded[..end])?;
            } else {
                put(&[0xFF, 0xD0 + (number - 1) as u8 % 8])?;
                put(&coded[data..end])?;
            }
        }
    }
    put(&[0xFF, 0xD9])
}

/// Gives the encoder the metadata that it writes.
fn describe(encoder: &mut Encoder<impl JfifWrite>, metadata: &Metadata) -> Result<(), String> {
    if let Some(Resolution { x, y }) = metadata.resolution {
        // A cast of f64 saturates.
        encoder.set_density(Density::Inch { x: (x.round() as u16).max(1), y: (y.round() as u16).max(1) });
    }
    if let Some(exif) = metadata.exif.as_ref().filter(|exif| exif.len() <= MOST_EXIF) {
        encoder.add_app_segment(1, &[EXIF, exif].concat()).map_err(|error| error.to_string())?;
    }
    if let Some(profile) = &metadata.icc_profile {
        let too_long = |_| format!("JPEG has no room for a colour profile of {} bytes", profile.len());
        encoder.add_icc_profile(profile).map_err(too_long)?;
    }
    Ok(())
}

/// The bands of a picture. Each thread encodes one at a time.
#[derive(Clone, Copy)]
struct Bands {
    /// The rows of each but the last.
    rows: usize,
    /// The minimum coded units (MCUs) in that many rows, which is the restart interval.
    units: u16,
}

impl Bands {
    /// The bands of a picture whose MCUs have this many columns and rows. None if one band holds the whole picture.
    fn of(columns: usize, rows: usize, unit_columns: usize, unit_rows: usize) -> Option<Self> {
        /// Pixels of a band, at least: some milliseconds of work.
        const PIXELS: usize = 1 << 18;
        let unit_rows_of_band = PIXELS.div_ceil(columns * unit_rows);
        let units = u16::try_from(unit_rows_of_band * columns.div_ceil(unit_columns)).ok()?;
        let band = Self { rows: unit_rows_of_band * unit_rows, units };
        (band.rows < rows).then_some(band)
    }
}

/// Where the parts of a JPEG with one scan are.
struct Places {
    /// The two bytes of the height.
    height: usize,
    /// The coded data.
    data: usize,
    /// The marker of the end.
    end: usize,
}

impl Places {
    /// The places in bytes that the encoder wrote.
    fn of(bytes: &[u8]) -> Self {
        // The first segment follows the marker of the start.
        let (mut height, mut at) = (0, 2);
        loop {
            let [_, marker, high, low] = *bytes[at..].first_chunk().expect("the encoder writes whole segments");
            if marker == 0xC0 {
                // After the marker, the length and the precision.
                height = at + 5;
            }
            at += 2 + usize::from(u16::from_be_bytes([high, low]));
            if marker == 0xDA {
                return Self { height, data: at, end: bytes.len() - 2 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::super::jpeg::scan;
    use super::*;

    /// A band starts anew, and the pixels are those of a picture that is encoded in one.
    #[test]
    fn bands_change_no_pixel() {
        let mut random = fastrand::Rng::with_seed(7);
        let (width, height) = (601, 1403);
        for (channels, sampling) in [(3, (1, 1)), (3, (2, 1)), (3, (1, 2)), (3, (2, 2)), (3, (4, 1)), (1, (2, 2))] {
            let values = (0..width * height * channels).map(|i| (i / 997 + random.usize(..40)) as u8).collect();
            let image = faltung::Image::new(width, height, channels, values).unwrap();
            let mut picture = Picture::from(image.clone());
            picture.metadata.jpeg_sampling = Some(sampling);
            picture.metadata.resolution = Resolution::new(300.0, 200.0);
            let (mut banded, mut whole) = (Vec::new(), Vec::new());
            write(&mut banded, &picture, WriteOptions { quality: Some(90) }).unwrap();
            let mut encoder = Encoder::new(&mut whole, 90);
            encoder.set_sampling_factor(SamplingFactor::from_factors(sampling.0, sampling.1).unwrap());
            encoder.set_density(Density::Inch { x: 300, y: 200 });
            let colour = if channels == 1 { ColorType::Luma } else { ColorType::Rgb };
            encoder.encode(image.values(), width as u16, height as u16, colour).unwrap();
            let restarts = banded.windows(2).filter(|pair| pair[0] == 0xFF && (0xD0..0xD8).contains(&pair[1])).count();
            assert_eq!(restarts, if sampling.0 == 4 { 0 } else { 3 }, "{sampling:?}");
            let decoded = |bytes: &[u8]| image::load_from_memory(bytes).unwrap();
            assert_eq!(decoded(&banded), decoded(&whole), "{channels} {sampling:?}");
            let (found, frame) = scan(&mut Cursor::new(&banded)).unwrap();
            assert_eq!((usize::from(frame.width), usize::from(frame.height)), (width, height));
            assert_eq!(found.metadata.resolution, picture.metadata.resolution);
        }
    }
}
