//! Filters that read the values in the input and write the results to the output: what they compute, and that they
//! leave the memory around the output alone.

use std::cell::Cell;

use super::*;
use crate::nd::lines::{Part, correlate1d_part};

thread_local! {
    /// Blocks of this thread: all, those that read in place, and those that write in place.
    static BLOCKS: Cell<[usize; 3]> = const { Cell::new([0; 3]) };
}

/// Counts a block.
pub(in crate::nd) fn count(reads: bool, writes: bool) {
    let [all, read, written] = BLOCKS.get();
    BLOCKS.set([all + 1, read + usize::from(reads), written + usize::from(writes)]);
}

/// Bytes before and after an array: more than the slack of scratch memory.
const MARGIN: usize = 2048;

/// What the bytes of no element are.
const GUARD: u8 = 0xA5;

/// How rows of an array lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rows {
    Dense,
    /// With so many bytes between them.
    Gaps(usize),
    Backwards,
    /// From an odd address on.
    Unaligned,
    /// Each one begins with the second element of the one before: an input alone.
    Overlapping,
}

const ROWS: [Rows; 6] =
    [Rows::Dense, Rows::Gaps(24), Rows::Gaps(3), Rows::Backwards, Rows::Unaligned, Rows::Overlapping];

impl Rows {
    /// Whether elements of this size can be read and written where they are.
    fn are_aligned(self, size: usize) -> bool {
        match self {
            Self::Gaps(bytes) => bytes % size == 0,
            Self::Unaligned => false,
            _ => true,
        }
    }

    /// An array of two axes in the middle of guard bytes.
    fn array(self, element: Element, [height, width]: [usize; 2]) -> Array {
        let size = element.size();
        let mut layout = Layout::dense(element, &[height, width]);
        match self {
            Self::Gaps(bytes) => layout.strides[0] += bytes as isize,
            Self::Backwards => layout.strides[0] *= -1,
            Self::Overlapping => layout.strides[0] = size as isize,
            Self::Dense | Self::Unaligned => {}
        }
        let extent = layout.extent().unwrap_or(0..0);
        let bytes = vec![GUARD; extent.len() + 2 * MARGIN + 8];
        let start = bytes.as_ptr().align_offset(8) + MARGIN + usize::from(self == Self::Unaligned);
        Array { bytes, first: start.strict_add_signed(-extent.start), layout }
    }
}

/// A filter of an array of two axes.
#[derive(Debug)]
struct Filter {
    shape: [usize; 2],
    element: Element,
    rows: [Rows; 2],
    weights: Vec<f64>,
    lines: Lines,
    /// The positions along the axis that have results.
    results: std::ops::Range<usize>,
}

impl Filter {
    fn new(random: &mut fastrand::Rng, element: Element, shape: [usize; 2], axis: usize, rows: [Rows; 2]) -> Self {
        let size = random.usize(1..8);
        let is_whole = element != Element::F64;
        let mut weights: Vec<f64> =
            (0..size).map(|_| if is_whole { random.i32(-3..4).into() } else { random.f64() - 0.3 }).collect();
        let sign = random.choice([0.0, 1.0, -1.0]).unwrap();
        if sign != 0.0 && size % 2 == 1 {
            (0..size / 2).for_each(|i| weights[size - 1 - i] = sign * weights[i]);
        }
        let origin = random.isize(-((size / 2) as isize)..=((size - 1) / 2) as isize);
        let lines = Lines { axis, origin, border: BorderMode::ALL[random.usize(..5)], value: 7.0 };
        Self { shape, element, rows, weights, lines, results: 0..shape[axis] }
    }

    /// Only the results that do not read the border.
    fn without_border(self) -> Self {
        let length = self.shape[self.lines.axis];
        Self { results: 8.min(length)..length.saturating_sub(8).max(8.min(length)), ..self }
    }

    /// Filters, and compares with the sums in SciPy's order. Returns the count of blocks.
    fn check(&self, random: &mut fastrand::Rng) -> [usize; 3] {
        let Self { shape, element, rows, weights, lines, results } = self;
        let (axis, length) = (lines.axis, shape[lines.axis]);
        let mut shape_of_results = *shape;
        shape_of_results[axis] = results.len();
        let mut input = rows[0].array(*element, *shape);
        for index in indices(shape) {
            input.set(&index, random.i64(0..1000));
        }
        let mut output = rows[1].array(*element, shape_of_results);
        let sums = if *element == Element::F32 { Sums::F32 } else { Sums::F64 };
        let part =
            if results.len() == length { Part::All } else { Part::Some { results: results.clone(), first: 0, length } };
        BLOCKS.set([0; 3]);
        correlate1d_part(input.input(), output.output(), weights, lines, sums, part).unwrap();

        let before = (weights.len() / 2) as isize + lines.origin;
        for index in indices(&shape_of_results) {
            let value = |j: usize| {
                let mut at = index.clone();
                let place = (index[axis] + results.start + j) as isize - before;
                position(lines.border, place, length).map_or(lines.value, |place| {
                    at[axis] = place;
                    input.get(&at)
                })
            };
            let expected = converted(*element, scipys_sum(weights, value));
            assert_eq!(output.get(&index), expected, "{index:?}: {self:?}");
        }
        for index in indices(&shape_of_results) {
            let at = output.offset(&index);
            output.bytes[at..][..element.size()].fill(GUARD);
        }
        assert!(output.bytes.iter().all(|&byte| byte == GUARD), "written beside the output: {self:?}");
        BLOCKS.get()
    }
}

/// Lengths of a row around a group of vectors, at each level.
const WIDTHS: [usize; 24] =
    [1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 66, 127, 128, 129, 130, 255, 256, 257, 384];

/// The largest group of results that are computed together.
const GROUP: usize = 128;

/// The types that are those of sums.
const TYPES: [Element; 3] = [Element::F64, Element::F32, Element::U16];

#[test]
fn rows_of_all_widths_have_the_bits_of_the_sums() {
    let mut random = fastrand::Rng::with_seed(1);
    for (element, width) in TYPES.into_iter().flat_map(|element| WIDTHS.map(|width| (element, width))) {
        for (from, to) in ROWS.into_iter().flat_map(|from| ROWS[..5].iter().map(move |&to| (from, to))) {
            for axis in [0, 1] {
                let shape = if axis == 0 { [22, width] } else { [5, width + 16] };
                let all = Filter::new(&mut random, element, shape, axis, [from, to]);
                let [blocks, _, written] = all.check(&mut random);
                let part = all.without_border();
                let [blocks_of_part, read_of_part, written_of_part] = part.check(&mut random);
                let [read, write] = [from, to].map(|rows| rows.are_aligned(element.size()));
                // Blocks of 256 columns, of which the last one must have a group.
                if width >= GROUP && (axis == 1 || width % 256 == 0 || width % 256 >= GROUP) {
                    assert_eq!(written == blocks, write, "{part:?}");
                    assert_eq!(written_of_part == blocks_of_part, write, "{part:?}");
                    assert_eq!(read_of_part == blocks_of_part, read, "{part:?}");
                }
            }
        }
    }
}

/// An array of several blocks: those at its ends copy the values, and those between read them in place.
#[test]
fn blocks_read_in_place_within_the_array() {
    let mut random = fastrand::Rng::with_seed(2);
    for element in TYPES {
        for width in [256, 397] {
            let filter = Filter::new(&mut random, element, [300, width], 0, [Rows::Dense; 2]);
            let filter = Filter { weights: vec![3.0, 1.0, 2.0, -1.0], ..filter };
            let filter = Filter { lines: Lines { origin: 0, ..filter.lines }, ..filter };
            let [blocks, read, written] = filter.check(&mut random);
            let chunks = width.div_ceil((1024 / element.size()).max(256));
            assert_eq!([read, written], [blocks - 2 * chunks, blocks], "{filter:?}");
        }
    }
}

/// The rows of a block lie in few sets of a cache: a large filter copies them.
#[test]
fn large_filters_copy_rows_a_power_of_two_apart() {
    let mut random = fastrand::Rng::with_seed(3);
    for (gap, size, is_read) in [(2048, 9, false), (2048, 8, true), (2048 + 64, 9, true)] {
        let filter = Filter::new(&mut random, Element::F64, [40, 256], 0, [Rows::Gaps(gap), Rows::Dense]);
        let weights = (0..size).map(|_| random.f64()).collect();
        let filter = Filter { weights, lines: Lines { origin: 0, ..filter.lines }, ..filter }.without_border();
        assert_eq!(filter.check(&mut random)[1] > 0, is_read, "{filter:?}");
    }
}

/// Running sums of whole numbers are the sums, in rows of the arrays, too.
#[test]
fn running_sums_in_place() {
    let mut random = fastrand::Rng::with_seed(4);
    let shapes = WIDTHS.map(|width| ([5000_usize.div_ceil(width) + 60, width], 0));
    // Lines of several blocks: one column, and the last one of nine that are computed at the same time.
    let shapes = shapes.into_iter().chain([([20_000, 1], 0), ([9, 20_000], 1)]);
    for ((shape, axis), rows) in shapes.flat_map(|shape| ROWS[..5].iter().map(move |&rows| (shape, rows))) {
        let (mut input, mut output) = (rows.array(Element::F64, shape), rows.array(Element::F64, shape));
        for index in indices(&shape) {
            input.set(&index, random.i64(0..1000));
        }
        let lines = Lines { axis, origin: 1, border: BorderMode::Mirror, value: 0.0 };
        uniform1d(input.input(), output.output(), 5, &lines).unwrap();
        for index in indices(&shape) {
            let value = |j| {
                let mut at = index.clone();
                at[axis] = position(lines.border, index[axis] as isize + j - 3, shape[axis]).unwrap();
                input.get(&at)
            };
            assert_eq!(output.get(&index), (0..5).map(value).sum::<f64>() / 5.0, "{index:?} of {shape:?}, {rows:?}");
            let at = output.offset(&index);
            output.bytes[at..][..8].fill(GUARD);
        }
        assert!(output.bytes.iter().all(|&byte| byte == GUARD), "{shape:?}, {rows:?}");
    }
}

/// An array that is its own result has the bits of two arrays, with each border and along each axis.
#[test]
fn the_same_array() {
    let mut random = fastrand::Rng::with_seed(5);
    for (element, width) in TYPES.into_iter().flat_map(|element| WIDTHS.map(|width| (element, width))) {
        let shape = [random.usize(1..200), width];
        for (axis, border) in [0, 1].into_iter().flat_map(|axis| BorderMode::ALL.map(|border| (axis, border))) {
            let rows = ROWS[random.usize(..5)];
            let mut array = rows.array(element, shape);
            for index in indices(&shape) {
                array.set(&index, random.i64(0..1000));
            }
            let mut expected = rows.array(element, shape);
            // A single weight reads no border, so only the test for the same array keeps the values from being read in
            // place.
            let weights = if random.bool() { vec![2.0, -1.0, 3.0, 1.0, 1.0] } else { vec![3.0] };
            let lines = Lines { axis, origin: -((weights.len() / 4) as isize), border, value: 7.0 };
            let sums = if element == Element::F32 { Sums::F32 } else { Sums::F64 };
            correlate1d(array.input(), expected.output(), &weights, &lines, sums).unwrap();
            // SAFETY: the same array, which a filter along lines may be.
            let same = unsafe { Output::from_raw(array.bytes.as_mut_ptr().add(array.first), array.layout.clone()) };
            correlate1d(array.input(), same.unwrap(), &weights, &lines, sums).unwrap();
            for index in indices(&shape) {
                let (found, expected) = (array.get(&index), expected.get(&index));
                assert_eq!(found, expected, "{index:?} of {shape:?}, {element:?}, {rows:?}, {lines:?}");
            }
        }
    }
}

#[test]
fn arrays_without_elements() {
    let mut random = fastrand::Rng::with_seed(6);
    for (shape, axis) in [[0, 5], [5, 0], [0, 0]].into_iter().flat_map(|shape| [(shape, 0), (shape, 1)]) {
        let filter = Filter::new(&mut random, Element::F64, shape, axis, [Rows::Dense; 2]);
        assert_eq!(filter.check(&mut random), [0; 3], "{filter:?}");
    }
}

/// Memory between two pages that can't be accessed.
#[cfg(target_os = "linux")]
struct Enclosed {
    map: *mut libc::c_void,
    bytes: usize,
}

#[cfg(target_os = "linux")]
impl Enclosed {
    const PAGE: usize = 1 << 16;

    fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(Self::PAGE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, where the system likes it.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), bytes + 2 * Self::PAGE, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(map, libc::MAP_FAILED);
        let this = Self { map, bytes };
        // SAFETY: whole pages of the new memory.
        let code = unsafe { libc::mprotect(this.first().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        assert_eq!(code, 0);
        this
    }

    fn first(&self) -> *mut u8 {
        // SAFETY: the map is longer than a page.
        unsafe { self.map.cast::<u8>().add(Self::PAGE) }
    }
}

#[cfg(target_os = "linux")]
impl Drop for Enclosed {
    fn drop(&mut self) {
        // SAFETY: the whole map, which nobody uses any more.
        unsafe { libc::munmap(self.map, self.bytes + 2 * Self::PAGE) };
    }
}

/// Results of `correlate` in an array are those that are converted from scratch memory, as for an unaligned array.
#[test]
fn correlations_write_in_place() {
    let mut random = fastrand::Rng::with_seed(8);
    for (element, width) in TYPES.into_iter().flat_map(|element| WIDTHS.map(|width| (element, width))) {
        for (height, channels) in [1, 3, 4, 9].into_iter().flat_map(|height| [1, 3].map(|channels| (height, channels)))
        {
            let shape = [height, width * channels];
            let sums = if element == Element::F32 { Sums::F32 } else { Sums::F64 };
            let mut input = Rows::Dense.array(element, shape);
            for index in indices(&shape) {
                input.set(&index, random.i64(0..1000));
            }
            let sizes = [random.usize(1..6), random.usize(1..6), 1];
            let weights: Vec<f64> = (0..sizes[0] * sizes[1]).map(|_| random.f64() - 0.3).collect();
            let border = BorderMode::ALL[random.usize(..5)];
            let run = |output: &mut Array| {
                // With channels an array of three axes, of which the last one has no weights.
                let view = |layout: &Layout| {
                    let size = element.size() as isize;
                    let strides = vec![layout.strides[0], channels as isize * size, size];
                    Layout { element, shape: vec![height, width, channels], strides }
                };
                let correlation =
                    Correlation { weights: &weights, shape: &sizes, origins: &[0; 3], border, value: 7.0 };
                // SAFETY: the same elements as those of the arrays, which are apart.
                let (from, to) = unsafe {
                    let from = Input::from_raw(input.bytes.as_ptr().add(input.first), view(&input.layout));
                    let to = output.bytes.as_mut_ptr().add(output.first);
                    (from.unwrap(), Output::from_raw(to, view(&output.layout)).unwrap())
                };
                correlate(from, to, &correlation, sums).unwrap();
            };
            let mut expected = Rows::Unaligned.array(element, shape);
            run(&mut expected);
            for rows in &ROWS[..4] {
                let mut output = rows.array(element, shape);
                run(&mut output);
                for index in indices(&shape) {
                    let (found, expected) = (output.get(&index), expected.get(&index));
                    assert_eq!(found, expected, "{index:?} of {shape:?}, {channels} channels, {element:?}, {rows:?}");
                    let at = output.offset(&index);
                    output.bytes[at..][..element.size()].fill(GUARD);
                }
                assert!(output.bytes.iter().all(|&byte| byte == GUARD), "{shape:?}, {rows:?}");
            }
        }
    }
}

/// A read beside the input, or a write beside the output, would end the program.
#[cfg(target_os = "linux")]
#[test]
fn nothing_beside_the_arrays_is_accessed() {
    let mut random = fastrand::Rng::with_seed(7);
    for (element, width) in TYPES.into_iter().flat_map(|element| WIDTHS.map(|width| (element, width))) {
        let shape = [if width < 8 { 300 } else { 40 }, width];
        let bytes = shape.iter().product::<usize>() * element.size();
        for (axis, at_end, is_part) in (0..8).map(|i| (i % 2, i / 2 % 2 == 1, i / 4 == 1)) {
            let filter = Filter::new(&mut random, element, shape, axis, [Rows::Dense; 2]);
            let (size, length) = (filter.weights.len(), shape[axis]);
            if is_part && size > length {
                continue;
            }
            // The results that read the whole axis and no border, or all.
            let before = (size / 2).strict_add_signed(filter.lines.origin);
            let results = if is_part { before..before + length + 1 - size } else { 0..length };
            let mut shape_of_results = shape;
            shape_of_results[axis] = results.len();
            let bytes_of_results = shape_of_results.iter().product::<usize>() * element.size();
            let mut input = Rows::Dense.array(element, shape);
            for index in indices(&shape) {
                input.set(&index, random.i64(0..1000));
            }
            let mut expected = Rows::Unaligned.array(element, shape_of_results);
            let sums = if element == Element::F32 { Sums::F32 } else { Sums::F64 };
            let run = |from, to| {
                let results = results.clone();
                let part = if is_part { Part::Some { results, first: 0, length } } else { Part::All };
                correlate1d_part(from, to, &filter.weights, &filter.lines, sums, part).unwrap();
                BLOCKS.take()
            };
            let (from, to) = (Enclosed::new(bytes), Enclosed::new(bytes_of_results));
            run(input.input(), expected.output());
            // SAFETY: the arrays are as long as the memory of these bytes, at its beginning or at its end.
            unsafe {
                let start =
                    |memory: &Enclosed, bytes| memory.first().add(if at_end { memory.bytes - bytes } else { 0 });
                let (first, first_result) = (start(&from, bytes), start(&to, bytes_of_results));
                first.copy_from_nonoverlapping(input.bytes.as_ptr().add(input.first), bytes);
                let [blocks, read, _] = run(
                    Input::from_raw(first, Layout::dense(element, &shape)).unwrap(),
                    Output::from_raw(first_result, Layout::dense(element, &shape_of_results)).unwrap(),
                );
                let found = std::slice::from_raw_parts(first_result, bytes_of_results);
                assert!(found == &expected.bytes[expected.first..][..bytes_of_results], "{filter:?}");
                // Blocks of up to 256 columns, or parts of a line.
                if is_part
                    && (if axis == 0 { width % 256 == 0 || width % 256 >= GROUP } else { results.len() >= GROUP })
                {
                    assert_eq!(read, blocks, "{filter:?}");
                }
            }
        }
    }
}
