//! Images that are filtered in chunks, because they are larger than the memory, or shared with other processes.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow, bail, ensure};
use faltung::chunked::{ChunkGrid, ChunkSink, ChunkedFilter, Failure, Progress, Report, Stage, WindowSource};
use faltung::{Device, Filter, PixelFormat, Problem, for_pixel_type, memory};
use host::chunked::{ImageInfo, NpySink, OpenedSource, TILE, Task, TiffSink, Value, ZarrOptions, ZarrSink, is_zarr};
use host::files::{self, DeferredSync, Format, Metadata, escaped};

use super::alpha::Alpha;
use super::args::Args;
use super::chunk_progress::{ChunkProgress, Share};
use super::compute::{Compute, Work};
use super::steps::Steps;
use super::{OrUsage, Outcome, interrupt, output};

/// Whether the arguments ask for chunks, or the image needs them.
pub(super) fn is_wanted(args: &Args, steps: &Steps) -> bool {
    let is_asked_for = args.memory.is_some() || args.part.is_some() || args.chunk.is_some();
    is_asked_for || is_zarr(&args.output) || args.inputs.iter().any(is_zarr) || exceeds_memory(args, steps)
}

/// Whether a single picture takes more than the free memory, and can be filtered in chunks.
fn exceeds_memory(args: &Args, steps: &Steps) -> bool {
    let [input] = &args.inputs[..] else { return false };
    let can = OpenedSource::is_readable(input) && is_single_file(&args.output) && check(args, steps).is_ok();
    can && memory::free().is_some_and(|free| files::decoded_bytes(input) > free)
}

/// Whether the path names a single file (`.npy`, TIFF) that can be written in chunks.
fn is_single_file(path: &Path) -> bool {
    let is_npy = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
    is_npy || is_tiff(path)
}

fn is_tiff(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["tif", "tiff"].iter().any(|tiff| extension.eq_ignore_ascii_case(tiff)))
}

/// Filters one image in chunks.
pub(super) fn run(args: &Args, steps: &Steps) -> Result<Outcome> {
    let filter = check(args, steps).or_usage()?;
    let [input] = &args.inputs[..] else { bail!("one image was checked above") };
    let source = OpenedSource::open(input)?;
    let info = source.info();
    if matches!(source, OpenedSource::Tiff(_)) && info.channels.is_multiple_of(2) && args.alpha.is_none() {
        let text =
            format!("{}: has alpha, and in chunks all channels are filtered alike: --alpha plain", escaped(input));
        return Err(anyhow!(text)).or_usage();
    }
    let result = ImageInfo { pixel: args.output_type.unwrap_or(info.pixel), ..info };
    let job = Job { args, filter, source: &source, info, result };
    if args.memory.is_some() {
        host::return_freed_memory();
    }
    for_pixel_type!(info.pixel, T => for_pixel_type!(result.pixel, U => job.run::<T, U>()))
}

/// The filter, if the arguments go together.
fn check<'a>(args: &Args, steps: &'a Steps) -> Result<&'a Filter> {
    let [input] = &args.inputs[..] else {
        bail!("images that are filtered in chunks (.zarr, --memory, --part, --chunk) are filtered one by one");
    };
    ensure!(
        steps.is_single_convolution(),
        "an image that is filtered in chunks takes one mask: no --then, --unsharp, magnitude or --linear"
    );
    ensure!(
        matches!(args.alpha, None | Some(Alpha::Plain)),
        "--alpha: images that are filtered in chunks have all their channels filtered alike (--alpha plain)"
    );
    ensure!(args.quality.is_none(), "--quality is for JPEG, which is not filtered in chunks");
    ensure!(args.variant().named().is_none(), "--variant NAME is not for images that are filtered in chunks");
    let output = &args.output;
    ensure!(!(is_zarr(output) && output.is_file()), "{}: is a file, and a Zarr array is a folder", escaped(output));
    ensure!(
        is_zarr(output) || is_single_file(output),
        "{}: .zarr, .npy and .tif are written in chunks, which a Zarr array, --memory, --part and --chunk ask for",
        escaped(output)
    );
    ensure!(
        args.part.is_none() || is_zarr(output),
        "--part: {}: several processes can't share one file: .zarr is needed",
        escaped(output)
    );
    ensure!(
        !(args.part.is_some() && args.overwrite),
        "--overwrite and --part: other processes write {}, too; remove it first",
        escaped(output)
    );
    if let (Ok(one), Ok(other)) = (input.canonicalize(), output.canonicalize()) {
        let (is, lies) = ("input and output are the same", "lies in the output");
        ensure!(!one.starts_with(&other), "{}: {}", escaped(input), if one == other { is } else { lies });
    }
    Ok(&steps.filters[0])
}

/// An image to be filtered in chunks.
struct Job<'a> {
    args: &'a Args,
    filter: &'a Filter,
    source: &'a OpenedSource,
    info: ImageInfo,
    result: ImageInfo,
}

impl Job<'_> {
    fn run<T: Value, U: Value>(&self) -> Result<Outcome> {
        let format = PixelFormat::of::<T, U>(self.info.channels);
        let problem = Problem::new(self.info.width, self.info.height, self.filter)?.with_format(format)?;
        if is_zarr(&self.args.output) { self.to_zarr::<T, U>(&problem) } else { self.to_file::<T, U>() }
    }

    fn to_zarr<T: Value, U: Value>(&self, problem: &Problem) -> Result<Outcome> {
        let Args { output, part, skip_existing, overwrite, .. } = self.args;
        let task = Task::new(problem, self.source.identity()?, self.result.pixel);
        let options = ZarrOptions { chunk: self.args.chunk };
        let sink = ZarrSink::new(output, self.result, self.source.zarr(), options, task)?;
        let grid = sink.grid()?;
        let (number, parts) = part.unwrap_or((1, 1));
        let share = grid.part(number - 1, parts);
        let of_share = share.len();
        self.check_count(of_share)?;
        let devices = self.devices()?;
        // This may fail, so it comes before anything is removed or made.
        self.check_memory::<T, U>(&devices, grid, &sink)?;
        if *overwrite && output.exists() {
            ZarrSink::remove(output)?;
        }
        sink.begin(*skip_existing || part.is_some()).map_err(|error| match error {
            host::Error::Exists { .. } => anyhow!("{error} (--skip-existing goes on with it, --overwrite replaces it)"),
            error => error.into(),
        })?;
        let chunks: Vec<usize> = share.filter(|&chunk| !(*skip_existing && sink.has(chunk))).collect();
        if chunks.is_empty() {
            match of_share {
                0 => self.say(format_args!("--part {number}/{parts} has no chunk: the result has {}", grid.count())),
                _ => self.say(format_args!("all {of_share} chunks existed and are kept")),
            }
            return Ok(Outcome::Done);
        }
        let sync = DeferredSync::begin();
        let share = Share { kept: of_share - chunks.len(), chunks, name: &|chunk| sink.name(chunk) };
        let outcome = self.filter::<T, U>(&devices, grid, &share, &sink);
        sync.finish()?;
        outcome
    }

    /// Checks that the numbers of the chunks fit into memory.
    fn check_count(&self, chunks: usize) -> Result<()> {
        /// A number takes 8 bytes in each of a few lists.
        const MOST: usize = 1 << 24;
        let output = escaped(&self.args.output);
        ensure!(
            chunks <= MOST,
            "{output}: {chunks} chunks for one process, at most {MOST} are possible (a larger --chunk helps, or --part)"
        );
        Ok(())
    }

    /// Checks that there is memory for one chunk.
    fn check_memory<T: Value, U: Value>(
        &self,
        devices: &[Device],
        grid: ChunkGrid,
        sink: &dyn ChunkSink<U>,
    ) -> Result<()> {
        let chunked = ChunkedFilter::new(self.filter.clone(), grid, self.info.channels);
        let needed = chunked.bytes_of_a_chunk::<T, U>(self.source.windows(), sink)?;
        let own = own_memory(devices);
        let free = self.limit().saturating_sub(own);
        if needed > free {
            let what = format!("for one chunk of {} x {} pixels", grid.chunk_width(), grid.chunk_height());
            let error = faltung::Error::HostMemory { what, needed: needed.into(), free: free.into() };
            return Err(explain(error, own));
        }
        Ok(())
    }

    /// Filters to a single file, whose blocks are written in place. It has a temporary name until it is complete.
    fn to_file<T: Value, U: Value>(&self) -> Result<Outcome> {
        let Args { output, skip_existing, .. } = self.args;
        if *skip_existing && output.is_file() {
            self.say(format_args!("1 result existed and is kept"));
            return Ok(Outcome::Done);
        }
        // This may fail, so it comes before the work.
        files::check_writable(output, self.args.existing())?;
        let devices = self.devices()?;
        let mut outcome = None;
        let contents = |writer: &mut BufWriter<File>| {
            let file = writer.get_ref();
            let result = if is_tiff(output) {
                let sink = TiffSink::begin(
                    file,
                    self.result,
                    self.source.extra_samples(),
                    self.source.metadata().unwrap_or(&Metadata::default()),
                )?;
                self.to_blocks::<T, U>(&devices, &sink, TILE)
            } else {
                let sink = NpySink::begin(file, self.result).map_err(|error| error.to_string())?;
                self.to_blocks::<T, U>(&devices, &sink, 1)
            };
            let text = match &result {
                Ok(Outcome::Done) => None,
                Ok(Outcome::SomeFailed) => Some("is not written, because parts of it are missing".to_owned()),
                Err(error) => Some(format!("is not written: {error:#}")),
            };
            outcome = result.ok();
            text.map_or(Ok(()), Err)
        };
        files::write_through(output, self.args.existing(), contents)?;
        Ok(outcome.unwrap_or(Outcome::SomeFailed))
    }

    fn to_blocks<T: Value, U: Value>(
        &self,
        devices: &[Device],
        sink: &dyn ChunkSink<U>,
        step: usize,
    ) -> Result<Outcome> {
        let grid = self.blocks::<T, U>(devices, sink, step)?;
        self.check_count(grid.count())?;
        let name = |chunk| grid.window(chunk).to_string();
        let share = Share { kept: 0, chunks: (0..grid.count()).collect(), name: &name };
        self.filter::<T, U>(devices, grid, &share, sink)
    }

    /// The blocks of an image whose file does not prescribe any: full rows if they are not too long. Sides are
    /// multiples of `step`.
    fn blocks<T: Value, U: Value>(
        &self,
        devices: &[Device],
        sink: &dyn ChunkSink<U>,
        step: usize,
    ) -> Result<ChunkGrid> {
        /// The most bytes of a block.
        const MOST: usize = 64 << 20;
        let ImageInfo { width, height, .. } = self.info;
        if let Some((rows, columns)) = self.args.chunk {
            let wanted = [columns.min(width), rows.min(height)];
            let [columns, rows] = wanted.map(|side| side.next_multiple_of(step));
            // A chunk of all columns or rows ends with the image.
            if (wanted[0] < columns && wanted[0] < width) || (wanted[1] < rows && wanted[1] < height) {
                self.say(format_args!(
                    "note: --chunk: chunks have {rows} rows and {columns} columns, because TIFF has tiles of {step} x \
                     {step} pixels"
                ));
            }
            return Ok(ChunkGrid::new(width, height, columns, rows)?);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let budget = self.budget(devices) / (cores + 2) as u64;
        let mask_height = self.filter.mask()?.height();
        let row = width * self.result.pixel_bytes().max(self.info.pixel_bytes());
        // There are enough blocks that reading, computing and writing overlap.
        let several = height.div_ceil(4 * (cores + 2)).max(2 * mask_height);
        let (mut columns, mut rows) = (width, (MOST / row).min(several).clamp(1, height));
        loop {
            let grid = ChunkGrid::new(width, height, columns.next_multiple_of(step), rows.next_multiple_of(step))?;
            let chunked = ChunkedFilter::new(self.filter.clone(), grid, self.info.channels);
            let needed = chunked.bytes_of_a_chunk::<T, U>(self.source.windows(), sink)?;
            if needed <= budget || (rows <= step && columns <= step) {
                return Ok(grid);
            }
            // Flat blocks read the rows above and below them many times.
            if columns <= step || (rows > step && rows > 2 * mask_height) {
                rows = rows.div_ceil(2);
            } else {
                columns = columns.div_ceil(2);
            }
        }
    }

    /// Opens the devices, and prints the notes before the work.
    fn devices(&self) -> Result<Vec<Device>> {
        let args = self.args;
        let devices = args.open_devices()?;
        self.note_lost();
        if !args.quiet {
            let reason = devices[0].reason().filter(|_| args.device.is_auto());
            for note in super::notes(args, &devices[0], reason, std::slice::from_ref(self.filter)) {
                output::message(format_args!("{note}"));
            }
        }
        Ok(devices)
    }

    /// The most bytes for the whole process.
    fn limit(&self) -> u64 {
        self.args.memory.map_or_else(|| memory::free().map_or(u64::MAX, |free| free / 2), |bytes| bytes as u64)
    }

    /// Bytes for the chunks under way: what `--memory` leaves beside the program itself.
    fn budget(&self, devices: &[Device]) -> u64 {
        self.limit().saturating_sub(own_memory(devices))
    }

    /// Announces a long computation of `chunks` chunks.
    fn announce(&self, devices: &[Device], grid: ChunkGrid, chunks: usize) -> Result<()> {
        /// At most the memory of a trial of the filter.
        const TRIAL: u64 = 128 << 20;
        if self.args.quiet || self.budget(devices) < TRIAL {
            return Ok(());
        }
        // A chunk is computed together with its halo.
        let (image, mask) = (self.info, self.filter.mask()?);
        let work = Work {
            width: (grid.chunk_width() + mask.width() - 1).min(image.width),
            height: (grid.chunk_height() + mask.height() - 1).min(image.height),
            channels: image.channels,
            input: image.pixel,
            images: chunks.div_ceil(devices.len()),
        };
        let mut compute = Compute::new(&devices[0], std::slice::from_ref(self.filter), self.args.variant())?;
        if let Some(announcement) = compute.announcement(&work, self.result.pixel, false) {
            output::message(format_args!("{}: {announcement}", escaped(&self.args.inputs[0])));
        }
        Ok(())
    }

    fn filter<T: Value, U: Value>(
        &self,
        devices: &[Device],
        grid: ChunkGrid,
        share: &Share<'_>,
        sink: &dyn ChunkSink<U>,
    ) -> Result<Outcome> {
        self.announce(devices, grid, share.chunks.len())?;
        let source: &dyn WindowSource<T> = self.source.windows();
        let chunked = ChunkedFilter::new(self.filter.clone(), grid, self.info.channels);
        let own = own_memory(devices);
        let (budget, needed) = (self.limit().saturating_sub(own), chunked.bytes_of_a_chunk(source, sink)?);
        // Decoded parts are kept for the halos of several chunks, unless that leaves memory for fewer than four chunks.
        let kept = if budget / 4 >= needed { budget / 4 } else { 0 };
        self.source.keep_decoded(kept);
        let chunked = chunked.memory(budget - kept);
        let start = Instant::now();
        let counters = Progress::default();
        let progress = ChunkProgress::new(&counters, share.chunks.len(), self.args.quiet);
        let bar = progress.bar();
        let (is_quiet, can_go_on) = (self.args.quiet, is_zarr(&self.args.output));
        interrupt::clean_up_when_interrupted(move || {
            bar.finish_and_clear();
            let what_now = if can_go_on {
                "the same command with --skip-existing computes the chunks that are missing"
            } else {
                "the file that was begun is removed"
            };
            if !is_quiet {
                output::message(format_args!("interrupted; {what_now}"));
            }
        });
        let run = |devices: &[Device], chunks: &[usize]| {
            let report = chunked.run(devices, chunks.iter().copied(), source, sink, &counters);
            report.map_err(|error| explain(error, own))
        };
        let report = progress.while_it_is_shown(|| {
            let first = run(devices, &share.chunks)?;
            // With `auto` the CPU continues, as it does with pictures.
            let is_left = !first.is_complete() && first.lost_devices.len() == devices.len();
            if !(is_left && self.args.device.is_auto()) {
                return Ok::<_, anyhow::Error>(first);
            }
            let missing = missing(&first, Stage::Compute);
            let second = run(&[Device::cpu()], &missing)?;
            let mut failed: Vec<Failure> =
                first.failed.into_iter().filter(|failure| failure.stage != Stage::Compute).collect();
            failed.extend(second.failed);
            let Report { not_begun, done, .. } = second;
            Ok(Report { done: first.done + done, failed, not_begun, lost_devices: first.lost_devices })
        })?;
        for lost in &report.lost_devices {
            let who = if self.args.device.is_auto() { "the CPU does" } else { "other devices do" };
            let what = if report.is_complete() { format!("; {who} its work") } else { String::new() };
            output::message(format_args!("warning: {}: {}{what}", lost.name, lost.error));
        }
        Ok(self.conclude(&report, share, &counters, start))
    }

    /// Prints how the run ended.
    fn conclude(&self, report: &Report, share: &Share<'_>, counters: &Progress, start: Instant) -> Outcome {
        for failure in &report.failed {
            let what = match failure.stage {
                Stage::Read => "reading",
                Stage::Compute => "computing",
                Stage::Write => "writing",
            };
            output::message(format_args!("error: chunk {}: {what}: {}", (share.name)(failure.chunk), failure.error));
        }
        self.say(format_args!("{}", share.summary(report.done, &counters.counts(), start.elapsed())));
        if let (Some(limit), Some(peak)) = (self.args.memory, memory::peak()) {
            self.say(format_args!("memory: at most {} of {} MiB were used", peak >> 20, limit >> 20));
        }
        if report.is_complete() {
            return Outcome::Done;
        }
        let mut missing: Vec<usize> = report.failed.iter().map(|failure| failure.chunk).collect();
        missing.extend(&report.not_begun);
        missing.sort_unstable();
        output::message(format_args!("{}", share.missing(&missing, is_zarr(&self.args.output))));
        Outcome::SomeFailed
    }

    /// Prints a note on what the result lacks of the input's file.
    fn note_lost(&self) {
        let input = escaped(&self.args.inputs[0]);
        let Some(metadata) = self.source.metadata() else { return };
        if let Some(more) = files::left_out(&self.args.inputs[0]) {
            self.say(format_args!("note: {input}: {more}"));
        }
        // Zarr arrays hold as little metadata as `.npy`.
        let format = if is_tiff(&self.args.output) { Format::Tiff } else { Format::Npy };
        let lost: Vec<_> = metadata.lost_in(format).into_iter().collect();
        if !lost.is_empty() {
            self.say(format_args!("note: {input}: not kept: {}", lost.join(", ")));
        }
    }

    fn say(&self, text: std::fmt::Arguments<'_>) {
        if !self.args.quiet {
            output::message(text);
        }
    }
}

/// The chunks that were not begun, and those that failed at a stage.
fn missing(report: &Report, stage: Stage) -> Vec<usize> {
    let failed = report.failed.iter().filter(|failure| failure.stage == stage).map(|failure| failure.chunk);
    let mut chunks: Vec<usize> = failed.chain(report.not_begun.iter().copied()).collect();
    chunks.sort_unstable();
    chunks
}

/// Bytes that the program itself takes, apart from the chunks under way.
fn own_memory(devices: &[Device]) -> u64 {
    /// What a device's driver and its staging buffers take in host memory. Two chunks at once have 64 MiB each.
    const OF_A_DEVICE: u64 = 128 << 20;
    /// Stacks, and what the allocator keeps.
    const OF_A_THREAD: u64 = 3 << 20;
    let gpus = devices.iter().filter(|device| device.gpu().is_some()).count() as u64;
    let threads = 2 * rayon::current_num_threads() as u64 + 2;
    memory::resident().unwrap_or(64 << 20) + gpus * OF_A_DEVICE + threads * OF_A_THREAD
}

/// An error of the library, with a hint. `own` is what the program itself takes.
fn explain(error: faltung::Error, own: u64) -> anyhow::Error {
    /// The program itself may take this much more in the next run.
    const SPREAD: u64 = 1 << 20;
    let faltung::Error::HostMemory { needed, .. } = error else { return error.into() };
    let least = (needed + u128::from(own + SPREAD)).div_ceil(1 << 20);
    if memory::available().is_some_and(|available| least << 20 > available.into()) {
        return anyhow!("{error} (a smaller --chunk or a machine with more memory helps)");
    }
    anyhow!(
        "{error}: the program itself takes {} MiB (--memory {least}M or more helps, or a smaller --chunk)",
        own.div_ceil(1 << 20),
    )
}
