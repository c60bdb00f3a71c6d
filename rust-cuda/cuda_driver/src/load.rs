//! Opens the driver and fills the slots.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

use crate::LoadError;
use crate::trampoline::ENTRIES;

/// The name under which Linux systems install the CUDA driver library.
pub const DRIVER_LIBRARY: &str = "libcuda.so.1";

/// The symbol that identifies a CUDA driver: no CUDA call works without it.
const REQUIRED: &str = "cuInit";

/// The driver in use. It is set once, after the slots are filled. A static is never dropped, so the library stays open
/// as long as a slot points into it.
static LOADED: OnceLock<Driver> = OnceLock::new();

/// The loaded CUDA driver library. It stays open until the process ends.
#[derive(Debug)]
pub struct Driver {
    path: PathBuf,
    missing: Vec<&'static str>,
    /// Never read. Dropping it would close the library.
    _library: Library,
}

impl Driver {
    /// The name or path by which the library was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The functions of [`SYMBOLS`](crate::SYMBOLS) that this driver lacks, in alphabetical order.
    ///
    /// A driver older than CUDA 12 has no `cuTensorMapEncodeTiled`, for example. A call of a missing function returns
    /// `CUDA_ERROR_NOT_INITIALIZED` (3).
    ///
    /// ```
    /// if let Ok(driver) = cuda_driver::load() {
    ///     let too_old = driver.missing_symbols().contains(&"cuTensorMapEncodeTiled");
    ///     println!("tensor maps: {}", if too_old { "no" } else { "yes" });
    /// }
    /// ```
    #[must_use]
    pub fn missing_symbols(&self) -> &[&'static str] {
        &self.missing
    }
}

/// Opens the system's CUDA driver, [`DRIVER_LIBRARY`], and makes its functions available under their names.
///
/// Later calls from any thread return the result of the first one, also if it is an error. A driver that [`load_from`]
/// has loaded before is returned. This function does not call `cuInit`; `cust::init` does.
///
/// # Errors
///
/// - [`LoadError::NotFound`] if no driver is installed.
/// - [`LoadError::NotADriver`] if another library has its name.
///
/// The driver's functions can still be called. They return `CUDA_ERROR_NOT_INITIALIZED` (3).
///
/// ```
/// match cuda_driver::load() {
///     Ok(driver) => println!("loaded {}", driver.path().display()),
///     Err(error) => println!("running without a GPU: {error}"),
/// }
/// ```
pub fn load() -> Result<&'static Driver, LoadError> {
    static FAILED: OnceLock<LoadError> = OnceLock::new();

    if let Some(driver) = LOADED.get() {
        return Ok(driver);
    }
    if let Some(error) = FAILED.get() {
        return Err(error.clone());
    }
    // SAFETY: the library of this name in the loader's search path is the CUDA driver. A program that is linked with
    // `-lcuda` relies on the same.
    match unsafe { load_from(DRIVER_LIBRARY) } {
        Ok(driver) => Ok(driver),
        // `load_from` on another thread was first.
        Err(LoadError::AlreadyLoaded { .. }) if LOADED.get().is_some() => load(),
        Err(error) => Err(FAILED.get_or_init(|| error).clone()),
    }
}

/// Opens the library at `path` as the CUDA driver; [`load`] is this with [`DRIVER_LIBRARY`].
///
/// The dynamic loader searches for a path without a slash. A failure changes nothing, and another path may be tried.
/// The function serves tests and drivers in unusual places.
///
/// # Safety
///
/// - The initialisers of the library are sound to run.
/// - If the library defines `cuInit`, each of its functions whose name is in [`SYMBOLS`](crate::SYMBOLS) has the C
///   signature and the behaviour of the CUDA driver's function of that name.
///
/// # Errors
///
/// - [`LoadError::NotFound`] or [`LoadError::NotADriver`], as for [`load`].
/// - [`LoadError::AlreadyLoaded`] if a library from another path is in use.
///
/// ```no_run
/// // SAFETY: the file is the CUDA driver of the container image.
/// let driver = unsafe { cuda_driver::load_from("/opt/driver/libcuda.so.1") }?;
/// # Ok::<(), cuda_driver::LoadError>(())
/// ```
pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Driver, LoadError> {
    /// Held while the slots are filled: two threads must not fill them from two libraries.
    static LOADING: Mutex<()> = Mutex::new(());

    let path = path.as_ref();
    // The lock guards no data, so a poisoned lock is as good as any.
    let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = LOADED.get() {
        return if driver.path == path {
            Ok(driver)
        } else {
            Err(LoadError::AlreadyLoaded { requested: path.to_owned(), loaded: driver.path.clone() })
        };
    }
    // SAFETY: the caller upholds this function's contract, which is that of `open`.
    let driver = unsafe { open(path) }?;
    Ok(LOADED.get_or_init(|| driver))
}

/// Opens the library and fills the slots.
///
/// # Safety
///
/// - The conditions of [`load_from`] hold.
/// - On success the caller keeps the returned value until the process ends: the slots point into the library.
unsafe fn open(path: &Path) -> Result<Driver, LoadError> {
    // SAFETY: the initialisers are sound to run, as required above.
    let library = unsafe { Library::new(path) }
        .map_err(|error| LoadError::NotFound { searched: path.to_owned(), reason: error.to_string() })?;
    if let Err(error) = address_of(&library, REQUIRED) {
        return Err(LoadError::NotADriver { opened: path.to_owned(), reason: error.to_string() });
    }

    let mut missing = Vec::new();
    for entry in ENTRIES {
        match address_of(&library, entry.name) {
            // See `trampoline` for why this is sound and why it is `Release`.
            Ok(address) => entry.slot.store(address, Ordering::Release),
            Err(_) => missing.push(entry.name),
        }
    }
    Ok(Driver { path: path.to_owned(), missing, _library: library })
}

/// The address of a symbol, which is not null. It is valid as long as the library is open.
fn address_of(library: &Library, name: &str) -> Result<*mut (), libloading::Error> {
    // SAFETY: only the address of the symbol is taken, as an untyped pointer. Nothing is read or called through it.
    let symbol = unsafe { library.get::<*mut ()>(name.as_bytes()) }?;
    Ok(*symbol)
}
