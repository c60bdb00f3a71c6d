//! The copies of image rows to shared memory.

use cuda_std::cp_async::{commit_group, cp_async_16_if};
use cuda_std::prelude::*;

use super::{SLABS, this_thread};
use crate::abi::border;
use crate::abi::params::Params;
use crate::abi::pixel::Pixel as _;
use crate::common::async_rows::{VECTOR_BYTES, copy_zfill, values_in_row};
use crate::common::partition::{LanePart, partition_lanes};

/// Fills stages. Each warp fills one slab.
pub(super) struct Loader<const CHANNELS: u32, const SIDE: u32> {
    pub(super) image: Global<u8>,
    pub(super) params: Params,
    /// Whether a row crosses the edge of the image, or its vectors are not aligned.
    pub(super) edge: bool,
    /// Whether vectors are aligned to 16 bytes in the image.
    pub(super) aligned: bool,
    /// The value of the image's row with which a row begins here.
    pub(super) left: i32,
    /// Rows of a stage.
    pub(super) rows: u32,
    /// Bytes of a slab.
    pub(super) slab: u32,
    /// Bytes from one row of a slab to the next.
    pub(super) pitch: u32,
    /// Bytes of a row that are copied, in whole vectors.
    pub(super) bytes: u32,
    /// The values of the border: see [`border_table`](crate::common::border_table). It is filled if `edge`.
    pub(super) table: Shared<i32>,
}

impl<const CHANNELS: u32, const SIDE: u32> Loader<CHANNELS, SIDE> {
    /// Fills a stage from row `top` of the image on, and commits the copies as one group.
    ///
    /// # Safety
    /// - All threads of the block call it.
    /// - If `edge`, the border table is filled, and a barrier has passed since.
    /// - No thread reads or writes the stage until the copies have been waited for and a barrier has passed. The warp
    ///   that copied a slab may use that slab after `sync_warp`.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, stage: Shared<u8>, top: i32) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let inside = !self.edge && top >= 0 && top + self.rows as i32 <= self.params.height;
        let vectors = (self.bytes / VECTOR_BYTES).max(1);
        let LanePart { rows: rows_at_once, row: slot, unit: vector } = partition_lanes(vectors, lane);
        let src_pitch = self.params.src_pitch as i64;
        // For a mask of known side the number of passes is a constant, and only the last one tests where a slab ends.
        if SIDE > 0 && inside {
            if slot < rows_at_once {
                let at = vector * VECTOR_BYTES;
                let to = stage.offset(warp * self.slab + slot * self.pitch + at);
                let mut from = self.image.offset(self.params.src_index(self.left, top + (SLABS * slot + warp) as i32));
                from = from.offset(at as isize);
                for pass in 0..self.rows.div_ceil(SLABS * rows_at_once) {
                    let is_full = SLABS * rows_at_once * (pass + 1) <= self.rows;
                    let row = SLABS * (slot + pass * rows_at_once) + warp;
                    // SAFETY: row and vector lie in the image, aligned; the destination is this lane's alone.
                    unsafe {
                        cp_async_16_if(is_full || row < self.rows, to.offset(pass * rows_at_once * self.pitch), from)
                    };
                    from = from.offset((src_pitch * (SLABS * rows_at_once) as i64) as isize);
                }
            }
            commit_group();
            return;
        }
        let mut row = if slot < rows_at_once { SLABS * slot + warp } else { self.rows };
        let mut from = self.image.offset(self.params.src_index(self.left, top + row as i32));
        while row < self.rows {
            thread::no_unroll();
            let to = stage.offset(row % SLABS * self.slab + row / SLABS * self.pitch);
            let mut vector = vector;
            while vector < vectors {
                thread::no_unroll();
                let at = vector * VECTOR_BYTES;
                if SIDE == 0 && inside {
                    // SAFETY: row and vector lie in the image, aligned; the destination is this lane's alone.
                    unsafe { cp_async_16_if(true, to.offset(at), from.offset(at as isize)) };
                } else {
                    // SAFETY: at < bytes, and the destination is this lane's alone.
                    unsafe { self.copy_edge(to.offset(at), at, top + row as i32) };
                }
                vector += 32;
            }
            row += SLABS * rows_at_once;
            from = from.offset((src_pitch * (SLABS * rows_at_once) as i64) as isize);
        }
        commit_group();
    }

    /// Fills the vector at byte `at` of row `y`, which may lie outside.
    ///
    /// # Safety
    /// - If `edge`, the border table is filled for the vector, and a barrier has passed since.
    /// - `to` has room for the vector, and no other thread reads or writes there.
    #[inline(always)]
    unsafe fn copy_edge(&self, to: Shared<u8>, at: u32, y: i32) {
        let params = &self.params;
        // Without black_box LLVM keeps what follows from the height in registers that the sums need.
        let y = border::map(params.border, y, thread::black_box(params.height as u32) as i32);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        let fills = params.border_is_zero();
        let row = self.image.offset(params.src_index(0, y));
        if self.aligned && (fills || y >= 0 && !self.edge) {
            let first = self.left + at as i32;
            let count = values_in_row::<u8>(true, first, values);
            // SAFETY: `count` values lie in the row, and its vectors are aligned.
            unsafe { copy_zfill(to, row, (first, count), self.image) };
            return;
        }
        let outside = u32::from(u8::from_f32(params.border_value));
        let mut word = 0;
        while word < VECTOR_BYTES / 4 {
            thread::no_unroll();
            let mut bytes = 0;
            for i in 0..4 {
                let mut byte = outside;
                if values > 0 {
                    // SAFETY: the branch above took rows of the image that do not cross its edge, so `edge` holds and
                    // the table is filled.
                    let v = unsafe { self.table.load(at + 4 * word + i) };
                    if v >= 0 {
                        // SAFETY: the row exists, and the table holds values of a row or OUTSIDE.
                        byte = u32::from(unsafe { row.load(v as isize) });
                    }
                }
                bytes |= byte << (8 * i);
            }
            // SAFETY: word < 4, a word of the vector.
            unsafe { to.cast::<u32>().store(word, bytes) };
            word += 1;
        }
    }
}
