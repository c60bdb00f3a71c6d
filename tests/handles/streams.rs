//! Images, streams and events. The library orders all work that uses an image, in whatever streams. Handles may be
//! dropped in any order.

use faltung::{Device, DeviceImage, Error, Filter, Image, Pipeline};

use super::{Checked, Test, ensure, equal, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] = &[
    ("streams_order_an_image", order_of_an_image),
    ("streams_order_a_result_that_is_written_again", order_of_a_second_result),
    ("zeros_are_ordered_by_their_stream", zeros),
    ("streams_wait_for_events", events),
    ("images_are_dropped_while_work_is_pending", dropped_images),
    ("handles_are_dropped_in_any_order", any_order),
    ("the_device_is_dropped_before_its_images", device_first),
];

/// A filter, an image and the CPU's result. Other seeds have other results.
fn work(seed: u64) -> Result<(Filter, Image<f32>, Image<f32>), String> {
    let (filter, image) = (filter(3, seed * 4), image(41, 29, 1, seed));
    let right = on_cpu(&filter, &image)?;
    Ok((filter, image, right))
}

/// An image is uploaded on one stream, filtered on a second one, and downloaded on a third one. No call waits in
/// between.
fn order_of_an_image(device: &Device) -> Checked {
    let (filter, image, right) = work(21)?;
    let twice: Image<f32> = on_cpu(&filter, &right)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let stream = || device.stream().map_err(words);
    let (up, first, second, down) = (stream()?, stream()?, stream()?, stream()?);
    for _ in 0..3 {
        let source = device.upload(&image, &up).map_err(words)?;
        let once: DeviceImage<f32> = ready.run(&source, &first).map_err(words)?;
        let result: DeviceImage<f32> = ready.run(&once, &second).map_err(words)?;
        equal("the second result", &result.download(&down).map_err(words)?, &twice)?;
        equal("the first result", &once.download(&up).map_err(words)?, &right)?;
        equal("the source", &source.download(&second).map_err(words)?, &image)?;
    }
    Ok(())
}

/// A result is overwritten while another stream still reads it, and again while a third one still writes it.
fn order_of_a_second_result(device: &Device) -> Checked {
    let (filter, image, right) = work(22)?;
    let (_, other, _) = work(23)?;
    let (twice, other_right): (Image<f32>, Image<f32>) = (on_cpu(&filter, &right)?, on_cpu(&filter, &other)?);
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let stream = || device.stream().map_err(words);
    let (writes, reads, third) = (stream()?, stream()?, stream()?);
    let source = device.upload(&image, &writes).map_err(words)?;
    let other_source = device.upload(&other, &writes).map_err(words)?;

    let mut result: DeviceImage<f32> = ready.run(&source, &writes).map_err(words)?;
    let read: DeviceImage<f32> = ready.run(&result, &reads).map_err(words)?;
    ready.run_into(&other_source, &mut result, &writes).map_err(words)?;
    // The write is done first if nothing lets it wait for the read.
    writes.synchronize().map_err(words)?;
    equal("what was read before", &read.download(&third).map_err(words)?, &twice)?;
    equal("what was written then", &result.download(&third).map_err(words)?, &other_right)?;

    ready.run_into(&source, &mut result, &reads).map_err(words)?;
    ready.run_into(&other_source, &mut result, &third).map_err(words)?;
    third.synchronize().map_err(words)?;
    reads.synchronize().map_err(words)?;
    equal("the last of two writes", &result.download(&writes).map_err(words)?, &other_right)
}

/// Images of zeros, in memory that others have used, are read by another stream, and then take results.
fn zeros(device: &Device) -> Checked {
    let stream = || device.stream().map_err(words);
    let (writes, reads) = (stream()?, stream()?);
    for (width, height, channels) in [(41, 29, 1), (1, 1, 1), (7, 50, 3), (128, 2, 4)] {
        drop(device.upload(&image::<u8>(width, height, channels, 31), &reads).map_err(words)?);
        let bytes = device.zeros::<u8>(width, height, channels, &writes).map_err(words)?;
        let expected = Image::<u8>::zeros(width, height, channels).map_err(words)?;
        let what = |what: &str| format!("{what} of {width} x {height} x {channels}");
        equal(&what("bytes"), &bytes.download(&reads).map_err(words)?, &expected)?;
        drop((bytes, device.upload(&image::<f32>(width, height, channels, 32), &reads).map_err(words)?));
        let floats = device.zeros::<f32>(width, height, channels, &writes).map_err(words)?;
        let expected = Image::<f32>::zeros(width, height, channels).map_err(words)?;
        equal(&what("floats"), &floats.download(&reads).map_err(words)?, &expected)?;
    }
    let (filter, image, right) = work(33)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let source = device.upload(&image, &reads).map_err(words)?;
    let mut result = device.zeros::<f32>(41, 29, 1, &writes).map_err(words)?;
    ready.run_into(&source, &mut result, &reads).map_err(words)?;
    equal("the result", &result.download(&writes).map_err(words)?, &right)?;

    let empty = device.zeros::<f32>(0, 3, 1, &writes).err();
    ensure(matches!(empty, Some(Error::EmptyImage { .. })), || format!("an empty image: {empty:?}"))?;
    let large = device.zeros::<u8>(1 << 40, 3, 1, &writes).err();
    ensure(matches!(large, Some(Error::TooLarge { .. })), || format!("an image too large: {large:?}"))
}

/// A wait for an event waits for the work before it.
fn events(device: &Device) -> Checked {
    let (filter, image, _) = work(24)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let (first, second) = (device.stream().map_err(words)?, device.stream().map_err(words)?);
    let source = device.upload(&image, &first).map_err(words)?;
    for round in 0..3 {
        let start = first.record().map_err(words)?;
        let mut result: DeviceImage<f32> = ready.run(&source, &first).map_err(words)?;
        // Long enough for a device that the second stream could be done before.
        for _ in 0..20 {
            ready.run_into(&source, &mut result, &first).map_err(words)?;
        }
        let end = first.record().map_err(words)?;
        second.wait_for(&end).map_err(words)?;
        let behind = second.record().map_err(words)?;
        second.synchronize().map_err(words)?;
        for (name, event) in [("the first stream's start", &start), ("its end", &end), ("the second stream's", &behind)]
        {
            ensure(event.is_complete().map_err(words)?, || format!("round {round}: {name} event has not come"))?;
        }
        end.since(&start).map_err(words)?;
        let none = start.since(&end).map_err(words)?;
        ensure(none.is_zero(), || format!("an event came {none:?} after a later one"))?;
        let clone = end.clone();
        drop(end);
        clone.synchronize().map_err(words)?;
    }
    Ok(())
}

/// The memory of an image is reused only after the work that uses it.
fn dropped_images(device: &Device) -> Checked {
    let (filter, image, right) = work(25)?;
    let (_, other, _) = work(26)?;
    let other_right: Image<f32> = on_cpu(&filter, &other)?;
    let ready = prepared::<f32, f32>(device, &filter, &image)?;
    let stream = || device.stream().map_err(words);
    let (first, second, third) = (stream()?, stream()?, stream()?);
    for round in 0..4 {
        let source = device.upload(&image, &first).map_err(words)?;
        let result: DeviceImage<f32> = ready.run(&source, &first).map_err(words)?;
        drop(source);
        // The next source is written by a copy, the next result by a kernel of another stream.
        let next = device.upload(&other, &second).map_err(words)?;
        let unused: DeviceImage<f32> = ready.run(&next, &second).map_err(words)?;
        drop(unused);
        let other_result: DeviceImage<f32> = ready.run(&next, &third).map_err(words)?;
        drop(next);
        // Those of the later streams are done first if nothing lets them wait.
        third.synchronize().map_err(words)?;
        second.synchronize().map_err(words)?;
        let what = |name: &str| format!("round {round}: {name}");
        equal(&what("the first"), &result.download(&third).map_err(words)?, &right)?;
        equal(&what("the other one"), &other_result.download(&first).map_err(words)?, &other_right)?;
    }
    Ok(())
}

/// Streams, convolutions and pipelines are dropped before their work is done.
fn any_order(device: &Device) -> Checked {
    let (filter, image, right) = work(27)?;
    let twice: Image<f32> = on_cpu(&filter, &right)?;
    let results = || -> Result<[DeviceImage<f32>; 2], String> {
        let stream = device.stream().map_err(words)?;
        let ready = prepared::<f32, f32>(device, &filter, &image)?;
        let pipeline: Pipeline = device.pipeline(&[filter.clone(), filter.clone()]).map_err(words)?;
        let source = device.upload(&image, &stream).map_err(words)?;
        let event = stream.record().map_err(words)?;
        let results = [ready.run(&source, &stream).map_err(words)?, pipeline.run(&source, &stream).map_err(words)?];
        drop((stream, event, pipeline, ready, source));
        Ok(results)
    };
    let [once, again] = results()?;
    // Other work uses the resources of the dropped handles meanwhile.
    let [other, _] = results()?;
    let stream = device.stream().map_err(words)?;
    equal("the pipeline's", &again.download(&stream).map_err(words)?, &twice)?;
    equal("the first", &once.download(&stream).map_err(words)?, &right)?;
    equal("the other one", &other.download(&stream).map_err(words)?, &right)
}

/// The last handles of a device are its images, streams and events.
fn device_first(device: &Device) -> Checked {
    let (filter, image, right) = work(28)?;
    let mut own = Some(device.clone());
    let device = || own.as_ref().expect("it is dropped last");
    let stream = device().stream().map_err(words)?;
    let locked = device().page_locked::<f32>(100).map_err(words)?;
    let event = stream.record().map_err(words)?;
    let source = device().upload(&image, &stream).map_err(words)?;
    let ready = prepared::<f32, f32>(device(), &filter, &image)?;
    let applied: Image<f32> = device().apply(&filter, &image).map_err(words)?;
    equal("apply", &applied, &right)?;
    drop(own.take());
    let result: DeviceImage<f32> = ready.run(&source, &stream).map_err(words)?;
    drop(ready);
    equal("a result", &result.download(&stream).map_err(words)?, &right)?;
    event.synchronize().map_err(words)?;
    drop((stream, source, event));
    ensure(locked.iter().all(|&value| value == 0.0), || "page-locked memory is not zero".to_owned())?;
    drop(result);
    Ok(())
}
