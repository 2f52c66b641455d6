//! Runs the init function of a plugin and adds its entries to an environment: all of them, or none.

use crate::bridge;
use crate::component::{ComponentDescription, FamilyFunctions};
use crate::error::PluginFault;
use crate::hook;
use crate::kind;
use crate::manifest::{PanicStrategy, PluginManifest};
use crate::plugin::{self, CallFailure, LoadedPlugin, PluginComponent, PluginLocation, PluginRecord};
use crate::sampler;
use crate::texts::{self, MOST_FILE, leaked};
use crate::tokenizer::PluginTokenizer;
use menagerie_loaders::CodecEntry;
use menagerie_plugin::abi::{self, ERROR, Header, HostApi, OK, Registrar, Status, Text, capability};
use menagerie_registry::{
    Architecture, BuiltInTable, ComponentEntry, Entries, Entry, Environment, GGUFArchitecture,
};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The components and files that an init function has registered so far.
struct Registration {
    record: &'static PluginRecord,
    described: Vec<&'static ComponentDescription>,
    architectures: Vec<(String, String)>,
    tables: Vec<(String, String)>,
    /// The first fault.
    fault: Option<String>,
}

/// Runs the init function of a plugin.
///
/// # Errors
/// An error of the init function, or a fault of a component or file.
pub(crate) fn register(
    inspected: PluginManifest,
    location: PluginLocation,
    sha256: String,
    init: abi::Init,
) -> Result<&'static LoadedPlugin, PluginFault> {
    let record = PluginRecord::new(&inspected, &location, &sha256);
    if inspected.panics == PanicStrategy::Abort {
        tracing::warn!("{} is built with panic = \"abort\": a panic in it ends this process", record.shown);
    }
    let mut adding = Registration {
        record,
        described: Vec::new(),
        architectures: Vec::new(),
        tables: Vec::new(),
        fault: None,
    };
    run(init, &mut adding)?;
    let Registration { described, architectures, tables, .. } = adding;
    let mut entries = Entries::default();
    let components = described.iter().map(|one| add(one, &mut entries)).collect::<Result<_, _>>()?;
    for (file, toml) in &architectures {
        put(&mut entries, architecture(file, toml, record)?)?;
    }
    for (file, toml) in &tables {
        let (file, text) = (leaked(file), leaked(toml));
        put(&mut entries, BuiltInTable { file, text, registered_by: record.shown })?;
    }
    let architectures = entries.all::<Architecture>().iter().map(|one| one.name.to_string()).collect();
    let tables = entries.all::<BuiltInTable>().iter().map(|one| one.file.to_owned()).collect();
    Ok(plugin::keep(LoadedPlugin {
        inspected,
        location,
        sha256,
        components,
        architectures,
        tables,
        record,
        init,
        entries,
    }))
}

/// Adds an entry of a plugin.
fn put(entries: &mut Entries, entry: impl Entry) -> Result<(), PluginFault> {
    entries.add(entry).map_err(|error| PluginFault::Register(error.to_string()))
}

/// The environment with a plugin.
///
/// # Errors
/// Another plugin has its id, a name already exists, or a kind or a spec has faults.
pub(crate) fn installed(
    environment: &Environment,
    plugin: &'static LoadedPlugin,
) -> Result<Environment, PluginFault> {
    check_id(environment, &plugin.inspected.id)?;
    let mut entries = plugin.entries.clone();
    put(&mut entries, plugin)?;
    environment.with(entries).map_err(|error| PluginFault::Register(error.to_string()))
}

/// Refuses an id that a plugin of the environment has.
///
/// # Errors
/// [`PluginFault::Twice`].
pub(crate) fn check_id(environment: &Environment, id: &str) -> Result<(), PluginFault> {
    match environment.entries().get::<&'static LoadedPlugin>(id) {
        Some(first) => Err(PluginFault::Twice { id: id.to_owned(), first: first.location.to_string() }),
        None => Ok(()),
    }
}

/// Calls the init function.
fn run(init: abi::Init, adding: &mut Registration) -> Result<(), PluginFault> {
    let registrar = Registrar {
        header: Header::of::<Registrar>(),
        context: std::ptr::from_mut(adding).cast(),
        add_component,
        add_architecture,
        add_table,
    };
    texts::hush();
    // SAFETY: a plugin's init function, called once; the host's functions last as long as the process, the registrar
    // as long as the call.
    let status = unsafe { init(host_api(adding.record), &registrar) };
    let judged = adding.record.judge(status, "it");
    if let Some(fault) = adding.fault.take() {
        return Err(PluginFault::Register(fault));
    }
    match judged {
        Ok(()) => Ok(()),
        Err(CallFailure::Failed(said)) => Err(PluginFault::Init(format!("failed: {said}"))),
        Err(CallFailure::Broke(how)) => Err(PluginFault::Init(how.trim_start_matches("it ").to_owned())),
    }
}

/// The host's functions for a plugin; they live as long as the process.
fn host_api(record: &'static PluginRecord) -> &'static HostApi {
    Box::leak(Box::new(HostApi {
        header: Header::of::<HostApi>(),
        capabilities: capability::ALL,
        cpu_features: crate::cpu::features(),
        context: std::ptr::from_ref(record).cast_mut().cast(),
        log,
        set_error,
    }))
}

/// Adds a component as an entry of its family.
fn add(
    described: &'static ComponentDescription,
    entries: &mut Entries,
) -> Result<PluginComponent, PluginFault> {
    hook::check(described).map_err(PluginFault::Register)?;
    let kind = kind::kind_of(described).map_err(PluginFault::Register)?;
    if let (Some(kind), Some(factory)) = (kind, bridge::factory_of(described)) {
        put(entries, ComponentEntry { kind, factory, registered_by: described.record.shown })?;
    }
    match described.work {
        FamilyFunctions::Sampler(run) => put(entries, sampler::kind_of(described, run))?,
        FamilyFunctions::Tokenizer(encode, decode) => {
            put(entries, CodecEntry(Arc::new(PluginTokenizer { described, encode, decode })))?;
        }
        FamilyFunctions::LayerHook(run, around) => put(entries, hook::kind_of(described, run, around))?,
        FamilyFunctions::Mixer(_)
        | FamilyFunctions::FeedForward(_)
        | FamilyFunctions::Norm(_)
        | FamilyFunctions::Activation(_)
        | FamilyFunctions::Rope(_) => {}
    }
    Ok(PluginComponent { family: described.work.family(), name: described.name, doc: described.doc })
}

/// A spec as an architecture: its file is named by its id.
fn architecture(file: &str, toml: &str, record: &'static PluginRecord) -> Result<Architecture, PluginFault> {
    let refused =
        |why: String| PluginFault::Register(format!("its architecture `{}`: {why}", file.escape_debug()));
    let id = file.strip_suffix(".toml").unwrap_or(file);
    let name = GGUFArchitecture::new(id).map_err(|error| refused(error.to_string()))?;
    Ok(Architecture { name, spec: leaked(toml), registered_by: record.shown })
}

/// Runs a function of the registrar.
///
/// # Safety
/// `context` is that of an init function that is running on this thread.
unsafe fn adding(context: *mut c_void, add: impl FnOnce(&mut Registration) -> Result<(), String>) -> Status {
    // SAFETY: as this function asks; nobody else uses it while the plugin waits for this.
    let adding = unsafe { &mut *context.cast::<Registration>() };
    let added = catch_unwind(AssertUnwindSafe(|| add(adding)));
    let fault = match added {
        Ok(Ok(())) => return OK,
        Ok(Err(fault)) => fault,
        Err(_) => "the host panicked while registering it (a defect: please report it)".to_owned(),
    };
    adding.fault.get_or_insert(fault);
    ERROR
}

unsafe extern "C" fn add_component(context: *mut c_void, component: *const abi::Component) -> Status {
    // SAFETY: the ABI: `context` is the registrar's, the component lasts as long as the process.
    unsafe {
        adding(context, |adding| {
            let described = ComponentDescription::read(component, adding.record)?;
            let twice = |one: &&ComponentDescription| {
                one.name == described.name && one.work.family() == described.work.family()
            };
            if adding.described.iter().copied().any(|one| twice(&one)) {
                return Err(format!(
                    "it registers the {} `{}` twice",
                    described.work.family(),
                    described.name
                ));
            }
            adding.described.push(Box::leak(Box::new(described)));
            Ok(())
        })
    }
}

/// The name and text of a file of a plugin.
///
/// # Safety
/// The texts are there.
unsafe fn carried(file: Text, toml: Text, what: &str) -> Result<(String, String), String> {
    // SAFETY: as this function asks.
    let (file, toml) = unsafe { (texts::name(file), texts::copied(toml, MOST_FILE)) };
    let file = file.map_err(|fault| format!("it adds {what} whose file name is {fault}"))?;
    let toml =
        toml.map_err(|fault| format!("it adds {what} `{}` whose text is {fault}", file.escape_debug()))?;
    if !file.ends_with(".toml") || file.contains(['/', '\\']) {
        return Err(format!(
            "it adds {what} under the file name `{}`; expected NAME.toml",
            file.escape_debug()
        ));
    }
    Ok((file, toml))
}

unsafe extern "C" fn add_architecture(context: *mut c_void, file: Text, toml: Text) -> Status {
    // SAFETY: as in `add_component`.
    unsafe {
        adding(context, |adding| {
            adding.architectures.push(carried(file, toml, "an architecture")?);
            Ok(())
        })
    }
}

unsafe extern "C" fn add_table(context: *mut c_void, file: Text, toml: Text) -> Status {
    // SAFETY: as in `add_component`.
    unsafe {
        adding(context, |adding| {
            adding.tables.push(carried(file, toml, "a table")?);
            Ok(())
        })
    }
}

unsafe extern "C" fn log(context: *mut c_void, level: u32, text: Text) {
    // SAFETY: the host's own pointer to what lasts as long as the process; the text is there, by the ABI.
    let (plugin, text) = unsafe { (&*context.cast::<PluginRecord>(), texts::name(text)) };
    let text = text.unwrap_or_else(|fault| format!("({fault})"));
    match level {
        1 => tracing::error!(target: "plugin", "{}: {text}", plugin.id),
        2 => tracing::warn!(target: "plugin", "{}: {text}", plugin.id),
        3 => tracing::info!(target: "plugin", "{}: {text}", plugin.id),
        4 => tracing::debug!(target: "plugin", "{}: {text}", plugin.id),
        _ => tracing::trace!(target: "plugin", "{}: {text}", plugin.id),
    }
}

unsafe extern "C" fn set_error(_context: *mut c_void, text: Text) {
    // SAFETY: the text is there, by the ABI.
    unsafe { texts::say(text) };
}
