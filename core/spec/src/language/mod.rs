//! The language. The tables of options ([`kind`], [`sections`]) define what can be written; [`spec`] and [`body`] are
//! a spec as written, [`config`] is its meaning for one file, and [`resolver`] computes it.

pub(crate) mod body;
pub(crate) mod closure;
pub(crate) mod config;
pub mod harmless;
pub mod kind;
pub(crate) mod nextn;
pub(crate) mod origin;
pub(crate) mod reads;
pub(crate) mod report;
pub(crate) mod resolver;
pub(crate) mod roles;
pub(crate) mod sections;
pub(crate) mod spec;
