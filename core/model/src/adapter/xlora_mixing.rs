//! [`XLoraMixing`]: from the outputs of the classifier to the weights of adapters (Buehler and Buehler, 2024).

use crate::scalings::Scalings;
use crate::{ModelError, Result};
use std::borrow::Cow;
use std::ops::Range;

/// The shape of the classifier's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingSpread {
    /// A weight for each layer and adapter, layer after layer (`layerwise_scalings`).
    PerLayer,
    /// A weight for each adapter, the same in all layers.
    SameInAll,
}

/// The operation on the outputs of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalingNormalization {
    /// Nothing.
    AsTheyAre,
    /// Softmax over the adapters (`enable_softmax`).
    Softmax {
        /// Divides the outputs first; above 0.
        temperature: f32,
    },
}

/// The operation on the weights that are kept in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopScalings {
    /// Nothing.
    AsTheyAre,
    /// Softmax over those of a row that are not 0 (`enable_softmax_topk`).
    Softmax,
}

/// How adapters are weighted, row by row and layer by layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XLoraMixing {
    /// The shape of the outputs.
    pub spread: ScalingSpread,
    /// The operation on them.
    pub raw: ScalingNormalization,
    /// Weights kept in a layer, the largest by value; the others become 0. Absent = all (`top_k_lora`).
    pub top_k: Option<usize>,
    /// The operation on the kept weights.
    pub kept: TopScalings,
    /// Weight of every adapter in the pass whose rows are the input of the classifier (`scaling_pass_value`).
    pub pass_value: f32,
}

impl XLoraMixing {
    /// The weights `[T, layers, adapters]` that correspond to the classifier's outputs `[T, outputs]`.
    ///
    /// They may be NaN or infinite ([`Self::check`]).
    ///
    /// # Errors
    /// [`ModelError::Shape`] for another number of outputs.
    pub fn scalings(&self, outputs: &[f32], layers: usize, adapters: usize) -> Result<Scalings> {
        let width = self.outputs(layers, adapters);
        if width == 0 || !outputs.len().is_multiple_of(width) {
            return Err(ModelError::Shape {
                what: "outputs of the X-LoRA classifier".to_owned(),
                expected: format!("rows of {width}"),
                found: format!("{} values", outputs.len()),
            });
        }
        let mut values = match self.spread {
            ScalingSpread::PerLayer => outputs.to_vec(),
            ScalingSpread::SameInAll => {
                outputs.chunks_exact(adapters).flat_map(|row| row.repeat(layers)).collect()
            }
        };
        if let ScalingNormalization::Softmax { temperature } = self.raw {
            for row in values.chunks_exact_mut(adapters) {
                row.iter_mut().for_each(|value| *value /= temperature);
                softmax(row.iter_mut());
            }
        }
        Ok(Scalings { layers, adapters, values })
    }

    /// Refuses weights that are NaN or infinite in these rows of the step.
    ///
    /// # Errors
    /// [`ModelError::Scalings`] names the first one.
    pub fn check(scalings: &Scalings, rows: Range<usize>) -> Result<()> {
        let Scalings { layers, adapters, values } = scalings;
        let width = layers * adapters;
        let own = values.get(rows.start * width..rows.end * width).unwrap_or_default();
        let Some(at) = own.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (row, rest) = (rows.start + at / width, at % width);
        Err(ModelError::Scalings(format!(
            "the weight of adapter {} in layer {} is {} at row {row} of the step: the classifier or what it reads is broken \
             (check the files' checksums)",
            rest % adapters,
            rest / adapters,
            own[at]
        )))
    }

    /// The number of outputs of a classifier for so many layers and adapters.
    pub fn outputs(&self, layers: usize, adapters: usize) -> usize {
        match self.spread {
            ScalingSpread::PerLayer => layers * adapters,
            ScalingSpread::SameInAll => adapters,
        }
    }

    /// The factors of adapters: the kept weights of each row and layer.
    pub fn kept<'a>(&self, scalings: &'a Scalings) -> Cow<'a, Scalings> {
        let some = self.top_k.filter(|&k| k < scalings.adapters);
        if some.is_none() && self.kept == TopScalings::AsTheyAre {
            return Cow::Borrowed(scalings);
        }
        let mut kept = scalings.clone();
        let mut order: Vec<usize> = Vec::with_capacity(kept.adapters);
        for row in kept.values.chunks_exact_mut(kept.adapters.max(1)) {
            if let Some(k) = some {
                order.clear();
                order.extend(0..row.len());
                order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
                order[k..].iter().for_each(|&index| row[index] = 0.0);
            }
            if self.kept == TopScalings::Softmax {
                softmax(row.iter_mut().filter(|value| **value != 0.0));
            }
        }
        Cow::Owned(kept)
    }

    /// The weights of the pass whose rows are the input of the classifier; `None` if no adapter acts in it.
    pub(super) fn of_pass(&self, rows: usize, layers: usize, adapters: usize) -> Option<Scalings> {
        if self.pass_value == 0.0 {
            return None;
        }
        let values = vec![self.pass_value; rows * layers * adapters];
        Some(self.kept(&Scalings { layers, adapters, values }).into_owned())
    }
}

fn softmax<'a>(values: impl Iterator<Item = &'a mut f32>) {
    let mut values: Vec<&mut f32> = values.collect();
    let largest = values.iter().fold(f32::NEG_INFINITY, |largest, value| largest.max(**value));
    values.iter_mut().for_each(|value| **value = libm::expf(**value - largest));
    let sum: f32 = values.iter().map(|value| **value).sum();
    values.iter_mut().for_each(|value| **value /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: XLoraMixing = XLoraMixing {
        spread: ScalingSpread::PerLayer,
        raw: ScalingNormalization::AsTheyAre,
        top_k: None,
        kept: TopScalings::AsTheyAre,
        pass_value: 0.0,
    };

    /// `torch.softmax(torch.tensor([1., 2., 3.]) / 0.5, -1)`.
    #[test]
    fn temperature_divides_before_the_softmax() {
        let soft = XLoraMixing { raw: ScalingNormalization::Softmax { temperature: 0.5 }, ..PLAIN };
        let made = soft.scalings(&[1.0, 2.0, 3.0], 1, 3).unwrap();
        for (value, wanted) in made.values.iter().zip([0.015_876, 0.117_310, 0.866_814]) {
            assert!((value - wanted).abs() < 1e-6, "{value} {wanted}");
        }
    }

    #[test]
    fn outputs_are_layer_after_layer_or_the_same_in_all() {
        let each = PLAIN.scalings(&[1.0, 2.0, 3.0, 4.0], 2, 2).unwrap();
        assert_eq!((each.at(0, 0), each.at(0, 1)), (Some(&[1.0, 2.0][..]), Some(&[3.0, 4.0][..])));
        let same = XLoraMixing { spread: ScalingSpread::SameInAll, ..PLAIN };
        let made = same.scalings(&[1.0, 2.0, 3.0, 4.0], 2, 2).unwrap();
        assert_eq!((made.at(0, 1), made.at(1, 0)), (Some(&[1.0, 2.0][..]), Some(&[3.0, 4.0][..])));
        assert!(PLAIN.scalings(&[1.0; 3], 2, 2).unwrap_err().to_string().contains("rows of 4"));
    }

    #[test]
    fn the_largest_are_kept_by_value_and_renormalized_per_row() {
        let two = XLoraMixing { top_k: Some(2), ..PLAIN };
        let raw = two.scalings(&[-5.0, 1.0, 0.5, 0.0, -1.0, -2.0], 2, 3).unwrap();
        assert_eq!(two.kept(&raw).values, [0.0, 1.0, 0.5, 0.0, -1.0, 0.0]);
        let soft = XLoraMixing { kept: TopScalings::Softmax, ..two };
        let kept = soft.kept(&raw).into_owned().values;
        let half = 1.0 / (1.0 + (-0.5_f32).exp());
        assert!((kept[1] - half).abs() < 1e-6 && (kept[1] + kept[2] - 1.0).abs() < 1e-6);
        assert_eq!(kept[3..], [0.0, 1.0, 0.0], "a kept 0 has no part in the softmax");
    }

    #[test]
    fn numbers_that_are_none_are_named() {
        let made = PLAIN.scalings(&[0.0, 1.0, 2.0, f32::NAN, 3.0, 4.0], 1, 2).unwrap();
        let error = XLoraMixing::check(&made, 0..3).unwrap_err().to_string();
        assert!(error.contains("adapter 1 in layer 0 is NaN at row 1"), "{error}");
        let error = XLoraMixing::check(&made, 1..2).unwrap_err().to_string();
        assert!(error.contains("at row 1"), "{error}");
        assert!([0..1, 2..3].into_iter().all(|rows| XLoraMixing::check(&made, rows).is_ok()));
    }

    #[test]
    fn no_adapter_acts_in_a_pass_of_value_0() {
        assert_eq!(PLAIN.of_pass(2, 2, 2), None);
        let half = XLoraMixing { pass_value: 0.5, ..PLAIN };
        assert_eq!(half.of_pass(1, 2, 2).unwrap().values, [0.5; 4]);
        let soft = XLoraMixing { kept: TopScalings::Softmax, ..half };
        assert_eq!(soft.of_pass(1, 1, 2).unwrap().values, [0.5, 0.5]);
    }
}
