//! What becomes of one picture: read, filtered, written, reported.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use host::batch::Work;
use host::files::{Format, Picture, Pixels};
use host::{Error, PixelType};

use super::args::Args;
use super::compute::Compute;
use super::paths::{self, Job};
use super::progress::Progress;

/// A picture that is read before its turn, by a thread of its own. Nobody waits for it but who needs the picture.
pub(super) struct ReadAhead {
    input: PathBuf,
    picture: JoinHandle<host::Result<Picture>>,
}

impl ReadAhead {
    /// Begins to read the picture of a job, unless it is not wanted, or not an ordinary file, or large: what is wrong with the device or the
    /// arguments is said at once, and without much memory.
    pub(super) fn begin(job: &Job, overwrite: bool) -> Option<Self> {
        /// Bytes of a decoded picture: 4K in 16 bits and four channels.
        const MOST_BYTES: u64 = 3840 * 2160 * 4 * 2;
        let is_wanted = overwrite || !job.has_result();
        let is_file = job.input.metadata().is_ok_and(|data| data.is_file());
        if !is_wanted || !is_file || !(1..=MOST_BYTES).contains(&host::files::decoded_bytes(&job.input)) {
            return None;
        }
        let input = job.input.clone();
        // Without a thread it is read later.
        let picture = std::thread::Builder::new().spawn(move || Picture::read(&input)).ok()?;
        Some(Self { input: job.input.clone(), picture })
    }
}

/// The pictures of a run.
pub(super) struct Pictures<'a> {
    pub(super) args: &'a Args,
    pub(super) progress: &'a Progress,
    /// Results that others made since the run began, and that are to be kept.
    kept: AtomicUsize,
    /// What is being read already.
    ahead: Mutex<Option<ReadAhead>>,
}

/// A time of computing that is announced.
const LONG: Duration = Duration::from_secs(10);

impl<'a> Pictures<'a> {
    pub(super) fn new(args: &'a Args, progress: &'a Progress, ahead: Option<ReadAhead>) -> Self {
        Self { args, progress, kept: AtomicUsize::new(0), ahead: Mutex::new(ahead) }
    }

    /// What is read ahead of this job, if it is; then nobody else gets it.
    fn ahead(&self, job: &Job) -> Option<ReadAhead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take_if(|read| read.input == job.input)
    }

    /// How many of the jobs that failed did so because there is their result already, which is what was asked for.
    pub(super) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// An error of writing, with what helps.
    fn explain(&self, error: Error) -> anyhow::Error {
        match &error {
            Error::Exists { .. } if !self.args.skip_existing => anyhow!("{error} (--overwrite replaces it)"),
            _ => error.into(),
        }
    }

    /// Filters the values of a picture. Says so before, if that will take long.
    pub(super) fn compute(&self, compute: &mut Compute<'_>, job: &Job, picture: Picture) -> Result<Picture> {
        let Picture { pixels, icc_profile } = picture;
        if !self.args.quiet
            && let Some(expected) = compute.expected(&pixels, self.output_type(&pixels))
            && expected > LONG
        {
            self.progress.say(format_args!("{}: {}", job.name(), describe(expected)));
        }
        let filtered = compute
            .compute(&pixels, self.output_type(&pixels), self.args.keep_alpha)
            .with_context(|| job.name().to_string())?;
        if let Some(error) = compute.take_loss() {
            // Not a matter of one picture, and worth a look at the machine: said to those who want errors only, too.
            self.progress.say(format_args!(
                "warning: {error:#}; this picture and all others are computed on the CPU",
                error = anyhow!(error)
            ));
        }
        if let Some(note) = compute.take_note()
            && !self.args.quiet
        {
            self.progress.say(format_args!("{}: computed {note}", job.name()));
        }
        Ok(Picture { pixels: filtered, icc_profile })
    }

    fn output_type(&self, pixels: &Pixels) -> PixelType {
        self.args.output_type.unwrap_or(pixels.pixel_type())
    }
}

impl Work for Pictures<'_> {
    type Job = Job;
    type Input = Picture;
    type Output = Picture;
    type Error = anyhow::Error;

    /// Of the larger of input and output: for a short time there are both.
    fn bytes(&self, job: &Job) -> u64 {
        let grows = match self.args.output_type {
            Some(PixelType::F32) => 4,
            Some(PixelType::U16) => 2,
            Some(PixelType::U8) | None => 1,
        };
        host::files::decoded_bytes(&job.input).saturating_mul(grows)
    }

    fn read(&self, job: &Job) -> Result<Picture> {
        let ahead = self.ahead(job);
        if !self.args.overwrite && job.has_result() {
            // Before the work; that nothing is replaced is made sure of when the file gets its name.
            return Err(self.explain(Error::Exists { path: job.output.clone() }));
        }
        let picture = match ahead {
            Some(ahead) => ahead.picture.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Picture::read(&job.input),
        };
        let picture = picture.map_err(|error| job.blame(error))?;
        let pixels = &picture.pixels;
        let format = Format::of(&job.output)?;
        format.check(&job.output, self.output_type(pixels), pixels.channels()).map_err(|error| {
            let fits = |pixel: &PixelType| format.check(&job.output, *pixel, pixels.channels()).is_ok();
            let types = [PixelType::U8, PixelType::U16, PixelType::F32];
            match types.iter().find(|pixel| fits(pixel)) {
                Some(pixel) => anyhow!("{error} (--output-type {} or another extension helps)", pixel.name()),
                None => anyhow!("{error} (another extension helps)"),
            }
        })?;
        if !self.args.quiet
            && let Some(more) = host::files::left_out(&job.input)
        {
            self.progress.say(format_args!("note: {}: {more}", job.name()));
        }
        Ok(picture)
    }

    fn write(&self, job: &Job, picture: Picture) -> Result<()> {
        paths::make_folder(&self.args.output, &job.output)?;
        picture.write(&job.output, self.args.existing()).map_err(|error| self.explain(error))?;
        self.progress.written(picture.pixels.width() * picture.pixels.height());
        Ok(())
    }

    /// Every other picture would fail alike.
    fn is_final(&self, error: &anyhow::Error) -> bool {
        matches!(error.downcast_ref(), Some(Error::DeviceLost { .. }))
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

/// A long time, no more exactly than it can be known.
fn describe(expected: Duration) -> String {
    let seconds = expected.as_secs_f64();
    let time = match seconds {
        ..90.0 => format!("{:.0} seconds", seconds),
        ..5400.0 => format!("{:.0} minutes", seconds / 60.0),
        ..172_800.0 => format!("{:.0} hours", seconds / 3600.0),
        _ => format!("{:.0} days", seconds / 86_400.0),
    };
    format!("this will take about {time} to compute")
}
