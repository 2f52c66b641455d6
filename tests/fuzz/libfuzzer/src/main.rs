//! One program for all targets: the variable `FUZZ_TARGET` names the one to run.
#![no_main]

use menagerie_fuzz::Target;
use std::sync::OnceLock;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        match Target::find(&name) {
            Some(target) => drop(TARGET.set(target)),
            None => {
                eprintln!("FUZZ_TARGET={name} is not a target; `cargo run -p menagerie-fuzz -- list` lists them");
                std::process::exit(2);
            }
        }
    },
    |input: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(input);
        }
    }
);
