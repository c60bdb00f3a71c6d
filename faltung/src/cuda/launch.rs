//! Every `launch!` of the project, behind functions that check what a kernel relies on.
//!
//! # Why a launch is sound
//! A kernel reads and writes what its parameters say. So a function here takes areas of memory, not addresses, and
//! before it launches it checks that the areas are as long as the parameters claim. Grid, block and shared memory come
//! from the entry's own geometry ([`crate::plan`]). The caller keeps the memory alive, and orders what uses it.

use cust::function::Function;
use cust::launch;
use cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use cust::stream::Stream;
use kernels_gpu::abi::params::Params;
use kernels_gpu::util::planes::{BLOCK, Conversion, PlaneParams};

use super::status::DriverResultExt;
use crate::plan::Launch;
use crate::{Error, PixelFormat, Result};

/// Parameters as `cust` wants a kernel argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct ByValue<P>(P);
// SAFETY: plain numbers, no pointers, no padding (the layout is asserted beside the type).
unsafe impl DeviceCopy for ByValue<Params> {}
// SAFETY: as above.
unsafe impl DeviceCopy for ByValue<PlaneParams> {}

/// Memory of the device, from an address on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) address: u64,
    /// Bytes that may be used.
    pub(super) bytes: usize,
}

impl Area {
    /// What is left behind the first `bytes` bytes.
    pub(super) fn behind(self, bytes: usize) -> Self {
        let rest = self.bytes.checked_sub(bytes).expect("the area has the bytes");
        Self { address: self.address + bytes as u64, bytes: rest }
    }
}

/// Source and result of a convolution, and what they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Images {
    /// Types and channels.
    pub(super) format: PixelFormat,
    /// Rows at the source's pitch.
    pub(super) source: Area,
    /// Rows at the result's pitch.
    pub(super) result: Area,
}

/// Launches one kernel of a convolution. `mask` is None if the kernel reads constant memory.
///
/// # Errors
/// [`Error::Length`] if an area is shorter than the parameters say, [`Error::Driver`] if the launch is refused. What
/// goes wrong while the kernel runs shows at the next synchronisation.
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes.
/// - They stay so until the launch is done. Until then nobody writes the source or the mask, or uses the result.
/// - The result overlaps neither of the two.
/// - `function` is the entry of which `launch` was planned. If it reads constant memory, the mask is there.
pub(super) unsafe fn convolution(
    function: &Function<'_>,
    launch: &Launch,
    images: Images,
    mask: Option<Area>,
    stream: &Stream,
) -> Result<()> {
    let params = launch.params;
    let Images { format: PixelFormat { channels, input, output }, source, result } = images;
    let (width, height) = (params.width as usize, params.height as usize);
    let check = |what, found: usize, (width, height, channels): (usize, usize, usize), pitch: usize| {
        let required = (height - 1) * pitch + width * channels;
        if found < required {
            return Err(Error::Length { what, width, height, channels, required, found });
        }
        Ok(())
    };
    let size = (width, height, channels);
    check("source on the device", source.bytes / input.bytes(), size, params.src_pitch as usize)?;
    check("result on the device", result.bytes / output.bytes(), size, params.dst_pitch as usize)?;
    let (mask_width, mask_height) = launch.mask_size;
    let mask = match mask {
        Some(mask) => {
            check("mask on the device", mask.bytes / size_of::<f32>(), (mask_width, mask_height, 1), mask_width)?;
            mask.address
        }
        None => 0,
    };
    let Launch { grid, block, shared_bytes, .. } = *launch;
    // SAFETY: the parameter list is that of every entry (kernels_gpu::registry), the lengths were checked above; the
    // rest is the caller's promise.
    unsafe {
        launch!(function<<<grid, block, shared_bytes, stream>>>(
            DevicePointer::<u8>::from_raw(source.address),
            DevicePointer::<u8>::from_raw(result.address),
            DevicePointer::<f32>::from_raw(mask),
            ByValue(params)
        ))
    }
    .context("launch a convolution kernel")
}

/// Launches a conversion between an image and planes; see [`kernels_gpu::util::planes`].
///
/// # Errors
/// As for [`convolution`].
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes. They begin at
///   multiples of 16 bytes, and do not overlap.
/// - They stay so until the launch is done. Until then nobody writes `from`, or uses `to`.
/// - `function` is `conversion`, and `grid` is for the rows and the width of `params`.
pub(super) unsafe fn conversion(
    function: &Function<'_>,
    conversion: &Conversion,
    (grid, params): ((u32, u32), PlaneParams),
    (from, to): (Area, Area),
    stream: &Stream,
) -> Result<()> {
    let (width, height, channels) = (params.width as usize, params.rows as usize, conversion.channels as usize);
    let rows = |pitch: i32, values: usize| (height - 1) * pitch as usize + values;
    let image = rows(params.interleaved_pitch, width * channels) * conversion.pixel.bytes();
    let planes = ((channels - 1) * params.plane_stride as usize + rows(params.plane_pitch, width)) * size_of::<f32>();
    let (required_from, required_to) = if conversion.is_to_planes() { (image, planes) } else { (planes, image) };
    for (found, required) in [(from.bytes, required_from), (to.bytes, required_to)] {
        if found < required {
            return Err(Error::Length { what: "bytes of planes", width, height, channels, required, found });
        }
    }
    // SAFETY: the parameter list is that of every conversion, the lengths were checked above; the rest is the caller's
    // promise.
    unsafe {
        launch!(function<<<grid, BLOCK, 0, stream>>>(
            DevicePointer::<u8>::from_raw(from.address),
            DevicePointer::<u8>::from_raw(to.address),
            ByValue(params)
        ))
    }
    .context("launch a conversion between an image and planes")
}

/// Launches the kernel that copies `bytes` bytes, a multiple of 16; see [`kernels_gpu::util::memcpy`].
///
/// # Errors
/// As for [`convolution`].
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes.
/// - They begin at multiples of 16 bytes, and do not overlap.
/// - They stay so until the launch is done. Until then nobody writes `from`, or uses `to`.
pub(super) unsafe fn copy(function: &Function<'_>, to: Area, from: Area, bytes: usize, stream: &Stream) -> Result<()> {
    let found = from.bytes.min(to.bytes);
    if found < bytes || !bytes.is_multiple_of(16) {
        let (width, height, channels, required) = (bytes, 1, 1, bytes.next_multiple_of(16));
        return Err(Error::Length { what: "copy on the device", width, height, channels, required, found });
    }
    let quads = (bytes / 16) as u32;
    let block = kernels_gpu::util::memcpy::BLOCK;
    // SAFETY: both hold the bytes, as was just checked; the rest is the caller's promise.
    unsafe {
        launch!(function<<<quads.div_ceil(block), block, 0, stream>>>(
            DevicePointer::<u8>::from_raw(from.address),
            DevicePointer::<u8>::from_raw(to.address),
            quads
        ))
    }
    .context("launch a copy")
}

/// Launches the kernel that measures the rate of fused multiply-adds; see [`kernels_gpu::util::fma_peak`].
///
/// # Errors
/// As for [`convolution`].
pub(super) fn fma_rate(
    function: &Function<'_>,
    blocks: u32,
    rounds: u32,
    sink: &mut DeviceBuffer<f32>,
    stream: &Stream,
) -> Result<()> {
    if sink.is_empty() {
        let (width, height, channels, required, found) = (1, 1, 1, 1, 0);
        return Err(Error::Length { what: "sink on the device", width, height, channels, required, found });
    }
    let threads = kernels_gpu::util::fma_peak::BLOCK;
    // SAFETY: the kernel writes at most element 0 of `sink`, which exists.
    unsafe { launch!(function<<<blocks, threads, 0, stream>>>(sink.as_device_ptr(), rounds, 1.000_1_f32)) }
        .context("launch the kernel that measures the multiply-add rate")
}
