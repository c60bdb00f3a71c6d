//! The shape of a launch, and the limits of a device.

use std::fmt;

use cuda_std::Scalar;

use crate::defect::counted;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The number of blocks of the grid in x, y and z.
    pub grid: [u32; 3],
    /// The number of threads of a block in x, y and z.
    pub block: [u32; 3],
    /// The dynamic shared memory of a block in bytes.
    pub shared_bytes: u32,
}

impl Launch {
    /// A launch of a two-dimensional grid of two-dimensional blocks.
    #[must_use]
    pub fn flat(grid: (u32, u32), block: (u32, u32), shared_bytes: u32) -> Self {
        Self { grid: [grid.0, grid.1, 1], block: [block.0, block.1, 1], shared_bytes }
    }

    /// At least `threads` threads in x, in blocks of `block` threads.
    ///
    /// The last block may be larger than what is left: the kernel compares its index with the length.
    #[must_use]
    pub fn cover(threads: usize, block: u32) -> Self {
        Self::cover_2d((threads, 1), (block, 1))
    }

    /// At least `threads` threads in x and y, in blocks of `block` threads in x and y.
    #[must_use]
    pub fn cover_2d(threads: (usize, usize), block: (u32, u32)) -> Self {
        // A launch without threads, and a grid above the range of `u32`, are errors of the launch.
        let blocks = |threads: usize, block: u32| match block {
            0 => 0,
            _ => u32::try_from(threads.div_ceil(block as usize)).unwrap_or(u32::MAX),
        };
        Self::flat((blocks(threads.0, block.0), blocks(threads.1, block.1)), block, 0)
    }

    /// The same grid with blocks of `block` threads in x and y.
    ///
    /// `Launch::cover_2d(outputs, tile).with_block(block)` has a block for each tile of outputs, for a kernel whose blocks
    /// have more or fewer threads than outputs.
    #[must_use]
    pub fn with_block(self, block: (u32, u32)) -> Self {
        Self { block: [block.0, block.1, 1], ..self }
    }

    /// The same launch with `elements` elements of `T` of dynamic shared memory for each block.
    #[must_use]
    pub fn with_shared<T: Scalar>(self, elements: usize) -> Self {
        let bytes = elements.saturating_mul(size_of::<T>());
        Self { shared_bytes: u32::try_from(bytes).unwrap_or(u32::MAX), ..self }
    }

    /// The number of threads of a block.
    #[must_use]
    pub fn threads(&self) -> u64 {
        self.block.iter().map(|&n| u64::from(n)).product()
    }

    /// The number of blocks of the grid.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.grid.iter().map(|&n| u64::from(n)).product()
    }

    /// Checks the launch against the limits of a device.
    ///
    /// # Errors
    /// [`LaunchError`] with the first quantity that the device refuses.
    pub fn check(&self, limits: &Limits) -> Result<(), LaunchError> {
        let at_most = |what, found: u64, most: u64| {
            if found > most { Err(LaunchError::TooLarge { what, found, most }) } else { Ok(()) }
        };
        // The block first: `cover` makes an empty grid for an empty block.
        let of_block = ["blockDim.x", "blockDim.y", "blockDim.z"].into_iter().zip(self.block);
        let of_grid = ["gridDim.x", "gridDim.y", "gridDim.z"].into_iter().zip(self.grid);
        if let Some((what, _)) = of_block.chain(of_grid).find(|&(_, size)| size == 0) {
            return Err(LaunchError::Empty { what });
        }
        for (axis, what) in ["blockDim.x", "blockDim.y", "blockDim.z"].into_iter().enumerate() {
            at_most(what, self.block[axis].into(), limits.block[axis].into())?;
        }
        at_most("the number of threads of a block", self.threads(), limits.threads_per_block.into())?;
        for (axis, what) in ["gridDim.x", "gridDim.y", "gridDim.z"].into_iter().enumerate() {
            at_most(what, self.grid[axis].into(), limits.grid[axis].into())?;
        }
        at_most("the shared memory of a block in bytes", self.shared_bytes.into(), limits.shared_bytes.into())
    }
}

/// The limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most threads of a block.
    pub threads_per_block: u32,
    /// The most threads of a block in x, y and z.
    pub block: [u32; 3],
    /// The most blocks of a grid in x, y and z.
    pub grid: [u32; 3],
    /// The most shared memory of a block in bytes, after opting in: dynamic shared memory and arrays of a fixed length.
    pub shared_bytes: u32,
}

impl Limits {
    /// The limits of an H100 (compute capability 9.0).
    pub const H100: Self = Self {
        threads_per_block: 1024,
        block: [1024, 1024, 64],
        grid: [i32::MAX as u32, 65_535, 65_535],
        shared_bytes: 227 * 1024,
    };
}

/// The reason why a device refuses a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// A size of 0.
    #[error("{what} is 0, at least 1 is required")]
    Empty {
        /// The quantity: `gridDim.x` or another one.
        what: &'static str,
    },
    /// A size above the device's limit.
    #[error("{what} is {found}, the device allows {most}")]
    TooLarge {
        /// The quantity.
        what: &'static str,
        /// The requested size.
        found: u64,
        /// The limit.
        most: u64,
    },
    /// Dynamic shared memory and shared arrays of a fixed length are together above the device's limit.
    #[error(
        "the block has {} of dynamic shared memory and {} of shared arrays of a fixed length, {} in all, the device allows \
         {most}",
        counted(*.dynamic, "byte"),
        counted(*.fixed, "byte"),
        .dynamic + .fixed
    )]
    SharedMemory {
        /// The dynamic shared memory of the launch in bytes.
        dynamic: u64,
        /// The shared arrays of the kernel in bytes.
        fixed: u64,
        /// The limit.
        most: u64,
    },
}

/// A thread's position in a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block's position in the grid.
    pub block: [u32; 3],
    /// The thread's position in the block.
    pub thread: [u32; 3],
}

impl Place {
    /// The position of the thread with this number in the grid. Blocks count one after the other, x fastest.
    pub(crate) fn of(number: u64, launch: &Launch) -> Self {
        let threads = launch.threads();
        Self { block: unravel(number / threads, launch.grid), thread: unravel(number % threads, launch.block) }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz})")
    }
}

/// The coordinates of element `index` of an array of this size; x varies fastest.
pub(crate) fn unravel(index: u64, size: [u32; 3]) -> [u32; 3] {
    let [width, height, _] = size.map(u64::from);
    [(index % width) as u32, (index / width % height) as u32, (index / (width * height)) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_x_first() {
        let launch = Launch { grid: [3, 2, 1], block: [4, 2, 2], shared_bytes: 0 };
        // Block 4 is (1, 1, 0); thread 13 of its 16 is (1, 1, 1).
        assert_eq!(Place::of(4 * 16 + 13, &launch), Place { block: [1, 1, 0], thread: [1, 1, 1] });
    }

    #[test]
    fn a_cover_has_a_thread_for_each_element() {
        assert_eq!(Launch::cover(256, 256), Launch::flat((1, 1), (256, 1), 0));
        assert_eq!(Launch::cover(257, 256).grid, [2, 1, 1]);
        let tiles = Launch::cover_2d((600, 400), (32, 8)).with_shared::<f64>(3);
        assert_eq!((tiles.grid, tiles.block, tiles.shared_bytes), ([19, 50, 1], [32, 8, 1], 24));
        let with_halo = tiles.with_block((36, 12));
        assert_eq!((with_halo.grid, with_halo.block, with_halo.shared_bytes), (tiles.grid, [36, 12, 1], 24));
        let refused = |launch: Launch| launch.check(&Limits::H100).unwrap_err();
        assert!(matches!(refused(Launch::cover(0, 32)), LaunchError::Empty { what: "gridDim.x" }));
        assert_eq!(refused(Launch::cover(1, 0)).to_string(), "blockDim.x is 0, at least 1 is required");
        assert!(matches!(refused(Launch::cover(usize::MAX, 1)), LaunchError::TooLarge { what: "gridDim.x", .. }));
        let large = Launch::cover(1, 1).with_shared::<f64>(usize::MAX);
        assert!(matches!(refused(large), LaunchError::TooLarge { .. }));
    }

    #[test]
    fn limits_hold() {
        let refused =
            |grid, block, shared_bytes| Launch { grid, block, shared_bytes }.check(&Limits::H100).unwrap_err();
        assert!(matches!(refused([1, 0, 1], [1; 3], 0), LaunchError::Empty { what: "gridDim.y" }));
        assert!(matches!(refused([1; 3], [32, 33, 1], 0), LaunchError::TooLarge { found: 1056, most: 1024, .. }));
        assert!(matches!(refused([1; 3], [1, 1, 65], 0), LaunchError::TooLarge { what: "blockDim.z", .. }));
        assert!(matches!(refused([1, 65_536, 1], [1; 3], 0), LaunchError::TooLarge { what: "gridDim.y", .. }));
        assert!(matches!(refused([1; 3], [1; 3], 232_449), LaunchError::TooLarge { most: 232_448, .. }));
        assert_eq!(Launch::flat((1, 65_535), (32, 32), 232_448).check(&Limits::H100), Ok(()));
    }
}
