//! The CuPy notebook: pointwise kernels, a moving mean, a sum.

mod mean;
mod pointwise;
mod sum;

use super::session::Session;
use faltung::Result;

/// Threads of a block, as in the notebook.
const BLOCK: u32 = 256;

pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    pointwise::run(session)?;
    mean::run(session)?;
    sum::run(session)
}

/// Normally distributed values (Box and Muller's way).
fn normal(random: &mut fastrand::Rng, mean: f64, deviation: f64, count: usize) -> Vec<f32> {
    let mut value = || {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        (mean + deviation * radius * (std::f64::consts::TAU * random.f64()).cos()) as f32
    };
    (0..count).map(|_| value()).collect()
}

/// The lengths of the notebook's table, or those that the device and the user have time for.
fn lengths(session: &mut Session<'_>) -> Vec<usize> {
    const ALL: [usize; 4] = [10_000, 100_000, 1_000_000, 10_000_000];
    if session.is_emulator() {
        let count = if session.options.quick { 2 } else { 3 };
        let why = if session.options.quick { "because of --quick" } else { "because every access is checked" };
        session.note(format!("On the emulator: 10^4 to 10^{} elements of 10^4 to 10^7, {why}.", count + 3));
        return ALL[..count].to_vec();
    }
    if session.options.quick {
        session.note("10^4 to 10^6 elements of 10^4 to 10^7, because of --quick.");
        return ALL[..3].to_vec();
    }
    ALL.to_vec()
}
