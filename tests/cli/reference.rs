//! docs/reference/program.md is the help of each command.

use std::fmt::Write as _;
use std::process::Command;

use crate::program;

const PAGE: &str = include_str!("../../docs/reference/program.md");

const HEAD: &str = "\
# Options of the program

`host --help`, then the help of each command. A test compares this page with the program:
`HOST_TEST_WRITE=1 cargo test -p host --test cli reference` writes it.
[The program](../program.md) says what the commands are for.
";

/// What `host` with these arguments prints. Nothing is a terminal, so lines have 100 characters.
fn help(arguments: &[&str]) -> String {
    // clap would take the width from COLUMNS.
    let output = Command::new(program()).args(arguments).env_remove("COLUMNS").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The names of the commands in the help of the program.
fn commands(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("\nCommands:\n").expect("the help has a list of commands");
    let names = list.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap()).filter(|&name| name != "help").collect()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut section = |title: &str, help: &str| {
        write!(page, "\n## `{title}`\n\n```text\n").unwrap();
        for line in help.trim_end().lines() {
            writeln!(page, "{}", line.trim_end()).unwrap();
        }
        page.push_str("```\n");
    };
    let of_program = help(&["--help"]);
    section("host", &of_program);
    for command in commands(&of_program) {
        section(&format!("host {command}"), &help(&[command, "--help"]));
    }
    page
}

/// The first line in which two texts differ, and both lines.
fn difference<'a>(found: &'a str, expected: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut found, mut expected) = (found.split('\n'), expected.split('\n'));
    for number in 1.. {
        match (found.next(), expected.next()) {
            (None, None) => break,
            (a, b) if a == b => {}
            (a, b) => return Some((number, a.unwrap_or("nothing"), b.unwrap_or("nothing"))),
        }
    }
    None
}

#[test]
fn the_reference_is_the_help() {
    let page = page();
    if std::env::var_os("HOST_TEST_WRITE").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/program.md"), &page).unwrap();
        return;
    }
    if let Some((line, found, expected)) = difference(PAGE, &page) {
        panic!("docs/reference/program.md, line {line}: {found:?} must be {expected:?}");
    }
}

#[test]
fn a_difference_is_found() {
    assert_eq!(difference("a\nb\n", "a\nb\n"), None);
    assert_eq!(difference("a\nb", "a\nc"), Some((2, "b", "c")));
    assert_eq!(difference("a", "a\nc"), Some((2, "nothing", "c")));
    assert_eq!(difference("a\nc", "a"), Some((2, "c", "nothing")));
}

#[test]
fn all_commands_are_there() {
    let of_program = help(&["--help"]);
    let commands = commands(&of_program);
    assert!(commands.contains(&"filter") && commands.contains(&"calibrate"), "{commands:?}");
}
