//! Filters on arrays. Results on a device are bit-exact with those of the CPU, for all types, strides, borders and
//! origins.

use cust::context::{Context, CurrentContext};
use cust::error::CudaError;
use cust::memory::{CopyDestination, DeviceBuffer};
use cust::stream::{Stream, StreamFlags};
use faltung::nd::{
    Along, AxisFilter, Correlation, DeviceArray, Element, Input, Layout, Lines, Output, Sums, correlate, correlate1d,
    uniform1d,
};
use faltung::{BorderMode, Device};

use super::context::{Restored, enter_primary};
use super::{Checked, Test, ensure, words};

pub(crate) const TESTS: &[Test] =
    &[("array_correlations", correlations), ("array_means", means), ("array_errors", errors)];

/// The seed of the arrays and filters.
const SEED: u64 = 20_261_123;

/// An array in host memory, with the bytes between its elements.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub(super) layout: Layout,
    /// The place of the first element, in elements.
    first: usize,
    /// So many bytes of these, as words so that all elements are aligned.
    bytes: usize,
    words: Vec<u64>,
}

impl Array {
    /// An array of this shape with random strides: any order of the axes, gaps, negative ones, and for inputs zeros.
    pub(super) fn new(element: Element, shape: &[usize], is_input: bool, random: &mut fastrand::Rng) -> Self {
        let size = element.size();
        let mut order: Vec<_> = (0..shape.len()).collect();
        if random.bool() {
            random.shuffle(&mut order);
        }
        let (mut strides, mut step, mut first) = (vec![0; shape.len()], 1, 0);
        for &axis in order.iter().rev() {
            if random.u8(..6) == 0 {
                step *= random.usize(2..4);
            }
            let length = shape[axis];
            if is_input && random.u8(..12) == 0 {
                continue;
            }
            strides[axis] = (step * size) as isize;
            if random.u8(..4) == 0 {
                strides[axis] = -strides[axis];
                first += step * length.saturating_sub(1);
            }
            step *= length.max(1);
        }
        let bytes = step * size;
        let layout = Layout { element, shape: shape.to_vec(), strides };
        Self { layout, first, bytes, words: vec![0xa5a5_a5a5_a5a5_a5a5; bytes.div_ceil(8) + 1] }
    }

    fn elements(&self) -> usize {
        self.bytes / self.layout.element.size()
    }

    /// Fills all of the memory with random numbers.
    pub(super) fn fill(mut self, is_wild: bool, random: &mut fastrand::Rng) -> Self {
        let element = self.layout.element;
        for place in 0..self.elements() {
            let number = (random.f64() - 0.5) * 10_f64.powi(random.i32(-3..if is_wild { 17 } else { 3 }));
            let number = match random.u8(..60) {
                0 if is_wild => [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0][random.usize(..4)],
                _ => number,
            };
            let integer = if is_wild { random.u64(..) } else { random.u64(..1 << 40) };
            let bits = match element {
                Element::Bool => u64::from(random.bool()),
                Element::F32 => (number as f32).to_bits().into(),
                Element::F64 => number.to_bits(),
                _ => integer,
            };
            self.set(place, bits);
        }
        self
    }

    fn set(&mut self, place: usize, bits: u64) {
        let size = self.layout.element.size();
        assert!(place < self.elements());
        // SAFETY: the place is in the memory.
        unsafe {
            let to = self.words.as_mut_ptr().cast::<u8>().add(place * size);
            to.copy_from_nonoverlapping(bits.to_le_bytes().as_ptr(), size);
        }
    }

    /// The element at a place, NaN as one value.
    fn get(&self, place: usize) -> u64 {
        let (mut bytes, size) = ([0; 8], self.layout.element.size());
        assert!(place < self.elements());
        // SAFETY: the place is in the memory.
        unsafe {
            let from = self.words.as_ptr().cast::<u8>().add(place * size);
            from.copy_to_nonoverlapping(bytes.as_mut_ptr(), size);
        }
        let bits = u64::from_le_bytes(bytes);
        match self.layout.element {
            Element::F32 if f32::from_bits(bits as u32).is_nan() => f32::NAN.to_bits().into(),
            Element::F64 if f64::from_bits(bits).is_nan() => f64::NAN.to_bits(),
            _ => bits,
        }
    }

    /// The element at a place as a number.
    fn number(&self, place: usize) -> f64 {
        let bits = self.get(place);
        match self.layout.element {
            Element::F32 => f32::from_bits(bits as u32).into(),
            Element::F64 => f64::from_bits(bits),
            Element::I8 => (bits as i8).into(),
            Element::I16 => (bits as i16).into(),
            Element::I32 => (bits as i32).into(),
            Element::I64 => bits as i64 as f64,
            _ => bits as f64,
        }
    }

    fn first(&mut self) -> *mut u8 {
        self.words.as_mut_ptr().cast::<u8>().wrapping_add(self.first * self.layout.element.size())
    }
}

/// Where a device computes: host memory, or memory of a CUDA device and a stream as another library has them.
pub(super) struct Place<'a> {
    device: &'a Device,
    foreign: Option<(Stream, Context)>,
}

impl<'a> Place<'a> {
    pub(super) fn new(device: &'a Device) -> Result<Self, String> {
        if device.gpu().is_none() {
            return Ok(Self { device, foreign: None });
        }
        let _restored = Restored::keep();
        let context = enter_primary(device)?;
        let stream = Stream::new(StreamFlags::DEFAULT, None).map_err(|error| error.to_string())?;
        Ok(Self { device, foreign: Some((stream, context)) })
    }

    /// More cases where an array takes no seconds.
    pub(super) fn cases(&self, few: usize, many: usize) -> usize {
        match self.device.gpu() {
            Some(gpu) if gpu.memory_bytes > 2 << 30 => many,
            _ => few,
        }
    }

    /// Computes on this device.
    pub(super) fn run(&self, computation: &Computation, input: &Array, output: &mut Array) -> Checked {
        let Some((stream, context)) = &self.foreign else {
            let mut input = input.clone();
            let addresses = [input.first(), output.first()].map(|first| first.expose_provenance() as u64);
            return computation.on_device(self.device, &input.layout, &output.layout, addresses, 0);
        };
        let _restored = Restored::enter(context.as_raw());
        let on_cuda = |array: &Array| {
            let buffer = DeviceBuffer::from_slice(&array.words)?;
            let address = buffer.as_device_ptr().as_raw() + (array.first * array.layout.element.size()) as u64;
            // The copy may be under way, and the stream does not wait for it.
            CurrentContext::synchronize()?;
            Ok((buffer, address))
        };
        let (_from, input_address) = on_cuda(input).map_err(|error: CudaError| error.to_string())?;
        let (to, output_address) = on_cuda(output).map_err(|error: CudaError| error.to_string())?;
        // At times on the default stream.
        let own = stream.as_inner().expose_provenance() as u64;
        let handle = if output.bytes.is_multiple_of(3) { 0 } else { own };
        let addresses = [input_address, output_address];
        let ran = computation.on_device(self.device, &input.layout, &output.layout, addresses, handle);
        CurrentContext::synchronize().map_err(|error| error.to_string())?;
        to.copy_to(&mut output.words).map_err(|error| error.to_string())?;
        ran
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some((stream, context)) = self.foreign.take() {
            let _restored = Restored::enter(context.as_raw());
            drop(stream);
        }
    }
}

/// The error of a [`Computation::OneLaunch`] that takes two.
pub(super) const TWO_LAUNCHES: &str = "this takes two launches";

/// A filter on arrays.
#[derive(Clone, Debug)]
pub(super) enum Computation {
    Correlate {
        weights: Vec<f64>,
        shape: Vec<usize>,
        origins: Vec<isize>,
        border: BorderMode,
        value: f64,
        sums: Sums,
    },
    Correlate1d {
        weights: Vec<f64>,
        lines: Lines,
        sums: Sums,
    },
    Uniform1d {
        size: usize,
        lines: Lines,
    },
    /// Along two axes in one launch, an error where that takes two. On the CPU one filter after the other.
    OneLaunch {
        filters: [(Vec<f64>, Lines); 2],
        sums: Sums,
    },
}

impl Computation {
    fn on_device(
        &self,
        device: &Device,
        from: &Layout,
        to: &Layout,
        [input, output]: [u64; 2],
        stream: u64,
    ) -> Checked {
        let input = DeviceArray { address: input, layout: from };
        let output = DeviceArray { address: output, layout: to };
        // SAFETY: the memory has the elements of both layouts, nothing else uses it, and the stream is waited for.
        unsafe {
            match self {
                Self::Correlate { sums, .. } => {
                    device.correlate_array(input, output, &self.correlation(), *sums, stream)
                }
                Self::Correlate1d { weights, lines, sums } => {
                    device.correlate1d_array(input, output, weights, lines, *sums, stream)
                }
                Self::Uniform1d { size, lines } => device.uniform1d_array(input, output, *size, lines, stream),
                Self::OneLaunch { filters, sums } => {
                    let filters = filters
                        .each_ref()
                        .map(|(weights, lines)| AxisFilter { along: Along::Weights(weights), lines: *lines });
                    let is_done = device.filter_axes_array(input, output, &filters, *sums, stream).map_err(words)?;
                    return ensure(is_done, || TWO_LAUNCHES.to_owned());
                }
            }
        }
        .map_err(words)
    }

    pub(super) fn on_cpu(&self, input: &Array, output: &mut Array) -> Checked {
        if let Self::OneLaunch { filters, sums } = self {
            let [first, second] =
                filters.clone().map(|(weights, lines)| Self::Correlate1d { weights, lines, sums: *sums });
            let mut between = output.clone();
            first.on_cpu(input, &mut between)?;
            return second.on_cpu(&between, output);
        }
        let mut input = input.clone();
        // SAFETY: the memory has the elements of both layouts, and nothing else uses it.
        let (from, to) = unsafe {
            let (from, to) = (input.first(), output.first());
            (Input::from_raw(from, input.layout.clone()), Output::from_raw(to, output.layout.clone()))
        };
        let (from, to) = (from.map_err(words)?, to.map_err(words)?);
        match self {
            Self::Correlate { sums, .. } => correlate(from, to, &self.correlation(), *sums),
            Self::Correlate1d { weights, lines, sums } => correlate1d(from, to, weights, lines, *sums),
            Self::Uniform1d { size, lines } => uniform1d(from, to, *size, lines),
            Self::OneLaunch { .. } => unreachable!("computed above"),
        }
        .map_err(words)
    }

    fn correlation(&self) -> Correlation<'_> {
        let Self::Correlate { weights, shape, origins, border, value, .. } = self else {
            unreachable!("only asked of correlations")
        };
        Correlation { weights, shape, origins, border: *border, value: *value }
    }
}

pub(super) fn weight(random: &mut fastrand::Rng) -> f64 {
    match random.u8(..8) {
        0 => 0.0,
        1 => 1e-17,
        _ => (random.f64() - 0.5) * 10_f64.powi(random.i32(-2..3)),
    }
}

pub(super) fn origin(size: usize, random: &mut fastrand::Rng) -> isize {
    if random.bool() { 0 } else { random.isize(-((size / 2) as isize)..=((size - 1) / 2) as isize) }
}

/// A random shape of this many axes. Most are small. Some have blocks without a border.
fn shape(axes: usize, random: &mut fastrand::Rng) -> Vec<usize> {
    let most = [1, 700, 90, 16, 7, 5][axes];
    let mut shape: Vec<_> = (0..axes).map(|_| random.usize(1..=most)).collect();
    if axes > 0 && random.u8(..3) == 0 {
        shape[random.usize(..axes)] = random.usize(0..3);
    }
    shape
}

fn filter(shape: &[usize], types: (Element, Element), random: &mut fastrand::Rng) -> Computation {
    let axes = shape.len();
    let border = BorderMode::ALL[random.usize(..5)];
    let value = [0.0, -0.0, 7.25, -1e9, f64::NAN, f64::INFINITY][random.usize(..6)];
    let sums = if types == (Element::F32, Element::F32) && random.bool() { Sums::F32 } else { Sums::F64 };
    let kind = if axes == 0 { 0 } else { random.u8(..4) };
    if kind < 2 {
        let most = [1, 30, 9, 5, 4, 3][axes];
        let mut sizes: Vec<_> = (0..axes).map(|_| random.usize(1..=most)).collect();
        if axes > 4 {
            sizes[random.usize(..axes)] = 1;
        }
        let weights = (0..sizes.iter().product()).map(|_| weight(random)).collect();
        let origins = sizes.iter().map(|&size| origin(size, random)).collect();
        return Computation::Correlate { weights, shape: sizes, origins, border, value, sums };
    }
    let most = [3, 12, 90][random.usize(..3)];
    let size = random.usize(1..=most);
    let lines = Lines { axis: random.usize(..axes), origin: origin(size, random), border, value };
    let mut weights: Vec<_> = (0..size).map(|_| weight(random)).collect();
    let sign = [0.0, 1.0, -1.0][random.usize(..3)];
    if sign != 0.0 && size % 2 == 1 {
        for d in 1..=size / 2 {
            weights[size / 2 + d] = sign * weights[size / 2 - d];
        }
        if sign < 0.0 && random.bool() {
            weights[size / 2] = 0.0;
        }
    }
    Computation::Correlate1d { weights, lines, sums }
}

/// Checks that two arrays of one layout have the same bytes, also between the elements.
pub(super) fn same(found: &Array, right: &Array, what: impl Fn() -> String) -> Checked {
    let different = |&place: &usize| found.get(place) != right.get(place);
    let Some(place) = (0..right.elements()).find(different) else { return Ok(()) };
    let count = (0..right.elements()).filter(different).count();
    let (found, right) = (found.number(place), right.number(place));
    Err(format!("{}: {count} places differ, the first is {place}: {found:?}, not {right:?}", what()))
}

/// Correlations of every kind, bit for bit.
fn correlations(device: &Device) -> Checked {
    let place = Place::new(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    let cases = place.cases(400, 3000);
    let (mut compared, mut elements) = (0, 0);
    for case in 0..cases {
        let types = (Element::ALL[random.usize(..11)], Element::ALL[random.usize(..11)]);
        let types = if case % 7 == 0 { (Element::F32, Element::F32) } else { types };
        let axes = [0, 1, 1, 2, 2, 2, 2, 3, 4, 5][random.usize(..10)];
        let shape = shape(axes, &mut random);
        let filter = filter(&shape, types, &mut random);
        let input = Array::new(types.0, &shape, true, &mut random).fill(random.bool(), &mut random);
        let mut right = Array::new(types.1, &shape, false, &mut random);
        let mut found = right.clone();
        let what = || format!("case {case}: {filter:?}, {:?} to {:?}", input.layout, right.layout);
        match place.run(&filter, &input, &mut found) {
            // Axes that can't be walked as one.
            Err(error) if axes > 4 && error.contains("at most 4") => continue,
            other => other.map_err(|error| format!("{}: {error}", what()))?,
        }
        filter.on_cpu(&input, &mut right)?;
        let what = || format!("case {case}: {filter:?}, {:?} to {:?}", input.layout, found.layout);
        same(&found, &right, what)?;
        compared += 1;
        elements += right.layout.elements();
    }
    ensure(compared * 10 >= cases * 9 && elements > 100_000, || {
        format!("only {compared} arrays of {elements} elements were compared")
    })
}

/// Means: bit for bit for integers, within the roundings for floating point.
fn means(device: &Device) -> Checked {
    let place = Place::new(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    for case in 0..place.cases(150, 1000) {
        let types = (Element::ALL[random.usize(..11)], Element::ALL[random.usize(..11)]);
        let shape = shape(random.usize(1..5), &mut random);
        let most = [3, 12, 90][random.usize(..3)];
        let size = random.usize(1..=most);
        let border = BorderMode::ALL[random.usize(..5)];
        let lines = Lines { axis: random.usize(..shape.len()), origin: origin(size, &mut random), border, value: 7.0 };
        let filter = Computation::Uniform1d { size, lines };
        let input = Array::new(types.0, &shape, true, &mut random).fill(false, &mut random);
        let is_exact = !matches!(types.0, Element::F32 | Element::F64);
        let to = if is_exact { types.1 } else { Element::F64 };
        let mut right = Array::new(to, &shape, false, &mut random);
        let mut found = right.clone();
        place.run(&filter, &input, &mut found)?;
        filter.on_cpu(&input, &mut right)?;
        let what = || format!("case {case}: {filter:?}, {:?} to {:?}", input.layout, found.layout);
        if is_exact {
            same(&found, &right, what)?;
            continue;
        }
        for at in 0..right.elements() {
            let (found, right) = (found.number(at), right.number(at));
            // The elements are below 1000.
            let is_near = (found - right).abs() <= 1e-9;
            ensure(is_near, || format!("{}: {found} at {at}, not {right}", what()))?;
        }
    }
    Ok(())
}

/// A filter that a device can't compute is an error that names the argument.
fn errors(device: &Device) -> Checked {
    if device.backend() == "cpu" {
        return Ok(()); // it takes any address and stride, and would read there
    }
    let layout = |shape: &[usize]| Layout::dense(Element::F32, shape);
    let lines = Lines { axis: 0, origin: 0, border: BorderMode::Wrap, value: 0.0 };
    let (of, wide) = (layout(&[5, 6]), Layout { strides: vec![30, 4], ..layout(&[5, 6]) });
    let one = |size: usize| Computation::Correlate1d { weights: vec![0.5; size], lines, sums: Sums::F64 };
    let many = [3; 5];
    let dense = Computation::Correlate {
        weights: vec![1.0; 243],
        shape: many.to_vec(),
        origins: vec![0; 5],
        border: BorderMode::Clamp,
        value: 0.0,
        sums: Sums::F64,
    };
    let bytes = Layout::dense(Element::U8, &[5, 6]);
    let of_bytes = Computation::Correlate1d { weights: vec![1.0], lines, sums: Sums::F32 };
    let other_axis =
        Computation::Correlate1d { weights: vec![1.0], lines: Lines { axis: 2, ..lines }, sums: Sums::F64 };
    let far = Layout { strides: vec![isize::MAX & !3, 4], ..layout(&[5, 6]) };
    let cases: [(&Computation, &Layout, &Layout, [u64; 2], &str); 10] = [
        (&one(3), &of, &of, [0x1002, 0x2000], "the address of the input"),
        (&one(3), &of, &of, [0x1000, 0x2001], "the address of the result"),
        (&one(3), &wide, &of, [0x1000, 0x2000], "the strides of the input"),
        (&one(3), &far, &of, [0x1000, 0x2000], "the input's elements"),
        (&one(3), &of, &of, [0x1000, 0x1000], "the result's memory"),
        (&one(3), &of, &layout(&[6, 5]), [0x1000, 0x2000], "the shape of the result"),
        (&one(0), &of, &of, [0x1000, 0x2000], "the size of the filter"),
        (&dense, &layout(&many), &layout(&many), [0x1000, 0x2000], "the number of axes"),
        (&of_bytes, &bytes, &bytes, [0x1000, 0x2000], "the type of the sums"),
        (&other_axis, &of, &of, [0x1000, 0x2000], "the axis"),
    ];
    for (filter, from, to, addresses, what) in cases {
        let found = filter.on_device(device, from, to, addresses, 0);
        ensure(found.as_ref().is_err_and(|text| text.contains(what)), || format!("{what}: {found:?}"))?;
    }
    Ok(())
}

/// The comparison sees a wrong bit anywhere, and another order of a sum.
pub(super) fn planted() -> Checked {
    let mut random = fastrand::Rng::with_seed(SEED);
    let one = Array::new(Element::F64, &[4, 5], false, &mut random).fill(false, &mut random);
    let mut other = one.clone();
    other.set(one.elements() - 1, one.get(one.elements() - 1) ^ 1);
    ensure(same(&one, &one, String::new).is_ok(), || "an array is another one".to_owned())?;
    ensure(same(&other, &one, String::new).is_err(), || "another bit is not seen".to_owned())?;

    // `correlate1d` begins with the last weight, `correlate` with the first.
    let input = Array::new(Element::F64, &[100], true, &mut random).fill(true, &mut random);
    let weights: Vec<_> = (0..6).map(|_| random.f64() - 0.5).collect();
    let lines = Lines { axis: 0, origin: 0, border: BorderMode::Wrap, value: 0.0 };
    let along = Computation::Correlate1d { weights: weights.clone(), lines, sums: Sums::F64 };
    let (border, value, sums) = (lines.border, lines.value, Sums::F64);
    let dense = Computation::Correlate { weights, shape: vec![6], origins: vec![0], border, value, sums };
    let mut results = [(); 2].map(|()| Array::new(Element::F64, &[100], false, &mut fastrand::Rng::with_seed(1)));
    along.on_cpu(&input, &mut results[0])?;
    dense.on_cpu(&input, &mut results[1])?;
    ensure(same(&results[0], &results[1], String::new).is_err(), || "the order of a sum is not seen".to_owned())
}
