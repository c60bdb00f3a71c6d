//! Results of one channel, stored between those of the other channels.

use cuda_std::prelude::*;

use crate::abi::params::{OutputPtr, Params};
use crate::abi::pixel::PixelType;
use crate::common::vector::StoreVector;

/// Writes the rows of a thread: `C` pixels of one channel, in the type that the parameters name.
pub(super) struct ChannelWriter<const C: usize, const CHANNELS: u32> {
    /// The thread's first value in the next row.
    row: OutputPtr,
    /// Bytes from one row to the next.
    pitch: isize,
    /// The result is `scale * sum + offset`.
    finish: (f32, f32),
    /// Pixels of the row from the thread's first one on. The thread stores no more than these.
    pixels: i32,
    /// Whether the thread stores vectors: one channel, all `C` pixels in the row, rows that begin at whole vectors.
    vectorized: bool,
    kind: u32,
}

impl<const C: usize, const CHANNELS: u32> ChannelWriter<C, CHANNELS> {
    /// For the thread whose first pixel is in column `x` of channel `channel`, from row `first` on.
    #[inline(always)]
    pub(super) fn new(result: OutputPtr, params: &Params, (x, first): (i32, i32), channel: u32) -> Self {
        const { assert!(C.is_multiple_of(8)) };
        let bytes: isize = match params.result_kind {
            U8 => 1,
            U16 => 2,
            _ => 4,
        };
        let pixels = params.width - x;
        Self {
            row: result.offset(params.dst_index(x * CHANNELS as i32 + channel as i32, first) * bytes),
            pitch: params.dst_pitch as isize * bytes,
            finish: params.exact_finish(),
            pixels,
            vectorized: CHANNELS == 1 && pixels >= C as i32 && params.dst_pitch & 7 == 0,
            kind: params.result_kind,
        }
    }

    /// Stores the next row.
    ///
    /// # Safety
    /// The row lies in the result, and no other thread accesses the thread's values of it.
    #[inline(always)]
    pub(super) unsafe fn store(&mut self, sums: &[f32; C]) {
        // The branch is uniform.
        // SAFETY: as this function requires; `result_kind` names the type of the result's values.
        unsafe {
            match self.kind {
                U8 => self.store_as::<u8>(sums),
                U16 => self.store_as::<u16>(sums),
                _ => self.store_as::<f32>(sums),
            }
        }
        self.row = self.row.offset(self.pitch);
    }

    /// # Safety
    /// As for [`store`](Self::store), and the result is of type `R`.
    #[inline(always)]
    unsafe fn store_as<R: StoreVector>(&self, sums: &[f32; C]) {
        let row = self.row.cast::<R>();
        let finished = |c: usize| fma(sums[c], self.finish.0, self.finish.1);
        if self.vectorized {
            let count = R::VECTOR_VALUES;
            for i in 0..C / count {
                let values = core::array::from_fn(|j| if j < count { finished(i * count + j) } else { 0.0 });
                // SAFETY: `vectorized` says that the vector lies in the row and is aligned.
                unsafe { R::store_vector(row, (i * count) as isize, values, count) };
            }
            return;
        }
        for c in 0..C {
            if (c as i32) < self.pixels {
                // SAFETY: pixel `c` lies in the row.
                unsafe { row.store((c * CHANNELS as usize) as isize, R::from_f32(finished(c))) };
            }
        }
    }
}

const U8: u32 = PixelType::U8.code();
const U16: u32 = PixelType::U16.code();
