//! Filters of `faltung.ndimage`. The Python part has resolved axes, modes and types.

use std::sync::atomic::{AtomicU64, Ordering};

use faltung::BorderMode;
use faltung::nd::{self, Along, AxisFilter, Correlation, Element, Lines, Sums};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt};

use crate::array::Array;
use crate::compute::{compute, exception};

/// The weights of a filter.
pub(crate) struct Weights {
    pub(crate) values: Vec<f64>,
    pub(crate) shape: Vec<usize>,
}

impl Weights {
    /// # Errors
    /// `ValueError` unless the array is of `f64` and without gaps.
    pub(crate) fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let array = Array::get(object)?;
        let layout = array.layout();
        if *layout != nd::Layout::dense(Element::F64, &layout.shape) {
            return Err(PyValueError::new_err("the weights must be a C-contiguous array of float64"));
        }
        let first = std::ptr::with_exposed_provenance::<f64>(array.address());
        // SAFETY: the buffer has these elements, without gaps.
        let values = (0..layout.elements()).map(|i| unsafe { first.add(i).read_unaligned() }).collect();
        Ok(Self { values, shape: layout.shape.clone() })
    }
}

/// Replaces NaN weights by 0. SciPy leaves the products with both out if the weights have all axes.
pub(crate) fn leave_nan_out(weights: &mut [f64]) {
    for weight in weights.iter_mut().filter(|weight| weight.is_nan()) {
        *weight = 0.0;
    }
}

/// Whether all values have the same bits. So -0.0 differs from 0.0, and NaN equals itself.
pub(crate) fn same_bits(first: &[f64], second: &[f64]) -> bool {
    first.len() == second.len() && first.iter().zip(second).all(|(first, second)| first.to_bits() == second.to_bits())
}

/// SciPy's names of the border modes. The last three are other names of the same modes.
pub(crate) const MODES: [(&str, BorderMode); 8] = [
    ("reflect", BorderMode::Reflect),
    ("constant", BorderMode::Constant),
    ("nearest", BorderMode::Clamp),
    ("mirror", BorderMode::Mirror),
    ("wrap", BorderMode::Wrap),
    ("grid-mirror", BorderMode::Reflect),
    ("grid-constant", BorderMode::Constant),
    ("grid-wrap", BorderMode::Wrap),
];

/// The code of each mode by SciPy's name, for the Python part.
pub(crate) fn modes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let modes = PyDict::new(py);
    for (name, mode) in MODES {
        modes.set_item(name, mode.code())?;
    }
    Ok(modes)
}

/// Whether weights keep their precision in `f32`: each is 0 or far from the smallest and the largest `f32`.
pub(crate) fn all_fit_f32(weights: &[f64]) -> bool {
    weights.iter().all(|&weight| weight == 0.0 || (1e-30..1e30).contains(&weight.abs()))
}

/// Whether the weights of a C-contiguous array of float64 keep their precision in float32.
#[pyfunction]
pub(crate) fn fits_f32(weights: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(all_fit_f32(&Weights::get(weights)?.values))
}

/// Whether the magnitudes of all weights of a C-contiguous array of float64 are above a number. A NaN is not.
#[pyfunction]
pub(crate) fn are_above(weights: &Bound<'_, PyAny>, least: f64) -> PyResult<bool> {
    Ok(Weights::get(weights)?.values.iter().all(|weight| weight.abs() > least))
}

/// The border for a code of the Python part.
pub(crate) fn border(code: u32) -> PyResult<BorderMode> {
    let found = BorderMode::ALL.into_iter().find(|mode| mode.code() == code);
    found.ok_or_else(|| PyValueError::new_err(format!("{code} is the code of no border mode")))
}

pub(crate) fn sums(is_f32: bool) -> Sums {
    if is_f32 { Sums::F32 } else { Sums::F64 }
}

/// Correlates `input` with weights of as many axes. `output` is an array of the same shape, apart from `input`.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python part passes them by position")]
pub(crate) fn correlate(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    weights: &Bound<'_, PyAny>,
    output: &Bound<'_, PyAny>,
    mode: u32,
    cval: f64,
    origins: Vec<isize>,
    is_f32: bool,
) -> PyResult<()> {
    let (input, output, mut weights) = (Array::get(input)?, Array::get_output(output)?, Weights::get(weights)?);
    leave_nan_out(&mut weights.values);
    let border = border(mode)?;
    let work = input.layout().elements().saturating_mul(weights.values.len());
    let (from, to) = (input.input().map_err(exception)?, output.output().map_err(exception)?);
    compute(py, work, || {
        let correlation =
            Correlation { weights: &weights.values, shape: &weights.shape, origins: &origins, border, value: cval };
        nd::correlate(from, to, &correlation, sums(is_f32))
    })
}

/// Filters `input` along several axes, one after the other. `output` has the same shape. It is `input`, or has no byte
/// in common with it.
#[pyfunction]
pub(crate) fn filter_axes(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    output: &Bound<'_, PyAny>,
    filters: Vec<FilterOfAxis<'_>>,
    cval: f64,
    is_f32: bool,
) -> PyResult<()> {
    let (input, output) = (Array::get(input)?, Array::get_output(output)?);
    let kinds = axis_filters(&filters, cval)?;
    let filters: Vec<_> = kinds.iter().map(|(kind, lines)| AxisFilter { along: kind.along(), lines: *lines }).collect();
    let are_bytes = input.layout().element.size() == 1 && output.layout().element.size() == 1;
    let are_sums_of_bytes = are_bytes && kinds.iter().all(|(kind, _)| kind.is_whole());
    let steps = if are_sums_of_bytes { 1 } else { kinds.iter().map(|(kind, _)| kind.steps()).sum() };
    let work = input.layout().elements().saturating_mul(steps);
    let (from, to) = (input.input().map_err(exception)?, output.output().map_err(exception)?);
    compute(py, work, || nd::filter_axes(from, to, &filters, sums(is_f32)))
}

/// A filter along an axis, from Python: the axis, the weights or the size of a mean, the code of the mode, the origin.
pub(crate) type FilterOfAxis<'py> = (usize, Bound<'py, PyAny>, u32, isize);

/// The filters along axes. `cval` is the value outside.
pub(crate) fn axis_filters(filters: &[FilterOfAxis<'_>], cval: f64) -> PyResult<Vec<(Kind, Lines)>> {
    let one = |(axis, kind, mode, origin): &FilterOfAxis<'_>| {
        let lines = Lines { axis: *axis, origin: *origin, border: border(*mode)?, value: cval };
        Ok((Kind::get(kind)?, lines))
    };
    filters.iter().map(one).collect()
}

/// What a filter along an axis computes.
#[derive(Clone)]
pub(crate) enum Kind {
    /// The mean of so many elements.
    Mean(usize),
    /// The correlation with these weights.
    Weights(Vec<f64>),
}

impl Kind {
    /// A size or weights, from Python.
    pub(crate) fn get(filter: &Bound<'_, PyAny>) -> PyResult<Self> {
        // To try `extract` on an array would make an exception.
        if let Ok(size) = filter.cast::<PyInt>() {
            return Ok(Self::Mean(size.extract()?));
        }
        Ok(Self::Weights(Weights::get(filter)?.values))
    }

    fn along(&self) -> Along<'_> {
        match self {
            Self::Mean(size) => Along::Mean(*size),
            Self::Weights(weights) => Along::Weights(weights),
        }
    }

    /// Whether sums of bytes are computed in integers.
    fn is_whole(&self) -> bool {
        match self {
            Self::Mean(_) => true,
            Self::Weights(weights) => weights.iter().all(|weight| weight.fract() == 0.0),
        }
    }

    /// About how many multiply-adds a result takes.
    fn steps(&self) -> usize {
        match self {
            Self::Mean(_) => 8,
            Self::Weights(weights) => weights.len(),
        }
    }
}

/// Calls that were computed here, and calls that SciPy got.
static COUNTS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Counts a call.
#[pyfunction]
pub(crate) fn count(is_native: bool) {
    COUNTS[usize::from(!is_native)].fetch_add(1, Ordering::Relaxed);
}

/// How many calls were computed here, and how many SciPy got.
#[pyfunction]
pub(crate) fn counts() -> (u64, u64) {
    (COUNTS[0].load(Ordering::Relaxed), COUNTS[1].load(Ordering::Relaxed))
}
