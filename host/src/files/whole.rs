//! Files that appear whole or not at all.
//!
//! A file is written under a temporary name beside its final one and renamed when complete. Whatever happens before,
//! nothing stands under the final name; only a process killed in the middle leaves the temporary file, whose name begins
//! with `.host-unfinished-`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::{Error, Result};

/// What to do if the file to be written exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and writing fails with [`Error::Exists`].
    #[default]
    Keep,
    /// It is replaced.
    Replace,
}

/// The temporary files that exist now. Held locked while one is made or renamed, so that whoever holds it knows all.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files of pictures being written, then calls `end`, which should end the process: for Ctrl-C.
/// Not to be called in a signal handler itself, but in a thread that waits for signals.
pub fn remove_unfinished(end: impl FnOnce()) {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // If that fails there is nobody left to tell.
        let _ = fs::remove_file(path);
    }
    // Under the lock, so that no other thread makes a new one.
    end();
}

/// Writes a file through `contents`.
pub(super) fn write(
    path: &Path,
    existing: Existing,
    contents: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
) -> Result<()> {
    let blame = |reason: String| Error::File { path: path.into(), reason };
    let exists = || Error::Exists { path: path.into() };
    // Early, before the work; the rename below decides.
    let target = target(path, existing)?;
    let folder = folder(&target);
    let in_folder = |error: io::Error| in_folder(path, folder, &error);

    let temporary = {
        let mut paths = unfinished();
        let temporary = create(folder).map_err(in_folder)?;
        paths.push(temporary.path().to_owned());
        // Before anything is in it, so that it is never open to more people than the one it replaces.
        as_replaced(temporary.as_file(), &target).map_err(in_folder)?;
        temporary
    };
    let name = temporary.path().to_owned();
    let result = fill(temporary, contents).map_err(blame).and_then(|temporary| {
        let mut paths = unfinished();
        let persisted = match existing {
            Existing::Keep => temporary.persist_noclobber(&target),
            Existing::Replace => temporary.persist(&target),
        };
        paths.retain(|path| *path != name);
        match persisted {
            Ok(_) => Ok(()),
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
            Err(failed) => Err(in_folder(failed.error)),
        }
    });
    unfinished().retain(|path| *path != name);
    result
}

/// Whether a file could be written: its folder takes a temporary file, which is removed at once.
pub(super) fn check(path: &Path, existing: Existing) -> Result<()> {
    let target = target(path, existing)?;
    let folder = folder(&target);
    create(folder).map(drop).map_err(|error| in_folder(path, folder, &error))
}

/// Whether files could be written in a folder.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    create(folder).map(drop).map_err(|error| {
        let reason = format!("can't be written in: {}", words(&error));
        Error::File { path: folder.into(), reason }
    })
}

/// Where the file will stand: where a link leads to, or the path itself.
fn target(path: &Path, existing: Existing) -> Result<PathBuf> {
    let blame = |reason: String| Error::File { path: path.into(), reason };
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(path.to_owned()) };
    // A link stays, what it leads to is replaced.
    let target = if found.is_symlink() {
        fs::canonicalize(path).map_err(|error| match fs::read_link(path) {
            Ok(to) if error.kind() == io::ErrorKind::NotFound => {
                blame(format!("is a link to {}, which does not exist", to.display()))
            }
            _ => blame(error.to_string()),
        })?
    } else {
        path.to_owned()
    };
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return Err(blame("is not an ordinary file".into()));
    }
    if existing == Existing::Keep { Err(Error::Exists { path: path.into() }) } else { Ok(target) }
}

/// The folder that a file is in.
fn folder(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn in_folder(path: &Path, folder: &Path, error: &io::Error) -> Error {
    if !folder.exists() {
        let reason = format!("can't be written in {}: the folder does not exist", folder.display());
        return Error::File { path: path.into(), reason };
    }
    Error::File { path: path.into(), reason: format!("can't be written in {}: {}", folder.display(), words(error)) }
}

/// An error without the name of the temporary file, which says nothing to anybody; tempfile puts it behind the system's words.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" at path ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

fn create(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".host-unfinished-");
    // As an ordinary new file: the process's umask takes its part off.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Gives a file the owner, where that may be, and the permissions of the one that it will replace, if there is one.
fn as_replaced(file: &File, target: &Path) -> io::Result<()> {
    let Ok(found) = fs::metadata(target) else { return Ok(()) };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        // Only root may give a file away, and only one's own groups may have it: then it stays the writer's.
        let _ = fchown(file, None, Some(found.gid())).and_then(|()| fchown(file, Some(found.uid()), None));
    }
    file.set_permissions(found.permissions())
}

fn fill(
    temporary: NamedTempFile,
    contents: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
) -> Result<NamedTempFile, String> {
    let file = temporary.as_file().try_clone().map_err(|error| error.to_string())?;
    let mut writer = BufWriter::with_capacity(1 << 16, file);
    contents(&mut writer)?;
    writer.flush().map_err(|error| error.to_string())?;
    Ok(temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let result = write(&path, Existing::Keep, |file| {
            file.write_all(b"half").unwrap();
            Err("enough".into())
        });
        assert_eq!(result.unwrap_err().to_string(), format!("{}: enough", path.display()));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn an_existing_file_is_kept_or_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let put = |text: &'static [u8], existing| {
            write(&path, existing, |file| file.write_all(text).map_err(|error| error.to_string()))
        };
        put(b"first", Existing::Keep).unwrap();
        assert!(matches!(put(b"second", Existing::Keep), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        // One that comes while the other is being written.
        let other = folder.path().join("b");
        let raced = write(&other, Existing::Keep, |_| fs::write(&other, "theirs").map_err(|error| error.to_string()));
        assert!(matches!(raced, Err(Error::Exists { .. })));
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        put(b"third", Existing::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_permissions_are_ordinary() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [path, plain, link] = ["a", "b", "c"].map(|name| folder.path().join(name));
        write(&path, Existing::Keep, |_| Ok(())).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        // Who replaces a file does not open it to others.
        for wanted in [0o600, 0o440] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
            write(&path, Existing::Replace, |_| Ok(())).unwrap();
            assert_eq!(mode(&path) & 0o777, wanted);
        }
        symlink("a", &link).unwrap();
        write(&link, Existing::Replace, |file| file.write_all(b"x").map_err(|error| error.to_string())).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"x");
        let nowhere = folder.path().join("d");
        symlink("missing", &nowhere).unwrap();
        let error = write(&nowhere, Existing::Replace, |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("d: is a link to missing, which does not exist"), "{error}");
    }
}
