//! Recipes in a program: what the command line opens, the library opens too.

use crate::opening::options;
use menagerie_all as _;
use menagerie_open::{LoadError, LoadOptions, Locate, ModelBuilder};
use std::error::Error;
use std::path::{Path, PathBuf};

/// A folder with the recipe `mine` over the model `org/model`.
fn recipe(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.recipe.toml");
    std::fs::write(&path, format!("schema = 1\n[recipe]\nbase = \"org/model\"\n{text}")).unwrap();
    (folder, path)
}

/// Finds one model by its name.
struct OneModel;

impl Locate for OneModel {
    fn locate(&self, reference: &Path) -> Result<PathBuf, Box<dyn Error + Send + Sync>> {
        match reference.to_str() {
            Some("org/model") => {
                let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
                Ok(fixtures.join("base/llama/model-f32.gguf"))
            }
            _ => Err("there is one model only".into()),
        }
    }

    fn is_model_name(&self, name: &str) -> bool {
        name == "taken"
    }
}

fn message<T>(result: Result<T, LoadError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn the_base_of_a_recipe_is_located() {
    let (_folder, path) = recipe("");
    let pipeline =
        ModelBuilder::new(&path).with_options(&options()).with_locate(&OneModel).open_text().unwrap();
    assert_eq!((pipeline.name(), pipeline.architecture()), ("mine", "llama"));
    let error = message(ModelBuilder::new(&path).with_options(&options()).open_text());
    assert!(error.contains("base `org/model`: ") && error.contains("only files and folders"), "{error}");
    let error = message(ModelBuilder::new("other").with_locate(&OneModel).open_text());
    assert_eq!(error, "other: there is one model only");
}

#[test]
fn a_recipe_in_a_spec_folder_is_found_by_its_name_unless_a_model_has_the_name() {
    let (folder, path) = recipe("");
    std::fs::copy(&path, folder.path().join("taken.recipe.toml")).unwrap();
    let options = options().with_spec_dirs(vec![folder.path().to_owned()]);
    let open = |name: &str| ModelBuilder::new(name).with_options(&options).with_locate(&OneModel).open_text();
    assert_eq!(open("mine").unwrap().name(), "mine");
    assert_eq!(message(open("taken")), "taken: there is one model only");
}

#[test]
fn text_and_embeddings_report_the_same() {
    let (_folder, path) = recipe("[set]\n\"rope.freq_base\" = 5000.0\n");
    let options = options().with_context(100_000);
    let builder = || ModelBuilder::new(&path).with_options(&options).with_locate(&OneModel);
    let (text, vectors) = (builder().open_text().unwrap(), builder().open_embedding().unwrap());
    assert_eq!(text.notices(), vectors.notices());
    let shown: Vec<String> = text.notices().iter().map(ToString::to_string).collect();
    for part in ["recipe mine: ", "rope.freq_base", "100000"] {
        assert!(shown.iter().any(|notice| notice.contains(part)), "{part}: {shown:?}");
    }
}

#[test]
fn embeddings_refuse_adapters_and_stages() {
    let adapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/lora/llama/d0");
    let (_folder, path) = recipe(&format!("[[adapters]]\nkind = \"lora\"\nfrom = {:?}\n", adapter.display()));
    let open = |path: &Path, options: &LoadOptions| {
        message(ModelBuilder::new(path).with_options(options).with_locate(&OneModel).open_embedding())
    };
    let error = open(&path, &options());
    assert!(error.contains("adapters are supported for text generation only"), "{error}");
    let staged = options().with_stages(menagerie_open::StageOptions::count(2));
    let error = open(Path::new("org/model"), &staged);
    assert!(error.contains("stages are supported for text generation only"), "{error}");
}
