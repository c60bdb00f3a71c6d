//! Launches on the emulator: the checks and their messages.

use cuda_launch::{Device, Emulator, Error, Launch, Limits};
use cuda_std::prelude::*;

cuda_std::constant! {
    /// What [`scale`] multiplies by, one factor for each remainder of the index.
    pub static FACTORS: [f32; 4];
}

/// `to = from * FACTORS[i % 4] + offset`, for `width * height` elements.
///
/// # Safety
/// - `from` and `to` hold `width * height` elements each, and `FACTORS` is set.
#[kernel(lengths(from = width * height, to = width * height), launch_bounds(128))]
pub unsafe fn scale(from: Global<f32>, to: GlobalMut<f32>, width: u32, height: i32, offset: f32) {
    let i = thread::index_1d();
    if i < width * height as u32 {
        // SAFETY: i is below the length, checked above, and no other thread has this i.
        unsafe { to.store(i as isize, from.load(i as isize) * FACTORS.load(i as usize % 4) + offset) };
    }
}

/// Kernels of another module, with a name that occurs twice.
pub mod other {
    use cuda_std::prelude::*;

    /// Two numbers that are passed by value.
    #[repr(C)]
    #[derive(Clone, Copy, cuda_std::KernelArgument)]
    pub struct Line {
        /// The factor.
        pub factor: f64,
        /// The summand.
        pub summand: u8,
    }

    /// `to[i] = i * factor + summand`.
    ///
    /// # Safety
    /// - `to` holds one element for each thread.
    #[kernel(launcher = ScaleByLine)]
    pub unsafe fn scale(line: Line, to: cuda_std::GlobalMut<f64>) {
        let i = thread::index_1d();
        // SAFETY: `to` holds one element for each thread.
        unsafe { to.store(i as isize, f64::from(i) * line.factor + f64::from(line.summand)) };
    }

    /// Does nothing.
    ///
    /// # Safety
    /// - None.
    #[kernel]
    pub unsafe fn nothing() {}
}

/// A kernel of a module that has constants of its own.
pub mod inner {
    use cuda_std::prelude::*;

    /// `to[0] = from[0] * FACTORS[0]`.
    ///
    /// # Safety
    /// - `from` and `to` hold one element each.
    #[kernel(lengths(from = 1, to = 1))]
    pub unsafe fn scale_one(from: Global<f32>, to: GlobalMut<f32>) {
        // SAFETY: the arrays hold one element.
        unsafe { to.store(0, from.load(0) * super::FACTORS.load(0)) };
    }
}

const CRATE: &str = env!("CARGO_CRATE_NAME");

/// The message of a launch of `scale` that fails.
fn refused(device: &Device, elements: [usize; 2], width: u32, height: i32, launch: &Launch) -> String {
    let from = device.zeros("from", elements[0]).unwrap();
    let mut to = device.output("to", elements[1]).unwrap();
    // SAFETY: the emulator checks every access.
    let result = unsafe { device.launch(launch, &Scale { from: &from, to: &mut to, width, height, offset: 0.0 }) };
    result.unwrap_err().to_string()
}

#[test]
fn a_kernel_runs_with_arrays_values_and_constants() {
    let device = Device::emulator();
    device.set_constant(CRATE, FACTORS, &[1.0, 10.0, 100.0, 1000.0]).unwrap();
    let from = device.upload("from", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0_f32]).unwrap();
    let mut to = device.output("to", 6).unwrap();
    let call = Scale { from: &from, to: &mut to, width: 3, height: 2, offset: 0.5 };
    // SAFETY: the emulator checks every access.
    let counts = unsafe { device.launch_counting(&Launch::cover(6, 32), &call) }.unwrap();
    assert_eq!(counts.expect("the emulator counts").threads, 32);
    assert_eq!(device.download(&to).unwrap(), [1.5, 20.5, 300.5, 4000.5, 5.5, 60.5]);
    // As on a GPU, the elements behind the new ones stay.
    device.set_constant(CRATE, FACTORS, &[2.0]).unwrap();
    let call = Scale { from: &from, to: &mut to, width: 3, height: 1, offset: 0.5 };
    // SAFETY: the emulator checks every access.
    unsafe { device.launch(&Launch::cover(3, 32), &call) }.unwrap();
    assert_eq!(device.download(&to).unwrap()[..3], [2.5, 20.5, 300.5]);

    let mut line = device.output("line", 3).unwrap();
    let call = other::ScaleByLine { line: other::Line { factor: 0.5, summand: 7 }, to: &mut line };
    // SAFETY: the emulator checks every access.
    unsafe { device.launch(&Launch::cover(3, 3), &call) }.unwrap();
    assert_eq!(device.download(&line).unwrap(), [7.0, 7.5, 8.0]);
    // SAFETY: the kernel has no condition.
    unsafe { device.launch(&Launch::cover(1, 1), &other::Nothing {}) }.unwrap();
}

#[test]
fn a_constant_of_an_inner_module_comes_before_that_of_the_crate() {
    let device = Device::emulator();
    device.set_constant(CRATE, FACTORS, &[1.0; 4]).unwrap();
    device.set_constant("another_crate", FACTORS, &[2.0; 4]).unwrap();
    device.set_constant(&format!("{CRATE}::inner"), FACTORS, &[3.0; 4]).unwrap();
    let from = device.upload("from", &[1.0_f32]).unwrap();
    let scaled = |inner: bool| {
        let mut to = device.output("to", 1).unwrap();
        let launch = Launch::cover(1, 1);
        // SAFETY: the emulator checks every access.
        let launched = unsafe {
            if inner {
                device.launch(&launch, &inner::ScaleOne { from: &from, to: &mut to })
            } else {
                device.launch(&launch, &Scale { from: &from, to: &mut to, width: 1, height: 1, offset: 0.0 })
            }
        };
        launched.and_then(|()| device.download(&to)).unwrap()
    };
    assert_eq!([scaled(true), scaled(false), scaled(true)], [[3.0], [1.0], [3.0]]);
}

/// Writes to an array by its address.
///
/// # Safety
/// - An array with this address exists.
#[kernel]
pub unsafe fn store_at(address: u64) {
    // SAFETY: the array exists, and the grid has one thread.
    unsafe { GlobalMut::<u32>::new(std::ptr::without_provenance_mut(address as usize)).store(0, 7) };
}

#[test]
fn a_dropped_array_is_freed() {
    use cuda_std::launch::Array as _;
    let device = Device::emulator();
    let array = device.zeros::<u32>("array", 1).unwrap();
    let call = StoreAt { address: array.address() };
    // SAFETY: the emulator checks every access.
    let launch = || unsafe { device.launch(&Launch::cover(1, 1), &call) };
    launch().unwrap();
    drop(array);
    let later = device.zeros::<u32>("later", 1).unwrap();
    assert!(launch().unwrap_err().to_string().contains("out of bounds"));
    drop(device);
    // An array may outlive its device.
    drop(later);
}

#[test]
fn an_array_gets_new_values() {
    let device = Device::emulator();
    assert!(device.is_loaded("any"));
    let mut array = device.output::<u16>("array", 3).unwrap();
    device.write(&mut array, &[1, 2, 3]).unwrap();
    let mut values = [0; 3];
    device.read(&array, &mut values).unwrap();
    assert_eq!((values, device.download(&array).unwrap()), ([1, 2, 3], vec![1, 2, 3]));
    let error = device.write(&mut array, &[4; 2]).unwrap_err();
    assert_eq!(error.to_string(), "array has 3 elements, but 2 values are given");
    assert!(matches!(device.read(&array, &mut [0; 4]), Err(Error::Length { required: 3, found: 4, .. })));
    assert!(matches!(Device::emulator().write(&mut array, &[4; 3]), Err(Error::ForeignArray { .. })));
}

#[test]
fn wrong_launches_are_refused_with_the_argument_the_requirement_and_the_value() {
    let device = Device::emulator();
    let fits = Launch::cover(6, 32);
    assert_eq!(refused(&device, [5, 6], 3, 2, &fits), "scale: from must have at least 6 elements, but has 5");
    assert_eq!(refused(&device, [6, 0], 3, 2, &fits), "scale: to must have at least 6 elements, but has 0");
    assert_eq!(
        refused(&device, [6, 6], 3, -2, &fits),
        "scale: height is -2, but a length depends on it: it must be 0 or more"
    );
    assert_eq!(
        refused(&device, [6, 6], 3, 2, &Launch::cover(6, 129)),
        "scale: the block has 129 threads, but the kernel is compiled for at most 128: its launch_bounds"
    );
    assert_eq!(
        refused(&device, [6, 6], 3, 2, &Launch::cover(6, 1025)),
        "scale: blockDim.x is 1025, the device allows 1024"
    );
    assert_eq!(
        refused(&device, [6, 6], 3, 2, &fits.with_shared::<f32>(60_000)),
        "scale: the shared memory of a block in bytes is 240000, the device allows 232448"
    );
    assert_eq!(refused(&device, [6, 6], 3, 2, &Launch::cover(0, 32)), "scale: gridDim.x is 0, at least 1 is required");
    let small = Device::with_emulator(Emulator::new().limits(Limits { threads_per_block: 64, ..Limits::H100 }));
    assert!(refused(&small, [6, 6], 3, 2, &Launch::cover(6, 65)).contains("the device allows 64"));
}

/// The least length of `data` is below 0 for `count` 0, and above `usize` for large numbers.
///
/// # Safety
/// - None.
#[kernel(lengths(data = (count - 1) * factor / divisor))]
pub unsafe fn checked_length(data: Global<u8>, count: u32, factor: u64, divisor: u8) {
    let _ = (data, count, factor, divisor);
}

#[test]
fn a_length_without_a_value_is_an_error() {
    let device = Device::emulator();
    let data = device.zeros("data", 3).unwrap();
    let launched = |count, factor, divisor| {
        // SAFETY: the kernel has no condition.
        unsafe { device.launch(&Launch::cover(1, 1), &CheckedLength { data: &data, count, factor, divisor }) }
    };
    assert!(launched(4, 2, 2).is_ok());
    for (count, factor, divisor, operation) in
        [(0, 1, 1, "0 - 1"), (3, u64::MAX, 1, "2 * 18446744073709551615"), (3, 1, 0, "2 / 0")]
    {
        let wanted = format!(
            "checked_length: the least length of data is `(count - 1) * factor / divisor`, but {operation} has no result \
             in usize"
        );
        assert_eq!(launched(count, factor, divisor).unwrap_err().to_string(), wanted);
    }
}

/// A parameter with the name of a variable of the generated check.
///
/// # Safety
/// - None.
#[kernel(lengths(pairs = 2 * required, single = required))]
pub unsafe fn own_names(pairs: Global<u8>, single: Global<u8>, required: u32) {
    let _ = (pairs, single, required);
}

#[test]
fn a_parameter_may_have_the_name_of_a_variable_of_the_check() {
    let device = Device::emulator();
    let (pairs, single) = (device.zeros("pairs", 6).unwrap(), device.zeros("single", 3).unwrap());
    // SAFETY: the kernel has no condition.
    unsafe { device.launch(&Launch::cover(1, 1), &OwnNames { pairs: &pairs, single: &single, required: 3 }) }.unwrap();
}

/// `to[i] = step * i` for `count` elements.
///
/// # Safety
/// - `to` holds `count` elements.
#[kernel(lengths(to = count))]
pub unsafe fn steps(to: GlobalMut<i32>, count: u32, step: i32) {
    let i = thread::index_1d();
    if i < count {
        // SAFETY: i is below the length, checked above, and no other thread has this i.
        unsafe { to.store(i as isize, step * i as i32) };
    }
}

#[test]
fn an_integer_that_no_length_depends_on_may_be_negative() {
    let device = Device::emulator();
    let mut to = device.output("to", 3).unwrap();
    // SAFETY: the emulator checks every access.
    unsafe { device.launch(&Launch::cover(3, 32), &Steps { to: &mut to, count: 3, step: -2 }) }.unwrap();
    assert_eq!(device.download(&to).unwrap(), [0, -2, -4]);
}

#[test]
fn arrays_beyond_the_memory_of_the_host_are_errors() {
    let device = Device::emulator();
    for length in [usize::MAX, usize::MAX / 8, 1 << 50] {
        for error in
            [device.zeros::<f32>("huge", length).unwrap_err(), device.output::<f64>("huge", length).unwrap_err()]
        {
            assert!(matches!(&error, Error::HostMemory { name, .. } if name == "huge"), "{error}");
            assert!(error.to_string().starts_with("huge: not enough memory: "), "{error}");
        }
    }
    assert_eq!(device.download(&device.zeros::<u16>("few", 3).unwrap()).unwrap(), [0; 3]);
}

#[test]
fn an_array_of_another_device_is_refused() {
    let (device, other) = (Device::emulator(), Device::emulator());
    let from = other.zeros("from", 1).unwrap();
    let mut to = device.output("to", 1).unwrap();
    let call = Scale { from: &from, to: &mut to, width: 1, height: 1, offset: 0.0 };
    // SAFETY: the emulator checks every access.
    let error = unsafe { device.launch(&Launch::cover(1, 32), &call) }.unwrap_err();
    assert!(matches!(&error, Error::ForeignArray { what: "scale", name } if name == "from"), "{error}");
    assert!(matches!(device.download(&from), Err(Error::ForeignArray { .. })));
}

#[test]
fn defects_and_unwritten_elements_are_reported() {
    let device = Device::emulator();
    device.set_constant(CRATE, FACTORS, &[1.0; 4]).unwrap();
    let from = device.zeros("from", 6).unwrap();
    let mut to = device.output("to", 6).unwrap();
    // Half of the threads that the result needs.
    let call = Scale { from: &from, to: &mut to, width: 3, height: 2, offset: 0.5 };
    // SAFETY: the emulator checks every access.
    unsafe { device.launch(&Launch::cover(3, 3), &call) }.unwrap();
    let error = device.download(&to).unwrap_err();
    assert_eq!(
        error.to_string(),
        "to: 3 elements were never written, the first one is element 3; allocate to with `zeros` if kernels may leave \
         elements unwritten"
    );

    // A kernel without `lengths`: the access itself is found.
    let mut line = device.output("line", 2).unwrap();
    let call = other::ScaleByLine { line: other::Line { factor: 0.5, summand: 7 }, to: &mut line };
    // SAFETY: the emulator checks every access.
    let error = unsafe { device.launch(&Launch::cover(3, 3), &call) }.unwrap_err();
    assert!(format!("{error:?}").contains("line[2], out of bounds: line has 2 elements of 8 bytes"), "{error}");

    let error = device.set_constant(CRATE, FACTORS, &[1.0; 5]).unwrap_err();
    assert_eq!(error.to_string(), "FACTORS has 4 elements, but 5 values are given");
}

#[test]
fn a_device_is_shared_by_threads() {
    fn requires<T: Send + Sync>() {}
    requires::<Device>();
    requires::<Error>();
}
