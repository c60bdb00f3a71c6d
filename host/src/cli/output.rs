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
    let _ = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// The text without what a terminal would obey, such as a file's name may hold. Its lines stay.
fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut printable, character| {
        match character {
            '\n' => printable.push(character),
            _ if character.is_control() => printable.extend(character.escape_default()),
            _ => printable.push(character),
        }
        printable
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_are_not_commanded() {
        assert_eq!(printable("a\u{1b}[2J\r\u{9b}é\nb"), "a\\u{1b}[2J\\r\\u{9b}é\nb");
    }
}
