//! Atomic operations: of each type in both memories, and of each order and scope.

use core::ops::Add;

use cuda_std::atomic::{Atomic, AtomicInteger, AtomicMemory, AtomicScalar, Ordering, Scope, fence};
use cuda_std::prelude::*;

/// Threads of a block.
const THREADS: u32 = 64;
/// Blocks of the grid.
const BLOCKS: u32 = 2;
/// Elements of an array of results.
const ELEMENTS: u32 = 11;

/// A type with atomic operations and the numbers from -50 to 50, or from 50 to 150 if it is unsigned.
trait Number: AtomicScalar + Add<Output = Self> {
    fn of(value: i32) -> Self;
}

macro_rules! numbers {
    ($($type:ty, $more:literal;)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn of(value: i32) -> Self {
                (value + $more) as Self
            }
        }
    )*};
}
numbers! { u32, 100; i32, 0; u64, 100; i64, 0; f32, 0; f64, 0; }

/// The value of thread `i`. Those of neighbours differ.
#[inline(always)]
fn value<T: Number>(i: u32) -> T {
    T::of((i * 37 % 101) as i32 - 50)
}

/// Thread `i` adds its value to element 0 and subtracts it from element 1. It writes 5 to element 2, and adds 1 to
/// element 3 if 5 was there. It adds 1 to element 4 by compare and swap. It writes 7 to element 5.
///
/// # Safety
/// - The elements are valid for atomic operations.
#[inline(always)]
unsafe fn numbers<T: Number, M: AtomicMemory>(at: impl Fn(u32) -> Atomic<T, M>, i: u32) {
    let relaxed = Ordering::Relaxed;
    // SAFETY: the elements are valid, as the function requires.
    unsafe {
        at(0).fetch_add(value(i), relaxed);
        at(1).fetch_sub(value(i), relaxed);
        if at(2).swap(T::of(5), relaxed).bits() == T::of(5).bits() {
            at(3).fetch_add(T::of(1), relaxed);
        }
        let mut old = at(4).load(relaxed);
        while let Err(found) = at(4).compare_exchange(old, old + T::of(1), relaxed) {
            old = found;
        }
        at(5).store(T::of(7), relaxed);
    }
}

/// As [`numbers`]. Thread `i` also combines its value with elements 6 to 10: minimum, maximum, and, or, xor.
///
/// # Safety
/// - The elements are valid for atomic operations.
#[inline(always)]
unsafe fn integers<T: Number + AtomicInteger, M: AtomicMemory>(at: impl Fn(u32) -> Atomic<T, M>, i: u32) {
    let relaxed = Ordering::Relaxed;
    // SAFETY: the elements are valid, as the function requires.
    unsafe {
        numbers(&at, i);
        at(6).fetch_min(value(i), relaxed);
        at(7).fetch_max(value(i), relaxed);
        at(8).fetch_and(value(i), relaxed);
        at(9).fetch_or(value(i), relaxed);
        at(10).fetch_xor(value(i), relaxed);
    }
}

/// A kernel for each type: the operations in global memory by all threads, and in shared memory by each block. Array 0
/// of the results is global memory, array `1 + b` the shared memory of block b.
macro_rules! kernels {
    ($($name:ident, $type:ty, $operations:ident;)*) => {$(
        /// # Safety
        /// - The launch is that of the kernel's [`Case`](crate::Case).
        #[kernel]
        pub unsafe fn $name(_input: Global<u32>, output: GlobalMut<u32>) {
            let (results, mine) = (output.cast::<$type>(), Shared::<$type>::dynamic());
            let tx = thread::thread_idx_x();
            // SAFETY: there are more threads than elements. The results have an array for global memory and one for
            // each block. Barriers lie between atomic and other accesses.
            unsafe {
                if tx < ELEMENTS {
                    mine.store(tx, <$type as Number>::of(0));
                }
                thread::sync_threads();
                $operations(|element| results.atomic(element as isize), thread::index_1d());
                $operations(|element| mine.atomic(element), tx);
                thread::sync_threads();
                if tx < ELEMENTS {
                    results.store(((1 + thread::block_idx_x()) * ELEMENTS + tx) as isize, mine.load(tx));
                }
            }
        }
    )*};
}

kernels! {
    atomics_u32, u32, integers;
    atomics_i32, i32, integers;
    atomics_u64, u64, integers;
    atomics_i64, i64, integers;
    atomics_f32, f32, numbers;
    atomics_f64, f64, numbers;
}

/// Adds 1 to an element for each order, and 1 more for each order of loads and stores.
///
/// # Safety
/// - The elements are valid for atomic operations in the scope.
#[inline(always)]
unsafe fn orders<M: AtomicMemory>(at: impl Fn(u32) -> Atomic<u32, M>, scope: Scope) {
    // SAFETY: the elements are valid, as the function requires. The orders are those of loads and stores.
    unsafe {
        at(0).scope(scope).fetch_add(1, Ordering::Relaxed);
        at(1).scope(scope).fetch_add(1, Ordering::Acquire);
        at(2).scope(scope).fetch_add(1, Ordering::Release);
        at(3).scope(scope).fetch_add(1, Ordering::AcqRel);
        at(4).scope(scope).fetch_add(1, Ordering::SeqCst);
        let relaxed = at(5).scope(scope).load(Ordering::Relaxed);
        let acquired = at(5).scope(scope).load(Ordering::Acquire);
        let consistent = at(5).scope(scope).load(Ordering::SeqCst);
        at(6).scope(scope).store(relaxed + 1, Ordering::Relaxed);
        at(7).scope(scope).store(acquired + 2, Ordering::Release);
        at(8).scope(scope).store(consistent + 3, Ordering::SeqCst);
    }
    fence(Ordering::AcqRel, scope);
    fence(Ordering::SeqCst, scope);
}

/// Elements of the results of [`atomics_orders`] for one scope.
const ORDER_ELEMENTS: u32 = 9;

/// Every order and scope. The results are those of the scopes block, device and system, of each block. Then come those
/// of the shared memory of each block.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn atomics_orders(_input: Global<u32>, output: GlobalMut<u32>) {
    let (tx, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let mine = Shared::<u32>::dynamic();
    let part = |number: u32| output.offset((number * ORDER_ELEMENTS) as isize);
    // SAFETY: there are more threads than elements, and the results have a part for each block and scope, and for each
    // block's shared memory. Barriers lie between atomic and other accesses.
    unsafe {
        if tx < ORDER_ELEMENTS {
            mine.store(tx, 0);
        }
        thread::sync_threads();
        orders(|element| part(4 * block).atomic(element as isize), Scope::Block);
        orders(|element| part(4 * block + 1).atomic(element as isize), Scope::Device);
        orders(|element| part(4 * block + 2).atomic(element as isize), Scope::System);
        orders(|element| mine.atomic(element), Scope::Block);
        thread::sync_threads();
        if tx < ORDER_ELEMENTS {
            part(4 * block + 3).store(tx as isize, mine.load(tx));
        }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, Kernel, exact, words};

    /// The elements that [`numbers`] leaves for the threads `0..threads`; 0 for the others.
    fn after_numbers<T: Number>(threads: u32) -> Vec<T> {
        let mut elements = std::vec![T::of(0); ELEMENTS as usize];
        for i in 0..threads {
            elements[0] = elements[0].sum(value(i), true);
            elements[1] = elements[1].sum(value::<T>(i).negated(), true);
            if i > 0 {
                elements[3] = elements[3] + T::of(1);
            }
            elements[4] = elements[4] + T::of(1);
        }
        (elements[2], elements[5]) = (T::of(5), T::of(7));
        elements
    }

    /// The elements that [`integers`] leaves.
    fn after_integers<T: Number + AtomicInteger>(threads: u32) -> Vec<T> {
        let mut elements: Vec<T> = after_numbers(threads);
        for i in 0..threads {
            let value: T = value(i);
            let bits = |bits| T::of_bits(bits);
            elements[6] = elements[6].min(value);
            elements[7] = elements[7].max(value);
            elements[8] = bits(elements[8].bits() & value.bits());
            elements[9] = bits(elements[9].bits() | value.bits());
            elements[10] = bits(elements[10].bits() ^ value.bits());
        }
        elements
    }

    fn case<T: Number>(name: &'static str, kernel: Kernel, after: fn(u32) -> Vec<T>) -> Case {
        let arrays = std::iter::once(BLOCKS * THREADS).chain((0..BLOCKS).map(|_| THREADS));
        let expected: Vec<T> = arrays.flat_map(after).collect();
        Case {
            blocks: BLOCKS,
            threads: THREADS,
            shared_bytes: ELEMENTS * size_of::<T>() as u32,
            output: words(expected.iter().map(|_| T::of(0))),
            ..exact(name, kernel, words(expected))
        }
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        let orders = [THREADS, THREADS, THREADS, THREADS, THREADS, 0, 1, 2, 3];
        let orders: Vec<u32> = (0..4 * BLOCKS).flat_map(|_| orders).collect();
        std::vec![
            case::<u32>("atomics_u32", atomics_u32, after_integers),
            case::<i32>("atomics_i32", atomics_i32, after_integers),
            case::<u64>("atomics_u64", atomics_u64, after_integers),
            case::<i64>("atomics_i64", atomics_i64, after_integers),
            case::<f32>("atomics_f32", atomics_f32, after_numbers),
            case::<f64>("atomics_f64", atomics_f64, after_numbers),
            Case {
                blocks: BLOCKS,
                threads: THREADS,
                shared_bytes: 4 * ORDER_ELEMENTS,
                output: std::vec![0; orders.len()],
                ..exact("atomics_orders", atomics_orders, orders)
            },
        ]
    }
}
