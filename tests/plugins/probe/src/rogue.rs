//! What no plugin may do, done where a test asks for it.

use crate::rogue_hooks;
use menagerie_plugin::abi::{self, Header, HostApi, OptionDef, Registrar, Status, Text};
use menagerie_plugin::{
    Build, Call, Component, Error, Host, Mixer, Norm, Result, Role, Rows, RowsMut, names, options,
};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

names! {
    /// Ways to misbehave.
    pub(crate) enum Manner {
        /// None.
        Behave = "behave",
        /// Panics while it is made.
        PanicInCreate = "panic-in-create",
        /// Panics while it computes.
        Panic = "panic",
        /// Panics with something whose drop panics.
        PanicTwice = "panic-twice",
        /// Panics while it ends.
        PanicInDrop = "panic-in-drop",
        /// Fails, and says why.
        Fail = "fail",
        /// Says a value that is no number, in the first row.
        NanFirst = "nan-first",
        /// Says a value that is no number, in the last row.
        NanLast = "nan-last",
        /// Writes nothing.
        WriteNothing = "write-nothing",
        /// Asks for a linear while it norms.
        AskForState = "ask-for-state",
        /// Gives other rows each time.
        Remember = "remember",
    }
}

options! {
    /// Options of `misbehaving`.
    pub(crate) struct MisbehavingOptions {
        /// What it does.
        how: Manner = Required,
    }
}

/// A norm that leaves rows as they are, or misbehaves.
pub(crate) struct Misbehaving {
    how: Manner,
    weight: Vec<f32>,
}

/// Its drop panics.
pub(crate) struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the payload panics too");
    }
}

impl Component for Misbehaving {
    const NAME: &'static str = "misbehaving";
    const DOC: &'static str = "Rows as they are, or nonsense.";
    const ROLES: &'static [Role] = &[Role::values("", &["width"], "Of no meaning.")];
    type Options = MisbehavingOptions;

    fn create(options: MisbehavingOptions, build: &mut Build) -> Result<Self> {
        let weight = build.values("")?;
        match options.how {
            Manner::PanicInCreate => panic!("create panics"),
            Manner::AskForState => drop(build.state("mine", &[3])?),
            _ => {}
        }
        Ok(Self { how: options.how, weight })
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        if self.how == Manner::PanicInDrop {
            panic!("drop panics");
        }
    }
}

impl Norm for Misbehaving {
    fn forward(&self, x: Rows, mut output: RowsMut, _host: &Host) -> Result<()> {
        let last = x.rows() - 1;
        if self.how != Manner::WriteNothing {
            output.copy_from(x)?;
        }
        match self.how {
            Manner::Panic => panic!("index out of bounds: {}", self.weight[self.weight.len() - 1]),
            Manner::PanicTwice => std::panic::panic_any(Bomb),
            Manner::Fail => return Err(Error::new("it is not a good day")),
            Manner::NanFirst => output.row_mut(0)[1] = f32::NAN,
            Manner::NanLast => output.row_mut(last)[2] = f32::INFINITY,
            _ => {}
        }
        Ok(())
    }
}

/// A mixer that adds its calls up wherever a plugin keeps something of its own.
pub(crate) struct Poisonous {
    calls: Mutex<u32>,
}

impl Component for Poisonous {
    const NAME: &'static str = "poisonous";
    const DOC: &'static str = "Panics in its third call.";
    type Options = ();

    fn create(_options: (), _build: &mut Build) -> Result<Self> {
        Ok(Self { calls: Mutex::new(0) })
    }
}

impl Mixer for Poisonous {
    fn forward(&self, call: Call) -> Result<()> {
        let Call { x, mut output, .. } = call;
        let mut calls = self.calls.lock().map_err(|_| Error::new("it was called again after its panic"))?;
        *calls += 1;
        assert!(*calls < 3, "the third call panics");
        output.copy_from(x)
    }
}

unsafe extern "C" fn create(_build: *const abi::Build, instance: *mut *mut c_void) -> Status {
    // SAFETY: the ABI.
    unsafe { instance.write(null_mut()) };
    abi::OK
}

unsafe extern "C" fn destroy(_instance: *mut c_void) {}

unsafe extern "C" fn garbage(_instance: *mut c_void, _call: *const abi::Call) -> Status {
    77
}

unsafe extern "C" fn silent(_instance: *mut c_void, _call: *const abi::Call) -> Status {
    abi::ERROR
}

/// Fails with a text that is not UTF-8: the host's function is behind the log's context.
unsafe extern "C" fn latin(_instance: *mut c_void, _call: *const abi::Call) -> Status {
    let host = HOST.lock().map(|host| *host).unwrap_or(0) as *const HostApi;
    // SAFETY: kept by `init`; lives as long as the process.
    unsafe { ((*host).set_error)((*host).context, Text { data: b"caf\xe9".as_ptr(), len: 4 }) };
    abi::ERROR
}

/// Work within work: how often the inner body ran.
struct Nest {
    call: *const abi::Call,
    ran: AtomicU64,
}

unsafe extern "C" fn outer(nest: *mut c_void, _index: u64) {
    // SAFETY: `nested` waits for its bodies, and lends them this.
    let (nest, call) = unsafe { (nest, &*(*nest.cast::<Nest>()).call) };
    // SAFETY: the call's own function with its context.
    unsafe { (call.parallel_for)(call.context, 4, inner, nest) };
}

unsafe extern "C" fn inner(nest: *mut c_void, _index: u64) {
    // SAFETY: as in `outer`.
    unsafe { &*nest.cast::<Nest>() }.ran.fetch_add(1, Ordering::Relaxed);
}

/// Asks for threads while it is on one of them, then leaves rows as they are.
unsafe extern "C" fn nested(_instance: *mut c_void, call: *const abi::Call) -> Status {
    let nest = Nest { call, ran: AtomicU64::new(0) };
    // SAFETY: the ABI: the call and what it points to are there; input and output are rows of the same size.
    unsafe {
        let call = &*call;
        (call.parallel_for)(call.context, 8, outer, (&raw const nest).cast_mut().cast());
        let (x, y) = (&*call.inputs, &*call.outputs);
        std::ptr::copy_nonoverlapping(x.data.cast::<u8>(), y.data.cast::<u8>(), y.byte_len as usize);
    }
    if nest.ran.load(Ordering::Relaxed) == 32 { abi::OK } else { abi::ERROR }
}

/// Memory that was asked for from within a body.
struct Within {
    call: *const abi::Call,
    given: AtomicU64,
}

unsafe extern "C" fn asking(within: *mut c_void, _index: u64) {
    // SAFETY: `reentrant` waits for its bodies, and lends them this.
    let within = unsafe { &*within.cast::<Within>() };
    // SAFETY: the call's own function with its context: what the ABI forbids is that it is called here.
    let memory = unsafe { ((*within.call).scratch)((*within.call).context, 64, 64) };
    within.given.fetch_add(u64::from(!memory.is_null()), Ordering::Relaxed);
}

/// Asks for memory within its work, and goes on as if nothing had happened.
unsafe extern "C" fn reentrant(_instance: *mut c_void, call: *const abi::Call) -> Status {
    let within = Within { call, given: AtomicU64::new(0) };
    // SAFETY: as in `nested`.
    unsafe {
        let call = &*call;
        (call.parallel_for)(call.context, 8, asking, (&raw const within).cast_mut().cast());
        let memory = (call.scratch)(call.context, 64, 64);
        let (x, y) = (&*call.inputs, &*call.outputs);
        std::ptr::copy_nonoverlapping(x.data.cast::<u8>(), y.data.cast::<u8>(), y.byte_len as usize);
        match within.given.load(Ordering::Relaxed) {
            0 if !memory.is_null() => abi::OK,
            _ => abi::ERROR,
        }
    }
}

/// A norm that leaves rows as they are, and fails if it is shown ids of tokens: its rows may be heads.
unsafe extern "C" fn without_ids(_instance: *mut c_void, call: *const abi::Call) -> Status {
    // SAFETY: as in `nested`.
    unsafe {
        let call = &*call;
        if !call.token_ids.is_null() || call.n_sequences != 0 {
            return abi::ERROR;
        }
        let (x, y) = (&*call.inputs, &*call.outputs);
        std::ptr::copy_nonoverlapping(x.data.cast::<u8>(), y.data.cast::<u8>(), y.byte_len as usize);
    }
    abi::OK
}

/// Frequencies that are all 1, and a magnitude that is no number.
unsafe extern "C" fn no_magnitude(_instance: *mut c_void, call: *const abi::FrequencyCall) -> Status {
    // SAFETY: the ABI: the call and what it points to are there, and may be written.
    unsafe {
        let frequencies = &*(*call).frequencies;
        std::slice::from_raw_parts_mut(frequencies.data.cast::<f32>(), frequencies.shape[0] as usize)
            .fill(1.0);
        (*call).magnitude.write(f32::NAN);
    }
    abi::OK
}

static HOST: Mutex<usize> = Mutex::new(0);

/// A component without anything.
const fn bare(name: &'static str) -> abi::Component {
    abi::Component {
        header: Header::of::<abi::Component>(),
        family: abi::Component::MIXER,
        flags: 0,
        name: Text::new(name),
        doc: Text::new("Nothing."),
        options: null(),
        n_options: 0,
        roles: null(),
        n_roles: 0,
        create,
        destroy,
        forward: Some(garbage),
        frequencies: None,
        sample: None,
        encode: None,
        decode: None,
        hook: None,
    }
}

/// A layer hook that only looks, without anything.
const fn bare_hook(name: &'static str) -> abi::Component {
    let flags = abi::Component::AFTER_LAYERS | abi::Component::IN_PREFILL | abi::Component::IN_DECODE;
    let family = abi::Component::LAYER_HOOK;
    abi::Component { family, flags, forward: None, hook: Some(rogue_hooks::scribble), ..bare(name) }
}

/// An option that the host has for every hook.
fn layers() -> *const OptionDef {
    Box::leak(Box::new(OptionDef {
        name: Text::new("layers"),
        doc: Text::new("Which."),
        kind: OptionDef::COUNT,
        guarded: 0,
        default: Text::new("1"),
        key: Text::EMPTY,
        names: null(),
        n_names: 0,
        reserved: [0; 2],
    }))
}

/// What a test has ordered.
///
/// # Safety
/// As the ABI says.
pub(crate) unsafe fn init(orders: &str, host: &HostApi, registrar: &Registrar) -> Status {
    if let Ok(mut kept) = HOST.lock() {
        *kept = std::ptr::from_ref(host) as usize;
    }
    // SAFETY: the registrar's function with its context; the component stays.
    let add = |component: abi::Component| unsafe {
        (registrar.add_component)(registrar.context, Box::leak(Box::new(component)))
    };
    // SAFETY: the host's function with its context.
    let say = |text: &'static str| unsafe { (host.set_error)(host.context, Text::new(text)) };
    // SAFETY: the registrar's function with its context.
    let carry = |file: &'static str, text: &'static str| unsafe {
        (registrar.add_architecture)(registrar.context, Text::new(file), Text::new(text))
    };
    match orders {
        "obey" => [
            add(bare("garbage")),
            add(abi::Component { forward: Some(silent), ..bare("silent") }),
            add(abi::Component { forward: Some(latin), ..bare("latin") }),
            add(abi::Component { forward: Some(nested), ..bare("nested") }),
            add(abi::Component { forward: Some(reentrant), ..bare("reentrant") }),
            add(abi::Component {
                family: abi::Component::NORM,
                forward: Some(without_ids),
                ..bare("without-ids")
            }),
            add(abi::Component {
                family: abi::Component::ROPE,
                forward: None,
                frequencies: Some(no_magnitude),
                ..bare("no-magnitude")
            }),
            add(bare_hook("scribbler")),
        ]
        .into_iter()
        .min()
        .unwrap_or(abi::OK),
        "fail" => {
            say("the license has run out");
            abi::ERROR
        }
        "fail silently" => abi::ERROR,
        "garbage" => 42,
        "twice" => add(bare("decaying-mean")),
        "twice and go on" => {
            add(bare("decaying-mean"));
            abi::OK
        }
        "no name" => add(bare("")),
        "slash" => add(bare("other/name:thing")),
        "null" => add(abi::Component { forward: None, ..bare("null") }),
        "family" => add(abi::Component { family: 99, ..bare("family") }),
        "no hook" => add(abi::Component { hook: None, ..bare_hook("null-hook") }),
        "no point" => add(abi::Component { flags: abi::Component::IN_DECODE, ..bare_hook("nowhere") }),
        "no phase" => add(abi::Component { flags: abi::Component::AFTER_LAYERS, ..bare_hook("never") }),
        "hook flags" => add(abi::Component { flags: abi::Component::REPLACES, ..bare("flags") }),
        "hook option" => add(abi::Component { options: layers(), n_options: 1, ..bare_hook("layers") }),
        "short hook" => add(abi::Component {
            header: Header { struct_size: 136, ..Header::of::<abi::Component>() },
            ..bare_hook("old")
        }),
        "old size" => add(abi::Component {
            header: Header { struct_size: 136, ..Header::of::<abi::Component>() },
            ..bare("old")
        }),
        "short" => add(abi::Component {
            header: Header { struct_size: 40, ..Header::of::<abi::Component>() },
            ..bare("short")
        }),
        "taken" => carry("llama.toml", ""),
        "faulty" => carry("faulty.toml", "schema = 1\n[architecture]\nid = \"faulty\"\nname = 3\n"),
        "path" => carry("../evil.toml", ""),
        _ => {
            say("unknown orders");
            abi::ERROR
        }
    }
}
