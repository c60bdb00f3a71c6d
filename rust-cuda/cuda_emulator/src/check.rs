//! The checks of each access, memory by memory.

use std::panic::Location;
use std::sync::atomic::Ordering;

use cuda_std::executor::Access;

use crate::block::Runner;
use crate::defect::{Before, Kind};
use crate::launch::Place;
use crate::memory::{Allocation, Role};
use crate::record::{Record, Who};
use crate::shared::Trouble;
use crate::sites;
use crate::warp::Class;

impl Runner<'_> {
    pub(crate) fn load_global(&self, access: &Access, bytes: &mut [u8]) {
        self.count(access, Class::GlobalLoad);
        // What a wrong access gets: NaN in every type that has one, so that it shows in the result, too.
        bytes.fill(u8::MAX);
        let Some((allocation, offset)) = self.locate(access, "read") else { return };
        allocation.load(offset, bytes);
        let me = self.record(access.location);
        for element in elements(allocation, offset, access.size) {
            let write = Record::unpack(allocation.writes[element].load(Ordering::Relaxed));
            if write.who == Who::Nobody {
                if allocation.known[element].load(Ordering::Relaxed) == 0 {
                    self.report(
                        described("read", access, allocation, offset),
                        Kind::Uninitialised,
                        Some(access.location),
                    );
                }
            } else if self.conflicts(write) {
                let before = self.before(write, true);
                self.report(
                    described("read", access, allocation, offset),
                    Kind::Race { before },
                    Some(access.location),
                );
            }
            self.note_read(allocation, element, me);
        }
    }

    pub(crate) fn store_global(&self, access: &Access, bytes: &[u8]) {
        self.count(access, Class::GlobalStore);
        let Some((allocation, offset)) = self.locate(access, "write") else { return };
        allocation.store(offset, bytes);
        let me = self.record(access.location);
        for element in elements(allocation, offset, access.size) {
            let write = Record::unpack(allocation.writes[element].swap(me.pack(), Ordering::Relaxed));
            let read = Record::unpack(allocation.reads[element].load(Ordering::Relaxed));
            let kind = if allocation.role == Role::Output && write.who != Who::Nobody && write.who != me.who {
                Kind::WrittenTwice { before: self.before(write, true) }
            } else if self.conflicts(write) {
                Kind::Race { before: self.before(write, true) }
            } else if self.conflicts(read) {
                Kind::Race { before: self.before(read, false) }
            } else {
                continue;
            };
            self.report(described("write", access, allocation, offset), kind, Some(access.location));
        }
    }

    pub(crate) fn load_shared(&self, access: &Access, bytes: &mut [u8]) {
        self.count(access, Class::SharedLoad);
        bytes.fill(u8::MAX);
        if !self.inside_shared(access, "read") {
            return;
        }
        let (thread, site) = (self.thread.get() as u16, sites::number(access.location));
        let result = self.shared.borrow_mut().load(access.address as usize, bytes, thread, site);
        self.report_shared("read", access, result);
    }

    pub(crate) fn store_shared(&self, access: &Access, bytes: &[u8]) {
        self.count(access, Class::SharedStore);
        if !self.inside_shared(access, "write") {
            return;
        }
        let (thread, site) = (self.thread.get() as u16, sites::number(access.location));
        let result = self.shared.borrow_mut().store(access.address as usize, bytes, thread, site);
        self.report_shared("write", access, result);
    }

    pub(crate) fn load_constant(&self, access: &Access, symbol: &'static str, length: u64, bytes: &mut [u8]) {
        self.count(access, Class::ConstantLoad);
        bytes.fill(u8::MAX);
        let end = access.address.saturating_add(access.size.into());
        let action =
            || format!("read of {} bytes at {symbol}[{}]", access.size, access.address / u64::from(access.size));
        if end > length {
            let nearest = format!("{symbol} has {length} bytes, the access ends at byte {end}");
            self.report(action(), Kind::OutOfBounds { nearest }, Some(access.location));
            return;
        }
        let set = self.common.memory.constants.get(symbol).map_or(&[][..], |array| &array.bytes);
        match set.get(access.address as usize..end as usize) {
            Some(values) => bytes.copy_from_slice(values),
            None => self.report(action(), Kind::Uninitialised, Some(access.location)),
        }
    }

    /// The allocation and the offset of a global access; None, and reported, if it is misaligned or out of bounds.
    fn locate(&self, access: &Access, verb: &str) -> Option<(&Allocation, u64)> {
        let Access { address, size, location, .. } = *access;
        let size = u64::from(size);
        let inside = |allocation: &&&Allocation| {
            address >= allocation.address && address + size <= allocation.address + allocation.bytes
        };
        let Some(allocation) = self.common.allocations.iter().find(inside) else {
            let nearest = match self.common.memory.find(address) {
                Some(allocation) => {
                    format!("it reaches past the end of {} ({} bytes)", allocation.name, allocation.bytes)
                }
                None => self.common.memory.nearest(address),
            };
            let action = format!("{verb} of {size} bytes at {address:#x}");
            self.report(action, Kind::OutOfBounds { nearest }, Some(location));
            return None;
        };
        let offset = address - allocation.address;
        if !address.is_multiple_of(size) {
            self.report(described(verb, access, allocation, offset), Kind::Misaligned, Some(location));
            return None;
        }
        Some((allocation, offset))
    }

    /// Whether a shared access is aligned and in bounds; reported if not.
    fn inside_shared(&self, access: &Access, verb: &str) -> bool {
        let (size, have) = (u64::from(access.size), self.shared.borrow().len() as u64);
        let end = access.address + size;
        let kind = if end > have {
            let nearest = format!("the block has {have} bytes of shared memory, the access ends at byte {end}");
            Kind::OutOfBounds { nearest }
        } else if !access.address.is_multiple_of(size) {
            Kind::Misaligned
        } else {
            return true;
        };
        self.report(shared_action(verb, access), kind, Some(access.location));
        false
    }

    fn report_shared(&self, verb: &str, access: &Access, result: Result<(), Trouble>) {
        let kind = match result {
            Ok(()) => return,
            Err(Trouble::Unwritten) => Kind::Uninitialised,
            Err(Trouble::Race { before, wrote }) => {
                let place = before.who.thread().map(|thread| self.place_of(thread.into()));
                Kind::Race { before: Before { place, wrote, location: sites::location(before.site) } }
            }
        };
        self.report(shared_action(verb, access), kind, Some(access.location));
    }

    /// This thread, here and now.
    fn record(&self, location: &'static Location<'static>) -> Record {
        let thread = self.block.get() * self.common.launch.threads() + u64::from(self.thread.get());
        Record { who: Who::Thread(thread), epoch: (self.barriers.get() % 4096) as u16, site: sites::number(location) }
    }

    /// Adds a read to what is known of an element.
    fn note_read(&self, allocation: &Allocation, element: usize, me: Record) {
        let reads = &allocation.reads[element];
        let old = Record::unpack(reads.load(Ordering::Relaxed));
        let threads = self.common.launch.threads();
        let of_this_block = match old.who {
            Who::Thread(thread) => thread / threads == self.block.get(),
            Who::Block(block) => block == self.block.get(),
            Who::Nobody | Who::Blocks => false,
        };
        let who = match old.who {
            Who::Nobody => me.who,
            who if who == me.who => who,
            // What this block read before its last barrier is ordered with all it does after: it may be forgotten.
            _ if of_this_block && old.epoch != me.epoch => me.who,
            _ if of_this_block => Who::Block(self.block.get()),
            _ => Who::Blocks,
        };
        let new = Record { who, ..me };
        // Most elements are read by several blocks and soon stay so: nothing to write.
        if old.who != Who::Blocks || who != Who::Blocks {
            reads.store(new.pack(), Ordering::Relaxed);
        }
    }

    /// Whether an earlier access, at least one of the two being a write, is unordered with this thread's.
    fn conflicts(&self, before: Record) -> bool {
        let threads = self.common.launch.threads();
        let here = self.block.get();
        let same_interval = u64::from(before.epoch) == self.barriers.get() % 4096;
        match before.who {
            Who::Nobody => false,
            Who::Thread(thread) if thread == here * threads + u64::from(self.thread.get()) => false,
            Who::Thread(thread) => thread / threads != here || same_interval,
            Who::Block(block) => block != here || same_interval,
            Who::Blocks => true,
        }
    }

    /// An earlier access, for a report.
    fn before(&self, record: Record, wrote: bool) -> Before {
        let place = match record.who {
            Who::Thread(thread) => Some(Place::of(thread, self.common.launch)),
            Who::Nobody | Who::Block(_) | Who::Blocks => None,
        };
        Before { place, wrote, location: sites::location(record.site) }
    }

    /// A thread of this block.
    pub(crate) fn place_of(&self, thread: u32) -> Place {
        let launch = self.common.launch;
        Place::of(self.block.get() * launch.threads() + u64::from(thread), launch)
    }

    /// Notes a defect of the running thread.
    pub(crate) fn report(&self, action: String, kind: Kind, location: Option<&'static Location<'static>>) {
        self.common.found.add(self.place_of(self.thread.get()), action, kind, location);
    }
}

/// The elements of an allocation that an access touches.
fn elements(allocation: &Allocation, offset: u64, size: u32) -> std::ops::Range<usize> {
    let first = offset / allocation.element;
    let last = (offset + u64::from(size) - 1) / allocation.element;
    first as usize..last as usize + 1
}

/// What a global access does, in words.
fn described(verb: &str, access: &Access, allocation: &Allocation, offset: u64) -> String {
    format!("{verb} of {} bytes at {}", access.size, allocation.describe(offset))
}

/// What a shared access does, in words.
fn shared_action(verb: &str, access: &Access) -> String {
    format!("{verb} of {} bytes at byte {} of shared memory", access.size, access.address)
}
