//! Every kernel of the tutorials as the host launches it: its arguments, the lengths of its arrays, its grid.

use cuda_emulator::Counts;
use kernels_gpu::tutorials::{box_blur, box_running, box_separable, hpp, mean_1d, numba, pointwise, reduce};

use cust::error::CudaResult;
use cust::function::Function;
use cust::launch;
use cust::stream::Stream;

use super::{Array, LaunchShape};
use faltung::{Error, Result};

/// Whole numbers that a kernel gets are below this: 2^29. Sums and products of a few of them then stay in range.
const MOST: usize = 1 << 29;

/// The emulator's `launch`, for a kernel that is given to it.
pub type EmulatorLaunch<'a> = dyn FnMut(&(dyn Fn() + Sync)) -> std::result::Result<Counts, cuda_emulator::Error> + 'a;

mod sealed {
    pub trait Sealed {}
}

/// A kernel with its arguments. Only the structs of this module implement it: a launch relies on their checks.
pub trait KernelCall: sealed::Sealed {
    /// The kernel's symbol.
    fn symbol(&self) -> &'static str;

    /// The launch that these arguments make.
    fn shape(&self) -> LaunchShape;

    /// Checks lengths and limits.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::TooLarge`], [`Error::Number`].
    fn check(&self) -> Result<()>;

    /// Shows `visit` the number of the launcher that each array belongs to.
    #[doc(hidden)]
    fn owners(&self, visit: &dyn Fn(u64));

    /// Gives the kernel as a function of the host to the emulator's `launch`.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn emulate(&self, launch: &mut EmulatorLaunch<'_>) -> std::result::Result<Counts, cuda_emulator::Error>;

    /// Launches the kernel on a CUDA device, without waiting for it.
    ///
    /// # Safety
    /// - `function` is the kernel with the symbol of this call.
    /// - `check` has succeeded, `shape` is this call's, and its `check` has succeeded.
    /// - The arrays lie in the memory of the stream's device.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    unsafe fn launch_on_cuda(&self, function: &Function<'_>, shape: LaunchShape, stream: &Stream) -> CudaResult<()>;
}

/// The type of a field.
macro_rules! field {
    (read $type:ty) => { &'a Array<'d, $type> };
    (write $type:ty) => { &'a mut Array<'d, $type> };
    (value $type:ty) => { $type };
    (host $type:ty) => { $type };
}

/// A value as `usize`, for lengths and shapes.
macro_rules! bind {
    ($self:ident, value, $name:ident) => {
        let $name = $self.$name as usize;
    };
    ($self:ident, host, $name:ident) => {
        let $name = $self.$name as usize;
    };
    ($self:ident, $array:ident, $name:ident) => {};
}

/// Checks a value.
macro_rules! check_value {
    ($self:ident, value u32, $name:ident) => {
        whole(stringify!($name), $self.$name)?;
    };
    ($self:ident, host u32, $name:ident) => {
        whole(stringify!($name), $self.$name)?;
    };
    ($self:ident, $kind:ident $type:tt, $name:ident) => {};
}

/// Adds a value to a text.
macro_rules! show {
    ($self:ident, $text:ident, value, $name:ident) => {
        $text += &format!(" {} = {}", stringify!($name), $self.$name);
    };
    ($self:ident, $text:ident, host, $name:ident) => {
        $text += &format!(" {} = {}", stringify!($name), $self.$name);
    };
    ($self:ident, $text:ident, $array:ident, $name:ident) => {};
}

/// Visits the owner of an array.
macro_rules! visit {
    ($self:ident, $visit:ident, read, $name:ident) => {
        $visit($self.$name.owner);
    };
    ($self:ident, $visit:ident, write, $name:ident) => {
        $visit($self.$name.owner);
    };
    ($self:ident, $visit:ident, $value:ident, $name:ident) => {};
}

/// What the emulated kernel gets.
macro_rules! handle {
    ($self:ident, read, $name:ident) => {
        let $name = $self.$name.emulated().global();
    };
    ($self:ident, write, $name:ident) => {
        let $name = $self.$name.emulated().global_mut();
    };
    ($self:ident, value, $name:ident) => {
        let $name = $self.$name;
    };
    ($self:ident, host, $name:ident) => {};
}

/// Calls the kernel with all arguments but those of the host: moves them one by one behind the semicolon.
macro_rules! call {
    ($kernel:path; [$($done:ident)*]) => { $kernel($($done),*) };
    ($kernel:path; [$($done:ident)*] host $name:ident $($rest:tt)*) => { call!($kernel; [$($done)*] $($rest)*) };
    ($kernel:path; [$($done:ident)*] $kind:ident $name:ident $($rest:tt)*) => {
        call!($kernel; [$($done)* $name] $($rest)*)
    };
}

/// What the kernel gets on a CUDA device.
macro_rules! argument {
    ($self:ident, read, $name:ident) => {
        $self.$name.on_cuda().as_device_ptr()
    };
    ($self:ident, write, $name:ident) => {
        $self.$name.on_cuda().as_device_ptr()
    };
    ($self:ident, value, $name:ident) => {
        $self.$name
    };
}

/// Launches with all arguments but those of the host: moves them one by one behind the semicolon.
macro_rules! launch_with {
    ($self:ident, $f:ident, $shape:ident, $stream:ident; [$($kind:ident $name:ident)*]) => {
        launch!($f<<<$shape.grid_size(), $shape.block, $shape.shared_bytes as u32, $stream>>>(
            $(argument!($self, $kind, $name)),*
        ))
    };
    ($self:ident, $f:ident, $shape:ident, $stream:ident; [$($done:tt)*] host $name:ident $($rest:tt)*) => {
        launch_with!($self, $f, $shape, $stream; [$($done)*] $($rest)*)
    };
    ($self:ident, $f:ident, $shape:ident, $stream:ident; [$($done:tt)*] $kind:ident $name:ident $($rest:tt)*) => {
        launch_with!($self, $f, $shape, $stream; [$($done)* $kind $name] $($rest)*)
    };
}

/// Makes the struct of each kernel. A line is
///
/// `Name = file::kernel(argument, …) on shape, requires [condition, "in words"; …];`
///
/// with the kernel's arguments in its order, each `name: kind type`:
/// - `read` and `write` are arrays. The least length stands behind the type, in terms of the other arguments.
/// - `value` is passed by value.
/// - `host` is for the launch alone. The kernel does not get it.
///
/// In lengths, shapes and conditions all values are `usize`.
macro_rules! tutorial_kernels {
    ($($struct:ident = $file:ident::$kernel:ident(
        $($name:ident: $kind:ident $type:tt $([$length:expr])?,)*
    ) on $shape:expr, requires [$($condition:expr, $words:literal);*];)*) => {$(
        #[doc = concat!(
            "[`", stringify!($kernel), "`](kernels_gpu::tutorials::", stringify!($file), "::", stringify!($kernel),
            ") with its arguments."
        )]
        #[derive(Debug)]
        #[allow(missing_docs)] // the kernel's documentation says what each is
        pub struct $struct<'a, 'd> {
            $(pub $name: field!($kind $type),)*
        }

        impl sealed::Sealed for $struct<'_, '_> {}

        #[allow(unused_variables)] // not every value takes part in every length
        impl KernelCall for $struct<'_, '_> {
            fn symbol(&self) -> &'static str {
                stringify!($kernel)
            }

            fn shape(&self) -> LaunchShape {
                $(bind!(self, $kind, $name);)*
                $shape
            }

            fn check(&self) -> Result<()> {
                $(bind!(self, $kind, $name);)*
                // The values first, because they bound the lengths, which then can't overflow.
                $(check_value!(self, $kind $type, $name);)*
                let values = || {
                    let mut text = String::new();
                    $(show!(self, text, $kind, $name);)*
                    text.trim_start().to_owned()
                };
                $(if !($condition) {
                    return Err(Error::Number { what: stringify!($kernel), required: $words, found: values() });
                })*
                $($(long_enough(stringify!($name), $length, self.$name.len())?;)?)*
                Ok(())
            }

            fn owners(&self, visit: &dyn Fn(u64)) {
                $(visit!(self, visit, $kind, $name);)*
            }

            fn emulate(&self, launch: &mut EmulatorLaunch<'_>) -> std::result::Result<Counts, cuda_emulator::Error> {
                $(handle!(self, $kind, $name);)*
                launch(&move || {
                    // SAFETY: the emulator checks every access; none reaches memory of this program.
                    unsafe { call!($file::$kernel; [] $($kind $name)*) }
                })
            }

            unsafe fn launch_on_cuda(
                &self,
                function: &Function<'_>,
                shape: LaunchShape,
                stream: &Stream,
            ) -> CudaResult<()> {
                // SAFETY: the arguments have the kernel's order and types: `emulate` calls the same function with the
                // same list, and the compiler checks that call. The caller has checked lengths, limits and memory.
                unsafe { launch_with!(self, function, shape, stream; [] $($kind $name)*) }
            }
        }
    )*};
}

tutorial_kernels! {
    NumbaConvolve = numba::numba_convolve(
        result: write f32 [rows * columns], mask: read f32 [mask_rows * mask_columns],
        image: read f32 [rows * columns],
        rows: value u32, columns: value u32, mask_rows: value u32, mask_columns: value u32,
    ) on LaunchShape::cover((rows, columns), numba::BLOCK), requires [];

    NumbaConvolveByColumns = numba::numba_convolve_by_columns(
        result: write f32 [rows * columns], mask: read f32 [mask_rows * mask_columns],
        image: read f32 [rows * columns],
        rows: value u32, columns: value u32, mask_rows: value u32, mask_columns: value u32,
    ) on LaunchShape::cover((columns, rows), numba::BLOCK), requires [];

    HppConstant = hpp::hpp_constant(
        image: read f32 [height * pitch], result: write f32 [height * pitch],
        width: value u32, height: value u32, pitch: value u32,
    ) on LaunchShape::cover((width, height), hpp::BUSY_BLOCK),
    requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

    HppTile = hpp::hpp_tile(
        image: read f32 [height * pitch], result: write f32 [height * pitch],
        width: value u32, height: value u32, pitch: value u32,
    ) on LaunchShape::tiles(
        (width, height), (hpp::O_TILE_WIDTH, hpp::O_TILE_WIDTH), (hpp::BLOCK_WIDTH, hpp::BLOCK_WIDTH)
    ).shared(hpp::TILE_BYTES.into()),
    requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

    HppTileBusy = hpp::hpp_tile_busy(
        image: read f32 [height * pitch], result: write f32 [height * pitch],
        width: value u32, height: value u32, pitch: value u32,
    ) on LaunchShape::cover((width, height), hpp::BUSY_BLOCK).shared(hpp::BUSY_TILE_BYTES.into()),
    requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

    AddConstant = pointwise::add_constant(
        input: read f32 [size], output: write f32 [size], constant: value f32, size: value u32, block: host u32,
    ) on LaunchShape::line(size, block), requires [];

    NormaliseAndClip = pointwise::normalise_and_clip(
        input: read f32 [size], output: write f32 [size],
        min: value f32, max: value f32, scale: value f32, size: value u32, block: host u32,
    ) on LaunchShape::line(size, block), requires [];

    AdjustBrightness = pointwise::adjust_brightness_2d(
        image: read f32 [width * height], output: write f32 [width * height],
        brightness: value f32, width: value u32, height: value u32, block_x: host u32, block_y: host u32,
    ) on LaunchShape::cover((width, height), (block_x as u32, block_y as u32)), requires [];

    MeanNaive = mean_1d::mean_filter_1d_naive(
        input: read f32 [size], output: write f32 [size], size: value u32, radius: value u32, block: host u32,
    ) on LaunchShape::line(size, block), requires [];

    MeanShared = mean_1d::mean_filter_1d_shared(
        input: read f32 [size], output: write f32 [size],
        size: value u32, radius: value u32, piece: value u32, block: host u32,
    ) on LaunchShape::line(size, block).shared(mean_1d::shared_bytes(block as u32, piece as u32)),
    requires [piece >= 1, "a piece of 1 or more"];

    MeanVectors = mean_1d::mean_filter_1d_vectors(
        input: read f32 [size], output: write f32 [size], size: value u32, radius: value u32, block: host u32,
    ) on LaunchShape::line(size.div_ceil(mean_1d::EACH as usize), block)
        .shared(mean_1d::vector_bytes(block as u32, radius as u32)),
    requires [];

    SumReduction = reduce::sum_reduction(
        input: read f32 [size], output: write f32 [size.div_ceil(block).max(1)], size: value u32, block: host u32,
    ) on LaunchShape::line(size.max(1), block).shared(4 * block as u64), requires [];

    FinalSum = reduce::final_sum(
        partial_sums: read f32 [count], total: write f32 [1], count: value u32,
    ) on LaunchShape::line(1, 1), requires [];

    SumShuffle = reduce::sum_shuffle(
        input: read f32 [size], output: write f32 [blocks], size: value u32, blocks: host u32,
    ) on LaunchShape::line(blocks * reduce::BLOCK as usize, reduce::BLOCK as usize).shared(4 * 32),
    requires [];

    BoxBlur = box_blur::box_blur(
        image: read u8 [width * height], result: write u8 [width * height], mask: read f32 [mask_width * mask_height],
        width: value u32, height: value u32, mask_width: value u32, mask_height: value u32,
    ) on LaunchShape::cover((width, height), box_blur::BLOCK), requires [];

    BoxSumRows = box_separable::box_sum_rows(
        image: read u8 [width * height], sums: write u32 [width * height],
        width: value u32, height: value u32, mask_width: value u32, border: value u32,
    ) on LaunchShape::cover((width, height), box_separable::BLOCK), requires [];

    BoxSumColumns = box_separable::box_sum_columns(
        sums: read u32 [width * height], result: write u8 [width * height],
        width: value u32, height: value u32, mask_height: value u32, area: value u32, border: value u32,
    ) on LaunchShape::cover((width, height), box_separable::BLOCK),
    requires [area >= 1 && 255 * area <= u32::MAX as usize, "a mask of 1 to 16,843,009 coefficients"];

    RowPrefixSums = box_running::row_prefix_sums(
        image: read u8 [width * height], prefix: write u32 [width * height], width: value u32, height: value u32,
    ) on LaunchShape::tiles((height, 1), (1, 1), (box_running::PREFIX_BLOCK, 1))
        .shared(box_running::PREFIX_BYTES.into()),
    requires [255 * width <= u32::MAX as usize, "a row of at most 16,843,009 pixels"];

    BoxFromPrefixSums = box_running::box_from_prefix_sums(
        prefix: read u32 [width * height], result: write u8 [width * height],
        width: value u32, height: value u32, mask_width: value u32, mask_height: value u32, strip: value u32,
    ) on LaunchShape::tiles(
        (width, height), (box_running::COLUMNS_BLOCK, strip as u32), (box_running::COLUMNS_BLOCK, 1)
    ),
    requires [
        mask_width >= 1 && mask_height >= 1 && 255 * mask_width * mask_height <= u32::MAX as usize,
        "a mask of 1 to 16,843,009 coefficients"
    ];
}

/// Checks a whole number.
fn whole(what: &str, found: u32) -> Result<()> {
    if (found as usize) < MOST {
        return Ok(());
    }
    Err(Error::TooLarge { what: what.to_owned(), most: MOST - 1, found: found.to_string() })
}

/// Checks the length of an array.
fn long_enough(what: &'static str, required: usize, found: usize) -> Result<()> {
    if found >= required {
        return Ok(());
    }
    Err(Error::Length { what, width: required, height: 1, channels: 1, required, found })
}
