//! States cost only the memory that was written. A separate process, because it reads how much memory the process uses.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use menagerie_cpu::CpuBackend;
use menagerie_kernels::{Cpu, keep_large_buffers};
use menagerie_model::{KvType, StateMemory, StatePlan, StateRoom, StateSpec};

const STATES: usize = 64;
const BYTES: usize = 4 << 20;

#[test]
fn what_nobody_wrote_to_takes_no_memory() {
    // As in an application: freed memory stays in the process, so a buffer that was freed and allocated again would be
    // cleared.
    keep_large_buffers();
    let backend = CpuBackend::new(Cpu::new(Some(1)).unwrap());
    let before = resident();
    let room = StateRoom::Pages { dtype: KvType::F16, heads: 1, head_dim: 64, pages: BYTES / (64 * 2 * 32) };
    let spec = |i| StateSpec::PerToken {
        name: format!("blk.{i}.k"),
        dtype: None,
        heads: 1,
        head_dim: 64,
        window: None,
    };
    let plan = StatePlan { specs: (0..STATES).map(spec).collect(), rooms: vec![room; STATES], page_len: 32 };
    // Memory that the heap has used before, and states that existed before: neither may be cleared by hand.
    drop(std::hint::black_box(vec![1u8; 16 << 20]));
    drop(backend.state_backing(&plan).unwrap());
    let states = backend.state_backing(&plan).unwrap();
    let grown = resident() - before;
    assert!(grown < STATES * BYTES / 4, "{grown} bytes of {} are resident", STATES * BYTES);
    drop(states);
}

fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
