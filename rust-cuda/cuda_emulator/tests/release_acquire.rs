//! Data that threads pass on by releases, acquires and fences. Without one of them the race must be found.
// Some of the kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Counts, Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::atomic::{Ordering, Scope, fence};
use cuda_std::prelude::*;

const BLOCKS: u32 = 5;

fn run(memory: &mut Memory, kernel: impl Fn() + Sync) -> Result<Counts, Error> {
    Emulator::new().launch("kernel", &Launch::flat((BLOCKS, 1), (64, 1), 1024), memory, kernel)
}

/// Whether a launch found races and nothing else.
fn races(result: Result<Counts, Error>) -> bool {
    match result {
        Ok(_) => false,
        Err(Error::Defects(found)) => {
            assert!(found.defects.iter().all(|defect| matches!(defect.kind, Kind::Race { .. })), "{found}");
            true
        }
        Err(other) => panic!("{other}"),
    }
}

/// The last block to arrive sums up what all have written, and resets the counter: CUDA's sample threadFenceReduction.
///
/// `defect` 1 leaves out the fence before the counter, 2 the one after it, 3 has fences for the block only. In 4 thread
/// 1 writes the partial sum, and thread 0 passes it on without a barrier between.
#[kernel]
pub unsafe fn last_block(partial: GlobalMut<u32>, counter: GlobalMut<u32>, sum: GlobalMut<u32>, defect: u32) {
    let (tx, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let is_last = Shared::<u32>::dynamic();
    let scope = if defect == 3 { Scope::Block } else { Scope::Device };
    if tx == u32::from(defect == 4) {
        unsafe { partial.store(block as isize, block + 1) };
    }
    if tx == 0 {
        if defect != 1 {
            fence(Ordering::AcqRel, scope);
        }
        let arrived = unsafe { counter.atomic_add(0, 1) };
        if defect != 2 {
            fence(Ordering::AcqRel, scope);
        }
        unsafe { is_last.store(0, u32::from(arrived == thread::grid_dim_x() - 1)) };
    }
    unsafe { thread::sync_threads() };
    if unsafe { is_last.load(0) } != 0 && tx == 7 {
        let mut total = 0;
        for i in 0..thread::grid_dim_x() {
            total += unsafe { partial.load(i as isize) };
        }
        unsafe { sum.store(0, total) };
        unsafe { counter.store(0, 0) };
    }
}

#[test]
fn the_last_block_sees_what_the_others_wrote() {
    for defect in 0..5 {
        let mut memory = Memory::new();
        let partial = memory.allocate::<u32>("partial", BLOCKS as usize, Role::Scratch);
        let counter = memory.upload("counter", &[0_u32]);
        let sum = memory.allocate::<u32>("sum", 1, Role::Output);
        let (p, c, s) = (partial.global_mut(), counter.global_mut(), sum.global_mut());
        let result = run(&mut memory, || unsafe { last_block(p, c, s, defect) });
        assert_eq!(races(result.clone()), defect != 0, "{defect}: {result:?}");
        assert_eq!((memory.download(&sum), memory.download(&counter)), (vec![15], vec![0]));
    }
}

/// Each block adds its number to the sum that the block before it has published with a flag.
///
/// The store releases and the load acquires, unless `release` and `acquire` are 0.
#[kernel]
pub unsafe fn look_back(sums: GlobalMut<u32>, flags: GlobalMut<u32>, release: u32, acquire: u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let block = thread::block_idx_x() as isize;
    let mut sum = block as u32;
    if block > 0 {
        let order = if acquire != 0 { Ordering::Acquire } else { Ordering::Relaxed };
        while unsafe { flags.atomic(block - 1).load(order) } == 0 {}
        sum += unsafe { sums.load(block - 1) };
    }
    unsafe { sums.store(block, sum) };
    let order = if release != 0 { Ordering::Release } else { Ordering::Relaxed };
    unsafe { flags.atomic(block).store(1, order) };
}

#[test]
fn a_flag_publishes_data_with_release_and_acquire_only() {
    for (release, acquire) in [(1, 1), (1, 0), (0, 1), (0, 0)] {
        let mut memory = Memory::new();
        let sums = memory.allocate::<u32>("sums", BLOCKS as usize, Role::Output);
        let flags = memory.upload("flags", &[0_u32; BLOCKS as usize]);
        let (s, f) = (sums.global_mut(), flags.global_mut());
        let result = run(&mut memory, || unsafe { look_back(s, f, release, acquire) });
        assert_eq!(races(result), (release, acquire) != (1, 1), "{release}, {acquire}");
        assert_eq!(memory.download(&sums), [0, 1, 3, 6, 10]);
    }
}

/// All threads of the block add to a number in shared or in global memory under a lock.
///
/// `order` 0: the lock acquires and releases. 1: it does neither. 2: it does not release.
#[kernel]
pub unsafe fn under_a_lock(sums: GlobalMut<u32>, order: u32) {
    let tx = thread::thread_idx_x();
    let shared = Shared::<u32>::dynamic();
    let mine = sums.offset(thread::block_idx_x() as isize);
    if tx == 0 {
        unsafe { shared.store(0, 0) };
        unsafe { shared.store(1, 0) };
        unsafe { mine.store(0, 0) };
    }
    unsafe { thread::sync_threads() };
    let lock = shared.atomic(0);
    let acquire = if order == 1 { Ordering::Relaxed } else { Ordering::Acquire };
    while unsafe { lock.compare_exchange(0, 1, acquire) }.is_err() {}
    unsafe { shared.store(1, shared.load(1) + 1) };
    unsafe { mine.store(0, mine.load(0) + 1) };
    unsafe { lock.store(0, if order == 0 { Ordering::Release } else { Ordering::Relaxed }) };
    unsafe { thread::sync_threads() };
    if tx == 63 {
        unsafe { mine.store(0, mine.load(0) + 1000 * shared.load(1)) };
    }
}

#[test]
fn a_lock_protects_data_that_is_not_atomic() {
    for order in 0..3 {
        let mut memory = Memory::new();
        let sums = memory.allocate::<u32>("sums", BLOCKS as usize, Role::Scratch);
        let s = sums.global_mut();
        let result = run(&mut memory, || unsafe { under_a_lock(s, order) });
        assert_eq!(races(result.clone()), order != 0, "{order}: {result:?}");
        assert_eq!(memory.download(&sums), [64_064; BLOCKS as usize]);
    }
}

/// A thread of each warp passes a number to a thread of the next warp, in shared memory.
#[kernel]
pub unsafe fn to_the_next_warp(result: GlobalMut<u32>, with_fences: u32) {
    let tx = thread::thread_idx_x();
    let shared = Shared::<u32>::dynamic();
    if tx == 0 {
        unsafe { shared.store(0, 0) };
    }
    unsafe { thread::sync_threads() };
    if tx == 3 {
        unsafe { shared.store(1, 17) };
        if with_fences != 0 {
            thread::threadfence_block();
        }
        unsafe { shared.atomic_exch(0, 1) };
    }
    if tx == 40 {
        while unsafe { shared.atomic(0).load(Ordering::Relaxed) } == 0 {}
        if with_fences != 0 {
            thread::threadfence_block();
        }
        unsafe { result.store(thread::block_idx_x() as isize, shared.load(1)) };
    }
}

#[test]
fn fences_pass_data_within_a_block() {
    for with_fences in [1, 0] {
        let mut memory = Memory::new();
        let result = memory.allocate::<u32>("result", BLOCKS as usize, Role::Output);
        let r = result.global_mut();
        let launched = run(&mut memory, || unsafe { to_the_next_warp(r, with_fences) });
        assert_eq!(races(launched), with_fences == 0);
        assert_eq!(memory.download(&result), [17; BLOCKS as usize]);
    }
}

/// All threads of the last block sum up what the threads of all blocks wrote. Barriers lie between the fences and the
/// accesses to the counter.
///
/// `defect` 1 leaves out the fence of all threads before the counter, 2 the one after it. In 3 the first fences, and in
/// 4 the second ones, are no `fence.sc`. In 5 the first fences are for the block only.
#[kernel]
pub unsafe fn fences_of_all(parts: GlobalMut<u32>, counter: GlobalMut<u32>, sums: GlobalMut<u32>, defect: u32) {
    let (tx, block, blocks) = (thread::thread_idx_x(), thread::block_idx_x(), thread::grid_dim_x());
    let arrived = Shared::<u32>::dynamic();
    let order = |weak| if defect == weak { Ordering::AcqRel } else { Ordering::SeqCst };
    unsafe { parts.store((block * 64 + tx) as isize, block + tx) };
    if defect != 1 {
        fence(order(3), if defect == 5 { Scope::Block } else { Scope::Device });
    }
    unsafe { thread::sync_threads() };
    if tx == 0 {
        unsafe { arrived.store(0, counter.atomic_add(0, 1)) };
    }
    unsafe { thread::sync_threads() };
    if unsafe { arrived.load(0) } == blocks - 1 {
        if defect != 2 {
            fence(order(4), Scope::Device);
        }
        let mut sum = 0;
        for other in 0..blocks {
            sum += unsafe { parts.load((other * 64 + tx) as isize) };
        }
        unsafe { sums.store(tx as isize, sum) };
    }
}

#[test]
fn sequential_fences_order_across_barriers() {
    for defect in 0..6 {
        let mut memory = Memory::new();
        let parts = memory.allocate::<u32>("parts", 64 * BLOCKS as usize, Role::Scratch);
        let counter = memory.upload("counter", &[0_u32]);
        let sums = memory.allocate::<u32>("sums", 64, Role::Output);
        let (p, c, s) = (parts.global_mut(), counter.global_mut(), sums.global_mut());
        let result = run(&mut memory, || unsafe { fences_of_all(p, c, s, defect) });
        assert_eq!(races(result.clone()), defect != 0, "{defect}: {result:?}");
        assert_eq!(memory.download(&sums), (0..64).map(|tx| 10 + 5 * tx).collect::<Vec<u32>>());
    }
}
