//! Uncertain integer results of an image of bytes, computed again in the order of the contract.
//!
//! A result is one chain of dependent multiply-adds, so several results are computed at once. With AVX2 and AVX-512
//! VBMI each is a lane of a vector: the bytes of 8 or 16 windows are loaded and transposed. Other CPUs use [`CHAINS`]
//! scalar chains.

use kernels_gpu::abi::border::{OUTSIDE, map};

use super::finish::Results;
use super::simd::{Level, Simd, Work};
use crate::Problem;

/// Scalar chains at once. A step of a chain waits some four cycles for the one before, and two steps begin in a cycle.
const CHAINS: usize = 8;

/// Results at once.
const AT_ONCE: usize = 32;
/// The places of the results that are computed at once: the row, and the value in it. Unused entries repeat a place.
type Places = [(usize, usize); AT_ONCE];

/// Bytes that must be readable after the last pixel of a window's row: 64 are loaded at once.
const SPARE: usize = 64;

/// The image and the filter of results that are computed again.
pub(super) struct Recompute<'a> {
    /// The problem. The border's value is a byte.
    problem: &'a Problem,
    /// The image.
    image: &'a [u8],
    /// The instructions.
    level: Level,
    /// The window's coefficients, each row zero-padded to a multiple of four. A padding product is +0. It changes no
    /// sum.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "only the vectors of x86-64 load them"))]
    coefficients: Vec<f32>,
}

impl<'a> Recompute<'a> {
    /// For results of `image`.
    pub(super) fn new(problem: &'a Problem, image: &'a [u8], level: Level) -> Self {
        let width = problem.window().width();
        let mut coefficients = Vec::with_capacity(problem.window().height() * width.next_multiple_of(4));
        for row in problem.window().coefficients().chunks_exact(width) {
            coefficients.extend_from_slice(row);
            coefficients.resize(coefficients.len().next_multiple_of(4), 0.0);
        }
        Self { problem, image, level, coefficients }
    }

    /// Computes some results of a block again: row and column of each in the block, whose first output is value `left`
    /// of row `top`.
    pub(super) fn block(&self, (top, left): (usize, usize), again: &[(usize, usize)], results: &mut Results<'_>) {
        let places: Vec<_> = again.iter().map(|&(row, column)| (top + row, left + column)).collect();
        self.values(&places, |number, value| {
            let (row, column) = again[number];
            results.set(row, column, value);
        });
    }

    /// Calls `set` with the index of each place and its result before rounding to an integer. A place is a row and an
    /// interleaved column of the result. The sums have the bits of the ordered sums.
    pub(super) fn values(&self, places: &[(usize, usize)], mut set: impl FnMut(usize, f32)) {
        // Those whose windows lie in the image are computed together, as their rows need not be looked for.
        let (inside, beside): (Vec<usize>, Vec<usize>) = (0..places.len()).partition(|&i| self.is_inside(places[i]));
        let mut windows = Windows::default();
        for (numbers, inside) in [(inside, true), (beside, false)] {
            for numbers in numbers.chunks(AT_ONCE) {
                let mut group = [places[numbers[0]]; AT_ONCE];
                for (place, &number) in group.iter_mut().zip(numbers) {
                    *place = places[number];
                }
                let values = self.group(&mut windows, &group, numbers.len(), inside);
                for (&number, value) in numbers.iter().zip(values) {
                    set(number, self.problem.finish(value));
                }
            }
        }
    }

    /// The sums of the first `count` places. `inside` says of all of them whether their windows lie in the image.
    fn group(&self, windows: &mut Windows, places: &Places, count: usize, inside: bool) -> [f32; AT_ONCE] {
        if inside {
            let (row, step) = (self.problem.row_values(), self.problem.format().channels);
            let (above, before) = self.problem.origin();
            for (begin, &place) in windows.begins.iter_mut().zip(places) {
                assert!(self.is_inside(place), "the window of {place:?} is not in the image");
                *begin = (place.0 - above) * row + place.1 - before * step;
            }
        } else {
            for (columns, &(_, x)) in windows.columns.iter_mut().zip(places).take(count) {
                self.map_columns(columns, x);
            }
        }
        #[cfg(target_arch = "x86_64")]
        if self.level.has_byte_instructions() {
            // SAFETY: the CPU has the instructions; `is_inside` is asserted above where the places are `inside`, and
            // `begins` is set.
            return unsafe { lanes::sums(self, windows, places, count, inside) };
        }
        #[cfg(target_arch = "x86_64")]
        if has_lanes(self.level) {
            // SAFETY: both levels have the instructions of AVX2; the rest is as above.
            return unsafe { lanes_avx2::sums(self, windows, places, count, inside) };
        }
        self.level.run(Chains { recompute: self, windows, places, count, inside })
    }

    /// Whether the window of a place lies in the image, with [`SPARE`] bytes after its last row.
    fn is_inside(&self, (y, x): (usize, usize)) -> bool {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let (above, before) = (problem.origin().0, problem.origin().1 * step);
        let (bottom, span) = (y + problem.window().height(), (problem.window().width() - 1) * step + 1);
        y >= above
            && bottom <= problem.height() + above
            && x >= before
            && x - before + span <= problem.row_values()
            && (bottom - above - 1) * problem.row_values() + x - before + span + SPARE <= self.image.len()
    }

    /// For each place the bytes from the first pixel of row `k` of its window on, and [`SPARE`] more. They are the
    /// image's where the windows are `inside`, else copies.
    ///
    /// # Safety
    /// `inside` only if [`is_inside`](Self::is_inside) holds of all places, and `windows` has where their windows
    /// begin.
    #[inline(always)]
    unsafe fn window_rows<'w>(
        &'w self,
        windows: &'w mut Windows,
        places: &Places,
        count: usize,
        inside: bool,
        k: usize,
    ) -> [&'w [u8]; AT_ONCE] {
        let mut rows = [&[][..]; AT_ONCE];
        let (problem, step) = (self.problem, self.problem.format().channels);
        let span = (problem.window().width() - 1) * step + 1;
        if inside {
            let down = k * problem.row_values();
            for (row, &begin) in rows.iter_mut().zip(&windows.begins).take(count) {
                // SAFETY: `is_inside` holds of the place, so its window's rows lie in the image with SPARE bytes more.
                *row = unsafe { self.image.get_unchecked(begin + down..begin + down + span + SPARE) };
            }
        } else {
            let copies = windows.rows.iter_mut().zip(&windows.columns);
            for ((row, (copy, columns)), &(y, x)) in rows.iter_mut().zip(copies).zip(places).take(count) {
                self.copy_row(copy, columns, self.row(y, k), x);
                *row = copy;
            }
        }
        // The rest is computed and not used.
        let (used, rest) = rows.split_at_mut(count);
        rest.fill(used[0]);
        rows
    }

    /// The row of the image under row `k` of the window of output row `y`, or [`OUTSIDE`].
    fn row(&self, y: usize, k: usize) -> i32 {
        let row = (y + k) as i32 - self.problem.origin().0 as i32;
        map(self.problem.border().mode().code(), row, self.problem.height() as i32)
    }

    /// The columns of the image under the windows of value `x`, or [`OUTSIDE`].
    fn map_columns(&self, columns: &mut Vec<i32>, x: usize) {
        let (problem, code) = (self.problem, self.problem.border().mode().code());
        let first = (x / problem.format().channels) as i32 - problem.origin().1 as i32;
        columns.clear();
        columns.extend((first..first + problem.window().width() as i32).map(|c| map(code, c, problem.width() as i32)));
    }

    /// Copies the values under a row of the window of value `x`, which are in these columns of row `row` of the image,
    /// and [`SPARE`] bytes more.
    fn copy_row(&self, copy: &mut Vec<u8>, columns: &[i32], row: i32, x: usize) {
        let (problem, step) = (self.problem, self.problem.format().channels);
        let outside = problem.border().value() as u8;
        copy.resize((columns.len() - 1) * step + 1 + SPARE, 0);
        if row == OUTSIDE {
            copy.fill(outside);
            return;
        }
        let row = &self.image[row as usize * problem.row_values()..][..problem.row_values()];
        let channel = x % step;
        // Those inside follow one another.
        let width = columns.len() as i32;
        let first = (x / step) as i32 - problem.origin().1 as i32;
        let inside = (-first).clamp(0, width) as usize..(problem.width() as i32 - first).clamp(0, width) as usize;
        if !inside.is_empty() {
            let (from, span) = (columns[inside.start] as usize * step + channel, (inside.len() - 1) * step + 1);
            copy[inside.start * step..][..span].copy_from_slice(&row[from..][..span]);
        }
        for l in (0..inside.start).chain(inside.end..columns.len()) {
            copy[l * step] = if columns[l] == OUTSIDE { outside } else { row[columns[l] as usize * step + channel] };
        }
    }
}

/// Whether results are computed in the lanes of vectors.
pub(super) fn has_lanes(level: Level) -> bool {
    matches!(level, Level::Avx2 | Level::Avx512) && level.is_available()
}

/// The windows of the results that are computed at once: copies of one row of each, or their places in the image.
#[derive(Default)]
struct Windows {
    rows: [Vec<u8>; AT_ONCE],
    /// The columns under each, if they do not lie in the image.
    columns: [Vec<i32>; AT_ONCE],
    /// Where the windows begin in the image, if they lie in it.
    begins: [usize; AT_ONCE],
}

/// Results with scalar instructions.
struct Chains<'a, 'b> {
    recompute: &'a Recompute<'a>,
    windows: &'b mut Windows,
    places: &'b Places,
    count: usize,
    inside: bool,
}

impl Work for Chains<'_, '_> {
    type Output = [f32; AT_ONCE];

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, _: S) -> [f32; AT_ONCE] {
        let Self { recompute, windows, places, count, inside } = self;
        let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
        let mut sums = [0.0_f32; AT_ONCE];
        for (k, coefficients) in window.coefficients().chunks_exact(window.width()).enumerate() {
            // SAFETY: only `group` makes this, and it has asserted `is_inside` of all places and set `begins`.
            let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
            for (sums, rows) in
                sums.chunks_exact_mut(CHAINS).zip(rows.chunks_exact(CHAINS)).take(count.div_ceil(CHAINS))
            {
                ordered_steps(coefficients, rows, step, sums);
            }
        }
        sums
    }
}

/// Adds one row of a window to several ordered sums: one fused multiply-add a coefficient, from left to right. `rows`
/// are the pixels from the first coefficient's on, `step` values apart.
#[inline(always)]
pub(super) fn ordered_steps<T: Copy + Into<f32>>(coefficients: &[f32], rows: &[&[T]], step: usize, sums: &mut [f32]) {
    for (l, &coefficient) in coefficients.iter().enumerate() {
        for (sum, row) in sums.iter_mut().zip(rows) {
            *sum = coefficient.mul_add(row[l * step].into(), *sum);
        }
    }
}

/// Results in the lanes of vectors: a chain in each lane.
#[cfg(target_arch = "x86_64")]
mod lanes {
    use std::arch::x86_64::*;

    use super::{AT_ONCE, Places, Recompute, Windows};

    /// More than one, as a step of a chain waits for the one before.
    const VECTORS: usize = AT_ONCE / 16;
    /// Coefficients at once: the bytes of 128 bits.
    const TAPS: usize = 16;

    /// [`Recompute::group`].
    ///
    /// # Safety
    /// - The CPU has AVX-512 F, BW, VL and VBMI.
    /// - As for [`Recompute::window_rows`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,fma")]
    pub(super) unsafe fn sums(
        recompute: &Recompute<'_>,
        windows: &mut Windows,
        places: &Places,
        count: usize,
        inside: bool,
    ) -> [f32; AT_ONCE] {
        let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
        // Every byte that is `step` from the one before.
        let mut order = [0_u8; 64];
        for (at, byte) in order.iter_mut().enumerate() {
            *byte = (at * step % 64) as u8;
        }
        // SAFETY: `order` is 64 bytes.
        let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
        let vectors = count.div_ceil(16);
        let (mut sums, byte) = ([_mm512_setzero_ps(); VECTORS], _mm512_set1_epi32(255));
        for (k, coefficients) in recompute.coefficients.chunks_exact(window.width().next_multiple_of(4)).enumerate() {
            // SAFETY: this function requires of places and windows what `window_rows` does.
            let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
            for (group, coefficients) in coefficients.chunks(TAPS).enumerate() {
                for (sum, rows) in sums.iter_mut().zip(rows.chunks_exact(16)).take(vectors) {
                    // SAFETY: each row has 64 bytes from its last coefficient's pixel on.
                    let bytes = unsafe { transposed(rows, group * TAPS * step, step, order) };
                    for (&bytes, coefficients) in bytes.iter().zip(coefficients.as_chunks::<4>().0) {
                        let pixels = [
                            _mm512_and_si512(bytes, byte),
                            _mm512_and_si512(_mm512_srli_epi32::<8>(bytes), byte),
                            _mm512_and_si512(_mm512_srli_epi32::<16>(bytes), byte),
                            _mm512_srli_epi32::<24>(bytes),
                        ];
                        for (&pixels, &coefficient) in pixels.iter().zip(coefficients) {
                            *sum = _mm512_fmadd_ps(_mm512_set1_ps(coefficient), _mm512_cvtepi32_ps(pixels), *sum);
                        }
                    }
                }
            }
        }
        let mut lanes = [0.0_f32; AT_ONCE];
        for (lanes, &sum) in lanes.chunks_exact_mut(16).zip(&sums) {
            // SAFETY: `lanes` is 16 values.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sum) };
        }
        lanes
    }

    /// The bytes `first`, `first + step` and so on of 16 rows: byte i % 4 of lane c of vector i / 4 is byte i of row c.
    ///
    /// # Safety
    /// There are 16 rows, of at least `first + 64` bytes; as for [`sums`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    #[inline]
    unsafe fn transposed(rows: &[&[u8]], first: usize, step: usize, order: __m512i) -> [__m512i; 4] {
        // Row 4 i + g in 128 bits number i of vector g.
        let mut quarters = [_mm512_setzero_si512(); 4];
        for (g, quarter) in quarters.iter_mut().enumerate() {
            let mut parts = [_mm_setzero_si128(); 4];
            for (i, part) in parts.iter_mut().enumerate() {
                // SAFETY: 4 i + g < 16, and the row has 64 bytes from `first` on.
                *part = unsafe {
                    let from = rows.get_unchecked(4 * i + g).as_ptr().add(first);
                    if step == 1 {
                        _mm_loadu_si128(from.cast())
                    } else {
                        _mm512_castsi512_si128(_mm512_permutexvar_epi8(order, _mm512_loadu_si512(from.cast())))
                    }
                };
            }
            let low = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(parts[0]), parts[1]);
            let high = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(parts[2]), parts[3]);
            *quarter = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        }
        let [a, b, c, d] = quarters;
        let (ab, cd) = (_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm512_unpackhi_epi32(a, b), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab, cd),
            _mm512_unpackhi_epi64(ab, cd),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}

/// The same with AVX2.
#[cfg(target_arch = "x86_64")]
mod lanes_avx2 {
    use std::arch::x86_64::*;

    use super::{AT_ONCE, Places, Recompute, Windows};

    /// Results in a vector, and coefficients at once.
    const LANES: usize = 8;
    const VECTORS: usize = AT_ONCE / LANES;

    /// [`Recompute::group`].
    ///
    /// # Safety
    /// - The CPU has AVX2 and FMA.
    /// - As for [`Recompute::window_rows`].
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn sums(
        recompute: &Recompute<'_>,
        windows: &mut Windows,
        places: &Places,
        count: usize,
        inside: bool,
    ) -> [f32; AT_ONCE] {
        let (window, step) = (recompute.problem.window(), recompute.problem.format().channels);
        // Byte `i * step` of 32 as byte i, from the first and from the second 16 bytes. The first bit makes a 0.
        let mut order = [[0x80_u8; 16]; 2];
        for i in 0..LANES {
            order[i * step / 16][i] = (i * step % 16) as u8;
        }
        // SAFETY: each is 16 bytes.
        let order = unsafe { [_mm_loadu_si128(order[0].as_ptr().cast()), _mm_loadu_si128(order[1].as_ptr().cast())] };
        let vectors = count.div_ceil(LANES);
        let mut sums = [_mm256_setzero_ps(); VECTORS];
        for (k, coefficients) in recompute.coefficients.chunks_exact(window.width().next_multiple_of(4)).enumerate() {
            // SAFETY: this function requires of places and windows what `window_rows` does.
            let rows = unsafe { recompute.window_rows(windows, places, count, inside, k) };
            for (group, coefficients) in coefficients.chunks(LANES).enumerate() {
                for (sum, rows) in sums.iter_mut().zip(rows.chunks_exact(LANES)).take(vectors) {
                    // SAFETY: each row has 64 bytes from its last coefficient's pixel on.
                    let bytes = unsafe { transposed(rows, group * LANES * step, step, order) };
                    for (pair, coefficients) in bytes.into_iter().zip(coefficients.chunks_exact(2)) {
                        let pixels = [pair, _mm_srli_si128::<8>(pair)];
                        for (pixels, &coefficient) in pixels.into_iter().zip(coefficients) {
                            let pixels = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(pixels));
                            *sum = _mm256_fmadd_ps(_mm256_set1_ps(coefficient), pixels, *sum);
                        }
                    }
                }
            }
        }
        let mut lanes = [0.0_f32; AT_ONCE];
        for (lanes, &sum) in lanes.chunks_exact_mut(LANES).zip(&sums) {
            // SAFETY: `lanes` is eight values.
            unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        }
        lanes
    }

    /// The bytes `first`, `first + step` and so on of eight rows: byte c of vector i is byte 2 i of row c, byte 8 + c
    /// is byte 2 i + 1.
    ///
    /// # Safety
    /// There are eight rows, of at least `first + 32` bytes; as for [`sums`].
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn transposed(rows: &[&[u8]], first: usize, step: usize, order: [__m128i; 2]) -> [__m128i; 4] {
        let mut parts = [_mm_setzero_si128(); LANES];
        for (part, row) in parts.iter_mut().zip(rows) {
            // SAFETY: the row has 32 bytes from `first` on.
            *part = unsafe {
                let from = row.as_ptr().add(first);
                if step == 1 {
                    _mm_loadl_epi64(from.cast())
                } else {
                    let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(16).cast()));
                    _mm_or_si128(_mm_shuffle_epi8(low, order[0]), _mm_shuffle_epi8(high, order[1]))
                }
            };
        }
        let [a, b, c, d, e, f, g, h] = parts;
        let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
        let (ef, gh) = (_mm_unpacklo_epi8(e, f), _mm_unpacklo_epi8(g, h));
        let (low, low_high) = (_mm_unpacklo_epi16(ab, cd), _mm_unpackhi_epi16(ab, cd));
        let (high, high_high) = (_mm_unpacklo_epi16(ef, gh), _mm_unpackhi_epi16(ef, gh));
        [
            _mm_unpacklo_epi32(low, high),
            _mm_unpackhi_epi32(low, high),
            _mm_unpacklo_epi32(low_high, high_high),
            _mm_unpackhi_epi32(low_high, high_high),
        ]
    }
}
