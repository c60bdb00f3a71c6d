//! The checks of each access to global, shared and constant memory.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::executor::{Access, AsyncCopy, SharedDeclaration, Space};

use crate::allocation::Allocation;
use crate::arrays::{self, Array, MOST_BYTES};
use crate::block::Runner;
use crate::copies::{Copy, Source};
use crate::defect::{Before, Kind, counted};
use crate::launch::Place;
use crate::memory::Role;
use crate::record::{Record, Who};
use crate::shared::Trouble;
use crate::sites;
use crate::warp::Class;

/// The words of reports for the access of an asynchronous copy to its source.
const ASYNC_READ: &str = "asynchronous read";
/// The words of reports for its access to its destination.
const ASYNC_WRITE: &str = "asynchronous write";

impl Runner<'_> {
    #[inline]
    pub(crate) fn load_global(&self, access: &Access, bytes: &mut [u8]) {
        self.count(access, Class::GlobalLoad);
        match self.locate(access, access.size, "read") {
            Some((allocation, offset)) => self.read(access, allocation, offset, "read", bytes),
            // A wrong access reads NaN in every type that has one, so that the result shows it.
            None => bytes.fill(u8::MAX),
        }
    }

    /// Fills `bytes` from an allocation, and checks and notes the read of each element.
    #[inline]
    fn read(&self, access: &Access, allocation: &Allocation, offset: u64, verb: &str, bytes: &mut [u8]) {
        allocation.load(offset, bytes);
        let me = self.record(access.location);
        for element in elements(allocation, offset, access.size) {
            // The read is noted before the last write is looked up; see `record`.
            self.note(&allocation.reads[element], me);
            let write = Record::unpack(allocation.writes[element].load(Ordering::SeqCst));
            let atomic = atomic_writes(allocation, element);
            let kind = if self.conflicts(atomic) {
                Kind::Race { before: self.before_atomic(atomic, true) }
            } else if write.who == Who::Nobody {
                if atomic.who != Who::Nobody || allocation.known[element].load(Ordering::Relaxed) != 0 {
                    continue;
                }
                Kind::Uninitialised
            } else if self.conflicts(write) {
                Kind::Race { before: self.before(write, true) }
            } else {
                continue;
            };
            self.report(described(verb, access, allocation, offset), kind, Some(access.location));
        }
    }

    #[inline]
    pub(crate) fn store_global(&self, access: &Access, bytes: &[u8]) {
        self.count(access, Class::GlobalStore);
        let Some((allocation, offset)) = self.locate(access, access.size, "write") else { return };
        allocation.store(offset, bytes);
        let me = self.record(access.location);
        for element in elements(allocation, offset, access.size) {
            // The write is noted before the reads are looked up; see `record`.
            let write = Record::unpack(allocation.writes[element].swap(me.pack(), Ordering::SeqCst));
            let read = Record::unpack(allocation.reads[element].load(Ordering::SeqCst));
            let atomic = [atomic_writes(allocation, element), atomic_reads(allocation, element)];
            let kind = if allocation.role == Role::Output && write.who != Who::Nobody && write.who != me.who {
                Kind::WrittenTwice { before: self.before(write, true) }
            } else if self.conflicts(write) {
                Kind::Race { before: self.before(write, true) }
            } else if self.conflicts(read) {
                Kind::Race { before: self.before(read, false) }
            } else if self.conflicts(atomic[0]) {
                Kind::Race { before: self.before_atomic(atomic[0], true) }
            } else if self.conflicts(atomic[1]) {
                Kind::Race { before: self.before_atomic(atomic[1], false) }
            } else {
                continue;
            };
            self.report(described("write", access, allocation, offset), kind, Some(access.location));
        }
    }

    #[inline]
    pub(crate) fn load_shared(&self, access: &Access, bytes: &mut [u8]) {
        self.count(access, Class::SharedLoad);
        let Some(at) = self.inside_shared(access.address, access.size, "read", access.location) else {
            return bytes.fill(u8::MAX);
        };
        let (thread, site) = (self.thread.get() as u16, sites::number(access.location));
        let result = self.shared.borrow_mut().load(at, bytes, thread, site);
        self.report_shared(access.address, access.size, "read", access.location, result);
    }

    #[inline]
    pub(crate) fn store_shared(&self, access: &Access, bytes: &[u8]) {
        self.count(access, Class::SharedStore);
        let Some(at) = self.inside_shared(access.address, access.size, "write", access.location) else { return };
        let (thread, site) = (self.thread.get() as u16, sites::number(access.location));
        let result = self.shared.borrow_mut().store(at, bytes, thread, site);
        self.report_shared(access.address, access.size, "write", access.location, result);
    }

    /// Checks an asynchronous copy and reads its source. None if its destination is not valid.
    pub(crate) fn issue(&self, copy: &AsyncCopy) -> Option<Copy> {
        let AsyncCopy { to, from, size, zero_fill_from, location } = *copy;
        let read = zero_fill_from.map_or(size, |count| count.min(size));
        if zero_fill_from.is_some_and(|count| count > size) {
            let nearest = format!("an asynchronous copy has at most {size} bytes");
            self.report(ASYNC_READ.to_owned(), Kind::OutOfBounds { nearest }, Some(location));
        }
        self.count_copy(copy, read);
        let (mut bytes, mut source) = ([0; 16], None);
        let access = Access { space: Space::Global, address: from, size: read, location };
        if read == 0 {
            if !is_aligned(from, size) {
                let action = format!("{ASYNC_READ} of 0 bytes at {from:#x}");
                self.report(action, Kind::Misaligned, Some(location));
            }
        } else if let Some((allocation, offset)) = self.locate(&access, size, ASYNC_READ) {
            let last_writes = allocation.last_writes(elements(allocation, offset, read));
            self.read(&access, allocation, offset, ASYNC_READ, &mut bytes[..read as usize]);
            source = Some(Source { address: from, size: read, last_writes });
        } else {
            bytes[..read as usize].fill(u8::MAX);
        }
        let at = self.inside_shared(to, size, ASYNC_WRITE, location)?;
        let (thread, site) = (self.thread.get() as u16, sites::number(location));
        let result = self.shared.borrow_mut().issue(at, size as usize, thread, site);
        self.report_shared(to, size, ASYNC_WRITE, location, result);
        Some(Copy { to: at as u32, size, bytes, source, site })
    }

    /// Completes an asynchronous copy that the running thread has waited for.
    pub(crate) fn complete(&self, copy: &Copy) {
        let bytes = &copy.bytes[..copy.size as usize];
        self.shared.borrow_mut().complete(copy.to as usize, bytes, self.thread.get() as u16, copy.site);
        let Some(Source { address, size, last_writes }) = copy.source else { return };
        let Some(allocation) = self.common.memory.find(address) else { return };
        let offset = address - allocation.address;
        let elements = elements(allocation, offset, size);
        let mut now = [0; 16];
        let (now, then) = (&mut now[..size as usize], &copy.bytes[..size as usize]);
        allocation.load(offset, now);
        if now == then && allocation.last_writes(elements.clone()) == last_writes {
            return;
        }
        let writes = allocation.writes[elements].iter().map(|write| Record::unpack(write.load(Ordering::SeqCst)));
        let write = writes.max_by_key(|write| (write.who != Who::Nobody, write.epoch)).expect("a copy has a source");
        let action = format!("{ASYNC_READ} of {size} bytes at {}", allocation.describe(offset as i64));
        self.report(action, Kind::SourceChanged { before: self.before(write, true) }, sites::location(copy.site));
    }

    /// Notes the accesses of an asynchronous copy, if counting. One with zero fill counts as accesses of single bytes.
    fn count_copy(&self, copy: &AsyncCopy, read: u32) {
        let AsyncCopy { to, from, size, zero_fill_from, location } = *copy;
        let count = |space, address, size, class| self.count(&Access { space, address, size, location }, class);
        if zero_fill_from.is_none() {
            count(Space::Global, from, size, Class::GlobalLoad);
            count(Space::Shared, to, size, Class::SharedStore);
            return;
        }
        for i in 0..size {
            if i < read {
                count(Space::Global, from + u64::from(i), 1, Class::GlobalLoad);
            }
            count(Space::Shared, to + u64::from(i), 1, Class::SharedStore);
        }
    }

    pub(crate) fn load_constant(&self, access: &Access, symbol: &'static str, length: u64, bytes: &mut [u8]) {
        self.count(access, Class::ConstantLoad);
        let end = access.address.saturating_add(access.size.into());
        let set = self.common.memory.constant(symbol).get(access.address as usize..end as usize);
        if let Some(values) = set.filter(|_| end <= length) {
            return bytes.copy_from_slice(values);
        }
        bytes.fill(u8::MAX);
        let kind = if end > length {
            let nearest = format!("{symbol} has {}, the access ends at byte {end}", counted(length, "byte"));
            Kind::OutOfBounds { nearest }
        } else {
            Kind::Uninitialised
        };
        let element = access.address / u64::from(access.size);
        let action = format!("read of {} at {symbol}[{element}]", counted(access.size, "byte"));
        self.report(action, kind, Some(access.location));
    }

    /// The allocation and the offset of a global access. If it is out of bounds or misaligned, it is reported.
    #[inline]
    pub(crate) fn locate(&self, access: &Access, align: u32, verb: &str) -> Option<(&Allocation, u64)> {
        let Access { address, size, location, .. } = *access;
        let size = u64::from(size);
        let inside = |allocation: &&&Allocation| {
            address >= allocation.address && address + size <= allocation.address + allocation.bytes
        };
        let Some(allocation) = self.common.allocations.iter().find(inside) else {
            let (place, nearest) = self.common.memory.outside(address);
            let action = format!("{verb} of {} at {place}", counted(size, "byte"));
            self.report(action, Kind::OutOfBounds { nearest }, Some(location));
            return None;
        };
        let offset = address - allocation.address;
        if !is_aligned(address, align) {
            self.report(described(verb, access, allocation, offset), Kind::Misaligned, Some(location));
            return None;
        }
        Some((allocation, offset))
    }

    /// The place of a shared access in the records. If it is out of bounds or misaligned, it is reported.
    #[inline]
    pub(crate) fn inside_shared(
        &self,
        address: u64,
        size: u32,
        verb: &str,
        location: &'static Location<'static>,
    ) -> Option<usize> {
        let dynamic_bytes = self.common.launch.shared_bytes;
        let have = u64::from(dynamic_bytes);
        let end = address + u64::from(size);
        let array = || self.arrays.borrow().iter().find_map(|array| array.place(dynamic_bytes, address, size));
        let place = if end <= have { Some(address as usize) } else { array() };
        if place.is_some() && is_aligned(address, size) {
            return place;
        }
        let kind = match (place, self.array_near(address)) {
            (Some(_), _) => Kind::Misaligned,
            (None, Some(array)) => Kind::OutOfBounds { nearest: array.describe_length() },
            (None, None) => {
                let nearest =
                    format!("the block has {} of shared memory, the access ends at byte {end}", counted(have, "byte"));
                Kind::OutOfBounds { nearest }
            }
        };
        self.report(self.shared_action(verb, address, size), kind, Some(location));
        None
    }

    /// The shared array of a fixed length at an address, or in whose gap the address lies.
    fn array_near(&self, address: u64) -> Option<Array> {
        let arrays = self.arrays.borrow();
        arrays.iter().find(|array| array.claims(address)).copied()
    }

    /// A shared access in words. One to an array of a fixed length names the element.
    pub(crate) fn shared_action(&self, verb: &str, address: u64, size: u32) -> String {
        let place = match self.array_near(address) {
            Some(array) => array.describe(address),
            None => format!("byte {address} of shared memory"),
        };
        format!("{verb} of {} at {place}", counted(size, "byte"))
    }

    /// The address of a shared array of a fixed length.
    pub(crate) fn find_array(&self, declaration: SharedDeclaration) -> u32 {
        let array = self.common.arrays.find_or_add(declaration);
        let mut arrays = self.arrays.borrow_mut();
        if !arrays.contains(&array) {
            let (dynamic, most) = (self.common.launch.shared_bytes, self.common.shared_limit);
            let action = format!("declaration of shared arrays of {} in all", counted(array.end(), "byte"));
            let above = if array.end() > MOST_BYTES {
                Some((action, format!("a block has at most {MOST_BYTES} bytes of such arrays")))
            } else if u64::from(dynamic) + u64::from(array.end()) > most.into() {
                let action = format!("{action}, beside {} of dynamic shared memory", counted(dynamic, "byte"));
                Some((action, format!("a block has at most {most} bytes of shared memory")))
            } else {
                None
            };
            if let Some((action, nearest)) = above {
                drop(arrays);
                self.report(action, Kind::OutOfBounds { nearest }, Some(declaration.location));
                self.end_thread();
            }
            arrays.push(array);
            let bytes = arrays::begin(dynamic) + array.end();
            if let Err(short) = self.shared.borrow_mut().grow(bytes as usize) {
                self.give_up(short);
            }
        }
        array.address
    }

    pub(crate) fn report_shared(
        &self,
        address: u64,
        size: u32,
        verb: &str,
        location: &'static Location<'static>,
        result: Result<(), Trouble>,
    ) {
        let kind = match result {
            Ok(()) => return,
            Err(Trouble::Unwritten) => Kind::Uninitialised,
            Err(Trouble::Race { before, wrote, atomic }) => {
                let place = before.who.thread().map(|thread| self.place_of(thread.into()));
                Kind::Race { before: Before { place, wrote, atomic, location: sites::location(before.site) } }
            }
            Err(Trouble::InFlight(copy)) => {
                let issuer = self.place_of(copy.issuer().expect("a copy has a thread").into());
                Kind::InFlight { issuer, issued_at: sites::location(copy.site) }
            }
        };
        self.report(self.shared_action(verb, address, size), kind, Some(location));
    }

    /// The record of an access of this thread now.
    #[inline]
    pub(crate) fn record(&self, location: &'static Location<'static>) -> Record {
        let thread = self.block.get() * self.common.launch.threads() + u64::from(self.thread.get());
        let epoch = (self.barriers.get() % 4096) as u16;
        Record { who: Who::Thread(thread), in_block: false, epoch, site: sites::number(location) }
    }

    /// Adds an access to a record of accesses that do not conflict with each other: reads, or atomic accesses.
    #[inline]
    pub(crate) fn note(&self, records: &AtomicU64, me: Record) {
        // The update is one atomic step, because blocks on other host threads note accesses to the same element. Most
        // records soon say "several blocks". Then there is nothing to write.
        let _ = records.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| {
            let new = self.with(Record::unpack(old), me).pack();
            (new != old).then_some(new)
        });
    }

    /// The record after one more access.
    #[inline]
    fn with(&self, old: Record, me: Record) -> Record {
        let of_this_block = match old.who {
            Who::Thread(thread) => self.in_this_block(thread).is_some(),
            Who::Block(block) => block == self.block.get(),
            Who::Nobody | Who::Blocks => false,
        };
        let who = match old.who {
            Who::Nobody => me.who,
            who if who == me.who => who,
            // Accesses of this block before its last barrier are ordered before the present ones, so they may be
            // forgotten.
            _ if of_this_block && old.epoch != me.epoch => me.who,
            // Accesses that this thread has acquired may be forgotten, too.
            _ if self.knows(old) => me.who,
            _ if of_this_block => Who::Block(self.block.get()),
            _ => Who::Blocks,
        };
        let in_block = old.in_block || me.in_block;
        if who == Who::Blocks && old.who == Who::Blocks {
            Record { in_block, ..old }
        } else {
            Record { who, in_block, ..me }
        }
    }

    /// The number in this block of a thread of the grid, if it is one of this block.
    #[inline]
    fn in_this_block(&self, thread: u64) -> Option<u64> {
        let threads = self.common.launch.threads();
        thread.checked_sub(self.block.get() * threads).filter(|&thread| thread < threads)
    }

    /// Whether an earlier access conflicts with one of this thread now. At least one of the two is a write.
    #[inline]
    pub(crate) fn conflicts(&self, before: Record) -> bool {
        let same_interval = u64::from(before.epoch) == self.barriers.get() % 4096;
        let unordered = match before.who {
            Who::Nobody => false,
            Who::Thread(thread) => match self.in_this_block(thread) {
                Some(thread) => thread != self.thread.get().into() && same_interval,
                None => true,
            },
            Who::Block(block) => block != self.block.get() || same_interval,
            Who::Blocks => true,
        };
        unordered && !self.knows(before)
    }

    /// Whether an atomic access of another block is not atomic together with one of this thread now. `in_block` says
    /// that the latter is in the scope of the block.
    pub(crate) fn out_of_scope(&self, before: Record, in_block: bool) -> bool {
        let other = match before.who {
            Who::Nobody => false,
            Who::Thread(thread) => self.in_this_block(thread).is_none(),
            Who::Block(block) => block != self.block.get(),
            Who::Blocks => true,
        };
        other && (in_block || before.in_block) && !self.knows(before)
    }

    /// An earlier atomic access, for a report.
    pub(crate) fn before_atomic(&self, record: Record, wrote: bool) -> Before {
        Before { atomic: true, ..self.before(record, wrote) }
    }

    /// An earlier access, for a report.
    pub(crate) fn before(&self, record: Record, wrote: bool) -> Before {
        let place = match record.who {
            Who::Thread(thread) => Some(Place::of(thread, self.common.launch)),
            Who::Nobody | Who::Block(_) | Who::Blocks => None,
        };
        Before { place, wrote, atomic: false, location: sites::location(record.site) }
    }

    /// A thread of this block.
    pub(crate) fn place_of(&self, thread: u32) -> Place {
        let launch = self.common.launch;
        Place::of(self.block.get() * launch.threads() + u64::from(thread), launch)
    }

    /// Reports a defect of the running thread.
    pub(crate) fn report(&self, action: String, kind: Kind, location: Option<&'static Location<'static>>) {
        self.common.found.add(self.block.get(), self.place_of(self.thread.get()), action, kind, location);
    }
}

/// The atomic writes of an element. The caller has noted its own access before.
#[inline]
fn atomic_writes(allocation: &Allocation, element: usize) -> Record {
    let bits = allocation.atomics().map_or(Record::NOBODY, |atomics| atomics.writes[element].load(Ordering::SeqCst));
    Record::unpack(bits)
}

/// The atomic reads of an element. The caller has noted its own access before.
#[inline]
fn atomic_reads(allocation: &Allocation, element: usize) -> Record {
    let bits = allocation.atomics().map_or(Record::NOBODY, |atomics| atomics.reads[element].load(Ordering::SeqCst));
    Record::unpack(bits)
}

/// Whether an address is a multiple of a size, which is a power of two.
#[inline]
fn is_aligned(address: u64, size: u32) -> bool {
    address & u64::from(size - 1) == 0
}

/// The elements of an allocation that an access touches.
#[inline]
pub(crate) fn elements(allocation: &Allocation, offset: u64, size: u32) -> std::ops::Range<usize> {
    // The size is a power of two, and a division takes long.
    let shift = allocation.element.trailing_zeros();
    let first = offset >> shift;
    let last = (offset + u64::from(size) - 1) >> shift;
    first as usize..last as usize + 1
}

/// A global access in words.
pub(crate) fn described(verb: &str, access: &Access, allocation: &Allocation, offset: u64) -> String {
    format!("{verb} of {} at {}", counted(access.size, "byte"), allocation.describe(offset as i64))
}
