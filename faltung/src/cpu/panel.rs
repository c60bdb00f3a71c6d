//! A panel: a rectangle of outputs whose windows need no border test, cut into register tiles.
//!
//! The dispatch to an instruction set is here, once for many tiles.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::finish::Results;
use super::simd::{Level, Simd, Work};
use super::tile::{ROWS, Static, Tile, To, Window, small, tile};
use super::uncertain::Uncertain;
use crate::parallel::Cancel;
use crate::{Error, Pixel, PixelType, Result};

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
    /// Whether to end early.
    pub(super) cancel: &'a Cancel,
}

/// The values that a source row needs for a panel of `width` columns: the windows of whole tiles.
pub(super) fn source_width(level: Level, window: &Window, width: usize) -> usize {
    width.next_multiple_of(tile_width(level)) + window.beyond()
}

impl Panel<'_> {
    /// Computes the panel. `place` is a row and a column of `results`: those of output 0 of the first row.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    ///
    /// # Panics
    /// If there are fewer source rows than the window has, if a row or `results` is too small, or if the CPU does not
    /// have `level`.
    pub(super) fn compute(
        &self,
        level: Level,
        results: &mut Results<'_>,
        place: (usize, usize),
        uncertain: &mut Uncertain,
    ) -> Result<()> {
        let Range { start, end } = self.columns;
        let needed = start + source_width(level, self.window, end - start);
        assert!(self.rows.iter().all(|row| row.len() >= needed));
        assert!(start.is_multiple_of(level.lanes()));
        assert!(self.rows.len() >= self.window.height());
        let height = self.rows.len() - (self.window.height() - 1);
        assert!(results.height() >= place.0 + height && results.width() >= place.1 + end);
        assert!(uncertain.has_room(level.lanes(), start + (end - start).next_multiple_of(tile_width(level))));
        let of = Place { panel: self, height, results, place, non_temporal: false, uncertain };
        let is_done = match of.results.pixel() {
            PixelType::F32 => {
                let rows = place.0..place.0 + height;
                let aligned = of.results.is_aligned(rows, place.1 + start, LINE);
                let non_temporal = self.hints.non_temporal && aligned;
                of_type::<f32>(level, Place { non_temporal, ..of })
            }
            PixelType::U8 => of_type::<u8>(level, of),
            PixelType::U16 => of_type::<u16>(level, of),
        };
        if is_done { Ok(()) } else { Err(Error::Cancelled) }
    }
}

/// A panel and where it goes. Only [`Panel::compute`] makes one, and it has asserted what `band` needs.
struct Place<'a, 'r> {
    panel: &'a Panel<'a>,
    height: usize,
    results: &'a mut Results<'r>,
    place: (usize, usize),
    non_temporal: bool,
    uncertain: &'a mut Uncertain,
}

/// Computes a panel whose results are `U`. False if it is cancelled.
fn of_type<U: Pixel>(level: Level, of: Place<'_, '_>) -> bool {
    match of.panel.window.size() {
        (3, 3) => level.run(Bands::<U, 3, 3>::new(of)),
        (5, 5) => level.run(Bands::<U, 5, 5>::new(of)),
        (1, 3) => level.run(Bands::<U, 1, 3>::new(of)),
        (1, 5) => level.run(Bands::<U, 1, 5>::new(of)),
        (1, _) => level.run(Bands::<U, 1, 0>::new(of)),
        _ => level.run(Bands::<U, 0, 0>::new(of)),
    }
}

/// A panel for results `U` and a window of `WIDTH` x `HEIGHT`, where 0 is any number. Were the type a value, the branch
/// after each output row would make 3 x 3 a tenth slower.
struct Bands<'a, 'r, U, const WIDTH: usize, const HEIGHT: usize> {
    of: Place<'a, 'r>,
    results: PhantomData<U>,
}

impl<'a, 'r, U, const WIDTH: usize, const HEIGHT: usize> Bands<'a, 'r, U, WIDTH, HEIGHT> {
    fn new(of: Place<'a, 'r>) -> Self {
        Self { of, results: PhantomData }
    }
}

impl<U: Pixel, const WIDTH: usize, const HEIGHT: usize> Work for Bands<'_, '_, U, WIDTH, HEIGHT> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) -> bool {
        let Place { panel, height, results, place, non_temporal, uncertain } = self.of;
        let mut uncertain = uncertain.notes();
        let mut is_done = true;
        for top in (0..height).step_by(ROWS) {
            let (rows, count) = (&panel.rows[top..], ROWS.min(height - top));
            let to = results.to(place.0 + top, place.1);
            // SAFETY: `count` is from 1 to ROWS. `compute` has asserted that the source rows are long enough, that
            // `results` has these rows and columns, aligned if they are to be, and that `uncertain` has room. `results`
            // is borrowed mutably, so no source row overlaps it. The fence comes after the loop.
            unsafe {
                is_done = band::<S, U, V, WIDTH, HEIGHT>(simd, panel, rows, count, &to, non_temporal, &mut uncertain);
            }
            if !is_done {
                break;
            }
        }
        if non_temporal {
            simd.fence();
        }
        is_done
    }
}

/// The tile that most of a panel for windows of `WIDTH` x `HEIGHT` consists of, where 0 is any number.
struct Main<S, const V: usize, const WIDTH: usize, const HEIGHT: usize>(PhantomData<S>);

impl<S: Simd, const V: usize, const WIDTH: usize, const HEIGHT: usize> Main<S, V, WIDTH, HEIGHT> {
    /// Whether it is the tile of a small window.
    const IS_SMALL: bool = HEIGHT != 0 && S::HOLDS_TILE;
    /// Its vectors in a row. 3 x 3 has three with AVX2.
    const VECTORS: usize = if Self::IS_SMALL && WIDTH == 3 && V < 3 { 3 } else { V };
}

/// A tile other than those that most of a panel consists of. `band` makes it.
struct Other<'a, 'u> {
    tile: Tile<'a>,
    count: usize,
    uncertain: &'a mut Option<&'u mut Uncertain>,
    pixel: PixelType,
}

/// Computes a tile of [`Level::vectors`], or of one vector, for a window of one column or of any width.
struct Compute<T, const WIDE: bool, const COLUMN: bool>(T);

impl<const WIDE: bool, const COLUMN: bool> Work for Compute<Other<'_, '_>, WIDE, COLUMN> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Other { tile: of, count, uncertain, pixel } = self.0;
        // SAFETY: `band` makes tiles that are as `tile` requires.
        unsafe {
            if const { WIDE } {
                tile::<S, _, V, COLUMN>(simd, pixel, of, count, uncertain);
            } else {
                tile::<S, _, 1, COLUMN>(simd, pixel, of, count, uncertain);
            }
        }
    }
}

/// Up to [`ROWS`] rows of a panel, from left to right. Most tiles are wide: those of a small window for that window,
/// the others for any. A rest of at most half a wide tile is computed in tiles of one vector. A partial tile writes to
/// a buffer first.
///
/// # Safety
/// - `count` is from 1 to [`ROWS`]. `rows` begins with the source rows of these rows; all are as [`Panel::compute`]
///   asserts. The window is `WIDTH` x `HEIGHT`, where 0 is any number.
/// - The first `count` rows of `to` are valid for writes of the panel's columns, and no source row overlaps them.
/// - `uncertain` has room for whole tiles.
/// - With `non_temporal`, the results are `f32`, column `columns.start` of each row is aligned to [`LINE`], and the
///   caller ends the stores with a [fence](Simd::fence).
#[inline(always)]
unsafe fn band<S: Simd, U: Pixel, const V: usize, const WIDTH: usize, const HEIGHT: usize>(
    simd: S,
    panel: &Panel<'_>,
    rows: &[&[f32]],
    count: usize,
    to: &To,
    non_temporal: bool,
    uncertain: &mut Option<&mut Uncertain>,
) -> bool {
    let Panel { window, columns: Range { start, end }, hints, cancel, .. } = panel.clone();
    let bytes = U::TYPE.bytes();
    let next_band = ROWS + window.height() - 1;
    // No tile goes beyond this column. Source rows have `window.beyond()` values after it. `uncertain` ends here.
    let padded = start + (end - start).next_multiple_of(V * S::LANES);
    let mut x = start;
    while x < end {
        // A tile of a large window takes milliseconds. One of a small window takes less than a microsecond.
        if const { HEIGHT == 0 } && cancel.is_set() {
            return false;
        }
        let left = end - x;
        let is_wide = left > V * S::LANES / 2;
        let vectors = Main::<S, V, WIDTH, HEIGHT>::VECTORS;
        let has_columns = if vectors > V { left >= vectors * S::LANES } else { is_wide };
        let is_main = has_columns && (count == ROWS || !Main::<S, V, WIDTH, HEIGHT>::IS_SMALL);
        let columns = S::LANES
            * match (is_main, is_wide) {
                (true, _) => vectors,
                (false, true) => V,
                (false, false) => 1,
            };
        debug_assert!(x + columns <= padded, "a tile from {x} on in {start}..{end}");
        if hints.prefetch {
            // The rows that the next band reads and this one does not.
            for row in rows.iter().skip(next_band).take(ROWS) {
                for at in row[x..x + columns].iter().step_by(LINE / size_of::<f32>()) {
                    simd.prefetch(at);
                }
            }
        }

        // `f32` is the largest type of results.
        let mut buffer = [const { [const { MaybeUninit::<f32>::uninit() }; MOST_COLUMNS] }; ROWS];
        let is_whole = left >= columns;
        let of_results = To { offset: x * bytes, ..*to };
        // A copy, not a reference to one of two: each row of the tile reads it, and a reference costs a load more.
        let of_tile = if is_whole {
            of_results
        } else {
            To { rows: buffer.each_mut().map(|row| row.as_mut_ptr().cast()), offset: 0 }
        };
        let non_temporal = non_temporal && columns > S::LANES && is_whole;
        let of = Tile { window, rows, x, to: &of_tile, non_temporal };
        if is_main {
            // SAFETY: source rows go on up to `padded`; results do if the tile is whole, and else the buffer does.
            // Tiles are whole vectors wide, so in an aligned row all vectors are aligned. The tile of a small window
            // has all ROWS rows.
            unsafe {
                if const { Main::<S, V, WIDTH, HEIGHT>::IS_SMALL } {
                    if const { Main::<S, V, WIDTH, HEIGHT>::VECTORS == V } {
                        small::<S, U, V, WIDTH, HEIGHT>(simd, of, uncertain);
                    } else {
                        small::<S, U, 3, WIDTH, HEIGHT>(simd, of, uncertain);
                    }
                } else if const { WIDTH == 1 } {
                    tile::<S, _, V, true>(simd, Static::<U>(PhantomData), of, count, uncertain);
                } else {
                    tile::<S, _, V, false>(simd, Static::<U>(PhantomData), of, count, uncertain);
                }
            }
        } else {
            let other = Other { tile: of, count, uncertain, pixel: U::TYPE };
            match (is_wide, WIDTH) {
                (true, 1) => simd.outlined(Compute::<_, true, true>(other)),
                (true, _) => simd.outlined(Compute::<_, true, false>(other)),
                (false, 1) => simd.outlined(Compute::<_, false, true>(other)),
                (false, _) => simd.outlined(Compute::<_, false, false>(other)),
            }
        }
        if !is_whole {
            for row in 0..count {
                // SAFETY: the tile has written `columns` values to each of its rows, of which `left` have room.
                unsafe { of_tile.row(row).copy_to_nonoverlapping(of_results.row(row), left * bytes) };
            }
        }
        x += columns;
    }
    true
}
