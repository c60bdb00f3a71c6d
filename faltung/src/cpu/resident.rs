//! An image that stays, for those who take the steps of a convolution one by one.

use super::{Planes, convolve_values};
use crate::POISON;
use crate::image::{bytes_of_mut, same_type};
use crate::{Pixel, PixelType, Problem, Result, memory};

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
    fn copied<T: Pixel>(values: &[T]) -> Result<Self> {
        let mut copy = Self::poisoned(T::TYPE, values.len())?;
        each_type!(&mut copy, inner => inner.copy_from_slice(same_type(values).unwrap_or_default()));
        Ok(copy)
    }

    /// `length` values that are [`POISON`] where the type has it.
    fn poisoned(kind: PixelType, length: usize) -> Result<Self> {
        const WHAT: &str = "for an image that stays";
        let mut values = match kind {
            PixelType::U8 => Self::U8(memory::zeros(length, WHAT)?),
            PixelType::U16 => Self::U16(memory::zeros(length, WHAT)?),
            PixelType::F32 => Self::F32(memory::zeros(length, WHAT)?),
        };
        let bytes = each_type!(&mut values, inner => bytes_of_mut(inner));
        for (byte, poison) in bytes.iter_mut().zip(POISON.to_ne_bytes().into_iter().cycle()) {
            *byte = poison;
        }
        Ok(values)
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
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn new<T: Pixel>(problem: &Problem, source: &[T]) -> Result<Self> {
        let result = Values::poisoned(problem.layout().output, source.len())?;
        Ok(Self { source: Values::copied(source)?, result })
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
