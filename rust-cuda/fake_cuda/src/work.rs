//! The work items of streams: copies, fills, launches, records of events, waits.

use std::fmt;

use crate::code::Code;
use crate::driver::{Outcome, State};
use crate::foreign;
use crate::kernels::Launch;
use crate::page_locked::PageLocked;
use crate::table::Handle;

/// A range of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
}

impl Span {
    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.start < other.start + other.bytes && other.start < self.start + self.bytes
    }
}

/// An access to memory that the device reaches, by the device's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) start: u64,
    pub(crate) bytes: usize,
    pub(crate) writes: bool,
}

impl Access {
    /// Whether both use a byte, and one of them writes it.
    pub(crate) fn conflicts(&self, other: &Self) -> bool {
        (self.writes || other.writes)
            && self.start < other.start + other.bytes as u64
            && other.start < self.start + self.bytes as u64
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of host memory at {:#x}", self.bytes, self.start)
    }
}

/// One side of a copy.
#[derive(Clone, Debug)]
pub(crate) enum Side {
    /// Host memory.
    Host(usize),
    /// Memory that the device can access.
    Device(u64),
    /// A copy of host memory from the time of the call, without gaps between rows.
    Staged(Vec<u8>),
}

/// Rows of a copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) bytes: usize,
    pub(crate) rows: usize,
}

/// A copy of rows.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    pub(crate) from: Side,
    pub(crate) from_pitch: usize,
    pub(crate) to: Side,
    pub(crate) to_pitch: usize,
    pub(crate) rows: Rows,
}

/// A fill of device memory with one value.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    /// The bytes of the value.
    pub(crate) value: Vec<u8>,
    pub(crate) count: usize,
}

/// A work item.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Copy(Copy),
    Fill(Fill),
    Launch(Box<Launch>),
    /// The launch of a kernel that a test has added.
    Foreign(Box<foreign::Launch>),
    /// Records an event.
    Record(Handle),
    /// Waits until a stream has reached a work item.
    Wait {
        stream: Handle,
        operation: u64,
    },
}

/// The number of bytes from the first to the last byte of rows.
pub(crate) fn extent(Rows { bytes, rows }: Rows, pitch: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * pitch + bytes }
}

impl Work {
    /// The name for messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Copy(_) => "a copy".to_owned(),
            Self::Fill(_) => "a memset".to_owned(),
            Self::Launch(launch) => format!("the kernel {}", launch.symbol()),
            Self::Foreign(launch) => format!("the kernel {}", launch.symbol()),
            Self::Record(_) => "the record of an event".to_owned(),
            Self::Wait { .. } => "a wait for another stream".to_owned(),
        }
    }

    /// The host memory that the work uses.
    pub(crate) fn host_spans(&self, page_locked: &PageLocked) -> Vec<Span> {
        match self {
            Self::Copy(Copy { from, from_pitch, to, to_pitch, rows }) => {
                let span = |side: &Side, pitch: usize| match side {
                    Side::Host(start) => Some(Span { start: *start, bytes: extent(*rows, pitch) }),
                    Side::Device(_) | Side::Staged(_) => None,
                };
                [span(from, *from_pitch), span(to, *to_pitch)].into_iter().flatten().collect()
            }
            Self::Launch(launch) => launch.host_spans(page_locked),
            Self::Fill(_) | Self::Foreign(_) | Self::Record(_) | Self::Wait { .. } => Vec::new(),
        }
    }

    /// The memory that the device reads and writes for the work. Page-locked memory has the host's address.
    pub(crate) fn accesses(&self) -> Vec<Access> {
        match self {
            Self::Copy(Copy { from, from_pitch, to, to_pitch, rows }) => {
                let access = |side: &Side, pitch: usize, writes: bool| {
                    let start = match side {
                        Side::Host(start) => *start as u64,
                        Side::Device(start) => *start,
                        Side::Staged(_) => return None,
                    };
                    Some(Access { start, bytes: extent(*rows, pitch), writes })
                };
                [access(from, *from_pitch, false), access(to, *to_pitch, true)].into_iter().flatten().collect()
            }
            Self::Fill(Fill { address, value, count }) => {
                vec![Access { start: *address, bytes: value.len() * count, writes: true }]
            }
            Self::Launch(launch) => launch.accesses(),
            Self::Foreign(launch) => launch.accesses(),
            Self::Record(_) | Self::Wait { .. } => Vec::new(),
        }
    }

    /// An address in each block of device memory that the work uses.
    pub(crate) fn device_addresses(&self) -> Vec<u64> {
        match self {
            Self::Copy(Copy { from, to, .. }) => {
                let address = |side: &Side| if let Side::Device(address) = side { Some(*address) } else { None };
                [address(from), address(to)].into_iter().flatten().collect()
            }
            Self::Fill(Fill { address, .. }) => vec![*address],
            Self::Launch(launch) => launch.addresses().collect(),
            Self::Foreign(launch) => launch.addresses().collect(),
            Self::Record(_) | Self::Wait { .. } => Vec::new(),
        }
    }
}

impl State {
    /// Whether the device can access all memory that a work item uses.
    pub(crate) fn check(&mut self, work: &Work) -> Outcome {
        match work {
            Work::Copy(Copy { from, from_pitch, to, to_pitch, rows }) => {
                for (side, pitch) in [(from, from_pitch), (to, to_pitch)] {
                    if let Side::Device(address) = side {
                        self.reachable(*address, extent(*rows, *pitch))?;
                    }
                }
                Ok(())
            }
            Work::Fill(fill) => self.reachable(fill.address, fill.value.len() * fill.count).map(|_| ()),
            // A kernel's pointers are checked when it runs.
            Work::Launch(_) | Work::Foreign(_) | Work::Record(_) | Work::Wait { .. } => Ok(()),
        }
    }

    /// Executes a work item that does not concern streams.
    pub(crate) fn perform(&mut self, work: &Work) -> Result<(), Code> {
        let found = match work {
            Work::Copy(copy) => self.copy(copy),
            Work::Fill(fill) => self.fill(fill),
            Work::Launch(launch) => return self.emulate(launch),
            Work::Foreign(launch) => return self.run_foreign(launch),
            Work::Record(_) | Work::Wait { .. } => Ok(()),
        };
        // The memory existed when the work was enqueued, so it was freed since.
        found.map_err(|failure| {
            self.counts.report(format!("{} uses memory that was freed: {:?}", work.name(), failure.misuse));
            Code::ILLEGAL_ADDRESS
        })
    }

    fn copy(&mut self, Copy { from, from_pitch, to, to_pitch, rows }: &Copy) -> Outcome {
        let mut pointer = |side: &Side, pitch: usize| match side {
            Side::Host(address) => Ok(std::ptr::with_exposed_provenance_mut::<u8>(*address)),
            Side::Device(address) => self.reachable(*address, extent(*rows, pitch)),
            // The device side is only read.
            Side::Staged(bytes) => Ok(bytes.as_ptr().cast_mut()),
        };
        let (source, target) = (pointer(from, *from_pitch)?, pointer(to, *to_pitch)?);
        for row in 0..rows.rows {
            // SAFETY: on the device side the rows lie in one block, checked above, and blocks stay while the state is
            // locked. On the host side the caller of the driver's function keeps the memory until it has waited for the
            // stream. Work on memory that a test has taken back is dropped before.
            unsafe {
                std::ptr::copy(source.add(row * from_pitch), target.add(row * to_pitch), rows.bytes);
            }
        }
        Ok(())
    }

    fn fill(&mut self, Fill { address, value, count }: &Fill) -> Outcome {
        let target = self.reachable(*address, value.len() * count)?;
        // SAFETY: the bytes lie in one block, checked above, and the locked state gives exclusive access.
        let bytes = unsafe { std::slice::from_raw_parts_mut(target, value.len() * count) };
        match value[..] {
            // One call of memset for the whole area.
            [value] => bytes.fill(value),
            _ => bytes.chunks_exact_mut(value.len()).for_each(|bytes| bytes.copy_from_slice(value)),
        }
        Ok(())
    }
}
