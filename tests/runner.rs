//! Runs named tests one after the other and reports the result of each on the terminal: for tests that need something
//! that a machine may lack. `cargo test` prints nothing for a test that passes, so a test that returns early there
//! would look as if it had run.

use std::panic::catch_unwind;
use std::process::ExitCode;

/// A test: its name, and its function.
pub type Named = (&'static str, fn());

/// Options of `cargo test` that are followed by a value.
const WITH_VALUE: [&str; 5] = ["--test-threads", "--skip", "--color", "--format", "--logfile"];

/// Runs those of `tests` whose names contain an argument of the command line, or all. If something is `missing`, each
/// test reports that it is ignored, as with `#[ignore]`; but if the environment variable `MENAGERIE_REQUIRE_MODEL`
/// contains the name of the missing model (as `pull` knows it), the test fails.
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

/// The filters of names, and whether tests are only listed.
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
