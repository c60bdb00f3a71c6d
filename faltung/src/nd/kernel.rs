//! The inner loops. The elements have the type of the sums, and all that a result reads is there, so that none of them
//! knows of types or borders.

mod tile;

use std::ops::{Add, Div, Sub};

use super::Element;
use super::block::Places;
use super::convert::Value;
use crate::cpu::simd::Simd;

pub(super) use tile::{Planes, TILE_ROWS, tile_sums};

/// A type that elements are converted to before they are summed. All bits 0 are the number 0.
pub(super) trait Scalar: Copy + Send + Sync + 'static {
    /// The elements that are of this type.
    const ELEMENT: Element;

    fn from_f64(value: f64) -> Self;

    /// An element in this type.
    fn of<T: Value>(element: T) -> Self;

    /// A sum as an element. `IS_DENSE` is for the results of [`correlate`](super::correlate).
    fn convert<T: Value, const IS_DENSE: bool>(self) -> T;
}

/// A floating-point type of sums, with its vectors.
pub(super) trait Real: Scalar + Add<Output = Self> + Sub<Output = Self> + Div<Output = Self> {
    /// A register.
    type Vector<S: Simd>: Copy;

    /// 0.
    const ZERO: Self;

    fn to_f64(self) -> f64;

    /// Without the fraction; `i32::MIN` for what has no place in an `i32`, as x86-64's instructions have it.
    fn truncated_i32(self) -> i32;

    /// Values of a register.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    fn add_lanes<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn sub_lanes<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// `sum + weight * value`. For `f64` the product is rounded, as SciPy rounds it; for `f32` it is not.
    fn weigh<S: Simd>(
        simd: S,
        weight: Self::Vector<S>,
        value: Self::Vector<S>,
        sum: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// # Safety
    /// `from` is valid for reads of [`lanes`](Self::lanes) values.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> Self::Vector<S>;

    /// As many values as a register of `f64` has, as `f64`.
    ///
    /// # Safety
    /// `from` is valid for reads of these.
    unsafe fn load_wide<S: Simd>(simd: S, from: *const Self) -> S::Doubles;

    /// # Safety
    /// `to` is valid for writes of [`lanes`](Self::lanes) values.
    unsafe fn store<S: Simd>(simd: S, to: *mut Self, vector: Self::Vector<S>);
}

macro_rules! real {
    ($type:ty, $element:ident, $vector:ident, $lanes:expr, $splat:ident, $add:ident, $sub:ident, $load:ident,
     $wide:ident, $store:ident, |$simd:ident, $weight:ident, $value:ident, $sum:ident| $weigh:expr) => {
        impl Scalar for $type {
            const ELEMENT: Element = Element::$element;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn of<T: Value>(element: T) -> Self {
                element.widen() as $type
            }
            #[inline(always)]
            fn convert<T: Value, const IS_DENSE: bool>(self) -> T {
                if IS_DENSE { T::convert_dense(self) } else { T::convert(self) }
            }
        }

        impl Real for $type {
            type Vector<S: Simd> = S::$vector;
            const ZERO: Self = 0.0;

            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn truncated_i32(self) -> i32 {
                // The largest `f32` below -2^31 is further away than the largest `f64`.
                const BELOW: $type = if size_of::<$type>() == 4 { -2_147_483_904.0 } else { -2_147_483_649.0 };
                if self > BELOW && self < 2_147_483_648.0 {
                    // SAFETY: within the range, as was just tested, and so no NaN.
                    unsafe { self.to_int_unchecked() }
                } else {
                    i32::MIN
                }
            }
            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                $lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$vector {
                simd.$splat(value)
            }
            #[inline(always)]
            fn add_lanes<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn sub_lanes<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn weigh<S: Simd>($simd: S, $weight: S::$vector, $value: S::$vector, $sum: S::$vector) -> S::$vector {
                $weigh
            }
            #[inline(always)]
            unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::$vector {
                // SAFETY: the memory is there, as this function requires.
                unsafe { simd.$load(from) }
            }
            #[inline(always)]
            unsafe fn load_wide<S: Simd>(simd: S, from: *const Self) -> S::Doubles {
                // SAFETY: the memory is there, as this function requires.
                unsafe { simd.$wide(from) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd>(simd: S, to: *mut Self, vector: S::$vector) {
                // SAFETY: the memory is there, as this function requires.
                unsafe { simd.$store(to, vector) }
            }
        }
    };
}
real! { f32, F32, Vector, S::LANES, splat, add, sub, load, load_wide, store,
|simd, weight, value, sum| simd.fma(weight, value, sum) }
real! { f64, F64, Doubles, S::LANES / 2, splat_f64, add_f64, sub_f64, load_f64, load_f64, store_f64,
|simd, weight, value, sum| simd.add_f64(sum, simd.mul_f64(weight, value)) }

/// Registers of sums that are computed together: as many as hide the latency of an addition.
const TOGETHER: usize = 8;

/// How many values after the last one that is asked for the loops read and write at most.
pub(super) const SLACK: usize = TOGETHER * 16;

/// Sums that [`weighted_sums`] and [`mirrored_sums`] compute together.
#[inline(always)]
pub(super) fn group<S: Simd, A: Real>() -> usize {
    TOGETHER * A::lanes::<S>()
}

/// Where the groups of `count` values begin. The last group ends with the last value, so it may begin within the one
/// before. If there are fewer values than a group has, the one group ends beyond them.
#[inline(always)]
pub(super) fn starts(count: usize, group: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(group);
    (0..count).step_by(group).map(move |start| start.min(last))
}

/// A product of a sum: the distance of its value from that of the result, in steps, and its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tap<A> {
    pub(super) offset: isize,
    pub(super) weight: A,
}

/// `to[i] = sum of weight * from[i + offset * step]` over the taps, in their order, in partial sums of `partial`
/// products.
///
/// # Safety
/// With `count` values, or a [`group`] if that is more:
/// - For each tap, `from + offset * step` is valid for reads of these.
/// - `to` is valid for reads and writes of these, and none of them is read from `from`.
#[inline(always)]
pub(super) unsafe fn weighted_sums<S: Simd, A: Real>(
    simd: S,
    from: *const A,
    step: isize,
    taps: &[Tap<A>],
    partial: usize,
    to: *mut A,
    count: usize,
) {
    let lanes = A::lanes::<S>();
    for start in starts(count, group::<S, A>()) {
        // Without taps the sums are 0.
        let (first, rest) = taps.split_at(partial.min(taps.len()));
        let mut part = first;
        let mut rest = rest.chunks(partial);
        loop {
            let mut sums = [A::splat(simd, A::ZERO); TOGETHER];
            for tap in part {
                let weight = A::splat(simd, tap.weight);
                for (i, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: a vector of a group of the values.
                    let value = unsafe { A::load(simd, from.offset(tap.offset * step).add(start + i * lanes)) };
                    *sum = A::weigh(simd, weight, value, *sum);
                }
            }
            let is_first = std::ptr::eq(part, first);
            for (i, &sum) in sums.iter().enumerate() {
                // SAFETY: a vector of a group of the results.
                unsafe { put(simd, to.add(start + i * lanes), sum, is_first) };
            }
            match rest.next() {
                Some(next) => part = next,
                None => break,
            }
        }
    }
}

/// Writes a vector of sums, or adds it to those that are there.
///
/// # Safety
/// `to` is valid for reads and writes of a vector.
#[inline(always)]
unsafe fn put<S: Simd, A: Real>(simd: S, to: *mut A, sum: A::Vector<S>, is_first: bool) {
    // SAFETY: the memory is there, as this function requires.
    unsafe {
        let sum = if is_first { sum } else { A::add_lanes(simd, A::load(simd, to), sum) };
        A::store(simd, to, sum);
    }
}

/// A symmetric or antisymmetric filter along a line, as SciPy sums it: the middle product, then both values at a
/// distance before their product, from the outermost inwards.
pub(super) struct Mirrored<A> {
    /// The weight in the middle.
    pub(super) middle: A,
    /// The weights before the middle, from the outermost inwards.
    pub(super) before: Vec<A>,
    /// Whether those after the middle are the negative ones.
    pub(super) is_odd: bool,
}

/// `to[i] = middle * from[i] + sum of weight * (from[i - d * step] ± from[i + d * step])`, from the largest distance d
/// on.
///
/// # Safety
/// With `count` values, or a [`group`] if that is more:
/// - For each distance d, 0 included, `from - d * step` and `from + d * step` are valid for reads of these.
/// - `to` is valid for writes of these, and none of them is read from `from`.
#[inline(always)]
pub(super) unsafe fn mirrored_sums<S: Simd, A: Real, const IS_ODD: bool>(
    simd: S,
    from: *const A,
    step: isize,
    filter: &Mirrored<A>,
    to: *mut A,
    count: usize,
) {
    let lanes = A::lanes::<S>();
    for start in starts(count, group::<S, A>()) {
        let mut sums = [A::splat(simd, A::ZERO); TOGETHER];
        let weight = A::splat(simd, filter.middle);
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a vector of a group of the values.
            let value = unsafe { A::load(simd, from.add(start + i * lanes)) };
            *sum = A::weigh(simd, weight, value, *sum);
        }
        for (number, &weight) in filter.before.iter().enumerate() {
            let distance = (filter.before.len() - number) as isize * step;
            let weight = A::splat(simd, weight);
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: as above, at the distance before and after.
                let (before, after) = unsafe {
                    let (before, after) = (from.offset(-distance), from.offset(distance));
                    (A::load(simd, before.add(start + i * lanes)), A::load(simd, after.add(start + i * lanes)))
                };
                let pair = if IS_ODD { A::sub_lanes(simd, before, after) } else { A::add_lanes(simd, before, after) };
                *sum = A::weigh(simd, weight, pair, *sum);
            }
        }
        for (i, &sum) in sums.iter().enumerate() {
            // SAFETY: a vector of a group of the results.
            unsafe { A::store(simd, to.add(start + i * lanes), sum) };
        }
    }
}

/// Means of `size` rows, column by column, of sums as SciPy runs them from the first row of a line on:
/// `to[r][c] = (from[r][c] + .. + from[r + size - 1][c]) / size`. In the [first block](Places::is_first) of a line the
/// first sums are computed. Else [`Places::sums`] holds the sums of the row before, and the places begin with the row
/// that leaves these.
///
/// # Safety
/// The places have the values that the results read, and room for the results.
#[inline(always)]
pub(super) unsafe fn running_means<A: Real>(places: &Places<A>, size: usize) {
    let Places { sums, rows, width, is_first, .. } = *places;
    let divisor = A::from_f64(size as f64);
    match width {
        // SAFETY: as this function requires.
        1 => return unsafe { few_running_means::<A, 1>(places, size) },
        // SAFETY: as this function requires.
        8 => return unsafe { few_running_means::<A, 8>(places, size) },
        _ => {}
    }
    // SAFETY: row and column exist, as this function requires.
    unsafe {
        if is_first {
            for column in 0..width {
                *sums.add(column) = A::ZERO;
            }
            for row in 0..size {
                let values = places.values_of(row);
                for column in 0..width {
                    *sums.add(column) = *sums.add(column) + *values.add(column);
                }
            }
            for column in 0..width {
                *places.results.add(column) = *sums.add(column) / divisor;
            }
        }
        for row in usize::from(is_first)..rows {
            // Unless the block is the first one, its values begin one row earlier.
            let old = row - usize::from(is_first);
            let (old, new, to) = (places.values_of(old), places.values_of(old + size), places.results_of(row));
            for column in 0..width {
                let sum = *sums.add(column) + (*new.add(column) - *old.add(column));
                *sums.add(column) = sum;
                *to.add(column) = sum / divisor;
            }
        }
    }
}

/// [`running_means`] of `W` columns, whose sums stay in registers: each addition waits for the one before.
///
/// # Safety
/// As for [`running_means`].
#[inline(always)]
unsafe fn few_running_means<A: Real, const W: usize>(places: &Places<A>, size: usize) {
    let Places { sums: kept, rows, is_first, .. } = *places;
    let divisor = A::from_f64(size as f64);
    let mut sums = [A::ZERO; W];
    // SAFETY: row and column exist, as this function requires.
    unsafe {
        if is_first {
            for row in 0..size {
                let values = places.values_of(row);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = *sum + *values.add(column);
                }
            }
            for (column, &sum) in sums.iter().enumerate() {
                *places.results.add(column) = sum / divisor;
            }
        } else {
            sums = kept.cast::<[A; W]>().read();
        }
        for row in usize::from(is_first)..rows {
            // Unless the block is the first one, its values begin one row earlier.
            let old = row - usize::from(is_first);
            let (old, new, to) = (places.values_of(old), places.values_of(old + size), places.results_of(row));
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = *sum + (*new.add(column) - *old.add(column));
                *to.add(column) = *sum / divisor;
            }
        }
        kept.cast::<[A; W]>().write(sums);
    }
}

/// Sums of `size` values that are `step` places apart, where no addition rounds:
/// `to[i] = from[i] + from[i + step] + .. + from[i + (size - 1) * step]`. Sums of 2, 4, 8, .. values take the place of
/// `from`, one after the other, and the binary digits of `size` say which of them are added.
///
/// # Safety
/// - `from` is valid for reads and writes of `count + (size - 1) * step` + [`SLACK`] values.
/// - `to` is valid for writes of `count` + [`SLACK`] values.
#[inline(always)]
pub(super) unsafe fn window_sums<S: Simd, A: Real>(
    simd: S,
    from: *mut A,
    size: usize,
    step: usize,
    to: *mut A,
    count: usize,
) {
    let lanes = A::lanes::<S>();
    // How many values the sums in `from` have, and how many those in `to`.
    let (mut power, mut done) = (1, 0);
    loop {
        if size & power != 0 {
            for i in (0..count).step_by(lanes) {
                // SAFETY: sums up to the last one that is asked for, and less than SLACK values more.
                unsafe {
                    let part = A::load(simd, from.add(i + done * step));
                    let sum = if done == 0 { part } else { A::add_lanes(simd, A::load(simd, to.add(i)), part) };
                    A::store(simd, to.add(i), sum);
                }
            }
            done += power;
        }
        if done == size {
            return;
        }
        // What is still read of the sums of twice as many.
        let needed = count + (size - 2 * power) * step;
        for i in (0..needed).step_by(lanes) {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (A::load(simd, from.add(i)), A::load(simd, from.add(i + power * step)));
                A::store(simd, from.add(i), A::add_lanes(simd, a, b));
            }
        }
        power *= 2;
    }
}

/// Divides `count` values by `divisor`.
///
/// # Safety
/// `values` is valid for reads and writes of `count` values.
#[inline(always)]
pub(super) unsafe fn divide<A: Real>(values: *mut A, count: usize, divisor: A) {
    for i in 0..count {
        // SAFETY: the value exists, as this function requires.
        unsafe { *values.add(i) = *values.add(i) / divisor };
    }
}
