//! Runs named tests one after the other and says on the terminal what became of each: for tests that need what a machine
//! may not have. `cargo test` shows nothing of a test that passes, so one that ends early there would look as if it had run.

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test: its name, and what it does.
pub type Named = (&'static str, fn());

/// Options of `cargo test` that are followed by a value.
const WITH_VALUE: [&str; 5] = ["--test-threads", "--skip", "--color", "--format", "--logfile"];

/// Runs those of `tests` whose names contain an argument of the command line, or all. Where something is `missing`, each
/// says so, as `#[ignore]` does; where `MENAGERIE_REQUIRE_MODEL` in the environment is the name of what is missing, which
/// `pull` knows it by, it fails instead.
pub fn run(tests: &[Named], missing: Option<&str>) -> ExitCode {
    let (filters, list) = arguments(std::env::args().skip(1));
    let chosen = tests
        .iter()
        .filter(|(name, _)| filters.is_empty() || filters.iter().any(|f| name.contains(f.as_str())));
    let required = std::env::var("MENAGERIE_REQUIRE_MODEL").ok().map(|name| format!("pull {name}`"));
    let [mut passed, mut failed, mut ignored] = [0; 3];
    for (name, test) in chosen {
        if list {
            println!("{name}: test");
            continue;
        }
        match missing {
            Some(missing) if required.as_ref().is_some_and(|pulled| missing.contains(pulled)) => {
                println!("test {name} ... FAILED, it needs {missing}");
                failed += 1;
            }
            Some(missing) => {
                println!("test {name} ... ignored, it needs {missing}");
                ignored += 1;
            }
            None => {
                let ok = catch_unwind(test).is_ok();
                println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
                [passed, failed] = [passed + usize::from(ok), failed + usize::from(!ok)];
            }
        }
    }
    if !list {
        let result = if failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {result}. {passed} passed; {failed} failed; {ignored} ignored\n");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What names are to contain, and whether they are only to be listed.
fn arguments(mut arguments: impl Iterator<Item = String>) -> (Vec<String>, bool) {
    let (mut filters, mut list) = (Vec::new(), false);
    while let Some(argument) = arguments.next() {
        if WITH_VALUE.contains(&argument.as_str()) {
            arguments.next();
        } else if argument == "--list" {
            list = true;
        } else if !argument.starts_with('-') {
            filters.push(argument);
        }
    }
    (filters, list)
}
