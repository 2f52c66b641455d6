//! [`ExpertPlan`]: the rows of a step by expert.

use crate::router::Routing;
use crate::{ModelError, Result};
use std::ops::Range;

/// The order of the rows that go into a product of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One row per token of the step.
    Tokens,
    /// One row per choice, in the order of the plan.
    Packed,
}

/// The rows of a step packed by expert: expert after expert, tokens in order.
#[derive(Clone, Debug)]
pub struct ExpertPlan {
    groups: Vec<(usize, Range<usize>)>,
    tokens: Vec<u32>,
    weights: Vec<f32>,
    slots: Vec<u32>,
    identity: Vec<u32>,
    top_k: usize,
}

impl ExpertPlan {
    /// Groups the rows of a routing over `experts` experts.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for an expert past the last one.
    pub fn new(routing: &Routing, experts: usize) -> Result<Self> {
        let mut counts = vec![0usize; experts];
        for &expert in &routing.experts {
            let count = counts.get_mut(expert as usize).ok_or_else(|| ModelError::Shape {
                what: "chosen expert".to_owned(),
                expected: format!("less than {experts}"),
                found: expert.to_string(),
            })?;
            *count += 1;
        }
        let mut groups = Vec::new();
        let mut next = vec![0usize; experts];
        let mut start = 0;
        for (expert, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            groups.push((expert, start..start + count));
            next[expert] = start;
            start += count;
        }
        let packed = routing.experts.len();
        let (mut tokens, mut weights) = (vec![0; packed], vec![0.0; packed]);
        let mut slots = Vec::with_capacity(packed);
        for (choice, &expert) in routing.experts.iter().enumerate() {
            let slot = next[expert as usize];
            next[expert as usize] += 1;
            tokens[slot] = (choice / routing.top_k) as u32;
            weights[slot] = routing.weights[choice];
            slots.push(slot as u32);
        }
        let identity = (0..packed as u32).collect();
        Ok(Self { groups, tokens, weights, slots, identity, top_k: routing.top_k })
    }

    /// Experts with rows, and their packed rows.
    pub fn groups(&self) -> &[(usize, Range<usize>)] {
        &self.groups
    }

    /// Token of each packed row, `[packed rows]`.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Router weight of each packed row, `[packed rows]`.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Packed row of every token's choices, best first, `[T, top_k]`.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Row of the input that each packed row multiplies, `[packed rows]`.
    pub fn input_rows(&self, packing: Packing) -> &[u32] {
        match packing {
            Packing::Tokens => &self.tokens,
            Packing::Packed => &self.identity,
        }
    }

    /// Experts per token.
    pub fn top_k(&self) -> usize {
        self.top_k
    }

    /// T times the experts per token.
    pub fn packed_rows(&self) -> usize {
        self.tokens.len()
    }
}
