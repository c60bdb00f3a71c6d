//! Planted faults: what is wrong is never timed.

use std::cell::Cell;

use super::*;
use crate::bench::workload::BenchImage;
use crate::samples::{MaskSize, mask};
use faltung::{Accuracy, Border, Device, Filter, Image, PixelFormat, PixelType, Problem, VariantChoice};

/// What a stand-in does to the right answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// One pixel is off by 1/1000, on resident data or in one go.
    Pixel {
        resident: bool,
    },
    /// The last bit of one pixel.
    Bit,
    /// One pixel is left as it was.
    Unwritten,
    /// All pixels are left as they were.
    Nothing,
    /// Right at first, NaN in one pixel after some runs, on resident data or in one go.
    Later {
        resident: bool,
    },
    /// The device fails.
    Driver,
}

/// A stand-in for a convolution: the right answer with a fault in it, and a count of timed runs.
struct StandIn<'a> {
    right: &'a Image,
    bound: ErrorBound,
    fault: Fault,
    resident: Option<Image>,
    runs: usize,
    timed: &'a Cell<usize>,
}

impl StandIn<'_> {
    fn answer(&self, result: &mut Image, is_resident: bool) {
        let result = result.values_mut();
        let middle = result.len() / 2;
        let kept = result[middle];
        if self.fault == Fault::Nothing {
            return;
        }
        result.copy_from_slice(self.right.values());
        match self.fault {
            Fault::Pixel { resident } if resident == is_resident => result[middle] += 1e-3,
            Fault::Bit => result[middle] = f32::from_bits(result[middle].to_bits() ^ 1),
            Fault::Unwritten => result[middle] = kept,
            Fault::Later { resident } if resident == is_resident && self.runs > 3 => result[middle] = f32::NAN,
            _ => {}
        }
    }
}

impl Executor for StandIn<'_> {
    fn bound(&self) -> ErrorBound {
        self.bound
    }

    fn run(&mut self, _: &AnyImage, result: &mut AnyImage) -> Result<()> {
        self.answer(plane_mut(result), false);
        Ok(())
    }

    fn upload(&mut self, source: &AnyImage) -> Result<()> {
        self.resident = Some(source.to_f32().map(|_| f32::NAN));
        Ok(())
    }

    fn execute(&mut self, times: usize) -> Result<Duration> {
        if self.fault == Fault::Driver {
            let source = faltung::DriverError::new(999, "CUDA_ERROR_UNKNOWN", "planted");
            return Err(Error::Driver { action: "run the kernel".into(), source });
        }
        let mut resident = self.resident.take().expect("uploaded");
        self.runs += times;
        self.timed.set(self.timed.get() + 1);
        self.answer(&mut resident, true);
        self.resident = Some(resident);
        Ok(Duration::from_micros(10 * times as u64))
    }

    fn download(&mut self, result: &mut AnyImage) -> Result<()> {
        plane_mut(result).clone_from(self.resident.as_ref().expect("uploaded"));
        Ok(())
    }
}

fn plane_mut(pixels: &mut AnyImage) -> &mut Image {
    let AnyImage::F32(image) = pixels else { panic!("these tests have f32") };
    image
}

const TIMING: Sampling =
    Sampling { warm_up: Duration::ZERO, batch: Duration::from_micros(35), min_time: Duration::ZERO };

/// Measures a stand-in with a fault. Also returns how often it was run on resident data.
fn measured(fault: Fault) -> (Result<(Deviation, Times), Cause>, usize) {
    let mask = mask(MaskSize { width: 5, height: 3 }, 7, false).unwrap();
    let problem = Problem::new(37, 23, &Filter::new(mask).border(Border::Mirror)).unwrap();
    let image = BenchImage::Random("37x23".parse().unwrap()).image(7, PixelType::F32, 1).unwrap();
    let mut expected = Expected::new(&problem, &image);
    let right: Image = Device::cpu().prepare(&problem, VariantChoice::Auto).unwrap().apply(&image.to_f32()).unwrap();
    expected.set_exact(&right.clone().into());
    let (timed, mut result) = (Cell::new(0), image.clone());
    let bound = ErrorBound::direct(&problem);
    let open = || Ok(StandIn { right: &right, bound, fault, resident: None, runs: 0, timed: &timed });
    let measurement = measure(open, &image, &mut result, &expected, TIMING, None);
    (measurement, timed.get())
}

#[test]
fn a_right_answer_is_timed() {
    let (deviation, times) = measured(Fault::None).0.unwrap();
    assert_eq!(deviation.bits_equal_cpu, Some(true));
    assert!(deviation.error_over_bound <= 1.0);
    assert_eq!((times.kernel.us.median, times.kernel.us.mad), (10.0, 0.0));
    assert_eq!(times.kernel.us.count, BATCHES);
    assert!(times.kernel.runs >= 4, "{times:?}");
}

#[test]
fn a_wrong_answer_is_never_timed() {
    for (fault, runs) in [
        (Fault::Pixel { resident: false }, 0),
        (Fault::Pixel { resident: true }, 1),
        (Fault::Bit, 0),
        (Fault::Unwritten, 0),
        (Fault::Nothing, 0),
    ] {
        let (measurement, timed) = measured(fault);
        assert!(matches!(measurement, Err(Cause::Wrong(_))), "{fault:?}: {measurement:?}");
        assert_eq!(timed, runs, "{fault:?} was run after it was known to be wrong");
    }
}

#[test]
fn an_answer_that_goes_wrong_while_it_is_timed_has_no_figure() {
    for resident in [true, false] {
        let (measurement, _) = measured(Fault::Later { resident });
        assert!(matches!(measurement, Err(Cause::Wrong(Wrong::Values { count: 1, .. }))), "{measurement:?}");
    }
}

#[test]
fn a_failure_is_no_wrong_answer() {
    let (measurement, _) = measured(Fault::Driver);
    assert!(matches!(measurement, Err(Cause::Failed(Error::Driver { .. }))), "{measurement:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let mask = mask(MaskSize::square(3), 7, false).unwrap();
    let problem = Problem::new(20, 10, &Filter::new(mask)).unwrap();
    let image = Image::from_fn(20, 10, |x, y| (x * y) as f32).unwrap();
    let mut expected = Expected::new(&problem, &image.clone().into());
    let right: Image = Device::cpu().prepare(&problem, VariantChoice::Auto).unwrap().apply(&image).unwrap();
    let verify = |expected: &Expected<'_>, change: &dyn Fn(&mut [f32])| {
        let mut answer = right.clone();
        change(answer.values_mut());
        expected.verify(&answer.into(), ErrorBound::direct(&problem))
    };
    assert_eq!(verify(&expected, &|_| {}).unwrap().bits_equal_cpu, None);
    expected.set_exact(&right.clone().into());

    let found = verify(&expected, &|values| values[3 * 20 + 4] = f32::NAN).unwrap_err();
    assert!(matches!(found, Wrong::Values { count: 1, values: 200, place: (4, 3, 0), .. }), "{found:?}");
    assert!(matches!(verify(&expected, &|values| values.rotate_right(1)), Err(Wrong::Values { .. })));
    let short = right.crop(0, 0, 20, 9).unwrap();
    assert!(matches!(
        expected.verify(&short.into(), ErrorBound::direct(&problem)),
        Err(Wrong::Length { required: 200, found: 180 })
    ));
    let next = |values: &mut [f32]| values[5 * 20 + 7] = f32::from_bits(values[5 * 20 + 7].to_bits() + 1);
    let found = verify(&expected, &next).unwrap_err();
    assert!(matches!(found, Wrong::Bits { count: 1, place: (7, 5, 0), .. }), "{found:?}");
    // A bounded result need not be bit-exact, and the deviation says so.
    let mut other = right.clone();
    next(other.values_mut());
    let deviation = expected.verify(&other.into(), ErrorBound::with_constant(9.0)).unwrap();
    assert_eq!(deviation.bits_equal_cpu, Some(false));
    assert_eq!(deviation.bound.to_string(), "bounded (c = 9)");
}

#[test]
fn a_wrong_channel_is_named() {
    let filter = Filter::new(mask(MaskSize::square(3), 7, false).unwrap());
    let format = PixelFormat { channels: 3, input: PixelType::U8, output: PixelType::U8 };
    let problem = Problem::new(20, 10, &filter).unwrap().with_format(format).unwrap();
    let image = BenchImage::Random("20x10".parse().unwrap()).image(7, PixelType::U8, 3).unwrap();
    let mut expected = Expected::new(&problem, &image);
    let bound = ErrorBound::direct(&problem);
    let AnyImage::U8(source) = &image else { panic!("u8 was asked for") };
    let right: Image<u8> = Device::cpu().prepare(&problem, VariantChoice::Auto).unwrap().apply(source).unwrap();
    expected.verify(&right.clone().into(), bound).unwrap();
    let mut wrong = right.clone();
    wrong.values_mut()[3 * (5 * 20 + 7) + 2] ^= 16;
    let found = expected.verify(&wrong.clone().into(), bound).unwrap_err();
    assert!(matches!(found, Wrong::Values { count: 1, values: 600, place: (7, 5, 2), .. }), "{found:?}");
    // Within the bound, perhaps, but not what the CPU found.
    expected.set_exact(&right.clone().into());
    wrong.values_mut()[3 * (5 * 20 + 7) + 2] ^= 17;
    assert!(expected.verify(&wrong.into(), bound).is_err());
    // Integers have the exact bits: a wide bound does not allow others.
    let wide = ErrorBound::with_constant(1e6);
    let mut near = right.clone();
    near.values_mut()[3 * (5 * 20 + 7)] ^= 1;
    let found = expected.verify(&near.clone().into(), wide).unwrap_err();
    assert!(matches!(found, Wrong::Bits { count: 1, place: (7, 5, 0), .. }), "{found:?}");
    assert_eq!(expected.verify(&right.clone().into(), wide).unwrap().bits_equal_cpu, Some(true));
    // The class Normwise allows what is within its bound.
    let problem = problem.with_accuracy(Accuracy::Normwise);
    let mut expected = Expected::new(&problem, &image);
    expected.set_exact(&right.into());
    let (wide, narrow) = (ErrorBound::normwise(1e6), ErrorBound::normwise(1.0));
    assert_eq!(expected.verify(&near.clone().into(), wide).unwrap().bits_equal_cpu, Some(false));
    let found = expected.verify(&near.into(), narrow).unwrap_err();
    assert!(matches!(found, Wrong::Values { count: 1, .. }), "{found:?}");
}

#[test]
fn a_clock_that_stands_still_ends_the_measurement() {
    let measured = sample(TIMING, |_| Ok(Duration::ZERO));
    assert!(matches!(measured, Err(Cause::Clock)), "{measured:?}");
}

#[test]
fn slow_runs_are_taken_one_by_one() {
    let mut most = 0;
    let measured = sample(TIMING, |runs| {
        most = most.max(runs);
        Ok(Duration::from_millis(3))
    });
    let measured = measured.unwrap();
    assert_eq!((measured.runs, most, measured.us.median, measured.us.count), (1, 1, 3000.0, BATCHES));
}

/// An eviction comes before each run from host memory, and takes no time.
#[test]
fn what_comes_before_a_single_run_does_not_count() {
    const PAUSE: Duration = Duration::from_millis(100);
    let (before, runs) = (Cell::new(0), Cell::new(0));
    let pause = || {
        assert_eq!(before.get(), runs.get(), "one before each run");
        before.set(before.get() + 1);
        std::thread::sleep(PAUSE);
        Ok(())
    };
    let measured = sample_alone(TIMING, pause, || {
        runs.set(runs.get() + 1);
        std::thread::sleep(Duration::from_micros(50));
        Ok(())
    });
    let measured = measured.unwrap();
    assert_eq!((measured.runs, measured.batches.len()), (1, BATCHES));
    assert!(measured.us.median < 1e6 * PAUSE.as_secs_f64(), "{measured:?}");
}

/// The looks frame the batches that count: the device was busy just before each.
#[test]
fn the_device_is_looked_at_after_the_warm_up_and_after_the_last_batch() {
    let runs = Cell::new(0);
    let look = || runs.get();
    let (measured, looks) = sample_watched(TIMING, Some(look), |_| {
        runs.set(runs.get() + 1);
        Ok(Duration::from_millis(3))
    })
    .unwrap();
    let [before, after] = looks.expect("two looks");
    assert!(before >= 1, "no warm-up came before the first look");
    // One batch after the first look does not count.
    assert_eq!((after - before, runs.get()), (measured.batches.len() + 1, after));
}
