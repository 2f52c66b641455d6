//! Name resolution: from a path in a module to the modules that define the item, through imports and re-exports.

use super::tree::{ModuleId, Name, Path, Tree};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Module(ModuleId),
    /// An item, with the module that defines it.
    Item(ModuleId),
}

/// Names whose meaning is being looked up: module, name, index. They are skipped in the search for their own meaning.
type Open = Vec<(ModuleId, String, usize)>;

impl Tree {
    /// The items and modules of this crate to which a path in a module leads; none for other crates, locals and
    /// generics. A module and an item may have the same name, so there may be two answers.
    pub fn resolve(&self, module: ModuleId, path: &[String]) -> Vec<Target> {
        let known = &self.modules[module].resolved;
        if let Some(targets) = known.borrow().get(path) {
            return targets.clone();
        }
        let targets = self.resolve_within(module, path, &mut Open::new());
        known.borrow_mut().insert(path.to_vec(), targets.clone());
        targets
    }

    fn resolve_within(&self, module: ModuleId, path: &[String], open: &mut Open) -> Vec<Target> {
        let (mut found, mut rest) = match path.first().map(String::as_str) {
            Some("crate") => (vec![Target::Module(0)], &path[1..]),
            Some("self") => (vec![Target::Module(module)], &path[1..]),
            Some("super") => match self.modules[module].parent {
                Some(parent) => (vec![Target::Module(parent)], &path[1..]),
                None => return Vec::new(),
            },
            Some(name) => (self.lookup(module, name, open), &path[1..]),
            None => return Vec::new(),
        };
        while let Some((name, after)) = rest.split_first() {
            found = self.step(found, name, open);
            rest = after;
        }
        found
    }

    /// One name further; what follows an item is a part of it, such as a variant.
    fn step(&self, from: Vec<Target>, name: &str, open: &mut Open) -> Vec<Target> {
        let mut next: Vec<Target> = Vec::new();
        let (mut unknown, mut items) = (Vec::new(), Vec::new());
        for target in from {
            match target {
                Target::Item(_) => items.push(target),
                Target::Module(module) if name == "super" => {
                    next.extend(self.modules[module].parent.map(Target::Module));
                }
                Target::Module(module) => {
                    let inside = self.lookup(module, name, open);
                    if inside.is_empty() {
                        // No declaration was seen: a macro made it, in this module.
                        unknown.push(Target::Item(module));
                    }
                    next.extend(inside);
                }
            }
        }
        let found = [next, items, unknown].into_iter().find(|found| !found.is_empty());
        found.unwrap_or_default()
    }

    /// The meanings of a name in a module; imports are followed, explicit ones before globs.
    fn lookup(&self, module: ModuleId, name: &str, open: &mut Open) -> Vec<Target> {
        let mut found = Vec::new();
        for (index, meaning) in self.modules[module].names.get(name).into_iter().flatten().enumerate() {
            match meaning {
                Name::Module(module) => found.push(Target::Module(*module)),
                Name::Item(module) => found.push(Target::Item(*module)),
                Name::Import(path) => found.extend(self.through(module, (name, index), path, open)),
            }
        }
        if found.is_empty() {
            let count = self.modules[module].names.get(name).map_or(0, Vec::len);
            for (index, glob) in self.modules[module].globs.iter().enumerate() {
                for target in self.through(module, (name, count + index), glob, open) {
                    if let Target::Module(other) = target {
                        open.push((module, name.to_owned(), count + index));
                        found.extend(self.lookup(other, name, open));
                        open.pop();
                    }
                }
            }
        }
        let mut once: Vec<Target> = Vec::new();
        found.into_iter().for_each(|target| {
            if !once.contains(&target) {
                once.push(target);
            }
        });
        once
    }

    fn through(&self, module: ModuleId, at: (&str, usize), path: &Path, open: &mut Open) -> Vec<Target> {
        let (name, index) = at;
        if open.iter().any(|(inside, known, at)| (*inside, known.as_str(), *at) == (module, name, index)) {
            return Vec::new();
        }
        open.push((module, name.to_owned(), index));
        let found = self.resolve_within(module, path, open);
        open.pop();
        found
    }
}
