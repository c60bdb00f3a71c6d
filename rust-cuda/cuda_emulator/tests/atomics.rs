//! Atomic operations: their values, their order, and what the race detector says of them.
// Some of the kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Counts, Defect, Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::atomic::{Ordering, Scope};
use cuda_std::prelude::*;

/// Runs a kernel on four blocks of 64 threads with 1 KiB of shared memory.
fn run(memory: &mut Memory, kernel: impl Fn() + Sync) -> Result<Counts, Error> {
    Emulator::new().launch("kernel", &Launch::flat((4, 1), (64, 1), 1024), memory, kernel)
}

/// The defects that a launch ended with.
fn defects(result: Result<Counts, Error>) -> Vec<Defect> {
    match result {
        Err(Error::Defects(defects)) => defects.defects,
        other => panic!("defects were expected, not {other:?}"),
    }
}

/// The text of the one defect that a launch ended with.
fn one(result: Result<Counts, Error>) -> (Kind, String) {
    let defects = defects(result);
    assert_eq!(defects.len(), 1, "{defects:#?}");
    (defects[0].kind.clone(), defects[0].to_string())
}

/// A histogram of values below 8: per block in shared memory, then added to global memory.
///
/// `defect` 1 adds without an atomic operation in shared memory, 2 in global memory, 3 leaves out the second barrier.
#[kernel]
pub unsafe fn histogram(values: Global<u32>, counts: GlobalMut<u32>, defect: u32) {
    let (i, tx) = (thread::index_1d() as isize, thread::thread_idx_x());
    let mine = Shared::<u32>::dynamic();
    if tx < 8 {
        unsafe { mine.store(tx, 0) };
    }
    unsafe { thread::sync_threads() };
    let bin = unsafe { values.load(i) };
    if defect == 1 {
        unsafe { mine.store(bin, mine.load(bin) + 1) };
    } else {
        unsafe { mine.atomic_add(bin, 1) };
    }
    if defect != 3 {
        unsafe { thread::sync_threads() };
    }
    if tx < 8 {
        let count = unsafe { mine.load(tx) };
        if defect == 2 {
            unsafe { counts.store(tx as isize, counts.load(tx as isize) + count) };
        } else {
            unsafe { counts.atomic_add(tx as isize, count) };
        }
    }
}

#[test]
fn a_histogram_and_its_defects() {
    let values: Vec<u32> = (0..256).map(|i| i * i % 8).collect();
    let launch = |defect| {
        let mut memory = Memory::new();
        let (v, c) = (memory.upload("values", &values), memory.upload("counts", &[0_u32; 8]));
        let (from, to) = (v.global(), c.global_mut());
        run(&mut memory, || unsafe { histogram(from, to, defect) }).map(|_| memory.download(&c))
    };
    let mut expected = [0; 8];
    values.iter().for_each(|&value| expected[value as usize] += 1);
    assert_eq!(launch(0).unwrap(), expected);

    for defect in [1, 2, 3] {
        let Err(Error::Defects(found)) = launch(defect) else { panic!("defect {defect} was not found") };
        assert!(found.defects.iter().all(|defect| matches!(defect.kind, Kind::Race { .. })), "{found}");
        let (array, atomic) = if defect == 2 { ("counts[", false) } else { ("shared memory", defect == 3) };
        let text = found.to_string();
        assert!(text.contains(array) && text.contains("atomically") == atomic, "{text}");
    }
}

/// Adds `1 / (i + 1)` of each thread i to element 0: the sum depends on the order.
#[kernel]
pub unsafe fn sum(to: GlobalMut<f32>) {
    unsafe { to.atomic_add(0, 1.0 / (thread::index_1d() + 1) as f32) };
}

#[test]
fn the_order_of_additions_depends_on_the_seed_alone() {
    let sums = |seed, threads| {
        let mut memory = Memory::new();
        let to = memory.upload("to", &[0.0_f32]);
        let handle = to.global_mut();
        let launch = Launch::flat((40, 1), (64, 1), 0);
        let emulator = Emulator::new().seed(seed);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| emulator.launch("sum", &launch, &mut memory, || unsafe { sum(handle) })).unwrap();
        memory.download(&to)[0].to_bits()
    };
    let alone = sums(1, 1);
    assert!((0..5).all(|_| sums(1, 4) == alone));
    assert!((2..12).any(|seed| sums(seed, 4) != alone), "the sum should depend on the order of threads");
}

/// Each block adds to element 0, thread 0 of each block in this scope.
#[kernel]
pub unsafe fn scoped(to: GlobalMut<u32>, block_scope: u32) {
    if thread::thread_idx_x() == 0 {
        let scope = if block_scope != 0 { Scope::Block } else { Scope::Device };
        unsafe { to.atomic(0).scope(scope).fetch_add(1, Ordering::Relaxed) };
    }
}

#[test]
fn the_scope_of_the_block_holds_no_other_block() {
    let mut memory = Memory::new();
    let to = memory.upload("to", &[0_u32]);
    let handle = to.global_mut();
    run(&mut memory, || unsafe { scoped(handle, 0) }).unwrap();
    assert_eq!(memory.download(&to), [4]);
    let (kind, text) = one(run(&mut memory, || unsafe { scoped(handle, 1) }));
    assert!(matches!(kind, Kind::Scope { .. }), "{text}");
    assert!(
        text.contains("atomic update of 4 bytes at to[0], a race: atomically written by thread (0, 0, 0)"),
        "{text}"
    );
    // A block that is alone may use its own scope.
    let launch = Launch::flat((1, 1), (64, 1), 0);
    Emulator::new().launch("scoped", &launch, &mut memory, || unsafe { scoped(handle, 1) }).unwrap();
}

/// Block 1 accesses element 0 in one way, all other blocks in another way: 0 reads, 1 writes, 2 reads atomically,
/// 3 writes atomically, 4 adds atomically.
#[kernel]
pub unsafe fn mixed(to: GlobalMut<u32>, one: u32, others: u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let way = if thread::block_idx_x() == 1 { one } else { others };
    unsafe {
        match way {
            0 => drop(to.load(0)),
            1 => to.store(0, 7),
            2 => drop(to.atomic(0).load(Ordering::Relaxed)),
            3 => to.atomic(0).store(7, Ordering::Relaxed),
            _ => drop(to.atomic_add(0, 1)),
        }
    }
}

#[test]
fn atomic_and_plain_accesses_race_if_one_of_them_writes() {
    for one in 0..5 {
        for others in 0..5 {
            let mut memory = Memory::new();
            let handle = memory.upload("to", &[0_u32]).global_mut();
            let result = run(&mut memory, || unsafe { mixed(handle, one, others) });
            let writes = |way| matches!(way, 1 | 3 | 4);
            let plain = |way| way < 2;
            let race = (plain(one) || plain(others)) && (writes(one) || writes(others)) || others == 1;
            assert_eq!(result.is_err(), race, "{one}, {others}: {result:?}");
            if race {
                assert!(defects(result).iter().all(|defect| matches!(defect.kind, Kind::Race { .. })));
            }
        }
    }
}

/// Sixteen steps under a lock in shared memory: each thread takes the lock, adds to a counter and gives it back.
///
/// Thread 0 never gives it back if `keeps` is not 0.
#[kernel]
pub unsafe fn locked(to: GlobalMut<u32>, keeps: u32) {
    let tx = thread::thread_idx_x();
    let lock = Shared::<u32>::dynamic();
    if tx == 0 {
        unsafe { lock.store(0, 0) };
    }
    unsafe { thread::sync_threads() };
    let lock = lock.atomic(0);
    while unsafe { lock.compare_exchange(0, 1, Ordering::Acquire) }.is_err() {}
    unsafe { to.atomic_add(0, 1) };
    if keeps == 0 {
        unsafe { lock.store(0, Ordering::Release) };
    }
}

#[test]
fn threads_wait_for_each_other_in_loops_and_a_loop_without_end_is_reported() {
    let mut memory = Memory::new();
    let to = memory.upload("to", &[0_u32]);
    let handle = to.global_mut();
    run(&mut memory, || unsafe { locked(handle, 0) }).unwrap();
    assert_eq!(memory.download(&to), [256]);
    let (kind, text) = one(run(&mut memory, || unsafe { locked(handle, 1) }));
    assert_eq!(kind, Kind::Stuck);
    assert!(text.contains("atomic update of 4 bytes at byte 0 of shared memory, again and again"), "{text}");
    assert!(text.contains("(and 3 more times)"), "{text}");
}

/// Each block waits for the one before it, or for the one after it.
#[kernel]
pub unsafe fn chain(flags: GlobalMut<u32>, after: u32) {
    if thread::thread_idx_x() != 0 {
        return;
    }
    let block = thread::block_idx_x() as isize;
    let other = if after != 0 { block + 1 } else { block - 1 };
    if (0..4).contains(&other) {
        while unsafe { flags.atomic(other).load(Ordering::Acquire) } == 0 {}
    }
    unsafe { flags.atomic(block).store(1, Ordering::Release) };
}

#[test]
fn a_block_may_wait_for_those_before_it() {
    let mut memory = Memory::new();
    let flags = memory.upload("flags", &[0_u32; 4]);
    let handle = flags.global_mut();
    run(&mut memory, || unsafe { chain(handle, 0) }).unwrap();
    assert_eq!(memory.download(&flags), [1; 4]);

    let mut memory = Memory::new();
    let handle = memory.upload("flags", &[0_u32; 4]).global_mut();
    let (kind, text) = one(run(&mut memory, || unsafe { chain(handle, 1) }));
    assert_eq!(kind, Kind::Stuck);
    assert!(text.contains("block (0, 0, 0): atomic read of 4 bytes at flags[1], again and again"), "{text}");
}

/// Atomic accesses to what is not there, not written, or misaligned; and an order that a load can't have.
#[kernel]
pub unsafe fn wrong(to: GlobalMut<u32>, way: u32) {
    if thread::index_1d() != 0 {
        return;
    }
    unsafe {
        match way {
            0 => drop(to.atomic_add(4, 1)),
            1 => drop(to.atomic_max(0, 1)),
            2 => drop(to.cast::<u8>().offset(2).cast::<u32>().atomic_or(0, 1)),
            3 => drop(Shared::<u64>::dynamic().atomic_add(128, 1)),
            4 => drop(Shared::<u64>::dynamic().atomic_min(0, 1)),
            5 => drop(Shared::<u32>::dynamic().offset(1).cast::<u64>().atomic_xor(0, 1)),
            _ => drop(to.atomic(0).load(Ordering::Release)),
        }
    }
}

#[test]
fn wrong_accesses_are_reported() {
    for (way, wanted) in [
        "atomic update of 4 bytes at to[4], out of bounds: to has 4 elements of 4 bytes",
        "atomic update of 4 bytes at to[0], which nothing wrote",
        "atomic update of 4 bytes at to[0], byte 2 of the element, misaligned",
        "atomic update of 8 bytes at byte 1024 of shared memory, out of bounds",
        "atomic update of 8 bytes at byte 0 of shared memory, which nothing wrote",
        "atomic update of 8 bytes at byte 4 of shared memory, misaligned",
        "a panic: an atomic load can't release",
    ]
    .into_iter()
    .enumerate()
    {
        let mut memory = Memory::new();
        let handle = memory.allocate::<u32>("to", 4, Role::Scratch).global_mut();
        let (_, text) = one(run(&mut memory, || unsafe { wrong(handle, way as u32) }));
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("atomics.rs:") || way == 6, "{text}");
    }
}

#[test]
fn the_counts_of_atomics() {
    let mut memory = Memory::new();
    let (values, counts) = (memory.upload("values", &[3_u32; 256]), memory.upload("counts", &[0_u32; 8]));
    let (from, to) = (values.global(), counts.global_mut());
    let launch = Launch::flat((4, 1), (64, 1), 1024);
    let emulator = Emulator::new().counting(true);
    let counts = emulator.launch("histogram", &launch, &mut memory, || unsafe { histogram(from, to, 0) }).unwrap();
    assert_eq!((counts.shared_atomics.threads, counts.shared_atomics.instructions), (256, 8));
    // All lanes add to one word.
    assert_eq!((counts.shared_atomics.transactions, counts.shared_atomics.ideal), (256, 8));
    assert_eq!((counts.global_atomics.threads, counts.global_atomics.transactions), (32, 4));
}
