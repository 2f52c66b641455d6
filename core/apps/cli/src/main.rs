//! The binary `menagerie`: [`menagerie_cli::main`] with nothing linked in beside it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    menagerie_cli::main()
}
