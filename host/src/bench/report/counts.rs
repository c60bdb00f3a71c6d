//! What the emulator counts, as a table: the accesses of each kernel, warp by warp, and how well they are put together.

use cuda_emulator::{Counts, Traffic};

use super::{Cell, Verified};

/// The titles of the columns.
const TITLES: [&str; 8] = [
    "variant",
    "global loads",
    "global stores",
    "shared loads",
    "shared stores",
    "bank conflicts",
    "constant loads",
    "barriers",
];

/// A table of what was counted in a cell; empty if nothing was.
#[must_use]
pub(super) fn table(cell: &Cell) -> String {
    let counted: Vec<(&Verified, Counts)> =
        cell.rows.iter().filter_map(|row| row.counts.map(|counts| (row, counts))).collect();
    if counted.is_empty() {
        return String::new();
    }
    let mut rows = vec![TITLES.map(str::to_owned)];
    rows.extend(counted.iter().map(|(row, counts)| columns(row.variant, counts)));
    let widths: [usize; TITLES.len()] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let mut out =
        "  counted by the emulator: warp instructions, and in brackets the transactions they make\n".to_owned();
    for row in rows {
        let mut line = format!("  {:<width$}", row[0], width = widths[0]);
        for (text, width) in row.iter().zip(widths).skip(1) {
            line += &format!("  {text:>width$}");
        }
        out += line.trim_end();
        out.push('\n');
    }
    out + "  (global: sectors of 32 bytes; shared: wavefronts; constant: different addresses; %: what the bytes alone would take)\n"
}

fn columns(variant: &str, counts: &Counts) -> [String; TITLES.len()] {
    [
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
