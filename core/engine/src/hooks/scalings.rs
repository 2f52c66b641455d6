//! [`ScalingLog`]: records the weights that an X-LoRA assigns to its adapters.

use menagerie_model::{LayerHook, ModelError, Result, Scalings, SequenceLayout};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// A hook that records the weights of adapters for each token of one sequence.
pub struct ScalingLog {
    layers: usize,
    adapters: usize,
    values: Mutex<Vec<f32>>,
}

impl ScalingLog {
    /// For `tokens` tokens and scalings of `[layers, adapters]`.
    pub fn new([layers, adapters]: [usize; 2], tokens: usize) -> Self {
        Self { layers, adapters, values: Mutex::new(vec![f32::NAN; tokens * layers * adapters]) }
    }

    /// The weights `[T, layers, adapters]`; NaN for tokens that were not computed.
    pub fn values(&self) -> Vec<f32> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl LayerHook for ScalingLog {
    fn name(&self) -> &str {
        "scalings"
    }

    fn layers(&self) -> Range<usize> {
        0..0
    }

    fn scalings(&self, scalings: &Scalings, layout: &SequenceLayout) -> Result<()> {
        let [part] = layout.sequences() else {
            return Err(ModelError::Layout(
                "scalings are recorded for one sequence at a time, and the step has several".to_owned(),
            ));
        };
        let width = self.layers * self.adapters;
        let from = part.first_position * width;
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match values.get_mut(from..from + scalings.values.len()) {
            Some(kept) if (scalings.layers, scalings.adapters) == (self.layers, self.adapters) => {
                kept.copy_from_slice(&scalings.values);
                Ok(())
            }
            _ => Err(ModelError::Shape {
                what: "scalings of a step".to_owned(),
                expected: format!("rows of [{}, {}], for recorded tokens", self.layers, self.adapters),
                found: format!("{} values from token {}", scalings.values.len(), part.first_position),
            }),
        }
    }
}
