//! The GPU path with a fake driver, `rust-cuda/fake_cuda`: kernels in the emulator, copies that complete late, failures
//! at every call. No GPU is needed.
//!
//! The tests of the library load the driver into this process, one test at a time. Those of the program start it with
//! the driver in the loader's path.

mod chunked;
mod clocks;
mod fake;
mod foreign_streams;
#[path = "../handles/mod.rs"]
mod handles;
mod library;
mod lost;
mod on_handles;
#[allow(clippy::disallowed_methods, reason = "these tests call the driver, and some are wrong on purpose")]
mod planted;
mod program;
mod proven;
mod run;
#[path = "../seed.rs"]
mod seed;
mod sweep;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test: its name, and its function.
type Test = (&'static str, fn() -> Result<(), Failed>);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let tests: [&[Test]; 10] = [
        planted::TESTS,
        library::TESTS,
        proven::TESTS,
        on_handles::TESTS,
        foreign_streams::TESTS,
        sweep::TESTS,
        program::TESTS,
        lost::TESTS,
        chunked::TESTS,
        clocks::TESTS,
    ];
    let trials = tests.concat().into_iter().map(|(name, test)| Trial::test(name, test));
    let trials = trials.chain(on_handles::trials()).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
