//! The modules of each crate of `core` form no large cycles, and neither do the modules inside each of them
//! (`spec/language` is the module `language` of `spec`; its own items count as a module `mod`).
//! `tests/layers/module-arrows.toml` lists the number of modules in the largest cycle of each crate, and the arrows that
//! close cycles of more than [`LIMIT`]; both may only become smaller.
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
/// The table of the list that holds the largest cycle of each crate.
const LARGEST: &str = "largest-cycle";
/// The most modules of one cycle, in any crate.
const LIMIT: usize = 4;
const HEADER: &str = "# The number of modules in the largest cycle of each crate; the modules of other crates form no cycle. Then, by crate,\n\
                      # the arrows between its modules that close a larger cycle than 4; `most` is the length of the list. All numbers may\n\
                      # only become smaller. `MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-conformance --test layers modules`\n\
                      # rewrites what became smaller.\n";

/// The most modules of one cycle by crate; 1 where a crate is absent.
type Limits = BTreeMap<String, usize>;

/// The known arrows of one crate.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    most: usize,
    arrows: Vec<Arrow>,
}

/// One crate, or one module of a crate, with the arrows between its modules.
struct Inside {
    name: String,
    /// The most modules of one cycle.
    limit: usize,
    arrows: Arrows,
    graph: Graph,
}

impl Inside {
    /// A library, and each of its modules that contains modules.
    fn all_of(library: &Library, limits: &Limits) -> Vec<Self> {
        let tree = Tree::read(&library.files);
        let one = |scope: ModuleId| {
            let arrows = arrows(&tree, scope);
            let inside = if scope == 0 { String::new() } else { format!("/{}", tree.modules[scope].name) };
            let name = format!("{}{inside}", library.name);
            let limit = if scope == 0 { limits.get(&name).copied().unwrap_or(1) } else { LIMIT };
            Self { name, limit, graph: graph(&arrows), arrows }
        };
        tree.scopes().into_iter().map(one).collect()
    }

    fn is_crate(&self) -> bool {
        !self.name.contains('/')
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

    /// Faults of the crate and its list.
    fn faults(&self, known: &Known) -> Vec<String> {
        let (name, limit, mut faults) = (&self.name, self.limit, Vec::new());
        for arrow in known.arrows.iter().filter(|arrow| self.places(arrow) == 0) {
            faults.push(format!(
                "{name}: {} -> {} is no longer in the code: remove it from {LIST}",
                arrow.0, arrow.1
            ));
        }
        let rest = without(&self.graph, &known.arrows);
        let cycles = components(&rest);
        for component in cycles.iter().filter(|component| component.len() > limit) {
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
        let largest = largest(&cycles);
        if self.is_crate() && (largest < limit || limit > LIMIT) {
            faults.push(format!(
                "{name}: the largest cycle has {largest} modules: {LIST} says {limit}, expected {}",
                largest.min(LIMIT)
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

    /// The current list: the known arrows that are still needed, or others if those are fewer or too few.
    fn shortened(&self, known: &Known) -> Known {
        let places = |arrow: &Arrow| self.places(arrow);
        let still = known.arrows.iter().filter(|arrow| places(arrow) > 0).cloned().collect::<Vec<_>>();
        let mut candidates = vec![back_arrows(&self.graph, self.limit, &places)];
        if is_within(&without(&self.graph, &still), self.limit) {
            candidates.insert(0, pruned(&self.graph, still, self.limit, &places));
        }
        let arrows = candidates.into_iter().min_by_key(Vec::len).unwrap_or_default();
        Known { most: arrows.len(), arrows }
    }

    /// Makes the list and the limit as small as the code allows.
    fn shorten(&mut self, known: &mut Known) {
        let shorter = self.shortened(known);
        if shorter.most <= known.most {
            *known = shorter;
        }
        if self.is_crate() {
            self.limit = self.limit.min(largest(&components(&without(&self.graph, &known.arrows))));
        }
    }
}

/// The number of modules in the largest of some cycles.
fn largest(cycles: &[Vec<String>]) -> usize {
    cycles.first().map_or(1, Vec::len)
}

/// The text of the list.
fn written(limits: &Limits, lists: &BTreeMap<String, Known>) -> String {
    let mut text = format!("{HEADER}\n[{LARGEST}]\n");
    let key = |name: &str| if name.contains('/') { format!("{name:?}") } else { name.to_owned() };
    for (name, limit) in limits.iter().filter(|(_, limit)| **limit > 1) {
        writeln!(text, "{} = {limit}", key(name)).unwrap();
    }
    for (name, known) in lists.iter().filter(|(_, known)| known.most > 0) {
        write!(text, "\n[{}]\nmost = {}\narrows = [\n", key(name), known.most).unwrap();
        known.arrows.iter().for_each(|(from, to)| writeln!(text, "    \"{from} -> {to}\",").unwrap());
        text.push_str("]\n");
    }
    text
}

/// Reads the text of the list.
fn read(text: &str) -> (Limits, BTreeMap<String, Known>) {
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
    let (largest, lists): (Vec<_>, Vec<_>) =
        root.as_table().unwrap().iter().partition(|(name, _)| name.name == LARGEST);
    let number = |value: &toml_span::Value<'_>| usize::try_from(value.as_integer().unwrap()).unwrap();
    let limits = largest.into_iter().flat_map(|(_, table)| table.as_table().unwrap().iter());
    (
        limits.map(|(name, value)| (name.name.to_string(), number(value))).collect(),
        lists.into_iter().map(|(name, value)| (name.name.to_string(), known(&name.name, value))).collect(),
    )
}

#[test]
fn modules_form_no_large_cycles() {
    let path = root().join(LIST);
    let (mut limits, mut lists) = read(&std::fs::read_to_string(&path).unwrap());
    let libraries = libraries(&["core"]);
    let mut scopes: Vec<Inside> =
        libraries.iter().flat_map(|library| Inside::all_of(library, &limits)).collect();
    let (mut faults, writes) = (Vec::new(), std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some());
    for inside in &mut scopes {
        print_cycles(inside);
        let known = lists.entry(inside.name.clone()).or_default();
        if writes {
            inside.shorten(known);
            if inside.is_crate() {
                limits.insert(inside.name.clone(), inside.limit);
            }
        }
        faults.extend(inside.faults(known));
    }
    if writes {
        std::fs::write(&path, written(&limits, &lists)).unwrap();
    }
    let listed = limits.keys().chain(lists.keys());
    for name in listed.filter(|name| !scopes.iter().any(|inside| inside.name == **name)) {
        faults.push(format!(
            "{LIST} lists `{name}`, which is neither a crate of core nor a module of one with modules"
        ));
    }
    let crates = scopes.iter().filter(|inside| inside.is_crate()).count();
    assert!(
        crates > 15 && scopes.len() > 3 * crates,
        "only {} scopes of {crates} crates were checked",
        scopes.len()
    );
    assert!(scopes.iter().map(|inside| inside.arrows.len()).sum::<usize>() > 500, "few arrows were found");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Prints how many modules and arrows a crate has and its cycles, and for the crate of `MENAGERIE_CYCLES` the arrows
/// that break them.
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

fn inside(limit: usize, arrows: &[&str]) -> Inside {
    let pair = |arrow: &&str| {
        let (from, to) = arrow.split_once(' ').unwrap();
        ((from.to_owned(), to.to_owned()), vec!["lib.rs:1".to_owned()])
    };
    let arrows: Arrows = arrows.iter().map(pair).collect();
    Inside { name: "made-up".to_owned(), limit, graph: graph(&arrows), arrows }
}

/// A ring of five modules is reported and passes with an arrow of the list; a list must be as short as it can be.
#[test]
fn a_list_is_held_to_the_code() {
    let ring = inside(4, &["a b", "b c", "c d", "d e", "e a", "e f", "f g", "g h", "h i", "i f"]);
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
    let lists = ["made-up", "made-up/inside"].map(|name| (name.to_owned(), known(1, &[("e", "a")])));
    let (limits, lists) =
        (Limits::from([("other".to_owned(), 2), ("other/inside".to_owned(), 3)]), BTreeMap::from(lists));
    assert_eq!(read(&written(&limits, &lists)), (limits, lists));
}

/// The largest cycle of a crate must match its number, which may only become smaller.
#[test]
fn the_largest_cycle_may_only_become_smaller() {
    let pair = |limit| inside(limit, &["a b", "b a"]);
    assert!(pair(1).faults(&Known::default())[0].contains("at most 1"));
    assert_eq!(pair(2).faults(&Known::default()), [""; 0]);
    assert!(pair(3).faults(&Known::default())[0].contains("says 3, expected 2"));
    assert!(
        inside(5, &["a b", "b c", "c d", "d e", "e a"]).faults(&Known::default())[0].contains("expected 4")
    );
    for (limit, shortened) in [(1, 1), (2, 2), (4, 2)] {
        let mut inside = pair(limit);
        inside.shorten(&mut Known::default());
        assert_eq!(inside.limit, shortened);
    }
}
