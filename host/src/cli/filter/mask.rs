//! The arguments of masks. Each `--then` begins another step of the filter.

use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, FromArgMatches, ValueHint};
use faltung::{Accuracy, Axis, Border, Filter, Gabor, Mask, Operation, WrittenMask};
use kernels_gpu::abi::params::MAX_SIDE;

use super::steps::{Kind, Step};

/// The value of a mask option.
#[derive(Clone, Debug)]
enum Choice {
    /// A file, or `-`.
    File(PathBuf),
    /// ImageMagick's notation.
    Kernel(String),
    /// A mask by formula, written for a convolution.
    Named(Mask),
    /// The magnitude of the gradient of two masks.
    Magnitude(fn(Axis) -> Mask),
    /// An unsharp mask: the difference from this blur, where it exceeds the threshold, times the amount.
    Unsharp { blur: Mask, amount: f32, threshold: f32 },
}

/// The arguments of one step. [`StepArgs::read`] checks that each has one value at most.
#[derive(Clone, Debug, Default)]
pub(super) struct StepArgs {
    /// Name and value of each mask option.
    masks: Vec<(&'static str, Choice)>,
    anchor: Vec<(usize, usize)>,
    scale: Vec<f32>,
    offset: Vec<f32>,
    normalize: Vec<()>,
}

/// The steps in their order, at least one.
#[derive(Clone, Debug)]
pub(super) struct MaskArgs {
    pub(super) steps: Vec<StepArgs>,
}

/// The mask options, and what messages call them.
const MASKS: [(&str, &str); 17] = [
    ("mask", "--mask"),
    ("kernel", "--kernel"),
    ("gaussian", "--gaussian"),
    ("box", "--box"),
    ("sobel", "--sobel"),
    ("scharr", "--scharr"),
    ("prewitt", "--prewitt"),
    ("laplacian", "--laplacian"),
    ("log", "--log"),
    ("sharpen", "--sharpen"),
    ("unsharp", "--unsharp"),
    ("emboss", "--emboss"),
    ("motion", "--motion"),
    ("disk", "--disk"),
    ("gabor", "--gabor"),
    ("identity", "--identity"),
    ("then", "--then"),
];

impl clap::Args for MaskArgs {
    fn augment_args(command: Command) -> Command {
        let heading = "Mask (exactly one, or one on each side of every --then)";
        let masks = MASKS.iter().map(|(id, _)| *id).filter(|id| *id != "then");
        let group = ArgGroup::new("masks").args(masks).required(true).multiple(true);
        command.args(masks_and_then().map(|arg| arg.help_heading(heading))).group(group).args(of_each_mask())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// An option that may be repeated, with its position among the arguments.
fn option<T: Clone + Send + Sync + 'static>(
    id: &'static str,
    value: &'static str,
    help: &'static str,
    parser: impl Fn(&str) -> Result<T> + Clone + Send + Sync + 'static,
) -> Arg {
    Arg::new(id).long(id).value_name(value).help(help).action(ArgAction::Append).value_parser(parser)
}

/// A flag of that kind. clap knows the positions only of options with values, so this flag has a default one.
fn flag<T: Clone + Send + Sync + 'static>(id: &'static str, help: &'static str, value: fn() -> T) -> Arg {
    option(id, "", help, move |_| Ok(value())).num_args(0).default_missing_value("true")
}

fn masks_and_then() -> [Arg; 17] {
    [
        Arg::new("mask")
            .long("mask")
            .value_name("FILE")
            .help(
                "A .npy file (2-D, any numbers) or a text: rows of numbers, or a libvips matrix \"W H [scale offset]\" \
                 then its rows (a first line that fits the rows after it is taken as that); - is the standard input",
            )
            .value_hint(ValueHint::FilePath)
            .action(ArgAction::Append)
            .value_parser(PathBufValueParser::new().map(Choice::File)),
        option(
            "kernel",
            "WxH: …",
            "ImageMagick's notation: \"3x3: 0,-1,0 -1,5,-1 0,-1,0\"; \"WxH+X+Y: …\" sets the anchor to column X, \
             row Y, too",
            |text| Ok(Choice::Kernel(text.to_owned())),
        ),
        option("gaussian", "SIGMA[:RADIUS]", "Gaussian blur; the radius is 4 SIGMA unless given", |text| {
            gaussian(text).map(Choice::Named)
        }),
        option(
            "box",
            "K|HxW",
            "Mean of K x K pixels, or of H rows of W. An even side reaches one pixel further to the left or upwards, \
             as in SciPy's uniform_filter and OpenCV's blur",
            |text| mean(text).map(Choice::Named),
        ),
        option(
            "sobel",
            "x|y|magnitude",
            "Sobel's derivative, positive where it gets brighter to the right (x) or downwards (y), with either --op; \
             magnitude: the square root of the sum of both squares, in which edges of all directions are bright",
            |text| derivative(text, Mask::sobel),
        ),
        option("scharr", "x|y|magnitude", "Scharr's derivative, otherwise as --sobel", |text| {
            derivative(text, Mask::scharr)
        }),
        option("prewitt", "x|y|magnitude", "Prewitt's derivative, otherwise as --sobel", |text| {
            derivative(text, Mask::prewitt)
        }),
        flag("laplacian", "Sum of the second differences: 0 1 0, 1 -4 1, 0 1 0", || Choice::Named(Mask::laplacian())),
        option("log", "SIGMA", "Laplacian of a Gaussian", |text| log(text).map(Choice::Named)),
        option("sharpen", "AMOUNT", "Sharpening: the image minus AMOUNT times its Laplacian; 1 is usual", |text| {
            sharpen(text).map(Choice::Named)
        }),
        option(
            "unsharp",
            "RADIUS[:AMOUNT[:THRESHOLD]]",
            "Unsharp mask: adds AMOUNT times the difference from a Gaussian blur. RADIUS is the Gaussian's standard \
             deviation in pixels, as in GIMP and Pillow; AMOUNT is a factor [1]: 1.5 is Pillow's 150 percent; a \
             difference of THRESHOLD or less adds nothing [0], in the picture's own values: 0 to 255, 65535 \
             or 1. Alpha stays as it is, unless --alpha plain sharpens it, too",
            unsharp,
        ),
        flag("emboss", "Relief, lit from the upper left", || Choice::Named(Mask::emboss())),
        option(
            "motion",
            "LEN:ANGLE",
            "Motion blur of LEN pixels; the angle in degrees, counter-clockwise from \"to the right\"",
            |text| motion(text).map(Choice::Named),
        ),
        option("disk", "R", "Blur of a lens out of focus, with this radius", |text| disk(text).map(Choice::Named)),
        option(
            "gabor",
            "WAVELENGTH:ANGLE[:SIGMA[:ASPECT[:PHASE]]]",
            "Gabor's filter for stripes: the WAVELENGTH in pixels, the ANGLE across the stripes as for --motion; SIGMA \
             along the wave is 0.56 wavelengths unless given, ASPECT 0.5, PHASE 0 degrees (bright lines; 90: edges)",
            |text| gabor(text).map(Choice::Named),
        ),
        flag("identity", "One coefficient, 1: for --scale, --offset and --output-type alone", || {
            Choice::Named(Mask::identity())
        }),
        flag("then", "Filter the result with a second mask, and so on: --gaussian 2 --then --sobel x", || ()),
    ]
}

/// The arguments that each mask has of its own.
fn of_each_mask() -> [Arg; 4] {
    [
        option(
            "anchor",
            "Y,X",
            "Row and column of the mask that stand over the output pixel [default: the middle, H/2,W/2]. With --then, \
             each mask has its own --anchor, --scale, --offset and --normalize: those that stand on its side",
            anchor,
        ),
        option("scale", "S", "Factor of every sum [default: 1, or what the mask's file says]", single),
        option("offset", "V", "What is added to every scaled sum [default: 0, or what the mask's file says]", single),
        flag("normalize", "Divide the mask by the sum of its coefficients, whatever scale its file says", || ()),
    ]
}

impl FromArgMatches for MaskArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let thens: Vec<usize> = matches.indices_of("then").into_iter().flatten().collect();
        let mut steps = vec![StepArgs::default(); thens.len() + 1];
        for (id, name) in MASKS.into_iter().filter(|(id, _)| *id != "then") {
            deal(matches, &thens, id, |step, choice: Choice| steps[step].masks.push((name, choice)));
        }
        deal(matches, &thens, "anchor", |step, anchor| steps[step].anchor.push(anchor));
        deal(matches, &thens, "scale", |step, scale| steps[step].scale.push(scale));
        deal(matches, &thens, "offset", |step, offset| steps[step].offset.push(offset));
        deal(matches, &thens, "normalize", |step, ()| steps[step].normalize.push(()));
        Ok(Self { steps })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Gives each value of an option to its step: the number of `--then` before it.
fn deal<T: Clone + Send + Sync + 'static>(
    matches: &ArgMatches,
    thens: &[usize],
    id: &str,
    mut give: impl FnMut(usize, T),
) {
    let places = matches.indices_of(id).into_iter().flatten();
    for (place, value) in places.zip(matches.get_many::<T>(id).into_iter().flatten()) {
        give(thens.partition_point(|&then| then < place), value.clone());
    }
}

/// The value of an option, if it was given once.
fn once<T: Copy>(name: &str, values: &[T]) -> Result<Option<T>> {
    ensure!(values.len() < 2, "{name} was given {} times for one mask", values.len());
    Ok(values.first().copied())
}

impl MaskArgs {
    /// The number of masks from the standard input.
    pub(super) fn on_standard_input(&self) -> usize {
        let masks = self.steps.iter().flat_map(|step| &step.masks);
        masks.filter(|(_, choice)| matches!(choice, Choice::File(path) if path == Path::new("-"))).count()
    }
}

impl StepArgs {
    /// The step. Reads the file of a mask. A mask by name has the same effect with both operations: its formula is for
    /// a convolution, and a correlation gets it rotated by 180°.
    pub(super) fn read(&self, operation: Operation, border: Border, accuracy: Accuracy) -> Result<Step> {
        let (name, choice) = match self.masks.as_slice() {
            [] => bail!("--then needs a mask before and after it, as in --gaussian 2 --then --sobel x"),
            [(name, choice)] => (*name, choice),
            [(first, _), (second, _), ..] => {
                bail!("{first} cannot be used with {second} for one step: --then goes between two masks")
            }
        };
        let filter = |mask: WrittenMask| -> Result<Filter> {
            Ok(self.filter(mask)?.operation(operation).border(border).accuracy(accuracy))
        };
        let named = |mask: &Mask| filter(written(mask.clone(), operation));
        let (filters, kind) = match choice {
            Choice::File(path) if path == Path::new("-") => {
                let mask = host::files::read_mask_from(&mut std::io::stdin().lock());
                (vec![filter(mask.context("--mask - (standard input)")?)?], Kind::Convolve)
            }
            Choice::File(path) => (vec![filter(host::files::read_mask(path).context("--mask")?)?], Kind::Convolve),
            Choice::Kernel(text) => (vec![filter(kernel(text)?)?], Kind::Convolve),
            Choice::Named(mask) => (vec![named(mask)?], Kind::Convolve),
            Choice::Magnitude(derivative) => {
                (vec![named(&derivative(Axis::X))?, named(&derivative(Axis::Y))?], Kind::Magnitude)
            }
            &Choice::Unsharp { ref blur, amount, threshold } => {
                for (is_missing, option) in
                    [(self.normalize.is_empty(), "--normalize"), (self.anchor.is_empty(), "--anchor")]
                {
                    ensure!(
                        is_missing,
                        "{option} can't be used with {name}, whose blur sums to 1 and lies in the middle"
                    );
                }
                (vec![named(blur)?], Kind::Unsharp { amount, threshold })
            }
        };
        Step::new(name, kind, filters)
    }

    /// The filter of a mask, with its arguments.
    fn filter(&self, mut mask: WrittenMask) -> Result<Filter> {
        if once("--normalize", &self.normalize)?.is_some() {
            mask.mask = mask.mask.normalized().context("--normalize")?;
            mask.scale = None;
        }
        mask.anchor = once("--anchor", &self.anchor)?.or(mask.anchor);
        mask.scale = once("--scale", &self.scale)?.or(mask.scale);
        mask.offset = once("--offset", &self.offset)?.or(mask.offset);
        Ok(mask.into())
    }
}

/// A mask by formula, for this operation. Where it has no middle, it reaches further to the left and upwards with
/// either.
fn written(mask: Mask, operation: Operation) -> WrittenMask {
    match operation {
        Operation::Correlate => mask.rotated_180().into(),
        Operation::Convolve => {
            let anchor = Some(((mask.height() - 1) / 2, (mask.width() - 1) / 2));
            WrittenMask { anchor, ..mask.into() }
        }
    }
}

/// A mask in ImageMagick's notation.
fn kernel(text: &str) -> Result<WrittenMask> {
    let name = text.trim_start().split([':', ',', ' ']).next().unwrap_or_default();
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.parse::<f32>().is_err();
    ensure!(
        !is_name,
        "--kernel reads numbers, such as \"3x3: 0,-1,0 -1,5,-1 0,-1,0\", and not the kernel named \"{name}\": \
         --gaussian, --disk, --sobel, --laplacian and others are masks by name"
    );
    WrittenMask::from_kernel(text).map_err(|error| match error {
        faltung::Error::Parse { required, found, .. } => {
            anyhow!("--kernel: {required} was expected, not \"{found}\"")
        }
        other => anyhow::Error::new(other).context("--kernel"),
    })
}

fn derivative(text: &str, mask: fn(Axis) -> Mask) -> Result<Choice> {
    match text {
        "x" => Ok(Choice::Named(mask(Axis::X))),
        "y" => Ok(Choice::Named(mask(Axis::Y))),
        "magnitude" => Ok(Choice::Magnitude(mask)),
        _ => Err(anyhow!("x or y or magnitude was expected")),
    }
}

fn unsharp(text: &str) -> Result<Choice> {
    let parts: Vec<&str> = text.split(':').collect();
    ensure!((1..=3).contains(&parts.len()), "RADIUS[:AMOUNT[:THRESHOLD]] was expected, such as 2:1.5:3");
    let part = |place: usize, default: f32| parts.get(place).map_or(Ok(default), |text| single(text));
    let (radius, amount, threshold) = (number(parts[0])?, part(1, 1.0)?, part(2, 0.0)?);
    ensure!(radius > 0.0, "the radius must be a number above 0, not {radius}");
    ensure!(radius.is_finite(), "the radius must be finite, not {radius}");
    ensure!(amount.is_finite(), "the amount must be a finite number, not {amount}");
    ensure!(threshold >= 0.0, "the threshold must be 0 or more, not {threshold}");
    ensure!(threshold.is_finite(), "the threshold must be finite, not {threshold}");
    Ok(Choice::Unsharp { blur: Mask::gaussian(radius, None)?, amount, threshold })
}

/// A number as f32.
fn single(text: &str) -> Result<f32> {
    let number: f32 = text.parse().map_err(|_| anyhow!("a number was expected, not \"{text}\""))?;
    let is_written_out = !text.contains(|digit: char| digit.is_ascii_digit());
    ensure!(number.is_finite() || is_written_out, "{text} is too large: a number from -3.4e38 to 3.4e38 was expected");
    Ok(number)
}

fn anchor(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once(',').and_then(|(y, x)| Some((y.trim().parse().ok()?, x.trim().parse().ok()?)));
    parsed.ok_or_else(|| anyhow!("a row and a column of the mask were expected, such as 0,2"))
}

fn number(text: &str) -> Result<f64> {
    text.parse().map_err(|_| anyhow!("a number was expected, not \"{text}\""))
}

fn count(text: &str) -> Result<usize> {
    text.parse().map_err(|error: ParseIntError| match error.kind() {
        IntErrorKind::PosOverflow => anyhow!("{text} is too large: at most {MAX_SIDE} is possible"),
        _ => anyhow!("a whole number was expected, not \"{text}\""),
    })
}

fn gaussian(text: &str) -> Result<Mask> {
    let (sigma, radius) = match text.split_once(':') {
        Some((sigma, radius)) => (sigma, Some(count(radius)?)),
        None => (text, None),
    };
    Ok(Mask::gaussian(number(sigma)?, radius)?)
}

fn mean(text: &str) -> Result<Mask> {
    let (height, width) = text.split_once(['x', 'X']).unwrap_or((text, text));
    Ok(Mask::average(count(width)?, count(height)?)?)
}

fn log(text: &str) -> Result<Mask> {
    Ok(Mask::laplacian_of_gaussian(number(text)?)?)
}

fn sharpen(text: &str) -> Result<Mask> {
    Ok(Mask::sharpen(number(text)?)?)
}

fn disk(text: &str) -> Result<Mask> {
    Ok(Mask::disk(number(text)?)?)
}

fn motion(text: &str) -> Result<Mask> {
    let (length, angle) = text.split_once(':').ok_or_else(|| anyhow!("LEN:ANGLE was expected, such as 9:45"))?;
    Ok(Mask::motion(number(length)?, number(angle)?)?)
}

fn gabor(text: &str) -> Result<Mask> {
    let numbers = text.split(':').map(number).collect::<Result<Vec<_>>>()?;
    ensure!((2..=5).contains(&numbers.len()), "two to five numbers were expected, such as 8:45 or 8:45:4:0.5:90");
    let mut gabor = Gabor::new(numbers[0], numbers[1]);
    gabor.sigma = numbers.get(2).copied();
    gabor.aspect = numbers.get(3).copied().unwrap_or(gabor.aspect);
    gabor.phase = numbers.get(4).copied().unwrap_or(gabor.phase);
    Ok(Mask::gabor(&gabor)?)
}
