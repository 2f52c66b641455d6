//! The files of the cache on disk: damaged, missing, too many, too old, and a folder that cannot be written.

use crate::disk_fixture::{BLOCK, Fake, anew, answer, files, group, scripted, tokens};
use crate::fixture::mixing;
use menagerie_engine::{DiskCache, DiskCacheOptions};
use menagerie_random::SplitMix64;
use menagerie_testkit::FakeModel;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The files of every kind, damaged in every part, are misses; they are removed and written again.
#[test]
fn damaged_files_are_computed_again() {
    for recurrent in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let fake = Fake::new(match recurrent {
            false => FakeModel::new(50, mixing),
            true => FakeModel::new(50, mixing).recurrent(),
        });
        let prompt = tokens(1, 43);
        anew(&fake, folder, &prompt);
        let whole = files(folder);
        assert_eq!(whole.len(), if recurrent { 6 } else { 5 });
        let last = whole.iter().find(|path| path.to_str().unwrap().contains("-5.")).unwrap();
        let snapshot = whole.iter().find(|path| path.extension().is_some_and(|end| end == "snapshot"));
        for path in [Some(&whole[0]), Some(last), snapshot].into_iter().flatten() {
            let good = std::fs::read(path).unwrap();
            let flipped = (0..good.len()).map(|at| {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                bad
            });
            let cut = (0..good.len()).step_by(9).map(|len| good[..len].to_vec());
            let other = std::fs::read(whole.iter().find(|other| *other != path).unwrap()).unwrap();
            let mut older = good.clone();
            older[8] = 0;
            let foreign = [b"GGUF".to_vec(), vec![0; good.len()], [&good[..], b"x"].concat(), other, older];
            for bad in flipped.chain(cut).chain(foreign) {
                std::fs::write(path, &bad).unwrap();
                let (outcome, cache) = anew(&fake, folder, &prompt);
                assert!(outcome.statistics.disk_tokens < 40, "{}", path.display());
                assert_eq!((cache.counts().damaged, cache.counts().faults), (1, 0), "{}", path.display());
                cache.flush();
                assert_eq!(std::fs::read(path).unwrap(), good, "it was written again");
            }
        }
        assert_eq!(anew(&fake, folder, &prompt).0.statistics.disk_tokens, 40);
    }
}

/// Files that vanish, in any combination.
#[test]
fn missing_files_are_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut random = SplitMix64::new(7);
    for recurrent in [false, true] {
        let fake = Fake::new(match recurrent {
            false => FakeModel::new(50, mixing),
            true => FakeModel::new(50, mixing).recurrent(),
        });
        let prompt = tokens(1, 150);
        for _ in 0..60 {
            anew(&fake, folder, &prompt);
            files(folder)
                .iter()
                .filter(|_| random.below(3) == 0)
                .for_each(|path| std::fs::remove_file(path).unwrap());
        }
    }
}

/// The limits: those used least recently go first, and of them the end of a prompt before its beginning.
#[test]
fn a_folder_stays_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fake = Fake::plain();
    let set_age = |path: &Path, age: u64| {
        let time = SystemTime::now() - Duration::from_secs(age);
        std::fs::File::open(path).unwrap().set_modified(time).unwrap();
    };
    let (old, new) = (tokens(1, 100), tokens(2, 100));
    anew(&fake, folder, &old);
    files(folder).iter().for_each(|path| set_age(path, 1000));
    anew(&fake, folder, &new);
    let bytes: u64 = files(folder).iter().map(|path| path.metadata().unwrap().len()).sum();
    // Reading marks the files as used.
    anew(&fake, folder, &old);
    let used = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
    assert!(files(folder).iter().all(|path| used(path).elapsed().unwrap() < Duration::from_secs(500)));
    files(folder).iter().for_each(|path| set_age(path, 1000));
    anew(&fake, folder, &new);
    let options = DiskCacheOptions::default().with_max_bytes(bytes * 3 / 4);
    let cache = fake.cache_with(folder, options);
    cache.flush();
    let left: u64 = files(folder).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert!(left <= bytes * 3 / 4 && left > bytes / 2, "{left} of {bytes}");
    assert!(cache.counts().evicted > 5 && cache.counts().faults == 0, "{:?}", cache.counts());
    drop(cache);
    assert_eq!(anew(&fake, folder, &new).0.statistics.disk_tokens, 96, "used last");
    let kept = anew(&fake, folder, &old).0.statistics.disk_tokens;
    assert!(kept > 0 && kept < 96, "its beginning stays: {kept}");
    // Ages: files, and leftovers of processes that were killed.
    let part = group(folder).join("1234-5678.part");
    let other = group(folder).join("notes.txt");
    [&part, &other].iter().for_each(|path| std::fs::write(path, "half").unwrap());
    let limit = || DiskCacheOptions::default().with_max_age(Duration::from_secs(2000));
    fake.cache_with(folder, limit()).flush();
    assert!(part.exists(), "somebody may be writing it");
    std::fs::read_dir(group(folder)).unwrap().for_each(|entry| set_age(&entry.unwrap().path(), 4000));
    fake.cache_with(folder, limit()).flush();
    assert!(!part.exists() && other.exists(), "only files of the cache are removed");
    let all: Vec<_> =
        std::fs::read_dir(other.parent().unwrap()).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(all.iter().filter(|path| path.extension().is_some_and(|end| end == "rows")).count(), 0);
}

/// A folder that cannot be written to: the answer comes, and the fault is told once.
#[test]
fn a_fault_of_the_disk_is_told_once_and_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fake = Fake::plain();
    let prompt = tokens(1, 100);
    anew(&fake, folder, &prompt);
    let group = group(folder);
    std::fs::remove_dir_all(&group).unwrap();
    std::fs::write(&group, "in the way").unwrap();
    let (outcome, cache) = anew(&fake, folder, &prompt);
    assert_eq!(outcome.statistics.disk_tokens, 0);
    cache.flush();
    assert!(cache.counts().faults > 1, "{:?}", cache.counts());
    let said = cache.take_fault().unwrap();
    assert!(
        said.contains("cannot write the disk cache") && said.contains("the answer is not affected"),
        "{said}"
    );
    assert_eq!(cache.take_fault(), None);
    assert!(DiskCache::open(&group, DiskCacheOptions::default(), &fake, Vec::new()).is_err());
}

#[cfg(unix)]
#[test]
fn a_folder_that_is_read_only_is_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (fake, prompt) = (Fake::plain(), tokens(1, 100));
    anew(&fake, folder, &prompt);
    let group = group(folder);
    let set = |mode| {
        for path in [folder, &*group] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    set(0o555);
    let (outcome, cache) = anew(&fake, folder, &prompt);
    let longer = anew(&fake, folder, &[&prompt[..], &tokens(2, 30)].concat());
    longer.1.flush();
    // The superuser may write everywhere.
    let may_write = std::fs::write(group.join("probe"), "").is_ok();
    set(0o755);
    assert_eq!((outcome.statistics.disk_tokens, longer.0.statistics.disk_tokens), (96, 96));
    assert_eq!(longer.1.take_fault().is_none(), may_write);
    drop(cache);
}

/// Set in a child process, which fills the folder of this name until it is killed.
const CHILD: &str = "MENAGERIE_TEST_DISK_CACHE_CHILD";

/// The number of its first text.
const FIRST: &str = "MENAGERIE_TEST_DISK_CACHE_FIRST";

/// The child of the next test; by itself it does nothing.
#[test]
fn fills_a_folder_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let fake = Fake::plain();
    let cache = fake.cache(Path::new(&folder));
    let first = std::env::var(FIRST).unwrap().parse().unwrap();
    for seed in first..u64::MAX {
        answer(&mut fake.session(Some(Arc::clone(&cache))), &tokens(seed, 240));
        // The parent may be slow.
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// How often the child of the next test is killed: this variable, or 40 times.
const KILLS: &str = "MENAGERIE_TEST_KILLS";

/// A kill in the middle of writing: no file that was whole is lost, none is damaged, and all are used.
#[cfg(unix)]
#[test]
fn a_kill_while_it_writes_damages_nothing() {
    use std::process::{Command, Stdio};
    let rounds = std::env::var(KILLS).ok().and_then(|count| count.parse().ok()).unwrap_or(40_u64);
    let fake = Fake::plain();
    let mut random = SplitMix64::new(11);
    let (mut place, mut known) = (tempfile::tempdir().unwrap(), Vec::new());
    for round in 0..rounds {
        if round % 8 == 7 {
            (place, known) = (tempfile::tempdir().unwrap(), Vec::new());
        }
        let folder = place.path();
        let first = round * 1000;
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "disk_faults::fills_a_folder_until_it_is_killed", "--nocapture"]);
        command.env(CHILD, folder).env(FIRST, first.to_string());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let wanted = known.len() + 20 + random.below(80);
        let mut child = command.spawn().unwrap();
        let mut whole: Vec<PathBuf> = known.clone();
        while whole.len() < wanted {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_micros(2000 + random.below(2000) as u64));
            if folder.join("cache.lock").exists() {
                whole = files(folder).into_iter().filter(|path| is_block(path)).collect();
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = files(folder);
        assert!(whole.iter().all(|path| left.contains(path)), "round {round}: a file is lost");
        // What the child has computed is read, up to the last whole block.
        let cache = fake.cache(folder);
        let mut read = 0;
        for seed in first..=first + ((left.len() - known.len()) / 30) as u64 {
            let prompt = tokens(seed, 240);
            let outcome = answer(&mut fake.session(Some(Arc::clone(&cache))), &prompt);
            assert_eq!(outcome.tokens, scripted(&prompt, 5, usize::MAX));
            read += outcome.statistics.disk_tokens / BLOCK;
        }
        let counts = cache.counts();
        assert_eq!((counts.damaged, counts.faults), (0, 0), "round {round}: {counts:?}");
        // The last block of each prompt has its last token, which is computed.
        let written = whole.len() - known.len();
        assert!(read + 1 + written / 29 >= written, "round {round}: {read} of {written} blocks are read");
        drop(cache);
        known = files(folder).into_iter().filter(|path| is_block(path)).collect();
    }
}

/// Whether a file is a whole block, not one that is being written.
#[cfg(unix)]
fn is_block(path: &Path) -> bool {
    path.extension().is_some_and(|found| found == "rows" || found == "snapshot")
}
