//! The defects of a launch, put together from all blocks.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::OutOfMemory;
use crate::defect::{Defect, Kind};
use crate::launch::Place;

/// Defects of different lines or kinds after which a launch is given up.
const MOST_KINDS: usize = 32;
/// Defects of one line and kind after which a launch is given up.
const MOST_TIMES: u64 = 100_000;

/// What was found so far.
#[derive(Debug)]
pub(crate) struct Found {
    kernel: String,
    defects: Mutex<Vec<Defect>>,
    enough: AtomicBool,
    /// Memory that could not be had; the launch is then given up.
    short: OnceLock<OutOfMemory>,
}

impl Found {
    pub(crate) fn new(kernel: &str) -> Self {
        Self {
            kernel: kernel.to_owned(),
            defects: Mutex::default(),
            enough: AtomicBool::new(false),
            short: OnceLock::new(),
        }
    }

    /// Whether so much was found that going on would tell nothing new.
    pub(crate) fn enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Gives the launch up for want of memory.
    pub(crate) fn give_up(&self, short: OutOfMemory) {
        // The first one is told.
        let _ = self.short.set(short);
        self.enough.store(true, Ordering::Relaxed);
    }

    /// The memory that could not be had, if any.
    pub(crate) fn short(&self) -> Option<OutOfMemory> {
        self.short.get().copied()
    }

    /// Adds a defect, or counts it with the first one of its line and kind.
    pub(crate) fn add(&self, place: Place, action: String, kind: Kind, location: Option<&'static Location<'static>>) {
        let mut defects = self.defects.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |defect: &&mut Defect| {
            std::mem::discriminant(&defect.kind) == std::mem::discriminant(&kind) && defect.location == location
        };
        if let Some(defect) = defects.iter_mut().find(same) {
            defect.times += 1;
            if defect.times >= MOST_TIMES {
                self.enough.store(true, Ordering::Relaxed);
            }
            return;
        }
        defects.push(Defect { kernel: self.kernel.clone(), place, action, kind, location, times: 1 });
        if defects.len() >= MOST_KINDS {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn into_defects(self) -> Vec<Defect> {
        self.defects.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
