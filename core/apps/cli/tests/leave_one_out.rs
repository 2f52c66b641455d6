//! Leave one out: for every fixture of the zoo a spec is drafted with the architecture's own spec hidden, and its logits are
//! held against the reference: as it comes, and with the questions answered that it marks. `docs/leave-one-out.md` is the
//! table; `MENAGERIE_WRITE_GENERATED=1` writes it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::assembly::{GgufModel, ModelFile};
use menagerie::engine::KvType;
use menagerie::gguf::{GgufFile, OpenOptions};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie::registry::{Environment, FolderKind, SpecFolder, SpecFolders};
use menagerie::spec::kind::Kinds;
use menagerie::spec::{ArchSpec, toml_text};
use menagerie::synth::draft::{Draft, Evidence, QuestionSubject, collapsed, draft};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As in the suite of the zoo.
const TOLERANCE: f32 = 1e-4;

/// What came of the drafts of an architecture's fixtures; the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Right,
    Answered,
    /// Answered, and one of the answers is a whole component.
    Written,
    Wrong,
}

/// What is known without an architecture.
struct Known {
    environment: Environment,
    specs: Vec<Arc<ArchSpec>>,
    kinds: Kinds,
}

impl Known {
    fn new() -> Self {
        let environment = Environment::linked().unwrap();
        let specs = environment.architectures().iter().map(|entry| entry.spec().clone().unwrap()).collect();
        let kinds = environment.components().kinds().unwrap();
        Self { environment, specs, kinds }
    }

    fn evidence(&self, model: &Path) -> Evidence {
        let file = GgufModel::open(model, true).unwrap();
        let container = GgufFile::open(model, &OpenOptions::default().with_mmap(true)).unwrap();
        let tensors = container.tensors().iter().map(|info| (info.name().to_owned(), info.dims().to_vec()));
        let architecture = file.architecture().unwrap().to_owned();
        Evidence::new(file.file(), architecture, &*file.canonical_keys().unwrap(), tensors)
    }

    fn draft(&self, evidence: &Evidence, hidden: &str) -> Draft {
        let shown: Vec<Arc<ArchSpec>> =
            self.specs.iter().filter(|spec| spec.id() != hidden).map(Arc::clone).collect();
        draft(&evidence.architecture, evidence, &shown, &self.kinds).unwrap()
    }
}

/// How far the logits of a fixture's prompts are from the reference under a spec; why it does not run.
fn far(model: &Path, architecture: &str, document: &Value) -> Result<f32, String> {
    let mut document = document.clone();
    document["architecture"] = json!({ "id": architecture });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{architecture}.toml"));
    std::fs::write(&path, format!("schema = 1\n{}", toml_text(&document))).unwrap();
    let folders = vec![SpecFolder { path, kind: FolderKind::File }];
    let folders = SpecFolders::default().with_folders(folders).with_allow_shadow(true);
    let linked = Environment::linked().map_err(|error| error.to_string())?;
    let environment = linked.with_spec_folders(folders).map_err(|error| error.to_string())?;
    // The references keep keys and values in f32.
    let options = LoadOptions::default().with_threads(1).with_kv_type(KvType::F32);
    let pipeline = ModelBuilder::new(model)
        .with_environment(&environment)
        .with_options(&options)
        .open_text()
        .map_err(|e| e.to_string())?;
    let bytes = std::fs::read(model.with_file_name("reference.safetensors")).unwrap();
    let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let ids = |name: &str| -> Vec<u32> {
        let data = reference.tensor(name).unwrap();
        data.data()
            .as_chunks::<8>()
            .0
            .iter()
            .map(|id| u32::try_from(i64::from_le_bytes(*id)).unwrap())
            .collect()
    };
    let mut far = 0.0f32;
    for name in ["prompt", "long"] {
        let tokens = ids(&format!("tokens_{name}"));
        let ours = logits(&pipeline, &tokens, &LogitsOptions::default()).map_err(|e| e.to_string())?;
        let rows = if name == "long" { ids("positions_long") } else { (0..tokens.len() as u32).collect() };
        let theirs = reference.tensor(&format!("logits_{name}")).unwrap();
        let theirs = theirs.data().as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value));
        let ours = rows.iter().flat_map(|&row| ours.row(row as usize));
        let apart = |(a, b): (&f32, f32)| (a - b).abs();
        far = ours
            .zip(theirs)
            .map(apart)
            .fold(far, |most, one| if one.is_nan() { f32::INFINITY } else { most.max(one) });
    }
    Ok(far)
}

/// The workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn fixtures() -> PathBuf {
    root().join("tests/fixtures")
}

/// Names and specs of the zoo's fixtures of language models.
fn entries() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(fixtures().join("zoo/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let field = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let language =
        manifest["fixtures"].as_array().unwrap().iter().filter(|entry| entry["logits_std"].is_number());
    language.map(|entry| (field(entry, "name"), field(entry, "spec"))).collect()
}

/// What a document says at a dotted path of options.
fn at<'d>(document: &'d Value, path: &str) -> Option<&'d Value> {
    document.pointer(&format!("/{}", path.replace('.', "/")))
}

/// Says it at the path too, or says nothing there.
fn set(document: &mut Value, path: &str, value: Option<&Value>) {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut table = document.as_object_mut();
    for part in above.split('.').filter(|part| !part.is_empty()) {
        let Some(here) = table else { return };
        if value.is_none() && !here.contains_key(part) {
            return;
        }
        let inner = here.entry(part).or_insert_with(|| json!({}));
        // A role alone and a table with `role` are two ways to write a site.
        if let Some(role) = inner.as_str().map(str::to_owned) {
            *inner = json!({ "role": role });
        }
        table = inner.as_object_mut();
    }
    let Some(table) = table else { return };
    match value {
        Some(value) => drop(table.insert(name.to_owned(), value.clone())),
        None => drop(table.remove(name)),
    }
}

/// The draft with every question that it marks answered as the architecture's own spec has it, those about whole components
/// where `components` says so.
fn answered(draft: &Draft, theirs: &Value, components: bool) -> Value {
    let mut document = draft.document.clone();
    let stated: Vec<(String, Value)> = leaves(theirs);
    for question in &draft.questions {
        match question.about {
            QuestionSubject::Component if !components => {}
            QuestionSubject::Component | QuestionSubject::Value | QuestionSubject::Absent => {
                set(&mut document, &question.path, at(theirs, &question.path))
            }
            // Where the spec reads the key, and where it names the tensor.
            QuestionSubject::Check => {}
            QuestionSubject::Key | QuestionSubject::Tensor => {
                let role = question
                    .path
                    .trim_start_matches("blk.N.")
                    .trim_end_matches(".weight")
                    .trim_end_matches(".bias");
                let says = |value: &Value| value.as_str().is_some_and(|text| text.contains(role));
                for (path, value) in stated.iter().filter(|(_, value)| says(value)) {
                    set(&mut document, path, Some(value));
                }
            }
        }
    }
    // Names that the answers use, and what is said of keys and of names of tensors.
    let mut names = document.get("let").and_then(Value::as_object).cloned().unwrap_or_default();
    names.extend(theirs.get("let").and_then(Value::as_object).cloned().unwrap_or_default());
    document["let"] = Value::Object(names);
    for section in ["gguf", "check"] {
        document[section] = theirs.get(section).cloned().unwrap_or_else(|| json!({}));
    }
    document
}

fn leaves(document: &Value) -> Vec<(String, Value)> {
    fn walk(table: &Map<String, Value>, path: &str, found: &mut Vec<(String, Value)>) {
        for (name, value) in table {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match value.as_object() {
                Some(inner) => walk(inner, &path, found),
                None => found.push((path, value.clone())),
            }
        }
    }
    let mut found = Vec::new();
    let sections = ["embedding", "norm", "block", "mixer", "feed_forward", "output"];
    for section in sections {
        if let Some(table) = document.get(section).and_then(Value::as_object) {
            walk(table, section, &mut found);
        }
    }
    found
}

/// What the draft says otherwise than the hidden spec where it asks.
fn wrong(draft: &Draft, theirs: &Value) -> String {
    let values = draft
        .questions
        .iter()
        .filter(|question| matches!(question.about, QuestionSubject::Value | QuestionSubject::Absent));
    let said = |document: &Value, path: &str| at(document, path).map(Value::to_string).unwrap_or_default();
    let wrong = values.filter(|q| said(&draft.document, &q.path) != said(theirs, &q.path));
    wrong
        .map(|q| format!("{} {} for {}", q.path, said(&draft.document, &q.path), said(theirs, &q.path)))
        .collect::<Vec<_>>()
        .join("; ")
}

/// One fixture: the verdict, and why.
fn judge(known: &Known, name: &str, id: &str) -> (Verdict, String, Draft) {
    let folder =
        std::fs::read_dir(fixtures().join("zoo").join(name)).unwrap().map(|entry| entry.unwrap().path());
    let model = folder.into_iter().find(|path| path.extension().is_some_and(|e| e == "gguf")).unwrap();
    let written = known.environment.architecture(id).unwrap().spec().clone().unwrap();
    let evidence = known.evidence(&model);
    let (architecture, draft) = (&evidence.architecture, known.draft(&evidence, id));
    // Of the hidden spec only what it says of this file: an answer about experts is none where there are no experts.
    let theirs = collapsed(&written.document(), &evidence, &known.kinds);
    let as_it_comes = far(&model, architecture, &draft.document);
    if as_it_comes.as_ref().is_ok_and(|far| *far <= TOLERANCE) {
        return (Verdict::Right, String::new(), draft);
    }
    let small = far(&model, architecture, &answered(&draft, &theirs, false));
    if small.is_ok_and(|far| far <= TOLERANCE) {
        return (Verdict::Answered, wrong(&draft, &theirs), draft);
    }
    match far(&model, architecture, &answered(&draft, &theirs, true)) {
        Ok(far) if far <= TOLERANCE => (Verdict::Written, wrong(&draft, &theirs), draft),
        Ok(far) => (Verdict::Wrong, format!("logits differ by {far:.1e}"), draft),
        Err(why) => (Verdict::Wrong, why.lines().map(str::trim).collect::<Vec<_>>().join(" "), draft),
    }
}

/// [`judge`], told on the terminal.
fn judged(known: &Known, name: &str, id: String) -> (String, Verdict, Draft) {
    let (verdict, why, draft) = judge(known, name, &id);
    let (nearest, questions, cost) = (&draft.nearest, draft.questions.len(), draft.fit.cost());
    println!("{name}: {verdict:?}, from {nearest}, {questions} questions, cost {cost}; {why}");
    (id, verdict, draft)
}

#[test]
fn the_table_says_which_drafts_are_right() {
    let known = Known::new();
    let built_in = |id: &str| known.environment.architecture(id).is_some();
    let only = std::env::var("MENAGERIE_ONLY").ok();
    let mut fixtures = entries();
    fixtures.retain(|(name, id)| built_in(id) && only.as_ref().is_none_or(|only| name.contains(only)));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let known = &known;
    let judged: Vec<(String, Verdict, Draft)> = std::thread::scope(|scope| {
        let part = |worker: usize| {
            let own: Vec<(String, String)> = fixtures.iter().skip(worker).step_by(workers).cloned().collect();
            scope
                .spawn(move || own.into_iter().map(|(name, id)| judged(known, &name, id)).collect::<Vec<_>>())
        };
        let parts: Vec<_> = (0..workers).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    let mut verdicts: BTreeMap<String, (Verdict, String, usize)> = BTreeMap::new();
    for (id, verdict, draft) in judged {
        let questions = draft.questions.len();
        let old = verdicts.entry(id).or_insert((verdict, draft.nearest.clone(), questions));
        old.2 = old.2.max(questions);
        // Of fixtures that come out alike the first name counts, whichever thread was done first.
        if (verdict, std::cmp::Reverse(&draft.nearest)) > (old.0, std::cmp::Reverse(&old.1)) {
            (old.0, old.1) = (verdict, draft.nearest);
        }
    }
    let count = |wanted: Verdict| verdicts.values().filter(|(verdict, ..)| *verdict <= wanted).count();
    let counts = [Verdict::Right, Verdict::Answered, Verdict::Written, Verdict::Wrong].map(count);
    println!("{counts:?}: right as they come, with answers, with a component written, all");
    if only.is_some() {
        return;
    }
    let text = table(&verdicts, counts);
    let page = root().join("docs/leave-one-out.md");
    if std::env::var_os("MENAGERIE_WRITE_GENERATED").is_some() {
        std::fs::write(&page, &text).unwrap();
    }
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(written, text, "docs/leave-one-out.md differs; write it with MENAGERIE_WRITE_GENERATED=1");
}

fn table(
    verdicts: &BTreeMap<String, (Verdict, String, usize)>,
    [right, answered, written, all]: [usize; 4],
) -> String {
    let percent = |count: usize| count * 100 / all.max(1);
    let mut text = format!(
        "# Leave one out\n\n\
         How far `menagerie spec new MODEL` gets with an architecture that has no spec. For every architecture of the zoo, its\n\
         own spec is hidden, a spec is drafted from the keys and tensors of its fixtures, and the logits of all of them are\n\
         compared with the reference (tolerance {TOLERANCE:e}).\n\n\
         | result | meaning |\n|---|---|\n\
         | as it comes | the draft is right without a change |\n\
         | with answers | it is right once the questions that it marks have the answers of the hidden spec |\n\
         | with a component | one of these questions is the form of the mixer, feed-forward or norm, because no known form fits; the answer is the whole section |\n\n\
         Generated and tested by `cargo test -p menagerie-cli --test leave_one_out`.\n\n\
         **{right} of {all} ({} %) are right as they come, {answered} ({} %) with answers, {written} ({} %) if the answers may include\n\
         a component of a new form.**\n\n\
         | architecture | drafted from | questions | result |\n|---|---|---|---|\n",
        percent(right),
        percent(answered),
        percent(written),
    );
    for (id, (verdict, nearest, questions)) in verdicts {
        let verdict = match verdict {
            Verdict::Right => "as it comes",
            Verdict::Answered => "with answers",
            Verdict::Written => "with a component",
            Verdict::Wrong => "no",
        };
        let _ = writeln!(text, "| `{id}` | `{nearest}` | {questions} | {verdict} |");
    }
    text
}
