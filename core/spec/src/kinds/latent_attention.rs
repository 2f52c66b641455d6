//! The mixer `latent-attention`.

use super::attention::{TemperatureConfig, TemperatureOptions, resolve_temperature, usual_scale};
use super::rope::{ROPE_FACTORS_LONG, ROPE_FACTORS_SHORT, ROPE_FREQS, RopeConfig, RopeOptions, resolve_rope};
use crate::kind::{
    Component, Definition, Family, NormHere, Optional, Positive, RecordedFault, ResolveContext, RoleDef,
    Sizes,
};
use crate::options;

/// Latent attention of one layer.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LatentAttentionConfig {
    /// Heads.
    pub heads: usize,
    /// Elements of a query or key head, those that carry positions included.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Elements of the latent that keys and values are made of.
    pub latent_dim: usize,
    /// The last elements of a key head: they carry positions, and all heads of keys share them.
    pub rotated_dim: usize,
    /// Elements of the latent that queries are made of; absent = they are made of the input.
    pub query_latent_dim: Option<usize>,
    /// Multiplies q.k.
    pub scale: f32,
    /// Norm on the latents.
    pub latent_norm: Component,
    /// Query temperature that grows with the position.
    pub temperature: Option<TemperatureConfig>,
    /// Rotary positions; absent = no positions.
    pub rope: Option<RopeConfig>,
}

options! {
    /// Options of `latent-attention`.
    pub struct LatentAttentionOptions {
        /// Heads.
        heads: Positive<usize> = Key("attention.head_count"),
        /// Elements of a query or key head, those that carry positions included.
        key_dim: Positive<usize> = Key("attention.key_length"),
        /// Elements of a value head.
        value_dim: Positive<usize> = Key("attention.value_length"),
        /// Elements of the latent that keys and values are made of.
        latent_dim: Positive<usize> = Key("attention.kv_lora_rank"),
        /// The last elements of a key head: they carry positions, and all heads of keys share them.
        rotated_dim: Positive<usize> = Key("rope.dimension_count"),
        /// Elements of the latent that queries are made of; 0 = they are made of the input.
        query_latent_dim: Option<usize> = Computed {
            how: "attention.q_lora_rank, unless the file has attn_q",
            reads: &["attention.q_lora_rank"],
        },
        /// Multiplies q.k.
        scale: Option<f32> = Computed { how: "1 / sqrt(key_dim)", reads: &[] } => guarded,
        /// Norm on the latents: the options that differ from `[norm]`.
        latent_norm: LatentNormOptions = Required,
        /// Query temperature that grows with the position.
        temperature: Optional<TemperatureOptions> = Absent,
        /// Rotary positions of the last `rotated_dim` elements; absent = no positions.
        rope: Optional<RopeOptions> = Absent,
    }
}

options! {
    /// Norm on the latents (roles `attn_kv_a_norm`, `attn_q_a_norm`).
    pub struct LatentNormOptions {
        /// The norm.
        norm: NormHere = Fields,
    }
}

const KEYS_AND_VALUES: &str = "keys and values out of latents";

impl Definition for LatentAttentionConfig {
    type Options = LatentAttentionOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "latent-attention";
    const DOC: &'static str = "Multi-head latent attention (DeepSeek-V2, 2024): the KV cache holds per token one latent, from which the keys \
                               and values of all heads are computed, and one key that carries the position.";
    const READS: &'static [&'static str] = &["attention.q_lora_rank"];
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("attn_q", &["D", "heads*key_dim"], "Queries.").when("query of the input"),
        RoleDef::linear("attn_q_a", &["D", "query_latent_dim"], "The latent of queries.")
            .when("query of a latent"),
        RoleDef::norm("attn_q_a_norm", &["query_latent_dim"], "query_norm", "Norm on the latent of queries."),
        RoleDef::linear("attn_q_b", &["query_latent_dim", "heads*key_dim"], "Queries from their latent.")
            .when("query of a latent"),
        RoleDef::linear(
            "attn_kv_a_mqa",
            &["D", "latent_dim+rotated_dim"],
            "The latent, and the part of the keys that carries positions.",
        ),
        RoleDef::norm("attn_kv_a_norm", &["latent_dim"], "latent_norm", "Norm on the latent."),
        RoleDef::linear(
            "attn_k_b",
            &["plain_dim", "latent_dim", "heads"],
            "Keys of each head from the latent, transposed.",
        )
        .in_form(KEYS_AND_VALUES, "split"),
        RoleDef::linear(
            "attn_v_b",
            &["latent_dim", "value_dim", "heads"],
            "Values of each head from the latent.",
        )
        .in_form(KEYS_AND_VALUES, "split"),
        RoleDef::linear(
            "attn_kv_b",
            &["latent_dim", "heads*plain_dim+heads*value_dim"],
            "For each head its rows of keys, then those of values.",
        )
        .in_form(KEYS_AND_VALUES, "fused"),
        RoleDef::linear("attn_output", &["heads*value_dim", "D"], "The output projection."),
        ROPE_FREQS,
        ROPE_FACTORS_LONG,
        ROPE_FACTORS_SHORT,
    ];

    fn resolve(options: LatentAttentionOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let LatentAttentionOptions {
            heads: Positive(heads),
            key_dim: Positive(key_dim),
            value_dim: Positive(value_dim),
            latent_dim: Positive(latent_dim),
            rotated_dim: Positive(rotated_dim),
            query_latent_dim,
            scale,
            latent_norm: LatentNormOptions { norm },
            temperature: Optional(temperature),
            rope: Optional(rope),
        } = options;
        if rotated_dim >= key_dim {
            let message = format!(
                "{rotated_dim} of the {key_dim} elements of a key head carry positions; expected fewer"
            );
            return at.fault("rotated_dim", message);
        }
        let scale = scale.unwrap_or_else(|| usual_scale(key_dim, at));
        let query_latent_dim = query_latent(query_latent_dim, at);
        let latent_norm = at.norm(&norm, &["attn_kv_a_norm", "attn_q_a_norm"]);
        let temperature = temperature.map_or(Ok(None), |it| resolve_temperature(it.options, at));
        let rope = rope.map_or(Ok(None), |rope| {
            let rope = resolve_rope(rope, rotated_dim, at)?;
            if rope.dims == rotated_dim {
                return Ok(Some(rope));
            }
            at.fault("rope.dims", format!("{} dims rotate, of {rotated_dim} that are set apart", rope.dims))
        });
        let (query_latent_dim, latent_norm) = (query_latent_dim?, latent_norm?);
        Ok(LatentAttentionConfig {
            heads,
            key_dim,
            value_dim,
            latent_dim,
            rotated_dim,
            query_latent_dim,
            scale,
            latent_norm,
            temperature: temperature?,
            rope: rope?,
        })
    }

    fn regime_limit(&self) -> Option<usize> {
        self.rope.as_ref()?.regime_limit()
    }

    fn sizes(&self, into: &mut Sizes) {
        for (symbol, size) in [
            ("heads", self.heads),
            ("key_dim", self.key_dim),
            ("value_dim", self.value_dim),
            ("latent_dim", self.latent_dim),
            ("rotated_dim", self.rotated_dim),
            ("plain_dim", self.key_dim - self.rotated_dim),
        ] {
            into.set(symbol, size);
        }
        into.holds("query of the input", self.query_latent_dim.is_none());
        into.holds("query of a latent", self.query_latent_dim.is_some());
        if let Some(size) = self.query_latent_dim {
            into.set("query_latent_dim", size);
        }
        into.norm("query_norm", self.query_latent_dim.map(|_| &self.latent_norm));
        into.norm("latent_norm", Some(&self.latent_norm));
        if let Some(rope) = &self.rope {
            rope.sizes(into);
        }
    }
}

/// The size of the queries' latent, as written or as the file says; 0 is none.
fn query_latent(written: Option<usize>, at: &mut ResolveContext<'_>) -> Result<Option<usize>, RecordedFault> {
    const KEY: &str = "attention.q_lora_rank";
    if let Some(size) = written {
        return Ok((size > 0).then_some(size));
    }
    let Some(size) = at.key_number(KEY)?.filter(|size| *size != 0.0 && !at.has("attn_q")) else {
        return Ok(None);
    };
    if size < 0.0 || size.fract() != 0.0 || size > f64::from(u32::MAX) {
        return at.key_fault(KEY, format!("{size} is not a count"));
    }
    at.computed("query_latent_dim", size);
    Ok(Some(size as usize))
}
