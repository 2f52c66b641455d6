//! Plugins that are refused, each with its message; of those refused by their manifests, or not opened, nothing ran.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::registry::Environment;
use menagerie_plugin::abi::{Manifest, capability};
use menagerie_plugin_host::{
    Lock, PluginError, PluginLoadOptions, files_of, inspect, inspect_bytes, load, loaded, sha256_of,
};
use menagerie_plugin_tests::Probe;
use menagerie_testkit::SplitMix64;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

/// Whether code of a refused plugin may have run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Code {
    Untouched,
    Ran,
}

/// A folder, and a file in it that the probe makes when its code runs.
struct Place {
    environment: Environment,
    folder: tempfile::TempDir,
    marker: PathBuf,
}

impl Place {
    fn new() -> Place {
        let environment = Environment::linked().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let marker = folder.path().join("code-ran");
        Place { environment, folder, marker }
    }

    /// Loads a probe that must be refused with these texts.
    fn refused(&self, probe: Probe, code: Code, texts: &[&str]) -> PluginError {
        let file = probe.marking(&self.marker).save(self.folder.path(), "plugin.so");
        let error = load(&self.environment, &file, PluginLoadOptions::default());
        let error = error.map(drop).expect_err("it was not refused");
        let told = error.to_string();
        assert!(told.starts_with(&format!("plugin {}: ", file.display())), "{told}");
        texts.iter().for_each(|text| assert!(told.contains(text), "`{text}` is not in: {told}"));
        assert_eq!(self.marker.exists(), code == Code::Ran, "{told}");
        let _ = std::fs::remove_file(&self.marker);
        let sum = sha256_of(&file).ok();
        assert!(code == Code::Ran || !loaded().iter().any(|one| sum.as_ref() == Some(&one.sha256)), "{told}");
        // A library that is open stays as it is: the next one gets a file of its own.
        std::fs::remove_file(file).unwrap();
        error
    }

    /// The same for one that inspection refuses.
    fn not_inspected(&self, probe: Probe, texts: &[&str]) {
        let found = inspect_bytes(probe.bytes()).expect_err("inspection does not see it");
        let error = self.refused(probe, Code::Untouched, texts);
        assert_eq!(found, error.fault);
    }
}

fn probe() -> Probe {
    Probe::built()
}

#[test]
fn manifests_that_do_not_fit_are_refused_before_anything_runs() {
    let place = Place::new();
    let field = |offset: usize, bytes: &[u8]| probe().manifest(offset, bytes);
    place.not_inspected(field(0, b"MNGPLUG\x02"), &["it begins with \"MNGPLUG\\x02\""]);
    let size = offset_of!(Manifest, struct_size);
    place
        .not_inspected(field(size, &8u32.to_ne_bytes()), &["it states a size of 8 bytes", "expected 376 to"]);
    place.not_inspected(
        field(size, &100_000u32.to_ne_bytes()),
        &["it states a size of 100000 bytes", "to 376 (the size of its section)"],
    );
    let major = offset_of!(Manifest, abi_major);
    place.not_inspected(field(major, &2u16.to_ne_bytes()), &["built for plugin ABI 2.0", "has ABI 1.0"]);
    let minor = offset_of!(Manifest, abi_minor);
    place.not_inspected(field(minor, &9u16.to_ne_bytes()), &["ABI 1.9", "newer than this program's 1.0"]);
    let needs = (capability::STATES | 1 << 40).to_ne_bytes();
    place.not_inspected(
        field(offset_of!(Manifest, required_capabilities), &needs),
        &["requires capabilities that this program does not have: capability 40"],
    );
    let features = (1u64 << 63).to_ne_bytes();
    place.not_inspected(
        field(offset_of!(Manifest, cpu_features), &features),
        &["instructions that this processor lacks: bit 63"],
    );
    let id = offset_of!(Manifest, plugin_id);
    for wrong in
        [&b"Probe/parts"[..], b"probe-parts", b"probe//arts", b"/robe/parts", b"probe/part/", b"probe/ arts"]
    {
        let shown = String::from_utf8_lossy(wrong).into_owned();
        place.not_inspected(field(id, wrong), &[&format!("`{shown}` is not an id")]);
    }
    place.not_inspected(field(id + 3, b"\0"), &["its id is not a text padded with zeros"]);
    place.not_inspected(field(id, b"\xff"), &["its id is not a text"]);
    place.not_inspected(field(offset_of!(Manifest, panic_strategy), &[2]), &["panic_strategy is 2"]);
    place.not_inspected(field(offset_of!(Manifest, padding), &[1]), &["reserved bytes are not zero"]);
    place.not_inspected(field(offset_of!(Manifest, reserved) + 63, &[1]), &["reserved bytes are not zero"]);
}

#[test]
fn files_that_are_no_plugins_are_refused_before_anything_runs() {
    let place = Place::new();
    let size = probe().bytes().len();
    // The machine of an ELF header: AArch64, or x86-64 on that.
    let other = if cfg!(target_arch = "x86_64") { 183u16 } else { 62 };
    let machine = if cfg!(target_arch = "x86_64") { "Aarch64" } else { "X86_64" };
    place.not_inspected(probe().at(18, &other.to_le_bytes()), &["is built for", machine, "use a build"]);
    place.not_inspected(
        probe().replaced(".mngplug", ".mngplag"),
        &["is a shared library, but not a plugin", "no section .mngplug"],
    );
    place.not_inspected(
        probe().replaced("menagerie_plugin_init_v1", "menagerie_plugin_init_v9"),
        &["does not export the function menagerie_plugin_init_v1"],
    );
    for kept in [size - 1, size / 2, 4096, 64] {
        place.not_inspected(probe().cut(kept), &["is damaged or truncated"]);
    }
    let folder = place.folder.path();
    let told = |path: &Path| {
        let loaded = load(&place.environment, path, PluginLoadOptions::default());
        loaded.map(drop).expect_err("it was not refused").to_string()
    };
    assert!(told(&std::env::current_exe().unwrap()).contains("is a program, not a shared library"));
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.join(name), bytes).unwrap();
        told(&folder.join(name))
    };
    assert!(write("text.so", b"# a plugin\nname = 1\n").contains("is a text file, not a shared library"));
    assert!(write("empty.so", b"").contains("is empty"));
    assert!(write("archive.so", b"!<arch>\nabc").contains("is an archive of objects"));
    assert!(write("other.so", &[7, 0, 1, 200]).contains("is a file of another format"));
    assert!(told(&folder.join("missing.so")).contains("cannot be read: No such file"));
    std::fs::create_dir(folder.join("folder.so")).unwrap();
    assert!(told(&folder.join("folder.so")).contains("is a folder, not a shared library"));
    assert!(!place.marker.exists());
}

#[test]
fn what_the_linker_and_init_refuse_is_told_and_nothing_of_it_stays() {
    let place = Place::new();
    // A function of the C library that does not exist: RTLD_NOW finds it before constructors run.
    place.refused(
        Probe::named("linke").replaced_bytes(b"\0memcpy\0", b"\0memcpz\0"),
        Code::Untouched,
        &["cannot be opened: ", "memcpz"],
    );
    let ordered = |orders: &str| Probe::named("orders".get(..5).unwrap()).ordered(orders);
    let cases = [
        ("fail", "its init function failed: the license has run out; the plugin is not used"),
        ("fail silently", "failed: it failed without an error text"),
        ("garbage", "its init function returned status 42, which the plugin ABI does not have"),
        ("twice", "it registers the mixer `order/parts:decaying-mean` twice; the plugin is not used"),
        ("twice and go on", "it registers the mixer `order/parts:decaying-mean` twice"),
        ("no name", "it registers a component named ``"),
        ("slash", "a component named `other/name:thing`; expected a name of a-z, 0-9 and `-`"),
        ("null", "its component `null`: forward is null, but its family requires it"),
        ("family", "its component `family`: family 99 is not known"),
        ("short", "it registers a component of 40 bytes"),
        ("no hook", "its component `null-hook`: hook is null, but a layer hook requires it"),
        ("no point", "`nowhere`: its flags name no point; expected before layers, after layers, or both"),
        ("no phase", "`never`: its flags name no phase; expected prompts, generated tokens, or both"),
        ("hook flags", "its component `flags`: flags 0x2 are unknown or not allowed for its family"),
        (
            "hook option",
            "`order/parts:layers`: option `layers`: the name is reserved: every hook has this option, which the host reads",
        ),
        ("short hook", "its component `old`: hook is null, but a layer hook requires it"),
        ("taken", "architecture `llama` is registered twice, by menagerie-llama and by plugin order/parts"),
        ("faulty", "the spec of architecture `faulty` cannot be used:"),
        ("path", "under the file name `../evil.toml`; expected NAME.toml"),
    ];
    for (orders, text) in cases {
        place.refused(ordered(orders), Code::Ran, &[text]);
    }
    assert!(place.environment.architecture("order-model").is_none());
}

/// Refused are also what others could change, and what a lock does not have.
#[test]
#[cfg(unix)]
fn files_that_others_could_change_are_not_trusted() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    let probe = Probe::named("trust").marking(&place.marker);
    let folder = place.folder.path();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let told = |path: &Path| {
        let loaded = load(&place.environment, path, PluginLoadOptions::default());
        loaded.map(drop).expect_err("it was not refused").to_string()
    };
    let file = probe.save(folder, "open.so");
    mode(&file, 0o666);
    let error = told(&file);
    assert!(
        error.contains("is not trusted: all users may write to") && error.contains("open.so; "),
        "{error}"
    );
    mode(&file, 0o644);
    let inner = folder.join("inner");
    std::fs::create_dir(&inner).unwrap();
    let within = probe.save(&inner, "within.so");
    mode(&inner, 0o777);
    assert!(told(&within).contains(&format!("all users may write to {}", inner.display())));
    // A sticky folder is one that others may put files into: still not a place for plugins.
    mode(&inner, 0o1777);
    assert!(told(&within).contains("all users may write to"));
    // What a link leads to is looked at, and who may change the link.
    symlink(&within, folder.join("link.so")).unwrap();
    assert!(told(&folder.join("link.so")).contains("all users may write to"));
    symlink(&file, inner.join("outwards.so")).unwrap();
    assert!(
        told(&inner.join("outwards.so")).contains(&format!("all users may write to {}", inner.display()))
    );
    assert!(!place.marker.exists());
    mode(&inner, 0o755);

    // A lock lets in what it has, by its sum.
    let id = "trust/parts";
    let path = folder.join("plugins.lock");
    let locked = |lock: &Lock| {
        load(&place.environment, &file, PluginLoadOptions::default().with_locked(Some(lock))).map(drop)
    };
    let mut lock = Lock::read(&path).unwrap();
    let error = locked(&lock).expect_err("it is not locked").to_string();
    assert!(error.contains("plugins.lock does not list trust/parts"), "{error}");
    lock.set(id, &"0".repeat(64));
    let error = locked(&lock).expect_err("it has another sum").to_string();
    assert!(error.contains("its file has the SHA-256") && error.contains("trust it again"), "{error}");
    assert!(!place.marker.exists());
    lock.set(id, &sha256_of(&file).unwrap());
    std::fs::write(&path, lock.text()).unwrap();
    let lock = Lock::read(&path).unwrap();
    // By a link of one's own, in the end.
    let link = folder.join("own.so");
    symlink(&file, &link).unwrap();
    assert_eq!(files_of(folder).unwrap().len(), 3);
    let options = PluginLoadOptions::default().with_locked(Some(&lock));
    let (environment, plugin) = load(&place.environment, &link, options).unwrap();
    assert_eq!(plugin.sha256, sha256_of(&file).unwrap());
    assert!(place.marker.exists(), "the marker tells that code ran");
    let twice = load(&environment, &file, PluginLoadOptions::default());
    let error = twice.map(drop).expect_err("the environment has it").to_string();
    assert!(
        error.contains("has the id `trust/parts`, which") && error.contains("open.so also has"),
        "{error}"
    );
    std::fs::write(&path, "trust/parts = 12\n").unwrap();
    assert!(Lock::read(&path).unwrap_err().to_string().contains("plugins.lock:1: expected a line"));
}

#[test]
fn inspection_tells_what_a_plugin_is_without_opening_it() {
    let place = Place::new();
    let file = Probe::named("shown").marking(&place.marker).save(place.folder.path(), "plugin.so");
    let found = inspect(&file).unwrap();
    assert_eq!((&*found.id, &*found.version, &*found.abi), ("shown/parts", "0.1.0", "1.0"));
    assert_eq!(found.capabilities, ["cpu-f32"]);
    assert!(found.toolchain.contains("rustc") && !found.target.is_empty(), "{found:?}");
    assert!(!place.marker.exists());
    // Loaded, the same file marks: the constructor works.
    load(&place.environment, &file, PluginLoadOptions::default()).unwrap();
    assert!(place.marker.exists());
    assert!(std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("plugin.so")));
}

/// Whatever bytes a file has, looking at it neither panics nor runs anything of it.
#[test]
fn mutated_files_never_break_inspection() {
    let place = Place::new();
    let whole = Probe::built().marking(&place.marker);
    let (size, manifest) = (whole.bytes().len(), whole.manifest_range());
    let mut bytes = whole.bytes().to_vec();
    let mut random = SplitMix64::new(7);
    let mut below = |most: usize| {
        (random.values(1, 0.0, 1.0)[0].abs() as f64 * 7919.0 * most as f64) as usize % most.max(1)
    };
    let (mut refused, mut kept) = (0, 0);
    for round in 0..10_000 {
        // Headers, section headers, the manifest, or anywhere.
        let area = match round % 4 {
            0 => 0..4096.min(size),
            1 => size.saturating_sub(8192)..size,
            2 => manifest.clone(),
            _ => 0..size,
        };
        let changes: Vec<(usize, u8)> = (0..1 + below(8))
            .map(|_| {
                let at = area.start + below(area.len());
                (at, std::mem::replace(&mut bytes[at], below(256) as u8))
            })
            .collect();
        let len = if round % 10 == 0 { below(size) } else { size };
        match inspect_bytes(&bytes[..len]) {
            Ok(_) => kept += 1,
            Err(fault) => {
                assert!(!fault.to_string().is_empty());
                refused += 1;
            }
        }
        changes.into_iter().rev().for_each(|(at, byte)| bytes[at] = byte);
    }
    assert!(refused > 3_000 && kept > 500, "{refused} refused, {kept} kept: the mutations miss");
    assert!(!place.marker.exists());
}
