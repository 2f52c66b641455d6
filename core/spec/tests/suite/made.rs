//! A kind that is made at run time is a kind like any other: resolved, shown, in the schema and on the page.

use crate::model::{Fake, built_in, minimal};
use menagerie_spec::kind::*;
use menagerie_spec::{ArchSpec, SpecSource, ValueOrigin, json_schema, reference_page};
use std::sync::OnceLock;

static MANNERS: NameList = NameList {
    title: "acme/mixers:slow manner",
    doc: "How it is slow.",
    names: &[
        NameDef { name: "steady", doc: "", reads: &[], numbers: None },
        NameDef { name: "halting", doc: "", reads: &[], numbers: None },
    ],
};

const fn field(name: &'static str, ty: FieldType, default: FieldDefault, guarded: bool) -> Field {
    Field { name, ty, default, guarded, doc: "An option." }
}

static OPTIONS: Table = Table {
    title: "mixer acme/mixers:slow",
    doc: "Options of `acme/mixers:slow`.",
    fields: &[
        field("heads", FieldType::Count, FieldDefault::Key("slow.heads"), false),
        field("size", FieldType::Count, FieldDefault::KeyOr("slow.size", 4.0), false),
        field("gain", FieldType::Real, FieldDefault::Number(0.5), true),
        field("manner", FieldType::Name(&MANNERS), FieldDefault::Name("steady"), true),
    ],
};

static ROLES: [RoleDef; 3] = [
    RoleDef::linear("slow_in", &["D", "heads*size"], "In.").with_bias(BIAS_REQUIRED),
    RoleDef::values("slow_gate", &["heads"], "A gate.").when("slow_gate.weight"),
    RoleDef::linear("slow_out", &["heads*size", "D"], "Out."),
];

fn slow() -> &'static Kind {
    static MADE: OnceLock<&'static Kind> = OnceLock::new();
    MADE.get_or_init(|| made("acme/mixers:slow"))
}

fn made(name: &'static str) -> &'static Kind {
    let (family, doc) = (Family::Mixer, "A slow mixer.");
    MadeKind { family, name, doc, options: &OPTIONS, roles: &ROLES, free: &[] }.leak()
}

fn kinds() -> Kinds {
    Kinds::built_in().with([slow()]).unwrap()
}

fn parse(more: &str) -> ArchSpec {
    let mixer = format!("[mixer]\nkind = \"acme/mixers:slow\"\n{more}[feed_forward]\nkind = \"none\"\n");
    let source = SpecSource { name: "my.toml".into(), text: minimal(&mixer) };
    ArchSpec::parse(&source, &built_in(), &kinds()).unwrap_or_else(|faults| panic!("{faults}"))
}

#[test]
fn its_options_are_resolved_from_spec_keys_and_defaults() {
    let file = Fake::small(2).with("slow.heads", 3i64);
    let report = file.report(&parse("")).unwrap();
    let mixer = report.config.layers[1].mixer.as_ref().unwrap();
    let values = mixer.as_made().unwrap();
    let wanted = [
        ("heads", OptionValue::Count(3)),
        ("size", OptionValue::Count(4)),
        ("gain", OptionValue::Real(0.5)),
        ("manner", OptionValue::Name("steady")),
    ];
    wanted.iter().for_each(|(name, value)| assert_eq!(values.get(name), Some(*value)));
    assert_eq!(serde_json::to_value(mixer).unwrap()["kind"], "acme/mixers:slow");
    assert_eq!(serde_json::to_value(mixer).unwrap()["heads"], 3);
    let gain = report.values.iter().find(|entry| entry.path == "mixer.gain").unwrap();
    assert!(gain.guarded && gain.origin == ValueOrigin::Default);
    let found: Vec<(String, Vec<Option<u64>>, usize)> = mixer
        .wanted(64)
        .iter()
        .map(|role| (role.role.clone(), role.dims.iter().map(|dim| dim.size).collect(), role.stored().len()))
        .collect();
    assert_eq!(found[0], ("slow_in".into(), vec![Some(64), Some(12)], 2));
    assert_eq!(found[1], ("slow_out".into(), vec![Some(12), Some(64)], 1));
    assert_eq!(found.len(), 2, "the file has no gate");
    // What the spec or the file says comes before a default.
    let file = Fake::small(2).with("slow.heads", 3i64).with("slow.size", 8i64);
    let report = file.report(&parse("manner = \"halting\"\ngain = 2\nheads = \"slow.heads * 2\"\n")).unwrap();
    let values = report.config.layers[0].mixer.as_ref().unwrap().as_made().unwrap().clone();
    assert_eq!(values.get("size"), Some(OptionValue::Count(8)));
    assert_eq!(values.get("heads"), Some(OptionValue::Count(6)));
    assert_eq!(values.get("manner"), Some(OptionValue::Name("halting")));
    assert_eq!(values.get("gain"), Some(OptionValue::Real(2.0)));
}

#[test]
fn what_a_file_lacks_is_named() {
    let refused = Fake::small(2).refused(&parse(""));
    assert!(refused.contains("key my.slow.heads\n  missing; spec my needs it"), "{refused}");
    let refused = Fake::small(2).with("slow.heads", 1i64).with("slow.size", 0.5).refused(&parse(""));
    assert!(refused.contains("key my.slow.size") && refused.contains("0.5 is not a count"), "{refused}");
}

#[test]
fn it_is_in_the_schema_and_on_the_page_and_registered_once() {
    let schema = json_schema(&kinds());
    assert_eq!(schema["$defs"]["mixer-acme/mixers:slow"]["properties"]["manner"]["default"], "steady");
    // Every reference leads somewhere, whatever is in a name.
    let text = schema.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        let pointer = reference.replace("%20", " ");
        assert!(schema.pointer(&pointer).is_some(), "{reference}");
    }
    let page = reference_page(&kinds());
    assert!(page.contains("### mixer `acme/mixers:slow`") && page.contains("`slow.size`, or 4"), "{page}");
    let twice = kinds().with([made("acme/mixers:slow")]).unwrap_err().to_string();
    assert!(twice.contains("mixer kind `acme/mixers:slow` is registered twice"), "{twice}");
    assert!(kinds().with([slow()]).is_ok());
}
