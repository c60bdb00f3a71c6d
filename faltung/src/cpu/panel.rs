//! A panel: a rectangle of outputs whose windows need no border test, cut into register tiles.
//!
//! The dispatch to an instruction set is here, once for many tiles.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::simd::{Level, Simd, Work};
use super::sink::Output;
use super::tile::{ROWS, Sink, To, Window, small, tile};

/// Columns of the widest tile.
const MOST_COLUMNS: usize = Level::Avx512.lanes() * Level::Avx512.vectors();
/// The bytes of a cache line. Rows that are aligned to it can be written with non-temporal stores.
pub(super) const LINE: usize = 64;

/// Columns of a tile.
pub(super) fn tile_width(level: Level) -> usize {
    level.lanes() * level.vectors()
}

/// What is known of the memory behind a panel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    /// The source rows are not in the cache: prefetch those of the next band of tiles.
    pub(super) prefetch: bool,
    /// Use non-temporal stores where rows of `f32` are aligned to [`LINE`].
    pub(super) non_temporal: bool,
}

/// A panel. Value x of row `s` of `rows` is the first pixel of the window of output x, s rows down.
#[derive(Clone)]
pub(super) struct Panel<'a> {
    /// The window.
    pub(super) window: &'a Window,
    /// Source rows: as many as there are result rows, and the window's height less 1.
    pub(super) rows: &'a [&'a [f32]],
    /// The columns of these rows, which begin at a multiple of a vector.
    pub(super) columns: Range<usize>,
    /// What is known of the memory.
    pub(super) hints: Hints,
}

/// The values that a source row needs for a panel of `width` columns: the windows of whole tiles.
pub(super) fn source_width(level: Level, window: &Window, width: usize) -> usize {
    width.next_multiple_of(tile_width(level)) + window.beyond()
}

/// The largest distance from an integer at which a result is certain. The ordered sum of a more distant result may
/// round to another integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Of any result. Infinity if all are certain.
    pub(super) any: f32,
    /// Of results below [`HALF`](Self::HALF): their sums have fewer digits before the point, and more behind it.
    pub(super) below_half: f32,
    /// Of results below [`QUARTER`](Self::QUARTER).
    pub(super) below_quarter: f32,
}

impl Limits {
    /// All results are certain.
    pub(super) const NONE: Self = Self::uniform(f32::INFINITY);
    /// Results below this have sums below 128.
    pub(super) const HALF: f32 = 127.5;
    /// Results below this have sums below 64.
    pub(super) const QUARTER: f32 = 63.5;

    /// One limit for all results.
    pub(super) const fn uniform(any: f32) -> Self {
        Self { any, below_half: any, below_quarter: any }
    }

    /// The lanes of uncertain results, as bits.
    #[inline(always)]
    pub(super) fn uncertain<S: Simd>(&self, simd: S, results: S::Vector) -> u16 {
        let mut far = simd.far_from_whole(results, self.any);
        // Few vectors have any.
        if far != 0 && self.below_half > self.any {
            far &= !simd.below(results, Self::HALF) | simd.far_from_whole(results, self.below_half);
            far &= !simd.below(results, Self::QUARTER) | simd.far_from_whole(results, self.below_quarter);
        }
        far
    }
}

/// Which results of a band are uncertain: they could round to another whole number if they were computed in order.
#[derive(Debug)]
pub(super) struct Uncertain {
    pub(super) limits: Limits,
    /// For each vector of each row a bit for each lane.
    lanes: Vec<u16>,
    /// The results before rounding of vectors with uncertain lanes. Empty if they are not kept.
    values: Vec<f32>,
    /// Vectors of a row.
    vectors: usize,
    /// Lanes of a vector.
    of_vector: usize,
}

impl Uncertain {
    /// No result is.
    pub(super) fn none() -> Self {
        Self { limits: Limits::NONE, lanes: Vec::new(), values: Vec::new(), vectors: 0, of_vector: 1 }
    }

    /// Results of `width` columns, within these limits.
    pub(super) fn new(level: Level, limits: Limits, width: usize) -> Self {
        if limits == Limits::NONE {
            return Self::none();
        }
        let vectors = width.next_multiple_of(tile_width(level)) / level.lanes();
        Self { limits, lanes: vec![0; vectors * ROWS], values: Vec::new(), vectors, of_vector: level.lanes() }
    }

    /// Keeps uncertain results before rounding.
    pub(super) fn keep_values(&mut self) {
        self.values.resize(self.lanes.len() * self.of_vector, 0.0);
    }

    /// The uncertain result of a place, if they are kept.
    pub(super) fn value(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.vectors * self.of_vector + column]
    }

    /// Whether there is room for the vectors of `width` columns of each row.
    pub(super) fn has_room(&self, width: usize) -> bool {
        self.limits == Limits::NONE || self.vectors * self.of_vector >= width
    }

    /// Notes which lanes of `N` vectors of row `row` are uncertain, from vector `vector` on.
    #[inline(always)]
    pub(super) fn note<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        vector: usize,
        results: &[S::Vector; N],
    ) {
        let at = row * self.vectors + vector;
        debug_assert!(at + N <= self.lanes.len());
        // SAFETY: whoever makes a sink asserts that there is room; there are ROWS rows.
        let lanes = unsafe { &mut *self.lanes.as_mut_ptr().add(at).cast::<[u16; N]>() };
        *lanes = [0; N];
        // Few have any.
        if !simd.any_far_from_whole(results, self.limits.any) {
            return;
        }
        for (i, (lanes, &results)) in lanes.iter_mut().zip(results).enumerate() {
            *lanes = self.limits.uncertain(simd, results);
            if *lanes != 0 && !self.values.is_empty() {
                debug_assert_eq!(self.of_vector, S::LANES);
                // SAFETY: `values` has a vector for each entry of `lanes`.
                unsafe { simd.store(self.values.as_mut_ptr().add((at + i) * S::LANES), results) };
            }
        }
    }

    /// Calls `at` with row and column of each uncertain result in some columns of the first `rows` rows. The columns
    /// begin with a vector.
    pub(super) fn places(&self, rows: usize, columns: Range<usize>, mut at: impl FnMut(usize, usize)) {
        if self.vectors == 0 {
            return;
        }
        let vectors = columns.start / self.of_vector..columns.end.div_ceil(self.of_vector);
        for (row, lanes) in self.lanes.chunks_exact(self.vectors).take(rows).enumerate() {
            let lanes = &lanes[vectors.clone()];
            // Most are 0.
            for (i, lanes) in lanes.chunks(AT_ONCE).enumerate().filter(|(_, lanes)| any(lanes)) {
                for (j, &lanes) in lanes.iter().enumerate() {
                    let (mut lanes, first) = (lanes, (vectors.start + AT_ONCE * i + j) * self.of_vector);
                    while lanes != 0 {
                        let column = first + lanes.trailing_zeros() as usize;
                        // A tile may be wider than what is left of the panel.
                        if column < columns.end {
                            at(row, column);
                        }
                        lanes &= lanes - 1;
                    }
                }
            }
        }
    }
}

/// Vectors that are looked through at once.
const AT_ONCE: usize = 16;

/// Whether a bit of any is set.
fn any(lanes: &[u16]) -> bool {
    let or = |lanes: &[u16]| lanes.iter().fold(0, |any, &lanes| any | lanes) != 0;
    // A constant length makes vector instructions of it.
    lanes.first_chunk::<AT_ONCE>().map_or_else(|| or(lanes), |lanes| or(lanes))
}

impl Panel<'_> {
    /// Computes the panel. Output x becomes value `first + x` of a row of `results`.
    ///
    /// # Panics
    /// If rows are missing or too short, or the CPU does not have `level`.
    pub(super) fn compute<U: Output>(
        &self,
        level: Level,
        results: &mut [&mut [U]],
        first: usize,
        uncertain: &mut Uncertain,
    ) {
        assert_eq!(self.rows.len(), results.len() + self.window.height() - 1);
        let Range { start, end } = self.columns;
        let needed = start + source_width(level, self.window, end - start);
        assert!(self.rows.iter().all(|row| row.len() >= needed));
        assert!(results.iter().all(|row| row.len() >= first + end));
        assert!(start.is_multiple_of(level.lanes()));
        assert!(uncertain.has_room(start + (end - start).next_multiple_of(tile_width(level))));
        let aligned = results.iter().all(|row| row[first + start..].as_ptr().addr().is_multiple_of(LINE));
        let non_temporal = self.hints.non_temporal && aligned;
        level.run(Bands { panel: self, results, first, non_temporal, uncertain });
    }

    /// [`compute`](Self::compute) where all results are certain.
    ///
    /// # Panics
    /// As for `compute`.
    pub(super) fn compute_certain<U: Output>(&self, level: Level, results: &mut [&mut [U]], first: usize) {
        self.compute(level, results, first, &mut Uncertain::none());
    }
}

/// A panel and where it goes. Only [`Panel::compute`] makes one, and it has asserted what `bands` needs.
struct Bands<'a, 'r, U> {
    panel: &'a Panel<'a>,
    results: &'a mut [&'r mut [U]],
    first: usize,
    non_temporal: bool,
    uncertain: &'a mut Uncertain,
}

impl<U: Output> Work for Bands<'_, '_, U> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let sink = U::sink(self.uncertain);
        // SAFETY: the rows are long enough, and aligned if they are to be.
        unsafe { bands::<S, U, V>(simd, self.panel, self.results, self.first, self.non_temporal, sink) }
    }
}

/// The kind of tile.
#[derive(Clone, Copy)]
enum Shape {
    /// 3 x 3: three vectors with AVX2, otherwise as many as a wide tile.
    Three,
    /// 5 x 5.
    Five,
    /// One column of three rows.
    ColumnOfThree,
    /// One column of five rows.
    ColumnOfFive,
    /// One column.
    Column,
    /// Any window.
    Wide,
    /// One column: one vector.
    NarrowColumn,
    /// Any window: one vector.
    Narrow,
}

impl Shape {
    /// The tile for `count` rows. `vectors` counts the whole vectors left in the row. `wide` says that a wide tile
    /// pays.
    #[inline(always)]
    fn of<S: Simd, const V: usize>(window: &Window, count: usize, vectors: usize, wide: bool) -> Self {
        let full = S::HOLDS_TILE && count == ROWS;
        match window.size() {
            (3, 3) if full && vectors >= Self::Three.vectors::<V>() => Self::Three,
            (5, 5) if full && wide => Self::Five,
            (1, 3) if full && wide => Self::ColumnOfThree,
            (1, 5) if full && wide => Self::ColumnOfFive,
            (1, _) if wide => Self::Column,
            (1, _) => Self::NarrowColumn,
            _ if wide => Self::Wide,
            _ => Self::Narrow,
        }
    }

    /// The vectors of a tile, where a wide one has `V`.
    #[inline(always)]
    const fn vectors<const V: usize>(self) -> usize {
        match self {
            Self::Three if V < 3 => 3,
            Self::NarrowColumn | Self::Narrow => 1,
            _ => V,
        }
    }
}

/// Bands of [`ROWS`] rows, each from left to right in wide tiles. A rest of at most half a wide tile is computed in
/// tiles of one vector. A partial tile writes to a buffer first.
///
/// # Safety
/// The rows are as [`Panel::compute`] asserts. With `non_temporal`, the first result of every row is aligned to
/// [`LINE`].
#[inline(always)]
unsafe fn bands<S: Simd, U: Output, const V: usize>(
    simd: S,
    panel: &Panel<'_>,
    results: &mut [&mut [U]],
    first: usize,
    non_temporal: bool,
    mut sink: U::Sink<'_>,
) {
    let Panel { window, rows, columns: Range { start, end }, hints } = panel.clone();
    let next_band = ROWS + window.height() - 1;
    // No tile goes beyond this column. Source rows have `window.beyond()` more values, notes of uncertain results none.
    let padded = start + (end - start).next_multiple_of(V * S::LANES);
    for (band, results) in results.chunks_mut(ROWS).enumerate() {
        let (rows, count) = (&rows[band * ROWS..], results.len());
        let mut firsts = [std::ptr::null_mut(); ROWS];
        for (of_row, result) in firsts.iter_mut().zip(results.iter_mut()) {
            *of_row = result[first..].as_mut_ptr();
        }
        let mut x = start;
        while x < end {
            let left = end - x;
            let shape = Shape::of::<S, V>(window, count, left / S::LANES, left > V * S::LANES / 2);
            let columns = S::LANES * shape.vectors::<V>();
            debug_assert!(x + columns <= padded, "a tile from {x} on in {start}..{end}");
            if hints.prefetch {
                // The rows that the next band reads and this one does not.
                for row in rows.iter().skip(next_band).take(ROWS) {
                    for at in row[x..x + columns].iter().step_by(LINE / size_of::<f32>()) {
                        simd.prefetch(at);
                    }
                }
            }

            let mut buffer = [const { [const { MaybeUninit::<U>::uninit() }; MOST_COLUMNS] }; ROWS];
            let to = if left >= columns {
                To { rows: firsts, column: x }
            } else {
                To { rows: buffer.each_mut().map(|row| row.as_mut_ptr().cast::<U>()), column: 0 }
            };
            // SAFETY: source rows go on up to `padded`; results do if `left` says so, and else the buffer does. Tiles
            // are whole vectors wide, so in an aligned row all vectors are aligned. `Shape::of` gives the tile of a
            // small window for that window and ROWS rows only.
            unsafe {
                sink.use_non_temporal(non_temporal && columns > S::LANES && left >= columns);
                match shape {
                    Shape::Three if V < 3 => small::<S, _, 3, 3, 3>(simd, window, rows, x, &to, &mut sink),
                    Shape::Three => small::<S, _, V, 3, 3>(simd, window, rows, x, &to, &mut sink),
                    Shape::Five => small::<S, _, V, 5, 5>(simd, window, rows, x, &to, &mut sink),
                    Shape::ColumnOfThree => small::<S, _, V, 1, 3>(simd, window, rows, x, &to, &mut sink),
                    Shape::ColumnOfFive => small::<S, _, V, 1, 5>(simd, window, rows, x, &to, &mut sink),
                    Shape::Column => tile::<S, _, V, true>(simd, window, rows, x, &to, count, &mut sink),
                    Shape::Wide => tile::<S, _, V, false>(simd, window, rows, x, &to, count, &mut sink),
                    Shape::NarrowColumn => tile::<S, _, 1, true>(simd, window, rows, x, &to, count, &mut sink),
                    Shape::Narrow => tile::<S, _, 1, false>(simd, window, rows, x, &to, count, &mut sink),
                }
            }
            if left < columns {
                for (result, buffer) in results.iter_mut().zip(&buffer) {
                    for (to, from) in result[first + x..].iter_mut().zip(&buffer[..left]) {
                        // SAFETY: the tile has written `columns` values to each of its rows.
                        *to = unsafe { from.assume_init() };
                    }
                }
            }
            x += columns;
        }
    }
    if non_temporal {
        simd.fence();
    }
}
