//! The Fourier transforms of tiles on interleaved channels, in the emulator. `fft_tile` against the oracle within the
//! bound: which tiles make a pair, channels of very different magnitudes, and each way to a result. `fft_passes`
//! against its results for each channel alone.

use faltung::plan::{Limits, Plan};
use faltung::{Accuracy, Border, Device, Filter, Image, Mask, Operation, PixelFormat, Problem, Result, VariantChoice};
use host::compare::{Comparison, with_oracle};
use host::oracle::Oracle;
use kernels_gpu::fft::tile::valid;
use kernels_gpu::registry::Variant;

use super::fft::positive;
use super::{BORDERS, is_in_sweep, noise, ordered_sums};

const FFT_TILE: VariantChoice = VariantChoice::Named(Variant::FftTile);
const FFT_PASSES: VariantChoice = VariantChoice::Named(Variant::FftPasses);

/// A problem on images of `channels` channels of `f32`.
fn problem((width, height, channels): (usize, usize, usize), filter: &Filter) -> Result<Problem> {
    Problem::new(width, height, filter)?.with_format(PixelFormat { channels, ..PixelFormat::PLANE })
}

/// What `fft_tile` makes of an image, and how each channel compares with the oracle.
fn compare(filter: &Filter, image: &Image) -> Result<(Image, Vec<Comparison>)> {
    let shape = (image.width(), image.height(), image.channels());
    let convolution = Device::emulator(1).prepare(&problem(shape, filter)?, FFT_TILE)?;
    let found: Image = convolution.apply(image)?;
    let plane = problem((shape.0, shape.1, 1), filter)?;
    let of_channel = |channel| {
        let oracle = Oracle::new(&plane, image.channel(channel).values());
        with_oracle(&oracle, &plane, found.channel(channel).values(), convolution.bound())
    };
    let comparisons = (0..shape.2).map(of_channel).collect();
    Ok((found, comparisons))
}

/// The part of a channel's results that have the bits of the ordered sums.
fn ordered_part(filter: &Filter, image: &Image, found: &Image, channel: usize) -> Result<f64> {
    let found = found.channel(channel);
    Ok(ordered_sums(filter, &image.channel(channel), &found)? as f64 / found.values().len() as f64)
}

/// An image by column, row and channel.
fn image(
    (width, height, channels): (usize, usize, usize),
    value: impl Fn(usize, usize, usize) -> f32,
) -> Result<Image> {
    let pixel = |i: usize| value(i / channels % width, i / channels / width, i % channels);
    Image::new(width, height, channels, (0..width * height * channels).map(pixel).collect())
}

/// Pixels in 0 to 1, another number for each channel.
fn bright(shape: (usize, usize, usize), seed: u64) -> Result<Image> {
    let values = noise(shape.0 * shape.1 * shape.2, seed);
    image(shape, |x, y, channel| values[(y * shape.0 + x) * shape.2 + channel].abs())
}

/// Images that end in the first tile, at its end, and in the next ones, so that the last tile of a row has a partner or
/// none. All borders, anchors, masks larger than the image, both classes.
#[test]
fn results_of_channels_are_within_the_bound() -> Result<()> {
    const MASKS: [(usize, usize); 6] = [(1, 1), (2, 3), (13, 13), (31, 20), (64, 64), (64, 3)];
    let mut number = 0;
    for (mask_width, mask_height) in MASKS {
        let (columns, rows) = valid((mask_width as u32, mask_height as u32));
        let (columns, rows) = (columns as usize, rows as usize);
        let sizes = [
            (1, 1),
            (columns - 1, 20),
            (columns, rows + 1),
            (columns + 1, rows),
            (2 * columns + 1, 30),
            // A tile in the middle lies in the image, with its pair.
            (3 * columns + 70, rows + 140),
        ];
        for channels in 2..=4 {
            for (i, &(width, height)) in sizes.iter().enumerate() {
                number += 1;
                if !is_in_sweep(number, 5) {
                    continue;
                }
                let filter = Filter::new(positive(mask_width, mask_height, number as u64)?);
                // Each size meets all borders in turn.
                let turn = number / 5;
                let filter = filter.border(BORDERS[(turn + turn / sizes.len()) % BORDERS.len()]);
                let filter = if i % 3 == 1 { filter.anchor(mask_height - 1, 0) } else { filter };
                let filter =
                    if i % 2 == 1 { filter.operation(Operation::Correlate).scale(-2.5).offset(0.25) } else { filter };
                let filter = if i == 3 { filter.accuracy(Accuracy::Normwise) } else { filter };
                let (_, comparisons) = compare(&filter, &bright((width, height, channels), 1000 + number as u64)?)?;
                assert!(
                    comparisons.iter().all(Comparison::passes),
                    "mask of {mask_width} x {mask_height} on {width} x {height} x {channels}: {comparisons:?}"
                );
            }
        }
    }
    Ok(())
}

/// Channels of any magnitude beside each other are proven: none is computed again because of its partner.
#[test]
fn channels_do_not_spoil_each_other() -> Result<()> {
    let (width, height) = (150, 100);
    let filter = Filter::new(positive(31, 31, 5)?).border(Border::Clamp);
    let light = bright((width, height, 1), 6)?;
    let at = |x: usize, y: usize| light.row(y)[x];
    // By channel: the factor of the noise, and the constant under it.
    let contents: [(&str, [(f32, f32); 4]); 6] = [
        ("alike", [(1.0, 0.0); 4]),
        ("one channel only", [(0.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0)]),
        ("an opaque one", [(1.0, 0.0), (1.0, 0.0), (1.0, 0.0), (0.0, 255.0)]),
        ("of many magnitudes", [(1e-12, 0.0), (1e6, 0.0), (1.0, 0.0), (3e-5, 0.0)]),
        ("beyond the largest scale", [(1e-20, 0.0), (1e15, 0.0), (1e15, 0.0), (1e-20, 0.0)]),
        ("constants", [(0.0, 0.7), (0.0, 1e-9), (0.0, 1e9), (0.0, -3.0)]),
    ];
    for (name, channels_of) in contents {
        for channels in 2..=4 {
            let image = image((width, height, channels), |x, y, channel| {
                let (factor, constant) = channels_of[channel];
                at(x, y) * factor + constant
            })?;
            for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
                let is_beyond = name == "beyond the largest scale";
                if is_beyond && accuracy == Accuracy::Normwise {
                    // The norm of the partner bounds its error, not its own.
                    continue;
                }
                let filter = filter.clone().accuracy(accuracy);
                let (found, comparisons) = compare(&filter, &image)?;
                for (channel, comparison) in comparisons.iter().enumerate() {
                    let context = format!("{name}, channel {channel} of {channels}, {accuracy}: {comparison:?}");
                    assert!(comparison.passes(), "{context}");
                    let (factor, constant) = channels_of[channel];
                    let part = ordered_part(&filter, &image, &found, channel)?;
                    match (factor, constant) {
                        (0.0, 0.0) => assert_eq!(part, 1.0, "{context}"),
                        // Ordered sums of a channel whose scale ends at the largest one.
                        // A channel of one number has one result, which may be the ordered sum by chance.
                        (0.0, _) => {}
                        _ if is_beyond => {}
                        _ => assert!(part < 0.6, "{context}: {part} are ordered sums"),
                    }
                }
            }
        }
    }
    Ok(())
}

/// The three ways to a result, for each channel: the transform, a window by a warp, and a pair of tiles in order.
#[test]
fn each_way_is_taken_in_each_channel() -> Result<()> {
    let filter = Filter::new(positive(31, 31, 5)?).border(Border::Clamp);
    let (width, height) = (2 * valid((31, 31)).0 as usize, valid((31, 31)).1 as usize);
    let mut number = 0;
    for channels in 2..=4 {
        let light = bright((width, height, channels), 6)?;
        let at = |x: usize, y: usize, channel: usize| light.row(y)[x * channels + channel];
        for dark in 0..channels {
            // The quick sweep meets each channel: 0 of 2, 0 and 2 of 3, 1 and 3 of 4.
            number += 1;
            if !is_in_sweep(number - 1, 2) {
                continue;
            }
            let with = |dark_value: &dyn Fn(usize, usize) -> Option<f32>| {
                image((width, height, channels), |x, y, channel| {
                    if channel == dark { dark_value(x, y) } else { None }.unwrap_or_else(|| at(x, y, channel))
                })
            };
            let part = |image: &Image| -> Result<f64> {
                let (found, comparisons) = compare(&filter, image)?;
                assert!(comparisons.iter().all(Comparison::passes), "{channels}, {dark}: {comparisons:?}");
                ordered_part(&filter, image, &found, dark)
            };
            assert!(part(&light)? < 0.2);
            // Few windows are black in most of their pixels.
            let few = part(&with(&|x, y| (x < 20 && y < 20).then_some(0.0))?)?;
            assert!(few > 0.0 && few < 0.2, "{channels}, {dark}: {few}");
            // The first of two tiles side by side has a pixel so bright that nothing else has a digit.
            let star = part(&with(&|x, y| ((x, y) == (50, 50)).then_some(1e9))?)?;
            assert!(star >= 0.5, "{channels}, {dark}: {star}");
        }
    }
    Ok(())
}

/// NaN and infinity touch the outputs of their channel whose window holds them, and no others.
#[test]
fn what_is_no_number_stays_in_its_channel() -> Result<()> {
    let random = noise(400 * 130 * 3, 9);
    for channels in 2..=4 {
        let image = image((250, 130, channels), |x, y, channel| match (x, y, channel) {
            (0, 0, 1) => f32::NAN,
            (110, 30, 0) => f32::INFINITY,
            (249, 129, 1) => f32::NEG_INFINITY,
            _ => random[(y * 250 + x) * 3 + channel % 3],
        })?;
        let weights = Mask::new(9, 31, (0..9 * 31).map(|i| 1.0 + i as f32).collect())?;
        for accuracy in [Accuracy::Bounded, Accuracy::Normwise] {
            let (found, comparisons) = compare(&Filter::new(weights.clone()).accuracy(accuracy), &image)?;
            assert!(comparisons.iter().all(Comparison::passes), "{channels}, {accuracy}: {comparisons:?}");
            let touched = |channel| found.channel(channel).values().iter().filter(|value| !value.is_finite()).count();
            assert_eq!([touched(0), touched(1)], [9 * 31, 5 * 16 + 5 * 16], "{channels}, {accuracy}");
            assert!((2..channels).all(|channel| touched(channel) == 0), "{channels}, {accuracy}");
        }
    }
    Ok(())
}

/// A row of blocks has each tile of each channel once. The oracle would see a tile that is missing, not one too many.
#[test]
fn grids_have_each_tile_of_each_channel_once() -> Result<()> {
    for channels in 1..=4 {
        for (width, tiles) in [(1, 1), (98, 1), (99, 2), (196, 2), (197, 3), (98 * 5, 5)] {
            let plan = Plan::new(
                &problem((width, 100, channels), &Filter::new(positive(31, 31, 1)?))?,
                Limits::H100,
                FFT_TILE,
            )?;
            let [launch] = plan.launches(100, 0..100).try_into().expect("one launch");
            assert_eq!(launch.grid, ((tiles * channels as u32).div_ceil(2), 2), "{width} x {channels}");
        }
    }
    Ok(())
}

/// `fft_passes` gives each channel the bits that it gives the channel alone, by each way to a result: a transform, a
/// window by a warp, and all results of a block in order. The images are one tile, a pair that lies in the image, and
/// two rows of tiles.
#[test]
fn passes_of_channels_have_the_bits_of_each_channel() -> Result<()> {
    let first = |filter: Filter| filter.operation(Operation::Correlate).anchor(0, 0).scale(-2.5).offset(0.25);
    let cases = [
        ((200, 40), Filter::new(positive(66, 24, 1)?).border(Border::Mirror)),
        ((2000, 12), first(Filter::new(positive(66, 16, 2)?).border(Border::Wrap))),
        ((10, 980), Filter::new(positive(7, 150, 3)?).border(Border::Constant(2.5))),
    ];
    for (number, ((width, height), filter)) in cases.into_iter().enumerate() {
        for channels in 2..=4 {
            if !is_in_sweep(3 * number + channels - 2, 7) {
                continue;
            }
            let light = bright((width, height, channels), 10 + number as u64)?;
            let image = image((width, height, channels), |x, y, channel| {
                let value = light.row(y)[x * channels + channel];
                match channel {
                    // Few windows have no pixel that is not 0.
                    0 if x < 80 && y < 30 => 0.0,
                    // Nothing of a pair of tiles is proven beside one of these.
                    1 if (x, y) == (0, 0) => 1e9,
                    2 if (x, y) == (5, 5) => f32::NAN,
                    3 => 1e-12 * value,
                    _ => value,
                }
            })?;
            let interleaved = Device::emulator(1).prepare(&problem((width, height, channels), &filter)?, FFT_PASSES)?;
            let alone = Device::emulator(1).prepare(&problem((width, height, 1), &filter)?, FFT_PASSES)?;
            let found: Image = interleaved.apply(&image)?;
            for channel in 0..channels {
                let right: Image = alone.apply(&image.channel(channel))?;
                let bits = |image: &Image| image.values().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                let context = format!("channel {channel} of {channels}, {width} x {height}");
                assert!(bits(&right) == bits(&found.channel(channel)), "{context}");
                let part = ordered_part(&filter, &image, &found, channel)?;
                println!("{context}: {part} are ordered sums");
                // Of 10 columns a block has too few results for sums in order.
                let is_in_order = width > 64 && (channel == 1 || channel == 2);
                assert!(if is_in_order { part > 0.5 } else { part < 0.5 }, "{context}: {part}");
            }
        }
    }
    Ok(())
}
