//! What uses lent memory: copies between host and device, and graphs. Nothing else in the crate calls these functions
//! of the driver.

use std::ffi::c_void;
use std::rc::Rc;

use cust::memory::DevicePointer;
use cust::stream::Stream;
use cust::sys::{CUDA_MEMCPY2D, CUgraphExec, CUmemorytype, CUstream};

use super::super::graph::Graph;
use super::super::status::{Failure, checked};
use super::LentToDevice;
use crate::Result;

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
    pub(in super::super) address: DevicePointer<u8>,
    /// Rows.
    pub(in super::super) rows: usize,
    /// Bytes of a row.
    pub(in super::super) bytes: usize,
    /// Bytes from one row to the next.
    pub(in super::super) pitch: usize,
}

impl DeviceRows {
    /// Bytes of all rows, without those between them.
    pub(in super::super) fn len(&self) -> usize {
        self.rows * self.bytes
    }

    /// The description of a copy between these rows and rows without gaps in host memory, all but which goes where.
    fn copy(&self) -> CUDA_MEMCPY2D {
        CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: std::ptr::null(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: self.bytes,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: CUmemorytype::CU_MEMORYTYPE_HOST,
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

impl<'scope, 'env> LentToDevice<'scope, 'env> {
    /// Copies rows without gaps from host memory to the device, in the order of the stream.
    ///
    /// # Panics
    /// If `from` has another length than the rows.
    ///
    /// # Safety
    /// `to` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(in super::super) unsafe fn upload(
        &self,
        to: DeviceRows,
        from: &'scope [u8],
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        assert_eq!(from.len(), to.len(), "bytes of the rows to copy");
        // SAFETY: `from` has the rows and is borrowed until the scope has waited; `to` is the caller's promise.
        unsafe { self.upload_from(to, from.as_ptr(), stream) }
    }

    /// As [`upload`](Self::upload), from memory that nobody borrows.
    ///
    /// # Safety
    /// As for [`upload`](Self::upload). `from` holds the rows, and nobody frees or writes them until the stream has
    /// come past the copy or the scope has waited.
    pub(in super::super) unsafe fn upload_from(
        &self,
        to: DeviceRows,
        from: *const u8,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        self.uses(stream);
        // SAFETY: the caller's promise for both ends; the stream is waited for by the scope.
        checked(unsafe {
            if to.is_dense() {
                cuMemcpyHtoDAsync_v2(to.address.as_raw(), from.cast(), to.len(), stream.as_inner())
            } else {
                let copy = CUDA_MEMCPY2D {
                    srcHost: from.cast(),
                    dstMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                    dstDevice: to.address.as_raw(),
                    dstPitch: to.pitch,
                    ..to.copy()
                };
                cuMemcpy2DAsync_v2(&raw const copy, stream.as_inner())
            }
        })
    }

    /// Copies values to the device in the order of the stream. The scope keeps them until it has waited.
    ///
    /// # Safety
    /// `to` has room for the values, in memory that lives until the scope has waited.
    pub(in super::super) unsafe fn upload_kept(
        &self,
        to: DevicePointer<f32>,
        values: &Rc<[f32]>,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        self.kept.borrow_mut().push(Rc::clone(values));
        let bytes = size_of_val::<[f32]>(values);
        let rows = DeviceRows { address: to.cast(), rows: 1, bytes, pitch: bytes };
        // SAFETY: the values are kept, and shared values don't change; `to` is the caller's promise.
        unsafe { self.upload_from(rows, values.as_ptr().cast(), stream) }
    }

    /// Copies rows from the device to host memory, without gaps, in the order of the stream.
    ///
    /// # Panics
    /// If `to` has another length than the rows.
    ///
    /// # Safety
    /// `from` lies in an allocation of the stream's device, which lives until the scope has waited.
    pub(in super::super) unsafe fn download(
        &self,
        to: &'scope mut [u8],
        from: DeviceRows,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        assert_eq!(to.len(), from.len(), "bytes of the rows to copy");
        // SAFETY: `to` has room for the rows and is borrowed until the scope has waited; `from` is the caller's
        // promise.
        unsafe { self.download_to(to.as_mut_ptr(), from, stream) }
    }

    /// As [`download`](Self::download), to memory that nobody borrows.
    ///
    /// # Safety
    /// As for [`download`](Self::download). `to` has room for the rows, and nobody uses it until the stream has come
    /// past the copy or the scope has waited.
    pub(in super::super) unsafe fn download_to(
        &self,
        to: *mut u8,
        from: DeviceRows,
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        self.uses(stream);
        // Page-locked memory is written at its own address, whoever holds a reference.
        to.expose_provenance();
        // SAFETY: the caller's promise for both ends; the stream is waited for by the scope.
        checked(unsafe {
            if from.is_dense() {
                cuMemcpyDtoHAsync_v2(to.cast(), from.address.as_raw(), from.len(), stream.as_inner())
            } else {
                let copy = CUDA_MEMCPY2D {
                    srcMemoryType: CUmemorytype::CU_MEMORYTYPE_DEVICE,
                    srcDevice: from.address.as_raw(),
                    srcPitch: from.pitch,
                    dstHost: to.cast(),
                    ..from.copy()
                };
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
        _source: &'scope [u8],
        result: &'scope mut [u8],
        stream: &'env Stream,
    ) -> Result<(), Failure> {
        self.uses(stream);
        // The device writes at this address, whoever holds a reference.
        result.as_mut_ptr().expose_provenance();
        // SAFETY: source and result are borrowed until the scope has waited; the rest is the caller's promise. A graph
        // that is dropped while it runs is freed when it is done.
        checked(unsafe { cuGraphLaunch(graph.handle(), stream.as_inner()) })
    }
}
