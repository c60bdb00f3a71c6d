//! Global and constant memory, and the arrays in it.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_std::{Global, GlobalMut, Scalar};

use crate::OutOfMemory;
use crate::allocation::Allocation;
use crate::bytes::{bytes_of, bytes_of_mut};
use crate::defect::counted;

/// The address of the first allocation. Addresses are names of elements: the emulator never dereferences them.
const FIRST_ADDRESS: u64 = 0x5000_0000_0000;

/// The gap after each allocation, so that a small overrun does not reach the next one.
const GAP: u64 = 1 << 20;
/// A distance from all arrays that no index makes: such an address does not come from one of them.
const FARTHEST: u64 = 1 << 40;

/// The use of a buffer, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Any use without races.
    Scratch,
    /// At most one thread writes each element; see also [`Memory::unwritten`].
    Output,
}

/// A typed array in the emulator's global memory.
#[derive(Debug)]
pub struct Buffer<T> {
    address: u64,
    length: usize,
    element: PhantomData<T>,
}

impl<T: Scalar> Buffer<T> {
    /// The handle for a kernel that reads the array.
    #[must_use]
    pub fn global(&self) -> Global<T> {
        Global::new(std::ptr::without_provenance(self.address as usize))
    }

    /// The handle for a kernel that reads and writes the array.
    #[must_use]
    pub fn global_mut(&self) -> GlobalMut<T> {
        GlobalMut::new(std::ptr::without_provenance_mut(self.address as usize))
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The global and constant memory of an emulated device.
#[derive(Default)]
pub struct Memory {
    /// The allocations by address.
    allocations: BTreeMap<u64, Allocation>,
    /// The constant arrays that the host has set, each with its symbol and its bytes from the start on.
    constants: Vec<(&'static str, Vec<u8>)>,
    used: u64,
    /// The text that kernels have printed, if it is collected.
    printed: Option<String>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.allocations.values().map(|allocation| &allocation.name);
        f.debug_struct("Memory").field("allocations", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl Memory {
    /// An empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allocates an array that holds `values`. Reports show `name`.
    ///
    /// # Panics
    /// If the host has too little memory. [`try_upload`](Self::try_upload) returns that as an error.
    pub fn upload<T: Scalar>(&mut self, name: &str, values: &[T]) -> Buffer<T> {
        self.try_upload(name, values).unwrap_or_else(|short| panic!("{short}"))
    }

    /// Allocates an array that holds `values`. Reports show `name`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the host has too little memory.
    pub fn try_upload<T: Scalar>(&mut self, name: &str, values: &[T]) -> Result<Buffer<T>, OutOfMemory> {
        let buffer = self.try_allocate(name, values.len(), Role::Scratch)?;
        self.write(&buffer, values);
        Ok(buffer)
    }

    /// Frees an array. No later one has its addresses, so a kernel that accesses it is reported.
    pub fn free<T: Scalar>(&mut self, buffer: Buffer<T>) {
        self.allocations.remove(&buffer.address);
    }

    /// Replaces the values of an array.
    ///
    /// # Panics
    /// If there are more or fewer values than elements.
    pub fn write<T: Scalar>(&mut self, buffer: &Buffer<T>, values: &[T]) {
        assert_eq!(values.len(), buffer.length, "as many values as elements");
        let padded = bytes_of(values).chunks(4).map(|part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            u32::from_ne_bytes(word)
        });
        self.allocations[&buffer.address].fill(padded);
    }

    /// Allocates an array of `length` zeros. Reports show `name`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the host has too little memory.
    pub fn try_zeros<T: Scalar>(&mut self, name: &str, length: usize) -> Result<Buffer<T>, OutOfMemory> {
        let buffer = self.try_allocate(name, length, Role::Scratch)?;
        self.allocations[&buffer.address].fill(std::iter::repeat(0));
        Ok(buffer)
    }

    /// Allocates an array of `length` elements that nothing has written yet. Reports show `name`.
    ///
    /// # Panics
    /// If the host has too little memory. [`try_allocate`](Self::try_allocate) returns that as an error.
    pub fn allocate<T: Scalar>(&mut self, name: &str, length: usize, role: Role) -> Buffer<T> {
        self.try_allocate(name, length, role).unwrap_or_else(|short| panic!("{short}"))
    }

    /// Allocates an array of `length` elements that nothing has written yet. Reports show `name`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the host has too little memory. An array takes its own bytes and 20 bytes for each element.
    /// Its first atomic access adds 16 bytes for each element. 8 MiB of the host's memory must be left.
    pub fn try_allocate<T: Scalar>(&mut self, name: &str, length: usize, role: Role) -> Result<Buffer<T>, OutOfMemory> {
        // The checks of an access find its elements by a shift and its alignment by a mask.
        const { assert!(size_of::<T>().is_power_of_two()) };
        let address = FIRST_ADDRESS + self.used;
        let allocation = Allocation::new(name, address, length, size_of::<T>() as u64, role)?;
        // Allocations begin at multiples of 256 bytes, as those of CUDA do.
        self.used += (allocation.bytes + GAP).next_multiple_of(256);
        self.allocations.insert(address, allocation);
        Ok(Buffer { address, length, element: PhantomData })
    }

    /// Collects the text that kernels print from now on. Without this call it goes to standard output.
    pub fn collect_printed(&mut self) {
        self.printed.get_or_insert_default();
    }

    /// Ends the collection that [`collect_printed`](Self::collect_printed) began, and returns its text. The text is
    /// empty if no collection was begun.
    pub fn take_printed(&mut self) -> String {
        self.printed.take().unwrap_or_default()
    }

    /// Collects text, or writes it to standard output.
    pub(crate) fn print(&mut self, text: &str) {
        match &mut self.printed {
            Some(printed) => printed.push_str(text),
            None => print!("{text}"),
        }
    }

    /// The elements of an array. All bits of an element that nothing wrote are ones, which is NaN in `f32`.
    #[must_use]
    pub fn download<T: Scalar>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let mut values = vec![T::default(); buffer.length];
        self.read(buffer, &mut values);
        values
    }

    /// Copies the elements of an array, as [`download`](Self::download) does.
    ///
    /// # Panics
    /// If `values` has more or fewer elements than the array.
    pub fn read<T: Scalar>(&self, buffer: &Buffer<T>, values: &mut [T]) {
        assert_eq!(values.len(), buffer.length, "as many values as elements");
        let allocation = &self.allocations[&buffer.address];
        for (index, value) in values.iter_mut().enumerate() {
            allocation.load(index as u64 * allocation.element, bytes_of_mut(std::slice::from_mut(value)));
        }
    }

    /// The index of the first element that nothing has written and the number of such elements. None if there is none.
    #[must_use]
    pub fn unwritten<T: Scalar>(&self, buffer: &Buffer<T>) -> Option<(usize, usize)> {
        self.unwritten_among(buffer, |_| true)
    }

    /// As [`unwritten`](Self::unwritten), for the elements whose index is `wanted`. An image may have gaps between its
    /// rows, which no kernel writes.
    #[must_use]
    pub fn unwritten_among<T: Scalar>(
        &self,
        buffer: &Buffer<T>,
        wanted: impl Fn(usize) -> bool,
    ) -> Option<(usize, usize)> {
        let known = &self.allocations[&buffer.address].known;
        let is_missing = |&(index, known): &(usize, &AtomicU32)| known.load(Ordering::Relaxed) == 0 && wanted(index);
        let missing = || known.iter().enumerate().filter(is_missing);
        missing().next().map(|(first, _)| (first, missing().count()))
    }

    /// Sets a constant array from its start on. Elements after `values` count as unwritten.
    pub fn set_constant<T: Scalar>(&mut self, symbol: &'static str, values: &[T]) {
        self.constants.retain(|&(known, _)| known != symbol);
        self.constants.push((symbol, bytes_of(values).to_vec()));
    }

    /// The bytes of a constant array that the host has set.
    #[inline]
    pub(crate) fn constant(&self, symbol: &'static str) -> &[u8] {
        // Most pairs of equal symbols have the same address. To compare addresses takes less time than characters.
        let is_this = |&&(known, _): &&(&'static str, _)| std::ptr::eq(known, symbol) || known == symbol;
        self.constants.iter().find(is_this).map_or(&[], |(_, bytes)| bytes)
    }

    /// All allocations.
    pub(crate) fn allocations(&self) -> Vec<&Allocation> {
        self.allocations.values().collect()
    }

    /// The allocation that contains an address.
    pub(crate) fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address < allocation.address + allocation.bytes).then_some(allocation)
    }

    /// The place of an access that does not lie in an allocation, and the reason, in words. Near an allocation the place
    /// is an element that it does not have, such as `result[-1]`.
    pub(crate) fn outside(&self, address: u64) -> (String, String) {
        let distance = |allocation: &Allocation| match allocation.address.checked_sub(address) {
            Some(before) => before,
            None => address.saturating_sub(allocation.address + allocation.bytes),
        };
        let below = self.allocations.range(..=address).next_back();
        let above = self.allocations.range(address..).next();
        let near = below.into_iter().chain(above).map(|(_, allocation)| (distance(allocation), allocation));
        let place = format!("{address:#x}");
        match near.min_by_key(|(distance, _)| *distance) {
            Some((distance, allocation)) if distance < GAP => {
                let Allocation { name, bytes, element, .. } = allocation;
                let elements =
                    format!("{name} has {} of {}", counted(bytes / element, "element"), counted(*element, "byte"));
                (allocation.describe(address.wrapping_sub(allocation.address) as i64), elements)
            }
            // In a gap between two arrays, the index may be one of either.
            Some((distance, Allocation { name, address: begin, .. })) if distance < FARTHEST => {
                let side = if *begin > address { "before" } else { "after the end of" };
                (place, format!("{} {side} {name}, which is the nearest array", counted(distance, "byte")))
            }
            _ => (place, "no array is near".to_owned()),
        }
    }

    /// Ends a launch: elements that it wrote count as written, and the records of accesses are cleared.
    pub(crate) fn end_launch(&mut self) {
        self.allocations.values_mut().for_each(Allocation::end_launch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_size_round_trip() {
        let mut memory = Memory::new();
        let bytes = memory.upload("bytes", &[1_u8, 2, 3, 4, 5]);
        let halves = memory.upload("halves", &[1_u16, 2, 3]);
        let floats = memory.upload("floats", &[1.5_f32, -2.5]);
        assert_eq!(memory.download(&bytes), [1, 2, 3, 4, 5]);
        assert_eq!(memory.download(&halves), [1, 2, 3]);
        assert_eq!(memory.download(&floats), [1.5, -2.5]);
        let allocation = memory.find(bytes.address).unwrap();
        allocation.store(1, &[9]);
        allocation.store(4, &[8]);
        assert_eq!(memory.download(&bytes), [1, 9, 3, 4, 8]);
    }

    #[test]
    fn addresses_are_found_and_described() {
        let mut memory = Memory::new();
        let first = memory.upload("first", &[0_f32; 3]);
        let second: Buffer<f32> = memory.allocate("second", 2, Role::Output);
        assert_eq!(memory.find(first.address + 11).unwrap().name, "first");
        assert!(memory.find(first.address + 12).is_none());
        assert!(memory.find(first.address - 1).is_none());
        let outside = |address| {
            let (place, reason) = memory.outside(address);
            format!("{place}: {reason}")
        };
        assert_eq!(outside(first.address + 16), "first[4]: first has 3 elements of 4 bytes");
        assert_eq!(outside(first.address + 10), "first[2], byte 2 of the element: first has 3 elements of 4 bytes");
        assert_eq!(outside(second.address - 4), "second[-1]: second has 2 elements of 4 bytes");
        assert_eq!(outside(second.address - 3), "second[-1], byte 1 of the element: second has 2 elements of 4 bytes");
        assert!(outside(first.address - 4).starts_with("first[-1]: "));
        assert!(
            outside(second.address + 8 + GAP).ends_with(" bytes after the end of second, which is the nearest array")
        );
        assert!(outside(first.address - GAP).ends_with(" bytes before first, which is the nearest array"));
        assert_eq!(outside(0), "0x0: no array is near");
        assert_eq!(memory.unwritten(&second), Some((0, 2)));
        assert_eq!(memory.unwritten(&first), None);
    }
}
