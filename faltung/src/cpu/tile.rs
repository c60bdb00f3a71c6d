//! The register tile: 6 rows of outputs, whose sums stay in registers during all steps of the window.
//!
//! `O[y, x] = sum over k, l of W[k, l] * I[y - origin_y + k, x - origin_x + l]`, k outside, l inside, one fused
//! multiply-add a step, starting from 0: that order is the contract, and the tile keeps it for every output.
//!
//! # Loops
//! The obvious order is: for k, for l, for the tile's rows r and vectors v. Each multiply-add then loads its own
//! pixels. A CPU that begins two multiply-adds and two loads in a cycle is bound by these loads. A load that straddles
//! two cache lines counts twice, and 15 of 16 unaligned vectors of 64 bytes do. So the outer loop is over *source
//! rows*. Source row s is row k = s - r of the window of output row r.
//! ```text
//! for s in 0..rows + height - 1            a source row serves the output rows LOW..HIGH for which 0 <= s - r < height
//!     for l in 0..width
//!         load V vectors of source row s, from column x + l on
//!         for r in LOW..HIGH
//!             splat W[s - r, l]
//!             for v in 0..V   sums[r][v] = fma(W[s - r, l], pixels[v], sums[r][v])
//!     row LOW has met its last coefficient: store it
//! ```
//! For a fixed r, s ascends as k does, and l ascends within it: the order of the contract. LOW and HIGH are constants
//! of 21 instances of the inner loop, because registers have no index. A tile with less than 6 rows costs only what it
//! has.
//!
//! # Registers and loads
//! | level | sums | pixels | coefficient | of | loads for a full step | multiply-adds |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | AVX-512, V = 4 | 24 | 4 | 1 or 2 | 32 | 4 (8 lines) + 6 | 24 |
//! | AVX2, V = 2 | 12 | 2 | 1 or 2 | 16 | 2 (3 lines) + 6 | 12 |
//! | NEON, V = 4 | 24 | 4 | 1 or 2 | 32 | 4 + 6 | 24 |
//!
//! AVX2 with 4 rows of 3 vectors has no spare register: the compiler spills one sum, and the tile takes twice as long.
//!
//! # What is lost
//! The first and the last source rows of a tile serve fewer than 6 output rows. Loads, or the latency of a
//! multiply-add, bound these steps. The share of such steps falls with the window's height. To begin and to end a tile
//! costs the same for every window.

use super::simd::Simd;
use crate::Problem;

/// Output rows of a tile.
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

/// What is done with the finished sums of a tile.
pub(super) trait Sink {
    /// The type of the results.
    type Value: Copy;

    /// Whether [`put`](Self::put) is a few instructions. Then a copy of it follows each instance of the inner loop.
    /// Longer code there makes the compiler spill sums, so it stands in the tile once for each output row.
    const IS_SHORT: bool;

    /// Writes `N` vectors of results. They are those of row `row` of the band, from column `column` on, which is a
    /// multiple of a vector.
    ///
    /// # Safety
    /// `to` is valid for writes of `N` vectors of values, and aligned as the sink requires.
    unsafe fn put<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        values: &[S::Vector; N],
        to: *mut Self::Value,
        row: usize,
        column: usize,
    );

    /// Whether the vectors that follow are written with non-temporal stores. They are aligned to the size of a vector
    /// then, and the caller ends them with a [fence](Simd::fence).
    fn use_non_temporal(&mut self, non_temporal: bool) {
        let _ = non_temporal;
    }
}

/// Where the results of a tile go.
#[derive(Clone, Copy)]
pub(super) struct To<T> {
    /// The start of each output row, or of each row of a buffer.
    pub(super) rows: [*mut T; ROWS],
    /// Where the tile begins in it: 0 in a buffer.
    pub(super) column: usize,
}

impl<T> To<T> {
    /// Where the results of row `row` go.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> *mut T {
        self.rows[row].wrapping_add(self.column)
    }
}

/// Computes the outputs of `count` rows and `V` vectors. `rows[s]` is source row s of the first output row's
/// window, and its value `x` the first of the window of the tile's first column.
///
/// # Safety
/// - `count` is from 1 to [`ROWS`]; there are at least `count + window.height() - 1` rows.
/// - Each of these has at least `x + V * LANES + window.beyond()` values.
/// - The first `count` rows of `to` are valid for writes of `V * LANES` values, and no source row overlaps them.
/// - They are aligned as `sink` requires.
#[inline(always)]
pub(super) unsafe fn tile<S: Simd, K: Sink, const V: usize>(
    simd: S,
    window: &Window,
    rows: &[&[f32]],
    x: usize,
    to: &To<K::Value>,
    count: usize,
    sink: &mut K,
) {
    let mut sums = [[simd.splat(0.0); V]; ROWS];
    for s in 0..count + window.height - 1 {
        // The output rows that source row s serves: 0 <= s - r < height.
        let (low, high) = ((s + 1).saturating_sub(window.height), count.min(s + 1));
        // SAFETY: there is a row s, with values beyond x.
        let pixels = unsafe { rows.get_unchecked(s).as_ptr().add(x) };
        // W[s - low, 0], which is followed by W[s - low - 1, 0] for the next row.
        // SAFETY: s - low < height, so the index is in 0..height.
        let coefficients = unsafe { window.packed.as_ptr().add(window.height - 1 + low - s) };
        macro_rules! serve {
            ($(($low:literal, $high:literal))*) => {
                match (low, high) {
                    $(($low, $high) => {
                        // SAFETY: s - r is in 0..height for r in low..high; the caller promises the pixels.
                        unsafe { step::<S, V, $low, $high>(simd, window, pixels, coefficients, &mut sums) };
                        if K::IS_SHORT && s + 1 >= window.height {
                            // SAFETY: low < high <= count; the caller promises the pointer.
                            unsafe { finish(simd, window, &sums[$low], to.row($low), sink, ($low, x)) };
                        }
                    })*
                    _ => unreachable!("0 <= {low} < {high} <= {ROWS}"),
                }
            };
        }
        serve!((0, 1)(0, 2)(0, 3)(0, 4)(0, 5)(0, 6)(1, 2)(1, 3)(1, 4)(1, 5)(1, 6)(2, 3)(2, 4)(2, 5)(2, 6)(3, 4)(3, 5)(
            3, 6
        )(4, 5)(4, 6)(5, 6));
        if !K::IS_SHORT && s + 1 >= window.height {
            macro_rules! finish_row {
                ($($row:literal)*) => {
                    match low {
                        // SAFETY: low < count; the caller promises the pointer.
                        $($row => unsafe { finish(simd, window, &sums[$row], to.row($row), sink, ($row, x)) },)*
                        _ => unreachable!("{low} < {ROWS}"),
                    }
                };
            }
            finish_row!(0 1 2 3 4 5);
        }
    }
}

/// The same for a window of `WIDTH` x `HEIGHT` and [`ROWS`] rows. It does not branch at each source row, which has too
/// little work to hide that. Only `HEIGHT` output rows have live sums at a time. So 3 x 3 has room for three vectors
/// with AVX2.
///
/// # Safety
/// As for [`tile`] with a `count` of [`ROWS`]; the window has this size.
#[inline(always)]
pub(super) unsafe fn small<S: Simd, K: Sink, const V: usize, const WIDTH: usize, const HEIGHT: usize>(
    simd: S,
    window: &Window,
    rows: &[&[f32]],
    x: usize,
    to: &To<K::Value>,
    sink: &mut K,
) {
    let coefficients = window.packed.as_ptr();
    let mut sums = [[simd.splat(0.0); V]; ROWS];
    // Written out, because a loop that is not unrolled keeps the sums in memory.
    macro_rules! source_rows {
        ($($s:literal)*) => { $(
            if $s < HEIGHT + ROWS - 1 {
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
                            // SAFETY: the stride is `HEIGHT`, which is odd. This is W[s - r, l].
                            let coefficient = unsafe { *coefficients.add(l * HEIGHT + HEIGHT - 1 + r - $s) };
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
                if $s + 1 >= HEIGHT {
                    let row = $s + 1 - HEIGHT;
                    // SAFETY: row < ROWS; the caller promises the pointer.
                    unsafe { finish(simd, window, &sums[row], to.row(row), sink, (row, x)) };
                }
            }
        )* };
    }
    source_rows!(0 1 2 3 4 5 6 7 8 9);
    const { assert!(HEIGHT % 2 == 1 && HEIGHT + ROWS - 1 <= 10) };
}

/// One source row: all columns of the window, for the output rows `LOW..HIGH`.
///
/// # Safety
/// `pixels` is valid for reads of `V * LANES + window.beyond()` values; `coefficients` points at the coefficient of
/// row `LOW` in column 0 of the packed window, and those of the other rows follow.
#[inline(always)]
unsafe fn step<S: Simd, const V: usize, const LOW: usize, const HIGH: usize>(
    simd: S,
    window: &Window,
    pixels: *const f32,
    coefficients: *const f32,
    sums: &mut [[S::Vector; V]; ROWS],
) {
    for l in 0..window.width {
        let mut loaded = [simd.splat(0.0); V];
        for (v, vector) in loaded.iter_mut().enumerate() {
            // SAFETY: v * LANES + LANES + l * step is at most V * LANES + window.beyond().
            *vector = unsafe { simd.load(pixels.add(l * window.step + v * S::LANES)) };
        }
        for (r, sums) in sums[LOW..HIGH].iter_mut().enumerate() {
            // SAFETY: `coefficients` is row LOW of column 0, columns are `stride` apart, and r < HIGH - LOW.
            let coefficient = simd.splat(unsafe { *coefficients.add(l * window.stride + r) });
            for (sum, &vector) in sums.iter_mut().zip(&loaded) {
                *sum = simd.fma(coefficient, vector, *sum);
            }
        }
    }
}

/// Finishes and writes one output row of a tile, which is row `at.0` of its band and begins in column `at.1`.
///
/// # Safety
/// `to` is valid for writes of `V * LANES` values, and aligned as `sink` requires.
#[inline(always)]
pub(super) unsafe fn finish<S: Simd, K: Sink, const V: usize>(
    simd: S,
    window: &Window,
    sums: &[S::Vector; V],
    to: *mut K::Value,
    sink: &mut K,
    at: (usize, usize),
) {
    let mut values = *sums;
    if let Some((scale, offset)) = window.finish {
        let (scale, offset) = (simd.splat(scale), simd.splat(offset));
        // A closure would not be compiled with the level's instructions.
        for value in &mut values {
            *value = simd.fma(*value, scale, offset);
        }
    }
    // SAFETY: `to` has room for V vectors, aligned as the sink requires: this function requires it.
    unsafe { sink.put(simd, &values, to, at.0, at.1) };
}
