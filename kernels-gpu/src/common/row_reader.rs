//! Reads of eight neighbouring pixels of a row, which may cross the edge of the image.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;

/// Pixels of a read.
pub(crate) const READ: usize = 8;

/// The row of `f32` pixels that a thread reads.
#[derive(Clone, Copy)]
pub(crate) struct RowReader {
    /// In the interior the pixel in the thread's first column. At the edge the first pixel of the image's row.
    pub(crate) pixels: Global<f32>,
    /// The thread's part of the [`border_table`](crate::common::border_table), from its first column on.
    pub(crate) table: Shared<i32>,
    /// Whether columns are read through the table.
    pub(crate) edge: bool,
    /// Whether the image has the row.
    pub(crate) exists: bool,
    /// The value of pixels that do not exist.
    pub(crate) border_value: f32,
}

impl RowReader {
    /// Moves an edge reader to row `y`, which may lie outside.
    #[inline(always)]
    pub(crate) fn move_to(&mut self, image: Global<f32>, params: &Params, y: i32) {
        let y = border::map(params.border, y, params.height);
        self.pixels = image.offset(params.src_index(0, y));
        self.exists = y >= 0;
    }

    /// The pixels in [`READ`] columns from the `first`-th column of the thread on.
    ///
    /// # Safety
    /// - If `edge`: the conditions of [`read_edge`](Self::read_edge).
    /// - Otherwise: the conditions of [`read_interior`](Self::read_interior).
    #[inline(always)]
    pub(crate) unsafe fn read(&self, first: u32) -> [f32; READ] {
        // SAFETY: `edge` selects the function whose conditions hold.
        if self.edge { unsafe { self.read_edge(first) } } else { unsafe { self.read_interior(first) } }
    }

    /// Reads [`READ`] columns from the `first`-th one on, each through the border table.
    ///
    /// # Safety
    /// - The table has [`READ`] filled elements from the `first`-th one on.
    /// - If `exists`, `pixels` is the first pixel of a row of the image.
    #[inline(always)]
    pub(crate) unsafe fn read_edge(&self, first: u32) -> [f32; READ] {
        core::array::from_fn(|i| {
            // SAFETY: i < READ, so the element is filled.
            let x = unsafe { self.table.load(first + i as u32) };
            if x >= 0 && self.exists {
                // SAFETY: the row exists, and the table holds columns of the image.
                unsafe { self.pixels.load(x as isize) }
            } else {
                self.border_value
            }
        })
    }

    /// Reads [`READ`] columns from the `first`-th one on, as vectors. All of them lie in the image.
    ///
    /// # Safety
    /// - The pixels from the `first`-th one on lie in the image.
    /// - They begin at a multiple of 16 bytes.
    #[inline(always)]
    pub(crate) unsafe fn read_interior(&self, first: u32) -> [f32; READ] {
        let vectors = self.pixels.offset(first as isize).cast::<F32x4>();
        let mut pixels = [0.0; READ];
        for i in 0..READ / 4 {
            // SAFETY: i < READ / 4, so the vector lies in the image; it is aligned.
            let F32x4(vector) = unsafe { vectors.load(i as isize) };
            pixels[4 * i..4 * i + 4].copy_from_slice(&vector);
        }
        pixels
    }
}
