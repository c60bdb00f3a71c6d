//! The list of variants. PTX symbols, the host's tables, the names on the command line and the tests derive from it.
//!
//! A variant is one file of this crate and one line of the list below. Its file holds the kernel, its [`Spec`] and the
//! lists of types, channels and mask sizes for which there are entries.

mod eligibility;
mod entry;
mod spec;

pub use self::eligibility::{Ineligible, Request};
#[cfg(not(target_arch = "nvptx64"))]
pub use self::entry::Function;
pub use self::entry::{Entry, MaskSize, PARAMETERS};
pub(crate) use self::entry::{compiled_for, entry_list, instances, kernel_functions, kernels_of};
pub use self::spec::{
    Accuracy, Arithmetic, FactorPlaces, FactorPowers, Grid, MaskClass, MaskForm, MaskMemory, Occupancy, ProvenPlaces,
    RowPartition, Spec,
};
pub(crate) use self::spec::{any_result, dense_rows, f32_result, no_launch_bounds, no_requirement};
use crate::abi::kernel::Kernel;
use crate::{direct, fft, separable, teaching, tensor_core_u8};

/// From the list: [`Variant`], and the spec and the entries of each.
macro_rules! variants {
    ($($(#[$doc:meta])* $variant:ident = $module:path;)*) => {
        /// A way to compute a convolution.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Variant {
            $($(#[$doc])* $variant,)*
        }

        impl Variant {
            /// All variants.
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];

            /// Everything that is known about it.
            #[must_use]
            pub const fn spec(self) -> &'static Spec {
                match self {
                    $(Self::$variant => {
                        use $module as module;
                        &module::SPEC
                    })*
                }
            }

            /// Its entries, in groups.
            const fn groups(self) -> &'static [&'static [Entry]] {
                match self {
                    $(Self::$variant => {
                        use $module as module;
                        module::ENTRIES
                    })*
                }
            }
        }
    };
}

variants! {
    /// One thread computes one output; image and mask in global memory.
    Naive = teaching::naive;
    /// The same with the mask in constant memory.
    ConstantMask = teaching::constant_mask;
    /// A block shares its pixels in shared memory.
    SharedTile = teaching::shared_tile;
    /// The same for small images, with asynchronous copies.
    SharedTileAsync = direct::shared_tile_async;
    /// A thread computes a tile of outputs in registers.
    RegisterTile = direct::register_tile;
    /// A thread walks down the image with its sums in registers.
    SlidingWindow = direct::sliding_window;
    /// The same for interleaved channels, each in a plane of shared memory.
    SlidingWindowPlanar = direct::sliding_window_planar;
    /// Fourier transforms of tiles, for large dense masks.
    FftTile = fft::tile;
    /// Fourier transforms of larger tiles, for larger masks.
    FftPasses = fft::passes;
    /// Bytes in the tensor cores.
    TensorCoreU8 = tensor_core_u8;
    /// Separable masks, with filtered rows in a ring in shared memory, which limits the mask's rows.
    SeparableRing = separable::ring;
    /// Separable masks, a block tile at a time.
    SeparableBlockTile = separable::block_tile;
    /// Separable masks for bytes, bit-exact.
    SeparableU8 = separable::proven_bytes;
    /// Separable masks in the tensor cores.
    SeparableTensorCore = separable::tensor_core;
    /// The same for bytes, bit-exact.
    SeparableTensorCoreU8 = tensor_core_u8::separable;
}

impl Variant {
    /// The name on the command line, in reports and in PTX symbols.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.spec().name
    }

    /// Its entries, in the order of its file.
    pub fn entries(self) -> impl Iterator<Item = &'static Entry> + Clone {
        self.groups().iter().copied().flatten()
    }

    /// Whether its results are bit-exact. The others state an error bound.
    #[must_use]
    pub const fn is_exact(self) -> bool {
        match self.spec().accuracy {
            Accuracy::Exact => true,
            Accuracy::Bounded { .. } => false,
        }
    }

    /// Whether it reads the mask from constant memory.
    #[must_use]
    pub const fn reads_constant_memory(self) -> bool {
        match self.spec().mask_memory {
            MaskMemory::Constant => true,
            MaskMemory::Global => false,
        }
    }

    /// Whether the rows of its grids partition the rows of the image: one launch is enough, however many they are.
    #[must_use]
    pub const fn partitions_rows(self) -> bool {
        match self.spec().grid {
            Grid::Tiles | Grid::ChannelTiles => false,
            Grid::Partition(_) => true,
        }
    }
}

/// Every entry of every variant.
pub fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    Variant::ALL.into_iter().flat_map(Variant::entries)
}

/// Every kernel of this crate: the entries, and the kernels that do something else than convolve.
pub fn kernels() -> impl Iterator<Item = Kernel> {
    entries()
        .map(Entry::kernel)
        .chain([crate::util::fma_peak::FMA_RATE, crate::util::memcpy::COPY_QUADS])
        .chain([fft::passes::COLUMNS])
        .chain(fft::passes::BACK)
        .chain(crate::util::planes::kernels())
        .chain(crate::ndimage::kernels())
        .chain(crate::tutorials::kernels())
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::HashSet;
    use std::format;

    use super::*;

    /// What a symbol says is what the entry is.
    #[test]
    fn symbols_say_what_their_entries_are() {
        let mut seen = HashSet::new();
        for entry in entries() {
            let head = format!("{}_{}_c{}", entry.variant.name(), entry.pixel.name(), entry.channels);
            let tail = entry.symbol.strip_prefix(&head);
            let fits = match (entry.mask, tail) {
                (_, None) => false,
                (MaskSize::Any, Some(tail)) => tail.is_empty(),
                (MaskSize::Square(side), Some(tail)) => tail == format!("_{side}x{side}"),
                (MaskSize::Class(class), Some(tail)) => tail.ends_with(&format!("_{class}")),
            };
            assert!(fits, "{} is {entry:?}", entry.symbol);
            assert!(seen.insert(entry.symbol), "{} is there twice", entry.symbol);
        }
    }

    /// A class takes its example, and only variants with classes have entries for them.
    #[test]
    fn classes_contain_their_examples() {
        for entry in entries() {
            if let MaskSize::Class(class) = entry.mask {
                let of = entry.variant.spec().mask_class.expect("a variant with an entry for a class defines it");
                let (width, height) = (of.example)(class);
                assert!((of.contains)(class, (width, height), (width as i32 - 1) / 2), "{}", entry.symbol);
            }
        }
    }
}
