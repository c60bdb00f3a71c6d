//! What `auto` takes for a table of problems.

use anyhow::{Context, Result};
use faltung::plan::Considered;
use faltung::{Device, Filter, Mask, PixelFormat, PixelType, Problem, VariantChoice};
use host::bench::ImageSize;
use host::text_table::{TextColumn, text_table};
use host::units::time;
use serde::Serialize;

/// What `auto` takes for a kind of problem.
#[derive(Serialize)]
pub(super) struct Choice {
    pixel: &'static str,
    channels: usize,
    separable: bool,
    /// The side of the square mask.
    mask: usize,
    variant: &'static str,
    /// Whether the channels are computed one after the other, as planes of `f32`.
    planes: bool,
    /// The time by the cost model; null on the CPU.
    predicted_us: Option<f64>,
    reason: String,
    /// All kernels that can, the fastest first.
    candidates: Vec<Candidate>,
}

/// A kernel that can compute a problem.
#[derive(Serialize)]
struct Candidate {
    kernel: &'static str,
    variant: &'static str,
    planes: bool,
    predicted_us: f64,
}

/// The kinds of images that `auto`'s choices are shown for: type, channels, and whether the mask is separable.
const KINDS: [(PixelType, usize, bool); 7] = [
    (PixelType::F32, 1, false),
    (PixelType::F32, 1, true),
    (PixelType::F32, 3, false),
    (PixelType::U8, 1, false),
    (PixelType::U8, 3, false),
    (PixelType::U16, 1, false),
    (PixelType::U16, 3, false),
];

/// The sides of the masks.
const MASKS: [usize; 9] = [3, 5, 7, 9, 13, 21, 31, 63, 127];

/// What the device takes by itself, for each kind of image and each mask. No image is allocated.
pub(super) fn of(device: &Device, size: ImageSize) -> Result<Vec<Choice>> {
    let kinds = KINDS.into_iter().flat_map(|kind| MASKS.map(|mask| (kind, mask)));
    kinds.map(|((pixel, channels, separable), mask)| choice(device, size, (pixel, channels), mask, separable)).collect()
}

fn choice(
    device: &Device,
    size: ImageSize,
    (pixel, channels): (PixelType, usize),
    mask: usize,
    separable: bool,
) -> Result<Choice> {
    let mut coefficients = vec![1.0; mask * mask];
    coefficients[0] = if separable { 1.0 } else { 2.0 };
    let filter = Filter::new(Mask::new(mask, mask, coefficients)?.normalized()?);
    let format = PixelFormat { channels, input: pixel, output: pixel };
    let problem = Problem::new(size.width, size.height, &filter)
        .and_then(|problem| problem.with_format(format))
        .with_context(|| format!("--size {}x{} with {channels} channels", size.width, size.height))?;
    let choice = Choice {
        pixel: pixel.name(),
        channels,
        separable,
        mask,
        variant: "",
        planes: false,
        predicted_us: None,
        reason: String::new(),
        candidates: Vec::new(),
    };
    Ok(match device.plan(&problem, VariantChoice::Auto)? {
        Some(plan) => {
            let predicted_us = Some(plan.predicted_us());
            let candidates = plan.considered.iter().filter(|one| one.answer.is_ok()).map(Candidate::from).collect();
            let (variant, planes, reason) = (plan.entry.variant.name(), plan.planes.is_some(), plan.reason);
            Choice { variant, planes, predicted_us, reason, candidates, ..choice }
        }
        None => {
            let prepared = device.prepare(&problem, VariantChoice::Auto)?;
            Choice { variant: prepared.variant(), reason: prepared.reason(), ..choice }
        }
    })
}

impl From<&Considered> for Candidate {
    fn from(one: &Considered) -> Self {
        let (kernel, variant) = (one.entry.symbol, one.entry.variant.name());
        Self { kernel, variant, planes: one.in_planes, predicted_us: one.predicted_us }
    }
}

/// The choices for people: the kernel or method, its predicted time, and the next two.
pub(super) fn table(choices: &[Choice]) -> String {
    let name = |variant: &str, planes| format!("{variant}{}", if planes { " in planes" } else { "" });
    let rows = choices.iter().map(|choice| {
        let Choice { pixel, channels, separable, mask, variant, planes, predicted_us, .. } = choice;
        let mut others: Vec<&Candidate> = Vec::new();
        for one in &choice.candidates {
            let is_new = others.iter().all(|other| (other.variant, other.planes) != (one.variant, one.planes));
            if (one.variant, one.planes) != (*variant, *planes) && is_new && others.len() < 2 {
                others.push(one);
            }
        }
        let others = others.iter().map(|one| format!("{} {}", name(one.variant, one.planes), time(one.predicted_us)));
        vec![
            format!("{pixel} x {channels}"),
            format!("{mask} x {mask}{}", if *separable { " separable" } else { "" }),
            name(variant, *planes),
            predicted_us.map_or_else(String::new, time),
            others.collect::<Vec<_>>().join(", "),
        ]
    });
    let columns = [
        TextColumn::left("image"),
        TextColumn::left("mask"),
        TextColumn::left("kernel or method"),
        TextColumn::right("predicted"),
        TextColumn::left("next"),
    ];
    text_table(&columns, rows)
}
