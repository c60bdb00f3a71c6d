//! The separable kernels for bytes in the tensor cores, against the CPU's ordered sums, bit for bit.

use kernels_gpu::registry::{Entry, Variant};

use super::proven::{BORDERS, bytes, differing, filter_is_bandable, ordered, run, separable};
use super::*;
use crate::{Accuracy, Border, Filter, Mask, PixelFormat};

const BYTES: PixelType = PixelType::U8;

fn entries() -> impl Iterator<Item = &'static Entry> + Clone {
    Variant::SeparableTensorCoreU8.entries()
}

fn planned(problem: &Problem, entry: &'static Entry) -> Plan {
    let plan = Plan::new(problem, LIMITS, VariantChoice::Kernel { entry, in_planes: false }).unwrap();
    assert_eq!(plan.bound(problem).class(), Accuracy::Exact);
    plan
}

fn problem(filter: &Filter, (width, height): (usize, usize), channels: usize) -> Problem {
    let format = PixelFormat { channels, input: BYTES, output: BYTES };
    Problem::new(width, height, filter).unwrap().with_format(format).unwrap()
}

fn noise(problem: &Problem, random: &mut fastrand::Rng) -> Vec<u8> {
    bytes(BYTES, (0..problem.values()).map(|_| random.u16(..)))
}

/// All entries, with masks of their size and smaller ones, borders, anchors and scales, on images of all shapes.
#[test]
fn bytes_have_the_bits_of_ordered_sums() {
    let seed = 101;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (number, one) in entries().cycle().take(90).enumerate() {
        let (channels, side) = (one.channels as usize, one.side() as usize);
        let (columns, rows) =
            if number.is_multiple_of(3) { (side, side) } else { (random.usize(6..=side), random.usize(6..=side)) };
        let mask = separable(columns, rows, true, &mut random);
        let filter = Filter::new(mask).border(BORDERS[random.usize(..6)]);
        // The output must be in the middle column of the square, with room on both sides.
        let reach = (side - 1) / 2;
        let column = random.usize(columns.saturating_sub(reach + 1)..=reach.min(columns - 1));
        let filter = if random.bool() { filter.anchor(random.usize(..rows), column) } else { filter };
        let filter = if random.bool() { filter.scale(0.9).offset(20.25) } else { filter };
        let blocks = 128 / if channels == 1 { 1 } else { 2 };
        let size = match number % 4 {
            0 => (1 + random.usize(..40), 1 + random.usize(..70)),
            1 => (2 * blocks + random.usize(..3) - 1, 63 + random.usize(..3)),
            2 => (4 * blocks + random.usize(..17), 30),
            _ => (blocks / 2 + random.usize(..20), 128 + random.usize(..20)),
        };
        let problem = problem(&filter, size, channels);
        let source = noise(&problem, &mut random);
        let found = run(&problem, planned(&problem, one), &source, usize::MAX, None);
        let wrong = differing(&found, &ordered(&problem, &source), BYTES);
        assert_eq!(wrong, 0, "{number}: {size:?}, {columns} x {rows}, {}, {problem:?}", one.symbol);
    }
}

/// Brightest and darkest pixels, where sums are at their ends.
#[test]
fn extremes_have_the_bits_of_ordered_sums() {
    let mut random = fastrand::Rng::with_seed(102);
    for one in entries() {
        let side = one.side() as usize;
        for mask in [Mask::average(side, side).unwrap(), separable(side, side, true, &mut random)] {
            let filter = Filter::new(mask).border(Border::Constant(255.0));
            let problem = problem(&filter, (150, 70), one.channels as usize);
            for kind in ["white", "stripes", "black"] {
                let pixel = |i: usize| match kind {
                    "white" => 255,
                    "stripes" => 255 * u16::from((i / 40).is_multiple_of(2)),
                    _ => 0,
                };
                let source = bytes(BYTES, (0..problem.values()).map(pixel));
                let found = run(&problem, planned(&problem, one), &source, usize::MAX, None);
                assert_eq!(differing(&found, &ordered(&problem, &source), BYTES), 0, "{}, {kind}", one.symbol);
            }
        }
    }
}

/// Nothing depends on what is certain: if no value is, the lists overflow, and all values are computed again.
#[test]
fn lists_may_overflow() {
    let mut random = fastrand::Rng::with_seed(104);
    for channels in [1, 3, 4] {
        let filter = Filter::new(separable(13, 13, true, &mut random)).border(Border::Wrap);
        let problem = problem(&filter, (150, 70), channels);
        let source = noise(&problem, &mut random);
        let one = entries().find(|entry| entry.channels as usize == channels).unwrap();
        let mut plan = planned(&problem, one);
        plan.separable_fixed_point = plan.separable_fixed_point.map(|fixed| fixed.with_radius((1 << 23) - 1));
        let found = run(&problem, plan, &source, usize::MAX, None);
        assert_eq!(differing(&found, &ordered(&problem, &source), BYTES), 0, "{channels} channels");
    }
}

/// In bands and in strips results are those of the whole image.
#[test]
fn bands_and_strips_are_the_whole() {
    let mut random = fastrand::Rng::with_seed(103);
    for (number, one) in entries().enumerate() {
        let side = one.side() as usize;
        let filter = Filter::new(separable(side, side - 4, true, &mut random)).border(BORDERS[number % 6]);
        let problem = problem(&filter, (70 + number, 150), one.channels as usize);
        let (source, plan) = (noise(&problem, &mut random), planned(&problem, one));
        let right = ordered(&problem, &source);
        let found = run(&problem, plan.clone(), &source, 100 * problem.row_values() * 2, None);
        assert_eq!(differing(&found, &right, BYTES), 0, "{} in strips", one.symbol);
        if filter_is_bandable(problem.border()) {
            let found = run(&problem, plan, &source, usize::MAX, Some(20));
            assert_eq!(differing(&found, &right, BYTES), 0, "{} in bands", one.symbol);
        }
    }
}
