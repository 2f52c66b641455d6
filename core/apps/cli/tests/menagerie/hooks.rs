//! `--hook`: what a plugin's hook sees and changes, and what is refused.

use super::{fixture, menagerie};
use std::path::{Path, PathBuf};

/// The library of the example, which is built with these tests.
fn library() -> PathBuf {
    let name =
        format!("{}menagerie_layer_hooks{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let tests = std::env::current_exe().unwrap();
    let beside = tests.ancestors().skip(1).map(|folder| folder.join(&name)).find(|path| path.is_file());
    beside.expect("the library of the plugin is built with its tests")
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("plugins")).unwrap();
    std::fs::copy(library(), home.path().join("plugins").join(library().file_name().unwrap())).unwrap();
    home
}

fn model() -> String {
    fixture("base/llama/model-f32.gguf").display().to_string()
}

const CLAMP: &str = "menagerie/layer-hooks:norm-clamp";

/// Lines of the table that `statistics` wrote: rows of prompts, rows of what was generated.
fn counted(home: &Path) -> Vec<[usize; 2]> {
    let table = std::fs::read_to_string(home.join("rows.tsv")).unwrap();
    std::fs::remove_file(home.join("rows.tsv")).unwrap();
    let counts = |line: &str| {
        let number = |at: usize| line.split('\t').nth(at).unwrap().parse().unwrap();
        [number(1), number(2)]
    };
    table.lines().skip(1).map(counts).collect()
}

#[test]
fn a_hook_changes_what_is_generated_and_another_counts_it() {
    let home = home();
    let home = home.path();
    let model = model();
    let fixed =
        ["--plugin-dir", "plugins", "run", &model, "--raw", "-n", "8", "--temp", "0", "--ignore-eos", "abc"];
    let run = |more: &[&str]| menagerie(home, &[&fixed[..], more].concat()).good();
    let bare = run(&[]);
    assert_ne!(run(&["--hook", &format!("{CLAMP}=most=0.05")]), bare);
    assert_eq!(run(&["--hook", &format!("{CLAMP}=most=1e30,layers=all")]), bare);
    let statistics = "menagerie/layer-hooks:statistics=file=rows.tsv";
    assert_eq!(run(&["--hook", statistics]), bare);
    let counts = counted(home);
    assert!(counts.len() > 1);
    // What is generated last is not fed back.
    assert!(counts.iter().all(|[prefill, decode]| *prefill > 2 && *decode == 7), "{counts:?}");
    let one = format!("{statistics},layers=1,phase=decode");
    assert_eq!(run(&["--hook", &one, "--hook", &format!("{CLAMP}=most=1e30")]), bare);
    let counts = counted(home);
    assert_eq!(counts.iter().filter(|counts| **counts != [0, 0]).count(), 1, "{counts:?}");
    assert_eq!(counts[1], [0, 7]);
    let logits =
        ["--plugin-dir", "plugins", "logits", &model, "--tokens", "1,2,3,4,5", "--out", "l.safetensors"];
    let more = ["--decode-from", "3", "--hook", statistics];
    menagerie(home, &[&logits[..], &more].concat()).good();
    assert!(counted(home).iter().all(|counts| *counts == [3, 2]));
}

#[test]
fn every_command_that_runs_a_model_takes_hooks() {
    let home = home();
    let home = home.path();
    let model = model();
    let statistics = "menagerie/layer-hooks:statistics=file=rows.tsv";
    let bench = ["--plugin-dir", "plugins", "bench", &model, "--json", "-p", "4", "-n", "2", "-r", "1"];
    menagerie(home, &[&bench[..], &["--hook", statistics]].concat()).good();
    assert!(counted(home).iter().all(|[prefill, decode]| *prefill >= 4 && *decode >= 1));
    let chat = super::chat_model(home);
    let chat = [
        "--plugin-dir",
        "plugins",
        "chat",
        &chat,
        "-n",
        "3",
        "--temp",
        "0",
        "--no-history",
        "--hook",
        statistics,
    ];
    super::fed(home, &chat, b"hello\n").good();
    assert!(counted(home).iter().all(|[prefill, _]| *prefill > 3));
    std::fs::write(home.join("in.jsonl"), "\"abc\"\n\"de\"\n").unwrap();
    let batch = [
        "--plugin-dir",
        "plugins",
        "batch",
        &model,
        "in.jsonl",
        "out.jsonl",
        "-n",
        "3",
        "--hook",
        statistics,
    ];
    menagerie(home, &batch).good();
    assert!(counted(home).iter().all(|[prefill, decode]| *prefill > 3 && *decode >= 2));
}

#[test]
fn what_a_hook_cannot_be_is_refused() {
    let home = home();
    let home = home.path();
    let model = model();
    let run = |more: &[&str]| menagerie(home, &[&["run", &model, "--raw", "-n", "2", "abc"], more].concat());
    run(&["--hook", &format!("{CLAMP}=most=1")]).refused_with(&["there is no hook", "--plugin-dir DIR"]);
    let with = |hook: &str| run(&["--plugin-dir", "plugins", "--hook", hook]);
    with("menagerie/layer-hooks:clamp").refused_with(&["there are: menagerie/layer-hooks:norm-clamp, "]);
    with(CLAMP).refused_with(&["the option `most` is required", "Largest root of the mean square"]);
    with(&format!("{CLAMP}=most=0")).refused_with(&["most is 0", "above 0"]);
    with(&format!("{CLAMP}=most=1,layers=7"))
        .refused_with(&["layers=7-7", "the last layer of this model is"]);
    with("menagerie/layer-hooks:statistics=file=no/rows.tsv").refused_with(&["the folder no does not exist"]);
}

/// State that was computed with a hook is not taken for that of another.
#[test]
fn a_state_file_is_that_of_its_hooks() {
    let home = home();
    let home = home.path();
    let model = model();
    let fixed = [
        "--plugin-dir",
        "plugins",
        "run",
        &model,
        "--raw",
        "-n",
        "2",
        "--temp",
        "0",
        "--state",
        "s.state",
        "abc",
    ];
    let run = |more: &[&str]| menagerie(home, &[&fixed[..], more].concat());
    let clamp = format!("{CLAMP}=most=0.5");
    run(&["--hook", &clamp]).good();
    run(&["--hook", &clamp]).good();
    run(&["--hook", &clamp, "--hook", "menagerie/layer-hooks:statistics=file=rows.tsv"]).good();
    run(&[]).fails_with(&["s.state", "norm-clamp"]);
    run(&["--hook", &format!("{CLAMP}=most=0.6")]).fails_with(&["s.state", "norm-clamp"]);
}

#[test]
fn hooks_are_listed_and_checked() {
    let home = home();
    let home = home.path();
    let listed = menagerie(home, &["--plugin-dir", "plugins", "plugin", "list", "--json"]).good();
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let components = listed["plugins"][0]["components"].as_array().unwrap();
    let shown: Vec<_> =
        components.iter().map(|one| (&one["family"], one["name"].as_str().unwrap())).collect();
    let family = serde_json::Value::from("layer-hook");
    assert_eq!(shown, [(&family, CLAMP), (&family, "menagerie/layer-hooks:statistics")]);
    let text = menagerie(home, &["--plugin-dir", "plugins", "plugin", "list"]).good();
    assert!(text.contains("layer-hook   menagerie/layer-hooks:statistics  Writes how many rows"), "{text}");
    let file = format!("plugins/{}", library().file_name().unwrap().to_str().unwrap());
    let check = ["plugin", "check", &file, "--json"];
    let without = menagerie(home, &check);
    assert!(without.out.contains("the option `most` is required"), "{without:?}");
    let set = [
        "--set",
        "menagerie/layer-hooks:norm-clamp.most=0.2",
        "--set",
        "menagerie/layer-hooks:statistics.file=rows.tsv",
    ];
    let checked = menagerie(home, &[&check[..], &set].concat()).good();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    for component in checked["components"].as_array().unwrap() {
        assert_eq!(component["passed"], true, "{checked}");
        assert_eq!(component["result"]["models"], 9);
        // The same bits in every way.
        assert_eq!(component["result"]["difference"], 0.0);
    }
}

/// On threads the hook itself is called, in processes a copy where its layers are.
#[cfg(unix)]
#[test]
fn a_hook_acts_in_stages_as_in_one_piece() {
    let home = home();
    let home = home.path();
    let model = model();
    let fixed =
        ["--plugin-dir", "plugins", "logits", &model, "--tokens", "3,14,15,9,26,5,35,8,97,93", "-t", "1"];
    let how = ["--decode-from", "7", "--chunk", "4", "--force", "--out", "l.safetensors"];
    let logits = |more: &[&str]| {
        menagerie(home, &[&fixed[..], &how, more].concat()).good();
        std::fs::read(home.join("l.safetensors")).unwrap()
    };
    let bare = logits(&[]);
    for clamp in [format!("{CLAMP}=most=0.1"), format!("{CLAMP}=most=0.1,layers=2,phase=decode")] {
        let hook = ["--hook", clamp.as_str()];
        let one = logits(&hook);
        assert!(one != bare, "{clamp} changes something");
        for place in [["--stages", "2"], ["--stage-processes", "2"]] {
            assert!(one == logits(&[&hook[..], &place].concat()), "{clamp} with {place:?}");
        }
    }
    let statistics = ["--hook", "menagerie/layer-hooks:statistics=file=rows.tsv"];
    assert!(logits(&[&statistics[..], &["--stages", "2"]].concat()) == bare);
    assert!(counted(home).iter().all(|counts| *counts == [7, 3]));
}

/// One instance sees all layers, wherever they are, and which tokens their rows are of.
#[cfg(unix)]
#[test]
fn a_hook_that_looks_sees_layers_in_other_processes() {
    let home = home();
    let home = home.path();
    let model = model();
    let seen = |arguments: &[&str]| {
        let all = [&["--plugin-dir", "plugins"], arguments].concat();
        menagerie(home, &all).good();
        let table = std::fs::read_to_string(home.join("rows.tsv")).unwrap();
        std::fs::remove_file(home.join("rows.tsv")).unwrap();
        table
    };
    std::fs::write(home.join("in.jsonl"), "\"abc\"\n\"de\"\n\"fghi\"\n").unwrap();
    let logits = ["logits", &model, "--tokens", "3,14,15,9,26,5,35,8,97,93", "-t", "1", "--decode-from", "7"];
    let logits = [&logits[..], &["--chunk", "4", "--force", "--out", "l.safetensors"]].concat();
    let batch = ["batch", &model, "in.jsonl", "out.jsonl", "--force", "-n", "4", "--temp", "0", "-t", "1"];
    for arguments in [&logits[..], &batch] {
        for asked in ["file=rows.tsv", "file=rows.tsv,layers=1-2,phase=decode"] {
            let hook = format!("menagerie/layer-hooks:statistics={asked}");
            let hook = [arguments, &["--hook", &hook]].concat();
            let whole = seen(&hook);
            assert!(whole.lines().nth(2).is_some_and(|line| !line.ends_with('-')), "{whole}");
            for count in ["2", "3"] {
                assert_eq!(
                    seen(&[&hook[..], &["--stage-processes", count]].concat()),
                    whole,
                    "{count} {asked}"
                );
            }
        }
    }
}

/// A file that is no model is not even looked at.
#[test]
fn a_slip_in_a_name_is_told_before_the_model_is_opened() {
    let home = home();
    let home = home.path();
    std::fs::write(home.join("none.gguf"), "no model").unwrap();
    std::fs::write(home.join("in.jsonl"), "\"abc\"\n").unwrap();
    let commands: [&[&str]; 5] = [
        &["run", "none.gguf", "abc"],
        &["chat", "none.gguf"],
        &["logits", "none.gguf", "--tokens", "1", "--out", "l.safetensors"],
        &["bench", "none.gguf"],
        &["batch", "none.gguf", "in.jsonl", "out.jsonl"],
    ];
    for command in commands {
        let with = |more: &[&str]| menagerie(home, &[&["--plugin-dir", "plugins"], command, more].concat());
        with(&["--hook", "menagerie/layer-hooks:norm-clmap=most=1"])
            .refused_with(&["the nearest is `menagerie/layer-hooks:norm-clamp`"]);
        with(&["--hook", "norm-clamp=most=1"])
            .refused_with(&["author/name:hook", "the nearest is `menagerie/layer-hooks:norm-clamp`"]);
        let slip = format!("{CLAMP}=mots=1");
        with(&["--hook", &slip]).refused_with(&["no option `mots`; the nearest is `most`"]);
        let slip = format!("{CLAMP}=most=1,layer=2");
        with(&["--hook", &slip]).refused_with(&["no option `layer`; the nearest is `layers`"]);
        if ["run", "chat", "batch"].contains(&command[0]) {
            with(&["--sampler", "menagerie/none:at-all"]).refused_with(&["--plugin-dir DIR"]);
        }
    }
}

/// Built by the compiler that Rust links with; `plugin check` finds out what is wrong with two of them.
#[cfg(unix)]
#[test]
fn hooks_in_c_act_and_are_found_out() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::create_dir(home.join("plugins")).unwrap();
    let mut cc = std::process::Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-I"]);
    cc.arg(root.join("../../plugin/include")).arg(root.join("tests/menagerie/hooks.c"));
    let built = cc.arg("-o").arg(home.join("plugins/libc_hooks.so")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let checked = menagerie(home, &["plugin", "check", "plugins/libc_hooks.so", "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    let faults: Vec<String> = checked["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            one["result"]["faults"].as_array().unwrap().iter().map(|fault| fault.to_string()).collect()
        })
        .collect();
    assert_eq!(faults[0], "", "{checked}");
    assert!(faults[1].contains("a second time: the logits differ from those in one step by"), "{checked}");
    assert!(
        faults[2].contains("`test/c-hooks:scribbling`: it changed rows that it may only read"),
        "{checked}"
    );
    let model = model();
    let logits = |more: &[&str]| {
        let fixed = [
            "--plugin-dir",
            "plugins",
            "logits",
            &model,
            "--tokens",
            "3,1,4",
            "--force",
            "--out",
            "l.safetensors",
        ];
        menagerie(home, &[&fixed[..], more].concat()).good();
        std::fs::read(home.join("l.safetensors")).unwrap()
    };
    assert!(logits(&["--hook", "test/c-hooks:doubled=layers=0"]) != logits(&[]));
}
