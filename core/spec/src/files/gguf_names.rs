//! Names of roles in a GGUF file, and tensors that are ignored there.

use crate::language::roles::bare;
use crate::language::spec::ArchSpec;
use crate::text::glob::matches_tail;

/// The prefix of a block's tensors in a spec without `[gguf] layer`.
const BLOCK: &str = "blk.{layer}";

impl ArchSpec {
    /// The name of a role's tensor in a GGUF file, without `.weight` or `.bias` unless the role includes it:
    /// `("attn_q", Some(3))` gives `blk.3.attn_q`. `[gguf] layer` and `[gguf.tensors]` are applied.
    pub fn role_to_gguf_name(&self, role: &str, layer: Option<usize>) -> String {
        let renames = &self.body.gguf.tensors;
        let name = bare(role);
        let suffix = &role[name.len()..];
        let stored =
            renames.iter().find(|(from, _)| from == role).map(|(_, to)| to.clone()).unwrap_or_else(|| {
                let to = renames.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to.as_str());
                format!("{to}{suffix}")
            });
        match layer {
            Some(layer) => {
                let prefix = self.body.gguf.layer.as_deref().unwrap_or(BLOCK);
                format!("{}.{stored}", prefix.replace("{layer}", &layer.to_string()))
            }
            None => stored,
        }
    }

    /// The block of a tensor of a GGUF file, from its name: 3 for `blk.3.attn_q.weight`. `[gguf] layer` is applied.
    pub fn gguf_block(&self, name: &str) -> Option<usize> {
        let (before, after) = self.body.gguf.layer.as_deref().unwrap_or(BLOCK).split_once("{layer}")?;
        let rest = name.strip_prefix(before)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        rest[digits..].strip_prefix(after)?.strip_prefix('.')?;
        rest[..digits].parse().ok()
    }

    /// The reason why a tensor of a GGUF file is ignored, or `None` if it is not. `layers` is the number of blocks that
    /// are run (`ModelConfig::blocks`): `{tail}` matches any block index from there on.
    pub fn ignored_tensor(&self, name: &str, layers: usize) -> Option<&str> {
        let globs = &self.body.gguf.ignore_tensors;
        globs.iter().find(|(glob, _)| matches_tail(glob, name, layers)).map(|(_, reason)| reason.as_str())
    }
}
