//! [`CausalAttention`]: attention over cached keys and values, built step by step.

use crate::activation::Activated;
use crate::components::rope::DeclaredRope;
use crate::components::{QkNorm, QkNormPlace, Rope, RopeDeclarations, Temperature};
use crate::context::TransformContext;
use crate::ops::{self, AttentionStates};
use crate::state::{StateDeclarations, StateSpec};
use crate::traits::{Linear, SequenceMixer};
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::{AttentionShape, Mask};

/// The four products of an attention. Query, key and value of a fused weight are row ranges of it.
pub struct AttentionLinears {
    /// `[D]` to `[heads * key_dim]`.
    pub query: Box<dyn Linear>,
    /// `[D]` to `[kv_heads * key_dim]`.
    pub key: Box<dyn Linear>,
    /// `[D]` to `[kv_heads * value_dim]`.
    pub value: Box<dyn Linear>,
    /// `[heads * value_dim]` to `[D]`.
    pub output: Box<dyn Linear>,
}

/// Multi-head attention with grouped keys and values (Vaswani et al., 2017; Ainslie et al., 2023).
///
/// In order: products, clamp, QK-norm, rope, query temperature, attention, output product.
pub struct CausalAttention {
    name: String,
    linears: AttentionLinears,
    shape: AttentionShape,
    states: AttentionStates,
    clamp: Option<f32>,
    qk_norm: Option<QkNorm>,
    rope: Option<DeclaredRope>,
    temperature: Option<Temperature>,
    sinks: Option<Vec<f32>>,
}

impl CausalAttention {
    /// An attention without positions; `name` (`blk.3`) names its states, which are declared here.
    ///
    /// # Errors
    /// [`ModelError::Shape`] if a linear does not fit `shape`.
    pub fn new(
        name: &str,
        linears: AttentionLinears,
        shape: AttentionShape,
        declarations: &mut StateDeclarations,
    ) -> Result<Self> {
        let wanted = [
            ("query", &linears.query, shape.heads * shape.key_dim),
            ("key", &linears.key, shape.kv_heads * shape.key_dim),
            ("value", &linears.value, shape.kv_heads * shape.value_dim),
        ];
        for (part, linear, out) in wanted {
            expect(name, &format!("rows of the {part} product"), out, linear.out_features())?;
        }
        let width = shape.heads * shape.value_dim;
        expect(name, "columns of the output product", width, linears.output.in_features())?;
        let [keys, values] = state_specs(name, &shape).map(|spec| declarations.declare(spec));
        let states = AttentionStates { keys, values };
        let name = name.to_owned();
        Ok(Self {
            name,
            linears,
            shape,
            states,
            clamp: None,
            qk_norm: None,
            rope: None,
            temperature: None,
            sinks: None,
        })
    }

    /// Clamps queries, keys and values to `[-limit, limit]`.
    pub fn with_clamp(mut self, limit: f32) -> Self {
        self.clamp = Some(limit);
        self
    }

    /// Norms queries and keys.
    pub fn with_qk_norm(mut self, norm: QkNorm) -> Self {
        self.qk_norm = Some(norm);
        self
    }

    /// Rotates queries and keys; equal ropes of a model share their tables.
    pub fn with_rope(mut self, rope: Rope, declarations: &mut RopeDeclarations) -> Self {
        self.rope = Some(declarations.declare(rope));
        self
    }

    /// Limits the keys a query sees.
    pub fn with_mask(mut self, mask: Mask) -> Self {
        self.shape.mask = mask;
        self
    }

    /// Limits the keys a query sees to `0 <= q - k < size`.
    pub fn with_window(self, size: usize) -> Self {
        self.with_mask(Mask::Sliding { size })
    }

    /// Multiplies queries by a factor that grows with the position.
    pub fn with_temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = Some(temperature);
        self
    }

    /// Adds a logit per head that takes part in the softmax and has no value, `[heads]`.
    pub fn with_sinks(mut self, sinks: Vec<f32>) -> Self {
        self.sinks = Some(sinks);
        self
    }

    fn norm(
        &self,
        place: QkNormPlace,
        query: Tensor,
        key: Tensor,
        context: &TransformContext,
    ) -> Result<[Tensor; 2]> {
        let Some(norm) = self.qk_norm.as_ref().filter(|norm| norm.place == place) else {
            return Ok([query, key]);
        };
        let AttentionShape { heads, kv_heads, key_dim, .. } = self.shape;
        let query = ops::norm_heads(&query, &norm.query, heads * key_dim, context.compute)?;
        let key = ops::norm_heads(&key, &norm.key, kv_heads * key_dim, context.compute)?;
        Ok([query, key])
    }
}

fn expect(name: &str, what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: format!("{name}: {what}"),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}

fn state_specs(name: &str, shape: &AttentionShape) -> [StateSpec; 2] {
    let window = match shape.mask {
        Mask::Sliding { size } | Mask::Chunked { size } => Some(size),
        _ => None,
    };
    let spec = |suffix: &str, head_dim: usize| StateSpec::PerToken {
        name: format!("{name}.{suffix}"),
        heads: shape.kv_heads,
        head_dim,
        window,
    };
    [spec("k", shape.key_dim), spec("v", shape.value_dim)]
}

impl SequenceMixer for CausalAttention {
    fn states(&self) -> Vec<StateSpec> {
        state_specs(&self.name, &self.shape).to_vec()
    }

    fn forward(&self, x: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let linears = &self.linears;
        let [mut query, mut key, mut value] = {
            let x = Activated::new(x)?;
            ops::linear_many([&*linears.query, &*linears.key, &*linears.value], &x, context)?
        };
        if let Some(limit) = self.clamp {
            [query, key, value] =
                [ops::clamp(query, limit)?, ops::clamp(key, limit)?, ops::clamp(value, limit)?];
        }
        [query, key] = self.norm(QkNormPlace::BeforeRope, query, key, context)?;
        if let Some(rope) = &self.rope {
            let tables = rope.tables(context);
            query = rope.rotate(query, &tables, self.shape.key_dim, context)?;
            key = rope.rotate(key, &tables, self.shape.key_dim, context)?;
        }
        [query, key] = self.norm(QkNormPlace::AfterRope, query, key, context)?;
        let factors =
            self.temperature.and_then(|temperature| temperature.factors(context.layout.positions()));
        if let Some(factors) = factors {
            query = ops::scale_rows(query, &factors, context.compute)?;
        }
        let sinks = self.sinks.as_deref();
        let mixed = ops::attention(&self.shape, self.states, [&query, &key, &value], sinks, context)?;
        linears.output.forward(&Activated::new(&mixed)?, context)
    }
}
