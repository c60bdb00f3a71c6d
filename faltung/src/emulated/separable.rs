//! The separable kernels for interleaved channels: bytes against the CPU's ordered sums, `f32` against two passes in
//! planes, bit for bit.

use kernels_gpu::registry::{Entry, Variant};

use super::proven::{BORDERS, bytes, differing, filter_is_bandable, half_way, ordered, run, separable};
use super::*;
use crate::plan::ProvenSums;
use crate::{Accuracy, Border, Filter, Mask, PixelFormat};

const BYTES: PixelType = PixelType::U8;

/// A plan by an entry for the image itself.
fn planned(problem: &Problem, entry: &'static Entry) -> Plan {
    Plan::new(problem, LIMITS, VariantChoice::Kernel { entry, in_planes: false }).unwrap()
}

/// The entry of a variant for images of a format and masks of so many rows.
fn entry(variant: Variant, kind: PixelType, channels: usize, rows: usize) -> &'static Entry {
    let class = (rows as u32 - 1).next_multiple_of(16);
    let is_wanted = |entry: &&Entry| (entry.pixel, entry.channels as usize, entry.class()) == (kind, channels, class);
    variant.entries().find(is_wanted).unwrap()
}

/// Widths and heights of images: of a pixel, around words, around blocks, with blocks that need no edge.
fn image(number: usize, channels: usize, threads: usize, random: &mut fastrand::Rng) -> (usize, usize) {
    let mut around = |values: usize| (values / channels + random.usize(..3)).saturating_sub(1).max(1);
    match number % 6 {
        0 => (1 + number / 6 % 5, 1 + number / 6 % 3),
        1 => (around(threads), 37),
        2 => (around(3 * threads + 40), 50),
        3 => (around(2 * threads), 18),
        4 => (random.usize(1..40), random.usize(1..90)),
        _ => (random.usize(1..300), random.usize(1..40)),
    }
}

/// All channels, classes of masks, borders, anchors and scales, on images of all shapes.
#[test]
fn bytes_have_the_bits_of_ordered_sums() {
    let seed = 95;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for (number, one) in Variant::SeparableU8.entries().cycle().take(96).enumerate() {
        let class = one.class() as usize;
        let rows = if number < 16 { class + 1 } else { random.usize(class - 14..=class + 1) };
        // Large windows take the emulator long.
        let columns = [1, 2, 3, 15, 16, 17, 30, 35][random.usize(..if rows > 20 { 4 } else { 8 })];
        let mask = separable(columns, rows, random.u8(..4) > 0, &mut random);
        let filter = Filter::new(mask).border(BORDERS[random.usize(..6)]);
        let filter = if random.bool() { filter.anchor(random.usize(..rows), random.usize(..columns)) } else { filter };
        let filter = match random.u8(..4) {
            0 => filter.scale(0.5).offset(20.25),
            1 => filter.scale(-0.75).offset(200.0),
            _ => filter,
        };
        let channels = one.channels as usize;
        let (width, height) = image(random.usize(..6) + 6 * number, channels, one.block().0 as usize, &mut random);
        let format = PixelFormat { channels, input: BYTES, output: BYTES };
        let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
        let plan = planned(&problem, one);
        assert_eq!(plan.bound(&problem).class(), Accuracy::Exact);
        let source = bytes(BYTES, (0..problem.values()).map(|_| random.u16(..)));
        let found = run(&problem, plan, &source, usize::MAX, None);
        let wrong = differing(&found, &ordered(&problem, &source), BYTES);
        assert_eq!(wrong, 0, "{number}: {width} x {height}, {columns} x {rows}, {}, {problem:?}", one.symbol);
    }
}

/// Large Gaussians, with many values that are computed again.
#[test]
fn large_masks_have_the_bits_of_ordered_sums() {
    let mut random = fastrand::Rng::with_seed(96);
    for (channels, radius, (width, height)) in [(1, 15, (530, 40)), (3, 15, (180, 35)), (4, 16, (140, 24))] {
        let mask = Mask::gaussian(radius as f64 / 3.0, Some(radius)).unwrap();
        let format = PixelFormat { channels, input: BYTES, output: BYTES };
        let filter = Filter::new(mask).border(Border::Reflect);
        let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
        let plan = planned(&problem, entry(Variant::SeparableU8, BYTES, channels, 2 * radius + 1));
        let uncertain = plan.proven_sums.unwrap().uncertain;
        assert!(uncertain > 0.005 && uncertain < 0.08, "{uncertain}");
        let source = bytes(BYTES, (0..problem.values()).map(|_| random.u16(..)));
        let found = run(&problem, plan, &source, usize::MAX, None);
        assert_eq!(differing(&found, &ordered(&problem, &source), BYTES), 0, "{channels}, {radius}");
    }
}

/// The proof is needed: without a radius results differ. And nothing depends on what is certain.
#[test]
fn a_radius_of_zero_is_noticed() {
    let filter = Filter::new(Mask::average(6, 10).unwrap()).border(Border::Wrap);
    let format = PixelFormat::of::<u8, u8>(3);
    let problem = Problem::new(132, 66, &filter).unwrap().with_format(format).unwrap();
    let values = (0..66).flat_map(|y| (0..132).flat_map(move |x| (0..3).map(move |channel| half_way(x, y, channel))));
    let source = bytes(BYTES, values);
    let (plan, right) = (planned(&problem, entry(Variant::SeparableU8, BYTES, 3, 10)), ordered(&problem, &source));
    let with = |change: fn(ProvenSums) -> ProvenSums| {
        let plan = Plan { proven_sums: plan.proven_sums.map(change), ..plan.clone() };
        differing(&run(&problem, plan, &source, usize::MAX, None), &right, BYTES)
    };
    assert_eq!(with(|sums| sums), 0);
    let wrong = with(ProvenSums::without_radius);
    assert!(wrong > 100, "{wrong} wrong results without a radius");
    // No value is certain: all of the list is used.
    assert_eq!(with(|sums| ProvenSums { constant: 1.0, ..sums }), 0);
}

/// In bands and in strips the windows that are computed again are those of the whole image.
#[test]
fn bands_and_strips_are_the_whole() {
    let mut random = fastrand::Rng::with_seed(97);
    for (number, channels) in (0..2).flat_map(|turn| (1..=4).map(move |channels| (turn * 4 + channels, channels))) {
        let rows = if channels == 2 { 7 } else { 18 };
        let mask = separable(5, rows, true, &mut random);
        let filter = Filter::new(mask).border(BORDERS[number % 6]).anchor(number % 7, number % 5);
        let format = PixelFormat { channels, input: BYTES, output: BYTES };
        let problem = Problem::new(70 + number, 90, &filter).unwrap().with_format(format).unwrap();
        let mut plan = planned(&problem, entry(Variant::SeparableU8, BYTES, channels, rows));
        // Every second value is computed again, whatever the proof.
        if number % 2 == 0 {
            plan.proven_sums = plan.proven_sums.map(|sums| ProvenSums { constant: 0.25, ..sums });
        }
        let source = bytes(BYTES, (0..problem.values()).map(|_| random.u16(..)));
        let right = ordered(&problem, &source);
        let row = problem.row_values() * 2;
        let found = run(&problem, plan.clone(), &source, 40 * row, None);
        assert_eq!(differing(&found, &right, BYTES), 0, "{channels} channels in strips");
        if filter_is_bandable(problem.border()) {
            let found = run(&problem, plan, &source, usize::MAX, Some(20));
            assert_eq!(differing(&found, &right, BYTES), 0, "{channels} channels in bands");
        }
    }
}

/// Results of `f32` have the bits of a row pass and a column pass over each plane.
#[test]
fn channels_have_the_bits_of_their_planes() {
    let seed = 98;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let ring = Variant::SeparableRing.entries().next().unwrap();
    let interleaved = Variant::SeparableBlockTile.entries().filter(|entry| !entry.is_plane());
    for (number, one) in interleaved.clone().cycle().take(88).enumerate() {
        let class = one.class() as usize;
        let rows = if number < 44 { class - number % 15 } else { class + 1 };
        let columns = [1, 2, 3, 9, 16, 17, 31, 40][random.usize(..8)];
        let mask = separable(columns, rows, random.bool(), &mut random);
        let filter = Filter::new(mask).border(BORDERS[random.usize(..6)]);
        let filter = if random.bool() { filter.anchor(random.usize(..rows), random.usize(..columns)) } else { filter };
        let filter = if random.u8(..3) == 0 { filter.scale(-0.75).offset(200.0) } else { filter };
        let channels = one.channels as usize;
        let (width, height) = image(random.usize(..6) + 6 * number, channels, one.block().0 as usize, &mut random);
        let format = PixelFormat { channels, input: one.pixel, output: PixelType::F32 };
        let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
        let source: Vec<u8> = match one.pixel {
            PixelType::F32 => (0..problem.values()).flat_map(|_| (300.0 * random.f32()).to_ne_bytes()).collect(),
            kind => bytes(kind, (0..problem.values()).map(|_| random.u16(..))),
        };
        let found = results(&problem, planned(&problem, one), &source);
        let in_planes = VariantChoice::Kernel { entry: ring, in_planes: true };
        let right = results(&problem, Plan::new(&problem, LIMITS, in_planes).unwrap(), &source);
        let wrong = differing(&found, &right, PixelType::F32);
        assert_eq!(wrong, 0, "{number}: {width} x {height}, {columns} x {rows}, {}, {problem:?}", one.symbol);
    }
}

/// The `f32` results of a plan, as bytes.
fn results(problem: &Problem, plan: Plan, source: &[u8]) -> Vec<u8> {
    let strips = Cut::new(problem, &plan, usize::MAX).unwrap().strips;
    let emulator = Emulator::new().seed(9);
    let convolution = EmulatorConvolution { emulator, plan, problem: problem.clone(), limit: usize::MAX, strips };
    let (row, height) = (problem.row_values(), problem.height());
    let bytes = row * problem.format().input.bytes();
    let mut result = vec![0_u8; row * height * size_of::<f32>()];
    let image = HostRows::of(&crate::View::new(bytes, height, 1, bytes, source).unwrap());
    let rows = crate::ViewMut::new(4 * row, height, 1, 4 * row, &mut result).unwrap();
    convolution.run(image, HostRowsMut::of(rows)).unwrap();
    result
}
