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
        Floats { non_temporal: false }
    }
}

/// Writes the sums themselves.
pub(super) struct Floats {
    non_temporal: bool,
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
            // SAFETY: `to` has room for N vectors, and with `non_temporal` each is aligned, as `Sink` requires.
            unsafe {
                let to = to.add(i * S::LANES);
                if self.non_temporal { simd.stream(to, vector) } else { simd.store(to, vector) }
            }
        }
    }

    #[inline(always)]
    fn use_non_temporal(&mut self, non_temporal: bool) {
        self.non_temporal = non_temporal;
    }
}

/// Rounds, and notes which sums are near the boundary between two integers.
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

macro_rules! integer_output {
    ($integer:ty, $store:ident) => {
        impl Output for $integer {
            type Sink<'a> = Integers<'a, $integer>;

            #[inline(always)]
            fn sink(uncertain: &mut Uncertain) -> Integers<'_, $integer> {
                Integers::new(uncertain)
            }
        }

        impl Integer for $integer {
            #[inline(always)]
            unsafe fn store<S: Simd, const N: usize>(simd: S, to: *mut $integer, values: &[S::Vector; N]) {
                // SAFETY: `to` has room for N vectors, as this function requires.
                unsafe { simd.$store(to, values) }
            }
        }
    };
}
integer_output!(u8, store_u8);
integer_output!(u16, store_u16);

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
        // SAFETY: `to` has room for N vectors, as this function requires.
        unsafe { U::store(simd, to, values) };
        if let Some(uncertain) = &mut self.uncertain {
            uncertain.note(simd, row, column / S::LANES, values);
        }
    }
}
