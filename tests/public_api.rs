//! The public API can grow without breaking its users: options are built with methods, enums of errors and events may
//! get new variants, and functions that open or write files accept anything that can be used as a path.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::{is_for_tests, path_inside, root, rust_files};
use syn::Visibility;

/// Options that are not built with methods, and why.
const OPTIONS: [(&str, &str); 2] = [
    (
        "PoolOptions",
        "goes to other processes field by field: a new one must not compile until it does so too",
    ),
    ("AssembleOptions", "begins with what has no default; its methods are named after what they do"),
];

/// Fields of options that have no method, and why.
const FIELDS: [(&str, &str, &str); 3] = [
    ("ClusterOptions", "name", "given to `new`: a cluster has no default name"),
    ("RelayOptions", "name", "given to `new`: a relay has no name of its own"),
    ("RelayOptions", "layers", "given to `new`: there is no layer that every model has"),
];

/// Endings of the names of enums that get new variants when new errors or events are added.
const GROWING: [&str; 10] =
    ["Error", "ErrorKind", "Fault", "FaultKind", "Cause", "Event", "Progress", "Reason", "Notice", "End"];

/// A source file of the public crates.
struct Source {
    inside: String,
    text: String,
    items: Vec<syn::Item>,
}

fn sources() -> Vec<Source> {
    let read = |path: std::path::PathBuf| {
        let inside = path_inside(&path);
        let is_public =
            inside.contains("/src/") && !inside.starts_with("core/apps/") && !is_for_tests(&inside);
        let text = is_public.then(|| std::fs::read_to_string(&path).unwrap())?;
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{inside}: {error}"));
        Some(Source { inside, text, items: file.items })
    };
    rust_files(&root().join("core")).into_iter().filter_map(read).collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn may_grow(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("non_exhaustive"))
}

/// Faults of the options of a file.
fn options_faults(source: &Source, item: &syn::ItemStruct) -> Vec<String> {
    let (name, inside) = (item.ident.to_string(), &source.inside);
    let mut faults = Vec::new();
    if OPTIONS.iter().any(|(known, _)| *known == name) {
        return faults;
    }
    if !may_grow(&item.attrs) {
        faults
            .push(format!("{inside}: `{name}` lacks #[non_exhaustive]: a new option would break its users"));
    }
    for field in item.fields.iter().filter(|field| is_public(&field.vis)) {
        let field = field.ident.as_ref().unwrap().to_string();
        let is_excused = FIELDS.iter().any(|(of, known, _)| *of == name && *known == field);
        if !is_excused && !source.text.contains(&format!("with_{field}(")) {
            faults.push(format!("{inside}: `{name}` has no method `with_{field}`"));
        }
    }
    faults
}

#[test]
fn options_are_built_with_methods_and_may_grow() {
    let (sources, mut seen, mut faults) = (sources(), Vec::new(), Vec::new());
    for source in &sources {
        for item in &source.items {
            let syn::Item::Struct(item) = item else { continue };
            let name = item.ident.to_string();
            if is_public(&item.vis) && (name.ends_with("Options") || name == "Request") {
                faults.extend(options_faults(source, item));
                seen.push(name);
            }
        }
    }
    assert!(seen.len() > 20, "the test sees only {seen:?}");
    for (name, _) in OPTIONS {
        assert!(seen.iter().any(|one| one == name), "`{name}` is excused and does not exist");
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn enums_of_errors_and_events_may_grow() {
    let (mut seen, mut faults) = (0, Vec::new());
    for source in &sources() {
        for item in &source.items {
            let syn::Item::Enum(item) = item else { continue };
            let name = item.ident.to_string();
            if !is_public(&item.vis) || !GROWING.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            seen += 1;
            if !may_grow(&item.attrs) {
                faults.push(format!(
                    "{}: `{name}` lacks #[non_exhaustive]: a new variant would break its users",
                    source.inside
                ));
            }
        }
    }
    assert!(seen > 20, "the test sees only {seen} enums");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Functions of a file that are public, with the methods of its types.
fn functions(items: &[syn::Item]) -> Vec<&syn::Signature> {
    items.iter().flat_map(signatures).collect()
}

/// The public functions of one item.
fn signatures(item: &syn::Item) -> Vec<&syn::Signature> {
    match item {
        syn::Item::Fn(function) if is_public(&function.vis) => vec![&function.sig],
        syn::Item::Impl(block) if block.trait_.is_none() => {
            let methods = block.items.iter().filter_map(|inner| match inner {
                syn::ImplItem::Fn(method) if is_public(&method.vis) => Some(&method.sig),
                _ => None,
            });
            methods.collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a type is a path with this last name.
fn is_named(ty: &syn::Type, name: &str) -> bool {
    matches!(ty, syn::Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == name))
}

/// Whether an argument is `&Path`, and whether it is `impl AsRef<..>`.
fn takes(argument: &syn::FnArg) -> [bool; 2] {
    let syn::FnArg::Typed(argument) = argument else { return [false; 2] };
    match &*argument.ty {
        syn::Type::Reference(reference) => [is_named(&reference.elem, "Path"), false],
        syn::Type::ImplTrait(bounds) => {
            let is_as_ref = |bound: &syn::TypeParamBound| {
                matches!(bound, syn::TypeParamBound::Trait(bound)
                    if bound.path.segments.last().is_some_and(|last| last.ident == "AsRef"))
            };
            [false, bounds.bounds.iter().any(is_as_ref)]
        }
        _ => [false; 2],
    }
}

#[test]
fn functions_that_open_and_write_files_take_what_stands_for_a_path() {
    let verbs = ["open", "read", "write", "create", "load", "inspect", "serve", "begin"];
    let (mut seen, mut faults) = (0, Vec::new());
    for source in &sources() {
        for signature in functions(&source.items) {
            let name = signature.ident.to_string();
            let taken: Vec<[bool; 2]> = signature.inputs.iter().map(takes).collect();
            seen += usize::from(taken.iter().any(|[_, as_ref]| *as_ref));
            if taken.iter().any(|[path, _]| *path) && verbs.iter().any(|verb| name.starts_with(verb)) {
                faults.push(format!("{}: `{name}` takes `&Path`; take `impl AsRef<Path>`", source.inside));
            }
        }
    }
    assert!(seen > 30, "the test sees only {seen} functions with paths");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The names of the façade itself, by group. Everything else is behind its modules.
const FACADE: [(&str, &[&str]); 3] = [
    (
        "open",
        &[
            "Environment",
            "LoadError",
            "LoadOptions",
            "LoadedModel",
            "MemoryEstimate",
            "ModelBuilder",
            "Notice",
        ],
    ),
    (
        "generate",
        &[
            "ChatMessage",
            "ChatSession",
            "EmbeddingOptions",
            "EmbeddingPipeline",
            "Event",
            "GenerateError",
            "Outcome",
            "Queue",
            "Request",
            "SamplingOptions",
            "SchedulerOptions",
            "Session",
            "Statistics",
            "StopReason",
            "TextPipeline",
            "Truncation",
        ],
    ),
    ("describe", &["ArchSpec", "GgufFile", "Logits", "LogitsOptions", "ResolvedFile", "logits"]),
];

/// The names that a `use` brings in; modules, which are renamed crates, are left out.
fn imported(tree: &syn::UseTree, names: &mut Vec<String>) {
    match tree {
        syn::UseTree::Path(path) => imported(&path.tree, names),
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| imported(item, names)),
        syn::UseTree::Name(name) => names.push(name.ident.to_string()),
        syn::UseTree::Rename(_) => {}
        syn::UseTree::Glob(_) => names.push("*".to_owned()),
    }
}

/// The lines of documentation inside fences of examples that are compiled and run.
fn examples(text: &str) -> String {
    let docs = text.lines().filter_map(|line| line.strip_prefix("//!"));
    let (mut inside, mut is_run, mut found) = (false, false, String::new());
    for line in docs.map(str::trim_start) {
        if let Some(kind) = line.strip_prefix("```") {
            (inside, is_run) = (!inside, kind.trim().is_empty());
        } else if inside && is_run {
            found.push_str(line);
            found.push('\n');
        }
    }
    found
}

#[test]
fn the_facade_has_these_names_each_in_a_table_and_in_an_example() {
    let text = std::fs::read_to_string(root().join("core/src/lib.rs")).unwrap();
    let mut found = Vec::new();
    for item in &syn::parse_file(&text).unwrap().items {
        if let syn::Item::Use(item) = item
            && is_public(&item.vis)
        {
            imported(&item.tree, &mut found);
        }
    }
    let mut expected: Vec<&str> = FACADE.iter().flat_map(|(_, names)| *names).copied().collect();
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected, "left: core/src/lib.rs, right: the list of this test");
    assert!((25..=35).contains(&expected.len()), "{} names", expected.len());
    let examples = examples(&text);
    let words: Vec<&str> = examples.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    for (group, names) in FACADE {
        let row = text.lines().find(|line| line.starts_with(&format!("//! | {group} |"))).unwrap();
        for name in names {
            assert!(row.contains(&format!("`{name}`")), "{name} is not in the row `{group}` of the table");
            assert!(words.contains(name), "{name} is in no example that is run");
        }
    }
}
