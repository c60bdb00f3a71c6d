//! What an entry is asked, and why it may refuse.

use crate::abi::pixel::PixelType;
use crate::registry::{ENTRIES, MaskSize, Variant};
use crate::separable::{error_bound as separable, tensor_core as separable_tensor};
use crate::tensor_core_u8 as tensor;

/// A problem and a device, as far as an entry needs to know them to say whether it can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Width and height of the mask.
    pub mask: (u32, u32),
    /// By how many columns its window begins before an output's pixel.
    pub origin_x: i32,
    /// The side of the smallest square with an odd side and the output pixel below its middle column that holds the mask. Only where
    /// zeros around the mask change no result: where all values are whole numbers, and so finite.
    pub padded: Option<u32>,
    /// Whether the mask is a column times a row, to within [`separable::MASK_ERROR`].
    pub separable: bool,
    /// The least and the largest exponent of the coefficients of its row and of its column, but for zeros.
    pub exponents: (i32, i32),
    /// What part of the results is not certain from a sum in fixed point; 1 if there is none.
    pub uncertain: f32,
    /// The type of the result's values.
    pub result: PixelType,
    /// The most shared memory of a block, in bytes.
    pub shared_limit: u64,
    /// The value outside of the image, where it is constant.
    pub border_value: Option<f32>,
    /// The device's compute capability, major and minor.
    pub compute_capability: (u32, u32),
}

impl Request {
    /// Whether the mask may be made one of `side` x `side` by zeros around it.
    #[must_use]
    pub const fn fits(&self, side: u32) -> bool {
        matches!(self.padded, Some(least) if least <= side)
    }
}

/// Why an entry can't compute a problem. Required and actual are in the fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ineligible {
    /// The variant has no entry for images of this type and number of channels.
    OtherValues {
        /// What it has entries for.
        made_for: (PixelType, u32),
        /// The image's.
        found: (PixelType, u32),
    },
    /// The entry does not make results of this type.
    OtherResult {
        /// Those that it makes.
        made_for: &'static [PixelType],
        /// The type asked for.
        found: PixelType,
    },
    /// The mask has another size than those the variant is made for.
    OtherMaskSize {
        /// The variant.
        variant: Variant,
        /// The image's type and channels.
        values: (PixelType, u32),
        /// Width and height of the mask.
        found: (u32, u32),
    },
    /// The mask is not a column times a row.
    NotSeparable,
    /// Coefficients of the row or the column of the mask are too small or too large to be exact enough in two parts:
    /// [`separable_tensor::EXPONENTS`].
    Exponents {
        /// Those of the smallest one but for zeros and of the largest.
        found: (i32, i32),
    },
    /// From a sum in fixed point, which has only so many digits, too few bytes of the result would be certain.
    Uncertain {
        /// What part would not be.
        found: f32,
    },
    /// The mask does not fit constant memory.
    TooManyCoefficients {
        /// Coefficients that fit.
        most: u64,
        /// Coefficients of the mask.
        found: u64,
    },
    /// The border's value is no pixel of the image's type.
    BorderValue {
        /// The type.
        required: PixelType,
        /// The value.
        found: f32,
    },
    /// The device is older than the instructions that the entry has.
    OlderDevice {
        /// The oldest compute capability, major and minor, that has them.
        required: (u32, u32),
        /// The device's.
        found: (u32, u32),
    },
    /// The block's tile does not fit shared memory.
    TooMuchSharedMemory {
        /// Bytes that a block of the device can have.
        most: u64,
        /// Bytes that the tile takes.
        needed: u64,
    },
}

impl core::fmt::Display for Ineligible {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::OtherValues { made_for, found } => {
                write!(f, "made for images of {} x {}", made_for.0.name(), made_for.1)?;
                write!(f, ", this one is {} x {}", found.0.name(), found.1)
            }
            Self::OtherResult { made_for, found } => {
                f.write_str("makes results of ")?;
                for (i, kind) in made_for.iter().enumerate() {
                    write!(f, "{}{}", if i > 0 { " or " } else { "" }, kind.name())?;
                }
                write!(f, ", not {}", found.name())
            }
            Self::OtherMaskSize { variant, values, found } => {
                if let Variant::SeparableTensor = variant {
                    let blocks =
                        ENTRIES.iter().filter(|entry| entry.variant == variant).map(|entry| entry.mask.blocks());
                    let most = 8 * blocks.max().unwrap_or(0) - 7;
                    write!(f, "made for masks of up to {most} columns and rows, with some anchors a column less, ")?;
                    return write!(f, "this one is {} x {}", found.0, found.1);
                }
                f.write_str("made for square masks of side ")?;
                let sides = ENTRIES
                    .iter()
                    .filter(|entry| entry.variant == variant && (entry.pixel, entry.channels) == values)
                    .filter_map(|entry| match entry.mask {
                        MaskSize::Any | MaskSize::Reach(_) | MaskSize::Blocks(_) => None,
                        MaskSize::Square(side) => Some(side),
                    });
                for (i, side) in sides.enumerate() {
                    write!(f, "{}{side}", if i > 0 { ", " } else { "" })?;
                }
                let reaches =
                    ENTRIES.iter().filter(|entry| entry.variant == variant).filter_map(|entry| match entry.mask {
                        MaskSize::Reach(reach) => Some(reach),
                        MaskSize::Any | MaskSize::Square(_) | MaskSize::Blocks(_) => None,
                    });
                if let Some(most) = reaches.max() {
                    write!(f, " and any of 2 to {} rows", most + 1)?;
                }
                write!(f, ", this one is {} x {}", found.0, found.1)
            }
            Self::NotSeparable => write!(
                f,
                "the mask is no column times a row to within {} * 2^-24 of each coefficient",
                separable::MASK_ERROR
            ),
            Self::Exponents { found } => {
                let (least, most) = separable_tensor::EXPONENTS;
                write!(f, "made for masks whose row and column have coefficients from 2^{least} to 2^{most}, ")?;
                write!(f, "these are 2^{} to 2^{}", found.0, found.1)
            }
            Self::Uncertain { found } => {
                let (most, found) = (100.0 * tensor::MAX_UNCERTAIN_FRACTION, 100.0 * found);
                write!(f, "of the sums in fixed point {found:.1} % would not decide a byte, {most} % may be")
            }
            Self::TooManyCoefficients { most, found } => {
                write!(f, "constant memory holds {most} coefficients, the mask has {found}")
            }
            Self::BorderValue { required, found } => {
                let most = if matches!(required, PixelType::U8) { u8::MAX.into() } else { u16::MAX };
                write!(f, "a constant border must be a whole number from 0 to {most}, not {found}")
            }
            Self::OlderDevice { required, found } => {
                write!(f, "made for compute capability {}.{} or later, ", required.0, required.1)?;
                write!(f, "the device has {}.{}", found.0, found.1)
            }
            Self::TooMuchSharedMemory { most, needed } => {
                write!(f, "a block of this device has at most {most} bytes of shared memory, the tile takes {needed}")
            }
        }
    }
}
