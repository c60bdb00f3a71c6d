//! The kernel: the walk down a strip, with the passes of a large mask side by side.

use cuda_std::prelude::*;

use crate::abi::kernel::Convergent;
use crate::abi::params::{OutputPtr, Params};
use crate::common::contributing_rows::{MaskRowRange, MaskRows};
use crate::common::partition::block_rows;
use crate::common::vector::LoadVector;
use crate::direct::sliding_window::passes::Pass;
use crate::direct::sliding_window::walk::{Sums, Window, multiply_add};
use crate::direct::sliding_window_planar::mask::pass_pitch;
use crate::direct::sliding_window_planar::rows::{C, Fragment, Layout, RowLoader, WARP};
use crate::direct::sliding_window_planar::store::{self, ResultWriter};

/// Rows between the load of a row and its use.
const PREFETCH_DISTANCE: i32 = 2;

/// The convergent instructions of a kernel with `passes` passes: a barrier before the first row, one for each row, a
/// vote for each bit of the pass, and those of the exchange of results.
#[must_use]
pub const fn convergent(channels: u32, passes: u32) -> Convergent {
    Convergent { votes: passes.ilog2(), ..Convergent::barriers(2) }.and(store::convergent(channels))
}

/// The dynamic shared memory of a block in bytes: border table, two buffers of rows, two of the sums that `passes`
/// warps hand over, and the exchange of results.
#[must_use]
pub const fn shared_bytes(side: u32, channels: u32, passes: u32) -> u64 {
    let rows = Layout::new(side, channels, WARP * passes);
    let sums = if passes > 1 { WARP * C as u32 * passes } else { 0 };
    (rows.tables + 2 * (rows.buffer + sums) + store::exchange_values(channels)) as u64 * size_of::<f32>() as u64
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
    // SAFETY: `run` has exactly the conditions of this function.
    unsafe { Planar::<T, K, H, PASSES, CHANNELS, THREADS>::run(image, result, params) }
}

/// The kernel's constants.
struct Planar<T, const K: usize, const H: usize, const PASSES: usize, const CHANNELS: u32, const THREADS: u32>(
    core::marker::PhantomData<T>,
);

impl<T: LoadVector, const K: usize, const H: usize, const PASSES: usize, const CHANNELS: u32, const THREADS: u32>
    Planar<T, K, H, PASSES, CHANNELS, THREADS>
{
    const LAYOUT: Layout = Layout::new(K as u32, CHANNELS, THREADS);

    /// The body of the kernel.
    ///
    /// # Safety
    /// As for [`sliding_window_planar`].
    #[inline(always)]
    unsafe fn run(image: Global<T>, result: OutputPtr, params: Params) {
        const { assert!(THREADS == WARP * PASSES as u32 && PASSES * H >= K && PASSES * (H - 1) < K) };
        let thread = thread::thread_idx_x();
        let lane = thread % WARP;
        // The grid's lanes take the channels of a group of `C` pixels, then those of the next group.
        let first_lane = thread::block_idx_x() * WARP;
        let (group, channel) = ((first_lane + lane) / CHANNELS, (first_lane + lane) % CHANNELS);
        let first_group = first_lane / CHANNELS;
        let (first, rows) = block_rows::<1>(&params);
        if rows <= 0 {
            return;
        }

        let tables = Shared::<i32>::dynamic();
        let buffers = tables.offset(Self::LAYOUT.tables).cast::<f32>();
        let handed_over = buffers.offset(2 * Self::LAYOUT.buffer);
        // SAFETY: the table begins the shared memory, which has room for it.
        let loader = unsafe {
            RowLoader::<T, K, CHANNELS, THREADS>::new(image, params, (thread, first_group as i32 * C as i32), tables)
        };
        // SAFETY: the buffers follow the table. The barrier below comes before the first read.
        unsafe { loader.fill(buffers, 2 * Self::LAYOUT.buffer, thread) };
        let mut sums_of = HandOver::<PASSES> { sums: handed_over.offset(4 * lane), pass: 0, current: 0 };
        let mut pass = Pass::ALL_ROWS;
        if PASSES > 1 {
            // The assembler knows that a vote has the same result in all lanes. So the pass is in uniform registers.
            let mut index = 0;
            for bit in 0..PASSES.ilog2() {
                // SAFETY: all lanes are here.
                index |= u32::from(unsafe { warp::any((thread / WARP) >> bit & 1 != 0) }) << bit;
            }
            // LLVM must not see that the number is one of a few, or it would select values by the votes, and ptxas
            // would keep those in other registers.
            let index = thread::black_box(index);
            sums_of.pass = index;
            pass = Pass::new::<K, H>(index as i32, index * pass_pitch(K as u32, H as u32));
            // SAFETY: each thread fills the sums that its own lane and pass begin with.
            unsafe { sums_of.clear() };
        }

        // The compiler must not know the count, or it would unroll the loop.
        let end = rows + params.mask_height - 1;
        let top = first - params.origin_y;
        let exchange = handed_over.offset(2 * HandOver::<PASSES>::LENGTH);
        let mut writer = ResultWriter::<CHANNELS>::new(result, &params, (lane, first_lane), first, exchange);
        let window = RowLoader::<T, K, CHANNELS, THREADS>::window_place(group - first_group, channel);
        let mut fragment = Fragment::ZERO;
        // SAFETY: the image holds its rows, as this function requires.
        unsafe { loader.load(&mut fragment, top) };
        // SAFETY: all threads are here: `rows` is the same in all of them.
        unsafe { thread::sync_threads() };
        let mut sums: Sums<H, C> = [[0.0; C]; H];
        let mut current = 0;
        // LLVM would peel the first turn off the loop, and its barrier with it.
        let mut r = thread::black_box(u32::MAX) as i32;
        while r < end {
            thread::no_unroll();
            // SAFETY: the current buffer was stored before the last barrier. No thread reads the other one any more. In
            // the first turn the window is not used.
            let values = unsafe {
                let values = RowLoader::<T, K, CHANNELS, THREADS>::window(buffers.offset(current + window));
                current = Self::LAYOUT.buffer - current;
                loader.store(buffers.offset(current), &fragment);
                values
            };
            if r + PREFETCH_DISTANCE < end {
                // SAFETY: the image holds its rows, as this function requires.
                unsafe { loader.load(&mut fragment, top + r + PREFETCH_DISTANCE) };
            }
            // SAFETY: all threads of the block walk the same rows, so all are here.
            unsafe { thread::sync_threads() };

            // The row of the pass's input. The first pass begins with row 0, and each other one when the pass before
            // it has completed a row.
            let own = r - pass.first_row;
            if own >= 0 && own < rows + H as i32 - 1 {
                // SAFETY: the mask holds the coefficients of all passes. The sums were handed over before the last
                // barrier. The row is the block's. All lanes of a warp have the same pass, so all are here.
                unsafe {
                    let initial = sums_of.load();
                    add_row::<K, H>(&mut sums, &values, initial, MaskRowRange::new::<false>(own, rows), pass);
                    if !sums_of.is_last() {
                        sums_of.store(&sums[0]);
                    } else if own >= H as i32 - 1 {
                        writer.store(&sums[0]);
                    }
                }
            }
            sums_of.end_row();
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
    sums: &mut Sums<H, C>,
    window: &Window,
    initial: [f32; C],
    mask_rows: MaskRowRange<K, H>,
    pass: Pass,
) {
    // A pass of `H - 1` rows has no first row. Its sums begin a row later.
    if H < K && pass.skips_first {
        sums[H - 1] = initial;
    }
    let group_rows = MaskRowRange::<K, H>::GROUP;
    let grouped = if H < K { H - 1 } else { H };
    for group in 0..grouped.div_ceil(group_rows) {
        let (begin, end) = (group * group_rows, grouped.min((group + 1) * group_rows));
        if group_rows < H && !mask_rows.any(H - end, end - begin) {
            continue;
        }
        for a in 0..H {
            if a >= begin && a < end {
                let sum = if a + 1 < H { sums[a + 1] } else { initial };
                // SAFETY: row `H - 1 - a` is one of the pass.
                sums[a] = unsafe { multiply_add::<K, C, 1>(sum, window, H - 1 - a, pass) };
            }
        }
    }
    if H < K && !pass.skips_first {
        // SAFETY: the pass has a first row.
        sums[H - 1] = unsafe { multiply_add::<K, C, 1>(initial, window, 0, pass) };
    }
}

/// Hands the sums of a pass to the next one.
struct HandOver<const PASSES: usize> {
    /// Those of the thread's lane: two vectors for each pass, in each of two buffers.
    sums: Shared<f32>,
    /// The warp's pass.
    pass: u32,
    /// The offset of the buffer that the passes store to in this row.
    current: u32,
}

impl<const PASSES: usize> HandOver<PASSES> {
    /// Values of a pass.
    const VALUES: u32 = WARP * C as u32;
    /// Values of a buffer.
    const BUFFER: u32 = Self::VALUES * PASSES as u32;
    /// Values of shared memory for each of the two buffers. One pass hands nothing over.
    const LENGTH: u32 = if PASSES > 1 { Self::BUFFER } else { 0 };

    /// Whether the warp has the last pass, whose sums are complete.
    #[inline(always)]
    fn is_last(&self) -> bool {
        PASSES == 1 || self.pass == PASSES as u32 - 1
    }

    /// Clears what the warp's pass begins with. The first pass begins all rows with zeros.
    ///
    /// # Safety
    /// The memory has two buffers. No other thread accesses those sums before the next barrier.
    #[inline(always)]
    unsafe fn clear(&self) {
        for place in [self.pass * Self::VALUES, Self::BUFFER + self.pass * Self::VALUES] {
            // SAFETY: as this function requires.
            unsafe { Self::store_at(self.sums.offset(place), &[0.0; C]) };
        }
    }

    /// What the sums of the warp's pass begin with: those that the pass before has completed in the row before.
    ///
    /// # Safety
    /// A barrier was passed since then.
    #[inline(always)]
    unsafe fn load(&self) -> [f32; C] {
        let mut values = [0.0; C];
        if PASSES > 1 {
            let sums = self.sums.offset(Self::BUFFER - self.current + self.pass * Self::VALUES).cast::<F32x4>();
            for i in 0..C / 4 {
                // SAFETY: the vector is the lane's, and it was stored before the barrier.
                let vector = unsafe { sums.load(i as u32 * WARP) }.0;
                values[4 * i..4 * i + 4].copy_from_slice(&vector);
            }
        }
        values
    }

    /// Stores the sums that the next pass begins with.
    ///
    /// # Safety
    /// The pass is not the last one. What the buffer held was loaded before the last barrier.
    #[inline(always)]
    unsafe fn store(&self, sums: &[f32; C]) {
        // SAFETY: the next pass has a place, and no other thread stores to it.
        unsafe { Self::store_at(self.sums.offset(self.current + (self.pass + 1) * Self::VALUES), sums) };
    }

    /// # Safety
    /// `place` is the lane's place for a pass, and no other thread accesses it before the next barrier.
    #[inline(always)]
    unsafe fn store_at(place: Shared<f32>, sums: &[f32; C]) {
        for i in 0..C / 4 {
            let vector = F32x4(core::array::from_fn(|j| sums[4 * i + j]));
            // SAFETY: as this function requires. Vectors of neighbouring lanes lie next to each other.
            unsafe { place.cast::<F32x4>().store(i as u32 * WARP, vector) };
        }
    }

    /// Swaps the buffers. (An offset, because ptxas miscompiles two addresses that are swapped.)
    #[inline(always)]
    fn end_row(&mut self) {
        if PASSES > 1 {
            self.current = Self::BUFFER - self.current;
        }
    }
}
