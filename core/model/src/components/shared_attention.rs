//! [`SharedAttention`]: attention to the keys and values of an earlier layer.

use crate::Result;
use crate::backend::AttentionStates;
use crate::components::rope::DeclaredRope;
use crate::components::{HeadNorm, Rope, RopeDeclarations};
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::traits::SequenceMixer;
use menagerie_formulas::AttentionShape;

/// Attention of a layer that has only queries: it attends to the keys and values that an earlier layer stored (Gemma
/// 3n, 2025).
///
/// In order: product, norm, rope, attention, output product.
pub struct SharedAttention {
    /// `[D]` to `[heads * key_dim]`.
    pub query: Box<dyn Linear>,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
    /// Norm on queries.
    pub norm: Option<HeadNorm>,
    /// Heads, scale and mask.
    pub shape: AttentionShape,
    /// The keys and values of the earlier layer.
    pub states: AttentionStates,
    rope: Option<DeclaredRope>,
}

impl SharedAttention {
    /// An attention without norm and positions.
    pub fn new(
        query: Box<dyn Linear>,
        output: Box<dyn Linear>,
        shape: AttentionShape,
        states: AttentionStates,
    ) -> Self {
        Self { query, output, norm: None, shape, states, rope: None }
    }

    /// Rotates queries; equal ropes of a model share their tables.
    pub fn with_rope(mut self, rope: Rope, declarations: &mut RopeDeclarations) -> Self {
        self.rope = Some(declarations.declare(rope));
        self
    }
}

impl SequenceMixer for SharedAttention {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let mut query = self.query.forward(&LinearInput::new(x), context)?;
        if let Some(norm) = &self.norm {
            query = norm.forward(query, context)?;
        }
        if let Some(rope) = &self.rope {
            let tables = rope.tables(context)?;
            query = rope.rotate(query, &tables, self.shape.key_dim, context)?;
        }
        let backend = &context.compute.backend;
        let mixed = backend.attend_stored(&self.shape, self.states, &query, None, context.state_step())?;
        drop(query);
        self.output.forward(&LinearInput::new(&mixed), context)
    }
}
