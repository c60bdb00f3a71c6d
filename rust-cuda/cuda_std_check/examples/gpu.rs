//! Runs the kernels on the first GPU and compares the results with the known ones.
//!
//! `cuda_std_check` has no PTX in its repository. The first command writes it, the second one runs it:
//!
//! ```text
//! CUDA_STD_CHECK_PTX=check.ptx cargo test -p cuda_std_check --test ptx -- --ignored
//! cargo run -p cuda_std_check --example gpu -- check.ptx
//! ```
//!
//! It ends with an error if a result is wrong, and says so if there is no GPU.

use std::error::Error;
use std::process::ExitCode;

use cuda_std_check::{Case, cases};
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::launch;
use cust::memory::{CopyDestination as _, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: gpu PTX");
        return ExitCode::FAILURE;
    };
    if let Err(error) = cuda_driver::load() {
        println!("skipped, there is no GPU: {error}");
        return ExitCode::SUCCESS;
    }
    match run(&path) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(wrong) => {
            eprintln!("{wrong} kernels are wrong");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all kernels that the device can run. Returns the number of those with wrong results.
fn run(path: &str) -> Result<usize, Box<dyn Error>> {
    cust::init(cust::CudaFlags::empty())?;
    let device = Device::get_device(0)?;
    let of_device = |attribute| device.get_attribute(attribute);
    let arch =
        10 * of_device(DeviceAttribute::ComputeCapabilityMajor)? + of_device(DeviceAttribute::ComputeCapabilityMinor)?;
    println!("{}, sm_{arch}", device.name()?);
    let _context = Context::new(device)?;
    let module = Module::from_ptx(std::fs::read_to_string(path)?, &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut wrong = 0;
    for case in cases() {
        if case.arch > arch as u32 {
            println!("skipped {}: it needs sm_{}", case.name, case.arch);
            continue;
        }
        let found = launch(&case, &module, &stream).map_err(|error| format!("{}: {error}", case.name))?;
        match case.compare(&found) {
            Ok(()) => println!("ok      {}", case.name),
            Err(error) => {
                println!("WRONG   {error}");
                wrong += 1;
            }
        }
    }
    Ok(wrong)
}

/// The output of a kernel.
fn launch(case: &Case, module: &Module, stream: &Stream) -> Result<Vec<u32>, Box<dyn Error>> {
    // A buffer has at least one element.
    let input = DeviceBuffer::from_slice(if case.input.is_empty() { &[0] } else { &case.input })?;
    let output = DeviceBuffer::from_slice(&case.output)?;
    let kernel = module.get_function(case.name)?;
    // SAFETY: the kernel has these parameters, and the case is its launch. The buffers live until the stream is done.
    unsafe {
        launch!(kernel<<<case.blocks, case.threads, case.shared_bytes, stream>>>(
            input.as_device_ptr(),
            output.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let mut found = vec![0; case.output.len()];
    output.copy_to(&mut found)?;
    Ok(found)
}
