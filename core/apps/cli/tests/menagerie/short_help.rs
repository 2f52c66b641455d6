//! `-h` is short, `--help` is whole.

use super::menagerie;

/// Commands with many options, and those of them that people use most.
const COMMANDS: &[(&[&str], &[&str])] = &[
    (
        &["run"],
        &[
            "--file",
            "--raw",
            "--json",
            "--system",
            "--chat-template",
            "--context",
            "--threads",
            "--max-tokens",
            "--temp",
            "--seed",
            "--lora",
            "--verbose",
            "--reasoning",
        ],
    ),
    (&["chat"], &["--state", "--system", "--context", "--threads", "--temp", "--max-tokens"]),
    (&["batch"], &["--parallel", "--raw", "--force", "--json", "--max-tokens", "--temp", "--context"]),
    #[cfg(feature = "serve")]
    (
        &["serve"],
        &["--listen", "--parallel", "--queue", "--api-key-file", "--log", "--models-dir", "--context"],
    ),
    (&["embed"], &["--file", "--lines", "--normalize", "--out", "--pooling"]),
    (&["rerank"], &["--file", "--json"]),
    (&["logits"], &["--tokens", "--prompt", "--out"]),
    (&["bench"], &["--prompt", "--generate", "--repetitions", "--sequences", "--threads", "--json"]),
    (&["perplexity"], &["--file", "--ctx-size", "--chunks", "--json"]),
    (&["compare"], &["--file", "--json"]),
    (&["imatrix"], &["--file", "--out"]),
    (&["train-gate"], &["--out", "--epochs"]),
    (&["merge"], &["--lora", "--force", "--json"]),
    (&["quantize"], &["--imatrix", "--dry-run", "--force", "--threads"]),
    (&["convert"], &["--outtype", "--quant", "--force"]),
    (&["check"], &["--reference", "--spec", "--json"]),
    (&["show"], &["--values", "--tensors", "--all", "--json"]),
    (&["inspect"], &["--keys", "--tensors", "--template", "--json"]),
    (&["list"], &["--family", "--search", "--names", "--json"]),
    (&["control-vector", "make"], &["--out"]),
    (&["synth"], &["--shape", "--quant"]),
];

/// Options in a help text: lines that begin with a dash.
fn options(help: &str) -> Vec<&str> {
    help.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-') && !line.starts_with("--help lists"))
        .collect()
}

#[test]
fn the_short_help_has_what_people_use_and_the_long_one_everything() {
    let home = tempfile::tempdir().unwrap();
    for &(command, used) in COMMANDS {
        let short = menagerie(home.path(), &[command, &["-h"]].concat()).good();
        let long = menagerie(home.path(), &[command, &["--help"]].concat()).good();
        let (few, all) = (options(&short), options(&long));
        assert!(few.len() <= 16, "{command:?}: {} options\n{short}", few.len());
        assert!(short.lines().count() <= 60, "{command:?}: {} lines", short.lines().count());
        let has = |list: &[&str], name: &str| {
            list.iter().any(|line| line.split([' ', ',', '[', '=']).any(|word| word == name))
        };
        for name in used {
            assert!(has(&few, name), "{command:?}: {name} is not in\n{short}");
        }
        for name in used.iter().chain(&["--color", "--plugin-dir"]) {
            assert!(has(&all, name), "{command:?}: {name} is not in\n{long}");
        }
        assert!(all.len() > few.len(), "{command:?}");
        assert_eq!(short.trim_end().lines().last(), Some("--help lists all options"), "{command:?}");
        assert!(!long.contains("--help lists all options") && !long.ends_with("\n\n"), "{long}");
    }
}
