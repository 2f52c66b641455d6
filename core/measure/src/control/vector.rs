//! [`ControlVector`]: directions by layer, in the file format of llama.cpp's `cvector-generator` (and of repeng).

use super::error::ControlVectorError;
use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions};
use std::collections::BTreeMap;
use std::path::Path;

const ARCHITECTURE: &str = "controlvector";
const HINT: &str = "controlvector.model_hint";
const LAYERS: &str = "controlvector.layer_count";

/// Directions in the stream of a model, by the layer (from 0, as in `blk.N`) after which they are added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ControlVector {
    /// The architecture for which it was made, if the file states it.
    pub hint: Option<String>,
    /// By layer: as many numbers as the stream is wide. As in llama.cpp, layer 0 has none.
    pub directions: BTreeMap<usize, Vec<f32>>,
}

impl ControlVector {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a control vector: another architecture, a tensor that is not a direction,
    /// directions of different widths, numbers that are not finite.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ControlVectorError> {
        let path = path.as_ref();
        let file = GgufFile::open(path, &OpenOptions::default())?;
        let fault = |reason: String| ControlVectorError::Content { file: path.display().to_string(), reason };
        let text = |key: &str| file.metadata().get(key).and_then(|value| value.as_str());
        match text("general.architecture") {
            Some(ARCHITECTURE) => {}
            Some(other) => return Err(fault(format!("its architecture is `{other}`"))),
            None => return Err(fault("it states no architecture".to_owned())),
        }
        let mut directions = BTreeMap::new();
        for tensor in file.tensors() {
            let name = tensor.name();
            let layer = name.strip_prefix("direction.").and_then(|layer| layer.parse::<usize>().ok());
            let layer = layer.filter(|layer| *layer > 0).ok_or_else(|| {
                fault(format!("its tensor \"{name}\" is not the direction of a layer from 1 on"))
            })?;
            if tensor.kind() != GgmlType::F32 || tensor.dims().iter().skip(1).any(|dim| *dim != 1) {
                return Err(fault(format!("its {name} is {} {:?}", tensor.kind(), tensor.dims())));
            }
            let bytes = file.data(tensor)?;
            let values: Vec<f32> =
                bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
            if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                return Err(fault(format!("value {at} of its {name} is {}", values[at])));
            }
            directions.insert(layer, values);
        }
        let widths: Vec<usize> = directions.values().map(Vec::len).collect();
        match (widths.first(), widths.iter().find(|width| Some(*width) != widths.first())) {
            (None, _) => return Err(fault("it has no directions".to_owned())),
            (Some(one), Some(other)) => {
                return Err(fault(format!("its directions have {one} and {other} numbers")));
            }
            (Some(_), None) => {}
        }
        Ok(Self { hint: text(HINT).map(str::to_owned), directions })
    }

    /// The number of elements of a direction; 0 if there are none.
    pub fn width(&self) -> usize {
        self.directions.values().next().map_or(0, Vec::len)
    }

    /// Writes a file, whole or not at all.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), ControlVectorError> {
        let path = path.as_ref();
        let mut writer = GgufWriter::new();
        writer.metadata("general.architecture", ARCHITECTURE)?;
        if let Some(hint) = &self.hint {
            writer.metadata(HINT, hint.as_str())?;
        }
        writer.metadata(LAYERS, i32::try_from(self.directions.len()).unwrap_or(i32::MAX))?;
        for (layer, values) in &self.directions {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            let dims = [values.len() as u64];
            writer.tensor(&format!("direction.{layer}"), &dims, GgmlType::F32, bytes)?;
        }
        Ok(writer.write(path)?)
    }
}
