//! The last-level cache of the CPU, as Linux lists it, and how caches are evicted.

use std::collections::HashMap;
use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use faltung::{Device, DeviceMemory, Result, Stream};

/// How many times as large as the cache is what is written to evict it. A cache does not replace its oldest lines in
/// order.
const TIMES_THE_CACHE: u64 = 2;
/// The size of a last-level cache that the system does not tell.
const UNKNOWN_BYTES: u64 = 128 << 20;

/// Bytes of host memory that evict the caches of this process's threads.
pub(super) fn evicting_bytes() -> u64 {
    TIMES_THE_CACHE * last_level_bytes(rayon::current_num_threads()).unwrap_or(UNKNOWN_BYTES)
}

/// Memory that is larger than caches. A write of all of it leaves nothing else in them.
pub(super) struct Evictor {
    /// A part for each thread, because cores have caches of their own.
    parts: Vec<Mutex<Vec<u64>>>,
    /// The memory of a GPU, and a stream to write it in.
    gpu: Option<(DeviceMemory, Stream)>,
}

impl Evictor {
    /// For the caches of the CPU, and of the device if it is a GPU.
    ///
    /// # Errors
    /// As for [`Device::allocate`].
    pub(super) fn new(device: &Device) -> Result<Self> {
        let gpu = device.gpu().map(|info| -> Result<_> {
            Ok((device.allocate((TIMES_THE_CACHE * info.l2_bytes) as usize)?, device.stream()?))
        });
        Ok(Self { parts: parts(evicting_bytes(), rayon::current_num_threads()), gpu: gpu.transpose()? })
    }

    /// Evicts the caches of the device, in the order of its stream.
    ///
    /// # Errors
    /// As for [`DeviceMemory::fill`].
    pub(super) fn evict(&mut self, stream: &Stream) -> Result<()> {
        match &mut self.gpu {
            Some((memory, _)) => memory.fill(0xA5, stream),
            None => {
                write(&self.parts);
                Ok(())
            }
        }
    }

    /// Evicts the caches of the CPU and of the device, and waits.
    ///
    /// # Errors
    /// As for [`DeviceMemory::fill`].
    pub(super) fn evict_all(&mut self) -> Result<()> {
        write(&self.parts);
        let Some((memory, stream)) = &mut self.gpu else { return Ok(()) };
        memory.fill(0xA5, stream)?;
        stream.synchronize()
    }
}

/// So many bytes in equal parts.
fn parts(bytes: u64, count: usize) -> Vec<Mutex<Vec<u64>>> {
    let words = (bytes as usize).div_ceil(count * size_of::<u64>());
    (0..count).map(|_| Mutex::new(vec![0; words])).collect()
}

/// Writes each part in a thread of its own.
fn write(parts: &[Mutex<Vec<u64>>]) {
    rayon::broadcast(|thread| {
        let Some(part) = parts.get(thread.index()) else { return };
        let mut part = part.lock().unwrap_or_else(PoisonError::into_inner);
        // A value is read before it is written. Stores alone may go around the caches.
        part.iter_mut().for_each(|word| *word = word.wrapping_add(1));
        black_box(&mut *part);
    });
}

/// Bytes of the last-level caches that `threads` threads of this process can use together; None where the system does
/// not say.
pub(super) fn last_level_bytes(threads: usize) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    last_level_bytes_in(Path::new("/sys/devices/system/cpu"), &cpu_list(allowed)?, threads)
}

/// [`last_level_bytes`] of these CPUs in a folder with the form of `/sys/devices/system/cpu`.
fn last_level_bytes_in(folder: &Path, cpus: &[usize], threads: usize) -> Option<u64> {
    let mut last_level = 0;
    // The CPUs that share a cache identify it.
    let mut caches = HashMap::new();
    for cpu in cpus {
        let Ok(entries) = fs::read_dir(folder.join(format!("cpu{cpu}/cache"))) else { continue };
        for entry in entries.flatten() {
            let read = |name| fs::read_to_string(entry.path().join(name)).ok().map(|text| text.trim().to_owned());
            let (Some(level), Some(kind), Some(size), Some(shared)) =
                (read("level"), read("type"), read("size"), read("shared_cpu_list"))
            else {
                continue; // no cache
            };
            let (level, size) = (level.parse::<u32>().ok()?, bytes(&size)?);
            if kind == "Instruction" || level < last_level {
                continue;
            }
            if level > last_level {
                last_level = level;
                caches.clear();
            }
            caches.insert(shared, size);
        }
    }
    let mut sizes: Vec<u64> = caches.into_values().collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let total: u64 = sizes.iter().take(threads).sum();
    (total > 0).then_some(total)
}

/// The numbers in a list such as `0-3,8`.
fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

/// The bytes of a size such as `32768K`.
fn bytes(text: &str) -> Option<u64> {
    text.strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pairs of CPUs. Each CPU has caches of level 1, each pair has one of level 3.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for cpu in 0..4 {
            let (pair, size) = [("0-1", "32768K"), ("2-3", "16384K")][cpu / 2];
            let caches = [("1", "Data", "32K", cpu.to_string()), ("1", "Instruction", "64K", cpu.to_string())];
            let caches = caches.into_iter().chain([("3", "Unified", size, pair.to_owned())]);
            for (index, (level, kind, size, shared)) in caches.enumerate() {
                let cache = folder.path().join(format!("cpu{cpu}/cache/index{index}"));
                fs::create_dir_all(&cache).unwrap();
                let files = [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", &shared)];
                for (name, text) in files {
                    fs::write(cache.join(name), format!("{text}\n")).unwrap();
                }
            }
        }
        folder
    }

    #[test]
    fn each_last_level_cache_counts_once() {
        let folder = folder();
        let bytes = |cpus: &[usize], threads| last_level_bytes_in(folder.path(), cpus, threads);
        assert_eq!(bytes(&[0, 1, 2, 3], 4), Some(48 << 20));
        assert_eq!(bytes(&[2, 3], 2), Some(16 << 20), "caches of other CPUs do not help");
        assert_eq!(bytes(&[0, 1, 2, 3], 1), Some(32 << 20), "a thread uses one cache");
        assert_eq!(bytes(&[7], 1), None);
    }

    /// A buffer of the size of the cache, a thread that writes nothing or a part that is skipped fails here.
    #[test]
    fn each_eviction_writes_more_than_the_cache() {
        let threads = rayon::current_num_threads();
        let parts = parts(1000 * threads as u64, threads);
        for round in 1..3 {
            write(&parts);
            let words: Vec<u64> = parts.iter().flat_map(|part| part.lock().unwrap().clone()).collect();
            assert!(words.len() == 125 * threads && words.iter().all(|word| *word == round), "round {round}");
        }
        assert!(last_level_bytes(threads).is_none_or(|bytes| evicting_bytes() > bytes));
        let mut evictor = Evictor::new(&Device::cpu()).unwrap();
        evictor.evict_all().unwrap();
        evictor.evict(&Device::cpu().stream().unwrap()).unwrap();
        let words: Vec<u64> = evictor.parts.iter().flat_map(|part| part.lock().unwrap().clone()).collect();
        assert!(8 * words.len() as u64 >= evicting_bytes() && words.iter().all(|word| *word == 2));
    }

    #[test]
    fn lists_and_sizes_are_read() {
        assert_eq!(cpu_list("\t0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!((cpu_list("0-"), cpu_list("")), (None, None));
        assert_eq!((bytes("32768K"), bytes("32"), bytes("xK")), (Some(32 << 20), None, None));
    }
}
