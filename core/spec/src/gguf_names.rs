//! Names of roles in a GGUF file, and tensors that are ignored there.

use crate::glob::matches_tail;
use crate::roles::bare;
use crate::spec::ArchSpec;

/// What the tensors of a block begin with where a spec says nothing else.
const BLOCK: &str = "blk.{layer}";

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
        Some(layer) => {
            let prefix = spec.body.gguf.layer.as_deref().unwrap_or(BLOCK);
            format!("{}.{stored}", prefix.replace("{layer}", &layer.to_string()))
        }
        None => stored,
    }
}

/// The block of a tensor; see [`ArchSpec::gguf_block`].
pub(crate) fn gguf_block(spec: &ArchSpec, name: &str) -> Option<usize> {
    let (before, after) = spec.body.gguf.layer.as_deref().unwrap_or(BLOCK).split_once("{layer}")?;
    let rest = name.strip_prefix(before)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[digits..].strip_prefix(after)?.strip_prefix('.')?;
    rest[..digits].parse().ok()
}

/// Why a tensor is ignored; see [`ArchSpec::ignored_tensor`].
pub(crate) fn ignored_tensor<'a>(spec: &'a ArchSpec, name: &str, layers: usize) -> Option<&'a str> {
    let globs = &spec.body.gguf.ignore_tensors;
    globs.iter().find(|(glob, _)| matches_tail(glob, name, layers)).map(|(_, reason)| reason.as_str())
}
