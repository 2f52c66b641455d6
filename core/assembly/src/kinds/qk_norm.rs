//! Norms on the heads of queries and keys.

use menagerie_model::components::{HeadNorm, QkNorm, QkNormPlace};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart};
use menagerie_spec::config::{
    AttentionConfig, LayerNormConfig, NormBias, NormWeight, QkNormAt, QkNormConfig, QkNormOver, RmsConfig,
};
use menagerie_spec::kind::Component as Config;

/// Norms on queries and keys. `over` says which elements the mean is over; the shape of the weight says whether heads
/// share it.
pub(super) fn qk_norm(
    config: &QkNormConfig,
    attention: &AttentionConfig,
    parts: &mut dyn ComponentParts,
) -> BuildResult<QkNorm> {
    let QkNormConfig { over, at, norm, key_norm } = config;
    let dim = attention.key_dim;
    let query = head_norm("attn_q_norm", norm, *over, [dim, attention.heads], parts);
    let key = head_norm("attn_k_norm", key_norm, *over, [dim, attention.kv_heads], parts);
    let place = match at {
        QkNormAt::BeforeRope => QkNormPlace::BeforeRope,
        QkNormAt::AfterRope => QkNormPlace::AfterRope,
    };
    Ok(QkNorm { query: query?, key: key?, place })
}

/// A norm over each head or over all heads together, for rows of `heads` heads of `dim` elements.
pub(super) fn head_norm(
    role: &str,
    norm: &Config,
    over: QkNormOver,
    [dim, heads]: [usize; 2],
    parts: &mut dyn ComponentParts,
) -> BuildResult<HeadNorm> {
    let found: u64 = parts.dims(role).map_or(0, |dims| dims.iter().product());
    let one_number_each = parts.dims(role).is_some_and(|dims| *dims == [1, heads as u64]);
    let own_weights = over == QkNormOver::Head && heads > 1 && found == (dim * heads) as u64;
    let per_head = over == QkNormOver::Head && heads > 1 && dim > 1;
    if own_weights || (per_head && one_number_each) {
        let stored = if own_weights { dim } else { 1 };
        return head_norm_with_own_weights(role, norm, [dim, heads, stored], parts);
    }
    let width = match over {
        QkNormOver::Head => dim,
        QkNormOver::AllHeads => dim * heads,
    };
    let norm = parts.norm(role, norm, width)?;
    Ok(HeadNorm { norm, width, row_weight: None, row_bias: None })
}

/// Every head has its own `stored` weights (one for each of its elements, or a single one): the norm then has no weight,
/// and the row is multiplied by the weights of all heads.
fn head_norm_with_own_weights(
    role: &str,
    norm: &Config,
    [dim, heads, stored]: [usize; 3],
    parts: &mut dyn ComponentParts,
) -> BuildResult<HeadNorm> {
    let rms = norm.downcast_ref::<RmsConfig>().and_then(|config| {
        let bare = norm.map::<RmsConfig>(|norm| norm.weight = NormWeight::None)?;
        Some((bare, config.offset, NormBias::None))
    });
    let layer = norm.downcast_ref::<LayerNormConfig>().and_then(|config| {
        let without = (NormWeight::None, NormBias::None);
        let bare = norm.map::<LayerNormConfig>(|norm| (norm.weight, norm.bias) = without)?;
        Some((bare, config.offset, config.bias))
    });
    let Some((bare, offset, bias)) = rms.or(layer) else {
        let kind = norm.kind().name;
        return Err(parts.fault(&format!(
            "\"{role}\" has weights for each of {heads} heads, but a norm of kind `{kind}` supports only weights that \
             heads share"
        )));
    };
    let weight = parts.row_values(role, TensorPart::Main, [stored, heads])?;
    let weight = weight.iter().flat_map(|value| std::iter::repeat_n(value + offset, dim / stored));
    let weight = weight.collect();
    let weight = parts.vector(role, weight);
    let row_bias = match bias {
        NormBias::None => None,
        NormBias::Own => {
            let values = parts.row_values(role, TensorPart::Bias, [dim, heads])?;
            Some(parts.vector(role, values)?)
        }
    };
    let norm = parts.norm(role, &bare, dim)?;
    Ok(HeadNorm { norm, width: dim, row_weight: Some(weight?), row_bias })
}
