//! The arguments of `host filter`.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use host::files::Existing;
use host::{Border, DeviceChoice, Filter, Operation, PixelType, VariantChoice};

use super::mask::MaskArgs;

/// Filter pictures: convolve each with a mask
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "host filter [OPTIONS] <INPUT>... -o <OUTPUT> <MASK>")]
pub(in crate::cli) struct Args {
    /// Pictures (- for one on the standard input); folders, for the pictures directly in them; quoted patterns such as "photos/*.jpg"
    #[arg(value_name = "INPUT", required = true)]
    pub(super) inputs: Vec<PathBuf>,

    /// Where the result goes. Its extension names the format. For several inputs, a folder or a pattern: a folder ("out/",
    /// or one that exists), or a pattern such as "out/{stem}.png"; {ext} is the input's extension
    #[arg(short, long, value_name = "OUTPUT")]
    pub(super) output: PathBuf,

    /// convolve turns the mask by 180°, as scipy.ndimage.convolve does; correlate does not, as OpenCV's filter2D. This is for
    /// --mask and --kernel: masks by name (--sobel, --emboss …) do the same with both
    #[arg(long, value_name = "OP", default_value = "convolve", value_parser = operation(), hide_possible_values = false)]
    pub(super) op: Operation,

    /// What lies outside of the picture: zero (or constant); constant:VALUE; clamp (aaa|abcd|ddd; or nearest,
    /// replicate, edge); reflect (dcba|abcd|dcba; or NumPy's symmetric); mirror (dcb|abcd|cba; or reflect101; NumPy's and
    /// PyTorch's "reflect"); wrap (bcd|abcd|abc; or circular, periodic, tile)
    #[arg(long, default_value = "zero")]
    pub(super) border: Border,

    /// Row and column of the mask that stand over the output pixel [default: the middle, H/2,W/2]
    #[arg(long, value_name = "Y,X", value_parser = anchor, allow_hyphen_values = true)]
    pub(super) anchor: Option<(usize, usize)>,

    /// Factor of every sum [default: 1, or what the mask's file says]
    #[arg(long, value_name = "S", value_parser = single, allow_negative_numbers = true)]
    pub(super) scale: Option<f32>,

    /// What is added to every scaled sum [default: 0, or what the mask's file says]
    #[arg(long, value_name = "V", value_parser = single, allow_negative_numbers = true)]
    pub(super) offset: Option<f32>,

    /// Divide the mask by the sum of its coefficients, whatever scale its file says
    #[arg(long)]
    pub(super) normalize: bool,

    /// Type of the output's values [default: the input's]. Values are not rescaled: u8 as f32 is 0 to 255. Integers are
    /// rounded half to even and saturated
    #[arg(long, value_name = "TYPE", value_parser = super::super::pixel_type())]
    pub(super) output_type: Option<PixelType>,

    /// auto (the first CUDA device, else the CPU), cpu, cuda:N for the CUDA device with this number, or emulator: the
    /// GPU's kernels on the CPU, slowly, with every access checked. Should the device break down, auto goes on on the
    /// CPU, and cuda:N begins no other picture
    #[arg(long, default_value = "auto")]
    pub(super) device: DeviceChoice,

    /// The kernel that computes. auto takes the fastest; for large f32 pictures of one channel and a mask that is a column times
    /// a row (Gaussian, box) that is one whose last bits differ from the CPU's, within a stated bound. exact takes the
    /// fastest of those with the same bits on every device
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = variant())]
    pub(super) variant: VariantChoice,

    /// The same bits on every device: --variant exact
    #[arg(long, conflicts_with = "variant")]
    pub(super) exact: bool,

    /// The most device memory for the values of a picture and its result, such as 512M or 2G [default: what is free]. What
    /// does not fit is computed in strips, or else on the CPU
    #[arg(long, value_name = "BYTES", value_parser = bytes, allow_hyphen_values = true)]
    pub(super) device_memory: Option<usize>,

    /// Replace output files that exist
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Pass over inputs whose output file exists, such as to go on with a batch that was ended
    #[arg(long, conflicts_with = "overwrite")]
    pub(super) skip_existing: bool,

    /// Copy the alpha channel instead of filtering it with the others
    #[arg(long)]
    pub(super) keep_alpha: bool,

    /// Only errors on the standard error: no notes, no progress bar, no summary
    #[arg(short, long)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) mask: MaskArgs,
}

const EXAMPLES: &str = "\
Examples:
  host filter photo.jpg -o soft.png --gaussian 3 --border mirror
  host filter photo.jpg -o edges.png --sobel x --scale 0.25 --offset 128
  host filter scan.tif -o sharp.tif --kernel \"3x3: 0,-1,0 -1,5,-1 0,-1,0\"
  host filter image.npy -o result.npy --mask mask.npy --op correlate --output-type f32
  host filter photos/ -o soft/ --gaussian 3
  host filter \"photos/*.jpg\" -o \"out/{stem}.png\" --box 5
  echo \"1 2 1\" | host filter a.png -o b.png --mask - --normalize

Files: PNG, JPEG, TIFF, BMP, PGM/PPM/PAM, WebP, QOI, OpenEXR (RGB, RGBA), and .npy of two dimensions or of \
height x width x channels; PBM is read. Values are taken as stored, without gamma; but palettes and CMYK become \
RGB, 1 to 4 bits 8, PNM with another greatest value is stretched to 255 or 65535, and TIFF whose 0 is \
white is turned around. Pictures are turned as their \
EXIF orientation asks; an ICC profile for its colours stays. Of several pages or frames the first is read. - is the \
standard input. Output files appear whole or not at all; what kill -9 leaves over begins with \
.host-unfinished-.

Several inputs are read, computed and written at the same time, in any order. In a folder, what is \
no picture by its extension is passed over. An input that fails is named, and the rest goes on.

Exit status: 0 all done; 1 some inputs failed: missing, no picture, with a result that exists or that \
the format can't hold; 2 nothing was begun: arguments, mask, or the output's format or folder are wrong; \
3 the requested device is not there; 130 interrupted.";

fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(["convolve", "correlate"]).map(|name| match name.as_str() {
        "correlate" => Operation::Correlate,
        _ => Operation::Convolve,
    })
}

fn variant() -> impl TypedValueParser<Value = VariantChoice> {
    PossibleValuesParser::new(VariantChoice::all().map(VariantChoice::name))
        .map(|name| name.parse().expect("clap lets only names through"))
}

/// A number of bytes, with K, M or G for powers of 1024.
fn bytes(text: &str) -> Result<usize> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        _ => (text, 1_usize),
    };
    // `parse` would take a sign.
    let number = digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<usize>().ok()).flatten();
    let bytes = number.and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| anyhow!("a number of bytes was expected, such as 512M or 2G"))
}

/// A number as f32.
fn single(text: &str) -> Result<f32> {
    let number: f32 = text.parse().map_err(|_| anyhow!("a number was expected"))?;
    ensure!(number.is_finite() || !text.contains(|digit: char| digit.is_ascii_digit()), "{text} is beyond f32");
    Ok(number)
}

fn anchor(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once(',').and_then(|(y, x)| Some((y.trim().parse().ok()?, x.trim().parse().ok()?)));
    parsed.ok_or_else(|| anyhow!("a row and a column of the mask were expected, such as 0,2"))
}

impl Args {
    /// The filter that the arguments describe, its anchor, scale and offset checked.
    pub(super) fn filter(&self) -> Result<Filter> {
        let standard = self.inputs.iter().any(|input| input.as_os_str() == "-");
        ensure!(
            !(standard && self.mask.is_standard_input()),
            "- is the standard input of the picture or the mask, not both"
        );
        let mut written = self.mask.read(self.op)?;
        if self.normalize {
            written.mask = written.mask.normalized().context("--normalize")?;
            written.scale = None;
        }
        written.anchor = self.anchor.or(written.anchor);
        written.scale = self.scale.or(written.scale);
        written.offset = self.offset.or(written.offset);
        let filter = Filter::from(written).operation(self.op).border(self.border);
        super::compute::check(&filter)?;
        Ok(filter)
    }

    /// The variant that is asked for.
    pub(super) fn variant(&self) -> VariantChoice {
        if self.exact { VariantChoice::Exact } else { self.variant }
    }

    /// What happens to output files that exist.
    pub(super) fn existing(&self) -> Existing {
        if self.overwrite { Existing::Replace } else { Existing::Keep }
    }
}
