//! [`Setup`]: the place and the weights of an instance.

use super::building::SetupData;
use super::host_table::take_errors;
use super::model::TestModel;
use crate::abi::Component;
use crate::error::Result;
use crate::layer_hook::Point;
use std::collections::{BTreeMap, BTreeSet};

/// A value of an option.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A whole number.
    Count(u64),
    /// A number.
    Real(f64),
    /// A name, or a text.
    Name(String),
}

impl From<usize> for Setting {
    fn from(count: usize) -> Setting {
        Setting::Count(count as u64)
    }
}

impl From<f64> for Setting {
    fn from(number: f64) -> Setting {
        Setting::Real(number)
    }
}

impl From<&str> for Setting {
    fn from(name: &str) -> Setting {
        Setting::Name(name.to_owned())
    }
}

/// What is done with options that nothing says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingOption {
    Refused,
    Chosen,
}

/// The place in the model, the options and the weights of an instance. Weights that are not set are random, from a seed.
#[derive(Clone, Debug)]
pub struct Setup {
    pub(super) width: usize,
    pub(super) layer: Option<usize>,
    pub(super) layers: usize,
    pub(super) point: Option<Point>,
    pub(super) options: BTreeMap<String, Setting>,
    pub(super) unsaid: MissingOption,
    pub(super) sizes: BTreeMap<String, u64>,
    pub(super) tensors: BTreeMap<String, Vec<f32>>,
    pub(super) absent: BTreeSet<String>,
    pub(super) read_slots: BTreeSet<String>,
    pub(super) vocabulary: Vec<(String, i32, f32)>,
    pub(super) merges: Vec<String>,
    pub(super) seed: u64,
    pub(super) threads: usize,
    pub(super) errors: fn() -> Option<String>,
}

impl Setup {
    /// The first of two layers, rows of `width` elements (D, a norm's width, elements of a head that rotate).
    pub fn new(width: usize) -> Setup {
        Setup {
            width,
            layer: Some(0),
            layers: 2,
            point: None,
            options: BTreeMap::new(),
            unsaid: MissingOption::Refused,
            sizes: BTreeMap::new(),
            tensors: BTreeMap::new(),
            absent: BTreeSet::new(),
            read_slots: BTreeSet::new(),
            vocabulary: Vec::new(),
            merges: Vec::new(),
            seed: 1,
            threads: 3,
            errors: take_errors,
        }
    }

    /// In layer `layer` of `layers`.
    #[must_use]
    pub fn layer(mut self, layer: usize, layers: usize) -> Setup {
        (self.layer, self.layers) = (Some(layer), layers);
        self
    }

    /// On this side of the layer; of layer hooks, which are else called after layers if they can be.
    #[must_use]
    pub fn point(mut self, point: Point) -> Setup {
        self.point = Some(point);
        self
    }

    /// With an option.
    #[must_use]
    pub fn option(mut self, name: &str, value: impl Into<Setting>) -> Setup {
        self.options.insert(name.to_owned(), value.into());
        self
    }

    /// Options without a default are chosen: 8, 0.5, the first name, or `text`.
    #[must_use]
    pub fn any_options(mut self) -> Setup {
        self.unsaid = MissingOption::Chosen;
        self
    }

    /// With a size that options do not say and a file would; else 16.
    #[must_use]
    pub fn size(mut self, symbol: &str, size: usize) -> Setup {
        self.sizes.insert(symbol.to_owned(), size as u64);
        self
    }

    /// With the numbers of a tensor, named as in a file (`time_mix_w1.weight`, `time_mix_ln.bias`; a norm's own are `.weight` and
    /// `.bias`), in the order of a file.
    #[must_use]
    pub fn tensor(mut self, name: &str, values: Vec<f32>) -> Setup {
        self.tensors.insert(name.to_owned(), values);
        self
    }

    /// Without a tensor that a file may lack, named as in [`Setup::tensor`].
    #[must_use]
    pub fn without(mut self, name: &str) -> Setup {
        self.absent.insert(name.to_owned());
        self
    }

    /// A slot that an earlier layer writes: [`TestModel::set_slot`] gives its rows.
    #[must_use]
    pub fn slot_to_read(mut self, name: &str) -> Setup {
        self.read_slots.insert(name.to_owned());
        self
    }

    /// With a token, text, GGUF's type and score; its id is the number of tokens before.
    #[must_use]
    pub fn token(mut self, text: &str, kind: i32, score: f32) -> Setup {
        self.vocabulary.push((text.to_owned(), kind, score));
        self
    }

    /// With a merge of two tokens, a space between.
    #[must_use]
    pub fn merge(mut self, pair: &str) -> Setup {
        self.merges.push(pair.to_owned());
        self
    }

    /// With weights of another seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Setup {
        self.seed = seed;
        self
    }

    /// With `parallel_for` over so many threads.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Setup {
        self.threads = threads.max(1);
        self
    }

    /// Where the texts are that the component gave to `set_error`, if it does not speak to this host (a library that another
    /// host has initialized).
    #[must_use]
    pub fn errors_from(mut self, errors: fn() -> Option<String>) -> Setup {
        self.errors = errors;
        self
    }

    /// An instance.
    ///
    /// # Errors
    /// An error of the component, or a missing option or tensor.
    pub fn create<'a>(&self, component: &'a Component) -> Result<TestModel<'a>> {
        TestModel::create(component, SetupData::new(component, self)?, self)
    }
}
