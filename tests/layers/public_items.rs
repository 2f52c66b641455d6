//! The number of public items of each library may only shrink: `tests/layers/public-items.toml` holds the most of each.
//! Functions, methods, types, traits, constants, modules and `pub use` count, one each; fields, items behind `pub(crate)`
//! and those with `#[doc(hidden)]` do not.
//!
//! `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers public_items` rewrites the numbers that
//! became smaller, and adds those of new libraries while the sum does not grow.

use super::code::libraries;
use super::names_once::numbers;
use super::tree;
use menagerie_conformance::{is_for_tests, is_test_code, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use syn::visit::{self, Visit};

const LIST: &str = "tests/layers/public-items.toml";
/// The sum of the list; it may only become smaller.
const TOTAL: &str = "total";
/// A library may have this many fewer items than the list allows, so that small changes do not touch the list.
const SLACK: usize = 10;
const HEADER: &str = "# The most public items of each library: functions, methods, types, traits, constants, modules and `pub use`. `total` is\n\
                      # their sum. The numbers may only become smaller, except with a new feature; items that move to another library take\n\
                      # their number with them.\n\
                      # `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers public_items` rewrites them.\n\n";

/// Counts the public items of a file.
#[derive(Default)]
struct Count(usize);

impl Count {
    fn item(&mut self, visibility: &syn::Visibility, attributes: &[syn::Attribute]) {
        let is_hidden = attributes.iter().any(|attribute| {
            attribute.path().is_ident("doc")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "hidden")
        });
        self.0 += usize::from(matches!(visibility, syn::Visibility::Public(_)) && !is_hidden);
    }

    fn of(text: &str) -> usize {
        let mut count = Self::default();
        count.visit_file(&syn::parse_file(text).unwrap());
        count.0
    }
}

fn visibility(item: &syn::Item) -> &syn::Visibility {
    match item {
        syn::Item::Const(item) => &item.vis,
        syn::Item::Enum(item) => &item.vis,
        syn::Item::ExternCrate(item) => &item.vis,
        syn::Item::Fn(item) => &item.vis,
        syn::Item::Mod(item) => &item.vis,
        syn::Item::Static(item) => &item.vis,
        syn::Item::Struct(item) => &item.vis,
        syn::Item::Trait(item) => &item.vis,
        syn::Item::Type(item) => &item.vis,
        syn::Item::Union(item) => &item.vis,
        syn::Item::Use(item) => &item.vis,
        _ => &syn::Visibility::Inherited,
    }
}

impl<'ast> Visit<'ast> for Count {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_code(tree::attributes(item)) {
            self.item(visibility(item), tree::attributes(item));
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_code(&item.attrs) {
            self.item(&item.vis, &item.attrs);
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.item(&item.vis, &item.attrs);
    }
}

type Counts = BTreeMap<String, usize>;

/// What is wrong with a list.
fn faults(counts: &Counts, list: &Counts) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, count) in counts {
        match list.get(name) {
            None => faults.push(format!("{LIST} has no number for `{name}`, which has {count} public items")),
            Some(most) if count > most => {
                faults.push(format!(
                    "`{name}` has {count} public items, at most {most}: can some be `pub(crate)`?"
                ));
            }
            Some(most) if count + SLACK < *most => {
                faults
                    .push(format!("`{name}` has {count} public items: {LIST} says {most}, and may say less"));
            }
            Some(_) => {}
        }
    }
    let gone = list.keys().filter(|name| *name != TOTAL && !counts.contains_key(*name));
    faults.extend(gone.map(|name| format!("{LIST} has a number for `{name}`, which is not a library")));
    let (sum, total) = (sum(list), list.get(TOTAL).copied().unwrap_or_default());
    if sum != total {
        faults.push(format!("the numbers of {LIST} add up to {sum}, and `{TOTAL}` is {total}"));
    }
    faults
}

fn sum(list: &Counts) -> usize {
    list.iter().filter(|(name, _)| *name != TOTAL).map(|(_, most)| most).sum()
}

/// The list with the current numbers if they are smaller, and with new libraries if the sum does not grow.
fn shortened(counts: &Counts, list: &Counts) -> Counts {
    let smaller = |(name, count): (&String, &usize)| {
        (name.clone(), list.get(name).map_or(*count, |most| *most.min(count)))
    };
    let mut new: Counts = counts.iter().map(smaller).collect();
    let total = list.get(TOTAL).copied().unwrap_or_default();
    if sum(&new) > total {
        new.retain(|name, _| list.contains_key(name));
    }
    new.insert(TOTAL.to_owned(), sum(&new).min(total));
    new
}

fn written(list: &Counts) -> String {
    let mut text = HEADER.to_owned();
    writeln!(text, "{TOTAL} = {}\n", list[TOTAL]).unwrap();
    for (name, most) in list.iter().filter(|(name, _)| *name != TOTAL) {
        writeln!(text, "{name} = {most}").unwrap();
    }
    text
}

#[test]
fn public_items_become_fewer() {
    let mut counts = Counts::new();
    for library in libraries(&["core", "architectures"]) {
        let files = library.files.iter().filter(|(path, _)| !is_for_tests(&format!("src/{path}")));
        *counts.entry(library.name).or_default() += files.map(|(_, text)| Count::of(text)).sum::<usize>();
    }
    let path = root().join(LIST);
    let mut list = numbers(LIST, &std::fs::read_to_string(&path).unwrap());
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        list = shortened(&counts, &list);
        std::fs::write(&path, written(&list)).unwrap();
    }
    println!("{} public items: {counts:?}", counts.values().sum::<usize>());
    assert!(counts.values().sum::<usize>() > 500, "few public items were seen: {counts:?}");
    let faults = faults(&counts, &list);
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn public_items_are_counted() {
    assert_eq!(
        Count::of("pub struct A { pub a: u8 } pub use b::{C, D}; pub mod m { pub fn f() {} fn g() {} }"),
        4
    );
    assert_eq!(
        Count::of(
            "impl A { pub fn f() {} pub(crate) fn g() {} pub const X: u8 = 0; } impl B for A { fn f() {} }"
        ),
        2
    );
    assert_eq!(
        Count::of(
            "#[doc(hidden)] pub fn f() {} #[cfg(test)] pub mod tests { pub fn f() {} } pub(super) enum E {}"
        ),
        0
    );
    let list = |numbers: &[(&str, usize)]| -> Counts {
        numbers.iter().map(|(name, most)| ((*name).to_owned(), *most)).collect()
    };
    let counts = list(&[("a", 5), ("new", 20)]);
    assert_eq!(faults(&counts, &list(&[("a", 6), ("new", 20), (TOTAL, 26)])), [""; 0]);
    assert_eq!(faults(&counts, &list(&[("a", 4), ("gone", 3), ("new", 31), (TOTAL, 39)])).len(), 4);
    let known = list(&[("a", 6), ("gone", 30), (TOTAL, 36)]);
    assert_eq!(shortened(&counts, &known), list(&[("a", 5), ("new", 20), (TOTAL, 25)]));
    assert_eq!(shortened(&counts, &list(&[("a", 6), (TOTAL, 6)])), list(&[("a", 5), (TOTAL, 5)]));
    assert_eq!(numbers("made up", &written(&known)), known);
}
