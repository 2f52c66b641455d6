//! Mixers that the language knows and this build does not support: their specs are checked, their models are refused
//! by name.
//!
//! An implementation moves the kind to its own file, with [`Definition`](crate::kind::Definition) for its config.

use super::none::NoOptions;
use crate::kind::{Family, Kind, Options};

pub(super) const fn mixer(name: &'static str, doc: &'static str) -> Kind {
    Kind::not_built_in(Family::Mixer, name, doc, <NoOptions as Options>::TABLE, &[])
}
