//! Scratch memory.

use std::marker::PhantomData;

use super::kernel::Scalar;

/// A cache line. Vectors that do not cross one are loaded at the full rate.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Values on whole cache lines, 0 at first. The memory is allocated where it is first used.
pub(super) struct Scratch<A> {
    lines: Vec<Line>,
    /// How many lines there are to be.
    count: usize,
    values: PhantomData<A>,
}

impl<A: Scalar> Scratch<A> {
    pub(super) fn new(values: usize) -> Self {
        let count = (values * size_of::<A>()).div_ceil(64);
        Self { lines: Vec::new(), count, values: PhantomData }
    }

    /// The first value. All bits 0 are the number 0, so every value is initialised.
    #[inline(always)]
    pub(super) fn as_mut_ptr(&mut self) -> *mut A {
        if self.lines.len() < self.count {
            self.lines = vec![Line([0; 64]); self.count];
        }
        self.lines.as_mut_ptr().cast()
    }
}
