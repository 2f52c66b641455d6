//! [`Attention`]: attention over cached keys and values, built step by step.

use crate::attention_biases::AttentionBiases;
use crate::backend::AttentionStates;
use crate::components::rope::DeclaredRope;
use crate::components::{AttentionGate, HeadNorm, QkNorm, QkNormPlace, Rope, RopeDeclarations, Temperature};
use crate::context::TransformContext;
use crate::linear::{Linear, linear_many};
use crate::linear_input::LinearInput;
use crate::param::Param;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateSpec};
use crate::traits::{Norm, SequenceMixer};
use crate::{ModelError, Result};
use menagerie_formulas::AttentionShape;

/// The four products of an attention. Query, key and value of a fused weight are row ranges of it.
pub struct AttentionLinears {
    /// `[D]` to `[heads * key_dim]`.
    pub query: Box<dyn Linear>,
    /// `[D]` to `[kv_heads * key_dim]`.
    pub key: Box<dyn Linear>,
    /// `[D]` to `[kv_heads * value_dim]`; absent: values are the keys, before their norm and rope.
    pub value: Option<Box<dyn Linear>>,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
    /// Gate on the heads' outputs; a gate in the rows of the queries makes `query` wider.
    pub gate: Option<AttentionGate>,
}

/// Multi-head attention with grouped keys and values (Vaswani et al., 2017; Ainslie et al., 2023).
///
/// In order: products, clamp, QK-norm, rope, query temperature, attention, gate, inner norm, output product.
pub struct Attention {
    linears: AttentionLinears,
    shape: AttentionShape,
    states: AttentionStates,
    /// Clamps queries, keys and values to `-clamp..=clamp`.
    pub clamp: Option<f32>,
    /// Norms queries and keys.
    pub qk_norm: Option<QkNorm>,
    /// Norms values, before they are stored (Gemma 3n, Gemma 4).
    pub v_norm: Option<HeadNorm>,
    /// Multiplies queries by a factor that grows with the position.
    pub temperature: Option<Temperature>,
    /// Norms the heads' outputs together, before the output product (BitNet).
    pub inner_norm: Option<Box<dyn Norm>>,
    rope: Option<DeclaredRope>,
    sinks: Option<Param>,
    distances: Option<Param>,
}

impl Attention {
    /// An attention without positions, norms and biases; its states are declared here under these names (`blk.3.k`,
    /// `blk.3.v`).
    ///
    /// # Errors
    /// [`ModelError::Shape`] if a linear does not fit `shape`.
    pub fn new(
        [keys, values]: [&str; 2],
        linears: AttentionLinears,
        shape: AttentionShape,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        let query_rows = match &linears.gate {
            Some(gate) => gate.query_rows(&shape)?,
            None => shape.heads * shape.key_dim,
        };
        let wanted = [
            ("query", &linears.query, query_rows),
            ("key", &linears.key, shape.kv_heads * shape.key_dim),
            ("value", linears.value.as_ref().unwrap_or(&linears.key), shape.kv_heads * shape.value_dim),
        ];
        for (part, linear, out) in wanted {
            expect(&format!("rows of the {part} product"), out, linear.out_features())?;
        }
        let width = shape.heads * shape.value_dim;
        expect("columns of the output product", width, linears.output.in_features())?;
        let [keys, values] = [(keys, shape.key_dim), (values, shape.value_dim)].map(|(name, head_dim)| {
            declarations.declare(StateSpec::PerToken {
                name: name.to_owned(),
                dtype: None,
                heads: shape.kv_heads,
                head_dim,
                window: shape.mask.window(),
            })
        });
        let states = AttentionStates { keys, values };
        Ok(Self {
            linears,
            shape,
            states,
            clamp: None,
            qk_norm: None,
            v_norm: None,
            rope: None,
            temperature: None,
            sinks: None,
            distances: None,
            inner_norm: None,
        })
    }

    /// Rotates queries and keys; equal ropes of a model share their tables.
    pub fn with_rope(mut self, rope: Rope, declarations: &mut RopeDeclarations) -> Self {
        self.rope = Some(declarations.declare(rope));
        self
    }

    /// Adds a logit per head that takes part in the softmax and has no value, `[heads]`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for another length.
    pub fn with_sinks(mut self, sinks: Param) -> Result<Self> {
        sinks.expect_len(self.shape.heads, "sinks")?;
        self.sinks = Some(sinks);
        Ok(self)
    }

    /// Adds learned biases by distance to the scores, `[heads, 2 * reach + 1]`: see [`AttentionBiases::distances`].
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a length that is not an odd number for each head, and together with ALiBi.
    pub fn with_distances(mut self, table: Param) -> Result<Self> {
        let span = table.shape().cols / self.shape.heads.max(1);
        table.expect_len((span | 1) * self.shape.heads, "biases by distance")?;
        if self.shape.alibi.is_some() {
            return Err(ModelError::Unsupported(
                "learned biases by distance and ALiBi cannot be combined; remove one".to_owned(),
            ));
        }
        self.distances = Some(table);
        Ok(self)
    }

    /// The projected queries, keys and values; and the gate in the rows of the queries, if there is one.
    fn products(&self, x: &LinearInput, context: &TransformContext) -> Result<[Rows; 3]> {
        let AttentionLinears { query, key, value, output: _, gate: _ } = &self.linears;
        if let Some(value) = value {
            return linear_many([&**query, &**key, &**value], x, context);
        }
        let [query, key] = linear_many([&**query, &**key], x, context)?;
        let value = context.compute.backend.copy(&key)?;
        Ok([query, key, value])
    }

    fn norm(
        &self,
        place: QkNormPlace,
        query: Rows,
        key: Rows,
        context: &TransformContext,
    ) -> Result<[Rows; 2]> {
        match self.qk_norm.as_ref().filter(|norm| norm.place == place) {
            None => Ok([query, key]),
            Some(norm) => Ok([norm.query.forward(query, context)?, norm.key.forward(key, context)?]),
        }
    }
}

fn expect(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: format!("attention: {what}"),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

impl SequenceMixer for Attention {
    fn is_bidirectional(&self) -> bool {
        self.shape.mask.is_bidirectional()
    }

    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let (linears, backend) = (&self.linears, &context.compute.backend);
        let x = LinearInput::new(x);
        let [mut query, mut key, mut value] = self.products(&x, context)?;
        let mut gate = None;
        if let Some(own) = &linears.gate {
            let [queries, gates] = own.split(query, &x, &self.shape, context)?;
            (query, gate) = (queries, Some((own, gates)));
        }
        if let Some(limit) = self.clamp {
            query = backend.clamp(query, limit)?;
            key = backend.clamp(key, limit)?;
            value = backend.clamp(value, limit)?;
        }
        if let Some(norm) = &self.v_norm {
            value = norm.forward(value, context)?;
        }
        [query, key] = self.norm(QkNormPlace::BeforeRope, query, key, context)?;
        if let Some(rope) = &self.rope {
            let tables = rope.tables(context)?;
            query = rope.rotate(query, &tables, self.shape.key_dim, context)?;
            key = rope.rotate(key, &tables, self.shape.key_dim, context)?;
        }
        [query, key] = self.norm(QkNormPlace::AfterRope, query, key, context)?;
        if let Some(temperature) = &self.temperature {
            let factors = temperature.factors(context.layout.positions().only_axis()?);
            if let Some(factors) = factors {
                query = backend.scale_rows(query, &factors)?;
            }
        }
        let qkv = [&query, &key, &value];
        let biases = AttentionBiases { sinks: self.sinks.as_ref(), distances: self.distances.as_ref() };
        let mut mixed = backend.attention(&self.shape, self.states, qkv, biases, context.state_step())?;
        drop((query, key, value));
        if let Some((gate, values)) = gate {
            mixed = gate.apply(mixed, values, context)?;
        }
        if let Some(norm) = &self.inner_norm {
            mixed = norm.forward(&mixed, context)?;
        }
        linears.output.forward(&LinearInput::new(&mixed), context)
    }
}
