//! A struct, enum or trait has a name that no other file declares. `tests/layers/names-twice.toml` lists the names that
//! several files declare, with the number of files; the list may only shrink.
//!
//! `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers names_once` rewrites the list where it
//! became shorter.

use super::tree;
use menagerie_conformance::{is_for_tests, is_test_code, path_inside, root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use syn::visit::{self, Visit};

const LIST: &str = "tests/layers/names-twice.toml";
const HEADER: &str = "# Names of structs, enums and traits that several files of production code declare, with the number of files. A number\n\
                      # may only become smaller: give a new type a name of its own.\n\
                      # `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers names_once` rewrites what became\n\
                      # smaller.\n\n";

/// The files that declare each name.
#[derive(Default)]
struct Declared {
    files: BTreeMap<String, BTreeSet<String>>,
    inside: String,
}

impl Declared {
    fn note(&mut self, name: &syn::Ident) {
        self.files.entry(name.to_string()).or_default().insert(self.inside.clone());
    }

    fn file(&mut self, inside: &str, text: &str) {
        let file = syn::parse_file(text).unwrap_or_else(|error| panic!("{inside}: {error}"));
        inside.clone_into(&mut self.inside);
        self.visit_file(&file);
    }
}

impl<'ast> Visit<'ast> for Declared {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_test_code(tree::attributes(item)) {
            return;
        }
        match item {
            syn::Item::Struct(item) => self.note(&item.ident),
            syn::Item::Enum(item) => self.note(&item.ident),
            syn::Item::Union(item) => self.note(&item.ident),
            syn::Item::Trait(item) => self.note(&item.ident),
            syn::Item::Macro(item) if item.ident.is_none() => {
                tree::types_in(item.mac.tokens.clone()).iter().for_each(|name| self.note(name));
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// What is wrong with a list.
fn faults(declared: &Declared, list: &BTreeMap<String, usize>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, files) in &declared.files {
        let known = list.get(name).copied().unwrap_or(1);
        if files.len() > known {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            faults.push(format!(
                "`{name}` is declared in {} files, {known} known: {}",
                files.len(),
                files.join(", ")
            ));
        }
    }
    for (name, known) in list {
        let count = declared.files.get(name).map_or(0, BTreeSet::len);
        if count < *known || *known < 2 {
            faults.push(format!(
                "`{name}` is declared in {count} files: {LIST} says {known}, and may say less"
            ));
        }
    }
    faults
}

/// The list with the current numbers if those are smaller.
fn shortened(declared: &Declared, list: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let count = |name: &str| declared.files.get(name).map_or(0, BTreeSet::len);
    let smaller = list.iter().map(|(name, known)| (name.clone(), count(name).min(*known)));
    smaller.filter(|(_, count)| *count > 1).collect()
}

fn written(list: &BTreeMap<String, usize>) -> String {
    let mut text = HEADER.to_owned();
    list.iter().for_each(|(name, count)| writeln!(text, "{name} = {count}").unwrap());
    text
}

/// The lines `name = number` of a table.
pub fn numbers(path: &str, text: &str) -> BTreeMap<String, usize> {
    let root = toml_span::parse(text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let number = |value: &toml_span::Value<'_>| usize::try_from(value.as_integer().unwrap()).unwrap();
    root.as_table().unwrap().iter().map(|(name, value)| (name.name.to_string(), number(value))).collect()
}

#[test]
fn a_type_name_is_declared_in_one_file() {
    let mut declared = Declared::default();
    for folder in ["core", "architectures", "plugins"] {
        for file in rust_files(&root().join(folder)) {
            let inside = path_inside(&file);
            if !is_for_tests(&inside) && !inside.contains("/tables/") {
                declared.file(&inside, &std::fs::read_to_string(&file).unwrap());
            }
        }
    }
    let path = root().join(LIST);
    let mut list = numbers(LIST, &std::fs::read_to_string(&path).unwrap());
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        list = shortened(&declared, &list);
        std::fs::write(&path, written(&list)).unwrap();
    }
    let twice = declared.files.values().filter(|files| files.len() > 1).count();
    println!("{} names of types, {twice} of them in several files", declared.files.len());
    assert!(declared.files.len() > 800, "the test sees only {} names", declared.files.len());
    let faults = faults(&declared, &list);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_name_in_two_files_is_found() {
    let mut declared = Declared::default();
    declared.file("a.rs", "struct Part; mod deep { enum Step {} } #[cfg(test)] mod tests { struct Once; } made! { pub enum Made {} }");
    declared.file("b.rs", "trait Part {} fn f() { struct Step; } struct Once; struct Part2; struct Made;");
    let list = |names: &[(&str, usize)]| -> BTreeMap<String, usize> {
        names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let right = list(&[("Made", 2), ("Part", 2), ("Step", 2)]);
    assert_eq!(faults(&declared, &right), [""; 0]);
    assert_eq!(
        faults(&declared, &list(&[("Made", 2), ("Part", 2)])),
        ["`Step` is declared in 2 files, 1 known: a.rs, b.rs"]
    );
    let wrong = list(&[("Gone", 2), ("Made", 2), ("Once", 2), ("Part", 3), ("Step", 2)]);
    assert_eq!(faults(&declared, &wrong).len(), 3);
    assert_eq!(shortened(&declared, &wrong), right);
    assert_eq!(numbers("made up", &written(&right)), right);
}
