//! Adapters around linears: low-rank products added to those of a model that never changes.
//!
//! A model for adapters is assembled with [`AdapterSites`] as its wrapper, which numbers every linear, stack of experts
//! and table. An [`Adapter`] lists what it adds at each number; an [`AdapterSet`] is some adapters with their weights.
//! A step's [`crate::TransformContext::adapters`] lists sets, and each sequence of its layout refers to one, or none:
//! sites look up neither names nor maps. If no sequence of a step has a set, a site only checks an empty list.
//!
//! Formulas: LoRA `y = W x + w s B A x` (Hu et al., 2021); DoRA `y = m / |W + w s B A| (W + w s B A) x` with the norm
//! of each row (Liu et al., 2024), several at once one after the other as PEFT does; X-LoRA's weights per row, layer
//! and adapter ([`crate::Scalings`]) multiply `A x`, which is the same as multiplying `x` (Buehler and Buehler, 2024).

mod experts;
mod fixed;
mod linear;
mod row_selection;
mod sites;
mod table;
mod xlora;
mod xlora_classifier;
mod xlora_mixing;

pub use fixed::AdaptedFeedForward;
pub use sites::{AdapterSite, AdapterSites, SiteShape};
pub use xlora::XLoraModel;
pub use xlora_classifier::{XLoraActivation, XLoraClassifier};
pub use xlora_mixing::{ScalingNormalization, ScalingSpread, TopScalings, XLoraMixing};
