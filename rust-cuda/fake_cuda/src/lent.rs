//! Host memory that a test lends to a library call, and has back when the call returns: nothing may touch it afterwards.

use crate::driver::State;
use crate::work::Span;

/// Which host memory is lent, and which was.
#[derive(Default)]
pub(crate) struct Lent {
    /// During a call.
    now: Vec<Span>,
    /// By calls that have returned.
    before: Vec<Span>,
}

impl State {
    /// The test lends memory to a call.
    pub(crate) fn lend(&mut self, span: Span) {
        self.lent.before.retain(|other| !other.overlaps(span));
        self.lent.now.push(span);
    }

    /// The call has returned. Work that still uses what was lent is reported, and is kept from doing so.
    pub(crate) fn has_returned(&mut self) {
        let Self { streams, lent, page_locked, counts, .. } = self;
        lent.before.append(&mut lent.now);
        for (_, stream) in streams.iter_mut() {
            for operation in stream.pending_mut() {
                let spans = operation.work.host_spans(page_locked);
                if let Some(span) = spans.into_iter().find(|&span| lent.was_lent(span)) {
                    operation.is_forbidden = true;
                    counts.report(format!("the call has returned, and {} still uses {span}", operation.work.name()));
                }
            }
        }
    }

    /// The test's memory is its own affair from now on.
    pub(crate) fn forget_lent(&mut self) {
        self.lent = Lent::default();
    }
}

impl Lent {
    /// Whether memory was lent to a call that has returned.
    pub(crate) fn was_lent(&self, span: Span) -> bool {
        self.before.iter().any(|other| other.overlaps(span))
    }
}
