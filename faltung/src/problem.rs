//! What is to be computed: a filter, and the filter applied to images of one size.

use std::fmt;

use kernels_gpu::abi::border::{OUTSIDE, map};
use kernels_gpu::abi::params::{MAX_SIDE, Params};

use crate::{Accuracy, Border, Error, Image, Mask, Pixel, PixelType, Result};

/// Which way the mask is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// `O[y, x] = sum of M[k, l] * I[y + ay - k, x + ax - l]`: `scipy.ndimage.convolve`.
    #[default]
    Convolve,
    /// `O[y, x] = sum of M[k, l] * I[y + k - ay, x + l - ax]`: `scipy.ndimage.correlate`, OpenCV's `filter2D`.
    Correlate,
}

/// A filter: mask, operation, border, anchor, scale, offset and accuracy, independent of any image.
///
/// ```
/// use faltung::{Border, Filter, Mask, Operation};
///
/// let edges = Filter::new(Mask::new(3, 1, vec![-1.0, 0.0, 1.0])?)
///     .operation(Operation::Correlate)
///     .border(Border::Mirror)
///     .scale(0.5);
/// assert_eq!((edges.get_border(), edges.get_scale(), edges.mask()?.width()), (Border::Mirror, 0.5, 3));
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Filter {
    /// Or why a formula gives none.
    mask: Result<Mask>,
    operation: Operation,
    border: Border,
    anchor: Option<(usize, usize)>,
    scale: f32,
    offset: f32,
    accuracy: Accuracy,
}

impl Filter {
    /// A convolution with `mask`, zeros outside of the image, the anchor in the mask's middle, and the default
    /// accuracy.
    #[must_use]
    pub fn new(mask: Mask) -> Self {
        Self::from_formula(Ok(mask))
    }

    /// As [`new`](Self::new). An error is returned by the first call that needs the mask.
    pub(crate) fn from_formula(mask: Result<Mask>) -> Self {
        Self {
            mask,
            operation: Operation::Convolve,
            border: Border::ZERO,
            anchor: None,
            scale: 1.0,
            offset: 0.0,
            accuracy: Accuracy::default(),
        }
    }

    /// Sets the operation.
    #[must_use]
    pub fn operation(self, operation: Operation) -> Self {
        Self { operation, ..self }
    }

    /// Sets what lies outside of the image.
    #[must_use]
    pub fn border(self, border: Border) -> Self {
        Self { border, ..self }
    }

    /// Sets the mask's row and column that stand over the output pixel; by default `(height / 2, width / 2)`.
    #[must_use]
    pub fn anchor(self, row: usize, column: usize) -> Self {
        Self { anchor: Some((row, column)), ..self }
    }

    /// Sets the factor of the sum.
    #[must_use]
    pub fn scale(self, scale: f32) -> Self {
        Self { scale, ..self }
    }

    /// Sets what is added after scaling.
    #[must_use]
    pub fn offset(self, offset: f32) -> Self {
        Self { offset, ..self }
    }

    /// Sets the accuracy class that the results must keep; by default [`Accuracy::Bounded`].
    ///
    /// Integer results of very large masks can need the direct sum in the classes Exact and Bounded: for `u8`, those of
    /// Gaussians from about sigma 25 on. [`Accuracy::Normwise`] and results of `f32` take a faster method.
    #[must_use]
    pub fn accuracy(self, accuracy: Accuracy) -> Self {
        Self { accuracy, ..self }
    }

    /// The operation.
    #[must_use]
    pub fn get_operation(&self) -> Operation {
        self.operation
    }

    /// What lies outside of the image.
    #[must_use]
    pub fn get_border(&self) -> Border {
        self.border
    }

    /// The mask's row and column that stand over the output pixel. None for the default, the mask's middle.
    #[must_use]
    pub fn get_anchor(&self) -> Option<(usize, usize)> {
        self.anchor
    }

    /// The factor of the sum.
    #[must_use]
    pub fn get_scale(&self) -> f32 {
        self.scale
    }

    /// What is added after scaling.
    #[must_use]
    pub fn get_offset(&self) -> f32 {
        self.offset
    }

    /// The accuracy class that the results must keep.
    #[must_use]
    pub fn get_accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// The mask.
    ///
    /// # Errors
    /// Those of the formula that gives the mask, such as [`Mask::gaussian`]. A filter of [`new`](Self::new) has none.
    pub fn mask(&self) -> Result<&Mask> {
        self.mask.as_ref().map_err(Clone::clone)
    }
}

/// The values of images and results: their types, and the interleaved channels, each of which is filtered alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelFormat {
    /// Values of a pixel, 1 to 4.
    pub channels: usize,
    /// The type of the image's values.
    pub input: PixelType,
    /// The type of the result's values.
    pub output: PixelType,
}

impl PixelFormat {
    /// The most channels.
    pub const MOST_CHANNELS: usize = 4;

    /// `f32` in and out, one channel.
    pub const PLANE: Self = Self { channels: 1, input: PixelType::F32, output: PixelType::F32 };

    /// `channels` of `T` in, of `U` out.
    ///
    /// ```
    /// assert_eq!(faltung::PixelFormat::of::<f32, f32>(1), faltung::PixelFormat::PLANE);
    /// ```
    #[must_use]
    pub fn of<T: Pixel, U: Pixel>(channels: usize) -> Self {
        Self { channels, input: T::TYPE, output: U::TYPE }
    }

    /// The type of the image's pixels and of those outside, if all of them are integers.
    pub(crate) fn integer_pixels(self, border: Border) -> Option<PixelType> {
        let Self { input, .. } = self;
        (input != PixelType::F32 && input.holds(border.value())).then_some(input)
    }
}

impl fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { channels, input, output } = self;
        let s = if *channels == 1 { "" } else { "s" };
        write!(f, "{} to {} in {channels} channel{s}", input.name(), output.name())
    }
}

/// A filter on images of one size and [`PixelFormat`]: validated once, then planned and run any number of times.
///
/// The mask is held in *window order* (see [`kernels_gpu`]): rotated by 180° for a convolution, so that
/// every backend walks image and mask forwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    width: usize,
    height: usize,
    window: Mask,
    origin: (usize, usize),
    operation: Operation,
    border: Border,
    scale: f32,
    offset: f32,
    accuracy: Accuracy,
    format: PixelFormat,
}

impl Problem {
    /// `filter` on images of `width` x `height` pixels of one `f32`.
    ///
    /// # Errors
    /// [`Error::EmptyImage`], [`Error::TooLarge`], [`Error::Anchor`]; [`Error::Number`] if scale or offset is not
    /// finite; those of [`Filter::mask`].
    pub fn new(width: usize, height: usize, filter: &Filter) -> Result<Self> {
        Image::<f32>::checked_len(width, height, 1)?;
        let mask = filter.mask()?;
        let anchor = filter.anchor.unwrap_or((mask.height() / 2, mask.width() / 2));
        if anchor.0 >= mask.height() || anchor.1 >= mask.width() {
            return Err(Error::Anchor { anchor, mask: (mask.height(), mask.width()) });
        }
        for (what, value) in [("scale", filter.scale), ("offset", filter.offset)] {
            if !value.is_finite() {
                return Err(Error::Number { what, required: "a finite number", found: value.to_string() });
            }
        }
        let (window, origin) = match filter.operation {
            Operation::Correlate => (mask.clone(), anchor),
            Operation::Convolve => (mask.rotated_180(), (mask.height() - 1 - anchor.0, mask.width() - 1 - anchor.1)),
        };
        let Filter { operation, border, scale, offset, accuracy, .. } = *filter;
        let format = PixelFormat::PLANE;
        Ok(Self { width, height, window, origin, operation, border, scale, offset, accuracy, format })
    }

    /// Whether results of both have the same bits. `==` compares numbers: NaN differs from itself, and -0.0 is 0.0.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let Self { width, height, window, origin, operation, border, scale, offset, accuracy, format } = self;
        let are_same =
            |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits());
        (*width, *height, *origin, *operation, *accuracy, *format)
            == (other.width, other.height, other.origin, other.operation, other.accuracy, other.format)
            && border.is_same(other.border)
            && are_same(&[*scale, *offset], &[other.scale, other.offset])
            && (window.width(), window.height()) == (other.window.width(), other.window.height())
            && are_same(window.coefficients(), other.window.coefficients())
    }

    /// The loosest class that the results may keep. Integers of the class Bounded have the bits of the class Exact.
    pub(crate) fn required_class(&self) -> Accuracy {
        match (self.format.output, self.accuracy) {
            (PixelType::U8 | PixelType::U16, Accuracy::Bounded) => Accuracy::Exact,
            (_, asked_for) => asked_for,
        }
    }

    /// One channel of the problem, as an image of `f32`.
    pub(crate) fn one_plane(&self, accuracy: Accuracy) -> Self {
        Self { format: PixelFormat::PLANE, accuracy, ..self.clone() }
    }

    /// The same on images of another pixel format.
    ///
    /// ```
    /// use faltung::{Filter, Image, PixelFormat, Mask, Problem};
    ///
    /// // RGB photographs of 8 bits, results in f32.
    /// let filter = Filter::new(Mask::gaussian(2.0, None)?);
    /// let problem = Problem::new(640, 480, &filter)?.with_format(PixelFormat::of::<u8, f32>(3))?;
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Number`] if there are no or more than [`PixelFormat::MOST_CHANNELS`] channels, [`Error::TooLarge`] if a
    /// row of the image or of the mask spans more values than can be counted.
    pub fn with_format(self, format: PixelFormat) -> Result<Self> {
        if !(1..=PixelFormat::MOST_CHANNELS).contains(&format.channels) {
            let (what, required, found) = ("the number of channels", "1 to 4", format.channels.to_string());
            return Err(Error::Number { what, required, found });
        }
        for (what, pixels) in
            [("values of a row of the image", self.width), ("values under a row of the mask", self.window.width())]
        {
            let found = pixels.saturating_mul(format.channels);
            if found > MAX_SIDE {
                return Err(Error::TooLarge { what: what.into(), most: MAX_SIDE, found: found.to_string() });
            }
        }
        Ok(Self { format, ..self })
    }

    /// The same with results of another accuracy class.
    #[must_use]
    pub fn with_accuracy(self, accuracy: Accuracy) -> Self {
        Self { accuracy, ..self }
    }

    /// The accuracy class that the results must keep. Integers have the bits of [`Accuracy::Exact`] in the class
    /// [`Accuracy::Bounded`], too.
    #[must_use]
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// Types and channels.
    #[must_use]
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Values of a row of the image or the result.
    #[must_use]
    pub fn row_values(&self) -> usize {
        self.width * self.format.channels
    }

    /// Values of the image or the result.
    #[must_use]
    pub fn values(&self) -> usize {
        self.row_values() * self.height
    }

    /// Columns of image and result.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows of image and result.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The mask in window order.
    #[must_use]
    pub fn window(&self) -> &Mask {
        &self.window
    }

    /// The window of output pixel (x, y) begins in row `y - origin.0`, column `x - origin.1`.
    #[must_use]
    pub fn origin(&self) -> (usize, usize) {
        self.origin
    }

    /// The operation that was asked for.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// What lies outside.
    #[must_use]
    pub fn border(&self) -> Border {
        self.border
    }

    /// See [`PixelFormat::integer_pixels`].
    pub(crate) fn integer_pixels(&self) -> Option<PixelType> {
        self.format.integer_pixels(self.border)
    }

    /// The output value of a finished sum: `sum * scale + offset` in one rounding, or the sum itself without either.
    #[must_use]
    #[inline]
    pub fn finish(&self, sum: f32) -> f32 {
        if self.is_plain() { sum } else { sum.mul_add(self.scale, self.offset) }
    }

    /// The result at one place in `f32`, before it is converted to the output's type: one fused multiply-add a
    /// coefficient, starting from +0, the window's rows from top to bottom, each from left to right. The pixels outside
    /// take part as values.
    ///
    /// `source` is `height` rows of `width` pixels, channels together. This is slow: it is for a few places.
    ///
    /// ```
    /// use faltung::{Filter, Mask, Problem};
    ///
    /// let problem = Problem::new(3, 1, &Filter::new(Mask::average(3, 1)?).scale(3.0).offset(1.0))?;
    /// assert_eq!(problem.result_at(&[1.0_f32, 2.0, 4.0], 0, 0, 0), 4.0);
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Panics
    /// If `source` has not as many values as the image, or there is no such pixel or channel.
    #[must_use]
    pub fn result_at<T: Pixel>(&self, source: &[T], x: usize, y: usize, channel: usize) -> f32 {
        let channels = self.format.channels;
        assert_eq!(source.len(), self.values(), "values of the source");
        assert!(x < self.width && y < self.height && channel < channels, "({x}, {y}), channel {channel}");
        self.result_of(x, y, |row, column| source[(row * self.width + column) * channels + channel].to_f32())
    }

    /// As [`result_at`](Self::result_at), where `pixel` gives the values of the image by row and column.
    pub(crate) fn result_of(&self, x: usize, y: usize, pixel: impl Fn(usize, usize) -> f32) -> f32 {
        let (code, (above, before)) = (self.border.mode().code(), self.origin);
        let mut sum = 0.0;
        for k in 0..self.window.height() {
            // Sides are at most MAX_SIDE, which `Image` and `Mask` check.
            let row = map(code, (y + k) as i32 - above as i32, self.height as i32);
            for l in 0..self.window.width() {
                let column = map(code, (x + l) as i32 - before as i32, self.width as i32);
                let is_outside = row == OUTSIDE || column == OUTSIDE;
                let value = if is_outside { self.border.value() } else { pixel(row as usize, column as usize) };
                sum = self.window.at(k, l).mul_add(value, sum);
            }
        }
        self.finish(sum)
    }

    /// Whether results are the sums themselves: scale 1, offset 0.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.scale == 1.0 && self.offset == 0.0
    }

    /// Factor and addend of the sums.
    #[must_use]
    pub fn scale_and_offset(&self) -> (f32, f32) {
        (self.scale, self.offset)
    }

    /// Factor and addend of the sums, or None where results are the sums themselves.
    pub(crate) fn last_step(&self) -> Option<(f32, f32)> {
        (!self.is_plain()).then(|| self.scale_and_offset())
    }

    /// The launch parameters for dense rows, from output row 0 on.
    pub(crate) fn params(&self) -> Params {
        // Sides are at most MAX_SIDE, which `Image` and `Mask` check.
        let side = |n: usize| {
            debug_assert!(n <= MAX_SIDE);
            n as i32
        };
        Params {
            width: side(self.width),
            height: side(self.height),
            src_pitch: side(self.row_values()),
            dst_pitch: side(self.row_values()),
            mask_width: side(self.window.width()),
            mask_height: side(self.window.height()),
            origin_x: side(self.origin.1),
            origin_y: side(self.origin.0),
            first_row: 0,
            border: self.border.mode().code(),
            border_value: self.border.value(),
            scale: self.scale,
            offset: self.offset,
            result_kind: self.format.output.code(),
        }
    }
}
