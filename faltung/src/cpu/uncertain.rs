//! Which integer results are uncertain, and how far from an integer a result may be to be certain.

use std::ops::Range;

use super::panel::tile_width;
use super::simd::{Level, Simd};
use super::tile::ROWS;

/// The largest distance from an integer at which a result is certain. The ordered sum of a more distant result may
/// round to another integer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Of any result. Infinity if all are certain.
    pub(super) any: f32,
    /// Of results below [`HALF`](Self::HALF). Their sums are smaller, so they round in smaller steps.
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
        if self.below_half > self.any {
            far &= !simd.below(results, Self::HALF) | simd.far_from_whole(results, self.below_half);
            far &= !simd.below(results, Self::QUARTER) | simd.far_from_whole(results, self.below_quarter);
        }
        far
    }
}

/// Which results of a band are uncertain: they could round to another whole number if they were computed in order.
/// Each band overwrites the notes of the band before it.
#[derive(Debug)]
pub(super) struct Uncertain {
    limits: Limits,
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
    /// All results are certain. Nothing is noted.
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

    /// From now on also keeps the unrounded results of each vector that has an uncertain one.
    pub(super) fn keep_values(&mut self) {
        self.values.resize(self.lanes.len() * self.of_vector, 0.0);
    }

    /// The uncertain result of a place, if they are kept.
    pub(super) fn value(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.vectors * self.of_vector + column]
    }

    /// Where to note uncertain results; None if all are certain.
    pub(super) fn notes(&mut self) -> Option<&mut Self> {
        (self.vectors != 0).then_some(self)
    }

    /// Whether there is room for `width` columns of each row, in vectors of `lanes` lanes. None is needed where all
    /// results are certain.
    pub(super) fn has_room(&self, lanes: usize, width: usize) -> bool {
        self.vectors == 0 || self.of_vector == lanes && self.vectors * lanes >= width
    }

    /// Notes which lanes of `N` vectors of row `row` are uncertain, from vector `vector` on.
    ///
    /// # Safety
    /// `self` comes from [`notes`](Self::notes). There is [room](Self::has_room) for the vectors, of `LANES` lanes, and
    /// `row` is below [`ROWS`].
    #[inline(always)]
    pub(super) unsafe fn note<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        row: usize,
        vector: usize,
        results: &[S::Vector; N],
    ) {
        let at = row * self.vectors + vector;
        debug_assert!(at + N <= self.lanes.len());
        // SAFETY: there is room, as this function requires; there are ROWS rows.
        let lanes = unsafe { &mut *self.lanes.as_mut_ptr().add(at).cast::<[u16; N]>() };
        // Where few results are uncertain, most vectors have none. Otherwise the branch would often be mispredicted.
        if self.limits.any > FEW && !simd.any_far_from_whole(results, self.limits.any) {
            *lanes = [0; N];
            return;
        }
        for (lanes, &results) in lanes.iter_mut().zip(results) {
            *lanes = self.limits.uncertain(simd, results);
        }
        if self.values.is_empty() {
            return;
        }
        for (i, (&lanes, &results)) in lanes.iter().zip(results).enumerate() {
            if lanes != 0 {
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

/// A limit above this leaves less than one result in 250 uncertain.
const FEW: f32 = 0.498;
