//! Fragments of rows on their way from global memory to registers, on to a buffer in shared memory, and to windows.
//!
//! ```text
//!     LEFT     C columns of each thread        HALO - LEFT       a buffer
//!   ├──────┼──────┼──────┼──── … ────┼──────┼──────┤
//!   ├─ 4 VECTORS columns ─┤  the aligned vectors of the first thread's window, which begins at column LEAD
//! ```
//! A fragment is what one thread loads of a row: every 32nd vector of the block's own columns, and one column of the
//! halo. So a warp loads and stores 512 contiguous bytes at a time.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;
use crate::common::border_table;
use crate::direct::sliding_window::BLOCK;
use crate::direct::sliding_window::walk::{MAX_WINDOW, Window};

/// The most vectors of the block's own columns in a fragment.
const MAX_VECTORS: usize = 2;

/// A thread's fragment of a row: `C` of the block's own columns, and one column of the halo.
#[derive(Clone, Copy)]
pub(crate) struct Fragment {
    own: [[f32; 4]; MAX_VECTORS],
    pub(crate) halo: f32,
    /// A bit for each column outside of the image, where the border's value stands. [`HALO_BIT`] is that of the halo.
    pub(crate) outside: u32,
}

/// See [`Fragment::outside`].
pub(crate) const HALO_BIT: usize = 4 * MAX_VECTORS;

impl Fragment {
    pub(crate) const ZERO: Self = Self { own: [[0.0; 4]; MAX_VECTORS], halo: 0.0, outside: 0 };

    /// Puts the border's value into the own columns that lie outside. Returns the halo column, or the border's value.
    #[inline(always)]
    fn fill_outside<const C: usize>(&mut self, border_value: f32) -> f32 {
        if self.outside & !(1 << HALO_BIT) != 0 {
            for c in 0..C {
                if self.outside >> c & 1 != 0 {
                    self.own[c / 4][c % 4] = border_value;
                }
            }
        }
        if self.outside >> HALO_BIT & 1 != 0 { border_value } else { self.halo }
    }
}

/// Moves the fragments of one thread.
#[derive(Clone, Copy)]
pub(crate) struct FragmentLoader<const K: usize, const C: usize> {
    pub(crate) image: Global<f32>,
    pub(crate) params: Params,
    /// Whether the block loads all columns one by one: its own columns go beyond the image, or are not aligned, or the
    /// anchor is off-center. The same in all threads of the block.
    pub(crate) scalar: bool,
    /// The pitch of the image, zero-extended from 32 bits, so that its upper half takes no register.
    pub(crate) pitch: isize,
    /// The block's first column of the result. Unless `scalar`, its first own column of the image, too.
    pub(crate) block_x: i32,
    /// The thread's number in the block.
    pub(crate) lane: u32,
    /// The border table of a buffer's columns: of the halo, and of all columns where `scalar`.
    pub(crate) table: Shared<i32>,
}

impl<const K: usize, const C: usize> FragmentLoader<K, C> {
    /// The column of the mask's middle.
    pub(crate) const ORIGIN: usize = (K - 1) / 2;
    /// Columns of a buffer. Each thread has a place for a halo column, so the store needs no test.
    pub(crate) const BUFFER: u32 = BLOCK.0 * (C as u32 + 1);
    /// Columns before the first thread's window, so that its own columns begin at a multiple of 4.
    pub(crate) const LEAD: usize = Self::ORIGIN.next_multiple_of(4) - Self::ORIGIN;
    /// Columns of a buffer before the first thread's own.
    const LEFT: usize = Self::LEAD + Self::ORIGIN;
    /// Vectors that cover a window.
    const VECTORS: usize = (Self::LEAD + C + K - 1).div_ceil(4);
    /// Columns of the halo that windows reach. Each is loaded by one thread.
    const HALO: usize = {
        assert!(C.is_multiple_of(4) && C <= 4 * MAX_VECTORS && C + K - 1 <= MAX_WINDOW);
        assert!(4 * Self::VECTORS - C <= BLOCK.0 as usize);
        4 * Self::VECTORS - C
    };

    /// The lane, hidden from the compiler. Otherwise LLVM keeps values derived from it in registers, although two
    /// instructions recompute them.
    #[inline(always)]
    fn rematerialize_lane(&self) -> u32 {
        thread::black_box(self.lane)
    }

    /// The place in a buffer of vector `i` of the fragment of thread `lane`.
    #[inline(always)]
    fn own_place(lane: u32, i: usize) -> u32 {
        Self::LEFT as u32 + 4 * (BLOCK.0 * i as u32 + lane)
    }

    /// The place in a buffer of the halo column of thread `lane`.
    #[inline(always)]
    fn halo_place(lane: u32) -> u32 {
        if lane < Self::LEFT as u32 { lane } else { BLOCK.0 * C as u32 + lane }
    }

    /// Fills the thread's part of the border table, for buffers that begin with column `left`. No other thread reads
    /// it.
    #[inline(always)]
    pub(crate) fn fill_table(&self, left: i32) {
        // The compiler must not know the count, or it would unroll the loop.
        let (mut i, own) = (if self.scalar { 0 } else { C as u32 }, thread::black_box(C as u32));
        while i <= own {
            thread::no_unroll();
            let is_halo = i == own;
            let place = if is_halo {
                Self::halo_place(self.lane)
            } else {
                Self::own_place(self.lane, (i / 4) as usize) + i % 4
            };
            // A thread beyond the halo loads the block's first own column.
            let column = if is_halo && self.lane >= Self::HALO as u32 { Self::LEFT as u32 } else { place };
            let x = border_table::map_value::<1>(&self.params, left + column as i32);
            // SAFETY: the table has an element for each place of a buffer, and this one is this thread's.
            unsafe { self.table.store(place, x) };
            i += 1;
        }
    }

    /// The image's column for the thread's halo column, negative where it is outside.
    #[inline(always)]
    pub(crate) fn halo_column(&self) -> i32 {
        // SAFETY: the thread has filled this element of the table.
        unsafe { self.table.load(Self::halo_place(self.rematerialize_lane())) }
    }

    /// Row `y`, which is inside.
    #[inline(always)]
    pub(crate) fn row(&self, y: i32) -> Global<f32> {
        self.image.offset(y as u32 as isize * self.pitch)
    }

    /// Loads the fragment of row `y`, which may lie outside.
    ///
    /// # Safety
    /// The thread's part of the table is filled.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(crate) unsafe fn load(&self, fragment: &mut Fragment, mut y: i32) {
        let params = &self.params;
        if y as u32 >= params.height as u32 {
            // LLVM would compute values derived from the height before the loop, and keep them in registers.
            y = border::map(params.border, y, thread::black_box(params.height as u32) as i32);
        }
        fragment.outside = u32::MAX;
        if y < 0 {
            return;
        }
        fragment.outside = 0;
        let lane = self.rematerialize_lane();
        let row = self.row(y);
        // A column outside loads column 0 instead, so the load needs no branch on the table's value.
        if self.scalar {
            for i in 0..C / 4 {
                // SAFETY: the table has an element for each place of a buffer. A vector begins at a multiple of 4.
                let columns = unsafe { self.table.offset(Self::own_place(lane, i)).cast::<F32x4>().load(0) }
                    .0
                    .map(|column| column.to_bits() as i32);
                for j in 0..4 {
                    let column = columns[j];
                    fragment.outside |= (column as u32 >> 31) << (4 * i + j);
                    // SAFETY: the columns of the table are the image's or negative.
                    fragment.own[i][j] = unsafe { row.load(column.max(0) as isize) };
                }
            }
        } else {
            // SAFETY: row `y` is inside, and the block is not `scalar`.
            unsafe { self.load_own(fragment, row) };
        }
        let column = self.halo_column();
        fragment.outside |= (column as u32 >> 31) << HALO_BIT;
        // SAFETY: the columns of the table are the image's or negative.
        fragment.halo = unsafe { row.load(column.max(0) as isize) };
    }

    /// Loads the fragment's own columns of the row that begins with `row`.
    ///
    /// # Safety
    /// `row` is a row of the image, and the block is not `scalar`.
    #[inline(always)]
    pub(crate) unsafe fn load_own(&self, fragment: &mut Fragment, row: Global<f32>) {
        let own = row.offset((self.block_x as u32 + 4 * self.rematerialize_lane()) as isize).cast::<F32x4>();
        for i in 0..C / 4 {
            // SAFETY: the block is not `scalar`: its own columns lie in the row, aligned.
            fragment.own[i] = unsafe { own.load((BLOCK.0 * i as u32) as isize) }.0;
        }
    }

    /// Stores a fragment, with the border's value where it is outside.
    ///
    /// # Safety
    /// No thread reads the buffer before the next barrier.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, buffer: Shared<f32>, fragment: &mut Fragment) {
        let halo = fragment.fill_outside::<C>(self.params.border_value);
        // SAFETY: the thread stores only its own places, and no thread reads them before the next barrier.
        unsafe { self.store_values(buffer, fragment, halo) };
    }

    /// Stores the fragment of an interior row. `halo_column` is [`halo_column`](Self::halo_column).
    ///
    /// # Safety
    /// No thread reads the buffer before the next barrier.
    #[inline(always)]
    pub(crate) unsafe fn store_interior(&self, buffer: Shared<f32>, fragment: &Fragment, halo_column: i32) {
        let halo = if halo_column < 0 { self.params.border_value } else { fragment.halo };
        // SAFETY: the thread stores only its own places, and no thread reads them before the next barrier.
        unsafe { self.store_values(buffer, fragment, halo) };
    }

    /// Stores the own columns of a fragment, and a halo column.
    ///
    /// # Safety
    /// No thread reads the buffer before the next barrier.
    #[inline(always)]
    unsafe fn store_values(&self, buffer: Shared<f32>, fragment: &Fragment, halo: f32) {
        let lane = self.rematerialize_lane();
        for i in 0..C / 4 {
            // SAFETY: the vector lies in the buffer, aligned, and no other thread stores it.
            unsafe { buffer.offset(Self::own_place(lane, i)).cast::<F32x4>().store(0, F32x4(fragment.own[i])) };
        }
        // SAFETY: the halo column lies in the buffer, and no other thread stores it.
        unsafe { buffer.store(Self::halo_place(lane), halo) };
    }

    /// Loads the thread's window from a buffer.
    ///
    /// # Safety
    /// All threads have stored their fragments to the buffer before the last barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(crate) unsafe fn window(&self, buffer: Shared<f32>) -> Window {
        let mut window = Window::ZERO;
        let vectors = buffer.offset(self.rematerialize_lane() * C as u32).cast::<F32x4>();
        for i in 0..Self::VECTORS {
            // SAFETY: the last thread's window ends in the buffer, and `C` is a multiple of 4.
            let vector = unsafe { vectors.load(i as u32) }.0;
            for j in 0..4 {
                let at = (4 * i + j).wrapping_sub(Self::LEAD);
                if at < C + K - 1 {
                    window.0[at] = vector[j];
                }
            }
        }
        window
    }
}
