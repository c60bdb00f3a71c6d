//! What a CUDA device is.

use crate::plan::Limits;
use crate::plan::cost::Costs;

/// What a CUDA device is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GpuInfo {
    /// Its number, as in `cuda:0`.
    pub number: usize,
    /// Its name, such as "NVIDIA H100 80GB HBM3".
    pub name: String,
    /// Major and minor compute capability.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Device memory in bytes.
    pub memory_bytes: usize,
    /// The most shared memory of a block in bytes, after opting in.
    pub shared_bytes_per_block: u64,
    /// The clock of the multiprocessors in MHz; 0 if the driver does not say.
    pub clock_mhz: u32,
    /// The bandwidth of device memory in GB/s, by its clock and the width of its bus; 0 if the driver does not say.
    pub memory_gb_s: u32,
    /// The second-level cache in bytes; 0 if the driver does not say.
    pub l2_bytes: u64,
    /// Its address on the PCI bus, such as "00000000:1b:00.0"; None if the driver does not say.
    pub pci_address: Option<String>,
    /// The newest CUDA version that the driver supports, major and minor.
    pub cuda: (u32, u32),
    /// The coefficients of the cost model that `host calibrate` measured on this machine, if it did.
    pub costs: Option<&'static Costs>,
}

impl GpuInfo {
    /// What planning needs to know.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            shared_bytes: self.shared_bytes_per_block,
            sm_count: self.sm_count,
            compute_capability: self.compute_capability,
            clock_mhz: self.clock_mhz,
            memory_gb_s: self.memory_gb_s,
            l2_bytes: self.l2_bytes,
            costs: Some(self.costs.unwrap_or_else(|| Costs::shipped_for(&self.name))),
        }
    }

    /// The newest CUDA version that the driver supports, as text, such as "13.0".
    #[must_use]
    pub fn driver(&self) -> String {
        format!("{}.{}", self.cuda.0, self.cuda.1)
    }
}

/// The CUDA devices of this machine.
///
/// # Errors
/// [`Error::NoDevice`](crate::Error::NoDevice) if there is no driver or it doesn't start; the reason is in its own
/// words. [`Error::DriverTooOld`](crate::Error::DriverTooOld).
pub fn devices() -> crate::Result<Vec<GpuInfo>> {
    #[cfg(feature = "cuda")]
    return crate::cuda::devices();
    #[cfg(not(feature = "cuda"))]
    Err(crate::Error::NoDevice { reason: "faltung was built without its feature \"cuda\"".to_owned(), source: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plans use what was measured on the machine, else what ships for the model.
    #[test]
    fn own_coefficients_come_first() {
        let own: &'static Costs = Box::leak(Box::new(Costs { device: "own".into(), ..Costs::h100().clone() }));
        let used = |name: &str, costs| {
            let info = GpuInfo {
                number: 0,
                name: name.into(),
                compute_capability: (9, 0),
                sm_count: 132,
                memory_bytes: 1 << 36,
                shared_bytes_per_block: 232_448,
                clock_mhz: 1980,
                memory_gb_s: 4814,
                l2_bytes: 50 << 20,
                pci_address: None,
                cuda: (13, 0),
                costs,
            };
            &*info.limits().costs().device
        };
        assert_eq!(used("NVIDIA H200", None), "NVIDIA H200");
        assert_eq!(used("NVIDIA H200", Some(own)), "own");
        assert_eq!(used("NVIDIA L4", None), "NVIDIA H100 80GB HBM3");
    }
}
