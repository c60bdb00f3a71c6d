//! Correlations of images with sums of `f64` and with OpenCV's rounding.

use super::convert::{ExactStep, LastStep};
use super::dense::{Correlation, correlate_rounded};
use super::image_lines::ImageLines;
use super::narrow::Values;
use super::{Input, Lines, Output};
use crate::cpu::simd::Level;
use crate::{Accuracy, Border, BorderMode, Error, Result};

/// The coefficients of a mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImageMask<'a> {
    /// All of them, row by row.
    Dense(&'a [f64]),
    /// Those of a column, and those of a row. The mask is their outer product.
    Separable(&'a [f64], &'a [f64]),
}

/// A mask, what stands outside of the image, and what becomes of the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageFilter<'a> {
    /// The mask's coefficients.
    pub mask: ImageMask<'a>,
    /// Rows and columns of the mask.
    pub size: [usize; 2],
    /// Row and column of the mask that lie on the result's pixel.
    pub anchor: [usize; 2],
    /// What stands outside of the image.
    pub border: Border,
    /// The number that is added to each sum.
    pub offset: f64,
    /// What results of floating point must keep. Integers are the same with [`Accuracy::Exact`] and
    /// [`Accuracy::Bounded`].
    pub accuracy: Accuracy,
}

/// Correlates each channel of an image with a mask: OpenCV's `filter2D` and `sepFilter2D`, with sums of `f64`.
///
/// Arrays have two or three axes: rows, columns and perhaps channels. Integer results are rounded half to even, and
/// saturate.
///
/// Large dense masks take an FFT. It gives the integers of the sums of products. Results of floating point then keep
/// the class [`Accuracy::Bounded`]. [`Accuracy::Exact`] takes no FFT for them.
///
/// # Errors
/// - [`Error::Number`] if the arrays have other axes or different shapes, the coefficients are not as many as the size
///   says, or the anchor is not within the mask.
/// - [`Error::HostMemory`] if there is too little for the sums.
/// - [`Error::Cancelled`]. Some results are then unwritten.
/// - [`Error::Parse`] if `FALTUNG_CPU` names no instruction set that the CPU has.
///
/// # Panics
/// If input and output are the same array.
///
/// ```
/// use faltung::nd::{ImageFilter, ImageMask, Input, Output, correlate_image};
/// use faltung::{Accuracy, Border};
///
/// let (values, mut result) = ([-7_i16, 2, 9, 32_767], [0_i16; 4]);
/// let (input, output) = (Input::new(&values, &[1, 4])?, Output::new(&mut result, &[1, 4])?);
/// let filter = ImageFilter {
///     mask: ImageMask::Separable(&[1.0], &[0.5, 0.5]),
///     size: [1, 2],
///     anchor: [0, 0],
///     border: Border::Clamp,
///     offset: 1.0,
///     accuracy: Accuracy::Bounded,
/// };
/// correlate_image(input, output, &filter)?;
/// assert_eq!(result, [-2, 6, 16_389, 32_767]); // -1.5, 6.5, 16389 and 32768
/// # Ok::<(), faltung::Error>(())
/// ```
pub fn correlate_image(input: Input<'_>, output: Output<'_>, filter: &ImageFilter<'_>) -> Result<()> {
    filter.check(input.layout.shape.len())?;
    output.layout.check_shape(&input.layout)?;
    if input.layout.elements() == 0 {
        return Ok(());
    }
    assert!(!std::ptr::eq(input.first, output.first), "input and output are the same array");
    let &ImageFilter { mask, size, border, offset, accuracy, .. } = filter;
    let origins = [0, 1].map(|axis| filter.anchor[axis] as isize - (size[axis] / 2) as isize);
    let (border, value) = (border.mode(), f64::from(border.value()));
    match mask {
        ImageMask::Dense(coefficients) => {
            let (weights, scale) = normalized(coefficients);
            let axes = input.layout.shape.len();
            let (shape, origins) = ([size[0], size[1], 1], [origins[0], origins[1], 0]);
            let (shape, origins) = (&shape[..axes], &origins[..axes]);
            let correlation = Correlation { weights: &weights, shape, origins, border, value };
            correlate_rounded(input, output, &correlation, LastStep { scale, offset }, accuracy)
        }
        ImageMask::Separable(column, row) => {
            let ((column, of_column), (row, of_row)) = (normalized(column), normalized(row));
            let lines = [0, 1].map(|axis| Lines { axis, origin: origins[axis], border, value });
            let (weights, level, scale) = ([&column[..], &row[..]], Level::chosen()?, of_column * of_row);
            let outside = (border == BorderMode::Constant).then_some(value);
            let values = Values::new(input.layout.element, outside);
            if offset == 0.0 && are_exact(values, weights, scale) {
                ImageLines::new(&input, &output, weights, lines, ExactStep(scale as f32)).run(level)
            } else {
                ImageLines::<f64, _>::new(&input, &output, weights, lines, LastStep { scale, offset }).run(level)
            }
        }
    }
}

/// Whether no sum of `f32` along the row and then along the column rounds, nor does its product with `scale`, a power of
/// two.
pub(super) fn are_exact(values: Option<Values>, [column, row]: [&[f64]; 2], scale: f64) -> bool {
    let is_exact = |values: Values| values.are_exact(row) && values.summed(row).are_exact(column);
    (1e-9..1e9).contains(&scale) && values.is_some_and(is_exact)
}

impl ImageFilter<'_> {
    /// Fails unless the filter is one for an image of so many axes.
    fn check(&self, axes: usize) -> Result<()> {
        let [rows, columns] = self.size;
        let number = |what, required, found: String| Err(Error::Number { what, required, found });
        if !(2..=3).contains(&axes) {
            return number("the number of axes", "2 or 3", axes.to_string());
        }
        let (counts, required) = match self.mask {
            ImageMask::Dense(all) => ([all.len(), 1], [rows.saturating_mul(columns), 1]),
            ImageMask::Separable(column, row) => ([column.len(), row.len()], [rows, columns]),
        };
        if counts != required || rows == 0 || columns == 0 {
            let found = format!("{counts:?} for a size of {:?}", self.size);
            return number("the number of coefficients", "at least 1, as the size says", found);
        }
        if self.anchor[0] >= rows || self.anchor[1] >= columns {
            return number("the anchor", "within the mask", format!("{:?} of {:?}", self.anchor, self.size));
        }
        Ok(())
    }
}

/// Coefficients times a power of two, so that the largest lies in 1..2, and the factor that undoes it. Weights of a
/// magnitude up to 2^-52 are left out of dense sums.
fn normalized(coefficients: &[f64]) -> (Vec<f64>, f64) {
    let largest = coefficients.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    // Within these bounds neither the factor nor its inverse overflows.
    let factor = if (1e-290..1e290).contains(&largest) { largest.log2().floor().exp2() } else { 1.0 };
    (coefficients.iter().map(|value| value / factor).collect(), factor)
}
