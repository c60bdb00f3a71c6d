//! Gets the sources of `core`.
//!
//! Only builds of PTX need them. rustup has them as a component. If its servers can't be reached, Debian's package
//! `rust-src` of the same version serves. It comes from the mirror that the machine's apt uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use cuda_builder::CudaBuilderError;
use cuda_builder::rust_src::RustSrc;

use crate::kernels::pinned_rustc;
use crate::process::capture;

/// The suite of Debian whose `rust-src` has the pinned version. It changes with the pin.
const SUITE: &str = "trixie-backports";

/// With a network the download takes seconds. Without one rustup gives up at once or never.
const RUSTUP_LIMIT: Duration = Duration::from_secs(90);
const APT_LIMIT: Duration = Duration::from_secs(180);

/// Gets the sources of `core`, unless they are there, and says where they are.
///
/// # Errors
/// What was tried, and why nothing worked.
pub fn setup(root: &Path) -> Result<()> {
    let sources = require(root)?;
    println!("the sources of core {} are at {}", sources.rustc, sources.folder.display());
    Ok(())
}

/// The sources of `core` that belong to the pinned compiler. They are downloaded if they are missing.
///
/// # Errors
/// The compiler in use is another one than the pinned one, or the sources can't be had: what was tried, and why it
/// failed.
pub fn require(root: &Path) -> Result<RustSrc> {
    // In the workspace rust-toolchain.toml decides, even under an outer `cargo +nightly`.
    let sources = RustSrc::locate(root)?;
    let pinned = pinned_rustc(root)?;
    ensure!(
        sources.rustc == pinned,
        "rust-toolchain.toml pins Rust {pinned}, but rustc in {} is {}: install it (`rustup toolchain install \
         {pinned}`), \
         and remove what overrides the file (`rustup show` names it); nothing was changed",
        root.display(),
        sources.rustc
    );
    match sources.check() {
        Ok(()) => return Ok(sources),
        Err(error) => println!("{error}"),
    }
    let mut tried = Vec::new();
    for (name, get) in [("rustup", from_rustup as fn(&Path, &RustSrc) -> Result<()>), ("Debian", from_debian)] {
        println!("getting them from {name}");
        match get(root, &sources).and_then(|()| Ok(sources.check()?)) {
            Ok(()) => {
                println!("the sources of core {pinned}, from {name}, are at {}", sources.folder.display());
                return Ok(sources);
            }
            Err(error) => tried.push(format!("{name}: {error:#}")),
        }
    }
    bail!("could not get the sources of core {pinned}:\n  {}", tried.join("\n  "))
}

/// Adds the component to the pinned toolchain. Other toolchains stay as they are. rustup refuses if the name of the
/// toolchain is a link to another one.
fn from_rustup(root: &Path, sources: &RustSrc) -> Result<()> {
    // rustup fails if sources of another version are there.
    if matches!(sources.check(), Err(CudaBuilderError::RustSrcVersion { .. })) {
        remove(&sources.folder)?;
    }
    let mut rustup = Command::new("rustup");
    rustup.current_dir(root).args(["component", "add", "--toolchain", &sources.rustc, "rust-src"]);
    rustup.env("RUSTUP_MAX_RETRIES", "1").env_remove("RUST_BACKTRACE");
    rustup.env_remove("RUSTUP_TOOLCHAIN").env_remove("RUSTUP_TOOLCHAIN_SOURCE");
    capture(&mut rustup, RUSTUP_LIMIT).map(|_| ())
}

/// Debian's package: downloaded and checked by apt with lists of its own, so that nothing on the machine changes.
fn from_debian(_: &Path, sources: &RustSrc) -> Result<()> {
    let place = sources.folder.parent().context("the sysroot has no folder for sources")?;
    let not_writable = || {
        let place = place.display();
        format!("can't write to {place}: run `cargo xtask setup` as the user that owns the toolchain")
    };
    fs::create_dir_all(place).with_context(not_writable)?;
    // The new folder is on the same filesystem, so that it can be renamed.
    let unpacked = tempfile::Builder::new().prefix(".rust-src").tempdir_in(place).with_context(not_writable)?;

    let apt = Apt::new()?;
    let package = apt.download(&format!("rust-src={}*", sources.rustc))?;
    unpack(&package, &sources.rustc, unpacked.path())?;

    let from = unpacked.path().join(format!("usr/src/rustc-{}", sources.rustc));
    let found = RustSrc { folder: from.clone(), rustc: sources.rustc.clone() };
    ensure!(found.version_file().is_file(), "the package has no file src/version that names its version");
    found.check()?;
    remove(&sources.folder)?;
    fs::rename(&from, &sources.folder).with_context(not_writable)?;
    Ok(())
}

/// Takes `library`, which is all that is compiled, and the file with the version out of a package.
fn unpack(package: &Path, version: &str, into: &Path) -> Result<()> {
    let mut dpkg = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(package).stdout(Stdio::piped()).spawn()?;
    let tar = dpkg.stdout.take().context("dpkg-deb has no output")?;
    let folder = format!("./usr/src/rustc-{version}");
    let status = Command::new("tar")
        .args(["--extract", "--no-same-owner", "--directory"])
        .arg(into)
        .args([format!("{folder}/library"), format!("{folder}/src/version")])
        .stdin(tar)
        .status()
        .context("could not start tar");
    let dpkg = dpkg.wait()?;
    ensure!(status?.success() && dpkg.success(), "could not take {folder}/library out of {}", package.display());
    Ok(())
}

/// Removes a folder, a link or nothing.
fn remove(path: &Path) -> Result<()> {
    let result = match fs::symlink_metadata(path) {
        Err(_) => Ok(()),
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
    };
    result.with_context(|| format!("could not remove {}", path.display()))
}

/// apt with folders of its own: no root needed, and the machine's lists stay as they are.
struct Apt {
    folder: tempfile::TempDir,
}

impl Apt {
    fn new() -> Result<Self> {
        let apt = Self { folder: tempfile::tempdir()? };
        for name in ["lists/partial", "machine/partial", "cache/archives/partial", "download"] {
            fs::create_dir_all(apt.path(name))?;
        }
        Ok(apt)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// apt-get with the sources of the machine, and with lists in the folder `lists` or those of the machine.
    fn get(&self, lists: Option<&str>) -> Command {
        let mut command = Command::new("apt-get");
        command.current_dir(self.path("download")).env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive");
        let mut option = |name: &str, value: &str| {
            command.arg(format!("-o{name}={value}"));
        };
        option("Dir::Cache", &self.path("cache").to_string_lossy());
        if let Some(lists) = lists {
            option("Dir::State::Lists", &self.path(lists).to_string_lossy());
        }
        option("Acquire::Languages", "none");
        option("Acquire::Retries", "1");
        option("Acquire::http::Timeout", "20");
        option("Acquire::https::Timeout", "20");
        // A user of its own for downloads could not write to our folder.
        option("APT::Sandbox::User", "");
        command
    }

    /// The mirrors of Debian that the machine uses.
    fn mirrors(&self) -> Result<Vec<String>> {
        let ask = |lists| {
            let mut command = self.get(lists);
            command.args(["indextargets", "--format", "$(REPO_URI)|$(ORIGIN)|$(LABEL)"]);
            capture(&mut command, APT_LIMIT).map(|rows| debian_mirrors(&rows))
        };
        let known = ask(None)?;
        if !known.is_empty() {
            return Ok(known);
        }
        // Where apt's lists were never fetched, or cleaned away as in container images, it knows no origins.
        capture(self.get(Some("machine")).args(["update", "-qq"]), APT_LIMIT)?;
        ask(Some("machine"))
    }

    /// Downloads a package of [`SUITE`]; apt checks its signatures.
    fn download(&self, package: &str) -> Result<PathBuf> {
        let mirrors = self.mirrors()?;
        let mirror = mirrors.first().context("apt on this machine has no mirror of Debian among its sources")?;
        let keys = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
        let signed_by = if keys.is_file() { format!("[signed-by={}] ", keys.display()) } else { String::new() };
        let list = self.path("sources.list");
        fs::write(&list, format!("deb {signed_by}{mirror} {SUITE} main\n"))?;

        let with_list = |arguments: &[&str]| {
            let mut command = self.get(Some("lists"));
            command.arg(format!("-oDir::Etc::SourceList={}", list.display())).arg("-oDir::Etc::SourceParts=-");
            command.args(arguments);
            capture(&mut command, APT_LIMIT)
        };
        with_list(&["update", "-qq", "--error-on=any"])?;
        with_list(&["download", "-qq", package]).with_context(|| format!("no {package} in {SUITE}"))?;
        let found = fs::read_dir(self.path("download"))?.next().context("apt downloaded nothing")??;
        Ok(found.path())
    }
}

/// The addresses of Debian itself in rows of `address|origin|label`; its security updates are another archive.
fn debian_mirrors(rows: &str) -> Vec<String> {
    let mut mirrors: Vec<String> = Vec::new();
    for row in rows.lines() {
        if let Some(mirror) = row.trim().strip_suffix("|Debian|Debian")
            && !mirrors.iter().any(|known| known == mirror)
        {
            mirrors.push(mirror.to_owned());
        }
    }
    mirrors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mirrors_of_debian_count_and_each_once() {
        let rows = "m:/security/|Debian|Debian-Security\nm:/debian/|Debian|Debian\nm:/debian/|Debian|Debian\n\
                    m:/other/|Other|Debian\nm:/unknown/|$(ORIGIN)|$(LABEL)\n";
        assert_eq!(debian_mirrors(rows), ["m:/debian/"]);
        assert!(debian_mirrors("").is_empty());
    }

    #[test]
    fn what_is_removed_is_the_link_and_not_what_it_names() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&real, &link).unwrap();
        remove(&link).unwrap();
        assert!(!link.exists() && real.join("file").exists());
        remove(&link).unwrap();
        remove(&real).unwrap();
        assert!(!real.exists());
    }
}
