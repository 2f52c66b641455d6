//! A host whose allocator is not the plugin's: every block has a head of its own, so that memory which one side frees for the
//! other is found at once. Nothing crosses the border but what is borrowed.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_engine::Chain;
use menagerie_engine::{Sampler, SamplingOptions};
use menagerie_plugin_host::{PluginLoadOptions, load};
use menagerie_registry::Environment;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Puts a head in front of every block, with a word that only it writes.
struct Headed;

const WORD: u64 = 0x4845_4144_4544_2121;
const HEAD: usize = 64;

static LIVE: AtomicUsize = AtomicUsize::new(0);

fn with_head(layout: Layout) -> Option<(Layout, usize)> {
    let head = HEAD.max(layout.align());
    let size = layout.size().checked_add(head)?;
    Some((Layout::from_size_align(size, head).ok()?, head))
}

#[global_allocator]
static ALLOCATOR: Headed = Headed;

// SAFETY: blocks of the system's allocator, larger by a head that is as long as the alignment.
unsafe impl GlobalAlloc for Headed {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some((whole, head)) = with_head(layout) else { return std::ptr::null_mut() };
        // SAFETY: the size is not 0; the head lies in the block and is aligned for a word.
        unsafe {
            let block = System.alloc(whole);
            if block.is_null() {
                return block;
            }
            block.cast::<u64>().write(WORD);
            LIVE.fetch_add(1, Ordering::Relaxed);
            block.add(head)
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some((whole, head)) = with_head(layout) else { std::process::abort() };
        // SAFETY: a block of ours has its head in front; that of another allocator ends the test here.
        unsafe {
            let start = block.sub(head);
            if start.cast::<u64>().read() != WORD {
                std::process::abort();
            }
            start.cast::<u64>().write(0);
            LIVE.fetch_sub(1, Ordering::Relaxed);
            System.dealloc(start, whole);
        }
    }
}

fn library() -> std::path::PathBuf {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let name = format!("{prefix}menagerie_top_n_sigma_library{suffix}");
    let tests = std::env::current_exe().unwrap();
    let beside = tests.ancestors().skip(1).map(|folder| folder.join(&name)).find(|path| path.is_file());
    beside.expect("the library of the plugin is built with its tests")
}

#[test]
fn instances_calls_and_errors_cross_no_memory() {
    // A checkout may lie where others may write.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(library().file_name().unwrap());
    std::fs::copy(library(), &file).unwrap();
    let (environment, plugin) =
        load(&Environment::linked().unwrap(), &file, PluginLoadOptions::default()).unwrap();
    assert_eq!(plugin.components.len(), 1);
    let logits: Vec<f32> = (0..500).map(|i| (i * 37 % 101) as f32 / 10.0).collect();
    let round = || {
        let sampler = Sampler::parse("menagerie/samplers:top-n-sigma=n=0.5", environment.entries()).unwrap();
        let options = SamplingOptions::default().with_samplers(vec![sampler]).with_seed(1);
        let mut chain = Chain::from_options(&options).unwrap();
        for length in 0..5 {
            chain.sample(&logits, &vec![0; length]).unwrap();
        }
        // The plugin's text of an error is copied and freed by its own side.
        let refused =
            Sampler::parse("menagerie/samplers:top-n-sigma=n=-1", environment.entries()).unwrap_err();
        assert!(refused.contains("n is -1"), "{refused}");
    };
    for _ in 0..20 {
        round();
    }
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..1000 {
        round();
    }
    let after = LIVE.load(Ordering::Relaxed);
    // The test's own threads may hold a few blocks more or less.
    assert!(after.abs_diff(before) < 20, "{before} blocks before, {after} after a thousand rounds");
}
