//! Speed of the matrix kernels alone for each weight type: GB/s with one row, GMAC/s with 512 rows.

use crate::failure::Failure;
use crate::output;
use menagerie::gguf::GgmlType;
use menagerie::kernels::{Arithmetic, BlockType, Cpu, Matrix};
use menagerie::synth::blocks;
use menagerie_kernels_check::rates::product_rate;
use menagerie_random::SplitMix64;
use serde_json::{Value, json};

/// Rows and columns of the matrix: larger than the caches for every type.
const ROWS: usize = 16384;
const COLUMNS: usize = 2048;
const PROMPT: usize = 512;

/// Measures every type for which random blocks can be generated.
pub(crate) fn measure(cpu: &Cpu) -> Result<Value, Failure> {
    let mut rates = Vec::new();
    let mut random = SplitMix64::new(1);
    for kind in GgmlType::known().filter(|kind| blocks::can_fill(*kind)) {
        let Some((block, row_bytes)) = BlockType::from_ggml_id(kind.id()).zip(kind.row_bytes(COLUMNS as u64))
        else {
            continue;
        };
        let mut bytes = vec![0; ROWS * row_bytes as usize];
        blocks::fill(kind, &mut random, 0.02, 0.0, &mut bytes);
        let matrix = Matrix::new(block, ROWS, COLUMNS, &bytes)?;
        let single = product_rate(cpu, Arithmetic::Fast, &matrix, 1)?;
        let many = product_rate(cpu, Arithmetic::Fast, &matrix, PROMPT)?;
        rates.push(json!({
            "type": kind.name(),
            "rows": ROWS,
            "columns": COLUMNS,
            "decode_bytes_per_second": single.bytes_per_second,
            "prefill_macs_per_second": many.products_per_second,
        }));
    }
    Ok(Value::Array(rates))
}

/// Prints the rates as a table; nothing if they were not measured.
pub(crate) fn print(rates: &Value) -> Result<(), Failure> {
    let Some(rates) = rates.as_array() else { return Ok(()) };
    let row = |rate: &Value| {
        let number = |key: &str| format!("{:.1}", rate[key].as_f64().unwrap_or_default() / 1e9);
        vec![
            rate["type"].as_str().unwrap_or_default().to_owned(),
            format!("{}x{}", rate["rows"], rate["columns"]),
            number("decode_bytes_per_second"),
            number("prefill_macs_per_second"),
        ]
    };
    let rows: Vec<Vec<String>> = rates.iter().map(row).collect();
    output::table(&["type", "shape", "decode GB/s", "prefill GMAC/s"], &rows)
}
