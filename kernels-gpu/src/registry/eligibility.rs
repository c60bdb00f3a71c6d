//! What an entry is asked, and why it may be ineligible.

use core::fmt;

use super::{Entry, MaskForm, MaskMemory, MaskSize, Variant};
use crate::abi::pixel::PixelType;
use crate::separable::error_bound::MASK_ERROR;
use crate::teaching::constant_mask::MASK;
use cuda_std::prelude::*;

/// A problem and a device, as far as an entry needs to know them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Width and height of the mask.
    pub mask: (u32, u32),
    /// The window begins this many columns left of the output.
    pub origin_x: i32,
    /// The side of the smallest odd square that holds the mask, with the output in its middle column.
    ///
    /// `None` if zeros around the mask could change a result: for `f32` images or results, and for a border value that
    /// is not finite.
    pub padded_side: Option<u32>,
    /// The least and the largest binary exponent of the coefficients of the mask's row and column factors, zeros left
    /// out. None where the mask is not separable to within [`MASK_ERROR`].
    pub factor_exponents: Option<(i32, i32)>,
    /// The fraction of uncertain results of [`tensor_core_u8`](crate::tensor_core_u8); 1 if it has no fixed-point form.
    pub uncertain: f32,
    /// The same of its [`separable`](crate::tensor_core_u8::separable) kernels.
    pub separable_uncertain: f32,
    /// The type of the image's values.
    pub pixel: PixelType,
    /// The type of the result's values.
    pub result: PixelType,
    /// The most shared memory of a block, in bytes.
    pub shared_limit: u64,
    /// The value outside of the image, where it is constant.
    pub border_value: Option<f32>,
    /// The device's compute capability, major and minor.
    pub compute_capability: (u32, u32),
}

/// Why an entry can't compute a problem. The fields hold what is required and what was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ineligible {
    /// The variant has no entry for images of this type and number of channels.
    PixelFormat {
        /// A format that it has entries for.
        required: (PixelType, u32),
        /// The image's.
        found: (PixelType, u32),
    },
    /// The entry does not make results of this type.
    Result {
        /// Those that it makes.
        required: &'static [PixelType],
        /// The type asked for.
        found: PixelType,
    },
    /// The mask has a size that the variant has no entry for.
    MaskSize {
        /// The variant.
        variant: Variant,
        /// The image's type and channels.
        format: (PixelType, u32),
        /// Width and height of the mask.
        found: (u32, u32),
    },
    /// The mask is not separable.
    NotSeparable,
    /// A property of the problem lies outside of the range that the variant is made for.
    Range {
        /// The property, with its unit.
        property: &'static str,
        /// The least and the largest value.
        required: (f32, f32),
        /// The problem's least and largest value.
        found: (f32, f32),
    },
    /// Integers can't be made of the entry's results, which are not bit-exact.
    Proof {
        /// What that requires.
        property: &'static str,
    },
    /// Too many results would be computed twice, to make integers of results that are not bit-exact.
    Uncertain {
        /// The largest part of all results.
        most: f32,
        /// The part that is expected.
        found: f32,
    },
    /// The mask does not fit constant memory.
    ConstantMemory {
        /// Coefficients that fit.
        most: u64,
        /// Coefficients of the mask.
        found: u64,
    },
    /// The border's value is no value of the image's type.
    BorderValue {
        /// The type.
        required: PixelType,
        /// The value.
        found: f32,
    },
    /// The device is older than the instructions of the entry.
    ComputeCapability {
        /// The oldest that has them, major and minor.
        required: (u32, u32),
        /// The device's.
        found: (u32, u32),
    },
    /// What a block keeps in shared memory does not fit.
    SharedMemory {
        /// Bytes that a block of the device can have.
        most: u64,
        /// Bytes that the entry's block takes.
        needed: u64,
    },
}

impl Entry {
    /// Whether the entry can compute what is asked for, on images of its type and channels.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn eligibility(&self, request: &Request) -> Result<(), Ineligible> {
        let spec = self.variant.spec();
        let results = (spec.results)(self.pixel);
        if !results.contains(&request.result) {
            return Err(Ineligible::Result { required: results, found: request.result });
        }
        let Some(mask) = self.mask_for(request) else {
            let format = (self.pixel, self.channels);
            return Err(Ineligible::MaskSize { variant: self.variant, format, found: request.mask });
        };
        if request.compute_capability < self.compute_capability {
            let (required, found) = (self.compute_capability, request.compute_capability);
            return Err(Ineligible::ComputeCapability { required, found });
        }
        if let Some(found) = request.border_value
            && (spec.border_is_pixel)(self.pixel)
            && !self.pixel.holds(found)
        {
            return Err(Ineligible::BorderValue { required: self.pixel, found });
        }
        if matches!(spec.mask_form, MaskForm::Factors(_) | MaskForm::ProvenFactors(_) | MaskForm::SeparableFixedPoint)
            && request.factor_exponents.is_none()
        {
            return Err(Ineligible::NotSeparable);
        }
        (spec.requirement)(request)?;
        let (most, found) = (MASK::LENGTH as u64, self.coefficients(mask));
        if spec.mask_memory == MaskMemory::Constant && found > most {
            return Err(Ineligible::ConstantMemory { most, found });
        }
        let (most, needed) = (request.shared_limit, self.shared_bytes(mask));
        if needed > most {
            return Err(Ineligible::SharedMemory { most, needed });
        }
        Ok(())
    }

    /// The mask that the entry computes with: the requested one, or a square with zeros around it. None if the entry
    /// does not take the mask.
    fn mask_for(&self, request: &Request) -> Option<(u32, u32)> {
        match self.mask {
            MaskSize::Any => Some(request.mask),
            MaskSize::Square(side) => {
                let is_padded = request.padded_side.is_some_and(|least| least <= side);
                (request.mask == (side, side) || is_padded).then_some((side, side))
            }
            MaskSize::Class(class) => {
                let of = self.variant.spec().mask_class?;
                (of.contains)(class, request.mask, request.origin_x).then_some(request.mask)
            }
        }
    }
}

/// Writes the masks that a variant's entries for a format take.
fn write_masks(f: &mut fmt::Formatter<'_>, variant: Variant, format: (PixelType, u32)) -> fmt::Result {
    let of_format = || variant.entries().filter(move |entry| (entry.pixel, entry.channels) == format);
    let mut separator = "made for square masks of side ";
    for entry in of_format() {
        if let MaskSize::Square(side) = entry.mask {
            write!(f, "{separator}{side}")?;
            separator = ", ";
        }
    }
    let has_squares = separator == ", ";
    match variant.spec().mask_class {
        Some(class) if of_format().any(|entry| matches!(entry.mask, MaskSize::Class(_))) => {
            write!(f, "{}{}", if has_squares { ", and for " } else { "made for " }, class.masks)
        }
        _ => Ok(()),
    }
}

impl fmt::Display for Ineligible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PixelFormat { required, found } => {
                write!(f, "made for images of {} x {}", required.0.name(), required.1)?;
                write!(f, ", this one is {} x {}", found.0.name(), found.1)
            }
            Self::Result { required, found } => {
                f.write_str("makes results of ")?;
                for (i, kind) in required.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { " or " } else { "" }, kind.name())?;
                }
                write!(f, ", not {}", found.name())
            }
            Self::MaskSize { variant, format, found } => {
                write_masks(f, variant, format)?;
                write!(f, "; this one is {} x {}", found.0, found.1)
            }
            Self::NotSeparable => {
                write!(f, "the mask is not separable to within {MASK_ERROR} * 2^-24 of each coefficient")
            }
            Self::Range { property, required, found } => {
                let range = |(least, most): (f32, f32)| {
                    core::fmt::from_fn(move |f| {
                        if least == most { write!(f, "{least}") } else { write!(f, "{least} to {most}") }
                    })
                };
                write!(f, "{property}: required {}, found {}", range(required), range(found))
            }
            Self::Proof { property } => write!(f, "to make integers of its results, {property}"),
            Self::Uncertain { most, found } => {
                let [most, found] = [most, found].map(|part| 100.0 * part);
                write!(f, "about {found:.0} % of the results would be recomputed in order, at most {most} % may be")
            }
            Self::ConstantMemory { most, found } => {
                write!(f, "constant memory holds {most} coefficients, the mask has {found}")
            }
            Self::BorderValue { required, found } => {
                let most = if matches!(required, PixelType::U8) { u8::MAX.into() } else { u16::MAX };
                write!(f, "a constant border must be a whole number from 0 to {most}, not {found}")
            }
            Self::ComputeCapability { required, found } => {
                write!(f, "made for compute capability {}.{} or later, ", required.0, required.1)?;
                write!(f, "the device has {}.{}", found.0, found.1)
            }
            Self::SharedMemory { most, needed } => {
                write!(f, "a block of this device has at most {most} bytes of shared memory, the kernel needs {needed}")
            }
        }
    }
}
