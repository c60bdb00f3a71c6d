//! The register tile for windows of one column, above all the column of a separable mask.
//!
//! No load is shifted sideways, so the vectors of aligned rows do not straddle cache lines. `R` output rows share their
//! source rows. A step reads `V` vectors of one source row. Each serves up to `R` output rows:
//! ```text
//! for s in 0..R + height - 1
//!     load V vectors of source row s
//!     for r in 0..R where 0 <= s - r < height     sums[r] = fma(W[s - r], pixels, sums[r])
//! ```
//! The steps in which all `R` rows take part have a loop of their own. The general tile ([`tile`](super::tile::tile))
//! branches at each source row. A source row of a one-column window has too little work to hide that branch.

use super::simd::Simd;
use super::tile::{ROWS, Sink, Window, finish};

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
    to: &[*mut K::Value; ROWS],
    count: usize,
    sink: &mut K,
) {
    let mut row = 0;
    while row < count {
        // Eight sums hide the latency of a multiply-add. The last rows, and tiles of one vector, have fewer.
        // SAFETY: rows and pointers are as this function requires; each arm takes at most `count - row` rows.
        row += unsafe {
            match (V, count - row) {
                (2, 4..) => of_rows::<S, K, V, 4>(simd, window, rows, x, to, row, sink),
                (_, 2..) => of_rows::<S, K, V, 2>(simd, window, rows, x, to, row, sink),
                _ => of_rows::<S, K, V, 1>(simd, window, rows, x, to, row, sink),
            }
        };
    }
}

/// `R` output rows from row `first` on; returns `R`.
///
/// # Safety
/// As for [`tile`]; `first + R` is at most its `count`.
#[inline(always)]
unsafe fn of_rows<S: Simd, K: Sink, const V: usize, const R: usize>(
    simd: S,
    window: &Window,
    rows: &[&[f32]],
    x: usize,
    to: &[*mut K::Value; ROWS],
    first: usize,
    sink: &mut K,
) -> usize {
    let height = window.height();
    let mut sums = [[simd.splat(0.0); V]; R];
    macro_rules! step {
        ($s:expr, $serves:expr) => {
            let s: usize = $s;
            // SAFETY: there are first + R + height - 1 rows, of which this is one, with V vectors from x on.
            let pixels = unsafe { rows.get_unchecked(first + s).as_ptr().add(x) };
            for (r, sums) in sums.iter_mut().enumerate() {
                if $serves(r, s) {
                    let coefficient = simd.splat(window.coefficient(s - r));
                    for (v, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: v < V, and the row has V vectors from x on.
                        *sum = simd.fma(coefficient, unsafe { simd.load(pixels.add(v * S::LANES)) }, *sum);
                    }
                }
            }
        };
    }
    for s in 0..R - 1 {
        step!(s, |r: usize, s: usize| r <= s && s - r < height);
    }
    for s in R - 1..height {
        step!(s, |_, _| true);
    }
    for s in height.max(R - 1)..height + R - 1 {
        step!(s, |r: usize, s: usize| s - r < height);
    }
    // Not a loop: one that is not unrolled would keep the sums in memory.
    macro_rules! finish_rows {
        ($($r:literal)*) => { $(
            if let Some(sums) = sums.get($r) {
                // SAFETY: first + r < count; the caller promises the pointer.
                unsafe { finish(simd, window, sums, to[first + $r], sink, (first + $r, x)) };
            }
        )* };
    }
    finish_rows!(0 1 2 3);
    const { assert!(R <= 4) };
    R
}
