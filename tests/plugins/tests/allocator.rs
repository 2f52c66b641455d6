//! A program with an allocator of its own, of which no block is one of the C library's: a plugin has another, and neither
//! frees what the other has allocated.
#![allow(missing_docs, clippy::unwrap_used, unsafe_code)]

use menagerie::engine::Arithmetic;
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_plugin_tests::{Model, Probe, with_plugin};
use menagerie_testkit::assert_close;
use std::alloc::{GlobalAlloc, Layout, System};

/// Puts a header before every block: freed by another allocator, a block is no block.
struct Headed;

const MARK: u64 = 0x6d65_6e61_6765_7269;

/// Bytes before a block: as many as its alignment wants, and room for the mark.
fn head(layout: Layout) -> usize {
    layout.align().max(16)
}

// SAFETY: blocks are those of the system, moved by the head, whose size follows from the layout.
unsafe impl GlobalAlloc for Headed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Ok(whole) = Layout::from_size_align(layout.size() + head(layout), layout.align().max(16)) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the layout has a size; the head is inside the block.
        unsafe {
            let block = System.alloc(whole);
            if block.is_null() {
                return block;
            }
            block.cast::<u64>().write(MARK);
            block.add(head(layout))
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `alloc` made the block with this layout, or the mark is not there.
        unsafe {
            let start = block.sub(head(layout));
            if start.cast::<u64>().read() != MARK {
                std::process::abort();
            }
            start.cast::<u64>().write(0);
            let whole =
                Layout::from_size_align_unchecked(layout.size() + head(layout), layout.align().max(16));
            System.dealloc(start, whole);
        }
    }
}

#[global_allocator]
static ALLOCATOR: Headed = Headed;

#[test]
fn a_plugin_and_a_program_with_another_allocator_run_together() {
    let (folder, model) = (tempfile::tempdir().unwrap(), Model::default());
    let (environment, _) = with_plugin(Probe::built().save(folder.path(), "probe.so"));
    let path = model.save(folder.path(), "probe-model");
    let tokens: Vec<u32> = (0..20).collect();
    for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
        let options = LoadOptions::default().with_threads(2).with_arithmetic(arithmetic);
        let pipeline = ModelBuilder::new(&path)
            .with_environment(&environment)
            .with_options(&options)
            .open_text()
            .unwrap();
        let logits =
            logits(&pipeline, &tokens, &LogitsOptions::default().with_chunk(6).with_decode_from(15)).unwrap();
        let silu = |x: f64| x / (1.0 + (-x).exp());
        assert_close(&format!("{arithmetic:?}"), &logits.values, &model.logits(&tokens, silu), 1e-4);
    }
}
