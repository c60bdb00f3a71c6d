//! Launches by the driver's functions, without a GPU: `fake_cuda` runs the kernels of this file in the emulator.
//!
//! The calls, their order, the arguments as bytes, the memory and the errors are those of a GPU. The PTX is not run.

#[path = "kernels.rs"]
mod driver;

use std::borrow::Cow;

use cuda_launch::{Buffer, Device, Error, Kernel, Launch, Ptx};
use cuda_std::prelude::*;

use driver::Fake;

cuda_std::constant! {
    /// What [`scale`] multiplies by.
    pub static FACTORS: [f32; 4];
}

/// Two numbers that are passed by value.
#[repr(C)]
#[derive(Clone, Copy, cuda_std::KernelArgument)]
pub struct Line {
    /// The factor.
    pub factor: f64,
    /// The summand.
    pub summand: u8,
}

/// `to = from * FACTORS[i % 4] * line.factor + line.summand`, for `length` elements.
///
/// # Safety
/// - `from` and `to` hold `length` elements each, and `FACTORS` is set.
#[kernel(lengths(from = length, to = length))]
pub unsafe fn scale(line: Line, from: Global<f32>, to: GlobalMut<f64>, length: u16) {
    let i = thread::index_1d();
    if i < u32::from(length) {
        // SAFETY: i is below the length, checked above, and no other thread has this i.
        unsafe {
            let factor = f64::from(FACTORS.load(i as usize % 4)) * line.factor;
            to.store(i as isize, f64::from(from.load(i as isize)) * factor + f64::from(line.summand));
        }
    }
}

/// Sums 64 elements in more shared memory than a kernel gets without asking.
///
/// # Safety
/// - `values` holds 64 elements and `sum` one. The block has 64 threads and 60,000 bytes of shared memory.
#[kernel(lengths(values = 64, sum = 1))]
pub unsafe fn sum_in_shared(values: Global<u32>, sum: GlobalMut<u32>) {
    let (tile, i) = (Shared::<u32>::dynamic().offset(14_000), thread::thread_idx_x());
    // SAFETY: i is below 64, and the element is this thread's.
    unsafe { tile.store(i, values.load(i as isize)) };
    // SAFETY: all threads are here.
    unsafe { thread::sync_threads() };
    if i == 0 {
        // SAFETY: the elements were written before the barrier, and `sum` has one element.
        unsafe { sum.store(0, (0..64).fold(0, |sum: u32, k| sum.wrapping_add(tile.load(k)))) };
    }
}

/// Adds two numbers, one in a shared array of 40,000 bytes, the other in 12,000 bytes of dynamic shared memory.
///
/// # Safety
/// - The block has one thread and 12,000 bytes of shared memory.
#[kernel(lengths(values = 2, sum = 1))]
pub unsafe fn sum_in_both(values: Global<u32>, sum: GlobalMut<u32>) {
    let (fixed, dynamic) = (shared_array![u32; 10_000], Shared::<u32>::dynamic());
    // SAFETY: the arrays have as many elements, and the block has one thread.
    unsafe {
        fixed.store(9_999, values.load(0));
        dynamic.store(2_999, values.load(1));
        sum.store(0, fixed.load(9_999) + dynamic.load(2_999));
    }
}

/// The PTX of [`sum_in_both`]: its shared array, and an entry that names it.
const BOTH: &str = ".version 7.0\n.target sm_70\n.address_size 64\n.shared .align 16 .b8 tile[40000];\n\
    .visible .entry sum_in_both()\n{\n\tmov.u32 %r1, tile;\n\tret;\n}\n";

/// An entry of these parameters, which is all that the driver reads of a kernel.
macro_rules! entries {
    ($($name:literal),*) => {
        concat!(
            ".version 7.0\n.target sm_70\n.address_size 64\n.visible .const .align 16 .b8 FACTORS[16];\n",
            $(".visible .entry ", $name, "()\n{\n\tret;\n}\n"),*
        )
    };
}

/// A kernel of another crate, with the name of one of this crate.
struct ScaleOfSecond;

// SAFETY: the kernel has no parameters.
unsafe impl Kernel for ScaleOfSecond {
    const SYMBOL: &'static str = "scale";
    const MODULE: &'static str = "second::kernels";
    const LAUNCH_BOUNDS: Option<(u32, u32)> = None;
    const PARAMETERS: &'static [cuda_std::launch::Parameter] = &[];

    fn check(&self) -> Result<(), cuda_std::launch::ArgumentError> {
        Ok(())
    }

    fn arguments(&self, _visit: &mut dyn FnMut(cuda_std::launch::Argument)) {}

    unsafe fn call(_arguments: *const *const std::ffi::c_void) {}
}

const CRATE: &str = env!("CARGO_CRATE_NAME");
const PTX: Ptx = ptx(CRATE, entries!("scale", "sum_in_shared"));

const fn ptx(module: &'static str, text: &'static str) -> Ptx {
    Ptx { module, text: Cow::Borrowed(text) }
}

#[test]
fn a_kernel_gets_its_arguments_and_the_memory_of_the_gpu() {
    let fake = Fake::get("delay_us=200000");
    {
        let device = Device::cuda(0).unwrap();
        assert!(!device.is_emulator());
        device.load(PTX).unwrap();
        device.set_constant(CRATE, FACTORS, &[1.0, 10.0, 100.0, 1000.0]).unwrap();
        let from = device.upload("from", &[1.0_f32, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let mut to = device.output("to", 6).unwrap();
        let call = Scale { line: Line { factor: 0.5, summand: 3 }, from: &from, to: &mut to, length: 5 };
        // SAFETY: the arrays are long enough.
        unsafe { device.launch(&Launch::cover(5, 32), &call) }.unwrap();
        let found = device.download(&to).unwrap();
        assert_eq!(found[..5], [3.5, 13.0, 153.0, 2003.0, 5.5]);
        assert!(found[5].is_nan(), "what no kernel writes is NaN");

        // The kernel must read the new values, which were written before the launch.
        device.set_constant(CRATE, FACTORS, &[2.0; 4]).unwrap();
        let call = Scale { line: Line { factor: 1.0, summand: 0 }, from: &from, to: &mut to, length: 5 };
        // SAFETY: the arrays are long enough.
        unsafe { device.launch(&Launch::cover(5, 32), &call) }.unwrap();
        device.set_constant(CRATE, FACTORS, &[9.0; 4]).unwrap();
        assert_eq!(device.download(&to).unwrap()[..5], [2.0, 4.0, 6.0, 8.0, 10.0]);

        let values = device.upload("values", &[3_u32; 64]).unwrap();
        let mut sum = device.zeros("sum", 1).unwrap();
        let launch = Launch::cover(64, 64).with_shared::<u32>(15_000);
        // SAFETY: the arrays are long enough, and the launch is that of the kernel.
        let sum_up = |sum: &mut Buffer<u32>| unsafe { device.launch(&launch, &SumInShared { values: &values, sum }) };
        let milliseconds = device.time(|| sum_up(&mut sum)).unwrap();
        assert!(milliseconds >= 0.0);
        assert_eq!(device.download(&sum).unwrap(), [192]);
        let mut nothing = device.zeros::<u8>("nothing", 0).unwrap();
        device.write(&mut nothing, &[]).unwrap();
        assert_eq!(device.download(&nothing).unwrap(), []);

        // New values are written after the earlier kernels, and read after the later ones.
        let mut values = values;
        device.write(&mut values, &[5; 64]).unwrap();
        // SAFETY: the arrays are long enough, and the launch is that of the kernel.
        unsafe { device.launch(&launch, &SumInShared { values: &values, sum: &mut sum }) }.unwrap();
        let mut found = [0];
        device.read(&sum, &mut found).unwrap();
        assert_eq!(found, [320]);
    }
    assert_eq!(fake.trouble(), None);
}

#[test]
fn errors_name_the_kernel_and_the_remedy() {
    let fake = Fake::get("");
    {
        let device = Device::cuda(0).unwrap();
        let from = device.zeros("from", 4).unwrap();
        let mut to = device.zeros("to", 4).unwrap();
        let mut run = |device: &Device, launch: &Launch, length| {
            let call = Scale { line: Line { factor: 1.0, summand: 0 }, from: &from, to: &mut to, length };
            // SAFETY: a launch with arrays that are too short is refused.
            unsafe { device.launch(launch, &call) }.unwrap_err().to_string()
        };
        let launch = Launch::cover(4, 32);
        let error = run(&device, &launch, 4);
        assert!(error.contains("call `device.load(cuda_launch::ptx!(\"fake_driver\"))` before the launch"), "{error}");
        assert!(!device.is_loaded(CRATE));
        device.load(ptx(CRATE, entries!("sum_in_shared"))).unwrap();
        let error = run(&device, &launch, 4);
        assert!(error.starts_with("scale: the PTX of fake_driver has no entry of this name"), "{error}");
        device.load(PTX).unwrap();
        assert_eq!(run(&device, &launch, 5), "scale: from must have at least 5 elements, but has 4");
        assert_eq!(
            run(&device, &launch.with_shared::<u8>(232_449), 4),
            "scale: the shared memory of a block in bytes is 232449, the device allows 232448"
        );
        // A kernel of another crate is not taken from the module of this one.
        // SAFETY: the launches are refused.
        let run_second = || unsafe { device.launch(&launch, &ScaleOfSecond) }.unwrap_err();
        let error = run_second();
        assert!(matches!(&error, Error::NotLoaded { crate_name, .. } if crate_name == "second"), "{error}");
        // The innermost module around the kernel counts.
        for module in ["second::other", "second", "second::kernels"] {
            device.load(ptx(module, entries!("other"))).unwrap();
            let error = run_second();
            match module {
                "second::other" => assert!(matches!(error, Error::NotLoaded { .. }), "{error}"),
                _ => assert!(matches!(error, Error::NoEntry { module: found, .. } if found == module), "{error}"),
            }
        }
        assert!(device.is_loaded("second::kernels::inner") && !device.is_loaded("secondary"));

        let second = Device::cuda(0).unwrap();
        assert!(run(&second, &launch, 4).starts_with("scale: from is an array of another device"));
        let error = device.load(ptx(CRATE, "no PTX")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "could not compile the PTX of fake_driver: a PTX JIT compilation failed (CUDA error 218)"
        );
        let error = device.set_constant("none", FACTORS, &[1.0]).unwrap_err();
        assert!(matches!(&error, Error::NotLoaded { crate_name, .. } if crate_name == "none"), "{error}");
        let error = device.zeros::<u8>("much", 1 << 30).unwrap_err();
        assert!(matches!(error, Error::DeviceMemory { needed: 1_073_741_824, .. }), "{error}");
        assert!(error.to_string().starts_with("could not allocate 1073741824 bytes for much: "), "{error}");
    }
    assert_eq!(fake.trouble(), None);
}

#[test]
fn shared_arrays_and_dynamic_shared_memory_are_added_up() {
    let fake = Fake::get("");
    {
        let device = Device::cuda(0).unwrap();
        device.load(ptx(CRATE, BOTH)).unwrap();
        let values = device.upload("values", &[3_u32, 4]).unwrap();
        let mut sum = device.zeros("sum", 1).unwrap();
        let mut run = |shared_bytes| {
            let launch = Launch::cover(1, 1).with_shared::<u8>(shared_bytes);
            // SAFETY: the arrays are long enough, and a launch with another size is refused.
            unsafe { device.launch(&launch, &SumInBoth { values: &values, sum: &mut sum }) }
        };
        assert_eq!(
            run(232_448).unwrap_err().to_string(),
            "sum_in_both: the block has 232448 bytes of dynamic shared memory and 40000 bytes of shared arrays of a \
             fixed length, 272448 in all, the device allows 232448"
        );
        // Each part is below 48 KiB, and the sum is above.
        run(12_000).unwrap();
        assert_eq!(device.download(&sum).unwrap(), [7]);
    }
    assert_eq!(fake.trouble(), None);
}

#[test]
fn a_kernel_that_fails_is_reported_by_the_next_wait() {
    let fake = Fake::get("");
    let device = Device::cuda(0).unwrap();
    device.load(PTX).unwrap();
    device.set_constant(CRATE, FACTORS, &[1.0; 4]).unwrap();
    let values = device.zeros("values", 64).unwrap();
    let mut sum = device.zeros("sum", 1).unwrap();
    // Too little shared memory for the kernel. SAFETY: the driver of this test checks every access.
    unsafe { device.launch(&Launch::cover(64, 64), &SumInShared { values: &values, sum: &mut sum }) }.unwrap();
    let error = device.download(&sum).unwrap_err().to_string();
    assert!(error.starts_with("could not run the kernels that were launched before: "), "{error}");
    assert!(fake.trouble().is_some_and(|trouble| trouble.contains("sum_in_shared")), "the driver reports it, too");
}

#[test]
fn a_missing_gpu_is_an_error() {
    let _fake = Fake::get("devices=0");
    let error = Device::cuda(0).unwrap_err().to_string();
    assert_eq!(error, "could not initialise the driver: no CUDA-capable device is detected (CUDA error 100)");
    assert!(Device::cuda_or_emulator().is_emulator());
}
