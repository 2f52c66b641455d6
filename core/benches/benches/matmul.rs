//! Matrix products per block type: one row (bytes per second) and 128 rows (multiplications per second).

use std::error::Error;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use menagerie_benches::RandomWeights;
use menagerie_kernels::{ActivationCache, Activations, Arithmetic, BlockType, Cpu, matmul};

const TYPES: [BlockType; 8] = [
    BlockType::F16,
    BlockType::BF16,
    BlockType::Q4_0,
    BlockType::Q4_1,
    BlockType::Q8_0,
    BlockType::Q4_K,
    BlockType::Q6_K,
    BlockType::IQ4_XS,
];
const ROWS: usize = 2048;
const COLS: usize = 2048;

fn group(criterion: &mut Criterion, cpu: &Cpu, tokens: usize) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group(if tokens == 1 { "one row" } else { "many rows" });
    group.sample_size(20);
    for block in TYPES {
        let weights = RandomWeights::new(block, ROWS, COLS)?;
        let w = weights.matrix()?;
        let values = weights.activations(tokens);
        let mut y = vec![0f32; tokens * ROWS];
        group.throughput(match tokens {
            1 => Throughput::Bytes(w.bytes().len() as u64),
            _ => Throughput::Elements((ROWS * COLS * tokens) as u64),
        });
        group.bench_function(BenchmarkId::from_parameter(block.name()), |b| {
            b.iter(|| {
                let cache = ActivationCache::default();
                let x = Activations { values: &values, rows: tokens, cols: COLS, cache: &cache };
                matmul(cpu, Arithmetic::Fast, &w, &x, &mut y)
            });
        });
    }
    group.finish();
    Ok(())
}

fn products(criterion: &mut Criterion) {
    let measured = Cpu::new(None)
        .map_err(Into::into)
        .and_then(|cpu| group(criterion, &cpu, 1).and_then(|()| group(criterion, &cpu, 128)));
    if let Err(error) = measured {
        eprintln!("matmul benches: {error}");
    }
}

criterion_group!(benches, products);
criterion_main!(benches);
