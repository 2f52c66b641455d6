//! What a plugin of Menagerie is built against: the ABI ([`abi`]), and traits that hide it.
//!
//! A plugin adds components with names that specs use (`kind = "author/name:component"`). It is a C library by its ABI: no
//! type of Rust, no allocation and no panic crosses the border, so that author and host need not share a compiler.

pub mod abi;
