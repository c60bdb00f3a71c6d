//! The fast paths against the scalar reference, bit by bit, at every level that the machine has.

use std::ffi::OsStr;
use std::process::Command;

use super::simd::choose;
use super::*;
use crate::image::{bytes_of, bytes_of_mut};
use crate::{Border, Device, Error, Filter, Mask, Operation, POISON, Pixel, VariantChoice};

mod direct;
mod pairs;
mod separable;

const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
const OPERATIONS: [Operation; 2] = [Operation::Convolve, Operation::Correlate];

/// The method that the CPU chooses, of `f32`.
fn convolve(problem: &Problem, source: &[f32], result: &mut [f32]) {
    Convolution::new(problem).unwrap().run(problem, bytes_of(source), bytes_of_mut(result)).unwrap();
}

/// Numbers without pattern, some of them -0.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if state.is_multiple_of(16) { -0.0 } else { state as f32 / 1e9 - 2.1 }
    };
    (0..count).map(|_| next()).collect()
}

/// A mask of these columns and rows without symmetry.
fn mask(width: usize, height: usize) -> Mask {
    Mask::new(width, height, numbers(width * height, (width * 64 + height) as u32)).unwrap()
}

/// Values without pattern of a type.
trait Sample: Pixel {
    fn samples(count: usize, seed: u64) -> Vec<Self>;
    /// A value that is not this one.
    fn other(self) -> Self;
    /// NaN is NaN.
    fn same(self, other: Self) -> bool;
}

impl Sample for f32 {
    fn samples(count: usize, seed: u64) -> Vec<f32> {
        numbers(count, seed as u32)
    }
    fn other(self) -> f32 {
        POISON
    }
    fn same(self, other: f32) -> bool {
        // But for the NaN of an unwritten value.
        other.to_bits() != POISON.to_bits() && (self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan())
    }
}

macro_rules! integer_sample {
    ($($of:ty),*) => {$(
        impl Sample for $of {
            fn samples(count: usize, seed: u64) -> Vec<$of> {
                let mut random = fastrand::Rng::with_seed(seed);
                (0..count).map(|_| random.u32(..) as $of).collect()
            }
            fn other(self) -> $of {
                !self
            }
            fn same(self, other: $of) -> bool {
                self == other
            }
        }
    )*};
}
integer_sample!(u8, u16);

/// What the contract demands, value by value.
fn expected<T: Sample, U: Sample>(problem: &Problem, source: &[T]) -> Vec<U> {
    let channels = problem.format().channels;
    let at = |i: usize| (i / channels % problem.width(), i / problem.row_values(), i % channels);
    let value = |i: usize| {
        let (x, y, channel) = at(i);
        U::from_f32(problem.result_at(source, x, y, channel))
    };
    (0..source.len()).map(value).collect()
}

/// Compares a method with what the contract demands, bit by bit, with streaming stores and without. The result lies at
/// different places of a cache line.
fn check_method<T: Sample, U: Sample>(convolution: &Convolution, problem: &Problem, source: &[T], expected: &[U]) {
    for streaming in [false, true] {
        let shift = (problem.width() + 5 * problem.height()) % 16;
        let mut memory = vec![U::default(); source.len() + 31 + 64 / size_of::<U>()];
        let start = memory.as_ptr().align_offset(64) + shift;
        let result = &mut memory[start..][..source.len()];
        // Whatever is not written is wrong.
        for (to, &value) in result.iter_mut().zip(expected) {
            *to = value.other();
        }
        let (from, to) = (bytes_of(source), bytes_of_mut(result));
        convolution.run_as(streaming, &Cancel::default(), problem, from, to).unwrap();
        if let Some(at) = expected.iter().zip(&*result).position(|(a, b)| !a.same(*b)) {
            panic!(
                "{}, streaming {streaming}, shift {shift}: value {at} is {:?} and not {:?}; {:?} {} window {} x {}, \
                 origin {:?}, {}",
                convolution.reason(),
                result[at],
                expected[at],
                (problem.width(), problem.height()),
                problem.format(),
                problem.window().width(),
                problem.window().height(),
                problem.origin(),
                problem.border(),
            );
        }
        let around = memory[..start].iter().chain(&memory[start + source.len()..]);
        assert!(around.into_iter().all(|&value| value == U::default()), "written beside the result");
    }
}

/// Checks the direct method at every level.
fn check<T: Sample, U: Sample>(problem: &Problem, source: &[T]) {
    let expected = expected::<T, U>(problem, source);
    for level in Level::available() {
        check_method(&Convolution::with(level, Method::direct(problem)), problem, source, &expected);
    }
}

#[test]
#[should_panic(expected = "bytes of source and result")]
fn a_short_result_is_refused() {
    let problem = Problem::new(4, 4, &Filter::new(mask(3, 3))).unwrap();
    convolve(&problem, &[0.0; 16], &mut [0.0; 15]);
}

/// Each method asks for the flag of [`cancellable`](crate::cancellable), between blocks and within one.
#[test]
fn each_method_can_be_cancelled() {
    let wide = Filter::new(mask(5, 4));
    let positive = Mask::new(63, 63, (0..63 * 63).map(|i| (i % 11) as f32 / 12_000.0).collect()).unwrap();
    for (width, filter, expected) in [
        (200, &wide, "direct"),
        (200, &Filter::laplacian(), "direct"),
        (2, &wide, "direct"),
        (200, &Filter::gaussian(2.0), "separable"),
        (200, &Filter::average(5, 5), "separable"),
        (500, &Filter::new(positive), "fft"),
    ] {
        cancel_both_ways::<u8>(width, filter, expected);
        cancel_both_ways::<f32>(width, filter, expected);
    }
}

fn cancel_both_ways<T: Pixel>(width: usize, filter: &Filter, method: &str) {
    let cancelled = std::sync::Arc::new(true.into());
    let problem = Problem::new(width, 600, filter).unwrap().with_format(PixelFormat::of::<T, T>(1)).unwrap();
    let convolution = Convolution::new(&problem).unwrap();
    let what = format!("{width} columns of {}, {method}", T::TYPE.name());
    assert_eq!(convolution.variant(), method, "{what}");
    let (source, mut result) = (vec![T::from_f32(7.0); problem.values()], vec![T::default(); problem.values()]);
    let mut run = || convolution.run(&problem, bytes_of(&source), bytes_of_mut(&mut result));
    assert_eq!(crate::cancellable(&cancelled, &mut run), Err(Error::Cancelled), "{what}");
    run().unwrap();
    // The calling thread has no flag, so all blocks begin.
    let cancel = crate::cancellable(&cancelled, Cancel::of_this_thread);
    let ended = convolution.run_as(false, &cancel, &problem, bytes_of(&source), bytes_of_mut(&mut result));
    assert_eq!(ended, Err(Error::Cancelled), "within a block: {what}");
}

#[test]
fn it_says_what_it_is() {
    assert!(!name().is_empty());
    assert!(describe().starts_with("CPU: ") && describe().ends_with(Level::chosen().unwrap().name()), "{}", describe());
}

/// The levels that every CPU of an architecture has are among those that all tests here run.
#[test]
fn levels_of_this_architecture() {
    let available: Vec<_> = Level::available().collect();
    if cfg!(target_arch = "aarch64") {
        assert_eq!(available, [Level::Neon, Level::Portable]);
    } else if cfg!(target_arch = "x86_64") {
        assert!(!available.contains(&Level::Neon) && available.ends_with(&[Level::Portable]), "{available:?}");
    } else {
        assert_eq!(available, [Level::Portable]);
    }
}

/// Every level has a word of its own, which chooses it where the CPU has it and is an error elsewhere.
#[test]
fn words_of_levels() {
    let all = Level::ALL;
    for (i, level) in all.into_iter().enumerate() {
        let word = Some(OsStr::new(level.word()));
        assert_eq!(choose(word, &all), Ok(level));
        assert_eq!(choose(word, &[level]), Ok(level));
        let others: Vec<_> = all.into_iter().filter(|&other| other != level).collect();
        let error = choose(word, &others).unwrap_err().to_string();
        for part in ["FALTUNG_CPU", "of this CPU (", others[0].word(), &format!("not \"{}\"", level.word())] {
            assert!(error.contains(part), "{part} is not in: {error}");
        }
        for unset in [None, Some(OsStr::new(""))] {
            assert_eq!(choose(unset, &all[i..]), Ok(level), "the first is the fastest");
        }
    }
    let error = choose(Some(OsStr::new("neon")), &[Level::Avx2, Level::Portable]).unwrap_err();
    let expected = "the environment variable FALTUNG_CPU: an instruction set of this CPU (avx2 or portable) was \
                    expected, not \"neon\"";
    assert_eq!(error.to_string(), expected);
    for wrong in ["sse", "AVX2", "avx2 ", "avx", "0"] {
        let Err(Error::Parse { required, found, .. }) = choose(Some(OsStr::new(wrong)), &all) else {
            panic!("{wrong} is a level")
        };
        assert_eq!((required.as_str(), found.as_str()), ("avx512, avx2, neon or portable", wrong));
    }
}

/// Two filters of an array that is so large that it is filtered in bands.
fn filter_large_array() -> Result<()> {
    use crate::nd::{Along, AxisFilter, Element, Input, Layout, Lines, Output, Sums, filter_axes};

    const SHAPE: [usize; 2] = [600, 300];
    let (values, mut results) = (vec![1.0_f64; SHAPE[0] * SHAPE[1]], vec![0.0_f64; SHAPE[0] * SHAPE[1]]);
    let layout = || Layout::dense(Element::F64, &SHAPE);
    // SAFETY: both vectors have the elements of this layout, and live until the function returns.
    let (input, output) = unsafe {
        let input = Input::from_raw(values.as_ptr().cast(), layout())?;
        (input, Output::from_raw(results.as_mut_ptr().cast(), layout())?)
    };
    let filters = [0, 1].map(|axis| {
        let lines = Lines { axis, origin: 0, border: crate::BorderMode::Mirror, value: 0.0 };
        AxisFilter { along: Along::Weights(&[0.25, 0.5, 0.25]), lines }
    });
    filter_axes(input, output, &filters, Sums::F64)
}

/// The variable is read once, so each value needs a process: this test starts itself.
#[test]
fn a_forced_level_takes_effect() {
    const CHILD: &str = "FALTUNG_TEST_CHILD";
    let device = Device::cpu();
    if std::env::var_os(CHILD).is_some() {
        let problem = Problem::new(40, 9, &Filter::new(mask(3, 2))).unwrap();
        match device.prepare(&problem, VariantChoice::Auto) {
            Ok(prepared) => {
                assert!(prepared.reason().ends_with(instruction_set().unwrap()), "{}", prepared.reason());
                println!("<{} | {}>", device.describe(), prepared.reason());
            }
            Err(error) => {
                assert_eq!(instruction_set(), Err(error.clone()));
                assert_eq!(device.rates(), Err(error.clone()));
                assert_eq!(filter_large_array(), Err(error.clone()));
                println!("<{} | {error}>", device.describe());
            }
        }
        return;
    }
    let child = |word: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "cpu::tests::a_forced_level_takes_effect", "--nocapture"]);
        let output = command.env(CHILD, "1").env("FALTUNG_CPU", word).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let (_, said) = text.split_once('<').unwrap_or_else(|| panic!("nothing is said: {text}"));
        let (describe, rest) = said.split_once(" | ").unwrap();
        (describe.to_owned(), rest.split_once('>').unwrap().0.to_owned())
    };
    for level in Level::ALL {
        let (describe, said) = child(level.word());
        if level.is_available() {
            assert!(describe.ends_with(level.name()), "{describe}");
            assert!(said.ends_with(level.name()), "{said}");
        } else {
            assert!(describe.ends_with(&said), "{describe}");
            assert!(said.ends_with(&format!("was expected, not \"{}\"", level.word())), "{said}");
        }
    }
    let (describe, said) = child("");
    let fastest = Level::available().next().unwrap().name();
    assert!(describe.ends_with(fastest) && said.ends_with(fastest), "{describe}, {said}");
    let (_, said) = child("fast");
    assert!(said.contains("avx512, avx2, neon or portable was expected, not \"fast\""), "{said}");
}
