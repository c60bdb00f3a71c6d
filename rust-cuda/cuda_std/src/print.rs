//! Output of kernels: [`gpu_println!`](crate::gpu_println), as CUDA's `printf`.
//!
//! On a device the macro calls `vprintf`, which the driver provides. The text goes into a ring buffer of 1 MiB. The
//! driver writes the buffer to standard output when the host waits for the device. If the kernels of that time print
//! more, the oldest lines are lost. Threads print in any order; a line stays whole.
//!
//! In the emulator the text appears at the end of the launch, block by block.
//!
//! # Formats
//! The text has the placeholders `{}`, `{name}`, `{:x}` and `{name:x}`, with these options after the colon:
//!
//! | option | integers | `f32`, `f64` | C |
//! | --- | --- | --- | --- |
//! | none | decimal | six significant digits | `%d`, `%u`, `%g` |
//! | `x` | hexadecimal | | `%x` |
//! | `.3` | | three digits after the point | `%.3f` |
//! | `8`, `08` | at least eight characters, with spaces or zeros before the number | the same | `%8d`, `%08d` |
//!
//! ```
//! use cuda_std::prelude::*;
//! use cuda_std::gpu_println;
//!
//! /// Prints an element.
//! ///
//! /// # Safety
//! /// - `values` holds an element for each thread of the grid.
//! #[kernel]
//! pub unsafe fn show(values: Global<f32>) {
//!     let i = thread::index_1d();
//!     // SAFETY: there is an element for each thread.
//!     let value = unsafe { values.load(i as isize) };
//!     if value < 0.0 {
//!         gpu_println!("element {i} is {value:.3}, bits {:08x}", value.to_bits());
//!     }
//! }
//! ```
//!
//! A call takes at most eight values, and the text 255 bytes. Each call costs a stack frame and some registers: print
//! while you look for a defect, not in a kernel that is timed.

#[cfg(not(target_arch = "nvptx64"))]
use std::fmt::Write as _;

/// A part of a text, for the code that `gpu_println!` makes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(&'static str),
    Value { zeros: bool, width: u8, precision: Option<u8>, hexadecimal: bool },
}

/// The text of a call, for the code that `gpu_println!` makes.
#[doc(hidden)]
pub trait Format {
    const PIECES: &'static [Piece];
}

/// How a value is passed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    I32,
    U32,
    I64,
    U64,
    F64,
}

/// A value of a call, as it is passed.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    I32(i32),
    U32(u32),
    I64(i64),
    U64(u64),
    F64(f64),
}

mod sealed {
    pub trait Sealed {}
}

/// A type that [`gpu_println!`](crate::gpu_println) prints: integers of up to 64 bits, `f32`, `f64`. Sealed.
pub trait Print: Copy + sealed::Sealed {
    #[doc(hidden)]
    type Passed: Copy;
    #[doc(hidden)]
    const CONVERSION: Conversion;
    #[doc(hidden)]
    fn passed(self) -> Self::Passed;
    #[doc(hidden)]
    fn value(self) -> Value;
}

macro_rules! print {
    ($($conversion:ident, $passed:ty: $($type:ty),*;)*) => {$($(
        impl sealed::Sealed for $type {}
        impl Print for $type {
            type Passed = $passed;
            const CONVERSION: Conversion = Conversion::$conversion;
            #[inline(always)]
            fn passed(self) -> $passed {
                self as $passed
            }
            fn value(self) -> Value {
                Value::$conversion(self as $passed)
            }
        }
    )*)*};
}

print! {
    I32, i32: i8, i16, i32;
    U32, u32: u8, u16, u32;
    I64, i64: i64, isize;
    U64, u64: u64, usize;
    F64, f64: f32, f64;
}

/// The values of a call: a tuple of up to eight. Sealed.
pub trait PrintArguments: sealed::Sealed {
    #[doc(hidden)]
    const CONVERSIONS: &'static [Conversion];
    /// The values one after the other, each aligned to its size, as `vprintf` reads them.
    #[doc(hidden)]
    type Packed;
    #[doc(hidden)]
    fn packed(self) -> Self::Packed;
    /// Calls `visit` for each value.
    #[doc(hidden)]
    fn values(self, visit: impl FnMut(Value));
}

macro_rules! arguments {
    ($($packed:ident($($type:ident $name:ident),*);)*) => {$(
        #[doc(hidden)]
        #[derive(Debug)]
        #[repr(C)]
        pub struct $packed<$($type),*>($($type),*);
        impl<$($type: Print),*> sealed::Sealed for ($($type,)*) {}
        impl<$($type: Print),*> PrintArguments for ($($type,)*) {
            const CONVERSIONS: &'static [Conversion] = &[$($type::CONVERSION),*];
            type Packed = $packed<$($type::Passed),*>;
            #[inline(always)]
            fn packed(self) -> Self::Packed {
                let ($($name,)*) = self;
                $packed($($name.passed()),*)
            }
            #[allow(unused_mut, unused_variables)]
            fn values(self, mut visit: impl FnMut(Value)) {
                let ($($name,)*) = self;
                $(visit($name.value());)*
            }
        }
    )*};
}

arguments! {
    Packed0();
    Packed1(A a);
    Packed2(A a, B b);
    Packed3(A a, B b, C c);
    Packed4(A a, B b, C c, D d);
    Packed5(A a, B b, C c, D d, E e);
    Packed6(A a, B b, C c, D d, E e, F f);
    Packed7(A a, B b, C c, D d, E e, F f, G g);
    Packed8(A a, B b, C c, D d, E e, F f, G g, H h);
}

/// The most bytes of a C format with its zero byte.
const MOST: usize = 256;

/// A C format while it is made.
struct CFormat {
    bytes: [u8; MOST],
    length: usize,
}

impl CFormat {
    const fn push(&mut self, byte: u8) {
        // The last byte stays 0.
        assert!(self.length < MOST - 1, "the text of gpu_println! is longer than 255 bytes");
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    const fn text(&mut self, text: &str) {
        let mut at = 0;
        while at < text.len() {
            let byte = text.as_bytes()[at];
            self.push(byte);
            if byte == b'%' {
                self.push(b'%');
            }
            at += 1;
        }
    }

    const fn number(&mut self, number: u8) {
        if number >= 10 {
            self.number(number / 10);
        }
        self.push(b'0' + number % 10);
    }

    const fn letters(&mut self, letters: &[u8]) {
        let mut at = 0;
        while at < letters.len() {
            self.push(letters[at]);
            at += 1;
        }
    }
}

/// The C format of a text whose values have these conversions. It ends with a zero byte.
const fn c_format(pieces: &[Piece], conversions: &[Conversion]) -> [u8; MOST] {
    let mut format = CFormat { bytes: [0; MOST], length: 0 };
    let (mut at, mut value) = (0, 0);
    while at < pieces.len() {
        match pieces[at] {
            Piece::Text(text) => format.text(text),
            Piece::Value { zeros, width, precision, hexadecimal } => {
                format.push(b'%');
                if zeros {
                    format.push(b'0');
                }
                if width > 0 {
                    format.number(width);
                }
                let is_float = matches!(conversions[value], Conversion::F64);
                assert!(!(is_float && hexadecimal), "gpu_println!: `x` needs an integer");
                assert!(is_float || precision.is_none(), "gpu_println!: a precision needs an f32 or f64");
                if matches!(conversions[value], Conversion::I64 | Conversion::U64) {
                    format.letters(b"ll");
                }
                match (conversions[value], precision) {
                    (Conversion::F64, None) => format.push(b'g'),
                    (Conversion::F64, Some(digits)) => {
                        format.push(b'.');
                        format.number(digits);
                        format.push(b'f');
                    }
                    _ if hexadecimal => format.push(b'x'),
                    (Conversion::I32 | Conversion::I64, _) => format.push(b'd'),
                    (Conversion::U32 | Conversion::U64, _) => format.push(b'u'),
                }
                value += 1;
            }
        }
        at += 1;
    }
    format.bytes
}

/// The C format of a call, made by the compiler.
struct Call<F, A>(core::marker::PhantomData<(F, A)>);

impl<F: Format, A: PrintArguments> Call<F, A> {
    const FORMAT: [u8; MOST] = c_format(F::PIECES, A::CONVERSIONS);
}

#[cfg(target_arch = "nvptx64")]
unsafe extern "C" {
    /// CUDA's function: a C format, and the values one after the other.
    fn vprintf(format: *const u8, arguments: *const core::ffi::c_void) -> i32;
}

/// For the code that `gpu_println!` makes: prints the text with the values.
#[doc(hidden)]
#[inline(always)]
pub fn print<F: Format, A: PrintArguments>(arguments: A) {
    let format = &const { Call::<F, A>::FORMAT };
    #[cfg(target_arch = "nvptx64")]
    {
        let packed = arguments.packed();
        // SAFETY: the format ends with a zero byte, and its conversions are those of the values, which lie one after
        // the other, each aligned to its size.
        unsafe { vprintf(format.as_ptr(), (&raw const packed).cast()) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = format;
        let mut values = Vec::new();
        arguments.values(|value| values.push(value));
        crate::executor::current().print(&text(F::PIECES, &values));
    }
}

/// The text that C's `printf` makes.
#[cfg(not(target_arch = "nvptx64"))]
fn text(pieces: &[Piece], values: &[Value]) -> String {
    let (mut line, mut values) = (String::new(), values.iter());
    for piece in pieces {
        let (zeros, width, precision, hexadecimal) = match *piece {
            Piece::Text(text) => {
                line.push_str(text);
                continue;
            }
            Piece::Value { zeros, width, precision, hexadecimal } => (zeros, width, precision, hexadecimal),
        };
        let number = match *values.next().expect("there is a value for each placeholder") {
            Value::I32(value) if hexadecimal => format!("{value:x}"),
            Value::U32(value) if hexadecimal => format!("{value:x}"),
            Value::I64(value) if hexadecimal => format!("{value:x}"),
            Value::U64(value) if hexadecimal => format!("{value:x}"),
            Value::I32(value) => value.to_string(),
            Value::U32(value) => value.to_string(),
            Value::I64(value) => value.to_string(),
            Value::U64(value) => value.to_string(),
            Value::F64(value) => float(value, precision),
        };
        let missing = usize::from(width).saturating_sub(number.len());
        let is_finite = number.ends_with(|last: char| last.is_ascii_hexdigit()) && !number.ends_with("inf");
        let (sign, digits) = number.split_at(usize::from(number.starts_with('-')));
        let _ = match zeros && is_finite {
            true => write!(line, "{sign}{}{digits}", "0".repeat(missing)),
            false => write!(line, "{}{number}", " ".repeat(missing)),
        };
    }
    line
}

/// C's `%g`, or `%.3f` with a precision of 3.
#[cfg(not(target_arch = "nvptx64"))]
fn float(value: f64, precision: Option<u8>) -> String {
    /// The significant digits of `%g`.
    const DIGITS: i32 = 6;
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value.is_nan() {
        return format!("{sign}nan");
    }
    if value.is_infinite() {
        return format!("{sign}inf");
    }
    if let Some(digits) = precision {
        return format!("{value:.*}", usize::from(digits));
    }
    let scientific = format!("{value:.*e}", DIGITS as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("it is an integer");
    let shortened = |number: &str| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number.to_owned(),
    };
    if (-4..DIGITS).contains(&exponent) {
        return shortened(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", shortened(mantissa), exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Piece = Piece::Value { zeros: false, width: 0, precision: None, hexadecimal: false };

    /// The C format and the text of one piece with a value.
    fn one<T: Print>(piece: Piece, value: T) -> (String, String) {
        let format = c_format(&[piece], &[T::CONVERSION]);
        let format = std::ffi::CStr::from_bytes_until_nul(&format).unwrap().to_str().unwrap().to_owned();
        (format, text(&[piece], &[value.value()]))
    }

    #[test]
    fn values_have_the_formats_and_texts_of_c() {
        let piece = |zeros, width, precision, hexadecimal| Piece::Value { zeros, width, precision, hexadecimal };
        let texts = |found: (String, String)| [found.0, found.1];
        assert_eq!(texts(one(PLAIN, -7_i8)), ["%d", "-7"]);
        assert_eq!(texts(one(PLAIN, u32::MAX)), ["%u", "4294967295"]);
        assert_eq!(texts(one(PLAIN, i64::MIN)), ["%lld", "-9223372036854775808"]);
        assert_eq!(texts(one(PLAIN, usize::MAX)), ["%llu", "18446744073709551615"]);
        assert_eq!(texts(one(piece(true, 8, None, true), -1_i32)), ["%08x", "ffffffff"]);
        assert_eq!(texts(one(piece(true, 10, None, true), 0xabc_u64)), ["%010llx", "0000000abc"]);
        assert_eq!(texts(one(piece(false, 12, None, false), -5_i32)), ["%12d", "          -5"]);
        assert_eq!(texts(one(piece(true, 6, None, false), -5_i32)), ["%06d", "-00005"]);
        assert_eq!(texts(one(piece(false, 9, Some(3), false), -2.5_f32)), ["%9.3f", "   -2.500"]);
        assert_eq!(texts(one(piece(true, 9, Some(3), false), -2.5_f32)), ["%09.3f", "-0002.500"]);
        assert_eq!(texts(one(piece(true, 6, None, false), f32::INFINITY)), ["%06g", "   inf"]);
    }

    #[test]
    fn floats_have_six_significant_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (999_999.5, "1e+06"),
            (123_456.7, "123457"),
            (0.000_1, "0.0001"),
            (0.000_012_345_67, "1.23457e-05"),
            (-1.5e300, "-1.5e+300"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float(value, None), expected);
        }
    }

    #[test]
    fn percent_signs_are_text() {
        let format = c_format(&[Piece::Text("5 % of "), PLAIN], &[Conversion::I32]);
        assert!(format.starts_with(b"5 %% of %d\0"));
        assert_eq!(text(&[Piece::Text("5 % of "), PLAIN], &[Value::I32(3)]), "5 % of 3");
    }

    #[test]
    fn values_lie_aligned_one_after_the_other() {
        use std::mem::{offset_of, size_of};
        type Packed = <(u8, f32, i32, u64) as PrintArguments>::Packed;
        let found = [offset_of!(Packed, 0), offset_of!(Packed, 1), offset_of!(Packed, 2), offset_of!(Packed, 3)];
        assert_eq!((found, size_of::<Packed>()), ([0, 8, 16, 24], 32));
    }
}
