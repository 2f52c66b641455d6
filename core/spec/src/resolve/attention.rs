//! Mixers: attention of one layer.

use super::Resolver;
use crate::config::{
    AttentionConfig, BiasRule, MaskKind, MixerConfig, QkNormConfig, TemperatureConfig, WindowConfig,
};
use crate::report::ValueOrigin;
use crate::written::{Attention, Mixer, Number};

/// Sizes of the heads of a layer.
struct Heads {
    heads: usize,
    kv_heads: usize,
    key_dim: usize,
    value_dim: usize,
}

impl Resolver<'_> {
    pub(super) fn mixer(&mut self, layer: usize) -> Option<MixerConfig> {
        let spec = self.spec;
        match self.case(&spec.body.mixer, layer)? {
            Some(Mixer::Attention(attention)) => {
                self.attention(attention, layer).map(|found| MixerConfig::Attention(Box::new(found)))
            }
            Some(Mixer::NotBuiltIn { fault, .. }) => {
                let mut fault = fault.clone();
                fault.layers.insert(layer);
                self.faults.push(fault);
                None
            }
            Some(Mixer::None) | None => Some(MixerConfig::None),
        }
    }

    fn attention(&mut self, attention: &Attention, layer: usize) -> Option<AttentionConfig> {
        let at = Some(layer);
        for fault in &attention.not_built_in {
            let mut fault = fault.clone();
            fault.layers.insert(layer);
            self.faults.push(fault);
        }
        let heads = self.heads(attention, layer);
        let qkv_bias = self.name_or(attention.qkv_bias.as_ref(), at, BiasRule::None);
        let output_bias = self.name_or(attention.output_bias.as_ref(), at, BiasRule::None);
        let mask = self.name_or(attention.mask.as_ref(), at, MaskKind::Causal);
        let softcap = self.positive(attention.softcap.as_ref(), at);
        let clamp = self.positive(attention.clamp.as_ref(), at);
        let qk_norm = self.qk_norm(attention, layer);
        let window = self.window(attention, layer);
        let temperature = self.temperature(attention, layer);
        let heads = heads?;
        let scale = match &attention.scale {
            Some(scale) => self.real(scale, at),
            None => {
                let scale = (1.0 / (heads.key_dim as f64).sqrt()) as f32;
                self.record_default(&attention.path, "scale", at, scale);
                Some(scale)
            }
        };
        let rope = self.rope(attention, heads.key_dim, layer);
        Some(AttentionConfig {
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            key_dim: heads.key_dim,
            value_dim: heads.value_dim,
            qkv_bias: qkv_bias?,
            output_bias: output_bias?,
            scale: scale?,
            mask: mask?,
            softcap: softcap?,
            clamp: clamp?,
            sinks: attention.sinks.clone(),
            qk_norm: qk_norm?,
            window: window?,
            temperature: temperature?,
            rope: rope?,
        })
    }

    fn heads(&mut self, attention: &Attention, layer: usize) -> Option<Heads> {
        let fields = [
            (&attention.heads, "heads", "attention.head_count"),
            (&attention.kv_heads, "kv_heads", "attention.head_count_kv"),
            (&attention.key_dim, "key_dim", "attention.key_length"),
            (&attention.value_dim, "value_dim", "attention.value_length"),
        ];
        let mut found = [0; 4];
        let mut good = true;
        for (slot, (own, field, key)) in found.iter_mut().zip(fields) {
            let path = format!("{}.{field}", attention.path);
            let value = self.count_or_key(own.as_ref(), &path, key, Some(layer));
            match value {
                Some(0) => {
                    self.key_fault(Some(layer), key, format!("{field} is 0; attention needs at least 1"));
                    good = false;
                }
                Some(value) => *slot = value,
                None => good = false,
            }
        }
        let [heads, kv_heads, key_dim, value_dim] = found;
        if !good {
            return None;
        }
        if heads % kv_heads != 0 {
            let message = format!("{kv_heads} key-value heads do not divide {heads} heads");
            self.key_fault(Some(layer), "attention.head_count_kv", message);
            return None;
        }
        Some(Heads { heads, kv_heads, key_dim, value_dim })
    }

    /// A count given by the spec, or else by a standard key.
    pub(super) fn count_or_key(
        &mut self,
        own: Option<&Number>,
        path: &str,
        key: &'static str,
        layer: Option<usize>,
    ) -> Option<usize> {
        match own {
            Some(number) => self.count(number, layer),
            None => {
                let value = self.standard_count(key, layer)?;
                let origin = self.key_origin(key);
                self.record(path, layer, value.to_string(), origin);
                Some(value)
            }
        }
    }

    /// Where the value of a standard key comes from.
    pub(super) fn key_origin(&self, key: &'static str) -> ValueOrigin {
        let mut keys = std::collections::BTreeSet::new();
        self.values.facts.origins(key, &mut keys);
        let names: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
        if names.is_empty() {
            ValueOrigin::Default
        } else if keys.iter().any(|key| self.values.facts.overridden.contains(*key)) {
            ValueOrigin::Override { keys: names }
        } else {
            ValueOrigin::File { keys: names }
        }
    }

    /// A real where 0 means none; negative is a fault.
    pub(super) fn positive(&mut self, number: Option<&Number>, layer: Option<usize>) -> Option<Option<f32>> {
        let Some(number) = number else { return Some(None) };
        let value = self.real(number, layer)?;
        if value < 0.0 {
            self.fault(
                &number.place,
                &number.path,
                layer,
                format!("{value}; it must not be negative (0 is none)"),
            );
            return None;
        }
        Some((value != 0.0).then_some(value))
    }

    fn qk_norm(&mut self, attention: &Attention, layer: usize) -> Option<Option<QkNormConfig>> {
        let Some(cases) = &attention.qk_norm else { return Some(None) };
        let Some(own) = self.case(cases, layer)? else { return Some(None) };
        let at = Some(layer);
        let over = self.name(&own.over, at);
        let place = self.name(&own.at, at);
        let norm = self.norm(&own.norm, (&own.place, &own.path), &["attn_q_norm", "attn_k_norm"], at);
        Some(Some(QkNormConfig { over: over?, at: place?, norm: norm? }))
    }

    fn window(&mut self, attention: &Attention, layer: usize) -> Option<Option<WindowConfig>> {
        let Some(cases) = &attention.window else { return Some(None) };
        let Some(own) = self.case(cases, layer)? else { return Some(None) };
        let kind = self.name(&own.kind, Some(layer));
        let size = self.count(&own.size, Some(layer));
        let (kind, size) = (kind?, size?);
        Some((size > 0).then_some(WindowConfig { kind, size }))
    }

    fn temperature(&mut self, attention: &Attention, layer: usize) -> Option<Option<TemperatureConfig>> {
        let Some(cases) = &attention.temperature else { return Some(None) };
        let Some(own) = self.case(cases, layer)? else { return Some(None) };
        let at = Some(layer);
        let scale = self.real(&own.scale, at)?;
        if scale == 0.0 {
            return Some(None);
        }
        let length = self.real(&own.length, at);
        let offset = self.real(&own.offset, at);
        let (length, offset) = (length?, offset?);
        if length <= 0.0 {
            self.fault(
                &own.length.place,
                &own.length.path,
                at,
                format!("{length}; tokens per step must be positive"),
            );
            return None;
        }
        Some(Some(TemperatureConfig { scale, length, offset }))
    }
}
