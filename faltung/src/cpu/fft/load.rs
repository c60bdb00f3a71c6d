//! A tile's input: the pixels under all of its windows, with the border written out.

use crate::Problem;
use crate::cpu::line::{LineMap, Values, image_rows};
use crate::cpu::simd::{Level, Simd, Work};

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
        let map = LineMap::of_channel(problem, place.left, place.columns, place.channel);
        let (image, rows) = (Values::of(problem, source), image_rows(problem, place.top, place.rows));
        self.facts = Facts::default();
        for (to, row) in self.values.chunks_exact_mut(self.stride).zip(rows) {
            map.fill(level, problem, image, row, to);
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
