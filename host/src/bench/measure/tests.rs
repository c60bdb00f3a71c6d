//! Planted faults: what is wrong is never timed.

use std::cell::Cell;

use super::*;
use crate::bench::workload::{MaskSize, Picture, mask};
use crate::{Border, Device, Filter, Image, Problem, VariantChoice};

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
    /// Right at first, NaN in one pixel after some runs.
    Later,
    /// The device fails.
    Driver,
}

/// A stand-in for a convolution: the right answer with a fault in it, and a count of timed runs.
struct StandIn<'a> {
    right: &'a [f32],
    fault: Fault,
    resident: Vec<f32>,
    runs: usize,
    timed: &'a Cell<usize>,
}

impl StandIn<'_> {
    fn answer(&self, result: &mut [f32], is_resident: bool) {
        let middle = result.len() / 2;
        let kept = result[middle];
        if self.fault == Fault::Nothing {
            return;
        }
        result.copy_from_slice(self.right);
        match self.fault {
            Fault::Pixel { resident } if resident == is_resident => result[middle] += 1e-3,
            Fault::Bit => result[middle] = f32::from_bits(result[middle].to_bits() ^ 1),
            Fault::Unwritten => result[middle] = kept,
            Fault::Later if self.runs > 3 => result[middle] = f32::NAN,
            _ => {}
        }
    }
}

impl Executor for StandIn<'_> {
    fn run_plane(&mut self, _: &[f32], result: &mut [f32]) -> Result<()> {
        self.answer(result, false);
        Ok(())
    }

    fn upload(&mut self, source: &[f32]) -> Result<()> {
        self.resident = vec![f32::NAN; source.len()];
        Ok(())
    }

    fn execute(&mut self, times: usize) -> Result<Duration> {
        if self.fault == Fault::Driver {
            return Err(Error::Driver { action: "run the kernel".into(), reason: "planted".into() });
        }
        let mut resident = std::mem::take(&mut self.resident);
        self.runs += times;
        self.timed.set(self.timed.get() + 1);
        self.answer(&mut resident, true);
        self.resident = resident;
        Ok(Duration::from_micros(10 * times as u64))
    }

    fn download(&mut self, result: &mut [f32]) -> Result<()> {
        result.copy_from_slice(&self.resident);
        Ok(())
    }
}

const TIMING: Timing = Timing { batch: Duration::from_micros(35), min_time: Duration::ZERO };

/// Measures a stand-in with a fault. Also returns how often it was run on resident data.
fn measured(fault: Fault) -> (Result<(Verdict, Times), Cause>, usize) {
    let mask = mask(MaskSize { width: 5, height: 3 }, 7).unwrap();
    let problem = Problem::new(37, 23, &Filter::new(mask).border(Border::Mirror)).unwrap();
    let image = Picture::Random("37x23".parse().unwrap()).image(7).unwrap();
    let mut expected = Expected::new(&problem, &image);
    let mut right = vec![f32::NAN; 37 * 23];
    Device::cpu().convolution(&problem, VariantChoice::Auto).unwrap().run_plane(image.values(), &mut right).unwrap();
    expected.set_cpu(right.clone());
    let (timed, mut result) = (Cell::new(0), vec![0.0; right.len()]);
    let open = || Ok(StandIn { right: &right, fault, resident: Vec::new(), runs: 0, timed: &timed });
    let measurement = measure(open, image.values(), &mut result, &expected, TIMING);
    (measurement, timed.get())
}

#[test]
fn a_right_answer_is_timed() {
    let (verdict, times) = measured(Fault::None).0.unwrap();
    assert_eq!(verdict.bits_equal_cpu, Some(true));
    assert!(verdict.error_over_bound <= 1.0);
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
    let (measurement, _) = measured(Fault::Later);
    assert!(matches!(measurement, Err(Cause::Wrong(Wrong::Values { count: 1, .. }))), "{measurement:?}");
}

#[test]
fn a_failure_is_no_wrong_answer() {
    let (measurement, _) = measured(Fault::Driver);
    assert!(matches!(measurement, Err(Cause::Failed(Error::Driver { .. }))), "{measurement:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let mask = mask(MaskSize::square(3), 7).unwrap();
    let problem = Problem::new(20, 10, &Filter::new(mask)).unwrap();
    let image = Image::from_fn(20, 10, |x, y| (x * y) as f32).unwrap();
    let mut expected = Expected::new(&problem, &image);
    let mut right = vec![f32::NAN; 200];
    Device::cpu().convolution(&problem, VariantChoice::Auto).unwrap().run_plane(image.values(), &mut right).unwrap();
    assert_eq!(expected.verify(&right).unwrap().bits_equal_cpu, None);
    expected.set_cpu(right.clone());

    let mut wrong = right.clone();
    wrong[3 * 20 + 4] = f32::NAN;
    let found = expected.verify(&wrong).unwrap_err();
    assert!(matches!(found, Wrong::Values { count: 1, pixels: 200, place: (4, 3), .. }), "{found:?}");

    let mut shifted = right.clone();
    shifted.rotate_right(1);
    assert!(matches!(expected.verify(&shifted), Err(Wrong::Values { .. })));
    assert!(matches!(expected.verify(&right[1..]), Err(Wrong::Length { required: 200, found: 199 })));

    let mut bit = right.clone();
    bit[5 * 20 + 7] = f32::from_bits(bit[5 * 20 + 7].to_bits() + 1);
    let found = expected.verify(&bit).unwrap_err();
    assert!(matches!(found, Wrong::Bits { count: 1, place: (7, 5), .. }), "{found:?}");
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
