//! Quoted patterns: the files whose names match, found part by part of the path.
//!
//! Crate `glob` matches single names. Its own walk over folders would end the program at a name that is not Unicode.
//! Here such a name is matched with U+FFFD for each invalid part, so that `*` finds it.

use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Result, anyhow};
use glob::{MatchOptions, Pattern, PatternError};
use host::files::escaped;

/// As in a shell: `*` finds no hidden file. A name never holds a separator.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// A part of a pattern, between two separators.
enum Part {
    /// A name without wildcards, or the root, `.` or `..`.
    Name(PathBuf),
    /// A name with wildcards.
    Match(Pattern),
    /// `**`: any folders below, or none.
    Folders,
}

/// The ordinary files that match, in the order of their names; and for a folder that can't be read, why.
///
/// # Errors
/// The text is no pattern.
pub(super) fn files(pattern: &str) -> Result<Vec<Result<PathBuf>>, PatternError> {
    // The whole is parsed, so that an error names a position in the given text.
    Pattern::new(pattern)?;
    let parts = Path::new(pattern).components().map(part).collect::<Result<Vec<_>, _>>()?;
    let mut walk = Walk::default();
    walk.follow(PathBuf::new(), &parts);
    let Walk { mut found, failed } = walk;
    found.sort();
    found.dedup();
    Ok(failed.into_iter().map(Err).chain(found.into_iter().map(Ok)).collect())
}

fn part(component: Component<'_>) -> Result<Part, PatternError> {
    let text = component.as_os_str().to_string_lossy();
    Ok(match component {
        Component::Normal(_) if text == "**" => Part::Folders,
        Component::Normal(_) if text.contains(['*', '?', '[']) => Part::Match(Pattern::new(&text)?),
        other => Part::Name(other.as_os_str().into()),
    })
}

#[derive(Default)]
struct Walk {
    found: Vec<PathBuf>,
    failed: Vec<anyhow::Error>,
}

impl Walk {
    /// Finds what lies at `parts` below `folder`; the empty path is the folder in which the program runs.
    fn follow(&mut self, folder: PathBuf, parts: &[Part]) {
        let Some((first, rest)) = parts.split_first() else {
            // A broken link is found, and fails by its name when it is read. A pipe is not: to read it would block.
            let is_found = match folder.metadata() {
                Ok(found) => found.is_file(),
                Err(_) => folder.symlink_metadata().is_ok(),
            };
            if is_found {
                self.found.push(folder);
            }
            return;
        };
        match first {
            Part::Name(name) => self.follow(folder.join(name), rest),
            Part::Match(pattern) => {
                for name in self.names(&folder) {
                    let path = folder.join(&name);
                    let matches = pattern.matches_with(&name.to_string_lossy(), OPTIONS);
                    if matches && (rest.is_empty() || path.is_dir()) {
                        self.follow(path, rest);
                    }
                }
            }
            Part::Folders => {
                for name in self.names(&folder) {
                    let path = folder.join(&name);
                    let is_hidden = name.as_encoded_bytes().starts_with(b".");
                    // A link could lead in a circle.
                    if !is_hidden && path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                        self.follow(path, parts);
                    } else if !is_hidden && rest.is_empty() {
                        self.follow(path, rest);
                    }
                }
                if !rest.is_empty() {
                    self.follow(folder, rest);
                }
            }
        }
    }

    /// The names in a folder. A missing folder has none.
    fn names(&mut self, folder: &Path) -> Vec<std::ffi::OsString> {
        let place = if folder == Path::new("") { Path::new(".") } else { folder };
        let entries = place.read_dir().and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect());
        entries.unwrap_or_else(|error: io::Error| {
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                self.failed.push(anyhow!("{}: {error}", escaped(place)));
            }
            Vec::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a pattern finds below a folder with these files.
    fn found(files_there: &[&str], pattern: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for name in files_there {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let pattern = format!("{}/{pattern}", Pattern::escape(folder.path().to_str().unwrap()));
        let found = files(&pattern).unwrap().into_iter().map(Result::unwrap);
        found.map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn names_match_as_in_a_shell() {
        let there = ["b/2.png", "b/1.png", "b/.3.png", "b/4.PNG", "b/c/5.png", ".d/6.png", "7.png", "b/8.png/x"];
        for (pattern, expected) in [
            ("*.png", &["7.png"][..]),
            ("b/*.png", &["b/1.png", "b/2.png"]),
            ("*/[12].png", &["b/1.png", "b/2.png"]),
            ("?/[!1].???", &["b/2.png", "b/4.PNG"]),
            ("b/.*", &["b/.3.png"]),
            ("**/*.png", &["7.png", "b/1.png", "b/2.png", "b/c/5.png"]),
            ("**/c/*", &["b/c/5.png"]),
            ("b/**", &["b/1.png", "b/2.png", "b/4.PNG", "b/8.png/x", "b/c/5.png"]),
            ("b/../*.png", &["b/../7.png"]),
            ("nowhere/*", &[]),
            ("7.png/*", &[]),
        ] {
            assert_eq!(found(&there, pattern), expected, "{pattern}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn sockets_are_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("1.png")).unwrap();
        std::os::unix::fs::symlink("missing", folder.path().join("2.png")).unwrap();
        let found = files(&format!("{}/*", folder.path().display())).unwrap();
        assert_eq!(found.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [folder.path().join("2.png")]);
    }

    #[test]
    fn what_is_no_pattern_is_an_error() {
        assert!(files("a[").is_err() && files("a/**b").is_err());
    }
}
