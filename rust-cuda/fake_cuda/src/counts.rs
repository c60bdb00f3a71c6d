//! Counts and the report.
//!
//! A report is text with one fact per line:
//!
//! | line | meaning |
//! | --- | --- |
//! | `calls N` | number of calls of driver functions, without those that ask how far the device has come |
//! | `call NAME N` | number of calls of one function |
//! | `fired N` | number of failures on request that happened |
//! | `struck NAME` | a function that failed on request |
//! | `live KIND N` | number of objects that exist now |
//! | `leaked KIND N` | number of objects that existed when their context ended |
//! | `waiting_frees N` | number of frees that had to wait for work on the memory |
//! | `blocking_streams N` | number of streams that callers created without the flag `NON_BLOCKING` |
//! | `violation TEXT` | a misuse of the driver |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::driver::State;
use crate::faults::{Fault, is_query};
use crate::table::Kind;

/// The counts so far.
#[derive(Default)]
pub(crate) struct Counts {
    calls: u64,
    by_function: BTreeMap<&'static str, u64>,
    struck: Vec<&'static str>,
    pub(crate) leaked: BTreeMap<&'static str, usize>,
    pub(crate) waiting_frees: u64,
    pub(crate) blocking_streams: u64,
    violations: Vec<String>,
}

impl Counts {
    /// Notes a misuse of the driver.
    pub(crate) fn report(&mut self, text: String) {
        eprintln!("fake_cuda: {text}");
        self.violations.push(text);
    }
}

impl State {
    /// Counts a call. Returns the failure that was requested for it, if any.
    pub(crate) fn count(&mut self, name: &'static str) -> Option<Fault> {
        self.counts.calls += u64::from(!is_query(name));
        *self.counts.by_function.entry(name).or_default() += 1;
        let mut struck = None;
        for fault in &mut self.settings.faults {
            if fault.strikes(name) && struck.is_none() {
                struck = Some(fault.clone());
            }
        }
        if struck.is_some() {
            self.counts.struck.push(name);
        }
        struck
    }

    /// The objects that exist now.
    pub(crate) fn live(&self) -> BTreeMap<&'static str, usize> {
        BTreeMap::from([
            (Kind::Context.name(), self.contexts.live()),
            (Kind::Stream.name(), self.streams.iter().filter(|(_, stream)| stream.is_live()).count()),
            (Kind::Event.name(), self.events.iter().count()),
            (Kind::Module.name(), self.modules.iter().count()),
            (Kind::Graph.name(), self.graphs.iter().count()),
            (Kind::GraphExec.name(), self.graph_execs.iter().count()),
            ("device_memory", self.memory.live()),
            ("page_locked_memory", self.page_locked.live()),
        ])
    }

    /// The report.
    pub(crate) fn report(&self) -> String {
        let counts = &self.counts;
        let mut text = format!("calls {}\nfired {}\n", counts.calls, counts.struck.len());
        let mut line = |start: &str, name: &str, count: u64| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{start} {name} {count}");
        };
        counts.by_function.iter().for_each(|(name, &count)| line("call", name, count));
        self.live().into_iter().for_each(|(name, count)| line("live", name, count as u64));
        counts.leaked.iter().for_each(|(name, &count)| line("leaked", name, count as u64));
        let _ = writeln!(text, "waiting_frees {}", counts.waiting_frees);
        let _ = writeln!(text, "blocking_streams {}", counts.blocking_streams);
        for name in &counts.struck {
            let _ = writeln!(text, "struck {name}");
        }
        for violation in &counts.violations {
            let _ = writeln!(text, "violation {}", violation.replace('\n', " | "));
        }
        text
    }
}
