//! [`CallFormat`]: how a model writes calls, as data.

use crate::format_fault::CallFormatFault;
use crate::literal::FixedText;
use crate::pattern::{ArgumentForm, Step, check, steps, with_opening};
use menagerie_random::SplitMix64;

/// The texts of a format, as an entry `[[call]]` of the tables has them; `specs/tokenizers/README.md` describes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallKeys {
    /// Its name.
    pub name: String,
    /// Before all calls.
    pub open: String,
    /// The forms of a call, the usual one first.
    pub calls: Vec<String>,
    /// Between two calls.
    pub between: String,
    /// After all calls.
    pub close: String,
    /// The keys of `${object}`.
    pub object: Option<ObjectKeys>,
    /// The form of an argument of `${args}`.
    pub arg: Option<String>,
    /// The form of an argument whose value is JSON.
    pub arg_json: Option<String>,
    /// The quotation mark of `${pairs}`.
    pub quote: Option<String>,
    /// The pattern of ids.
    pub id: Option<String>,
    /// The number of letters and digits of an id, where the template requires one.
    pub id_length: Option<usize>,
    /// A call counts only at the beginning of an answer, because it begins without a marker.
    pub bare: bool,
    /// Whether an answer has at most one call.
    pub single: bool,
    /// Values may be in `<![CDATA[` and `]]>`.
    pub cdata: bool,
}

/// The keys of an object that has a whole call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectKeys {
    /// The key of the name.
    pub name: String,
    /// The key of the arguments.
    pub arguments: String,
    /// The key of the id.
    pub id: Option<String>,
}

/// How a model writes calls of tools. One parser reads every format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFormat {
    keys: CallKeys,
    /// Whole calls, the first of an answer with `open`.
    first: Vec<Vec<Step>>,
    /// Further calls, with and without `between`.
    further: Vec<Vec<Step>>,
    close: FixedText,
    forms: Vec<(ArgumentForm, bool)>,
    /// The forms of a call, without what is around all calls.
    calls: Vec<Vec<Step>>,
}

impl CallFormat {
    /// Compiles the texts of a format.
    ///
    /// # Errors
    /// A pattern cannot be read, or a key is missing that another one requires.
    pub fn new(keys: CallKeys) -> Result<Self, CallFormatFault> {
        let calls: Vec<Vec<Step>> =
            keys.calls.iter().map(|call| steps(call, keys.id.as_deref())).collect::<Result<_, _>>()?;
        let first: Vec<Vec<Step>> = calls.iter().map(|call| with_opening(&keys.open, call)).collect();
        if first.is_empty() {
            return Err(CallFormatFault::Holes);
        }
        for call in &first {
            check(call)?;
            let marked = matches!(call.first(), Some(Step::Fixed(literal)) if !literal.is_blank());
            if !marked && !keys.bare {
                return Err(CallFormatFault::NoMarker);
            }
        }
        let has = |wanted: &Step| first.iter().any(|call| call.contains(wanted));
        for (step, hole, key, given) in [
            (Step::Object, "${object}", "object", keys.object.is_some()),
            (Step::Args, "${args}", "arg", keys.arg.is_some()),
            (Step::Pairs, "${pairs}", "quote", keys.quote.is_some()),
        ] {
            if has(&step) && !given {
                return Err(CallFormatFault::Needs { hole, key });
            }
        }
        let mut forms = Vec::new();
        for (form, json) in [(&keys.arg_json, true), (&keys.arg, false)] {
            if let Some(form) = form {
                forms.push((ArgumentForm::new(form)?, json));
            }
        }
        let mut further: Vec<Vec<Step>> = Vec::new();
        if !keys.single {
            let between = calls.iter().map(|call| with_opening(&keys.between, call));
            further.extend(between.chain(calls.iter().cloned()));
            further.dedup();
        }
        Ok(Self { first, further, close: FixedText::new(&keys.close), forms, keys, calls })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.keys.name
    }

    /// The texts that it is made of.
    pub fn keys(&self) -> &CallKeys {
        &self.keys
    }

    /// The id of the call with this index, for formats without ids of their own, and for templates that require ids of
    /// one form. `salt` makes ids of different answers differ.
    pub fn make_id(&self, name: &str, index: usize, salt: u64) -> String {
        if let Some(id) = &self.keys.id {
            return id.replace("${name}", name).replace("${index}", &index.to_string());
        }
        const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        let mut bits = mixed(salt ^ mixed(index as u64 + 1));
        let mut text = String::new();
        for _ in 0..self.keys.id_length.unwrap_or(16) {
            text.push(char::from(LETTERS[(bits % 36) as usize]));
            bits = mixed(bits);
        }
        if self.keys.id_length.is_some() { text } else { format!("call_{text}") }
    }

    /// The programs of the first call of an answer.
    pub(crate) fn first(&self) -> &[Vec<Step>] {
        &self.first
    }

    /// The programs of calls after another one.
    pub(crate) fn further(&self) -> &[Vec<Step>] {
        &self.further
    }

    /// The forms of a call, without what is around all calls.
    pub(crate) fn forms_of_calls(&self) -> &[Vec<Step>] {
        &self.calls
    }

    /// What follows all calls.
    pub(crate) fn close(&self) -> &FixedText {
        &self.close
    }

    /// Forms of arguments, and whether the value is JSON.
    pub(crate) fn forms(&self) -> &[(ArgumentForm, bool)] {
        &self.forms
    }

    /// The texts with which a first call may begin.
    pub(crate) fn start_words(&self) -> Vec<String> {
        let word = |call: &Vec<Step>| match call.first() {
            Some(Step::Fixed(literal)) => literal.first_word().map(str::to_owned),
            _ => None,
        };
        let mut words: Vec<String> = self.first.iter().filter_map(word).collect();
        words.sort();
        words.dedup();
        words
    }

    /// All texts of the format.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let keys = &self.keys;
        let optional = [&keys.arg, &keys.arg_json, &keys.quote, &keys.id];
        let fixed = [&keys.open, &keys.between, &keys.close];
        let texts = fixed.into_iter().chain(&keys.calls).chain(optional.into_iter().flatten());
        texts.map(String::as_str)
    }
}

/// Mixes the bits of a number.
fn mixed(number: u64) -> u64 {
    SplitMix64::new(number).bits()
}
