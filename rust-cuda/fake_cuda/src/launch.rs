//! Launches of kernels. The arguments are read at once; the kernel runs later.

use std::ffi::{c_uint, c_void};

use kernels_gpu::registry::kernels;

use crate::code::Code;
use crate::driver::{CONTEXT, Driver, Failure, Outcome};
use crate::foreign;
use crate::kernels::Launch;
use crate::table::Handle;
use crate::work::Work;

/// The bytes of the arguments.
///
/// # Safety
/// - `arguments` is null or points to one pointer for each parameter of the kernel.
/// - Each of these points to a value of the parameter's size.
unsafe fn read(kernel: &kernels_gpu::abi::kernel::Kernel, arguments: *const *const c_void) -> Outcome<Vec<Vec<u8>>> {
    if arguments.is_null() {
        return Err(Failure::misuse(Code::INVALID_VALUE, "a launch without arguments"));
    }
    let of = |(index, parameter): (usize, &kernels_gpu::abi::kernel::Parameter)| {
        let mut bytes = vec![0_u8; parameter.bytes];
        // SAFETY: `arguments` has one pointer for each parameter, to a value of its size, as required above.
        unsafe {
            let value = arguments.add(index).read();
            value.cast::<u8>().copy_to_nonoverlapping(bytes.as_mut_ptr(), parameter.bytes);
        }
        bytes
    };
    Ok(kernel.parameters.iter().enumerate().map(of).collect())
}

/// Checks a launch against the device.
fn check(grid: [u32; 3], block: [u32; 3], shared_bytes: u32, shared_limit: u32) -> Outcome {
    let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
    let fits = |size: [u32; 3], most: [u32; 3]| size.iter().zip(most).all(|(&size, most)| (1..=most).contains(&size));
    if !fits(grid, [i32::MAX as u32, 65_535, 65_535]) || !fits(block, [1024, 1024, 64]) || threads > 1024 {
        let text = format!("a launch of {grid:?} blocks of {block:?} threads");
        return Err(Failure::misuse(Code::INVALID_VALUE, text));
    }
    if shared_bytes > shared_limit {
        let text = format!("a launch with {shared_bytes} bytes of shared memory, {shared_limit} are allowed");
        return Err(Failure::misuse(Code::INVALID_VALUE, text));
    }
    Ok(())
}

/// The work of a launch.
///
/// # Safety
/// The conditions of [`read`] hold for the kernel of the function.
pub(crate) unsafe fn work(
    driver: &mut Driver,
    function: Handle,
    (grid, block, shared_bytes): ([u32; 3], [u32; 3], u32),
    arguments: *const *const c_void,
) -> Outcome<Work> {
    let found = driver.functions.get(function)?;
    check(grid, block, shared_bytes, found.shared_limit)?;
    let (module, symbol) = (found.module, found.symbol.clone());
    let shape = (grid, block, shared_bytes);
    // SAFETY: `arguments` fits the kernel of the function, as required above.
    if let Some(launch) = unsafe { foreign::Launch::new(&symbol, module, shape, arguments) }? {
        return Ok(Work::Foreign(Box::new(launch)));
    }
    let Some(kernel) = kernels().find(|kernel| kernel.symbol == symbol) else {
        return Err(Failure::misuse(Code::NOT_SUPPORTED, format!("this driver knows no kernel {symbol}")));
    };
    // SAFETY: `arguments` fits the kernel of the function, as required above.
    let arguments = unsafe { read(&kernel, arguments) }?;
    let launch = Launch::new(kernel, module, shape, arguments)?;
    Ok(Work::Launch(Box::new(launch)))
}

driver_functions! {
    /// The arguments are passed as pointers; `extra` is not supported.
    fn cuLaunchKernel(
        function: Handle,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: Handle,
        arguments: *const *const c_void,
        extra: *const *const c_void,
    ) at CONTEXT, |driver| {
        if !extra.is_null() {
            return Err(Code::NOT_SUPPORTED.into());
        }
        let shape = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared_bytes);
        // SAFETY: the arguments fit the kernel's parameters, by the contract of all driver functions.
        let work = unsafe { work(driver, function, shape, arguments) }?;
        let stream = driver.stream_handle(stream)?;
        driver.enqueue(stream, work).map(|_| ())
    }
}
