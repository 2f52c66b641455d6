//! Kernels and models.

use menagerie::kernels::KernelError;
use menagerie::model::{DeviceFault, ModelError};

#[test]
fn devices() {
    let said = messages![
        DeviceFault::Options("`half-prompts` is f16: expected f32 or bf16".to_owned()),
        DeviceFault::Unavailable("this machine has 1 device of this kind".to_owned()),
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn kernels() {
    let said = messages![
        KernelError::JobPanicked("index out of bounds".to_owned()),
        KernelError::Shape { what: "rms_norm: out", detail: "3 values, expected 4".to_owned() },
        KernelError::Unsupported {
            what: "dequantize",
            detail: "type MXFP4; F32, F16 and Q8_0 are".to_owned()
        },
        KernelError::Threads("0 threads cannot compute; give 1 or more".to_owned()),
        KernelError::Isa { expected: "avx1024".to_owned(), available: "portable, avx2".to_owned() },
    ];
    insta::assert_snapshot!(said);
}

#[test]
fn model() {
    let inner = || ModelError::State("no free page for a copy".to_owned());
    let said = messages![
        ModelError::Layout("3 positions for 4 rows".to_owned()),
        ModelError::Shape {
            what: "attention: rows of the query product".to_owned(),
            expected: "64".to_owned(),
            found: "48".to_owned(),
        },
        ModelError::TokenOutOfRange { id: 300, vocabulary: 256 },
        ModelError::State("sequence 0: 2 tokens cannot be truncated to 3".to_owned()),
        ModelError::Unsupported("short-conv has no form on device candle".to_owned()),
        ModelError::Cancelled,
        ModelError::Component {
            component: "acme/norms:tanh".to_owned(),
            reason: "value 2 of row 0 of its output is NaN".to_owned()
        },
        ModelError::Hook {
            hook: "acme/watch:clamp".to_owned(),
            reason: "returned rows of shape [3, 64] instead of [4, 64]".to_owned()
        },
        ModelError::Layer { layer: 3, source: Box::new(inner()) },
        ModelError::Weights("tensor 7 is not in the file".to_owned()),
        ModelError::Scalings("the weight of adapter 1 in layer 3 is NaN at row 5 of the step".to_owned()),
        ModelError::Backend { backend: "cuda:0".to_owned(), source: "out of memory".into() },
    ];
    insta::assert_snapshot!(said);
}
