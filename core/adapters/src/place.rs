//! [`places`]: the roles of a module, by the names of a spec read backwards.

use menagerie_model::AdapterSite;
use menagerie_spec::{ArchSpec, HfPart, HfPlace, Layout};
use std::borrow::Cow;

/// A tensor of the model that a module holds, or a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModulePlace {
    /// Its role.
    pub role: String,
    /// The block, or none for the whole model.
    pub layer: Option<usize>,
    /// Which matrix of a stack, where each is a module of its own.
    pub expert: Option<usize>,
    /// How the module's rows and columns become those of the role.
    pub layout: Vec<Layout>,
}

/// Where a module of an HF class is in the model; a module that holds several roles has several places, one that the
/// spec does not know none.
pub fn places(spec: &ArchSpec, module: &str) -> Vec<ModulePlace> {
    let renamed = spec.hf_classes().iter().map(|class| class.renamed(module));
    let unwrapped = std::iter::once(menagerie_spec::unwrapped(module));
    let names = std::iter::once(Cow::Borrowed(module)).chain(renamed).chain(unwrapped);
    let found = names.map(|name| exact(spec, &name)).find(|places| !places.is_empty());
    found.unwrap_or_default()
}

fn exact(spec: &ArchSpec, module: &str) -> Vec<ModulePlace> {
    let mut found: Vec<ModulePlace> = Vec::new();
    for place in spec.hf_places(module) {
        let HfPlace { role, layer, member, part, layout } = place;
        // Alternatives of one role that differ in the file's type alone (MXFP4) are one place.
        if part == HfPart::Module && !found.iter().any(|known| known.role == role) {
            found.push(ModulePlace { role, layer, expert: member, layout });
        }
    }
    found
}

/// The block that a module of an HF class is in, and what it is called there.
pub(crate) fn in_block<'m>(spec: &ArchSpec, module: &'m str) -> Option<(usize, &'m str)> {
    let (before, after) = spec.hf().layer.split_once("{layer}")?;
    let start = module.find(before)? + before.len();
    let rest = &module[start..];
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let layer = rest[..digits].parse().ok()?;
    Some((layer, rest[digits..].strip_prefix(after)?.strip_prefix('.')?))
}

/// Where a tensor of a GGUF file is in the model.
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
