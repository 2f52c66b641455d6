//! How many threads make sense here: the affinity mask and the cgroup's CPU quota (versions 1 and 2).

use std::path::{Path, PathBuf};

/// The number of threads to use when nobody says: CPUs of the affinity mask, at most the cgroup's quota
/// (rounded down), at least one.
pub fn usable_threads() -> usize {
    let cpus = allowed_cpus();
    match cgroup_quota() {
        Some(quota) => cpus.min(quota as usize).max(1),
        None => cpus.max(1),
    }
}

/// CPUs in this process's affinity mask; where there is none, what the standard library says.
pub fn allowed_cpus() -> usize {
    affinity_count()
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get))
}

/// The CPUs' worth of time this process may use by its cgroups' quota, if any sets one.
pub fn cgroup_quota() -> Option<f64> {
    let membership = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    quota_under(Path::new("/sys/fs/cgroup"), &membership)
}

#[cfg(target_os = "linux")]
fn affinity_count() -> Option<usize> {
    // One bit per CPU; 8192 CPUs are what Linux can be built for. The kernel says how many bytes it wrote.
    let mut mask = [0u64; 128];
    // SAFETY: the buffer is writable and as long as the size passed; pid 0 is the calling thread.
    let result = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    let count = mask.iter().map(|word| word.count_ones() as usize).sum();
    (result == 0 && count > 0).then_some(count)
}

#[cfg(not(target_os = "linux"))]
fn affinity_count() -> Option<usize> {
    None
}

/// The smallest quota over every group of the membership and all their parents. `root` is where the cgroup
/// file systems are mounted, `membership` the text of `/proc/self/cgroup` (lines `id:controllers:path`).
fn quota_under(root: &Path, membership: &str) -> Option<f64> {
    let mut smallest: Option<f64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let mounts: Vec<PathBuf> = if controllers.is_empty() {
            vec![root.to_path_buf(), root.join("unified")]
        } else if controllers.split(',').any(|name| name == "cpu") {
            vec![root.join(controllers), root.join("cpu"), root.join("cpu,cpuacct")]
        } else {
            continue;
        };
        for mount in mounts {
            let group = mount.join(path.trim_start_matches('/'));
            for folder in group.ancestors().take_while(|folder| folder.starts_with(&mount)) {
                if let Some(quota) = quota_of(folder) {
                    smallest = Some(smallest.map_or(quota, |least| least.min(quota)));
                }
            }
        }
    }
    smallest
}

/// The quota one group's files set: version 2's `cpu.max` or version 1's `cpu.cfs_quota_us` over its period.
fn quota_of(folder: &Path) -> Option<f64> {
    if let Ok(text) = std::fs::read_to_string(folder.join("cpu.max")) {
        let mut words = text.split_whitespace();
        return ratio(words.next()?, words.next().unwrap_or("100000"));
    }
    let quota = std::fs::read_to_string(folder.join("cpu.cfs_quota_us")).ok()?;
    let period = std::fs::read_to_string(folder.join("cpu.cfs_period_us")).ok()?;
    ratio(quota.trim(), period.trim())
}

/// `quota / period`; none for `max`, `-1` and anything that is not two positive numbers.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root = std::env::temp_dir().join(format!("menagerie-cgroup-{}-{name}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn version_two_takes_the_smallest_of_the_parents() {
        let root = tree("v2", &[("a/cpu.max", "150000 100000\n"), ("a/b/cpu.max", "max 100000\n")]);
        assert_eq!(quota_under(&root, "0::/a/b\n"), Some(1.5));
        assert_eq!(quota_under(&root, "0::/\n"), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn version_one_reads_quota_over_period() {
        let files =
            [("cpu,cpuacct/x/cpu.cfs_quota_us", "300000\n"), ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n")];
        let root = tree("v1", &files);
        assert_eq!(quota_under(&root, "5:memory:/x\n4:cpu,cpuacct:/x\n"), Some(3.0));
        std::fs::write(root.join("cpu,cpuacct/x/cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(quota_under(&root, "4:cpu,cpuacct:/x\n"), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn this_machine_has_at_least_one_thread() {
        assert!(usable_threads() >= 1);
        assert!(usable_threads() <= allowed_cpus());
    }
}
