//! Every kernel of the tutorials as the host calls it: its arguments, how long its arrays must be, its grid.

/// Gives the list to the macro `$then`. A line is
///
/// `Name = file::kernel(argument, …) on shape, requires [condition, "in words"; …];`
///
/// with the kernel's arguments in its order, each `name: kind type`:
/// - `read` and `write` are arrays; the length that they must have at least stands behind the type, in terms of the
///   other arguments;
/// - `value` is passed by value;
/// - `host` is for the launch alone, the kernel does not get it.
///
/// In lengths, shapes and conditions all values are `usize`.
macro_rules! tutorial_kernels {
    ($then:ident) => {
        $then! {
            NumbaConvolve = numba::numba_convolve(
                result: write f32 [rows * columns], mask: read f32 [mask_rows * mask_columns],
                image: read f32 [rows * columns],
                rows: value u32, columns: value u32, mask_rows: value u32, mask_columns: value u32,
            ) on Shape::cover((rows, columns), numba::BLOCK), requires [];

            NumbaConvolveByColumns = numba::numba_convolve_by_columns(
                result: write f32 [rows * columns], mask: read f32 [mask_rows * mask_columns],
                image: read f32 [rows * columns],
                rows: value u32, columns: value u32, mask_rows: value u32, mask_columns: value u32,
            ) on Shape::cover((columns, rows), numba::BLOCK), requires [];

            HppConstant = hpp::hpp_constant(
                image: read f32 [height * pitch], result: write f32 [height * pitch],
                width: value u32, height: value u32, pitch: value u32,
            ) on Shape::cover((width, height), hpp::BUSY_BLOCK), requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

            HppTile = hpp::hpp_tile(
                image: read f32 [height * pitch], result: write f32 [height * pitch],
                width: value u32, height: value u32, pitch: value u32,
            ) on Shape::tiles((width, height), (hpp::O_TILE_WIDTH, hpp::O_TILE_WIDTH), (hpp::BLOCK_WIDTH, hpp::BLOCK_WIDTH))
                .shared(hpp::TILE_BYTES.into()),
            requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

            HppTileBusy = hpp::hpp_tile_busy(
                image: read f32 [height * pitch], result: write f32 [height * pitch],
                width: value u32, height: value u32, pitch: value u32,
            ) on Shape::cover((width, height), hpp::BUSY_BLOCK).shared(hpp::BUSY_TILE_BYTES.into()),
            requires [pitch >= 3 * width, "a pitch of 3 * width or more"];

            AddConstant = pointwise::add_constant(
                input: read f32 [size], output: write f32 [size], constant: value f32, size: value u32, block: host u32,
            ) on Shape::line(size, block), requires [];

            NormaliseAndClip = pointwise::normalise_and_clip(
                input: read f32 [size], output: write f32 [size],
                min: value f32, max: value f32, scale: value f32, size: value u32, block: host u32,
            ) on Shape::line(size, block), requires [];

            AdjustBrightness = pointwise::adjust_brightness_2d(
                image: read f32 [width * height], output: write f32 [width * height],
                brightness: value f32, width: value u32, height: value u32, block_x: host u32, block_y: host u32,
            ) on Shape::cover((width, height), (block_x as u32, block_y as u32)), requires [];

            MeanNaive = mean_1d::mean_filter_1d_naive(
                input: read f32 [size], output: write f32 [size], size: value u32, radius: value u32, block: host u32,
            ) on Shape::line(size, block), requires [];

            MeanShared = mean_1d::mean_filter_1d_shared(
                input: read f32 [size], output: write f32 [size],
                size: value u32, radius: value u32, piece: value u32, block: host u32,
            ) on Shape::line(size, block).shared(mean_1d::shared_bytes(block as u32, piece as u32)),
            requires [piece >= 1, "a piece of 1 or more"];

            MeanVectors = mean_1d::mean_filter_1d_vectors(
                input: read f32 [size], output: write f32 [size], size: value u32, radius: value u32, block: host u32,
            ) on Shape::line(size.div_ceil(mean_1d::EACH as usize), block).shared(mean_1d::vector_bytes(block as u32, radius as u32)),
            requires [];

            SumReduction = reduce::sum_reduction(
                input: read f32 [size], output: write f32 [size.div_ceil(block).max(1)], size: value u32, block: host u32,
            ) on Shape::line(size.max(1), block).shared(4 * block as u64), requires [];

            FinalSum = reduce::final_sum(
                partial_sums: read f32 [count], total: write f32 [1], count: value u32,
            ) on Shape::line(1, 1), requires [];

            SumShuffle = reduce::sum_shuffle(
                input: read f32 [size], output: write f32 [blocks], size: value u32, blocks: host u32,
            ) on Shape::line(blocks * reduce::BLOCK as usize, reduce::BLOCK as usize).shared(4 * 32),
            requires [];

            BoxBlur = box_blur::box_blur(
                image: read u8 [width * height], result: write u8 [width * height], mask: read f32 [mask_width * mask_height],
                width: value u32, height: value u32, mask_width: value u32, mask_height: value u32,
            ) on Shape::cover((width, height), box_blur::BLOCK), requires [];

            BoxSumRows = box_separable::box_sum_rows(
                image: read u8 [width * height], sums: write u32 [width * height],
                width: value u32, height: value u32, mask_width: value u32, border: value u32,
            ) on Shape::cover((width, height), box_separable::BLOCK), requires [];

            BoxSumColumns = box_separable::box_sum_columns(
                sums: read u32 [width * height], result: write u8 [width * height],
                width: value u32, height: value u32, mask_height: value u32, area: value u32, border: value u32,
            ) on Shape::cover((width, height), box_separable::BLOCK),
            requires [area >= 1 && 255 * area <= u32::MAX as usize, "a mask of 1 to 16,843,009 coefficients"];

            RowPrefixSums = box_running::row_prefix_sums(
                image: read u8 [width * height], prefix: write u32 [width * height], width: value u32, height: value u32,
            ) on Shape::tiles((height, 1), (1, 1), (box_running::PREFIX_BLOCK, 1)).shared(box_running::PREFIX_BYTES.into()),
            requires [255 * width <= u32::MAX as usize, "a row of at most 16,843,009 pixels"];

            BoxFromPrefixSums = box_running::box_from_prefix_sums(
                prefix: read u32 [width * height], result: write u8 [width * height],
                width: value u32, height: value u32, mask_width: value u32, mask_height: value u32, strip: value u32,
            ) on Shape::tiles((width, height), (box_running::COLUMNS_BLOCK, strip as u32), (box_running::COLUMNS_BLOCK, 1)),
            requires [
                mask_width >= 1 && mask_height >= 1 && 255 * mask_width * mask_height <= u32::MAX as usize,
                "a mask of 1 to 16,843,009 coefficients"
            ];
        }
    };
}
pub(crate) use tutorial_kernels;
