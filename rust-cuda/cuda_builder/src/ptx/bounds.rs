//! Launch bounds: the directives `.maxntid` and `.minnctapersm` of an entry.

use std::fmt::Write as _;

/// The comment of `#[kernel(launch_bounds(…))]`: `// cuda_std launch_bounds SYMBOL THREADS BLOCKS`.
const COMMENT: &str = "// cuda_std launch_bounds ";

/// The launch bounds of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The symbol of the entry.
    pub entry: String,
    /// The most threads of a block.
    pub threads: u32,
    /// The least blocks of a multiprocessor for which the assembler leaves registers; 0 for any number.
    pub blocks: u32,
}

impl LaunchBounds {
    /// The bounds of a line of PTX that is such a comment.
    fn of_line(line: &str) -> Option<Self> {
        let mut words = line.trim().strip_prefix(COMMENT)?.split_whitespace();
        let entry = words.next()?.to_owned();
        let (threads, blocks) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { entry, threads, blocks })
    }
}

/// Gives entries their launch bounds. Bounds of entries that the text lacks have no effect.
#[must_use]
pub fn with_launch_bounds<'a>(mut text: String, all: impl IntoIterator<Item = &'a LaunchBounds>) -> String {
    for LaunchBounds { entry, threads, blocks } in all {
        let begin = text.find(&format!(".entry {entry}("));
        // A list of parameters has no parentheses inside.
        let Some(end) = begin.and_then(|begin| Some(begin + text[begin..].find(')')? + 1)) else { continue };
        let mut directives = format!("\n.maxntid {threads}, 1, 1");
        if *blocks > 0 {
            write!(directives, "\n.minnctapersm {blocks}").expect("a String takes everything");
        }
        text.insert_str(end, &directives);
    }
    text
}

/// The text with the launch bounds that its comments declare, without these comments.
pub(crate) fn apply_declared(text: String) -> String {
    if !text.contains(COMMENT) {
        return text;
    }
    let (mut bounds, mut rest) = (Vec::new(), String::with_capacity(text.len()));
    for line in text.split_inclusive('\n') {
        match LaunchBounds::of_line(line) {
            Some(found) => bounds.push(found),
            None => rest.push_str(line),
        }
    }
    with_launch_bounds(rest, &bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::Ptx;

    const TEXT: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
        // cuda_std launch_bounds two 256 3\n\t// cuda_std launch_bounds ones 128 0\n\
        .visible .entry one(\n\t.param .u32 one_param_0\n)\n{\n\tret;\n}\n\
        .visible .entry ones()\n{\n\tret;\n}\n\
        .visible .entry two(\n\t.param .u32 two_param_0\n)\n{\n\tret;\n}\n";

    #[test]
    fn each_entry_gets_the_bounds_that_its_comment_declares() {
        let text = apply_declared(TEXT.to_owned());
        assert_eq!(
            text,
            ".version 7.0\n.target sm_70\n.address_size 64\n\
            .visible .entry one(\n\t.param .u32 one_param_0\n)\n{\n\tret;\n}\n\
            .visible .entry ones()\n.maxntid 128, 1, 1\n{\n\tret;\n}\n\
            .visible .entry two(\n\t.param .u32 two_param_0\n)\n.maxntid 256, 1, 1\n.minnctapersm 3\n{\n\tret;\n}\n"
        );
        let names: Vec<_> = Ptx::parse(&text).unwrap().entries().map(|entry| entry.name.clone()).collect();
        assert_eq!(names, ["one", "ones", "two"]);
    }

    #[test]
    fn without_comments_and_entries_nothing_changes() {
        let text = TEXT.replace("launch_bounds", "other words");
        assert_eq!(apply_declared(text.clone()), text);
        let other = LaunchBounds { entry: "none".to_owned(), threads: 1, blocks: 1 };
        assert_eq!(with_launch_bounds(text.clone(), [&other]), text);
        assert_eq!(LaunchBounds::of_line("// cuda_std launch_bounds one many 3"), None);
    }
}
