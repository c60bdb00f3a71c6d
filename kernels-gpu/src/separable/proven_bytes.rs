//! Separable masks for bytes, bit-exact with the ordered sum in `f32`.
//!
//! The kernel is [`interleaved()`]. It proves most bytes, and computes the others again in order.

use super::interleaved::{
    CLASS, CONVERGENT, GRID, ROWS, THREADS, certain_offset, exponents_fit, groups, interleaved, ordered_offset, places,
    shared_bytes,
};
use crate::abi::params::padded_mask_width;
use crate::abi::pixel::PixelType;
use crate::registry::{Accuracy, Grid, MaskForm, MaskMemory, ProvenPlaces, Spec};

crate::registry::instances! {
    SeparableU8;
    sm_80 "separable_u8_{T}_c{C}_halo_{HALO}" for T in [u8], C in [1, 4], HALO in [32];
    sm_80 "separable_u8_{T}_c{C}_halo_{HALO}" for T in [u8], C in [2, 3], HALO in [16, 32];
        |image, result, _mask, params| {
            interleaved::<T, C, { groups(HALO) }, true>(image, result, params)
        }
}

/// See [`Spec`].
pub const SPEC: Spec = Spec {
    name: "separable_u8",
    summary: "separable masks on bytes: rows, then columns; what that leaves uncertain again in order",
    reason: "a separable mask: rows, then columns",
    accuracy: Accuracy::Exact,
    mask_memory: MaskMemory::Constant,
    mask_form: MaskForm::ProvenFactors(|entry, mask, origin_x| ProvenPlaces {
        factors: places(entry, mask, origin_x),
        certain: certain_offset(entry.class()),
        ordered: ordered_offset(mask),
        ordered_pitch: padded_mask_width(mask.0),
    }),
    mask_class: Some(CLASS),
    results: |_| &[PixelType::U8],
    border_is_pixel: |_| true,
    requirement: exponents_fit,
    uses_fp32_units: true,
    grid: Grid::Partition(GRID),
    block: |_| (THREADS, 1),
    outputs: |_, _| (THREADS, ROWS),
    pixels_together: 1,
    shared_bytes: |entry, mask| shared_bytes(entry.class(), (entry.channels, 1), mask, true),
    launch_bounds: |_| Some((THREADS, 1)),
    convergent: |_| CONVERGENT,
};
