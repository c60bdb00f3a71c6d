//! The tensor cores' sums, what they become, and which of it is uncertain.

use cuda_std::bytes::{byte_perm, pack_sat_u8x2, with_at_least};
use cuda_std::mma::mma_m16n8k32_u8s8;
use cuda_std::prelude::*;

use super::layout::padded;
use super::store::result_place;
use super::{
    ACROSS, AT_A_TIME, CHUNK, Layout, MOST_HELD, PLANES, TILE, TILES, apart, list_of, most_uncertain, of_warp,
    result_pitch, this_thread,
};

/// The sums of a product for each tile, of the lower and of the higher bytes of the coefficients.
type Sums = [[[i32; 4]; 2]; TILES];

/// The products of matrices in the loop over tiles of [`Products::compute`], for each channel that lies apart: for each
/// of the 4 tiles of
/// rows with each part of the mask, the lower and the higher bytes of its coefficients.
pub(super) const fn of_tile(layout: &Layout, size: u32) -> u32 {
    let pairs = 2 * PLANES;
    match (layout.held, layout.paired) {
        // The loop over the rows of the mask is not unrolled but for those that are in registers at a time.
        (false, _) => ACROSS as u32 * pairs * AT_A_TIME,
        (true, false) => pairs * size,
        (true, true) => pairs * size.div_ceil(2),
    }
}

/// Bytes of a thread's results of 64 rows and 8 columns: two neighbours in each of the rows `4 (group + 8 half) + s`, by `2 s + half`.
type Pairs = [u32; 2 * TILES];

/// For each result of a thread whether it is uncertain, the last one lowest: two channels of 8 columns to a word, or 16 columns where they lie
/// side by side.
type Doubtful = [u32; 4];

/// The tensor cores' part.
pub(super) struct Products<const CHANNELS: u32, const SIZE: u32> {
    pub(super) layout: Layout,
    /// Of the mask.
    pub(super) rows: u32,
    pub(super) plane: u32,
    pub(super) matrices: Shared<f32>,
    pub(super) shift: u32,
    pub(super) bias: [i32; 4],
    pub(super) uncertain: u32,
    pub(super) results: Shared<u8>,
    pub(super) list: Shared<u8>,
    pub(super) counts: Shared<u32>,
}

impl<const CHANNELS: u32, const SIZE: u32> Products<CHANNELS, SIZE> {
    /// Channels that lie apart.
    const APART: u32 = apart(CHANNELS, SIZE);

    /// A step: all results, and the lists of the uncertain ones. Warps whose columns are all beyond the `inside` columns that the block has
    /// of the image have none.
    ///
    /// # Safety
    /// All threads of the block call it. `image` was filled before the last barrier, the matrices are in place, and nobody reads the results
    /// and the lists.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    pub(super) unsafe fn compute(&self, image: Shared<u8>, inside: i32, held: &[[u32; 4]; MOST_HELD]) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let (group, member) = (lane / 4, lane % 4);
        let first = warp * of_warp(Self::APART);
        let mut from = image.offset(group * self.layout.pitch + 4 * member + self.layout.first + first);
        let mut column = first;
        // Of one channel two tiles make a word. Of several that lie apart a tile has two, which wait where the list will be.
        let mut certain = [u32::MAX; 2];
        let waiting = self.list.offset(2 * list_of(Self::APART, warp)).cast::<u32>().offset(lane);
        // Of two tiles of which one begins inside, both are computed.
        let inside = (inside + 2 * TILE as i32 - 1) & !(2 * TILE as i32 - 1);
        while column < first + of_warp(Self::APART) && (column as i32) < inside {
            thread::no_unroll();
            // Tiles side by side.
            let across = if self.layout.held { 1 } else { ACROSS };
            let mut pairs = [[[0; 2 * TILES]; 2]; ACROSS];
            let mut of_channels = [0; ACROSS];
            for channel in 0..Self::APART {
                let from = from.offset(channel * self.layout.run);
                let sums = if self.layout.held {
                    // SAFETY: the caller's promise.
                    [unsafe { self.sums_held(from.cast(), held) }, Sums::default()]
                } else {
                    // SAFETY: the caller's promise.
                    unsafe { self.sums(from, lane) }
                };
                for i in 0..across {
                    // The first two channels make a word, and the others.
                    let pairs = &mut pairs[i][channel as usize / 2];
                    if Self::APART == 1 {
                        *pairs = self.pairs(&sums[i], pairs, &mut certain[1]);
                        continue;
                    }
                    *pairs = self.pairs(&sums[i], pairs, &mut of_channels[i]);
                    let word = (column - first) / TILE * 2 + 2 * i as u32 + channel / 2;
                    let bits = if channel % 2 == 0 { !of_channels[i] << 16 } else { !of_channels[i] };
                    if channel % 2 == 1 || channel + 1 == Self::APART {
                        // SAFETY: the list is this warp's, the place this lane's.
                        unsafe { waiting.store(word * 32, bits) };
                    }
                }
            }
            for i in 0..across {
                // SAFETY: the results are this thread's.
                unsafe { self.store(&pairs[i], column, group, member) };
                column += TILE;
                from = from.offset(TILE);
            }
            if Self::APART == 1 && column % of_warp(Self::APART) == 2 * TILE {
                certain[0] = certain[1];
            }
        }
        let mut doubtful = [0; 4];
        if Self::APART == 1 {
            // Or the others are beyond the image.
            let all = column % of_warp(Self::APART) != 2 * TILE;
            (doubtful[0], doubtful[1]) = (!certain[0], if all { !certain[1] } else { 0 });
        } else {
            if (first as i32) < inside {
                // SAFETY: all tiles' words are there.
                doubtful = [0, 1, 2, 3].map(|word| unsafe { waiting.load(word * 32) });
            }
            // The list is written from now on. SAFETY: all lanes are here: columns and `inside` are the warp's.
            unsafe { warp::sync_warp() };
        }
        // SAFETY: list and count are this warp's.
        unsafe { self.push(doubtful) };
    }

    /// The bytes of sums, each two below the lower half of what is there; whether they are certain goes into the lowest bits of `certain`.
    #[inline(always)]
    fn pairs(&self, sums: &Sums, above: &Pairs, certain: &mut u32) -> Pairs {
        let mut pairs = Pairs::default();
        for (s, [low, high]) in sums.iter().enumerate() {
            for half in 0..2 {
                let mut bytes = [0; 2];
                for (i, byte) in bytes.iter_mut().enumerate() {
                    let sum = high[2 * half + i].wrapping_mul(256).wrapping_add(low[2 * half + i]);
                    *certain = with_at_least(*certain, (sum as u32) << (32 - self.shift), self.uncertain);
                    *byte = sum >> self.shift;
                }
                pairs[2 * s + half] = pack_sat_u8x2(bytes[0], bytes[1], above[2 * s + half]);
            }
        }
        pairs
    }

    /// Puts the bytes of 64 rows and 8 columns among the results, the channels of a pixel side by side.
    ///
    /// # Safety
    /// Nobody else has this thread's results.
    #[inline(always)]
    unsafe fn store(&self, pairs: &[Pairs; 2], column: u32, group: u32, member: u32) {
        let to = self.results.offset(group * result_pitch(Self::APART) + Self::APART * (column + 2 * member));
        // With `a` to `d` for the channels, 0 and 1 for the pixels, and from the lowest byte on: b0 b1 a0 a1 and c0 c1. The six of three
        // channels begin in the middle of a word in every other thread: a0 b0 c0 a1, b1 c1 or a0 b0, c0 a1 b1 c1.
        let odd = member % 2;
        let (four, two) = if odd == 0 { (0x3402, 0x0051) } else { (0x5134, 0x0002) };
        for (i, (&ab, &cd)) in pairs[0].iter().zip(&pairs[1]).enumerate() {
            let row = (i / 2 + 32 * (i % 2)) as u32;
            let to = to.offset(result_place(Self::APART, row, 0));
            // SAFETY: the bytes are this thread's.
            unsafe {
                match Self::APART {
                    1 => to.cast::<u16>().store(0, ab as u16),
                    3 => {
                        to.offset(2 * odd).cast::<u32>().store(0, byte_perm(ab, cd, four));
                        to.offset(4 - 4 * odd).cast::<u16>().store(0, byte_perm(ab, cd, two) as u16);
                    }
                    _ => {
                        // With d0 d1 c0 c1.
                        let words = [0x4602, 0x5713].map(|bytes| f32::from_bits(byte_perm(ab, cd, bytes)));
                        to.cast::<F32x2>().store(0, F32x2(words));
                    }
                }
            }
        }
    }

    /// The sums of 64 rows and 8 columns with all matrices in registers; `from` is the thread's first word in the first
    /// row of a stage.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums_held(&self, from: Shared<u32>, held: &[[u32; 4]; MOST_HELD]) -> Sums {
        let mut sums = [[self.bias, [0; 4]]; TILES];
        // SAFETY: the caller's promise.
        unsafe { self.add(from, held, self.rows, self.layout.paired, &mut sums) };
        sums
    }

    /// The sums of 64 rows and 16 columns, a few rows of the mask at a time in registers.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn sums(&self, from: Shared<u8>, lane: u32) -> [Sums; ACROSS] {
        let mut sums = [[[self.bias, [0; 4]]; TILES]; ACROSS];
        let mut matrices = self.matrices.cast::<F32x4>().offset(lane);
        // Opaque, or the loops would be unrolled where they are known.
        let (chunks, rows) = (thread::black_box(self.layout.chunks), thread::black_box(padded(self.rows)));
        let mut chunk = 0;
        while chunk < chunks {
            thread::no_unroll();
            let mut at = from.offset(chunk * CHUNK);
            let mut row = 0;
            while row < rows {
                thread::no_unroll();
                let mut held = [[0; 4]; AT_A_TIME as usize];
                for part in &mut held {
                    // SAFETY: the matrices have 32 such parts for each row of the mask and chunk.
                    *part = unsafe { matrices.load(0) }.0.map(f32::to_bits);
                    matrices = matrices.offset(32);
                }
                for (across, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe { self.add(at.offset(across as u32 * TILE).cast(), &held, AT_A_TIME, false, sums) };
                }
                at = at.offset(self.layout.pitch);
                row += AT_A_TIME;
            }
            chunk += 1;
        }
        sums
    }

    /// Adds the products with `rows` rows of the mask, or pairs of them, of which `held` has the thread's parts.
    ///
    /// # Safety
    /// As for [`compute`](Self::compute).
    #[inline(always)]
    unsafe fn add(&self, from: Shared<u32>, held: &[[u32; 4]], rows: u32, paired: bool, sums: &mut Sums) {
        let (pitch, plane) = (self.layout.pitch / 4, self.plane / 4);
        // A word of the thread's row of those for `t`, or of the one 8 further down.
        let word = |t: u32, half: u32, further: u32| {
            let row = (t / PLANES + 8 * further) * pitch + t % PLANES * plane;
            // SAFETY: rows 4 m + t with m up to 15 are in the stage, and the chunk's bytes are in the row.
            unsafe { from.load(row + 4 * half) }
        };
        let of_image = rows + PLANES - 1;
        let parts = if paired { rows.div_ceil(2) } else { rows };
        for i in 0..if paired { of_image.div_ceil(2) } else { of_image } {
            let a = if paired {
                // The last one may be beyond all rows, where the matrices are 0.
                let (t, next) = (2 * i, if 2 * i + 1 < of_image { 2 * i + 1 } else { 2 * i });
                [word(t, 0, 0), word(t, 0, 1), word(next, 0, 0), word(next, 0, 1)]
            } else {
                [word(i, 0, 0), word(i, 0, 1), word(i, 1, 0), word(i, 1, 1)]
            };
            for (s, [low, high]) in sums.iter_mut().enumerate() {
                let later = if paired { s as u32 / 2 } else { s as u32 };
                if i < later || i - later >= parts {
                    continue;
                }
                let part = if paired { 2 * (i - later) + s as u32 % 2 } else { i - later };
                let [low0, low1, high0, high1] = held[part as usize];
                // SAFETY: all lanes are here: columns, channels and rows are equal in all lanes of the warp.
                unsafe {
                    *low = mma_m16n8k32_u8s8(a, [low0, low1], *low);
                    *high = mma_m16n8k32_u8s8(a, [high0, high1], *high);
                }
            }
        }
    }

    /// Puts a lane's `doubtful` results onto its warp's list, and writes down how many the warp has, which may be more than fit.
    ///
    /// Of one channel a step has few, and rounds in which each lane puts one, its place by a vote, are the faster way. Of several that lie apart it
    /// has two or three times as many, and a prefix sum over the lanes is. (Measured, each way for both.)
    ///
    /// # Safety
    /// The list and the count are this warp's.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)]
    unsafe fn push(&self, doubtful: Doubtful) {
        let (warp, lane) = (this_thread() / 32, this_thread() % 32);
        let store = |place: u32, word: u32, bit: u32| {
            if place < most_uncertain(Self::APART) {
                let place = list_of(Self::APART, warp) + place;
                // SAFETY: the place is in this warp's list, and this thread's alone.
                unsafe { self.list.cast::<u16>().store(place, Item { lane, word, bit }.packed()) };
            }
        };
        let mut sum = 0;
        if Self::APART == 1 {
            let [mut first, mut second, ..] = doubtful;
            // Each round takes one of each lane that has one. SAFETY: all lanes are here: all threads call `push`.
            let mut lanes = unsafe { warp::ballot(first | second != 0) };
            while lanes != 0 {
                thread::no_unroll();
                if first | second != 0 {
                    let place = sum + (lanes & ((1 << lane) - 1)).count_ones();
                    let of = u32::from(first == 0);
                    let word = if first == 0 { &mut second } else { &mut first };
                    let bit = word.leading_zeros();
                    *word &= !(1 << (31 - bit));
                    store(place, of, bit);
                }
                sum += lanes.count_ones();
                // SAFETY: all lanes are here: `lanes` is equal in all of them.
                lanes = unsafe { warp::ballot(first | second != 0) };
            }
        } else {
            // Those of this lane and all before.
            let own: u32 = doubtful.iter().map(|word| word.count_ones()).sum();
            sum = own;
            // SAFETY: all lanes are here: all threads call `push`.
            if unsafe { warp::ballot(own != 0) } != 0 {
                for i in 0..5 {
                    let further = 1 << i;
                    // SAFETY: all lanes are here: the ballot is equal in all of them.
                    let before = unsafe { warp::shuffle(sum, lane.wrapping_sub(further) % 32) };
                    sum += if lane >= further { before } else { 0 };
                }
            }
            let mut place = sum - own;
            for of in 0..doubtful.len() {
                let mut word = doubtful[of];
                while word != 0 {
                    thread::no_unroll();
                    let bit = word.leading_zeros();
                    word &= !(1 << (31 - bit));
                    store(place, of as u32, bit);
                    place += 1;
                }
            }
        }
        if lane == 31 {
            // SAFETY: the last lane's sum is the warp's, and one number a warp.
            unsafe { self.counts.store(warp, sum) };
        }
    }
}

/// An uncertain result: a lane's bit of [`Doubtful`], the highest one being 0.
pub(super) struct Item {
    lane: u32,
    word: u32,
    bit: u32,
}

impl Item {
    #[inline(always)]
    fn packed(&self) -> u16 {
        (self.lane << 7 | self.word << 5 | self.bit) as u16
    }

    #[inline(always)]
    pub(super) fn unpack(packed: u16) -> Self {
        let packed = u32::from(packed);
        Self { lane: packed >> 7, word: packed >> 5 & 3, bit: packed & 31 }
    }

    /// The row and the value of the block that a warp's item is, in the order in which sums become bytes: two channels or two tiles of 8
    /// columns, then 4 of rows and 2 halves of each, and 2 columns.
    #[inline(always)]
    pub(super) fn place(&self, apart: u32, warp: u32) -> (u32, u32) {
        let row = PLANES * (self.lane / 4 + (self.bit & 2) * 4) + self.bit / 4 % PLANES;
        let column = warp * of_warp(apart) + self.lane % 4 * 2 + (self.bit & 1);
        if apart == 1 {
            return (row, column + self.word * 2 * TILE + self.bit / 16 * TILE);
        }
        (row, (column + self.word / 2 * TILE) * apart + self.word % 2 * 2 + self.bit / 16)
    }
}
