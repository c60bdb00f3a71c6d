//! The conversions between images and planes on the emulator, against a loop over all values.
//!
//! Arrays end with the last value of the last row, so that the emulator reports an access after the end of a row.
//! Between the rows lie values that no pixel has, and none of them may be written.

use cuda_emulator::{Counts, Emulator, Launch, Memory, Role};
use kernels_gpu::abi::pixel::{Pixel, PixelType};
use kernels_gpu::util::planes::{BLOCK, Conversion, PlaneParams, from_planes, grid, to_planes};

/// Widths up to a few vectors, and around the edges of warps and blocks.
fn widths() -> impl Iterator<Item = i32> {
    (1..=40).chain(124..=132).chain(253..=259).chain([383, 384, 385, 516])
}

/// The parameters of an image of `channels` channels. Rows begin at multiples of 32 bytes and have a gap after them.
fn params<T: Pixel>(width: i32, rows: i32, channels: i32) -> PlaneParams {
    let aligned = |values: i32, bytes: usize| {
        let unit = 32 / bytes as i32;
        (values / unit + 1) * unit
    };
    let plane_pitch = aligned(width, 4);
    let interleaved_pitch = aligned(width * channels, size_of::<T>());
    // One more row between the planes.
    PlaneParams {
        width,
        rows,
        interleaved_pitch,
        plane_pitch,
        plane_stride: i64::from(plane_pitch) * i64::from(rows + 1),
    }
}

/// The index in the image and the index in the planes of each value.
fn indices(params: PlaneParams, channels: i32) -> impl Iterator<Item = (usize, usize)> {
    let value = move |(y, x, c): (i32, i32, i32)| {
        let interleaved = params.interleaved_index(x * channels + c, y);
        (interleaved as usize, params.plane_index(c, x, y) as usize)
    };
    let pixels = (0..params.rows).flat_map(move |y| (0..params.width).map(move |x| (y, x)));
    pixels.flat_map(move |(y, x)| (0..channels).map(move |c| (y, x, c))).map(value)
}

/// The lengths of the image and of the planes. Both end with their last value.
fn lengths(params: PlaneParams, channels: i32) -> (usize, usize) {
    let (image, planes) = indices(params, channels).last().expect("there is a pixel");
    (image + 1, planes + 1)
}

/// Launches a conversion on the emulator. `written` are the indices of the values that it must write, and no others.
fn launch<S: Pixel, D: Pixel>(
    emulator: Emulator,
    conversion: &Conversion,
    grid: (u32, u32),
    source: &[S],
    written: impl Iterator<Item = usize>,
    params: PlaneParams,
) -> (Vec<D>, Counts) {
    let mut is_wanted = Vec::new();
    for index in written {
        is_wanted.resize(is_wanted.len().max(index + 1), false);
        is_wanted[index] = true;
    }
    let mut memory = Memory::new();
    let from = memory.upload("source", source);
    let to = memory.allocate::<D>("destination", is_wanted.len(), Role::Output);
    let (source, destination) = (from.global().cast(), to.global_mut().cast());
    let counts = emulator.launch(conversion.symbol, &Launch::flat(grid, BLOCK, 0), &mut memory, || {
        // SAFETY: the emulator checks every access. None reaches memory of this program.
        unsafe { (conversion.function)(source, destination, params) }
    });
    let counts = counts.unwrap_or_else(|error| panic!("{error}\n{params:?}"));
    let what = || format!("{} with {params:?}", conversion.symbol);
    assert_eq!(memory.unwritten_among(&to, |index| is_wanted[index]), None, "not written by {}", what());
    let gaps = is_wanted.iter().filter(|wanted| !**wanted).count();
    let untouched = memory.unwritten_among(&to, |index| !is_wanted[index]).map_or(0, |(_, count)| count);
    assert_eq!(untouched, gaps, "values between the rows that {} leaves", what());
    (memory.download(&to), counts)
}

/// The grid of a launch over the whole image.
fn whole(params: PlaneParams) -> (u32, u32) {
    grid(params.width as u32, params.rows as u32)
}

/// The planes of an image, by the kernel.
fn to_planes_of<T: Pixel>(image: &[T], grid: (u32, u32), params: PlaneParams, channels: i32) -> Vec<f32> {
    let conversion = to_planes(T::TYPE, channels as u32).expect("there is a conversion");
    launch(Emulator::new(), conversion, grid, image, indices(params, channels).map(|(_, plane)| plane), params).0
}

/// The image of planes, by the kernel.
fn from_planes_of<T: Pixel>(planes: &[f32], grid: (u32, u32), params: PlaneParams, channels: i32) -> Vec<T> {
    let conversion = from_planes(T::TYPE, channels as u32).expect("there is a conversion");
    launch(Emulator::new(), conversion, grid, planes, indices(params, channels).map(|(image, _)| image), params).0
}

/// The bits of a value.
fn bits<T: Pixel>(value: T) -> u64 {
    // Of f32 `to_f32` is the value itself: a NaN keeps its bits.
    if T::TYPE == PixelType::F32 { value.to_f32().to_bits().into() } else { value.to_f32() as u64 }
}

/// Values for every rounding, saturation and special case.
const SPECIAL: [f32; 30] = [
    0.0,
    -0.0,
    0.5,
    1.5,
    2.5,
    0.49999997,
    0.50000006,
    1.0,
    127.5,
    128.5,
    253.5,
    254.0,
    254.5,
    254.50002,
    255.0,
    255.49998,
    255.5,
    256.0,
    65_533.5,
    65_534.5,
    65_535.0,
    65_535.5,
    65_536.0,
    -0.5,
    -0.50000006,
    -1.0,
    -1e9,
    3e9,
    f32::NAN,
    f32::MIN_POSITIVE,
];

/// Values of a plane: at random and special ones.
fn any_f32(random: &mut fastrand::Rng) -> f32 {
    match random.u32(..8) {
        0 => random.choice(SPECIAL).expect("there are some"),
        1 => [f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(0x7fc1_2345), 1e-40][random.usize(..4)],
        2 => random.f32() * 80_000.0 - 5_000.0,
        3 => random.u32(..256) as f32 + 0.5,
        _ => random.f32() * 300.0 - 20.0,
    }
}

/// A type of pixels with values at random.
trait AnyPixel: Pixel {
    fn any(random: &mut fastrand::Rng) -> Self;
}
impl AnyPixel for u8 {
    fn any(random: &mut fastrand::Rng) -> Self {
        random.u8(..)
    }
}
impl AnyPixel for u16 {
    fn any(random: &mut fastrand::Rng) -> Self {
        random.u16(..)
    }
}
impl AnyPixel for f32 {
    fn any(random: &mut fastrand::Rng) -> Self {
        any_f32(random)
    }
}

/// Both directions and a round trip on one image, with a grid.
fn convert<T: AnyPixel>(params: PlaneParams, grid: (u32, u32), channels: i32, random: &mut fastrand::Rng) {
    let what = || format!("{} c{channels}, {params:?}", T::TYPE.name());
    let (image_length, planes_length) = lengths(params, channels);
    let image: Vec<T> = (0..image_length).map(|_| T::any(random)).collect();
    let planes = to_planes_of(&image, grid, params, channels);
    for (interleaved, plane) in indices(params, channels) {
        assert_eq!(planes[plane].to_bits(), image[interleaved].to_f32().to_bits(), "plane[{plane}] of {}", what());
    }
    let back: Vec<T> = from_planes_of(&planes, grid, params, channels);
    for (interleaved, _) in indices(params, channels) {
        assert_eq!(bits(back[interleaved]), bits(image[interleaved]), "round trip of [{interleaved}] of {}", what());
    }
    let planes: Vec<f32> = (0..planes_length).map(|_| any_f32(random)).collect();
    let image: Vec<T> = from_planes_of(&planes, grid, params, channels);
    for (interleaved, plane) in indices(params, channels) {
        let expected = T::from_f32(planes[plane]);
        assert_eq!(bits(image[interleaved]), bits(expected), "{:?} as [{interleaved}] of {}", planes[plane], what());
    }
}

/// Runs `$body` for each type and number of channels that has conversions.
macro_rules! each_conversion {
    (|$channels:ident, $type:ident| $body:expr) => {
        for $channels in 1..=4 {
            {
                type $type = u8;
                $body
            }
            {
                type $type = u16;
                $body
            }
            if $channels > 1 {
                type $type = f32;
                $body
            }
        }
    };
}

#[test]
fn every_type_and_every_width() {
    let mut random = fastrand::Rng::with_seed(1);
    each_conversion!(|channels, T| for width in widths() {
        // All numbers of rows for narrow images, one for the others.
        let rows = if width <= 9 { 1..=5 } else { width % 5 + 1..=width % 5 + 1 };
        for rows in rows {
            let params = params::<T>(width, rows, channels);
            convert::<T>(params, whole(params), channels, &mut random);
        }
    });
}

#[test]
fn large_images() {
    let mut random = fastrand::Rng::with_seed(2);
    each_conversion!(|channels, T| for (width, rows) in [(1030, 19), (640, 33), (3, 700)] {
        let params = params::<T>(width, rows, channels);
        convert::<T>(params, whole(params), channels, &mut random);
    });
}

/// A grid with fewer rows of blocks than the image needs, as [`grid`] gives for more than 524,280 rows.
#[test]
fn a_thread_converts_several_rows() {
    let mut random = fastrand::Rng::with_seed(3);
    each_conversion!(|channels, T| for (rows, blocks) in [(9, 1), (37, 1), (37, 2), (64, 3)] {
        let params = params::<T>(133, rows, channels);
        convert::<T>(params, (whole(params).0, blocks), channels, &mut random);
    });
}

/// Rows without gaps, as planes have them that hold nothing else.
#[test]
fn dense_rows() {
    let mut random = fastrand::Rng::with_seed(4);
    each_conversion!(|channels, T| {
        let params = PlaneParams {
            width: 96,
            rows: 11,
            interleaved_pitch: 96 * channels,
            plane_pitch: 96,
            plane_stride: 96 * 11,
        };
        convert::<T>(params, whole(params), channels, &mut random);
    });
}

/// Fills two rows of seven pixels with a value: a vector, and three pixels after the last vector. Expects the same
/// result in all.
fn expect_rounded<T: Pixel>(value: f32, expected: T, channels: i32) {
    let params = params::<T>(7, 2, channels);
    let planes = vec![value; lengths(params, channels).1];
    let image: Vec<T> = from_planes_of(&planes, whole(params), params, channels);
    for (index, _) in indices(params, channels) {
        assert_eq!(image[index], expected, "{value} in {}", T::TYPE.name());
    }
}

/// Results round half to even and saturate. NaN becomes 0.
#[test]
fn results_round_as_those_of_the_convolution_kernels() {
    let cases: [(f32, u8, u16); 20] = [
        (0.5, 0, 0),
        (1.5, 2, 2),
        (2.5, 2, 2),
        (0.49999997, 0, 0),
        (0.50000006, 1, 1),
        (253.5, 254, 254),
        (254.5, 254, 254),
        (254.50002, 255, 255),
        (255.5, 255, 256),
        (256.5, 255, 256),
        (65_533.5, 255, 65_534),
        (65_534.5, 255, 65_534),
        (65_535.5, 255, 65_535),
        (1e30, 255, 65_535),
        (f32::INFINITY, 255, 65_535),
        (f32::NEG_INFINITY, 0, 0),
        (-0.5, 0, 0),
        (-1e30, 0, 0),
        (-0.0, 0, 0),
        (f32::NAN, 0, 0),
    ];
    for channels in 1..=4 {
        for (value, byte, word) in cases {
            expect_rounded(value, byte, channels);
            expect_rounded(value, word, channels);
        }
    }
}

/// A thread makes as many accesses as the kernels' documentation lists. A warp accesses each sector of a plane once,
/// and each sector of the image where a thread has one vector of it.
#[test]
fn accesses_are_vectors() {
    // Vectors of the image's four pixels, from one to four channels.
    let vectors = |pixel: PixelType| match pixel {
        PixelType::U8 => [1, 1, 3, 1],
        PixelType::U16 => [1, 1, 3, 2],
        PixelType::F32 => [0, 2, 3, 4],
    };
    let emulator = Emulator::new().counting(true);
    let (width, rows) = (256, 16);
    let threads = (width / 4 * rows) as u64;
    each_conversion!(|channels, T| {
        let params = params::<T>(width, rows, channels);
        let (image_length, planes_length) = lengths(params, channels);
        let (image, planes) = (vec![T::from_f32(1.0); image_length], vec![1.0_f32; planes_length]);
        let to = to_planes(T::TYPE, channels as u32).expect("there is a conversion");
        let from = from_planes(T::TYPE, channels as u32).expect("there is a conversion");
        let (in_image, in_planes) =
            (|| indices(params, channels).map(|(at, _)| at), || indices(params, channels).map(|(_, at)| at));
        let (_, to) = launch::<T, f32>(emulator, to, whole(params), &image, in_planes(), params);
        let (_, from) = launch::<f32, T>(emulator, from, whole(params), &planes, in_image(), params);
        let of_image = vectors(T::TYPE)[channels as usize - 1] * threads;
        let of_planes = channels as u64 * threads;
        let what = format!("{} c{channels}", T::TYPE.name());
        for (image, planes) in [(to.global_loads, to.global_stores), (from.global_stores, from.global_loads)] {
            assert_eq!(image.threads, of_image, "accesses to the image, {what}");
            assert_eq!(planes.threads, of_planes, "accesses to the planes, {what}");
            assert_eq!(planes.transactions, planes.ideal, "sectors of the planes, {what}");
            if of_image == threads {
                assert_eq!(image.transactions, image.ideal, "sectors of the image, {what}");
            }
        }
    });
}
