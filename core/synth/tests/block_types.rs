//! The two tables of block types: what kernels multiply is what files hold.
#![allow(missing_docs, clippy::unwrap_used)]

use gguf_file::GgmlType;
use menagerie_kernels::BlockType;

#[test]
fn kernels_and_files_agree_on_every_block() {
    for &block in BlockType::ALL {
        let kind = GgmlType::from_id(block.ggml_id());
        assert_eq!(kind.name(), block.name());
        assert_eq!(kind.block_len(), Some(block.block_len()), "{}", block.name());
        assert_eq!(kind.block_bytes(), Some(block.block_bytes()), "{}", block.name());
    }
    // Whole numbers and f64 hold no weights, Q8_1 and Q8_K only ever hold activations; Q1_0 and Q2_0 have no kernel.
    let unknown = GgmlType::known().filter(|kind| BlockType::from_ggml_id(kind.id()).is_none());
    let unknown: Vec<&str> = unknown.map(GgmlType::name).collect();
    assert_eq!(unknown, ["Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64", "Q1_0", "Q2_0"]);
}
