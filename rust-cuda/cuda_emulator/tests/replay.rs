//! The same seed gives the same report.
// The kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use std::process::Command;

use cuda_emulator::{Emulator, Launch, Memory, SEED_VARIABLE};
use cuda_std::prelude::*;

/// The number of elements of the arrays, and of threads of a block.
const WIDTH: u32 = 64;

/// Threads of one block race in shared memory and in global memory, and some read what nothing wrote.
#[kernel]
pub unsafe fn races_within_blocks(to: GlobalMut<u32>) {
    let (tx, block) = (thread::thread_idx_x(), thread::block_idx_x());
    let tile = Shared::<u32>::dynamic();
    unsafe { tile.store(tx / 2, tx) };
    let seen = unsafe { tile.load(tx / 3 + 5) };
    unsafe { to.store((block * WIDTH + seen % WIDTH) as isize, tx) };
}

/// Blocks race with each other in global memory.
#[kernel]
pub unsafe fn races_between_blocks(to: GlobalMut<u32>) {
    for step in 0..WIDTH {
        let at = ((thread::index_1d() + step) % WIDTH) as isize;
        unsafe { to.store(at, to.load(at).wrapping_mul(31).wrapping_add(thread::index_1d())) };
    }
}

/// The report of a launch of 40 blocks, and what it left in memory.
fn report(emulator: Emulator, kernel: unsafe fn(GlobalMut<u32>)) -> (String, Vec<u32>) {
    let mut memory = Memory::new();
    let to = memory.upload("to", &[0; 40 * WIDTH as usize]);
    let handle = to.global_mut();
    let launch = Launch::flat((40, 1), (WIDTH, 1), 4 * WIDTH);
    let error = emulator.launch("kernel", &launch, &mut memory, || unsafe { kernel(handle) }).unwrap_err();
    (error.to_string(), memory.download(&to))
}

#[test]
fn a_seed_repeats_what_happens_within_blocks() {
    let of_seed = |seed| report(Emulator::new().seed(seed), races_within_blocks);
    let first = of_seed(3);
    assert!(first.0.contains("a race") && first.0.ends_with("(threads in the order of seed 3)"), "{}", first.0);
    for host_threads in 1..20 {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(host_threads).build().unwrap();
        assert_eq!(pool.install(|| of_seed(3)), first);
    }
    assert_ne!(of_seed(4), first);
}

#[test]
fn blocks_in_order_repeat_races_between_them() {
    let of_seed = |seed| report(Emulator::new().seed(seed).in_order(true), races_between_blocks);
    let first = of_seed(3);
    assert!(first.0.contains("a race"), "{}", first.0);
    for _ in 0..20 {
        assert_eq!(of_seed(3), first);
    }
    assert_ne!(of_seed(4), first);
}

/// Prints the report of an emulator without a seed of its own. [`the_variable_sets_the_seed`] runs it.
#[test]
#[ignore = "a part of another test, which runs it with a variable of the environment"]
fn with_the_seed_of_the_environment() {
    println!("{}", report(Emulator::new(), races_within_blocks).0);
}

#[test]
fn the_variable_sets_the_seed() {
    let run = |seed: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", "with_the_seed_of_the_environment", "--nocapture"]);
        command.env_remove(SEED_VARIABLE);
        command.envs(seed.map(|seed| (SEED_VARIABLE, seed)));
        let output = command.output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let expected = report(Emulator::new().seed(9), races_within_blocks).0;
    let (passed, text) = run(Some("9"));
    assert!(passed && text.contains(&expected), "{text}");
    let (passed, text) = run(None);
    assert!(passed && text.contains("order of seed 1)"), "{text}");
    let (passed, text) = run(Some("nine"));
    assert!(!passed && text.contains("CUDA_EMULATOR_SEED must be an integer"), "{text}");
}
