//! Tests of the guarantees of the library's handles, each on one device. `devices` runs them on every device of the
//! machine. `fake_driver` runs them with a driver that begins work as late as it can and reports misuse.

mod array_one_launch;
mod array_streams;
mod array_tiles;
mod arrays;
mod batch;
pub(crate) mod context;
mod default_stream;
pub(crate) mod foreign;
pub(crate) mod foreign_streams;
mod gaps;
mod masks;
mod pools;
mod streams;
mod threads;

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use faltung::{
    Accuracy, Border, Device, Filter, Image, Mask, PageLocked, Pixel, PixelFormat, Prepared, Problem, VariantChoice,
};
use libtest_mimic::Failed;

/// The result of a check, with the text of what is wrong. Unlike `Failed` it may come from another thread.
pub(crate) type Checked = Result<(), String>;
/// A test of one device.
pub(crate) type Test = (&'static str, fn(&Device) -> Checked);

/// Tests for every device.
pub(crate) const OF_ALL: [&[Test]; 9] = [
    threads::TESTS,
    pools::TESTS,
    streams::TESTS,
    foreign::TESTS,
    batch::TESTS,
    gaps::TESTS,
    arrays::TESTS,
    array_tiles::TESTS,
    array_one_launch::TESTS,
];
/// Tests for CUDA devices, those of the fake driver among them.
pub(crate) const OF_CUDA: [&[Test]; 6] = [
    context::TESTS,
    foreign::OF_CUDA,
    foreign_streams::OF_CUDA,
    default_stream::OF_CUDA,
    array_streams::OF_CUDA,
    masks::OF_CUDA,
];

/// A test that takes longer counts as one that never ends. The slowest test takes some seconds.
const LONGEST: Duration = Duration::from_secs(300);

/// Runs a test on a device, which is dropped before this returns. A test that does not end fails.
pub(crate) fn run(test: fn(&Device) -> Checked, device: Device) -> Result<(), Failed> {
    ends(LONGEST, move || test(&device))
}

/// Runs `work` on a thread of its own, and fails if it has not ended in time.
fn ends(longest: Duration, work: impl FnOnce() -> Checked + Send + 'static) -> Result<(), Failed> {
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        let _ = sender.send(work());
    });
    match receiver.recv_timeout(longest) {
        Ok(checked) => {
            thread.join().map_err(|_| "the thread panicked at its end")?;
            Ok(checked?)
        }
        Err(RecvTimeoutError::Disconnected) => Err(thread.join().map_or_else(message, |()| "no result".into()).into()),
        Err(RecvTimeoutError::Timeout) => Err(format!("no end after {longest:?}: a deadlock?").into()),
    }
}

/// The words of a panic.
fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => format!("panicked: {text}"),
        Err(panic) => format!("panicked: {}", panic.downcast_ref::<&str>().unwrap_or(&"")),
    }
}

/// An error of the library, in words.
fn words(error: faltung::Error) -> String {
    format!("{error} ({error:?})")
}

/// A filter of `side` x `side` coefficients at random. Its results have the same bits on each device.
fn filter(side: usize, seed: u64) -> Filter {
    let mut random = fastrand::Rng::with_seed(seed);
    let mask = (0..side * side).map(|_| random.f32() - 0.3).collect();
    let border = [Border::Mirror, Border::ZERO, Border::Clamp, Border::Wrap][seed as usize % 4];
    Filter::new(Mask::new(side, side, mask).expect("a square")).border(border).accuracy(Accuracy::Exact)
}

/// An image of values at random.
fn image<T: Pixel>(width: usize, height: usize, channels: usize, seed: u64) -> Image<T> {
    let mut random = fastrand::Rng::with_seed(seed);
    let values = (0..width * height * channels).map(|_| T::from_f32(random.f32() * 255.0)).collect();
    Image::new(width, height, channels, values).expect("as many values as the sizes ask for")
}

/// The problem of a filter on an image.
fn problem<T: Pixel, U: Pixel>(filter: &Filter, image: &Image<T>) -> Result<Problem, String> {
    let problem = Problem::new(image.width(), image.height(), filter).map_err(words)?;
    problem.with_format(PixelFormat::of::<T, U>(image.channels())).map_err(words)
}

/// A filter made ready for images like this one.
fn prepared<T: Pixel, U: Pixel>(device: &Device, filter: &Filter, image: &Image<T>) -> Result<Prepared, String> {
    device.prepare(&problem::<T, U>(filter, image)?, VariantChoice::Auto).map_err(words)
}

/// The CPU's result.
fn on_cpu<T: Pixel, U: Pixel>(filter: &Filter, image: &Image<T>) -> Result<Image<U>, String> {
    Device::cpu().apply(filter, image).map_err(words)
}

/// Values in memory of the host.
enum HostMemory<T: Pixel> {
    Ordinary(Vec<T>),
    Locked(PageLocked<T>),
}

impl<T: Pixel> HostMemory<T> {
    /// `length` times a value, in page-locked memory of the device or in ordinary memory.
    fn new(device: &Device, is_locked: bool, length: usize, value: T) -> Result<Self, String> {
        if !is_locked {
            return Ok(Self::Ordinary(vec![value; length]));
        }
        let mut memory = device.page_locked(length).map_err(words)?;
        memory.fill(value);
        Ok(Self::Locked(memory))
    }

    fn values(&mut self) -> &mut [T] {
        match self {
            Self::Ordinary(values) => values,
            Self::Locked(memory) => memory,
        }
    }
}

/// Checks that a result is bit-exact with the right one.
fn equal<T: Pixel>(what: &str, found: &Image<T>, right: &Image<T>) -> Checked {
    let size = |image: &Image<T>| (image.width(), image.height(), image.channels());
    if size(found) != size(right) {
        return Err(format!("{what}: {:?} is the size, not {:?}", size(found), size(right)));
    }
    equal_values(what, found.values(), right.values())
}

/// Checks that values are bit-exact with the right ones.
fn equal_values<T: Pixel>(what: &str, found: &[T], right: &[T]) -> Checked {
    let bits = |value: &T| value.to_f32().to_bits();
    if found.len() != right.len() {
        return Err(format!("{what}: {} values, not {}", found.len(), right.len()));
    }
    match found.iter().zip(right).position(|(found, right)| bits(found) != bits(right)) {
        Some(at) => Err(format!("{what}: value {at} is {:?}, not {:?}", found[at], right[at])),
        None => Ok(()),
    }
}

/// Fails with this text unless `is_so`.
fn ensure(is_so: bool, what: impl FnOnce() -> String) -> Checked {
    if is_so { Ok(()) } else { Err(what()) }
}

/// Each helper that the tests rely on can fail.
pub(crate) fn planted() -> Result<(), Failed> {
    let right = image::<u8>(5, 4, 1, 1);
    let mut wrong = right.clone();
    wrong.values_mut()[19] ^= 1;
    assert!(equal("planted", &right, &right).is_ok() && equal("planted", &wrong, &right).is_err());
    assert!(equal("planted", &image::<u8>(4, 5, 1, 1), &right).is_err(), "another shape");
    assert!(equal_values("planted", &[-0.0_f32], &[0.0]).is_err(), "another bit");
    arrays::planted()?;
    let never = ends(Duration::from_millis(50), || {
        std::thread::sleep(Duration::from_secs(3));
        Ok(())
    });
    assert!(never.is_err_and(|failed| failed.message().is_some_and(|text| text.contains("deadlock"))));
    assert!(ends(LONGEST, || panic!("planted")).is_err_and(|failed| failed.message() == Some("panicked: planted")));
    Ok(())
}
