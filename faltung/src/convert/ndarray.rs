//! Arrays of the crate `ndarray`: of two axes (rows, columns), or three (rows, columns, channels).

use std::ptr::NonNull;

use ::ndarray::{
    Array, Array2, Array3, ArrayView2, ArrayView3, ArrayViewMut2, ArrayViewMut3, Axis, Dimension, ShapeBuilder,
};

use crate::{Error, Image, Pixel, Result, View, ViewMut, memory};

/// The pitch of an image with the shape and the strides of an array.
///
/// `shape` is rows, columns and, for three axes, channels.
///
/// # Errors
/// [`Error::Strides`] if a row has gaps or another order, or if rows overlap or run backwards.
fn pitch(shape: &[usize], strides: &[isize]) -> Result<usize> {
    let mut required = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        required[axis - 1] = required[axis] * shape[axis];
    }
    // The stride of an axis of length 1 is never walked, and can be any number.
    let fits = |axis: usize| shape[axis] == 1 || usize::try_from(strides[axis]) == Ok(required[axis]);
    let row = required[0];
    let found = if shape[0] == 1 { Some(row) } else { usize::try_from(strides[0]).ok() };
    match found.filter(|&pitch| pitch >= row && (1..shape.len()).all(fits)) {
        Some(pitch) => Ok(pitch),
        None => Err(Error::Strides { required, found: strides.into() }),
    }
}

/// The channels of pixels that are numbers.
const ONE_CHANNEL: usize = 1;

/// Lends the array as an image of one channel, without a copy. The stride of axis 0 becomes the pitch.
///
/// ```
/// use faltung::View;
/// use ndarray::{Array2, s};
///
/// let array = Array2::from_shape_fn((3, 4), |(y, x)| (10 * y + x) as f32);
/// let view = View::try_from(array.slice(s![1.., ..2]))?;
/// assert_eq!((view.width(), view.height(), view.pitch()), (2, 2, 4));
/// assert_eq!(view.row(1), [20.0, 21.0]);
///
/// let error = View::try_from(array.t()).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "an array with the strides [3, 1], the first of them or more, is required, this one has [1, 4]"
/// );
/// // What can't be lent can be copied.
/// let copy = array.t().as_standard_layout().into_owned();
/// assert!(View::try_from(copy.view()).is_ok());
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::Strides`] unless the values of a row lie behind each other, and row after row; those of [`Image::new`].
impl<'a, T: Pixel> TryFrom<ArrayView2<'a, T>> for View<'a, T> {
    type Error = Error;

    fn try_from(array: ArrayView2<'a, T>) -> Result<Self> {
        let (height, width) = array.dim();
        Image::<T>::checked_len(width, height, ONE_CHANNEL)?;
        let pitch = pitch(array.shape(), array.strides())?;
        let first = NonNull::new(array.as_ptr().cast_mut()).expect("an array is not at address 0");
        // SAFETY: the array lends its elements for `'a`, and `pitch` has found each row's to lie behind each other.
        unsafe { View::from_rows(width, height, ONE_CHANNEL, pitch, first) }
    }
}

/// Lends the array as an image of interleaved channels, without a copy. The stride of axis 0 becomes the pitch.
///
/// ```
/// use faltung::{Device, Filter, PixelFormat, Problem, VariantChoice, View, ViewMut};
/// use ndarray::Array3;
///
/// let source = Array3::from_elem((48, 64, 3), 10_u8);
/// let mut result = Array3::<f32>::zeros((48, 64, 3));
/// let problem = Problem::new(64, 48, &Filter::average(2, 1))?.with_format(PixelFormat::of::<u8, f32>(3))?;
/// let device = Device::cpu();
/// let prepared = device.prepare(&problem, VariantChoice::Auto)?;
/// prepared.apply_view(View::try_from(source.view())?, ViewMut::try_from(result.view_mut())?)?;
/// assert_eq!((result[[20, 0, 2]], result[[20, 1, 2]]), (5.0, 10.0));
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::Strides`] unless the values of a row lie behind each other, and row after row; those of [`Image::new`].
impl<'a, T: Pixel> TryFrom<ArrayView3<'a, T>> for View<'a, T> {
    type Error = Error;

    fn try_from(array: ArrayView3<'a, T>) -> Result<Self> {
        let (height, width, channels) = array.dim();
        Image::<T>::checked_len(width, height, channels)?;
        let pitch = pitch(array.shape(), array.strides())?;
        let first = NonNull::new(array.as_ptr().cast_mut()).expect("an array is not at address 0");
        // SAFETY: the array lends its elements for `'a`, and `pitch` has found each row's to lie behind each other.
        unsafe { View::from_rows(width, height, channels, pitch, first) }
    }
}

/// Lends the array to be written, as an image of one channel, without a copy. The stride of axis 0 becomes the pitch.
///
/// ```
/// use faltung::ViewMut;
/// use ndarray::{Array2, s};
///
/// let mut array = Array2::<u8>::zeros((2, 4));
/// ViewMut::try_from(array.slice_mut(s![.., 1..3]))?.row_mut(1).fill(7);
/// assert_eq!(array, ndarray::array![[0, 0, 0, 0], [0, 7, 7, 0]]);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::Strides`] unless the values of a row lie behind each other, and row after row; those of [`Image::new`].
impl<'a, T: Pixel> TryFrom<ArrayViewMut2<'a, T>> for ViewMut<'a, T> {
    type Error = Error;

    fn try_from(mut array: ArrayViewMut2<'a, T>) -> Result<Self> {
        let (height, width) = array.dim();
        Image::<T>::checked_len(width, height, ONE_CHANNEL)?;
        let pitch = pitch(array.shape(), array.strides())?;
        let first = NonNull::new(array.as_mut_ptr()).expect("an array is not at address 0");
        // SAFETY: the array lends its elements to be written for `'a` and is used up here, and `pitch` has found each
        // row's to lie behind each other.
        unsafe { ViewMut::from_rows(width, height, ONE_CHANNEL, pitch, first) }
    }
}

/// Lends the array to be written, as an image of interleaved channels, without a copy. The stride of axis 0 becomes the
/// pitch.
///
/// # Errors
/// [`Error::Strides`] unless the values of a row lie behind each other, and row after row; those of [`Image::new`].
impl<'a, T: Pixel> TryFrom<ArrayViewMut3<'a, T>> for ViewMut<'a, T> {
    type Error = Error;

    fn try_from(mut array: ArrayViewMut3<'a, T>) -> Result<Self> {
        let (height, width, channels) = array.dim();
        Image::<T>::checked_len(width, height, channels)?;
        let pitch = pitch(array.shape(), array.strides())?;
        let first = NonNull::new(array.as_mut_ptr()).expect("an array is not at address 0");
        // SAFETY: the array lends its elements to be written for `'a` and is used up here, and `pitch` has found each
        // row's to lie behind each other.
        unsafe { ViewMut::from_rows(width, height, channels, pitch, first) }
    }
}

/// Strides of an array whose rows are `pitch` apart. That of one row is never walked, and `pitch` may be any number.
fn strides(width: usize, height: usize, channels: usize, pitch: usize) -> (usize, usize, usize) {
    (if height == 1 { width * channels } else { pitch }, channels, 1)
}

/// Lends the image as rows, columns and channels, without a copy.
///
/// ```
/// use faltung::Image;
/// use ndarray::ArrayView3;
///
/// let image = Image::new(2, 2, 3, (0_u8..12).collect())?;
/// let array = ArrayView3::from(image.view());
/// assert_eq!((array.shape(), array[[1, 0, 2]]), ([2, 2, 3].as_slice(), 8));
/// # Ok::<(), faltung::Error>(())
/// ```
impl<'a, T: Pixel> From<View<'a, T>> for ArrayView3<'a, T> {
    fn from(view: View<'a, T>) -> Self {
        let (width, height, channels) = (view.width(), view.height(), view.channels());
        let shape = (height, width, channels).strides(strides(width, height, channels, view.pitch()));
        // SAFETY: the view lends each row for `'a`; rows don't overlap, and the offset of the last value fits isize.
        unsafe { Self::from_shape_ptr(shape, view.first().as_ptr()) }
    }
}

/// Lends the image as rows, columns and channels to be written, without a copy.
impl<'a, T: Pixel> From<ViewMut<'a, T>> for ArrayViewMut3<'a, T> {
    fn from(view: ViewMut<'a, T>) -> Self {
        let (width, height, channels) = (view.width(), view.height(), view.channels());
        let shape = (height, width, channels).strides(strides(width, height, channels, view.pitch()));
        // SAFETY: the view lends each row to be written for `'a` and is used up here; rows don't overlap, and the
        // offset of the last value fits isize.
        unsafe { Self::from_shape_ptr(shape, view.first().as_ptr()) }
    }
}

/// Refuses what has no place in an array of two axes.
fn check_one_channel(found: usize) -> Result<()> {
    if found == ONE_CHANNEL { Ok(()) } else { Err(Error::ChannelCount { required: ONE_CHANNEL.to_string(), found }) }
}

/// Lends the image as rows and columns, without a copy.
///
/// ```
/// use faltung::Image;
/// use ndarray::ArrayView2;
///
/// let image = Image::from_fn(4, 3, |x, y| (10 * y + x) as f32)?;
/// assert_eq!(ArrayView2::try_from(image.view())?[[2, 1]], 21.0);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::ChannelCount`] if there is more than 1 channel.
impl<'a, T: Pixel> TryFrom<View<'a, T>> for ArrayView2<'a, T> {
    type Error = Error;

    fn try_from(view: View<'a, T>) -> Result<Self> {
        check_one_channel(view.channels())?;
        Ok(ArrayView3::from(view).index_axis_move(Axis(2), 0))
    }
}

/// Lends the image as rows and columns to be written, without a copy.
///
/// # Errors
/// [`Error::ChannelCount`] if there is more than 1 channel.
impl<'a, T: Pixel> TryFrom<ViewMut<'a, T>> for ArrayViewMut2<'a, T> {
    type Error = Error;

    fn try_from(view: ViewMut<'a, T>) -> Result<Self> {
        check_one_channel(view.channels())?;
        Ok(ArrayViewMut3::from(view).index_axis_move(Axis(2), 0))
    }
}

/// Takes the image's memory as rows, columns and channels, without a copy.
///
/// ```
/// use faltung::Image;
/// use ndarray::Array3;
///
/// let array = Array3::from(Image::new(2, 1, 3, vec![1_u8, 2, 3, 4, 5, 6])?);
/// assert_eq!(array, ndarray::array![[[1, 2, 3], [4, 5, 6]]]);
/// # Ok::<(), faltung::Error>(())
/// ```
impl<T: Pixel> From<Image<T>> for Array3<T> {
    fn from(image: Image<T>) -> Self {
        let shape = (image.height(), image.width(), image.channels());
        Self::from_shape_vec(shape, image.into_values()).expect("an image has as many values as its size asks for")
    }
}

/// Takes the image's memory as rows and columns, without a copy.
///
/// # Errors
/// [`Error::ChannelCount`] if there is more than 1 channel.
impl<T: Pixel> TryFrom<Image<T>> for Array2<T> {
    type Error = Error;

    fn try_from(image: Image<T>) -> Result<Self> {
        check_one_channel(image.channels())?;
        Ok(Array3::from(image).index_axis_move(Axis(2), 0))
    }
}

/// The image of an array's elements.
fn image<T: Pixel, D: Dimension>(
    array: Array<T, D>,
    (width, height, channels): (usize, usize, usize),
) -> Result<Image<T>> {
    let length = Image::<T>::checked_len(width, height, channels)?;
    let values = if array.is_standard_layout() {
        // A slice of an array, by value, keeps the array's whole memory.
        let (mut values, start) = array.into_raw_vec_and_offset();
        values.drain(..start.unwrap_or(0));
        values.truncate(length);
        values
    } else {
        let mut values = memory::with_capacity(length, "for the image of an array")?;
        values.extend(array.iter());
        values
    };
    Image::new(width, height, channels, values)
}

/// Takes the array as an image of one channel. An array in standard layout (row after row, without gaps) gives its
/// memory without a copy; of a part of an array, the values first move to the beginning of that memory. The elements of
/// all others are copied.
///
/// ```
/// use faltung::Image;
///
/// let array = ndarray::array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let image = Image::try_from(array.clone())?;
/// assert_eq!((image.width(), image.row(1)), (3, [4.0, 5.0, 6.0].as_slice()));
/// assert_eq!(Image::try_from(array.reversed_axes())?.row(1), [2.0, 5.0]); // copied
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]; [`Error::HostMemory`].
impl<T: Pixel> TryFrom<Array2<T>> for Image<T> {
    type Error = Error;

    fn try_from(array: Array2<T>) -> Result<Self> {
        let (height, width) = array.dim();
        image(array, (width, height, ONE_CHANNEL))
    }
}

/// Takes the array as an image of interleaved channels. An array in standard layout (row after row, without gaps) gives
/// its memory without a copy; of a part of an array, the values first move to the beginning of that memory. The
/// elements of all others are copied.
///
/// ```
/// use faltung::Image;
/// use ndarray::Array3;
///
/// // Channels first, as PyTorch has them: rows, columns, channels is another order, and copied.
/// let planes = Array3::from_shape_fn((3, 48, 64), |(channel, y, x)| (channel + x + y) as u8);
/// let image = Image::try_from(planes.permuted_axes([1, 2, 0]))?;
/// assert_eq!((image.width(), image.height(), image.channels()), (64, 48, 3));
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// Those of [`Image::new`]; [`Error::HostMemory`].
impl<T: Pixel> TryFrom<Array3<T>> for Image<T> {
    type Error = Error;

    fn try_from(array: Array3<T>) -> Result<Self> {
        let (height, width, channels) = array.dim();
        image(array, (width, height, channels))
    }
}

#[cfg(test)]
mod tests {
    use ::ndarray::{ArrayView, s};

    use super::*;

    fn numbered2(height: usize, width: usize) -> Array2<u16> {
        Array2::from_shape_fn((height, width), |(y, x)| (100 * y + x) as u16)
    }

    fn numbered3(height: usize, width: usize, channels: usize) -> Array3<u16> {
        Array3::from_shape_fn((height, width, channels), |(y, x, c)| (1000 * y + 10 * x + c) as u16)
    }

    /// The view is of these sizes and lies where the array lies. It converts back into the same array.
    fn check_lent(array: ArrayView3<'_, u16>, pitch: usize) {
        let view = View::try_from(array).unwrap();
        let (height, width, channels) = array.dim();
        assert_eq!((view.width(), view.height(), view.channels()), (width, height, channels));
        assert_eq!((view.pitch(), view.row(0).as_ptr()), (pitch, array.as_ptr()));
        assert_eq!(view.to_dense(), array.iter().copied().collect::<Vec<_>>());
        let back = ArrayView3::from(view);
        assert_eq!((back, back.as_ptr()), (array, array.as_ptr()));
        if channels == 1 {
            let back = ArrayView2::try_from(view).unwrap();
            assert_eq!((back, back.as_ptr()), (array.index_axis(Axis(2), 0), array.as_ptr()));
        }
    }

    #[test]
    fn views_are_lent() {
        let array = numbered3(5, 7, 3);
        check_lent(array.view(), 21);
        check_lent(array.slice(s![1..4, 2..5, ..]), 21);
        check_lent(array.slice(s![..;2, .., ..]), 42);
        check_lent(array.slice(s![2..3, 3..4, 1..2]), 1);
        // One column: its stride is that of the array, and never walked.
        check_lent(array.slice(s![.., 3..4, 1..]), 21);
        check_lent(array.slice(s![.., 3..4, 1..2]), 21);
        check_lent(numbered3(4, 6, 1).view(), 6);

        let array = numbered2(5, 7);
        for (part, pitch) in [(array.view(), 7), (array.slice(s![1.., 2..4]), 7), (array.slice(s![2..;2, ..]), 14)] {
            let view = View::try_from(part).unwrap();
            assert_eq!((view.pitch(), view.row(0).as_ptr(), view.channels()), (pitch, part.as_ptr(), 1));
            let back = ArrayView2::try_from(view).unwrap();
            assert_eq!((back, back.as_ptr()), (part, part.as_ptr()));
        }
    }

    #[test]
    fn views_to_be_written_are_lent() {
        let mut array = numbered3(4, 5, 2);
        let expected = {
            let mut expected = array.clone();
            expected.slice_mut(s![1..3, 2..4, ..]).fill(7);
            expected
        };
        let mut part = array.slice_mut(s![1..3, 2..4, ..]);
        let address = part.as_mut_ptr();
        let mut view = ViewMut::try_from(part).unwrap();
        assert_eq!((view.width(), view.height(), view.channels(), view.pitch()), (2, 2, 2, 10));
        assert_eq!(view.row_mut(0).as_mut_ptr(), address);
        view.row_mut(0).fill(7);
        let mut back = ArrayViewMut3::from(view);
        assert_eq!(back.as_mut_ptr(), address);
        back.slice_mut(s![1.., .., ..]).fill(7);
        assert_eq!(array, expected);

        let mut array = numbered2(4, 5);
        let view = ViewMut::try_from(array.slice_mut(s![..;2, 1..2])).unwrap();
        assert_eq!((view.width(), view.height(), view.pitch()), (1, 2, 10));
        ArrayViewMut2::try_from(view).unwrap().fill(9);
        assert_eq!((array[[0, 1]], array[[1, 1]], array[[2, 1]]), (9, 101, 9));
    }

    /// A view does not claim what lies between its rows: both halves can be written at once.
    #[test]
    fn halves_are_lent_side_by_side() {
        let mut array = numbered2(3, 6);
        let (left, right) = array.view_mut().split_at(Axis(1), 4);
        let (mut left, mut right) = (ViewMut::try_from(left).unwrap(), ViewMut::try_from(right).unwrap());
        for y in 0..3 {
            let (left, right) = (left.row_mut(y), right.row_mut(y));
            right.copy_from_slice(&left[..2]);
            left.fill(1);
        }
        assert_eq!(array.row(2).to_vec(), [1, 1, 1, 1, 200, 201]);
    }

    #[test]
    fn other_layouts_are_refused() {
        let refused = |array: ArrayView3<'_, u16>, required: [usize; 3], found: [isize; 3]| {
            let expected = Error::Strides { required: required.into(), found: found.into() };
            assert_eq!(View::try_from(array).unwrap_err(), expected);
        };
        let array = numbered3(4, 5, 3);
        refused(array.slice(s![..;-1, .., ..]), [15, 3, 1], [-15, 3, 1]);
        refused(array.slice(s![.., ..;-1, ..]), [15, 3, 1], [15, -3, 1]);
        refused(array.slice(s![.., .., ..;-1]), [15, 3, 1], [15, 3, -1]);
        refused(array.slice(s![.., ..;2, ..]), [9, 3, 1], [15, 6, 1]);
        refused(array.slice(s![.., .., ..2]), [10, 2, 1], [15, 3, 1]);
        refused(array.slice(s![.., .., 1..2]), [5, 1, 1], [15, 3, 0]);
        refused(array.t(), [20, 4, 1], [1, 3, 15]);
        refused(array.view().permuted_axes([1, 0, 2]), [12, 3, 1], [3, 15, 1]);
        refused(array.slice(s![..1, .., ..]).broadcast((4, 5, 3)).unwrap(), [15, 3, 1], [0, 3, 1]);
        refused(array.slice(s![.., ..1, ..]).broadcast((4, 5, 3)).unwrap(), [15, 3, 1], [15, 0, 1]);
        let fortran = Array3::<u16>::zeros((4, 5, 3).f());
        refused(fortran.view(), [15, 3, 1], [1, 4, 20]);
        // Windows: rows that overlap.
        let values: Vec<u16> = (0..20).collect();
        let windows = ArrayView::from_shape((4, 5, 1).strides((2, 1, 1)), &values);
        refused(windows.unwrap(), [5, 1, 1], [2, 1, 1]);

        let mut array = numbered2(4, 5);
        let expected = Error::Strides { required: vec![4, 1], found: vec![1, 5] };
        assert_eq!(View::try_from(array.t()).unwrap_err(), expected);
        assert_eq!(ViewMut::try_from(array.view_mut().reversed_axes()).unwrap_err(), expected);
        assert_eq!(
            expected.to_string(),
            "an array with the strides [4, 1], the first of them or more, is required, this one has [1, 5]"
        );
        let mut array = numbered3(4, 5, 2);
        assert!(matches!(ViewMut::try_from(array.slice_mut(s![.., ..;2, ..])), Err(Error::Strides { .. })));
    }

    #[test]
    fn empty_and_large_arrays_are_refused() {
        for (height, width, channels) in [(0, 2, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0)] {
            let mut array = Array3::<f32>::zeros((height, width, channels));
            let expected = Error::EmptyImage { width, height, channels };
            assert_eq!(View::try_from(array.view()).unwrap_err(), expected);
            assert_eq!(ViewMut::try_from(array.view_mut()).unwrap_err(), expected);
            assert_eq!(Image::try_from(array).unwrap_err(), expected);
        }
        for (height, width) in [(0, 2), (2, 0)] {
            let mut array = Array2::<u8>::zeros((height, width));
            let expected = Error::EmptyImage { width, height, channels: 1 };
            assert_eq!(View::try_from(array.view()).unwrap_err(), expected);
            assert_eq!(ViewMut::try_from(array.view_mut()).unwrap_err(), expected);
            assert_eq!(Image::try_from(array).unwrap_err(), expected);
        }
        let one = Array2::<u8>::zeros((1, 1));
        assert!(matches!(View::try_from(one.broadcast((1, 1 << 30)).unwrap()), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn images_keep_their_memory() {
        let image = Image::new(5, 4, 3, (0..60).collect::<Vec<u16>>()).unwrap();
        let address = image.values().as_ptr();
        let array = Array3::from(image.clone());
        assert_eq!((array.shape(), array[[3, 4, 2]]), ([4, 5, 3].as_slice(), 59));
        assert_eq!(Image::try_from(array).unwrap(), image);
        let array = Array3::from(image);
        assert_eq!(array.as_ptr(), address);
        let image = Image::try_from(array).unwrap();
        assert_eq!(image.values().as_ptr(), address);
        let error = Array2::try_from(image).unwrap_err();
        assert_eq!(error.to_string(), "the number of channels must be 1, not 3");

        let image = Image::new(5, 4, 1, (0..20).collect::<Vec<u16>>()).unwrap();
        let address = image.values().as_ptr();
        let array = Array2::try_from(image).unwrap();
        assert_eq!((array.as_ptr(), array.dim()), (address, (4, 5)));
        let array = Array3::from(Image::try_from(array).unwrap());
        assert_eq!((array.as_ptr(), array.dim()), (address, (4, 5, 1)));
        assert_eq!(Image::try_from(array).unwrap().values().as_ptr(), address);
    }

    #[test]
    fn parts_by_value_keep_memory_and_other_orders_are_copied() {
        let array = numbered2(6, 4);
        let (address, expected) = (array.as_ptr(), array.slice(s![2..4, ..]).iter().copied().collect::<Vec<_>>());
        let image = Image::try_from(array.slice_move(s![2..4, ..])).unwrap();
        assert_eq!((image.values(), image.values().as_ptr()), (expected.as_slice(), address));

        let array = numbered3(3, 4, 2);
        for other in [
            array.clone().permuted_axes([1, 0, 2]),
            array.clone().reversed_axes(),
            array.clone().slice_move(s![..;-1, .., ..]),
            array.clone().slice_move(s![.., 1..3, ..]),
            array.clone().slice_move(s![.., .., ..1]),
        ] {
            let expected: Vec<u16> = other.iter().copied().collect();
            let (height, width, channels) = other.dim();
            let image = Image::try_from(other).unwrap();
            assert_eq!((image.width(), image.height(), image.channels()), (width, height, channels));
            assert_eq!(image.values(), expected);
        }
    }

    /// A view of one row may have any pitch, also one that no array can have.
    #[test]
    fn one_row_has_no_pitch() {
        let mut values = [1_u8, 2, 3, 4];
        let view = View::new(2, 1, 2, usize::MAX, &values).unwrap();
        assert_eq!(ArrayView3::from(view).iter().copied().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let view = ViewMut::new(4, 1, 1, usize::MAX / 2, &mut values).unwrap();
        assert_eq!(ArrayViewMut2::try_from(view).unwrap().dim(), (1, 4));
        // The stride of an axis of length 1 that a slice leaves behind.
        let array = numbered2(4, 5);
        let row = array.slice(s![3..4;-1, ..]);
        assert_eq!(View::try_from(row).unwrap().row(0), [300, 301, 302, 303, 304]);
    }
}
