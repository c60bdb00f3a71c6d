//! A panel: output rows over a range of columns whose windows can be read without asking for borders, cut into tiles.
//!
//! Here the level's instructions are chosen, once for many tiles.

use std::mem::MaybeUninit;

use super::simd::{Level, Simd, Work};
use super::tile::{ROWS, Window, tile};

/// Columns of the widest tile.
const MOST_COLUMNS: usize = Level::Avx512.lanes() * Level::Avx512.vectors();
/// To what a row has to be aligned, in bytes, for its cache lines to be written whole: a cache line.
pub(super) const LINE: usize = 64;

/// Columns of a tile.
pub(super) fn tile_width(level: Level) -> usize {
    level.lanes() * level.vectors()
}

/// What is known of the memory behind a panel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hints {
    /// The source rows are not in the cache: ask for those of the next tiles early.
    pub(super) prefetch: bool,
    /// The result will not be in the cache anyway: write past it, where rows are aligned to [`LINE`].
    pub(super) stream: bool,
}

/// A panel. Row `s` of `rows` begins with the first pixel of the first output's window, s rows down.
pub(super) struct Panel<'a> {
    /// The window.
    pub(super) window: &'a Window,
    /// Source rows: as many as there are result rows, and the window's height less 1.
    pub(super) rows: &'a [&'a [f32]],
    /// Columns.
    pub(super) width: usize,
    /// What is known of the memory.
    pub(super) hints: Hints,
}

/// The values that a source row needs for a panel of `width` columns: the windows of whole tiles.
pub(super) fn source_width(level: Level, window: &Window, width: usize) -> usize {
    width.next_multiple_of(tile_width(level)) + window.width() - 1
}

impl Panel<'_> {
    /// Computes the panel into columns `first..first + width` of `results`.
    ///
    /// # Panics
    /// If rows are missing or too short, or the CPU does not have `level`.
    pub(super) fn compute(&self, level: Level, results: &mut [&mut [f32]], first: usize) {
        assert_eq!(self.rows.len(), results.len() + self.window.height() - 1);
        let needed = source_width(level, self.window, self.width);
        assert!(self.rows.iter().all(|row| row.len() >= needed));
        assert!(results.iter().all(|row| row.len() >= first + self.width));
        let aligned = results.iter().all(|row| row[first..].as_ptr().addr().is_multiple_of(LINE));
        let stream = self.hints.stream && aligned;
        level.run(Bands { panel: self, results, first, stream });
    }
}

/// A panel and where it goes. Only [`Panel::compute`] makes one, and it has asserted what `bands` needs.
struct Bands<'a, 'r> {
    panel: &'a Panel<'a>,
    results: &'a mut [&'r mut [f32]],
    first: usize,
    stream: bool,
}

impl Work for Bands<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        // SAFETY: the rows are long enough, and aligned if they are to be.
        unsafe { bands::<S, V>(simd, self.panel, self.results, self.first, self.stream) }
    }
}

/// Bands of [`ROWS`] rows, each from left to right in wide tiles. If less than half of one is left at the end, it is
/// computed in tiles of one vector; what does not fill a tile goes through a buffer.
///
/// # Safety
/// The rows are as [`Panel::compute`] asserts. With `stream`, column `first` of every result row is aligned to
/// [`LINE`].
#[inline(always)]
unsafe fn bands<S: Simd, const V: usize>(
    simd: S,
    panel: &Panel<'_>,
    results: &mut [&mut [f32]],
    first: usize,
    stream: bool,
) {
    let Panel { window, rows, width, hints } = *panel;
    let next_band = ROWS + window.height() - 1;
    for (band, results) in results.chunks_mut(ROWS).enumerate() {
        let (rows, count) = (&rows[band * ROWS..], results.len());
        let mut x = 0;
        while x < width {
            let left = width - x;
            let wide = left > V * S::LANES / 2;
            let columns = if wide { V * S::LANES } else { S::LANES };
            if hints.prefetch {
                // The rows that the next band reads and this one does not.
                for row in rows.iter().skip(next_band).take(ROWS) {
                    for at in row[x..x + columns].iter().step_by(LINE / size_of::<f32>()) {
                        simd.prefetch(at);
                    }
                }
            }

            let mut buffer = [const { [const { MaybeUninit::<f32>::uninit() }; MOST_COLUMNS] }; ROWS];
            let mut to = buffer.each_mut().map(|row| row.as_mut_ptr().cast::<f32>());
            if left >= columns {
                for (to, result) in to.iter_mut().zip(results.iter_mut()) {
                    *to = result[first + x..].as_mut_ptr();
                }
            }
            // SAFETY: source rows go on for whole tiles; results do if `left` says so, and else the buffer does. A wide
            // tile is a multiple of LINE wide if it is streamed at all, so in an aligned row all are aligned.
            unsafe {
                if wide {
                    tile::<S, V>(simd, window, rows, x, &to, count, stream && left >= columns);
                } else {
                    tile::<S, 1>(simd, window, rows, x, &to, count, false);
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
    if stream {
        simd.fence();
    }
}
