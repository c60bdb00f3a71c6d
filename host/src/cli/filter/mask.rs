//! The arguments that name a mask.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use host::{Axis, Gabor, Mask, Operation, WrittenMask};

/// Where the mask comes from: exactly one of these.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
#[command(next_help_heading = "Mask (exactly one)")]
pub(super) struct MaskArgs {
    /// A .npy file (2-D, any numbers) or a text: rows of numbers, or a libvips matrix "W H [scale offset]" then its rows (a
    /// first line that fits the rows after it is taken as that); - is the standard input
    #[arg(long, value_name = "FILE")]
    mask: Option<PathBuf>,

    /// ImageMagick's notation: "3x3: 0,-1,0 -1,5,-1 0,-1,0"; "WxH+X+Y: …" sets the anchor to column X, row Y, too
    #[arg(long, value_name = "WxH: …", allow_hyphen_values = true)]
    kernel: Option<String>,

    /// Gaussian blur; the radius is 4 SIGMA unless given
    #[arg(long, value_name = "SIGMA[:RADIUS]", value_parser = gaussian, allow_hyphen_values = true)]
    gaussian: Option<Mask>,

    /// Mean of K x K pixels, or of H rows of W
    #[arg(long = "box", value_name = "K|HxW", value_parser = mean, allow_hyphen_values = true)]
    mean: Option<Mask>,

    /// Sobel's derivative, positive where it gets brighter to the right (x) or downwards (y), with either --op
    #[arg(long, value_name = "x|y", value_parser = axis)]
    sobel: Option<Axis>,

    /// Scharr's derivative, signs as for --sobel
    #[arg(long, value_name = "x|y", value_parser = axis)]
    scharr: Option<Axis>,

    /// Prewitt's derivative, signs as for --sobel
    #[arg(long, value_name = "x|y", value_parser = axis)]
    prewitt: Option<Axis>,

    /// Sum of the second differences: 0 1 0, 1 -4 1, 0 1 0
    #[arg(long)]
    laplacian: bool,

    /// Laplacian of a Gaussian
    #[arg(long, value_name = "SIGMA", value_parser = log, allow_hyphen_values = true)]
    log: Option<Mask>,

    /// Sharpening: the image minus AMOUNT times its Laplacian; 1 is usual
    #[arg(long, value_name = "AMOUNT", value_parser = sharpen, allow_hyphen_values = true)]
    sharpen: Option<Mask>,

    /// Relief, lit from the upper left
    #[arg(long)]
    emboss: bool,

    /// Motion blur of LEN pixels; the angle in degrees, counter-clockwise from "to the right"
    #[arg(long, value_name = "LEN:ANGLE", value_parser = motion, allow_hyphen_values = true)]
    motion: Option<Mask>,

    /// Blur of a lens out of focus, with this radius
    #[arg(long, value_name = "R", value_parser = disk, allow_hyphen_values = true)]
    disk: Option<Mask>,

    /// Gabor's filter for stripes: the WAVELENGTH in pixels, the ANGLE across the stripes as for --motion; SIGMA along the
    /// wave is 0.56 wavelengths unless given, ASPECT 0.5, PHASE 0 degrees (bright lines; 90: edges)
    #[arg(long, value_name = "WAVELENGTH:ANGLE[:SIGMA[:ASPECT[:PHASE]]]", value_parser = gabor, allow_hyphen_values = true)]
    gabor: Option<Mask>,

    /// One coefficient, 1: for --scale, --offset and --output-type alone
    #[arg(long)]
    identity: bool,
}

impl MaskArgs {
    /// Whether the mask comes from the standard input.
    pub(super) fn is_standard_input(&self) -> bool {
        self.mask.as_deref() == Some(Path::new("-"))
    }

    /// The mask. Reads a file if one is named. What is named by its meaning has it with either operation: masks by formula are
    /// written for a convolution, and turned for a correlation.
    pub(super) fn read(&self, operation: Operation) -> Result<WrittenMask> {
        if let Some(path) = &self.mask {
            return if path == Path::new("-") {
                host::files::read_mask_from(std::io::stdin().lock()).context("--mask - (standard input)")
            } else {
                host::files::read_mask(path).context("--mask")
            };
        }
        if let Some(text) = &self.kernel {
            return WrittenMask::from_kernel(text).context("--kernel");
        }
        let fixed = [
            self.sobel.map(Mask::sobel),
            self.scharr.map(Mask::scharr),
            self.prewitt.map(Mask::prewitt),
            self.laplacian.then(Mask::laplacian),
            self.emboss.then(Mask::emboss),
            self.identity.then(Mask::identity),
        ];
        let made = [&self.gaussian, &self.mean, &self.log, &self.sharpen, &self.motion, &self.disk, &self.gabor];
        let mask = fixed.into_iter().flatten().chain(made.into_iter().flatten().cloned()).next();
        let turned = |mask: Mask| if operation == Operation::Correlate { mask.turned() } else { mask };
        mask.map(|mask| turned(mask).into()).ok_or_else(|| anyhow!("no mask was given"))
    }
}

fn number(text: &str) -> Result<f64> {
    text.parse().map_err(|_| anyhow!("a number was expected, not \"{text}\""))
}

fn count(text: &str) -> Result<usize> {
    text.parse().map_err(|_| anyhow!("a whole number was expected, not \"{text}\""))
}

fn axis(text: &str) -> Result<Axis> {
    match text {
        "x" => Ok(Axis::X),
        "y" => Ok(Axis::Y),
        _ => Err(anyhow!("x or y was expected")),
    }
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
