//! The counts and the reports of a launch, and the order of its threads.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::undocumented_unsafe_blocks)]

use cuda_emulator::{Emulator, Launch, Memory, Role};
use cuda_std::prelude::*;

/// Its results depend on the order of the threads.
#[kernel]
pub unsafe fn depends_on_order(data: GlobalMut<u32>) {
    let seen = unsafe { data.load(0) };
    unsafe { data.store(0, seen + 1) };
    unsafe { data.store(1 + thread::thread_rank() as isize, seen) };
}

#[test]
fn the_order_of_threads_is_the_seed_s() {
    let order = |seed| {
        let mut memory = Memory::new();
        let data = memory.upload("data", &[0_u32; 33]);
        let d = data.global_mut();
        let launch = Launch::flat((1, 1), (32, 1), 0);
        let emulator = Emulator::new().seed(seed);
        let error = emulator.launch("order", &launch, &mut memory, || unsafe { depends_on_order(d) }).unwrap_err();
        assert!(error.to_string().contains(&format!("seed {seed})")), "{error}");
        memory.download(&data)
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

/// Reads a column of a tile. Without padding all words of the column are in one bank.
#[kernel]
pub unsafe fn column(result: GlobalMut<f32>, pitch: u32) {
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let tile = Shared::<f32>::dynamic();
    unsafe { tile.store(ty * pitch + tx, 1.0) };
    unsafe { thread::sync_threads() };
    unsafe { result.store((ty * 32 + tx) as isize, tile.load(tx * pitch + ty)) };
}

#[test]
fn counts_are_those_of_the_addresses() {
    let counted = |pitch: u32| {
        let mut memory = Memory::new();
        let result = memory.allocate::<f32>("result", 1024, Role::Output);
        let r = result.global_mut();
        let launch = Launch::flat((1, 1), (32, 32), 33 * 32 * 4);
        let emulator = Emulator::new().counting(true);
        emulator.launch("column", &launch, &mut memory, || unsafe { column(r, pitch) }).unwrap()
    };
    let counts = counted(32);
    assert_eq!((counts.threads, counts.barriers), (1024, 32));
    assert_eq!((counts.shared_stores.instructions, counts.shared_stores.transactions), (32, 32));
    assert_eq!((counts.shared_loads.instructions, counts.shared_loads.transactions), (32, 1024));
    assert_eq!(counts.bank_conflicts(), 31 * 32);
    assert_eq!((counts.global_stores.transactions, counts.global_stores.efficiency()), (4 * 32, 1.0));
    assert_eq!(counted(33).bank_conflicts(), 0);
}

/// Sums four elements to the left and to the right of each element, as far as they are inside.
///
/// # Safety
/// - Both arrays hold 32 elements.
#[kernel]
pub unsafe fn taps(from: Global<f32>, to: GlobalMut<f32>) {
    let x = thread::thread_idx_x() as i32;
    let mut sum = 0.0;
    for l in warp::lockstep(-4..5) {
        if x + l >= 0 && x + l < 32 {
            sum += unsafe { from.load((x + l) as isize) };
        }
    }
    unsafe { to.store(x as isize, sum) };
}

/// Tap l reads elements max(l, 0) to min(31 + l, 31). These are 28 to 32 neighbours in 4 sectors.
#[test]
fn skipped_iterations_are_counted_in_lockstep() {
    let mut memory = Memory::new();
    let from = memory.upload("from", &[1.0_f32; 32]);
    let to = memory.allocate::<f32>("to", 32, Role::Output);
    let (f, t) = (from.global(), to.global_mut());
    let launch = Launch::flat((1, 1), (32, 1), 0);
    let emulator = Emulator::new().counting(true);
    let counts = emulator.launch("taps", &launch, &mut memory, || unsafe { taps(f, t) }).unwrap();
    let loads = counts.global_loads;
    assert_eq!((loads.instructions, loads.threads, loads.transactions), (9, 32 * 9 - 2 * (1 + 2 + 3 + 4), 9 * 4));
    assert_eq!((counts.global_stores.instructions, counts.global_stores.transactions), (1, 4));
    assert_eq!(memory.download(&to)[..5], [5.0, 6.0, 7.0, 8.0, 9.0]);
}

/// `main` shows the `Debug` text of an error that it returns.
#[test]
fn debug_is_the_report() {
    let launch = Launch::flat((1, 1), (2048, 1), 0);
    let error = Emulator::new().launch("none", &launch, &mut Memory::new(), || ()).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
}
