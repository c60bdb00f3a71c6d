//! A problem cut into strips of rows, for devices whose memory can't hold the whole of it.
//!
//! A strip is a small problem of its own: the rows of the image under the windows of some output rows, put one below
//! the other. Where the border repeats rows of the image (clamped, reflected, wrapped), the host puts those in their
//! places; under a constant border the strip ends where the image ends, and the kernel finds the value outside as ever.
//! A sum has the same products in the same order, so its bits are those of the whole image. A transform keeps its
//! bound.

use std::ops::Range;

use crate::Problem;
use crate::gather::{AxisWindow, Gathered};
use crate::plan::{Plan, device_pitch};

/// A strip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strip {
    /// The rows of the image that it computes.
    pub(crate) outputs: Range<usize>,
    /// The rows of the image that it is made of, as ranges of neighbouring ones.
    pub(crate) source: Vec<Range<usize>>,
    /// The number of those.
    pub(crate) height: usize,
    /// Which row of the strip the first output is.
    pub(crate) first: usize,
}

impl Strip {
    /// The whole image as one strip.
    pub(crate) fn whole(problem: &Problem) -> Self {
        let height = problem.height();
        Self { outputs: 0..height, source: std::iter::once(0..height).collect(), height, first: 0 }
    }

    /// The outputs as rows of the strip.
    pub(crate) fn rows(&self) -> Range<usize> {
        self.first..self.first + self.outputs.len()
    }

    /// The strip that computes `outputs`.
    fn new(problem: &Problem, outputs: Range<usize>) -> Self {
        let window = AxisWindow { side: problem.window().height(), origin: problem.origin().0 };
        let Gathered { source, length, first } =
            Gathered::new(problem.border().mode(), problem.height(), window, &outputs);
        Self { outputs, source, height: length, first }
    }
}

/// The strips of `rows` output rows each; the last has what is left.
fn strips(problem: &Problem, rows: usize) -> impl Iterator<Item = Strip> {
    let height = problem.height();
    (0..height).step_by(rows).map(move |start| Strip::new(problem, start..(start + rows).min(height)))
}

/// How a problem is cut for a device, and the buffers that each strip uses in turn.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// One for the whole image, or several.
    pub(crate) strips: Vec<Strip>,
    /// Bytes of the source.
    pub(crate) source_bytes: usize,
    /// Bytes of the result.
    pub(crate) result_bytes: usize,
    /// Bytes of scratch memory and of the planes that the channels are computed in, or 0.
    pub(crate) planes_bytes: usize,
}

impl Cut {
    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.source_bytes + self.result_bytes + self.planes_bytes
    }

    /// The whole image if its source and result take at most `budget` bytes, else the largest strips that do; or, if
    /// not even strips of one output row do, the bytes that those would take.
    pub(crate) fn new(problem: &Problem, plan: &Plan, budget: usize) -> Result<Self, usize> {
        let format = problem.format();
        let row_bytes = |bytes: usize| device_pitch(problem.row_values(), bytes) * bytes;
        let (source_row, result_row) = (row_bytes(format.input.bytes()), row_bytes(format.output.bytes()));
        let (planes_row, scratch) = (plan.planes_row_bytes(), plan.scratch_bytes());
        let row = source_row + result_row + planes_row;
        let sized = |strips, height| Self {
            strips,
            source_bytes: height * source_row,
            result_bytes: height * result_row,
            planes_bytes: height * planes_row + scratch,
        };
        let needed = |rows: usize| row.checked_mul(rows).and_then(|bytes| bytes.checked_add(scratch));
        if needed(problem.height()).is_some_and(|bytes| bytes <= budget) {
            return Ok(sized(vec![Strip::whole(problem)], problem.height()));
        }
        let rows = budget.checked_sub(scratch).and_then(|budget| rows_that_fit(problem, row, budget));
        let rows = rows.ok_or(row * problem.window().height() + scratch)?;
        // With the bits of the whole image. There are two exceptions for an entry with such steps: memory may be too
        // small for even one of them, and a transform of the last tile also reads the rows below the last output.
        let step = plan.launch_row_alignment();
        let rows = if rows >= step { rows / step * step } else { rows };
        // Of a constant border rows are missing at the ends of the image: no strip has more than this.
        Ok(sized(strips(problem, rows).collect(), rows + problem.window().height() - 1))
    }
}

/// The most output rows of a strip for which `bytes` of memory are enough, a row of source and result together
/// taking `row_bytes`; None if a strip of one row takes more. At most half of the image: the whole of it did not fit.
fn rows_that_fit(problem: &Problem, row_bytes: usize, bytes: usize) -> Option<usize> {
    let rows = (bytes / row_bytes).checked_sub(problem.window().height() - 1)?.min(problem.height().div_ceil(2));
    (rows > 0).then_some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu;
    use crate::{Border, Filter, Image, Mask};

    /// Strips computed one by one, as a device would, have the bits of the whole.
    #[test]
    fn strips_are_the_whole() {
        let borders =
            [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];
        let seed = 77;
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for case in 0..400 {
            let (width, height) = (random.usize(1..6), random.usize(1..30));
            let (mask_width, mask_height) = (random.usize(1..4), random.usize(1..40));
            let mask = (0..mask_width * mask_height).map(|_| random.f32() - 0.5).collect();
            let filter = Filter::new(Mask::new(mask_width, mask_height, mask).unwrap())
                .border(borders[case % borders.len()])
                .anchor(random.usize(..mask_height), random.usize(..mask_width));
            let problem = Problem::new(width, height, &filter).unwrap();
            let image = Image::from_fn(width, height, |_, _| random.f32()).unwrap();
            let mut whole = vec![0.0; width * height];
            cpu::reference(&problem, image.values(), &mut whole);

            let rows = random.usize(1..=height);
            let mut joined = Vec::new();
            for strip in strips(&problem, rows) {
                assert!(strip.height < rows + mask_height && strip.first + strip.outputs.len() <= strip.height);
                let source: Vec<f32> =
                    strip.source.iter().cloned().flatten().flat_map(|row| image.row(row)).copied().collect();
                let part = Problem::new(width, strip.height, &filter).unwrap();
                let mut result = vec![0.0; source.len()];
                cpu::reference(&part, &source, &mut result);
                joined.extend_from_slice(&result[strip.first * width..][..strip.outputs.len() * width]);
            }
            assert_eq!(joined, whole, "{filter:?}, {width} x {height} by {rows}");
        }
    }

    #[test]
    fn what_fits_is_counted() {
        let filter = Filter::new(Mask::new(1, 5, vec![1.0; 5]).unwrap());
        let problem = Problem::new(10, 100, &filter).unwrap();
        assert_eq!(rows_that_fit(&problem, 80, 80 * 24 + 79), Some(20));
        assert_eq!(rows_that_fit(&problem, 80, 80 * 5), Some(1));
        assert_eq!(rows_that_fit(&problem, 80, 80 * 5 - 1), None);
        assert_eq!(rows_that_fit(&problem, 80, 0), None);
        assert_eq!(rows_that_fit(&problem, 80, usize::MAX), Some(50));
    }
}
