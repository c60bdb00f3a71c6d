use kernels_gpu::common::partition::partition;
use kernels_gpu::registry::{Grid, entries};

use super::*;
use crate::{Axis, Border, Filter, Mask, Operation, PixelFormat, PixelType};

/// A mask that is no column times a row, if it has more than one row and column.
fn mask(width: usize, height: usize) -> Mask {
    let mut coefficients = vec![1.0; width * height];
    coefficients[0] = 2.0;
    Mask::new(width, height, coefficients).unwrap()
}

fn problem(width: usize, height: usize, mask_width: usize, mask_height: usize) -> Problem {
    Problem::new(width, height, &Filter::new(mask(mask_width, mask_height))).unwrap()
}

fn planned(problem: &Problem, choice: VariantChoice) -> &'static str {
    Plan::new(problem, Limits::H100, choice).unwrap().entry.symbol
}

/// What `auto` takes of the entries for the problem's own format: without planes.
fn direct(problem: &Problem, limits: Limits) -> Plan {
    Plan::direct(problem, limits, VariantChoice::Auto).unwrap()
}

#[test]
fn small_images_take_the_kernels_with_many_threads() {
    let of = |width, height| planned(&problem(100, 50, width, height), VariantChoice::Auto);
    assert_eq!(of(7, 7), "shared_tile_async_f32_c1_7x7");
    assert_eq!(of(7, 9), "shared_tile_f32_c1");
    assert_eq!(of(14, 16), "shared_tile_f32_c1");
    assert_eq!(of(128, 128), "shared_tile_f32_c1");
    // A long row of coefficients: constant memory holds it, the tile of a block no longer fits.
    assert_eq!(of(16_384, 1), "constant_mask_f32_c1");
    assert_eq!(of(129, 128), "naive_f32_c1");
    let plan = Plan::new(&problem(200, 200, 13, 13), Limits::H100, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.symbol, "shared_tile_async_f32_c1_13x13");
    assert!(plan.reason.contains("too few pixels for sliding_window: 25 of 528 warps"), "{}", plan.reason);
    // The same image is none too small for a small device.
    let small = Limits { sm_count: 1, ..Limits::H100 };
    let plan = Plan::new(&problem(200, 200, 13, 13), small, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.symbol, "sliding_window_f32_c1_13x13");
    // Without the copies of compute capability 8.0.
    let old = Limits { compute_capability: (7, 5), ..Limits::H100 };
    let plan = Plan::new(&problem(200, 200, 13, 13), old, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.symbol, "shared_tile_f32_c1_13x13");
    assert!(plan.reason.contains("not shared_tile_async: made for compute capability 8.0"), "{}", plan.reason);
    // The windows of its tile begin where those of a centred mask do.
    let filter = Filter::new(mask(7, 7)).anchor(3, 0);
    let plan = Plan::new(&Problem::new(100, 50, &filter).unwrap(), Limits::H100, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.symbol, "shared_tile_f32_c1_7x7");
}

#[test]
fn small_images_end_where_measured() {
    let of = |side, mask| planned(&problem(side, side, mask, mask), VariantChoice::Auto);
    for (mask, last) in [(3, 940), (5, 1188), (7, 1279), (9, 1704), (13, 1704), (15, 1359), (21, 1664), (31, 1738)] {
        assert_eq!(of(last, mask), format!("shared_tile_async_f32_c1_{mask}x{mask}"));
        assert_eq!(of(last + 1, mask), format!("sliding_window_f32_c1_{mask}x{mask}"));
    }
    // Even sides have no `shared_tile_async`: a sliding window of few warps is still faster than what is left, unless
    // they are very few.
    assert_eq!(of(512, 20), "sliding_window_f32_c1_20x20");
    assert_eq!(of(200, 20), "shared_tile_f32_c1");
    let of_box = |side, mask, accuracy| {
        let filter = Filter::new(Mask::average(mask, mask).unwrap()).accuracy(accuracy);
        planned(&Problem::new(side, side, &filter).unwrap(), VariantChoice::Auto)
    };
    assert_eq!(of_box(1101, 7, Accuracy::Bounded), "shared_tile_async_f32_c1_7x7");
    assert_eq!(of_box(1102, 7, Accuracy::Bounded), "separable_block_tile_f32_c1_7x7");
    assert_eq!(of_box(669, 13, Accuracy::Bounded), "shared_tile_async_f32_c1_13x13");
    assert_eq!(of_box(670, 13, Accuracy::Bounded), "separable_block_tile_f32_c1_13x13");
    assert_eq!(of_box(940, 9, Accuracy::Bounded), "shared_tile_async_f32_c1_9x9");
    assert_eq!(of_box(941, 9, Accuracy::Bounded), "separable_block_tile_f32_c1_9x9");
    assert_eq!(of_box(1025, 13, Accuracy::Exact), "shared_tile_async_f32_c1_13x13");
    assert_eq!(of_box(344, 31, Accuracy::Bounded), "shared_tile_async_f32_c1_31x31");
    assert_eq!(of_box(345, 31, Accuracy::Bounded), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(of_box(1100, 5, Accuracy::Bounded), "shared_tile_async_f32_c1_5x5");
}

#[test]
fn a_mask_has_the_rows_that_its_kernel_reads() {
    let of = |choice| {
        let problem = problem(100, 100, 5, 5);
        (Plan::new(&problem, Limits::H100, choice).unwrap().coefficients(&problem), problem)
    };
    let (given, problem) = of(VariantChoice::Named(Variant::SharedTile));
    assert_eq!(given, problem.window().coefficients());
    let (filled, _) = of(VariantChoice::Named(Variant::SharedTileAsync));
    assert_eq!(filled.len(), 5 * 8);
    for (row, filled) in given.chunks(5).zip(filled.chunks(8)) {
        assert_eq!((row, &[0.0; 3][..]), filled.split_at(5));
    }
}

/// Also where a mask is added up in passes, the last ones of which may have a row less.
#[test]
fn rows_of_a_mask_lie_behind_each_other() {
    for entry in entries().filter(|entry| entry.side() > 0) {
        let MaskForm::Rows(begin) = entry.variant.spec().mask_form else { continue };
        let side = entry.side();
        assert_eq!(begin(side, 0), 0);
        for row in 0..side {
            assert!(begin(side, row) + side <= begin(side, row + 1), "row {row} of {}", entry.symbol);
        }
    }
}

#[test]
fn large_images_take_the_kernels_with_sums_in_registers() {
    let of = |width, height| planned(&problem(4096, 4096, width, height), VariantChoice::Auto);
    for side in (3..=21).chain([23, 25, 27, 29, 31]) {
        assert_eq!(of(side, side), format!("sliding_window_f32_c1_{side}x{side}"));
    }
    assert_eq!(of(8, 9), "register_tile_f32_c1");
    assert_eq!(of(22, 22), "register_tile_f32_c1");
    assert_eq!(of(63, 63), "register_tile_f32_c1");
    assert_eq!(of(2, 2), "constant_mask_f32_c1");
    let of_anchor = |row, column| {
        let filter = Filter::new(mask(7, 7)).anchor(row, column);
        planned(&Problem::new(4096, 4096, &filter).unwrap(), VariantChoice::Auto)
    };
    // Up and down costs nothing, to the sides the walk would read pixel by pixel.
    assert_eq!(of_anchor(6, 3), "sliding_window_f32_c1_7x7");
    assert_eq!(of_anchor(3, 0), "register_tile_f32_c1");
    let bytes =
        problem(4096, 4096, 7, 7).with_format(PixelFormat { output: PixelType::U8, ..PixelFormat::PLANE }).unwrap();
    let plan = direct(&bytes, Limits::H100);
    assert_eq!(plan.entry.symbol, "shared_tile_f32_c1_7x7");
    assert!(plan.reason.contains("makes results of f32, not u8"), "{}", plan.reason);
}

#[test]
fn separable_masks_take_two_passes_unless_exact() {
    let of = |mask: Mask, accuracy| {
        let filter = Filter::new(mask).accuracy(accuracy);
        planned(&Problem::new(4096, 4096, &filter).unwrap(), VariantChoice::Auto)
    };
    let box_of = |width, height| Mask::average(width, height).unwrap();
    for (side, bounded, exact) in [
        (3, "sliding_window_f32_c1_3x3", "sliding_window_f32_c1_3x3"),
        (5, "sliding_window_f32_c1_5x5", "sliding_window_f32_c1_5x5"),
        (7, "separable_block_tile_f32_c1_7x7", "sliding_window_f32_c1_7x7"),
        (21, "separable_block_tile_f32_c1_21x21", "sliding_window_f32_c1_21x21"),
        (31, "separable_tensor_core_f32_c1_blocks_5", "sliding_window_f32_c1_31x31"),
        (33, "separable_tensor_core_f32_c1_blocks_5", "register_tile_f32_c1"),
        (47, "separable_tensor_core_f32_c1_blocks_7", "register_tile_f32_c1"),
        (63, "separable_tensor_core_f32_c1_blocks_9", "register_tile_f32_c1"),
        (65, "separable_tensor_core_f32_c1_blocks_9", "register_tile_f32_c1"),
        (67, "separable_tensor_core_f32_c1_blocks_13", "register_tile_f32_c1"),
        (127, "separable_tensor_core_f32_c1_blocks_17", "register_tile_f32_c1"),
        (129, "separable_tensor_core_f32_c1_blocks_17", "register_tile_f32_c1"),
        (131, "separable_ring_f32_c1", "register_tile_f32_c1"),
    ] {
        assert_eq!(of(box_of(side, side), Accuracy::Bounded), bounded);
        assert_eq!(of(box_of(side, side), Accuracy::Normwise), bounded);
        assert_eq!(of(box_of(side, side), Accuracy::Exact), exact);
    }
    assert_eq!(of(box_of(8, 6), Accuracy::Bounded), "separable_block_tile_f32_c1_halo_16");
    assert_eq!(of(box_of(8, 18), Accuracy::Bounded), "separable_tensor_core_f32_c1_blocks_5");
    let with = |limits, anchor: Option<(usize, usize)>| {
        let filter = Filter::new(box_of(7, 7));
        let filter = anchor.map_or(filter.clone(), |(row, column)| filter.anchor(row, column));
        let problem = Problem::new(4096, 4096, &filter).unwrap();
        Plan::new(&problem, limits, VariantChoice::Auto).unwrap().entry.symbol
    };
    // A kernel of one size is for its own anchor, to the sides; the others are for any.
    assert_eq!(with(Limits::H100, Some((0, 3))), "separable_block_tile_f32_c1_7x7");
    assert_eq!(with(Limits::H100, Some((3, 0))), "separable_block_tile_f32_c1_halo_16");
    let turing = Limits { compute_capability: (7, 5), ..Limits::H100 };
    assert_eq!(with(turing, None), "separable_ring_f32_c1");
    // A row alone is its own product.
    assert_eq!(of(box_of(31, 1), Accuracy::Bounded), "register_tile_f32_c1");
    // Off by four times what the contract allows, in one coefficient.
    let almost = |by: f32| {
        let mut values = box_of(7, 7).coefficients().to_vec();
        values[40] *= 1.0 + by;
        Mask::new(7, 7, values).unwrap()
    };
    assert_eq!(of(almost(4.0 * Mask::SEPARABLE), Accuracy::Bounded), "sliding_window_f32_c1_7x7");
    assert_eq!(of(almost(0.25 * Mask::SEPARABLE), Accuracy::Bounded), "separable_block_tile_f32_c1_7x7");
}

/// The tensor cores are taken for masks of many rows, and of squares of odd sides where those have no kernel as fast.
#[test]
fn large_separable_masks_take_the_tensor_cores() {
    let of = |size: usize, mask: Mask, change: fn(Filter) -> Filter, limits| {
        let problem = Problem::new(size, size, &change(Filter::new(mask))).unwrap();
        Plan::new(&problem, limits, VariantChoice::Auto).unwrap()
    };
    let symbol = |size, (width, height), change| {
        of(size, Mask::average(width, height).unwrap(), change, Limits::H100).entry.symbol
    };
    let same = |filter| filter;
    assert_eq!(symbol(4096, (63, 63), same), "separable_tensor_core_f32_c1_blocks_9");
    assert_eq!(symbol(8192, (29, 29), same), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(symbol(8192, (27, 27), same), "separable_block_tile_f32_c1_27x27");
    assert_eq!(symbol(2048, (27, 27), same), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(symbol(1024, (21, 21), same), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(symbol(1024, (19, 19), same), "separable_block_tile_f32_c1_19x19");
    assert_eq!(symbol(8192, (19, 19), |filter| filter.anchor(0, 0)), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(symbol(8192, (24, 24), |filter| filter.border(Border::Mirror)), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(symbol(8192, (63, 15), same), "separable_block_tile_f32_c1_halo_16");
    assert_eq!(symbol(8192, (15, 63), same), "separable_tensor_core_f32_c1_blocks_9");
    assert_eq!(symbol(8192, (127, 127), same), "separable_tensor_core_f32_c1_blocks_17");
    assert_eq!(symbol(256, (127, 127), same), "separable_tensor_core_f32_c1_blocks_17");
    assert_eq!(symbol(256, (24, 24), same), "shared_tile_f32_c1");
    // A window that begins at an odd column, so that its 65 columns are spread over ten blocks.
    assert_eq!(symbol(4096, (65, 65), same), "separable_tensor_core_f32_c1_blocks_9");
    assert_eq!(symbol(4096, (65, 65), |filter| filter.anchor(32, 33)), "separable_tensor_core_f32_c1_blocks_13");
    let older = Limits { compute_capability: (7, 5), ..Limits::H100 };
    assert_eq!(of(4096, Mask::average(63, 63).unwrap(), same, older).entry.variant, Variant::SeparableRing);
    // Coefficients far below the others.
    let steep = Mask::gaussian(6.0, Some(31)).unwrap();
    assert_eq!(of(4096, steep, same, Limits::H100).entry.symbol, "separable_tensor_core_f32_c1_blocks_9");
    let plan = of(4096, Mask::average(127, 127).unwrap(), same, Limits::H100);
    let problem = Problem::new(4096, 4096, &Filter::new(Mask::average(127, 127).unwrap())).unwrap();
    assert_eq!(plan.bound(&problem).gamma(), ErrorBound::with_constant(828.0).gamma());
}

/// What it can't, it says.
#[test]
fn masks_that_the_tensor_cores_can_not_filter_are_refused() {
    let refused = |width: usize, height: usize, values: fn(usize, usize) -> f32| {
        let values = (0..height).flat_map(|k| (0..width).map(move |l| values(k, l))).collect();
        let problem = Problem::new(300, 300, &Filter::new(Mask::new(width, height, values).unwrap())).unwrap();
        let choice = VariantChoice::Named(Variant::SeparableTensorCore);
        Plan::new(&problem, Limits::H100, choice).map(|plan| plan.entry.symbol).map_err(|error| error.to_string())
    };
    assert_eq!(refused(3, 3, |_, _| 1.0).unwrap(), "separable_tensor_core_f32_c1_blocks_5");
    assert_eq!(refused(66, 3, |_, _| 1.0).unwrap(), "separable_tensor_core_f32_c1_blocks_13");
    assert_eq!(refused(3, 3, |_, l| if l == 1 { 1.0 } else { 1e-9 }).unwrap(), "separable_tensor_core_f32_c1_blocks_5");
    let all = [
        (131, 3, (|_, _| 1.0) as fn(usize, usize) -> f32, "up to 129 columns and rows"),
        (3, 131, |_, _| 1.0, "up to 129 columns and rows"),
        (3, 3, |k, l| if k == l { 1.0 } else { 0.0 }, "the mask is not separable"),
        (3, 3, |_, l| if l == 1 { 1.0 } else { 1e-33 }, "row and column factors: required -100 to 100, found -1"),
        (3, 3, |k, _| if k == 1 { 1.0 } else { 1e-33 }, "row and column factors: required -100 to 100, found -1"),
        (3, 3, |_, _| 1e-34, "row and column factors: required -100 to 100, found -1"),
        (3, 3, |_, _| 1e34, "row and column factors: required -100 to 100, found -"),
    ];
    for (width, height, values, reason) in all {
        let found = refused(width, height, values).expect_err(reason);
        assert!(found.contains(reason), "{found}");
    }
}

/// The bound of a separable variant is its own, of fewer roundings than the direct sum has; the factors are in window
/// order.
#[test]
fn a_separable_plan_states_its_bound() {
    let values = (0..9).flat_map(|k| (0..7).map(move |l| (k + 1) as f32 * (l * l + 1) as f32)).collect();
    let filter = Filter::new(Mask::new(7, 9, values).unwrap()).operation(Operation::Convolve);
    let problem = Problem::new(4096, 4096, &filter).unwrap();
    let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.symbol, "separable_block_tile_f32_c1_halo_16");
    let (own, direct) = (plan.bound(&problem), ErrorBound::direct(&problem));
    assert_eq!((own.class(), direct.class()), (Accuracy::Bounded, Accuracy::Exact));
    assert_eq!((own.constant(), direct.constant()), (32.0, 63.0));
    assert_eq!(own.gamma(), ErrorBound::with_constant(7.0 + 9.0 + 16.0).gamma());
    let coefficients = plan.coefficients(&problem);
    // The window of 9 rows is filled up to 17 from above, that of 7 columns, 3 to either side, to a multiple of 4 from
    // the left.
    let (column, row) = (&coefficients[8..], &coefficients[16 + 16 + 1..]);
    assert_eq!(row.len(), 7);
    for (k, l) in (0..9).flat_map(|k| (0..7).map(move |l| (k, l))) {
        assert!((column[k] * row[l] - problem.window().at(k, l)).abs() < 1e-4);
    }
    let ring = Plan::new(&problem, Limits::H100, VariantChoice::Named(Variant::SeparableRing)).unwrap();
    assert_eq!(ring.coefficients(&problem), [row, &column[..9]].concat());
    let problem = problem.with_accuracy(Accuracy::Exact);
    let exact = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
    assert_eq!(exact.bound(&problem), direct);
    assert_eq!(exact.coefficients(&problem), problem.window().coefficients());
}

/// A Gaussian on a large image: `f32` takes a separable variant unless exact bits are asked for, integers never.
#[test]
fn the_accuracy_limits_what_auto_takes() {
    let plan = |accuracy, output| {
        let filter = Filter::new(Mask::gaussian(3.0, None).unwrap()).accuracy(accuracy);
        let problem = Problem::new(4096, 4096, &filter).unwrap();
        let problem = problem.with_format(PixelFormat { channels: 1, input: output, output }).unwrap();
        assert_eq!(problem.accuracy(), accuracy);
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
        (plan.entry.variant, plan.bound(&problem).class())
    };
    use Accuracy::{Bounded, Exact, Normwise};
    assert_eq!(plan(Exact, PixelType::F32), (Variant::SlidingWindow, Exact));
    for accuracy in [Bounded, Normwise] {
        assert_eq!(plan(accuracy, PixelType::F32), (Variant::SeparableBlockTile, Bounded));
    }
    for accuracy in Accuracy::ALL {
        assert_eq!(plan(accuracy, PixelType::U8), (Variant::TensorCoreU8, Exact));
        assert_eq!(plan(accuracy, PixelType::U16), (Variant::SlidingWindow, Exact));
    }
}

/// A variant by name may be bounded, unless exact bits are asked for. That is an error whatever mask and image are.
#[test]
fn a_variant_by_name_keeps_the_accuracy() {
    for variant in Variant::ALL {
        let entry = variant.entries().next().unwrap();
        for accuracy in Accuracy::ALL {
            for mask in [mask(2, 2), Mask::average(entry.example_mask().0 as usize, 1).unwrap()] {
                let problem = Problem::new(99, 99, &Filter::new(mask).accuracy(accuracy)).unwrap();
                let found = Plan::new(&problem, Limits::H100, VariantChoice::Named(variant));
                let is_refused = matches!(found, Err(Error::Accuracy { .. }));
                assert_eq!(is_refused, accuracy == Accuracy::Exact && !variant.is_exact(), "{variant:?} {accuracy}");
            }
        }
    }
    let problem = problem(99, 99, 3, 3).with_accuracy(Accuracy::Exact);
    let error = Plan::new(&problem, Limits::H100, VariantChoice::Named(Variant::SeparableRing)).unwrap_err();
    assert_eq!(error.to_string(), "the variant separable_ring is bounded, but the accuracy exact was asked for");
}

#[test]
fn a_variant_by_name_is_still_checked() {
    let refusal = |problem: &Problem, variant| match Plan::new(problem, Limits::H100, VariantChoice::Named(variant)) {
        Err(Error::Refused { variant: name, reason }) => {
            assert_eq!(name, variant.name());
            reason
        }
        other => panic!("{other:?}"),
    };
    let of = |width, height, variant| refusal(&problem(9, 9, width, height), variant);
    assert!(matches!(of(200, 200, Variant::ConstantMask), Ineligible::ConstantMemory { found: 40_000, .. }));
    assert!(matches!(of(16_384, 1, Variant::SharedTile), Ineligible::SharedMemory { .. }));
    assert_eq!(of(7, 8, Variant::SeparableRing), Ineligible::NotSeparable);
    let other_size = of(8, 6, Variant::SlidingWindow);
    let format = (PixelType::F32, 1);
    assert_eq!(other_size, Ineligible::MaskSize { variant: Variant::SlidingWindow, format, found: (8, 6) });
    assert_eq!(
        other_size.to_string(),
        "made for square masks of side 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 27, 29, 31; this one is 8 x 6"
    );
    let format =
        |channels, input, output| problem(9, 9, 3, 3).with_format(PixelFormat { channels, input, output }).unwrap();
    assert_eq!(
        refusal(&format(1, PixelType::F32, PixelType::U16), Variant::SlidingWindow),
        Ineligible::Result { required: &[PixelType::F32], found: PixelType::U16 }
    );
    assert_eq!(
        refusal(&format(3, PixelType::U8, PixelType::U8), Variant::RegisterTile),
        Ineligible::PixelFormat { required: (PixelType::F32, 1), found: (PixelType::U8, 3) }
    );
}

/// Bytes in 1, 3 and 4 channels have a kernel of their own, for devices, borders and results that suit it.
#[test]
fn bytes_take_the_tensor_cores_where_they_can() {
    let plan = |channels, output, border, width, limits| {
        let filter = Filter::new(mask(7, 7)).border(border);
        let problem = Problem::new(width, 1080, &filter).unwrap();
        let problem = problem.with_format(PixelFormat { channels, input: PixelType::U8, output }).unwrap();
        let plan = direct(&problem, limits);
        (plan.entry.symbol, plan.reason)
    };
    let zero = Border::ZERO;
    for (channels, symbol) in [
        (1, "tensor_core_u8_u8_c1_7x7"),
        (2, "constant_mask_u8_c2"),
        (3, "tensor_core_u8_u8_c3_7x7"),
        (4, "tensor_core_u8_u8_c4_7x7"),
    ] {
        for border in [zero, Border::Wrap, Border::Constant(255.0)] {
            assert_eq!(plan(channels, PixelType::U8, border, 1920, Limits::H100).0, symbol);
        }
    }
    let other = |output, border, width, limits, why: &str| {
        let (symbol, reason) = plan(1, output, border, width, limits);
        assert_eq!(symbol, if width < 1000 { "shared_tile_u8_c1" } else { "constant_mask_u8_c1" });
        assert!(reason.contains(why), "{reason}");
    };
    other(PixelType::F32, zero, 1920, Limits::H100, "makes results of u8, not f32");
    other(PixelType::U8, zero, 122, Limits::H100, "too few pixels for tensor_core_u8: 131760 of 132000 values");
    for value in [0.5, -1.0, 256.0] {
        let why = format!("a constant border must be a whole number from 0 to 255, not {value}");
        other(PixelType::U8, Border::Constant(value), 1920, Limits::H100, &why);
    }
    let turing = Limits { compute_capability: (7, 5), ..Limits::H100 };
    let (symbol, reason) = plan(1, PixelType::U8, zero, 1920, turing);
    assert_eq!(symbol, "sliding_window_u8_c1_7x7");
    assert!(reason.contains("made for compute capability 8.0 or later, the device has 7.5"), "{reason}");
    for (major, minor) in [(8, 0), (8, 6), (12, 1)] {
        let newer = Limits { compute_capability: (major, minor), ..Limits::H100 };
        assert_eq!(plan(1, PixelType::U8, zero, 1920, newer).0, "tensor_core_u8_u8_c1_7x7");
    }
}

/// The drivers of CUDA 11.0 know the PTX of all entries.
#[cfg(feature = "cuda")]
#[test]
fn drivers_know_the_ptx() {
    for entry in entries() {
        let module = kernels_gpu::ptx::MODULES.iter().find(|module| module.name == entry.module()).unwrap();
        let text = module.ptx();
        let version = text.lines().find_map(|line| line.strip_prefix(".version ")).unwrap();
        assert!(version.trim().parse::<f32>().unwrap() <= 7.0, "{}: {version}", entry.symbol);
    }
}

/// Where fixed point leaves too many results uncertain, the sliding window is taken.
#[test]
fn bytes_that_fixed_point_does_not_decide_take_the_sliding_window() {
    let of = |width, height, mask: Mask| {
        let problem = Problem::new(width, height, &Filter::new(mask)).unwrap();
        let problem =
            problem.with_format(PixelFormat { channels: 1, input: PixelType::U8, output: PixelType::U8 }).unwrap();
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
        (plan.entry.symbol, plan.reason)
    };
    let plan = |mask| of(1920, 1080, mask);
    assert_eq!(of(8192, 8192, Mask::sobel(Axis::X)).0, "tensor_core_u8_u8_c1_3x3");
    // Every sum has a half behind the point in every other case.
    let (symbol, reason) = plan(Mask::new(5, 5, vec![0.5; 25]).unwrap());
    assert_eq!(symbol, "sliding_window_u8_c1_5x5");
    assert!(reason.contains("required 0 to 0.1, found 0.5"), "{reason}");
    assert_eq!(plan(Mask::sobel(Axis::X)).0, "tensor_core_u8_u8_c1_3x3");
    assert_eq!(plan(Mask::average(5, 5).unwrap()).0, "tensor_core_u8_u8_c1_5x5");
    for (width, height, symbol) in [
        (2, 2, "sliding_window_u8_c1_3x3"),
        (6, 6, "tensor_core_u8_u8_c1_7x7"),
        (5, 3, "tensor_core_u8_u8_c1_5x5"),
        (14, 15, "tensor_core_u8_u8_c1_15x15"),
        (17, 17, "tensor_core_u8_u8_c1"),
        (25, 25, "tensor_core_u8_u8_c1"),
    ] {
        assert_eq!(plan(Mask::average(width, height).unwrap()).0, symbol);
    }
}

/// What was the fastest on an H100 for images between 200 x 200 and 1280 x 720, where kernels whose threads do much
/// have too little to do.
#[test]
fn small_images_of_other_values_take_what_was_fastest() {
    use PixelType::{F32, U8, U16};
    let plan = |channels, pixel, (width, height), side| {
        let format = PixelFormat { channels, input: pixel, output: pixel };
        let problem = problem(width, height, side, side).with_format(format).unwrap();
        Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap()
    };
    let of = |channels, pixel, size, side| plan(channels, pixel, size, side).entry.symbol;
    let (tiny, small, medium, large) = ((200, 200), (512, 512), (800, 600), (1280, 720));
    // Said of kernels for any mask, too, and only where another one would be taken.
    let reason = plan(3, U8, tiny, 13).reason;
    assert!(reason.contains("too few pixels for tensor_core_u8: 120000 of 195360 values"), "{reason}");
    let reason = plan(3, U8, (256, 256), 11).reason;
    assert!(!reason.contains("too few"), "{reason}");
    for side in [3, 5, 7, 9, 11, 13] {
        assert_eq!(of(1, U8, tiny, side), "shared_tile_u8_c1");
        assert_eq!(of(1, U8, small, side), format!("tensor_core_u8_u8_c1_{side}x{side}"));
    }
    assert_eq!(of(3, U8, tiny, 7), "shared_tile_u8_c3");
    assert_eq!(of(3, U8, tiny, 9), "tensor_core_u8_u8_c3_9x9");
    assert_eq!(of(3, U8, tiny, 13), "shared_tile_u8_c3");
    assert_eq!(of(3, U8, small, 13), "tensor_core_u8_u8_c3");
    assert_eq!(of(1, U16, small, 3), "shared_tile_u16_c1");
    assert_eq!(of(1, U16, medium, 3), "constant_mask_u16_c1");
    assert_eq!(of(1, U16, large, 3), "sliding_window_u16_c1_3x3");
    assert_eq!(of(1, U16, small, 7), "shared_tile_u16_c1");
    assert_eq!(of(1, U16, medium, 7), "sliding_window_u16_c1_7x7");
    assert_eq!(of(3, F32, small, 3), "constant_mask_f32_c3");
    for side in [5, 7, 11] {
        assert_eq!(of(3, F32, tiny, side), "shared_tile_f32_c3");
        assert_eq!(of(3, F32, small, side), format!("sliding_window_f32_c3_{side}x{side}"));
    }
}

/// Images of one type and several channels, and what `auto` takes for each mask.
#[test]
fn other_values_take_the_sliding_window_where_it_can() {
    use PixelType::{F32, U8, U16};
    let of = |channels, input, output, width, height| {
        let format = PixelFormat { channels, input, output };
        direct(&problem(4096, 4096, width, height).with_format(format).unwrap(), Limits::H100).entry.symbol
    };
    assert_eq!(of(3, F32, F32, 9, 9), "sliding_window_f32_c3_9x9");
    assert_eq!(of(4, F32, F32, 11, 11), "sliding_window_f32_c4_11x11");
    assert_eq!(of(1, U16, U16, 3, 3), "sliding_window_u16_c1_3x3");
    assert_eq!(of(3, U16, F32, 7, 7), "sliding_window_u16_c3_7x7");
    // Floating point may be infinite, and zeros around a mask would make NaN of that.
    assert_eq!(of(3, F32, F32, 4, 4), "constant_mask_f32_c3");
    assert_eq!(of(3, F32, F32, 15, 14), "shared_tile_f32_c3");
    assert_eq!(of(1, U16, F32, 4, 4), "constant_mask_u16_c1");
    assert_eq!(of(1, U16, U8, 7, 7), "constant_mask_u16_c1");
    assert_eq!(of(2, U16, U16, 7, 7), "constant_mask_u16_c2");
    assert_eq!(of(4, U16, U16, 11, 11), "sliding_window_u16_c4_11x11");
    // Whole numbers can have them.
    assert_eq!(of(1, U16, U16, 2, 2), "sliding_window_u16_c1_3x3");
    assert_eq!(of(4, U16, U16, 6, 7), "sliding_window_u16_c4_7x7");
    assert_eq!(of(3, U8, U8, 8, 6), "tensor_core_u8_u8_c3_9x9");
    assert_eq!(of(1, U8, U8, 1, 9), "tensor_core_u8_u8_c1_9x9");
    // Too many zeros, and no square that is large enough.
    assert_eq!(of(1, U16, U16, 1, 11), "constant_mask_u16_c1");
    assert_eq!(of(1, U16, U16, 14, 16), "shared_tile_u16_c1");
}

/// The zeros stand where they change nothing: each coefficient meets the pixel that it met.
#[test]
fn zeros_around_a_mask_leave_it_in_its_place() {
    for (width, height, row, column, side) in
        [(2, 2, 1, 1, 3), (3, 3, 0, 0, 5), (3, 3, 2, 2, 5), (4, 1, 0, 3, 7), (1, 4, 0, 0, 5), (5, 5, 4, 2, 5)]
    {
        let coefficients: Vec<_> = (1..=width * height).map(|i| i as f32).collect();
        let filter = Filter::new(Mask::new(width, height, coefficients).unwrap())
            .operation(Operation::Correlate)
            .anchor(row, column);
        let format = PixelFormat { channels: 1, input: PixelType::U16, output: PixelType::U16 };
        let problem = Problem::new(4096, 4096, &filter).unwrap().with_format(format).unwrap();
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
        assert_eq!(plan.entry.mask, MaskSize::Square(side));
        assert_eq!((plan.params.mask_width, plan.params.mask_height), (side as i32, side as i32));
        let (found, side) = (plan.coefficients(&problem), side as usize);
        let (top, left) = (plan.params.origin_y as usize - row, plan.params.origin_x as usize - column);
        assert_eq!(left, (side - 1) / 2 - column);
        for (i, &value) in found.iter().enumerate() {
            let (k, l) = ((i / side).wrapping_sub(top), (i % side).wrapping_sub(left));
            let expected = if k < height && l < width { problem.window().at(k, l) } else { 0.0 };
            assert_eq!(value, expected, "{width} x {height} at {row}, {column}: coefficient {i}");
        }
        assert_eq!(found.len(), side * side);
        let padded = side != width || side != height;
        assert_eq!(plan.reason.contains("with zeros around it"), padded, "{}", plan.reason);
    }
}

#[test]
fn choices_have_names() {
    for choice in VariantChoice::all() {
        assert_eq!(choice.to_string().parse::<VariantChoice>().unwrap(), choice);
    }
    let error = "fastest".parse::<VariantChoice>().unwrap_err().to_string();
    assert!(error.contains("auto, naive,"), "{error}");
}

#[test]
fn every_layout_has_its_entry_and_rows_begin_at_sectors() {
    for (input, output) in PixelType::ALL.into_iter().flat_map(|a| PixelType::ALL.map(|b| (a, b))) {
        for channels in 1..=4 {
            let problem = problem(33, 7, 5, 3).with_format(PixelFormat { channels, input, output }).unwrap();
            let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
            assert_eq!((plan.entry.pixel, plan.entry.channels as usize), (input, channels));
            assert_eq!(plan.params.result_kind, output.code());
            for (pitch, bytes) in [(plan.params.src_pitch, input.bytes()), (plan.params.dst_pitch, output.bytes())] {
                assert!(pitch as usize >= 33 * channels && (pitch as usize * bytes).is_multiple_of(32));
            }
            let [launch] = plan.launches(7, 2..5).try_into().unwrap();
            assert_eq!((launch.params.first_row, launch.params.height), (2, 7));
            assert_eq!(launch.grid, ((33 * channels as u32).div_ceil(32), 1));
        }
    }
}

/// A plan of a variant for a box of 3 x 3, or for a mask that it takes.
fn of_ones(width: usize, height: usize, variant: Variant) -> Plan {
    let entry = variant.entries().next().unwrap();
    let plan = |mask: (u32, u32)| {
        let filter = Filter::new(Mask::average(mask.0 as usize, mask.1 as usize).unwrap());
        let mut problem = Problem::new(width, height, &filter).unwrap();
        if variant.entries().all(|entry| entry.pixel == PixelType::U8) {
            problem =
                problem.with_format(PixelFormat { channels: 1, input: PixelType::U8, output: PixelType::U8 }).unwrap();
        }
        Plan::new(&problem, Limits::H100, VariantChoice::Named(variant))
    };
    plan((3, 3)).or_else(|_| plan(entry.example_mask())).unwrap()
}

#[test]
fn launches_cover_every_row_once() {
    for height in [1, 15, 16, 17, 65_535 * 8, 65_535 * 16, 65_535 * 16 + 1, 3_000_000] {
        for variant in Variant::ALL.into_iter().filter(|variant| !variant.partitions_rows()) {
            let plan = of_ones(33, height, variant);
            let (columns, rows) = plan.entry.outputs();
            let mut next = 0;
            for launch in plan.launches(height, 0..height) {
                assert_eq!(launch.params.first_row as usize, next);
                assert!((1..=MAX_GRID_Y).contains(&launch.grid.1) && launch.grid.0 == 33_u32.div_ceil(columns));
                next += launch.grid.1 as usize * rows as usize;
            }
            assert!((height..height + rows as usize).contains(&next), "{height} rows, {variant:?}");
        }
    }
}

#[test]
fn grids_partition_the_rows() {
    for variant in Variant::ALL.into_iter().filter(|variant| variant.partitions_rows()) {
        for height in [1, 7, 8, 9, 200, 8192, 3_000_000] {
            for first in [0, height / 3] {
                let plan = of_ones(33, height, variant);
                let [launch] = plan.launches(height, first..height).try_into().unwrap();
                let (rows, strips) = ((height - first) as u32, launch.grid.1);
                assert_eq!(launch.params.first_row as usize, first);
                // As the kernels share them out: none is empty.
                let Grid::Partition(grid) = variant.spec().grid else { panic!("{variant:?} has tiles") };
                let (begin, _) = match grid.block_row_alignment {
                    1 => partition::<1>(rows, strips - 1, strips),
                    32 => partition::<32>(rows, strips - 1, strips),
                    64 => partition::<64>(rows, strips - 1, strips),
                    step => panic!("a partition in steps of {step} rows"),
                };
                assert!(begin < rows, "{variant:?}: {strips} strips of {rows} rows");
            }
        }
        assert!(of_ones(33, 9, variant).launches(9, 4..4).is_empty());
    }
    // As measured: 132 multiprocessors of 32 blocks, over 64 strips side by side.
    let [launch] = of_ones(8192, 8192, Variant::SlidingWindow).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!(launch.grid, (64, 66));
    let [launch] = of_ones(8192, 8192, Variant::SeparableRing).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!(launch.grid, (33, 64));
    let [launch] = of_ones(8192, 8192, Variant::SeparableBlockTile).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!((launch.grid, launch.block), ((16, 8), (512, 1)));
}

/// Gaussians and other large masks of images that no fast kernel takes go through planes. Integers stay exact.
#[test]
fn other_formats_take_the_fast_kernels_through_planes() {
    let gaussian = |format, accuracy| {
        let filter = Filter::gaussian(3.0).accuracy(accuracy);
        let problem = Problem::new(2048, 1024, &filter).unwrap().with_format(format).unwrap();
        Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap()
    };
    let rgb = PixelFormat::of::<u8, f32>(3);
    let plan = gaussian(rgb, Accuracy::Bounded);
    assert_eq!((Accuracy::of(plan.entry.variant), plan.planes.is_some()), (Accuracy::Bounded, true), "{}", plan.reason);
    assert!(plan.reason.contains("plane of f32"), "{}", plan.reason);
    assert_eq!(Accuracy::of(gaussian(rgb, Accuracy::Exact).entry.variant), Accuracy::Exact);
    let back = gaussian(PixelFormat::of::<f32, u8>(3), Accuracy::Bounded);
    assert_eq!((Accuracy::of(back.entry.variant), back.planes.is_some()), (Accuracy::Exact, true), "{}", back.reason);
    // A plane of f32 needs none, and a small mask or a small image does not pay for them.
    assert!(gaussian(PixelFormat::PLANE, Accuracy::Bounded).planes.is_none());
    let is_direct = |width, height, side| {
        let problem = problem(width, height, side, side).with_format(rgb).unwrap();
        Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap().planes.is_none()
    };
    assert!(is_direct(2048, 1024, 3) && is_direct(40, 30, 9) && !is_direct(2048, 1024, 9));
    // Neither does what was asked for by name.
    let problem = problem(2048, 1024, 9, 9).with_format(rgb).unwrap();
    let named = Plan::new(&problem, Limits::H100, VariantChoice::Named(Variant::SharedTile)).unwrap();
    assert!(named.planes.is_none() && named.entry.channels == 3);
}
