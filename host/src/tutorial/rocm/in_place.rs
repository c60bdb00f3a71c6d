//! The tutorial's kernel in place, on one image: the race that the emulator finds.

use cuda_emulator::{Emulator, Error, Kind, Launch, Memory};
use kernels_gpu::tutorials::box_blur::{BLOCK, box_blur_in_place};

use crate::tutorial::judge::CheckResult;
use crate::tutorial::photograph;
use crate::tutorial::session::Session;
use faltung::Image;
use faltung::Result;

/// Columns and rows of the part of the photograph: six blocks.
const SIZE: (usize, usize) = (48, 32);
/// Columns and rows of the mask.
const MASK: usize = 9;

/// The outcome of the emulated run.
struct Outcome {
    report: String,
    races: usize,
    left: Vec<u8>,
}

/// Runs the kernel on the emulator, in two orders of the threads. No device should run it.
pub(super) fn run(session: &mut Session<'_>) -> Result<()> {
    let image = photograph::grey()?.crop(200, 150, SIZE.0, SIZE.1)?;
    let outcomes = [1, 2].map(|seed| outcome(&image, seed));
    let races = outcomes[0].races;
    let differ = outcomes[0].left.iter().zip(&outcomes[1].left).filter(|(a, b)| a != b).count();
    let verdict: CheckResult =
        if races > 0 { Ok(format!("caught ({races} kinds of access)")) } else { Err("not found".to_owned()) };
    let what =
        format!("the race of the tutorial's kernel in place, {} x {}, mask {MASK} x {MASK}, emulated", SIZE.0, SIZE.1);
    if session.check(what, verdict) {
        for line in outcomes[0].report.lines().take(2) {
            session.note(format!("  {}", line.trim()));
        }
        let all = SIZE.0 * SIZE.1;
        session.note(format!("  with the threads in another order {differ} of its {all} pixels come out otherwise"));
    }
    Ok(())
}

fn outcome(image: &Image<u8>, seed: u64) -> Outcome {
    let mut memory = Memory::new();
    let buffer = memory.upload("image", image.values());
    let mask = memory.upload("mask", &[1.0 / (MASK * MASK) as f32; MASK * MASK]);
    let (read, written, mask) = (buffer.global(), buffer.global_mut(), mask.global());
    let (width, height, side) = (SIZE.0 as u32, SIZE.1 as u32, MASK as u32);
    let grid = (width.div_ceil(BLOCK.0), height.div_ceil(BLOCK.1));
    let result =
        Emulator::new().seed(seed).launch("box_blur in place", &Launch::flat(grid, BLOCK, 0), &mut memory, || {
            // SAFETY: the emulator checks every access; the race is what is looked for.
            unsafe { box_blur_in_place(read, written, mask, width, height, side, side) }
        });
    let (report, races) = match &result {
        Err(error @ Error::Defects(found)) => {
            let race = |kind: &Kind| matches!(kind, Kind::Race { .. });
            (error.to_string(), found.defects.iter().filter(|defect| race(&defect.kind)).count())
        }
        Err(error) => (error.to_string(), 0),
        Ok(_) => (String::new(), 0),
    };
    Outcome { report, races, left: memory.download(&buffer) }
}
