//! Shared arrays of fixed length beside dynamic ones, and loads and stores of every integer type.

use cuda_std::prelude::*;
use cuda_std::{SharedArray, shared_array};

/// The threads of the block.
const THREADS: usize = 64;

/// Bytes of the two arrays in dynamic shared memory: `f64` for each thread, then `u8`.
const DYNAMIC_BYTES: u32 = THREADS as u32 * (8 + 1);

/// The array of this function, which is the same in all of its calls.
#[inline(always)]
fn total() -> SharedArray<u64, 1> {
    shared_array![u64; 1]
}

/// Adds `value` to the array of [`total`].
///
/// # Safety
/// - The array is written, and a barrier lies between.
#[inline(always)]
unsafe fn add(value: u64) {
    // SAFETY: the element exists and is written.
    unsafe { total().atomic_add(0, value) };
}

/// Each thread passes its number through two arrays of fixed length and two dynamic ones.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn arrays(_input: Global<u32>, output: GlobalMut<u32>) {
    let (words, halves) = (shared_array![u32; THREADS], shared_array![i16; THREADS]);
    let (wide, bytes) = (Shared::<f64>::dynamic(), Shared::<u8>::dynamic_at(THREADS as u32 * 8));
    let tx = thread::thread_idx_x();
    let other = THREADS as u32 - 1 - tx;
    // SAFETY: each array has an element for each thread. Barriers lie between the accesses of two threads.
    unsafe {
        words.store(tx, 1000 + tx);
        halves.store(tx, -(tx as i16));
        wide.store(tx, f64::from(tx) / 2.0);
        bytes.store(tx, tx as u8 + 100);
        if tx == 0 {
            total().store(0, 1 << 40);
        }
        thread::sync_threads();
        add(1);
        add(u64::from(tx));
        thread::sync_threads();
        let sum =
            words.load(other) as f64 + f64::from(halves.load(other)) + wide.load(other) + f64::from(bytes.load(other));
        let result = output.offset(2 * tx as isize);
        result.cast::<f64>().store(0, sum + total().load(0) as f64);
    }
}

/// Reverses the elements of one type through shared memory, and stores them as `i64`: array number `$number`.
macro_rules! reverse {
    ($type:ty, $from:ident, $to:ident, $bytes:ident, $number:literal) => {{
        let tile = shared_array![$type; 64; $type];
        let tx = thread::thread_idx_x();
        let from = $from.cast::<u8>().offset($bytes).cast();
        // SAFETY: the arrays have an element for each thread, and a barrier lies between the accesses of two threads.
        unsafe {
            tile.store(tx, from.load(tx as isize));
            thread::sync_threads();
            $to.cast::<i64>().store(($number * 64 + tx) as isize, tile.load(63 - tx) as i64);
        }
        $bytes += 64 * size_of::<$type>() as isize;
    }};
}

/// Reverses 64 elements of each integer type, one type after the other.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn integers(input: Global<u32>, output: GlobalMut<u32>) {
    let mut bytes = 0;
    reverse!(i64, input, output, bytes, 0);
    reverse!(u64, input, output, bytes, 1);
    reverse!(i32, input, output, bytes, 2);
    reverse!(u32, input, output, bytes, 3);
    reverse!(i16, input, output, bytes, 4);
    reverse!(u16, input, output, bytes, 5);
    reverse!(i8, input, output, bytes, 6);
    reverse!(u8, input, output, bytes, 7);
    let _ = bytes;
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, exact, words};

    /// The words of bytes.
    fn of_bytes(bytes: &[u8]) -> Vec<u32> {
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        let sums = (0..THREADS).rev().map(|other| {
            let of_arrays = (1000 + other) as f64 - other as f64 + other as f64 / 2.0 + (other + 100) as f64;
            of_arrays + ((1_u64 << 40) + 64 + 63 * 64 / 2) as f64
        });
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        for (place, (size, signed)) in
            [(8, true), (8, false), (4, true), (4, false), (2, true), (2, false), (1, true), (1, false)]
                .into_iter()
                .enumerate()
        {
            let element = |i: usize| (0..size).map(move |byte| (i * 37 + byte * 101 + place * 11) as u8);
            input.extend((0..64).flat_map(element));
            expected.extend((0..64).rev().map(|i| {
                let bits = element(i).rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(byte));
                let unused = 64 - 8 * size;
                if signed { ((bits << unused) as i64) >> unused } else { bits as i64 }
            }));
        }
        let threads = THREADS as u32;
        std::vec![
            Case { threads, shared_bytes: DYNAMIC_BYTES, ..exact("arrays", arrays, words(sums)) },
            Case { threads, input: of_bytes(&input), ..exact("integers", integers, words(expected)) },
        ]
    }
}
