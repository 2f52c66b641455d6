//! Traits exist for their callers: each is implemented and used as a bound or an object, and every method is called.
//! Other known mistakes of pipelines are checked too: nothing asynchronous that nobody waits for, one place where a
//! stage runs.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::{is_for_tests, is_test_code, path_inside, root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Production code: without tests and code for tests.
struct Source {
    inside: String,
    lines: Vec<String>,
    file: syn::File,
}

fn sources() -> Vec<Source> {
    let folders = ["core", "architectures", "plugins"];
    let files = folders.into_iter().flat_map(|folder| rust_files(&root().join(folder)));
    let read = |path: std::path::PathBuf| {
        let inside = path_inside(&path);
        if is_for_tests(&inside) || inside.contains("/tables/") {
            return None;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{inside}: {error}"));
        Some(Source { inside, lines: text.lines().map(str::to_owned).collect(), file })
    };
    files.filter_map(read).collect()
}

/// The traits in the code.
#[derive(Default)]
struct Traits {
    /// Methods of the public traits, by trait and with the file.
    defined: BTreeMap<String, (String, Vec<String>)>,
    implemented: BTreeSet<String>,
    /// As a bound or an object.
    asked_for: BTreeSet<String>,
    /// Lines, by file, that are the body of a method of this name in an implementation or a trait: forwarding a call
    /// does not count as a call.
    bodies: BTreeMap<String, Vec<(String, RangeInclusive<usize>)>>,
    /// Lines of test modules.
    tests: BTreeMap<String, Vec<RangeInclusive<usize>>>,
    inside: String,
}

fn lines(span: proc_macro2::Span) -> RangeInclusive<usize> {
    span.start().line..=span.end().line
}

impl Traits {
    fn body(&mut self, name: &syn::Ident, span: proc_macro2::Span) {
        self.bodies.entry(self.inside.clone()).or_default().push((name.to_string(), lines(span)));
    }
}

impl<'ast> Visit<'ast> for Traits {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test_code(&item.attrs) {
            self.tests.entry(self.inside.clone()).or_default().push(lines(item.span()));
        } else {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let functions = item.items.iter().filter_map(|inner| match inner {
            syn::TraitItem::Fn(function) => Some(function),
            _ => None,
        });
        let functions: Vec<&syn::TraitItemFn> = functions.collect();
        for function in &functions {
            self.body(&function.sig.ident, function.span());
        }
        if matches!(item.vis, syn::Visibility::Public(_)) {
            let names = functions.iter().map(|function| function.sig.ident.to_string()).collect();
            self.defined.insert(item.ident.to_string(), (self.inside.clone(), names));
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(path) = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last()) {
            self.implemented.insert(path.ident.to_string());
            for inner in &item.items {
                if let syn::ImplItem::Fn(function) = inner {
                    self.body(&function.sig.ident, function.span());
                }
            }
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_trait_bound(&mut self, bound: &'ast syn::TraitBound) {
        self.asked_for.extend(bound.path.segments.last().map(|last| last.ident.to_string()));
        visit::visit_trait_bound(self, bound);
    }
}

/// The functions that a line calls or names after a dot or a path: `.name(`, `.name::<`, `::name`.
fn called(line: &str) -> Vec<&str> {
    let code = line.split("//").next().unwrap_or_default();
    let names = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|name| !name.is_empty());
    let is_called = |name: &&str| {
        let at = name.as_ptr().addr() - code.as_ptr().addr();
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let called = after.starts_with('(') || after.starts_with("::<");
        before.ends_with('.') && called || before.ends_with("::")
    };
    names.filter(is_called).collect()
}

/// Files and lines that call a function of a name.
fn calls(sources: &[Source]) -> BTreeMap<&str, Vec<(&str, usize)>> {
    let mut calls: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in sources {
        for (index, line) in source.lines.iter().enumerate() {
            for name in called(line) {
                calls.entry(name).or_default().push((&source.inside, index + 1));
            }
        }
    }
    calls
}

impl Traits {
    /// Whether a line is neither in a test nor in the body of a method of this name.
    fn counts(&self, name: &str, (inside, line): (&str, usize)) -> bool {
        let bodies = self.bodies.get(inside).into_iter().flatten().filter(|(body, _)| body == name);
        let tests = self.tests.get(inside).into_iter().flatten();
        !bodies.map(|(_, lines)| lines).chain(tests).any(|lines| lines.contains(&line))
    }
}

/// Traits whose users are outside of this code: those of macros, and those that plugins implement.
fn by_others(inside: &str, name: &str) -> bool {
    let implementation = format!("{name} for ");
    let mut files = vec![root().join(inside)];
    if inside.starts_with("core/plugin/") {
        files.extend(
            ["core/plugin/src", "tests/plugins/probe/src"]
                .iter()
                .flat_map(|folder| rust_files(&root().join(folder))),
        );
    }
    files.iter().any(|file| std::fs::read_to_string(file).unwrap().contains(&implementation))
}

#[test]
fn every_trait_is_implemented_asked_for_and_called() {
    let sources = sources();
    let mut traits = Traits::default();
    for source in &sources {
        traits.inside.clone_from(&source.inside);
        traits.visit_file(&source.file);
    }
    let (calls, mut faults) = (calls(&sources), Vec::new());
    for (name, (inside, methods)) in &traits.defined {
        if !traits.implemented.contains(name) && !by_others(inside, name) {
            faults.push(format!("{inside}: nothing implements `{name}`"));
        }
        if !traits.asked_for.contains(name) {
            faults.push(format!("{inside}: nothing asks for `{name}`, as a bound or an object"));
        }
        let is_called = |method: &str| {
            let mut places = calls.get(method).into_iter().flatten();
            places.any(|place| traits.counts(method, *place))
        };
        for method in methods.iter().filter(|method| !is_called(method)) {
            faults.push(format!("{inside}: nothing calls `{name}::{method}`"));
        }
    }
    assert!(traits.defined.len() > 40, "the test sees only {} traits", traits.defined.len());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Receiving while computing uses a thread here; an asynchronous call that nobody polls would do nothing.
#[test]
fn nothing_is_asynchronous() {
    let words = [concat!("asy", "nc fn"), concat!("asy", "nc move"), concat!(".aw", "ait")];
    let mut faults = Vec::new();
    // A server waits for many clients at once, and polls what it awaits.
    for source in sources().into_iter().filter(|source| !source.inside.starts_with("core/apps/server/")) {
        for (number, line) in source.lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if words.iter().any(|word| code.contains(word)) {
                faults.push(format!("{}:{}: {}", source.inside, number + 1, line.trim()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Where functions of this name are defined.
fn defined(sources: &[Source], name: &str) -> Vec<String> {
    let start = format!("fn {name}(");
    let of = |source: &Source| {
        let found = source.lines.iter().filter(|line| line.contains(&start)).count();
        vec![source.inside.clone(); found]
    };
    sources.iter().flat_map(of).collect()
}

/// Operations that must happen in one place, whatever the model, the format and the number of sequences, are written
/// once.
#[test]
fn what_happens_in_one_place_is_written_once() {
    let sources = sources();
    for (name, place) in [
        ("execute_stage", "core/stages/src/worker/mod.rs"),
        ("through_layers", "core/engine/src/layers.rs"),
        ("prefill_step", "core/engine/src/prefill.rs"),
        ("decode_step", "core/engine/src/decode.rs"),
    ] {
        assert_eq!(defined(&sources, name), [place], "`{name}`");
    }
    // Initializing a request consumes its beginning, so it cannot happen twice; other crates call it too.
    let lifecycle = sources.iter().find(|source| source.inside.ends_with("hooks/lifecycle.rs")).unwrap();
    assert!(lifecycle.lines.iter().any(|line| line.contains("pub fn initialized(self,")));
    let told: Vec<&str> = sources
        .iter()
        .filter_map(|source| {
            let tells = source.lines.iter().any(|line| line.contains("one.initialized("));
            tells.then_some(source.inside.as_str())
        })
        .collect();
    assert_eq!(told, ["core/engine/src/hooks/lifecycle.rs"]);
}

#[test]
fn calls_are_found() {
    assert_eq!(called("    x.begin(1).end::<u8>(a::go, b.field)"), ["begin", "end", "go"]);
    assert_eq!(called("begin(1); // x.begin(1)"), [""; 0]);
    assert_eq!(called("    fn begin(&self) {"), [""; 0]);
}
