//! The driver calls that `cust` does not offer, each behind a small function. Copies between host and device are in
//! [`lend`](super::lend) alone.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::ManuallyDrop;

use cust::device::Device;
use cust::function::Function;
use cust::memory::LockedBuffer;
use cust::stream::Stream;
use cust::sys::{CUdevice, CUdevice_attribute, CUfunction, CUfunction_attribute, CUmodule, CUstream};

use super::launch::Area;
use super::status::{self, Failure, checked};
use crate::{Error, Result};

// The driver's functions, with statuses as the numbers that they are: a newer driver has some that `cust`'s enum lacks.
unsafe extern "C" {
    fn cuDeviceGetAttribute(value: *mut i32, attribute: CUdevice_attribute, device: CUdevice) -> u32;
    fn cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: i32) -> u32;
    fn cuFuncGetModule(module: *mut CUmodule, function: CUfunction) -> u32;
    fn cuModuleGetGlobal_v2(address: *mut u64, bytes: *mut usize, module: CUmodule, name: *const c_char) -> u32;
    fn cuModuleLoadDataEx(
        module: *mut CUmodule,
        image: *const c_void,
        count: u32,
        options: *mut i32,
        values: *mut *mut c_void,
    ) -> u32;
    fn cuModuleUnload(module: CUmodule) -> u32;
    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, flags: u32) -> u32;
    fn cuMemsetD8Async(to: u64, byte: u8, count: usize, stream: CUstream) -> u32;
    fn cuStreamCreate(stream: *mut CUstream, flags: u32) -> u32;
    fn cuStreamIsCapturing(stream: CUstream, status: *mut i32) -> u32;
    fn cuStreamSynchronize(stream: CUstream) -> u32;
}

/// A device attribute that `cust`'s list lacks.
pub(super) fn attribute(device: Device, attribute: CUdevice_attribute) -> Result<i32, Failure> {
    let mut value = 0;
    // SAFETY: the driver writes one integer.
    checked(unsafe { cuDeviceGetAttribute(&raw mut value, attribute, device.as_raw()) })?;
    Ok(value)
}

/// Lets blocks of `function` have up to `bytes` of dynamic shared memory. Beyond 48 KiB CUDA wants to be asked.
pub(super) fn allow_shared_memory(function: &Function<'_>, bytes: u32) -> Result<(), Failure> {
    let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the handle belongs to a loaded module; the driver checks the number.
    checked(unsafe { cuFuncSetAttribute(function.to_raw(), attribute, bytes as i32) })
}

/// The address of a constant array in the module that `function` belongs to, and its bytes.
pub(super) fn constant(function: &Function<'_>, symbol: &str) -> Result<(u64, usize), Failure> {
    // No module has a name with a zero byte in it.
    let name = CString::new(symbol).map_err(|_| Failure(status::NOT_FOUND))?;
    let mut module = std::ptr::null_mut();
    let (mut address, mut bytes) = (0, 0);
    // SAFETY: the driver writes a handle, an address and a size; `cust` keeps the module loaded as long as `function`
    // lives.
    unsafe {
        checked(cuFuncGetModule(&raw mut module, function.to_raw()))?;
        checked(cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module, name.as_ptr()))?;
    }
    Ok((address, bytes))
}

/// The status with which the driver refuses a module, where `cust` has no name for it; None if it does not refuse it
/// now.
pub(super) fn refusal(ptx: &CStr) -> Option<Failure> {
    let mut module = std::ptr::null_mut();
    // SAFETY: the driver reads a C string and no options, and writes a handle.
    let loaded = unsafe {
        cuModuleLoadDataEx(&raw mut module, ptx.as_ptr().cast(), 0, std::ptr::null_mut(), std::ptr::null_mut())
    };
    if let Err(failure) = checked(loaded) {
        return Some(failure);
    }
    // SAFETY: the handle is of above, and nothing else has it. A failure leaves the module in the context until that
    // ends.
    let _ = checked(unsafe { cuModuleUnload(module) });
    None
}

/// The device's own address of page-locked memory of the host.
pub(super) fn mapped(memory: &mut LockedBuffer<u8>) -> Result<u64, Failure> {
    let mut address = 0;
    // SAFETY: the driver checks that the memory is page-locked, and writes one address.
    checked(unsafe { cuMemHostGetDevicePointer_v2(&raw mut address, memory.as_mut_ptr().cast(), 0) })?;
    Ok(address)
}

/// Fills memory of the device with one byte, in the order of the stream.
///
/// # Safety
/// The area is memory of the stream's device until the stream has done this, and nobody else uses it until then.
pub(super) unsafe fn fill(area: Area, byte: u8, stream: &Stream) -> Result<(), Failure> {
    // SAFETY: this function requires the area to be the device's and unused by others until the fill is done.
    checked(unsafe { cuMemsetD8Async(area.address, byte, area.bytes, stream.as_inner()) })
}

/// A new stream with the flag `CU_STREAM_NON_BLOCKING`; [`super`] says why. `cust` removes this flag.
pub(super) fn stream() -> Result<Stream, Failure> {
    const NON_BLOCKING: u32 = 1;
    let mut handle = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    checked(unsafe { cuStreamCreate(&raw mut handle, NON_BLOCKING) })?;
    // SAFETY: the stream is new, so the value that destroys it is the only one of it.
    Ok(ManuallyDrop::into_inner(unsafe { stream_of(handle) }))
}

/// The value of `cust` for a stream. Its drop destroys the stream.
///
/// # Safety
/// - The handle is a stream that lives at least as long as the value, or a default stream: 0, 1, 2.
/// - At most one value of a stream is dropped, and none of a default stream.
pub(super) unsafe fn stream_of(handle: CUstream) -> ManuallyDrop<Stream> {
    // SAFETY: the version of `cust` is pinned, and its stream has one field, the handle. The sizes are equal, which the
    // compiler checks.
    let stream = ManuallyDrop::new(unsafe { std::mem::transmute::<CUstream, Stream>(handle) });
    debug_assert_eq!(stream.as_inner(), handle);
    stream
}

/// The legacy default stream, which is always open.
pub(super) fn default_stream() -> ManuallyDrop<Stream> {
    // SAFETY: the null handle is that stream in each context.
    unsafe { stream_of(std::ptr::null_mut()) }
}

/// Whether work that the stream is given becomes a part of a graph. True also if the driver answers with an error. It
/// does so for the legacy default stream while a blocking stream is captured.
pub(super) fn is_captured(stream: &Stream) -> bool {
    let mut status = 0;
    // SAFETY: the stream is open; the driver writes one number.
    checked(unsafe { cuStreamIsCapturing(stream.as_inner(), &raw mut status) }).is_err() || status != 0
}

/// Waits until the device has done all that the stream was given, or never will.
///
/// On return, with an error or without, the device reads and writes nothing more for this stream:
/// - A status of a lost device ([`Failure::is_device_lost`]) ends the context. The driver API's documentation
///   (`CUresult`) says that all further work in it returns the same error and that its memory is gone.
/// - After any other status the wait is repeated. The documentation of `cuStreamSynchronize` names besides those above
///   only statuses by which the driver, the context or the stream is gone. So where every attempt fails, the device is
///   lost, too.
///
/// # Errors
/// [`Error::DeviceLost`]; or the first failure, as [`Error::Driver`], if a later attempt succeeded.
pub(super) fn finish(stream: &Stream, action: &str) -> Result<()> {
    const ATTEMPTS: usize = 4;
    // SAFETY: the stream is open.
    let wait = || checked(unsafe { cuStreamSynchronize(stream.as_inner()) });
    let Err(first) = wait() else { return Ok(()) };
    let mut last = first;
    for _ in 1..ATTEMPTS {
        if last.is_device_lost() {
            break;
        }
        match wait() {
            Ok(()) => return Err(first.into_error(action)),
            Err(failure) => last = failure,
        }
    }
    Err(Error::DeviceLost { action: action.to_owned(), source: last.describe() })
}
