//! `docs/spec-recipes.md`: every block of it is a spec without faults, over llama.

use super::menagerie;

/// The blocks of TOML of a page.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```toml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn every_recipe_is_a_spec() {
    let home = tempfile::tempdir().unwrap();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/spec-recipes.md");
    let blocks = blocks(&std::fs::read_to_string(page).unwrap());
    assert!(blocks.len() > 40, "{}", blocks.len());
    for (at, block) in blocks.iter().enumerate() {
        let (unset, tables) = match block.strip_prefix("unset = ") {
            Some(rest) => {
                rest.split_once('\n').map(|(unset, tables)| (format!("unset = {unset}\n"), tables)).unwrap()
            }
            None => (String::new(), block.as_str()),
        };
        let file = format!("my{at}.toml");
        let text =
            format!("schema = 1\nextends = \"llama\"\n{unset}\n[architecture]\nid = \"my{at}\"\n\n{tables}");
        std::fs::write(home.path().join(&file), text).unwrap();
        let call = menagerie(home.path(), &["check", &format!("./{file}")]);
        assert_eq!(call.code, Some(0), "{block}\n{}", call.err);
    }
}
