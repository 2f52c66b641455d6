//! After a generation the process has its main thread and the pool's threads, no more: nothing started a pool of its own
//! (candle's matmuls and casts would). A binary without the test harness, whose threads would count.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, Request, SamplingOptions};
use menagerie::open::ModelBuilder;
use menagerie_conformance::{fixtures, options};
use std::time::{Duration, Instant};

fn generate(file: &str, threads: usize) {
    let options = options(Arithmetic::Fast).with_threads(threads);
    let pipeline = ModelBuilder::new(fixtures().join(file))
        .with_options(&options)
        .open_text()
        .unwrap_or_else(|e| panic!("{e}"));
    let mut session = pipeline.session().unwrap();
    let prompt: Vec<u32> = (5..205).collect();
    let request =
        Request::default().with_sampling(SamplingOptions::greedy()).with_max_tokens(8).with_ignore_eos(true);
    let outcome = session.generate(&prompt, &request, |_| {}).unwrap();
    assert_eq!(outcome.tokens.len(), 8);
    if cfg!(target_os = "linux") {
        let pool = (1..threads).map(|worker| format!("menagerie-{worker}"));
        let mut expected: Vec<String> = pool.chain([main_name()]).collect();
        expected.sort();
        // A thread names itself once it runs, which may be later than the work that others did for it.
        let deadline = Instant::now() + Duration::from_secs(30);
        while thread_names() != expected && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(thread_names(), expected, "{file} with {threads} threads");
    }
}

fn thread_names() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that has just ended may still be listed.
    let name = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        Some(name.trim().to_owned())
    };
    let mut names: Vec<String> = tasks.filter_map(|task| name(task.unwrap().path())).collect();
    names.sort();
    names
}

fn main_name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim().to_owned()
}

fn main() {
    for file in
        ["base/llama/model-f32.gguf", "base/qwen3moe/model-f32.gguf", "quant/Q4_K_M.gguf", "quant/F16.gguf"]
    {
        for threads in [1, 3] {
            generate(file, threads);
        }
    }
    println!("test threads ... ok");
}
