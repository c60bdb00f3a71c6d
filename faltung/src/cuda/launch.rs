//! Every launch of the library, behind functions that check what a kernel relies on.
//!
//! # Why a launch is sound
//! A kernel reads and writes what its parameters say. So a function here takes areas of memory, not addresses. Before
//! the launch it checks that the areas are as long as the parameters claim. Grid, block and shared memory come from the
//! entry's own geometry ([`crate::plan`]). The caller keeps the memory alive, and orders the accesses to it.

use std::ffi::c_void;

use cust::function::Function;
use cust::memory::DeviceBuffer;
use cust::stream::Stream;
use cust::sys::{CUDA_KERNEL_NODE_PARAMS, CUfunction, CUstream};
use kernels_gpu::abi::params::padded_mask_width;
use kernels_gpu::fft::passes;
use kernels_gpu::util::planes::proven::{self, ProvenParams};
use kernels_gpu::util::planes::{BLOCK, Conversion, PlaneParams};

use super::graph::GraphBuilder;
use super::status::{DriverResultExt, Failure, checked};
use crate::nd::ArrayLaunch;
use crate::plan::{Launch, Passes};
use crate::{Error, PixelFormat, Result};

unsafe extern "C" {
    fn cuLaunchKernel(
        function: CUfunction,
        grid_x: u32,
        grid_y: u32,
        grid_z: u32,
        block_x: u32,
        block_y: u32,
        block_z: u32,
        shared_bytes: u32,
        stream: CUstream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> u32;
}

/// Where a launch goes.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// It runs in the order of the stream.
    Stream(CUstream),
    /// It runs whenever the graph is launched.
    Graph(&'a GraphBuilder),
}

impl From<&Stream> for Target<'_> {
    fn from(stream: &Stream) -> Self {
        Self::Stream(stream.as_inner())
    }
}

impl<'a> From<&'a GraphBuilder> for Target<'a> {
    fn from(graph: &'a GraphBuilder) -> Self {
        Self::Graph(graph)
    }
}

/// Launches a function, or adds it to a graph.
///
/// # Safety
/// - `arguments` are pointers to a value for each parameter of the function.
/// - The values are such that the function accesses only memory which is there for it until it is done.
/// - A stream is one of the current context, or a default stream.
unsafe fn enqueue<const N: usize>(
    function: &Function<'_>,
    (grid, block, shared_bytes): ((u32, u32), (u32, u32), u32),
    mut arguments: [*mut c_void; N],
    target: Target<'_>,
) -> Result<(), Failure> {
    let (function, arguments, extra) = (function.to_raw(), arguments.as_mut_ptr(), std::ptr::null_mut());
    match target {
        // SAFETY: as this function requires. The driver copies the arguments before it returns.
        Target::Stream(stream) => checked(unsafe {
            cuLaunchKernel(function, grid.0, grid.1, 1, block.0, block.1, 1, shared_bytes, stream, arguments, extra)
        }),
        Target::Graph(graph) => {
            let kernel = CUDA_KERNEL_NODE_PARAMS {
                func: function,
                gridDimX: grid.0,
                gridDimY: grid.1,
                gridDimZ: 1,
                blockDimX: block.0,
                blockDimY: block.1,
                blockDimZ: 1,
                sharedMemBytes: shared_bytes,
                kernelParams: arguments,
                extra,
            };
            // SAFETY: as this function requires.
            unsafe { graph.add(&kernel) }
        }
    }
}

/// A range of device memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) address: u64,
    /// Its length.
    pub(super) bytes: usize,
}

impl Area {
    /// The area without its first `bytes` bytes.
    pub(super) fn behind(self, bytes: usize) -> Self {
        let rest = self.bytes.checked_sub(bytes).expect("the area has the bytes");
        Self { address: self.address + bytes as u64, bytes: rest }
    }

    /// Whether both have a byte.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self.address < other.address + other.bytes as u64 && other.address < self.address + self.bytes as u64
    }
}

/// Checks that areas are as long as a kernel needs. Each has a name and the bytes that are required.
///
/// # Errors
/// [`Error::DeviceLength`] for the first that is shorter.
fn check_lengths<const N: usize>(areas: [(&'static str, Area, usize); N]) -> Result<()> {
    for (what, Area { bytes: found, .. }, required) in areas {
        if found < required {
            return Err(Error::DeviceLength { what, required, found });
        }
    }
    Ok(())
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
/// [`Error::DeviceLength`] if an area is shorter than the parameters say, [`Error::Driver`] if the launch is refused.
/// What goes wrong while the kernel runs shows at the next synchronisation.
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
    target: Target<'_>,
) -> Result<()> {
    let params = launch.params;
    let Images { format: PixelFormat { channels, input, output }, source, result } = images;
    let (width, height) = (params.width as usize, params.height as usize);
    let rows = |pitch: i32, value: usize| ((height - 1) * pitch as usize + width * channels) * value;
    check_lengths([
        ("the source", source, rows(params.src_pitch, input.bytes())),
        ("the result", result, rows(params.dst_pitch, output.bytes())),
    ])?;
    let mask = match mask {
        Some(mask) => {
            let (mask_width, mask_height) = launch.mask_size;
            check_lengths([("the mask", mask, mask_width * mask_height * size_of::<f32>())])?;
            mask.address
        }
        None => 0,
    };
    let Launch { grid, block, shared_bytes, .. } = *launch;
    let (mut source, mut result, mut mask, mut params) = (source.address, result.address, mask, params);
    let arguments: [*mut c_void; 4] =
        [(&raw mut source).cast(), (&raw mut result).cast(), (&raw mut mask).cast(), (&raw mut params).cast()];
    // SAFETY: the parameter list is that of every entry (kernels_gpu::registry), and the lengths were checked above.
    // This function requires that `launch` is planned for `function`, and that the areas are the device's, do not
    // overlap and are not used otherwise until the launch is done.
    unsafe { enqueue(function, (grid, block, shared_bytes), arguments, target) }.context("launch a convolution kernel")
}

/// The areas of a convolution in three passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PassAreas {
    /// Rows at the source's pitch.
    pub(super) source: Area,
    /// Rows at the result's pitch.
    pub(super) result: Area,
    pub(super) scratch: Area,
    pub(super) mask: Area,
}

/// Launches the three passes of [`kernels_gpu::fft::passes`].
///
/// # Errors
/// As for [`convolution`].
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes. They begin at
///   multiples of 16 bytes. Scratch and result overlap none of the others.
/// - They stay so until the launches are done. Until then nobody writes source and mask, or uses scratch and result.
/// - `functions` are the three kernels, in order. The pairs are those of rows of the image of `params`.
pub(super) unsafe fn passes(
    functions: [&Function<'_>; 3],
    &Passes { pairs, mut channels, mut params }: &Passes,
    areas: PassAreas,
    target: Target<'_>,
) -> Result<()> {
    let (width, height, of_pixel) = (params.width as usize, params.height as usize, channels as usize);
    let of_image = |pitch: i32| ((height - 1) * pitch as usize + width * of_pixel) * size_of::<f32>();
    let mask = (params.mask_width as u32, params.mask_height as u32);
    let lengths = [
        ("the source", areas.source, of_image(params.src_pitch)),
        ("the result", areas.result, of_image(params.dst_pitch)),
        ("scratch memory", areas.scratch, pairs as usize * passes::layout::PAIR * size_of::<f32>()),
        ("the mask", areas.mask, passes::layout::length(mask) * size_of::<f32>()),
    ];
    check_lengths(lengths)?;
    let [mut source, mut result, mut scratch, mut mask] = lengths.map(|(_, area, _)| area.address);
    let [source, result, scratch, mask]: [*mut c_void; 4] =
        [(&raw mut source).cast(), (&raw mut result).cast(), (&raw mut scratch).cast(), (&raw mut mask).cast()];
    let [params, channels]: [*mut c_void; 2] = [(&raw mut params).cast(), (&raw mut channels).cast()];
    let [of_rows, of_columns, of_back] = passes::shapes(pairs);
    let [rows, columns, back] = functions;
    // SAFETY: the parameter lists are those of the kernels, and the lengths were checked above. This function requires
    // that the functions are these kernels, and that the areas are the device's, aligned, do not overlap and are not
    // used otherwise until the launches are done. They run one after the other, on a stream and in a graph.
    unsafe {
        enqueue(rows, of_rows, [source, scratch, mask, params], target)
            .and_then(|()| enqueue(columns, of_columns, [scratch, mask, params, channels], target))
            .and_then(|()| enqueue(back, of_back, [scratch, source, result, mask, params], target))
    }
    .context("launch a convolution in three passes")
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
    target: Target<'_>,
) -> Result<()> {
    let (width, height, channels) = (params.width as usize, params.rows as usize, conversion.channels as usize);
    let rows = |pitch: i32, values: usize| (height - 1) * pitch as usize + values;
    let image = rows(params.interleaved_pitch, width * channels) * conversion.pixel.bytes();
    let planes = ((channels - 1) * params.plane_stride as usize + rows(params.plane_pitch, width)) * size_of::<f32>();
    let (required_from, required_to) = if conversion.is_to_planes() { (image, planes) } else { (planes, image) };
    let lengths =
        [("the source of a conversion", from, required_from), ("the result of a conversion", to, required_to)];
    check_lengths(lengths)?;
    let (mut from, mut to, mut params) = (from.address, to.address, params);
    let arguments: [*mut c_void; 3] = [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut params).cast()];
    // SAFETY: the parameter list is that of every conversion, and the lengths were checked above. This function
    // requires that `function` and `grid` fit, and that the areas are the device's, aligned, do not overlap and are not
    // used otherwise until the launch is done.
    unsafe { enqueue(function, (grid, BLOCK, 0), arguments, target) }
        .context("launch a conversion between an image and planes")
}

/// The areas of a conversion of planes to integers with a proof.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProofAreas {
    pub(super) planes: Area,
    /// Rows at the source's pitch.
    pub(super) source: Area,
    /// Rows at the result's pitch.
    pub(super) result: Area,
    /// The coefficients of the ordered sums.
    pub(super) mask: Area,
}

/// Launches a conversion of planes to integers with a proof; see [`kernels_gpu::util::planes::proven`].
///
/// # Errors
/// As for [`convolution`].
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes. They begin at
///   multiples of 16 bytes. The result overlaps none of the others.
/// - They stay so until the launch is done. Until then nobody writes the others, or uses the result.
/// - `function` is `conversion`. Grid and shared memory are for the rows, the width and the mask of `params`.
pub(super) unsafe fn proof(
    function: &Function<'_>,
    conversion: &proven::Conversion,
    (grid, shared_bytes, params): ((u32, u32), u32, ProvenParams),
    areas: ProofAreas,
    target: Target<'_>,
) -> Result<()> {
    let ProofAreas { planes, source, result, mask } = areas;
    let convolution = params.convolution;
    let (width, channels) = (convolution.width as usize, conversion.channels as usize);
    let rows = |rows: usize, pitch: usize, values: usize| (rows - 1) * pitch + values;
    let end = (convolution.first_row + params.rows) as usize;
    let height = convolution.height as usize;
    let of_planes = (channels - 1) * params.plane_stride as usize + rows(end, params.plane_pitch as usize, width);
    let of_image = |pitch: i32| rows(height, pitch as usize, width * channels) * conversion.pixel.bytes();
    let mask_width = padded_mask_width(convolution.mask_width as u32) as usize;
    let lengths = [
        ("planes", planes, of_planes * size_of::<f32>()),
        ("the source", source, of_image(convolution.src_pitch)),
        ("the result", result, of_image(convolution.dst_pitch)),
        ("the mask", mask, mask_width * convolution.mask_height as usize * size_of::<f32>()),
    ];
    check_lengths(lengths)?;
    let [mut planes, mut source, mut result, mut mask] = lengths.map(|(_, area, _)| area.address);
    let mut params = params;
    let arguments: [*mut c_void; 5] = [
        (&raw mut planes).cast(),
        (&raw mut source).cast(),
        (&raw mut result).cast(),
        (&raw mut mask).cast(),
        (&raw mut params).cast(),
    ];
    // SAFETY: the parameter list is that of every conversion with a proof, and the lengths were checked above. This
    // function requires that `function` and the grid fit, and that the areas are the device's, aligned, do not overlap
    // and are not used otherwise until the launch is done.
    unsafe { enqueue(function, (grid, proven::BLOCK, shared_bytes), arguments, target) }
        .context("launch a conversion of planes to integers")
}

/// Launches the kernel that copies `bytes` bytes, a multiple of 16; see [`kernels_gpu::util::memcpy`].
///
/// # Errors
/// As for [`convolution`].
///
/// # Panics
/// If `bytes` is no multiple of 16.
///
/// # Safety
/// - The areas are memory of the stream's device, or page-locked memory that it reads and writes.
/// - They begin at multiples of 16 bytes, and do not overlap.
/// - They stay so until the launch is done. Until then nobody writes `from`, or uses `to`.
pub(super) unsafe fn copy(
    function: &Function<'_>,
    to: Area,
    from: Area,
    bytes: usize,
    target: Target<'_>,
) -> Result<()> {
    assert!(bytes.is_multiple_of(16), "a copy of {bytes} bytes");
    check_lengths([("the source of a copy", from, bytes), ("the result of a copy", to, bytes)])?;
    let (mut from, mut to, mut quads) = (from.address, to.address, (bytes / 16) as u32);
    let block = kernels_gpu::util::memcpy::BLOCK;
    let shape = ((quads.div_ceil(block), 1), (block, 1), 0);
    let arguments: [*mut c_void; 3] = [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut quads).cast()];
    // SAFETY: both hold the bytes, as was just checked. This function requires that the areas are the device's,
    // aligned, do not overlap and are not used otherwise until the launch is done.
    unsafe { enqueue(function, shape, arguments, target) }.context("launch a copy")
}

/// Launches a filter on arrays that the library does not own; see [`kernels_gpu::ndimage`].
///
/// # Errors
/// As for [`convolution`]; [`Error::DeviceLength`] if the list of weights is too short.
///
/// # Safety
/// - `input` and `output` are the addresses of arrays of the stream's device for which the launch was planned.
/// - Both and `weights` stay so until the launch is done. Until then nobody writes the input or the weights, or uses
///   the output.
/// - `weights` holds the launch's list.
/// - `function` is the launch's kernel. `stream` is a stream of the current context, or a default stream.
pub(super) unsafe fn array(
    function: &Function<'_>,
    launch: &ArrayLaunch,
    (input, output): (u64, u64),
    weights: Area,
    stream: CUstream,
) -> Result<()> {
    let ArrayLaunch { grid, block, shared_bytes, params, list, .. } = launch;
    check_lengths([("the weights", weights, size_of_val(list.as_slice()))])?;
    let (mut input, mut output, mut list, mut params) = (input, output, weights.address, *params);
    let arguments: [*mut c_void; 4] =
        [(&raw mut input).cast(), (&raw mut output).cast(), (&raw mut list).cast(), (&raw mut params).cast()];
    let shape = ((*grid, 1), *block, *shared_bytes);
    // SAFETY: the parameter list is that of every kernel of this kind (kernels_gpu::ndimage), and the list's length was
    // checked above. This function requires that the arrays and the weights are the device's, fit the launch and stay
    // so until it is done.
    unsafe { enqueue(function, shape, arguments, Target::Stream(stream)) }.context("launch a filter on arrays")
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
    let area = Area { address: sink.as_device_ptr().as_raw(), bytes: sink.len() * size_of::<f32>() };
    check_lengths([("the sums", area, size_of::<f32>())])?;
    let shape = ((blocks, 1), (kernels_gpu::util::fma_peak::BLOCK, 1), 0);
    let (mut sink, mut rounds, mut factor) = (area.address, rounds, 1.000_1_f32);
    let arguments: [*mut c_void; 3] = [(&raw mut sink).cast(), (&raw mut rounds).cast(), (&raw mut factor).cast()];
    // SAFETY: the parameters are those of the kernel, which writes at most element 0 of `sink`. That exists.
    unsafe { enqueue(function, shape, arguments, stream.into()) }
        .context("launch the kernel that measures the multiply-add rate")
}
