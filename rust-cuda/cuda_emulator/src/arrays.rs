//! Shared arrays of a fixed length: their addresses, which all blocks of a launch have in common.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use cuda_std::executor::SharedDeclaration;

use crate::defect::counted;

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
    declaration: SharedDeclaration,
    /// Its address in shared memory.
    pub(crate) address: u32,
    /// The sum of the sizes of the arrays before it, each rounded up to 16 bytes: its place from [`begin`] on.
    before: u32,
}

impl Arrays {
    /// The array of a declaration. A new one gets the next addresses.
    pub(crate) fn find_or_add(&self, declaration: SharedDeclaration) -> Array {
        let mut arrays = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(array) = arrays.iter().find(|array| array.declaration.number == declaration.number) {
            return *array;
        }
        let (address, before) = arrays
            .last()
            .map_or((FIRST_ADDRESS, 0), |last| (last.address + last.bytes().next_multiple_of(16) + GAP, last.end()));
        let array = Array { declaration, address, before };
        arrays.push(array);
        array
    }
}

/// Where the records of shared arrays begin. An aligned access has an aligned place in the records.
pub(crate) fn begin(dynamic_bytes: u32) -> u32 {
    dynamic_bytes.next_multiple_of(16)
}

impl Array {
    fn bytes(&self) -> u32 {
        self.declaration.bytes
    }

    /// The array and the place of its declaration, in words.
    fn name(&self) -> String {
        let place = self.declaration.location;
        format!("the shared array declared at {}:{}", place.file(), place.line())
    }

    /// Whether an address lies in the array, or in the gap after its end. What is farther away says nothing about the
    /// array: it may be an access of dynamic shared memory.
    pub(crate) fn claims(&self, address: u64) -> bool {
        let end = u64::from(self.address + self.bytes().next_multiple_of(16) + GAP);
        (self.address.into()..end).contains(&address)
    }

    /// The place of an access that begins in the array or after its end, in words.
    pub(crate) fn describe(&self, address: u64) -> String {
        let (offset, size) = (address - u64::from(self.address), u64::from(self.declaration.element.max(1)));
        let mut text = format!("element {} of {}", offset / size, self.name());
        if offset % size != 0 {
            let _ = write!(text, ", byte {} of the element", offset % size);
        }
        text
    }

    /// The length, for the report of an access that ends after the array.
    pub(crate) fn describe_length(&self) -> String {
        format!("the array has {}", counted(self.bytes() / self.declaration.element.max(1), "element"))
    }

    /// The place of an access in the records, if it lies in the array. The records of dynamic shared memory come first.
    pub(crate) fn place(&self, dynamic_bytes: u32, address: u64, size: u32) -> Option<usize> {
        let offset = address.checked_sub(self.address.into())?;
        let begin = (begin(dynamic_bytes) + self.before) as usize;
        (offset + u64::from(size) <= self.bytes().into()).then_some(begin + offset as usize)
    }

    /// The end of its place in the records, from [`begin`] on.
    pub(crate) fn end(&self) -> u32 {
        self.before + self.bytes().next_multiple_of(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_keep_their_addresses_and_have_gaps() {
        let arrays = Arrays::default();
        let location = std::panic::Location::caller();
        let declared = |number, bytes| SharedDeclaration { number, bytes, element: 4, location };
        let (first, second) = (arrays.find_or_add(declared(7, 100)), arrays.find_or_add(declared(8, 4)));
        assert_eq!(arrays.find_or_add(declared(7, 100)), first);
        assert!(
            first.describe(u64::from(first.address) + 24).starts_with("element 6 of the shared array declared at ")
        );
        assert!(first.describe(u64::from(first.address) + 26).ends_with(", byte 2 of the element"));
        assert_eq!((first.address % 16, second.address - first.address), (0, 112 + GAP));
        assert_eq!(
            (first.place(0, first.address.into(), 4), first.place(0, u64::from(first.address) + 97, 4)),
            (Some(0), None)
        );
        // An array claims its gap, and nothing beyond.
        let end = u64::from(first.address) + 112 + u64::from(GAP);
        assert_eq!(
            [end - 1, end].map(|address| (first.claims(address), second.claims(address))),
            [(true, false), (false, true)]
        );
        assert!(!first.claims(0) && !second.claims(end + 1000 + u64::from(GAP)));
        // After 18 bytes of dynamic shared memory an aligned access still has an aligned place.
        assert_eq!((second.place(18, second.address.into(), 4), second.end()), (Some(32 + 112), 128));
    }
}
