//! Which kernel computes a problem on a GPU, why, and with which launches.
//!
//! First *eligible*: every entry of the list is asked whether it can compute the problem on this device; one that can't
//! says why. A variant must also keep the accuracy class that the problem demands. Then *preferred*: of those that can,
//! the first in the order of `preference`, which rests on measurements. A variant that is asked for by name skips the
//! preference, never the eligibility and never the accuracy.

mod factors;
mod fixed_point;
mod planes;
mod preference;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::abi::params::Params;
use kernels_gpu::registry::{
    Accuracy as Guarantee, Arithmetic, Entry, Ineligible, MaskForm, MaskSize, Request, Variant, entries,
};

pub use self::factors::Factors;
pub use self::fixed_point::FixedPoint;
pub use self::planes::Planes;
pub(crate) use self::planes::{Place, Rows, Step};
use self::preference::Situation;
use crate::{Accuracy, Error, ErrorBound, PixelType, Problem, Result};

/// The most rows of blocks in one grid, by CUDA's rules.
const MAX_GRID_Y: u32 = 65_535;

/// On a device rows begin at multiples of this many bytes: a sector, the least that DRAM and caches move; kernels may
/// load and store vectors of up to 16 bytes.
const ROW_ALIGNMENT: usize = 32;

/// Values from one row to the next on a device, for rows of `values` values of `bytes` bytes.
pub(crate) fn device_pitch(values: usize, bytes: usize) -> usize {
    (values * bytes).next_multiple_of(ROW_ALIGNMENT) / bytes
}

/// Which variant is to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum VariantChoice {
    /// The preferred one of those that can, and that keep the accuracy class of the problem
    /// ([`Problem::accuracy`]). [`Plan::bound`] states the class that it keeps.
    #[default]
    Auto,
    /// This one, or an error that says why not. It must keep the accuracy class of the problem, too: a bounded variant
    /// is [`Error::Accuracy`] for [`Accuracy::Exact`].
    Named(Variant),
}

impl VariantChoice {
    /// All that can be asked for, in the order in which help texts list them.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::Auto].into_iter().chain(Variant::ALL.map(Self::Named))
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Named(variant) => variant.name(),
        }
    }

    /// The variant, if one was asked for by name.
    #[must_use]
    pub const fn named(self) -> Option<Variant> {
        match self {
            Self::Auto => None,
            Self::Named(variant) => Some(variant),
        }
    }

    /// Whether an entry of `variant` is what was asked for.
    fn allows(self, variant: Variant) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(wanted) => variant == wanted,
        }
    }
}

impl fmt::Display for VariantChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VariantChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::all().find(|choice| choice.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::all().map(Self::name).collect();
            Error::Parse { what: "variant", required: names.join(", "), found: text.into() }
        })
    }
}

/// What a plan needs to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most dynamic shared memory of a block, in bytes, after opting in.
    pub shared_bytes: u64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
}

impl Limits {
    /// An H100's, which the emulator has.
    pub const H100: Self = Self {
        shared_bytes: cuda_emulator::Limits::H100.shared_bytes as u64,
        sm_count: 132,
        compute_capability: (9, 0),
    };
}

/// One entry that was asked, and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The entry.
    pub entry: &'static Entry,
    /// Whether it can, and if not, why.
    pub answer: Result<(), Ineligible>,
}

/// One kernel launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// Blocks in x and y.
    pub grid: (u32, u32),
    /// Threads of a block in x and y.
    pub block: (u32, u32),
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Columns and rows of the mask's values in device memory, at least: those of a row and of a column are one row.
    pub mask_size: (usize, usize),
    /// The parameters.
    pub params: Params,
}

/// A problem planned for a GPU.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kernel.
    pub entry: &'static Entry,
    /// Why this one: one line for people.
    pub reason: String,
    /// Every entry for the problem's values that was asked.
    pub considered: Vec<Considered>,
    /// What every launch passes, for the whole image, with the device's pitches.
    pub params: Params,
    /// The mask as a column times a row, if there are entries for the problem's values that ask for it, and it is one.
    pub factors: Option<Factors>,
    /// The mask in fixed point, if there are entries for the problem's values that ask for it, and it can be.
    pub fixed_point: Option<FixedPoint>,
    /// How the channels are computed as planes of `f32`, if they are. Then `entry` computes a plane, `params` are those of
    /// a plane, and `considered` are the entries that compute the image without conversions.
    pub planes: Option<Planes>,
    /// The device's.
    pub limits: Limits,
}

impl Plan {
    /// Plans `problem` for a device with `limits`.
    ///
    /// # Errors
    /// [`Error::Accuracy`] if the variant that was asked for keeps a looser class than the problem demands,
    /// [`Error::Refused`] if it can't compute the problem.
    pub fn new(problem: &Problem, limits: Limits, choice: VariantChoice) -> Result<Self> {
        let direct = Self::direct(problem, limits, choice)?;
        let planes = if choice == VariantChoice::Auto { Self::through_planes(problem, &direct) } else { None };
        Ok(planes.unwrap_or(direct))
    }

    /// As [`new`](Self::new), by an entry for images of the problem's format.
    fn direct(problem: &Problem, limits: Limits, choice: VariantChoice) -> Result<Self> {
        if let Some(variant) = choice.named() {
            let (variant, required, kept) = (variant.name(), problem.accuracy(), Accuracy::of(variant));
            if !required.allows(kept) {
                return Err(Error::Accuracy { variant, required, kept });
            }
        }
        let format = problem.format();
        let values = (format.input, format.channels as u32);
        let of_format = || entries().filter(move |entry| (entry.pixel, entry.channels) == values);
        let has_form = |is_form: fn(MaskForm) -> bool| of_format().any(|entry| is_form(entry.variant.spec().mask_form));
        let factors =
            has_form(|form| matches!(form, MaskForm::Factors(_))).then(|| Factors::of(problem.window())).flatten();
        let fixed_point =
            has_form(|form| matches!(form, MaskForm::FixedPoint)).then(|| FixedPoint::of(problem)).flatten();
        let request = Request {
            mask: (problem.window().width() as u32, problem.window().height() as u32),
            origin_x: problem.params().origin_x,
            padded_side: padded_side(problem),
            factor_exponents: factors.as_ref().map(Factors::exponents),
            uncertain: fixed_point.as_ref().map_or(1.0, FixedPoint::uncertain_part),
            result: format.output,
            shared_limit: limits.shared_bytes,
            border_value: (problem.border().mode() == BorderMode::Constant).then(|| problem.border().value()),
            compute_capability: limits.compute_capability,
        };
        let considered: Vec<_> =
            of_format().map(|entry| Considered { entry, answer: entry.eligibility(&request) }).collect();
        let situation = Situation { problem, limits, uncertain: request.uncertain };
        let best = considered
            .iter()
            .filter(|one| one.answer.is_ok() && choice.allows(one.entry.variant))
            .filter(|one| demanded(problem).allows(Accuracy::of(one.entry.variant)))
            .map(|one| one.entry)
            // Of several squares that hold the mask the smallest one multiplies with the fewest zeros.
            .min_by_key(|entry| (situation.preference(entry), entry.side()));
        let Some(entry) = best else { return Err(refused(&considered, choice, values)) };
        let reason = situation.reason(entry, &considered, choice);
        let pitch = |bytes: usize| device_pitch(problem.row_values(), bytes);
        let mut params = Params {
            src_pitch: pitch(format.input.bytes()) as i32,
            dst_pitch: pitch(format.output.bytes()) as i32,
            ..problem.params()
        };
        if let MaskSize::Square(side) = entry.mask
            && request.mask != (side, side)
        {
            // The mask in the upper rows of a square, its columns where they stood.
            params.mask_width = side as i32;
            params.mask_height = side as i32;
            params.origin_x = (side as i32 - 1) / 2;
        }
        Ok(Self { entry, reason, considered, params, factors, fixed_point, planes: None, limits })
    }

    /// The accuracy class that the entry keeps for `problem`, and the bound of its errors.
    #[must_use]
    pub fn bound(&self, problem: &Problem) -> ErrorBound {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        match self.entry.variant.spec().accuracy {
            Guarantee::Exact => ErrorBound::direct(problem),
            Guarantee::Bounded { error_constant, arithmetic } => {
                let underflows = self.factors.as_ref().map_or(0.0, |factors| match arithmetic {
                    Arithmetic::F32 => factors.underflows(),
                    Arithmetic::SplitTf32 => factors.underflows_in_parts(),
                });
                ErrorBound::with_constant(error_constant(self.entry, mask) as f64).with_underflows(underflows)
            }
        }
    }

    /// The coefficients that the entry reads, in its order: the mask's in window order, with what fills its rows up, or
    /// those of a row and a column.
    #[must_use]
    pub fn coefficients(&self, problem: &Problem) -> Vec<f32> {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        match (self.entry.variant.spec().mask_form, &self.factors, &self.fixed_point) {
            (MaskForm::Factors(places), Some(factors), _) => {
                let places = places(self.entry, mask, self.params.origin_x);
                factors.placed(places.row, places.column)
            }
            (MaskForm::FixedPoint, _, Some(fixed_point)) => fixed_point.words(problem, self.entry.side()),
            (MaskForm::Rows(begin), ..) => self.padded_coefficients(problem, begin),
            (MaskForm::Factors(_) | MaskForm::FixedPoint, ..) => {
                unreachable!("an eligible entry's mask has the form that it reads")
            }
        }
    }

    /// The mask's coefficients in window order, each row where the kernel wants it, with zeros around them where the
    /// entry's mask is larger, and between rows.
    fn padded_coefficients(&self, problem: &Problem, begin: fn(u32, u32) -> u32) -> Vec<f32> {
        let window = problem.window();
        let (width, height) = (self.params.mask_width as u32, self.params.mask_height as u32);
        let place = |row| begin(width, row) as usize;
        let left = self.params.origin_x as usize - problem.origin().1;
        let mut coefficients = vec![0.0; place(height)];
        for (row, from) in (0..).zip(window.coefficients().chunks_exact(window.width())) {
            let to = place(row) + left;
            coefficients[to..to + from.len()].copy_from_slice(from);
        }
        coefficients
    }

    /// The launches that compute the rows `outputs` of an image of `height` rows, otherwise as planned; more than one
    /// only for more than 65,535 rows of blocks. The last blocks may compute rows after them, too.
    #[must_use]
    pub fn launches(&self, height: usize, outputs: Range<usize>) -> Vec<Launch> {
        let (columns, rows) = self.entry.outputs();
        let params = Params { height: height as i32, ..self.params };
        let (mask_width, mask_height) = (params.mask_width as u32, params.mask_height as u32);
        let blocks_across = (params.width as u32 * self.entry.channels).div_ceil(columns);
        let mask_size = match self.entry.variant.spec().mask_form {
            MaskForm::Rows(_) | MaskForm::FixedPoint => (mask_width as usize, mask_height as usize),
            MaskForm::Factors(_) => ((mask_width + mask_height) as usize, 1),
        };
        let launch = |blocks_down: u32, first_row: u32| Launch {
            grid: (blocks_across, blocks_down),
            block: self.entry.block(),
            // An eligible entry's tile fits the device, far below 2^32.
            shared_bytes: self.entry.shared_bytes((mask_width, mask_height)) as u32,
            mask_size,
            params: Params { first_row: first_row as i32, ..params },
        };
        let first = outputs.start as u32;
        if !outputs.is_empty()
            && let Some(parts) = self.parts(height as u32 - first, blocks_across)
        {
            // They go down to the image's last row.
            return vec![launch(parts, first)];
        }
        let blocks_down = (outputs.len() as u32).div_ceil(rows);
        (0..blocks_down)
            .step_by(MAX_GRID_Y as usize)
            .map(|block| launch((blocks_down - block).min(MAX_GRID_Y), first + block * rows))
            .collect()
    }

    /// The rows of blocks that partition `rows` rows of the image, with `blocks_across` blocks side by side: as many as
    /// fill the device. None where a grid has a block for each tile.
    fn parts(&self, rows: u32, blocks_across: u32) -> Option<u32> {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        // What a multiprocessor keeps for the system is not a block's to have.
        let shared_per_sm = self.limits.shared_bytes + 1024;
        self.entry.grid_dim_y(mask, (rows, MAX_GRID_Y), blocks_across, (self.limits.sm_count, shared_per_sm))
    }
}

/// The loosest accuracy class that a variant for `problem` may keep. Integer results are exact whatever was asked for.
fn demanded(problem: &Problem) -> Accuracy {
    match problem.format().output {
        PixelType::F32 => problem.accuracy(),
        PixelType::U8 | PixelType::U16 => Accuracy::Exact,
    }
}

/// See [`Request::padded_side`].
///
/// A product with an added 0 is a 0, and a sum that it is added to stays as it is: whole numbers are finite, so is the
/// border's value, and a sum that begins with 0 becomes -0 only by underflow, which results of whole numbers don't
/// show.
fn padded_side(problem: &Problem) -> Option<u32> {
    let is_whole = |kind| !matches!(kind, PixelType::F32);
    let (window, left, format) = (problem.window(), problem.origin().1, problem.format());
    if !is_whole(format.input) || !is_whole(format.output) || !problem.border().value().is_finite() {
        return None;
    }
    let reach = left.max(window.width() - 1 - left);
    Some((2 * reach + 1).max(window.height() | 1) as u32)
}

/// The error for a variant that can't. Of its entries that one knows best why which the mask's size suits.
fn refused(considered: &[Considered], choice: VariantChoice, found: (crate::PixelType, u32)) -> Error {
    let of_choice = considered.iter().filter(|one| choice.allows(one.entry.variant));
    let told = of_choice
        .filter_map(|one| one.answer.err().map(|refusal| (one.entry, refusal)))
        .min_by_key(|(entry, refusal)| (matches!(refusal, Ineligible::MaskSize { .. }), entry.mask != MaskSize::Any));
    let (entry, reason) = told.unwrap_or_else(|| {
        let entry = entries().find(|entry| choice.allows(entry.variant)).expect("each variant has an entry");
        (entry, Ineligible::PixelFormat { required: (entry.pixel, entry.channels), found })
    });
    Error::Refused { variant: entry.variant.name(), reason }
}
