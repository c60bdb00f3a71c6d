//! The register tile: up to 6 rows of outputs, whose sums stay in registers during all steps of the window.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`, k outside, l inside, one fused
//! multiply-add a step, starting from 0: that order is the contract, and the tile keeps it for every output.
//!
//! # Loops
//! The obvious order is: for k, for l, for the tile's rows r and vectors v. Each multiply-add then loads its own
//! pixels. A CPU that begins two multiply-adds and two loads in a cycle is bound by these loads. A load that straddles
//! two cache lines counts twice, and 15 of 16 unaligned vectors of 64 bytes do. So the outer loop is over *source
//! rows*. Source row s is row k = s - r of the window of output row r. `R` output rows share their source rows:
//! ```text
//! for s in 0..R + height - 1               a source row serves the output rows low..high for which 0 <= s - r < height
//!     for l in 0..width
//!         load V vectors of source row s, from column x + l on
//!         for r in low..high
//!             splat W[s - r, l]
//!             for v in 0..V   sums[r][v] = fma(W[s - r, l], pixels[v], sums[r][v])
//! ```
//! For a fixed r, s ascends as k does, and l ascends within it: the order of the contract.
//!
//! Sums are in registers, which have no index. So `low..high` must be constants, and the first and the last `R - 1`
//! source rows are written out. The source rows between them serve all `R` rows, in a loop. No source row needs a
//! branch. Source rows with few products would be too short to hide one.
//!
//! `R` is 6, 3, 2 or 1: at most the window's rows, and at most the output rows that are left. The portable level
//! takes 2 or 1. For some small windows [`small`] writes all source rows out.
//!
//! # Registers and loads
//! With `R = 6`:
//!
//! | level | sums | pixels | coefficient | registers | loads for a full step | multiply-adds |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | AVX-512, V = 4 | 24 | 4 | 1 or 2 | 32 | 4 (8 lines) + 6 | 24 |
//! | AVX2, V = 2 | 12 | 2 | 1 or 2 | 16 | 2 (3 lines) + 6 | 12 |
//! | NEON, V = 4 | 24 | 4 | 1 or 2 | 32 | 4 + 6 | 24 |
//!
//! AVX2 with 4 rows of 3 vectors has no spare register: the compiler spills one sum, and the tile takes twice as long.
//!
//! # What is lost
//! The first and the last source rows of a tile serve fewer than `R` output rows. Loads, or the latency of a
//! multiply-add, bound these steps. The share of such steps falls with the window's height. To begin and to end a tile
//! costs the same for every window.

use std::marker::PhantomData;

use super::finish::put;
use super::simd::Simd;
use super::uncertain::Uncertain;
use crate::{Pixel, PixelType, Problem};

/// The most output rows of a tile, and the rows of a band.
pub(super) const ROWS: usize = 6;

/// A window as the tile reads it.
///
/// Column by column, each from the window's last row to its first: the coefficients by which the output rows of a tile
/// multiply one pixel are neighbours in memory.
#[derive(Debug)]
pub(super) struct Window {
    packed: Vec<f32>,
    /// Values from one column to the next.
    stride: usize,
    width: usize,
    height: usize,
    /// Values from one pixel of a row to the next: the channels.
    step: usize,
    /// Factor and addend of finished sums, if they are not 1 and 0.
    finish: Option<(f32, f32)>,
}

impl Window {
    /// The window of `problem`, packed.
    pub(super) fn new(problem: &Problem) -> Self {
        let mask = problem.window();
        Self::packed(problem, mask.coefficients(), mask.width())
    }

    /// A window of one column for `problem`.
    pub(super) fn column(problem: &Problem, coefficients: &[f32]) -> Self {
        Self::packed(problem, coefficients, 1)
    }

    fn packed(problem: &Problem, coefficients: &[f32], width: usize) -> Self {
        let height = coefficients.len() / width;
        // An odd stride: with a power of two all columns would fall into a few sets of the cache.
        let stride = height | 1;
        let mut packed = vec![0.0; width * stride];
        for (k, row) in coefficients.chunks_exact(width).enumerate() {
            for (l, &coefficient) in row.iter().enumerate() {
                packed[l * stride + height - 1 - k] = coefficient;
            }
        }
        Self { packed, stride, width, height, step: problem.format().channels, finish: problem.last_step() }
    }

    /// The values that a row needs beyond the first one of its last window.
    pub(super) fn beyond(&self) -> usize {
        (self.width - 1) * self.step
    }

    /// Width and height.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// The coefficients of a window of one column, the last one first.
    #[inline(always)]
    pub(super) fn column_from_bottom(&self) -> &[f32] {
        &self.packed[..self.height]
    }

    /// Rows.
    pub(super) fn height(&self) -> usize {
        self.height
    }
}

/// Where the results of a tile go.
#[derive(Clone, Copy)]
pub(super) struct To {
    /// The start of each output row, or of each row of a buffer.
    pub(super) rows: [*mut u8; ROWS],
    /// Bytes from there to the tile's first column.
    pub(super) offset: usize,
}

impl To {
    /// Where the results of a row go.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> *mut u8 {
        self.rows[row].wrapping_add(self.offset)
    }
}

/// The type of a tile's results.
pub(super) trait ResultType: Copy {
    /// The type.
    fn pixel(self) -> PixelType;
}

/// A type that is known at compile time. The stores of such a tile have no branch.
#[derive(Clone, Copy)]
pub(super) struct Static<U>(pub(super) PhantomData<U>);

impl<U: Pixel> ResultType for Static<U> {
    #[inline(always)]
    fn pixel(self) -> PixelType {
        U::TYPE
    }
}

/// A type that is known at run time only. One instance of a tile serves all types.
impl ResultType for PixelType {
    #[inline(always)]
    fn pixel(self) -> PixelType {
        self
    }
}

/// What a tile is computed from, and where it goes.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) window: &'a Window,
    /// The source rows: `rows[s]` is row s of the first output row's window.
    pub(super) rows: &'a [&'a [f32]],
    /// The tile's first column. Value `x` of a source row is the first value of that column's window.
    pub(super) x: usize,
    pub(super) to: &'a To,
    /// Use non-temporal stores. Only for results of `f32`.
    pub(super) non_temporal: bool,
}

/// Computes the outputs of `count` rows and `V` vectors. `COLUMN` says that the window is one column wide.
///
/// # Safety
/// - `count` is from 1 to [`ROWS`]; there are at least `count + window.height() - 1` source rows.
/// - Each of these has at least `x + V * LANES + window.beyond()` values.
/// - The first `count` rows of `to` are valid for writes of `V * LANES` values, and no source row overlaps them.
///   `uncertain` has room for these columns.
/// - With `non_temporal`, these places are aligned to the size of a vector, and the caller ends the stores with a
///   [fence](Simd::fence).
#[inline(always)]
pub(super) unsafe fn tile<S: Simd, T: ResultType, const V: usize, const COLUMN: bool>(
    simd: S,
    result_type: T,
    tile: Tile<'_>,
    count: usize,
    uncertain: &mut Option<&mut Uncertain>,
) {
    let mut row = 0;
    while row < count {
        // `of_rows` needs a window of at least `R` rows. Then each source row of its loop serves all `R` output rows.
        let most = (count - row).min(tile.window.height);
        // SAFETY: rows and pointers are as this function requires; each arm takes at most `most` rows.
        row += unsafe {
            match most {
                6.. if S::HOLDS_TILE => of_rows::<S, T, V, 6, COLUMN>(simd, result_type, tile, row, uncertain),
                3.. if S::HOLDS_TILE => of_rows::<S, T, V, 3, COLUMN>(simd, result_type, tile, row, uncertain),
                2.. => of_rows::<S, T, V, 2, COLUMN>(simd, result_type, tile, row, uncertain),
                _ => of_rows::<S, T, V, 1, COLUMN>(simd, result_type, tile, row, uncertain),
            }
        };
    }
}

/// `R` output rows from row `first` on; returns `R`.
///
/// # Safety
/// As for [`tile`]; `first + R` is at most its `count`, and the window has at least `R` rows.
#[inline(always)]
unsafe fn of_rows<S: Simd, T: ResultType, const V: usize, const R: usize, const COLUMN: bool>(
    simd: S,
    result_type: T,
    tile: Tile<'_>,
    first: usize,
    uncertain: &mut Option<&mut Uncertain>,
) -> usize {
    let Tile { window, rows, x, .. } = tile;
    let height = window.height;
    let width = if COLUMN { 1 } else { window.width };
    let mut sums = [[simd.splat(0.0); V]; R];
    // Source row `s` serves the output rows `low..high`.
    macro_rules! source_row {
        ($s:expr, $low:expr, $high:expr) => {
            // SAFETY: there are first + R + height - 1 rows, of which this is one, with values beyond x.
            let pixels = unsafe { rows.get_unchecked(first + $s).as_ptr().add(x) };
            // The address of W[s, 0]. That of W[s - r, 0] is r values further. For s >= height it lies before `packed`,
            // and only addresses with r > s - height are read, which lie inside.
            let coefficients = window.packed.as_ptr().wrapping_offset(height as isize - 1 - $s as isize);
            for l in 0..width {
                let mut loaded = [simd.splat(0.0); V];
                for (v, vector) in loaded.iter_mut().enumerate() {
                    // SAFETY: v * LANES + LANES + l * step is at most V * LANES + window.beyond().
                    *vector = unsafe { simd.load(pixels.add(l * window.step + v * S::LANES)) };
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    if ($low..$high).contains(&r) {
                        // SAFETY: this is W[s - r, l], and 0 <= s - r < height.
                        let coefficient = simd.splat(unsafe { *coefficients.wrapping_add(l * window.stride + r) });
                        for (sum, &vector) in sums.iter_mut().zip(&loaded) {
                            *sum = simd.fma(coefficient, vector, *sum);
                        }
                    }
                }
            }
        };
    }
    macro_rules! finish_rows {
        ($($r:literal)*) => { $(
            if let Some(sums) = sums.get($r) {
                // SAFETY: first + r < count; the caller promises the pointer.
                unsafe { write(simd, result_type, tile, sums, first + $r, uncertain) };
            }
        )* };
    }
    // Written out, because a loop that is not unrolled keeps the sums in memory.
    macro_rules! first_rows {
        ($($s:literal)*) => { $( if const { $s < R - 1 } { source_row!($s, 0, $s + 1); } )* };
    }
    macro_rules! last_rows {
        ($($i:literal)*) => { $( if const { $i < R - 1 } { source_row!(height + $i, $i + 1, R); } )* };
    }
    first_rows!(0 1 2 3 4);
    for s in R - 1..height {
        source_row!(s, 0, R);
    }
    last_rows!(0 1 2 3 4);
    // Without this the compiler delays the last steps to the store. Then it computes the rows one after another, and
    // each multiply-add waits for the one before.
    for sums in &mut sums {
        for sum in sums {
            *sum = simd.keep(*sum);
        }
    }
    finish_rows!(0 1 2 3 4 5);
    const { assert!(R <= 6) }; // as many as the macros name
    R
}

/// As [`tile`] for [`ROWS`] output rows and a window of `WIDTH` x `HEIGHT`, which has fewer than [`ROWS`] rows. Only
/// `HEIGHT` output rows have live sums at a time. So 3 x 3 has room for three vectors with AVX2.
///
/// # Safety
/// As for [`tile`] with a `count` of [`ROWS`]; the window has this size.
#[inline(always)]
pub(super) unsafe fn small<S: Simd, U: Pixel, const V: usize, const WIDTH: usize, const HEIGHT: usize>(
    simd: S,
    tile: Tile<'_>,
    uncertain: &mut Option<&mut Uncertain>,
) {
    let Tile { window, rows, x, .. } = tile;
    let coefficients = window.packed.as_ptr();
    let mut sums = [[simd.splat(0.0); V]; ROWS];
    // Written out, because a loop that is not unrolled keeps the sums in memory.
    macro_rules! source_rows {
        ($($s:literal)*) => { $(
            if const { $s < HEIGHT + ROWS - 1 } {
                // SAFETY: there is a row s, with values beyond x.
                let pixels = unsafe { rows.get_unchecked($s).as_ptr().add(x) };
                for l in 0..WIDTH {
                    let mut loaded = [simd.splat(0.0); V];
                    for (v, vector) in loaded.iter_mut().enumerate() {
                        // SAFETY: v * LANES + LANES + l * step is at most V * LANES + window.beyond().
                        *vector = unsafe { simd.load(pixels.add(l * window.step + v * S::LANES)) };
                    }
                    for (r, sums) in sums.iter_mut().enumerate() {
                        if r <= $s && $s - r < HEIGHT {
                            // SAFETY: the stride is `HEIGHT | 1`. This is W[s - r, l].
                            let coefficient = unsafe { *coefficients.add(l * (HEIGHT | 1) + HEIGHT - 1 + r - $s) };
                            let coefficient = simd.splat(coefficient);
                            for (sum, &vector) in sums.iter_mut().zip(&loaded) {
                                *sum = simd.fma(coefficient, vector, *sum);
                            }
                        }
                    }
                }
                // Without this the compiler delays steps to the store. Then it computes the rows one after another, and
                // each multiply-add waits for the one before.
                for (r, sums) in sums.iter_mut().enumerate() {
                    if r <= $s && $s - r < HEIGHT {
                        for sum in sums {
                            *sum = simd.keep(*sum);
                        }
                    }
                }
                if const { $s + 1 >= HEIGHT } {
                    let row = $s + 1 - HEIGHT;
                    // SAFETY: row < ROWS; the caller promises the pointer.
                    unsafe { write(simd, Static::<U>(PhantomData), tile, &sums[row], row, uncertain) };
                }
            }
        )* };
    }
    source_rows!(0 1 2 3 4 5 6 7 8 9);
    const { assert!(HEIGHT + ROWS - 1 <= 10) }; // as many as the macro names
}

/// Finishes and writes output row `row` of a tile.
///
/// # Safety
/// The row is valid for writes of `V` vectors from the tile's first column on. `uncertain` has room for them. With
/// `non_temporal`, the row is aligned to the size of a vector, and the caller ends the stores with a
/// [fence](Simd::fence).
#[inline(always)]
unsafe fn write<S: Simd, T: ResultType, const V: usize>(
    simd: S,
    result_type: T,
    tile: Tile<'_>,
    sums: &[S::Vector; V],
    row: usize,
    uncertain: &mut Option<&mut Uncertain>,
) {
    let mut values = *sums;
    if let Some((scale, offset)) = tile.window.finish {
        let (scale, offset) = (simd.splat(scale), simd.splat(offset));
        // A closure would not be compiled with the level's instructions.
        for value in &mut values {
            *value = simd.fma(*value, scale, offset);
        }
    }
    let to = tile.to.row(row);
    // SAFETY: as this function requires.
    unsafe {
        if result_type.pixel() == PixelType::F32 && tile.non_temporal {
            for (v, &value) in values.iter().enumerate() {
                simd.stream(to.cast::<f32>().add(v * S::LANES), value);
            }
        } else {
            put(simd, &values, result_type.pixel(), to, (row, tile.x), uncertain.as_deref_mut());
        }
    }
}
