//! The language: what may be written ([`sections`], [`kind`]), a spec as it is written ([`spec`], [`written`]), what it
//! means ([`config`]), and how written values become numbers ([`resolving`]).
//!
//! These refer to each other: a kind is a table and a function that makes its config while a model is resolved.

pub(crate) mod body;
pub(crate) mod closure;
pub(crate) mod config;
pub mod harmless;
pub mod kind;
pub(crate) mod origin;
pub(crate) mod reads;
pub(crate) mod report;
pub(crate) mod resolver;
pub(crate) mod roles;
pub(crate) mod sections;
pub(crate) mod spec;
