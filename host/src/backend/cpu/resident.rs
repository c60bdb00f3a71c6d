//! An image that stays, for those who take the steps of a convolution one by one.

use super::{Planes, convolve_values};
use crate::compare::POISON;
use crate::image::{bytes_of_mut, same_type};
use crate::{Pixel, PixelType, Problem, Result};

/// Values of one of the three types.
#[derive(Debug)]
enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    F32(Vec<f32>),
}

macro_rules! each_type {
    ($values:expr, $inner:ident => $body:expr) => {
        match $values {
            Values::U8($inner) => $body,
            Values::U16($inner) => $body,
            Values::F32($inner) => $body,
        }
    };
}

impl Values {
    /// A copy of `values`.
    fn copied<T: Pixel>(values: &[T]) -> Self {
        let mut copy = Self::poisoned(T::TYPE, 0);
        each_type!(&mut copy, inner => inner.extend_from_slice(same_type(values).unwrap_or_default()));
        copy
    }

    /// `length` values that are [`POISON`] where the type has it.
    fn poisoned(kind: PixelType, length: usize) -> Self {
        let mut values = match kind {
            PixelType::U8 => Self::U8(vec![0; length]),
            PixelType::U16 => Self::U16(vec![0; length]),
            PixelType::F32 => Self::F32(vec![0.0; length]),
        };
        let bytes = each_type!(&mut values, inner => bytes_of_mut(inner));
        for (byte, poison) in bytes.iter_mut().zip(POISON.to_ne_bytes().into_iter().cycle()) {
            *byte = poison;
        }
        values
    }
}

/// An image and its result.
#[derive(Debug)]
pub(crate) struct Resident {
    source: Values,
    result: Values,
}

impl Resident {
    /// Keeps `source`, and a poisoned result.
    pub(crate) fn new<T: Pixel>(problem: &Problem, source: &[T]) -> Self {
        Self { source: Values::copied(source), result: Values::poisoned(problem.layout().output, source.len()) }
    }

    /// Computes.
    ///
    /// # Errors
    /// As for [`convolve_values`].
    pub(crate) fn execute(&mut self, problem: &Problem, planes: &mut Planes) -> Result<()> {
        each_type!(&self.source, source => {
            each_type!(&mut self.result, result => convolve_values(problem, source, result, planes))
        })
    }

    /// The result, if its values are of this type.
    pub(crate) fn result<U: Pixel>(&self) -> Option<&[U]> {
        each_type!(&self.result, result => same_type(result))
    }
}
