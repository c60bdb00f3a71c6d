//! The driver calls that `cust` does not offer, each behind a small function, and errors in the driver's own words.

use std::ffi::{CStr, CString};
use std::fmt;

use cust::device::Device;
use cust::error::{CudaError, CudaResult};
use cust::function::Function;
use cust::memory::{DevicePointer, LockedBuffer};
use cust::stream::Stream;
use cust::sys::{self, CUresult};

use crate::{Error, Result};

/// Turns the driver's errors into ours, saying what was being done.
pub(super) trait DuringAction<T> {
    /// The error for a failure to `action`.
    fn to(self, action: impl Into<String>) -> Result<T>;
}

impl<T> DuringAction<T> for CudaResult<T> {
    fn to(self, action: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::Driver { action: action.into(), reason: words(error) })
    }
}

impl<T> DuringAction<T> for Result<T, Failure> {
    fn to(self, action: impl Into<String>) -> Result<T> {
        self.map_err(|failure| Error::Driver { action: action.into(), reason: failure.to_string() })
    }
}

/// The driver's description of an error. `cust` prints it as a quoted C string.
pub(super) fn words(error: CudaError) -> String {
    format!("{} ({error:?})", error.to_string().trim_matches('"'))
}

/// A call of this file that failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The driver's status.
    Status(CUresult),
    /// A constant array that is not there or smaller than what it must hold.
    Constant { symbol: String, needed: usize, found: usize },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => {
                let mut text = std::ptr::null();
                // SAFETY: the driver sets `text` to a static C string, or to null or not at all for an unknown status.
                unsafe {
                    let known = sys::cuGetErrorString(*status, &raw mut text) == CUresult::CUDA_SUCCESS;
                    if known && !text.is_null() {
                        write!(f, "{} ", CStr::from_ptr(text).to_string_lossy())?;
                    }
                }
                write!(f, "({status:?})")
            }
            Self::Constant { symbol, needed, found } => {
                write!(f, "the constant array {symbol} has {found} bytes, {needed} are needed")
            }
        }
    }
}

/// A status as a result.
fn checked(status: CUresult) -> Result<(), Failure> {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Failure::Status(status)),
    }
}

/// A device attribute that `cust`'s list lacks.
pub(super) fn attribute(device: Device, attribute: sys::CUdevice_attribute) -> Result<i32, Failure> {
    let mut value = 0;
    // SAFETY: the driver writes one integer.
    checked(unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device.as_raw()) })?;
    Ok(value)
}

/// Lets blocks of `function` have up to `bytes` of dynamic shared memory. Beyond 48 KiB CUDA wants to be asked.
pub(super) fn allow_shared_memory(function: &Function<'_>, bytes: u32) -> Result<(), Failure> {
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the handle belongs to a loaded module; the driver checks the number.
    checked(unsafe { sys::cuFuncSetAttribute(function.to_raw(), attribute, bytes as i32) })
}

/// The address of a constant array in the module that `function` belongs to.
///
/// Fails if the module has no such symbol or it is smaller than `length` values.
pub(super) fn constant(function: &Function<'_>, symbol: &str, length: usize) -> Result<DevicePointer<f32>, Failure> {
    let needed = length * size_of::<f32>();
    let name = CString::new(symbol).map_err(|_| Failure::Constant { symbol: symbol.to_owned(), needed, found: 0 })?;
    let mut module = std::ptr::null_mut();
    let (mut address, mut found) = (0, 0);
    // SAFETY: the driver writes a handle, an address and a size; `cust` keeps the module loaded as long as `function`
    // lives.
    unsafe {
        checked(sys::cuFuncGetModule(&raw mut module, function.to_raw()))?;
        checked(sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut found, module, name.as_ptr()))?;
    }
    if found < needed {
        return Err(Failure::Constant { symbol: symbol.to_owned(), needed, found });
    }
    Ok(DevicePointer::from_raw(address))
}

/// Copies `values` to `address` in the order of the stream.
///
/// # Safety
/// `address` has room for the values, which stay as they are until the stream has come past the copy.
pub(super) unsafe fn copy_to_device(
    address: DevicePointer<f32>,
    values: &[f32],
    stream: &Stream,
) -> Result<(), Failure> {
    // SAFETY: the source is a slice, the rest is the caller's promise.
    checked(unsafe {
        sys::cuMemcpyHtoDAsync_v2(address.as_raw(), values.as_ptr().cast(), size_of_val(values), stream.as_inner())
    })
}

/// Rows on the device: `rows` of `bytes`, `pitch` bytes from one to the next, from `address` on.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceRows {
    /// Of the first byte.
    pub(super) address: DevicePointer<u8>,
    /// Rows.
    pub(super) rows: usize,
    /// Bytes of a row.
    pub(super) bytes: usize,
    /// Bytes from one row to the next.
    pub(super) pitch: usize,
}

impl DeviceRows {
    /// The description of a copy between these rows and rows without gaps in host memory, all but which goes where.
    fn copy(&self) -> sys::CUDA_MEMCPY2D {
        sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: std::ptr::null(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: self.bytes,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            dstHost: std::ptr::null_mut(),
            dstDevice: 0,
            dstArray: std::ptr::null_mut(),
            dstPitch: self.bytes,
            WidthInBytes: self.bytes,
            Height: self.rows,
        }
    }

    /// Whether nothing lies between the rows.
    fn is_dense(&self) -> bool {
        self.rows <= 1 || self.pitch == self.bytes
    }
}

/// Copies rows without gaps from host memory to the device, in the order of the stream.
///
/// # Safety
/// `from` holds the rows and stays as it is until the stream has come past the copy; `to` lies in an allocation.
pub(super) unsafe fn upload_rows(to: DeviceRows, from: *const u8, stream: &Stream) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    checked(unsafe {
        if to.is_dense() {
            sys::cuMemcpyHtoDAsync_v2(to.address.as_raw(), from.cast(), to.rows * to.bytes, stream.as_inner())
        } else {
            let copy = sys::CUDA_MEMCPY2D {
                srcHost: from.cast(),
                dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstDevice: to.address.as_raw(),
                dstPitch: to.pitch,
                ..to.copy()
            };
            sys::cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner())
        }
    })
}

/// Copies rows from the device to host memory, without gaps, in the order of the stream.
///
/// # Safety
/// `to` has room for the rows, and nobody else uses it until the stream has come past the copy; `from` lies in an allocation.
pub(super) unsafe fn download_rows(to: *mut u8, from: DeviceRows, stream: &Stream) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    checked(unsafe {
        if from.is_dense() {
            sys::cuMemcpyDtoHAsync_v2(to.cast(), from.address.as_raw(), from.rows * from.bytes, stream.as_inner())
        } else {
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
                srcDevice: from.address.as_raw(),
                srcPitch: from.pitch,
                dstHost: to.cast(),
                ..from.copy()
            };
            sys::cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner())
        }
    })
}

/// The device's own address of page-locked memory of the host.
pub(super) fn mapped(memory: &mut LockedBuffer<u8>) -> Result<DevicePointer<u8>, Failure> {
    let mut address = 0;
    // SAFETY: the driver checks that the memory is page-locked, and writes one address.
    checked(unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut address, memory.as_mut_ptr().cast(), 0) })?;
    Ok(DevicePointer::from_raw(address))
}

/// Work that was recorded once, to be given to a stream as a whole.
pub(super) struct Graph(sys::CUgraphExec);

impl Graph {
    /// Records what `work` gives to the stream, which does none of it.
    pub(super) fn record(stream: &Stream, work: impl FnOnce() -> crate::Result<()>) -> crate::Result<Self> {
        const ACTION: &str = "record a graph of launches";
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is open.
        checked(unsafe { sys::cuStreamBeginCapture_v2(stream.as_inner(), mode) }).to(ACTION)?;
        let worked = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: ends what was begun, whether the work succeeded or not; the driver writes a handle, or null.
        let ended = checked(unsafe { sys::cuStreamEndCapture(stream.as_inner(), &raw mut graph) }).to(ACTION);
        let mut exec = std::ptr::null_mut();
        let made = worked.and(ended).and_then(|()| {
            // SAFETY: the graph is whole; the driver writes a handle.
            checked(unsafe { sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) }).to(ACTION)
        });
        if !graph.is_null() {
            // SAFETY: the handle is of above, and what was made of it stands by itself.
            let _ = checked(unsafe { sys::cuGraphDestroy(graph) });
        }
        made.map(|()| Self(exec))
    }

    /// Gives the work to the stream.
    ///
    /// # Safety
    /// What the work uses is there until the stream has come past it.
    pub(super) unsafe fn launch(&self, stream: &Stream) -> Result<(), Failure> {
        // SAFETY: the handle is the graph's own; the rest is the caller's promise.
        checked(unsafe { sys::cuGraphLaunch(self.0, stream.as_inner()) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handle is the graph's own. A failure means that the device is lost, and the graph with it.
        let _ = checked(unsafe { sys::cuGraphExecDestroy(self.0) });
    }
}

/// Copies on the device, in the order of the stream.
///
/// # Safety
/// Both addresses have room for `bytes`, and the two areas do not overlap.
pub(super) unsafe fn copy_on_device(
    to: DevicePointer<f32>,
    from: DevicePointer<f32>,
    bytes: usize,
    stream: &Stream,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    checked(unsafe { sys::cuMemcpyDtoDAsync_v2(to.as_raw(), from.as_raw(), bytes, stream.as_inner()) })
}
