//! What threads wait for, and the exchange of values within a warp.

use std::panic::Location;

use cuda_std::executor::Collective;

/// What a fiber waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// Nothing: it can continue with this value.
    Ready(u32),
    /// A change of an element by another thread. It can continue, to look again.
    Spin,
    /// All threads of the block, with a predicate to count.
    Barrier(bool, &'static Location<'static>),
    /// The threads of the warp that are in the mask.
    Warp(u32, Collective, u64, &'static Location<'static>),
    /// It has ended.
    Ended,
}

/// Whether two threads wait for the same operation at the same line.
#[inline]
pub(crate) fn same(a: &Wait, b: &Wait) -> bool {
    // A line has several locations if its function has several instances. A comparison of two takes long.
    let same_line = |a: &'static Location<'static>, b: &'static Location<'static>| std::ptr::eq(a, b) || a == b;
    match (a, b) {
        (Wait::Barrier(_, a), Wait::Barrier(_, b)) => same_line(a, b),
        (Wait::Warp(mask, kind, _, a), Wait::Warp(other_mask, other, _, b)) => {
            std::mem::discriminant(kind) == std::mem::discriminant(other) && mask == other_mask && same_line(a, b)
        }
        (Wait::Ended, Wait::Ended) => true,
        _ => false,
    }
}

/// The lanes of a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

/// Executes a collective of the lanes of a mask, all of which wait for it: each lane gets its answer.
pub(crate) fn exchange(waits: &mut [Wait], mask: u32) {
    let mut values = [None; 32];
    for lane in lanes(mask) {
        values[lane] = if let Wait::Warp(_, _, value, _) = waits[lane] { Some(value) } else { None };
    }
    let matching = |wanted: &dyn Fn(u64) -> bool| {
        let holds = |&lane: &usize| values[lane].is_some_and(wanted);
        lanes(mask).filter(holds).fold(0, |bits, lane| bits | 1_u32 << lane)
    };
    let mut old = [Wait::Ended; 32];
    old[..waits.len()].copy_from_slice(waits);
    for lane in lanes(mask) {
        let Wait::Warp(_, operation, value, _) = old[lane] else { continue };
        // Of a lane that is not in the mask, a shuffle gets any value: all ones are NaN in the types that have one.
        let of = |from: usize| values[from].unwrap_or(u64::MAX) as u32;
        waits[lane] = Wait::Ready(match operation {
            Collective::Sync | Collective::Gather => 0,
            Collective::ShuffleUp(delta) => lane.checked_sub(delta as usize).map_or(value as u32, of),
            Collective::ShuffleDown(delta) if lane + delta as usize <= 31 => of(lane + delta as usize),
            Collective::ShuffleXor(bits) => of(lane ^ (bits % 32) as usize),
            Collective::ShuffleDown(_) => value as u32,
            Collective::Shuffle(from) => of(from as usize % 32),
            Collective::Ballot => matching(&|value| value != 0),
            Collective::Match => matching(&|other| other == value),
            Collective::Reduce(reduction) => {
                let mut words = values.iter().flatten().map(|&value| value as u32);
                let first = words.next().unwrap_or(0);
                words.fold(first, |a, b| reduction.combine(a, b))
            }
        });
    }
}
