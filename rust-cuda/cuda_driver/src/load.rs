//! Opens the driver and fills the slots.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::Library;

use crate::LoadError;
use crate::trampoline::ENTRIES;

/// The name under which Linux systems install the CUDA driver library.
pub const DRIVER_LIBRARY: &str = "libcuda.so.1";

/// The one symbol that tells a driver from any other library: no CUDA call works without it.
const REQUIRED: &str = "cuInit";

/// The driver in use. Set once, after the slots are filled; a static is never dropped, which keeps
/// the library open for as long as a slot can lead into it.
static LOADED: OnceLock<Driver> = OnceLock::new();

/// The loaded CUDA driver library. It stays open until the process ends.
#[derive(Debug)]
pub struct Driver {
    path: PathBuf,
    missing: Vec<&'static str>,
    /// Held, never read: dropping it would close the library.
    _library: Library,
}

impl Driver {
    /// The name or path that the library was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The functions of [`SYMBOLS`](crate::SYMBOLS) that this driver lacks, in alphabetical order: one
    /// older than CUDA 12, say, has no `cuTensorMapEncodeTiled`. Calling one of them returns
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

/// Opens the system's CUDA driver, [`DRIVER_LIBRARY`], and makes its functions available under
/// their own names.
///
/// The first call decides: later ones, from any thread, return its result, the error included. A driver
/// already loaded by [`load_from`] is returned as it is. This does not call `cuInit`: `cust::init` does.
///
/// # Errors
///
/// [`LoadError::NotFound`] where no driver is installed, [`LoadError::NotADriver`] where something
/// else bears its name. The driver functions can still be called; they return
/// `CUDA_ERROR_NOT_INITIALIZED` (3).
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
    // SAFETY: whoever administers the system puts the CUDA driver, and nothing else, under this name
    // in the loader's search path. A program linked with `-lcuda` relies on the same.
    match unsafe { load_from(DRIVER_LIBRARY) } {
        Ok(driver) => Ok(driver),
        // Another thread's `load_from` came first.
        Err(LoadError::AlreadyLoaded { .. }) if LOADED.get().is_some() => load(),
        Err(error) => Err(FAILED.get_or_init(|| error).clone()),
    }
}

/// Opens the library at `path` as the CUDA driver; [`load`] is this with [`DRIVER_LIBRARY`].
///
/// A path without a slash is searched for as the dynamic loader does. A failure changes nothing and is
/// not remembered: another path may be tried. Meant for tests, and for drivers in unusual places.
///
/// # Safety
///
/// Opening the library runs its initialisers. If it defines `cuInit`, then every function in it
/// whose name is in [`SYMBOLS`](crate::SYMBOLS) must have the C signature and the behaviour of the CUDA
/// driver's function of that name.
///
/// # Errors
///
/// [`LoadError::NotFound`], [`LoadError::NotADriver`], or [`LoadError::AlreadyLoaded`] if a library
/// opened by another path is in use.
///
/// ```no_run
/// // SAFETY: the file is the driver that the container image brings along.
/// let driver = unsafe { cuda_driver::load_from("/opt/driver/libcuda.so.1") }?;
/// # Ok::<(), cuda_driver::LoadError>(())
/// ```
pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Driver, LoadError> {
    /// One at a time: two threads must not fill the slots from two libraries.
    static LOADING: Mutex<()> = Mutex::new(());

    let path = path.as_ref();
    // The lock guards no data, so a panic while it was held left nothing half done.
    let _guard = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(driver) = LOADED.get() {
        return if driver.path == path {
            Ok(driver)
        } else {
            Err(LoadError::AlreadyLoaded { requested: path.to_owned(), loaded: driver.path.clone() })
        };
    }
    // SAFETY: the caller upholds the same contract.
    let driver = unsafe { open(path) }?;
    Ok(LOADED.get_or_init(|| driver))
}

/// Opens the library and fills the slots.
///
/// # Safety
///
/// As for [`load_from`]. On success the caller must keep the returned value for the process' life: the
/// slots point into the library.
unsafe fn open(path: &Path) -> Result<Driver, LoadError> {
    // SAFETY: the caller vouches for the library's initialisers.
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

/// The address of a symbol; never null. Valid for as long as the library is open.
fn address_of(library: &Library, name: &str) -> Result<*mut (), libloading::Error> {
    // SAFETY: the symbol's address itself is all that is taken, as an untyped pointer. Nothing is
    // read through it or called here.
    let symbol = unsafe { library.get::<*mut ()>(name.as_bytes()) }?;
    Ok(*symbol)
}
