//! The matrix kernels alone: GB/s with one row, GMAC/s with 512 rows, per type.

use crate::failure::Failure;
use crate::output;
use menagerie::gguf::GgmlType;
use menagerie::kernels::{ActivationCache, Activations, Arithmetic, BlockType, Cpu, Matrix, matmul};
use menagerie::synth::{blocks, random::Random};
use serde_json::{Value, json};
use std::time::Instant;

/// Rows and columns of the matrix: larger than the caches for every type.
const ROWS: usize = 16384;
const COLUMNS: usize = 2048;
const PROMPT: usize = 512;

/// Rates of every type that random blocks can be made of.
pub(crate) fn measure(cpu: &Cpu) -> Result<Value, Failure> {
    let mut rates = Vec::new();
    let mut random = Random::new(1);
    let x: Vec<f32> = (0..PROMPT * COLUMNS).map(|_| random.signed()).collect();
    for kind in GgmlType::known().filter(|kind| blocks::can_fill(*kind)) {
        let Some((block, row_bytes)) = BlockType::from_ggml_id(kind.id()).zip(kind.row_bytes(COLUMNS as u64))
        else {
            continue;
        };
        let mut bytes = vec![0; ROWS * row_bytes as usize];
        blocks::fill(kind, &mut random, 0.02, 0.0, &mut bytes);
        let matrix = Matrix::new(block, ROWS, COLUMNS, &bytes)?;
        let single = seconds(cpu, &matrix, &x[..COLUMNS], 5)?;
        let many = seconds(cpu, &matrix, &x, 1)?;
        rates.push(json!({
            "type": kind.name(),
            "rows": ROWS,
            "columns": COLUMNS,
            "decode_bytes_per_second": bytes.len() as f64 / single,
            "prefill_macs_per_second": (ROWS * COLUMNS * PROMPT) as f64 / many,
        }));
    }
    Ok(Value::Array(rates))
}

/// Seconds of one product: the best of three after a warm-up, as other processes only ever slow it down.
fn seconds(cpu: &Cpu, matrix: &Matrix<'_>, x: &[f32], repeat: usize) -> Result<f64, Failure> {
    let rows = x.len() / COLUMNS;
    let mut y = vec![0.0; rows * ROWS];
    let mut best = f64::INFINITY;
    for round in 0..4 {
        let start = Instant::now();
        for _ in 0..repeat {
            let cache = ActivationCache::default();
            let activations = Activations { values: x, rows, cols: COLUMNS, cache: &cache };
            matmul(cpu, Arithmetic::Fast, matrix, &activations, &mut y)?;
        }
        if round > 0 {
            best = best.min(start.elapsed().as_secs_f64() / repeat as f64);
        }
    }
    Ok(best)
}

/// The rates as a table; nothing if they were not measured.
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
