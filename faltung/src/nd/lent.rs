//! Arrays that are lent by slices.

use super::{Element, Input, Layout, Output};
use crate::{Error, Result};

mod sealed {
    pub trait Sealed {}
}

/// A type of elements. `bool` is none: a result of [`Element::Bool`] may hold any number.
pub trait ElementType: Copy + sealed::Sealed + 'static {
    /// Its tag.
    const ELEMENT: Element;
}

macro_rules! element_types {
    ($($type:ty => $element:ident,)*) => {
        $(
            impl sealed::Sealed for $type {}
            impl ElementType for $type {
                const ELEMENT: Element = Element::$element;
            }
        )*
    };
}

element_types! {
    i8 => I8,
    u8 => U8,
    i16 => I16,
    u16 => U16,
    i32 => I32,
    u32 => U32,
    i64 => I64,
    u64 => U64,
    f32 => F32,
    f64 => F64,
}

/// The layout of `found` elements in this shape.
fn dense<T: ElementType>(shape: &[usize], found: usize) -> Result<Layout> {
    let layout = Layout::dense(T::ELEMENT, shape);
    if layout.elements() == found {
        return Ok(layout);
    }
    let found = format!("{found} for a shape of {shape:?}");
    Err(Error::Number { what: "the number of elements", required: "the product of the sides", found })
}

impl<'a> Input<'a> {
    /// An array without gaps, the last axis fastest.
    ///
    /// # Errors
    /// - [`Error::Number`] if there are more or fewer elements than the shape has.
    /// - [`Error::TooLarge`] as for [`from_raw`](Self::from_raw).
    pub fn new<T: ElementType>(elements: &'a [T], shape: &[usize]) -> Result<Self> {
        let layout = dense::<T>(shape, elements.len())?;
        // SAFETY: the slice has an element at each index, and lends them for `'a`.
        unsafe { Self::from_raw(elements.as_ptr().cast(), layout) }
    }
}

impl<'a> Output<'a> {
    /// An array without gaps, the last axis fastest.
    ///
    /// # Errors
    /// As for [`Input::new`].
    pub fn new<T: ElementType>(elements: &'a mut [T], shape: &[usize]) -> Result<Self> {
        let layout = dense::<T>(shape, elements.len())?;
        // SAFETY: the slice has an element at each index, no two overlap, and it lends them to be written for `'a`.
        // Each bit pattern is a value of the type.
        unsafe { Self::from_raw(elements.as_mut_ptr().cast(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nd::{ImageFilter, ImageMask, Lines, correlate_image, window_means};
    use crate::{Accuracy, Border, BorderMode};

    #[test]
    fn the_shape_has_as_many_elements_as_the_slice() {
        let mut values = [0_i16; 6];
        for shape in [&[2, 3][..], &[6], &[1, 6, 1]] {
            assert_eq!(Input::new(&values, shape).unwrap().layout, Layout::dense(Element::I16, shape));
            assert_eq!(Output::new(&mut values, shape).unwrap().layout, Layout::dense(Element::I16, shape));
        }
        for shape in [&[2, 4][..], &[5], &[], &[6, 0], &[usize::MAX, 2]] {
            assert!(matches!(Input::new(&values, shape), Err(Error::Number { .. })), "{shape:?}");
            assert!(matches!(Output::new(&mut values, shape), Err(Error::Number { .. })), "{shape:?}");
        }
        assert!(Input::new(&[1.0_f64], &[]).is_ok() && Input::new::<u8>(&[], &[3, 0]).is_ok());
        assert!(matches!(Input::new::<u8>(&[], &[usize::MAX, 0]), Err(Error::TooLarge { .. })));
    }

    /// Slices without elements may have the same address.
    #[test]
    fn arrays_without_elements_are_not_the_same_array() {
        let arrays = |shape: &'static [usize]| {
            let (input, output) = (Input::new::<f64>(&[], shape).unwrap(), Output::new::<f64>(&mut [], shape).unwrap());
            assert_eq!(input.first, output.first.cast_const());
            (input, output)
        };
        let (input, output) = arrays(&[3, 0]);
        let filter = ImageFilter {
            mask: ImageMask::Dense(&[1.0]),
            size: [1, 1],
            anchor: [0, 0],
            border: Border::ZERO,
            offset: 0.0,
            accuracy: Accuracy::Exact,
        };
        assert_eq!(correlate_image(input, output, &filter), Ok(()));
        for shape in [&[3, 0][..], &[0, 3], &[2, 3, 0]] {
            let (input, output) = arrays(shape);
            let lines = [0, 1].map(|axis| Lines { axis, origin: 0, border: BorderMode::Clamp, value: 0.0 });
            assert_eq!(window_means(input, output, [3, 3], &lines), Ok(()), "{shape:?}");
        }
    }
}
