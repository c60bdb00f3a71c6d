//! The comparisons of the other tests find a planted defect. Else those tests would prove nothing.

use super::*;

/// Whether a case has room for a defect, and values that all defects change (NaN stays NaN).
fn plain(case: &Case) -> bool {
    case.image.0 > 3 && case.image.1 > 3 && case.content == Content::Random && case.format == PixelFormat::PLANE
}

/// Checks that a right answer with this defect is judged wrong.
fn planted(defect: impl Fn(&mut Vec<f32>)) -> Result<(), Failed> {
    for case in cases(true, SEED).into_iter().filter(plain).take(40) {
        let checker = Checker::new(case)?;
        let mut result = checker.reference().to_vec();
        let bound = ErrorBound::direct(checker.problem());
        if !matches!(checker.judge("undamaged", &result, bound), Verdict::Right(_)) {
            return Err("the reference itself was refused".into());
        }
        defect(&mut result);
        if !matches!(checker.judge("damaged", &result, bound), Verdict::Wrong(_)) {
            return Err(format!("the defect was not seen: {:?}", checker.case()).into());
        }
    }
    Ok(())
}

pub(super) fn planted_wrong_pixel() -> Result<(), Failed> {
    planted(|result| {
        let middle = result.len() / 2;
        result[middle] = f32::from_bits(result[middle].to_bits() ^ 1);
    })
}

pub(super) fn planted_unwritten_output() -> Result<(), Failed> {
    planted(|result| {
        let last = result.len() - 1;
        result[last] = host::compare::POISON; // what `upload` leaves where a kernel writes nothing
    })
}

pub(super) fn planted_shift() -> Result<(), Failed> {
    planted(|result| result.rotate_right(1))
}

/// The answer of a separable variant is within its bound, but not bit-exact with the direct sum. It is judged wrong as
/// an exact answer. So is a single value beyond the bound.
pub(super) fn planted_order() -> Result<(), Failed> {
    let device = Device::emulator(1);
    for (variant, mask) in [
        (Variant::SeparableRing, (8, 9)),
        (Variant::SeparableBlockTile, (9, 8)),
        (Variant::SeparableTensorCore, (9, 8)),
    ] {
        let case = cases(true, SEED).into_iter().find(plain).ok_or("no plain case")?;
        let (image, scale, anchor) = ((70, 40), (1.0, 0.0), None);
        let checker = Checker::new(Case { image, mask, scale, anchor, separable: true, ..case })?;
        let convolution = device.prepare(checker.problem(), VariantChoice::Named(variant))?;
        let image = checker.case().make()?.1.to_f32();
        let mut result = convolution.apply::<f32, f32>(&image)?.values().to_vec();
        let (own, direct) = (convolution.bound(), ErrorBound::direct(checker.problem()));
        if own.class() == Accuracy::Exact || !matches!(checker.judge("separable", &result, own), Verdict::Right(_)) {
            return Err(format!("{}: not within its own bound", variant.name()).into());
        }
        if !matches!(checker.judge("separable as direct", &result, direct), Verdict::Wrong(_)) {
            return Err(format!("{}: other bits were not seen", variant.name()).into());
        }
        // The mask's coefficients and the pixels are at most 1: so is their number the most that the absolute products
        // sum to.
        let most = own.gamma() * (mask.0 * mask.1) as f64;
        result[1234] += 2.0 * most as f32;
        if !matches!(checker.judge("beyond the bound", &result, own), Verdict::Wrong(_)) {
            return Err(format!("{}: a value beyond the bound was not seen", variant.name()).into());
        }
    }
    Ok(())
}
