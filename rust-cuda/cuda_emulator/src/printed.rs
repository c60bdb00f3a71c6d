//! The text that the kernels of a launch print.

use std::sync::{Mutex, PoisonError};

/// The text of a launch, with the number of the block for each line.
#[derive(Debug, Default)]
pub(crate) struct Printed(Mutex<Vec<(u64, String)>>);

impl Printed {
    /// Adds text of a thread of a block.
    pub(crate) fn add(&self, block: u64, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((block, text.to_owned()));
    }

    /// The text of all blocks, in the order of their numbers: host threads run blocks in any order.
    pub(crate) fn into_text(self) -> String {
        let mut lines = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        lines.sort_by_key(|(block, _)| *block);
        lines.into_iter().map(|(_, text)| text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_order_and_lines_of_a_block_stay_so() {
        let printed = Printed::default();
        [(1, "b\n"), (0, "z\n"), (1, "a\n"), (0, "y\n")].iter().for_each(|(block, text)| printed.add(*block, text));
        assert_eq!(printed.into_text(), "z\ny\nb\na\n");
    }
}
