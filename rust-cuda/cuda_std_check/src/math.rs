//! Mathematical functions of both types, and the fast approximations.

use cuda_std::math;
use cuda_std::prelude::*;

/// The threads of a block, and the arguments.
const THREADS: u32 = 32;

/// Stores one result after the other: result f of thread i is element `f * threads + i`.
struct Results<T> {
    to: GlobalMut<T>,
    next: isize,
}

impl<T: Scalar> Results<T> {
    /// # Safety
    /// - The output has room for these results of each thread.
    #[inline(always)]
    unsafe fn push<const N: usize>(&mut self, values: [T; N]) {
        for value in values {
            // SAFETY: there is room, and the element belongs to this thread.
            unsafe { self.to.store(self.next, value) };
            self.next += THREADS as isize;
        }
    }
}

/// A name for each function of `x`, and its result. The kernels and the known results use the same list.
macro_rules! results {
    ($x:ident) => {
        [
            ("sqrt", math::sqrt($x)),
            ("fma", math::fma($x, $x, 1.0)),
            ("floor", math::floor($x)),
            ("ceil", math::ceil($x)),
            ("trunc", math::trunc($x)),
            ("round", math::round($x)),
            ("round_ties_even", math::round_ties_even($x)),
            ("abs", math::abs($x)),
            ("copysign", math::copysign($x, -2.0)),
            ("min", math::min($x, 1.75)),
            ("max", math::max($x, 1.75)),
            ("rsqrt", math::rsqrt($x)),
            ("exp", math::exp($x)),
            ("exp2", math::exp2($x)),
            ("log", math::log($x)),
            ("log2", math::log2($x)),
            ("log10", math::log10($x)),
            ("sin", math::sin($x)),
            ("cos", math::cos($x)),
            ("tan", math::tan($x)),
            ("tanh", math::tanh($x)),
            ("pow", math::pow($x, 1.75)),
        ]
    };
}

macro_rules! kernels {
    ($($kernel:ident, $type:ty;)*) => {$(
        /// Each function of the thread's number.
        ///
        /// # Safety
        /// - The launch is that of the kernel's [`Case`](crate::Case).
        #[kernel]
        pub unsafe fn $kernel(input: Global<u32>, output: GlobalMut<u32>) {
            let tx = thread::thread_idx_x() as isize;
            // SAFETY: the input has a number for each thread, the output one for each function and thread.
            unsafe {
                let x = input.cast::<$type>().load(tx);
                Results { to: output.cast::<$type>(), next: tx }.push(results!(x).map(|(_, result)| result));
            }
        }
    )*};
}

kernels! {
    math_f32, f32;
    math_f64, f64;
}

/// The fast functions of the thread's number. `fast_tanh` is in [`math_tanh`].
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn math_fast(input: Global<u32>, output: GlobalMut<u32>) {
    let tx = thread::thread_idx_x() as isize;
    // SAFETY: the input has a number for each thread, the output one for each function and thread.
    unsafe {
        let x = input.cast::<f32>().load(tx);
        Results { to: output.cast::<f32>(), next: tx }.push([
            math::fast_exp2(x),
            math::fast_log2(x),
            math::fast_exp(x),
            math::fast_log(x),
            math::fast_sin(x),
            math::fast_cos(x),
            math::fast_rsqrt(x),
            math::fast_rcp(x),
            math::fast_sqrt(x),
            math::fast_div(x, 3.0),
        ]);
    }
}

/// `fast_tanh` of the thread's number.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn math_tanh(input: Global<u32>, output: GlobalMut<u32>) {
    let tx = thread::thread_idx_x() as isize;
    // SAFETY: input and output have a number for each thread.
    unsafe { output.cast::<f32>().store(tx, math::fast_tanh(input.cast::<f32>().load(tx))) };
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, Expected, exact, words};

    /// The arguments of the accurate functions: of every size and sign, with the special ones.
    const ARGUMENTS: [f64; THREADS as usize] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        0.1,
        0.7,
        3.0,
        4.0,
        10.0,
        -10.0,
        33.25,
        80.0,
        -80.0,
        88.8,
        123.456,
        -700.0,
        1e5,
        1e9,
        -1e9,
        1e20,
        1e38,
        1e-3,
        1e-10,
        1e-38,
        1e-42,
        f64::INFINITY,
        f64::NAN,
    ];

    /// The arguments of the fast functions, for which all of them have a bound.
    fn fast_arguments() -> Vec<f32> {
        (0..THREADS).map(|i| 0.02 + i as f32 * 0.193).collect()
    }

    /// The expected words of results: the bits, or any NaN.
    fn expected_f32(results: &[f32]) -> impl Iterator<Item = Expected> {
        results.iter().map(|result| if result.is_nan() { Expected::Nan } else { Expected::Bits(result.to_bits()) })
    }

    /// As [`expected_f32`]. Of NaN, the low word may have any bits.
    fn expected_f64(results: &[f64]) -> impl Iterator<Item = Expected> {
        results.iter().flat_map(|result| match (result.is_nan(), result.to_bits()) {
            (true, _) => [Expected::Any, Expected::HighNan],
            (false, bits) => [Expected::Bits(bits as u32), Expected::Bits((bits >> 32) as u32)],
        })
    }

    /// The results of all threads, function by function.
    fn transposed<T: Copy, const N: usize>(results: &[[T; N]]) -> Vec<T> {
        (0..N).flat_map(|function| results.iter().map(move |results| results[function])).collect()
    }

    /// The exact results of the fast functions, and their bounds.
    fn fast(x: f64) -> [(f64, f64); 10] {
        let relative = |exact: f64, error: f64| (exact, exact.abs() * error);
        let ulp = |exact: f64, count: f64| (exact, count * libm::exp2(f64::from(libm::ilogb(exact) - 23)));
        let near_one = (0.5..=2.0).contains(&x);
        let log2 = x.log2();
        let (tiny, log_error) = (0.5_f64.powf(22.0), 0.5_f64.powf(21.4));
        [
            relative(x.exp2(), tiny),
            (log2, if near_one { tiny } else { log2.abs() * tiny }),
            ulp(x.exp(), 2.0 + (1.173 * x).floor()),
            if near_one { (x.ln(), log_error) } else { ulp(x.ln(), 3.0) },
            (x.sin(), 0.5_f64.powf(20.5)),
            (x.cos(), 0.5_f64.powf(20.5)),
            relative(1.0 / x.sqrt(), 0.5_f64.powf(22.4)),
            ulp(1.0 / x, 1.0),
            relative(x.sqrt(), 0.5_f64.powf(23.0)),
            ulp(x / 3.0, 2.0),
        ]
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        let single: Vec<f32> = ARGUMENTS.map(|x| x as f32).into();
        let of_single: Vec<_> = single.iter().map(|&x| results!(x).map(|(_, result)| result)).collect();
        let of_double: Vec<_> = ARGUMENTS.iter().map(|&x| results!(x).map(|(_, result)| result)).collect();
        let near: Vec<_> = fast_arguments().iter().map(|&x| fast(x.into())).collect();
        let tanh: Vec<_> = fast_arguments().iter().map(|&x| [f64::from(x).tanh()]).collect();
        let within = |(exact, error): (f64, f64)| Expected::F32 { exact, error };
        std::vec![
            case("math_f32", math_f32, words(single), expected_f32(&transposed(&of_single)).collect()),
            case("math_f64", math_f64, words(ARGUMENTS), expected_f64(&transposed(&of_double)).collect()),
            case("math_fast", math_fast, words(fast_arguments()), transposed(&near).into_iter().map(within).collect()),
            Case {
                arch: 75,
                ..case(
                    "math_tanh",
                    math_tanh,
                    words(fast_arguments()),
                    transposed(&tanh).into_iter().map(|exact| within((exact, exact * 0.5_f64.powf(11.0)))).collect(),
                )
            },
        ]
    }

    fn case(name: &'static str, kernel: crate::Kernel, input: Vec<u32>, expected: Vec<Expected>) -> Case {
        Case { input, output: std::vec![0; expected.len()], expected, ..exact(name, kernel, Vec::new()) }
    }
}
