//! `specs/README.md` has the names, functions, limits and examples that the language has.

use crate::model::{PLAIN, built_in, minimal, parse, root};
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, Recipe, SpecLookup, SpecSource, reference_page};
use std::collections::BTreeSet;
use std::fmt::Write;

fn page() -> String {
    std::fs::read_to_string(root().join("specs/README.md")).unwrap()
}

/// The text below a heading, to the next heading.
fn below(text: &str, heading: &str) -> String {
    let rest = text.split(heading).nth(1).unwrap_or_else(|| panic!("{heading}"));
    rest.split("\n## ").next().unwrap().split("\n### ").next().unwrap().to_owned()
}

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Names in the first column of a table that begins with this head.
fn first_column(text: &str, head: &str) -> BTreeSet<String> {
    let rows = text.split(head).nth(1).unwrap_or_else(|| panic!("{head}")).lines().skip(2);
    let cells = rows.take_while(|row| row.starts_with('|')).map(|row| row.split(" | ").next().unwrap());
    cells.flat_map(quoted).map(str::to_owned).collect()
}

/// The number before these words, `4,096` included.
fn number(text: &str, words: &str) -> usize {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = text.split(words).next().unwrap_or_default();
    let digits = before.trim_end().split(' ').next_back().unwrap_or_default().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("no number before `{words}`"))
}

#[test]
fn names_of_the_page_are_those_of_the_language() {
    let (page, reference) = (page(), reference_page(&Kinds::built_in()));
    let layouts: BTreeSet<String> = below(&reference, "### How a stored tensor becomes the canonical one")
        .lines()
        .filter_map(|line| line.strip_prefix("- `")?.split('`').next().map(str::to_owned))
        .collect();
    assert_eq!(first_column(&page, "| layout | does |"), layouts);
    let keys = below(&reference, "## Keys that every spec reads");
    let keys: BTreeSet<String> = quoted(&keys).map(str::to_owned).collect();
    let standard = below(&page, "### 3.1 Standard keys");
    assert_eq!(first_column(&standard, "| key | meaning, default |"), keys);
    let file = below(&reference, "## The file");
    let sections = file.lines().filter_map(|row| row.split(" | ").next());
    let sections: BTreeSet<String> = sections.flat_map(quoted).map(str::to_owned).collect();
    let mut tables: BTreeSet<String> = first_column(&page, "| table | holds |");
    tables = tables.iter().map(|name| name.trim_matches(['[', ']']).to_owned()).collect();
    tables.extend(["schema", "extends", "unset"].map(str::to_owned));
    assert_eq!(tables, sections);
}

/// A spec whose attention has this scale.
fn scaled(scale: &str) -> Result<ArchSpec, String> {
    let attention = format!("kind = \"attention\"\nscale = \"{scale}\"");
    parse(&minimal(&PLAIN.replace("kind = \"attention\"", &attention))).map_err(|faults| faults.to_string())
}

#[test]
fn functions_of_the_page_are_those_of_the_language() {
    let page = page();
    let row = page.lines().find(|line| line.trim_start().starts_with("| functions |")).unwrap();
    let names: Vec<&str> = quoted(row).map(|call| call.split('(').next().unwrap()).collect();
    let refused = scaled("squrt(2)").unwrap_err();
    assert!(refused.trim_end().ends_with(&names.join(", ")), "{names:?} are not all of: {refused}");
}

#[test]
fn limits_of_the_page_are_those_of_the_language() {
    let page = page();
    let characters = number(&page, "characters and");
    for (length, good) in [(characters, true), (characters + 1, false)] {
        assert_eq!(scaled(&format!("1{}", " ".repeat(length - 1))).is_ok(), good, "{length} characters");
    }
    let words = number(&page, "names, numbers and signs");
    for (count, good) in [(words - 1, true), (words + 1, false)] {
        // Groups keep the depth of the expression small.
        let group = format!("(1{})", "+1".repeat(9));
        let mut scale = vec![group; count / 22].join("+");
        scale.push_str(&"+1".repeat((count - (count / 22 * 22 - 1)) / 2));
        assert_eq!(scaled(&scale).is_ok(), good, "{count} words: {:?}", scaled(&scale).err());
    }
    let named = |count: usize| {
        let mut text = minimal(&format!("{PLAIN}[let]\n"));
        (0..count).for_each(|index| writeln!(text, "x{index} = \"1\"").unwrap());
        parse(&text).is_ok()
    };
    let lets = number(&page, "names in `[let]`");
    assert!(named(lets) && !named(lets + 1), "{lets} names");
    let ignored = |count: usize| {
        let mut text = minimal(&format!("{PLAIN}[gguf.ignore_keys]\n"));
        (0..count).for_each(|index| writeln!(text, "\"a.x{index}\" = \"r\"").unwrap());
        parse(&text).is_ok()
    };
    let keys = number(&page, "keys in a table");
    assert!(ignored(keys) && !ignored(keys + 1), "{keys} keys");
    let sized = |bytes: usize| {
        let text = minimal(PLAIN);
        parse(&format!("{text}#{}", "x".repeat(bytes - text.len() - 1))).is_ok()
    };
    let bytes = number(&page, "KiB") << 10;
    assert!(sized(bytes) && !sized(bytes + 1), "{bytes} bytes");
}

/// Specs `s0`, `s1`, ... of which each extends the one before.
struct Ladder;

impl SpecLookup for Ladder {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let step: usize = id.strip_prefix('s')?.parse().ok()?;
        let text = match step.checked_sub(1) {
            None => minimal(PLAIN).replace("id = \"my\"", "id = \"s0\""),
            Some(below) => format!("schema = 1\nextends = \"s{below}\"\n[architecture]\nid = \"{id}\"\n"),
        };
        Some(SpecSource { name: format!("{id}.toml"), text })
    }

    fn ids(&self) -> Vec<String> {
        Vec::new()
    }
}

#[test]
fn specs_extend_as_deep_as_the_page_says() {
    let page = page();
    let words = page.split("no cycles, at most ").nth(1).unwrap();
    let depth: usize = words.split(' ').next().unwrap().parse().unwrap();
    for (depth, good) in [(depth, true), (depth + 1, false)] {
        let source = Ladder.find(&format!("s{depth}")).unwrap();
        assert_eq!(ArchSpec::parse(&source, &Ladder, &Kinds::built_in()).is_ok(), good, "{depth}");
    }
}

/// The blocks of TOML of a page.
fn blocks(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The recipes of the documentation, and the spec of the README.
#[test]
fn examples_of_other_pages_have_no_faults() {
    for page in ["docs/recipes.md", "docs/mixtures.md"] {
        let blocks = blocks(page);
        assert_eq!(blocks.len(), 1, "{page}");
        let source = SpecSource { name: "mine.recipe.toml".into(), text: blocks[0].clone() };
        let recipe = Recipe::parse(&source).unwrap_or_else(|faults| panic!("{page}: {faults}"));
        assert!(recipe.mixture.is_some(), "{page}");
    }
    let blocks = blocks("README.md");
    let source = SpecSource { name: "smollm3.toml".into(), text: blocks[0].clone() };
    let spec =
        ArchSpec::parse(&source, &built_in(), &Kinds::built_in()).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(spec.id(), "smollm3");
}
