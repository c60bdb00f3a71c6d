//! Which files are read, and where each result goes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use host::files::Format;

/// A file to read and the one to write.
#[derive(Debug, PartialEq)]
pub(super) struct Job {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
}

/// The jobs of these arguments.
///
/// Fails before anything is written if two results would have one name, or one the name of another input.
pub(super) fn jobs(inputs: &[PathBuf], output: &Path) -> Result<Vec<Job>> {
    let inputs = expand(inputs)?;
    let target = Target::of(output)?;
    if matches!(target, Target::File) && inputs.len() > 1 {
        let (count, output) = (inputs.len(), output.display());
        bail!("{count} inputs need a folder (\"{output}/\", or one that exists) or a pattern with {{stem}} as output");
    }
    let jobs = inputs
        .into_iter()
        .map(|input| Ok(Job { output: target.for_input(output, &input)?, input }))
        .collect::<Result<Vec<_>>>()?;
    for job in &jobs {
        Format::of(&job.output).with_context(|| format!("the output for {}", job.input.display()))?;
    }
    check_names(&jobs)?;
    Ok(jobs)
}

/// Makes the folder if `output` names one by a slash at its end.
pub(super) fn make_folder(output: &Path) -> Result<()> {
    if matches!(Target::of(output)?, Target::Folder) {
        std::fs::create_dir_all(output).with_context(|| format!("{}: can't be made", output.display()))?;
    }
    Ok(())
}

/// What the output argument means.
#[derive(Clone, Copy, Debug)]
enum Target {
    File,
    Folder,
    Pattern,
}

impl Target {
    fn of(output: &Path) -> Result<Self> {
        let text = output.to_string_lossy();
        if text.contains('{') {
            Ok(Self::Pattern)
        } else if output.is_dir() || text.ends_with(std::path::is_separator) {
            Ok(Self::Folder)
        } else if output.as_os_str().is_empty() {
            bail!("the output has no name")
        } else {
            Ok(Self::File)
        }
    }

    fn for_input(self, output: &Path, input: &Path) -> Result<PathBuf> {
        let name = || input.file_name().ok_or_else(|| anyhow!("{}: is no file", input.display()));
        Ok(match self {
            Self::File => output.to_owned(),
            Self::Folder => output.join(name()?),
            Self::Pattern => {
                let text = output.to_str().context("a pattern must be Unicode")?;
                let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_str().map(str::to_owned);
                let unicode = || format!("{}: a name for a pattern must be Unicode", input.display());
                let stem = part(Some(Path::new(name()?).file_stem().unwrap_or_default())).with_context(unicode)?;
                let extension = part(input.extension()).with_context(unicode)?;
                PathBuf::from(fill(text, &stem, &extension)?)
            }
        })
    }
}

/// A pattern with its braces filled.
fn fill(pattern: &str, stem: &str, extension: &str) -> Result<String> {
    let mut filled = String::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| anyhow!("the output \"{pattern}\" has a {{ without }}"))?;
        filled += before;
        filled += match name {
            "stem" => stem,
            "ext" => extension,
            _ => bail!("the output \"{pattern}\" has {{{name}}}: {{stem}} and {{ext}} are what can stand there"),
        };
        rest = after;
    }
    Ok(filled + rest)
}

/// The inputs, with those replaced that are glob patterns and no files.
fn expand(inputs: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut expanded = Vec::new();
    for input in inputs {
        let pattern = input.to_str().filter(|text| text.contains(['*', '?', '[']) && !input.exists());
        let Some(pattern) = pattern else {
            expanded.push(input.clone());
            continue;
        };
        let before = expanded.len();
        for found in glob::glob(pattern).with_context(|| format!("the input \"{pattern}\""))? {
            let found = found?;
            if !found.is_dir() {
                expanded.push(found);
            }
        }
        if expanded.len() == before {
            bail!("no file matches the input \"{pattern}\"");
        }
    }
    Ok(expanded)
}

/// A name by which two paths to one file are found out, whether it exists or not.
fn identity(path: &Path) -> (PathBuf, OsString) {
    if let Ok(canonical) = path.canonicalize() {
        return (canonical, OsString::new());
    }
    let parent = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_owned();
    (parent.canonicalize().unwrap_or_else(|_| parent.to_owned()), name)
}

fn check_names(jobs: &[Job]) -> Result<()> {
    let inputs: HashMap<_, _> = jobs.iter().map(|job| (identity(&job.input), &job.input)).collect();
    let mut outputs = HashMap::new();
    for job in jobs {
        let output = identity(&job.output);
        if let Some(other) = inputs.get(&output).filter(|_| output != identity(&job.input)) {
            bail!("the output for {}, {}, is the input {}", job.input.display(), job.output.display(), other.display());
        }
        if let Some(other) = outputs.insert(output, &job.input) {
            let (first, second, output) = (other.display(), job.input.display(), job.output.display());
            bail!("{first} and {second} have one output, {output}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled() {
        assert_eq!(fill("out/{stem}-blur.{ext}", "a.b", "png").unwrap(), "out/a.b-blur.png");
        assert_eq!(fill("{stem}{stem}", "{ext}", "x").unwrap(), "{ext}{ext}");
        assert!(fill("{name}.png", "a", "b").unwrap_err().to_string().contains("{name}"));
        assert!(fill("{stem.png", "a", "b").is_err());
    }

    #[test]
    fn names_are_compared_as_files() {
        let jobs = |pairs: &[(&str, &str)]| {
            let job = |&(input, output): &(&str, &str)| Job { input: input.into(), output: output.into() };
            check_names(&pairs.iter().map(job).collect::<Vec<_>>())
        };
        assert!(jobs(&[("a.png", "b.png"), ("c.png", "d.png")]).is_ok());
        assert!(jobs(&[("a.png", "b.png"), ("c.png", "./b.png")]).unwrap_err().to_string().contains("one output"));
        assert!(jobs(&[("a.png", "c.png"), ("c.png", "d.png")]).unwrap_err().to_string().contains("is the input"));
        assert!(jobs(&[("a.png", "a.png")]).is_ok()); // which --overwrite allows
    }
}
