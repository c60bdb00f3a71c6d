//! What came out of a tutorial, as data, and as text for people.

use std::fmt;

use super::Tutorial;
use crate::files::Picture;

/// A tutorial's results, in the order in which it tells them.
#[derive(Clone, Debug)]
pub struct Report {
    /// Which one.
    pub tutorial: Tutorial,
    /// Notes, tables and checks.
    pub parts: Vec<Part>,
    /// Pictures, with their file names.
    pub pictures: Vec<(&'static str, Picture)>,
}

impl Report {
    /// Whether every answer was right.
    #[must_use]
    pub fn all_right(&self) -> bool {
        self.checks().all(|check| check.verdict.is_ok())
    }

    /// The answers that were checked.
    pub fn checks(&self) -> impl Iterator<Item = &Check> {
        self.parts.iter().filter_map(|part| match part {
            Part::Check(check) => Some(check),
            Part::Note(_) | Part::Table(_) => None,
        })
    }
}

/// A piece of a report. Its text ends with a line break.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A line of text or more.
    Note(String),
    /// Figures.
    Table(Table),
    /// An answer that was checked.
    Check(Check),
}

/// An answer that was held against a reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What computed what.
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
        let width = |text: &str| text.chars().count();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| width(&row[column]));
                cells.chain([width(self.columns[column])]).max().unwrap_or(0)
            })
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &mut dyn Iterator<Item = &str>| {
            let mut text = String::new();
            for (column, cell) in cells.enumerate() {
                let space = " ".repeat(widths[column] - width(cell));
                // Names to the left, figures to the right.
                text += &if column == 0 { format!("  {cell}{space}") } else { format!("  {space}{cell}") };
            }
            writeln!(f, "{}", text.trim_end())
        };
        writeln!(f, "\n{}", self.title)?;
        line(f, &mut self.columns.iter().copied())?;
        for row in &self.rows {
            line(f, &mut row.iter().map(String::as_str))?;
        }
        writeln!(f)
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
        let report = |verdict| Report { tutorial: Tutorial::Cupy, parts: parts(verdict), pictures: Vec::new() };
        assert!(report(Ok("exact".into())).all_right());
        let wrong = report(Err("3 is not 4".into()));
        assert!(!wrong.all_right());
        assert_eq!(wrong.parts[2].to_string(), "WRONG  sum: 3 is not 4\n");
    }
}
