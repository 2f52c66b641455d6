//! Prints GB/s of one-row products and GMAC/s of many-row products per block type, beside the machine's limits.
//!
//! `rates [--isa NAME] [--tokens N] [--rows N] [--cols N] [--threads N] [--one] [--many] [--hot] [--fresh] [--exact] [TYPE...]`

use std::time::Instant;

use menagerie_benches::{RandomWeights, WeightError};
use menagerie_kernels::{
    ActivationCache, Activations, Arithmetic, BlockType, Cpu, Isa, Matrix, matmul, probe_int8_rate,
    probe_read_rate,
};

struct Options {
    isa: Option<Isa>,
    tokens: usize,
    rows: usize,
    cols: usize,
    one: bool,
    many: bool,
    exact: bool,
    hot: bool,
    fresh: bool,
    threads: usize,
    types: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options {
        isa: None,
        tokens: 512,
        rows: 8192,
        cols: 2048,
        one: false,
        many: false,
        exact: false,
        hot: false,
        fresh: false,
        threads: 2,
        types: vec![],
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().unwrap_or_default().parse::<usize>();
        match arg.as_str() {
            "--tokens" => options.tokens = number()?,
            "--rows" => options.rows = number()?,
            "--cols" => options.cols = number()?,
            "--threads" => options.threads = number()?,
            "--one" => options.one = true,
            "--many" => options.many = true,
            "--exact" => options.exact = true,
            "--hot" => options.hot = true,
            "--fresh" => options.fresh = true,
            "--isa" => options.isa = Some(Isa::from_name(&args.next().unwrap_or_default())?),
            _ => options.types.push(arg),
        }
    }
    let cpu = Cpu::with_isa(Some(options.threads), options.isa.unwrap_or_else(Isa::detect))?;
    for &block in BlockType::ALL {
        if options.types.is_empty() || options.types.iter().any(|name| name == block.name()) {
            measure(&cpu, &options, block)?;
        }
    }
    Ok(())
}

fn measure(cpu: &Cpu, options: &Options, block: BlockType) -> Result<(), Box<dyn std::error::Error>> {
    if options.one || !options.many {
        measure_one(cpu, options, block)?;
    }
    if options.many || !options.one {
        measure_many(cpu, options, block)?;
    }
    Ok(())
}

/// A stop watch that counts the thread's own time if there is one thread.
struct Watch {
    start: Instant,
    ran: f64,
    own: bool,
}

impl Watch {
    fn start(cpu: &Cpu) -> Watch {
        let start = Instant::now();
        Watch { start, ran: running(start), own: cpu.pool().threads() == 1 }
    }

    fn seconds(&self) -> f64 {
        if self.own { running(self.start) - self.ran } else { self.start.elapsed().as_secs_f64() }
    }
}

fn measure_one(cpu: &Cpu, options: &Options, block: BlockType) -> Result<(), Box<dyn std::error::Error>> {
    let arithmetic = if options.exact { Arithmetic::Exact } else { Arithmetic::Fast };
    let (rows, cols) = (options.rows, options.cols);
    // Enough copies of the matrix that none is in a cache when its turn comes; or one that stays there.
    let row_bytes = block.row_bytes(cols).ok_or(WeightError)?;
    let rows = if options.hot { rows.min((256 << 10) / row_bytes) } else { rows };
    let copies = if options.hot { 1 } else { (256usize << 20).div_ceil(rows * row_bytes) };
    let rounds = if options.hot { (2usize << 30) / (rows * row_bytes) } else { 1 };
    let weights = RandomWeights::new(block, copies * rows, cols)?;
    let all = weights.matrix()?;
    let mut y = vec![0f32; rows];
    let x = weights.activations(1);
    let (mut rates, mut ratios) = (vec![], vec![]);
    for _ in 0..if options.hot { 1 } else { 7 } {
        let watch = Watch::start(cpu);
        for _ in 0..rounds {
            probe_read_rate(cpu, all.bytes())?;
        }
        let read = watch.seconds();
        let watch = Watch::start(cpu);
        for copy in 0..copies * rounds {
            let copy = copy % copies;
            let cache = ActivationCache::default();
            let x = Activations::new(&x, 1, cols, &cache)?;
            let w = all.rows_range(copy * rows..(copy + 1) * rows);
            matmul(cpu, arithmetic, &w, &x, &mut y)?;
        }
        let seconds = watch.seconds();
        rates.push((rounds * all.bytes().len()) as f64 / seconds / 1e9);
        ratios.push(read / seconds);
    }
    let (rate, ratio) = (median(&mut rates), median(&mut ratios));
    println!("{:8} one  {rate:7.1} GB/s  {:5.1}% of reading", block.name(), ratio * 100.0);
    Ok(())
}

fn measure_many(cpu: &Cpu, options: &Options, block: BlockType) -> Result<(), Box<dyn std::error::Error>> {
    let arithmetic = if options.exact { Arithmetic::Exact } else { Arithmetic::Fast };
    let (rows, cols) = (options.rows, options.cols);
    let weights = RandomWeights::new(block, rows, cols)?;
    let w: Matrix = weights.matrix()?;
    let values = weights.activations(options.tokens);
    let mut y = vec![0f32; options.tokens * rows];
    let cache = ActivationCache::default();
    let x = Activations::new(&values, options.tokens, cols, &cache)?;
    matmul(cpu, arithmetic, &w, &x, &mut y)?;
    let peak = probe_int8_rate(cpu)? / 1e9;
    let mut rates = vec![];
    let work = rows * cols * options.tokens;
    let rounds = (20_000_000_000 / work).max(1);
    for _ in 0..5 {
        let watch = Watch::start(cpu);
        for _ in 0..rounds {
            let cache = ActivationCache::default();
            let fresh = Activations { cache: &cache, ..x };
            matmul(cpu, arithmetic, &w, if options.fresh { &fresh } else { &x }, &mut y)?;
        }
        rates.push((rounds * work) as f64 / watch.seconds() / 1e9);
    }
    let rate = median(&mut rates);
    println!("{:8} many {rate:7.1} GMAC/s {:5.1}% of {peak:.0}", block.name(), rate / peak * 100.0);
    Ok(())
}

/// Seconds that this thread has been running: with `--threads 1` rates by this clock do not suffer from what else
/// the machine does. Where the system does not say, the time that passed.
fn running(since: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    match stat.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()) {
        Some(ns) => ns * 1e-9,
        None => since.elapsed().as_secs_f64(),
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
