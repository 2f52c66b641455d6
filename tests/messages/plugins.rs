//! Plugins that are refused.

use menagerie::plugin_host::PluginFault;

#[test]
fn plugins() {
    let said = messages![
        PluginFault::Unreadable("No such file or directory (os error 2)".to_owned()),
        PluginFault::NotALibrary { found: "a text file".to_owned() },
        PluginFault::Damaged("Invalid ELF section size or offset".to_owned()),
        PluginFault::OtherMachine {
            found: "Aarch64 (Elf, 64 bits, little-endian)".to_owned(),
            own: "X86_64 (Elf, 64 bits, little-endian)".to_owned()
        },
        PluginFault::Executable,
        PluginFault::NoManifest { section: ".mngplug" },
        PluginFault::Manifest("reserved bytes are not zero".to_owned()),
        PluginFault::Major { found: "2.0".to_owned(), own: "1.0".to_owned() },
        PluginFault::Minor { found: "1.9".to_owned(), own: "1.0".to_owned() },
        PluginFault::Capabilities { missing: vec!["slots".to_owned(), "capability 40".to_owned()] },
        PluginFault::CpuFeatures { missing: vec!["avx512f".to_owned()] },
        PluginFault::NoInit("menagerie_plugin_init_v1"),
        PluginFault::Trust("all users may write to /plugins; revoke this with `chmod o-w`".to_owned()),
        PluginFault::Open("dlopen failed: undefined symbol: memcpz".to_owned()),
        PluginFault::Swapped("it was replaced by another file".to_owned()),
        PluginFault::Init("failed: the license has run out".to_owned()),
        PluginFault::Register("it registers the norm `acme/norms:tanh` twice".to_owned()),
        PluginFault::Twice { id: "acme/norms".to_owned(), first: "/plugins/norms.so".to_owned() },
    ];
    insta::assert_snapshot!(said);
}
