//! Starts programs, waits for their end or a limit, and returns their output.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A program that came to its end.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

/// Lets everybody run a file.
pub(crate) fn make_executable(_file: &Path) -> Result<()> {
    #[cfg(unix)]
    fs::set_permissions(_file, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(())
}

/// The program and its arguments, for messages.
#[must_use]
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program with an empty standard input. After `limit` it is stopped.
///
/// # Errors
/// It can't be started or takes longer. An exit status that is not 0 is no error here.
pub fn finish(command: &mut Command, limit: Duration) -> Result<Finished> {
    let name = command.get_program().to_string_lossy().into_owned();
    // The output goes to files, because a full pipe would stop the program.
    let (out, err) = (tempfile::NamedTempFile::new()?, tempfile::NamedTempFile::new()?);
    command.stdin(Stdio::null()).stdout(out.reopen()?).stderr(err.reopen()?);
    let mut child = command.spawn().with_context(|| format!("could not start {name}"))?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            bail!("{name} did not end within {} s and was stopped", limit.as_secs_f32());
        }
        thread::sleep(Duration::from_millis(20));
    };
    let read =
        |file: &tempfile::NamedTempFile| fs::read(file.path()).map(|bytes| String::from_utf8_lossy(&bytes).into());
    Ok(Finished { status, stdout: read(&out)?, stderr: read(&err)? })
}

/// Runs a program, and returns its standard output.
///
/// # Errors
/// As [`finish`], and where it fails, with the last lines of what it said.
pub fn capture(command: &mut Command, limit: Duration) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let finished = finish(command, limit)?;
    if !finished.status.success() {
        bail!("{name} failed ({}): {}", finished.status, reason(&finished.stderr));
    }
    Ok(finished.stdout)
}

/// Runs a program whose output goes to that of this process.
///
/// # Errors
/// It can't be started or fails.
pub fn show(command: &mut Command) -> Result<()> {
    let text = shown(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("could not start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status})");
    }
    Ok(())
}

/// The lines of a standard error that tell the cause: those that say `error` or `E:`, else the last three.
fn reason(stderr: &str) -> String {
    let is_error = |line: &&str| line.starts_with("error") || line.starts_with("E:") || line.starts_with("ERROR");
    let lines: Vec<_> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let errors: Vec<_> = lines.iter().copied().filter(is_error).collect();
    let chosen = if errors.is_empty() { lines[lines.len().saturating_sub(3)..].to_vec() } else { errors };
    if chosen.is_empty() { "it said nothing".to_owned() } else { chosen.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_stopped() {
        let start = Instant::now();
        let error = finish(Command::new("sleep").arg("30"), Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().starts_with("sleep did not end within"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn what_failed_and_why_is_said() {
        let error = capture(
            Command::new("sh").args(["-c", "echo noise >&2; echo 'E: no' >&2; exit 3"]),
            Duration::from_secs(9),
        );
        assert_eq!(error.unwrap_err().to_string(), "sh failed (exit status: 3): E: no");
        assert_eq!(capture(Command::new("sh").args(["-c", "echo a"]), Duration::from_secs(9)).unwrap(), "a\n");
        assert!(capture(&mut Command::new("no-such-program"), Duration::from_secs(9)).is_err());
        assert!(show(&mut Command::new("false")).unwrap_err().to_string().contains("`false` failed"));
        assert_eq!(reason(""), "it said nothing");
    }
}
