//! A kernel that can be launched, and the macro that makes the entries of a variant.

use cuda_std::prelude::*;

use super::{Grid, MaskForm, Occupancy, Variant};
use crate::abi::kernel::{Kernel, Parameter};
use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::fft::{self, layout, passes};

/// The masks that an entry takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaskSize {
    /// Any width and height.
    Any,
    /// One square size, for which the loops are unrolled.
    Square(u32),
    /// A size class. [`Spec::mask_class`](super::Spec::mask_class) says which masks belong to it; the number is the
    /// kernel's const parameter.
    Class(u32),
}

/// A kernel that can be launched.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The symbol in the PTX. The module of the PTX that holds the entry has the same name.
    pub symbol: &'static str,
    /// How it computes.
    pub variant: Variant,
    /// The type of the image's values.
    pub pixel: PixelType,
    /// Interleaved channels of a pixel.
    pub channels: u32,
    /// The masks that it takes.
    pub mask: MaskSize,
    /// The compute capability, major and minor, that the entry is compiled for: the oldest with its instructions.
    pub compute_capability: (u32, u32),
    /// The kernel as a function of the host, for an executor to run.
    #[cfg(not(target_arch = "nvptx64"))]
    pub function: Function,
}

/// Entries are the same if their symbols are.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.symbol == other.symbol
    }
}

impl Eq for Entry {}

/// An entry compiled for the host. The variants differ in the type of the image. Arguments: source, result, mask,
/// params.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// Of `u8`.
    U8(unsafe fn(Global<u8>, OutputPtr, Global<f32>, Params)),
    /// Of `u16`.
    U16(unsafe fn(Global<u16>, OutputPtr, Global<f32>, Params)),
    /// Of `f32`.
    F32(unsafe fn(Global<f32>, OutputPtr, Global<f32>, Params)),
}

impl Entry {
    /// The PTX module that holds the entry. The driver compiles a module when it is loaded, so each entry has its own.
    #[must_use]
    pub const fn module(&self) -> &'static str {
        self.symbol
    }

    /// The side of the square masks that the entry is made for, 0 for entries that take other masks.
    #[must_use]
    pub const fn side(&self) -> u32 {
        match self.mask {
            MaskSize::Square(side) => side,
            MaskSize::Any | MaskSize::Class(_) => 0,
        }
    }

    /// The class of masks that the entry is made for, 0 for entries that take other masks.
    #[must_use]
    pub const fn class(&self) -> u32 {
        match self.mask {
            MaskSize::Class(class) => class,
            MaskSize::Any | MaskSize::Square(_) => 0,
        }
    }

    /// Whether the entry is for images of one `f32` a pixel.
    #[must_use]
    pub const fn is_plane(&self) -> bool {
        matches!((self.pixel, self.channels), (PixelType::F32, 1))
    }

    /// Width and height of a mask that the entry takes, for tests.
    #[must_use]
    pub fn example_mask(&self) -> (u32, u32) {
        match (self.mask, self.variant.spec().mask_class) {
            (MaskSize::Square(side), _) => (side, side),
            (MaskSize::Class(class), Some(of)) => (of.example)(class),
            (MaskSize::Any | MaskSize::Class(_), _) => match self.variant.spec().mask_form {
                MaskForm::SpectrumOfPasses => (512, 2),
                MaskForm::Rows(_)
                | MaskForm::Factors(_)
                | MaskForm::ProvenFactors(_)
                | MaskForm::FixedPoint
                | MaskForm::SeparableFixedPoint
                | MaskForm::Spectrum => (3, 3),
            },
        }
    }

    /// Threads of a block in x and y.
    #[must_use]
    pub fn block(&self) -> (u32, u32) {
        (self.variant.spec().block)(self)
    }

    /// See [`Spec::outputs`](super::Spec::outputs).
    #[must_use]
    pub fn outputs(&self, mask: (u32, u32)) -> (u32, u32) {
        (self.variant.spec().outputs)(self, mask)
    }

    /// The dynamic shared memory of a block for a mask, in bytes.
    #[must_use]
    pub fn shared_bytes(&self, mask: (u32, u32)) -> u64 {
        (self.variant.spec().shared_bytes)(self, mask)
    }

    /// The values that the kernel reads for a mask: all coefficients, those of the two factors, or those of a spectrum.
    #[must_use]
    pub fn coefficients(&self, mask: (u32, u32)) -> u64 {
        let (width, height) = (u64::from(mask.0), u64::from(mask.1));
        match self.variant.spec().mask_form {
            MaskForm::Rows(_) | MaskForm::FixedPoint | MaskForm::SeparableFixedPoint => width * height,
            MaskForm::Factors(_) => width + height,
            MaskForm::ProvenFactors(places) => places(self, mask, 0).length(mask.1).into(),
            MaskForm::Spectrum => layout::length(mask) as u64,
            MaskForm::SpectrumOfPasses => passes::layout::length(mask) as u64,
        }
    }

    /// The first row of a launch must be a multiple of this. Otherwise its last bits may differ from those of one
    /// launch over the whole image.
    #[must_use]
    pub fn launch_row_alignment(&self, mask: (u32, u32)) -> u32 {
        match self.variant.spec().grid {
            // Its sums depend on where its tiles begin.
            Grid::Tiles | Grid::ChannelTiles => match self.variant.spec().mask_form {
                MaskForm::Spectrum => fft::tile::valid(mask).1,
                MaskForm::SpectrumOfPasses => passes::valid(mask).1,
                MaskForm::Rows(_)
                | MaskForm::Factors(_)
                | MaskForm::ProvenFactors(_)
                | MaskForm::FixedPoint
                | MaskForm::SeparableFixedPoint => 1,
            },
            Grid::Partition(partition) => partition.launch_row_alignment,
        }
    }

    /// `gridDim.x` for an image of `width` pixels in a row.
    #[must_use]
    pub fn blocks_across(&self, mask: (u32, u32), width: u32) -> u32 {
        let (columns, _) = self.outputs(mask);
        match self.variant.spec().grid {
            Grid::Tiles | Grid::Partition(_) => {
                let pixels = width.next_multiple_of(self.variant.spec().pixels_together);
                (pixels * self.channels).div_ceil(columns)
            }
            Grid::ChannelTiles => (width.div_ceil(columns / 2) * self.channels).div_ceil(2),
        }
    }

    /// `gridDim.y`, at most `most`, for a grid that partitions `rows` rows of an image. None for grids of tiles.
    ///
    /// `gridDim.x` is `blocks_across`. The device has `sm_count` multiprocessors with `shared_per_sm` bytes of shared
    /// memory each.
    ///
    /// A *wave* is as many blocks as the device holds at a time. The blocks fill the waves that the kernel asks for, as
    /// far as whole rows of blocks do. Where more than a quarter of the waves would stay empty, the kernel may have up
    /// to two more waves. The number that takes the least time is taken: the waves, times the rows that a block reads.
    #[must_use]
    pub fn grid_dim_y(
        &self,
        mask: (u32, u32),
        (rows, most): (u32, u32),
        blocks_across: u32,
        (sm_count, shared_per_sm): (u32, u64),
    ) -> Option<u32> {
        /// Shared memory that each block takes for the system, in bytes.
        const RESERVED: u64 = 1024;
        let Grid::Partition(partition) = self.variant.spec().grid else { return None };
        let Occupancy { blocks_per_sm, waves } = (partition.occupancy)(self, mask);
        let fitting = shared_per_sm / (self.shared_bytes(mask) + RESERVED);
        let resident = u64::from(sm_count) * fitting.clamp(1, blocks_per_sm.into());
        let most = rows.div_ceil((partition.least_rows)(self, mask.1)).min(most);
        let across = u64::from(blocks_across);
        let of_waves = |waves: u32| (u64::from(waves) * resident / across).clamp(1, most.into());
        let in_waves = |dim: u64| (dim * across).div_ceil(resident);
        let dim = of_waves(waves);
        let is_filled = 4 * dim * across >= 3 * resident * in_waves(dim);
        let time = |&dim: &u64| in_waves(dim) * (u64::from(rows).div_ceil(dim) + u64::from(mask.1));
        let dim = if is_filled { dim } else { (waves..=waves + 2).map(of_waves).min_by_key(time).unwrap_or(dim) };
        Some(dim as u32)
    }

    /// The entry as the PTX must hold it.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        let spec = self.variant.spec();
        Kernel {
            symbol: self.symbol,
            module: self.module(),
            parameters: &PARAMETERS,
            compute_capability: self.compute_capability,
            launch_bounds: (spec.launch_bounds)(self),
            convergent: (spec.convergent)(self),
        }
    }
}

/// The parameters of every convolution kernel: source, result, mask, [`Params`].
pub const PARAMETERS: [Parameter; 4] =
    [Parameter::POINTER, Parameter::POINTER, Parameter::POINTER, Parameter::value::<Params>()];

/// The kernels and the `ENTRIES` of a variant, from lists of types, channels and mask sizes.
///
/// ```text
/// instances! {
///     SharedTile;
///     sm_70 "shared_tile_{T}_c{C}_{K}x{K}" for T in [f32], C in [1], K in [3, 5, 7];
///         |image, result, _mask, params| shared_tile::<T, C, K>(image, result, params)
/// }
/// ```
/// There is one kernel for each combination; its symbol is the pattern with the values in their places. `T` is the type
/// of the image's values and `C` the number of interleaved channels. `K` is the side of the square masks that the
/// kernel takes. A list of another name has the classes of masks instead; without a third list the kernel takes any
/// mask. The body uses the names of the lists, as a type and as `u32` constants; several lines of lists may share one.
/// `sm_70` or `sm_80` is the oldest architecture with the body's instructions.
macro_rules! instances {
    ($variant:ident; $(
        $($arch:ident $pattern:literal for $($list:ident in [$($value:tt),* $(,)?]),+;)+
        |$image:ident, $result:ident, $mask:ident, $params:ident| $body:expr
    )+) => {
        /// The kernels: one function for each symbol. Those that read the mask from constant memory ignore the third
        /// parameter.
        pub mod kernels {
            #[allow(clippy::wildcard_imports)]
            use super::*;
            $($crate::registry::kernels_of! {
                { |$image, $result, $mask, $params| $body }
                $($arch $pattern for $($list in [$($value),*]),+;)+
            })+
        }

        /// The entries of the variant.
        pub const ENTRIES: &[&[$crate::registry::Entry]] = &[$($(::cuda_std::instantiate! {
            $crate::registry::entry_list! { $variant $arch }
            $pattern for $($list in [$($value),*]),+
        }),+),+];
    };
}
pub(crate) use instances;

/// The kernels of several lists with one body.
macro_rules! kernels_of {
    ($body:tt $($arch:ident $pattern:literal for $($list:ident in $values:tt),+;)+) => {
        $(::cuda_std::instantiate! {
            $crate::registry::kernel_functions! { $arch $body }
            $pattern for $($list in $values),+
        })+
    };
}
pub(crate) use kernels_of;

/// One `#[kernel]` function for each row of `instantiate!`.
macro_rules! kernel_functions {
    (
        { $arch:ident { |$image:ident, $result:ident, $mask:ident, $params:ident| $body:expr } }
        $(($symbol:ident, T = $type:ident, C = $channels:literal $(, $size:ident = $value:literal)?))*
    ) => {
        $($crate::registry::compiled_for! { $arch
            /// An instance of the variant's kernel.
            ///
            /// # Safety
            /// The conditions of the variant's kernel function hold.
            #[::cuda_std::kernel(no_launcher)]
            pub unsafe fn $symbol(
                $image: ::cuda_std::Global<$type>,
                $result: $crate::abi::params::OutputPtr,
                $mask: ::cuda_std::Global<f32>,
                $params: $crate::abi::params::Params,
            ) {
                /// The type of the image's values.
                #[allow(dead_code)]
                type T = $type;
                /// Interleaved channels.
                #[allow(dead_code)]
                const C: u32 = $channels;
                $(
                    /// The side, or the class, of the masks.
                    #[allow(dead_code)]
                    const $size: u32 = $value;
                )?
                // This crate's own tests launch none of these kernels. Without the bodies they compile in less time.
                if cfg!(not(test)) {
                    // SAFETY: the conditions of this function are those of the body.
                    unsafe { $body }
                }
            }
        })*
    };
}
pub(crate) use kernel_functions;

/// One [`Entry`] for each row of `instantiate!`.
macro_rules! entry_list {
    (
        { $variant:ident $arch:ident }
        $(($symbol:ident, T = $type:ident, C = $channels:literal $(, $size:ident = $value:literal)?))*
    ) => {
        &[$($crate::registry::Entry {
            symbol: stringify!($symbol),
            variant: $crate::registry::Variant::$variant,
            pixel: <$type as $crate::abi::pixel::Pixel>::TYPE,
            channels: $channels,
            mask: $crate::registry::entry_list!(@mask $($size $value)?),
            compute_capability: $crate::registry::entry_list!(@arch $arch),
            #[cfg(not(target_arch = "nvptx64"))]
            function: $crate::registry::entry_list!(@function $type kernels::$symbol),
        }),*]
    };
    (@mask) => { $crate::registry::MaskSize::Any };
    (@mask K $side:literal) => { $crate::registry::MaskSize::Square($side) };
    (@mask $name:ident $class:literal) => { $crate::registry::MaskSize::Class($class) };
    (@arch sm_70) => { (7, 0) };
    (@arch sm_80) => { (8, 0) };
    (@function u8 $function:path) => { $crate::registry::Function::U8($function) };
    (@function u16 $function:path) => { $crate::registry::Function::U16($function) };
    (@function f32 $function:path) => { $crate::registry::Function::F32($function) };
}
pub(crate) use entry_list;

/// A kernel that only the build for one architecture has. The host has all kernels.
macro_rules! compiled_for {
    (sm_70 $kernel:item) => {
        #[cfg(any(not(target_arch = "nvptx64"), not(target_feature = "sm_80")))]
        $kernel
    };
    (sm_80 $kernel:item) => {
        #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_80"))]
        $kernel
    };
}
pub(crate) use compiled_for;
