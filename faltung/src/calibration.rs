//! Coefficients of the cost model that were measured on this machine, in a folder of the user.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use etcetera::BaseStrategy as _;

use crate::plan::cost::Costs;
use crate::{Error, Result};

/// The file with the coefficients for devices of a name, in the user's folder for caches. None where there is no such
/// folder.
///
/// On Linux that is `$XDG_CACHE_HOME/faltung`, or else `~/.cache/faltung`.
#[must_use]
pub fn file(device: &str) -> Option<PathBuf> {
    let name: String =
        device.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    Some(etcetera::choose_base_strategy().ok()?.cache_dir().join("faltung").join(name + ".csv"))
}

/// Reads a file that [`Costs`] were written to. None if it is not there.
///
/// # Errors
/// [`Error::Calibration`] if it can't be read, or if it is of other kernels than this library's.
pub fn read(path: &Path) -> Result<Option<Costs>> {
    let error = |reason: String| Error::Calibration { path: path.to_owned(), reason };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(reason) => return Err(error(reason.to_string())),
    };
    let costs: Costs = text.parse().map_err(|reason: Error| error(reason.to_string()))?;
    if costs.kernels != KERNELS {
        return Err(error("it was measured with kernels of another version".to_owned()));
    }
    Ok(Some(costs))
}

/// The kernels of this library, as [`Costs::kernels`] names them.
#[cfg(feature = "cuda")]
pub const KERNELS: &str = kernels_gpu::ptx::SOURCE_HASH;
/// Without PTX nothing is measured.
#[cfg(not(feature = "cuda"))]
pub const KERNELS: &str = "none";

/// What was measured for devices of a name, read once in the life of the program. None if there is nothing, or if it
/// can't be used.
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "only CUDA devices are measured"))]
pub(crate) fn of_device(name: &str) -> Option<&'static Costs> {
    static READ: Mutex<Option<HashMap<String, Option<&'static Costs>>>> = Mutex::new(None);
    let mut all = READ.lock().unwrap_or_else(PoisonError::into_inner);
    *all.get_or_insert_default().entry(name.to_owned()).or_insert_with(|| {
        let costs = file(name).and_then(|path| read(&path).ok().flatten())?;
        Some(Box::leak(Box::new(costs)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device.csv");
        assert_eq!(read(&path), Ok(None));
        let shipped = Costs::h100();
        let own = Costs { device: "A, B".into(), kernels: KERNELS.into(), ..shipped.clone() };
        std::fs::write(&path, own.to_string()).unwrap();
        assert_eq!(read(&path), Ok(Some(Costs { device: "A  B".into(), ..own.clone() })));
        // Of other kernels, cut off, and with a negative coefficient.
        let text = own.to_string();
        let lines = text.lines().count();
        let cut: Vec<_> = text.lines().take(lines - 1).chain([&text.lines().last().unwrap()[..20]]).collect();
        for wrong in [text.replace(KERNELS, "other"), cut.join("\n"), text.replace("e0,", "e0,-1,"), String::new()] {
            std::fs::write(&path, wrong).unwrap();
            assert!(matches!(read(&path), Err(Error::Calibration { .. })));
        }
    }

    #[test]
    fn devices_have_files_of_their_own() {
        let name = |device| file(device).map(|path| path.file_name().unwrap().to_owned());
        assert_eq!(name("NVIDIA H100 80GB HBM3"), Some("nvidia-h100-80gb-hbm3.csv".into()));
        assert_eq!(name("../../x"), Some("------x.csv".into()));
    }
}
