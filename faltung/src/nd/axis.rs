//! An axis of an array that is filtered.

use super::{Input, Output};

/// An axis in both arrays.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) length: usize,
    /// Bytes from one element of the input to the next.
    pub(super) from: isize,
    /// Bytes from one element of the output to the next.
    pub(super) to: isize,
}

impl Axis {
    /// An axis of one element.
    pub(super) const ONE: Self = Self { length: 1, from: 0, to: 0 };

    /// Axis `number` of both arrays, which have the same shape.
    pub(super) fn of(input: &Input<'_>, output: &Output<'_>, number: usize) -> Self {
        let (input, output) = (&input.layout, &output.layout);
        Self { length: input.shape[number], from: input.strides[number], to: output.strides[number] }
    }
}

/// The bytes from the first element of the input, and from that of the output, to element `number` of these axes. The
/// last axis counts first.
pub(super) fn offsets(axes: &[Axis], mut number: usize) -> (isize, isize) {
    let (mut from, mut to) = (0, 0);
    for axis in axes.iter().rev() {
        let i = (number % axis.length) as isize;
        number /= axis.length;
        from += i * axis.from;
        to += i * axis.to;
    }
    (from, to)
}

/// The elements that a result reads before its own place, with a filter of this size and origin.
///
/// # Panics
/// If it would read none of its own place: if [`check_size`](super::check_size) refuses them.
pub(super) fn before(size: usize, origin: isize) -> usize {
    (size / 2).strict_add_signed(origin)
}
