//! [`places`]: the tensors of a model that a module belongs to, by the names in a spec.

use menagerie_model::AdapterSite;
use menagerie_spec::{ArchSpec, HfPart, HfPlace, Layout};
use std::borrow::Cow;

/// A tensor of a model that a module contains, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulePlace {
    /// Its role.
    pub role: String,
    /// The block; `None` for the whole model.
    pub layer: Option<usize>,
    /// The index of the matrix in a stack, if each is a separate module.
    pub expert: Option<usize>,
    /// How the module's rows and columns become those of the role.
    pub layout: Vec<Layout>,
}

/// The places of a module of a Hugging Face class in a model. A module with several roles has several places; an unknown
/// module has none.
pub fn places(spec: &ArchSpec, module: &str) -> Vec<ModulePlace> {
    let renamed = spec.hf_classes.iter().map(|class| class.renamed(module));
    let unwrapped = std::iter::once(menagerie_spec::unwrapped(module));
    let names = std::iter::once(Cow::Borrowed(module)).chain(renamed).chain(unwrapped);
    let found = names.map(|name| exact(spec, &name)).find(|places| !places.is_empty());
    found.unwrap_or_default()
}

fn exact(spec: &ArchSpec, module: &str) -> Vec<ModulePlace> {
    let mut found: Vec<ModulePlace> = Vec::new();
    for place in spec.hf_places(module) {
        let HfPlace { role, layer, member, part, layout } = place;
        // Alternatives of a role that differ only in the type of the file (MXFP4) are one place.
        if part == HfPart::Module && !found.iter().any(|known| known.role == role) {
            found.push(ModulePlace { role, layer, expert: member, layout });
        }
    }
    found
}

/// The block of a module of a Hugging Face class, and its name in the block.
pub(crate) fn in_block<'m>(spec: &ArchSpec, module: &'m str) -> Option<(usize, &'m str)> {
    let (before, after) = spec.hf.layer.split_once("{layer}")?;
    let start = module.find(before)? + before.len();
    let rest = &module[start..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let layer = rest[..digits].parse().ok()?;
    Some((layer, rest[digits..].strip_prefix(after)?.strip_prefix('.')?))
}

/// The place of a tensor of a GGUF file in a model.
pub(crate) fn gguf_place(spec: &ArchSpec, sites: &[AdapterSite], name: &str) -> Option<ModulePlace> {
    let called = |role: &str, layer| spec.role_to_gguf_name(role, layer) == name;
    let place =
        |role: &str, layer| ModulePlace { role: role.to_owned(), layer, expert: None, layout: Vec::new() };
    let mut roles = sites.iter().map(|site| (site.place.role.as_str(), site.place.layer));
    let found = roles.find(|(role, layer)| called(role, *layer));
    found
        .or_else(|| called("output", None).then_some(("output", None)))
        .map(|(role, layer)| place(role, layer))
}
