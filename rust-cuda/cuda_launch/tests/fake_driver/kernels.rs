//! The fake driver, and how it runs a kernel: in the emulator, on copies of the arrays.
//!
//! The structures are those of `fake_cuda/src/foreign.rs`.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_emulator::{Buffer, Emulator, Launch, Memory, Role};
use cuda_launch::Kernel;
use cuda_std::Scalar;
use libloading::Library;

/// A parameter of a kernel.
#[repr(C)]
struct Parameter {
    bytes: usize,
    is_array: usize,
}

/// An array.
#[repr(C)]
struct Area {
    name: *const c_char,
    start: *mut u8,
    bytes: usize,
}

/// A launch.
#[repr(C)]
struct Running {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    arguments: *const *const c_void,
    arrays: *const Area,
    constants: *const Area,
    constant_count: usize,
}

/// The fake driver of this process, used by one test at a time.
pub(crate) struct Fake {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    /// Loads the driver, adds the kernels of this test, and applies settings. Waits until no other test uses it.
    pub(crate) fn get(settings: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let test = std::env::current_exe().expect("the test knows its own file");
            let path = test.parent().expect("a file lies in a folder").join("libfake_cuda.so");
            assert!(path.exists(), "{} is missing; `cargo test` builds it", path.display());
            // SAFETY: the library has the functions of a driver.
            unsafe { cuda_driver::load_from(&path) }.expect("the fake driver is a driver");
            // SAFETY: the same library, which is open already.
            unsafe { Library::new(&path) }.expect("it was opened before")
        };
        let fake = Self { library: LIBRARY.get_or_init(open), _alone: alone };
        let reset: unsafe extern "C" fn(*const c_char) -> c_int = fake.function("fake_cuda_reset");
        let text = CString::new(settings).expect("settings have no zero byte");
        // SAFETY: a C string; one test uses the driver at a time and keeps no handle.
        assert_eq!(unsafe { reset(text.as_ptr()) }, 0, "settings: {settings}");
        fake.add::<super::Scale<'_>>();
        fake.add::<super::SumInShared<'_>>();
        fake.add::<super::SumInBoth<'_>>();
        fake
    }

    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: each caller names the function with the type that `fake_cuda` gives it.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Adds a kernel to the driver.
    fn add<K: Kernel>(&self) {
        type Run = unsafe extern "C" fn(*const Running) -> u32;
        let add: unsafe extern "C" fn(*const c_char, *const Parameter, usize, Run) =
            self.function("fake_cuda_add_kernel");
        let symbol = CString::new(K::SYMBOL).expect("a symbol has no zero byte");
        let parameters = K::PARAMETERS.iter();
        let parameters = parameters.map(|p| Parameter { bytes: p.bytes, is_array: p.element.is_some().into() });
        let parameters: Vec<_> = parameters.collect();
        // SAFETY: the parameters are those of the kernel that `run` runs.
        unsafe { add(symbol.as_ptr(), parameters.as_ptr(), parameters.len(), run::<K>) };
    }

    /// The objects that are left, and the reported misuse. A correct program has none.
    pub(crate) fn trouble(&self) -> Option<String> {
        let report: unsafe extern "C" fn(*mut c_char, usize) -> usize = self.function("fake_cuda_report");
        let mut text = vec![0_u8; 1 << 16];
        // SAFETY: the text has as many bytes.
        unsafe { report(text.as_mut_ptr().cast(), text.len()) };
        let text = CStr::from_bytes_until_nul(&text).expect("the report ends").to_string_lossy();
        let is_trouble = |line: &&str| match line.split(' ').collect::<Vec<_>>()[..] {
            ["live", .., "0"] => false,
            ["live" | "leaked" | "violation", ..] => true,
            _ => false,
        };
        let trouble: Vec<_> = text.lines().filter(is_trouble).collect();
        (!trouble.is_empty()).then(|| trouble.join("\n"))
    }
}

/// An array of the emulator with the type of its elements hidden.
trait Copied {
    fn address(&self) -> u64;
    /// Copies the elements back.
    fn close(&self, memory: &Memory, to: *mut u8);
}

impl<T: Scalar> Copied for Buffer<T> {
    fn address(&self) -> u64 {
        let handle = self.global();
        // SAFETY: a handle is a transparent wrapper of a pointer.
        unsafe { (&raw const handle).cast::<u64>().read() }
    }

    fn close(&self, memory: &Memory, to: *mut u8) {
        let values = memory.download(self);
        // SAFETY: the area has as many elements: the buffer was made of it.
        unsafe { to.copy_from_nonoverlapping(values.as_ptr().cast(), size_of_val(&values[..])) };
    }
}

/// A copy of an area, as elements of a type.
///
/// # Safety
/// - The area has `bytes` bytes.
unsafe fn copied<T: Scalar>(memory: &mut Memory, name: &str, area: &Area) -> Box<dyn Copied> {
    if area.bytes == 0 {
        return Box::new(memory.allocate::<T>(name, 0, Role::Scratch));
    }
    let count = area.bytes / size_of::<T>();
    // SAFETY: the area has as many elements. An unaligned read needs no alignment.
    let values = (0..count).map(|index| unsafe { area.start.cast::<T>().add(index).read_unaligned() });
    Box::new(memory.upload(name, &values.collect::<Vec<_>>()))
}

/// A name with a static lifetime, as the emulator needs it.
fn lasting(name: &CStr) -> &'static str {
    static NAMES: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let name = name.to_string_lossy().into_owned();
    names.entry(name.clone()).or_insert_with(|| Box::leak(name.into_boxed_str()))
}

/// The pointers to the arguments, which all threads read.
struct Pointers(Vec<*const c_void>);
// SAFETY: the threads only read.
unsafe impl Sync for Pointers {}

impl Pointers {
    fn as_ptr(&self) -> *const *const c_void {
        self.0.as_ptr()
    }
}

/// Runs a launch of a kernel in the emulator.
///
/// # Safety
/// - `running` is a launch of the kernel by the fake driver.
unsafe extern "C" fn run<K: Kernel>(running: *const Running) -> u32 {
    // SAFETY: the driver passes a launch.
    let running = unsafe { &*running };
    let mut memory = Memory::new();
    for index in 0..running.constant_count {
        // SAFETY: there are as many constant arrays, each with a name and its bytes.
        let (name, bytes) = unsafe {
            let area = &*running.constants.add(index);
            (CStr::from_ptr(area.name), std::slice::from_raw_parts(area.start, area.bytes))
        };
        memory.set_constant(lasting(name), bytes);
    }
    let (mut arrays, mut addresses) = (Vec::new(), Vec::new());
    for parameter in K::PARAMETERS {
        if let Some(element) = parameter.element {
            // SAFETY: there is an area for each parameter that is an array.
            unsafe {
                let area = &*running.arrays.add(arrays.len());
                let name = parameter.name;
                let buffer = match element {
                    1 => copied::<u8>(&mut memory, name, area),
                    2 => copied::<u16>(&mut memory, name, area),
                    4 => copied::<u32>(&mut memory, name, area),
                    _ => copied::<u64>(&mut memory, name, area),
                };
                addresses.push(buffer.address());
                arrays.push((buffer, area.start));
            }
        }
    }
    let mut next = addresses.iter();
    let pointers = K::PARAMETERS.iter().enumerate().map(|(index, parameter)| match parameter.element {
        Some(_) => (&raw const *next.next().expect("an address for each array")).cast(),
        // SAFETY: there is an argument for each parameter.
        None => unsafe { running.arguments.add(index).read() },
    });
    let pointers = Pointers(pointers.collect());
    let launch = Launch { grid: running.grid, block: running.block, shared_bytes: running.shared_bytes };
    let pointers = &pointers;
    // SAFETY: the arguments are those of the kernel, in the emulator's memory. The emulator checks every access.
    let ran = Emulator::new().launch(K::SYMBOL, &launch, &mut memory, || unsafe { K::call(pointers.as_ptr()) });
    for (buffer, start) in arrays {
        buffer.close(&memory, start);
    }
    match ran {
        Ok(_) => 0,
        Err(error) => {
            eprintln!("{error}");
            719
        }
    }
}
