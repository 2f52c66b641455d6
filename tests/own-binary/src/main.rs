//! The command line of Menagerie with a plugin linked in.
#![forbid(unsafe_code)]

use menagerie_top_n_sigma as _;

fn main() -> std::process::ExitCode {
    menagerie_cli::main()
}
