//! Rows of bytes in host memory, with gaps between them or without: images of any type on their way to a device.

use std::ops::Range;

use crate::image::{bytes_of, bytes_of_mut};
use crate::{Pixel, View, ViewMut};

/// `rows` rows of `row` bytes, `pitch` bytes from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRows<'a> {
    bytes: &'a [u8],
    rows: usize,
    row: usize,
    pitch: usize,
}

impl<'a> HostRows<'a> {
    /// The rows of an image.
    pub(crate) fn of<T: Pixel>(view: &View<'a, T>) -> Self {
        let (row, pitch) = (view.width() * view.channels() * size_of::<T>(), view.pitch() * size_of::<T>());
        Self { bytes: bytes_of(view.values()), rows: view.height(), row, pitch }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row
    }

    /// Bytes from one row to the next.
    pub(crate) fn pitch(&self) -> usize {
        self.pitch
    }

    /// All bytes from the first row's first to the last row's last.
    pub(crate) fn span(&self) -> &'a [u8] {
        match self.rows.checked_sub(1) {
            Some(before) => &self.bytes[..before * self.pitch + self.row],
            None => &[],
        }
    }

    /// Some of the rows.
    pub(crate) fn range(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        let bytes = self.bytes.get(rows.start * self.pitch..).unwrap_or_default();
        Self { bytes, rows: rows.len(), ..*self }
    }

    /// The bytes of one row.
    pub(crate) fn at(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.pitch..][..self.row]
    }

    /// All bytes, if nothing lies between the rows.
    pub(crate) fn dense(&self) -> Option<&'a [u8]> {
        (self.rows <= 1 || self.pitch == self.row).then(|| self.span())
    }
}

/// As [`HostRows`], to be written. What lies between the rows is left alone.
#[derive(Debug)]
pub(crate) struct HostRowsMut<'a> {
    bytes: &'a mut [u8],
    rows: usize,
    row: usize,
    pitch: usize,
}

impl<'a> HostRowsMut<'a> {
    /// The rows of an image.
    pub(crate) fn of<T: Pixel>(view: ViewMut<'a, T>) -> Self {
        let (row, pitch) = (view.width() * view.channels() * size_of::<T>(), view.pitch() * size_of::<T>());
        Self { rows: view.height(), row, pitch, bytes: bytes_of_mut(view.into_values()) }
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row
    }

    /// Bytes from one row to the next.
    pub(crate) fn pitch(&self) -> usize {
        self.pitch
    }

    /// All bytes from the first row's first to the last row's last.
    pub(crate) fn span_mut(&mut self) -> &mut [u8] {
        match self.rows.checked_sub(1) {
            Some(before) => &mut self.bytes[..before * self.pitch + self.row],
            None => &mut [],
        }
    }

    /// The same rows for a shorter time.
    pub(crate) fn reborrow(&mut self) -> HostRowsMut<'_> {
        HostRowsMut { bytes: &mut *self.bytes, rows: self.rows, row: self.row, pitch: self.pitch }
    }

    /// The first `rows` rows, and the others.
    pub(crate) fn split_at(self, rows: usize) -> (Self, Self) {
        assert!(rows <= self.rows, "{rows} rows of {}", self.rows);
        let middle = (rows * self.pitch).min(self.bytes.len());
        let (first, second) = self.bytes.split_at_mut(middle);
        let of = |bytes, rows| Self { bytes, rows, row: self.row, pitch: self.pitch };
        (of(first, rows), of(second, self.rows - rows))
    }

    /// The bytes of one row.
    pub(crate) fn at_mut(&mut self, row: usize) -> &mut [u8] {
        &mut self.bytes[row * self.pitch..][..self.row]
    }

    /// All bytes, if nothing lies between the rows.
    pub(crate) fn dense_mut(&mut self) -> Option<&mut [u8]> {
        (self.rows <= 1 || self.pitch == self.row).then(|| self.span_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_pitch() {
        let values: Vec<u16> = (0..15).collect();
        let rows = HostRows::of(&View::new(1, 3, 2, 6, &values).unwrap());
        assert_eq!((rows.len(), rows.row_bytes(), rows.pitch(), rows.span().len()), (3, 4, 12, 28));
        let last = rows.range(2..3);
        assert_eq!((last.at(0), last.dense()), (bytes_of(&values[12..14]), Some(bytes_of(&values[12..14]))));
        assert!(rows.dense().is_none() && rows.range(3..3).span().is_empty());

        let mut values = [0_u8; 8];
        let rows = HostRowsMut::of(ViewMut::new(2, 3, 1, 3, &mut values).unwrap());
        let (mut first, mut rest) = rows.split_at(1);
        first.at_mut(0).fill(1);
        assert!(first.dense_mut().is_some() && rest.dense_mut().is_none());
        rest.at_mut(1).fill(2);
        assert_eq!(values, [1, 1, 0, 0, 0, 0, 2, 2]);
    }
}
