//! What the kernels for one pixel format answer to a problem: whether they can compute it, and how long it takes.

use kernels_gpu::abi::border::BorderMode;
use kernels_gpu::abi::params::Params;
use kernels_gpu::registry::{Entry, Ineligible, MaskForm, MaskSize, Request, entries};

use super::cost::{self, Terms, Work};
use super::geometry::Geometry;
use super::proof::Integers;
use super::{
    Considered, Factors, FixedPoint, Limits, Planes, Proof, ProvenSums, SeparableFixedPoint, VariantChoice,
    device_pitch, spectrum, transforms,
};
use crate::{Accuracy, PixelFormat, PixelType, Problem};

/// A problem, as the kernels for one pixel format are asked about it.
pub(super) struct Inquiry {
    /// With images of that format.
    problem: Problem,
    /// Whether the pixels and the value of the border are whole numbers, also in planes of `f32`.
    is_whole: bool,
    /// If that is the format of the planes of a problem, its conversions.
    pub(super) planes: Option<Planes>,
    /// If the results of a problem in planes are integers with the bits of ordered sums: what proves them, or why
    /// nothing does.
    integers: Option<Result<Integers, Ineligible>>,
    choice: VariantChoice,
    request: Request,
    pub(super) factors: Option<Factors>,
    /// If there are entries that prove their own results, and the mask is separable: what proves them, or why nothing
    /// does.
    pub(super) proven_sums: Option<Result<ProvenSums, Ineligible>>,
    pub(super) fixed_point: Option<FixedPoint>,
    pub(super) separable_fixed_point: Option<SeparableFixedPoint>,
    limits: Limits,
}

impl Inquiry {
    pub(super) fn new(problem: Problem, planes: Option<Planes>, limits: Limits, choice: VariantChoice) -> Self {
        let format = problem.format();
        let asked = entries_for(format).filter(|entry| choice.allows(entry, planes.is_some()));
        // What nobody asks for takes longer to make than everything else.
        let has_form =
            |is_form: fn(MaskForm) -> bool| asked.clone().any(|entry| is_form(entry.variant.spec().mask_form));
        let has_separable_fixed_point = has_form(|form| matches!(form, MaskForm::SeparableFixedPoint));
        let has_factors = has_form(|form| matches!(form, MaskForm::Factors(_) | MaskForm::ProvenFactors(_)));
        let factors = (has_factors || has_separable_fixed_point).then(|| Factors::of(problem.window())).flatten();
        let has_proven = format.input == format.output && has_form(|form| matches!(form, MaskForm::ProvenFactors(_)));
        let proven_sums = factors.as_ref().filter(|_| has_proven).map(|factors| ProvenSums::of(&problem, factors));
        let fixed_point =
            has_form(|form| matches!(form, MaskForm::FixedPoint)).then(|| FixedPoint::of(&problem)).flatten();
        let separable_fixed_point = factors
            .as_ref()
            .filter(|_| has_separable_fixed_point)
            .and_then(|factors| SeparableFixedPoint::of(&problem, factors));
        let request = Request {
            mask: (problem.window().width() as u32, problem.window().height() as u32),
            origin_x: problem.params().origin_x,
            padded_side: padded_side(&problem),
            factor_exponents: factors.as_ref().map(Factors::exponents),
            uncertain: fixed_point.as_ref().map_or(1.0, FixedPoint::uncertain_part),
            separable_uncertain: separable_fixed_point.as_ref().map_or(1.0, SeparableFixedPoint::uncertain_part),
            pixel: format.input,
            result: format.output,
            shared_limit: limits.shared_bytes,
            border_value: (problem.border().mode() == BorderMode::Constant).then(|| problem.border().value()),
            compute_capability: limits.compute_capability,
        };
        let of_image = planes.as_ref().map_or(format, Planes::format);
        let is_whole = of_image.integer_pixels(problem.border()).is_some();
        Self {
            problem,
            is_whole,
            planes,
            integers: None,
            proven_sums,
            choice,
            request,
            factors,
            fixed_point,
            separable_fixed_point,
            limits,
        }
    }

    /// The inquiry about the planes of a problem.
    pub(super) fn in_planes(problem: &Problem, planes: Planes, limits: Limits, choice: VariantChoice) -> Self {
        let of_plane = Self::new(problem.one_plane(problem.required_class()), Some(planes), limits, choice);
        let needs_proof = problem.format().output != PixelType::F32 && problem.required_class() == Accuracy::Exact;
        Self { integers: needs_proof.then(|| Integers::of(problem)), ..of_plane }
    }

    /// The proof that an entry needs, if it needs one.
    pub(super) fn proof(&self, entry: &Entry) -> Result<Option<Proof>, Ineligible> {
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

    /// Whether the coefficients are in the range of a kernel that transforms, or that filters rows and then columns.
    fn holds_coefficients(&self, entry: &Entry) -> Result<(), Ineligible> {
        match (entry.variant.spec().mask_form, &self.factors) {
            (MaskForm::Spectrum | MaskForm::SpectrumOfPasses, _) => spectrum::expect_finite_sums(self.problem.window()),
            (MaskForm::Factors(_), Some(factors)) if !self.is_whole => factors.keep_small_pixels(),
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
    pub(super) fn considered(&self) -> impl Iterator<Item = Considered> {
        let asked = |entry: &&Entry| self.choice.allows(entry, self.planes.is_some());
        entries_for(self.problem.format()).filter(asked).map(|entry| {
            let eligibility = entry.eligibility(&self.request).and_then(|()| self.holds_coefficients(entry));
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
    pub(super) fn is_made_for_mask(&self, entry: &Entry) -> bool {
        matches!(entry.mask, MaskSize::Square(side) if self.request.mask == (side, side))
    }

    /// Whether the entry computes a square with zeros around the mask.
    fn is_padded(&self, entry: &Entry) -> bool {
        matches!(entry.mask, MaskSize::Square(side) if self.request.mask != (side, side))
    }

    pub(super) fn params(&self, entry: &Entry) -> Params {
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
    pub(super) fn terms(&self, entry: &'static Entry) -> Terms {
        let is_centred = self.problem.origin().1 == (self.problem.window().width() - 1) / 2;
        let uncertain = self.uncertain_part(entry);
        let work = Work { format: self.problem.format(), uncertain, is_centred: is_centred || self.is_padded(entry) };
        let geometry = Geometry { entry, params: self.params(entry), limits: self.limits };
        cost::convolution(&geometry, self.problem.height(), work)
    }

    pub(super) fn conversion_terms(&self, proof: Option<&Proof>) -> Option<Terms> {
        let planes = self.planes.as_ref()?;
        Some(planes.terms(self.problem.width() * self.problem.height(), proof.is_some(), &self.limits))
    }

    pub(super) fn proof_terms(&self, proof: Option<&Proof>) -> Option<Terms> {
        let window = self.problem.window();
        let mask = (window.width() as u32, window.height() as u32);
        Some(cost::proof(proof?, (self.problem.width(), self.problem.height()), mask, &self.limits))
    }

    /// The part of the results that an entry is expected to compute again itself.
    fn uncertain_part(&self, entry: &Entry) -> f32 {
        match entry.variant.spec().mask_form {
            MaskForm::FixedPoint => self.request.uncertain,
            MaskForm::SeparableFixedPoint => self.request.separable_uncertain,
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
    pub(super) fn reason(
        &self,
        entry: &Entry,
        proof: Option<&Proof>,
        considered: &[Considered],
        choice: VariantChoice,
    ) -> String {
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
