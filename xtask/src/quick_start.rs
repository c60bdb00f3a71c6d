//! The quick starts in `docs/start`: CI runs their commands, and their code is quoted from files that CI runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{show, shown};
use crate::target;

/// Where the pages are.
const FOLDER: &str = "docs/start";

/// The commands of the pages that CI runs as steps of their own.
const STEPS: [&str; 5] =
    ["cargo xtask build-ptx", "cargo xtask outside", "cargo xtask ptxas", "cargo xtask wheel --test", "cargo doc"];

/// Commands that get the repository and the module, and so are not run within it.
const SET_UP: [&str; 4] = [
    "git clone <this repository> && cd <its folder>",
    "python3 -m venv ../venv && . ../venv/bin/activate",
    "pip install ./python",
    "cargo new",
];

/// What runs a command of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    /// [`run`].
    Here,
    /// Another step of CI.
    Step,
    /// The reader alone.
    Reader,
}

/// Runs each command of the pages that begins with `cargo run`, with the programs that the tests were built with.
///
/// # Errors
/// A command fails.
pub fn run(root: &Path) -> Result<()> {
    for (page, text) in pages(root)? {
        for line in commands(&text) {
            if runner(line) == Some(Runner::Here) {
                let mut command = Command::new("sh");
                command.current_dir(root).args(["-c", &built(line, &target(root).join("debug").to_string_lossy())]);
                println!("{page}: {}", shown(&command));
                show(&mut command).with_context(|| format!("{page} has a command that fails"))?;
            }
        }
    }
    Ok(())
}

/// The command with a built program in the place of `cargo run`, which might build it again.
fn built(command: &str, folder: &str) -> String {
    let host = command.replacen("cargo run -p host --", &format!("'{folder}/host'"), 1);
    host.replacen("cargo run -p cuda_emulator --example ", &format!("'{folder}/examples/'"), 1)
}

/// Names and texts of the pages.
fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let mut pages = Vec::new();
    for item in fs::read_dir(root.join(FOLDER)).with_context(|| format!("could not list {FOLDER}"))? {
        let item = item?;
        pages.push((item.file_name().to_string_lossy().into_owned(), fs::read_to_string(item.path())?));
    }
    pages.sort();
    Ok(pages)
}

/// The fenced blocks of a page in a language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let open = format!("```{language}\n");
    let after = text.split(open.as_str()).skip(1);
    after.map(|block| block.split_once("```\n").expect("the block ends").0).collect()
}

/// The commands of a page, without the remarks behind them.
fn commands(text: &str) -> Vec<&str> {
    let lines = blocks(text, "console").into_iter().flat_map(str::lines);
    lines
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| line.split("  #").next().unwrap_or(line).trim())
        .collect()
}

/// What runs a command. None for an unknown command.
fn runner(command: &str) -> Option<Runner> {
    let is_in = |list: &[&str]| list.iter().any(|known| command.starts_with(known));
    match command {
        _ if command.starts_with("cargo run ") => Some(Runner::Here),
        _ if is_in(&STEPS) => Some(Runner::Step),
        _ if is_in(&SET_UP) => Some(Runner::Reader),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages, and the files that their blocks of code are quoted from.
    const QUOTES: [(&str, &str, &[&str]); 3] = [
        ("rust.md", "rust", &["faltung/README.md", "examples/outside/src/main.rs"]),
        ("rust.md", "toml", &["faltung/README.md"]),
        ("kernels.md", "rust", &["rust-cuda/cuda_emulator/examples/row_sums.rs"]),
    ];

    #[test]
    fn pages_are_short_and_each_command_is_run() {
        let pages = pages(&crate::root()).unwrap();
        assert_eq!(pages.len(), 4);
        for (page, text) in pages {
            assert!(text.lines().count() <= 60, "{page} has {} lines", text.lines().count());
            let commands = commands(&text);
            assert!(!commands.is_empty(), "{page}");
            for command in commands {
                assert!(runner(command).is_some(), "{page}: nobody runs `{command}`");
            }
        }
        assert_eq!(runner("rm -r x"), None);
        assert_eq!(built("cargo run -p host -- info", "/t"), "'/t/host' info");
        assert_eq!(built("cargo run -p cuda_emulator --example row_sums", "/t"), "'/t/examples/'row_sums");
        assert_eq!(commands("```console\n$ cargo run -- a  # why\nits output\n```\n"), ["cargo run -- a"]);
    }

    #[test]
    fn pages_quote_programs_that_run() {
        let root = crate::root();
        let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        for (page, language, sources) in QUOTES {
            let text = read(&format!("{FOLDER}/{page}"));
            let blocks = blocks(&text, language);
            assert!(!blocks.is_empty(), "{page} has no {language}");
            for block in blocks {
                assert!(sources.iter().any(|source| read(source).contains(block)), "{page}: not quoted:\n{block}");
            }
        }
    }
}
