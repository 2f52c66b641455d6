//! Kinds of another crate, written with what is public: options, tensors, keys and configs of their own.

use crate::model::{Fake, built_in, minimal};
use menagerie_spec::config::{ModelConfig, NormSite, RmsConfig};
use menagerie_spec::kind::*;
use menagerie_spec::{ArchSpec, SpecFaults, SpecSource, ValueOrigin, json_schema, reference_page};
use menagerie_spec::{names, options};

names! {
    /// What a decay is taken of.
    pub enum Decay {
        /// The exponential.
        Exponential = "exponential",
        /// The sigmoid.
        Sigmoid = "sigmoid" => &["leaky.sharpness"],
    }
}

options! {
    /// Options of `leaky`.
    pub struct LeakyOptions {
        /// Channels that remember.
        channels: Positive<usize> = Key("leaky.channels"),
        /// What the decay is taken of.
        decay: Decay = Name("exponential") => guarded,
        /// Norm on what is remembered.
        inner: Optional<InnerOptions> = Absent,
        /// Multiplies the output.
        gain: Option<f32> = Computed { how: "1 / channels", reads: &["leaky.gain"] } => guarded,
    }
}

options! {
    /// Norm on what is remembered.
    pub struct InnerOptions {
        /// Its norm.
        norm: NormHere = Fields,
    }
}

/// A leaky integrator per channel.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct LeakyConfig {
    channels: usize,
    decay: Decay,
    inner: Option<Component>,
    gain: f32,
}

impl Definition for LeakyConfig {
    type Options = LeakyOptions;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "leaky";
    const DOC: &'static str = "A leaky integrator per channel.";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::linear("leak_in", &["D", "channels"], "In."),
        RoleDef::linear("leak_out", &["channels", "D"], "Out."),
        RoleDef::norm("leak_norm", &["channels"], "inner", "Norm."),
    ];
    const READS: &'static [&'static str] = &["leaky.version"];

    fn resolve(options: LeakyOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let LeakyOptions { channels: Positive(channels), decay, inner: Optional(inner), gain } = options;
        if at.key_number("leaky.version")?.is_some_and(|version| version > 1.0) {
            return at.key_fault("leaky.version", "only version 1 is understood");
        }
        let inner = match inner {
            Some(inner) => {
                let InnerOptions { norm } = inner.options;
                Some(at.norm(&norm, &["leak_norm"])?)
            }
            None => None,
        };
        let gain = gain.unwrap_or_else(|| {
            let gain = 1.0 / channels as f32;
            at.computed("gain", gain);
            gain
        });
        if gain == 0.0 {
            return at.fault("gain", "0 would silence it");
        }
        Ok(LeakyConfig { channels, decay, inner, gain })
    }

    fn sizes(&self, into: &mut Sizes) {
        into.set("channels", self.channels);
        into.norm("inner", self.inner.as_ref());
    }

    fn regime_limit(&self) -> Option<usize> {
        Some(100 * self.channels)
    }
}

options! {
    /// Options of `tanh`.
    pub struct TanhOptions {
        /// Multiplies inside.
        alpha: f32 = Number(0.5) => guarded,
    }
}

/// Dynamic tanh (Zhu et al., 2025), a norm without statistics.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct TanhConfig {
    alpha: f32,
}

impl Definition for TanhConfig {
    type Options = TanhOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "tanh";
    const DOC: &'static str = "Dynamic tanh (Zhu et al., 2025).";
    const ROLES: &'static [RoleDef] = &[RoleDef::values("", &["width"], "Scale.")];

    fn resolve(options: TanhOptions, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let TanhOptions { alpha } = options;
        Ok(TanhConfig { alpha })
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

fn kinds() -> Kinds {
    Kinds::built_in().with([LeakyConfig::KIND, TanhConfig::KIND]).unwrap()
}

fn parse(text: &str) -> Result<ArchSpec, SpecFaults> {
    let source = SpecSource { name: "my.toml".into(), text: text.into() };
    ArchSpec::parse(&source, &built_in(), &kinds())
}

const LEAKY: &str = "[mixer]\nkind = \"leaky\"\ninner = { kind = \"tanh\", alpha = \"leaky.alpha\" }\n\
    [feed_forward]\nkind = \"none\"\n[embedding]\nnorm = { role = \"leak_norm\", kind = \"tanh\" }\n";

fn file() -> Fake {
    Fake::small(2).with("leaky.channels", 8i64).with("leaky.alpha", 0.25).with("leaky.version", 1i64)
}

#[test]
fn a_mixer_and_a_norm_of_another_crate_resolve() {
    let report = file().report(&parse(&minimal(LEAKY)).unwrap()).unwrap();
    let config: &ModelConfig = &report.config;
    let mixer = config.layers[1].mixer.as_ref().unwrap();
    // What assembly makes the model's regimes from, whichever crate a mixer is of.
    assert_eq!(mixer.regime_limit(), Some(800));
    assert_eq!(Component::new(TanhConfig { alpha: 1.0 }).regime_limit(), None);
    assert_eq!(mixer.kind(), LeakyConfig::KIND);
    let inner = TanhConfig { alpha: 0.25 };
    let expected =
        LeakyConfig { channels: 8, decay: Decay::Exponential, inner: Some(inner.into()), gain: 0.125 };
    assert_eq!(mixer.downcast_ref::<LeakyConfig>(), Some(&expected));
    assert_eq!(mixer, &Component::new(expected));
    let norm = TanhConfig { alpha: 0.5 }.into();
    assert_eq!(config.embedding.norm, Some(NormSite { role: "leak_norm".into(), norm }));
    let wanted: Vec<(String, Vec<Option<u64>>)> = mixer
        .wanted(64)
        .iter()
        .map(|w| (w.role.clone(), w.dims.iter().map(|dim| dim.size).collect()))
        .collect();
    assert_eq!(wanted[0], ("leak_in".into(), vec![Some(64), Some(8)]));
    assert_eq!((wanted.len(), &*wanted[2].0), (3, "leak_norm"));
    let norm = &mixer.wanted(64)[2].stored()[0];
    assert_eq!((&*norm.role, norm.dims[0].size), ("leak_norm.weight", Some(8)));
    // Origins and guards come with the table.
    let found = |path: &str| report.values.iter().find(|entry| entry.path == path).unwrap();
    assert_eq!(found("mixer.gain").origin, ValueOrigin::Default);
    assert!(found("mixer.gain").guarded && !found("mixer.channels").guarded);
    assert_eq!(found("mixer.channels").origin, ValueOrigin::File { keys: vec!["leaky.channels".into()] });
    let json = serde_json::to_value(config).unwrap();
    assert_eq!(json["layers"][0]["mixer"]["inner"]["kind"], "tanh");
}

#[test]
fn its_faults_are_as_good_as_the_built_in_ones() {
    let found =
        |text: &str| parse(&minimal(&LEAKY.replace("kind = \"leaky\"", text))).unwrap_err().to_string();
    let unknown = found("kind = \"leaky\"\nchanels = 3");
    let allowed = "mixer.chanels\n  unknown key; the nearest is `channels`; allowed here: kind, when, channels, decay, inner, gain";
    assert!(unknown.contains(allowed), "{unknown}");
    let name = found("kind = \"leaky\"\ndecay = \"sigmoidal\"");
    assert!(name.contains("unknown name `sigmoidal`; the nearest is `sigmoid`"), "{name}");
    let kind = found("kind = \"leeky\"");
    assert!(
        kind.contains("unknown kind `leeky`; the nearest is `leaky`; allowed: attention, none"),
        "{kind}"
    );
    let spec = parse(&minimal(LEAKY)).unwrap();
    let mut fake = file().with("leaky.version", 2i64);
    assert!(fake.refused(&spec).contains("key my.leaky.version (layers 0-1)\n  only version 1"));
    fake.keys.remove("leaky.channels");
    assert!(fake.refused(&spec).contains("key my.leaky.channels\n  missing; spec my needs it"));
    let zero = file().with("leaky.channels", 0i64).refused(&spec);
    assert!(
        zero.contains("key my.leaky.channels (layers 0-1)\n  channels is 0; must be at least 1"),
        "{zero}"
    );
}

#[test]
fn keys_of_its_table_are_read_and_others_are_not() {
    let spec = parse(&minimal(LEAKY)).unwrap();
    assert!(file().with("leaky.gain", 2.0).report(&spec).is_ok());
    let found = file().with("leaky.sharpness", 2.0).refused(&spec);
    assert!(found.contains("key my.leaky.sharpness\n  not read by spec my"), "{found}");
    let named = LEAKY.replace("kind = \"leaky\"", "kind = \"leaky\"\ndecay = \"sigmoid\"");
    assert!(file().with("leaky.sharpness", 2.0).report(&parse(&minimal(&named)).unwrap()).is_ok());
}

#[test]
fn it_is_in_the_schema_and_on_the_page() {
    let schema = json_schema(&kinds());
    assert_eq!(schema["$defs"]["mixer-leaky"]["properties"]["decay"]["default"], "exponential");
    let page = reference_page(&kinds());
    assert!(page.contains("### mixer `leaky`") && page.contains("| `leak_in` | `[D, channels]` |"));
}

#[test]
fn kinds_are_registered_once_and_may_bring_what_is_only_known() {
    let again = kinds().with([TanhConfig::KIND, RmsConfig::KIND]).unwrap();
    assert_eq!(again.of(Family::Norm).count(), kinds().of(Family::Norm).count());
    let twice = kinds().with([OtherTanhConfig::KIND]).unwrap_err();
    assert!(twice.to_string().contains("norm kind `tanh` is registered twice"), "{twice}");
    static RWKV7: Kind = Kind::of::<Rwkv7Config>();
    let kinds = Kinds::built_in().with([&RWKV7]).unwrap();
    assert!(kinds.find(Family::Mixer, "rwkv7").unwrap().is_built_in());
    assert_eq!(kinds.of(Family::Mixer).filter(|kind| kind.name == "rwkv7").count(), 1);
}

/// Another kind of the same name.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct OtherTanhConfig;

impl Definition for OtherTanhConfig {
    type Options = TanhOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "tanh";
    const DOC: &'static str = "Another.";

    fn resolve(_options: TanhOptions, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        Ok(OtherTanhConfig)
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

options! {
    /// Options of `rwkv7`.
    pub struct Rwkv7Options {
        /// Norms inside.
        inner_norm: Option<f32> = Absent,
    }
}

/// The kind that the language knows and nobody built.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Rwkv7Config;

impl Definition for Rwkv7Config {
    type Options = Rwkv7Options;
    const FAMILY: Family = Family::Mixer;
    const NAME: &'static str = "rwkv7";
    const DOC: &'static str = "RWKV-7.";

    fn resolve(options: Rwkv7Options, _at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let Rwkv7Options { inner_norm: _ } = options;
        Ok(Rwkv7Config)
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

options! {
    /// Options that contradict themselves.
    pub struct WrongOptions {
        /// A name that is not on its list.
        decay: Decay = Name("linear"),
    }
}

options! {
    /// Options with a name that is taken.
    pub struct TakenOptions {
        /// The language's own.
        when: f32 = Number(1.0),
    }
}

#[test]
fn a_table_that_contradicts_itself_is_refused_when_it_is_registered() {
    static WRONG: Kind =
        Kind::not_built_in(Family::Mixer, "wrong", "Wrong.", <WrongOptions as Options>::TABLE, &[]);
    let found = Kinds::built_in().with([&WRONG]).unwrap_err().to_string();
    assert!(
        found.contains("mixer kind `wrong` cannot be used: option `decay` cannot have the default"),
        "{found}"
    );
    static TAKEN: Kind =
        Kind::not_built_in(Family::Mixer, "taken", "Taken.", <TakenOptions as Options>::TABLE, &[]);
    let found = Kinds::built_in().with([&TAKEN]).unwrap_err().to_string();
    assert!(found.contains("option `when` has a name that the language takes there"), "{found}");
}
