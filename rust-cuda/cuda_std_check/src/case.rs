//! The launches of the kernels, and their known results.

use std::vec::Vec;
use std::{format, string::String};

use cuda_std::{Global, GlobalMut};

/// A kernel of this crate: words in, words out.
pub type Kernel = unsafe fn(Global<u32>, GlobalMut<u32>);

/// One launch of a kernel.
#[derive(Debug)]
pub struct Case {
    /// The kernel's symbol.
    pub name: &'static str,
    /// The kernel.
    pub kernel: Kernel,
    /// The oldest architecture that has the instructions: 70 is `sm_70`.
    pub arch: u32,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of threads of a block, a multiple of 32.
    pub threads: u32,
    /// The bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The words that the kernel reads.
    pub input: Vec<u32>,
    /// The words of the output before the launch.
    pub output: Vec<u32>,
    /// The words of the output after it.
    pub expected: Vec<Expected>,
}

/// What a word of the output must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// These bits.
    Bits(u32),
    /// Any bits.
    Any,
    /// The bits of a NaN of type `f32`.
    Nan,
    /// The high word of a NaN of type `f64`.
    HighNan,
    /// An `f32` whose distance from `exact` is at most `error`.
    F32 {
        /// The exact result.
        exact: f64,
        /// The greatest distance.
        error: f64,
    },
}

impl Case {
    /// An error that names the first word that is wrong, and the number of such words.
    ///
    /// # Errors
    /// A word of `found` is not as expected.
    pub fn compare(&self, found: &[u32]) -> Result<(), String> {
        let name = self.name;
        if found.len() != self.expected.len() {
            return Err(format!("{name}: {} words were expected, not {}", self.expected.len(), found.len()));
        }
        let wrong = |&(_, (expected, found)): &(usize, (&Expected, &u32))| !expected.holds(*found);
        let mut wrong = self.expected.iter().zip(found).enumerate().filter(wrong);
        match wrong.next() {
            None => Ok(()),
            Some((index, (expected, found))) => {
                let more = wrong.count();
                Err(format!("{name}: word {index} is {found:#x}, expected {expected:x?}; {more} more are wrong"))
            }
        }
    }
}

impl Expected {
    /// Whether a word is as expected.
    #[must_use]
    pub fn holds(self, found: u32) -> bool {
        match self {
            Self::Bits(bits) => found == bits,
            Self::Any => true,
            Self::Nan => f32::from_bits(found).is_nan(),
            Self::HighNan => found & 0x7ff8_0000 == 0x7ff8_0000,
            Self::F32 { exact, error } => (f64::from(f32::from_bits(found)) - exact).abs() <= error,
        }
    }
}

/// All cases.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend(crate::arrays::cases());
    cases.extend(crate::atomics::cases());
    cases.extend(crate::debugging::cases());
    cases.extend(crate::halves::cases());
    cases.extend(crate::math::cases());
    cases.extend(crate::warps::cases());
    cases
}

/// The words of values of 4 or 8 bytes.
pub(crate) fn words<T: cuda_std::atomic::AtomicScalar>(values: impl IntoIterator<Item = T>) -> Vec<u32> {
    let words = values.into_iter().flat_map(|value| [value.bits() as u32, (value.bits() >> 32) as u32]);
    let step = if size_of::<T>() == 4 { 2 } else { 1 };
    words.step_by(step).collect()
}

/// A case of one block of 32 threads, for `sm_70`, without input and shared memory, with these results. Before the
/// launch the output is zeros.
pub(crate) fn exact(name: &'static str, kernel: Kernel, expected: Vec<u32>) -> Case {
    Case {
        name,
        kernel,
        arch: 70,
        blocks: 1,
        threads: 32,
        shared_bytes: 0,
        input: Vec::new(),
        output: std::vec![0; expected.len()],
        expected: expected.into_iter().map(Expected::Bits).collect(),
    }
}
