//! Arrays of the crate `ndarray`: images of two axes (rows, columns), or three (rows, columns, channels), and arrays of
//! any number of axes for [`nd`](crate::nd).

use std::ptr::NonNull;

use ::ndarray::{
    Array, Array2, Array3, ArrayView, ArrayView2, ArrayView3, ArrayViewMut, ArrayViewMut2, ArrayViewMut3, Axis,
    Dimension, ShapeBuilder,
};

use crate::nd::{ElementType, Input, Layout, Output};
use crate::{Error, Image, Pixel, Result, View, ViewMut, memory};

#[cfg(test)]
mod tests;

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
///     "the strides of the array must be [3, 1] elements, and the first of them may be larger, not [1, 4]"
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

/// The layout of an array of any number of axes.
fn layout<T: ElementType>(shape: &[usize], strides: &[isize]) -> Layout {
    // The stride of an axis that is never walked can be any number.
    let bytes = |(&length, &stride): (&usize, &isize)| if length <= 1 { 0 } else { stride * size_of::<T>() as isize };
    let strides = shape.iter().zip(strides).map(bytes).collect();
    Layout { element: T::ELEMENT, shape: shape.to_vec(), strides }
}

/// Lends an array of any number of axes and any strides to be filtered, without a copy.
///
/// ```
/// use faltung::BorderMode;
/// use faltung::nd::{Input, Lines, Output, Sums, correlate1d};
/// use ndarray::Array3;
///
/// let volume = Array3::from_shape_fn((5, 6, 7), |(z, y, x)| (z * z + y + x) as f64);
/// let mut slopes = Array3::<f64>::zeros((5, 6, 7));
/// let along_z = Lines { axis: 0, origin: 0, border: BorderMode::Clamp, value: 0.0 };
/// let (input, output) = (Input::try_from(volume.view())?, Output::try_from(slopes.view_mut())?);
/// correlate1d(input, output, &[-0.5, 0.0, 0.5], &along_z, Sums::F64)?;
/// assert_eq!(slopes[[3, 1, 2]], 6.0);
/// # Ok::<(), faltung::Error>(())
/// ```
///
/// # Errors
/// [`Error::TooLarge`] if the array has too many elements, which only one that repeats them can have.
impl<'a, T: ElementType, D: Dimension> TryFrom<ArrayView<'a, T, D>> for Input<'a> {
    type Error = Error;

    fn try_from(array: ArrayView<'a, T, D>) -> Result<Self> {
        // SAFETY: the array lends an element at each index for `'a`.
        unsafe { Self::from_raw(array.as_ptr().cast(), layout::<T>(array.shape(), array.strides())) }
    }
}

/// Lends an array of any number of axes and any strides to take results, without a copy.
///
/// # Errors
/// As for [`Input`].
impl<'a, T: ElementType, D: Dimension> TryFrom<ArrayViewMut<'a, T, D>> for Output<'a> {
    type Error = Error;

    fn try_from(mut array: ArrayViewMut<'a, T, D>) -> Result<Self> {
        let layout = layout::<T>(array.shape(), array.strides());
        // SAFETY: the array lends an element at each index to be written for `'a`, is used up here, and no two of them
        // overlap. Each bit pattern is a value of the type.
        unsafe { Self::from_raw(array.as_mut_ptr().cast(), layout) }
    }
}
