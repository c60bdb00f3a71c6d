//! Which kernel computes a problem on a GPU, why, and with which launches.
//!
//! First *eligible*: every entry of the list is asked whether it can compute the problem on this device; one that can't
//! says why. A variant must also keep the accuracy class that the problem demands. Then *cheapest*: of those that can,
//! the one for which the [cost model](cost) predicts the shortest time. A variant that is asked for by name skips the
//! others, never the eligibility and never the accuracy.

pub mod cost;
pub(crate) mod direct_sum;
mod factors;
mod fixed_point;
mod geometry;
mod passes;
mod planes;
mod proof;
mod proven_sums;
mod spectrum;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::abi::params::Params;
use kernels_gpu::fft::error::Transforms;
use kernels_gpu::registry::{
    Accuracy as Guarantee, Arithmetic, Entry, Ineligible, MaskForm, MaskSize, Request, Variant, entries,
};

use self::cost::{Terms, Work};

pub use self::factors::Factors;
pub use self::fixed_point::FixedPoint;
use self::geometry::Geometry;
pub use self::geometry::{Launch, Limits};
pub(crate) use self::passes::{Passes, later_passes};
pub use self::planes::Planes;
pub(crate) use self::planes::{Place, Rows, Step};
use self::proof::Integers;
pub use self::proof::Proof;
pub use self::proven_sums::ProvenSums;
use crate::{Accuracy, Error, ErrorBound, PixelFormat, PixelType, Problem, Result};

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
    /// The one that is predicted to be fastest of those that can, and that keep the accuracy class of the problem
    /// ([`Problem::accuracy`]). [`Plan::bound`] states the class that it keeps.
    #[default]
    Auto,
    /// This one, with its kernel for the mask's size if it has one, or an error that says why not. It must keep the
    /// accuracy class of the problem, too: a bounded variant is [`Error::Accuracy`] for [`Accuracy::Exact`].
    Named(Variant),
    /// This kernel, or an error that says why not.
    Kernel {
        /// The kernel.
        entry: &'static Entry,
        /// Whether it computes the channels one after the other, as planes of `f32`.
        in_planes: bool,
    },
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
            Self::Named(variant) | Self::Kernel { entry: &Entry { variant, .. }, .. } => variant.name(),
        }
    }

    /// The variant, if one was asked for by name.
    #[must_use]
    pub const fn named(self) -> Option<Variant> {
        match self {
            Self::Auto => None,
            Self::Named(variant) | Self::Kernel { entry: &Entry { variant, .. }, .. } => Some(variant),
        }
    }

    /// Whether a kernel, for the image or for its planes, is what was asked for.
    fn allows(self, entry: &Entry, in_planes: bool) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(wanted) => entry.variant == wanted && !in_planes,
            Self::Kernel { entry: wanted, in_planes: wants_planes } => entry == wanted && in_planes == wants_planes,
        }
    }

    /// Whether planes may be what was asked for.
    fn allows_planes(self) -> bool {
        match self {
            Self::Auto => true,
            Self::Named(_) => false,
            Self::Kernel { in_planes, .. } => in_planes,
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
    pub proven_sums: Option<ProvenSums>,
    /// The mask in fixed point, if there are entries that ask for it, and it has such a form.
    pub fixed_point: Option<FixedPoint>,
    /// How the channels are computed as planes of `f32`, if they are. Then `entry` computes a plane, and `params` are
    /// those of a plane.
    pub planes: Option<Planes>,
    /// How integers are made of the planes, if the entry is not bit-exact.
    pub proof: Option<Proof>,
    /// The device's.
    pub limits: Limits,
}

/// A problem, as the kernels for one pixel format are asked about it.
struct Inquiry {
    /// With images of that format.
    problem: Problem,
    /// If that is the format of the planes of a problem, its conversions.
    planes: Option<Planes>,
    /// If the results of a problem in planes are integers with the bits of ordered sums: what proves them, or why
    /// nothing does.
    integers: Option<Result<Integers, Ineligible>>,
    choice: VariantChoice,
    request: Request,
    factors: Option<Factors>,
    /// If there are entries that prove their own results, and the mask is separable: what proves them, or why nothing
    /// does.
    proven_sums: Option<Result<ProvenSums, Ineligible>>,
    fixed_point: Option<FixedPoint>,
    limits: Limits,
}

impl Inquiry {
    fn new(problem: Problem, planes: Option<Planes>, limits: Limits, choice: VariantChoice) -> Self {
        let format = problem.format();
        let asked = entries_for(format).filter(|entry| choice.allows(entry, planes.is_some()));
        // What nobody asks for takes longer to make than everything else.
        let has_form =
            |is_form: fn(MaskForm) -> bool| asked.clone().any(|entry| is_form(entry.variant.spec().mask_form));
        let factors = has_form(|form| matches!(form, MaskForm::Factors(_) | MaskForm::ProvenFactors(_)))
            .then(|| Factors::of(problem.window()))
            .flatten();
        let has_proven = format.input == format.output && has_form(|form| matches!(form, MaskForm::ProvenFactors(_)));
        let proven_sums = factors.as_ref().filter(|_| has_proven).map(|factors| ProvenSums::of(&problem, factors));
        let fixed_point =
            has_form(|form| matches!(form, MaskForm::FixedPoint)).then(|| FixedPoint::of(&problem)).flatten();
        let request = Request {
            mask: (problem.window().width() as u32, problem.window().height() as u32),
            origin_x: problem.params().origin_x,
            padded_side: padded_side(&problem),
            factor_exponents: factors.as_ref().map(Factors::exponents),
            uncertain: fixed_point.as_ref().map_or(1.0, FixedPoint::uncertain_part),
            pixel: format.input,
            result: format.output,
            shared_limit: limits.shared_bytes,
            border_value: (problem.border().mode() == BorderMode::Constant).then(|| problem.border().value()),
            compute_capability: limits.compute_capability,
        };
        Self { problem, planes, integers: None, proven_sums, choice, request, factors, fixed_point, limits }
    }

    /// The inquiry about the planes of a problem.
    fn in_planes(problem: &Problem, planes: Planes, limits: Limits, choice: VariantChoice) -> Self {
        let of_plane = Self::new(problem.one_plane(problem.required_class()), Some(planes), limits, choice);
        let needs_proof = problem.format().output != PixelType::F32 && problem.required_class() == Accuracy::Exact;
        Self { integers: needs_proof.then(|| Integers::of(problem)), ..of_plane }
    }

    /// The proof that an entry needs, if it needs one.
    fn proof(&self, entry: &Entry) -> Result<Option<Proof>, Ineligible> {
        match &self.integers {
            Some(integers) if !entry.variant.is_exact() => integers
                .as_ref()
                .map_err(|&why| why)?
                .proof(entry, self.factors.as_ref(), self.limits.shared_bytes)
                .map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the entry proves its results, if it is one of those that do.
    fn proves_sums(&self, entry: &Entry) -> Result<(), Ineligible> {
        match (entry.variant.spec().mask_form, &self.proven_sums) {
            (MaskForm::ProvenFactors(_), Some(proven)) => proven.as_ref().map(|_| ()).map_err(|&why| why),
            _ => Ok(()),
        }
    }

    /// Whether results of a transform are expected to hold. The image decides, and so does what is asked for by name.
    fn expects_proofs(&self, entry: &Entry) -> Result<(), Ineligible> {
        match transforms(entry) {
            Some(transforms)
                if self.choice.named().is_none() && self.problem.required_class() != Accuracy::Normwise =>
            {
                spectrum::expect_proofs(self.problem.window(), transforms)
            }
            _ => Ok(()),
        }
    }

    /// Asks all kernels that may be taken.
    fn considered(&self) -> impl Iterator<Item = Considered> {
        let asked = |entry: &&Entry| self.choice.allows(entry, self.planes.is_some());
        entries_for(self.problem.format()).filter(asked).map(|entry| {
            let eligibility = entry.eligibility(&self.request);
            let eligibility =
                eligibility.and_then(|()| self.proves_sums(entry)).and_then(|()| self.expects_proofs(entry));
            let proof = eligibility.and_then(|()| self.proof(entry));
            let predicted_us = match &proof {
                Err(Ineligible::MaskSize { .. } | Ineligible::NotSeparable) => f64::INFINITY,
                Err(_) => self.predict(entry, None),
                Ok(proof) => self.predict(entry, proof.as_ref()),
            };
            let uncertain = proof.as_ref().ok().and_then(|proof| proof.map(|proof| proof.uncertain));
            let answer = proof.map(|_| ());
            Considered { entry, in_planes: self.planes.is_some(), answer, uncertain, predicted_us }
        })
    }

    /// Whether the entry is for squares of the mask's size and no others.
    fn is_made_for_mask(&self, entry: &Entry) -> bool {
        matches!(entry.mask, MaskSize::Square(side) if self.request.mask == (side, side))
    }

    /// Whether the entry computes a square with zeros around the mask.
    fn is_padded(&self, entry: &Entry) -> bool {
        matches!(entry.mask, MaskSize::Square(side) if self.request.mask != (side, side))
    }

    fn params(&self, entry: &Entry) -> Params {
        let format = self.problem.format();
        let pitch = |bytes: usize| device_pitch(self.problem.row_values(), bytes) as i32;
        let params = Params {
            src_pitch: pitch(format.input.bytes()),
            dst_pitch: pitch(format.output.bytes()),
            ..self.problem.params()
        };
        if !self.is_padded(entry) {
            return params;
        }
        // The mask in the upper rows of a square, its columns where they stood.
        let side = entry.side() as i32;
        Params { mask_width: side, mask_height: side, origin_x: (side - 1) / 2, ..params }
    }

    /// What the time of one convolution by the kernel depends on.
    fn terms(&self, entry: &'static Entry) -> Terms {
        let is_centred = self.problem.origin().1 == (self.problem.window().width() - 1) / 2;
        let uncertain = self.uncertain_part(entry);
        let work = Work { format: self.problem.format(), uncertain, is_centred: is_centred || self.is_padded(entry) };
        let geometry = Geometry { entry, params: self.params(entry), limits: self.limits };
        cost::convolution(&geometry, self.problem.height(), work)
    }

    fn conversion_terms(&self, proof: Option<&Proof>) -> Option<Terms> {
        let planes = self.planes.as_ref()?;
        Some(planes.terms(self.problem.width() * self.problem.height(), proof.is_some(), &self.limits))
    }

    fn proof_terms(&self, proof: Option<&Proof>) -> Option<Terms> {
        let window = self.problem.window();
        let mask = (window.width() as u32, window.height() as u32);
        Some(cost::proof(proof?, (self.problem.width(), self.problem.height()), mask, &self.limits))
    }

    /// The part of the results that an entry is expected to compute again itself.
    fn uncertain_part(&self, entry: &Entry) -> f32 {
        match entry.variant.spec().mask_form {
            MaskForm::FixedPoint => self.request.uncertain,
            MaskForm::ProvenFactors(_) => {
                let proven = self.proven_sums.as_ref().and_then(|proven| proven.as_ref().ok());
                proven.map_or(1.0, |proven| proven.uncertain)
            }
            MaskForm::Rows(_) | MaskForm::Factors(_) | MaskForm::Spectrum | MaskForm::SpectrumOfPasses => 0.0,
        }
    }

    /// The time by the cost model, in microseconds.
    fn predict(&self, entry: &'static Entry, proof: Option<&Proof>) -> f64 {
        let costs = self.limits.costs();
        let predict = |name: &str, terms: &Terms| costs.predict(name, terms, &self.limits);
        let one = predict(entry.symbol, &self.terms(entry));
        let planes = self.planes.as_ref().map_or(1, Planes::channels) as f64 * one;
        let conversions = self.conversion_terms(proof).map_or(0.0, |terms| predict(cost::CONVERSION, &terms));
        planes + conversions + self.proof_terms(proof).map_or(0.0, |terms| predict(cost::PROOF, &terms))
    }

    /// Why `entry` was taken of `considered`: one line for people.
    fn reason(&self, entry: &Entry, proof: Option<&Proof>, considered: &[Considered], choice: VariantChoice) -> String {
        let made_for = match entry.mask {
            MaskSize::Square(side) if self.is_padded(entry) => {
                format!("made for masks of {side} x {side}, this one with zeros around it")
            }
            MaskSize::Square(_) => "made for masks of this size".to_owned(),
            MaskSize::Any => "for any mask".to_owned(),
            MaskSize::Class(_) => "for any mask of about this size".to_owned(),
        };
        if let Some(variant) = choice.named() {
            return format!("{} was asked for; {made_for}", variant.name());
        }
        let mut reason =
            if self.planes.is_some() { "each channel as a plane of f32; ".to_owned() } else { String::new() };
        let spec = entry.variant.spec();
        reason += spec.reason;
        let uncertain = self.uncertain_part(entry);
        if uncertain > 0.0 {
            let percent = 100.0 * uncertain;
            reason += &format!(", about {percent:.2} % of the pixels recomputed in order");
        }
        if let Some(Proof { uncertain, .. }) = proof {
            reason += &format!(", about {:.2} % of the values recomputed in order", 100.0 * uncertain);
        }
        reason += &format!("; {made_for}");
        // `considered` is sorted: what comes before would be faster.
        let mut faster =
            considered.iter().take_while(|one| one.entry != entry || one.in_planes != self.planes.is_some());
        if let Some((variant, refusal)) = faster.find_map(|one| one.answer.err().map(|why| (one.entry.variant, why))) {
            reason += &format!("; not {}: {refusal}", variant.name());
        }
        reason
    }
}

/// The entries for images of a format. Results of which types they make they are asked.
fn entries_for(format: PixelFormat) -> impl Iterator<Item = &'static Entry> + Clone {
    entries().filter(move |entry| (entry.pixel, entry.channels as usize) == (format.input, format.channels))
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
        MaskForm::Rows(_) | MaskForm::Factors(_) | MaskForm::ProvenFactors(_) | MaskForm::FixedPoint => None,
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
