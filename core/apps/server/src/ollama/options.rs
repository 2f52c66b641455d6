//! `options`: the parameters of a model, as fields of a completion.

use crate::object_fields::{IgnoredFields, ObjectFields, SAMPLING_FIELDS};
use menagerie_openai::LineFault;
use serde_json::{Map, Value};

/// Options that change no answer: how a model is loaded and computed, which the server decides at its start.
const WITHOUT_EFFECT: [&str; 15] = [
    "num_keep",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "num_thread",
    "low_vram",
    "use_mmap",
    "use_mlock",
    "numa",
    "f16_kv",
    "vocab_only",
    "logits_all",
    "embedding_only",
    "mirostat_eta",
    "mirostat_tau",
];

/// Removes the field `options`, and adds the fields of a completion. A context that is larger than that of the model is
/// refused.
pub(crate) fn sampling_options(
    body: &mut ObjectFields,
    context: usize,
    fields: &mut Map<String, Value>,
    ignored: &mut IgnoredFields,
) -> Result<(), LineFault> {
    let Some(mut options) = body.object("options")? else { return Ok(()) };
    options.pass(&SAMPLING_FIELDS, fields);
    let mut without_effect = IgnoredFields::default();
    options.ignore(&WITHOUT_EFFECT, &mut without_effect);
    options.pass_limit("num_predict", fields)?;
    match options.take("num_ctx").map(|size| size.as_u64().ok_or(size)).transpose() {
        Ok(None) => {}
        Ok(Some(size)) if size <= context as u64 => without_effect.add("num_ctx"),
        Ok(Some(size)) => {
            let reason =
                format!("{size} tokens; the server has a context of {context} for this model (--context)");
            return Err(options.fault("num_ctx", reason));
        }
        Err(other) => return Err(options.fault("num_ctx", format!("{other} is not a whole number from 0"))),
    }
    match options.take("mirostat") {
        None => {}
        Some(off) if off == 0 => without_effect.add("mirostat"),
        Some(_) => return Err(options.fault("mirostat", "this sampler is not supported; leave it out")),
    }
    for name in without_effect.names() {
        ignored.add(&options.place(name));
    }
    options.finish()
}

/// An error with the name that a field has in this interface.
pub(super) fn in_own_terms(fault: LineFault) -> LineFault {
    let field = fault.field.as_deref().unwrap_or_default();
    let own = match field {
        "max_tokens" => "options.num_predict".to_owned(),
        _ if field.starts_with("response_format") => "format".to_owned(),
        _ if SAMPLING_FIELDS.contains(&field) => format!("options.{field}"),
        _ => return fault,
    };
    let message = match fault.message.strip_prefix(field) {
        Some(rest) => format!("{own}{rest}"),
        None => fault.message,
    };
    LineFault { message, field: Some(own), ..fault }
}
