//! Plugins as people meet them: listed, looked at, checked, locked, removed, begun, and used by a generation.

use super::{Call, fixture, menagerie};
use std::path::{Path, PathBuf};

/// The library of the sampler, which is built with these tests.
pub(super) fn library() -> PathBuf {
    let name = format!(
        "{}menagerie_top_n_sigma_library{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    let tests = std::env::current_exe().unwrap();
    let beside = tests.ancestors().skip(1).map(|folder| folder.join(&name)).find(|path| path.is_file());
    beside.expect("the library of the plugin is built with its tests")
}

/// A home with a folder `plugins` that has the library; only its owner may write there.
fn home() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("plugins").join(library().file_name().unwrap());
    std::fs::create_dir(file.parent().unwrap()).unwrap();
    std::fs::copy(library(), &file).unwrap();
    (home, file)
}

fn json(call: Call) -> serde_json::Value {
    serde_json::from_str(&call.good()).unwrap()
}

#[test]
fn nothing_is_loaded_unless_it_is_asked_for() {
    let (home, file) = home();
    let home = home.path();
    let none = json(menagerie(home, &["plugin", "list", "--json"]));
    assert_eq!(none, serde_json::json!({ "schema": 1, "plugins": [], "refused": [] }));
    assert!(menagerie(home, &["plugin", "list"]).good().contains("--plugin-dir DIR"));
    let listed = json(menagerie(home, &["--plugin-dir", "plugins", "plugin", "list", "--json"]));
    let plugin = &listed["plugins"][0];
    assert_eq!(plugin["id"], "menagerie/samplers");
    assert_eq!((&plugin["abi"], &plugin["lock"]), (&"1.0".into(), &"not trusted".into()));
    assert_eq!(plugin["file"], file.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(plugin["components"][0]["family"], "sampler");
    // After the command too, and in the configuration file.
    let text = menagerie(home, &["plugin", "list", "--plugin-dir", "plugins"]).good();
    assert!(text.contains("menagerie/samplers:top-n-sigma"), "{text}");
    std::fs::create_dir_all(home.join(".config/menagerie")).unwrap();
    std::fs::write(home.join(".config/menagerie/config.toml"), "plugin-dir = [\"plugins\"]\n").unwrap();
    assert_eq!(json(menagerie(home, &["plugin", "list", "--json"])), listed);
    menagerie(home, &["--plugin-dir", "nowhere", "list"]).good();
}

#[test]
fn what_is_refused_is_said_and_the_rest_goes_on() {
    let (home, _) = home();
    let home = home.path();
    std::fs::write(home.join("plugins/aaa.so"), "no library").unwrap();
    let listed = json(menagerie(home, &["--plugin-dir", "plugins", "plugin", "list", "--json"]));
    assert_eq!(listed["plugins"].as_array().unwrap().len(), 1);
    assert!(listed["refused"][0]["reason"].as_str().unwrap().contains("a text file"), "{listed}");
    let call = menagerie(home, &["--plugin-dir", "plugins", "list", "--names"]);
    assert!(call.err.contains("note: plugin plugins/aaa.so: is a text file"), "{call:?}");
    call.good();
    menagerie(home, &["plugin", "inspect", "plugins/aaa.so"]).fails_with(&["aaa.so", "a text file"]);
    menagerie(home, &["plugin", "check", "plugins/aaa.so"]).fails_with(&["aaa.so", "a text file"]);
}

#[test]
fn a_locked_plugin_is_its_bytes() {
    let (home, file) = home();
    let home = home.path();
    let name = file.to_str().unwrap();
    let locked =
        |verb: &[&str]| menagerie(home, &[&["--plugin-dir", "plugins", "--plugins-locked"], verb].concat());
    locked(&["list"])
        .fails_with(&["plugins.lock does not list menagerie/samplers", "menagerie plugin trust"]);
    let trusted = json(menagerie(home, &["plugin", "trust", name, "--json"]));
    let sum = trusted["sha256"].as_str().unwrap();
    assert_eq!((sum.len(), &trusted["before"]), (64, &serde_json::Value::Null));
    locked(&["list", "--names"]).good();
    assert_eq!(json(locked(&["plugin", "list", "--json"]))["plugins"][0]["lock"], "trusted");
    let inspected = json(menagerie(home, &["plugin", "inspect", name, "--json"]));
    assert_eq!((inspected["sha256"].as_str(), inspected["lock"].as_str()), (Some(sum), Some("trusted")));
    // One byte more is another plugin.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.push(0);
    std::fs::write(&file, bytes).unwrap();
    locked(&["list"]).fails_with(&[sum, "trust it again"]);
    let again = json(menagerie(home, &["plugin", "trust", name, "--json"]));
    assert_eq!(again["before"], sum);
    locked(&["list", "--names"]).good();
    let removed = json(menagerie(
        home,
        &["--plugin-dir", "plugins", "plugin", "remove", "menagerie/samplers", "--json"],
    ));
    assert_eq!(removed["sha256"], again["sha256"]);
    assert!(!file.exists());
    menagerie(home, &["plugin", "remove", "menagerie/samplers"])
        .fails_with(&["no plugin `menagerie/samplers`"]);
}

#[test]
fn a_sampler_of_a_plugin_acts_and_is_the_same_for_a_seed() {
    let (home, file) = home();
    let home = home.path();
    assert!(menagerie(home, &["plugin", "check", file.to_str().unwrap()]).good().contains("ok      sampler"));
    let model = fixture("base/llama/model-f32.gguf");
    let fixed = [
        "run",
        model.to_str().unwrap(),
        "--raw",
        "-n",
        "8",
        "--seed",
        "5",
        "--temp",
        "3",
        "--top-k",
        "0",
        "abc",
    ];
    let run = |more: &[&str]| menagerie(home, &[&fixed[..], more].concat());
    let with = |n: &str| {
        run(&["--plugin-dir", "plugins", "--sampler", &format!("menagerie/samplers:top-n-sigma=n={n}")])
    };
    assert_eq!(with("100").good(), run(&[]).good());
    assert_eq!(with("0.001").good(), run(&["--temp", "0"]).good());
    assert_eq!(with("1").good(), with("1").good());
    with("0").refused_with(&["n is 0", "above 0"]);
    with("x").refused_with(&["n = x: expected a number"]);
    run(&["--sampler", "menagerie/samplers:top-n-sigma"]).refused_with(&["--plugin-dir DIR"]);
}

/// Builds with this machine's cargo what `plugin new` writes, all kinds in one go, and checks each.
#[test]
fn what_is_begun_builds_and_passes_its_check() {
    let home = tempfile::tempdir().unwrap();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    let kinds = ["mixer", "feed-forward", "norm", "activation", "rope", "sampler", "tokenizer", "layer-hook"];
    for kind in kinds {
        let new = ["plugin", "new", &format!("acme/my-{kind}"), "--kind", kind, "--sdk-path", sdk];
        assert!(menagerie(home.path(), &new).good().contains(&format!("wrote my-{kind}")));
        // One build for all: each is a workspace of its own otherwise.
        let manifest = home.path().join(format!("my-{kind}/Cargo.toml"));
        let text = std::fs::read_to_string(&manifest).unwrap();
        std::fs::write(&manifest, text.split("# Its own workspace").next().unwrap()).unwrap();
    }
    std::fs::write(home.path().join("Cargo.toml"), "[workspace]\nresolver = \"3\"\nmembers = [\"my-*\"]\n")
        .unwrap();
    build(home.path());
    for kind in kinds {
        let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let file = format!("target/debug/{prefix}acme_my_{}{suffix}", kind.replace('-', "_"));
        let checked = json(menagerie(home.path(), &["plugin", "check", &file, "--json"]));
        let [component] = checked["components"].as_array().unwrap().as_slice() else { panic!("{checked}") };
        assert_eq!((&component["family"], &component["passed"]), (&kind.into(), &true.into()), "{checked}");
        let name = format!("acme/my-{kind}:my-{kind}");
        assert_eq!(component["name"], name);
    }
    menagerie(home.path(), &["plugin", "new", "acme/my-norm"]).fails_with(&["my-norm: exists"]);
    menagerie(home.path(), &["plugin", "new", "norm"]).refused_with(&["use author/name"]);
}

/// Offline: everything that it needs was fetched for these tests.
fn build(folder: &Path) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--offline", "--quiet"]).current_dir(folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env_remove("RUSTFLAGS");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The example in C, built by the compiler that Rust links with, in place of llama's own norms.
#[cfg(unix)]
#[test]
fn a_norm_in_c_computes_what_the_built_in_one_does() {
    let home = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let folder = home.path().join("plugins");
    std::fs::create_dir(&folder).unwrap();
    let mut cc = std::process::Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-I"]);
    cc.arg(root.join("core/plugin/include")).arg(root.join("plugins/c-norm/norm.c"));
    let built = cc.args(["-lm", "-o"]).arg(folder.join("libc_norm.so")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let checked = json(menagerie(home.path(), &["plugin", "check", "plugins/libc_norm.so", "--json"]));
    assert_eq!((&checked["plugin"]["sdk"], &checked["components"][0]["passed"]), (&"".into(), &true.into()));
    // U25: nothing is said of what it does not say of itself.
    let inspected = menagerie(home.path(), &["plugin", "inspect", "plugins/libc_norm.so"]).good();
    let names: Vec<&str> = inspected.lines().map(|line| line[..13].trim_end()).collect();
    assert_eq!(
        names,
        ["plugin", "plugin ABI", "built with", "needs", "SHA-256", "plugins.lock"],
        "{inspected}"
    );
    assert!(inspected.lines().all(|line| line.len() > 14), "{inspected}");

    let spec = "schema = 1\nextends = \"llama\"\n\n[architecture]\nid = \"llama\"\n\n[provenance]\nreference = \"paper\"\n\
                source = \"this test\"\ncovers = \"this test\"\n\n[norm]\nkind = \"menagerie/c-norm:rms\"\n\
                eps = \"attention.layer_norm_rms_epsilon\"\n";
    std::fs::write(home.path().join("llama.toml"), spec).unwrap();
    let model = fixture("base/llama/model-f32.gguf");
    let model = model.to_str().unwrap();
    let run = |more: &[&str]| {
        let fixed =
            ["run", model, "--raw", "-n", "12", "--temp", "0", "--exact", "--json", "--logprobs", "1", "abc"];
        json(menagerie(home.path(), &[&fixed[..], more].concat()))
    };
    let replaced = ["--plugin-dir", "plugins", "--spec", "llama.toml"];
    let (own, plugin) = (run(&[]), run(&replaced));
    assert_eq!(own["text"], plugin["text"]);
    let logprobs = |answer: &serde_json::Value| {
        let tokens = answer["tokens"].as_array().unwrap();
        tokens.iter().map(|token| token["logprob"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    let (own, plugin) = (logprobs(&own), logprobs(&plugin));
    assert_eq!((own.len(), plugin.len()), (12, 12));
    // Both are f32; the C code sums in f64.
    for (own, plugin) in own.iter().zip(plugin) {
        assert!((own - plugin).abs() < 1e-5, "{own} and {plugin}");
    }
    let shown = menagerie(home.path(), &[&["show", model][..], &replaced].concat()).good();
    let line = "norm menagerie/c-norm:rms, layers 0-2, from plugin menagerie/c-norm 0.1.0";
    assert!(shown.contains(line) && shown.contains("are copied at every step"), "{shown}");
    let kinds = ["--plugin-dir", "plugins", "spec", "kinds", "menagerie/c-norm:rms"];
    assert!(menagerie(home.path(), &kinds).good().contains("from plugin menagerie/c-norm 0.1.0"));
    menagerie(home.path(), &["run", model, "--raw", "--spec", "llama.toml", "abc"]).fails_with(&[
        "llama.toml",
        "the plugin `menagerie/c-norm`, which is not loaded",
        "--plugin-dir",
    ]);
}

/// A panic that cannot be caught ends the process, not the one that asked for it to run; it is said before.
#[test]
fn a_plugin_that_aborts_is_warned_of_and_ends_its_process_alone() {
    let home = tempfile::tempdir().unwrap();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    menagerie(home.path(), &["plugin", "new", "acme/abrupt", "--kind", "activation", "--sdk-path", sdk])
        .good();
    let folder = home.path().join("abrupt");
    let source = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap();
    let panics = source.replace(
        "for row in 0..x.rows() {",
        "for row in 0..x.rows() {\n            assert!(x.cols() == 0, \"abrupt\");",
    );
    assert_ne!(source, panics);
    std::fs::write(folder.join("src/lib.rs"), panics).unwrap();
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    std::fs::write(folder.join("Cargo.toml"), manifest + "\n[profile.dev]\npanic = \"abort\"\n").unwrap();
    build(&folder);
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = folder.join(format!("target/debug/{prefix}acme_abrupt{suffix}"));
    let file = file.to_str().unwrap();
    assert_eq!(json(menagerie(home.path(), &["plugin", "inspect", file, "--json"]))["panics"], "abort");
    let listed = menagerie(home.path(), &["--plugin-dir", file, "list", "--names"]);
    assert!(
        listed.err.contains("note: plugin acme/abrupt 0.1.0") && listed.err.contains("a panic in it ends"),
        "{listed:?}"
    );
    listed.good();
    let ended = menagerie(home.path(), &["plugin", "check", file]);
    // By a signal, so that there is no code; nothing was called good.
    assert!(ended.code.is_none_or(|code| code != 0) && !ended.out.contains("ok "), "{ended:?}");
}

fn guide() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/write-a-plugin.md")).unwrap()
}

/// The first block of the guide in a language.
fn block_of(guide: &str, language: &str) -> String {
    let after = guide.split(&format!("```{language}\n")).nth(1).unwrap();
    after.split("```").next().unwrap().to_owned()
}

/// The norm of the guide, with a panic in its forward and one in its making.
#[test]
fn a_plugin_that_panics_fails_its_checks_once_and_clearly() {
    let (home, guide) = (tempfile::tempdir().unwrap(), guide());
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    menagerie(home.path(), &["plugin", "new", "acme/norms", "--kind", "norm", "--sdk-path", sdk]).good();
    let folder = home.path().join("norms");
    let source = block_of(&guide, "rust")
        .replace("let x = x.row(row);", "let x = x.row(row);\n            assert!(row != 30, \"too far\");")
        .replace("if eps <= 0.0 {", "assert!(g != 9.0, \"nine\");\n        if eps <= 0.0 {");
    assert_eq!(source.matches("assert!").count(), 2);
    std::fs::write(folder.join("src/lib.rs"), source).unwrap();
    build(&folder);
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = folder.join(format!("target/debug/{prefix}acme_norms{suffix}"));
    let file = file.to_str().unwrap();

    let checked = menagerie(home.path(), &["plugin", "check", file]);
    let said = "3 layers of width 64, embedding times 1, and 2 other cases: ";
    let stopped = "stopped after 3 panics or ABI violations: 6 of 9 cases were not tested";
    for text in
        ["FAILED  norm acme/norms:scale-norm: no model with it could be run", said, stopped, "too far"]
    {
        assert!(checked.out.contains(text), "{text}: {checked:?}");
    }
    let all = format!("{}{}", checked.out, checked.err);
    assert_eq!(all.matches("panic in plugin").count(), 1, "{checked:?}");
    assert!(checked.err.starts_with("error: 1 of 1 component"), "{checked:?}");
    checked.fails_with(&["1 of 1 component"]);

    let scaled = block_of(&guide, "toml");
    for (g, told) in [("8", "computed in one step: "), ("9", "create panicked: ")] {
        let spec = folder.join("scaled.toml");
        std::fs::write(&spec, scaled.replace("g    = 8", &format!("g    = {g}"))).unwrap();
        let call = menagerie(home.path(), &["--plugin-dir", file, "spec", "check", spec.to_str().unwrap()]);
        assert!(!call.out.contains("ok ") && !call.err.contains("--key"), "{call:?}");
        assert!(call.code == Some(1) && call.err.starts_with("error: a tiny random model: "), "{call:?}");
        for text in ["component `acme/norms:scale-norm`", told, "panic in plugin"] {
            assert!(call.err.contains(text), "{text}: {call:?}");
        }
    }
}

/// "Write a plugin in twenty minutes", done from its text: its source, its spec, its commands.
#[test]
fn the_guide_works_from_its_text() {
    let guide = guide();
    let block = |language: &str| block_of(&guide, language);
    let home = tempfile::tempdir().unwrap();
    let sdk = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    let new = "menagerie plugin new acme/norms --kind norm --component scale-norm";
    assert!(guide.contains(new));
    let words: Vec<&str> = new.split(' ').skip(1).chain(["--sdk-path", sdk]).collect();
    menagerie(home.path(), &words).good();
    let folder = home.path().join("norms");
    std::fs::write(folder.join("src/lib.rs"), block("rust")).unwrap();
    std::fs::write(folder.join("scaled.toml"), block("toml")).unwrap();
    build(&folder);
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let file = folder.join(format!("target/debug/{prefix}acme_norms{suffix}"));
    let file = file.to_str().unwrap();
    let checked = menagerie(home.path(), &["plugin", "check", file]).good();
    assert!(
        checked.contains("ok      norm acme/norms:scale-norm") && checked.contains("with g ="),
        "{checked}"
    );
    menagerie(home.path(), &["plugin", "check", file, "--set", "acme/norms:scale-norm.g=8"]).good();
    // What `create` refuses is said as the plugin says it.
    let refused = menagerie(home.path(), &["plugin", "check", file, "--set", "acme/norms:scale-norm.eps=0"]);
    assert!(refused.out.contains("eps is 0; it must be above 0"), "{refused:?}");
    refused.fails_with(&["1 of 1 component"]);
    let spec = folder.join("scaled.toml");
    let spec = ["--plugin-dir", file, "spec", "check", spec.to_str().unwrap()];
    assert!(menagerie(home.path(), &spec).good().contains("a tiny random model ("));
}
