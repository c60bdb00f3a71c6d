//! `ldmatrix` in the emulator: its defects. `cuda_std_check` compares its results.

use cuda_emulator::{Emulator, Launch, Memory};
use cuda_std::ldmatrix::{ldmatrix_x1, ldmatrix_x4, ldmatrix_x4_trans};
use cuda_std::prelude::*;

/// The report of a kernel of one warp with 32 rows of shared memory, of which lane `i` writes row `i`.
fn report(kernel: impl Fn(Shared<u16>) + Sync) -> Result<(), String> {
    let launch = Launch::flat((1, 1), (32, 1), 32 * 16);
    let kernel = || {
        let tile = Shared::<u16>::dynamic();
        for column in 0..8 {
            // SAFETY: the emulator checks every access.
            unsafe { tile.store(8 * thread::thread_idx_x() + column, 7) };
        }
        kernel(tile);
    };
    Emulator::new().launch("kernel", &launch, &mut Memory::new(), kernel).map(drop).map_err(|error| error.to_string())
}

#[test]
fn rows_behind_a_barrier_may_be_loaded() {
    let loads = |tile: Shared<u16>| {
        // SAFETY: the emulator checks every access.
        let words = unsafe {
            warp::sync_warp();
            ldmatrix_x4_trans(tile.offset(8 * (31 - warp::lane_id())))
        };
        assert_eq!(words, [0x0007_0007; 4]);
    };
    report(loads).unwrap();
}

#[test]
fn a_row_of_another_lane_without_a_barrier_is_a_race() {
    let found = report(|tile| {
        // SAFETY: the emulator checks every access.
        let _ = unsafe { ldmatrix_x4(tile.offset(8 * (31 - warp::lane_id()))) };
    });
    let found = found.unwrap_err();
    assert!(found.contains("read of 16 bytes") && found.contains("of shared memory, a race: written by"), "{found}");
}

#[test]
fn a_row_at_half_its_alignment_is_misaligned() {
    let found = report(|tile| {
        // SAFETY: the emulator checks every access.
        let _ = unsafe { ldmatrix_x1(tile.offset(4)) };
    });
    let found = found.unwrap_err();
    assert!(found.contains("read of 16 bytes at byte 8 of shared memory, misaligned"), "{found}");
}

#[test]
fn a_row_outside_of_shared_memory_is_out_of_bounds() {
    // Lanes 8 to 31 pass no row, so their addresses do not count.
    let row = |lane: u32| if lane == 7 { 8 * 32 } else { 8 * lane };
    let found = report(|tile| {
        let lane = warp::lane_id();
        // SAFETY: the emulator checks every access.
        unsafe {
            warp::sync_warp();
            let _ = ldmatrix_x1(tile.offset(if lane < 8 { row(lane) } else { 8 * 1000 }));
        }
    });
    let found = found.unwrap_err();
    assert!(found.contains("thread (7, 0, 0)") && found.contains("out of bounds"), "{found}");
    assert!(!found.contains("more time"), "{found}");
}

#[test]
fn a_lane_that_is_missing_is_reported() {
    let found = report(|tile| {
        if warp::lane_id() != 5 {
            // SAFETY: the emulator checks the lanes.
            let _ = unsafe { ldmatrix_x1(tile) };
        }
    });
    let found = found.unwrap_err();
    assert!(found.contains("waiting at a warp collective") && found.contains("never reaches"), "{found}");
}
