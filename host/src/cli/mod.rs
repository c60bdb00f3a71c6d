//! The command line. One file or folder a subcommand: its arguments, and `run`. To add one, add a file and a line in
//! [`Command`] and in [`main`].

mod accuracy;
mod bench;
mod calibrate;
mod check;
mod filter;
mod info;
mod interrupt;
mod output;
mod plan_scale;
mod remedy;
mod tutorial;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueRange};
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use faltung::PixelType;

/// Image convolution on NVIDIA GPUs, with every kernel written in Rust, and on any CPU.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<bench::Args>),
    Filter(Box<filter::Args>),
    Tutorial(tutorial::Args),
    Check(check::Args),
    Calibrate(calibrate::Args),
    PlanScale(plan_scale::Args),
    Info(info::Args),
}

const EXIT_STATUS: &str = "\
Exit status: 0 done, 1 some inputs failed or a check failed, 2 wrong usage: nothing was begun,
3 the requested device is not there, 130 interrupted by Ctrl-C, 143 by TERM, 129 by HUP.

host COMMAND --help says more, with examples.";

/// The outcome of a command that no error ended.
enum Outcome {
    /// All was done.
    Done,
    /// Some inputs failed, or a check did; each was reported.
    SomeFailed,
}

/// An error of the arguments, found before anything was done.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
struct Usage(anyhow::Error);

/// The requested device is not available.
#[derive(Debug, thiserror::Error)]
#[error("{choice}: {error}")]
struct NoDevice {
    choice: faltung::DeviceChoice,
    error: faltung::Error,
}

/// The device of a `--device` argument.
fn select(choice: faltung::DeviceChoice) -> anyhow::Result<faltung::Device> {
    faltung::Device::select(choice).map_err(|error| NoDevice { choice, error }.into())
}

/// The names of the types of values.
fn pixel_type() -> impl TypedValueParser<Value = PixelType> {
    const ALL: [PixelType; 3] = [PixelType::U8, PixelType::U16, PixelType::F32];
    PossibleValuesParser::new(ALL.map(PixelType::name))
        .map(|name| ALL.into_iter().find(|pixel| pixel.name() == name).expect("clap lets only these names through"))
}

/// Makes an error one of usage.
trait OrUsage<T> {
    fn or_usage(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> anyhow::Result<T> {
        self.map_err(|error| Usage(error.into()).into())
    }
}

/// The commands. A value may begin with a hyphen, as numbers below 0 do, but for paths: an error then names the option.
fn command() -> clap::Command {
    let hyphens = |arg: Arg| {
        let takes_value =
            arg.get_action().takes_values() && arg.get_num_args().is_none_or(|range| range != ValueRange::EMPTY);
        let is_path = arg.get_value_hint() != ValueHint::Unknown;
        let allow = takes_value && !arg.is_positional() && !is_path;
        arg.allow_hyphen_values(allow)
    };
    Cli::command().mut_subcommands(|command| command.mut_args(hyphens))
}

/// Prints what clap says instead of going on: help, the version, or an error.
fn print(said: &clap::Error) -> ExitCode {
    match said.print().and_then(|()| std::io::stdout().flush()) {
        Err(error) if !said.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            output::message(format_args!("error: standard output: {error}"));
            ExitCode::from(1)
        }
        _ => ExitCode::from(said.exit_code() as u8),
    }
}

/// The whole program.
pub(crate) fn main() -> ExitCode {
    host::fit_threads();
    interrupt::let_large_files_fail();
    let mut command = command();
    let cli = command.try_get_matches_from_mut(std::env::args_os());
    let cli = match cli.and_then(|found| Cli::from_arg_matches(&found)) {
        Ok(cli) => cli,
        Err(error) => return print(&error.format(&mut command)),
    };
    // The CPU is a part of nearly all work: it also computes what does not fit a GPU.
    let result = faltung::cpu_instruction_set().or_usage().and_then(|_| match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Filter(args) => filter::run(&args),
        Command::Tutorial(args) => tutorial::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::PlanScale(args) => plan_scale::run(&args),
        Command::Info(args) => info::run(&args),
    });
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::SomeFailed) => ExitCode::from(1),
        Err(error) => {
            output::message(format_args!("error: {error:#}"));
            ExitCode::from(status(&error))
        }
    }
}

/// The exit status of an error.
fn status(error: &anyhow::Error) -> u8 {
    if error.is::<Usage>() {
        2
    } else if error.is::<NoDevice>() {
        3
    } else {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        command().debug_assert();
    }
}
