//! [`MemoryEstimate`]: the memory that a model needs, and [`available`]: the memory that is free.

use menagerie_model::Compute;
use std::fmt;
use std::path::Path;

/// The memory that a model needs in bytes, estimated before it is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// The weights: the size of the file, or of the copies on the device.
    pub weights: u64,
    /// The adapters that the model is opened with.
    pub adapters: u64,
    /// Keys, values and other state for the whole context.
    pub state: u64,
    /// Activations of a prompt chunk, logits and tokenizer; a rough figure.
    pub working: u64,
    /// Tokens of the context.
    pub context: usize,
    /// Free memory, if known.
    pub available: Option<u64>,
}

/// Heap of program, tokenizer and chat template in bytes, measured with large vocabularies.
const CONSTANT: u64 = 48 << 20;

impl MemoryEstimate {
    /// The estimate from the bytes of the weights, of the state for `context` tokens (see
    /// [`menagerie_model::PoolOptions::memory`]), and of the activations of a step.
    pub fn new(weights: u64, state: u64, context: usize, working: u64) -> Self {
        let working = working.saturating_add(CONSTANT);
        Self { weights, state, working, context, ..Self::default() }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        let held = self.weights.saturating_add(self.adapters);
        held.saturating_add(self.state).saturating_add(self.working)
    }

    /// Whether the sum fits into free memory; true if free memory is not known.
    pub(crate) fn fits(&self) -> bool {
        self.available.is_none_or(|available| self.total() <= available)
    }
}

impl fmt::Display for MemoryEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weights, state, working) = (size(self.weights), size(self.state), size(self.working));
        let total = size(self.total());
        write!(f, "{total} (weights {weights}, ")?;
        if self.adapters > 0 {
            write!(f, "adapters {}, ", size(self.adapters))?;
        }
        write!(f, "state of {} tokens {state}, working {working})", self.context)
    }
}

/// Bytes as text, in decimal units like sizes of files and downloads.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Bytes that a process can allocate before the system swaps or kills it.
///
/// The smaller of `MemAvailable` in `/proc/meminfo` and the rest of the control group's limit (file pages count as free,
/// because the system drops them first). `None` if neither can be read.
pub fn available() -> Option<u64> {
    let system = read("/proc/meminfo").and_then(|text| meminfo(&text, "MemAvailable:"));
    [system, group_available()].into_iter().flatten().min()
}

/// Bytes of free memory for a device: the limit, what the device reports, or what the system reports.
pub(crate) fn free(limit: Option<u64>, compute: &Compute) -> Option<u64> {
    limit.or_else(|| compute.backend.free_memory()).or_else(available)
}

/// Bytes of memory that the machine has (`MemTotal` in `/proc/meminfo`); `None` if that cannot be read.
pub fn total() -> Option<u64> {
    read("/proc/meminfo").and_then(|text| meminfo(&text, "MemTotal:"))
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// A number of `/proc/meminfo`, `MemAvailable:   123456 kB`, in bytes.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The rest of the limit of this process's control group (cgroup v2, then v1).
fn group_available() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let v2 = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let v1 = groups.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|name| name == "memory").then_some(path)
    });
    let modern =
        v2.and_then(|path| left_in_group("/sys/fs/cgroup", path, ["memory.max", "memory.current", "file"]));
    let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"];
    modern.or_else(|| v1.and_then(|path| left_in_group("/sys/fs/cgroup/memory", path, names)))
}

/// The smallest rest of a limit from a group up to the root: limit - used + file pages.
fn left_in_group(root: &str, group: &str, [limit, used, cache]: [&str; 3]) -> Option<u64> {
    let mut tightest = None;
    let mut folder = Path::new(root).join(group.trim_start_matches('/'));
    // In a container the path can be that of the host; then the container's own files are at the root.
    while folder.starts_with(root) {
        if let Some(left) = left_in_folder(&folder, [limit, used, cache]) {
            tightest = Some(tightest.map_or(left, |tightest: u64| tightest.min(left)));
        }
        if !folder.pop() {
            break;
        }
    }
    tightest
}

fn left_in_folder(folder: &Path, [limit, used, cache]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| read(folder.join(name))?.trim().parse::<u64>().ok();
    // "max" does not parse; v1 writes a number near 2^63 if there is no limit.
    let limit = number(limit).filter(|&limit| limit < 1 << 62)?;
    let statistics = read(folder.join("memory.stat"));
    let cached = statistics.as_deref().and_then(|text| statistic(text, cache)).unwrap_or(0);
    Some(limit.saturating_sub(number(used)?).saturating_add(cached).min(limit))
}

fn statistic(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_compared_with_what_is_there() {
        let state = MemoryEstimate {
            weights: 100,
            state: 1000,
            working: 50,
            context: 100,
            available: Some(1149),
            adapters: 0,
        };
        assert_eq!((state.total(), state.fits()), (1150, false));
        assert!(!state.to_string().contains("adapters"), "{state}");
        let adapted = MemoryEstimate { adapters: 7, ..state };
        assert_eq!(adapted.total(), 1157);
        assert!(adapted.to_string().contains("(weights 100 B, adapters 7 B, state"), "{adapted}");
        assert!(MemoryEstimate { available: Some(1150), ..state }.fits());
        assert!(MemoryEstimate { available: None, ..state }.fits());
    }

    #[test]
    fn the_systems_files_are_read() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(meminfo(text, "MemAvailable:"), Some(8192 * 1024));
        assert_eq!(meminfo(text, "MemTotal:"), Some(16384 * 1024));
        assert_eq!(statistic("anon 5\nfile_dirty 9\nfile 7\n", "file"), Some(7));
    }

    #[test]
    fn a_groups_limit_counts_file_pages_as_free() {
        let folder = std::env::temp_dir().join(format!("menagerie-memory-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in
            [("memory.max", "1000\n"), ("memory.current", "900\n"), ("memory.stat", "file 300\n")]
        {
            std::fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(left_in_folder(&folder, ["memory.max", "memory.current", "file"]), Some(400));
        std::fs::write(folder.join("memory.max"), "max\n").unwrap();
        assert_eq!(left_in_folder(&folder, ["memory.max", "memory.current", "file"]), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!((size(10), size(1536)), ("10 B".to_owned(), "1.5 kB".to_owned()));
        assert_eq!(size(3_000_000_000), "3.0 GB");
    }
}
