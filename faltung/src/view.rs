//! Borrowed images: rows with padding between them, or regions of larger images.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use crate::{Error, Image, Pixel, Result};

/// A borrowed image: `height` rows of `width` pixels of `channels` interleaved values, `pitch` values from one row to
/// the next.
///
/// ```
/// use faltung::View;
///
/// // The middle of a 4 x 3 image, without copying it.
/// let values = [0_u8, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23];
/// let middle = View::new(2, 1, 1, 4, &values[5..])?;
/// assert_eq!(middle.row(0), [11, 12]);
/// # Ok::<(), faltung::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct View<'a, T> {
    shape: Shape,
    /// The first value of the first row. Not a slice: others may borrow the values between the rows.
    first: NonNull<T>,
    values: PhantomData<&'a [T]>,
}

/// A mutably borrowed image; otherwise as [`View`]. The values between the rows stay unchanged.
#[derive(Debug)]
pub struct ViewMut<'a, T> {
    shape: Shape,
    /// As in [`View`].
    first: NonNull<T>,
    values: PhantomData<&'a mut [T]>,
}

// SAFETY: a view is used as the shared slices of its rows are.
unsafe impl<T: Sync> Send for View<'_, T> {}
// SAFETY: shared slices of `T: Sync` are `Sync`.
unsafe impl<T: Sync> Sync for View<'_, T> {}
// SAFETY: a view to be written is used as the exclusive slices of its rows are.
unsafe impl<T: Send> Send for ViewMut<'_, T> {}
// SAFETY: a shared reference to a view to be written gives at most shared slices of `T: Sync`.
unsafe impl<T: Sync> Sync for ViewMut<'_, T> {}

/// The sizes of a view. Its memory has at least as many values as they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    width: usize,
    height: usize,
    channels: usize,
    pitch: usize,
}

impl Shape {
    fn new<T: Pixel>(width: usize, height: usize, channels: usize, pitch: usize, found: usize) -> Result<Self> {
        let required = Self::span::<T>(width, height, channels, pitch)?;
        if found < required {
            return Err(Error::Length { what: "view", width, height, channels, required, found });
        }
        Ok(Self { width, height, channels, pitch })
    }

    /// The values from the first row's first to the last row's last.
    fn span<T: Pixel>(width: usize, height: usize, channels: usize, pitch: usize) -> Result<usize> {
        Image::<T>::checked_len(width, height, channels)?;
        let row = width * channels;
        if pitch < row {
            return Err(Error::Pitch { pitch, row });
        }
        // The last row needs no padding after it.
        let required = (height - 1).checked_mul(pitch).and_then(|values| values.checked_add(row));
        let most = isize::MAX as usize / size_of::<T>();
        required.filter(|&values| values <= most).ok_or_else(|| Error::TooLarge {
            what: "the number of values from the first row to the last one".into(),
            most,
            found: format!("{height} rows of {pitch}"),
        })
    }

    /// Values of a row.
    fn row(self) -> usize {
        self.width * self.channels
    }

    /// All values, if the rows are contiguous.
    fn dense_len(self) -> Option<usize> {
        (self.pitch == self.row() || self.height == 1).then(|| self.row() * self.height)
    }

    /// The offset of row `y`.
    ///
    /// # Panics
    /// If there is no row `y`.
    fn start(self, y: usize) -> usize {
        assert!(y < self.height, "row {y} of {}", self.height);
        y * self.pitch
    }
}

/// The methods that both kinds of views have.
macro_rules! common {
    () => {
        /// A view of the rows from `first` on.
        ///
        /// # Errors
        /// As for [`View::new`].
        ///
        /// # Safety
        /// - For `'a`, `first.add(y * pitch)` points to `width * channels` initialised values for each `y < height`.
        /// - For `'a`, nothing writes them. If the view is to be written, nothing else reads them, either.
        #[cfg(feature = "ndarray")]
        pub(crate) unsafe fn from_rows(
            width: usize,
            height: usize,
            channels: usize,
            pitch: usize,
            first: NonNull<T>,
        ) -> Result<Self> {
            let shape = Shape::new::<T>(width, height, channels, pitch, usize::MAX)?;
            Ok(Self { shape, first, values: PhantomData })
        }

        /// Columns.
        #[must_use]
        pub fn width(&self) -> usize {
            self.shape.width
        }

        /// Rows.
        #[must_use]
        pub fn height(&self) -> usize {
            self.shape.height
        }

        /// Values of a pixel.
        #[must_use]
        pub fn channels(&self) -> usize {
            self.shape.channels
        }

        /// Values from one row to the next.
        #[must_use]
        pub fn pitch(&self) -> usize {
            self.shape.pitch
        }

        /// The first value of the first row.
        pub(crate) fn first(&self) -> NonNull<T> {
            self.first
        }
    };
}

impl<'a, T: Pixel> View<'a, T> {
    /// A view of `values`, which begin with the first row.
    ///
    /// # Errors
    /// Those of [`Image::new`], and [`Error::Pitch`] if `pitch` is less than a row. More values than needed are fine.
    pub fn new(width: usize, height: usize, channels: usize, pitch: usize, values: &'a [T]) -> Result<Self> {
        let shape = Shape::new::<T>(width, height, channels, pitch, values.len())?;
        Ok(Self { shape, first: NonNull::from(values).cast(), values: PhantomData })
    }

    pub(crate) fn dense(image: &'a Image<T>) -> Self {
        let (width, height, channels) = (image.width(), image.height(), image.channels());
        let shape = Shape { width, height, channels, pitch: width * channels };
        Self { shape, first: NonNull::from(image.values()).cast(), values: PhantomData }
    }

    common!();

    /// The values of row `y`.
    ///
    /// # Panics
    /// If there is no row `y`.
    #[must_use]
    pub fn row(&self, y: usize) -> &'a [T] {
        // SAFETY: `y` is a row, and each row is initialised and shared for `'a`, as the constructors require.
        unsafe { slice::from_raw_parts(self.first.add(self.shape.start(y)).as_ptr(), self.shape.row()) }
    }

    /// All values, if the rows are contiguous.
    #[must_use]
    pub fn as_dense(&self) -> Option<&'a [T]> {
        // SAFETY: the rows are contiguous, and each is initialised and shared for `'a`.
        self.shape.dense_len().map(|length| unsafe { slice::from_raw_parts(self.first.as_ptr(), length) })
    }

    /// The values from the first row's first to the last row's last, of a view of this size.
    pub(crate) fn span(width: usize, height: usize, channels: usize, pitch: usize) -> Result<usize> {
        Shape::span::<T>(width, height, channels, pitch)
    }
}

impl<'a, T: Pixel> ViewMut<'a, T> {
    /// A view of `values`, which begin with the first row.
    ///
    /// # Errors
    /// As for [`View::new`].
    pub fn new(width: usize, height: usize, channels: usize, pitch: usize, values: &'a mut [T]) -> Result<Self> {
        let shape = Shape::new::<T>(width, height, channels, pitch, values.len())?;
        Ok(Self { shape, first: NonNull::from(values).cast(), values: PhantomData })
    }

    pub(crate) fn dense(image: &'a mut Image<T>) -> Self {
        let (width, height, channels) = (image.width(), image.height(), image.channels());
        let shape = Shape { width, height, channels, pitch: width * channels };
        Self { shape, first: NonNull::from(image.values_mut()).cast(), values: PhantomData }
    }

    common!();

    /// The values of row `y`.
    ///
    /// ```
    /// use faltung::ViewMut;
    ///
    /// let mut values = [1, 2, 0, 3, 4_u8];
    /// let mut view = ViewMut::new(2, 2, 1, 3, &mut values)?;
    /// view.row_mut(1)[0] = 9;
    /// assert_eq!((view.row(0), view.row(1)), (&[1, 2][..], &[9, 4][..]));
    /// # Ok::<(), faltung::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no row `y`.
    #[must_use]
    pub fn row(&self, y: usize) -> &[T] {
        // SAFETY: `y` is a row, and each row is initialised and exclusive for `'a`. Nothing writes it while this
        // borrows the view.
        unsafe { slice::from_raw_parts(self.first.add(self.shape.start(y)).as_ptr(), self.shape.row()) }
    }

    /// The values of row `y`, to be written.
    ///
    /// # Panics
    /// If there is no row `y`.
    #[must_use]
    pub fn row_mut(&mut self, y: usize) -> &mut [T] {
        // SAFETY: `y` is a row, and each row is initialised and exclusive for `'a`, of which this borrows a part.
        unsafe { slice::from_raw_parts_mut(self.first.add(self.shape.start(y)).as_ptr(), self.shape.row()) }
    }

    /// The same rows for a shorter time.
    #[must_use]
    pub fn reborrow(&mut self) -> ViewMut<'_, T> {
        ViewMut { values: PhantomData, ..*self }
    }

    /// All values, if the rows are contiguous.
    #[must_use]
    pub fn as_dense_mut(&mut self) -> Option<&mut [T]> {
        // SAFETY: the rows are contiguous, and each is initialised and exclusive for `'a`.
        self.shape.dense_len().map(|length| unsafe { slice::from_raw_parts_mut(self.first.as_ptr(), length) })
    }

    /// Sets all rows from those of an image of the same size.
    pub(crate) fn set_rows(&mut self, from: &View<'_, T>) {
        for y in 0..self.height() {
            self.row_mut(y).copy_from_slice(from.row(y));
        }
    }

    /// Sets all rows from values without gaps.
    pub(crate) fn set(&mut self, dense: &[T]) {
        for (y, from) in dense.chunks_exact(self.shape.row()).enumerate() {
            self.row_mut(y).copy_from_slice(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_skipped_and_left_alone() {
        let values: Vec<u16> = (0..23).collect();
        let view = View::new(2, 3, 3, 8, &values[1..]).unwrap();
        let rows: [&[u16]; 3] = [&[1, 2, 3, 4, 5, 6], &[9, 10, 11, 12, 13, 14], &[17, 18, 19, 20, 21, 22]];
        assert_eq!([0, 1, 2].map(|y| view.row(y)), rows);
        assert_eq!((view.row(2)[0], view.as_dense()), (17, None));
        let mut written = [0_u8; 10];
        let mut view = ViewMut::new(2, 3, 1, 4, &mut written).unwrap();
        view.set(&[1, 2, 3, 4, 5, 6]);
        assert_eq!(written, [1, 2, 0, 0, 3, 4, 0, 0, 5, 6]);
    }

    #[test]
    fn sizes_are_checked() {
        let new = |width, height, channels, pitch| View::new(width, height, channels, pitch, &[0_u8; 10]).map(|_| ());
        assert!(new(2, 3, 1, 4).is_ok() && new(10, 1, 1, 10).is_ok());
        assert!(matches!(new(2, 3, 1, 1), Err(Error::Pitch { pitch: 1, row: 2 })));
        assert!(matches!(new(3, 3, 1, 4), Err(Error::Length { required: 11, found: 10, .. })));
        assert!(matches!(new(1, 1 << 20, 1, usize::MAX / 2), Err(Error::TooLarge { .. })));
        assert!(matches!(new(0, 1, 1, 1), Err(Error::EmptyImage { .. })));
    }
}
