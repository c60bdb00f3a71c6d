//! What may go to other threads, and be used by several at once. That it compiles is the test.

use crate::{
    AnyImage, Device, DeviceImage, Error, Event, Filter, GpuInfo, Image, Mask, PageLocked, Pipeline, Prepared, Problem,
    Stream, View, ViewMut,
};

/// It borrows nothing, may go to other threads, and several may use it at once.
const fn is_owned<T: Send + Sync + 'static>() {}
/// The same, and there may be clones.
const fn is_shared<T: Clone + Send + Sync + 'static>() {}
/// It borrows memory of somebody else.
const fn is_lent<T: Send + Sync>() {}

const _: () = {
    is_shared::<Device>();
    is_shared::<Prepared>();
    is_shared::<Pipeline>();
    is_shared::<Stream>();
    is_shared::<Event>();
    is_owned::<DeviceImage<u8>>();
    is_owned::<DeviceImage<f32>>();
    is_owned::<PageLocked<f32>>();
    is_shared::<Error>();
    is_shared::<Filter>();
    is_shared::<Problem>();
    is_shared::<Mask>();
    is_shared::<Image<u8>>();
    is_shared::<Image<f32>>();
    is_shared::<AnyImage>();
    is_shared::<GpuInfo>();
    is_lent::<View<'_, u16>>();
    is_lent::<ViewMut<'_, u16>>();
};
