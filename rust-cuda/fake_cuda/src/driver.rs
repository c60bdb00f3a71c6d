//! The state of the driver, and the parts of every call: lock, counting, failures on request, context.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::code::Code;
use crate::context::Contexts;
use crate::counts::Counts;
use crate::event::Event;
use crate::faults::Effect;
use crate::graph::{Graph, GraphExec, GraphNode};
use crate::lent::Lent;
use crate::memory::Memory;
use crate::module::{Function, Module};
use crate::page_locked::PageLocked;
use crate::settings::Settings;
use crate::stream::Stream;
use crate::table::{Kind, Table};

/// The reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// The caller's error. None for a failure that a correct caller may see.
    pub(crate) misuse: Option<String>,
}

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Self { code, misuse: None }
    }
}

impl Failure {
    /// A failure that a correct caller never sees.
    pub(crate) fn misuse(code: Code, text: impl Into<String>) -> Self {
        Self { code, misuse: Some(text.into()) }
    }
}

/// The result of a call.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// All state of the driver.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) initialised: bool,
    pub(crate) contexts: Contexts,
    pub(crate) memory: Memory,
    pub(crate) page_locked: PageLocked,
    pub(crate) streams: Table<Stream>,
    pub(crate) events: Table<Event>,
    pub(crate) modules: Table<Module>,
    pub(crate) functions: Table<Function>,
    pub(crate) graphs: Table<Graph>,
    pub(crate) graph_nodes: Table<GraphNode>,
    pub(crate) graph_execs: Table<GraphExec>,
    pub(crate) lent: Lent,
    /// The code of every call after the loss of the device.
    pub(crate) lost: Option<Code>,
    /// The code with which the next work item fails when it runs.
    pub(crate) failing_work: Option<Code>,
    /// The number of work items so far, in all streams.
    pub(crate) sequence: u64,
    /// Whether the current call fails, whatever its body returns.
    is_failing: bool,
}

impl State {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts: Counts::default(),
            initialised: false,
            contexts: Contexts::default(),
            memory: Memory::default(),
            page_locked: PageLocked::default(),
            streams: Table::new(Kind::Stream),
            events: Table::new(Kind::Event),
            modules: Table::new(Kind::Module),
            functions: Table::new(Kind::Function),
            graphs: Table::new(Kind::Graph),
            graph_nodes: Table::new(Kind::GraphNode),
            graph_execs: Table::new(Kind::GraphExec),
            lent: Lent::default(),
            lost: None,
            failing_work: None,
            sequence: 0,
            is_failing: false,
        }
    }

    /// Whether the current call fails, whatever its body returns. Then it must not write results.
    pub(crate) fn fails_now(&self) -> bool {
        self.is_failing
    }

    /// Loses the device: every later call fails with `code`. Pending work is abandoned and accesses no memory.
    pub(crate) fn lose(&mut self, code: Code) {
        self.lost.get_or_insert(code);
        for (_, stream) in self.streams.iter_mut() {
            stream.abandon();
        }
        CHANGED.notify_all();
    }
}

/// The state of the process.
static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new(Settings::from_environment())));
/// Signalled when anything changes that a thread may wait for.
static CHANGED: Condvar = Condvar::new();

/// The locked state.
pub(crate) struct Driver(Option<MutexGuard<'static, State>>);

impl Driver {
    pub(crate) fn lock() -> Self {
        // After a panic of another thread the state still serves for the report.
        Self(Some(STATE.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Unlocks the state until something changes.
    pub(crate) fn wait_for_change(&mut self) {
        let guard = self.0.take().expect("taken only here, and put back");
        self.0 = Some(CHANGED.wait(guard).unwrap_or_else(PoisonError::into_inner));
    }

    /// Unlocks the state until something changes, or until `end`.
    pub(crate) fn wait_until(&mut self, end: Instant) {
        let guard = self.0.take().expect("taken only here, and put back");
        let left = end.saturating_duration_since(Instant::now());
        self.0 = Some(CHANGED.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0);
    }

    /// Signals that something has changed.
    pub(crate) fn changed(&self) {
        CHANGED.notify_all();
    }
}

impl Deref for Driver {
    type Target = State;

    fn deref(&self) -> &State {
        self.0.as_ref().expect("taken only while it waits")
    }
}

impl DerefMut for Driver {
    fn deref_mut(&mut self) -> &mut State {
        self.0.as_mut().expect("taken only while it waits")
    }
}

/// The requirements of a function, and its behaviour when it fails on request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// It needs a current context on a device that is not lost.
    context: bool,
    /// It runs before it fails on request, and also if the device is lost.
    works_anyway: bool,
}

/// It needs no context.
pub(crate) const PLAIN: Needs = Needs { context: false, works_anyway: false };
/// It needs a current context.
pub(crate) const CONTEXT: Needs = Needs { context: true, works_anyway: false };
/// It waits for work or frees something. It always runs, because the caller can't repeat it.
pub(crate) const WAITS_OR_FREES: Needs = Needs { context: true, works_anyway: true };
/// It releases a context.
pub(crate) const FREES_CONTEXT: Needs = Needs { context: false, works_anyway: true };

/// Runs a driver function.
pub(crate) fn call(name: &'static str, needs: Needs, body: impl FnOnce(&mut Driver) -> Outcome) -> u32 {
    let mut driver = Driver::lock();
    let describes = matches!(name, "cuGetErrorName" | "cuGetErrorString");
    let fault = if describes { None } else { driver.count(name) };
    let (asked, effect) = match fault {
        // A function that starts no work fails at once.
        Some(fault) if fault.effect == Effect::Late && !begins_work(name) => (Some(fault.code), Some(Effect::Once)),
        fault => (fault.as_ref().map(|fault| fault.code), fault.map(|fault| fault.effect)),
    };
    match effect {
        Some(Effect::Lost) => driver.lose(asked.expect("a fault has a code")),
        Some(Effect::Late) => driver.failing_work = asked,
        Some(Effect::Once) | None => {}
    }
    let result = run(&mut driver, name, needs, asked.filter(|_| effect != Some(Effect::Late)), body);
    // A call that only adds to a graph starts no work.
    let code = match driver.failing_work.take() {
        Some(code) if result.is_ok() => Err(code.into()),
        _ => result,
    };
    match code {
        Ok(()) => 0,
        Err(Failure { code, misuse }) => {
            if let Some(text) = misuse {
                driver.counts.report(format!("{name}: {text}"));
            }
            code.0
        }
    }
}

/// Whether a function enqueues work on a stream.
fn begins_work(name: &str) -> bool {
    let starts = ["cuMemcpy", "cuMemset", "cuLaunch", "cuGraphLaunch", "cuEventRecord", "cuStreamWaitEvent"];
    starts.iter().any(|start| name.starts_with(start))
}

/// Runs the function's body unless the call fails before.
fn run(
    driver: &mut Driver,
    name: &str,
    needs: Needs,
    asked: Option<Code>,
    body: impl FnOnce(&mut Driver) -> Outcome,
) -> Outcome {
    let lost = if needs.context || needs.works_anyway { driver.lost } else { None };
    if let Some(code) = asked.or(lost) {
        if needs.works_anyway && (!needs.context || driver.current().is_ok()) {
            driver.is_failing = true;
            let done = body(driver);
            driver.is_failing = false;
            // The result of the body does not count, but the caller's error does.
            if let Err(Failure { misuse: Some(text), .. }) = done {
                driver.counts.report(format!("{name}: {text}"));
            }
        }
        return Err(code.into());
    }
    if !driver.initialised
        && name != "cuInit"
        && !matches!(name, "cuGetErrorName" | "cuGetErrorString" | "cuDriverGetVersion")
    {
        return Err(Failure::misuse(Code::NOT_INITIALIZED, "called before cuInit"));
    }
    if needs.context {
        driver.current()?;
    }
    body(driver)
}

/// Writes a result through the caller's pointer.
///
/// # Safety
/// `to` is null or valid for a write of a `T`.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Failure::misuse(Code::INVALID_VALUE, "a null pointer for a result"));
    }
    // SAFETY: `to` is not null, so it is valid for a write of a `T`.
    unsafe { to.write(value) };
    Ok(())
}

/// Defines functions of the driver. Each is exported under its name and runs its body under the lock.
macro_rules! driver_functions {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) at $needs:expr, |$driver:ident| $body:block
    )*) => {$(
        $(#[$attribute])*
        ///
        /// # Safety
        /// - Each pointer is null or valid for the reads and writes of the driver's function of this name.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the driver's name")]
        #[allow(clippy::too_many_arguments, reason = "the driver's signature")]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::driver::call(stringify!($name), $needs, |$driver| $body)
        }
    )*};
}
