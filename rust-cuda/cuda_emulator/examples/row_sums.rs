//! The kernel of docs/emulator.md, and what the emulator says when its barrier is missing:
//! `cargo run -p cuda_emulator --example row_sums`.

use cuda_emulator::{Emulator, Error, Launch, Memory, Role};
use cuda_std::prelude::*;

/// Adds up each row of 32 neighbours. `source` and `result` hold one element per thread of the grid.
///
/// # Safety
/// As said. Without `barrier` it is wrong.
#[kernel]
pub unsafe fn row_sums(source: Global<f32>, result: GlobalMut<f32>, barrier: u32) {
    let i = thread::index_1d() as isize;
    let tx = thread::thread_idx_x();
    let tile = Shared::<f32>::dynamic();
    // SAFETY: i lies in both arrays, tx in the tile.
    unsafe { tile.store(tx, source.load(i)) };
    if barrier != 0 {
        // SAFETY: `barrier` is equal in all threads, and no thread has returned.
        unsafe { thread::sync_threads() };
    }
    let mut sum = 0.0;
    for l in 0..32 {
        // SAFETY: l lies in the tile.
        sum += unsafe { tile.load(l) };
    }
    // SAFETY: as above.
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
