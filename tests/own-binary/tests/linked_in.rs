//! A plugin that is linked in is there like one that was loaded, without a library and without being asked for.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

/// Runs the program in an empty home; what it printed, if it succeeded.
fn run(home: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie-own-binary"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

#[test]
fn a_linked_plugin_is_listed_and_used() {
    let home = tempfile::tempdir().unwrap();
    let listed: serde_json::Value =
        serde_json::from_str(&run(home.path(), &["plugin", "list", "--json"]).unwrap()).unwrap();
    let [plugin] = listed["plugins"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!(plugin["id"], "menagerie/samplers");
    assert_eq!(plugin["file"], serde_json::Value::Null);
    assert_eq!(plugin["components"][0]["name"], "menagerie/samplers:top-n-sigma");
    assert!(run(home.path(), &["plugin", "list"]).unwrap().contains("(linked in)"));

    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/base/llama/model-f32.gguf");
    let answer = |more: &[&str]| {
        let fixed = ["run", model, "--raw", "-n", "12", "--seed", "5", "--temp", "3", "--top-k", "0", "abc"];
        run(home.path(), &[&fixed[..], more].concat())
    };
    let sampler = |n: &str| format!("menagerie/samplers:top-n-sigma=n={n}");
    let plain = answer(&[]).unwrap();
    let wide = answer(&["--sampler", &sampler("100")]).unwrap();
    // So wide that nothing is dropped, and so narrow that only the best token is left.
    assert_eq!(wide, plain);
    let narrow = answer(&["--sampler", &sampler("0.001")]).unwrap();
    assert_eq!(narrow, answer(&["--temp", "0"]).unwrap());
    assert_ne!(narrow, plain);
    let refused = answer(&["--sampler", &sampler("0")]).unwrap_err();
    assert!(refused.contains("n is 0") && refused.contains("above 0"), "{refused}");
    let unknown = answer(&["--sampler", "menagerie/samplers:top-m"]).unwrap_err();
    assert!(unknown.contains("there are: outside/steps:only, menagerie/samplers:top-n-sigma"), "{unknown}");
}

#[test]
fn a_linked_device_and_file_format_are_used() {
    let home = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/base/llama/model-f32.gguf");
    let answer = |model: &str, device: &str| {
        let fixed = ["run", model, "--raw", "-n", "12", "--temp", "0", "-t", "1", "--device", device, "abc"];
        run(home.path(), &fixed)
    };
    let expected = answer(model, "cpu").unwrap();
    assert_eq!(answer(model, "counting:1,log=opened").unwrap(), expected);
    assert_eq!(std::fs::read_to_string(home.path().join("opened")).unwrap(), "counting:1");
    std::fs::write(home.path().join("it.pointer"), std::fs::canonicalize(model).unwrap().to_str().unwrap())
        .unwrap();
    assert_eq!(answer("it.pointer", "counting").unwrap(), expected);
    let refused = answer(model, "countin").unwrap_err();
    assert!(refused.contains("the nearest is `counting`; there are: counting, cpu"), "{refused}");
    let refused = answer(model, "counting:lgo=x").unwrap_err();
    assert!(refused.contains("`lgo`; the nearest is `log`; it has log"), "{refused}");
    let listed = run(home.path(), &["doctor"]).unwrap();
    assert!(listed.contains("counting:1: number 1, which counts operations"), "{listed}");
    let only = ["run", model, "--raw", "-n", "2", "--sampler", "outside/steps:only=token=7", "abc"];
    assert_eq!(run(home.path(), &only), run(home.path(), &[&only[..], &["--temp", "5"]].concat()));
}
