//! Names of roles in a GGUF file, and tensors that are ignored there.

use crate::glob::matches_tail;
use crate::roles::bare;
use crate::spec::ArchSpec;

/// The stored name of a role; see [`ArchSpec::role_to_gguf_name`].
pub(crate) fn role_to_gguf_name(spec: &ArchSpec, role: &str, layer: Option<usize>) -> String {
    let renames = &spec.body.gguf.tensors;
    let name = bare(role);
    let suffix = &role[name.len()..];
    let stored =
        renames.iter().find(|(from, _)| from == role).map(|(_, to)| to.clone()).unwrap_or_else(|| {
            let to = renames.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to.as_str());
            format!("{to}{suffix}")
        });
    match layer {
        Some(layer) => format!("blk.{layer}.{stored}"),
        None => stored,
    }
}

/// Why a tensor is ignored; see [`ArchSpec::ignored_tensor`].
pub(crate) fn ignored_tensor<'a>(spec: &'a ArchSpec, name: &str, layers: usize) -> Option<&'a str> {
    let globs = &spec.body.gguf.ignore_tensors;
    globs.iter().find(|(glob, _)| matches_tail(glob, name, layers)).map(|(_, reason)| reason.as_str())
}
