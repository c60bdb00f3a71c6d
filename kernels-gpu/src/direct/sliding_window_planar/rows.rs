//! Copies rows of interleaved pixels from global memory to a plane of `f32` for each channel in shared memory.
//!
//! ```text
//!          groups * PIXELS pixels of the block     K - 1
//!   ├───────────────────────────────────────────┼───────┤     a plane; it begins `origin_x` pixels left of the block
//!   ├─────── PIXELS + K - 1 ────────┤                         the window of the first group
//! ```
//! Thread `i` loads values `i`, `i + loaders`, `i + 2 * loaders`, … of the row. `loaders` is a multiple of `CHANNELS`,
//! so a thread loads one channel. All its stores have one base address and constant offsets.

use cuda_std::prelude::*;

use crate::abi::border;
use crate::abi::params::Params;
use crate::common::border_table::map_value;
use crate::common::vector::LoadVector;
use crate::direct::sliding_window::walk::{MAX_WINDOW, Window};

/// The most values of a row that a thread loads. Each has a bit of [`RowLoader::inside`].
const MAX_LOADS: usize = 16;

/// The values of one row that a thread has loaded, and that are not in shared memory yet.
pub(super) struct Fragment {
    /// The bits of the values.
    raw: [u32; MAX_LOADS],
    /// Whether the border maps the row into the image. Otherwise `raw` holds the border's value, as an `f32`.
    is_inside: bool,
}

impl Fragment {
    pub(super) const ZERO: Self = Self { raw: [0; MAX_LOADS], is_inside: true };
}

/// Loads a thread's values of a row, and stores them to shared memory.
#[derive(Clone, Copy)]
pub(super) struct RowLoader<T, const K: usize, const CHANNELS: u32, const THREADS: u32> {
    image: Global<T>,
    params: Params,
    /// A bit for each value of the thread, set if the border maps its column into the image.
    inside: u32,
    /// The indices of the thread's values in a row of the image, [`SharedLayout::table_per_thread`] elements.
    table: Shared<i32>,
    /// The index of the thread's first value in a buffer.
    slot: u32,
}

impl<T: LoadVector, const K: usize, const CHANNELS: u32, const THREADS: u32> RowLoader<T, K, CHANNELS, THREADS> {
    /// The layout of the shared memory.
    const LAYOUT: SharedLayout = SharedLayout::new(K as u32, CHANNELS, THREADS);
    /// Values that a thread loads.
    const LOADS: usize = Self::LAYOUT.loads as usize;

    /// Computes which values the thread loads, and fills its part of the table.
    ///
    /// `thread` is the thread's rank in its block. The block's first group of pixels begins in column `first_x`.
    ///
    /// # Safety
    /// - `thread < THREADS`.
    /// - `table` has [`SharedLayout::table_total`] elements.
    /// - No other thread accesses this thread's part of it.
    #[inline(always)]
    pub(super) unsafe fn new(image: Global<T>, params: Params, thread: u32, first_x: i32, table: Shared<i32>) -> Self {
        const { assert!(PIXELS + K - 1 <= MAX_WINDOW && Self::LOADS <= MAX_LOADS) };
        let table = table.offset(thread * Self::LAYOUT.table_per_thread);
        let left = (first_x - params.origin_x) * CHANNELS as i32;
        let (mut inside, mut i) = (0, 0);
        // The compiler must not know the count, or it would unroll the loop.
        let count = thread::black_box(Self::LAYOUT.table_per_thread);
        while i < count {
            thread::no_unroll();
            let value = thread + i * Self::LAYOUT.loaders;
            let is_read = thread < Self::LAYOUT.loaders && value < Self::LAYOUT.pixels * CHANNELS;
            let index = if is_read { map_value::<CHANNELS>(&params, left + value as i32) } else { border::OUTSIDE };
            // Where the index is negative, the thread loads the row's first value and does not store it.
            inside |= u32::from(index >= 0) << i;
            // SAFETY: `i < table_per_thread`, the elements of the thread's part.
            unsafe { table.store(i, index.max(0)) };
            i += 1;
        }
        let slot = thread % CHANNELS * Self::LAYOUT.plane + thread / CHANNELS;
        Self { image, params, inside, table, slot }
    }

    /// Loads the thread's values of row `y`, which may lie outside of the image.
    ///
    /// # Safety
    /// The image holds `height` rows of `width` pixels.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn load(&self, fragment: &mut Fragment, mut y: i32) {
        let params = &self.params;
        if y as u32 >= params.height as u32 {
            // black_box keeps LLVM from hoisting expressions of the height out of the row loop. They would occupy
            // registers.
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
            // The table's `i32`s are read four at a time, as the bits of an `F32x4`.
            // SAFETY: `new` has filled the thread's part of the table. It consists of aligned vectors.
            let indices = unsafe { self.table.cast::<F32x4>().load(i as u32) }.0;
            for j in 0..4 {
                if 4 * i + j < Self::LOADS {
                    // SAFETY: `0 <= y < height`. The table holds indices of values of a row.
                    fragment.raw[4 * i + j] = unsafe { row.load(indices[j].to_bits() as isize) }.to_raw();
                }
            }
        }
    }

    /// Stores the thread's values to the planes of a buffer, except those outside of the image.
    ///
    /// # Safety
    /// - The buffer has [`SharedLayout::buffer`] values.
    /// - No thread reads it before the next barrier.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn store(&self, buffer: Shared<f32>, fragment: &Fragment) {
        let mut values = fragment.raw;
        // No conversion if `T` is `f32`, or if `raw` holds the border's value, which is an `f32` already.
        if size_of::<T>() < size_of::<f32>() && fragment.is_inside {
            for i in 0..Self::LOADS {
                values[i] = T::from_raw_pixel(values[i]).to_bits();
            }
        }
        for i in 0..Self::LOADS {
            if self.inside >> i & 1 != 0 {
                // SAFETY: a plane has a slot for each value of a row. No other thread stores this value.
                unsafe { buffer.store(self.slot + i as u32 * Self::LAYOUT.stride, f32::from_bits(values[i])) };
            }
        }
    }

    /// Fills buffers with the border's value, together with the other threads of the block.
    ///
    /// # Safety
    /// - Each thread of the block calls this with its own rank `thread`, below `THREADS`.
    /// - `buffers` has `length` values.
    /// - No thread accesses them outside of this function before the next barrier.
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

    /// The offset, in a buffer, of the window in channel `channel` of the block's group `group`.
    #[inline(always)]
    pub(super) fn window_offset(group: u32, channel: u32) -> u32 {
        channel * Self::LAYOUT.plane + group * PIXELS as u32
    }

    /// Loads the window that begins at `start`.
    ///
    /// # Safety
    /// - `start` lies at a [`window_offset`](Self::window_offset) in a buffer.
    /// - A barrier lies between the last store to the buffer and this call.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn load_window(start: Shared<f32>) -> Window {
        let mut values = Window::ZERO;
        for i in 0..Self::LAYOUT.vectors as usize {
            // SAFETY: the vectors of the last group end in its plane. Windows begin at multiples of 4 values.
            let vector = unsafe { start.cast::<F32x4>().load(i as u32) }.0;
            for j in 0..4 {
                if 4 * i + j < PIXELS + K - 1 {
                    values.0[4 * i + j] = vector[j];
                }
            }
        }
        values
    }
}

/// Threads of a warp.
pub(super) const WARP: u32 = 32;

/// [`PIXELS_PER_THREAD`](super::PIXELS_PER_THREAD) as an array length. A group is this many neighbouring pixels.
pub(super) const PIXELS: usize = super::PIXELS_PER_THREAD as usize;

/// The group and the channel of lane `lane` of the grid.
///
/// The lanes take the channels of a group of pixels, then those of the next group.
#[inline(always)]
pub(super) const fn group_and_channel<const CHANNELS: u32>(lane: u32) -> (u32, u32) {
    (lane / CHANNELS, lane % CHANNELS)
}

/// The most groups that the 32 lanes of a warp cover.
///
/// With three channels, neighbouring blocks may share a group.
pub(super) const fn groups(channels: u32) -> u32 {
    if WARP.is_multiple_of(channels) { WARP / channels } else { (WARP + channels - 2) / channels + 1 }
}

/// The layout of rows in shared memory: the border table, then two buffers.
#[derive(Clone, Copy)]
pub(super) struct SharedLayout {
    /// Threads that load: a multiple of the channels.
    loaders: u32,
    /// Pixels of a row that the block's windows cover.
    pixels: u32,
    /// Pixels from one value that a thread loads to its next one.
    stride: u32,
    /// Values of a row that a thread loads.
    loads: u32,
    /// Elements of the table for one thread: `loads`, rounded up to a multiple of 4.
    table_per_thread: u32,
    /// Elements of the whole table.
    pub(super) table_total: u32,
    /// Vectors of 4 values that cover a window.
    vectors: u32,
    /// Values from one plane to the next: an odd multiple of 4, which spreads the channels over the banks.
    plane: u32,
    /// Values of a buffer: a plane for each channel.
    pub(super) buffer: u32,
}

impl SharedLayout {
    /// The layout for masks of `side` x `side`, and blocks of `threads` threads.
    pub(super) const fn new(side: u32, channels: u32, threads: u32) -> Self {
        let groups = groups(channels);
        let loaders = threads - threads % channels;
        let stride = loaders / channels;
        let pixels = groups * PIXELS as u32 + side - 1;
        let loads = (pixels * channels).div_ceil(loaders);
        let table_per_thread = loads.next_multiple_of(4);
        let vectors = (PIXELS as u32 + side - 1).div_ceil(4);
        let (window_end, store_end) = ((groups - 1) * PIXELS as u32 + 4 * vectors, stride * loads);
        let quads = if window_end > store_end { window_end } else { store_end }.div_ceil(4);
        let plane = 4 * (quads + (quads + 1) % 2);
        let (table_total, buffer) = (threads * table_per_thread, channels * plane);
        Self { loaders, pixels, stride, loads, table_per_thread, table_total, vectors, plane, buffer }
    }
}
