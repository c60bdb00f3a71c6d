//! The launches of a plan, and the mask as its kernel takes it.

use kernels_gpu::common::partition::partition;
use kernels_gpu::registry::{Grid, entries};

use super::*;
use crate::plan::geometry::MAX_GRID_Y;

#[test]
fn a_mask_has_the_rows_that_its_kernel_reads() {
    let of = |choice| {
        let problem = problem(100, 100, 5, 5);
        (Plan::new(&problem, Limits::H100, choice).unwrap().coefficients(&problem), problem)
    };
    let (given, problem) = of(VariantChoice::Named(Variant::SharedTile));
    assert_eq!(given, problem.window().coefficients());
    let (filled, _) = of(VariantChoice::Named(Variant::SharedTileAsync));
    assert_eq!(filled.len(), 5 * 8);
    for (row, filled) in given.chunks(5).zip(filled.chunks(8)) {
        assert_eq!((row, &[0.0; 3][..]), filled.split_at(5));
    }
}

/// Also where a mask is added up in passes, the last ones of which may have a row less.
#[test]
fn rows_of_a_mask_lie_behind_each_other() {
    for entry in entries().filter(|entry| entry.side() > 0) {
        let MaskForm::Rows(begin) = entry.variant.spec().mask_form else { continue };
        let side = entry.side();
        assert_eq!(begin(side, 0), 0);
        for row in 0..side {
            assert!(begin(side, row) + side <= begin(side, row + 1), "row {row} of {}", entry.symbol);
        }
    }
}

/// The zeros stand where they change nothing: each coefficient meets the pixel that it met.
#[test]
fn zeros_around_a_mask_leave_it_in_its_place() {
    for (width, height, row, column, side) in
        [(2, 2, 1, 1, 3), (3, 3, 0, 0, 5), (3, 3, 2, 2, 5), (4, 1, 0, 3, 7), (1, 4, 0, 0, 5), (5, 5, 4, 2, 5)]
    {
        let coefficients: Vec<_> = (1..=width * height).map(|i| i as f32).collect();
        let filter = Filter::new(Mask::new(width, height, coefficients).unwrap())
            .operation(Operation::Correlate)
            .anchor(row, column);
        let format = PixelFormat { channels: 1, input: PixelType::U16, output: PixelType::U16 };
        let problem = Problem::new(4096, 4096, &filter).unwrap().with_format(format).unwrap();
        let symbol = format!("sliding_window_u16_c1_{side}x{side}");
        let entry = entries().find(|entry| entry.symbol == symbol).unwrap();
        let choice = VariantChoice::Kernel { entry, in_planes: false };
        let plan = Plan::new(&problem, Limits::H100, choice).unwrap();
        assert_eq!(plan.entry.mask, MaskSize::Square(side));
        assert_eq!((plan.params.mask_width, plan.params.mask_height), (side as i32, side as i32));
        let (found, side) = (plan.coefficients(&problem), side as usize);
        let (top, left) = (plan.params.origin_y as usize - row, plan.params.origin_x as usize - column);
        assert_eq!(left, (side - 1) / 2 - column);
        for (i, &value) in found.iter().enumerate() {
            let (k, l) = ((i / side).wrapping_sub(top), (i % side).wrapping_sub(left));
            let expected = if k < height && l < width { problem.window().at(k, l) } else { 0.0 };
            assert_eq!(value, expected, "{width} x {height} at {row}, {column}: coefficient {i}");
        }
        assert_eq!(found.len(), side * side);
        let padded = side != width || side != height;
        assert_eq!(plan.reason.contains("with zeros around it"), padded, "{}", plan.reason);
    }
}

#[test]
fn every_layout_has_its_entry_and_rows_begin_at_sectors() {
    for (input, output) in PixelType::ALL.into_iter().flat_map(|a| PixelType::ALL.map(|b| (a, b))) {
        for channels in 1..=4 {
            let problem = problem(33, 7, 5, 3).with_format(PixelFormat { channels, input, output }).unwrap();
            let plan = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap();
            assert_eq!((plan.entry.pixel, plan.entry.channels as usize), (input, channels));
            assert_eq!(plan.params.result_kind, output.code());
            for (pitch, bytes) in [(plan.params.src_pitch, input.bytes()), (plan.params.dst_pitch, output.bytes())] {
                assert!(pitch as usize >= 33 * channels && (pitch as usize * bytes).is_multiple_of(32));
            }
            let [launch] = plan.launches(7, 2..5).try_into().unwrap();
            assert_eq!((launch.params.first_row, launch.params.height), (2, 7));
            let naive = Plan::new(&problem, Limits::H100, VariantChoice::Named(Variant::Naive)).unwrap();
            let [launch] = naive.launches(7, 2..5).try_into().unwrap();
            assert_eq!(launch.grid, ((33 * channels as u32).div_ceil(32), 1));
        }
    }
}

/// A plan of a variant for a box of 3 x 3, or for a mask that it takes.
fn of_ones(width: usize, height: usize, variant: Variant) -> Plan {
    let entry = variant.entries().next().unwrap();
    let plan = |mask: (u32, u32)| {
        let filter = Filter::new(Mask::average(mask.0 as usize, mask.1 as usize).unwrap());
        let mut problem = Problem::new(width, height, &filter).unwrap();
        if !variant.entries().any(|entry| entry.is_plane()) {
            let format = PixelFormat { channels: entry.channels as usize, input: entry.pixel, output: entry.pixel };
            problem = problem.with_format(format).unwrap();
        }
        Plan::new(&problem, Limits::H100, VariantChoice::Named(variant))
    };
    plan((3, 3)).or_else(|_| plan(entry.example_mask())).unwrap()
}

#[test]
fn launches_cover_every_row_once() {
    for height in [1, 15, 16, 17, 65_535 * 8, 65_535 * 16, 65_535 * 16 + 1, 3_000_000] {
        for variant in Variant::ALL.into_iter().filter(|variant| !variant.partitions_rows()) {
            let plan = of_ones(33, height, variant);
            let (columns, rows) = plan.entry.outputs((plan.params.mask_width as u32, plan.params.mask_height as u32));
            let mut next = 0;
            for launch in plan.launches(height, 0..height) {
                assert_eq!(launch.params.first_row as usize, next);
                assert!((1..=MAX_GRID_Y).contains(&launch.grid.1) && launch.grid.0 == 33_u32.div_ceil(columns));
                next += launch.grid.1 as usize * rows as usize;
            }
            assert!((height..height + rows as usize).contains(&next), "{height} rows, {variant:?}");
        }
    }
}

#[test]
fn grids_partition_the_rows() {
    for variant in Variant::ALL.into_iter().filter(|variant| variant.partitions_rows()) {
        for height in [1, 7, 8, 9, 200, 8192, 3_000_000] {
            for first in [0, height / 3] {
                let plan = of_ones(33, height, variant);
                let [launch] = plan.launches(height, first..height).try_into().unwrap();
                let (rows, strips) = ((height - first) as u32, launch.grid.1);
                assert_eq!(launch.params.first_row as usize, first);
                // As the kernels share them out: none is empty.
                let Grid::Partition(grid) = variant.spec().grid else { panic!("{variant:?} has tiles") };
                let (begin, _) = match grid.block_row_alignment {
                    1 => partition::<1>(rows, strips - 1, strips),
                    32 => partition::<32>(rows, strips - 1, strips),
                    64 => partition::<64>(rows, strips - 1, strips),
                    step => panic!("a partition in steps of {step} rows"),
                };
                assert!(begin < rows, "{variant:?}: {strips} strips of {rows} rows");
            }
        }
        assert!(of_ones(33, 9, variant).launches(9, 4..4).is_empty());
    }
    // As measured: 132 multiprocessors of 32 blocks, over 64 strips side by side.
    let [launch] = of_ones(8192, 8192, Variant::SlidingWindow).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!(launch.grid, (64, 66));
    // Whole groups of 8 pixels of a channel: 11 groups of 3 channels are 33 lanes.
    let entry = entries().find(|entry| entry.symbol == "sliding_window_planar_f32_c3_13x13").unwrap();
    assert_eq!([80, 81, 85, 88, 4096].map(|width| entry.blocks_across((13, 13), width)), [1, 2, 2, 2, 48]);
    let [launch] = of_ones(8192, 8192, Variant::SeparableRing).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!(launch.grid, (33, 64));
    // One strip of 79 blocks leaves 53 of 132 multiprocessors idle. Five strips have 395 blocks, and three waves have
    // 396 places. But in a low image five strips would read more rows in three waves than one strip in one wave.
    let entry = entries().find(|entry| entry.symbol == "separable_tensor_core_f32_c3_blocks_5").unwrap();
    let strips =
        |width| entry.grid_dim_y((31, 31), (4096, MAX_GRID_Y), entry.blocks_across((31, 31), width), (132, 228 << 10));
    assert_eq!([4096, 5000, 8192].map(strips), [Some(2), Some(5), Some(1)]);
    assert_eq!(entry.grid_dim_y((31, 31), (100, MAX_GRID_Y), 79, (132, 228 << 10)), Some(1));
    let [launch] = of_ones(8192, 8192, Variant::SeparableBlockTile).launches(8192, 0..8192).try_into().unwrap();
    assert_eq!((launch.grid, launch.block), ((16, 8), (512, 1)));
}

/// A large mask leaves room for few rows of a tile. Then a tall image takes several conversions with a proof.
#[test]
fn proofs_of_tall_images_fit_a_grid() {
    let (width, height) = (1, 1_060_000);
    let mask = Mask::average(1040, 16).unwrap();
    let format = PixelFormat::of::<u8, u8>(4);
    let problem = Problem::new(width, height, &Filter::new(mask)).unwrap().with_format(format).unwrap();
    let considered = Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap().considered;
    let proven = considered.iter().filter(|one| one.in_planes && one.answer.is_ok() && one.uncertain.is_some());
    let mut tested = 0;
    for entry in proven.map(|one| one.entry) {
        let plan = Plan::new(&problem, Limits::H100, VariantChoice::Kernel { entry, in_planes: true }).unwrap();
        let bytes = plan.scratch_bytes() + plan.planes_row_bytes() * height;
        let steps = plan.steps(format, &Rows::of(height, 0..height), bytes);
        let mut next = 0;
        let mut launches = 0;
        for step in steps {
            let Step::Prove { grid, params, .. } = step else { continue };
            assert_eq!(params.convolution.first_row, next, "{}", entry.symbol);
            assert!((1..=MAX_GRID_Y).contains(&grid.1), "{}: {grid:?}", entry.symbol);
            assert_eq!(grid.1, (params.rows as u32).div_ceil(params.tile_rows), "{}", entry.symbol);
            (next, launches) = (next + params.rows, launches + 1);
        }
        assert_eq!((next as usize, launches), (height, 2), "{}", entry.symbol);
        let launches = plan.proof_terms.unwrap()[cost::TERMS.iter().position(|&term| term == "launch").unwrap()];
        assert_eq!(launches as i32, 2, "{}", entry.symbol);
        tested += 1;
    }
    assert!(tested > 0);
}
