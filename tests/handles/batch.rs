//! A batch has the results of its single images, for any number of images in any kind of memory.

use faltung::{Device, Error, Filter, Image, Pixel, Prepared, View, ViewMut};

use super::{Checked, HostMemory, Test, ensure, equal_values, filter, image, on_cpu, prepared, words};

pub(crate) const TESTS: &[Test] =
    &[("batches_are_as_one_by_one", as_one_by_one), ("batches_with_a_wrong_image_are_refused_whole", wrong_image)];

/// Images of one size and their results on the CPU.
struct Images<T: Pixel, U: Pixel> {
    ready: Prepared,
    images: Vec<Image<T>>,
    right: Vec<Image<U>>,
}

impl<T: Pixel, U: Pixel> Images<T, U> {
    fn new(device: &Device, filter: &Filter, (width, height): (usize, usize), count: usize) -> Result<Self, String> {
        let images: Vec<_> = (0..count as u64).map(|seed| image::<T>(width, height, 1, 41 + seed)).collect();
        let right = images.iter().map(|image| on_cpu(filter, image)).collect::<Result<_, _>>()?;
        Ok(Self { ready: prepared::<T, U>(device, filter, &images[0])?, images, right })
    }

    /// The first `count` images as a batch, `runs` times.
    fn check(&self, device: &Device, count: usize, locked: [bool; 2], runs: usize) -> Checked {
        let (width, height) = (self.images[0].width(), self.images[0].height());
        let length = width * height;
        let mut from = HostMemory::new(device, locked[0], count * length, T::default())?;
        let mut to = HostMemory::new(device, locked[1], count * length, U::default())?;
        for (image, place) in self.images.iter().zip(from.values().chunks_mut(length)) {
            place.copy_from_slice(image.values());
        }
        for run in 0..runs {
            to.values().fill(U::default());
            let views: Vec<_> = (from.values().chunks(length))
                .map(|values| View::new(width, height, 1, width, values).map_err(words))
                .collect::<Result<_, _>>()?;
            let mut results: Vec<_> = (to.values().chunks_mut(length))
                .map(|values| ViewMut::new(width, height, 1, width, values).map_err(words))
                .collect::<Result<_, _>>()?;
            self.ready.run_batch(&views, &mut results).map_err(words)?;
            for (number, (found, right)) in to.values().chunks(length).zip(&self.right).enumerate() {
                let what = format!("image {number} of {count}, run {run}, page-locked {locked:?}");
                equal_values(&what, found, right.values())?;
            }
        }
        Ok(())
    }
}

fn as_one_by_one(device: &Device) -> Checked {
    let small = Images::<u8, f32>::new(device, &filter(3, 41), (37, 20), 7)?;
    for count in [0, 1, 2, 7] {
        for locked in [[false, false], [true, true], [true, false], [false, true]] {
            // The second run of a convolution may use another transfer strategy.
            small.check(device, count, locked, 2)?;
        }
    }
    if device.backend() == "cuda" {
        // These images are copied in bands, several at once. They are more than can be under way at a time.
        let large = Images::<u8, f32>::new(device, &filter(1, 41), (1030, 1030), 5)?;
        large.check(device, 2, [true, false], 1)?;
        large.check(device, 5, [true, true], 1)?;
    }
    Ok(())
}

/// An image or a result of another size, or of another number of channels, is found before any is computed.
fn wrong_image(device: &Device) -> Checked {
    let (filter, image) = (filter(3, 42), image::<u8>(20, 10, 1, 42));
    let ready = prepared::<u8, u8>(device, &filter, &image)?;
    let wide = self::image::<u8>(21, 10, 1, 42);
    let colours = self::image::<u8>(20, 10, 3, 42);
    let is_size = |error: &Error| matches!(error, Error::OtherSize { planned: (20, 10), found: (21, 10) });
    let is_format = |error: &Error| matches!(error, Error::OtherFormat { .. });
    let mut room = vec![9_u8; 4 * 20 * 10];
    {
        let mut results = results_of(&mut room)?;
        let mut refused = |views: &[View<'_, u8>], is_right: &dyn Fn(&Error) -> bool| {
            let error = ready.run_batch::<u8, u8>(views, &mut results).err();
            ensure(error.as_ref().is_some_and(is_right), || format!("{error:?}"))
        };
        refused(&[image.view(), image.view(), wide.view(), image.view()], &is_size)?;
        refused(&[image.view(), colours.view(), image.view(), image.view()], &is_format)?;
        refused(&[image.view(); 3], &|error| matches!(error, Error::Batch { images: 3, results: 4 }))?;
    }
    ensure(room.iter().all(|&value| value == 9), || "a result was written".to_owned())?;

    let mut wide_room = vec![9_u8; 21 * 10];
    let mut results = results_of(&mut room)?;
    results[2] = ViewMut::new(21, 10, 1, 21, &mut wide_room).map_err(words)?;
    let error = ready.run_batch::<u8, u8>(&[image.view(); 4], &mut results).err();
    ensure(error.as_ref().is_some_and(is_size), || format!("a result of another size: {error:?}"))?;
    drop(results);
    ensure(room.iter().chain(&wide_room).all(|&value| value == 9), || "a result was written".to_owned())
}

/// Four results of 20 x 10.
fn results_of(room: &mut [u8]) -> Result<Vec<ViewMut<'_, u8>>, String> {
    room.chunks_mut(20 * 10).map(|values| ViewMut::new(20, 10, 1, 20, values).map_err(words)).collect()
}
