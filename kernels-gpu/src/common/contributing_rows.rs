//! Which rows of the mask multiply a row of the image.
//!
//! A strip of `rows` output rows reads `rows + H - 1` rows of the image. Through row `k` of the mask, row `r` of them
//! contributes to output row `r - k`. The first and the last `H - 1` rows also contribute to the neighbouring strips,
//! which compute those products themselves.

use cuda_std::prelude::*;

/// The rows of the mask that row `r` of a strip's input is multiplied with.
pub(crate) trait MaskRows: Copy {
    /// Rows of the mask that share one test.
    const GROUP: usize;

    /// The rows of the mask for row `r` of the input of a strip of `rows` rows. `INTERIOR`: the interior loop calls.
    fn new<const INTERIOR: bool>(r: i32, rows: i32) -> Self;

    /// Whether any of the `count` rows from `first` on is one of them. `count` is at most [`GROUP`](Self::GROUP).
    fn any(self, first: usize, count: usize) -> bool;
}

/// One bit for each row of the mask. `None` stands for all rows, without a test.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct MaskRowBits(Option<u32>);

impl MaskRowBits {
    /// All rows, known at compile time.
    pub(crate) const ALL: Self = Self(None);

    /// The rows of a mask of at most 32 rows whose output row `r - k` lies in a strip of `rows` rows.
    #[inline(always)]
    pub(crate) fn at(r: i32, rows: i32) -> Self {
        let first = (r - rows + 1).clamp(0, 31) as u32;
        let up_to_last = u32::MAX >> (31 - r.min(31) as u32);
        // Without black_box LLVM sees that the set bits are contiguous, and clones the code for each first bit.
        Self(Some(thread::black_box(up_to_last >> first << first)))
    }

    /// Whether row `k` is one of them.
    #[inline(always)]
    pub(crate) fn has(self, k: usize) -> bool {
        self.0.is_none_or(|bits| bits >> k & 1 != 0)
    }
}

impl MaskRows for MaskRowBits {
    const GROUP: usize = 1;

    #[inline(always)]
    fn new<const INTERIOR: bool>(r: i32, rows: i32) -> Self {
        if INTERIOR { Self::ALL } else { Self::at(r, rows) }
    }

    #[inline(always)]
    fn any(self, first: usize, _count: usize) -> bool {
        self.has(first)
    }
}

/// The same for a pass over `H` rows of a mask of `K` rows, as two comparisons for each group of rows.
///
/// For large masks a group of rows takes fewer instructions than a bit for each row.
#[derive(Clone, Copy)]
pub(crate) struct MaskRowRange<const K: usize, const H: usize> {
    /// The row of the strip's input.
    r: i32,
    /// `r - rows`.
    behind: i32,
}

impl<const K: usize, const H: usize> MaskRows for MaskRowRange<K, H> {
    const GROUP: usize = if H == K && H < 7 { H } else { H.div_ceil(4) };

    #[inline(always)]
    fn new<const INTERIOR: bool>(r: i32, rows: i32) -> Self {
        Self { r, behind: r - rows }
    }

    #[inline(always)]
    fn any(self, first: usize, count: usize) -> bool {
        // Without black_box LLVM derives one test from another, and clones the code for each first group.
        let r = thread::black_box(self.r as u32) as i32;
        let behind = thread::black_box(self.behind as u32) as i32;
        // `r >= first`: the output of row `first` is not above the strip. It always holds for row 0.
        // `behind < first + count - 1`: the output of the last row is not below the strip. It always holds for the
        // mask's last row.
        (first == 0 || r >= first as i32) & (first + count == H || behind + 1 < (first + count) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both types against the definition: row `k` contributes where `r - k` is a row of the strip.
    #[test]
    fn rows_contribute_where_their_output_lies_in_the_strip() {
        const K: usize = 9;
        type Range = MaskRowRange<K, K>;
        for rows in 1..40 {
            for r in 0..rows + K as i32 - 1 {
                let contributes = |k: usize| (0..rows).contains(&(r - k as i32));
                let bits = MaskRowBits::new::<false>(r, rows);
                let range = Range::new::<false>(r, rows);
                for k in 0..K {
                    assert_eq!(bits.any(k, 1), contributes(k), "row {r} of {rows}, bit {k}");
                    assert_eq!(range.any(k, 1), contributes(k), "row {r} of {rows}, range {k}");
                }
                for first in 0..=K - Range::GROUP {
                    let any = (first..first + Range::GROUP).any(contributes);
                    assert_eq!(range.any(first, Range::GROUP), any, "row {r} of {rows}, group {first}");
                }
                assert!(MaskRowBits::new::<true>(r, rows).any(K - 1, 1));
            }
        }
    }
}
