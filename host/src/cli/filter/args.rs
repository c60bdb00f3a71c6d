//! The arguments of `host filter`.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use faltung::{Accuracy, Border, Device, Operation, PixelType, Variant, VariantChoice};
use host::files::OverwritePolicy;

use super::alpha::Alpha;
use super::devices::DeviceArg;
use super::mask::{MaskArgs, StepArgs};
use super::steps::Steps;
use crate::cli::accuracy::AccuracyArgs;

/// Filter pictures: convolve each with a mask
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "host filter [OPTIONS] <INPUT>... -o <OUTPUT> <MASK>")]
pub(in crate::cli) struct Args {
    /// Pictures (- for one on the standard input); folders, for the pictures directly in them; quoted patterns such as
    /// "photos/*.jpg"
    #[arg(value_name = "INPUT", required = true)]
    pub(super) inputs: Vec<PathBuf>,

    /// Where the result goes. Its extension names the format. For several inputs, a folder or a pattern: a folder
    /// ("out/", or one that exists), or a pattern such as "out/{stem}.png"; {ext} is the input's extension
    #[arg(short, long, value_name = "OUTPUT")]
    pub(super) output: PathBuf,

    /// convolve turns the mask by 180°, as scipy.ndimage.convolve does; correlate does not, as OpenCV's filter2D. This
    /// is for --mask and --kernel: masks by name (--sobel, --emboss …) do the same with both
    #[arg(
        long, value_name = "OP", default_value = "convolve",
        value_parser = operation(), hide_possible_values = false
    )]
    pub(super) op: Operation,

    /// What lies outside of the picture: zero (or constant); constant:VALUE (opaque, as zero is); clamp (aaa|abcd|ddd;
    /// or nearest, replicate, edge); reflect (dcba|abcd|dcba; or NumPy's symmetric); mirror (dcb|abcd|cba; or
    /// reflect101; NumPy's and PyTorch's "reflect"); wrap (bcd|abcd|abc; or circular, periodic, tile)
    #[arg(long, default_value = "mirror")]
    pub(super) border: Border,

    /// Type of the output's values [default: the input's]. Values are not rescaled: u8 as f32 is 0 to 255. Integers are
    /// rounded half to even and saturated
    #[arg(long, value_name = "TYPE", value_parser = super::super::pixel_type())]
    pub(super) output_type: Option<PixelType>,

    /// Quality of JPEG files, 1 to 100 [default: 95]. Colours are sampled as in the input where that is a JPEG, else
    /// 4:4:4. WebP is written without loss
    #[arg(long, value_name = "Q", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) quality: Option<u8>,

    /// auto (the first CUDA device, else the CPU), cpu, cuda:N for the CUDA device with this number, or emulator: the
    /// GPU's kernels on the CPU, slowly, with every access checked. cuda:all takes all CUDA devices, and cuda:0,cuda:1
    /// takes those two. Should the device break down, auto goes on on the CPU, several devices on those that are left,
    /// and cuda:N begins no other picture
    #[arg(long, default_value = "auto")]
    pub(super) device: DeviceArg,

    /// The kernel that computes. auto takes the fastest of those that are as accurate as --accuracy asks. exact is
    /// auto with --accuracy exact
    #[arg(long, value_name = "NAME", default_value = "auto", value_parser = variant())]
    variant: VariantArg,

    #[command(flatten)]
    accuracy: AccuracyArgs,

    /// The most device memory for the values of a picture and its result, such as 512M or 2G [default: what is free].
    /// What does not fit is computed in strips, or else on the CPU
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) device_memory: Option<usize>,

    /// Filter one image in chunks (Zarr, .npy, TIFF), and keep the whole process within so many bytes of memory, such
    /// as 4G. Images that don't fit into memory are filtered so without it, with half of the free memory
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(super) memory: Option<usize>,

    /// Filter the I-th of N shares of an image's chunks, I from 1 to N, into a Zarr array that N processes share, on
    /// one machine or several
    #[arg(long, value_name = "I/N", value_parser = part)]
    pub(super) part: Option<(usize, usize)>,

    /// Rows and columns of the chunks (of a Zarr array: of its files) [default: those of the input, if that is Zarr,
    /// else 4096x4096; for .npy and TIFF what fits the memory]
    #[arg(long, value_name = "K|HxW", value_parser = chunk)]
    pub(super) chunk: Option<(usize, usize)>,

    /// Replace output files that exist. A Zarr array is replaced only if this program wrote it
    #[arg(long)]
    pub(super) overwrite: bool,

    /// Pass over inputs whose output file exists, such as to go on with a batch that was ended. Of a Zarr array, pass
    /// over the chunks that exist; if it holds the results of another task, that is an error
    #[arg(long, conflicts_with = "overwrite")]
    pub(super) skip_existing: bool,

    /// What becomes of alpha. weighted: each colour counts as much as its alpha, so that hidden colours don't show, and
    /// alpha becomes its own mean under the mask. Where that mean is 0, the colours are 0. keep: colours are filtered
    /// without regard to alpha, which stays. plain: alpha is filtered like a colour [default: weighted; keep for masks
    /// whose coefficients sum to 0, for magnitude, and for a single coefficient]. Only plain applies --scale and
    /// --offset to alpha. Arrays (.npy) have none
    #[arg(long, value_name = "HOW", value_parser = alpha())]
    pub(super) alpha: Option<Alpha>,

    /// Filter in linear light. Values are taken as sRGB's, on the scale of the file's type (0 to 255, 65535 or 1),
    /// whatever an ICC profile says; a note says so. They are decoded first and encoded last: --scale, --offset and the
    /// threshold of --unsharp count in linear light, on the same scale. Alpha is not decoded. OpenEXR is linear light
    /// as it is
    #[arg(long)]
    pub(super) linear: bool,

    /// Only errors on the standard error: no notes, no progress bar, no summary
    #[arg(short, long)]
    pub(super) quiet: bool,

    #[command(flatten)]
    pub(super) mask: MaskArgs,
}

const EXAMPLES: &str = "\
Examples:
  host filter photo.jpg -o soft.png --gaussian 3
  host filter photo.jpg -o crisp.jpg --unsharp 1.5:0.8:3
  host filter photo.jpg -o slope.png --sobel x --scale 0.125 --offset 128
  host filter photo.jpg -o edges.png --gaussian 2 --then --sobel magnitude --scale 0.25
  host filter lights.jpg -o bokeh.jpg --linear --disk 9
  host filter scan.tif -o sharp.tif --kernel \"3x3: 0,-1,0 -1,5,-1 0,-1,0\"
  host filter image.npy -o result.npy --mask mask.npy --op correlate --output-type f32
  host filter photos/ -o soft/ --gaussian 3
  host filter \"photos/*.jpg\" -o \"out/{stem}.png\" --box 5
  host filter mosaic.zarr -o soft.zarr --gaussian 3 --memory 4G
  echo \"1 2 1\" | host filter a.png -o b.png --mask - --normalize

Files: PNG, JPEG, TIFF, BMP, PGM/PPM/PAM, WebP, QOI, OpenEXR (RGB, RGBA), and .npy of two dimensions or of \
height x width x channels; PBM is read. Values are taken as stored, without gamma unless --linear; but palettes and \
CMYK become \
RGB, 1 to 4 bits 8, PNM with another greatest value is stretched to 255 or 65535, and TIFF whose 0 is \
white is turned around. Pictures are turned as their \
EXIF orientation asks. An ICC profile, EXIF, the resolution, and PNG's gamma and primaries are kept where the \
output's format has a place for them; a note says what is not, once for each kind. Reading takes at most 6 times the \
memory of a picture's values and 64 MiB more; a file that would take more is refused. Of several pages or frames the \
first is read. - is the standard input. Output files appear whole or not at all, and are on the disk when the program \
ends. What kill -9 leaves over begins with .host-unfinished-; the next run that writes into the folder removes it.

A Zarr array of version 3 (.zarr, or a folder with zarr.json) is filtered in chunks that never are in memory \
together; so is one .npy or TIFF with --memory or --chunk. Each chunk of a result appears whole or not at all. The \
attributes of a result say which filter of which image it is. What is missing in the end is listed, and \
--skip-existing completes it.

With --then, values are f32 between two masks: neither rounded nor saturated. The same holds where colours are \
weighted by alpha, for --linear, --unsharp and magnitude. Alpha keeps its numbers in another --output-type, as all \
values do. A note says where more than 1 % of a result's values saturate.

Several inputs are read, computed and written at the same time, in any order. In a folder, what is \
no picture by its extension is passed over. An input that fails is named, and the rest goes on. Not more \
are under way than the memory holds; the limits of a container count.

Exit status: 0 all done; 1 some inputs failed: missing, no picture, with a result that exists or that \
the format can't hold; 2 nothing was begun: arguments, mask, or the output's format or folder are wrong; \
3 the requested device is not there; 130 interrupted by Ctrl-C, 143 by TERM, 129 by HUP. INT and HUP stay ignored \
where they were, as under nohup.";

fn operation() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(["convolve", "correlate"]).map(|name| match name.as_str() {
        "correlate" => Operation::Correlate,
        _ => Operation::Convolve,
    })
}

fn alpha() -> impl TypedValueParser<Value = Alpha> {
    PossibleValuesParser::new(["weighted", "keep", "plain"]).map(|name| match name.as_str() {
        "weighted" => Alpha::Weighted,
        "keep" => Alpha::Keep,
        _ => Alpha::Plain,
    })
}

/// The value of `--variant`.
#[derive(Clone, Copy)]
enum VariantArg {
    /// A variant, or any.
    Choice(VariantChoice),
    /// Any, and [`Accuracy::Exact`].
    Exact,
}

fn variant() -> impl TypedValueParser<Value = VariantArg> {
    let names = ["auto", "exact"].into_iter().chain(Variant::ALL.map(Variant::name));
    PossibleValuesParser::new(names).map(|name| match name.as_str() {
        "exact" => VariantArg::Exact,
        name => VariantArg::Choice(name.parse().expect("clap lets only names through")),
    })
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

/// One of several shares, both from 1 on.
fn part(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once('/').and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    parsed
        .filter(|(part, parts): &(usize, usize)| (1..=*parts).contains(part))
        .ok_or_else(|| anyhow!("a share and the number of shares were expected, such as 1/8 to 8/8"))
}

/// Rows and columns, or one number for both.
fn chunk(text: &str) -> Result<(usize, usize)> {
    let (rows, columns) = text.split_once(['x', 'X']).unwrap_or((text, text));
    let parsed = rows.parse().ok().zip(columns.parse().ok());
    parsed
        .filter(|(rows, columns): &(usize, usize)| *rows > 0 && *columns > 0)
        .ok_or_else(|| anyhow!("rows and columns were expected, such as 4096 or 2048x4096"))
}

impl Args {
    /// The steps that the arguments describe, their anchors, scales and offsets checked.
    pub(super) fn steps(&self) -> Result<Steps> {
        let pictures = self.inputs.iter().filter(|input| input.as_os_str() == "-").count();
        let masks = self.mask.on_standard_input();
        ensure!(pictures == 0 || masks == 0, "- is the standard input of the picture or the mask, not both");
        ensure!(masks < 2, "--mask - was given {masks} times: there is one standard input");
        let accuracy = self.accuracy()?;
        let step = |step: &StepArgs| step.read(self.op, self.border, accuracy);
        let steps = self.mask.steps.iter().map(step).collect::<Result<_>>()?;
        Steps::new(steps, self.alpha, self.linear)
    }

    /// The variant that is asked for.
    pub(super) fn variant(&self) -> VariantChoice {
        match self.variant {
            VariantArg::Choice(choice) => choice,
            VariantArg::Exact => VariantChoice::Auto,
        }
    }

    /// The accuracy that `--accuracy`, `--exact` and `--variant` agree on.
    fn accuracy(&self) -> Result<Accuracy> {
        let asked_for = self.accuracy.asked_for();
        if let VariantArg::Exact = self.variant {
            let other = asked_for.filter(|&class| class != Accuracy::Exact);
            return match other {
                Some(other) => bail!("--variant exact cannot be used with --accuracy {other}"),
                None => Ok(Accuracy::Exact),
            };
        }
        let required = asked_for.unwrap_or_default();
        if let Some(variant) = self.variant().named() {
            let (name, kept) = (variant.name(), Accuracy::of(variant));
            ensure!(required.allows(kept), "--variant {name} cannot be used with --accuracy {required}: it is {kept}");
        }
        Ok(required)
    }

    /// The devices that are asked for, within their limit of memory.
    pub(super) fn open_devices(&self) -> Result<Vec<Device>> {
        let limited = |device: Device| match self.device_memory {
            Some(bytes) => device.with_memory_limit(bytes),
            None => device,
        };
        Ok(self.device.open()?.into_iter().map(limited).collect())
    }

    /// What happens to output files that exist.
    pub(super) fn existing(&self) -> OverwritePolicy {
        if self.overwrite { OverwritePolicy::Replace } else { OverwritePolicy::Keep }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use faltung::Problem;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    /// The filters of all steps have the accuracy that was asked for.
    #[test]
    fn filters_have_the_accuracy() {
        let of = |more: &[&str]| {
            let common = ["filter", "a.npy", "-o", "b.npy", "--gaussian", "2", "--then", "--sobel", "magnitude"];
            let line = Line::try_parse_from(common.iter().chain(more)).unwrap();
            let filters = line.args.steps().unwrap().filters;
            assert_eq!(filters.len(), 3);
            let classes = filters.iter().map(|filter| Problem::new(1, 1, filter).unwrap().accuracy());
            (line.args.variant(), classes.reduce(|a, b| if a == b { a } else { panic!("{a} and {b}") }).unwrap())
        };
        let (auto, ring) = (VariantChoice::Auto, VariantChoice::Named(Variant::SeparableRing));
        assert_eq!(of(&[]), (auto, Accuracy::Bounded));
        assert_eq!(of(&["--exact"]), (auto, Accuracy::Exact));
        assert_eq!(of(&["--variant", "exact"]), (auto, Accuracy::Exact));
        for class in Accuracy::ALL {
            assert_eq!(of(&["--accuracy", class.name()]), (auto, class));
        }
        assert_eq!(of(&["--variant", "separable_ring"]), (ring, Accuracy::Bounded));
        assert_eq!(of(&["--variant", "separable_ring", "--accuracy", "normwise"]), (ring, Accuracy::Normwise));
    }
}
