//! Grid and block of a launch.

use faltung::{Error, Result};

/// Blocks of the grid, threads of a block, and the dynamic shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x and y. With a 0 there is nothing to do, and nothing is launched.
    pub grid: (usize, usize),
    /// Threads of a block in x and y.
    pub block: (u32, u32),
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u64,
}

/// CUDA's limits, the same for every device that the kernels run on. Beyond this shared memory CUDA wants to be asked.
const MOST_GRID: (usize, usize) = (i32::MAX as usize, 65_535);
const MOST_THREADS: u32 = 1024;
const MOST_SHARED_BYTES: u64 = 48 * 1024;

impl LaunchShape {
    /// A block for each tile of `tile` outputs.
    pub(super) fn tiles(outputs: (usize, usize), tile: (u32, u32), block: (u32, u32)) -> Self {
        // A tile without extent is found by `check`, by its block or its grid.
        let blocks = |outputs: usize, tile: u32| if tile == 0 { usize::MAX } else { outputs.div_ceil(tile as usize) };
        Self { grid: (blocks(outputs.0, tile.0), blocks(outputs.1, tile.1)), block, shared_bytes: 0 }
    }

    /// A thread for each output.
    pub(super) fn cover(outputs: (usize, usize), block: (u32, u32)) -> Self {
        Self::tiles(outputs, block, block)
    }

    /// The same in one dimension.
    pub(super) fn line(outputs: usize, block: usize) -> Self {
        Self::cover((outputs, 1), (block as u32, 1))
    }

    /// With dynamic shared memory.
    pub(super) fn shared(self, shared_bytes: u64) -> Self {
        Self { shared_bytes, ..self }
    }

    /// The grid in the driver's type, for a shape that was checked.
    pub(super) fn grid_size(&self) -> (u32, u32) {
        (self.grid.0 as u32, self.grid.1 as u32)
    }

    /// Checks CUDA's limits. False if there is nothing to do.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Number`].
    pub(super) fn check(&self) -> Result<bool> {
        let at_most = |what: &str, found: u64, most: u64| {
            if found <= most {
                return Ok(());
            }
            Err(Error::TooLarge { what: what.to_owned(), most: most as usize, found: found.to_string() })
        };
        let (x, y) = self.block;
        if x == 0 || y == 0 {
            let found = format!("{x} x {y}");
            return Err(Error::Number { what: "the block", required: "at least 1 x 1 threads", found });
        }
        at_most("the number of threads of a block", u64::from(x) * u64::from(y), MOST_THREADS.into())?;
        at_most("the number of blocks in x", self.grid.0 as u64, MOST_GRID.0 as u64)?;
        at_most("the number of blocks in y", self.grid.1 as u64, MOST_GRID.1 as u64)?;
        at_most("the shared memory of a block in bytes", self.shared_bytes, MOST_SHARED_BYTES)?;
        Ok(self.grid.0 > 0 && self.grid.1 > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_cover_their_outputs() {
        let shape = LaunchShape::cover((600, 400), (32, 8));
        assert_eq!((shape.grid, shape.block), ((19, 50), (32, 8)));
        assert_eq!(LaunchShape::tiles((600, 400), (12, 12), (16, 16)).grid, (50, 34));
        assert_eq!(LaunchShape::line(256, 256).grid, (1, 1));
        assert_eq!(LaunchShape::line(257, 256).grid, (2, 1));
    }

    #[test]
    fn what_a_device_refuses_is_refused() {
        let shape = LaunchShape::line(10, 10);
        assert!(shape.check().unwrap());
        assert!(!LaunchShape::line(0, 10).check().unwrap());
        assert!(matches!(LaunchShape::line(1, 0).check(), Err(Error::Number { .. })));
        assert!(matches!(LaunchShape::line(1, 1025).check(), Err(Error::TooLarge { most: 1024, .. })));
        assert!(matches!(shape.shared(49_153).check(), Err(Error::TooLarge { most: 49_152, .. })));
        assert!(matches!(LaunchShape::cover((1, 65_536), (1, 1)).check(), Err(Error::TooLarge { most: 65_535, .. })));
        assert!(matches!(LaunchShape::tiles((1, 1), (1, 0), (1, 1)).check(), Err(Error::TooLarge { .. })));
    }
}
