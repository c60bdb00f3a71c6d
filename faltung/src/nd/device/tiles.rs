//! Launches of the kernels that sum from tiles in shared memory: the order of the axes, and the list of passes.

use kernels_gpu::ndimage::mirrored::NONE;
use kernels_gpu::ndimage::params::{AXES, Axis, LOAD_ROWS, STORE_ROWS};
use kernels_gpu::ndimage::tile::{HEADER, RESULTS, TILE, pitch, shared_bytes, threads};

use super::plan::{ArrayLaunch, Common, Filtered, mirrored_words, of_launch, word, words};
use crate::nd::Sums;
use crate::{Error, Result};

/// The most shared memory of a block: what every device has without being asked.
pub(super) const MOST_BYTES: u64 = 48 << 10;

/// Fewer rows of a tile than these leave most lanes without results.
const FEW_ROWS: i64 = 8;

/// The axes of an array in the order of the kernels.
pub(super) struct Tiles {
    pub(super) axes: [Axis; AXES],
    /// The numbers that the axes have in the array.
    numbers: [Option<usize>; AXES],
    /// Whether axis 1 stands for parts of axis 0.
    is_folded: bool,
}

/// A tap: the distances along the axes, in the order of the kernels, and the weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub(super) delta: [i32; AXES],
    pub(super) weight: f64,
}

/// Taps at adjacent columns of a row.
#[derive(Clone, Copy, Debug)]
struct Run<'a> {
    taps: &'a [Tap],
}

impl<'a> Run<'a> {
    fn first(self) -> [i64; AXES] {
        self.taps[0].delta.map(i64::from)
    }

    fn columns(self) -> (i64, i64) {
        let first = self.first()[0];
        (first, first + self.taps.len() as i64 - 1)
    }

    /// The taps as runs, in their order.
    fn all(taps: &'a [Tap]) -> impl Iterator<Item = Self> {
        let follows = |a: &Tap, b: &Tap| a.delta[0].checked_add(1) == Some(b.delta[0]) && a.delta[1..] == b.delta[1..];
        taps.chunk_by(follows).map(|taps| Self { taps })
    }
}

/// Runs whose elements a block has in shared memory together.
struct Pass<'a> {
    runs: Vec<Run<'a>>,
    /// The distances of the first and of the last column, and of the first and of the last row, of any tap.
    columns: (i64, i64),
    rows: (i64, i64),
    /// Words: one for each run and each tap.
    words: u64,
}

impl<'a> Pass<'a> {
    fn new(run: Run<'a>) -> Self {
        let row = run.first()[1];
        Self { columns: run.columns(), rows: (row, row), words: 1 + run.taps.len() as u64, runs: vec![run] }
    }

    /// This pass with one more run; None if that takes too much shared memory.
    fn with(&mut self, run: Run<'a>, tiles: &Tiles, size: u64) -> bool {
        let (added, union) = (Pass::new(run), |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1)));
        let (columns, rows) = (union(self.columns, added.columns), union(self.rows, added.rows));
        let words = self.words + added.words;
        let fits =
            run.first()[2..] == self.runs[0].first()[2..] && tiles.bytes(columns, rows, words, size) <= MOST_BYTES;
        if fits {
            (self.columns, self.rows, self.words) = (columns, rows, words);
            self.runs.push(run);
        }
        fits
    }
}

/// The numbers of a pass in its header, but for the place of its words.
pub(super) struct Header {
    /// Along axes 2 and 3.
    pub(super) delta: [i32; 2],
    pub(super) first: (i64, i64),
    pub(super) columns: u64,
    pub(super) rows: u64,
    /// Columns before the gap, and the positions that it leaves out.
    pub(super) gap: (u64, i64),
    pub(super) numbers: [u32; 3],
}

/// The list of passes.
#[derive(Default)]
pub(super) struct List {
    headers: Vec<Header>,
    words: Vec<Vec<u64>>,
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl List {
    /// The list of one pass.
    pub(super) fn of_one(header: Header, words: Vec<u64>) -> Self {
        Self { headers: vec![header], words: vec![words] }
    }

    /// The list as the kernels read it.
    fn build(&self) -> Result<Vec<u64>> {
        let mut begin = self.headers.len() * HEADER as usize;
        let total = begin + self.words.iter().map(Vec::len).sum::<usize>();
        let most = i32::MAX as usize / 4;
        if total > most {
            return Err(Error::TooLarge { what: "the list of weights".into(), most, found: total.to_string() });
        }
        let mut list = Vec::with_capacity(total);
        for (header, words) in self.headers.iter().zip(&self.words) {
            let Header { delta, first, columns, rows, gap, numbers } = header;
            list.extend([
                pair(delta[0] as u32, delta[1] as u32),
                pair(first.0 as u32, first.1 as u32),
                pair(*columns as u32, *rows as u32),
                pair(gap.0 as u32, gap.1 as u32),
                pair(begin as u32, words.len() as u32),
                pair(numbers[0], numbers[1]),
                pair(numbers[2], 0),
            ]);
            begin += words.len();
        }
        list.extend(self.words.iter().flatten());
        Ok(list)
    }
}

/// The bytes of a value of the sums.
fn size(sums: Sums) -> u64 {
    match sums {
        Sums::F32 => 4,
        Sums::F64 => 8,
    }
}

impl Tiles {
    /// The order for axes of an array.
    ///
    /// Axis 0 is the last one that is filtered, because taps that differ along it alone follow each other in the sum.
    /// Axis 1 is the filtered axis before that one.
    pub(super) fn new(axes: &[Filtered]) -> Self {
        let mut rest = axes.to_vec();
        let nearest = |axes: &[Filtered]| {
            (0..axes.len()).min_by_key(|&i| (axes[i].axis.length == 1, axes[i].axis.to.unsigned_abs()))
        };
        let last_filtered = |axes: &[Filtered]| axes.iter().rposition(|one| one.size != 1);
        let mut order = Vec::new();
        if let Some(place) = last_filtered(&rest).or_else(|| nearest(&rest)) {
            order.push(rest.remove(place));
        }
        let mut is_folded = false;
        if let Some(place) = last_filtered(&rest) {
            order.push(rest.remove(place));
        } else if let Some(&Filtered { axis: columns, .. }) = order.first() {
            let longest = (0..rest.len()).max_by_key(|&i| rest[i].axis.length);
            // Rows that lie closer together than columns are loaded and stored along the rows.
            let closer = nearest(&rest).filter(|&i| {
                let Axis { length, to, .. } = rest[i].axis;
                length >= FEW_ROWS && to.unsigned_abs() < columns.to.unsigned_abs()
            });
            match closer.or(longest) {
                Some(place) if rest[place].axis.length >= FEW_ROWS => order.push(rest.remove(place)),
                _ if columns.length > TILE.into() && rest.len() + 2 <= AXES => {
                    let length = (columns.length as u64).div_ceil(TILE.into()) as i64;
                    order.push(Filtered { axis: Axis { length, ..Axis::SINGLE }, size: 1, number: usize::MAX });
                    is_folded = true;
                }
                Some(place) => order.push(rest.remove(place)),
                None => {}
            }
        }
        order.append(&mut rest);
        Self::of_order(&order, is_folded)
    }

    /// Axes 0 and 1 are those with these numbers in the array. None if the plan dropped one of them.
    pub(super) fn of_two(axes: &[Filtered], numbers: [usize; 2]) -> Option<Self> {
        let mut rest = axes.to_vec();
        let mut order = Vec::new();
        for number in numbers {
            let place = rest.iter().position(|one| one.number == number)?;
            order.push(rest.remove(place));
        }
        order.append(&mut rest);
        Some(Self::of_order(&order, false))
    }

    fn of_order(order: &[Filtered], is_folded: bool) -> Self {
        let mut numbers = [None; AXES];
        for (to, one) in numbers.iter_mut().zip(order) {
            *to = (one.number != usize::MAX).then_some(one.number);
        }
        Self { axes: of_launch(order.iter().map(|one| one.axis)), numbers, is_folded }
    }

    /// The place of an axis of the array.
    pub(super) fn place(&self, number: usize) -> Option<usize> {
        self.numbers.iter().position(|&one| one == Some(number))
    }

    /// Columns and rows of a tile. A thread without results reads nothing.
    fn tile(&self) -> (u64, u64) {
        let [columns, rows] = [0, 1].map(|axis| self.axes[axis].length as u64);
        (columns.next_multiple_of(RESULTS.into()).min(TILE.into()), rows.min(TILE.into()))
    }

    /// Columns and rows of a pass with these distances.
    fn padded(&self, columns: (i64, i64), rows: (i64, i64)) -> (u64, u64) {
        let tile = self.tile();
        (tile.0 + (columns.1 - columns.0) as u64, tile.1 + (rows.1 - rows.0) as u64)
    }

    fn bytes(&self, columns: (i64, i64), rows: (i64, i64), words: u64, size: u64) -> u64 {
        let (columns, rows) = self.padded(columns, rows);
        shared_bytes(columns, rows, words, size)
    }

    /// The taps in passes, in their order.
    fn passes<'a>(&self, taps: &'a [Tap], size: u64) -> Vec<Pass<'a>> {
        let mut passes: Vec<Pass<'a>> = Vec::new();
        for run in Run::all(taps) {
            if passes.last_mut().is_some_and(|pass| pass.with(run, self, size)) {
                continue;
            }
            let fits = |taps: &[Tap]| {
                let Pass { columns, rows, words, .. } = Pass::new(Run { taps });
                self.bytes(columns, rows, words, size) <= MOST_BYTES
            };
            let mut rest = run.taps;
            while !rest.is_empty() {
                let lengths: Vec<_> = (1..=rest.len().min(MOST_BYTES as usize)).collect();
                let most = lengths.partition_point(|&length| fits(&rest[..length])).max(1);
                let (taps, later) = rest.split_at(most);
                passes.push(Pass::new(Run { taps }));
                rest = later;
            }
        }
        passes
    }

    /// The launch with a list, of blocks with so many columns of results.
    pub(super) fn launch(&self, common: &Common, list: &List, sums: Sums, width: u32) -> Result<ArrayLaunch> {
        let [mut columns, rows, others @ ..] = self.axes.map(|axis| axis.length);
        if self.is_folded {
            columns = TILE.into();
        }
        let mut launch = common.launch(self.axes, [columns, rows, others[0], others[1]], (width, TILE))?;
        launch.block = (threads(width), 1);
        let (is_narrow, is_flat) = (columns < FEW_ROWS, rows < FEW_ROWS);
        let is_closer = |stride: fn(&Axis) -> i64| {
            let [columns, rows] = [0, 1].map(|axis| stride(&self.axes[axis]).unsigned_abs());
            !self.is_folded && rows < columns && !is_flat
        };
        let load = if is_closer(|axis| axis.from) { LOAD_ROWS } else { 0 };
        let store = is_closer(|axis| axis.to) || (is_narrow && !is_flat && !self.is_folded);
        launch.params.lanes = load | if store { STORE_ROWS } else { 0 };
        launch.params.fold = if self.is_folded { TILE } else { 0 };
        launch.params.passes = list.headers.len() as u32;
        let of_pass = |(header, words): (&Header, &Vec<u64>)| {
            shared_bytes(header.columns, header.rows, words.len() as u64, size(sums))
        };
        let most = list.headers.iter().zip(&list.words).map(of_pass).max();
        launch.shared_bytes = most.unwrap_or_else(|| shared_bytes(0, 0, 0, size(sums))) as u32;
        launch.list = list.build()?;
        Ok(launch)
    }

    /// The launch of [`correlate`](kernels_gpu::ndimage::correlate) for taps in the order of the sum.
    pub(super) fn correlate(&self, common: &Common, taps: &[Tap], sums: Sums) -> Result<ArrayLaunch> {
        let mut list = List::default();
        for pass in self.passes(taps, size(sums)) {
            let (columns, rows) = self.padded(pass.columns, pass.rows);
            let pitch = pitch(columns as u32);
            let place = |run: &Run<'_>| {
                let [column, row, ..] = run.first();
                (row - pass.rows.0) as u32 * pitch + (column - pass.columns.0) as u32
            };
            let runs = pass.runs.iter().map(|run| pair(place(run), run.taps.len() as u32));
            let weights = pass.runs.iter().flat_map(|run| run.taps.iter().map(|tap| word(tap.weight, sums)));
            list.words.push(runs.chain(weights).collect());
            let [_, _, delta @ ..] = pass.runs[0].taps[0].delta;
            list.headers.push(Header {
                delta,
                first: (pass.columns.0, pass.rows.0),
                columns,
                rows,
                gap: (columns, 0),
                numbers: [pass.runs.len() as u32, 0, 0],
            });
        }
        self.launch(common, &list, sums, TILE)
    }

    /// The launch of [`mirrored`](kernels_gpu::ndimage::mirrored) along axis 0.
    pub(super) fn mirrored(&self, common: &Common, weights: &[f64], is_odd: bool, sums: Sums) -> Result<ArrayLaunch> {
        let (half, (width, rows)) = (weights.len() / 2, self.tile());
        // The distance of the middle element.
        let middle = half as i64 - self.axes[0].before;
        let header = |first: i64, columns: u64, gap: (u64, i64), numbers: [u32; 3]| Header {
            delta: [0; 2],
            first: (first, 0),
            columns,
            rows,
            gap,
            numbers,
        };
        let bytes = |columns: u64, weights: u64| shared_bytes(columns, rows, weights, size(sums));
        let mut list = List::default();
        let all = width + 2 * half as u64;
        if bytes(all, 1 + half as u64) <= MOST_BYTES {
            list.words.push(mirrored_words(weights, sums));
            let numbers = [half as u32, (all - width) as u32, half as u32];
            list.headers.push(header(middle - half as i64, all, (all, 0), numbers));
        } else {
            list.words.push(words(&weights[half..=half], sums));
            list.headers.push(header(middle, width, (width, 0), [0; 3]));
            // The columns of the left elements, and after a gap as many for the right ones.
            let side = |pairs: usize| width - 1 + pairs as u64;
            let pairs: Vec<_> = (1..=half.min(MOST_BYTES as usize)).collect();
            let most = pairs.partition_point(|&pairs| bytes(2 * side(pairs), pairs as u64) <= MOST_BYTES).max(1);
            let mut outermost = half as i64;
            for part in weights[..half].chunks(most) {
                let (pairs, split) = (part.len(), side(part.len()));
                let innermost = outermost - pairs as i64 + 1;
                let gap = (split, innermost + outermost - split as i64);
                let numbers = [NONE, (2 * split - width) as u32, pairs as u32];
                list.words.push(words(part, sums));
                list.headers.push(header(middle - outermost, 2 * split, gap, numbers));
                outermost = innermost - 1;
            }
        }
        let mut launch = self.launch(common, &list, sums, TILE)?;
        launch.params.is_odd = is_odd.into();
        Ok(launch)
    }
}
