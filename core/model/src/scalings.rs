//! [`Scalings`]: weights of adapters, row by row and layer by layer.

/// Weights of adapters for every row, layer and adapter of a step, `[T, layers, adapters]` (X-LoRA).
#[derive(Clone, Debug, PartialEq)]
pub struct Scalings {
    /// Layers, as adapters number them.
    pub layers: usize,
    /// Adapters.
    pub adapters: usize,
    /// The weights.
    pub values: Vec<f32>,
}

impl Scalings {
    /// Weights of all adapters for a row of the step in a layer; none past the last row or layer.
    pub fn at(&self, row: usize, layer: usize) -> Option<&[f32]> {
        let start = (row * self.layers + layer) * self.adapters;
        self.values.get(start..start + self.adapters).filter(|_| layer < self.layers)
    }
}
