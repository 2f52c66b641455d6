//! `menagerie-fuzz`: replays fuzz targets without a fuzzer, and writes their corpora for one.
//!
//! ```text
//! menagerie-fuzz list                        names of the targets
//! menagerie-fuzz corpus TARGET FOLDER        writes the corpus and `words.dict`
//! menagerie-fuzz run TARGET SECONDS [SEED]   replays mutated inputs
//! menagerie-fuzz input TARGET FILE           runs one input
//! ```
#![forbid(unsafe_code)]

use menagerie_fuzz::{TARGETS, Target, replay};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str =
    "usage: menagerie-fuzz list | corpus TARGET FOLDER | run TARGET SECONDS [SEED] | input TARGET FILE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["list"] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
        ["corpus", name, folder] => target(name).and_then(|target| corpus(target, Path::new(folder))),
        ["run", name, seconds] => target(name).and_then(|target| run(target, seconds, "1")),
        ["run", name, seconds, seed] => target(name).and_then(|target| run(target, seconds, seed)),
        ["input", name, file] => target(name).and_then(|target| input(target, file)),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn target(name: &str) -> Result<&'static Target, String> {
    let known = || TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().join(", ");
    Target::find(name).ok_or_else(|| format!("no target {name}; the targets are {}", known()))
}

fn corpus(target: &Target, folder: &Path) -> Result<(), String> {
    let write = |name: String, bytes: &[u8]| {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder.join("corpus"))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    for (number, input) in target.corpus().iter().enumerate() {
        write(format!("corpus/seed-{number}"), input)?;
    }
    let escaped = |word: &&str| format!("\"{}\"\n", word.replace('\\', "\\\\").replace('"', "\\\""));
    write("words.dict".to_owned(), target.words.iter().map(escaped).collect::<String>().as_bytes())
}

fn run(target: &Target, seconds: &str, seed: &str) -> Result<(), String> {
    let wrong = |text: &str| format!("{text} is not a number; {USAGE}");
    let limit = Duration::from_secs(seconds.parse().map_err(|_| wrong(seconds))?);
    let seed = seed.parse().map_err(|_| wrong(seed))?;
    let began = Instant::now();
    match replay(target, seed, &mut |_| began.elapsed() < limit) {
        Ok(done) => {
            println!(
                "{}: {} inputs, {} accepted, slowest {:.1?}",
                target.name, done.inputs, done.accepted, done.slowest
            );
            Ok(())
        }
        Err((input, reason)) => {
            let path = format!("finding-{}-{seed}", target.name);
            std::fs::write(&path, input).map_err(|error| format!("{path}: {error}"))?;
            Err(format!("{}: {reason}; the input is in {path}", target.name))
        }
    }
}

fn input(target: &Target, file: &str) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let began = Instant::now();
    let accepted = (target.run)(&bytes);
    println!("{}: {} in {:.1?}", target.name, if accepted { "accepted" } else { "refused" }, began.elapsed());
    Ok(())
}
