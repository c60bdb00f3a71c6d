//! What threads wait for, and the exchange of values within a warp.

use std::panic::Location;

use cuda_std::executor::Collective;

/// What a fiber waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Nothing: it can continue with this value.
    Ready(u32),
    /// A change of an element by another thread. It can continue, to look again.
    Spin,
    /// All threads of the block.
    Barrier(&'static Location<'static>),
    /// All threads of the warp.
    Warp(Collective, u32, &'static Location<'static>),
    /// It has ended.
    Ended,
}

/// Whether two threads wait for the same operation at the same line.
pub(crate) fn same(a: &Wait, b: &Wait) -> bool {
    match (a, b) {
        (Wait::Barrier(a), Wait::Barrier(b)) => a == b,
        (Wait::Warp(kind, _, a), Wait::Warp(other, _, b)) => {
            std::mem::discriminant(kind) == std::mem::discriminant(other) && a == b
        }
        (Wait::Ended, Wait::Ended) => true,
        _ => false,
    }
}

/// Executes a collective of a whole warp: each lane gets its answer.
pub(crate) fn exchange(waits: &mut [Wait]) {
    let values: Vec<u32> =
        waits.iter().map(|wait| if let Wait::Warp(_, value, _) = wait { *value } else { 0 }).collect();
    let ballot = values.iter().enumerate().fold(0, |bits, (lane, &value)| bits | u32::from(value != 0) << lane);
    for (lane, wait) in waits.iter_mut().enumerate() {
        let Wait::Warp(operation, value, _) = *wait else { continue };
        *wait = Wait::Ready(match operation {
            Collective::Sync | Collective::Gather => 0,
            Collective::ShuffleDown(delta) => values.get(lane + delta as usize).copied().unwrap_or(value),
            Collective::ShuffleXor(bits) => values.get(lane ^ bits as usize).copied().unwrap_or(value),
            Collective::Shuffle(from) => values[from as usize % values.len()],
            Collective::Ballot => ballot,
        });
    }
}
