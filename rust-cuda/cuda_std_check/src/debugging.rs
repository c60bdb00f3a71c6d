//! Kernels that print and assert.

use cuda_std::prelude::*;
use cuda_std::{gpu_assert, gpu_println};

/// The first thread prints one line without values, and one with a value of each type. All conditions hold.
///
/// # Safety
/// - The launch is that of the kernel's [`Case`](crate::Case).
#[kernel]
pub unsafe fn prints(input: Global<u32>, output: GlobalMut<u32>) {
    let tx = thread::thread_idx_x();
    // SAFETY: there is an element for each thread.
    let word = unsafe { input.load(tx as isize) };
    gpu_assert!(word == 10 * tx);
    gpu_assert!(thread::block_dim_x() == 32, "the block has 32 threads");
    if tx == 3 {
        gpu_println!("100 % of {{}}");
        let (integer, float) = (-(word as i32), word as f32 / 4.0);
        gpu_println!("word {word:04} {:x} {} {}", word, integer, -1_i64 << 40);
        gpu_println!("float {float} {float:9.3} {} {}", f64::from(float) * 1e-9, 1_u64 << 63);
    }
    // SAFETY: there is an element for each thread, and no other thread has it.
    unsafe { output.store(tx as isize, word + 1) };
}

/// What [`prints`] prints.
#[cfg(not(target_arch = "nvptx64"))]
pub const PRINTED: &str = "100 % of {}\nword 0030 1e -30 -1099511627776\n\
    float 7.5     7.500 7.5e-09 9223372036854775808\n";

/// The condition does not hold for one thread of a block. It is no [`Case`](crate::Case): the device is lost after it.
///
/// # Safety
/// - `output` has an element for each thread of the grid.
#[kernel]
pub unsafe fn fails_an_assertion(_input: Global<u32>, output: GlobalMut<u32>) {
    let i = thread::index_1d();
    gpu_assert!(i != 33, "thread 33 is not wanted");
    // SAFETY: there is an element for each thread, and no other thread has it.
    unsafe { output.store(i as isize, i) };
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::cases;
#[cfg(not(target_arch = "nvptx64"))]
pub use host::failing;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use std::vec::Vec;

    use super::*;
    use crate::case::{Case, Expected, exact};

    /// The launch of [`fails_an_assertion`].
    #[must_use]
    pub fn failing() -> Case {
        let (output, expected) = (std::vec![0; 64], std::vec![Expected::Any; 64]);
        let case = exact("fails_an_assertion", fails_an_assertion, Vec::new());
        Case { blocks: 2, output, expected, ..case }
    }

    /// The cases of this module.
    pub(crate) fn cases() -> Vec<Case> {
        let input = (0..32).map(|tx| 10 * tx).collect();
        let expected = (0..32).map(|tx| 10 * tx + 1).collect();
        std::vec![Case { input, ..exact("prints", prints, expected) }]
    }
}
