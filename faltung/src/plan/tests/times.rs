//! The predicted times.

use kernels_gpu::registry::entries;

use super::*;
use crate::plan::cost::{self, Costs};

/// Of kernels that differ in nothing but the model's time, the faster one is taken; one that is not bit-exact or needs
/// planes must be faster by more.
#[test]
fn the_cheapest_is_taken() {
    let rgb =
        Problem::new(512, 512, &Filter::gaussian(1.0)).unwrap().with_format(PixelFormat::of::<u8, f32>(3)).unwrap();
    let (one, all) = (Costs::h100(), |us: f64| Terms::from([us; cost::TERMS.len()]));
    let with = |own: &[(&str, f64)], format_is_rgb: bool| {
        let mut kernel: std::collections::HashMap<_, _> =
            one.kernel.keys().map(|symbol| (symbol.clone(), all(1e6))).collect();
        kernel.extend(own.iter().map(|&(symbol, us)| {
            let mut terms = all(0.0);
            terms[0] = us;
            (symbol.to_owned(), terms)
        }));
        let limits = Limits { costs: Some(Box::leak(Box::new(Costs { kernel, ..one.clone() }))), ..Limits::H100 };
        let plane = Problem::new(512, 512, &Filter::gaussian(1.0)).unwrap();
        let plan = Plan::new(if format_is_rgb { &rgb } else { &plane }, limits, VariantChoice::Auto).unwrap();
        (plan.entry.symbol, plan.predicted_us())
    };
    let (exact, bounded) = ("naive_f32_c1", "separable_ring_f32_c1");
    assert_eq!(with(&[(exact, 100.0), (bounded, 96.0)], false).0, exact);
    assert_eq!(with(&[(exact, 100.0), (bounded, 95.0)], false).0, bounded);
    // Three planes, and two conversions.
    let (direct, planes) = ("naive_u8_c3", "register_tile_f32_c1");
    assert_eq!(with(&[(direct, 100.0), (planes, 20.0), (cost::CONVERSION, 18.0)], true), (direct, 100.0));
    assert_eq!(with(&[(direct, 100.0), (planes, 20.0), (cost::CONVERSION, 17.0)], true), (planes, 94.0));
    // A kernel that nobody measured is taken by its name alone.
    let unknown = Costs { kernel: std::collections::HashMap::new(), ..one.clone() };
    let limits = Limits { costs: Some(Box::leak(Box::new(unknown))), ..Limits::H100 };
    let plan = Plan::new(&rgb, limits, VariantChoice::Named(Variant::SharedTile)).unwrap();
    assert_eq!((plan.entry.symbol, plan.predicted_us()), ("shared_tile_u8_c3", f64::INFINITY));
}

/// Times scale with the clock and with the bandwidth of the memory.
#[test]
fn other_devices_are_scaled() {
    let predicted = |limits| Plan::new(&problem(4096, 4096, 3, 3), limits, VariantChoice::Auto).unwrap().predicted_us();
    let own = predicted(Limits::H100);
    let half = Limits { clock_mhz: 990, memory_gb_s: Limits::H100.memory_gb_s / 2, ..Limits::H100 };
    assert!((1.8..=2.0).contains(&(predicted(half) / own)), "{} and {own}", predicted(half));
    assert!(predicted(Limits { memory_gb_s: 2 * Limits::H100.memory_gb_s, ..Limits::H100 }) < 0.95 * own);
    // A driver that says nothing.
    assert!(predicted(Limits { clock_mhz: 0, memory_gb_s: 0, ..Limits::H100 }).is_finite());
}

/// Each kernel was measured.
#[test]
fn the_costs_that_ship_know_all_kernels() {
    for costs in Costs::shipped() {
        for symbol in entries().map(|entry| entry.symbol).chain([cost::CONVERSION, cost::PROOF]) {
            let found = costs.kernel.get(symbol).unwrap_or_else(|| panic!("{}: {symbol}", costs.device));
            assert!(found.iter().any(|&coefficient| coefficient > 0.0), "{}: {symbol}", costs.device);
        }
    }
}

/// A device has the coefficients that were measured on its own model. Other models have those of the H100.
#[test]
fn devices_have_the_costs_of_their_model() {
    let device = |name| &*Costs::shipped_for(name).device;
    for name in ["NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA H200 MIG 3g.71gb"] {
        assert_eq!(device(name), "NVIDIA H200");
    }
    for name in ["NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA H20", ""] {
        assert_eq!(device(name), "NVIDIA H100 80GB HBM3");
    }
}

/// The memory of an H200 is 1.4 times as fast as that of an H100, but `separable_ring` takes 0.88 of the time there.
/// Only the H200's own coefficients tell that another kernel is faster.
#[test]
fn an_h200_has_its_own_choices() {
    let h200 = Limits { memory_gb_s: 4814, ..Limits::H100 };
    let problem = Problem::new(8192, 8192, &Filter::new(Mask::average(3, 3).unwrap())).unwrap();
    let chosen = |costs| {
        let plan = Plan::new(&problem, Limits { costs, ..h200 }, VariantChoice::Auto).unwrap();
        (plan.entry.variant, plan.predicted_us())
    };
    let (variant, us) = chosen(Some(Costs::shipped_for("NVIDIA H200")));
    assert!(variant != Variant::SeparableRing && (145.0..175.0).contains(&us), "{variant:?} {us}");
    assert_eq!(chosen(None).0, Variant::SeparableRing);
}

/// The fit finds the coefficients that made the times, and does not follow a few odd ones.
#[test]
fn the_fit_finds_the_coefficients() {
    let mut made = Terms::default();
    (made[0], made[4], made[10]) = (3.0, 0.25, 0.0);
    let mut random = fastrand::Rng::with_seed(1);
    let mut times: Vec<(Terms, f64)> = (0..60)
        .map(|_| {
            let mut terms = Terms::default();
            (terms[0], terms[4], terms[10]) = (1.0, 500.0 * random.f64(), 10.0 * random.f64());
            (terms, terms.iter().zip(&made).map(|(a, b)| a * b).sum())
        })
        .collect();
    let near = |found: Terms, by: f64| {
        let pairs = found.iter().zip(&made);
        assert!(pairs.clone().all(|(a, b)| (a - b).abs() <= by), "{found:?}");
    };
    near(cost::fit(&times), 1e-6);
    times[7].1 *= 3.0;
    times[20].1 /= 3.0;
    near(cost::fit(&times), 0.2);
}
