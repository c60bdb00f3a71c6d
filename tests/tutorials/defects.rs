//! The defects of the original kernels, and launches that the launcher refuses.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_emulator::{Emulator, Error as Found, Kind, Launch, Memory, Role};
use faltung::{Device, Error};
use host::tutorial::launch::{InBlocks, Launcher};
use kernels_gpu::cuda_std::prelude::*;
use kernels_gpu::tutorials::box_blur::{BLOCK, box_blur, box_blur_in_place};
use kernels_gpu::tutorials::box_separable::BoxSumColumns;
use kernels_gpu::tutorials::hpp::HppConstant;
use kernels_gpu::tutorials::mean_1d::MeanFilter1dShared;
use kernels_gpu::tutorials::numba::NumbaConvolve;
use kernels_gpu::tutorials::pointwise::AddConstant;
use libtest_mimic::Failed;

use crate::data::launcher;

/// Fails with these words unless `holds`.
fn require(holds: bool, words: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(words.into().into()) }
}

/// ROCm's kernel on one image races; on two it does not.
pub(crate) fn in_place() -> Result<(), Failed> {
    let run = |in_place: bool| {
        let mut memory = Memory::new();
        let image = memory.upload("image", &[7_u8; 40 * 20]);
        let result = memory.allocate::<u8>("result", 40 * 20, Role::Output);
        let mask = memory.upload("mask", &[1.0_f32 / 9.0; 9]);
        let (read, written, other, mask) = (image.global(), image.global_mut(), result.global_mut(), mask.global());
        Emulator::new().launch("box_blur", &Launch::flat((3, 2), BLOCK, 0), &mut memory, || {
            // SAFETY: the emulator checks every access.
            unsafe {
                if in_place {
                    box_blur_in_place(read, written, mask, 40, 20, 3, 3);
                } else {
                    box_blur(read, other, mask, 40, 20, 3, 3);
                }
            }
        })
    };
    require(run(false).is_ok(), "the kernel with two images has no defect")?;
    let Err(Found::Defects(found)) = run(true) else { return Err("the race was not found".into()) };
    require(
        found.defects.iter().any(|defect| matches!(defect.kind, Kind::Race { .. })),
        format!("a race was expected, found {:?}", found.defects),
    )
}

/// The notebook's naive mean: the left end mirrored, zeros beyond the right one.
unsafe fn notebook_naive(input: Global<f32>, output: GlobalMut<f32>, size: i32, radius: i32) {
    let i = thread::index_1d() as i32;
    if i >= size {
        return;
    }
    let mut sum = 0.0;
    for j in i - radius..=i + radius {
        if j < size {
            // SAFETY: the arrays of the test below are longer than the radius.
            sum += unsafe { input.load(j.abs() as isize) };
        }
    }
    // SAFETY: i lies in the output.
    unsafe { output.store(i as isize, sum / (2 * radius + 1) as f32) };
}

/// The notebook's mean through shared memory: zeros where a thread of the last block stands for no element, mirrored
/// beyond the block.
unsafe fn notebook_shared(input: Global<f32>, output: GlobalMut<f32>, size: i32, radius: i32) {
    let (block, tx) = (thread::block_dim_x() as i32, thread::thread_idx_x() as i32);
    let i = thread::index_1d() as i32;
    let tile = Shared::<f32>::dynamic();
    // SAFETY: positions lie in the input, as is asked or follows from the mirror, and in the tile.
    unsafe {
        tile.store((tx + radius) as u32, if i < size { input.load(i as isize) } else { 0.0 });
        if tx < radius {
            tile.store(tx as u32, input.load((i - radius).abs() as isize));
        }
        if tx >= block - radius {
            let right = i + radius;
            let from = if right < size { right } else { 2 * size - 2 - right };
            tile.store((tx + 2 * radius) as u32, input.load(from as isize));
        }
    }
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    let mut sum = 0.0;
    for j in 0..=2 * radius {
        // SAFETY: the tile was filled before the barrier.
        sum += unsafe { tile.load((tx + j) as u32) };
    }
    if i < size {
        // SAFETY: i lies in the output.
        unsafe { output.store(i as isize, sum / (2 * radius + 1) as f32) };
    }
}

/// The notebook's two means match where the last block has threads left over, and only there.
pub(crate) fn notebooks_ends() -> Result<(), Failed> {
    let (block, radius) = (256_u32, 8);
    for (length, expected) in [(10_000_usize, 0), (10_240, 8), (10_235, 3)] {
        let values: Vec<f32> = (0..length).map(|i| (100 + i * 7919 % 31) as f32).collect();
        let mut memory = Memory::new();
        let input = memory.upload("input", &values);
        let outputs = ["naive", "shared"].map(|name| memory.allocate::<f32>(name, length, Role::Output));
        let launch = Launch::flat((length.div_ceil(block as usize) as u32, 1), (block, 1), (block + 16) * 4);
        let (from, naive, shared) = (input.global(), outputs[0].global_mut(), outputs[1].global_mut());
        let emulator = Emulator::new();
        emulator.launch("naive", &launch, &mut memory, || {
            // SAFETY: the emulator checks every access.
            unsafe { notebook_naive(from, naive, length as i32, radius) }
        })?;
        emulator.launch("shared", &launch, &mut memory, || {
            // SAFETY: as above.
            unsafe { notebook_shared(from, shared, length as i32, radius) }
        })?;
        let [naive, shared] = outputs.map(|output| memory.download(&output));
        let differ = naive.iter().zip(&shared).filter(|(a, b)| a != b).count();
        require(differ == expected, format!("{length} elements: {differ} differ, {expected} were expected"))?;
    }
    Ok(())
}

/// The notebook's tree begins at half of the block, whatever that is.
unsafe fn notebook_tree(input: Global<f32>, output: GlobalMut<f32>) {
    let tx = thread::thread_idx_x();
    let sums = Shared::<f32>::dynamic();
    // SAFETY: an element and a place for each thread of the one block.
    unsafe { sums.store(tx, input.load(tx as isize)) };
    // SAFETY: all threads are here: no thread has returned, and no branch is around the barrier.
    unsafe { thread::sync_threads() };
    let mut stride = thread::block_dim_x() / 2;
    while stride > 0 {
        if tx < stride {
            // SAFETY: both lie in the block's memory.
            unsafe { sums.store(tx, sums.load(tx) + sums.load(tx + stride)) };
        }
        // SAFETY: all threads are here: the loop over strides depends on the size of the block alone.
        unsafe { thread::sync_threads() };
        stride /= 2;
    }
    if tx == 0 {
        // SAFETY: the output has one element.
        unsafe { output.store(0, sums.load(0)) };
    }
}

pub(crate) fn notebooks_tree() -> Result<(), Failed> {
    for (block, complete) in [(128_u32, true), (100, false)] {
        let mut memory = Memory::new();
        let input = memory.upload("input", &vec![1.0_f32; block as usize]);
        let output = memory.allocate::<f32>("output", 1, Role::Output);
        let (from, to) = (input.global(), output.global_mut());
        let launch = Launch::flat((1, 1), (block, 1), 4 * block);
        // SAFETY: the emulator checks every access.
        Emulator::new().launch("tree", &launch, &mut memory, || unsafe { notebook_tree(from, to) })?;
        let sum = memory.download(&output)[0];
        require((sum == block as f32) == complete, format!("block {block}: the sum is {sum}"))?;
    }
    Ok(())
}

/// A tile that is filled again while others still read it: the course's kernel without its second barrier.
unsafe fn refilled(input: Global<f32>, output: GlobalMut<f32>, barrier: bool) {
    let (tx, block) = (thread::thread_idx_x(), thread::block_dim_x());
    let tile = Shared::<f32>::dynamic();
    let mut sum = 0.0;
    for channel in 0..3 {
        // SAFETY: an element for each thread and channel, a place for each thread.
        unsafe { tile.store(tx, input.load((channel * block + tx) as isize)) };
        // SAFETY: all threads are here: the loop over channels is the same for all of them.
        unsafe { thread::sync_threads() };
        // SAFETY: the neighbour's place, filled before the barrier.
        sum += unsafe { tile.load((tx + 1) % block) };
        if barrier {
            // SAFETY: all threads are here: the condition is an argument of the kernel.
            unsafe { thread::sync_threads() };
        }
    }
    // SAFETY: an element for each thread.
    unsafe { output.store(tx as isize, sum) };
}

pub(crate) fn missing_barrier() -> Result<(), Failed> {
    for barrier in [true, false] {
        let mut memory = Memory::new();
        let input = memory.upload("input", &[1.0_f32; 3 * 64]);
        let output = memory.allocate::<f32>("output", 64, Role::Output);
        let (from, to) = (input.global(), output.global_mut());
        let launch = Launch::flat((1, 1), (64, 1), 256);
        // SAFETY: the emulator checks every access.
        let result =
            Emulator::new().launch("refilled", &launch, &mut memory, || unsafe { refilled(from, to, barrier) });
        require(result.is_ok() == barrier, format!("barrier {barrier}: {result:?}"))?;
    }
    Ok(())
}

fn with_launcher(work: impl FnOnce(&Launcher) -> Result<(), Failed>) -> Result<(), Failed> {
    work(&launcher(&Device::emulator(1))?)
}

pub(crate) fn short_arrays() -> Result<(), Failed> {
    with_launcher(|launcher| {
        let input = launcher.upload("input", &[1.0_f32; 10])?;
        let mut output = launcher.allocate("output", 9)?;
        let call = AddConstant { input: &input, output: &mut output, constant: 1.0, size: 10 };
        let result = launcher.launch(&InBlocks(32, call));
        require(
            matches!(result, Err(Error::Length { what: "output", required: 10, found: 9, .. })),
            format!("{result:?}"),
        )?;
        // The last row of a padded image may not be shorter.
        let image = launcher.upload("image", &[0.0_f32; 32 + 3])?;
        let mut result = launcher.allocate("result", 64)?;
        let call = HppConstant { image: &image, result: &mut result, width: 1, height: 2, pitch: 32 };
        let refused = launcher.launch(&call);
        require(matches!(refused, Err(Error::Length { what: "image", .. })), format!("{refused:?}"))?;
        let values = launcher.write(&mut { output }, &[0.0; 3]);
        require(matches!(values, Err(Error::Length { required: 9, found: 3, .. })), format!("{values:?}"))
    })
}

pub(crate) fn sizes() -> Result<(), Failed> {
    with_launcher(|launcher| {
        let input = launcher.upload("input", &[1.0_f32; 10])?;
        let mut output = launcher.allocate::<f32>("output", 10)?;
        for (size, block) in [(10, 0), (10, 1025), (1 << 29, 32)] {
            let (input, output) = (&input, &mut output);
            let refused = launcher.launch(&InBlocks(block, AddConstant { input, output, constant: 1.0, size }));
            let right = matches!(refused, Err(Error::TooLarge { .. } | Error::Number { .. }));
            require(right, format!("size {size}, block {block}: {refused:?}"))?;
        }
        for (radius, piece) in [(1, 0), (100_000, 200_001)] {
            let (input, output) = (&input, &mut output);
            let refused =
                launcher.launch(&InBlocks(256, MeanFilter1dShared { input, output, size: 10, radius, piece }));
            let right = matches!(refused, Err(Error::TooLarge { .. } | Error::Number { .. }));
            require(right, format!("radius {radius}, piece {piece}: {refused:?}"))?;
        }
        let sums = launcher.upload("sums", &[1_u32; 10])?;
        let mut result = launcher.allocate::<u8>("result", 10)?;
        let (width, height, mask_height, border) = (10, 1, 1, 0);
        for area in [0, 16_843_010] {
            let (sums, result) = (&sums, &mut result);
            let refused = launcher.launch(&BoxSumColumns { sums, result, width, height, mask_height, area, border });
            require(matches!(refused, Err(Error::Number { .. })), format!("area {area}: {refused:?}"))?;
        }
        // More columns of blocks than a grid has in y, where the tutorial's kernel has its columns.
        let (mask, image) = (&input, &input);
        let (rows, columns) = (1, 65_536 * 32);
        let mut result = launcher.allocate("result", 1)?;
        let call = NumbaConvolve { result: &mut result, mask, image, rows, columns, mask_rows: 1, mask_columns: 1 };
        require(launcher.launch(&call).is_err(), "65,536 blocks in y")
    })
}

pub(crate) fn other_launcher() -> Result<(), Failed> {
    let device = Device::emulator(1);
    let (one, other) = (launcher(&device)?, launcher(&device)?);
    let input = one.upload("input", &[1.0_f32])?;
    let mut output = other.allocate("output", 1)?;
    let call = InBlocks(1, AddConstant { input: &input, output: &mut output, constant: 1.0, size: 1 });
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let outcome = catch_unwind(AssertUnwindSafe(|| other.launch(&call)));
    std::panic::set_hook(hook);
    require(outcome.is_err(), "an array of another launcher was taken")
}

pub(crate) fn unwritten() -> Result<(), Failed> {
    with_launcher(|launcher| {
        let output = launcher.allocate::<f32>("output", 3)?;
        let found = launcher.download(&output);
        require(matches!(found, Err(Error::Emulator { .. })), format!("{found:?}"))
    })
}
