//! The transcript of a tutorial, as data and as text.

use std::fmt;

use super::Tutorial;
use crate::files::Picture;
use crate::text_table::{TextColumn, text_table};
use comfy_table::CellAlignment;

/// The results of a tutorial, in order.
#[derive(Clone, Debug)]
pub struct Transcript {
    /// The tutorial.
    pub tutorial: Tutorial,
    /// Notes, tables and checks.
    pub parts: Vec<Part>,
    /// Pictures, with their file names.
    pub pictures: Vec<(&'static str, Picture)>,
}

impl Transcript {
    /// Whether all results were right.
    #[must_use]
    pub fn all_right(&self) -> bool {
        self.checks().all(|check| check.verdict.is_ok())
    }

    /// The checked results.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.parts.iter().filter_map(|part| match part {
            Part::Check(check) => Some(check),
            Part::Note(_) | Part::Table(_) => None,
        })
    }
}

/// A part of a transcript. Its text ends with a line break.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A line of text or more.
    Note(String),
    /// Figures.
    Table(Table),
    /// A checked result.
    Check(Check),
}

/// A result that was compared with a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What computed the result.
    pub what: String,
    /// How close it is, or what is wrong.
    pub verdict: Result<String, String>,
}

/// Rows of cells under a title.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// A name for each column.
    pub columns: Vec<&'static str>,
    /// Cells, as many a row as there are columns. The first is a name, the others are figures.
    pub rows: Vec<Vec<String>>,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Note(text) => writeln!(f, "{text}"),
            Self::Table(table) => table.fmt(f),
            Self::Check(Check { what, verdict: Ok(how) }) => writeln!(f, "right  {what}: {how}"),
            Self::Check(Check { what, verdict: Err(why) }) => writeln!(f, "WRONG  {what}: {why}"),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns: Vec<_> = self.columns.iter().map(|title| TextColumn::right(title)).collect();
        // Names stand at the left, figures at the right.
        columns[0].alignment = CellAlignment::Left;
        write!(f, "\n{}\n{}\n", self.title, text_table(&columns, self.rows.iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["one", "1.00 µs"]), row(["and two", "12 ms"])];
        let table = Table { title: "Times".into(), columns: vec!["kernel", "time"], rows };
        assert_eq!(table.to_string(), "\nTimes\n  kernel      time\n  one      1.00 µs\n  and two    12 ms\n\n");
    }

    #[test]
    fn a_wrong_answer_is_one() {
        let check = |verdict| Part::Check(Check { what: "sum".into(), verdict });
        let parts = |verdict| vec![Part::Note("x".into()), check(Ok("exact".into())), check(verdict)];
        let report = |verdict| Transcript { tutorial: Tutorial::Cupy, parts: parts(verdict), pictures: Vec::new() };
        assert!(report(Ok("exact".into())).all_right());
        let wrong = report(Err("3 is not 4".into()));
        assert!(!wrong.all_right());
        assert_eq!(wrong.parts[2].to_string(), "WRONG  sum: 3 is not 4\n");
    }
}
