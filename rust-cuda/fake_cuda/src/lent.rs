//! Host memory that a test lends to a library call until the call returns. Nothing may access it afterwards.

use crate::driver::State;
use crate::work::Span;

/// The host memory that is lent, and the memory that was lent.
#[derive(Default)]
pub(crate) struct Lent {
    /// The memory that is lent to a call in progress.
    now: Vec<Span>,
    /// The memory that was lent to calls that have returned.
    before: Vec<Span>,
}

impl State {
    /// Notes that the test lends memory to a call.
    pub(crate) fn lend(&mut self, span: Span) {
        self.lent.before.retain(|other| !other.overlaps(span));
        self.lent.now.push(span);
    }

    /// Notes that the call has returned. Work that still uses lent memory is reported and dropped.
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

    /// Notes that the test may use its memory for anything again.
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
