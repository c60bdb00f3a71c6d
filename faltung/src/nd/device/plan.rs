//! A filter on arrays of a device as one launch of a kernel: which one, with which parameters and taps.

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::ndimage::element::ResultKind;
use kernels_gpu::ndimage::means::STRIP;
use kernels_gpu::ndimage::params::{AXES, ArrayParams, Axis, THREADS};
use kernels_gpu::ndimage::{self, Instance, Task};

use super::DeviceArray;
use super::tiles;
use crate::nd::axis::before;
use crate::nd::convert::name;
use crate::nd::line_filter::is_odd;
use crate::nd::{Correlation, Element, Layout, Lines, Sums};
use crate::{Error, Result};

/// A launch.
#[derive(Clone, Debug)]
pub(crate) struct ArrayLaunch {
    pub(crate) kernel: &'static Instance,
    /// Blocks.
    pub(crate) grid: u32,
    /// Threads of a block along axes 0 and 1.
    pub(crate) block: (u32, u32),
    /// Dynamic shared memory of a block.
    pub(crate) shared_bytes: u32,
    pub(crate) params: ArrayParams,
    /// The list that the kernel reads. It may be empty.
    pub(crate) list: Vec<u64>,
}

/// How a result of a type is stored.
fn result_kind(element: Element) -> ResultKind {
    match element {
        Element::Bool | Element::U8 | Element::I8 => ResultKind::Bits8,
        Element::I16 | Element::U16 => ResultKind::Bits16,
        Element::I32 => ResultKind::I32,
        Element::U32 => ResultKind::U32,
        Element::I64 => ResultKind::I64,
        Element::U64 => ResultKind::U64,
        Element::F32 => ResultKind::F32,
        Element::F64 => ResultKind::F64,
    }
}

fn number(what: &'static str, required: &'static str, found: String) -> Error {
    Error::Number { what, required, found }
}

/// Fails unless the elements of an array, which has some, have addresses that the kernels can use.
fn check_array(array: DeviceArray<'_>, what: [&'static str; 3]) -> Result<()> {
    let Layout { element, shape, strides } = array.layout;
    let size = element.size();
    if !array.address.is_multiple_of(size as u64) {
        return Err(number(what[0], "a multiple of the element's size", format!("{:#x}, {size} bytes", array.address)));
    }
    let is_aligned = |(&length, &stride): (&usize, &isize)| length == 1 || stride % size as isize == 0;
    if !shape.iter().zip(strides).all(is_aligned) {
        return Err(number(what[1], "multiples of the element's size", format!("{strides:?}, {size} bytes")));
    }
    // An element is at least 2^62 bytes from both ends of the kernels' numbers.
    const MOST: i64 = 1 << 62;
    let fits = |before: i64, after: i64| {
        let end = array.address.checked_add(after as u64);
        let is_near = before >= -MOST && after <= MOST;
        is_near && array.address >= before.unsigned_abs() && end.is_some_and(|end| end <= i64::MAX as u64)
    };
    if array.layout.extent().is_some_and(|extent| fits(extent.start as i64, extent.end as i64)) {
        return Ok(());
    }
    let found = format!("{strides:?} for a shape of {shape:?} at {:#x}", array.address);
    Err(number(what[2], "within the address space", found))
}

/// An axis, with the number of weights along it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filtered {
    pub(super) axis: Axis,
    pub(super) size: usize,
    /// Its number in the arrays.
    pub(super) number: usize,
}

/// The axes of both arrays, in their order, with adjacent unfiltered axes merged. None if there are no results.
///
/// `filters` has the size and the origin along each axis, which were checked.
pub(super) fn merged_axes(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    filters: impl Iterator<Item = (usize, isize)>,
) -> Result<Option<Vec<Filtered>>> {
    let (from, to) = (input.layout, output.layout);
    for layout in [from, to] {
        layout.check_strides()?;
    }
    to.check_shape(from)?;
    let mut axes = Vec::new();
    for (number, (size, origin)) in filters.enumerate() {
        if i32::try_from(size).is_err() {
            let what = "the size of the filter along an axis".into();
            return Err(Error::TooLarge { what, most: i32::MAX as usize, found: size.to_string() });
        }
        let before = before(size, origin) as i64;
        let axis = Axis {
            length: from.shape[number] as i64,
            from: from.strides[number] as i64,
            to: to.strides[number] as i64,
            before,
            after: size as i64 - 1 - before,
        };
        axes.push(Filtered { axis, size, number });
    }
    if from.shape.contains(&0) {
        return Ok(None);
    }
    check_array(input, ["the address of the input", "the strides of the input", "the input's elements"])?;
    check_array(output, ["the address of the result", "the strides of the result", "the result's elements"])?;
    if input.address == output.address {
        let found = format!("both at {:#x}", input.address);
        return Err(number("the result's memory", "none of the input's", found));
    }

    axes.retain(|one| one.axis.length != 1 || one.size != 1);
    while let Some((outer, inner)) = walked_as_one(&axes) {
        let length = axes[outer].axis.length;
        axes[inner].axis.length *= length;
        axes.remove(outer);
    }
    Ok(Some(axes))
}

/// Fails for more axes than the kernels have.
pub(super) fn check_number(axes: &[Filtered], layout: &Layout) -> Result<()> {
    if axes.len() > AXES {
        let found = format!("{} for a shape of {:?}", axes.len(), layout.shape);
        return Err(number("the number of axes that can't be walked as one", "at most 4", found));
    }
    Ok(())
}

/// The axes as [`merged_axes`] has them, at most four.
fn axes(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    filters: impl Iterator<Item = (usize, isize)>,
) -> Result<Option<Vec<Filtered>>> {
    let axes = merged_axes(input, output, filters)?;
    check_number(axes.as_deref().unwrap_or_default(), input.layout)?;
    Ok(axes)
}

/// Two axes, the outer one first, along which nothing is filtered and whose elements follow each other as those of one.
fn walked_as_one(axes: &[Filtered]) -> Option<(usize, usize)> {
    let numbers = || 0..axes.len();
    numbers().flat_map(|outer| numbers().map(move |inner| (outer, inner))).find(|&(outer, inner)| {
        let (a, b) = (&axes[outer], &axes[inner]);
        outer != inner
            && (a.size, b.size) == (1, 1)
            && Some(a.axis.from) == b.axis.from.checked_mul(b.axis.length)
            && Some(a.axis.to) == b.axis.to.checked_mul(b.axis.length)
    })
}

/// What the launches of all kernels have in common.
pub(super) struct Common {
    pub(super) kernel: &'static Instance,
    pub(super) border: BorderMode,
    pub(super) value: f64,
    pub(super) result: Element,
}

impl Common {
    /// A launch for arrays with these axes, and `lengths` results along them in tiles of this size. It has no list.
    pub(super) fn launch(&self, axes: [Axis; AXES], lengths: [i64; AXES], tile: (u32, u32)) -> Result<ArrayLaunch> {
        let counts = [
            (lengths[0] as u64).div_ceil(tile.0.into()),
            (lengths[1] as u64).div_ceil(tile.1.into()),
            lengths[2] as u64,
            lengths[3] as u64,
        ];
        let blocks = counts.iter().try_fold(1_u64, |product, &count| product.checked_mul(count));
        let Some(grid) = blocks.and_then(|blocks| i32::try_from(blocks).ok()) else {
            let what = "the number of blocks of results".into();
            return Err(Error::TooLarge { what, most: i32::MAX as usize, found: format!("{counts:?} along the axes") });
        };
        let params = ArrayParams {
            axes,
            value: self.value,
            tiles: [counts[0] as u32, counts[1] as u32, counts[2] as u32],
            lanes: 0,
            fold: 0,
            border: self.border.code(),
            result: result_kind(self.result).code(),
            passes: 0,
            line: 0,
            is_odd: 0,
        };
        let (grid, block) = (grid as u32, tile);
        Ok(ArrayLaunch { kernel: self.kernel, grid, block, shared_bytes: 0, params, list: Vec::new() })
    }
}

/// The axes of a launch.
pub(super) fn of_launch(axes: impl IntoIterator<Item = Axis>) -> [Axis; AXES] {
    let mut of_launch = [Axis::SINGLE; AXES];
    for (to, axis) in of_launch.iter_mut().zip(axes) {
        *to = axis;
    }
    of_launch
}

/// The kernel for a task on an array of this type.
pub(super) fn kernel(task: Task, input: &Layout, output: &Layout, sums: Sums) -> Result<&'static Instance> {
    sums.check(input.element, output.element)?;
    let found = ndimage::find(task, name(input.element), sums == Sums::F32);
    Ok(found.expect("there is a kernel for each type of elements"))
}

/// A weight as a word of the list.
pub(super) fn word(weight: f64, sums: Sums) -> u64 {
    match sums {
        Sums::F32 => (weight as f32).to_bits().into(),
        Sums::F64 => weight.to_bits(),
    }
}

/// Weights as words of the list.
pub(super) fn words(weights: &[f64], sums: Sums) -> Vec<u64> {
    weights.iter().map(|&weight| word(weight, sums)).collect()
}

/// The words of symmetric or antisymmetric weights: the middle weight, and those before it, the outermost first.
pub(super) fn mirrored_words(weights: &[f64], sums: Sums) -> Vec<u64> {
    let middle = weights.len() / 2;
    std::iter::once(&weights[middle]).chain(&weights[..middle]).map(|&weight| word(weight, sums)).collect()
}

/// The launch for [`correlate`](crate::nd::correlate); None if there are no results.
pub(super) fn correlate(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    correlation: &Correlation<'_>,
    sums: Sums,
) -> Result<Option<ArrayLaunch>> {
    let Correlation { weights, shape, origins, border, value } = *correlation;
    let kernel = kernel(Task::Correlate, input.layout, output.layout, sums)?;
    let number_of_axes = input.layout.shape.len();
    correlation.check(number_of_axes)?;
    let filters = shape.iter().copied().zip(origins.iter().copied());
    let Some(axes) = axes(input, output, filters)? else { return Ok(None) };

    let common = Common { kernel, border, value, result: output.layout.element };
    let tiles = tiles::Tiles::new(&axes);
    let places: Vec<_> = (0..number_of_axes).map(|number| tiles.place(number)).collect();
    let mut taps = Vec::new();
    for (number, &weight) in weights.iter().enumerate() {
        if weight.abs() <= f64::EPSILON {
            continue;
        }
        let (mut rest, mut delta) = (number, [0; AXES]);
        for (&size, &place) in shape.iter().zip(&places).rev() {
            // An axis that is no more has one weight.
            if let Some(place) = place {
                delta[place] = (rest % size) as i32 - tiles.axes[place].before as i32;
            }
            rest /= size;
        }
        taps.push(tiles::Tap { delta, weight });
    }
    let mut launch = tiles.correlate(&common, &taps, sums)?;
    if output.layout.element == Element::U64 {
        launch.params.result = ResultKind::U64ByMagnitude.code();
    }
    Ok(Some(launch))
}

/// Sizes and origins of a filter along one axis.
fn along(lines: &Lines, size: usize, axes: usize) -> Result<impl Iterator<Item = (usize, isize)>> {
    lines.check(size, axes)?;
    let Lines { axis, origin, .. } = *lines;
    Ok((0..axes).map(move |number| if number == axis { (size, origin) } else { (1, 0) }))
}

/// The launch for [`correlate1d`](crate::nd::correlate1d); None if there are no results.
pub(super) fn correlate1d(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    weights: &[f64],
    lines: &Lines,
    sums: Sums,
) -> Result<Option<ArrayLaunch>> {
    let filters = along(lines, weights.len(), input.layout.shape.len())?;
    // As the CPU does: the weights that are compared are those that are used.
    let weights: Vec<_> = match sums {
        Sums::F32 => weights.iter().map(|&weight| f64::from(weight as f32)).collect(),
        Sums::F64 => weights.to_vec(),
    };
    let odd = is_odd(&weights);
    let task = if odd.is_some() { Task::Mirrored } else { Task::Correlate };
    let kernel = kernel(task, input.layout, output.layout, sums)?;
    let Some(axes) = axes(input, output, filters)? else { return Ok(None) };

    let common = Common { kernel, border: lines.border, value: lines.value, result: output.layout.element };
    let tiles = tiles::Tiles::new(&axes);
    if let Some(is_odd) = odd {
        return tiles.mirrored(&common, &weights, is_odd, sums).map(Some);
    }
    // The last one comes first, as on the CPU.
    let last = weights.len() - 1;
    let tap = |number: usize| {
        let mut delta = [0; AXES];
        if let Some(place) = tiles.place(lines.axis) {
            delta[place] = number as i32 - tiles.axes[place].before as i32;
        }
        tiles::Tap { delta, weight: weights[number] }
    };
    let taps: Vec<_> = std::iter::once(last).chain(0..last).map(tap).collect();
    tiles.correlate(&common, &taps, sums).map(Some)
}

/// The launch for [`uniform1d`](crate::nd::uniform1d); None if there are no results.
pub(super) fn uniform1d(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    size: usize,
    lines: &Lines,
) -> Result<Option<ArrayLaunch>> {
    let filters = along(lines, size, input.layout.shape.len())?;
    let kernel = kernel(Task::Means, input.layout, output.layout, Sums::F64)?;
    let Some(mut axes) = axes(input, output, filters)? else { return Ok(None) };
    // Axis 0 is the one whose results lie closest together, axis 1 the longest of the others.
    axes.sort_by_key(|one| (one.axis.length == 1, one.axis.to.unsigned_abs()));
    if let Some((_, others)) = axes.split_first_mut() {
        others.sort_by_key(|one| std::cmp::Reverse(one.axis.length));
    }
    // An axis that is no more has one element and one weight.
    let line = axes.iter().position(|one| one.number == lines.axis).unwrap_or(AXES - 1);
    let axes = of_launch(axes.iter().map(|one| one.axis));
    let mut lengths = axes.map(|axis| axis.length);
    lengths[line] = (lengths[line] as u64).div_ceil(STRIP.into()) as i64;
    // Adjacent threads lie along axis 0 before axis 1.
    let most = if lengths[1] == 1 { THREADS } else { 32 };
    let width = (lengths[0] as u64).next_power_of_two().min(most.into()) as u32;
    let common = Common { kernel, border: lines.border, value: lines.value, result: output.layout.element };
    let mut launch = common.launch(axes, lengths, (width, THREADS / width))?;
    launch.params.line = line as u32;
    Ok(Some(launch))
}
