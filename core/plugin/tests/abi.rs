//! The ABI does not move: sizes and offsets are pinned, and structs of older and newer versions are read right.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod layout;

use menagerie_plugin::abi::{self, ABI_MAJOR, Header, Unreadable, Versioned, checked, copied};

/// Where pointers have 8 bytes: size, alignment, and each field with its offset. A change here breaks every plugin that was
/// built before; within a major version fields are only added, at the end of a struct with a header.
#[cfg(target_pointer_width = "64")]
const PINNED: &str = "
Header 8 / 4: struct_size 0, abi_major 4, abi_minor 6
Text 16 / 8: data 0, len 8
Tensor 136 / 8: data 0, byte_len 8, dtype 16, device_type 20, device_id 24, ndim 28, shape 32, strides 80, flags 128
Build 128 / 8: header 0, layer 8, layers 16, width 24, context 32, count 40, real 48, name 56, size 64, has 72, weight 80, values 88, linear 96, declare_state 104, slot 112, vocabulary 120
Vocabulary 48 / 8: header 0, tokens 8, merges 16, context 24, token 32, merge 40
Token 24 / 8: text 0, kind 16, score 20
Linear 24 / 8: number 0, padding 4, inputs 8, outputs 16
StateSpec 80 / 8: name 0, kind 16, ndim 20, shape 24, window 56, reserved 64
Call 152 / 8: header 0, inputs 8, n_inputs 16, outputs 24, n_outputs 32, sequences 40, n_sequences 48, states 56, n_states 64, slots 72, n_slots 80, token_ids 88, threads 96, context 104, linear 112, parallel_for 120, scratch 128, store 136, stored 144
Sequence 56 / 8: first_row 0, rows 8, past 16, positions 24, axes 32, decoding 36, pool 40, number 48
HookCall 32 / 8: header 0, call 8, layer 16, point 24, padding 28
FrequencyCall 48 / 8: header 0, base 8, rotated 16, context_length 24, frequencies 32, magnitude 40
SampleCall 48 / 8: header 0, logits 8, tokens 16, n_tokens 24, n_prompt 32, random 40
EncodeCall 40 / 8: header 0, text 8, context 24, push 32
DecodeCall 32 / 8: header 0, id 8, padding 12, context 16, push 24
Component 144 / 8: header 0, family 8, flags 12, name 16, doc 32, options 48, n_options 56, roles 64, n_roles 72, create 80, destroy 88, forward 96, frequencies 104, sample 112, encode 120, decode 128, hook 136
OptionDef 104 / 8: name 0, doc 16, kind 32, guarded 36, default 40, key 56, names 72, n_names 80, reserved 88
RoleDef 72 / 8: name 0, doc 16, form 32, optional 36, dims 40, n_dims 48, reserved 56
Manifest 376 / 8: magic 0, struct_size 8, abi_major 12, abi_minor 14, required_capabilities 16, cpu_features 24, target 32, plugin_id 80, plugin_version 144, sdk_version 176, toolchain 208, panic_strategy 304, padding 305, reserved 312
HostApi 48 / 8: header 0, capabilities 8, cpu_features 16, context 24, log 32, set_error 40
Registrar 40 / 8: header 0, context 8, add_component 16, add_architecture 24, add_table 32";

#[test]
#[cfg(target_pointer_width = "64")]
fn sizes_and_offsets_are_the_pinned_ones() {
    let mut found = String::new();
    for layout in layout::layouts() {
        let fields: Vec<String> =
            layout.fields.iter().map(|field| format!("{} {}", field.name, field.offset)).collect();
        found += &format!("\n{} {} / {}: {}", layout.name, layout.size, layout.align, fields.join(", "));
    }
    for (found, pinned) in found.lines().zip(PINNED.lines()) {
        assert_eq!(found, pinned);
    }
    assert_eq!(found, PINNED);
}

/// No field lies in what the compiler fills up: C compilers may fill otherwise.
#[test]
fn structs_have_no_holes() {
    for layout in layout::layouts() {
        let mut next = 0;
        for field in &layout.fields {
            assert_eq!(field.offset, next, "{}.{}", layout.name, field.name);
            next = field.offset + field.size;
        }
        assert_eq!(next, layout.size, "{}", layout.name);
    }
}

/// A struct as the first version has it, and as a later one has.
#[repr(C)]
#[derive(Clone, Copy)]
struct Older {
    header: Header,
    number: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Newer {
    header: Header,
    number: u64,
    added: Option<extern "C" fn() -> u32>,
    last: u64,
}

// SAFETY: `repr(C)`, a header first, of the first version.
unsafe impl Versioned for Older {
    const NAME: &'static str = "Older";
    const FIRST_SIZE: usize = size_of::<Older>();
}

// SAFETY: `repr(C)`, a header first; what was added may be zero.
unsafe impl Versioned for Newer {
    const NAME: &'static str = "Newer";
    const FIRST_SIZE: usize = size_of::<Older>();
}

extern "C" fn added() -> u32 {
    5
}

#[test]
fn a_struct_of_an_older_version_has_nothing_in_the_fields_that_were_added() {
    let older = Older { header: Header::of::<Older>(), number: 7 };
    // SAFETY: its header is correct.
    let read = unsafe { copied((&raw const older).cast::<Newer>()) }.unwrap();
    assert_eq!((read.number, read.last, read.added.is_none()), (7, 0, true));
    assert_eq!(read.header.struct_size as usize, size_of::<Older>());
    // A version in between, which has one of the two fields.
    let mut between = Newer { header: Header::of::<Newer>(), number: 8, added: Some(added), last: 9 };
    between.header.struct_size = 24;
    // SAFETY: as above.
    let read = unsafe { copied(&raw const between) }.unwrap();
    assert_eq!((read.number, read.added.unwrap()(), read.last), (8, 5, 0));
    // A whole one is wanted where fields are used at once.
    // SAFETY: as above.
    let refused = unsafe { checked((&raw const older).cast::<Newer>()) }.err().unwrap();
    assert_eq!(refused, Unreadable::Short { name: "Newer", size: 16, least: 32 });
}

#[test]
fn a_struct_of_a_newer_version_is_read_as_far_as_this_one_knows() {
    let newer = Newer { header: Header::of::<Newer>(), number: 7, added: Some(added), last: 9 };
    // SAFETY: its header is correct.
    let (copied, checked) = unsafe {
        let pointer = (&raw const newer).cast::<Older>();
        (copied(pointer).unwrap(), checked(pointer).unwrap())
    };
    assert_eq!((copied.number, checked.number), (7, 7));
    assert_eq!(copied.header.struct_size as usize, size_of::<Newer>());
}

#[test]
fn structs_that_cannot_be_read_say_why() {
    // SAFETY: null is no struct.
    let null = unsafe { copied(std::ptr::null::<abi::Call>()) }.err().unwrap();
    assert_eq!(null.to_string(), "the other side of the plugin ABI passed a null pointer for Call");
    let mut header = Header { struct_size: 8, abi_major: ABI_MAJOR, abi_minor: 0 };
    // SAFETY: its header is correct.
    let short = unsafe { copied((&raw const header).cast::<Older>()) }.err().unwrap();
    assert_eq!(short.to_string(), "expected a struct Older of at least 16 bytes, found 8");
    (header.struct_size, header.abi_major) = (1000, 2);
    // SAFETY: another major version is not read on.
    let major = unsafe { checked((&raw const header).cast::<Older>()) }.err().unwrap();
    assert_eq!(major.to_string(), "expected a struct Older of plugin ABI 1, found ABI 2");
}
