//! Strips, bands and planes.

use kernels_gpu::registry::{Entry, Variant};

use super::*;
use crate::bands::bands_of;
use crate::{Accuracy, Border, Filter, Mask, PixelFormat, View, ViewMut};

/// Images without gaps, as bytes.
impl EmulatorConvolution {
    /// The image as rows of bytes.
    fn rows<'a>(&self, source: &'a [u8]) -> View<'a, u8> {
        let row = source.len() / self.problem.height();
        View::new(row, self.problem.height(), 1, row, source).unwrap()
    }

    /// A result that `compute` writes.
    fn result(&self, compute: impl FnOnce(HostRowsMut<'_>)) -> Vec<u8> {
        let row = self.problem.row_values() * self.problem.format().output.bytes();
        let mut result = vec![0_u8; row * self.problem.height()];
        compute(HostRowsMut::of(ViewMut::new(row, self.problem.height(), 1, row, &mut result).unwrap()));
        result
    }

    fn all_at_once(&self, source: &[u8]) -> Vec<u8> {
        self.result(|result| self.run(HostRows::of(&self.rows(source)), result).unwrap())
    }

    fn in_bands(&self, source: &[u8], band: usize) -> Vec<u8> {
        let strip = &self.strips[0];
        let mut resident = self.resident(strip, HostRows::of(&self.rows(source))).unwrap();
        for part in bands_of(&self.plan.params, band, self.plan.launch_row_alignment()) {
            let rows = Rows { height: part.rows.end, fresh: part.rows, outputs: part.outputs };
            self.launch(self.emulator, &rows, &mut resident).unwrap();
        }
        self.result(|mut result| self.collect(strip, &resident, &mut result).unwrap())
    }
}

/// Through planes the results are bit-exact, whatever the types and channels, in bands and in strips.
#[test]
fn planes_are_bit_exact() {
    let seed = 83;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let types = [PixelType::U8, PixelType::U16, PixelType::F32];
    let formats = types.iter().flat_map(|&input| types.map(|output| (input, output)));
    for (input, output) in formats {
        for channels in 1..=4 {
            let format = PixelFormat { channels, input, output };
            let (columns, rows) = (random.usize(1..7), random.usize(1..7));
            let mask = (0..columns * rows).map(|_| random.f32() - 0.3).collect();
            let border = [Border::ZERO, Border::Mirror, Border::Clamp, Border::Wrap][random.usize(..4)];
            let filter = Filter::new(Mask::new(columns, rows, mask).unwrap()).border(border).offset(0.5);
            let (width, height) = (random.usize(1..150), random.usize(20..60));
            let problem = Problem::new(width, height, &filter.accuracy(Accuracy::Exact)).unwrap();
            let problem = problem.with_format(format).unwrap();
            let considered = Plan::new(&problem, LIMITS, VariantChoice::Auto).unwrap().considered;
            let is_exact = |entry: &Entry| entry.variant.is_exact();
            let mut planar = considered.iter().filter(|one| one.in_planes && one.answer.is_ok());
            let Some(planar) = planar.find(|one| is_exact(one.entry)) else {
                assert_eq!(format, PixelFormat::PLANE);
                continue;
            };
            let choice = VariantChoice::Kernel { entry: planar.entry, in_planes: true };
            let plan = Plan::new(&problem, LIMITS, choice).unwrap();
            let budget = [usize::MAX, 16 * problem.values()][random.usize(..2)];
            let strips = Cut::new(&problem, &plan, budget).unwrap().strips;
            let emulator = Emulator::new().seed(seed);
            let planar = EmulatorConvolution { emulator, plan, problem: problem.clone(), limit: budget, strips };
            let named = VariantChoice::Named(Variant::Naive);
            let direct = EmulatorConvolution::new(seed, &problem, named, None).unwrap();
            let source: Vec<u8> = match input {
                PixelType::F32 => (0..problem.values()).flat_map(|_| (300.0 * random.f32()).to_ne_bytes()).collect(),
                _ => (0..problem.values() * input.bytes()).map(|_| random.u8(..)).collect(),
            };
            let right = direct.all_at_once(&source);
            assert!(planar.all_at_once(&source) == right, "{format}, {problem:?}");
            if border != Border::Wrap && planar.strips.len() == 1 {
                let band = random.usize(rows + 1..height);
                assert!(planar.in_bands(&source, band) == right, "{format} in bands of {band} rows, {problem:?}");
            }
        }
    }
}

/// The outputs of bands, each computed when the rows up to its end are there, are those of the whole image, by
/// every variant.
#[test]
fn bands_are_the_whole() {
    let seed = 79;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut took_part = [0; Variant::ALL.len()];
    for round in 0..24 {
        let side = [3, 5, 9][round % 3];
        let factor = |_| random.f32() - 0.4;
        let column: Vec<f32> = (0..side).map(factor).collect();
        let mask = column.iter().flat_map(|a| column.iter().map(move |b| a * b)).collect();
        let border = [Border::ZERO, Border::Mirror, Border::Clamp, Border::Constant(7.0)][round / 3 % 4];
        let filter = Filter::new(Mask::new(side, side, mask).unwrap()).border(border);
        let filter = if round % 2 == 0 { filter } else { filter.anchor(random.usize(..side), random.usize(..side)) };
        let (width, height) = (random.usize(1..90), random.usize(40..120));
        let format = if round % 2 == 0 { PixelFormat::of::<u8, u8>(1) } else { PixelFormat::PLANE };
        let problem = Problem::new(width, height, &filter).unwrap().with_format(format).unwrap();
        let source_of = |format: PixelFormat, random: &mut fastrand::Rng| -> Vec<u8> {
            let values = width * height * format.channels;
            match format.input {
                PixelType::F32 => (0..values).flat_map(|_| random.f32().to_ne_bytes()).collect(),
                input => (0..values * input.bytes()).map(|_| random.u8(..)).collect(),
            }
        };
        let source = source_of(format, &mut random);
        let band = random.usize(side + 1..height);
        for (variant, count) in Variant::ALL.into_iter().zip(&mut took_part) {
            // A pair of its tiles takes a second.
            if variant == Variant::FftPasses && round % 6 != 5 {
                continue;
            }
            let choice = VariantChoice::Named(variant);
            // A variant that takes none of the squares gets a mask that it takes, and one that takes neither planes
            // nor bytes an image that it takes.
            let first = variant.entries().next().unwrap();
            let (columns, height_of_mask) = first.example_mask();
            let average = Mask::average(columns as usize, height_of_mask as usize).unwrap();
            let own = Problem::new(width, height, &Filter::new(average).border(border)).unwrap();
            let formats = [PixelFormat::of::<u8, u8>(1), PixelFormat::PLANE];
            let takes = |format: &PixelFormat| {
                variant.entries().any(|entry| (entry.pixel, entry.channels as usize) == (format.input, format.channels))
            };
            let own_format = if formats.iter().any(takes) {
                format
            } else {
                PixelFormat { channels: first.channels as usize, input: first.pixel, output: first.pixel }
            };
            let own_source = if own_format == format { source.clone() } else { source_of(own_format, &mut random) };
            let own = own.with_format(own_format).unwrap();
            let whole = EmulatorConvolution::new(seed, &problem, choice, None).map(|whole| (whole, &source));
            let whole =
                whole.or_else(|_| EmulatorConvolution::new(seed, &own, choice, None).map(|whole| (whole, &own_source)));
            let Ok((whole, source)) = whole else { continue };
            let band = band.max(whole.plan.params.mask_height as usize + 1);
            let (right, found) = (whole.all_at_once(source), whole.in_bands(source, band));
            assert!(right == found, "{} in bands of {band} rows, {problem:?}", variant.name());
            *count += 1;
        }
    }
    println!("{took_part:?}");
    assert!(took_part.iter().all(|&count| count > 3), "{took_part:?} of {:?}", Variant::ALL);
}
