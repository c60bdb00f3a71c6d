//! The defects of a launch, collected from all blocks.

use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::OutOfMemory;
use crate::defect::{Defect, Kind};
use crate::launch::Place;

/// The number of different lines and kinds after which a launch is given up.
const MOST_KINDS: usize = 32;
/// The number of defects of one line and kind after which a launch is given up.
const MOST_TIMES: u64 = 100_000;

/// The defects that were found so far.
#[derive(Debug)]
pub(crate) struct Found {
    kernel: String,
    /// Each with the number of its block in the grid.
    defects: Mutex<Vec<(u64, Defect)>>,
    enough: AtomicBool,
    /// The allocation that failed. The launch is then given up.
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

    /// Whether the launch is given up.
    pub(crate) fn enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    /// Gives the launch up for lack of memory.
    pub(crate) fn give_up(&self, short: OutOfMemory) {
        // The first failure is reported.
        let _ = self.short.set(short);
        self.enough.store(true, Ordering::Relaxed);
    }

    /// Gives the launch up for a defect that would take each block very long.
    pub(crate) fn stop(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// The allocation that failed, if any.
    pub(crate) fn short(&self) -> Option<OutOfMemory> {
        self.short.get().copied()
    }

    /// Adds a defect, or counts it with the others of its line and kind.
    ///
    /// The report describes the defect of the block with the lowest number, because host threads find defects in any
    /// order.
    pub(crate) fn add(
        &self,
        block: u64,
        place: Place,
        action: String,
        kind: Kind,
        location: Option<&'static Location<'static>>,
    ) {
        let mut defects = self.defects.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |(_, defect): &&mut (u64, Defect)| {
            std::mem::discriminant(&defect.kind) == std::mem::discriminant(&kind)
                && (defect.location, panic_place(&defect.kind)) == (location, panic_place(&kind))
        };
        let defect = Defect { kernel: self.kernel.clone(), place, action, kind: kind.clone(), location, times: 1 };
        if let Some((of, known)) = defects.iter_mut().find(same) {
            let times = known.times + 1;
            if block < *of {
                (*of, *known) = (block, defect);
            }
            known.times = times;
            if times >= MOST_TIMES {
                self.enough.store(true, Ordering::Relaxed);
            }
            return;
        }
        defects.push((block, defect));
        if defects.len() >= MOST_KINDS {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    /// The defects in the order of their blocks. In a block, those that may be the reason for others come first: a panic
    /// makes its thread miss barriers, and a missed barrier makes accesses race.
    pub(crate) fn into_defects(self) -> Vec<Defect> {
        let mut defects = self.defects.into_inner().unwrap_or_else(PoisonError::into_inner);
        let consequence = |kind: &Kind| match kind {
            Kind::Panic { .. } | Kind::Assertion { .. } => 0,
            Kind::BarrierMissed { .. } => 1,
            _ => 2,
        };
        defects.sort_by_key(|(block, defect)| (*block, consequence(&defect.kind)));
        defects.into_iter().map(|(_, defect)| defect).collect()
    }
}

/// The place of a panic, which is text.
fn panic_place(kind: &Kind) -> Option<&str> {
    if let Kind::Panic { at, .. } = kind { at.as_deref() } else { None }
}
