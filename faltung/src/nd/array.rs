//! Arrays that are lent: where their elements are, and of which type.

use std::marker::PhantomData;
use std::ops::Range;

use super::border::position;
use crate::{BorderMode, Error, Result};

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// One byte. 0 is false; a result may hold any number, as SciPy's does.
    Bool,
    #[expect(missing_docs, reason = "named as the type")]
    I8,
    #[expect(missing_docs, reason = "named as the type")]
    U8,
    #[expect(missing_docs, reason = "named as the type")]
    I16,
    #[expect(missing_docs, reason = "named as the type")]
    U16,
    #[expect(missing_docs, reason = "named as the type")]
    I32,
    #[expect(missing_docs, reason = "named as the type")]
    U32,
    #[expect(missing_docs, reason = "named as the type")]
    I64,
    #[expect(missing_docs, reason = "named as the type")]
    U64,
    #[expect(missing_docs, reason = "named as the type")]
    F32,
    #[expect(missing_docs, reason = "named as the type")]
    F64,
}

impl Element {
    #[doc(hidden)] // for tests
    pub const ALL: [Self; 11] = [
        Self::Bool,
        Self::I8,
        Self::U8,
        Self::I16,
        Self::U16,
        Self::I32,
        Self::U32,
        Self::I64,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of an element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether results drop their fraction.
    pub(super) const fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64)
    }

    /// The largest magnitude of a whole number of this type; None for the others.
    pub(super) const fn largest(self) -> Option<f64> {
        match self {
            Self::Bool | Self::U8 => Some(255.0),
            Self::I8 => Some(128.0),
            Self::I16 => Some(32_768.0),
            Self::U16 => Some(65_535.0),
            Self::I32 => Some(2_147_483_648.0),
            Self::U32 => Some(4_294_967_295.0),
            Self::I64 | Self::U64 | Self::F32 | Self::F64 => None,
        }
    }
}

/// The type of an array's elements, and where they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The type of the elements. They need not be aligned.
    pub element: Element,
    /// Elements along each axis.
    pub shape: Vec<usize>,
    /// Bytes from one element to the next along each axis. They may be negative or, in an input, 0.
    pub strides: Vec<isize>,
}

impl Layout {
    /// An array without gaps, the last axis fastest.
    #[must_use]
    pub fn dense(element: Element, shape: &[usize]) -> Self {
        let mut strides = vec![0; shape.len()];
        let mut stride = element.size() as isize;
        for (to, &length) in strides.iter_mut().zip(shape).rev() {
            *to = stride;
            stride = stride.wrapping_mul(length as isize);
        }
        Self { element, shape: shape.to_vec(), strides }
    }

    /// Number of elements; [`usize::MAX`] for more than that.
    ///
    /// ```
    /// use faltung::nd::{Element, Layout};
    ///
    /// let too_large = Layout { element: Element::U8, shape: vec![usize::MAX, 2], strides: vec![2, 1] };
    /// assert_eq!(too_large.elements(), usize::MAX);
    /// ```
    #[must_use]
    pub fn elements(&self) -> usize {
        self.shape.iter().fold(1, |elements, &side| elements.saturating_mul(side))
    }

    /// The bytes from the first one of any element to the last one, gaps included. They are counted from the element at
    /// index 0 of every axis. None if there are no elements, or the count exceeds [`isize`].
    ///
    /// ```
    /// use faltung::nd::{Element, Layout};
    ///
    /// let upside_down = Layout { element: Element::U16, shape: vec![3, 4], strides: vec![-10, 2] };
    /// assert_eq!(upside_down.extent(), Some(-20..8));
    /// ```
    #[must_use]
    pub fn extent(&self) -> Option<Range<isize>> {
        extent(self.element.size(), &self.shape, &self.strides)
    }

    /// # Errors
    /// [`Error::Number`] if there are more or fewer strides than axes.
    pub(super) fn check_strides(&self) -> Result<()> {
        if self.shape.len() == self.strides.len() {
            return Ok(());
        }
        let found = self.strides.len().to_string();
        Err(Error::Number { what: "the number of strides", required: "one for each axis", found })
    }

    /// # Errors
    /// [`Error::Number`] unless this is the layout of a result for this input.
    pub(super) fn check_shape(&self, input: &Layout) -> Result<()> {
        if self.shape == input.shape {
            return Ok(());
        }
        let found = format!("{:?} for an input of {:?}", self.shape, input.shape);
        Err(Error::Number { what: "the shape of the result", required: "that of the input", found })
    }

    /// # Errors
    /// [`Error::Number`] if there are more or fewer strides than axes, [`Error::TooLarge`] if an axis is too long.
    fn check(&self) -> Result<()> {
        self.check_strides()?;
        const MOST: usize = isize::MAX as usize / 4;
        let elements = self.shape.iter().try_fold(1_usize, |product, &length| product.checked_mul(length.max(1)));
        match elements {
            Some(elements) if elements <= MOST => Ok(()),
            _ => Err(Error::TooLarge {
                what: "the number of elements".into(),
                most: MOST,
                found: format!("a shape of {:?}", self.shape),
            }),
        }
    }
}

/// [`Layout::extent`] for elements of any size.
#[doc(hidden)]
#[must_use]
pub fn extent(size: usize, shape: &[usize], strides: &[isize]) -> Option<Range<isize>> {
    let (mut start, mut end) = (0_isize, isize::try_from(size).ok()?);
    for (&length, &stride) in shape.iter().zip(strides) {
        let bytes = stride.checked_mul(isize::try_from(length.checked_sub(1)?).ok()?)?;
        let side = if bytes < 0 { &mut start } else { &mut end };
        *side = side.checked_add(bytes)?;
    }
    Some(start..end)
}

/// A lent array to be read.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    pub(super) first: *const u8,
    pub(super) layout: Layout,
    lent: PhantomData<&'a [u8]>,
}

/// A lent array to be written.
#[derive(Debug)]
pub struct Output<'a> {
    pub(super) first: *mut u8,
    pub(super) layout: Layout,
    lent: PhantomData<&'a mut [u8]>,
}

// SAFETY: the elements are plain numbers, and `from_raw` demands that nobody writes them meanwhile.
unsafe impl Send for Input<'_> {}
// SAFETY: as above.
unsafe impl Sync for Input<'_> {}
// SAFETY: as above; the elements are written through this alone.
unsafe impl Send for Output<'_> {}
// SAFETY: as above; each job of a filter writes elements of its own.
unsafe impl Sync for Output<'_> {}

impl Input<'_> {
    /// The array whose element at index 0 of every axis is at `first`.
    ///
    /// # Errors
    /// [`Error::Number`], [`Error::TooLarge`]: the layout can't be that of an array.
    ///
    /// # Safety
    /// - For `'a`, an initialised element of the layout's type is at each index that the shape allows.
    /// - For `'a`, nothing else writes these elements. The result of a filter along lines may be the same array: same
    ///   address, same layout.
    pub unsafe fn from_raw(first: *const u8, layout: Layout) -> Result<Self> {
        layout.check()?;
        Ok(Self { first, layout, lent: PhantomData })
    }

    /// The row of `length` values at a position along the first axis, or at the one that the border has there. None for
    /// its constant value.
    ///
    /// # Safety
    /// The elements of an index of the first axis are `length` values of type `T`, aligned and without gaps.
    #[inline(always)]
    pub(super) unsafe fn row<T>(&self, at: isize, border: BorderMode, length: usize) -> Option<&[T]> {
        let height = self.layout.shape[0];
        let inside = match usize::try_from(at) {
            Ok(at) if at < height => at,
            _ => position(border, at, height)?,
        };
        // SAFETY: the row is in the input, and nobody writes it. The rest is as this function requires.
        unsafe {
            let start = self.first.offset(inside as isize * self.layout.strides[0]);
            Some(std::slice::from_raw_parts(start.cast(), length))
        }
    }
}

impl Output<'_> {
    /// The array whose element at index 0 of every axis is at `first`.
    ///
    /// # Errors
    /// [`Error::Number`], [`Error::TooLarge`]: the layout can't be that of an array.
    ///
    /// # Safety
    /// - For `'a`, there is room for an element of the layout's type at each index that the shape allows.
    /// - No two indices have a byte in common.
    /// - For `'a`, nothing else reads or writes these elements, but for an input that is the same array.
    pub unsafe fn from_raw(first: *mut u8, layout: Layout) -> Result<Self> {
        layout.check()?;
        Ok(Self { first, layout, lent: PhantomData })
    }
}
