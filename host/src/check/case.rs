//! One problem with its data.

use std::fmt;

use faltung::{AnyImage, Border, Filter, Mask, Operation, PixelFormat, PixelType, Problem, Result, VariantChoice};

/// What the values of an image are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Uniform in -1 to 1.
    Random,
    /// Uniform in 1/2 to 1: an error bound that is relative to the products can be proven from the pixels alone.
    Light,
    /// Random with NaN, infinities, zeros of both signs and denormal numbers strewn in.
    Special,
}

/// One problem with its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Columns and rows of the image.
    pub image: (usize, usize),
    /// Columns and rows of the mask.
    pub mask: (usize, usize),
    /// What lies outside.
    pub border: Border,
    /// Convolution or correlation.
    pub operation: Operation,
    /// Row and column of the anchor; None is the middle.
    pub anchor: Option<(usize, usize)>,
    /// Factor and addend of the sums.
    pub scale: (f32, f32),
    /// Types and channels.
    pub format: PixelFormat,
    /// Whether the mask is separable (rank 1).
    pub separable: bool,
    /// What the pixels are; integers are always random.
    pub content: Content,
    /// What image and mask are made from.
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = match self.operation {
            Operation::Convolve => "convolve",
            Operation::Correlate => "correlate",
        };
        write!(
            f,
            "{}x{} with {}x{} {operation} {}",
            self.image.0, self.image.1, self.mask.0, self.mask.1, self.border
        )?;
        if let Some((row, column)) = self.anchor {
            write!(f, " anchor {row},{column}")?;
        }
        if self.scale != (1.0, 0.0) {
            write!(f, " scale {} offset {}", self.scale.0, self.scale.1)?;
        }
        if self.separable {
            f.write_str(" separable")?;
        }
        f.write_str(match self.content {
            Content::Random => "",
            Content::Light => " light",
            Content::Special => " special values",
        })?;
        if self.format != PixelFormat::PLANE {
            write!(f, " {}", self.format)?;
        }
        write!(f, " seed {}", self.seed)
    }
}

impl Case {
    /// Whether the case tests the variant that was asked for. Images of more than five of its tiles side by side are
    /// for variants with wider tiles.
    #[must_use]
    pub fn concerns(&self, choice: VariantChoice) -> bool {
        let Some(variant) = choice.named() else { return true };
        let columns = variant.entries().map(|entry| entry.outputs(entry.example_mask()).0).max();
        self.image.0 <= 5 * columns.unwrap_or(0) as usize
    }

    /// How a variant that is not bit-exact makes integers of the case: through planes. None if it makes none.
    pub(super) fn through_planes(
        &self,
        choice: VariantChoice,
        can: impl Fn(VariantChoice) -> bool,
    ) -> Option<VariantChoice> {
        let VariantChoice::Named(variant) = choice else { return None };
        if variant.is_exact() || self.format.output == PixelType::F32 {
            return None;
        }
        let planes = variant.entries().filter(|entry| entry.is_plane());
        planes.map(|entry| VariantChoice::Kernel { entry, in_planes: true }).find(|&choice| can(choice))
    }

    /// The problem and its image.
    ///
    /// # Errors
    /// Those of [`Problem::new`]; the cases of this file have none.
    pub fn make(&self) -> Result<(Problem, AnyImage)> {
        Ok((self.problem()?, self.pixels()?))
    }

    /// The problem.
    pub(super) fn problem(&self) -> Result<Problem> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        // Without an offset, half of the bytes would be 0 with coefficients of both signs.
        let is_positive = self.separable && self.format.output == PixelType::U8 && self.scale.1 == 0.0;
        let mut uniform = move || {
            let value = random.f32().mul_add(2.0, -1.0);
            if is_positive { value.abs() } else { value }
        };
        let (width, height) = self.mask;
        let coefficients = if self.separable {
            let (row, column): (Vec<f32>, Vec<f32>) =
                ((0..width).map(|_| uniform()).collect(), (0..height).map(|_| uniform()).collect());
            column.iter().flat_map(|of_column| row.iter().map(move |of_row| of_column * of_row)).collect()
        } else {
            (0..width * height).map(|_| uniform()).collect()
        };
        let mut filter = Filter::new(Mask::new(self.mask.0, self.mask.1, coefficients)?)
            .operation(self.operation)
            .border(self.border)
            .scale(self.scale.0)
            .offset(self.scale.1);
        if let Some((row, column)) = self.anchor {
            filter = filter.anchor(row, column);
        }
        Problem::new(self.image.0, self.image.1, &filter)?.with_format(self.format)
    }

    /// The image.
    fn pixels(&self) -> Result<AnyImage> {
        let mut random = fastrand::Rng::with_seed(!self.seed);
        let mut pixels = AnyImage::zeros(self.image.0, self.image.1, self.format.channels, self.format.input)?;
        let mut float = || {
            let value = random.f32();
            match self.content {
                Content::Light => return value.mul_add(0.5, 0.5),
                Content::Special if random.u8(..) <= 20 => {}
                Content::Random | Content::Special => return value.mul_add(2.0, -1.0),
            }
            let special =
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN_POSITIVE / 8.0, -f32::from_bits(1)];
            special[random.usize(..special.len())]
        };
        match &mut pixels {
            AnyImage::F32(image) => image.values_mut().fill_with(&mut float),
            AnyImage::U8(image) => random.fill(image.values_mut()),
            AnyImage::U16(image) => image.values_mut().fill_with(|| random.u16(..)),
        }
        Ok(pixels)
    }
}
