//! The kernel of docs/emulator.md, with its barrier and without.
//!
//! Run it with `cargo run -p cuda_emulator --example row_sums`.

use cuda_emulator::{Emulator, Error, Launch, Memory, Role};
use cuda_std::prelude::*;

/// Sums each row of 32 neighbours. With `barrier` 0 it has a race.
///
/// # Safety
/// - `source` and `result` hold one element for each thread of the grid.
/// - A block has 32 threads and 128 bytes of dynamic shared memory.
#[kernel]
pub unsafe fn row_sums(source: Global<f32>, result: GlobalMut<f32>, barrier: u32) {
    let i = thread::index_1d() as isize;
    let tx = thread::thread_idx_x();
    let tile = Shared::<f32>::dynamic();
    // SAFETY: i is below the number of threads of the grid, tx is below 32, and both are this thread's alone.
    unsafe { tile.store(tx, source.load(i)) };
    if barrier != 0 {
        // SAFETY: `barrier` is equal in all threads, and no thread has returned.
        unsafe { thread::sync_threads() };
    }
    let mut sum = 0.0;
    for l in 0..32 {
        // SAFETY: l is below 32, and the tile was written before the barrier.
        sum += unsafe { tile.load(l) };
    }
    // SAFETY: i is below the number of threads of the grid, and no other thread has it.
    unsafe { result.store(i, sum) };
}

fn main() -> Result<(), Error> {
    let launch = Launch::flat((2, 1), (32, 1), 32 * 4);
    for barrier in [1, 0] {
        let mut memory = Memory::new();
        let source = memory.upload("source", &[1.0_f32; 64]);
        let result = memory.allocate::<f32>("result", 64, Role::Output);
        let (from, to) = (source.global(), result.global_mut());
        // SAFETY: the emulator checks every access.
        let outcome =
            Emulator::new().launch("row_sums", &launch, &mut memory, || unsafe { row_sums(from, to, barrier) });
        match outcome {
            Ok(_) => println!("with the barrier: {:?} …", &memory.download(&result)[..4]),
            Err(error) => println!("without it:\n{error}"),
        }
    }
    Ok(())
}
