//! Standard output is for results, standard error for messages. Neither panics if nobody reads it.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};

/// Prints a result, whole. A reader that has gone away, such as `head`, is no error.
pub(super) fn result(text: impl Display) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(anyhow::anyhow!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Prints a line for the person at the terminal.
pub(super) fn message(text: Arguments<'_>) {
    // There is no other place to say that this failed.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
