//! Hooks of plugins between the layers of a model: what they are shown, what takes the place of rows, what is refused.
#![allow(missing_docs, clippy::unwrap_used)]

use menagerie::engine::{Arithmetic, HookKind, NamedHook, Request, SchedulerOptions, TextPipeline};
use menagerie::measure::{LogitsOptions, logits};
use menagerie::model::{Effect, HookInput, InferenceStep, LayerHook, ModelError, Phases, Rows, SequenceRows};
use menagerie::open::{Device, LoadOptions, LoadedModel, ModelBuilder};
use menagerie_candle::CandleBackend;
use menagerie_layer_hooks::NormClamp;
use menagerie_plugin_host::{LoadedPlugin, OutputCheck, watch};
use menagerie_plugin_tests::{Probe, library_beside, with_loaded, with_plugin};
use menagerie_testkit::assert_close;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The probe under a name of its own. One test at a time: how closely outputs are looked at is the process's.
fn probe(author: &str) -> (&'static LoadedPlugin, MutexGuard<'static, ()>) {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().unwrap();
    let file = Probe::named(author).save(folder.path(), "probe.so");
    (with_plugin(&file).1, turn)
}

/// The examples.
fn examples() -> &'static LoadedPlugin {
    static LOADED: OnceLock<&'static LoadedPlugin> = OnceLock::new();
    LOADED.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooks.so");
        std::fs::copy(library_beside("menagerie_layer_hooks"), &file).unwrap();
        with_plugin(&file).1
    })
}

fn model() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/base/llama/model-f32.gguf")
}

fn open() -> LoadedModel<TextPipeline> {
    let options = LoadOptions::default().with_threads(2);
    ModelBuilder::new(model()).with_options(&options).open_text().unwrap()
}

/// A hook of one of the plugins.
fn named(hook: &str) -> Result<NamedHook, String> {
    NamedHook::parse(hook, with_loaded().entries())
}

/// The model with a plugin's hook.
fn hooked(hook: &str) -> LoadedModel<TextPipeline> {
    let mut pipeline = open();
    pipeline.add_named_hook(&named(hook).unwrap()).unwrap();
    pipeline
}

fn layers() -> usize {
    open().engine().model.shape().n_layers
}

fn tokens() -> Vec<u32> {
    (0..40).map(|at| at * 7 % 90 + 3).collect()
}

/// What a step of two tokens fails with.
fn told(pipeline: &TextPipeline) -> String {
    let told = logits(pipeline, &[1, 2, 3], &LogitsOptions::default());
    told.map(|_| "it went well".to_owned()).unwrap_or_else(|error| error.to_string())
}

fn bits(pipeline: &TextPipeline, chunk: Option<usize>, decode_from: Option<usize>) -> Vec<u32> {
    let asked = LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from);
    let logits = logits(pipeline, &tokens(), &asked).unwrap();
    logits.values.into_iter().map(f32::to_bits).collect()
}

/// Ways in which tokens come: at once, 32 and then 8, 5 at a time, one at a time, fed back.
const WAYS: [(Option<usize>, Option<usize>); 5] =
    [(None, None), (Some(32), None), (Some(5), None), (Some(1), None), (None, Some(6))];

/// What a plugin's hook does, in this process.
struct Twin {
    layers: Range<usize>,
    phases: Phases,
    before: Option<fn(&SequenceRows, usize, f32) -> f32>,
    after: Option<NormClamp>,
}

impl LayerHook for Twin {
    fn name(&self) -> &str {
        "twin"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn phases(&self) -> Phases {
        self.phases
    }

    fn effect(&self) -> Effect {
        Effect::Replaces("as the plugin".to_owned())
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        let Some(change) = self.before else { return Ok(None) };
        let cols = shown.rows.cols();
        let mut values = shown.compute.backend.read(shown.rows)?.into_owned();
        for part in shown.layout.sequences() {
            for row in part.rows.clone() {
                values[row * cols..(row + 1) * cols]
                    .iter_mut()
                    .for_each(|x| *x = change(part, row - part.rows.start, *x));
            }
        }
        shown.compute.backend.upload(values, cols).map(Some)
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        let Some(clamp) = &self.after else { return Ok(None) };
        let cols = shown.rows.cols();
        let values = shown.compute.backend.read(shown.rows)?;
        let mut made = vec![0.0; values.len()];
        values.chunks(cols).zip(made.chunks_mut(cols)).for_each(|(x, y)| clamp.apply(x, y));
        shown.compute.backend.upload(made, cols).map(Some)
    }
}

fn with_twin(twin: Twin) -> LoadedModel<TextPipeline> {
    let mut pipeline = open();
    pipeline.add_hook(Arc::new(twin));
    pipeline
}

#[test]
fn rows_of_a_plugin_are_those_of_the_same_function_in_this_process() {
    examples();
    let bare = bits(&open(), None, None);
    let all = 0..layers();
    for (most, range, asked) in
        [(0.05, all.clone(), ""), (0.2, 1..2, ",layers=1"), (0.3, 0..2, ",layers=0-1")]
    {
        let plugin = hooked(&format!("menagerie/layer-hooks:norm-clamp=most={most}{asked}"));
        let clamp = Some(NormClamp::new(most));
        let twin = with_twin(Twin { layers: range, phases: Phases::All, before: None, after: clamp });
        let expected = bits(&twin, None, None);
        assert_ne!(expected, bare, "{most}: the bound does nothing");
        for (chunk, decode_from) in WAYS {
            assert!(bits(&plugin, chunk, decode_from) == expected, "{most}, {chunk:?}, {decode_from:?}");
        }
    }
    // No row is that large: nothing changes, bit for bit.
    assert_eq!(bits(&hooked("menagerie/layer-hooks:norm-clamp=most=1e30"), None, None), bare);
}

#[test]
fn a_hook_for_what_is_generated_is_called_for_nothing_else() {
    let (_, _turn) = probe("decod");
    let plugin = hooked("decod/parts:adding=amount=0.5");
    let add = |part: &SequenceRows, row: usize, x: f32| x + 0.5 * ((part.first_position + row) % 3) as f32;
    let twin =
        with_twin(Twin { layers: 0..layers(), phases: Phases::Decode, before: Some(add), after: None });
    let bare = bits(&open(), None, None);
    for (chunk, decode_from) in WAYS {
        let (found, expected) = (bits(&plugin, chunk, decode_from), bits(&twin, chunk, decode_from));
        assert!(found == expected, "{chunk:?}, {decode_from:?}");
        assert_eq!(found == bare, decode_from.is_none());
    }
}

/// Sequences that share steps, one decoding while the prompt of the other comes in chunks.
fn together(pipeline: &TextPipeline, prompts: [&[u32]; 2], length: usize) -> Vec<Vec<u32>> {
    let room = SchedulerOptions::default()
        .with_sequences(2)
        .with_prefixes(0)
        .with_capacity_tokens(128)
        .with_step_tokens(8);
    let mut queue = pipeline.queue(room).unwrap();
    let request = Request::greedy(length).with_ignore_eos(true);
    for prompt in prompts {
        queue.submit(prompt, &request);
    }
    queue.run(|_, _| {}).into_iter().map(|(_, outcome)| outcome.unwrap().tokens).collect()
}

/// What [`Between`] saw, as the probe's `row-log` writes it.
#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl Seen {
    fn note(&self, point: &str, shown: &HookInput) {
        let values = shown.compute.backend.read(shown.rows).unwrap();
        let rows: Vec<&[f32]> = values.chunks(shown.rows.cols()).collect();
        for part in shown.layout.sequences() {
            let [pool, number] = part.sequence.numbers();
            let decodes = matches!(part.step, InferenceStep::Decode { .. });
            let phase = if decodes { "Decode" } else { "Prefill" };
            for row in part.rows.clone() {
                let place = part.first_position + row - part.rows.start;
                let bits = [rows[row][0].to_bits(), rows[row][rows[row].len() - 1].to_bits()];
                let layer = shown.layer;
                self.0
                    .lock()
                    .unwrap()
                    .push(format!("{point} {layer} {pool}/{number} {place} {place} {phase} {bits:x?}"));
            }
        }
    }
}

impl LayerHook for Seen {
    fn name(&self) -> &str {
        "seen"
    }

    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }

    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        self.note("Before", shown);
        Ok(None)
    }

    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>, ModelError> {
        self.note("After", shown);
        Ok(None)
    }
}

#[test]
fn an_observer_is_shown_every_row_once() {
    let (_, _turn) = probe("looks");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.txt");
    let (first, second): (Vec<u32>, Vec<u32>) = ((1..8).collect(), (20..43).collect());
    let bare = together(&open(), [&first, &second], 6);
    let mut pipeline = hooked(&format!("looks/parts:row-log=file={}", file.display()));
    let width = pipeline.engine().model.shape().embedding_length;
    let seen = Arc::new(Seen::default());
    pipeline.add_hook(Arc::<Seen>::clone(&seen));
    assert!(pipeline.hooks().layers.effects().is_empty(), "what only looks changes no state");
    assert_eq!(together(&pipeline, [&first, &second], 6), bare);
    assert!(!file.exists());
    drop(pipeline);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines = text.lines();
    // Of the whole model, and of no layer.
    assert_eq!(lines.next().unwrap(), format!("{} {width} None", layers()));
    let (found, expected): (Vec<&str>, _) = (lines.collect(), seen.0.lock().unwrap().clone());
    assert_eq!(found, expected);
    let places: BTreeSet<String> =
        found.iter().map(|line| line.split(' ').take(4).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(places.len(), found.len(), "a row was shown twice");
    // The last token that is generated is not fed back.
    let rows = first.len() + second.len() + 2 * 5;
    assert_eq!(found.len(), rows * 2 * layers());
    let decoded = found.iter().filter(|line| line.contains(" Decode ")).count();
    assert_eq!(decoded, 2 * 5 * 2 * layers());
}

#[test]
fn layers_and_phases_that_are_asked_for_are_those_that_are_shown() {
    let (_, _turn) = probe("parts");
    let folder = tempfile::tempdir().unwrap();
    let shown = |asked: &str| {
        let file = folder.path().join("rows.txt");
        let pipeline = hooked(&format!("parts/parts:row-log=file={},{asked}", file.display()));
        together(&pipeline, [&[1, 2, 3], &[4, 5]], 3);
        drop(pipeline);
        let text = std::fs::read_to_string(&file).unwrap();
        let parts = text.lines().skip(1).map(|line| line.split(' ').collect::<Vec<_>>());
        parts.map(|parts| format!("{} {}", parts[1], parts[5])).collect::<BTreeSet<String>>()
    };
    let set = |words: &[&str]| words.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
    assert_eq!(shown("layers=1"), set(&["1 Prefill", "1 Decode"]));
    assert_eq!(shown("layers=0-1,phase=decode"), set(&["0 Decode", "1 Decode"]));
    assert_eq!(shown("phase=prefill").len(), layers());
    assert_eq!(shown("layers=all,phase=all").len(), 2 * layers());
}

#[test]
fn sequences_that_share_steps_get_what_each_gets_alone() {
    examples();
    let pipeline = hooked("menagerie/layer-hooks:norm-clamp=most=0.1");
    let (first, second): (Vec<u32>, Vec<u32>) = ((1..8).collect(), (20..43).collect());
    let both = together(&pipeline, [&first, &second], 8);
    let request = Request::greedy(8).with_ignore_eos(true);
    for (prompt, together) in [&first, &second].into_iter().zip(&both) {
        let mut session = pipeline.session().unwrap();
        assert_eq!(session.generate(prompt, &request, |_| {}).unwrap().tokens, *together);
    }
    assert_ne!(both, self::together(&open(), [&first, &second], 8));
}

/// State that was computed with a hook is not that of another one, of other options, or of none.
#[test]
fn what_state_depends_on_names_the_code_and_the_options() {
    let plugin = examples();
    let effects = |hook: &str| hooked(hook).hooks().layers.effects();
    let one = effects("menagerie/layer-hooks:norm-clamp=most=2");
    let [effect] = one.as_slice() else { panic!("{one:?}") };
    for part in ["menagerie/layer-hooks:norm-clamp", &*plugin.sha256, "most = 2.0"] {
        assert!(effect.contains(part), "{effect}");
    }
    assert_eq!(one, effects("menagerie/layer-hooks:norm-clamp=most=2.0"));
    for other in ["most=3", "most=2,layers=0", "most=2,phase=decode"] {
        assert_ne!(one, effects(&format!("menagerie/layer-hooks:norm-clamp={other}")));
    }
}

#[test]
fn what_is_asked_for_and_is_not_there_is_refused_by_name() {
    let (_, _turn) = probe("asked");
    examples();
    let told = |hook: &str| {
        let installed = named(hook).and_then(|hook| open().add_named_hook(&hook));
        installed.expect_err("it was not refused")
    };
    let last = layers() - 1;
    let cases: [(&str, &[&str]); 14] = [
        ("clamp", &["`clamp` is not a hook", "author/name:hook"]),
        (
            "asked/parts:row-lag",
            &["there is no hook `asked/parts:row-lag`", "asked/parts:row-log", "norm-clamp"],
        ),
        (
            "asked/parts:row-log",
            &["hook `asked/parts:row-log`: the option `file` is required: Where the lines go."],
        ),
        ("asked/parts:adding=loud=1", &["there is no option `loud`; it has amount, note"]),
        ("asked/parts:adding=amount", &["`amount`: expected key=value"]),
        ("asked/parts:adding=amount=much", &["amount = much: expected a number"]),
        ("asked/parts:adding=note=do refuse", &["note = do refuse: as you wish"]),
        ("menagerie/layer-hooks:norm-clamp=most=-1", &["most is -1", "above 0"]),
        ("menagerie/layer-hooks:statistics=file=/no/where.tsv", &["the folder /no does not exist"]),
        (
            "asked/parts:adding=layers=9-10",
            &["layers=9-10: the last layer of this model is ", &last.to_string()],
        ),
        ("asked/parts:adding=layers=1-0", &["layers=1-0: expected A-B, A or all"]),
        ("asked/parts:adding=phase=later", &["phase=later: expected prefill, decode or all"]),
        ("asked/parts:adding=phase=prefill", &["it only runs on generated tokens", "phase=prefill"]),
        ("asked/parts:misbehaving-hook=how=ask-for-state", &["requests a state of a model", "layer-hook"]),
    ];
    for (hook, words) in cases {
        let told = told(hook);
        words.iter().for_each(|word| assert!(told.contains(word), "{hook}: `{word}` is not in: {told}"));
    }
    let environment = with_loaded();
    let kind = environment.entries().get::<HookKind>("asked/parts:adding").unwrap();
    assert_eq!(kind.options[1], ("note", "Of no matter."));
    assert!(kind.registered_by.starts_with("plugin asked/parts 0.1.0"));
}

#[test]
fn a_hook_that_panics_ends_the_request_and_is_not_called_again() {
    let (plugin, _turn) = probe("panic");
    let hook = |how: &str| hooked(&format!("panic/parts:misbehaving-hook=how={how},layers=1"));
    let behaves = hook("behave");
    assert_eq!(told(&behaves), "it went well");
    let panics = hook("panic");
    let error = told(&panics);
    for part in ["layer 1", "`panic/parts:misbehaving-hook`: hook panicked", "layer 1 is not to its taste"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(told(&panics).contains("an earlier call of this instance panicked"));
    assert_eq!(told(&behaves), "it went well", "other instances are not touched");
    assert_eq!(told(&open()), "it went well");
    let create = named("panic/parts:misbehaving-hook=how=panic-in-create").unwrap();
    let error = open().add_named_hook(&create).unwrap_err();
    assert!(error.contains("create panicked") && error.contains("create panics"), "{error}");
    for how in ["panic-twice", "panic"] {
        assert!(told(&hook(how)).contains("hook panicked"));
    }
    assert!(plugin.is_quarantined());
    assert!(told(&behaves).contains("is not run anymore: 3 of its calls"));
}

#[test]
fn a_hook_that_fails_is_told_and_goes_on() {
    let (plugin, _turn) = probe("fails");
    let fails = hooked("fails/parts:misbehaving-hook=how=fail");
    for _ in 0..4 {
        let error = told(&fails);
        assert!(
            error.contains("layer 0")
                && error.contains("`fails/parts:misbehaving-hook`: it is not a good day"),
            "{error}"
        );
    }
    assert!(!plugin.is_quarantined());
}

#[test]
fn rows_that_are_no_numbers_are_named() {
    let (_, _turn) = probe("madly");
    let hook = |how: &str| hooked(&format!("madly/parts:misbehaving-hook=how={how}"));
    // Every row is looked at, not only the last one of a sequence.
    let error = told(&hook("nan-first"));
    for part in
        ["hook madly/parts:misbehaving-hook", "returned NaN in column 1 of row 0 (position 0 of sequence 0)"]
    {
        assert!(error.contains(part), "{error}");
    }
    let error = told(&hook("nan-last"));
    assert!(error.contains("misbehaving-hook`: value 2 of row 2 of its output is inf"), "{error}");
    watch(OutputCheck::EveryRow);
    let error = told(&hook("write-nothing"));
    assert!(error.contains("value 0 of row 0 of its output is NaN, or was never written"), "{error}");
    assert_eq!(told(&hook("behave")), "it went well");
    watch(OutputCheck::LastRows);
}

#[test]
fn an_observer_that_writes_is_found_out_where_a_plugin_is_tried() {
    let (_, _turn) = probe("smear");
    watch(OutputCheck::EveryRow);
    let error = told(&hooked("smear/parts:scribbler"));
    watch(OutputCheck::LastRows);
    assert!(error.contains("`smear/parts:scribbler`: it changed rows that it may only read"), "{error}");
}

/// A plugin that was built before there were hooks has shorter components.
#[test]
fn components_of_the_first_version_are_read_as_before() {
    let _turn = probe("first").1;
    let folder = tempfile::tempdir().unwrap();
    let file = Probe::named("older").ordered("old size").save(folder.path(), "probe.so");
    let plugin = with_plugin(&file).1;
    let old = plugin.components.iter().find(|one| one.name == "older/parts:old").unwrap();
    assert_eq!(old.family, "mixer");
}

/// On another device rows are read back and taken in again.
#[test]
fn on_another_device_a_hook_makes_the_same_of_rows() {
    examples();
    let device = Device::Given(Arc::new(CandleBackend::open("candle").unwrap()));
    let options = LoadOptions::default().with_device(device).with_arithmetic(Arithmetic::Exact);
    let mut pipeline = ModelBuilder::new(model()).with_options(&options).open_text().unwrap();
    let hook = named("menagerie/layer-hooks:norm-clamp=most=0.2").unwrap();
    pipeline.add_named_hook(&hook).unwrap();
    let logits =
        |pipeline: &TextPipeline| logits(pipeline, &tokens(), &LogitsOptions::default()).unwrap().values;
    let twin = with_twin(Twin {
        layers: 0..layers(),
        phases: Phases::All,
        before: None,
        after: Some(NormClamp::new(0.2)),
    });
    assert_close("candle", &logits(&pipeline), &logits(&twin), 1e-4);
}
