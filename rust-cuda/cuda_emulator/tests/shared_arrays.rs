//! Shared arrays of fixed length: their bounds, and accesses beside them.
// Some of the kernels are wrong on purpose.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Emulator, Error, Kind, Launch, Memory, Role};
use cuda_std::prelude::*;

/// Reads and writes at the end of arrays. `way` 0 is right.
#[kernel]
pub unsafe fn ends(to: GlobalMut<u32>, way: u32) {
    let (first, second) = (shared_array![u32; 5], shared_array![u64; 3]);
    let dynamic = Shared::<u32>::dynamic();
    unsafe {
        for i in 0..5 {
            first.store(i, 10 + i);
        }
        for i in 0..3 {
            second.store(i, u64::from(20 + i) << 32);
        }
        dynamic.store(1, 30);
        match way {
            1 => first.store(5, 0),
            2 => drop(second.load(3)),
            3 => drop(first.atomic_add(7, 1)),
            4 => drop(first.as_shared().load(5)),
            5 => drop(dynamic.load(2)),
            6 => drop(first.as_shared().offset(1).cast::<u64>().load(0)),
            7 => drop(dynamic.load(1 << 20)),
            8 => thread::sync_threads(),
            _ => {}
        }
        to.store(0, first.load(4) + (second.load(2) >> 32) as u32 + dynamic.load(1));
    }
}

#[test]
fn arrays_end_where_they_end() {
    for (way, wanted) in [
        "",
        "access to element 5 of a shared array, out of bounds: the array has 5 elements",
        "access to element 3 of a shared array, out of bounds: the array has 3 elements",
        "access to element 7 of a shared array, out of bounds: the array has 5 elements",
        "shared_arrays.rs:11, out of bounds: the array has 5 elements",
        "read of 4 bytes at byte 8 of shared memory, out of bounds: the block has 8 bytes",
        "read of 8 bytes at element 1 of the shared array declared at rust-cuda/cuda_emulator/tests/shared_arrays.rs:11, \
         misaligned",
        "read of 4 bytes at byte 4194304 of shared memory, out of bounds: the block has 8 bytes",
        "",
    ]
    .into_iter()
    .enumerate()
    {
        let mut memory = Memory::new();
        let to = memory.allocate::<u32>("to", 1, Role::Scratch);
        let handle = to.global_mut();
        let launch = Launch::flat((1, 1), (1, 1), 8);
        let result = Emulator::new().launch("ends", &launch, &mut memory, || unsafe { ends(handle, way as u32) });
        match (wanted, result) {
            ("", result) => assert_eq!((result.is_ok(), memory.download(&to)), (true, vec![66])),
            (wanted, Err(error)) => {
                let text = error.to_string();
                assert!(text.contains(wanted) && text.contains("shared_arrays.rs:"), "{text}");
            }
            (wanted, Ok(_)) => panic!("not found: {wanted}"),
        }
    }
}

/// Reads what no thread of the block has written, or what another thread writes without a barrier between.
#[kernel]
pub unsafe fn unordered(to: GlobalMut<u32>, barrier: u32) {
    let tile = shared_array![u32; 32];
    let tx = thread::thread_idx_x();
    unsafe { tile.store(tx, tx) };
    if barrier != 0 {
        unsafe { thread::sync_threads() };
    }
    unsafe { to.store(thread::index_1d() as isize, tile.load(31 - tx)) };
}

#[test]
fn races_and_unwritten_elements_are_found_in_every_block() {
    for barrier in [1, 0] {
        let mut memory = Memory::new();
        let to = memory.allocate::<u32>("to", 96, Role::Output);
        let handle = to.global_mut();
        let launch = Launch::flat((3, 1), (32, 1), 0);
        let result =
            Emulator::new().launch("unordered", &launch, &mut memory, || unsafe { unordered(handle, barrier) });
        if barrier != 0 {
            assert!(result.is_ok() && memory.download(&to)[64..].iter().eq((0..32).rev().collect::<Vec<_>>().iter()));
            continue;
        }
        let Err(Error::Defects(found)) = result else { panic!("{result:?}") };
        let text = found.to_string();
        assert!(text.contains(" of the shared array declared at ") && !text.contains("byte 10485"), "{text}");
        let kinds = |wanted: fn(&Kind) -> bool| found.defects.iter().filter(|defect| wanted(&defect.kind)).count();
        let (races, unwritten) =
            (kinds(|kind| matches!(kind, Kind::Race { .. })), kinds(|kind| matches!(kind, Kind::Uninitialised)));
        assert!(races > 0 && unwritten > 0 && races + unwritten == found.defects.len(), "{found}");
        // In each of three blocks 32 reads are wrong, each in one way. Some writes race with an earlier read.
        assert!(found.defects.iter().map(|defect| defect.times).sum::<u64>() >= 96 / 2, "{found}");
    }
}

/// Declares arrays of 64,000 bytes in all.
#[kernel]
pub unsafe fn too_large() {
    let (first, second) = (shared_array![f32; 8000], shared_array![f32; 8000]);
    unsafe { first.store(0, 1.0) };
    unsafe { second.store(0, 1.0) };
}

#[test]
fn too_many_bytes_of_arrays_are_reported_at_the_declaration() {
    let result = Emulator::new().launch("too_large", &Launch::flat((1, 1), (1, 1), 0), &mut Memory::new(), || unsafe {
        too_large();
    });
    let text = result.unwrap_err().to_string();
    let wanted = "declaration of shared arrays of 64000 bytes in all, out of bounds: a block has at most 49152 bytes";
    assert!(text.contains(wanted) && text.contains("tests/shared_arrays.rs:"), "{text}");
}

#[test]
fn arrays_and_dynamic_shared_memory_share_the_limit_of_a_block() {
    let run = |shared_bytes| {
        let launch = Launch::flat((1, 1), (1, 1), shared_bytes);
        Emulator::new().launch("one_array", &launch, &mut Memory::new(), || unsafe { one_array() })
    };
    assert!(run(232_448 - 32_000).is_ok());
    let text = run(232_448 - 31_999).unwrap_err().to_string();
    let wanted = "declaration of shared arrays of 32000 bytes in all, beside 200449 bytes of dynamic shared memory, \
                  out of bounds: a block has at most 232448 bytes of shared memory";
    assert!(text.contains(wanted) && text.contains("tests/shared_arrays.rs:"), "{text}");
}

/// Declares an array of 32,000 bytes.
#[kernel]
pub unsafe fn one_array() {
    let array = shared_array![f32; 8000];
    unsafe { array.store(0, 1.0) };
}
