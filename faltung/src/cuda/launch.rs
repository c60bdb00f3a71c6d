//! Every `launch!` of the project, behind functions that check what a kernel relies on.
//!
//! # Why a launch is sound
//! A kernel reads and writes what its parameters say. So a function here takes device buffers, not addresses, and
//! before it launches it checks that the buffers are as long as the parameters claim; the borrow of the buffers lasts
//! until the stream is synchronised or the next call on the same stream, and one stream does one thing after the other.
//! Grid, block and shared memory come from the entry's own geometry ([`crate::plan`]).

use cust::function::Function;
use cust::launch;
use cust::memory::{DeviceBuffer, DeviceCopy, DevicePointer};
use cust::stream::Stream;
use kernels_gpu::abi::params::Params;

use super::status::DriverResultExt;
use crate::plan::Launch;
use crate::{Error, Layout, Result};

/// [`Params`] as `cust` wants a kernel argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct ByValue(Params);
// SAFETY: plain numbers, no pointers, no padding (the layout is asserted beside the type).
unsafe impl DeviceCopy for ByValue {}

/// Source and result of a convolution, as bytes, and what they are.
pub(super) struct Images<'a> {
    /// Types and channels.
    pub(super) layout: Layout,
    /// Rows at the source's pitch.
    pub(super) source: &'a DeviceBuffer<u8>,
    /// Rows at the result's pitch.
    pub(super) result: &'a mut DeviceBuffer<u8>,
}

/// Launches one kernel of a convolution. `mask` may be empty if the kernel reads constant memory.
///
/// # Errors
/// [`Error::Length`] if a buffer is shorter than the parameters say, [`Error::Driver`] if the launch is refused. What
/// goes wrong while the kernel runs shows at the next synchronisation.
pub(super) fn convolution(
    function: &Function<'_>,
    launch: &Launch,
    images: Images<'_>,
    mask: Option<&DeviceBuffer<f32>>,
    stream: &Stream,
) -> Result<()> {
    let params = launch.params;
    let Images { layout: Layout { channels, input, output }, source, result } = images;
    let (width, height) = (params.width as usize, params.height as usize);
    let check = |what, found: usize, (width, height, channels): (usize, usize, usize), pitch: usize| {
        let required = (height - 1) * pitch + width * channels;
        if found < required {
            return Err(Error::Length { what, width, height, channels, required, found });
        }
        Ok(())
    };
    let size = (width, height, channels);
    check("source on the device", source.len() / input.bytes(), size, params.src_pitch as usize)?;
    check("result on the device", result.len() / output.bytes(), size, params.dst_pitch as usize)?;
    let (mask_width, mask_height) = launch.mask_size;
    let mask = match mask {
        Some(mask) => {
            check("mask on the device", mask.len(), (mask_width, mask_height, 1), mask_width)?;
            mask.as_device_ptr()
        }
        None => DevicePointer::null(),
    };
    let Launch { grid, block, shared_bytes, .. } = *launch;
    // SAFETY: the parameter list is that of every entry (kernels_gpu::registry), the lengths were checked above, the
    // two images are two allocations; a kernel without `mask` reads constant memory, which the caller has set.
    unsafe {
        launch!(function<<<grid, block, shared_bytes, stream>>>(
            source.as_device_ptr(),
            result.as_device_ptr(),
            mask,
            ByValue(params)
        ))
    }
    .context("launch a convolution kernel")
}

/// Launches the kernel that copies `bytes` bytes, a multiple of 16; see [`kernels_gpu::util::memcpy`].
///
/// # Errors
/// As for [`convolution`].
pub(super) fn copy(
    function: &Function<'_>,
    to: &mut DeviceBuffer<u8>,
    from: &DeviceBuffer<u8>,
    bytes: usize,
    stream: &Stream,
) -> Result<()> {
    let found = from.len().min(to.len());
    if found < bytes || !bytes.is_multiple_of(16) {
        let (width, height, channels, required) = (bytes, 1, 1, bytes.next_multiple_of(16));
        return Err(Error::Length { what: "copy on the device", width, height, channels, required, found });
    }
    let quads = (bytes / 16) as u32;
    let block = kernels_gpu::util::memcpy::BLOCK;
    // SAFETY: both hold the bytes, as was just checked, and are two allocations, which begin at multiples of 256 bytes.
    unsafe {
        launch!(function<<<quads.div_ceil(block), block, 0, stream>>>(
            from.as_device_ptr(),
            to.as_device_ptr(),
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
