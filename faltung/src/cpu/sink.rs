//! What becomes of finished sums: `f32` as they are, integers rounded.

use std::marker::PhantomData;

use super::panel::{Limits, Uncertain};
use super::simd::Simd;
use super::tile::Sink;
use crate::Pixel;

/// A type of results.
pub(super) trait Output: Pixel {
    /// What writes them.
    type Sink<'a>: Sink<Value = Self>;

    /// The sink for a band. It adds to `uncertain` which results are.
    fn sink(uncertain: &mut Uncertain) -> Self::Sink<'_>;
}

impl Output for f32 {
    type Sink<'a> = Floats;

    #[inline(always)]
    fn sink(_: &mut Uncertain) -> Floats {
        Floats { stream: false }
    }
}

impl Output for u8 {
    type Sink<'a> = Integers<'a, u8>;

    #[inline(always)]
    fn sink(uncertain: &mut Uncertain) -> Integers<'_, u8> {
        Integers::new(uncertain)
    }
}

impl Output for u16 {
    type Sink<'a> = Integers<'a, u16>;

    #[inline(always)]
    fn sink(uncertain: &mut Uncertain) -> Integers<'_, u16> {
        Integers::new(uncertain)
    }
}

/// Writes the sums themselves.
pub(super) struct Floats {
    stream: bool,
}

impl Sink for Floats {
    type Value = f32;

    #[inline(always)]
    unsafe fn put<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        values: &[S::Vector; N],
        to: *mut f32,
        _: usize,
        _: usize,
    ) {
        for (i, &vector) in values.iter().enumerate() {
            // SAFETY: the caller's promise; aligned if it asked for a stream.
            unsafe {
                let to = to.add(i * S::LANES);
                if self.stream { simd.stream(to, vector) } else { simd.store(to, vector) }
            }
        }
    }

    #[inline(always)]
    fn stream(&mut self, past_caches: bool) {
        self.stream = past_caches;
    }
}

/// Rounds, and notes which sums are near the boundary between two whole numbers.
pub(super) struct Integers<'a, U> {
    /// None if all results are certain.
    uncertain: Option<&'a mut Uncertain>,
    type_of: PhantomData<U>,
}

impl<'a, U> Integers<'a, U> {
    fn new(uncertain: &'a mut Uncertain) -> Self {
        Self { uncertain: (uncertain.limits != Limits::NONE).then_some(uncertain), type_of: PhantomData }
    }
}

/// An integer type of results.
pub(super) trait Integer: Copy {
    /// Writes `N` vectors, rounded and saturated.
    ///
    /// # Safety
    /// `to` is valid for writes of as many values.
    unsafe fn store<S: Simd, const N: usize>(simd: S, to: *mut Self, values: &[S::Vector; N]);
}

impl Integer for u8 {
    #[inline(always)]
    unsafe fn store<S: Simd, const N: usize>(simd: S, to: *mut u8, values: &[S::Vector; N]) {
        // SAFETY: the caller's promise.
        unsafe { simd.store_u8(to, values) }
    }
}

impl Integer for u16 {
    #[inline(always)]
    unsafe fn store<S: Simd, const N: usize>(simd: S, to: *mut u16, values: &[S::Vector; N]) {
        // SAFETY: the caller's promise.
        unsafe { simd.store_u16(to, values) }
    }
}

impl<U: Integer> Sink for Integers<'_, U> {
    type Value = U;

    #[inline(always)]
    unsafe fn put<S: Simd, const N: usize>(
        &mut self,
        simd: S,
        values: &[S::Vector; N],
        to: *mut U,
        row: usize,
        column: usize,
    ) {
        // SAFETY: the caller promises the memory.
        unsafe { U::store(simd, to, values) };
        if let Some(uncertain) = &mut self.uncertain {
            for (i, &vector) in values.iter().enumerate() {
                uncertain.note(row, column / S::LANES + i, uncertain.limits.uncertain(simd, vector));
            }
        }
    }
}
