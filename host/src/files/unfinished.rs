//! Temporary files of unfinished results: their names, their owners, and the removal of abandoned ones.
//!
//! A killed process can't remove its temporary files. The next process that writes into the folder removes them. Each
//! writer holds a lock (`flock`) on its file, so that nobody removes a file that is still written. The kernel releases
//! the lock when the process ends.
//!
//! The name holds the kernel's boot identifier. If it is this kernel's, the lock alone decides, also across containers.
//! Else the file may belong to another machine that shares the folder. Its locks may be invisible here (NFS mounted
//! with `local_lock`). Such a file is abandoned only if it has not changed for a day. Where locks do not work, nothing
//! is removed.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::NamedTempFile;

/// The prefix of temporary names. The boot identifier, `-` and random letters follow.
pub const PREFIX: &str = ".host-unfinished-";

/// Digits of the boot identifier.
const BOOT: usize = 12;
/// Random letters at the end.
const RANDOM: usize = 6;

/// A file of another machine that has not changed for so long is abandoned.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// Creates a temporary file in a folder, locked by this process. The first call for a folder removes abandoned files
/// there.
pub(super) fn create(folder: &Path) -> io::Result<NamedTempFile> {
    static SEEN: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    let is_new = SEEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(folder.to_owned());
    if is_new {
        remove_left_over(folder, boot());
    }
    loop {
        let temporary = named(folder, boot())?;
        // Between the two calls another process may have removed it as abandoned.
        if own(temporary.as_file())? {
            return Ok(temporary);
        }
    }
}

fn named(folder: &Path, boot: &str) -> io::Result<NamedTempFile> {
    let prefix = format!("{PREFIX}{boot}-");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).rand_bytes(RANDOM);
    // The permissions of an ordinary new file. The umask applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}

/// Locks a new file; false if another process is removing it.
fn own(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => still_has_a_name(file),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        // Not every filesystem has locks. Without them nobody locks the file to remove it, either.
        Err(fs::TryLockError::Error(_)) => Ok(true),
    }
}

#[cfg(unix)]
fn still_has_a_name(file: &File) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 0)
}

#[cfg(not(unix))]
fn still_has_a_name(_: &File) -> io::Result<bool> {
    Ok(true)
}

/// The first digits of the kernel's boot identifier. Zeros where the system has none; no kernel owns those.
fn boot() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(BOOT).collect();
        format!("{digits:0<BOOT$}")
    })
}

/// Removes the abandoned temporary files in a folder. It ignores errors.
fn remove_left_over(folder: &Path, boot: &str) {
    let Ok(entries) = folder.read_dir() else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().and_then(boot_of).map(|found| found == boot && is_known(boot));
        if let Some(is_ours) = is_ours {
            let _ = remove_without_owner(&entry.path(), is_ours);
        }
    }
}

/// Whether a text is a boot identifier.
fn is_known(boot: &str) -> bool {
    boot.bytes().any(|digit| digit != b'0')
}

/// The boot identifier in the name of a temporary file; None if it is another file's name.
fn boot_of(name: &str) -> Option<&str> {
    let (boot, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_one = boot.len() == BOOT
        && boot.bytes().all(|digit| digit.is_ascii_hexdigit())
        && random.len() == RANDOM
        && random.bytes().all(|letter| letter.is_ascii_alphanumeric());
    is_one.then_some(boot)
}

fn remove_without_owner(path: &Path, is_ours: bool) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let is_abandoned = || found.modified().is_ok_and(|time| time.elapsed().is_ok_and(|age| age > ABANDONED));
    if !found.is_file() || !(is_ours || is_abandoned()) {
        return Ok(());
    }
    // To write, as NFS requires it for a lock.
    let file = OpenOptions::new().write(true).open(path)?;
    if file.try_lock().is_err() {
        return Ok(());
    }
    // Under the lock: nobody begins to write it now. It may have got its final name since the folder was read; then
    // this fails.
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn what_has_no_owner_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let here = boot();
        let other = "0123456789ab";
        let make = |boot: &str, random: &str| {
            let path = folder.path().join(format!("{PREFIX}{boot}-{random}"));
            fs::write(&path, "half").unwrap();
            path
        };
        let left = make(here, "aaaaaa");
        let [young, old] = [make(other, "bbbbbb"), make(other, "cccccc")];
        let long_ago = std::time::SystemTime::now() - 2 * ABANDONED;
        File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();
        let others = [make("notes", "x"), make(here, "aaaaaaa"), make(here, "é")];
        for path in &others {
            File::options().write(true).open(path).unwrap().set_modified(long_ago).unwrap();
        }
        let alive = named(folder.path(), here).unwrap();
        assert!(own(alive.as_file()).unwrap());
        let alive_elsewhere = named(folder.path(), other).unwrap();
        assert!(own(alive_elsewhere.as_file()).unwrap());
        alive_elsewhere.as_file().set_modified(long_ago).unwrap();

        let made = create(folder.path()).unwrap();
        assert!(!left.exists() && !old.exists(), "{:?}", names(folder.path()));
        assert!(young.exists() && alive.path().exists() && alive_elsewhere.path().exists() && made.path().exists());
        assert!(others.iter().all(|path| path.exists()));
        // Without an identifier of its own, a kernel knows no file as its own.
        let zeros = make(&"0".repeat(BOOT), "dddddd");
        remove_left_over(folder.path(), &"0".repeat(BOOT));
        assert!(zeros.exists());
    }

    /// One that another process is about to remove is not written.
    #[test]
    fn a_file_that_is_being_removed_is_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let temporary = named(folder.path(), boot()).unwrap();
        let remover = OpenOptions::new().write(true).open(temporary.path()).unwrap();
        remover.try_lock().unwrap();
        assert!(!own(temporary.as_file()).unwrap());
        fs::remove_file(temporary.path()).unwrap();
        drop(remover);
        assert!(!own(temporary.as_file()).unwrap());
    }
}
