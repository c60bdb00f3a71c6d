//! Rows on their way from interleaved pixels in global memory to a plane of `f32` for each channel in shared memory.
//!
//! ```text
//!            GROUPS * C pixels of the block        K - 1
//!   ├───────────────────────────────────────────┼───────┤     a plane; it begins `origin_x` pixels left of the block
//!   ├────────────── C + K - 1 ──────┤                         the window of the first group
//! ```
//! Lane `i` of the loaders loads values `i`, `i + LOADERS`, `i + 2 LOADERS`, … of the row. `LOADERS` is a multiple of
//! the channels, so all values of a thread belong to one channel, and one address serves all its stores.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;
use crate::common::border_table::map_value;
use crate::common::vector::LoadVector;
use crate::direct::sliding_window::walk::{MAX_WINDOW, Window};

/// The most values of a row that a thread loads. Each has a bit of [`RowLoader::inside`].
pub(super) const MAX_LOADS: usize = 16;

/// The values of one row that a thread has loaded, and that are not in shared memory yet.
pub(super) struct Fragment {
    /// The bits of the values.
    raw: [u32; MAX_LOADS],
    /// Whether the row lies in the image. Otherwise `raw` holds the border's value, as an `f32`.
    is_inside: bool,
}

impl Fragment {
    pub(super) const ZERO: Self = Self { raw: [0; MAX_LOADS], is_inside: true };
}

/// Moves the values that one thread loads.
#[derive(Clone, Copy)]
pub(super) struct RowLoader<T, const K: usize, const CHANNELS: u32, const THREADS: u32> {
    pub(super) image: Global<T>,
    pub(super) params: Params,
    /// A bit for each value of the thread, set if its column lies in the image or the border maps it there.
    inside: u32,
    /// Where the thread's values lie in a row of the image, as many as [`Layout::table`].
    table: Shared<i32>,
    /// The place of the thread's first value in a buffer.
    place: u32,
}

impl<T: LoadVector, const K: usize, const CHANNELS: u32, const THREADS: u32> RowLoader<T, K, CHANNELS, THREADS> {
    /// The layout of the shared memory.
    const LAYOUT: Layout = Layout::new(K as u32, CHANNELS, THREADS);
    /// Values that a thread loads.
    const LOADS: usize = Self::LAYOUT.loads as usize;

    /// Fills the thread's part of the table. The block's first pixel is in column `first_x`.
    ///
    /// # Safety
    /// - `thread` is the thread's number in its block of `THREADS`.
    /// - `tables` has [`Layout::tables`] elements, and no other thread accesses the part of this one.
    #[inline(always)]
    pub(super) unsafe fn new(
        image: Global<T>,
        params: Params,
        (thread, first_x): (u32, i32),
        tables: Shared<i32>,
    ) -> Self {
        const { assert!(C + K - 1 <= MAX_WINDOW && Self::LOADS <= MAX_LOADS) };
        let table = tables.offset(thread * Self::LAYOUT.table);
        let left = (first_x - params.origin_x) * CHANNELS as i32;
        let (mut inside, mut i) = (0, 0);
        // The compiler must not know the count, or it would unroll the loop.
        let count = thread::black_box(Self::LAYOUT.table);
        while i < count {
            thread::no_unroll();
            let value = thread + i * Self::LAYOUT.loaders;
            let is_read = thread < Self::LAYOUT.loaders && value < Self::LAYOUT.pixels * CHANNELS;
            let column = if is_read { map_value::<CHANNELS>(&params, left + value as i32) } else { border::OUTSIDE };
            inside |= u32::from(column >= 0) << i;
            // Without a value the thread loads the row's first one, and does not store it.
            // SAFETY: the table has an element for each `i`, and this part of it is the thread's.
            unsafe { table.store(i, column.max(0)) };
            i += 1;
        }
        let place = thread % CHANNELS * Self::LAYOUT.plane + thread / CHANNELS;
        Self { image, params, inside, table, place }
    }

    /// Loads the thread's values of row `y`, which may lie outside.
    ///
    /// # Safety
    /// The image holds `height` rows of `width` pixels.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn load(&self, fragment: &mut Fragment, mut y: i32) {
        let params = &self.params;
        if y as u32 >= params.height as u32 {
            // LLVM would compute what follows from the height before the loop, and keep it in registers.
            y = border::map(params.border, y, thread::black_box(params.height as u32) as i32);
        }
        fragment.is_inside = y >= 0;
        if y < 0 {
            for i in 0..Self::LOADS {
                fragment.raw[i] = params.border_value.to_bits();
            }
            return;
        }
        let row = self.image.offset(y as u32 as isize * params.src_pitch as u32 as isize);
        for i in 0..Self::LOADS.div_ceil(4) {
            // SAFETY: the thread has filled its part of the table.
            let columns = unsafe { self.table.cast::<F32x4>().load(i as u32) }.0;
            for j in 0..4 {
                if 4 * i + j < Self::LOADS {
                    // SAFETY: row `y` is inside, and so are the columns of the table.
                    fragment.raw[4 * i + j] = unsafe { row.load(columns[j].to_bits() as isize) }.to_raw();
                }
            }
        }
    }

    /// Stores the thread's values to the planes of a buffer. Those outside keep what the buffer holds.
    ///
    /// # Safety
    /// - The buffer has [`Layout::buffer`] values.
    /// - No thread reads it before the next barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn store(&self, buffer: Shared<f32>, fragment: &Fragment) {
        let mut values = fragment.raw;
        // `f32` holds the border's value as it holds its pixels.
        if size_of::<T>() < size_of::<f32>() && fragment.is_inside {
            for i in 0..Self::LOADS {
                values[i] = T::from_raw_pixel(values[i]).to_bits();
            }
        }
        for i in 0..Self::LOADS {
            if self.inside >> i & 1 != 0 {
                // SAFETY: the place lies in the buffer, and it is the thread's.
                unsafe { buffer.store(self.place + i as u32 * Self::LAYOUT.step, f32::from_bits(values[i])) };
            }
        }
    }

    /// Fills a buffer with the border's value, together with the other threads of the block.
    ///
    /// # Safety
    /// - `thread` is the thread's number in its block of `THREADS`.
    /// - `buffers` has `length` values, and no thread reads them before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, buffers: Shared<f32>, length: u32, thread: u32) {
        let mut i = thread;
        while i < length {
            thread::no_unroll();
            // SAFETY: `i < length`, and `i % THREADS` is this thread's alone.
            unsafe { buffers.store(i, self.params.border_value) };
            i += THREADS;
        }
    }

    /// The place in a buffer of the window of group `group` of the block in channel `channel`.
    #[inline(always)]
    pub(super) fn window_place(group: u32, channel: u32) -> u32 {
        channel * Self::LAYOUT.plane + group * C as u32
    }

    /// Loads the window that begins with `window`.
    ///
    /// # Safety
    /// The window begins at a [`window_place`](Self::window_place) of a buffer that was stored before the last barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn window(window: Shared<f32>) -> Window {
        let mut values = Window::ZERO;
        for i in 0..Self::LAYOUT.vectors as usize {
            // SAFETY: the window of the last group ends in its plane, and windows begin at multiples of 4.
            let vector = unsafe { window.cast::<F32x4>().load(i as u32) }.0;
            for j in 0..4 {
                if 4 * i + j < C + K - 1 {
                    values.0[4 * i + j] = vector[j];
                }
            }
        }
        values
    }
}

/// Threads of a warp.
pub(super) const WARP: u32 = 32;

/// Neighbouring pixels of a thread.
pub(super) const C: usize = super::PIXELS_PER_THREAD as usize;

/// Groups of pixels of which a warp has threads. The first and the last one may belong to two warps.
pub(super) const fn groups(channels: u32) -> u32 {
    if WARP.is_multiple_of(channels) { WARP / channels } else { (WARP + channels - 2) / channels + 1 }
}

/// The layout of the shared memory that holds rows: the border table, then two buffers. All numbers are of values.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Threads that load.
    loaders: u32,
    /// Pixels of a row that the windows reach.
    pixels: u32,
    /// Pixels from one value of a thread to the next.
    step: u32,
    /// Values that a thread loads.
    loads: u32,
    /// The table's values for one thread.
    table: u32,
    /// All values of the table.
    pub(super) tables: u32,
    /// Vectors that cover a window.
    vectors: u32,
    /// Values from one plane to the next: an odd multiple of 4, which spreads the channels over the banks.
    plane: u32,
    /// A plane for each channel.
    pub(super) buffer: u32,
}

impl Layout {
    /// For masks of `side` x `side`, and blocks of `threads` threads.
    pub(super) const fn new(side: u32, channels: u32, threads: u32) -> Self {
        let groups = groups(channels);
        let loaders = threads - threads % channels;
        let step = loaders / channels;
        let pixels = groups * C as u32 + side - 1;
        let loads = (pixels * channels).div_ceil(loaders);
        let table = loads.next_multiple_of(4);
        let vectors = (C as u32 + side - 1).div_ceil(4);
        let (of_windows, stored) = ((groups - 1) * C as u32 + 4 * vectors, step * loads);
        let quads = if of_windows > stored { of_windows } else { stored }.div_ceil(4);
        let plane = 4 * (quads + (quads + 1) % 2);
        let (tables, buffer) = (threads * table, channels * plane);
        Self { loaders, pixels, step, loads, table, tables, vectors, plane, buffer }
    }
}
