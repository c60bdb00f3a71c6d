//! `host filter`: pictures through a mask.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use host::files::{Existing, Picture, Pixels};
use host::kernels_gpu::entries::Variant;
use host::{
    Border, Convolution, Device, DeviceChoice, Error, Filter, Image, Layout, Operation, Pixel, PixelType, Problem,
    VariantChoice,
};
use indicatif::{ProgressBar, ProgressStyle};

use super::mask::MaskArgs;
use super::paths::{self, Job};
use super::{OrUsage, Outcome, interrupt, output};

/// Filter pictures: convolve each with a mask
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "host filter [OPTIONS] <INPUT>... -o <OUTPUT> <MASK>")]
pub(super) struct Args {
    /// Pictures; a quoted pattern such as "photos/*.jpg" works, too
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// Where the result goes. Its extension names the format. For several inputs: a folder, or a pattern such as
    /// "out/{stem}.png"; {ext} is the input's extension
    #[arg(short, long, value_name = "OUTPUT")]
    output: PathBuf,

    /// convolve turns the mask by 180°, as scipy.ndimage.convolve does; correlate does not, as OpenCV's filter2D
    #[arg(long, value_name = "OP", default_value = "convolve", value_parser = operation(), hide_possible_values = false)]
    op: Operation,

    /// What lies outside of the picture: zero; constant:VALUE; clamp (aaa|abcd|ddd); reflect (dcba|abcd|dcba, NumPy's
    /// "symmetric"); mirror (dcb|abcd|cba, also called reflect101; NumPy's and PyTorch's "reflect"); wrap (bcd|abcd|abc)
    #[arg(long, default_value = "zero")]
    border: Border,

    /// Row and column of the mask that stand over the output pixel [default: the middle, H/2,W/2]
    #[arg(long, value_name = "Y,X", value_parser = anchor)]
    anchor: Option<(usize, usize)>,

    /// Factor of every sum [default: 1, or what the mask's file says]
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    scale: Option<f32>,

    /// What is added to every scaled sum [default: 0, or what the mask's file says]
    #[arg(long, value_name = "V", allow_negative_numbers = true)]
    offset: Option<f32>,

    /// Divide the mask by the sum of its coefficients, whatever scale its file says
    #[arg(long)]
    normalize: bool,

    /// Type of the output's values [default: the input's]. Values are not rescaled: u8 as f32 is 0 to 255. Integers are
    /// rounded half to even and saturated
    #[arg(long, value_name = "TYPE", value_parser = super::pixel_type())]
    output_type: Option<PixelType>,

    /// auto (the first CUDA device, else the CPU), cpu, cuda:N for the CUDA device with this number, or emulator: the GPU's
    /// kernels on the CPU, slowly, with every access checked
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,

    /// The kernel that computes; auto takes the one that suits the mask
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = variant())]
    variant: VariantChoice,

    /// Replace output files that exist
    #[arg(long)]
    overwrite: bool,

    /// Copy the alpha channel instead of filtering it with the others
    #[arg(long)]
    keep_alpha: bool,

    /// Only errors on the standard error: no notes, no progress bar
    #[arg(short, long)]
    quiet: bool,

    #[command(flatten)]
    mask: MaskArgs,
}

const EXAMPLES: &str = "\
Examples:
  host filter photo.jpg -o soft.png --gaussian 3 --border mirror
  host filter photo.jpg -o edges.png --sobel x --scale 0.25 --offset 128
  host filter scan.tif -o sharp.tif --kernel \"3x3: 0,-1,0 -1,5,-1 0,-1,0\"
  host filter image.npy -o result.npy --mask mask.npy --op correlate --output-type f32
  host filter \"photos/*.jpg\" -o \"out/{stem}.png\" --box 5
  echo \"1 2 1\" | host filter a.png -o b.png --mask - --normalize

Files: PNG, JPEG, TIFF, BMP, PGM/PPM/PAM, WebP, QOI, OpenEXR, and .npy of two dimensions or of \
height x width x channels. Values are taken as stored, without gamma. Pictures are turned as their \
EXIF orientation asks; an ICC profile stays. Output files appear whole or not at all.";

fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(["convolve", "correlate"]).map(|name| match name.as_str() {
        "correlate" => Operation::Correlate,
        _ => Operation::Convolve,
    })
}

fn variant() -> impl TypedValueParser<Value = VariantChoice> {
    let names = std::iter::once("auto").chain(Variant::ALL.map(Variant::name));
    PossibleValuesParser::new(names).map(|name| {
        let variant = Variant::ALL.into_iter().find(|variant| variant.name() == name);
        variant.map_or(VariantChoice::Auto, VariantChoice::Exactly)
    })
}

fn anchor(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once(',').and_then(|(y, x)| Some((y.trim().parse().ok()?, x.trim().parse().ok()?)));
    parsed.ok_or_else(|| anyhow!("a row and a column of the mask were expected, such as 0,2"))
}

/// Filters all inputs.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let filter = args.filter().or_usage()?;
    let jobs = paths::jobs(&args.inputs, &args.output).or_usage()?;
    let device = super::select(args.device)?;
    if device.gpu().is_none() {
        // What the CPU can't do, it can't do for any picture.
        device.convolution(&Problem::new(1, 1, &filter)?, args.variant).or_usage()?;
    }
    paths::make_folder(&args.output).or_usage()?;
    interrupt::clean_up_when_interrupted();
    if let Some(reason) = device.reason()
        && !args.quiet
    {
        output::message(format_args!("device: {} ({reason})", device.describe()));
    }

    let mut runner = Runner { args, filter, device: &device, planned: None };
    let progress = progress(jobs.len(), args.quiet);
    let mut failed = 0;
    for job in &jobs {
        if let Err(error) = runner.run(job) {
            failed += 1;
            progress.suspend(|| output::message(format_args!("error: {error:#}")));
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    if failed > 0 && jobs.len() > 1 {
        output::message(format_args!("{failed} of {} pictures failed", jobs.len()));
    }
    Ok(if failed > 0 { Outcome::SomeFailed } else { Outcome::Done })
}

/// A bar on the standard error for several pictures, which draws itself only on a terminal.
fn progress(count: usize, quiet: bool) -> ProgressBar {
    if quiet || count < 2 {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{wide_bar} {pos}/{len}  {per_sec}  {eta} left").expect("a valid template");
    ProgressBar::new(count as u64).with_style(style)
}

impl Args {
    /// The filter that the arguments describe, its anchor, scale and offset checked.
    fn filter(&self) -> Result<Filter> {
        let mut written = self.mask.read()?;
        if self.normalize {
            written.mask = written.mask.normalized().context("--normalize")?;
            written.scale = None;
        }
        written.anchor = self.anchor.or(written.anchor);
        written.scale = self.scale.or(written.scale);
        written.offset = self.offset.or(written.offset);
        let filter = Filter::from(written).operation(self.op).border(self.border);
        // What is wrong with a filter is wrong for any picture.
        Problem::new(1, 1, &filter)?;
        Ok(filter)
    }
}

/// Filters one picture after the other.
struct Runner<'device> {
    args: &'device Args,
    filter: Filter,
    device: &'device Device,
    /// What ran last, with its width and height: pictures often have one size.
    planned: Option<Convolution<'device>>,
}

impl Runner<'_> {
    fn run(&mut self, job: &Job) -> Result<()> {
        let args = self.args;
        let existing = if args.overwrite { Existing::Replace } else { Existing::Keep };
        if !args.overwrite && job.output.symlink_metadata().is_ok() {
            // Before the work; that nothing is replaced is made sure of when the file gets its name.
            return Err(explain(Error::Exists { path: job.output.clone() }));
        }
        let picture = Picture::read(&job.input)?;
        let pixels = &picture.pixels;
        let output_type = args.output_type.unwrap_or(pixels.pixel_type());
        let format = host::files::Format::of(&job.output)?;
        format.check(&job.output, output_type, pixels.channels()).map_err(explain)?;

        let layout = Layout { channels: pixels.channels(), input: pixels.pixel_type(), output: output_type };
        let problem = Problem::new(pixels.width(), pixels.height(), &self.filter)?.with_layout(layout)?;
        let convolution = match self.planned.take() {
            Some(planned) if *planned.problem() == problem => planned,
            _ => self.device.convolution_or_cpu(&problem, args.variant)?,
        };
        let convolution = self.planned.insert(convolution);
        let filtered = convolve(convolution, pixels, output_type, args.keep_alpha)
            .with_context(|| job.input.display().to_string())?;
        Picture { pixels: filtered, icc_profile: picture.icc_profile }.write(&job.output, existing).map_err(explain)
    }
}

/// An error of writing, with what helps.
fn explain(error: Error) -> anyhow::Error {
    let help = match &error {
        Error::Exists { .. } => "--overwrite replaces it",
        Error::Unsupported { .. } => "another extension or --output-type helps",
        _ => return error.into(),
    };
    anyhow!("{error} ({help})")
}

/// Filters values of any type to values of any type.
fn convolve(
    convolution: &mut Convolution<'_>,
    pixels: &Pixels,
    output: PixelType,
    keep_alpha: bool,
) -> host::Result<Pixels> {
    fn from<T: Pixel>(
        convolution: &mut Convolution<'_>,
        image: &Image<T>,
        output: PixelType,
        keep_alpha: bool,
    ) -> host::Result<Pixels> {
        Ok(match output {
            PixelType::U8 => channels::<T, u8>(convolution, image, keep_alpha)?.into(),
            PixelType::U16 => channels::<T, u16>(convolution, image, keep_alpha)?.into(),
            PixelType::F32 => channels::<T, f32>(convolution, image, keep_alpha)?.into(),
        })
    }
    match pixels {
        Pixels::U8(image) => from(convolution, image, output, keep_alpha),
        Pixels::U16(image) => from(convolution, image, output, keep_alpha),
        Pixels::F32(image) => from(convolution, image, output, keep_alpha),
    }
}

/// Filters all channels, or all but alpha: the last of two or four.
fn channels<T: Pixel, U: Pixel>(
    convolution: &mut Convolution<'_>,
    image: &Image<T>,
    keep_alpha: bool,
) -> host::Result<Image<U>> {
    let mut result = convolution.run(image)?;
    let channels = image.channels();
    if keep_alpha && matches!(channels, 2 | 4) {
        // Opaque stays opaque: what is the most in one type becomes the most in the other.
        let (from, to) = (opaque(T::TYPE), opaque(U::TYPE));
        let copy = |value: T| U::from_f32(if from == to { value.to_f32() } else { value.to_f32() / from * to });
        let pixels = result.values_mut().chunks_exact_mut(channels);
        for (to, from) in pixels.zip(image.values().chunks_exact(channels)) {
            to[channels - 1] = copy(from[channels - 1]);
        }
    }
    Ok(result)
}

/// The alpha of a pixel that hides all behind it.
fn opaque(pixel: PixelType) -> f32 {
    match pixel {
        PixelType::U8 => 255.0,
        PixelType::U16 => 65_535.0,
        PixelType::F32 => 1.0,
    }
}
