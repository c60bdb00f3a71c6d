//! The walk down a strip, the same for every source of rows.
//!
//! ```text
//! for each row of the strip's input:
//!     window = source.load()
//!     sums[a] = sums[a + 1] + window * row H - 1 - a of the mask      for a in 0..H
//!     sink.store(sums[0])                                             once sums[0] is complete
//! ```
//! Each kernel names its *interior* rows. Its source and its sink may skip bounds tests there. The rows before and
//! after are *boundary* rows. Each kind has a loop of its own. The boundary loop runs before the interior loop and once
//! more after it.

use core::marker::PhantomData;

use cuda_std::prelude::*;

use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::contributing_rows::MaskRows;
use crate::common::vector::StoreVector;
use crate::direct::sliding_window::passes::Pass;
use crate::teaching::constant_mask::MASK;

/// The most values of a window.
pub(crate) const MAX_WINDOW: usize = 48;

/// The values of one row of the image that a thread multiplies with the mask, in registers.
///
/// Every index is a constant after unrolling. Otherwise LLVM would put the array into local memory.
#[derive(Clone, Copy)]
pub(crate) struct Window(pub(crate) [f32; MAX_WINDOW]);

impl Window {
    pub(crate) const ZERO: Self = Self([0.0; MAX_WINDOW]);
}

/// The partial sums of a thread. `sums[a]` belongs to the output row `a` rows below the next one to be complete.
pub(crate) type Sums<const H: usize, const C: usize> = [[f32; C]; H];

/// Loads the rows of a strip's input.
///
/// Here and in [`RowSink`], `INTERIOR` is whether the interior loop calls, and row `r` is a row of the strip's input.
pub(crate) trait RowSource {
    /// How to find the rows of the mask that multiply a row of the image.
    type MaskRows: MaskRows;

    /// The thread's window of row `r`.
    ///
    /// # Safety
    /// - All threads that walk call it for each row once, in order.
    /// - Where `INTERIOR`, row `r` is one of the kernel's interior rows.
    unsafe fn load<const INTERIOR: bool>(&mut self, r: i32) -> Window;

    /// Called before the interior loop, which begins with row `r`.
    #[inline(always)]
    fn enter_interior(&mut self, _r: i32) {}

    /// Called after each interior row.
    #[inline(always)]
    fn end_interior_row(&mut self, _r: i32) {}

    /// Called after the interior loop.
    #[inline(always)]
    fn leave_interior(&mut self) {}
}

/// Stores the rows of a strip's output.
pub(crate) trait RowSink<const C: usize> {
    /// The initial values of the sums whose first row is row `r`.
    ///
    /// # Safety
    /// - `store` was called for all rows before row `r`.
    /// - Where `INTERIOR`, row `r` is one of the kernel's interior rows.
    #[inline(always)]
    unsafe fn initial<const INTERIOR: bool>(&self, _r: i32) -> [f32; C] {
        [0.0; C]
    }

    /// Stores the row of the output that row `r` completes, if it is `complete`. Otherwise it belongs to the strip
    /// above.
    ///
    /// # Safety
    /// - The thread calls it for each row once, in order.
    /// - The block owns the output row, if it is `complete`.
    /// - Where `INTERIOR`, row `r` is one of the kernel's interior rows.
    unsafe fn store<const INTERIOR: bool>(&mut self, r: i32, sums: &[f32; C], complete: bool);

    /// Called before the interior loop, which begins with row `r`.
    #[inline(always)]
    fn enter_interior(&mut self, _r: i32) {}

    /// Called after each interior row.
    #[inline(always)]
    fn end_interior_row(&mut self) {}
}

/// The rows of a strip.
#[derive(Clone, Copy)]
pub(crate) struct Strip {
    /// Rows of the output.
    pub(crate) rows: i32,
    /// Rows of the input beyond those: one less than the rows of the mask in a pass.
    ///
    /// The compiler must not know this number, or it would unroll the boundary loop.
    pub(crate) halo: i32,
    /// The boundary loop first runs up to this row of the input, then the interior loop up to `interior_end`.
    pub(crate) interior_begin: i32,
    /// The row after the last interior row. It may lie before `interior_begin`.
    pub(crate) interior_end: i32,
}

/// Adds `H` rows of a mask `K` columns wide to the output rows of a strip. `C` values a thread, `CHANNELS` values a
/// pixel.
///
/// # Safety
/// - [`struct@MASK`] holds the coefficients of `pass`, `K` for each row.
/// - The block owns the `strip.rows` output rows that `sink` stores.
/// - The rows from `interior_begin` to `interior_end` are interior rows of the kernel.
#[inline(always)]
pub(crate) unsafe fn walk<
    S: RowSource,
    W: RowSink<C>,
    const K: usize,
    const H: usize,
    const C: usize,
    const CHANNELS: u32,
>(
    source: &mut S,
    sink: &mut W,
    strip: Strip,
    pass: Pass,
) {
    let Strip { rows, halo, interior_begin, interior_end } = strip;
    let end = rows + halo;
    let mut sums: Sums<H, C> = [[0.0; C]; H];
    let mut r = 0;
    let mut boundary_end = interior_begin;
    loop {
        while r < boundary_end {
            thread::no_unroll();
            // SAFETY: here and below, `r` takes each row of the strip's input once, in order.
            unsafe {
                let initial = sink.initial::<false>(r);
                let window = source.load::<false>(r);
                let mask_rows = S::MaskRows::new::<false>(r, rows);
                add_row::<_, K, H, C, CHANNELS>(&mut sums, &window, initial, mask_rows, pass);
                sink.store::<false>(r, &sums[0], r >= halo);
            }
            r += 1;
        }
        source.enter_interior(r);
        sink.enter_interior(r);
        while r < interior_end {
            thread::no_unroll();
            // SAFETY: `r` continues after the boundary loop, and rows before `interior_end` are interior rows.
            unsafe {
                let initial = sink.initial::<true>(r);
                let window = source.load::<true>(r);
                let mask_rows = S::MaskRows::new::<true>(r, rows);
                add_row::<_, K, H, C, CHANNELS>(&mut sums, &window, initial, mask_rows, pass);
                sink.store::<true>(r, &sums[0], r >= H as i32 - 1);
            }
            source.end_interior_row(r);
            sink.end_interior_row();
            r += 1;
        }
        source.leave_interior();
        if r >= end {
            return;
        }
        boundary_end = end;
    }
}

/// Adds a row of the image to the sums, and moves each sum up by one.
///
/// # Safety
/// [`struct@MASK`] holds the coefficients of `pass`, `K` for each row.
#[inline(always)]
unsafe fn add_row<M: MaskRows, const K: usize, const H: usize, const C: usize, const CHANNELS: u32>(
    sums: &mut Sums<H, C>,
    window: &Window,
    initial: [f32; C],
    mask_rows: M,
    pass: Pass,
) {
    // The first row of a pass may be skipped, so it has a test of its own.
    let grouped = if H < K { H - 1 } else { H };
    for group in 0..grouped.div_ceil(M::GROUP) {
        let (begin, end) = (group * M::GROUP, grouped.min((group + 1) * M::GROUP));
        if M::GROUP < H && !mask_rows.any(H - end, end - begin) {
            continue;
        }
        for a in 0..H {
            if a >= begin && a < end {
                let sum = if a + 1 < H { sums[a + 1] } else { initial };
                // SAFETY: row `H - 1 - a` is one of the pass.
                sums[a] = unsafe { multiply_add::<K, C, CHANNELS>(sum, window, H - 1 - a, pass) };
            }
        }
    }
    if H < K {
        let contributes = mask_rows.any(0, 1) && !pass.skips_first;
        // SAFETY: row 0 is one of the pass unless it is skipped.
        let added = || unsafe { multiply_add::<K, C, CHANNELS>(initial, window, 0, pass) };
        sums[H - 1] = if contributes { added() } else { initial };
    }
}

/// `sum + window * row k of the pass`, from left to right.
///
/// # Safety
/// Row `k` is one of `pass`, and [`struct@MASK`] holds its `K` coefficients.
#[inline(always)]
pub(in crate::direct) unsafe fn multiply_add<const K: usize, const C: usize, const CHANNELS: u32>(
    mut sum: [f32; C],
    window: &Window,
    k: usize,
    pass: Pass,
) -> [f32; C] {
    for l in 0..K {
        // SAFETY: `l < K`.
        let coefficient = unsafe { MASK.load(pass.coefficients as usize + k * K + l) };
        for (c, sum) in sum.iter_mut().enumerate() {
            *sum = fma(window.0[l * CHANNELS as usize + c], coefficient, *sum);
        }
    }
    sum
}

/// Writes complete rows in the type `P` of the image, or in `f32` where the image's type allows it.
pub(crate) struct RowWriter<P, const C: usize> {
    /// The thread's first value in the next row.
    row: OutputPtr,
    /// Bytes from one row to the next.
    pitch: isize,
    /// The result is `scale * sum + offset`.
    finish: (f32, f32),
    /// Whether the thread's values are stored in vectors.
    vectorized: bool,
    /// Values of the row from the thread's first one on. The thread stores no more than these.
    values: i32,
    writes_f32: bool,
    image: PhantomData<P>,
}

impl<P: StoreVector, const C: usize> RowWriter<P, C> {
    /// For the thread whose first value is value `v` of a row, from row `first` on. A row has `values` values.
    ///
    /// `vectorized` requires that all `C` values lie in the row, and that each vector of them is aligned to its size.
    #[inline(always)]
    pub(crate) fn new(
        result: OutputPtr,
        params: &Params,
        (v, first): (i32, i32),
        values: i32,
        vectorized: bool,
    ) -> Self {
        let writes_f32 = P::WRITES_F32 && params.result_kind == PixelType::F32.code();
        let bytes = if writes_f32 { size_of::<f32>() } else { size_of::<P>() } as isize;
        Self {
            row: result.offset(params.dst_index(v, first) * bytes),
            pitch: params.dst_pitch as isize * bytes,
            finish: params.exact_finish(),
            vectorized,
            values: values - v,
            writes_f32,
            image: PhantomData,
        }
    }

    /// Stores the next row in type `R`.
    ///
    /// # Safety
    /// The result has type `R`, the row lies in it, and no other thread accesses the thread's values of it.
    #[inline(always)]
    unsafe fn store_as<R: StoreVector>(&self, sums: &[f32; C]) {
        let row = self.row.cast::<R>();
        let finished = |c: usize| fma(sums[c], self.finish.0, self.finish.1);
        if self.vectorized {
            let count = if C.is_multiple_of(R::VECTOR_VALUES) { R::VECTOR_VALUES } else { 4 };
            for i in 0..C / count {
                let values = core::array::from_fn(|j| if j < count { finished(i * count + j) } else { 0.0 });
                // SAFETY: `vectorized` says that the vector lies in the row and is aligned.
                unsafe { R::store_vector(row, (i * count) as isize, values, count) };
            }
        } else {
            for c in 0..C {
                if (c as i32) < self.values {
                    // SAFETY: value `c` lies in the row.
                    unsafe { row.store(c as isize, R::from_f32(finished(c))) };
                }
            }
        }
    }
}

impl<P: StoreVector, const C: usize> RowSink<C> for RowWriter<P, C> {
    #[inline(always)]
    unsafe fn store<const INTERIOR: bool>(&mut self, _r: i32, sums: &[f32; C], complete: bool) {
        // All interior rows are complete.
        if INTERIOR || complete {
            // SAFETY: the block owns the row, and the thread its values. `writes_f32` says which type the result has.
            unsafe {
                if self.writes_f32 {
                    self.store_as::<f32>(sums);
                } else {
                    self.store_as::<P>(sums);
                }
            }
            self.row = self.row.offset(self.pitch);
        }
    }
}
