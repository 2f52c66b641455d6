//! The mixer `latent-attention`.

use super::rope::rope;
use crate::array::array_of;
use menagerie_model::components::{LatentAttention, LatentLinears, LatentSizes, QueryLatent, Temperature};
use menagerie_model::{ExpertLinear, HeadRows, Operation, SequenceMixer, SiteForm, Weight};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component, or_fault};
use menagerie_spec::config::{LatentAttentionConfig, TemperatureConfig};
use menagerie_spec::kind::Component as Config;

component!(mixer LatentAttentionConfig, latent_attention);

fn latent_attention(
    config: &LatentAttentionConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn SequenceMixer>> {
    let LatentAttentionConfig {
        heads,
        key_dim,
        value_dim,
        latent_dim,
        rotated_dim,
        query_latent_dim,
        scale,
        latent_norm,
        temperature,
        rope: rotary,
    } = config;
    parts.needs(Operation::LatentAttention)?;
    parts.needs(Operation::StoredAttention)?;
    let sizes = LatentSizes {
        heads: *heads,
        plain: key_dim - rotated_dim,
        rotated: *rotated_dim,
        value: *value_dim,
        latent: *latent_dim,
        scale: *scale,
    };
    sizes_are_possible(&sizes, parts)?;
    let linears = linears_of(&sizes, *query_latent_dim, latent_norm, parts);
    let norm = parts.norm("attn_kv_a_norm", latent_norm, *latent_dim);
    let rotary = rotary.as_ref().map(|config| rope(config, parts)).transpose();
    let (linears, norm, rotary) = (linears?, norm?, rotary?);
    let name = parts.name("latent");
    let built = LatentAttention::new(&name, linears, sizes, norm, parts.states());
    let mut built = or_fault(parts, built)?;
    if let Some(rotary) = rotary {
        built = built.with_rope(rotary, parts.ropes());
    }
    built.temperature =
        temperature.map(|TemperatureConfig { scale, length, offset }| Temperature { scale, length, offset });
    Ok(Box::new(built))
}

/// Checks that the row counts of all projections do not overflow.
fn sizes_are_possible(sizes: &LatentSizes, parts: &mut dyn ComponentParts) -> BuildResult<()> {
    let LatentSizes { heads, plain, rotated, value, latent, scale: _ } = *sizes;
    let widest = [plain.saturating_add(rotated), plain.saturating_add(value), latent.saturating_add(rotated)];
    let countable = |dim: usize| heads.checked_mul(dim).is_some_and(|width| (1..1 << 31).contains(&width));
    if widest.into_iter().all(countable) && latent.checked_mul(heads * (plain + value)).is_some() {
        return Ok(());
    }
    Err(parts.fault(&format!(
        "latent attention: {heads} heads of {} (keys) and {value} (values) elements over latents of {latent}: the number \
         of rows overflows; check the head sizes of the config",
        plain + rotated
    )))
}

/// The projections.
fn linears_of(
    sizes: &LatentSizes,
    query_latent_dim: Option<usize>,
    norm: &Config,
    parts: &mut dyn ComponentParts,
) -> BuildResult<LatentLinears> {
    let query_latent = query_latent_dim
        .map(|dim| {
            let (down, norm) = (parts.linear("attn_q_a"), parts.norm("attn_q_a_norm", norm, dim));
            Ok(QueryLatent { down: down?, norm: norm? })
        })
        .transpose();
    let query = parts.linear(if query_latent_dim.is_some() { "attn_q_b" } else { "attn_q" });
    let latent = parts.split_linear("attn_kv_a_mqa", &[sizes.latent, sizes.rotated], &[]);
    let absorbed =
        if parts.has("attn_kv_b", TensorPart::Main) { together(sizes, parts) } else { apart(sizes, parts) };
    let output = parts.linear("attn_output");
    let [latent, rotated_key] = array_of(parts, latent?)?;
    let [absorb_key, absorb_value] = absorbed?;
    Ok(LatentLinears {
        query: query?,
        query_latent: query_latent?,
        latent,
        rotated_key,
        absorb_key,
        absorb_value,
        output: output?,
    })
}

/// The absorbing matrices of keys and values, from separate weights; that of keys is stored in the orientation in which
/// queries are multiplied.
fn apart(sizes: &LatentSizes, parts: &mut dyn ComponentParts) -> BuildResult<[Box<dyn ExpertLinear>; 2]> {
    let (keys, values) = (parts.weight("attn_k_b"), parts.weight("attn_v_b"));
    let (keys, values) = (keys?, values?);
    let [of_keys, of_values] = head_rows(sizes);
    let absorb_key = parts.experts_of("attn_k_b", &keys, SiteForm::TurnedHeads(of_keys));
    let absorb_value = parts.experts_of("attn_v_b", &values, SiteForm::HeadRows(of_values));
    Ok([absorb_key?, absorb_value?])
}

/// The absorbing matrices from one weight, head after head; those of keys are transposed.
fn together(sizes: &LatentSizes, parts: &mut dyn ComponentParts) -> BuildResult<[Box<dyn ExpertLinear>; 2]> {
    let LatentSizes { heads, plain, value, .. } = *sizes;
    let both = parts.weight("attn_kv_b")?;
    let of_heads = or_fault(parts, both.as_stack(heads))?;
    let keys = or_fault(parts, of_heads.row_range(0..plain))?;
    let values = or_fault(parts, of_heads.row_range(plain..plain + value))?;
    let turned = turned(&keys, parts)?;
    let [of_keys, of_values] = head_rows(sizes);
    let absorb_key = parts.experts_of("attn_kv_b", &turned, SiteForm::TurnedHeads(of_keys));
    let absorb_value = parts.experts_of("attn_kv_b", &values, SiteForm::HeadRows(of_values));
    Ok([absorb_key?, absorb_value?])
}

/// The rows of keys and of values in each head of one weight.
fn head_rows(sizes: &LatentSizes) -> [HeadRows; 2] {
    let LatentSizes { heads, plain, value, .. } = *sizes;
    [0..plain, plain..plain + value].map(|rows| HeadRows { heads, rows })
}

/// Transposes each matrix into a copy in f32.
fn turned(weight: &Weight, parts: &mut dyn ComponentParts) -> BuildResult<Weight> {
    let values = parts.backend().values(weight);
    let values = or_fault(parts, values)?;
    or_fault(parts, weight.turned(&values))
}
