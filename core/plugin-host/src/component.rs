//! [`ComponentDescription`]: the description of a component by a plugin, read once and checked.

use crate::plugin::PluginRecord;
use crate::texts::{leaked, name};
use menagerie_model::Phases;
use menagerie_plugin::abi::{
    self, Build, Call, DecodeCall, EncodeCall, FrequencyCall, HookCall, SampleCall, Status, Versioned,
};
use std::ffi::c_void;
use std::ptr::addr_of;

/// Maximum number of options, of roles, of names in a list and of dims of a role.
const MOST_ROWS: usize = 256;

/// Creates an instance.
pub(crate) type Create = unsafe extern "C" fn(*const Build, *mut *mut c_void) -> Status;
/// Destroys an instance.
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);
/// Rows to rows.
pub(crate) type Forward = unsafe extern "C" fn(*mut c_void, *const Call) -> Status;
/// Frequencies of a rope.
pub(crate) type Frequencies = unsafe extern "C" fn(*mut c_void, *const FrequencyCall) -> Status;
/// Changes logits.
pub(crate) type Sample = unsafe extern "C" fn(*mut c_void, *const SampleCall) -> Status;
/// Text to ids.
pub(crate) type Encode = unsafe extern "C" fn(*mut c_void, *const EncodeCall) -> Status;
/// An id to bytes.
pub(crate) type Decode = unsafe extern "C" fn(*mut c_void, *const DecodeCall) -> Status;
/// Rows between layers.
pub(crate) type Hook = unsafe extern "C" fn(*mut c_void, *const HookCall) -> Status;

/// The effect of a layer hook on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookMode {
    Observes,
    Replaces,
}

/// When a layer hook is called, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HookTiming {
    pub(crate) handling: HookMode,
    /// Of [`abi::Component::BEFORE_LAYERS`] and [`abi::Component::AFTER_LAYERS`], at least one.
    pub(crate) points: u32,
    pub(crate) phases: Phases,
}

/// The functions of a component, by family.
#[derive(Clone, Copy)]
#[allow(dead_code)]
pub(crate) enum FamilyFunctions {
    Mixer(Forward),
    FeedForward(Forward),
    Norm(Forward),
    Activation(Forward),
    Rope(Frequencies),
    Sampler(Sample),
    Tokenizer(Encode, Decode),
    LayerHook(Hook, HookTiming),
}

impl FamilyFunctions {
    /// The family's name in listings.
    pub(crate) fn family(self) -> &'static str {
        match self {
            Self::Mixer(_) => "mixer",
            Self::FeedForward(_) => "feed-forward",
            Self::Norm(_) => "norm",
            Self::Activation(_) => "activation",
            Self::Rope(_) => "rope",
            Self::Sampler(_) => "sampler",
            Self::Tokenizer(..) => "tokenizer",
            Self::LayerHook(..) => "layer-hook",
        }
    }
}

/// A component that a plugin registered; it lives as long as the process.
pub(crate) struct ComponentDescription {
    /// `author/name:component`.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) work: FamilyFunctions,
    pub(crate) is_bidirectional: bool,
    /// Whether it declares that a row has the same bits in any company.
    pub(crate) has_exact_rows: bool,
    pub(crate) options: Vec<PluginOption>,
    pub(crate) roles: Vec<RoleDescription>,
    pub(crate) create: Create,
    pub(crate) destroy: Destroy,
    pub(crate) record: &'static PluginRecord,
}

/// A row of its options.
pub(crate) struct PluginOption {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) kind: u32,
    pub(crate) guarded: bool,
    pub(crate) default: String,
    pub(crate) key: &'static str,
    pub(crate) names: Vec<&'static str>,
}

/// A row of its tensors.
pub(crate) struct RoleDescription {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) form: u32,
    pub(crate) optional: bool,
    pub(crate) dims: Vec<&'static str>,
}

/// A field of a struct of the plugin; its bits can be arbitrary.
macro_rules! field {
    ($pointer:expr, $field:ident) => {
        // SAFETY: the struct has been found to be as large as this version's, and every field is read as a type that
        // any bits are valid for.
        unsafe { addr_of!((*$pointer).$field).read() }
    };
    ($pointer:expr, $field:ident as $kind:ty) => {
        // SAFETY: as above; a function that may be null is read as an `Option`, which has its size.
        unsafe { addr_of!((*$pointer).$field).cast::<Option<$kind>>().read() }
    };
}

impl ComponentDescription {
    /// Reads and checks a component.
    ///
    /// # Errors
    /// The fault, with the name of the component.
    ///
    /// # Safety
    /// If not null, it is a [`abi::Component`] of some version, and its pointers are valid.
    pub(crate) unsafe fn read(
        component: *const abi::Component,
        record: &'static PluginRecord,
    ) -> Result<ComponentDescription, String> {
        if component.is_null() {
            return Err("it registers a component with a null pointer".to_owned());
        }
        // SAFETY: not null; every version begins with a header.
        let header = unsafe { addr_of!((*component).header).read() };
        check_header(header, abi::Component::FIRST_SIZE)
            .map_err(|why| format!("it registers a component {why}"))?;
        let short = field!(component, name);
        // SAFETY: as the caller says.
        let short = unsafe { name(short) }
            .map_err(|fault| format!("it registers a component whose name is {fault}"))?;
        if !is_short_name(&short) {
            return Err(format!(
                "it registers a component named `{}`; expected a name of a-z, 0-9 and `-` (the id of the plugin is added in front of it)",
                short.escape_debug()
            ));
        }
        // SAFETY: as the caller says.
        unsafe { Self::read_named(component, &short, record) }
            .map_err(|why| format!("its component `{short}`: {why}"))
    }

    /// # Safety
    /// As [`Self::read`]; the pointer is not null and the struct as large as this version's.
    unsafe fn read_named(
        component: *const abi::Component,
        short: &str,
        record: &'static PluginRecord,
    ) -> Result<ComponentDescription, String> {
        let create = field!(component, create as Create).ok_or("create is null")?;
        let destroy = field!(component, destroy as Destroy).ok_or("destroy is null")?;
        let flags = field!(component, flags);
        let known = match field!(component, family) {
            abi::Component::LAYER_HOOK => HOOK_FLAGS,
            abi::Component::MIXER | abi::Component::FEED_FORWARD => {
                abi::Component::LOOKS_AHEAD | abi::Component::EXACT_ROWS
            }
            _ => abi::Component::LOOKS_AHEAD,
        };
        if flags & !known != 0 {
            return Err(format!("flags {flags:#x} are unknown or not allowed for its family"));
        }
        let (doc, options, roles) =
            (field!(component, doc), field!(component, options), field!(component, roles));
        let (n_options, n_roles) = (field!(component, n_options), field!(component, n_roles));
        // SAFETY: as the caller says, here and below.
        let doc = unsafe { name(doc) }.map_err(|fault| format!("doc is {fault}"))?;
        if doc.trim().is_empty() {
            return Err("doc is empty; expected one sentence about what it computes".to_owned());
        }
        // SAFETY: as above.
        let work = unsafe { read_work(component)? };
        // SAFETY: as above.
        let (options, roles) =
            unsafe { (rows(options, n_options, "options")?, rows(roles, n_roles, "roles")?) };
        // SAFETY: as above.
        let options =
            options.iter().map(|option| unsafe { read_option(option) }).collect::<Result<_, _>>()?;
        // SAFETY: as above.
        let roles = roles.iter().map(|role| unsafe { read_role(role) }).collect::<Result<_, _>>()?;
        Ok(ComponentDescription {
            name: leaked(&format!("{}:{short}", record.id)),
            doc: leaked(&doc),
            work,
            is_bidirectional: flags & abi::Component::LOOKS_AHEAD != 0,
            has_exact_rows: flags & abi::Component::EXACT_ROWS != 0,
            options,
            roles,
            create,
            destroy,
            record,
        })
    }
}

/// Refuses structs of another major version, and structs that are shorter than in version 1.
///
/// # Errors
/// The fault, as the end of a sentence that begins with the name of the struct.
pub(crate) fn check_header(header: abi::Header, size: usize) -> Result<(), String> {
    if header.abi_major != abi::ABI_MAJOR {
        return Err(format!(
            "of ABI {}.{}, and this program has {}",
            header.abi_major,
            header.abi_minor,
            abi::ABI_MAJOR
        ));
    }
    if (header.struct_size as usize) < size {
        return Err(format!("of {} bytes, expected at least {size}", header.struct_size));
    }
    Ok(())
}

fn is_short_name(name: &str) -> bool {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(allowed)
}

/// The elements of an array of the plugin.
///
/// # Safety
/// If not null, there are as many; none of them contains anything that not all bits are valid for.
unsafe fn rows<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T], String> {
    match (count, first.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(format!("{count} {what} with a null pointer")),
        (count, _) if count > MOST_ROWS => Err(format!("{count} {what}, more than the limit of {MOST_ROWS}")),
        _ if !first.is_aligned() => Err(format!("{what} at an unaligned address")),
        // SAFETY: not null, aligned, as many as the caller says.
        _ => Ok(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

/// # Safety
/// As [`ComponentDescription::read_named`].
unsafe fn read_work(component: *const abi::Component) -> Result<FamilyFunctions, String> {
    use abi::Component as Family;
    let forward = || field!(component, forward).ok_or("forward is null, but its family requires it");
    let work = match field!(component, family) {
        Family::MIXER => FamilyFunctions::Mixer(forward()?),
        Family::FEED_FORWARD => FamilyFunctions::FeedForward(forward()?),
        Family::NORM => FamilyFunctions::Norm(forward()?),
        Family::ACTIVATION => FamilyFunctions::Activation(forward()?),
        Family::ROPE => FamilyFunctions::Rope(
            field!(component, frequencies).ok_or("frequencies is null, but a rope requires it")?,
        ),
        Family::SAMPLER => FamilyFunctions::Sampler(
            field!(component, sample).ok_or("sample is null, but a sampler requires it")?,
        ),
        Family::TOKENIZER => FamilyFunctions::Tokenizer(
            field!(component, encode).ok_or("encode is null, but a tokenizer requires it")?,
            field!(component, decode).ok_or("decode is null, but a tokenizer requires it")?,
        ),
        Family::LAYER_HOOK => {
            // SAFETY: as this function asks; shorter structs, of the first version, have no such field.
            let hook = match field!(component, header).struct_size as usize >= size_of::<Family>() {
                true => field!(component, hook as Hook),
                false => None,
            };
            FamilyFunctions::LayerHook(
                hook.ok_or("hook is null, but a layer hook requires it")?,
                around(field!(component, flags))?,
            )
        }
        other => return Err(format!("family {other} is not known")),
    };
    Ok(work)
}

/// The flags that a layer hook may have.
const HOOK_FLAGS: u32 = {
    use abi::Component as Flag;
    Flag::REPLACES | Flag::BEFORE_LAYERS | Flag::AFTER_LAYERS | Flag::IN_PREFILL | Flag::IN_DECODE
};

/// Decodes the flags of a layer hook.
fn around(flags: u32) -> Result<HookTiming, String> {
    use abi::Component as Flag;
    let points = flags & (Flag::BEFORE_LAYERS | Flag::AFTER_LAYERS);
    if points == 0 {
        return Err("its flags name no point; expected before layers, after layers, or both".to_owned());
    }
    let phases = match (flags & Flag::IN_PREFILL != 0, flags & Flag::IN_DECODE != 0) {
        (true, true) => Phases::All,
        (true, false) => Phases::Prefill,
        (false, true) => Phases::Decode,
        (false, false) => {
            return Err("its flags name no phase; expected prompts, generated tokens, or both".to_owned());
        }
    };
    let handling = if flags & Flag::REPLACES == 0 { HookMode::Observes } else { HookMode::Replaces };
    Ok(HookTiming { handling, points, phases })
}

/// # Safety
/// Its texts and names are there.
unsafe fn read_option(option: &abi::OptionDef) -> Result<PluginOption, String> {
    // SAFETY: as this function asks, here and below.
    let text = |text: abi::Text, what: &str| {
        // SAFETY: as above.
        unsafe { name(text) }.map_err(|fault| format!("{what} of an option is {fault}"))
    };
    let own = text(option.name, "the name")?;
    let refused = |why: String| Err(format!("option `{}`: {why}", own.escape_debug()));
    if !is_key(&own) {
        return refused("expected a name of a-z, 0-9 and `_` that begins with a letter".to_owned());
    }
    if option.guarded > 1 || option.reserved != [0; 2] {
        return refused("guarded is neither 0 nor 1, or reserved bytes are not zero".to_owned());
    }
    // SAFETY: as above.
    let names = unsafe { rows(option.names, option.n_names, "names")? };
    let names = names
        .iter()
        .map(|one| text(*one, "a name").map(|name| leaked(&name)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(PluginOption {
        doc: leaked(&text(option.doc, "the doc")?),
        kind: option.kind,
        guarded: option.guarded == 1,
        default: text(option.default, "the default")?,
        key: leaked(&text(option.key, "the key")?),
        names,
        name: leaked(&own),
    })
}

/// # Safety
/// Its texts and dims are there.
unsafe fn read_role(role: &abi::RoleDef) -> Result<RoleDescription, String> {
    // SAFETY: as this function asks, here and below.
    let text = |text: abi::Text, what: &str| {
        // SAFETY: as above.
        unsafe { name(text) }.map_err(|fault| format!("{what} of a role is {fault}"))
    };
    let own = text(role.name, "the name")?;
    if role.optional > 1 || role.reserved != [0; 2] {
        return Err(format!("role `{own}`: optional is neither 0 nor 1, or reserved bytes are not zero"));
    }
    // SAFETY: as above.
    let dims = unsafe { rows(role.dims, role.n_dims, "dims")? };
    let dims =
        dims.iter().map(|one| text(*one, "a dim").map(|dim| leaked(&dim))).collect::<Result<Vec<_>, _>>()?;
    if !(1..=4).contains(&dims.len()) {
        return Err(format!("role `{own}` has {} dims, expected 1 to 4", dims.len()));
    }
    Ok(RoleDescription {
        doc: leaked(&text(role.doc, "the doc")?),
        form: role.form,
        optional: role.optional == 1,
        dims,
        name: leaked(&own),
    })
}

/// Whether a name may be a key of a TOML table, and a symbol of dims.
fn is_key(name: &str) -> bool {
    let mut bytes = name.bytes();
    (1..=64).contains(&name.len())
        && bytes.next().is_some_and(|first| first.is_ascii_lowercase())
        && bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}
