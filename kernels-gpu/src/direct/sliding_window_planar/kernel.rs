//! The kernel: a block walks down a strip. Each of its warps runs one pass over the mask.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::common::contributing_rows::{MaskRowRange, MaskRows};
use crate::common::partition::block_rows;
use crate::common::vector::LoadVector;
use crate::direct::sliding_window::passes::Pass;
use crate::direct::sliding_window::walk::{Sums, Window, multiply_add};
use crate::direct::sliding_window_planar::mask::pass_pitch;
use crate::direct::sliding_window_planar::rows::{Fragment, PIXELS, RowLoader, SharedLayout, WARP, group_and_channel};
use crate::direct::sliding_window_planar::store::{self, ResultWriter};

/// A row is loaded two iterations before its use: one in registers, one in shared memory. The loop depends on this
/// number.
const PREFETCH_DISTANCE: i32 = 2;

/// The convergent instructions of a kernel with `passes` passes: a barrier before the first row, one for each row, a
/// vote for each bit of the pass index, and those of the exchange of results.
#[must_use]
pub const fn convergent(channels: u32, passes: u32) -> Convergent {
    Convergent { votes: passes.ilog2(), ..Convergent::barriers(2) }.and(store::convergent(channels))
}

/// The dynamic shared memory of a block in bytes: the border table, two row buffers, two buffers of the sums
/// that passes hand over, and the exchange of results.
#[must_use]
pub const fn shared_bytes(side: u32, channels: u32, passes: u32) -> u64 {
    let rows = SharedLayout::new(side, channels, WARP * passes);
    let sums = pass_sums_buffer(passes);
    (rows.table_total + 2 * (rows.buffer + sums) + store::exchange_values(channels)) as u64 * size_of::<f32>() as u64
}

/// The kernel for a mask of `K` x `K` in `PASSES` passes of up to `H` rows, and `CHANNELS` interleaved channels.
///
/// # Safety
/// - `image` and `result` hold `height` rows of `width` pixels of `CHANNELS` values at their pitches.
/// - Both begin at a multiple of 16 bytes and do not overlap.
/// - The result is of the type that `result_kind` names.
/// - The block has `PASSES` warps, its dynamic shared memory is at least [`shared_bytes`].
/// - The mask is `K` x `K`. [`MASK`](struct@crate::teaching::constant_mask::MASK) holds its coefficients, each row
///   where [`mask_row`](super::mask_row) says.
#[inline(always)]
pub unsafe fn sliding_window_planar<
    T: LoadVector,
    const K: usize,
    const H: usize,
    const PASSES: usize,
    const CHANNELS: u32,
    const THREADS: u32,
>(
    image: Global<T>,
    result: OutputPtr,
    params: Params,
) {
    // SAFETY: `run` requires nothing beyond the conditions above.
    unsafe { Planar::<T, K, H, PASSES, CHANNELS, THREADS>::run(image, result, params) }
}

/// Holds the constants that depend on the kernel's parameters.
struct Planar<T, const K: usize, const H: usize, const PASSES: usize, const CHANNELS: u32, const THREADS: u32>(
    core::marker::PhantomData<T>,
);

impl<T: LoadVector, const K: usize, const H: usize, const PASSES: usize, const CHANNELS: u32, const THREADS: u32>
    Planar<T, K, H, PASSES, CHANNELS, THREADS>
{
    const LAYOUT: SharedLayout = SharedLayout::new(K as u32, CHANNELS, THREADS);

    /// The body of the kernel.
    ///
    /// # Safety
    /// As for [`sliding_window_planar`].
    #[inline(always)]
    unsafe fn run(image: Global<T>, result: OutputPtr, params: Params) {
        const { assert!(THREADS == WARP * PASSES as u32 && PASSES * H >= K && PASSES * (H - 1) < K) };
        let thread = thread::thread_idx_x();
        let lane = thread % WARP;
        let first_lane = thread::block_idx_x() * WARP;
        let (group, channel) = group_and_channel::<CHANNELS>(first_lane + lane);
        let first_group = first_lane / CHANNELS;
        let (first, rows) = block_rows::<1>(&params);
        if rows <= 0 {
            return;
        }

        let table = Shared::<i32>::dynamic();
        let buffers = table.offset(Self::LAYOUT.table_total).cast::<f32>();
        let sum_buffers = buffers.offset(2 * Self::LAYOUT.buffer);
        // SAFETY: the table begins the shared memory, which has room for it. `thread < THREADS`.
        let loader = unsafe {
            RowLoader::<T, K, CHANNELS, THREADS>::new(image, params, thread, first_group as i32 * PIXELS as i32, table)
        };
        // SAFETY: the buffers follow the table. The barrier below comes before any other access.
        unsafe { loader.fill(buffers, 2 * Self::LAYOUT.buffer, thread) };
        let mut pass_sums = PassSums::<PASSES> { sums: sum_buffers.offset(4 * lane), pass: 0, current: 0 };
        let mut pass = Pass::ALL_ROWS;
        if PASSES > 1 {
            // `warp::any` gives a warp-uniform value, so ptxas keeps the pass index in a uniform register.
            let mut index = 0;
            for bit in 0..PASSES.ilog2() {
                // SAFETY: `rows` is the same for all threads, so all lanes are here.
                index |= u32::from(unsafe { warp::any((thread / WARP) >> bit & 1 != 0) }) << bit;
            }
            // black_box hides that the index is one of a few. Otherwise LLVM emits selects, whose results go to
            // per-thread registers.
            let index = thread::black_box(index);
            pass_sums.pass = index;
            pass = Pass::new::<K, H>(index as i32, index * pass_pitch(K as u32, H as u32));
            // SAFETY: each warp has a pass of its own. The barrier below comes before any other access.
            unsafe { pass_sums.clear() };
        }

        // `mask_height` is `K`. The compiler must not know that, or it would unroll the loop.
        let end = rows + params.mask_height - 1;
        let top = first - params.origin_y;
        let exchange = sum_buffers.offset(2 * PassSums::<PASSES>::BUFFER);
        let mut writer = ResultWriter::<CHANNELS>::new(result, &params, lane, first_lane, first, exchange);
        let window_offset = RowLoader::<T, K, CHANNELS, THREADS>::window_offset(group - first_group, channel);
        let mut fragment = Fragment::ZERO;
        // SAFETY: `image` holds `height` rows of `width` pixels.
        unsafe { loader.load(&mut fragment, top) };
        // SAFETY: `rows` is the same for all threads, so all of them are here.
        unsafe { thread::sync_threads() };
        let mut sums: Sums<H, PIXELS> = [[0.0; PIXELS]; H];
        let mut current = 0;
        // black_box keeps LLVM from peeling the first iteration and duplicating the barrier.
        let mut r = thread::black_box((1 - PREFETCH_DISTANCE) as u32) as i32;
        while r < end {
            thread::no_unroll();
            // SAFETY: the current buffer was stored before the last barrier. All threads have read the other one before
            // that barrier. Both buffers are filled before the first iteration, which does not use its window.
            let window = unsafe {
                let window = RowLoader::<T, K, CHANNELS, THREADS>::load_window(buffers.offset(current + window_offset));
                current = Self::LAYOUT.buffer - current;
                loader.store(buffers.offset(current), &fragment);
                window
            };
            if r + PREFETCH_DISTANCE < end {
                // SAFETY: `image` holds `height` rows of `width` pixels.
                unsafe { loader.load(&mut fragment, top + r + PREFETCH_DISTANCE) };
            }
            // SAFETY: `r` and `end` are the same for all threads, so all of them are here.
            unsafe { thread::sync_threads() };

            // Row of this pass's input. A pass starts `first_row` iterations after the first pass.
            let pass_r = r - pass.first_row;
            if pass_r >= 0 && pass_r < rows + H as i32 - 1 {
                // SAFETY: `MASK` holds the coefficients of all passes. A barrier lies between two iterations. Only the
                // warp of the last pass stores results, to the block's `rows`. `pass` is the same for all lanes, so all
                // of them are here.
                unsafe {
                    let initial = pass_sums.load();
                    add_row::<K, H>(&mut sums, &window, initial, MaskRowRange::new::<false>(pass_r, rows), pass);
                    if !pass_sums.is_last() {
                        pass_sums.store(&sums[0]);
                    } else if pass_r >= H as i32 - 1 {
                        writer.store(&sums[0]);
                    }
                }
            }
            pass_sums.end_row();
            r += 1;
        }
    }
}

/// Adds a row of the image to the sums of a pass, and moves each sum up by one.
///
/// # Safety
/// [`MASK`](struct@crate::teaching::constant_mask::MASK) holds the coefficients of `pass`, `K` for each row.
#[inline(always)]
unsafe fn add_row<const K: usize, const H: usize>(
    sums: &mut Sums<H, PIXELS>,
    window: &Window,
    initial: [f32; PIXELS],
    mask_rows: MaskRowRange<K, H>,
    pass: Pass,
) {
    // A pass that skips row 0 uses `initial` with row 1 in this iteration. `walk::add_row` keeps it for the next
    // one.
    if H < K && pass.skips_first {
        sums[H - 1] = initial;
    }
    let group_rows = MaskRowRange::<K, H>::GROUP;
    let grouped = if H < K { H - 1 } else { H };
    for row_group in 0..grouped.div_ceil(group_rows) {
        let (begin, end) = (row_group * group_rows, grouped.min((row_group + 1) * group_rows));
        if group_rows < H && !mask_rows.any(H - end, end - begin) {
            continue;
        }
        for a in 0..H {
            if a >= begin && a < end {
                let sum = if a + 1 < H { sums[a + 1] } else { initial };
                // SAFETY: row `H - 1 - a` is one of the pass.
                sums[a] = unsafe { multiply_add::<K, PIXELS, 1>(sum, window, H - 1 - a, pass) };
            }
        }
    }
    if H < K && !pass.skips_first {
        // SAFETY: the pass does not skip row 0.
        sums[H - 1] = unsafe { multiply_add::<K, PIXELS, 1>(initial, window, 0, pass) };
    }
}

/// The values of a buffer of [`PassSums`]: the initial sums of each pass. A single pass needs no buffer.
const fn pass_sums_buffer(passes: u32) -> u32 {
    if passes > 1 { WARP * PIXELS as u32 * passes } else { 0 }
}

/// Hands the partial sums of a pass over to the next pass, through two buffers in shared memory.
struct PassSums<const PASSES: usize> {
    /// The lane's slot for pass 0 in the first buffer. A slot has two vectors, `WARP` vectors apart.
    sums: Shared<f32>,
    /// The index of the warp's pass.
    pass: u32,
    /// The offset of the buffer that the passes store to in this iteration.
    current: u32,
}

impl<const PASSES: usize> PassSums<PASSES> {
    /// Values of one pass in a buffer.
    const VALUES: u32 = WARP * PIXELS as u32;
    /// Values of a buffer.
    const BUFFER: u32 = pass_sums_buffer(PASSES as u32);

    /// Whether the warp has the last pass, which completes the sums.
    #[inline(always)]
    fn is_last(&self) -> bool {
        PASSES == 1 || self.pass == PASSES as u32 - 1
    }

    /// Sets the initial sums of the warp's pass to zero in both buffers. Those of pass 0 stay zero.
    ///
    /// # Safety
    /// - Both buffers lie in the shared memory.
    /// - No other thread accesses the lane's slots for this pass before the next barrier.
    #[inline(always)]
    unsafe fn clear(&self) {
        for slot in [self.pass * Self::VALUES, Self::BUFFER + self.pass * Self::VALUES] {
            // SAFETY: `pass < PASSES`, so the slot lies in its buffer. It is the lane's slot for this pass.
            unsafe { Self::store_at(self.sums.offset(slot), &[0.0; PIXELS]) };
        }
    }

    /// The initial sums of the warp's pass: those that the previous pass has stored in the previous iteration.
    ///
    /// # Safety
    /// - A barrier lies between the previous warp's `store` in the previous iteration and this call.
    /// - A barrier lies between `clear` and the first call.
    #[inline(always)]
    unsafe fn load(&self) -> [f32; PIXELS] {
        let mut values = [0.0; PIXELS];
        if PASSES > 1 {
            let sums = self.sums.offset(Self::BUFFER - self.current + self.pass * Self::VALUES).cast::<F32x4>();
            for i in 0..PIXELS / 4 {
                // SAFETY: the vector lies in the lane's slot, which was stored before the last barrier.
                let vector = unsafe { sums.load(i as u32 * WARP) }.0;
                values[4 * i..4 * i + 4].copy_from_slice(&vector);
            }
        }
        values
    }

    /// Stores the initial sums of the next pass.
    ///
    /// # Safety
    /// - The warp does not have the last pass.
    /// - A barrier lies between the next warp's `load` in the previous iteration and this call.
    #[inline(always)]
    unsafe fn store(&self, sums: &[f32; PIXELS]) {
        // SAFETY: the next pass has a slot, because this one is not the last. In this iteration its warp loads from
        // the other buffer.
        unsafe { Self::store_at(self.sums.offset(self.current + (self.pass + 1) * Self::VALUES), sums) };
    }

    /// Stores sums to a slot.
    ///
    /// # Safety
    /// - `slot` is the lane's slot for a pass.
    /// - No other thread accesses it before the next barrier.
    #[inline(always)]
    unsafe fn store_at(slot: Shared<f32>, sums: &[f32; PIXELS]) {
        for i in 0..PIXELS / 4 {
            let vector = F32x4(core::array::from_fn(|j| sums[4 * i + j]));
            // SAFETY: the slot has `PIXELS / 4` vectors, `WARP` vectors apart. It begins at a multiple of 16 bytes.
            unsafe { slot.cast::<F32x4>().store(i as u32 * WARP, vector) };
        }
    }

    /// Swaps the buffers. It changes an offset, because ptxas miscompiles a swap of two addresses.
    #[inline(always)]
    fn end_row(&mut self) {
        if PASSES > 1 {
            self.current = Self::BUFFER - self.current;
        }
    }
}
