//! The register tile for windows of one column, above all the column of a separable mask.
//!
//! No load is shifted sideways, so the vectors of aligned rows do not straddle cache lines. `R` output rows share their
//! source rows. A step reads `V` vectors of one source row. Each serves up to `R` output rows:
//! ```text
//! for s in 0..R + height - 1
//!     load V vectors of source row s
//!     for r in 0..R where 0 <= s - r < height     sums[r] = fma(W[s - r], pixels, sums[r])
//! ```
//! The first and the last `R - 1` steps are written out, those between are a loop. The general tile
//! ([`tile`](super::tile::tile)) branches at each source row. A source row of a one-column window has too little work
//! to hide that branch.

use super::simd::Simd;
use super::tile::{ROWS, Sink, To, Window, finish};

/// As [`tile`](super::tile::tile), for a window of one column.
///
/// # Safety
/// As for that function, and the window is one column wide.
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
    let mut row = 0;
    while row < count {
        // `of_rows` needs a window of at least as many rows. Then each step of its loop serves all of them.
        let most = (count - row).min(window.height());
        // More rows share each load. Eight independent sums hide the latency of a multiply-add. Tiles of one vector and
        // the last rows may have fewer. Vectors of four values take two rows: the portable level may have only 16
        // registers. NEON has 32, but nobody has measured more rows.
        // SAFETY: rows and pointers are as this function requires; each arm takes at most `most` rows.
        row += unsafe {
            match (S::LANES > 4, most) {
                (true, 6..) => of_rows::<S, K, V, 6>(simd, window, rows, x, to, row, sink),
                (true, 4..) => of_rows::<S, K, V, 4>(simd, window, rows, x, to, row, sink),
                (_, 2..) => of_rows::<S, K, V, 2>(simd, window, rows, x, to, row, sink),
                _ => of_rows::<S, K, V, 1>(simd, window, rows, x, to, row, sink),
            }
        };
    }
}

/// `R` output rows from row `first` on; returns `R`.
///
/// # Safety
/// As for [`tile`]; `first + R` is at most its `count`, and the window has at least `R` rows.
#[inline(always)]
unsafe fn of_rows<S: Simd, K: Sink, const V: usize, const R: usize>(
    simd: S,
    window: &Window,
    rows: &[&[f32]],
    x: usize,
    to: &To<K::Value>,
    first: usize,
    sink: &mut K,
) -> usize {
    let height = window.height();
    let coefficients = window.column_from_bottom();
    let mut sums = [[simd.splat(0.0); V]; R];
    // Source row `s` serves the output rows `low..high`. Output row r uses coefficient `at + r`. `at` may be negative,
    // because row 0 need not take part.
    macro_rules! step {
        ($s:expr, $low:expr, $high:expr, $at:expr) => {
            // SAFETY: there are first + R + height - 1 rows, of which this is one, with V vectors from x on.
            let pixels = unsafe { rows.get_unchecked(first + $s).as_ptr().add(x) };
            let mut loaded = [simd.splat(0.0); V];
            for (v, vector) in loaded.iter_mut().enumerate() {
                // SAFETY: v < V, and the row has V vectors from x on.
                *vector = unsafe { simd.load(pixels.add(v * S::LANES)) };
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                if ($low..$high).contains(&r) {
                    // SAFETY: 0 <= s - r < height, so this is one of the column's coefficients.
                    let coefficient = simd.splat(unsafe { *coefficients.as_ptr().offset($at + r as isize) });
                    for (sum, &vector) in sums.iter_mut().zip(&loaded) {
                        *sum = simd.fma(coefficient, vector, *sum);
                    }
                }
            }
        };
    }
    let last = height as isize - 1;
    // Written out, because a loop that is not unrolled keeps the sums in memory.
    macro_rules! first_rows {
        ($($s:literal)*) => { $( if $s < R - 1 { step!($s, 0, $s + 1, last - $s); } )* };
    }
    macro_rules! last_rows {
        ($($i:literal)*) => { $( if $i < R - 1 { step!(height + $i, $i + 1, R, -1 - $i); } )* };
    }
    macro_rules! finish_rows {
        ($($r:literal)*) => { $(
            if let Some(sums) = sums.get($r) {
                // SAFETY: first + r < count; the caller promises the pointer.
                unsafe { finish(simd, window, sums, to.row(first + $r), sink, (first + $r, x)) };
            }
        )* };
    }
    first_rows!(0 1 2 3 4);
    for s in R - 1..height {
        step!(s, 0, R, last - s as isize);
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
    const { assert!(R <= 6 && R <= ROWS) };
    R
}
