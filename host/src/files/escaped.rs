//! Names of files in messages.

use std::fmt;
use std::path::Path;

/// A path for a message: in one line, and without what a terminal would obey.
///
/// A name may hold any character. Control characters and those that change the direction of writing are shown as Rust
/// writes them, such as `\n`. What is no Unicode is shown as U+FFFD, as [`Path::display`] does.
///
/// ```
/// assert_eq!(host::files::escaped("a\nb.png").to_string(), r"a\nb.png");
/// ```
pub fn escaped<P: AsRef<Path> + ?Sized>(path: &P) -> Escaped<'_> {
    Escaped(path.as_ref())
}

/// What [`escaped`] returns, to be formatted.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a Path);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for character in self.0.to_string_lossy().chars() {
            if is_unprintable(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// Control characters, the separators of lines and paragraphs, and marks that change the direction of writing.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_one_line() {
        let shown = |name: &str| escaped(name).to_string();
        assert_eq!(shown("a\nerror: b\r\t\u{1b}[2J\u{9b}.png"), r"a\nerror: b\r\t\u{1b}[2J\u{9b}.png");
        assert_eq!(shown("gnp.\u{202e}a\u{2028}"), r"gnp.\u{202e}a\u{2028}");
        assert_eq!(shown("in/é 日本 'a\\b'.png"), "in/é 日本 'a\\b'.png");
    }
}
