//! Masks as people write them: text files and ImageMagick's kernels.

use super::Mask;
use crate::{Error, Filter, Result};

/// A mask as it was written down, with what the notation says about the filter beside the coefficients.
///
/// ```
/// use faltung::WrittenMask;
///
/// let blur = WrittenMask::from_text("3 1 4 0\n1 2 1\n")?; // libvips: width, height, scale, offset
/// assert_eq!(blur.mask.coefficients(), [1.0, 2.0, 1.0]);
/// assert_eq!(blur.scale, Some(0.25)); // libvips divides by the scale
///
/// let shift = WrittenMask::from_kernel("3x1+0+0: 0, 0, 1")?; // ImageMagick
/// assert_eq!(shift.anchor, Some((0, 0)));
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenMask {
    /// The coefficients.
    pub mask: Mask,
    /// Row and column of the anchor, if given.
    pub anchor: Option<(usize, usize)>,
    /// The factor of the sums, if given.
    pub scale: Option<f32>,
    /// What is added to the scaled sums, if given.
    pub offset: Option<f32>,
}

impl From<Mask> for WrittenMask {
    fn from(mask: Mask) -> Self {
        Self { mask, anchor: None, scale: None, offset: None }
    }
}

impl From<WrittenMask> for Filter {
    fn from(written: WrittenMask) -> Self {
        let filter = Self::new(written.mask);
        let filter = written.anchor.into_iter().fold(filter, |filter, (row, column)| filter.anchor(row, column));
        let filter = written.scale.into_iter().fold(filter, Self::scale);
        written.offset.into_iter().fold(filter, Self::offset)
    }
}

/// What may stand between the numbers of a text file: what libvips and spreadsheets write.
const SEPARATORS: [char; 5] = [' ', '\t', ',', ';', '"'];

impl WrittenMask {
    /// A mask from a text: one row of coefficients a line, separated by spaces, tabs, commas, semicolons or quotation
    /// marks. Empty lines and what follows a `#` are skipped.
    ///
    /// A first line of two or four numbers `W H [scale offset]`, followed by exactly H rows of W coefficients, is the
    /// header of a libvips matrix: sums are divided by the scale, then the offset is added. (libvips walks such a mask
    /// as a correlation does.)
    ///
    /// # Errors
    /// [`Error::Parse`] with row and column for a text that is no number, [`Error::RaggedMask`], [`Error::EmptyMask`];
    /// [`Error::Number`] for a scale of 0.
    pub fn from_text(text: &str) -> Result<Self> {
        let mut rows = Vec::<Vec<f32>>::new();
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).lines() {
            let line = line.split('#').next().unwrap_or_default();
            let words = || line.split(SEPARATORS).map(str::trim).filter(|word| !word.is_empty());
            let row = rows.len() + 1;
            if may_have_decimal_commas(line) {
                let required = format!("one kind of separator in row {row}, and points in numbers,");
                return Err(Error::Parse { what: "mask", required, found: line.trim().into() });
            }
            let numbers = words()
                .enumerate()
                .map(|(column, word)| coefficient(word, row, column + 1))
                .collect::<Result<Vec<_>>>()?;
            if !numbers.is_empty() {
                rows.push(numbers);
            }
        }
        let Some((first, rest)) = rows.split_first() else {
            return Err(Error::EmptyMask { width: 0, height: 0 });
        };
        if let Some((width, height)) = header(first) {
            if rest.len() == height && rest.iter().all(|row| row.len() == width) {
                return Self::with_header(first, rest);
            }
            // Not rows of the first one's length either: it was meant as a header.
            if rest.iter().any(|row| row.len() != first.len()) {
                return Err(Error::Parse {
                    what: "mask",
                    required: format!("a table of {height} rows of {width} after the header \"{width} {height}\""),
                    found: describe(rest),
                });
            }
        }
        Ok(plain(&rows)?.into())
    }

    /// The mask whose first line is a libvips header that fits the rows.
    fn with_header(first: &[f32], rows: &[Vec<f32>]) -> Result<Self> {
        let mut written = Self::from(plain(rows)?);
        if let [_, _, scale, offset] = *first {
            if scale == 0.0 || !scale.is_finite() {
                let (what, required) = ("the scale in the first line of a mask", "finite and not 0");
                return Err(Error::Number { what, required, found: scale.to_string() });
            }
            written.scale = Some((1.0 / f64::from(scale)) as f32);
            written.offset = Some(offset);
        }
        Ok(written)
    }

    /// A mask in ImageMagick's notation: `WxH: numbers`, `WxH+X+Y: numbers`, `W: numbers` for a square, or the numbers
    /// of an odd square alone. Numbers are separated by commas or spaces, row by row; `nan` and `-` are not part of the
    /// kernel, which for a convolution is a coefficient of 0. X and Y are column and row of the anchor; without them it
    /// is row H / 2, column W / 2, as everywhere here (ImageMagick takes (H - 1) / 2 and (W - 1) / 2).
    ///
    /// ```
    /// let edges = faltung::WrittenMask::from_kernel("3x3: 0,-1,0 -1,5,-1 0,-1,0")?;
    /// assert_eq!(edges.mask, faltung::Mask::sharpen(1.0)?);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Parse`] if it can't be read so; [`Error::Length`] for too few or too many numbers; those of
    /// [`Mask::new`].
    pub fn from_kernel(text: &str) -> Result<Self> {
        let malformed = |required: &str, found: &str| Error::Parse {
            what: "kernel",
            required: required.into(),
            found: found.trim().into(),
        };
        if text.contains(';') {
            return Err(malformed("one kernel, without \";\",", text));
        }
        let (head, numbers) = match text.split_once(':') {
            Some((head, numbers)) => (Some(head.trim()), numbers),
            None => (None, text),
        };
        let words = numbers.split_whitespace().flat_map(|group| group.strip_suffix(',').unwrap_or(group).split(','));
        let mut coefficients = Vec::new();
        for word in words {
            coefficients.push(match word {
                "-" => 0.0,
                _ if word.eq_ignore_ascii_case("nan") => 0.0,
                _ => number(word).map_err(|number| malformed(&format!("{number}, nan or -"), word))?,
            });
        }
        let Some(head) = head else {
            let side = coefficients.len().isqrt();
            if side * side != coefficients.len() || side.is_multiple_of(2) {
                let required = "\"WxH: numbers\", or as many numbers as an odd square has,";
                return Err(malformed(required, text));
            }
            return Ok(Mask::new(side, side, coefficients)?.into());
        };
        let ((width, height), origin) =
            geometry(head).ok_or_else(|| malformed("a size \"WxH\" or \"WxH+X+Y\" before the colon", head))?;
        let mask = Mask::new(width, height, coefficients)?;
        let anchor = origin.map(|(x, y)| (y, x));
        if let Some(anchor) = anchor.filter(|&(row, column)| row >= height || column >= width) {
            return Err(Error::Anchor { anchor, mask: (height, width) });
        }
        Ok(Self { anchor, ..mask.into() })
    }
}

/// `W`, `WxH` or `WxH+X+Y`.
#[expect(clippy::type_complexity)]
fn geometry(text: &str) -> Option<((usize, usize), Option<(usize, usize)>)> {
    let mut parts = text.split('+');
    let size = parts.next()?;
    let size = match size.split_once(['x', 'X']) {
        Some((width, height)) => (width.parse().ok()?, height.parse().ok()?),
        None => (size.parse().ok()?, size.parse().ok()?),
    };
    let origin = match (parts.next(), parts.next(), parts.next()) {
        (None, ..) => None,
        (Some(x), Some(y), None) => Some((x.parse().ok()?, y.parse().ok()?)),
        _ => return None,
    };
    Some((size, origin))
}

/// Width and height, if these can be the numbers of a libvips header.
fn header(first: &[f32]) -> Option<(usize, usize)> {
    let side = |value: f32| (value >= 1.0 && value.fract() == 0.0).then_some(value as usize);
    match *first {
        [width, height] | [width, height, _, _] => Some((side(width)?, side(height)?)),
        _ => None,
    }
}

fn plain(rows: &[Vec<f32>]) -> Result<Mask> {
    let required = rows.first().map_or(0, Vec::len);
    if let Some(ragged) = rows.iter().position(|row| row.len() != required) {
        return Err(Error::RaggedMask { row: ragged + 1, required, found: rows[ragged].len() });
    }
    Mask::new(required, rows.len(), rows.concat())
}

/// Whether a line has commas within what may be numbers, and other separators, too: `1,5 2` may be two numbers or
/// three.
fn may_have_decimal_commas(line: &str) -> bool {
    let digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = line.as_bytes();
    let within = (1..bytes.len()).any(|i| bytes[i] == b',' && digit(bytes.get(i - 1)) && digit(bytes.get(i + 1)));
    within && line.split(',').any(|part| part.trim_matches([' ', '\t', '\r', '"']).contains([' ', '\t', ';']))
}

/// How many rows of how many coefficients there are.
fn describe(rows: &[Vec<f32>]) -> String {
    let (least, most) = rows.iter().fold((usize::MAX, 0), |(a, b), row| (a.min(row.len()), b.max(row.len())));
    match rows.len() {
        0 => "none".into(),
        1 => format!("1 row of {most}"),
        count if least == most => format!("{count} rows of {most}"),
        count => format!("{count} rows of {least} to {most}"),
    }
}

/// A number that fits f32; infinity and NaN only where they are written out. An error is what was expected.
pub(crate) fn number(word: &str) -> Result<f32, &'static str> {
    let value = word.parse::<f32>().map_err(|_| "a number")?;
    let written_out = word.trim_start_matches(['+', '-']).starts_with(|first: char| first.is_ascii_alphabetic());
    if value.is_finite() || written_out { Ok(value) } else { Err("a number from -3.4e38 to 3.4e38") }
}

fn coefficient(word: &str, row: usize, column: usize) -> Result<f32> {
    number(word).map_err(|number| Error::Parse {
        what: "mask",
        required: format!("{number} in row {row}, column {column}"),
        found: word.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<WrittenMask>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn plain_rows() {
        let expected = Mask::new(3, 2, vec![1.0, -2.0, 0.5, 4.0, 5e-3, 6.0]).unwrap();
        for text in [
            "1 -2 .5\n4 5e-3 6",
            "# saved\n1,-2,.5\r\n\r\n4,5e-3,6\r\n",
            "1\t-2;0.5 # a\n\"4\" 0.005, 6",
            "\u{feff}1, -2, .5\n4,0.005, 6",
        ] {
            assert_eq!(WrittenMask::from_text(text).unwrap(), expected.clone().into(), "{text:?}");
        }
        // Two numbers that can't be a header of what follows.
        assert_eq!(WrittenMask::from_text("1 2\n3 4").unwrap().mask.coefficients(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(WrittenMask::from_text("-1 1").unwrap().mask.width(), 2);
    }

    #[test]
    fn libvips_matrices() {
        let written = WrittenMask::from_text("3 2 8 128\n1 1 1\n1 1 1").unwrap();
        assert_eq!((written.mask.width(), written.mask.height()), (3, 2));
        assert_eq!((written.scale, written.offset), (Some(0.125), Some(128.0)));
        let written = WrittenMask::from_text("2 1\n-1 1").unwrap();
        assert_eq!((written.mask.coefficients(), written.scale), ([-1.0, 1.0].as_slice(), None));
    }

    #[test]
    fn text_errors_say_where() {
        let cases = [
            ("1 2 3\n4 5", "row 2 of the mask has 2 coefficients, row 1 has 3"),
            ("1 2 3\n4 x 6", "mask: a number in row 2, column 2 was expected, not \"x\""),
            ("1 2 3\n4 1e99 6", "mask: a number from -3.4e38 to 3.4e38 in row 2, column 2 was expected, not \"1e99\""),
            ("1,5 2", "mask: one kind of separator in row 1, and points in numbers, was expected, not \"1,5 2\""),
            ("1 2\n1,5;2", "mask: one kind of separator in row 2, and points in numbers, was expected, not \"1,5;2\""),
            ("", "a mask needs at least 1 x 1 coefficients, this one has 0 rows and 0 columns"),
            ("# nothing\n", "a mask needs at least 1 x 1 coefficients, this one has 0 rows and 0 columns"),
            (
                "3 3\n1 2 3\n4 5 6",
                "mask: a table of 3 rows of 3 after the header \"3 3\" was expected, not \"2 rows of 3\"",
            ),
            ("1 2\n3", "mask: a table of 2 rows of 1 after the header \"1 2\" was expected, not \"1 row of 1\""),
            ("nan 3\n1 2 3\n4 5 6", "row 2 of the mask has 3 coefficients, row 1 has 2"),
            ("3 1 0 0\n1 2 3", "the scale in the first line of a mask must be finite and not 0, not 0"),
        ];
        for (text, expected) in cases {
            assert_eq!(message(WrittenMask::from_text(text)), expected, "{text:?}");
        }
    }

    #[test]
    fn kernels() {
        let written = WrittenMask::from_kernel("2x3+1+2: 1,2 3,4 5,6").unwrap();
        assert_eq!((written.mask.width(), written.mask.height(), written.anchor), (2, 3, Some((2, 1))));
        let square = [0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0];
        for text in [
            "3: nan,1,- 1,-4,1 0,1,0",
            "0,1,0,1,-4,1,0,1,0",
            "3x3:0 1 0\n1 -4 1\n0, 1, 0",
            " 3X3 : 0,1,0, 1,-4,1, 0,1,0",
        ] {
            assert_eq!(WrittenMask::from_kernel(text).unwrap().mask.coefficients(), square, "{text:?}");
        }
    }

    #[test]
    fn kernel_errors() {
        for text in [
            "",
            "3x3",
            "3x3:",
            "3x3: 1,2",
            "2x1: 1,2,3",
            "axb: 1",
            "3x: 1",
            "2x1: 1,,2",
            "2x1: a,b",
            "2x1+1: 1,2",
            "2x1+2+0: 1,2",
            "2x1+0+1: 1,2",
            "2x1>: 1,2",
            "1: 1; 1: 1",
            "Gaussian:0x1",
            "0x1:",
            "-1x1: 1",
            "1,2,3,4",
            "1x99999999999999999999: 1",
            "4294967296x4294967296: 1",
            "1+0+0+0: 1",
        ] {
            assert!(WrittenMask::from_kernel(text).is_err(), "{text:?}");
        }
    }
}
