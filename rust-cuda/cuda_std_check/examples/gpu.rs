//! Runs the kernels on the first GPU and compares the results with the known ones.
//!
//! `cuda_std_check` has no PTX in its repository. The first command writes it, the second one runs it:
//!
//! ```text
//! CUDA_STD_CHECK_PTX=check.ptx cargo test -p cuda_std_check --test ptx -- --ignored
//! cargo run -p cuda_std_check --example gpu -- check.ptx
//! ```
//!
//! It ends with an error if a result is wrong, and says so if there is no GPU. A third argument names the only kernel
//! to run. The program calls itself with it for kernels whose output or failure it compares.

use std::error::Error;
use std::process::{Command, ExitCode};

use cuda_std_check::{Case, cases, debugging};
use cust::context::Context;
use cust::device::{Device, DeviceAttribute};
use cust::launch;
use cust::memory::{CopyDestination as _, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: gpu PTX [KERNEL]");
        return ExitCode::FAILURE;
    };
    let only = std::env::args().nth(2);
    if let Err(error) = cuda_driver::load() {
        println!("skipped, there is no GPU: {error}");
        return ExitCode::SUCCESS;
    }
    match run(&path, only.as_deref()) {
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

/// Whether a kernel that runs in a process of its own ends as it must, with this text in its output.
fn ends_with(path: &str, kernel: &str, success: bool, text: &str) -> Result<bool, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?).args([path, kernel]).output()?;
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let is_right = output.status.success() == success && said.contains(text);
    if is_right {
        println!("ok      the output of {kernel}");
    } else {
        println!("WRONG   {kernel}: {text:?} was expected in its output ({}):\n{said}", output.status);
    }
    Ok(is_right)
}

/// Runs all kernels that the device can run, or only one. Returns the number of those with wrong results.
fn run(path: &str, only: Option<&str>) -> Result<usize, Box<dyn Error>> {
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
    let chosen = |case: &Case| only.is_none_or(|only| only == case.name);
    let last = only.is_some().then(debugging::failing);
    for case in cases().into_iter().chain(last).filter(chosen) {
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
    if only.is_none() {
        let assertion = "block: [1,0,0], thread: [1,0,0] Assertion `thread 33 is not wanted` failed";
        for (kernel, success, text) in [("prints", true, debugging::PRINTED), ("fails_an_assertion", false, assertion)]
        {
            wrong += usize::from(!ends_with(path, kernel, success, text)?);
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
