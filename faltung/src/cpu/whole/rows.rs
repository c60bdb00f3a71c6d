//! The loops over the rows of a strip. They handle whole vectors alone, so lines have [`SLACK`] values more than are
//! asked for.

use crate::cpu::simd::{Simd, Work};
use crate::cpu::strips::have_room;

/// Vectors of sums that are computed together.
const TOGETHER: usize = 4;

/// How many values after the last one the loops read and write.
pub(super) const SLACK: usize = TOGETHER * 32;

/// A type of values that are summed in 16 bits.
pub(super) trait Short: Copy {
    /// Twice [`Simd::LANES`] values.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::Shorts;
}

impl Short for u8 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u8) -> S::Shorts {
        // SAFETY: the memory is there, as this function requires.
        unsafe { simd.load_u8_shorts(from) }
    }
}

impl Short for u16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u16) -> S::Shorts {
        // SAFETY: the memory is there, as this function requires.
        unsafe { simd.load_shorts(from) }
    }
}

/// Where sums of 16 bits go.
///
/// # Safety
/// If [`has_room`](Self::has_room) holds for a count, [`put`](Self::put) may get any vectors that end at
/// `count + SLACK` at the latest.
pub(super) unsafe trait Sink {
    /// Whether it takes `count` sums.
    fn has_room(&self, count: usize) -> bool;

    /// Takes `N` vectors of sums, at most [`TOGETHER`]. The first sum is number `at`.
    ///
    /// # Safety
    /// There is a `count` with `has_room(count)` and `at + N * 2 * LANES <= count + SLACK`.
    unsafe fn put<S: Simd, const N: usize>(&mut self, simd: S, at: usize, sums: [S::Shorts; N]);
}

/// The sums as they are. There are [`SLACK`] values more than sums.
// SAFETY: the slice ends at `count + SLACK` or later.
unsafe impl Sink for &mut [u16] {
    #[inline(always)]
    fn has_room(&self, count: usize) -> bool {
        self.len() >= count + SLACK
    }
    #[inline(always)]
    unsafe fn put<S: Simd, const N: usize>(&mut self, simd: S, at: usize, sums: [S::Shorts; N]) {
        for (i, &sum) in sums.iter().enumerate() {
            // SAFETY: the vectors end at `count + SLACK` at the latest, and the slice is that long.
            unsafe { simd.store_shorts(self.as_mut_ptr().add(at + i * 2 * S::LANES), sum) };
        }
    }
}

/// `sums / 2^shift`, rounded half to even, as bytes. `shift` is 1 to 15. No `sum + 2^(shift - 1)` exceeds 16 bits, and
/// no quotient exceeds 255.
pub(super) struct Quotients<'a> {
    pub(super) shift: u32,
    pub(super) to: &'a mut [u8],
}

// SAFETY: what lies beyond the bytes is not written.
unsafe impl Sink for Quotients<'_> {
    #[inline(always)]
    fn has_room(&self, count: usize) -> bool {
        self.to.len() == count
    }
    #[inline(always)]
    unsafe fn put<S: Simd, const N: usize>(&mut self, simd: S, at: usize, sums: [S::Shorts; N]) {
        const { assert!(N * 2 * S::LANES <= SLACK) };
        let lanes = 2 * S::LANES;
        let below_half = simd.splat_shorts((1 << (self.shift - 1)) - 1);
        let factor = simd.splat_shorts(1 << (16 - self.shift));
        let mut quotients = sums;
        for quotient in &mut quotients {
            let sum = *quotient;
            // The last bit of the quotient: a half rounds up where it is 1. A product takes one instruction on x86-64,
            // and a shift takes two. But LLVM widens a product whose low bytes are stored, so the quotient is a shift.
            let is_odd = simd.and_shorts(simd.mul_high_shorts(sum, &factor), simd.splat_shorts(1));
            *quotient = simd.shift_right_shorts(simd.add_shorts(simd.add_shorts(sum, below_half), is_odd), self.shift);
        }
        let to = &mut self.to[at..];
        if to.len() >= N * lanes {
            for (i, &quotient) in quotients.iter().enumerate() {
                // SAFETY: `to` has room for N vectors.
                unsafe { simd.store_shorts_u8(to.as_mut_ptr().add(i * lanes), quotient) };
            }
        } else {
            let mut last = [0; SLACK];
            for (i, &quotient) in quotients.iter().enumerate() {
                // SAFETY: N vectors fit `last`, as asserted.
                unsafe { simd.store_shorts_u8(last.as_mut_ptr().add(i * lanes), quotient) };
            }
            to.copy_from_slice(&last[..to.len()]);
        }
    }
}

/// `to[i] = weights[0] * from[starts[0] + i] + weights[1] * from[starts[1] + i] + ..`. From each start on, `from` has
/// at least `count + SLACK` values.
pub(super) struct Weigh<'a, T, K> {
    pub(super) from: &'a [T],
    pub(super) starts: &'a [usize],
    pub(super) weights: &'a [u16],
    pub(super) to: K,
    pub(super) count: usize,
}

impl<T: Short, K: Sink> Work for Weigh<'_, T, K> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { from, starts, weights, mut to, count } = self;
        assert!(to.has_room(count) && have_room(starts, count + SLACK, from.len()) && starts.len() == weights.len());
        // SAFETY: as asserted.
        unsafe {
            // Copies of a known length stay in registers.
            if let (Some(starts), Some(weights)) = (starts.as_array::<3>(), weights.as_array::<3>()) {
                weigh(simd, from, &{ *starts }, &{ *weights }, &mut to, count);
            } else if let (Some(starts), Some(weights)) = (starts.as_array::<5>(), weights.as_array::<5>()) {
                weigh(simd, from, &{ *starts }, &{ *weights }, &mut to, count);
            } else {
                weigh(simd, from, starts, weights, &mut to, count);
            }
        }
    }
}

/// The loops of [`Weigh`].
///
/// # Safety
/// `to` has room for `count` sums. From each start on, `from` has at least `count + SLACK` values.
#[inline(always)]
unsafe fn weigh<S: Simd, T: Short, K: Sink>(
    simd: S,
    from: &[T],
    starts: &[usize],
    weights: &[u16],
    to: &mut K,
    count: usize,
) {
    const { assert!(TOGETHER * 2 * S::LANES <= SLACK) };
    let lanes = 2 * S::LANES;
    for x in (0..count).step_by(TOGETHER * lanes) {
        let mut sums = [simd.splat_shorts(0); TOGETHER];
        for (&start, &weight) in starts.iter().zip(weights) {
            let weight = simd.splat_shorts(weight);
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: less than SLACK values after the last one.
                let values = unsafe { T::load(simd, from.as_ptr().add(start + x + i * lanes)) };
                *sum = simd.add_shorts(*sum, simd.mul_shorts(weight, values));
            }
        }
        // SAFETY: there is room, as this function requires. The vectors end at `count + SLACK` at the latest.
        unsafe { to.put(simd, x, sums) };
    }
}

/// `to[i] += from[i]`.
pub(super) struct AddRow<'a> {
    pub(super) from: &'a [u8],
    pub(super) to: &'a mut [u16],
}

impl Work for AddRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to = to.wrapping_add(from.into());
        }
    }
}

/// The sums of a row of windows of equal weights. `sums` are those without their last row `new`; they become those of
/// the next row, which lack row `old`. All lines have [`SLACK`] values more than `count`.
pub(super) struct RunningRow<'a> {
    pub(super) new: &'a [u8],
    pub(super) old: &'a [u8],
    pub(super) sums: &'a mut [u16],
    pub(super) to: &'a mut [u16],
    pub(super) count: usize,
}

impl Work for RunningRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { new, old, sums, to, count } = self;
        assert!([new.len(), old.len(), sums.len(), to.len()].iter().all(|&length| length >= count + SLACK));
        for i in (0..count).step_by(2 * S::LANES) {
            // SAFETY: less than SLACK values after the last one.
            unsafe {
                let sum =
                    simd.add_shorts(simd.load_shorts(sums.as_ptr().add(i)), simd.load_u8_shorts(new.as_ptr().add(i)));
                simd.store_shorts(to.as_mut_ptr().add(i), sum);
                let rest = simd.sub_shorts(sum, simd.load_u8_shorts(old.as_ptr().add(i)));
                simd.store_shorts(sums.as_mut_ptr().add(i), rest);
            }
        }
    }
}

/// `to[i] = line[i] + line[i + step] + ..` of `size` values. All lines have [`SLACK`] values more than are summed.
pub(super) struct WindowSums<'a> {
    pub(super) line: &'a mut [u16],
    pub(super) size: usize,
    pub(super) step: usize,
    pub(super) to: &'a mut [u16],
    pub(super) count: usize,
}

impl Work for WindowSums<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { line, size, step, to, count } = self;
        assert!(line.len() >= count + (size - 1) * step + SLACK && to.len() >= count + SLACK);
        // SAFETY: as asserted; `SLACK` is at least two vectors.
        unsafe { window_sums(simd, line.as_mut_ptr(), size, step, to.as_mut_ptr(), count) }
    }
}

/// Sums of `size` values that are `step` places apart, modulo 2^16: `to[i] = from[i] + from[i + step] + ..`. Sums of 2,
/// 4, 8, .. values take the place of `from`, and the binary digits of `size` say which of them are added.
///
/// # Safety
/// - `from` is valid for reads and writes of `count + (size - 1) * step` values and of one vector more.
/// - `to` is valid for writes of `count` values and of one vector more.
#[inline(always)]
pub(crate) unsafe fn window_sums<S: Simd>(
    simd: S,
    from: *mut u16,
    size: usize,
    step: usize,
    to: *mut u16,
    count: usize,
) {
    // How many values the sums at `from` have, and how many those at `to`.
    let (mut power, mut done) = (1, 0);
    loop {
        if size & power != 0 {
            for i in (0..count).step_by(2 * S::LANES) {
                // SAFETY: sums up to the last one that is asked for, and less than a vector more.
                unsafe {
                    let part = simd.load_shorts(from.add(i + done * step));
                    let sum = if done == 0 { part } else { simd.add_shorts(simd.load_shorts(to.add(i)), part) };
                    simd.store_shorts(to.add(i), sum);
                }
            }
            done += power;
        }
        if done == size {
            break;
        }
        // What is still read of the sums of twice as many.
        for i in (0..count + (size - 2 * power) * step).step_by(2 * S::LANES) {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (simd.load_shorts(from.add(i)), simd.load_shorts(from.add(i + power * step)));
                simd.store_shorts(from.add(i), simd.add_shorts(a, b));
            }
        }
        power *= 2;
    }
}

/// `to[i] += from[i]`, below 2^24.
pub(super) struct AddFloats<'a> {
    pub(super) from: &'a [u16],
    pub(super) to: &'a mut [f32],
    pub(super) count: usize,
}

impl Work for AddFloats<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        for (to, &from) in self.to.iter_mut().zip(&self.from[..self.count]) {
            *to += f32::from(from);
        }
    }
}

/// As [`RunningRow`], in `f32`.
pub(super) struct RunningFloats<'a> {
    pub(super) new: &'a [u16],
    pub(super) old: &'a [u16],
    pub(super) sums: &'a mut [f32],
    pub(super) to: &'a mut [f32],
    pub(super) count: usize,
}

impl Work for RunningFloats<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { new, old, sums, to, count } = self;
        assert!([new.len(), old.len(), sums.len(), to.len()].iter().all(|&length| length >= count + SLACK));
        for i in (0..count).step_by(S::LANES) {
            // SAFETY: less than SLACK values after the last one.
            unsafe {
                let sum = simd.add(simd.load(sums.as_ptr().add(i)), simd.load_u16(new.as_ptr().add(i)));
                simd.store(to.as_mut_ptr().add(i), sum);
                simd.store(sums.as_mut_ptr().add(i), simd.sub(sum, simd.load_u16(old.as_ptr().add(i))));
            }
        }
    }
}

/// As [`Weigh`], in `f32`.
pub(super) struct WeighFloats<'a> {
    pub(super) from: &'a [u16],
    pub(super) starts: &'a [usize],
    pub(super) weights: &'a [u16],
    pub(super) to: &'a mut [f32],
    pub(super) count: usize,
}

impl Work for WeighFloats<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { from, starts, weights, to, count } = self;
        const { assert!(TOGETHER * S::LANES <= SLACK) };
        assert!(to.len() >= count + SLACK && have_room(starts, count + SLACK, from.len()));
        assert!(starts.len() == weights.len());
        for x in (0..count).step_by(TOGETHER * S::LANES) {
            let mut sums = [simd.splat(0.0); TOGETHER];
            for (&start, &weight) in starts.iter().zip(weights) {
                let weight = simd.splat(weight.into());
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: less than SLACK values after the last one.
                    let values = unsafe { simd.load_u16(from.as_ptr().add(start + x + i * S::LANES)) };
                    *sum = simd.fma(weight, values, *sum);
                }
            }
            for (i, &sum) in sums.iter().enumerate() {
                // SAFETY: as above.
                unsafe { simd.store(to.as_mut_ptr().add(x + i * S::LANES), sum) };
            }
        }
    }
}

/// Sums to quotients. `sums` has [`SLACK`] values more than `to` has bytes.
pub(super) struct ShiftRow<'a> {
    pub(super) sums: &'a [u16],
    pub(super) to: Quotients<'a>,
}

impl Work for ShiftRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { sums, mut to } = self;
        let count = to.to.len();
        assert!(sums.len() >= count + SLACK);
        for x in (0..count).step_by(2 * S::LANES) {
            // SAFETY: both end at `count + SLACK` at the latest, and `to` has room for `count` quotients.
            unsafe { to.put(simd, x, [simd.load_shorts(sums.as_ptr().add(x))]) };
        }
    }
}
