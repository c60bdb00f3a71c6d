//! Stores of finished sums, for a thread that walks down one column of the result.

use cuda_std::prelude::*;

use crate::abi::params::Params;

/// The column of the result that a thread writes from top to bottom.
pub(crate) struct ColumnStore {
    /// The next value of the column.
    next: GlobalMut<f32>,
    /// Values from one row of the result to the next.
    pitch: i32,
    scale: f32,
    offset: f32,
    /// Whether the thread writes at all.
    active: bool,
}

impl ColumnStore {
    /// The column `x` from row `y` on. A thread that is not `active` writes nothing.
    ///
    /// # Safety
    /// Where `active`:
    /// - `result` holds `params.height` rows of `params.width` values, `params.dst_pitch` values apart.
    /// - `x` lies in the result.
    /// - no other thread writes the rows that this thread stores here.
    #[inline(always)]
    pub(crate) unsafe fn new(result: GlobalMut<f32>, params: &Params, (x, y): (i32, i32), active: bool) -> Self {
        let (scale, offset) = params.exact_finish();
        Self { next: result.offset(params.dst_index(x, y)), pitch: params.dst_pitch, scale, offset, active }
    }

    /// Stores `scale * sum + offset` in the next `ROWS` rows, of which only the first `most` are written.
    ///
    /// # Safety
    /// The first `most` of the next `ROWS` rows lie in the result.
    #[inline(always)]
    pub(crate) unsafe fn store<const ROWS: usize>(&mut self, sums: &[f32; ROWS], most: i32) {
        let mut next = self.next;
        if self.active && most >= ROWS as i32 {
            for &sum in sums {
                // SAFETY: all ROWS rows lie in the result, and `new` promised the column.
                unsafe { next.store(0, fma(sum, self.scale, self.offset)) };
                next = next.offset(self.pitch as isize);
            }
        } else {
            for (i, &sum) in sums.iter().enumerate() {
                if self.active && (i as i32) < most {
                    // SAFETY: i < most, so the row lies in the result, and `new` promised the column.
                    unsafe { next.store(0, fma(sum, self.scale, self.offset)) };
                }
                next = next.offset(self.pitch as isize);
            }
            // This is no loop. The directive only keeps LLVM from merging the last stores of the two branches, after
            // which the address would be computed again.
            thread::no_unroll();
        }
        self.next = self.next.offset(ROWS as isize * self.pitch as isize);
    }
}
