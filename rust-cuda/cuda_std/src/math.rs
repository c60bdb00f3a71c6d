//! Mathematical functions of `f32` and `f64` by name: exact ones, accurate ones, and fast approximations.
//!
//! Use these functions and not the methods of `f32` and `f64`: `x.sin()` is the host's library on a CPU, and does not
//! exist on the device. The functions of the first two tables have the same bits on the device and in the emulator.
//!
//! | exact: the nearest result | PTX |
//! | --- | --- |
//! | [`sqrt`] | `sqrt.rn` |
//! | [`fma`] | `fma.rn` |
//! | [`floor`], [`ceil`], [`trunc`], [`round_ties_even`] | `cvt.rmi`, `cvt.rpi`, `cvt.rzi`, `cvt.rni` |
//! | [`round`] | ties away from zero: a few instructions |
//! | [`abs`], [`copysign`] | `abs`, `copysign` or bit operations |
//! | [`min`], [`max`] | `min`, `max`. Of a number and NaN they return the number |
//!
//! | accurate | error of `f32` in ulp | error of `f64` in ulp |
//! | --- | --- | --- |
//! | [`exp`], [`exp2`], [`log`], [`log2`], [`log10`], [`sin`], [`cos`], [`tan`], [`pow`] | 1 | 1.5 |
//! | [`tanh`] | 2.5 | 2.5 |
//! | [`rsqrt`] | 1.5 | 1.5 |
//!
//! These are the functions of the crate [`libm`]; `rsqrt` is a division by a square root, each of them rounded. The
//! errors of `f32` are measured over every 1,009th `f32` against `f64`, those of `pow` over 200,000 random arguments.
//! The errors of `f64` follow from libm's tests, which allow a distance of 1 from the nearest result, of 2 for `tanh`.
//! The arithmetic is IEEE 754, and rustc fuses no product and sum. So the device and every CPU compute the same bits,
//! except for those of NaN. For large arguments `sin`, `cos` and `tan` use local memory, as CUDA's do. Some of the
//! functions remain functions in the PTX, if a kernel calls them more than once.
//!
//! | fast, `f32` | PTX | greatest error | CUDA C++ |
//! | --- | --- | --- | --- |
//! | [`fast_exp2`] | `ex2.approx` | relative 2^-22 | `exp2f` with `-use_fast_math` |
//! | [`fast_log2`] | `lg2.approx` | 2^-22: absolute from 0.5 to 2, otherwise relative | `__log2f` |
//! | [`fast_exp`] | `ex2.approx` of a product | 2 + ⌊1.173 abs(x)⌋ ulp | `__expf` |
//! | [`fast_log`] | product of `lg2.approx` | absolute 2^-21.4 from 0.5 to 2, otherwise 3 ulp | `__logf` |
//! | [`fast_sin`], [`fast_cos`] | `sin.approx`, `cos.approx` | absolute 2^-20.5 from -2π to 2π | `__sinf`, `__cosf` |
//! | [`fast_tanh`] | `tanh.approx`, from sm_75 on | relative 2^-11 | |
//! | [`fast_rsqrt`] | `rsqrt.approx` | relative 2^-22.4 | `rsqrtf` |
//! | [`fast_rcp`] | `rcp.approx` | 1 ulp | `__frcp_rn` is exact |
//! | [`fast_sqrt`] | `sqrt.approx` | relative 2^-23 | `sqrtf` with `-use_fast_math` |
//! | [`fast_div`] | `div.approx` | 2 ulp for divisors from 2^-126 to 2^126 | `__fdividef` |
//!
//! The bounds are those of the PTX manual (instructions of that name) and of the CUDA C++ Programming Guide. On the
//! host these functions return a value within the bound. Its bits differ from the GPU's.

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// Declares the functions that the trait has for both types, and a generic function for each of them.
macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($argument:ident),*);)*) => {
        /// `f32` or `f64`. The functions of this module take both.
        pub trait Float: Copy + sealed::Sealed {
            $(
                #[doc(hidden)]
                fn $name($($argument: Self),*) -> Self;
            )*
        }
        $(
            $(#[$doc])*
            #[inline(always)]
            #[must_use]
            pub fn $name<T: Float>($($argument: T),*) -> T {
                T::$name($($argument),*)
            }
        )*
    };
}

functions! {
    /// The square root, rounded to nearest.
    sqrt(x);
    /// `a * b + c` with one rounding.
    fma(a, b, c);
    /// The greatest integer that is at most `x`.
    floor(x);
    /// The least integer that is at least `x`.
    ceil(x);
    /// The integer towards zero.
    trunc(x);
    /// The nearest integer; ties away from zero.
    round(x);
    /// The nearest integer; ties to even. CUDA's `rint`.
    round_ties_even(x);
    /// The magnitude.
    abs(x);
    /// The magnitude of `x` with the sign of `sign`.
    copysign(x, sign);
    /// The lesser number. Which zero the result is for zeros of both signs is not specified.
    min(a, b);
    /// The greater number. Which zero the result is for zeros of both signs is not specified.
    max(a, b);
    /// 1 divided by the square root.
    rsqrt(x);
    /// The exponential function.
    exp(x);
    /// 2 to the power of `x`.
    exp2(x);
    /// The natural logarithm.
    log(x);
    /// The logarithm to base 2.
    log2(x);
    /// The logarithm to base 10.
    log10(x);
    /// The sine of an angle in radians.
    sin(x);
    /// The cosine of an angle in radians.
    cos(x);
    /// The tangent of an angle in radians.
    tan(x);
    /// The hyperbolic tangent.
    tanh(x);
    /// `x` to the power of `y`.
    pow(x, y);
}

/// Implements the trait: the device's exact functions in `core`, and those of `libm` without and with a suffix.
macro_rules! floats {
    ($($type:ident, $exp:ident, $exp2:ident, $log:ident, $log2:ident, $log10:ident, $sin:ident, $cos:ident, $tan:ident,
        $tanh:ident, $pow:ident;)*) => {$(
        impl Float for $type {
            floats! { @core $type, sqrt = sqrt(x), fma = mul_add(a, b, c), floor = floor(x), ceil = ceil(x) }
            floats! { @core $type, trunc = trunc(x), round = round(x), round_ties_even = round_ties_even(x) }
            floats! { @same $type, abs(x), copysign(x, sign), min(a, b), max(a, b) }
            floats! { @libm exp = $exp(x), exp2 = $exp2(x), log = $log(x), log2 = $log2(x), log10 = $log10(x) }
            floats! { @libm sin = $sin(x), cos = $cos(x), tan = $tan(x), tanh = $tanh(x), pow = $pow(x, y) }
            #[inline(always)]
            fn rsqrt(x: Self) -> Self {
                1.0 / <Self as Float>::sqrt(x)
            }
        }
    )*};
    (@core $type:ident $(, $name:ident = $function:ident($($argument:ident),*))*) => {$(
        #[inline(always)]
        fn $name($($argument: Self),*) -> Self {
            #[cfg(target_arch = "nvptx64")]
            {
                core::$type::math::$function($($argument),*)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                $type::$function($($argument),*)
            }
        }
    )*};
    (@same $type:ident $(, $name:ident($($argument:ident),*))*) => {$(
        #[inline(always)]
        fn $name($($argument: Self),*) -> Self {
            $type::$name($($argument),*)
        }
    )*};
    (@libm $($name:ident = $function:ident($($argument:ident),*)),*) => {$(
        #[inline(always)]
        fn $name($($argument: Self),*) -> Self {
            libm::$function($($argument),*)
        }
    )*};
}

floats! {
    f32, expf, exp2f, logf, log2f, log10f, sinf, cosf, tanf, tanhf, powf;
    f64, exp, exp2, log, log2, log10, sin, cos, tan, tanh, pow;
}

/// One approximation: the instruction on the device, an accurate function on the host.
macro_rules! fast {
    ($($(#[$doc:meta])* $name:ident, $instruction:literal, $host:expr;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name(x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let result: f32;
                // SAFETY: the instruction computes with registers and accesses no memory.
                unsafe {
                    core::arch::asm!(
                        concat!($instruction, ".f32 {result}, {x};"),
                        result = out(reg32) result, x = in(reg32) x,
                        options(nostack, nomem, pure, preserves_flags),
                    );
                }
                result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let host: fn(f32) -> f32 = $host;
                host(x)
            }
        }
    )*};
}

fast! {
    /// 2 to the power of `x`: PTX `ex2.approx.f32`, relative error at most 2^-22.
    fast_exp2, "ex2.approx", libm::exp2f;
    /// The logarithm to base 2: PTX `lg2.approx.f32`, error at most 2^-22: absolute from 0.5 to 2, otherwise relative.
    fast_log2, "lg2.approx", libm::log2f;
    /// The sine: PTX `sin.approx.f32`, absolute error at most 2^-20.5 from -2π to 2π. It grows with larger angles.
    fast_sin, "sin.approx", libm::sinf;
    /// The cosine: PTX `cos.approx.f32`, absolute error at most 2^-20.5 from -2π to 2π. It grows with larger angles.
    fast_cos, "cos.approx", libm::cosf;
    /// The hyperbolic tangent: PTX `tanh.approx.f32`, relative error at most 2^-11. From compute capability 7.5 on.
    fast_tanh, "tanh.approx", libm::tanhf;
    /// 1 divided by the square root: PTX `rsqrt.approx.f32`, relative error at most 2^-22.4.
    fast_rsqrt, "rsqrt.approx", |x| (1.0 / f64::from(x).sqrt()) as f32;
    /// The reciprocal: PTX `rcp.approx.f32`, error at most 1 ulp.
    fast_rcp, "rcp.approx", |x| 1.0 / x;
    /// The square root: PTX `sqrt.approx.f32`, relative error at most 2^-23.
    fast_sqrt, "sqrt.approx", f32::sqrt;
}

/// The exponential function by [`fast_exp2`]: CUDA's `__expf`, error at most 2 + ⌊1.173 abs(x)⌋ ulp.
#[inline(always)]
#[must_use]
pub fn fast_exp(x: f32) -> f32 {
    fast_exp2(x * core::f32::consts::LOG2_E)
}

/// The natural logarithm by [`fast_log2`]: CUDA's `__logf`, error at most 2^-21.4 from 0.5 to 2, otherwise 3 ulp.
#[inline(always)]
#[must_use]
pub fn fast_log(x: f32) -> f32 {
    fast_log2(x) * core::f32::consts::LN_2
}

/// The quotient: PTX `div.approx.f32`, CUDA's `__fdividef`. The error is at most 2 ulp for divisors from 2^-126 to
/// 2^126.
#[inline(always)]
#[must_use]
pub fn fast_div(dividend: f32, divisor: f32) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let quotient: f32;
        // SAFETY: the instruction computes with registers and accesses no memory.
        unsafe {
            core::arch::asm!(
                "div.approx.f32 {quotient}, {dividend}, {divisor};",
                quotient = out(reg32) quotient, dividend = in(reg32) dividend, divisor = in(reg32) divisor,
                options(nostack, nomem, pure, preserves_flags),
            );
        }
        quotient
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        dividend / divisor
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The distance of two numbers in units of the last place of `f32` at the exact result.
    fn ulps(found: f32, exact: f64) -> f64 {
        if found.is_nan() || exact.is_nan() {
            return if found.is_nan() && exact.is_nan() { 0.0 } else { f64::INFINITY };
        }
        if found.is_infinite() || exact.abs() > f64::from(f32::MAX) {
            return if f64::from(found) == exact || found == exact as f32 { 0.0 } else { f64::INFINITY };
        }
        let exponent = libm::ilogb(exact).max(-126);
        (f64::from(found) - exact).abs() / libm::exp2(f64::from(exponent - 23))
    }

    #[test]
    fn the_measure_counts_ulps() {
        assert_eq!(ulps(1.0 + f32::EPSILON, 1.0), 1.0);
        assert_eq!(ulps(f32::from_bits(3), 0.0), 3.0);
        assert_eq!(ulps(f32::INFINITY, 1.0), f64::INFINITY);
        assert_eq!(ulps(f32::NAN, f64::NAN), 0.0);
    }

    /// The greatest error over every 1,009th `f32`: all signs, exponents and special values are among them.
    fn greatest(function: fn(f32) -> f32, exact: fn(f64) -> f64) -> f64 {
        let values =
            (0..=u32::MAX).step_by(1009).chain([0, 1, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000]).map(f32::from_bits);
        values.map(|x| ulps(function(x), exact(f64::from(x)))).fold(0.0, f64::max)
    }

    #[test]
    fn errors_of_f32_are_within_their_bounds() {
        for (name, function, exact, bound) in [
            ("exp", exp as fn(f32) -> f32, f64::exp as fn(f64) -> f64, 1.0),
            ("exp2", exp2, f64::exp2, 1.0),
            ("log", log, f64::ln, 1.0),
            ("log2", log2, f64::log2, 1.0),
            ("log10", log10, f64::log10, 1.0),
            ("sin", sin, f64::sin, 1.0),
            ("cos", cos, f64::cos, 1.0),
            ("tan", tan, f64::tan, 1.0),
            ("tanh", tanh, f64::tanh, 2.5),
            ("rsqrt", rsqrt, |x| 1.0 / x.sqrt(), 1.5),
            ("sqrt", sqrt, f64::sqrt, 0.5),
            ("round", round, f64::round, 0.0),
            ("fast_rsqrt", fast_rsqrt, |x| 1.0 / x.sqrt(), 1.0),
            ("fast_rcp", fast_rcp, |x| 1.0 / x, 1.0),
        ] {
            let found = greatest(function, exact);
            assert!(found <= bound, "{name}: an error of {found} ulp, the bound is {bound}");
        }
        // Not within half an ulp: the test can fail.
        assert!(greatest(exp, f64::exp) > 0.5);
    }

    #[test]
    fn powers_are_within_an_ulp() {
        let seed = 7;
        let mut random = seed;
        for _ in 0..200_000 {
            let mut next = || {
                // splitmix64
                random = u64::wrapping_add(random, 0x9e37_79b9_7f4a_7c15);
                let mut bits = (random ^ random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                (bits >> 40) as f32 / 16_777_216.0
            };
            let (x, y) = (next() * 20.0, next() * 60.0 - 30.0);
            let exact = f64::from(x).powf(f64::from(y));
            assert!(ulps(pow(x, y), exact) <= 1.0, "seed {seed}: pow({x}, {y})");
        }
    }

    #[test]
    fn exact_functions_of_both_types() {
        assert_eq!(
            [floor(-1.5), ceil(-1.5), trunc(-1.5), round(-2.5), round_ties_even(-2.5)],
            [-2.0, -1.0, -1.0, -3.0, -2.0]
        );
        assert_eq!(
            [floor(1.5_f32), ceil(1.5), trunc(1.5), round(2.5), round_ties_even(2.5)],
            [1.0, 2.0, 1.0, 3.0, 2.0]
        );
        assert_eq!((min(f32::NAN, 1.0), max(2.0, f64::NAN), abs(-3.0_f32), copysign(3.0, -0.0)), (1.0, 2.0, 3.0, -3.0));
        assert_eq!(fma(1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0), -f64::EPSILON * f64::EPSILON);
        assert_eq!((fast_div(1.0, 4.0), fast_log(1.0), fast_exp(0.0)), (0.25, 0.0, 1.0));
    }
}
