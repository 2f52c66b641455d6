//! The production code of the packages: their folders and files, without tests and code for tests.

use cargo_metadata::{Metadata, MetadataCommand, Package};
use menagerie_conformance::{is_for_tests, path_inside, root, rust_files};
use std::collections::BTreeMap;
use std::path::Path;

/// The packages of the workspace.
pub fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned(), "--locked".to_owned()])
        .exec()
        .unwrap()
}

/// `menagerie-kernels` -> `kernels`; the architectures share one name, as in the document.
pub fn short(package: &Package) -> String {
    let inside = path_inside(package.manifest_path.as_std_path());
    if inside.starts_with("architectures/") && !inside.starts_with("architectures/all/") {
        return "architectures".to_owned();
    }
    package.name.strip_prefix("menagerie-").unwrap_or(&package.name).to_owned()
}

/// The sources of one library.
pub struct Library {
    /// The short name of its package.
    pub name: String,
    /// Texts of its files by path below `src`, those of tests too.
    pub files: BTreeMap<String, String>,
}

/// The libraries of the packages below some folders of the workspace, except those for tests.
pub fn libraries(folders: &[&str]) -> Vec<Library> {
    let mut found = Vec::new();
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().unwrap().as_std_path();
        let inside = path_inside(folder);
        let is_within = folders.iter().any(|one| inside == *one || inside.starts_with(&format!("{one}/")));
        let sources = folder.join("src");
        if is_within && !is_for_tests(&format!("{inside}/")) && sources.join("lib.rs").exists() {
            found.push(Library { name: short(package), files: texts(&sources) });
        }
    }
    found
}

fn texts(sources: &Path) -> BTreeMap<String, String> {
    let files = rust_files(sources).into_iter();
    let read = |file: std::path::PathBuf| {
        let inside = file.strip_prefix(sources).unwrap().to_string_lossy().replace('\\', "/");
        (inside, std::fs::read_to_string(&file).unwrap())
    };
    files.map(read).collect()
}
