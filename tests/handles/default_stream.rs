//! Work of the program in the legacy default stream, while the library works in its own streams.

use std::sync::atomic::{AtomicBool, Ordering};

use cust::sys;
use faltung::{Device, Image};

use super::context::{Restored, driver, enter_primary};
use super::{Checked, Test, ensure, equal, equal_values, filter, image, on_cpu, prepared, words};

pub(crate) const OF_CUDA: &[Test] =
    &[("streams_are_non_blocking", flags), ("small_images_beside_the_default_stream", beside_small_images)];

/// Streams have the flag `CU_STREAM_NON_BLOCKING`, which is 1.
fn flags(device: &Device) -> Checked {
    let host = Device::cpu().stream().map_err(words)?.as_raw();
    ensure(host.is_none(), || format!("a stream of the host has the handle {host:?}"))?;
    let stream = device.stream().map_err(words)?;
    let handle = stream.as_raw().ok_or("no handle")?;
    let _restored = Restored::keep();
    let _context = enter_primary(device)?;
    let mut flags = u32::MAX;
    // SAFETY: the stream is open, and the driver writes one number.
    driver("read the flags", unsafe { sys::cuStreamGetFlags(handle.cast(), &raw mut flags) })?;
    ensure(flags == 1, || format!("the flags of a stream are {flags}, not 1"))
}

/// One thread filters small images from host memory, with a new graph in each round. Another one works in the legacy
/// default stream, allocates memory, and waits for the context.
fn beside_small_images(device: &Device) -> Checked {
    let rounds = match device.gpu() {
        Some(gpu) if gpu.memory_bytes > 2 << 30 => 300,
        _ => 10,
    };
    let (has_begun, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut rounds = 0;
            while rounds == 0 || !has_ended.load(Ordering::Acquire) {
                in_default_stream(device, rounds)?;
                has_begun.store(true, Ordering::Release);
                rounds += 1;
            }
            Ok(())
        });
        while !has_begun.load(Ordering::Acquire) && !other.is_finished() {
            std::thread::yield_now();
        }
        let filtered = (0..rounds).try_for_each(|round| small_images(device, round));
        has_ended.store(true, Ordering::Release);
        let other: Checked = other.join().unwrap_or_else(|panic| Err(super::message(panic)));
        filtered.and(other.map_err(|error| format!("in the default stream: {error}")))
    })
}

/// Three runs of a new filter: in steps, by a new graph, and by that graph again. Then one from page-locked memory.
fn small_images(device: &Device, round: u64) -> Checked {
    let (filter, image) = (filter(3 + round as usize % 3, round), image::<f32>(48, 31, 1, round));
    let right: Image<f32> = on_cpu(&filter, &image)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    for run in 0..3 {
        equal(&format!("round {round}, run {run}"), &ready.apply::<f32, f32>(&image).map_err(words)?, &right)?;
    }
    let mut locked = [(); 2].map(|()| device.page_locked::<f32>(48 * 31));
    let [Ok(source), Ok(result)] = &mut locked else { return Err("no page-locked memory".to_owned()) };
    source.copy_from_slice(image.values());
    ready.apply_values(&source[..], &mut result[..]).map_err(words)?;
    equal_values(&format!("round {round}, page-locked"), result, right.values())?;
    // Without a graph there would be a note.
    ensure(ready.note().is_none(), || format!("round {round}: {:?}", ready.note()))
}

/// A copy, a memset and a copy back in the legacy default stream.
fn in_default_stream(device: &Device, round: usize) -> Checked {
    const BYTES: usize = 100_000;
    let _restored = Restored::keep();
    let _context = enter_primary(device)?;
    let (first, second) = (round as u8, !(round as u8));
    let (source, mut found) = (vec![first; BYTES], vec![0_u8; BYTES]);
    let mut address = 0;
    // SAFETY: the driver writes one address. The memory has the bytes, nobody else uses it, and it is freed at the end.
    unsafe {
        driver("allocate", sys::cuMemAlloc_v2(&raw mut address, BYTES))?;
        let copied = driver("copy", sys::cuMemcpyHtoD_v2(address, source.as_ptr().cast(), BYTES))
            .and_then(|()| driver("set", sys::cuMemsetD8_v2(address, second, BYTES / 2)))
            .and_then(|()| driver("copy back", sys::cuMemcpyDtoH_v2(found.as_mut_ptr().cast(), address, BYTES)))
            .and_then(|()| driver("wait for the context", sys::cuCtxSynchronize()));
        driver("free", sys::cuMemFree_v2(address))?;
        copied?;
    }
    let (set, copied) = found.split_at(BYTES / 2);
    let is_right = set.iter().all(|&byte| byte == second) && copied.iter().all(|&byte| byte == first);
    ensure(is_right, || format!("round {round}: other bytes"))
}
