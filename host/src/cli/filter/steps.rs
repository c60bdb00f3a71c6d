//! The computation of one picture: its steps, from the file's type to the result's type.
//!
//! A single mask that needs only its sums runs on the device from the input type to the output type
//! ([`Steps::direct`]). Any other picture is converted to `f32` once, filtered by each step, and rounded once. Where
//! both are possible, their results are bit-exact with each other.

use anyhow::{Result, bail};
use faltung::{AnyImage, Border, Filter, Image, Pixel, PixelType, Problem, each_type, for_pixel_type, white};
use host::files::{Content, Picture};
use rayon::prelude::*;

use super::alpha::{self, Alpha};
use super::compute::{Compute, Task};
use super::light;
use super::saturation::{self, Count, Saturation};

/// The result of a step, from the sums of its masks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// The sums.
    Convolve,
    /// The length of the gradient whose components are the sums of two masks.
    Magnitude,
    /// The value and `amount` times its difference from the blur, where that is above the threshold.
    Unsharp { amount: f32, threshold: f32 },
}

/// One mask, or two for [`Kind::Magnitude`], with its arguments.
#[derive(Debug)]
pub(super) struct Step {
    /// The option of the command line.
    name: &'static str,
    kind: Kind,
    /// The filters of the masks. [`Steps::new`] moves them to [`Steps::filters`].
    filters: Vec<Filter>,
    /// The index of the first of them in [`Steps::filters`].
    first: usize,
    scale: f32,
    offset: f32,
    /// Whether results are the sums themselves.
    is_plain: bool,
    alpha: Alpha,
    /// The sum of the coefficients, in the order of the device: the result for a window of ones.
    whole: f32,
}

impl Step {
    /// Checks what does not depend on the picture.
    pub(super) fn new(name: &'static str, kind: Kind, filters: Vec<Filter>) -> Result<Self> {
        let problem = Problem::new(1, 1, &filters[0])?;
        let (scale, offset) = problem.scale_and_offset();
        let whole = problem.window().coefficients().iter().fold(0.0_f32, |sum, &one| one.mul_add(1.0, sum));
        let (first, alpha, is_plain) = (0, Alpha::Weighted, problem.is_plain());
        let mut step = Self { name, kind, filters, first, scale, offset, is_plain, alpha, whole };
        let coefficients = step.filters[0].mask()?.coefficients().len();
        // With one coefficient a result depends on one pixel, so there is nothing to weigh.
        if !step.can_weigh() || coefficients == 1 {
            step.alpha = Alpha::Keep;
        }
        Ok(step)
    }

    /// Whether the step can weigh colours by alpha: its coefficients have a sum by which to divide.
    fn can_weigh(&self) -> bool {
        self.kind != Kind::Magnitude
            && self.filters[0].mask().is_ok_and(|mask| !mask.sums_to_zero())
            && self.whole != 0.0
            && self.whole.is_finite()
    }

    /// Scales and offsets a sum, as the device does.
    fn finish(&self, sum: f32) -> f32 {
        if self.is_plain { sum } else { sum.mul_add(self.scale, self.offset) }
    }
}

/// All steps.
#[derive(Debug)]
pub(super) struct Steps {
    /// The filters of all steps.
    pub(super) filters: Vec<Filter>,
    steps: Vec<Step>,
    border: Border,
    linear: bool,
}

/// A picture between two steps, in `f32`. The values have the scale of its file's type.
struct Planes {
    /// The colours. Alpha is among them if it is filtered like a colour.
    colours: Image<f32>,
    alpha: Option<Image<f32>>,
}

impl Planes {
    /// Converts colours that are multiplied by alpha: divides by alpha, converts, and multiplies again. Where alpha is
    /// 0, the colours become 0.
    fn for_straight_colours(&mut self, pixel: PixelType, convert: impl Fn(f32) -> f32 + Sync) {
        let opaque = white(pixel);
        self.for_visible_colours(|value, alpha| {
            let weight = alpha / opaque;
            convert(value / weight) * weight
        });
    }

    /// Divides colours by alpha. `opaque` is the alpha of an opaque pixel.
    fn divide_by_alpha(&mut self, opaque: f32) {
        self.for_visible_colours(|value, alpha| value * opaque / alpha);
    }

    /// Converts each colour with its alpha. Where alpha is 0, the colours become 0.
    fn for_visible_colours(&mut self, convert: impl Fn(f32, f32) -> f32 + Sync) {
        let channels = self.colours.channels();
        let planar = self.alpha.as_ref().map(Image::values);
        let pixels = self.colours.values_mut().par_chunks_exact_mut(channels);
        pixels.enumerate().for_each(|(place, pixel)| {
            let (colours, alpha) = match planar {
                Some(alpha) => (pixel, alpha[place]),
                None => {
                    let (alpha, colours) = pixel.split_last_mut().expect("a pixel has channels");
                    (colours, *alpha)
                }
            };
            for value in colours {
                *value = if alpha <= 0.0 { 0.0 } else { convert(*value, alpha) };
            }
        });
    }
}

/// The settings that all steps of a picture share.
#[derive(Clone, Copy)]
struct Setting {
    pixel: PixelType,
    /// Whether colours are multiplied by alpha.
    premultiplied: bool,
    border: Border,
    exact: bool,
    opaque: bool,
}

impl Steps {
    /// Steps, all with this treatment of alpha if one is given.
    pub(super) fn new(mut steps: Vec<Step>, alpha: Option<Alpha>, linear: bool) -> Result<Self> {
        let mut filters = Vec::new();
        for step in &mut steps {
            if alpha == Some(Alpha::Weighted) && !step.can_weigh() {
                bail!(
                    "--alpha weighted can't be used with {}: the mask's coefficients sum to 0, so that there is no \
                     mean to be weighted (--alpha keep or plain; without --alpha each mask has what suits it)",
                    step.name
                );
            }
            step.alpha = alpha.unwrap_or(step.alpha);
            step.first = filters.len();
            filters.append(&mut step.filters);
        }
        let border = Problem::new(1, 1, &filters[0])?.border();
        Ok(Self { filters, steps, border, linear })
    }

    /// Whether values are decoded to linear light.
    pub(super) fn is_linear(&self) -> bool {
        self.linear
    }

    /// Whether the result is the sums of one mask. Then most pictures are computed from type to type, and others in
    /// planes of `f32`.
    pub(super) fn is_single_convolution(&self) -> bool {
        matches!(&self.steps[..], [step] if step.kind == Kind::Convolve) && !self.linear
    }

    /// Bytes that a value takes while it is computed, beside those of input and output: 0 if that depends on the
    /// picture.
    pub(super) fn bytes_between(&self) -> u64 {
        // The values, their blur or second derivative, and what the device works with.
        let many = self.steps.len() > 1 || self.linear || self.steps[0].kind != Kind::Convolve;
        if many { 3 * size_of::<f32>() as u64 } else { 0 }
    }

    /// A picture's values after all steps, and how many of them saturated. If `straight`, colours that are multiplied
    /// by alpha are divided by it at the end.
    pub(super) fn apply(
        &self,
        compute: &mut Compute<'_>,
        picture: &Picture,
        output: PixelType,
        straight: bool,
    ) -> host::Result<(AnyImage, Saturation)> {
        each_type!(&picture.pixels, image => self.apply_to(compute, image, picture, output, straight))
    }

    fn apply_to<T: Pixel>(
        &self,
        compute: &mut Compute<'_>,
        image: &Image<T>,
        picture: &Picture,
        output: PixelType,
        straight: bool,
    ) -> host::Result<(AnyImage, Saturation)> {
        for_pixel_type!(output, U => {
            let (image, saturation) = self.convert::<T, U>(compute, image, picture, straight)?;
            Ok((image.into(), saturation))
        })
    }

    fn convert<T: Pixel, U: Pixel>(
        &self,
        compute: &mut Compute<'_>,
        image: &Image<T>,
        picture: &Picture,
        straight: bool,
    ) -> host::Result<(Image<U>, Saturation)> {
        let content = picture.content;
        let has_alpha = content.has_alpha(image.channels());
        let premultiplied = has_alpha && (content == Content::LinearLight || picture.metadata.premultiplied);
        let planar_alpha = has_alpha && self.steps.iter().any(|step| step.alpha != Alpha::Plain);
        let linear = self.linear && content != Content::LinearLight;
        let opaque = planar_alpha && alpha::is_opaque(image);
        let divides = straight && premultiplied;
        if let [step] = self.steps.as_slice()
            && step.kind == Kind::Convolve
            && !linear
            && (!divides || opaque)
            && (!planar_alpha || opaque || step.alpha == Alpha::Keep)
        {
            return self.direct(compute, image, planar_alpha);
        }
        let border = match self.border {
            Border::Constant(value) if linear => Border::Constant(light::decode(value, T::TYPE)),
            other => other,
        };
        let coloured = image.channels() - usize::from(has_alpha);
        // Integers must be bit-exact with the exact sums. From `f32` to `f32` the class that was asked for decides.
        let exact = T::TYPE != PixelType::F32 || U::TYPE != PixelType::F32;
        let setting = Setting { pixel: T::TYPE, premultiplied, border, exact, opaque };
        let for_plain_alpha = Setting { border: self.border, ..setting };
        let plain_alone = has_alpha && !planar_alpha && !setting.border.is_same(self.border);

        let mut planes = split(image, planar_alpha || plain_alone)?;
        if linear {
            if premultiplied {
                planes.for_straight_colours(T::TYPE, |value| light::decode(value, T::TYPE));
            } else {
                light::decode_image(&mut planes.colours, coloured, T::TYPE);
            }
        }
        for step in &self.steps {
            let plain = planes.alpha.take_if(|_| plain_alone);
            planes = step.run(compute, planes, &setting)?;
            if let Some(colours) = plain {
                planes.alpha = Some(step.run(compute, Planes { colours, alpha: None }, &for_plain_alpha)?.colours);
            }
        }
        if linear {
            if premultiplied {
                planes.for_straight_colours(T::TYPE, |value| light::encode(value, T::TYPE));
            } else {
                light::encode_image(&mut planes.colours, coloured, T::TYPE);
            }
        }
        if divides {
            // Alpha keeps its numbers, unless it is converted like a colour.
            planes.divide_by_alpha(white(if planar_alpha { T::TYPE } else { U::TYPE }));
        }
        join(&planes)
    }

    /// Runs the only step, from type to type. If `keep`, the last channel is alpha and stays as it is.
    fn direct<T: Pixel, U: Pixel>(
        &self,
        compute: &mut Compute<'_>,
        image: &Image<T>,
        keep: bool,
    ) -> host::Result<(Image<U>, Saturation)> {
        let task = Task { filter: 0, border: self.border, exact: false, sums: false };
        let mut result: Image<U> = compute.run(task, image)?;
        let channels = image.channels();
        if keep {
            let pixels = result.values_mut().par_chunks_exact_mut(channels);
            pixels.zip(image.values().par_chunks_exact(channels)).for_each(|(to, from)| {
                to[channels - 1] = U::from_f32(from[channels - 1].to_f32());
            });
        }
        let coloured = channels - usize::from(keep);
        let saturation = saturation::estimate(compute.problem(), image, &result, coloured);
        Ok((result, saturation))
    }
}

impl Step {
    fn run(&self, compute: &mut Compute<'_>, planes: Planes, setting: &Setting) -> host::Result<Planes> {
        let Planes { mut colours, mut alpha } = planes;
        let task = Task { filter: self.first, border: setting.border, exact: setting.exact, sums: true };
        let straight = !setting.premultiplied;
        let weighs = self.alpha == Alpha::Weighted && !setting.opaque;
        match self.kind {
            Kind::Convolve => {
                if let Some(alpha) = alpha.as_mut().filter(|_| weighs) {
                    let weights = weights(alpha, setting.pixel);
                    if straight {
                        alpha::weigh(&mut colours, &weights);
                    }
                    colours = compute.run(task, &colours)?;
                    let means = self.mean_weights(compute, &weights, setting)?;
                    if straight {
                        alpha::divide(&mut colours, &means);
                        self.finish_visible(&mut colours, &means);
                    } else {
                        self.finish_weighted(&mut colours, &means);
                    }
                    *alpha = means;
                    alpha::from_means(alpha, setting.pixel);
                } else {
                    colours = compute.run(task, &colours)?;
                    each(&mut colours, |sum| self.finish(sum));
                }
            }
            Kind::Magnitude => {
                let other = Task { filter: self.first + 1, ..task };
                let along_y: Image<f32> = compute.run(other, &colours)?;
                colours = compute.run(task, &colours)?;
                let both = colours.values_mut().par_iter_mut().zip(along_y.values().par_iter());
                both.for_each(|(x, &y)| *x = self.finish(length(*x, y)));
            }
            Kind::Unsharp { amount, threshold } => {
                let blurred: Image<f32> = match alpha.as_ref().filter(|_| weighs) {
                    Some(alpha) if straight => {
                        let weights = weights(alpha, setting.pixel);
                        let mut weighted = copy(&colours)?;
                        alpha::weigh(&mut weighted, &weights);
                        let mut blurred = compute.run(task, &weighted)?;
                        alpha::divide(&mut blurred, &self.mean_weights(compute, &weights, setting)?);
                        blurred
                    }
                    // The sharpened pixel keeps its alpha, so the blur is multiplied by the alpha of the pixel.
                    Some(alpha) => {
                        let weights = weights(alpha, setting.pixel);
                        let mut blurred = compute.run(task, &colours)?;
                        alpha::divide(&mut blurred, &self.mean_weights(compute, &weights, setting)?);
                        alpha::weigh(&mut blurred, &weights);
                        blurred
                    }
                    None => compute.run(task, &colours)?,
                };
                let both = colours.values_mut().par_iter_mut().zip(blurred.values().par_iter());
                both.for_each(|(value, &blurred)| {
                    let difference = *value - blurred;
                    // NaN propagates to the result.
                    let sharp = if difference.abs() <= threshold { *value } else { amount.mul_add(difference, *value) };
                    *value = self.finish(sharp);
                });
            }
        }
        Ok(Planes { colours, alpha })
    }

    /// The mean of the weights under the mask.
    fn mean_weights(
        &self,
        compute: &mut Compute<'_>,
        weights: &Image<f32>,
        setting: &Setting,
    ) -> host::Result<Image<f32>> {
        let border = match setting.border {
            Border::Constant(_) => Border::Constant(1.0),
            other => other,
        };
        // The sums are exact, so that a window of ones gives `whole`.
        let mut means: Image<f32> =
            compute.run(Task { filter: self.first, border, exact: true, sums: true }, weights)?;
        each(&mut means, |sum| sum / self.whole);
        Ok(means)
    }

    /// Scales and offsets colours that are not multiplied by alpha. Colours with a mean weight of 0 stay 0.
    fn finish_visible(&self, colours: &mut Image<f32>, means: &Image<f32>) {
        let channels = colours.channels();
        let pixels = colours.values_mut().par_chunks_exact_mut(channels).zip(means.values().par_iter());
        pixels.filter(|(_, mean)| mean.is_nan() || **mean > 0.0).for_each(|(pixel, _)| {
            pixel.iter_mut().for_each(|value| *value = self.finish(*value));
        });
    }

    /// Scales and offsets colours that are multiplied by alpha. So the offset is multiplied by alpha, too.
    fn finish_weighted(&self, colours: &mut Image<f32>, means: &Image<f32>) {
        let channels = colours.channels();
        let pixels = colours.values_mut().par_chunks_exact_mut(channels).zip(means.values().par_iter());
        pixels.for_each(|(pixel, mean)| {
            let offset = self.offset * mean.max(0.0);
            pixel.iter_mut().for_each(|value| *value = value.mul_add(self.scale, offset));
        });
    }
}

/// The length of a gradient, rounded once. In `f64` the squares of two `f32` and their sum do not overflow, and their
/// rounding does not show in `f32`.
fn length(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    (x * x + y * y).sqrt() as f32
}

fn each(image: &mut Image<f32>, convert: impl Fn(f32) -> f32 + Sync) {
    image.values_mut().par_iter_mut().for_each(|value| *value = convert(*value));
}

fn copy(image: &Image<f32>) -> host::Result<Image<f32>> {
    let mut copy = Image::zeros(image.width(), image.height(), image.channels())?;
    copy.values_mut().copy_from_slice(image.values());
    Ok(copy)
}

/// Alpha as a part of the alpha of an opaque pixel.
fn weights(alpha: &Image<f32>, pixel: PixelType) -> Image<f32> {
    let opaque = white(pixel);
    alpha.map(|alpha| alpha / opaque)
}

/// Converts values to `f32`. If `planar_alpha`, the last channel is alpha and becomes a plane of its own.
fn split<T: Pixel>(image: &Image<T>, planar_alpha: bool) -> host::Result<Planes> {
    let (width, height, channels) = (image.width(), image.height(), image.channels());
    let taken = channels - usize::from(planar_alpha);
    let mut colours = Image::<f32>::zeros(width, height, taken)?;
    let pixels = image.values().par_chunks_exact(channels);
    colours.values_mut().par_chunks_exact_mut(taken).zip(pixels.clone()).for_each(|(to, from)| {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32());
    });
    if !planar_alpha {
        return Ok(Planes { colours, alpha: None });
    }
    let mut alpha = Image::<f32>::zeros(width, height, 1)?;
    alpha.values_mut().par_iter_mut().zip(pixels).for_each(|(to, from)| *to = from[channels - 1].to_f32());
    Ok(Planes { colours, alpha: Some(alpha) })
}

/// Rounds the values to the type of the result, and counts the colours that saturate. No other function rounds them.
fn join<U: Pixel>(planes: &Planes) -> host::Result<(Image<U>, Saturation)> {
    let Planes { colours, alpha } = planes;
    let taken = colours.channels();
    let channels = taken + usize::from(alpha.is_some());
    let mut image = Image::<U>::zeros(colours.width(), colours.height(), channels)?;
    let pixels = image.values_mut().par_chunks_exact_mut(channels).zip(colours.values().par_chunks_exact(taken));
    let count = pixels.enumerate().map(|(place, (to, from))| {
        let mut count = Count::default();
        for (to, &from) in to.iter_mut().zip(from) {
            count.add(from, U::TYPE);
            *to = U::from_f32(from);
        }
        if let Some(alpha) = alpha {
            to[taken] = U::from_f32(alpha.values()[place]);
        }
        count
    });
    let count = count.reduce(Count::default, Count::and);
    Ok((image, count.of(colours.values().len())))
}
