//! Planted defects of asynchronous copies, each next to a kernel without it.
// The kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Counts, Defect, Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::cp_async::{commit_group, cp_async_4, cp_async_16_if, cp_async_16_zfill, wait_group};
use cuda_std::prelude::*;

/// Threads of a block: two warps.
const THREADS: u32 = 64;
/// Stages of [`pipeline`].
const STAGES: u32 = 3;
/// Steps of [`pipeline`].
const STEPS: u32 = 7;

/// Notes the line of its call.
macro_rules! mark {
    ($line:ident) => {
        $line.store(line!(), std::sync::atomic::Ordering::Relaxed)
    };
}

/// The line before the copy of [`pipeline`].
static COPY: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// The defect of [`pipeline`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// No wait at all.
    NoWait,
    /// One group too many stays pending.
    OneTooMany,
    /// No barrier between the wait and the reads.
    NoBarrier,
    /// Each thread reads what it copied itself before the wait.
    OwnReadBeforeWait,
    /// A stage is refilled while other threads may still read it.
    RefilledEarly,
    /// A thread writes to a stage that is in flight.
    WriteInFlight,
    /// The copies are in no group when the thread waits.
    NoCommit,
}

/// Copies a row of `THREADS` quads a step, `STAGES - 1` steps ahead, and writes the sums of neighbouring quads.
unsafe fn pipeline(source: Global<f32>, result: GlobalMut<f32>, wrong: Wrong) {
    let tx = thread::thread_idx_x();
    let ring = Shared::<f32>::dynamic();
    let stage = |step: u32| ring.offset(step % STAGES * 4 * THREADS);
    let issue = |step: u32| {
        if step < STEPS {
            let from = source.offset((4 * (step * THREADS + tx)) as isize);
            mark!(COPY);
            unsafe { cp_async_16_if(true, stage(step).offset(4 * tx), from) };
        }
        if wrong != Wrong::NoCommit {
            commit_group();
        }
    };
    for step in 0..STAGES - 1 {
        issue(step);
    }
    for step in 0..STEPS {
        if wrong == Wrong::OwnReadBeforeWait && step == 0 {
            let _ = unsafe { stage(0).load(4 * tx) };
        }
        if wrong == Wrong::WriteInFlight && step == 0 {
            unsafe { stage(1).store(4 * tx, 0.0) };
        }
        match wrong {
            Wrong::NoWait => (),
            Wrong::OneTooMany => wait_group::<{ STAGES - 1 }>(),
            _ => wait_group::<{ STAGES - 2 }>(),
        }
        if wrong != Wrong::NoBarrier {
            unsafe { thread::sync_threads() };
        }
        if wrong != Wrong::RefilledEarly {
            issue(step + STAGES - 1);
        }
        let (row, neighbour) = (stage(step), (tx + 1) % THREADS);
        let sum = unsafe { row.load(4 * tx) + row.load(4 * neighbour + 3) };
        if wrong == Wrong::RefilledEarly {
            // The stage that was just read.
            let step = step + STAGES;
            if step < STEPS {
                unsafe { cp_async_16_if(true, stage(step).offset(4 * tx), source.offset((4 * tx) as isize)) };
            }
            commit_group();
        }
        unsafe { result.store((step * THREADS + tx) as isize, sum) };
    }
}

/// Runs [`pipeline`] on one block. The results if it has no defect.
fn run_pipeline(wrong: Wrong) -> Result<(Counts, Vec<f32>), Error> {
    let mut memory = Memory::new();
    let values: Vec<f32> = (0..4 * STEPS * THREADS).map(|i| i as f32).collect();
    let source = memory.upload("source", &values);
    let result = memory.allocate::<f32>("result", (STEPS * THREADS) as usize, Role::Output);
    let (s, r) = (source.global(), result.global_mut());
    let launch = Launch::flat((1, 1), (THREADS, 1), STAGES * 16 * THREADS);
    let counts = Emulator::new().launch("pipeline", &launch, &mut memory, || unsafe { pipeline(s, r, wrong) })?;
    Ok((counts, memory.download(&result)))
}

/// The defects of [`pipeline`].
fn defects(wrong: Wrong) -> Vec<Defect> {
    match run_pipeline(wrong) {
        Err(Error::Defects(defects)) => defects.defects,
        other => panic!("{wrong:?}: defects were expected, not {other:?}"),
    }
}

/// Whether a defect is an access to a byte in flight. If so, the report must name the line of the copy.
fn in_flight(defect: &Defect) -> bool {
    let Kind::InFlight { issued_at: Some(issued_at), .. } = defect.kind else { return false };
    let copy = COPY.load(std::sync::atomic::Ordering::Relaxed) + 1;
    let text = defect.to_string();
    assert!(text.contains(&format!("async_copies.rs:{copy}, which has not waited for it")), "{text}");
    assert!(defect.location.unwrap().line() > copy && issued_at.line() == copy, "{text}");
    true
}

#[test]
fn a_pipeline_of_three_stages() {
    let (_, sums) = run_pipeline(Wrong::Nothing).unwrap();
    let quad = |step: u32, thread: u32| (4 * (step * THREADS + thread)) as f32;
    for (i, sum) in (0..).zip(sums) {
        let (step, thread) = (i / THREADS, i % THREADS);
        assert_eq!(sum, quad(step, thread) + quad(step, (thread + 1) % THREADS) + 3.0, "step {step}, thread {thread}");
    }
}

#[test]
fn a_missing_wait() {
    let found = defects(Wrong::NoWait);
    assert!(found.iter().any(|defect| defect.action.starts_with("read") && in_flight(defect)), "{found:#?}");
}

#[test]
fn a_wait_that_leaves_one_group_too_many() {
    let found = defects(Wrong::OneTooMany);
    // A thread that runs ahead to its next wait completes the copy: then its neighbour's read is a race.
    assert!(found.iter().all(|defect| matches!(defect.kind, Kind::Race { .. }) || in_flight(defect)), "{found:#?}");
    assert!(found.iter().any(|defect| defect.action.starts_with("read") && in_flight(defect)), "{found:#?}");
}

#[test]
fn a_missing_barrier_after_the_wait() {
    let found = defects(Wrong::NoBarrier);
    // A neighbour has not issued its copy, has not waited for it, or has waited without a barrier between.
    assert!(found.iter().any(|defect| matches!(defect.kind, Kind::Race { .. })), "{found:#?}");
    for defect in found {
        assert!(matches!(defect.kind, Kind::Race { .. } | Kind::Uninitialised) || in_flight(&defect), "{defect}");
    }
}

#[test]
fn a_read_of_the_own_destination_before_the_wait() {
    let found = defects(Wrong::OwnReadBeforeWait);
    assert_eq!((found.len(), found[0].times), (1, THREADS.into()), "{found:#?}");
    let Kind::InFlight { issuer, .. } = found[0].kind else { panic!("{found:#?}") };
    assert!(issuer == found[0].place && in_flight(&found[0]), "{found:#?}");
}

#[test]
fn a_stage_refilled_while_others_read_it() {
    let found = defects(Wrong::RefilledEarly);
    assert!(
        found.iter().all(|defect| matches!(defect.kind, Kind::Race { .. } | Kind::InFlight { .. })
            || defect.kind == Kind::Uninitialised),
        "{found:#?}"
    );
    assert!(found.iter().any(|defect| matches!(defect.kind, Kind::Race { .. } | Kind::InFlight { .. })), "{found:#?}");
}

#[test]
fn a_write_to_a_destination_in_flight() {
    let found = defects(Wrong::WriteInFlight);
    assert!(found.len() == 1 && in_flight(&found[0]), "{found:#?}");
    assert!(found[0].action.starts_with("write of 4 bytes"), "{found:#?}");
}

#[test]
fn copies_in_no_group_are_not_waited_for() {
    assert!(defects(Wrong::NoCommit).iter().any(in_flight));
}

/// One thread copies `bytes` bytes with zero fill from element `at`, and writes what it finds.
#[kernel]
pub unsafe fn zero_filled(source: Global<u8>, result: GlobalMut<u8>, at: i32, bytes: u32) {
    let tile = Shared::<u8>::dynamic();
    unsafe { cp_async_16_zfill(true, tile, source.offset(at as isize), bytes) };
    unsafe { cp_async_16_zfill(false, tile, source, 16) };
    commit_group();
    wait_group::<0>();
    for i in 0..16 {
        unsafe { result.store(i, tile.load(i as u32)) };
    }
}

#[test]
fn zero_fill_reads_no_more_than_it_copies() {
    let run = |at, bytes| {
        let mut memory = Memory::new();
        let source = memory.upload("source", &(1..=23).collect::<Vec<u8>>());
        let result = memory.allocate::<u8>("result", 16, Role::Output);
        let (s, r) = (source.global(), result.global_mut());
        let launch = Launch::flat((1, 1), (1, 1), 16);
        let emulator = Emulator::new().counting(true);
        emulator
            .launch("zero_filled", &launch, &mut memory, || unsafe { zero_filled(s, r, at, bytes) })
            .map(|counts| (counts, memory.download(&result)))
    };
    let (counts, values) = run(16, 7).unwrap();
    assert_eq!(values, [17, 18, 19, 20, 21, 22, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((counts.global_loads.threads, counts.shared_stores.threads), (7, 16));
    assert_eq!(run(-1 << 20, 0).unwrap().1, [0; 16]);
    let defect = |at, bytes| match run(at, bytes) {
        Err(Error::Defects(defects)) => defects.defects[0].clone(),
        other => panic!("{other:?}"),
    };
    assert!(matches!(defect(16, 8).kind, Kind::OutOfBounds { .. }));
    assert!(matches!(defect(8, 7).kind, Kind::Misaligned));
    assert!(matches!(defect(8, 0).kind, Kind::Misaligned));
    assert!(defect(16, 8).action.starts_with("asynchronous read of 8 bytes at source[16]"), "{}", defect(16, 8));
}

/// One thread copies an element and overwrites the source: before the issue, before the wait, or after it.
#[kernel]
pub unsafe fn source_written(data: GlobalMut<f32>, result: GlobalMut<f32>, from: Global<f32>, when: u32) {
    let tile = Shared::<f32>::dynamic();
    let write = |now: u32| {
        if now == when {
            unsafe { data.store(0, 2.0) };
        }
    };
    write(0);
    unsafe { cp_async_4(tile, from) };
    commit_group();
    write(1);
    wait_group::<0>();
    write(2);
    unsafe { result.store(0, tile.load(0)) };
}

#[test]
fn a_source_that_changes_before_the_wait() {
    let run = |when| {
        let mut memory = Memory::new();
        let data = memory.upload("data", &[1.0_f32]);
        let result = memory.allocate::<f32>("result", 1, Role::Output);
        let (d, r, from) = (data.global_mut(), result.global_mut(), data.global());
        let launch = Launch::flat((1, 1), (1, 1), 16);
        Emulator::new()
            .launch("source", &launch, &mut memory, || unsafe { source_written(d, r, from, when) })
            .map(|_| memory.download(&result)[0])
    };
    assert_eq!(run(0).unwrap(), 2.0);
    assert_eq!(run(2).unwrap(), 1.0);
    let Err(Error::Defects(found)) = run(1) else { panic!("no defect") };
    let Kind::SourceChanged { before } = found.defects[0].kind else { panic!("{found}") };
    assert!(before.wrote && before.place == Some(found.defects[0].place), "{found}");
    assert!(found.to_string().contains("asynchronous read of 4 bytes at data[0], which changed"), "{found}");
}

/// Two writes by one thread at one line, one before and one after the issue of a copy.
#[kernel]
pub unsafe fn source_written_again(data: GlobalMut<f32>, from: Global<f32>) {
    for value in [2.0, 3.0] {
        unsafe { data.store(0, value) };
        if value == 2.0 {
            unsafe { cp_async_4(Shared::<f32>::dynamic(), from) };
            commit_group();
        }
    }
    wait_group::<0>();
}

/// An atomic access to another element, the first one of the array, while a copy is in flight.
#[kernel]
pub unsafe fn counted_beside_a_copy(data: GlobalMut<u32>, from: Global<u32>) {
    unsafe { data.store(0, 5) };
    unsafe { cp_async_4(Shared::<u32>::dynamic(), from) };
    commit_group();
    unsafe { data.atomic_add(1, 1) };
    wait_group::<0>();
}

#[test]
fn only_writes_of_the_source_change_it() {
    let mut memory = Memory::new();
    let (data, counts) = (memory.upload("data", &[1.0_f32]), memory.upload("counts", &[0_u32; 2]));
    let launch = Launch::flat((1, 1), (1, 1), 16);
    let (d, from) = (data.global_mut(), data.global());
    let again = Emulator::new().launch("again", &launch, &mut memory, || unsafe { source_written_again(d, from) });
    let Err(Error::Defects(found)) = again else { panic!("no defect") };
    assert!(matches!(found.defects[0].kind, Kind::SourceChanged { .. }), "{found}");
    let (d, from) = (counts.global_mut(), counts.global());
    Emulator::new().launch("beside", &launch, &mut memory, || unsafe { counted_beside_a_copy(d, from) }).unwrap();
    assert_eq!(memory.download(&counts), [5, 1]);
}

/// Issues copies and ends. The next block of the same host thread finds nothing of them.
#[kernel]
pub unsafe fn never_waited(source: Global<f32>) {
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(thread::thread_idx_x(), 0.0) };
    unsafe { thread::sync_threads() };
    unsafe { cp_async_4(tile.offset(thread::thread_idx_x()), source) };
}

#[test]
fn a_copy_that_nobody_waits_for_nor_reads() {
    let mut memory = Memory::new();
    let s = memory.upload("source", &[1.0_f32]).global();
    let launch = Launch::flat((500, 1), (THREADS, 1), 4 * THREADS);
    Emulator::new().launch("never_waited", &launch, &mut memory, || unsafe { never_waited(s) }).unwrap();
}
