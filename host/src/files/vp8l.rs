//! The Huffman codes of lossless WebP, RFC 9649: how much memory their tables take.
//!
//! A picture of one pixel may have 65,536 groups of five codes, in a file of a few MB. The decoder would take GB for
//! them. Everything before those codes is read exactly as crate `image-webp` reads it, even where that differs from the
//! standard. So no file has larger tables in the decoder than here.

use std::io::{BufRead, Bytes, Read};

/// A damaged stream, or its end: the decoder says what is wrong.
struct Broken;

impl From<std::io::Error> for Broken {
    fn from(_: std::io::Error) -> Self {
        Self
    }
}

/// Symbols of the five codes of a group, without a colour cache: green and lengths, red, blue, alpha, distances.
const ALPHABETS: [usize; 5] = [256 + 24, 256, 256, 256, 40];

/// Bytes that the decoder's tables take for all codes of the picture. Counting ends above `most`.
/// `sides` are those of a stream without a header, as alpha has it. None if the stream is damaged.
pub(super) fn table_bytes(stream: impl BufRead, sides: Option<(u32, u32)>, most: u64) -> Option<u64> {
    Stream { bytes: stream.bytes(), buffer: 0, filled: 0, tables: 0, most }.read(sides).ok()
}

/// A canonical code: how many codes there are of each length, and the symbols in the order of their codes.
struct Code {
    counts: [u16; 16],
    symbols: Vec<u16>,
}

impl Code {
    /// Bytes of a group that has no more than one symbol in each code.
    const LEAST: u64 = 64;

    fn new(lengths: &[u8]) -> Self {
        let mut counts = [0; 16];
        for &length in lengths.iter().filter(|&&length| length > 0) {
            counts[usize::from(length)] += 1;
        }
        let mut symbols: Vec<_> =
            (0..lengths.len() as u16).filter(|&symbol| lengths[usize::from(symbol)] > 0).collect();
        symbols.sort_by_key(|&symbol| lengths[usize::from(symbol)]);
        Self { counts, symbols }
    }

    /// The bytes that the decoder takes for this code: a table of at most 10 bits, and nodes for the longer codes.
    fn table_bytes(&self) -> u64 {
        if self.symbols.len() < 2 {
            return Self::LEAST;
        }
        let longest = self.counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let longer: u64 = self.counts[11..].iter().map(|&count| u64::from(count)).sum();
        Self::LEAST + (4 << longest.min(10)) + 2 * 16 * longer
    }
}

struct Stream<R> {
    bytes: Bytes<R>,
    buffer: u32,
    /// Bits in the buffer.
    filled: u32,
    tables: u64,
    most: u64,
}

impl<R: Read> Stream<R> {
    /// A number of up to 16 bits, the lowest first.
    fn bits(&mut self, count: u32) -> Result<u32, Broken> {
        while self.filled < count {
            let byte = self.bytes.next().ok_or(Broken)??;
            self.buffer |= u32::from(byte) << self.filled;
            self.filled += 8;
        }
        let value = self.buffer & ((1 << count) - 1);
        self.buffer >>= count;
        self.filled -= count;
        Ok(value)
    }

    fn symbol(&mut self, code: &Code) -> Result<usize, Broken> {
        if let [symbol] = code.symbols[..] {
            return Ok(symbol.into());
        }
        // The codes of one length are consecutive numbers, and follow those of the length before.
        let (mut found, mut first, mut index) = (0, 0, 0);
        for &count in &code.counts[1..] {
            let count = usize::from(count);
            found |= self.bits(1)? as usize;
            if found < first + count {
                return code.symbols.get(index + found - first).map(|&symbol| symbol.into()).ok_or(Broken);
            }
            index += count;
            first = (first + count) << 1;
            found <<= 1;
        }
        Err(Broken)
    }

    fn code(&mut self, alphabet: usize) -> Result<Code, Broken> {
        let code = if self.bits(1)? == 1 {
            let two = self.bits(1)? == 1;
            let wide = self.bits(1)?;
            let mut symbols = vec![self.bits(1 + 7 * wide)? as u16];
            if two {
                symbols.push(self.bits(8)? as u16);
            }
            // In the order of the file, as the decoder takes them, even if both are one.
            let mut counts = [0; 16];
            counts[1] = symbols.len() as u16;
            Code { counts, symbols }
        } else {
            let mut lengths = vec![0; alphabet];
            self.code_lengths(&mut lengths)?;
            Code::new(&lengths)
        };
        self.tables = self.tables.saturating_add(code.table_bytes());
        Ok(code)
    }

    fn code_lengths(&mut self, lengths: &mut [u8]) -> Result<(), Broken> {
        const ORDER: [usize; 19] = [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let mut of_lengths = [0; 19];
        let count = 4 + self.bits(4)? as usize;
        for &place in ORDER.get(..count).ok_or(Broken)? {
            of_lengths[place] = self.bits(3)? as u8;
        }
        let of_lengths = Code::new(&of_lengths);
        let mut left = lengths.len();
        if self.bits(1)? == 1 {
            let bits = 2 + 2 * self.bits(3)?;
            left = 2 + self.bits(bits)? as usize;
        }
        let (mut place, mut previous) = (0, 8);
        while place < lengths.len() && left > 0 {
            left -= 1;
            let (length, repeat) = match self.symbol(&of_lengths)? {
                length @ 0..16 => (length as u8, 1),
                16 => (previous, 3 + self.bits(2)? as usize),
                17 => (0, 3 + self.bits(3)? as usize),
                _ => (0, 11 + self.bits(7)? as usize),
            };
            if length > 0 {
                previous = length;
            }
            lengths.get_mut(place..place + repeat).ok_or(Broken)?.fill(length);
            place += repeat;
        }
        Ok(())
    }

    /// The five codes of a group.
    fn group(&mut self, cache_bits: u32) -> Result<[Code; 5], Broken> {
        let cache = if cache_bits > 0 { 1 << cache_bits } else { 0 };
        let [green, others @ ..] = ALPHABETS;
        let green = self.code(green + cache)?;
        let [red, blue, alpha, distances] = others;
        Ok([green, self.code(red)?, self.code(blue)?, self.code(alpha)?, self.code(distances)?])
    }

    /// The bits of the index of a colour cache, or 0.
    fn cache_bits(&mut self) -> Result<u32, Broken> {
        if self.bits(1)? == 0 {
            return Ok(0);
        }
        Some(self.bits(4)?).filter(|bits| (1..=11).contains(bits)).ok_or(Broken)
    }

    /// A length or a distance, by its prefix.
    fn copy(&mut self, prefix: usize) -> Result<usize, Broken> {
        if prefix < 4 {
            return Ok(prefix + 1);
        }
        let extra = ((prefix - 2) >> 1) as u32;
        let (high, low) = (extra.saturating_sub(16), extra.min(16));
        let bits = self.bits(low)? as usize | (self.bits(high)? as usize) << low;
        Ok(((2 + (prefix & 1)) << extra) + bits + 1)
    }

    /// The pixels of an image within the stream, as alpha, red, green and blue from the highest byte on. It has one
    /// group of codes.
    fn image(&mut self, width: usize, height: usize) -> Result<Vec<u32>, Broken> {
        let cache_bits = self.cache_bits()?;
        let mut cache = vec![0_u32; 1 << cache_bits];
        let slot = |pixel: u32| (0x1E35_A7BD_u32.wrapping_mul(pixel) >> (32 - cache_bits)) as usize;
        let [green, red, blue, alpha, distances] = self.group(cache_bits)?;
        let mut pixels: Vec<u32> = Vec::with_capacity(width * height);
        while pixels.len() < width * height {
            let start = pixels.len();
            match self.symbol(&green)? {
                green @ 0..256 => {
                    let (red, blue) = (self.symbol(&red)?, self.symbol(&blue)?);
                    let alpha = self.symbol(&alpha)?;
                    pixels.push((alpha << 24 | red << 16 | green << 8 | blue) as u32);
                }
                length @ 256..280 => {
                    let length = self.copy(length - 256)?;
                    let prefix = self.symbol(&distances)?;
                    let distance = distance(self.copy(prefix)?, width);
                    if distance > start || length > width * height - start {
                        return Err(Broken);
                    }
                    for place in start..start + length {
                        pixels.push(pixels[place - distance]);
                    }
                }
                cached => {
                    pixels.push(*cache.get(cached - 280).filter(|_| cache_bits > 0).ok_or(Broken)?);
                    continue;
                }
            }
            if cache_bits > 0 {
                for &pixel in &pixels[start..] {
                    cache[slot(pixel)] = pixel;
                }
            }
        }
        Ok(pixels)
    }

    fn read(mut self, sides: Option<(u32, u32)>) -> Result<u64, Broken> {
        let (mut width, height) = match sides {
            Some(sides) => sides,
            None => {
                // A signature, the sides, whether there is alpha, and a version.
                self.bits(8)?;
                let sides = (self.bits(14)? + 1, self.bits(14)? + 1);
                self.bits(4)?;
                sides
            }
        };
        let blocks = |side: u32, bits: u32| side.div_ceil(1 << bits) as usize;
        // Each of the four transforms comes once at most, which the decoder checks.
        let mut transforms = 0;
        while self.bits(1)? == 1 {
            transforms += 1;
            match self.bits(2)? {
                _ if transforms > 4 => return Err(Broken),
                0 | 1 => {
                    let bits = self.bits(3)? + 2;
                    self.image(blocks(width, bits), blocks(height, bits))?;
                }
                2 => {}
                _ => {
                    let colours = self.bits(8)? + 1;
                    self.image(colours as usize, 1)?;
                    let bits = match colours {
                        ..=2 => 3,
                        3..=4 => 2,
                        5..=16 => 1,
                        _ => 0,
                    };
                    width = width.div_ceil(1 << bits);
                }
            }
        }
        let cache_bits = self.cache_bits()?;
        let mut groups = 1;
        if self.bits(1)? == 1 {
            let bits = self.bits(3)? + 2;
            let numbers = self.image(blocks(width, bits), blocks(height, bits))?;
            groups = numbers.into_iter().map(|pixel| (pixel >> 8 & 0xFFFF) + 1).max().unwrap_or(1);
        }
        for _ in 0..groups {
            if self.tables > self.most {
                break;
            }
            self.group(cache_bits)?;
        }
        Ok(self.tables)
    }
}

/// How many pixels ago: the first 120 numbers are for near ones in two dimensions.
fn distance(number: usize, width: usize) -> usize {
    /// The columns to the left, and the rows above.
    #[rustfmt::skip]
    const NEAR: [(i8, i8); 120] = [
        (0, 1), (1, 0), (1, 1), (-1, 1), (0, 2), (2, 0), (1, 2), (-1, 2), (2, 1), (-2, 1), (2, 2), (-2, 2),
        (0, 3), (3, 0), (1, 3), (-1, 3), (3, 1), (-3, 1), (2, 3), (-2, 3), (3, 2), (-3, 2), (0, 4), (4, 0),
        (1, 4), (-1, 4), (4, 1), (-4, 1), (3, 3), (-3, 3), (2, 4), (-2, 4), (4, 2), (-4, 2), (0, 5), (3, 4),
        (-3, 4), (4, 3), (-4, 3), (5, 0), (1, 5), (-1, 5), (5, 1), (-5, 1), (2, 5), (-2, 5), (5, 2), (-5, 2),
        (4, 4), (-4, 4), (3, 5), (-3, 5), (5, 3), (-5, 3), (0, 6), (6, 0), (1, 6), (-1, 6), (6, 1), (-6, 1),
        (2, 6), (-2, 6), (6, 2), (-6, 2), (4, 5), (-4, 5), (5, 4), (-5, 4), (3, 6), (-3, 6), (6, 3), (-6, 3),
        (0, 7), (7, 0), (1, 7), (-1, 7), (5, 5), (-5, 5), (7, 1), (-7, 1), (4, 6), (-4, 6), (6, 4), (-6, 4),
        (2, 7), (-2, 7), (7, 2), (-7, 2), (3, 7), (-3, 7), (7, 3), (-7, 3), (5, 6), (-5, 6), (6, 5), (-6, 5),
        (8, 0), (4, 7), (-4, 7), (7, 4), (-7, 4), (8, 1), (8, 2), (6, 6), (-6, 6), (8, 3), (5, 7), (-5, 7),
        (7, 5), (-7, 5), (8, 4), (6, 7), (-6, 7), (7, 6), (-7, 6), (8, 5), (7, 7), (-7, 7), (8, 6), (8, 7),
    ];
    match number.checked_sub(1).and_then(|place| NEAR.get(place)) {
        Some(&(left, above)) => {
            let distance = isize::from(left) + isize::from(above) * width as isize;
            usize::try_from(distance).map_or(1, |distance| distance.max(1))
        }
        None => number - NEAR.len(),
    }
}

#[cfg(test)]
mod tests {
    use image::ExtendedColorType;
    use image::codecs::webp::WebPEncoder;

    use super::*;

    #[test]
    fn the_codes_of_a_picture_are_read() {
        let mut file = Vec::new();
        let values: Vec<u8> = (0..64 * 48 * 3).map(|i: u32| (i * i / 7 % 251) as u8).collect();
        WebPEncoder::new_lossless(&mut file).encode(&values, 64, 48, ExtendedColorType::Rgb8).unwrap();
        // RIFF, WEBP and VP8L with their lengths.
        let stream = &file[20..];
        let bytes = table_bytes(stream, None, u64::MAX).unwrap();
        assert!((5 * Code::LEAST + 2048..100_000).contains(&bytes), "{bytes}");
        assert!(table_bytes(&stream[..20], None, u64::MAX).is_none());
    }

    #[test]
    fn near_pixels_have_numbers() {
        // Above, to the left, and above to the left.
        assert_eq!([1, 2, 3, 120, 121, 130].map(|number| distance(number, 100)), [100, 1, 101, 708, 1, 10]);
        // To the right in the row above, where a row has one pixel.
        assert_eq!(distance(4, 1), 1);
    }
}
