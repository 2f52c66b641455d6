//! The tensor types of each file type: the mixtures of llama-quantize (src/llama-quant.cpp) as a table.
//!
//! The first rule whose group and conditions match gives the type. Without such a rule, it is the main type of the
//! mixture.

use gguf_file::{FileType, GgmlType};

/// The group of a tensor, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorGroup {
    /// `output`, and a token embedding that is also the head.
    Head,
    /// `token_embd`, `per_layer_token_embd`.
    Embedding,
    /// `attn_v`, and matrices that contain values: `attn_qkv`, `attn_kv_b`.
    Values,
    /// `attn_k`.
    Keys,
    /// `attn_q`.
    Queries,
    /// `attn_output`.
    AttentionOutput,
    /// `ffn_up` of any kind.
    Up,
    /// `ffn_gate` of any kind.
    Gate,
    /// `ffn_down` of any kind.
    Down,
    /// Everything else.
    Other,
}

/// The group for each part of a name; the first match applies. `=` is before whole names.
pub(super) const GROUPS: &[(&str, TensorGroup)] = &[
    ("=output.weight", TensorGroup::Head),
    ("=token_embd.weight", TensorGroup::Embedding),
    ("=per_layer_token_embd.weight", TensorGroup::Embedding),
    ("attn_qkv.weight", TensorGroup::Values),
    ("attn_kv_b.weight", TensorGroup::Values),
    ("attn_v.weight", TensorGroup::Values),
    ("attn_k.weight", TensorGroup::Keys),
    ("attn_q.weight", TensorGroup::Queries),
    ("attn_output.weight", TensorGroup::AttentionOutput),
    ("ffn_up", TensorGroup::Up),
    ("ffn_gate", TensorGroup::Gate),
    ("ffn_down", TensorGroup::Down),
];

/// Parts of the names of tensors that are not quantized, because they are small or sensitive. `=` is before whole names.
pub(super) const UNCHANGED: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "=position_embd.weight",
    "=token_types.weight",
    "ssm_conv1d",
    "ssm_a.weight",
    "ssm_d.weight",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// The fallback of each type if rows are not whole blocks. If its blocks do not divide rows either, F16 is used.
pub(super) const FALLBACKS: &[(GgmlType, GgmlType)] = &[
    (GgmlType::IQ1_S, GgmlType::IQ4_NL),
    (GgmlType::IQ1_M, GgmlType::IQ4_NL),
    (GgmlType::IQ2_XXS, GgmlType::IQ4_NL),
    (GgmlType::IQ2_XS, GgmlType::IQ4_NL),
    (GgmlType::IQ2_S, GgmlType::IQ4_NL),
    (GgmlType::IQ3_XXS, GgmlType::IQ4_NL),
    (GgmlType::IQ3_S, GgmlType::IQ4_NL),
    (GgmlType::IQ4_XS, GgmlType::IQ4_NL),
    (GgmlType::Q2_0, GgmlType::Q4_0),
    (GgmlType::Q2_K, GgmlType::Q4_0),
    (GgmlType::Q3_K, GgmlType::Q4_0),
    (GgmlType::TQ1_0, GgmlType::Q4_0),
    (GgmlType::TQ2_0, GgmlType::Q4_0),
    (GgmlType::Q4_K, GgmlType::Q5_0),
    (GgmlType::Q5_K, GgmlType::Q5_1),
    (GgmlType::Q6_K, GgmlType::Q8_0),
];

/// Types with so few bits that importance is required, as in llama-quantize. These are more than the kernels require
/// it for.
pub(super) const REFUSED_WITHOUT_IMPORTANCE: &[GgmlType] = &[
    GgmlType::IQ3_XXS,
    GgmlType::IQ2_XXS,
    GgmlType::IQ2_XS,
    GgmlType::IQ2_S,
    GgmlType::IQ1_M,
    GgmlType::IQ1_S,
];

/// A condition of a rule. `i` is the layer of the tensor (for values, its index among them), and `n` their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerCondition {
    /// `i < n/8`, `i >= 7n/8`, or every third between them.
    MoreBits,
    /// `i < n/8`.
    FirstEighth,
    /// `i < n/8`, where `i` counts tensors of the group.
    FirstEighthCounted,
    /// `i < n/16`.
    FirstSixteenth,
    /// `n/8 <= i < 7n/8`.
    Middle,
    /// `i` is less than this number.
    Below(usize),
    /// At least four query heads share a key-value head.
    ManyShare,
    /// There are eight experts.
    EightExperts,
    /// There are not eight experts.
    NotEightExperts,
    /// There are at least four experts.
    FourExperts,
    /// There is importance.
    Importance,
    /// There is no importance.
    NoImportance,
    /// The tensor is a stack of matrices.
    Stacked,
    /// Eighty blocks with grouped-query attention and without experts, whose `attn_v` is small.
    SharedEighty,
}

/// The type for tensors of a group if all conditions hold.
pub(super) type Rule = (TensorGroup, &'static [LayerCondition], GgmlType);

/// The types of the tensors of a file type.
#[derive(Clone, Copy, Debug)]
pub(super) struct TypeMixture {
    pub(super) file: FileType,
    /// The main type.
    pub(super) own: GgmlType,
    /// The type of the head. If its rows are not whole blocks of the main type, Q8_0 is used.
    pub(super) head: GgmlType,
    pub(super) rules: &'static [Rule],
}

use LayerCondition::{
    Below, EightExperts, FirstEighth, FirstEighthCounted, FirstSixteenth, FourExperts, Importance, ManyShare,
    Middle, MoreBits, NoImportance, NotEightExperts, SharedEighty, Stacked,
};
use TensorGroup::{AttentionOutput, Down, Embedding, Gate, Keys, Queries, Up, Values};

/// Rules before those of a mixture, except for the smallest mixtures: with eight experts, attention is a small part of
/// the model.
pub(super) const EIGHT_EXPERT_RULES: &[Rule] =
    &[(Values, &[EightExperts], GgmlType::Q8_0), (Keys, &[EightExperts], GgmlType::Q8_0)];

/// The replacement for the type of values in large models, after all rules, except for the smallest mixtures.
pub(super) const LARGE_MODEL_VALUES: (LayerCondition, [GgmlType; 2], GgmlType) =
    (SharedEighty, [GgmlType::Q3_K, GgmlType::Q4_K], GgmlType::Q5_K);

/// Mixtures that `EIGHT_EXPERT_RULES` and `LARGE_MODEL_VALUES` do not apply to.
pub(super) const SMALLEST_MIXTURES: &[FileType] = &[
    FileType::IQ2_XXS,
    FileType::IQ2_XS,
    FileType::IQ2_S,
    FileType::IQ2_M,
    FileType::IQ1_S,
    FileType::IQ1_M,
];

const EIGHT_EXPERT_OUTPUT: Rule = (AttentionOutput, &[EightExperts], GgmlType::Q5_K);

const fn plain(file: FileType, own: GgmlType) -> TypeMixture {
    TypeMixture { file, own, head: GgmlType::Q6_K, rules: &[] }
}

const fn mixed(file: FileType, own: GgmlType, rules: &'static [Rule]) -> TypeMixture {
    TypeMixture { file, own, head: GgmlType::Q6_K, rules }
}

/// The rules of IQ2_XXS and IQ2_XS.
const TINY: &[Rule] = &[
    (Embedding, &[], GgmlType::Q2_K),
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Values, &[FourExperts], GgmlType::Q4_K),
    (Values, &[], GgmlType::Q2_K),
    (Keys, &[EightExperts], GgmlType::Q4_K),
    (Down, &[FirstEighthCounted], GgmlType::Q2_K),
    EIGHT_EXPERT_OUTPUT,
];
const ONE_BIT: &[Rule] = &[
    (Embedding, &[], GgmlType::Q2_K),
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Values, &[FourExperts], GgmlType::Q4_K),
    (Values, &[], GgmlType::Q2_K),
    (Keys, &[EightExperts], GgmlType::Q4_K),
    (Down, &[FirstEighthCounted], GgmlType::Q2_K),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[], GgmlType::IQ2_XXS),
];
const TWO_BIT: &[Rule] = &[
    (Embedding, &[], GgmlType::IQ3_S),
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Values, &[FourExperts], GgmlType::Q4_K),
    (Values, &[], GgmlType::IQ3_S),
    (Keys, &[EightExperts], GgmlType::Q4_K),
    (Down, &[FirstEighthCounted], GgmlType::IQ3_S),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[], GgmlType::IQ3_S),
];
const IQ3_XXS: &[Rule] = &[
    (Embedding, &[], GgmlType::IQ3_S),
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Values, &[NoImportance], GgmlType::IQ3_S),
    (Keys, &[], GgmlType::IQ2_S),
    (Queries, &[], GgmlType::IQ2_S),
    (Down, &[NoImportance, FirstEighth], GgmlType::Q4_K),
    (Down, &[NoImportance], GgmlType::Q3_K),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[], GgmlType::IQ3_S),
];
const IQ3_XS: &[Rule] = &[
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Keys, &[], GgmlType::IQ3_XXS),
    (Queries, &[], GgmlType::IQ3_XXS),
    EIGHT_EXPERT_OUTPUT,
    (Gate, &[Middle], GgmlType::IQ3_XXS),
    (Up, &[Middle], GgmlType::IQ3_XXS),
];
const IQ3_M: &[Rule] = &[
    (Values, &[], GgmlType::Q4_K),
    (Down, &[FirstEighth], GgmlType::Q4_K),
    (Down, &[EightExperts, MoreBits], GgmlType::Q4_K),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[NotEightExperts], GgmlType::Q4_K),
];
const FOUR_BIT: &[Rule] = &[
    (Values, &[ManyShare], GgmlType::Q5_K),
    (Down, &[FirstEighth, NoImportance], GgmlType::Q5_K),
    EIGHT_EXPERT_OUTPUT,
];
const Q2_K: &[Rule] = &[
    (Values, &[ManyShare], GgmlType::Q4_K),
    (Values, &[], GgmlType::Q3_K),
    (Down, &[], GgmlType::Q3_K),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[], GgmlType::Q3_K),
];
const Q3_K_M: &[Rule] = &[
    (Values, &[Below(2)], GgmlType::Q5_K),
    (Values, &[], GgmlType::Q4_K),
    (Down, &[FirstSixteenth], GgmlType::Q5_K),
    (Down, &[], GgmlType::Q4_K),
    EIGHT_EXPERT_OUTPUT,
    (AttentionOutput, &[], GgmlType::Q4_K),
];
const Q3_K_L: &[Rule] = &[
    (Values, &[], GgmlType::Q5_K),
    (Down, &[], GgmlType::Q5_K),
    (AttentionOutput, &[NotEightExperts], GgmlType::Q5_K),
];
const Q4_K_S: &[Rule] =
    &[(Values, &[Below(4)], GgmlType::Q5_K), (Down, &[FirstEighth], GgmlType::Q5_K), EIGHT_EXPERT_OUTPUT];
const Q4_K_M: &[Rule] =
    &[(Values, &[MoreBits], GgmlType::Q6_K), (Down, &[MoreBits], GgmlType::Q6_K), EIGHT_EXPERT_OUTPUT];
const Q5_K_M: &[Rule] = &[(Values, &[MoreBits], GgmlType::Q6_K), (Down, &[MoreBits], GgmlType::Q6_K)];

/// A mixture with the head of the smallest mixtures.
const fn small(file: FileType, own: GgmlType, rules: &'static [Rule]) -> TypeMixture {
    TypeMixture { file, own, head: GgmlType::Q5_K, rules }
}

/// All mixtures, by id of the file type.
pub(super) const MIXTURES: &[TypeMixture] = &[
    plain(FileType::F32, GgmlType::F32),
    plain(FileType::F16, GgmlType::F16),
    mixed(FileType::Q4_0, GgmlType::Q4_0, &[(Down, &[FirstEighth, Importance], GgmlType::Q4_1)]),
    plain(FileType::Q4_1, GgmlType::Q4_1),
    TypeMixture { head: GgmlType::Q8_0, ..plain(FileType::Q8_0, GgmlType::Q8_0) },
    mixed(FileType::Q5_0, GgmlType::Q5_0, &[(Down, &[FirstEighth, Importance], GgmlType::Q5_1)]),
    plain(FileType::Q5_1, GgmlType::Q5_1),
    mixed(FileType::Q2_K, GgmlType::Q2_K, Q2_K),
    mixed(FileType::Q3_K_S, GgmlType::Q3_K, &[EIGHT_EXPERT_OUTPUT]),
    mixed(FileType::Q3_K_M, GgmlType::Q3_K, Q3_K_M),
    mixed(FileType::Q3_K_L, GgmlType::Q3_K, Q3_K_L),
    mixed(FileType::Q4_K_S, GgmlType::Q4_K, Q4_K_S),
    mixed(FileType::Q4_K_M, GgmlType::Q4_K, Q4_K_M),
    plain(FileType::Q5_K_S, GgmlType::Q5_K),
    mixed(FileType::Q5_K_M, GgmlType::Q5_K, Q5_K_M),
    plain(FileType::Q6_K, GgmlType::Q6_K),
    small(FileType::IQ2_XXS, GgmlType::IQ2_XXS, TINY),
    small(FileType::IQ2_XS, GgmlType::IQ2_XS, TINY),
    mixed(
        FileType::Q2_K_S,
        GgmlType::Q2_K,
        &[(Values, &[ManyShare], GgmlType::Q4_K), (Down, &[FirstEighth], GgmlType::Q4_K)],
    ),
    mixed(FileType::IQ3_XS, GgmlType::IQ3_S, IQ3_XS),
    small(FileType::IQ3_XXS, GgmlType::IQ3_XXS, IQ3_XXS),
    small(FileType::IQ1_S, GgmlType::IQ1_S, ONE_BIT),
    mixed(FileType::IQ4_NL, GgmlType::IQ4_NL, FOUR_BIT),
    mixed(FileType::IQ3_S, GgmlType::IQ3_S, &[(Values, &[ManyShare], GgmlType::Q4_K), EIGHT_EXPERT_OUTPUT]),
    mixed(FileType::IQ3_M, GgmlType::IQ3_S, IQ3_M),
    small(FileType::IQ2_S, GgmlType::IQ2_XS, TWO_BIT),
    small(FileType::IQ2_M, GgmlType::IQ2_S, TWO_BIT),
    mixed(FileType::IQ4_XS, GgmlType::IQ4_XS, FOUR_BIT),
    small(FileType::IQ1_M, GgmlType::IQ1_M, ONE_BIT),
    plain(FileType::BF16, GgmlType::BF16),
    mixed(FileType::TQ1_0, GgmlType::TQ1_0, &[(Embedding, &[], GgmlType::Q4_K)]),
    mixed(FileType::TQ2_0, GgmlType::TQ2_0, &[(Embedding, &[], GgmlType::Q4_K)]),
    TypeMixture {
        file: FileType::MXFP4_MOE,
        own: GgmlType::Q8_0,
        head: GgmlType::Q8_0,
        rules: &[
            (Values, &[Stacked], GgmlType::MXFP4),
            (Up, &[Stacked], GgmlType::MXFP4),
            (Gate, &[Stacked], GgmlType::MXFP4),
            (Down, &[Stacked], GgmlType::MXFP4),
            (TensorGroup::Other, &[Stacked], GgmlType::MXFP4),
        ],
    },
];

/// Other names of file types.
pub(super) const ALIASES: &[(&str, FileType)] =
    &[("Q3_K", FileType::Q3_K_M), ("Q4_K", FileType::Q4_K_M), ("Q5_K", FileType::Q5_K_M)];
