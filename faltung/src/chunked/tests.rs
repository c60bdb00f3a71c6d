use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;
use crate::{Accuracy, Border, Mask, Operation};

/// An image in memory, of which windows are read.
struct Whole<T>(Image<T>);

impl<T: Pixel> WindowSource<T> for Whole<T> {
    fn read(&self, window: Window) -> Result<Image<T>, BoxError> {
        Ok(self.0.crop(window.x, window.y, window.width, window.height)?)
    }
}

/// A result in memory, and the chunks that were written.
struct Collected<U> {
    image: Mutex<Image<U>>,
    chunks: Mutex<BTreeSet<usize>>,
}

impl<U: Pixel> Collected<U> {
    /// Nothing that a filter gives here.
    fn new(grid: ChunkGrid, channels: usize) -> Self {
        let image = Image::<U>::zeros(grid.width(), grid.height(), channels).unwrap();
        Self { image: Mutex::new(image), chunks: Mutex::default() }
    }
}

impl<U: Pixel> ChunkSink<U> for Collected<U> {
    fn write(&self, chunk: usize, window: Window, values: View<'_, U>) -> Result<(), BoxError> {
        assert!(self.chunks.lock().unwrap().insert(chunk), "chunk {chunk} came twice");
        let mut image = self.image.lock().unwrap();
        let (pitch, row) = (image.width() * values.channels(), window.width * values.channels());
        for y in 0..window.height {
            let start = (window.y + y) * pitch + window.x * values.channels();
            image.values_mut()[start..][..row].copy_from_slice(values.row(y));
        }
        Ok(())
    }
}

const BORDERS: [Border; 6] =
    [Border::ZERO, Border::Constant(-2.5), Border::Clamp, Border::Reflect, Border::Mirror, Border::Wrap];

fn random_filter(random: &mut fastrand::Rng) -> Filter {
    // Larger than a chunk and than the image, too.
    let most = if random.u8(..4) == 0 { 60 } else { 8 };
    let (width, height) = (random.usize(1..most), random.usize(1..most));
    let mask = match random.u8(..3) {
        0 => Mask::average(width, height).unwrap(),
        _ => Mask::new(width, height, (0..width * height).map(|_| random.f32() - 0.3).collect()).unwrap(),
    };
    Filter::new(mask)
        .border(BORDERS[random.usize(..6)])
        .anchor(random.usize(..height), random.usize(..width))
        .operation(if random.bool() { Operation::Convolve } else { Operation::Correlate })
        .scale(0.5)
        .offset(3.0)
}

/// Filters a random image whole and in chunks. Both are the same, bit for bit.
fn compare<T: Pixel, U: Pixel>(random: &mut fastrand::Rng, accuracy: Accuracy) {
    let (width, height, channels) = (random.usize(1..50), random.usize(1..50), random.usize(1..5));
    let filter = random_filter(random).accuracy(accuracy);
    let grid = ChunkGrid::new(width, height, random.usize(1..40), random.usize(1..40)).unwrap();
    let values = (0..width * height * channels).map(|_| T::from_f32(random.f32() * 255.0)).collect();
    let image = Image::<T>::new(width, height, channels, values).unwrap();
    let expected: Image<U> = Device::cpu().apply(&filter, &image).unwrap();
    let (source, sink, progress) = (Whole(image), Collected::new(grid, channels), Progress::default());
    let chunked = ChunkedFilter::new(filter, grid, channels).workers(3);
    let report = chunked.run::<T, U>(&[Device::cpu()], 0..grid.count(), &source, &sink, &progress).unwrap();
    assert!(report.is_complete() && report.done == grid.count());
    let found = sink.image.into_inner().unwrap();
    let wrong = found.values().iter().zip(expected.values()).position(|(a, b)| a.to_f32() != b.to_f32());
    assert_eq!(wrong, None, "{channels} channels, {chunked:?}");
    let counts = progress.counts();
    assert_eq!((counts.chunks, counts.pixels), (grid.count() as u64, (width * height) as u64));
    assert!(counts.bytes_read >= (width * height * channels * size_of::<T>()) as u64);
}

#[test]
fn chunks_are_the_whole() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..250 {
        compare::<u8, u8>(&mut random, Accuracy::Bounded);
        compare::<u16, u16>(&mut random, Accuracy::Bounded);
        compare::<f32, u16>(&mut random, Accuracy::Bounded);
        compare::<f32, f32>(&mut random, Accuracy::Exact);
        compare::<u8, f32>(&mut random, Accuracy::Exact);
    }
}

/// Results of `f32` that are not exact keep their bound: no pixel is one of another place.
#[test]
fn bounded_results_are_near() {
    let (grid, filter) = (ChunkGrid::new(300, 200, 64, 48).unwrap(), Filter::gaussian(4.0).border(Border::Wrap));
    let image = Image::from_fn(300, 200, |x, y| ((x * 31 + y * 17) % 256) as f32).unwrap();
    let expected: Image = Device::cpu().apply(&filter, &image).unwrap();
    let (source, sink) = (Whole(image), Collected::<f32>::new(grid, 1));
    let run = ChunkedFilter::new(filter, grid, 1);
    run.run(&[Device::cpu()], 0..grid.count(), &source, &sink, &Progress::default()).unwrap();
    let found = sink.image.into_inner().unwrap();
    let errors = found.values().iter().zip(expected.values()).map(|(a, b)| (a - b).abs());
    assert!(errors.fold(0.0, f32::max) <= 0.01);
}

/// An image of four million columns and rows, of which a few chunks are asked for. Nothing of its size is allocated.
#[test]
fn a_large_image_costs_its_chunks() {
    struct Formula(AtomicU64);
    let value = |x: usize, y: usize| (x * 7 + y * 13) as u16;
    impl WindowSource<u16> for Formula {
        fn read(&self, window: Window) -> Result<Image<u16>, BoxError> {
            self.0.fetch_add(window.pixels(), SeqCst);
            Ok(Image::from_fn(window.width, window.height, |x, y| ((window.x + x) * 7 + (window.y + y) * 13) as u16)?)
        }
    }
    struct Check(Mutex<Vec<usize>>, usize);
    impl ChunkSink<u16> for Check {
        fn write(&self, chunk: usize, window: Window, values: View<'_, u16>) -> Result<(), BoxError> {
            for y in 0..window.height {
                for (x, &found) in values.row(y).iter().enumerate() {
                    // The image repeats at its edges, as a torus.
                    let expected = ((window.x + x + self.1 - 3) % self.1 * 7 + (window.y + y) % self.1 * 13) as u16;
                    assert_eq!(found, expected, "{x}, {y} of {window}");
                }
            }
            self.0.lock().unwrap().push(chunk);
            Ok(())
        }
    }
    let side = 4_000_003;
    assert_eq!(value(1, 1), 20);
    let grid = ChunkGrid::new(side, side, 256, 100).unwrap();
    // The pixel three columns to the left.
    let filter = Filter::new(Mask::new(7, 1, vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]).unwrap());
    let filter = filter.operation(Operation::Correlate).border(Border::Wrap);
    let wanted = [0, grid.columns() - 1, grid.count() / 2, grid.count() - 1];
    let (source, sink) = (Formula(AtomicU64::new(0)), Check(Mutex::default(), side));
    let run = ChunkedFilter::new(filter, grid, 1).memory(64 << 20);
    let report = run.run(&[Device::cpu()], wanted, &source, &sink, &Progress::default()).unwrap();
    assert!(report.is_complete(), "{report:?}");
    assert_eq!(sink.0.into_inner().unwrap().into_iter().collect::<BTreeSet<_>>(), wanted.into());
    assert!(source.0.into_inner() <= 4 * (256 + 6) * 100);
}

/// Each part has its chunks, together all of them once, and they can be computed apart.
#[test]
fn parts_are_the_whole() {
    let grid = ChunkGrid::new(37, 23, 5, 4).unwrap();
    for parts in 1..60 {
        let all: Vec<usize> = (0..parts).flat_map(|part| grid.part(part, parts)).collect();
        assert!(all.iter().copied().eq(0..grid.count()));
        let counts = (0..parts).map(|part| grid.part(part, parts).len());
        assert!(counts.clone().max().unwrap() - counts.min().unwrap() <= 1);
    }
}

/// A source that can't read one pixel, and a sink that refuses one chunk.
struct Broken {
    image: Whole<u8>,
    unreadable: Option<(usize, usize)>,
    unwritable: Option<usize>,
    written: Mutex<BTreeSet<usize>>,
}

impl WindowSource<u8> for Broken {
    fn read(&self, window: Window) -> Result<Image<u8>, BoxError> {
        match self.unreadable {
            Some((x, y)) if window.columns().contains(&x) && window.rows().contains(&y) => Err("bad checksum".into()),
            _ => self.image.read(window),
        }
    }
}

impl ChunkSink<u8> for Broken {
    fn write(&self, chunk: usize, _: Window, _: View<'_, u8>) -> Result<(), BoxError> {
        if self.unwritable == Some(chunk) {
            return Err("no space left".into());
        }
        self.written.lock().unwrap().insert(chunk);
        Ok(())
    }
}

fn broken(unreadable: Option<(usize, usize)>, unwritable: Option<usize>) -> Broken {
    let image = Whole(Image::from_fn(40, 40, |x, y| (x * y) as u8).unwrap());
    Broken { image, unreadable, unwritable, written: Mutex::default() }
}

#[test]
fn what_cannot_be_read_fails_alone() {
    let grid = ChunkGrid::new(40, 40, 10, 10).unwrap();
    // Within the reach of four chunks.
    let place = broken(Some((10, 20)), None);
    let run = ChunkedFilter::new(Filter::average(3, 3), grid, 1);
    let report = run.run::<u8, u8>(&[Device::cpu()], 0..16, &place, &place, &Progress::default()).unwrap();
    let failed: Vec<usize> = report.failed.iter().map(|failure| failure.chunk).collect();
    assert_eq!(failed, [4, 5, 8, 9]);
    assert!(report.failed.iter().all(|failure| failure.stage == Stage::Read));
    assert_eq!(report.failed[0].error.to_string(), "bad checksum");
    assert_eq!((report.done, report.not_begun.len(), place.written.into_inner().unwrap().len()), (12, 0, 12));
}

#[test]
fn after_a_failed_write_nothing_begins() {
    let grid = ChunkGrid::new(40, 40, 10, 10).unwrap();
    let place = broken(None, Some(5));
    let run = ChunkedFilter::new(Filter::average(3, 3), grid, 1).workers(1);
    let report = run.run::<u8, u8>(&[Device::cpu()], 0..16, &place, &place, &Progress::default()).unwrap();
    let [failure] = &report.failed[..] else { panic!("{report:?}") };
    assert_eq!((failure.chunk, failure.stage), (5, Stage::Write));
    assert_eq!((report.done, report.not_begun), (5, (6..16).collect()));
}

/// Wrong arguments are an error before anything is read.
#[test]
fn chunks_and_devices_are_checked_first() {
    let grid = ChunkGrid::new(40, 40, 10, 10).unwrap();
    let place = broken(None, None);
    let run = ChunkedFilter::new(Filter::average(3, 3), grid, 1);
    let run = |devices: &[Device], chunks: &[usize]| {
        run.run::<u8, u8>(devices, chunks.iter().copied(), &place, &place, &Progress::default())
    };
    let outside = run(&[Device::cpu()], &[3, 16]).unwrap_err();
    assert!(matches!(&outside, Error::Number { found, .. } if found == "16"), "{outside:?}");
    assert!(matches!(run(&[], &[3]), Err(Error::Number { .. })));
    assert!(place.written.lock().unwrap().is_empty());
    let report = run(&[Device::cpu()], &[3, 15, 3, 3]).unwrap();
    assert!(report.is_complete() && report.done == 2, "{report:?}");
    for (width, height, side) in [(0, 10, "columns"), (10, 0, "rows")] {
        let empty = ChunkGrid::new(40, 40, width, height).unwrap_err();
        assert_eq!(empty.to_string(), format!("the {side} of a chunk must be at least 1, not 0"));
    }
}

/// Never is more under way than was set, and less than one chunk is an error before anything is read.
#[test]
fn memory_is_bounded() {
    struct Counting(AtomicU64, AtomicU64, u64);
    impl WindowSource<u8> for Counting {
        fn read(&self, window: Window) -> Result<Image<u8>, BoxError> {
            self.1.fetch_max(self.0.fetch_add(1, SeqCst) + 1, SeqCst);
            Ok(Image::zeros(window.width, window.height, 1)?)
        }
        fn extra_bytes(&self, _: Window) -> u64 {
            self.2
        }
    }
    impl ChunkSink<u8> for Counting {
        fn write(&self, _: usize, _: Window, _: View<'_, u8>) -> Result<(), BoxError> {
            std::thread::sleep(std::time::Duration::from_millis(1));
            self.0.fetch_sub(1, SeqCst);
            Ok(())
        }
    }
    let grid = ChunkGrid::new(100, 100, 10, 10).unwrap();
    let run = ChunkedFilter::new(Filter::average(3, 3), grid, 1).workers(16);
    let counting = || Counting(AtomicU64::new(0), AtomicU64::new(0), 50 << 20);
    let needed = run.bytes_of_a_chunk::<u8, u8>(&counting(), &counting()).unwrap();
    assert!((50 << 20..51 << 20).contains(&needed), "{needed}");
    for (most, memory) in [(1, needed), (3, needed * 7 / 2)] {
        let both = counting();
        let run = run.clone().memory(memory);
        let report = run.run::<u8, u8>(&[Device::cpu()], 0..100, &both, &both, &Progress::default()).unwrap();
        assert!(report.is_complete());
        assert_eq!(both.1.into_inner(), most);
    }
    let both = counting();
    let short = run.memory(needed - 1).run::<u8, u8>(&[Device::cpu()], 0..100, &both, &both, &Progress::default());
    assert!(matches!(short, Err(Error::HostMemory { .. })), "{short:?}");
    assert_eq!(both.1.into_inner(), 0);
}

/// A source of zeros that calls a function before each of its reads.
struct Watched<F: Fn(Window) + Sync>(F);

impl<F: Fn(Window) + Sync> WindowSource<f32> for Watched<F> {
    fn read(&self, window: Window) -> Result<Image<f32>, BoxError> {
        (self.0)(window);
        Ok(Image::zeros(window.width, window.height, 1)?)
    }
}

/// One chunk with the most pixels that an image may have.
#[test]
fn a_huge_chunk_is_refused_at_once() {
    let (begin, side) = (Instant::now(), (1 << 30) - 1);
    let grid = ChunkGrid::new(side, side, side, side).unwrap();
    let (source, sink) = (Watched(|_| panic!("nothing is read")), Collected::<f32>::new(nine(), 1));
    for border in BORDERS {
        let run = ChunkedFilter::new(Filter::average(3, 5).border(border), grid, 1).memory(1 << 50);
        let refused = run.run(&[Device::cpu()], [0], &source, &sink, &Progress::default());
        let least = 8 * (side * side) as u128;
        assert!(matches!(refused, Err(Error::HostMemory { needed, .. }) if needed >= least), "{border:?}: {refused:?}");
    }
    assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
}

/// Nine chunks in a row.
fn nine() -> ChunkGrid {
    ChunkGrid::new(90, 8, 10, 8).unwrap()
}

/// Nine chunks in a row, one after the other.
fn nine_chunks(source: &dyn WindowSource<f32>) -> Report {
    let grid = nine();
    let (sink, filter) = (Collected::<f32>::new(grid, 1), ChunkedFilter::new(Filter::sobel(crate::Axis::Y), grid, 1));
    filter.workers(1).run(&[Device::cpu()], 0..grid.count(), source, &sink, &Progress::default()).unwrap()
}

/// The threads of a run have the flag and the pool of the thread that calls.
#[test]
fn the_callers_names_hold() {
    let cancelled = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let source = Watched(|window: Window| cancelled.store(window.x >= 20, SeqCst));
    let report = crate::cancellable(&cancelled, || nine_chunks(&source));
    assert_eq!(report.done + report.failed.len(), 4, "{report:?}");
    assert_eq!(report.not_begun, [4, 5, 6, 7, 8]);
    assert!(report.failed.iter().all(|failure| failure.error.downcast_ref() == Some(&Error::Cancelled)), "{report:?}");

    let report = crate::cancellable(&cancelled, || nine_chunks(&Watched(|_| panic!("nothing is read"))));
    assert_eq!((report.done, report.not_begun.len()), (0, 9));

    let pool = std::sync::Arc::new(rayon::ThreadPoolBuilder::new().num_threads(7).build().unwrap());
    let source = Watched(|_| assert_eq!(crate::parallel::threads(), 7));
    assert!(crate::with_pool(&pool, || nine_chunks(&source)).is_complete());
}

#[test]
fn a_panic_of_the_source_is_passed_on() {
    let panic = std::panic::catch_unwind(|| nine_chunks(&Watched(|_| panic!("of the source")))).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"of the source"));
}

#[test]
fn a_failure_is_an_error_with_a_source() {
    let failure = Failure { chunk: 5, stage: Stage::Read, error: Error::NoTime.into() };
    assert_eq!(failure.to_string(), "chunk 5 could not be read");
    assert_eq!(StdError::source(&failure).unwrap().to_string(), Error::NoTime.to_string());
}
