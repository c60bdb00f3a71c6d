//! The stages of one picture: read, filter, write, report.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use faltung::{AnyImage, PixelType, memory, white};
use host::Error;
use host::batch::Work;
use host::files::{Content, Format, Picture, WriteOptions};

use super::alpha::Alpha;
use super::args::Args;
use super::compute::Compute;
use super::light;
use super::paths::{self, Job};
use super::progress::Progress;
use super::saturation::Tally;
use super::steps::Steps;

/// A picture that a thread of its own reads ahead.
pub(super) struct ReadAhead {
    input: PathBuf,
    picture: JoinHandle<host::Result<Picture>>,
}

impl ReadAhead {
    /// Begins to read the picture of a job, if that is an ordinary file and not large. Errors of the device or the
    /// arguments are then reported early, and with little memory.
    pub(super) fn begin(job: &Job, overwrite: bool) -> Option<Self> {
        /// Bytes of memory: twice those of a picture of 4K in 16 bits and four channels.
        const MOST_BYTES: u64 = 2 * 3840 * 2160 * 4 * 2;
        let is_wanted = overwrite || !job.has_result();
        let is_file = job.input.metadata().is_ok_and(|data| data.is_file());
        let bytes = host::files::decoded_bytes(&job.input);
        if !is_wanted || !is_file || !(1..=MOST_BYTES).contains(&bytes) {
            return None;
        }
        // This reserves before other pictures do. Else they would wait for this picture, and it for their memory.
        let reserved = memory::try_reserve(bytes)?;
        let input = job.input.clone();
        // If no thread starts, the picture is read later.
        let picture = std::thread::Builder::new().spawn(move || reserved.during(|| Picture::read(&input))).ok()?;
        Some(Self { input: job.input.clone(), picture })
    }
}

/// The pictures of a run.
pub(super) struct Pictures<'a> {
    pub(super) args: &'a Args,
    steps: &'a Steps,
    pub(super) progress: &'a Progress,
    /// Results that other processes wrote since the run began, and that are kept.
    kept: AtomicUsize,
    /// The picture that is read ahead.
    ahead: Mutex<Option<ReadAhead>>,
    /// The kinds of notes that were printed. Each is printed once.
    said: Mutex<BTreeSet<&'static str>>,
    /// The pictures whose values saturate.
    saturated: Tally,
}

impl<'a> Pictures<'a> {
    pub(super) fn new(args: &'a Args, steps: &'a Steps, progress: &'a Progress, ahead: Option<ReadAhead>) -> Self {
        let (kept, saturated) = (AtomicUsize::new(0), Tally::default());
        Self { args, steps, progress, kept, ahead: Mutex::new(ahead), said: Mutex::default(), saturated }
    }

    /// Takes the picture of this job that was read ahead, if it was.
    fn ahead(&self, job: &Job) -> Option<ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take_if(|read| read.input == job.input)
    }

    /// The number of jobs whose result another process wrote during the run, and which count as kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// A note on all pictures: how many saturate.
    pub(super) fn note(&self, pictures: usize) -> Option<String> {
        self.saturated.note(pictures)
    }

    /// An error of writing, with a hint.
    fn explain(&self, error: Error) -> anyhow::Error {
        match &error {
            Error::Exists { .. } if !self.args.skip_existing => anyhow!("{error} (--overwrite replaces it)"),
            _ => error.into(),
        }
    }

    /// Filters a picture. Announces a long computation.
    pub(super) fn compute(&self, compute: &mut Compute<'_>, job: &Job, picture: Picture) -> Result<Picture> {
        let pixels = &picture.pixels;
        let output = self.output_type(pixels);
        if !self.args.quiet {
            let planes = !self.steps.is_single_convolution();
            if let Some(announcement) = compute.announcement(&pixels.into(), output, planes) {
                self.progress.say(format_args!("{}: {announcement}", job.name()));
            }
            for note in self.notes(&picture) {
                self.progress.say(format_args!("note: {}: {note}", job.name()));
            }
        }
        let format = Format::of(&job.output)?;
        let straight = format.has_straight_alpha();
        let filtered = self.steps.apply(compute, &picture, output, straight);
        let (filtered, saturation) = filtered.with_context(|| job.name().to_string())?;
        self.saturated.add(job.name(), saturation);
        if let Some((error, other)) = compute.take_loss() {
            // A lost device concerns the machine, not one picture. `--quiet` does not hide it.
            let place = if other.gpu().is_some() { other.describe() } else { "the CPU".to_owned() };
            self.progress.say(format_args!(
                "warning: {error:#}; this picture and all others of this device are computed on {place}",
                error = anyhow!(error)
            ));
        }
        if let Some(note) = compute.take_note()
            && !self.args.quiet
        {
            self.progress.say(format_args!("{}: computed {note}", job.name()));
        }
        // Alpha is converted like a colour with `plain` alone. Else it keeps its numbers.
        let of_alpha = if self.args.alpha == Some(Alpha::Plain) { output } else { picture.pixels.pixel_type() };
        let mut filtered = Picture { pixels: filtered, ..picture };
        filtered.metadata.premultiplied &= !straight;
        if format == Format::Exr {
            filtered.multiply_by_alpha(white(of_alpha));
        }
        Ok(filtered)
    }

    /// Prints a note on the pictures of one `kind`, once.
    fn say_once(&self, job: &Job, kind: &'static str, what: &str) {
        if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(kind) {
            self.progress.say(format_args!("note: {}: {what}{}", job.name(), self.once()));
        }
    }

    /// The end of a note that is not repeated.
    fn once(&self) -> &'static str {
        if self.progress.is_of_several() { " (said of the first picture only)" } else { "" }
    }

    /// Checks that the format can hold the result. An error has a hint. `lacks_alpha` says that the picture has alpha,
    /// and the format holds its colours alone.
    fn check_format(&self, job: &Job, picture: &Picture, format: Format, lacks_alpha: bool) -> Result<()> {
        let pixels = &picture.pixels;
        let channels = pixels.channels();
        format
            .check_sides(&job.output, pixels.width(), pixels.height())
            .map_err(|error| anyhow!("{error} (another extension helps)"))?;
        let holds = |format: Format, pixel: PixelType| format.check(&job.output, pixel, channels);
        let wanted = self.output_type(pixels);
        let Err(error) = holds(format, wanted) else { return Ok(()) };
        let types = [PixelType::U8, PixelType::U16, PixelType::F32];
        if let Some(pixel) = types.into_iter().find(|&pixel| holds(format, pixel).is_ok()) {
            let (from, to) = (white(pixels.pixel_type()), white(pixel));
            let plain = if picture.content.has_alpha(channels) { " --alpha plain" } else { "" };
            let (name, scale) = (pixel.name(), to / from);
            bail!(
                "{error} (--output-type {name} --scale {scale}{plain} helps if the values are 0 to {from}; \
                 or another extension)"
            );
        }
        if lacks_alpha {
            let other = if holds(Format::Png, wanted).is_ok() { ".png" } else { ".tif" };
            bail!("{error} (alpha is not opaque everywhere; an extension with alpha helps, such as {other})");
        }
        bail!("{error} (another extension helps)")
    }

    /// Notes that the result's format makes colours multiplied by alpha, or divided by it. Notes that the numbers of
    /// alpha mean something else in the result's type.
    fn note_alpha(&self, job: &Job, picture: &Picture, format: Format) {
        let has_alpha = picture.content.has_alpha(picture.pixels.channels());
        let (input, output) = (picture.pixels.pixel_type(), self.output_type(&picture.pixels));
        let keeps_numbers = self.args.alpha != Some(Alpha::Plain) && format != Format::Npy;
        if has_alpha && keeps_numbers && input != output {
            let (from, to, name) = (white(input), white(output), output.name());
            let what = format!(
                "alpha keeps its numbers, 0 to {from}, but {to} is opaque in {name}: --alpha plain --scale {} converts \
                 it with the colours",
                to / from
            );
            self.say_once(job, "numbers of alpha", &what);
        }
        if has_alpha && !picture.metadata.premultiplied && format == Format::Exr {
            self.say_once(job, "multiplied alpha", "colours are multiplied by alpha, because OpenEXR holds them so");
        }
        if picture.metadata.premultiplied && format.has_straight_alpha() {
            let name = format.name();
            let what = format!("colours are divided by alpha, because {name} does not hold them multiplied by it");
            self.say_once(job, "straight alpha", &what);
        }
    }

    /// Reports the metadata that the result loses, each kind once.
    fn note_lost(&self, job: &Job, picture: &Picture, format: Format) {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<_> = picture.metadata.lost_in(format).into_iter().filter(|what| said.insert(what)).collect();
        if !new.is_empty() {
            self.progress.say(format_args!("note: {}: not kept: {}{}", job.name(), new.join(", "), self.once()));
        }
    }

    /// Notes on options that have no effect on a picture, or a surprising one.
    fn notes(&self, picture: &Picture) -> Vec<String> {
        let Picture { pixels, content, metadata } = picture;
        let icc_profile = metadata.icc_profile.as_deref();
        let mut notes = Vec::new();
        if self.steps.is_linear() {
            if *content == Content::LinearLight {
                notes.push("OpenEXR is linear light as it is: --linear changes nothing".to_owned());
            } else if icc_profile.is_some_and(|profile| !light::has_transfer_of_srgb(profile)) {
                notes.push("its ICC profile is not sRGB's by its name; --linear takes the values as sRGB's".to_owned());
            }
        }
        if *content == Content::Array && self.args.alpha.is_some() && matches!(pixels.channels(), 2 | 4) {
            notes.push(".npy has no alpha: all channels are filtered alike".to_owned());
        }
        notes
    }

    fn output_type(&self, pixels: &AnyImage) -> PixelType {
        self.args.output_type.unwrap_or(pixels.pixel_type())
    }
}

impl Work for Pictures<'_> {
    type Job = Job;
    type Input = Picture;
    type Output = Picture;
    type Error = anyhow::Error;

    /// Bytes of the larger of input and output. For a short time both exist.
    fn bytes(&self, job: &Job) -> u64 {
        let grows: u64 = match self.args.output_type {
            Some(PixelType::F32) => 4,
            Some(PixelType::U16) => 2,
            Some(PixelType::U8) | None => 1,
        };
        // Reading takes twice the bytes of the values, or more.
        let read = host::files::decoded_bytes(&job.input);
        read.max((read / 2).saturating_mul(grows.saturating_add(self.steps.bytes_between())))
    }

    fn read(&self, job: &Job) -> Result<Picture> {
        let ahead = self.ahead(job);
        if !self.args.overwrite && job.has_result() {
            // This check is early, before the work. The rename makes sure that nothing is replaced.
            return Err(self.explain(Error::Exists { path: job.output.clone() }));
        }
        let picture = match ahead {
            Some(ahead) => ahead.picture.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Picture::read(&job.input),
        };
        let mut picture = picture.map_err(|error| job.blame(error))?;
        let format = Format::of(&job.output)?;
        let channels = picture.pixels.channels();
        let lacks_alpha = picture.content.has_alpha(channels)
            && !format.holds_channels(channels)
            && format.holds_channels(channels - 1);
        if lacks_alpha && picture.has_opaque_alpha() {
            picture = picture.without_alpha()?;
            if !self.args.quiet {
                let what = format!("alpha is left out: it is opaque everywhere, and {} holds none", format.name());
                self.say_once(job, "opaque alpha", &what);
            }
        }
        self.check_format(job, &picture, format, lacks_alpha)?;
        if !self.args.quiet {
            if let Some(more) = host::files::left_out(&job.input) {
                self.progress.say(format_args!("note: {}: {more}", job.name()));
            }
            self.note_alpha(job, &picture, format);
            self.note_lost(job, &picture, format);
        }
        Ok(picture)
    }

    fn write(&self, job: &Job, picture: Picture) -> Result<()> {
        paths::make_folder(&self.args.output, &job.output)?;
        let options = WriteOptions { quality: self.args.quality };
        picture.write_with(&job.output, self.args.existing(), options).map_err(|error| self.explain(error))?;
        self.progress.written(picture.pixels.width() * picture.pixels.height());
        Ok(())
    }

    /// Whether every other picture would fail, too.
    fn is_final(&self, error: &anyhow::Error) -> bool {
        let is_lost = |error: &faltung::Error| matches!(error, faltung::Error::DeviceLost { .. });
        let within = |error: &Error| matches!(error, Error::Library(error) if is_lost(error));
        error.downcast_ref().is_some_and(is_lost) || error.downcast_ref().is_some_and(within)
    }

    fn finished(&self, _: &Job, result: Result<()>) {
        if let Err(error) = result {
            let exists = matches!(error.downcast_ref(), Some(Error::Exists { .. }));
            if exists && self.args.skip_existing {
                self.kept.fetch_add(1, Ordering::Relaxed);
                self.progress.finished_one();
                return;
            }
            self.progress.say(format_args!("error: {error:#}"));
        }
        self.progress.finished_one();
    }
}
