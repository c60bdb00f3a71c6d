//! Shared arrays of a fixed length: their addresses, which all blocks of a launch have in common.

use std::sync::{Mutex, PoisonError};

/// The address of the first array. Dynamic shared memory is below.
const FIRST_ADDRESS: u32 = 1 << 20;

/// The gap after each array, so that a small overrun does not reach the next one.
const GAP: u32 = 1 << 10;

/// The most bytes of all arrays of a block.
pub(crate) const MOST_BYTES: u32 = 48 << 10;

/// The arrays of a launch, in the order in which threads first used them.
#[derive(Debug, Default)]
pub(crate) struct Arrays(Mutex<Vec<Array>>);

/// One array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Array {
    number: u64,
    /// Its address in shared memory.
    pub(crate) address: u32,
    pub(crate) bytes: u32,
    /// The sum of the sizes of the arrays before it, each rounded up to 16 bytes: its place in the records.
    before: u32,
}

impl Arrays {
    /// The array with this number. A new one gets the next addresses.
    pub(crate) fn find_or_add(&self, number: u64, bytes: u32) -> Array {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = arrays.iter().find(|array| array.number == number) {
            return *array;
        }
        let (address, before) = arrays
            .last()
            .map_or((FIRST_ADDRESS, 0), |last| (last.address + last.bytes.next_multiple_of(16) + GAP, last.end()));
        let array = Array { number, address, bytes, before };
        arrays.push(array);
        array
    }
}

impl Array {
    /// The place of an access in the records after those of dynamic shared memory, if it lies in the array.
    pub(crate) fn place(&self, address: u64, size: u32) -> Option<usize> {
        let offset = address.checked_sub(self.address.into())?;
        (offset + u64::from(size) <= self.bytes.into()).then_some(self.before as usize + offset as usize)
    }

    /// The end of its place in the records.
    pub(crate) fn end(&self) -> u32 {
        self.before + self.bytes.next_multiple_of(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_keep_their_addresses_and_have_gaps() {
        let arrays = Arrays::default();
        let (first, second) = (arrays.find_or_add(7, 100), arrays.find_or_add(8, 4));
        assert_eq!(arrays.find_or_add(7, 100), first);
        assert_eq!((first.address % 16, second.address - first.address), (0, 112 + GAP));
        assert_eq!(
            (first.place(first.address.into(), 4), first.place(u64::from(first.address) + 97, 4)),
            (Some(0), None)
        );
        assert_eq!((second.place(second.address.into(), 4), second.end()), (Some(112), 128));
    }
}
