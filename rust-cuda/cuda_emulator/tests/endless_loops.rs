//! Loops that wait for a change by plain loads, and kernels that only seem to wait.
// Some of the kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::prelude::*;

/// Each thread waits until element 0 is not 0. Thread `writer` sets it first.
#[kernel]
pub unsafe fn wait_for_flag(flag: GlobalMut<u32>, writer: u32) {
    if thread::index_1d() == writer {
        unsafe { flag.store(0, 1) };
    }
    while unsafe { flag.load(0) } == 0 {}
}

/// The defects of a launch with blocks of 32 threads.
fn defects(blocks: u32, memory: &mut Memory, kernel: impl Fn() + Sync) -> Vec<(Kind, String)> {
    match Emulator::new().launch("kernel", &Launch::flat((blocks, 1), (32, 1), 128), memory, kernel) {
        Ok(_) => Vec::new(),
        Err(Error::Defects(found)) => {
            found.defects.into_iter().map(|defect| (defect.kind.clone(), defect.to_string())).collect()
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_wait_for_a_change_that_no_thread_makes() {
    let mut memory = Memory::new();
    let flag = memory.upload("flag", &[0_u32]).global_mut();
    let found = defects(2, &mut memory, || unsafe { wait_for_flag(flag, u32::MAX) });
    let [(Kind::Stuck, text)] = &found[..] else { panic!("{found:?}") };
    assert!(text.contains(": read of 4 bytes at flag[0], again and again") && text.contains("endless_loops.rs:14"));
}

#[test]
fn a_wait_for_a_thread_that_runs_later_ends_with_a_race() {
    let mut memory = Memory::new();
    let flag = memory.upload("flag", &[0_u32]).global_mut();
    // In some order of the threads the first one waits.
    for writer in [0, 31] {
        let found = defects(1, &mut memory, || unsafe { wait_for_flag(flag, writer) });
        assert!(found.iter().all(|(kind, _)| matches!(kind, Kind::Race { .. })) && !found.is_empty(), "{found:?}");
        let flag = memory.upload("flag", &[0_u32]).global_mut();
        assert!(defects(1, &mut memory, || unsafe { wait_for_flag(flag, writer) }).len() <= 2);
    }
}

/// Waits for a change of shared memory that another thread makes after a barrier, which this one never reaches.
#[kernel]
pub unsafe fn wait_before_barrier() {
    let flag = shared_array![u32; 1];
    if thread::thread_idx_x() == 0 {
        unsafe { flag.store(0, 0) };
        while unsafe { flag.load(0) } == 0 {}
    }
    unsafe { thread::sync_threads() };
    if thread::thread_idx_x() == 1 {
        unsafe { flag.store(0, 1) };
    }
}

#[test]
fn a_wait_for_a_thread_that_waits_at_a_barrier() {
    let found = defects(1, &mut Memory::new(), || unsafe { wait_before_barrier() });
    let [(Kind::Stuck, text)] = &found[..] else { panic!("{found:?}") };
    assert!(
        text.contains("thread (0, 0, 0)") && text.contains("at element 0 of the shared array declared at"),
        "{text}"
    );
}

/// Reads one element very often in sequence, and waits for nothing.
#[kernel]
pub unsafe fn read_often(from: Global<u32>, to: GlobalMut<u32>, times: u32) {
    let mut sum = 0_u32;
    for _ in 0..times {
        sum = sum.wrapping_add(unsafe { from.load(0) });
    }
    unsafe { to.store(thread::index_1d() as isize, sum) };
}

#[test]
fn many_reads_of_one_element_are_no_defect() {
    let mut memory = Memory::new();
    let from = memory.upload("from", &[3_u32]).global();
    let to = memory.allocate::<u32>("to", 64, Role::Output);
    let handle = to.global_mut();
    assert_eq!(defects(2, &mut memory, || unsafe { read_often(from, handle, 100_000) }), []);
    assert_eq!(memory.download(&to), [300_000; 64]);
}

/// Has 400,000 bytes of local variables.
#[kernel]
pub unsafe fn large_array(to: GlobalMut<u32>) {
    let mut local = [0_u32; 100_000];
    for (i, element) in local.iter_mut().enumerate() {
        *element = i as u32;
    }
    let last = std::hint::black_box(&mut local)[99_999];
    unsafe { to.store(thread::index_1d() as isize, last) };
}

#[test]
fn a_larger_stack_holds_a_large_array() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 32, Role::Output);
    let handle = to.global_mut();
    let launch = Launch::flat((1, 1), (32, 1), 0);
    let emulator = Emulator::new().stack_bytes(1 << 20);
    emulator.launch("large_array", &launch, &mut memory, || unsafe { large_array(handle) }).unwrap();
    assert_eq!(memory.download(&to), [99_999; 32]);
}
