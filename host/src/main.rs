//! The program `host`: image convolution on the command line. `host --help` says what it does.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
