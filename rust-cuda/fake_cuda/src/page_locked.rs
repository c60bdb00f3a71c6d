//! Page-locked host memory. The device accesses it at the host's address.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::BTreeMap;
use std::ffi::{c_uint, c_void};
use std::sync::{Mutex, PoisonError};

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome, WAITS_OR_FREES, put};
use crate::table::Handle;
use crate::work::Span;

/// The size of a page in bytes.
const PAGE: usize = 4096;

/// The most bytes that are kept after they were freed.
const MOST_SPARE: usize = 64 << 20;

/// Memory that was freed, for the next allocation of its layout. To map pages anew takes longer than many tests run.
static SPARE: Mutex<Vec<(usize, Layout)>> = Mutex::new(Vec::new());

/// Memory of this layout, or null.
fn allocate_or_reuse(layout: Layout) -> *mut u8 {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    match spare.iter().position(|(_, of)| *of == layout) {
        Some(place) => std::ptr::with_exposed_provenance_mut(spare.swap_remove(place).0),
        // SAFETY: the callers ask for at least one byte.
        None => unsafe { alloc(layout) },
    }
}

/// Frees memory of [`allocate_or_reuse`], or keeps it.
///
/// # Safety
/// - `start` is the address of such memory, which was allocated with this layout.
/// - Nothing uses the memory any more.
unsafe fn free_or_keep(start: usize, layout: Layout) {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.iter().map(|(_, layout)| layout.size()).sum::<usize>() + layout.size() <= MOST_SPARE {
        spare.push((start, layout));
    } else {
        // SAFETY: `alloc` returned it for this layout, and nothing uses it, as required above.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(start), layout) };
    }
}

/// An area of page-locked memory.
struct Area {
    bytes: usize,
    context: Handle,
    flags: c_uint,
    /// The layout of memory that was allocated here. None for registered memory of the caller.
    layout: Option<Layout>,
}

/// All areas by the address of their first byte.
#[derive(Default)]
pub(crate) struct PageLocked(BTreeMap<usize, Area>);

impl PageLocked {
    pub(crate) fn live(&self) -> usize {
        self.0.len()
    }

    /// The area of an address: its first byte and its length.
    pub(crate) fn area(&self, address: usize) -> Option<Span> {
        let (&start, area) = self.0.range(..=address).next_back()?;
        (address - start < area.bytes).then_some(Span { start, bytes: area.bytes })
    }

    /// Whether all of these bytes lie in one area.
    pub(crate) fn holds(&self, address: usize, bytes: usize) -> bool {
        self.area(address).is_some_and(|area| bytes <= area.bytes - (address - area.start))
    }

    /// Frees all areas of a context and returns their number.
    pub(crate) fn end_context(&mut self, context: Handle) -> usize {
        let ended: Vec<usize> =
            self.0.iter().filter(|(_, area)| area.context == context).map(|(start, _)| *start).collect();
        for &start in &ended {
            self.remove(start);
        }
        ended.len()
    }

    /// Removes an area, and frees its memory if it was allocated here.
    fn remove(&mut self, start: usize) {
        if let Some(Area { layout: Some(layout), .. }) = self.0.remove(&start) {
            // SAFETY: `allocate` allocated it with this layout, and it was in the table until now.
            unsafe { free_or_keep(start, layout) };
        }
    }
}

/// Allocates page-locked memory for the caller.
fn allocate(driver: &mut Driver, to: *mut *mut c_void, bytes: usize, flags: c_uint) -> Outcome {
    if bytes == 0 {
        return Err(Code::INVALID_VALUE.into());
    }
    let context = driver.current()?;
    let layout = Layout::from_size_align(bytes, PAGE).map_err(|_| Code::OUT_OF_MEMORY)?;
    let memory = allocate_or_reuse(layout);
    if memory.is_null() {
        return Err(Code::OUT_OF_MEMORY.into());
    }
    // SAFETY: `bytes` bytes were just allocated there. The pattern reveals reads of memory that nothing wrote.
    unsafe { memory.write_bytes(u8::MAX, bytes) };
    driver.page_locked.0.insert(memory.expose_provenance(), Area { bytes, context, flags, layout: Some(layout) });
    // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
    unsafe { put(to, memory.cast()) }
}

/// Removes an area after the work that uses it.
fn end(driver: &mut Driver, address: *mut c_void, allocated: bool, code: Code) -> Outcome {
    let start = address.addr();
    let Some(area) = driver.page_locked.0.get(&start).filter(|area| area.layout.is_some() == allocated) else {
        return Err(Failure::misuse(code, format!("{start:#x} is no such page-locked memory")));
    };
    let span = Span { start, bytes: area.bytes };
    driver.wait_before_free(|state, work| {
        work.host_spans(&state.page_locked).into_iter().any(|used| used.overlaps(span))
    });
    driver.page_locked.remove(start);
    Ok(())
}

driver_functions! {
    /// The memory is mapped, as with unified addressing.
    fn cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) at CONTEXT, |driver| {
        allocate(driver, memory, bytes, 0)
    }

    /// The flags have no effect.
    fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) at CONTEXT, |driver| {
        allocate(driver, memory, bytes, flags)
    }

    /// Waits for work that uses the memory.
    fn cuMemFreeHost(memory: *mut c_void) at WAITS_OR_FREES, |driver| {
        end(driver, memory, true, Code::INVALID_VALUE)
    }

    /// Registers the caller's memory.
    fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint) at CONTEXT, |driver| {
        let (start, context) = (memory.expose_provenance(), driver.current()?);
        if start == 0 || bytes == 0 {
            return Err(Code::INVALID_VALUE.into());
        }
        let span = Span { start, bytes };
        let areas = driver.page_locked.0.iter();
        if areas.into_iter().any(|(&start, area)| span.overlaps(Span { start, bytes: area.bytes })) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED.into());
        }
        driver.page_locked.0.insert(start, Area { bytes, context, flags, layout: None });
        Ok(())
    }

    /// Waits for work that uses the memory.
    fn cuMemHostUnregister(memory: *mut c_void) at WAITS_OR_FREES, |driver| {
        end(driver, memory, false, Code::HOST_MEMORY_NOT_REGISTERED)
    }

    /// The host's address.
    fn cuMemHostGetDevicePointer_v2(address: *mut u64, memory: *mut c_void, _flags: c_uint) at CONTEXT, |driver| {
        if driver.page_locked.area(memory.addr()).is_none() {
            return Err(Code::INVALID_VALUE.into());
        }
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(address, memory.addr() as u64) }
    }

    /// The flags of the allocation. An error for pageable memory, by which callers detect it.
    fn cuMemHostGetFlags(flags: *mut c_uint, memory: *mut c_void) at CONTEXT, |driver| {
        let area = driver.page_locked.area(memory.addr()).ok_or(Code::INVALID_VALUE)?;
        let found = driver.page_locked.0[&area.start].flags;
        // SAFETY: the pointer is null or valid for a write of its type, by the contract of all driver functions.
        unsafe { put(flags, found) }
    }
}
