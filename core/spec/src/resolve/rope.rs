//! Rope, and what the file says about its scaling: read, accepted and understood, or refused.

use super::Resolver;
use crate::config::{RopeConfig, RopeScaling};
use crate::names::{Rounding, ScalingKind};
use crate::report::ValueOrigin;
use crate::source::KeyValue;
use crate::written::{Attention, Mixer, Number, Rope, Scaling};

/// Role of divisors of the rotary frequencies.
const FREQS: &str = "rope_freqs";
/// Role of the LongRoPE divisors up to the original context.
const SHORT: &str = "rope_factors_short";
/// Role of the LongRoPE divisors beyond.
const LONG: &str = "rope_factors_long";

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
const LEGACY_FACTOR: &str = "rope.scale_linear";
const ORIGINAL: &str = "rope.scaling.original_context_length";
const ATTN_FACTOR: &str = "rope.scaling.attn_factor";
const YARN_ATTN_FACTOR: &str = "rope.scaling.yarn_attn_factor";
const YARN_EXT_FACTOR: &str = "rope.scaling.yarn_ext_factor";

impl Resolver<'_> {
    pub(super) fn rope(
        &mut self,
        attention: &Attention,
        key_dim: usize,
        layer: usize,
    ) -> Option<Option<RopeConfig>> {
        let Some(cases) = &attention.rope else { return Some(None) };
        let Some(rope) = self.case(cases, layer)? else { return Some(None) };
        let at = Some(layer);
        let pairs = self.name(&rope.pairs, at);
        let dims =
            self.count_or_key(rope.dims.as_ref(), &format!("{}.dims", rope.path), "rope.dimension_count", at);
        let base = self.real(&rope.base, at);
        let scaling = self.scaling(rope, layer);
        let (dims, base) = (dims?, base?);
        if dims == 0 || dims % 2 != 0 || dims > key_dim {
            let message =
                format!("{dims} dims rotate; an even number up to {key_dim} (the key head) is wanted");
            self.fault(&rope.place, &format!("{}.dims", rope.path), at, message);
            return None;
        }
        if base <= 0.0 {
            self.fault(&rope.base.place, &rope.base.path, at, format!("{base}; a positive base is wanted"));
            return None;
        }
        Some(Some(RopeConfig { pairs: pairs?, dims, base, scaling: scaling? }))
    }

    /// A scaling that no layer could apply, because the spec has no rope at all.
    pub(super) fn unroped_scaling(&mut self) {
        let spec = self.spec;
        let roped = spec.body.mixer.cases.iter().any(|case| match &case.component {
            Mixer::Attention(attention) => attention.rope.is_some(),
            Mixer::NotBuiltIn { .. } => true,
            Mixer::None => false,
        });
        if !roped && let Some(Some(kind)) = self.stated(None) {
            let message =
                format!("the file says rope scaling `{}`, and spec {} has no rope", kind.name(), spec.id());
            self.key_fault(None, TYPE, message);
        }
    }

    fn scaling(&mut self, rope: &Rope, layer: usize) -> Option<RopeScaling> {
        let at = Some(layer);
        let stated = self.stated(at)?;
        let Some(kind) = stated else {
            self.plain_magnitude(at, "no scaling")?;
            return Some(self.scaled(rope, at, RopeScaling::None));
        };
        let accepted = rope.scaling.as_ref().map_or(&[][..], |scaling| &scaling.accept);
        if !accepted.contains(&kind) {
            let mut names: Vec<&str> = vec!["none"];
            names.extend(accepted.iter().map(|kind| kind.name()));
            let said = self.who_says(kind);
            let message = format!(
                "rope scaling `{}` ({said}) is not accepted by spec {}; accepted: {}",
                kind.name(),
                self.spec.id(),
                names.join(", ")
            );
            self.key_fault(at, TYPE, message);
            return None;
        }
        let own = rope.scaling.as_ref()?;
        if let Some(when) = &own.when
            && !self.truth(when, at)?
        {
            return Some(RopeScaling::None);
        }
        let scaling = match kind {
            ScalingKind::Linear => self.linear(at)?,
            ScalingKind::Factors => {
                self.plain_magnitude(at, "factors")?;
                RopeScaling::Factors { role: FREQS.into() }
            }
            ScalingKind::Llama3 => self.llama3(at)?,
            ScalingKind::Yarn => self.yarn(own, &rope.path, at)?,
            ScalingKind::LongRope => self.longrope(own, at)?,
        };
        Some(self.scaled(rope, at, scaling))
    }

    fn scaled(&mut self, rope: &Rope, at: Option<usize>, scaling: RopeScaling) -> RopeScaling {
        let keys: Vec<String> = [TYPE, FACTOR, LEGACY_FACTOR, ORIGINAL, ATTN_FACTOR]
            .into_iter()
            .filter(|key| self.values.facts.keys.contains_key(*key))
            .map(str::to_string)
            .collect();
        let origin = match &scaling {
            RopeScaling::Factors { role } => ValueOrigin::Tensors { roles: vec![role.clone()] },
            RopeScaling::LongRope { short, long, .. } => {
                ValueOrigin::Tensors { roles: vec![short.clone(), long.clone()] }
            }
            _ if keys.is_empty() => ValueOrigin::Default,
            _ => ValueOrigin::File { keys },
        };
        let text = match &scaling {
            RopeScaling::None => "none".to_string(),
            other => format!("{other:?}"),
        };
        self.record(&format!("{}.scaling", rope.path), at, text, origin);
        scaling
    }

    /// What the file says, by key and by tensor. `None` is a fault already reported; `Some(None)` is no scaling.
    fn stated(&mut self, at: Option<usize>) -> Option<Option<ScalingKind>> {
        let said = match self.values.facts.keys.get(TYPE) {
            None => None,
            Some(KeyValue::Text(text)) => Some(text.clone()),
            Some(_) => {
                self.key_fault(at, TYPE, "not a string");
                return None;
            }
        };
        let factor = self.factor(at)?;
        if let Some(kind) = self.stated_by_tensors(at)? {
            return self.agreeing(kind, said.as_deref(), factor, at).map(Some);
        }
        let kind = match said.as_deref() {
            Some("none" | "default") => None,
            None if factor.is_none_or(|factor| factor == 1.0) => None,
            None => Some(ScalingKind::Linear),
            Some("linear") => Some(ScalingKind::Linear).filter(|_| factor != Some(1.0)),
            Some("yarn") => Some(ScalingKind::Yarn),
            Some("llama3") => Some(ScalingKind::Llama3),
            Some("longrope" | "su") => {
                let message = format!("the file says `longrope` and has no tensors {SHORT} and {LONG}");
                self.key_fault(at, TYPE, message);
                return None;
            }
            Some(other) => {
                let help =
                    crate::nearest::nearest_help(other, ["none", "linear", "yarn", "llama3", "longrope"]);
                let message = format!(
                    "\"{other}\" is not a rope scaling that is understood{help}; understood: none, linear, yarn, llama3, longrope"
                );
                self.key_fault(at, TYPE, message);
                return None;
            }
        };
        Some(kind)
    }

    fn stated_by_tensors(&mut self, at: Option<usize>) -> Option<Option<ScalingKind>> {
        let has = |role| self.input.roles.has(role, None);
        let (short, long, freqs) = (has(SHORT), has(LONG), has(FREQS));
        if short != long {
            let (there, missing) = if short { (SHORT, LONG) } else { (LONG, SHORT) };
            self.file_fault(
                at,
                format!("tensor {missing}"),
                format!("missing; the file has {there}, and one needs the other"),
            );
            return None;
        }
        if long && freqs {
            let message = format!("the file has this and {LONG}: two scalings at once");
            self.file_fault(at, format!("tensor {FREQS}"), message);
            return None;
        }
        Some(if long {
            Some(ScalingKind::LongRope)
        } else if freqs {
            Some(ScalingKind::Factors)
        } else {
            None
        })
    }

    /// Checks that keys do not ask for another scaling than the factor tensors do.
    fn agreeing(
        &mut self,
        kind: ScalingKind,
        said: Option<&str>,
        factor: Option<f64>,
        at: Option<usize>,
    ) -> Option<ScalingKind> {
        let same = match (kind, said) {
            (_, None | Some("none" | "default")) => true,
            (ScalingKind::LongRope, Some(said)) => matches!(said, "longrope" | "su"),
            (ScalingKind::Factors, Some(said)) => {
                said == "llama3" || (said == "linear" && factor.is_none_or(|f| f == 1.0))
            }
            _ => false,
        };
        let unscaled = factor.is_none_or(|factor| factor == 1.0)
            || matches!(said, Some("llama3" | "longrope" | "su" | "none"));
        if same && unscaled {
            return Some(kind);
        }
        let said = said
            .map_or_else(|| format!("{FACTOR} = {}", factor.unwrap_or(1.0)), |said| format!("\"{said}\""));
        let message =
            format!("the file says {said} and has the tensors of `{}`: two scalings at once", kind.name());
        self.key_fault(at, TYPE, message);
        None
    }

    /// `rope.scaling.factor`, or its old name; 0 is the old way to say 1.
    fn factor(&mut self, at: Option<usize>) -> Option<Option<f64>> {
        for key in [FACTOR, LEGACY_FACTOR] {
            if let Some(factor) = self.key_number(key, at)? {
                if factor < 0.0 {
                    self.key_fault(at, key, format!("{factor}; a positive factor is wanted"));
                    return None;
                }
                return Some(Some(if factor == 0.0 { 1.0 } else { factor }));
            }
        }
        Some(None)
    }

    /// A number of the file, if it is there.
    fn key_number(&mut self, key: &str, at: Option<usize>) -> Option<Option<f64>> {
        let value = match self.values.facts.in_layer(key, at) {
            None => return Some(None),
            Some(KeyValue::Number(value)) => *value,
            Some(KeyValue::Integer(value)) => *value as f64,
            Some(_) => f64::NAN,
        };
        if value.is_finite() {
            return Some(Some(value));
        }
        self.key_fault(at, key, "not a finite number");
        None
    }

    /// A positive number of the file that must be there for a scaling.
    fn needed(&mut self, key: &str, kind: &str, at: Option<usize>) -> Option<f64> {
        match self.key_number(key, at)? {
            Some(value) if value > 0.0 => Some(value),
            Some(value) => {
                self.key_fault(
                    at,
                    key,
                    format!("{value}; a positive number is wanted for rope scaling `{kind}`"),
                );
                None
            }
            None => {
                self.key_fault(at, key, format!("missing; rope scaling `{kind}` needs it"));
                None
            }
        }
    }

    /// Refuses an attention factor where nothing applies it.
    fn plain_magnitude(&mut self, at: Option<usize>, kind: &str) -> Option<()> {
        match self.key_number(ATTN_FACTOR, at)? {
            Some(value) if value != 1.0 => {
                self.key_fault(
                    at,
                    ATTN_FACTOR,
                    format!("{value}; it has no meaning with {kind}, and would be lost"),
                );
                None
            }
            _ => Some(()),
        }
    }

    fn linear(&mut self, at: Option<usize>) -> Option<RopeScaling> {
        self.plain_magnitude(at, "linear scaling")?;
        let factor = match self.factor(at)? {
            Some(factor) => factor as f32,
            None => {
                self.key_fault(at, FACTOR, "missing; rope scaling `linear` needs it");
                return None;
            }
        };
        Some(RopeScaling::Linear { factor })
    }

    fn llama3(&mut self, at: Option<usize>) -> Option<RopeScaling> {
        self.plain_magnitude(at, "llama3 scaling")?;
        let factor = self.needed(FACTOR, "llama3", at);
        let low = self.needed("rope.scaling.low_freq_factor", "llama3", at);
        let high = self.needed("rope.scaling.high_freq_factor", "llama3", at);
        let original = self.needed(ORIGINAL, "llama3", at);
        let (low, high) = (low?, high?);
        if high <= low {
            let message = format!("{high}; it must be larger than low_freq_factor, {low}");
            self.key_fault(at, "rope.scaling.high_freq_factor", message);
            return None;
        }
        Some(RopeScaling::Llama3 {
            factor: factor? as f32,
            low: low as f32,
            high: high as f32,
            original_context: original? as f32,
        })
    }

    /// YaRN: numbers from the file, the whole magnitude from the spec or `attn_factor * (1 + 0.1 ln factor)`.
    fn yarn(&mut self, own: &Scaling, path: &str, at: Option<usize>) -> Option<RopeScaling> {
        let factor = self.needed(FACTOR, "yarn", at);
        let original = match self.key_number(ORIGINAL, at)? {
            Some(_) => self.needed(ORIGINAL, "yarn", at),
            None => self.needed("context_length", "yarn", at),
        };
        let fast = self.key_number("rope.scaling.yarn_beta_fast", at)?.unwrap_or(32.0);
        let slow = self.key_number("rope.scaling.yarn_beta_slow", at)?.unwrap_or(1.0);
        let whole_dims = match &own.yarn_round {
            Some(round) => self.name(round, at)? == Rounding::WholeDims,
            None => {
                self.record_default(&format!("{path}.scaling.yarn"), "round", at, "whole-dims");
                true
            }
        };
        let factor = factor?;
        let default = (1.0 + 0.1 * factor.max(1.0).ln()) * self.key_number(ATTN_FACTOR, at)?.unwrap_or(1.0);
        let magnitude = match &own.yarn_magnitude {
            Some(magnitude) => self.real(magnitude, at)?,
            None => {
                self.record_default(&format!("{path}.scaling.yarn"), "magnitude", at, default as f32);
                default as f32
            }
        };
        self.settled(YARN_ATTN_FACTOR, magnitude, at)?;
        self.settled(YARN_EXT_FACTOR, 1.0, at)?;
        if fast <= slow || slow <= 0.0 {
            let message =
                format!("{fast} and yarn_beta_slow {slow}: the fast one must be the larger, both positive");
            self.key_fault(at, "rope.scaling.yarn_beta_fast", message);
            return None;
        }
        Some(RopeScaling::Yarn {
            factor: factor as f32,
            original_context: original? as f32,
            beta_fast: fast as f32,
            beta_slow: slow as f32,
            magnitude,
            whole_dims,
        })
    }

    /// A key that implementations read differently (HF takes it, llama.cpp does not): it must say what is computed anyway.
    fn settled(&mut self, key: &'static str, computed: f32, at: Option<usize>) -> Option<()> {
        let Some(value) = self.key_number(key, at)? else { return Some(()) };
        if (value - f64::from(computed)).abs() <= 1e-4 * f64::from(computed).abs() {
            return Some(());
        }
        if self.accepts(key) {
            self.accepted.insert(key.to_string());
            return Some(());
        }
        let spelled = self.spelled(key);
        let message = format!(
            "{value}, where {computed} is computed: llama.cpp ignores this key, HF does not; \
             accept the computed value with --accept-unread {spelled}"
        );
        self.key_fault(at, key, message);
        None
    }

    fn longrope(&mut self, own: &Scaling, at: Option<usize>) -> Option<RopeScaling> {
        let original = self.needed(ORIGINAL, "longrope", at);
        let magnitude = match &own.longrope_magnitude {
            Some(magnitude) => self.longrope_magnitude(magnitude, at),
            None => self.needed(ATTN_FACTOR, "longrope", at).map(|value| value as f32),
        };
        let original = original?;
        if original.fract() != 0.0 || original > f64::from(u32::MAX) {
            self.key_fault(at, ORIGINAL, format!("{original} is not a number of tokens"));
            return None;
        }
        Some(RopeScaling::LongRope {
            short: SHORT.into(),
            long: LONG.into(),
            original_context: original as usize,
            magnitude: magnitude?,
        })
    }

    fn longrope_magnitude(&mut self, magnitude: &Number, at: Option<usize>) -> Option<f32> {
        let value = self.real(magnitude, at)?;
        if value > 0.0 {
            return Some(value);
        }
        self.fault(&magnitude.place, &magnitude.path, at, format!("{value}; a positive magnitude is wanted"));
        None
    }

    fn who_says(&self, kind: ScalingKind) -> String {
        match kind {
            ScalingKind::Factors => format!("tensor {FREQS}"),
            ScalingKind::LongRope => format!("tensors {SHORT} and {LONG}"),
            _ => [TYPE, FACTOR, LEGACY_FACTOR]
                .into_iter()
                .find_map(|key| {
                    let value = match self.values.facts.keys.get(key)? {
                        KeyValue::Text(text) => format!("\"{text}\""),
                        KeyValue::Number(number) => number.to_string(),
                        KeyValue::Integer(number) => number.to_string(),
                        other => format!("{other:?}"),
                    };
                    Some(format!("{} = {value}", self.spelled(key)))
                })
                .unwrap_or_default(),
        }
    }
}
