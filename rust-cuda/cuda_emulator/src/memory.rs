//! Global and constant memory, with a record of the last accesses to each element of global memory.

use std::collections::{BTreeMap, TryReserveError};
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use cuda_std::{Global, GlobalMut, Scalar};

use crate::OutOfMemory;
use crate::record::Record;

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

/// The bytes of values.
pub(crate) fn bytes_of<T: Scalar>(values: &[T]) -> &[u8] {
    // SAFETY: Scalar is sealed; its types have no padding, so all bytes are initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// An allocation in global memory.
pub(crate) struct Allocation {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) element: u64,
    pub(crate) role: Role,
    /// The bytes as atomic words: blocks run in parallel, and a race of a kernel must not be one of the emulator.
    words: Box<[AtomicU32]>,
    /// For each element 1 if the host or an earlier launch wrote it, otherwise 0.
    pub(crate) known: Box<[AtomicU32]>,
    /// For each element the last write of this launch.
    pub(crate) writes: Box<[AtomicU64]>,
    /// For each element the reads of this launch.
    pub(crate) reads: Box<[AtomicU64]>,
    /// The records of atomic accesses, from the first one on.
    atomics: OnceLock<Atomics>,
    /// Whether `atomics` is set. A flag of its own, because `OnceLock::get` is no `SeqCst` load.
    has_atomics: AtomicBool,
}

/// The records of atomic accesses to an allocation.
pub(crate) struct Atomics {
    /// For each element the atomic writes of this launch.
    pub(crate) writes: Box<[AtomicU64]>,
    /// For each element the atomic reads of this launch.
    pub(crate) reads: Box<[AtomicU64]>,
}

impl Allocation {
    /// Notes that the host has set all elements.
    fn set_known(&self) {
        for known in &self.known {
            known.store(1, Ordering::Relaxed);
        }
    }

    /// Fills `to` from the byte `offset` on. An access of 1 or 2 bytes is aligned to its size, any other to 4 bytes.
    #[inline]
    pub(crate) fn load(&self, offset: u64, to: &mut [u8]) {
        let word = (offset / 4) as usize;
        if to.len() < 4 {
            let bytes = self.words[word].load(Ordering::Relaxed).to_ne_bytes();
            let at = (offset % 4) as usize;
            to.copy_from_slice(&bytes[at..at + to.len()]);
            return;
        }
        let (whole, rest) = to.as_chunks_mut::<4>();
        let words = &self.words[word..];
        for (part, word) in whole.iter_mut().zip(words) {
            *part = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&words[whole.len()].load(Ordering::Relaxed).to_ne_bytes()[..rest.len()]);
        }
    }

    /// Writes `from` to the byte `offset`; sizes as for [`load`](Self::load).
    #[inline]
    pub(crate) fn store(&self, offset: u64, from: &[u8]) {
        let word = (offset / 4) as usize;
        if from.len() < 4 {
            let at = (offset % 4) as usize;
            // Another thread may write the other bytes of the word.
            let _ = self.words[word].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                let mut bytes = old.to_ne_bytes();
                bytes[at..at + from.len()].copy_from_slice(from);
                Some(u32::from_ne_bytes(bytes))
            });
            return;
        }
        for (&part, word) in from.as_chunks::<4>().0.iter().zip(&self.words[word..]) {
            word.store(u32::from_ne_bytes(part), Ordering::Relaxed);
        }
    }

    /// Replaces the value of 4 or 8 bytes by that of a function, and returns the old value, the high bits 0.
    ///
    /// At most one block at a time may call it; see [`Turns`](crate::turns::Turns).
    pub(crate) fn update(&self, offset: u64, size: u32, function: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        let mut word = [0; 4];
        let mut both = [0; 8];
        if size == 4 {
            self.load(offset, &mut word);
            let old = u32::from_ne_bytes(word).into();
            if let Some(new) = function(old) {
                self.store(offset, &(new as u32).to_ne_bytes());
            }
            old
        } else {
            self.load(offset, &mut both);
            let old = u64::from_ne_bytes(both);
            if let Some(new) = function(old) {
                self.store(offset, &new.to_ne_bytes());
            }
            old
        }
    }

    /// The records of atomic accesses, if there were any in this launch or an earlier one.
    ///
    /// A plain access notes itself, then it looks here. An atomic one sets the flag or finds it set, notes itself, then
    /// it looks up the plain accesses. All these steps are `SeqCst`, so they have one order, and the access that looks
    /// last sees the other one.
    #[inline]
    pub(crate) fn atomics(&self) -> Option<&Atomics> {
        if self.has_atomics.load(Ordering::SeqCst) { self.atomics.get() } else { None }
    }

    /// The records of atomic accesses, for one more of them.
    pub(crate) fn atomics_to_note(&self) -> Result<&Atomics, OutOfMemory> {
        if let Some(atomics) = self.atomics() {
            return Ok(atomics);
        }
        let length = self.writes.len();
        let short = || OutOfMemory { bytes: 16 * length as u64, what: "the record of an array's atomic accesses" };
        if !has_room(16 * length) {
            return Err(short());
        }
        let records = || filled(length, || AtomicU64::new(Record::NOBODY)).map_err(|_| short());
        let atomics = Atomics { writes: records()?, reads: records()? };
        let atomics = self.atomics.get_or_init(|| atomics);
        self.has_atomics.store(true, Ordering::SeqCst);
        Ok(atomics)
    }

    /// A hash of the records of the last writes of some elements. It changes with every write, but for one by the same
    /// thread at the same line before the next barrier.
    pub(crate) fn last_writes(&self, elements: std::ops::Range<usize>) -> u64 {
        // Without atomic writes the second hash is 0, also if the records of atomic accesses come into existence.
        let atomic = self.atomics.get().map_or(&[][..], |atomics| &atomics.writes[elements.clone()]);
        let [plain, atomic] = [&self.writes[elements], atomic].map(|writes| {
            writes.iter().fold(0, |hash: u64, write| {
                (hash ^ write.load(Ordering::SeqCst)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            })
        });
        plain ^ atomic.rotate_left(1)
    }

    /// The element at a byte of the allocation, or of the gaps around it, in words, such as `result[17]` or
    /// `result[17], byte 2 of the element`.
    pub(crate) fn describe(&self, offset: i64) -> String {
        let size = self.element as i64;
        let element = format!("{}[{}]", self.name, offset.div_euclid(size));
        match offset.rem_euclid(size) {
            0 => element,
            byte => format!("{element}, byte {byte} of the element"),
        }
    }
}

/// Whether the host can allocate `bytes` and 8 MiB more. The 8 MiB are for small allocations that return no error: if
/// one of them fails, the process ends. Nothing is reserved.
pub(crate) fn has_room(bytes: usize) -> bool {
    const KEPT: usize = 8 << 20;
    let bytes = bytes.saturating_add(KEPT);
    if let Some(left) = address_space() {
        // A trial allocation of all that is left would, for a moment, leave nothing for other threads.
        return bytes <= left;
    }
    let mut tried = Vec::<u8>::new();
    let is_granted = tried.try_reserve_exact(bytes).is_ok();
    // Without this the compiler may remove the allocation, which nobody uses.
    std::hint::black_box(&mut tried);
    is_granted
}

/// Bytes that are left of the address space (`ulimit -v`). None if it has no limit, or none that this system tells.
/// The limit is taken to stay what it was at the first call.
fn address_space() -> Option<usize> {
    static LIMIT: OnceLock<Option<usize>> = OnceLock::new();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let limit = (*LIMIT.get_or_init(|| number_after(&read("/proc/self/limits"), "Max address space")))?;
    let mapped = number_after(&read("/proc/self/status"), "VmSize:").unwrap_or(usize::MAX);
    Some(limit.saturating_sub(mapped.saturating_mul(1024)))
}

/// The number that follows `key` in a line of a listing.
fn number_after(listing: &str, key: &str) -> Option<usize> {
    listing.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().next()?.parse().ok()
}

/// `length` values, or an error if the host has too little memory.
pub(crate) fn filled<T>(length: usize, value: impl FnMut() -> T) -> Result<Box<[T]>, TryReserveError> {
    let mut values = Vec::new();
    values.try_reserve_exact(length)?;
    values.resize_with(length, value);
    Ok(values.into())
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
        let allocation = &self.allocations[&buffer.address];
        let padded = bytes_of(values).chunks(4).map(|part| {
            let mut word = [0; 4];
            word[..part.len()].copy_from_slice(part);
            u32::from_ne_bytes(word)
        });
        for (word, value) in allocation.words.iter().zip(padded) {
            word.store(value, Ordering::Relaxed);
        }
        allocation.set_known();
    }

    /// Allocates an array of `length` zeros. Reports show `name`.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the host has too little memory.
    pub fn try_zeros<T: Scalar>(&mut self, name: &str, length: usize) -> Result<Buffer<T>, OutOfMemory> {
        let buffer = self.try_allocate(name, length, Role::Scratch)?;
        let allocation = &self.allocations[&buffer.address];
        for word in &allocation.words {
            word.store(0, Ordering::Relaxed);
        }
        allocation.set_known();
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
        // So a shift finds the elements of an access, and a mask its alignment.
        const { assert!(size_of::<T>().is_power_of_two()) };
        let element = size_of::<T>() as u64;
        let all = (length as u64).saturating_mul(element + 20);
        let short = || OutOfMemory { bytes: all, what: "an array and the record of its use" };
        if !usize::try_from(all).is_ok_and(has_room) {
            return Err(short());
        }
        let bytes = length as u64 * element;
        let address = FIRST_ADDRESS + self.used;
        // Allocations begin at multiples of 256 bytes, as those of CUDA do.
        self.used += (bytes + GAP).next_multiple_of(256);
        let records = || filled(length, || AtomicU64::new(Record::NOBODY)).map_err(|_| short());
        let allocation = Allocation {
            name: name.to_owned(),
            address,
            bytes,
            element,
            role,
            // All ones are NaN in every type that has one.
            words: filled(bytes.div_ceil(4) as usize, || AtomicU32::new(u32::MAX)).map_err(|_| short())?,
            known: filled(length, || AtomicU32::new(0)).map_err(|_| short())?,
            writes: records()?,
            reads: records()?,
            atomics: OnceLock::new(),
            has_atomics: AtomicBool::new(false),
        };
        self.allocations.insert(address, allocation);
        Ok(Buffer { address, length, element: PhantomData })
    }

    /// Collects the text that kernels print from now on. Without this call it goes to standard output.
    pub fn collect_printed(&mut self) {
        self.printed.get_or_insert_default();
    }

    /// The text that was collected since [`collect_printed`](Self::collect_printed), which ends with this call. It is
    /// empty without that call.
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

    /// The elements of an array. Those that nothing wrote are all ones, which is NaN in `f32`.
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
            // SAFETY: Scalar is sealed; its types have no padding, and every bit pattern is a value.
            let bytes = unsafe { std::slice::from_raw_parts_mut((&raw mut *value).cast::<u8>(), size_of::<T>()) };
            allocation.load(index as u64 * allocation.element, bytes);
        }
    }

    /// The index of the first element that nothing has written and the number of such elements. None if there is none.
    #[must_use]
    pub fn unwritten<T: Scalar>(&self, buffer: &Buffer<T>) -> Option<(usize, usize)> {
        self.unwritten_among(buffer, |_| true)
    }

    /// [`unwritten`](Self::unwritten) among the elements whose index is `wanted`: rows may have gaps between them.
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
        // Mostly both are the same string. A comparison of the characters takes longer.
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
                let elements = format!("{name} has {} elements of {element} bytes", bytes / element);
                (allocation.describe(address.wrapping_sub(allocation.address) as i64), elements)
            }
            // In a gap between two arrays, the index may be one of either.
            Some((distance, Allocation { name, address: begin, .. })) if distance < FARTHEST => {
                let side = if *begin > address { "before" } else { "after the end of" };
                (place, format!("{distance} bytes {side} {name}, which is the nearest array"))
            }
            _ => (place, "no array is near".to_owned()),
        }
    }

    /// Ends a launch: elements that it wrote count as written, and the records of accesses are cleared.
    pub(crate) fn end_launch(&mut self) {
        for allocation in self.allocations.values_mut() {
            let mut no_atomics = Atomics { writes: Box::default(), reads: Box::default() };
            let atomics = allocation.atomics.get_mut().unwrap_or(&mut no_atomics);
            for writes in [&mut allocation.writes, &mut atomics.writes] {
                for (write, known) in writes.iter_mut().zip(&mut allocation.known) {
                    if std::mem::replace(write.get_mut(), Record::NOBODY) != Record::NOBODY {
                        *known.get_mut() = 1;
                    }
                }
            }
            for read in allocation.reads.iter_mut().chain(&mut atomics.reads) {
                *read.get_mut() = Record::NOBODY;
            }
        }
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
