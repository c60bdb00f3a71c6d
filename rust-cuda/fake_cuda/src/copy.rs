//! Copies and fills.

use std::ffi::{c_uint, c_void};

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome};
use crate::memory::FIRST_ADDRESS;
use crate::table::Handle;
use crate::work::{Copy, Fill, Rows, Side, Work, extent};

/// The driver's description of a copy in two dimensions.
#[repr(C)]
struct Memcpy2D {
    src_x_in_bytes: usize,
    src_y: usize,
    src_memory_type: c_uint,
    src_host: *const c_void,
    src_device: u64,
    src_array: *mut c_void,
    src_pitch: usize,
    dst_x_in_bytes: usize,
    dst_y: usize,
    dst_memory_type: c_uint,
    dst_host: *mut c_void,
    dst_device: u64,
    dst_array: *mut c_void,
    dst_pitch: usize,
    width_in_bytes: usize,
    height: usize,
}

/// One side of the copy.
fn side(kind: c_uint, host: *const c_void, device: u64, offset: usize) -> Outcome<Side> {
    /// `CU_MEMORYTYPE_HOST`.
    const HOST: c_uint = 1;
    /// `CU_MEMORYTYPE_DEVICE`.
    const DEVICE: c_uint = 2;
    match kind {
        HOST => Ok(Side::Host(host.expose_provenance() + offset)),
        DEVICE => Ok(Side::Device(device + offset as u64)),
        _ => Err(Code::INVALID_VALUE.into()),
    }
}

impl Copy {
    /// A copy of contiguous bytes.
    fn flat(from: Side, to: Side, bytes: usize) -> Self {
        Self { from, from_pitch: bytes, to, to_pitch: bytes, rows: Rows { bytes, rows: 1 } }
    }
}

/// Enqueues a copy, and waits for it if the real driver does.
fn begin(driver: &mut Driver, mut copy: Copy, stream: Handle, is_synchronous: bool) -> Outcome {
    let stream = driver.stream_handle(stream)?;
    let is_captured = driver.is_capturing(stream)?;
    if is_synchronous {
        driver.refuse_during_capture("a copy that waits")?;
    }
    driver.refuse_legacy_during_capture(stream)?;
    let mut waits = is_synchronous;
    for (is_source, side, pitch) in
        [(true, &mut copy.from, &mut copy.from_pitch), (false, &mut copy.to, &mut copy.to_pitch)]
    {
        if copy.rows.rows > 1 && *pitch < copy.rows.bytes {
            return Err(Failure::misuse(
                Code::INVALID_VALUE,
                format!("rows of {} bytes overlap at a pitch of {pitch}", copy.rows.bytes),
            ));
        }
        let Side::Host(address) = *side else { continue };
        if address as u64 >= FIRST_ADDRESS || address == 0 {
            return Err(Failure::misuse(Code::INVALID_VALUE, format!("{address:#x} is no address of the host")));
        }
        let bytes = extent(copy.rows, *pitch);
        if driver.page_locked.holds(address, bytes) || driver.settings.pageable_late || is_captured {
            continue;
        }
        if is_source {
            if is_synchronous {
                let issued = driver.issued(stream)?;
                driver.wait_for(stream, issued)?;
                // The memory has been read when the call returns. The copy to the device may not be done.
                waits = false;
            }
            let from = std::ptr::with_exposed_provenance::<u8>(address);
            let row = |row: usize| {
                // SAFETY: the rows are valid for reads until the driver's function returns, by its contract.
                unsafe { std::slice::from_raw_parts(from.add(row * *pitch), copy.rows.bytes) }
            };
            let staged = (0..copy.rows.rows).flat_map(|index| row(index).iter().copied()).collect();
            (*side, *pitch) = (Side::Staged(staged), copy.rows.bytes);
        } else {
            waits = true;
        }
    }
    if copy.rows.bytes == 0 || copy.rows.rows == 0 {
        return Ok(());
    }
    let operation = driver.enqueue(stream, Work::Copy(copy))?;
    if waits { driver.wait_for(stream, operation) } else { Ok(()) }
}

/// Reads a caller's description of a copy.
///
/// # Safety
/// - `copy` is null or valid for a read.
unsafe fn described(copy: *const Memcpy2D) -> Outcome<Copy> {
    if copy.is_null() {
        return Err(Code::INVALID_VALUE.into());
    }
    // SAFETY: `copy` is not null, so it is valid for a read.
    let copy = unsafe { &*copy };
    let from_offset = copy.src_y * copy.src_pitch + copy.src_x_in_bytes;
    let to_offset = copy.dst_y * copy.dst_pitch + copy.dst_x_in_bytes;
    Ok(Copy {
        from: side(copy.src_memory_type, copy.src_host, copy.src_device, from_offset)?,
        from_pitch: copy.src_pitch,
        to: side(copy.dst_memory_type, copy.dst_host, copy.dst_device, to_offset)?,
        to_pitch: copy.dst_pitch,
        rows: Rows { bytes: copy.width_in_bytes, rows: copy.height },
    })
}

/// Enqueues a fill. It does not wait, not even on the default stream.
fn fill(driver: &mut Driver, address: u64, value: &[u8], count: usize, stream: Handle) -> Outcome {
    if !address.is_multiple_of(value.len() as u64) {
        return Err(Failure::misuse(Code::INVALID_VALUE, format!("{address:#x} is not aligned for the value to set")));
    }
    if count == 0 {
        return Ok(());
    }
    let stream = driver.stream_handle(stream)?;
    driver.enqueue(stream, Work::Fill(Fill { address, value: value.to_vec(), count })).map(|_| ())
}

driver_functions! {
    /// Waits for the copy from page-locked memory. From pageable memory it waits for earlier work only, and then reads
    /// it.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Host(from.expose_provenance()), Side::Device(to), bytes), 0, true)
    }

    /// Waits for the copy.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Device(from), Side::Host(to.expose_provenance()), bytes), 0, true)
    }

    /// Asynchronous to the host.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Device(from), Side::Device(to), bytes), 0, false)
    }

    /// Asynchronous, with the rules for pageable memory in the crate's documentation.
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: Handle) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Host(from.expose_provenance()), Side::Device(to), bytes), stream, false)
    }

    /// Asynchronous, with the rules for pageable memory in the crate's documentation.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Device(from), Side::Host(to.expose_provenance()), bytes), stream, false)
    }

    /// Asynchronous, in the order of the stream.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) at CONTEXT, |driver| {
        begin(driver, Copy::flat(Side::Device(from), Side::Device(to), bytes), stream, false)
    }

    /// Asynchronous, in the order of the stream. The addresses say where the memory is.
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) at CONTEXT, |driver| {
        let side = |address: u64| match usize::try_from(address) {
            Ok(host) if address < FIRST_ADDRESS => Side::Host(host),
            _ => Side::Device(address),
        };
        begin(driver, Copy::flat(side(from), side(to), bytes), stream, false)
    }

    /// Waits for the copy.
    fn cuMemcpy2D_v2(copy: *const Memcpy2D) at CONTEXT, |driver| {
        // SAFETY: the description is null or valid for a read, by the contract of all driver functions.
        let copy = unsafe { described(copy) }?;
        begin(driver, copy, 0, true)
    }

    /// Waits for the copy.
    fn cuMemcpy2DUnaligned_v2(copy: *const Memcpy2D) at CONTEXT, |driver| {
        // SAFETY: the description is null or valid for a read, by the contract of all driver functions.
        let copy = unsafe { described(copy) }?;
        begin(driver, copy, 0, true)
    }

    /// Asynchronous, with the rules for pageable memory in the crate's documentation.
    fn cuMemcpy2DAsync_v2(copy: *const Memcpy2D, stream: Handle) at CONTEXT, |driver| {
        // SAFETY: the description is null or valid for a read, by the contract of all driver functions.
        let copy = unsafe { described(copy) }?;
        begin(driver, copy, stream, false)
    }

    /// Does not wait, as all fills below.
    fn cuMemsetD8_v2(address: u64, value: u8, count: usize) at CONTEXT, |driver| {
        fill(driver, address, &[value], count, 0)
    }

    /// Fills with a value of 2 bytes.
    fn cuMemsetD16_v2(address: u64, value: u16, count: usize) at CONTEXT, |driver| {
        fill(driver, address, &value.to_ne_bytes(), count, 0)
    }

    /// Fills with a value of 4 bytes.
    fn cuMemsetD32_v2(address: u64, value: u32, count: usize) at CONTEXT, |driver| {
        fill(driver, address, &value.to_ne_bytes(), count, 0)
    }

    /// Fills with a byte, in the order of the stream.
    fn cuMemsetD8Async(address: u64, value: u8, count: usize, stream: Handle) at CONTEXT, |driver| {
        fill(driver, address, &[value], count, stream)
    }

    /// Fills with a value of 2 bytes, in the order of the stream.
    fn cuMemsetD16Async(address: u64, value: u16, count: usize, stream: Handle) at CONTEXT, |driver| {
        fill(driver, address, &value.to_ne_bytes(), count, stream)
    }

    /// Fills with a value of 4 bytes, in the order of the stream.
    fn cuMemsetD32Async(address: u64, value: u32, count: usize, stream: Handle) at CONTEXT, |driver| {
        fill(driver, address, &value.to_ne_bytes(), count, stream)
    }
}
