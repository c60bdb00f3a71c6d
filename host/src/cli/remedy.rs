//! What a machine lacks to run on a GPU, and the command that gets it.

use std::fs;
use std::path::Path;

use faltung::Error;
use serde::Serialize;

/// What is missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Remedy {
    /// In words.
    missing: String,
    /// The command that gets it; null if there is none, or if it depends on the system.
    command: Option<&'static str>,
}

impl std::fmt::Display for Remedy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.command {
            Some(command) => write!(f, "{}: {command}", self.missing),
            None => f.write_str(&self.missing),
        }
    }
}

/// What there is on this machine.
#[derive(Clone, Debug, Default)]
struct Found {
    /// The operating system is Linux within Windows (WSL 2) with a GPU.
    has_windows_gpu: bool,
    /// A graphics card or accelerator of NVIDIA is on the PCI bus.
    has_card: bool,
    /// The driver's part in the kernel of the operating system is loaded.
    has_module: bool,
    /// This is a container of Docker or Podman.
    is_container: bool,
    /// `CUDA_VISIBLE_DEVICES`.
    visible: Option<String>,
    /// `ID` of `/etc/os-release`.
    system: String,
}

impl Found {
    fn on_this_machine() -> Self {
        let exists = |path: &str| Path::new(path).exists();
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        Self {
            has_windows_gpu: exists("/dev/dxg"),
            has_card: has_card(Path::new("/sys/bus/pci/devices")),
            has_module: exists("/proc/driver/nvidia/version"),
            is_container: exists("/.dockerenv") || exists("/run/.containerenv"),
            visible: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
            system: system(&release).to_owned(),
        }
    }
}

/// Whether a device in the folder is a display controller or an accelerator of NVIDIA.
fn has_card(folder: &Path) -> bool {
    let devices = fs::read_dir(folder).into_iter().flatten().flatten();
    let read = |path: &Path, name: &str| fs::read_to_string(path.join(name)).unwrap_or_default();
    let mut folders = devices.map(|device| device.path());
    folders.any(|path| {
        let class = read(&path, "class");
        read(&path, "vendor").trim() == "0x10de" && (class.starts_with("0x03") || class.starts_with("0x12"))
    })
}

/// `ID` of the text of `/etc/os-release`.
fn system(release: &str) -> &str {
    release.lines().find_map(|line| line.strip_prefix("ID=")).unwrap_or_default().trim_matches('"')
}

/// What this machine lacks. `error` is why no device can be used; None if the driver works.
pub(super) fn remedy(error: Option<&Error>, devices: usize) -> Option<Remedy> {
    of(error, devices, &Found::on_this_machine())
}

/// `CUresult` of a driver whose library and kernel module are of different versions.
const SYSTEM_DRIVER_MISMATCH: u32 = 803;
/// `CUresult` of a driver that sees no device.
const NO_DEVICE: u32 = 100;

fn of(error: Option<&Error>, devices: usize, found: &Found) -> Option<Remedy> {
    if error.is_none() && devices > 0 {
        return None;
    }
    let remedy = |missing: &str, command| Some(Remedy { missing: missing.to_owned(), command });
    let (code, too_old) = match error {
        None => (Some(NO_DEVICE), false),
        Some(Error::NoDevice { source, .. }) => (source.as_ref().map(|source| source.code()), false),
        Some(Error::DriverTooOld { .. }) => (None, true),
        Some(_) => return None,
    };
    let install = match found.system.as_str() {
        "ubuntu" => Some("sudo ubuntu-drivers install"),
        "debian" => Some("sudo apt install nvidia-driver"),
        "arch" => Some("sudo pacman -S nvidia-open"),
        _ => None,
    };
    match (code, &found.visible) {
        _ if too_old => remedy("a newer driver", install),
        (Some(SYSTEM_DRIVER_MISMATCH), _) => {
            remedy("a restart: the driver was updated, and the old one is still loaded", Some("sudo reboot"))
        }
        (Some(NO_DEVICE), Some(visible)) => Some(Remedy {
            missing: format!("a device in CUDA_VISIBLE_DEVICES, which is {visible:?}"),
            command: Some("unset CUDA_VISIBLE_DEVICES"),
        }),
        // The library is there.
        (Some(_), _) if !found.has_module && !found.has_windows_gpu && !found.is_container => {
            remedy("the driver's kernel module, which is not loaded", Some("sudo modprobe nvidia"))
        }
        _ if found.has_windows_gpu => remedy(
            "the driver of Windows, or its folder for the loader",
            Some("export LD_LIBRARY_PATH=/usr/lib/wsl/lib"),
        ),
        _ if found.is_container && (found.has_module || found.has_card) => {
            remedy("the GPU in this container, which is started with", Some("docker run --gpus all"))
        }
        (Some(_), _) => remedy("a device that the driver can use; its state is shown by", Some("nvidia-smi")),
        _ if found.has_card => remedy("NVIDIA's driver", install),
        _ => remedy("an NVIDIA GPU: none is on the PCI bus", None),
    }
}

#[cfg(test)]
mod tests {
    use faltung::DriverError;

    use super::*;

    fn no_device(code: Option<u32>) -> Error {
        Error::NoDevice { reason: String::new(), source: code.map(|code| DriverError::new(code, "", "")) }
    }

    fn text(error: &Error, found: Found) -> String {
        of(Some(error), 0, &found).expect("something is missing").to_string()
    }

    #[test]
    fn each_lack_has_its_command() {
        let card = || Found { has_card: true, system: "ubuntu".to_owned(), ..Found::default() };
        let missing = no_device(None);
        assert_eq!(text(&missing, card()), "NVIDIA's driver: sudo ubuntu-drivers install");
        let other = Found { system: "plan9".to_owned(), ..card() };
        assert_eq!(text(&missing, other), "NVIDIA's driver");
        assert_eq!(text(&missing, Found::default()), "an NVIDIA GPU: none is on the PCI bus");
        let container = Found { is_container: true, ..card() };
        assert!(text(&missing, container.clone()).ends_with(": docker run --gpus all"));
        assert!(text(&no_device(Some(NO_DEVICE)), container).ends_with(": docker run --gpus all"));
        let windows = Found { has_windows_gpu: true, ..Found::default() };
        assert!(text(&missing, windows).ends_with("=/usr/lib/wsl/lib"));

        let hidden = Found { visible: Some("7".to_owned()), has_module: true, ..card() };
        let expected = "a device in CUDA_VISIBLE_DEVICES, which is \"7\": unset CUDA_VISIBLE_DEVICES";
        assert_eq!(text(&no_device(Some(NO_DEVICE)), hidden.clone()), expected);
        assert_eq!(of(None, 0, &hidden).unwrap().to_string(), expected);
        assert!(text(&no_device(Some(SYSTEM_DRIVER_MISMATCH)), hidden).ends_with(": sudo reboot"));
        assert!(text(&no_device(Some(999)), card()).ends_with(": sudo modprobe nvidia"));
        let broken = Found { has_module: true, ..card() };
        assert!(text(&no_device(Some(999)), broken).ends_with(": nvidia-smi"));
        let old = Error::DriverTooOld { required: String::new(), found: String::new(), source: None };
        assert_eq!(text(&old, card()), "a newer driver: sudo ubuntu-drivers install");
        assert_eq!(of(None, 1, &card()), None);
    }

    #[test]
    fn cards_are_found_on_the_bus() {
        let bus = tempfile::tempdir().unwrap();
        let add = |name: &str, vendor: &str, class: &str| {
            let folder = bus.path().join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("vendor"), vendor).unwrap();
            fs::write(folder.join("class"), class).unwrap();
        };
        assert!(!has_card(bus.path()) && !has_card(&bus.path().join("none")));
        add("0", "0x1002\n", "0x030000\n");
        // The sound of a graphics card.
        add("1", "0x10de\n", "0x040300\n");
        assert!(!has_card(bus.path()));
        add("2", "0x10de\n", "0x030200\n");
        assert!(has_card(bus.path()));
        assert_eq!(system("NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n"), "debian");
        assert_eq!((system("ID=\"rocky\"\n"), system("")), ("rocky", ""));
    }
}
