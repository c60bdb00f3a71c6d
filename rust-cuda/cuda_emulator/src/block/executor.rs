//! What a thread of the block does, by the calls of `cuda_std`.

use std::panic::Location;

use cuda_std::atomic::{Ordering, Scope};
use cuda_std::executor::{
    Access, AsyncCopy, AtomicAccess, Collective, Executor, GATHERED, Lockstep, Register, SharedDeclaration, Space,
};

use super::Runner;
use crate::atomics::Loads;
use crate::defect::Kind;
use crate::launch::{Launch, unravel};
use crate::sites;
use crate::wait::Wait;

impl Executor for Runner<'_> {
    fn register(&self, register: Register) -> u32 {
        let Launch { grid, block, .. } = *self.common.launch;
        let thread = || unravel(u64::from(self.thread.get()), block);
        let place = || unravel(self.block.get(), grid);
        match register {
            Register::ThreadIdxX => thread()[0],
            Register::ThreadIdxY => thread()[1],
            Register::ThreadIdxZ => thread()[2],
            Register::BlockIdxX => place()[0],
            Register::BlockIdxY => place()[1],
            Register::BlockIdxZ => place()[2],
            Register::BlockDimX => block[0],
            Register::BlockDimY => block[1],
            Register::BlockDimZ => block[2],
            Register::GridDimX => grid[0],
            Register::GridDimY => grid[1],
            Register::GridDimZ => grid[2],
        }
    }

    fn barrier(&self, location: &'static Location<'static>) {
        self.wait(Wait::Barrier(false, location));
    }

    fn barrier_count(&self, predicate: bool, location: &'static Location<'static>) -> u32 {
        self.wait(Wait::Barrier(predicate, location))
    }

    fn shared_array(&self, declaration: SharedDeclaration) -> u32 {
        self.find_array(declaration)
    }

    fn index_out_of_bounds(&self, index: u32, length: usize, location: &'static Location<'static>) {
        let nearest = format!("the array has {length} elements");
        self.report(
            format!("access to element {index} of a shared array"),
            Kind::OutOfBounds { nearest },
            Some(location),
        );
    }

    fn clock(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    fn collective(&self, mask: u32, operation: Collective, value: u64, location: &'static Location<'static>) -> u32 {
        let lane = self.thread.get() % 32;
        let kind = match operation {
            Collective::ShuffleUp(delta @ 32..)
            | Collective::ShuffleDown(delta @ 32..)
            | Collective::ShuffleXor(delta @ 32..) => Some(Kind::ShuffleDelta { delta }),
            Collective::Shuffle(from) if mask >> (from % 32) & 1 == 0 => {
                Some(Kind::ShuffleSource { from: from % 32, mask })
            }
            Collective::ShuffleXor(bits) if mask >> (lane ^ bits) & 1 == 0 => {
                Some(Kind::ShuffleSource { from: lane ^ bits, mask })
            }
            _ => None,
        };
        if let Some(kind) = kind {
            self.report("a shuffle of a warp".to_owned(), kind, Some(location));
        }
        self.wait(Wait::Warp(mask, operation, value, location))
    }

    fn gather(&self, values: [u32; GATHERED], location: &'static Location<'static>) -> [[u32; GATHERED]; 32] {
        let thread = self.thread.get() as usize;
        let which = {
            let given = &mut self.given.borrow_mut()[thread];
            given.times += 1;
            given.values[given.times % 2] = values;
            given.times % 2
        };
        // After this, all lanes have stored their values. None can store twice more before this lane calls again.
        self.collective(u32::MAX, Collective::Gather, 0, location);
        let given = self.given.borrow();
        std::array::from_fn(|lane| given[thread / 32 * 32 + lane].values[which])
    }

    fn cp_async(&self, copy: AsyncCopy) {
        if let Some(copy) = self.issue(&copy) {
            self.copies.borrow_mut()[self.thread.get() as usize].issue(copy);
        }
    }

    fn commit_group(&self) {
        self.copies.borrow_mut()[self.thread.get() as usize].commit_group();
    }

    fn wait_group(&self, pending: u32) {
        let mut copies = self.copies.borrow_mut();
        let copies = &mut copies[self.thread.get() as usize];
        while let Some(copy) = copies.complete(pending) {
            self.complete(&copy);
        }
    }

    fn load(&self, access: Access, bytes: &mut [u8]) {
        match access.space {
            Space::Global => {
                self.count_loads(&access);
                self.load_global(&access, bytes);
            }
            Space::Shared => {
                self.count_loads(&access);
                self.load_shared(&access, bytes);
            }
            Space::Constant { symbol, bytes: length } => self.load_constant(&access, symbol, length as u64, bytes),
        }
    }

    fn store(&self, access: Access, bytes: &[u8]) {
        self.progress.set(true);
        self.loads.set(Loads::default());
        match access.space {
            Space::Global => self.store_global(&access, bytes),
            Space::Shared => self.store_shared(&access, bytes),
            Space::Constant { .. } => unreachable!("cuda_std has no store to constant memory"),
        }
    }

    fn atomic(&self, operation: AtomicAccess, update: &mut dyn FnMut(u64) -> Option<u64>) -> u64 {
        self.loads.set(Loads::default());
        self.execute_atomic(&operation, update)
    }

    fn fence(&self, order: Ordering, scope: Scope) {
        self.execute_fence(order, scope);
    }

    fn print(&self, text: &str) {
        self.common.printed.add(self.block.get(), text);
    }

    fn assertion_failed(&self, message: &str, location: &'static Location<'static>) -> ! {
        self.report("running".to_owned(), Kind::Assertion { message: message.to_owned() }, Some(location));
        self.end_thread()
    }

    fn lockstep(&self, step: Lockstep, location: &'static Location<'static>) {
        if self.common.counting {
            let thread = self.thread.get() as usize;
            self.warps.borrow_mut()[thread / 32].step(step, sites::number(location));
        }
    }
}
