//! The functions that the host calls, and the tables it reads; [`export!`](crate::export!) names them.

use crate::abi::{self, Header, OptionDef, RoleDef, Status, Tensor, Text};
use crate::build::Build;
use crate::call;
use crate::caught::{caught, status};
use crate::component::Component;
use crate::descriptor::{ArrayAccess, floats};
use crate::error::{Error, Result};
use crate::family::{
    Activation, Causality, FeedForward, FrequencyCall, Mixer, Norm, Rope, SampleCall, Sampler, Tokenizer,
};
use crate::layer_hook::{self, LayerObserver, LayerReplacer};
use crate::log::{LogLevel, log};
use crate::options::{OptionRow, OptionType, Options};
use crate::role::{Presence, Role};
use crate::text::given;
use std::ffi::c_void;
use std::slice;

/// What the host holds by a pointer.
struct ComponentInstance<T> {
    component: T,
    weights: Vec<Tensor>,
}

/// # Safety
/// `build` is what the ABI says and lives for the call.
unsafe extern "C" fn create<T: Component>(build: *const abi::Build, instance: *mut *mut c_void) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let raw = unsafe { abi::checked(build) }.map_err(Error::new)?;
        let mut build = Build::of(raw);
        let options = T::Options::read(&build)?;
        let component = T::create(options, &mut build)?;
        let made = Box::new(ComponentInstance { component, weights: build.into_weights() });
        // SAFETY: the host wants the instance there.
        unsafe { instance.write(Box::into_raw(made).cast()) };
        Ok(())
    })
}

/// # Safety
/// `instance` is of `create::<T>` and is not used any more.
unsafe extern "C" fn destroy<T: Component>(instance: *mut c_void) {
    if instance.is_null() {
        return;
    }
    // SAFETY: the promise above.
    let ended = caught(|| drop(unsafe { Box::from_raw(instance.cast::<ComponentInstance<T>>()) }));
    if let Err(text) = ended {
        log(LogLevel::Error, &format!("component {}: {text} (while an instance ended)", T::NAME));
    }
}

/// The instance and the call, for one of the functions below.
///
/// # Safety
/// `instance` is of `create::<T>`, `call` is what the ABI says, and both live for `'a`.
unsafe fn both<'a, T, C: abi::Versioned>(
    instance: *mut c_void,
    call: *const C,
) -> Result<(&'a ComponentInstance<T>, &'a C)> {
    // SAFETY: the promise above.
    let instance = unsafe { instance.cast_const().cast::<ComponentInstance<T>>().as_ref() };
    let instance = instance.ok_or_else(|| Error::new("the host passed no instance"))?;
    // SAFETY: the promise above.
    Ok((instance, unsafe { abi::checked(call) }.map_err(Error::new)?))
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn mix<T: Mixer>(instance: *mut c_void, call: *const abi::Call) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        instance.component.forward(unsafe { call::mixing(call, &instance.weights)? })
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn feed<T: FeedForward>(instance: *mut c_void, call: *const abi::Call) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        let (call, raw) = unsafe { call::feeding(call, &instance.weights)? };
        instance.component.forward(call, raw)
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn normed<T: Norm>(instance: *mut c_void, call: *const abi::Call) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        let (x, output, host) = unsafe { call::plain(call, &instance.weights)? };
        instance.component.forward(x, output, &host)
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn activate<T: Activation>(instance: *mut c_void, call: *const abi::Call) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        let (x, output, host) = unsafe { call::plain(call, &instance.weights)? };
        instance.component.forward(x, output, &host)
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn frequencies<T: Rope>(instance: *mut c_void, call: *const abi::FrequencyCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        if call.frequencies.is_null() || call.magnitude.is_null() {
            return Err(Error::new("the host passed null pointers for the frequencies"));
        }
        // SAFETY: not null; the host gives both for the call.
        let (tensor, magnitude) = unsafe { (&*call.frequencies, &mut *call.magnitude) };
        let found = floats(tensor, ArrayAccess::Write, "the frequencies")?;
        let rotated = call.rotated as usize;
        if found.len != rotated / 2 {
            let len = found.len;
            return Err(Error::new(format!(
                "expected {} frequencies for {rotated} rotated elements, found {len}",
                rotated / 2
            )));
        }
        instance.component.frequencies(FrequencyCall {
            base: call.base,
            rotated,
            context_length: usize::try_from(call.context_length).unwrap_or(usize::MAX),
            // SAFETY: checked; the host gives it for the call.
            frequencies: unsafe { slice::from_raw_parts_mut(found.data, found.len) },
            magnitude,
        })
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn sample<T: Sampler>(instance: *mut c_void, call: *const abi::SampleCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        let no_tokens = call.tokens.is_null() && call.n_tokens > 0;
        if call.logits.is_null() || no_tokens || call.n_prompt > call.n_tokens {
            return Err(Error::new(
                "the host passed no logits, no tokens, or a prompt that is longer than the tokens",
            ));
        }
        // SAFETY: not null; the host gives it for the call.
        let found = floats(unsafe { &*call.logits }, ArrayAccess::Write, "the logits")?;
        let tokens = match call.n_tokens {
            0 => &[][..],
            // SAFETY: not null; the host gives so many for the call.
            len => unsafe { slice::from_raw_parts(call.tokens, len) },
        };
        // SAFETY: checked; the host gives them for the call.
        let logits = unsafe { slice::from_raw_parts_mut(found.data, found.len) };
        let (prompt, random) = (call.n_prompt, call.random);
        instance.component.sample(SampleCall { logits, tokens, prompt, random })
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn encode<T: Tokenizer>(instance: *mut c_void, call: *const abi::EncodeCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        let mut ids = Vec::new();
        // SAFETY: the host gives the text for the call.
        instance.component.encode(unsafe { given(call.text, "a text to encode")? }, &mut ids)?;
        // SAFETY: the call's function with the call's context, on its thread.
        let pushed = ids.into_iter().all(|id| unsafe { (call.push)(call.context, id) } == abi::OK);
        if pushed { Ok(()) } else { Err(Error::noted()) }
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn decode<T: Tokenizer>(instance: *mut c_void, call: *const abi::DecodeCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        let mut bytes = Vec::new();
        instance.component.decode(call.id, &mut bytes)?;
        let text = Text { data: bytes.as_ptr(), len: bytes.len() };
        // SAFETY: the call's function with the call's context; the bytes are borrowed for it.
        match unsafe { (call.push)(call.context, text) } {
            abi::OK => Ok(()),
            _ => Err(Error::noted()),
        }
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn observe<T: LayerObserver>(instance: *mut c_void, call: *const abi::HookCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        instance.component.observe(unsafe { layer_hook::observing(call)? })
    })
}

/// # Safety
/// As [`both`].
unsafe extern "C" fn replace<T: LayerReplacer>(instance: *mut c_void, call: *const abi::HookCall) -> Status {
    status(|| {
        // SAFETY: the promise above.
        let (instance, call) = unsafe { both::<T, _>(instance, call)? };
        // SAFETY: as above.
        let (call, output) = unsafe { layer_hook::replacing(call)? };
        instance.component.replace(call, output)
    })
}

/// The description of a component, without the functions of its family. Its tables stay for the life of the process, as the
/// ABI wants them.
fn described<T: Component>(family: u32) -> abi::Component {
    let options = table(<T::Options as Options>::ROWS.iter().map(option));
    let roles = table(T::ROLES.iter().map(role));
    abi::Component {
        header: Header::of::<abi::Component>(),
        family,
        flags: 0,
        name: Text::new(T::NAME),
        doc: Text::new(T::DOC),
        options: options.as_ptr(),
        n_options: options.len(),
        roles: roles.as_ptr(),
        n_roles: roles.len(),
        create: create::<T>,
        destroy: destroy::<T>,
        forward: None,
        frequencies: None,
        sample: None,
        encode: None,
        decode: None,
        hook: None,
    }
}

fn table<R>(rows: impl Iterator<Item = R>) -> &'static [R] {
    Vec::leak(rows.collect())
}

fn option(row: &OptionRow) -> OptionDef {
    let names = match row.ty {
        OptionType::Name(names) => table(names.iter().map(|name| Text::new(name))),
        OptionType::Count | OptionType::Real | OptionType::Text => &[],
    };
    OptionDef {
        name: Text::new(row.name),
        doc: Text::new(row.doc.trim()),
        kind: row.ty.kind(),
        guarded: u32::from(row.guarded),
        default: Text::new(String::leak(row.default.toml(row.ty))),
        key: Text::new(row.default.key()),
        names: names.as_ptr(),
        n_names: names.len(),
        reserved: [0; 2],
    }
}

fn role(role: &Role) -> RoleDef {
    let dims = table(role.dims.iter().map(|dim| Text::new(dim)));
    RoleDef {
        name: Text::new(role.name),
        doc: Text::new(role.doc),
        form: role.form as u32,
        optional: match role.presence {
            Presence::Required => 0,
            Presence::Optional => 1,
        },
        dims: dims.as_ptr(),
        n_dims: dims.len(),
        reserved: [0; 2],
    }
}

/// The description of a mixer.
pub fn mixer<T: Mixer>() -> abi::Component {
    let ahead = match T::CAUSALITY {
        Causality::Causal => 0,
        Causality::Bidirectional => abi::Component::LOOKS_AHEAD,
    };
    let flags = ahead | exactness(T::EXACT_ROWS);
    abi::Component { flags, forward: Some(mix::<T>), ..described::<T>(abi::Component::MIXER) }
}

/// The bit of [`abi::Component::flags`] for exact rows.
fn exactness(is_exact: bool) -> u32 {
    if is_exact { abi::Component::EXACT_ROWS } else { 0 }
}

/// The description of a feed-forward.
pub fn feed_forward<T: FeedForward>() -> abi::Component {
    let flags = exactness(T::EXACT_ROWS);
    abi::Component { flags, forward: Some(feed::<T>), ..described::<T>(abi::Component::FEED_FORWARD) }
}

/// The description of a norm.
pub fn norm<T: Norm>() -> abi::Component {
    abi::Component { forward: Some(normed::<T>), ..described::<T>(abi::Component::NORM) }
}

/// The description of an activation.
pub fn activation<T: Activation>() -> abi::Component {
    abi::Component { forward: Some(activate::<T>), ..described::<T>(abi::Component::ACTIVATION) }
}

/// The description of a rope.
pub fn rope<T: Rope>() -> abi::Component {
    abi::Component { frequencies: Some(frequencies::<T>), ..described::<T>(abi::Component::ROPE) }
}

/// The description of a sampler.
pub fn sampler<T: Sampler>() -> abi::Component {
    abi::Component { sample: Some(sample::<T>), ..described::<T>(abi::Component::SAMPLER) }
}

/// The description of a tokenizer.
pub fn tokenizer<T: Tokenizer>() -> abi::Component {
    abi::Component {
        encode: Some(encode::<T>),
        decode: Some(decode::<T>),
        ..described::<T>(abi::Component::TOKENIZER)
    }
}

/// The description of a layer hook that only looks.
pub fn layer_observer<T: LayerObserver>() -> abi::Component {
    let flags = layer_hook::flags(0, T::POINTS, T::PHASES);
    abi::Component { flags, hook: Some(observe::<T>), ..described::<T>(abi::Component::LAYER_HOOK) }
}

/// The description of a layer hook that replaces.
pub fn layer_replacer<T: LayerReplacer>() -> abi::Component {
    let flags = layer_hook::flags(abi::Component::REPLACES, T::POINTS, T::PHASES);
    abi::Component { flags, hook: Some(replace::<T>), ..described::<T>(abi::Component::LAYER_HOOK) }
}

/// A component's name, when the plugin is compiled.
pub const fn check_component<T: Component>() {
    let name = T::NAME.as_bytes();
    assert!(!name.is_empty() && !T::DOC.is_empty(), "a component needs a NAME and a DOC");
    let mut at = 0;
    while at < name.len() {
        let good = matches!(name[at], b'a'..=b'z' | b'0'..=b'9' | b'-');
        assert!(
            good,
            "a component's NAME consists of `a-z`, `0-9` and `-`; the plugin's id is added in front of it"
        );
        at += 1;
    }
}
