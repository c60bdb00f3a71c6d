//! The error classes of NVIDIA's compute-sanitizer: a planted defect for each that is found and that no other test has.
//!
//! The table in `docs/emulator.md` names the test of each class. A test here compares both.
// The kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks, clippy::if_same_then_else)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cuda_emulator::{Defect, Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::prelude::*;
use cuda_std::warp::masked;

/// The defects of a launch of one block with 1 KiB of shared memory.
fn defects(threads: u32, memory: &mut Memory, kernel: impl Fn() + Sync) -> Vec<Defect> {
    match Emulator::new().launch("kernel", &Launch::flat((1, 1), (threads, 1), 1024), memory, kernel) {
        Ok(_) => Vec::new(),
        Err(Error::Defects(found)) => found.defects,
        Err(error) => panic!("{error}"),
    }
}

/// The text of the one defect of a launch of one block.
fn one(threads: u32, kernel: impl Fn() + Sync) -> String {
    let found = defects(threads, &mut Memory::new(), kernel);
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].to_string()
}

/// Reads an element of an array in local memory.
#[kernel]
pub unsafe fn local_at(to: GlobalMut<u32>, index: u32) {
    let squares: [u32; 4] = std::array::from_fn(|i| (i * i) as u32);
    unsafe { to.store(0, squares[index as usize]) };
}

#[test]
fn an_index_out_of_a_local_array() {
    let mut memory = Memory::new();
    let to = memory.allocate::<u32>("to", 1, Role::Scratch).global_mut();
    assert!(defects(1, &mut memory, || unsafe { local_at(to, 3) }).is_empty());
    let found = defects(1, &mut memory, || unsafe { local_at(to, 4) });
    let [Defect { kind: Kind::Panic { message, .. }, .. }] = &found[..] else { panic!("{found:#?}") };
    assert!(message.contains("the len is 4 but the index is 4"), "{message}");
}

/// Reads 8 bytes of shared memory at element `at` of 4 bytes.
#[kernel]
pub unsafe fn wide_load(at: u32) {
    let tile = Shared::<u32>::dynamic();
    for i in 0..4 {
        unsafe { tile.store(i, i) };
    }
    let _ = unsafe { tile.offset(at).cast::<u64>().load(0) };
}

#[test]
fn a_misaligned_access_to_shared_memory() {
    assert!(defects(1, &mut Memory::new(), || unsafe { wide_load(2) }).is_empty());
    let text = one(1, || unsafe { wide_load(1) });
    assert!(text.contains("read of 8 bytes at byte 4 of shared memory, misaligned"), "{text}");
}

/// The first threads of two warps access one element of shared memory, one after the other. Each writes or reads.
///
/// The second thread waits in a loop until the first one is done. A relaxed atomic access to global memory tells it.
/// This orders the two accesses in time, but not in the memory model.
#[kernel]
pub unsafe fn two_accesses(turn: GlobalMut<u32>, first_writes: u32, second_writes: u32, barrier: u32) {
    let cell = Shared::<u32>::dynamic();
    let access = |writes: u32| {
        if writes != 0 {
            unsafe { cell.store(0, 1) };
        } else {
            let _ = unsafe { cell.load(0) };
        }
    };
    let tx = thread::thread_idx_x();
    if tx == 1 {
        unsafe { cell.store(0, 0) };
    }
    unsafe { thread::sync_threads() };
    if tx == 0 {
        access(first_writes);
        unsafe { turn.atomic_add(0, 1) };
    }
    if barrier != 0 {
        unsafe { thread::sync_threads() };
    }
    if tx == 32 {
        while unsafe { turn.atomic_add(0, 0) } == 0 {}
        access(second_writes);
    }
}

/// The report of the race of [`two_accesses`]: the second access, and the words about the first one.
fn hazard(first_writes: u32, second_writes: u32) -> String {
    let run = |barrier| {
        let mut memory = Memory::new();
        let turn = memory.upload("turn", &[0]).global_mut();
        defects(64, &mut memory, || unsafe { two_accesses(turn, first_writes, second_writes, barrier) })
    };
    assert!(run(1).is_empty(), "with a barrier between");
    let found = run(0);
    assert_eq!(found.len(), 1, "{found:#?}");
    let text = found[0].to_string();
    assert!(text.contains("thread (32, 0, 0) of block (0, 0, 0)") && text.contains("thread (0, 0, 0)"), "{text}");
    text
}

#[test]
fn write_after_write() {
    let text = hazard(1, 1);
    assert!(text.contains("write of 4 bytes at byte 0 of shared memory, a race: written by"), "{text}");
}

#[test]
fn write_after_read() {
    let text = hazard(0, 1);
    assert!(text.contains("write of 4 bytes at byte 0 of shared memory, a race: read by"), "{text}");
}

#[test]
fn read_after_write() {
    let text = hazard(1, 0);
    assert!(text.contains("read of 4 bytes at byte 0 of shared memory, a race: written by"), "{text}");
    // Two reads are no hazard.
    let mut memory = Memory::new();
    let turn = memory.upload("turn", &[0]).global_mut();
    assert!(defects(64, &mut memory, || unsafe { two_accesses(turn, 0, 0, 0) }).is_empty());
}

/// The lanes of one warp wait at two barriers of the block.
#[kernel]
pub unsafe fn diverged_barriers(lanes: u32) {
    if thread::thread_idx_x() < lanes {
        unsafe { thread::sync_threads() };
    } else {
        unsafe { thread::sync_threads() };
    }
}

#[test]
fn a_barrier_in_a_diverged_warp() {
    assert!(defects(32, &mut Memory::new(), || unsafe { diverged_barriers(32) }).is_empty());
    let text = one(32, || unsafe { diverged_barriers(16) });
    assert!(
        text.contains("waiting at a barrier, which thread (") && text.contains("never reaches: it waits at"),
        "{text}"
    );
}

/// The lanes of a warp synchronise, each with its own mask.
#[kernel]
pub unsafe fn masks_of_halves(low: u32, high: u32) {
    let mask = if thread::thread_idx_x() < 16 { low } else { high };
    unsafe { masked::sync_warp(mask) };
}

#[test]
fn a_lane_that_is_not_in_its_mask() {
    assert!(defects(32, &mut Memory::new(), || unsafe { masks_of_halves(0xffff, 0xffff_0000) }).is_empty());
    let text = one(32, || unsafe { masks_of_halves(0xffff, 0xfffe_0000) });
    assert!(text.contains("thread (16, 0, 0)") && text.contains("whose mask it is not in"), "{text}");
    let text = one(32, || unsafe { masks_of_halves(0, 0xffff_0000) });
    assert!(text.contains("whose mask it is not in"), "{text}");
}

#[test]
fn lanes_with_different_masks() {
    let text = one(32, || unsafe { masks_of_halves(u32::MAX, 0xffff_0000) });
    assert!(text.contains("waiting at a warp collective, which thread ("), "{text}");
}

/// The names `file::test` of all tests of this crate.
fn tests() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let text = fs::read_to_string(&file).unwrap();
        let stem = file.file_stem().unwrap().to_str().unwrap();
        let after = text.split("\n#[test]\nfn ").skip(1);
        names.extend(after.map(|rest| format!("{stem}::{}", rest.split('(').next().unwrap())));
    }
    names
}

/// The rows of the tables in a section, as their cells.
fn rows(section: &str) -> Vec<Vec<&str>> {
    let lines = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

#[test]
fn the_table_names_tests_that_exist() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/emulator.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, section) = page.split_once("\n## Compared with compute-sanitizer\n").expect("the section");
    let section = section.split("\n## ").next().unwrap();
    let (tests, mut named) = (tests(), BTreeSet::new());
    let (mut found, mut classes) = (0, 0);
    for row in rows(section).into_iter().filter(|row| row[0] != "class") {
        let [class, verdict, examples] = row[..] else { panic!("three cells are expected: {row:?}") };
        let examples: Vec<&str> = examples.split('`').skip(1).step_by(2).collect();
        assert_eq!(verdict.starts_with("found"), !examples.is_empty(), "{class}: a test for each class that is found");
        assert!(
            ["found", "can't occur", "not found"].iter().any(|word| verdict.starts_with(word)),
            "{class}: {verdict}"
        );
        for example in examples {
            assert!(tests.contains(example), "{class}: there is no test {example}");
            named.insert(example);
        }
        (found, classes) = (found + usize::from(verdict.starts_with("found")), classes + 1);
    }
    assert!(classes >= 25 && found >= 15, "{found} of {classes}");
    let here = tests.iter().filter(|test| test.starts_with("sanitizer::"));
    for test in here.filter(|test| *test != "sanitizer::the_table_names_tests_that_exist") {
        assert!(named.contains(&**test), "the table does not name {test}");
    }
}
