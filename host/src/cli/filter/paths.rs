//! The input files, and the path of each result.
//!
//! An error of the arguments is an error of usage. An error of one input fails that input, and the others go on.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use faltung::PixelType;
use host::files::{Format, OverwritePolicy, STANDARD_INPUT, escaped};

use super::pattern;

/// A file to read and the one to write.
#[derive(Debug, PartialEq)]
pub(super) struct Job {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
}

impl Job {
    /// Whether the result exists as a file, also through a link.
    pub(super) fn has_result(&self) -> bool {
        self.output.metadata().is_ok_and(|found| found.is_file())
    }

    /// The input's name in messages.
    pub(super) fn name(&self) -> impl Display {
        escaped(if self.input == Path::new(STANDARD_INPUT) { Path::new("standard input") } else { &self.input })
    }

    /// An error of reading, with the input's name.
    pub(super) fn blame(&self, error: host::Error) -> host::Error {
        match error {
            host::Error::File { path, reason } if path == Path::new(STANDARD_INPUT) => {
                host::Error::File { path: "standard input".into(), reason }
            }
            other => other,
        }
    }
}

/// The inputs of the command line, resolved.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) jobs: Vec<Job>,
    /// Pictures that can't be filtered, with the reasons.
    pub(super) failed: Vec<Error>,
    /// Inputs without any picture: a pattern without a match, a folder without pictures.
    pub(super) empty: Vec<Error>,
    /// A line for each file of a folder that was skipped.
    pub(super) passed_over: Vec<String>,
}

/// The jobs of these arguments; `pixel` is the type of the results if it was given.
///
/// Fails, before anything is written, if no result can have the name or the type that is asked for, if two results
/// would have one name, or one the name of another input.
pub(super) fn inputs(inputs: &[PathBuf], output: &Path, pixel: Option<PixelType>) -> Result<Inputs> {
    let target = Target::of(output)?;
    let standard = inputs.iter().filter(|input| is_standard(input)).count();
    if standard > 1 {
        bail!("- was given {standard} times: there is one standard input");
    }
    if standard > 0 && target != Target::File {
        bail!(
            "-, the standard input, has no name for a result in \"{}\": name the file, such as -o out.png",
            escaped(output)
        );
    }
    let several = inputs.len() > 1 || inputs.iter().any(|input| input.is_dir() || as_pattern(input).is_some());
    if target == Target::File && several {
        let output = escaped(output);
        bail!(
            "{output} is one file, for one input: several inputs, a folder and a quoted pattern need a folder \
             (\"{output}/\", or one that exists) or a pattern with {{stem}}"
        );
    }
    if let Some(format) = target.format(output)?
        && let Some(pixel) = pixel
    {
        format.check_type(output, pixel)?;
    }
    let mut found = Inputs { jobs: Vec::new(), failed: Vec::new(), empty: Vec::new(), passed_over: Vec::new() };
    for input in inputs {
        let files = match expand(input, &mut found.passed_over)? {
            Ok(files) => files,
            Err(error) => {
                found.empty.push(error);
                continue;
            }
        };
        for file in files {
            let job = file.and_then(|input| Ok(Job { output: target.for_input(output, &input)?, input }));
            match job {
                Ok(job) => found.jobs.push(job),
                Err(error) => found.failed.push(error),
            }
        }
    }
    check_names(&found.jobs)?;
    Ok(found)
}

/// Checks that results can be written in the folder that `output` names. If it is missing, the folder in which it will
/// be made is checked: the folder is made only with the first result.
pub(super) fn prepare(output: &Path) -> Result<()> {
    let folder = match Target::of(output)? {
        Target::File => return Ok(host::files::check_writable(output, OverwritePolicy::Replace)?),
        Target::Folder => output,
        Target::Pattern => fixed_part(output),
    };
    if folder.is_dir() {
        return Ok(host::files::check_folder(folder)?);
    }
    // Without the separator at its end, a file is found by the name of the folder.
    let mut there = folder.components().as_path().ancestors().filter(|path| path.symlink_metadata().is_ok());
    let there = there.next().unwrap_or(Path::new("."));
    ensure!(there.is_dir(), "{}: can't be made: {} is not a folder", escaped(folder), escaped(there));
    Ok(host::files::check_folder(there)?)
}

/// Creates the folder of a result, unless `output` names one file.
pub(super) fn make_folder(output: &Path, result: &Path) -> Result<()> {
    match result.parent() {
        Some(folder) if Target::of(output)? != Target::File => {
            std::fs::create_dir_all(folder).with_context(|| format!("{}: can't be made", escaped(folder)))
        }
        _ => Ok(()),
    }
}

/// The folders of a pattern before the first that depends on the input.
fn fixed_part(pattern: &Path) -> &Path {
    let fixed = |path: &&Path| !path.to_string_lossy().contains('{');
    let folder = pattern.ancestors().find(fixed).unwrap_or(Path::new(""));
    if folder == Path::new("") { Path::new(".") } else { folder }
}

/// What the output argument means.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    File,
    Folder,
    Pattern,
}

impl Target {
    fn of(output: &Path) -> Result<Self> {
        let text = output.to_string_lossy();
        if text.contains('{') {
            // A pattern with wrong braces fails here, because it fails for every input.
            let pattern = output.to_str().context("a pattern must be Unicode")?;
            fill(pattern, "stem".as_ref(), "ext".as_ref())?;
            Ok(Self::Pattern)
        } else if output.is_dir() || text.ends_with(std::path::is_separator) {
            Ok(Self::Folder)
        } else if output == Path::new("-") {
            bail!("-: results go to files, not to the standard output")
        } else if output.as_os_str().is_empty() {
            bail!("the output has no name")
        } else {
            Ok(Self::File)
        }
    }

    /// The format of all results; None if it depends on the input.
    fn format(self, output: &Path) -> Result<Option<Format>> {
        let depends = output.extension().is_some_and(|extension| extension.to_string_lossy().contains('{'));
        match self {
            Self::Folder => Ok(None),
            Self::Pattern if depends => Ok(None),
            Self::File if output.extension().is_none() && output.symlink_metadata().is_err() => {
                let folder = format!("\"{}/\" would be a folder", escaped(output));
                Ok(Some(Format::of(output).map_err(|error| anyhow!("{error}; {folder}"))?))
            }
            Self::File | Self::Pattern => Ok(Some(Format::of(output)?)),
        }
    }

    fn for_input(self, output: &Path, input: &Path) -> Result<PathBuf> {
        let name = || input.file_name().ok_or_else(|| anyhow!("{}: is no file", escaped(input)));
        let result = match self {
            Self::File => return Ok(output.to_owned()),
            Self::Folder => output.join(name()?),
            Self::Pattern => {
                let text = output.to_str().context("a pattern must be Unicode")?;
                let stem = Path::new(name()?).file_stem().unwrap_or_default();
                PathBuf::from(fill(text, stem, input.extension().unwrap_or_default())?)
            }
        };
        if self.format(output)?.is_none() {
            // The input's extension is the output's.
            Format::of(&result).map_err(|_| no_picture(input))?;
        }
        Ok(result)
    }
}

/// An input whose result, in a folder or by a pattern, would have no format.
fn no_picture(input: &Path) -> Error {
    if let Err(error) = input.metadata() {
        return anyhow!("{}: {error}", escaped(input));
    }
    let (input, extensions) = (escaped(input), Format::extensions());
    anyhow!(
        "{input}: its extension names no format for the result ({extensions}): a pattern with one helps, \
         such as -o \"out/{{stem}}.png\""
    )
}

/// The pattern with its placeholders replaced.
fn fill(pattern: &str, stem: &OsStr, extension: &OsStr) -> Result<OsString> {
    let mut filled = OsString::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| anyhow!("the output \"{pattern}\" has a {{ without }}"))?;
        filled.push(before);
        filled.push(match name {
            "stem" => stem,
            "ext" => extension,
            _ if name.contains('{') => bail!("the output \"{pattern}\" has a {{ within braces: {{stem}} has one pair"),
            _ => bail!("the output \"{pattern}\" has {{{name}}}: {{stem}} and {{ext}} are what can stand there"),
        });
        rest = after;
    }
    filled.push(rest);
    Ok(filled)
}

/// The input as a pattern, if it is no file.
fn as_pattern(input: &Path) -> Option<&str> {
    input.to_str().filter(|text| text.contains(['*', '?', '[']) && !input.exists())
}

/// Whether an input is the standard input.
fn is_standard(input: &Path) -> bool {
    cfg!(unix) && input == Path::new("-")
}

/// The files of an input, each with the reason if it can't be read, or the reason why there are none. Patterns and
/// folders skip hidden files, as a shell does.
fn expand(input: &Path, passed_over: &mut Vec<String>) -> Result<Result<Vec<Result<PathBuf>>>> {
    if is_standard(input) {
        return Ok(Ok(vec![Ok(STANDARD_INPUT.into())]));
    }
    if input.is_dir() {
        return Ok(pictures_in(input, passed_over).map(|pictures| pictures.into_iter().map(Ok).collect()));
    }
    let Some(text) = as_pattern(input) else { return Ok(Ok(vec![Ok(input.to_owned())])) };
    let files = pattern::files(text).with_context(|| format!("the input \"{}\"", escaped(text)))?;
    if files.is_empty() {
        return Ok(Err(anyhow!("no file matches the input \"{}\"", escaped(text))));
    }
    Ok(Ok(files))
}

/// The pictures directly in a folder, by their extensions, in the order of their names.
fn pictures_in(folder: &Path, passed_over: &mut Vec<String>) -> Result<Vec<PathBuf>> {
    let blame = || escaped(folder).to_string();
    let (mut pictures, mut broken, mut others) = (Vec::new(), Vec::new(), 0_usize);
    for entry in folder.read_dir().with_context(blame)? {
        let path = entry.with_context(blame)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        if host::files::is_picture(&path) && path.is_file() {
            pictures.push(path);
        } else if host::files::is_picture(&path) && path.is_symlink() && !path.exists() {
            broken.push(path);
        } else {
            others += 1;
        }
    }
    if !broken.is_empty() {
        broken.sort();
        passed_over.push(format!("{}: {}", escaped(folder), describe_broken(&broken)));
    }
    if pictures.is_empty() {
        bail!("{}: no picture is directly in this folder ({})", escaped(folder), Format::readable());
    }
    if others > 0 {
        let (folder, entries) = (escaped(folder), if others == 1 { "entry" } else { "entries" });
        passed_over.push(format!("{folder}: {others} {entries} passed over: no picture by its extension, or no file"));
    }
    pictures.sort();
    Ok(pictures)
}

/// How many links lead to no file, and the first of them.
fn describe_broken(links: &[PathBuf]) -> String {
    const NAMED: usize = 3;
    let count = links.len();
    let names: Vec<_> = links.iter().take(NAMED).map(|link| escaped(link).to_string()).collect();
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let (links, lead) = if count == 1 { ("link", "leads") } else { ("links", "lead") };
    format!("{count} {links} passed over, which {lead} to no file: {}{more}", names.join(", "))
}

/// Checks that `--quality` has an effect: an output is a JPEG.
pub(super) fn check_quality(jobs: &[Job]) -> Result<()> {
    let is = |format| move |job: &&Job| Format::of(&job.output).is_ok_and(|found| found == format);
    if let Some(job) = jobs.iter().find(is(Format::WebP)) {
        let output = job.output.display();
        bail!("--quality: {output}: WebP is written without loss, and has no quality; only JPEG has (.jpg)");
    }
    if !jobs.is_empty() && !jobs.iter().any(|job| is(Format::Jpeg)(&job)) {
        bail!("--quality is for JPEG (.jpg), and no output is one");
    }
    Ok(())
}

/// A key that is equal for two paths to one file, whether it exists or not.
pub(in crate::cli) fn identity(path: &Path) -> (PathBuf, OsString) {
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
            bail!("the output for {}, {}, is the input {}", escaped(&job.input), escaped(&job.output), escaped(other));
        }
        if let Some(other) = outputs.insert(output, &job.input) {
            let (first, second, output) = (escaped(other), escaped(&job.input), escaped(&job.output));
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
        let fill = |pattern, stem: &str, extension: &str| fill(pattern, stem.as_ref(), extension.as_ref());
        assert_eq!(fill("out/{stem}-blur.{ext}", "a.b", "png").unwrap(), "out/a.b-blur.png");
        assert_eq!(fill("{stem}{stem}", "{ext}", "x").unwrap(), "{ext}{ext}");
        assert!(fill("{name}.png", "a", "b").unwrap_err().to_string().contains("{name}"));
        assert!(fill("{stem.png", "a", "b").is_err());
    }

    #[test]
    fn the_fixed_part_of_a_pattern_is_its_folder() {
        for (pattern, folder) in
            [("{stem}.png", "."), ("out/{stem}.png", "out"), ("a/b/{ext}/{stem}.png", "a/b"), ("/{stem}.png", "/")]
        {
            assert_eq!(fixed_part(Path::new(pattern)), Path::new(folder), "{pattern}");
        }
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
