//! Prints GB/s of products with one row and GMAC/s of products with many rows per block type, next to the machine's
//! limits, and the time of products with few rows relative to one.
//!
//! `rates [--isa NAME] [--threads N] [--tokens N] [--rows N] [--cols N] [--one] [--few] [--many] [--exact] [--coarse]
//! [TYPE...]`
//!
//! Matrices for one row and few are larger than the caches unless `--rows` is given; with `--threads 1` only the time
//! that the thread was running counts. `--coarse`: F16 prompts in bfloat16.

use std::error::Error;

use menagerie_kernels::{Arithmetic, BlockType, Cpu, CpuOptions, HalfPrompts, Isa};
use menagerie_kernels_check::rates::{int8_rate, product_rate, read_rate, row_costs};
use menagerie_kernels_check::weights::RandomWeights;

/// The numbers of rows that are compared with one.
const FEW: [usize; 8] = [1, 2, 3, 4, 5, 6, 8, 9];
/// Bytes that no cache holds.
const LARGE: usize = 256 << 20;

struct RateOptions {
    cpu: CpuOptions,
    tokens: usize,
    rows: Option<usize>,
    cols: usize,
    one: bool,
    few: bool,
    many: bool,
    arithmetic: Arithmetic,
    types: Vec<String>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let cpu = Cpu::with_options(options.cpu)?;
    for &block in BlockType::ALL {
        if options.types.is_empty() || options.types.iter().any(|name| name == block.name()) {
            measure(&cpu, &options, block)?;
        }
    }
    Ok(())
}

fn options() -> Result<RateOptions, Box<dyn Error>> {
    let mut options = RateOptions {
        cpu: CpuOptions::default(),
        tokens: 512,
        rows: None,
        cols: 2048,
        one: false,
        few: false,
        many: false,
        arithmetic: Arithmetic::Fast,
        types: vec![],
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--isa" => options.cpu.isa = Some(Isa::from_name(&value()?)?),
            "--threads" => options.cpu.threads = Some(value()?.parse()?),
            "--tokens" => options.tokens = value()?.parse()?,
            "--rows" => options.rows = Some(value()?.parse()?),
            "--cols" => options.cols = value()?.parse()?,
            "--one" => options.one = true,
            "--few" => options.few = true,
            "--many" => options.many = true,
            "--exact" => options.arithmetic = Arithmetic::Exact,
            "--coarse" => options.cpu.half_prompts = HalfPrompts::BFloat16,
            name if BlockType::ALL.iter().any(|block| block.name() == name) => options.types.push(arg),
            _ => return Err(format!("unknown argument `{arg}`").into()),
        }
    }
    Ok(options)
}

fn measure(cpu: &Cpu, options: &RateOptions, block: BlockType) -> Result<(), Box<dyn Error>> {
    let all = !(options.one || options.few || options.many);
    let row_bytes = block.row_bytes(options.cols).ok_or("blocks do not divide the columns")?;
    let rows = options.rows.unwrap_or(LARGE / row_bytes);
    if options.one || all {
        let weights = RandomWeights::new(block, rows, options.cols)?;
        let w = weights.matrix()?;
        read_rate(cpu, w.bytes())?;
        let rate = product_rate(cpu, options.arithmetic, &w, 1)?.bytes_per_second;
        let share = rate / read_rate(cpu, w.bytes())? * 100.0;
        println!("{:8} one  {:7.1} GB/s  {share:5.1}% of reading", block.name(), rate / 1e9);
    }
    if options.few || all {
        let weights = RandomWeights::new(block, rows, options.cols)?;
        let costs = row_costs(cpu, options.arithmetic, &weights.matrix()?, &FEW)?;
        let costs = FEW.iter().zip(&costs).map(|(rows, cost)| format!("{rows}: {cost:.2}"));
        println!("{:8} few  {}", block.name(), costs.collect::<Vec<_>>().join("  "));
    }
    if options.many || all {
        let weights = RandomWeights::new(block, options.rows.unwrap_or(8192), options.cols)?;
        let peak = int8_rate(cpu)?;
        let w = weights.matrix()?;
        let rate = product_rate(cpu, options.arithmetic, &w, options.tokens)?.products_per_second;
        let share = rate / peak * 100.0;
        println!("{:8} many {:7.1} GMAC/s {share:5.1}% of {:.0}", block.name(), rate / 1e9, peak / 1e9);
    }
    Ok(())
}
