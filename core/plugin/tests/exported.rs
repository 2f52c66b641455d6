//! What `export!` makes: the manifest, and an init that registers everything or fails.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

mod components;

use components::*;
use menagerie_plugin::abi::{self, HostApi, Manifest, Registrar, Status, Text, capability};
use std::cell::RefCell;
use std::ffi::c_void;

menagerie_plugin::export! {
    id: "acme/every-family",
    components: [
        mixer Retention, mixer WindowMean, mixer Everywhere, feed_forward Shifted, norm DynamicTanh,
        activation Softsign, rope Stretched, sampler TopNSigma, tokenizer Longest,
    ],
    architectures: ["exported/retnet.toml"],
    tables: ["exported/letters.toml"],
    requires: capability::STATES | capability::LINEARS,
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end_matches('\0')
}

#[test]
fn the_manifest_says_what_the_plugin_is() {
    let manifest = MENAGERIE_PLUGIN.manifest;
    assert_eq!(manifest.magic, Manifest::MAGIC);
    assert_eq!(manifest.struct_size, 376);
    assert_eq!((manifest.abi_major, manifest.abi_minor), (1, 0));
    let required = capability::CPU_F32 | capability::STATES | capability::LINEARS;
    assert_eq!(manifest.required_capabilities, required);
    assert_eq!(text(&manifest.plugin_id), "acme/every-family");
    assert_eq!(text(&manifest.plugin_version), env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&manifest.sdk_version), env!("CARGO_PKG_VERSION"));
    assert!(text(&manifest.toolchain).starts_with("rustc 1."), "{}", text(&manifest.toolchain));
    assert!(text(&manifest.target).contains(std::env::consts::ARCH), "{}", text(&manifest.target));
    assert_eq!(manifest.panic_strategy, u8::from(cfg!(panic = "abort")));
    assert_eq!((manifest.padding, manifest.reserved), ([0; 7], [0; 8]));
}

/// What was registered, and after how many things the host refuses.
#[derive(Default)]
struct Registered {
    lines: RefCell<Vec<String>>,
    errors: RefCell<Vec<String>>,
    most: usize,
}

impl Registered {
    fn take(&self, line: String) -> Status {
        let mut lines = self.lines.borrow_mut();
        lines.push(line);
        if lines.len() > self.most { abi::ERROR } else { abi::OK }
    }
}

/// # Safety
/// A context of `init` below.
unsafe fn registered<'a>(context: *mut c_void) -> &'a Registered {
    // SAFETY: the promise above.
    unsafe { &*context.cast_const().cast::<Registered>() }
}

unsafe extern "C" fn component(context: *mut c_void, component: *const abi::Component) -> Status {
    // SAFETY: as the ABI says.
    unsafe {
        let component = abi::copied(component).unwrap();
        let functions = [
            component.forward.is_some(),
            component.frequencies.is_some(),
            component.sample.is_some(),
            component.encode.is_some() && component.decode.is_some(),
        ];
        let has = functions.iter().position(|has| *has).unwrap();
        assert_eq!(functions.iter().filter(|has| **has).count(), 1);
        registered(context).take(format!("{} {} {has}", component.family, component.name.as_str().unwrap()))
    }
}

unsafe extern "C" fn file(context: *mut c_void, file: Text, toml: Text) -> Status {
    // SAFETY: as the ABI says.
    unsafe { registered(context).take(format!("{}: {:?}", file.as_str().unwrap(), toml.as_str().unwrap())) }
}

unsafe extern "C" fn write_log(_context: *mut c_void, _level: u32, _text: Text) {}

unsafe extern "C" fn set_error(context: *mut c_void, text: Text) {
    // SAFETY: as the ABI says; the host of these tests outlives their plugins' calls.
    unsafe { registered(context).errors.borrow_mut().push(text.as_str().unwrap().to_owned()) }
}

fn init(most: usize, change: impl FnOnce(&mut HostApi, &mut Registrar)) -> (Status, &'static Registered) {
    // The host's table lives as long as the process.
    let registered: &'static Registered = Box::leak(Box::new(Registered { most, ..Registered::default() }));
    let context = (&raw const *registered).cast_mut().cast();
    let mut host = HostApi {
        header: abi::Header::of::<HostApi>(),
        capabilities: capability::ALL,
        cpu_features: 0,
        context,
        log: write_log,
        set_error,
    };
    let mut registrar = Registrar {
        header: abi::Header::of::<Registrar>(),
        context,
        add_component: component,
        add_architecture: file,
        add_table: file,
    };
    change(&mut host, &mut registrar);
    let host: &'static HostApi = Box::leak(Box::new(host));
    // SAFETY: both are what the ABI says.
    (unsafe { MENAGERIE_PLUGIN.init(host, &registrar) }, registered)
}

/// One test: a program has one host.
#[test]
fn init_registers_everything_or_fails() {
    let (status, registered) = init(100, |_, _| ());
    assert_eq!(status, abi::OK);
    assert_eq!(
        *registered.lines.borrow(),
        [
            "1 retention 0",
            "1 window-mean 0",
            "1 everywhere 0",
            "2 shifted 0",
            "3 dynamic-tanh 0",
            "4 softsign 0",
            "5 stretched 1",
            "6 top-n-sigma 2",
            "7 longest 3",
            "retnet.toml: \"# a spec\\n\"",
            "letters.toml: \"# a table\\n\"",
        ]
    );
    // What the host refuses ends it: the host has said why.
    let (status, registered) = init(3, |_, _| ());
    assert_eq!(
        (status, registered.lines.borrow().len(), registered.errors.borrow().len()),
        (abi::ERROR, 4, 0)
    );
    let (status, registered) = init(100, |_, registrar| registrar.header.struct_size = 16);
    assert_eq!((status, registered.lines.borrow().len()), (abi::ERROR, 0));
    let error = "expected a struct Registrar of at least 40 bytes, found 16";
    assert_eq!(*registered.errors.borrow(), [error]);
    // A host of another version is not spoken to at all.
    let (status, registered) = init(100, |host, _| host.header.abi_major = 2);
    assert_eq!((status, registered.errors.borrow().len()), (abi::ERROR, 0));
}

#[test]
#[cfg(feature = "static")]
fn a_plugin_that_is_linked_in_hands_itself_in() {
    let linked: Vec<_> = menagerie_plugin::StaticPlugin::all().collect();
    assert_eq!(linked.len(), 1);
    assert_eq!(text(&linked[0].manifest.plugin_id), "acme/every-family");
}
