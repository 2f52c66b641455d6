//! The modules of each crate of `core` form no large cycles, and neither do the modules inside each of them (`spec/language`
//! is the module `language` of `spec`; its own items count as a module `mod`). `tests/layers/module-arrows.toml` lists the
//! arrows that still do; the list may only shrink.
//!
//! `cargo test -p menagerie-conformance --test layers modules -- --nocapture` prints the cycles of each crate, and
//! `MENAGERIE_CYCLES=spec` before it the arrows of one crate that are best removed, with their places in the code.
//! `MENAGERIE_WRITE_GENERATED=1` rewrites the list where it became shorter.

use super::arrows::{Arrows, arrows, graph};
use super::code::{Library, libraries};
use super::cycles::{Arrow, Graph, back_arrows, components, is_within, pruned, shortest_cycle, without};
use super::tree::{ModuleId, Tree};
use menagerie_conformance::root;
use std::collections::BTreeMap;
use std::fmt::Write;

const LIST: &str = "tests/layers/module-arrows.toml";
/// The most modules of one cycle.
const LIMIT: usize = 4;
/// Crates whose modules form no cycle at all.
const WITHOUT_CYCLES: [&str; 4] = ["engine", "formulas", "measure", "open"];
const HEADER: &str = "# Arrows between modules of one crate that close a cycle of too many modules. `most` is the length of a list and may\n\
                      # only become smaller. `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers modules` rewrites\n\
                      # a list that became shorter.\n";

/// The known arrows of one crate.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    most: usize,
    arrows: Vec<Arrow>,
}

/// One crate, or one module of a crate, with the arrows between its modules.
struct Inside {
    name: String,
    arrows: Arrows,
    graph: Graph,
}

impl Inside {
    /// A library, and each of its modules that contains modules.
    fn all_of(library: &Library) -> Vec<Self> {
        let tree = Tree::read(&library.files);
        let one = |scope: ModuleId| {
            let arrows = arrows(&tree, scope);
            let inside = if scope == 0 { String::new() } else { format!("/{}", tree.modules[scope].name) };
            Self { name: format!("{}{inside}", library.name), graph: graph(&arrows), arrows }
        };
        tree.scopes().into_iter().map(one).collect()
    }

    fn limit(&self) -> usize {
        if WITHOUT_CYCLES.contains(&&*self.name) { 1 } else { LIMIT }
    }

    fn places(&self, arrow: &Arrow) -> usize {
        self.arrows.get(arrow).map_or(0, Vec::len)
    }

    /// `a -> b (file:1, file:2, 3 more)`.
    fn described(&self, arrow: &Arrow) -> String {
        let places = self.arrows.get(arrow).map_or(&[][..], Vec::as_slice);
        let mut shown = places.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        if places.len() > 3 {
            write!(shown, ", {} more", places.len() - 3).unwrap();
        }
        format!("{} -> {} ({shown})", arrow.0, arrow.1)
    }

    /// What is wrong with the crate and its list.
    fn faults(&self, known: &Known) -> Vec<String> {
        let (name, limit, mut faults) = (&self.name, self.limit(), Vec::new());
        for arrow in known.arrows.iter().filter(|arrow| self.places(arrow) == 0) {
            faults.push(format!(
                "{name}: {} -> {} is no longer in the code: remove it from {LIST}",
                arrow.0, arrow.1
            ));
        }
        let rest = without(&self.graph, &known.arrows);
        for component in components(&rest).iter().filter(|component| component.len() > limit) {
            let cycle = shortest_cycle(&rest, component);
            let steps = cycle.windows(2).map(|pair| self.described(&(pair[0].clone(), pair[1].clone())));
            let best = back_arrows(&rest, limit, &|arrow| self.places(arrow));
            faults.push(format!(
                "{name}: {} modules form a cycle, at most {limit}: {}\n  a shortest cycle: {}\n  without these \
                 arrows it is broken: {}",
                component.len(),
                component.join(", "),
                steps.collect::<Vec<_>>().join("; "),
                best.iter().map(|arrow| self.described(arrow)).collect::<Vec<_>>().join("; "),
            ));
        }
        let needed = pruned(&self.graph, known.arrows.clone(), limit, &|arrow| self.places(arrow));
        for arrow in known.arrows.iter().filter(|arrow| !needed.contains(arrow) && self.places(arrow) > 0) {
            faults.push(format!(
                "{name}: {} -> {} closes no large cycle any more: remove it from {LIST}",
                arrow.0, arrow.1
            ));
        }
        if known.arrows.len() != known.most {
            faults.push(format!(
                "{name}: {LIST} lists {} arrows and says `most = {}`: the list may only shrink",
                known.arrows.len(),
                known.most
            ));
        }
        faults
    }

    /// The list as it would be now: the known arrows that are still needed, or others if those are fewer or too few.
    fn shortened(&self, known: &Known) -> Known {
        let places = |arrow: &Arrow| self.places(arrow);
        let still = known.arrows.iter().filter(|arrow| places(arrow) > 0).cloned().collect::<Vec<_>>();
        let mut candidates = vec![back_arrows(&self.graph, self.limit(), &places)];
        if is_within(&without(&self.graph, &still), self.limit()) {
            candidates.insert(0, pruned(&self.graph, still, self.limit(), &places));
        }
        let arrows = candidates.into_iter().min_by_key(Vec::len).unwrap_or_default();
        Known { most: arrows.len(), arrows }
    }
}

/// The text of a list.
fn written(lists: &BTreeMap<String, Known>) -> String {
    let mut text = HEADER.to_owned();
    for (name, known) in lists.iter().filter(|(_, known)| known.most > 0) {
        let key = if name.contains('/') { format!("{name:?}") } else { name.clone() };
        write!(text, "\n[{key}]\nmost = {}\narrows = [\n", known.most).unwrap();
        known.arrows.iter().for_each(|(from, to)| writeln!(text, "    \"{from} -> {to}\",").unwrap());
        text.push_str("]\n");
    }
    text
}

/// Reads the text of a list.
fn read(text: &str) -> BTreeMap<String, Known> {
    let root = toml_span::parse(text).unwrap_or_else(|error| panic!("{LIST}: {error}"));
    let known = |name: &str, value: &toml_span::Value<'_>| {
        let most = value.pointer("/most").and_then(toml_span::Value::as_integer);
        let arrows = value.pointer("/arrows").and_then(toml_span::Value::as_array);
        let (Some(most), Some(arrows)) = (most, arrows) else {
            panic!("{LIST}: [{name}] has no `most` or no `arrows`")
        };
        let pair = |arrow: &toml_span::Value<'_>| {
            let (from, to) = arrow.as_str().and_then(|arrow| arrow.split_once(" -> ")).expect("`from -> to`");
            (from.to_owned(), to.to_owned())
        };
        Known { most: usize::try_from(most).unwrap(), arrows: arrows.iter().map(pair).collect() }
    };
    let tables = root.as_table().unwrap().iter();
    tables.map(|(name, value)| (name.name.to_string(), known(&name.name, value))).collect()
}

#[test]
fn modules_form_no_large_cycles() {
    let path = root().join(LIST);
    let mut lists = read(&std::fs::read_to_string(&path).unwrap());
    let (scopes, mut faults) =
        (libraries(&["core"]).iter().flat_map(Inside::all_of).collect::<Vec<_>>(), Vec::new());
    for inside in &scopes {
        print_cycles(inside);
        let known = lists.entry(inside.name.clone()).or_default();
        if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
            let shorter = inside.shortened(known);
            if shorter.most <= known.most {
                *known = shorter;
            }
        }
        faults.extend(inside.faults(known));
    }
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&path, written(&lists)).unwrap();
    }
    for name in lists.keys().filter(|name| !scopes.iter().any(|inside| inside.name == **name)) {
        faults.push(format!("{LIST} has a list for `{name}`, which is neither a crate of core nor a module of one with modules"));
    }
    let crates = scopes.iter().filter(|inside| !inside.name.contains('/')).count();
    assert!(
        crates > 15 && scopes.len() > 3 * crates,
        "only {} scopes of {crates} crates were checked",
        scopes.len()
    );
    assert!(scopes.iter().map(|inside| inside.arrows.len()).sum::<usize>() > 500, "few arrows were found");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Prints how many modules and arrows a crate has and its cycles, and for the crate of `MENAGERIE_CYCLES` what breaks them.
fn print_cycles(inside: &Inside) {
    let cycles = components(&inside.graph);
    let sizes: Vec<usize> = cycles.iter().map(Vec::len).filter(|size| *size > 1).collect();
    println!(
        "{}: {} modules, {} arrows, cycles of {sizes:?} modules",
        inside.name,
        inside.graph.len(),
        inside.arrows.len()
    );
    if std::env::var("MENAGERIE_CYCLES").is_ok_and(|name| inside.name.split('/').next() == Some(&*name)) {
        for limit in [1, LIMIT] {
            println!("  so that no cycle has more than {limit}:");
            for arrow in back_arrows(&inside.graph, limit, &|arrow| inside.places(arrow)) {
                println!("    {} -> {}: {}", arrow.0, arrow.1, inside.arrows[&arrow].join(" "));
            }
        }
        for cycle in cycles.iter().filter(|cycle| cycle.len() > 1) {
            println!("  cycle: {}", cycle.join(", "));
        }
    }
}

fn inside(name: &str, arrows: &[&str]) -> Inside {
    let pair = |arrow: &&str| {
        let (from, to) = arrow.split_once(' ').unwrap();
        ((from.to_owned(), to.to_owned()), vec!["lib.rs:1".to_owned()])
    };
    let arrows: Arrows = arrows.iter().map(pair).collect();
    Inside { name: name.to_owned(), graph: graph(&arrows), arrows }
}

/// A ring of five modules is found, passes with an arrow of the list, and a list must be as short as it can be.
#[test]
fn a_list_is_held_to_the_code() {
    let ring = inside("made-up", &["a b", "b c", "c d", "d e", "e a", "e f"]);
    let known = |most: usize, arrows: &[(&str, &str)]| Known {
        most,
        arrows: arrows.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
    };
    let faults = ring.faults(&known(0, &[]));
    assert!(faults.len() == 1 && faults[0].contains("5 modules form a cycle"), "{faults:?}");
    assert!(faults[0].contains("a -> b (lib.rs:1); b -> c"), "{faults:?}");
    assert_eq!(ring.faults(&known(1, &[("e", "a")])), [""; 0]);
    assert_eq!(ring.shortened(&known(2, &[("e", "a"), ("e", "f")])), known(1, &[("e", "a")]));
    for (list, fault) in [
        (known(0, &[("e", "a")]), "may only shrink"),
        (known(2, &[("e", "a")]), "may only shrink"),
        (known(2, &[("e", "a"), ("e", "f")]), "closes no large cycle"),
        (known(2, &[("e", "a"), ("a", "e")]), "no longer in the code"),
    ] {
        let faults = ring.faults(&list);
        assert!(faults.len() == 1 && faults[0].contains(fault), "{list:?}: {faults:?}");
    }
    let pair = inside("open", &["a b", "b a"]);
    assert!(pair.faults(&known(0, &[]))[0].contains("at most 1"));
    assert_eq!(inside("made-up", &["a b", "b a"]).faults(&known(0, &[])), [""; 0]);
    let lists = ["made-up", "made-up/inside"].map(|name| (name.to_owned(), known(1, &[("e", "a")])));
    let lists = BTreeMap::from(lists);
    assert_eq!(read(&written(&lists)), lists);
}
