//! [`Tree`]: the modules of one crate as its files declare them, with the names that each declares and imports.

use super::names::Target;
use menagerie_conformance::is_test_code;
use proc_macro2::{TokenStream, TokenTree};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use syn::visit::{self, Visit};

/// Index of a module in [`Tree::modules`]; 0 is the root of the crate.
pub type ModuleId = usize;

/// A path of names, as it is written: `["crate", "kind", "Table"]`.
pub type Path = Vec<String>;

/// What a name of a module stands for.
#[derive(Debug)]
pub enum Name {
    Module(ModuleId),
    /// An item that this module defines.
    Item(ModuleId),
    /// An import of a path.
    Import(Path),
}

/// One module.
pub struct Module {
    pub parent: Option<ModuleId>,
    /// Its own name; the root has none.
    pub name: String,
    /// The file that holds it, below the folder of sources.
    pub file: String,
    pub names: BTreeMap<String, Vec<Name>>,
    /// Paths of `use path::*`.
    pub globs: Vec<Path>,
    /// The items in it that are not modules, without code for tests.
    pub items: Vec<syn::Item>,
    /// The targets of paths that were resolved in it: code names the same few again and again.
    pub resolved: RefCell<HashMap<Path, Vec<Target>>>,
}

/// The modules of a crate.
pub struct Tree {
    pub modules: Vec<Module>,
}

impl Tree {
    /// Reads a crate from the texts of its files, by path below its folder of sources.
    pub fn read(files: &BTreeMap<String, String>) -> Self {
        let mut tree = Self { modules: Vec::new() };
        let root = tree.add(None, String::new(), "lib.rs");
        tree.fill(files, root, "", parse(files, "lib.rs"));
        tree
    }

    /// The module directly below `scope` that contains a module: `lib` or `mod` for `scope` itself, nothing for modules
    /// outside of it.
    pub fn part(&self, scope: ModuleId, module: ModuleId) -> Option<&str> {
        match self.modules[module].parent {
            _ if module == scope => Some(if scope == 0 { "lib" } else { "mod" }),
            None => None,
            Some(parent) if parent == scope => Some(&self.modules[module].name),
            Some(parent) => self.part(scope, parent),
        }
    }

    /// The root, and the modules directly below it that contain modules themselves.
    pub fn scopes(&self) -> Vec<ModuleId> {
        let is_parent = |id: &ModuleId| self.modules.iter().any(|module| module.parent == Some(*id));
        let is_near = |id: &ModuleId| matches!(self.modules[*id].parent, None | Some(0));
        (0..self.modules.len()).filter(|id| is_near(id) && is_parent(id)).collect()
    }

    fn add(&mut self, parent: Option<ModuleId>, name: String, file: &str) -> ModuleId {
        let (names, globs, items) = (BTreeMap::new(), Vec::new(), Vec::new());
        let resolved = RefCell::default();
        self.modules.push(Module { parent, name, file: file.to_owned(), names, globs, items, resolved });
        self.modules.len() - 1
    }

    fn name(&mut self, module: ModuleId, name: impl ToString, meaning: Name) {
        self.modules[module].names.entry(name.to_string()).or_default().push(meaning);
    }

    /// Fills a module with items; `folder` contains the files of its modules.
    fn fill(
        &mut self,
        files: &BTreeMap<String, String>,
        module: ModuleId,
        folder: &str,
        items: Vec<syn::Item>,
    ) {
        for item in items.into_iter().filter(|item| !is_test_code(attributes(item))) {
            match item {
                syn::Item::Mod(item) => self.child(files, module, folder, item),
                item => {
                    self.declare(module, &item);
                    self.modules[module].items.push(item);
                }
            }
        }
    }

    fn child(
        &mut self,
        files: &BTreeMap<String, String>,
        module: ModuleId,
        folder: &str,
        item: syn::ItemMod,
    ) {
        let (name, file) = (item.ident.to_string(), self.modules[module].file.clone());
        let below = format!("{folder}{name}/");
        if let Some((_, items)) = item.content {
            let child = self.add(Some(module), name.clone(), &file);
            self.name(module, &name, Name::Module(child));
            return self.fill(files, child, &below, items);
        }
        let path = [format!("{folder}{name}.rs"), format!("{below}mod.rs")];
        let path = path.iter().find(|path| files.contains_key(*path));
        let path = path.unwrap_or_else(|| panic!("{file}: no file of the module `{name}`"));
        let child = self.add(Some(module), name.clone(), path);
        self.name(module, &name, Name::Module(child));
        self.fill(files, child, &below, parse(files, path));
    }

    /// Records the names that an item declares, and the imports inside it.
    fn declare(&mut self, module: ModuleId, item: &syn::Item) {
        match item {
            syn::Item::Macro(item) => match &item.ident {
                Some(name) => {
                    self.name(module, name, Name::Item(module));
                    if module != 0 && item.attrs.iter().any(|one| one.path().is_ident("macro_export")) {
                        self.name(0, name, Name::Item(module));
                    }
                }
                None => {
                    for name in declared_in(item.mac.tokens.clone()) {
                        self.name(module, name, Name::Item(module));
                    }
                }
            },
            item => {
                if let Some(name) = own_name(item) {
                    self.name(module, name, Name::Item(module));
                }
            }
        }
        let mut imports = Imports { found: Vec::new() };
        imports.visit_item(item);
        for import in imports.found {
            match import.name {
                Some(name) => self.name(module, name, Name::Import(import.path)),
                None if import.is_glob => self.modules[module].globs.push(import.path),
                None => {}
            }
        }
    }
}

fn parse(files: &BTreeMap<String, String>, path: &str) -> Vec<syn::Item> {
    let text = files.get(path).unwrap_or_else(|| panic!("no file {path}"));
    syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}")).items
}

/// The attributes of an item.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn own_name(item: &syn::Item) -> Option<&syn::Ident> {
    match item {
        syn::Item::Const(item) => Some(&item.ident),
        syn::Item::Enum(item) => Some(&item.ident),
        syn::Item::Fn(item) => Some(&item.sig.ident),
        syn::Item::Static(item) => Some(&item.ident),
        syn::Item::Struct(item) => Some(&item.ident),
        syn::Item::Trait(item) => Some(&item.ident),
        syn::Item::Type(item) => Some(&item.ident),
        syn::Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// The names after `struct`, `enum`, `trait`, `type` and `const` in the tokens of a macro: what it probably declares.
fn declared_in(tokens: TokenStream) -> Vec<syn::Ident> {
    after(tokens, &["struct", "enum", "trait", "type", "const"])
}

/// The names after `struct`, `enum` and `trait` in the tokens of a macro.
pub fn types_in(tokens: TokenStream) -> Vec<syn::Ident> {
    after(tokens, &["struct", "enum", "trait"])
}

fn after(tokens: TokenStream, words: &[&str]) -> Vec<syn::Ident> {
    let (mut names, mut follows) = (Vec::new(), false);
    for token in tokens {
        match token {
            TokenTree::Group(group) => names.extend(after(group.stream(), words)),
            TokenTree::Ident(ident) => {
                let is_word = words.iter().any(|word| ident == word);
                if follows {
                    names.push(ident);
                }
                follows = is_word;
            }
            _ => follows = false,
        }
    }
    names
}

/// One path of a `use`.
pub struct Import {
    pub path: Path,
    /// Its name here; `None` for `_` and for a glob.
    pub name: Option<String>,
    pub is_glob: bool,
}

/// The paths of a tree of imports.
pub fn imports(tree: &syn::UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    flatten(tree, Vec::new(), &mut found);
    found
}

fn flatten(tree: &syn::UseTree, mut path: Path, found: &mut Vec<Import>) {
    match tree {
        syn::UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, found);
        }
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, path.clone(), found));
        }
        syn::UseTree::Glob(_) => found.push(Import { path, name: None, is_glob: true }),
        syn::UseTree::Name(tree) => {
            let renamed = syn::UseRename {
                ident: tree.ident.clone(),
                as_token: syn::token::As::default(),
                rename: tree.ident.clone(),
            };
            flatten(&syn::UseTree::Rename(renamed), path, found);
        }
        syn::UseTree::Rename(tree) => {
            let (last, mut name) = (tree.ident.to_string(), tree.rename.to_string());
            if last != "self" {
                path.push(last);
            } else if name == "self" {
                name = path.last().cloned().unwrap_or_default();
            }
            let name = (name != "_").then_some(name);
            found.push(Import { path, name, is_glob: false });
        }
    }
}

/// The imports of an item, those inside functions too.
struct Imports {
    found: Vec<Import>,
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_code(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.found.extend(imports(&item.tree));
    }
}
