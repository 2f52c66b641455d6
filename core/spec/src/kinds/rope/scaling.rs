//! The scaling of rotary frequencies of a file: read, accepted and applied, or refused.

use super::{LongRopeOptions, RopeOptions, RopeScaling, ScalingKind, ScalingOptions, YarnOptions};
use crate::kind::written::{WrittenTable, WrittenValue};
use crate::kind::{Component, FieldDefault, Options, Positive, RecordedFault, ResolveContext};
use crate::language::origin::ValueOrigin;
use crate::text::source::MetadataValue;
use menagerie_entries::{nearest, nearest_clause};

/// Role of divisors of the rotary frequencies.
const FREQS: &str = "rope_freqs";
/// Role of the LongRoPE divisors up to the original context.
const SHORT: &str = "rope_factors_short";
/// Role of the LongRoPE divisors beyond.
const LONG: &str = "rope_factors_long";

const SHARE: &str = "rope.scaling.turning_share";
/// The names of scalings in files.
const UNDERSTOOD: [&str; 6] = ["none", "linear", "yarn", "llama3", "longrope", "proportional"];

const TYPE: &str = "rope.scaling.type";
const FACTOR: &str = "rope.scaling.factor";
const LEGACY_FACTOR: &str = "rope.scale_linear";
const ORIGINAL: &str = "rope.scaling.original_context_length";
const ATTN_FACTOR: &str = "rope.scaling.attn_factor";
const YARN_ATTN_FACTOR: &str = "rope.scaling.yarn_attn_factor";
const YARN_EXT_FACTOR: &str = "rope.scaling.yarn_ext_factor";

/// The scalings that a spec accepts; absent = none.
type Own = Option<ScalingOptions>;

/// Whether a mixer's options define how a rope scaling of the file is applied.
pub(crate) fn applies_scaling(mixer: &WrittenTable) -> bool {
    let built_in = mixer.kind.is_none_or(|kind| kind.is_built_in() && !kind.reads.contains(&TYPE));
    !built_in || mixer.fields.iter().flatten().any(|field| holds_rope(&field.value))
}

fn holds_rope(value: &WrittenValue) -> bool {
    let within = |table: &WrittenTable| {
        table.table.title == RopeOptions::TABLE.title
            || table.fields.iter().flatten().any(|field| holds_rope(&field.value))
    };
    match value {
        WrittenValue::Table(table) => within(table),
        WrittenValue::Cases(cases) => cases.cases.iter().any(|case| within(&case.table)),
        _ => false,
    }
}

/// Refuses a scaling of the file if nothing applies it.
pub(crate) fn refuse_scaling(at: &mut ResolveContext<'_>) {
    if let Ok(Some(kind)) = stated(at) {
        let message = format!(
            "the file has rope scaling `{}`, and spec {} has no rope",
            kind.name(),
            at.resolver.spec_id()
        );
        let _: Result<(), RecordedFault> = at.key_fault(TYPE, message);
    }
}

/// The scaling of a rope in one layer.
pub(super) fn resolve(own: Own, at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    let stated = stated(at)?;
    let Some(kind) = stated else {
        plain_magnitude(at, "no scaling")?;
        return Ok(scaled(at, RopeScaling::None));
    };
    let Some(ScalingOptions {
        accept,
        when,
        linear: _,
        yarn: of_yarn,
        llama3: _,
        proportional: _,
        factors: _,
        longrope: of_longrope,
    }) = own
    else {
        return refused(kind, &[], at);
    };
    if !accept.contains(&kind) {
        return refused(kind, &accept, at);
    }
    if let Some(when) = when
        && !at.force(&when)?
    {
        return Ok(RopeScaling::None);
    }
    let scaling = match kind {
        ScalingKind::Linear => linear(at)?,
        ScalingKind::Factors => {
            plain_magnitude(at, "factors")?;
            RopeScaling::Factors { role: FREQS.into() }
        }
        ScalingKind::Llama3 => llama3(at)?,
        ScalingKind::Proportional => proportional(at)?,
        ScalingKind::Yarn => {
            let own = at.force(&of_yarn)?;
            yarn(own, at)?
        }
        ScalingKind::LongRope => {
            let own = at.force(&of_longrope)?;
            longrope(own, at)?
        }
    };
    Ok(scaled(at, scaling))
}

/// Frequencies of a component: the component must read everything that the file states about scaling.
pub(super) fn of_component(
    component: Component,
    long_after: Option<usize>,
    beside_scaling: bool,
    at: &mut ResolveContext<'_>,
) -> Result<RopeScaling, RecordedFault> {
    if beside_scaling {
        return at.fault("frequencies", "`frequencies` replaces `scaling`; write only one of them");
    }
    let says_none = |value: &MetadataValue| matches!(value, MetadataValue::Text(text) if matches!(text.as_str(), "none" | "default"));
    let typed = at.key(TYPE).is_some_and(|value| !says_none(value));
    let factor = factor(at)?;
    let tensors = stated_by_tensors(at)?;
    let kind = component.kind();
    let is_of_scaling = |key: &str| key.starts_with("rope.scaling.");
    let reads_scaling = kind.reads.iter().any(|key| is_of_scaling(key))
        || kind
            .options
            .fields
            .iter()
            .any(|field| matches!(field.default, FieldDefault::Key(key) if is_of_scaling(key)));
    if tensors.is_some() || !reads_scaling && (typed || factor.is_some_and(|factor| factor != 1.0)) {
        let message = format!(
            "the file scales its rope, and `{}`, which gives the frequencies, does not read how; take `frequencies` out of \
             the spec, or use a component that reads rope.scaling keys",
            kind.name
        );
        return at.key_fault(TYPE, message);
    }
    let context = needed(at, "context_length", kind.name)?;
    at.record_at("frequencies", kind.name.to_owned(), ValueOrigin::Spec);
    Ok(RopeScaling::Component { component, context: context as usize, long_after })
}

fn refused<T>(
    kind: ScalingKind,
    accept: &[ScalingKind],
    at: &mut ResolveContext<'_>,
) -> Result<T, RecordedFault> {
    let mut names: Vec<&str> = vec!["none"];
    names.extend(accept.iter().map(|kind| kind.name()));
    let message = format!(
        "rope scaling `{}` ({}) is not accepted by spec {}; accepted: {}",
        kind.name(),
        who_says(at, kind),
        at.resolver.spec_id(),
        names.join(", ")
    );
    at.key_fault(TYPE, message)
}

fn scaled(at: &mut ResolveContext<'_>, scaling: RopeScaling) -> RopeScaling {
    let keys: Vec<String> = [TYPE, FACTOR, LEGACY_FACTOR, ORIGINAL, ATTN_FACTOR]
        .into_iter()
        .filter(|key| at.resolver.has_key(key))
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
    at.record_at("scaling", text, origin);
    scaling
}

/// The scaling of the file, from keys and tensors.
fn stated(at: &mut ResolveContext<'_>) -> Result<Option<ScalingKind>, RecordedFault> {
    let said = match at.key(TYPE) {
        None => None,
        Some(MetadataValue::Text(text)) => Some(text.clone()),
        Some(_) => {
            return at.key_fault(TYPE, "not a string");
        }
    };
    let factor = factor(at)?;
    if let Some(kind) = stated_by_tensors(at)? {
        return agreeing(at, kind, said.as_deref(), factor).map(Some);
    }
    let kind = match said.as_deref() {
        Some("none" | "default") => None,
        None if factor.is_none_or(|factor| factor == 1.0) => None,
        None => Some(ScalingKind::Linear),
        Some("linear") => Some(ScalingKind::Linear).filter(|_| factor != Some(1.0)),
        Some("yarn") => Some(ScalingKind::Yarn),
        Some("llama3") => Some(ScalingKind::Llama3),
        Some("proportional") => Some(ScalingKind::Proportional),
        Some("longrope" | "su") => {
            let message = format!("the file has scaling `longrope` and lacks the tensors {SHORT} and {LONG}");
            return at.key_fault(TYPE, message);
        }
        Some(other) => {
            let help = nearest_clause(nearest(other, UNDERSTOOD));
            let message = format!(
                "\"{other}\" is not a supported rope scaling{help}; supported: {}",
                UNDERSTOOD.join(", ")
            );
            return at.key_fault(TYPE, message);
        }
    };
    Ok(kind)
}

fn stated_by_tensors(at: &mut ResolveContext<'_>) -> Result<Option<ScalingKind>, RecordedFault> {
    let has = |role| at.resolver.has_role(role, None);
    let (short, long, freqs) = (has(SHORT), has(LONG), has(FREQS));
    if short != long {
        let (there, missing) = if short { (SHORT, LONG) } else { (LONG, SHORT) };
        return at.tensor_fault(missing, format!("missing; the file has {there}, which requires it"));
    }
    if long && freqs {
        let message = format!("the file has this tensor and {LONG}: two scalings at once");
        return at.tensor_fault(FREQS, message);
    }
    Ok(if long {
        Some(ScalingKind::LongRope)
    } else if freqs {
        Some(ScalingKind::Factors)
    } else {
        None
    })
}

/// Checks that keys do not request another scaling than the factor tensors.
fn agreeing(
    at: &mut ResolveContext<'_>,
    kind: ScalingKind,
    said: Option<&str>,
    factor: Option<f64>,
) -> Result<ScalingKind, RecordedFault> {
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
        return Ok(kind);
    }
    let said =
        said.map_or_else(|| format!("{FACTOR} = {}", factor.unwrap_or(1.0)), |said| format!("\"{said}\""));
    let message = format!("the file has {said} and the tensors of `{}`: two scalings at once", kind.name());
    at.key_fault(TYPE, message)
}

/// `rope.scaling.factor`, or its old name; 0 is the old form of 1.
fn factor(at: &mut ResolveContext<'_>) -> Result<Option<f64>, RecordedFault> {
    for key in [FACTOR, LEGACY_FACTOR] {
        if let Some(factor) = at.key_number(key)? {
            if factor < 0.0 {
                return at.key_fault(key, format!("{factor}; expected a positive factor"));
            }
            return Ok(Some(if factor == 0.0 { 1.0 } else { factor }));
        }
    }
    Ok(None)
}

/// A positive number of the file that a scaling requires.
fn needed(at: &mut ResolveContext<'_>, key: &str, kind: &str) -> Result<f64, RecordedFault> {
    match at.key_number(key)? {
        Some(value) if value > 0.0 => Ok(value),
        Some(value) => {
            at.key_fault(key, format!("{value}; rope scaling `{kind}` requires a positive number"))
        }
        None => at.key_fault(key, format!("missing; rope scaling `{kind}` needs it")),
    }
}

/// Refuses an attention factor if nothing applies it.
fn plain_magnitude(at: &mut ResolveContext<'_>, kind: &str) -> Result<(), RecordedFault> {
    match at.key_number(ATTN_FACTOR)? {
        Some(value) if value != 1.0 => {
            at.key_fault(ATTN_FACTOR, format!("{value}; it has no effect with {kind} and would be ignored"))
        }
        _ => Ok(()),
    }
}

fn linear(at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    plain_magnitude(at, "linear scaling")?;
    let factor = match factor(at)? {
        Some(factor) => factor as f32,
        None => {
            return at.key_fault(FACTOR, "missing; rope scaling `linear` needs it");
        }
    };
    Ok(RopeScaling::Linear { factor })
}

fn llama3(at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    plain_magnitude(at, "llama3 scaling")?;
    let factor = needed(at, FACTOR, "llama3");
    let low = needed(at, "rope.scaling.low_freq_factor", "llama3");
    let high = needed(at, "rope.scaling.high_freq_factor", "llama3");
    let original = needed(at, ORIGINAL, "llama3");
    let (low, high) = (low?, high?);
    if high <= low {
        let message = format!("{high}; must be larger than low_freq_factor ({low})");
        return at.key_fault("rope.scaling.high_freq_factor", message);
    }
    Ok(RopeScaling::Llama3 {
        factor: factor? as f32,
        low: low as f32,
        high: high as f32,
        original_context: original? as f32,
    })
}

fn proportional(at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    plain_magnitude(at, "proportional scaling")?;
    match needed(at, SHARE, "proportional")? {
        share if share > 1.0 => at.key_fault(SHARE, format!("{share}; must be at most 1 (all pairs rotate)")),
        share => Ok(RopeScaling::Proportional { share: share as f32 }),
    }
}

/// YaRN: numbers from the file, the whole magnitude from the spec or `attn_factor * (1 + 0.1 ln factor)`.
fn yarn(own: YarnOptions, at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    let YarnOptions { magnitude, round: rounding } = own;
    let factor = needed(at, FACTOR, "yarn");
    let original = match at.key_number(ORIGINAL)? {
        Some(_) => needed(at, ORIGINAL, "yarn"),
        None => needed(at, "context_length", "yarn"),
    };
    let fast = at.key_number("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0);
    let slow = at.key_number("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0);
    let factor = factor?;
    let magnitude = match magnitude {
        Some(magnitude) => magnitude,
        None => {
            let attention = at.key_number(ATTN_FACTOR)?.unwrap_or(1.0);
            let magnitude = ((1.0 + 0.1 * libm::log(factor.max(1.0))) * attention) as f32;
            at.computed("scaling.yarn.magnitude", magnitude);
            magnitude
        }
    };
    settled(at, YARN_ATTN_FACTOR, magnitude)?;
    settled(at, YARN_EXT_FACTOR, 1.0)?;
    if fast <= slow || slow <= 0.0 {
        let message = format!(
            "{fast}, with yarn_beta_slow {slow}: beta_fast must be larger, and both must be positive"
        );
        return at.key_fault("rope.scaling.yarn_beta_fast", message);
    }
    Ok(RopeScaling::Yarn {
        factor: factor as f32,
        original_context: original? as f32,
        beta_fast: fast as f32,
        beta_slow: slow as f32,
        magnitude,
        rounding,
    })
}

/// A key that implementations read differently (HF uses it, llama.cpp does not): it must equal the value that is used
/// anyway.
fn settled(at: &mut ResolveContext<'_>, key: &'static str, computed: f32) -> Result<(), RecordedFault> {
    let Some(value) = at.key_number(key)? else { return Ok(()) };
    if (value - f64::from(computed)).abs() <= 1e-4 * f64::from(computed).abs() {
        return Ok(());
    }
    if at.resolver.accept(key) {
        return Ok(());
    }
    let spelled = at.resolver.spelled(key);
    let message = format!(
        "{value}, but {computed} is used: llama.cpp ignores this key, transformers reads it; \
         accept the computed value with --accept-unread {spelled}"
    );
    at.key_fault(key, message)
}

fn longrope(own: LongRopeOptions, at: &mut ResolveContext<'_>) -> Result<RopeScaling, RecordedFault> {
    let LongRopeOptions { original_context, magnitude } = own;
    let original = match original_context {
        Some(Positive(tokens)) => Ok(tokens as f64),
        None => needed(at, ORIGINAL, "longrope"),
    };
    let magnitude = match magnitude {
        Some(Positive(magnitude)) => Ok(magnitude),
        None => needed(at, ATTN_FACTOR, "longrope").map(|value| value as f32),
    };
    let original = original?;
    if original.fract() != 0.0 || original > f64::from(u32::MAX) {
        return at.key_fault(ORIGINAL, format!("{original} is not a number of tokens"));
    }
    Ok(RopeScaling::LongRope {
        short: SHORT.into(),
        long: LONG.into(),
        original_context: original as usize,
        magnitude: magnitude?,
    })
}

fn who_says(at: &ResolveContext<'_>, kind: ScalingKind) -> String {
    match kind {
        ScalingKind::Factors => format!("tensor {FREQS}"),
        ScalingKind::LongRope => format!("tensors {SHORT} and {LONG}"),
        _ => [TYPE, FACTOR, LEGACY_FACTOR]
            .into_iter()
            .find_map(|key| {
                let value = match at.key(key)? {
                    MetadataValue::Text(text) => format!("\"{text}\""),
                    MetadataValue::Number(number) => number.to_string(),
                    MetadataValue::Integer(number) => number.to_string(),
                    other => format!("{other:?}"),
                };
                Some(format!("{} = {value}", at.resolver.spelled(key)))
            })
            .unwrap_or_default(),
    }
}
