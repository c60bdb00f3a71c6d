//! The library with a driver that fails at each of its calls in turn. Each run must end with the right result or with
//! an error that names the cause. It must leave no objects, and must not use the caller's memory after a call has
//! returned.
//!
//! Work begins only when a thread waits for it, and copies of pageable memory are asynchronous, too. So a call that
//! returns too early always leaves work that uses its caller's memory.

use std::panic::{AssertUnwindSafe, catch_unwind};

use faltung::{Device, DeviceImage, Error, Image, Variant, VariantChoice, View, ViewMut};
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, PAGEABLE_LATE, Report};
use crate::handles::context::current;
use crate::library::{download, filter, image, locked, on_cpu, problem, upload};

pub(crate) const TESTS: &[Test] = &[
    ("sweep_steps", || sweep("steps", 1, "", steps)),
    ("sweep_streams", || sweep("streams", 3, "", streams)),
    ("sweep_batch", || sweep("batch", 19, SKIP, batch)),
    ("sweep_graphs", || sweep("graphs", 1, "", graphs)),
    ("sweep_page_locked", || sweep("page-locked", 1, "", page_locked)),
    ("sweep_from_page_locked_only", || sweep("from page-locked only", 1, SKIP, from_page_locked_only)),
    ("sweep_to_page_locked_only", || sweep("to page-locked only", 1, SKIP, to_page_locked_only)),
    ("sweep_bands", || sweep("bands", 3, SKIP, bands)),
    ("sweep_staging", || sweep("staging", 3, SKIP, staging)),
    ("sweep_strips", || sweep("strips", 1, "", strips)),
    ("sweep_strips_from_page_locked", || sweep("strips from page-locked", 1, "", strips_from_page_locked)),
    ("sweep_constant_memory", || sweep("constant memory", 1, "", constant_memory)),
    ("sweep_drop_in_the_middle", || sweep("drop in the middle", 1, "", drop_in_the_middle)),
    ("sweep_rates", || sweep("rates", 3, "memory=2097152;", rates)),
    ("sweep_or_cpu", || sweep("or on the CPU", 1, "", or_cpu)),
];

/// Large images, whose values do not matter.
const SKIP: &str = "kernels=skip;";

/// Failures: code, effect, what the message says, and every how many calls it is tried.
const FAULTS: &[(u32, &str, &str, u64)] = &[
    (2, "once", "out of memory", 1),
    (214, "lost", "uncorrectable ECC error", 1),
    (719, "late", "unspecified launch failure", 1),
    (999, "lost", "unknown error", 5),
    (801, "once", "operation not supported", 3),
    (801, "always", "operation not supported", 7),
];

/// The result of a scenario.
type Outcome = faltung::Result<()>;

/// All messages of an error and its sources.
fn words(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(|error| format!("{error}; ")).collect()
}

/// Runs a scenario under these settings.
fn run(fake: &Fake, settings: &str, scenario: fn(&Fake) -> Outcome) -> (Result<Outcome, ()>, Report) {
    fake.reset(settings);
    let outcome = catch_unwind(AssertUnwindSafe(|| scenario(fake))).map_err(drop);
    let mut report = fake.report();
    // Unless a call for contexts failed, no context is current, as before.
    let failed = report.struck.iter().any(|function| function.starts_with("cuCtx")) || settings.contains("always");
    if !failed && report.by_function.contains_key("cuCtxSetCurrent") && !current().is_null() {
        report.violations.push("the current context is another one than before".to_owned());
    }
    (outcome, report)
}

/// Lets each call fail in turn, or each one of `stride`.
fn sweep(name: &str, stride: u64, settings: &str, scenario: fn(&Fake) -> Outcome) -> Result<(), Failed> {
    let fake = Fake::get();
    let settings = format!("{settings}{PAGEABLE_LATE}");
    let (outcome, report) = run(&fake, &settings, scenario);
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(format!("without a failure: {}", words(&error)).into()),
        Err(()) => return Err("it panicked without a failure".into()),
    }
    if let Some(trouble) = report.trouble() {
        return Err(format!("without a failure: {trouble}").into());
    }
    let (calls, mut runs, mut errors) = (report.calls, 0_u64, 0_u64);
    let mut wrong = Vec::new();
    for &(code, effect, says, step) in FAULTS {
        let numbered = (1..=calls).step_by((stride * step) as usize).map(|call| format!("*:{call}"));
        // The number of queries differs from run to run.
        let queries = [1, 4].map(|call| format!("cuEventQuery:{call}"));
        for call in numbered.chain(queries) {
            let (outcome, report) = run(&fake, &format!("{settings};fail={call}:{code}:{effect}"), scenario);
            runs += 1;
            let mut complain = |text: String| {
                let function = report.struck.first().map_or("nothing", String::as_str);
                wrong.push(format!("{function}, call {call}, fails with {code} ({effect}): {text}"));
            };
            match outcome {
                Err(()) => complain("a panic".into()),
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    errors += 1;
                    let text = words(&error);
                    if !(text.contains(says) || code == 2 && matches!(error, Error::DeviceMemory { .. })) {
                        complain(format!("the error does not say \"{says}\": {text}"));
                    }
                    // A driver that keeps failing is lost, too, whatever its codes.
                    let may_be_lost = effect != "once";
                    let must_be_lost = matches!(code, 214 | 719);
                    let is_lost = matches!(error, Error::DeviceLost { .. });
                    let fits = if is_lost { may_be_lost } else { !must_be_lost };
                    if !fits && !matches!(error, Error::NoDevice { .. }) {
                        complain(format!("the device is lost, or is not: {error:?}"));
                    }
                }
            }
            // A library that can't enter a context any more can free nothing in it.
            let can_enter = effect == "once" || !report.struck.iter().any(|function| function.starts_with("cuCtx"));
            if let Some(trouble) = report.trouble()
                && (can_enter || !report.violations.is_empty())
            {
                complain(trouble);
            }
            if report.fired == 0 && call.starts_with('*') {
                complain("the call was not reached".into());
            }
        }
    }
    println!("{name}: {calls} calls, {runs} runs, {errors} errors, {} right results", runs - errors);
    if wrong.is_empty() {
        assert!(errors > 0, "a failing driver gives errors");
        return Ok(());
    }
    Err(format!("{} of {runs} runs went wrong\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n")).into())
}

fn steps(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let (source, mut result) = (image::<f32>(37, 9), vec![0_f32; 37 * 9]);
    let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
    let stream = device.stream()?;
    let on_device = fake.lending(source.values(), &mut [0_u8], |source, _| upload(&device, source, 37, &stream))?;
    let first: DeviceImage<f32> = convolution.run(&on_device, &stream)?;
    let second: DeviceImage<f32> = convolution.run(&on_device, &stream)?;
    drop(first);
    fake.lending(&[0_u8], &mut result, |_, result| download(&second, result, &stream))?;
    assert_eq!(result, on_cpu::<f32, f32>(&source).values());
    Ok(())
}

/// An image through three streams, in memory of its own and of an image that has gone, and through a pipeline.
fn streams(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let source = image::<f32>(37, 9);
    let right: Image<f32> = on_cpu(&source);
    let pipeline = device.pipeline(&[filter(), filter()])?;
    let (first, second, third) = (device.stream()?, device.stream()?, device.stream()?);
    let on_device = fake.lending(source.values(), &mut [0_u8], |source, _| upload(&device, source, 37, &first))?;
    let mut results = vec![vec![0_f32; 37 * 9]; 2];
    for result in &mut results {
        let found: DeviceImage<f32> = pipeline.run(&on_device, &second)?;
        third.wait_for(&second.record()?)?;
        // SAFETY: the first image lives longer, and both are only read. What writes it is done.
        let same = unsafe { DeviceImage::from_raw(on_device.as_ptr().cast_mut(), 37, 9, 1, on_device.pitch(), ()) }?;
        let unused: DeviceImage<f32> = pipeline.run(&same, &third)?;
        drop((unused, same));
        fake.lending(&[0_u8], result, |_, result| download(&found, result, &third))?;
        assert_eq!(result, on_cpu::<f32, f32>(&right).values());
    }
    Ok(())
}

/// Four images of a batch, in bands. They are one more than can be under way at a time.
fn batch(_: &Fake) -> Outcome {
    let (width, height) = LARGE;
    let device = Device::cuda(0)?;
    let source = device.page_locked::<u8>(width * height)?;
    let mut results = device.page_locked::<u8>(4 * width * height)?;
    let shape = Image::new(width, height, 1, vec![0_u8; width * height])?;
    let convolution = device.prepare(&problem(&shape), VariantChoice::Auto)?;
    let view = View::new(width, height, 1, width, &source)?;
    let mut results: Vec<_> = (results.chunks_mut(width * height))
        .map(|values| ViewMut::new(width, height, 1, width, values))
        .collect::<Result<_, _>>()?;
    convolution.run_batch::<u8, u8>(&[view; 4], &mut results)
}

fn graphs(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let source = image::<f32>(37, 9);
    let right: Image<f32> = on_cpu(&source);
    let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
    // Kept until the end: nothing may use them after their call.
    let mut results = vec![vec![0_f32; 37 * 9]; 3];
    for result in &mut results {
        fake.apply(&convolution, source.values(), result)?;
        assert_eq!(result, right.values());
    }
    Ok(())
}

fn page_locked(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let image = image::<f32>(64, 9);
    let [source, mut result] = locked(&device, &image)?;
    let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
    for _ in 0..3 {
        result.fill(-1.0);
        fake.apply(&convolution, &source, &mut result)?;
        assert_eq!(&result[..], on_cpu::<f32, f32>(&image).values());
    }
    Ok(())
}

/// An image that is copied through page-locked memory where it lies in pageable memory, in one piece.
const MIDDLE: (usize, usize) = (400, 200);
/// An image that is copied in more than one piece, or in bands.
const LARGE: (usize, usize) = (2100, 2100);

fn from_page_locked_only(fake: &Fake) -> Outcome {
    let (width, height) = MIDDLE;
    let device = Device::cuda(0)?;
    let source = device.page_locked::<u8>(width * height)?;
    let mut result = vec![0_u8; width * height];
    let image = Image::new(width, height, 1, result.clone())?;
    let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
    for _ in 0..2 {
        fake.apply(&convolution, &source, &mut result)?;
    }
    Ok(())
}

fn to_page_locked_only(fake: &Fake) -> Outcome {
    let (width, height) = MIDDLE;
    let device = Device::cuda(0)?;
    let mut result = device.page_locked::<u8>(width * height)?;
    let source = Image::new(width, height, 1, vec![0_u8; width * height])?;
    let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
    for _ in 0..2 {
        fake.apply(&convolution, source.values(), &mut result)?;
    }
    Ok(())
}

fn bands(fake: &Fake) -> Outcome {
    let (width, height) = LARGE;
    let device = Device::cuda(0)?;
    let source = device.page_locked::<u8>(width * height)?;
    let mut result = device.page_locked::<u8>(width * height)?;
    let shape = Image::new(width, height, 1, vec![0_u8; width * height])?;
    let convolution = device.prepare(&problem(&shape), VariantChoice::Auto)?;
    for _ in 0..2 {
        fake.apply(&convolution, &source, &mut result)?;
    }
    Ok(())
}

fn staging(fake: &Fake) -> Outcome {
    let (width, height) = LARGE;
    let device = Device::cuda(0)?;
    let source = Image::new(width, height, 1, vec![0_u8; width * height])?;
    let mut result = vec![0_u8; width * height];
    let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
    fake.apply(&convolution, source.values(), &mut result)?;
    let stream = device.stream()?;
    let on_device = fake.lending(source.values(), &mut result, |source, _| upload(&device, source, width, &stream))?;
    fake.lending(source.values(), &mut result, |_, result| download(&on_device, result, &stream))
}

fn strips(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?.with_memory_limit(3000);
    let source = image::<u8>(40, 60);
    let mut result = vec![0_u8; 40 * 60];
    let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
    fake.apply(&convolution, source.values(), &mut result)?;
    assert_eq!(result, on_cpu::<u8, u8>(&source).values());
    Ok(())
}

fn strips_from_page_locked(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?.with_memory_limit(3000);
    let image = image::<u8>(40, 60);
    let [source, mut result] = locked(&device, &image)?;
    let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
    fake.apply(&convolution, &source, &mut result)?;
    assert_eq!(&result[..], on_cpu::<u8, u8>(&image).values());
    Ok(())
}

/// Two convolutions that take turns in one module's constant memory.
fn constant_memory(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let source = image::<f32>(21, 9);
    let right: Image<f32> = on_cpu(&source);
    let choice = VariantChoice::Named(Variant::ConstantMask);
    let first = device.prepare(&problem(&source), choice)?;
    let second = device.prepare(&problem(&source), choice)?;
    let mut results = vec![vec![0_f32; 21 * 9]; 4];
    for (index, result) in results.iter_mut().enumerate() {
        let convolution = if index % 2 == 0 { &first } else { &second };
        let ran = fake.apply(convolution, source.values(), result);
        // A run that failed is repeated. A mask that was not copied must not be taken for a copied one.
        if ran.is_err() {
            fake.apply(convolution, source.values(), result)?;
        }
        assert_eq!(result, right.values());
        ran?;
    }
    Ok(())
}

/// All handles are dropped while work is under way.
fn drop_in_the_middle(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let image = image::<f32>(64, 9);
    let source = device.page_locked::<f32>(64 * 9)?;
    let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
    let stream = device.stream()?;
    let on_device = fake.lending(&source, &mut [0_u8], |source, _| upload(&device, source, 64, &stream))?;
    let blurred: DeviceImage<f32> = convolution.run(&on_device, &stream)?;
    let _: DeviceImage<f32> = convolution.run(&blurred, &device.stream()?)?;
    let again = device.prepare(&problem(&image), VariantChoice::Auto)?;
    drop(convolution);
    drop(again);
    fake.forget();
    Ok(())
}

fn rates(_: &Fake) -> Outcome {
    Device::cuda(0)?.rates().map(drop)
}

/// Images that do not fit the device's memory are computed in strips, or on the CPU.
fn or_cpu(fake: &Fake) -> Outcome {
    let device = Device::cuda(0)?;
    let source = image::<u8>(40, 20);
    let mut result = vec![0_u8; 40 * 20];
    let convolution = device.prepare_or_cpu(&problem(&source), VariantChoice::Auto)?;
    fake.apply(&convolution, source.values(), &mut result)?;
    assert_eq!(result, on_cpu::<u8, u8>(&source).values());
    Ok(())
}
