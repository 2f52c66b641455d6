//! The search for arrows and cycles on small sources that were written for it.

use super::arrows::{arrows, graph};
use super::cycles::{Graph, back_arrows, components, is_within, shortest_cycle, without};
use super::tree::{ModuleId, Tree};
use std::collections::BTreeMap;

/// The modules of a crate of these files.
fn tree(files: &[(&str, &str)]) -> Tree {
    let files: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    Tree::read(&files)
}

/// The arrows in a scope, as `from -> to`.
fn shown(tree: &Tree, scope: ModuleId) -> Vec<String> {
    arrows(tree, scope).keys().map(|(from, to)| format!("{from} -> {to}")).collect()
}

/// The arrows of a crate of these files.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    shown(&tree(files), 0)
}

/// The arrows of module `a` of a crate where `b` defines things, `c` re-exports one and the root another.
fn of_a(a: &str) -> Vec<String> {
    found(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use d::Shown; pub use d::d;"),
        ("a.rs", a),
        (
            "b.rs",
            "pub struct Item; pub enum Choice { One } pub fn make() {} pub mod inner { pub struct Deep; }",
        ),
        ("c/mod.rs", "pub use crate::b::Item; pub use crate::d::*; pub mod nested;"),
        ("c/nested.rs", "pub struct Nested; use super::super::d::Shown as _;"),
        (
            "d.rs",
            "pub struct Shown; pub fn d() {} made! { pub enum Made { One } } macro_rules! local { () => {} } pub(crate) use local;",
        ),
    ])
}

/// Those of the modules that do not change.
const OTHERS: [&str; 2] = ["c -> b", "c -> d"];

fn assert_a(a: &str, to: &[&str]) {
    let mut expected: Vec<String> = to.iter().map(|to| format!("a -> {to}")).collect();
    expected.extend(OTHERS.map(str::to_owned));
    assert_eq!(of_a(a), expected, "{a}");
}

#[test]
fn uses_and_paths_are_arrows() {
    assert_a("", &[]);
    assert_a("use crate::b::Item;", &["b"]);
    assert_a("use crate::{b::{self, Choice as Other}, c::nested::Nested};", &["b", "c"]);
    assert_a("use super::b::inner::Deep;", &["b"]);
    assert_a("use crate::b;", &["b"]);
    assert_a("fn f() { crate::b::make(); }", &["b"]);
    assert_a("fn f(x: Option<crate::b::Item>) {}", &["b"]);
    assert_a("fn f(x: &dyn crate::c::Any) {}", &["c"]);
    assert_a("fn f() { use super::d::Shown; }", &["d"]);
    assert_a("impl From<crate::b::Item> for u8 {}", &["b"]);
    assert_a("fn f() { match x { super::b::Choice::One => {} } }", &["b"]);
    assert_a("mod deep { use super::super::b::Item; }", &["b"]);
}

#[test]
fn macros_are_looked_into() {
    assert_a("fn f() { vec![crate::b::make()]; }", &["b"]);
    assert_a("fn f() { assert!(if x { super::d::d() } else { 0 }); }", &["d"]);
    assert_a("macro_rules! m { () => { $crate::b::make() } }", &["b"]);
    assert_a("use crate::d::local; local!();", &["d"]);
    assert_a("fn f() { print!(\"{}\", x.crate_b.make(b, c)); }", &[]);
}

#[test]
fn re_exports_lead_to_the_module_that_defines() {
    assert_a("use crate::c::Item;", &["b"]);
    assert_a("use crate::Shown;", &["d"]);
    assert_a("use crate::c::Shown;", &["d"]);
    assert_a("use crate::c::Made;", &["d"]);
    assert_a("use crate::c; fn f(x: c::Item) {}", &["b", "c"]);
    assert_a("use super::*; fn f(x: Shown) {}", &["d"]);
    // `d` is a module and a function: a call means the function, a path through it the module.
    assert_a("use crate::d; fn f() { d(); }", &["d"]);
}

#[test]
fn what_is_not_named_is_no_arrow() {
    assert_a("use b::Item; use std::c::Item; fn f(b: u8) { ::b::make(); b.c(); }", &[]);
    assert_a("#[cfg(test)] mod tests { use crate::b::Item; }", &[]);
    assert_a("#[cfg(test)] use crate::b::Item;", &[]);
    assert_a("#[cfg(all(test, unix))] fn f() { crate::b::make(); }", &[]);
    assert_a("impl X { #[cfg(test)] fn f() { crate::b::make(); } }", &[]);
    assert_a("/// [`crate::b::Item`]\npub(in crate::b) struct X;", &[]);
    assert_a("struct Item; fn f(x: Item) { self::f(Item) }", &[]);
}

/// The root takes part with what it defines, not with what it re-exports.
#[test]
fn the_root_is_a_module_by_its_own_items() {
    let files = [
        ("lib.rs", "mod a; pub use a::A; pub fn f() { a::g() }"),
        ("a.rs", "pub struct A; fn g() { crate::f() }"),
    ];
    assert_eq!(found(&files), ["a -> lib", "lib -> a"]);
    let files = [("lib.rs", "mod a; pub use a::A;"), ("a.rs", "pub struct A; use crate::A as B;")];
    assert_eq!(found(&files), [""; 0]);
}

/// The modules inside a module have their own arrows; arrows to the outside belong to the crate.
#[test]
fn modules_inside_a_module_have_arrows() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a/mod.rs", "pub mod x; mod y; pub use y::Y; pub struct A; fn f() { x::X; }"),
        ("a/x.rs", "pub mod deep; pub struct X; use super::Y; use crate::b::B;"),
        ("a/x/deep.rs", "use super::super::A; use super::X;"),
        ("a/y.rs", "pub struct Y; fn f(x: crate::a::x::X) {}"),
        ("b.rs", "pub struct B; use crate::a::Y;"),
        ("c.rs", ""),
    ];
    let tree = tree(&files);
    let scopes = tree.scopes();
    assert_eq!(scopes.iter().map(|scope| &*tree.modules[*scope].name).collect::<Vec<_>>(), ["", "a"]);
    assert_eq!(shown(&tree, scopes[0]), ["a -> b", "b -> a"]);
    assert_eq!(shown(&tree, scopes[1]), ["mod -> x", "x -> mod", "x -> y", "y -> x"]);
}

fn made(arrows: &[&str]) -> Graph {
    let mut made = super::arrows::Arrows::new();
    for arrow in arrows {
        let (from, to) = arrow.split_once(' ').unwrap();
        made.insert((from.to_owned(), to.to_owned()), vec![String::new()]);
    }
    graph(&made)
}

#[test]
fn cycles_are_found() {
    let two_rings = made(&["a b", "b c", "c a", "c d", "d e", "e d", "e f"]);
    assert_eq!(components(&two_rings), [vec!["a", "b", "c"], vec!["d", "e"], vec!["f"]]);
    assert_eq!(shortest_cycle(&two_rings, &components(&two_rings)[0]), ["a", "b", "c", "a"]);
    assert!(!is_within(&two_rings, 2) && is_within(&two_rings, 3));
    let chorded = made(&["a b", "b c", "c d", "d a", "c b"]);
    assert_eq!(shortest_cycle(&chorded, &components(&chorded)[0]), ["b", "c", "b"]);
    assert_eq!(shortest_cycle(&made(&["a b"]), &["a".to_owned(), "b".to_owned()]), [""; 0]);
}

#[test]
fn few_arrows_break_the_cycles() {
    // Two rings of three that share `x`: one arrow each, and one alone where a cycle may have three modules.
    let graph = made(&["x a", "a b", "b x", "x c", "c d", "d x"]);
    for (limit, count) in [(1, 2), (2, 2), (3, 1), (4, 1), (5, 0)] {
        let removed = back_arrows(&graph, limit, &|_| 1);
        assert_eq!(removed.len(), count, "{limit}: {removed:?}");
        assert!(is_within(&without(&graph, &removed), limit));
    }
    // The arrow with few places goes.
    let ring = made(&["a b", "b c", "c a"]);
    let removed = back_arrows(&ring, 1, &|arrow| if arrow.0 == "b" { 1 } else { 9 });
    assert_eq!(removed, [("b".to_owned(), "c".to_owned())]);
}
