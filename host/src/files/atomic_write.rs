//! Writes files atomically: a file appears whole or not at all.
//!
//! A file is written under a temporary name in the target's folder. It is synced and renamed. Then the folder is
//! synced, so that a reported file survives a loss of power.
//!
//! The sync of a folder takes longer than that of a file (about 5 ms and 1 ms). So a batch syncs each folder once, at
//! its end ([`DeferredSync`]).
//!
//! A killed process leaves its temporary file, whose name begins with `.host-unfinished-`. The next process that writes
//! into the folder removes it ([`unfinished`](super::unfinished)).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use super::escaped;
use super::unfinished::create;
use crate::{Error, Result};

/// What to do if the target exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverwritePolicy {
    /// Keeps it. Writing fails with [`Error::Exists`].
    #[default]
    Keep,
    /// Replaces it.
    Replace,
}

/// The temporary files that exist now. The lock is held while a file is created or renamed, so the list is complete.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the temporary files, then calls `end`, which should end the process: for Ctrl-C. Call it from a thread that
/// waits for signals, not from a signal handler.
pub fn remove_unfinished(end: impl FnOnce()) {
    let mut paths = unfinished();
    for path in paths.drain(..) {
        // A failure can't be reported any more.
        let _ = fs::remove_file(path);
    }
    // The lock is still held, so no other thread creates a file.
    end();
}

/// Writes a file through `contents`.
pub(super) fn write(
    path: &Path,
    existing: OverwritePolicy,
    contents: impl FnOnce(&mut BufWriter<File>) -> Result<(), String>,
) -> Result<()> {
    let blame = |reason: String| Error::File { path: path.into(), reason };
    let exists = || Error::Exists { path: path.into() };
    // This check is early, before the work. The rename below decides.
    let target = target(path, existing)?;
    let folder = folder(&target);
    let in_folder = |error: io::Error| in_folder(path, folder, &error);

    let temporary = {
        let mut paths = unfinished();
        let temporary = create(folder).map_err(in_folder)?;
        paths.push(temporary.path().to_owned());
        // The file is still empty, so its contents are never open to more people than the target's.
        as_replaced(temporary.as_file(), &target).map_err(in_folder)?;
        temporary
    };
    let name = temporary.path().to_owned();
    let result = fill(temporary, contents).map_err(blame).and_then(|temporary| {
        let mut paths = unfinished();
        let persisted = match existing {
            OverwritePolicy::Keep => temporary.persist_noclobber(&target),
            OverwritePolicy::Replace => temporary.persist(&target),
        };
        paths.retain(|path| *path != name);
        drop(paths);
        match persisted {
            Ok(_) => sync_or_defer(folder).map_err(in_folder),
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => Err(exists()),
            Err(failed) => Err(in_folder(failed.error)),
        }
    });
    unfinished().retain(|path| *path != name);
    result
}

/// Checks that a file could be written: creates a temporary file in its folder and removes it.
pub(super) fn check(path: &Path, existing: OverwritePolicy) -> Result<()> {
    let target = target(path, existing)?;
    let folder = folder(&target);
    create(folder).map(drop).map_err(|error| in_folder(path, folder, &error))
}

/// Checks that files could be written in a folder.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    create(folder).map(drop).map_err(|error| {
        let reason = format!("can't be written in: {}", words(&error));
        Error::File { path: folder.into(), reason }
    })
}

/// The path to write: the target of a link, or the path itself.
fn target(path: &Path, existing: OverwritePolicy) -> Result<PathBuf> {
    let blame = |reason: String| Error::File { path: path.into(), reason };
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(path.to_owned()) };
    // A link stays. Its target is replaced.
    let target = if found.is_symlink() {
        fs::canonicalize(path).map_err(|error| match fs::read_link(path) {
            Ok(to) if error.kind() == io::ErrorKind::NotFound => {
                blame(format!("is a link to {}, which does not exist", escaped(&to)))
            }
            _ => blame(error.to_string()),
        })?
    } else {
        path.to_owned()
    };
    if fs::metadata(&target).is_ok_and(|found| !found.is_file()) {
        return Err(blame("is not an ordinary file".into()));
    }
    if existing == OverwritePolicy::Keep { Err(Error::Exists { path: path.into() }) } else { Ok(target) }
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
        let reason = format!("can't be written in {}: the folder does not exist", escaped(folder));
        return Error::File { path: path.into(), reason };
    }
    Error::File { path: path.into(), reason: format!("can't be written in {}: {}", escaped(folder), words(error)) }
}

/// The text of an error without the name of the temporary file, which `tempfile` appends.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" at path ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

/// The folders that are to be synced, and for how many batches.
#[derive(Default)]
struct Deferred {
    batches: usize,
    folders: BTreeSet<PathBuf>,
}

static DEFERRED: Mutex<Deferred> = Mutex::new(Deferred { batches: 0, folders: BTreeSet::new() });

fn deferred() -> MutexGuard<'static, Deferred> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Defers the sync of folders for all files of this process. [`finish`](Self::finish) syncs each folder once. Each file
/// is still synced before it is renamed.
#[must_use = "the folders are synced by `finish`"]
pub struct DeferredSync(());

impl DeferredSync {
    /// Begins to defer.
    pub fn begin() -> Self {
        deferred().batches += 1;
        Self(())
    }

    /// Syncs the folders of all files that were written meanwhile.
    ///
    /// # Errors
    /// [`Error::File`] with the first folder that could not be, and the reason; the others are tried, too.
    pub fn finish(self) -> Result<()> {
        let folders = std::mem::take(&mut deferred().folders);
        let sync = |folder: &PathBuf| {
            let blame = |error: io::Error| Error::File { path: folder.clone(), reason: error.to_string() };
            sync_folder(folder).map_err(blame)
        };
        folders.iter().map(sync).fold(Ok(()), Result::and)
    }
}

impl Drop for DeferredSync {
    fn drop(&mut self) {
        deferred().batches -= 1;
    }
}

fn sync_or_defer(folder: &Path) -> io::Result<()> {
    let mut deferred = deferred();
    if deferred.batches == 0 {
        drop(deferred);
        return sync_folder(folder);
    }
    deferred.folders.insert(folder.to_owned());
    Ok(())
}

/// Syncs a folder, where the system and the filesystem can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // A folder without read permission can't be opened. On Windows no folder can.
    let Ok(opened) = File::open(folder) else { return Ok(()) };
    match opened.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

/// Gives a file the permissions of the file that it will replace, and the owner where that is allowed.
fn as_replaced(file: &File, target: &Path) -> io::Result<()> {
    let Ok(found) = fs::metadata(target) else { return Ok(()) };
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        // Only root may change the owner, and others only to their own groups. Else the file stays the writer's.
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
    let file = writer.into_inner().map_err(|error| error.error().to_string())?;
    // Without this sync the disk may see the rename first. A loss of power would then leave a name without its bytes.
    file.sync_all().map_err(|error| error.to_string())?;
    Ok(temporary)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_failure_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let result = write(&path, OverwritePolicy::Keep, |file| {
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
        put(b"first", OverwritePolicy::Keep).unwrap();
        assert!(matches!(put(b"second", OverwritePolicy::Keep), Err(Error::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        // One that comes while the other is being written.
        let other = folder.path().join("b");
        let raced =
            write(&other, OverwritePolicy::Keep, |_| fs::write(&other, "theirs").map_err(|error| error.to_string()));
        assert!(matches!(raced, Err(Error::Exists { .. })));
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
        put(b"third", OverwritePolicy::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(names(folder.path()).len(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_permissions_are_ordinary() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [path, plain, link] = ["a", "b", "c"].map(|name| folder.path().join(name));
        write(&path, OverwritePolicy::Keep, |_| Ok(())).unwrap();
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        // A replaced file keeps its permissions.
        for wanted in [0o600, 0o440] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
            write(&path, OverwritePolicy::Replace, |_| Ok(())).unwrap();
            assert_eq!(mode(&path) & 0o777, wanted);
        }
        symlink("a", &link).unwrap();
        write(&link, OverwritePolicy::Replace, |file| file.write_all(b"x").map_err(|error| error.to_string())).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"x");
        let nowhere = folder.path().join("d");
        symlink("missing", &nowhere).unwrap();
        let error = write(&nowhere, OverwritePolicy::Replace, |_| Ok(())).unwrap_err().to_string();
        assert!(error.ends_with("d: is a link to missing, which does not exist"), "{error}");
    }
}
