//! The library with a driver that does not fail. Results are bit-exact with the CPU's, and no object is left.

use faltung::{
    Accuracy, Border, Device, DeviceImage, Filter, Image, Mask, PageLocked, Pixel, PixelFormat, Problem, Stream,
    Variant, VariantChoice, View, ViewMut,
};
use libtest_mimic::Failed;

use crate::Test;
use crate::fake::{Fake, LATE, PAGEABLE_LATE};

pub(crate) const TESTS: &[Test] = &[
    ("library_apply", apply),
    ("library_every_variant", every_variant),
    ("library_steps", steps),
    ("library_graphs", graphs),
    ("library_streams_are_non_blocking", streams_are_non_blocking),
    ("library_page_locked", page_locked),
    ("library_bands", bands),
    ("library_strips", strips),
    ("library_constant_memory_of_two", constant_memory_of_two),
    ("library_rates", rates),
    ("library_falls_back", falls_back),
    ("library_without_graphs", without_graphs),
    ("library_without_page_locked_memory", without_page_locked_memory),
    ("library_jit_refuses", jit_refuses),
    ("library_other_devices", other_devices),
    ("library_two_devices_in_turn", two_devices_in_turn),
    ("library_images_in_turn", images_in_turn),
    ("library_pipelines_allocate_no_images", pipelines_allocate_no_images),
    ("library_allocations_that_fail", allocations_that_fail),
];

/// A filter with the same bits on each device.
pub(crate) fn filter() -> Filter {
    let coefficients = vec![0.5, 1.0, -2.0, 3.0, 0.25, 1.5, -1.0, 2.0, 0.125];
    Filter::new(Mask::new(3, 3, coefficients).expect("nine coefficients")).accuracy(Accuracy::Exact)
}

/// An image in which no two rows or columns are alike.
pub(crate) fn image<T: Pixel>(width: usize, height: usize) -> Image<T> {
    let value = |x: usize, y: usize| T::from_f32(((x * 7 + y * 13 + x * y) % 251) as f32);
    Image::from_fn(width, height, value).expect("an image has pixels")
}

/// The CPU's result.
pub(crate) fn on_cpu<T: Pixel, U: Pixel>(image: &Image<T>) -> Image<U> {
    Device::cpu().apply(&filter(), image).expect("the CPU computes")
}

/// The problem of an image whose results have the same type.
pub(crate) fn problem<T: Pixel>(image: &Image<T>) -> Problem {
    let problem = Problem::new(image.width(), image.height(), &filter()).expect("a valid problem");
    problem.with_format(PixelFormat::of::<T, T>(image.channels())).expect("a valid format")
}

/// Uploads values to the device, as rows of one channel.
pub(crate) fn upload<T: Pixel>(
    device: &Device,
    values: &[T],
    width: usize,
    stream: &Stream,
) -> faltung::Result<DeviceImage<T>> {
    device.upload_view(View::new(width, values.len() / width, 1, width, values)?, stream)
}

/// Downloads values from the device.
pub(crate) fn download<T: Pixel>(image: &DeviceImage<T>, values: &mut [T], stream: &Stream) -> faltung::Result<()> {
    let (width, height) = (image.width(), image.height());
    image.download_into(ViewMut::new(width, height, 1, width, values)?, stream)
}

/// Page-locked memory with an image's values, and as much for a result.
pub(crate) fn locked<T: Pixel>(device: &Device, image: &Image<T>) -> faltung::Result<[PageLocked<T>; 2]> {
    let length = image.values().len();
    let mut source = device.page_locked(length)?;
    source.copy_from_slice(image.values());
    Ok([source, device.page_locked(length)?])
}

/// Resets the driver with these settings, calls `work`, and checks that no object is left.
pub(crate) fn cleanly(settings: &str, work: impl FnOnce(&Fake) -> Result<(), Failed>) -> Result<(), Failed> {
    let fake = Fake::get();
    fake.reset(settings);
    work(&fake)?;
    match fake.report().trouble() {
        None => Ok(()),
        Some(trouble) => Err(trouble.into()),
    }
}

fn apply() -> Result<(), Failed> {
    cleanly("", |_| {
        let device = Device::cuda(0)?;
        let bytes = image::<u8>(61, 47);
        assert_eq!(device.apply::<u8, u8>(&filter(), &bytes)?, on_cpu(&bytes));
        assert_eq!(device.apply::<u8, f32>(&filter(), &bytes)?, on_cpu(&bytes));
        let words = image::<u16>(40, 70);
        assert_eq!(device.apply::<u16, u8>(&filter(), &words)?, on_cpu(&words));
        Ok(())
    })
}

/// Each kernel once, by the same path of launch and parameters as on a GPU.
fn every_variant() -> Result<(), Failed> {
    cleanly("", |_| {
        let device = Device::cuda(0)?;
        let column = [1.0_f32, 2.0, 4.0, 2.0, 0.5];
        let mask = column.iter().flat_map(|a| column.map(|b| a * b)).collect();
        // The scale leaves results of bytes in their range, as some kernels require. It rounds nothing.
        let filter = Filter::new(Mask::new(5, 5, mask)?).scale(1.0 / 128.0).border(Border::Mirror);
        let mut ran = 0;
        for variant in Variant::ALL {
            let (bytes, floats) = (image::<u8>(70, 41), image::<f32>(70, 41));
            let of_bytes = Problem::new(70, 41, &filter)?.with_format(PixelFormat::of::<u8, u8>(1))?;
            if let Ok(convolution) = device.prepare(&of_bytes, VariantChoice::Named(variant)) {
                let right: Image<u8> = Device::cpu().apply(&filter, &bytes)?;
                assert_eq!(convolution.apply::<u8, u8>(&bytes)?, right, "{}", variant.name());
                ran += 1;
            }
            let of_floats = Problem::new(70, 41, &filter)?;
            if let Ok(convolution) = device.prepare(&of_floats, VariantChoice::Named(variant)) {
                let right: Image<f32> = Device::cpu().apply(&filter, &floats)?;
                let found = convolution.apply::<f32, f32>(&floats)?;
                for (found, right) in found.values().iter().zip(right.values()) {
                    // Those that are not bit-exact are within a bound that `check` holds them to.
                    let error = (found - right).abs();
                    let is_near = if variant.is_exact() { found == right } else { error <= right.abs() * 1e-3 };
                    assert!(is_near, "{}: {found} is not {right}", variant.name());
                }
                ran += 1;
            }
        }
        println!("{ran} kernels ran");
        assert!(ran >= Variant::ALL.len(), "each variant takes one of the two: {ran}");
        Ok(())
    })
}

fn steps() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        let device = Device::cuda(0)?;
        let (source, mut result) = (image::<f32>(37, 29), image::<f32>(37, 29));
        let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
        let stream = device.stream()?;
        let on_device = fake.lending(source.values(), &mut [0_u8], |source, _| upload(&device, source, 37, &stream))?;
        let found: DeviceImage<f32> = convolution.run(&on_device, &stream)?;
        fake.lending(&[0_u8], result.values_mut(), |_, result| download(&found, result, &stream))?;
        assert_eq!(result, on_cpu(&source));
        Ok(())
    })
}

fn graphs() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        let device = Device::cuda(0)?;
        let (source, right) = (image::<f32>(64, 29), on_cpu::<f32, f32>(&image::<f32>(64, 29)));
        let convolution = device.prepare(&problem(&source), VariantChoice::Auto)?;
        for _ in 0..3 {
            let mut result = image::<f32>(64, 29);
            fake.apply(&convolution, source.values(), result.values_mut())?;
            assert_eq!(result, right);
        }
        let report = fake.report();
        assert_eq!(report.by_function["cuGraphLaunch"], 2, "the first run is none, the others are one graph");
        assert_eq!(report.by_function["cuGraphInstantiateWithFlags"], 1);
        Ok(())
    })
}

fn page_locked() -> Result<(), Failed> {
    cleanly(LATE, |fake| {
        let device = Device::cuda(0)?;
        let (image, right) = (image::<f32>(64, 29), on_cpu::<f32, f32>(&image::<f32>(64, 29)));
        let [source, mut result] = locked(&device, &image)?;
        let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
        for _ in 0..3 {
            result.fill(-1.0);
            fake.apply(&convolution, &source, &mut result)?;
            assert_eq!(&result[..], right.values());
        }
        drop(convolution);
        fake.forget();
        Ok(())
    })
}

fn bands() -> Result<(), Failed> {
    cleanly(LATE, |fake| {
        let device = Device::cuda(0)?;
        let image = image::<f32>(1030, 1030);
        let right = on_cpu::<f32, f32>(&image);
        let [source, mut result] = locked(&device, &image)?;
        let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
        for _ in 0..2 {
            result.fill(-1.0);
            fake.apply(&convolution, &source, &mut result)?;
            assert!(result[..] == *right.values(), "the bands' values are the CPU's");
        }
        assert!(fake.report().by_function.contains_key("cuStreamWaitEvent"), "the second run is in bands");
        drop(convolution);
        fake.forget();
        Ok(())
    })
}

fn strips() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        let image = image::<u8>(40, 120);
        let device = Device::cuda(0)?.with_memory_limit(4000);
        let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
        let note = convolution.note().unwrap_or_default();
        assert!(note.contains("strips"), "{note}");
        for _ in 0..2 {
            let mut result = vec![0_u8; 40 * 120];
            fake.apply(&convolution, image.values(), &mut result)?;
            assert_eq!(result, on_cpu::<u8, u8>(&image).values());
        }
        Ok(())
    })
}

/// Two convolutions with one module: each launch finds its own mask in the module's constant memory.
fn constant_memory_of_two() -> Result<(), Failed> {
    cleanly(PAGEABLE_LATE, |fake| {
        let device = Device::cuda(0)?;
        let image = image::<f32>(33, 21);
        let choice = VariantChoice::Named(Variant::ConstantMask);
        let other = Filter::new(Mask::new(3, 3, vec![1.0; 9])?);
        let first = device.prepare(&problem(&image), choice)?;
        let second = device.prepare(&Problem::new(33, 21, &other)?, choice)?;
        for _ in 0..3 {
            let mut result = vec![0_f32; 33 * 21];
            fake.apply(&first, image.values(), &mut result)?;
            assert_eq!(result, on_cpu::<f32, f32>(&image).values());
            fake.apply(&second, image.values(), &mut result)?;
            assert_eq!(result, Device::cpu().apply::<f32, f32>(&other, &image)?.values());
        }
        Ok(())
    })
}

fn rates() -> Result<(), Failed> {
    cleanly("memory=16777216", |_| {
        let rates = Device::cuda(0)?.rates()?;
        assert!(rates.copy_bytes_per_s > 0.0 && rates.flop_per_s > 0.0, "{rates:?}");
        Ok(())
    })
}

/// Too little memory for the whole image: strips. Too little for those, too: the CPU. The answer is the same.
fn falls_back() -> Result<(), Failed> {
    let image = image::<u8>(40, 120);
    for (settings, note) in [
        ("fail=cuMemAlloc_v2:1:2", "strips"),
        ("fail=cuMemAlloc_v2:2:2", "strips"),
        ("fail=cuMemAlloc_v2:1:2:always", "on the CPU"),
        ("memory=6000", "strips"),
        ("memory=100", "on the CPU"),
    ] {
        cleanly(settings, |_| {
            let device = Device::cuda(0)?;
            // Without a mask in a buffer, so that the allocations are those of the images.
            let convolution = device.prepare_or_cpu(&problem(&image), VariantChoice::Auto)?;
            let found = convolution.note().unwrap_or_default();
            assert!(found.contains(note), "{settings}: {found}");
            assert_eq!(convolution.apply::<u8, u8>(&image)?, on_cpu(&image), "{settings}");
            Ok(())
        })?;
    }
    Ok(())
}

/// All that the library computes, in streams of its own and in graphs: no stream of it is a blocking one, and it gives
/// no work to the legacy default stream.
fn streams_are_non_blocking() -> Result<(), Failed> {
    cleanly("memory=16777216", |fake| {
        let device = Device::cuda(0)?;
        let image = image::<f32>(40, 30);
        let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
        for _ in 0..3 {
            assert_eq!(convolution.apply::<f32, f32>(&image)?, on_cpu(&image));
        }
        let stream = device.stream()?;
        let result: DeviceImage<f32> = convolution.run(&device.upload(&image, &stream)?, &stream)?;
        assert_eq!(result.download(&stream)?, on_cpu(&image));
        device.rates()?;
        let report = fake.report();
        // Three of a lane, and this one.
        assert!(report.live["stream"] >= 4 && report.blocking_streams == 0, "{report:?}");
        assert!(report.by_function["cuGraphLaunch"] >= 2, "{report:?}");
        let in_default_stream = |name: &&String| {
            let is_synchronous = |start: &str| name.starts_with(start) && !name.contains("Async");
            is_synchronous("cuMemcpy") || is_synchronous("cuMemset") || name.starts_with("cuStreamBeginCapture")
        };
        assert_eq!(report.by_function.keys().find(in_default_stream), None);
        assert!(!report.by_function.contains_key("cuCtxSynchronize"), "{report:?}");
        Ok(())
    })
}

/// Where the driver refuses a graph, runs have separate steps.
fn without_graphs() -> Result<(), Failed> {
    for function in ["cuGraphCreate", "cuGraphAddKernelNode", "cuGraphInstantiateWithFlags"] {
        cleanly(&format!("fail={function}:1:801:always"), |_| {
            let device = Device::cuda(0)?;
            let image = image::<f32>(40, 30);
            let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
            for _ in 0..3 {
                assert_eq!(convolution.apply::<f32, f32>(&image)?, on_cpu(&image), "without {function}");
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Without page-locked memory copies use pageable memory. A call that asks for page-locked memory fails.
fn without_page_locked_memory() -> Result<(), Failed> {
    cleanly("fail=cuMemAllocHost_v2:1:304:always", |_| {
        let device = Device::cuda(0)?;
        let error = device.page_locked::<f32>(10).err().ok_or("page-locked memory is refused")?.to_string();
        assert!(error.contains("page-locked memory") && error.contains("OS call failed"), "{error}");
        // One is so small that the driver copies it, the other one is not.
        for image in [image::<f32>(40, 30), image::<f32>(160, 120)] {
            let convolution = device.prepare(&problem(&image), VariantChoice::Auto)?;
            for _ in 0..3 {
                assert_eq!(convolution.apply::<f32, f32>(&image)?, on_cpu(&image));
            }
        }
        Ok(())
    })
}

/// A driver that can't compile a kernel: the error names the kernel, and the device is as it was.
fn jit_refuses() -> Result<(), Failed> {
    cleanly("fail=cuModuleLoadDataEx:1:218", |_| {
        let device = Device::cuda(0)?;
        let image = image::<u8>(40, 30);
        let error = device.prepare(&problem(&image), VariantChoice::Auto).err().ok_or("it is refused")?.to_string();
        assert!(
            error.contains("refused to compile the kernels of") && error.contains("a PTX JIT compilation failed"),
            "{error}"
        );
        assert_eq!(device.apply::<u8, u8>(&filter(), &image)?, on_cpu(&image));
        Ok(())
    })
}

/// A driver without a device, with an older device, and with a device that is too old.
fn other_devices() -> Result<(), Failed> {
    cleanly("devices=0", |_| {
        assert!(matches!(Device::cuda(0), Err(faltung::Error::NoDevice { .. })));
        assert_eq!(Device::auto().backend(), "cpu");
        Ok(())
    })?;
    cleanly("compute=7.0", |_| {
        let image = image::<u8>(40, 30);
        assert_eq!(Device::cuda(0)?.apply::<u8, u8>(&filter(), &image)?, on_cpu(&image));
        Ok(())
    })?;
    cleanly("compute=6.1", |_| {
        let error = Device::cuda(0).err().ok_or("it is too old")?.to_string();
        assert!(error.contains("compute capability 6.1"), "{error}");
        Ok(())
    })?;
    // The clocks of multiprocessors and memory, the width of the bus and the cache are for predictions alone.
    cleanly("unknown=13;unknown=36;unknown=37;unknown=38", |_| {
        let (device, image) = (Device::cuda(0)?, image::<u8>(40, 30));
        let gpu = device.gpu().ok_or("it is a CUDA device")?;
        assert_eq!((gpu.clock_mhz, gpu.memory_gb_s, gpu.l2_bytes), (0, 0, 0));
        assert_eq!(device.apply::<u8, u8>(&filter(), &image)?, on_cpu(&image));
        Ok(())
    })
}

/// A device may be opened again after it was closed, and twice at a time.
fn two_devices_in_turn() -> Result<(), Failed> {
    cleanly("", |_| {
        let image = image::<u8>(20, 20);
        drop(Device::cuda(0)?);
        let (first, second) = (Device::cuda(0)?, Device::cuda(0)?);
        for device in [&first, &second, &first] {
            assert_eq!(device.apply::<u8, u8>(&filter(), &image)?, on_cpu(&image));
        }
        drop(first);
        assert_eq!(second.apply::<u8, u8>(&filter(), &image)?, on_cpu(&image));
        Ok(())
    })
}

/// Each image takes the memory of the one before, which a stream may still use.
fn images_in_turn() -> Result<(), Failed> {
    cleanly("", |_| {
        let device = Device::cuda(0)?;
        let (stream, pipeline) = (device.stream()?, device.pipeline(&[filter(), filter()])?);
        let image = image::<u8>(40, 30);
        let right: Image<f32> = Device::cpu().apply(&filter(), &on_cpu::<u8, f32>(&image))?;
        for _ in 0..3 {
            let result: DeviceImage<f32> = pipeline.run(&device.upload(&image, &stream)?, &stream)?;
            assert_eq!(result.download(&stream)?, right);
        }
        Ok(())
    })
}

/// A pipeline takes images that are on the device. So it needs no room for others, and no limit cuts them in strips.
fn pipelines_allocate_no_images() -> Result<(), Failed> {
    cleanly("", |fake| {
        let image = image::<u8>(40, 120);
        let right: Image<f32> = Device::cpu().apply(&filter(), &on_cpu::<u8, f32>(&image))?;
        let device = Device::cuda(0)?.with_memory_limit(4000);
        let pipeline = device.pipeline(&[filter(), filter()])?;
        pipeline.prepare::<u8, f32>(40, 120, 1)?;
        let masks = fake.report().live.get("device_memory").copied().unwrap_or(0);
        assert!(masks <= 2, "{masks} pieces of memory");
        assert_eq!(pipeline.apply::<u8, f32>(&image)?, right);
        Ok(())
    })
}

/// Where memory is short, idle memory is freed before another attempt. An error of that one keeps its meaning.
fn allocations_that_fail() -> Result<(), Failed> {
    // The first call is for an image, whose memory is idle then.
    let allocate = |settings: &str| {
        let mut found = None;
        cleanly(settings, |_| {
            let device = Device::cuda(0)?;
            drop(device.upload(&image::<u8>(40, 30), &device.stream()?)?);
            found = Some(device.allocate(1000).map(drop));
            Ok(())
        })?;
        found.ok_or_else(|| Failed::from("no result"))
    };
    assert_eq!(allocate("fail=cuMemAlloc_v2:2:2")?, Ok(()));
    let error = allocate("fail=cuMemAlloc_v2:2:2:always")?;
    assert!(matches!(error, Err(faltung::Error::DeviceMemory { .. })), "{error:?}");
    let error = allocate("fail=cuMemAlloc_v2:2:2;fail=cuMemAlloc_v2:3:719:lost")?;
    assert!(matches!(error, Err(faltung::Error::DeviceLost { .. })), "{error:?}");
    Ok(())
}
