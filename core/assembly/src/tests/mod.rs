//! Tests of whole assemblies.
#![allow(clippy::unwrap_used)]

mod adapters;
mod config;
mod tiny;

use crate::{AssembledModel, Assembly};
use menagerie_model::WholeModel;

/// An assembly that is a whole model.
fn whole_model(assembly: Assembly) -> WholeModel {
    match assembly.model {
        AssembledModel::Whole(model) => model,
        _ => panic!("the assembly is not a whole model"),
    }
}
