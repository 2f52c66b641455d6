//! Calls of layer hooks that are none: each is refused with a text, and neither rows nor output are touched.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod components;

use components::{Counting, Halved};
use menagerie_plugin::abi::{self, Header, HookCall, Status, Tensor};
use menagerie_plugin::testing::{self, Setup, take_errors};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

unsafe extern "C" fn linear(_: *mut c_void, _: u32, _: *const Tensor, _: *const Tensor) -> Status {
    abi::ERROR
}

unsafe extern "C" fn parallel_for(
    _: *mut c_void,
    _: u64,
    _: unsafe extern "C" fn(argument: *mut c_void, index: u64),
    _: *mut c_void,
) -> Status {
    abi::ERROR
}

unsafe extern "C" fn scratch(_: *mut c_void, _: u64, _: u64) -> *mut c_void {
    null_mut()
}

unsafe extern "C" fn store(_: *mut c_void, _: u32, _: *const Tensor) -> Status {
    abi::ERROR
}

unsafe extern "C" fn stored(_: *mut c_void, _: u32, _: u64, _: u64, _: *const Tensor) -> Status {
    abi::ERROR
}

/// What a call is made of: two rows of three numbers, of one sequence.
struct Case {
    header: Header,
    point: u32,
    call: bool,
    inputs: bool,
    n_inputs: usize,
    n_outputs: usize,
    tensors: [Tensor; 2],
    sequence: abi::Sequence,
}

/// A change in a call.
type Change = fn(&mut Case);

/// Runs a hook over a call with a change in it; what it said, and what the output is then.
fn told_of(
    component: &abi::Component,
    n_outputs: usize,
    change: Change,
) -> (Status, Option<String>, [f32; 6]) {
    let (mut x, mut y, positions) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0f32; 6], [0u32, 1]);
    let rows = |data: *mut f32, flags: u64| Tensor::rows(data, 2, 3, flags);
    let mut case = Case {
        header: Header::of::<HookCall>(),
        point: HookCall::AFTER,
        call: true,
        inputs: true,
        n_inputs: 1,
        n_outputs,
        tensors: [rows(x.as_mut_ptr(), Tensor::READ_ONLY), rows(y.as_mut_ptr(), 0)],
        sequence: abi::Sequence {
            first_row: 0,
            rows: 2,
            past: 0,
            positions: positions.as_ptr(),
            axes: 1,
            decoding: 0,
            pool: 1,
            number: 2,
        },
    };
    change(&mut case);
    let call = abi::Call {
        header: Header::of::<abi::Call>(),
        inputs: if case.inputs { &case.tensors[0] } else { null() },
        n_inputs: case.n_inputs,
        outputs: &case.tensors[1],
        n_outputs: case.n_outputs,
        sequences: &case.sequence,
        n_sequences: 1,
        states: null(),
        n_states: 0,
        slots: null(),
        n_slots: 0,
        token_ids: null(),
        threads: 1,
        context: null_mut(),
        linear,
        parallel_for,
        scratch,
        store,
        stored,
    };
    let (header, point) = (case.header, case.point);
    let hook = HookCall { header, call: if case.call { &call } else { null() }, layer: 1, point, padding: 0 };
    let mut instance = null_mut();
    // SAFETY: the component's own functions, as the ABI says, but for what the change has made of the call: descriptors that
    // are looked at before memory is.
    let status = unsafe {
        assert_eq!((component.create)(&build(), &mut instance), abi::OK, "{:?}", take_errors());
        let status = component.hook.unwrap()(instance, &hook);
        (component.destroy)(instance);
        status
    };
    (status, take_errors(), y)
}

unsafe extern "C" fn name(_: *mut c_void, _: abi::Text, value: *mut abi::Text) -> Status {
    // SAFETY: the ABI's promise.
    unsafe { value.write(abi::Text::new("nowhere")) };
    abi::OK
}

unsafe extern "C" fn count(_: *mut c_void, _: abi::Text, _: *mut u64) -> Status {
    abi::ERROR
}

unsafe extern "C" fn real(_: *mut c_void, _: abi::Text, _: *mut f64) -> Status {
    abi::ERROR
}

unsafe extern "C" fn has(_: *mut c_void, _: abi::Text, _: u32) -> i32 {
    0
}

unsafe extern "C" fn tensor(_: *mut c_void, _: abi::Text, _: u32, _: *mut Tensor) -> Status {
    abi::ERROR
}

unsafe extern "C" fn kept_linear(_: *mut c_void, _: abi::Text, _: *mut abi::Linear) -> Status {
    abi::ERROR
}

unsafe extern "C" fn state(_: *mut c_void, _: *const abi::StateSpec, _: *mut u32) -> Status {
    abi::ERROR
}

unsafe extern "C" fn slot(_: *mut c_void, _: abi::Text, _: u64, _: *mut u32, _: *mut u32) -> Status {
    abi::ERROR
}

/// A model of two layers of width 3.
fn build() -> abi::Build {
    abi::Build {
        header: Header::of::<abi::Build>(),
        layer: -1,
        layers: 2,
        width: 3,
        context: null_mut(),
        count,
        real,
        name,
        size: count,
        has,
        weight: tensor,
        values: tensor,
        linear: kept_linear,
        declare_state: state,
        slot,
        vocabulary: null(),
    }
}

#[test]
fn calls_that_are_none_are_refused_with_a_text() {
    let (replacer, observer) = (testing::layer_replacer::<Halved>(), testing::layer_observer::<Counting>());
    // Takes the errors of this program.
    let _ = Setup::new(3).create(&replacer);
    let (status, said, y) = told_of(&replacer, 1, |_| {});
    assert_eq!((status, said), (abi::OK, None));
    assert_eq!(y[0], 0.25 * 21.0);
    assert_eq!(told_of(&observer, 0, |_| {}).0, abi::OK);
    let short = format!("a struct HookCall of at least {} bytes, found 8", size_of::<HookCall>());
    let both: [(Change, &str); 9] = [
        (|case| case.call = false, "passed a null pointer for Call"),
        (|case| case.header.abi_major = 9, "a struct HookCall of plugin ABI 1, found ABI 9"),
        (|case| case.header.struct_size = 8, &short),
        (|case| case.point = 3, "calls at the unknown point 3"),
        (|case| case.n_inputs = 0, "from the host, found 0 and"),
        (|case| case.inputs = false, "from the host, found 1 and"),
        (|case| case.tensors[0].ndim = 1, "expected 2 dimensions, found 1"),
        (|case| case.tensors[0].byte_len = 8, "expected 24 bytes, found 8"),
        (|case| case.sequence.rows = 1, "passed 2 rows, but the sequences have 1"),
    ];
    for (change, words) in both {
        for (component, outputs) in [(&replacer, 1), (&observer, 0)] {
            refused(told_of(component, outputs, change), words);
        }
    }
    refused(told_of(&observer, 1, |_| {}), "expected 1 input and no output from the host, found 1 and 1");
    let replacing: [(Change, &str); 4] = [
        (|case| case.n_outputs = 0, "expected 1 input and 1 output from the host, found 1 and 0"),
        (|case| case.tensors[1].data = case.tensors[0].data, "an output that overlaps an input"),
        (|case| case.tensors[1].flags = Tensor::READ_ONLY, "the output: the array from the host"),
        (|case| case.tensors[1].shape[0] = 1, "for an output [1, 3]"),
    ];
    replacing.into_iter().for_each(|(change, words)| refused(told_of(&replacer, 1, change), words));
}

fn refused((status, said, y): (Status, Option<String>, [f32; 6]), words: &str) {
    assert_eq!((status, y), (abi::ERROR, [7.0; 6]), "{words}");
    let said = said.unwrap();
    assert!(said.contains(words), "`{words}` is not in: {said}");
}
