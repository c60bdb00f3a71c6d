//! Planted defects. The fake driver must report each of them.

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer, LockedBuffer, mem_get_info};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, LATE, Report};

pub(crate) const TESTS: &[Test] = &[
    ("planted_leak", leak),
    ("planted_use_after_return", use_after_return),
    ("planted_begin_after_return", begin_after_return),
    ("planted_destroyed_handle", destroyed_handle),
    ("planted_no_context", no_context),
    ("planted_host_pointer", host_pointer),
    ("planted_free_in_use", free_in_use),
    ("planted_memset_without_order", memset_without_order),
    ("planted_copy_without_order", copy_without_order),
    ("planted_read_without_order", read_without_order),
    ("planted_default_stream_during_a_capture", default_stream_during_a_capture),
    ("planted_unsafe_call_during_a_capture", unsafe_call_during_a_capture),
    ("planted_wait_during_a_capture", wait_during_a_capture),
    ("blocking_streams_are_ordered", blocking_streams_are_ordered),
    ("copies_complete_late", copies_complete_late),
    ("a_lost_device_stays_lost", a_lost_device_stays_lost),
    ("a_late_failure_shows_at_the_next_wait", a_late_failure_shows_at_the_next_wait),
];

/// A context, and a stream in it.
fn open(settings: &str) -> Result<(Fake, Context, Stream), Failed> {
    let fake = Fake::get();
    fake.reset(settings);
    cust::init(cust::CudaFlags::empty())?;
    let context = Context::new(Device::get_device(0)?)?;
    let stream = non_blocking()?;
    Ok((fake, context, stream))
}

/// A stream that is not ordered with the legacy default stream. `cust` makes none.
fn non_blocking() -> Result<Stream, Failed> {
    let mut handle: sys::CUstream = std::ptr::null_mut();
    // SAFETY: the driver writes one handle.
    status(unsafe { sys::cuStreamCreate(&raw mut handle, 1) })?;
    // SAFETY: the stream of the pinned version of `cust` has one field, the handle.
    Ok(unsafe { std::mem::transmute::<sys::CUstream, Stream>(handle) })
}

/// Turns the status of a driver function into a result.
fn status(status: sys::CUresult) -> Result<(), Failed> {
    if status == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { Err(format!("{status:?}").into()) }
}

/// Checks that misuse was reported, and that each report contains `words`.
#[track_caller]
fn assert_reported(report: &Report, words: &str) {
    let found = &report.violations;
    assert!(!found.is_empty() && found.iter().all(|text| text.contains(words)), "\"{words}\" in {found:?}");
}

fn leak() -> Result<(), Failed> {
    let (fake, context, stream) = open("")?;
    std::mem::forget(DeviceBuffer::<u8>::zeroed(10)?);
    std::mem::forget(LockedBuffer::<u8>::new(&0, 10)?);
    assert!(fake.report().live.contains_key("device_memory"));
    drop((stream, context));
    let report = fake.report();
    assert_eq!(report.leaked["device_memory"], 1);
    assert_eq!(report.leaked["page_locked_memory"], 1);
    assert!(report.trouble().is_some());
    Ok(())
}

fn use_after_return() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    CurrentContext::synchronize()?;
    let source = LockedBuffer::<u8>::new(&7, 100)?;
    fake.lending(&source, &mut [0_u8], |source, _| {
        // SAFETY: the fake driver does not copy. On a real driver the copy would read the source after the call.
        unsafe { buffer.async_copy_from(source, &stream) }
    })?;
    assert_reported(&fake.report(), "has returned");
    stream.synchronize()?;
    let mut found = [1_u8; 100];
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [0; 100], "the fake driver does not do a forbidden copy");
    Ok(())
}

fn begin_after_return() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let buffer = DeviceBuffer::<u8>::zeroed(100)?;
    CurrentContext::synchronize()?;
    let mut result = LockedBuffer::<u8>::new(&7, 100)?;
    fake.lending(&[0_u8], &mut result, |_, _| ());
    assert!(fake.report().violations.is_empty());
    // SAFETY: the stream is waited for in the next line.
    unsafe { buffer.async_copy_to(&mut result, &stream) }?;
    stream.synchronize()?;
    assert_reported(&fake.report(), "which a call that has returned had");
    assert_eq!(result[0], 7, "the fake driver does not do a forbidden copy");
    Ok(())
}

fn destroyed_handle() -> Result<(), Failed> {
    let (fake, _context, stream) = open("")?;
    let handle = stream.as_inner();
    drop(stream);
    // SAFETY: a driver checks its handles.
    let status = unsafe { sys::cuStreamSynchronize(handle) };
    assert_eq!(status, sys::CUresult::CUDA_ERROR_INVALID_HANDLE);
    assert_reported(&fake.report(), "stream");
    Ok(())
}

fn no_context() -> Result<(), Failed> {
    let (fake, _context, _stream) = open("")?;
    let found = std::thread::spawn(mem_get_info).join().expect("it does not panic");
    assert_eq!(found, Err(cust::error::CudaError::InvalidContext));
    assert_reported(&fake.report(), "no context is current");
    Ok(())
}

fn host_pointer() -> Result<(), Failed> {
    let (fake, _context, _stream) = open("")?;
    let (from, mut to) = ([1_u8; 16], [0_u8; 16]);
    // SAFETY: a driver checks that the address is one of the device.
    let status = unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from.as_ptr().addr() as u64, 16) };
    assert_eq!(status, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_reported(&fake.report(), "do not lie in one block");
    Ok(())
}

fn free_in_use() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let buffer = DeviceBuffer::from_slice(&[5_u8; 100])?;
    CurrentContext::synchronize()?;
    let mut result = LockedBuffer::<u8>::new(&7, 100)?;
    // SAFETY: `cuMemFree`, by which the buffer is dropped, waits for the copy.
    unsafe { buffer.async_copy_to(&mut result, &stream) }?;
    drop(buffer);
    assert_eq!(result[99], 5, "freeing waits for the copy");
    assert_eq!(fake.report().waiting_frees, 1);
    Ok(())
}

/// Memory of 100 bytes that nobody has written.
fn unwritten() -> Result<DeviceBuffer<u8>, Failed> {
    // SAFETY: the fake driver writes all ones.
    Ok(unsafe { DeviceBuffer::uninitialized(100) }?)
}

/// The value of the bytes, which all are equal, as a copy in the stream finds it.
fn read_in(stream: &Stream, buffer: &DeviceBuffer<u8>) -> Result<u8, Failed> {
    let mut result = LockedBuffer::<u8>::new(&7, 100)?;
    // SAFETY: the stream is waited for in the next line.
    unsafe { buffer.async_copy_to(&mut result, stream) }?;
    stream.synchronize()?;
    assert!(result.iter().all(|byte| *byte == result[0]));
    Ok(result[0])
}

/// Sets memory to 3 by a memset without a stream, and reads it in `stream`. The memset returns before it is done.
///
/// `order` runs between the two calls, and may order the copy after the memset.
fn set_and_read(stream: &Stream, order: impl FnOnce() -> Result<(), Failed>) -> Result<u8, Failed> {
    let buffer = unwritten()?;
    // SAFETY: the memory has the bytes.
    status(unsafe { sys::cuMemsetD8_v2(buffer.as_device_ptr().as_raw(), 3, 100) })?;
    order()?;
    let found = read_in(stream, &buffer)?;
    CurrentContext::synchronize()?;
    Ok(found)
}

fn memset_without_order() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let blocking = Stream::new(StreamFlags::DEFAULT, None)?;
    assert_eq!(set_and_read(&blocking, || Ok(()))?, 3);
    assert_eq!(set_and_read(&stream, || Ok(CurrentContext::synchronize()?))?, 3);
    let by_event = || {
        let mut event = std::ptr::null_mut();
        // SAFETY: the driver writes one handle. It destroys the event after the wait for it.
        unsafe {
            status(sys::cuEventCreate(&raw mut event, 0))?;
            status(sys::cuEventRecord(event, std::ptr::null_mut()))?;
            status(sys::cuStreamWaitEvent(stream.as_inner(), event, 0))?;
            status(sys::cuEventDestroy_v2(event))
        }
    };
    assert_eq!(set_and_read(&stream, by_event)?, 3);
    assert!(fake.report().violations.is_empty());
    assert_eq!(set_and_read(&stream, || Ok(()))?, u8::MAX, "the memset is not done");
    assert_reported(
        &fake.report(),
        "nothing orders a copy in a non-blocking stream after a memset in the legacy default",
    );
    Ok(())
}

/// A copy from page-locked memory returns when it is done. A copy from pageable memory returns when it has read it.
fn copy_without_order() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    for is_locked in [true, false] {
        let buffer = unwritten()?;
        let (locked, pageable) = (LockedBuffer::<u8>::new(&4, 100)?, [4_u8; 100]);
        let from = if is_locked { locked.as_ptr() } else { pageable.as_ptr() };
        // SAFETY: both have the bytes.
        status(unsafe { sys::cuMemcpyHtoD_v2(buffer.as_device_ptr().as_raw(), from.cast(), 100) })?;
        assert_eq!(read_in(&stream, &buffer)?, if is_locked { 4 } else { u8::MAX });
        assert_eq!(fake.report().violations.is_empty(), is_locked);
        CurrentContext::synchronize()?;
    }
    assert_reported(
        &fake.report(),
        "nothing orders a copy in a non-blocking stream after a copy in the legacy default",
    );
    Ok(())
}

/// A copy in the default stream does not wait for a non-blocking stream.
fn read_without_order() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let (mut buffer, mut found) = (unwritten()?, [0_u8; 100]);
    // SAFETY: the fake driver runs one operation at a time. On a real driver the memset and the copy would race.
    unsafe { buffer.set_8_async(1, &stream) }?;
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [u8::MAX; 100], "the memset is not done");
    assert_reported(
        &fake.report(),
        "nothing orders a copy in the legacy default stream after a memset in a non-blocking",
    );
    stream.synchronize()?;
    Ok(())
}

fn blocking_streams_are_ordered() -> Result<(), Failed> {
    let (fake, _context, _stream) = open(LATE)?;
    let blocking = Stream::new(StreamFlags::DEFAULT, None)?;
    let mut found = [0_u8; 100];
    let mut buffer = unwritten()?;
    // SAFETY: the default stream waits for the blocking one, and the copy waits for the default stream.
    unsafe { buffer.set_8_async(1, &blocking) }?;
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [1; 100]);
    // The default stream of this thread is a blocking stream.
    let of_thread: sys::CUstream = std::ptr::without_provenance_mut(2);
    // SAFETY: as above.
    status(unsafe { sys::cuMemsetD8Async(buffer.as_device_ptr().as_raw(), 2, 100, of_thread) })?;
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [2; 100]);
    let report = fake.report();
    assert_eq!((report.violations.len(), report.blocking_streams), (0, 1));
    Ok(())
}

/// Begins the capture of a stream, calls `work` on another thread, and ends the capture. Returns the status of `work`
/// and that of the end.
fn during_a_capture(
    context: &Context,
    stream: &Stream,
    mode: sys::CUstreamCaptureMode,
    work: impl FnOnce() -> sys::CUresult + Send,
) -> Result<[sys::CUresult; 2], Failed> {
    let mut graph = std::ptr::null_mut();
    // SAFETY: the stream is open, and the driver writes one handle.
    status(unsafe { sys::cuStreamBeginCapture_v2(stream.as_inner(), mode) })?;
    let work = std::thread::scope(|scope| {
        let other = scope.spawn(|| CurrentContext::set_current(context).map(|()| work()));
        other.join().expect("it does not panic")
    })?;
    // SAFETY: as above. A graph is destroyed once.
    unsafe {
        let ended = sys::cuStreamEndCapture(stream.as_inner(), &raw mut graph);
        if !graph.is_null() {
            status(sys::cuGraphDestroy(graph))?;
        }
        Ok([work, ended])
    }
}

use sys::CUresult::{
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED as INVALIDATED,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as UNSUPPORTED, CUDA_SUCCESS as SUCCESS,
};
use sys::CUstreamCaptureMode::{
    CU_STREAM_CAPTURE_MODE_GLOBAL as GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED as RELAXED,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as THREAD_LOCAL,
};

fn default_stream_during_a_capture() -> Result<(), Failed> {
    let (fake, context, stream) = open("")?;
    let blocking = Stream::new(StreamFlags::DEFAULT, None)?;
    let buffer = unwritten()?;
    let (address, pageable) = (buffer.as_device_ptr().as_raw(), [1_u8; 100]);
    // SAFETY: the memory has the bytes.
    let set = || unsafe { sys::cuMemsetD8_v2(address, 3, 100) };
    // SAFETY: as above.
    let copy = || unsafe { sys::cuMemcpyHtoD_v2(address, pageable.as_ptr().cast(), 100) };
    assert_eq!(during_a_capture(&context, &stream, THREAD_LOCAL, set)?, [SUCCESS; 2]);
    assert_eq!(during_a_capture(&context, &stream, THREAD_LOCAL, copy)?, [SUCCESS; 2]);
    assert!(fake.report().violations.is_empty());
    for mode in [THREAD_LOCAL, RELAXED] {
        assert_eq!(during_a_capture(&context, &blocking, mode, set)?, [IMPLICIT, INVALIDATED]);
        assert_eq!(during_a_capture(&context, &blocking, mode, copy)?, [IMPLICIT, INVALIDATED]);
    }
    assert_reported(&fake.report(), "while a blocking stream is captured");
    Ok(())
}

fn unsafe_call_during_a_capture() -> Result<(), Failed> {
    let (fake, context, stream) = open("")?;
    let allocate = || {
        let mut address = 0;
        // SAFETY: the driver writes one address, and frees the memory.
        unsafe {
            match sys::cuMemAlloc_v2(&raw mut address, 100) {
                SUCCESS => sys::cuMemFree_v2(address),
                failure => failure,
            }
        }
    };
    for mode in [THREAD_LOCAL, RELAXED] {
        assert_eq!(during_a_capture(&context, &stream, mode, allocate)?, [SUCCESS; 2]);
    }
    assert!(fake.report().violations.is_empty());
    assert_eq!(during_a_capture(&context, &stream, GLOBAL, allocate)?, [UNSUPPORTED, INVALIDATED]);
    assert_reported(&fake.report(), "while a stream is captured");
    Ok(())
}

fn wait_during_a_capture() -> Result<(), Failed> {
    let (fake, context, stream) = open("")?;
    // SAFETY: a driver checks whether it may wait.
    let wait = || unsafe { sys::cuCtxSynchronize() };
    for mode in [THREAD_LOCAL, RELAXED] {
        assert_eq!(during_a_capture(&context, &stream, mode, wait)?, [UNSUPPORTED, INVALIDATED]);
    }
    assert_reported(&fake.report(), "cuCtxSynchronize while a stream is captured");
    Ok(())
}

fn copies_complete_late() -> Result<(), Failed> {
    let (_fake, _context, stream) = open(LATE)?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    // The zeros are written in another stream. `stream` does not wait for it.
    CurrentContext::synchronize()?;
    let mut source = LockedBuffer::<u8>::new(&1, 100)?;
    // SAFETY: the stream is waited for below, and the source is there until then.
    unsafe { buffer.async_copy_from(&source, &stream) }?;
    // The copy has not begun, so it reads the new values. A program must not do this.
    source.fill(2);
    stream.synchronize()?;
    let mut found = [0_u8; 100];
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [2; 100]);
    // Pageable memory is read before the call returns.
    let mut source = vec![3_u8; 100];
    // SAFETY: as above.
    unsafe { buffer.async_copy_from(&source, &stream) }?;
    source.fill(4);
    stream.synchronize()?;
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [3; 100]);
    Ok(())
}

fn a_lost_device_stays_lost() -> Result<(), Failed> {
    use cust::error::CudaError::UnknownError;
    let (fake, context, stream) = open(&format!("{LATE};fail=cuMemGetInfo_v2:1:999:lost"))?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    let source = LockedBuffer::<u8>::new(&1, 100)?;
    // SAFETY: the device is lost in the next line, and the copy is abandoned.
    unsafe { buffer.async_copy_from(&source, &stream) }?;
    assert_eq!(mem_get_info(), Err(UnknownError));
    assert_eq!(stream.synchronize(), Err(UnknownError));
    assert_eq!(CurrentContext::set_current(&context), Err(UnknownError));
    assert_eq!(DeviceBuffer::<u8>::zeroed(1).err(), Some(UnknownError));
    drop((buffer, source, stream, context));
    // A lost device is no reason for a leak: all memory that can be freed was freed.
    assert_eq!(fake.report().trouble(), None);
    Ok(())
}

fn a_late_failure_shows_at_the_next_wait() -> Result<(), Failed> {
    use cust::error::CudaError::LaunchFailed;
    let (_fake, _context, stream) = open(&format!("{LATE};fail=cuMemsetD8Async:1:719:late"))?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    // SAFETY: nobody else uses the buffer.
    unsafe { buffer.set_8_async(1, &stream) }?;
    assert!(mem_get_info().is_ok(), "nothing has failed yet");
    assert_eq!(stream.synchronize(), Err(LaunchFailed));
    assert_eq!(mem_get_info(), Err(LaunchFailed), "the context is lost");
    Ok(())
}
