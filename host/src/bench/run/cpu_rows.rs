//! The CPU's rows of a cell, and which of them a row of the GPU is compared with.

use std::time::Duration;

use super::{Bench, Task};
use crate::bench::measure::{Cause, OnDevice, Sampling, measure};
use crate::bench::report::{Cell, Timed, Verified, VsCpu};
use crate::bench::roofline::Work;
use faltung::{Accuracy, Problem, Result, VariantChoice};

/// The shortest batch on the CPU: long against the resolution of its clock, and one run for most problems.
const BATCH: Duration = Duration::from_micros(200);

/// What the CPU computes a problem with.
struct Method {
    /// With the accuracy that is asked for.
    problem: Problem,
    variant: &'static str,
    /// The class of the results.
    class: Accuracy,
    reason: String,
}

/// The methods to measure. The exact one comes first, because others are compared with its bits. The choice comes last,
/// because programs that keep one row for each mask keep the last one. If both are one method, it is measured once.
fn methods(exact: Method, choice: Method) -> Vec<Method> {
    let is_other = choice.class != Accuracy::Exact || choice.variant != exact.variant;
    let other = is_other.then_some(choice);
    [exact].into_iter().chain(other).collect()
}

/// Compares a time of the GPU with the CPU's fastest row of those whose results the GPU's class allows. None without
/// such a row.
pub(super) fn compared(us: f64, class: Accuracy, cpu: &[Verified]) -> Option<VsCpu> {
    let is_allowed = |row: &Verified| class.allows(row.deviation.bound.class());
    let timed =
        cpu.iter().filter(|row| is_allowed(row)).filter_map(|row| Some((row.variant, row.timed.as_ref()?.us())));
    let (variant, cpu_us) = timed.min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(VsCpu { speedup: cpu_us / us, variant })
}

impl Bench<'_> {
    /// The rows of the CPU's methods. The cell has the failures.
    pub(super) fn cpu_rows(&mut self, cell: &mut Cell, task: &mut Task<'_>) -> Vec<Verified> {
        let found = [Accuracy::Exact, self.settings.accuracy].map(|accuracy| self.method(task.problem, accuracy));
        let [exact, choice] =
            found.map(|found| self.noted(found.map_err(Cause::from), self.cpu.backend(), "auto", cell));
        let (Some(exact), Some(choice)) = (exact, choice) else { return Vec::new() };
        let methods = methods(exact, choice);
        let mut rows = Vec::new();
        for (i, method) in methods.into_iter().enumerate() {
            let is_exact = i == 0;
            let Some(mut row) = self.cpu_row(method, cell, task) else { continue };
            if is_exact {
                // Verified. A wrong result of the CPU would blame the GPU.
                task.expected.set_exact(&task.answer);
            }
            // A single method is no choice.
            row.preferred = !is_exact;
            rows.push(row);
        }
        rows
    }

    /// What the CPU takes for a request. Has no buffers before it is used.
    fn method(&self, problem: &Problem, accuracy: Accuracy) -> Result<Method> {
        let problem = problem.clone().with_accuracy(accuracy);
        let prepared = self.cpu.prepare(&problem, VariantChoice::Auto)?;
        let (variant, class, reason) = (prepared.variant(), prepared.bound().class(), prepared.reason());
        Ok(Method { problem, variant, class, reason })
    }

    /// The row of a method. None if it failed.
    fn cpu_row(&mut self, method: Method, cell: &mut Cell, task: &mut Task<'_>) -> Option<Verified> {
        let Method { problem, variant, reason, .. } = method;
        let backend = self.cpu.backend();
        self.step(backend, variant, cell);
        let (cold, min_time) = (self.settings.cold, self.settings.min_time);
        let open = || OnDevice::new(self.cpu, &problem, VariantChoice::Auto).map(|executor| executor.cold(cold));
        // An eviction takes far longer than most runs, so each run is a sample.
        let batch = if cold { Duration::ZERO } else { BATCH };
        let sampling = Sampling { warm_up: Duration::ZERO, batch, min_time };
        let measured = measure(open, task.image, &mut task.answer, &task.expected, sampling, None);
        let (deviation, times) = self.noted(measured, backend, variant, cell)?;
        let work = Work::on_cpu(task.problem, variant);
        let timed = Some(Timed::new(times, None, work, self.machine.ceilings(backend), None));
        Some(Verified { backend, variant, reason, preferred: false, deviation, timed, counts: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::report;
    use faltung::{ErrorBound, Filter, Mask};

    fn method(variant: &'static str, class: Accuracy) -> Method {
        let problem = Problem::new(9, 9, &Filter::new(Mask::average(3, 3).unwrap())).unwrap();
        Method { problem, variant, class, reason: "a test".to_owned() }
    }

    #[test]
    fn the_exact_method_is_first_and_the_choice_is_last() {
        use Accuracy::{Bounded, Exact};
        let names = |choice| -> Vec<_> {
            methods(method("direct", Exact), choice).into_iter().map(|method| method.variant).collect()
        };
        assert_eq!(names(method("direct", Exact)), ["direct"]);
        assert_eq!(names(method("separable", Bounded)), ["direct", "separable"]);
        // Of integers: exact bits by another method.
        assert_eq!(names(method("separable", Exact)), ["direct", "separable"]);
        assert_eq!(names(method("direct", Bounded)), ["direct", "direct"]);
    }

    /// Rows of the CPU: name, class, time.
    fn rows(of: &[(&'static str, Accuracy, Option<f64>)]) -> Vec<Verified> {
        let row = report().cells.remove(0).rows.pop().expect("the CPU's row");
        let one = |&(variant, class, us): &(&'static str, Accuracy, Option<f64>)| {
            let mut row = Verified { variant, ..row.clone() };
            if class != Accuracy::Exact {
                row.deviation.bound = ErrorBound::with_constant(9.0);
            }
            match us {
                Some(us) => row.timed.as_mut().expect("a timed row").times.kernel.us.median = us,
                None => row.timed = None,
            }
            row
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn a_row_is_compared_with_the_fastest_that_its_class_allows() {
        use Accuracy::{Bounded, Exact, Normwise};
        let cpu = rows(&[("direct", Exact, Some(80.0)), ("separable", Bounded, Some(20.0))]);
        let vs = |class| compared(2.0, class, &cpu).unwrap();
        assert_eq!(vs(Exact), VsCpu { speedup: 40.0, variant: "direct" });
        assert_eq!(vs(Bounded), VsCpu { speedup: 10.0, variant: "separable" });
        assert_eq!(vs(Normwise), VsCpu { speedup: 10.0, variant: "separable" });
        // A choice that is slower than the exact method is no excuse.
        let cpu = rows(&[("direct", Exact, Some(20.0)), ("fft", Bounded, Some(80.0))]);
        assert_eq!(compared(2.0, Bounded, &cpu).unwrap().variant, "direct");
    }

    #[test]
    fn without_an_allowed_row_there_is_no_comparison() {
        use Accuracy::{Bounded, Exact};
        let cpu = rows(&[("direct", Exact, None), ("separable", Bounded, Some(20.0))]);
        assert_eq!(compared(2.0, Exact, &cpu), None);
        assert_eq!(compared(2.0, Bounded, &[]), None);
    }
}
