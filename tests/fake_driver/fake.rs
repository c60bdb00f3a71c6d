//! Finds, loads and controls the fake driver, and reads its report.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use faltung::{Pixel, Prepared};
use libloading::Library;
use libtest_mimic::Failed;

/// Settings: work begins after five seconds, or when a thread waits for it.
pub(crate) const LATE: &str = "delay_us=5000000";
/// Settings: the same, and copies of pageable memory are asynchronous, too.
pub(crate) const PAGEABLE_LATE: &str = "pageable=late;delay_us=5000000";

/// The library that cargo has built beside this test, because its package is a dependency of the tests.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own file");
    let path = test.parent().expect("a file lies in a folder").join("libfake_cuda.so");
    assert!(path.exists(), "{} is missing; `cargo test` builds it", path.display());
    path
}

/// A folder that holds the library under these names, for LD_LIBRARY_PATH.
fn folder_with(name: &str, libraries: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for the library's names");
    for library_name in libraries {
        // The link is made under another name and renamed, because another process may use the present one.
        let made = folder.join(format!("link-{}", std::process::id()));
        std::os::unix::fs::symlink(library(), &made).expect("a link to the library");
        std::fs::rename(&made, folder.join(library_name)).expect("a link under the library's name");
    }
    folder
}

/// A folder with the driver alone.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| folder_with("fake_driver", &[cuda_driver::DRIVER_LIBRARY]))
}

/// A folder with the driver and NVML.
pub(crate) fn folder_with_nvml() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| folder_with("fake_nvml", &[cuda_driver::DRIVER_LIBRARY, "libnvidia-ml.so.1"]))
}

/// The fake driver of this process, used by one test at a time.
pub(crate) struct Fake {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

impl Fake {
    /// Loads the driver into this process, before anything asks for another one. Waits until no other test has it.
    pub(crate) fn get() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let path = library();
            // SAFETY: the library is ours, and has the functions of a driver.
            unsafe { cuda_driver::load_from(&path) }.expect("the fake driver is a driver");
            // SAFETY: the same library, which is open already.
            unsafe { Library::new(&path) }.expect("it was opened before")
        };
        Self { library: LIBRARY.get_or_init(open), _alone: alone }
    }

    /// A control function.
    fn function<F: Copy>(&self, name: &str) -> F {
        // SAFETY: each caller below names the function with the type that `fake_cuda::control` gives it.
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Resets the driver, and applies settings.
    #[track_caller]
    pub(crate) fn reset(&self, settings: &str) {
        let function: unsafe extern "C" fn(*const c_char) -> c_int = self.function("fake_cuda_reset");
        let text = CString::new(settings).expect("settings have no NUL");
        // SAFETY: a C string; the tests use the driver one after the other, and keep no handle from before.
        assert_eq!(unsafe { function(text.as_ptr()) }, 0, "settings: {settings}");
    }

    /// Lends memory to a call of the library. The driver reports work that still uses it after the call.
    pub(crate) fn lending<S, R, T>(&self, source: &[S], result: &mut [R], call: impl FnOnce(&[S], &mut [R]) -> T) -> T {
        let lend: extern "C" fn(*const c_void, usize) = self.function("fake_cuda_lend");
        lend(source.as_ptr().cast(), size_of_val(source));
        lend(result.as_ptr().cast(), size_of_val(result));
        let value = call(source, result);
        self.function::<extern "C" fn()>("fake_cuda_returned")();
        value
    }

    /// Runs a convolution in lent memory.
    pub(crate) fn apply<T: Pixel>(
        &self,
        convolution: &Prepared,
        source: &[T],
        result: &mut [T],
    ) -> faltung::Result<()> {
        self.lending(source, result, |source, result| convolution.apply_values(source, result))
    }

    /// Lets the lent memory be freed or used again.
    pub(crate) fn forget(&self) {
        self.function::<extern "C" fn()>("fake_cuda_forget")();
    }

    /// The driver's report since the reset.
    pub(crate) fn report(&self) -> Report {
        let function: unsafe extern "C" fn(*mut c_char, usize) -> usize = self.function("fake_cuda_report");
        // SAFETY: no room, so that nothing is written.
        let room = unsafe { function(std::ptr::null_mut(), 0) };
        // A call in between may have made it longer.
        let mut text = vec![0_u8; room + 4096];
        // SAFETY: the vector has so much room.
        unsafe { function(text.as_mut_ptr().cast(), text.len()) };
        let end = text.iter().position(|&byte| byte == 0).expect("the report ends");
        Report::parse(std::str::from_utf8(&text[..end]).expect("the report is text"))
    }
}

/// What the driver has counted and reported; `fake_cuda::counts` says what each means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) fired: u64,
    pub(crate) struck: Vec<String>,
    pub(crate) by_function: BTreeMap<String, u64>,
    pub(crate) live: BTreeMap<String, u64>,
    pub(crate) leaked: BTreeMap<String, u64>,
    pub(crate) violations: Vec<String>,
    pub(crate) waiting_frees: u64,
    pub(crate) blocking_streams: u64,
}

impl Report {
    pub(crate) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("\"{text}\" in the report"));
        for line in text.lines() {
            let (key, rest) = line.split_once(' ').unwrap_or_else(|| panic!("\"{line}\" in the report"));
            let named =
                || rest.split_once(' ').map(|(name, count)| (name.to_owned(), number(count))).expect("two words");
            match key {
                "calls" => report.calls = number(rest),
                "struck" => report.struck.push(rest.to_owned()),
                "fired" => report.fired = number(rest),
                "call" => report.by_function.extend([named()]),
                "live" => report.live.extend(Some(named()).filter(|(_, count)| *count > 0)),
                "leaked" => report.leaked.extend([named()]),
                "violation" => report.violations.push(rest.to_owned()),
                "waiting_frees" => report.waiting_frees = number(rest),
                "blocking_streams" => report.blocking_streams = number(rest),
                _ => panic!("\"{line}\" in the report"),
            }
        }
        report
    }

    /// An error if the driver had to wait because memory was freed that work still used. Programs must not rely on
    /// that wait.
    pub(crate) fn no_waiting_frees(&self) -> Result<(), Failed> {
        match self.waiting_frees {
            0 => Ok(()),
            count => Err(format!("{count} pieces of memory were freed while work used them").into()),
        }
    }

    /// The objects that are left, and the reported misuse. None after a correct program.
    pub(crate) fn trouble(&self) -> Option<String> {
        let Self { live, leaked, violations, .. } = self;
        let is_clean = live.is_empty() && leaked.is_empty() && violations.is_empty();
        (!is_clean).then(|| format!("left: {live:?}, leaked: {leaked:?}, reported: {violations:#?}"))
    }
}
