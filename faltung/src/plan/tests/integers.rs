//! Integers by kernels that are not bit-exact.

use super::*;
use crate::Accuracy;

/// A plan for an image of `channels` channels of `kind`.
fn plan(kind: PixelType, channels: usize, side: usize, filter: &Filter) -> Plan {
    let format = PixelFormat { channels, input: kind, output: kind };
    let problem = Problem::new(side, side, filter).unwrap().with_format(format).unwrap();
    let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
    assert_eq!(plan.bound(&problem).class(), Accuracy::Exact, "{}", plan.reason);
    plan
}

fn gaussian(radius: usize) -> Filter {
    Filter::new(Mask::gaussian(radius as f64 / 3.0, Some(radius)).unwrap())
}

/// Separable masks of bytes have kernels that prove their own results.
#[test]
fn separable_masks_of_bytes_are_proven() {
    // Its results may leave 0 to 255.
    let inverted = gaussian(13).scale(-1.0).offset(255.0);
    for (channels, filter, variant) in [
        (1, gaussian(16), Variant::SeparableTensorCoreU8),
        (2, gaussian(15), Variant::SeparableU8),
        (3, gaussian(13), Variant::SeparableTensorCoreU8),
        (3, inverted, Variant::SeparableU8),
        (4, gaussian(12), Variant::SeparableTensorCoreU8),
    ] {
        for accuracy in [Accuracy::Exact, Accuracy::Bounded] {
            let plan = plan(PixelType::U8, channels, 4096, &filter.clone().accuracy(accuracy));
            assert_eq!((plan.entry.variant, plan.proof.is_some()), (variant, false), "{}", plan.reason);
            assert!(plan.reason.contains("% of the pixels recomputed in order"), "{}", plan.reason);
        }
    }
}

/// Large masks of bytes take kernels of class Bounded through planes, also where the class Exact is asked for.
#[test]
fn large_masks_of_bytes_are_proven() {
    let dense = Filter::new(mask(63, 63).normalized().unwrap());
    for (channels, filter) in [(1, gaussian(34)), (3, gaussian(34)), (3, dense)] {
        for accuracy in [Accuracy::Exact, Accuracy::Bounded] {
            let plan = plan(PixelType::U8, channels, 4096, &filter.clone().accuracy(accuracy));
            assert!(!plan.entry.variant.is_exact(), "{channels}: {}", plan.reason);
            let proof = plan.proof.unwrap();
            assert!(proof.uncertain > 0.001 && proof.uncertain < 0.08, "{}", proof.uncertain);
            assert_eq!((proof.conversion.pixel, proof.conversion.channels as usize), (PixelType::U8, channels));
            assert!(plan.reason.contains("% of the values recomputed in order"), "{}", plan.reason);
        }
    }
}

/// Small masks and small images have faster kernels; words have too few digits behind the point; without a scale there
/// is no proof.
#[test]
fn other_integers_keep_exact_kernels() {
    let of = |kind, side, filter: &Filter| plan(kind, 3, side, filter);
    let wide = gaussian(31);
    let plans = [
        of(PixelType::U8, 4096, &gaussian(3)),
        of(PixelType::U8, 60, &wide),
        of(PixelType::U16, 4096, &wide),
        of(PixelType::U8, 4096, &wide.clone().scale(0.0)),
        of(PixelType::U8, 4096, &wide.border(Border::Constant(0.5))),
    ];
    for plan in plans {
        assert!(plan.proof.is_none() && plan.entry.variant.is_exact(), "{}", plan.reason);
    }
}

/// In the class Normwise large masks take the fastest kernel through planes, and nothing is proven: also for words,
/// without a scale, with a border between two integers, and for images and results of different types.
#[test]
fn integers_of_the_class_normwise_need_no_proof() {
    let dense = Filter::new(mask(63, 63).normalized().unwrap());
    let wide = gaussian(31);
    let between = wide.clone().border(Border::Constant(0.5));
    for filter in [dense, wide.clone(), wide.scale(0.0), between] {
        for (input, output) in [(PixelType::U16, PixelType::U16), (PixelType::U8, PixelType::U16)] {
            let filter = filter.clone().accuracy(Accuracy::Normwise);
            let format = PixelFormat { channels: 3, input, output };
            let problem = Problem::new(4096, 4096, &filter).unwrap().with_format(format).unwrap();
            let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
            assert!(!plan.entry.variant.is_exact() && plan.planes.is_some(), "{}", plan.reason);
            assert!(plan.proof.is_none() && plan.proof_terms.is_none(), "{}", plan.reason);
            let is_separable = plan.factors.is_some();
            let kept = if is_separable { Accuracy::Bounded } else { Accuracy::Normwise };
            assert_eq!(plan.bound(&problem).class(), kept, "{}", plan.reason);
        }
    }
}

/// A kernel that nothing proves is refused, and says why.
#[test]
fn a_kernel_without_a_proof_is_refused() {
    let ring = Variant::SeparableRing.entries().next().unwrap();
    let choice = VariantChoice::Kernel { entry: ring, in_planes: true };
    let refusal = |kind, filter: &Filter| {
        let format = PixelFormat { channels: 3, input: kind, output: kind };
        let problem = Problem::new(300, 300, filter).unwrap().with_format(format).unwrap();
        Plan::new(&problem, Limits::H100, choice).map(|_| ()).unwrap_err().to_string()
    };
    let words = refusal(PixelType::U16, &gaussian(31));
    assert!(words.contains("% of the results would be recomputed in order, at most 25 % may be"), "{words}");
    let scale = refusal(PixelType::U8, &gaussian(31).scale(0.0));
    assert!(scale.contains("the scale must not be 0"), "{scale}");
}
