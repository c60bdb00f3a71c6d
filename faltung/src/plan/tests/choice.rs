//! Which kernel a problem gets.

#[cfg(feature = "cuda")]
use kernels_gpu::registry::entries;

use super::cost::Costs;
use super::*;

#[test]
fn the_size_of_image_and_mask_decides() {
    let dense = |side, width, height| taken(side, Filter::new(mask(width, height)));
    for side in [3, 7, 15, 31] {
        assert_eq!(dense(200, side, side), Variant::SharedTileAsync, "{side}");
        let of_large = if side < 15 { Variant::SlidingWindow } else { Variant::FftTile };
        assert_eq!(dense(4096, side, side), of_large, "{side}");
        let filter = Filter::new(mask(side, side)).accuracy(Accuracy::Exact);
        assert_eq!(taken(4096, filter), Variant::SlidingWindow, "{side}");
    }
    for side in [8, 12] {
        assert_eq!(dense(4096, side, side), Variant::SlidingWindow, "{side}");
    }
    assert_eq!(dense(4096, 16, 16), Variant::FftTile);
    assert_eq!(dense(4096, 7, 8), Variant::RegisterTile);
    let of_tile = [(22, 22), (45, 45)].map(|size| (size, Variant::FftTile));
    let of_passes = [(65, 65), (127, 127), (150, 31)].map(|size| (size, Variant::FftPasses));
    for ((width, height), variant) in of_tile.into_iter().chain(of_passes) {
        assert_eq!(dense(4096, width, height), variant, "{width} x {height}");
        let filter = Filter::new(mask(width, height)).accuracy(Accuracy::Exact);
        assert_eq!(taken(4096, filter), Variant::RegisterTile, "{width} x {height}");
    }
    assert_eq!(dense(4096, 512, 512), Variant::FftPasses);
    assert_eq!(dense(4096, 513, 31), Variant::RegisterTile);
    // Of few coefficients transforms would prove little. So of many of which few are not 0.
    let mut values = vec![0.0; 31 * 29];
    values.iter_mut().step_by(32).for_each(|value| *value = 1.0);
    assert_eq!(taken(4096, Filter::new(Mask::new(31, 29, values).unwrap())), Variant::RegisterTile);
    assert_eq!(dense(100, 14, 16), Variant::SharedTile);
    // A mask that constant memory does not hold.
    assert!(!dense(100, 129, 128).reads_constant_memory());
    // Without the copies of compute capability 8.0.
    let old = Limits { compute_capability: (7, 5), ..Limits::H100 };
    let plan = Plan::new(&problem(200, 200, 13, 13), old, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.variant, Variant::SharedTile);
    assert!(plan.reason.contains("not shared_tile_async: made for compute capability 8.0"), "{}", plan.reason);
    // Zeros around masks of f32 could change a result: no other square takes this mask.
    let results = PixelFormat { output: PixelType::U8, ..PixelFormat::PLANE };
    let plan = Plan::new(&problem(512, 512, 7, 7).with_format(results).unwrap(), Limits::H100, VariantChoice::Auto);
    let refusals: Vec<_> = plan.unwrap().considered.iter().filter_map(|one| one.answer.err()).collect();
    let required: &[_] = &[PixelType::F32];
    assert!(refusals.contains(&Ineligible::Result { required, found: PixelType::U8 }), "{refusals:?}");
}

#[test]
fn separable_masks_take_two_passes_unless_exact() {
    let boxes = |side, width, height, accuracy| {
        taken(side, Filter::new(Mask::average(width, height).unwrap()).accuracy(accuracy))
    };
    for side in [9, 15, 21, 31, 63, 127, 131] {
        for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
            let variant = boxes(4096, side, side, accuracy);
            assert_eq!(Accuracy::of(variant), Accuracy::Bounded, "{side}: {variant:?}");
        }
        assert_eq!(Accuracy::of(boxes(4096, side, side, Accuracy::Exact)), Accuracy::Exact);
    }
    // The tensor cores take masks of many rows, and no more than 129 of them. Above, transforms are faster.
    assert_eq!(boxes(4096, 9, 9, Accuracy::Bounded), Variant::SeparableBlockTile);
    assert_eq!(boxes(4096, 63, 63, Accuracy::Bounded), Variant::SeparableTensorCore);
    assert_eq!(boxes(4096, 131, 131, Accuracy::Bounded), Variant::FftPasses);
    // Memory limits both for the smallest: a gain of a few per cent is not worth another accuracy.
    assert_eq!(boxes(4096, 3, 3, Accuracy::Bounded), Variant::SlidingWindow);
    let turing = Limits { compute_capability: (7, 5), ..Limits::H100 };
    let filter = Filter::new(Mask::average(15, 15).unwrap());
    let plan = Plan::new(&Problem::new(8192, 8192, &filter).unwrap(), turing, VariantChoice::Auto).unwrap();
    assert_eq!(plan.entry.variant, Variant::SeparableRing);
    // Off by four times what the contract allows, in one coefficient.
    let almost = |by: f32| {
        let mut values = Mask::average(9, 9).unwrap().coefficients().to_vec();
        values[40] *= 1.0 + by;
        Accuracy::of(taken(4096, Filter::new(Mask::new(9, 9, values).unwrap())))
    };
    assert_eq!(almost(4.0 * Mask::SEPARABLE), Accuracy::Exact);
    assert_eq!(almost(0.25 * Mask::SEPARABLE), Accuracy::Bounded);
    // A window that begins at an odd column, so that its 65 columns are spread over ten blocks.
    let tensor_core = VariantChoice::Named(Variant::SeparableTensorCore);
    let of_anchor = |column| {
        let filter = Filter::new(Mask::average(65, 65).unwrap()).anchor(32, column);
        planned(&Problem::new(4096, 4096, &filter).unwrap(), tensor_core)
    };
    assert_eq!(of_anchor(32), "separable_tensor_core_f32_c1_blocks_9");
    assert_eq!(of_anchor(33), "separable_tensor_core_f32_c1_blocks_13");
    let problem = Problem::new(4096, 4096, &Filter::new(Mask::average(127, 127).unwrap())).unwrap();
    let plan = Plan::new(&problem, Limits::H100, tensor_core).unwrap();
    assert_eq!(plan.bound(&problem).gamma(), ErrorBound::with_constant(828.0).gamma());
}

/// Bytes have a kernel of their own, for devices, borders and results that suit it.
#[test]
fn bytes_take_the_tensor_cores_where_they_can() {
    let plan = |channels, output, border, limits| {
        let filter = Filter::new(mask(7, 7)).border(border);
        let problem = Problem::new(1920, 1080, &filter).unwrap();
        let problem = problem.with_format(PixelFormat { channels, input: PixelType::U8, output }).unwrap();
        Plan::new(&problem, limits, VariantChoice::Auto).unwrap()
    };
    let why_not = |plan: &Plan| {
        let mut of_variant = plan.considered.iter().filter(|one| one.entry.symbol.ends_with("c1_7x7"));
        of_variant.find(|one| one.entry.variant == Variant::TensorCoreU8).unwrap().answer.unwrap_err().to_string()
    };
    for channels in [1, 3, 4] {
        for border in [Border::ZERO, Border::Wrap, Border::Constant(255.0)] {
            assert_eq!(plan(channels, PixelType::U8, border, Limits::H100).entry.variant, Variant::TensorCoreU8);
        }
    }
    let floats = plan(1, PixelType::F32, Border::ZERO, Limits::H100);
    assert!(why_not(&floats).contains("makes results of u8, not f32"));
    for value in [0.5, -1.0, 256.0] {
        let found = plan(1, PixelType::U8, Border::Constant(value), Limits::H100);
        assert_ne!(found.entry.variant, Variant::TensorCoreU8);
        let why = format!("a constant border must be a whole number from 0 to 255, not {value}");
        assert!(found.reason.contains(&why), "{}", found.reason);
    }
    let turing = plan(1, PixelType::U8, Border::ZERO, Limits { compute_capability: (7, 5), ..Limits::H100 });
    let why = "made for compute capability 8.0 or later, the device has 7.5";
    assert!(turing.reason.contains(why), "{}", turing.reason);
    for compute_capability in [(8, 0), (8, 6), (12, 1)] {
        let newer = Limits { compute_capability, ..Limits::H100 };
        assert_eq!(plan(1, PixelType::U8, Border::ZERO, newer).entry.variant, Variant::TensorCoreU8);
    }
    // Every sum has a half behind the point in every other case. The error of separable sums adds a hundredth.
    let halves = Filter::new(Mask::new(5, 5, vec![0.5; 25]).unwrap());
    let problem = Problem::new(1920, 1080, &halves).unwrap().with_format(PixelFormat::of::<u8, u8>(3)).unwrap();
    let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
    assert!(!matches!(plan.entry.variant, Variant::TensorCoreU8 | Variant::SeparableU8), "{}", plan.reason);
    assert!(plan.reason.contains("required 0 to 0.1, found 0.5"), "{}", plan.reason);
    let answers: Vec<_> =
        plan.considered.iter().filter_map(|one| one.answer.err()).map(|why| why.to_string()).collect();
    for why in ["required 0 to 0.1, found 0.5", "about 51 % of the results would be recomputed in order"] {
        assert!(answers.iter().any(|answer| answer.contains(why)), "{answers:?}");
    }
}

/// Floating point may be infinite, and zeros around a mask would make NaN of that. Whole numbers can have them.
#[test]
fn only_whole_numbers_take_a_larger_square() {
    let of = |format, width, height| {
        let problem = problem(4096, 4096, width, height).with_format(format).unwrap();
        Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap().considered
    };
    let takes = |considered: &[Considered], side| {
        let of_side = |one: &&Considered| one.entry.side() == side && !one.in_planes;
        considered.iter().filter(of_side).any(|one| one.answer.is_ok())
    };
    let (floats, whole) = (of(PixelFormat::of::<f32, f32>(3), 4, 4), of(PixelFormat::of::<u16, u16>(3), 4, 4));
    assert!(!takes(&floats, 5) && takes(&whole, 5) && takes(&whole, 9) && !takes(&whole, 3));
    assert!(!takes(&of(PixelFormat::of::<u16, f32>(1), 4, 4), 5));
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

/// A Gaussian on a large image: `f32` takes a separable variant unless exact bits are asked for, integers only in the
/// class Normwise.
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
    // Transforms that need no proof are taken where they are a little faster.
    let dense = |accuracy| {
        let filter = Filter::new(mask(13, 13)).accuracy(accuracy);
        let problem = Problem::new(4096, 4096, &filter).unwrap();
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
        (plan.entry.variant, plan.bound(&problem).to_string())
    };
    assert_eq!(dense(Bounded), (Variant::SlidingWindow, "exact".into()));
    assert_eq!(dense(Normwise), (Variant::FftTile, "normwise (c = 85)".into()));
    assert_eq!(plan(Exact, PixelType::F32), (Variant::SlidingWindow, Exact));
    for accuracy in [Bounded, Normwise] {
        assert_eq!(plan(accuracy, PixelType::F32), (Variant::SeparableBlockTile, Bounded));
    }
    for accuracy in [Exact, Bounded] {
        assert_eq!(plan(accuracy, PixelType::U8), (Variant::SeparableTensorCoreU8, Exact));
        assert_eq!(plan(accuracy, PixelType::U16), (Variant::SlidingWindow, Exact));
    }
    assert_eq!(plan(Normwise, PixelType::U16), (Variant::SeparableBlockTile, Bounded));
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
        "made for square masks of side 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, \
         27, 29, 31; this one is 8 x 6"
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

#[test]
fn choices_have_names() {
    for choice in VariantChoice::all() {
        assert_eq!(choice.to_string().parse::<VariantChoice>().unwrap(), choice);
    }
    let error = "fastest".parse::<VariantChoice>().unwrap_err().to_string();
    assert!(error.contains("auto, naive,"), "{error}");
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
    assert_eq!((plan.entry.variant, plan.planes.is_some()), (Variant::SeparableTensorCore, true), "{}", plan.reason);
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

/// A kernel for interleaved channels whose costs are known is taken where planes would take longer.
#[test]
fn transforms_of_channels_are_taken_once_they_are_measured() {
    let mut costs = Costs::h100().clone();
    let of_plane = costs.kernel["fft_tile_f32_c1"];
    let chosen = |costs: &Costs, channels: usize| {
        let limits = Limits { costs: Some(Box::leak(Box::new(costs.clone()))), ..Limits::H100 };
        let format = PixelFormat { channels, ..PixelFormat::PLANE };
        let problem = problem(4096, 4096, 31, 31).with_format(format).unwrap();
        let plan = Plan::new(&problem, limits, VariantChoice::Auto).unwrap();
        (plan.entry.symbol, plan.planes.is_some())
    };
    for channels in 2..=4 {
        let symbol = format!("fft_tile_f32_c{channels}");
        costs.kernel.remove(&symbol);
        assert_eq!(chosen(&costs, channels), ("fft_tile_f32_c1", true));
        costs.kernel.insert(symbol.clone(), of_plane);
        assert_eq!(chosen(&costs, channels), (symbol.as_str(), false));
    }
}

/// Transforms hold the sums of a mask as `f32`. Where these are infinite, no result could be proven.
#[test]
fn transforms_refuse_masks_whose_sums_overflow() {
    // Of both signs, so that only the sum of the magnitudes overflows; and of one sign.
    let both = |largest: f32| {
        let mut random = fastrand::Rng::with_seed(5);
        Mask::new(40, 40, (0..40 * 40).map(|_| (2.0 * random.f32() - 1.0) * largest).collect()).unwrap()
    };
    let constant = |value: f32| Mask::new(41, 41, vec![value; 41 * 41]).unwrap();
    let of = |mask: &Mask, accuracy, choice| {
        let filter = Filter::new(mask.clone()).accuracy(accuracy).border(Border::Mirror);
        Plan::new(&Problem::new(4096, 4096, &filter).unwrap(), Limits::H100, choice)
    };
    for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
        for mask in [both(1e36), constant(1e37), constant(f32::NAN), constant(f32::INFINITY)] {
            let plan = of(&mask, accuracy, VariantChoice::Auto).unwrap();
            assert!(plan.entry.variant.is_exact(), "{}", plan.reason);
            for variant in [Variant::FftTile, Variant::FftPasses] {
                let refused = of(&mask, accuracy, VariantChoice::Named(variant)).unwrap_err().to_string();
                assert!(refused.contains("must be finite as f32"), "{refused}");
            }
        }
        // Just below the limit.
        for mask in [both(1e35), constant(2e35)] {
            let plan = of(&mask, accuracy, VariantChoice::Named(Variant::FftTile)).unwrap();
            let problem = Problem::new(4096, 4096, &Filter::new(mask).accuracy(accuracy)).unwrap();
            assert!(plan.coefficients(&problem).iter().all(|value| value.is_finite()));
        }
    }
}

/// With a large column the row pass would lose digits of small pixels. Whole numbers are not small.
#[test]
fn large_separable_masks_take_one_pass() {
    let filter = Filter::new(Mask::new(9, 9, vec![1e30; 81]).unwrap());
    let problem = Problem::new(4096, 4096, &filter).unwrap();
    let plan = |problem: &Problem, choice| Plan::new(problem, Limits::H100, choice);
    let floats = plan(&problem, VariantChoice::Auto).unwrap();
    assert!(floats.entry.variant.is_exact(), "{}", floats.reason);
    for variant in [Variant::SeparableRing, Variant::SeparableBlockTile] {
        let refused = plan(&problem, VariantChoice::Named(variant)).unwrap_err().to_string();
        assert!(refused.contains("the sum of the magnitudes of the column factor"), "{refused}");
    }
    let bytes = problem.with_format(PixelFormat::of::<u8, f32>(1)).unwrap();
    let entry = Variant::SeparableRing.entries().next().unwrap();
    let bytes = plan(&bytes, VariantChoice::Kernel { entry, in_planes: true }).unwrap();
    assert!(bytes.planes.is_some() && bytes.factors.is_some(), "{}", bytes.reason);
}
