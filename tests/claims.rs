//! Statements of README and docs that can be wrong. A section with a measured number names the test that holds it, or the
//! day and the command. Links and paths lead to files. The README has the numbers of the tables.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_conformance::{files_below, path_inside, root};
use std::path::{Path, PathBuf};

/// What comes after a number that somebody measured.
const UNITS: [&str; 11] = [
    "%",
    "times",
    "t/s",
    "tokens/s",
    "ms",
    "GB/s",
    "MB/s",
    "GMAC/s",
    "min",
    "lines of C++",
    "of the read rate",
];
/// Pages whose every number another test makes: they are generated.
const GENERATED: [&str; 2] = ["docs/architectures.md", "docs/leave-one-out.md"];
/// Sections whose numbers are limits or settings of the program, not measurements.
const SETTINGS: [&str; 5] = [
    "docs/stages.md: What can go wrong",
    "docs/add-an-architecture.md: 5. Compare logits (two minutes)",
    "docs/profile.md: Stages",
    "docs/spec-recipes.md: Norms",
    "docs/write-a-plugin.md: 2. Write it (8 minutes)",
];

/// A section of a page: its heading, and its text with that of the code blocks.
struct Section {
    name: String,
    text: String,
}

fn sections(page: &str, text: &str) -> Vec<Section> {
    let mut sections = vec![Section { name: format!("{page}: beginning"), text: String::new() }];
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !in_code) {
            let name = format!("{page}: {}", heading.trim_start_matches('#').trim());
            sections.push(Section { name, text: String::new() });
            continue;
        }
        let text = &mut sections.last_mut().unwrap().text;
        text.push_str(line);
        text.push('\n');
    }
    sections
}

/// `40 %`, `1.7 to 3.9 times`, `2e-5`: a number that was measured, as far as its form says.
fn measured(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split([' ', '\n', '|', '(', ')']).filter(|word| !word.is_empty()).collect();
    let number = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_digit());
        !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.' || c == ',')
    };
    let small = |word: &str| {
        let word = word.trim_end_matches(['.', ',', ':', ';']);
        word.contains("e-") && word.parse::<f64>().is_ok()
    };
    let pair = words.windows(2).find(|pair| {
        let unit = pair[1].trim_end_matches(['.', ',', ':', ';']);
        number(pair[0]) && UNITS.contains(&unit)
    });
    let pair = pair.map(|pair| pair.join(" "));
    pair.or_else(|| words.iter().find(|word| small(word)).map(ToString::to_string))
}

/// Whether a section says where its numbers are from: a test's file that is there, or a day and a command.
fn says_where_from(text: &str) -> bool {
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let test = quoted.iter().any(|quoted| {
        let file = quoted.split("::").next().unwrap_or_default();
        let named = file.contains("tests/") && root().join(file).exists();
        named || quoted.starts_with("cargo test ") || function_is_there(quoted)
    });
    let day = text.split(|c: char| c.is_whitespace() || c == '(').any(|word| {
        let word = word.trim_end_matches([':', ',', '.', ')']);
        let parts: Vec<&str> = word.split('-').collect();
        parts.len() == 3 && parts[0].starts_with("20") && parts.iter().all(|part| part.parse::<u32>().is_ok())
    });
    let commands = ["menagerie ", "scripts/", "cargo ", "python3 tests/"];
    let command = quoted.iter().any(|quoted| commands.iter().any(|begin| quoted.starts_with(begin)));
    test || (day && command && text.to_lowercase().contains("measured"))
}

/// Whether this is the name of a test of the suites.
fn function_is_there(name: &str) -> bool {
    let word = name.contains('_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let rust = |path: &Path| path.extension().is_some_and(|extension| extension == "rs");
    word && files_below(&root().join("tests/conformance"), &rust)
        .iter()
        .any(|file| std::fs::read_to_string(file).unwrap().contains(&format!("fn {name}(")))
}

/// The name and the text of a page.
fn page(file: PathBuf) -> (String, String) {
    (path_inside(&file), std::fs::read_to_string(&file).unwrap())
}

fn pages() -> Vec<(String, String)> {
    let markdown = |path: &Path| path.extension().is_some_and(|extension| extension == "md");
    let mut files = files_below(&root().join("docs"), &markdown);
    files.push(root().join("README.md"));
    files.into_iter().map(page).collect()
}

/// All pages, those for developers of this project included.
fn all_pages() -> Vec<(String, String)> {
    let more = [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "core/ARCHITECTURE.md",
        "core/gguf/README.md",
        "core/loaders/tests/templates/README.md",
        "core/plugin/README.md",
        "plugins/rwkv7/README.md",
        "specs/README.md",
        "specs/reference.md",
        "specs/tokenizers/README.md",
        "tests/reference/README.md",
    ];
    let mut all = pages();
    all.extend(more.iter().map(|file| page(root().join(file))));
    all
}

/// The anchor of a heading: lower case, hyphens for spaces, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    heading.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Every link to a file of this project names a file that exists, and a heading that the file has.
#[test]
fn links_lead_to_files_and_headings() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (name, text) in all_pages() {
        let folder = root().join(&name).parent().unwrap().to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            seen += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(&name) } else { folder.join(file) };
            let there = std::fs::read_to_string(&target).unwrap_or_default();
            let mut headings = there.lines().filter(|line| line.starts_with('#'));
            let found = heading.is_empty() || headings.any(|line| anchor(line.trim_matches('#')) == heading);
            if !target.exists() || !found {
                faults.push(format!("{name}: ({link}) leads nowhere"));
            }
        }
    }
    assert!(seen > 60, "only {seen} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Folders whose paths pages write out.
const FOLDERS: [&str; 7] = ["core/", "tests/", "specs/", "docs/", "plugins/", "scripts/", "architectures/"];

/// Paths of this project in backticks, but patterns such as `core/backends/<device>/` and `specs/*.toml`.
fn paths_of(text: &str) -> Vec<&str> {
    let prose = |line: &&str| !line.starts_with("```");
    let quoted = text.lines().filter(prose).flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted.filter_map(path_of).collect()
}

/// The path that a quoted text begins with, if it is one of this project.
fn path_of(quoted: &str) -> Option<&str> {
    let file = quoted.split("::").next()?;
    let plain = !file.contains(['<', '*', '{', ' ', '=', '$']);
    (plain && FOLDERS.iter().any(|folder| file.starts_with(folder))).then_some(file)
}

/// Files and folders that pages name exist. Older entries of the changelog may name what is gone.
#[test]
fn paths_in_pages_exist() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (name, text) in all_pages().iter().filter(|(name, _)| name != "CHANGELOG.md") {
        let folder = root().join(name).parent().unwrap().to_owned();
        for path in paths_of(text) {
            seen += 1;
            if !root().join(path).exists() && !folder.join(path).exists() {
                faults.push(format!("{name} names {path}, which does not exist"));
            }
        }
    }
    assert!(seen > 100, "only {seen} paths were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every `FILE.rs::test` that a page names is a function of that file.
#[test]
fn tests_that_pages_name_exist() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (name, text) in all_pages().iter().filter(|(name, _)| name != "CHANGELOG.md") {
        let quoted = text.split('`').filter_map(|quoted| quoted.split_once(".rs::"));
        for (file, test) in quoted.filter(|(file, _)| FOLDERS.iter().any(|folder| file.starts_with(folder))) {
            seen += 1;
            let source = std::fs::read_to_string(root().join(format!("{file}.rs"))).unwrap_or_default();
            if !source.contains(&format!("fn {test}(")) {
                faults.push(format!("{name}: there is no test {file}.rs::{test}"));
            }
        }
    }
    assert!(seen > 25, "only {seen} tests were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every promise of `SECURITY.md` names a test.
#[test]
fn promises_of_the_security_page_name_a_test() {
    let text = std::fs::read_to_string(root().join("SECURITY.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    let native = text.split("## Native code").nth(1).unwrap().split("\n## ").next().unwrap();
    let promises: Vec<&str> = rows.chain(native.split("\n- ").skip(1)).collect();
    assert!(promises.len() >= 14, "{} promises", promises.len());
    for promise in promises {
        assert!(promise.contains(".rs::"), "no test is named: {promise}");
    }
}

/// The number before this word of a text, as `98` in `98 MB`.
fn number_before<'a>(text: &'a str, word: &str) -> &'a str {
    text.split(word).next().unwrap().trim_end().rsplit([' ', '(']).next().unwrap()
}

/// The value of `key = value` in a TOML file, without quotes, after a marker.
fn value_of(file: &str, marker: &str, key: &str) -> String {
    let text = std::fs::read_to_string(root().join(file)).unwrap();
    let after = text.split(marker).nth(1).unwrap_or_else(|| panic!("{file}: {marker}"));
    let line = after.lines().find(|line| line.split('=').next().unwrap().trim() == key);
    let value = line.unwrap_or_else(|| panic!("{file}: {key}")).split('=').nth(1).unwrap();
    value.trim().trim_matches('"').to_owned()
}

/// Versions and sizes in README and docs are those of the manifests and tables.
#[test]
fn versions_and_sizes_are_those_of_the_manifests() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let compiler = value_of("Cargo.toml", "[workspace.package]", "rust-version");
    assert!(readme.contains(&format!("Rust {compiler} ")), "README.md names another Rust than {compiler}");
    let sdk = value_of("core/plugin/Cargo.toml", "[package]", "rust-version");
    let guide = std::fs::read_to_string(root().join("docs/write-a-plugin.md")).unwrap();
    assert!(guide.contains(&format!("Rust {sdk} ")), "docs/write-a-plugin.md names another Rust than {sdk}");
    let bytes: u64 = value_of("specs/models.toml", "name = \"smollm2\"", "bytes").parse().unwrap();
    assert_eq!(number_before(&readme, " MB"), (bytes / 1_000_000).to_string(), "README.md: SmolLM2 in MB");
}

/// The glossary has a word, the field's word, a meaning and a place in every row, and no word twice.
#[test]
fn the_glossary_says_where_each_word_stands() {
    let text = std::fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| word |"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 30, "{} words", rows.len());
    let mut words = std::collections::BTreeSet::new();
    for row in &rows {
        let [word, _, meaning, place] = row[..] else { panic!("four columns: {row:?}") };
        assert!(!meaning.is_empty() && place.contains(['`', '[']), "{word}: a meaning and a place");
        assert!(words.insert(word), "{word} stands twice");
    }
}

#[test]
fn every_measured_number_says_where_it_is_from() {
    let mut faults = Vec::new();
    let mut seen = 0;
    for (page, text) in pages().iter().filter(|(page, _)| !GENERATED.contains(&page.as_str())) {
        for section in sections(page, text) {
            let Some(number) = measured(&section.text) else { continue };
            seen += 1;
            if !says_where_from(&section.text) && !SETTINGS.contains(&section.name.as_str()) {
                faults.push(format!(
                    "{}: `{number}` is held by no test named there, and has no day and command",
                    section.name
                ));
            }
        }
    }
    assert!(seen > 10, "only {seen} sections with numbers were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A number without a source is found, one with a source is not.
#[test]
fn a_number_without_a_source_is_a_fault() {
    for text in
        ["it is 40 % faster", "logits differ by 2e-5.", "1.7 to 3.9 times as fast", "reads (at 35 GB/s)"]
    {
        assert!(measured(text).is_some() && !says_where_from(text), "{text}");
    }
    for text in [
        "40 % faster (measured 2026-11-23: `menagerie bench MODEL`)",
        "2e-5 (`tests/claims.rs`)",
        "2e-5 (`cargo test -p x`)",
    ] {
        assert!(measured(text).is_some() && says_where_from(text), "{text}");
    }
    assert!(!says_where_from("40 % (`tests/nothing.rs`)") && !says_where_from("40 %, 2026-11-23, by `hand`"));
    assert!(measured("layers 3 to 5, schema 1, version 0.1.0").is_none());
}

/// The first and the last of `2.59 to 2.70` or `**1.66 to 1.75**`; nothing of another form.
fn range(cell: &str) -> Option<(f64, f64)> {
    let numbers: Vec<f64> =
        cell.replace(['*', ','], "").split(" to ").filter_map(|word| word.trim().parse().ok()).collect();
    Some((*numbers.first()?, *numbers.last()?))
}

/// What the README says of speed is what the table of `docs/speed.md` has.
#[test]
fn the_readme_says_the_speeds_of_the_table() {
    let text = std::fs::read_to_string(root().join("docs/speed.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| model | type |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let of = |column: usize, wanted: &dyn Fn(&[&str]) -> bool| {
        let cells = rows.iter().filter(|row| wanted(row)).filter_map(|row| range(row[column]));
        cells.fold((f64::MAX, f64::MIN), |all, one| (all.0.min(one.0), all.1.max(one.1)))
    };
    let quantized = |row: &[&str]| row[1] != "F16" && !row[0].starts_with("SmolLM2");
    let prompts = of(3, &quantized);
    let generation = of(6, &|row: &[&str]| row[1] != "F16");
    let smollm2 = of(3, &|row: &[&str]| row[0].starts_with("SmolLM2"));
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap().replace('\n', " ");
    for said in [
        format!("prompts {:.1} to {:.1} times as fast", prompts.0, prompts.1),
        format!("({:.1} times for SmolLM2)", smollm2.0),
        format!("generation {:.1} to {:.1} times", generation.0, generation.1),
    ] {
        assert!(readme.contains(&said), "README.md does not say `{said}`, which docs/speed.md does");
    }
}

/// Each bug of another engine has a test that is there, or a plain "no" with its reason.
#[test]
fn bugs_of_others_have_a_test_or_a_plain_no() {
    let text = std::fs::read_to_string(root().join("docs/caught.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() >= 15, "{} bugs", rows.len());
    for row in &rows {
        let [bug, _, verdict, why] = row[..] else { panic!("four columns: {row:?}") };
        let tests: Vec<(&str, &str)> =
            why.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.split_once("::")).collect();
        match verdict {
            "yes" | "partly" => assert!(!tests.is_empty(), "{bug}: no test is named"),
            "no" => assert!(tests.is_empty() && !why.is_empty(), "{bug}: a plain no has a reason"),
            other => panic!("{bug}: `{other}`"),
        }
        for (file, test) in tests {
            let source = std::fs::read_to_string(root().join(file)).unwrap_or_default();
            assert!(source.contains(&format!("fn {test}(")), "{bug}: there is no test {file}::{test}");
        }
    }
}
