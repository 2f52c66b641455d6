//! The structs of the ABI as this compiler lays them out.
#![allow(dead_code)]

use menagerie_plugin::abi::*;
use std::mem::offset_of;

/// A struct of the ABI.
pub(crate) struct Layout {
    pub(crate) name: &'static str,
    pub(crate) size: usize,
    pub(crate) align: usize,
    pub(crate) fields: Vec<Field>,
}

/// A field of a struct.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
}

fn size_of_field<T, F>(_field: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

macro_rules! layouts {
    ($($name:ident { $($field:ident),+ $(,)? })+) => {
        /// Every struct, in the order of the header.
        pub(crate) fn layouts() -> Vec<Layout> {
            $(
                // Does not compile if a field is missing below.
                #[allow(dead_code, non_snake_case)]
                fn $name(value: $name) {
                    let $name { $($field: _),+ } = value;
                }
            )+
            vec![$(Layout {
                name: stringify!($name),
                size: size_of::<$name>(),
                align: align_of::<$name>(),
                fields: vec![$(Field {
                    name: stringify!($field),
                    offset: offset_of!($name, $field),
                    size: size_of_field(|value: &$name| &value.$field),
                }),+],
            }),+]
        }
    };
}

layouts! {
    Header { struct_size, abi_major, abi_minor }
    Text { data, len }
    Tensor { data, byte_len, dtype, device_type, device_id, ndim, shape, strides, flags }
    Build {
        header, layer, layers, width, context, count, real, name, size, has, weight, values, linear, declare_state,
        slot, vocabulary,
    }
    Vocabulary { header, tokens, merges, context, token, merge }
    Token { text, kind, score }
    Linear { number, padding, inputs, outputs }
    StateSpec { name, kind, ndim, shape, window, reserved }
    Call {
        header, inputs, n_inputs, outputs, n_outputs, sequences, n_sequences, states, n_states, slots, n_slots,
        token_ids, threads, context, linear, parallel_for, scratch, store, stored,
    }
    Sequence { first_row, rows, past, positions, axes, decoding, pool, number }
    HookCall { header, call, layer, point, padding }
    FrequencyCall { header, base, rotated, context_length, frequencies, magnitude }
    SampleCall { header, logits, tokens, n_tokens, n_prompt, random }
    EncodeCall { header, text, context, push }
    DecodeCall { header, id, padding, context, push }
    Component {
        header, family, flags, name, doc, options, n_options, roles, n_roles, create, destroy, forward, frequencies,
        sample, encode, decode, hook,
    }
    OptionDef { name, doc, kind, guarded, default, key, names, n_names, reserved }
    RoleDef { name, doc, form, optional, dims, n_dims, reserved }
    Manifest {
        magic, struct_size, abi_major, abi_minor, required_capabilities, cpu_features, target, plugin_id,
        plugin_version, sdk_version, toolchain, panic_strategy, padding, reserved,
    }
    HostApi { header, capabilities, cpu_features, context, log, set_error }
    Registrar { header, context, add_component, add_architecture, add_table }
}
