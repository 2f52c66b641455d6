//! The library of `menagerie-top-n-sigma`: in this workspace that crate is linked into a program, and then has no symbols.

menagerie_plugin::library!(menagerie_top_n_sigma::MENAGERIE_PLUGIN);
