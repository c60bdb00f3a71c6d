//! The results of a block as bytes, and the conversion of sums to results.
//!
//! Their type is a [`PixelType`] at run time. Only the register tiles that most of a panel consists of have it as a
//! type parameter. All other code is compiled once.

use std::ops::Range;

use super::simd::{Simd, Work};
use super::tile::{ROWS, To};
use super::uncertain::Uncertain;
use crate::{Pixel, PixelType};

/// The results of a block: for each of its rows, the bytes of the block's columns.
pub(super) struct Results<'a> {
    rows: Vec<&'a mut [u8]>,
    pixel: PixelType,
}

impl<'a> Results<'a> {
    /// # Panics
    /// If the rows differ in length, or their length is no multiple of a value's.
    pub(super) fn new(rows: Vec<&'a mut [u8]>, pixel: PixelType) -> Self {
        let length = rows.first().map_or(0, |row| row.len());
        assert!(length.is_multiple_of(pixel.bytes()) && rows.iter().all(|row| row.len() == length));
        Self { rows, pixel }
    }

    /// Rows.
    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    /// Values of a row.
    pub(super) fn width(&self) -> usize {
        self.rows.first().map_or(0, |row| row.len() / self.pixel.bytes())
    }

    /// The type of the values.
    pub(super) fn pixel(&self) -> PixelType {
        self.pixel
    }

    /// The bytes of some columns of a row.
    pub(super) fn part(&mut self, row: usize, columns: Range<usize>) -> &mut [u8] {
        let bytes = self.pixel.bytes();
        &mut self.rows[row][columns.start * bytes..columns.end * bytes]
    }

    /// The bytes of some columns of a row and of the next one, if there is one.
    pub(super) fn two_parts(&mut self, row: usize, columns: Range<usize>) -> (&mut [u8], Option<&mut [u8]>) {
        let bytes = self.pixel.bytes();
        let columns = columns.start * bytes..columns.end * bytes;
        let (first, rest) = self.rows[row..].split_at_mut(1);
        (&mut first[0][columns.clone()], rest.first_mut().map(|next| &mut next[columns]))
    }

    /// Writes one result: an integer is rounded and saturated.
    pub(super) fn set(&mut self, row: usize, column: usize, value: f32) {
        let pixel = self.pixel;
        let to = self.part(row, column..column + 1);
        match pixel {
            PixelType::F32 => to.copy_from_slice(&value.to_ne_bytes()),
            PixelType::U8 => to[0] = u8::from_f32(value),
            PixelType::U16 => to.copy_from_slice(&u16::from_f32(value).to_ne_bytes()),
        }
    }

    /// Writes results at scattered places, each a row and a column. `bytes` has their values in this order.
    pub(super) fn scatter(&mut self, places: impl Iterator<Item = (usize, usize)>, bytes: &[u8]) {
        if self.pixel == PixelType::U8 {
            // Most uncertain results are bytes. A copy of variable length would take longer.
            for ((row, column), &byte) in places.zip(bytes) {
                self.rows[row][column] = byte;
            }
            return;
        }
        for ((row, column), value) in places.zip(bytes.chunks_exact(self.pixel.bytes())) {
            self.part(row, column..column + 1).copy_from_slice(value);
        }
    }

    /// Whether the value of this column is aligned to `bytes` in each of some rows.
    pub(super) fn is_aligned(&self, rows: Range<usize>, column: usize, bytes: usize) -> bool {
        let before = column * self.pixel.bytes();
        self.rows[rows].iter().all(|row| row[before..].as_ptr().addr().is_multiple_of(bytes))
    }

    /// The address of the first row modulo `bytes`.
    pub(super) fn bytes_past(&self, bytes: usize) -> usize {
        self.rows.first().map_or(0, |row| row.as_ptr().addr() % bytes)
    }

    /// Pointers to up to [`ROWS`] rows from `row` on. They point to column `first`, which is column 0 of the tiles.
    pub(super) fn to(&mut self, row: usize, first: usize) -> To {
        let (bytes, mut rows) = (self.pixel.bytes(), [std::ptr::null_mut(); ROWS]);
        for (to, row) in rows.iter_mut().zip(&mut self.rows[row..]) {
            *to = row[first * bytes..].as_mut_ptr();
        }
        To { rows, offset: 0 }
    }
}

/// Writes `N` vectors as results of type `pixel`: integers are rounded and saturated, and the uncertain ones are noted.
/// `row` counts in the band. `column` is a multiple of a vector.
///
/// # Safety
/// - `to` is valid for writes of `N * LANES` values of type `pixel`, aligned or not.
/// - `uncertain` is what [`Uncertain::notes`] gave, and [has room](Uncertain::has_room) for these vectors of `LANES`
///   lanes. `row` is below [`ROWS`].
#[inline(always)]
pub(super) unsafe fn put<S: Simd, const N: usize>(
    simd: S,
    values: &[S::Vector; N],
    pixel: PixelType,
    to: *mut u8,
    (row, column): (usize, usize),
    uncertain: Option<&mut Uncertain>,
) {
    // SAFETY: `to` has room for N vectors, which need not be aligned.
    unsafe {
        match pixel {
            PixelType::F32 => {
                for (i, &vector) in values.iter().enumerate() {
                    simd.store(to.cast::<f32>().add(i * S::LANES), vector);
                }
                return;
            }
            PixelType::U8 => simd.store_u8(to, values),
            PixelType::U16 => simd.store_u16(to.cast(), values),
        }
    }
    if let Some(uncertain) = uncertain {
        // SAFETY: `uncertain` has room for them, as this function requires.
        unsafe { uncertain.note(simd, row, column / S::LANES, values) };
    }
}

/// A type of sums.
pub(super) trait Sum: Copy {
    /// [`Simd::LANES`] values as `f32`.
    ///
    /// # Safety
    /// `from` is valid for reads of as many values.
    unsafe fn load<S: Simd>(simd: S, from: *const Self) -> S::Vector;
}

impl Sum for u16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const u16) -> S::Vector {
        // SAFETY: the memory is there, as this function requires.
        unsafe { simd.load_u16(from) }
    }
}

impl Sum for f32 {
    #[inline(always)]
    unsafe fn load<S: Simd>(simd: S, from: *const f32) -> S::Vector {
        // SAFETY: the memory is there, as this function requires.
        unsafe { simd.load(from) }
    }
}

/// Makes results of a row of sums: `sum * unit`, then scale and offset, then the conversion to their type.
pub(super) struct FinishRow<'a, T> {
    /// A sum for each result, and padding up to a multiple of a tile's columns.
    pub(super) sums: &'a [T],
    /// The factor of the sums.
    pub(super) unit: f32,
    /// Scale and offset, if they are not 1 and 0.
    pub(super) last_step: Option<(f32, f32)>,
    pub(super) uncertain: &'a mut Uncertain,
    pub(super) pixel: PixelType,
    /// The bytes of the results.
    pub(super) to: &'a mut [u8],
}

impl<T: Sum> Work for FinishRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Self { sums, unit, last_step, uncertain, pixel, to } = self;
        let bytes_at_once = V * S::LANES * pixel.bytes();
        let padded = (to.len() / pixel.bytes()).next_multiple_of(V * S::LANES);
        let mut buffer = [0_u8; 64 * size_of::<f32>()];
        assert!(to.len().is_multiple_of(pixel.bytes()) && bytes_at_once <= buffer.len());
        assert!(sums.len() >= padded && uncertain.has_room(S::LANES, padded));
        let mut uncertain = uncertain.notes();
        for (x, to) in (0..).step_by(V * S::LANES).zip(to.chunks_mut(bytes_at_once)) {
            let mut values = [simd.splat(0.0); V];
            for (v, value) in values.iter_mut().enumerate() {
                // SAFETY: x + V * LANES is at most `padded`.
                *value = unsafe { T::load(simd, sums.as_ptr().add(x + v * S::LANES)) };
                if unit != 1.0 {
                    *value = simd.fma(*value, simd.splat(unit), simd.splat(0.0));
                }
                if let Some((scale, offset)) = last_step {
                    *value = simd.fma(*value, simd.splat(scale), simd.splat(offset));
                }
            }
            let is_whole = to.len() == bytes_at_once;
            let at = if is_whole { to.as_mut_ptr() } else { buffer.as_mut_ptr() };
            // SAFETY: `at` has room for the vectors, and so has `uncertain`.
            unsafe { put(simd, &values, pixel, at, (0, x), uncertain.as_deref_mut()) };
            if !is_whole {
                to.copy_from_slice(&buffer[..to.len()]);
            }
        }
    }
}
