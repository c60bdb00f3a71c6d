//! Files that appear whole or not at all.
//!
//! A file is written under a temporary name in the folder of its final one, brought to the disk, and renamed. Whatever
//! happens before, nothing stands under the final name. Then the folder is brought to the disk, too: what was reported
//! as written outlives a loss of power. That takes longer than the file itself (some 5 ms, 1 ms), so a batch, which
//! reports once, does it once, in its end ([`DeferredSync`]). A process killed in the middle leaves the temporary file,
//! whose name begins with `.host-unfinished-`; the next one that writes into the folder removes it
//! ([`unfinished`](super::unfinished)).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use super::escaped;
use super::unfinished::create;
use crate::{Error, Result};

/// What to do if the file to be written exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverwritePolicy {
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
    existing: OverwritePolicy,
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

/// Whether a file could be written: its folder takes a temporary file, which is removed at once.
pub(super) fn check(path: &Path, existing: OverwritePolicy) -> Result<()> {
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
fn target(path: &Path, existing: OverwritePolicy) -> Result<PathBuf> {
    let blame = |reason: String| Error::File { path: path.into(), reason };
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(path.to_owned()) };
    // A link stays, what it leads to is replaced.
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

/// An error without the name of the temporary file, which says nothing to anybody; tempfile puts it behind the system's
/// words.
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

/// While there is one, files that are written in this process get their names without their folders being brought to
/// the disk each time. [`finish`](Self::finish) does that once. Each file's content is on the disk before it has its
/// name, as ever.
#[must_use = "the folders are synced by `finish`"]
pub struct DeferredSync(());

impl DeferredSync {
    /// From now on.
    pub fn begin() -> Self {
        deferred().batches += 1;
        Self(())
    }

    /// Brings the folders of all files that were written meanwhile to the disk.
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

/// Brings the names in a folder to the disk, where the system and the filesystem can.
fn sync_folder(folder: &Path) -> io::Result<()> {
    // One that may be written and not read can't be opened, nor can any folder on Windows.
    let Ok(opened) = File::open(folder) else { return Ok(()) };
    match opened.sync_all() {
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
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
    let file = writer.into_inner().map_err(|error| error.error().to_string())?;
    // Before the rename: the disk may otherwise see that first, and a loss of power leave a name without its bytes.
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
        // Who replaces a file does not open it to others.
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
