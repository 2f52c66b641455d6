//! Quantising: types, importance, files.

use menagerie::gguf::{FileType, GgmlType};
use menagerie::quantise::QuantiseError;

#[test]
fn quantise() {
    let (kind, file) = (GgmlType::IQ2_XXS, FileType::IQ2_XXS);
    let tensor = || "blk.0.ffn_down.weight".to_owned();
    let blocks = || QuantiseError::Blocks { kind: GgmlType::Q4_K, cols: 576, block: 256 };
    let said = messages![
        QuantiseError::Unsupported { kind: GgmlType::Q8_1, types: "F32, F16, Q4_0".to_owned() },
        QuantiseError::NeedsImportance { kind, instead: GgmlType::IQ1_M },
        QuantiseError::Blocks { kind: GgmlType::Q4_K, cols: 576, block: 256 },
        QuantiseError::Length { what: "values", found: 7, wanted: "whole rows of 32".to_owned() },
        QuantiseError::NotFinite { row: 1, column: 2, value: f32::NAN },
        QuantiseError::TooLarge { kind: GgmlType::F16, row: 1, column: 2, value: 1e6, largest: 65504.0 },
        QuantiseError::Importance { column: 3, value: -1.0 },
        QuantiseError::UnknownFileType { name: "q4".to_owned(), known: "Q4_0, Q4_K_M".to_owned() },
        QuantiseError::NoFallback { tensor: tensor(), kind: GgmlType::MXFP4, cols: 80 },
        QuantiseError::Unreadable { kind: GgmlType::I32 },
        QuantiseError::InTensor { tensor: tensor(), source: Box::new(blocks()) },
        QuantiseError::Requantised { tensor: tensor(), from: GgmlType::Q8_0, file: FileType::Q4_K_M },
        QuantiseError::Starved { tensor: tensor(), kind, file },
        QuantiseError::ImportanceFile {
            file: "i.gguf".to_owned(),
            problem: "none of its tensors is in the model: it was measured with another one".to_owned(),
        },
        QuantiseError::ImportanceShape { tensor: tensor(), found: 1536, wanted: 576 },
        QuantiseError::Write("no space left on the device".to_owned()),
        QuantiseError::Cancelled,
    ];
    insta::assert_snapshot!(said);
}
