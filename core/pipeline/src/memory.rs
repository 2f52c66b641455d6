//! [`MemoryEstimate`]: what a model will need, and [`available`]: what the machine can give.

use menagerie_model::StateSpec;
use menagerie_model::state::KvType;
use std::fmt;
use std::path::Path;

/// Bytes a model needs, estimated before they are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemoryEstimate {
    /// The weights: the size of the file.
    pub weights: u64,
    /// Keys, values and other state for the whole context.
    pub state: u64,
    /// Activations of a prompt chunk, logits and tokenizer; a rough figure.
    pub working: u64,
    /// Tokens of the context.
    pub context: usize,
    /// What can be had, if the system says.
    pub available: Option<u64>,
}

/// Heap that program, tokenizer and chat template take, in bytes: measured with large vocabularies.
const CONSTANT: u64 = 48 << 20;

impl MemoryEstimate {
    /// Adds up what is known of a model.
    pub fn new(weights: u64, states: &[StateSpec], kv_type: KvType, context: usize, working: u64) -> Self {
        let per_token = state_bytes(states, kv_type, true);
        let fixed = state_bytes(states, kv_type, false);
        let state = per_token.saturating_mul(context as u64).saturating_add(fixed);
        Self { weights, state, working: working.saturating_add(CONSTANT), context, available: None }
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.state).saturating_add(self.working)
    }

    /// Whether it fits into what is available; true if that is not known.
    pub fn fits(&self) -> bool {
        self.available.is_none_or(|available| self.total() <= available)
    }

    /// Most tokens for which it would fit, not below 0.
    pub fn fitting_context(&self) -> Option<usize> {
        let rest = self.available?.saturating_sub(self.weights).saturating_sub(self.working);
        let per_token = self.state.checked_div(self.context as u64)?;
        rest.checked_div(per_token).map(|tokens| usize::try_from(tokens).unwrap_or(usize::MAX))
    }
}

/// Bytes per token (or per sequence) of all states.
fn state_bytes(states: &[StateSpec], kv_type: KvType, per_token: bool) -> u64 {
    let bytes = |spec: &StateSpec| match spec {
        StateSpec::PerToken { .. } if per_token => {
            kv_type.row_bytes(spec.elements()).unwrap_or(4 * spec.elements())
        }
        StateSpec::PerSequence { .. } if !per_token => 4 * spec.elements(),
        _ => 0,
    };
    states.iter().map(|spec| bytes(spec) as u64).sum()
}

impl fmt::Display for MemoryEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weights, state, working) = (size(self.weights), size(self.state), size(self.working));
        let total = size(self.total());
        write!(f, "{total} (weights {weights}, state of {} tokens {state}, working {working})", self.context)
    }
}

/// Bytes for people, in binary units.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Bytes that a process can take before the system swaps or kills it.
///
/// The smaller of `MemAvailable` in `/proc/meminfo` and what the control group's limit leaves (file pages count as
/// free: the system drops them first). `None` where neither can be read.
pub fn available() -> Option<u64> {
    let system = read("/proc/meminfo").and_then(|text| meminfo_available(&text));
    [system, group_available()].into_iter().flatten().min()
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

/// `MemAvailable:   123456 kB`, in bytes.
fn meminfo_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What the limit of this process's control group leaves (cgroup v2, then v1).
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

/// The tightest limit from a group up to the root: limit - used + file pages.
fn left_in_group(root: &str, group: &str, [limit, used, cache]: [&str; 3]) -> Option<u64> {
    let mut tightest = None;
    let mut folder = Path::new(root).join(group.trim_start_matches('/'));
    // In a container the group's path may be the host's: its own files are then at the root.
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
    // "max" does not parse; v1 writes a number near 2^63 for "none".
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
    fn state_is_counted_by_type_and_context() {
        let states = [
            StateSpec::PerToken { name: "blk.0.k".to_owned(), heads: 2, head_dim: 32, window: None },
            StateSpec::PerToken { name: "blk.0.v".to_owned(), heads: 2, head_dim: 32, window: None },
            StateSpec::PerSequence { name: "blk.1.s".to_owned(), shape: vec![10] },
        ];
        // f16: 2 * 64 elements * 2 bytes * 100 tokens + 10 * 4 bytes.
        assert_eq!(MemoryEstimate::new(0, &states, KvType::F16, 100, 0).state, 25_640);
        // q8_0: 34 bytes per 32 elements.
        assert_eq!(MemoryEstimate::new(0, &states, KvType::Q8_0, 100, 0).state, 13_640);
    }

    #[test]
    fn an_estimate_says_what_would_fit() {
        let state =
            MemoryEstimate { weights: 100, state: 1000, working: 50, context: 100, available: Some(650) };
        assert_eq!((state.fits(), state.fitting_context()), (false, Some(50)));
        let unknown = MemoryEstimate { available: None, ..state };
        assert_eq!((unknown.fits(), unknown.fitting_context()), (true, None));
    }

    #[test]
    fn the_systems_files_are_read() {
        let text = "MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(meminfo_available(text), Some(8192 * 1024));
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
        assert_eq!((size(10), size(1536)), ("10 B".to_owned(), "1.5 KiB".to_owned()));
        assert_eq!(size(3 << 30), "3.0 GiB");
    }
}
