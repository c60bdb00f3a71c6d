//! Defects on purpose: what the fake driver is there to report, it does report.

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::memory::{AsyncCopyDestination, CopyDestination, DeviceBuffer, LockedBuffer, mem_get_info};
use cust::stream::{Stream, StreamFlags};
use cust::sys;
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, Report};

pub(crate) const TESTS: &[Test] = &[
    ("planted_leak", leak),
    ("planted_use_after_return", use_after_return),
    ("planted_begin_after_return", begin_after_return),
    ("planted_destroyed_handle", destroyed_handle),
    ("planted_no_context", no_context),
    ("planted_host_pointer", host_pointer),
    ("planted_free_in_use", free_in_use),
    ("copies_complete_late", copies_complete_late),
    ("a_lost_device_stays_lost", a_lost_device_stays_lost),
    ("a_late_failure_shows_at_the_next_wait", a_late_failure_shows_at_the_next_wait),
];

/// Work waits until somebody waits for it.
const LATE: &str = "delay_us=5000000";

/// A context, and a stream in it.
fn open(settings: &str) -> Result<(Fake, Context, Stream), Failed> {
    let fake = Fake::get();
    fake.reset(settings);
    cust::init(cust::CudaFlags::empty())?;
    let context = Context::new(Device::get_device(0)?)?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    Ok((fake, context, stream))
}

/// Checks that something was reported, and nothing else.
#[track_caller]
fn reports(report: &Report, words: &str) {
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
        // SAFETY: it is not: the source is lent, and nobody waits. The fake driver does not do the copy.
        unsafe { buffer.async_copy_from(source, &stream) }
    })?;
    reports(&fake.report(), "has returned");
    stream.synchronize()?;
    let mut found = [1_u8; 100];
    buffer.copy_to(&mut found)?;
    assert_eq!(found, [0; 100], "what is forbidden is not done");
    Ok(())
}

fn begin_after_return() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let buffer = DeviceBuffer::<u8>::zeroed(100)?;
    let mut result = LockedBuffer::<u8>::new(&7, 100)?;
    fake.lending(&[0_u8], &mut result, |_, _| ());
    assert!(fake.report().violations.is_empty());
    // SAFETY: the stream is waited for in the next line.
    unsafe { buffer.async_copy_to(&mut result, &stream) }?;
    stream.synchronize()?;
    reports(&fake.report(), "which a call that has returned had");
    assert_eq!(result[0], 7, "what is forbidden is not done");
    Ok(())
}

fn destroyed_handle() -> Result<(), Failed> {
    let (fake, _context, stream) = open("")?;
    let handle = stream.as_inner();
    drop(stream);
    // SAFETY: a driver checks its handles.
    let status = unsafe { sys::cuStreamSynchronize(handle) };
    assert_eq!(status, sys::CUresult::CUDA_ERROR_INVALID_HANDLE);
    reports(&fake.report(), "stream");
    Ok(())
}

fn no_context() -> Result<(), Failed> {
    let (fake, _context, _stream) = open("")?;
    let found = std::thread::spawn(mem_get_info).join().expect("it does not panic");
    assert_eq!(found, Err(cust::error::CudaError::InvalidContext));
    reports(&fake.report(), "no context is current");
    Ok(())
}

fn host_pointer() -> Result<(), Failed> {
    let (fake, _context, _stream) = open("")?;
    let (from, mut to) = ([1_u8; 16], [0_u8; 16]);
    // SAFETY: a driver checks that the address is one of the device.
    let status = unsafe { sys::cuMemcpyDtoH_v2(to.as_mut_ptr().cast(), from.as_ptr().addr() as u64, 16) };
    assert_eq!(status, sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    reports(&fake.report(), "do not lie in one block");
    Ok(())
}

fn free_in_use() -> Result<(), Failed> {
    let (fake, _context, stream) = open(LATE)?;
    let buffer = DeviceBuffer::from_slice(&[5_u8; 100])?;
    let mut result = LockedBuffer::<u8>::new(&7, 100)?;
    // SAFETY: dropping the buffer waits, as the driver promises.
    unsafe { buffer.async_copy_to(&mut result, &stream) }?;
    drop(buffer);
    assert_eq!(result[99], 5, "freeing waits for the copy");
    assert_eq!(fake.report().waiting_frees, 1);
    Ok(())
}

fn copies_complete_late() -> Result<(), Failed> {
    let (_fake, _context, stream) = open(LATE)?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    // The zeros come by another stream, for which this one does not wait.
    CurrentContext::synchronize()?;
    let mut source = LockedBuffer::<u8>::new(&1, 100)?;
    // SAFETY: the stream is waited for below, and the source is there until then.
    unsafe { buffer.async_copy_from(&source, &stream) }?;
    // What a program must not do: the copy takes the new values, because it has not begun.
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
    let (fake, context, stream) = open("delay_us=5000000;fail=cuMemGetInfo_v2:1:999:lost")?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    let source = LockedBuffer::<u8>::new(&1, 100)?;
    // SAFETY: the device is lost in the next line, and the copy is abandoned.
    unsafe { buffer.async_copy_from(&source, &stream) }?;
    assert_eq!(mem_get_info(), Err(UnknownError));
    assert_eq!(stream.synchronize(), Err(UnknownError));
    assert_eq!(CurrentContext::set_current(&context), Err(UnknownError));
    assert_eq!(DeviceBuffer::<u8>::zeroed(1).err(), Some(UnknownError));
    drop((buffer, source, stream, context));
    // What could be freed was: a lost device is no reason for a leak.
    assert_eq!(fake.report().trouble(), None);
    Ok(())
}

fn a_late_failure_shows_at_the_next_wait() -> Result<(), Failed> {
    use cust::error::CudaError::LaunchFailed;
    let (_fake, _context, stream) = open("delay_us=5000000;fail=cuMemsetD8Async:1:719:late")?;
    let mut buffer = DeviceBuffer::<u8>::zeroed(100)?;
    // SAFETY: nobody else uses the buffer.
    unsafe { buffer.set_8_async(1, &stream) }?;
    assert!(mem_get_info().is_ok(), "nothing has failed yet");
    assert_eq!(stream.synchronize(), Err(LaunchFailed));
    assert_eq!(mem_get_info(), Err(LaunchFailed), "the context is lost");
    Ok(())
}
