//! Warp operations with masks, and the lanes that miss them.
// Some of the kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Counts, Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::prelude::*;
use cuda_std::warp::masked;

fn run(threads: u32, memory: &mut Memory, kernel: impl Fn() + Sync) -> Result<Counts, Error> {
    Emulator::new().launch("kernel", &Launch::flat((1, 1), (threads, 1), 256), memory, kernel)
}

/// The kind and the text of the one defect of a launch.
fn one(result: Result<Counts, Error>) -> (Kind, String) {
    let Err(Error::Defects(found)) = result else { panic!("a defect was expected, not {result:?}") };
    assert_eq!(found.defects.len(), 1, "{found}");
    (found.defects[0].kind.clone(), found.to_string())
}

/// The even lanes of a warp add up their numbers, and so do the odd ones. `mask` is that of the even lanes.
#[kernel]
pub unsafe fn halves(sums: GlobalMut<u32>, even: u32) {
    let lane = thread::thread_idx_x();
    let sum = if lane.is_multiple_of(2) {
        unsafe { masked::reduce_add(even, lane) }
    } else {
        unsafe { masked::reduce_add(0xaaaa_aaaa, lane) }
    };
    unsafe { sums.store(lane as isize, sum) };
}

#[test]
fn lanes_of_two_masks_do_not_wait_for_each_other() {
    let mut memory = Memory::new();
    let sums = memory.allocate::<u32>("sums", 32, Role::Output);
    let to = sums.global_mut();
    run(32, &mut memory, || unsafe { halves(to, 0x5555_5555) }).unwrap();
    assert!(memory.download(&sums).iter().enumerate().all(|(lane, &sum)| sum == if lane % 2 == 0 { 240 } else { 256 }));
    // Lane 1 is in the mask and never arrives.
    let (kind, text) = one(run(32, &mut memory, || unsafe { halves(to, 0x5555_5557) }));
    assert!(matches!(kind, Kind::BarrierMissed { other, .. } if other.thread == [1, 0, 0]), "{text}");
    // Lane 2 arrives and is not in the mask. The others are released without it.
    let (kind, text) = one(run(32, &mut memory, || unsafe { halves(to, 0x5555_5551) }));
    assert!(matches!(kind, Kind::BarrierMissed { .. }), "{text}");
    assert!(text.contains("thread (2, 0, 0)") && text.contains("whose mask it is not in"), "{text}");
}

/// A block of 40 threads: the second warp has 8 lanes.
#[kernel]
pub unsafe fn forty(sums: GlobalMut<u32>, mask: u32) {
    let tx = thread::thread_idx_x();
    let mask = if tx < 32 { u32::MAX } else { mask };
    unsafe { sums.store(tx as isize, masked::ballot(mask, true)) };
}

#[test]
fn a_warp_of_fewer_lanes_needs_their_mask() {
    let mut memory = Memory::new();
    let sums = memory.allocate::<u32>("sums", 40, Role::Output);
    let to = sums.global_mut();
    run(40, &mut memory, || unsafe { forty(to, 0xff) }).unwrap();
    assert_eq!(memory.download(&sums)[31..34], [u32::MAX, 0xff, 0xff]);
    let (kind, text) = one(run(40, &mut memory, || unsafe { forty(to, u32::MAX) }));
    assert_eq!(kind, Kind::PartialWarp { threads: 8, of_block: 40 });
    let wanted = "of 32 lanes, but this warp has 8 threads, because the block has 40: use a multiple of 32 threads, or";
    assert!(text.contains(wanted) && !text.contains("never reaches"), "{text}");
}

/// Lanes 0 to 15 pass a number to their neighbour through shared memory. `mask` are the lanes of the `sync_warp`.
#[kernel]
pub unsafe fn neighbours(to: GlobalMut<u32>, mask: u32) {
    let lane = thread::thread_idx_x();
    let tile = Shared::<u32>::dynamic();
    if lane >= 16 {
        return;
    }
    unsafe { tile.store(lane, lane * lane) };
    if mask >> lane & 1 == 1 {
        unsafe { masked::sync_warp(mask) };
    }
    unsafe { to.store(lane as isize, tile.load(lane ^ 1)) };
}

#[test]
fn sync_warp_orders_the_lanes_of_its_mask_only() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 16, Role::Output);
    let handle = to.global_mut();
    run(32, &mut memory, || unsafe { neighbours(handle, 0xffff) }).unwrap();
    assert_eq!(memory.download(&to)[..4], [1, 0, 9, 4]);
    let result = run(32, &mut memory, || unsafe { neighbours(handle, 0x7fff) });
    let Err(Error::Defects(found)) = result else { panic!("{result:?}") };
    for defect in &found.defects {
        assert!(matches!(defect.kind, Kind::Race { .. } | Kind::Uninitialised), "{defect}");
        assert!([14, 15].contains(&defect.place.thread[0]), "{defect}");
    }
}

/// All threads but the last one are at a barrier that counts.
#[kernel]
pub unsafe fn counting_barrier(to: GlobalMut<u32>, all: u32) {
    let tx = thread::thread_idx_x();
    if all != 0 || tx != 63 {
        let count = unsafe { thread::sync_threads_count(tx.is_multiple_of(4)) };
        unsafe { to.store(tx as isize, count) };
    }
}

#[test]
fn a_barrier_with_a_predicate_counts_and_can_be_missed() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 64, Role::Output);
    let handle = to.global_mut();
    run(64, &mut memory, || unsafe { counting_barrier(handle, 1) }).unwrap();
    assert_eq!(memory.download(&to), [16; 64]);
    let (kind, text) = one(run(64, &mut memory, || unsafe { counting_barrier(handle, 0) }));
    assert!(matches!(kind, Kind::BarrierMissed { other, .. } if other.thread == [63, 0, 0]), "{text}");
}

/// Passes numbers up and down by `delta` lanes.
#[kernel]
pub unsafe fn shuffles(to: GlobalMut<u32>, delta: u32) {
    let lane = thread::thread_idx_x();
    let (up, down) = unsafe { (warp::shuffle_up(lane, delta), warp::shuffle_down(lane, delta)) };
    unsafe { to.store(lane as isize, up << 8 | down) };
}

#[test]
fn a_shuffle_by_more_lanes_than_a_warp_has_is_reported() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 32, Role::Scratch);
    let handle = to.global_mut();
    run(32, &mut memory, || unsafe { shuffles(handle, 31) }).unwrap();
    assert_eq!((memory.download(&to)[0], memory.download(&to)[31]), (31, 31));
    let result = run(32, &mut memory, || unsafe { shuffles(handle, 33) });
    let Err(Error::Defects(found)) = result else { panic!("defects were expected, not {result:?}") };
    let kinds: Vec<_> = found.defects.iter().map(|defect| (defect.kind.clone(), defect.times)).collect();
    assert_eq!(kinds, [(Kind::ShuffleDelta { delta: 33 }, 32), (Kind::ShuffleDelta { delta: 33 }, 32)], "{found}");
    let wanted = "a shuffle of a warp, whose delta is 33: it must be 0 to 31, because the device takes it modulo 32";
    assert!(found.to_string().contains(wanted), "{found}");
}

/// Lanes 0 to 15 exchange numbers: by XOR with `bits`, and from lane `from`.
#[kernel]
pub unsafe fn half_a_warp(to: GlobalMut<u32>, bits: u32, from: u32) {
    let lane = thread::thread_idx_x();
    if lane < 16 {
        let exchanged = unsafe { (masked::shuffle_xor(0xffff, lane, bits), masked::shuffle(0xffff, lane, from)) };
        unsafe { to.store(lane as isize, exchanged.0 << 8 | exchanged.1) };
    }
}

#[test]
fn a_shuffle_from_a_lane_outside_of_the_mask_is_reported() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 16, Role::Scratch);
    let handle = to.global_mut();
    // Lane 35 is lane 3.
    run(32, &mut memory, || unsafe { half_a_warp(handle, 5, 35) }).unwrap();
    assert_eq!(memory.download(&to)[2], 7 << 8 | 3);
    for (bits, from, kind) in [
        (5, 20, Kind::ShuffleSource { from: 20, mask: 0xffff }),
        (5, 48, Kind::ShuffleSource { from: 16, mask: 0xffff }),
        (33, 0, Kind::ShuffleDelta { delta: 33 }),
    ] {
        let (found, text) = one(run(32, &mut memory, || unsafe { half_a_warp(handle, bits, from) }));
        assert_eq!(found, kind, "{text}");
    }
    // The device takes the XOR modulo 32, as the report says.
    assert_eq!(memory.download(&to)[2] >> 8, 3);
    let (_, text) = one(run(32, &mut memory, || unsafe { half_a_warp(handle, 16, 0) }));
    assert!(text.contains("a shuffle of a warp, from lane "), "{text}");
    assert!(text.contains(", which is not in the mask 0x0000ffff: the value is undefined"), "{text}");
}
