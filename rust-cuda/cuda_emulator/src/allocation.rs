//! An array in global memory, with a record of the last accesses to each element.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::OutOfMemory;
use crate::host_memory::{filled, has_room};
use crate::memory::Role;
use crate::record::Record;

/// An allocation in global memory.
pub(crate) struct Allocation {
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) element: u64,
    pub(crate) role: Role,
    /// The bytes as atomic words. Blocks run in parallel, so a race of a kernel on plain words would be a data race of
    /// the emulator.
    words: Box<[AtomicU32]>,
    /// For each element 1 if the host or an earlier launch wrote it, otherwise 0.
    pub(crate) known: Box<[AtomicU32]>,
    /// For each element the last write of this launch.
    pub(crate) writes: Box<[AtomicU64]>,
    /// For each element the reads of this launch.
    pub(crate) reads: Box<[AtomicU64]>,
    /// The records of atomic accesses, from the first one on.
    atomics: OnceLock<Atomics>,
    /// Whether `atomics` is set. `OnceLock::get` does not tell, because it is no `SeqCst` load.
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
    /// An array that nothing has written yet.
    ///
    /// # Errors
    /// [`OutOfMemory`] if the host has too little memory.
    pub(crate) fn new(name: &str, address: u64, length: usize, element: u64, role: Role) -> Result<Self, OutOfMemory> {
        let all = (length as u64).saturating_mul(element + 20);
        let short = || OutOfMemory { bytes: all, what: "an array and the record of its use" };
        if !usize::try_from(all).is_ok_and(has_room) {
            return Err(short());
        }
        let bytes = length as u64 * element;
        let records = || filled(length, || AtomicU64::new(Record::NOBODY)).map_err(|_| short());
        Ok(Self {
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
        })
    }

    /// Sets all elements on behalf of the host.
    pub(crate) fn fill(&self, values: impl Iterator<Item = u32>) {
        for (word, value) in self.words.iter().zip(values) {
            word.store(value, Ordering::Relaxed);
        }
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
    /// Of a plain and an atomic access at least one sees the other:
    ///
    /// 1. A plain access writes its record. Then it calls this function.
    /// 2. An atomic access sets `has_atomics` or finds it set. Then it writes its record. Then it reads the records of
    ///    plain accesses.
    ///
    /// All these steps are `SeqCst`, so they have one order. The access that reads last sees the other one.
    #[inline]
    pub(crate) fn atomics(&self) -> Option<&Atomics> {
        if self.has_atomics.load(Ordering::SeqCst) { self.atomics.get() } else { None }
    }

    /// The records of atomic accesses, which the first atomic access allocates.
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

    /// A hash of the records of the last writes of some elements. Every write changes it, except a repeated one: by the
    /// same thread, at the same line, without a barrier in between.
    pub(crate) fn last_writes(&self, elements: std::ops::Range<usize>) -> u64 {
        // Without atomic writes the second hash is 0, whether or not the records of atomic accesses exist.
        let atomic = self.atomics.get().map_or(&[][..], |atomics| &atomics.writes[elements.clone()]);
        let [plain, atomic] = [&self.writes[elements], atomic].map(|writes| {
            writes.iter().fold(0, |hash: u64, write| {
                (hash ^ write.load(Ordering::SeqCst)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            })
        });
        plain ^ atomic.rotate_left(1)
    }

    /// The name of the element at a byte of the allocation, or of the gaps around it, such as `result[17]` or
    /// `result[17], byte 2 of the element`.
    pub(crate) fn describe(&self, offset: i64) -> String {
        let size = self.element as i64;
        let element = format!("{}[{}]", self.name, offset.div_euclid(size));
        match offset.rem_euclid(size) {
            0 => element,
            byte => format!("{element}, byte {byte} of the element"),
        }
    }

    /// Ends a launch: elements that it wrote count as written, and the records of accesses are cleared.
    pub(crate) fn end_launch(&mut self) {
        let mut no_atomics = Atomics { writes: Box::default(), reads: Box::default() };
        let atomics = self.atomics.get_mut().unwrap_or(&mut no_atomics);
        for writes in [&mut self.writes, &mut atomics.writes] {
            for (write, known) in writes.iter_mut().zip(&mut self.known) {
                if std::mem::replace(write.get_mut(), Record::NOBODY) != Record::NOBODY {
                    *known.get_mut() = 1;
                }
            }
        }
        for read in self.reads.iter_mut().chain(&mut atomics.reads) {
            *read.get_mut() = Record::NOBODY;
        }
    }
}
