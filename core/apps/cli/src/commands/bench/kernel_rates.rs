//! Speed of the matrix kernels alone for each weight type: GB/s with one row, GMAC/s with 512 rows, and the time of few
//! rows relative to one.

use crate::failure::Failure;
use crate::output;
use menagerie::gguf::GgmlType;
use menagerie::kernels::{Arithmetic, BlockType, Cpu, Matrix};
use menagerie::synth::blocks;
use menagerie_kernels_check::rates::{product_rate, row_costs};
use menagerie_random::SplitMix64;
use serde_json::{Value, json};

/// Rows and columns of the matrix: larger than the caches for every type.
const ROWS: usize = 16384;
const COLUMNS: usize = 2048;
const PROMPT: usize = 512;
/// The numbers of rows whose time is compared with that of one.
const FEW: [usize; 3] = [2, 4, 8];

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
        let costs = row_costs(cpu, Arithmetic::Fast, &matrix, &[1, FEW[0], FEW[1], FEW[2]])?;
        rates.push(json!({
            "type": kind.name(),
            "rows": ROWS,
            "columns": COLUMNS,
            "decode_bytes_per_second": single.bytes_per_second,
            "prefill_macs_per_second": many.products_per_second,
            "few_rows_cost": costs[1..],
        }));
    }
    Ok(Value::Array(rates))
}

/// Prints the rates as a table; nothing if they were not measured.
pub(crate) fn print(rates: &Value) -> Result<(), Failure> {
    let Some(rates) = rates.as_array() else { return Ok(()) };
    let row = |rate: &Value| {
        let number = |key: &str| format!("{:.1}", rate[key].as_f64().unwrap_or_default() / 1e9);
        let cost = |index: usize| format!("{:.2}", rate["few_rows_cost"][index].as_f64().unwrap_or_default());
        let costs: Vec<String> = (0..FEW.len()).map(cost).collect();
        vec![
            rate["type"].as_str().unwrap_or_default().to_owned(),
            format!("{}x{}", rate["rows"], rate["columns"]),
            number("decode_bytes_per_second"),
            number("prefill_macs_per_second"),
            costs.join(" / "),
        ]
    };
    let rows: Vec<Vec<String>> = rates.iter().map(row).collect();
    output::table(&["type", "shape", "decode GB/s", "prefill GMAC/s", "2 / 4 / 8 rows"], &rows)
}
