use super::*;

/// 16 bytes.
fn block() -> Shared {
    let mut shared = Shared::default();
    shared.begin_block(16).unwrap();
    shared
}

#[test]
fn a_barrier_makes_the_difference() {
    let mut shared = block();
    shared.store(0, &[1, 2], 0, 7).unwrap();
    let mut seen = [0; 2];
    shared.load(0, &mut seen, 0, 8).unwrap();
    let race = shared.load(0, &mut seen, 1, 8).unwrap_err();
    assert!(matches!(race, Trouble::Race { before: Touch { who: Who(0), site: 7, .. }, wrote: true, atomic: false }));
    shared.next_interval();
    shared.load(0, &mut seen, 1, 8).unwrap();
    assert_eq!(seen, [1, 2]);
    let race = shared.store(1, &[3], 0, 9).unwrap_err();
    assert!(matches!(race, Trouble::Race { before: Touch { who: Who(1), .. }, wrote: false, atomic: false }));
}

#[test]
fn neighbouring_bytes_are_no_race() {
    let mut shared = block();
    for thread in 0..16 {
        shared.store(usize::from(thread), &[0], thread, 0).unwrap();
    }
}

/// The record of a word becomes one of each byte with the first access to a part, and nothing is forgotten.
#[test]
fn bytes_of_a_word_keep_its_history() {
    let mut shared = block();
    shared.store(4, &[1, 2, 3, 4], 0, 7).unwrap();
    let race = shared.load(6, &mut [0], 1, 8).unwrap_err();
    assert!(matches!(race, Trouble::Race { before: Touch { who: Who(0), site: 7, .. }, wrote: true, .. }));
    shared.next_interval();
    shared.load(4, &mut [0; 4], 2, 9).unwrap();
    for byte in 4..8 {
        let race = shared.store(byte, &[0], 3, 8).unwrap_err();
        assert!(matches!(race, Trouble::Race { before: Touch { who: Who(2), site: 9, .. }, wrote: false, .. }));
    }
    // Neighbours have a history of their own from now on, also for an access of the whole word.
    shared.next_interval();
    shared.store(5, &[9], 1, 0).unwrap();
    shared.load(6, &mut [0; 2], 2, 0).unwrap();
    let race = shared.load(4, &mut [0; 4], 2, 8).unwrap_err();
    assert!(matches!(race, Trouble::Race { before: Touch { who: Who(1), .. }, wrote: true, .. }));
    shared.next_interval();
    let mut seen = [0; 4];
    shared.load(4, &mut seen, 0, 8).unwrap();
    assert_eq!(seen, [0, 9, 0, 0]);
    // The next block begins with words.
    shared.begin_block(16).unwrap();
    assert_eq!(shared.load(4, &mut [0; 4], 0, 0), Err(Trouble::Unwritten));
    assert_eq!(shared.split, [false; 4]);
}

/// The clock starts again, also for the bytes of a word that is split: what is written stays written.
#[test]
fn the_clock_starts_again() {
    let mut shared = block();
    (shared.clock, shared.barrier) = (u32::MAX - 1, u32::MAX - 1);
    shared.store(1, &[7], 0, 0).unwrap();
    shared.next_interval();
    shared.next_interval();
    let mut seen = [0];
    shared.load(1, &mut seen, 1, 0).unwrap();
    assert_eq!(seen, [7]);
}

#[test]
fn what_another_block_wrote_is_unwritten() {
    let mut shared = block();
    shared.store(0, &[1], 0, 0).unwrap();
    shared.begin_block(16).unwrap();
    assert_eq!(shared.load(0, &mut [0], 0, 0), Err(Trouble::Unwritten));
}

/// Threads of two warps. `B` is another lane of the warp of `A`.
const A: u16 = 0;
const B: u16 = 31;
const OTHER: u16 = 32;

/// A block that wrote byte 0 and passed a barrier.
fn written() -> Shared {
    let mut shared = block();
    shared.store(0, &[1], A, 0).unwrap();
    shared.next_interval();
    shared
}

fn read(shared: &mut Shared, thread: u16) -> Result<(), Trouble> {
    shared.load(0, &mut [0], thread, 0)
}

fn write(shared: &mut Shared, thread: u16) -> Result<(), Trouble> {
    shared.store(0, &[2], thread, 0)
}

/// The thread of a race's earlier access, None for several, and whether it wrote.
fn race(result: Result<(), Trouble>) -> (Option<u16>, bool) {
    match result {
        Err(Trouble::Race { before, wrote, .. }) => (before.who.thread(), wrote),
        other => panic!("a race was expected, not {other:?}"),
    }
}

#[test]
fn sync_warp_orders_reads_before_a_write_of_the_warp() {
    let mut shared = written();
    for lane in 0..32 {
        read(&mut shared, lane).unwrap();
    }
    shared.sync_warp(0);
    write(&mut shared, B).unwrap();
}

#[test]
fn without_sync_warp_they_are_a_race() {
    let mut shared = written();
    for lane in 0..32 {
        read(&mut shared, lane).unwrap();
    }
    assert_eq!(race(write(&mut shared, B)), (None, false));
}

#[test]
fn sync_warp_does_not_order_two_warps() {
    let mut shared = written();
    for thread in [A, B, OTHER] {
        read(&mut shared, thread).unwrap();
    }
    shared.sync_warp(0);
    shared.sync_warp(1);
    assert_eq!(race(write(&mut shared, A)), (None, false));

    // The same if no thread of the first warp reads again.
    let mut shared = written();
    read(&mut shared, A).unwrap();
    shared.sync_warp(0);
    shared.sync_warp(1);
    assert_eq!(race(write(&mut shared, OTHER)), (Some(A), false));
}

#[test]
fn sync_warp_orders_a_write_before_reads_of_the_warp() {
    let mut shared = written();
    write(&mut shared, A).unwrap();
    shared.sync_warp(1);
    assert_eq!(race(read(&mut shared, B)), (Some(A), true));
    shared.sync_warp(0);
    read(&mut shared, B).unwrap();
    assert_eq!(race(read(&mut shared, OTHER)), (Some(A), true));
    shared.next_interval();
    read(&mut shared, OTHER).unwrap();
}

#[test]
fn a_read_after_sync_warp_is_not_ordered_before_a_write() {
    let mut shared = written();
    read(&mut shared, A).unwrap();
    shared.sync_warp(0);
    read(&mut shared, B).unwrap();
    assert_eq!(race(write(&mut shared, A)), (Some(B), false));
}

#[test]
fn a_read_before_sync_warp_is_ordered_though_another_came_after() {
    let mut shared = written();
    read(&mut shared, A).unwrap();
    shared.sync_warp(0);
    read(&mut shared, B).unwrap();
    write(&mut shared, B).unwrap();
}

/// Compares the record with a list of all accesses since the last barrier, up to the first race.
#[test]
fn the_record_of_a_byte_loses_no_race_and_invents_none() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut races = 0;
    for _ in 0..20_000 {
        let mut shared = written();
        let mut syncs = [0; 3];
        let mut touches: Vec<(u16, u32, bool)> = Vec::new();
        loop {
            let thread = random.u16(0..3) * WARP + random.u16(0..3);
            let warp = thread / WARP;
            let writes = match random.u32(0..16) {
                0 => {
                    shared.next_interval();
                    touches.clear();
                    continue;
                }
                1..6 => {
                    shared.sync_warp(warp.into());
                    syncs[usize::from(warp)] += 1;
                    continue;
                }
                6..8 => true,
                _ => false,
            };
            let now = syncs[usize::from(warp)];
            let expected = touches.iter().any(|&(before, passed, wrote)| {
                (wrote || writes) && before != thread && (before / WARP != warp || passed == now)
            });
            let result = if writes { write(&mut shared, thread) } else { read(&mut shared, thread) };
            assert_eq!(result.is_err(), expected, "{result:?} of thread {thread} after {touches:?}");
            if expected {
                races += 1;
                break;
            }
            if touches.len() == 64 {
                break;
            }
            touches.push((thread, now, writes));
        }
    }
    assert!(races > 10_000, "{races}");
}

/// The same for accesses of 1 to 16 bytes: each byte has a list of its own.
#[test]
fn records_of_words_lose_no_race_and_invent_none() {
    let seed = 2;
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut races, mut bytes) = (0, [0_u8; 16]);
    let mut shared = block();
    for _ in 0..20_000 {
        shared.begin_block(16).unwrap();
        shared.store(0, &bytes, A, 0).unwrap();
        shared.next_interval();
        let mut touches: [Vec<(u16, bool)>; 16] = Default::default();
        for step in 0..24 {
            let thread = random.u16(0..3) * WARP;
            if random.u8(..12) == 0 {
                shared.next_interval();
                touches.iter_mut().for_each(Vec::clear);
                continue;
            }
            let size = 1 << random.usize(0..5);
            let start = random.usize(0..16 / size) * size;
            let range = start..start + size;
            let writes = random.u8(..4) == 0;
            let expected =
                touches[range.clone()].iter().flatten().any(|&(before, wrote)| (wrote || writes) && before != thread);
            let result = if writes {
                bytes[range.clone()].fill(step);
                shared.store(start, &vec![step; size], thread, 0)
            } else {
                let mut seen = vec![0; size];
                let result = shared.load(start, &mut seen, thread, 0);
                assert_eq!(seen, bytes[range.clone()], "bytes {range:?}");
                result
            };
            assert_eq!(result.is_err(), expected, "{result:?} of thread {thread}, bytes {range:?}, after {touches:?}");
            if expected {
                races += 1;
                break;
            }
            touches[range].iter_mut().for_each(|byte| byte.push((thread, writes)));
        }
    }
    assert!((5_000..20_000).contains(&races), "{races}");
}

/// The thread that issued the copy that an access ran into.
fn issuer(result: Result<(), Trouble>) -> Option<u16> {
    match result {
        Err(Trouble::InFlight(copy)) => copy.issuer(),
        other => panic!("a copy in flight was expected, not {other:?}"),
    }
}

#[test]
fn a_byte_is_in_flight_until_its_copy_is_complete() {
    let mut shared = block();
    shared.issue(0, 4, A, 7).unwrap();
    assert_eq!(issuer(read(&mut shared, A)), Some(A));
    shared.next_interval();
    assert_eq!(issuer(read(&mut shared, OTHER)), Some(A));
    assert_eq!(issuer(write(&mut shared, A)), Some(A));
    assert_eq!(issuer(shared.issue(0, 8, OTHER, 8)), Some(A));
    shared.abandon(4, 4);
    shared.complete(0, &[1, 2, 3, 4], A, 7);
    read(&mut shared, A).unwrap();
    assert_eq!(race(read(&mut shared, B)), (Some(A), true));
    shared.next_interval();
    let mut seen = [0; 3];
    shared.load(0, &mut seen, OTHER, 0).unwrap();
    assert_eq!(seen, [1, 2, 3]);
}

#[test]
fn the_issue_of_a_copy_conflicts_as_a_write_does() {
    let mut shared = written();
    read(&mut shared, OTHER).unwrap();
    assert_eq!(race(shared.issue(0, 4, A, 7)), (Some(OTHER), false));
}

#[test]
fn a_copy_that_its_block_never_waited_for_is_forgotten() {
    let mut shared = block();
    shared.issue(0, 4, A, 7).unwrap();
    shared.abandon(0, 4);
    shared.begin_block(16).unwrap();
    assert_eq!(read(&mut shared, A), Err(Trouble::Unwritten));
    write(&mut shared, A).unwrap();
}

#[test]
fn the_clock_goes_back() {
    let mut shared = block();
    shared.clock = u32::MAX - 2;
    shared.begin_block(16).unwrap();
    assert!(shared.clock < 8);
    // A block that reaches the end of the clock: accesses there are still races.
    shared.store(0, &[5], A, 0).unwrap();
    shared.clock = u32::MAX - 1;
    shared.sync_warp(0);
    read(&mut shared, B).unwrap();
    shared.sync_warp(0);
    assert_eq!(race(write(&mut shared, A)), (Some(B), false));
    // What it wrote stays written after the next barrier.
    shared.next_interval();
    assert!(shared.clock < 8);
    let mut seen = [0; 2];
    assert_eq!(shared.load(0, &mut seen, OTHER, 0), Err(Trouble::Unwritten));
    assert_eq!(seen, [2, u8::MAX]);
    shared.sync_warp(1);
    write(&mut shared, OTHER + 1).unwrap();
    shared.begin_block(16).unwrap();
    assert_eq!(read(&mut shared, A), Err(Trouble::Unwritten));
}
