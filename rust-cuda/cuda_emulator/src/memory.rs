//! Global and constant memory: what the host allocates, with a record of who wrote and read each element.

use std::collections::{BTreeMap, TryReserveError};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cuda_std::{Global, GlobalMut, Scalar};

use crate::OutOfMemory;
use crate::record::Record;

/// Where the first allocation lies. No address of this program's own memory on the systems we know, and none is ever
/// dereferenced: an address is only a name for an element here.
const FIRST_ADDRESS: u64 = 0x5000_0000_0000;

/// The gap after each allocation, so that a small overrun does not land in the next one.
const GAP: u64 = 1 << 20;

/// What a buffer is for, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Any use that is free of races.
    Scratch,
    /// Each element is written by one thread only; see also [`Memory::unwritten`].
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
    /// The kernel's handle, to read.
    #[must_use]
    pub fn global(&self) -> Global<T> {
        Global::new(std::ptr::without_provenance(self.address as usize))
    }

    /// The kernel's handle, to read and write.
    #[must_use]
    pub fn global_mut(&self) -> GlobalMut<T> {
        GlobalMut::new(std::ptr::without_provenance_mut(self.address as usize))
    }

    /// Elements.
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

/// Plain bytes that a scalar consists of.
pub(crate) fn bytes_of<T: Scalar>(values: &[T]) -> &[u8] {
    // SAFETY: Scalar is sealed: its types are plain bytes without padding.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// An allocation in global memory.
pub(crate) struct Allocation {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) element: u64,
    pub(crate) role: Role,
    /// The bytes, as words: blocks run in parallel, and a kernel with a race must not be one of ours.
    words: Box<[AtomicU32]>,
    /// Per element, whether the host or an earlier launch wrote it: 1, or 0.
    pub(crate) known: Box<[AtomicU32]>,
    /// Per element, the last write of this launch.
    pub(crate) writes: Box<[AtomicU64]>,
    /// Per element, the reads of this launch.
    pub(crate) reads: Box<[AtomicU64]>,
}

impl Allocation {
    /// Fills `to` from the byte `offset` on. The size is 1, 2 or a multiple of 4, the offset a multiple of the size.
    pub(crate) fn load(&self, offset: u64, to: &mut [u8]) {
        let word = (offset / 4) as usize;
        if to.len() < 4 {
            let bytes = self.words[word].load(Ordering::Relaxed).to_ne_bytes();
            let at = (offset % 4) as usize;
            to.copy_from_slice(&bytes[at..at + to.len()]);
            return;
        }
        for (part, word) in to.chunks_exact_mut(4).zip(&self.words[word..]) {
            part.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
    }

    /// Writes `from` to the byte `offset`; sizes as for [`load`](Self::load).
    pub(crate) fn store(&self, offset: u64, from: &[u8]) {
        let word = (offset / 4) as usize;
        if from.len() < 4 {
            let at = (offset % 4) as usize;
            // The other bytes of the word may be another thread's.
            let _ = self.words[word].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                let mut bytes = old.to_ne_bytes();
                bytes[at..at + from.len()].copy_from_slice(from);
                Some(u32::from_ne_bytes(bytes))
            });
            return;
        }
        for (part, word) in from.chunks_exact(4).zip(&self.words[word..]) {
            word.store(u32::from_ne_bytes([part[0], part[1], part[2], part[3]]), Ordering::Relaxed);
        }
    }

    /// What lies at a byte of the allocation, such as `result[17]`.
    pub(crate) fn describe(&self, offset: u64) -> String {
        format!("{}[{}]", self.name, offset / self.element)
    }
}

/// `length` values, if there is memory for them.
fn filled<T>(length: usize, value: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(length)?;
    values.resize_with(length, value);
    Ok(values.into())
}

/// A constant array that was set.
pub(crate) struct ConstantArray {
    /// The bytes that were set, from the array's start.
    pub(crate) bytes: Vec<u8>,
}

/// The global and constant memory of an emulated device.
#[derive(Default)]
pub struct Memory {
    /// By address.
    allocations: BTreeMap<u64, Allocation>,
    pub(crate) constants: BTreeMap<&'static str, ConstantArray>,
    used: u64,
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

    /// An array that holds `values`. `name` is for reports.
    ///
    /// # Panics
    /// If this machine has too little memory, which [`try_upload`](Self::try_upload) returns as an error.
    pub fn upload<T: Scalar>(&mut self, name: &str, values: &[T]) -> Buffer<T> {
        self.try_upload(name, values).unwrap_or_else(|short| panic!("{short}"))
    }

    /// An array that holds `values`. `name` is for reports.
    ///
    /// # Errors
    /// [`OutOfMemory`] of this machine.
    pub fn try_upload<T: Scalar>(&mut self, name: &str, values: &[T]) -> Result<Buffer<T>, OutOfMemory> {
        let buffer = self.try_allocate(name, values.len(), Role::Scratch)?;
        let allocation = &self.allocations[&buffer.address];
        let padded = bytes_of(values).chunks(4).map(|part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            u32::from_ne_bytes(word)
        });
        for (word, value) in allocation.words.iter().zip(padded) {
            word.store(value, Ordering::Relaxed);
        }
        for known in &allocation.known {
            known.store(1, Ordering::Relaxed);
        }
        Ok(buffer)
    }

    /// An array of `length` elements that nothing wrote yet.
    ///
    /// # Panics
    /// If this machine has too little memory, which [`try_allocate`](Self::try_allocate) returns as an error.
    pub fn allocate<T: Scalar>(&mut self, name: &str, length: usize, role: Role) -> Buffer<T> {
        self.try_allocate(name, length, role).unwrap_or_else(|short| panic!("{short}"))
    }

    /// An array of `length` elements that nothing wrote yet.
    ///
    /// # Errors
    /// [`OutOfMemory`] of this machine: an array takes its bytes and another 20 for each element.
    pub fn try_allocate<T: Scalar>(&mut self, name: &str, length: usize, role: Role) -> Result<Buffer<T>, OutOfMemory> {
        let element = size_of::<T>() as u64;
        let bytes = length as u64 * element;
        let address = FIRST_ADDRESS + self.used;
        // Allocations begin at multiples of 256 bytes, as CUDA's do.
        self.used += (bytes + GAP).next_multiple_of(256);
        let short = |_| OutOfMemory { bytes: bytes + 20 * length as u64, what: "an array and the record of its use" };
        let records = || filled(length, || AtomicU64::new(Record::NOBODY)).map_err(short);
        let allocation = Allocation {
            name: name.to_owned(),
            address,
            bytes,
            element,
            role,
            // A pattern that is NaN in every type that has one.
            words: filled(bytes.div_ceil(4) as usize, || AtomicU32::new(u32::MAX)).map_err(short)?,
            known: filled(length, || AtomicU32::new(0)).map_err(short)?,
            writes: records()?,
            reads: records()?,
        };
        self.allocations.insert(address, allocation);
        Ok(Buffer { address, length, element: PhantomData })
    }

    /// The elements of an array, those that nothing wrote being all ones (NaN in `f32`).
    #[must_use]
    pub fn download<T: Scalar>(&self, buffer: &Buffer<T>) -> Vec<T> {
        let allocation = &self.allocations[&buffer.address];
        let mut values = vec![T::default(); buffer.length];
        for (index, value) in values.iter_mut().enumerate() {
            // SAFETY: Scalar is sealed: its types are plain bytes, valid for every bit pattern.
            let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut *value).cast::<u8>(), size_of::<T>()) };
            allocation.load(index as u64 * allocation.element, bytes);
        }
        values
    }

    /// The first element that nothing has written, and how many there are; None if all were.
    #[must_use]
    pub fn unwritten<T: Scalar>(&self, buffer: &Buffer<T>) -> Option<(usize, usize)> {
        self.unwritten_among(buffer, |_| true)
    }

    /// The same among the elements that are `wanted`, by their indices: rows may have gaps between them.
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

    /// Sets a constant array from its start on, as the host does before a launch. What is not set is unwritten.
    pub fn set_constant<T: Scalar>(&mut self, symbol: &'static str, values: &[T]) {
        self.constants.insert(symbol, ConstantArray { bytes: bytes_of(values).to_vec() });
    }

    /// All allocations.
    pub(crate) fn allocations(&self) -> Vec<&Allocation> {
        self.allocations.values().collect()
    }

    /// The allocation that an address lies in.
    pub(crate) fn find(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        (address < allocation.address + allocation.bytes).then_some(allocation)
    }

    /// Where an address that lies in no allocation lies, in words.
    pub(crate) fn nearest(&self, address: u64) -> String {
        let below = self.allocations.range(..=address).next_back().map(|(_, allocation)| {
            let past = address - (allocation.address + allocation.bytes);
            (past, format!("{past} bytes after the end of {} ({} bytes)", allocation.name, allocation.bytes))
        });
        let above = self.allocations.range(address..).next().map(|(_, allocation)| {
            let before = allocation.address - address;
            (before, format!("{before} bytes before {}", allocation.name))
        });
        let nearest = below.into_iter().chain(above).min_by_key(|(distance, _)| *distance);
        match nearest {
            // Further away than any array reaches: no arithmetic on one of its addresses led here.
            Some((distance, text)) if distance < 1 << 40 => text,
            _ => format!("{address:#x} is near no allocation"),
        }
    }

    /// After a launch: what it wrote is known to the next one, and who did is forgotten.
    pub(crate) fn end_launch(&mut self) {
        for allocation in self.allocations.values_mut() {
            for (write, known) in allocation.writes.iter_mut().zip(&mut allocation.known) {
                if std::mem::replace(write.get_mut(), Record::NOBODY) != Record::NOBODY {
                    *known.get_mut() = 1;
                }
            }
            for read in &mut allocation.reads {
                *read.get_mut() = Record::NOBODY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_in_every_size() {
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
        assert_eq!(memory.nearest(first.address + 16), "4 bytes after the end of first (12 bytes)");
        assert_eq!(memory.nearest(second.address - 4), "4 bytes before second");
        assert_eq!(memory.nearest(0), "0x0 is near no allocation");
        assert_eq!(memory.unwritten(&second), Some((0, 2)));
        assert_eq!(memory.unwritten(&first), None);
    }
}
