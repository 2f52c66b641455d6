//! Quantizing: types, importance, files.

use menagerie::gguf::{FileType, GgmlType};
use menagerie::quantize::QuantizeError;

#[test]
fn quantize() {
    let kind = GgmlType::IQ2_XXS;
    let tensor = || "blk.0.ffn_down.weight".to_owned();
    let blocks = || QuantizeError::Blocks { kind: GgmlType::Q4_K, cols: 576, block: 256 };
    let said = messages![
        QuantizeError::Unsupported { kind: GgmlType::Q8_1, types: "F32, F16, Q4_0".to_owned() },
        QuantizeError::Blocks { kind: GgmlType::Q4_K, cols: 576, block: 256 },
        QuantizeError::Length { what: "values", found: 7, expected: "whole rows of 32".to_owned() },
        QuantizeError::NotFinite { row: 1, column: 2, value: f32::NAN },
        QuantizeError::TooLarge { kind: GgmlType::F16, row: 1, column: 2, value: 1e6, largest: 65504.0 },
        QuantizeError::Importance { column: 3, value: -1.0 },
        QuantizeError::UnknownFileType { name: "q4".to_owned(), known: "Q4_0, Q4_K_M".to_owned() },
        QuantizeError::NoFallback { tensor: tensor(), kind: GgmlType::MXFP4, cols: 80 },
        QuantizeError::Unreadable { kind: GgmlType::I32 },
        QuantizeError::InTensor { tensor: tensor(), source: Box::new(blocks()) },
        QuantizeError::Requantized { tensor: tensor(), from: GgmlType::Q8_0, file: FileType::Q4_K_M },
        QuantizeError::MissingImportance { kind, instead: GgmlType::IQ1_M },
        QuantizeError::ImportanceFile {
            file: "i.gguf".to_owned(),
            problem:
                "the model has none of its tensors; it was measured with another model: measure it again"
                    .to_owned(),
        },
        QuantizeError::ImportanceShape { tensor: tensor(), found: 1536, expected: 576 },
        QuantizeError::Write("no space left on the device".to_owned()),
        QuantizeError::Cancelled,
    ];
    insta::assert_snapshot!(said);
}
