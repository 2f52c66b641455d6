//! Instances outside of models: their options come as text, with a vocabulary for tokenizers.

use crate::component::{ComponentDescription, PluginOption};
use crate::instance::{Instance, InstanceParts};
use crate::plugin::CallFailure;
use crate::texts::{self, leaked};
use menagerie_engine::check_options;
use menagerie_loaders::CodecVocabulary;
use menagerie_plugin::abi::{
    self, Build, ERROR, Header, Linear, OK, OptionDef, StateSpec, Status, Tensor, Text, Token, Vocabulary,
};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{from_ref, null, null_mut};
use std::sync::Arc;

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettingValue {
    Count(usize),
    Real(f32),
    Name(&'static str),
    Text(Arc<str>),
}

/// The values of a component's options, in the order of its table.
pub(crate) type OptionValues = Vec<(&'static str, SettingValue)>;

/// The context of an instance outside of a model.
#[derive(Default)]
pub(crate) struct DetachedContext {
    /// Tokens that it may read during its life.
    pub(crate) vocabulary: Option<Arc<CodecVocabulary>>,
    /// Blocks of the model; 0 without a model.
    pub(crate) layers: usize,
    /// Elements of the rows between them.
    pub(crate) width: usize,
}

/// A call of `create` for an instance outside of a model.
struct DetachedBuild<'a> {
    described: &'static ComponentDescription,
    values: &'a OptionValues,
    /// The first request of the plugin that was refused.
    refused: Option<String>,
}

/// An instance with the data that it borrows.
pub(crate) struct DetachedInstance {
    /// The first field, because it must be dropped before the data that it borrows.
    pub(crate) instance: Instance,
    _vocabulary: Option<Arc<CodecVocabulary>>,
    _values: OptionValues,
}

/// Parses options by the table of a component; missing options have their defaults.
///
/// # Errors
/// An unknown name, an invalid value, or a missing required option.
pub(crate) fn values(
    described: &ComponentDescription,
    given: &[(String, String)],
) -> Result<OptionValues, String> {
    let known: Vec<&str> = described.options.iter().map(|row| row.name).collect();
    check_options(given, &known)?;
    let value = |row: &PluginOption| {
        let given = given.iter().rev().find(|(name, _)| name == row.name).map(|(_, value)| value.as_str());
        let default = (row.kind != OptionDef::TEXT).then_some(row.default.as_str()).or_else(|| quoted(row));
        let text = given.or(default.filter(|text| !text.is_empty()));
        let text =
            text.ok_or_else(|| format!("the option `{}` is required: {}", row.name, row.doc.trim()))?;
        Ok((row.name, parsed(row, text)?))
    };
    described.options.iter().map(value).collect()
}

/// The default of a text.
fn quoted(row: &PluginOption) -> Option<&str> {
    row.default.strip_prefix('"')?.strip_suffix('"')
}

fn parsed(row: &PluginOption, text: &str) -> Result<SettingValue, String> {
    let wanted = |what: &str| format!("{} = {text}: expected {what}", row.name);
    match row.kind {
        OptionDef::COUNT => text.parse().map(SettingValue::Count).map_err(|_| wanted("a whole number")),
        OptionDef::REAL => {
            let number = text.parse::<f32>().ok().filter(|number| number.is_finite());
            number.map(SettingValue::Real).ok_or_else(|| wanted("a number"))
        }
        OptionDef::TEXT => Ok(SettingValue::Text(text.into())),
        _ => {
            let bare = text.trim_matches('"');
            let found = row.names.iter().find(|name| **name == bare);
            found
                .map(|name| SettingValue::Name(name))
                .ok_or_else(|| wanted(&format!("one of {}", row.names.join(", "))))
        }
    }
}

impl DetachedInstance {
    /// Creates an instance.
    ///
    /// # Errors
    /// The error of the plugin, or its first refused request.
    pub(crate) fn new(
        described: &'static ComponentDescription,
        values: &OptionValues,
        beside: DetachedContext,
    ) -> Result<DetachedInstance, String> {
        described.record.check()?;
        let DetachedContext { vocabulary, layers, width } = beside;
        // The instance receives pointers to these copies of the texts.
        let values = values.clone();
        let mut making = DetachedBuild { described, values: &values, refused: None };
        let tokens = vocabulary.as_deref().map(|vocabulary| Vocabulary {
            header: Header::of::<Vocabulary>(),
            tokens: vocabulary.tokens.len() as u64,
            merges: vocabulary.merges.len() as u64,
            context: from_ref(vocabulary).cast_mut().cast(),
            token,
            merge,
        });
        let build = Build {
            header: Header::of::<Build>(),
            layer: -1,
            layers: layers as u64,
            width: width as u64,
            context: (&raw mut making).cast(),
            count,
            real,
            name,
            size,
            has,
            weight: tensor,
            values: tensor,
            linear,
            declare_state,
            slot,
            vocabulary: tokens.as_ref().map_or(null(), from_ref),
        };
        let mut handle = null_mut();
        texts::hush();
        // SAFETY: the plugin's `create`; what `build` points to outlives the call, the vocabulary the instance.
        let status = unsafe { (described.create)(&build, &mut handle) };
        let judged = described.record.judge(status, "create");
        let made = judged.is_ok().then(|| Instance::new(described, handle, InstanceParts::default()));
        match (judged, making.refused) {
            (_, Some(refused)) => Err(refused),
            (Err(CallFailure::Failed(said) | CallFailure::Broke(said)), None) => Err(said),
            (Ok(()), None) => {
                let made = made.map(|instance| DetachedInstance {
                    instance,
                    _vocabulary: vocabulary,
                    _values: values.clone(),
                });
                made.ok_or_else(String::new)
            }
        }
    }
}

/// Runs a callback of `create`; panics of the host do not unwind into the plugin.
///
/// # Safety
/// `context` is that of a [`DetachedBuild`] whose `create` is running on this thread.
unsafe fn within(context: *mut c_void, work: impl FnOnce(&mut DetachedBuild<'_>) -> Option<()>) -> Status {
    // SAFETY: as this function asks; nobody else uses it during the callback.
    let making = unsafe { &mut *context.cast::<DetachedBuild<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| work(making))) {
        Ok(Some(())) => OK,
        _ => ERROR,
    }
}

impl DetachedBuild<'_> {
    fn refuse<T>(&mut self, why: &str) -> Option<T> {
        let family = self.described.work.family();
        self.refused.get_or_insert(format!("it {why} (a defect of the plugin: this is a {family})"));
        None
    }

    /// The value of an option.
    fn value(&mut self, option: Text) -> Option<SettingValue> {
        // SAFETY: texts of a plugin are there, by the ABI.
        let option = match unsafe { texts::name(option) } {
            Ok(option) => option,
            Err(fault) => return self.refuse(&format!("requests an option whose name is {fault}")),
        };
        match self.values.iter().find(|(name, _)| *name == option) {
            Some((_, value)) => Some(value.clone()),
            None => self.refuse(&format!(
                "requests the option `{}`, which its table does not have",
                option.escape_debug()
            )),
        }
    }
}

unsafe extern "C" fn count(context: *mut c_void, option: Text, value: *mut u64) -> Status {
    // SAFETY: the ABI: `context` is that of `create`'s build, `value` can be written.
    unsafe {
        within(context, |making| match making.value(option)? {
            SettingValue::Count(count) => {
                value.write(count as u64);
                Some(())
            }
            other => making.refuse(&format!("requests a count, but the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn real(context: *mut c_void, option: Text, value: *mut f64) -> Status {
    // SAFETY: as in `count`.
    unsafe {
        within(context, |making| match making.value(option)? {
            SettingValue::Real(real) => {
                value.write(f64::from(real));
                Some(())
            }
            other => making.refuse(&format!("requests a number, but the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn name(context: *mut c_void, option: Text, value: *mut Text) -> Status {
    // SAFETY: as in `count`; names last as long as the process.
    unsafe {
        within(context, |making| match making.value(option)? {
            SettingValue::Name(name) => {
                value.write(Text::new(name));
                Some(())
            }
            // The instance keeps a reference to it.
            SettingValue::Text(text) => {
                value.write(Text::new(&text));
                Some(())
            }
            other => making.refuse(&format!("requests a name, but the option is {other:?}")),
        })
    }
}

unsafe extern "C" fn size(context: *mut c_void, _symbol: Text, _value: *mut u64) -> Status {
    // SAFETY: as in `count`.
    unsafe { within(context, |making| making.refuse("requests a size of a model")) }
}

unsafe extern "C" fn has(_context: *mut c_void, _role: Text, _part: u32) -> i32 {
    0
}

unsafe extern "C" fn tensor(context: *mut c_void, _role: Text, _part: u32, _tensor: *mut Tensor) -> Status {
    // SAFETY: as in `count`.
    unsafe { within(context, |making| making.refuse("requests a tensor of a model")) }
}

unsafe extern "C" fn linear(context: *mut c_void, _role: Text, _linear: *mut Linear) -> Status {
    // SAFETY: as in `count`.
    unsafe { within(context, |making| making.refuse("requests a linear of a model")) }
}

unsafe extern "C" fn declare_state(
    context: *mut c_void,
    _state: *const StateSpec,
    _number: *mut u32,
) -> Status {
    // SAFETY: as in `count`.
    unsafe { within(context, |making| making.refuse("requests a state of a model")) }
}

unsafe extern "C" fn slot(
    context: *mut c_void,
    _name: Text,
    _width: u64,
    _writes: *mut u32,
    _number: *mut u32,
) -> Status {
    // SAFETY: as in `count`.
    unsafe { within(context, |making| making.refuse("requests a slot of a model")) }
}

unsafe extern "C" fn token(context: *mut c_void, id: u32, token: *mut Token) -> Status {
    // SAFETY: the ABI: `context` is that of the vocabulary, which lives as long as the instance.
    let vocabulary = unsafe { &*context.cast_const().cast::<CodecVocabulary>() };
    let Some(found) = usize::try_from(id).ok().and_then(|id| vocabulary.tokens.get(id)) else {
        return refused_text(&format!(
            "there is no token {id}; the vocabulary has {}",
            vocabulary.tokens.len()
        ));
    };
    // SAFETY: the ABI: `token` can be written.
    unsafe { token.write(Token { text: Text::new(&found.text), kind: found.kind.id(), score: found.score }) };
    OK
}

unsafe extern "C" fn merge(context: *mut c_void, index: u64, merge: *mut Text) -> Status {
    // SAFETY: as in `token`.
    let vocabulary = unsafe { &*context.cast_const().cast::<CodecVocabulary>() };
    let Some(found) = usize::try_from(index).ok().and_then(|index| vocabulary.merges.get(index)) else {
        return refused_text(&format!(
            "there is no merge {index}; the vocabulary has {}",
            vocabulary.merges.len()
        ));
    };
    // SAFETY: as in `token`.
    unsafe { merge.write(Text::new(found)) };
    OK
}

/// Sets the error text of a failed service, for plugins that return the status.
fn refused_text(text: &str) -> Status {
    // SAFETY: a text of the host's.
    unsafe { texts::say(Text::new(text)) };
    abi::ERROR
}

/// The rows of a component's table, for listings.
pub(crate) fn option_docs(described: &ComponentDescription) -> &'static [(&'static str, &'static str)] {
    let rows: Vec<_> = described.options.iter().map(|row| (row.name, leaked(row.doc.trim()))).collect();
    rows.leak()
}
