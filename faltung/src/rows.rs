//! Rows of bytes in host memory, with gaps between them or without: images of any type on their way to a device.

use std::marker::PhantomData;
use std::ops::Range;
use std::{ptr, slice};

use crate::{Pixel, View, ViewMut};

/// `rows` rows of `row` bytes, `pitch` bytes from one to the next. What lies between the rows can be lent to others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostRows<'a> {
    first: *const u8,
    rows: usize,
    row: usize,
    pitch: usize,
    lent: PhantomData<&'a [u8]>,
}

/// As [`HostRows`], to be written. What lies between the rows is left alone.
#[derive(Debug)]
pub(crate) struct HostRowsMut<'a> {
    first: *mut u8,
    rows: usize,
    row: usize,
    pitch: usize,
    lent: PhantomData<&'a mut [u8]>,
}

// SAFETY: rows are used as shared slices of them are.
unsafe impl Send for HostRows<'_> {}
// SAFETY: rows are used as shared slices of bytes are, which are `Sync`.
unsafe impl Sync for HostRows<'_> {}
// SAFETY: rows to be written are used as exclusive slices of them are.
unsafe impl Send for HostRowsMut<'_> {}

/// What both kinds of rows tell.
macro_rules! sizes {
    () => {
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

        /// Bytes from the first row's first to the last row's last.
        fn extent(&self) -> usize {
            self.rows.checked_sub(1).map_or(0, |before| before * self.pitch + self.row)
        }

        /// All bytes, if nothing lies between the rows.
        fn dense_len(&self) -> Option<usize> {
            (self.rows <= 1 || self.pitch == self.row).then(|| self.extent())
        }
    };
}

impl<'a> HostRows<'a> {
    /// The rows of an image.
    pub(crate) fn of<T: Pixel>(view: &View<'a, T>) -> Self {
        let (row, pitch) = (view.width() * view.channels() * size_of::<T>(), view.pitch() * size_of::<T>());
        Self { first: view.first().as_ptr().cast(), rows: view.height(), row, pitch, lent: PhantomData }
    }

    sizes!();

    /// The bytes from the first row's first to the last row's last. Those between the rows may be lent to others.
    pub(crate) fn span(&self) -> *const [u8] {
        ptr::slice_from_raw_parts(self.first, self.extent())
    }

    /// Some of the rows.
    pub(crate) fn range(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        Self { first: self.first.wrapping_add(rows.start * self.pitch), rows: rows.len(), ..*self }
    }

    /// The bytes of one row.
    pub(crate) fn at(&self, row: usize) -> &'a [u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: it is one of the rows, which are lent for `'a`.
        unsafe { slice::from_raw_parts(self.first.add(row * self.pitch), self.row) }
    }

    /// All bytes, if nothing lies between the rows.
    pub(crate) fn dense(&self) -> Option<&'a [u8]> {
        // SAFETY: the rows lie behind each other and are lent for `'a`.
        self.dense_len().map(|length| unsafe { slice::from_raw_parts(self.first, length) })
    }
}

impl<'a> HostRowsMut<'a> {
    /// The rows of an image.
    pub(crate) fn of<T: Pixel>(view: ViewMut<'a, T>) -> Self {
        let (row, pitch) = (view.width() * view.channels() * size_of::<T>(), view.pitch() * size_of::<T>());
        Self { rows: view.height(), row, pitch, first: view.first().as_ptr().cast(), lent: PhantomData }
    }

    sizes!();

    /// The bytes from the first row's first to the last row's last. Those between the rows may be lent to others.
    pub(crate) fn span(&self) -> *mut [u8] {
        ptr::slice_from_raw_parts_mut(self.first, self.extent())
    }

    /// The same rows for a shorter time.
    pub(crate) fn reborrow(&mut self) -> HostRowsMut<'_> {
        HostRowsMut { lent: PhantomData, ..*self }
    }

    /// The first `rows` rows, and the others.
    pub(crate) fn split_at(self, rows: usize) -> (Self, Self) {
        assert!(rows <= self.rows, "{rows} rows of {}", self.rows);
        let rest = Self { first: self.first.wrapping_add(rows * self.pitch), rows: self.rows - rows, ..self };
        (Self { rows, ..self }, rest)
    }

    /// Parts of these numbers of rows, one after the other.
    pub(crate) fn parts(self, lengths: impl IntoIterator<Item = usize>) -> impl Iterator<Item = Self> {
        let mut rest = Some(self);
        lengths.into_iter().map_while(move |length| {
            let (part, later) = rest.take()?.split_at(length);
            rest = Some(later);
            Some(part)
        })
    }

    /// The bytes of one row.
    pub(crate) fn at_mut(&mut self, row: usize) -> &mut [u8] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        // SAFETY: it is one of the rows, which are lent for `'a`, of which this borrows a part.
        unsafe { slice::from_raw_parts_mut(self.first.add(row * self.pitch), self.row) }
    }

    /// All bytes, if nothing lies between the rows.
    pub(crate) fn dense_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: the rows lie behind each other and are lent for `'a`, of which this borrows a part.
        self.dense_len().map(|length| unsafe { slice::from_raw_parts_mut(self.first, length) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::bytes_of;

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
        let [mut first, mut rest] = rows.parts([1, 2]).collect::<Vec<_>>().try_into().ok().unwrap();
        first.at_mut(0).fill(1);
        assert!(first.dense_mut().is_some() && rest.dense_mut().is_none());
        rest.at_mut(1).fill(2);
        assert_eq!(values, [1, 1, 0, 0, 0, 0, 2, 2]);
    }
}
