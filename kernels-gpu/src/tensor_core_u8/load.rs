//! The way of the image into shared memory.

use cuda_std::cp_async::{commit_group, cp_async_16_if, cp_async_16_zfill};
use cuda_std::prelude::*;

use super::{PIECE, PLANES, shared_out, this_thread};
use crate::abi::border;
use crate::abi::params::Params;
use crate::abi::pixel::Pixel as _;

/// Fills stages: each warp a plane.
pub(super) struct Filler<const CHANNELS: u32, const SIZE: u32> {
    pub(super) image: Global<u8>,
    pub(super) params: Params,
    /// Whether a row goes beyond the image, or pieces do not begin at a multiple of 16 bytes.
    pub(super) edge: bool,
    /// Whether they do.
    pub(super) aligned: bool,
    /// Value of the image's row with which one here begins.
    pub(super) left: i32,
    pub(super) rows: u32,
    pub(super) plane: u32,
    pub(super) pitch: u32,
    /// Bytes of a row that are filled.
    pub(super) bytes: u32,
    /// For each value of a row the value of the image's row that stands for it, or [`border::OUTSIDE`]: at the edge.
    pub(super) table: Shared<i32>,
}

impl<const CHANNELS: u32, const SIZE: u32> Filler<CHANNELS, SIZE> {
    /// Fills a stage from row `top` of the image on, and ends a group of copies.
    ///
    /// # Safety
    /// Nobody reads or writes the stage before the copies were waited for and a barrier was passed, but the warp that copied a plane, which may
    /// after `sync_warp`. At the edge the table is filled.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, stage: Shared<u8>, top: i32) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let inside = !self.edge && top >= 0 && top + self.rows as i32 <= self.params.height;
        let pieces = (self.bytes / PIECE).max(1);
        let (at_a_time, slot, piece) = shared_out(pieces, lane);
        let src_pitch = self.params.src_pitch as i64;
        // The number of turns is known, and all but the last need not ask where a plane ends.
        if SIZE > 0 && inside {
            if slot < at_a_time {
                let at = piece * PIECE;
                let to = stage.offset(warp * self.plane + slot * self.pitch + at);
                let mut row = self.image.offset(self.params.src_index(self.left, top + (PLANES * slot + warp) as i32));
                row = row.offset(at as isize);
                for turn in 0..self.rows.div_ceil(PLANES * at_a_time) {
                    let whole = PLANES * at_a_time * (turn + 1) <= self.rows;
                    let which = PLANES * (slot + turn * at_a_time) + warp;
                    // SAFETY: row and piece lie in the image, aligned.
                    unsafe {
                        cp_async_16_if(whole || which < self.rows, to.offset(turn * at_a_time * self.pitch), row)
                    };
                    row = row.offset((src_pitch * (PLANES * at_a_time) as i64) as isize);
                }
            }
            commit_group();
            return;
        }
        let mut which = if slot < at_a_time { PLANES * slot + warp } else { self.rows };
        let mut row = self.image.offset(self.params.src_index(self.left, top + which as i32));
        while which < self.rows {
            thread::no_unroll();
            let to = stage.offset(which % PLANES * self.plane + which / PLANES * self.pitch);
            let mut piece = piece;
            while piece < pieces {
                thread::no_unroll();
                let at = piece * PIECE;
                if SIZE == 0 && inside {
                    // SAFETY: row and piece lie in the image, aligned.
                    unsafe { cp_async_16_if(true, to.offset(at), row.offset(at as isize)) };
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { self.fill_edge(to.offset(at), at, top + which as i32) };
                }
                piece += 32;
            }
            which += PLANES * at_a_time;
            row = row.offset((src_pitch * (PLANES * at_a_time) as i64) as isize);
        }
        commit_group();
    }

    /// Fills piece `at` of row `y`, which may lie outside.
    ///
    /// # Safety
    /// As for [`fill`](Self::fill).
    #[inline(always)]
    unsafe fn fill_edge(&self, to: Shared<u8>, at: u32, y: i32) {
        let params = &self.params;
        // Opaque, or what follows from it would be kept from step to step, in registers that the sums need.
        let y = border::map(params.border, y, thread::black_box(params.height as u32) as i32);
        let values = if y >= 0 { params.width * CHANNELS as i32 } else { 0 };
        let zeros = params.border == border::BorderMode::Constant.code() && params.border_value == 0.0;
        let row = self.image.offset(params.src_index(0, y));
        if self.aligned && (zeros || y >= 0 && !self.edge) {
            let first = self.left + at as i32;
            let there = if first >= 0 { (values - first).clamp(0, PIECE as i32) } else { 0 };
            let from = if there > 0 { row.offset(first as isize) } else { self.image };
            // SAFETY: of the source `there` bytes lie in the row.
            unsafe { cp_async_16_zfill(true, to, from, there as u32) };
            return;
        }
        let outside = u32::from(u8::from_f32(params.border_value));
        let mut word = 0;
        while word < PIECE / 4 {
            thread::no_unroll();
            let mut bytes = 0;
            for i in 0..4 {
                let mut byte = outside;
                if values > 0 {
                    // A row inside of the image without an edge was copied. SAFETY: the table has a value in the row,
                    // or `OUTSIDE`.
                    let v = unsafe { self.table.load(at + 4 * word + i) };
                    if v >= 0 {
                        // SAFETY: the row exists.
                        byte = u32::from(unsafe { row.load(v as isize) });
                    }
                }
                bytes |= byte << (8 * i);
            }
            // SAFETY: the piece is this thread's to write.
            unsafe { to.cast::<u32>().store(word, bytes) };
            word += 1;
        }
    }
}
