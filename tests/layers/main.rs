//! The arrows between crates and the external crates are those that `core/ARCHITECTURE.md` lists, no more and no fewer.
//! Inside the crates modules form no large cycles ([`modules`]), and type names and public items become fewer ([`names_once`],
//! [`public_items`]).
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod arrows;
mod code;
mod cycles;
mod made_up;
mod modules;
mod names;
mod names_once;
mod public_items;
mod tree;

use cargo_metadata::{Dependency, DependencyKind, Package};
use code::{metadata, short};
use menagerie_conformance::{is_for_tests, path_inside, root, rust_files};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn architecture_md() -> String {
    std::fs::read_to_string(root().join("core/ARCHITECTURE.md")).unwrap()
}

/// The lines `name -> other other` of the fenced block after the heading.
fn documented_arrows(text: &str) -> Arrows {
    let section = text.split("\n## Arrows").nth(1).expect("a section `## Arrows`");
    let block = section.split("```").nth(1).expect("a fenced block under `## Arrows`");
    let mut arrows = Arrows::new();
    for line in block.lines().filter(|line| line.contains("->")) {
        let (from, to) = line.split_once("->").unwrap();
        arrows.insert(from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect());
    }
    arrows
}

/// First column of the table after the heading.
fn documented_externals(text: &str) -> BTreeSet<String> {
    let section = text.split("\n## External crates").nth(1).expect("a section `## External crates`");
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    cells.map(str::to_owned).collect()
}

#[test]
fn arrows_are_the_documented_ones() {
    let metadata = metadata();
    let names: BTreeMap<&str, String> =
        metadata.workspace_packages().iter().map(|p| (p.name.as_str(), short(p))).collect();
    let mut actual = Arrows::new();
    for package in metadata.workspace_packages() {
        let own = actual.entry(short(package)).or_default();
        for dependency in package.dependencies.iter().filter(|d| d.kind != DependencyKind::Development) {
            if let Some(name) = names.get(dependency.name.as_str()) {
                own.insert(name.clone());
            }
        }
    }
    let documented = documented_arrows(&architecture_md());
    for (from, to) in &actual {
        let listed =
            documented.get(from).unwrap_or_else(|| panic!("ARCHITECTURE.md has no arrow line for `{from}`"));
        assert_eq!(to, listed, "arrows of `{from}`: left is cargo's, right is ARCHITECTURE.md's");
    }
    let unknown: Vec<_> = documented.keys().filter(|name| !actual.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "ARCHITECTURE.md lists crates that do not exist: {unknown:?}");
}

#[test]
fn external_crates_are_the_documented_ones() {
    let metadata = metadata();
    let own: BTreeSet<&str> = metadata.workspace_packages().iter().map(|p| p.name.as_str()).collect();
    let mut used = BTreeSet::new();
    for package in metadata.workspace_packages() {
        let external = package.dependencies.iter().filter(|d| !own.contains(d.name.as_str()));
        used.extend(external.map(|dependency| dependency.name.clone()));
    }
    assert_eq!(used, documented_externals(&architecture_md()), "left is cargo's, right is ARCHITECTURE.md's");
}

/// Paths in backticks under a heading.
fn paths_under<'a>(text: &'a str, heading: &str) -> Vec<&'a str> {
    let section =
        text.split(&format!("\n## {heading}")).nth(1).unwrap_or_else(|| panic!("a section `## {heading}`"));
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|text| text.contains('/')).collect()
}

#[test]
fn entry_points_and_folders_of_the_map_exist() {
    let text = architecture_md();
    let paths = [paths_under(&text, "Entry points"), paths_under(&text, "Code map")].concat();
    assert!(paths.len() > 30, "only {} paths were found", paths.len());
    for path in paths.into_iter().filter(|path| !path.contains('<')) {
        assert!(root().join(path).exists(), "ARCHITECTURE.md names {path}, which is not there");
    }
}

#[test]
fn every_crate_is_on_the_map() {
    let text = architecture_md();
    let mapped = paths_under(&text, "Code map");
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap().strip_prefix(root().to_str().unwrap()).unwrap();
        let folder = format!("{folder}/");
        let architecture = folder.starts_with("architectures/");
        assert!(
            architecture || mapped.contains(&&*folder),
            "{folder} is not in the code map of ARCHITECTURE.md"
        );
    }
}

/// Each module of the three crates that run a model is on the map once.
#[test]
fn modules_are_on_the_map() {
    let text = architecture_md();
    for (heading, folder) in [("the engine", "engine"), ("open", "open"), ("measure", "measure")] {
        let heading = format!("\n## Modules of {heading}\n");
        let section = text.split(&heading).nth(1).unwrap_or_else(|| panic!("a section `{heading}`"));
        let section = section.split("\n## ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let mut mapped: Vec<&str> = rows.collect();
        mapped.sort_unstable();
        let lib = std::fs::read_to_string(root().join("core").join(folder).join("src/lib.rs")).unwrap();
        let module = |line: &'_ str| {
            line.trim_start_matches("pub ")
                .strip_prefix("mod ")
                .map(|rest| rest.trim_end_matches(';').to_owned())
        };
        let modules: Vec<String> = lib.lines().filter_map(module).collect();
        assert_eq!(
            modules, mapped,
            "modules of core/{folder}/src/lib.rs, and those that ARCHITECTURE.md lists"
        );
    }
}

/// Oniguruma would silently take precedence over fancy-regex; native-tls and openssl need a system library.
#[test]
fn refused_crates_are_absent() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for refused in ["onig", "onig_sys", "openssl-sys", "native-tls"] {
        assert!(!lock.contains(&format!("name = \"{refused}\"")), "{refused} must not be in the graph");
    }
}

/// `SECURITY.md` promises that one crate loads libraries at run time.
#[test]
fn only_the_plugin_host_loads_libraries() {
    let metadata = metadata();
    let loads = |package: &&&Package| package.dependencies.iter().any(|d| d.name == "libloading");
    let packages = metadata.workspace_packages();
    let loading: Vec<String> = packages.iter().filter(loads).map(|package| short(package)).collect();
    assert_eq!(loading, ["plugin-host"]);
    let page = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    assert!(page.contains("Only `core/plugin-host/` loads libraries at run time"));
    let calls = ["libloading::", "dlopen(", "dlmopen(", "LoadLibrary"];
    let files = ["core", "architectures"].into_iter().flat_map(|folder| rust_files(&root().join(folder)));
    for file in files.filter(|file| !file.starts_with(root().join("core/plugin-host"))) {
        let text = std::fs::read_to_string(&file).unwrap();
        let found = calls.iter().find(|call| text.contains(**call));
        assert!(found.is_none(), "{}: {found:?}", file.display());
    }
}

/// The files that a package embeds are inside it (through a link, if need be), so that it can be packaged alone.
#[test]
fn nothing_is_embedded_from_outside_its_package() {
    let mut outside = Vec::new();
    let mut seen = 0;
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap().as_std_path();
        // The package of the conformance suites has no folder of sources.
        let sources = folder.join("src");
        for file in if sources.is_dir() { rust_files(&sources) } else { Vec::new() } {
            let text = std::fs::read_to_string(&file).unwrap();
            let strings = text.split("include_str!(\"").skip(1);
            for path in strings.chain(text.split("include_bytes!(\"").skip(1)) {
                let path = path.split('"').next().unwrap();
                let ups = path.split('/').take_while(|part| *part == "..").count();
                let depth = file.parent().unwrap().strip_prefix(folder).unwrap().components().count();
                seen += usize::from(ups > 0);
                if ups > depth {
                    outside.push(format!("{}: {path}", file.display()));
                }
            }
        }
    }
    assert!(outside.is_empty(), "{}", outside.join("\n"));
    assert!(seen >= 12, "the test sees only {seen} paths");
}

/// `cargo package --workspace` makes packages in order: dependencies with a version were made before, test crates too.
#[test]
fn packages_can_be_made_in_order() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let find = |name: &str| packages.iter().find(|package| package.name.as_str() == name);
    let mut faults = Vec::new();
    for package in packages.iter().filter(|package| is_published(package)) {
        for dependency in versioned(package) {
            let Some(wanted) = find(&dependency.name) else { continue };
            if !is_published(wanted) {
                faults.push(format!("{} asks for {}, which is not published", package.name, wanted.name));
            }
            let mut reached = vec![*wanted];
            let mut seen = BTreeSet::new();
            while let Some(next) = reached.pop() {
                if seen.insert(next.name.to_string()) {
                    reached.extend(versioned(next).filter_map(|dependency| find(&dependency.name)));
                }
            }
            if seen.contains(package.name.as_str()) {
                faults.push(format!("{} and {} ask for each other", package.name, wanted.name));
            }
        }
    }
    assert!(faults.is_empty(), "name one of them by its path alone:\n{}", faults.join("\n"));
}

fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

fn versioned(package: &Package) -> impl Iterator<Item = &Dependency> {
    package.dependencies.iter().filter(|dependency| dependency.req.to_string() != "*")
}

/// Words that are ids of built-in specs and have another meaning in a file of the core: path, word, meaning.
const OTHER_MEANINGS: [(&str, &str, &str); 1] =
    [("core/spec/src/kinds/mamba2.rs", "mamba2", "the kind of mixer")];

/// An architecture is data: its name may occur in `specs/` and `architectures/`, not in a text of the core's code.
#[test]
fn core_names_no_architecture() {
    let ids = built_in_ids();
    assert!(ids.len() >= 9, "{ids:?}");
    let mut found = Vec::new();
    let mut met = BTreeSet::new();
    for file in rust_files(&root().join("core")) {
        let inside = path_inside(&file);
        if is_for_tests(&inside) || inside.starts_with("core/apps/") {
            continue;
        }
        for (line, text) in texts_of_code(&std::fs::read_to_string(&file).unwrap()) {
            for id in words(&text).filter(|word| ids.contains(*word)) {
                match OTHER_MEANINGS.iter().find(|(path, word, _)| *path == inside && *word == id) {
                    Some(meaning) => {
                        met.insert(*meaning);
                    }
                    None => found.push(format!("{inside}:{line}: {id} in {text:?}")),
                }
            }
        }
    }
    assert!(found.is_empty(), "architectures named in the core:\n{}", found.join("\n"));
    assert_eq!(
        met,
        OTHER_MEANINGS.into_iter().collect(),
        "the list of other meanings holds what is not there"
    );
}

/// The ids of `specs/*.toml`.
fn built_in_ids() -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join("specs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    // `models.toml` is the catalog of models, no architecture.
    let ids = names.filter_map(|name| name.strip_suffix(".toml").map(str::to_owned));
    ids.filter(|id| id != "models").collect()
}

/// The words of a text; `llama.cpp` is a program, not an architecture.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split("llama.cpp");
    let words = parts.flat_map(|part| part.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-'));
    words.filter(|word| !word.is_empty())
}

/// The string literals of a file outside test items and documentation, with their lines.
fn texts_of_code(source: &str) -> Vec<(usize, String)> {
    let mut texts = Vec::new();
    literals(source.parse().unwrap(), &mut texts);
    texts
}

fn literals(tokens: TokenStream, out: &mut Vec<(usize, String)>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(inner) if inner.as_char() == '!'));
                let attribute = tokens.next_if(|next| matches!(next, TokenTree::Group(_)));
                if attribute.is_some_and(|attribute| attribute.to_string().replace(' ', "") == "[cfg(test)]")
                {
                    let ends = |token: &TokenTree| match token {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(punct) => punct.as_char() == ';',
                        _ => false,
                    };
                    tokens.by_ref().find(ends);
                }
            }
            TokenTree::Group(group) => literals(group.stream(), out),
            TokenTree::Literal(literal) if literal.to_string().contains('"') => {
                out.push((literal.span().start().line, literal.to_string()));
            }
            _ => {}
        }
    }
}

/// The test above reads the right texts: those of code, not of attributes, documentation, comments or tests.
#[test]
fn texts_of_code_are_found() {
    let source = r##"//! "a"
        // "b"
        #[cfg(test)]
        mod tests;
        /// "c"
        const X: &str = "d";
        #[cfg(test)]
        mod more { const Y: &str = "e"; }
        fn f() { g(r#"f"#, b"g", 'h'); }"##;
    let texts: Vec<String> = texts_of_code(source).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["\"d\"", "r#\"f\"#", "b\"g\""]);
    assert_eq!(words("`llama` as llama.cpp, llama3").collect::<Vec<_>>(), ["llama", "as", "llama3"]);
}
