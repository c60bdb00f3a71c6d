//! A thread walks down a strip of columns with its sums in registers.

pub mod staged;
pub mod stream;
pub mod stream_ring;
pub mod stream_values;
pub mod strip;

use self::strip::Schedule;
use crate::abi::pixel::PixelType;
use crate::registry::{Accuracy, Entry, Grid, MaskForm, MaskMemory, Occupancy, RowPartition, Spec, no_requirement};

crate::registry::instances! {
    SlidingWindow;
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for
        T in [f32], C in [1],
        K in [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 23, 25, 27, 29, 31];
        |image, result, _mask, params| {
            const ROWS: usize = stream::rows(K) as usize;
            stream::stream::<{ K as usize }, ROWS, { stream::schedule(K).columns }>(image, result.cast(), params)
        }
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for T in [f32], C in [3, 4], K in [3, 5, 7, 9, 11];
        |image, result, _mask, params| {
            const WALK: Schedule = stream_values::schedule(PixelType::F32, C, K);
            stream_values::stream_values::<_, { K as usize }, { WALK.columns }, { C as usize }, { WALK.ahead }>(
                image, result, params,
            )
        }
    sm_70 "sliding_window_{T}_c{C}_{K}x{K}" for T in [u16], C in [1, 3, 4], K in [3, 5, 7, 9, 11];
        |image, result, _mask, params| {
            const WALK: Schedule = stream_values::schedule(PixelType::U16, C, K);
            stream_values::stream_values::<_, { K as usize }, { WALK.columns }, { C as usize }, { WALK.ahead }>(
                image, result, params,
            )
        }
    sm_80 "sliding_window_{T}_c{C}_{K}x{K}" for T in [u8], C in [1, 3, 4], K in [3, 5, 7, 9, 11];
        |image, result, _mask, params| {
            stream_ring::stream_ring::<{ C as usize }, { K as usize }>(image, result, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "sliding_window",
    summary: "a thread walks down a strip of columns with its sums in registers",
    reason: "sums in registers, each pixel read about once",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::Rows(stream::mask_row),
    mask_class: None,
    results: |pixel| match pixel {
        PixelType::U8 => &[PixelType::U8],
        PixelType::U16 => &[PixelType::U16, PixelType::F32],
        PixelType::F32 => &[PixelType::F32],
    },
    border_is_pixel: |pixel| matches!(pixel, PixelType::U8),
    requirement: no_requirement,
    uses_fp32_units: true,
    grid: Grid::Partition(RowPartition { least_rows: |_, _| LEAST_ROWS, step: 1, row_step: 1, occupancy }),
    block: |_| strip::BLOCK,
    outputs: |entry| (strip::BLOCK.0 * columns(entry) as u32, LEAST_ROWS),
    shared_bytes: |entry, (width, _)| match (entry.pixel, entry.channels) {
        (PixelType::F32, 1) => staged::shared_bytes(columns(entry) as u32),
        (PixelType::U8, channels) => stream_ring::shared_bytes(channels, width),
        (PixelType::F32 | PixelType::U16, channels) => strip::shared_bytes(columns(entry) as u32, channels, width),
    },
    launch_bounds: |entry| match (entry.pixel, entry.channels) {
        (PixelType::F32, 1) => Some((strip::BLOCK.0, stream::schedule(entry.side()).resident)),
        (PixelType::F32 | PixelType::U8 | PixelType::U16, _) => None,
    },
    convergent: |entry| match (entry.pixel, entry.channels) {
        (PixelType::F32, 1) => staged::CONVERGENT,
        (PixelType::U8, _) => stream_ring::CONVERGENT,
        (PixelType::F32 | PixelType::U16, _) => strip::CONVERGENT,
    },
};

/// The least height of a strip. Below it the rows that are read and not written are most of the rows.
const LEAST_ROWS: u32 = 8;

fn columns(entry: &Entry) -> usize {
    match (entry.pixel, entry.channels) {
        (PixelType::F32, 1) => stream::schedule(entry.side()).columns,
        (PixelType::U8, _) => stream_ring::COLUMNS,
        (pixel, channels) => stream_values::schedule(pixel, channels, entry.side()).columns,
    }
}

fn occupancy(entry: &Entry, (width, _): (u32, u32)) -> Occupancy {
    let (blocks_per_sm, waves) = match (entry.pixel, entry.channels) {
        (PixelType::F32, 1) => {
            let schedule = stream::schedule(entry.side());
            (schedule.resident, schedule.waves)
        }
        (PixelType::U8, channels) => stream_ring::schedule(channels, width),
        (pixel, channels) => {
            let schedule = stream_values::schedule(pixel, channels, entry.side());
            (schedule.resident, schedule.waves)
        }
    };
    Occupancy { blocks_per_sm, waves }
}
