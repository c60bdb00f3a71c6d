//! A tile's input: the pixels under all of its windows, with the border written out.

use std::ops::Range;

use kernels_gpu::abi::border::{OUTSIDE, map};

use crate::cpu::simd::{Level, Simd, Work};
use crate::image::values_of;
use crate::{Pixel, PixelType, Problem};

/// The outputs of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    pub(super) channel: usize,
}

/// The pixels under the windows of a tile, as `f32`.
#[derive(Debug, Default)]
pub(super) struct Input {
    /// Rows of `stride` values.
    pub(super) values: Vec<f32>,
    /// More than a row has: what is beyond belongs to no output.
    pub(super) stride: usize,
    pub(super) columns: usize,
    pub(super) rows: usize,
    /// What is known of them.
    pub(super) facts: Facts,
    map: Vec<i32>,
}

/// What is known of all pixels of a tile.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Facts {
    /// The largest magnitude, NaN and infinity left out.
    pub(super) most: f32,
    /// The sum of their squares, as well.
    pub(super) squares: f64,
    /// One is negative, or -0.
    pub(super) has_negative: bool,
    /// One is infinite or NaN.
    pub(super) has_nonfinite: bool,
}

impl Facts {
    fn add(&mut self, row: Self) {
        self.most = self.most.max(row.most);
        self.squares += row.squares;
        self.has_negative |= row.has_negative;
        self.has_nonfinite |= row.has_nonfinite;
    }
}

impl Input {
    /// Room for tiles of `columns` x `rows` pixels.
    pub(super) fn with_room(columns: usize, rows: usize, stride: usize) -> crate::Result<Self> {
        debug_assert!(columns <= stride);
        // Behind the last row, for vectors that begin in it.
        let values = crate::memory::zeros(stride * rows + LANES, "for the pixels of a tile")?;
        Ok(Self { values, stride, ..Self::default() })
    }

    /// Row `y`.
    pub(super) fn row(&self, y: usize) -> &[f32] {
        &self.values[y * self.stride..][..self.columns]
    }

    /// Loads the pixels for the outputs of `place`.
    pub(super) fn load(&mut self, level: Level, problem: &Problem, source: &[u8], place: Place) {
        let window = problem.window();
        (self.columns, self.rows) = (place.columns + window.width() - 1, place.rows + window.height() - 1);
        let (above, before) = problem.origin();
        let code = problem.border().mode().code();
        // Sides and positions are below 2^30, which `Image` and `Mask` check.
        let (first, top) = (place.left as i32 - before as i32, place.top as i32 - above as i32);
        let width = problem.width() as i32;
        self.map.clear();
        self.map.extend((0..self.columns as i32).map(|i| map(code, first + i, width)));
        let inside = (-first).max(0) as usize..(width - first).clamp(0, self.columns as i32) as usize;
        let columns = Columns { map: &self.map, first: first.max(0) as usize, inside };
        self.facts = Facts::default();
        for (y, to) in self.values.chunks_exact_mut(self.stride).take(self.rows).enumerate() {
            let to = &mut to[..self.columns];
            match map(code, top + y as i32, problem.height() as i32) {
                OUTSIDE => to.fill(problem.border().value()),
                row => {
                    let row = row as usize;
                    match problem.format().input {
                        PixelType::F32 => columns.load::<f32>(level, problem, source, row, place.channel, to),
                        PixelType::U8 => columns.load::<u8>(level, problem, source, row, place.channel, to),
                        PixelType::U16 => columns.load::<u16>(level, problem, source, row, place.channel, to),
                    }
                }
            }
        }
    }

    /// Row `y` in `f64`, zeros behind it and in the place of NaN and infinity; its facts join those of the tile.
    pub(super) fn widen(&mut self, level: Level, y: usize, to: &mut [f64]) {
        let row = &self.values[y * self.stride..][..self.columns];
        let (to, beyond) = to.split_at_mut(row.len());
        beyond.fill(0.0);
        let mut facts = level.run(Widen { row, to });
        if facts.has_nonfinite {
            to.iter_mut().filter(|value| !value.is_finite()).for_each(|value| *value = 0.0);
            facts.most = to.iter().fold(0.0, |most: f64, value| most.max(value.abs())) as f32;
            facts.squares = to.iter().map(|value| value * value).sum();
        }
        self.facts.add(facts);
    }
}

/// Which columns of the image a tile reads.
struct Columns<'a> {
    map: &'a [i32],
    /// Those that lie in the image, as they are, and the first one's column there.
    inside: Range<usize>,
    first: usize,
}

impl Columns<'_> {
    fn load<T: Pixel>(
        &self,
        level: Level,
        problem: &Problem,
        source: &[u8],
        row: usize,
        channel: usize,
        to: &mut [f32],
    ) {
        let channels = problem.format().channels;
        let from = &values_of::<T>(source)[row * problem.row_values()..][..problem.row_values()];
        let value = problem.border().value();
        let inside = self.inside.start.min(self.inside.end)..self.inside.end;
        for range in [0..inside.start, inside.end..to.len()] {
            for (to, &column) in to[range.clone()].iter_mut().zip(&self.map[range]) {
                *to = if column == OUTSIDE { value } else { from[column as usize * channels + channel].to_f32() };
            }
        }
        if !inside.is_empty() {
            let from = &from[self.first * channels..][..inside.len() * channels];
            level.run(Convert { from, channels, channel, to: &mut to[inside] });
        }
    }
}

/// Converts one channel of interleaved pixels.
struct Convert<'a, T> {
    from: &'a [T],
    channels: usize,
    channel: usize,
    to: &'a mut [f32],
}

impl<T: Pixel> Work for Convert<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { from, channels, channel, to } = self;
        if channels == 1 {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32());
        } else {
            let pixels = from.chunks_exact(channels);
            to.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel[channel].to_f32());
        }
    }
}

/// Values whose facts are gathered at a time, each lane for itself.
const LANES: usize = 16;

/// Copies a row as `f64`, and says what is in it.
struct Widen<'a> {
    row: &'a [f32],
    to: &'a mut [f64],
}

impl Work for Widen<'_> {
    type Output = Facts;

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) -> Facts {
        const SIGN: u32 = 1 << 31;
        // The bits of magnitudes are ordered as the magnitudes are, NaN above all.
        let (mut most, mut signs, mut squares) = ([0_u32; LANES], [0_u32; LANES], [0.0_f64; LANES]);
        let (rows, rest) = self.row.as_chunks::<LANES>();
        let (tos, to_rest) = self.to.as_chunks_mut::<LANES>();
        for (row, to) in rows.iter().zip(tos) {
            for i in 0..LANES {
                let bits = row[i].to_bits();
                most[i] = most[i].max(bits & !SIGN);
                signs[i] |= bits;
                to[i] = f64::from(row[i]);
                squares[i] += to[i] * to[i];
            }
        }
        for (i, (&value, to)) in rest.iter().zip(to_rest).enumerate() {
            most[i] = most[i].max(value.to_bits() & !SIGN);
            signs[i] |= value.to_bits();
            *to = f64::from(value);
            squares[i] += *to * *to;
        }
        let most = most.into_iter().fold(0, u32::max);
        Facts {
            most: f32::from_bits(most),
            squares: squares.into_iter().sum(),
            has_negative: signs.into_iter().fold(0, |all, bits| all | bits) & SIGN != 0,
            has_nonfinite: most >= f32::INFINITY.to_bits(),
        }
    }
}
