//! Cycles of a graph: its strongly connected components, a shortest cycle, and few arrows whose removal breaks them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The nodes that each node points to.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// `(from, to)`.
pub type Arrow = (String, String);

/// The sets of nodes that reach each other, including sets of one node, the largest first.
pub fn components(graph: &Graph) -> Vec<Vec<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|node| (node.as_str(), reachable(graph, node))).collect();
    let (mut found, mut seen): (Vec<Vec<String>>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for node in graph.keys() {
        if !seen.contains(node.as_str()) {
            let mutual =
                reached[node.as_str()].iter().filter(|other| reached[**other].contains(node.as_str()));
            let mut component: BTreeSet<&str> = mutual.copied().collect();
            component.insert(node);
            seen.extend(&component);
            found.push(component.into_iter().map(str::to_owned).collect());
        }
    }
    found.sort_by_key(|component| std::cmp::Reverse(component.len()));
    found
}

/// The nodes that arrows lead to from a node.
fn reachable<'g>(graph: &'g Graph, from: &str) -> BTreeSet<&'g str> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(node) = next.pop() {
        for to in graph.get(node).into_iter().flatten() {
            if seen.insert(to.as_str()) {
                next.push(to);
            }
        }
    }
    seen
}

/// A shortest cycle among some nodes, from its first node back to it; empty if there is none.
pub fn shortest_cycle(graph: &Graph, nodes: &[String]) -> Vec<String> {
    let cycles = nodes.iter().filter_map(|node| cycle_through(graph, node));
    cycles.min_by_key(Vec::len).unwrap_or_default()
}

fn cycle_through(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut before = BTreeMap::<&str, &str>::new();
    let mut next = VecDeque::from([start]);
    while let Some(node) = next.pop_front() {
        for to in graph.get(node).into_iter().flatten() {
            if to == start {
                let mut cycle = vec![start.to_owned()];
                let mut at = node;
                while at != start {
                    cycle.push(at.to_owned());
                    at = before[at];
                }
                cycle.push(start.to_owned());
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(to.as_str()) {
                before.insert(to, node);
                next.push_back(to);
            }
        }
    }
    None
}

/// A graph without some arrows.
pub fn without(graph: &Graph, arrows: &[Arrow]) -> Graph {
    let mut graph = graph.clone();
    for (from, to) in arrows {
        if let Some(targets) = graph.get_mut(from) {
            targets.remove(to);
        }
    }
    graph
}

/// Whether no cycle has more than `limit` nodes.
pub fn is_within(graph: &Graph, limit: usize) -> bool {
    components(graph).first().is_none_or(|largest| largest.len() <= limit)
}

/// Few arrows without which no cycle has more than `limit` nodes: those against a good order of each component, minus
/// those that can stay. `weight` is the number of places of an arrow.
pub fn back_arrows(graph: &Graph, limit: usize, weight: &dyn Fn(&Arrow) -> usize) -> Vec<Arrow> {
    let mut removed = Vec::new();
    for component in components(graph).into_iter().filter(|component| component.len() > limit) {
        let inside: BTreeSet<&String> = component.iter().collect();
        let arrows: Vec<Arrow> = component
            .iter()
            .flat_map(|from| graph[from].iter().map(move |to| (from.clone(), to.clone())))
            .filter(|(_, to)| inside.contains(to))
            .collect();
        let order = ordered(component, &arrows, weight);
        let place: BTreeMap<&String, usize> = order.iter().enumerate().map(|(at, node)| (node, at)).collect();
        removed.extend(arrows.into_iter().filter(|(from, to)| place[from] > place[to]));
    }
    pruned(graph, removed, limit, weight)
}

/// The arrows of a list that must stay removed, so that no cycle has more than `limit` nodes.
pub fn pruned(
    graph: &Graph,
    mut removed: Vec<Arrow>,
    limit: usize,
    weight: &dyn Fn(&Arrow) -> usize,
) -> Vec<Arrow> {
    removed.sort_by_key(|arrow| std::cmp::Reverse(weight(arrow)));
    for arrow in removed.clone() {
        let others: Vec<Arrow> = removed.iter().filter(|other| **other != arrow).cloned().collect();
        if is_within(&without(graph, &others), limit) {
            removed = others;
        }
    }
    removed.sort();
    removed
}

/// An order of nodes against which few arrows point: each node is moved to its best place until nothing improves.
fn ordered(mut order: Vec<String>, arrows: &[Arrow], weight: &dyn Fn(&Arrow) -> usize) -> Vec<String> {
    let ascending = |node: &String| arrows.iter().filter(|(_, to)| to == node).count();
    order.sort_by_key(ascending);
    let cost = |order: &[String]| -> usize {
        let place: BTreeMap<&String, usize> = order.iter().enumerate().map(|(at, node)| (node, at)).collect();
        let against = arrows.iter().filter(|(from, to)| place[from] > place[to]);
        against.map(|arrow| 1000 + weight(arrow)).sum()
    };
    let mut best = cost(&order);
    loop {
        let before = best;
        for from in 0..order.len() {
            for to in 0..order.len() {
                let mut other = order.clone();
                let node = other.remove(from);
                other.insert(to, node);
                let cost = cost(&other);
                if cost < best {
                    (order, best) = (other, cost);
                }
            }
        }
        if best == before {
            return order;
        }
    }
}
