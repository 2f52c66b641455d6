//! The command line of Menagerie with a plugin and with a crate of kinds, a device, a file format and a sampler linked in.
#![forbid(unsafe_code)]

use menagerie_outside as _;
use menagerie_top_n_sigma as _;

fn main() -> std::process::ExitCode {
    menagerie_cli::main()
}
