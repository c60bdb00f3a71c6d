//! The FP32 peak of a device: `bench` compares the other kernels with it.

use cuda_std::prelude::*;

use crate::abi::kernel::{Convergent, Kernel, OLDEST, Parameter};

/// Threads of a block.
pub const BLOCK: u32 = 512;
/// Independent chains of multiply-adds of a thread: more than the latency of 4 cycles needs.
pub const CHAINS: usize = 16;
/// Multiply-adds of each chain in a round.
pub const STEPS: usize = 16;

/// The fused multiply-adds of a launch of `blocks` blocks and `rounds` rounds. Each counts as two operations.
#[must_use]
pub const fn multiply_adds(blocks: u32, rounds: u32) -> u64 {
    blocks as u64 * BLOCK as u64 * rounds as u64 * (CHAINS * STEPS) as u64
}

/// [`fma_rate`] in the list of kernels.
pub const FMA_RATE: Kernel = Kernel {
    symbol: "fma_rate",
    module: "fma_rate",
    parameters: &[Parameter::POINTER, Parameter::value::<u32>(), Parameter::value::<f32>()],
    compute_capability: OLDEST,
    launch_bounds: None,
    convergent: Convergent::NONE,
};

/// Executes `rounds` rounds of multiply-adds in registers.
///
/// It reads no memory. It would write memory only for a sum that never occurs, which the compiler cannot know.
///
/// # Safety
/// `sink` holds one element, and `factor` is at least 1.
#[kernel]
pub unsafe fn fma_rate(sink: GlobalMut<f32>, rounds: u32, factor: f32) {
    let start = thread::index_1d() as f32;
    let mut sums = [0.0_f32; CHAINS];
    let mut chain = 0;
    while chain < CHAINS {
        sums[chain] = start + chain as f32;
        chain += 1;
    }
    let mut round = 0;
    while round < rounds {
        for _ in 0..STEPS {
            for sum in &mut sums {
                *sum = fma(*sum, factor, factor);
            }
        }
        round += 1;
    }
    let mut total = 0.0;
    for sum in sums {
        total += sum;
    }
    // The sums begin at 0 or above and grow, so the total is never negative.
    if total < 0.0 {
        // SAFETY: `sink` holds one element.
        unsafe { sink.store(0, total) };
    }
}
