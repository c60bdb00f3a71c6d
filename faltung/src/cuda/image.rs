//! Images of the device: to it, back from it, and through a kernel there.

use std::any::Any;
use std::sync::Arc;

use super::convolution::{GpuConvolution, ImageArea};
use super::launch::Area;
use super::lend::DeviceRows;
use super::status::DriverResultExt;
use super::stream::{Access, ImageMemory, OwnStream, Uses};
use super::{Gpu, driver};
use crate::rows::{HostRows, HostRowsMut};
use crate::{Error, Result};

/// The device memory of an image.
#[derive(Debug)]
pub(crate) enum ImageStorage {
    Own(ImageMemory),
    Foreign(ForeignMemory),
    /// Device memory whose owner orders all that uses it by one stream. So nothing is noted, and the drop does not
    /// wait.
    Borrowed(BorrowedMemory),
}

/// Device memory whose owner orders all that uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BorrowedMemory {
    area: Area,
}

/// Device memory that somebody else owns.
pub(crate) struct ForeignMemory {
    area: Area,
    uses: Uses,
    /// Dropped when nothing uses the memory any more.
    _owner: Box<dyn Any + Send + Sync>,
}

impl std::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ForeignMemory").field("area", &self.area).finish_non_exhaustive()
    }
}

impl ForeignMemory {
    /// Memory from `address` on.
    pub(crate) fn new(address: u64, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        let area = Area { address, bytes };
        Self { area, uses: Uses::new(None), _owner: owner }
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        self.uses.wait();
    }
}

impl ImageStorage {
    /// Memory from `address` on whose owner orders all that uses it.
    pub(crate) fn borrowed(address: u64, bytes: usize) -> Self {
        Self::Borrowed(BorrowedMemory { area: Area { address, bytes } })
    }

    fn area(&self) -> Area {
        match self {
            Self::Own(memory) => memory.area(),
            Self::Foreign(memory) => memory.area,
            Self::Borrowed(memory) => memory.area,
        }
    }

    /// The first byte's address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.area().address
    }

    /// The error where an image in host memory is required.
    pub(crate) fn not_on_host(&self) -> Error {
        let found = match self {
            Self::Own(memory) => memory.gpu().describe(),
            Self::Foreign(_) | Self::Borrowed(_) => "the device of another library".to_owned(),
        };
        Error::OtherDevice { what: "the image", required: crate::stream::HOST.to_owned(), found }
    }

    /// Who uses the memory; None where its owner orders that.
    fn uses(&self) -> Option<&Uses> {
        match self {
            Self::Own(memory) => Some(&memory.uses),
            Self::Foreign(memory) => Some(&memory.uses),
            Self::Borrowed(_) => None,
        }
    }

    /// Lets `stream` wait until it may use the memory.
    fn order(&self, stream: &Arc<OwnStream>, access: Access) -> Result<()> {
        self.uses().map_or(Ok(()), |uses| uses.order(stream, access))
    }

    /// Fails for memory of another device. Foreign memory is on the right one, as who made the image of it promised.
    fn check_device(&self, gpu: &Arc<Gpu>) -> Result<()> {
        match self {
            Self::Own(memory) if !Arc::ptr_eq(memory.gpu(), gpu) => {
                let (required, found) = (gpu.describe(), memory.gpu().describe());
                Err(Error::OtherDevice { what: "the image", required, found })
            }
            Self::Own(_) | Self::Foreign(_) | Self::Borrowed(_) => Ok(()),
        }
    }
}

/// An image of the device, `pitch` bytes from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredImage<'a> {
    pub(crate) storage: &'a ImageStorage,
    pub(crate) pitch: usize,
}

impl StoredImage<'_> {
    fn area(self) -> ImageArea {
        ImageArea { area: self.storage.area(), pitch: self.pitch }
    }
}

impl OwnStream {
    /// Copies an image to the device, to rows `pitch` bytes apart. Waits for the copy, and not for what the stream was
    /// given before.
    pub(crate) fn upload(self: &Arc<Self>, source: HostRows<'_>, pitch: usize) -> Result<ImageStorage> {
        let gpu = &self.gpu;
        let memory = ImageMemory::ready(self, source.len() * pitch)?;
        if pitch != source.row_bytes() {
            // As in a workspace: what lies between rows may be touched.
            gpu.clear(memory.area())?;
        }
        let to = DeviceRows { address: memory.area().address, rows: source.len(), bytes: source.row_bytes(), pitch };
        let mut lane = gpu.lane()?;
        let lane = &mut *lane;
        gpu.lend(|lent| {
            let kind = gpu.kind(source.span());
            // SAFETY: the memory has the rows, and lives longer than the scope.
            unsafe { lane.staging.upload(lent, to, source, kind, &lane.up) }
        })?;
        Ok(ImageStorage::Own(memory))
    }

    /// Memory of zeros, which are written in the order of the stream.
    pub(crate) fn zeros(self: &Arc<Self>, bytes: usize) -> Result<ImageStorage> {
        let memory = ImageMemory::new(self, bytes)?;
        let _entered = self.gpu.enter()?;
        // SAFETY: the memory is this stream's from now on.
        unsafe { driver::fill(memory.area(), 0, self.stream()) }.context("clear memory on the device")?;
        Ok(ImageStorage::Own(memory))
    }

    /// Copies an image from the device, behind all that uses it and all that the stream was given. Waits for it.
    pub(crate) fn download(&self, image: StoredImage<'_>, result: HostRowsMut<'_>) -> Result<()> {
        let gpu = &self.gpu;
        image.storage.check_device(gpu)?;
        let rows = DeviceRows {
            address: image.storage.area().address,
            rows: result.len(),
            bytes: result.row_bytes(),
            pitch: image.pitch,
        };
        let mut lane = gpu.lane()?;
        let lane = &mut *lane;
        gpu.lend(|lent| {
            image.storage.uses().map_or(Ok(()), |uses| uses.hold(&lane.down))?;
            super::overlap::follow(&lane.down, self.stream())?;
            lent.uses(&lane.down);
            let kind = gpu.kind(result.span());
            // SAFETY: the memory has the rows, and lives longer than the scope.
            unsafe { lane.staging.download(lent, result, rows, kind, &lane.down) }
        })
    }
}

impl GpuConvolution {
    /// Runs the kernel on an image of the device, in the order of the stream, without waiting for it. The stream is one
    /// of this device: [`Stream::own`](crate::Stream) checks that.
    pub(crate) fn run_on(&self, source: StoredImage<'_>, stream: &Arc<OwnStream>) -> Result<ImageStorage> {
        self.check(source)?;
        let (_, to) = self.row_bytes();
        let bytes = self.height() * to.pitch;
        let result =
            if to.is_dense() { ImageStorage::Own(ImageMemory::new(stream, bytes)?) } else { stream.zeros(bytes)? };
        self.run_into(source, StoredImage { storage: &result, pitch: to.pitch }, stream)?;
        Ok(result)
    }

    /// As [`run_on`](Self::run_on), to an image that is there, which the caller has for itself.
    pub(crate) fn run_into(
        &self,
        source: StoredImage<'_>,
        result: StoredImage<'_>,
        stream: &Arc<OwnStream>,
    ) -> Result<()> {
        self.check(source)?;
        result.storage.check_device(self.gpu())?;
        let _entered = self.gpu().enter()?;
        source.storage.order(stream, Access::Read)?;
        result.storage.order(stream, Access::Write)?;
        // SAFETY: both are on the device and of the plan's size, as the callers check; they are ordered above, and go
        // back to the pool, or to their owner, behind all that uses them.
        unsafe { self.enqueue(source.area(), result.area(), stream) }
    }

    fn check(&self, source: StoredImage<'_>) -> Result<()> {
        source.storage.check_device(self.gpu())?;
        self.check_whole()
    }
}
