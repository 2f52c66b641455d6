//! [`Steering`]: a hook that adds a direction to the residual stream after each layer (control vectors).

use super::HookTarget;
use menagerie_model::{
    Compute, Effect, HookInput, HookRecipe, LayerHook, ModelError, Param, Rows, SerializableHook,
};
use std::ops::Range;

/// Adds a direction for each layer to the stream `[T, D]` after it.
pub struct Steering {
    layers: Range<usize>,
    directions: Vec<Option<Param>>,
    /// The directions by layer, for copies in other processes.
    sums: Vec<Option<Vec<f32>>>,
    effect: String,
}

impl Steering {
    /// `sums`: for each layer of the model the direction `[D]` to add after it, or `None`.
    ///
    /// # Errors
    /// The device cannot hold a direction.
    pub fn new(sums: Vec<Option<Vec<f32>>>, compute: &Compute) -> Result<Self, ModelError> {
        let effect = fingerprint(&sums);
        let param = |(layer, sum): (usize, &Option<Vec<f32>>)| {
            let name = format!("control vector of layer {layer}");
            sum.clone().map(|values| compute.backend.vector(&name, values)).transpose()
        };
        let directions: Vec<Option<Param>> =
            sums.iter().enumerate().map(param).collect::<Result<_, ModelError>>()?;
        let first = directions.iter().position(Option::is_some).unwrap_or(0);
        let end = directions.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Ok(Self { layers: first..end, directions, sums, effect })
    }

    /// The kind of recipe of its copies.
    pub(crate) const KIND: &str = "control vector";

    /// A copy in another process.
    ///
    /// # Errors
    /// The recipe does not fit the model.
    pub(crate) fn copied(recipe: &[u8], place: &HookTarget) -> Result<Self, String> {
        let HookTarget { width, layers, .. } = *place;
        let size = size_of::<u32>() + width * size_of::<f32>();
        if !recipe.len().is_multiple_of(size) {
            return Err(format!("expected directions of {width} numbers, found {} bytes", recipe.len()));
        }
        let mut sums: Vec<Option<Vec<f32>>> = vec![None; layers];
        for one in recipe.chunks_exact(size) {
            let (numbers, _) = one.as_chunks::<4>();
            let Some((layer, values)) = numbers.split_first() else { continue };
            let layer = u32::from_le_bytes(*layer) as usize;
            let sum = sums.get_mut(layer).ok_or_else(|| {
                format!("found a direction for layer {layer}, but the model has {layers} layers")
            })?;
            *sum = Some(values.iter().map(|value| f32::from_le_bytes(*value)).collect());
        }
        Self::new(sums, &place.compute).map_err(|error| error.to_string())
    }
}

impl SerializableHook for Steering {
    fn recipe(&self) -> HookRecipe {
        let mut content = Vec::new();
        for (layer, sum) in self.sums.iter().enumerate() {
            let Some(sum) = sum else { continue };
            content.extend((layer as u32).to_le_bytes());
            content.extend(sum.iter().flat_map(|value| value.to_le_bytes()));
        }
        HookRecipe { kind: Self::KIND.to_owned(), content }
    }
}

impl LayerHook for Steering {
    fn name(&self) -> &str {
        Self::KIND
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn effect(&self) -> Effect {
        Effect::Replaces(self.effect.clone())
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        let Some(direction) = self.directions.get(shown.layer).and_then(Option::as_ref) else {
            return Ok(None);
        };
        let backend = &shown.compute.backend;
        backend.add_vector(backend.copy(shown.rows)?, direction).map(Some)
    }

    fn serializable(&self) -> Option<&dyn SerializableHook> {
        Some(self)
    }
}

/// A text that is the same for the same sums: FNV-1a, 64 bits.
fn fingerprint(sums: &[Option<Vec<f32>>]) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        bytes.iter().for_each(|byte| hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    };
    for (layer, sum) in sums.iter().enumerate() {
        let Some(sum) = sum else { continue };
        add(&(layer as u64).to_le_bytes());
        sum.iter().for_each(|value| add(&value.to_bits().to_le_bytes()));
    }
    format!("adds directions {hash:016x}")
}
