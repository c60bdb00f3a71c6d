//! The target folder of a build: its lock, and the files that a build writes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::CudaBuilderError;
use crate::child::Package;

/// A target folder that no other build uses while this value lives.
#[derive(Debug)]
pub(crate) struct TargetFolder {
    /// The folder of cargo's files for the GPU.
    release: PathBuf,
    /// The locked file. The system unlocks it when it is closed, also if the process is killed.
    _lock: File,
}

impl TargetFolder {
    /// Waits until no other build uses `folder`. `target` is rustc's name of the GPU target.
    pub(crate) fn lock(folder: &Path, target: &str) -> Result<Self, CudaBuilderError> {
        fs::create_dir_all(folder).map_err(CudaBuilderError::file("create", folder))?;
        let path = folder.join(".cuda-builder-lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(CudaBuilderError::file("open", &path))?;
        file.lock().map_err(CudaBuilderError::file("lock", &path))?;
        Ok(Self { release: folder.join(target).join("release"), _lock: file })
    }

    /// Removes the files of an earlier build, so that the PTX that is found later is of this build.
    pub(crate) fn forget(&self, package: &str) -> Result<(), CudaBuilderError> {
        for path in list(&self.release.join("deps"))? {
            if path.extension() == Some(OsStr::new("s")) {
                fs::remove_file(&path).map_err(CudaBuilderError::file("remove", &path))?;
            }
        }
        for path in list(&self.release.join(".fingerprint"))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.rsplit_once('-').is_some_and(|(name, _)| name == package) {
                fs::remove_dir_all(&path).map_err(CudaBuilderError::file("remove", &path))?;
            }
        }
        Ok(())
    }

    /// The text of the one PTX file.
    pub(crate) fn only_ptx(&self) -> Result<String, CudaBuilderError> {
        let deps = self.release.join("deps");
        let mut found = list(&deps)?;
        found.retain(|path| path.extension() == Some(OsStr::new("s")));
        match &found[..] {
            [path] => fs::read_to_string(path).map_err(CudaBuilderError::file("read", path)),
            _ => Err(CudaBuilderError::NoPtx { directory: deps, found: found.len() }),
        }
    }

    /// The sources of the PTX, sorted: the files that cargo lists, their manifests, and the workspace's files that
    /// choose versions. The compiler's own files under `sysroot` are left out.
    pub(crate) fn sources(&self, package: &Package, sysroot: &Path) -> Result<Vec<PathBuf>, CudaBuilderError> {
        let path = self.release.join(format!("lib{}.d", package.library));
        let text = fs::read_to_string(&path).map_err(CudaBuilderError::file("read", &path))?;
        let mut sources = dependencies(&text);
        sources.retain(|source| !source.starts_with(sysroot));
        let manifest = |source: &PathBuf| {
            source.ancestors().skip(1).map(|folder| folder.join("Cargo.toml")).find(|manifest| manifest.is_file())
        };
        sources.extend(sources.iter().filter_map(manifest).collect::<Vec<_>>());
        let chosen = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
        sources.extend(chosen.map(|name| package.workspace.join(name)).into_iter().filter(|file| file.is_file()));
        sources.sort();
        sources.dedup();
        Ok(sources)
    }
}

/// The files after the colon in a line of cargo's `.d` files. A backslash escapes a space.
fn dependencies(text: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for line in text.lines() {
        let Some((_, names)) = line.split_once(": ") else { continue };
        let mut name = String::new();
        let mut characters = names.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '\\' if characters.peek() == Some(&' ') => name.extend(characters.next()),
                ' ' => paths.extend(Some(std::mem::take(&mut name)).filter(|name| !name.is_empty())),
                character => name.push(character),
            }
        }
        paths.extend(Some(name).filter(|name| !name.is_empty()));
    }
    paths.into_iter().map(PathBuf::from).collect()
}

/// The entries of a folder. None if there is no such folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>, CudaBuilderError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let items = fs::read_dir(folder).map_err(CudaBuilderError::file("list", folder))?;
    items.map(|item| item.map(|item| item.path()).map_err(CudaBuilderError::file("list", folder))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn none_or_two_ptx_files_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let target = TargetFolder::lock(folder.path(), "gpu").unwrap();
        let deps = folder.path().join("gpu/release/deps");
        let found = || match target.only_ptx() {
            Err(CudaBuilderError::NoPtx { found, .. }) => found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(), 0);
        fs::create_dir_all(&deps).unwrap();
        fs::write(deps.join("a.s"), "a").unwrap();
        assert_eq!(target.only_ptx().unwrap(), "a");
        fs::write(deps.join("b.s"), "b").unwrap();
        assert_eq!(found(), 2);
    }

    #[test]
    fn a_second_build_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = TargetFolder::lock(folder.path(), "gpu").unwrap();
        let (sender, receiver) = mpsc::channel();
        let path = folder.path().to_owned();
        let second = std::thread::spawn(move || {
            let locked = TargetFolder::lock(&path, "gpu").is_ok();
            sender.send(locked).unwrap();
        });
        let early = receiver.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "the second build went on beside the first");
        drop(first);
        assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok(true));
        second.join().unwrap();
    }

    #[test]
    fn names_with_spaces_are_whole() {
        let text = "/t/libk.a: /k/it's\\ a/src/lib.rs /k/b.rs\n\n/t/libk.a: /k/c\\d.rs \n";
        let expected = ["/k/it's a/src/lib.rs", "/k/b.rs", "/k/c\\d.rs"].map(PathBuf::from);
        assert_eq!(dependencies(text), expected);
        assert!(dependencies("").is_empty());
    }
}
