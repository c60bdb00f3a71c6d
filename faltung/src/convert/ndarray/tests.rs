//! What is lent without a copy, what is copied, and what is refused.

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
    assert!((0..height).flat_map(|y| view.row(y)).eq(array.iter()));
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
        "the strides of the array must be [4, 1] elements, and the first of them may be larger, not [1, 5]"
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

/// The layouts are those of the arrays, whatever their strides.
#[test]
fn arrays_are_lent_to_filters() {
    use crate::BorderMode;
    use crate::nd::{Lines, Sums, correlate1d};
    let array = ::ndarray::Array::from_shape_fn((4, 5, 6), |(z, y, x)| (100 * z + 10 * y + x) as f32);
    let whole = array.view();
    let parts = [
        whole,
        whole.permuted_axes([2, 0, 1]),
        whole.slice_move(s![..;-1, 1..;2, ..]),
        whole.slice_move(s![1..2, .., ..;-2]),
        whole.slice_move(s![2..2, .., ..]),
    ];
    for part in parts {
        for axis in 0..3 {
            // As wide as the array, in reverse order.
            let mut results = Array3::<f64>::zeros([part.dim().0, part.dim().1, 2 * part.dim().2]);
            let mut shifted = results.slice_mut(s![.., .., ..;-2]);
            let lines = Lines { axis, origin: 0, border: BorderMode::Constant, value: -1.0 };
            let (input, output) = (Input::try_from(part).unwrap(), Output::try_from(shifted.view_mut()).unwrap());
            correlate1d(input, output, &[2.0, 0.0, 0.0], &lines, Sums::F64).unwrap();
            for (at, &result) in shifted.indexed_iter() {
                let mut before: [usize; 3] = at.into();
                before[axis] = before[axis].wrapping_sub(1);
                let expected = part.get(before).map_or(-1.0, |&value| f64::from(value)) * 2.0;
                assert_eq!(result, expected, "{at:?}, axis {axis}, strides {:?}", part.strides());
            }
            assert!(results.slice(s![.., .., ..;2]).iter().all(|&gap| gap == 0.0));
        }
    }
    let repeated = ::ndarray::ArrayView1::from(&[7_u8]);
    let repeated = repeated.broadcast([1 << 62]).unwrap();
    assert!(matches!(Input::try_from(repeated), Err(Error::TooLarge { .. })));
}
