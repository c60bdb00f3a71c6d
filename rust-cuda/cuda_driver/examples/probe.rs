//! Prints the driver and the GPUs of this machine, or that there are none.

use cust::device::Device;
use cust::error::CudaResult;

fn main() {
    match cuda_driver::load() {
        Ok(driver) => println!(
            "loaded {}; it lacks {} of {} functions: {:?}",
            driver.path().display(),
            driver.missing_symbols().len(),
            cuda_driver::SYMBOLS.len(),
            driver.missing_symbols()
        ),
        Err(error) => println!("{error}"),
    }
    if let Err(error) = list_devices() {
        println!("no GPU: {error}");
    }
}

fn list_devices() -> CudaResult<()> {
    cust::init(cust::CudaFlags::empty())?;
    let version = cust::CudaApiVersion::get()?;
    println!("the driver supports CUDA {}.{}", version.major(), version.minor());
    for device in Device::devices()? {
        println!("GPU: {}", device?.name()?);
    }
    Ok(())
}
