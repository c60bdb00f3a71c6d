//! The direct method: sizes, masks, borders, formats, special values, and the cut into blocks.

use proptest::prelude::*;

use super::*;

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
            check::<f32, f32>(&problem, &numbers(width * height, case as u32));
        }
    }
}

/// Windows with their own tiles, for every width up to three wide tiles and two values more.
#[test]
fn small_windows() {
    let widest = Level::available().map(panel::tile_width).max().unwrap();
    for (mw, mh) in [(3, 3), (5, 5), (1, 3), (1, 5)] {
        for width in 1..=3 * widest + 2 {
            for height in [ROWS, 2 * ROWS + 1] {
                let filter = Filter::new(mask(mw, mh)).border(BORDERS[width % BORDERS.len()]);
                let problem = Problem::new(width, height, &filter).unwrap();
                check::<f32, f32>(&problem, &numbers(width * height, width as u32));
                let bytes = problem.with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
                check::<u8, u8>(&bytes, &u8::samples(width * height, width as u64));
            }
        }
    }
}

/// Masks of all shapes, also larger than the image; all borders, operations and anchors in the corners.
#[test]
fn masks_borders_and_anchors() {
    for (width, height) in [(1, 1), (2, 9), (9, 2), (83, 13), (150, 7), (1, 530)] {
        let source = numbers(width * height, 7);
        for (mw, mh) in [(1, 1), (2, 2), (3, 5), (8, 1), (1, 8), (4, 6), (5, 12), (19, 3), (90, 2), (3, 40)] {
            for border in BORDERS {
                for operation in OPERATIONS {
                    let filter = Filter::new(mask(mw, mh)).border(border).operation(operation);
                    check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
                    if mw * mh < 50 {
                        for anchor in [(0, 0), (mh - 1, 0), (0, mw - 1), (mh - 1, mw - 1)] {
                            let filter = filter.clone().anchor(anchor.0, anchor.1);
                            check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
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
        check::<f32, f32>(&Problem::new(10, 7, &filter).unwrap(), &numbers(70, 3));
    }
}

#[test]
fn scale_and_offset() {
    for (scale, offset) in [(0.25, 0.0), (1.0, 3.0), (-1.5, 0.1), (0.0, -0.0)] {
        let filter = Filter::new(mask(3, 4)).scale(scale).offset(offset);
        check::<f32, f32>(&Problem::new(75, 8, &filter).unwrap(), &numbers(75 * 8, 11));
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
        let blurred = Filter::new(Mask::gaussian(2.0, None).unwrap()).border(Border::Mirror);
        let blurred = Problem::new(width, height, &blurred).unwrap();
        let bytes = blurred.clone().with_format(PixelFormat::of::<u8, u8>(1)).unwrap();
        let pixels = u8::samples(width * height, 6);
        let mut blurs = Vec::new();
        for threads in [1, 2, 3, 7] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            blurs.push(pool.install(|| {
                let (mut floats, mut rounded) = (vec![POISON; source.len()], vec![0; source.len()]);
                convolve(&blurred, &source, &mut floats);
                Convolution::new(&bytes).unwrap().run(&bytes, &pixels, &mut rounded).unwrap();
                (floats.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), rounded)
            }));
            assert!(blurs[0] == blurs[blurs.len() - 1], "{width} x {height}, {threads} threads");
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
        Cut::dense(&Problem::new(width, height, &Filter::new(mask(side, side))).unwrap(), threads)
    };
    assert_eq!(cut(64, 64, 3, 2), Cut { rows: 64, columns: 64 }, "not worth waking a thread");
    assert_eq!(cut(100, 90, 31, 1), Cut { rows: 90, columns: 100 });
    assert_eq!(cut(4096, 4096, 3, 2), Cut { rows: MOST_ROWS, columns: 4096 });
    assert!(cut(1 << 20, 3, 3, 2).columns < 1 << 18, "a flat image is cut into columns");
    let tall = Problem::new(512, 512, &Filter::new(mask(63, 63))).unwrap();
    assert_eq!(Cut::separable(&tall, 2).rows, 258, "three blocks would be too many for two threads");
    let flat = Problem::new(1_000_000, 6, &Filter::new(mask(5, 5))).unwrap();
    assert!(Cut::separable(&flat, 2).columns < 1_000_000 / 8, "a flat image has several blocks for each thread");
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
        check::<f32, f32>(&problem, &source);
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
        check::<f32, f32>(&Problem::new(67, 7, &filter).unwrap(), &numbers(67 * 7, 4));
    }
}

/// Every pair of types, and 1 to 4 channels.
#[test]
fn formats() {
    fn pair<T: Sample, U: Sample>(case: &mut usize) {
        for channels in 1..=4 {
            // Rows of 48 values are aligned for non-temporal stores, and end with a partial tile.
            let sizes = [(1, 1, 3, 3), (70, 9, 3, 3), (23, 20, 4, 5), (150, 7, 1, 6), (9, 3, 12, 2), (48, 16, 3, 3)];
            for (width, height, mw, mh) in sizes {
                *case += 1;
                let filter = Filter::new(mask(mw, mh))
                    .border(BORDERS[*case % BORDERS.len()])
                    .operation(OPERATIONS[*case % 2])
                    .anchor(*case % mh, *case % mw)
                    .scale(if case.is_multiple_of(3) { 0.4 } else { 1.0 });
                let problem = Problem::new(width, height, &filter).unwrap();
                let problem = problem.with_format(PixelFormat::of::<T, U>(channels)).unwrap();
                check::<T, U>(&problem, &T::samples(problem.values(), *case as u64));
            }
        }
    }
    let case = &mut 0;
    pair::<u8, u8>(case);
    pair::<u8, u16>(case);
    pair::<u8, f32>(case);
    pair::<u16, u8>(case);
    pair::<u16, u16>(case);
    pair::<u16, f32>(case);
    pair::<f32, u8>(case);
    pair::<f32, u16>(case);
    pair::<f32, f32>(case);
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
        check::<f32, f32>(&Problem::new(width, height, &filter).unwrap(), &source);
    }
}
