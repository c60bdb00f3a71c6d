//! Host memory that is lent to the device: every way out of the scope that lends it waits first.
//!
//! A copy between host and device returns before it is done. Until the stream has been waited for, the device reads or
//! writes the host's memory, and safe code must neither free nor change it. So the calls that start such copies are
//! methods of [`Lent`] alone, which exists only within [`lend`]. As [`std::thread::scope`] waits for its threads,
//! `lend` waits for the streams that were given work: on success, on every error, and on a panic. The slices that it
//! lends outlive it, which their lifetimes prove.
//!
//! # Where the wait fails
//! Nothing of the scope runs any more then, either: [`driver::finish`](super::driver::finish) says why.

mod copies;

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use cust::stream::Stream;

pub(super) use self::copies::{DeviceRows, copy_rows_on_device};
use super::{Gpu, driver};
use crate::Result;

/// What host memory is lent to: a stream, or a counter in tests.
pub(super) trait Borrower: Copy {
    /// Whether both are one.
    fn is(self, other: Self) -> bool;

    /// Waits until all that it was given is done, or never will be. On return it uses nothing that it was lent,
    /// whatever the result.
    fn finish(self) -> Result<()>;
}

impl Borrower for &Stream {
    fn is(self, other: Self) -> bool {
        std::ptr::eq(self, other)
    }

    fn finish(self) -> Result<()> {
        driver::finish(self, "run the kernel")
    }
}

/// A scope in which the device may use memory that lives at least as long as `'scope`.
pub(super) struct Lent<'scope, 'env: 'scope, B: Borrower> {
    /// Those that were given work since they were waited for.
    busy: RefCell<Vec<B>>,
    /// As in [`std::thread::Scope`]: a `'scope` must not be made shorter or longer.
    scope: PhantomData<Cell<&'scope ()>>,
    env: PhantomData<Cell<&'env ()>>,
}

/// The scope of a device's streams.
pub(super) type LentToDevice<'scope, 'env> = Lent<'scope, 'env, &'env Stream>;

impl<B: Borrower> Lent<'_, '_, B> {
    /// Has the scope wait for what `borrower` is given from now on.
    pub(super) fn uses(&self, borrower: B) {
        let mut busy = self.busy.borrow_mut();
        if !busy.iter().any(|known| known.is(borrower)) {
            busy.push(borrower);
        }
    }

    /// Waits for all that was begun. With nothing begun since, the end of the scope does not wait again.
    ///
    /// # Errors
    /// The first of what went wrong in the streams. All have been waited for.
    pub(super) fn wait(&self) -> Result<()> {
        let mut waited = Ok(());
        for borrower in self.busy.take() {
            waited = waited.and(borrower.finish());
        }
        waited
    }
}

/// Runs `work`, which lends memory by its argument, and waits for what it began, however it ends.
///
/// # Errors
/// Of the wait, which has the cause if a stream failed, or else of `work`.
pub(super) fn lend<'env, B: Borrower, T>(
    work: impl for<'scope> FnOnce(&'scope Lent<'scope, 'env, B>) -> Result<T>,
) -> Result<T> {
    struct WaitOnPanic<'a, 'scope, 'env, B: Borrower>(&'a Lent<'scope, 'env, B>);
    impl<B: Borrower> Drop for WaitOnPanic<'_, '_, '_, B> {
        fn drop(&mut self) {
            // Without a panic this was waited for below, and nothing is done. With one, there is nobody to tell.
            let _ = self.0.wait();
        }
    }
    let lent = Lent { busy: RefCell::default(), scope: PhantomData, env: PhantomData };
    let guard = WaitOnPanic(&lent);
    let worked = work(guard.0);
    let waited = lent.wait();
    waited.and(worked)
}

impl Gpu {
    /// Runs `work` in the device's context, and waits for what it began, however it ends; see [`lend`].
    ///
    /// # Errors
    /// As for [`lend`]; [`Error::DeviceLost`](crate::Error::DeviceLost) if the context can't be entered, and then
    /// `work` has not run.
    pub(super) fn lend<'env, T>(
        &'env self,
        work: impl for<'scope> FnOnce(&'scope LentToDevice<'scope, 'env>) -> Result<T>,
    ) -> Result<T> {
        let _entered = self.enter()?;
        lend(work)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::Error;

    /// Counts how often it was waited for, and fails if it is told to.
    #[derive(Default)]
    struct Counter {
        waits: Cell<usize>,
        fails: Cell<bool>,
    }

    impl Borrower for &Counter {
        fn is(self, other: Self) -> bool {
            std::ptr::eq(self, other)
        }

        fn finish(self) -> Result<()> {
            self.waits.set(self.waits.get() + 1);
            if self.fails.get() { Err(Error::NoTime) } else { Ok(()) }
        }
    }

    #[test]
    fn every_way_out_waits_once_for_each_stream_that_was_given_work() {
        let [up, down, idle] = [Counter::default(), Counter::default(), Counter::default()];
        let waits = || [&up, &down, &idle].map(|counter| counter.waits.take());
        fn begin<'a>(lent: &Lent<'_, '_, &'a Counter>, up: &'a Counter, down: &'a Counter) {
            lent.uses(up);
            lent.uses(down);
            lent.uses(up);
        }

        let ok = lend(|lent| {
            begin(lent, &up, &down);
            Ok(5)
        });
        assert_eq!((ok.unwrap(), waits()), (5, [1, 1, 0]));

        let failed: Result<()> = lend(|lent| {
            begin(lent, &up, &down);
            Err(Error::NoTime)
        });
        assert!(matches!(failed, Err(Error::NoTime)));
        assert_eq!(waits(), [1, 1, 0]);

        let panicked = catch_unwind(AssertUnwindSafe(|| {
            lend(|lent| -> Result<()> {
                begin(lent, &up, &down);
                panic!("planted")
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(waits(), [1, 1, 0]);
    }

    #[test]
    fn a_stream_that_fails_keeps_no_other_from_being_waited_for() {
        let [first, second] = [Counter::default(), Counter::default()];
        first.fails.set(true);
        let result = lend(|lent| {
            lent.uses(&first);
            lent.uses(&second);
            Ok(())
        });
        assert!(matches!(result, Err(Error::NoTime)));
        assert_eq!((first.waits.get(), second.waits.get()), (1, 1));
    }

    #[test]
    fn what_was_waited_for_is_not_waited_for_again() {
        let stream = Counter::default();
        lend(|lent| {
            lent.uses(&stream);
            lent.wait()?;
            assert_eq!(stream.waits.get(), 1);
            Ok(())
        })
        .unwrap();
        assert_eq!(stream.waits.get(), 1);

        lend(|lent| {
            lent.uses(&stream);
            lent.wait()?;
            lent.uses(&stream);
            Ok(())
        })
        .unwrap();
        assert_eq!(stream.waits.get(), 3);
    }
}
