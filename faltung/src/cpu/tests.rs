//! The fast paths against the scalar reference, bit by bit, at every level that the machine has.

use std::ffi::OsStr;
use std::process::Command;

use proptest::prelude::*;

use super::simd::choose;
use super::*;
use crate::{Border, Device, Error, Filter, Mask, Operation, POISON, VariantChoice};

const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
const OPERATIONS: [Operation; 2] = [Operation::Convolve, Operation::Correlate];

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

/// Compares every level, for large images and others, with the reference. The result lies at different places of a
/// cache line.
fn check(problem: &Problem, source: &[f32]) {
    let mut expected = vec![POISON; source.len()];
    reference(problem, source, &mut expected);
    for level in Level::available() {
        for large in [false, true] {
            let shift = (problem.width() + 5 * problem.height()) % 16;
            let mut memory = vec![POISON; source.len() + 31];
            let start = memory.as_ptr().align_offset(64) + shift;
            convolve_with(level, large, problem, source, &mut memory[start..][..source.len()]);
            let found = &memory[start..][..source.len()];
            // NaN is NaN, but for that of an unwritten value.
            let same = |(a, b): (&f32, &f32)| {
                b.to_bits() != POISON.to_bits() && (a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
            };
            if let Some(at) = expected.iter().zip(found).position(|pair| !same(pair)) {
                let (width, height, origin) = (problem.width(), problem.height(), problem.origin());
                let window = (problem.window().width(), problem.window().height());
                panic!(
                    "{level:?}, large {large}, {width} x {height}, window {window:?}, origin {origin:?}, {}, shift \
                     {shift}: {:e} is not {:e} (column {}, row {})",
                    problem.border(),
                    found[at],
                    expected[at],
                    at % width,
                    at / width
                );
            }
            let around = memory[..start].iter().chain(&memory[start + source.len()..]);
            assert!(around.into_iter().all(|value| value.to_bits() == POISON.to_bits()), "written beside the result");
        }
    }
}

/// Widths and heights across every boundary of tiles, vectors and bands; the rest changes from size to size.
#[test]
fn sizes() {
    let masks = [(3, 3), (4, 3), (1, 1), (5, 2), (2, 7), (1, 5), (6, 1), (7, 4)];
    let widest = Level::available().map(panel::tile_width).max().unwrap();
    let mut case = 0;
    for width in 1..=2 * widest + 2 {
        for height in 1..=2 * ROWS + 2 {
            case += 1;
            let (mw, mh) = masks[case % masks.len()];
            let filter =
                Filter::new(mask(mw, mh)).border(BORDERS[case % BORDERS.len()]).operation(OPERATIONS[case / 3 % 2]);
            let problem = Problem::new(width, height, &filter).unwrap();
            check(&problem, &numbers(width * height, case as u32));
        }
    }
}

/// Masks of all shapes, also larger than the image; all borders, operations and anchors in the corners.
#[test]
fn masks_borders_and_anchors() {
    for (width, height) in [(1, 1), (2, 9), (9, 2), (83, 13), (150, 7)] {
        let source = numbers(width * height, 7);
        for (mw, mh) in [(1, 1), (2, 2), (3, 5), (8, 1), (1, 8), (4, 6), (5, 12), (19, 3), (90, 2), (3, 40)] {
            for border in BORDERS {
                for operation in OPERATIONS {
                    let filter = Filter::new(mask(mw, mh)).border(border).operation(operation);
                    check(&Problem::new(width, height, &filter).unwrap(), &source);
                    if mw * mh < 50 {
                        for anchor in [(0, 0), (mh - 1, 0), (0, mw - 1), (mh - 1, mw - 1)] {
                            let filter = filter.clone().anchor(anchor.0, anchor.1);
                            check(&Problem::new(width, height, &filter).unwrap(), &source);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_huge_mask_on_a_small_image() {
    for border in BORDERS {
        let filter = Filter::new(mask(301, 203)).border(border).anchor(10, 290);
        check(&Problem::new(10, 7, &filter).unwrap(), &numbers(70, 3));
    }
}

#[test]
fn scale_and_offset() {
    for (scale, offset) in [(0.25, 0.0), (1.0, 3.0), (-1.5, 0.1), (0.0, -0.0)] {
        let filter = Filter::new(mask(3, 4)).scale(scale).offset(offset);
        check(&Problem::new(75, 8, &filter).unwrap(), &numbers(75 * 8, 11));
    }
}

/// Images that are cut into rows, into rows and columns, and not at all; a result that is large without being told so.
#[test]
fn any_number_of_threads() {
    let shapes = [(300, 700, 3, 3), (20_000, 5, 5, 3), (9_001, 1, 31, 1), (3, 20_000, 3, 9), (2048, 2050, 2, 2)];
    for (width, height, mw, mh) in shapes {
        let filter = Filter::new(mask(mw, mh)).border(Border::Mirror);
        let problem = Problem::new(width, height, &filter).unwrap();
        let source = numbers(width * height, 5);
        let mut expected = vec![POISON; source.len()];
        reference(&problem, &source, &mut expected);
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut result = vec![POISON; source.len()];
            pool.install(|| convolve(&problem, &source, &mut result));
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            assert!(bits(&expected) == bits(&result), "{width} x {height}, {threads} threads");
        }
    }
}

/// Blocks cover the image, are whole bands, and there are enough for all threads.
#[test]
fn cuts() {
    let cut = |width, height, side, threads| {
        Cut::new(&Problem::new(width, height, &Filter::new(mask(side, side))).unwrap(), threads)
    };
    assert_eq!(cut(64, 64, 3, 2), Cut { rows: 64, columns: 64 }, "not worth waking a thread");
    assert_eq!(cut(100, 90, 31, 1), Cut { rows: 90, columns: 100 });
    assert_eq!(cut(4096, 4096, 3, 2), Cut { rows: MOST_ROWS, columns: 4096 });
    assert!(cut(1 << 20, 3, 3, 2).columns < 1 << 18, "a flat image is cut into columns");
    for (width, height, side, threads) in [(1000, 1000, 5, 7), (5000, 13, 9, 2), (3, 100_000, 3, 64)] {
        let Cut { rows, columns } = cut(width, height, side, threads);
        assert!(rows % ROWS == 0 && columns > 0, "{rows} rows, {columns} columns");
        let blocks = height.div_ceil(rows) * width.div_ceil(columns);
        assert!(blocks >= threads.min(height.div_ceil(ROWS)), "{blocks} blocks for {threads} threads");
    }
}

/// NaN and infinity in the image reach the outputs whose windows hold them, and no others.
#[test]
fn nan_and_infinity_stay_in_their_support() {
    let (width, height, mw, mh) = (140, 15, 5, 4);
    let filter = Filter::new(mask(mw, mh)).operation(Operation::Correlate);
    let problem = Problem::new(width, height, &filter).unwrap();
    let clean = numbers(width * height, 9);
    let mut expected = vec![POISON; clean.len()];
    reference(&problem, &clean, &mut expected);
    for (value, (x, y)) in
        [(f32::NAN, (70, 6)), (f32::INFINITY, (0, 0)), (f32::NEG_INFINITY, (139, 14)), (f32::NAN, (64, 14))]
    {
        let mut source = clean.clone();
        source[y * width + x] = value;
        check(&problem, &source);
        let mut result = vec![POISON; clean.len()];
        convolve(&problem, &source, &mut result);
        for (i, (&a, &b)) in expected.iter().zip(&result).enumerate() {
            let (column, row) = (i % width, i / width);
            let (ay, ax) = problem.origin();
            let covered = (y + ay).checked_sub(row).is_some_and(|k| k < mh)
                && (x + ax).checked_sub(column).is_some_and(|l| l < mw);
            assert_eq!(a.to_bits() == b.to_bits(), !covered, "{value} in {x}, {y}: output {column}, {row}");
            assert!(!covered || !b.is_finite());
        }
    }
}

/// Infinite coefficients meet the zeros outside: NaN, as by the reference.
#[test]
fn infinite_coefficients() {
    for border in BORDERS {
        let mut coefficients = numbers(9, 2);
        coefficients[0] = f32::INFINITY;
        let filter = Filter::new(Mask::new(3, 3, coefficients).unwrap()).border(border);
        check(&Problem::new(67, 7, &filter).unwrap(), &numbers(67 * 7, 4));
    }
}

#[test]
#[should_panic(expected = "values of source and result")]
fn a_short_result_is_refused() {
    let problem = Problem::new(4, 4, &Filter::new(mask(3, 3))).unwrap();
    convolve(&problem, &[0.0; 16], &mut [0.0; 15]);
}

#[test]
fn it_says_what_it_is() {
    assert!(!name().is_empty());
    assert!(describe().starts_with("CPU: ") && describe().ends_with(Level::best().name()), "{}", describe());
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
    let expected = "the environment variable FALTUNG_CPU: an instruction set of this CPU (avx2 or portable) was expected, \
                    not \"neon\"";
    assert_eq!(error.to_string(), expected);
    for wrong in ["sse", "AVX2", "avx2 ", "avx", "0"] {
        let Err(Error::Parse { required, found, .. }) = choose(Some(OsStr::new(wrong)), &all) else {
            panic!("{wrong} is a level")
        };
        assert_eq!((required.as_str(), found.as_str()), ("avx512, avx2, neon or portable", wrong));
    }
}

/// The variable is read once, so each value needs a process: this test starts itself.
#[test]
fn a_forced_level_takes_effect() {
    const CHILD: &str = "FALTUNG_TEST_CHILD";
    let device = Device::cpu();
    if std::env::var_os(CHILD).is_some() {
        let problem = Problem::new(40, 9, &Filter::new(mask(3, 2))).unwrap();
        match device.prepare(&problem, VariantChoice::Auto) {
            Ok(prepared) => println!("<{} | {}>", device.describe(), prepared.reason()),
            Err(error) => {
                assert_eq!(device.rates(), Err(error.clone()));
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bits at all: subnormal numbers, infinities, NaN.
    #[test]
    fn any_values(
        (width, height, values) in (1_usize..90, 1_usize..16)
            .prop_flat_map(|(w, h)| (Just(w), Just(h), prop::collection::vec(any::<u32>(), w * h))),
        (mw, mh, coefficients) in (1_usize..8, 1_usize..8)
            .prop_flat_map(|(w, h)| (Just(w), Just(h), prop::collection::vec(any::<f32>(), w * h))),
        border in 0..BORDERS.len(),
        convolve in any::<bool>(),
    ) {
        let source: Vec<f32> = values.into_iter().map(f32::from_bits).collect();
        let filter = Filter::new(Mask::new(mw, mh, coefficients).unwrap())
            .border(BORDERS[border])
            .operation(OPERATIONS[usize::from(convolve)]);
        check(&Problem::new(width, height, &filter).unwrap(), &source);
    }
}
