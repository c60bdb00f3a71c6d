//! Rows of pixels on their way to shared memory, for the kernels that go down a strip in steps, 16 rows at a time.
//!
//! A piece of 4 pixels that lies in the image is copied as it is; one beyond the edge is filled up with zeros by the copy itself where the
//! border is zero; any other one is put together pixel by pixel, by copies through a table of which column stands for which.

use cuda_std::cp_async::{commit_group, cp_async_4, cp_async_16_if, cp_async_16_zfill};
use cuda_std::prelude::*;

use crate::abi::border::{self, BorderMode};
use crate::abi::params::Params;

/// Rows that are copied at a time.
pub(crate) const RUN: usize = 16;
/// Pixels of one copy.
pub(crate) const PIECE: u32 = 4;

/// Digits of a number of bytes of a piece, 0 to 16.
const BITS: u32 = 5;

/// From which one up to which one the pieces of a row whose first column is `left` can be copied as they are: those that
/// begin at a multiple of 16 bytes, and lie in the image.
#[inline(always)]
pub(crate) fn whole(left: i32, pieces: u32, params: &Params) -> (u32, u32) {
    if (params.src_pitch | left) & (PIECE as i32 - 1) != 0 {
        return (0, 0);
    }
    let end = ((params.width - left).max(0) as u32 / PIECE).min(pieces);
    ((left.min(0).unsigned_abs() / PIECE).min(end), end)
}

/// Brings the pixels of one step after the other to shared memory.
pub(crate) struct Copies<const THREADS: u32> {
    pub(crate) image: Global<f32>,
    pub(crate) params: Params,
    /// Of [`whole`]; the others are the row's edges.
    pub(crate) whole: (u32, u32),
    /// The first column.
    pub(crate) left: i32,
    /// The next row; it may lie outside.
    pub(crate) y: i32,
    /// Where the thread's first row of the next ones begins in the first buffer.
    pub(crate) to: Shared<f32>,
    /// Pieces of a row.
    pub(crate) pieces: u32,
    pub(crate) pitch: u32,
    /// For each column that which stands for it, or [`border::OUTSIDE`]: where there are edges.
    pub(crate) table: Shared<i32>,
}

impl<const THREADS: u32> Copies<THREADS> {
    /// Pieces of a row that are not whole.
    #[inline(always)]
    pub(crate) fn edges(&self) -> u32 {
        self.pieces - (self.whole.1 - self.whole.0)
    }

    /// Fills the table where it is needed. All threads of the block call it; it is whole after the next barrier.
    ///
    /// # Safety
    /// The table has an element for each column of the pieces, and nobody reads it.
    #[inline(always)]
    pub(crate) unsafe fn fill_table(&self, thread: u32) {
        if self.edges() > 0 {
            let mut i = thread;
            while i < self.pieces * PIECE {
                thread::no_unroll();
                // SAFETY: the caller's promise; each element is one thread's.
                unsafe {
                    self.table.store(i, border::map(self.params.border, self.left + i as i32, self.params.width))
                };
                i += THREADS;
            }
        }
    }

    /// Begins the copies of the next rows to the buffer that begins `at` pixels after the first one.
    ///
    /// # Safety
    /// All threads of the block call it, none of them reads or writes the buffer before it was waited for; the table is
    /// filled where it is needed.
    #[inline(always)]
    pub(crate) unsafe fn next(&mut self, at: u32) {
        let params = &self.params;
        let (warps, warp, lane) = (THREADS / 32, thread::thread_idx_x() / 32, thread::thread_idx_x() % 32);
        let mut to = self.to.offset(at);
        if self.y >= 0 && self.y + RUN as i32 <= params.height {
            let first = params.src_index(self.left + (lane * PIECE) as i32, self.y + warp as i32);
            for trip in 0..self.pieces.div_ceil(32) {
                let piece = lane + trip * 32;
                let which = piece >= self.whole.0 && piece < self.whole.1;
                let mut from = self.image.offset(first + (trip * 32 * PIECE) as isize);
                for i in 0..(RUN as u32).div_ceil(warps) {
                    let which = which && ((RUN as u32).is_multiple_of(warps) || i * warps < RUN as u32 - warp);
                    // SAFETY: row and piece are in the image; the piece is this thread's.
                    unsafe { cp_async_16_if(which, to.offset(i * warps * self.pitch + piece * PIECE), from) };
                    from = from.offset(warps as isize * params.src_pitch as isize);
                }
            }
            if self.edges() > 0 {
                let mut i = warp;
                // Opaque, or LLVM would unroll the loops.
                while i < thread::black_box(RUN as u32) {
                    thread::no_unroll();
                    let mut edge = lane;
                    while edge < thread::black_box(self.edges()) {
                        thread::no_unroll();
                        let piece = if edge < self.whole.0 { edge } else { edge + self.whole.1 - self.whole.0 };
                        // SAFETY: the row is in the image; the piece is this thread's.
                        unsafe { self.edge(to.offset(piece * PIECE), self.y + i as i32, piece) };
                        edge += 32;
                    }
                    i += warps;
                    to = to.offset(warps * self.pitch);
                }
            }
        } else {
            let mut i = warp;
            while i < thread::black_box(RUN as u32) {
                thread::no_unroll();
                let y = border::map(params.border, self.y + i as i32, params.height);
                let mut piece = lane;
                while piece < thread::black_box(self.pieces) {
                    thread::no_unroll();
                    // SAFETY: the row is in the image or `OUTSIDE`; the piece is this thread's.
                    unsafe { self.piece(to.offset(piece * PIECE), y, piece) };
                    piece += 32;
                }
                i += warps;
                to = to.offset(warps * self.pitch);
            }
        }
        commit_group();
        self.y += RUN as i32;
    }

    /// The pieces of a thread where a block's threads share out the rows evenly: eight neighbours have eight
    /// neighbouring pieces. Its row, and its first piece.
    #[inline(always)]
    pub(crate) fn share(thread: u32) -> (u32, u32) {
        (thread / 8 % RUN as u32, thread % 8 + thread / (8 * RUN as u32) * 8)
    }

    /// From one piece of a thread's share to the next.
    const fn stride() -> u32 {
        const { assert!(THREADS.is_multiple_of(8 * RUN as u32)) };
        THREADS / RUN as u32
    }

    /// How many bytes one copy brings of each piece of a thread's share from a row of the image, [`BITS`] for each piece.
    #[inline(always)]
    pub(crate) fn bytes(&self, (_, first): (u32, u32)) -> u32 {
        let mut bytes = 0;
        for trip in 0..self.pieces.div_ceil(Self::stride()) {
            let piece = first + trip * Self::stride();
            let x = self.left + (piece * PIECE) as i32;
            let there = if x >= 0 { (self.params.width - x).clamp(0, PIECE as i32) as u32 } else { 0 };
            let is_whole = piece >= self.whole.0 && piece < self.whole.1;
            if piece < self.pieces && (is_whole || self.fills_with_zeros()) {
                bytes |= (4 * there) << (BITS * trip);
            }
        }
        bytes
    }

    /// Begins the copies of the next rows to the buffer that begins `at` pixels after the first one; `share` and `bytes` are the thread's
    /// [`share`](Self::share) and [`bytes`](Self::bytes), and `to` is where that share begins in the first buffer. Where the border is zero there is nothing else to do for the pieces at the edge, so that blocks there are as
    /// fast as others.
    ///
    /// # Safety
    /// As for [`next`](Self::next), but the group of copies is not ended.
    #[inline(always)]
    pub(crate) unsafe fn next_shared(&mut self, at: u32, (row, first): (u32, u32), bytes: u32) {
        let params = &self.params;
        let to = self.to.offset(at);
        let stride = Self::stride();
        let zeros = self.fills_with_zeros();
        let y = self.y + row as i32;
        if zeros || self.y >= 0 && self.y + RUN as i32 <= params.height {
            let inside = (y as u32) < params.height as u32;
            let bytes = if inside { bytes } else { 0 };
            // Where no bytes are, the address is only made.
            let from = self.image.offset(params.src_index(self.left + (first * PIECE) as i32, y));
            for trip in 0..self.pieces.div_ceil(stride) {
                let of_piece = (bytes >> (BITS * trip)) & ((1 << BITS) - 1);
                // What is filled below must not be filled with zeros here: which of the two came last would be chance.
                let mine = first + trip * stride < self.pieces && (zeros || of_piece > 0);
                let place = trip * stride * PIECE;
                // SAFETY: of the source so many bytes lie in the row; the piece is this thread's.
                unsafe { cp_async_16_zfill(mine, to.offset(place), from.offset(place as isize), of_piece) };
            }
            if !zeros && self.edges() > 0 {
                let mut piece = first;
                while piece < thread::black_box(self.pieces) {
                    thread::no_unroll();
                    if piece < self.whole.0 || piece >= self.whole.1 {
                        // SAFETY: the row is in the image; the piece is this thread's.
                        unsafe { self.edge(to.offset((piece - first) * PIECE), y, piece) };
                    }
                    piece += stride;
                }
            }
        } else {
            let y = border::map(params.border, y, params.height);
            let mut piece = first;
            while piece < thread::black_box(self.pieces) {
                thread::no_unroll();
                // SAFETY: the row is in the image or `OUTSIDE`; the piece is this thread's.
                unsafe { self.piece(to.offset((piece - first) * PIECE), y, piece) };
                piece += stride;
            }
        }
        self.y += RUN as i32;
    }

    /// Whether all that lies outside is zeros that the copies of pieces put there.
    #[inline(always)]
    fn fills_with_zeros(&self) -> bool {
        let params = &self.params;
        let zeros = params.border == BorderMode::Constant.code() && params.border_value == 0.0;
        zeros && (params.src_pitch | self.left) & (PIECE as i32 - 1) == 0
    }

    /// Begins the copies of a piece to its place, `to`.
    ///
    /// # Safety
    /// As for [`edge`](Self::edge).
    #[inline(always)]
    unsafe fn piece(&self, to: Shared<f32>, y: i32, piece: u32) {
        if y >= 0 && piece >= self.whole.0 && piece < self.whole.1 {
            let from = self.image.offset(self.params.src_index(self.left + (piece * PIECE) as i32, y));
            // SAFETY: row and piece are in the image; the rest is the caller's promise.
            unsafe { cp_async_16_if(true, to, from) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.edge(to, y, piece) };
        }
    }

    /// The same of one that is not whole, or of one of a row that does not exist.
    ///
    /// # Safety
    /// `y` is a row of the image or [`border::OUTSIDE`], the piece one of the row's; no other thread writes there. The
    /// table is filled where `y` is a row.
    #[inline(always)]
    unsafe fn edge(&self, to: Shared<f32>, y: i32, piece: u32) {
        let params = &self.params;
        let first = piece * PIECE;
        // Of a row that does not exist no pixel is read; its pointer is only made.
        let row = self.image.offset(params.src_index(0, y));
        if self.fills_with_zeros() {
            let x = self.left + first as i32;
            let there = if x >= 0 && y >= 0 { (params.width - x).clamp(0, PIECE as i32) } else { 0 };
            let from = if there > 0 { row.offset(x as isize) } else { self.image };
            // SAFETY: of the source `there` pixels lie in the row; the piece is this thread's.
            unsafe { cp_async_16_zfill(true, to, from, 4 * there as u32) };
            return;
        }
        for i in 0..PIECE {
            // SAFETY: the table has a column in the image or `OUTSIDE`, the row exists; the piece is this thread's.
            unsafe {
                let x = if y >= 0 { self.table.load(first + i) } else { y };
                if x >= 0 {
                    cp_async_4(to.offset(i), row.offset(x as isize));
                } else {
                    to.store(i, params.border_value);
                }
            }
        }
    }
}
