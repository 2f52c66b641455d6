//! Specs that are made to take time, memory or the stack: each is refused, or costs little.

use crate::model::{Fake, PLAIN, minimal, parse};
use std::fmt::Write;
use std::time::{Duration, Instant};

fn quick<T>(run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let value = run();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    value
}

fn refused(text: &str) -> String {
    quick(|| parse(text)).map(|spec| format!("{spec:?}")).unwrap_err().to_string()
}

/// `[let]` names that each mention the one before twice.
fn doubling(first: &str, count: usize) -> String {
    let mut lets = format!("[let]\nx0 = \"{first}\"\n");
    for index in 1..count {
        let _ = writeln!(lets, "x{index} = \"x{} + x{}\"", index - 1, index - 1);
    }
    lets
}

#[test]
fn doubling_names_are_evaluated_once_each() {
    let used = PLAIN.replace("kind = \"attention\"", "kind = \"attention\"\nscale = \"x39\"");
    let text = minimal(&format!("{used}{}", doubling("2", 40)));
    let spec = quick(|| parse(&text)).unwrap();
    let config = quick(|| Fake::small(8).config(&spec));
    assert_eq!(crate::model::attention(&config, 0).scale, 2f32.powi(40));
    // Per layer, with a key that is absent: the message is found without walking all ways to it.
    let text = minimal(&format!("{used}{}", doubling("layer + nowhere", 40)));
    let spec = quick(|| parse(&text)).unwrap();
    let found = quick(|| Fake::small(8).refused(&spec));
    assert!(found.contains("x0: `nowhere`: neither a standard key nor in this file"), "{found}");
}

#[test]
fn strings_cannot_be_doubled_without_end() {
    let used = PLAIN.replace("kind = \"attention\"", "kind = \"attention\"\nscale = \"x39\"");
    let text = minimal(&format!("{used}{}", doubling("'ab'", 40)));
    let found = quick(|| Fake::small(1).refused(&parse(&text).unwrap()));
    assert!(found.contains("at most 65536"), "{}", &found[..found.len().min(400)]);
}

#[test]
fn long_and_deep_expressions_are_refused() {
    for scale in [
        format!("1{}", "+1".repeat(200_000)),
        format!("{}true", "not ".repeat(100_000)),
        format!("{}1", "-".repeat(100_000)),
        format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        "1 if 1 else ".repeat(20_000) + "1",
        format!("1{}", "+1".repeat(1_000)),
        format!("a{}", ".a".repeat(500)),
    ] {
        let text = minimal(
            &PLAIN.replace("kind = \"attention\"", &format!("kind = \"attention\"\nscale = \"{scale}\"")),
        );
        let found = refused(&text);
        assert!(found.len() < 10_000, "{}", found.len());
    }
}

/// What is just allowed must not overflow the stack of a thread.
#[test]
fn the_deepest_expressions_that_are_allowed_are_evaluated() {
    for (scale, expected) in [
        (format!("1{}", "+1".repeat(240)), 241.0),
        (format!("1 if {}true else 0", "not ".repeat(240)), 1.0),
        (format!("{}2", "-".repeat(240)), 2.0),
        ("0 if layer > 3 else ".repeat(60) + "7", 7.0),
        (format!("2{}", " ** 1".repeat(200)), 2.0),
    ] {
        let text = minimal(
            &PLAIN.replace("kind = \"attention\"", &format!("kind = \"attention\"\nscale = \"{scale}\"")),
        );
        match quick(|| parse(&text)) {
            Ok(spec) => {
                let config = quick(|| Fake::small(1).config(&spec));
                assert_eq!(crate::model::attention(&config, 0).scale, expected, "{scale}");
            }
            // minijinja has limits of its own.
            Err(faults) => assert!(faults.to_string().contains("recursion"), "{faults}"),
        }
    }
}

#[test]
fn large_files_are_refused_by_size_and_many_faults_are_counted() {
    let mut many = minimal(PLAIN);
    for index in 0..30_000 {
        let _ = writeln!(many, "x{index} = 1");
    }
    assert!(refused(&many).contains("bytes; a spec has at most"));
    let mut some = minimal(&format!("{PLAIN}[layers]\n"));
    for index in 0..1_500 {
        let _ = writeln!(some, "cuont{index} = 1");
    }
    let found = refused(&some);
    assert!(found.contains("and 1400 faults more"), "{}", &found[found.len() - 300..]);
    let mut wide = minimal(&format!("{PLAIN}[let]\n"));
    for index in 0..3_000 {
        let _ = writeln!(wide, "x{index} = 1");
    }
    assert!(
        refused(&wide).contains("at most 200 are allowed") || refused(&wide).contains("keys in one table")
    );
}

#[test]
fn a_long_chain_of_names_is_no_deep_recursion() {
    let mut lets = String::from("[let]\nx0 = \"1\"\n");
    for index in 1..200 {
        let _ = writeln!(lets, "x{index} = \"x{} + layer\"", index - 1);
    }
    let used = PLAIN.replace("kind = \"attention\"", "kind = \"attention\"\nscale = \"x199\"");
    let spec = quick(|| parse(&minimal(&format!("{used}{lets}")))).unwrap();
    let config = quick(|| Fake::small(64).config(&spec));
    assert_eq!(crate::model::attention(&config, 2).scale, 399.0);
}

#[test]
fn keys_of_a_file_with_thousands_of_dots_do_no_harm() {
    let spec = parse(&minimal(PLAIN)).unwrap();
    let deep = vec!["a"; 20_000].join(".");
    let found = quick(|| Fake::small(1).with(&deep, 1i64).refused(&spec));
    assert!(found.contains("not read by spec my"));
}
