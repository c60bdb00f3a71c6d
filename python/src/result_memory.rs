//! Memory of large results, kept for the next result of the same size.
//!
//! The system clears each page of new memory, which takes a third of the time of a small filter of a large array. So
//! this module allocates the memory of large results, by NumPy's interface for allocators (NEP 49), and keeps it when
//! they are freed. The system may take kept pages as soon as it lacks memory (`MADV_FREE`).

use std::alloc::{self, Layout};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// Results of at least this many bytes are large. The memory of smaller ones glibc itself keeps, after the first of
/// them. Only Linux can take kept pages, so elsewhere no result is large.
pub(crate) const LARGE: usize = if cfg!(target_os = "linux") { 32 << 20 } else { usize::MAX };

/// The most bytes that are kept.
const MOST_KEPT: usize = 512 << 20;

/// The size of a huge page. Blocks begin at multiples of it.
const HUGE: usize = 2 << 20;

/// Memory of the global allocator.
struct Block {
    first: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block owns its memory, and any thread may free it.
unsafe impl Send for Block {}

impl Block {
    fn new(bytes: usize, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Self> {
        let layout = Layout::from_size_align(bytes.max(1), HUGE).ok()?;
        // SAFETY: `allocate` is a function of `std::alloc`, and the layout has bytes.
        let block = Self { first: NonNull::new(unsafe { allocate(layout) })?, layout };
        block.advise(Advice::HugePages);
        Some(block)
    }

    /// Tells the system how the memory is used. False if it refuses.
    fn advise(&self, advice: Advice) -> bool {
        #[cfg(target_os = "linux")]
        {
            let advice = match advice {
                Advice::HugePages => libc::MADV_HUGEPAGE,
                Advice::Free => libc::MADV_FREE,
            };
            // Whole huge pages, and nothing beyond the block.
            let bytes = self.layout.size() & !(HUGE - 1);
            // SAFETY: the block's own memory. No advice but `Free` changes a byte, and that one is for unused blocks.
            unsafe { libc::madvise(self.first.as_ptr().cast(), bytes, advice) == 0 }
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = advice;
            false
        }
    }
}

enum Advice {
    HugePages,
    /// Nobody needs the values. The system may take pages until they are written.
    Free,
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the global allocator gave it with this layout.
        unsafe { alloc::dealloc(self.first.as_ptr(), self.layout) };
    }
}

struct Blocks {
    /// The blocks of arrays, by their addresses.
    used: BTreeMap<usize, Block>,
    /// The blocks of no array, oldest first.
    kept: Vec<Block>,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { used: BTreeMap::new(), kept: Vec::new() });

fn blocks() -> MutexGuard<'static, Blocks> {
    BLOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Blocks {
    /// A kept block of this size, or a new one. The newest kept block is taken, of which the system has the fewest
    /// pages.
    fn take(&mut self, bytes: usize) -> Option<Block> {
        if let Some(index) = self.kept.iter().rposition(|block| block.layout.size() == bytes) {
            return Some(self.kept.remove(index));
        }
        Block::new(bytes, alloc::alloc).or_else(|| {
            self.kept.clear();
            Block::new(bytes, alloc::alloc)
        })
    }

    /// Notes that an array uses a block. Returns the address for NumPy, which is null without a block.
    fn lend(&mut self, block: Option<Block>) -> *mut c_void {
        let Some(block) = block else { return null_mut() };
        let first = block.first.as_ptr();
        self.used.insert(first.addr(), block);
        first.cast()
    }

    /// Keeps a block if the system can still take its pages. Else frees it.
    fn give_back(&mut self, block: Block) {
        if faltung::memory::address_space().is_some() {
            // Kept blocks count against a limit of the address space, even without pages.
            self.kept.clear();
            return;
        }
        if !(LARGE..=MOST_KEPT).contains(&block.layout.size()) || !block.advise(Advice::Free) {
            return;
        }
        self.kept.push(block);
        while self.kept.iter().map(|block| block.layout.size()).sum::<usize>() > MOST_KEPT {
            self.kept.remove(0);
        }
    }
}

// The functions of `HANDLER`, which NumPy calls. `context` is that of `HANDLER`.

unsafe extern "C" fn malloc(_context: *mut c_void, bytes: usize) -> *mut c_void {
    let mut blocks = blocks();
    let block = blocks.take(bytes);
    blocks.lend(block)
}

unsafe extern "C" fn calloc(_context: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let block = count.checked_mul(size).and_then(|bytes| Block::new(bytes, alloc::alloc_zeroed));
    blocks().lend(block)
}

/// # Safety
/// - `old` is null or lent, and nobody else uses it.
unsafe extern "C" fn realloc(_context: *mut c_void, old: *mut c_void, bytes: usize) -> *mut c_void {
    let mut blocks = blocks();
    let Some(block) = blocks.take(bytes) else { return null_mut() };
    if let Some(old) = blocks.used.remove(&old.addr()) {
        // SAFETY: the blocks are two, and each has at least this many bytes.
        unsafe { old.first.copy_to_nonoverlapping(block.first, bytes.min(old.layout.size())) };
        blocks.give_back(old);
    }
    blocks.lend(Some(block))
}

/// # Safety
/// - `first` is null or lent, and nobody else uses it.
unsafe extern "C" fn free(_context: *mut c_void, first: *mut c_void, _bytes: usize) {
    let mut blocks = blocks();
    if let Some(block) = blocks.used.remove(&first.addr()) {
        blocks.give_back(block);
    }
}

/// `PyDataMem_Handler` of NumPy's C interface.
#[repr(C)]
struct Handler {
    name: [c_char; 127],
    version: u8,
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void, usize),
}

// SAFETY: nobody writes it, and its functions may be called by any thread.
unsafe impl Sync for Handler {}

static HANDLER: Handler = Handler {
    name: {
        let (text, mut name, mut i) = (b"faltung", [0; 127], 0);
        while i < text.len() {
            name[i] = text[i] as c_char;
            i += 1;
        }
        name
    },
    version: 1,
    context: null_mut(),
    malloc,
    calloc,
    realloc,
    free,
};

/// `PyDataMem_SetHandler` of NumPy: sets the allocator of this context's new arrays, and returns the one before.
type SetHandler = unsafe extern "C" fn(*mut ffi::PyObject) -> *mut ffi::PyObject;

/// The parts of NumPy that set an allocator.
struct NumPy {
    set_handler: SetHandler,
    /// [`HANDLER`] in a capsule.
    handler: Py<PyAny>,
    /// NumPy's own handler.
    default: Py<PyAny>,
    empty: Py<PyAny>,
}

impl NumPy {
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static NUMPY: PyOnceLock<NumPy> = PyOnceLock::new();
        NUMPY.get_or_try_init(py, || {
            /// The places of the entries in the table of NumPy's C interface, from 1.22 on.
            const SET_HANDLER: usize = 304;
            const DEFAULT_HANDLER: usize = 306;
            let numpy = py.import("numpy")?;
            let internal =
                py.import("numpy._core._multiarray_umath").or_else(|_| py.import("numpy.core._multiarray_umath"))?;
            let table = internal.getattr("_ARRAY_API")?;
            // SAFETY: this capsule has no name, and the table that it points to lives as long as NumPy is loaded. The
            // entries are a function, and the address of a variable with an object.
            let (set_handler, default) = unsafe {
                let table = ffi::PyCapsule_GetPointer(table.as_ptr(), std::ptr::null()).cast::<*mut c_void>();
                if table.is_null() {
                    return Err(PyErr::fetch(py));
                }
                let set_handler = std::mem::transmute::<*mut c_void, SetHandler>(*table.add(SET_HANDLER));
                let default = *(*table.add(DEFAULT_HANDLER)).cast::<*mut ffi::PyObject>();
                (set_handler, Bound::from_borrowed_ptr(py, default).unbind())
            };
            // SAFETY: the handler lives as long as the program, and NumPy does not write it.
            let handler = unsafe {
                let pointer = (&raw const HANDLER).cast_mut().cast();
                Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, c"mem_handler".as_ptr(), None))?
            };
            Ok(Self { set_handler, handler: handler.unbind(), default, empty: numpy.getattr("empty")?.unbind() })
        })
    }

    /// Sets the allocator of this context's new arrays, and returns the one before.
    fn set<'py>(&self, handler: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a capsule with a handler; NumPy takes a reference of its own, and gives one to the caller.
        unsafe { Bound::from_owned_ptr_or_err(handler.py(), (self.set_handler)(handler.as_ptr())) }
    }
}

/// ``numpy.empty(shape, dtype)`` for a result of at least ``LARGE`` bytes. Its memory is kept when the array is freed.
///
/// Raises what ``numpy.empty`` raises.
#[pyfunction]
pub(crate) fn empty_large<'py>(shape: &Bound<'py, PyTuple>, dtype: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = shape.py();
    let numpy = NumPy::get(py)?;
    let arguments = PyTuple::new(py, [shape.as_any(), dtype])?;
    let empty = || numpy.empty.bind(py).call1(&arguments);
    let before = numpy.set(numpy.handler.bind(py))?;
    // A program that has set an allocator gets memory from that one.
    let result = before.is(numpy.default.bind(py)).then(empty);
    numpy.set(&before)?;
    result.unwrap_or_else(empty)
}
