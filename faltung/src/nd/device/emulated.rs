//! A launch in the emulator, on arrays in host memory.
//!
//! The emulator has memory of its own. It gets the elements that the input's layout names, and nothing between them. So
//! it reports a kernel that reads anything else.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use cuda_emulator::{Buffer, Emulator, Launch, Memory, Role};
use kernels_gpu::cuda_std::{Global, GlobalMut, Scalar};

use super::{ArrayLaunch, DeviceArray};
use crate::emulated::{failed, short};
use crate::nd::Layout;
use crate::{Error, Result};

/// Where an array is in the emulator's memory.
struct Span {
    /// Bytes before the array's first element.
    before: i64,
    /// Elements from the lowest address to the highest one.
    elements: usize,
    /// Of each element of the array, its number among these.
    places: Vec<usize>,
}

impl Span {
    fn of(layout: &Layout) -> Self {
        let extent = layout.extent().expect("the plan has checked the layout");
        let (before, after) = (extent.start as i64, extent.end as i64);
        let size = layout.element.size() as i64;
        let mut places = vec![(-before / size) as usize];
        for (&length, &stride) in layout.shape.iter().zip(&layout.strides) {
            let step = |i: usize| i as isize * (stride / size as isize);
            places =
                places.iter().flat_map(|&place| (0..length).map(move |i| place.wrapping_add_signed(step(i)))).collect();
        }
        Self { before, elements: ((after - before) / size) as usize, places }
    }
}

/// An array in the emulator's memory, of unsigned integers as large as its elements.
enum Values {
    Bits8(Buffer<u8>),
    Bits16(Buffer<u16>),
    Bits32(Buffer<u32>),
    Bits64(Buffer<u64>),
}

macro_rules! each_size {
    ($values:expr, $buffer:ident => $body:expr) => {
        match $values {
            Values::Bits8($buffer) => $body,
            Values::Bits16($buffer) => $body,
            Values::Bits32($buffer) => $body,
            Values::Bits64($buffer) => $body,
        }
    };
}

/// The input's elements in the emulator's memory, all ones between them.
///
/// # Safety
/// The array is in host memory, and its elements are initialised and as large as `T`.
unsafe fn upload<T: Scalar>(memory: &mut Memory, array: DeviceArray<'_>, span: &Span) -> Result<Buffer<T>> {
    let first = with_exposed_provenance::<u8>(array.address as usize).wrapping_offset(span.before as isize).cast::<T>();
    let buffer = memory.try_allocate::<T>("input", span.elements, Role::Scratch).map_err(short)?;
    let mut values = memory.download(&buffer);
    for &place in &span.places {
        // SAFETY: the element is in host memory and initialised.
        values[place] = unsafe { first.wrapping_add(place).read_unaligned() };
    }
    memory.try_upload("input", &values).map_err(short)
}

/// Copies the results to the output.
///
/// # Safety
/// The array is in host memory, nothing else uses it, and its elements are as large as `T`.
unsafe fn download<T: Scalar>(memory: &Memory, buffer: &Buffer<T>, array: DeviceArray<'_>, span: &Span) -> Result<()> {
    let mut is_wanted = vec![false; span.elements];
    for &place in &span.places {
        is_wanted[place] = true;
    }
    if let Some((first, count)) = memory.unwritten_among(buffer, |place| is_wanted[place]) {
        let report = format!("{count} results were not written, the first is result[{first}]");
        return Err(Error::Emulator { kernel: "a filter on arrays".to_owned(), report });
    }
    let first =
        with_exposed_provenance_mut::<u8>(array.address as usize).wrapping_offset(span.before as isize).cast::<T>();
    let values = memory.download(buffer);
    for &place in &span.places {
        // SAFETY: the element has room in host memory, and nothing else uses it.
        unsafe { first.wrapping_add(place).write_unaligned(values[place]) };
    }
    Ok(())
}

/// Runs a launch.
///
/// # Errors
/// [`Error::Emulator`] if the kernel did something wrong, or left a result unwritten; [`Error::HostMemory`].
///
/// # Safety
/// - The launch was planned for these arrays.
/// - Both are in host memory. The input's elements are initialised, and nothing else uses the output.
pub(super) unsafe fn run(
    seed: u64,
    launch: &ArrayLaunch,
    input: DeviceArray<'_>,
    output: DeviceArray<'_>,
) -> Result<()> {
    let mut memory = Memory::new();
    let (from, to) = (Span::of(input.layout), Span::of(output.layout));
    // SAFETY: the elements are in host memory, initialised, and have this size.
    let source = unsafe {
        match input.layout.element.size() {
            1 => Values::Bits8(upload(&mut memory, input, &from)?),
            2 => Values::Bits16(upload(&mut memory, input, &from)?),
            4 => Values::Bits32(upload(&mut memory, input, &from)?),
            _ => Values::Bits64(upload(&mut memory, input, &from)?),
        }
    };
    let role = Role::Output;
    let result = match output.layout.element.size() {
        1 => memory.try_allocate("result", to.elements, role).map(Values::Bits8),
        2 => memory.try_allocate("result", to.elements, role).map(Values::Bits16),
        4 => memory.try_allocate("result", to.elements, role).map(Values::Bits32),
        _ => memory.try_allocate("result", to.elements, role).map(Values::Bits64),
    }
    .map_err(short)?;
    let taps = memory.try_upload("taps", &launch.list).map_err(short)?;

    let first: Global<u8> = each_size!(&source, buffer => buffer.global().cast());
    let first_result: GlobalMut<u8> = each_size!(&result, buffer => buffer.global_mut().cast());
    let (first, first_result) = (first.offset(-from.before as isize), first_result.offset(-to.before as isize));
    let taps = taps.global();
    let shape = Launch::flat((launch.grid, 1), launch.block, launch.shared_bytes);
    // SAFETY: the emulator checks every access; none reaches memory of this program.
    let ran = Emulator::new().seed(seed).launch(launch.kernel.symbol, &shape, &mut memory, || unsafe {
        (launch.kernel.function)(first, first_result, taps, launch.params)
    });
    ran.map_err(|error| failed(launch.kernel.symbol, error))?;
    // SAFETY: there is room for the results, of this size, in host memory, and nothing else uses it.
    unsafe { each_size!(&result, buffer => download(&memory, buffer, output, &to)) }
}
