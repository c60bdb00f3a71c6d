//! Which kernel computes a problem on a GPU, why, and with which launches.
//!
//! First *eligible*: every entry of the list is asked whether it can compute the problem on this device; one that can't
//! says why. A variant must also keep the accuracy class that the problem demands. Then *cheapest*: of those that can,
//! the one for which the [cost model](cost) predicts the shortest time. A variant that is asked for by name skips the
//! others, never the eligibility and never the accuracy.

mod choice;
pub mod cost;
pub(crate) mod direct_sum;
mod factors;
mod fixed_point;
mod geometry;
mod inquiry;
mod passes;
mod planes;
mod proof;
mod proven_sums;
mod separable_fixed_point;
mod spectrum;
#[cfg(test)]
mod tests;

use std::ops::Range;

use kernels_gpu::abi::params::Params;
use kernels_gpu::fft::error::Transforms;
use kernels_gpu::registry::{Accuracy as Guarantee, Arithmetic, Entry, Ineligible, MaskForm, MaskSize, entries};

pub use self::choice::VariantChoice;
use self::cost::Terms;
pub use self::factors::Factors;
pub(crate) use self::fixed_point::FixedPoint;
use self::geometry::Geometry;
pub use self::geometry::{Launch, Limits};
use self::inquiry::Inquiry;
pub(crate) use self::passes::{Passes, later_passes};
pub use self::planes::Planes;
pub(crate) use self::planes::{Place, Rows, Step};
pub use self::proof::Proof;
pub(crate) use self::proven_sums::ProvenSums;
pub(crate) use self::separable_fixed_point::SeparableFixedPoint;
use crate::{Accuracy, Error, ErrorBound, PixelFormat, PixelType, Problem, Result};

/// On a device rows begin at multiples of this many bytes: a sector, the least that DRAM and caches move; kernels may
/// load and store vectors of up to 16 bytes.
const ROW_ALIGNMENT: usize = 32;

/// Values from one row to the next on a device, for rows of `values` values of `bytes` bytes.
pub(crate) fn device_pitch(values: usize, bytes: usize) -> usize {
    (values * bytes).next_multiple_of(ROW_ALIGNMENT) / bytes
}

/// A way to compute a problem that was considered: a kernel for the image, or for its planes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Considered {
    /// The kernel.
    pub entry: &'static Entry,
    /// Whether it computes the channels one after the other, as planes of `f32`.
    pub in_planes: bool,
    /// Whether it can, and if not, why.
    pub answer: Result<(), Ineligible>,
    /// The part of the results that is expected to be recomputed in order, if integers are made of the results of a
    /// kernel that is not bit-exact.
    pub uncertain: Option<f32>,
    /// How long the cost model predicts it to take on the device, in microseconds, conversions included. Infinite where
    /// the mask's size does not suit the kernel.
    pub predicted_us: f64,
}

impl Considered {
    /// The predicted time, with what speaks against the kernel added: a result that is not bit-exact must be faster by
    /// 5 %, and planes, which need memory, by 5 % as well. Transforms must take five sixths of the time, and
    /// integers that are proven four fifths: the image decides how many results are computed again. In the class
    /// [`Accuracy::Normwise`] transforms prove none.
    fn price(&self, required: Accuracy) -> f64 {
        let bounded = match transforms(self.entry) {
            Some(_) if required != Accuracy::Normwise => 1.2,
            _ if self.uncertain.is_some() => 1.25,
            _ if self.entry.variant.is_exact() => 1.0,
            _ => 1.05,
        };
        let in_planes = if self.in_planes { 1.05 } else { 1.0 };
        self.predicted_us * bounded * in_planes
    }
}

/// A problem planned for a GPU.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kernel.
    pub entry: &'static Entry,
    /// Why this one: one line for people.
    pub reason: String,
    /// Every kernel of the choice that was asked, the cheapest first.
    pub considered: Vec<Considered>,
    /// What the time of the kernel depends on, for one of the planes if there are any.
    pub terms: Terms,
    /// What the time of the conversions depends on, if there are planes: of all, or if there is a proof, of the one to
    /// planes.
    pub conversion_terms: Option<Terms>,
    /// What the time of the conversion with a proof depends on, if there is one.
    pub proof_terms: Option<Terms>,
    /// What every launch passes, for the whole image, with the device's pitches.
    pub params: Params,
    /// The row and the column factor of the mask, if there are entries that ask for them, and the mask is separable.
    pub factors: Option<Factors>,
    /// What proves the results of entries that prove their own, if there are such entries.
    pub(crate) proven_sums: Option<ProvenSums>,
    /// The mask in fixed point, if there are entries that ask for it, and it has such a form.
    pub(crate) fixed_point: Option<FixedPoint>,
    /// The same of a separable mask, if the kernel takes that.
    pub(crate) separable_fixed_point: Option<SeparableFixedPoint>,
    /// How the channels are computed as planes of `f32`, if they are. Then `entry` computes a plane, and `params` are
    /// those of a plane.
    pub planes: Option<Planes>,
    /// How integers are made of the planes, if the entry is not bit-exact.
    pub proof: Option<Proof>,
    /// The device's.
    pub(crate) limits: Limits,
}

impl Plan {
    /// Plans `problem` for a device with `limits`.
    ///
    /// # Errors
    /// [`Error::Accuracy`] if the variant that was asked for keeps a looser class than the problem demands,
    /// [`Error::Refused`] if it can't compute the problem.
    pub fn new(problem: &Problem, limits: Limits, choice: VariantChoice) -> Result<Self> {
        let is_integer = problem.format().output != PixelType::F32;
        if let Some(variant) = choice.named()
            && !(is_integer && choice.allows_planes())
        {
            let (variant, required, kept) = (variant.name(), problem.accuracy(), Accuracy::of(variant));
            if !required.allows(kept) {
                return Err(Error::Accuracy { variant, required, kept });
            }
        }
        let required = problem.required_class();
        let mut inquiries = vec![Inquiry::new(problem.clone(), None, limits, choice)];
        if let Some(planes) = Planes::of(problem.format())
            && choice.allows_planes()
        {
            inquiries.push(Inquiry::in_planes(problem, planes, limits, choice));
        }
        let mut considered: Vec<_> = inquiries.iter().flat_map(Inquiry::considered).collect();
        // By its name a variant computes with the kernel that is made for the mask, so that each kernel can be asked
        // for.
        let is_other = |one: &Considered| choice.named().is_some() && !inquiries[0].is_made_for_mask(one.entry);
        // Of several squares that hold the mask the smallest one multiplies with the fewest zeros.
        considered.sort_by(|a, b| {
            let key = |one: &Considered| (is_other(one), one.price(required), one.entry.side());
            let ((a_is_other, a_price, a_side), (b_is_other, b_price, b_side)) = (key(a), key(b));
            a_is_other.cmp(&b_is_other).then(a_price.total_cmp(&b_price)).then(a_side.cmp(&b_side))
        });
        // Proven integers have the bits of the class Exact.
        let keeps = |one: &Considered| one.uncertain.is_some() || required.allows(Accuracy::of(one.entry.variant));
        let best = considered.iter().find(|one| one.answer.is_ok() && keeps(one)).copied();
        let Some(Considered { entry, in_planes, .. }) = best else {
            return Err(refused(&considered, choice, problem.format()));
        };
        let inquiry = inquiries.swap_remove(usize::from(in_planes));
        let proof = inquiry.proof(entry).ok().flatten();
        Ok(Self {
            entry,
            reason: inquiry.reason(entry, proof.as_ref(), &considered, choice),
            considered,
            terms: inquiry.terms(entry),
            conversion_terms: inquiry.conversion_terms(proof.as_ref()),
            proof_terms: inquiry.proof_terms(proof.as_ref()),
            params: inquiry.params(entry),
            factors: inquiry.factors,
            proven_sums: inquiry.proven_sums.and_then(Result::ok),
            fixed_point: inquiry.fixed_point,
            separable_fixed_point: inquiry.separable_fixed_point,
            planes: inquiry.planes,
            proof,
            limits,
        })
    }

    /// How long the cost model predicts the plan to take on the device, in microseconds.
    #[must_use]
    pub fn predicted_us(&self) -> f64 {
        let is_this = |one: &&Considered| one.entry == self.entry && one.in_planes == self.planes.is_some();
        self.considered.iter().find(is_this).map_or(f64::INFINITY, |one| one.predicted_us)
    }

    /// The accuracy class that the results of the plan keep for `problem`, and the bound of their errors.
    #[must_use]
    pub fn bound(&self, problem: &Problem) -> ErrorBound {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        match self.entry.variant.spec().accuracy {
            _ if self.proof.is_some() => ErrorBound::direct(problem),
            Guarantee::Exact => ErrorBound::direct(problem),
            Guarantee::Bounded { error_constant, arithmetic } => {
                if let Some(transforms) = transforms(self.entry)
                    && problem.required_class() == Accuracy::Normwise
                {
                    return spectrum::normwise(problem, transforms, self.entry.channels);
                }
                let underflows = self.factors.as_ref().map_or(0.0, |factors| match arithmetic {
                    Arithmetic::F32 => factors.underflows(),
                    Arithmetic::SplitTf32 => factors.underflows_in_parts(),
                });
                ErrorBound::with_constant(error_constant(self.entry, mask) as f64).with_underflows(underflows)
            }
        }
    }

    /// The values that the entry reads, in its order: the mask's coefficients in window order, with what fills its rows
    /// up, those of a row and a column, or a spectrum.
    #[must_use]
    pub fn coefficients(&self, problem: &Problem) -> Vec<f32> {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        let is_proven = problem.required_class() != Accuracy::Normwise;
        match (self.entry.variant.spec().mask_form, &self.factors, &self.fixed_point) {
            (MaskForm::Factors(places), Some(factors), _) => {
                let places = places(self.entry, mask, self.params.origin_x);
                factors.placed(places)
            }
            (MaskForm::ProvenFactors(places), Some(factors), _) => {
                let places = places(self.entry, mask, self.params.origin_x);
                let proven = self.proven_sums.as_ref().expect("an eligible entry proves its sums");
                proven.coefficients(problem, factors, places)
            }
            (MaskForm::FixedPoint, _, Some(fixed_point)) => fixed_point.words(problem, self.entry.side()),
            (MaskForm::SeparableFixedPoint, ..) => {
                let fixed_point = self.separable_fixed_point.as_ref();
                fixed_point.expect("an eligible entry has its fixed point").words(problem, self.entry.side())
            }
            (MaskForm::Spectrum, ..) => spectrum::values(problem, is_proven),
            (MaskForm::SpectrumOfPasses, ..) => spectrum::values_of_passes(problem, is_proven),
            (MaskForm::Rows(begin), ..) => self.padded_coefficients(problem, begin),
            (MaskForm::Factors(_) | MaskForm::ProvenFactors(_) | MaskForm::FixedPoint, ..) => {
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

    /// The first row of a launch is a multiple of this, so that the results do not depend on where launches begin.
    pub(crate) fn launch_row_alignment(&self) -> usize {
        let mask = (self.params.mask_width as u32, self.params.mask_height as u32);
        self.entry.launch_row_alignment(mask) as usize
    }

    /// The launches that compute the rows `outputs` of an image of `height` rows, otherwise as planned; more than one
    /// only for more than 65,535 rows of blocks. The last blocks may compute rows after them, too.
    #[must_use]
    pub fn launches(&self, height: usize, outputs: Range<usize>) -> Vec<Launch> {
        Geometry { entry: self.entry, params: self.params, limits: self.limits }.launches(height, outputs)
    }
}

/// The transforms of an entry, if it multiplies spectra.
fn transforms(entry: &Entry) -> Option<Transforms> {
    match entry.variant.spec().mask_form {
        MaskForm::Spectrum => Some(Transforms::TILE),
        MaskForm::SpectrumOfPasses => Some(Transforms::PASSES),
        MaskForm::Rows(_)
        | MaskForm::Factors(_)
        | MaskForm::ProvenFactors(_)
        | MaskForm::FixedPoint
        | MaskForm::SeparableFixedPoint => None,
    }
}

/// The error for a choice that can't. Of its kernels that one knows best why which the mask's size suits.
fn refused(considered: &[Considered], choice: VariantChoice, format: PixelFormat) -> Error {
    let told = considered
        .iter()
        .filter_map(|one| one.answer.err().map(|refusal| (one.entry, refusal)))
        .min_by_key(|(entry, refusal)| (matches!(refusal, Ineligible::MaskSize { .. }), entry.mask != MaskSize::Any));
    let (entry, reason) = told.unwrap_or_else(|| {
        let entry = match choice {
            VariantChoice::Kernel { entry, .. } => entry,
            _ => entries().find(|entry| choice.allows(entry, false)).expect("each variant has an entry"),
        };
        let found = (format.input, format.channels as u32);
        (entry, Ineligible::PixelFormat { required: (entry.pixel, entry.channels), found })
    });
    Error::Refused { variant: entry.variant.name(), reason }
}
