//! The same images on 1, 2, 4, ... devices at once: the rate, and whether each device gives the same bits.
//!
//! `cargo run --release -p faltung --example several_gpus -- [--devices cuda:all] [--side 8192] [--frames 6]
//! [--rounds 16] [--repeats 3] [--mask 63] [--chunk-mask 255]`
//!
//! | case | images | what limits it |
//! | --- | --- | --- |
//! | `transfers` | `f32` in page-locked memory, 5 x 5 | transfers |
//! | `kernel` | the same images, `--mask` x `--mask` | the kernel |
//! | `chunks` | one image of twice the side in ordinary memory, in 16 chunks, `--chunk-mask` x `--chunk-mask` | the kernel |
//!
//! All sums are exact, so the results do not depend on the device. They are compared with those of one device, and
//! parts of them with those of the CPU. Each line of the output is a JSON object. `--devices cpu:2` takes the CPU
//! twice, to try the program without a GPU.

use std::error::Error;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use faltung::chunked::{BoxError, ChunkGrid, ChunkSink, ChunkedFilter, Progress, Window, WindowSource};
use faltung::{
    Accuracy, Device, Filter, Image, Mask, PageLocked, Prepared, Problem, Result, VariantChoice, View, ViewMut,
};

/// What is in a result that was not written. No sum is this NaN.
const UNWRITTEN: f32 = f32::from_bits(0x7fc0_dead);

/// The options, with their defaults.
struct Options {
    devices: String,
    side: usize,
    frames: usize,
    rounds: usize,
    repeats: usize,
    mask: usize,
    chunk_mask: usize,
}

impl Options {
    fn parse() -> std::result::Result<Self, Box<dyn Error>> {
        let devices = "cuda:all".to_owned();
        let mut found = Self { devices, side: 8192, frames: 6, rounds: 16, repeats: 3, mask: 63, chunk_mask: 255 };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let number = || value.parse::<usize>().ok().filter(|&number| number > 0);
            let place = match name.as_str() {
                "--devices" => {
                    found.devices = value;
                    continue;
                }
                "--side" => &mut found.side,
                "--frames" => &mut found.frames,
                "--rounds" => &mut found.rounds,
                "--repeats" => &mut found.repeats,
                "--mask" => &mut found.mask,
                "--chunk-mask" => &mut found.chunk_mask,
                _ => return Err(format!("there is no option {name}").into()),
            };
            *place = number().ok_or_else(|| format!("{name}: a number above 0 was expected, not {value}"))?;
        }
        Ok(found)
    }

    fn open(&self) -> std::result::Result<Vec<Device>, Box<dyn Error>> {
        if let Some(count) = self.devices.strip_prefix("cpu:") {
            return Ok(vec![Device::cpu(); count.parse()?]);
        }
        if self.devices == "cuda:all" {
            Ok(Device::all_cuda()?)
        } else {
            Ok(vec![Device::select(self.devices.parse()?)?])
        }
    }
}

/// The value of a pixel of a frame: noise of 16 bits.
fn value(frame: usize, x: usize, y: usize) -> f32 {
    let mixed = (x as u32).wrapping_mul(0x9e37_79b1) ^ (y as u32).wrapping_mul(0x85eb_ca77) ^ (frame as u32) << 16;
    (mixed.wrapping_mul(0xc2b2_ae3d) >> 16) as f32
}

/// A mask of noise, which is not separable.
fn dense(side: usize) -> Result<Filter> {
    let values = (0..side * side).map(|i| value(7, i % side, i / side) / 65_536.0 - 0.25).collect();
    Ok(Filter::new(Mask::new(side, side, values)?).accuracy(Accuracy::Exact))
}

fn same_bits(one: &[f32], other: &[f32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Whether some values at the corners and in the middle are those of the CPU.
fn is_right(filter: &Filter, frame: &[f32], result: &[f32], side: usize) -> Result<bool> {
    let mask = filter.mask()?.width();
    let part = (2 * mask + 64).min(side);
    for (x, y) in [(0, 0), (side - part, 0), (side / 2 - part / 2, side / 2 - part / 2), (side - part, side - part)] {
        let source = Image::from_fn(part, part, |i, j| frame[(y + j) * side + x + i])?;
        let expected: Image<f32> = Device::cpu().apply(filter, &source)?;
        // What lies near an edge of the part has other neighbours there, unless it is an edge of the image, too.
        let inner = |start: usize| {
            let first = if start == 0 { 0 } else { mask };
            first..if start + part == side { part } else { part - mask }
        };
        let rows_agree = inner(y).all(|j| {
            let columns = inner(x);
            same_bits(&expected.row(j)[columns.clone()], &result[(y + j) * side + x..][columns])
        });
        if !rows_agree {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A device, with images and results in memory that is page-locked by it.
struct Place {
    device: Device,
    frames: Vec<PageLocked<f32>>,
    results: Vec<PageLocked<f32>>,
}

impl Place {
    fn new(device: &Device, side: usize, count: usize) -> Result<Self> {
        let locked = || (0..count).map(|_| device.page_locked::<f32>(side * side)).collect::<Result<Vec<_>>>();
        let (mut frames, results) = (locked()?, locked()?);
        for (number, frame) in frames.iter_mut().enumerate() {
            for (y, row) in frame.chunks_exact_mut(side).enumerate() {
                row.iter_mut().enumerate().for_each(|(x, to)| *to = value(number, x, y));
            }
        }
        Ok(Self { device: device.clone(), frames, results })
    }

    fn run(&mut self, prepared: &Prepared, side: usize, rounds: usize) -> Result<()> {
        let views =
            self.frames.iter().map(|frame| View::new(side, side, 1, side, frame)).collect::<Result<Vec<_>>>()?;
        for _ in 0..rounds {
            let to = |frame| ViewMut::new(side, side, 1, side, frame);
            let mut results = self.results.iter_mut().map(|frame| to(frame)).collect::<Result<Vec<_>>>()?;
            prepared.run_batch(&views, &mut results)?;
        }
        Ok(())
    }
}

/// 1, 2, 4, ... and all.
fn counts(devices: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(1), |count| Some(2 * count)).take_while(|&n| n < devices).collect();
    counts.push(devices);
    counts
}

/// One line of the output.
struct Line {
    case: &'static str,
    devices: usize,
    variant: String,
    seconds: Duration,
    images: usize,
    pixels: usize,
    is_same: bool,
    is_right: bool,
}

impl Line {
    fn print(&self) {
        let Self { case, devices, variant, images, pixels, is_same, is_right, .. } = self;
        let seconds = self.seconds.as_secs_f64();
        let rate = (images * pixels) as f64 / seconds;
        println!(
            "{{\"case\": \"{case}\", \"devices\": {devices}, \"variant\": \"{variant}\", \"images\": {images}, \
             \"pixels\": {pixels}, \"seconds\": {seconds:.6}, \"pixels_per_s\": {rate:.6e}, \"gb_per_s\": {:.3}, \
             \"same_bits\": {is_same}, \"right\": {is_right}}}",
            8.0 * rate / 1e9
        );
    }
}

/// Images in page-locked memory.
fn batches(options: &Options, case: &'static str, filter: &Filter, places: &mut [Place]) -> Result<bool> {
    let Options { side, frames, rounds, repeats, .. } = *options;
    let problem = Problem::new(side, side, filter)?;
    let ready = |place: &Place| place.device.prepare(&problem, VariantChoice::Auto);
    let prepared = places.iter().map(ready).collect::<Result<Vec<_>>>()?;
    let mut reference: Option<Vec<Vec<f32>>> = None;
    let mut is_good = true;
    for count in counts(places.len()) {
        let of_each = rounds.div_ceil(count);
        let mut best = Duration::MAX;
        for repeat in 0..=repeats {
            let barrier = Barrier::new(count + 1);
            let elapsed = std::thread::scope(|scope| {
                let threads: Vec<_> = places[..count]
                    .iter_mut()
                    .zip(&prepared)
                    .map(|(place, prepared)| {
                        let barrier = &barrier;
                        scope.spawn(move || {
                            if repeat == 0 {
                                place.results.iter_mut().for_each(|result| result.fill(UNWRITTEN));
                            }
                            barrier.wait();
                            place.run(prepared, side, if repeat == 0 { 1 } else { of_each })
                        })
                    })
                    .collect();
                barrier.wait();
                let start = Instant::now();
                threads.into_iter().try_for_each(|thread| thread.join().expect("it did not panic"))?;
                Ok::<_, faltung::Error>(start.elapsed())
            })?;
            // The first round makes streams and memory.
            if repeat > 0 {
                best = best.min(elapsed);
            }
        }
        let expected =
            reference.get_or_insert_with(|| places[0].results.iter().map(|result| result.to_vec()).collect());
        let compare =
            |place: &Place| place.results.iter().zip(&*expected).all(|(found, right)| same_bits(found, right));
        let is_same = std::thread::scope(|scope| {
            let threads: Vec<_> = places[..count].iter().map(|place| scope.spawn(|| compare(place))).collect();
            threads.into_iter().all(|thread| thread.join().expect("it did not panic"))
        });
        let is_right = is_right(filter, &places[0].frames[0], &expected[0], side)?;
        is_good &= is_same && is_right;
        let (images, variant) = (of_each * count * frames, prepared[0].variant().to_owned());
        Line { case, devices: count, variant, seconds: best, images, pixels: side * side, is_same, is_right }.print();
    }
    Ok(is_good)
}

/// An image in ordinary memory.
struct Whole(Image<f32>);

impl WindowSource<f32> for Whole {
    fn read(&self, window: Window) -> std::result::Result<Image<f32>, BoxError> {
        Ok(self.0.crop(window.x, window.y, window.width, window.height)?)
    }
}

/// The chunks of a result in ordinary memory.
struct Collected(Vec<Mutex<Vec<f32>>>);

impl ChunkSink<f32> for Collected {
    fn write(&self, chunk: usize, window: Window, values: View<'_, f32>) -> std::result::Result<(), BoxError> {
        let mut to = self.0[chunk].lock().map_err(|error| error.to_string())?;
        for (y, row) in to.chunks_exact_mut(window.width).enumerate() {
            row.copy_from_slice(values.row(y));
        }
        Ok(())
    }
}

/// A large image in ordinary memory, in chunks.
fn chunks(options: &Options, filter: &Filter, devices: &[Device]) -> std::result::Result<bool, Box<dyn Error>> {
    let (side, chunk) = (2 * options.side, options.side.div_ceil(2));
    let grid = ChunkGrid::new(side, side, chunk, chunk)?;
    let source = Whole(Image::from_fn(side, side, |x, y| value(0, x, y))?);
    let length = |number| usize::try_from(grid.window(number).pixels());
    let lengths = (0..grid.count()).map(length).collect::<std::result::Result<Vec<_>, _>>()?;
    let sink = Collected(lengths.into_iter().map(|length| Mutex::new(vec![UNWRITTEN; length])).collect());
    let chunked = ChunkedFilter::new(filter.clone(), grid, 1);
    let mut reference: Option<Vec<Vec<f32>>> = None;
    let mut is_good = true;
    for count in counts(devices.len()) {
        let mut best = Duration::MAX;
        for repeat in 0..=options.repeats {
            if repeat == 0 {
                sink.0.iter().for_each(|chunk| chunk.lock().expect("nobody panicked").fill(UNWRITTEN));
            }
            let start = Instant::now();
            let report = chunked.run(&devices[..count], 0..grid.count(), &source, &sink, &Progress::default())?;
            if !report.is_complete() || !report.lost_devices.is_empty() {
                return Err(format!("chunks are missing: {report:?}").into());
            }
            if repeat > 0 {
                best = best.min(start.elapsed());
            }
        }
        let found: Vec<Vec<f32>> = sink.0.iter().map(|chunk| chunk.lock().expect("nobody panicked").clone()).collect();
        let is_same = {
            let expected = reference.get_or_insert_with(|| found.clone());
            found.iter().zip(expected).all(|(found, right)| same_bits(found, right))
        };
        let mut whole = vec![UNWRITTEN; side * side];
        for (number, values) in found.iter().enumerate() {
            let window = grid.window(number);
            for (y, row) in values.chunks_exact(window.width).enumerate() {
                whole[(window.y + y) * side + window.x..][..window.width].copy_from_slice(row);
            }
        }
        let is_right = is_right(filter, source.0.values(), &whole, side)?;
        is_good &= is_same && is_right;
        let problem = Problem::new(chunk, chunk, filter)?;
        let variant = devices[0].prepare(&problem, VariantChoice::Auto)?.variant().to_owned();
        let (case, images, pixels) = ("chunks", 1, side * side);
        Line { case, devices: count, variant, seconds: best, images, pixels, is_same, is_right }.print();
    }
    Ok(is_good)
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let options = Options::parse()?;
    let devices = options.open()?;
    for device in &devices {
        eprintln!("{}", device.describe());
    }
    let mut places: Vec<Place> = std::thread::scope(|scope| {
        let make = |device| scope.spawn(move || Place::new(device, options.side, options.frames));
        let threads: Vec<_> = devices.iter().map(make).collect();
        threads.into_iter().map(|thread| thread.join().expect("it did not panic")).collect::<Result<_>>()
    })?;
    let small = Filter::new(Mask::gaussian(1.0, Some(2))?).accuracy(Accuracy::Exact);
    let mut is_good = batches(&options, "transfers", &small, &mut places)?;
    is_good &= batches(&options, "kernel", &dense(options.mask)?, &mut places)?;
    drop(places);
    is_good &= chunks(&options, &dense(options.chunk_mask)?, &devices)?;
    if is_good { Ok(()) } else { Err("results differ".into()) }
}
