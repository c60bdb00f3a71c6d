//! The four borders, side by side.

use super::{Arrays, Direct, Work, cpu};
use crate::tutorial::judge;
use crate::tutorial::launch::Launcher;
use crate::tutorial::session::Session;
use faltung::{Border, Device, Image, Result};
use kernels_gpu::tutorials::box_separable::{BoxSumColumns, BoxSumRows};

/// The tutorial's name of each border, and ours.
const BORDERS: [(&str, Border); 4] =
    [("skip", Border::ZERO), ("clamp", Border::Clamp), ("wrap", Border::Wrap), ("mirror", Border::Mirror)];

/// Columns of white between two pictures.
const GAP: usize = 8;

/// Blurs with each border, checks the results, and puts them side by side into the picture `name`.
pub(super) fn run(session: &mut Session<'_>, work: &Work, name: &'static str) -> Result<()> {
    let mut pictures = Vec::new();
    for (edge, border) in BORDERS {
        let area = work.mask.area() as u64;
        let sums = cpu::sums(&work.image, work.mask, border);
        let expected: Vec<u8> = sums.iter().map(|&sum| cpu::rounded(sum, area)).collect();
        let (found, verdict) = match session.launcher()? {
            Some(launcher) => {
                let found = on_device(&launcher, work, border)?;
                let verdict = judge::exact(&found, &expected);
                (found, verdict)
            }
            None => {
                // This project's convolution in f32, with its own border.
                let found = Direct::new(&Device::cpu(), work, border)?.blur()?;
                let exact: Vec<f64> = sums.iter().map(|&sum| sum as f64 / area as f64).collect();
                let verdict = judge::pixels(&found, &exact, 1.0);
                (found, verdict)
            }
        };
        let (width, height) = (work.image.width(), work.image.height());
        if session.check(format!("edges: {edge}"), verdict) {
            let middle = width / 2;
            let at = |x: usize, y: usize| found[y * width + x];
            session.note(format!(
                "  corner {}, middle of the upper edge {}, middle {}",
                at(0, 0),
                at(middle, 0),
                at(middle, height / 2)
            ));
            // Sums in f32 may be a unit off; the picture is the same on every device.
            pictures.push(Image::new(width, height, 1, expected)?);
        }
    }
    if !pictures.is_empty() {
        session.note(format!("{name} shows, from left to right: skip, clamp, wrap, mirror"));
        session.picture(name, side_by_side(&pictures)?);
    }
    Ok(())
}

/// The separable kernels with another border.
fn on_device(launcher: &Launcher, work: &Work, border: Border) -> Result<Vec<u8>> {
    let (width, height) = (work.image.width() as u32, work.image.height() as u32);
    let (mask_width, mask_height) = (work.mask.width as u32, work.mask.height as u32);
    let border = border.mode().code();
    let Arrays { image, mut between, mut result, .. } = Arrays::new(launcher, work)?;
    launcher.launch(&BoxSumRows { image: &image, sums: &mut between, width, height, mask_width, border })?;
    let area = mask_width * mask_height;
    launcher.launch(&BoxSumColumns {
        sums: &between,
        result: &mut result,
        width,
        height,
        mask_height,
        area,
        border,
    })?;
    launcher.download(&result)
}

/// Pictures of one size in a row.
fn side_by_side(pictures: &[Image<u8>]) -> Result<Image<u8>> {
    let (width, height) = (pictures[0].width(), pictures[0].height());
    let all = pictures.len() * (width + GAP) - GAP;
    Image::from_fn(all, height, |x, y| {
        let (which, x) = (x / (width + GAP), x % (width + GAP));
        if x < width { pictures[which].row(y)[x] } else { u8::MAX }
    })
}
