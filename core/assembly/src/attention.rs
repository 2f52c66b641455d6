//! Attention configs to [`CausalAttention`].

use crate::assembler::{Assembler, Site, boxed};
use crate::dims::Dim;
use crate::source::Part;
use menagerie_kernels::{AttentionShape, Mask};
use menagerie_model::components::{AttentionLinears, CausalAttention, Temperature};
use menagerie_model::{DenseLinear, SequenceMixer};
use menagerie_spec::config::{AttentionConfig, BiasRule, MaskKind, WindowKind};

/// Role, symbol and rows of a part of `attn_qkv`.
type QkvPart = (&'static str, &'static str, usize);

impl Assembler<'_> {
    /// An attention of block `layer`.
    pub(crate) fn attention(
        &mut self,
        config: &AttentionConfig,
        layer: usize,
    ) -> Option<Box<dyn SequenceMixer>> {
        let at = Some(layer);
        if !self.sizes_are_possible(config, layer) {
            return None;
        }
        let mask = self.mask(config, layer);
        let qkv = if self.has("attn_qkv", at) {
            self.fused_qkv(config, layer)
        } else {
            self.split_qkv(config, layer)
        };
        let inner = config.heads * config.value_dim;
        let output_dims = [Dim::of("heads*value_dim", inner), Dim::of("D", self.width())];
        let output = self.linear(Site { role: "attn_output", layer: at }, output_dims, config.output_bias);
        let norm = config.qk_norm.as_ref().map(|norm| self.qk_norm(norm, config, layer));
        let rope = config.rope.as_ref().map(|rope| self.rope(rope, config.key_dim, layer));
        let sinks = config
            .sinks
            .as_ref()
            .map(|role| self.values(Site { role, layer: at }, Part::Main, &[Dim::of("heads", config.heads)]));
        let [query, key, value] = qkv?;
        let [query, key, value] = [boxed(query), boxed(key), boxed(value)];
        let linears = AttentionLinears { query, key, value, output: boxed(output?) };
        let shape = AttentionShape {
            heads: config.heads,
            kv_heads: config.kv_heads,
            key_dim: config.key_dim,
            value_dim: config.value_dim,
            scale: config.scale,
            softcap: config.softcap,
            mask: mask?,
        };
        let built = CausalAttention::new(&format!("blk.{layer}"), linears, shape, &mut self.states);
        let mut attention = self.ok(at, built)?;
        if let Some(limit) = config.clamp {
            attention = attention.with_clamp(limit);
        }
        if let Some(norm) = norm {
            attention = attention.with_qk_norm(norm?);
        }
        if let Some(rope) = rope {
            attention = attention.with_rope(rope?, &mut self.ropes);
        }
        if let Some(sinks) = sinks {
            attention = attention.with_sinks(sinks?);
        }
        if let Some(t) = config.temperature {
            attention = attention.with_temperature(Temperature {
                scale: t.scale,
                length: t.length,
                offset: t.offset,
            });
        }
        Some(Box::new(attention))
    }

    /// Whether there are heads, groups of equal size, and row widths that can be counted.
    fn sizes_are_possible(&mut self, config: &AttentionConfig, layer: usize) -> bool {
        let AttentionConfig { heads, kv_heads, key_dim, value_dim, .. } = *config;
        let parts = [(heads, key_dim), (kv_heads, key_dim), (kv_heads, value_dim), (heads, value_dim)];
        let widths =
            parts.map(|(heads, dim)| heads.checked_mul(dim).filter(|width| *width > 0 && *width < 1 << 31));
        let possible = widths.iter().all(Option::is_some) && heads.is_multiple_of(kv_heads);
        if !possible {
            let text = format!(
                "attention: {heads} query heads, {kv_heads} key-value heads, heads of {key_dim} (keys) and {value_dim} \
                 (values) elements; the key-value heads must divide the query heads, and none may be 0"
            );
            self.fault(Some(layer), &text);
        }
        possible
    }

    fn mask(&mut self, config: &AttentionConfig, layer: usize) -> Option<Mask> {
        let window = config.window.map(|window| (window.kind, window.size));
        match (config.mask, window) {
            (MaskKind::Causal, None) => Some(Mask::Causal),
            (MaskKind::Causal, Some((WindowKind::Sliding, size))) => Some(Mask::Sliding { size }),
            (MaskKind::Causal, Some((WindowKind::Chunked, size))) => Some(Mask::Chunked { size }),
            (MaskKind::Causal, Some((WindowKind::Symmetric, _))) => {
                self.fault(Some(layer), "attention: a symmetric window does not go with a causal mask");
                None
            }
            (MaskKind::Bidirectional, _) => {
                self.fault(Some(layer), "attention: bidirectional attention (encoders) is not supported yet");
                None
            }
        }
    }

    fn parts(config: &AttentionConfig) -> [QkvPart; 3] {
        [
            ("attn_q", "heads*key_dim", config.heads * config.key_dim),
            ("attn_k", "kv_heads*key_dim", config.kv_heads * config.key_dim),
            ("attn_v", "kv_heads*value_dim", config.kv_heads * config.value_dim),
        ]
    }

    fn split_qkv(&mut self, config: &AttentionConfig, layer: usize) -> Option<[DenseLinear; 3]> {
        let width = self.width();
        let [query, key, value] = Self::parts(config).map(|(role, symbol, rows)| {
            let dims = [Dim::of("D", width), Dim::of(symbol, rows)];
            self.linear(Site { role, layer: Some(layer) }, dims, config.qkv_bias)
        });
        Some([query?, key?, value?])
    }

    /// One weight whose rows are q, k and v; its bias may be fused too, or separate.
    fn fused_qkv(&mut self, config: &AttentionConfig, layer: usize) -> Option<[DenseLinear; 3]> {
        let site = Site { role: "attn_qkv", layer: Some(layer) };
        let parts = Self::parts(config);
        let rows = Dim::of("q+k+v", parts.iter().map(|part| part.2).sum());
        let weight = self.weight(site, &[Dim::of("D", self.width()), rows]);
        let fused_bias = self.source.find(site.role, site.layer, Part::Bias).is_some();
        let separate = parts.iter().any(|part| self.source.find(part.0, site.layer, Part::Bias).is_some());
        let bias = match (config.qkv_bias, fused_bias || !separate) {
            (rule, true) => self.bias(site, rule, &[rows])?,
            (_, false) => None,
        };
        let mut start = 0;
        let linears = parts.map(|(role, symbol, rows)| {
            let range = start..start + rows;
            start += rows;
            let part = weight.as_ref()?.row_range(range.clone());
            let part = self.ok(site.layer, part)?;
            let bias = match &bias {
                Some(bias) => Some(bias.get(range)?.to_vec()),
                None if separate && !fused_bias && config.qkv_bias != BiasRule::None => {
                    self.bias(Site { role, layer: site.layer }, config.qkv_bias, &[Dim::of(symbol, rows)])?
                }
                None => None,
            };
            self.dense(site.layer, part, bias)
        });
        let [query, key, value] = linears;
        Some([query?, key?, value?])
    }
}
