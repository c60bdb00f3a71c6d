//! Device memory as arrays of the emulator.

use cuda_emulator::{Buffer, bytes_of};
use kernels_gpu::cuda_std::{Global, GlobalMut, Scalar};
use kernels_gpu::ndimage::Instance;
use kernels_gpu::ndimage::element::ResultKind;
use kernels_gpu::ndimage::params::{ArrayParams, Axis};

use crate::code::Code;
use crate::driver::State;
use crate::memory::ALIGNMENT;

/// The bytes of an array with any strides, around its first element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArraySpan {
    /// Bytes before the first element.
    pub(crate) before: u64,
    bytes: usize,
    /// Bytes of an element.
    element: usize,
}

impl ArraySpan {
    fn new(element: usize, axes: impl Iterator<Item = (i64, i64)>) -> Self {
        let (mut before, mut after) = (0, element as u64);
        for (length, stride) in axes {
            let bytes = (length - 1).unsigned_abs() * stride.unsigned_abs();
            if stride < 0 {
                before += bytes;
            } else {
                after += bytes;
            }
        }
        Self { before, bytes: (before + after) as usize, element }
    }

    /// The first address and the number of bytes for an array whose first element is at `address`.
    pub(crate) fn at(self, address: u64) -> (u64, usize) {
        (address.wrapping_sub(self.before), self.bytes)
    }
}

/// The bytes that a filter on arrays reads, and those that it writes.
pub(crate) fn array_spans(instance: &Instance, params: &ArrayParams) -> [ArraySpan; 2] {
    let from = instance.element.trim_start_matches(['i', 'u', 'f']).parse::<usize>().expect("a type's bits") / 8;
    use ResultKind::{Bits8, Bits16, F32, F64, I32, I64, U32, U64, U64ByMagnitude};
    let kind = [Bits8, Bits16, I32, U32, I64, U64, F32, F64, U64ByMagnitude]
        .into_iter()
        .find(|kind| kind.code() == params.result);
    let axes = |stride: fn(&Axis) -> i64| params.axes.iter().map(move |axis| (axis.length, stride(axis)));
    [
        ArraySpan::new(from, axes(|axis| axis.from)),
        ArraySpan::new(kind.map_or(8, ResultKind::size), axes(|axis| axis.to)),
    ]
}

/// A window on an array. Its elements are unsigned integers of the size of the array's elements.
pub(crate) enum ArrayWindow {
    Bits8(Window<u8>),
    Bits16(Window<u16>),
    Bits32(Window<u32>),
    Bits64(Window<u64>),
}

impl ArrayWindow {
    pub(crate) fn open(
        state: &mut State,
        emulated: &mut cuda_emulator::Memory,
        name: &str,
        address: u64,
        span: ArraySpan,
    ) -> Result<Self, Code> {
        let (first, bytes) = span.at(address);
        Ok(match span.element {
            1 => Self::Bits8(Window::open(state, emulated, name, first, bytes)?),
            2 => Self::Bits16(Window::open(state, emulated, name, first, bytes)?),
            4 => Self::Bits32(Window::open(state, emulated, name, first, bytes)?),
            _ => Self::Bits64(Window::open(state, emulated, name, first, bytes)?),
        })
    }

    /// The window's first byte that belongs to the array.
    pub(crate) fn global_mut(&self) -> GlobalMut<u8> {
        match self {
            Self::Bits8(window) => window.global_mut().cast(),
            Self::Bits16(window) => window.global_mut().cast(),
            Self::Bits32(window) => window.global_mut().cast(),
            Self::Bits64(window) => window.global_mut().cast(),
        }
    }

    /// As [`global_mut`](Self::global_mut).
    pub(crate) fn global(&self) -> Global<u8> {
        match self {
            Self::Bits8(window) => window.global().cast(),
            Self::Bits16(window) => window.global().cast(),
            Self::Bits32(window) => window.global().cast(),
            Self::Bits64(window) => window.global().cast(),
        }
    }

    pub(crate) fn close(self, state: &mut State, emulated: &cuda_emulator::Memory) -> Result<(), Code> {
        match self {
            Self::Bits8(window) => window.close(state, emulated),
            Self::Bits16(window) => window.close(state, emulated),
            Self::Bits32(window) => window.close(state, emulated),
            Self::Bits64(window) => window.close(state, emulated),
        }
    }
}

/// An area of device memory as an array of the emulator.
pub(crate) struct Window<T> {
    /// The first address of the area in device memory.
    ///
    /// It is the last multiple of the blocks' alignment before the kernel's pointer, so that the emulator sees the
    /// alignment of accesses.
    start: u64,
    /// The number of bytes from there to the kernel's pointer.
    lead: usize,
    before: Vec<T>,
    buffer: Buffer<T>,
}

impl<T: Scalar> Window<T> {
    /// `bytes` bytes from `address` on, or fewer if the memory ends before.
    pub(crate) fn open(
        state: &mut State,
        emulated: &mut cuda_emulator::Memory,
        name: &str,
        address: u64,
        bytes: usize,
    ) -> Result<Self, Code> {
        let host = usize::try_from(address).ok().and_then(|start| state.page_locked.area(start));
        let (first, room) = match (state.memory.block(address), host) {
            (Some((start, block)), _) => (start, block.bytes.len()),
            (None, Some(area)) => (area.start as u64, area.bytes),
            (None, None) => {
                state.counts.report(format!("a kernel's {name} at {address:#x} is no memory that the device reaches"));
                return Err(Code::ILLEGAL_ADDRESS);
            }
        };
        let start = (address / ALIGNMENT * ALIGNMENT).max(first);
        let lead = (address - start) as usize;
        let length = (lead + bytes).min(room - (start - first) as usize);
        let from = state.reachable(start, length).map_err(|failure| failure.code)?;
        let value = |index: usize| {
            // SAFETY: the value lies in the first `length` bytes, which exist. An unaligned read needs no alignment.
            unsafe { from.add(index * size_of::<T>()).cast::<T>().read_unaligned() }
        };
        let before: Vec<T> = (0..length / size_of::<T>()).map(value).collect();
        let buffer = emulated.try_upload(name, &before).map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(Self { start, lead, before, buffer })
    }

    /// The kernel's pointer.
    pub(crate) fn global(&self) -> Global<T> {
        self.buffer.global().cast::<u8>().offset(self.lead as isize).cast()
    }

    /// The kernel's pointer.
    pub(crate) fn global_mut(&self) -> GlobalMut<T> {
        self.buffer.global_mut().cast::<u8>().offset(self.lead as isize).cast()
    }

    /// Copies the elements that the kernel changed back to device memory.
    pub(crate) fn close(self, state: &mut State, emulated: &cuda_emulator::Memory) -> Result<(), Code> {
        let after = emulated.download(&self.buffer);
        let (old, new) = (bytes_of(&self.before), bytes_of(&after));
        let to = state.reachable(self.start, new.len()).map_err(|failure| failure.code)?;
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            if old != new {
                // SAFETY: `new.len()` bytes exist there, and the locked state gives exclusive access. Elements that did
                // not change are not written: a copy may read them.
                unsafe { to.add(index).write(*new) };
            }
        }
        Ok(())
    }
}
