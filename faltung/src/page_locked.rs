//! Memory for images that a device reads and writes by itself.

use std::fmt;
#[cfg(feature = "cuda")]
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::Pixel;
#[cfg(feature = "cuda")]
use crate::cuda::LockedBytes;
#[cfg(feature = "cuda")]
use crate::image::{values_of, values_of_mut};

/// Values in *page-locked* memory, also called pinned: a CUDA device reads and writes it by itself. No thread of the
/// host copies such values to a staging buffer. That copy is more than half of an image's transfer time. Made by
/// [`Device::page_locked`](super::Device::page_locked). It is a slice otherwise: give it, or a part of it, to
/// [`Prepared::apply_values`](super::Prepared::apply_values), [`View`](crate::View) and [`ViewMut`](crate::ViewMut).
///
/// Use it for buffers that many images share, such as the frames of a camera. Its allocation is slow, and the system
/// can't page it out.
///
/// ```
/// use faltung::{Device, Filter, Mask, Problem, VariantChoice};
///
/// let device = Device::auto();
/// let (width, height) = (640, 480);
/// let problem = Problem::new(width, height, &Filter::new(Mask::gaussian(2.0, None)?))?;
/// let blur = device.prepare(&problem, VariantChoice::Auto)?;
///
/// let mut frame = device.page_locked::<f32>(width * height)?;
/// let mut blurred = device.page_locked::<f32>(width * height)?;
/// for number in 0..3 {
///     frame.fill(number as f32); // where a camera would write its picture
///     blur.apply_values(&frame, &mut blurred)?;
///     assert!((blurred[240 * width + 320] - number as f32).abs() < 1e-5);
/// }
/// # Ok::<(), faltung::Error>(())
/// ```
pub struct PageLocked<T> {
    memory: Memory<T>,
}

/// Where the values are.
enum Memory<T> {
    /// For a device that works in the host's memory.
    Ordinary(Vec<T>),
    #[cfg(feature = "cuda")]
    Locked(LockedBytes, PhantomData<T>),
}

impl<T> PageLocked<T> {
    pub(super) fn ordinary(values: Vec<T>) -> Self {
        Self { memory: Memory::Ordinary(values) }
    }

    #[cfg(feature = "cuda")]
    pub(super) fn locked(bytes: LockedBytes) -> Self {
        Self { memory: Memory::Locked(bytes, PhantomData) }
    }
}

impl<T: Pixel> Deref for PageLocked<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            Memory::Locked(bytes, _) => values_of(bytes),
        }
    }
}

impl<T: Pixel> DerefMut for PageLocked<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Ordinary(values) => values,
            #[cfg(feature = "cuda")]
            Memory::Locked(bytes, _) => values_of_mut(bytes),
        }
    }
}

impl<T: Pixel> fmt::Debug for PageLocked<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_locked = !matches!(self.memory, Memory::Ordinary(_));
        f.debug_struct("PageLocked").field("values", &self.len()).field("is_locked", &is_locked).finish()
    }
}
