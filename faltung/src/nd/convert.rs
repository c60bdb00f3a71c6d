//! Elements of any type to the type of the sums, and sums to elements.

use super::Element;
use super::border::PaddedRange;
use super::kernel::{Real, Scalar};
use crate::cpu::simd::{Level, Simd, Work};

/// A type of elements.
pub(super) trait Value: Copy {
    const NAME: &str;

    fn widen(self) -> f64;

    /// The last 16 bits of a whole number.
    fn last_bits(self) -> u16;

    /// The number, if the type is one of integers of up to 16 bits.
    fn whole(self) -> i32;

    /// The number of this type that has these last bits, if the type has up to 16 bits.
    fn from_last_bits(bits: u16) -> Self;

    /// As a C program converts on x86-64: without the fraction, and modulo 2^bits. That is what SciPy does.
    fn convert<A: Real>(value: A) -> Self;

    /// The same for the results of [`correlate`](super::correlate).
    #[inline(always)]
    fn convert_dense<A: Real>(value: A) -> Self {
        Self::convert(value)
    }

    /// As OpenCV converts: integers are rounded, half to even, and saturate. NaN becomes 0.
    fn rounded(value: f64) -> Self;

    /// The same for a number.
    fn rounded_f32(value: f32) -> Self;
}

/// As [`Real::truncated_i32`], for 64 bits.
#[inline(always)]
fn truncated_i64<A: Real>(value: A) -> i64 {
    let value = value.to_f64();
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) {
        // SAFETY: within the range, as was just tested, and so no NaN.
        unsafe { value.to_int_unchecked() }
    } else {
        i64::MIN
    }
}

/// As compilers for x86-64 convert to 64 bits without a sign. What has no place becomes 0 or 2^63.
#[inline(always)]
fn truncated_u64(value: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value >= LIMIT { truncated_i64(value - LIMIT) as u64 ^ (1 << 63) } else { truncated_i64(value) as u64 }
}

/// The nearest integer of a range, half to even; 0 for NaN.
#[inline(always)]
fn rounded_i32(value: f64, least: f64, most: f64) -> i32 {
    let value = if value.is_nan() { 0.0 } else { value };
    let value = if value < least { least } else { value };
    let value = if value > most { most } else { value };
    // SAFETY: within a range of integers of 32 bits.
    unsafe { value.round_ties_even().to_int_unchecked() }
}

macro_rules! values {
    ($($type:ty: $from:expr, $rounded:expr;)*) => {$(
        impl Value for $type {
            const NAME: &str = stringify!($type);
            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn last_bits(self) -> u16 {
                self as u16
            }
            #[inline(always)]
            fn whole(self) -> i32 {
                self as i32
            }
            #[inline(always)]
            fn from_last_bits(bits: u16) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn convert<A: Real>(value: A) -> Self {
                $from(value) as $type
            }
            #[inline(always)]
            fn rounded(value: f64) -> Self {
                $rounded(value) as $type
            }
            #[inline(always)]
            fn rounded_f32(value: f32) -> Self {
                if size_of::<Self>() > 2 {
                    return Self::rounded(value.into());
                }
                let (least, most) = (<$type>::MIN as f32, <$type>::MAX as f32);
                let value = if value < least { least } else { value };
                let value = if value > most { most } else { value };
                // SAFETY: within a range of integers of 16 bits.
                unsafe { value.round_ties_even().to_int_unchecked::<i32>() as $type }
            }
        }
    )*};
}
values! {
    i8: A::truncated_i32, |value| rounded_i32(value, i8::MIN.into(), i8::MAX.into());
    u8: A::truncated_i32, |value| rounded_i32(value, u8::MIN.into(), u8::MAX.into());
    i16: A::truncated_i32, |value| rounded_i32(value, i16::MIN.into(), i16::MAX.into());
    u16: A::truncated_i32, |value| rounded_i32(value, u16::MIN.into(), u16::MAX.into());
    i32: A::truncated_i32, |value| rounded_i32(value, i32::MIN.into(), i32::MAX.into());
    u32: truncated_i64, f64::round_ties_even;
    i64: truncated_i64, f64::round_ties_even;
    f32: A::to_f64, f64::from;
    f64: A::to_f64, f64::from;
}

impl Value for u64 {
    const NAME: &str = "u64";
    #[inline(always)]
    fn widen(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn last_bits(self) -> u16 {
        self as u16
    }
    #[inline(always)]
    fn whole(self) -> i32 {
        self as i32
    }
    #[inline(always)]
    fn from_last_bits(bits: u16) -> Self {
        bits.into()
    }
    #[inline(always)]
    fn convert<A: Real>(value: A) -> Self {
        truncated_u64(value.to_f64())
    }
    /// Differs from [`convert`](Self::convert) below -2^63 and for NaN alone.
    #[inline(always)]
    fn convert_dense<A: Real>(value: A) -> Self {
        let value = value.to_f64();
        if value > -1.0 { truncated_u64(value) } else { truncated_u64(-value).wrapping_neg() }
    }
    #[inline(always)]
    fn rounded(value: f64) -> Self {
        value.round_ties_even() as u64
    }
    #[inline(always)]
    fn rounded_f32(value: f32) -> Self {
        Self::rounded(value.into())
    }
}

/// Does `$body` with `$type` as the type of the elements.
macro_rules! for_element {
    ($element:expr, $type:ident => $body:expr) => {
        for_element!(
            $element, $type => $body;
            Bool | U8 = u8; I8 = i8; I16 = i16; U16 = u16; I32 = i32; U32 = u32; I64 = i64; U64 = u64; F32 = f32;
            F64 = f64
        )
    };
    ($element:expr, $type:ident => $body:expr; $($($variant:ident)|+ = $of:ident);+) => {
        match $element {
            $($($crate::nd::Element::$variant)|+ => {
                type $type = $of;
                $body
            })+
        }
    };
}
#[cfg(test)]
pub(super) use for_element;

/// The name of the elements' type. The kernels have it, too.
pub(super) fn name(element: Element) -> &'static str {
    for_element!(element, T => T::NAME)
}

/// Elements in a row, or rows: how many, how many bytes apart, and how many places apart their sums are.
#[derive(Clone, Copy)]
pub(super) struct Run {
    pub(super) count: usize,
    pub(super) stride: isize,
    pub(super) step: usize,
}

impl Run {
    /// One.
    pub(super) const ONE: Self = Self { count: 1, stride: 0, step: 0 };

    /// Those whose sums are adjacent.
    pub(super) fn adjacent(count: usize, stride: isize) -> Self {
        Self { count, stride, step: 1 }
    }

    /// Rows, and the elements of a row, that are all elements of pixels with these adjacent channels. The pixels are
    /// `stride` bytes apart.
    #[inline(always)]
    pub(super) fn of_pixels(count: usize, stride: isize, channels: Self) -> (Self, Self) {
        if stride == channels.stride * channels.count as isize {
            (Self::ONE, Self::adjacent(count * channels.count, channels.stride))
        } else {
            (channels, Self { count, stride, step: channels.count })
        }
    }
}

/// Converts the elements of some rows to sums.
///
/// # Safety
/// - The elements are there, initialised and of the type.
/// - `to` has their places.
#[inline(never)]
pub(super) unsafe fn load<A: Scalar>(level: Level, element: Element, from: *const u8, to: *mut A, rows: Run, row: Run) {
    level.run(Load { element, from, to, rows, row });
}

/// The arguments of [`load`].
struct Load<A> {
    element: Element,
    from: *const u8,
    to: *mut A,
    rows: Run,
    row: Run,
}

impl<A: Scalar> Work for Load<A> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { element, from, to, rows, row: Run { count, stride, step } } = self;
        // SAFETY: `load` requires that the elements and their places exist.
        unsafe {
            for_element!(element, T => {
                for number in 0..rows.count {
                    let (from, to) = (from.offset(number as isize * rows.stride), to.add(number * rows.step));
                    if stride == size_of::<T>() as isize && step == 1 {
                        for i in 0..count {
                            to.add(i).write(A::of(from.cast::<T>().add(i).read_unaligned()));
                        }
                    } else {
                        for i in 0..count {
                            let value = from.offset(i as isize * stride).cast::<T>().read_unaligned();
                            to.add(i * step).write(A::of(value));
                        }
                    }
                }
            });
        }
    }
}

/// Whether elements that are `strides` bytes apart along their axes, the first one at `first`, are values of type `A`
/// where they are: of this type, and aligned.
pub(super) fn are_values<A: Scalar>(
    element: Element,
    first: *const u8,
    mut strides: impl Iterator<Item = isize>,
) -> bool {
    let size = size_of::<A>();
    element == A::ELEMENT && first.addr().is_multiple_of(size) && strides.all(|stride| stride % size as isize == 0)
}

/// Converts one element.
///
/// # Safety
/// The element is there, initialised and of the type.
#[inline(never)]
unsafe fn load_one<A: Scalar>(element: Element, from: *const u8) -> A {
    // SAFETY: the element exists, as this function requires.
    unsafe { for_element!(element, T => A::of(from.cast::<T>().read_unaligned())) }
}

/// Converts what stands at the positions of `range` in a line of elements, `stride` bytes apart.
///
/// # Safety
/// - `from` is where the line's element at position 0 would be. It need not be in the input.
/// - The elements at the positions are in the input, and `to` has room for all of them.
#[inline(always)]
pub(super) unsafe fn load_line<A: Scalar>(
    level: Level,
    element: Element,
    from: *const u8,
    stride: isize,
    range: &PaddedRange,
    outside: A,
    mut to: *mut A,
) {
    // SAFETY: positions and places exist, as this function requires.
    unsafe {
        let one = |position: Option<usize>, to: *mut A| match position {
            Some(position) => to.write(load_one(element, from.wrapping_offset(position as isize * stride))),
            None => to.write(outside),
        };
        for &position in &range.before {
            one(position, to);
            to = to.add(1);
        }
        let inside = from.wrapping_offset(range.first as isize * stride);
        load(level, element, inside, to, Run::ONE, Run::adjacent(range.inside, stride));
        to = to.add(range.inside);
        for &position in &range.after {
            one(position, to);
            to = to.add(1);
        }
    }
}

/// As [`load_line`] for elements with several `channels` each. In both places they are channel by channel.
///
/// # Safety
/// As for [`load_line`]; all channels are there.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "those of `load_line`")]
pub(super) unsafe fn load_pixels<A: Scalar>(
    level: Level,
    element: Element,
    from: *const u8,
    stride: isize,
    channels: Run,
    range: &PaddedRange,
    outside: A,
    to: *mut A,
) {
    if channels.count == 1 {
        // SAFETY: as this function requires.
        unsafe { load_line(level, element, from, stride, range, outside, to) };
        return;
    }
    // SAFETY: the positions that the range names are within the row, and there is room for each.
    unsafe {
        let one = |position: Option<usize>, to: *mut A| match position {
            Some(position) => {
                let from = from.wrapping_offset(position as isize * stride);
                load(level, element, from, to, Run::ONE, channels);
            }
            None => std::slice::from_raw_parts_mut(to, channels.count).fill(outside),
        };
        let mut place = to;
        for &position in &range.before {
            one(position, place);
            place = place.add(channels.count);
        }
        let start = from.wrapping_offset(range.first as isize * stride);
        let (rows, row) = Run::of_pixels(range.inside, stride, channels);
        load(level, element, start, place, rows, row);
        place = place.add(range.inside * channels.count);
        for &position in &range.after {
            one(position, place);
            place = place.add(channels.count);
        }
    }
}

/// What becomes of a sum.
pub(super) trait Conversion<A>: Copy {
    fn element<T: Value>(self, sum: A) -> T;
}

/// SciPy's conversion. `IS_DENSE` is for the results of [`correlate`](super::correlate).
#[derive(Clone, Copy, Debug)]
pub(super) struct AsScipy<const IS_DENSE: bool>;

impl<A: Scalar, const IS_DENSE: bool> Conversion<A> for AsScipy<IS_DENSE> {
    #[inline(always)]
    fn element<T: Value>(self, sum: A) -> T {
        sum.convert::<T, IS_DENSE>()
    }
}

/// OpenCV's conversion: `sum * scale + offset`, [rounded](Value::rounded).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LastStep {
    pub(super) scale: f64,
    pub(super) offset: f64,
}

impl<A: Real> Conversion<A> for LastStep {
    #[inline(always)]
    fn element<T: Value>(self, sum: A) -> T {
        T::rounded(sum.to_f64() * self.scale + self.offset)
    }
}

/// OpenCV's conversion of exact sums: `sum * scale`, [rounded](Value::rounded). The product is exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ExactStep(pub(super) f32);

impl Conversion<f32> for ExactStep {
    #[inline(always)]
    fn element<T: Value>(self, sum: f32) -> T {
        T::rounded_f32(sum * self.0)
    }
}

/// Converts sums to the elements of some rows.
///
/// # Safety
/// - `from` has the sums.
/// - There is room for the elements.
#[inline(never)]
pub(super) unsafe fn store<A: Scalar, C: Conversion<A>>(
    level: Level,
    element: Element,
    from: *const A,
    to: *mut u8,
    rows: Run,
    row: Run,
    conversion: C,
) {
    level.run(Store { element, from, to, rows, row, conversion });
}

/// The arguments of [`store`].
struct Store<A, C> {
    element: Element,
    from: *const A,
    to: *mut u8,
    rows: Run,
    row: Run,
    conversion: C,
}

impl<A: Scalar, C: Conversion<A>> Work for Store<A, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) {
        let Self { element, from, to, rows, row: Run { count, stride, step }, conversion } = self;
        // SAFETY: `store` requires that the sums and the places of their elements exist.
        unsafe {
            for_element!(element, T => {
                for number in 0..rows.count {
                    let (from, to) = (from.add(number * rows.step), to.offset(number as isize * rows.stride));
                    if stride == size_of::<T>() as isize && step == 1 {
                        for i in 0..count {
                            to.cast::<T>().add(i).write_unaligned(conversion.element::<T>(*from.add(i)));
                        }
                    } else {
                        for i in 0..count {
                            let value = conversion.element::<T>(*from.add(i * step));
                            to.offset(i as isize * stride).cast::<T>().write_unaligned(value);
                        }
                    }
                }
            });
        }
    }
}
