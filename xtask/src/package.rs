//! The packages that `cargo package` makes: each must have the fields, the licences and the files that its users
//! expect.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::process::{capture, show};

/// The largest package that crates.io takes.
const LIMIT: u64 = 10 * 1024 * 1024;

/// The licence texts, in the root of the workspace and in each package.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Folders of which every file must be in the package of the crate that has them.
const WHOLE_FOLDERS: [&str; 1] = ["ptx"];

/// Makes the packages of all crates that may be published, and checks them. `verify` also builds each one from its
/// package, as its users do.
///
/// # Errors
/// `cargo package` fails, or a package is not what it must be.
pub fn check(root: &Path, verify: bool) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(arguments);
        command
    };
    let limit = Duration::from_secs(120);
    let metadata = capture(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]), limit)?;
    let metadata: Value = serde_json::from_str(&metadata).context("the output of `cargo metadata` is not JSON")?;
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let packages: Vec<_> = packages.iter().filter(|package| is_published(package)).collect();

    let mut problems = Vec::new();
    for package in &packages {
        let name = text(package, "name");
        let list = capture(&mut cargo(&["package", "--list", "--allow-dirty", "--package", name]), limit)?;
        let files: BTreeSet<&str> = list.lines().collect();
        let found = missing_fields(package).into_iter().chain(wrong_files(root, package, &files)?);
        problems.extend(found.map(|problem| format!("{name}: {problem}")));
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));

    // One call makes all packages, because cargo finds the packages that others depend on in no other way.
    let mut command = cargo(&["package", "--quiet", "--allow-dirty", "--all-features"]);
    if !verify {
        command.arg("--no-verify");
    }
    for package in &packages {
        command.args(["--package", text(package, "name")]);
    }
    show(&mut command)?;

    let folder = Path::new(text(&metadata, "target_directory")).join("package");
    for package in &packages {
        let file = format!("{}-{}.crate", text(package, "name"), text(package, "version"));
        let path = folder.join(&file);
        let bytes = fs::metadata(&path).with_context(|| format!("no package at {}", path.display()))?.len();
        println!("{:>9.1} kB  {file}", bytes as f64 / 1e3);
        ensure!(bytes <= LIMIT, "{file} has {bytes} bytes; crates.io takes {LIMIT}");
    }
    Ok(())
}

/// Whether a manifest lets the package be published: `publish = false` is an empty list of registries.
fn is_published(package: &Value) -> bool {
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

/// A field that is text; empty where there is none.
fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// The fields that the manifest lacks. Cargo fills in `readme` if there is a README.md.
fn missing_fields(package: &Value) -> Vec<String> {
    let texts = ["description", "license", "readme", "rust_version"];
    let texts = texts.into_iter().filter(|field| text(package, field).is_empty());
    let lists = ["categories", "keywords"];
    let lists = lists.into_iter().filter(|field| package[field].as_array().is_none_or(Vec::is_empty));
    texts.chain(lists).map(|field| format!("the manifest has no `{field}`")).collect()
}

/// What is wrong with the files of a package.
fn wrong_files(root: &Path, package: &Value, packed: &BTreeSet<&str>) -> Result<Vec<String>> {
    let folder = Path::new(text(package, "manifest_path")).parent().context("a manifest is in a folder")?;
    let mut problems = Vec::new();
    for licence in LICENCES {
        if !packed.contains(licence) {
            problems.push(format!("{licence} is not in the package"));
        } else if fs::read(folder.join(licence))? != fs::read(root.join(licence))? {
            problems.push(format!("{licence} is not the text of the workspace"));
        }
    }
    for whole in WHOLE_FOLDERS {
        if !folder.join(whole).is_dir() {
            continue;
        }
        for item in fs::read_dir(folder.join(whole))? {
            let path = format!("{whole}/{}", item?.file_name().to_string_lossy());
            if !packed.contains(path.as_str()) {
                problems.push(format!("{path} is not in the package"));
            }
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_empty_list_of_registries_is_private() {
        assert!(is_published(&json!({ "publish": null })));
        assert!(is_published(&json!({ "publish": ["registry"] })));
        assert!(!is_published(&json!({ "publish": [] })));
    }

    #[test]
    fn fields_that_are_not_there_are_named() {
        let mut package = json!({
            "description": "d", "license": "MIT", "readme": "README.md", "rust_version": "1.95",
            "categories": ["science"], "keywords": ["gpu"],
        });
        assert!(missing_fields(&package).is_empty());
        package["readme"] = Value::Null;
        package["keywords"] = json!([]);
        assert_eq!(missing_fields(&package), ["the manifest has no `readme`", "the manifest has no `keywords`"]);
    }

    #[test]
    fn files_that_are_not_packed_are_named() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| fs::write(root.path().join(path), text).unwrap();
        fs::create_dir_all(root.path().join("member/ptx")).unwrap();
        for licence in LICENCES {
            write(licence, "text");
            write(&format!("member/{licence}"), "text");
        }
        write("member/ptx/a.ptx", "");
        let package = json!({ "manifest_path": root.path().join("member/Cargo.toml") });
        let wrong = |packed: &[&str]| wrong_files(root.path(), &package, &packed.iter().copied().collect()).unwrap();

        assert!(wrong(&["LICENSE-APACHE", "LICENSE-MIT", "ptx/a.ptx"]).is_empty());
        assert_eq!(
            wrong(&["LICENSE-APACHE"]),
            ["LICENSE-MIT is not in the package", "ptx/a.ptx is not in the package"]
        );
        write("member/LICENSE-MIT", "another text");
        assert_eq!(
            wrong(&["LICENSE-APACHE", "LICENSE-MIT", "ptx/a.ptx"]),
            ["LICENSE-MIT is not the text of the workspace"]
        );
    }
}
