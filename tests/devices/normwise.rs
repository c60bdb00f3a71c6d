//! Integers in the class Normwise, which are converted from planes without a proof.

use super::*;

/// Integers from kernels that are not bit-exact keep the bound of the class. Each such variant makes some.
pub(super) fn normwise_integers(device: DeviceChoice) -> Result<(), Failed> {
    use PixelType::{F32, U8, U16};
    let device = Device::select(device)?;
    let mut random = fastrand::Rng::with_seed(SEED);
    for variant in Variant::ALL.into_iter().filter(|variant| !variant.is_exact()) {
        let mut right = 0;
        for (input, output) in [(U16, U16), (F32, U8), (U8, U16)] {
            for (mask, separable) in [((33, 31), true), ((34, 33), false)] {
                let case = Case {
                    image: (random.usize(60..150), random.usize(60..150)),
                    mask,
                    border: [Border::Mirror, Border::Wrap, Border::Constant(0.5)][random.usize(..3)],
                    operation: Operation::Convolve,
                    anchor: (random.bool()).then(|| (random.usize(..mask.1), random.usize(..mask.0))),
                    // Half of the results of random masks would be negative otherwise.
                    scale: (0.25, if output == U8 { 128.0 } else { 9000.0 }),
                    format: PixelFormat { channels: random.usize(1..=4), input, output },
                    separable,
                    content: Content::Special,
                    seed: random.u64(..),
                };
                let checker = Checker::new(case)?;
                match checker.check(&device, VariantChoice::Named(variant), Accuracy::Normwise)? {
                    Verdict::Right(_) => right += 1,
                    Verdict::NotEligible(_) => {}
                    Verdict::Wrong(report) => return Err(report.into()),
                }
            }
        }
        if right < 3 {
            return Err(format!("{}: {right} results, at least 3 were expected", variant.name()).into());
        }
    }
    Ok(())
}
