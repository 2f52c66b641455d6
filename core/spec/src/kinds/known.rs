//! Mixers that the language knows and this build does not have: their specs are checked, their models are refused by name.
//!
//! Whoever builds one moves it to a file of its own, with [`Definition`](crate::kind::Definition) for its config.

use super::NoOptions;
use super::attention::{AttentionBias, MaskKind, QkNormOptions, TemperatureOptions, WindowConfig};
use super::rope::RopeOptions;
use crate::kind::Default::{Absent, Computed, Fields, Key, Name};
use crate::kind::{Default, Family, Field, FieldType, Kind, NameDef, NameList, Options, Table, Value};

/// Options of attention that `latent-attention` has too, and its own.
static LATENT_OPTIONS: Table = Table {
    title: "LatentAttentionOptions",
    doc: "Options of `latent-attention`.",
    fields: &[
        count("heads", Key("attention.head_count"), "Query heads."),
        count("kv_heads", Key("attention.head_count_kv"), "Key and value heads."),
        count("key_dim", Key("attention.key_length"), "Elements of a query or key head."),
        count("value_dim", Key("attention.value_length"), "Elements of a value head."),
        Field::new(
            "bias",
            FieldType::OneOrEach(<AttentionBias as Options>::TABLE),
            Fields,
            "Bias of the projections: one rule for all, or `{ qkv, output }`.",
        ),
        real("scale", Computed { how: "1 / sqrt(key_dim)", reads: &[] }, "Multiplies q.k."),
        Field::new(
            "mask",
            <MaskKind as Value>::TYPE,
            Name("causal"),
            "Which keys a query sees, apart from the window.",
        ),
        real("softcap", Absent, "`cap * tanh(s / cap)` on the scores; 0 = none."),
        real("clamp", Absent, "Clamp of the projections; 0 = none."),
        Field::new("sinks", FieldType::Role, Absent, "Role of the per-head sink logits."),
        optional("qk_norm", <QkNormOptions as Options>::TABLE, "Norm on queries and keys."),
        Field::new("v_norm", FieldType::NotBuiltIn, Absent, "Norm on values."),
        optional("window", <WindowConfig as Options>::TABLE, "Window of visible keys."),
        optional(
            "temperature",
            <TemperatureOptions as Options>::TABLE,
            "Query temperature that grows with the position.",
        ),
        Field::new("gate", FieldType::NotBuiltIn, Absent, "Gate on the output."),
        optional(
            "rope",
            <RopeOptions as Options>::TABLE,
            "Rotary positions of the separate rope part of a head.",
        ),
        Field::new("latent_norm", FieldType::Table(&LATENT_NORM), Absent, "Norm on the latents."),
    ],
};

static LATENT_NORM: Table = Table {
    title: "LatentNorm",
    doc: "Norm on the latents.",
    fields: &[real("eps", Default::Required, "Added under the root.")],
};

static MAMBA1_OPTIONS: Table = Table {
    title: "Mamba1Options",
    doc: "Options of `mamba1`.",
    fields: &[Field::new("inner_norm", FieldType::Name(&INNER_NORM), Name("none"), "Norms inside.")],
};

static INNER_NORM: NameList = NameList {
    title: "InnerNorm",
    doc: "Norms inside a recurrent mixer.",
    names: &[
        NameDef { name: "none", doc: "None.", reads: &[] },
        NameDef { name: "dt-b-c", doc: "On the time step, B and C (Jamba).", reads: &[] },
    ],
    known: &[],
};

const fn count(name: &'static str, default: Default, doc: &'static str) -> Field {
    Field::new(name, FieldType::Count, default, doc)
}

const fn real(name: &'static str, default: Default, doc: &'static str) -> Field {
    Field::new(name, FieldType::Real, default, doc)
}

const fn optional(name: &'static str, table: &'static Table, doc: &'static str) -> Field {
    Field::new(name, FieldType::Optional(table), Absent, doc)
}

pub(super) const fn mixer(name: &'static str, doc: &'static str) -> Kind {
    Kind::not_built_in(Family::Mixer, name, doc, <NoOptions as Options>::TABLE, &[])
}

pub(super) static LATENT_ATTENTION: Kind = Kind::not_built_in(
    Family::Mixer,
    "latent-attention",
    "Multi-head latent attention (DeepSeek-V2, 2024).",
    &LATENT_OPTIONS,
    &["attention.q_lora_rank", "attention.kv_lora_rank"],
);
pub(super) static MAMBA1: Kind = Kind::not_built_in(
    Family::Mixer,
    "mamba1",
    "Selective state space (Gu and Dao, 2023).",
    &MAMBA1_OPTIONS,
    &["ssm.conv_kernel", "ssm.inner_size", "ssm.state_size", "ssm.time_step_rank"],
);
