//! [`GgufSource`]: the tensors of a GGUF file by role.

use crate::source::{TensorEntry, WeightSource};
use gguf_file::{GgufFile, TensorInfo};
use menagerie_files::path_text;
use menagerie_model::{ModelError, Weight, WeightBytes, WeightShape};
use menagerie_registry::TensorPart;
use menagerie_spec::{ArchSpec, RoleSource};
use std::collections::HashMap;
use std::sync::Arc;

/// The names of roles in a file, and the tensors that are ignored on purpose.
pub(crate) trait TensorNaming {
    /// The name of a role's tensor without `.weight` or `.bias`, unless the role includes it.
    fn stored_name(&self, role: &str, layer: Option<usize>) -> String;

    /// The block that a tensor belongs to.
    fn block(&self, name: &str) -> Option<usize> {
        name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
    }

    /// The reason for ignoring a tensor, if there is one; `layers` is the number of blocks that are run.
    fn ignored(&self, name: &str, layers: usize) -> Option<String>;
}

impl<T: TensorNaming + ?Sized> TensorNaming for Arc<T> {
    fn stored_name(&self, role: &str, layer: Option<usize>) -> String {
        (**self).stored_name(role, layer)
    }

    fn block(&self, name: &str) -> Option<usize> {
        (**self).block(name)
    }

    fn ignored(&self, name: &str, layers: usize) -> Option<String> {
        (**self).ignored(name, layers)
    }
}

impl TensorNaming for ArchSpec {
    fn stored_name(&self, role: &str, layer: Option<usize>) -> String {
        self.role_to_gguf_name(role, layer)
    }

    fn block(&self, name: &str) -> Option<usize> {
        self.gguf_block(name)
    }

    fn ignored(&self, name: &str, layers: usize) -> Option<String> {
        self.ignored_tensor(name, layers).map(str::to_owned)
    }
}

/// Roles are the names, with the prefix `blk.N.` for those of a block; nothing is ignored.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlainNames;

#[cfg(test)]
impl TensorNaming for PlainNames {
    fn stored_name(&self, role: &str, layer: Option<usize>) -> String {
        layer.map_or_else(|| role.to_owned(), |layer| format!("blk.{layer}.{role}"))
    }

    fn ignored(&self, _name: &str, _layers: usize) -> Option<String> {
        None
    }
}

/// The tensors of a GGUF file, named by a spec.
pub(crate) struct GgufSource<N> {
    file: Arc<GgufFile>,
    naming: N,
    entries: Vec<TensorEntry>,
    index: HashMap<String, usize>,
}

impl<N: TensorNaming> GgufSource<N> {
    /// The tensors of `file`, with the names of `naming`.
    pub(crate) fn new(file: Arc<GgufFile>, naming: N) -> Self {
        let entries: Vec<TensorEntry> = file.tensors().iter().map(|info| entry(info, &naming)).collect();
        let index = entries.iter().enumerate().map(|(index, entry)| (entry.name.clone(), index)).collect();
        Self { file, naming, entries, index }
    }
}

fn entry(info: &TensorInfo, naming: &impl TensorNaming) -> TensorEntry {
    TensorEntry {
        name: info.name().to_owned(),
        dims: info.dims().to_vec(),
        kind: info.kind().to_string(),
        bytes: info.bytes(),
        layer: naming.block(info.name()),
    }
}

fn has_suffix(role: &str) -> bool {
    role.ends_with(".weight") || role.ends_with(".bias")
}

impl<N: TensorNaming> WeightSource for GgufSource<N> {
    fn file(&self) -> String {
        self.file.paths().first().map_or_else(|| "model".to_owned(), |path| path_text(path))
    }

    fn entries(&self) -> &[TensorEntry] {
        &self.entries
    }

    fn find(&self, role: &str, layer: Option<usize>, part: TensorPart) -> Option<usize> {
        let stored = self.naming.stored_name(role, layer);
        let exact = |name: &str| self.index.get(name).copied();
        match part {
            TensorPart::Main if has_suffix(&stored) => exact(&stored),
            TensorPart::Main => exact(&format!("{stored}.weight")).or_else(|| exact(&stored)),
            TensorPart::Bias => exact(&format!("{stored}.bias")),
            TensorPart::Scale => exact(&format!("{stored}.scale")),
        }
    }

    fn name_of(&self, role: &str, layer: Option<usize>, part: TensorPart) -> String {
        let stored = self.naming.stored_name(role, layer);
        match part {
            TensorPart::Main if has_suffix(&stored) => stored,
            TensorPart::Main => format!("{stored}.weight"),
            TensorPart::Bias => format!("{stored}.bias"),
            TensorPart::Scale => format!("{stored}.scale"),
        }
    }

    fn weight(&self, index: usize) -> Result<Weight, ModelError> {
        let missing = || ModelError::Weights(format!("the file has no tensor {index}"));
        let info = self.file.tensors().get(index).ok_or_else(missing)?;
        let size = |at: usize| info.dims().get(at).map_or(Ok(1), |dim| usize::try_from(*dim));
        let (Ok(cols), Ok(rows), Ok(third), Ok(fourth)) = (size(0), size(1), size(2), size(3)) else {
            return Err(ModelError::Weights(format!(
                "dimensions {:?} are too large for this machine",
                info.dims()
            )));
        };
        let bytes = self.file.data(info).map_err(|error| ModelError::Weights(error.to_string()))?;
        let shape = WeightShape { count: third.saturating_mul(fourth), rows, cols };
        Weight::new(info.name(), WeightBytes::Mapped(bytes), info.kind(), shape)
    }

    fn ignored(&self, index: usize, layers: usize) -> Option<String> {
        self.naming.ignored(&self.entries.get(index)?.name, layers)
    }
}

impl<N: TensorNaming> RoleSource for GgufSource<N> {
    fn has(&self, role: &str, layer: Option<usize>) -> bool {
        self.find(role, layer, TensorPart::Main).is_some()
    }
}
