//! Images with gaps between rows, from host memory to a device and back. The gaps are neither read nor written.

use faltung::{Device, DeviceImage, Image, Pixel, View, ViewMut};

use super::{Checked, HostMemory, Test, ensure, equal_values, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] = &[("views_with_a_pitch", views)];

/// Width, height and channels of an image, and the values between its rows.
type Shape = ((usize, usize, usize), usize);

/// Compares rows with those of an image, and the values between them with `gap`.
fn rows_are<T: Pixel>(what: &str, found: &[T], pitch: usize, right: &Image<T>, gap: T) -> Checked {
    let row = right.width() * right.channels();
    for (y, found) in found.chunks(pitch).enumerate() {
        equal_values(&format!("{what}, row {y}"), &found[..row], right.row(y))?;
        equal_values(&format!("{what}, the gap after row {y}"), &found[row..], &vec![gap; found.len() - row])?;
    }
    Ok(())
}

/// Filters an image with gaps by all calls that take views.
fn views_of<T: Pixel, U: Pixel>(
    device: &Device,
    ((width, height, channels), gap): Shape,
    is_locked: bool,
    (from_gap, to_gap): (T, U),
) -> Checked {
    let row = width * channels;
    let (from_pitch, to_pitch) = (row + gap, row + 2 * gap);
    // There is no gap after the last row.
    let length = |pitch: usize| (height - 1) * pitch + row;
    let image = image::<T>(width, height, channels, 31);
    let filter = filter(3, 31);
    let right: Image<U> = on_cpu(&filter, &image)?;
    let mut from = HostMemory::new(device, is_locked, length(from_pitch), from_gap)?;
    for (y, to) in from.values().chunks_mut(from_pitch).enumerate() {
        to[..row].copy_from_slice(image.row(y));
    }
    let (from, mut to) = (from.values(), HostMemory::new(device, is_locked, length(to_pitch), to_gap)?);
    let view = View::new(width, height, channels, from_pitch, from).map_err(words)?;
    let ready = prepared::<T, U>(device, &filter, &image)?;

    // The second run may use another transfer strategy. The third one uses what the second one has prepared.
    for round in 0..3 {
        to.values().fill(to_gap);
        let result = ViewMut::new(width, height, channels, to_pitch, to.values()).map_err(words)?;
        ready.apply_view(view, result).map_err(words)?;
        rows_are(&format!("apply_view, run {round}"), to.values(), to_pitch, &right, to_gap)?;
    }
    to.values().fill(to_gap);
    let result = ViewMut::new(width, height, channels, to_pitch, to.values()).map_err(words)?;
    ready.run_batch(&[view], &mut [result]).map_err(words)?;
    rows_are("run_batch", to.values(), to_pitch, &right, to_gap)?;

    let stream = device.stream().map_err(words)?;
    let source = device.upload_view(view, &stream).map_err(words)?;
    let result: DeviceImage<U> = ready.run(&source, &stream).map_err(words)?;
    to.values().fill(to_gap);
    let back = ViewMut::new(width, height, channels, to_pitch, to.values()).map_err(words)?;
    result.download_into(back, &stream).map_err(words)?;
    rows_are("a result by download_into", to.values(), to_pitch, &right, to_gap)?;
    let mut back = HostMemory::new(device, is_locked, length(to_pitch), from_gap)?;
    let view = ViewMut::new(width, height, channels, to_pitch, back.values()).map_err(words)?;
    source.download_into(view, &stream).map_err(words)?;
    rows_are("the source by download_into", back.values(), to_pitch, &image, from_gap)
}

fn views(device: &Device) -> Checked {
    for is_locked in [false, true] {
        for shape in [((33, 21, 1), 1), ((20, 9, 3), 7), ((64, 17, 1), 64), ((1, 30, 4), 5), ((40, 1, 1), 3)] {
            let check = |checked: Checked, name: &str| {
                checked.map_err(|error| format!("{shape:?}, {name}, page-locked {is_locked}: {error}"))
            };
            check(views_of::<u8, u8>(device, shape, is_locked, (255, 77)), "u8")?;
            check(views_of::<u16, f32>(device, shape, is_locked, (65_535, -1.0)), "u16 to f32")?;
            // The gap is no NaN of the result: it has its own bits.
            check(views_of::<f32, f32>(device, shape, is_locked, (f32::NAN, -7.0)), "f32")?;
        }
        // This image is too large for the driver's own staging buffers.
        views_of::<u8, u8>(device, ((230, 310, 1), 13), is_locked, (255, 77))
            .map_err(|error| format!("page-locked {is_locked}: {error}"))?;
    }
    let image = image::<u8>(5, 4, 1, 1);
    let (stream, mut room) = (device.stream().map_err(words)?, vec![0_u8; 100]);
    let on_device = device.upload(&image, &stream).map_err(words)?;
    for (width, height, channels) in [(4, 4, 1), (5, 5, 1), (5, 4, 3)] {
        let view = ViewMut::new(width, height, channels, width * channels, &mut room).map_err(words)?;
        let refused = on_device.download_into(view, &stream);
        ensure(refused.is_err(), || format!("5 x 4 to {width} x {height} x {channels}"))?;
    }
    ensure(room.iter().all(|&value| value == 0), || "a refused view was written".to_owned())
}
