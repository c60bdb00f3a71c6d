//! The memory that the control groups (cgroups) of this process leave to it. A container is such a group.
//!
//! `/proc/self/cgroup` names the group, `/proc/self/mountinfo` the folder that shows the groups. Version 1 and version
//! 2 may be mounted at the same time. A limit binds all groups below it, so each folder from the process's own up to
//! the mount point is asked. A container often sees its own group as the mount point; the limits above are then out of
//! sight.
//!
//! Bytes of the page cache count as used, although the kernel drops them before it ends a process. So they count as
//! free here, with reserve: all of the inactive ones and half of the active ones, without those that must be written
//! first. Swap is not counted.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of one version of cgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// Files with a limit in bytes, or `max`. Above `memory.high` the kernel slows a process down to nearly nothing.
    fn limits(self) -> &'static [&'static str] {
        match self {
            Self::One => &["memory.limit_in_bytes"],
            Self::Two => &["memory.max", "memory.high"],
        }
    }

    /// The file with the bytes that are in use.
    fn usage(self) -> &'static str {
        match self {
            Self::One => "memory.usage_in_bytes",
            Self::Two => "memory.current",
        }
    }

    /// Keys of `memory.stat`: page cache that is inactive, active, changed, and on its way to the disk. All of them
    /// include the groups below.
    fn page_cache(self) -> [&'static str; 4] {
        match self {
            Self::One => ["total_inactive_file", "total_active_file", "total_dirty", "total_writeback"],
            Self::Two => ["inactive_file", "active_file", "file_dirty", "file_writeback"],
        }
    }
}

/// A folder of a group that this process is in.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    version: Version,
    folder: PathBuf,
}

/// The groups of this process, each with those above it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups(Vec<Group>);

impl Groups {
    /// Finds the groups under `root`, which is `/` but in tests.
    pub(super) fn find(root: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
        let (membership, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let mut groups = Vec::new();
        for mount in mounts.lines().filter_map(Mount::parse) {
            let Some(path) = own_path(&membership, mount.version) else { continue };
            let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
            let own = match below(path, &mount.root) {
                Some(relative) => point.join(relative),
                None => point.clone(),
            };
            let folders = own.ancestors().take_while(|folder| folder.starts_with(&point));
            groups.extend(folders.map(|folder| Group { version: mount.version, folder: folder.to_owned() }));
        }
        Self(groups)
    }

    /// The bytes that can be had before the first of the limits; None if there is none.
    pub(super) fn free(&self) -> Option<u64> {
        self.0.iter().filter_map(Group::free).min()
    }
}

impl Group {
    fn free(&self) -> Option<u64> {
        let number = |name: &str| fs::read_to_string(self.folder.join(name)).ok()?.trim().parse::<u64>().ok();
        // Version 1 has no word for "no limit": it is the largest number of pages.
        const NO_LIMIT: u64 = 1 << 62;
        let limit =
            self.version.limits().iter().filter_map(|name| number(name)).filter(|&limit| limit < NO_LIMIT).min()?;
        let used = number(self.version.usage())?;
        let stat = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let [inactive, active, dirty, writeback] = self.version.page_cache().map(|key| statistic(&stat, key));
        let droppable = inactive.saturating_add(active / 2).saturating_sub(dirty.saturating_add(writeback));
        // The kernel's own part grows with what the process does, and its counters lag behind.
        let kept_back = limit / 32;
        Some(limit.saturating_sub(kept_back).saturating_sub(used.saturating_sub(droppable)))
    }
}

/// The number behind a key of `memory.stat`; 0 if it is missing.
fn statistic(stat: &str, key: &str) -> u64 {
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(found, _)| *found == key).and_then(|(_, value)| value.trim().parse().ok()).unwrap_or(0)
}

/// The path of this process's group: `NUMBER:CONTROLLERS:PATH`. Version 2 has the number 0 and no controllers.
fn own_path(membership: &str, version: Version) -> Option<&str> {
    membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let found = match version {
            Version::One => controllers.split(',').any(|controller| controller == "memory"),
            Version::Two => number == "0" && controllers.is_empty(),
        };
        found.then_some(path)
    })
}

/// A group's path relative to the group that is mounted; None if it lies elsewhere, as seen from another namespace.
fn below<'a>(path: &'a str, mounted: &Path) -> Option<&'a Path> {
    let relative = Path::new(path).strip_prefix(mounted).ok()?;
    relative.components().all(|part| matches!(part, std::path::Component::Normal(_))).then_some(relative)
}

/// A mounted hierarchy of groups that limits memory.
struct Mount {
    version: Version,
    /// The group that the mount point shows.
    root: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// A line of mountinfo: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELDS] - TYPE SOURCE OPTIONS`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, filesystem) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let (root, point) = (unescaped(mount.next()?), unescaped(mount.next()?));
        let mut filesystem = filesystem.split(' ');
        let (kind, options) = (filesystem.next()?, filesystem.nth(1)?);
        let version = match kind {
            "cgroup2" => Version::Two,
            "cgroup" if options.split(',').any(|option| option == "memory") => Version::One,
            _ => return None,
        };
        Some(Self { version, root, point })
    }
}

/// A path of mountinfo, where spaces and the like are three octal digits after a backslash.
fn unescaped(field: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        path += before;
        match after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if byte.is_ascii() => {
                path.push(char::from(byte));
                rest = &after[3..];
            }
            _ => {
                path.push('\\');
                rest = after;
            }
        }
    }
    (path + rest).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A root folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn free(files: &[(&str, &str)]) -> Option<u64> {
        Groups::find(root(files).path()).free()
    }

    const MOUNT_2: (&str, &str) = (
        "proc/self/mountinfo",
        "24 1 0:22 / / rw - ext4 /dev/x rw\n31 24 0:27 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
    );

    #[test]
    fn version_2_takes_the_smallest_limit_upward() {
        let files = [
            MOUNT_2,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.high", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1048576\n"),
            ("sys/fs/cgroup/a/memory.max", "335544320\n"),     // 320 MiB
            ("sys/fs/cgroup/a/memory.current", "104857600\n"), // 100 MiB
        ];
        assert_eq!(free(&files), Some(320 * MIB - 10 * MIB - 100 * MIB));
        // A limit of the group itself, and the page cache that can be dropped.
        let stat = "anon 5\ninactive_file 41943040\nactive_file 20971520\nfile_dirty 10485760\nfile_writeback 0\n";
        let mut more = files.to_vec();
        more[3].1 = "67108864\n"; // 64 MiB
        more[4].1 = "62914560\n"; // 60 MiB
        more.push(("sys/fs/cgroup/a/b/memory.stat", stat));
        // 60 MiB in use, of which 40 + 10 - 10 can be dropped.
        assert_eq!(free(&more), Some(64 * MIB - 2 * MIB - 20 * MIB));
    }

    #[test]
    fn version_1_has_its_own_names() {
        let files = [
            (
                "proc/self/mountinfo",
                "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 36 31 0:33 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n",
            ),
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:hugetlb,memory:/pod/one\n0::/\n"),
            ("sys/fs/cgroup/my memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/my memory/memory.usage_in_bytes", "9000000000\n"),
            ("sys/fs/cgroup/my memory/pod/memory.limit_in_bytes", "33554432\n"),
            ("sys/fs/cgroup/my memory/pod/memory.usage_in_bytes", "30408704\n"),
            ("sys/fs/cgroup/my memory/pod/memory.stat", "inactive_file 0\ntotal_inactive_file 2097152\n"),
            ("sys/fs/cgroup/my memory/pod/one/memory.limit_in_bytes", "3200000000\n"),
            ("sys/fs/cgroup/my memory/pod/one/memory.usage_in_bytes", "1000\n"),
        ];
        assert_eq!(free(&files), Some(32 * MIB - MIB - 29 * MIB + 2 * MIB));
        // Full is 0, not less.
        let mut full = files.to_vec();
        full[5].1 = "99000000\n";
        assert_eq!(free(&full), Some(0));
    }

    /// Without a namespace of its own a container sees the host's path, and its own group at the mount point; with one
    /// that it left, a path that leads out of the mount.
    #[test]
    fn a_container_sees_its_group_as_the_root() {
        for (mounted, path) in
            [("/docker/abc", "/docker/abc"), ("/", "/"), ("/", "/docker/abc"), ("/", "/../abc"), ("/x", "/y")]
        {
            let mounts = format!("31 24 0:27 {mounted} /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
            let membership = format!("0::{path}\n");
            let files = [
                ("proc/self/mountinfo", mounts.as_str()),
                ("proc/self/cgroup", membership.as_str()),
                ("sys/fs/cgroup/memory.max", "33554432\n"),
                ("sys/fs/cgroup/memory.current", "1048576\n"),
                ("sys/fs/abc/memory.max", "5\n"),
                ("sys/fs/abc/memory.current", "5\n"),
            ];
            assert_eq!(free(&files), Some(30 * MIB), "{mounted} {path}");
        }
    }

    #[test]
    fn what_is_missing_or_unlimited_is_no_limit() {
        assert_eq!(free(&[]), None);
        assert_eq!(free(&[MOUNT_2, ("proc/self/cgroup", "0::/a\n")]), None);
        let max = ("sys/fs/cgroup/a/memory.max", "max\n");
        assert_eq!(
            free(&[MOUNT_2, ("proc/self/cgroup", "0::/a\n"), max, ("sys/fs/cgroup/a/memory.current", "7\n")]),
            None
        );
        let odd = [
            ("proc/self/mountinfo", "x\n1 2 - cgroup2\n1 2 3 / /g\\0 rw - cgroup2 a b\n"),
            ("proc/self/cgroup", "0:\n:::\n"),
        ];
        assert_eq!(free(&odd), None);
    }
}
