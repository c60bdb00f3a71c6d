//! Operations of warps and barriers with predicates.

use cuda_std::prelude::*;
use cuda_std::warp::{ShuffleValue, masked};

/// The threads of the block: two warps.
const THREADS: u32 = 64;

/// The lanes of the masked operations: those whose number is not a multiple of 3.
const MASK: u32 = 0b10110110_11011011_01101101_10110110;

/// Stores one word after the other: word f of thread t is element `f * THREADS + t`.
struct Words {
    to: GlobalMut<u32>,
    next: isize,
}

impl Words {
    /// # Safety
    /// - The output has room for these words of each thread.
    #[inline(always)]
    unsafe fn push<const N: usize>(&mut self, words: [u32; N]) {
        for word in words {
            // SAFETY: there is room, and the element belongs to this thread.
            unsafe { self.to.store(self.next, word) };
            self.next += THREADS as isize;
        }
    }

    /// # Safety
    /// As [`push`](Self::push), of two words.
    #[inline(always)]
    unsafe fn push_64(&mut self, value: u64) {
        // SAFETY: the conditions are the same.
        unsafe { self.push([value as u32, (value >> 32) as u32]) };
    }
}

/// The value of a thread.
#[inline(always)]
fn value(thread: u32) -> u32 {
    thread.wrapping_mul(2_654_435_761) >> 7 ^ thread << 27
}

/// A predicate that holds in some lanes.
#[inline(always)]
fn predicate(thread: u32) -> bool {
    thread % 5 < 2
}

/// The four shuffles of a value.
///
/// # Safety
/// - All lanes of the warp are here.
#[inline(always)]
unsafe fn shuffles<T: ShuffleValue>(value: T, lane: u32) -> [T; 4] {
    // SAFETY: all lanes are here.
    unsafe {
        [
            warp::shuffle(value, lane + 5),
            warp::shuffle_up(value, 3),
            warp::shuffle_down(value, 4),
            warp::shuffle_xor(value, 9),
        ]
    }
}

/// Shuffles of 32- and 64-bit values, votes, matches, masks of lanes, barriers with predicates.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn warps(_input: Global<u32>, output: GlobalMut<u32>) {
    let (tx, lane) = (thread::thread_idx_x(), warp::lane_id());
    let mut words = Words { to: output, next: tx as isize };
    let (value, wide) = (value(tx), u64::from(value(tx)) << 20 | u64::from(tx));
    // SAFETY: all threads of the block are here. In the branch the lanes of the mask are. The output has room.
    unsafe {
        words.push(shuffles(value, lane));
        words.push(shuffles(value as i32, lane).map(|word| word as u32));
        words.push(shuffles(f32::from_bits(value), lane).map(f32::to_bits));
        for word in shuffles(wide, lane) {
            words.push_64(word);
        }
        for word in shuffles(wide as i64, lane) {
            words.push_64(word as u64);
        }
        for word in shuffles(f64::from_bits(wide), lane) {
            words.push_64(word.to_bits());
        }
        words.push([
            warp::ballot(predicate(tx)),
            u32::from(warp::all(tx < 32)),
            u32::from(warp::any(tx == 40)),
            warp::match_any(tx / 7),
            warp::match_any(u64::from(tx / 9) << 40),
            warp::match_all(tx / 32),
            warp::match_all(tx / 48),
            warp::lanes_lt(),
            warp::lanes_le(),
            warp::lanes_eq(),
            warp::lanes_ge(),
            warp::lanes_gt(),
            warp::active_mask() >> lane & 1,
        ]);
        let mut of_mask = [0; 4];
        if MASK >> lane & 1 == 1 {
            of_mask = [
                masked::shuffle(MASK, value, lane / 3 * 3 + 1),
                masked::ballot(MASK, predicate(tx)),
                u32::from(masked::any(MASK, predicate(tx))),
                masked::match_any(MASK, tx % 2),
            ];
            masked::sync_warp(MASK);
        }
        words.push(of_mask);
        words.push([
            thread::sync_threads_count(predicate(tx)),
            u32::from(thread::sync_threads_and(tx < 64)),
            u32::from(thread::sync_threads_and(tx != 17)),
            u32::from(thread::sync_threads_or(tx == 17)),
            u32::from(thread::sync_threads_or(tx > 63)),
        ]);
        let (x, y, z) = thread::index_3d();
        words.push([x, y, z]);
    }
}

/// Reductions, which need `sm_80`.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn warps_reduce(_input: Global<u32>, output: GlobalMut<u32>) {
    let tx = thread::thread_idx_x();
    let mut words = Words { to: output, next: tx as isize };
    let value = value(tx);
    // SAFETY: all threads of the block are here. In the branch the lanes of the mask are. The output has room.
    unsafe {
        words.push([
            warp::reduce_add(value),
            warp::reduce_add(value as i32) as u32,
            warp::reduce_min(value),
            warp::reduce_min(value as i32) as u32,
            warp::reduce_max(value),
            warp::reduce_max(value as i32) as u32,
            warp::reduce_and(value | 0xf0),
            warp::reduce_or(value & 0xff),
            warp::reduce_xor(value),
        ]);
        let sum = if MASK >> warp::lane_id() & 1 == 1 { masked::reduce_add(MASK, value) } else { 0 };
        words.push([sum]);
    }
}

/// Clocks and a pause: whether each clock moves on.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn clocks(_input: Global<u32>, output: GlobalMut<u32>) {
    let tx = thread::thread_idx_x();
    let mut words = Words { to: output, next: tx as isize };
    let (cycle, cycles, time) = (thread::clock(), thread::clock64(), thread::globaltimer());
    // The resolution of the timer may be a microsecond.
    for _ in 0..100 {
        thread::nanosleep(1000);
    }
    let later = [thread::clock() != cycle, thread::clock64() > cycles, thread::globaltimer() > time];
    // SAFETY: the output has room.
    unsafe { words.push(later.map(u32::from)) };
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, exact};

    /// The threads of the mask, or of all lanes, in the warp of a thread.
    fn lanes(mask: u32, thread: u32) -> impl Iterator<Item = u32> + Clone {
        (0..32).filter(move |lane| mask >> lane & 1 == 1).map(move |lane| thread / 32 * 32 + lane)
    }

    /// One bit for each of these lanes of the warp of a thread.
    fn bits(mask: u32, thread: u32, holds: impl Fn(u32) -> bool) -> u32 {
        lanes(mask, thread).filter(|&thread| holds(thread)).fold(0, |bits, thread| bits | 1 << (thread % 32))
    }

    /// The thread from which each shuffle takes its value.
    fn sources(thread: u32) -> [u32; 4] {
        let (first, lane) = (thread / 32 * 32, thread % 32);
        let up = if lane < 3 { lane } else { lane - 3 };
        let down = if lane > 27 { lane } else { lane + 4 };
        [(lane + 5) % 32, up, down, lane ^ 9].map(|lane| first + lane)
    }

    /// The words of a thread in [`warps`].
    fn words(thread: u32) -> Vec<u32> {
        const ALL: u32 = u32::MAX;
        let mut words = Vec::new();
        for _ in 0..3 {
            words.extend(sources(thread).map(value));
        }
        for _ in 0..3 {
            for source in sources(thread) {
                let wide = u64::from(value(source)) << 20 | u64::from(source);
                words.extend([wide as u32, (wide >> 32) as u32]);
            }
        }
        let lane = thread % 32;
        let lower = bits(ALL, thread, |other| other % 32 < lane);
        words.extend([
            bits(ALL, thread, predicate),
            u32::from(thread < 32),
            u32::from(thread >= 32),
            bits(ALL, thread, |other| other / 7 == thread / 7),
            bits(ALL, thread, |other| other / 9 == thread / 9),
            ALL,
            if thread < 32 { ALL } else { 0 },
            lower,
            lower | 1 << lane,
            1 << lane,
            !lower,
            !lower & !(1 << lane),
            1,
        ]);
        words.extend(if MASK >> lane & 1 == 1 {
            let source = thread / 32 * 32 + lane / 3 * 3 + 1;
            [value(source), bits(MASK, thread, predicate), 1, bits(MASK, thread, |other| other % 2 == thread % 2)]
        } else {
            [0; 4]
        });
        words.extend([(0..THREADS).filter(|&thread| predicate(thread)).count() as u32, 1, 0, 1, 0]);
        words.extend([thread, 0, 0]);
        words
    }

    /// The words of a thread in [`warps_reduce`].
    fn reduced(thread: u32) -> Vec<u32> {
        let values = lanes(u32::MAX, thread).map(value);
        let signed = values.clone().map(|value| value as i32);
        let sum = values.clone().fold(0, u32::wrapping_add);
        let of_mask = lanes(MASK, thread).map(value).fold(0, u32::wrapping_add);
        std::vec![
            sum,
            sum,
            values.clone().min().unwrap(),
            signed.clone().min().unwrap() as u32,
            values.clone().max().unwrap(),
            signed.max().unwrap() as u32,
            values.clone().fold(u32::MAX, |bits, value| bits & (value | 0xf0)),
            values.clone().fold(0, |bits, value| bits | value & 0xff),
            values.fold(0, |bits, value| bits ^ value),
            if MASK >> (thread % 32) & 1 == 1 { of_mask } else { 0 },
        ]
    }

    /// The expected output: word f of all threads, then the next word.
    fn transposed(words: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
        let all: Vec<_> = (0..THREADS).map(words).collect();
        (0..all[0].len()).flat_map(|word| all.iter().map(move |words| words[word])).collect()
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        assert!(lanes(MASK, 0).all(|lane| lane % 3 != 0 && MASK >> (lane / 3 * 3 + 1) & 1 == 1));
        std::vec![
            Case { threads: THREADS, ..exact("warps", warps, transposed(words)) },
            Case { threads: THREADS, arch: 80, ..exact("warps_reduce", warps_reduce, transposed(reduced)) },
            Case { threads: THREADS, ..exact("clocks", clocks, transposed(|_| std::vec![1; 3])) },
        ]
    }
}
