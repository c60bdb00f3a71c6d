//! Integers through planes of kernels that are not bit-exact, against the CPU's ordered sums, bit for bit.

use kernels_gpu::registry::{Entry, Variant, entries};
use kernels_gpu::util::planes::proven::ValueLimits;

use super::*;
use crate::bands::bands_of;
use crate::{Accuracy, Border, Filter, Mask, PixelFormat, View, ViewMut, cpu, for_pixel_type};

/// Entries of planes whose results have an error bound.
fn bounded() -> impl Iterator<Item = &'static Entry> {
    entries().filter(|entry| entry.is_plane() && !entry.variant.is_exact())
}

/// The image's values, of which `values` are given as numbers of the type.
pub(super) fn bytes(kind: PixelType, values: impl Iterator<Item = u16>) -> Vec<u8> {
    match kind {
        PixelType::U8 => values.map(|value| value as u8).collect(),
        _ => values.flat_map(u16::to_ne_bytes).collect(),
    }
}

/// The ordered sums as integers.
pub(super) fn ordered(problem: &Problem, source: &[u8]) -> Vec<u8> {
    fn of<T: Pixel + Default>(problem: &Problem, source: &[u8]) -> Vec<u8> {
        let (channels, mut values) = (problem.format().channels, vec![T::default(); problem.values()]);
        bytes_of_mut(&mut values).copy_from_slice(source);
        let mut result = vec![T::default(); problem.values()];
        let plane = problem.one_plane(Accuracy::Exact);
        for channel in 0..channels {
            let from: Vec<f32> = values.iter().skip(channel).step_by(channels).map(|value| value.to_f32()).collect();
            let mut sums = vec![0.0; from.len()];
            cpu::reference(&plane, &from, &mut sums);
            for (to, sum) in result.iter_mut().skip(channel).step_by(channels).zip(sums) {
                *to = T::from_f32(sum);
            }
        }
        bytes_of(&result).to_vec()
    }
    for_pixel_type!(problem.format().input, T => of::<T>(problem, source))
}

/// A plan for planes by an entry, for a device with few or many multiprocessors: the tiles of the conversion have many
/// or few rows. None where the entry can't.
fn planned(problem: &Problem, entry: &'static Entry) -> Option<Plan> {
    let limits = Limits { sm_count: if problem.width().is_multiple_of(2) { 1 } else { LIMITS.sm_count }, ..LIMITS };
    let plan = Plan::new(problem, limits, VariantChoice::Kernel { entry, in_planes: true }).ok()?;
    assert!(plan.proof.is_some() && plan.bound(problem).class() == Accuracy::Exact);
    Some(plan)
}

/// Runs a plan on an image, whole or in strips that fit `budget`, and in bands of `band` rows.
pub(super) fn run(problem: &Problem, plan: Plan, source: &[u8], budget: usize, band: Option<usize>) -> Vec<u8> {
    let strips = Cut::new(problem, &plan, budget).unwrap().strips;
    let emulator = Emulator::new().seed(9);
    let convolution = EmulatorConvolution { emulator, plan, problem: problem.clone(), limit: budget, strips };
    let row = problem.row_values() * problem.format().input.bytes();
    let (height, mut result) = (problem.height(), vec![0_u8; source.len()]);
    let image = HostRows::of(&View::new(row, height, 1, row, source).unwrap());
    let mut rows = HostRowsMut::of(ViewMut::new(row, height, 1, row, &mut result).unwrap());
    match band {
        None => convolution.run(image, rows).unwrap(),
        Some(band) => {
            let strip = &convolution.strips[0];
            let mut resident = convolution.resident(strip, image).unwrap();
            for part in bands_of(&convolution.plan.params, band, convolution.plan.launch_row_alignment()) {
                let rows = Rows { height: part.rows.end, fresh: part.rows, outputs: part.outputs };
                convolution.launch(convolution.emulator, &rows, &mut resident).unwrap();
            }
            convolution.collect(strip, &resident, &mut rows).unwrap();
        }
    }
    result
}

/// The number of values that differ.
pub(super) fn differing(found: &[u8], right: &[u8], kind: PixelType) -> usize {
    let values = |bytes: &[u8]| bytes.chunks(kind.bytes()).map(<[u8]>::to_vec).collect::<Vec<_>>();
    values(found).iter().zip(&values(right)).filter(|(found, right)| found != right).count()
}

fn formats() -> impl Iterator<Item = PixelFormat> {
    let types = [PixelType::U8, PixelType::U16];
    types.into_iter().flat_map(|kind| (1..=4).map(move |channels| PixelFormat { channels, input: kind, output: kind }))
}

pub(super) const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Mirror, Border::Constant(200.0), Border::Wrap, Border::Clamp, Border::Reflect];

/// A separable mask with the sum 1, also with negative coefficients.
pub(super) fn separable(width: usize, height: usize, is_positive: bool, random: &mut fastrand::Rng) -> Mask {
    let low = if is_positive { 0.02 } else { -0.3 };
    let mut factor = |length: usize| (0..length).map(|_| low + random.f32()).collect::<Vec<_>>();
    let (column, row) = (factor(height), factor(width));
    let sum = column.iter().sum::<f32>() * row.iter().sum::<f32>();
    Mask::new(width, height, column.iter().flat_map(|a| row.iter().map(move |b| a * b / sum)).collect()).unwrap()
}

/// All formats, borders, anchors, scales, and sizes around groups and tiles; separable masks.
#[test]
fn separable_masks_have_the_bits_of_ordered_sums() {
    let seed = 84;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    // The FFT serves dense masks, which have a test of their own.
    let is_fft = |variant| matches!(variant, Variant::FftTile | Variant::FftPasses);
    let mut entries = std::collections::BTreeMap::<_, Vec<_>>::new();
    for entry in bounded().filter(|entry| !is_fft(entry.variant)) {
        entries.entry(entry.variant.name()).or_default().push(entry);
    }
    // Three problems for each variant and format. A problem that a plan refuses is replaced in the next turn.
    let mut ran = std::collections::BTreeMap::new();
    for (number, format) in (0..1000).flat_map(|turn| formats().map(move |format| (turn, format))) {
        for (&variant, entries) in &entries {
            let count = ran.entry((variant, format.input.name(), format.channels)).or_insert(0);
            if *count == 3 {
                continue;
            }
            let most = if format.input == PixelType::U16 { 5 } else { 13 };
            let (columns, rows) = (random.usize(1..=most), random.usize(1..=most));
            let mask = separable(columns, rows, random.bool(), &mut random);
            let filter = Filter::new(mask).border(BORDERS[random.usize(..6)]);
            let filter = filter.anchor(random.usize(..rows), random.usize(..columns));
            let filter = match random.u8(..4) {
                0 => filter.scale(0.5).offset(20.25),
                1 => filter.scale(-0.75).offset(200.0),
                _ => filter,
            };
            let (width, height) = (random.usize(1..=150), random.usize(1..=70));
            let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
            let entry = entries[random.usize(..entries.len())];
            let Some(plan) = planned(&problem, entry) else { continue };
            *count += 1;
            let source = bytes(format.input, (0..problem.values()).map(|_| random.u16(..)));
            let found = run(&problem, plan, &source, usize::MAX, None);
            let wrong = differing(&found, &ordered(&problem, &source), format.input);
            assert_eq!(wrong, 0, "{number}: {format}, {}, {problem:?}", entry.symbol);
        }
    }
    println!("{ran:?}");
    assert_eq!(ran.len(), 24, "three variants, two types and four numbers of channels");
    for ((variant, input, channels), count) in ran {
        // The error bound of the tensor cores proves no `u16`.
        let is_provable = variant != Variant::SeparableTensorCore.name() || input == PixelType::U8.name();
        assert_eq!(count, if is_provable { 3 } else { 0 }, "{variant}, {channels} channels of {input}");
    }
}

/// Dense masks by transforms, up to 63 x 63, in one channel and in three.
#[test]
fn dense_masks_have_the_bits_of_ordered_sums() {
    let seed = 85;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let fft = bounded().find(|entry| entry.variant == Variant::FftTile).unwrap();
    for (kind, channels, (columns, rows), (width, height)) in [
        (PixelType::U8, 1, (15, 11), (131, 40)),
        (PixelType::U8, 3, (31, 31), (67, 35)),
        (PixelType::U8, 4, (63, 63), (66, 33)),
        (PixelType::U8, 2, (9, 40), (30, 70)),
    ] {
        let coefficients: Vec<f32> = (0..columns * rows).map(|_| random.f32()).collect();
        let filter = Filter::new(Mask::new(columns, rows, coefficients).unwrap().normalized().unwrap());
        let format = PixelFormat { channels, input: kind, output: kind };
        let problem = Problem::new(width, height, &filter.border(Border::Mirror)).unwrap().with_format(format).unwrap();
        let plan = planned(&problem, fft).expect("the results can be proven");
        let source = bytes(kind, (0..problem.values()).map(|_| random.u16(..)));
        let found = run(&problem, plan, &source, usize::MAX, None);
        assert_eq!(differing(&found, &ordered(&problem, &source), kind), 0, "{format}, {problem:?}");
    }
}

/// A large separable mask: many values of each tile are computed again.
#[test]
fn large_separable_masks_have_the_bits_of_ordered_sums() {
    let mut random = fastrand::Rng::with_seed(86);
    let filter = Filter::new(Mask::gaussian(10.0, Some(31)).unwrap()).border(Border::Reflect);
    let format = PixelFormat::of::<u8, u8>(3);
    let problem = Problem::new(97, 45, &filter).unwrap().with_format(format).unwrap();
    for variant in [Variant::SeparableRing, Variant::SeparableBlockTile, Variant::SeparableTensorCore] {
        let plan =
            bounded().filter(|entry| entry.variant == variant).find_map(|entry| planned(&problem, entry)).unwrap();
        let uncertain = plan.proof.unwrap().uncertain;
        assert!(uncertain > 0.005 && uncertain < 0.08, "{uncertain}");
        let source = bytes(PixelType::U8, (0..problem.values()).map(|_| random.u16(..)));
        let found = run(&problem, plan, &source, usize::MAX, None);
        assert_eq!(differing(&found, &ordered(&problem, &source), PixelType::U8), 0, "{}", variant.name());
    }
}

/// Images of which many exact results lie half-way between two integers.
pub(super) fn half_way(x: usize, y: usize, channel: usize) -> u16 {
    match channel {
        // Means of an even number of neighbours are k + 1/2.
        0 => 100 + ((x + y) % 2) as u16,
        1 => 7 + 2 * (x % 2) as u16 + (y % 2) as u16,
        _ => 255,
    }
}

/// A problem with such images, and what it is computed with.
fn half_way_problem() -> (Problem, Plan, Vec<u8>) {
    let filter = Filter::new(Mask::average(6, 10).unwrap()).border(Border::Wrap);
    let format = PixelFormat::of::<u8, u8>(3);
    let problem = Problem::new(132, 66, &filter).unwrap().with_format(format).unwrap();
    let ring = bounded().find(|entry| entry.variant == Variant::SeparableRing).unwrap();
    let values = (0..66).flat_map(|y| (0..132).flat_map(move |x| (0..3).map(move |channel| half_way(x, y, channel))));
    let (plan, source) = (planned(&problem, ring).unwrap(), bytes(PixelType::U8, values));
    (problem, plan, source)
}

#[test]
fn half_way_values_have_the_bits_of_ordered_sums() {
    let (problem, plan, source) = half_way_problem();
    let right = ordered(&problem, &source);
    assert_eq!(differing(&run(&problem, plan, &source, usize::MAX, None), &right, PixelType::U8), 0);
}

/// The proof is needed: without a radius results differ. And nothing depends on what is certain.
#[test]
fn a_radius_of_zero_is_noticed() {
    let (problem, plan, source) = half_way_problem();
    let right = ordered(&problem, &source);
    let with = |certain: ValueLimits| {
        let proof = plan.proof.map(|proof| crate::plan::Proof { certain, ..proof });
        differing(&run(&problem, Plan { proof, ..plan.clone() }, &source, usize::MAX, None), &right, PixelType::U8)
    };
    let wrong = with(ValueLimits::uniform(0.5));
    assert!(wrong > 100, "{wrong} wrong results without a radius");
    // No value is certain: all of the list is used.
    assert_eq!(with(ValueLimits::uniform(-1.0)), 0);
}

/// Whole numbers, whose sums are exact, and a scale that puts them half-way: of either sign, with an offset.
#[test]
fn scaled_whole_sums_have_the_bits_of_ordered_sums() {
    let mut random = fastrand::Rng::with_seed(87);
    for (kind, scale, offset) in [
        (PixelType::U8, 0.5, 0.0),
        (PixelType::U8, -0.25, 300.5),
        (PixelType::U16, 0.125, 1.0),
        (PixelType::U16, -0.5, 9e4),
    ] {
        let mask = Mask::new(3, 3, vec![1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0]).unwrap();
        let filter = Filter::new(mask).scale(scale / 16.0).offset(offset).border(Border::Clamp);
        let format = PixelFormat { channels: 2, input: kind, output: kind };
        let problem = Problem::new(77, 34, &filter).unwrap().with_format(format).unwrap();
        for entry in bounded() {
            let Some(plan) = planned(&problem, entry) else { continue };
            let source = bytes(kind, (0..problem.values()).map(|_| random.u16(..)));
            let found = run(&problem, plan, &source, usize::MAX, None);
            assert_eq!(differing(&found, &ordered(&problem, &source), kind), 0, "{} {format}, {scale}", entry.symbol);
        }
    }
}

/// Sums without a unit: their pixels are used as they are.
#[test]
fn sums_without_a_unit_have_the_bits_of_ordered_sums() {
    let mut random = fastrand::Rng::with_seed(90);
    for (kind, channels, width) in [(PixelType::U8, 1, 140), (PixelType::U8, 3, 77), (PixelType::U16, 2, 130)] {
        let filter = Filter::new(separable(5, 3, true, &mut random)).border(Border::Mirror);
        let format = PixelFormat { channels, input: kind, output: kind };
        let problem = Problem::new(width, 70, &filter).unwrap().with_format(format).unwrap();
        let ring = bounded().find(|entry| entry.variant == Variant::SeparableRing).unwrap();
        let mut plan = planned(&problem, ring).unwrap();
        let proof = plan.proof.as_mut().unwrap();
        assert!(proof.unit > 0.0);
        (proof.unit, proof.certain) = (0.0, ValueLimits::uniform(-1.0));
        let source = bytes(kind, (0..problem.values()).map(|_| random.u16(..)));
        let found = run(&problem, plan, &source, usize::MAX, None);
        assert_eq!(differing(&found, &ordered(&problem, &source), kind), 0, "{format}");
    }
}

/// In bands and in strips the windows that are computed again are those of the whole image.
#[test]
fn bands_and_strips_are_the_whole() {
    let mut random = fastrand::Rng::with_seed(88);
    for (number, format) in formats().enumerate() {
        let mask = separable(5, 7, true, &mut random);
        let filter = Filter::new(mask).border(BORDERS[number % 6]).anchor(number % 7, number % 5);
        let problem = Problem::new(70 + number, 90, &filter).unwrap().with_format(format).unwrap();
        let ring = bounded().find(|entry| entry.variant == Variant::SeparableRing).unwrap();
        let Some(mut plan) = planned(&problem, ring) else { continue };
        // Every second value is computed again, whatever the proof.
        if number % 2 == 0 {
            plan.proof.as_mut().unwrap().certain = ValueLimits::uniform(0.25);
        }
        let source = bytes(format.input, (0..problem.values()).map(|_| random.u16(..)));
        let right = ordered(&problem, &source);
        let row = problem.row_values() * (2 * format.input.bytes() + 8);
        let found = run(&problem, plan.clone(), &source, 30 * row, None);
        assert_eq!(differing(&found, &right, format.input), 0, "{format} in strips");
        if filter_is_bandable(problem.border()) {
            let found = run(&problem, plan, &source, usize::MAX, Some(20));
            assert_eq!(differing(&found, &right, format.input), 0, "{format} in bands");
        }
    }
}

/// Bands need rows that do not come from the other end of the image.
pub(super) fn filter_is_bandable(border: Border) -> bool {
    border != Border::Wrap
}
