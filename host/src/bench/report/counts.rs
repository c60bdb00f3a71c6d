//! The emulator's counts as a table: the accesses of each kernel by warp, and how well they coalesce.

use cuda_emulator::{Counts, Traffic};

use super::{Cell, Verified};
use crate::text_table::{TextColumn, text_table};

/// The columns.
const COLUMNS: [TextColumn; 8] = [
    TextColumn::left("variant"),
    TextColumn::right("global loads"),
    TextColumn::right("global stores"),
    TextColumn::right("shared loads"),
    TextColumn::right("shared stores"),
    TextColumn::right("bank conflicts"),
    TextColumn::right("constant loads"),
    TextColumn::right("barriers"),
];

/// A table of what was counted in a cell; empty if nothing was.
#[must_use]
pub(super) fn table(cell: &Cell) -> String {
    let counted = |row: &Verified| Some(columns(row.variant, &row.counts?));
    let rows: Vec<_> = cell.rows.iter().filter_map(counted).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "  counted by the emulator: warp instructions, and in brackets the transactions they make\n{}  \
         (global: sectors of 32 bytes; shared: wavefronts; constant: different addresses; %: what the bytes alone \
         would take)\n",
        text_table(&COLUMNS, rows)
    )
}

fn columns(variant: &str, counts: &Counts) -> Vec<String> {
    vec![
        variant.to_owned(),
        traffic(&counts.global_loads),
        traffic(&counts.global_stores),
        traffic(&counts.shared_loads),
        traffic(&counts.shared_stores),
        counts.bank_conflicts().to_string(),
        traffic(&counts.constant_loads),
        counts.barriers.to_string(),
    ]
}

/// Instructions, transactions, and the share of the latter that is needed.
fn traffic(traffic: &Traffic) -> String {
    match traffic.instructions {
        0 => "-".to_owned(),
        instructions => {
            format!("{instructions} ({}, {:.0} %)", traffic.transactions, 100.0 * traffic.efficiency())
        }
    }
}
