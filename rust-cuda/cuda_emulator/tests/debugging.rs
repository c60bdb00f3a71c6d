//! `gpu_println!` and `gpu_assert!` in the emulator.

use cuda_emulator::{Emulator, Error, Kind, Launch, Memory};
use cuda_std::prelude::*;
use cuda_std::{gpu_assert, gpu_println};

/// The text that a kernel prints, and its result.
fn printed(launch: &Launch, kernel: impl Fn() + Sync) -> (String, Result<(), Error>) {
    let mut memory = Memory::new();
    memory.collect_printed();
    let result = Emulator::new().launch("kernel", launch, &mut memory, kernel).map(drop);
    (memory.take_printed(), result)
}

#[test]
fn each_line_has_its_values() {
    let (text, result) = printed(&Launch::cover(1, 1), || {
        let (x, byte) = (-1.25_f32, 7_u8);
        gpu_println!("no value, 100 % {{}}");
        gpu_println!("{x} {x:9.3} {byte:03} {:08x} {}", x.to_bits(), u64::MAX);
    });
    result.unwrap();
    assert_eq!(text, "no value, 100 % {}\n-1.25    -1.250 007 bfa00000 18446744073709551615\n");
}

#[test]
fn lines_are_in_the_order_of_blocks() {
    let launch = Launch::flat((40, 1), (2, 1), 0);
    let (text, result) = printed(&launch, || {
        if thread::thread_idx_x() == 1 {
            gpu_println!("{}", thread::block_idx_x());
        }
    });
    result.unwrap();
    assert_eq!(text, (0..40).map(|block| format!("{block}\n")).collect::<String>());
}

#[test]
fn text_is_collected_only_when_asked_for() {
    let mut memory = Memory::new();
    let kernel = || gpu_println!("to standard output");
    Emulator::new().launch("kernel", &Launch::cover(1, 1), &mut memory, kernel).unwrap();
    assert_eq!(memory.take_printed(), "");
    memory.collect_printed();
    Emulator::new().launch("kernel", &Launch::cover(1, 1), &mut memory, || gpu_println!("a")).unwrap();
    Emulator::new().launch("kernel", &Launch::cover(1, 1), &mut memory, || gpu_println!("b")).unwrap();
    assert_eq!((memory.take_printed(), memory.take_printed()), ("a\nb\n".to_owned(), String::new()));
}

#[test]
fn a_failed_assertion_names_thread_and_line_and_no_missed_barrier() {
    let launch = Launch::flat((2, 1), (64, 1), 0);
    let line = line!() + 3;
    let (text, result) = printed(&launch, || {
        let (block, tx) = (thread::block_idx_x(), thread::thread_idx_x());
        gpu_assert!(block == 0 || tx < 40, "a message");
        // SAFETY: the emulator checks the barrier.
        unsafe { thread::sync_threads() };
        gpu_println!("block {block}");
    });
    let Err(Error::Defects(found)) = result else { panic!("{result:?}") };
    // Block 0 goes on. The other threads of block 1 wait in vain, which is no defect of its own.
    assert_eq!(text, "block 0\n".repeat(64));
    let [defect] = &found.defects[..] else { panic!("{found}") };
    assert_eq!((defect.times, defect.place.block, defect.location.unwrap().line()), (24, [1, 0, 0], line));
    assert_eq!(defect.kind, Kind::Assertion { message: "a message".to_owned() });
    let report = found.to_string();
    assert!(report.contains("running, assertion `a message` failed\n    at ") && report.contains("debugging.rs:"));
}

#[test]
fn without_a_message_the_condition_is_the_message() {
    let (_, result) = printed(&Launch::cover(1, 1), || gpu_assert!(thread::thread_idx_x() == 1));
    let report = result.unwrap_err().to_string();
    assert!(report.contains("assertion `thread::thread_idx_x() == 1` failed"), "{report}");
}

#[test]
fn a_condition_that_holds_stops_nothing() {
    let (text, result) = printed(&Launch::cover(1, 1), || {
        gpu_assert!(thread::thread_idx_x() == 0);
        gpu_println!("on");
    });
    result.unwrap();
    assert_eq!(text, "on\n");
}
