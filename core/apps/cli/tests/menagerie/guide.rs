//! `guide`: pages of documentation from the binary itself, and the errors that send people there.

use super::menagerie;
use std::path::{Path, PathBuf};

#[test]
fn pages_are_listed_and_printed() {
    let home = tempfile::tempdir().unwrap();
    let listed = menagerie(home.path(), &["guide"]).good();
    assert!(listed.contains("tokenizer-tables") && listed.contains("The command line"), "{listed}");
    let page = menagerie(home.path(), &["guide", "batch"]).good();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/batch.md");
    assert_eq!(page, std::fs::read_to_string(file).unwrap());
    menagerie(home.path(), &["guide", "bach"]).refused_with(&["bach", "batch"]);
}

/// Rust sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whoever is sent to a page by an error finds it, and no error names a file of the source tree, which users do not have.
#[test]
fn errors_name_pages_that_are_there() {
    let home = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &mut files);
    let mut named = 0;
    for file in files.iter().filter(|file| !file.ends_with("guide.rs")) {
        let text = std::fs::read_to_string(file).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code.filter(|line| !line.contains("include_str!")) {
            for rest in line.split("menagerie guide ").skip(1) {
                let topic: String =
                    rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                menagerie(home.path(), &["guide", &topic]).good();
                named += 1;
            }
            let in_tests = file.components().any(|part| part.as_os_str() == "tests");
            let page = [
                "specs/README.md",
                "tokenizers/README.md",
                "(docs/",
                "in specs/reference.md",
                "docs/mixtures.md shows",
            ];
            assert!(in_tests || !page.iter().any(|page| line.contains(page)), "{}: {line}", file.display());
        }
    }
    assert!(named >= 6, "only {named} mentions were found");
}
