//! Memory for lines of values.

use super::panel::LINE;

/// Memory that is used again. It begins where a cache line does: a vector that straddles two lines takes two
/// accesses.
#[derive(Debug, Default)]
pub(super) struct Aligned<T>(Vec<T>);

impl<T: Default + Clone> Aligned<T> {
    /// The first `length` values. What they are is not specified.
    pub(super) fn of_length(&mut self, length: usize) -> &mut [T] {
        let line = LINE / size_of::<T>();
        if self.0.len() < length + line {
            self.0.resize(length + line, T::default());
        }
        let first = self.0.as_ptr().align_offset(LINE);
        &mut self.0[first..][..length]
    }
}
