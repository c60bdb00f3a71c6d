//! What an entry is asked, and why it may refuse.

use crate::entries::{ENTRIES, MaskSize, Variant};
use crate::pixel::PixelType;
use crate::separable;

/// A problem and a device, as far as an entry needs to know them to say whether it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Width and height of the mask.
    pub mask: (u32, u32),
    /// Whether the mask is a column times a row, to within [`separable::MASK_ERROR`].
    pub separable: bool,
    /// The type of the result's values.
    pub result: PixelType,
    /// The most shared memory of a block, in bytes.
    pub shared_limit: u64,
}

/// Why an entry can't compute a problem. Required and actual are in the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The variant has no entry for images of this type and number of channels.
    OtherValues {
        /// What it has entries for.
        made_for: (PixelType, u32),
        /// The image's.
        found: (PixelType, u32),
    },
    /// The entry makes results of one type only.
    OtherResult {
        /// That type.
        made_for: PixelType,
        /// The type asked for.
        found: PixelType,
    },
    /// The mask has another size than those the variant is made for.
    OtherMaskSize {
        /// The variant.
        variant: Variant,
        /// Width and height of the mask.
        found: (u32, u32),
    },
    /// The mask is not a column times a row.
    NotSeparable,
    /// The mask does not fit constant memory.
    TooManyCoefficients {
        /// Coefficients that fit.
        most: u64,
        /// Coefficients of the mask.
        found: u64,
    },
    /// The block's tile does not fit shared memory.
    TooMuchSharedMemory {
        /// Bytes that a block of the device can have.
        most: u64,
        /// Bytes that the tile takes.
        needed: u64,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::OtherValues { made_for, found } => {
                write!(f, "made for images of {} x {}", made_for.0.name(), made_for.1)?;
                write!(f, ", this one is {} x {}", found.0.name(), found.1)
            }
            Self::OtherResult { made_for, found } => {
                write!(f, "makes results of {}, not {}", made_for.name(), found.name())
            }
            Self::OtherMaskSize { variant, found } => {
                f.write_str("made for square masks of side ")?;
                let sides =
                    ENTRIES.iter().filter(|entry| entry.variant == variant).filter_map(|entry| match entry.mask {
                        MaskSize::Any => None,
                        MaskSize::Square(side) => Some(side),
                    });
                for (i, side) in sides.enumerate() {
                    write!(f, "{}{side}", if i > 0 { ", " } else { "" })?;
                }
                write!(f, ", this one is {} x {}", found.0, found.1)
            }
            Self::NotSeparable => write!(
                f,
                "the mask is no column times a row to within {} * 2^-24 of each coefficient",
                separable::MASK_ERROR
            ),
            Self::TooManyCoefficients { most, found } => {
                write!(f, "constant memory holds {most} coefficients, the mask has {found}")
            }
            Self::TooMuchSharedMemory { most, needed } => {
                write!(f, "a block of this device has at most {most} bytes of shared memory, the tile takes {needed}")
            }
        }
    }
}
