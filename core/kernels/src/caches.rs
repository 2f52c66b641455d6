//! The sizes of the processor's caches; the matrix products divide their work by them.

use std::path::Path;

/// The data caches of one core, in bytes. Speed depends on them, but results do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// First level.
    pub l1d: usize,
    /// Second level.
    pub l2: usize,
}

impl Caches {
    /// The sizes that are assumed if none are reported: no current processor for servers, desktops or phones has less.
    pub const LEAST: Caches = Caches { l1d: 32 << 10, l2: 256 << 10 };

    /// The sizes that the system reports for the first core (Linux), else those that the processor reports (x86-64),
    /// else `LEAST`.
    pub fn detect() -> Caches {
        let found = from_system(Path::new("/sys/devices/system/cpu/cpu0/cache"));
        found.or_else(from_processor).unwrap_or(Caches::LEAST)
    }

    /// The first two levels of a list of (level, bytes); none unless both are present and plausible.
    fn of(levels: impl Iterator<Item = (u32, usize)>) -> Option<Caches> {
        let (mut l1d, mut l2) = (0, 0);
        for (level, bytes) in levels {
            match level {
                1 => l1d = bytes,
                2 => l2 = bytes,
                _ => {}
            }
        }
        let sensible = (4 << 10..=4 << 20).contains(&l1d) && (l1d..=256 << 20).contains(&l2);
        sensible.then_some(Caches { l1d, l2 })
    }
}

/// The folders `index0`, `index1` ... of `folder`, each with files `level`, `type` and `size` ("32K").
fn from_system(folder: &Path) -> Option<Caches> {
    let entries = std::fs::read_dir(folder).ok()?;
    Caches::of(entries.filter_map(|entry| {
        let text = |name: &str| std::fs::read_to_string(entry.as_ref().ok()?.path().join(name)).ok();
        if text("type")?.trim() == "Instruction" {
            return None;
        }
        Some((text("level")?.trim().parse().ok()?, bytes_of(text("size")?.trim())?))
    }))
}

/// "32K" or "1M" in bytes.
fn bytes_of(text: &str) -> Option<usize> {
    let unit = |suffix, size: usize| text.strip_suffix(suffix)?.parse::<usize>().ok()?.checked_mul(size);
    unit('K', 1 << 10).or_else(|| unit('M', 1 << 20)).or_else(|| text.parse().ok())
}

/// Leaf 4 of `cpuid` (Intel), or AMD's leaf with the same layout.
#[cfg(target_arch = "x86_64")]
fn from_processor() -> Option<Caches> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let leaf = [4, 0x8000_001d].into_iter().find(|leaf| {
        let last = __cpuid(leaf & 0x8000_0000).eax;
        last >= *leaf && __cpuid_count(*leaf, 0).eax & 31 != 0
    })?;
    let entries = (0..16).map(|index| __cpuid_count(leaf, index)).take_while(|entry| entry.eax & 31 != 0);
    Caches::of(entries.filter(|entry| entry.eax & 31 != 2).map(|entry| {
        let (ways, partitions, line) = (entry.ebx >> 22, entry.ebx >> 12 & 0x3ff, entry.ebx & 0xfff);
        let bytes = (ways + 1) as usize * (partitions + 1) as usize * (line + 1) as usize;
        (entry.eax >> 5 & 7, bytes * (entry.ecx as usize + 1))
    }))
}

#[cfg(not(target_arch = "x86_64"))]
fn from_processor() -> Option<Caches> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_files_are_read() {
        let folder = std::env::temp_dir().join(format!("menagerie-caches-{}", std::process::id()));
        let entries = [
            ("1", "Data", "48K"),
            ("1", "Instruction", "64K"),
            ("2", "Unified", "2M"),
            ("3", "Unified", "32M"),
        ];
        for (index, (level, kind, size)) in entries.iter().enumerate() {
            let folder = folder.join(format!("index{index}"));
            std::fs::create_dir_all(&folder).unwrap();
            for (name, text) in [("level", level), ("type", kind), ("size", size)] {
                std::fs::write(folder.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(from_system(&folder), Some(Caches { l1d: 48 << 10, l2: 2 << 20 }));
        std::fs::remove_dir_all(folder.join("index2")).unwrap();
        assert_eq!(from_system(&folder), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nonsense_is_not_believed() {
        assert_eq!(bytes_of("12X"), None);
        assert_eq!(Caches::of([(1, 0), (2, 1 << 20)].into_iter()), None);
        assert_eq!(Caches::of([(1, 64 << 10), (2, 32 << 10)].into_iter()), None);
        let here = Caches::detect();
        assert!(here.l1d >= 4 << 10 && here.l2 >= here.l1d, "{here:?}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_processor_s_own_account_is_plausible() {
        // A virtual machine may hide the caches; those that it reports must be plausible.
        if let Some(caches) = from_processor() {
            assert!(caches.l1d.is_multiple_of(1 << 10) && caches.l2 >= caches.l1d, "{caches:?}");
        }
    }
}
