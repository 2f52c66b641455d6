//! The summary of a model, in about fifteen lines.

use crate::arguments::sampling::sampling_line;
use crate::failure::Failure;
use crate::listing::plugin_parts::parts_of;
use crate::output;
use crate::output::bytes as readable_bytes;
use menagerie::assembly::Assembly;
use menagerie::engine::{DEFAULT_CHUNK, KvType, SamplingOptions};
use menagerie::loaders::{Tokenizer, TokenizerOptions, TokenizerTables};
use menagerie::model::PoolOptions;
use menagerie::open::{ResolvedFile, available_memory};
use menagerie::spec::MetadataValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names and values, one line each.
pub(crate) type SummaryLines = Vec<(&'static str, String)>;

/// Context lengths for the table of memory, in tokens, up to the training context.
const CONTEXTS: [usize; 6] = [2048, 8192, 32768, 131_072, 262_144, 1_048_576];

/// The summary of a model; `tables` are the tables for its tokenizer.
pub(crate) fn lines(
    resolved: &ResolvedFile,
    assembly: &Assembly,
    tables: Arc<TokenizerTables>,
) -> SummaryLines {
    let config = resolved.config();
    let from_spec = resolved.resolution.from_spec_only().len();
    let ignored = assembly.ignored.len() + resolved.resolution.coverage.ignored.len();
    let mut lines = Vec::new();
    if let Some(name) = resolved.file.name() {
        lines.push(("name", name.to_owned()));
    }
    let layers = format!("{}, width {}", config.layers.len(), config.embedding_length);
    let million = assembly.parameters() as f64 / 1e6;
    let trained = config
        .context_length
        .map_or("not stated".to_owned(), |tokens| format!("{tokens} tokens in training"));
    lines.push(("architecture", format!("{}, {}", config.architecture, resolved.origin)));
    lines.push(("parameters", format!("{million:.3} million")));
    lines.push(("layers", layers));
    lines.push(("file", format!("{}; {}", readable_bytes(resolved.file.bytes()), types_line(assembly))));
    lines.push(("context", trained));
    lines.extend(parts_of(resolved).iter().map(|part| ("plugin", part.line())));
    lines.extend(text_lines(resolved, tables));
    if let Some(license) = text_key(resolved, "general.license") {
        lines.push(("license", license));
    }
    lines.push(("sampling", sampling_text(resolved)));
    lines.push(("memory", memory_line(resolved, assembly)));
    if let Some(by) = &resolved.spec.provenance {
        lines.push(("reference", format!("{} ({}); covers {}", by.source, by.reference, by.covers)));
    }
    let values = output::counted(from_spec, "value");
    lines.push(("from the spec", format!("{values} that only logits can verify (--values lists them)")));
    lines.push(("ignored", format!("{ignored} keys and tensors (--ignored lists them with the reasons)")));
    lines
}

/// Tokenizer and chat template.
fn text_lines(resolved: &ResolvedFile, tables: Arc<TokenizerTables>) -> SummaryLines {
    let config = resolved.config();
    let options = TokenizerOptions::default().with_pre(config.tokenizer.pre.as_deref()).with_tables(tables);
    let tokenizer = match resolved.file.tokenizer(&options) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return vec![("vocabulary", format!("cannot be used: {error}"))],
    };
    let template = match (resolved.file.chat_template(&tokenizer), &config.chat_fallback) {
        (Ok(Some(template)), _) => format!("in the file, {} characters", template.source().chars().count()),
        (Ok(None), Some(_)) => "from the spec".to_owned(),
        (Ok(None), None) => "none (a base model: run --raw, or --chat-template FILE)".to_owned(),
        (Err(error), _) => format!("cannot be used: {error}"),
    };
    vec![("vocabulary", vocabulary_line(&tokenizer)), ("chat template", template)]
}

/// The default sampling options of `run` and `chat`.
fn sampling_text(resolved: &ResolvedFile) -> String {
    match resolved.sampling() {
        Ok((options, _)) if options == SamplingOptions::default() => {
            format!("{} (the file states none)", sampling_line(&options))
        }
        Ok((options, _)) => format!("{} (partly from the file)", sampling_line(&options)),
        Err(error) => format!("cannot be used: {error}"),
    }
}

fn vocabulary_line(tokenizer: &Tokenizer) -> String {
    let pre = tokenizer.pre().map(|pre| format!(" ({pre})")).unwrap_or_default();
    let mut line = format!("{} tokens, {}{pre}", tokenizer.vocab_size(), tokenizer.model());
    for (name, id) in [("BOS", tokenizer.bos()), ("EOS", tokenizer.eos())] {
        if let Some(text) = id.and_then(|id| tokenizer.token_text(id).ok()) {
            line.push_str(&format!("; {name} {text}"));
        }
    }
    line
}

fn text_key(resolved: &ResolvedFile, key: &str) -> Option<String> {
    match resolved.file.keys(&resolved.spec).ok()?.get(key)? {
        MetadataValue::Text(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// Types of the weights, largest share first.
fn types_line(assembly: &Assembly) -> String {
    let types = types(assembly);
    let mut sorted: Vec<(&String, u64)> = types.iter().map(|(kind, (_, bytes))| (kind, *bytes)).collect();
    sorted.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let total = assembly.weight_bytes().max(1);
    let share = |(kind, bytes): &(&String, u64)| format!("{kind} {} %", bytes * 100 / total);
    sorted.iter().take(3).map(share).collect::<Vec<_>>().join(", ")
}

/// Number of tensors and bytes by type.
pub(crate) fn types(assembly: &Assembly) -> BTreeMap<String, (usize, u64)> {
    let mut types = BTreeMap::new();
    for claim in &assembly.claims {
        let (count, bytes) = types.entry(claim.tensor.kind.clone()).or_insert((0, 0));
        *count += 1;
        *bytes += claim.tensor.bytes;
    }
    types
}

/// The size of the weights, the total with a full context, and the free memory.
fn memory_line(resolved: &ResolvedFile, assembly: &Assembly) -> String {
    let contexts = contexts(resolved);
    let weights = assembly.weight_bytes();
    let at = contexts.last().and_then(|&context| {
        let state = state(assembly, KvType::F16, context).ok()?;
        Some(format!("; {} with a KV cache of {context} tokens in f16", readable_bytes(weights + state)))
    });
    let free = available_memory().map(|free| format!("; {} free", readable_bytes(free)));
    format!("{} for weights{}{}", readable_bytes(weights), at.unwrap_or_default(), free.unwrap_or_default())
}

/// Bytes of the state of one sequence.
pub(crate) fn state(assembly: &Assembly, kind: KvType, context: usize) -> Result<u64, Failure> {
    let room = PoolOptions::one_sequence(kind, context).with_step_tokens(DEFAULT_CHUNK);
    Ok(room.memory(assembly.body().stack.states())?)
}

/// Common context lengths up to the training context, and the training context.
pub(crate) fn contexts(resolved: &ResolvedFile) -> Vec<usize> {
    let trained = resolved.config().context_length.unwrap_or(CONTEXTS[2]);
    let mut contexts: Vec<usize> = CONTEXTS.into_iter().filter(|&context| context < trained).collect();
    contexts.push(trained);
    contexts
}

/// Bytes of weights and state by context and cache type; `-` for a type that the heads do not support.
pub(crate) fn memory_rows(resolved: &ResolvedFile, assembly: &Assembly) -> Vec<Vec<String>> {
    let cell = |context: usize, kind: KvType| {
        let state = state(assembly, kind, context);
        state.map_or_else(|_| "-".to_owned(), |state| readable_bytes(assembly.weight_bytes() + state))
    };
    let row = |context: usize| {
        let kinds = [KvType::F32, KvType::F16, KvType::Q8_0];
        std::iter::once(context.to_string()).chain(kinds.map(|kind| cell(context, kind))).collect()
    };
    contexts(resolved).into_iter().map(row).collect()
}
