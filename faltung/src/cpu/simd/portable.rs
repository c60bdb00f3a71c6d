//! Arrays of 4 values, for every CPU. The compiler makes vector instructions of them, where there are any.

use super::{Dot, Level, Simd, Work};

/// [`Level::Portable`](super::Level::Portable).
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Simd for Portable {
    type Vector = [f32; 4];
    const LANES: usize = 4;
    // A CPU may have only 16 registers. Without fused multiply-adds each step calls a function, so more rows at a time
    // would save nothing and make more code.
    const HOLDS_TILE: bool = false;

    #[inline(never)]
    fn outlined<W: Work>(self, work: W) -> W::Output {
        work.run::<Self, { Level::Portable.vectors() }>(self)
    }
    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 4] {
        [value; 4]
    }
    #[inline(always)]
    fn fma(self, a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        [a[0].mul_add(b[0], c[0]), a[1].mul_add(b[1], c[1]), a[2].mul_add(b[2], c[2]), a[3].mul_add(b[3], c[3])]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> [f32; 4] {
        // SAFETY: `from` holds four values, as this function requires.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, vector: [f32; 4]) {
        // SAFETY: `to` has room for four values, as this function requires.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(vector) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> [f32; 4] {
        // SAFETY: `from` holds four values, as this function requires.
        unsafe { from.cast::<[u8; 4]>().read() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn load_u16(self, from: *const u16) -> [f32; 4] {
        // SAFETY: `from` holds four values, as this function requires.
        unsafe { from.cast::<[u16; 4]>().read_unaligned() }.map(f32::from)
    }
    #[inline(always)]
    unsafe fn store_u8<const N: usize>(self, to: *mut u8, vectors: &[[f32; 4]; N]) {
        for (i, vector) in vectors.iter().enumerate() {
            // The cast saturates, and makes 0 of NaN.
            // SAFETY: `to` has room for N vectors, as this function requires.
            unsafe { to.cast::<[u8; 4]>().add(i).write(vector.map(|value| value.round_ties_even() as u8)) }
        }
    }
    #[inline(always)]
    unsafe fn store_u16<const N: usize>(self, to: *mut u16, vectors: &[[f32; 4]; N]) {
        for (i, vector) in vectors.iter().enumerate() {
            // SAFETY: as in `store_u8`.
            unsafe { to.cast::<[u16; 4]>().add(i).write_unaligned(vector.map(|value| value.round_ties_even() as u16)) }
        }
    }
    #[inline(always)]
    fn far_from_whole(self, vector: [f32; 4], limit: f32) -> u16 {
        let mut far = 0;
        for (i, value) in vector.into_iter().enumerate() {
            far |= u16::from((value - value.round_ties_even()).abs() > limit) << i;
        }
        far
    }
    #[inline(always)]
    fn differ_without_fractions(self, a: [f32; 4], b: [f32; 4]) -> u16 {
        let mut differ = 0;
        for (i, (a, b)) in a.into_iter().zip(b).enumerate() {
            differ |= u16::from(a as i32 != b as i32) << i;
        }
        differ
    }
    #[inline(always)]
    fn below(self, vector: [f32; 4], limit: f32) -> u16 {
        let mut below = 0;
        for (i, value) in vector.into_iter().enumerate() {
            below |= u16::from(value < limit) << i;
        }
        below
    }
    #[inline(always)]
    fn add(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
    }
    #[inline(always)]
    fn sub(self, a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        [a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]]
    }

    type Doubles = [f64; 2];

    #[inline(always)]
    fn splat_f64(self, value: f64) -> [f64; 2] {
        [value; 2]
    }
    #[inline(always)]
    fn add_f64(self, a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] + b[0], a[1] + b[1]]
    }
    #[inline(always)]
    fn sub_f64(self, a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] - b[0], a[1] - b[1]]
    }
    #[inline(always)]
    fn mul_f64(self, a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
        [a[0] * b[0], a[1] * b[1]]
    }
    #[inline(always)]
    unsafe fn load_f64(self, from: *const f64) -> [f64; 2] {
        // SAFETY: `from` holds two values, as this function requires.
        unsafe { from.cast::<[f64; 2]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_wide(self, from: *const f32) -> [f64; 2] {
        // SAFETY: the caller promises the memory.
        let [a, b] = unsafe { from.cast::<[f32; 2]>().read_unaligned() };
        [f64::from(a), f64::from(b)]
    }
    #[inline(always)]
    unsafe fn store_f64(self, to: *mut f64, vector: [f64; 2]) {
        // SAFETY: `to` has room for two values, as this function requires.
        unsafe { to.cast::<[f64; 2]>().write_unaligned(vector) }
    }

    type Shorts = [u16; 8];

    #[inline(always)]
    fn splat_shorts(self, value: u16) -> [u16; 8] {
        [value; 8]
    }
    #[inline(always)]
    fn add_shorts(self, mut a: [u16; 8], b: [u16; 8]) -> [u16; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = a.wrapping_add(b);
        }
        a
    }
    #[inline(always)]
    fn mul_shorts(self, mut a: [u16; 8], b: [u16; 8]) -> [u16; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = a.wrapping_mul(b);
        }
        a
    }
    #[inline(always)]
    unsafe fn load_shorts(self, from: *const u16) -> [u16; 8] {
        // SAFETY: `from` holds eight values, as this function requires.
        unsafe { from.cast::<[u16; 8]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_shorts(self, to: *mut u16, vector: [u16; 8]) {
        // SAFETY: `to` has room for eight values, as this function requires.
        unsafe { to.cast::<[u16; 8]>().write_unaligned(vector) }
    }
    #[inline(always)]
    fn and_shorts(self, mut a: [u16; 8], b: [u16; 8]) -> [u16; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a &= b;
        }
        a
    }
    #[inline(always)]
    fn sub_shorts(self, mut a: [u16; 8], b: [u16; 8]) -> [u16; 8] {
        for (a, b) in a.iter_mut().zip(b) {
            *a = a.wrapping_sub(b);
        }
        a
    }
    #[inline(always)]
    fn mul_high_shorts(self, mut a: [u16; 8], b: &[u16; 8]) -> [u16; 8] {
        for (a, &b) in a.iter_mut().zip(b) {
            *a = ((u32::from(*a) * u32::from(b)) >> 16) as u16;
        }
        a
    }
    #[inline(always)]
    fn shift_right_shorts(self, mut a: [u16; 8], count: u32) -> [u16; 8] {
        for a in &mut a {
            *a = a.wrapping_shr(count);
        }
        a
    }
    #[inline(always)]
    fn splat_pairs(self, value: u32) -> [u16; 8] {
        std::array::from_fn(|i| (value >> (i % 2 * 16)) as u16)
    }
    #[inline(always)]
    fn dot_pairs<D: Dot>(self, _: D, mut sums: [u16; 8], a: [u16; 8], b: [u16; 8]) -> [u16; 8] {
        let product = |i: usize| i32::from(a[i].cast_signed()) * i32::from(b[i].cast_signed());
        for (i, sum) in sums.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let dot = product(2 * i).wrapping_add(product(2 * i + 1)).cast_unsigned();
            *sum = halves(whole(*sum).wrapping_add(dot));
        }
        sums
    }
    #[inline(always)]
    fn join_pairs(self, mut even: [u16; 8], odd: [u16; 8], shift: u32) -> [u16; 8] {
        let pairs = even.as_chunks_mut::<2>().0.iter_mut().zip(odd.as_chunks::<2>().0);
        for (even, &odd) in pairs {
            *even = [(whole(*even) >> shift) as u16, (whole(odd) >> shift) as u16];
        }
        even
    }
    #[inline(always)]
    fn low_bytes_below(self, a: [u16; 8], limit: u16) -> u32 {
        let mut bits = 0;
        for (i, value) in a.into_iter().enumerate() {
            bits |= u32::from(value & 255 < limit) << i;
        }
        bits
    }
    #[inline(always)]
    unsafe fn load_u8_shorts(self, from: *const u8) -> [u16; 8] {
        let mut shorts = [0; 8];
        // SAFETY: `from` holds eight values, as this function requires.
        for (short, byte) in shorts.iter_mut().zip(unsafe { from.cast::<[u8; 8]>().read_unaligned() }) {
            *short = byte.into();
        }
        shorts
    }
    #[inline(always)]
    unsafe fn store_shorts_u8(self, to: *mut u8, vector: [u16; 8]) {
        let mut bytes = [0; 8];
        for (byte, short) in bytes.iter_mut().zip(vector) {
            *byte = short as u8;
        }
        // SAFETY: `to` has room for eight values, as this function requires.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(bytes) }
    }
}

/// The number of 32 bits of a pair.
#[inline(always)]
fn whole([low, high]: [u16; 2]) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

/// The pair of a number of 32 bits.
#[inline(always)]
fn halves(number: u32) -> [u16; 2] {
    [number as u16, (number >> 16) as u16]
}
