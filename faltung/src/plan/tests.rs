//! Plans: which kernel, how fast, and with which launches.

mod choice;
mod integers;
mod launches;
mod times;

use kernels_gpu::registry::Variant;

use super::*;
use crate::{Border, Filter, Mask, Operation, PixelFormat, PixelType};

/// A mask that is not separable, if it has more than one row and column.
fn mask(width: usize, height: usize) -> Mask {
    let mut coefficients = vec![1.0; width * height];
    coefficients[0] = 2.0;
    Mask::new(width, height, coefficients).unwrap()
}

fn problem(width: usize, height: usize, mask_width: usize, mask_height: usize) -> Problem {
    Problem::new(width, height, &Filter::new(mask(mask_width, mask_height))).unwrap()
}

fn planned(problem: &Problem, choice: VariantChoice) -> &'static str {
    Plan::new(problem, Limits::H100, choice).unwrap().entry.symbol
}

/// The variant that `auto` takes for a square image on an H100.
fn taken(side: usize, filter: Filter) -> Variant {
    let problem = Problem::new(side, side, &filter).unwrap();
    Plan::new(&problem, Limits::H100, VariantChoice::Auto).unwrap().entry.variant
}
