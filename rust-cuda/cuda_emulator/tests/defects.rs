//! Planted defects. Each must be found with its kind, place and line, and the same kernel without it must pass.
// The kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, clippy::if_same_then_else)]

use std::sync::atomic::{AtomicU32, Ordering};

use cuda_emulator::{Buffer, Counts, Defect, Emulator, Error, Kind, Launch, LaunchError, Memory, Place, Role};
use cuda_std::mma::mma_m16n8k32_u8s8;
use cuda_std::prelude::*;

/// The number of threads of a block in these tests: two warps.
const WIDTH: u32 = 64;

/// Runs a kernel on two blocks of 64 threads with 1 KiB of shared memory.
fn run(memory: &mut Memory, kernel: impl Fn() + Sync) -> Result<Counts, Error> {
    Emulator::new().launch("kernel", &Launch::flat((2, 1), (WIDTH, 1), 1024), memory, kernel)
}

/// The defects that a launch ended with.
fn defects(result: Result<Counts, Error>) -> Vec<Defect> {
    match result {
        Err(Error::Defects(defects)) => defects.defects,
        other => panic!("defects were expected, not {other:?}"),
    }
}

/// The one defect that a launch ended with.
fn one(result: Result<Counts, Error>) -> Defect {
    let defects = defects(result);
    assert_eq!(defects.len(), 1, "{defects:#?}");
    defects.into_iter().next().unwrap()
}

fn buffers(memory: &mut Memory) -> (Buffer<f32>, Buffer<f32>) {
    let values: Vec<f32> = (0..2 * WIDTH).map(|i| i as f32).collect();
    (memory.upload("source", &values), memory.allocate("result", values.len(), Role::Output))
}

/// Reverses each block's elements through shared memory. `with_barrier` 0 is the defect.
#[kernel]
pub unsafe fn reverse(source: Global<f32>, result: GlobalMut<f32>, with_barrier: u32) {
    let (i, tx) = (thread::index_1d(), thread::thread_idx_x());
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(tx, source.load(i as isize)) };
    if with_barrier != 0 {
        unsafe { thread::sync_threads() };
    }
    unsafe { result.store(i as isize, tile.load(WIDTH - 1 - tx)) };
}

#[test]
fn a_missing_barrier() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    run(&mut memory, || unsafe { reverse(s, r, 1) }).unwrap();
    let expected: Vec<f32> = (0..2 * WIDTH).map(|i| (i / WIDTH * WIDTH + WIDTH - 1 - i % WIDTH) as f32).collect();
    assert_eq!(memory.download(&result), expected);

    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    // The second of two threads races with the first one, or it reads what is not written yet.
    for defect in defects(run(&mut memory, || unsafe { reverse(s, r, 0) })) {
        assert!(matches!(defect.kind, Kind::Race { .. } | Kind::Uninitialised), "{defect}");
        assert!(defect.location.unwrap().file().ends_with("defects.rs"));
    }
}

/// Copies elements `i * step + shift` to elements `i * step`.
#[kernel]
pub unsafe fn copy(source: Global<f32>, result: GlobalMut<f32>, shift: i32, step: u32) {
    let i = thread::index_1d() * step;
    unsafe { result.store(i as isize, source.load(i as isize + shift as isize)) };
}

#[test]
fn an_index_off_by_one() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    let defect = one(run(&mut memory, || unsafe { copy(s, r, 1, 1) }));
    assert!(matches!(&defect.kind, Kind::OutOfBounds { nearest } if nearest == "source has 128 elements of 4 bytes"));
    assert_eq!(defect.action, "read of 4 bytes at source[128]");
    assert_eq!(defect.place, Place { block: [1, 0, 0], thread: [63, 0, 0] });
    let text = defect.to_string();
    assert!(text.contains("thread (63, 0, 0) of block (1, 0, 0)") && text.contains("defects.rs:"), "{text}");

    // Handles of another memory.
    let found = defects(run(&mut Memory::new(), || unsafe { copy(s, r, 0, 0) }));
    assert!(found.iter().all(|defect| matches!(defect.kind, Kind::OutOfBounds { .. })), "{found:#?}");
}

#[test]
fn a_read_before_the_array() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    let defect = one(run(&mut memory, || unsafe { copy(s, r, -1, 1) }));
    assert!(matches!(defect.kind, Kind::OutOfBounds { .. }), "{defect}");
    assert_eq!(defect.action, "read of 4 bytes at source[-1]");
}

/// Copies the byte after each thread's own.
#[kernel]
pub unsafe fn next_byte(source: Global<u8>, result: GlobalMut<u8>) {
    let i = thread::index_1d() as isize;
    unsafe { result.store(i, source.load(i + 1)) };
}

#[test]
fn one_of_a_thing_is_singular() {
    let mut memory = Memory::new();
    let source = memory.upload("source", &[7_u8]);
    let result = memory.allocate::<u8>("result", 2, Role::Output);
    let (s, r, launch) = (source.global(), result.global_mut(), Launch::flat((1, 1), (2, 1), 0));
    let defect = one(Emulator::new().launch("next_byte", &launch, &mut memory, || unsafe { next_byte(s, r) }));
    assert!(defect.action.starts_with("read of 1 byte at source["), "{defect}");
    let text = defect.to_string();
    assert!(text.contains("source has 1 element of 1 byte\n") && text.ends_with(" (and 1 more time)"), "{text}");
}

#[test]
fn an_output_written_twice_and_one_not_written() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    let defect = one(run(&mut memory, || unsafe { copy(s, r, 0, 0) }));
    assert!(matches!(defect.kind, Kind::WrittenTwice { .. }), "{defect}");
    assert_eq!(defect.times, 127);
    assert_eq!(memory.unwritten(&result), Some((1, 127)));
}

#[test]
fn two_blocks_on_one_element() {
    let mut memory = Memory::new();
    let source = memory.upload("source", &[1.0_f32]);
    let scratch = memory.allocate::<f32>("scratch", 1, Role::Scratch);
    let (s, r) = (source.global(), scratch.global_mut());
    let launch = Launch::flat((2, 1), (1, 1), 0);
    let defect = one(Emulator::new().launch("copy", &launch, &mut memory, || unsafe { copy(s, r, 0, 0) }));
    let Kind::Race { before } = &defect.kind else { panic!("{defect}") };
    assert!(before.wrote && before.place.unwrap().block != defect.place.block, "{defect}");
}

/// Each block reads what another block writes.
#[kernel]
pub unsafe fn between_blocks(data: GlobalMut<f32>) {
    let block = thread::block_idx_x();
    unsafe { data.store(block as isize, data.load(1 - block as isize)) };
}

#[test]
fn a_read_of_what_another_block_writes() {
    let mut memory = Memory::new();
    let data = memory.upload("data", &[1.0_f32, 2.0]);
    let d = data.global_mut();
    let launch = Launch::flat((2, 1), (1, 1), 0);
    let found = defects(Emulator::new().launch("between", &launch, &mut memory, || unsafe { between_blocks(d) }));
    assert!(found.iter().all(|defect| matches!(defect.kind, Kind::Race { .. })), "{found:#?}");
}

/// Each of two blocks reads every element. Then block 1 writes all of them.
///
/// The blocks wait for each other before each element, but not for long: they may run on one host thread.
fn read_all_then_write(data: GlobalMut<f32>, arrived: &[AtomicU32]) {
    for (i, arrived) in (0..).zip(arrived) {
        arrived.fetch_add(1, Ordering::Relaxed);
        for _ in 0..1000 {
            if arrived.load(Ordering::Relaxed) == 2 {
                break;
            }
            std::hint::spin_loop();
        }
        let _ = unsafe { data.load(i) };
    }
    if thread::block_idx_x() == 1 {
        for i in 0..arrived.len() as isize {
            unsafe { data.store(i, 0.0) };
        }
    }
}

/// Two blocks note their reads of an element at the same time. Neither read may be lost.
#[test]
fn every_race_between_two_blocks_is_found() {
    for _ in 0..20 {
        let arrived: Vec<AtomicU32> = (0..5000).map(|_| AtomicU32::new(0)).collect();
        let mut memory = Memory::new();
        let data = memory.upload("data", &vec![1.0_f32; arrived.len()]);
        let d = data.global_mut();
        let launch = Launch::flat((2, 1), (1, 1), 0);
        let kernel = || read_all_then_write(d, &arrived);
        let found = defects(Emulator::new().launch("read_all_then_write", &launch, &mut memory, kernel));
        // At each element the write sees the other block's read, or the read sees the write.
        let times: u64 = found.iter().map(|defect| defect.times).sum();
        assert!(times >= arrived.len() as u64, "{times} races at {} elements", arrived.len());
    }
}

/// Several threads add to each element in turn. With barriers between there is no race.
#[kernel]
pub unsafe fn in_turn(data: GlobalMut<f32>, with_barrier: u32) {
    let tx = thread::thread_idx_x();
    for step in 0..4 {
        let i = (tx + step) % WIDTH;
        unsafe { data.store(i as isize, data.load(i as isize) + 1.0) };
        if with_barrier != 0 {
            unsafe { thread::sync_threads() };
        }
    }
}

#[test]
fn turns_with_and_without_barriers_on_global_memory() {
    let mut memory = Memory::new();
    let data = memory.upload("data", &[0.0_f32; WIDTH as usize]);
    let d = data.global_mut();
    let launch = Launch::flat((1, 1), (WIDTH, 1), 0);
    Emulator::new().launch("in_turn", &launch, &mut memory, || unsafe { in_turn(d, 1) }).unwrap();
    assert_eq!(memory.download(&data), [4.0; WIDTH as usize]);
    let found = defects(Emulator::new().launch("in_turn", &launch, &mut memory, || unsafe { in_turn(d, 0) }));
    assert!(found.iter().all(|defect| matches!(defect.kind, Kind::Race { .. })), "{found:#?}");
}

/// Threads from `from` on skip the barrier.
#[kernel]
pub unsafe fn skipped_barrier(from: u32) {
    if thread::thread_idx_x() < from {
        unsafe { thread::sync_threads() };
    }
}

/// One half of the block waits at one barrier, the other half at another.
#[kernel]
pub unsafe fn two_barriers() {
    if thread::thread_idx_x() < WIDTH / 2 {
        unsafe { thread::sync_threads() };
    } else {
        unsafe { thread::sync_threads() };
    }
}

#[test]
fn a_skipped_barrier() {
    run(&mut Memory::new(), || unsafe { skipped_barrier(WIDTH) }).unwrap();
    let defect = one(run(&mut Memory::new(), || unsafe { skipped_barrier(WIDTH - 1) }));
    let Kind::BarrierMissed { other, waits_at: None } = defect.kind else { panic!("{defect}") };
    assert_eq!(other.thread, [WIDTH - 1, 0, 0]);
    let defect = one(run(&mut Memory::new(), || unsafe { two_barriers() }));
    assert!(matches!(defect.kind, Kind::BarrierMissed { waits_at: Some(_), .. }), "{defect}");
}

/// [`reverse`], but threads from `from` on skip the barrier.
#[kernel]
pub unsafe fn reverse_and_skip(source: Global<f32>, result: GlobalMut<f32>, from: u32) {
    let (i, tx) = (thread::index_1d(), thread::thread_idx_x());
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(tx, source.load(i as isize)) };
    if tx < from {
        unsafe { thread::sync_threads() };
    }
    unsafe { result.store(i as isize, tile.load(WIDTH - 1 - tx)) };
}

/// The races of a block follow from its missed barrier.
#[test]
fn a_skipped_barrier_comes_before_its_races() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    let found = defects(run(&mut memory, || unsafe { reverse_and_skip(s, r, WIDTH / 2) }));
    let is_barrier = |defect: &Defect| matches!(defect.kind, Kind::BarrierMissed { .. });
    assert!(found.len() > 1 && is_barrier(&found[0]), "{found:#?}");
}

/// Fills all but `missing` elements of a tile and reads all of it.
#[kernel]
pub unsafe fn unwritten_halo(result: GlobalMut<f32>, missing: u32) {
    let tx = thread::thread_idx_x();
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(tx, 1.0) };
    if tx < 2 - missing {
        unsafe { tile.store(WIDTH + tx, 2.0) };
    }
    unsafe { thread::sync_threads() };
    unsafe { result.store(thread::index_1d() as isize, tile.load(tx + 2)) };
}

#[test]
fn an_unwritten_halo() {
    let mut memory = Memory::new();
    let (_, result) = buffers(&mut memory);
    let r = result.global_mut();
    run(&mut memory, || unsafe { unwritten_halo(r, 0) }).unwrap();
    let mut memory = Memory::new();
    let (_, result) = buffers(&mut memory);
    let r = result.global_mut();
    let defect = one(run(&mut memory, || unsafe { unwritten_halo(r, 1) }));
    assert_eq!(defect.kind, Kind::Uninitialised);
    assert!(defect.action.contains("byte 260 of shared memory"), "{defect}");
    assert!(memory.download(&result)[WIDTH as usize - 1].is_nan());
}

#[test]
fn memory_that_nothing_wrote() {
    let mut memory = Memory::new();
    let empty = memory.allocate::<f32>("empty", 128, Role::Scratch);
    let (_, result) = buffers(&mut memory);
    let (e, r) = (empty.global(), result.global_mut());
    let defect = one(run(&mut memory, || unsafe { copy(e, r, 0, 1) }));
    assert_eq!((defect.kind.clone(), defect.times), (Kind::Uninitialised, 128));
    assert!(defect.action.contains("empty["), "{defect}");
    // A launch may read what the one before wrote.
    let again = memory.allocate::<f32>("again", 128, Role::Output);
    let (from, to) = (result.global(), again.global_mut());
    run(&mut memory, || unsafe { copy(from, to, 0, 1) }).unwrap();
}

/// A 16-byte load at element `at`.
#[kernel]
pub unsafe fn vector_load(source: Global<f32>, result: GlobalMut<f32>, at: i32) {
    let vector = unsafe { source.offset(at as isize).cast::<F32x4>().load(0) };
    unsafe { result.store(0, vector.0[3]) };
}

/// Writes two bytes in the middle of element 5.
#[kernel]
pub unsafe fn half_store(result: GlobalMut<f32>) {
    unsafe { result.offset(5).cast::<u8>().offset(1).cast::<u16>().store(0, 7) };
}

#[test]
fn a_misaligned_vector() {
    let mut memory = Memory::new();
    let (source, result) = buffers(&mut memory);
    let (s, r) = (source.global(), result.global_mut());
    let launch = Launch::flat((1, 1), (1, 1), 0);
    let mut load = |at| Emulator::new().launch("vector", &launch, &mut memory, || unsafe { vector_load(s, r, at) });
    load(4).unwrap();
    assert_eq!(one(load(2)).kind, Kind::Misaligned);
    assert!(matches!(one(load(126)).kind, Kind::OutOfBounds { .. }));
    let defect = one(Emulator::new().launch("half", &launch, &mut memory, || unsafe { half_store(r) }));
    assert_eq!(defect.action, "write of 2 bytes at result[5], byte 1 of the element");
}

/// Writes element `index` of shared memory.
#[kernel]
pub unsafe fn shared_at(index: u32) {
    if thread::thread_rank() == 0 {
        unsafe { Shared::<f32>::dynamic().store(index, 0.0) };
    }
}

cuda_std::constant! {
    /// Read by [`constant_at`].
    pub static TABLE: [f32; 16];
}

/// Reads element `index` of constant memory.
#[kernel]
pub unsafe fn constant_at(index: u32) {
    if thread::index_1d() == 0 {
        let _ = unsafe { TABLE.load(index as usize) };
    }
}

#[test]
fn out_of_shared_and_constant_memory() {
    run(&mut Memory::new(), || unsafe { shared_at(255) }).unwrap();
    let defect = one(run(&mut Memory::new(), || unsafe { shared_at(256) }));
    assert!(matches!(defect.kind, Kind::OutOfBounds { .. }) && defect.times == 2, "{defect}");

    let mut memory = Memory::new();
    memory.set_constant(TABLE::SYMBOL, &[1.0_f32; 8]);
    run(&mut memory, || unsafe { constant_at(7) }).unwrap();
    assert_eq!(one(run(&mut memory, || unsafe { constant_at(8) })).kind, Kind::Uninitialised);
    assert!(matches!(one(run(&mut memory, || unsafe { constant_at(16) })).kind, Kind::OutOfBounds { .. }));
}

/// Divides by zero.
#[kernel]
pub unsafe fn panics(divisor: u32) {
    assert!(divisor > 0, "a divisor of 0");
}

#[test]
fn a_panic_is_a_defect() {
    let defect = one(run(&mut Memory::new(), || unsafe { panics(0) }));
    assert!(
        matches!(&defect.kind, Kind::Panic { message, at: Some(at) } if at.contains("defects.rs:") && message.contains("a divisor of 0")),
        "{defect}"
    );
}

#[test]
fn launches_beyond_the_device() {
    let refused = |launch: Launch| {
        let result = Emulator::new().launch("kernel", &launch, &mut Memory::new(), || unsafe { shared_at(0) });
        match result {
            Err(Error::Launch { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(refused(Launch::flat((1, 1), (1025, 1), 4)), LaunchError::TooLarge { .. }));
    assert!(matches!(refused(Launch::flat((1, 1), (1, 1), 1 << 20)), LaunchError::TooLarge { .. }));
    assert!(matches!(refused(Launch::flat((0, 1), (1, 1), 4)), LaunchError::Empty { .. }));
}

/// Sums a warp's values by `shuffle_down` and by `shuffle_xor`.
#[kernel]
pub unsafe fn warp_sums(result: GlobalMut<f32>, lanes: u32) {
    if thread::thread_rank() % 32 < lanes {
        let mut down = thread::thread_rank() as f32;
        for delta in [16, 8, 4, 2, 1] {
            down += unsafe { warp::shuffle_down(down, delta) };
        }
        let mut xor = thread::thread_rank() as f32;
        for bits in [16, 8, 4, 2, 1] {
            xor += unsafe { warp::shuffle_xor(xor, bits) };
        }
        let first = unsafe { warp::shuffle(down, 0) };
        let even = unsafe { warp::ballot(warp::lane_id().is_multiple_of(2)) };
        unsafe { warp::sync_warp() };
        let same = first == xor && even == 0x5555_5555;
        unsafe { result.store(thread::index_1d() as isize, if same { xor } else { f32::NAN }) };
    }
}

#[test]
fn warp_collectives() {
    let mut memory = Memory::new();
    let (_, result) = buffers(&mut memory);
    let r = result.global_mut();
    run(&mut memory, || unsafe { warp_sums(r, 32) }).unwrap();
    let sums = [(0..32).sum::<i32>() as f32, (32..64).sum::<i32>() as f32];
    let expected: Vec<f32> = (0..128).map(|i| sums[i % 64 / 32]).collect();
    assert_eq!(memory.download(&result), expected);
    for defect in defects(run(&mut memory, || unsafe { warp_sums(r, 31) })) {
        assert!(matches!(defect.kind, Kind::BarrierMissed { waits_at: None, .. }), "{defect}");
    }
}

/// Each thread reads the value of thread `tx ^ partner` from shared memory and stores it in its own place.
///
/// `by` selects the collective between the write and the read. 0 is `sync_warp`. Any other one is a defect, and so is a
/// partner in another warp.
#[kernel]
pub unsafe fn hand_over(source: Global<f32>, result: GlobalMut<f32>, partner: u32, by: u32) {
    let (i, tx) = (thread::index_1d(), thread::thread_rank());
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(tx, source.load(i as isize)) };
    match by {
        0 => unsafe { warp::sync_warp() },
        1 => assert_eq!(unsafe { warp::ballot(true) }, u32::MAX),
        2 => assert_eq!(unsafe { warp::shuffle(tx, 5) } % 32, 5),
        _ => assert_eq!(unsafe { mma_m16n8k32_u8s8([0; 4], [0; 2], [1; 4]) }, [1; 4]),
    }
    let value = unsafe { tile.load(tx ^ partner) };
    unsafe { warp::sync_warp() };
    unsafe { tile.store(tx, value) };
    unsafe { result.store(i as isize, tile.load(tx)) };
}

#[test]
fn values_handed_over_in_a_warp() {
    let handed = |partner, by| {
        let mut memory = Memory::new();
        let (source, result) = buffers(&mut memory);
        let (s, r) = (source.global(), result.global_mut());
        run(&mut memory, || unsafe { hand_over(s, r, partner, by) }).map(|counts| (counts, memory.download(&result)))
    };
    let expected: Vec<f32> = (0..2 * WIDTH).map(|i| (i ^ 5) as f32).collect();
    assert_eq!(handed(5, 0).unwrap().1, expected);
    // All lanes write before one reads, but only `sync_warp` orders these accesses.
    for by in 1..4 {
        let defect = one(handed(5, by).map(|(counts, _)| counts));
        let Kind::Race { before } = &defect.kind else { panic!("{defect}") };
        let (thread, writer) = (defect.place.thread[0], before.place.unwrap().thread[0]);
        assert!(before.wrote && writer == thread ^ 5 && defect.times == 128, "{defect}");
    }
    // The read of what the other warp wrote, and the write of what the other warp read.
    let found = defects(handed(32, 0).map(|(counts, _)| counts));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found.iter().all(|defect| matches!(defect.kind, Kind::Race { .. })), "{found:#?}");
}
