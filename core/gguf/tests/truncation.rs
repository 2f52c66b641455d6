//! Truncation while mapped: each case runs in a process of its own, since some of them must die.

// Tests fail by panicking; clippy's own exception covers only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gguf_file::{GgmlType, GgufFile, GgufWriter, OpenOptions, install_fault_guard};

const CASE: &str = "GGUF_TRUNCATION_CASE";
const FILE: &str = "GGUF_TRUNCATION_FILE";
const LEN: usize = 1 << 20;

fn write(path: &Path) {
    let mut writer = GgufWriter::new();
    writer.metadata("general.name", "x").unwrap();
    writer.tensor("first", &[LEN as u64 / 4], GgmlType::F32, vec![7; LEN]).unwrap();
    writer.tensor("second", &[LEN as u64 / 4], GgmlType::F32, vec![9; LEN]).unwrap();
    writer.write(path).unwrap();
}

/// Runs this test binary again for one case.
fn child(case: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.gguf");
    write(&path);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "run_case", "--nocapture", "--test-threads=1"]);
    command.env(CASE, case).env(FILE, &path).current_dir(folder.path());
    command.output().unwrap()
}

#[track_caller]
fn survives(case: &str) {
    let output = child(case);
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("case done"), "{case}: {} {text}", output.status);
}

#[track_caller]
fn dies(case: &str, signal: i32) -> String {
    let output = child(case);
    assert_eq!(output.status.signal(), Some(signal), "{case}: {}", output.status);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn truncate(path: &Path, len: u64) {
    File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// What the children do; in the parent there is no case, and nothing happens.
#[test]
fn run_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let path = PathBuf::from(std::env::var(FILE).unwrap());
    let file = GgufFile::open(&path, &OpenOptions::default().with_mmap(case != "memory")).unwrap();
    let data = ["first", "second"].map(|name| file.data(file.tensor(name).unwrap()).unwrap());
    if case != "unguarded" {
        install_fault_guard().unwrap();
        install_fault_guard().unwrap();
    }
    match case.as_str() {
        "guarded" => guarded(&file, &path, &data),
        "threads" => threads(&file, &path),
        "twice" => twice(&file, &path, &data),
        "memory" => {
            truncate(&path, 0);
            assert_eq!(sum(&data[1]), 9 * LEN as u64);
            assert!(!file.poisoned() && file.check_alive().is_ok());
        }
        "unguarded" => {
            truncate(&path, 4096);
            println!("{}", sum(&data[1]));
        }
        "foreign" => foreign(&path),
        "chained" => chained(&file, &path, &data),
        "sent" => {
            // std's handler lets the first sent signal pass and takes the default action from then on.
            // SAFETY: raising a signal has no precondition.
            unsafe { libc::raise(libc::SIGBUS) };
            // SAFETY: as above.
            unsafe { libc::raise(libc::SIGBUS) };
        }
        "overflow" => println!("{}", recurse(1)),
        other => panic!("no case {other}"),
    }
    println!("case done");
}

fn guarded(file: &GgufFile, path: &Path, data: &[gguf_file::TensorBytes; 2]) {
    assert_eq!(sum(&data[0]), 7 * LEN as u64);
    assert!(!file.poisoned() && file.check_alive().is_ok());
    let half = file.tensor("second").unwrap().offset() + LEN as u64 / 2;
    truncate(path, half);
    // The first half is still there; a page that holds both is cut by the system.
    assert_eq!(sum(&data[0]), 7 * LEN as u64);
    assert!(!file.poisoned());
    let total = sum(&data[1]);
    assert!(total >= 9 * (LEN as u64 / 2 - 4096) && total <= 9 * (LEN as u64 / 2), "{total}");
    assert!(file.poisoned() && data[1].poisoned());
    let error = file.check_alive().unwrap_err().to_string();
    assert!(error.contains("changed on disk while in use") && error.contains("vanished"), "{error}");
    let error = file.data(file.tensor("first").unwrap()).unwrap_err().to_string();
    assert!(error.contains("load the model again"), "{error}");
    assert_eq!(file.metadata().get("general.name").unwrap().as_str(), Some("x"));
    // Another mapping of the same file is not poisoned by this one, and a new file takes the place well.
    write(path);
    let again = GgufFile::open(path, &OpenOptions::default()).unwrap();
    assert!(!again.poisoned() && file.poisoned());
    assert_eq!(sum(&again.data(again.tensor("second").unwrap()).unwrap()), 9 * LEN as u64);
}

/// Many threads fault at once, in two mappings.
fn threads(file: &GgufFile, path: &Path) {
    let other = path.with_extension("other");
    fs::copy(path, &other).unwrap();
    let whole = GgufFile::open(&other, &OpenOptions::default()).unwrap();
    truncate(path, 4096);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for tensor in whole.tensors() {
                    let data = whole.data(tensor).unwrap();
                    assert!(data[0] == 7 || data[0] == 9);
                    assert_eq!(sum(&data), u64::from(data[0]) * LEN as u64);
                }
                for tensor in file.tensors() {
                    if let Ok(data) = file.data(tensor) {
                        assert!(sum(&data) <= 9 * LEN as u64);
                    }
                }
            });
        }
    });
    assert!(file.poisoned() && !whole.poisoned() && whole.check_alive().is_ok());
}

/// Two holes: the later page first, then an earlier one.
fn twice(file: &GgufFile, path: &Path, data: &[gguf_file::TensorBytes; 2]) {
    truncate(path, file.tensor("second").unwrap().offset());
    assert_eq!(data[1][LEN - 1], 0);
    truncate(path, 4096);
    assert_eq!((data[0][LEN / 2], data[1][LEN / 2]), (0, 0));
    assert!(file.poisoned());
}

/// A mapping that is not of this crate still dies.
fn foreign(path: &Path) {
    let file = File::open(path).unwrap();
    // SAFETY: the mapping is read once below, and the fault that this gives is the point of the case.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    truncate(path, 0);
    println!("{}", sum(&map));
}

/// Somebody else's handler, there before, is called for what is not ours.
fn chained(file: &GgufFile, path: &Path, data: &[gguf_file::TensorBytes; 2]) {
    truncate(path, 4096);
    assert_eq!(data[1][LEN / 2], 0);
    assert!(file.poisoned());
    foreign(path);
}

#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    let space = std::hint::black_box([depth; 512]);
    recurse(depth + 1) + space[(depth % 512) as usize]
}

#[test]
fn a_guarded_truncation_poisons() {
    survives("guarded");
}

#[test]
fn all_threads_survive() {
    survives("threads");
}

#[test]
fn a_second_truncation_is_survived() {
    survives("twice");
}

#[test]
fn bytes_in_memory_do_not_care() {
    survives("memory");
}

#[test]
fn without_the_guard_the_process_dies() {
    dies("unguarded", libc::SIGBUS);
}

#[test]
fn faults_of_others_keep_their_meaning() {
    dies("foreign", libc::SIGBUS);
    dies("chained", libc::SIGBUS);
    dies("sent", libc::SIGBUS);
}

#[test]
fn stack_overflow_is_still_told() {
    let text = dies("overflow", libc::SIGABRT);
    assert!(text.contains("overflowed its stack"), "{text}");
}
