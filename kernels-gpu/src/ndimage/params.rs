//! The launch parameters, passed by value, and which results a thread has.
//!
//! # Thread mapping
//! The host orders the axes: axis 0 is the one whose results lie closest together, and axis 1 is the longest of the
//! others. Missing axes have one position.
//!
//! A block has threads along axes 0 and 1. A thread has [`RESULTS`] results, `step` apart along one of these two axes.
//! A block's results are a tile of axes 0 and 1 at one position of axes 2 and 3. The grid is one-dimensional: the tiles
//! along axis 0 count fastest, then those along axis 1, then the positions of axes 2 and 3.

use cuda_std::prelude::*;

/// Axes of an array.
pub const AXES: usize = 4;

/// Results of a thread, but for [`means`](super::means): one load of a weight serves as many products.
pub const RESULTS: u32 = 4;

/// Threads of a block.
pub const THREADS: u32 = 256;

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
    /// From one result of a thread to the next, along axes 0 and 1. One of the two is 0, the other the block's size.
    pub step: [u32; 2],
    /// The [code](crate::abi::border::BorderMode::code) of the border mode.
    pub border: u32,
    /// The [code](super::element::ResultKind::code) of the result's kind.
    pub result: u32,
    /// Entries of the list of taps.
    pub taps: u32,
    /// The axis along which [`mirrored`](super::mirrored) and [`means`](super::means) filter.
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
    assert!(offset_of!(ArrayParams, step) == 180 && offset_of!(ArrayParams, border) == 188);
    assert!(offset_of!(ArrayParams, result) == 192 && offset_of!(ArrayParams, taps) == 196);
    assert!(offset_of!(ArrayParams, line) == 200 && offset_of!(ArrayParams, is_odd) == 204);
};

/// `a / b` and the remainder. The host passes no 0, and the comparison drops the panic for it.
#[inline(always)]
fn divide(a: u32, b: u32) -> (u32, u32) {
    let b = if b < 1 { 1 } else { b };
    (a / b, a % b)
}

impl ArrayParams {
    /// The index of this thread's first result. It may lie outside of the array.
    #[inline(always)]
    #[must_use]
    pub fn first_index(&self) -> [i64; AXES] {
        let (rest, tile_0) = divide(thread::block_idx_x(), self.tiles[0]);
        let (rest, tile_1) = divide(rest, self.tiles[1]);
        let (index_3, index_2) = divide(rest, self.tiles[2]);
        let along = |tile: u32, block: u32, step: u32, thread: u32| {
            let results = block as i64 + (RESULTS as i64 - 1) * step as i64;
            tile as i64 * results + thread as i64
        };
        [
            along(tile_0, thread::block_dim_x(), self.step[0], thread::thread_idx_x()),
            along(tile_1, thread::block_dim_y(), self.step[1], thread::thread_idx_y()),
            index_2 as i64,
            index_3 as i64,
        ]
    }

    /// The index `r` results after `index`.
    #[inline(always)]
    #[must_use]
    pub fn later(&self, index: [i64; AXES], r: u32) -> [i64; AXES] {
        let [a, b, c, d] = index;
        [a + r as i64 * self.step[0] as i64, b + r as i64 * self.step[1] as i64, c, d]
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

    /// Whether all results from `first` to `last`, and all that they read, lie in the array.
    #[inline(always)]
    #[must_use]
    pub fn reads_inside(&self, first: [i64; AXES], last: [i64; AXES]) -> bool {
        let mut axis = 0;
        let mut is_inside = true;
        while axis < AXES {
            let Axis { length, before, after, .. } = self.axes[axis];
            is_inside &= first[axis] >= before && last[axis] < length && last[axis] + after < length;
            axis += 1;
        }
        is_inside
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
