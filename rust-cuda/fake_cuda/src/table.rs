//! Handles and tables of objects. A handle is a number that is used once and is not an address.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::code::Code;
use crate::driver::{Failure, Outcome};

/// The kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Context,
    Stream,
    Event,
    Module,
    Function,
    Graph,
    GraphNode,
    GraphExec,
}

impl Kind {
    /// The name for messages and reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Stream => "stream",
            Self::Event => "event",
            Self::Module => "module",
            Self::Function => "function",
            Self::Graph => "graph",
            Self::GraphNode => "graph_node",
            Self::GraphExec => "graph_exec",
        }
    }
}

/// A handle as callers hold it.
pub(crate) type Handle = u64;

/// The live objects of a kind.
pub(crate) struct Table<T> {
    kind: Kind,
    live: BTreeMap<Handle, T>,
}

impl<T> Table<T> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, live: BTreeMap::new() }
    }

    /// Adds an object and returns its handle.
    pub(crate) fn insert(&mut self, object: T) -> Handle {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Handles lie beyond the address space of the host, so that nothing can be read through them.
        let handle = 0xfa00_0000_0000_0000 | (self.kind as u64) << 48 | NEXT.fetch_add(1, Ordering::Relaxed) << 4;
        self.live.insert(handle, object);
        handle
    }

    fn missing(&self, handle: Handle) -> Failure {
        let name = self.kind.name();
        Failure::misuse(Code::INVALID_HANDLE, format!("{handle:#x} is no live {name}: destroyed before, or never made"))
    }

    /// The object of a handle.
    pub(crate) fn get(&self, handle: Handle) -> Outcome<&T> {
        self.live.get(&handle).ok_or_else(|| self.missing(handle))
    }

    /// The object of a handle.
    pub(crate) fn get_mut(&mut self, handle: Handle) -> Outcome<&mut T> {
        if !self.live.contains_key(&handle) {
            return Err(self.missing(handle));
        }
        Ok(self.live.get_mut(&handle).expect("it is there"))
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, handle: Handle) -> Outcome<T> {
        self.live.remove(&handle).ok_or_else(|| self.missing(handle))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.live.iter().map(|(handle, object)| (*handle, object))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Handle, &mut T)> {
        self.live.iter_mut().map(|(handle, object)| (*handle, object))
    }

    /// Keeps the objects that `wanted` accepts. Returns the number of those that were removed.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) -> usize {
        let before = self.live.len();
        self.live.retain(|_, object| wanted(object));
        before - self.live.len()
    }
}
