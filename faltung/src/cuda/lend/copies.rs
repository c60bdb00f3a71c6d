//! What uses lent memory: copies between host and device, and graphs. Nothing else in the crate calls these functions
//! of the driver.

use std::ffi::c_void;

use cust::stream::Stream;
use cust::sys::{CUDA_MEMCPY2D, CUgraphExec, CUmemorytype, CUstream};

use super::super::graph::Graph;
use super::super::status::{Failure, checked};
use super::LentToDevice;
use crate::Result;
use crate::rows::{HostRows, HostRowsMut};

unsafe extern "C" {
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: CUstream) -> u32;
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: CUstream) -> u32;
    fn cuMemcpy2DAsync_v2(copy: *const CUDA_MEMCPY2D, stream: CUstream) -> u32;
    fn cuGraphLaunch(graph: CUgraphExec, stream: CUstream) -> u32;
}

/// Rows on the device: `rows` of `bytes`, `pitch` bytes from one to the next, from `address` on.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct DeviceRows {
    /// Of the first byte.
    pub(in super::super) address: u64,
    /// Rows.
    pub(in super::super) rows: usize,
    /// Bytes of a row.
    pub(in super::super) bytes: usize,
    /// Bytes from one row to the next.
    pub(in super::super) pitch: usize,
}

/// Where one end of a copy is.
enum End {
    Host(*mut u8),
    Device(u64),
}

impl DeviceRows {
    /// All bytes of `bytes` as one row.
    pub(in super::super) fn one(address: u64, bytes: usize) -> Self {
        Self { address, rows: 1, bytes, pitch: bytes }
    }

    /// Whether nothing lies between rows that are `pitch` bytes apart.
    fn is_dense(&self, pitch: usize) -> bool {
        self.rows <= 1 || pitch == self.bytes
    }

    /// The description of a copy of these rows' sizes.
    fn copy(&self, (from, from_pitch): (End, usize), (to, to_pitch): (End, usize)) -> CUDA_MEMCPY2D {
        let (host, device) = (CUmemorytype::CU_MEMORYTYPE_HOST, CUmemorytype::CU_MEMORYTYPE_DEVICE);
        let parts = |end: End| match end {
            End::Host(address) => (host, address, 0),
            End::Device(address) => (device, std::ptr::null_mut(), address),
        };
        let ((from_type, from_host, from_device), (to_type, to_host, to_device)) = (parts(from), parts(to));
        CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: from_type,
            srcHost: from_host.cast_const().cast(),
            srcDevice: from_device,
            srcArray: std::ptr::null_mut(),
            srcPitch: from_pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: to_type,
            dstHost: to_host.cast(),
            dstDevice: to_device,
            dstArray: std::ptr::null_mut(),
            dstPitch: to_pitch,
            WidthInBytes: self.bytes,
            Height: self.rows,
        }
    }
}

/// Copies rows on the device, in the order of the stream.
///
/// # Safety
/// - Both have the rows in allocations of the stream's device, which live until the copy is done.
/// - The two do not overlap, and nobody else writes them until then.
pub(in super::super) unsafe fn copy_rows_on_device(
    to: DeviceRows,
    from: DeviceRows,
    stream: &Stream,
) -> Result<(), Failure> {
    assert_eq!((to.rows, to.bytes), (from.rows, from.bytes), "rows to copy, and bytes of each");
    let copy = to.copy((End::Device(from.address), from.pitch), (End::Device(to.address), to.pitch));
    // SAFETY: both ends hold the rows and stay so until the stream has copied them, as this function requires.
    checked(unsafe { cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner()) })
}

impl<'scope, 'env> LentToDevice<'scope, 'env> {
    /// Copies rows from host memory to the device, in the order of the stream.
    ///
    /// # Panics
    /// If `from` has other rows than `to`.
    ///
    /// # Safety
    /// `to` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(in super::super) unsafe fn upload(
        &self,
        to: DeviceRows,
        from: HostRows<'scope>,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        assert_eq!((from.len(), from.row_bytes()), (to.rows, to.bytes), "rows to copy, and bytes of each");
        // SAFETY: `from` has the rows and is borrowed until the scope has waited. `to` lies in an allocation of the
        // device that lives until then, as required here.
        unsafe { self.upload_from(to, from.span().cast(), from.pitch(), stream) }
    }

    /// As [`upload`](Self::upload), from rows `pitch` bytes apart in memory that nobody borrows.
    ///
    /// # Safety
    /// As for [`upload`](Self::upload). `from` holds the rows, and nobody frees or writes them until the stream has
    /// done the copy or the scope has waited.
    pub(in super::super) unsafe fn upload_from(
        &self,
        to: DeviceRows,
        from: *const u8,
        pitch: usize,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        if to.rows == 0 {
            return Ok(());
        }
        self.uses(stream);
        // SAFETY: both ends hold the rows, as this function requires; the scope waits for the stream.
        checked(unsafe {
            if to.is_dense(to.pitch) && to.is_dense(pitch) {
                cuMemcpyHtoDAsync_v2(to.address, from.cast(), to.rows * to.bytes, stream.as_inner())
            } else {
                let copy = to.copy((End::Host(from.cast_mut()), pitch), (End::Device(to.address), to.pitch));
                cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner())
            }
        })
    }

    /// Copies rows from the device to host memory, in the order of the stream.
    ///
    /// # Panics
    /// If `to` has other rows than `from`.
    ///
    /// # Safety
    /// `from` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(in super::super) unsafe fn download(
        &self,
        to: HostRowsMut<'scope>,
        from: DeviceRows,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        assert_eq!((to.len(), to.row_bytes()), (from.rows, from.bytes), "rows to copy, and bytes of each");
        let pitch = to.pitch();
        // SAFETY: `to` has room for the rows and is borrowed until the scope has waited. `from` lies in an allocation
        // of the device that lives until then, as required here.
        unsafe { self.download_to(to.span().cast::<u8>(), pitch, from, stream) }
    }

    /// As [`download`](Self::download), to rows `pitch` bytes apart in memory that nobody borrows.
    ///
    /// # Safety
    /// As for [`download`](Self::download). `to` has room for the rows, and nobody uses it until the stream has done
    /// the copy or the scope has waited.
    pub(in super::super) unsafe fn download_to(
        &self,
        to: *mut u8,
        pitch: usize,
        from: DeviceRows,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        if from.rows == 0 {
            return Ok(());
        }
        self.uses(stream);
        // Page-locked memory is written at its own address, whoever holds a reference.
        to.expose_provenance();
        // SAFETY: both ends hold the rows, as this function requires; the scope waits for the stream.
        checked(unsafe {
            if from.is_dense(from.pitch) && from.is_dense(pitch) {
                cuMemcpyDtoHAsync_v2(to.cast(), from.address, from.rows * from.bytes, stream.as_inner())
            } else {
                let copy = from.copy((End::Device(from.address), from.pitch), (End::Host(to), pitch));
                cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner())
            }
        })
    }

    /// Gives recorded work to the stream, which reads `source` and writes `result` if they lie in page-locked memory.
    ///
    /// # Safety
    /// All other memory that the work uses lives until the scope has waited, and nobody else uses it until then. Of the
    /// host's memory the work uses none but `source`, `result` and such other memory.
    pub(in super::super) unsafe fn launch(
        &self,
        graph: &Graph,
        _source: HostRows<'scope>,
        result: HostRowsMut<'scope>,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        self.uses(stream);
        // The device writes at this address, whoever holds a reference.
        result.span().cast::<u8>().expose_provenance();
        // SAFETY: source and result are borrowed until the scope has waited. All other memory of the work lives until
        // then and is used by nobody else, as required here. A graph that is dropped while it runs is freed when it is
        // done.
        checked(unsafe { cuGraphLaunch(graph.handle(), stream.as_inner()) })
    }
}
