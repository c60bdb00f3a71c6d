//! `host calibrate`: measures a GPU for the cost model.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail};
use faltung::plan::Limits;
use faltung::plan::cost::Costs;
use faltung::{DeviceChoice, calibration};
use host::calibrate::{Matrix, Quality, calibrate};
use host::files::{self, OverwritePolicy, escaped};

use super::filter::identity;
use super::{OrUsage, Outcome, Usage, output};

/// Measure this GPU's kernels, so that `auto` takes the fastest one
///
/// Takes three to four minutes. The coefficients are kept in a file in your folder for caches, which later runs read.
/// Without that file `auto` uses coefficients that ship: those of an H200 for an H200, and for any other GPU those of
/// an H100, scaled.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The GPU
    #[arg(long, default_value = "cuda:0")]
    device: DeviceChoice,

    /// Write the coefficients to this file, in the place of the one in your folder for caches
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Also write the measured times to this file, as comma-separated values
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,

    /// Also time every kernel on images of 128 x 128 to 8192 x 8192, write the times to this file, and show how far the
    /// choices are from the fastest; takes some minutes
    #[arg(long, value_name = "FILE")]
    matrix: Option<PathBuf>,
}

/// Measures, writes and shows.
pub(super) fn run(args: &Args) -> Result<Outcome> {
    let device = super::select(args.device)?;
    let Some(gpu) = device.gpu() else {
        let reason = format!("--device {}: only a CUDA device can be measured", args.device);
        return Err(Usage(anyhow::anyhow!(reason)).into());
    };
    let path = match &args.output {
        Some(path) => path.clone(),
        None => calibration::file(&gpu.name).context("there is no folder for caches; --output FILE names a file")?,
    };
    let outputs = [("--output", Some(&path)), ("--times", args.times.as_ref()), ("--matrix", args.matrix.as_ref())];
    check_outputs(&outputs).or_usage()?;
    let show = &mut |step: &str| output::message(format_args!("measuring {step}"));
    let start = Instant::now();
    let found = calibrate(&device, &today(), show)?;
    write(&path, found.costs.to_string().as_bytes())?;
    output::result(format_args!(
        "{}: {} times of {} kernels in {:.0} s; half of them differ from the model by less than {:.1} %\nwritten to \
         {}\n",
        gpu.name,
        found.times(),
        found.costs.kernel.len(),
        start.elapsed().as_secs_f32(),
        100.0 * found.median_error,
        path.display(),
    ))?;
    if let Some(path) = &args.times {
        let mut text = Vec::new();
        found.write_times(&mut text)?;
        write(path, &text)?;
    }
    if let Some(path) = &args.matrix {
        let matrix = Matrix::measure(&device, show)?;
        let mut text = Vec::new();
        matrix.write(&mut text)?;
        write(path, &text)?;
        // For the rest of the program's life.
        let own: &'static _ = Box::leak(Box::new(found.costs));
        let shipped = Costs::shipped_for(&gpu.name);
        for (name, costs) in [("coefficients that ship", shipped), ("measured coefficients", own)] {
            let quality = matrix.quality(Limits { costs: Some(costs), ..gpu.limits() })?;
            output::result(format_args!("\n{}", report(name, &quality)))?;
        }
        output::result(format_args!("written to {}\n", path.display()))?;
    }
    Ok(Outcome::Done)
}

/// Checks, before minutes of measuring, that the files can be written and are not one. Makes their folders.
fn check_outputs(outputs: &[(&str, Option<&PathBuf>)]) -> Result<()> {
    let outputs: Vec<_> = outputs.iter().filter_map(|&(option, path)| Some((option, path?))).collect();
    for (place, &(option, path)) in outputs.iter().enumerate() {
        if let Some((other, _)) = outputs[..place].iter().find(|(_, other)| identity(other) == identity(path)) {
            bail!("{other} and {option} can't both go to {}", escaped(path));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).with_context(|| format!("{option}: {}: can't be made", escaped(folder)))?;
        }
        files::check_writable(path, OverwritePolicy::Replace).context(option.to_owned())?;
    }
    Ok(())
}

/// The quality of choices, for people.
fn report(name: &str, quality: &Quality) -> String {
    let Quality { cells, above_1_25, without_time, worst, .. } = quality;
    let share = 100.0 * quality.share();
    let mut text = format!(
        "{name}: the choice is within 5 % of the fastest in {share:.1} % of {cells} cases, \
         {above_1_25} take more than 1.25 times as long; in {without_time} others the choice was not measured\n"
    );
    for (ratio, case) in worst.iter().take_while(|(ratio, _)| *ratio > 1.05) {
        text += &format!("  {ratio:.2}  {case}\n");
    }
    text
}

/// Writes a file to a folder, which [`check_outputs`] has made.
fn write(path: &Path, text: &[u8]) -> Result<()> {
    let contents = |file: &mut BufWriter<File>| file.write_all(text).map_err(|error| error.to_string());
    Ok(files::write_through(path, OverwritePolicy::Replace, contents)?)
}

/// Today's date, as year, month and day.
fn today() -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    now.chars().take_while(|&c| c != 'T').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_checked_before_the_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let check = |output: &str, times: &str| {
            let result = check_outputs(&[("--output", Some(&path(output))), ("--times", Some(&path(times)))]);
            result.map_err(|error| format!("{error:#}"))
        };
        check("new/a.json", "b.csv").unwrap();
        // Nothing but the folder is made.
        assert!(path("new").is_dir() && !path("new/a.json").exists() && !path("b.csv").exists());
        fs::write(path("file"), "").unwrap();
        for (output, times, words) in [
            ("a", "new/../a", "--output and --times can't both go to "),
            ("a", "new", "--times: "),
            ("a", "file/b", "--times: "),
            ("new", "b", "is not an ordinary file"),
        ] {
            let error = check(output, times).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csv");
        write(&path, b"text").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"text");
        assert!(write(folder.path(), b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// A file that is replaced stays as open to others as it was.
    #[cfg(unix)]
    #[test]
    fn permissions_stay() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.csv");
        write(&path, b"before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"text").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
