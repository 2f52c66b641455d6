//! The arrows between crates and the external crates are those that `core/ARCHITECTURE.md` lists, no more and no fewer.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Arrows = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn architecture_md() -> String {
    std::fs::read_to_string(root().join("core/ARCHITECTURE.md")).unwrap()
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned(), "--locked".to_owned()])
        .exec()
        .unwrap()
}

/// `menagerie-kernels` -> `kernels`; the architectures share one name, as in the document.
fn short(package: &Package) -> String {
    let inside = package.manifest_path.strip_prefix(root().to_str().unwrap()).unwrap().to_string();
    if inside.starts_with("architectures/") && !inside.starts_with("architectures/all/") {
        return "architectures".to_owned();
    }
    package.name.strip_prefix("menagerie-").unwrap_or(&package.name).to_owned()
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

/// Oniguruma would win over fancy-regex silently; native-tls and openssl need a system library.
#[test]
fn refused_crates_are_absent() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    for refused in ["onig", "onig_sys", "openssl-sys", "native-tls"] {
        assert!(!lock.contains(&format!("name = \"{refused}\"")), "{refused} must not be in the graph");
    }
}

/// An architecture is data: its name may stand in `specs/` and `architectures/`, not in the core.
#[test]
fn core_names_no_architecture() {
    let ids = ["starcoder2", "qwen3moe", "qwen2", "qwen3", "mistral3", "phi2", "phi3"];
    let mut found = Vec::new();
    for file in rust_files(&root().join("core")) {
        let inside = file.strip_prefix(root()).unwrap().to_owned();
        let tested = inside
            .components()
            .any(|part| ["tests", "tests.rs", "examples"].iter().any(|name| part.as_os_str() == *name));
        if tested || inside.starts_with("core/apps") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap();
            found.extend(
                ids.iter()
                    .filter(|id| line.contains(&format!("\"{id}\"")))
                    .map(|id| format!("{}:{}: {id}", inside.display(), number + 1)),
            );
        }
    }
    assert!(found.is_empty(), "architectures named in the core:\n{}", found.join("\n"));
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}
