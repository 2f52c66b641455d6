//! An environment is a value: it is extended without changing the first one, and it refuses a second entry of a name.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_registry::{
    Architecture, BuiltInRecipe, BuiltInTable, Entries, Entry, Environment, GGUFArchitecture, RegistryError,
    register,
};

const SPEC: &str = "schema = 1\n[architecture]\nid = \"ID\"\nsummary = \"small\"\n[norm]\nkind = \"rms\"\neps = 1e-5\n\
                    [block.mixer]\npre = \"attn_norm\"\n[block.feed_forward]\npre = \"ffn_norm\"\n[mixer]\n\
                    kind = \"attention\"\n[feed_forward]\nkind = \"gated\"\nactivation = \"silu\"\n[output]\n\
                    norm = \"output_norm\"\nhead = \"own\"\n";

/// A text that lasts as long as the tests.
fn text(id: &str) -> &'static str {
    Box::leak(SPEC.replace("ID", id).into_boxed_str())
}

fn architecture(id: &'static str, spec: &'static str) -> Entries {
    let mut entries = Entries::default();
    let name = GGUFArchitecture::from_static(id);
    entries.add(Architecture { name, spec, registered_by: "plugin test" }).unwrap();
    entries
}

register!(Architecture {
    name: GGUFArchitecture::from_static("inside"),
    spec: text("inside"),
    registered_by: "a crate",
});

#[derive(Clone, Debug, PartialEq)]
struct Color(&'static str);

impl Entry for Color {
    const FAMILY: &'static str = "color";

    fn name(&self) -> &str {
        self.0
    }

    fn registered_by(&self) -> &str {
        "a crate of colors"
    }
}

register!(Color("red"));

#[test]
fn extending_leaves_the_first_environment_as_it_is() {
    let linked = Environment::linked().unwrap();
    let mut entries = architecture("outside", text("outside"));
    entries.add(BuiltInTable { file: "chats.toml", text: "", registered_by: "plugin test" }).unwrap();
    entries.add(BuiltInRecipe { name: "one", text: "", registered_by: "plugin test" }).unwrap();
    let extended = linked.with(entries).unwrap();
    let shown = |environment: &Environment| {
        (environment.architectures().len(), environment.tables().len(), environment.recipes().len())
    };
    assert_eq!((shown(&linked), shown(&extended)), ((1, 0, 0), (2, 1, 1)));
    assert_eq!(extended.architecture_names().collect::<Vec<_>>(), ["inside", "outside"]);
    assert!(linked.architecture("outside").is_none());
    assert_eq!(extended.architecture("outside").unwrap().origin.to_string(), "plugin test");
}

#[test]
fn any_family_is_looked_up_by_type_and_name() {
    let environment = Environment::linked().unwrap();
    assert_eq!(environment.all::<Color>(), [Color("red")]);
    assert_eq!(environment.entries().get::<Color>("green"), None);
}

#[test]
fn a_second_entry_of_a_name_is_refused_with_both_origins() {
    let linked = Environment::linked().unwrap();
    let error = linked.with(architecture("inside", text("inside"))).unwrap_err();
    let expected = "architecture `inside` is registered twice, by a crate and by plugin test; link or load only one of them";
    assert_eq!(error.to_string(), expected);
    let mut colors = Entries::default();
    colors.add(Color("red")).unwrap();
    let error = linked.with(colors).unwrap_err().to_string();
    assert!(
        error.starts_with("color `red` is registered twice, by a crate of colors and by a crate"),
        "{error}"
    );
    // Another id with the name in files.
    let taken = text("outside").replace("id = \"outside\"", "id = \"outside\"\ngguf = [\"inside\"]");
    let error = linked.with(architecture("outside", Box::leak(taken.into_boxed_str()))).unwrap_err();
    assert!(matches!(error, RegistryError::Duplicate(_)), "{error}");
    assert_eq!(linked.architectures().len(), 1);
}

#[test]
fn a_faulty_spec_is_refused_when_it_is_added() {
    let linked = Environment::linked().unwrap();
    let error = linked.with(architecture("faulty", "schema = 1\n")).unwrap_err();
    assert!(matches!(&error, RegistryError::Faulty { id, .. } if id == "faulty"), "{error}");
}
