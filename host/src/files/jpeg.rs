//! JPEG, ITU T.81, annex B: the segments, except the values. `jpeg_write` writes them.

use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, Seek, SeekFrom};

use image::ImageFormat;

use super::decode::{Scan, coded_data_fits};
use super::limits;
use super::metadata::Resolution;

/// What EXIF data in a segment begin with.
pub(super) const EXIF: &[u8] = b"Exif\0\0";
/// Bytes of EXIF data that a segment has room for.
pub(super) const MOST_EXIF: usize = 65_533 - EXIF.len();

/// The frame header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) components: u8,
    /// Whether the decoder keeps the coefficients of the whole picture.
    pub(super) progressive: bool,
    /// The columns and rows of an MCU.
    unit: (u16, u16),
    sampling: Option<(u8, u8)>,
}

impl Frame {
    /// Bytes of memory that reading takes. Coefficients fill whole blocks, of up to 32 x 32 pixels, which a narrow
    /// picture has many of.
    pub(super) fn memory(self) -> u64 {
        let area = |block: u16| {
            let side = |side: u16| u64::from(side).next_multiple_of(block.into());
            side(self.width) * side(self.height)
        };
        let padding = (area(32) - area(1)) * u64::from(self.components) * 4;
        limits::peak(limits::multiple(ImageFormat::Jpeg, self.progressive), self.bytes()).saturating_add(padding)
    }

    /// The fewest bits of coded data: a code for each block of up to 32 x 32 pixels.
    fn fewest_bits(self) -> u64 {
        let blocks = |side: u16| u64::from(side.div_ceil(32));
        blocks(self.width) * blocks(self.height)
    }

    /// The MCUs of a scan of all components.
    fn units(self) -> u32 {
        u32::from(self.width.div_ceil(self.unit.0)) * u32::from(self.height.div_ceil(self.unit.1))
    }

    /// Bytes of the decoded values: grey, or RGB.
    pub(super) fn bytes(self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * if self.components == 1 { 1 } else { 3 }
    }
}

/// The reason why a file without [`END`] is refused.
pub(super) const NO_END: &str = "is cut off: a JPEG without its end";
/// The end of a file.
const END: &[u8] = &[0xFF, 0xD9];
/// What the decoder gets instead of [`END`] behind a sequential scan without restart intervals: 8 bytes, more than it
/// reads ahead, then a table of a wrong length ([`WRONG_TABLE`]). The decoder reaches the table only if MCUs are missing.
const TRAP: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xC4, 0, 0, 0xFF, 0xD9];
/// What the decoder says of the table in [`TRAP`].
const WRONG_TABLE: &str = "Invalid Huffman length";
/// The reason why a file without its last MCUs is refused.
const CUT_OFF: &str = "is cut off: its coded data end before the last pixel";

/// Why a file is refused whose values gave this error, if the reason is the trap.
pub(super) fn cut_off(error: &str) -> Option<String> {
    error.contains(WRONG_TABLE).then(|| CUT_OFF.to_owned())
}

/// Reads all segments, so that a truncated file is an error. Decoders would return the rest in grey without an error.
/// The decoder sees no metadata, and nothing after the end.
pub(super) fn scan(reader: &mut (impl BufRead + Seek)) -> Result<(Scan, Frame), String> {
    reader.seek(SeekFrom::Start(0)).map_err(|error| error.to_string())?;
    let mut walk = Walk::new(reader);
    match walk.walk_to_the_end() {
        Err(Stop::Io(error)) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(NO_END.into());
        }
        Err(Stop::Io(error)) => return Err(error.to_string()),
        Err(Stop::Refused(reason)) => return Err(reason),
        Ok(()) => {}
    }
    let Walk { mut scan, frame, profile, scans, restart_interval, restarts, .. } = walk;
    let frame =
        frame.filter(|frame| frame.unit.0 > 0).ok_or("is damaged, or no such picture: a JPEG without a frame")?;
    scan.metadata.jpeg_sampling = frame.sampling;
    scan.metadata.icc_profile = whole_profile(&profile);
    coded_data_fits(scan.kept.len(), frame.bytes())?;
    if scan.kept.len().saturating_mul(8) < frame.fewest_bits() {
        let (bytes, Frame { width, height, .. }) = (scan.kept.len(), frame);
        return Err(format!("is cut off: its {bytes} bytes can't hold {width} x {height} pixels"));
    }
    // Of several scans, each may leave out what another one has.
    let has_all_in_one_scan = scans == 1 && !frame.progressive;
    scan.kept.tail = if has_all_in_one_scan && restart_interval == 0 { TRAP } else { END };
    if has_all_in_one_scan && restart_interval > 0 && restarts + 1 < frame.units().div_ceil(restart_interval.into()) {
        return Err(CUT_OFF.into());
    }
    Ok((scan, frame))
}

/// The frame of a JPEG within another file, and whether the JPEG is cut off.
pub(super) fn frame(reader: &mut impl BufRead) -> (Option<Frame>, bool) {
    let mut walk = Walk::new(reader);
    // The decoder checks what else comes after the frame.
    let is_cut_off = matches!(walk.walk_to_the_end(), Err(Stop::Io(_)));
    (walk.frame, is_cut_off)
}

/// The frame of a file, and the bytes of the metadata before it.
pub(super) fn beginning(reader: &mut impl BufRead) -> Option<(Frame, u64)> {
    let mut walk = Walk::new(reader);
    walk.stops_at_frame = true;
    let _ = walk.walk_to_the_end();
    walk.frame.map(|frame| (frame, walk.at))
}

/// The pieces of a profile, by their numbers from 1 on, each with how many there are.
type Pieces = BTreeMap<u8, (u8, Vec<u8>)>;

fn whole_profile(pieces: &Pieces) -> Option<Vec<u8>> {
    let (_, (count, _)) = pieces.first_key_value()?;
    let whole = (1..=*count).map(|number| pieces.get(&number)).collect::<Option<Vec<_>>>()?;
    Some(whole.into_iter().flat_map(|(_, bytes)| bytes).copied().collect())
}

/// Why the walk over the segments ends early.
enum Stop {
    Io(std::io::Error),
    Refused(String),
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

struct Walk<'a, R> {
    reader: &'a mut R,
    at: u64,
    scan: Scan,
    frame: Option<Frame>,
    profile: Pieces,
    scans: u32,
    /// The MCUs between two restart markers, 0 without any.
    restart_interval: u16,
    restarts: u32,
    stops_at_frame: bool,
}

impl<'a, R: BufRead> Walk<'a, R> {
    fn new(reader: &'a mut R) -> Self {
        let (scan, profile) = (Scan::default(), Pieces::new());
        let (scans, restart_interval, restarts) = Default::default();
        Self { reader, at: 0, scan, frame: None, profile, scans, restart_interval, restarts, stops_at_frame: false }
    }

    fn walk_to_the_end(&mut self) -> Result<(), Stop> {
        let mut kept_to = self.at;
        loop {
            let marker = self.next_marker()?;
            match marker {
                // The end of the image.
                0xD9 => {
                    self.scan.kept.add(kept_to..self.at - END.len() as u64)?;
                    return Ok(());
                }
                // Nothing follows the start of the image and 0x01; 0 and the restart markers stand within coded data.
                0 | 0x01 | 0xD8 => {}
                0xD0..=0xD7 => self.restarts += 1,
                0xDD => {
                    if let [high, low, ..] = self.segment()?[..] {
                        self.restart_interval = u16::from_be_bytes([high, low]);
                    }
                }
                // Data of applications, and comments. A decoder needs Adobe's (14), which says what the components are.
                0xE0..=0xED | 0xEF | 0xFE => {
                    let start = self.at - 2;
                    let segment = self.segment()?;
                    if !self.take_metadata(marker, segment) {
                        self.scan.kept.add(kept_to..start)?;
                        kept_to = self.at;
                    }
                }
                0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                    let segment = self.segment()?;
                    check_kind(marker, &segment)?;
                    if self.frame.replace(read_frame(marker, &segment)).is_some() {
                        return Err(Stop::Refused("has several frames, as no ordinary JPEG has".into()));
                    }
                    if self.stops_at_frame {
                        return Ok(());
                    }
                }
                // A segment; after that of a scan, its coded data.
                _ => {
                    self.scans += u32::from(marker == 0xDA);
                    self.segment()?;
                }
            }
        }
    }

    /// The byte after the next run of 0xFF.
    fn next_marker(&mut self) -> Result<u8, Stop> {
        self.at += self.reader.skip_until(0xFF)? as u64;
        loop {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            self.at += 1;
            if byte[0] != 0xFF {
                return Ok(byte[0]);
            }
        }
    }

    /// What follows the length of a segment.
    fn segment(&mut self) -> Result<Vec<u8>, Stop> {
        let mut length = [0; 2];
        self.reader.read_exact(&mut length)?;
        let length = usize::from(u16::from_be_bytes(length)).saturating_sub(2);
        let mut segment = vec![0; length];
        self.reader.read_exact(&mut segment)?;
        self.at += 2 + length as u64;
        Ok(segment)
    }

    /// Keeps what a segment says. Whether the decoder needs the segment, too.
    fn take_metadata(&mut self, marker: u8, mut segment: Vec<u8>) -> bool {
        let metadata = &mut self.scan.metadata;
        let starts = |with: &[u8]| segment.starts_with(with);
        let dropped = match marker {
            0xE0 if starts(b"JFIF\0") => {
                metadata.resolution = metadata.resolution.or_else(|| density(&segment[5..]));
                return true;
            }
            0xE1 if starts(EXIF) => {
                if metadata.exif.is_none() {
                    self.scan.orientation = metadata.set_exif(segment.split_off(EXIF.len()));
                }
                return false;
            }
            0xE1 if starts(b"http://ns.adobe.com/") => "XMP",
            0xE2 if starts(b"ICC_PROFILE\0") && segment.len() > 14 => {
                let (number, count) = (segment[12], segment[13]);
                self.profile.entry(number).or_insert_with(|| (count, segment.split_off(14)));
                return false;
            }
            0xED => "IPTC",
            0xFE => "comments",
            // An extension of JFIF: a thumbnail.
            0xE0 => return false,
            _ => "other data of cameras and programs",
        };
        metadata.dropped.insert(dropped);
        false
    }
}

/// Fails for a frame that the decoder does not know.
fn check_kind(marker: u8, segment: &[u8]) -> Result<(), String> {
    let coding = match marker {
        0xC3 | 0xC7 | 0xCB | 0xCF => "without loss",
        0xC5 | 0xC6 | 0xCD | 0xCE => "in a hierarchy",
        0xC9 | 0xCA => "arithmetically",
        _ => "",
    };
    match segment.first() {
        _ if !coding.is_empty() => Err(format!("is a JPEG coded {coding}, which is not read")),
        Some(&bits) if bits != 8 => Err(format!("is a JPEG with values of {bits} bits; those of 8 bits are read")),
        _ => Ok(()),
    }
}

/// A frame header: precision, rows, columns, and three bytes for each component.
fn read_frame(marker: u8, segment: &[u8]) -> Frame {
    let [_, h0, h1, w0, w1, components, ref rest @ ..] = *segment else { return Frame::default() };
    let factors = |component: &[u8]| (component[1] >> 4, component[1] & 15);
    let factors: Vec<_> = rest.chunks_exact(3).map(factors).collect();
    let most = |factor: fn(&(u8, u8)) -> u8| factors.iter().map(factor).max().filter(|_| components > 1).unwrap_or(1);
    let unit = (8 * u16::from(most(|both| both.0).max(1)), 8 * u16::from(most(|both| both.1).max(1)));
    let sampling = match factors[..] {
        [(h, v), second, third] if second == third && second.0 > 0 && second.1 > 0 => {
            (h % second.0 == 0 && v % second.1 == 0).then(|| (h / second.0, v / second.1))
        }
        _ => None,
    };
    Frame {
        width: u16::from_be_bytes([w0, w1]),
        height: u16::from_be_bytes([h0, h1]),
        components,
        progressive: marker != 0xC0 && marker != 0xC1,
        unit,
        sampling,
    }
}

/// Version, unit, and columns and rows for each unit.
fn density(jfif: &[u8]) -> Option<Resolution> {
    let [_, _, unit, x0, x1, y0, y1, ..] = *jfif else { return None };
    let factor = match unit {
        1 => 1.0,
        2 => 2.54,
        _ => return None,
    };
    let inch = |bytes| f64::from(u16::from_be_bytes(bytes)) * factor;
    Resolution::new(inch([x0, x1]), inch([y0, y1]))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    const FILE: &[u8] = &[
        0xFF, 0xD8, // start
        0xFF, 0xE1, 0, 6, 1, 0xFF, 0xD9, 2, // a segment with an end marker within, as of a thumbnail
        0xFF, 0xC0, 0, 17, 8, 0, 9, 0, 7, 3, 1, 0x21, 0, 2, 0x11, 0, 3, 0x11, 0, // 7 columns, 9 rows, 4:2:2
        0xFF, 0xDA, 0, 3, 9, 1, 2, 0xFF, 0, 3, 0xFF, 0xD3, 4, // a scan with a stuffed 0xFF and a restart
        0xFF, 0xC4, 0, 4, 7, 7, 0xFF, 0xDA, 0, 2, 5, 6, // tables, and a second scan
        0xFF, 0xFF, 0xD9, // fill byte, end
        8, 8, // what cameras append
    ];

    #[test]
    fn only_the_whole_file_is_complete() {
        for length in 0..=FILE.len() {
            let found = scan(&mut Cursor::new(&FILE[..length]));
            assert_eq!(found.is_ok(), length >= FILE.len() - 2, "{length}");
        }
    }

    #[test]
    fn the_decoder_sees_no_metadata() {
        let (scan, frame) = scan(&mut Cursor::new(FILE)).unwrap();
        let mut seen = Vec::new();
        super::super::parts::Parts::new(Cursor::new(FILE), scan.kept).unwrap().read_to_end(&mut seen).unwrap();
        assert_eq!(seen, [&FILE[..2], &FILE[10..FILE.len() - 2]].concat());
        assert_eq!((frame.width, frame.height, frame.sampling), (7, 9, Some((2, 1))));
    }
}
