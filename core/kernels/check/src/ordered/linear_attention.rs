//! Attention without softmax: every cell of a state is updated independently by the rows, in ascending order of the
//! rows; the output of a row is one chain per column over the ascending elements of the key.

use menagerie_kernels::{KeySharing, LinearAttentionRows, LinearAttentionShape, LogDecay, StateUpdate};

use super::functions::exp;
use super::rows::tree;

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearAttentionFault {
    /// Key elements from the last to the first.
    KeysBackwards,
    /// The state decayed before the delta rule reads it, instead of keys and queries.
    DecayFirst,
    /// The new state multiplied, rounded, and then added to.
    Unfused,
}

/// See `menagerie_kernels::linear_attention`, which has the same arguments.
pub fn linear_attention(
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    state: &mut [f32],
    out: &mut [f32],
) {
    faulty_linear_attention(shape, input, state, out, None);
}

/// Like [`linear_attention`], with a fault.
pub fn faulty_linear_attention(
    shape: &LinearAttentionShape,
    input: &LinearAttentionRows,
    state: &mut [f32],
    out: &mut [f32],
    fault: Option<LinearAttentionFault>,
) {
    let LinearAttentionShape { heads, key_heads, key_dim, value_dim, sharing, .. } = *shape;
    for row in 0..out.len() / (heads * value_dim) {
        for head in 0..heads {
            let key_head = match sharing {
                KeySharing::Consecutive => head * key_heads / heads,
                KeySharing::Tiled => head % key_heads,
            };
            let of_key = (row * key_heads + key_head) * key_dim..(row * key_heads + key_head + 1) * key_dim;
            let decay = |n: usize| match input.log_decay {
                LogDecay::Fixed(all) => all[head],
                LogDecay::PerHead(all) => all[row * heads + head],
                LogDecay::PerChannel(all) => all[(row * heads + head) * key_dim + n],
            };
            let own = StateRow {
                key: &input.keys[of_key.clone()],
                query: &input.queries[of_key],
                decay: (0..key_dim).map(|n| exp(decay(n))).collect(),
                strength: input.strength.map_or(1.0, |all| all[row * heads + head]),
                fault,
            };
            for column in 0..value_dim {
                let at = (row * heads + head) * value_dim + column;
                let mut cells: Vec<f32> =
                    (0..key_dim).map(|n| state[(head * key_dim + n) * value_dim + column]).collect();
                out[at] = match shape.update {
                    StateUpdate::Add => own.add(&mut cells, input.values[at]),
                    StateUpdate::Delta => own.delta(&mut cells, input.values[at]),
                };
                if let Some(skip) = input.skip.map(|all| all[head]).filter(|skip| *skip != 0.0) {
                    out[at] = skip.mul_add(input.values[at], out[at]);
                }
                for (n, cell) in cells.into_iter().enumerate() {
                    state[(head * key_dim + n) * value_dim + column] = cell;
                }
            }
        }
    }
}

/// A row of a head.
struct StateRow<'a> {
    key: &'a [f32],
    query: &'a [f32],
    decay: Vec<f32>,
    strength: f32,
    fault: Option<LinearAttentionFault>,
}

impl StateRow<'_> {
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.key.len()).collect();
        if self.fault == Some(LinearAttentionFault::KeysBackwards) {
            order.reverse();
        }
        order
    }

    fn new_cell(&self, n: usize, cell: f32, change: f32) -> f32 {
        match self.fault {
            Some(LinearAttentionFault::Unfused) => self.key[n] * change + self.decay[n] * cell,
            _ => self.key[n].mul_add(change, self.decay[n] * cell),
        }
    }

    fn add(&self, cells: &mut [f32], value: f32) -> f32 {
        let mut read = 0f32;
        for n in self.order() {
            cells[n] = self.new_cell(n, cells[n], value * self.strength);
            read = self.query[n].mul_add(cells[n], read);
        }
        read
    }

    fn delta(&self, cells: &mut [f32], value: f32) -> f32 {
        let (mut said, mut read) = (0f32, 0f32);
        for n in self.order() {
            let (key, query, cell) = match self.fault {
                Some(LinearAttentionFault::DecayFirst) => {
                    (self.key[n], self.query[n], self.decay[n] * cells[n])
                }
                _ => (self.decay[n] * self.key[n], self.decay[n] * self.query[n], cells[n]),
            };
            said = key.mul_add(cell, said);
            read = query.mul_add(cell, read);
        }
        let change = self.strength * (value - said);
        // Key times query: sixteen lanes over the elements.
        let mut lanes = [0f32; 16];
        for (n, (key, query)) in self.key.iter().zip(self.query).enumerate() {
            lanes[n % 16] = key.mul_add(*query, lanes[n % 16]);
        }
        for (n, cell) in cells.iter_mut().enumerate() {
            *cell = self.new_cell(n, *cell, change);
        }
        tree(&lanes, None).mul_add(change, read)
    }
}
