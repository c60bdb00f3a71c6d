//! Tables of text for terminals: columns in line, no lines between them.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, Table, Width};

/// A column: its title, where its cells stand, and the width that it has at least.
#[derive(Clone, Copy, Debug)]
pub struct TextColumn {
    /// The title.
    pub title: &'static str,
    /// Where cells stand.
    pub alignment: CellAlignment,
    /// Characters.
    pub least_width: u16,
}

impl TextColumn {
    /// A column of names, which stand at the left.
    pub const fn left(title: &'static str) -> Self {
        Self { title, alignment: CellAlignment::Left, least_width: 0 }
    }

    /// A column of figures, which stand at the right.
    pub const fn right(title: &'static str) -> Self {
        Self { title, alignment: CellAlignment::Right, least_width: 0 }
    }

    /// The same with a least width, so that several tables stand in line.
    pub const fn at_least(self, least_width: u16) -> Self {
        Self { least_width, ..self }
    }
}

/// The table, indented. Each line ends with a line break.
pub fn text_table(columns: &[TextColumn], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    const SPACE: u16 = 2;
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(columns.iter().map(|column| column.title)).add_rows(rows);
    for (column, TextColumn { alignment, least_width, .. }) in table.column_iter_mut().zip(columns) {
        column
            .set_padding((SPACE, 0))
            .set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least_width + SPACE)));
        column.set_cell_alignment(*alignment);
    }
    table.trim_fmt() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_in_line() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let rows = vec![row(["one", "1.00 µs"]), row(["and two", "12 ms"])];
        let columns = [TextColumn::left("kernel"), TextColumn::right("time")];
        assert_eq!(text_table(&columns, rows.clone()), "  kernel      time\n  one      1.00 µs\n  and two    12 ms\n");
        let wide = [columns[0].at_least(8), columns[1]];
        assert_eq!(text_table(&wide, rows), "  kernel       time\n  one       1.00 µs\n  and two     12 ms\n");
    }
}
