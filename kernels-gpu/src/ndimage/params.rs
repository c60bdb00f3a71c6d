//! The launch parameters, passed by value, and which results a block has.
//!
//! # Thread mapping
//! The host orders the axes. The grid is one-dimensional: the tiles along axis 0 count fastest, then those along axis
//! 1, then the positions of axes 2 and 3. A block's results are a tile of axes 0 and 1 at one position of axes 2 and 3.
//! Missing axes have one position.
//!
//! For [`means`](super::means) axis 0 is the one whose results lie closest together, and axis 1 is the longest of the
//! others. A block has threads along both, and a thread has one result of the tile. [`tile`](super::tile) has the
//! mapping of the other kernels.

use cuda_std::prelude::*;

/// Axes of an array.
pub const AXES: usize = 4;

/// Threads of a block of [`means`](super::means).
pub const THREADS: u32 = 256;

/// The lanes of a warp load elements along axis 1, not along axis 0.
pub const LOAD_ROWS: u32 = 1;

/// The lanes of a warp store results along axis 1, not along axis 0.
pub const STORE_ROWS: u32 = 2;

/// An axis.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Axis {
    /// Positions: at least 1.
    pub length: i64,
    /// Bytes from one element of the input to the next.
    pub from: i64,
    /// Bytes from one result to the next.
    pub to: i64,
    /// How far before its own position a result reads.
    pub before: i64,
    /// How far after its own position a result reads.
    pub after: i64,
}

impl Axis {
    /// An axis of one position.
    pub const SINGLE: Self = Self { length: 1, from: 0, to: 0, before: 0, after: 0 };
}

/// The launch parameters of all kernels of this folder. The host validates them before a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct ArrayParams {
    /// The axes, in the order of the thread mapping.
    pub axes: [Axis; AXES],
    /// The value outside of the array under [`BorderMode::Constant`](crate::abi::border::BorderMode::Constant).
    pub value: f64,
    /// Tiles along axis 0, tiles along axis 1, and positions of axis 2: each at least 1.
    pub tiles: [u32; 3],
    /// Along which axis the lanes of a warp lie; for [`tile`](super::tile): [`LOAD_ROWS`] or [`STORE_ROWS`], or both.
    pub lanes: u32,
    /// By how many positions of axis 0 the rows of a tile are apart; for [`tile`](super::tile). It is 0 unless axis 1
    /// stands for parts of axis 0.
    pub fold: u32,
    /// The [code](crate::abi::border::BorderMode::code) of the border mode.
    pub border: u32,
    /// The [code](super::element::ResultKind::code) of the result's kind.
    pub result: u32,
    /// Passes of the list of taps.
    pub passes: u32,
    /// The axis along which [`means`](super::means) filters.
    pub line: u32,
    /// Whether the weights after the middle are the negative ones of those before it; for
    /// [`mirrored`](super::mirrored).
    pub is_odd: u32,
}

// The host and the PTX are built at different times. This fixes the layout for both.
const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Axis>() == 40 && size_of::<ArrayParams>() == 208 && align_of::<ArrayParams>() == 8);
    assert!(offset_of!(Axis, from) == 8 && offset_of!(Axis, to) == 16);
    assert!(offset_of!(Axis, before) == 24 && offset_of!(Axis, after) == 32);
    assert!(offset_of!(ArrayParams, value) == 160 && offset_of!(ArrayParams, tiles) == 168);
    assert!(offset_of!(ArrayParams, lanes) == 180 && offset_of!(ArrayParams, fold) == 184);
    assert!(offset_of!(ArrayParams, border) == 188);
    assert!(offset_of!(ArrayParams, result) == 192 && offset_of!(ArrayParams, passes) == 196);
    assert!(offset_of!(ArrayParams, line) == 200 && offset_of!(ArrayParams, is_odd) == 204);
};

/// `a / b` and the remainder. The host passes no 0, and the comparison drops the panic for it.
#[inline(always)]
pub(super) fn divide(a: u32, b: u32) -> (u32, u32) {
    let b = if b < 1 { 1 } else { b };
    (a / b, a % b)
}

impl ArrayParams {
    /// The number of this block's tile along axes 0 and 1, and its positions on axes 2 and 3.
    #[inline(always)]
    #[must_use]
    pub fn tile(&self) -> [u32; AXES] {
        let (rest, tile_0) = divide(thread::block_idx_x(), self.tiles[0]);
        let (rest, tile_1) = divide(rest, self.tiles[1]);
        let (index_3, index_2) = divide(rest, self.tiles[2]);
        [tile_0, tile_1, index_2, index_3]
    }

    /// The index of this thread's result of [`means`](super::means). It may lie outside of the array.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> [i64; AXES] {
        let [tile_0, tile_1, index_2, index_3] = self.tile();
        [
            tile_0 as i64 * thread::block_dim_x() as i64 + thread::thread_idx_x() as i64,
            tile_1 as i64 * thread::block_dim_y() as i64 + thread::thread_idx_y() as i64,
            index_2 as i64,
            index_3 as i64,
        ]
    }

    /// Whether a result at `index` is one of the array.
    #[inline(always)]
    #[must_use]
    pub fn has(&self, index: [i64; AXES]) -> bool {
        let mut axis = 0;
        let mut has = true;
        while axis < AXES {
            has &= index[axis] < self.axes[axis].length;
            axis += 1;
        }
        has
    }

    /// Bytes from the input's first element to the one at `index`.
    #[inline(always)]
    #[must_use]
    pub fn from(&self, index: [i64; AXES]) -> isize {
        let mut bytes = 0;
        let mut axis = 0;
        while axis < AXES {
            bytes += index[axis] * self.axes[axis].from;
            axis += 1;
        }
        bytes as isize
    }

    /// Bytes from the first result to the one at `index`.
    #[inline(always)]
    #[must_use]
    pub fn to(&self, index: [i64; AXES]) -> isize {
        let mut bytes = 0;
        let mut axis = 0;
        while axis < AXES {
            bytes += index[axis] * self.axes[axis].to;
            axis += 1;
        }
        bytes as isize
    }

    /// The axis along which a kernel filters, and the position on it.
    #[inline(always)]
    #[must_use]
    pub fn line(&self, index: [i64; AXES]) -> (Axis, i64) {
        // Selected, not indexed: an index that is known only at run time would put both arrays into local memory.
        let mut found = (self.axes[0], index[0]);
        let mut axis = 1;
        while axis < AXES {
            if self.line == axis as u32 {
                found = (self.axes[axis], index[axis]);
            }
            axis += 1;
        }
        found
    }
}
