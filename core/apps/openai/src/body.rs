//! [`RequestBody`]: the fields of a request line. Every field is either used or refused with an error that names it.

use menagerie::engine::{ChainStage, Request, SamplingOptions};
use serde_json::{Map, Value};
use std::fmt;

/// The reason why a line gets an error instead of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct LineFault {
    /// An HTTP status: 400 for an error in the line, 500 for an error of the model.
    pub status: u16,
    /// The reason.
    pub message: String,
    /// The field that has the error.
    pub field: Option<String>,
}

impl LineFault {
    /// An error in a field.
    pub fn of(field: &str, reason: impl fmt::Display) -> Self {
        Self { status: 400, message: format!("{field}: {reason}"), field: Some(field.to_owned()) }
    }

    /// An error in the line as a whole.
    pub fn whole(reason: impl fmt::Display) -> Self {
        Self { status: 400, message: reason.to_string(), field: None }
    }

    /// An error while the line was computed.
    pub fn while_running(reason: impl fmt::Display) -> Self {
        Self { status: 500, message: reason.to_string(), field: None }
    }
}

/// Why a field that nothing reads is refused.
pub const UNSUPPORTED_FIELD: &str = "this field is not supported; remove it from the request";

/// Refuses fields of an inner object other than these.
pub(crate) fn only_fields(place: &str, fields: &Map<String, Value>, known: &[&str]) -> Result<(), LineFault> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(LineFault::of(&format!("{place}.{name}"), UNSUPPORTED_FIELD)),
        None => Ok(()),
    }
}

/// The fields that have not been read yet; `model`, and fields that are null, are left out.
pub struct RequestBody(Map<String, Value>);

impl RequestBody {
    /// A body with these fields for a model that is known.
    pub fn new(mut fields: Map<String, Value>) -> Self {
        fields.retain(|name, value| !value.is_null() && name != "model");
        Self(fields)
    }

    /// Removes and returns a field.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }

    /// Whether the body has a field.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Removes and returns a number.
    fn number(&mut self, name: &str) -> Result<Option<f32>, LineFault> {
        let number = |value: Value| value.as_f64().map(|value| value as f32).ok_or(value);
        self.take(name)
            .map(number)
            .transpose()
            .map_err(|found| LineFault::of(name, format!("{found} is not a number")))
    }

    /// Removes and returns a count.
    ///
    /// # Errors
    /// The field is not a whole number from 0.
    pub fn count(&mut self, name: &str) -> Result<Option<usize>, LineFault> {
        // Some clients write every number with a fraction.
        let whole =
            |value: f64| (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64);
        let number = |value: &Value| value.as_u64().or_else(|| whole(value.as_f64()?));
        let count = |value: Value| number(&value).and_then(|count| usize::try_from(count).ok()).ok_or(value);
        let wrong = |found| LineFault::of(name, format!("{found} is not a whole number from 0"));
        self.take(name).map(count).transpose().map_err(wrong)
    }

    /// Removes and returns a limit of tokens, as llama.cpp's server means it: a negative one is none.
    fn limit(&mut self, name: &str) -> Result<Option<usize>, LineFault> {
        let is_none = |value: &Value| value.as_i64().is_some_and(|limit| limit < 0);
        if self.0.get(name).is_some_and(is_none) {
            self.take(name);
        }
        self.count(name)
    }

    /// The text of a field, if it is a string.
    pub fn text(&self, name: &str) -> Option<String> {
        self.0.get(name).and_then(Value::as_str).map(str::to_owned)
    }

    /// Removes and returns a boolean.
    ///
    /// # Errors
    /// The field is not a boolean.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, LineFault> {
        let flag = |value: Value| value.as_bool().ok_or(value);
        self.take(name)
            .map(flag)
            .transpose()
            .map_err(|found| LineFault::of(name, format!("{found} is not true or false")))
    }

    /// Removes a field that may only have values that agree with what is done anyway.
    fn only(&mut self, name: &str, allowed: &[Value]) -> Result<(), LineFault> {
        match self.take(name) {
            Some(found) if !allowed.contains(&found) => {
                let names: Vec<String> = allowed.iter().map(Value::to_string).collect();
                Err(LineFault::of(name, format!("{found} is not supported, only {}", names.join(" or "))))
            }
            _ => Ok(()),
        }
    }

    /// The sampling and stop options, with `defaults` for the rest.
    ///
    /// # Errors
    /// The value of a field is invalid.
    pub fn request(&mut self, defaults: &Request) -> Result<Request, LineFault> {
        let mut request = defaults.clone();
        let sampling = &mut request.sampling;
        for (name, slot) in [
            ("temperature", &mut sampling.temperature),
            ("top_p", &mut sampling.top_p),
            ("min_p", &mut sampling.min_p),
            ("typical_p", &mut sampling.typical_p),
            ("repeat_penalty", &mut sampling.repeat_penalty),
            ("presence_penalty", &mut sampling.presence_penalty),
            ("frequency_penalty", &mut sampling.frequency_penalty),
        ] {
            if let Some(number) = self.number(name)? {
                *slot = number;
            }
        }
        // An alias of `repeat_penalty`.
        sampling.repeat_penalty = self.number("repetition_penalty")?.unwrap_or(sampling.repeat_penalty);
        self.add_samplers(sampling)?;
        sampling.top_k = self.count("top_k")?.unwrap_or(sampling.top_k);
        if let Some(seed) = self.take("seed") {
            let bits = seed.as_u64().or_else(|| seed.as_i64().map(|seed| seed as u64));
            sampling.seed =
                Some(bits.ok_or_else(|| LineFault::of("seed", format!("{seed} is not a whole number")))?);
        }
        if let Some(biases) = self.take("logit_bias") {
            sampling.logit_bias.extend(biases_of(&biases)?);
        }
        let most =
            [self.count("max_completion_tokens")?, self.count("max_tokens")?, self.limit("n_predict")?];
        request.max_tokens = most.into_iter().flatten().next().or(request.max_tokens);
        request.min_tokens = self.count("min_tokens")?.unwrap_or(request.min_tokens);
        request.min_indent = self.count("n_indent")?.unwrap_or(request.min_indent);
        if let Some(ids) = self.take("stop_token_ids") {
            request.stop_tokens = ids_of(&ids).ok_or_else(|| {
                LineFault::of("stop_token_ids", format!("{ids} is not a list of token ids"))
            })?;
        }
        if let Some(stop) = self.take("stop") {
            request.stop = stops_of(&stop)?;
        }
        request.reasoning_budget = self.count("thinking_budget_tokens")?.or(request.reasoning_budget);
        request.ignore_eos = self.flag("ignore_eos")?.unwrap_or(request.ignore_eos);
        request.sampling.check().map_err(LineFault::whole)?;
        Ok(request)
    }

    /// Adds fields of sampling that OpenAI's interface does not have, named as in llama.cpp's server.
    fn add_samplers(&mut self, sampling: &mut SamplingOptions) -> Result<(), LineFault> {
        for (name, slot) in [
            ("dry_multiplier", &mut sampling.dry_multiplier),
            ("dry_base", &mut sampling.dry_base),
            ("xtc_probability", &mut sampling.xtc_probability),
            ("xtc_threshold", &mut sampling.xtc_threshold),
        ] {
            if let Some(number) = self.number(name)? {
                *slot = number;
            }
        }
        for (name, slot) in
            [("dry_allowed_length", &mut sampling.dry_allowed_length), ("min_keep", &mut sampling.min_keep)]
        {
            if let Some(count) = self.count(name)? {
                *slot = count;
            }
        }
        for (name, slot) in
            [("repeat_last_n", &mut sampling.repeat_last_n), ("dry_penalty_last_n", &mut sampling.dry_last_n)]
        {
            if let Some(last) = self.take(name) {
                let count = last.as_i64().filter(|count| *count >= -1);
                *slot = count
                    .ok_or_else(|| LineFault::of(name, format!("{last} is not a whole number from -1")))?;
            }
        }
        if let Some(names) = self.take("samplers") {
            sampling.order = Some(stages_of(&names)?);
        }
        if let Some(breakers) = self.take("dry_sequence_breakers") {
            let wrong = || LineFault::of("dry_sequence_breakers", "expected a list of strings");
            let text = |text: &Value| text.as_str().map(str::to_owned);
            let breakers = breakers.as_array().ok_or_else(wrong)?;
            sampling.dry_breakers = breakers.iter().map(text).collect::<Option<_>>().ok_or_else(wrong)?;
        }
        Ok(())
    }

    /// Log probabilities of a chat completion: `logprobs` enables them, `top_logprobs` is the number of alternatives.
    ///
    /// # Errors
    /// The value of a field is invalid.
    pub fn chat_logprobs(&mut self) -> Result<Option<usize>, LineFault> {
        let (wanted, top) = (self.flag("logprobs")?, self.count("top_logprobs")?);
        match (wanted, top) {
            (Some(true), top) => Ok(Some(top.unwrap_or(0))),
            (_, Some(1..)) => Err(LineFault::of("top_logprobs", "requires \"logprobs\": true")),
            _ => Ok(None),
        }
    }

    /// Refuses requests for other forms of answers, and fields that nothing has read.
    ///
    /// # Errors
    /// The field that is not supported.
    pub fn finish(mut self) -> Result<(), LineFault> {
        use serde_json::json;
        self.only("stream", &[json!(false)])?;
        self.only("echo", &[json!(false)])?;
        self.only("best_of", &[json!(1)])?;
        self.only("modalities", &[json!(["text"])])?;
        match self.0.keys().next() {
            Some(name) => Err(LineFault::of(name, UNSUPPORTED_FIELD)),
            None => Ok(()),
        }
    }
}

fn biases_of(biases: &Value) -> Result<Vec<(u32, f32)>, LineFault> {
    let wrong = |reason: String| LineFault::of("logit_bias", reason);
    let Some(biases) = biases.as_object() else {
        return Err(wrong("expected an object whose keys are token ids".to_owned()));
    };
    let one = |(id, bias): (&String, &Value)| {
        let id: u32 = id.parse().map_err(|_| wrong(format!("`{id}` is not a token id")))?;
        let bias = bias.as_f64().ok_or_else(|| wrong(format!("the bias {bias} is not a number")))?;
        // -100 forbids a token, 100 makes it the only one (OpenAI's reference).
        Ok((id, if bias <= -100.0 { f32::NEG_INFINITY } else { bias as f32 }))
    };
    biases.iter().map(one).collect()
}

/// Token ids in a list.
fn ids_of(list: &Value) -> Option<Vec<u32>> {
    list.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

/// The stages of sampling that a list names, in its order.
fn stages_of(names: &Value) -> Result<Vec<ChainStage>, LineFault> {
    let known = || ChainStage::ALL.map(ChainStage::name).join(", ");
    let wrong = |reason: String| LineFault::of("samplers", reason);
    let Some(names) = names.as_array() else {
        return Err(wrong(format!("{names} is not a list of names ({})", known())));
    };
    let mut stages = Vec::new();
    for name in names {
        let stage = ChainStage::ALL.into_iter().find(|stage| name == stage.name());
        let stage =
            stage.ok_or_else(|| wrong(format!("there is no sampler {name}; there are: {}", known())))?;
        if stages.contains(&stage) {
            return Err(wrong(format!("{name} is listed twice")));
        }
        stages.push(stage);
    }
    Ok(stages)
}

fn stops_of(stop: &Value) -> Result<Vec<String>, LineFault> {
    let list = stop.as_array().cloned().unwrap_or_else(|| vec![stop.clone()]);
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let texts: Option<Vec<String>> = list.iter().map(text).collect();
    texts.ok_or_else(|| LineFault::of("stop", "expected a string or a list of strings, none of them empty"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(value: Value) -> RequestBody {
        RequestBody::new(value.as_object().unwrap().clone())
    }

    #[test]
    fn fields_are_honored() {
        let mut body = body(json!({
            "model": "any", "temperature": 0.5, "top_p": 0.25, "top_k": 7, "presence_penalty": -1.5,
            "frequency_penalty": 2, "seed": -1, "max_completion_tokens": 9, "max_tokens": 11, "stop": "END",
            "logit_bias": { "5": -100, "6": 2.5 }, "logprobs": true, "top_logprobs": 3, "stream": false,
            "tools": null,
        }));
        let request = body.request(&Request::default()).unwrap();
        let sampling = &request.sampling;
        assert_eq!((sampling.temperature, sampling.top_p, sampling.top_k), (0.5, 0.25, 7));
        assert_eq!((sampling.presence_penalty, sampling.frequency_penalty), (-1.5, 2.0));
        assert_eq!(sampling.logit_bias, [(5, f32::NEG_INFINITY), (6, 2.5)]);
        assert_eq!((sampling.seed, request.max_tokens), (Some(u64::MAX), Some(9)));
        assert_eq!((request.stop, body.chat_logprobs()), (vec!["END".to_owned()], Ok(Some(3))));
        body.finish().unwrap();
    }

    #[test]
    fn minima_and_stop_tokens_are_those_of_vllm() {
        let mut fields =
            body(json!({ "min_tokens": 3, "stop_token_ids": [7, 9], "n_indent": 4, "n_predict": 8 }));
        let request = fields.request(&Request::default()).unwrap();
        fields.finish().unwrap();
        assert_eq!((request.min_tokens, request.stop_tokens, request.min_indent), (3, vec![7, 9], 4));
        assert_eq!(request.max_tokens, Some(8));
        let unlimited = body(json!({ "n_predict": -1 })).request(&Request::default()).unwrap();
        assert_eq!(unlimited.max_tokens, None);
    }

    #[test]
    fn samplers_are_chosen_by_name_and_in_order() {
        let order = |names: Value| {
            body(json!({ "samplers": names }))
                .request(&Request::default())
                .map(|request| request.sampling.order)
        };
        // As llama.vim sends them.
        let stages = vec![ChainStage::TopK, ChainStage::TopP, ChainStage::Infill];
        assert_eq!(order(json!(["top_k", "top_p", "infill"])), Ok(Some(stages)));
        assert_eq!(order(json!([])), Ok(Some(Vec::new())));
        for (wrong, word) in [
            (json!(["top_k", "adaptive_p"]), "adaptive_p"),
            (json!(["top_k", "top_k"]), "twice"),
            (json!("kp"), "list of names"),
            (json!([1]), "no sampler 1"),
        ] {
            let fault = order(wrong).unwrap_err();
            assert!(fault.field.as_deref() == Some("samplers") && fault.message.contains(word), "{fault:?}");
        }
    }

    #[test]
    fn what_is_not_honored_is_refused_by_name() {
        for (fields, field) in [
            (json!({ "functions": [] }), "functions"),
            (json!({ "user": "u" }), "user"),
            (json!({ "stop_token_ids": ["a"] }), "stop_token_ids"),
            (json!({ "min_tokens": -1 }), "min_tokens"),
            (json!({ "stream": true }), "stream"),
            (json!({ "temperature": "hot" }), "temperature"),
            (json!({ "max_tokens": -1 }), "max_tokens"),
            (json!({ "seed": 1.5 }), "seed"),
            (json!({ "stop": ["a", 1] }), "stop"),
            (json!({ "logit_bias": { "x": 1 } }), "logit_bias"),
            (json!({ "top_logprobs": 2 }), "top_logprobs"),
        ] {
            let mut body = body(fields.clone());
            let asked = body.request(&Request::default()).and_then(|_| body.chat_logprobs()).map(drop);
            let fault = asked.and_then(|()| body.finish()).unwrap_err();
            assert_eq!((fault.field.as_deref(), fault.status), (Some(field), 400), "{fields}");
        }
        let range = body(json!({ "temperature": -1 })).request(&Request::default()).unwrap_err();
        assert!(range.message.contains("--temp"), "{range:?}");
    }

    #[test]
    fn samplers_of_llama_cpp_are_honored() {
        let mut fields = body(json!({
            "dry_multiplier": 0.5, "dry_base": 2, "dry_allowed_length": 3, "dry_penalty_last_n": -1, "repeat_last_n": 9,
            "dry_sequence_breakers": ["\n"], "xtc_probability": 0.25, "xtc_threshold": 0.125, "min_keep": 2,
        }));
        let sampling = fields.request(&Request::default()).unwrap().sampling;
        fields.finish().unwrap();
        assert_eq!((sampling.dry_multiplier, sampling.dry_base, sampling.dry_allowed_length), (0.5, 2.0, 3));
        assert_eq!((sampling.dry_last_n, sampling.repeat_last_n, sampling.min_keep), (-1, 9, 2));
        assert_eq!((sampling.xtc_probability, sampling.xtc_threshold), (0.25, 0.125));
        assert_eq!(sampling.dry_breakers, ["\n"]);
        for wrong in [json!({ "repeat_last_n": -2 }), json!({ "dry_sequence_breakers": "x" })] {
            assert!(body(wrong.clone()).request(&Request::default()).is_err(), "{wrong}");
        }
    }
}
