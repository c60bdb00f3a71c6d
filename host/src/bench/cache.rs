//! The last-level cache of the CPU, as Linux lists it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

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

    #[test]
    fn lists_and_sizes_are_read() {
        assert_eq!(cpu_list("\t0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!((cpu_list("0-"), cpu_list("")), (None, None));
        assert_eq!((bytes("32768K"), bytes("32"), bytes("xK")), (Some(32 << 20), None, None));
    }
}
