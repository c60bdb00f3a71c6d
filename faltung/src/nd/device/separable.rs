//! Plans one launch for two filters along two axes.

use kernels_gpu::ndimage::Task;
use kernels_gpu::ndimage::separable::{COLUMNS, FIRST_IS_ODD, MOST_PAIRS, SECOND_IS_ODD, shared_bytes};
use kernels_gpu::ndimage::tile::{RESULTS, TILE};

use super::DeviceArray;
use super::plan::{ArrayLaunch, Common, check_number, kernel, merged_axes, mirrored_words};
use super::tiles::{Header, List, MOST_BYTES, Tiles};
use crate::nd::line_filter::is_odd;
use crate::nd::{Along, AxisFilter, Element, Lines, Sums};
use crate::{BorderMode, Result};

/// With fewer results along an axis than half a tile, most threads are idle.
const FEWEST: [i64; 2] = [COLUMNS as i64 / 2, TILE as i64 / 2];

/// One of the filters.
#[derive(Clone, Copy)]
struct MirroredFilter<'a> {
    weights: &'a [f64],
    is_odd: bool,
    lines: &'a Lines,
}

impl<'a> MirroredFilter<'a> {
    /// The filter if the kernel takes its weights.
    fn new(filter: &'a AxisFilter<'a>) -> Option<Self> {
        let Along::Weights(weights) = filter.along else { return None };
        // An axis with a single weight may be merged with others.
        let has_pairs = (1..=MOST_PAIRS as usize).contains(&(weights.len() / 2));
        let is_odd = has_pairs.then(|| is_odd(weights)).flatten()?;
        Some(Self { weights, is_odd, lines: &filter.lines })
    }

    fn pairs(&self) -> usize {
        self.weights.len() / 2
    }
}

/// Whether both filters have the same border mode and value.
fn have_one_border(first: &Lines, second: &Lines) -> bool {
    let is_one_value = first.value.to_bits() == second.value.to_bits();
    first.border == second.border && (first.border != BorderMode::Constant || is_one_value)
}

/// The launch for both filters, one after the other. None if one launch can't compute them, or two are faster.
///
/// One launch reads and writes the arrays once. With the most weights it loads 1.6 elements for each result. That is
/// less than what two launches read and write.
pub(super) fn separable(
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
    filters: &[AxisFilter<'_>; 2],
    sums: Sums,
) -> Result<Option<ArrayLaunch>> {
    sums.check(input.layout.element, output.layout.element)?;
    for filter in filters {
        filter.lines.check(filter.along.size(), input.layout.shape.len())?;
    }
    let are_f64 = [input, output].iter().all(|array| array.layout.element == Element::F64) && sums == Sums::F64;
    let [Some(first), Some(second)] = filters.each_ref().map(MirroredFilter::new) else { return Ok(None) };
    if !are_f64 || first.lines.axis == second.lines.axis || !have_one_border(first.lines, second.lines) {
        return Ok(None);
    }
    let along = |number: usize| {
        let found = [first, second].into_iter().find(|filter| filter.lines.axis == number);
        found.map_or((1, 0), |filter| (filter.weights.len(), filter.lines.origin))
    };
    let filters = (0..input.layout.shape.len()).map(along);
    let Some(axes) = merged_axes(input, output, filters)? else { return Ok(None) };
    let order = [second, first].map(|filter| filter.lines.axis);
    if check_number(&axes, input.layout).is_err() {
        return Ok(None);
    }
    let Some(tiles) = Tiles::of_two(&axes, order) else { return Ok(None) };
    let [columns, rows, ..] = tiles.axes;
    if columns.length < FEWEST[0] || rows.length < FEWEST[1] {
        return Ok(None);
    }

    let along = |length: i64, most: u32| (length as u64).next_multiple_of(RESULTS.into()).min(most.into());
    let results = along(rows.length, TILE);
    let size = |results: u64, filter: MirroredFilter<'_>| results + 2 * filter.pairs() as u64;
    let (width, height) = (size(along(columns.length, COLUMNS), second), size(results, first));
    let words = [first, second].map(|filter| mirrored_words(filter.weights, Sums::F64)).concat();
    let number_of_words = words.len() as u64;
    let list = List::of_one(
        Header {
            delta: [0; 2],
            first: (-columns.before, -rows.before),
            columns: width,
            rows: height,
            gap: (width, 0),
            numbers: [
                first.pairs() as u32,
                second.pairs() as u32,
                (u32::from(first.is_odd) * FIRST_IS_ODD) | (u32::from(second.is_odd) * SECOND_IS_ODD),
            ],
        },
        words,
    );
    let bytes = shared_bytes(width, height, results, number_of_words);
    if bytes > MOST_BYTES {
        return Ok(None);
    }
    let kernel = kernel(Task::Separable, input.layout, output.layout, sums)?;
    let Lines { border, value, .. } = *first.lines;
    let common = Common { kernel, border, value, result: output.layout.element };
    let mut launch = tiles.launch(&common, &list, sums, COLUMNS)?;
    launch.shared_bytes = bytes as u32;
    Ok(Some(launch))
}
