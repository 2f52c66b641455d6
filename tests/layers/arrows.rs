//! [`Arrows`]: which modules of a crate, or of one of its modules, name items of which others, and where.

use super::names::Target;
use super::tree::{self, ModuleId, Tree};
use menagerie_conformance::is_test_code;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

/// `(from, to)`, with the places in the code: `file:line`.
pub type Arrows = BTreeMap<(String, String), Vec<String>>;

/// The arrows between the modules directly below `scope`, and between them and the items of `scope` itself. Code for tests
/// and re-exports of `scope` are left out.
pub fn arrows(tree: &Tree, scope: ModuleId) -> Arrows {
    let mut found = Arrows::new();
    for module in (0..tree.modules.len()).filter(|module| tree.part(scope, *module).is_some()) {
        let mut walk = Walk { tree, scope, module, found: &mut found };
        tree.modules[module].items.iter().for_each(|item| walk.visit_item(item));
    }
    found
}

/// The arrows without their places.
pub fn graph(arrows: &Arrows) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph = BTreeMap::<String, BTreeSet<String>>::new();
    for (from, to) in arrows.keys() {
        graph.entry(to.clone()).or_default();
        graph.entry(from.clone()).or_default().insert(to.clone());
    }
    graph
}

struct Walk<'a> {
    tree: &'a Tree,
    scope: ModuleId,
    module: ModuleId,
    found: &'a mut Arrows,
}

impl Walk<'_> {
    fn arrow(&mut self, to: ModuleId, line: usize) {
        let (from, to) = (self.tree.part(self.scope, self.module), self.tree.part(self.scope, to));
        if let (Some(from), Some(to)) = (from, to)
            && from != to
        {
            let place = format!("{}:{line}", self.tree.modules[self.module].file);
            let places = self.found.entry((from.to_owned(), to.to_owned())).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }

    /// A path in code: if the name is both an item and a module, the item is meant, because a module alone is not a
    /// value.
    fn path(&mut self, path: &[String], line: usize) {
        for target in self.tree.resolve(self.module, path) {
            if let Target::Item(module) = target {
                self.arrow(module, line);
            }
        }
    }

    /// The paths in the tokens of a macro, which are not parsed: names with `::` between them, no fields and methods.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut line, mut colons, mut dots, mut is_field) = (Vec::new(), 0, 0, 0, false);
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                token => {
                    if !is_field {
                        self.path(&path, line);
                    }
                    (path, colons, is_field) = (Vec::new(), 0, dots == 1);
                    dots = if matches!(&token, TokenTree::Punct(mark) if mark.as_char() == '.') {
                        dots + 1
                    } else {
                        0
                    };
                    match token {
                        TokenTree::Ident(ident) => {
                            (path, line) = (vec![ident.to_string()], ident.span().start().line);
                        }
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
        }
        if !is_field {
            self.path(&path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_code(tree::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !is_test_code(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if !is_test_code(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_test_code(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_vis_restricted(&mut self, _: &'ast syn::VisRestricted) {}

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if self.module == self.scope && !matches!(item.vis, syn::Visibility::Inherited) {
            return;
        }
        let line = item.use_token.span.start().line;
        for import in tree::imports(&item.tree) {
            let targets = self.tree.resolve(self.module, &import.path);
            let of_items = targets.iter().filter(|target| matches!(target, Target::Item(_))).count();
            // If an item and a module have the same name, the paths that begin with it show which is meant.
            if of_items > 0 && of_items < targets.len() {
                continue;
            }
            for target in targets {
                match target {
                    // The scope contains every module; an item that is reached through it is recorded where it is used.
                    Target::Module(module) if module == self.scope => {}
                    Target::Module(module) | Target::Item(module) => self.arrow(module, line),
                }
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> = path.segments.iter().map(|one| one.ident.to_string()).collect();
            let line = path.segments.first().map_or(0, |one| one.ident.span().start().line);
            self.path(&names, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        visit::visit_macro(self, mac);
        self.tokens(mac.tokens.clone());
    }
}
