//! Rectangles of pixels, and the grid of an image's chunks.

use std::fmt;
use std::ops::Range;

use crate::{Error, Image, Result};

/// A rectangle of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The first column.
    pub x: usize,
    /// The first row.
    pub y: usize,
    /// Columns.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl Window {
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> Range<usize> {
        self.x..self.x + self.width
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> Range<usize> {
        self.y..self.y + self.height
    }

    /// The number of pixels.
    #[must_use]
    pub fn pixels(&self) -> u64 {
        self.width as u64 * self.height as u64
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { x, y, width, height } = self;
        write!(f, "{width} x {height} pixels from column {x}, row {y}")
    }
}

/// An image cut into chunks of one size, numbered row by row. The chunks at the right and lower edge may be smaller.
///
/// ```
/// use faltung::chunked::ChunkGrid;
///
/// let grid = ChunkGrid::new(100, 50, 40, 30)?;
/// assert_eq!((grid.columns(), grid.rows(), grid.count()), (3, 2, 6));
/// assert_eq!(grid.window(5).to_string(), "20 x 20 pixels from column 80, row 30");
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkGrid {
    width: usize,
    height: usize,
    chunk_width: usize,
    chunk_height: usize,
}

impl ChunkGrid {
    /// Chunks of `chunk_width` x `chunk_height` pixels of an image of `width` x `height` pixels.
    ///
    /// # Errors
    /// [`Error::EmptyImage`] if the image has no pixels, [`Error::TooLarge`] if it has more than can be counted.
    /// [`Error::Number`] if a chunk has none.
    pub fn new(width: usize, height: usize, chunk_width: usize, chunk_height: usize) -> Result<Self> {
        Image::<u8>::checked_len(width, height, 1)?;
        for (what, side) in [("the columns of a chunk", chunk_width), ("the rows of a chunk", chunk_height)] {
            if side == 0 {
                return Err(Error::Number { what, required: "at least 1", found: "0".to_owned() });
            }
        }
        Ok(Self { width, height, chunk_width: chunk_width.min(width), chunk_height: chunk_height.min(height) })
    }

    /// Columns of the image.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of the image.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of a chunk that does not lie at the right edge.
    #[must_use]
    pub fn chunk_width(&self) -> usize {
        self.chunk_width
    }

    /// Rows of a chunk that does not lie at the lower edge.
    #[must_use]
    pub fn chunk_height(&self) -> usize {
        self.chunk_height
    }

    /// Pixels of a chunk that lies at neither edge.
    pub(super) fn chunk_pixels(&self) -> u64 {
        self.chunk_width as u64 * self.chunk_height as u64
    }

    /// Columns of chunks.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.div_ceil(self.chunk_width)
    }

    /// Rows of chunks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.height.div_ceil(self.chunk_height)
    }

    /// The number of chunks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.columns() * self.rows()
    }

    /// Column and row of a chunk in the grid.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn position(&self, chunk: usize) -> (usize, usize) {
        assert!(chunk < self.count(), "chunk {chunk} of {}", self.count());
        (chunk % self.columns(), chunk / self.columns())
    }

    /// The pixels of a chunk.
    ///
    /// # Panics
    /// If there is no such chunk.
    #[must_use]
    pub fn window(&self, chunk: usize) -> Window {
        let (column, row) = self.position(chunk);
        let (x, y) = (column * self.chunk_width, row * self.chunk_height);
        let (width, height) = (self.chunk_width.min(self.width - x), self.chunk_height.min(self.height - y));
        Window { x, y, width, height }
    }

    /// The chunks of one of `parts` processes, from 0 on. All parts together have each chunk once. Their numbers of
    /// chunks differ by at most one.
    ///
    /// ```
    /// # use faltung::chunked::ChunkGrid;
    /// let grid = ChunkGrid::new(100, 50, 40, 30)?;
    /// assert_eq!((grid.part(0, 4), grid.part(3, 4)), (0..1, 4..6));
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Panics
    /// Unless `part < parts`.
    #[must_use]
    pub fn part(&self, part: usize, parts: usize) -> Range<usize> {
        assert!(part < parts, "part {part} of {parts}");
        let begin = |part: usize| (self.count() as u128 * part as u128 / parts as u128) as usize;
        begin(part)..begin(part + 1)
    }
}
