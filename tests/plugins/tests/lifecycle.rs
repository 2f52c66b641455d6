//! A thousand models of a plugin's parts come and go, and neither threads nor memory grow. Alone in its process, which it
//! measures.
#![allow(missing_docs, clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_plugin_tests::{Model, Probe, with_plugin};

/// Threads, and KiB in memory.
fn measured() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let number = |key: &str| {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (number("Threads:"), number("VmRSS:"))
}

#[test]
fn a_thousand_models_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (environment, _) = with_plugin(Probe::built().save(folder.path(), "probe.so"));
    let path = Model::default().save(folder.path(), "probe-model");
    let options = LoadOptions::default().with_threads(2);
    let one = || {
        let pipeline = ModelBuilder::new(&path)
            .with_environment(&environment)
            .with_options(&options)
            .open_text()
            .unwrap();
        logits(&pipeline, &[1, 2, 3, 4], &LogitsOptions::default()).unwrap();
    };
    (0..200).for_each(|_| one());
    let (threads, before) = measured();
    (0..1000).for_each(|_| one());
    let (threads_after, after) = measured();
    assert_eq!(threads_after, threads);
    // What one model holds is some 100 KiB: a thousandth of that, a thousand times, would be seen.
    assert!(after < before + 1024, "{before} KiB before, {after} KiB after a thousand models");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(maps.contains("probe.so"), "a plugin is never unloaded");
}
